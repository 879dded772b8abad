/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads past rows that cannot be read: a damaged page fails each statement that meets it.
 *
 * A shard is read in smaller and smaller pages until a single row fails.  The index alone then gives the place of the
 * next row, and the reading goes on behind that place; nothing else of that row is known.  The index may give a row
 * that the statement would skip, with the damaged row behind it: then the begin of that row finds nothing to do.  Where
 * the index is damaged as well, the reading ends.
 */
#include "rows/rows.h"

static struct hwts_value here(const int64_t *number)
{
	return (struct hwts_value){ .number = *number, .bytes = number, .len = 1 };
}

static int see_place(void *ctx, const struct hwts_value *row)
{
	*(struct hwts_place *)ctx = (struct hwts_place){ row[0].number, row[1].number };
	return 0;
}

/* Finds the place of the next row in the index. */
static int find_next(struct hwts_conn *conn, const struct hwts_past *past, struct hwts_place *place)
{
	struct hwts_step next = past->next;
	int rc;

	*place = (struct hwts_place){ .due_us = HWTS_NEVER };
	next.args[0] = here(past->due_us);
	next.args[1] = here(past->id);
	next.each = see_place;
	next.ctx = place;
	rc = hwts_run(conn, &next, 1, HWTS_READS);
	if (rc != 0 || place->due_us != HWTS_NEVER)
		return rc;
	conn->refused = true;
	return hwts_fail(EIO, "all that is left in the index can be read, and not the whole");
}

/*
 * Goes on behind the next row: that row cannot be read, or a later row before the next one that the statement looks
 * for.
 */
static int pass_by(struct hwts_conn *conn, struct hwts_past *past)
{
	struct hwts_place place;
	int rc = hwts_read_halts(conn) ? ECANCELED : find_next(conn, past, &place);
	const struct hwts_value known[HWTS_COLUMNS] = { HWTS_NUMBER(past->part), HWTS_NUMBER(place.id),
							HWTS_NUMBER(place.due_us), HWTS_NUMBER(past->shard) };

	if (rc != 0)
		return rc;
	*past->due_us = place.due_us;
	*past->id = place.id;
	past->passed++;
	return past->tells ? past->step.each(past->step.ctx, known) : 0;
}

int hwts_rows_past(struct hwts_conn *conn, struct hwts_past *past)
{
	size_t page = past->page;

	while (true) {
		size_t told = *past->told;
		int rc;

		past->step.args[past->from_at] = here(past->due_us);
		past->step.args[past->from_at + 1] = here(past->id);
		past->step.args[past->page_at].number = (int64_t)page;
		rc = hwts_run(conn, &past->step, 1, HWTS_READS);
		told = *past->told - told;
		if (rc != 0 ? !conn->refused : told < page || page == past->page)
			return rc;
		if (rc == 0)
			page = HWTS_MIN(2 * page, past->page);
		else if (told == 0 && page > 1)
			page /= 2;
		else if (told == 0 && (rc = pass_by(conn, past)) != 0)
			return rc;
	}
}
