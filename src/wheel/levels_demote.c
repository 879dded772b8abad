/* SPDX-License-Identifier: BSD-2-Clause */
/* Demotion: timeouts go down the levels as their tick comes near.  levels.h says when. */
#include "wheel/levels.h"

/* A slice brings down at least so many records, in about 50 microseconds. */
#ifdef HWT_TEST
#define SLICE 100 /* so that few are many */
#else
#define SLICE 1024
#endif

/* Returns the tick at which a member of a block was placed. */
static int64_t member_tick(const struct hwt_levels *h, const struct hwt_record *record, uint32_t low, uint64_t block,
			   unsigned level)
{
	unsigned shift = h->bits * level;
	int64_t begin = (int64_t)(block << shift), last = begin + (int64_t)((UINT64_C(1) << shift) - 1), tick;

	if (likely(shift <= 32))
		return begin + (int64_t)(uint32_t)(low - (uint32_t)begin);
	/* A rescheduled record may be due at any tick.  It is checked before it runs; any tick of the block will do. */
	tick = grid_tick_of(&h->wheel.grid, record_deadline(record));
	return tick < begin ? begin : tick < last ? tick : last;
}

struct gathered {
	struct hwt_record *records[HWT_PLACE_MAX];
	int64_t ticks[HWT_PLACE_MAX];
	uint8_t index[HWT_PLACE_MAX];
	size_t n;
};

/* Collects members of a chunk from *at on, and prefetches them. */
static void gather(const struct hwt_levels *h, struct hwt_chunk *chunk, unsigned *at, uint64_t block, unsigned level,
		   struct gathered *to)
{
	for (to->n = 0; *at < chunk->used && to->n < HWT_PLACE_MAX; ++*at) {
		struct hwt_record *record = chunk->records[*at];
		int64_t tick;

		if (record == NULL)
			continue;
		prefetch_for_write(&record->place);
		tick = member_tick(h, record, chunk_rounds(chunk)[*at], block, level);
		to->ticks[to->n] = tick > h->wheel.tick ? tick : h->wheel.tick;
		to->index[to->n] = (uint8_t)*at;
		to->records[to->n++] = record;
	}
}

/* Brings the first chunk of a bucket down.  Returns how many records; some stay if memory ran out. */
static size_t bring_chunk_down(struct hwt_levels *h, struct hwt_chunk *chunk, uint64_t block, unsigned level)
{
	struct gathered gathered;
	size_t placed, sum = 0;
	unsigned at = 0;

	__builtin_prefetch(chunk->next);
	do {
		gather(h, chunk, &at, block, level, &gathered);
		placed = hwt_levels_place(h, gathered.records, gathered.ticks, gathered.n, level - 1);
		for (size_t i = 0; i < gathered.n && i < placed; i++)
			chunk->records[gathered.index[i]] = NULL;
		chunk->live = (uint8_t)(chunk->live - placed);
		sum += placed;
	} while (placed == gathered.n && at < chunk->used);
	if (chunk->live == 0)
		hwt_bucket_drop(&h->wheel.store, chunk);
	return sum;
}

/*
 * Without memory the rest of a bucket goes to the unplaced list, in its order, and before the members that are there:
 * they came later.
 */
static void give_up(struct hwt_levels *h, unsigned level)
{
	uint64_t block = block_of(h, h->wheel.tick, level);
	uint32_t index = index_of(h, block);
	struct hwt_bucket *bucket = &h->level[level].buckets[index];
	struct hwt_chunk *chunk;

	if (h->level[level].buckets == NULL)
		return;
	while ((chunk = bucket->last) != NULL) {
		for (unsigned i = chunk->used; i-- > 0;) {
			struct hwt_record *record = chunk->records[i];

			if (record != NULL)
				hwt_wheel_unplace(&h->wheel, record,
						  member_tick(h, record, chunk_rounds(chunk)[i], block, level));
		}
		chunk->live = 0;
		hwt_bucket_drop(&h->wheel.store, chunk);
	}
	hwt_ring_set(&h->level[level], index, HWT_TICK_NEVER);
}

/* All of the present block's bucket.  false: memory has come to an end. */
static bool bring_all_down(struct hwt_levels *h, unsigned level)
{
	uint64_t block = block_of(h, h->wheel.tick, level);
	uint32_t index = index_of(h, block);
	struct hwt_bucket *bucket;

	if (h->level[level].buckets == NULL)
		return true;
	bucket = &h->level[level].buckets[index];
	while (bucket->first != NULL)
		if (bring_chunk_down(h, bucket->first, block, level) == 0)
			return false;
	hwt_ring_set(&h->level[level], index, HWT_TICK_NEVER);
	return true;
}

/* Those of the finer levels have come down before: they go first, or the others would be placed before them. */
void hwt_levels_begin_blocks(struct hwt_levels *h, unsigned level)
{
	unsigned l = 1;

	while (l <= level && bring_all_down(h, l))
		l++;
	if (unlikely(l <= level))
		for (unsigned m = level; m >= l; m--)
			give_up(h, m);
}

/*
 * A slice of the next block's bucket, of such a size that half of the time that is left will do for all of them; if
 * that is a small one, a larger one later.
 */
static void bring_slice_down(struct hwt_levels *h, unsigned level)
{
	uint64_t block = block_of(h, h->wheel.tick, level) + 1;
	uint32_t index = index_of(h, block);
	struct hwt_bucket *bucket = &h->level[level].buckets[index];
	int64_t half = ((int64_t)(block << (h->bits * level)) - h->wheel.tick) / 2 + 1, next = HWT_TICK_NEVER;
	uint64_t members, quota, moved = 0, now;

	if (bucket->first != NULL) {
		members = (uint64_t)(bucket->last->ordinal - bucket->first->ordinal + 1) * CHUNK_LAST_CAPACITY;
		quota = members / (uint64_t)half > SLICE ? members / (uint64_t)half : SLICE;
		do {
			now = bring_chunk_down(h, bucket->first, block, level);
			moved += now;
		} while (now > 0 && moved < quota && bucket->first != NULL);
		next = h->wheel.tick + half / (int64_t)(members / quota + 1);
	}
	hwt_ring_set(&h->level[level], index, bucket->first != NULL ? next : HWT_TICK_NEVER);
}

/* Did the bucket that is to be brought down want attention at a tick that is over? */
static bool wants_slice(const struct hwt_levels *h, unsigned level)
{
	const struct hwt_ring *at = &h->level[level];

	return at->buckets != NULL && ring_due(at, index_of(h, block_of(h, h->wheel.tick, level) + 1)) < h->wheel.tick;
}

void hwt_levels_bring_down(struct hwt_levels *h, unsigned level)
{
	if (unlikely(wants_slice(h, level)))
		bring_slice_down(h, level);
}

int64_t hwt_levels_first(const struct hwt_levels *h, unsigned level)
{
	const struct hwt_ring *at = &h->level[level];
	uint32_t index = hwt_ring_first(at);
	uint64_t now = block_of(h, h->wheel.tick, level), block = now + ((index - now) & h->mask);
	struct hwt_chunk *chunk = at->buckets[index].first;
	int64_t first = HWT_TICK_NEVER;

	for (unsigned chunks = 0; chunk != NULL; chunk = chunk->next, chunks++) {
		if (level == 0 || chunks == FEW_CHUNKS) /* all of one tick; it has to be brought down */
			return ring_first_due(at);
		for (unsigned i = 0; i < chunk->used; i++) {
			const struct hwt_record *record = chunk->records[i];
			int64_t tick = HWT_TICK_NEVER;

			if (record != NULL)
				tick = member_tick(h, record, chunk_rounds(chunk)[i], block, level);
			first = tick < first ? tick : first;
		}
	}
	return first;
}
