/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The free records of a lane: those of the slab that it owns.
 *
 *   free      the list of free records that have served.
 *   carve     the rest of the slab's span, which has not been carved yet.
 *   slab      the slab that they belong to; NULL: the lane owns none.
 *
 *   When the list is empty, the lane takes the records that have come home to its slab; if there are none, it carves.
 *   When the span is used up, too, the lane searches the slabs that nobody owns, in a fixed order, for one with many
 *   records.  The next search goes on behind that slab.  After each look of the worker (look.c) the search begins again
 *   at the front.  So a load that has become light uses the first slabs, and the others become empty.  If no slab has
 *   many records, the lane extends its span, takes a slab that was given back, or makes a new one.
 *
 *   A lane that has used up a whole slab takes the next one whole.  Otherwise spans double the slab, from 4 KiB on, so
 *   that a lane with a handful of timeouts stays small.
 *
 * Threads: all under the lane's submit lock.
 */
#ifndef HWT_POOL_H
#define HWT_POOL_H

#include "lane/record_slab.h"

struct hwt_pool {
	struct hwt_record *free;
	char *carve, *carve_end;
	uint64_t carve_word; /* the word of the next record to be carved */
	uint32_t out;        /* slab->out (S2), while the lane owns the slab */
	unsigned looks;      /* slabs->looks at the last search */
	struct hwt_record_slab *slab;
	struct hwt_record_slab *cursor; /* where the last search ended; NULL: none since the last look */
	struct hwt_record_slabs *slabs;
	const void *owner; /* the lane */
};

/* What a slab must offer. */
enum hwt_offer {
	OFFER_MANY, /* many records that came home, or any free or uncarved ones */
	OFFER_ROOM, /* as OFFER_MANY, or memory not yet taken from the system */
	OFFER_ANY   /* a single record is enough */
};

/* Returns a record of the pool's own slab, after pool_pop has found none.  NULL: the slab has none. */
struct hwt_record *hwt_pool_refill(struct hwt_pool *pool);

/*
 * Changes to a slab that nobody owns and that has what `offer` names, and returns a record of it.  NULL: there is none.
 */
struct hwt_record *hwt_pool_search(struct hwt_pool *pool, enum hwt_offer offer);

/* Returns a record of memory that never served.  NULL: there is no memory. */
struct hwt_record *hwt_pool_grow(struct hwt_pool *pool);

/*
 * Prepares a slab for the next lane that needs one, if there is memory: the system provides its pages now.  The worker
 * does this because the first write to a page is the most expensive part of a new timeout, and producers are spared it.
 */
void hwt_pool_prepare(struct hwt_record_slabs *slabs);

/* Gives up the ownership of the pool's slab, if it has one. */
void hwt_pool_leave(struct hwt_pool *pool);

/*
 * Takes over the slab of another pool, whose lock the caller also holds, if the slab has what `offer` names.  Returns a
 * record, or NULL.
 */
struct hwt_record *hwt_pool_take_over(struct hwt_pool *pool, struct hwt_pool *from, enum hwt_offer offer);

/* Puts back a record that was taken and not used. */
void hwt_pool_unused(struct hwt_pool *pool, struct hwt_record *record);

/* Takes a record from the free list.  Returns NULL if the list is empty. */
static inline struct hwt_record *pool_pop(struct hwt_pool *pool)
{
	struct hwt_record *record = pool->free;

	if (record != NULL) {
		pool->free = record_next(record);
		pool->out++;
		/* Relaxed, for the reason that record_next gives. */
		record_prefetch(atomic_load_explicit(&record->free_ahead, memory_order_relaxed));
	}
	return record;
}

/*
 * How many records ahead pool_carve prefetches: the processor itself prefetches no further than to the end of a page.
 */
#define CARVE_AHEAD 16

/* Carves a record, which has not served since its slab was made or given back.  The span must not be used up. */
static inline struct hwt_record *pool_carve(struct hwt_pool *pool)
{
	struct hwt_record *record = (struct hwt_record *)(void *)pool->carve;

	pool->carve += sizeof(*record);
	prefetch_for_write(pool->carve + CARVE_AHEAD * sizeof(*record)); /* beyond the span: useless and harmless */
	pool->out++;
	/*
	 * Relaxed: record_take publishes it.  Not a plain store: a stale handle may lead here if the slab has served
	 * before.
	 */
	atomic_store_explicit(&record->word, pool->carve_word, memory_order_relaxed);
	return record;
}

/* Returns the bytes of the span that have not been carved. */
static inline size_t pool_span(const struct hwt_pool *pool)
{
	return (size_t)(pool->carve_end - pool->carve);
}

static inline bool pool_has_span(const struct hwt_pool *pool)
{
	return pool->carve != pool->carve_end;
}

/*
 * Returns true if the pool can carve, and nothing has come home to its slab.  Relaxed: a record that comes home
 * meanwhile is found later.
 */
static inline bool pool_has_only_span(const struct hwt_pool *pool)
{
	return pool_has_span(pool) && atomic_load_explicit(&pool->slab->home, memory_order_relaxed) == 0;
}

#endif
