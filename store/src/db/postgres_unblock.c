/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends a connection that keeps a row locked while its client is silent.
 *
 * A client that stands still amid an exchange, or is cut off, leaves its backend waiting for it inside the transaction;
 * no timeout of the server acts there except tcp_user_timeout.  pg_blocking_pids() names the backends that block a
 * backend which waits for a lock.  So one connection waits for the row, and another asks what the first waits for.  It
 * ends that backend if the backend has this role, belongs to a store, and has waited for its client amid an exchange
 * for age_ns.
 *
 * A backend is "active" until the end of the exchange, and each statement of the exchange that arrives renews
 * state_change.  Between exchanges a backend is "idle in transaction", and idle_in_transaction_session_timeout ends it:
 * a task that works for long without a statement has changed that setting for itself.
 */
#include "db/postgres.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define ASKS 10 /* attempts, while the other connection waits */
#define ASK_APART_MS 15

static const char SHARD[] = "with s as materialized (select owner from @_shard where id = $1::bigint for no key update)"
			    " select from @_member where name = (select owner from s) for no key update";
static const char ROW[] = "select from @_timeout where id = $1::bigint and bucket = ($1::bigint & 1023)::int for no key"
			  " update";

static int ask(struct pg_conn *conn, const char *text, int *count, int *first)
{
	PGresult *result;
	int rc = hwts_pg_one(conn, text, &result);

	*count = rc == 0 ? PQntuples(result) : 0;
	if (*count > 0)
		*first = (int)hwts_pg_get(result, 0, 0);
	PQclear(result);
	return rc;
}

/* Starts to wait for the row. */
static int wait_for_row(struct pg_conn *conn, bool shard, int64_t id)
{
	char number[24], *sql = hwts_sql(conn->conn.db, shard ? SHARD : ROW);
	const char *const values[] = { number };
	int sent;

	(void)snprintf(number, sizeof(number), "%lld", (long long)id);
	sent = sql && PQsendQueryParams(conn->handle, sql, 1, NULL, values, NULL, NULL, 0);
	free(sql);
	return sent ? 0 : ENOMEM;
}

static int end_blockers(struct pg_conn *conn, struct pg_conn *waits, int pid, int64_t age_ms, int *ended)
{
	char text[500];
	int rc = 0, is;

	(void)snprintf(text, sizeof(text),
		       "select pg_terminate_backend(a.pid)::int from pg_stat_activity a where a.pid = any((select"
		       " pg_blocking_pids(%d))::int[]) and a.usename = session_user and a.application_name ="
		       " current_setting('application_name') and a.wait_event_type = 'Client' and a.state = 'active'"
		       " and a.state_change < clock_timestamp() - interval '%lld milliseconds'",
		       pid, (long long)age_ms);
	for (int i = 0; i < ASKS && rc == 0 && *ended == 0; i++) {
		struct pollfd fd = { .fd = PQsocket(waits->handle), .events = POLLIN };

		if (poll(&fd, 1, ASK_APART_MS) != 0)
			break; /* the other connection has the row, or has stopped waiting */
		rc = ask(conn, text, ended, &is);
	}
	return rc;
}

int hwts_pg_unblock(struct hwts_conn *base, bool shard, int64_t id, int64_t age_ns)
{
	struct hwts_conn *other = NULL;
	int count, pid = 0, ended = 0;
	int rc = base->db->engine->connect(base->db, HWTS_BEGIN, &other);

	if (rc != 0)
		return 0;
	if (ask(pg_conn(other), "select pg_backend_pid()", &count, &pid) == 0 && count == 1 &&
	    wait_for_row(pg_conn(other), shard, id) == 0)
		(void)end_blockers(pg_conn(base), pg_conn(other), pid, age_ns / 1000000, &ended);
	base->db->engine->disconnect(other);
	return ended;
}
