/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A record serves one timeout, comes home and serves another, while a walk comes by: the fields that it shows belong to
 * one of the two.  With WEAK_EXTENDED the first has an extension, whose memory may serve the second.
 */
#include "shown.h"

static bool again;

static void *serve(void *unused)
{
	lane_pass(1);
	again = hwt_lane_submit(&lane, second, &runs[1], 2 * LANE_TICK_NS, NULL) == 0;
	return unused;
}

static void *walk(void *unused)
{
	hwt_pending shown;

	for (int i = 0; i < 2; i++)
		if (record_read(&records[i], &shown))
			check_shown(&shown);
	return unused;
}

int main(void)
{
	pthread_t server, walker;

	lane_make(2);
#ifdef WEAK_EXTENDED
	struct hwt_extension extension = { .arg = &runs[0] };

	(void)hwt_lane_submit_extended(&lane, first, &extension, 0, LANE_TICK_NS, NULL);
#else
	(void)hwt_lane_submit(&lane, first, &runs[0], LANE_TICK_NS, NULL);
#endif
	lane_pass(0);
	server = weak_start(serve);
	walker = weak_start(walk);
	pthread_join(server, NULL);
	pthread_join(walker, NULL);
	return 0;
}
