/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stealing: a lane takes free records and nodes from other lanes before it allocates; lane.h.
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

/*
 * How many nodes to take from one queue: enough to pay for the search, but not all, as the other lane may need some the
 * moment after.  If a search finds fewer than NODES_ENOUGH, the lane allocates a slab, and searches again when that is
 * used up.
 */
#define NODES_TAKEN 256
#define NODES_ENOUGH 64

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

/*
 * Takes nodes from queues of the same kind: submitted from submitted, cancelled from cancelled.  If the kinds mixed, a
 * program that first schedules and then cancels would move all nodes to and fro.  Returns how many.
 */
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
