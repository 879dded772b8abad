/* SPDX-License-Identifier: BSD-2-Clause */
/* The views that a person reads.  No process runs a row in this test, which writes the rows itself. */
#include "store_query.h"

#define HAS(count, view, ...) CHECK_INT(query("select count(*) from " view " where " __VA_ARGS__), ==, count)

/* 2100-01-01 00:00:00.125 */
#define DUE_US INT64_C(4102444800125000)

static int64_t put_at(hwt_store *store, const char *kind, const char *key, int64_t due_us)
{
	hwt_store_spec spec = SPEC(kind, 0, .key = key, .due_us = due_us, .flags = HWT_STORE_ABSOLUTE);

	return put_spec(store, &spec);
}

/* The moment DUE_US, as the database writes it. */
static const char *due_text(void)
{
	return world.sqlite ? "'2100-01-01 00:00:00.125'" : "timestamptz '2100-01-01 00:00:00.125+00'";
}

static void check_pending(hwt_store *store)
{
	int64_t id = put_at(store, "a", "k\xc3\xa9y", DUE_US);

	HAS(1, "%s_timeouts", "id = %lld and kind = 'a' and key = 'k\xc3\xa9y' and state = 'pending' and due = %s",
	    world.schema, (long long)id, due_text());
	HAS(1, "%s_timeouts",
	    "id = %lld and not overdue and attempt = 0 and grp is null and repeats is null and owner is "
	    "null and error is null",
	    world.schema, (long long)id);
	(void)query("update %s_shard set owner = 'host 1' where id = (select shard from %s_timeout where id = %lld)",
		    world.schema, world.schema, (long long)id);
	(void)query(
	    "update %s_timeout set grp = 'tenant 9', attempt = 3, error = 'no route', period_us = 1500000 where id "
	    "= %lld",
	    world.schema, (long long)id);
	HAS(1, "%s_timeouts",
	    "id = %lld and grp = 'tenant 9' and attempt = 3 and error = 'no route' and owner = 'host 1' "
	    "and repeats = 'every 1.5 s'",
	    world.schema, (long long)id);
	(void)query("update %s_timeout set period_us = 0, schedule = '0 8 * * 1-5' where id = %lld", world.schema,
		    (long long)id);
	HAS(1, "%s_timeouts", "id = %lld and repeats = '0 8 * * 1-5'", world.schema, (long long)id);
	(void)query("update %s_timeout set zone = 'Europe/Berlin' where id = %lld", world.schema, (long long)id);
	HAS(1, "%s_timeouts", "id = %lld and repeats = '0 8 * * 1-5 Europe/Berlin'", world.schema, (long long)id);
}

TEST(a_person_reads_each_column_of_a_timeout)
{
	CLOSING hwt_store *store = fresh_store();
	int64_t id;

	check_pending(store);
	id = put_at(store, "a", NULL, INT64_C(1000000));
	HAS(1, "%s_timeouts", "id = %lld and key is null and overdue", world.schema, (long long)id);
	(void)query("update %s_timeout set state = 2, attempt = 1 where id = %lld", world.schema, (long long)id);
	HAS(1, "%s_timeouts", "id = %lld and state = 'running' and not overdue", world.schema, (long long)id);
	(void)query("update %s_shard set owner = 'host 2' where id = (select shard from %s_timeout where id = %lld)",
		    world.schema, world.schema, (long long)id);
	(void)query("update %s_timeout set state = 3, shard = -1 - shard where id = %lld", world.schema, (long long)id);
	HAS(1, "%s_timeouts", "id = %lld and state = 'failed' and owner = 'host 2' and due is not null and not overdue",
	    world.schema, (long long)id);
}

TEST(a_person_reads_each_column_of_a_kind)
{
	CLOSING hwt_store *store = fresh_store();
	int64_t id;

	(void)put_at(store, "a", NULL, DUE_US);
	(void)put_at(store, "b", NULL, DUE_US + 1000000);
	for (int i = 0; i < 20; i++)
		(void)put_at(store, "a", NULL, DUE_US + 1000000);
	HAS(1, "%s_kinds", "kind = 'a' and not paused and limits is null and failed = 0 and oldest_due = %s",
	    world.schema, due_text());
	id = put_at(store, "a", NULL, 1000000);
	(void)query("update %s_timeout set state = 3, shard = -1 - shard where id = %lld", world.schema, (long long)id);
	id = put_at(store, "a", NULL, 1000000);
	(void)query("update %s_timeout set state = 2 where id = %lld", world.schema, (long long)id);
	HAS(1, "%s_kinds", "kind = 'a' and failed = 1 and oldest_due = %s", world.schema, due_text());
	HAS(1, "%s_kinds", "kind = 'b' and failed = 0 and oldest_due > %s", world.schema, due_text());
	(void)query("update %s_kind set paused = %s, running = 5, start_every_us = 250000, burst = 10 where name = 'b'",
		    world.schema, world.sqlite ? "1" : "true");
	HAS(1, "%s_kinds", "kind = 'b' and paused and limits = 'running 5, a start every 0.25 s, burst 10'",
	    world.schema);
	(void)query("update %s_kind set running = null, burst = null where name = 'b'", world.schema);
	HAS(1, "%s_kinds", "kind = 'b' and limits = 'a start every 0.25 s'", world.schema);
	(void)query("delete from %s_timeout", world.schema);
	HAS(2, "%s_kinds", "failed = 0 and oldest_due is null", world.schema);
}

TEST(open_makes_the_views_that_are_missing)
{
	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	(void)query("drop view %s_kinds", world.schema);
	CHECK_CALL(hwt_store_close(open_store()), 0);
	HAS(0, "%s_kinds", "kind <> ''", world.schema);
	(void)query("drop view %s_timeouts", world.schema);
	CHECK_CALL(hwt_store_close(open_store()), 0);
	HAS(0, "%s_timeouts", "kind <> ''", world.schema);
}

/* A table of a user has the name. */
TEST(a_view_that_cannot_be_made_is_gone_without)
{
	hwt_store *store;

	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	(void)query("drop view %s_kinds", world.schema);
	(void)query("drop view %s_timeouts", world.schema);
	(void)query("create table %s_kinds (mine int)", world.schema);
	store = open_store();
	(void)put(store, "a", 0);
	CHECK_CALL(hwt_store_close(store), 0);
	HAS(0, "%s_kinds", "mine = 1", world.schema);
}

/* The role may create tables, but does not own those of the store. */
TEST(a_role_that_may_not_make_the_views_goes_on_without)
{
	NEEDS_POSTGRES();
	char role[64], url[TEXT_MAX];

	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	(void)snprintf(role, sizeof(role), "%s_app", world.schema);
	url_of_role(url, role);
	(void)query("create role %s login; grant create on schema public to %s", role, role);
	(void)query("grant select, insert, update, delete on all tables in schema public to %s", role);
	(void)query("drop view %s_timeouts, %s_kinds", world.schema, world.schema);
	(void)snprintf(world.url, sizeof(world.url), "%s", url);
	{
		CLOSING hwt_store *store = open_store();

		(void)put(store, "a", 0);
	}
	(void)snprintf(world.url, sizeof(world.url), "%s", getenv("HWT_STORE_URL"));
	HAS(0, "pg_class", "relname = '%s_kinds'", world.schema);
	CHECK_CALL(hwt_store_close(open_store()), 0); /* the owner */
	HAS(1, "%s_timeouts", "kind = 'a'", world.schema);
}

/* test/exec.sh has asked for partitions. */
TEST(a_partitioned_table_is_one)
{
	NEEDS_POSTGRES();
	bool wanted = getenv("HWT_POSTGRES_PARTITIONED") != NULL;

	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	HAS(wanted, "pg_class", "relname = '%s_timeout' and relkind = 'p'", world.schema);
	HAS(wanted ? 8 : 0, "pg_inherits", "inhparent = to_regclass('%s_timeout')", world.schema);
}

STORE_MAIN(NULL)
