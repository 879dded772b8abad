/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for the end of a task that is running.
 *
 * Structure
 *
 *   Waiting is rare, tasks are not.  A thread that waits enters one of 64 lists, which the record's address chooses,
 *   and raises a counter.  The thread that ran a task loads the counter when the task has returned.  Each side stores
 *   first and loads afterwards, as in idle.h and with the same fences.  Where there is membarrier the ender's fence
 *   costs nothing.
 *
 *       waiter                              ender
 *       into the list; waiting++            word: EXPIRED
 *       fence, of all threads               compiler fence       (or both: full fence)
 *       under the mutex, while              if waiting != 0 and the list has any:
 *         the word says RUNNING: wait         under the mutex: broadcast if the record is in the list
 *
 *   So the end of a task for which no thread waits costs one check of its list and wakes no thread, however many wait
 *   for other tasks.
 *
 * Threads
 *
 *   hwt_waiters_wait   any thread but the one that runs the task.
 *   waiters_look       the thread that ran the task, before it gives the record away.
 *
 * Ordering
 *
 *   [wait]   at least one of the two sees the other's store: either the waiter sees EXPIRED and does not wait, or the
 *            ender sees the waiter and wakes it.
 *   [end]    a thread that has waited sees EXPIRED, and so sees what the task wrote.
 */
#ifndef HWT_WAITERS_H
#define HWT_WAITERS_H

#include "base/idle.h"
#include "base/record.h"

#define WAITERS_LISTS 64

/* On the stack of a thread that waits. */
struct hwt_waiter {
	const struct hwt_record *record;
	struct hwt_waiter *next;
};

struct hwt_waiters {
	/*
	 * The number of threads that wait.  Without membarrier 1 more, so that the ender always checks again, behind a
	 * fence.
	 */
	alignas(HWT_UNIT) _Atomic uint32_t waiting;
	bool has_barrier; /* a copy of idle->has_barrier */
	struct hwt_monitor monitor;
	_Atomic(struct hwt_waiter *) list[WAITERS_LISTS]; /* written under the mutex */
};

/* Returns 0, ENOMEM, or an error of the system. */
int hwt_waiters_init(struct hwt_waiters *waiters, const struct hwt_idle *idle);
void hwt_waiters_destroy(struct hwt_waiters *waiters);

/* Returns when the timeout of this generation is not running. */
void hwt_waiters_wait(struct hwt_waiters *waiters, const struct hwt_idle *idle, struct hwt_record *record,
		      uint64_t generation);

/* Slow half of waiters_look. */
void hwt_waiters_look_again(struct hwt_waiters *waiters, const struct hwt_record *record);

/* Wakes the threads that wait for this record.  To be called after the word says that the task has returned. */
static inline void waiters_look(struct hwt_waiters *waiters, const struct hwt_record *record)
{
	HWT_POINT("await look");
	atomic_signal_fence(memory_order_seq_cst); /* [wait] */
	/* Relaxed: the fences order it, [wait]. */
	if (unlikely(atomic_load_explicit(&waiters->waiting, memory_order_relaxed) != 0))
		hwt_waiters_look_again(waiters, record);
}

#endif
