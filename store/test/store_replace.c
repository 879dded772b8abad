/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts that replace: what their process tells the one that holds the shard.
 */
#include "store.h"

#include "core/store.h"

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
	if (other->engine->draws_ahead)
		CHECK_INT(hwts_rows_draw(conn, &first, &count), ==, 0);
	for (unsigned i = 0; i < 2; i++)
		puts[i].id = first + i;
	CHECK_INT(hwts_rows_put(conn, puts, 2, false), ==, 0);
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
