/* SPDX-License-Identifier: BSD-2-Clause */
/* Making and freeing slabs; slab.h. */
#include "base/slab.h"
#include "base/mem.h"

void *hwt_slabs_carve(struct hwt_slabs *slabs, size_t bytes)
{
	char *unit = slabs->carve;

	if ((size_t)(slabs->carve_end - unit) < bytes)
		return NULL;
	HWT_ASSERT((uintptr_t)unit % SLAB_UNIT_ALIGN == 0);
	slabs->carve += bytes;
	return unit;
}

/* Lets units be carved from the newest slab, from its beginning on. */
static void begin(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind)
{
	slabs->carve = (char *)slabs->newest + kind->head;
	slabs->carve_end = (char *)slabs->newest + slabs->newest->bytes;
}

struct hwt_slab *hwt_slab_make(const struct hwt_slab_kind *kind, size_t size)
{
	struct hwt_slab *slab = hwt_mem_block(kind->align, size);

	if (slab != NULL)
		*slab = (struct hwt_slab){ NULL, size };
	return slab;
}

bool hwt_slabs_grow(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind)
{
	struct hwt_slab *slab = hwt_slab_make(kind, slabs->next_size == 0 ? kind->first : slabs->next_size);

	if (slab != NULL)
		hwt_slabs_add(slabs, kind, slab);
	return slab != NULL;
}

void hwt_slabs_add(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind, struct hwt_slab *slab)
{
	size_t size = slab->bytes;

	slab->next = slabs->newest;
	slabs->newest = slab;
	begin(slabs, kind);
	atomic_fetch_add_explicit(&slabs->bytes, size, memory_order_relaxed); /* relaxed: only a number */
	slabs->next_size = size < kind->last ? size * 2 : size;
}

struct hwt_slab *hwt_slabs_restart(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind)
{
	struct hwt_slab *newest = slabs->newest, *others = newest->next;

	newest->next = NULL;
	begin(slabs, kind);
	atomic_store_explicit(&slabs->bytes, newest->bytes, memory_order_relaxed); /* relaxed: only a number */
	return others;
}

unsigned hwt_slabs_release(struct hwt_slab **slabs, unsigned max, size_t *bytes)
{
	unsigned n = 0;

	for (; n < max && *slabs != NULL; n++) {
		struct hwt_slab *slab = *slabs;

		*slabs = slab->next;
		*bytes += slab->bytes;
		/* free alone might leave the memory with the allocator. */
		(void)hwt_mem_give_back(slab, slab->bytes);
		hwt_mem_free(slab);
	}
	return n;
}

void hwt_slabs_free(struct hwt_slab *slabs)
{
	while (slabs != NULL) {
		struct hwt_slab *slab = slabs;

		slabs = slab->next;
		hwt_mem_free(slab);
	}
}
