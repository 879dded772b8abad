/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One thread schedules, another cancels, and a third adds up the ends and then the begins: at no moment are there more
 * ends than begins.  With a limit of one, a thread below the limit never counts two pending.
 */
#include "lane.h"

static hwt_timeout timeout;
static _Atomic bool scheduled;

static void run(hwt_timeout self, void *arg)
{
	(void)self;
	(void)arg;
}

static int64_t pending(void)
{
	uint64_t ended = lanes_cancelled(&lanes);

	return (int64_t)(lanes_sum(&lanes, accepted) - ended);
}

static void *produce(void *unused)
{
	assert(hwt_lane_submit(&lane, run, NULL, 5, &timeout) == 0);
	atomic_store_explicit(&scheduled, true, memory_order_release);
	return unused;
}

static void *cancel_it(void *unused)
{
	assume(atomic_load_explicit(&scheduled, memory_order_acquire));
	assert(hwt_lane_cancel(&lane, timeout.entry, timeout.generation) == 0);
	return unused;
}

static void *add_up(void *unused)
{
	assert(pending() >= 0);
	return unused;
}

int main(void)
{
	lane_make(1);
	weak_start(produce);
	weak_start(cancel_it);
	weak_start(add_up);
	return 0;
}
