/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a lane searches for a record when its free list is empty. */
#ifndef HWT_FIND_H
#define HWT_FIND_H

#include "lane/lane.h"

/*
 * Returns a record of memory that the timer has, but for what others may need the moment after: what has come home to
 * the lane's slab, the rest of its span, a slab that nobody owns, the slab of a lane that rests.  NULL: there is none.
 * After pool_pop has found none, under the submit lock.
 */
struct hwt_record *hwt_lane_find_at_hand(struct hwt_lane *lane);

/* The same of new memory, and without that of whatever memory there is. */
struct hwt_record *hwt_lane_find_more(struct hwt_lane *lane);

#endif
