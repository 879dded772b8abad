/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every allocation of the library goes through here, so that tests can make the n-th one fail.
 */
#ifndef HWT_MEM_H
#define HWT_MEM_H

#include "base/base.h"

#include <stdatomic.h>

#define HWT_HUGE_PAGE ((size_t)2 << 20)

/* Zeroed memory, untouched if it is large: a wheel of 2^20 buckets costs only the pages it uses.  NULL: no memory. */
void *hwt_mem_zeroed(size_t align, size_t size);

/* Memory of any content.  align is a power of two, size a multiple of it.  Blocks of whole huge pages ask for such. */
void *hwt_mem_block(size_t align, size_t size);

void hwt_mem_free(void *memory);

/* false; in the test build what the test says: for what needs memory that does not come from here. */
bool hwt_mem_refused(void);

#ifdef HWT_TEST
/* Asked before each allocation; true makes it fail. */
typedef bool hwt_mem_refuses(void);
extern _Atomic(hwt_mem_refuses *) hwt_test_mem_refuses;
#endif

#endif
