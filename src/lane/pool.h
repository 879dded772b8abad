/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The free records of a lane.
 *
 * Structure
 *
 *   free      a list of records that have served, private to who holds the lane's lock.
 *   slabs     where records come from that never served.
 *   returned  what the worker has sent home, a chain spliced on once a pass; taken whole by one exchange.
 *
 *   Slabs double from 4 KiB to 2 MiB, so that a timer with a handful of timeouts stays small.  They are given back
 *   when the timer is destroyed, not before (record.h: a record's memory stays a record).
 *
 *   Each record of a chain knows the one HWT_RETURN_AHEAD places further on, which is prefetched when it is taken:
 *   every record coming home was last written by the worker's core, and one miss each would be the largest cost of
 *   hwt_new_timeout.
 *
 * Threads
 *
 *   pool_*      under the lane's submit lock.
 *   returned_*  splice: the worker; push: any thread that has a record to end; take_all: any thread under any lane's
 *               lock, its own or not.
 *
 * Ordering
 *
 *   [home]  splice (release) -> take_all (acquire): the worker is done with the records.  Only whole chains are
 *           taken, so the push needs no counter against reuse.
 */
#ifndef HWT_POOL_H
#define HWT_POOL_H

#include "base/record.h"
#include "base/slab.h"

#define HWT_RETURN_AHEAD 8

extern const struct hwt_slab_kind hwt_record_slab;

struct hwt_pool {
	struct hwt_record *free;
	struct hwt_slabs slabs;
	size_t records; /* of all slabs */
};

typedef _Atomic(struct hwt_record *) hwt_returned;

/* A chain under construction by the worker: records in the order in which they ended. */
struct hwt_chain {
	struct hwt_record *first, *last;
	struct hwt_record *recent[HWT_RETURN_AHEAD];
	size_t count;
};

void hwt_pool_destroy(struct hwt_pool *pool);

/* A new slab to carve from.  false without memory. */
bool hwt_pool_grow(struct hwt_pool *pool);

/* A record that has served, NULL when there is none. */
static inline struct hwt_record *pool_pop(struct hwt_pool *pool)
{
	struct hwt_record *record = pool->free;

	if (record != NULL) {
		pool->free = record->free_next;
		record_prefetch(record->free_ahead);
	}
	return record;
}

/* A record that never served.  The slab is not used up. */
static inline struct hwt_record *pool_carve(struct hwt_pool *pool)
{
	struct hwt_record *record = slabs_carve(&pool->slabs, sizeof(struct hwt_record));

	atomic_init(&record->word, word_make(0, STATE_FREE));
	return record;
}

/* Puts back a record that was popped or carved and not used. */
static inline void pool_push(struct hwt_pool *pool, struct hwt_record *record)
{
	record->free_next = pool->free;
	record->free_ahead = record;
	pool->free = record;
}

static inline struct hwt_record *returned_take_all(hwt_returned *returned)
{
	/* Look first: an exchange would take the line from the worker for nothing.  Relaxed, the exchange orders. */
	if (atomic_load_explicit(returned, memory_order_relaxed) == NULL)
		return NULL;
	HWT_POINT("returned take");
	return atomic_exchange_explicit(returned, NULL, memory_order_acquire); /* [home] */
}

static inline void chain_append(struct hwt_chain *chain, struct hwt_record *record)
{
	size_t ring = chain->count % HWT_RETURN_AHEAD;

	record->free_next = NULL;
	record->free_ahead = record;
	if (chain->last == NULL)
		chain->first = record;
	else
		chain->last->free_next = record;
	if (chain->count >= HWT_RETURN_AHEAD)
		chain->recent[ring]->free_ahead = record;
	chain->recent[ring] = record;
	chain->last = record;
	chain->count++;
}

/* The same for one record, by who ended it elsewhere than on the worker. */
static inline void returned_push(hwt_returned *returned, struct hwt_record *record)
{
	struct hwt_record *old = atomic_load_explicit(returned, memory_order_relaxed); /* relaxed: as below */

	record->free_ahead = record;
	do {
		record->free_next = old;
		HWT_POINT("returned push");
	} while (!atomic_compare_exchange_weak_explicit(returned, &old, record, memory_order_release, /* [home] */
							memory_order_relaxed));
}

static inline void returned_splice(hwt_returned *returned, struct hwt_chain *chain)
{
	struct hwt_record *old;

	if (chain->first == NULL)
		return;
	/* Relaxed: the old chain is only linked behind, not read. */
	old = atomic_load_explicit(returned, memory_order_relaxed);
	do {
		chain->last->free_next = old;
		HWT_POINT("returned splice");
	} while (!atomic_compare_exchange_weak_explicit(returned, &old, chain->first, memory_order_release, /* [home] */
							memory_order_relaxed));
	chain->first = chain->last = NULL;
	chain->count = 0;
}

#endif
