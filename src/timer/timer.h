/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timer: its life, and how it ties lanes, wheel and worker together.
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
 *   A timer that its caller drives goes from INIT to DRIVEN instead.  DRIVEN is not STARTED, so the fast path of the
 *   other timers need not test for it.
 *
 *   A timer with a worker and another clock than CLOCK_MONOTONIC goes from STARTING to CLOCKED: in STARTED the fast
 *   path takes deadlines from the processor's counter.
 *
 * Threads
 *
 *   All edges are taken under the monitor's mutex.  A thread that finds STARTING or STOPPING waits on the monitor.
 *   hwt_new_timeout loads the state without the mutex, and decides by it only whether to start the timer: `closed` of
 *   the lane decides whether a submission is accepted.
 *
 * Ordering
 *
 *   [driver]   `driver` is taken with acquire and released with release: a thread that drives sees the writes of the
 *              driver before.
 *   [started]  STARTED is stored with release and loaded with acquire: a thread that submits sees the grid's start.
 */
#ifndef HWT_TIMER_H
#define HWT_TIMER_H

#include "worker/worker.h"

enum timer_state {
	TIMER_INIT,
	TIMER_STARTING,
	TIMER_STARTED,
	TIMER_CLOCKED, /* started, on another clock than CLOCK_MONOTONIC */
	TIMER_DRIVEN,  /* started, without a worker: hwt_timer_advance makes the passes */
	TIMER_STOPPING,
	TIMER_STOPPED,
};

/*
 * The driver's word: which thread may touch the passes of a DRIVEN timer:
 *
 *     FREE <---> LOOK       some instructions: hwt_timer_next, an advance with nothing to do; or a trim.  Others wait
 *     LOOK ----> BUSY       an advance that makes passes
 *     BUSY ----> FREE       its end
 *     FREE ----> CLOSED     a stop, under the mutex
 *     BUSY ----> AWAITED    a stop in the middle of an advance, whose end then makes it CLOSED, under the mutex
 *
 * Only the thread that has LOOK ends it, by a store; so does, under the mutex, the advance that a stop awaits.  All
 * other edges are exchanges, so a stop and an advance that begin at the same moment see each other.
 */
enum timer_driver { DRIVER_FREE, DRIVER_LOOK, DRIVER_BUSY, DRIVER_AWAITED, DRIVER_CLOSED };

/*
 * What an advance leaves behind, from_ns and the published wake_for_ns (idle.h):
 *
 *     from_ns     wake_for_ns
 *     INT64_MAX   IDLE_AWAKE    there is work at once, or no advance has been made
 *     a time      IDLE_AWAKE    the timer has neither a descriptor nor on_earlier
 *     either      a time        the alarm is set to a tick later, or on_earlier waits for a call
 *
 * The producer that rings makes wake_for_ns IDLE_AWAKE, and `rings` not 0: then the next advance makes passes.
 *
 * until_ns: the answer of the last advance.  While from_ns <= now < until_ns no timeout in the wheel is due, and the
 * answer holds.  Operations in the lanes may wait until tick_ns.  from_ns INT64_MAX: the next advance makes a pass.
 */
struct hwt_quiet {
	int64_t from_ns, tick_ns, until_ns;
	int64_t due_ns; /* a timeout with a later deadline is not due before until_ns */
};

/* The array into which hwt_timer_advance_batch collects timeouts. */
struct hwt_collected {
	hwt_fired *out;
	size_t count, room;
};

#define HWT_THREAD_NAME_LENGTH 15

struct hwt_timer {
	/* Every submission reads these two; no thread writes them while the timer runs. */
	_Atomic int state;
	struct hwt_grid grid; /* a copy of the wheel's grid, apart from the fields that the worker writes */

	hwt_config config;
	char thread_name[HWT_THREAD_NAME_LENGTH + 1];

	struct hwt_lanes lanes;
	struct hwt_wheel *wheel;
	struct hwt_worker worker;
	struct hwt_tasks tasks;
	pthread_t thread;
	bool has_thread;
	bool has_begun; /* tick 0 has its time; set before the state changes, [started] */

	struct hwt_monitor monitor;

	/* Of a DRIVEN timer.  Only the thread that has the driver's word touches the fields below it; [driver]. */
	_Atomic int driver;
	struct hwt_quiet quiet;
	_Atomic int64_t told_ns;         /* the latest time that hwt_timer_advance was told, or the start */
	struct hwt_collected *collected; /* the array of the hwt_timer_advance_batch in progress */

	_Atomic uint64_t refused_stopped; /* submissions that the state refused, which no lane counts */

	/* The timeouts that stop gave back, under the mutex. */
	struct hwt_record *unprocessed; /* timeouts not yet handed out */
	struct hwt_record *all_unprocessed;
	_Atomic uint64_t given_back;

#ifdef HWT_DEBUG
	bool is_destroyed;
	hwt_timer *kept_before; /* the timer destroyed before this one */
#endif
};

#ifdef HWT_DEBUG
/* End the process if the timer, or the timer of the handle, has been destroyed.  (format.c) */
void hwt_debug_timer(const hwt_timer *timer, const char *call);
void hwt_debug_handle(hwt_timeout timeout, const char *call);
#define CHECK_TIMER(timer) hwt_debug_timer(timer, __func__)
#define CHECK_HANDLE(timeout) hwt_debug_handle(timeout, __func__)
#else
#define CHECK_TIMER(timer) ((void)0)
#define CHECK_HANDLE(timeout) ((void)0)
#endif

static inline bool timer_is_driven(const hwt_timer *timer)
{
	return (timer->config.flags & HWT_CALLER_DRIVEN) != 0;
}

/* Returns true if the timer calls no task: hwt_timer_advance_batch hands timeouts out. */
static inline bool timer_collects(const hwt_timer *timer)
{
	return (timer->config.flags & HWT_COLLECT) != 0;
}

/* Returns true if the times told to hwt_timer_advance are the timer's clock. */
static inline bool timer_is_virtual(const hwt_timer *timer)
{
	return (timer->config.flags & HWT_VIRTUAL_CLOCK) != 0;
}

/*
 * Writes the settings in force for *in (NULL: the defaults) to *out, and warns by in->warn.  Returns 0, EINVAL or
 * ENOTSUP.  (This and the next: config.c)
 */
int hwt_config_resolve(hwt_config *out, const hwt_config *in);

/* Calls config->warn if there is one, and leaves errno alone. */
void hwt_config_warn(const hwt_config *config, const char *what);

/* Warns that a call is refused, and why: `what`.  Returns EINVAL. */
int hwt_config_refuse(const hwt_config *config, const char *what);

/*
 * Copies the fields of *config for which out->size has room, and keeps out->size.  Returns EINVAL if there is no room
 * for one.
 */
int hwt_config_copy_out(hwt_config *out, const hwt_config *config);

/* Sets the state and wakes the threads that wait for it.  Under the mutex. */
void hwt_timer_set_state(hwt_timer *timer, int state);

/* Sets the time of tick 0. */
void hwt_timer_set_grid(hwt_timer *timer, int64_t start_ns);

/*
 * Sets the time of tick 0 for a timer that starts at now_ns.  On HWT_CLOCK_REALTIME, which may be set back, tick 0 is
 * the beginning of that clock.  (launch.c)
 */
void hwt_timer_begin_time(hwt_timer *timer, int64_t now_ns);

static inline bool timer_is_started(const hwt_timer *timer)
{
	int state = atomic_load_explicit(&timer->state, memory_order_acquire); /* [started] */

	return state == TIMER_STARTED || state == TIMER_CLOCKED || state == TIMER_DRIVEN;
}

/* Returns the state of a timer whose worker has started. */
static inline int timer_state_with_worker(const hwt_timer *timer)
{
	return timer->config.clock == HWT_CLOCK_MONOTONIC ? TIMER_STARTED : TIMER_CLOCKED;
}

/*
 * Makes the task threads and the worker's thread: from INIT to STARTING.  Returns 0 or the error of pthread_create,
 * after which there is no thread.  Under the mutex, which the worker needs to set STARTED: so the caller waits before
 * the worker can set it.  (launch.c)
 */
int hwt_timer_launch(hwt_timer *timer);

/* Slow half of driver_take: waits for the end of a LOOK.  (This and what follows: driver.c) */
int hwt_driver_wait(hwt_timer *timer);

/* Takes the driver's word as LOOK.  Returns 0; EBUSY: an advance is in progress; or ECANCELED. */
static inline int driver_take(hwt_timer *timer)
{
	int was = DRIVER_FREE;

	/* Acquire: [driver].  On failure relaxed: hwt_driver_wait tries again. */
	if (likely(timer->tasks.count == 0) &&
	    likely(atomic_compare_exchange_strong_explicit(&timer->driver, &was, DRIVER_LOOK, memory_order_acquire,
							   memory_order_relaxed)))
		return 0;
	return hwt_driver_wait(timer);
}

/* Gives the driver's word back from LOOK. */
static inline void driver_free(hwt_timer *timer)
{
	HWT_POINT("driver looks");
	atomic_store_explicit(&timer->driver, DRIVER_FREE, memory_order_release); /* [driver] */
}

/* Ends an advance from BUSY.  Returns 0; or, if a stop has begun meanwhile, wakes the stop and returns ECANCELED. */
int hwt_driver_end(hwt_timer *timer);

/* Keeps advances out from now on, and waits for the end of an advance in progress.  Under the mutex. */
void hwt_driver_close(hwt_timer *timer);

/* Leads from INIT to DRIVEN, under the mutex.  Tick 0 is now by the clock, or 0 on a virtual clock. */
void hwt_timer_start_driven(hwt_timer *timer);

/*
 * Returns the time from which delays count: that of the timer's clock.  On a virtual clock it is the time told; for
 * another DRIVEN timer the later of both; on HWT_CLOCK_REALTIME, which may be set back, always that of the clock.
 */
int64_t hwt_timer_now(const hwt_timer *timer);

/* Returns the timeout that stop gave back in this record.  (each.c) */
hwt_pending hwt_timer_unprocessed(struct hwt_record *record);

/* The task of each timeout of a timer that collects. */
void hwt_timer_collect(hwt_timeout timeout, void *arg);

#endif
