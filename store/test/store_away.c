/* SPDX-License-Identifier: BSD-2-Clause */
/* The database away, and a lease that is being renewed. */
#include "store_query.h"

#define LEASE_NS HWT_S(1) /* ends while the database is away */

TEST(a_stop_without_a_database_comes_to_an_end)
{
	const char *ctl = getenv("HWT_POSTGRES_CTL");
	hwt_store *store;
	char command[256];
	int64_t id;

	if (on_sqlite() || !ctl)
		SKIP("of PostgreSQL, with a server that may be stopped");
	store = FRESH(.lease_ns = LEASE_NS);
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	(void)snprintf(command, sizeof(command), "%s -m immediate stop", ctl);
	CHECK_INT(system(command), ==, 0);
	CHECK_CALL(hwt_store_stop(store), 0); /* the lease ends in any case */
	{
		hwt_store_spec spec = spec_of("a", 0);
		hwt_store_info info = HWT_STORE_INFO_INIT;

		id = -7;
		CHECK_CALL(hwt_store_put(store, &spec, &id), ENOTCONN);
		CHECK_INT(id, ==, -7);
		CHECK_CALL(hwt_store_get(store, 1, &info), ENOTCONN);
		CHECK_CALL(hwt_store_start(store), ENOTCONN);
	}
	(void)snprintf(command, sizeof(command), "%s start", ctl);
	CHECK_INT(system(command), ==, 0);
	id = put(store, "a", 0);
	CHECK_CALL(hwt_store_start(store), 0); /* under new epochs: all from before the stop is forgotten */
	CHECK(wait_gone(store, id));
	CHECK(wait_held(store, 8));
	CHECK_CALL(hwt_store_close(store), 0);
}

/*
 * A renewal has read the clock just before the end of the lease and commits after it: its process trusts that lease.
 */

#ifdef HWT_STORE_POSTGRES
TEST(a_lease_that_is_being_renewed_is_not_over)
{
	NEEDS_POSTGRES(); /* SQLite takes its lock before it reads the clock */
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(1));

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	(void)query("insert into %s_member (name, incarnation, until_us, kinds) values ('other', 1, %lld, '{1}')",
		    world.schema, (long long)now_us());
	USER *conn = connect_user();
	CHECK(user_sql(conn, "begin; update %s_member set until_us = %lld where name = 'other'", world.schema,
		       (long long)(now_us() + 3600 * HWTS_S_US)));
	(void)query("update %s_shard set owner = 'other', epoch = epoch + 1", world.schema);
	CHECK(wait_held(store, 0));
	for (int i = 0; i < 75; i++, sleep_ms(20)) {
		CHECK_INT(query("select count(*) from %s_shard where owner = 'other'", world.schema), ==, 8);
		if (i == 50)
			CHECK(user_sql(conn, "commit"));
	}
	(void)query("update %s_member set until_us = 1 where name = 'other'", world.schema);
	CHECK(wait_held(store, 8)); /* now the lease is over */
	CHECK_INT(query("select until_us from %s_member where name = 'other'", world.schema), ==, 0);
}
#endif

STORE_MAIN(NULL)
