/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The length of SQLite's log, and the keeper: a thread that copies the log into the file while the store is started.  A
 * commit that did it would hold up rows that are due for some 20 ms.  Without a keeper a commit that makes the log
 * longer by a part does it.  With SQLite's own wal_autocheckpoint each commit would, once the log is long, which halves
 * the puts.
 *
 * The log begins again only while no connection reads it.  If readers follow each other without a gap there is no such
 * moment, so the keeper holds up the writers, and makes one.  A reader of an old snapshot prevents it: the keeper waits
 * for a moment only, and tries again much later.
 */
#include "db/sqlite.h"

#define LOG_PART_PAGES 1000
#define LOG_LONG_PAGES 16384           /* 64 MiB: the log is to begin again */
#define APART_NS HWT_MS(50)            /* between two copies */
#define RESTART_PATIENCE_NS HWT_MS(30) /* how long to wait for readers of the log; writers wait as long */
#define RESTART_APART_NS HWT_S(2)      /* after a restart that a reader has prevented */

/* False: there is no keeper. */
static bool ask_keeper(struct sqlite_db *db)
{
	bool is_kept;

	pthread_mutex_lock(&db->lock);
	is_kept = db->has_keeper;
	if (is_kept && !db->log_is_long) {
		db->log_is_long = true;
		pthread_cond_signal(&db->log_grew);
	}
	pthread_mutex_unlock(&db->lock);
	return is_kept;
}

int hwts_sqlite_wal_hook(void *arg, sqlite3 *handle, const char *name, int pages)
{
	struct sqlite_conn *conn = arg;
	int parts = pages / LOG_PART_PAGES;
	bool grew = parts > conn->log_parts, is_kept = parts > 0 && ask_keeper(sqlite_db(&conn->conn));

	conn->log_parts = parts;
	if (grew && !is_kept)
		(void)sqlite3_wal_checkpoint_v2(handle, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	return SQLITE_OK;
}

/* Returns how long to leave the log alone. */
static int64_t copy_log(struct sqlite_db *db, struct sqlite_conn *conn)
{
	int pages, moved, rc;

	rc = sqlite3_wal_checkpoint_v2(conn->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
	if (rc != SQLITE_OK || pages <= LOG_LONG_PAGES)
		return APART_NS;
	conn->patience_ns = RESTART_PATIENCE_NS;
	if (!hwts_sqlite_write_lock(db, hwt_now() + db->patience_ns, false))
		return RESTART_APART_NS;
	rc = sqlite3_wal_checkpoint_v2(conn->handle, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
	hwts_sqlite_write_unlock(db);
	return rc == SQLITE_OK ? APART_NS : RESTART_APART_NS;
}

static void *keep(void *arg)
{
	struct sqlite_db *db = arg;
	struct hwts_conn *conn = NULL;
	int64_t apart_ns;

	pthread_mutex_lock(&db->lock);
	for (;;) {
		while (db->has_keeper && !db->log_is_long)
			pthread_cond_wait(&db->log_grew, &db->lock);
		if (!db->has_keeper)
			break;
		db->log_is_long = false;
		pthread_mutex_unlock(&db->lock);
		apart_ns = APART_NS;
		if (conn || db->db.engine->connect(&db->db, HWTS_END, &conn) == 0)
			apart_ns = copy_log(db, sqlite_conn(conn));
		pthread_mutex_lock(&db->lock);
		for (int64_t until_ns = hwt_now() + apart_ns; db->has_keeper && hwt_now() < until_ns;)
			hwts_wait_ns(&db->log_grew, &db->lock, until_ns - hwt_now());
	}
	pthread_mutex_unlock(&db->lock);
	if (conn)
		db->db.engine->disconnect(conn);
	return NULL;
}

/* Without a keeper, as there is no memory, commits copy the log. */
void hwts_sqlite_start_keeper(struct sqlite_db *db)
{
	pthread_mutex_lock(&db->lock);
	if (!db->has_keeper)
		db->has_keeper = hwts_thread(&db->keeper, keep, db) == 0;
	pthread_mutex_unlock(&db->lock);
}

void hwts_sqlite_stop_keeper(struct sqlite_db *db)
{
	bool is_kept;

	pthread_mutex_lock(&db->lock);
	is_kept = db->has_keeper;
	db->has_keeper = false;
	pthread_cond_signal(&db->log_grew);
	pthread_mutex_unlock(&db->lock);
	if (is_kept)
		pthread_join(db->keeper, NULL);
}
