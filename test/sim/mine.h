/* SPDX-License-Identifier: BSD-2-Clause */
/* The fields that an actor of the timer's simulation has besides those of frame.h. */
#ifndef HWT_SIM_MINE_H
#define HWT_SIM_MINE_H

#include "base/counter.h"
#include "base/thread.h"
#include "lane/lane.h"
#include "timer/timer.h"

struct sim_mine {
	uint32_t id; /* unique among the actors of the seed */
	uint64_t plan;
	bool is_held; /* the thread has lost its processor */

	/* Thread-local state: the library's four variables, and errno. */
	struct hwt_home home;
	struct hwt_reading reading;
	struct hwt_current_task *task;
	uint32_t number;
	int error;
};

#endif
