/* SPDX-License-Identifier: BSD-2-Clause */
/* Executes steps of sql.h on PostgreSQL: one pipeline, which is one round trip and one transaction. */
#include "db/postgres.h"

#include <stdlib.h>

static const char ENTER[] = "select " HWTS_PG_ENTER;
static const char KEEP_AND_ENTER[] = "select " HWTS_PG_KEEP ", " HWTS_PG_ENTER;
static const char LEAVE[] = "select " HWTS_PG_LEAVE;

static const char SYNCED[] =
    "select set_config('synchronous_commit', case when current_setting('hwt_store.synced') in ('off', 'local') then"
    " 'on' else current_setting('hwt_store.synced') end, true)";

/* The transaction of a caller may wait for this very exchange. */
static const char BRIEF[] = "select set_config('lock_timeout', '200', true)";

/* Through a pooler a setting lasts only for a transaction. */
static const char PATIENT[] = "select set_config('lock_timeout', '10000', true)";

/* Connections of calls and tasks keep the role's own synchronous_commit. */
static bool syncs(const struct pg_conn *conn)
{
	return conn->conn.role == HWTS_CALL || conn->conn.role == HWTS_TASK;
}

static bool is_empty(enum hwts_sql sql)
{
	const char *text = hwts_statements[sql].postgres;

	return text && !text[0];
}

/* Writes the steps that go to the server.  Returns their number. */
static size_t write_steps(struct pg_conn *conn, struct pg_step *out, const struct hwts_step *steps, size_t n,
			  unsigned flags)
{
	const bool pooled = hwts_pg_is_pooled(conn) && !conn->callers;
	size_t count = 0;

	if (conn->callers)
		out[count++] = (struct pg_step){ .text = KEEP_AND_ENTER };
	else if (flags & HWTS_OPEN && PQtransactionStatus(conn->handle) == PQTRANS_IDLE)
		out[count++] = (struct pg_step){ .text = "begin" };
	if (flags & (HWTS_SYNCED | HWTS_LEASE) && !syncs(conn))
		out[count++] = (struct pg_step){ .text = SYNCED };
	if (pooled)
		out[count++] = (struct pg_step){ .text = ENTER };
	if (conn->conn.brief || pooled)
		out[count++] = (struct pg_step){ .text = conn->conn.brief ? BRIEF : PATIENT };
	for (size_t i = 0; i < n; i++) {
		if (is_empty(steps[i].sql))
			continue;
		if (steps[i].after && count > 0 && !conn->callers) {
			out[count - 1].sync = true;
			if (pooled) /* each transaction sets the store's settings */
				out[count++] = (struct pg_step){ .text = ENTER };
		}
		out[count++] = (struct pg_step){ .from = &steps[i], .sync = steps[i].commits && !conn->callers };
	}
	if (conn->callers)
		out[count++] = (struct pg_step){ .text = LEAVE };
	return count;
}

int hwts_pg_exchange(struct hwts_conn *base, const struct hwts_step *steps, size_t n, unsigned flags)
{
	struct pg_conn *conn = pg_conn(base);
	struct pg_step *out;
	size_t count;
	int rc;

	out = hwts_alloc((2 * n + 4) * sizeof(*out));
	if (!out)
		return ENOMEM;
	count = write_steps(conn, out, steps, n, flags);
	rc = hwts_pg_run(conn, out, count);
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = out[i].from && out[i].from->after && !conn->callers ? 0 : out[i].rc;
	for (size_t i = 0; i < count && rc == 0; i++)
		if (out[i].rc == 0 && out[i].from && out[i].from->each)
			/* The exchange has happened. */
			rc = hwts_pg_decode(out[i].result, out[i].from) == 0 ? 0 : ECONNRESET;
	base->broken |= rc == ECONNRESET;
	for (size_t i = 0; i < count; i++)
		PQclear(out[i].result);
	free(out);
	/* Nothing was written, or nothing committed. */
	return rc == ECONNRESET && flags & (HWTS_READS | HWTS_OPEN) && !conn->callers ? ENOTCONN : rc;
}

int hwts_pg_finish(struct hwts_conn *base, int rc)
{
	struct pg_conn *conn = pg_conn(base);
	char text[512];

	if (conn->callers)
		return rc;
	if (rc == 0)
		return hwts_pg_simple(conn, "commit");
	hwts_cut(text, sizeof(text), hwts_fail_text(), strlen(hwts_fail_text()));
	if (!base->broken && PQtransactionStatus(conn->handle) != PQTRANS_IDLE && hwts_pg_simple(conn, "rollback") != 0)
		base->broken = true;
	return hwts_fail(rc, "%s", text);
}

/*
 * The server caches that a table is missing.  Waiting for an advisory lock does not refresh that cache, but opening a
 * table does: the last statement opens pg_class.
 */
int hwts_pg_begin_make(struct pg_conn *conn)
{
	return hwts_pg_simple(conn, "begin; set local search_path = " HWTS_PG_PATH
				    "; select pg_advisory_xact_lock(hashtext('@_meta')); select from pg_class limit 0");
}

/* Executes text in one transaction.  A failure has no effect. */
int hwts_pg_make(struct pg_conn *conn, const char *text)
{
	int rc = hwts_pg_begin_make(conn);

	if (rc == 0)
		rc = hwts_pg_simple(conn, text);
	return hwts_pg_finish(&conn->conn, rc);
}
