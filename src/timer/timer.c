/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a timer: create, start, stop, destroy.  timer.h draws it. */
#define _GNU_SOURCE
#include "timer/timer.h"
#include "base/counter.h"
#include "base/mem.h"
#include "base/thread.h"
#include "lane/lane.h"
#include "lane/submit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIN_LANES 16
#define MAX_LANES 1024
#define MANY_TIMERS 64

/* The number of timers with a worker, and whether the program has been warned that there are many. */
static _Atomic unsigned timers_alive;
static _Atomic bool many_warned;

static int timer_state(const hwt_timer *timer)
{
	return atomic_load_explicit(&timer->state, memory_order_acquire); /* [started] */
}

static void wait_while(hwt_timer *timer, int state)
{
	while (timer_state(timer) == state)
		pthread_cond_wait(&timer->monitor.changed, &timer->monitor.mutex);
}

HWT_TUNABLE(long, cores, 0) /* 0: the machine's number of cores */

static long count_cores(void)
{
	int before = errno; /* sysconf may open files that do not exist */
	long count = cores() != 0 ? cores() : sysconf(_SC_NPROCESSORS_ONLN);

	errno = before;
	return count;
}

/* Returns the number of seats: at least two for each core, so that two busy threads rarely share a lane. */
static uint32_t count_seats(void)
{
	long cores = count_cores();
	uint32_t count = MIN_LANES;

	while (count < MAX_LANES && (long)count < 2 * cores)
		count *= 2;
	return count;
}

static void warn_of_many(const hwt_config *config)
{
	char message[96];

	/* Relaxed: no other data depends on either word. */
	if (atomic_load_explicit(&timers_alive, memory_order_relaxed) <= MANY_TIMERS || config->warn == NULL ||
	    atomic_exchange_explicit(&many_warned, true, memory_order_relaxed))
		return;
	(void)snprintf(message, sizeof(message), "more than %d timers are alive; a timer is meant to be shared",
		       MANY_TIMERS);
	hwt_config_warn(config, message);
}

static int init_parts(hwt_timer *timer)
{
	int rc;

	timer->wheel = timer->config.wheel == HWT_WHEEL_HIERARCHICAL
			   ? hwt_wheel_levels_create(timer->config.ticks_per_wheel)
			   : hwt_wheel_hashed_create(timer->config.ticks_per_wheel);
	if (timer->wheel == NULL)
		return ENOMEM;
	hwt_timer_set_grid(timer, 0);
	rc = hwt_lanes_init(&timer->lanes, timer, count_seats(), &timer->config);
	if (rc != 0)
		goto no_lanes;
	rc = hwt_worker_init(&timer->worker, &timer->lanes, timer->wheel, &timer->config);
	if (rc != 0)
		goto no_worker;
	rc = hwt_tasks_init(&timer->tasks, &timer->lanes, &timer->wheel->grid, &timer->config);
	if (rc != 0)
		goto no_tasks;
	if (timer->tasks.count > 0)
		timer->worker.tasks = &timer->tasks;
	if (timer->config.executor != NULL)
		timer->config.executor = &timer->tasks.executor; /* the caller's may be gone after the create */
	if (timer_is_driven(timer))
		timer->tasks.told_ns = &timer->told_ns;
	rc = hwt_monitor_init(&timer->monitor);
	if (rc == 0)
		return 0;
	hwt_tasks_destroy(&timer->tasks);
no_tasks:
	hwt_worker_destroy(&timer->worker);
no_worker:
	hwt_lanes_destroy(&timer->lanes);
no_lanes:
	hwt_wheel_destroy(timer->wheel);
	return rc;
}

static void set_thread_name(hwt_timer *timer)
{
	const char *name = timer->config.thread_name != NULL ? timer->config.thread_name : "hwt-worker";

	strncpy(timer->thread_name, name, HWT_THREAD_NAME_LENGTH);
	timer->config.thread_name = timer->thread_name;
}

static int create(hwt_timer **out, const hwt_config *config)
{
	hwt_config resolved;
	hwt_timer *timer;
	int rc;

	rc = hwt_config_resolve(&resolved, config);
	if (rc != 0)
		return rc;
	timer = hwt_mem_zeroed(alignof(hwt_timer), sizeof(*timer));
	if (timer == NULL)
		return ENOMEM;
	timer->config = resolved;
	set_thread_name(timer);
	timer->quiet = (struct hwt_quiet){ .from_ns = INT64_MAX, .until_ns = INT64_MAX };
	/* All other fields are 0: TIMER_INIT, DRIVER_FREE. */
	hwt_counter_ask(clock_monotonic());
	rc = init_parts(timer);
	if (rc != 0) {
		hwt_mem_free(timer);
		return rc;
	}
	if (!timer_is_driven(timer)) {
		atomic_fetch_add_explicit(&timers_alive, 1, memory_order_relaxed); /* relaxed: only counts */
		warn_of_many(&resolved);
	}
	*out = timer;
	return 0;
}

int hwt_timer_create(hwt_timer **out, const hwt_config *config)
{
	int rc, cancel_before;

	if (out == NULL)
		return EINVAL;
	cancel_before = thread_no_cancel(); /* writing a warning and reading a file are cancellation points */
	rc = create(out, config);
	thread_restore_cancel(cancel_before);
	return rc;
}

int hwt_timer_start(hwt_timer *timer)
{
	int rc = 0, cancel_before;

	CHECK_TIMER(timer);
	if (timer == NULL)
		return EINVAL;
	if (likely(timer_is_started(timer)))
		return 0;
	cancel_before = thread_no_cancel();
	pthread_mutex_lock(&timer->monitor.mutex);
	if (timer_state(timer) == TIMER_INIT && timer_is_driven(timer))
		hwt_timer_start_driven(timer);
	else if (timer_state(timer) == TIMER_INIT)
		rc = hwt_timer_launch(timer);
	wait_while(timer, TIMER_STARTING);
	if (rc == 0 && !timer_is_started(timer))
		rc = ECANCELED;
	pthread_mutex_unlock(&timer->monitor.mutex);
	thread_restore_cancel(cancel_before);
	return rc;
}

void hwt_timer_start_driven(hwt_timer *timer)
{
	int64_t start_ns = timer_is_virtual(timer) ? 0 : worker_now(&timer->worker);

	hwt_timer_begin_time(timer, start_ns);
	timer->worker.is_told = true;
	/* Relaxed: set_state publishes it, [started]. */
	atomic_store_explicit(&timer->told_ns, start_ns, memory_order_relaxed);
	hwt_timer_set_state(timer, TIMER_DRIVEN);
}

/*
 * Cancels all timeouts that are left, lists them and returns their number.  No task runs any more, and once the lanes
 * are closed no thread can submit.  Only cancels and moves may still come; stop.c argues.
 */
static size_t give_back_rest(hwt_timer *timer)
{
	struct hwt_record *record;
	size_t count = 0;

	hwt_lanes_close(&timer->lanes);
	while ((record = hwt_worker_next_unprocessed(&timer->worker)) != NULL) {
		record->link = timer->unprocessed;
		timer->unprocessed = record;
		count++;
	}
	timer->all_unprocessed = timer->unprocessed;
	/* Release: [count]. */
	atomic_store_explicit(&timer->given_back, count, memory_order_release);
	return count;
}

/*
 * Ends the passes, and waits for running tasks: on the worker, in a thread that advances, then on task threads and
 * executors.  The latter come last, because the passes hand over to them.  From the first line on task threads begin no
 * task; tasks that have not begun are given back.
 */
static void end_passes(hwt_timer *timer)
{
	hwt_tasks_stop(&timer->tasks);
	hwt_worker_request_stop(&timer->worker);
	if (timer->has_thread)
		pthread_join(timer->thread, NULL);
	pthread_mutex_lock(&timer->monitor.mutex);
	hwt_driver_close(timer);
	pthread_mutex_unlock(&timer->monitor.mutex);
	hwt_tasks_join(&timer->tasks);
}

/* Leads from TIMER_STOPPING, which this thread has set, to TIMER_STOPPED. */
static size_t finish_stop(hwt_timer *timer)
{
	struct hwt_current_task frame;
	size_t count;

	end_passes(timer);
	current_task_enter(&frame, timer, NULL); /* so that stop and destroy return EDEADLK to finalisers */
	count = give_back_rest(timer);
	current_task_leave(&frame);
	pthread_mutex_lock(&timer->monitor.mutex);
	hwt_timer_set_state(timer, TIMER_STOPPED);
	pthread_mutex_unlock(&timer->monitor.mutex);
	return count;
}

int hwt_timer_stop(hwt_timer *timer, size_t *unprocessed)
{
	size_t count = 0;
	int cancel_before;
	bool mine;

	CHECK_TIMER(timer);
	if (timer == NULL)
		return EINVAL;
	if (current_task_is_in_timer(timer))
		return EDEADLK;
	cancel_before = thread_no_cancel();
	pthread_mutex_lock(&timer->monitor.mutex);
	wait_while(timer, TIMER_STARTING);
	mine = timer_state(timer) == TIMER_INIT || timer_is_started(timer);
	if (mine)
		hwt_timer_set_state(timer, TIMER_STOPPING);
	else
		wait_while(timer, TIMER_STOPPING);
	pthread_mutex_unlock(&timer->monitor.mutex);
	if (mine)
		count = finish_stop(timer);
	thread_restore_cancel(cancel_before);
	if (unprocessed != NULL)
		*unprocessed = count;
	return 0;
}

bool hwt_timer_next_unprocessed(hwt_timer *timer, hwt_unprocessed *out)
{
	struct hwt_record *record = NULL;
	hwt_pending left;

	CHECK_TIMER(timer);
	if (timer == NULL || out == NULL || timer_state(timer) != TIMER_STOPPED)
		return false;
	pthread_mutex_lock(&timer->monitor.mutex);
	record = timer->unprocessed;
	if (record != NULL)
		timer->unprocessed = record->link;
	pthread_mutex_unlock(&timer->monitor.mutex);
	if (record == NULL)
		return false;
	left = hwt_timer_unprocessed(record);
	out->timeout = left.timeout;
	out->task = timer_collects(timer) ? NULL : left.task;
	out->arg = left.arg;
	out->deadline_ns = left.deadline_ns;
	return true;
}

/* Calls the finalisers of the timeouts that stop gave back.  The program may read their args until here. */
static void release_unprocessed(hwt_timer *timer)
{
	struct hwt_current_task frame;

	pthread_mutex_lock(&timer->monitor.mutex);
	timer->unprocessed = NULL; /* for a finaliser that walks: some args are gone by then */
	pthread_mutex_unlock(&timer->monitor.mutex);
	current_task_enter(&frame, timer, NULL);
	for (struct hwt_record *record = timer->all_unprocessed; record != NULL; record = record->link)
		if (word_has(record_word(record), WORD_EXTENDED))
			hwt_record_release(record);
	current_task_leave(&frame);
}

/*
 * Frees the rest of a timer.  A debug build keeps timer and records for ever, so that hwt_debug_handle can read them;
 * in a list, so that a leak checker finds them reachable.
 */
static void free_timer(hwt_timer *timer)
{
#ifdef HWT_DEBUG
	static _Atomic(hwt_timer *) newest;

	hwt_idle_destroy(&timer->lanes.idle);
	timer->is_destroyed = true;
	timer->kept_before = atomic_exchange_explicit(&newest, timer, memory_order_relaxed); /* relaxed: no reader */
#else
	hwt_lanes_destroy(&timer->lanes);
	hwt_mem_free(timer);
#endif
}

int hwt_timer_destroy(hwt_timer *timer)
{
	int rc, cancel_before;

	CHECK_TIMER(timer);
	if (timer == NULL)
		return 0;
	rc = hwt_timer_stop(timer, NULL);
	if (rc != 0)
		return rc;
	cancel_before = thread_no_cancel(); /* finalisers */
	release_unprocessed(timer);
	hwt_monitor_destroy(&timer->monitor);
	hwt_tasks_destroy(&timer->tasks);
	hwt_worker_destroy(&timer->worker);
	hwt_wheel_destroy(timer->wheel);
	if (!timer_is_driven(timer))
		atomic_fetch_sub_explicit(&timers_alive, 1, memory_order_relaxed); /* relaxed: only counts */
	free_timer(timer);
	thread_restore_cancel(cancel_before);
	return 0;
}

int hwt_timer_config(const hwt_timer *timer, hwt_config *out)
{
	CHECK_TIMER(timer);
	if (timer == NULL || out == NULL)
		return EINVAL;
	return hwt_config_copy_out(out, &timer->config);
}

void *hwt_timer_user(const hwt_timer *timer)
{
	CHECK_TIMER(timer);
	return timer != NULL ? timer->config.user : NULL;
}

int hwt_timer_grid(const hwt_timer *timer, int64_t *start_ns)
{
	int state;

	CHECK_TIMER(timer);
	if (timer == NULL || start_ns == NULL)
		return EINVAL;
	/* In these two states another thread may be writing the grid; in later states no thread writes it. */
	state = timer_state(timer);
	if (state == TIMER_INIT || state == TIMER_STARTING || !timer->has_begun)
		return ENOENT;
	*start_ns = timer->grid.start_ns;
	return 0;
}
