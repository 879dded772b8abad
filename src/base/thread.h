/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that are cancelled, and threads that wait for another one.
 *
 * Cancellation
 *
 *   A cancelled thread (pthread_cancel) ends at the next cancellation point: a wait on a condition, a join, a sleep, an
 *   output.  In the middle of a call it would end with a mutex locked or half of the work done.  So a call that
 *   contains a cancellation point switches cancellation off, and the thread ends at the first point after the call.
 *   The worker switches it off for all of its life.
 *
 *   PTHREAD_CANCEL_ASYNCHRONOUS is not covered: such a thread ends between any two instructions, and may call only what
 *   POSIX names for it.
 *
 * Giving way
 *
 *   Other threads hold a lane's lock, or write a deadline, for some instructions.  A thread that waits for that yields
 *   its processor, which is mostly enough.  In a real-time class it is not: there the system gives the processor to no
 *   less urgent thread, not even to the one that is waited for.  So after some turns the waiting thread sleeps.
 */
#ifndef HWT_THREAD_H
#define HWT_THREAD_H

#include "base/base.h"

#include <pthread.h>

/* The number of the calling thread, from 1 on; 0 until its first call. */
extern HWT_OWN uint32_t hwt_own_number;

/* Switches cancellation off.  The result goes to thread_restore_cancel.  Pairs may be nested. */
static inline int thread_no_cancel(void)
{
	int before = PTHREAD_CANCEL_ENABLE;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void thread_restore_cancel(int before)
{
	(void)pthread_setcancelstate(before, NULL);
}

/*
 * Yields to a thread that is some instructions from being done, later sleeps.  *turns is 0 at the first call of a wait.
 */
void hwt_thread_give_way(unsigned *turns);

#endif
