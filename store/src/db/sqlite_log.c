/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The length of SQLite's log.  A commit that makes the log longer by a part copies the log into the file.  With
 * SQLite's own wal_autocheckpoint each commit would do that once the log is long, which halves the puts.
 *
 * The log begins again only while no connection reads it.  If readers follow each other without a gap there is no such
 * moment, so control makes one.
 */
#include "db/sqlite.h"

#define LOG_PART_PAGES 1000
#define LOG_LONG_PAGES 4096            /* 16 MiB */
#define RESTART_PATIENCE_NS HWT_MS(30) /* how long to wait for readers of the log; writers wait as long */

int hwts_sqlite_wal_hook(void *arg, sqlite3 *handle, const char *name, int pages)
{
	struct sqlite_conn *conn = arg;
	int before = conn->log_parts;

	conn->log_parts = pages / LOG_PART_PAGES;
	if (conn->log_parts > before)
		(void)sqlite3_wal_checkpoint_v2(handle, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	return SQLITE_OK;
}

/* Makes the log begin again.  A reader of an old snapshot prevents it: the next renewal tries again. */
static void begin_log_again(struct sqlite_conn *conn)
{
	struct sqlite_db *db = sqlite_db(&conn->conn);
	int64_t patience_ns = conn->patience_ns;

	if (!hwts_sqlite_write_lock(db, hwt_now() + patience_ns, true))
		return;
	conn->patience_ns = RESTART_PATIENCE_NS;
	(void)sqlite3_wal_checkpoint_v2(conn->handle, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
	conn->patience_ns = patience_ns;
	hwts_sqlite_write_unlock(db);
}

void hwts_sqlite_tend(struct hwts_conn *base)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int pages, moved;

	hwts_sqlite_tend_hints(conn);
	if (sqlite3_wal_checkpoint_v2(conn->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved) == SQLITE_OK &&
	    pages > LOG_LONG_PAGES)
		begin_log_again(conn);
}
