/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts, cancels and reschedules in SQLite.
 *
 * News: the holder of a shard reads its rows up to a mark, now + horizon, inside a write transaction.  So a put's
 * transaction lies before it, and is seen, or after it; then the put's own now is later than that of the mark, and if
 * it is due before now + horizon it leaves a hint.  The clock must be read inside the transaction for that.
 */
#include "sqlite.h"

/* What a transaction knows of the kind and the shard that it met last. */
struct putting {
	struct sqlite_conn *conn;
	int64_t now_us, horizon_us;
	int32_t kind;
	bool on; /* the caller's transaction: this process learns of it by a hint, too */
};

static int horizon_of(struct putting *putting, int32_t kind)
{
	int failed = 0;
	bool row = false;
	sqlite3_stmt *statement;

	if (putting->kind == kind)
		return 0;
	statement = hwts_sqlite_statement(putting->conn, "select horizon_us from @_kind where id = ?", &failed);
	if (!statement)
		return failed;
	sqlite3_bind_int64(statement, 1, kind);
	failed = hwts_sqlite_step(putting->conn, statement, &row);
	putting->kind = kind;
	putting->horizon_us = row ? sqlite3_column_int64(statement, 0) : 0;
	sqlite3_reset(statement);
	return failed;
}

/* Leaves a hint if another process holds the shard and would not learn of it otherwise. */
static int tell(struct putting *putting, int32_t kind, const struct hwts_due *due)
{
	struct sqlite_conn *conn = putting->conn;
	int failed = horizon_of(putting, kind);
	bool row = false, other = false;
	sqlite3_stmt *statement;

	if (failed != 0 || due->due_us >= putting->now_us + putting->horizon_us)
		return failed;
	statement = hwts_sqlite_statement(conn, "select owner from @_shard where id = ?", &failed);
	if (!statement)
		return failed;
	sqlite3_bind_int64(statement, 1, due->shard);
	failed = hwts_sqlite_step(conn, statement, &row);
	if (row && sqlite3_column_type(statement, 0) != SQLITE_NULL)
		other = putting->on ||
			strcmp((const char *)sqlite3_column_text(statement, 0), hwts_me(conn->conn.db)) != 0;
	sqlite3_reset(statement);
	return failed == 0 && other ? hwts_sqlite_hint(conn, due, putting->now_us) : failed;
}

static int draw_ids(struct sqlite_conn *conn, size_t n, int64_t *first)
{
	int failed = 0;
	bool row = false;
	sqlite3_stmt *statement =
	    hwts_sqlite_statement(conn, "update @_meta set next_id = next_id + ?1 returning next_id - ?1", &failed);

	if (!statement)
		return failed;
	sqlite3_bind_int64(statement, 1, (int64_t)n);
	failed = hwts_sqlite_step(conn, statement, &row);
	*first = row ? sqlite3_column_int64(statement, 0) : 0;
	if (failed == 0 && row)
		failed = hwts_sqlite_step(conn, statement, &row);
	return failed == 0 && *first == 0 ? hwts_fail(EIO, "sqlite: the table of the version is empty") : failed;
}

static void bind_data(sqlite3_stmt *statement, int at, const struct hwts_put *put)
{
	if (put->len > 0)
		sqlite3_bind_blob64(statement, at, put->data, put->len, SQLITE_STATIC);
	else
		sqlite3_bind_null(statement, at);
}

static int insert(struct putting *putting, struct hwts_put *put, bool *inserted)
{
	struct sqlite_conn *conn = putting->conn;
	int failed = 0;
	sqlite3_stmt *statement = hwts_sqlite_statement(
	    conn,
	    "insert into @_timeout (id, due_us, base_us, epoch, period_us, kind, shard, attempt, state, key, data)"
	    " values (?1, ?2, ?2, 0, ?3, ?4, ?5, 0, 1, ?6, ?7)"
	    " on conflict (kind, key) where key is not null do nothing",
	    &failed);

	if (!statement)
		return failed;
	sqlite3_bind_int64(statement, 1, put->id);
	sqlite3_bind_int64(statement, 2, put->due_us);
	sqlite3_bind_int64(statement, 3, put->period_us);
	sqlite3_bind_int64(statement, 4, put->kind.id);
	sqlite3_bind_int64(statement, 5, put->shard);
	hwts_sqlite_text(statement, 6, put->key);
	bind_data(statement, 7, put);
	failed = hwts_sqlite_step(conn, statement, NULL);
	*inserted = failed == 0 && sqlite3_changes(conn->handle) == 1;
	return failed;
}

/* The key is in use: finds by which timeout, and replaces that if it may. */
static int meet(struct putting *putting, struct hwts_put *put)
{
	struct sqlite_conn *conn = putting->conn;
	int failed = 0, state;
	bool row = false;
	sqlite3_stmt *statement =
	    hwts_sqlite_statement(conn, "select id, state, shard from @_timeout where kind = ? and key = ?", &failed);

	if (!statement)
		return failed;
	sqlite3_bind_int64(statement, 1, put->kind.id);
	hwts_sqlite_text(statement, 2, put->key);
	failed = hwts_sqlite_step(conn, statement, &row);
	if (failed != 0 || !row)
		return failed ? failed : hwts_fail(EIO, "sqlite: the key is in use and is not there");
	put->found_id = sqlite3_column_int64(statement, 0);
	state = sqlite3_column_int(statement, 1);
	put->shard = sqlite3_column_int(statement, 2);
	sqlite3_reset(statement);
	put->rc = !put->replace ? EEXIST : state == HWT_STORE_RUNNING ? EBUSY : state == HWT_STORE_FAILED ? EEXIST : 0;
	if (put->rc != 0)
		return 0;
	put->id = put->found_id;
	statement = hwts_sqlite_statement(
	    conn,
	    "update @_timeout set due_us = ?2, base_us = ?2, period_us = ?3, data = ?4, attempt = 0, error = null"
	    " where id = ?1",
	    &failed);
	if (!statement)
		return failed;
	sqlite3_bind_int64(statement, 1, put->id);
	sqlite3_bind_int64(statement, 2, put->due_us);
	sqlite3_bind_int64(statement, 3, put->period_us);
	bind_data(statement, 4, put);
	return hwts_sqlite_step(conn, statement, NULL);
}

static int put_one(struct putting *putting, struct hwts_put *put, int64_t id)
{
	bool inserted = false;
	int failed;

	put->rc = 0;
	put->found_id = 0;
	put->id = id;
	put->shard = hwts_shard_of(&put->kind, id);
	put->due_us = put->absolute ? put->when_us : putting->now_us + put->when_us;
	failed = insert(putting, put, &inserted);
	if (failed == 0 && !inserted)
		failed = meet(putting, put);
	if (failed != 0 || put->rc != 0)
		return failed;
	return tell(putting, put->kind.id, &(struct hwts_due){ put->id, put->due_us, put->shard, (uint32_t)put->len });
}

/* Sets *refused to the first put that is refused, if all must be accepted. */
static int put_all(struct putting *putting, struct hwts_put *puts, size_t n, bool all, struct hwts_put **refused)
{
	int64_t first = 0;
	int failed = draw_ids(putting->conn, n, &first);

	putting->now_us = hwts_wall_us(); /* with the lock: see above */
	for (size_t i = 0; i < n && failed == 0; i++) {
		failed = put_one(putting, &puts[i], first + (int64_t)i);
		if (failed == 0 && puts[i].rc != 0 && all) {
			if (puts[i].found_id >= first)
				puts[i].found_id = 0; /* it goes, too */
			*refused = &puts[i];
			return 0;
		}
	}
	return failed;
}

int hwts_sqlite_put(struct hwts_conn *base, struct hwts_put *puts, size_t n, bool all)
{
	struct putting putting = { .conn = sqlite_conn(base), .kind = -1 };
	struct hwts_put *refused = NULL;
	int rc = hwts_sqlite_begin(putting.conn, true);

	if (rc != 0)
		return rc;
	rc = put_all(&putting, puts, n, all, &refused);
	HWTS_POINT("put");
	if (rc == 0 && refused)
		rc = refused->rc;
	return hwts_sqlite_commit(putting.conn, rc);
}

int hwts_sqlite_put_on(struct hwts_db *db, void *connection, struct hwts_put *put)
{
	struct sqlite_conn conn = { .conn = { .db = db }, .handle = connection, .inotify = -1 };
	struct putting putting = { .conn = &conn, .kind = -1, .on = true };
	struct hwts_put *refused = NULL;
	int rc;

	rc = sqlite3_exec(conn.handle, "savepoint hwt_put", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return hwts_sqlite_error(&conn, rc, "put on the caller's connection");
	rc = put_all(&putting, put, 1, true, &refused);
	if (rc == EIO && strstr(hwts_fail_text(), "no such table"))
		rc = hwts_fail(EINVAL, "sqlite: the connection is of another database: it has no tables %s_*",
			       db->prefix);
	hwts_sqlite_forget(&conn);
	if (rc == 0 && !refused) {
		int done = sqlite3_exec(conn.handle, "release hwt_put", NULL, NULL, NULL);

		if (done == SQLITE_OK)
			return 0;
		rc = hwts_sqlite_error(&conn, done, "put on the caller's connection");
	}
	(void)sqlite3_exec(conn.handle, "rollback to hwt_put; release hwt_put", NULL, NULL, NULL);
	return rc == 0 ? refused->rc : rc;
}

/*
 * Cancel, reschedule
 */

/* Why a row could not be had. */
static int why_not(struct sqlite_conn *conn, int64_t id)
{
	int failed = 0;
	bool row = false;
	sqlite3_stmt *statement = hwts_sqlite_statement(conn, "select state from @_timeout where id = ?", &failed);

	if (!statement)
		return failed;
	sqlite3_bind_int64(statement, 1, id);
	failed = hwts_sqlite_step(conn, statement, &row);
	sqlite3_reset(statement);
	if (failed != 0)
		return failed;
	return row ? hwts_fail(EBUSY, "timeout %lld is running", (long long)id)
		   : hwts_fail(ENOENT, "there is no timeout %lld", (long long)id);
}

int hwts_sqlite_cancel(struct hwts_conn *base, int64_t id)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int changes = 0;
	int rc = hwts_sqlite_begin(conn, true);

	if (rc != 0)
		return rc;
	rc = HWTS_SQLITE_DO(conn, "delete from @_timeout where id = ? and state <> 2", &changes, id);
	if (rc == 0 && changes == 0)
		rc = why_not(conn, id);
	return hwts_sqlite_commit(conn, rc);
}

static int move(struct putting *putting, int64_t id, int64_t delay_us, struct hwts_due *due)
{
	int failed = 0, kind = 0;
	bool row = false;
	sqlite3_stmt *statement = hwts_sqlite_statement(
	    putting->conn,
	    "update @_timeout set due_us = ?2, base_us = ?2, attempt = iif(state = 3, 0, attempt),"
	    " shard = iif(shard < 0, -1 - shard, shard), epoch = 0, state = 1"
	    " where id = ?1 and state <> 2 returning shard, length(data), kind",
	    &failed);

	if (!statement)
		return failed;
	sqlite3_bind_int64(statement, 1, id);
	sqlite3_bind_int64(statement, 2, putting->now_us + delay_us);
	failed = hwts_sqlite_step(putting->conn, statement, &row);
	if (failed != 0 || !row)
		return failed ? failed : why_not(putting->conn, id);
	*due = (struct hwts_due){ id, putting->now_us + delay_us, sqlite3_column_int(statement, 0),
				  (uint32_t)sqlite3_column_int(statement, 1) };
	kind = sqlite3_column_int(statement, 2);
	failed = hwts_sqlite_step(putting->conn, statement, NULL);
	return failed ? failed : tell(putting, kind, due);
}

int hwts_sqlite_reschedule(struct hwts_conn *base, int64_t id, int64_t delay_us, struct hwts_due *due)
{
	struct putting putting = { .conn = sqlite_conn(base), .kind = -1 };
	int rc = hwts_sqlite_begin(putting.conn, true);

	if (rc != 0)
		return rc;
	putting.now_us = hwts_wall_us();
	rc = move(&putting, id, delay_us, due);
	return hwts_sqlite_commit(putting.conn, rc);
}
