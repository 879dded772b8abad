/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The worker publishes what it is to be woken for, checks the lanes once more, and sleeps.  A producer submits and
 * loads the published word.  The worker never sleeps over a submission that did not wake it, and the thread that wakes
 * sees the alarm.  When the driver of a timer sees that it has rung, the ring is over.
 */
#include "lane.h"

#ifndef IDLE_BARRIER
#define IDLE_BARRIER false /* GenMC has no membarrier */
#endif

static bool slept;

static void run(hwt_timeout self, void *arg)
{
	(void)self;
	(void)arg;
}

static void *produce(void *unused)
{
	(void)hwt_lane_submit(&lane, run, NULL, 5, NULL);
	return unused;
}

static void *rest(void *unused)
{
	hwt_idle_set_alarm(&lanes.idle, 9);
	if (hwt_idle_begin(&lanes.idle, INT64_MAX) && hwt_lanes_are_empty(&lanes))
		slept = true;
	if (atomic_load_explicit(&lanes.idle.rings, memory_order_acquire) >= RING_OVER) /* [rung], as idle_told */
		hwt_idle_set_alarm(&lanes.idle, 0);
	return unused;
}

int main(void)
{
	pthread_t producer, worker_;

	lane_make(1);
	lanes.idle.has_barrier = lanes.waiters.has_barrier = IDLE_BARRIER;
	worker_ = weak_start(rest);
	producer = weak_start(produce);
	pthread_join(producer, NULL);
	pthread_join(worker_, NULL);
	assert(!slept || woken);
	return 0;
}
