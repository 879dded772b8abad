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
 *   A level is made when it is first needed; what an int64_t can say has one.  Granularity is not precision: a timeout
 *   comes down level by level, and is collected at exactly its tick.
 *
 *   Places go by aligned blocks, not by distance.  A level has buckets for two blocks of the level above, the present
 *   one and the next, so 2 N of them:
 *
 *       level 1   | . . . . C n . . | . . . . . . . . |      C: the present block.  Its bucket is empty: all is below
 *                         |  \                               n: the next one.  Is being brought down
 *                         |    \
 *       level 0   | . . . c . . . . | . . . . . . . . |      c: the present tick
 *                     of C                of n
 *
 *   The next bucket of a level is brought down while the present block lasts, in slices, so that a million timeouts in
 *   it do not make late what is due meanwhile.  One with few timeouts waits until its first one is due: a lonely
 *   timeout wakes nobody on its way down.
 *
 *   Which tick wants attention next, for something that is due or for a slice, each level knows by a tree (due.h).
 *   Time goes there at once; a bucket that nothing is in is not touched.
 *
 * Order
 *
 *   A timeout goes to the coarsest level at which its bucket has members, or else to the finest that reaches it.  So
 *   while a bucket is being brought down, later ones for its block queue up behind in it; and when it is empty all
 *   that was in it is below, before them.  A bucket is brought down from its front.  So nobody overtakes (W2).
 *
 * Threads: see wheel.h.
 *
 * Invariants
 *
 *   K1  a member of level l is of a block of level l + 1 that is the present one or the next.
 *   K2  the bucket of the present block is empty, at each level above 0.
 *   K3  due.h's entry of a bucket <= the tick of every member of it.
 *
 * References: G. Varghese, T. Lauck, "Hashed and hierarchical timing wheels", SOSP 1987, scheme 7; Kafka's TimingWheel,
 * which places by distance, rounds down, and keeps its buckets in a priority queue.
 */
#ifndef HWT_LEVELS_H
#define HWT_LEVELS_H

#include "wheel/ring.h"
#include "wheel/wheel.h"

#define HWT_LEVELS_MAX 63

/* A bucket of so many chunks, some 120 records, is brought down all at once, when its first one is due. */
#define FEW_CHUNKS 4

struct hwt_levels {
	struct hwt_wheel wheel;
	unsigned bits;
	uint32_t mask;               /* of a level's buckets, those of two blocks */
	unsigned top;                /* levels above have not been made */
	uint8_t level_of_bit[64];    /* bits / level */
	_Atomic size_t levels_bytes; /* written by the worker */
	struct hwt_store store;
	struct hwt_ring level[HWT_LEVELS_MAX];
};

static inline struct hwt_levels *levels_of(struct hwt_wheel *wheel)
{
	return (struct hwt_levels *)wheel;
}

/* The block of a tick at a level: at level 0 itself. */
static inline uint64_t block_of(const struct hwt_levels *h, int64_t tick, unsigned level)
{
	return (uint64_t)tick >> (h->bits * level);
}

static inline uint32_t index_of(const struct hwt_levels *h, uint64_t block)
{
	return (uint32_t)block & h->mask;
}

/* false: no memory.  (levels_place.c) */
bool hwt_levels_make_level(struct hwt_levels *h, unsigned level);

/* Places records in order, each at the level for it but not above `most`.  How many: it ends where memory does. */
size_t hwt_levels_place(struct hwt_levels *h, struct hwt_record *const *records, const int64_t *ticks, size_t n,
			unsigned most);

/* Blocks of the levels 1 to this one have begun: empties their buckets (K2).  (levels_demote.c) */
void hwt_levels_begin_blocks(struct hwt_levels *h, unsigned level);

/* Brings down a slice of the next block's bucket, if it wants attention.  (levels_demote.c) */
void hwt_levels_bring_down(struct hwt_levels *h, unsigned level);

/*
 * Returns when the bucket whose entry is the first of its level wants attention, whatever was removed from it.
 * (levels_demote.c)
 */
int64_t hwt_levels_first(const struct hwt_levels *h, unsigned level);

#endif
