/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stealing: a lane takes free records from other lanes before it allocates; lane.h.
 *
 * Otherwise they would strand where they are as threads come and go, and memory would grow towards lanes x peak.
 *
 * A thief holds the lock of its own lane while it wants that of another one.  Two thieves may want each other's lock,
 * so a thief never waits: it looks some dozen times and goes on to the next lane.  If the holder of a lock has lost its
 * processor, the thief takes nothing there this time and allocates.
 */
#include "lane/lane.h"

/* After it has looked at all lanes and found nothing, a lane does not look again for this many submissions. */
#define STEAL_INTERVAL 64

bool hwt_lane_steal_records(struct hwt_lane *thief)
{
	struct hwt_lanes *lanes = thief->lanes;
	uint32_t count = lanes_count(lanes);
	/* Relaxed: written under the lock that this thread holds. */
	uint64_t accepted = atomic_load_explicit(&thief->accepted, memory_order_relaxed);

	if (accepted - thief->accepted_at_steal < STEAL_INTERVAL)
		return false;
	/* Begins with the next lane, so that not all thieves come to the same one. */
	for (uint32_t i = 1; i < count && thief->pool.free == NULL; i++) {
		struct hwt_lane *lane = lanes->made[(thief->turn + i) % count];

		/* The chain needs no lock: the exchange gives it to one thread, this one or the lane's own producer. */
		thief->pool.free = returned_take_all(&lane->returned);
		if (thief->pool.free == NULL && hwt_queue_lock_soon(&lane->submitted)) {
			thief->pool.free = lane->pool.free;
			lane->pool.free = NULL;
			queue_unlock(&lane->submitted);
		}
	}
	if (thief->pool.free == NULL)
		thief->accepted_at_steal = accepted;
	return thief->pool.free != NULL;
}
