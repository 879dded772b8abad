/* SPDX-License-Identifier: BSD-2-Clause */
/* Statements of a test on connections of its own. */
#ifndef HWT_STORE_QUERY_H
#define HWT_STORE_QUERY_H

#include "store.h"

#ifdef HWT_STORE_SQLITE
#include <sqlite3.h>
#endif
#ifdef HWT_STORE_POSTGRES
#include <libpq-fe.h>
#endif

/* PostgreSQL: the url of the world's server for another role. */
static inline void url_of_role(char url[TEXT_MAX], const char *role)
{
	const char *user = strstr(world.url, "user=hwt");

	REQUIRE(user != NULL);
	(void)snprintf(url, TEXT_MAX, "%.*suser=%s%s", (int)(user - world.url), world.url, role, user + 8);
}

/*
 * Connections of a user, and statements on them
 */

#ifdef HWT_STORE_SQLITE
/* Busy handler of a user's connection: the file was locked n times. */
static inline int wait_for_file(void *ctx, int n)
{
	static _Thread_local struct patience patience;

	(void)ctx;
	if (n == 0)
		patience = PATIENT("a user has the file");
	return patience_lasts(&patience, HWT_MS(1));
}
#endif

static inline void *connect_user(void)
{
#ifdef HWT_STORE_SQLITE
	if (world.sqlite) {
		sqlite3 *db = NULL;

		REQUIRE(sqlite3_open(world.url + strlen("sqlite:"), &db) == SQLITE_OK);
		sqlite3_busy_handler(db, wait_for_file, NULL);
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

static inline void end_user(void *const *connection)
{
	disconnect_user(*connection);
}

/* A connection that is closed when its test returns: USER *connection = connect_user(). */
#define USER __attribute__((cleanup(end_user), unused)) void

struct value {
	char text[4096]; /* the first value of the first row */
	int rows;        /* -1: the statement failed */
};

#ifdef HWT_STORE_SQLITE
static inline int note_value(void *ctx, int columns, char **values, char **names)
{
	struct value *value = ctx;

	(void)columns;
	(void)names;
	if (value->rows++ == 0)
		(void)snprintf(value->text, sizeof(value->text), "%s", values[0] ? values[0] : "");
	return 0;
}
#endif

static inline void user_value(void *connection, const char *text, struct value *value)
{
	value->text[0] = '\0';
	value->rows = 0;
#ifdef HWT_STORE_SQLITE
	if (world.sqlite) {
		if (sqlite3_exec(connection, text, note_value, value, NULL) != SQLITE_OK)
			value->rows = -1;
		return;
	}
#endif
#ifdef HWT_STORE_POSTGRES
	PGresult *result = PQexec(connection, text);

	value->rows = PQntuples(result);
	if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
		value->rows = -1;
	else if (value->rows > 0)
		(void)snprintf(value->text, sizeof(value->text), "%s", PQgetvalue(result, 0, 0));
	PQclear(result);
#endif
}

static inline int64_t number_in(struct value value)
{
	return value.rows > 0 ? strtoll(value.text, NULL, 10) : -1;
}

/* False: the statement failed. */
__attribute__((format(printf, 2, 3))) static inline bool user_sql(void *connection, const char *format, ...)
{
	struct value value;
	char text[1024];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	user_value(connection, text, &value);
	return value.rows >= 0;
}

/* Executes statements on a connection of the test, and returns the first number of the last result; -1: none. */
__attribute__((format(printf, 1, 2))) static inline int64_t query(const char *format, ...)
{
	USER *connection = connect_user();
	struct value value;
	char text[1024];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	user_value(connection, text, &value);
	if (value.rows < 0)
		fprintf(stderr, "    %s fails\n", text);
	CHECK(value.rows >= 0 || !world.sqlite);
	return number_in(value);
}

/* How many timeouts match. */
#define COUNT(where) query("select count(*) from %s_timeout where " where, world.schema)

/* PostgreSQL: makes the world a database of its own, with this encoding. */
static inline void use_database_of(const char *encoding)
{
	(void)query("create database %s encoding '%s' lc_collate 'C' lc_ctype 'C' template template0", world.schema,
		    encoding);
	(void)snprintf(world.url + strlen(world.url), sizeof(world.url) - strlen(world.url), " dbname=%s",
		       world.schema);
}

/* The same on a connection that PostgreSQL keeps: connecting takes longer than the statement. */
__attribute__((format(printf, 1, 2))) static inline struct value ask(const char *format, ...)
{
	static void *kept;
	struct value value;
	char text[512];
	void *connection;
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	connection = kept ? kept : connect_user();
	user_value(connection, text, &value);
	CHECK(value.rows >= 0);
	if (world.sqlite)
		disconnect_user(connection);
	else
		kept = connection;
	return value;
}

#endif
