/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cancels and reschedules.
 */
#include "rows/rows.h"

#define TRIES 100
#define AGAIN EINTR /* the row has just changed, or is locked */

/* Rows to cancel or move, and what becomes of each. */
struct change {
	const int64_t *ids;
	int *rcs; /* 0: changed */
	size_t n;
	unsigned states;       /* rows in these states are changed */
	struct hwts_due *dues; /* NULL: a cancel */
	bool more; /* some row runs and will be filed again: an unmarked series, or a row with a replacement */
};

/* The row was changed.  If an id occurs more than once, the first has it. */
static int had(void *ctx, const struct hwts_value *row)
{
	struct change *change = ctx;
	size_t i = 0;

	while (i < change->n && (change->ids[i] != row[0].number || change->rcs[i] == 0))
		i++;
	if (i == change->n)
		return 0;
	change->rcs[i] = 0;
	if (change->dues) {
		change->dues[i] = (struct hwts_due){ .id = row[0].number,
						     .shard = (int32_t)row[1].number,
						     .due_us = row[2].number,
						     .len = (uint32_t)row[3].number };
		hwts_due_set(&change->dues[i], row[4].bytes, row[4].len, row[5].number);
	}
	return 0;
}

/* The row was not changed. */
static int is_in_state(void *ctx, const struct hwts_value *row)
{
	struct change *change = ctx;
	hwt_store_state state = hwts_state_of(&row[1]);
	bool runs = state == HWT_STORE_RUNNING, more = runs && row[2].number && !change->dues;

	for (size_t i = 0; i < change->n; i++)
		if (change->ids[i] == row[0].number && change->rcs[i] != 0 && change->states & 1u << state) {
			change->rcs[i] = runs && !more ? EBUSY : AGAIN;
			change->more = more;
		}
	return 0;
}

static int run(struct hwts_conn *conn, struct change *change, const struct hwts_step *steps, size_t n)
{
	int rc;

	change->more = false;
	for (size_t i = 0; i < change->n; i++)
		change->rcs[i] = ENOENT;
	rc = hwts_run(conn, steps, n, HWTS_SYNCED);
	HWTS_POINT("changed");
	return rc;
}

int hwts_rows_explain(int rc, int64_t id)
{
	return rc == ENOENT ? hwts_fail(rc, "there is no timeout %lld", (long long)id)
			    : hwts_fail(rc, "timeout %lld is running", (long long)id);
}

/* The result for a single row.  True: try once more. */
static bool is_tried_again(const struct change *change, int *tries, int *rc)
{
	if (*rc == 0)
		*rc = change->rcs[0];
	if (*rc == ENOENT || *rc == EBUSY)
		(void)hwts_rows_explain(*rc, change->ids[0]);
	if (*rc != AGAIN)
		return false;
	if (++*tries < TRIES) {
		hwts_sleep_ns(HWT_MS(1));
		return true;
	}
	*rc = hwts_fail(EAGAIN, "timeout %lld changes all the time: try again", (long long)change->ids[0]);
	return false;
}

/*
 * Cancels
 */

/*
 * Marks a series that runs as cancelled, with its replacement.  Of another row that runs only the replacement goes,
 * unless `all`.
 */
static int cancel_more(struct hwts_conn *conn, struct change *change, bool all)
{
	struct hwts_value id = HWTS_NUMBER(change->ids[0]), ids = HWTS_BYTES(change->ids, 1);
	struct hwts_step steps[] = {
		HWTS_ASK(CANCEL_LAST, had, change, id, HWTS_NUMBER(all)),
		HWTS_DO(CANCEL_NEXT, id),
		HWTS_ASK(STATES, is_in_state, change, ids),
	};

	HWTS_POINT("goes on");
	return run(conn, change, steps, HWTS_COUNT(steps));
}

int hwts_rows_cancel(struct hwts_conn *conn, int64_t id, int64_t epoch, unsigned states, bool all)
{
	int one, rc, tries = 0;
	struct change change = { &id, &one, 1, states, NULL, false };
	struct hwts_step steps[] = {
		HWTS_ASK(CANCEL, had, &change, HWTS_NUMBER(id), HWTS_NUMBER(epoch), HWTS_NUMBER(states)),
		HWTS_ASK(STATES, is_in_state, &change, HWTS_BYTES(&id, 1)),
	};

	do {
		rc = run(conn, &change, steps, HWTS_COUNT(steps));
		if (rc == 0 && (change.more || (all && one == EBUSY)))
			rc = cancel_more(conn, &change, all);
	} while (is_tried_again(&change, &tries, &rc));
	return rc;
}

int hwts_rows_cancel_all(struct hwts_conn *conn, const int64_t *ids, int *rcs, size_t n, unsigned states)
{
	struct change change = { ids, rcs, n, states, NULL, false };
	struct hwts_step steps[] = {
		HWTS_ASK(CANCEL_ALL, had, &change, HWTS_BYTES(ids, n), HWTS_NUMBER(states)),
		HWTS_ASK(STATES, is_in_state, &change, HWTS_BYTES(ids, n)),
	};

	return run(conn, &change, steps, HWTS_COUNT(steps));
}

/*
 * Reschedules
 */

/*
 * too: tells this process as well.  On a caller's connection this process does not know when the transaction commits.
 */
static struct hwts_step news_of(struct hwts_conn *conn, const int64_t *ids, size_t n, bool too)
{
	struct hwts_step step = HWTS_DO(TELL, HWTS_BYTES(ids, n), HWTS_TEXT(hwts_me(conn->db)), HWTS_NUMBER(too));

	step.after = true;
	return step;
}

int hwts_rows_reschedule(struct hwts_conn *conn, int64_t id, const struct hwts_move *move, struct hwts_due *due)
{
	int one, rc, tries = 0;
	struct change change = { &id, &one, 1, move->states | 1u << HWT_STORE_RUNNING, due, false };
	struct hwts_step steps[] = {
		HWTS_ASK(RESCHEDULE, had, &change, HWTS_NUMBER(id), HWTS_NUMBER(move->when_us),
			 HWTS_NUMBER(move->absolute), HWTS_NUMBER(move->states), HWTS_NUMBER(move->epoch)),
		HWTS_ASK(STATES, is_in_state, &change, HWTS_BYTES(&id, 1)),
		news_of(conn, &id, 1, move->tells_all),
	};

	do
		rc = run(conn, &change, steps, HWTS_COUNT(steps));
	while (is_tried_again(&change, &tries, &rc));
	return rc;
}

int hwts_rows_reschedule_all(struct hwts_conn *conn, const int64_t *ids, struct hwts_due *dues, int *rcs, size_t n,
			     const struct hwts_move *move)
{
	struct change change = { ids, rcs, n, move->states, dues, false };
	struct hwts_step steps[] = {
		HWTS_ASK(RESCHEDULE_ALL, had, &change, HWTS_BYTES(ids, n), HWTS_NUMBER(move->when_us),
			 HWTS_NUMBER(move->states)),
		HWTS_ASK(STATES, is_in_state, &change, HWTS_BYTES(ids, n)),
		news_of(conn, ids, n, false),
	};

	return run(conn, &change, steps, HWTS_COUNT(steps));
}
