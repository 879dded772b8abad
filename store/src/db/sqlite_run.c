/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run in a transaction of SQLite: it has the turn, and SQLite's lock, until it ends.
 */
#include "db/sqlite.h"

int hwts_sqlite_open_run(struct hwts_conn *base, void **handle)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int rc = hwts_sqlite_begin(conn, true);

	if (rc != 0)
		return rc;
	rc = hwts_sqlite_do(conn, NULL, "savepoint hwt_run", NOTHING); /* is gone if the task ends the transaction */
	if (rc != 0)
		return hwts_sqlite_commit(conn, rc);
	*handle = conn->handle;
	return 0;
}

/* A statement that the task has left in the middle would keep its snapshot, and no transaction could begin after it. */
static void reset_all(struct sqlite_conn *conn)
{
	for (sqlite3_stmt *made = sqlite3_next_stmt(conn->handle, NULL); made;
	     made = sqlite3_next_stmt(conn->handle, made))
		if (sqlite3_stmt_busy(made))
			(void)sqlite3_reset(made);
}

int hwts_sqlite_close_run(struct hwts_conn *base, const struct hwts_step *steps, size_t n)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	bool hit = false;
	struct hwts_step first = steps[0];
	int rc = 0;

	reset_all(conn);
	first.each = hwts_note_row;
	first.ctx = &hit;
	if (sqlite3_get_autocommit(conn->handle) ||
	    sqlite3_exec(conn->handle, "release hwt_run", NULL, NULL, NULL) != SQLITE_OK)
		rc = hwts_fail(EPROTO, "the task ended the transaction that it was given");
	if (rc == 0)
		rc = hwts_sqlite_exchange(base, &first, 1, HWTS_OPEN);
	if (rc == 0 && !hit)
		rc = ESTALE;
	if (rc == 0)
		rc = hwts_sqlite_exchange(base, steps + 1, n - 1, HWTS_OPEN);
	HWTS_POINT("close_run");
	return hwts_sqlite_commit(conn, rc);
}

void hwts_sqlite_drop_run(struct hwts_conn *base)
{
	reset_all(sqlite_conn(base));
	(void)hwts_sqlite_commit(sqlite_conn(base), ECANCELED);
}
