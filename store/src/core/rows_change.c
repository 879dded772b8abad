/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cancels and reschedules.
 */
#include "core/rows.h"

#define TRIES 100
#define AGAIN EINTR /* it has just changed */

struct change {
	bool had;
	int64_t state; /* of what could not be had; 0: there is none */
	bool goes_on;  /* it is a series, and runs */
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

static int is_in_state(void *ctx, const struct hwts_value *row)
{
	struct change *change = ctx;

	change->state = row[0].number;
	change->goes_on = row[1].number != 0;
	return 0;
}

/* The last step has asked for the state. */
static int outcome(const struct change *change, int64_t id)
{
	if (change->had)
		return 0;
	if (change->state == 0)
		return hwts_rows_explain(ENOENT, id);
	return change->state == HWT_STORE_RUNNING ? hwts_rows_explain(EBUSY, id) : AGAIN;
}

static int cancel_once(struct hwts_conn *conn, int64_t id, int64_t epoch)
{
	struct change change = { .had = false };
	struct hwts_step steps[] = {
		{ HWTS_SQL_CANCEL, { HWTS_NUMBER(id), HWTS_NUMBER(epoch) }, .each = had, .ctx = &change },
		{ HWTS_SQL_STATE, { HWTS_NUMBER(id) }, .each = is_in_state, .ctx = &change },
	};
	int rc = hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED);

	if (rc == 0 && !change.had && change.goes_on) {
		HWTS_POINT("goes on");
		change = (struct change){ .had = false };
		steps[0].sql = HWTS_SQL_CANCEL_LAST;
		rc = hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED);
	}
	return rc ? rc : outcome(&change, id);
}

struct cancel_all {
	const int64_t *ids;
	int *rcs;
	size_t n;
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
		if (all->ids[i] == row[0].number && all->rcs[i] != 0)
			all->rcs[i] = row[1].number == HWT_STORE_RUNNING && !row[2].number ? EBUSY : AGAIN;
	return 0;
}

int hwts_rows_cancel_all(struct hwts_conn *conn, const int64_t *ids, int *rcs, size_t n)
{
	struct cancel_all all = { ids, rcs, n };
	struct hwts_step steps[] = {
		{ HWTS_SQL_CANCEL_ALL, { HWTS_BYTES(ids, n) }, .each = one_is_cancelled, .ctx = &all },
		{ HWTS_SQL_STATES, { HWTS_BYTES(ids, n) }, .each = one_is_in_state, .ctx = &all },
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

static int reschedule_once(struct hwts_conn *conn, int64_t id, int64_t epoch, int64_t delay_us, struct hwts_due *due)
{
	struct change change = { .due.id = id };
	struct hwts_step steps[] = {
		{ HWTS_SQL_RESCHEDULE,
		  { HWTS_NUMBER(id), HWTS_NUMBER(delay_us), HWTS_NUMBER(epoch) },
		  .each = had,
		  .ctx = &change },
		{ HWTS_SQL_STATE, { HWTS_NUMBER(id) }, .each = is_in_state, .ctx = &change },
		{ HWTS_SQL_TELL,
		  { HWTS_BYTES(&id, 1), HWTS_TEXT(hwts_me(conn->db)), HWTS_NUMBER(false) },
		  .after = true },
	};
	int rc = hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED);

	if (rc == 0)
		rc = outcome(&change, id);
	if (rc == 0)
		*due = change.due;
	return rc;
}

static int changes_always(int64_t id)
{
	return hwts_fail(EAGAIN, "timeout %lld changes all the time: try again", (long long)id);
}

int hwts_rows_cancel(struct hwts_conn *conn, int64_t id, int64_t epoch)
{
	for (int tries = 0; tries < TRIES; tries++) {
		int rc = cancel_once(conn, id, epoch);

		if (rc != AGAIN)
			return rc;
		hwts_sleep_ns(HWT_MS(1));
	}
	return changes_always(id);
}

int hwts_rows_reschedule(struct hwts_conn *conn, int64_t id, int64_t epoch, int64_t delay_us, struct hwts_due *due)
{
	for (int tries = 0; tries < TRIES; tries++) {
		int rc = reschedule_once(conn, id, epoch, delay_us, due);

		if (rc != AGAIN)
			return rc;
		hwts_sleep_ns(HWT_MS(1));
	}
	return changes_always(id);
}
