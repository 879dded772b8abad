/* SPDX-License-Identifier: BSD-2-Clause */
/* PostgreSQL with more than one role, and more than one store in a database. */
#include "store_query.h"

#ifdef HWT_STORE_POSTGRES

static hwt_store *open_as(const char *url)
{
	hwt_store_config config = store_config();
	hwt_store *store = NULL;

	CHECK_CALL(hwt_store_open(&store, url, &config, NULL, 0), 0);
	REQUIRE(store != NULL);
	return store;
}

static char other_role[64];

static void grant_all(const char *role)
{
	static const char *const tables[] = { "meta", "kind", "group", "shard", "member", "timeout" };

	for (size_t i = 0; i < HWTS_COUNT(tables); i++)
		(void)query("grant all on %s_%s to %s", world.schema, tables[i], role);
	(void)query("do 'declare s text; begin for s in select sequencename from pg_sequences loop"
		    " execute format(''grant all on sequence %%I to %s'', s); end loop; end'",
		    role);
}

/* A notification that fails stands for a full queue of notifications. */
TEST(a_process_joins_runs_and_leaves_though_nothing_can_be_notified)
{
	NEEDS_POSTGRES();
	char url[TEXT_MAX], role[64];
	hwt_store *store = fresh_store();

	(void)snprintf(role, sizeof(role), "%s_mute", world.schema);
	(void)query("create role %s login", role);
	url_of_role(url, role);
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_close(store), 0);
	grant_all(role);
	(void)query("revoke execute on function pg_notify(text, text) from public");
	store = run_tasks(open_as(url), count_run, HWT_STORE_AT_LEAST_ONCE);
	CHECK_INT(query("select count(*) from %s_member", world.schema), ==, 1);
	CHECK(wait_gone(store, put(store, "a", 0)));
	/* In a transaction of a caller, however, the notification fails, and the transaction with it. */
	PGconn *caller = PQconnectdb(url + strlen("pg:"));
	REQUIRE(PQstatus(caller) == CONNECTION_OK);
	CHECK_CALL(hwt_store_put_on(store, caller, &SPEC("a", 0, .key = "k"), NULL), EACCES);
	PQfinish(caller);
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_INT(query("select count(*) from %s_member", world.schema), ==, 0);
	CHECK_INT(query("select count(*) from %s_shard where owner is not null", world.schema), ==, 0);
	CHECK_CALL(hwt_store_close(store), 0);
	(void)query("grant execute on function pg_notify(text, text) to public");
}

/* Another role makes the tables just after an open has seen that there are none. */
static void other_makes_tables(const char *at)
{
	if (strcmp(at, "tables") != 0)
		return;
	atomic_store(&hwts_test_at, NULL);
	CHECK_CALL(hwt_store_close(open_store()), 0);
	grant_all(other_role);
}

TEST(of_two_roles_that_open_first_one_makes_the_tables_and_both_use_them)
{
	NEEDS_POSTGRES();
	char url[TEXT_MAX];

	fresh_world();
	(void)snprintf(other_role, sizeof(other_role), "%s_second", world.schema);
	(void)query("create role %s login", other_role);
	url_of_role(url, other_role);
	(void)query("grant create on schema public to %s", other_role);
	atomic_store(&hwts_test_at, other_makes_tables);
	CLOSING hwt_store *store = open_as(url);
	CHECK(atomic_load(&hwts_test_at) == NULL);
	(void)put(store, "a", 0);
}

static PGconn *maker;

static void lock_first(const char *at)
{
	if (strcmp(at, "tables") != 0)
		return;
	atomic_store(&hwts_test_at, NULL);
	CHECK(user_sql(maker, "begin; select pg_advisory_xact_lock(hashtext('%s_meta'))", world.schema));
}

static void *open_it(void *opened)
{
	*(hwt_store **)opened = open_store();
	return NULL;
}

/* The open has looked for the tables before it waited, and the server caches that they were not there. */
TEST(an_open_that_has_waited_finds_the_tables_that_were_made_meanwhile)
{
	NEEDS_POSTGRES();
	static const char *const tables[] = { "meta", "kind", "shard", "member", "group", "timeout" };
	hwt_store *opened = NULL;
	pthread_t thread;
	char model[sizeof(world.schema)];

	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	memcpy(model, world.schema, sizeof(model));
	fresh_world();
	maker = connect_user();
	atomic_store(&hwts_test_at, lock_first);
	REQUIRE(pthread_create(&thread, NULL, open_it, &opened) == 0);
	WAIT_FOR(query("select count(*) from pg_locks where locktype = 'advisory' and not granted") != 0);
	for (size_t i = 0; i < HWTS_COUNT(tables); i++)
		CHECK(user_sql(maker, "create table %s_%s (like %s_%s including all)", world.schema, tables[i], model,
			       tables[i]));
	CHECK(user_sql(maker, "insert into %s_meta select * from %s_meta; commit", world.schema, model));
	CHECK_INT(pthread_join(thread, NULL), ==, 0);
	disconnect_user(maker);
	REQUIRE(opened != NULL);
	CHECK_CALL(hwt_store_close(opened), 0);
}

STORE_MAIN(NULL)

#else

TEST(roles)
{
	SKIP("of PostgreSQL");
}

STORE_MAIN(NULL)

#endif
