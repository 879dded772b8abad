/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends of runs: in batches, or in the transaction of a task. */
#include "rows/rows.h"

#include <stdlib.h>

/* Some rows, sorted by id. */
struct set {
	struct hwts_row **rows;
	size_t n;
};

static int by_id(const void *left, const void *right)
{
	const struct hwts_row *a = *(struct hwts_row *const *)left, *b = *(struct hwts_row *const *)right;

	return (a->id > b->id) - (a->id < b->id);
}

static int by_epoch(const void *left, const void *right)
{
	const struct hwts_row *a = *(struct hwts_row *const *)left, *b = *(struct hwts_row *const *)right;

	return a->epoch != b->epoch ? (a->epoch < b->epoch ? -1 : 1) : by_id(left, right);
}

static struct hwts_row *row_of(const struct set *set, int64_t id)
{
	struct hwts_row key = { .id = id }, *at = &key,
			**found = bsearch(&at, set->rows, set->n, sizeof(struct hwts_row *), by_id);

	return found ? *found : NULL;
}

/* Rows under one epoch are DONE. */
static int done(void *ctx, const struct hwts_value *value)
{
	struct hwts_row *row = row_of(ctx, value[0].number);

	if (row)
		row->hit = true;
	return 0;
}

static int filed(void *ctx, const struct hwts_value *value)
{
	struct hwts_row *row = ctx;

	row->hit = true;
	if (row->how == HWTS_AFTER) {
		row->when_us = value[1].number;
		row->how = HWTS_AT; /* the same time if the end is tried again */
	}
	return 0;
}

/* The series goes on at its next time.  row->how may have changed since serves was set. */
static bool serves_time(const struct hwts_row *row)
{
	return row->serves && row->how == HWTS_AT && !row->give_back;
}

static struct hwts_step end_of(struct hwts_row *row)
{
	const char *error = row->give_back || row->again ? NULL : row->error;

	if (row->how == HWTS_DONE)
		return (struct hwts_step)HWTS_ASK(END_DONE, filed, row, HWTS_BYTES(&row->id, 1),
						  HWTS_NUMBER(row->epoch));
	if (row->how == HWTS_FAIL)
		return (struct hwts_step)HWTS_ASK(END_FAIL, filed, row, HWTS_NUMBER(row->id), HWTS_NUMBER(row->epoch),
						  HWTS_TEXT(row->error), HWTS_NUMBER(row->late));
	return (struct hwts_step)HWTS_ASK(
	    END_AGAIN, filed, row, HWTS_NUMBER(row->id), HWTS_NUMBER(row->epoch), HWTS_NUMBER(row->when_us),
	    HWTS_NUMBER(row->how == HWTS_AFTER), HWTS_NUMBER(row->limit_us), HWTS_NUMBER(row->next_base_us),
	    HWTS_NUMBER(row->next_attempt), HWTS_TEXT(error), HWTS_NUMBER(serves_time(row)),
	    HWTS_NUMBER(row->give_back && row->next_attempt == 0));
}

/* The row was marked as the last run of its series.  The answer of the task does not count any more. */
static int gone(void *ctx, const struct hwts_value *value)
{
	struct hwts_row *row = ctx;

	(void)value;
	row->hit = row->cancelled = true;
	row->how = HWTS_DONE;
	return 0;
}

/* The row was replaced while it ran.  If the end is tried again, the replacement may have been cancelled. */
static int replaced(void *ctx, const struct hwts_value *value)
{
	struct hwts_row *row = ctx;

	row->hit = row->replaced = true;
	row->next_due_us = value[1].number;
	row->len = (size_t)value[2].number;
	row->priority = hwts_priority_of(value[3].number);
	return 0;
}

/* Settings that were kept for this end hold now. */
static int kept(void *ctx, const struct hwts_value *value)
{
	((struct hwts_row *)ctx)->kept = true;
	return replaced(ctx, value);
}

#define ENDING (HWTS_CLOSING - 1) /* most steps that end one row, without CLOSE */

/*
 * Writes steps of which one finds the row, if it still belongs to this run and no call changes it in between.  Returns
 * the number of steps.
 */
static size_t write_marked(struct hwts_step *steps, struct hwts_row *row)
{
	size_t n = 2;

	steps[0] = (struct hwts_step)HWTS_ASK(END_LAST, gone, row, HWTS_NUMBER(row->id), HWTS_NUMBER(row->epoch));
	steps[1] = (struct hwts_step)HWTS_ASK(END_NEXT, replaced, row, HWTS_NUMBER(row->id), HWTS_NUMBER(row->epoch),
					      HWTS_NUMBER(false), HWTS_NUMBER(row->now_us));
	if (serves_time(row))
		steps[n++] = (struct hwts_step)HWTS_ASK(END_NEXT, kept, row, HWTS_NUMBER(row->id),
							HWTS_NUMBER(row->epoch), HWTS_NUMBER(true),
							HWTS_NUMBER(row->now_us));
	steps[n++] = end_of(row);
	return n;
}

struct end {
	struct hwts_row **rows; /* rows that are DONE */
	int64_t *ids;
	struct set *groups;
	struct hwts_step *steps;
	size_t done, step_count;
};

static void end_done(struct end *end)
{
	qsort(end->rows, end->done, sizeof(*end->rows), by_epoch);
	for (size_t i = 0, count; i < end->done; i += count) {
		struct set *group = &end->groups[end->step_count];

		for (count = 0; i + count < end->done && end->rows[i + count]->epoch == end->rows[i]->epoch; count++)
			end->ids[i + count] = end->rows[i + count]->id;
		*group = (struct set){ &end->rows[i], count };
		end->steps[end->step_count++] = (struct hwts_step)HWTS_ASK(
		    END_DONE, done, group, HWTS_BYTES(&end->ids[i], count), HWTS_NUMBER(end->rows[i]->epoch));
	}
}

static int is_there(void *ctx, const struct hwts_value *value)
{
	struct hwts_row *row = row_of(ctx, value[0].number);

	if (row)
		row->locked = value[3].number == HWT_STORE_RUNNING && value[5].number == row->epoch;
	return 0;
}

static int is_ours(void *ctx, const struct hwts_value *value)
{
	struct hwts_row *row = row_of(ctx, value[0].number);

	if (row)
		row->locked = false;
	return 0;
}

/* Locks the rows that no other transaction has locked, until this transaction ends, and marks the others. */
static int lock_rows(struct hwts_conn *conn, struct hwts_row *rows, size_t n)
{
	struct set locks = { hwts_alloc(n * sizeof(*locks.rows)), 0 };
	int64_t *ids = hwts_alloc(n * sizeof(*ids));
	struct hwts_step steps[] = {
		HWTS_ASK(PENDING, is_there, &locks, HWTS_BYTES(ids, n)),
		HWTS_ASK(END_LOCK, is_ours, &locks, HWTS_BYTES(ids, n)),
	};
	int rc = locks.rows && ids ? 0 : ENOMEM;

	for (struct hwts_row *row = rows; row && rc == 0; row = row->next) {
		ids[locks.n] = row->id;
		locks.rows[locks.n++] = row;
	}
	if (rc == 0) {
		qsort(locks.rows, locks.n, sizeof(*locks.rows), by_id);
		rc = hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_OPEN);
	}
	free(locks.rows);
	free(ids);
	return rc;
}

static bool open_end(struct end *end, size_t n)
{
	size_t room = 0;

	*end = (struct end){ .rows = hwts_alloc(n * sizeof(*end->rows)),
			     .ids = hwts_alloc(n * sizeof(*end->ids)),
			     .groups = hwts_alloc(n * sizeof(*end->groups)) };
	return end->rows && end->ids && end->groups &&
	       hwts_grow(&end->steps, &room, ENDING * n, sizeof(*end->steps)); /* not cleared: most steps stay unused */
}

static void close_end(struct end *end)
{
	free(end->rows);
	free(end->ids);
	free(end->groups);
	free(end->steps);
}

/* Ends the rows that no other transaction has locked. */
static int end_unlocked(struct hwts_conn *conn, struct hwts_row *rows, size_t n, unsigned flags)
{
	struct end end;
	int rc = open_end(&end, n) ? 0 : ENOMEM;

	for (struct hwts_row *row = rows; row && rc == 0; row = row->next) {
		row->hit = row->replaced = row->cancelled = row->kept = false;
		if (!row->locked && !row->marked && row->how == HWTS_DONE)
			end.rows[end.done++] = row;
	}
	if (rc == 0)
		end_done(&end);
	for (struct hwts_row *row = rows; row && rc == 0; row = row->next) {
		if (!row->locked && row->marked) {
			end.step_count += write_marked(&end.steps[end.step_count], row);
		} else if (!row->locked && row->how != HWTS_DONE) {
			end.steps[end.step_count++] = end_of(row);
		}
	}
	if (rc == 0 && end.step_count > 0)
		rc = hwts_run(conn, end.steps, end.step_count, flags);
	close_end(&end);
	return rc;
}

/* Passes by rows that other transactions have locked: they may hold them for as long as they like. */
static int end_skipping(struct hwts_conn *conn, struct hwts_row *rows, size_t n, unsigned flags)
{
	int rc = lock_rows(conn, rows, n);
	bool any = false;

	for (struct hwts_row *row = rows; row && rc == 0; row = row->next)
		any |= row->locked;
	rc = hwts_finish(conn, rc == 0 ? end_unlocked(conn, rows, n, flags | HWTS_OPEN) : rc);
	if (rc == 0)
		conn->skips = any ? HWTS_SKIPS : conn->skips - 1;
	return rc;
}

int hwts_rows_end(struct hwts_conn *conn, struct hwts_row *rows)
{
	bool locks = conn->db->engine->locks_rows, marked = false;
	unsigned flags = 0;
	size_t n = 0;
	int rc = EAGAIN;

	for (struct hwts_row *row = rows; row; row = row->next, n++) {
		flags |= row->synced ? HWTS_SYNCED : 0;
		row->locked = false;
		marked |= row->marked;
	}
	/* A marked row is ended under a lock, so that no cancel comes between the steps. */
	if (conn->skips == 0 && !(marked && locks))
		rc = end_unlocked(conn, rows, n, flags);
	if (rc != EAGAIN || !locks || conn->broken)
		return rc;
	conn->skips = HWTS_MAX(conn->skips, 1);
	return end_skipping(conn, rows, n, flags);
}

/* Commits the transaction of a task with the end of its row.  ESTALE: the row was no longer this run's. */
int hwts_rows_close_run(struct hwts_conn *conn, struct hwts_row *row)
{
	struct hwts_step steps[HWTS_CLOSING] = { HWTS_DO(CLOSE, HWTS_NUMBER(row->id), HWTS_NUMBER(row->epoch)) };
	int rc;

	row->replaced = row->cancelled = row->kept = false;
	rc = conn->db->engine->close_run(conn, steps, 1 + write_marked(steps + 1, row));
	return rc == ESTALE ? hwts_fail(rc, "timeout %lld was taken over while it ran", (long long)row->id) : rc;
}
