/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for the end of a task that is running.
 *
 * Structure
 *
 *   Waiting is rare, tasks are not.  A thread that waits announces itself in a counter, at which the worker looks when
 *   a task has returned.  Each side stores first and loads afterwards, as in idle.h and with the same fences.  Where
 *   there is membarrier the worker's fence costs nothing.
 *
 *       waiter                              worker
 *       waiting++                           word: EXPIRED
 *       fence, of all threads               compiler fence       (or both: full fence)
 *       under the mutex, while              if waiting != 0:
 *         the word says RUNNING: wait         under the mutex: broadcast
 *
 * Threads
 *
 *   hwt_waiters_wait   any thread but the one that runs the task.
 *   waiters_look       the worker.
 *
 * Ordering
 *
 *   [wait]   at least one of the two sees the other's store: either the waiter sees EXPIRED and does not wait, or the
 *            worker sees the waiter and wakes it.
 *   [end]    a thread that has waited sees EXPIRED, and so sees what the task wrote.
 */
#ifndef HWT_AWAIT_H
#define HWT_AWAIT_H

#include "base/idle.h"
#include "base/record.h"

struct hwt_waiters {
	/* Threads that wait.  Without a barrier one more, so that the worker looks a second time, behind a fence. */
	alignas(HWT_UNIT) _Atomic uint32_t waiting;
	bool has_barrier; /* a copy of that in idle */
	struct hwt_monitor monitor;
};

/* Returns 0, ENOMEM, or an error of the system. */
int hwt_waiters_init(struct hwt_waiters *waiters, const struct hwt_idle *idle);
void hwt_waiters_destroy(struct hwt_waiters *waiters);

/* Returns when the timeout of this generation is not running. */
void hwt_waiters_wait(struct hwt_waiters *waiters, const struct hwt_idle *idle, struct hwt_record *record,
		      uint64_t generation);

/* Slow half of waiters_look. */
void hwt_waiters_look_again(struct hwt_waiters *waiters);

/* Wakes the waiters. */
void hwt_waiters_tell(struct hwt_waiters *waiters);

/* Wakes the waiters, if there are any.  To be called after the word says that the task has returned. */
static inline void waiters_look(struct hwt_waiters *waiters)
{
	HWT_POINT("await look");
	atomic_signal_fence(memory_order_seq_cst); /* [wait] */
	/* Relaxed: the fences order it, [wait]. */
	if (unlikely(atomic_load_explicit(&waiters->waiting, memory_order_relaxed) != 0))
		hwt_waiters_look_again(waiters);
}

#endif
