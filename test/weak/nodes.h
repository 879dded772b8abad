/* SPDX-License-Identifier: BSD-2-Clause */
/* For the harnesses of the queue: there is no memory for more nodes than those that a harness has. */
#ifndef HWT_WEAK_NODES_H
#define HWT_WEAK_NODES_H

#include "weak.h"

#include "lane/queue.c"

void *hwt_slabs_carve(struct hwt_slabs *slabs, size_t bytes)
{
	(void)slabs;
	(void)bytes;
	return NULL;
}

bool hwt_slabs_grow(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind)
{
	(void)slabs;
	(void)kind;
	return false;
}

#endif
