/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pooler between this process and the server.
 *
 * In session mode a pooler does no harm: a connection keeps its backend until it closes.  In transaction mode each
 * transaction may meet another backend, so that LISTEN, prepared statements and settings are lost, or stay behind for
 * others.  That shows late and in many ways, so the first connection looks for it before it says anything else.
 *
 *   A pooler answers with a process id of its own making; the server's tells the truth.  If they differ there is one.
 *   Then two connections that are open at the same time never share a backend, unless it is taken from one of them
 *   between its transactions.  Poolers hand out first what came back last, so the second connection meets the backend
 *   that the first has just left; when others are busy it may need a few attempts.
 *
 * Through such a pooler a store puts, cancels and reads: its statements are not prepared, and what they need is set in
 * their transaction (postgres_exchange.c).  It cannot be started.
 */
#include "db/postgres.h"

#include <stdlib.h>

#define ATTEMPTS 5

static int backend_of(struct pg_conn *conn, const char *sql, int *pid)
{
	PGresult *result = PQexec(conn->handle, sql);
	int rc = 0;

	hwts_count_trip(conn->conn.db);
	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
		*pid = (int)strtol(PQgetvalue(result, 0, 0), NULL, 10);
	else
		rc = hwts_pg_error(conn, result, "pg_backend_pid");
	PQclear(result);
	return rc;
}

/* Returns whether the second connection has met the backend of the first, which stays open. */
static int look(struct pg_conn *first, struct pg_conn *second, bool *shared)
{
	int mine = 0, others = 0, rc = backend_of(first, "select pg_backend_pid()", &mine);

	if (rc == 0)
		rc = backend_of(second, "begin; select pg_backend_pid()", &others);
	if (rc == 0)
		rc = hwts_pg_simple(second, "rollback");
	*shared = rc == 0 && mine == others;
	return rc;
}

int hwts_pg_find_pooler(struct pg_conn *conn)
{
	struct pg_db *db = (struct pg_db *)conn->conn.db;
	struct pg_conn *other;
	int pid = 0, rc = backend_of(conn, "select pg_backend_pid()", &pid);

	if (rc == 0 && pid != PQbackendPID(conn->handle)) {
		rc = hwts_pg_dial(&db->db, HWTS_CALL, &other);
		if (rc != 0)
			return rc;
		for (int i = 0; i < ATTEMPTS && rc == 0 && !db->pooled; i++)
			rc = look(conn, other, &db->pooled);
		hwts_pg_hang_up(other);
	}
	db->met = rc == 0;
	return rc;
}
