/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An exchange with the database that fails, before its statement or after it with the reply lost (front.h).  The
 * simulation lets any exchange fail; this test covers what the simulation does not judge, and differences of the
 * engines.
 */
#include "store_query.h"

#include "front.h"

/* Only this process knows that the run did not start, so it must not leave the row to other processes. */
TEST(what_runs_at_most_once_is_not_failed_by_a_lost_reply_and_a_stop)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;
	CLOSING hwt_store *store = fresh_store();
	int64_t id;

	front_put_before(store);
	atomic_store(&front_only, "begin");
	front_arm(1, FRONT_AFTER, 1);
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_MOST_ONCE);
	id = put(store, "a", 0);
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(atomic_load(&front_failed) != NULL);
	CHECK_CALL(hwt_store_stop(store), 0);
	if (hwt_store_get(store, id, &info) == 0)
		CHECK_INT(info.state, ==, HWT_STORE_PENDING);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, id));
	CHECK_INT(atomic_load(&ran), ==, 1);
	atomic_store(&front_only, NULL);
}

/* The next look comes in 200 s unless asked for, and the net finds no row that is not overdue for as long. */
TEST(what_was_put_while_control_had_no_connection_is_read_after_it)
{
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(600));
	unsigned rescued = atomic_load(&hwts_test_rescued), failed;

	front_put_before(store);
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CLOSING hwt_store *other = open_store();
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	atomic_store(&front_only, "news");
	front_arm(1, FRONT_AFTER, INT32_MAX); /* each time that control reads news its connection breaks */
	put(other, "a", 0);
	failed = atomic_load(&front_count);
	WAIT_FOR(atomic_load(&front_count) >= failed + 3);
	front_arm(0, FRONT_AFTER, 0); /* the news of the put went to a connection that is gone */
	CHECK(wait_count(&ran, 1));
	CHECK_INT(atomic_load(&hwts_test_rescued), ==, rescued);
	atomic_store(&front_only, NULL);
}

/* No news is sent, so only a look can find the row, and that look fails; the next renewal is far off. */
TEST(what_a_look_that_failed_should_have_read_is_read_by_the_next)
{
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(1800));

	front_put_before(store);
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CLOSING hwt_store *other = open_store();
	count_passes("renewed");
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(atomic_load(&passes) > 1 && LOCKED(store, !store->reading->unread && !store->reading->sweep_due));
	atomic_store(&hwts_test_deaf, true);
	for (int i = 0; i < 50; i++)
		put(other, "a", 0);
	atomic_store(&front_only, "look");
	front_arm(1, FRONT_BEFORE, 1);
	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	hwts_poke(store);
	CHECK(wait_count(&ran, 50));
	CHECK(atomic_load(&front_failed) != NULL);
	front_arm(0, FRONT_BEFORE, 0);
	atomic_store(&front_only, NULL);
	atomic_store(&hwts_test_deaf, false);
	atomic_store(&hwts_test_at, NULL);
}

TEST(a_put_that_replaces_and_whose_reply_is_lost_tells_the_id_of_what_is_there)
{
	hwt_store_spec spec = SPEC("a", HWT_S(900), .key = "k", .flags = HWT_STORE_REPLACE);
	CLOSING hwt_store *store = fresh_store();
	int64_t first = put_key(store, "a", "k", HWT_S(600)), id = -1;

	front_put_before(store);
	front_callers_know = false;
	for (int way = 0; way < 3; way++) {
		front_arm(0, FRONT_AFTER, 0);
		CHECK_INT(put_spec(store, &spec), ==, first); /* connected again */
		/* If the id cannot be asked for, no id is better than the id of no put. */
		front_arm(1, FRONT_AFTER, way < 2 ? 1 : INT32_MAX);
		CHECK_CALL(way == 1 ? hwt_store_put_many(store, &spec, 1, &id) : hwt_store_put(store, &spec, &id),
			   ECONNRESET);
		CHECK_INT(id, ==, way < 2 ? first : 0);
	}
	front_arm(0, FRONT_AFTER, 0);
}

static atomic_uint told;

static void hear(void *ctx, const char *message)
{
	(void)ctx;
	atomic_fetch_add(&told, strstr(message, "other processes may have its shards") != NULL);
}

/*
 * The simulation has more processes that cannot do one thing or another; in this test each engine counts the able ones.
 */
TEST(a_process_that_cannot_begin_leaves_its_shards_to_others)
{
	CLOSING hwt_store *one = FRESH(.lease_ns = HWT_S(1), .warn = hear), *other = OPEN(.lease_ns = HWT_S(1));

	atomic_store(&told, 0);
	front_put_before(one);
	register_kind(one, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	register_kind(other, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(one), 0);
	CHECK_CALL(hwt_store_start(other), 0);
	CHECK(wait_held(other, 4));
	atomic_store(&front_only, "begin");
	front_arm(1, FRONT_BEFORE, INT32_MAX);
	for (unsigned i = 0; i < 64; i++)
		put(other, "a", 0);
	CHECK(wait_held(other, 8));
	CHECK(wait_count(&ran, 64));
	CHECK(wait_count(&told, 1));
	front_arm(0, FRONT_BEFORE, 0);
	atomic_store(&front_only, NULL);
	CHECK(wait_held(one, 4)); /* the process takes part again */
}

STORE_MAIN(NULL)
