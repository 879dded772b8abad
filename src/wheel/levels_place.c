/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses the level of a timeout, and places it there.  levels.h says why there. */
#include "wheel/levels.h"

static bool is_empty(const struct hwt_levels *h, unsigned level, uint64_t block)
{
	const struct hwt_bucket *buckets = h->level[level].buckets;

	return buckets == NULL || buckets[index_of(h, block)].first == NULL;
}

/*
 * Returns the level for a tick, at most `most`; see "Order" in levels.h.  Above the level of the highest bit in which
 * the tick differs from the present one, both are of the same block.
 */
static inline unsigned level_for(const struct hwt_levels *h, int64_t tick, unsigned most)
{
	uint64_t differ = (uint64_t)tick ^ (uint64_t)h->wheel.tick;
	unsigned level = differ == 0 ? 0 : h->level_of_bit[63 - __builtin_clzll(differ)];

	level = level < most ? level : most;
	while (level > 0 && block_of(h, tick, level) == block_of(h, h->wheel.tick, level) + 1 &&
	       is_empty(h, level, block_of(h, tick, level)))
		level--;
	return level;
}

bool hwt_levels_make_level(struct hwt_levels *h, unsigned level)
{
	if (!hwt_ring_make(&h->level[level], h->mask + 1))
		return false;
	if (h->top < level)
		h->top = level;
	wheel_add_bytes(&h->wheel, hwt_ring_bytes(h->mask + 1));
	return true;
}

/* Returns when a bucket is next to be looked at: at a member's tick or, with many, once it can be brought down. */
static int64_t attention(const struct hwt_levels *h, const struct hwt_bucket *bucket, int64_t tick, unsigned level)
{
	int64_t lead;

	if (level == 0 || bucket->last->ordinal - bucket->first->ordinal < FEW_CHUNKS)
		return tick;
	lead = (int64_t)((block_of(h, tick, level) - 1) << (h->bits * level));
	lead = lead > h->wheel.tick ? lead : h->wheel.tick;
	return lead < tick ? lead : tick;
}

/* A member's tick is kept in 32 bits.  In blocks of more than 2^32 ticks it is computed from the deadline again. */
static bool place_one(struct hwt_levels *h, struct hwt_record *record, int64_t tick, unsigned level)
{
	uint32_t index = index_of(h, block_of(h, tick, level));
	struct hwt_bucket *bucket;

	if (unlikely(h->level[level].buckets == NULL) && !hwt_levels_make_level(h, level))
		return false;
	bucket = &h->level[level].buckets[index];
	if (unlikely(!bucket_append(&h->wheel.store, bucket, record, (uint32_t)tick, false)))
		return false;
	ring_lower(&h->level[level], index, attention(h, bucket, tick, level));
	return true;
}

size_t hwt_levels_place(struct hwt_levels *h, struct hwt_record *const *records, const int64_t *ticks, size_t n,
			unsigned most)
{
	const struct hwt_bucket *bucket[HWT_PLACE_MAX];
	static const struct hwt_bucket none;
	uint8_t level[HWT_PLACE_MAX];
	size_t i = 0;

	/* All levels can be chosen first: a record changes the level only of those that go to its own bucket. */
	for (size_t j = 0; j < n; j++) {
		level[j] = (uint8_t)level_for(h, ticks[j], most);
		bucket[j] = &none;
		if (likely(h->level[level[j]].buckets != NULL))
			bucket[j] = &h->level[level[j]].buckets[index_of(h, block_of(h, ticks[j], level[j]))];
		bucket_prefetch_last(bucket[j]);
	}
	for (size_t j = 0; j < n; j++)
		bucket_prefetch_end(bucket[j]);
	while (i < n && place_one(h, records[i], ticks[i], level[i]))
		i++;
	return i;
}
