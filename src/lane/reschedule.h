/* SPDX-License-Identifier: BSD-2-Clause */
/* Rescheduling; lane.h argues. */
#ifndef HWT_RESCHEDULE_H
#define HWT_RESCHEDULE_H

#include "lane/lane.h"

/* Sets another deadline.  Returns 0, EBUSY, ENOENT, or ENOMEM for an earlier one. */
int hwt_lane_reschedule(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation, int64_t deadline_ns);

/* The same from the timeout's own task, which is running: it will run again.  Returns 0, ENOENT or ENOBUFS. */
int hwt_lane_rearm(struct hwt_lane *lane, struct hwt_record *record, int64_t deadline_ns);

#endif
