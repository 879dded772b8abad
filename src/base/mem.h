/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory.  Every allocation of the library goes through here, so that tests can make the n-th one fail.
 */
#ifndef HWT_MEM_H
#define HWT_MEM_H

#include "base/base.h"

#include <stdatomic.h>

#define HWT_HUGE_PAGE ((size_t)2 << 20)

/*
 * Returns zeroed memory, or NULL if there is none.  A large block is not touched, so a wheel of 2^20 buckets costs only
 * the pages that it uses.
 */
void *hwt_mem_zeroed(size_t align, size_t size);

/* Returns memory of any content, NULL if there is none.  align is a power of two, and at least that of a pointer. */
void *hwt_mem_block(size_t align, size_t size);

/*
 * Asks the system for huge pages, or for none.  The memory begins with a page, and holds nothing yet.  One fault and
 * one TLB entry then serve 40,000 records.  If the system refuses, that only costs speed.
 */
void hwt_mem_want_huge(void *memory, size_t size, bool huge);

/* Has the system provide all pages of a block now, if it can, before another thread writes to them.  errno stays. */
void hwt_mem_populate(void *memory, size_t size);

void hwt_mem_free(void *memory);

/*
 * Gives the pages of a block, or of a part of it, back to the system; the block stays allocated.  On Linux the pages
 * then read as zeros, elsewhere perhaps as before.  Returns false if the system refuses, as for locked memory.  errno
 * stays.
 */
bool hwt_mem_give_back(void *memory, size_t size);

/*
 * Zeroes memory that starts on a page boundary.  Gives its whole pages back to the system where that is possible, so
 * that they use no memory.
 */
void hwt_mem_zero(void *memory, size_t size);

/*
 * For allocations that do not go through this file: returns true if a test wants this one to fail, and false outside of
 * tests.
 */
bool hwt_mem_refused(void);

#ifdef HWT_TEST
/* A test's function, called before each allocation.  If it returns true the allocation fails. */
typedef bool hwt_mem_refuses(void);
extern _Atomic(hwt_mem_refuses *) hwt_test_mem_refuses;
#endif

#endif
