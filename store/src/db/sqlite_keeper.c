/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The keeper of a SQLite log: a thread that moves the log into the file, so that no commit has to.  When the log has
 * grown too long it holds the writers up and begins it again.  It lives as long as the control connection.
 *
 * The log cannot begin again while somebody reads an old snapshot of it, and the keeper has the writers' lock while it
 * waits for that.  So it waits for a moment only, and tries again much later.
 */
#include "db/sqlite.h"

#define LOG_LONG_PAGES 1000      /* the keeper moves the log into the file */
#define LOG_TOO_LONG_PAGES 16384 /* it holds the writers up to begin the log again */
#define LOG_NET_PAGES 20000      /* without a keeper, a commit does it */
#define APART_NS HWT_MS(50)
#define RESTART_PATIENCE_NS HWT_MS(30) /* for readers of the log; the writers wait as long */
#define RESTART_APART_NS HWT_S(2)      /* after one that readers have prevented */

int hwts_sqlite_wal_hook(void *arg, sqlite3 *handle, const char *name, int pages)
{
	struct sqlite_db *db = sqlite_db(&((struct sqlite_conn *)arg)->conn);
	bool keeping;

	if (pages < LOG_LONG_PAGES)
		return SQLITE_OK;
	pthread_mutex_lock(&db->lock);
	keeping = db->keeping;
	if (keeping && !db->log_is_long) {
		db->log_is_long = true;
		pthread_cond_signal(&db->work);
	}
	pthread_mutex_unlock(&db->lock);
	if (!keeping || pages > LOG_NET_PAGES)
		(void)sqlite3_wal_checkpoint_v2(handle, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	return SQLITE_OK;
}

/* Returns how long to let the log be. */
static int64_t tidy(struct sqlite_db *db, struct sqlite_conn *conn)
{
	int pages, moved, rc;

	rc = sqlite3_wal_checkpoint_v2(conn->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
	if (rc != SQLITE_OK || pages <= LOG_TOO_LONG_PAGES)
		return APART_NS;
	conn->patience_ns = RESTART_PATIENCE_NS;
	if (!hwts_sqlite_turn(db, hwt_now() + db->patience_ns, false))
		return RESTART_APART_NS;
	rc = sqlite3_wal_checkpoint_v2(conn->handle, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
	hwts_sqlite_turn_end(db);
	return rc == SQLITE_OK ? APART_NS : RESTART_APART_NS;
}

static void *keep(void *arg)
{
	struct sqlite_db *db = arg;
	struct hwts_conn *conn = NULL;
	int64_t apart_ns;

	pthread_mutex_lock(&db->lock);
	for (;;) {
		while (db->keep_on && !db->log_is_long)
			pthread_cond_wait(&db->work, &db->lock);
		if (!db->keep_on)
			break;
		pthread_mutex_unlock(&db->lock);
		apart_ns = APART_NS;
		if (conn || db->db.engine->connect(&db->db, HWTS_END, &conn) == 0)
			apart_ns = tidy(db, sqlite_conn(conn));
		pthread_mutex_lock(&db->lock);
		if (db->keep_on)
			hwts_wait_ns(&db->work, &db->lock, apart_ns);
		db->log_is_long = false;
	}
	pthread_mutex_unlock(&db->lock);
	if (conn)
		db->db.engine->disconnect(conn);
	return NULL;
}

void hwts_sqlite_start_keeper(struct sqlite_db *db)
{
	pthread_mutex_lock(&db->lock);
	if (!db->keeping) {
		db->keep_on = true;
		db->keeping = hwts_thread(&db->keeper, keep, db) == 0; /* without one, commits do it */
	}
	pthread_mutex_unlock(&db->lock);
}

void hwts_sqlite_stop_keeper(struct sqlite_db *db)
{
	bool kept;

	pthread_mutex_lock(&db->lock);
	kept = db->keeping;
	db->keeping = db->keep_on = false;
	pthread_cond_signal(&db->work);
	pthread_mutex_unlock(&db->lock);
	if (kept)
		pthread_join(db->keeper, NULL);
}
