/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of the SQL functions. */
#ifndef HWT_STORE_SQL_CALLS_H
#define HWT_STORE_SQL_CALLS_H

#include "store_query.h"

#ifdef HWT_STORE_POSTGRES

static char answer[512]; /* of the last statement */

/*
 * Returns the first value of the result; "" for null; "!" and the SQLSTATE for a failure, whose hint must say what to
 * do.  Frees the result.
 */
static inline const char *note_answer(PGresult *result)
{
	if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
		const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

		(void)snprintf(answer, sizeof(answer), "!%s%s", state ? state : "",
			       PQresultErrorField(result, PG_DIAG_MESSAGE_HINT) ? " hint" : "");
	} else {
		(void)snprintf(answer, sizeof(answer), "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
	}
	PQclear(result);
	return answer;
}

__attribute__((format(printf, 2, 3))) static inline const char *sql(PGconn *conn, const char *format, ...)
{
	char text[2048];
	va_list args;

	va_start(args, format);
	REQUIRE(vsnprintf(text, sizeof(text), format, args) < (int)sizeof(text));
	va_end(args);
	return note_answer(PQexec(conn, text));
}

/* Waits for the end of a statement that PQsendQuery has sent. */
static inline const char *answer_of(PGconn *conn)
{
	PGresult *result;

	(void)note_answer(PQgetResult(conn));
	while ((result = PQgetResult(conn)) != NULL)
		PQclear(result);
	return answer;
}

/* Executes select @_FUNCTION(ARGUMENTS). */
__attribute__((format(printf, 3, 4))) static inline const char *call(PGconn *conn, const char *function,
								     const char *format, ...)
{
	char arguments[1024];
	va_list args;

	va_start(args, format);
	REQUIRE(vsnprintf(arguments, sizeof(arguments), format, args) < (int)sizeof(arguments));
	va_end(args);
	return sql(conn, "select %s_%s(%s)", world.schema, function, arguments);
}

#define IS(text) CHECK(strcmp(answer, text) == 0 || (fprintf(stderr, "    %s\n", answer), false))

#define SAYS(text, how, ...)                                                                                           \
	do {                                                                                                           \
		(void)how(__VA_ARGS__);                                                                                \
		IS(text);                                                                                              \
	} while (0)

/* True: a statement on this connection waits for a lock of another one. */
#define IS_BLOCKED(conn) (query("select cardinality(pg_blocking_pids(%d))", PQbackendPID(conn)) > 0)

static inline PGconn *connect_as(const char *role)
{
	char url[TEXT_MAX];
	PGconn *conn;

	url_of_role(url, role);
	conn = PQconnectdb(url + strlen("pg:"));
	REQUIRE(PQstatus(conn) == CONNECTION_OK);
	return conn;
}

#endif

#endif
