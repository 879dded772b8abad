/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a lane searches for a record when its free list is empty; lane.h, pool.h. */
#include "lane/lane.h"

/*
 * Takes the slab of another lane, if that slab has free records.  Without `any` the other lane must have accepted
 * nothing since a thief last came by.
 *
 * The thief holds the lock of its own lane, and two thieves may want each other's.  So it never waits: it tries some
 * dozen times, and goes on to the next lane.
 */
static struct hwt_record *take_over(struct hwt_lane *lane, bool any)
{
	struct hwt_lanes *lanes = lane->lanes;
	uint32_t count = lanes_count(lanes);
	struct hwt_record *record = NULL;

	/* Each thief begins with the lane after its own, so that they spread out. */
	for (uint32_t i = 1; i < count && record == NULL; i++) {
		struct hwt_lane *other = lanes->made[(lane->turn + i) % count];
		uint64_t accepted;

		if (!hwt_queue_lock_soon(&other->submitted))
			continue;
		accepted = atomic_load_explicit(&other->accepted, memory_order_relaxed); /* relaxed: under the lock */
		if (any || accepted == other->accepted_at_search)
			record = hwt_pool_take_over(&lane->pool, &other->pool, any ? OFFER_ANY : OFFER_MANY);
		other->accepted_at_search = accepted;
		queue_unlock(&other->submitted);
	}
	return record;
}

/*
 * From this many bytes of records on the worker prepares a slab ahead, which is then at most an eighth of the memory.
 */
#define AHEAD_FROM (8 * SLAB_RECORDS * sizeof(struct hwt_record))

/* Asks the worker for another slab if the lane has just begun a slab that never served.  Returns `record`. */
static struct hwt_record *ask_ahead(struct hwt_lane *lane, struct hwt_record *record)
{
	struct hwt_record_slabs *slabs = lane->pool.slabs;

	if (record != NULL && !lane->lanes->is_driven && pool_span(&lane->pool) > SLAB_BYTES / 2 &&
	    record_slabs_held(slabs) >= AHEAD_FROM)
		atomic_store_explicit(&slabs->wanted, true, memory_order_relaxed); /* relaxed: a hint */
	return record;
}

struct hwt_record *hwt_lane_find_at_hand(struct hwt_lane *lane)
{
	struct hwt_record *record = hwt_pool_refill(&lane->pool);

	if (likely(record != NULL))
		return record;
	record = ask_ahead(lane, hwt_pool_search(&lane->pool, OFFER_MANY));
	return record != NULL ? record : take_over(lane, false);
}

struct hwt_record *hwt_lane_find_more(struct hwt_lane *lane)
{
	struct hwt_record *record = ask_ahead(lane, hwt_pool_grow(&lane->pool));

	if (likely(record != NULL))
		return record;
	record = hwt_pool_search(&lane->pool, OFFER_ANY);
	return record != NULL ? record : take_over(lane, true);
}
