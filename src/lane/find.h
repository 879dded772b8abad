/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a lane searches for a record when its free list is empty. */
#ifndef HWT_FIND_H
#define HWT_FIND_H

#include "lane/lane.h"

/*
 * Returns a free record of memory that the timer has: from the lane's slab, from a slab that nobody owns, or from that
 * of a lane at rest.  Leaves alone what other lanes may need the moment after.  NULL: there is none.  To be called
 * after pool_pop has found none, under the submit lock.
 */
struct hwt_record *hwt_lane_find_at_hand(struct hwt_lane *lane);

/*
 * Returns a record of new memory.  If there is no new memory, it takes any free record of the timer, or returns NULL.
 */
struct hwt_record *hwt_lane_find_more(struct hwt_lane *lane);

#endif
