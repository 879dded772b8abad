/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the failures of a PostgreSQL server mean.
 */
#include "db/postgres.h"

#define SILENT "25P03" /* idle_in_transaction_session_timeout */

static const struct {
	const char *state; /* the beginning of it */
	int rc;
	bool gone; /* the connection is of no use any more */
	const char *advice;
} meanings[] = {
	{ "08", ECONNRESET, true, "" },
	{ "57P0", ECONNRESET, true, "" },
	{ SILENT, ECONNRESET, true, "; nothing was said in this transaction for longer than the lease" },
	{ "55P03", EAGAIN, false, "; another transaction holds the lock, try again" },
	{ "40", EAGAIN, false, "; try again" },
	{ "57014", EAGAIN, false, "; statement_timeout may be too short" },
	{ "53100", ENOSPC, false, "; the server's disk is full, make room" },
	{ "53200", ENOMEM, false, "; the server has no memory" },
	{ "42501", EACCES, false, "; grant the role the rights that store/doc/store.md lists" },
	{ "25006", EACCES, true, "; this server is a standby: add target_session_attrs=read-write to the url" },
	{ "0A000", EIO, true, "" }, /* a plan that does not fit the tables any more */
	{ "26", EIO, true, "; a pooler in transaction mode breaks prepared statements: connect directly" },
};

void hwts_pg_note_silence(struct pg_conn *conn, const char *state)
{
	conn->was_silent |= state && strcmp(state, SILENT) == 0;
}

int hwts_pg_error(struct pg_conn *conn, const PGresult *result, const char *doing)
{
	const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
	const char *text = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;

	if (!text)
		text = PQerrorMessage(conn->handle);
	for (size_t i = 0; state && i < HWTS_COUNT(meanings); i++) {
		if (strncmp(state, meanings[i].state, strlen(meanings[i].state)) != 0)
			continue;
		conn->conn.broken |= meanings[i].gone;
		hwts_pg_note_silence(conn, state);
		return hwts_fail(meanings[i].rc, "postgresql: %s: %s (%s)%s", doing, text, state, meanings[i].advice);
	}
	if (!state || PQstatus(conn->handle) == CONNECTION_BAD) {
		conn->conn.broken = true;
		return hwts_fail(ECONNRESET, "postgresql: %s: the connection broke: %s", doing, text);
	}
	conn->conn.refused = true;
	return hwts_fail(EIO, "postgresql: %s: %s (%s)", doing, text, state);
}
