/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The free records of a lane: those of the slab that it owns.
 *
 *   free      a list of records that have served.
 *   carve     the rest of the slab's span, which never served.
 *   slab      where free and carve are from; NULL: the lane owns none.
 *
 *   When the list is empty, the lane takes what has come home to its slab; if that is nothing, it carves.  When the
 *   span is used up, too, it searches the slabs that nobody owns, in a fixed order, for one that offers many records,
 *   and goes on behind that the next time.  After each look of the worker (look.c) it begins again at the front.  So a
 *   load that has become light uses the first slabs, and the others become empty.  Only if there is none does the lane
 *   take a span more, a slab that was given back, or a new one.
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
	uint64_t carve_word; /* what the next record to be carved gets */
	uint32_t out;        /* the slab's (S2), while the lane owns it */
	unsigned looks;      /* of the worker, when the lane last searched */
	struct hwt_record_slab *slab;
	struct hwt_record_slab *cursor; /* where it searched last; NULL: nowhere */
	struct hwt_record_slabs *slabs;
	const void *owner; /* the lane */
};

/* What a slab must offer. */
enum hwt_offer {
	OFFER_MANY, /* many records that came home, or any that its last lane has left */
	OFFER_ROOM, /* memory that it has not taken yet, too */
	OFFER_ANY   /* a single record, too */
};

/* Returns a record of the pool's own slab, after pool_pop has found none.  NULL: there is none. */
struct hwt_record *hwt_pool_refill(struct hwt_pool *pool);

/* Returns a record of a slab that nobody owned, and which offers so much.  NULL: there is none. */
struct hwt_record *hwt_pool_search(struct hwt_pool *pool, enum hwt_offer offer);

/* Returns a record of new memory.  NULL: there is none. */
struct hwt_record *hwt_pool_grow(struct hwt_pool *pool);

/*
 * Has a slab whose pages the system has provided wait for the next lane that needs one, if there is memory.  The
 * worker: the first write to a page is the dearest part of a new timeout, and producers then need not make it.
 */
void hwt_pool_prepare(struct hwt_record_slabs *slabs);

/* Lets the slab go, if there is one. */
void hwt_pool_leave(struct hwt_pool *pool);

/* Takes over the slab of another pool, whose lock the caller holds, too, if it offers so much.  Returns a record. */
struct hwt_record *hwt_pool_take_over(struct hwt_pool *pool, struct hwt_pool *from, enum hwt_offer offer);

/* Puts back a record that was taken and not used. */
void hwt_pool_unused(struct hwt_pool *pool, struct hwt_record *record);

/* Returns a record that has served, NULL if there is none. */
static inline struct hwt_record *pool_pop(struct hwt_pool *pool)
{
	struct hwt_record *record = pool->free;

	if (record != NULL) {
		pool->free = record_next(record);
		pool->out++;
		/* Relaxed: as record_next. */
		record_prefetch(atomic_load_explicit(&record->free_ahead, memory_order_relaxed));
	}
	return record;
}

/* How many records ahead to fetch one: the processor itself goes ahead no further than to the end of a page. */
#define CARVE_AHEAD 16

/* Returns a record that has not served since its slab was made, or given back.  The span is not used up. */
static inline struct hwt_record *pool_carve(struct hwt_pool *pool)
{
	struct hwt_record *record = (struct hwt_record *)(void *)pool->carve;

	pool->carve += sizeof(*record);
	prefetch_for_write(pool->carve + CARVE_AHEAD * sizeof(*record)); /* beyond the span: useless and harmless */
	pool->out++;
	/* Relaxed: take publishes it.  Not a plain store: a stale handle may lead to a slab that has served before. */
	atomic_store_explicit(&record->word, pool->carve_word, memory_order_relaxed);
	return record;
}

/* Returns how many bytes are left of the span. */
static inline size_t pool_span(const struct hwt_pool *pool)
{
	return (size_t)(pool->carve_end - pool->carve);
}

static inline bool pool_has_span(const struct hwt_pool *pool)
{
	return pool->carve != pool->carve_end;
}

/* Returns true if nothing has come home to the slab of a span.  Relaxed: what comes home meanwhile is found later. */
static inline bool pool_has_only_span(const struct hwt_pool *pool)
{
	return pool_has_span(pool) && atomic_load_explicit(&pool->slab->home, memory_order_relaxed) == 0;
}

#endif
