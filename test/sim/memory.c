/* SPDX-License-Identifier: BSD-2-Clause */
/* In place of the library's memory; the simulation may refuse it, and threads and descriptors; sim.h. */
#include "sim/sim.h"
#include "frame/wrap.h"
#include "base/mem.h"

#include <malloc.h>
#include <string.h>

#define SMALL ((size_t)1 << 16) /* larger blocks are not filled, which would take too long */
#define JUNK 0xdb

static unsigned blocks;

void *__real_hwt_mem_zeroed(size_t align, size_t size);
void *__real_hwt_mem_block(size_t align, size_t size);
void __real_hwt_mem_free(void *memory);
bool __real_hwt_mem_give_back(void *memory, size_t size);

unsigned sim_blocks(void)
{
	return blocks;
}

WRAP(void *, hwt_mem_zeroed, size_t align, size_t size)
{
	void *memory;

	sim_point("allocates");
	memory = __real_hwt_mem_zeroed(align, size);
	blocks += memory != NULL;
	return memory;
}

/* The content may be anything, so it is not zeros. */
WRAP(void *, hwt_mem_block, size_t align, size_t size)
{
	void *memory;

	sim_point("allocates");
	memory = __real_hwt_mem_block(align, size);
	blocks += memory != NULL;
	if (memory != NULL && size < SMALL)
		memset(memory, JUNK, size);
	return memory;
}

/* Overwrites a block before it is freed. */
WRAP(void, hwt_mem_free, void *memory)
{
	size_t size = memory != NULL ? malloc_usable_size(memory) : 0;

	sim_point("frees");
	SIM_CHECK(memory == NULL || blocks > 0);
	blocks -= memory != NULL;
	if (size > 0 && size < SMALL)
		memset(memory, JUNK, size);
	__real_hwt_mem_free(memory);
}

WRAP(bool, hwt_mem_give_back, void *memory, size_t size)
{
	sim_point("gives back");
	return __real_hwt_mem_give_back(memory, size);
}
