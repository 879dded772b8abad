/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of store_bench that the store knows nothing of: they count rows, and hold snapshots and locks.
 */
#include "common.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_SQLITE
#include <sqlite3.h>
#endif
#ifdef HAVE_POSTGRES
#include <libpq-fe.h>
#endif

static bool is_sqlite(void)
{
	return strncmp(url, "sqlite:", 7) == 0;
}

bool user_has_locks_of_rows(void)
{
	return !is_sqlite();
}

__attribute__((noreturn)) static void fail(const char *text)
{
	fprintf(stderr, "store_bench: a user's connection: %s\n", text);
	exit(1);
}

void *user_open(void)
{
#ifdef HAVE_SQLITE
	if (is_sqlite()) {
		sqlite3 *db = NULL;

		if (sqlite3_open(url + 7, &db) != SQLITE_OK)
			fail(sqlite3_errmsg(db));
		sqlite3_busy_timeout(db, 60000);
		return db;
	}
#endif
#ifdef HAVE_POSTGRES
	PGconn *conn = PQconnectdb(strncmp(url, "pg:", 3) == 0 ? url + 3 : url);

	if (PQstatus(conn) != CONNECTION_OK)
		fail(PQerrorMessage(conn));
	return conn;
#else
	fail("its engine is not built in");
#endif
}

void user_close(void *user)
{
#ifdef HAVE_SQLITE
	if (is_sqlite()) {
		sqlite3_close(user);
		return;
	}
#endif
#ifdef HAVE_POSTGRES
	PQfinish(user);
#endif
}

#ifdef HAVE_SQLITE
static int64_t sqlite_sql(sqlite3 *db, const char *text)
{
	sqlite3_stmt *statement = NULL;
	int64_t value = 0;
	int rc = sqlite3_prepare_v2(db, text, -1, &statement, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(statement);
	if (rc == SQLITE_ROW)
		value = sqlite3_column_int64(statement, 0);
	else if (rc != SQLITE_DONE)
		fail(sqlite3_errmsg(db));
	sqlite3_finalize(statement);
	return value;
}
#endif

#ifdef HAVE_POSTGRES
static int64_t postgres_sql(PGconn *conn, const char *text)
{
	PGresult *result = PQexec(conn, text);
	int64_t value = 0;

	if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
		fail(PQerrorMessage(conn));
	if (PQntuples(result) > 0)
		value = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	PQclear(result);
	return value;
}
#endif

int64_t user_sql(void *user, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
#ifdef HAVE_SQLITE
	if (is_sqlite())
		return sqlite_sql(user, text);
#endif
#ifdef HAVE_POSTGRES
	return postgres_sql(user, text);
#else
	return 0;
#endif
}
