/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A producer submits, another thread cancels by the handle, and the worker makes two passes.  Either the cancel or the
 * run wins, in every order, and the record comes back to the lane.
 */
#include "lane.h"

static int runs, answer = -1;
static hwt_timeout timeout;
static _Atomic bool scheduled;

static void count(hwt_timeout self, void *arg)
{
	assert(self.entry == &records[0]);
	++*(int *)arg;
}

static void *produce(void *unused)
{
	int rc = hwt_lane_submit(&lane, count, &runs, 7, &timeout);

	assert(rc == 0);
	atomic_store_explicit(&scheduled, true, memory_order_release);
	return unused;
}

static void *cancel_it(void *unused)
{
	assume(atomic_load_explicit(&scheduled, memory_order_acquire));
	answer = hwt_lane_cancel(&lane, timeout.entry, timeout.generation);
	return unused;
}

static void *work(void *unused)
{
	lane_pass(1);
	return unused;
}

int main(void)
{
	pthread_t producer, canceller, passes;

	lane_make(1);
	producer = weak_start(produce);
	passes = weak_start(work);
	canceller = weak_start(cancel_it);
	pthread_join(producer, NULL);
	pthread_join(canceller, NULL);
	pthread_join(passes, NULL);
	pthread_join(weak_start(work), NULL);
	assert(answer == 0 || answer == EBUSY || answer == ENOENT);
	assert(runs == (answer != 0));
	assert(slab_home() == &records[0]);
	return 0;
}
