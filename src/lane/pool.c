/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a lane finds records when its free list is empty; pool.h. */
#include "lane/pool.h"

/* From this many records at home on a change of the slab pays off: it touches three cache lines. */
#define MANY 64

/* Takes over the free records of a slab, which the lane owns from now on. */
static void adopt(struct hwt_pool *pool, struct hwt_record_slab *slab)
{
	pool->slab = slab;
	pool->free = slab->free;
	pool->out = slab->out;
	pool->carve = record_slab_begin(slab) + slab->carve;
	pool->carve_end = record_slab_begin(slab) + record_slab_span(slab);
	/*
	 * No handle has this generation, and handles to come have higher ones: no stale handle matches a record of this
	 * slab.
	 */
	pool->carve_word = word_make(slab->base, STATE_FREE);
	slab->is_used = true;
}

void hwt_pool_leave(struct hwt_pool *pool)
{
	struct hwt_record_slab *slab = pool->slab;

	if (slab == NULL)
		return;
	slab->free = pool->free;
	slab->out = pool->out;
	slab->carve = (uint32_t)(pool->carve - record_slab_begin(slab));
	pool->slab = NULL;
	pool->free = NULL;
	pool->carve = pool->carve_end = NULL;
	hwt_record_slab_release(slab);
}

struct hwt_record *hwt_pool_refill(struct hwt_pool *pool)
{
	if (pool->slab == NULL)
		return NULL;
	pool->out -= record_slab_take_home(pool->slab, &pool->free);
	if (pool->free != NULL)
		return pool_pop(pool);
	return pool_has_span(pool) ? pool_carve(pool) : NULL;
}

/* Returns a record of the slab that the pool has just adopted. */
static struct hwt_record *first_of(struct hwt_pool *pool)
{
	struct hwt_record *record = pool_pop(pool);

	return record != NULL ? record : hwt_pool_refill(pool);
}

/* Returns true if enough records for the offer have come home to the slab.  Relaxed: a guess; the claim decides. */
static bool has_come_home(const struct hwt_record_slab *slab, enum hwt_offer offer)
{
	return home_count(atomic_load_explicit(&slab->home, memory_order_relaxed)) >= (offer == OFFER_ANY ? 1 : MANY);
}

/* Returns true if nobody owns the slab, and it has what `offer` names.  Relaxed: a guess; the claim decides. */
static bool offers(const struct hwt_record_slab *slab, enum hwt_offer offer)
{
	unsigned rest = atomic_load_explicit(&slab->rest, memory_order_relaxed);

	if (atomic_load_explicit(&slab->owner, memory_order_relaxed) != NULL)
		return false;
	return rest == REST_SOME || (rest == REST_ROOM && offer == OFFER_ROOM) || has_come_home(slab, offer);
}

/* Returns the slab behind this one; behind the last one, or NULL, the newest. */
static struct hwt_record_slab *next_slab(struct hwt_pool *pool, struct hwt_record_slab *slab)
{
	return slab != NULL && slab->next != NULL ? slab->next : record_slabs_newest(pool->slabs);
}

/*
 * Returns the slab at which a search begins: the newest after a look of the worker, otherwise the slab behind the
 * cursor.
 */
static struct hwt_record_slab *first_to_search(struct hwt_pool *pool)
{
	/* Relaxed: a hint. */
	unsigned looks = atomic_load_explicit(&pool->slabs->looks, memory_order_relaxed);

	if (looks != pool->looks)
		pool->cursor = NULL;
	pool->looks = looks;
	return next_slab(pool, pool->cursor);
}

/* Changes to another slab that has what `offer` names.  Returns false if there is none. */
static bool change(struct hwt_pool *pool, enum hwt_offer offer)
{
	struct hwt_record_slab *first = first_to_search(pool), *slab = first;

	if (first == NULL)
		return false;
	do {
		if (offers(slab, offer) && hwt_record_slab_claim(slab, pool->owner)) {
			hwt_pool_leave(pool);
			adopt(pool, slab);
			pool->cursor = slab;
			return true;
		}
		slab = next_slab(pool, slab);
	} while (slab != first);
	return false;
}

struct hwt_record *hwt_pool_search(struct hwt_pool *pool, enum hwt_offer offer)
{
	struct hwt_record *record = NULL;

	/* Another lane may have been there between the guess and the claim. */
	while (record == NULL && change(pool, offer))
		record = first_of(pool);
	return record;
}

/*
 * Extends the span of the pool's slab, with `all` to the end of the slab, and carves a record.  Returns NULL if there
 * is no room.
 */
static struct hwt_record *extend(struct hwt_pool *pool, bool all)
{
	struct hwt_record_slab *slab = pool->slab;

	if (slab == NULL || hwt_mem_refused() || !hwt_record_slab_extend(slab, all))
		return NULL;
	pool->carve_end = record_slab_begin(slab) + record_slab_span(slab);
	return pool_carve(pool);
}

struct hwt_record *hwt_pool_grow(struct hwt_pool *pool)
{
	struct hwt_record *record = extend(pool, false);
	bool all = pool->slab != NULL && !hwt_record_slab_has_room(pool->slab);
	struct hwt_record_slab *slab;

	if (record != NULL)
		return record;
	if (change(pool, OFFER_ROOM) && ((record = first_of(pool)) != NULL || (record = extend(pool, all)) != NULL))
		return record;
	slab = hwt_record_slab_make(pool->slabs, pool->owner);
	if (slab == NULL)
		return NULL;
	hwt_pool_leave(pool);
	adopt(pool, slab);
	return extend(pool, all);
}

void hwt_pool_prepare(struct hwt_record_slabs *slabs)
{
	struct hwt_pool pool = { .slabs = slabs, .owner = &hwt_record_slab_worker };
	struct hwt_record_slab *slab;
	struct hwt_record *record;

	atomic_store_explicit(&slabs->wanted, false, memory_order_relaxed); /* relaxed: a hint */
	if (!change(&pool, OFFER_ROOM) && (slab = hwt_record_slab_make(slabs, pool.owner)) != NULL)
		adopt(&pool, slab);
	record = extend(&pool, true);
	if (record != NULL) {
		hwt_mem_populate(record_slab_begin(pool.slab), SLAB_BYTES);
		hwt_pool_unused(&pool, record); /* it has served: a look gives the slab back if no lane comes */
	}
	hwt_pool_leave(&pool);
}

struct hwt_record *hwt_pool_take_over(struct hwt_pool *pool, struct hwt_pool *from, enum hwt_offer offer)
{
	struct hwt_record_slab *slab = from->slab;

	if (slab == NULL)
		return NULL;
	if (from->free == NULL && !pool_has_span(from) && !has_come_home(slab, offer))
		return NULL;
	hwt_pool_leave(from);
	if (!hwt_record_slab_claim(slab, pool->owner))
		return NULL;
	hwt_pool_leave(pool);
	adopt(pool, slab);
	return first_of(pool);
}

void hwt_pool_unused(struct hwt_pool *pool, struct hwt_record *record)
{
	if (record_slab_of(record) != pool->slab) { /* the lane has changed to another slab since */
		record_slab_return_one(record);
		return;
	}
	record_set_next(record, pool->free);
	record_set_ahead(record, record);
	pool->free = record;
	pool->out--;
}
