/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that are due and stay locked for longer than a lease, perhaps by a process of the store that stands still while
 * it puts or ends rows.  The server ends the connection of such a process.  It has locked all rows of its transaction,
 * so watching one row at a time is enough.
 */
#include "runs/locked.h"
#include "store/conns.h"
#include "store/store.h"

/* True: the row is due, and nothing but a lock keeps it from being begun. */
static bool is_locked(const struct hwts_want *want)
{
	if (want->row || want->failed || want->refused || want->lost || want->stale)
		return false;
	if (want->dead) /* begun or inherited as soon as no transaction locks it */
		return !want->inherited && want->due_us <= want->now_us;
	/* Otherwise the row is a last attempt that waits for a free thread: beginner.c. */
	return want->locked || (want->due_us <= want->now_us &&
				(want->last || want->max_attempts == 0 || want->attempt + 1 < want->max_attempts));
}

/* In the order of ids, starting behind the row that was tried last: each row has its turn. */
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
			locked->id = 0; /* the row is no longer locked */
	}
	if (found && locked->id == 0) {
		locked->id = found->id;
		locked->since_ns = now_ns;
	}
	if (!found || found->id != locked->id || now_ns - locked->since_ns < most_ns || !conn || conn->broken)
		return;
	/* If no connection is ended, a user's transaction has the lock. */
	*locked = (struct hwts_locked){ .tried = found->id };
	if (store->engine->unblock(conn, false, found->id, most_ns) > 0)
		hwts_warn(store,
			  "a process that stands still, or is cut off, kept timeout %lld locked: the server has ended "
			  "its connection",
			  (long long)found->id);
}
