/* SPDX-License-Identifier: BSD-2-Clause */
/* Statements of a test that the store knows nothing of, on PostgreSQL. */
#ifndef HWT_STORE_QUERY_H
#define HWT_STORE_QUERY_H

#include "store.h"

#include <libpq-fe.h>

/* Statements on a connection of the test's own; returns the first number of the last result. */
__attribute__((format(printf, 1, 2))) static inline int64_t query(const char *format, ...)
{
	int64_t value = -1;
	char text[1024];
	PGconn *conn;
	PGresult *result;
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	conn = PQconnectdb(world.url + 3);
	result = PQexec(conn, text);
	if (PQresultStatus(result) == PGRES_FATAL_ERROR)
		fprintf(stderr, "%s", PQresultErrorMessage(result));
	if (PQntuples(result) > 0)
		value = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	PQclear(result);
	PQfinish(conn);
	return value;
}

#endif
