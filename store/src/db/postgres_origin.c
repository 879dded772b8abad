/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which server a connection leads to, and whether another has taken its place; postgres.h says why.
 */
#include "db/postgres.h"

#define TIMELINE UINT64_C(0xffffffff)

/* A standby cannot say, nor can a database that only resembles PostgreSQL: then it is not known. */
static const char ORIGIN[] = "select system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, "
			     "8))::bit(32)::bigint from pg_control_system()";

static uint64_t read_origin(struct pg_conn *conn)
{
	PGresult *result;
	uint64_t origin = 0;

	if (hwts_pg_one(conn, ORIGIN, &result) != 0)
		return 0;
	if (PQntuples(result) == 1)
		origin = (hwts_mix((uint64_t)hwts_pg_get(result, 0, 0)) & ~TIMELINE) |
			 ((uint64_t)hwts_pg_get(result, 0, 1) & TIMELINE);
	PQclear(result);
	return origin;
}

static bool is_older(uint64_t origin, uint64_t known)
{
	return (origin & ~TIMELINE) == (known & ~TIMELINE) && (origin & TIMELINE) < (known & TIMELINE);
}

int hwts_pg_meet(struct pg_conn *conn)
{
	struct pg_db *db = (struct pg_db *)conn->conn.db;
	uint64_t known = atomic_load_explicit(&db->origin, memory_order_relaxed); /* relaxed: see struct pg_db */

	conn->origin = read_origin(conn);
	if (conn->conn.broken)
		return ENOTCONN;
	/* Relaxed: see struct pg_db. */
	while (conn->origin != 0 && conn->origin != known && !is_older(conn->origin, known))
		if (atomic_compare_exchange_weak_explicit(&db->origin, &known, conn->origin, memory_order_relaxed,
							  memory_order_relaxed))
			break;
	if (!hwts_pg_is_replaced(conn))
		return 0;
	return hwts_fail(
	    ENOTCONN,
	    "postgresql: another server has taken the place of this one, which has timeline %u of %u: it has "
	    "to be stopped, or to follow; restart this process if the newer server was given up",
	    (unsigned)(conn->origin & TIMELINE), (unsigned)(known & TIMELINE));
}
