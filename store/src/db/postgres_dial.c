/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection to a PostgreSQL server, before anything is said on it. */
#include "db/postgres.h"

#include <stdio.h>
#include <stdlib.h>

#define OPTIONS_MAX 50
#define CONNECT_TIMEOUT_S "5"       /* of a host */
#define CALL_PATIENCE_NS HWT_S(120) /* a put of a million rows takes its time */

void hwts_pg_hang_up(struct pg_conn *conn)
{
	PQfinish(conn->handle);
	hwts_pg_args_free(&conn->args);
	free(conn);
}

static void ignore_notice(void *arg, const char *message)
{
	(void)arg;
	(void)message;
}

/* The url, and what it leaves open.  libpq tries its hosts in turn; those that must write it asks whether they do. */
static PGconn *dial(const struct pg_db *db)
{
	char patience[32];
	const char *names[OPTIONS_MAX + 8], *values[OPTIONS_MAX + 8];
	const char *defaults[][2] = {
		{ "client_encoding", "UTF8" }, /* ours counts, whatever the url says */
		{ "connect_timeout", CONNECT_TIMEOUT_S },
		{ "fallback_application_name", "libhwt-store" },
		{ "keepalives_idle", "5" },
		{ "keepalives_interval", "2" },
		{ "keepalives_count", "3" },
		{ "tcp_user_timeout", patience },
	};
	size_t n = 0;

	(void)snprintf(patience, sizeof(patience), "%lld", (long long)(db->db.lease_us / 1000));
	for (const PQconninfoOption *option = db->options; option->keyword && n < OPTIONS_MAX; option++) {
		if (option->val && strcmp(option->keyword, "client_encoding") != 0) {
			names[n] = option->keyword;
			values[n++] = option->val;
		}
	}
	for (size_t i = 0, given = n; i < HWTS_COUNT(defaults); i++) {
		size_t j = 0;

		while (j < given && strcmp(names[j], defaults[i][0]) != 0)
			j++;
		if (j < given)
			continue;
		names[n] = defaults[i][0];
		values[n++] = defaults[i][1];
	}
	names[n] = values[n] = NULL;
	return PQconnectdbParams(names, values, 0);
}

int hwts_pg_dial(struct hwts_db *base, enum hwts_role role, struct pg_conn **out)
{
	struct pg_conn *conn = hwts_alloc(sizeof(*conn));
	int rc = 0;

	if (!conn)
		return ENOMEM;
	conn->conn.db = base;
	conn->conn.role = role;
	conn->patience_ns = role == HWTS_CALL || role == HWTS_TASK || role == HWTS_READ
				? CALL_PATIENCE_NS
				: HWTS_MAX(base->lease_us * 1000, HWT_S(5));
	hwts_count_trip(base);
	conn->handle = dial((struct pg_db *)base);
	if (!conn->handle)
		rc = hwts_fail(ENOMEM, "postgresql: no memory");
	else if (PQstatus(conn->handle) != CONNECTION_OK)
		rc = hwts_fail(ENOTCONN, "postgresql: %s", PQerrorMessage(conn->handle));
	if (rc != 0) {
		hwts_pg_hang_up(conn);
		return rc;
	}
	(void)PQsetNoticeProcessor(conn->handle, ignore_notice, NULL);
	*out = conn;
	return 0;
}
