/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends of runs: by batches, or in the transaction of a task. */
#include "core/rows.h"

#include <stdlib.h>

/* Rows that are done, under one epoch, by id. */
struct done {
	struct hwts_row **rows;
	size_t n;
};

static int by_epoch(const void *left, const void *right)
{
	const struct hwts_row *a = *(struct hwts_row *const *)left, *b = *(struct hwts_row *const *)right;

	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

static int done(void *ctx, const struct hwts_value *row)
{
	struct done *group = ctx;
	struct hwts_row key = { .id = row[0].number, .epoch = group->rows[0]->epoch }, *at = &key,
			**found = bsearch(&at, group->rows, group->n, sizeof(struct hwts_row *), by_epoch);

	if (found)
		(*found)->hit = true;
	return 0;
}

static int filed(void *ctx, const struct hwts_value *value)
{
	struct hwts_row *row = ctx;

	row->hit = true;
	if (row->how == HWTS_AFTER) {
		row->when_us = value[1].number;
		row->how = HWTS_AT; /* the same time if this is tried again */
	}
	return 0;
}

static struct hwts_step end_of(struct hwts_row *row)
{
	if (row->how == HWTS_FAIL)
		return (struct hwts_step){ HWTS_SQL_END_FAIL,
					   { HWTS_NUMBER(row->id), HWTS_NUMBER(row->epoch), HWTS_TEXT(row->error) },
					   .each = filed,
					   .ctx = row };
	return (struct hwts_step){ HWTS_SQL_END_AGAIN,
				   { HWTS_NUMBER(row->id), HWTS_NUMBER(row->epoch), HWTS_NUMBER(row->when_us),
				     HWTS_NUMBER(row->how == HWTS_AFTER), HWTS_NUMBER(row->limit_us),
				     HWTS_NUMBER(row->next_base_us), HWTS_NUMBER(row->next_attempt),
				     HWTS_BYTES(row->give_back ? NULL : row->error, strlen(row->error)) },
				   .each = filed,
				   .ctx = row };
}

struct end {
	struct hwts_row **rows; /* that are done */
	int64_t *ids;
	struct done *groups;
	struct hwts_step *steps;
	size_t done, step_count;
};

static void end_done(struct end *end)
{
	qsort(end->rows, end->done, sizeof(*end->rows), by_epoch);
	for (size_t i = 0, count; i < end->done; i += count) {
		struct done *group = &end->groups[end->step_count];

		for (count = 0; i + count < end->done && end->rows[i + count]->epoch == end->rows[i]->epoch; count++)
			end->ids[i + count] = end->rows[i + count]->id;
		*group = (struct done){ &end->rows[i], count };
		end->steps[end->step_count++] =
		    (struct hwts_step){ HWTS_SQL_END_DONE,
					{ HWTS_BYTES(&end->ids[i], count), HWTS_NUMBER(end->rows[i]->epoch) },
					.each = done,
					.ctx = group };
	}
}

int hwts_rows_end(struct hwts_conn *conn, struct hwts_row *rows)
{
	struct end end = { .rows = NULL };
	unsigned flags = 0;
	size_t n = 0;
	int rc;

	for (struct hwts_row *row = rows; row; row = row->next)
		n++;
	end.rows = hwts_alloc(n * sizeof(*end.rows));
	end.ids = hwts_alloc(n * sizeof(*end.ids));
	end.groups = hwts_alloc(n * sizeof(*end.groups));
	end.steps = hwts_alloc(n * sizeof(*end.steps));
	rc = end.rows && end.ids && end.groups && end.steps ? 0 : ENOMEM;
	for (struct hwts_row *row = rows; row && rc == 0; row = row->next) {
		row->hit = false;
		flags |= row->synced ? HWTS_SYNCED : 0;
		if (row->how == HWTS_DONE)
			end.rows[end.done++] = row;
	}
	if (rc == 0)
		end_done(&end);
	for (struct hwts_row *row = rows; row && rc == 0; row = row->next)
		if (row->how != HWTS_DONE)
			end.steps[end.step_count++] = end_of(row);
	if (rc == 0)
		rc = hwts_run(conn, end.steps, end.step_count, flags);
	free(end.rows);
	free(end.ids);
	free(end.groups);
	free(end.steps);
	return rc;
}

/* In the transaction of its task, which it ends: ESTALE if the row was no longer this run's. */
int hwts_rows_close_run(struct hwts_conn *conn, const struct hwts_row *row)
{
	bool ends = row->how == HWTS_DONE;
	struct hwts_step step = { .sql = ends ? HWTS_SQL_CLOSE_DONE : HWTS_SQL_CLOSE_AGAIN,
				  .args = { HWTS_NUMBER(row->id), HWTS_NUMBER(row->epoch), HWTS_NUMBER(row->when_us),
					    HWTS_NUMBER(row->next_base_us) } };
	int rc = conn->db->engine->close_run(conn, &step);

	return rc == ESTALE ? hwts_fail(rc, "timeout %lld was taken over while it ran", (long long)row->id) : rc;
}
