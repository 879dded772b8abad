/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a lane takes from others before it asks for memory: free records, and nodes of their queues; lane.h.
 *
 * Without it they strand where they are as threads come and go, and memory grows towards lanes x peak.
 *
 * A thief holds the lock of its own lane.  It looks at another lock for a moment only: two thieves may meet.  If the
 * holder of that lock has lost its processor, what it has is not taken this time, and memory is.
 */
#include "lane/lane.h"

/* After a look at all lanes that found nothing, a lane does not look for records again for this many submissions. */
#define STEAL_INTERVAL 64

/*
 * How many nodes to take from one queue: so many that the search is worth while, and not all of them, as the other lane
 * may need nodes the moment after.  A search that finds less than the second number is not worth while: the next one
 * comes after a slab has been used up.
 */
#define NODES_TAKEN 256
#define NODES_ENOUGH 64

bool hwt_lane_steal_records(struct hwt_lane *thief)
{
	struct hwt_lanes *lanes = thief->lanes;
	uint32_t count = lanes_count(lanes);
	/* Relaxed: written under this lock. */
	uint64_t accepted = atomic_load_explicit(&thief->accepted, memory_order_relaxed);

	if (accepted - thief->accepted_at_steal < STEAL_INTERVAL)
		return false;
	/* From the next one on: not all thieves to the same lane. */
	for (uint32_t i = 1; i < count && thief->pool.free == NULL; i++) {
		struct hwt_lane *lane = lanes->made[(thief->turn + i) % count];

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

/* From queues of the same kind: a load of one after the other kind of call would move all nodes to and fro. */
static size_t steal_nodes(const struct hwt_lane *thief, struct hwt_queue *queue)
{
	const struct hwt_lanes *lanes = thief->lanes;
	uint32_t count = lanes_count(lanes), source = queue->source;
	size_t taken = 0;

	for (uint32_t i = 0; i < count && taken < NODES_ENOUGH; i++) {
		uint32_t turn = (source + i) % count;
		struct hwt_lane *lane = lanes->made[turn];
		struct hwt_queue *from = queue == &thief->submitted ? &lane->submitted : &lane->cancelled;

		if (lane == thief || !hwt_queue_lock_soon(from))
			continue;
		taken += hwt_queue_take_nodes(queue, from, NODES_TAKEN);
		queue_unlock(from);
		queue->source = turn;
	}
	return taken;
}

hwt_node *hwt_lane_find_node(struct hwt_lane *lane, struct hwt_queue *queue)
{
	hwt_node *node = hwt_queue_spare_node(queue);

	if (likely(node != NULL))
		return node;
	if (steal_nodes(lane, queue) < NODES_ENOUGH)
		(void)hwt_queue_grow(queue);
	return hwt_queue_spare_node(queue);
}
