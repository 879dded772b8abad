/* SPDX-License-Identifier: BSD-2-Clause */
/* The slabs of a lane's records; pool.h. */
#include "lane/pool.h"
#include "base/debug.h"
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
static_assert(sizeof(struct hwt_slab) <= HWT_LINE, "no record lies on the head of its slab");

#ifdef HWT_DEBUG
static _Atomic(struct hwt_slab *) buried; /* the slabs of destroyed timers, so that a checker of leaks finds them */

/* Keeps all slabs.  A handle of their timer leads to a record that says so. */
static void bury(struct hwt_slabs *slabs)
{
	while (slabs->newest != NULL) {
		struct hwt_slab *slab = slabs->newest;
		char *end = slab_end(slab, &hwt_record_slab);

		for (char *unit = slab_begin(slab, &hwt_record_slab); unit < end; unit += sizeof(struct hwt_record))
			/* Release: for the sake of the pair, [made].  No other thread may be in a call. */
			atomic_store_explicit(&((struct hwt_record *)(void *)unit)->lane,
					      (struct hwt_lane *)(void *)&hwt_debug_dead, memory_order_release);
		slabs->newest = slab->next;
		slab->next = atomic_load_explicit(&buried, memory_order_relaxed); /* relaxed: the exchange checks it */
		/* Relaxed: nothing is read through it. */
		while (!atomic_compare_exchange_weak_explicit(&buried, &slab->next, slab, memory_order_relaxed,
							      memory_order_relaxed))
			;
	}
}
#endif

void hwt_pool_destroy(struct hwt_pool *pool)
{
#ifdef HWT_DEBUG
	bury(&pool->slabs);
#endif
	hwt_slabs_destroy(&pool->slabs);
}

bool hwt_pool_grow(struct hwt_pool *pool)
{
	if (!hwt_slabs_grow(&pool->slabs, &hwt_record_slab))
		return false;
	pool->records += slabs_rest(&pool->slabs) / sizeof(struct hwt_record);
	return true;
}
