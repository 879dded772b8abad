/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads: cancellation, giving way to another thread, and the tasks that a thread is in.
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
 *   Threads hold a lane's lock, or write a deadline, for some instructions.  A thread that waits for such a thread
 *   yields its processor, which is mostly enough.  It is not in a real-time class: the yield lets only threads of at
 *   least its priority run, and the holder may have a lower one.  So after some turns the waiting thread sleeps.
 *
 * Tasks
 *
 *   Each thread has a list, on its stack, of the tasks in which it is: the innermost one, and those from which it got
 *   there (a task may advance another timer).  By this list the library returns EDEADLK to a thread that would wait for
 *   itself.
 */
#ifndef HWT_THREAD_H
#define HWT_THREAD_H

#include "base/base.h"

#include <hwt.h>
#include <pthread.h>

struct hwt_record;

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

/* Yields to a thread that needs only some instructions more; later sleeps.  *turns is 0 at the first call of a wait. */
void hwt_thread_give_way(unsigned *turns);

struct hwt_current_task {
	const hwt_timer *timer;
	const struct hwt_record *record; /* of the running task; NULL: no task is running */
	struct hwt_current_task *outer;
};

extern HWT_OWN struct hwt_current_task *hwt_current_task;

/*
 * Notes that the thread works for a timer, and runs the task of a record, or no task (NULL).  *frame lives until
 * current_task_leave.
 */
static inline void current_task_enter(struct hwt_current_task *frame, const hwt_timer *timer,
				      const struct hwt_record *record)
{
	*frame = (struct hwt_current_task){ timer, record, hwt_current_task };
	hwt_current_task = frame;
}

static inline void current_task_leave(const struct hwt_current_task *frame)
{
	hwt_current_task = frame->outer;
}

/* Returns true if the calling thread works for this timer. */
static inline bool current_task_is_in_timer(const hwt_timer *timer)
{
	const struct hwt_current_task *frame = hwt_current_task;

	while (frame != NULL && frame->timer != timer)
		frame = frame->outer;
	return frame != NULL;
}

/* Returns true if the calling thread is in the task of this record. */
static inline bool current_task_is_in(const struct hwt_record *record)
{
	const struct hwt_current_task *frame = hwt_current_task;

	while (frame != NULL && frame->record != record)
		frame = frame->outer;
	return frame != NULL;
}

#endif
