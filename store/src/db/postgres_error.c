/* SPDX-License-Identifier: BSD-2-Clause */
/* The meaning of a PostgreSQL server's errors. */
#include "db/postgres.h"

#define SILENT "25P03" /* idle_in_transaction_session_timeout */
#define READS "25006"  /* a transaction that may only read */

static const struct {
	const char *state; /* the first characters of the SQLSTATE */
	int rc;
	bool gone;          /* the connection is unusable */
	const char *advice; /* NULL: why_reads() */
} meanings[] = {
	{ "08", ECONNRESET, true, "" },
	{ "57P0", ECONNRESET, true, "" },
	{ SILENT, ECONNRESET, true, "; nothing was said in this transaction for longer than the lease" },
	{ "55P03", EAGAIN, false, "; another transaction holds the lock, try again" },
	{ "40", EAGAIN, false, "; try again" },
	{ "57014", EAGAIN, false, "; statement_timeout may be too short" },
	{ "53100", ENOSPC, false, "; the server's disk is full, make room" },
	{ "53200", ENOMEM, false, "; the server has no memory" },
	{ "42501", EACCES, false,
	  "; grant the role the rights that store/doc/store.md lists, and hide no rows from it" },
	{ READS, EACCES, true, NULL },
	{ "0A000", EIO, true, "" }, /* a prepared plan does not fit the tables any more */
	{ "26", EIO, true, "; a pooler in transaction mode breaks prepared statements: connect directly" },
};

static bool is_on(const struct pg_conn *conn, const char *setting)
{
	const char *is = PQparameterStatus(conn->handle, setting); /* NULL: PostgreSQL 13 does not report it */

	return is && strcmp(is, "on") == 0;
}

/* The server reports such a change only after an answer, so at the first failure neither may be set. */
static const char *why_reads(const struct pg_conn *conn)
{
	if (is_on(conn, "in_hot_standby"))
		return "; this server is a standby: add target_session_attrs=read-write to the url";
	if (is_on(conn, "default_transaction_read_only"))
		return "; default_transaction_read_only is on, of the role, the database or the server: reset it there";
	return "; either default_transaction_read_only is on, of the role, the database or the server, or this server"
	       " is a standby (select pg_is_in_recovery())";
}

int hwts_pg_says_reads(const struct pg_conn *conn)
{
	if (!is_on(conn, "in_hot_standby") && !is_on(conn, "default_transaction_read_only"))
		return 0;
	return hwts_fail(EACCES, "postgresql: this connection may only read%s", why_reads(conn));
}

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
		return hwts_fail(meanings[i].rc, "postgresql: %s: %s (%s)%s", doing, text, state,
				 meanings[i].advice ? meanings[i].advice : why_reads(conn));
	}
	if (!state || PQstatus(conn->handle) == CONNECTION_BAD) {
		conn->conn.broken = true;
		return hwts_fail(ECONNRESET, "postgresql: %s: the connection broke: %s", doing, text);
	}
	conn->conn.refused = true;
	return hwts_fail(EIO, "postgresql: %s: %s (%s)", doing, text, state);
}
