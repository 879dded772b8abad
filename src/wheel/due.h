/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which bucket is due first: a tree of minima over the buckets.
 *
 * Structure
 *
 *   Level 0 holds for each bucket the first tick at which something in it may be due, each level above the minimum of
 *   16 entries below, the last level one entry: the answer.  512 buckets make levels of 512, 32, 2 and 1.
 *
 *   Kept as urgency, HWT_TICK_NEVER - tick: zeroed memory means that nothing is due ever, so that 2^20 buckets cost
 *   nothing until they are used, and minima become maxima.
 *
 * Cost: due_first O(1); due_lower O(1) usually, it stops where the bucket is not the first of its group; due_set and
 * due_first_bucket O(levels); due_clear O(entries that something was due at).
 *
 * Invariants
 *
 *   D1  level[l + 1][i] = max of level[l][16 i .. 16 i + 15].
 *   D2  due_first <= the first tick at which anything is due.  Equal, but for members removed since their bucket was
 *       last passed or settled (wheel.h).
 */
#ifndef HWT_DUE_H
#define HWT_DUE_H

#include "base/grid.h"

#define DUE_FANOUT_BITS 4
#define DUE_FANOUT 16
#define DUE_LEVELS 9 /* 2^32 buckets */

struct hwt_due {
	uint64_t *level[DUE_LEVELS];
	unsigned top; /* index of the level with one entry */
};

/* ENOMEM. */
int hwt_due_init(struct hwt_due *due, uint32_t buckets);
void hwt_due_destroy(struct hwt_due *due);

/* Of memory that it takes. */
size_t hwt_due_bytes(uint32_t buckets);

/* The exact answer for a bucket. */
void hwt_due_set(struct hwt_due *due, uint32_t bucket, int64_t tick);

/* Some bucket that has an entry, false when none has.  O(levels). */
bool hwt_due_any(const struct hwt_due *due, uint32_t *bucket);

/* The bucket whose entry is due_first. */
uint32_t hwt_due_first_bucket(const struct hwt_due *due);

/* Nothing is due in any bucket. */
void hwt_due_clear(struct hwt_due *due);

static inline uint64_t due_urgency(int64_t tick)
{
	return (uint64_t)(HWT_TICK_NEVER - tick);
}

/* Something in the bucket is due at tick. */
static inline void due_lower(struct hwt_due *due, uint32_t bucket, int64_t tick)
{
	uint64_t urgency = due_urgency(tick);

	for (unsigned l = 0; l <= due->top && due->level[l][bucket] < urgency; l++, bucket >>= DUE_FANOUT_BITS)
		due->level[l][bucket] = urgency;
}

/* The entry of a bucket. */
static inline int64_t due_of(const struct hwt_due *due, uint32_t bucket)
{
	return HWT_TICK_NEVER - (int64_t)due->level[0][bucket];
}

/* The first tick at which anything is due, HWT_TICK_NEVER when nothing is. */
static inline int64_t due_first(const struct hwt_due *due)
{
	return HWT_TICK_NEVER - (int64_t)due->level[due->top][0];
}

#endif
