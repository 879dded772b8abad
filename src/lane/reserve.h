/* SPDX-License-Identifier: BSD-2-Clause */
/* What a thread has set aside for its next timeouts; reserve.c argues. */
#ifndef HWT_RESERVE_H
#define HWT_RESERVE_H

#include "lane/lane.h"

struct hwt_reserve {
	struct hwt_reserve *next;          /* of the lane; under its lock */
	struct hwt_reserve *other, **link; /* of all in the process; under the mutex of reserve.c */
	struct hwt_lane *lane;
	uint32_t thread;   /* its hwt_own_number */
	uint64_t timeouts; /* for so many */
	uint64_t records;
	struct hwt_record *record; /* linked by free_next */
	struct hwt_slab *block;    /* of the nodes, as long as none has been used; NULL: they are the queue's */
	hwt_node *node, *node_end; /* those that have not been used */
};

/*
 * Sets aside what the calling thread needs for its next n timeouts, or gives back what is more than that.  Returns 0,
 * ECANCELED, or ENOMEM, and then what was set aside before still is.
 */
int hwt_lane_reserve(struct hwt_lane *lane, uint32_t n);

/* Returns what the calling thread has set aside, if there is anything.  NULL: nothing.  Under the submit lock. */
struct hwt_record *hwt_reserve_record(struct hwt_lane *lane);
hwt_node *hwt_reserve_node(struct hwt_lane *lane);

/* Takes back what a submission has not used (NULL: nothing), to what was set aside first.  Under the submit lock. */
void hwt_reserve_return(struct hwt_lane *lane, struct hwt_record *record, hwt_node *node);

/* Ends all reserves, when the lane goes. */
void hwt_reserves_destroy(struct hwt_lane *lane);

#endif
