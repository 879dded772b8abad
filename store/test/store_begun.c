/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that are begun and have not started: how many there are, and that they are pending for the process that holds
 * them.
 */
#include "store.h"

#include "inside.h"

#include "refuse.h"

#define THREADS 4
#define ROWS 60

static atomic_bool held;
static atomic_uint started;

/* A short task, or a task that lasts until it is released. */
static int wait_if_held(const hwt_store_run *run, void *ctx)
{
	(void)run;
	(void)ctx;
	atomic_fetch_add(&started, 1);
	while (atomic_load(&held))
		sleep_ms(1);
	atomic_fetch_add(&ran, 1);
	return 0;
}

/* A started store whose threads have run this number of short tasks. */
static hwt_store *after(unsigned runs)
{
	hwt_store *store = fresh_store();

	register_kind(store, "a", wait_if_held, NULL, HWT_STORE_AT_LEAST_ONCE);
	atomic_store(&started, 0);
	atomic_store(&held, false);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	for (unsigned i = 0; i < runs; i++) {
		put(store, "a", 0);
		CHECK(wait_count(&ran, i + 1));
	}
	(void)settled_stats(store);
	atomic_store(&held, true);
	return store;
}

static void put_rows(hwt_store *store, int64_t *ids)
{
	hwt_store_spec specs[ROWS];

	for (unsigned i = 0; i < ROWS; i++)
		specs[i] = spec_of("a", 0);
	CHECK_CALL(hwt_store_put_many(store, specs, ROWS, ids), 0);
}

static int64_t count_begun(void)
{
	return query("select count(*) from %s_timeout where state = 2", world.schema);
}

TEST(nothing_is_begun_ahead_of_runs_of_which_nobody_knows_how_long_they_take)
{
	int64_t ids[ROWS];
	unsigned cancelled = 0;
	hwt_store *store = after(0);

	put_rows(store, ids);
	CHECK(wait_count(&started, THREADS));
	sleep_ms(50); /* time in which more rows would be begun */
	CHECK_INT(count_begun(), ==, THREADS);
	for (unsigned i = 0; i < ROWS; i++)
		cancelled += hwt_store_cancel(store, ids[i]) == 0;
	CHECK_INT(cancelled, ==, ROWS - THREADS);
	atomic_store(&held, false);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(atomic_load(&ran), ==, THREADS);
}

#define FEW (THREADS + 4)

/*
 * All rows are begun, and stay so; the first THREADS of them have started, and the begins of the others have been
 * answered.
 */
static void put_few(hwt_store *store, const hwt_store_spec *spec, int64_t *ids)
{
	BEGIN_AHEAD(store);
	for (unsigned i = 0; i < FEW; i++) {
		if (i == THREADS) /* rows of two shards may start in either order */
			CHECK(wait_count(&started, 30 + THREADS));
		ids[i] = put_spec(store, spec);
	}
	WAIT_FOR(count_begun() == FEW);
	WAIT_FOR(LOCKED(store, hwts_queued(store, NULL)) == FEW - THREADS);
}

/* Lets the store give back rows that wait for a thread. */
static void let_give_back(hwt_store *store)
{
	atomic_store(&hwts_test_keeps_begun, false);
	hwts_lock(store);
	hwts_wake(store, HWTS_BEGIN);
	hwts_unlock(store);
}

static hwt_store *_Atomic gives_back;

/* Between the statement of a call and its answer, all rows that have not started are given back. */
static void give_back_once(const char *where)
{
	hwt_store *store = strcmp(where, "changed") == 0 ? atomic_exchange(&gives_back, NULL) : NULL;

	if (!store)
		return;
	let_give_back(store);
	WAIT_FOR(LOCKED(store, hwts_shards_active(store)) == THREADS);
}

static void give_back_behind_the_next_statement(hwt_store *store)
{
	atomic_store(&gives_back, store);
	atomic_store(&hwts_test_at, give_back_once);
}

static int reschedule_all(hwt_store *store, unsigned states, uint64_t *n)
{
	hwt_store_which which = { .size = sizeof(which), .kind = "a", .all = true, .states = states };

	return hwt_store_reschedule_ex(store, &which, (hwt_store_when){ .delay_ns = HWT_S(3600) }, n);
}

/* The statement has passed by rows that are begun, and the call looks for them afterwards. */
TEST(of_many_what_is_just_being_given_back_is_moved)
{
	hwt_store *store = after(30);
	hwt_store_spec spec = spec_of("a", 0);
	int64_t ids[FEW];
	uint64_t n;

	put_few(store, &spec, ids);
	give_back_behind_the_next_statement(store);
	CHECK_CALL(reschedule_all(store, 1u << HWT_STORE_PENDING, &n), 0);
	CHECK_INT(n, ==, FEW - THREADS);
	for (unsigned i = 0; i < FEW; i++) {
		hwt_store_info info = info_of(store, ids[i]);

		CHECK(info.state == HWT_STORE_RUNNING || info.due_us > hwts_wall_us() + HWTS_S_US * 1800);
	}
	atomic_store(&hwts_test_at, NULL);
	atomic_store(&held, false);
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(what_is_just_being_given_back_is_not_busy)
{
	hwt_store *store = after(30);
	hwt_store_which which = { .size = sizeof(which), .states = 1u << HWT_STORE_PENDING };
	hwt_store_spec spec = spec_of("a", 0);
	int64_t ids[FEW];

	put_few(store, &spec, ids);
	give_back_behind_the_next_statement(store);
	CHECK_CALL(hwt_store_cancel(store, ids[FEW - 1]), 0);
	BEGIN_AHEAD(store);
	WAIT_FOR(count_begun() == FEW - 1);
	give_back_behind_the_next_statement(store);
	CHECK_CALL(hwt_store_reschedule(store, ids[FEW - 2], HWT_S(3600)), 0);
	BEGIN_AHEAD(store);
	WAIT_FOR(count_begun() == FEW - 2);
	give_back_behind_the_next_statement(store);
	which.id = ids[FEW - 3];
	CHECK_CALL(hwt_store_cancel_ex(store, &which, NULL), 0);
	atomic_store(&hwts_test_at, NULL);
	atomic_store(&held, false);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* A cancel by another process makes the run the last.  The row is settled by that, though the run has not started. */
TEST(a_series_that_was_begun_ahead_of_its_start_is_cancelled_once)
{
	hwt_store *store = after(30), *other = open_store();
	hwt_store_spec spec = spec_of("a", 0);
	int64_t ids[FEW];

	spec.period_ns = HWT_S(3600);
	put_few(store, &spec, ids);
	for (unsigned i = 0; i < FEW; i++)
		CHECK_CALL(hwt_store_cancel(other, ids[i]), 0);
	for (unsigned i = 0; i < FEW; i++)
		CHECK(hwt_store_cancel(store, ids[i]) != 0);
	atomic_store(&held, false);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 0);
}

TEST(a_series_that_was_begun_ahead_and_is_cancelled_here_does_not_start)
{
	hwt_store *store = after(30);
	hwt_store_spec spec = spec_of("a", 0);
	int64_t ids[FEW];

	spec.period_ns = HWT_S(3600);
	put_few(store, &spec, ids);
	for (unsigned i = 0; i < FEW; i++)
		CHECK_CALL(hwt_store_cancel(store, ids[i]), 0);
	atomic_store(&held, false);
	for (unsigned i = 0; i < FEW; i++)
		CHECK(wait_gone(store, ids[i]));
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(atomic_load(&started), ==, 30 + THREADS);
}

/* In this process the row is pending, so it is among the pending timeouts, and not among the failed. */
TEST(what_was_begun_ahead_is_pending_where_states_are_chosen)
{
	hwt_store *store = after(30);
	hwt_store_which which = HWT_STORE_WHICH_INIT;
	hwt_store_spec spec = spec_of("a", 0);
	unsigned cancelled = 0;
	int64_t ids[FEW];

	put_few(store, &spec, ids);
	for (unsigned i = 0; i < FEW; i++) {
		which.id = ids[i];
		which.states = 1u << HWT_STORE_FAILED;
		CHECK(hwt_store_reschedule_ex(store, &which, (hwt_store_when){ .delay_ns = HWT_S(3600) }, NULL) != 0);
		which.states = 1u << HWT_STORE_PENDING;
		cancelled += hwt_store_cancel_ex(store, &which, NULL) == 0;
	}
	CHECK_INT(cancelled, ==, FEW - THREADS);
	atomic_store(&held, false);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(atomic_load(&started), ==, 30 + THREADS);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 0);
}

/* They are among the pending timeouts of a group as well. */
TEST(of_many_what_was_begun_ahead_is_pending_here)
{
	hwt_store *store = after(30);
	hwt_store_which which = { .size = sizeof(which), .kind = "a", .all = true };
	hwt_store_spec spec = spec_of("a", 0);
	int64_t ids[FEW];
	uint64_t n;

	put_few(store, &spec, ids);
	CHECK_CALL(hwt_store_reschedule_ex(store, &which, (hwt_store_when){ .delay_ns = HWT_S(3600) }, &n), 0);
	CHECK_INT(n, ==, FEW - THREADS);
	BEGIN_AHEAD(store);
	for (unsigned i = 0; i < FEW - THREADS; i++)
		(void)put_spec(store, &spec);
	WAIT_FOR(count_begun() == FEW);
	which.states = 1u << HWT_STORE_PENDING;
	CHECK_CALL(hwt_store_cancel_ex(store, &which, &n), 0);
	CHECK_INT(n, ==, 2 * (FEW - THREADS));
	which.states = 0;
	CHECK_CALL(hwt_store_cancel_ex(store, &which, &n), 0);
	CHECK_INT(n, ==, THREADS); /* the run of each is its last */
	atomic_store(&held, false);
	CHECK(wait_count(&ran, 30 + THREADS));
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 0);
}

static bool is_between(hwt_store *store, int64_t id)
{
	bool between;

	hwts_lock(store);
	between = hwts_window_begun(store, id, &between) && between;
	hwts_unlock(store);
	return between;
}

/* A run that never started cannot fail: its row is set aside until the database takes it back. */
TEST(what_the_database_refuses_to_take_back_is_not_FAILED)
{
	hwt_store *store = after(30);
	hwt_store_spec spec = spec_of("a", 0);
	int64_t ids[FEW];

	put_few(store, &spec, ids);
	refuse("update", "old.state = 2 and new.state = 1");
	let_give_back(store);
	WAIT_FOR(stats_of_store(store).set_aside == FEW - THREADS);
	CHECK_INT(count_begun(), ==, FEW);
	accept_again("update");
	atomic_store(&held, false);
	CHECK_CALL(hwt_store_close(store), 0); /* the close tries to give the row back again */
	CHECK_INT(query("select count(*) from %s_timeout where state = 1", world.schema), ==, FEW - THREADS);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, FEW - THREADS);
}

/* A row has waited for a thread for too long, and cannot be given back: perhaps the caller itself has locked it. */
TEST(a_call_about_what_cannot_be_given_back_comes_to_an_end)
{
	NEEDS_POSTGRES(); /* SQLite has one lock, and a call asks for it first */
	hwt_store *store = after(30);
	hwt_store_spec spec = spec_of("a", 0);
	void *connection = connect_user();
	int64_t ids[FEW];

	put_few(store, &spec, ids);
	CHECK(user_sql(connection, "begin"));
	CHECK(user_sql(connection, "select 1 from %s_timeout where id = %lld for update", world.schema,
		       (long long)ids[FEW - 1]));
	let_give_back(store);
	WAIT_FOR(is_between(store, ids[FEW - 1]));
	CHECK_INT(hwt_store_cancel(store, ids[FEW - 1]), ==, EAGAIN);
	CHECK(user_sql(connection, "rollback"));
	disconnect_user(connection);
	CHECK_CALL(hwt_store_cancel(store, ids[FEW - 1]), 0);
	atomic_store(&held, false);
	CHECK(wait_count(&started, 30 + FEW - 1));
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(atomic_load(&started), ==, 30 + FEW - 1);
}

/* The row runs at that time, for the first time. */
TEST(what_was_begun_ahead_of_its_start_can_be_rescheduled_here)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t ids[ROWS];
	unsigned moved = 0;
	CLOSING hwt_store *store = after(30);

	put_rows(store, ids);
	CHECK(wait_count(&started, 30 + THREADS));
	for (unsigned i = 0; i < ROWS; i++) {
		int rc = hwt_store_reschedule(store, ids[i], HWT_S(1000));

		moved += rc == 0;
		if (rc != 0)
			continue;
		CHECK_CALL(hwt_store_get(store, ids[i], &info), 0);
		CHECK_INT(info.state, ==, HWT_STORE_PENDING);
		CHECK_INT(info.attempt, ==, 0);
	}
	CHECK_INT(moved, ==, ROWS - THREADS);
	atomic_store(&held, false);
	CHECK(wait_count(&ran, 30 + THREADS));
	CHECK_INT(settled_stats(store).done, ==, 30 + THREADS);
	for (unsigned i = 0; i < ROWS; i++)
		(void)hwt_store_reschedule(store, ids[i], 0);
	CHECK(wait_count(&ran, 30 + ROWS));
}

/* Another process can cancel it as well, before the runs in front of it have ended. */
TEST(what_was_begun_ahead_of_runs_that_last_is_given_back)
{
	int64_t ids[ROWS];
	unsigned cancelled = 0;
	hwt_store *store = after(30), *other = open_store();

	put_rows(store, ids);
	CHECK(wait_count(&started, 30 + THREADS));
	/* Only after the others are begun: returning them shows how long runs take, and then no row is begun ahead. */
	WAIT_FOR(LOCKED(store, store->kinds->begun.run_ns) > HWT_MS(80));
	WAIT_FOR(count_begun() == THREADS);
	for (unsigned i = 0; i < ROWS; i++)
		cancelled += hwt_store_cancel(other, ids[i]) == 0;
	CHECK_INT(cancelled, ==, ROWS - THREADS);
	atomic_store(&held, false);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(atomic_load(&ran), ==, 30 + THREADS);
	CHECK_CALL(hwt_store_close(other), 0);
}

/* The first of the queue is one of larger priority, and there is always another of them. */
TEST(what_waits_behind_one_that_has_just_come_is_given_back)
{
	hwt_store *store = after(30);
	struct hwts_kind *kind = hwts_kind_find(store, "a");
	hwt_store_spec spec = spec_of("a", 0);
	int64_t ids[FEW];

	put_few(store, &spec, ids);
	hwts_lock(store);
	for (struct hwts_row *row = kind->begun.first; row; row = row->next)
		row->queued_ns += row == kind->begun.first ? HWT_S(3600) : -HWT_S(3600);
	kind->begun.since_ns -= HWT_S(3600);
	hwts_unlock(store);
	let_give_back(store);
	WAIT_FOR(count_begun() == THREADS + 1);
	CHECK_INT(LOCKED(store, hwts_queued(store, NULL)), ==, 1);
	atomic_store(&held, false);
	CHECK(wait_count(&ran, 30 + FEW));
	CHECK_CALL(hwt_store_close(store), 0);
}

static atomic_bool begins_last, begun;

static void hold_begin(const char *where)
{
	if (strcmp(where, "begun") != 0 || !atomic_load(&begins_last))
		return;
	atomic_store(&begun, true);
	while (atomic_load(&begins_last))
		sleep_ms(1);
}

/* All threads are busy, and the next begin is held once it is committed, however long runs have taken. */
static void hold_next(hwt_store *store)
{
	BEGIN_AHEAD(store);
	for (unsigned i = 0; i < THREADS; i++) {
		put(store, "a", 0);
		CHECK(wait_count(&started, 31 + i));
	}
	atomic_store(&begun, false);
	atomic_store(&begins_last, true);
	atomic_store(&hwts_test_at, hold_begin);
}

struct canceller {
	hwt_store *store;
	int64_t id;
	int rc;
};

static void *cancel_it(void *arg)
{
	struct canceller *canceller = arg;

	canceller->rc = hwt_store_cancel(canceller->store, canceller->id);
	return NULL;
}

/* The begin is committed, and no thread is free. */
TEST(a_cancel_waits_for_the_begin_that_is_under_way)
{
	hwt_store *store = after(30);
	struct canceller canceller = { .store = store };
	pthread_t thread;

	hold_next(store);
	canceller.id = put(store, "a", 0);
	WAIT_FOR(atomic_load(&begun));
	REQUIRE(pthread_create(&thread, NULL, cancel_it, &canceller) == 0);
	sleep_ms(30); /* time in which the call would answer that the row runs */
	atomic_store(&begins_last, false);
	REQUIRE(pthread_join(thread, NULL) == 0);
	CHECK_INT(canceller.rc, ==, 0);
	atomic_store(&hwts_test_at, NULL);
	atomic_store(&held, false);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(atomic_load(&ran), ==, 30 + THREADS);
}

/* The begin is committed, and not answered yet. */
TEST(what_is_replaced_while_its_begin_is_under_way_does_not_start_as_it_was)
{
	hwt_store *store = after(30);
	hwt_store_spec spec = spec_of("a", 0);
	int64_t id;

	hold_next(store);
	spec.key = "k";
	id = put_spec(store, &spec);
	WAIT_FOR(atomic_load(&begun));
	spec.flags = HWT_STORE_REPLACE;
	spec.delay_ns = HWT_S(3600);
	CHECK_INT(put_spec(store, &spec), ==, id);
	CHECK_INT(info_of(store, id).state, ==, HWT_STORE_RUNNING);
	atomic_store(&begins_last, false);
	atomic_store(&hwts_test_at, NULL);
	atomic_store(&held, false);
	CHECK(wait_store_state(store, id, HWT_STORE_PENDING));
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(atomic_load(&started), ==, 30 + THREADS);
}

STORE_MAIN(NULL)
