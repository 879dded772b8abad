/* SPDX-License-Identifier: BSD-2-Clause */
/* Statements of a test that the store knows nothing of. */
#ifndef HWT_STORE_QUERY_H
#define HWT_STORE_QUERY_H

#include "store.h"

#ifdef HWT_STORE_SQLITE
#include <sqlite3.h>
#endif
#ifdef HWT_STORE_POSTGRES
#include <libpq-fe.h>
#endif

#ifdef HWT_STORE_SQLITE
static inline int64_t query_sqlite(const char *text)
{
	int64_t value = -1;
	sqlite3 *db = NULL;
	sqlite3_stmt *statement = NULL;

	REQUIRE(sqlite3_open(world.url + strlen("sqlite:"), &db) == SQLITE_OK);
	sqlite3_busy_timeout(db, (int)(PATIENCE_NS / HWT_MS(1)));
	CHECK_INT(sqlite3_prepare_v2(db, text, -1, &statement, NULL), ==, SQLITE_OK);
	if (sqlite3_step(statement) == SQLITE_ROW)
		value = sqlite3_column_int64(statement, 0);
	CHECK_INT(sqlite3_finalize(statement), ==, SQLITE_OK);
	sqlite3_close(db);
	return value;
}
#endif

#ifdef HWT_STORE_POSTGRES
static inline int64_t query_postgres(const char *text)
{
	int64_t value = -1;
	PGconn *conn = PQconnectdb(world.url + strlen("pg:"));
	PGresult *result = PQexec(conn, text);

	if (PQresultStatus(result) == PGRES_FATAL_ERROR)
		fprintf(stderr, "%s", PQresultErrorMessage(result));
	if (PQntuples(result) > 0)
		value = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	PQclear(result);
	PQfinish(conn);
	return value;
}
#endif

/* On a connection of the test's own; returns the first number of the last result.  Several statements: PostgreSQL. */
__attribute__((format(printf, 1, 2))) static inline int64_t query(const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
#ifdef HWT_STORE_SQLITE
	if (world.sqlite)
		return query_sqlite(text);
#endif
#ifdef HWT_STORE_POSTGRES
	return query_postgres(text);
#else
	return -1;
#endif
}

/*
 * Connections of a user, and statements on them
 */

static inline void *connect_user(void)
{
#ifdef HWT_STORE_SQLITE
	if (world.sqlite) {
		sqlite3 *db = NULL;

		REQUIRE(sqlite3_open(world.url + strlen("sqlite:"), &db) == SQLITE_OK);
		sqlite3_busy_timeout(db, (int)(PATIENCE_NS / HWT_MS(1)));
		return db;
	}
#endif
#ifdef HWT_STORE_POSTGRES
	PGconn *conn = PQconnectdb(world.url + strlen("pg:"));

	REQUIRE(PQstatus(conn) == CONNECTION_OK);
	return conn;
#else
	return NULL;
#endif
}

static inline void disconnect_user(void *connection)
{
#ifdef HWT_STORE_SQLITE
	if (world.sqlite) {
		CHECK_INT(sqlite3_close(connection), ==, SQLITE_OK);
		return;
	}
#endif
#ifdef HWT_STORE_POSTGRES
	PQfinish(connection);
#endif
}

/* false: the statement failed. */
__attribute__((format(printf, 2, 3))) static inline bool user_sql(void *connection, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
#ifdef HWT_STORE_SQLITE
	if (world.sqlite)
		return sqlite3_exec(connection, text, NULL, NULL, NULL) == SQLITE_OK;
#endif
#ifdef HWT_STORE_POSTGRES
	PGresult *result = PQexec(connection, text);
	bool ok = PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK;

	PQclear(result);
	return ok;
#else
	return false;
#endif
}

#endif
