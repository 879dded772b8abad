/* SPDX-License-Identifier: BSD-2-Clause */
/* Making and freeing slabs; slab.h. */
#include "base/slab.h"
#include "base/mem.h"

bool hwt_slabs_grow(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind)
{
	size_t size = slabs->next_size == 0 ? kind->first : slabs->next_size, bytes = size + kind->extra;
	struct hwt_slab *slab = hwt_mem_block(kind->align == 0 ? bytes : kind->align, bytes);

	if (slab == NULL)
		return false;
	slab->next = slabs->newest;
	slab->bytes = bytes;
	slabs->newest = slab;
	slabs->carve = slab_begin(slab, kind);
	slabs->carve_end = slab_end(slab, kind);
	/* Relaxed: one thread at a time writes, and no other data depends on the number. */
	atomic_store_explicit(&slabs->bytes, slabs_bytes(slabs) + bytes, memory_order_relaxed);
	slabs->next_size = size < kind->last ? size * 2 : size;
	return true;
}

void hwt_slabs_destroy(struct hwt_slabs *slabs)
{
	while (slabs->newest != NULL) {
		struct hwt_slab *slab = slabs->newest;

		slabs->newest = slab->next;
		hwt_mem_free(slab);
	}
}
