/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two threads move a timeout, or one moves and one cancels it.  The deadline is that of the last move, and not torn.  A
 * cancel that returned 0 ends the timeout; otherwise it runs at that deadline.
 */
#include "lane.h"

static int moved[2], cancelled, runs;
static hwt_timeout timeout;

static void run(hwt_timeout self, void *arg)
{
	(void)self;
	(void)arg;
	runs++;
}

static void *move(void *unused)
{
	moved[0] = hwt_lane_reschedule(&lane, timeout.entry, timeout.generation, 2 * LANE_TICK_NS);
	return unused;
}

static void *move_earlier(void *unused)
{
	moved[1] = hwt_lane_reschedule(&lane, timeout.entry, timeout.generation, LANE_TICK_NS);
	return unused;
}

#ifdef WEAK_CANCEL
static void *cancel_it(void *unused)
{
	cancelled = hwt_lane_cancel(&lane, timeout.entry, timeout.generation);
	return unused;
}
#endif

int main(void)
{
	pthread_t threads[2];

	lane_make(1);
	(void)hwt_lane_submit(&lane, run, NULL, 3 * LANE_TICK_NS, &timeout);
	lane_pass(0);
#ifdef WEAK_CANCEL
	threads[0] = weak_start(cancel_it);
#else
	cancelled = -1;
	threads[0] = weak_start(move);
#endif
	threads[1] = weak_start(move_earlier);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	assert(moved[0] == 0 && (moved[1] == 0 || cancelled == 0));
	lane_pass(1);
	assert(cancelled != 0 || runs == 0);
	assert(cancelled == 0 || runs == (record_deadline(&records[0]) == LANE_TICK_NS));
	lane_pass(2);
	assert(runs == (cancelled != 0));
	assert(slab_home() == &records[0]);
	return 0;
}
