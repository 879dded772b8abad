/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A record comes back to its lane and serves a second timeout.  A cancel by the handle of the first one changes
 * nothing of the second, and a look at the first one's deadline never shows that of the second.
 */
#include "lane.h"

static int runs[2], answer = -1;
static bool again;
static hwt_timeout timeout;

static void count(hwt_timeout self, void *arg)
{
	(void)self;
	++*(int *)arg;
}

static void *serve(void *unused)
{
	lane_pass(1);
	again = hwt_lane_submit(&lane, count, &runs[1], 2 * LANE_TICK_NS, NULL) == 0;
	if (again)
		lane_pass(2);
	return unused;
}

#ifdef WEAK_CANCEL
static void *cancel_it(void *unused)
{
	struct hwt_lane *home = record_lane(timeout.entry);

	answer = hwt_lane_cancel(home, timeout.entry, timeout.generation);
	return unused;
}
#else
static void *look_at_it(void *unused)
{
	int64_t deadline_ns;

	if (record_read_deadline(timeout.entry, timeout.generation, &deadline_ns))
		assert(deadline_ns == LANE_TICK_NS);
	return unused;
}
#endif

int main(void)
{
	pthread_t server, other;

	lane_make(1);
	(void)hwt_lane_submit(&lane, count, &runs[0], LANE_TICK_NS, &timeout);
	lane_pass(0);
	server = weak_start(serve);
#ifdef WEAK_CANCEL
	other = weak_start(cancel_it);
#else
	other = weak_start(look_at_it);
#endif
	pthread_join(other, NULL);
	pthread_join(server, NULL);
	assert(runs[0] == (answer != 0) && runs[1] == again);
	return 0;
}
