/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocation that leaves errno alone, and that a test can make fail; mem.h. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/mem.h"

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef HWT_TEST
_Atomic(hwt_mem_refuses *) hwt_test_mem_refuses;
#endif

bool hwt_mem_refused(void)
{
#ifdef HWT_TEST
	hwt_mem_refuses *ask = atomic_load_explicit(&hwt_test_mem_refuses, memory_order_acquire); /* a test's */

	return ask != NULL && ask();
#else
	return false;
#endif
}

static void *zeroed(size_t align, size_t size)
{
	void *memory;

	/* calloc does not touch pages that the system has zeroed. */
	if (align <= alignof(max_align_t))
		return calloc(1, size);
	memory = aligned_alloc(align, size);
	if (memory != NULL)
		memset(memory, 0, size);
	return memory;
}

void *hwt_mem_zeroed(size_t align, size_t size)
{
	int before = errno; /* the library leaves errno alone */
	void *memory = hwt_mem_refused() ? NULL : zeroed(align, size);

	HWT_ASSERT((uintptr_t)memory % align == 0);
	errno = before;
	return memory;
}

void *hwt_mem_block(size_t align, size_t size)
{
	int before = errno;
	void *memory;

	HWT_ASSERT(size % align == 0);
	memory = hwt_mem_refused() ? NULL : aligned_alloc(align, size);
#ifdef MADV_HUGEPAGE
	/* One page fault and one TLB entry then serve 40,000 records.  If the system refuses, that only costs speed. */
	if (memory != NULL && align >= HWT_HUGE_PAGE)
		(void)madvise(memory, size, MADV_HUGEPAGE);
#endif
	errno = before;
	return memory;
}

void hwt_mem_free(void *memory)
{
	int before = errno; /* free may change it: glibc's did before 2.33 */

	free(memory);
	errno = before;
}
