/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The SQL functions and the calls of C: from the same rows both make the same rows and lock the same rows.  A
 * transaction that stands still after a function has locked only the row that the function is about.
 */
#include "sql_calls.h"

#include "inside.h"

#ifdef HWT_STORE_POSTGRES
#include "db/postgres.h"

#define AT_US INT64_C(4102444800000000) /* in 2100 */
#define AT "at => '2100-01-01 00:00+00'"

/* The object of a call: a timeout with a key in a group, or its group. */
struct object {
	const char *key, *group;
	int64_t id;
};

static hwt_store_which which_of(const struct object *of, bool by_id, bool all)
{
	return (hwt_store_which){ .size = sizeof(hwt_store_which),
				  .id = by_id ? of->id : 0,
				  .kind = "a",
				  .group = of->group,
				  .key = all ? NULL : of->key,
				  .all = all };
}

static int put_by(hwt_store *store, void *conn, const struct object *of, unsigned flags)
{
	hwt_store_spec spec = SPEC("a", 0, .key = of->key, .group = of->group, .data = "x", .len = 1, .due_us = AT_US,
				   .flags = flags | HWT_STORE_ABSOLUTE, .period_ns = HWT_S(90), .priority = 3,
				   .grace_ns = HWT_S(2));
	int64_t id;

	return hwt_store_put_on(store, conn, &spec, &id);
}

static int put_new(hwt_store *store, void *conn, const struct object *of)
{
	return put_by(store, conn, &(struct object){ "new", of->group, 0 }, 0);
}

static int replace(hwt_store *store, void *conn, const struct object *of)
{
	return put_by(store, conn, of, HWT_STORE_REPLACE);
}

static int revive(hwt_store *store, void *conn, const struct object *of)
{
	return put_by(store, conn, of, HWT_STORE_REVIVE);
}

static int cancel(hwt_store *store, void *conn, const struct object *of)
{
	hwt_store_which which = which_of(of, true, false);

	return hwt_store_cancel_on(store, conn, &which);
}

static int cancel_key(hwt_store *store, void *conn, const struct object *of)
{
	hwt_store_which which = which_of(of, false, false);

	return hwt_store_cancel_on(store, conn, &which);
}

static int move(hwt_store *store, void *conn, const struct object *of)
{
	hwt_store_which which = which_of(of, true, false);

	which.states = 1U << HWT_STORE_PENDING | 1U << HWT_STORE_FAILED;
	return hwt_store_reschedule_on(store, conn, &which, (hwt_store_when){ .due_us = AT_US });
}

static int move_key(hwt_store *store, void *conn, const struct object *of)
{
	hwt_store_which which = which_of(of, false, false);

	which.states = 1U << HWT_STORE_PENDING | 1U << HWT_STORE_FAILED;
	return hwt_store_reschedule_on(store, conn, &which, (hwt_store_when){ .due_us = AT_US });
}

#define RULES_CALL(name, call)                                                                                         \
	static int name(hwt_store *store, void *conn, const struct object *of)                                         \
	{                                                                                                              \
		(void)conn;                                                                                            \
		(void)of;                                                                                              \
		return call;                                                                                           \
	}
RULES_CALL(pause_kind, hwt_store_pause(store, "a", NULL))
RULES_CALL(pause_group, hwt_store_pause(store, "a", of->group))
RULES_CALL(resume_kind, hwt_store_resume(store, "a", NULL))
RULES_CALL(resume_group, hwt_store_resume(store, "a", of->group))
RULES_CALL(limit_kind, hwt_store_limit(store, "a", NULL, &LIMITS(.running = 3, .start_every_ns = HWT_S(1), .burst = 2)))
RULES_CALL(limit_group,
	   hwt_store_limit(store, "a", of->group, &LIMITS(.running = 3, .start_every_ns = HWT_S(1), .burst = 2)))
RULES_CALL(limit_group_none, hwt_store_limit(store, "a", of->group, &LIMITS(.running = 0)))
RULES_CALL(limit_kind_no_more, hwt_store_limit(store, "a", NULL, NULL))
RULES_CALL(limit_group_no_more, hwt_store_limit(store, "a", of->group, NULL))

#define WITH AT ", every => '90 s', priority => 3, grace => '2 s'"
#define IT "'a', 'k', 'g'"

static const struct act {
	int (*in_c)(hwt_store *store, void *conn, const struct object *of);
	const char *in_sql;                       /* # stands for the id */
	enum { TIMEOUT, GROUP, KIND_ROW } writes; /* TIMEOUT: C has this call for a user's connection, too */
} acts[] = {
	{ put_new, "put('a', 'x', key => 'new', grp => 'g', " WITH ")", TIMEOUT },
	{ replace, "put('a', 'x', key => 'k', grp => 'g', if_exists => 'replace', " WITH ")", TIMEOUT },
	{ revive, "put('a', 'x', key => 'k', grp => 'g', if_exists => 'revive', " WITH ")", TIMEOUT },
	{ cancel, "cancel(#)", TIMEOUT },
	{ cancel_key, "cancel_key(" IT ")", TIMEOUT },
	{ move, "reschedule(#, " AT ")", TIMEOUT },
	{ move_key, "reschedule_key(" IT ", " AT ")", TIMEOUT },
	{ pause_kind, "pause('a')", KIND_ROW },
	{ pause_group, "pause('a', 'g')", GROUP },
	{ resume_kind, "resume('a')", KIND_ROW },
	{ resume_group, "resume('a', 'g')", GROUP },
	{ limit_kind, "limit('a', running => 3, start_every => '1 s', burst => 2)", KIND_ROW },
	{ limit_group, "limit('a', 'g', running => 3, start_every => '1 s', burst => 2)", GROUP },
	{ limit_group_none, "limit('a', 'g')", GROUP },
	{ limit_kind_no_more, "limit('a', remove => true)", KIND_ROW },
	{ limit_group_no_more, "limit('a', 'g', remove => true)", GROUP },
};

/* The timeout and the rules before a call. */
static const struct before {
	const char *timeout, *limit, *pause; /* NULL: none */
} befores[] = {
	{ "state = 1", "'a', 'g', running => 9", NULL },
	{ "state = 2, epoch = 1, attempt = 1", "'a', 'g', running => 9", "'a', 'g'" },
	{ "state = 2, epoch = 1, attempt = 1, period_us = 90000000", NULL, "'a', 'g'" },
	{ "state = 2, epoch = 1, attempt = 1, last = true, period_us = 90000000", NULL, NULL },
	{ "state = 2, epoch = 1, attempt = 1, next_due_us = 7, next_base_us = 7, next_period_us = 0, next_priority = 1",
	  "'a', running => 9", "'a'" },
	{ "state = 3, attempt = 20, error = 'x', shard = -1 - shard", NULL, "'a'" },
};

/*
 * The rows and locks of a transaction
 */

struct trace {
	char rows[8192], locks[2048];
};

static const char *const tables[] = { "meta", "kind", "shard", "member", "group", "timeout" };

static void add_rows(PGconn *conn, char *to, size_t size, const char *text)
{
	PGresult *result = PQexec(conn, text);

	REQUIRE(PQresultStatus(result) == PGRES_TUPLES_OK || (fprintf(stderr, "%s\n", PQerrorMessage(conn)), false));
	for (int i = 0; i < PQntuples(result); i++) {
		size_t at = strlen(to);

		REQUIRE((size_t)snprintf(to + at, size - at, "%s\n", PQgetvalue(result, i, 0)) < size - at);
	}
	PQclear(result);
}

/*
 * Ids of new rows differ.  Numbers that C draws in advance are no part of the transaction.  A function that changes the
 * row of a group and then removes it raises the number of rules twice.
 */
static void read_rows(PGconn *conn, char *to, size_t size)
{
	char text[512];

	for (size_t i = 1; i < HWTS_COUNT(tables); i++) {
		(void)snprintf(
		    text, sizeof(text),
		    "select '%s ' || (to_jsonb(t) - '{id,tx,rules}'::text[])::text%s from public.%s_%s t order by 1",
		    tables[i], strcmp(tables[i], "shard") == 0 ? " || id || (rules > 0)" : "", world.schema, tables[i]);
		add_rows(conn, to, size, text);
	}
}

/* Rows that other transactions cannot lock, or can only share. */
static void read_locks(PGconn *other, int pid, char *to, size_t size)
{
	static const char *const strengths[] = { "update", "share" };
	char text[1024], table[64];

	for (size_t i = 0; i < 2 * HWTS_COUNT(tables); i++) {
		(void)snprintf(table, sizeof(table), "public.%s_%s", world.schema, tables[i / 2]);
		(void)snprintf(text, sizeof(text),
			       "with free as materialized (select ctid c from %s for %s skip locked) select '%s of %s '"
			       " || to_jsonb(t)::text from %s t where ctid not in (select c from free) order by 1",
			       table, strengths[i % 2], strengths[i % 2], tables[i / 2], table);
		add_rows(other, to, size, text);
	}
	(void)snprintf(
	    text, sizeof(text),
	    "select locktype || ' ' || mode || coalesce(' ' || relation::regclass, '') from pg_locks where"
	    " pid = %d and (locktype in ('advisory', 'tuple', 'page', 'extend') or (locktype = 'relation' and"
	    " mode not in ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock'))) order by 1",
	    pid);
	add_rows(other, to, size, text);
}

static struct trace trace_of(PGconn *conn, PGconn *other)
{
	struct trace trace = { .rows = "" };

	read_rows(conn, trace.rows, sizeof(trace.rows));
	read_locks(other, PQbackendPID(conn), trace.locks, sizeof(trace.locks));
	return trace;
}

/*
 * The engine's transactions stop before they commit
 */

static const struct hwts_engine *real;
static PGconn *observer;
static struct trace traced;

static int run_and_roll_back(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	int rc = real->run(conn, steps, n, flags & HWTS_SYNCED ? flags | HWTS_OPEN : flags);

	if (!(flags & HWTS_SYNCED) || rc != 0)
		return rc;
	traced = trace_of(pg_conn(conn)->handle, observer);
	return real->finish(conn, ECANCELED) == ECANCELED ? 0 : EIO;
}

static void stop_before_commits(hwt_store *store)
{
	static struct hwts_engine front;

	real = store->engine;
	front = *real;
	front.run = run_and_roll_back;
	store->engine = store->db->engine = &front;
}

static hwt_store *opened(struct object *of)
{
	hwt_store *store = fresh_store();
	hwt_store_spec spec = SPEC("a", HWT_S(3600), .key = of->key, .group = of->group);

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	of->id = put_spec(store, &spec);
	return store;
}

static void call_function(PGconn *conn, const struct act *act, const struct object *of)
{
	const char *id = strchr(act->in_sql, '#');
	char text[512];

	if (id)
		(void)snprintf(text, sizeof(text), "%.*s%lld%s", (int)(id - act->in_sql), act->in_sql,
			       (long long)of->id, id + 1);
	else
		(void)snprintf(text, sizeof(text), "%s", act->in_sql);
	(void)sql(conn, "select %s_%s", world.schema, text);
	CHECK(answer[0] != '!' || (fprintf(stderr, "    %s: %s\n", text, PQerrorMessage(conn)), false));
}

/*
 * Differences that are intended.  A revive in C learns by PostgreSQL's DO UPDATE, which locks the row, that the row is
 * not FAILED.  A call in C raises the number of rules even if the group has none to remove.
 */
static bool locks_differ(const struct act *act, const struct before *before)
{
	return act->in_c == revive && strncmp(before->timeout, "state = 3", 9) != 0;
}

static bool changes_nothing(const struct act *act, const struct before *before)
{
	bool has_rules = (before->limit && strstr(before->limit, "'g'")) ||
			 (before->pause && strstr(before->pause, "'g'"));

	return (act->in_c == resume_group || act->in_c == limit_group_no_more) && !has_rules;
}

static void same(const char *in_sql, const char *in_c, const struct act *act, const struct before *before)
{
	CHECK(strcmp(in_sql, in_c) == 0 ||
	      (fprintf(stderr, "    %s after %s: in SQL\n%s    in C\n%s", act->in_sql, before->timeout, in_sql, in_c),
	       false));
}

static void compare(hwt_store *store, PGconn *conn, const struct act *act, const struct object *of,
		    const struct before *before)
{
	struct trace trace;

	traced = (struct trace){ .rows = "" };
	(void)sql(conn, "begin");
	(void)act->in_c(store, conn, of);
	if (act->writes == TIMEOUT)
		traced = trace_of(conn, observer);
	(void)sql(conn, "rollback; begin");
	call_function(conn, act, of);
	(void)sql(conn, "set constraints all immediate"); /* what it would do at the commit */
	trace = trace_of(conn, observer);
	(void)sql(conn, "rollback");
	if (changes_nothing(act, before))
		return;
	same(trace.rows, traced.rows, act, before);
	if (!locks_differ(act, before))
		same(trace.locks, traced.locks, act, before);
}

static void prepare(PGconn *conn, const struct before *before)
{
	CHECK(user_sql(conn,
		       "update %s_timeout set shard = greatest(shard, -1 - shard), epoch = 0, attempt = 0, period_us ="
		       " 0, last = null, next_due_us = null, next_base_us = null, next_period_us = null,"
		       " next_priority = null, error = null",
		       world.schema));
	CHECK(user_sql(conn, "update %s_timeout set %s", world.schema, before->timeout));
	CHECK(user_sql(conn, "delete from %s_group", world.schema));
	CHECK(user_sql(conn, "update %s_kind set paused = false, running = null", world.schema));
	if (before->limit)
		(void)call(conn, "limit", "%s", before->limit);
	if (before->pause)
		(void)call(conn, "pause", "%s", before->pause);
	CHECK(user_sql(conn, "update %s_shard set rules = 0", world.schema));
}

TEST(the_functions_write_and_lock_what_the_calls_of_c_do)
{
	NEEDS_POSTGRES();
	struct object of = { .key = "k", .group = "g" };
	CLOSING hwt_store *store = opened(&of);
	USER *conn = connect_user(), *other = connect_user();

	stop_before_commits(store);
	observer = other;
	for (size_t i = 0; i < HWTS_COUNT(befores); i++) {
		prepare(conn, &befores[i]);
		for (size_t j = 0; j < HWTS_COUNT(acts); j++)
			compare(store, conn, &acts[j], &of, &befores[i]);
	}
}

/* No row but the one that the function is about, and no row that a begin, a take or a put needs. */
static void check_locks(PGconn *conn, PGconn *other, const struct act *act)
{
	static const char *const of[] = {
		[TIMEOUT] = " of timeout ", [GROUP] = " of group ", [KIND_ROW] = " of kind "
	};
	char locks[2048] = "";

	read_locks(other, PQbackendPID(conn), locks, sizeof(locks));
	for (char *line = strtok(locks, "\n"); line; line = strtok(NULL, "\n"))
		CHECK(strstr(line, of[act->writes]) != NULL ||
		      (fprintf(stderr, "    %s: %s\n", act->in_sql, line), false));
}

TEST(a_transaction_that_stands_still_in_a_function_stops_nothing_else)
{
	NEEDS_POSTGRES();
	struct object of = { .key = "k", .group = "g" };
	CLOSING hwt_store *store = opened(&of);
	USER *conn = connect_user(), *other = connect_user();

	prepare(conn, &befores[0]);
	for (int runs = 0; runs < 2; runs++) {
		if (runs == 1)
			CHECK_CALL(hwt_store_start(store), 0);
		for (size_t i = 0; i < HWTS_COUNT(acts); i++) {
			(void)sql(conn, "begin");
			call_function(conn, &acts[i], &of);
			if (runs == 1)
				CHECK(wait_gone(store, put(store, "a", 0)));
			else
				check_locks(conn, other, &acts[i]);
			(void)sql(conn, "rollback");
		}
	}
}

STORE_MAIN(NULL)

#else

TEST(beside)
{
	SKIP("of PostgreSQL");
}

STORE_MAIN(NULL)

#endif
