/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock: CLOCK_MONOTONIC.  In the test build a function may stand in for it, for virtual time. */
#ifndef HWT_CLOCK_H
#define HWT_CLOCK_H

#include "base/base.h"

#include <time.h>

#define NS_PER_S INT64_C(1000000000)

#ifdef HWT_TEST
/* NULL: the real clock, and a real sleep. */
extern int64_t (*hwt_test_clock)(void);
extern void (*hwt_test_sleep)(int64_t until_ns);
#endif

/* Returns the time in nanoseconds. */
static inline int64_t hwt_clock_now(void)
{
	struct timespec now;

#ifdef HWT_TEST
	if (hwt_test_clock != NULL)
		return hwt_test_clock();
#endif
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

#endif
