/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections to SQLite: errors, turns at writing, statements, transactions, opening and settling; sqlite.h. */
#include "db/sqlite.h"

#include <stdlib.h>
#include <unistd.h>

/*
 * Failures
 */

static int meaning(int rc, int system_error)
{
	switch (rc & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return EAGAIN;
	case SQLITE_FULL:
		return ENOSPC;
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_AUTH:
	case SQLITE_CANTOPEN:
		return EACCES;
	case SQLITE_NOMEM:
		return ENOMEM;
	default:
		return system_error == ENOSPC || system_error == EDQUOT ? ENOSPC : EIO;
	}
}

static const char *advice(int rc)
{
	switch (rc) {
	case EAGAIN:
		return "; another process holds its lock, try again";
	case ENOSPC:
		return "; the disk is full, make room";
	case EACCES:
		return "; the file and its folder must be writable for this user";
	default:
		return "";
	}
}

int hwts_sqlite_error(struct sqlite_conn *conn, int rc, const char *doing)
{
	int is = meaning(rc, conn->handle ? sqlite3_system_errno(conn->handle) : 0);

	/* A connection that has met a failing disk is made again. */
	if (is == EIO && (rc & 0xff) != SQLITE_ERROR && (rc & 0xff) != SQLITE_CONSTRAINT)
		conn->conn.broken = true;
	return hwts_fail(is, "sqlite: %s: %s (%s)%s", doing, conn->handle ? sqlite3_errmsg(conn->handle) : "no handle",
			 sqlite3_errstr(rc), advice(is));
}

/*
 * The turn
 */

void hwts_sqlite_turn(struct sqlite_db *db)
{
	uint64_t mine;

	pthread_mutex_lock(&db->lock);
	mine = db->drawn++;
	while (db->serving != mine)
		hwts_wait_ns(&db->turned, &db->lock, HWT_S(1)); /* woken; or looks itself */
	pthread_mutex_unlock(&db->lock);
}

void hwts_sqlite_turn_end(struct sqlite_db *db)
{
	pthread_mutex_lock(&db->lock);
	db->serving++;
	pthread_cond_broadcast(&db->turned);
	pthread_mutex_unlock(&db->lock);
}

/* Asked by SQLite when another process holds the lock. */
static int wait_for_lock(void *arg, int count)
{
	struct sqlite_conn *conn = arg;

	if (count < 25) {
		hwts_sleep_ns(HWT_US(200));
		return 1;
	}
	hwts_sleep_ns(HWT_MS(1));
	return (int64_t)count * HWT_MS(1) < conn->patience_ns;
}

/*
 * Statements
 */

/* Prepared once in each connection. */
static sqlite3_stmt *prepared(struct sqlite_conn *conn, int *rc, const char *text)
{
	struct sqlite_statement *statement = conn->statements;
	char *sql;
	int made;

	for (size_t i = 0; statement->text != NULL && statement->text != text; i++, statement++)
		if (i == HWTS_SQLITE_STATEMENTS - 1)
			return *rc = hwts_fail(ENOMEM, "sqlite: too many statements"), NULL;
	if (statement->made) {
		sqlite3_reset(statement->made);
		return statement->made;
	}
	sql = hwts_sql(conn->conn.db, text);
	if (!sql)
		return *rc = ENOMEM, NULL;
	made = sqlite3_prepare_v3(conn->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement->made, NULL);
	if (made != SQLITE_OK)
		*rc = hwts_sqlite_error(conn, made, "prepare");
	else
		statement->text = text;
	free(sql);
	return statement->made;
}

sqlite3_stmt *hwts_sqlite_rows(struct sqlite_conn *conn, int *rc, const char *text, const struct sqlite_value *values,
			       size_t n)
{
	sqlite3_stmt *rows = *rc == 0 ? prepared(conn, rc, text) : NULL;

	for (size_t i = 0; i < n && rows; i++) {
		int at = (int)i + 1;

		if (values[i].is == SQLITE_IS_NUMBER)
			sqlite3_bind_int64(rows, at, values[i].number);
		else if (!values[i].bytes)
			sqlite3_bind_null(rows, at);
		else if (values[i].is == SQLITE_IS_TEXT)
			sqlite3_bind_text(rows, at, values[i].bytes, -1, SQLITE_STATIC);
		else
			sqlite3_bind_blob64(rows, at, values[i].bytes, values[i].len, SQLITE_STATIC);
	}
	return rows;
}

bool hwts_sqlite_next(struct sqlite_conn *conn, sqlite3_stmt *rows, int *rc)
{
	int step = rows ? sqlite3_step(rows) : SQLITE_DONE;

	if (step == SQLITE_ROW)
		return true;
	if (step != SQLITE_DONE)
		*rc = hwts_sqlite_error(conn, step, "step");
	sqlite3_reset(rows);
	return false;
}

int hwts_sqlite_do(struct sqlite_conn *conn, int *changes, const char *text, const struct sqlite_value *values,
		   size_t n)
{
	int rc = 0;
	sqlite3_stmt *rows = hwts_sqlite_rows(conn, &rc, text, values, n);

	while (hwts_sqlite_next(conn, rows, &rc))
		;
	if (changes)
		*changes = rc ? 0 : sqlite3_changes(conn->handle);
	return rc;
}

void hwts_sqlite_forget(struct sqlite_conn *conn)
{
	for (size_t i = 0; i < HWTS_SQLITE_STATEMENTS && conn->statements[i].text; i++) {
		sqlite3_finalize(conn->statements[i].made);
		conn->statements[i] = (struct sqlite_statement){ NULL, NULL };
	}
}

/*
 * Transactions
 */

int hwts_sqlite_begin(struct sqlite_conn *conn, bool full)
{
	int rc = 0;

	hwts_sqlite_turn(sqlite_db(&conn->conn));
	conn->has_turn = true;
	if (full != conn->full) {
		rc = hwts_sqlite_do(conn, NULL, full ? "pragma synchronous = full" : "pragma synchronous = normal",
				    NOTHING);
		if (rc == 0)
			conn->full = full;
	}
	hwts_count_trip(conn->conn.db);
	if (rc == 0)
		rc = hwts_sqlite_do(conn, NULL, "begin immediate", NOTHING);
	if (rc != 0) {
		conn->has_turn = false;
		hwts_sqlite_turn_end(sqlite_db(&conn->conn));
	}
	return rc;
}

int hwts_sqlite_commit(struct sqlite_conn *conn, int rc)
{
	if (rc == 0)
		rc = hwts_sqlite_do(conn, NULL, "commit", NOTHING);
	/* Also after a commit that failed: its transaction is still open then. */
	if (rc != 0 && !sqlite3_get_autocommit(conn->handle)) {
		char text[512];

		hwts_cut(text, sizeof(text), hwts_fail_text(), strlen(hwts_fail_text()));
		for (size_t i = 0; i < HWTS_SQLITE_STATEMENTS && conn->statements[i].text; i++)
			sqlite3_reset(conn->statements[i].made);
		if (sqlite3_exec(conn->handle, "rollback", NULL, NULL, NULL) != SQLITE_OK)
			conn->conn.broken = true;
		(void)hwts_fail(rc, "%s", text);
	}
	if (conn->has_turn) {
		conn->has_turn = false;
		hwts_sqlite_turn_end(sqlite_db(&conn->conn));
	}
	return rc;
}

/*
 * The database and its connections
 */

static int open_db(const char *url, struct hwts_db **out)
{
	struct sqlite_db *db;
	const char *path = url + strlen("sqlite:");
	int rc;

	if (*path == '\0' || strcmp(path, ":memory:") == 0 || strncmp(path, "file:", 5) == 0)
		return hwts_fail(EINVAL,
				 "sqlite: \"%s\" names no file; a store in memory would survive nothing, use a "
				 "path or plain hwt.h",
				 url);
	if (sqlite3_threadsafe() == 0)
		return hwts_fail(ENOTSUP, "sqlite: this library was built without threads");
	if (sqlite3_libversion_number() < 3035000)
		return hwts_fail(ENOTSUP, "sqlite: version %s is too old, 3.35 is needed", sqlite3_libversion());
	db = hwts_alloc(sizeof(*db));
	if (!db)
		return ENOMEM;
	rc = hwts_sqlite_find_file(path, &db->path);
	if (rc != 0) {
		free(db);
		return rc;
	}
	db->db.file = db->path;
	pthread_mutex_init(&db->lock, NULL);
	hwts_cond_init(&db->turned);
	hwts_cond_init(&db->work);
	*out = &db->db;
	return 0;
}

static void close_db(struct hwts_db *base)
{
	struct sqlite_db *db = (struct sqlite_db *)base;

	hwts_sqlite_stop_keeper(db);
	pthread_mutex_destroy(&db->lock);
	pthread_cond_destroy(&db->turned);
	pthread_cond_destroy(&db->work);
	free(db->path);
	free(db);
}

static void disconnect(struct hwts_conn *base)
{
	struct sqlite_conn *conn = sqlite_conn(base);

	if (conn->inotify >= 0) {
		hwts_sqlite_stop_keeper(sqlite_db(base));
		close(conn->inotify);
	}
	hwts_sqlite_forget(conn);
	sqlite3_close_v2(conn->handle);
	free(conn);
}

/* SQLite answers with the mode that it has now, and no error if that is another one. */
static int read_mode(void *is_wal, int columns, char **values, char **names)
{
	(void)names;
	*(bool *)is_wal = columns == 1 && values[0] && strcmp(values[0], "wal") == 0;
	return 0;
}

static int settle(struct sqlite_conn *conn, enum hwts_role role)
{
	int64_t give_up_ns = hwt_now() + HWTS_SQLITE_PATIENCE_NS;
	bool is_wal = false;
	int failed = 0, rc;

	sqlite3_extended_result_codes(conn->handle, 1);
	conn->patience_ns = role == HWTS_CONTROL ? HWTS_MIN(HWTS_SQLITE_PATIENCE_NS, conn->conn.db->lease_us * 500)
						 : HWTS_SQLITE_PATIENCE_NS;
	sqlite3_busy_handler(conn->handle, wait_for_lock, conn);
	if (sqlite3_db_readonly(conn->handle, "main") == 1)
		return hwts_fail(EACCES, "sqlite: %s can be read only%s", sqlite_db(&conn->conn)->path, advice(EACCES));
	/* This one does not ask the busy handler when another process opens the file, too. */
	do {
		rc = sqlite3_exec(conn->handle, "pragma journal_mode = wal", read_mode, &is_wal, NULL);
	} while ((rc & 0xff) == SQLITE_BUSY && hwt_now() < give_up_ns && (hwts_sleep_ns(HWT_MS(1)), true));
	if (rc != SQLITE_OK)
		return hwts_sqlite_error(conn, rc, "open");
	if (!is_wal)
		return hwts_fail(ENOTSUP,
				 "sqlite: %s cannot have a write-ahead log, which needs shared memory: a"
				 " network's file system, or a VFS without it",
				 sqlite_db(&conn->conn)->path);
	conn->full = true;
	/* What a long reader has made grow shrinks when the log begins again: 64 MiB, as the keeper has it. */
	rc = sqlite3_exec(conn->handle, "pragma journal_size_limit = 67108864", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return hwts_sqlite_error(conn, rc, "open");
	failed = hwts_sqlite_do(conn, NULL, "pragma synchronous = full", NOTHING);
	sqlite3_wal_hook(conn->handle, hwts_sqlite_wal_hook, conn);
	return failed;
}

static int connect(struct hwts_db *base, enum hwts_role role, struct hwts_conn **out)
{
	struct sqlite_db *db = (struct sqlite_db *)base;
	struct sqlite_conn *conn = hwts_alloc(sizeof(*conn));
	int rc;

	if (!conn)
		return ENOMEM;
	conn->conn.db = base;
	conn->inotify = -1;
	rc = sqlite3_open_v2(
	    db->path, &conn->handle,
	    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL);
	if (rc == SQLITE_OK)
		rc = settle(conn, role);
	else
		rc = hwts_sqlite_error(conn, rc, db->path);
	if (rc != 0) {
		hwts_sqlite_forget(conn);
		sqlite3_close_v2(conn->handle);
		free(conn);
		return rc;
	}
	if (role == HWTS_CONTROL)
		hwts_sqlite_start_keeper(db);
	*out = &conn->conn;
	return 0;
}

static bool alive(struct hwts_conn *conn)
{
	return !conn->broken;
}

const struct hwts_engine hwts_sqlite = {
	.name = "sqlite",
	.open = open_db,
	.close = close_db,
	.connect = connect,
	.disconnect = disconnect,
	.alive = alive,
	.prepare = hwts_sqlite_prepare,
	.kind = hwts_sqlite_kind,
	.put = hwts_sqlite_put,
	.put_on = hwts_sqlite_put_on,
	.cancel = hwts_sqlite_cancel,
	.reschedule = hwts_sqlite_reschedule,
	.get = hwts_sqlite_get,
	.find = hwts_sqlite_find,
	.page = hwts_sqlite_page,
	.join = hwts_sqlite_join,
	.leave = hwts_sqlite_leave,
	.look = hwts_sqlite_look,
	.take = hwts_sqlite_take,
	.give = hwts_sqlite_give,
	.begin = hwts_sqlite_begin_rows,
	.end = hwts_sqlite_end_rows,
	.open_run = hwts_sqlite_open_run,
	.close_run = hwts_sqlite_close_run,
	.drop_run = hwts_sqlite_drop_run,
	.listen = hwts_sqlite_listen,
	.news_fd = hwts_sqlite_news_fd,
	.news = hwts_sqlite_news,
	.tend = hwts_sqlite_tend,
};
