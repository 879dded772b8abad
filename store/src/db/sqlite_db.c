/* SPDX-License-Identifier: BSD-2-Clause */
/* A SQLite database and its connections; runs in a transaction. */
#include "db/sqlite.h"

#include <stdlib.h>
#include <unistd.h>

#define HALT_STEPS 10000 /* after this many steps of SQLite a look checks whether the store is being stopped */

/*
 * A fork copies SQLite's mutexes in the state in which other threads hold them, and its list of this process's locks,
 * of which the child has none.  In the child an open would hang, or reads would lock nothing.
 */
static atomic_uint databases; /* how many are open; a child counts those of its parent */
static _Atomic pid_t owner;   /* the process that opened the newest database */

/* Relaxed: a fork copies the values that its own thread sees; the order of other threads' accesses does not matter. */
static int refuse_after_fork(void)
{
	if (atomic_load_explicit(&databases, memory_order_relaxed) == 0 ||
	    atomic_load_explicit(&owner, memory_order_relaxed) == getpid())
		return 0;
	return hwts_fail(EINVAL,
			 "sqlite: the process was forked while a store on SQLite was open: close that before the fork,"
			 " or start the child by exec");
}

/* sqlite:file:PATH?mode=ro opens a store for reading: nothing is made or changed, not even by the open. */
#define LOOKS "?mode=ro"

static bool only_looks(const char *path)
{
	size_t len = strlen(path), least = strlen("file:" LOOKS);

	return strncmp(path, "file:", 5) == 0 && len > least && strcmp(path + len - strlen(LOOKS), LOOKS) == 0;
}

static int find_file(struct sqlite_db *db, const char *path)
{
	char *plain;
	int rc;

	if (!db->only_looks)
		return hwts_sqlite_find_file(path, &db->path);
	plain = hwts_copy(path + 5);
	if (!plain)
		return ENOMEM;
	plain[strlen(plain) - strlen(LOOKS)] = '\0';
	rc = access(plain, F_OK) == 0 ? hwts_sqlite_find_file(plain, &db->path) : hwts_fail_errno(errno, plain);
	free(plain);
	return rc;
}

static int open_db(const char *url, struct hwts_db **out)
{
	struct sqlite_db *db;
	const char *path = url + strlen("sqlite:");
	bool looks = only_looks(path);
	int rc;

	if (*path == '\0' || strcmp(path, ":memory:") == 0 || (strncmp(path, "file:", 5) == 0 && !looks))
		return hwts_fail(EINVAL,
				 "sqlite: \"%s\" names no file; a store in memory would survive nothing, use a "
				 "path or plain hwt.h",
				 url);
	if (sqlite3_threadsafe() == 0)
		return hwts_fail(ENOTSUP, "sqlite: this library was built without threads");
	if (sqlite3_libversion_number() < 3035000)
		return hwts_fail(ENOTSUP, "sqlite: version %s is too old, 3.35 is needed", sqlite3_libversion());
	rc = refuse_after_fork();
	if (rc != 0)
		return rc;
	db = hwts_alloc(sizeof(*db));
	if (!db)
		return ENOMEM;
	/* Relaxed: see refuse_after_fork. */
	atomic_store_explicit(&owner, getpid(), memory_order_relaxed);
	atomic_fetch_add_explicit(&databases, 1, memory_order_relaxed);
	db->only_looks = looks;
	rc = find_file(db, path);
	if (rc != 0) {
		atomic_fetch_sub_explicit(&databases, 1, memory_order_relaxed);
		free(db);
		return rc;
	}
	db->db.file = db->path;
	pthread_mutex_init(&db->lock, NULL);
	hwts_cond_init(&db->unlocked);
	hwts_cond_init(&db->log_grew);
	db->waiting_end = &db->waiting;
	db->patience_ns = HWTS_SQLITE_PATIENCE_NS;
	*out = &db->db;
	return 0;
}

static void close_db(struct hwts_db *base)
{
	struct sqlite_db *db = (struct sqlite_db *)base;

	pthread_mutex_destroy(&db->lock);
	pthread_cond_destroy(&db->unlocked);
	pthread_cond_destroy(&db->log_grew);
	free(db->path);
	free(db);
	atomic_fetch_sub_explicit(&databases, 1, memory_order_relaxed); /* Relaxed: as in refuse_after_fork. */
}

static void close_handle(struct sqlite_conn *conn)
{
	struct sqlite_db *db = sqlite_db(&conn->conn);

	hwts_sqlite_forget(conn);
	sqlite3_close_v2(conn->handle);
	free(conn);
	pthread_mutex_lock(&db->lock);
	if (--db->connections == 0)
		db->log = (struct hwts_sqlite_log){ .lost = false };
	pthread_mutex_unlock(&db->lock);
}

static void disconnect(struct hwts_conn *base)
{
	struct sqlite_conn *conn = sqlite_conn(base);

	if (base->role == HWTS_CONTROL)
		hwts_sqlite_stop_keeper(sqlite_db(base));
	if (conn->inotify >= 0)
		close(conn->inotify);
	close_handle(conn);
}

/* SQLite calls it while another process holds the lock. */
static int wait_for_lock(void *arg, int count)
{
	struct sqlite_conn *conn = arg;
	int64_t patience_ns = conn->patience_ns ? conn->patience_ns : HWTS_SQLITE_PATIENCE_NS;

	if (count < 25) {
		hwts_sleep_ns(HWT_US(200));
		return 1;
	}
	hwts_sleep_ns(HWT_MS(1));
	if (conn->until_ns)
		return hwt_now() < conn->until_ns;
	return (int64_t)count * HWT_MS(1) < patience_ns;
}

/* SQLite answers with the mode that holds now: if that is another mode it reports no error. */
static int read_mode(void *is_wal, int columns, char **values, char **names)
{
	(void)names;
	*(bool *)is_wal = columns == 1 && values[0] && strcmp(values[0], "wal") == 0;
	return 0;
}

/* Not 0 ends the statement of a look. */
static int is_halted(void *conn)
{
	return hwts_read_halts(conn);
}

static int settle(struct sqlite_conn *conn, enum hwts_role role)
{
	int64_t give_up_ns = hwt_now() + HWTS_SQLITE_PATIENCE_NS;
	bool is_wal = false;
	int rc;

	sqlite3_extended_result_codes(conn->handle, 1);
	conn->patience_ns = role == HWTS_CONTROL ? HWTS_MIN(HWTS_SQLITE_PATIENCE_NS, conn->conn.db->lease_us * 500) : 0;
	sqlite3_busy_handler(conn->handle, wait_for_lock, conn);
	if (role == HWTS_READ)
		sqlite3_progress_handler(conn->handle, HALT_STEPS, is_halted, &conn->conn);
	if (sqlite_db(&conn->conn)->only_looks)
		return 0;
	if (sqlite3_db_readonly(conn->handle, "main") == 1)
		return hwts_fail(EACCES,
				 "sqlite: %s can be read only; the file and its folder must be writable for this user",
				 sqlite_db(&conn->conn)->path);
	/* While another process opens the file, this pragma fails without calling the busy handler. */
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
	/* A log that a long reader has made grow is cut when it begins again. */
	rc = sqlite3_exec(conn->handle, "pragma journal_size_limit = 67108864", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return hwts_sqlite_error(conn, rc, "open");
	sqlite3_wal_hook(conn->handle, hwts_sqlite_wal_hook, conn);
	return hwts_sqlite_do(conn, "pragma synchronous = full", NOTHING);
}

static int connect(struct hwts_db *base, enum hwts_role role, struct hwts_conn **out)
{
	struct sqlite_db *db = (struct sqlite_db *)base;
	struct sqlite_conn *conn = hwts_alloc(sizeof(*conn));
	int rc;

	if (!conn)
		return ENOMEM;
	conn->conn.db = base;
	conn->conn.role = role;
	conn->inotify = -1;
	pthread_mutex_lock(&db->lock);
	db->connections++;
	pthread_mutex_unlock(&db->lock);
	rc = sqlite3_open_v2(db->path, &conn->handle,
			     (db->only_looks ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
				 SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
			     NULL);
	if (rc == SQLITE_OK)
		rc = settle(conn, role);
	else
		rc = hwts_sqlite_error(conn, rc, db->path);
	if (rc != 0) {
		close_handle(conn);
		return rc;
	}
	if (role == HWTS_CONTROL)
		hwts_sqlite_start_keeper(db);
	*out = &conn->conn;
	return 0;
}

/*
 * Connections of callers
 */

static int borrow(struct hwts_db *db, void *connection, struct hwts_conn **out)
{
	struct sqlite_conn *conn = hwts_alloc(sizeof(*conn));
	int rc;

	if (!conn)
		return ENOMEM;
	*conn = (struct sqlite_conn){ .conn = { .db = db }, .handle = connection, .callers = true, .inotify = -1 };
	rc = hwts_sqlite_check_caller(conn);
	if (rc == 0 && (rc = sqlite3_exec(conn->handle, "savepoint hwt_put", NULL, NULL, NULL)) != SQLITE_OK)
		rc = hwts_sqlite_error(conn, rc, "put on the caller's connection");
	if (rc != 0) {
		free(conn);
		return rc;
	}
	*out = &conn->conn;
	return 0;
}

static int give_back(struct hwts_conn *base, int rc)
{
	struct sqlite_conn *conn = sqlite_conn(base);

	if (rc == EIO && (strstr(hwts_fail_text(), "no such table") || strstr(hwts_fail_text(), "has no column")))
		rc = hwts_fail(EINVAL, "sqlite: the connection is of another database: it has no tables %s_*",
			       base->db->prefix);
	hwts_sqlite_forget(conn);
	if (rc == 0) {
		int done = sqlite3_exec(conn->handle, "release hwt_put", NULL, NULL, NULL);

		if (done != SQLITE_OK)
			rc = hwts_sqlite_error(conn, done, "put on the caller's connection");
	}
	if (rc != 0)
		(void)sqlite3_exec(conn->handle, "rollback to hwt_put; release hwt_put", NULL, NULL, NULL);
	free(conn);
	return rc;
}

/* True also for a transaction that has only read: after a commit of the store it could not write any more. */
static bool blocks(void *connection)
{
	return sqlite3_txn_state(connection, NULL) != SQLITE_TXN_NONE;
}

static bool alive(struct hwts_conn *conn)
{
	return !conn->broken;
}

/*
 * A run in a transaction: its connection is the writer, and has SQLite's lock, until the run ends
 */

static int open_run(struct hwts_conn *base, void **handle)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int rc = hwts_sqlite_begin(conn, true);

	if (rc != 0)
		return rc;
	rc = hwts_sqlite_do(conn, "savepoint hwt_run", NOTHING); /* gone if the task ends the transaction */
	if (rc != 0)
		return hwts_sqlite_commit(conn, rc);
	*handle = conn->handle;
	return 0;
}

/*
 * Resets statements that the task has left unfinished: they would keep their snapshot, and no transaction could begin.
 */
static void reset_all(struct sqlite_conn *conn)
{
	for (sqlite3_stmt *made = sqlite3_next_stmt(conn->handle, NULL); made;
	     made = sqlite3_next_stmt(conn->handle, made))
		if (sqlite3_stmt_busy(made))
			(void)sqlite3_reset(made);
}

static int close_run(struct hwts_conn *base, const struct hwts_step *steps, size_t n)
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

static void drop_run(struct hwts_conn *base)
{
	reset_all(sqlite_conn(base));
	(void)hwts_sqlite_commit(sqlite_conn(base), ECANCELED);
}

const struct hwts_engine hwts_sqlite = {
	.name = "sqlite",
	.open = open_db,
	.close = close_db,
	.connect = connect,
	.disconnect = disconnect,
	.alive = alive,
	.prepare = hwts_sqlite_prepare,
	.run = hwts_sqlite_exchange,
	.finish = hwts_sqlite_finish,
	.borrow = borrow,
	.give_back = give_back,
	.blocks = blocks,
	.open_run = open_run,
	.close_run = close_run,
	.drop_run = drop_run,
	.listen = hwts_sqlite_listen,
	.news_fd = hwts_sqlite_news_fd,
	.news = hwts_sqlite_news,
	.tend = hwts_sqlite_tend,
};
