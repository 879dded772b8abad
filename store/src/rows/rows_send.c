/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows on their way into the database: numbers, the columns of an insert, the row that has a key, news for the holders.
 *
 * Numbers of ids are drawn in blocks, each in a synced transaction of its own.  So neither a put that is undone nor a
 * crash gives a number twice.  The numbers begin at the clock, 4 a millisecond, or higher.  So an old copy of the
 * database gives no number that was given since the copy was made, unless there were more than 4 a millisecond.
 *
 * News on SQLite: the holder of a shard reads its rows up to a mark, now + horizon, where now was read in the write
 * transaction of its renewal.  A put's transaction lies before that renewal, and the holder sees its row.  Or it lies
 * after the renewal: then the put has read a later now, and if its row is due before that now + horizon, it leaves a
 * hint.  This needs the put to read the clock inside its transaction.
 *
 * News on PostgreSQL: transactions that notify commit one after the other, so a notification is a transaction of its
 * own, behind the put in the same pipeline.  It reads the rows that the put has committed.  After a put without keys it
 * reads only the clock of the put, which the put has left in a setting of the session.  If the put failed there are no
 * news.  If the notification is lost, the holder's look-ahead finds the row by tx.
 */
#include "rows/rows.h"

#include <stdlib.h>

#define SLACK_US HWTS_S_US

/*
 * True: the row may be due soon; the statement decides.  The first registration of a kind may set another horizon than
 * the one that was read.  A put that keeps the due time does not know it.  SQLite: a caller's connection may get the
 * lock long after the clock was read.
 */
static bool is_soon(const struct hwts_conn *conn, const struct hwts_put *put)
{
	bool waits = conn->here && !conn->db->engine->locks_rows;

	return waits || put->kind.mode == HWTS_MODE_OPEN || put->absolute || put->keep_due ||
	       put->when_us < put->kind.horizon_us + 2 * SLACK_US;
}

/* Returns the horizon of all puts.  0: they differ, or the horizon may have been changed. */
static int64_t horizon_of(const struct hwts_put *puts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (puts[i].kind.mode == HWTS_MODE_OPEN || puts[i].kind.horizon_us != puts[0].kind.horizon_us)
			return 0;
	return puts[0].kind.horizon_us;
}

int hwts_rows_draw(struct hwts_conn *conn, int64_t count, bool hasty, int64_t *first)
{
	struct hwts_step steps[] = {
		{ .sql = HWTS_SQL_FLUSH },
		HWTS_ASK(DRAW, hwts_note_number, first, HWTS_NUMBER(count)),
	};
	int rc;

	*first = 0;
	rc = hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED | (hasty ? HWTS_HASTY : 0));
	if (rc != 0)
		return rc == ECONNRESET ? ENOTCONN : rc; /* if numbers were drawn, nobody uses them */
	return *first > 0 ? 0 : hwts_fail(EIO, "%s_meta is empty, or the numbers of ids are used up", conn->db->prefix);
}

/*
 * A batch
 */

/* The columns of an insert. */
enum { ID, KIND, SHARD, WHEN, ABSOLUTE, PERIOD, PRIORITY, NUMBERS, LENGTH = NUMBERS, ARRAYS };
struct batch {
	struct hwts_put *puts;
	size_t n, at; /* at: the first put whose row may come back next */
	int64_t *numbers[ARRAYS];
	struct hwts_value *groups, *keys, *data;
	struct hwts_step *steps;
	size_t step_count;
};

/* Rows come back in the order of the puts, without the refused ones.  PostgreSQL: a row of PUT stands for many. */
static int inserted(void *ctx, const struct hwts_value *row)
{
	struct batch *batch = ctx;
	int64_t count = row[2].number == 0 ? HWTS_MAX(row[3].number, 1) : 1;

	while (batch->at < batch->n && batch->puts[batch->at].drawn != row[0].number)
		batch->at++;
	for (; batch->at < batch->n && count > 0; count--)
		(void)hwts_accepted(&batch->puts[batch->at++], row);
	return 0;
}

/* The key is in use.  If the put may change that row now, the row came, or became FAILED, after the attempt. */
static int met(void *ctx, const struct hwts_value *row)
{
	struct hwts_put *put = ctx;

	if (put->rc == 0)
		return 0;
	put->found_id = row[0].number;
	put->rc = EEXIST;
	put->again = put->replace || (put->revive && row[1].number == HWT_STORE_FAILED);
	return 0;
}

static bool is_plain(enum hwts_sql sql)
{
	return sql == HWTS_SQL_PUT || sql == HWTS_SQL_PUT_KEYED;
}

/* A statement that is not plain has more parameters, and no arrays. */
static void write_insert(struct batch *batch, enum hwts_sql sql, size_t from, size_t n)
{
	struct hwts_put *put = &batch->puts[from];
	const struct hwts_value *columns[] = { batch->groups + from, batch->keys + from, batch->data + from };
	const char *types = hwts_statements[sql].types;
	struct hwts_step *step = &batch->steps[batch->step_count++];

	*step = (struct hwts_step){ .sql = sql, .each = inserted, .ctx = batch };
	for (int i = 0; i < NUMBERS; i++)
		step->args[i] = types[i] <= 'Z' ? (struct hwts_value)HWTS_BYTES(batch->numbers[i] + from, n)
						: (struct hwts_value)HWTS_NUMBER(batch->numbers[i][from]);
	for (int i = 0; i < 3; i++)
		step->args[NUMBERS + i] = types[NUMBERS + i] <= 'Z' ? (struct hwts_value)HWTS_BYTES(columns[i], n)
								    : *columns[i];
	if (is_plain(sql))
		return;
	step->each = hwts_accepted;
	step->ctx = put;
	step->args[NUMBERS + 3] = (struct hwts_value)HWTS_NUMBER(put->later_us);
	step->args[NUMBERS + 4] = (struct hwts_value)HWTS_TEXT(put->schedule);
	step->args[NUMBERS + 5] = (struct hwts_value)HWTS_TEXT(put->zone);
	step->args[NUMBERS + 6] = (struct hwts_value)HWTS_NUMBER(put->grace_us);
	step->args[NUMBERS + 7] = (struct hwts_value)HWTS_NUMBER(put->spread_us);
}

/* now_us 0: the database adds its clock to a delay. */
static void write_row(struct batch *batch, size_t at, int64_t now_us)
{
	struct hwts_put *put = &batch->puts[at];
	int64_t base_us;

	put->rc = EEXIST; /* until the row comes back */
	put->again = put->key != NULL;
	put->runs = put->stays = false;
	put->found_id = 0;
	put->id = put->drawn;
	put->shard = hwts_shard_of(&put->kind, put->id);
	base_us = put->absolute ? put->when_us : now_us + put->when_us;
	put->due_us = base_us + put->later_us;
	batch->numbers[ID][at] = put->id;
	batch->numbers[KIND][at] = put->kind.id;
	batch->numbers[SHARD][at] = put->shard;
	batch->numbers[WHEN][at] = now_us ? base_us : put->when_us;
	batch->numbers[ABSOLUTE][at] = put->absolute || now_us;
	batch->numbers[PERIOD][at] = put->period_us;
	batch->numbers[PRIORITY][at] = put->priority;
	batch->numbers[LENGTH][at] = (int64_t)put->len;
	batch->groups[at] = (struct hwts_value)HWTS_TEXT(put->group ? put->group : "");
	batch->keys[at] = (struct hwts_value)HWTS_TEXT(put->key);
	batch->data[at] = (struct hwts_value)HWTS_BYTES(put->len ? put->data : NULL, put->len);
}

static bool open_batch(struct batch *batch, struct hwts_put *puts, size_t n)
{
	int64_t *numbers = hwts_alloc(ARRAYS * n * sizeof(*numbers));
	size_t room = 0;

	*batch = (struct batch){ .puts = puts,
				 .n = n,
				 .groups = hwts_alloc(n * sizeof(*batch->groups)),
				 .keys = hwts_alloc(n * sizeof(*batch->keys)),
				 .data = hwts_alloc(n * sizeof(*batch->data)) };
	for (size_t i = 0; i < ARRAYS; i++)
		batch->numbers[i] = numbers ? numbers + i * n : NULL;
	return numbers && batch->groups && batch->keys && batch->data &&
	       hwts_grow(&batch->steps, &room, n + 1, sizeof(*batch->steps)); /* not cleared: most stay unused */
}

static void close_batch(struct batch *batch)
{
	free(batch->numbers[0]);
	free(batch->groups);
	free(batch->keys);
	free(batch->data);
	free(batch->steps);
}

/* The statement that inserts a row.  A keyed insert takes rows without a key, too. */
static enum hwts_sql insert_of(const struct hwts_put *put)
{
	if (put->replace)
		return HWTS_SQL_PUT_REPLACE;
	if (put->revive)
		return HWTS_SQL_PUT_REVIVE;
	if (put->schedule || put->grace_us || put->spread_us)
		return HWTS_SQL_PUT_SERIES;
	return put->key ? HWTS_SQL_PUT_KEYED : HWTS_SQL_PUT;
}

/* Writes the statements in the order of the puts.  A put that is not plain has a statement of its own. */
static void write_batch(struct batch *batch, int64_t now_us)
{
	struct hwts_put *puts = batch->puts;

	for (size_t i = 0; i < batch->n; i++)
		write_row(batch, i, now_us);
	for (size_t from = 0, to; from < batch->n; from = to) {
		enum hwts_sql sql = insert_of(&puts[from]);

		for (to = from + 1; to < batch->n && is_plain(sql) && is_plain(insert_of(&puts[to])); to++)
			if (puts[to].key)
				sql = HWTS_SQL_PUT_KEYED;
		write_insert(batch, sql, from, to - from);
	}
}

/* Finds the rows that have the keys of refused puts: inside an open transaction, or after the commit. */
static int find_refused(struct hwts_conn *conn, struct batch *batch, unsigned flags)
{
	int rc = 0;

	batch->step_count = 0;
	for (struct hwts_put *put = batch->puts; put < batch->puts + batch->n; put++)
		if (put->rc != 0 && put->key && !put->keep_due)
			batch->steps[batch->step_count++] = hwts_find(put->kind.id, put->group, put->key, met, put);
	if (batch->step_count > 0)
		rc = hwts_run(conn, batch->steps, batch->step_count, flags & HWTS_OPEN ? flags : HWTS_READS);
	if (rc == 0 || flags & HWTS_OPEN)
		return rc;
	for (struct hwts_put *put = batch->puts; put < batch->puts + batch->n; put++)
		if (put->rc != 0) {
			put->rc = rc;
			put->again = false;
		}
	return 0; /* the other puts are in the database */
}

/*
 * Writes the news of puts that were accepted, and are or may be due soon; ids has room for all.  False: there are none.
 */
static bool write_news(struct hwts_conn *conn, struct hwts_step *step, int64_t *ids, const struct hwts_put *puts,
		       size_t n, bool known)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (is_soon(conn, &puts[i]) && !(known && (puts[i].rc != 0 || puts[i].stays)))
			ids[count++] = puts[i].id;
	*step = (struct hwts_step){ .sql = HWTS_SQL_TELL,
				    .args = { HWTS_BYTES(ids, count), HWTS_TEXT(hwts_me(conn->db)), HWTS_NUMBER(false),
					      HWTS_NUMBER(horizon_of(puts, n)) },
				    .after = true };
	return count > 0;
}

/*
 * Writes the news of a batch that is one PUT, from what the client knows.  False: there are none, a row has a key,
 * horizons differ or may be changed, or a pooler was found, which may give the next transaction another session.
 */
static bool write_put_news(struct hwts_conn *conn, struct batch *batch)
{
	int64_t **numbers = batch->numbers, horizon_us = horizon_of(batch->puts, batch->n);
	struct hwts_step *steps = batch->steps;
	bool soon = false;

	if (conn->db->pooled || batch->step_count != 1 || steps[0].sql != HWTS_SQL_PUT || horizon_us == 0)
		return false;
	for (size_t i = 0; i < batch->n; i++)
		soon |= is_soon(conn, &batch->puts[i]);
	if (!soon)
		return false;
	steps[0].args[NUMBERS + 3] = (struct hwts_value)HWTS_NUMBER(true);
	steps[1] = (struct hwts_step)HWTS_DO(
	    TELL_PUT, HWTS_BYTES(numbers[ID], batch->n), HWTS_BYTES(numbers[SHARD], batch->n),
	    HWTS_BYTES(numbers[WHEN], batch->n), HWTS_BYTES(numbers[ABSOLUTE], batch->n),
	    HWTS_BYTES(numbers[PRIORITY], batch->n), HWTS_BYTES(batch->groups, batch->n),
	    HWTS_BYTES(numbers[LENGTH], batch->n), HWTS_TEXT(hwts_me(conn->db)), HWTS_NUMBER(horizon_us));
	steps[1].after = true;
	return true;
}

int hwts_rows_clock(struct hwts_conn *conn, unsigned flags, int64_t *now_us)
{
	struct hwts_step step = { .sql = HWTS_SQL_CLOCK, .each = hwts_note_number, .ctx = now_us };

	*now_us = 0;
	return hwts_run(conn, &step, 1, flags);
}

/* SQLite: reads the clock in the transaction, and leaves that open. */
static int read_clock(struct hwts_conn *conn, int64_t *now_us)
{
	*now_us = 0;
	return conn->db->engine->locks_rows ? 0 : hwts_rows_clock(conn, HWTS_SYNCED | HWTS_OPEN, now_us);
}

static int send(struct hwts_conn *conn, struct hwts_put *puts, size_t n, unsigned flags, bool tells)
{
	int64_t *ids = hwts_alloc(n * sizeof(*ids)), now_us;
	struct batch batch;
	int rc = open_batch(&batch, puts, n) && ids ? read_clock(conn, &now_us) : ENOMEM;

	if (rc == 0) {
		write_batch(&batch, now_us);
		if (tells && (write_put_news(conn, &batch) ||
			      write_news(conn, &batch.steps[batch.step_count], ids, puts, n, false)))
			batch.step_count++;
		rc = hwts_run(conn, batch.steps, batch.step_count, flags | HWTS_SYNCED);
	}
	if (rc == 0)
		rc = find_refused(conn, &batch, flags);
	close_batch(&batch);
	free(ids);
	return rc;
}

/* Returns how many puts there are up to the next that keeps its due time; or all. */
static size_t part_of(const struct hwts_put *puts, size_t n)
{
	size_t count = 1;

	while (count < n && !puts[count - 1].keep_due)
		count++;
	return count;
}

/*
 * A put that keeps its due time locks the row that it changes.  It is executed in its place of the order: after the
 * puts before it, and before those after it.
 */
int hwts_rows_send(struct hwts_conn *conn, struct hwts_put *puts, size_t n, unsigned flags, bool tells)
{
	bool keeps = n > 0 && puts[part_of(puts, n) - 1].keep_due, ends = keeps && !(flags & HWTS_OPEN);
	int rc = 0;

	flags |= keeps ? HWTS_OPEN : 0;
	for (size_t at = 0, count; at < n && rc == 0; at += count) {
		count = part_of(puts + at, n - at);
		rc = send(conn, puts + at, count, flags, tells && !keeps);
		if (rc == 0)
			rc = hwts_rows_keep(conn, &puts[at + count - 1]);
	}
	return rc != 0 || ends ? hwts_finish(conn, rc) : 0;
}

/* SQLite: finds out whether a process that holds one of the shards has to be told. */
static int ask_for_others(struct hwts_conn *conn, const struct hwts_put *puts, size_t n, bool *others)
{
	int64_t shards[64];
	struct hwts_step step = HWTS_ASK(OTHERS, hwts_note_row, others, HWTS_BYTES(shards, 0),
					 HWTS_TEXT(hwts_me(conn->db)));
	size_t count = 0, j;

	*others = conn->db->engine->locks_rows;
	for (size_t i = 0; i < n && !*others; i++) {
		for (j = 0; j < count && shards[j] != puts[i].shard; j++)
			;
		*others = j == HWTS_COUNT(shards); /* too many shards to ask for */
		if (j == count && !*others)
			shards[count++] = puts[i].shard;
	}
	step.args[0].len = count;
	return *others ? 0 : hwts_run(conn, &step, 1, HWTS_OPEN);
}

int hwts_rows_tell(struct hwts_conn *conn, const struct hwts_put *puts, size_t n, unsigned flags, bool too)
{
	int64_t *ids = hwts_alloc(n * sizeof(*ids));
	struct hwts_step step;
	bool others = too;
	int rc = !ids ? ENOMEM : too ? 0 : ask_for_others(conn, puts, n, &others);

	if (rc == 0 && others && write_news(conn, &step, ids, puts, n, true)) {
		step.args[2].number = too;
		rc = hwts_run(conn, &step, 1, flags);
	}
	free(ids);
	return rc;
}
