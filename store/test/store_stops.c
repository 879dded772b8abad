/* SPDX-License-Identifier: BSD-2-Clause */
/* A stop does not wait for acts that may last: a task, another session's lock, a look. */
#include "store_query.h"

#include "inside.h"

static atomic_bool held;
static atomic_uint started, told;

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

static void hear(void *ctx, const char *message)
{
	(void)ctx;
	atomic_fetch_add(&told, strstr(message, "look-ahead") != NULL);
}

static hwt_store *started_with(int64_t lease_ns, hwt_store_task *task, uint64_t shards)
{
	hwt_store *store;

	store = OPEN(.lease_ns = lease_ns, .warn = hear);
	register_kind(store, "a", task, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, shards));
	return store;
}

static hwt_store *started_in_fresh_world(int64_t lease_ns)
{
	fresh_world();
	atomic_store(&started, 0);
	atomic_store(&told, 0);
	atomic_store(&held, true);
	return started_with(lease_ns, wait_if_held, 8);
}

/* No lease ends in this test: the other process has shards only because the stop hands them over. */
TEST(a_stop_within_a_time_gives_the_shards_and_leaves_the_tasks)
{
	CLOSING hwt_store *store = started_in_fresh_world(HWT_S(600));
	hwt_store *other;
	int64_t id = put(store, "a", 0);

	CHECK(wait_count(&started, 1));
	CHECK_CALL(hwt_store_stop_within(store, HWT_MS(5)), ETIMEDOUT);
	CHECK_INT(stats_of_store(store).shards_held, ==, 0);
	CHECK_CALL(hwt_store_start(store), EBUSY);
	CHECK_CALL(hwt_store_stop_within(store, 0), ETIMEDOUT);
	other = started_with(HWT_S(600), count_run, 8);
	CHECK(wait_gone(other, id)); /* it has run in the other process */
	CHECK_INT(atomic_load(&ran), ==, 1);
	CHECK_INT(settled_stats(other).done, ==, 1);
	atomic_store(&held, false);
	CHECK_CALL(hwt_store_stop_within(store, PATIENCE_NS), 0);
	CHECK_INT(atomic_load(&ran), ==, 2);
	CHECK_INT(stats_of_store(store).done, ==, 0); /* its end was refused */
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	put(store, "a", 0);
	CHECK(wait_count(&ran, 3));
	CHECK_CALL(hwt_store_stop_within(store, PATIENCE_NS), 0);
	CHECK_CALL(hwt_store_stop_within(store, 0), 0);
}

static void *stop(void *store)
{
	CHECK_CALL(hwt_store_stop(store), 0);
	return NULL;
}

/* No lease ends in this test either: rows of the shards that are handed over do not wait for the task. */
TEST(others_have_what_a_process_gives_while_its_stop_waits_for_a_task)
{
	hwt_store *store = started_in_fresh_world(HWT_S(600));
	CLOSING hwt_store *other = started_with(HWT_S(600), count_run, 4);
	pthread_t stopper;

	while (atomic_load(&started) == 0) { /* only one, as each running task keeps its shard */
		put(store, "a", 0);
		WAIT_FOR(atomic_load(&started) > 0 || query("select count(*) from %s_timeout", world.schema) == 0);
	}
	REQUIRE(pthread_create(&stopper, NULL, stop, store) == 0);
	CHECK(wait_held(other, 7)); /* all but the shard of the task */
	atomic_store(&held, false);
	REQUIRE(pthread_join(stopper, NULL) == 0);
	CHECK(wait_held(other, 8));
	CHECK_CALL(hwt_store_close(store), 0);
}

#ifdef HWT_STORE_POSTGRES
/* Closes the store while this lock is held. */
static void check_close(hwt_store *store, void *connection)
{
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK(user_sql(connection, "rollback"));
	disconnect_user(connection);
}

TEST(a_close_does_not_wait_for_a_row_that_stays_locked)
{
	NEEDS_POSTGRES(); /* SQLite has no locks of rows */
	hwt_store *store = started_in_fresh_world(HWT_S(1));
	void *connection = connect_user();

	put(store, "a", 0);
	CHECK(wait_count(&started, 1));
	CHECK(user_sql(connection, "begin; select 1 from %s_timeout for update", world.schema));
	atomic_store(&held, false);
	check_close(store, connection);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 1); /* left for the next process */
}

/* A look that fails because of the lock, after 10 s, would report it. */
TEST(a_close_ends_the_look_that_is_under_way)
{
	NEEDS_POSTGRES(); /* SQLite has no locks of tables */
	hwt_store *store = started_in_fresh_world(HWT_S(600));
	void *connection = connect_user();

	CHECK(user_sql(connection, "begin; lock table %s_timeout in access exclusive mode", world.schema));
	hwts_lock(store); /* without a renewal, which would wait for the lock as well */
	store->reading->again = true;
	hwts_wake(store, HWTS_READ);
	hwts_unlock(store);
	WAIT_FOR(query("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") != 0);
	check_close(store, connection);
	CHECK_INT(atomic_load(&told), ==, 0);
}
#endif

STORE_MAIN(NULL)
