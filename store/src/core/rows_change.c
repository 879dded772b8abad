/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cancels and reschedules.
 */
#include "core/rows.h"

#define TRIES 100
#define AGAIN EINTR /* it has just changed */

struct change {
	bool had;
	unsigned states; /* in which it may be had */
	int64_t state;   /* of what could not be had; 0: there is none */
	bool has_more;   /* it runs, and it is a series whose run is not its last, or has been replaced */
	struct hwts_due due;
};

static int had(void *ctx, const struct hwts_value *row)
{
	struct change *change = ctx;

	change->had = true;
	change->due.shard = (int32_t)row[0].number;
	change->due.due_us = row[1].number;
	change->due.len = (uint32_t)row[2].number;
	return 0;
}

static int moved(void *ctx, const struct hwts_value *row)
{
	hwts_due_set(&((struct change *)ctx)->due, row[3].bytes, row[3].len, row[4].number);
	return had(ctx, row);
}

static int is_in_state(void *ctx, const struct hwts_value *row)
{
	struct change *change = ctx;

	change->state = row[0].number;
	change->has_more = row[1].number != 0;
	return 0;
}

/* The last step has asked for the state. */
static int outcome(const struct change *change, int64_t id)
{
	if (change->had)
		return 0;
	if (change->state == 0 || !(change->states & 1u << change->state))
		return hwts_rows_explain(ENOENT, id);
	return change->state == HWT_STORE_RUNNING ? hwts_rows_explain(EBUSY, id) : AGAIN;
}

/* A series that runs is cancelled, and with it what has replaced it; of any other only that goes, unless all are. */
static int cancel_more(struct hwts_conn *conn, int64_t id, struct change *change, bool all)
{
	struct hwts_step steps[] = {
		HWTS_ASK(CANCEL_LAST, had, change, HWTS_NUMBER(id), HWTS_NUMBER(all)),
		HWTS_DO(CANCEL_NEXT, HWTS_NUMBER(id)),
		HWTS_ASK(STATE, is_in_state, change, HWTS_NUMBER(id)),
	};

	HWTS_POINT("goes on");
	*change = (struct change){ .states = change->states };
	return hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED);
}

static int cancel_once(struct hwts_conn *conn, int64_t id, int64_t epoch, unsigned states, bool all)
{
	struct change change = { .states = states };
	struct hwts_step steps[] = {
		HWTS_ASK(CANCEL, had, &change, HWTS_NUMBER(id), HWTS_NUMBER(epoch), HWTS_NUMBER(states)),
		HWTS_ASK(STATE, is_in_state, &change, HWTS_NUMBER(id)),
	};
	int rc = hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED);

	if (rc == 0 && !change.had && (change.has_more || (all && change.state == HWT_STORE_RUNNING)) &&
	    states & 1u << HWT_STORE_RUNNING)
		rc = cancel_more(conn, id, &change, all);
	return rc ? rc : outcome(&change, id);
}

struct cancel_all {
	const int64_t *ids;
	int *rcs;
	size_t n;
	unsigned states;
};

/* One row has gone: of several that asked for it, the first has it. */
static int one_is_cancelled(void *ctx, const struct hwts_value *row)
{
	struct cancel_all *all = ctx;

	for (size_t i = 0; i < all->n; i++) {
		if (all->ids[i] != row[0].number || all->rcs[i] == 0)
			continue;
		all->rcs[i] = 0;
		break;
	}
	return 0;
}

static int one_is_in_state(void *ctx, const struct hwts_value *row)
{
	struct cancel_all *all = ctx;

	for (size_t i = 0; i < all->n; i++)
		if (all->ids[i] == row[0].number && all->rcs[i] != 0 && all->states & 1u << row[1].number)
			all->rcs[i] = row[1].number == HWT_STORE_RUNNING && !row[2].number ? EBUSY : AGAIN;
	return 0;
}

int hwts_rows_cancel_all(struct hwts_conn *conn, const int64_t *ids, int *rcs, size_t n, unsigned states)
{
	struct cancel_all all = { ids, rcs, n, states };
	struct hwts_step steps[] = {
		HWTS_ASK(CANCEL_ALL, one_is_cancelled, &all, HWTS_BYTES(ids, n), HWTS_NUMBER(states)),
		HWTS_ASK(STATES, one_is_in_state, &all, HWTS_BYTES(ids, n)),
	};

	for (size_t i = 0; i < n; i++)
		rcs[i] = ENOENT;
	return hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED);
}

int hwts_rows_explain(int rc, int64_t id)
{
	return rc == ENOENT ? hwts_fail(rc, "there is no timeout %lld", (long long)id)
			    : hwts_fail(rc, "timeout %lld is running", (long long)id);
}

static struct hwts_step news_of(struct hwts_conn *conn, const int64_t *ids, size_t n, bool too)
{
	return (struct hwts_step){ HWTS_SQL_TELL,
				   { HWTS_BYTES(ids, n), HWTS_TEXT(hwts_me(conn->db)), HWTS_NUMBER(too) },
				   .after = true };
}

/* On a connection of a caller this process does not know when it commits: it is told, too. */
static int reschedule_once(struct hwts_conn *conn, int64_t id, const struct hwts_move *move, struct hwts_due *due)
{
	struct change change = { .states = move->states | 1u << HWT_STORE_RUNNING, .due.id = id };
	struct hwts_step steps[] = {
		HWTS_ASK(RESCHEDULE, moved, &change, HWTS_NUMBER(id), HWTS_NUMBER(move->when_us),
			 HWTS_NUMBER(move->absolute), HWTS_NUMBER(move->states), HWTS_NUMBER(move->epoch)),
		HWTS_ASK(STATE, is_in_state, &change, HWTS_NUMBER(id)),
		news_of(conn, &id, 1, move->tells_all),
	};
	int rc = hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED);

	if (rc == 0)
		rc = outcome(&change, id);
	if (rc == 0)
		*due = change.due;
	return rc;
}

struct move_all {
	const int64_t *ids;
	struct hwts_due *dues;
	int *rcs;
	size_t n;
};

static int one_is_moved(void *ctx, const struct hwts_value *row)
{
	struct move_all *all = ctx;

	for (size_t i = 0; i < all->n; i++) {
		if (all->ids[i] != row[5].number)
			continue;
		all->rcs[i] = 0;
		all->dues[i] = (struct hwts_due){ .id = all->ids[i],
						  .due_us = row[1].number,
						  .shard = (int32_t)row[0].number,
						  .len = (uint32_t)row[2].number };
		hwts_due_set(&all->dues[i], row[3].bytes, row[3].len, row[4].number);
		break;
	}
	return 0;
}

int hwts_rows_reschedule_all(struct hwts_conn *conn, const int64_t *ids, struct hwts_due *dues, int *rcs, size_t n,
			     const struct hwts_move *move)
{
	struct move_all all = { ids, dues, rcs, n };
	struct cancel_all rest = { ids, rcs, n, move->states };
	struct hwts_step steps[] = {
		HWTS_ASK(RESCHEDULE_ALL, one_is_moved, &all, HWTS_BYTES(ids, n), HWTS_NUMBER(move->when_us),
			 HWTS_NUMBER(move->states)),
		HWTS_ASK(STATES, one_is_in_state, &rest, HWTS_BYTES(ids, n)),
		news_of(conn, ids, n, false),
	};

	for (size_t i = 0; i < n; i++)
		rcs[i] = ENOENT;
	return hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED);
}

static int changes_always(int64_t id)
{
	return hwts_fail(EAGAIN, "timeout %lld changes all the time: try again", (long long)id);
}

int hwts_rows_cancel(struct hwts_conn *conn, int64_t id, int64_t epoch, unsigned states, bool all)
{
	for (int tries = 0; tries < TRIES; tries++) {
		int rc = cancel_once(conn, id, epoch, states, all);

		if (rc != AGAIN)
			return rc;
		hwts_sleep_ns(HWT_MS(1));
	}
	return changes_always(id);
}

int hwts_rows_reschedule(struct hwts_conn *conn, int64_t id, const struct hwts_move *move, struct hwts_due *due)
{
	for (int tries = 0; tries < TRIES; tries++) {
		int rc = reschedule_once(conn, id, move, due);

		if (rc != AGAIN)
			return rc;
		hwts_sleep_ns(HWT_MS(1));
	}
	return changes_always(id);
}
