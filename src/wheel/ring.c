/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree over the buckets of a ring.  ring.h draws it. */
#include "wheel/ring.h"
#include "base/mem.h"

static size_t level_entries(uint32_t buckets, unsigned level)
{
	/* Rounded up to a whole group, so that a group can be read without a check for its end. */
	return ((((size_t)buckets - 1) >> (level * RING_FANOUT_BITS)) + RING_FANOUT) / RING_FANOUT * RING_FANOUT;
}

static unsigned top_level(uint32_t buckets)
{
	unsigned top = 0;

	while (((uint64_t)buckets - 1) >> (top * RING_FANOUT_BITS) != 0)
		top++;
	return top;
}

size_t hwt_ring_bytes(uint32_t buckets)
{
	size_t entries = 0;

	for (unsigned l = 0; l <= top_level(buckets); l++)
		entries += level_entries(buckets, l);
	return buckets * sizeof(struct hwt_bucket) + entries * sizeof(uint64_t);
}

bool hwt_ring_make(struct hwt_ring *ring, uint32_t buckets)
{
	struct hwt_bucket *made = hwt_mem_zeroed(sizeof(void *), hwt_ring_bytes(buckets));
	uint64_t *memory;

	if (made == NULL)
		return false;
	memory = (uint64_t *)(void *)(made + buckets);
	ring->buckets = made;
	ring->top = top_level(buckets);
	for (unsigned l = 0; l <= ring->top; l++) {
		ring->level[l] = memory;
		memory += level_entries(buckets, l);
	}
	return true;
}

void hwt_ring_destroy(struct hwt_ring *ring)
{
	hwt_mem_free(ring->buckets);
}

static uint64_t group_urgency(const uint64_t *group)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < RING_FANOUT; i++)
		most = group[i] > most ? group[i] : most;
	return most;
}

void hwt_ring_set(struct hwt_ring *ring, uint32_t bucket, int64_t tick)
{
	uint64_t urgency = ring_urgency(tick);

	for (unsigned l = 0;; l++) {
		ring->level[l][bucket] = urgency;
		if (l == ring->top)
			return;
		urgency = group_urgency(&ring->level[l][bucket & ~(uint32_t)(RING_FANOUT - 1)]);
		bucket >>= RING_FANOUT_BITS;
		if (ring->level[l + 1][bucket] == urgency)
			return;
	}
}

uint32_t hwt_ring_first(const struct hwt_ring *ring)
{
	uint64_t urgency = ring->level[ring->top][0];
	uint32_t entry = 0;

	for (unsigned l = ring->top; l-- > 0;)
		for (entry <<= RING_FANOUT_BITS; ring->level[l][entry] != urgency;) /* D1: one of the group is equal */
			entry++;
	return entry;
}

static void clear_below(struct hwt_ring *ring, unsigned level, uint32_t entry)
{
	uint32_t first = entry << RING_FANOUT_BITS;

	if (ring->level[level][entry] == 0)
		return;
	ring->level[level][entry] = 0;
	for (uint32_t i = first; level > 0 && i < first + RING_FANOUT; i++)
		clear_below(ring, level - 1, i);
}

void hwt_ring_clear(struct hwt_ring *ring)
{
	clear_below(ring, ring->top, 0);
}

size_t hwt_ring_sweep(struct hwt_ring *ring, struct hwt_stock *stock, struct hwt_record **all, size_t max)
{
	size_t n = 0;

	while (ring_first_due(ring) != HWT_TICK_NEVER) {
		uint32_t bucket = hwt_ring_first(ring);

		n += hwt_bucket_sweep(stock, &ring->buckets[bucket], all + n, max - n);
		if (ring->buckets[bucket].first != NULL)
			break;
		hwt_ring_set(ring, bucket, HWT_TICK_NEVER);
	}
	return n;
}
