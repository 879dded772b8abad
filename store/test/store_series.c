/* SPDX-License-Identifier: BSD-2-Clause */
/* A series that is cancelled in a run: that run is its last, whatever it answers and however it ends. */
#include "store_query.h"

#include "base/calendar.h"
#include "inside.h"

/* A task that notes its starts, and waits until it is released. */
static atomic_uint started, released;
static atomic_char letter;

static int wait_and_answer(const hwt_store_run *run, void *ctx)
{
	unsigned i = atomic_fetch_add(&started, 1);

	(void)ctx;
	while (atomic_load(&released) <= i)
		sleep_ms(1);
	return answer_by(run, atomic_load(&letter), 0);
}

static hwt_store *store_in(unsigned mode)
{
	hwt_store *store;

	fresh_world();
	atomic_store(&started, 0);
	atomic_store(&released, 0);
	atomic_store(&letter, '0');
	store = open_store();
	register_kind(store, "a", wait_and_answer, NULL, mode);
	return store;
}

static int64_t put_series(hwt_store *store, int64_t period_ns)
{
	return put_spec(store, &SPEC("a", 0, .key = "k", .period_ns = period_ns));
}

static void answer_with(char answer)
{
	atomic_store(&letter, answer);
	atomic_fetch_add(&released, 1);
}

/* Checks a cancelled series during its last run. */
static void check_running(hwt_store *store, int64_t id)
{
	hwt_store_spec spec = SPEC("a", 0, .key = "k");
	int64_t found = 0;

	CHECK_CALL(hwt_store_cancel(store, id), EBUSY);
	CHECK_CALL(hwt_store_cancel_key(store, "a", "k"), EBUSY);
	CHECK_CALL(hwt_store_reschedule(store, id, 0), EBUSY);
	CHECK_CALL(hwt_store_put(store, &spec, &found), EEXIST);
	CHECK_INT(found, ==, id);
	spec.flags = HWT_STORE_REVIVE;
	CHECK_CALL(hwt_store_put(store, &spec, &found), EEXIST);
	CHECK_INT(info_of(store, id).state, ==, HWT_STORE_RUNNING);
}

/* SQLite: during a task's transaction no other connection can cancel. */
static bool can_cancel_in(unsigned mode)
{
	return mode != HWT_STORE_TRANSACTION || !world.sqlite;
}

TEST(the_run_in_which_a_series_is_cancelled_is_its_last_whatever_it_answers)
{
	static const char answers[] = "0fage";

	for (unsigned mode = 0; mode < 3; mode++) {
		CLOSING hwt_store *store = store_in(mode);

		if (can_cancel_in(mode))
			CHECK_CALL(hwt_store_start(store), 0);
		for (unsigned i = 0; i < strlen(answers) && can_cancel_in(mode); i++) {
			int64_t id = put_series(store, HWT_S(3600));

			CHECK(wait_count(&started, i + 1));
			if (i % 2 == 0)
				CHECK_CALL(hwt_store_cancel(store, id), 0);
			else
				CHECK_CALL(hwt_store_cancel_key(store, "a", "k"), 0);
			check_running(store, id);
			answer_with(answers[i]);
			CHECK(wait_gone(store, id));
			CHECK_INT(atomic_load(&started), ==, i + 1);
		}
		CHECK_INT(settled_stats(store).failed, ==, 0);
		CHECK_INT(stats_of_store(store).retried, ==, 0);
		CHECK_INT(stats_of_store(store).cancelled, ==, can_cancel_in(mode) ? strlen(answers) : 0);
		CHECK_INT(stats_of_store(store).done, ==, can_cancel_in(mode) ? 2 : 0);
	}
}

/* As a cancel that the process did not hear of before the task's transaction began. */
static int cancel_by_hand(const hwt_store_run *run, void *ctx)
{
	CHECK(user_sql(run->connection, "update %s_timeout set last = true where id = %lld", world.schema,
		       (long long)run->id));
	atomic_fetch_add(&started, 1);
	(void)ctx;
	return 0;
}

TEST(a_series_that_was_cancelled_ends_in_the_transaction_of_its_task)
{
	hwt_store_kind kind = KIND(.name = "a", .task = cancel_by_hand, .mode = HWT_STORE_TRANSACTION);
	int64_t id;

	fresh_world();
	atomic_store(&started, 0);
	CLOSING hwt_store *store = open_store();
	CHECK_CALL(register_patiently(store, &kind), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	id = put_series(store, HWT_S(3600));
	CHECK(wait_gone(store, id));
	CHECK_INT(atomic_load(&started), ==, 1);
}

static void *cancel_it(void *arg)
{
	hwt_store *const *store = arg;
	int64_t id = *(const int64_t *)(store + 1);
	int rc;

	PATIENTLY(rc, hwt_store_cancel(*store, id));
	return (void *)(intptr_t)rc;
}

TEST(of_many_cancels_of_a_series_that_runs_one_gets_0)
{
	CLOSING hwt_store *store = store_in(HWT_STORE_AT_LEAST_ONCE);
	struct {
		hwt_store *store;
		int64_t id;
	} it = { store, 0 };
	pthread_t threads[8];
	unsigned had = 0, busy = 0;

	CHECK_CALL(hwt_store_start(store), 0);
	it.id = put_series(store, HWT_S(3600));
	CHECK(wait_count(&started, 1));
	for (int i = 0; i < 8; i++)
		REQUIRE(pthread_create(&threads[i], NULL, cancel_it, &it) == 0);
	for (int i = 0; i < 8; i++) {
		void *rc;

		REQUIRE(pthread_join(threads[i], &rc) == 0);
		had += (intptr_t)rc == 0;
		busy += (intptr_t)rc == EBUSY;
	}
	CHECK_INT(had, ==, 1);
	CHECK_INT(busy, ==, 7);
	answer_with('0');
	CHECK(wait_gone(store, it.id));
}

/* The process dies in the run: no other process takes the row over. */
TEST(a_series_that_was_cancelled_goes_when_its_process_dies)
{
	for (unsigned mode = 0; mode < 3; mode++) {
		CLOSING hwt_store *store = store_in(mode);
		int64_t id = put_series(store, HWT_S(3600));

		(void)query("update %s_timeout set state = 2, epoch = 0, attempt = 1", world.schema);
		CHECK_CALL(hwt_store_cancel(store, id), 0);
		CHECK_CALL(hwt_store_cancel(store, id), EBUSY);
		atomic_store(&released, 99);
		CHECK_CALL(hwt_store_start(store), 0);
		CHECK(wait_gone(store, id));
		CHECK_INT(atomic_load(&started), ==, 0);
		CHECK_INT(settled_stats(store).failed, ==, 0);
	}
}

/* Without a back-off such a row would begin and end once a second, for ever. */
TEST(a_series_whose_zone_is_missing_here_backs_off_though_no_attempt_counts)
{
	CLOSING hwt_store *store = store_in(0);
	hwt_store_spec spec = SPEC("a", 0, .schedule = "0 * * * *", .zone = "Europe/Berlin",
				   .flags = HWT_STORE_ABSOLUTE, .due_us = now_us() - INT64_C(4) * 3600 * 1000000);
	int64_t id = put_spec(store, &spec);

	atomic_store(&hwts_test_zones, "/nowhere");
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(info_of(store, id).error[0] != '\0');
	atomic_store(&hwts_test_zones, NULL);
	/* The kind's first back-off is 20 ms. */
	CHECK_INT(info_of(store, id).due_us, >, now_us() + INT64_C(15) * 1000000);
	CHECK_INT(info_of(store, id).attempt, ==, 0);
	CHECK_INT(atomic_load(&started), ==, 0);
}

STORE_MAIN(NULL)
