/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts.
 *
 * News on SQLite: the holder of a shard reads its rows up to a mark, now + horizon, inside a write transaction.  So a
 * put's transaction lies before it, and is seen, or after it; then the put's own now is later than that of the mark,
 * and if it is due before now + horizon it leaves a hint.  The clock must be read inside the transaction for that.
 *
 * News on PostgreSQL: transactions that notify commit one after the other, so a notification is a transaction of its
 * own, behind the put in the same pipeline.  It reads the rows that the put has committed: if that failed, there are
 * none.  If it is lost, the holder's look-ahead finds the row by tx.
 */
#include "core/rows.h"

#include <stdlib.h>

#define TRIES 10
#define ROWS_MAX 1000 /* in one exchange */
#define BYTES_MAX ((size_t)32 << 20)
#define SLACK_US HWTS_S_US

static bool is_soon(const struct hwts_put *put)
{
	return put->absolute || put->when_us < put->kind.horizon_us + 2 * SLACK_US;
}

static int drawn(void *ctx, const struct hwts_value *row)
{
	*(int64_t *)ctx = row[0].number;
	return 0;
}

static int draw(struct hwts_conn *conn, size_t n, unsigned flags, int64_t *first)
{
	struct hwts_step step = { HWTS_SQL_DRAW, { HWTS_NUMBER((int64_t)n) }, .each = drawn, .ctx = first };
	int rc;

	*first = 0;
	rc = hwts_run(conn, &step, 1, flags);
	return rc == 0 && *first == 0 ? hwts_fail(EIO, "the table of the version is empty") : rc;
}

int hwts_rows_draw(struct hwts_conn *conn, int64_t *first, int64_t *count)
{
	*count = HWTS_IDS;
	return draw(conn, HWTS_IDS, 0, first);
}

/*
 * A batch
 */

static int inserted(void *ctx, const struct hwts_value *row)
{
	struct hwts_put *put = ctx;

	put->rc = 0;
	put->again = false;
	put->id = row[0].number;
	put->due_us = row[1].number;
	put->shard = (int32_t)row[2].number;
	return 0;
}

/* The key is in use.  One that is pending now may be replaced, for it came after the attempt. */
static int met(void *ctx, const struct hwts_value *row)
{
	struct hwts_put *put = ctx;

	if (put->rc == 0)
		return 0;
	put->found_id = row[0].number;
	put->rc = put->replace && row[1].number == HWT_STORE_RUNNING ? EBUSY : EEXIST;
	put->again = put->replace && row[1].number == HWT_STORE_PENDING;
	return 0;
}

static size_t write_put(struct hwts_step *steps, struct hwts_put *put)
{
	put->rc = EEXIST; /* until it is returned */
	put->again = put->key != NULL;
	put->found_id = 0;
	steps[0] = (struct hwts_step){ !put->key      ? HWTS_SQL_PUT
				       : put->replace ? HWTS_SQL_PUT_REPLACE
						      : HWTS_SQL_PUT_KEYED,
				       { HWTS_NUMBER(put->id), HWTS_NUMBER(put->kind.id),
					 HWTS_NUMBER(hwts_shard_of(&put->kind, put->id)), HWTS_NUMBER(put->when_us),
					 HWTS_NUMBER(put->absolute), HWTS_NUMBER(put->period_us), HWTS_TEXT(put->key),
					 HWTS_BYTES(put->len ? put->data : NULL, put->len) },
				       .each = inserted,
				       .ctx = put };
	if (!put->key)
		return 1;
	steps[1] = (struct hwts_step){
		HWTS_SQL_FIND, { HWTS_NUMBER(put->kind.id), HWTS_TEXT(put->key) }, .each = met, .ctx = put
	};
	return 2;
}

/* News of those that were accepted and are due soon, or may be: ids has room for them.  False: there are none. */
static bool write_news(struct hwts_conn *conn, struct hwts_step *step, int64_t *ids, const struct hwts_put *puts,
		       size_t n, bool known)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (is_soon(&puts[i]) && !(known && puts[i].rc != 0))
			ids[count++] = puts[i].id;
	*step =
	    (struct hwts_step){ .sql = HWTS_SQL_TELL,
				.args = { HWTS_BYTES(ids, count), HWTS_TEXT(hwts_me(conn->db)), HWTS_NUMBER(false) },
				.after = true };
	return count > 0;
}

/* SQLite draws the ids in the transaction, which stays open then. */
static int number(struct hwts_conn *conn, struct hwts_put *puts, size_t n)
{
	int64_t first;
	int rc;

	if (conn->db->engine->draws_ahead)
		return 0;
	rc = draw(conn, n, HWTS_SYNCED | HWTS_OPEN, &first);
	for (size_t i = 0; i < n && rc == 0; i++)
		puts[i].id = first + (int64_t)i;
	return rc;
}

/* Sends rows, and tells of them in the same exchange if that is asked for. */
static int send(struct hwts_conn *conn, struct hwts_put *puts, size_t n, unsigned flags, bool tells)
{
	struct hwts_step *steps = hwts_alloc((2 * n + 1) * sizeof(*steps));
	int64_t *ids = hwts_alloc(n * sizeof(*ids));
	size_t count = 0;
	int rc = steps && ids ? number(conn, puts, n) : ENOMEM;

	for (size_t i = 0; i < n && rc == 0; i++)
		count += write_put(&steps[count], &puts[i]);
	if (rc == 0 && tells && write_news(conn, &steps[count], ids, puts, n, false))
		count++;
	if (rc == 0)
		rc = hwts_run(conn, steps, count, flags | HWTS_SYNCED);
	if (rc != 0)
		rc = hwts_finish(conn, rc);
	free(steps);
	free(ids);
	return rc;
}

/* Tells of rows that were put before.  Lost on PostgreSQL: the look-ahead finds them. */
static int tell(struct hwts_conn *conn, const struct hwts_put *puts, size_t n, unsigned flags)
{
	int64_t *ids = hwts_alloc(n * sizeof(*ids));
	struct hwts_step step;
	int rc = ids ? 0 : ENOMEM;

	if (ids && write_news(conn, &step, ids, puts, n, true))
		rc = hwts_run(conn, &step, 1, flags);
	free(ids);
	return rc;
}

static bool replaces(const struct hwts_put *puts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (puts[i].replace)
			return true;
	return false;
}

/* One transaction, in which each row is accepted or refused for itself. */
static int put_batch(struct hwts_conn *conn, struct hwts_put *puts, size_t n)
{
	bool inside = !conn->db->engine->draws_ahead;
	int rc;

	if (!replaces(puts, n))
		return send(conn, puts, n, 0, true);
	/* Of what replaces, the ids come with the reply. */
	rc = send(conn, puts, n, inside ? HWTS_OPEN : 0, false);
	if (inside) {
		if (rc == 0)
			rc = tell(conn, puts, n, HWTS_OPEN);
		return hwts_finish(conn, rc);
	}
	if (rc == 0)
		(void)tell(conn, puts, n, 0);
	return rc;
}

/* What fails after the batch is a failure of that put alone: the others may be in the database. */
static int put_each(struct hwts_conn *conn, struct hwts_put *puts, size_t n)
{
	int rc = put_batch(conn, puts, n);

	for (size_t i = 0; i < n && rc == 0; i++) {
		int failed = 0;

		for (int tries = 0; failed == 0 && puts[i].again && tries < TRIES; tries++) {
			HWTS_POINT("refused");
			failed = put_batch(conn, &puts[i], 1);
		}
		if (failed != 0)
			puts[i].rc = failed;
	}
	return rc;
}

/*
 * All or none
 */

static size_t batch_size(const struct hwts_put *puts, size_t n)
{
	size_t count = 0, bytes = 0;

	for (; count < n && count < ROWS_MAX && bytes < BYTES_MAX; count++)
		bytes += puts[count].len;
	return count;
}

static int tell_all(struct hwts_conn *conn, const struct hwts_put *puts, size_t n, unsigned flags)
{
	int rc = 0;

	for (size_t at = 0, size; at < n && rc == 0; at += size) {
		size = HWTS_MIN(n - at, ROWS_MAX);
		rc = tell(conn, puts + at, size, flags);
	}
	return rc;
}

/* *refused: the first that was. */
static int put_in_transaction(struct hwts_conn *conn, struct hwts_put *puts, size_t n, struct hwts_put **refused)
{
	bool inside = !conn->db->engine->draws_ahead;
	int rc = 0;

	*refused = NULL;
	for (size_t at = 0, size; at < n && rc == 0 && !*refused; at += size) {
		size = batch_size(puts + at, n - at);
		rc = send(conn, puts + at, size, HWTS_OPEN, false);
		for (size_t i = at; i < at + size && rc == 0 && !*refused; i++)
			if (puts[i].rc != 0)
				*refused = &puts[i];
	}
	if (rc == 0 && *refused)
		rc = (*refused)->rc;
	if (rc == 0 && inside)
		rc = tell_all(conn, puts, n, HWTS_OPEN);
	rc = hwts_finish(conn, rc);
	if (rc == 0 && !inside)
		(void)tell_all(conn, puts, n, 0);
	return rc;
}

static int put_all(struct hwts_conn *conn, struct hwts_put *puts, size_t n)
{
	struct hwts_put *refused = NULL;
	bool keyed = false;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		keyed |= puts[i].key != NULL;
	if (!keyed && batch_size(puts, n) == n)
		return put_batch(conn, puts, n);
	for (int tries = 0; tries < TRIES; tries++) {
		rc = put_in_transaction(conn, puts, n, &refused);
		if (!refused)
			return rc;
		for (size_t i = 0; i < n; i++)
			if (&puts[i] != refused && puts[i].id == refused->found_id) { /* it is gone, too */
				refused->found_id = 0;
				return rc;
			}
		if (!refused->again)
			return rc;
	}
	return rc;
}

int hwts_rows_put(struct hwts_conn *conn, struct hwts_put *puts, size_t n, bool all)
{
	return all ? put_all(conn, puts, n) : put_each(conn, puts, n);
}

/*
 * On a connection of the caller, in the caller's transaction
 */

static int put_once(struct hwts_conn *conn, struct hwts_put *put)
{
	struct hwts_step steps[2];
	int rc = number(conn, put, 1);

	return rc ? rc : hwts_run(conn, steps, write_put(steps, put), HWTS_OPEN);
}

int hwts_rows_put_on(struct hwts_db *db, void *connection, struct hwts_put *put)
{
	struct hwts_conn *conn;
	struct hwts_step news;
	int64_t id;
	int rc = db->engine->borrow(db, connection, &conn);

	if (rc != 0)
		return rc;
	put->again = true;
	for (int tries = 0; tries < TRIES && put->again && rc == 0; tries++)
		rc = put_once(conn, put);
	/* Delivered when the caller commits; also to this process, which does not know when that is. */
	if (rc == 0 && write_news(conn, &news, &id, put, 1, true)) {
		news.args[2].number = true;
		rc = hwts_run(conn, &news, 1, HWTS_OPEN);
	}
	return db->engine->give_back(conn, rc ? rc : put->rc);
}
