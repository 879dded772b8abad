/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timer without a thread: the caller of hwt_timer_advance makes the passes from its own event loop.
 *
 * What sleeping is to the worker, the alarm is to the caller's poll, with the same handshake (idle.h): the advance sets
 * the alarm, then publishes for what a producer has to ring it, then looks at the lanes once more.  A producer that has
 * claimed an old publication and is slow may ring the new alarm too early.  That costs a pass and loses nothing.
 * config.on_earlier is an alarm that is not set: the caller knows the time, and a producer tells it of an earlier one.
 */
#include "base/thread.h"
#include "timer/timer.h"

#include <errno.h>

/* Passes in one advance.  The second takes in what tasks of the first scheduled, the others what other threads did. */
#define MAX_PASSES 4

/* Ends the advance.  Returns ECANCELED if a stop has begun meanwhile, and wakes it. */
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
		/*
		 * Passes that work off what had been accepted before the call are not counted, unless they find nothing
		 * to take.
		 */
		passes += !worker->is_behind || worker->backlog == 0;
	} while (more && passes < MAX_PASSES && !worker_has_to_stop(worker) && !worker_is_full(worker));
}

/* Returns when there is something to do, as far as is known now. */
static int64_t next_time(hwt_timer *timer, int64_t now_ns)
{
	int64_t due = hwt_wheel_next_due(timer->wheel);

	if (timer->worker.is_cut)
		return grid_time(&timer->grid, timer->worker.tick);
	if (!hwt_lanes_are_empty(&timer->lanes))
		return now_ns;
	return due == HWT_TICK_NEVER ? INT64_MAX : grid_time(&timer->grid, due);
}

/*
 * The same, and sets the alarm to that time.  A producer with something earlier rings it.  The order is that of a
 * worker that goes idle: alarm, publication, fence, lanes.  After the last look a push finds the publication.
 */
static int64_t next_alarm(hwt_timer *timer, int64_t now_ns)
{
	struct hwt_idle *idle = &timer->lanes.idle;
	int64_t due = hwt_wheel_next_due(timer->wheel), next_ns = next_time(timer, now_ns);

	timer->alarm_is_set = hwt_idle_has_alarm(idle);
	hwt_idle_set_alarm(idle, next_ns <= now_ns ? 0 : next_ns);
	if (next_ns <= now_ns)
		return next_ns;
	if (hwt_idle_begin(idle, due == HWT_TICK_NEVER ? INT64_MAX : grid_time(&timer->grid, due - 1)) &&
	    hwt_lanes_are_empty(&timer->lanes))
		return next_ns;
	/* Something came in, or the system refuses the fence: ask for the next advance now, or at the next tick. */
	hwt_idle_end(idle);
	next_ns = hwt_lanes_are_empty(&timer->lanes) ? grid_time(&timer->grid, timer->wheel->tick) : now_ns;
	hwt_idle_set_alarm(idle, next_ns == now_ns ? 0 : next_ns);
	return next_ns;
}

/* Notes the time that the caller told.  A time before the last one is ignored, if time does not go back. */
static void tell(hwt_timer *timer, int64_t now_ns)
{
	/* Relaxed: one thread at a time writes it, and no other data depends on it. */
	if (now_ns > atomic_load_explicit(&timer->told_ns, memory_order_relaxed) ||
	    timer->config.clock == HWT_CLOCK_REALTIME)
		atomic_store_explicit(&timer->told_ns, now_ns, memory_order_relaxed);
}

int64_t hwt_timer_now(const hwt_timer *timer)
{
	/* Relaxed: as above. */
	int64_t told_ns = atomic_load_explicit(&timer->told_ns, memory_order_relaxed), clock_ns;

	if (timer_is_virtual(timer))
		return told_ns;
	clock_ns = worker_now(&timer->worker);
	if (!timer_is_driven(timer) || timer->config.clock == HWT_CLOCK_REALTIME)
		return clock_ns;
	return clock_ns > told_ns ? clock_ns : told_ns;
}

/* A task ends the calling thread: the timer has lost it. */
static void lose(void *arg)
{
	hwt_timer *timer = arg;

	hwt_timer_lose(timer);
	current_task_leave(&timer->worker.frame);
	(void)end(timer);
}

/*
 * Returns the answer of the advance.  A task that is with the executor may run again, from the next tick on, and only
 * the alarm would tell the caller.  So while jobs are out, the answer is at most the next tick.
 *
 * The look at the executor comes before the look at the lanes.  A job that ends in between has pushed by then, and the
 * second look sees it.  In the other order it could be in neither.
 */
static int64_t next_call(hwt_timer *timer, int64_t now_ns, int64_t (*next)(hwt_timer *timer, int64_t now_ns))
{
	bool done = executor_is_done(&timer->jobs);
	int64_t tick_ns = grid_time(&timer->grid, timer->wheel->tick), next_ns = next(timer, now_ns);

	return done || next_ns < tick_ns ? next_ns : tick_ns;
}

/*
 * Returns true, and the answer, if a pass would find nothing: nothing has come, no tick has passed since the last pass,
 * and that left nothing.  What it published for producers still stands, and so does the alarm.  A loop that advances
 * with each request comes by here nearly always.
 */
static bool is_quiet(hwt_timer *timer, int64_t now_ns, int64_t *next_ns)
{
	struct hwt_idle *idle = &timer->lanes.idle;

	if (!hwt_lanes_are_empty(&timer->lanes) || !worker_left_nothing(&timer->worker))
		return false;
	if (!hwt_idle_is_told(idle) || hwt_idle_has_alarm(idle) != timer->alarm_is_set)
		return false;
	if (grid_ticks_passed(&timer->grid, now_ns) + 1 != timer->wheel->tick)
		return false;
	*next_ns = next_call(timer, now_ns, next_time);
	return *next_ns > now_ns;
}

/* Makes the caller the worker, until end(); not if *is_done, where *next_ns is the answer. */
static int begin(hwt_timer *timer, int64_t now_ns, bool *is_done, int64_t *next_ns)
{
	int state, rc = 0;

	pthread_mutex_lock(&timer->monitor.mutex);
	state = atomic_load_explicit(&timer->state, memory_order_relaxed); /* relaxed: under the mutex */
	if (state == TIMER_INIT && !timer_is_virtual(timer) && now_ns <= 0)
		rc = EINVAL; /* the caller means a virtual clock: on the system's clock nothing would ever run */
	else if (state != TIMER_INIT && state != TIMER_DRIVEN)
		rc = ECANCELED;
	else if (timer->advancing)
		rc = EBUSY;
	else if (state == TIMER_INIT)
		hwt_timer_start_driven(timer);
	else
		*is_done = is_quiet(timer, now_ns, next_ns);
	if (rc == 0) {
		timer->advancing = !*is_done;
		tell(timer, now_ns);
		counts_add(&timer->worker.counts.wakeups, 1);
	}
	pthread_mutex_unlock(&timer->monitor.mutex);
	return rc;
}

/*
 * Makes the passes.  A function of its own: pthread_cleanup_push may be a setjmp, which a variable of the same function
 * does not survive in a register.
 */
static void pass_or_lose(hwt_timer *timer, int64_t now_ns)
{
	pthread_cleanup_push(lose, timer);
	pass(timer, now_ns);
	pthread_cleanup_pop(0);
}

static int advance(hwt_timer *timer, int64_t now_ns, int64_t *next_ns)
{
	bool is_done = false;
	int64_t next = now_ns;
	int rc = begin(timer, now_ns, &is_done, &next);

	if (rc == 0 && is_done && next_ns != NULL)
		*next_ns = next;
	if (rc != 0 || is_done)
		return rc;
	current_task_enter(&timer->worker.frame, timer, NULL);
	hwt_idle_end(&timer->lanes.idle);
	if (timer->config.max_tasks_per_advance != 0)
		timer->worker.runs_max = worker_runs(&timer->worker) + timer->config.max_tasks_per_advance;
	pass_or_lose(timer, now_ns);
	hwt_worker_settle(&timer->worker);
	next = next_call(timer, now_ns, hwt_idle_is_watched(&timer->lanes.idle) ? next_alarm : next_time);
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
	cancel_before = thread_no_cancel(); /* tasks come to their end, too */
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
	/* A stop that has begun reads `alarm` without the mutex, so none is made then.  Relaxed: under the mutex. */
	if (atomic_load_explicit(&timer->state, memory_order_relaxed) != TIMER_DRIVEN)
		rc = ECANCELED;
	else if (sleeper_alarm(sleeper) < 0)
		rc = timer->advancing ? EBUSY : hwt_sleeper_make_alarm(sleeper);
	if (rc == 0)
		*fd = sleeper_alarm(sleeper);
	pthread_mutex_unlock(&timer->monitor.mutex);
	return rc;
}
