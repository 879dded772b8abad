/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread cancels its newest timeout and schedules another one, for which its lane has kept the record, while the
 * worker comes by.  The second one runs once and is complete; the queue never seems shorter than it is.
 */
#include "lane.h"

static int payload;
static unsigned ran;

static void run(hwt_timeout self, void *arg)
{
	(void)self;
	assert(*(int *)arg == 2);
	ran++;
}

static void *produce(void *unused)
{
	hwt_timeout timeout;
	int rc;

	payload = 1;
	assert(hwt_lane_submit(&lane, run, &payload, 5, &timeout) == 0);
	rc = hwt_lane_cancel(&lane, timeout.entry, timeout.generation);
	assume(rc == 0); /* it has not run */
	payload = 2;
	assert(hwt_lane_submit(&lane, run, &payload, 5, NULL) == 0);
	return unused;
}

static void *work(void *unused)
{
	assert(lane_waiting(&lane) <= 2);
	lane_pass(0);
	return unused;
}

int main(void)
{
	pthread_t producer, worker;

	lane_make(2);
	producer = weak_start(produce);
	worker = weak_start(work);
	pthread_join(producer, NULL);
	pthread_join(worker, NULL);
	lane_pass(0);
	lane_pass(1);
	assert(ran == 1);
	return 0;
}
