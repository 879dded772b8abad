/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts that replace: what their process tells the one that holds the shard.
 */
#include "store.h"

#include "core/store.h"

static hwt_store *_Atomic runner;
static atomic_bool may_end;

static int run_until_told(const hwt_store_run *run, void *ctx)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;

	(void)count_run(run, ctx);
	while (!atomic_load(&may_end) && hwt_now() < give_up_ns)
		sleep_ms(1);
	return 0;
}

/* A holder that does not look ahead for 200 s. */
static hwt_store *start_holder(hwt_store_task *task)
{
	hwt_store_config config = store_config();
	hwt_store *store;

	config.lease_ns = HWT_S(600);
	store = open_with(&config);
	register_kind(store, "a", task, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	return store;
}

/*
 * A timeout runs when a put of another process wants to replace it, and does not run any more when the put asks why it
 * was refused.
 */

static void end_the_run(const char *point)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;
	hwt_store_info info = HWT_STORE_INFO_INIT;

	if (strcmp(point, "refused") != 0)
		return;
	atomic_store(&may_end, true);
	while (hwt_store_get_key(atomic_load(&runner), "a", "key", &info) == 0 && info.state == HWT_STORE_RUNNING &&
	       hwt_now() < give_up_ns)
		sleep_ms(1);
}

/* The replacement is due at once. */
static void replace_what_ends(int64_t period_ns)
{
	hwt_store *store, *other;
	hwt_store_spec spec = spec_of("a", 0);

	fresh_world();
	if (world.sqlite)
		SKIP("SQLite asks in the transaction of the put");
	atomic_store(&ran, 0);
	atomic_store(&may_end, false);
	store = start_holder(run_until_told);
	other = open_store();
	atomic_store(&runner, store);
	spec.key = "key";
	spec.period_ns = period_ns;
	CHECK_CALL(hwt_store_put(other, &spec, NULL), 0);
	CHECK(wait_count(&ran, 1));
	atomic_store(&hwts_test_at, end_the_run);
	spec.period_ns = 0;
	spec.flags = HWT_STORE_REPLACE;
	CHECK_CALL(hwt_store_put(other, &spec, NULL), 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK(atomic_load(&may_end));
	CHECK(wait_count(&ran, 2));
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(a_put_that_replaces_what_has_just_ended_is_heard_at_once)
{
	replace_what_ends(0);
}

TEST(a_put_that_replaces_what_has_just_ended_its_period_is_heard_at_once)
{
	replace_what_ends(HWT_S(3600));
}

/*
 * A put that is due now shares its commit with one that replaces and is due in ten minutes
 */

TEST(a_put_that_shares_its_commit_with_one_that_replaces_is_heard_at_once)
{
	struct hwts_put puts[2] = { { .kind_name = "a" },
				    { .kind_name = "a", .key = "key", .replace = true, .when_us = 600 * HWTS_S_US } };
	int64_t first = 0, count;
	struct hwts_conn *conn;
	hwt_store *store, *other;

	fresh_world();
	atomic_store(&ran, 0);
	store = start_holder(count_run);
	other = open_store();
	CHECK_INT(hwts_kind_of(other, "a", NULL, &puts[0].kind), ==, 0);
	puts[1].kind = puts[0].kind;
	CHECK_INT(hwts_pool_get(other, &conn), ==, 0);
	if (other->engine->ids)
		CHECK_INT(other->engine->ids(conn, &first, &count), ==, 0);
	for (unsigned i = 0; i < 2; i++)
		puts[i].id = first + i;
	CHECK_INT(other->engine->put(conn, puts, 2, false), ==, 0);
	hwts_pool_put(other, conn);
	CHECK_INT(puts[0].rc, ==, 0);
	CHECK_INT(puts[1].rc, ==, 0);
	CHECK(wait_count(&ran, 1));
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(a_put_of_many_of_which_one_replaces_is_heard_at_once)
{
	hwt_store_spec specs[2] = { spec_of("a", 0), spec_of("a", HWT_S(600)) };
	hwt_store *store, *other;

	fresh_world();
	atomic_store(&ran, 0);
	store = start_holder(count_run);
	other = open_store();
	specs[1].key = "key";
	specs[1].flags = HWT_STORE_REPLACE;
	CHECK_CALL(hwt_store_put_many(other, specs, 2, NULL), 0);
	CHECK(wait_count(&ran, 1));
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

STORE_MAIN(NULL)
