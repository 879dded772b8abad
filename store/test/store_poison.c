/* SPDX-License-Identifier: BSD-2-Clause */
/* A task that kills its process: the rows that the process held, and how often the task is started. */
#include "store_query.h"

#include "inside.h"

static hwt_store_kind kind_of(hwt_store_task *task, unsigned max_attempts)
{
	hwt_store_kind kind = KIND(.name = "a", .task = task, .max_attempts = max_attempts, .backoff_ns = HWT_S(600));

	return kind;
}

static atomic_uint last_attempt;

static int note_attempt(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	atomic_store(&last_attempt, run->attempt);
	atomic_fetch_add(&ran, 1);
	return 0;
}

/* A started store with a row that a process held when it died, in this attempt. */
static hwt_store *after_a_death(unsigned attempt, unsigned max_attempts, int64_t period_ns, int64_t *id)
{
	hwt_store_kind kind = kind_of(note_attempt, max_attempts);
	hwt_store *store = fresh_store();

	CHECK_CALL(register_patiently(store, &kind), 0);
	CHECK_CALL(put_patiently(store, &SPEC("a", 0, .period_ns = period_ns), id), 0);
	(void)query("update %s_timeout set state = 2, epoch = 0, attempt = %u", world.schema, attempt);
	CHECK_CALL(hwt_store_start(store), 0);
	return store;
}

TEST(what_a_dead_process_held_in_a_later_attempt_waits_its_back_off)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t id, before_us = now_us();
	CLOSING hwt_store *store = after_a_death(2, 4, 0, &id);

	CHECK(wait_store_state(store, id, HWT_STORE_PENDING));
	CHECK_CALL(hwt_store_get(store, id, &info), 0);
	CHECK_INT(info.attempt, ==, 2);
	/* The second back-off is twice as long as the first. */
	CHECK_INT(info.due_us, >=, before_us + 1200 * INT64_C(1000000));
	CHECK(strstr(info.error, "its process died") != NULL);
	CHECK_INT(atomic_load(&ran), ==, 0);
}

TEST(a_series_that_a_dead_process_held_waits_for_the_next_time_of_its_grid)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t id, base_us;
	CLOSING hwt_store *store = after_a_death(2, 4, HWT_S(1000), &id);

	CHECK(wait_store_state(store, id, HWT_STORE_PENDING));
	CHECK_CALL(hwt_store_get(store, id, &info), 0);
	base_us = query("select base_us from %s_timeout", world.schema);
	CHECK_INT(info.due_us, >, base_us);
	CHECK_INT((info.due_us - base_us) % (1000 * 1000000), ==, 0);
	CHECK_INT(atomic_load(&ran), ==, 0);
}

TEST(what_a_dead_process_held_beyond_the_cap_of_its_group_waits_for_its_turn)
{
	hwt_store_kind kind = kind_of(note_attempt, 4);
	CLOSING hwt_store *store = fresh_store();

	CHECK_CALL(register_patiently(store, &kind), 0);
	CHECK_CALL(hwt_store_limit(store, "a", "g", &LIMITS(.running = 1)), 0);
	for (int i = 0; i < 3; i++)
		(void)put_spec(store, &SPEC("a", 0, .group = "g"));
	(void)query("update %s_timeout set state = 2, epoch = 0, attempt = 1", world.schema);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&ran, 3));
	CHECK_INT(atomic_load(&last_attempt), ==, 2);
}

/*
 * After a death the last starts of a group are unknown, so none starts within the hour; its rows can be cancelled
 * meanwhile.
 */
TEST(what_a_dead_process_held_in_a_group_without_a_token_is_pending)
{
	hwt_store_kind kind = kind_of(note_attempt, 4);
	CLOSING hwt_store *store = fresh_store();
	hwt_store_which all = { .size = sizeof(all), .kind = "a", .group = "g", .all = true };
	uint64_t n = 0;

	CHECK_CALL(register_patiently(store, &kind), 0);
	CHECK_CALL(hwt_store_limit(store, "a", "g", &LIMITS(.start_every_ns = HWT_S(3600), .burst = 1)), 0);
	for (int i = 0; i < 3; i++)
		(void)put_spec(store, &SPEC("a", 0, .group = "g"));
	(void)query("update %s_shard set epoch = 7", world.schema);
	(void)query("update %s_timeout set state = 2, epoch = 7, attempt = 1", world.schema);
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(COUNT("state = 1 and attempt = 1") == 3);
	CHECK_CALL(hwt_store_cancel_ex(store, &all, &n), 0);
	CHECK_INT(n, ==, 3);
	CHECK_INT(atomic_load(&ran), ==, 0);
}

static atomic_bool held, started;
static uint64_t begun_before; /* when the row that holds the thread had started */

static int wait_until_let_go(const hwt_store_run *run, void *ctx)
{
	(void)run;
	(void)ctx;
	atomic_store(&started, true);
	while (atomic_load(&held))
		sleep_ms(1);
	atomic_fetch_add(&ran, 1);
	return 0;
}

static bool waits_for_a_thread(hwt_store *store)
{
	const struct hwts_entry *entry;

	return LOCKED(store, (entry = hwts_window_peek(store->kinds)) && entry->last);
}

/* A store whose only thread is busy, with a row whose last attempt is due, and then twenty others. */
static hwt_store *with_a_last_attempt(int64_t *id)
{
	hwt_store_kind kind = kind_of(wait_until_let_go, 3);
	hwt_store *store = FRESH(.threads = 1);

	CHECK_CALL(register_patiently(store, &kind), 0);
	atomic_store(&held, true);
	atomic_store(&started, false);
	put(store, "a", 0);
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(atomic_load(&started));
	begun_before = stats_of_store(store).begun;
	BEGIN_AHEAD(store);
	*id = put(store, "a", HWT_S(3600));
	(void)query("update %s_timeout set attempt = 2 where state = 1", world.schema);
	CHECK_CALL(hwt_store_reschedule(store, *id, 0), 0);
	WAIT_FOR(waits_for_a_thread(store));
	for (int i = 0; i < 20; i++)
		put(store, "a", 0);
	return store;
}

/* A process that dies must not have begun the last attempt of a row that could not start. */
TEST(a_last_attempt_is_begun_for_a_thread_that_is_free)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t id;
	CLOSING hwt_store *store = with_a_last_attempt(&id);

	CHECK(waits_for_a_thread(store));
	CHECK_CALL(hwt_store_get(store, id, &info), 0);
	CHECK_INT(info.state, ==, HWT_STORE_PENDING);
	CHECK_INT(info.attempt, ==, 2);
	CHECK_INT(stats_of_store(store).begun, ==, begun_before); /* the row was not given back meanwhile */
	atomic_store(&held, false);
	CHECK(wait_count(&ran, 22));
}

STORE_MAIN(NULL)
