/* SPDX-License-Identifier: BSD-2-Clause */
#include "lane/pool.h"
#include "base/mem.h"

#define FIRST_SLAB_BYTES ((size_t)4096)

struct hwt_slab {
	struct hwt_slab *next;
	char pad[HWT_LINE - sizeof(void *)]; /* the records begin on a line of their own */
};

static_assert(sizeof(struct hwt_slab) % RECORD_ALIGN == 0 && RECORD_SIZE % RECORD_ALIGN == 0, "records are aligned");

void hwt_pool_destroy(struct hwt_pool *pool)
{
	while (pool->slabs != NULL) {
		struct hwt_slab *slab = pool->slabs;

		pool->slabs = slab->next;
		hwt_mem_free(slab);
	}
}

bool hwt_pool_grow(struct hwt_pool *pool)
{
	size_t bytes = pool->slab_bytes == 0 ? FIRST_SLAB_BYTES : pool->slab_bytes;
	struct hwt_slab *slab;

	/* Aligned to its size, so that a slab of 2 MiB can be one huge page. */
	slab = hwt_mem_block(bytes, bytes);
	if (slab == NULL)
		return false;
	slab->next = pool->slabs;
	pool->slabs = slab;
	pool->carve = (char *)slab + sizeof(*slab);
	pool->carve_end = pool->carve + (bytes - sizeof(*slab)) / sizeof(struct hwt_record) * sizeof(struct hwt_record);
	pool->bytes += bytes;
	pool->records += (size_t)(pool->carve_end - pool->carve) / sizeof(struct hwt_record);
	pool->slab_bytes = bytes < HWT_HUGE_PAGE ? bytes * 2 : bytes;
	return true;
}

#ifdef HWT_TEST
bool hwt_pool_next_slab(const struct hwt_pool *pool, struct hwt_slab **slab, char **begin, char **end)
{
	size_t bytes = FIRST_SLAB_BYTES;

	*slab = *slab == NULL ? pool->slabs : (*slab)->next;
	if (*slab == NULL)
		return false;
	for (struct hwt_slab *older = (*slab)->next; older != NULL && bytes < HWT_HUGE_PAGE; older = older->next)
		bytes *= 2;
	*begin = (char *)*slab + sizeof(**slab);
	*end = *begin + (bytes - sizeof(**slab)) / sizeof(struct hwt_record) * sizeof(struct hwt_record);
	return true;
}
#endif
