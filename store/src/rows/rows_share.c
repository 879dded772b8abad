/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Leases and shards.
 *
 * Leases are measured on the server's clock.  All processes on a SQLite file are on one machine: there the clock is
 * CLOCK_BOOTTIME, which nobody can set.  That clock begins at 0 with each boot, so the tables note the boot, and the
 * first process after a reboot removes the members of earlier boots.
 *
 * A renewal is a transaction of its own and reads nothing whose size depends on the number of timeouts, so no slow
 * statement delays it.
 *
 * Other processes are told of a change after its commit: a full queue of notifications must not keep a process from
 * joining.  Processes that were not told see the change at their next renewal.
 *
 * The server must not forget what a process trusts.  If a crash or a failover undid a renewal, other processes would
 * take shards in which this process starts rows.  If it undid a take, an epoch would be given twice.  So joins,
 * renewals and takes are synced.  Giving shards and leaving may be forgotten: the lease ends by itself.
 */
#include "rows/rows.h"

#include <stdlib.h>

static int note_namesake(void *ctx, const struct hwts_value *row)
{
	*(struct hwts_namesake *)ctx = (struct hwts_namesake){ row[0].number, row[1].number, row[2].number };
	return 0;
}

int hwts_rows_join(struct hwts_conn *conn, const char *name, const int64_t *kinds, size_t n, int64_t dead,
		   struct hwts_namesake *has)
{
	const struct hwts_db *db = conn->db;
	bool joined = false;
	struct hwts_step steps[] = {
		HWTS_ASK(JOIN, hwts_note_row, &joined, HWTS_TEXT(name), HWTS_NUMBER(db->incarnation),
			 HWTS_NUMBER(db->lease_us), HWTS_BYTES(kinds, n), HWTS_NUMBER(dead)),
		HWTS_ASK(NAMESAKE, note_namesake, has, HWTS_TEXT(name)),
		{ .sql = HWTS_SQL_CALL, .after = true },
	};
	int rc = hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_LEASE);

	return rc == 0 && !joined ? hwts_fail(EEXIST, "the name %s is in use by another process", name) : rc;
}

int hwts_rows_leave(struct hwts_conn *conn)
{
	struct hwts_step steps[] = {
		HWTS_DO(LEAVE, HWTS_TEXT(hwts_me(conn->db)), HWTS_NUMBER(conn->db->incarnation)),
		{ .sql = HWTS_SQL_CALL, .after = true },
	};

	return hwts_run(conn, steps, HWTS_COUNT(steps), 0);
}

int hwts_rows_bury(struct hwts_conn *conn)
{
	return hwts_run(conn, &(struct hwts_step){ .sql = HWTS_SQL_BURY }, 1, 0);
}

/*
 * Renewing
 */

static int see_members(void *ctx, const struct hwts_value *row)
{
	struct hwts_renewal *renewal = ctx;

	for (size_t i = 0; i < renewal->kind_count; i++)
		if (renewal->kinds[i] == row[0].number)
			renewal->members[i] = (uint32_t)row[1].number;
	return 0;
}

static int see_shard(void *ctx, const struct hwts_value *row)
{
	struct hwts_renewal *renewal = ctx;

	if (!hwts_grow(&renewal->shards, &renewal->shard_room, renewal->shard_count + 1, sizeof(*renewal->shards)))
		return ENOMEM;
	renewal->shards[renewal->shard_count++] = (struct hwts_shard_row){ .shard = (int32_t)row[0].number,
									   .epoch = row[1].number,
									   .mine = row[2].number == 1,
									   .free = row[3].number == 1,
									   .left_us = row[4].number,
									   .rules = row[5].number };
	return 0;
}

static int see_clock(void *ctx, const struct hwts_value *row)
{
	struct hwts_renewal *renewal = ctx;

	renewal->now_us = row[0].number;
	if (row[1].number != 0) /* the clock was read in this process, without a round trip */
		renewal->sent_ns = renewal->reply_ns = row[1].number;
	return 0;
}

static int by_shard(const void *left, const void *right)
{
	const struct hwts_shard_row *a = left, *b = right;

	return (a->shard > b->shard) - (a->shard < b->shard);
}

int hwts_rows_renew(struct hwts_conn *conn, struct hwts_renewal *renewal)
{
	const struct hwts_db *db = conn->db;
	const char *waits = renewal->waits[0] ? renewal->waits : NULL,
		   *starts = renewal->starts[0] ? renewal->starts : NULL;
	struct hwts_step steps[] = {
		{ HWTS_SQL_RENEW,
		  { HWTS_TEXT(hwts_me(db)), HWTS_NUMBER(db->lease_us), HWTS_NUMBER(db->incarnation),
		    HWTS_BYTES(renewal->kinds, renewal->absent ? 0 : renewal->kind_count), HWTS_TEXT(waits),
		    HWTS_TEXT(starts) },
		  .each = hwts_note_row,
		  .ctx = &renewal->renewed,
		  .commits = true },
		{ HWTS_SQL_CLOCK, .each = see_clock, .ctx = renewal, .commits = true },
		HWTS_ASK(MEMBERS, see_members, renewal, HWTS_BYTES(renewal->kinds, renewal->kind_count)),
		HWTS_ASK(SHARDS, see_shard, renewal, HWTS_BYTES(renewal->kinds, renewal->kind_count),
			 HWTS_TEXT(hwts_me(db))),
	};
	int rc;

	renewal->shard_count = 0;
	renewal->renewed = false;
	memset(renewal->members, 0, renewal->kind_count * sizeof(*renewal->members));
	renewal->sent_ns = hwt_now();
	rc = hwts_run(conn, steps, HWTS_COUNT(steps), 0);
	if (db->engine->locks_rows)
		renewal->reply_ns = conn->committed_ns;
	if (renewal->shard_count > 0)
		qsort(renewal->shards, renewal->shard_count, sizeof(*renewal->shards), by_shard);
	return rc;
}

/*
 * Taking, giving
 */

struct take {
	struct hwts_shard_row *shards;
	size_t n;
	int64_t *epochs; /* the new epochs; 0: another process was faster */
};

static int taken(void *ctx, const struct hwts_value *row)
{
	struct take *take = ctx;

	for (size_t i = 0; i < take->n; i++)
		if (take->shards[i].shard == row[0].number) {
			take->shards[i].skipped = row[1].number == 0;
			take->epochs[i] = row[1].number;
			take->shards[i].rules = row[2].number;
			take->shards[i].empty = row[3].number != 0;
		}
	return 0;
}

/* All transactions lock shards in this order, so no two wait for each other. */
static size_t take_steps(struct hwts_step *steps, struct take *take, const int64_t *ids, const char *me)
{
	size_t count = 0;

	steps[count++] = (struct hwts_step)HWTS_DO(OVER, HWTS_BYTES(ids, take->n));
	for (size_t i = 0; i < take->n; i++)
		steps[count++] = (struct hwts_step)HWTS_ASK(TAKE, taken, take, HWTS_NUMBER(take->shards[i].shard),
							    HWTS_NUMBER(take->shards[i].epoch), HWTS_TEXT(me));
	return count;
}

int hwts_rows_take(struct hwts_conn *conn, struct hwts_shard_row *shards, size_t n)
{
	struct hwts_step *steps = hwts_alloc((n + 1) * sizeof(*steps));
	int64_t *ids = hwts_alloc(n * sizeof(*ids)), *epochs = hwts_alloc(n * sizeof(*epochs));
	struct take take = { .shards = shards, .n = n, .epochs = epochs };
	int rc = steps && ids && epochs ? 0 : ENOMEM;

	qsort(shards, n, sizeof(*shards), by_shard);
	for (size_t i = 0; i < n && rc == 0; i++) {
		ids[i] = shards[i].shard;
		shards[i].skipped = false;
	}
	if (rc == 0)
		rc = hwts_run(conn, steps, take_steps(steps, &take, ids, hwts_me(conn->db)), HWTS_LEASE);
	for (size_t i = 0; i < n && rc == 0; i++)
		shards[i].epoch = shards[i].skipped ? shards[i].epoch : epochs[i];
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
		steps[i] = (struct hwts_step)HWTS_DO(
		    GIVE, HWTS_NUMBER(shards[i].shard), HWTS_NUMBER(shards[i].epoch), HWTS_TEXT(hwts_me(conn->db)),
		    HWTS_BYTES(shards[i].levels, shards[i].levels_len), HWTS_NUMBER(shards[i].unread));
	steps[n] = (struct hwts_step){ .sql = HWTS_SQL_CALL, .after = true };
	rc = hwts_run(conn, steps, n + 1, 0);
	free(steps);
	return rc;
}
