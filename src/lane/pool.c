/* SPDX-License-Identifier: BSD-2-Clause */
/* The slabs of a lane's records; pool.h. */
#include "lane/pool.h"
#include "base/mem.h"

#include <stdalign.h>

const struct hwt_slab_kind hwt_record_slab = {
	.unit = sizeof(struct hwt_record),
	.head = HWT_LINE, /* the records begin on a line of their own */
	.align = 0,       /* so that a slab of 2 MiB can be one huge page */
	.first = 4096,
	.last = HWT_HUGE_PAGE,
};

static_assert(HWT_LINE % RECORD_ALIGN == 0 && HWT_LINE % alignof(struct hwt_record) == 0, "records are aligned");
static_assert(sizeof(struct hwt_record_slab) <= HWT_LINE, "no record lies on the head of its slab");

void hwt_pool_destroy(struct hwt_pool *pool)
{
	hwt_slabs_destroy(&pool->slabs);
	hwt_mem_free(pool_take_ahead(pool));
}

/* Counts the records of the newest slab, and notes what they begin with. */
static void begin(struct hwt_pool *pool, struct hwt_record_slab *slab, uint64_t word)
{
	atomic_store_explicit(&slab->lane, pool->lane, memory_order_release); /* [made] */
	pool->records += slabs_rest(&pool->slabs) / sizeof(struct hwt_record);
	pool->carve_word = word;
}

bool hwt_pool_grow(struct hwt_pool *pool)
{
	struct hwt_slab *ahead = pool_take_ahead(pool);
	struct hwt_record_slab *slab;

	if (ahead != NULL)
		hwt_slabs_adopt(&pool->slabs, &hwt_record_slab, ahead);
	else if (!hwt_slabs_grow(&pool->slabs, &hwt_record_slab))
		return false;
	slab = (struct hwt_record_slab *)(void *)pool->slabs.newest;
	slab->generation = 0;
	slab->sorted = slab->sorted_last = NULL;
	slab->sorted_count = 0;
	slab->is_given = false;
	begin(pool, slab, word_make(0, STATE_FREE));
	return true;
}

void hwt_pool_adopt(struct hwt_pool *pool, struct hwt_record_slab *slab)
{
	hwt_slabs_adopt(&pool->slabs, &hwt_record_slab, &slab->slab);
	/* No handle has this generation, and those to come have a higher one: a stale handle matches none of them. */
	begin(pool, slab, word_make(slab->generation + 1, STATE_FREE));
}

bool hwt_pool_is_large(const struct hwt_pool *pool)
{
	return pool->slabs.next_size == hwt_record_slab.last;
}
