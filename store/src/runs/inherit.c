/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs of processes that died, and that a begin has found but not begun at once; beginner.c. */
#include "runs/ended.h"
#include "runs/inherit.h"
#include "store/conns.h"
#include "store/kind.h"
#include "store/run.h"
#include "store/store.h"

/* Halves what the database refuses, until only the rows that it refuses have not been filed. */
static int inherit_by_halves(struct hwts_conn *conn, struct hwts_want *wants, size_t n, char why[256])
{
	int rc, rest;

	conn->refused = false;
	rc = hwts_rows_inherit(conn, wants, n);
	if (rc == 0 || (!conn->refused && rc != EACCES)) /* EACCES: a trigger or a policy may look at the row */
		return rc;
	if (n > 1) {
		rc = inherit_by_halves(conn, wants, n / 2, why);
		rest = inherit_by_halves(conn, wants + n / 2, n - n / 2, why);
		return rc ? rc : rest;
	}
	wants->refused = wants->dead && !wants->row;
	hwts_cut(why, 256, hwts_fail_text(), strlen(hwts_fail_text()));
	return 0;
}

/*
 * Chooses the delay for rows of dead processes.  The first attempt may have died with the process by chance, so the
 * second comes at once.  A task that kills its process must not kill one process after the other, nor without end.
 */
int hwts_inherit(hwt_store *store, struct hwts_want *wants, size_t n, bool at_most_once, char why[256])
{
	struct hwts_conn *conn = hwts_conn(store, HWTS_BEGIN);
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		struct hwts_want *want = &wants[i];
		const struct hwts_kind *kind = want->kind;

		if (want->failed || want->refused || want->lost || want->row || !want->dead)
			continue;
		any |= want->mark != HWTS_UNMARKED;
		if (want->mark != HWTS_UNMARKED)
			continue;
		if (want->attempt >= kind->max_attempts || at_most_once)
			want->delay_us = HWTS_NEVER;
		else if (want->attempt > HWTS_AT_ONCE)
			want->delay_us = hwts_back_off_us(kind, want->attempt);
		else if (want->beyond)
			want->delay_us = 1;
		any |= want->delay_us > 0;
	}
	/* Without a connection (a later part of the batch may have lost it) the next begin finds these rows again. */
	return any && conn ? inherit_by_halves(conn, wants, n, why) : 0;
}

/* Without store->lock, and last: the program is called, and the rows of the batch should not wait for that. */
void hwts_tell_inherited(hwt_store *store, const struct hwts_want *wants, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct hwts_want *want = &wants[i];

		if (!want->inherited || want->delay_us != HWTS_NEVER)
			continue;
		hwts_warn(store, "timeout %lld has failed for good after %u attempts: its process died each time",
			  (long long)want->id, want->attempt);
		hwts_tell_died(store, want->kind, want->id);
	}
}
