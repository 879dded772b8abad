/* SPDX-License-Identifier: BSD-2-Clause */
/* The layout of levels: collecting, and going from tick to tick.  levels.h draws it. */
#include "wheel/levels.h"
#include "base/mem.h"

#include <stdalign.h>

static size_t levels_place(struct hwt_wheel *wheel, struct hwt_record *const *records, const int64_t *ticks, size_t n)
{
	return hwt_levels_place(levels_of(wheel), records, ticks, n, HWT_LEVELS_MAX);
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

static void levels_settle(struct hwt_wheel *wheel, unsigned looks)
{
	struct hwt_levels *h = levels_of(wheel);

	for (unsigned l = 0; l <= h->top && h->wheel.store.used == 0; l++)
		if (h->level[l].buckets != NULL)
			hwt_ring_clear(&h->level[l]);
	for (; looks > 0; looks--) {
		unsigned level = first_level(h);
		int64_t entry = ring_first_due(&h->level[level]), first = entry;

		if (entry != HWT_TICK_NEVER)
			first = hwt_levels_first(h, level);
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
	hwt_levels_begin_blocks(h, changed);
	for (unsigned l = h->top; l > 0; l--)
		hwt_levels_bring_down(h, l);
}

static size_t levels_collect(struct hwt_wheel *wheel, struct hwt_record **due, size_t max)
{
	struct hwt_levels *h = levels_of(wheel);
	uint32_t index = index_of(h, (uint64_t)wheel->tick);
	struct hwt_bucket *bucket = &h->level[0].buckets[index];
	size_t n = hwt_bucket_sweep(&h->wheel.store, bucket, due, max);

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
			n += hwt_ring_sweep(&h->level[l], &h->wheel.store, all + n, max - n);
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
	if (!hwt_levels_make_level(h, 0)) {
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
