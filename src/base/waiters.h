/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for the end of a task that is running.
 *
 * Structure
 *
 *   Waiting is rare, tasks are not: so whoever waits says so in a counter, and the worker, when a task has returned,
 *   looks at it.  Both store first and load then, as in idle.h, and with the same fences: the worker's costs nothing
 *   where there is membarrier.
 *
 *       waiter                              worker
 *       waiting++                           word: EXPIRED
 *       fence, of all threads               compiler fence       (or both: full fence)
 *       under the mutex, while              if waiting != 0:
 *         the word says RUNNING: wait         under the mutex: broadcast
 *
 * Threads
 *
 *   hwt_waiters_wait   any but the one that runs the task.
 *   waiters_look      who runs tasks.
 *
 * Ordering
 *
 *   [wait]  one of the two sees the other's store.
 *   [end]    what the task wrote is visible to who has waited: he sees EXPIRED.
 */
#ifndef HWT_AWAIT_H
#define HWT_AWAIT_H

#include "base/idle.h"
#include "base/record.h"

struct hwt_waiters {
	alignas(HWT_UNIT) _Atomic uint32_t waiting;
	bool has_barrier; /* as in idle; here, where the worker looks anyway */
	struct hwt_monitor monitor;
};

/* ENOMEM, or what the system says. */
int hwt_waiters_init(struct hwt_waiters *waiters, const struct hwt_idle *idle);
void hwt_waiters_destroy(struct hwt_waiters *waiters);

/* Returns when the timeout of this generation does not run, or does no longer. */
void hwt_waiters_wait(struct hwt_waiters *waiters, const struct hwt_idle *idle, struct hwt_record *record,
		      uint64_t generation);

/* Slow half of waiters_look. */
void hwt_waiters_tell(struct hwt_waiters *waiters);

/* After a task has returned, and its word says so. */
static inline void waiters_look(struct hwt_waiters *waiters)
{
	HWT_POINT("await look");
	fence_between(waiters->has_barrier); /* [wait] */
	/* Relaxed: the fences order it, [wait]. */
	if (unlikely(atomic_load_explicit(&waiters->waiting, memory_order_relaxed) != 0))
		hwt_waiters_tell(waiters);
}

#endif
