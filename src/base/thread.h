/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the library asks of the thread it runs on.
 *
 * Cancellation
 *
 *   A thread that is cancelled (pthread_cancel) leaves at the next cancellation point: a wait on a condition, a join, a
 *   sleep, an output.  In the middle of a call it would leave with a mutex locked, or half of the work done.  So calls
 *   that come by one switch cancellation off, and the thread leaves at the first one after the call.  The worker has it
 *   switched off for all of its life.
 *
 *   Not covered is PTHREAD_CANCEL_ASYNCHRONOUS: such a thread leaves between any two instructions, and may call
 *   nothing but what POSIX names for it.
 *
 * Giving way
 *
 *   A lane's lock is held, and a deadline is being written, for some instructions.  A thread that waits for that yields
 *   its processor, which mostly is enough.  Not so in a real-time class: the system gives the processor to no thread
 *   that is less urgent, not even to the one that is waited for.  So after some turns the waiting thread sleeps.
 */
#ifndef HWT_THREAD_H
#define HWT_THREAD_H

#include <pthread.h>

/* Until thread_restore_cancel(what this has returned) the thread cannot be cancelled.  Pairs may be nested. */
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

/* Lets another thread go on that is some instructions from being done.  *turns is 0 at the first call of a wait. */
void hwt_thread_give_way(unsigned *turns);

#endif
