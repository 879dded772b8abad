/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Users beside the store, each on a thread of the conductor and for some seconds, while other acts go on.
 *
 *   lock    a transaction that keeps rows locked for longer than a lease.  SQLite: the file.  The log names what the
 *           lock keeps, so that history.pl excuses nothing else; the server must not lose that session.  Some locks are
 *           those of a store's connection that stands still amid an exchange, which other processes may end
 *   storm   200 changes of rules a second, of groups that have no other rules, by C and by SQL.  The last of them take
 *           all rules away
 *   role    a setting of the role that all sessions have; all of the store's are ended, so the next ones have it
 */
#include "torture.h"

#include <pthread.h>

struct aside {
	struct torture *torture;
	uint64_t random;
	int64_t until_us;
	pthread_t thread;
	bool started;
	atomic_bool busy, ends;
};

static struct aside lock, storm;

static void aside_end(struct aside *aside)
{
	atomic_store(&aside->ends, true);
	if (aside->started)
		pthread_join(aside->thread, NULL);
	aside->started = false;
}

/* One of each at a time. */
static void aside_begin(struct aside *aside, struct torture *torture, void *work(void *), int64_t us)
{
	if (atomic_load(&aside->busy))
		return;
	aside_end(aside);
	aside->torture = torture;
	aside->random = draw(&torture->random, UINT64_MAX) | 1;
	aside->until_us = true_us() + us;
	atomic_store(&aside->ends, false);
	atomic_store(&aside->busy, true);
	aside->started = pthread_create(&aside->thread, NULL, work, aside) == 0;
	if (!aside->started)
		atomic_store(&aside->busy, false);
}

static bool aside_is_over(const struct aside *aside)
{
	return atomic_load(&aside->ends) || true_us() >= aside->until_us;
}

/*
 * Locks
 */

#ifdef HAVE_SQLITE
static void lock_file(struct aside *aside)
{
	struct effects user = { 0 };

	if (!effects_open(&user, aside->torture->url) || !effects_query(&user, "BEGIN IMMEDIATE", NULL, NULL)) {
		effects_close(&user);
		return;
	}
	history(aside->torture->log, "away");
	while (!aside_is_over(aside))
		sleep_us(20000);
	if (!effects_query(&user, "ROLLBACK", NULL, NULL))
		aside->torture->wrongs++;
	history(aside->torture->log, "back");
	effects_close(&user);
}
#endif

#ifdef HAVE_POSTGRES
#define PLACE "current_setting('torture.shard')::int"
#define TIMEOUTS SCHEMA "_timeout"
#define SHARDS SCHEMA "_shard"
#define KEEPS(more)                                                                                                    \
	"select case k.name when 'remind' then 0 when 'ring' then 1 else 2 end || '/' || s.id % 1024 from " SHARDS     \
	" s join " SCHEMA "_kind k on k.id = s.kind" more

/* Each statement returns what its lock keeps: shards, as KIND/NUMBER, or rows, as id=ID. */
static const struct lock_way {
	const char *name, *sql;
} lock_ways[] = {
	{ "shard", KEEPS(" where s.id = " PLACE " for update of s") },
	{ "shards", KEEPS(" where s.kind = " PLACE " / 1024 for update of s") },
	{ "member", "with m as materialized (select name from " SCHEMA "_member where name = (select owner from " SHARDS
		    " where id = " PLACE ") for update) " KEEPS(" join m on m.name = s.owner") },
	{ "rows", "select 'id=' || id from " TIMEOUTS " where shard = " PLACE " order by due_us limit 12 for update" },
	{ "all-rows", "with t as materialized (select from " TIMEOUTS " where shard = " PLACE
		      " for update) " KEEPS(", (select count(*) from t) n where s.id = " PLACE) },
	{ "kind", "select '' from " SCHEMA "_kind for update" },
	{ "group", "select '' from " SCHEMA "_group for update" },
	{ "remove", "select left(pg_advisory_xact_lock(hashtext('" SCHEMA "_kind'))::text, 0)" },
	{ "make", "select left(pg_advisory_xact_lock(hashtext('" SCHEMA "_make'))::text, 0)" },
	{ "new-kind", "select left(" SCHEMA "_make_kind('new')::text, 0)" },
};

/* Sends the statement as a store's connection that stands still before it sends the rest of its exchange. */
static PGresult *run_and_freeze(PGconn *conn, const char *sql)
{
	bool sent = PQenterPipelineMode(conn) && PQsendQueryParams(conn, sql, 0, NULL, NULL, NULL, NULL, 0) &&
		    PQsendFlushRequest(conn) && PQflush(conn) == 0;

	return sent ? PQgetResult(conn) : NULL;
}

static bool begin_as_user(struct aside *aside, struct effects *user, bool frozen)
{
	char sql[512];

	(void)snprintf(
	    sql, sizeof(sql),
	    "set application_name = '%s'; set idle_in_transaction_session_timeout = 0; set statement_timeout"
	    " = 0; set lock_timeout = 500; set search_path = public; select set_config('torture.shard', (id *"
	    " 1024 + %u)::text, false) from " SCHEMA "_kind where name = '%s'; begin",
	    frozen ? "libhwt-store" : "reports", (unsigned)draw(&aside->random, 8),
	    kind_names[draw(&aside->random, 3)]);
	return effects_open(user, aside->torture->real_url) && effects_query(user, sql, NULL, NULL);
}

static bool is_there(PGconn *conn)
{
	return PQconsumeInput(conn) && PQstatus(conn) == CONNECTION_OK;
}

/* Others may end a frozen session, but no user's.  breaks: how many there were before the session began. */
static void hold_lock(struct aside *aside, struct effects *user, bool frozen, unsigned breaks)
{
	bool there = true, ended;

	while (there && !aside_is_over(aside)) {
		sleep_us(20000);
		there = is_there(user->postgres);
	}
	if (there && !frozen)
		there = effects_query(user, "rollback", NULL, NULL);
	ended = !there && breaks == atomic_load(&aside->torture->breaks);
	history(aside->torture->log, "unlock %s", ended ? "ended" : "");
	if (ended && !frozen) {
		printf("# a session of a user with a lock was ended\n");
		aside->torture->wrongs++;
	}
}

static void lock_rows(struct aside *aside)
{
	const struct lock_way *way = &lock_ways[draw(&aside->random, sizeof(lock_ways) / sizeof(lock_ways[0]))];
	bool frozen = (strstr(way->name, "shard") || strstr(way->name, "rows")) && draw(&aside->random, 3) == 0;
	unsigned breaks = atomic_load(&aside->torture->breaks);
	struct effects user = { 0 };
	int64_t from_us = true_us();
	PGresult *result = NULL;
	char words[400] = "";

	if (begin_as_user(aside, &user, frozen))
		result = frozen ? run_and_freeze(user.postgres, way->sql) : PQexec(user.postgres, way->sql);
	if (PQresultStatus(result) == PGRES_TUPLES_OK) { /* otherwise others have locked it for half a second */
		for (int i = 0, at = 0; i < PQntuples(result) && at < (int)sizeof(words) - 30; i++)
			at += snprintf(words + at, sizeof(words) - (size_t)at, " %s", PQgetvalue(result, i, 0));
		history_at(aside->torture->log, from_us, "lock %s%s%s", frozen ? "frozen-" : "", way->name, words);
		hold_lock(aside, &user, frozen, breaks);
	}
	PQclear(result);
	effects_close(&user);
}
#endif

static void *keep_locked(void *arg)
{
	struct aside *aside = arg;

#ifdef HAVE_SQLITE
	if (is_sqlite(aside->torture->url))
		lock_file(aside);
#endif
#ifdef HAVE_POSTGRES
	if (!is_sqlite(aside->torture->url))
		lock_rows(aside);
#endif
	atomic_store(&aside->busy, false);
	return NULL;
}

void torture_lock(struct torture *torture)
{
	int64_t lease_us = TORTURE_LEASE_NS / 1000;
	int64_t us = lease_us * 5 / 4 + (int64_t)draw(&torture->random, 3 * (uint64_t)lease_us);

	aside_begin(&lock, torture, keep_locked, us);
	if (draw(&torture->random, 3) == 0) /* nothing else excuses what stands still beside the lock */
		torture->calm_us = true_us() + us;
}

void torture_lock_over(void)
{
	aside_end(&lock);
}

/*
 * Storms
 */

enum change { PAUSE, RESUME, LIMIT, UNLIMIT };

static bool change_by_call(hwt_store *store, const char *kind, const char *group, enum change change, unsigned most)
{
	hwt_store_limits limits = { .size = sizeof(limits), .running = most, .start_every_ns = HWT_MS(50), .burst = 2 };

	switch (change) {
	case PAUSE:
		return hwt_store_pause(store, kind, group) == 0;
	case RESUME:
		return hwt_store_resume(store, kind, group) == 0;
	case LIMIT:
		return hwt_store_limit(store, kind, group, &limits) == 0;
	default:
		return hwt_store_limit(store, kind, group, NULL) == 0;
	}
}

/* PostgreSQL. */
static bool change_by_sql(struct effects *user, const char *kind, const char *group, enum change change, unsigned most)
{
	char sql[200], limits[80];

	(void)snprintf(limits, sizeof(limits), ", running => %u, start_every => '50 ms', burst => 2", most);
	(void)snprintf(sql, sizeof(sql), "select " SCHEMA "_%s('%s', '%s'%s)",
		       change == PAUSE    ? "pause"
		       : change == RESUME ? "resume"
					  : "limit",
		       kind, group,
		       change == LIMIT     ? limits
		       : change == UNLIMIT ? ", remove => true"
					   : "");
	return effects_query(user, sql, NULL, NULL);
}

/* Changes of one kind's groups, each 5 ms; what comes too late is not made up for. */
static void rage(struct aside *aside, hwt_store *store, struct effects *user, const char *kind)
{
	unsigned long done = 0, failed = 0;

	while (!aside_is_over(aside)) {
		int64_t next_us = true_us() + 5000;
		enum change change = (enum change)draw(&aside->random, 4);
		unsigned most = 1 + (unsigned)draw(&aside->random, 3);
		bool by_sql = !is_sqlite(aside->torture->url) && draw(&aside->random, 2);
		char group[8];

		(void)snprintf(group, sizeof(group), "s%u", (unsigned)draw(&aside->random, TORTURE_STORMY));
		if (by_sql ? change_by_sql(user, kind, group, change, most)
			   : change_by_call(store, kind, group, change, most))
			done++;
		else
			failed++;
		if (true_us() < next_us)
			sleep_us(next_us - true_us());
	}
	history(aside->torture->log, "said %lu changes of rules, %lu of them failed", done + failed, failed);
}

/* Tries until no group has rules of a storm. */
static void calm_down(hwt_store *store, const char *kind)
{
	for (unsigned i = 0; i < TORTURE_STORMY; i++) {
		char group[8];

		(void)snprintf(group, sizeof(group), "s%u", i);
		while (!change_by_call(store, kind, group, RESUME, 0) ||
		       !change_by_call(store, kind, group, UNLIMIT, 0))
			sleep_us(20000);
	}
}

static void *storm_on(void *arg)
{
	struct aside *aside = arg;
	hwt_store *store = torture_store(aside->torture);
	unsigned kind = (unsigned)draw(&aside->random, 3);
	struct effects user = { 0 };

	if (store != NULL && effects_open(&user, aside->torture->real_url)) {
		history(aside->torture->log, "storm %u", kind);
		rage(aside, store, &user, kind_names[kind]);
		calm_down(store, kind_names[kind]);
		history(aside->torture->log, "calm %u", kind);
	}
	effects_close(&user);
	if (store != NULL)
		(void)hwt_store_close(store);
	atomic_store(&aside->busy, false);
	return NULL;
}

void torture_storm(struct torture *torture)
{
	aside_begin(&storm, torture, storm_on, 1000000 + (int64_t)draw(&torture->random, 3000000));
}

void torture_storm_over(void)
{
	aside_end(&storm);
}

/*
 * The role
 */

#ifdef HAVE_POSTGRES
static const char *const settings[] = {
	"enable_indexscan = off",
	"enable_seqscan = off",
	"enable_nestloop = off",
	"synchronous_commit = off",
	"statement_timeout = '100ms'",
	"lock_timeout = '20ms'",
	"idle_session_timeout = '500ms'",
	"idle_in_transaction_session_timeout = '200ms'",
	"default_transaction_isolation = 'serializable'",
	"default_transaction_deferrable = on",
	"search_path = elsewhere, public",
	"jit_above_cost = 0",
	"plan_cache_mode = force_custom_plan",
	"work_mem = '64kB'",
	"bytea_output = 'escape'",
	"extra_float_digits = -15",
	"client_encoding = 'latin1'",
	"DateStyle = 'SQL, DMY'",
	"IntervalStyle = 'iso_8601'",
	"TimeZone = 'Pacific/Chatham'",
	"standard_conforming_strings = off",
	"array_nulls = off",
	"row_security = off",
};

void torture_terminate(struct torture *torture)
{
	int64_t number = 0;

	history(torture->log, "terminate");
	atomic_fetch_add(&torture->breaks, 1);
	(void)torture_number(
	    &torture->database,
	    "select count(pg_terminate_backend(pid)) from pg_stat_activity where pid <> pg_backend_pid() and "
	    "application_name = 'libhwt-store'",
	    &number);
}

/* Each setting comes once before one comes again. */
void torture_role(struct torture *torture)
{
	static unsigned first, n;
	char sql[120];

	if (torture->reset_us != 0)
		return;
	if (n++ == 0)
		first = (unsigned)draw(&torture->random, sizeof(settings) / sizeof(settings[0]));
	(void)snprintf(sql, sizeof(sql), "alter role current_user set %s",
		       settings[(first + n) % (sizeof(settings) / sizeof(settings[0]))]);
	history(torture->log, "role %s", sql + strlen("alter role current_user set "));
	if (!effects_query(&torture->database, sql, NULL, NULL))
		torture->wrongs++;
	torture_terminate(torture);
	torture->reset_us = true_us() + 2000000 + (int64_t)draw(&torture->random, 4000000);
}

/* The checkpoint makes what was committed under synchronous_commit = off durable. */
void torture_role_back(struct torture *torture)
{
	history(torture->log, "role back");
	if (!effects_query(&torture->database, "alter role current_user reset all", NULL, NULL))
		torture->wrongs++;
	torture_terminate(torture);
	if (!effects_query(&torture->database, "checkpoint", NULL, NULL))
		torture->wrongs++;
	torture->reset_us = 0;
}
#endif
