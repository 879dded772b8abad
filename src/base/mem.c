/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocation that leaves errno alone, and that a test can make fail; mem.h. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/mem.h"

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* In place of advice that the system's headers lack. */
#ifndef MADV_HUGEPAGE
#define MADV_HUGEPAGE (-1)
#endif
#ifndef MADV_NOHUGEPAGE
#define MADV_NOHUGEPAGE (-1)
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE (-1)
#endif

/* Gives the system advice on memory.  Returns false if it refuses, or knows no such advice. */
static bool advise(void *memory, size_t size, int advice)
{
	bool done = false;
#ifdef MADV_DONTNEED
	int before = errno;

	done = madvise(memory, size, advice) == 0;
	errno = before;
#else
	(void)memory;
	(void)size;
	(void)advice;
#define MADV_DONTNEED (-1)
#endif
	return done;
}

void hwt_mem_want_huge(void *memory, size_t size, bool huge)
{
	(void)advise(memory, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

void hwt_mem_populate(void *memory, size_t size)
{
	(void)advise(memory, size, MADV_POPULATE_WRITE);
}

bool hwt_mem_give_back(void *memory, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)memory,
		  end = (begin + size) & ~(page - 1);
	char *pages = (char *)memory + (-begin & (page - 1));

	return (uintptr_t)pages < end && advise(pages, end - (uintptr_t)pages, MADV_DONTNEED);
}

void hwt_mem_zero(void *memory, size_t size)
{
#ifdef HWT_LINUX
	size_t given = size & ~((size_t)sysconf(_SC_PAGESIZE) - 1); /* the last page has other bytes behind it */

	if (hwt_mem_give_back(memory, given)) {
		memory = (char *)memory + given;
		size -= given;
	}
#endif
	memset(memory, 0, size);
}

void *hwt_mem_block(size_t align, size_t size)
{
	int before = errno;
	void *memory = NULL;

	if (hwt_mem_refused() || posix_memalign(&memory, align, size) != 0)
		memory = NULL;
	errno = before;
	return memory;
}

void hwt_mem_free(void *memory)
{
	int before = errno; /* free may change it: glibc's did before 2.33 */

	free(memory);
	errno = before;
}
