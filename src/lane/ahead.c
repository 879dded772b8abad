/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A slab ahead: the worker makes the next slab of a lane that grows, and touches its pages; lane.h.
 *
 * The first write to a page is the dearest part of a new timeout: the system clears the page, and on a virtual machine
 * the host may have to find it first.  A producer that begins a large slab asks for the next one.  The worker, which
 * mostly has another processor, makes it between two batches of records.
 *
 *     producer, under the submit lock            worker, before each batch
 *     takes the slab ahead, or makes one
 *     wants_ahead                    [ahead] ->  looks, and makes a slab
 *     takes it with the next growth  <- [ahead]  ahead = slab
 *
 * Nobody waits.  A producer that comes before the slab makes one itself, and the worker's serves for the growth after
 * that.  So the two never touch the same pages, and work side by side if pages are dear.  A lane has at most one slab
 * ahead, and none before it has AHEAD_FROM bytes: that is a fifth of its memory at most.  A timer that its caller
 * drives has none, as its driver is mostly the producer as well.
 */
#include "lane/lane.h"
#include "base/mem.h"

/* A lane with less is small, and may stay so. */
#define AHEAD_FROM (4 * HWT_HUGE_PAGE)

void hwt_lane_ask_ahead(struct hwt_lane *lane)
{
	struct hwt_lanes *lanes = lane->lanes;

	if (lanes->is_driven || slabs_bytes(&lane->pool.slabs) < AHEAD_FROM)
		return;
	/* Relaxed: the next store publishes it. */
	atomic_store_explicit(&lane->pool.wants_ahead, true, memory_order_relaxed);
	HWT_POINT("ask ahead");
	atomic_store_explicit(&lanes->want_ahead, true, memory_order_release); /* [ahead] */
}

static void make_ahead(struct hwt_pool *pool)
{
	struct hwt_slab *slab;

	/* Relaxed: the exchange on want_ahead, or a later one, has ordered it; a slab ahead is left alone. */
	if (!atomic_load_explicit(&pool->wants_ahead, memory_order_relaxed))
		return;
	atomic_store_explicit(&pool->wants_ahead, false, memory_order_relaxed);
	if (pool_bytes_ahead(pool) != 0)
		return;
	slab = hwt_mem_block(HWT_HUGE_PAGE, HWT_HUGE_PAGE);
	if (slab == NULL)
		return;
	hwt_mem_touch(slab, HWT_HUGE_PAGE);
	slab->bytes = HWT_HUGE_PAGE;
	HWT_POINT("made ahead");
	atomic_store_explicit(&pool->ahead, slab, memory_order_release); /* [ahead] */
}

void hwt_lanes_make_ahead(struct hwt_lanes *lanes)
{
	if (!atomic_exchange_explicit(&lanes->want_ahead, false, memory_order_acquire)) /* [ahead] */
		return;
	for (uint32_t i = 0; i < lanes_count(lanes); i++)
		make_ahead(&lanes->made[i]->pool);
}
