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
 *   A timer that its caller drives goes from INIT to DRIVEN instead.  It is not STARTED, so that what is different in
 *   it is looked at where everybody else does not come by.
 *
 *   A task that ends its thread instead of returning (pthread_exit) takes it from the timer: from STARTED or DRIVEN to
 *   LOST.  Nothing runs any more, so nothing is accepted but by calls that are on their way, and what is pending waits
 *   for a stop.
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

#include "worker/worker.h"

enum timer_state {
	TIMER_INIT,
	TIMER_STARTING,
	TIMER_STARTED,
	TIMER_DRIVEN, /* started, without a worker: passes are made by hwt_timer_advance */
	TIMER_LOST,
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
	struct hwt_executor_jobs jobs;
	pthread_t thread;
	bool has_thread;

	struct hwt_monitor monitor;

	/* DRIVEN. */
	bool advancing;          /* somebody is in hwt_timer_advance; under the mutex */
	_Atomic int64_t told_ns; /* the latest time that hwt_timer_advance was told, or the start */

	_Atomic uint64_t refused_stopped; /* by looking at the state, in no lane */

	/* What stop gave back, under the mutex. */
	struct hwt_record *unprocessed; /* those not yet handed out */
	struct hwt_record *all_unprocessed;
	_Atomic uint64_t given_back;
};

static inline bool timer_is_driven(const hwt_timer *timer)
{
	return (timer->config.flags & HWT_CALLER_DRIVEN) != 0;
}

/* Its clock is what hwt_timer_advance is told. */
static inline bool timer_is_virtual(const hwt_timer *timer)
{
	return (timer->config.flags & HWT_VIRTUAL_CLOCK) != 0;
}

/* Under the mutex; tells those who wait for it. */
void hwt_timer_set_state(hwt_timer *timer, int state);

/* The time of tick 0. */
void hwt_timer_set_grid(hwt_timer *timer, int64_t start_ns);

/*
 * Makes the worker's thread: from INIT to STARTING, under the mutex.  The worker, which needs the mutex, cannot set
 * STARTED before the caller waits.  What pthread_create says.  (launch.c)
 */
int hwt_timer_launch(hwt_timer *timer);

/*
 * In a thread that is ending in the middle of a pass: from STARTED or DRIVEN to LOST.  The task that ends it has ended;
 * all later calls know.  (launch.c)
 */
void hwt_timer_lose(hwt_timer *timer);

/* From INIT to DRIVEN, under the mutex.  Tick 0 is now: by the clock, or 0 of a virtual one. */
void hwt_timer_start_driven(hwt_timer *timer);

/* What time it is for a DRIVEN timer: its own, or the clock's, or what it was told if that is later. */
int64_t hwt_timer_told(const hwt_timer *timer);

/* For tests: starts without a thread, passes are theirs.  The time of tick 0 is start_ns. */
int hwt_timer_start_by_hand(hwt_timer *timer, int64_t start_ns);

#ifdef HWT_TEST
extern long hwt_test_cores; /* for timers created from now on; 0: as many as there are */
#endif

#endif
