/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A producer takes a cancelled record back out of its queue while the worker looks how long that is: it never seems
 * shorter than it is, least of all of a negative length.
 */
#define WEAK_RECLAIM
#include "lane.h"

#include "lane/reclaim.c"

static void run(hwt_timeout self, void *arg)
{
	(void)self;
	(void)arg;
}

static void *produce(void *unused)
{
	struct hwt_chain chain = { .count = 0 };
	hwt_timeout timeout;

	assert(hwt_lane_submit(&lane, run, NULL, 5, &timeout) == 0);
	assert(hwt_lane_cancel(&lane, timeout.entry, timeout.generation) == 0);
	queue_lock(&lane.submitted);
	if (queue_begin_consume(&lane.submitted)) {
		sift(&lane, &chain);
		queue_end_consume(&lane.submitted);
	}
	queue_unlock(&lane.submitted);
	return unused;
}

static void *work(void *unused)
{
	assert(lane_waiting(&lane) <= 1);
	return unused;
}

int main(void)
{
	lane_make(1);
	weak_start(produce);
	weak_start(work);
	return 0;
}
