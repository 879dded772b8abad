/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steps of sql.h as PostgreSQL executes them: one pipeline, which is one round trip and one transaction.
 */
#include "db/postgres.h"

#include <stdlib.h>

static const char SYNCED[] = "select set_config('synchronous_commit', current_setting('hwt_store.synced'), true)";

/* The role's own synchronous_commit holds for the whole connection. */
static bool syncs(const struct pg_conn *conn)
{
	return conn->conn.role == HWTS_CALL || conn->conn.role == HWTS_TASK;
}

static int run_on_callers(struct pg_conn *conn, const struct hwts_step *steps, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		struct pg_step step = { .from = &steps[i] };
		const char *text = hwts_statements[steps[i].sql].postgres;

		if (text && !text[0])
			continue;
		rc = hwts_pg_on_callers(conn, &step);
		if (rc == 0 && steps[i].each)
			rc = hwts_pg_decode(step.result, &steps[i]);
		PQclear(step.result);
	}
	return rc;
}

/* What goes to the server; returns how many steps there are. */
static size_t write_steps(struct pg_conn *conn, struct pg_step *out, const struct hwts_step *steps, size_t n,
			  unsigned flags)
{
	bool open = PQtransactionStatus(conn->handle) != PQTRANS_IDLE, after = false;
	size_t count = 0;

	if (!open && flags & HWTS_OPEN)
		out[count++] = (struct pg_step){ .text = "begin" };
	if (flags & HWTS_SYNCED && !syncs(conn))
		out[count++] = (struct pg_step){ .text = SYNCED };
	for (size_t i = 0; i < n; i++) {
		const char *text = hwts_statements[steps[i].sql].postgres;

		if (text && !text[0])
			continue;
		if (steps[i].after && !after) {
			after = true;
			if (open)
				out[count++] = (struct pg_step){ .text = "commit" };
			if (count > 0)
				out[count - 1].sync = true;
		}
		out[count++] = (struct pg_step){ .from = &steps[i], .sync = steps[i].commits };
	}
	if (open && !(flags & HWTS_OPEN) && !after)
		out[count++] = (struct pg_step){ .text = "commit" };
	return count;
}

int hwts_pg_exchange(struct hwts_conn *base, const struct hwts_step *steps, size_t n, unsigned flags)
{
	struct pg_conn *conn = pg_conn(base);
	struct pg_step *out;
	size_t count;
	int rc;

	if (conn->callers)
		return run_on_callers(conn, steps, n);
	out = hwts_alloc((n + 3) * sizeof(*out));
	if (!out)
		return ENOMEM;
	count = write_steps(conn, out, steps, n, flags);
	rc = hwts_pg_run(conn, out, count);
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = out[i].from && out[i].from->after ? 0 : out[i].rc;
	for (size_t i = 0; i < count && rc == 0; i++)
		if (out[i].rc == 0 && out[i].from && out[i].from->each)
			rc = hwts_pg_decode(out[i].result, out[i].from) == 0 ? 0 : ECONNRESET; /* it has happened */
	base->broken |= rc == ECONNRESET;
	for (size_t i = 0; i < count; i++)
		PQclear(out[i].result);
	free(out);
	/* Nothing was written, or nothing was committed. */
	return rc == ECONNRESET && flags & (HWTS_READS | HWTS_OPEN) ? ENOTCONN : rc;
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
