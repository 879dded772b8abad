/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A task moves its own timeout, so that it runs again, and another thread cancels it.  A cancel that returned 0
 * prevents the next run.  A cancel that came too late says so, and then the move was refused or came later.
 */
#include "lane.h"

static int answer, moved = -1, runs;
static _Atomic int result;
static hwt_timeout timeout;

static void run(hwt_timeout self, void *arg)
{
	(void)arg;
	runs++;
	atomic_store_explicit(&result, runs, memory_order_relaxed);
	if (runs == 1)
		moved = hwt_lane_rearm(&lane, self.entry, 2 * LANE_TICK_NS);
}

static void *cancel_it(void *unused)
{
	answer = hwt_lane_cancel(&lane, timeout.entry, timeout.generation);
	if (word_public_state(record_word(timeout.entry), timeout.generation) == HWT_EXPIRED)
		assert(atomic_load_explicit(&result, memory_order_relaxed) > 0); /* [end] */
	return unused;
}

static void *work(void *unused)
{
	lane_pass(1);
	return unused;
}

int main(void)
{
	pthread_t canceller, passes;

	lane_make(1);
	(void)hwt_lane_submit(&lane, run, NULL, LANE_TICK_NS, &timeout);
	lane_pass(0);
	passes = weak_start(work);
	canceller = weak_start(cancel_it);
	pthread_join(canceller, NULL);
	pthread_join(passes, NULL);
	lane_pass(2);
	if (answer == 0)
		assert(runs <= 1);
	else
		assert(runs == (moved == 0 ? 2 : 1));
	assert(answer != EBUSY || moved == ENOENT);
	assert(slab_home() == &records[0]);
	return 0;
}
