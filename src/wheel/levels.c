/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout of levels; levels.h draws it.  Placing: the level of a timeout, and its place there.  Demotion: timeouts
 * go down the levels as their tick comes near.  Then the functions of a layout.
 */
#include "wheel/levels.h"
#include "base/mem.h"

#include <stdalign.h>

/* The least number of records that a slice brings down: about 50 microseconds. */
#ifdef HWT_TEST
#define SLICE 100 /* so that tests need few records */
#else
#define SLICE 1024
#endif

static bool is_empty(const struct hwt_levels *h, unsigned level, uint64_t block)
{
	const struct hwt_bucket *buckets = h->level[level].buckets;

	return buckets == NULL || buckets[index_of(h, block)].first == NULL;
}

/*
 * Returns the level for a tick, at most `most`; see "Order" in levels.h.  Above the level of the highest bit in which
 * the tick differs from the present tick, both ticks are of the same block.
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

static bool make_level(struct hwt_levels *h, unsigned level)
{
	if (!hwt_ring_make(&h->level[level], h->mask + 1))
		return false;
	if (h->top < level)
		h->top = level;
	wheel_add_bytes(&h->wheel, hwt_ring_bytes(h->mask + 1));
	return true;
}

/* Returns when a bucket is to be visited next: at a member's tick; with many members once it can be brought down. */
static int64_t attention(const struct hwt_levels *h, const struct hwt_bucket *bucket, int64_t tick, unsigned level)
{
	int64_t lead;

	if (level == 0 || bucket->last->ordinal - bucket->first->ordinal < FEW_CHUNKS)
		return tick;
	lead = (int64_t)((block_of(h, tick, level) - 1) << (h->bits * level));
	lead = lead > h->wheel.tick ? lead : h->wheel.tick;
	return lead < tick ? lead : tick;
}

/* A chunk keeps 32 bits of a member's tick.  In larger blocks the tick is computed from the deadline again. */
static bool place_one(struct hwt_levels *h, struct hwt_record *record, int64_t tick, unsigned level)
{
	uint32_t index = index_of(h, block_of(h, tick, level));
	struct hwt_bucket *bucket;

	if (unlikely(h->level[level].buckets == NULL) && !make_level(h, level))
		return false;
	bucket = &h->level[level].buckets[index];
	if (unlikely(!bucket_append(&h->wheel.stock, bucket, record, (uint32_t)tick, false)))
		return false;
	ring_lower(&h->level[level], index, attention(h, bucket, tick, level));
	return true;
}

/* Places records in order, none above level `most`.  Returns their number, which is less than n if memory ran out. */
static size_t place(struct hwt_levels *h, struct hwt_record *const *records, const int64_t *ticks, size_t n,
		    unsigned most)
{
	const struct hwt_bucket *bucket[HWT_PLACE_MAX];
	static const struct hwt_bucket none;
	uint8_t level[HWT_PLACE_MAX];
	size_t i = 0;

	/* All levels can be chosen first: placing a record changes only the level of records of its own bucket. */
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

/* Returns the tick at which a member of a block was placed. */
static int64_t member_tick(const struct hwt_levels *h, const struct hwt_record *record, uint32_t low, uint64_t block,
			   unsigned level)
{
	unsigned shift = h->bits * level;
	int64_t begin = (int64_t)(block << shift), last = begin + (int64_t)((UINT64_C(1) << shift) - 1), tick;

	if (likely(shift <= 32))
		return begin + (int64_t)(uint32_t)(low - (uint32_t)begin);
	/* A rescheduled record is checked before it runs, so any tick of the block will do. */
	tick = grid_tick_of(&h->wheel.grid, record_deadline(record));
	return tick < begin ? begin : tick < last ? tick : last;
}

struct gathered {
	struct hwt_record *records[HWT_PLACE_MAX];
	int64_t ticks[HWT_PLACE_MAX];
	uint8_t index[HWT_PLACE_MAX];
	size_t n;
};

/* Gathers members of a chunk from *at on, and prefetches them. */
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

/* Brings the members of a chunk down.  Returns their number; some members stay if memory ran out. */
static size_t bring_chunk_down(struct hwt_levels *h, struct hwt_chunk *chunk, uint64_t block, unsigned level)
{
	struct gathered gathered;
	size_t placed, sum = 0;
	unsigned at = 0;

	__builtin_prefetch(chunk->next);
	do {
		gather(h, chunk, &at, block, level, &gathered);
		placed = place(h, gathered.records, gathered.ticks, gathered.n, level - 1);
		for (size_t i = 0; i < gathered.n && i < placed; i++)
			chunk->records[gathered.index[i]] = NULL;
		chunk->live = (uint8_t)(chunk->live - placed);
		sum += placed;
	} while (placed == gathered.n && at < chunk->used);
	if (chunk->live == 0)
		hwt_bucket_drop(&h->wheel.stock, chunk);
	return sum;
}

/*
 * If there is no memory, the rest of a bucket goes to the unplaced list, in its order, and in front of the records that
 * are there: they came later.
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
		hwt_bucket_drop(&h->wheel.stock, chunk);
	}
	hwt_ring_set(&h->level[level], index, HWT_TICK_NEVER);
}

/* Brings all members of the present block's bucket down.  Returns false if memory ran out. */
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

/*
 * Empties the buckets of the blocks that begin now, at the levels 1 to `level` (K2).
 *
 * The finer levels go first: their members came down earlier, and have to be placed before those of the coarser levels.
 */
static void begin_blocks(struct hwt_levels *h, unsigned level)
{
	unsigned l = 1;

	while (l <= level && bring_all_down(h, l))
		l++;
	if (unlikely(l <= level))
		for (unsigned m = level; m >= l; m--)
			give_up(h, m);
}

/*
 * Brings a slice of the next block's bucket down.  Its size is such that half of the time that is left is enough for
 * all slices.  But a slice has at least SLICE records; if that is more than needed, slices come less often.
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

/* Returns true if a slice of the bucket that is being brought down is overdue. */
static bool wants_slice(const struct hwt_levels *h, unsigned level)
{
	const struct hwt_ring *at = &h->level[level];

	return at->buckets != NULL && ring_due(at, index_of(h, block_of(h, h->wheel.tick, level) + 1)) < h->wheel.tick;
}

/* Returns the exact tree entry of the first bucket of a level. */
static int64_t first_tick(const struct hwt_levels *h, unsigned level)
{
	const struct hwt_ring *at = &h->level[level];
	uint32_t index = hwt_ring_first(at);
	uint64_t now = block_of(h, h->wheel.tick, level), block = now + ((index - now) & h->mask);
	struct hwt_chunk *chunk = at->buckets[index].first;
	int64_t first = HWT_TICK_NEVER;

	for (unsigned chunks = 0; chunk != NULL; chunk = chunk->next, chunks++) {
		if (level == 0 || chunks == FEW_CHUNKS) /* its members have one tick, or it has to be brought down */
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

static size_t levels_place(struct hwt_wheel *wheel, struct hwt_record *const *records, const int64_t *ticks, size_t n)
{
	return place(levels_of(wheel), records, ticks, n, HWT_LEVELS_MAX);
}

/* Returns the level whose tree has the earliest tick. */
static unsigned first_level(const struct hwt_levels *h)
{
	unsigned level = 0;

	for (unsigned l = 1; l <= h->top; l++)
		if (h->level[l].buckets != NULL && ring_first_due(&h->level[l]) < ring_first_due(&h->level[level]))
			level = l;
	return level;
}

static int64_t levels_next_due(const struct hwt_wheel *wheel)
{
	const struct hwt_levels *h = (const struct hwt_levels *)wheel;

	return ring_first_due(&h->level[first_level(h)]);
}

static void levels_settle(struct hwt_wheel *wheel, unsigned visits)
{
	struct hwt_levels *h = levels_of(wheel);

	for (unsigned l = 0; l <= h->top && h->wheel.stock.used == 0; l++)
		if (h->level[l].buckets != NULL)
			hwt_ring_clear(&h->level[l]);
	for (; visits > 0; visits--) {
		unsigned level = first_level(h);
		int64_t entry = ring_first_due(&h->level[level]), first = entry;

		if (entry != HWT_TICK_NEVER)
			first = first_tick(h, level);
		if (first <= entry)
			return;
		hwt_ring_set(&h->level[level], hwt_ring_first(&h->level[level]), first);
	}
}

static void levels_seek(struct hwt_wheel *wheel, int64_t tick)
{
	struct hwt_levels *h = levels_of(wheel);
	int64_t before = wheel->tick;
	unsigned changed = 0;

	wheel->tick = tick;
	while (changed < h->top && block_of(h, before, changed + 1) != block_of(h, tick, changed + 1))
		changed++;
	begin_blocks(h, changed);
	for (unsigned l = h->top; l > 0; l--)
		if (unlikely(wants_slice(h, l)))
			bring_slice_down(h, l);
}

static size_t levels_collect(struct hwt_wheel *wheel, struct hwt_record **due, size_t max)
{
	struct hwt_levels *h = levels_of(wheel);
	uint32_t index = index_of(h, (uint64_t)wheel->tick);
	struct hwt_bucket *bucket = &h->level[0].buckets[index];
	size_t n = hwt_bucket_sweep(&h->wheel.stock, bucket, due, max);

	if (bucket->first == NULL)
		hwt_ring_set(&h->level[0], index, HWT_TICK_NEVER);
	return n;
}

static size_t levels_sweep(struct hwt_wheel *wheel, struct hwt_record **all, size_t max)
{
	struct hwt_levels *h = levels_of(wheel);
	size_t n = 0;

	for (unsigned l = 0; l <= h->top && n < max; l++)
		if (h->level[l].buckets != NULL)
			n += hwt_ring_sweep(&h->level[l], &h->wheel.stock, all + n, max - n);
	return n;
}

static void levels_destroy(struct hwt_wheel *wheel)
{
	struct hwt_levels *h = levels_of(wheel);

	for (unsigned l = 0; l <= h->top; l++)
		hwt_ring_destroy(&h->level[l]);
}

static const struct hwt_wheel_layout hierarchical_layout = {
	.place = levels_place,
	.next_due = levels_next_due,
	.seek = levels_seek,
	.collect = levels_collect,
	.settle = levels_settle,
	.sweep = levels_sweep,
	.destroy = levels_destroy,
};

struct hwt_wheel *hwt_wheel_levels_create(uint32_t size)
{
	struct hwt_levels *h = hwt_mem_zeroed(alignof(struct hwt_levels), sizeof(*h));

	HWT_ASSERT(size > 1 && (size & (size - 1)) == 0);
	if (h == NULL)
		return NULL;
	wheel_init(&h->wheel, &hierarchical_layout, sizeof(*h));
	h->bits = (unsigned)__builtin_ctz(size);
	h->mask = 2 * size - 1;
	for (unsigned bit = 0; bit < 64; bit++)
		h->level_of_bit[bit] = (uint8_t)(bit / h->bits);
	if (!make_level(h, 0)) {
		hwt_mem_free(h);
		return NULL;
	}
	return &h->wheel;
}

#ifdef HWT_TEST
bool hwt_wheel_is_hierarchical(const struct hwt_wheel *wheel)
{
	return wheel->layout == &hierarchical_layout;
}
#endif
