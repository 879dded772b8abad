/* SPDX-License-Identifier: BSD-2-Clause */
/* With a limit of one, a thread that gets the slot of a cancelled timeout does not count two as pending. */
#include "lane.h"

static hwt_timeout timeout;

static void run(hwt_timeout self, void *arg)
{
	(void)self;
	(void)arg;
}

static void *cancel_it(void *unused)
{
	assert(hwt_lane_cancel(&lane, timeout.entry, timeout.generation) == 0);
	return unused;
}

static void *produce(void *unused)
{
	if (hwt_lane_submit(&lane, run, NULL, 5, NULL) == 0) {
		uint64_t ended = lanes_cancelled(&lanes);

		assert(lanes_sum(&lanes, accepted) - ended <= 1);
	}
	return unused;
}

int main(void)
{
	lane_make(2);
	lanes.max_pending = 1;
	lanes.asks_more = true;
	assert(hwt_lane_submit(&lane, run, NULL, 5, &timeout) == 0);
	weak_start(produce);
	weak_start(cancel_it);
	return 0;
}
