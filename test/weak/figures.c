/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reader adds up ends and begins while the worker runs a task that has just been scheduled: a task that has returned
 * has started, and a started task was accepted (timer/stats.c reads in this order).
 */
#include "lane.h"

static void run(hwt_timeout self, void *arg)
{
	(void)self;
	(void)arg;
}

static void *produce(void *unused)
{
	(void)hwt_lane_submit(&lane, run, NULL, LANE_TICK_NS, NULL);
	return unused;
}

static void *work(void *unused)
{
	lane_pass(1);
	return unused;
}

static void *add_up(void *unused)
{
	uint64_t finished = atomic_load_explicit(&worker.counts.finished, memory_order_acquire); /* [finished] */
	uint64_t expired = atomic_load_explicit(&worker.expired, memory_order_acquire);          /* [count] */
	uint64_t accepted = lanes_sum(&lanes, accepted);

	assert(finished <= expired && expired <= accepted);
	return unused;
}

int main(void)
{
	lane_make(1);
	weak_start(produce);
	weak_start(work);
	weak_start(add_up);
	return 0;
}
