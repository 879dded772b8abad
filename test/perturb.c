/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Linked to the test build of the library: at the points where threads race (HWT_POINT) a thread
 * now and then gives up its processor, or goes to sleep, so that orders which need bad luck come about all the time.
 */
#include "base/base.h"

#include <sched.h>
#include <time.h>

static void perturb(const char *where)
{
	static _Thread_local uint64_t state;
	struct timespec nap = { 0, 20000 };

	(void)where;
	if (state == 0)
		state = (uint64_t)(uintptr_t)&state * UINT64_C(0x9e3779b97f4a7c15) | 1;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	if (state % 8192 == 0)
		nanosleep(&nap, NULL);
	else if (state % 64 == 0)
		sched_yield();
}

__attribute__((constructor)) static void install(void)
{
	atomic_store(&hwt_test_point, perturb);
}
