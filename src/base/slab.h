/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slabs: memory for many units of one kind, which are records, nodes of queues or chunks of buckets.
 *
 * Structure
 *
 *   Slabs double from a first size to a last one, so that an owner with few units stays small and one with many rarely
 *   allocates.  Units are carved from the newest slab, one after the other.  No unit goes back into a slab; the owner
 *   keeps the free ones.  An owner that holds all units of a slab may take the slab out.  The rest is freed together.
 *
 *       newest --> [ head | unit unit unit ....... ] --> [ head | unit ... ] --> [ head | unit ]
 *                                        ^          ^
 *                                        carve      carve_end
 *
 *   An owner that has no slab yet has bytes of zero.
 *
 * Threads: one at a time, under the owner's lock if it has one.  Any thread may read `bytes`.
 */
#ifndef HWT_SLAB_H
#define HWT_SLAB_H

#include "base/base.h"

#include <stdatomic.h>

/* Each unit is aligned as its atomics of 8 bytes want it.  Some targets trap otherwise, where x86 does not. */
#define SLAB_UNIT_ALIGN 8

struct hwt_slab {
	struct hwt_slab *next; /* the slab made before this one */
	size_t bytes;          /* of the whole slab */
};

/* The sizes of slabs of one kind. */
struct hwt_slab_kind {
	size_t head;        /* offset of the first unit */
	size_t align;       /* of a slab */
	size_t first, last; /* sizes of the first slab, and of the largest */
};

struct hwt_slabs {
	char *carve, *carve_end; /* the rest of the newest slab */
	struct hwt_slab *newest;
	size_t next_size;     /* 0 before the first */
	_Atomic size_t bytes; /* of all slabs */
};

/* Carves a unit of `bytes`.  Returns NULL if the newest slab has no room for one. */
void *hwt_slabs_carve(struct hwt_slabs *slabs, size_t bytes);

/* Makes a slab that is in no list.  Returns NULL if there is no memory. */
struct hwt_slab *hwt_slab_make(const struct hwt_slab_kind *kind, size_t size);

/* Adds a slab, from which units are carved from now on. */
void hwt_slabs_add(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind, struct hwt_slab *slab);

/* Makes a slab and adds it.  The owner has taken the rest of the slab before.  Returns false if there is no memory. */
bool hwt_slabs_grow(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind);

/*
 * Takes out all slabs but the newest, from which units are carved again from the beginning.  The owner holds all units,
 * and forgets them.  Returns the slabs that were taken out, linked by next.
 */
struct hwt_slab *hwt_slabs_restart(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind);

/*
 * Frees up to max slabs of such a list, and gives their memory back to the system.  Returns the number of slabs, and
 * adds their bytes to *bytes.
 */
unsigned hwt_slabs_release(struct hwt_slab **slabs, unsigned max, size_t *bytes);

/* Frees slabs that are linked by next. */
void hwt_slabs_free(struct hwt_slab *slabs);

/* Returns the bytes of all slabs.  Relaxed: no other data depends on the number. */
static inline size_t slabs_bytes(const struct hwt_slabs *slabs)
{
	return atomic_load_explicit(&slabs->bytes, memory_order_relaxed);
}

#endif
