/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hierarchical wheel: levels of buckets, each level coarser than the one below by its number of buckets.
 *
 * Structure
 *
 *   With N = 2^b buckets to a wheel and ticks of t, a bucket of level l holds the timeouts of N^l ticks, its block:
 *
 *       level   granularity   range            with N = 64, t = 1 ms      with N = 512, t = 1 ms
 *         0     t             2 N t            1 ms         128 ms        1 ms         1 s
 *         1     N t           2 N^2 t          64 ms        8 s           512 ms       8.7 min
 *         2     N^2 t         2 N^3 t          4 s          8.7 min       4.4 min      3.1 days
 *         3     N^3 t         2 N^4 t          4.4 min      9.3 h         37 h         4.4 years
 *         4     N^4 t         2 N^5 t          4.7 h        25 days       2.2 years    ...
 *
 *   A level is made when it is first needed, and there is a level for every tick of an int64_t.  Granularity is not
 *   precision: a timeout comes down level by level, and is collected at exactly its tick.
 *
 *   Blocks are aligned; distance does not matter.  A level has 2 N buckets, for two blocks of the level above: the
 *   present block and the next.
 *
 *       level 1   | . . . . C n . . | . . . . . . . . |      C: the present block.  Its bucket is empty
 *                         |  \                               n: the next block.  It is being brought down
 *                         |    \
 *       level 0   | . . . c . . . . | . . . . . . . . |      c: the present tick
 *                     of C                of n
 *
 *   The next bucket of a level is brought down in slices while the present block lasts, so that a million timeouts in
 *   it do not delay what is due meanwhile.  A bucket with few timeouts waits until the first of them is due, so a
 *   lonely timeout causes no wake-up on its way down.
 *
 *   The tree of each level (ring.h) knows which tick comes next, for a timeout or for a slice.  The wheel goes to that
 *   tick at once; empty buckets are not touched.
 *
 * Order
 *
 *   A timeout goes to the coarsest level at which its bucket has members, or else to the finest level that reaches it.
 *   So while a bucket is being brought down, from its front, later timeouts of its block queue up at its end.  Once the
 *   bucket is empty, its timeouts are below, and later ones are placed behind them.  So no timeout overtakes another
 *   (W2).
 *
 * Threads: see wheel.h.
 *
 * Invariants
 *
 *   K1  a member of level l belongs to the present block of level l + 1, or to the next.
 *   K2  the bucket of the present block is empty, at each level above 0.
 *   K3  the entry of a bucket in the tree <= the tick of each of its members.
 *
 * References: G. Varghese, T. Lauck, "Hashed and hierarchical timing wheels", SOSP 1987, scheme 7.  Kafka's TimingWheel
 * places by distance, rounds down, and keeps its buckets in a priority queue.
 */
#ifndef HWT_LEVELS_H
#define HWT_LEVELS_H

#include "wheel/ring.h"
#include "wheel/wheel.h"

#define HWT_LEVELS_MAX 63

/* A bucket of up to four chunks, some 120 records, comes down all at once when the first of them is due. */
#define FEW_CHUNKS 4

struct hwt_levels {
	struct hwt_wheel wheel;
	unsigned bits;
	uint32_t mask;            /* 2 N - 1 */
	unsigned top;             /* the highest level that has been made */
	uint8_t level_of_bit[64]; /* bits / level */
	struct hwt_ring level[HWT_LEVELS_MAX];
};

static inline struct hwt_levels *levels_of(struct hwt_wheel *wheel)
{
	return (struct hwt_levels *)wheel;
}

/* Returns the block of a tick at a level.  At level 0 that is the tick. */
static inline uint64_t block_of(const struct hwt_levels *h, int64_t tick, unsigned level)
{
	return (uint64_t)tick >> (h->bits * level);
}

static inline uint32_t index_of(const struct hwt_levels *h, uint64_t block)
{
	return (uint32_t)block & h->mask;
}

#endif
