/* SPDX-License-Identifier: BSD-2-Clause */
/* Making and freeing slabs; slab.h. */
#include "base/slab.h"
#include "base/mem.h"

/* Relaxed: one thread at a time writes, and no other data depends on the number. */
static void set_bytes(struct hwt_slabs *slabs, size_t bytes)
{
	atomic_store_explicit(&slabs->bytes, bytes, memory_order_relaxed);
}

static void add(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind, struct hwt_slab *slab)
{
	slab->next = slabs->newest;
	slabs->newest = slab;
	slabs->carve = slab_begin(slab, kind);
	slabs->carve_end = slab_end(slab);
	set_bytes(slabs, slabs_bytes(slabs) + slab->bytes);
}

void hwt_slabs_add_used(struct hwt_slabs *slabs, struct hwt_slab *slab)
{
	slab->next = slabs->newest->next;
	slabs->newest->next = slab;
	set_bytes(slabs, slabs_bytes(slabs) + slab->bytes);
}

bool hwt_slabs_grow(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind)
{
	size_t size = slabs->next_size == 0 ? kind->first : slabs->next_size;
	struct hwt_slab *slab = hwt_mem_block(kind->align, size);

	if (slab == NULL)
		return false;
	slab->bytes = size;
	add(slabs, kind, slab);
	slabs->next_size = size < kind->last ? size * 2 : size;
	return true;
}

struct hwt_slab *hwt_slabs_restart(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind)
{
	struct hwt_slab *newest = slabs->newest, *others = newest->next;

	newest->next = NULL;
	slabs->carve = slab_begin(newest, kind);
	slabs->carve_end = slab_end(newest);
	set_bytes(slabs, newest->bytes);
	return others;
}

unsigned hwt_slabs_release(struct hwt_slab **slabs, unsigned max, size_t *bytes)
{
	unsigned n = 0;

	for (; n < max && *slabs != NULL; n++) {
		struct hwt_slab *slab = *slabs;

		*slabs = slab->next;
		*bytes += slab->bytes;
		/* The allocator alone might keep it. */
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
