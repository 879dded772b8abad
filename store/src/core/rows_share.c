/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Leases, shards and the look-ahead.
 *
 * Leases are measured on the server's clock.  All processes on a SQLite file are on one machine, so there it is
 * CLOCK_BOOTTIME, which nobody can set.  It begins at 0 with each boot: the tables note the boot, and the first
 * process after a reboot removes the members of before.
 *
 * A look reads each shard from its mark on.  On PostgreSQL a transaction may commit after the look that should have
 * seen its row, so a look also reads what lies before the mark and was written by a transaction that was not finished
 * at the last full look (tx >= xmin of its snapshot).  A look at some of the shards must not move xmin: the others
 * have not been read.
 *
 * The others are told of a change after its commit: a full queue of notifications must keep nobody from joining.
 * They find it at their next look.
 */
#include "core/rows.h"

#include <stdio.h>
#include <stdlib.h>

static int note_row(void *ctx, const struct hwts_value *row)
{
	(void)row;
	*(bool *)ctx = true;
	return 0;
}

int hwts_rows_join(struct hwts_conn *conn, const int64_t *kinds, size_t n, bool force)
{
	const struct hwts_db *db = conn->db;
	bool joined = false;
	struct hwts_step steps[] = {
		{ HWTS_SQL_JOIN,
		  { HWTS_TEXT(hwts_me(db)), HWTS_NUMBER(db->incarnation), HWTS_NUMBER(db->lease_us),
		    HWTS_BYTES(kinds, n), HWTS_NUMBER(force) },
		  .each = note_row,
		  .ctx = &joined },
		{ .sql = HWTS_SQL_CALL, .after = true },
	};
	int rc = hwts_run(conn, steps, HWTS_COUNT(steps), 0);

	return rc == 0 && !joined ? hwts_fail(EEXIST, "the name %s is in use by another process", hwts_me(db)) : rc;
}

int hwts_rows_leave(struct hwts_conn *conn)
{
	struct hwts_step steps[] = {
		{ .sql = HWTS_SQL_LEAVE, .args = { HWTS_TEXT(hwts_me(conn->db)), HWTS_NUMBER(conn->db->incarnation) } },
		{ .sql = HWTS_SQL_CALL, .after = true },
	};

	return hwts_run(conn, steps, HWTS_COUNT(steps), 0);
}

int hwts_rows_bury(struct hwts_conn *conn)
{
	return hwts_run(conn, &(struct hwts_step){ .sql = HWTS_SQL_BURY }, 1, 0);
}

/*
 * Looking
 */

static int see_members(void *ctx, const struct hwts_value *row)
{
	struct hwts_look *look = ctx;

	for (size_t i = 0; i < look->kind_count; i++)
		if (look->kinds[i] == row[0].number)
			look->members[i] = (uint32_t)row[1].number;
	return 0;
}

static int see_shard(void *ctx, const struct hwts_value *row)
{
	struct hwts_look *look = ctx;
	void *array = look->shards;
	bool ok = hwts_grow(&array, &look->shard_room, look->shard_count + 1, sizeof(*look->shards));

	look->shards = array;
	if (!ok)
		return ENOMEM;
	look->shards[look->shard_count++] = (struct hwts_shard_row){ .shard = (int32_t)row[0].number,
								     .epoch = row[1].number,
								     .mine = row[2].number == 1,
								     .free = row[3].number == 1,
								     .left_us = row[4].number };
	return 0;
}

static int see_clock(void *ctx, const struct hwts_value *row)
{
	struct hwts_look *look = ctx;

	look->now_us = row[0].number;
	if (look->renew)
		look->xmin = (uint64_t)row[1].number;
	if (row[2].number != 0) /* it was read in this process, and no trip lies in between */
		look->sent_ns = look->reply_ns = row[2].number;
	return 0;
}

static int see_due(void *ctx, const struct hwts_value *row)
{
	struct hwts_look *look = ctx;
	struct hwts_due due = { row[1].number, row[2].number, (int32_t)row[3].number, (uint32_t)row[4].number,
				(enum hwts_part)row[0].number };
	void *array = look->dues;
	bool ok = hwts_grow(&array, &look->due_room, look->due_count + 1, sizeof(due));

	look->dues = array;
	if (!ok)
		return ENOMEM;
	look->dues[look->due_count++] = due;
	for (size_t i = 0; i < look->held_count && due.part == HWTS_AHEAD; i++) {
		if (look->held[i].shard != due.shard)
			continue;
		look->held[i].seen++;
		look->held[i].mark_due_us = due.due_us;
		look->held[i].mark_id = due.id;
	}
	return 0;
}

/* The arrays of a look: of each held shard its number, epoch, horizon and mark. */
static int64_t *columns_of(const struct hwts_look *look)
{
	size_t n = look->held_count;
	int64_t *columns = hwts_alloc(5 * n * sizeof(*columns));

	for (size_t i = 0; i < n && columns; i++) {
		columns[i] = look->held[i].shard;
		columns[n + i] = look->held[i].epoch;
		columns[2 * n + i] = look->held[i].horizon_us;
		columns[3 * n + i] = look->held[i].mark_due_us;
		columns[4 * n + i] = look->held[i].mark_id;
	}
	return columns;
}

static int look_at_all(struct hwts_conn *conn, struct hwts_look *look, const int64_t *columns)
{
	const struct hwts_db *db = conn->db;
	size_t n = look->held_count, from = look->renew ? 0 : 3;
	char xmin[32];
	struct hwts_step steps[] = {
		{ HWTS_SQL_RENEW,
		  { HWTS_TEXT(hwts_me(db)), HWTS_NUMBER(db->lease_us), HWTS_NUMBER(db->incarnation) },
		  .each = note_row,
		  .ctx = &look->renewed },
		{ HWTS_SQL_MEMBERS, { HWTS_BYTES(look->kinds, look->kind_count) }, .each = see_members, .ctx = look },
		{ HWTS_SQL_SHARDS,
		  { HWTS_BYTES(look->kinds, look->kind_count), HWTS_TEXT(hwts_me(db)) },
		  .each = see_shard,
		  .ctx = look,
		  .commits = true },
		{ HWTS_SQL_CLOCK, .each = see_clock, .ctx = look },
		{ HWTS_SQL_LOOK,
		  { HWTS_BYTES(columns, n), HWTS_BYTES(columns + n, n), HWTS_BYTES(columns + 2 * n, n),
		    HWTS_BYTES(columns + 3 * n, n), HWTS_BYTES(columns + 4 * n, n), HWTS_NUMBER((int64_t)look->page),
		    HWTS_BYTES(xmin, 0), HWTS_NUMBER(look->renew ? look->overdue_us : HWTS_LATEST_US),
		    HWTS_NUMBER(look->renew) },
		  .each = see_due,
		  .ctx = look },
	};

	steps[4].args[6].len = (size_t)snprintf(xmin, sizeof(xmin), "%llu",
						(unsigned long long)look->xmin); /* before this look */
	return hwts_run(conn, steps + from, HWTS_COUNT(steps) - from, 0);
}

int hwts_rows_look(struct hwts_conn *conn, struct hwts_look *look)
{
	int64_t *columns = columns_of(look);
	int rc;

	if (!columns)
		return ENOMEM;
	look->shard_count = look->due_count = 0;
	if (look->renew) {
		look->renewed = false;
		memset(look->members, 0, look->kind_count * sizeof(*look->members));
	}
	for (size_t i = 0; i < look->held_count; i++)
		look->held[i].seen = 0;
	look->sent_ns = hwt_now();
	look->reply_ns = 0;
	rc = look_at_all(conn, look, columns);
	if (look->reply_ns == 0)
		look->reply_ns = hwt_now();
	free(columns);
	for (size_t i = 0; i < look->held_count && rc == 0; i++) {
		struct hwts_held *held = &look->held[i];

		held->full = held->seen >= look->page;
		if (!held->full && look->now_us + held->horizon_us > held->mark_due_us) {
			held->mark_due_us = look->now_us + held->horizon_us;
			held->mark_id = 0;
		}
	}
	return rc;
}

/*
 * Taking, giving
 */

struct take {
	struct hwts_shard_row *shards;
	size_t n;
	int64_t *epochs; /* that were taken; 0: another was faster */
};

static int taken(void *ctx, const struct hwts_value *row)
{
	struct take *take = ctx;

	for (size_t i = 0; i < take->n; i++)
		if (take->shards[i].shard == row[0].number)
			take->epochs[i] = row[1].number;
	return 0;
}

static int by_shard(const void *left, const void *right)
{
	const struct hwts_shard_row *a = left, *b = right;

	return (a->shard > b->shard) - (a->shard < b->shard);
}

/* All transactions lock shards in this order: none waits for the other. */
static size_t take_steps(struct hwts_step *steps, struct take *take, const int64_t *ids, const char *me)
{
	size_t count = 0;

	steps[count++] = (struct hwts_step){ .sql = HWTS_SQL_OVER, .args = { HWTS_BYTES(ids, take->n) } };
	for (size_t i = 0; i < take->n; i++)
		steps[count++] = (struct hwts_step){ HWTS_SQL_TAKE,
						     { HWTS_NUMBER(take->shards[i].shard),
						       HWTS_NUMBER(take->shards[i].epoch), HWTS_TEXT(me) },
						     .each = taken,
						     .ctx = take };
	for (size_t i = 0; i < take->n; i++)
		if (take->shards[i].fail_running)
			steps[count++] = (struct hwts_step){ .sql = HWTS_SQL_FAIL_RUNNING,
							     .args = { HWTS_NUMBER(take->shards[i].shard),
								       HWTS_NUMBER(take->shards[i].epoch),
								       HWTS_TEXT(me) } };
	return count;
}

int hwts_rows_take(struct hwts_conn *conn, struct hwts_shard_row *shards, size_t n)
{
	struct hwts_step *steps = hwts_alloc((2 * n + 1) * sizeof(*steps));
	int64_t *ids = hwts_alloc(n * sizeof(*ids)), *epochs = hwts_alloc(n * sizeof(*epochs));
	struct take take = { .shards = shards, .n = n, .epochs = epochs };
	int rc = steps && ids && epochs ? 0 : ENOMEM;

	qsort(shards, n, sizeof(*shards), by_shard);
	for (size_t i = 0; i < n && rc == 0; i++)
		ids[i] = shards[i].shard;
	if (rc == 0)
		rc = hwts_run(conn, steps, take_steps(steps, &take, ids, hwts_me(conn->db)), 0);
	for (size_t i = 0; i < n && rc == 0; i++)
		shards[i].epoch = epochs[i];
	free(steps);
	free(ids);
	free(epochs);
	return rc;
}

int hwts_rows_give(struct hwts_conn *conn, const struct hwts_shard_row *shards, size_t n)
{
	struct hwts_step *steps = hwts_alloc((n + 1) * sizeof(*steps));
	int rc;

	if (!steps)
		return ENOMEM;
	for (size_t i = 0; i < n; i++)
		steps[i] = (struct hwts_step){ .sql = HWTS_SQL_GIVE,
					       .args = { HWTS_NUMBER(shards[i].shard), HWTS_NUMBER(shards[i].epoch),
							 HWTS_TEXT(hwts_me(conn->db)) } };
	steps[n] = (struct hwts_step){ .sql = HWTS_SQL_CALL, .after = true };
	rc = hwts_run(conn, steps, n + 1, 0);
	free(steps);
	return rc;
}
