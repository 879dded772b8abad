/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slabs: where the units of one kind come from, records, nodes of queues or chunks of buckets.
 *
 * Structure
 *
 *   Slabs double from a first size to a last one, so that an owner with few units stays small and one with many rarely
 *   allocates.  Units are carved from the newest slab, one after the other.  No unit ever goes back into a slab: its
 *   owner keeps the free ones.  All slabs are freed together.
 *
 *       newest --> [ head | unit unit unit ....... ] --> [ head | unit ... ] --> [ head | unit ]
 *                                        ^          ^
 *                                        carve      carve_end
 *
 *   Zero bytes are an owner that has no slab yet.
 *
 * Threads: one at a time, under the owner's lock if it has one.  Any thread may read `bytes`.
 */
#ifndef HWT_SLAB_H
#define HWT_SLAB_H

#include "base/base.h"

#include <stdatomic.h>

struct hwt_slab {
	struct hwt_slab *next; /* the one before it in time */
	size_t bytes;          /* all of it */
};

/* How slabs of one kind look. */
struct hwt_slab_kind {
	size_t unit;        /* the room for units is a multiple of this */
	size_t head;        /* where the first unit begins */
	size_t align;       /* of a slab; 0: its size */
	size_t first, last; /* sizes */
	size_t extra;       /* what every slab has on top of its size, if sizes are to be those of the units alone */
};

struct hwt_slabs {
	char *carve, *carve_end; /* the rest of the newest slab */
	struct hwt_slab *newest;
	size_t next_size;     /* 0 before the first */
	_Atomic size_t bytes; /* of all slabs */
};

/* Adds a slab to carve from; what was left of the one before is the owner's.  Returns false without memory. */
bool hwt_slabs_grow(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind);

/* Frees all slabs. */
void hwt_slabs_destroy(struct hwt_slabs *slabs);

static inline char *slab_begin(struct hwt_slab *slab, const struct hwt_slab_kind *kind)
{
	return (char *)slab + kind->head;
}

static inline char *slab_end(struct hwt_slab *slab, const struct hwt_slab_kind *kind)
{
	return slab_begin(slab, kind) + (slab->bytes - kind->head) / kind->unit * kind->unit;
}

static inline size_t slabs_rest(const struct hwt_slabs *slabs)
{
	return (size_t)(slabs->carve_end - slabs->carve);
}

static inline bool slabs_are_used_up(const struct hwt_slabs *slabs)
{
	return slabs->carve == slabs->carve_end;
}

/* There is room. */
static inline void *slabs_carve(struct hwt_slabs *slabs, size_t bytes)
{
	char *unit = slabs->carve;

	HWT_ASSERT(slabs_rest(slabs) >= bytes);
	slabs->carve += bytes;
	return unit;
}

/* Relaxed: only a number. */
static inline size_t slabs_bytes(const struct hwt_slabs *slabs)
{
	return atomic_load_explicit(&slabs->bytes, memory_order_relaxed);
}

#endif
