/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timer: its life, and what ties lanes, wheel and worker together.
 *
 * Structure
 *
 *                  start                    worker has set the start time
 *        INIT ---------------> STARTING ---------------------------------> STARTED
 *         | ^                     |                                            |
 *         | +---------------------+ no thread                                  |
 *         |                 stop                                               | stop
 *         +---------------------------------> STOPPING <-----------------------+
 *                                                |  worker joined, lanes closed and drained
 *                                                v
 *                                             STOPPED   for good
 *
 * Threads
 *
 *   All edges are taken under the monitor's mutex; who finds STARTING or STOPPING waits in it.  hwt_new_timeout looks
 *   at the state without the mutex; lanes have their own word on being closed, so it decides nothing but whether to
 *   start.
 *
 * Ordering
 *
 *   [started]  STARTED is stored with release and loaded with acquire: whoever submits sees the grid's start.
 */
#ifndef HWT_TIMER_H
#define HWT_TIMER_H

#include "worker.h"

enum timer_state {
	TIMER_INIT,
	TIMER_STARTING,
	TIMER_STARTED,
	TIMER_STOPPING,
	TIMER_STOPPED,
};

#define HWT_THREAD_NAME_LENGTH 15

struct hwt_timer {
	/* What every submission reads, and nobody writes while it runs. */
	_Atomic int state;
	struct hwt_grid grid; /* the wheel's, away from what the worker writes */

	hwt_config config;
	char thread_name[HWT_THREAD_NAME_LENGTH + 1];

	struct hwt_lanes lanes;
	struct hwt_wheel *wheel;
	struct hwt_worker worker;
	pthread_t thread;
	bool has_thread;

	struct hwt_monitor monitor;

	/* What stop gave back, under the mutex. */
	struct hwt_record *unprocessed;
	_Atomic uint64_t given_back;
};

/* The timer whose task the calling thread is in, NULL if in none. */
extern _Thread_local hwt_timer *hwt_running_timer;

/* Starts without a thread: passes are the caller's.  The time of tick 0 is start_ns. */
int hwt_timer_start_driven(hwt_timer *timer, int64_t start_ns);

#endif
