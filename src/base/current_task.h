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

struct hwt_frame {
	const hwt_timer *timer;
	const struct hwt_record *record; /* whose task it is in, NULL: in none at the moment */
	struct hwt_frame *outer;
};

extern HWT_OWN struct hwt_frame *hwt_innermost_frame;

static inline void frame_enter(struct hwt_frame *frame, const hwt_timer *timer, const struct hwt_record *record)
{
	*frame = (struct hwt_frame){ timer, record, hwt_innermost_frame };
	hwt_innermost_frame = frame;
}

static inline void frame_leave(const struct hwt_frame *frame)
{
	hwt_innermost_frame = frame->outer;
}

/* Is the calling thread at work for this timer? */
static inline bool frame_is_in_timer(const hwt_timer *timer)
{
	const struct hwt_frame *frame = hwt_innermost_frame;

	while (frame != NULL && frame->timer != timer)
		frame = frame->outer;
	return frame != NULL;
}

/* Is it in the task of this record? */
static inline bool frame_is_in_task(const struct hwt_record *record)
{
	const struct hwt_frame *frame = hwt_innermost_frame;

	while (frame != NULL && frame->record != record)
		frame = frame->outer;
	return frame != NULL;
}

#endif
