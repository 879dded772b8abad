/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Begins and ends in SQLite.
 */
#include "db/sqlite.h"

#include <stdlib.h>

/* Epochs that this transaction has read. */
struct epochs {
	struct {
		int32_t shard;
		int64_t epoch; /* -1: not ours; 0: not read */
	} seen[64];
};

static int epoch_of(struct sqlite_conn *conn, struct epochs *epochs, int32_t shard, int64_t *epoch)
{
	size_t at = (size_t)shard % HWTS_COUNT(epochs->seen);
	int rc = 0;

	if (epochs->seen[at].shard != shard || epochs->seen[at].epoch == 0) {
		sqlite3_stmt *rows = hwts_sqlite_rows(conn, &rc, "select epoch from @_shard where owner = ? and id = ?",
						      WITH(TEXT(hwts_me(conn->conn.db)), NUMBER(shard)));

		epochs->seen[at].shard = shard;
		epochs->seen[at].epoch = hwts_sqlite_next(conn, rows, &rc) ? number_of(rows, 0) : -1;
		sqlite3_reset(rows);
	}
	*epoch = epochs->seen[at].epoch;
	return rc;
}

static struct hwts_row *row_of(sqlite3_stmt *rows, const struct hwts_want *want, int64_t now_us)
{
	const char *key = (const char *)sqlite3_column_text(rows, 4);
	const void *data = sqlite3_column_blob(rows, 5);
	struct hwts_row *row = hwts_row_make(key, key ? (size_t)sqlite3_column_bytes(rows, 4) : 0, data,
					     (size_t)sqlite3_column_bytes(rows, 5));

	if (!row)
		return NULL;
	row->id = want->id;
	row->shard = want->shard;
	row->epoch = want->epoch;
	row->now_us = now_us;
	row->due_us = number_of(rows, 0);
	row->base_us = number_of(rows, 1);
	row->period_us = number_of(rows, 2);
	row->attempt = (unsigned)number_of(rows, 3);
	return row;
}

static int begin_one(struct sqlite_conn *conn, struct hwts_want *want, int64_t now_us, int64_t from_epoch,
		     int64_t to_epoch)
{
	int rc = 0;
	bool begun = false;
	sqlite3_stmt *rows = hwts_sqlite_rows(
	    conn, &rc,
	    "update @_timeout set state = 2, epoch = ?2, attempt = attempt + 1 where id = ?1 and shard = ?3"
	    " and due_us <= ?4 and (state = 1 or (state = 2 and epoch >= ?5 and epoch < ?6))"
	    " returning due_us, base_us, period_us, attempt, key, data",
	    WITH(NUMBER(want->id), NUMBER(want->epoch), NUMBER(want->shard), NUMBER(now_us), NUMBER(from_epoch),
		 NUMBER(to_epoch)));

	while (hwts_sqlite_next(conn, rows, &rc)) {
		begun = true;
		want->row = row_of(rows, want, now_us);
		if (!want->row)
			rc = ENOMEM;
	}
	if (rc != 0 || begun)
		return rc;
	/* It has moved, or this process believed the clock to be further, or it is gone. */
	rows = hwts_sqlite_rows(conn, &rc, "select due_us from @_timeout where id = ? and state = 1 and shard = ?",
				WITH(NUMBER(want->id), NUMBER(want->shard)));
	while (hwts_sqlite_next(conn, rows, &rc))
		want->due_us = number_of(rows, 0);
	return rc;
}

static int begin_all(struct sqlite_conn *conn, struct hwts_want *wants, size_t n, bool synced, bool again)
{
	struct epochs epochs = { 0 };
	int64_t epoch = 0, now_us = hwts_wall_us();
	int failed = 0;

	for (size_t i = 0; i < n && failed == 0; i++) {
		wants[i].row = NULL;
		wants[i].due_us = HWTS_NEVER;
		failed = epoch_of(conn, &epochs, wants[i].shard, &epoch);
		wants[i].lost = epoch != wants[i].epoch;
		if (failed == 0 && !wants[i].lost)
			failed = begin_one(conn, &wants[i], now_us, synced ? wants[i].epoch : 0,
					   wants[i].epoch + again);
	}
	return failed;
}

int hwts_sqlite_begin_rows(struct hwts_conn *base, struct hwts_want *wants, size_t n, bool synced, bool again)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int rc = hwts_sqlite_begin(conn, synced);

	for (size_t i = 0; i < n; i++)
		wants[i].row = NULL;
	if (rc != 0)
		return rc;
	rc = begin_all(conn, wants, n, synced, again);
	rc = hwts_sqlite_commit(conn, rc);
	for (size_t i = 0; i < n && rc != 0; i++) {
		free(wants[i].row);
		wants[i].row = NULL;
	}
	return rc;
}

/*
 * Ends
 */

static int file_again(struct sqlite_conn *conn, struct hwts_row *row, int64_t now_us, int *hit)
{
	if (row->how == HWTS_AFTER) {
		row->when_us = HWTS_MIN(now_us + row->when_us, row->limit_us);
		row->how = HWTS_AT; /* the same time if this is tried again */
	}
	return hwts_sqlite_do(conn, hit,
			      "update @_timeout set state = 1, epoch = 0, due_us = ?3, base_us = ?4, attempt = ?5,"
			      " error = ?6 where id = ?1 and state = 2 and epoch = ?2",
			      WITH(NUMBER(row->id), NUMBER(row->epoch), NUMBER(row->when_us),
				   NUMBER(row->period_us > 0 ? row->next_base_us : row->when_us),
				   NUMBER(row->next_attempt), TEXT(row->error[0] ? row->error : NULL)));
}

static int end_one(struct sqlite_conn *conn, struct hwts_row *row, int64_t now_us)
{
	int hit = 0, rc;

	if (row->how == HWTS_DONE)
		rc = hwts_sqlite_do(conn, &hit, "delete from @_timeout where id = ? and state = 2 and epoch = ?",
				    WITH(NUMBER(row->id), NUMBER(row->epoch)));
	else if (row->how == HWTS_FAIL)
		rc = hwts_sqlite_do(conn, &hit,
				    "update @_timeout set state = 3, shard = -1 - shard, error = ?3"
				    " where id = ?1 and state = 2 and epoch = ?2",
				    WITH(NUMBER(row->id), NUMBER(row->epoch), TEXT(row->error)));
	else
		rc = file_again(conn, row, now_us, &hit);
	row->hit = hit == 1;
	return rc;
}

int hwts_sqlite_end_rows(struct hwts_conn *base, struct hwts_row *rows)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int64_t now_us;
	int rc = hwts_sqlite_begin(conn, false);

	if (rc != 0)
		return rc;
	now_us = hwts_wall_us();
	for (struct hwts_row *row = rows; row && rc == 0; row = row->next)
		rc = end_one(conn, row, now_us);
	return hwts_sqlite_commit(conn, rc);
}

/*
 * A run in a transaction: it has the turn, and SQLite's lock, until it ends
 */

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

int hwts_sqlite_close_run(struct hwts_conn *base, const struct hwts_row *row)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	struct hwts_row end = *row;
	int rc = 0;

	if (sqlite3_get_autocommit(conn->handle) ||
	    sqlite3_exec(conn->handle, "release hwt_run", NULL, NULL, NULL) != SQLITE_OK)
		rc = hwts_fail(EPROTO, "the task ended the transaction that it was given");
	if (rc == 0)
		rc = end_one(conn, &end, 0);
	if (rc == 0 && !end.hit)
		rc = hwts_fail(ESTALE, "timeout %lld was taken over while it ran", (long long)row->id);
	HWTS_POINT("close_run");
	return hwts_sqlite_commit(conn, rc);
}

void hwts_sqlite_drop_run(struct hwts_conn *base)
{
	(void)hwts_sqlite_commit(sqlite_conn(base), ECANCELED);
}
