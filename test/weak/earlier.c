/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timeout is moved to an earlier tick, and then again, while the worker makes a pass at that tick.  It runs in this
 * pass or in the next, and its record comes back.
 */
#include "lane.h"

static int runs;
static hwt_timeout timeout;

static void run(hwt_timeout self, void *arg)
{
	(void)self;
	(void)arg;
	runs++;
}

static void *move(void *unused)
{
	assert(hwt_lane_reschedule(&lane, timeout.entry, timeout.generation, 2 * LANE_TICK_NS) == 0);
	assert(hwt_lane_reschedule(&lane, timeout.entry, timeout.generation, LANE_TICK_NS) == 0);
	return unused;
}

static void *work(void *unused)
{
	lane_pass(1);
	return unused;
}

int main(void)
{
	pthread_t mover, passes;

	lane_make(1);
	(void)hwt_lane_submit(&lane, run, NULL, 3 * LANE_TICK_NS, &timeout);
	lane_pass(0);
	passes = weak_start(work);
	mover = weak_start(move);
	pthread_join(mover, NULL);
	pthread_join(passes, NULL);
	lane_pass(1);
	assert(runs == 1);
	assert(slab_home() == &records[0]);
	return 0;
}
