/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process knows of a server without asking: the numbers of kinds, and ids that it has drawn.  A server that
 * crashes or is replaced may lose the commits of these numbers, and give the same numbers to other processes.
 */
#include "store_query.h"

#include "inside.h"

#ifdef HWT_STORE_POSTGRES

#define AHEAD (1LL << 40)

/* As a crash does.  The store connects again meanwhile, so this waits for the end of the old connections. */
static void break_connections(void)
{
	int64_t until_us = query("select (extract(epoch from clock_timestamp()) * 1000000)::bigint");

	(void)query("select pg_terminate_backend(pid) from pg_stat_activity"
		    " where backend_type = 'client backend' and pid <> pg_backend_pid()");
	WAIT_FOR(query("select count(*) from pg_stat_activity where backend_type = 'client backend'"
		       " and pid <> pg_backend_pid() and extract(epoch from backend_start) * 1000000 < %lld",
		       (long long)until_us) == 0);
}

static void forget_kinds(void)
{
	(void)query("delete from %s_timeout; delete from %s_shard; delete from %s_kind", world.schema, world.schema,
		    world.schema);
	break_connections();
}

/* The first calls after a crash may fail. */
static int put_at_last(hwt_store *store, const char *kind, int64_t *id)
{
	hwt_store_spec spec = spec_of(kind, HWT_S(600));
	int rc = ENOTCONN;

	for (int i = 0; i < 10 && (rc == ENOTCONN || rc == ECONNRESET); i++)
		rc = hwt_store_put(store, &spec, id);
	return rc;
}

static int64_t count_of(const char *kind)
{
	return query("select count(*) from %s_timeout t join %s_kind k on k.id = t.kind where k.name = '%s'",
		     world.schema, world.schema, kind);
}

static atomic_uint told;

static void hear_warning(void *ctx, const char *text)
{
	(void)ctx;
	if (strstr(text, "restart this process"))
		atomic_fetch_add(&told, 1);
}

TEST(a_process_puts_nothing_of_a_kind_that_the_server_forgot)
{
	NEEDS_POSTGRES(); /* a power cut that takes a kind from SQLite takes the process as well */
	hwt_store_spec spec = spec_of("mail", HWT_S(600));
	CLOSING hwt_store *store = fresh_store(), *other = open_store();
	PGconn *conn;
	int64_t id;

	put(store, "mail", HWT_S(600));
	forget_kinds();
	CHECK_INT(put_at_last(other, "delete", &id), ==, 0);
	CHECK_INT(put_at_last(store, "mail", &id), ==, EIO);
	CHECK(strstr(hwt_store_error(), "kind mail is not in the database any more") != NULL);
	conn = PQconnectdb(world.url + 3);
	CHECK_CALL(hwt_store_put_on(store, conn, &spec, &id), EIO);
	PQfinish(conn);
	CHECK_CALL(hwt_store_close(store), 0);
	store = open_store(); /* restarted */
	CHECK_INT(put_at_last(store, "mail", &id), ==, 0);
	CHECK_INT(count_of("mail"), ==, 1);
	CHECK_INT(count_of("delete"), ==, 1);
}

TEST(a_process_runs_nothing_of_a_kind_that_has_the_number_of_its_own)
{
	NEEDS_POSTGRES();
	atomic_uint others = 0;
	int64_t id;

	atomic_store(&told, 0);
	/* Each process looks again soon. */
	CLOSING hwt_store *store = FRESH(.warn = hear_warning, .lease_ns = HWT_S(2));
	register_kind(store, "mail", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	forget_kinds();
	/* Opened only now, as an old connection may fail its first call. */
	CLOSING hwt_store *other = OPEN(.warn = hear_warning, .lease_ns = HWT_S(2));
	register_kind(other, "delete", count_run, &others, HWT_STORE_AT_LEAST_ONCE);
	put(other, "delete", 0);
	CHECK(wait_count(&told, 1));
	CHECK_INT(put_at_last(store, "mail", &id), ==, EIO);
	CHECK_CALL(hwt_store_start(other), 0);
	CHECK(wait_count(&others, 1));
	CHECK_INT(atomic_load(&ran), ==, 0);
}

TEST(ids_that_were_drawn_before_the_server_forgot_are_drawn_again)
{
	NEEDS_POSTGRES();
	int64_t first, id;

	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	/* Numbers that the clock has not reached. */
	(void)query("update %s_meta set next_number = %lld", world.schema, AHEAD);
	CLOSING hwt_store *store = open_store(), *other = open_store();
	first = put(store, "a", HWT_S(600)) >> HWTS_BUCKET_BITS;
	CHECK_INT(first, ==, AHEAD);
	(void)query("update %s_meta set next_number = %lld", world.schema, AHEAD);
	(void)query("delete from %s_timeout", world.schema);
	break_connections();
	for (int i = 0; i < 3; i++) {
		CHECK_INT(put_at_last(other, "a", &id), ==, 0);
		CHECK_INT(id >> HWTS_BUCKET_BITS, ==, first + i);
	}
	CHECK_INT(put_at_last(store, "a", &id), ==, 0);
	CHECK_INT(count_of("a"), ==, 4);
}

static hwt_store *_Atomic connecting;
static atomic_uint draws;

/* Makes a new connection, as another thread that puts would. */
static void connect_once(const char *point)
{
	struct hwts_conn *conn;

	if (strcmp(point, "drawn") != 0 || atomic_fetch_add(&draws, 1) > 0)
		return;
	CHECK_INT(hwts_conns_get(atomic_load(&connecting), &conn), ==, 0);
	hwts_conns_put(atomic_load(&connecting), conn, 0);
}

TEST(ids_that_were_drawn_while_another_thread_met_a_server_are_drawn_again)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = fresh_store();

	atomic_store(&draws, 0);
	atomic_store(&connecting, store);
	atomic_store(&hwts_test_at, connect_once);
	for (int i = 0; i < 100; i++) /* more than open has drawn */
		put(store, "a", HWT_S(600));
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(atomic_load(&draws), >=, 2); /* the first draw was for nothing; blocks are small again after it */
}

TEST(a_kind_is_synced_although_its_role_syncs_nothing)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = fresh_store_that_syncs("off");

	(void)query("create table %s_note (is_now text); create function %s_note() returns trigger language"
		    " plpgsql set search_path = public as $$ begin insert into %s_note values"
		    " (current_setting('synchronous_commit'));"
		    " return new; end $$; create trigger note before insert on %s_kind for each row"
		    " execute function %s_note()",
		    world.schema, world.schema, world.schema, world.schema, world.schema);
	put(store, "a", HWT_S(600));
	CHECK_INT(query("select count(*) from %s_note where is_now = 'on'", world.schema), ==, 1);
}
#endif

STORE_MAIN(NULL)
