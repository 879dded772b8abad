/* SPDX-License-Identifier: BSD-2-Clause */
/* A run in a transaction of PostgreSQL. */
#include "db/postgres.h"

/*
 * Until the commit.  The connection plans as its user has configured, but the end needs the plan of our own
 * connections: with few rows in the table the planner would choose to read all, and keep that plan when there are many.
 * A role that the task has taken may have no rights on the tables: the end has the role of the connection,
 * HWTS_PG_NOTE_ROLE.
 */
static const char OUR_PLAN[] = "select " HWTS_PG_KEEP ", " HWTS_PG_ENTER ", " HWTS_PG_OUR_ROLE
			       ", pg_catalog.set_config('enable_seqscan', 'off', true),"
			       " pg_catalog.set_config('enable_bitmapscan', 'off', true),"
			       " pg_catalog.set_config('enable_indexscan', 'on', true),"
			       " pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true)";
static const char USERS_PATH[] = "select " HWTS_PG_ROLE_BACK ", " HWTS_PG_LEAVE;

int hwts_pg_open_run(struct hwts_conn *base, void **handle)
{
	struct pg_conn *conn = pg_conn(base);
	/* If the task ends the transaction the savepoint is gone. */
	int rc = hwts_pg_simple(conn, "begin; savepoint hwt_run");

	if (rc != 0) {
		hwts_pg_drop_run(base);
		return rc;
	}
	*handle = conn->handle;
	return 0;
}

static bool is_state(const struct pg_step *step, const char *state)
{
	const char *is = step->result ? PQresultErrorField(step->result, PG_DIAG_SQLSTATE) : NULL;

	return is && strcmp(is, state) == 0;
}

/* The steps of the end, followed by the commit. */
static int close_by(struct pg_conn *conn, const struct hwts_step *ends, size_t n)
{
	struct pg_step steps[4 + HWTS_CLOSING] = { { .text = "release savepoint hwt_run" }, { .text = OUR_PLAN } };
	const size_t first = 2, count = first + n + 2;
	int rc;

	for (size_t i = 0; i < n; i++)
		steps[first + i].from = &ends[i];
	steps[first + n].text = USERS_PATH;
	steps[first + n + 1].text = "commit";
	rc = hwts_pg_run(conn, steps, count);
	if (rc == 0 && is_state(&steps[0], "3B001"))
		rc = hwts_fail(EPROTO, "the task ended the transaction that it was given");
	else if (rc == 0 && is_state(&steps[first], "22012"))
		rc = ESTALE;
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = steps[i].rc;
	for (size_t i = 0; i < count && rc == 0; i++)
		if (steps[i].from && steps[i].from->each)
			rc = hwts_pg_decode(steps[i].result, steps[i].from);
	for (size_t i = 0; i < count; i++)
		PQclear(steps[i].result);
	return rc;
}

int hwts_pg_close_run(struct hwts_conn *base, const struct hwts_step *steps, size_t n)
{
	struct pg_conn *conn = pg_conn(base);
	int rc = 0;

	hwts_pg_hear_notices(conn); /* a receiver that the task has set may be gone with its stack */
	if (PQstatus(conn->handle) != CONNECTION_OK)
		rc = hwts_pg_error(conn, NULL, "run");
	else if (PQtransactionStatus(conn->handle) == PQTRANS_IDLE)
		rc = hwts_fail(EPROTO, "the task ended the transaction that it was given");
	else if (PQtransactionStatus(conn->handle) != PQTRANS_INTRANS)
		rc = hwts_fail(EPROTO, "a statement of the task failed, and the task says that it is done");
	if (rc == 0) {
		HWTS_POINT("close_run");
		rc = close_by(conn, steps, n);
	}
	if (rc != 0 && conn->was_silent)
		rc = hwts_fail(EPROTO, "the task said nothing to PostgreSQL for longer than the lease, and its "
				       "transaction was given up");
	if (rc != 0) {
		char text[512];

		hwts_cut(text, sizeof(text), hwts_fail_text(), strlen(hwts_fail_text()));
		hwts_pg_drop_run(base);
		(void)hwts_fail(rc, "%s", text);
	}
	return rc;
}

void hwts_pg_drop_run(struct hwts_conn *base)
{
	struct pg_conn *conn = pg_conn(base);
	PGTransactionStatusType status = PQtransactionStatus(conn->handle);

	hwts_pg_hear_notices(conn);
	if (status == PQTRANS_IDLE)
		return;
	/* Perhaps amid a COPY: a new connection is cheaper than finding out. */
	if ((status != PQTRANS_INTRANS && status != PQTRANS_INERROR) || hwts_pg_simple(conn, "rollback") != 0)
		base->broken = true;
}
