/* SPDX-License-Identifier: BSD-2-Clause */
/* The slabs of a lane's records; pool.h. */
#include "lane/pool.h"
#include "base/mem.h"

#include <stdalign.h>

const struct hwt_slab_kind hwt_record_slab = {
	.unit = sizeof(struct hwt_record),
	.head = HWT_LINE, /* the records begin on a line of their own */
	.align = 0,       /* so that a slab of 2 MiB can be one huge page */
	.first = 4096,
	.last = HWT_HUGE_PAGE,
};

static_assert(HWT_LINE % RECORD_ALIGN == 0 && HWT_LINE % alignof(struct hwt_record) == 0, "records are aligned");
static_assert(sizeof(struct hwt_slab) <= HWT_LINE, "no record lies on the head of its slab");

void hwt_pool_destroy(struct hwt_pool *pool)
{
	hwt_slabs_destroy(&pool->slabs);
}

bool hwt_pool_grow(struct hwt_pool *pool)
{
	if (!hwt_slabs_grow(&pool->slabs, &hwt_record_slab))
		return false;
	pool->records += slabs_rest(&pool->slabs) / sizeof(struct hwt_record);
	return true;
}
