/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A task moves its own timeout, a second thread cancels it, and a third adds up the ends, then the begins; the move
 * counts as a begin.  There are never more ends than begins.
 */
#include "lane.h"

static hwt_timeout timeout;

static void run(hwt_timeout self, void *arg)
{
	(void)arg;
	(void)hwt_lane_rearm(&lane, self.entry, 2 * LANE_TICK_NS);
}

static void *work(void *unused)
{
	lane_pass(1);
	return unused;
}

static void *cancel_it(void *unused)
{
	(void)hwt_lane_cancel(&lane, timeout.entry, timeout.generation);
	return unused;
}

static void *add_up(void *unused)
{
	uint64_t ended = atomic_load_explicit(&worker.expired, memory_order_acquire) + lanes_cancelled(&lanes);

	assert(lanes_sum(&lanes, accepted) + lanes_sum(&lanes, rearmed_count) >= ended);
	return unused;
}

int main(void)
{
	lane_make(1);
	(void)hwt_lane_submit(&lane, run, NULL, LANE_TICK_NS, &timeout);
	lane_pass(0);
	weak_start(work);
	weak_start(cancel_it);
	weak_start(add_up);
	return 0;
}
