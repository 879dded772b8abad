/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the checker: an inventory of all units of one kind, records, nodes or chunks, that were ever allocated.  Each
 * list marks its units.  A unit marked twice is in two places, and a unit without a mark has been lost; a list that
 * runs in a circle or out of its slabs is found at its first wrong step.
 */
#ifndef HWT_CHECK_INVENTORY_H
#define HWT_CHECK_INVENTORY_H

#include "base/slab.h"

#ifdef HWT_TEST

#include <stdlib.h>
#include <string.h>

/* Prints which invariant is broken, and aborts. */
_Noreturn void hwt_check_failed(const char *invariant, const char *what, const char *file, int line);

#define HOLDS(invariant, condition)                                                                                    \
	(likely(condition) ? (void)0 : hwt_check_failed(invariant, #condition, __FILE__, __LINE__))

/* A slab, and a mark for each of its units, 0 at first. */
struct area {
	char *begin, *end;
	size_t first_mark;
};

struct inventory {
	size_t unit;
	struct area *area;
	size_t areas, area_room;
	size_t latest; /* the area of the unit that was marked last */
	uint8_t *mark;
	size_t marks, mark_room;
};

static inline void *grown(void *memory, size_t *room, size_t needed, size_t size)
{
	if (needed <= *room)
		return memory;
	*room = needed * 2;
	memory = realloc(memory, *room * size);
	HOLDS("memory of the checker", memory != NULL);
	return memory;
}

static inline void inventory_clear(struct inventory *inventory, size_t unit)
{
	inventory->unit = unit;
	inventory->areas = inventory->marks = inventory->latest = 0;
}

static inline void inventory_add(struct inventory *inventory, char *begin, char *end)
{
	size_t units = (size_t)(end - begin) / inventory->unit;

	inventory->area = grown(inventory->area, &inventory->area_room, inventory->areas + 1, sizeof(struct area));
	inventory->mark = grown(inventory->mark, &inventory->mark_room, inventory->marks + units, 1);
	inventory->area[inventory->areas++] = (struct area){ begin, end, inventory->marks };
	memset(inventory->mark + inventory->marks, 0, units);
	inventory->marks += units;
}

/* Adds the units of all slabs of an owner. */
static inline void inventory_add_slabs(struct inventory *inventory, const char *invariant,
				       const struct hwt_slabs *slabs, const struct hwt_slab_kind *kind)
{
	size_t bytes = 0;

	for (struct hwt_slab *slab = slabs->newest; slab != NULL; slab = slab->next) {
		bytes += slab->bytes;
		inventory_add(inventory, (char *)slab + kind->head, (char *)slab + slab->bytes);
	}
	HOLDS(invariant, slabs->newest == NULL || slabs->carve_end == (char *)slabs->newest + slabs->newest->bytes);
	HOLDS(invariant, slabs_bytes(slabs) == bytes);
}

/* Returns the mark of a unit; NULL if no unit of any area begins there. */
static inline uint8_t *inventory_mark(struct inventory *inventory, const void *unit)
{
	const char *at = unit;

	/* Successive units mostly lie in one area. */
	for (size_t i = 0; i < inventory->areas; i++) {
		size_t index = (inventory->latest + i) % inventory->areas;
		const struct area *area = &inventory->area[index];
		size_t offset = (size_t)(at - area->begin);

		if (at < area->begin || at >= area->end)
			continue;
		if (offset % inventory->unit != 0)
			return NULL;
		inventory->latest = index;
		return &inventory->mark[area->first_mark + offset / inventory->unit];
	}
	return NULL;
}

/* Marks all units from `begin` on, which must not have a mark yet. */
static inline void inventory_put(struct inventory *inventory, const char *invariant, const void *begin, size_t bytes,
				 uint8_t as)
{
	size_t units = bytes / inventory->unit;
	uint8_t *mark, *last;

	if (units == 0)
		return;
	mark = inventory_mark(inventory, begin);
	last = inventory_mark(inventory, (const char *)begin + (units - 1) * inventory->unit);
	HOLDS(invariant, mark != NULL && last == mark + units - 1);
	for (size_t i = 0; i < units; i++) {
		bool elsewhere_too = mark[i] != 0;

		HOLDS(invariant, !elsewhere_too);
		mark[i] = as;
	}
}

#endif

#endif
