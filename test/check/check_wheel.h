/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the checker: wheel, buckets and due times, and where records are.
 */
#ifndef HWT_CHECK_WHEEL_H
#define HWT_CHECK_WHEEL_H

#include "check/check_inventory.h"
#include "wheel/wheel.h"

#ifdef HWT_TEST

enum hwt_check_place {
	PLACE_NOWHERE,
	PLACE_NOT_CARVED,
	PLACE_FREE,
	PLACE_RETURNED,
	PLACE_FREE_CHAIN, /* in the worker's chain: only after a pass that a stop has ended */
	PLACE_SUBMITTED,
	PLACE_REARMED, /* on the stack of records that run again */
	PLACE_READY,   /* handed over to the task threads */
	PLACE_WHEEL,
	PLACE_UNPLACED,
	PLACE_BATCH,
	PLACE_UNPROCESSED,
	PLACE_EXTENSION, /* of another record */
	PLACES,
};

/*
 * Checks the wheel, marks its records, and returns the number of chunks in use.  midway: a stop may have ended a tick.
 */
size_t hwt_check_wheel(const struct hwt_wheel *wheel, struct inventory *records, bool midway, int64_t *first);

/* Returns true if B6 holds, seen from a round. */
bool hwt_check_spans(const struct hwt_bucket *bucket, uint32_t round);

/* Shows the insides of a level of the hierarchical layout. */
void hwt_check_levels_view(const struct hwt_wheel *wheel, unsigned level, struct hwt_wheel_view *view);

#endif

#endif
