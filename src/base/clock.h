/* SPDX-License-Identifier: BSD-2-Clause */
/* The clocks: CLOCK_MONOTONIC and others.  In the test build a function may stand in for them, for virtual time. */
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

/* Returns the time of a clock, HWT_CLOCK_*, in nanoseconds.  -1: there is no such clock here. */
int64_t hwt_clock_read(uint32_t clock);

/* For the calls that wait.  Where time_t has 32 bits, the latest time that it holds stands for later ones. */
static inline struct timespec clock_timespec(int64_t time_ns)
{
	if (sizeof(time_t) < sizeof(int64_t) && time_ns / NS_PER_S > INT32_MAX)
		return (struct timespec){ .tv_sec = (time_t)INT32_MAX };
	return (struct timespec){ .tv_sec = (time_t)(time_ns / NS_PER_S), .tv_nsec = (long)(time_ns % NS_PER_S) };
}

/* Returns the time of CLOCK_MONOTONIC. */
static inline int64_t clock_monotonic(void)
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
