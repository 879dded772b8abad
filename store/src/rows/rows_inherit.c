/* SPDX-License-Identifier: BSD-2-Clause */
/* Files the rows of a process that died, if they are not begun again at once. */
#include "rows/rows.h"

#include <stdlib.h>

static int inherited(void *ctx, const struct hwts_value *row)
{
	struct hwts_want *want = ctx;

	want->inherited = true;
	want->due_us = want->mark == HWTS_LAST || want->delay_us == HWTS_NEVER ? HWTS_NEVER : row[1].number;
	if (want->mark == HWTS_REPLACED) {
		want->attempt = 0;
		want->len = (uint32_t)row[2].number;
		want->priority = hwts_priority_of(row[3].number);
	}
	return 0;
}

static enum hwts_sql inherit_by(const struct hwts_want *want)
{
	if (want->mark != HWTS_UNMARKED)
		return want->mark == HWTS_LAST ? HWTS_SQL_END_LAST : HWTS_SQL_END_NEXT;
	return want->delay_us == HWTS_NEVER ? HWTS_SQL_END_FAIL : HWTS_SQL_INHERIT;
}

static bool is_to_inherit(const struct hwts_want *want)
{
	return want->dead && !want->locked && (want->mark != HWTS_UNMARKED || want->delay_us > 0);
}

static int inherit_unlocked(struct hwts_conn *conn, struct hwts_want *wants, size_t n, unsigned flags)
{
	struct hwts_step *steps = hwts_alloc(n * sizeof(*steps));
	size_t count = 0;
	int rc = steps ? 0 : ENOMEM;

	for (size_t i = 0; i < n && rc == 0; i++) {
		struct hwts_want *want = &wants[i];
		struct hwts_value delay_or_error = { want->delay_us, HWTS_DIED, strlen(HWTS_DIED) };

		if (is_to_inherit(want))
			steps[count++] = (struct hwts_step){ inherit_by(want),
							     { HWTS_NUMBER(want->id), HWTS_NUMBER(want->runs_epoch),
							       delay_or_error },
							     .each = inherited,
							     .ctx = want };
	}
	if (rc == 0 && count > 0)
		rc = hwts_run(conn, steps, count, flags);
	free(steps);
	return rc;
}

struct dead {
	struct hwts_want *wants;
	size_t n;
};

static int is_ours(void *ctx, const struct hwts_value *row)
{
	const struct dead *dead = ctx;

	for (size_t i = 0; i < dead->n; i++)
		if (dead->wants[i].id == row[0].number)
			dead->wants[i].locked = false;
	return 0;
}

/* Locks the rows that no other transaction has locked, until this transaction ends, and marks the others. */
static int lock_dead(struct hwts_conn *conn, struct hwts_want *wants, size_t n)
{
	int64_t *ids = hwts_alloc(n * sizeof(*ids));
	struct dead dead = { wants, n };
	size_t count = 0;
	int rc = ids ? 0 : ENOMEM;

	for (size_t i = 0; i < n && rc == 0; i++)
		if (is_to_inherit(&wants[i])) {
			ids[count++] = wants[i].id;
			wants[i].locked = true;
		}
	if (rc == 0) {
		const struct hwts_step lock = HWTS_ASK(END_LOCK, is_ours, &dead, HWTS_BYTES(ids, count));

		rc = hwts_run(conn, &lock, 1, HWTS_OPEN);
	}
	for (size_t i = 0; i < n && rc != 0; i++)
		wants[i].locked = false;
	free(ids);
	return rc;
}

/* All was rolled back, including rows that the database had returned before the failure. */
static void inherit_nothing(struct hwts_want *wants, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (wants[i].inherited)
			wants[i].due_us = wants[i].now_us; /* tried again */
		wants[i].inherited = false;
	}
}

/* The row itself is the fence: if another process has the shard by now, it begins the row under a higher epoch. */
int hwts_rows_inherit(struct hwts_conn *conn, struct hwts_want *wants, size_t n)
{
	int rc = conn->skips == 0 ? inherit_unlocked(conn, wants, n, 0) : EAGAIN;

	if (rc == EAGAIN && conn->db->engine->locks_rows && !conn->broken) {
		inherit_nothing(wants, n);
		conn->skips = HWTS_SKIPS;
		rc = lock_dead(conn, wants, n);
		rc = hwts_finish(conn, rc == 0 ? inherit_unlocked(conn, wants, n, HWTS_OPEN) : rc);
	}
	if (rc != 0)
		inherit_nothing(wants, n);
	return rc;
}
