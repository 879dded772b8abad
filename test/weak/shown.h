/* SPDX-License-Identifier: BSD-2-Clause */
/* Two timeouts that one record serves after each other, and what a walk may show of the record. */
#ifndef HWT_WEAK_SHOWN_H
#define HWT_WEAK_SHOWN_H

#include "lane.h"

static int runs[2];

static void first(hwt_timeout self, void *arg)
{
	(void)self;
	++*(int *)arg;
}

static void second(hwt_timeout self, void *arg)
{
	(void)self;
	++*(int *)arg;
}

/* All fields belong to one of the two timeouts. */
static void check_shown(const hwt_pending *shown)
{
	assert(shown->task == (shown->arg == &runs[0] ? first : second));
	assert(shown->deadline_ns == (shown->arg == &runs[0] ? 1 : 2) * LANE_TICK_NS);
	assert(shown->period_ns == 0);
}

#endif
