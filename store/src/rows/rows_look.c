/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The look-ahead: what a process reads of the shards that it holds.
 *
 * A look reads shards from their marks on, up to the clock of the last renewal + the horizon.  A put that the look does
 * not see has read a later clock; if its row is due before that clock + the horizon, the put tells the holder.
 *
 * The sweep looks behind the marks.  On PostgreSQL a transaction may commit after the look that should have seen its
 * row, so the sweep reads rows that were not visible in the snapshot of the sweep before.  On both engines it reads
 * overdue rows.
 *
 * While some snapshot needs them, rows that are gone stay in the index, and each look over them reads them again.  So
 * the sweep can be told where to begin, and rows before that are read in slices; sweep.c decides.  After a full page
 * the next sweep goes on behind that page.
 */
#include "rows/rows.h"

#include <stdlib.h>

#define LOOK_STEPS 4

static int see_snapshot(void *ctx, const struct hwts_value *row)
{
	struct hwts_look *look = ctx;
	char *text = hwts_alloc(row[0].len + 1);

	if (!text)
		return ENOMEM;
	memcpy(text, row[0].bytes, row[0].len);
	free(look->next_snapshot);
	look->next_snapshot = text;
	return 0;
}

/*
 * Returns the entry of due's shard among the first count of look->held.  The search begins at the last hit, as the rows
 * of a shard follow each other.
 */
static struct hwts_held *held_of(struct hwts_look *look, const struct hwts_due *due, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (look->held[look->at].shard == due->shard)
			return &look->held[look->at];
		look->at = look->at + 1 < count ? look->at + 1 : 0;
	}
	return NULL;
}

static void move_mark(struct hwts_look *look, const struct hwts_due *due)
{
	struct hwts_held *held = held_of(look, due, look->ahead_count);

	if (!held)
		return;
	held->seen++;
	held->mark_due_us = due->due_us;
	held->mark_id = due->id;
}

static struct hwts_due due_of(const struct hwts_value *row)
{
	struct hwts_due due = { .part = (enum hwts_part)row[0].number,
				.id = row[1].number,
				.due_us = hwts_within(row[2].number, HWTS_LATEST_US),
				.shard = (int32_t)row[3].number,
				.len = (uint32_t)row[4].number,
				.epoch = row[5].number };

	hwts_due_set(&due, row[6].bytes, row[6].len, row[7].number);
	return due;
}

const struct hwts_due *hwts_due_add(const struct hwts_value *row, struct hwts_due **dues, size_t *count, size_t *room)
{
	if (!hwts_grow(dues, room, *count + 1, sizeof(**dues)))
		return NULL;
	(*dues)[*count] = due_of(row);
	return &(*dues)[(*count)++];
}

static int see_due(void *ctx, const struct hwts_value *row)
{
	struct hwts_look *look = ctx;
	const struct hwts_due *due = hwts_due_add(row, &look->dues, &look->due_count, &look->due_room);

	if (!due)
		return ENOMEM;
	if (due->part == HWTS_AHEAD)
		move_mark(look, due);
	return 0;
}

static int see_swept(void *ctx, const struct hwts_value *row)
{
	struct hwts_look *look = ctx;
	int rc = see_due(look, row);
	const struct hwts_due *due = rc == 0 ? &look->dues[look->due_count - 1] : NULL;
	struct hwts_held *held = due && due->part > HWTS_LATE ? held_of(look, due, look->held_count) : NULL;

	if (held) {
		held->overdue++;
		held->swept_due_us = due->due_us;
		held->swept_id = due->id;
	}
	return rc;
}

/* The arrays of a look, one value for each held shard: number, epoch, end, mark, begin of the sweep, and constants. */
enum { SHARD, EPOCH, TO, MARK_DUE, MARK_ID, SWEPT_DUE, SWEPT_ID, NO_MARK, SLICE_DUE, SLICE_ID, COLUMNS };

static int64_t *columns_of(const struct hwts_look *look)
{
	size_t n = look->held_count;
	int64_t *columns = hwts_alloc(COLUMNS * n * sizeof(*columns));

	for (size_t i = 0; i < n && columns; i++) {
		columns[SHARD * n + i] = look->held[i].shard;
		columns[EPOCH * n + i] = look->held[i].epoch;
		columns[TO * n + i] = look->held[i].to_us;
		columns[MARK_DUE * n + i] = look->held[i].mark_due_us;
		columns[MARK_ID * n + i] = look->held[i].mark_id;
		columns[SWEPT_DUE * n + i] = look->held[i].swept_due_us;
		columns[SWEPT_ID * n + i] = look->held[i].swept_id;
		columns[NO_MARK * n + i] = INT64_MIN;
		columns[SLICE_DUE * n + i] = HWTS_MAX(look->slice_from_us, INT64_MIN + 1) - 1;
		columns[SLICE_ID * n + i] = INT64_MAX;
	}
	return columns;
}

static const char *snapshot_of(const struct hwts_look *look)
{
	return look->snapshot ? look->snapshot : "3:3:";
}

/* A whole sweep, or a slice of overdue rows alone. */
static struct hwts_step sweep_of(struct hwts_look *look, const int64_t *columns, int64_t late_us, bool all)
{
	size_t n = look->held_count;

	return (struct hwts_step)HWTS_ASK(
	    SWEEP, all ? see_swept : see_due, look, HWTS_BYTES(columns + SHARD * n, n),
	    HWTS_BYTES(columns + EPOCH * n, n), HWTS_BYTES(columns + (all ? MARK_DUE : NO_MARK) * n, n),
	    HWTS_BYTES(columns + (all ? MARK_ID : NO_MARK) * n, n), HWTS_NUMBER((int64_t)look->page),
	    HWTS_TEXT(snapshot_of(look)), HWTS_NUMBER(late_us), HWTS_NUMBER(look->from_us),
	    HWTS_BYTES(columns + (all ? SWEPT_DUE : SLICE_DUE) * n, n),
	    HWTS_BYTES(columns + (all ? SWEPT_ID : SLICE_ID) * n, n));
}

static size_t write_steps(struct hwts_look *look, struct hwts_step *steps)
{
	const int64_t *columns = look->columns;
	size_t n = look->held_count, ahead = look->ahead_count, count = 0;

	if (look->sweeps)
		steps[count++] =
		    (struct hwts_step){ .sql = HWTS_SQL_SNAPSHOT, .each = see_snapshot, .ctx = look };
	if (ahead > 0)
		steps[count++] = (struct hwts_step)HWTS_ASK(
		    LOOK, see_due, look, HWTS_BYTES(columns + SHARD * n, ahead), HWTS_BYTES(columns + EPOCH * n, ahead),
		    HWTS_BYTES(columns + TO * n, ahead), HWTS_BYTES(columns + MARK_DUE * n, ahead),
		    HWTS_BYTES(columns + MARK_ID * n, ahead), HWTS_NUMBER((int64_t)look->page));
	if (look->sweeps)
		steps[count++] = sweep_of(look, columns, look->late_us, true);
	if (look->sweeps && look->slice_from_us < look->slice_to_us)
		steps[count++] = sweep_of(look, columns, look->slice_to_us, false);
	return count;
}

static bool begin(struct hwts_look *look)
{
	look->columns = columns_of(look);
	look->due_count = look->at = look->blocked = 0;
	look->missed = false;
	for (size_t i = 0; i < look->held_count; i++)
		look->held[i].seen = look->held[i].overdue = 0;
	return look->columns != NULL;
}

/* rc not 0: marks and snapshot stay. */
static void end(struct hwts_look *look, int rc)
{
	free(look->columns);
	look->columns = NULL;
	for (size_t i = 0; i < look->ahead_count && rc == 0; i++) {
		struct hwts_held *held = &look->held[i];

		held->full = held->seen >= look->page;
		if (!held->full && held->to_us > held->mark_due_us) {
			held->mark_due_us = held->to_us;
			held->mark_id = 0;
		}
	}
	for (size_t i = 0; i < look->held_count; i++)
		if (look->held[i].overdue < look->page)
			look->held[i].swept_due_us = INT64_MIN;
	if (rc == 0 && look->next_snapshot) {
		free(look->snapshot);
		look->snapshot = look->next_snapshot;
	} else {
		free(look->next_snapshot);
	}
	look->next_snapshot = NULL;
}

/*
 * A row that cannot be read goes into the window with its place alone.  Its begin is refused then, and sets it aside.
 */

/* Reads one shard of a step, past rows that cannot be read. */
static int look_at_one(struct hwts_conn *conn, struct hwts_look *look, const struct hwts_step *step, size_t i)
{
	struct hwts_held *held = &look->held[i];
	bool ahead = step->sql == HWTS_SQL_LOOK;
	struct hwts_past past = { .step = *step,
				  .next = { HWTS_SQL_LOOK_NEXT, .args[2].number = held->shard },
				  .from_at = ahead ? 3 : 8,
				  .page_at = ahead ? 5 : 4,
				  .due_us = ahead ? &held->mark_due_us : &held->swept_due_us,
				  .id = ahead ? &held->mark_id : &held->swept_id,
				  .told = &look->due_count,
				  .page = look->page,
				  .shard = held->shard,
				  .part = ahead ? HWTS_AHEAD : HWTS_OVERDUE,
				  .tells = true };
	const char *types = hwts_statements[step->sql].types;
	int rc;

	for (int k = 0; types[k]; k++)
		if (types[k] <= 'Z')
			past.step.args[k] = (struct hwts_value)HWTS_BYTES((const int64_t *)step->args[k].bytes + i, 1);
	if (!ahead) /* a sweep without the rows that became visible late */
		past.step.args[2].bytes = past.step.args[3].bytes = look->columns + NO_MARK * look->held_count;
	rc = hwts_rows_past(conn, &past);
	if (!ahead && past.passed > 0)
		held->overdue = look->page; /* as after a full page: more and more sweeps leave the backlog out */
	return rc;
}

/*
 * Reads shard by shard after a refusal.  Slices are left to the next pass.  Rows that became visible late are left to
 * the next sweep without damage: the snapshot stays as it is.
 */
static int look_apart(struct hwts_conn *conn, struct hwts_look *look, const struct hwts_step *steps, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < look->held_count && (rc == 0 || conn->refused); i++) {
		rc = 0;
		for (size_t k = 0; k < n && rc == 0; k++)
			if (steps[k].each == see_swept || (steps[k].sql == HWTS_SQL_LOOK && i < look->ahead_count))
				rc = look_at_one(conn, look, &steps[k], i);
		if (rc != 0) { /* the mark stays, and the next look at the shard is that of a renewal */
			look->held[i].to_us = INT64_MIN;
			look->held[i].part = false;
		}
		look->blocked += rc != 0;
	}
	return rc != 0 && (!conn->refused || look->blocked == look->held_count) ? rc : 0;
}

int hwts_rows_look(struct hwts_conn *conn, struct hwts_look *look)
{
	struct hwts_step steps[LOOK_STEPS];
	size_t n = begin(look) ? write_steps(look, steps) : 0;
	int rc = n > 0 ? hwts_run(conn, steps, n, HWTS_READS) : ENOMEM;

	if (rc != 0 && n > 0 && conn->refused)
		rc = look_apart(conn, look, steps, n);
	end(look, rc);
	return rc;
}

/*
 * Rests
 */

static int see_rest(void *ctx, const struct hwts_value *row)
{
	struct hwts_refill *refill = ctx;
	const struct hwts_due *due = hwts_due_add(row, &refill->dues, &refill->count, &refill->room);

	if (!due)
		return ENOMEM;
	refill->from = (struct hwts_place){ due->due_us, due->id };
	return 0;
}

static struct hwts_step refill_of(struct hwts_refill *refill)
{
	struct hwts_value priority = HWTS_NUMBER(refill->priority), page = HWTS_NUMBER((int64_t)refill->page),
			  from_us = HWTS_NUMBER(refill->from.due_us), from_id = HWTS_NUMBER(refill->from.id),
			  to_us = HWTS_NUMBER(refill->to.due_us), to_id = HWTS_NUMBER(refill->to.id);

	if (refill->group_len == 0)
		return (struct hwts_step)HWTS_ASK(LOOK_NO_GROUP, see_rest, refill, HWTS_NUMBER(refill->shard), from_us,
						  from_id, to_us, to_id, priority, page);
	return (struct hwts_step)HWTS_ASK(
	    LOOK_GROUP, see_rest, refill, HWTS_NUMBER(refill->bucket), HWTS_NUMBER(refill->shard / HWTS_SHARDS_MAX),
	    HWTS_BYTES(refill->group, refill->group_len), from_us, from_id, to_us, to_id, priority, page);
}

/* Reads a page of a rest, past rows that cannot be read: their group is not known, so they are left to looks. */
static int refill_one(struct hwts_conn *conn, struct hwts_refill *refill)
{
	struct hwts_past past = { .step = refill_of(refill),
				  .next = { HWTS_SQL_LOOK_NEXT, .args[2].number = refill->shard },
				  .from_at = refill->group_len > 0 ? 3 : 1,
				  .page_at = refill->group_len > 0 ? 8 : 6,
				  .due_us = &refill->from.due_us,
				  .id = &refill->from.id,
				  .told = &refill->count,
				  .page = refill->page,
				  .shard = refill->shard };

	if (refill->group_len > 0) {
		past.next.sql = HWTS_SQL_LOOK_NEXT_IN;
		memcpy(past.next.args + 2, past.step.args, 3 * sizeof(*past.next.args));
	}
	return hwts_rows_past(conn, &past);
}

int hwts_rows_refill(struct hwts_conn *conn, struct hwts_refill *refills, size_t n)
{
	struct hwts_step steps[HWTS_REFILLS];
	int rc;

	for (size_t i = 0; i < n; i++)
		steps[i] = refill_of(&refills[i]);
	rc = hwts_run(conn, steps, n, HWTS_READS);
	if (rc == 0 || !conn->refused)
		return rc;
	rc = 0;
	for (size_t i = 0; i < n; i++) {
		int failed = refill_one(conn, &refills[i]);

		rc = rc ? rc : failed;
	}
	return rc;
}

void hwts_look_free(struct hwts_look *look)
{
	free(look->held);
	free(look->dues);
	free(look->snapshot);
	free(look->next_snapshot);
	*look = (struct hwts_look){ .page = 0 };
}
