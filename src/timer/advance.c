/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timer without a thread: its passes are made by who calls hwt_timer_advance, from a loop of his own.
 *
 * The alarm, if there is one, is to the caller's poll what sleeping is to the worker, with the same handshake
 * (idle.h): it is set, then what it is set for is published, then the lanes are looked at once more.  A producer who
 * claims an old publication and is slow to ring may ring too early; that costs a pass.
 */
#include "base/thread.h"
#include "timer/timer.h"

#include <errno.h>

/* Passes in one advance: the second takes in what tasks of the first one scheduled, the others what others do. */
#define MAX_PASSES 4

/* From here to end() the caller is the worker. */
static int begin(hwt_timer *timer, int64_t now_ns)
{
	int state, rc = 0;

	pthread_mutex_lock(&timer->monitor.mutex);
	state = atomic_load_explicit(&timer->state, memory_order_relaxed); /* relaxed: under the mutex */
	if (state == TIMER_INIT && !timer_is_virtual(timer) && now_ns <= 0)
		rc = EINVAL; /* a virtual clock is meant: with that time nothing would ever run */
	else if (state != TIMER_INIT && state != TIMER_DRIVEN)
		rc = ECANCELED;
	else if (timer->advancing)
		rc = EBUSY;
	else
		timer->advancing = true;
	if (rc == 0 && state == TIMER_INIT)
		hwt_timer_start_driven(timer);
	pthread_mutex_unlock(&timer->monitor.mutex);
	return rc;
}

/* ECANCELED when a stop waits for it. */
static int end(hwt_timer *timer)
{
	int rc = 0;

	pthread_mutex_lock(&timer->monitor.mutex);
	timer->advancing = false;
	/* Relaxed: under the mutex. */
	if (atomic_load_explicit(&timer->state, memory_order_relaxed) != TIMER_DRIVEN) {
		pthread_cond_broadcast(&timer->monitor.changed);
		rc = ECANCELED;
	}
	pthread_mutex_unlock(&timer->monitor.mutex);
	return rc;
}

static void pass(hwt_timer *timer, int64_t now_ns)
{
	struct hwt_worker *worker = &timer->worker;
	int passes = 0;
	bool more;

	do {
		more = hwt_worker_pass(worker, now_ns) || !hwt_lanes_are_empty(&timer->lanes);
		/* What had been accepted before is all part of the first one, but for what cannot be had now. */
		passes += !worker->is_behind || worker->backlog == 0;
	} while (more && passes < MAX_PASSES && !worker_has_to_stop(worker) && !worker_is_full(worker));
}

/* When there is something to do, as far as is known now. */
static int64_t next_time(hwt_timer *timer, int64_t now_ns)
{
	int64_t due = hwt_wheel_next_due(timer->wheel);

	if (timer->worker.is_cut)
		return grid_time(&timer->grid, timer->worker.tick);
	if (!hwt_lanes_are_empty(&timer->lanes))
		return now_ns;
	return due == HWT_TICK_NEVER ? INT64_MAX : grid_time(&timer->grid, due);
}

/* The same, and the alarm rings then, or earlier if a producer knows better. */
static int64_t next_alarm(hwt_timer *timer, int64_t now_ns)
{
	struct hwt_idle *idle = &timer->lanes.idle;
	int64_t due = hwt_wheel_next_due(timer->wheel), next_ns = next_time(timer, now_ns);

	hwt_idle_set_alarm(idle, next_ns <= now_ns ? 0 : next_ns);
	if (next_ns <= now_ns)
		return next_ns;
	if (hwt_idle_begin(idle, due == HWT_TICK_NEVER ? INT64_MAX : grid_time(&timer->grid, due - 1)) &&
	    hwt_lanes_are_empty(&timer->lanes))
		return next_ns;
	/* Something came, or the system refuses: look again, at once or at the next tick. */
	hwt_idle_end(idle);
	next_ns = hwt_lanes_are_empty(&timer->lanes) ? grid_time(&timer->grid, timer->wheel->tick) : now_ns;
	hwt_idle_set_alarm(idle, next_ns == now_ns ? 0 : next_ns);
	return next_ns;
}

/* The later of what it was told before and now: time does not go back. */
static void tell(hwt_timer *timer, int64_t now_ns)
{
	/* Relaxed: one thread at a time writes it, and the time is all there is to it. */
	if (now_ns > atomic_load_explicit(&timer->told_ns, memory_order_relaxed))
		atomic_store_explicit(&timer->told_ns, now_ns, memory_order_relaxed);
}

int64_t hwt_timer_told(const hwt_timer *timer)
{
	/* Relaxed: as above. */
	int64_t told_ns = atomic_load_explicit(&timer->told_ns, memory_order_relaxed), clock_ns;

	if (timer_is_virtual(timer))
		return told_ns;
	clock_ns = hwt_clock_now();
	return clock_ns > told_ns ? clock_ns : told_ns;
}

static void lose(void *arg)
{
	hwt_timer *timer = arg;

	hwt_timer_lose(timer);
	current_task_leave(&timer->worker.frame);
	(void)end(timer);
}

/*
 * The answer.  What is with the executor may run again, from the next tick on, and nobody but the alarm would say so.
 * In this order: a job that has ended before the first look is in what is looked at then.
 */
static int64_t next_call(hwt_timer *timer, int64_t now_ns, int64_t (*next)(hwt_timer *timer, int64_t now_ns))
{
	bool done = executor_is_done(&timer->jobs);
	int64_t tick_ns = grid_time(&timer->grid, timer->wheel->tick), next_ns = next(timer, now_ns);

	return done || next_ns < tick_ns ? next_ns : tick_ns;
}

static int advance(hwt_timer *timer, int64_t now_ns, int64_t *next_ns)
{
	int64_t next;
	int rc = begin(timer, now_ns);

	if (rc != 0)
		return rc;
	current_task_enter(&timer->worker.frame, timer, NULL);
	hwt_idle_end(&timer->lanes.idle);
	tell(timer, now_ns);
	if (timer->config.max_tasks_per_advance != 0)
		timer->worker.runs_max = worker_runs(&timer->worker) + timer->config.max_tasks_per_advance;
	counts_add(&timer->worker.counts.wakeups, 1);
	pthread_cleanup_push(lose, timer);
	pass(timer, now_ns);
	pthread_cleanup_pop(0);
	hwt_worker_settle(&timer->worker);
	next = next_call(timer, now_ns, hwt_idle_has_alarm(&timer->lanes.idle) ? next_alarm : next_time);
	current_task_leave(&timer->worker.frame);
	rc = end(timer);
	if (rc == 0 && next_ns != NULL)
		*next_ns = next;
	return rc;
}

int hwt_timer_advance(hwt_timer *timer, int64_t now_ns, int64_t *next_ns)
{
	int rc, cancel_before;

	if (timer == NULL || !timer_is_driven(timer))
		return EINVAL;
	cancel_before = thread_no_cancel(); /* tasks, too, are not cut short */
	rc = advance(timer, now_ns, next_ns);
	thread_restore_cancel(cancel_before);
	return rc;
}

/* Under the mutex, and nobody advances: the caller may look where the worker does. */
static int look(hwt_timer *timer, int64_t *next_ns)
{
	/* Relaxed: under the mutex. */
	switch (atomic_load_explicit(&timer->state, memory_order_relaxed)) {
	case TIMER_INIT:
		*next_ns = INT64_MAX;
		return 0;
	case TIMER_DRIVEN:
		break;
	default:
		return ECANCELED;
	}
	if (timer->advancing)
		return EBUSY;
	/* Relaxed: under the mutex. */
	*next_ns = next_call(timer, atomic_load_explicit(&timer->told_ns, memory_order_relaxed), next_time);
	return 0;
}

int hwt_timer_next(hwt_timer *timer, int64_t *next_ns)
{
	int rc;

	if (timer == NULL || next_ns == NULL || !timer_is_driven(timer))
		return EINVAL;
	pthread_mutex_lock(&timer->monitor.mutex);
	rc = look(timer, next_ns);
	pthread_mutex_unlock(&timer->monitor.mutex);
	return rc;
}

int hwt_timer_fd(hwt_timer *timer, int *fd)
{
	struct hwt_sleeper *sleeper;
	int rc;

	if (timer == NULL || fd == NULL || !timer_is_driven(timer) || timer_is_virtual(timer))
		return EINVAL;
	rc = hwt_timer_start(timer);
	if (rc != 0)
		return rc;
	sleeper = &timer->lanes.idle.sleeper;
	HWT_POINT("descriptor");
	pthread_mutex_lock(&timer->monitor.mutex);
	/* A stop that has begun looks at the alarm without the mutex.  Relaxed: under the mutex. */
	if (atomic_load_explicit(&timer->state, memory_order_relaxed) != TIMER_DRIVEN)
		rc = ECANCELED;
	else if (sleeper->alarm < 0)
		rc = timer->advancing ? EBUSY : hwt_sleeper_make_alarm(sleeper);
	if (rc == 0)
		*fd = sleeper->alarm;
	pthread_mutex_unlock(&timer->monitor.mutex);
	return rc;
}
