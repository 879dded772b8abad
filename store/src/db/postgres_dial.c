/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting to a PostgreSQL server; whether a pooler is between, which server it is, and whether it writes. */
#include "db/postgres.h"

#include <stdio.h>
#include <stdlib.h>

#define OPTIONS_MAX 50
#define CONNECT_TIMEOUT_S "5"       /* for each host */
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

/* libpq's own receiver, which calls the notice processor that a task may have set. */
static _Atomic PQnoticeReceiver libpqs;

/*
 * Notes a FATAL error that libpq passes as a notice, as it does if the error came with the end of an earlier answer.
 * Relaxed: libpqs has only one value, the same for all connections.
 */
static void hear_notice(void *arg, const PGresult *notice)
{
	const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
	PQnoticeReceiver tell = atomic_load_explicit(&libpqs, memory_order_relaxed);

	if (arg && severity && strcmp(severity, "FATAL") == 0)
		hwts_pg_note_silence(arg, PQresultErrorField(notice, PG_DIAG_SQLSTATE));
	if (tell)
		tell(NULL, notice);
}

/* Relaxed: as in hear_notice. */
void hwts_pg_hear_notices(struct pg_conn *conn)
{
	PQnoticeReceiver before = PQsetNoticeReceiver(conn->handle, hear_notice, conn);

	(void)PQsetNoticeProcessor(conn->handle, ignore_notice, NULL);
	if (!atomic_load_explicit(&libpqs, memory_order_relaxed))
		atomic_store_explicit(&libpqs, before, memory_order_relaxed);
}

/*
 * Connects to the url, with defaults for what it leaves open.  libpq tries its hosts in turn; a connection that writes
 * makes libpq skip servers that only read.
 */
static PGconn *dial(const struct pg_db *db)
{
	char patience[32];
	const char *names[OPTIONS_MAX + 8], *values[OPTIONS_MAX + 8];
	const char *defaults[][2] = {
		{ "client_encoding", "UTF8" }, /* our encoding holds, whatever the url says */
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
	hwts_pg_hear_notices(conn);
	*out = conn;
	return 0;
}

/*
 * Finding a pooler between this process and the server.
 *
 * A pooler in session mode does no harm: a connection keeps its backend until it closes.  In transaction mode each
 * transaction may get another backend.  LISTEN, prepared statements and settings are lost then, or stay behind for
 * others.  That shows late and in many ways, so the first connection looks for a pooler before anything else.
 *
 *   A pooler reports a backend pid of its own making; pg_backend_pid() tells the real one.  If the two differ there is
 *   a pooler.  Then the mode is found out: two connections that are open at the same time share a backend only in
 *   transaction mode.  Poolers hand out first what came back last, so the second connection gets the backend that the
 *   first has just left.  When other clients are busy that may take a few attempts.
 *
 * Through a pooler in transaction mode a store puts, cancels and reads: its statements are not prepared, and their
 * settings are made in each transaction (postgres_exchange.c).  Such a store cannot be started.
 */

#define ATTEMPTS 5
#define BACKEND "select pg_catalog.pg_backend_pid()"

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

/* *shared: the second connection got the backend of the first, which stays open. */
static int look(struct pg_conn *first, struct pg_conn *second, bool *shared)
{
	int mine = 0, others = 0, rc = backend_of(first, BACKEND, &mine);

	if (rc == 0)
		rc = backend_of(second, "begin; " BACKEND, &others);
	if (rc == 0)
		rc = hwts_pg_simple(second, "rollback");
	*shared = rc == 0 && mine == others;
	return rc;
}

int hwts_pg_find_pooler(struct pg_conn *conn)
{
	struct pg_db *db = (struct pg_db *)conn->conn.db;
	struct pg_conn *other;
	int pid = 0, rc = backend_of(conn, BACKEND, &pid);

	if (rc == 0 && pid != PQbackendPID(conn->handle)) {
		rc = hwts_pg_dial(&db->db, HWTS_CALL, &other);
		if (rc != 0)
			return rc;
		for (int i = 0; i < ATTEMPTS && rc == 0 && !db->db.pooled; i++)
			rc = look(conn, other, &db->db.pooled);
		hwts_pg_hang_up(other);
	}
	return rc;
}

/*
 * Uses the role's own search path to find the tables, so every other name is qualified: a function, type or operator of
 * the path could be a trap.
 */
static const char PLACE[] =
    "select pg_catalog.quote_ident(n.nspname::pg_catalog.text) from pg_catalog.pg_namespace n where n.oid"
    " operator(pg_catalog.=) coalesce((select c.relnamespace from pg_catalog.pg_class c where c.oid"
    " operator(pg_catalog.=) pg_catalog.to_regclass('@_meta')::pg_catalog.oid), pg_catalog.to_regnamespace("
    "pg_catalog.quote_ident(pg_catalog.current_schema()::pg_catalog.text))::pg_catalog.oid)";

int hwts_pg_find_place(struct pg_conn *conn)
{
	struct hwts_db *db = conn->conn.db;
	PGresult *result;
	int rc = hwts_pg_one_by_path(conn, PLACE, &result);

	if (rc == 0 && PQntuples(result) != 1)
		rc = hwts_fail(EINVAL, "postgresql: no schema of the role's search_path exists");
	else if (rc == 0 && ((size_t)PQgetlength(result, 0, 0) + 2 > sizeof(db->schema) ||
			     strstr(PQgetvalue(result, 0, 0), "$hwt$")))
		rc = hwts_fail(EINVAL, "postgresql: a store cannot be in the schema %s", PQgetvalue(result, 0, 0));
	if (rc == 0)
		(void)snprintf(db->schema, sizeof(db->schema), "%s.", PQgetvalue(result, 0, 0));
	PQclear(result);
	return rc;
}

/*
 * Finding out whether another server has taken the place of this one; postgres.h says why.
 */

#define TIMELINE UINT64_C(0xffffffff)

/* A standby cannot answer, nor can a database that only resembles PostgreSQL: then origin stays unknown. */
static const char ORIGIN[] = "select system_identifier, pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()),"
			     " " HWTS_PLACE " from pg_catalog.pg_control_system()";

/* The name of a log file begins with eight digits of the timeline. */
static uint64_t timeline_of(const char *name)
{
	char digits[9];

	hwts_cut(digits, sizeof(digits), name, 8);
	return strtoull(digits, NULL, 16);
}

static uint64_t read_origin(struct pg_conn *conn, int64_t *place)
{
	PGresult *result;
	uint64_t origin = 0;

	if (hwts_pg_one(conn, ORIGIN, &result) != 0)
		return 0;
	if (PQntuples(result) == 1) {
		*place = hwts_pg_get(result, 0, 2);
		origin = (hwts_mix((uint64_t)hwts_pg_get(result, 0, 0)) & ~TIMELINE) |
			 timeline_of(PQgetvalue(result, 0, 1));
	}
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
	int64_t place = 0;

	conn->origin = read_origin(conn, &place);
	if (conn->conn.broken)
		return ENOTCONN;
	/* Relaxed: see struct pg_db. */
	while (conn->origin != 0 && conn->origin != known && !is_older(conn->origin, known))
		if (atomic_compare_exchange_weak_explicit(&db->origin, &known, conn->origin, memory_order_relaxed,
							  memory_order_relaxed))
			break;
	if (place != 0 && !hwts_pg_is_replaced(conn))
		atomic_store_explicit(&db->db.place, place, memory_order_relaxed); /* see struct hwts_db */
	if (!hwts_pg_is_replaced(conn))
		return 0;
	return hwts_fail(
	    ENOTCONN,
	    "postgresql: another server has taken the place of this one, which has timeline %u of %u: it has "
	    "to be stopped, or to follow; restart this process if the newer server was given up",
	    (unsigned)(conn->origin & TIMELINE), (unsigned)(known & TIMELINE));
}

/*
 * EACCES: the server only allows reading.  A pool reports the state at its own first connection, so the server is
 * asked.
 */
int hwts_pg_check_writes(struct pg_conn *conn)
{
	PGresult *result;
	bool reads;
	int rc;

	if (hwts_pg_says_reads(conn) == 0)
		return 0;
	/* Qualified names, as the search path is still the role's. */
	rc = hwts_pg_one(conn,
			 "select pg_catalog.pg_is_in_recovery() or"
			 " pg_catalog.current_setting('default_transaction_read_only')::pg_catalog.bool",
			 &result);
	reads = rc == 0 && hwts_pg_get(result, 0, 0) != 0;
	PQclear(result);
	return reads ? hwts_pg_says_reads(conn) : rc;
}
