/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trimming: the worker gives free memory of the lanes back to the system, slice by slice; lane.h.
 *
 *     name the slabs     the large slabs of all lanes go into the sorter's table
 *     sort               of one lane after the other, takes the free list and what has returned, and sorts it by slab
 *     take out           slabs whose records are all sorted leave their lanes
 *     put back           all other records go into the free list of the lane to which their slab belongs
 *     nodes              of one lane after the other: an empty queue begins again with one slab
 *     give back          slab after slab, to the system
 *
 * Races
 *
 *   with producers     A list changes hands under the lock of its lane, in some instructions, however long it is.  A
 *                      producer whose list is gone takes records out of the worker's hands before it takes new memory.
 *                      Its slab then stays.  A record that is taken, is being popped or belongs to a reserve is in no
 *                      list, so its slab stays, too.
 *   with stale         A cancel or a move reads lane and word of a record that may be given back at that moment.  Its
 *   handles            edges are exchanges on a word that shows a timeout of its generation.  A record in the worker's
 *                      hands shows an end, and later 0.  So nothing is written to it.
 *   with stealing      A thief takes whole lists, and so a trim finds them here or there.
 *
 * The worker never waits for a lane's lock.  A lane whose lock it does not get keeps what it has.  Only what is in the
 * worker's hands must go back: it tries again in the next slice.
 */
#include "lane/kept.h"

/* How many heads of slabs the worker looks at in a slice: at each it may miss the cache. */
#define SLABS_SLICE 64

/* How many slabs of nodes, at most 64 KiB each, it frees in a slice. */
#define NODES_SLICE 4

enum phase {
	PHASE_NONE,
	PHASE_NAME,
	PHASE_SORT_FREE,
	PHASE_SORT_RETURNED,
	PHASE_PUT_REST,
	PHASE_TAKE_OUT,
	PHASE_PUT_BACK,
	PHASE_NODES,
	PHASE_GIVE_BACK,
};

static void enter(struct hwt_trim *trim, unsigned phase)
{
	trim->phase = phase;
	trim->lane = 0;
	trim->entered = false;
	trim->slab = NULL;
	trim->at = 0;
}

/* Goes on with the next lane, or after the last one with another phase. */
static void next_lane(struct hwt_lanes *lanes, unsigned phase)
{
	struct hwt_trim *trim = &lanes->trim;

	trim->entered = false;
	if (++trim->lane >= trim->count)
		enter(trim, phase);
}

void hwt_trim_begin(struct hwt_lanes *lanes)
{
	struct hwt_trim *trim = &lanes->trim;
	size_t bytes = 0;

	HWT_ASSERT(trim->phase == PHASE_NONE);
	trim->count = lanes_count(lanes);
	for (uint32_t i = 0; i < trim->count; i++)
		bytes += slabs_bytes(&lanes->made[i]->pool.slabs);
	if (trim->count == 0)
		return;
	/* More slabs may be made until the lanes are looked at: then they find no place. */
	trim->room = bytes / HWT_HUGE_PAGE;
	enter(trim, trim->room > 0 && hwt_sorter_begin(&lanes->sorter, trim->room) ? PHASE_NAME : PHASE_NODES);
}

/*
 * Names slabs of a lane.  The lock is for the first of them only: a producer adds slabs in front, and only the worker
 * takes any out.
 */
static void name(struct hwt_lanes *lanes, struct hwt_lane *lane)
{
	struct hwt_trim *trim = &lanes->trim;

	if (!trim->entered) {
		if (!hwt_queue_lock_soon(&lane->submitted)) {
			next_lane(lanes, PHASE_SORT_FREE);
			return;
		}
		trim->slab = lane->pool.slabs.newest;
		queue_unlock(&lane->submitted);
		trim->entered = true;
	}
	for (unsigned i = 0; i < SLABS_SLICE && trim->slab != NULL; i++, trim->slab = trim->slab->next)
		if (trim->slab->bytes == HWT_HUGE_PAGE && trim->room > 0) {
			hwt_sorter_add(&lanes->sorter, trim->slab);
			trim->room--;
		}
	if (trim->slab == NULL)
		next_lane(lanes, PHASE_SORT_FREE);
}

static struct hwt_record *take_free(struct hwt_lane *lane)
{
	struct hwt_record *first;

	if (!hwt_queue_lock_soon(&lane->submitted))
		return NULL;
	lane_let_go(lane);
	if (lane_has_parked(lane)) { /* nobody else has it: it was popped and is cancelled */
		pool_push(&lane->pool, lane->parked);
		lane->parked = NULL;
	}
	first = lane->pool.free;
	lane->pool.free = NULL;
	queue_unlock(&lane->submitted);
	return first;
}

/* Takes a list of the lane, then sorts it.  Two lists a lane: first the free one, then what has returned. */
static void sort(struct hwt_lanes *lanes, struct hwt_lane *lane)
{
	struct hwt_trim *trim = &lanes->trim;

	if (!trim->entered) {
		hwt_sorter_put(&lanes->sorter,
			       trim->phase == PHASE_SORT_FREE ? take_free(lane) : returned_take_all(&lane->returned));
		trim->entered = true;
		HWT_POINT("trim taken");
	}
	if (hwt_sorter_sort(&lanes->sorter))
		return;
	trim->entered = false;
	trim->phase++;
}

/* Puts the records of small slabs back into the lane. */
static bool put_rest(struct hwt_lanes *lanes, struct hwt_lane *lane)
{
	struct hwt_trim *trim = &lanes->trim;

	if (!hwt_queue_lock_soon(&lane->submitted))
		return false;
	pthread_mutex_lock(&lanes->sorter.mutex);
	hwt_sorter_return_rest(&lanes->sorter, &lane->pool);
	pthread_mutex_unlock(&lanes->sorter.mutex);
	queue_unlock(&lane->submitted);
	trim->phase = PHASE_SORT_FREE;
	next_lane(lanes, PHASE_TAKE_OUT);
	return true;
}

/* Takes slabs out of a lane.  The link stays right between two slices: producers add only in front. */
static void take_out(struct hwt_lanes *lanes, struct hwt_lane *lane)
{
	struct hwt_trim *trim = &lanes->trim;
	struct hwt_slabs *slabs = &lane->pool.slabs;
	unsigned looks = 0;

	if (!hwt_queue_lock_soon(&lane->submitted)) {
		next_lane(lanes, PHASE_PUT_BACK);
		return;
	}
	if (!trim->entered)
		trim->link = &slabs->newest;
	trim->entered = true;
	pthread_mutex_lock(&lanes->sorter.mutex);
	for (; looks < SLABS_SLICE && *trim->link != NULL; looks++) {
		/* Of the newest slab some records may not have been carved yet. */
		size_t others = trim->link == &slabs->newest ? slabs_rest(slabs) / sizeof(struct hwt_record) : 0;

		if (!hwt_sorter_has(*trim->link, HWT_LARGE_RECORDS - others)) {
			trim->link = &(*trim->link)->next;
			continue;
		}
		lane->pool.records -= HWT_LARGE_RECORDS;
		hwt_sorter_leave(&lanes->sorter, hwt_slabs_take_out(slabs, &hwt_record_slab, trim->link));
	}
	pthread_mutex_unlock(&lanes->sorter.mutex);
	queue_unlock(&lane->submitted);
	if (looks < SLABS_SLICE)
		next_lane(lanes, PHASE_PUT_BACK);
}

/* Puts the sorted records of one slab back into the lane of the slab. */
static bool put_back(struct hwt_lanes *lanes, struct hwt_record_slab *slab)
{
	struct hwt_lane *lane = record_slab_lane(slab);

	if (!hwt_queue_lock_soon(&lane->submitted))
		return false;
	pthread_mutex_lock(&lanes->sorter.mutex);
	hwt_sorter_return(slab, &lane->pool);
	pthread_mutex_unlock(&lanes->sorter.mutex);
	queue_unlock(&lane->submitted);
	return true;
}

static bool put_back_some(struct hwt_lanes *lanes)
{
	struct hwt_trim *trim = &lanes->trim;
	size_t places = hwt_sorter_places(&lanes->sorter);

	for (unsigned i = 0; i < SLABS_SLICE && trim->at < places; i++, trim->at++) {
		struct hwt_record_slab *slab = lanes->sorter.table[trim->at];

		/*
		 * Without the mutex: only the worker adds to the list, and a list that a producer has taken is empty.
		 */
		if (slab != NULL && !put_back(lanes, slab))
			return false;
	}
	if (trim->at == places) {
		hwt_sorter_end(&lanes->sorter);
		enter(trim, PHASE_NODES);
	}
	return true;
}

/* Returns true if no node of the queue is outside of it, but in the list of those that can be used again. */
static bool is_without_values(const struct hwt_lane *lane, struct hwt_queue *queue)
{
	if (!queue_is_empty(queue))
		return false;
	if (queue == &lane->submitted)
		for (const struct hwt_reserve *reserve = lane->reserves; reserve != NULL; reserve = reserve->next)
			if (reserve->node != NULL)
				return false;
	return true;
}

/* Lets an empty queue begin again with one slab.  One in use, or whose lock another thread has, keeps what it has. */
static void restart(struct hwt_trim *trim, struct hwt_lane *lane, struct hwt_queue *queue)
{
	if (!hwt_queue_lock_soon(queue))
		return;
	if (is_without_values(lane, queue))
		trim->given -= hwt_queue_restart(queue);
	queue_unlock(queue);
}

/* Frees the slab ahead, if there is one.  No record of it ever served. */
static unsigned release_ahead(struct hwt_pool *pool, size_t *bytes)
{
	struct hwt_slab *ahead = pool_take_ahead(pool);

	if (ahead != NULL)
		ahead->next = NULL;
	return hwt_slabs_release(&ahead, 1, bytes);
}

/* Frees slabs of nodes that a restart has left, which are the worker's, and the slab ahead. */
static void free_nodes(struct hwt_lanes *lanes, struct hwt_lane *lane)
{
	struct hwt_trim *trim = &lanes->trim;
	size_t *given = &trim->given;
	unsigned n;

	if (!trim->entered) {
		restart(trim, lane, &lane->submitted);
		restart(trim, lane, &lane->cancelled);
		trim->entered = true;
		trim->count = lanes_count(lanes); /* lanes that were made meanwhile have their turn, too */
	}
	n = hwt_slabs_release(&lane->submitted.left, NODES_SLICE, given);
	n += hwt_slabs_release(&lane->cancelled.left, NODES_SLICE, given);
	n += release_ahead(&lane->pool, given);
	if (n == 0)
		next_lane(lanes, PHASE_GIVE_BACK);
}

bool hwt_trim_step(struct hwt_lanes *lanes)
{
	struct hwt_trim *trim = &lanes->trim;
	struct hwt_lane *lane = trim->phase != PHASE_NONE ? lanes->made[trim->lane] : NULL;
	bool stalled = false;

	switch (trim->phase) {
	case PHASE_NAME:
		name(lanes, lane);
		break;
	case PHASE_SORT_FREE:
	case PHASE_SORT_RETURNED:
		sort(lanes, lane);
		break;
	case PHASE_PUT_REST:
		stalled = !put_rest(lanes, lane);
		break;
	case PHASE_TAKE_OUT:
		take_out(lanes, lane);
		break;
	case PHASE_PUT_BACK:
		stalled = !put_back_some(lanes);
		break;
	case PHASE_NODES:
		free_nodes(lanes, lane);
		break;
	case PHASE_GIVE_BACK:
		if (!hwt_sorter_give_back(&lanes->sorter, &trim->given))
			enter(trim, PHASE_NONE);
		break;
	default:
		break;
	}
	trim->stalled = stalled;
	return trim->phase != PHASE_NONE;
}
