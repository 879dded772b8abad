/* SPDX-License-Identifier: BSD-2-Clause */
/* Thread-local variables, and giving way to another thread; thread.h. */
#include "base/thread.h"

#include <sched.h>
#include <time.h>

/* How often a thread yields: mostly one or two yields are enough. */
#define YIELDS 16

/* Then the thread sleeps for 50 us, 100 us and so on, up to 800 us. */
#define FIRST_SLEEP_NS 50000
#define DOUBLINGS 4

HWT_OWN uint32_t hwt_own_number;
HWT_OWN struct hwt_current_task *hwt_current_task;

#ifdef HWT_TEST
_Atomic(hwt_point_hook *) hwt_test_point;
#endif

void hwt_thread_give_way(unsigned *turns)
{
	struct timespec sleep = { 0, FIRST_SLEEP_NS };
	int cancel_before;

	HWT_POINT("give way");
	if (*turns < YIELDS) {
		++*turns;
		(void)sched_yield();
		return;
	}
	sleep.tv_nsec <<= *turns - YIELDS;
	if (*turns < YIELDS + DOUBLINGS)
		++*turns;
	cancel_before = thread_no_cancel(); /* the caller may hold a lock */
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &sleep, NULL);
	thread_restore_cancel(cancel_before);
}
