/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Virtual time through the public interface: timers whose time begins at 0 and is what the test tells them.  Those of
 * the unit tests, which make the passes of a worker, are in unit.h.
 */
#ifndef HWT_TEST_VIRTUAL_H
#define HWT_TEST_VIRTUAL_H

#include "support.h"

/* What a timer was told last by advance. */
static int64_t virtual_ns;

static inline hwt_timer *limited_virtual_timer(int64_t limit)
{
	hwt_timer *timer = flagged_timer(HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK, limit);
	int64_t next_ns = -1;

	virtual_ns = 0;
	CHECK_RC(hwt_timer_advance(timer, 0, &next_ns), 0);
	CHECK_INT(next_ns, ==, INT64_MAX);
	return timer;
}

static inline hwt_timer *virtual_timer(void)
{
	return limited_virtual_timer(0);
}

/* Returns when the timer next wants to be advanced. */
static inline int64_t advance(hwt_timer *timer, int64_t now_ns)
{
	int64_t next_ns = -1;

	virtual_ns = now_ns;
	CHECK_RC(hwt_timer_advance(timer, now_ns, &next_ns), 0);
	return next_ns;
}

/* Every tick of a millisecond up to now_ns. */
static inline void walk(hwt_timer *timer, int64_t now_ns)
{
	while (virtual_ns < now_ns)
		advance(timer, virtual_ns + HWT_MS(1));
}

#endif
