/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every call of the database's library fails once.
 *
 * This program puts functions of its own in front of those of libsqlite3 and libpq.  The n-th call fails instead of
 * being made, for each n until a call of the store needs fewer.  In the simulation whole exchanges fail; here they fail
 * in the middle.
 *
 * Checked  the answer is the right error, with a text; if it says that nothing happened, no byte of the tables has
 *          changed; the repeated call succeeds; and accepted timeouts run
 */
#include "store_query.h"

#include "inside.h"

#include <dlfcn.h>

/* Most calls of a library in a call of the store: a slow machine makes more, as it waits in more steps. */
#define MOST 10000

static atomic_uint calls, fails_at; /* fails_at 0: none fails */
static atomic_int sqlite_code;      /* the code with which SQLite fails */
static atomic_bool fired;
static _Thread_local bool own; /* the test's own statements do not count */

static bool fails(void)
{
	unsigned at = atomic_load(&fails_at);

	if (at == 0 || own || atomic_fetch_add(&calls, 1) + 1 != at)
		return false;
	atomic_store(&fired, true);
	return true;
}

static void arm(unsigned n, int code)
{
	atomic_store(&calls, 0);
	atomic_store(&fired, false);
	atomic_store(&sqlite_code, code);
	atomic_store(&fails_at, n);
}

/* Returns true if the n-th call was reached, and failed. */
static bool disarm(void)
{
	atomic_store(&fails_at, 0);
	return atomic_load(&fired);
}

/*
 * Defines a function in front of the library's: TYPE NAME PARAMETERS, called with ARGS; when it fails it returns
 * FAILURE.  Calls that the library makes itself do not count.
 */
#define IN_FRONT(type, name, params, args, failure)                                                                    \
	type name params                                                                                               \
	{                                                                                                              \
		bool outer = own;                                                                                      \
		type(*real) params;                                                                                    \
		type value;                                                                                            \
                                                                                                                       \
		if (fails())                                                                                           \
			return failure;                                                                                \
		*(void **)&real = dlsym(RTLD_NEXT, #name);                                                             \
		own = true;                                                                                            \
		value = real args;                                                                                     \
		own = outer;                                                                                           \
		return value;                                                                                          \
	}

#ifdef HWT_STORE_SQLITE
IN_FRONT(int, sqlite3_step, (sqlite3_stmt * rows), (rows), atomic_load(&sqlite_code))
IN_FRONT(int, sqlite3_prepare_v3,
	 (sqlite3 * db, const char *text, int len, unsigned flags, sqlite3_stmt **made, const char **tail),
	 (db, text, len, flags, made, tail), (*made = NULL, atomic_load(&sqlite_code)))
IN_FRONT(int, sqlite3_exec,
	 (sqlite3 * db, const char *text, int (*each)(void *, int, char **, char **), void *ctx, char **error),
	 (db, text, each, ctx, error), atomic_load(&sqlite_code))
#endif
#ifdef HWT_STORE_POSTGRES
IN_FRONT(int, PQsendPrepare, (PGconn * conn, const char *name, const char *text, int n, const Oid *types),
	 (conn, name, text, n, types), 0)
IN_FRONT(int, PQsendQueryPrepared,
	 (PGconn * conn, const char *name, int n, const char *const *values, const int *lengths, const int *formats,
	  int format),
	 (conn, name, n, values, lengths, formats, format), 0)
IN_FRONT(int, PQsendQuery, (PGconn * conn, const char *text), (conn, text), 0)
IN_FRONT(int, PQflush, (PGconn * conn), (conn), -1)
IN_FRONT(int, PQpipelineSync, (PGconn * conn), (conn), 0)
IN_FRONT(int, PQenterPipelineMode, (PGconn * conn), (conn), 0)
IN_FRONT(int, PQexitPipelineMode, (PGconn * conn), (conn), 0)
IN_FRONT(int, PQconsumeInput, (PGconn * conn), (conn), 0)
IN_FRONT(PGresult *, PQgetResult, (PGconn * conn), (conn), NULL)
IN_FRONT(int, PQsendQueryParams,
	 (PGconn * conn, const char *text, int n, const Oid *types, const char *const *values, const int *lengths,
	  const int *formats, int format),
	 (conn, text, n, types, values, lengths, formats, format), 0)
#endif

/*
 * Statements of the test itself
 */

static struct value answer;

#define ASK(...) (own = true, answer = ask(__VA_ARGS__), own = false, answer)

/* Returns the whole table of timeouts. */
static struct value dump_table(void)
{
	return ASK(
	    "select coalesce(%s, '') from (select id || ':' || due_us || ':' || base_us || ':' || period_us || ':' ||"
	    " state || ':' || attempt || ':' || coalesce(length(key), 0) || ':' || coalesce(length(data), 0) line"
	    " from %s_timeout order by id) x",
	    world.sqlite ? "group_concat(line)" : "string_agg(line, ',')", world.schema);
}

/*
 * A server may still be working on statements that a closed connection has sent: waits until only the store's idle
 * connections are left.
 */
static void wait_settled(const hwt_store *store)
{
	if (!world.sqlite)
		WAIT_FOR(
		    number_in(ASK("select count(*) from pg_stat_activity where application_name = 'libhwt-store'")) ==
		    (int64_t)store->conns->idle_count);
}

/*
 * True: rc is a possible answer.  SQLite passes its error on; on PostgreSQL the connection broke, with or without
 * effect.
 */
static bool is_fair(int rc, int meaning)
{
	return world.sqlite ? rc == meaning : rc == ENOTCONN || rc == ECONNRESET;
}

/*
 * The calls
 */

static int64_t keyed, plain, due; /* ids of the timeouts that are there before each call */
static atomic_uint tasks_ran;

static int note_run(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	CHECK_INT(now_us(), >=, run->due_us);
	atomic_fetch_add(&tasks_ran, 1);
	return 0;
}

/* Makes three timeouts: "k" is the key of one that is due in an hour; another has no key; the third is due at once. */
static void make_table(hwt_store *store)
{
	keyed = put_key(store, "a", "k", HWT_S(3600));
	plain = put(store, "a", HWT_S(3600));
	due = put(store, "a", 0);
	(void)ASK("create table %s_kept as select * from %s_timeout", world.schema, world.schema);
}

/* Restores the table as make_table left it. */
static void reset_table(void)
{
	(void)ASK("begin; delete from %s_timeout; insert into %s_timeout select * from %s_kept; commit", world.schema,
		  world.schema, world.schema);
}

static int put_plain(hwt_store *store)
{
	hwt_store_spec spec = spec_of("a", HWT_S(2));

	return hwt_store_put(store, &spec, NULL);
}

static int put_keyed(hwt_store *store)
{
	return hwt_store_put(store, &SPEC("a", HWT_S(2), .key = "another"), NULL);
}

static int put_replacing(hwt_store *store)
{
	return hwt_store_put(store, &SPEC("a", HWT_S(2), .key = "k", .flags = HWT_STORE_REPLACE), NULL);
}

static int put_three(hwt_store *store)
{
	hwt_store_spec specs[] = { spec_of("a", 0), spec_of("a", HWT_S(2)), spec_of("a", HWT_S(1000)) };

	return hwt_store_put_many(store, specs, 3, NULL);
}

static int put_three_keyed(hwt_store *store)
{
	hwt_store_spec specs[] = { spec_of("a", 0), spec_of("a", HWT_S(2)), spec_of("a", HWT_S(1000)) };

	specs[1].key = "one";
	specs[2].key = "two";
	return hwt_store_put_many(store, specs, 3, NULL);
}

/* As two threads that put at the same moment: one put has no key, the key of the other is in use. */
static int put_group(hwt_store *store)
{
	struct hwts_kind_row kind;
	struct hwts_conn *conn;
	struct hwts_put puts[2];
	int rc = hwts_kind_of(store, "a", NULL, &kind);

	CHECK_INT(rc, ==, 0); /* from memory */
	for (int i = 0; i < 2; i++)
		puts[i] =
		    (struct hwts_put){ .kind_name = "a", .kind = kind, .when_us = 3600000000, .key = i ? "k" : NULL };
	rc = hwts_conns_get(store, &conn);
	if (rc != 0)
		return rc;
	rc = hwts_numbers_give(store, conn, puts, 2);
	if (rc == 0)
		rc = hwts_rows_put(conn, puts, 2, false);
	hwts_conns_put(store, conn, 0);
	if (rc != 0 || puts[0].rc != 0)
		return rc ? rc : puts[0].rc;
	CHECK(puts[1].rc == EEXIST || is_fair(puts[1].rc, 0));
	return 0;
}

static int meet_a_key(hwt_store *store)
{
	int64_t id = 0;
	int rc;

	rc = hwt_store_put(store, &SPEC("a", HWT_S(2), .key = "k"), &id);
	if (rc != EEXIST)
		return rc;
	CHECK_INT(id, ==, keyed);
	return 0;
}

static int get_one(hwt_store *store)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;

	return hwt_store_get(store, plain, &info);
}

static int get_by_key(hwt_store *store)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int rc = hwt_store_get_key(store, "a", "k", &info);

	if (rc == 0)
		CHECK_INT(info.id, ==, keyed);
	return rc;
}

static bool count_one(void *count, const hwt_store_info *info)
{
	CHECK_INT(info->state, ==, HWT_STORE_PENDING);
	(*(unsigned *)count)++;
	return true;
}

static int list_all(hwt_store *store)
{
	unsigned count = 0;
	int rc = hwt_store_each(store, "a", 1u << HWT_STORE_PENDING, count_one, &count);

	CHECK_INT(count, ==, rc == 0 ? 3 : 0);
	return rc;
}

static int cancel_one(hwt_store *store)
{
	return hwt_store_cancel(store, plain);
}

static int cancel_by_key(hwt_store *store)
{
	return hwt_store_cancel_key(store, "a", "k");
}

static int reschedule_one(hwt_store *store)
{
	return hwt_store_reschedule(store, plain, HWT_S(2));
}

static int open_another(hwt_store *store)
{
	hwt_store_config config = store_config();
	hwt_store *other = NULL;
	char error[256] = "";
	int rc = hwt_store_open(&other, world.url, &config, error, sizeof(error));

	(void)store;
	CHECK((rc != 0) == (error[0] != '\0'));
	CHECK((rc != 0) == (other == NULL));
	if (other)
		CHECK_INT(hwt_store_close(other), ==, 0);
	return rc;
}

/* In a new transaction on a connection of the test; its begin and commit do not fail. */
static int put_into(hwt_store *store, void *connection)
{
	return hwt_store_put_on(store, connection, &SPEC("a", HWT_S(2), .key = "on"), NULL);
}

static int put_on_one(hwt_store *store)
{
	void *connection;
	int rc;

	own = true;
	connection = connect_user();
	CHECK(user_sql(connection, "begin"));
	own = false;
	rc = put_into(store, connection);
	own = true;
	/* SQLite: the caller's transaction goes on; the failed call has left nothing in it. */
	CHECK(user_sql(connection, rc == 0 || world.sqlite ? "commit" : "rollback"));
	disconnect_user(connection);
	own = false;
	return rc;
}

/* Waits until the due timeout has run, and its end is committed. */
static bool wait_done(void)
{
	WAIT_FOR(number_in(ASK("select count(*) from %s_timeout where id = %" PRId64, world.schema, due)) == 0);
	return number_in(answer) == 0;
}

static int start_run_stop(hwt_store *store)
{
	unsigned before = atomic_load(&tasks_ran);
	int rc = hwt_store_start(store);
	char text[256];

	hwts_cut(text, sizeof(text), hwt_store_error(), strlen(hwt_store_error()));
	if (rc == 0) {
		CHECK(wait_done());
		CHECK_INT(atomic_load(&tasks_ran), >, before);
	}
	CHECK_INT(hwt_store_stop(store), ==, 0);
	return rc == 0 ? 0 : hwts_fail(rc, "%s", text);
}

/* As the beginner does: a row that is due and, under the same epoch, a row that is not. */
static int begin_two(hwt_store *store)
{
	struct hwts_want wants[2] = { { .id = due, .epoch = 5 }, { .id = plain, .epoch = 5 } };
	struct hwts_conn *conn = NULL;
	struct hwts_kind_row kind;
	int rc;

	CHECK_INT(hwts_kind_of(store, "a", NULL, &kind), ==, 0); /* from memory */
	for (int i = 0; i < 2; i++)
		wants[i].shard = hwts_shard_of(&kind, wants[i].id);
	(void)ASK("update %s_shard set owner = '%s', epoch = 5", world.schema, hwts_me(store->db));
	rc = store->engine->connect(store->db, HWTS_BEGIN, &conn);
	if (rc != 0)
		return rc;
	rc = hwts_rows_begin(conn, wants, 2, true, false);
	CHECK(rc != 0 || (wants[0].row && !wants[1].row && wants[1].due_us != HWTS_NEVER));
	CHECK(rc == 0 || (!wants[0].row && !wants[1].row));
	free(wants[0].row);
	store->engine->disconnect(conn);
	return rc;
}

static const struct {
	const char *name;
	int (*call)(hwt_store *store);
} all_calls[] = {
	{ "put", put_plain },
	{ "put with a key", put_keyed },
	{ "put that replaces", put_replacing },
	{ "put that meets its key", meet_a_key },
	{ "two puts of which one meets its key", put_group },
	{ "put_many", put_three },
	{ "put_many with keys", put_three_keyed },
	{ "put_on", put_on_one },
	{ "get", get_one },
	{ "get_key", get_by_key },
	{ "each", list_all },
	{ "cancel", cancel_one },
	{ "cancel_key", cancel_by_key },
	{ "reschedule", reschedule_one },
	{ "open", open_another },
	{ "start, run and stop", start_run_stop },
	{ "begin", begin_two },
};

/* Makes the n-th call of the library fail.  False: there were fewer calls. */
static bool fail_nth(hwt_store *store, size_t which, unsigned n, int code, int meaning)
{
	struct value before, after;
	char error[256];
	bool reached;
	int rc;

	reset_table();
	before = dump_table();
	arm(n, code);
	rc = all_calls[which].call(store);
	reached = disarm();
	wait_settled(store);
	hwts_cut(error, sizeof(error), hwt_store_error(), strlen(hwt_store_error()));
	after = dump_table();
	if (!reached)
		CHECK_INT(rc, ==, 0);
	if (rc == 0)
		return reached;
	CHECK(is_fair(rc, meaning));
	CHECK(error[0] != '\0');
	if (rc != ECONNRESET)
		CHECK(strcmp(after.text, before.text) == 0);
	if (strcmp(after.text, before.text) == 0)
		CHECK_INT(all_calls[which].call(store), ==, 0);
	return true;
}

/* Distance from one call that fails to the next. */
static unsigned step_of_calls(void)
{
	unsigned percent = getenv("HWT_EACH") != NULL ? 100 : scaled(on_sqlite() ? 33 : 20);

	return percent > 100 ? 1 : 100 / percent;
}

static void each_call_fails(int code, int meaning)
{
	unsigned failures = atomic_load(&test_failures), in_all = 0, step = step_of_calls();
	unsigned first = 1 + (unsigned)(test_seed("first") % step);
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(60));

	register_kind(store, "a", note_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	make_table(store);
	for (size_t which = 0; which < HWTS_COUNT(all_calls); which++) {
		unsigned n = first;

		(void)alarm(HANG_S);
		while (n < MOST && fail_nth(store, which, n, code, meaning) && atomic_load(&test_failures) == failures)
			n += step;
		if (atomic_load(&test_failures) > failures) {
			fprintf(stderr, "%s: call %u of the library\n", all_calls[which].name, n);
			break;
		}
		CHECK(n > first || step > 1);
		CHECK_INT(n, <, MOST);
		printf("# %s: one in %u of %u\n", all_calls[which].name, step, n - 1);
		in_all += (n - first) / step;
	}
	printf("# %u calls failed\n", in_all);
}

TEST(each_call_of_the_library_fails_once_and_the_answer_is_true)
{
#ifdef HWT_STORE_SQLITE
	each_call_fails(SQLITE_IOERR, EIO);
#else
	each_call_fails(0, 0);
#endif
}

#ifdef HWT_STORE_SQLITE
TEST(each_call_of_the_library_meets_a_lock)
{
	NEEDS_SQLITE();
	each_call_fails(SQLITE_BUSY, EAGAIN);
}

TEST(each_call_of_the_library_meets_a_full_disk)
{
	NEEDS_SQLITE();
	each_call_fails(SQLITE_FULL, ENOSPC);
}
#endif

STORE_MAIN(NULL)
