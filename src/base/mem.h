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
 * Returns zeroed memory, NULL if there is none.  A large block is not touched, so a wheel of 2^20 buckets costs only
 * the pages that it uses.
 */
void *hwt_mem_zeroed(size_t align, size_t size);

/*
 * Returns memory of any content, NULL if there is none.  align is a power of two, size a multiple of it.  Asks the
 * system for huge pages if align is that of one.
 */
void *hwt_mem_block(size_t align, size_t size);

void hwt_mem_free(void *memory);

/* Returns true if a test wants an allocation that does not go through this file to fail.  Otherwise false. */
bool hwt_mem_refused(void);

#ifdef HWT_TEST
/* Called before each allocation; true makes it fail. */
typedef bool hwt_mem_refuses(void);
extern _Atomic(hwt_mem_refuses *) hwt_test_mem_refuses;
#endif

#endif
