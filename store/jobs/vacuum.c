/* SPDX-License-Identifier: BSD-2-Clause */
/* Advice about the tables: what was deleted and takes room, and what keeps the database from cleaning up. */
#include "jobs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifdef HWT_STORE_SQLITE
#include <sqlite3.h>
#endif
#ifdef HWT_STORE_POSTGRES
#include <libpq-fe.h>
#endif

struct advice {
	const struct jobs *jobs;
	bool first;
	unsigned given;
};

static void fact(struct advice *advice, const char *name, const char *words, const char *value)
{
	if (advice->jobs->json) {
		json_member(stdout, &advice->first, name);
		json_text(stdout, value);
	} else {
		printf("%-34s %s\n", words, value);
	}
}

static void number(struct advice *advice, const char *name, const char *words, int64_t value, const char *unit)
{
	if (advice->jobs->json) {
		json_member(stdout, &advice->first, name);
		printf("%" PRId64, value);
	} else {
		printf("%-34s %" PRId64 "%s\n", words, value, unit);
	}
}

static void advise(struct advice *advice, const char *text)
{
	if (advice->jobs->json) {
		if (advice->given == 0)
			json_member(stdout, &advice->first, "advice");
		fputs(advice->given == 0 ? "[" : ", ", stdout);
		json_text(stdout, text);
	} else {
		printf("%s%s%s %s\n", advice->given == 0 ? "\n" : "", paint(advice->jobs, YELLOW), "->", text);
		fputs(paint(advice->jobs, PLAIN), stdout);
	}
	advice->given++;
}

static void end_advice(struct advice *advice)
{
	if (!advice->jobs->json) {
		if (advice->given == 0)
			printf("\n%snothing to do%s\n", paint(advice->jobs, GREEN), paint(advice->jobs, PLAIN));
		return;
	}
	if (advice->given == 0) {
		json_member(stdout, &advice->first, "advice");
		putchar('[');
	}
	puts("]}");
}

#ifdef HWT_STORE_SQLITE
static int64_t pragma(sqlite3 *handle, const char *text)
{
	sqlite3_stmt *made = NULL;
	int64_t value = -1;

	if (sqlite3_prepare_v2(handle, text, -1, &made, NULL) == SQLITE_OK && sqlite3_step(made) == SQLITE_ROW)
		value = sqlite3_column_int64(made, 0);
	sqlite3_finalize(made);
	return value;
}

static int of_sqlite(struct advice *advice)
{
	const char *path = advice->jobs->url + strlen("sqlite:");
	char wal[4096];
	struct stat is = { .st_size = 0 };
	sqlite3 *handle = NULL;
	int64_t page, pages, free_pages;

	if (sqlite3_open_v2(path, &handle, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
		(void)complain(advice->jobs, "%s", sqlite3_errmsg(handle));
		sqlite3_close(handle);
		return NO_DATABASE;
	}
	page = pragma(handle, "pragma page_size");
	pages = pragma(handle, "pragma page_count");
	free_pages = pragma(handle, "pragma freelist_count");
	sqlite3_close(handle);
	(void)snprintf(wal, sizeof(wal), "%s-wal", path);
	(void)stat(wal, &is);
	number(advice, "file_kb", "file", page * pages / 1024, " KB");
	number(advice, "free_kb", "free in it", page * free_pages / 1024, " KB");
	number(advice, "log_kb", "log (-wal)", (int64_t)is.st_size / 1024, " KB");
	if (free_pages > pages / 2 && page * free_pages > 64 << 20)
		advise(advice,
		       "more than half of the file is free: VACUUM when the programs are stopped, if the disk needs "
		       "the room; new timeouts fill it otherwise");
	if (is.st_size > 128 << 20)
		advise(advice,
		       "the log does not begin again: some connection has a transaction open for long; find and "
		       "end it (a shell with a BEGIN, a report)");
	return DONE;
}
#endif

#ifdef HWT_STORE_POSTGRES
/* The role's search path finds the table and nothing else: what others define in its schemas could be a trap. */
#define TABLE "current_setting('hwt_store.table')::oid"
static const char FIND_TABLE[] =
    "begin; select pg_catalog.set_config('hwt_store.table', coalesce("
    "pg_catalog.to_regclass('%s_timeout')::pg_catalog.oid, 0::pg_catalog.oid)::pg_catalog.text, true); set local "
    "search_path = pg_catalog, pg_temp; select 1";
static const char ROWS[] =
    "select coalesce(sum(n_live_tup), 0), coalesce(sum(n_dead_tup), 0),"
    " coalesce(sum(pg_total_relation_size(relid)) / 1024, 0)::bigint,"
    " coalesce(max(greatest(last_autovacuum, last_vacuum))::text, 'never'), current_setting('autovacuum')"
    " from pg_stat_user_tables where relid = " TABLE " or relid in (select inhrelid from pg_inherits where inhparent ="
    " " TABLE ")";
static const char OLD[] =
    "select coalesce(extract(epoch from clock_timestamp() - a.xact_start)::bigint, 0), coalesce(a.pid, 0),"
    " coalesce(nullif(a.application_name, ''), 'no name'), (select count(*) from pg_prepared_xacts) from (select 1) o"
    " left join (select * from pg_stat_activity where xact_start is not null and pid <> pg_backend_pid() and datname ="
    " current_database() order by xact_start limit 1) a on true";

/* The values of the one row of the last query; NULL: it failed, and why is said. */
static PGresult *ask(struct advice *advice, PGconn *conn, const char *text)
{
	PGresult *result = PQexec(conn, text);

	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
		return result;
	(void)complain(advice->jobs, "%s", PQerrorMessage(conn));
	PQclear(result);
	return NULL;
}

static int64_t get(const PGresult *result, int column)
{
	return strtoll(PQgetvalue(result, 0, column), NULL, 10);
}

/* Old transactions keep what was deleted in the indexes: each look passes it. */
static void advise_postgres(struct advice *advice, const PGresult *table, const PGresult *old)
{
	char text[512];
	int64_t live = get(table, 0), dead = get(table, 1);

	if (get(old, 0) > 60) {
		(void)snprintf(text, sizeof(text),
			       "a transaction is open for %s s (pid %s, %s): nothing that was deleted since is "
			       "cleaned up; end it",
			       PQgetvalue(old, 0, 0), PQgetvalue(old, 0, 1), PQgetvalue(old, 0, 2));
		advise(advice, text);
	}
	if (get(old, 3) > 0)
		advise(advice,
		       "there are prepared transactions (pg_prepared_xacts) that keep what was deleted: commit or roll "
		       "them back");
	if (strcmp(PQgetvalue(table, 0, 4), "off") == 0)
		advise(advice, "autovacuum is off: turn it on");
	if (dead > 100000 && dead > live && get(old, 0) <= 60) {
		(void)snprintf(text, sizeof(text), "more rows are dead than live: vacuum %s_timeout",
			       advice->jobs->schema);
		advise(advice, text);
	}
}

static int of_postgres(struct advice *advice)
{
	const char *url = advice->jobs->url;
	PGconn *conn = PQconnectdb(strncmp(url, "pg:", 3) == 0 ? url + 3 : url);
	PGresult *found, *table, *old;
	char find[sizeof(FIND_TABLE) + 64];

	(void)snprintf(find, sizeof(find), FIND_TABLE, advice->jobs->schema);
	found = ask(advice, conn, find);
	table = found ? ask(advice, conn, ROWS) : NULL;
	old = table ? ask(advice, conn, OLD) : NULL;
	if (old) {
		number(advice, "live_rows", "rows", get(table, 0), "");
		number(advice, "dead_rows", "dead rows", get(table, 1), "");
		number(advice, "size_kb", "table and indexes", get(table, 2), " KB");
		fact(advice, "last_vacuum", "last vacuum", PQgetvalue(table, 0, 3));
		number(advice, "oldest_transaction_s", "oldest transaction", get(old, 0), " s");
		advise_postgres(advice, table, old);
	}
	PQclear(found);
	PQclear(table);
	PQclear(old);
	PQfinish(conn);
	return old ? DONE : NO_DATABASE;
}
#endif

int vacuum(struct jobs *jobs)
{
	struct advice advice = { .jobs = jobs, .first = true };
	bool sqlite = strncmp(jobs->url, "sqlite:", 7) == 0;
	int rc = NO_DATABASE;

	if (jobs->n > 0)
		return complain(jobs, "vacuum takes no words");
	if (jobs->json)
		putchar('{');
#ifdef HWT_STORE_SQLITE
	if (sqlite)
		rc = of_sqlite(&advice);
#endif
#ifdef HWT_STORE_POSTGRES
	if (!sqlite)
		rc = of_postgres(&advice);
#endif
	if (rc == DONE)
		end_advice(&advice);
	else if (jobs->json)
		puts("}");
	return rc;
}
