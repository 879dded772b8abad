/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A look: the worker gives unused memory back to the system, slice by slice; lane.h.
 *
 *     lanes    A lane that has accepted nothing since the last look lets its slab go.  An empty queue with little
 *              traffic begins again with one slab of nodes.
 *     slabs    A slab that has been empty for a while gives its memory back (record_slab.h).
 *
 * The worker never waits for a lane's lock, and holds it for some instructions.  A lane whose lock the worker does not
 * get is in use, and keeps its memory.  A producer that comes meanwhile finds all slabs but the one that the worker is
 * looking at.
 */
#include "lane/look.h"
#include "lane/lane.h"

/* Heads of slabs that the worker looks at in a slice: each may cost a cache miss. */
#define SLABS_SLICE 64

/* Slabs of nodes, at most 64 KiB each, that the worker frees in a slice. */
#define NODES_SLICE 4

/* Lanes that the worker looks at in a slice that frees no nodes. */
#define LANES_SLICE 16

enum phase { PHASE_NONE, PHASE_LANES, PHASE_NODES, PHASE_SLABS };

void hwt_look_begin(struct hwt_look *look, struct hwt_lanes *lanes, int64_t now_ns, int64_t hold_ns, bool all)
{
	HWT_ASSERT(look->phase == PHASE_NONE);
	*look = (struct hwt_look){ .lanes = lanes,
				   .phase = PHASE_LANES,
				   .all = all,
				   .now_ns = now_ns,
				   .hold_ns = all ? 0 : hold_ns,
				   .given = look->given };
	/* Relaxed: a hint. */
	atomic_fetch_add_explicit(&lanes->slabs.looks, 1, memory_order_relaxed);
}

/* Lets a queue begin again with one slab, if it is empty.  Under its lock.  Returns true if it does. */
static bool restart(struct hwt_look *look, struct hwt_queue *queue, struct hwt_slab *first)
{
	size_t bytes = queue->retired == NULL && queue_is_empty(queue) ? hwt_queue_restart(queue, first) : 0;

	look->owed += bytes;
	return bytes > 0;
}

/* Returns true if the queue has at least four times as many nodes as its pushes could have needed. */
static bool has_too_many(const struct hwt_queue *queue, uint64_t pushes)
{
	size_t bytes = slabs_bytes(&queue->slabs);

	return bytes > hwt_node_slab.first && bytes / (4 * sizeof(hwt_node)) >= pushes;
}

static void look_at_queue(struct hwt_look *look, struct hwt_queue *queue, uint64_t pushes)
{
	struct hwt_slab *first;
	bool is_used = false;

	if (!has_too_many(queue, pushes))
		return;
	first = hwt_slab_make(&hwt_node_slab, hwt_node_slab.first); /* before the lock: that may take long */
	if (first == NULL)
		return;
	if (hwt_queue_lock_soon(queue)) {
		is_used = restart(look, queue, first);
		queue_unlock(queue);
	}
	if (!is_used)
		hwt_slabs_free(first);
}

/* Looks at a lane.  Returns false if the lane is in use. */
static bool look_at_lane(struct hwt_look *look, struct hwt_lane *lane)
{
	/* Relaxed, both: the next look sees what this one misses. */
	uint64_t accepted = atomic_load_explicit(&lane->accepted, memory_order_relaxed);
	uint64_t cancelled = atomic_load_explicit(&lane->cancelled_pushed, memory_order_relaxed);
	uint64_t begun = accepted - lane->accepted_at_look, ended = cancelled - lane->cancelled_at_look;
	bool rests = begun == 0 || look->all;

	lane->accepted_at_look = accepted;
	lane->cancelled_at_look = cancelled;
	if (rests) {
		if (!hwt_queue_lock_soon(&lane->submitted))
			return false;
		hwt_pool_leave(&lane->pool);
		queue_unlock(&lane->submitted);
	}
	look_at_queue(look, &lane->submitted, look->all ? 0 : begun);
	look_at_queue(look, &lane->cancelled, look->all ? 0 : ended);
	return rests;
}

/*
 * Frees some of the slabs of nodes that a restart has retired, which are the worker's.  Returns true if there may be
 * more.
 *
 * The bytes that restarts have taken are subtracted from the bytes freed, never from `given`: a caller of
 * hwt_timer_trim that does not wait for the end subtracts two values of `given`.
 */
static bool free_nodes(struct hwt_look *look, struct hwt_lane *lane)
{
	size_t freed = 0, owed;
	unsigned n = hwt_slabs_release(&lane->submitted.retired, NODES_SLICE, &freed);

	n += hwt_slabs_release(&lane->cancelled.retired, NODES_SLICE, &freed);
	owed = freed < look->owed ? freed : look->owed;
	look->owed -= owed;
	look->given += freed - owed;
	return n > 0;
}

/* Looks at some lanes, until one of them has nodes to be freed. */
static void next_lanes(struct hwt_look *look)
{
	struct hwt_lanes *lanes = look->lanes;
	uint32_t count = lanes_count(lanes);

	for (unsigned i = 0; i < LANES_SLICE && look->lane < count; i++) {
		if (look->phase == PHASE_LANES)
			look->again |= !look_at_lane(look, lanes->made[look->lane]);
		look->phase = PHASE_NODES;
		if (free_nodes(look, lanes->made[look->lane]))
			return;
		look->phase = PHASE_LANES;
		look->lane++;
	}
	if (look->lane == count) {
		look->phase = PHASE_SLABS;
		look->slab = record_slabs_newest(&lanes->slabs);
	}
}

/* Looks at some slabs, until one of them has given its memory back. */
static void next_slabs(struct hwt_look *look)
{
	size_t before = look->given;

	for (unsigned i = 0; i < SLABS_SLICE && look->slab != NULL && look->given == before; i++) {
		look->again |= hwt_record_slab_look(look->slab, look->now_ns, look->hold_ns, &look->given);
		look->slab = look->slab->next;
	}
	if (look->slab == NULL)
		look->phase = PHASE_NONE;
}

bool hwt_look_step(struct hwt_look *look)
{
	if (look->phase == PHASE_SLABS)
		next_slabs(look);
	else if (look->phase != PHASE_NONE)
		next_lanes(look);
	return look->phase != PHASE_NONE;
}
