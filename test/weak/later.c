/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timeout is moved within its tick, and then to a later one, while the worker runs its old tick.  After a move that
 * returned 0 the task does not start before the new deadline, and it starts once.
 */
#include "lane.h"

static int moved[2], runs, began;
static hwt_timeout timeout;

static void run(hwt_timeout self, void *arg)
{
	(void)self;
	(void)arg;
	runs++;
	began = (int)worker.tick;
}

static void *move(void *unused)
{
	moved[0] = hwt_lane_reschedule(&lane, timeout.entry, timeout.generation, LANE_TICK_NS);
	moved[1] = hwt_lane_reschedule(&lane, timeout.entry, timeout.generation, 3 * LANE_TICK_NS);
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
	(void)hwt_lane_submit(&lane, run, NULL, LANE_TICK_NS / 2, &timeout);
	lane_pass(0);
	passes = weak_start(work);
	mover = weak_start(move);
	pthread_join(mover, NULL);
	pthread_join(passes, NULL);
	lane_pass(2);
	lane_pass(3);
	assert(runs == 1);
	assert(began == (moved[1] == 0 ? 3 : 1));
	return 0;
}
