/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The free records of a lane.
 *
 * Structure
 *
 *   free      a list of records that have served.  Only the holder of the lane's lock touches it.
 *   slabs     where records come from that never served.
 *   ahead     the next slab, which the worker has made and touched; ahead.c.
 *   returned  the chain of records that have come back.  The worker splices on it once a pass; a producer takes all of
 *             it by one exchange.
 *
 *   Slabs double from 4 KiB to 2 MiB, so that a timer with a handful of timeouts stays small.  Their addresses stay
 *   the timer's until it is destroyed (record.h: a record's memory stays a record).  The memory behind slabs of 2 MiB
 *   may go back to the system before (sorter.h).
 *
 *   Each record of a chain points to the one HWT_RETURN_AHEAD places further on, and taking the record prefetches that
 *   one.  The worker's core was the last to write a record that comes back, and a cache miss for each would be the
 *   largest cost of hwt_new_timeout.
 *
 * Threads
 *
 *   pool_*      under the lane's submit lock.
 *   returned_*  splice: the worker; push: any thread that has ended a record; take_all: any thread that holds the lock
 *               of a lane, this one or another.
 *
 * Ordering
 *
 *   [home]  splice or push (release) -> take_all (acquire): the worker is done with the records.  Only whole chains are
 *           taken, so the exchanges need no counter against reuse.
 */
#ifndef HWT_POOL_H
#define HWT_POOL_H

#include "base/mem.h"
#include "base/record.h"
#include "base/slab.h"

#define HWT_RETURN_AHEAD 8

extern const struct hwt_slab_kind hwt_record_slab;

/* The records of a slab of the last size. */
#define HWT_LARGE_RECORDS ((HWT_HUGE_PAGE - HWT_LINE) / sizeof(struct hwt_record))

/* The head of a slab of records.  sorter.h has the threads of what follows `lane`. */
struct hwt_record_slab {
	struct hwt_slab slab;
	_Atomic(struct hwt_lane *) lane;         /* to which it belongs, or did last */
	uint64_t generation;                     /* none of its records ever had a higher one when it was given back */
	struct hwt_record *sorted, *sorted_last; /* free records of this slab, in the hands of the worker */
	uint32_t sorted_count;
	bool is_given; /* its memory went back to the system */
};

struct hwt_pool {
	struct hwt_lane *lane;
	uint64_t carve_word; /* what the next record to be carved gets */
	struct hwt_record *free;
	struct hwt_slabs slabs;
	size_t records; /* of all slabs */
	_Atomic(struct hwt_slab *) ahead;
	_Atomic bool wants_ahead;
};

typedef _Atomic(struct hwt_record *) hwt_returned;

/* A chain that the worker builds: records in the order in which they ended. */
struct hwt_chain {
	struct hwt_record *first, *last;
	struct hwt_record *recent[HWT_RETURN_AHEAD];
	size_t count;
};

/* Returns the lane of a slab that has one.  Relaxed: the caller found the slab under a lock that orders it. */
static inline struct hwt_lane *record_slab_lane(struct hwt_record_slab *slab)
{
	return atomic_load_explicit(&slab->lane, memory_order_relaxed);
}

void hwt_pool_destroy(struct hwt_pool *pool);

/* Adds a slab of the last size that served before.  Its records begin above all generations that it ever gave out. */
void hwt_pool_adopt(struct hwt_pool *pool, struct hwt_record_slab *slab);

/* Returns true if the next slab that the pool needs is of the last size. */
bool hwt_pool_is_large(const struct hwt_pool *pool);

/* Adds a slab to carve from: the one ahead, or a new one.  Returns false without memory. */
bool hwt_pool_grow(struct hwt_pool *pool);

/* Takes the slab ahead, NULL if there is none. */
static inline struct hwt_slab *pool_take_ahead(struct hwt_pool *pool)
{
	return atomic_exchange_explicit(&pool->ahead, NULL, memory_order_acquire); /* [ahead] */
}

/* Returns the bytes of the slab ahead.  Relaxed: no other data depends on the number. */
static inline size_t pool_bytes_ahead(const struct hwt_pool *pool)
{
	return atomic_load_explicit(&pool->ahead, memory_order_relaxed) != NULL ? HWT_HUGE_PAGE : 0;
}

/* Returns a record that has served, NULL if there is none. */
static inline struct hwt_record *pool_pop(struct hwt_pool *pool)
{
	struct hwt_record *record = pool->free;

	if (record != NULL) {
		pool->free = record->free_next;
		record_prefetch(record->free_ahead);
	}
	return record;
}

/* Returns a record that has not served since its slab came to the pool.  The slab must not be used up. */
static inline struct hwt_record *pool_carve(struct hwt_pool *pool)
{
	struct hwt_record *record = slabs_carve(&pool->slabs, sizeof(struct hwt_record));

	/* Relaxed: take publishes it.  Not a plain store: a stale handle may lead to a slab that has served before. */
	atomic_store_explicit(&record->word, pool->carve_word, memory_order_relaxed);
	return record;
}

/* Puts back a record that was popped or carved and not used. */
static inline void pool_push(struct hwt_pool *pool, struct hwt_record *record)
{
	record->free_next = pool->free;
	record->free_ahead = record;
	pool->free = record;
}

/* Takes the whole chain, NULL if there is none. */
static inline struct hwt_record *returned_take_all(hwt_returned *returned)
{
	/*
	 * Looks first, as an exchange would take the line from the worker for nothing.  Relaxed: the exchange orders.
	 */
	if (atomic_load_explicit(returned, memory_order_relaxed) == NULL)
		return NULL;
	HWT_POINT("returned take");
	return atomic_exchange_explicit(returned, NULL, memory_order_acquire); /* [home] */
}

/* Appends a record, and makes the one HWT_RETURN_AHEAD places before it point to it. */
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

/*
 * Returns one record from a thread that is not the worker.  It races with the worker's splice and with a producer that
 * takes all; the exchange fails if the head has changed.  If the old head has been taken and come back meanwhile, the
 * exchange succeeds and the link is right again: whatever hangs behind the head is what this record now leads to.
 */
static inline void returned_push(hwt_returned *returned, struct hwt_record *record)
{
	struct hwt_record *old = atomic_load_explicit(returned, memory_order_relaxed); /* relaxed: only linked */

	record->free_ahead = record;
	do {
		record->free_next = old;
		HWT_POINT("returned push");
	} while (!atomic_compare_exchange_weak_explicit(returned, &old, record, memory_order_release, /* [home] */
							memory_order_relaxed));
}

/* Puts a whole chain in front of the records that have come back, and empties it. */
static inline void returned_splice(hwt_returned *returned, struct hwt_chain *chain)
{
	struct hwt_record *old;

	if (chain->first == NULL)
		return;
	/* Relaxed: the old chain is only linked to, not read. */
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
