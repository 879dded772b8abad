/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a thread has set aside for its next timeouts: hwt_reserve.
 *
 * Structure
 *
 *   lane->reserves --> [ thread, records, nodes ] --> [ another thread of this lane ]
 *
 *   A thread takes from its reserve when all else has failed: what came back, the slabs, other lanes, the system.
 *   So a reserve costs nothing as long as there is memory, and no other thread uses it up.  A timeout takes a record,
 *   one more for an extension, and a node.  The worker needs no memory: a wheel that has none for a place has its
 *   unplaced list, and a cancel without a node marks its record.
 *
 * Threads: under the lane's submit lock.  A reserve is its thread's.
 *
 * Invariant
 *
 *   V1  records and nodes of a reserve are in no other list: no lane steals the records.
 */
#include "lane/lane.h"
#include "base/mem.h"

#include <errno.h>

/* So much is set aside at a time, and then other threads of the lane get their turn. */
#define SLICE 1024

static struct hwt_reserve *find(const struct hwt_lane *lane)
{
	struct hwt_reserve *reserve = lane->reserves;

	while (reserve != NULL && reserve->thread != hwt_own_number)
		reserve = reserve->next;
	return reserve;
}

static void push_record(struct hwt_reserve *reserve, struct hwt_record *record)
{
	record->free_next = reserve->record;
	record->free_ahead = record;
	reserve->record = record;
	reserve->records++;
}

static struct hwt_record *pop_record(struct hwt_reserve *reserve)
{
	struct hwt_record *record = reserve->record;

	if (record != NULL) {
		reserve->record = record->free_next;
		reserve->records--;
	}
	return record;
}

static void push_node(struct hwt_reserve *reserve, hwt_node *node)
{
	node->next = reserve->node;
	reserve->node = node;
	reserve->nodes++;
}

static hwt_node *pop_node(struct hwt_reserve *reserve)
{
	hwt_node *node = reserve->node;

	if (node != NULL) {
		reserve->node = node->next;
		reserve->nodes--;
	}
	return node;
}

struct hwt_record *hwt_reserve_record(struct hwt_lane *lane)
{
	struct hwt_reserve *reserve = find(lane);

	return reserve != NULL ? pop_record(reserve) : NULL;
}

hwt_node *hwt_reserve_node(struct hwt_lane *lane)
{
	struct hwt_reserve *reserve = find(lane);

	return reserve != NULL ? pop_node(reserve) : NULL;
}

void hwt_reserve_return(struct hwt_lane *lane, struct hwt_record *record, hwt_node *node)
{
	struct hwt_reserve *reserve = find(lane);

	if (record != NULL && reserve != NULL && reserve->records < 2 * reserve->timeouts)
		push_record(reserve, record);
	else if (record != NULL)
		hwt_pool_unused(&lane->pool, record);
	if (node != NULL && reserve != NULL && reserve->nodes < reserve->timeouts)
		push_node(reserve, node);
	else if (node != NULL)
		queue_node_unused(&lane->submitted, node);
}

static struct hwt_record *new_record(struct hwt_lane *lane)
{
	struct hwt_record *record = pool_pop(&lane->pool);

	if (record == NULL)
		record = hwt_lane_find_at_hand(lane);
	return record != NULL ? record : hwt_lane_find_more(lane);
}

/* Makes the reserve as large as n timeouts need, or smaller again, by some of it.  true: no more is to be done. */
static bool adjust(struct hwt_lane *lane, struct hwt_reserve *reserve, uint64_t n, int *rc)
{
	reserve->timeouts = n;
	for (unsigned i = 0; i < SLICE; i++) {
		struct hwt_record *record;
		hwt_node *node;

		if (reserve->records > 2 * n) {
			hwt_pool_unused(&lane->pool, pop_record(reserve));
		} else if (reserve->nodes > n) {
			queue_node_unused(&lane->submitted, pop_node(reserve));
		} else if (reserve->records < 2 * n) {
			if ((record = new_record(lane)) == NULL)
				break;
			push_record(reserve, record);
		} else if (reserve->nodes < n) {
			if ((node = queue_node(&lane->submitted)) == NULL)
				break;
			push_node(reserve, node);
		} else {
			return true;
		}
		if (i + 1 == SLICE)
			return false;
	}
	*rc = ENOMEM;
	return true;
}

/* The reserve of the calling thread; makes it.  NULL without memory. */
static struct hwt_reserve *make(struct hwt_lane *lane)
{
	struct hwt_reserve *reserve = find(lane);

	if (reserve != NULL)
		return reserve;
	reserve = hwt_mem_zeroed(alignof(struct hwt_reserve), sizeof(*reserve));
	if (reserve == NULL)
		return NULL;
	reserve->thread = hwt_own_number;
	reserve->next = lane->reserves;
	lane->reserves = reserve;
	return reserve;
}

static int resize(struct hwt_lane *lane, uint64_t n, uint64_t *before)
{
	struct hwt_reserve *reserve;
	bool done = false;
	int rc = 0;

	while (!done) {
		queue_lock(&lane->submitted);
		reserve = make(lane);
		if (lane_is_closed(lane) || reserve == NULL) {
			rc = lane_is_closed(lane) ? ECANCELED : ENOMEM;
			done = true;
		} else {
			*before = *before == UINT64_MAX ? reserve->timeouts : *before;
			done = adjust(lane, reserve, n, &rc);
		}
		queue_unlock(&lane->submitted);
	}
	return rc;
}

int hwt_lane_reserve(struct hwt_lane *lane, uint32_t n)
{
	uint64_t before = UINT64_MAX, ignored = 0;
	int rc = resize(lane, n, &before);

	if (rc == ENOMEM && before != UINT64_MAX)
		(void)resize(lane, before < n ? before : n, &ignored);
	return rc;
}

void hwt_reserves_destroy(struct hwt_lane *lane)
{
	while (lane->reserves != NULL) {
		struct hwt_reserve *reserve = lane->reserves;

		lane->reserves = reserve->next;
		hwt_mem_free(reserve);
	}
}
