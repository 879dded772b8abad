/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a thread has set aside for its next timeouts: hwt_reserve.
 *
 * Structure
 *
 *   lane->reserves --> [ thread, records, nodes ] --> [ another thread of this lane ]
 *   all            --> [ the same ] --> [ any other thread, lane and timer of the process ]
 *
 *   A thread takes from its reserve when all else has failed: what came home, the slabs, other lanes, the system.  So a
 *   reserve costs nothing as long as there is memory, and no other thread uses it up.  A timeout takes a record, one
 *   more for an extension, and a node.  The worker needs no memory: a wheel that has none for a place has its unplaced
 *   list, and a cancel without a node flags its record.
 *
 *   Records of a reserve are out of their slabs (record_slab.h).  Its nodes are in a block of their own.  The first one
 *   that is used makes the block a slab of the queue, where used nodes stay.
 *
 *   A reserve goes when its thread asks for none, when the thread ends, or with its timer.  The list of all is for the
 *   end of a thread: by then a timer may have been destroyed, and its reserves are in no list any more.
 *
 * Threads
 *
 *   The lane's list, and what a reserve has: under the lane's submit lock.  A reserve is its thread's.  The list of
 *   all: under the mutex, which comes before a lane's lock, and which a fork holds, so that it is free in the child.
 *
 * Invariant
 *
 *   V1  records and nodes of a reserve are in no other list.
 */
#include "lane/reserve.h"
#include "lane/find.h"
#include "base/mem.h"

#include <errno.h>

/* Records set aside for each time that the lock is held, so that other threads of the lane can get in. */
#define SLICE 1024

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hwt_reserve *all;
static pthread_key_t key; /* of each thread with a reserve: its hwt_own_number */
static bool has_key;      /* under the mutex */

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

struct hwt_record *hwt_reserve_record(struct hwt_lane *lane)
{
	struct hwt_reserve *reserve = find(lane);

	return reserve != NULL ? pop_record(reserve) : NULL;
}

hwt_node *hwt_reserve_node(struct hwt_lane *lane)
{
	struct hwt_reserve *reserve = find(lane);

	if (reserve == NULL || reserve->node == reserve->node_end)
		return NULL;
	if (reserve->block != NULL)
		hwt_slabs_add_used(&lane->submitted.slabs, reserve->block);
	reserve->block = NULL;
	return reserve->node++;
}

void hwt_reserve_return(struct hwt_lane *lane, struct hwt_record *record, hwt_node *node)
{
	struct hwt_reserve *reserve = find(lane);

	if (record != NULL && reserve != NULL && reserve->records < 2 * reserve->timeouts)
		push_record(reserve, record);
	else if (record != NULL)
		hwt_pool_unused(&lane->pool, record);
	if (node != NULL && reserve != NULL && node + 1 == reserve->node)
		reserve->node--;
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

/* Makes the records as many as n timeouts need, by some of them.  true: no more is to be done. */
static bool adjust(struct hwt_lane *lane, struct hwt_reserve *reserve, uint64_t n, int *rc)
{
	reserve->timeouts = n;
	for (unsigned i = 0; i < SLICE; i++) {
		struct hwt_record *record;

		if (reserve->records == 2 * n)
			return true;
		if (reserve->records > 2 * n) {
			hwt_pool_unused(&lane->pool, pop_record(reserve));
		} else if ((record = new_record(lane)) != NULL) {
			push_record(reserve, record);
		} else {
			*rc = ENOMEM;
			return true;
		}
	}
	return false;
}

/* Does so slice by slice, unless the lane is closed. */
static int resize(struct hwt_lane *lane, struct hwt_reserve *reserve, uint64_t n)
{
	bool done = false;
	int rc = 0;

	while (!done) {
		queue_lock(&lane->submitted);
		if (lane_is_closed(lane)) {
			rc = ECANCELED;
			done = true;
		} else {
			done = adjust(lane, reserve, n, &rc);
		}
		queue_unlock(&lane->submitted);
	}
	return rc;
}

/*
 * Gives the queue the nodes that are its own.  While the lane knows of any, a trim leaves their slab (look.c): so this
 * comes before the reserve is taken out.
 */
static void give_nodes(struct hwt_lane *lane, struct hwt_reserve *reserve)
{
	while (reserve->block == NULL && reserve->node != reserve->node_end) {
		queue_lock(&lane->submitted);
		for (unsigned i = 0; i < SLICE && reserve->node != reserve->node_end; i++)
			queue_node_unused(&lane->submitted, reserve->node++);
		queue_unlock(&lane->submitted);
	}
}

/* Returns a block with room for n nodes.  NULL without memory. */
static struct hwt_slab *new_block(uint64_t n)
{
	size_t bytes = sizeof(struct hwt_slab) + (size_t)n * sizeof(hwt_node);
	struct hwt_slab *block = n < (SIZE_MAX - sizeof(*block)) / sizeof(hwt_node)
				     ? hwt_mem_block(hwt_node_slab.align, bytes)
				     : NULL;

	if (block != NULL)
		block->bytes = bytes;
	return block;
}

/* Puts a new block in the place of the nodes that there are. */
static void set_nodes(struct hwt_lane *lane, struct hwt_reserve *reserve, struct hwt_slab *block, uint64_t n)
{
	hwt_node *nodes = (hwt_node *)(void *)(block + 1);
	struct hwt_slab *before;

	give_nodes(lane, reserve);
	queue_lock(&lane->submitted);
	before = reserve->block;
	reserve->block = block;
	reserve->node = nodes;
	reserve->node_end = nodes + n;
	queue_unlock(&lane->submitted);
	hwt_mem_free(before); /* only now: statistics have read its size under the lock */
}

static void take_out(struct hwt_reserve *reserve)
{
	struct hwt_lane *lane = reserve->lane;
	struct hwt_reserve **link = &lane->reserves;

	queue_lock(&lane->submitted);
	while (*link != reserve)
		link = &(*link)->next;
	*link = reserve->next;
	queue_unlock(&lane->submitted);
}

/* Gives all back that a reserve has.  Under the mutex. */
static void dissolve(struct hwt_reserve *reserve)
{
	struct hwt_record *record;

	give_nodes(reserve->lane, reserve);
	take_out(reserve);
	hwt_mem_free(reserve->block);
	while ((record = pop_record(reserve)) != NULL)
		record_slab_return_one(record);
	lanes_stir(reserve->lane->lanes);
	*reserve->link = reserve->other;
	if (reserve->other != NULL)
		reserve->other->link = reserve->link;
	hwt_mem_free(reserve);
}

/* The thread of this number ends. */
static void end_thread(void *number)
{
	struct hwt_reserve *next;

	pthread_mutex_lock(&mutex);
	for (struct hwt_reserve *reserve = all; reserve != NULL; reserve = next) {
		next = reserve->other;
		if (reserve->thread == (uint32_t)(uintptr_t)number)
			dissolve(reserve);
	}
	pthread_mutex_unlock(&mutex);
}

static void lock_for_fork(void)
{
	pthread_mutex_lock(&mutex);
}

static void unlock_after_fork(void)
{
	pthread_mutex_unlock(&mutex);
}

/* A child may make timers of its own.  Those of its parent are none of its concern. */
static void forget_in_child(void)
{
	all = NULL;
	pthread_mutex_unlock(&mutex);
}

/* Returns false if the system refuses; the next call asks again.  Under the mutex. */
static bool make_key(void)
{
	static bool has_handlers;

	if (!has_handlers)
		has_handlers = pthread_atfork(lock_for_fork, unlock_after_fork, forget_in_child) == 0;
	if (has_handlers && !has_key)
		has_key = pthread_key_create(&key, end_thread) == 0;
	return has_key;
}

/* A thread may live longer than the library, if that was loaded at run time. */
static __attribute__((destructor)) void delete_key(void)
{
	if (has_key)
		(void)pthread_key_delete(key);
}

/* Makes the reserve of the calling thread.  NULL without memory. */
static struct hwt_reserve *make(struct hwt_lane *lane)
{
	struct hwt_reserve *reserve;
	bool made;

	pthread_mutex_lock(&mutex);
	made = make_key();
	pthread_mutex_unlock(&mutex);
	if (!made || hwt_mem_refused() || pthread_setspecific(key, (void *)(uintptr_t)hwt_own_number) != 0)
		return NULL;
	reserve = hwt_mem_zeroed(alignof(struct hwt_reserve), sizeof(*reserve));
	if (reserve == NULL)
		return NULL;
	reserve->thread = hwt_own_number;
	reserve->lane = lane;
	pthread_mutex_lock(&mutex);
	reserve->other = all;
	reserve->link = &all;
	if (all != NULL)
		all->link = &reserve->other;
	all = reserve;
	pthread_mutex_unlock(&mutex);
	queue_lock(&lane->submitted);
	reserve->next = lane->reserves;
	lane->reserves = reserve;
	queue_unlock(&lane->submitted);
	return reserve;
}

/* Sets aside what the calling thread needs for n > 0 timeouts. */
static int set_aside(struct hwt_lane *lane, struct hwt_reserve *reserve, uint32_t n)
{
	uint64_t before = reserve->timeouts;
	bool has_nodes = before == n && reserve->block != NULL;
	struct hwt_slab *block = has_nodes ? NULL : new_block(n);
	int rc;

	if (block == NULL && !has_nodes)
		return ENOMEM;
	rc = resize(lane, reserve, n);
	if (rc == ENOMEM)
		(void)resize(lane, reserve, before < n ? before : n);
	if (rc == 0 && !has_nodes)
		set_nodes(lane, reserve, block, n);
	else
		hwt_mem_free(block);
	return rc;
}

int hwt_lane_reserve(struct hwt_lane *lane, uint32_t n)
{
	struct hwt_reserve *reserve;
	bool closed, is_new;
	int rc = 0;

	queue_lock(&lane->submitted);
	reserve = find(lane);
	closed = lane_is_closed(lane);
	queue_unlock(&lane->submitted);
	if (closed)
		return ECANCELED;
	is_new = reserve == NULL;
	if (is_new && (n == 0 || (reserve = make(lane)) == NULL))
		return n == 0 ? 0 : ENOMEM;
	if (n > 0)
		rc = set_aside(lane, reserve, n);
	if (n == 0 || (rc != 0 && is_new)) {
		pthread_mutex_lock(&mutex);
		dissolve(reserve);
		pthread_mutex_unlock(&mutex);
	} else {
		lanes_stir(lane->lanes); /* what could not all be had has come home, too */
	}
	return rc;
}

void hwt_reserves_destroy(struct hwt_lane *lane)
{
	pthread_mutex_lock(&mutex);
	while (lane->reserves != NULL)
		dissolve(lane->reserves);
	pthread_mutex_unlock(&mutex);
}
