/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading the clock that config.clock names; clock.h. */
#define _GNU_SOURCE
#include "base/clock.h"

#include <errno.h>
#include <hwt.h>

int64_t hwt_clock_read(uint32_t clock)
{
	static const clockid_t ids[] = {
		[HWT_CLOCK_MONOTONIC] = CLOCK_MONOTONIC,
#ifdef CLOCK_BOOTTIME
		[HWT_CLOCK_BOOTTIME] = CLOCK_BOOTTIME,
#else
		[HWT_CLOCK_BOOTTIME] = -1,
#endif
		[HWT_CLOCK_REALTIME] = CLOCK_REALTIME,
	};
	struct timespec now;
	int before = errno;

	if (clock >= sizeof(ids) / sizeof(ids[0]))
		return -1;
#ifdef HWT_TEST
	if (hwt_test_clock != NULL)
		return hwt_test_clock();
#endif
	if (clock_gettime(ids[clock], &now) != 0) {
		errno = before;
		return -1;
	}
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}
