/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that are due and stay locked for longer than a lease: perhaps by a process of the store's that stands still as
 * it puts, or ends its runs.  The server ends its connection then.  One row at a time is kept in mind, for such a
 * process has locked all that it puts.
 */
#include "runs/locked.h"
#include "store/conns.h"
#include "store/store.h"

/* It is due, and nothing but a lock keeps it from being begun. */
static bool is_locked(const struct hwts_want *want)
{
	if (want->row || want->failed || want->refused || want->lost || want->stale)
		return false;
	if (want->dead) /* as soon as nobody locks it, it is begun or inherited */
		return !want->inherited && want->due_us <= want->now_us;
	/* As a last attempt it waits for a free thread: beginner.c. */
	return want->locked || (want->due_us <= want->now_us &&
				(want->last || want->max_attempts == 0 || want->attempt + 1 < want->max_attempts));
}

/* The next in the order of the ids behind the one that was tried last: each has its turn. */
static bool is_before(const struct hwts_want *a, const struct hwts_want *b, const struct hwts_locked *locked)
{
	const uint64_t from = (uint64_t)locked->tried + 1;

	return (uint64_t)a->id - from < (uint64_t)b->id - from;
}

void hwts_unblock(hwt_store *store, const struct hwts_want *wants, size_t n, struct hwts_locked *locked)
{
	const int64_t most_ns = store->config.lease_ns + HWT_S(1), now_ns = hwt_now();
	const struct hwts_want *found = NULL;
	struct hwts_conn *conn = hwts_conn(store, HWTS_BEGIN);

	if (now_ns - locked->since_ns > 2 * most_ns)
		locked->id = 0;
	for (size_t i = 0; i < n; i++) {
		if (is_locked(&wants[i]) && (!found || wants[i].id == locked->id ||
					     (found->id != locked->id && is_before(&wants[i], found, locked))))
			found = &wants[i];
		else if (wants[i].id == locked->id)
			locked->id = 0; /* no longer */
	}
	if (found && locked->id == 0) {
		locked->id = found->id;
		locked->since_ns = now_ns;
	}
	if (!found || found->id != locked->id || now_ns - locked->since_ns < most_ns || !conn || conn->broken)
		return;
	*locked = (struct hwts_locked){ .tried = found->id }; /* if no connection is ended the lock is a user's */
	if (store->engine->unblock(conn, false, found->id, most_ns) > 0)
		hwts_warn(store,
			  "a process that stands still, or is cut off, kept timeout %lld locked: the server has ended "
			  "its connection",
			  (long long)found->id);
}
