/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of buckets, and a tree of minima that knows which bucket is due first.
 *
 * Structure
 *
 *   Level 0 of the tree holds for each bucket the first tick at which a member may be due.  Each level above holds the
 *   minima of 16 entries below, and the last level has one entry: the answer.  512 buckets make levels of 512, 32, 2
 *   and 1.
 *
 *   An entry is kept as urgency, HWT_TICK_NEVER - tick.  Zeroed memory then means that nothing is ever due, so 2^20
 *   buckets cost nothing until they are used.  In terms of urgency the minima are maxima.
 *
 * Cost: ring_first_due O(1).  ring_lower usually O(1): it stops at the first level at which the bucket is not the first
 * of its group.  hwt_ring_set and hwt_ring_first O(levels).  hwt_ring_clear O(entries that are not "never").
 *
 * Threads: one, the worker.
 *
 * Invariants
 *
 *   D1  level[l + 1][i] = max of level[l][16 i .. 16 i + 15].
 *   D2  ring_first_due <= the first tick at which a member is due.  They differ only by members that were removed since
 *       their bucket was last collected or settled (wheel.h).
 */
#ifndef HWT_RING_H
#define HWT_RING_H

#include "base/grid.h"
#include "wheel/bucket.h"

#define RING_FANOUT_BITS 4
#define RING_FANOUT 16
#define RING_LEVELS 9 /* 2^32 buckets */

struct hwt_ring {
	struct hwt_bucket *buckets; /* NULL: not made */
	uint64_t *level[RING_LEVELS];
	unsigned top; /* index of the level with one entry */
};

/* Makes a ring of empty buckets.  Returns false, and changes nothing, if there is no memory. */
bool hwt_ring_make(struct hwt_ring *ring, uint32_t buckets);

/* Frees the buckets.  A ring that was never made is allowed. */
void hwt_ring_destroy(struct hwt_ring *ring);

/* Returns the bytes of a ring: `buckets` and their tree. */
size_t hwt_ring_bytes(uint32_t buckets);

/* Sets the entry of a bucket to exactly this tick. */
void hwt_ring_set(struct hwt_ring *ring, uint32_t bucket, int64_t tick);

/* Returns the bucket whose entry is ring_first_due. */
uint32_t hwt_ring_first(const struct hwt_ring *ring);

/* Makes all entries "never". */
void hwt_ring_clear(struct hwt_ring *ring);

/*
 * Takes up to max records out of the buckets, in no order.  Their places are stale.  Returns the number of records; if
 * it is less than max the ring is empty.
 */
size_t hwt_ring_sweep(struct hwt_ring *ring, struct hwt_stock *stock, struct hwt_record **all, size_t max);

static inline uint64_t ring_urgency(int64_t tick)
{
	return (uint64_t)(HWT_TICK_NEVER - tick);
}

/* Lowers the entry of a bucket to this tick, at which a member is due. */
static inline void ring_lower(struct hwt_ring *ring, uint32_t bucket, int64_t tick)
{
	uint64_t urgency = ring_urgency(tick);

	for (unsigned l = 0; l <= ring->top && ring->level[l][bucket] < urgency; l++, bucket >>= RING_FANOUT_BITS)
		ring->level[l][bucket] = urgency;
}

/* Returns the entry of a bucket. */
static inline int64_t ring_due(const struct hwt_ring *ring, uint32_t bucket)
{
	return HWT_TICK_NEVER - (int64_t)ring->level[0][bucket];
}

/* Returns the first tick at which a member may be due, or HWT_TICK_NEVER. */
static inline int64_t ring_first_due(const struct hwt_ring *ring)
{
	return HWT_TICK_NEVER - (int64_t)ring->level[ring->top][0];
}

#endif
