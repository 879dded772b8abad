/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts in SQLite.
 *
 * News: the holder of a shard reads its rows up to a mark, now + horizon, inside a write transaction.  So a put's
 * transaction lies before it, and is seen, or after it; then the put's own now is later than that of the mark, and if
 * it is due before now + horizon it leaves a hint.  The clock must be read inside the transaction for that.
 */
#include "db/sqlite.h"

/* What a transaction knows of the kind and the shard that it met last. */
struct putting {
	struct sqlite_conn *conn;
	int64_t now_us, horizon_us;
	int32_t kind;
	bool on; /* the caller's transaction: this process learns of it by a hint, too */
};

static int horizon_of(struct putting *putting, int32_t kind)
{
	int rc = 0;
	sqlite3_stmt *rows;

	if (putting->kind == kind)
		return 0;
	rows = hwts_sqlite_rows(putting->conn, &rc, "select horizon_us from @_kind where id = ?", WITH(NUMBER(kind)));
	putting->kind = kind;
	putting->horizon_us = hwts_sqlite_next(putting->conn, rows, &rc) ? number_of(rows, 0) : 0;
	sqlite3_reset(rows);
	return rc;
}

/* Leaves a hint if another process holds the shard and would not learn of it otherwise. */
static int tell(struct putting *putting, int32_t kind, const struct hwts_due *due)
{
	struct sqlite_conn *conn = putting->conn;
	int rc = horizon_of(putting, kind);
	bool other;
	sqlite3_stmt *rows;

	if (rc != 0 || due->due_us >= putting->now_us + putting->horizon_us)
		return rc;
	rows = hwts_sqlite_rows(conn, &rc, "select owner <> ? or ? from @_shard where id = ? and owner is not null",
				WITH(TEXT(hwts_me(conn->conn.db)), NUMBER(putting->on), NUMBER(due->shard)));
	other = hwts_sqlite_next(conn, rows, &rc) && number_of(rows, 0) == 1;
	sqlite3_reset(rows);
	return rc == 0 && other ? hwts_sqlite_hint(conn, due, putting->now_us) : rc;
}

static int draw_ids(struct sqlite_conn *conn, size_t n, int64_t *first)
{
	int rc = 0;
	sqlite3_stmt *rows = hwts_sqlite_rows(
	    conn, &rc, "update @_meta set next_id = next_id + ?1 returning next_id - ?1", WITH(NUMBER((int64_t)n)));

	while (hwts_sqlite_next(conn, rows, &rc))
		*first = number_of(rows, 0);
	return rc == 0 && *first == 0 ? hwts_fail(EIO, "sqlite: the table of the version is empty") : rc;
}

static int insert(struct putting *putting, const struct hwts_put *put, int *inserted)
{
	return hwts_sqlite_do(
	    putting->conn, inserted,
	    "insert into @_timeout (id, due_us, base_us, epoch, period_us, kind, shard, attempt, state, key, data)"
	    " values (?1, ?2, ?2, 0, ?3, ?4, ?5, 0, 1, ?6, ?7) on conflict (kind, key) where key is not null do "
	    "nothing",
	    WITH(NUMBER(put->id), NUMBER(put->due_us), NUMBER(put->period_us), NUMBER(put->kind.id), NUMBER(put->shard),
		 TEXT(put->key), BYTES(put->len ? put->data : NULL, put->len)));
}

/* The key is in use: finds by which timeout, and replaces that if it may. */
static int meet(struct putting *putting, struct hwts_put *put)
{
	int rc = 0;
	int64_t state = 0;
	sqlite3_stmt *rows = hwts_sqlite_rows(putting->conn, &rc,
					      "select id, state, shard from @_timeout where kind = ? and key = ?",
					      WITH(NUMBER(put->kind.id), TEXT(put->key)));

	while (hwts_sqlite_next(putting->conn, rows, &rc)) {
		put->found_id = number_of(rows, 0);
		state = number_of(rows, 1);
		put->shard = (int32_t)number_of(rows, 2);
	}
	if (rc == 0 && state == 0)
		rc = hwts_fail(EIO, "sqlite: the key is in use and is not there");
	put->rc = !put->replace ? EEXIST : state == HWT_STORE_RUNNING ? EBUSY : state == HWT_STORE_FAILED ? EEXIST : 0;
	if (rc != 0 || put->rc != 0)
		return rc;
	put->id = put->found_id;
	return hwts_sqlite_do(putting->conn, NULL,
			      "update @_timeout set due_us = ?2, base_us = ?2, period_us = ?3, data = ?4, attempt = 0,"
			      " error = null where id = ?1",
			      WITH(NUMBER(put->id), NUMBER(put->due_us), NUMBER(put->period_us),
				   BYTES(put->len ? put->data : NULL, put->len)));
}

static int put_one(struct putting *putting, struct hwts_put *put, int64_t id)
{
	int inserted = 0, rc;

	put->rc = 0;
	put->found_id = 0;
	put->id = id;
	put->shard = hwts_shard_of(&put->kind, id);
	put->due_us = put->absolute ? put->when_us : putting->now_us + put->when_us;
	rc = insert(putting, put, &inserted);
	if (rc == 0 && inserted == 0)
		rc = meet(putting, put);
	if (rc != 0 || put->rc != 0)
		return rc;
	return tell(
	    putting, put->kind.id,
	    &(struct hwts_due){ .id = put->id, .due_us = put->due_us, .shard = put->shard, .len = (uint32_t)put->len });
}

/* Sets *refused to the first put that is refused, if all must be accepted. */
static int put_all(struct putting *putting, struct hwts_put *puts, size_t n, bool all, struct hwts_put **refused)
{
	int64_t first = 0;
	int rc = draw_ids(putting->conn, n, &first);

	putting->now_us = hwts_wall_us(); /* with the lock: see above */
	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = put_one(putting, &puts[i], first + (int64_t)i);
		if (rc == 0 && puts[i].rc != 0 && all) {
			if (puts[i].found_id >= first)
				puts[i].found_id = 0; /* it goes, too */
			*refused = &puts[i];
			return 0;
		}
	}
	return rc;
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
	return refused && rc == 0 ? refused->rc : rc;
}
