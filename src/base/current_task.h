/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tasks in which the calling thread is: the innermost one, and those from which it got there (a task may advance
 * another timer).  Lets the library return EDEADLK to a thread that would wait for itself.
 *
 * Threads: each has its own list, on its stack.
 */
#ifndef HWT_FRAME_H
#define HWT_FRAME_H

#include "base/base.h"

#include <hwt.h>

struct hwt_record;

struct hwt_current_task {
	const hwt_timer *timer;
	const struct hwt_record *record; /* of the task that runs, NULL: none runs at the moment */
	struct hwt_current_task *outer;
};

extern HWT_OWN struct hwt_current_task *hwt_current_task;

/*
 * Says that the thread works for a timer, and runs the task of a record or none (NULL).  *frame lives until the leave.
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
