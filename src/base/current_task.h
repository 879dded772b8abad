/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In which tasks the calling thread is: the innermost, and those from which it got there (a task may advance another
 * timer).  So that who would wait for himself is told.
 */
#ifndef HWT_FRAME_H
#define HWT_FRAME_H

#include "base/base.h"

#include <hwt.h>

struct hwt_record;

struct hwt_current_task {
	const hwt_timer *timer;
	const struct hwt_record *record; /* whose task it is in, NULL: in none at the moment */
	struct hwt_current_task *outer;
};

extern HWT_OWN struct hwt_current_task *hwt_current_task;

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

/* Is the calling thread at work for this timer? */
static inline bool current_task_is_in_timer(const hwt_timer *timer)
{
	const struct hwt_current_task *frame = hwt_current_task;

	while (frame != NULL && frame->timer != timer)
		frame = frame->outer;
	return frame != NULL;
}

/* Is it in the task of this record? */
static inline bool current_task_is_in(const struct hwt_record *record)
{
	const struct hwt_current_task *frame = hwt_current_task;

	while (frame != NULL && frame->record != record)
		frame = frame->outer;
	return frame != NULL;
}

#endif
