/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of a loop between two advances: the time of the next work, and the descriptor; advance.c. */
#include "lane/lane.h"
#include "timer/timer.h"

#include <errno.h>

/*
 * Returns the least of the last answer and of the deadlines that have come since, on the grid.  A deadline that had
 * passed when it came counts as the time of the last advance.  Records that an executor's job sends back need no check:
 * while there is a job the answer is at most the next tick.
 */
static int64_t next_since(hwt_timer *timer)
{
	/* Relaxed: [driver]. */
	int64_t told_ns = atomic_load_explicit(&timer->told_ns, memory_order_relaxed);
	int64_t come_ns = hwt_lanes_earliest(&timer->lanes, false), next_ns = timer->quiet.until_ns, tick;

	if (come_ns == INT64_MAX)
		return next_ns; /* the timer may be starting: only what has come shows the grid */
	tick = grid_tick_of(&timer->grid, come_ns);
	come_ns = tick <= grid_ticks_passed(&timer->grid, told_ns) ? told_ns : grid_time(&timer->grid, tick);
	return come_ns < next_ns ? come_ns : next_ns;
}

int hwt_timer_next(hwt_timer *timer, int64_t *next_ns)
{
	int rc;

	CHECK_TIMER(timer);
	if (timer == NULL || next_ns == NULL || !timer_is_driven(timer))
		return EINVAL;
	rc = driver_take(timer);
	if (rc != 0)
		return rc;
	if (worker_has_to_stop(&timer->worker))
		rc = ECANCELED;
	else
		*next_ns = next_since(timer);
	driver_free(timer);
	return rc;
}

/* Makes the alarm, under the mutex.  The alarm rings until the next advance sets it. */
static int make_alarm(hwt_timer *timer)
{
	int rc = driver_take(timer);

	if (rc != 0)
		return rc;
	rc = hwt_sleeper_make_alarm(&timer->lanes.idle.sleeper);
	if (rc == 0)
		timer->quiet.from_ns = INT64_MAX;
	driver_free(timer);
	return rc;
}

int hwt_timer_fd(hwt_timer *timer, int *fd)
{
	const struct hwt_idle *idle;
	int rc;

	CHECK_TIMER(timer);
	if (timer == NULL || fd == NULL || !timer_is_driven(timer) || timer_is_virtual(timer))
		return EINVAL;
	rc = hwt_timer_start(timer);
	if (rc != 0)
		return rc;
	idle = &timer->lanes.idle;
	HWT_POINT("descriptor");
	pthread_mutex_lock(&timer->monitor.mutex);
	/*
	 * A stop in progress reads `alarm` without the mutex, so no alarm is made during a stop.  Relaxed: under the
	 * mutex.
	 */
	if (atomic_load_explicit(&timer->state, memory_order_relaxed) != TIMER_DRIVEN)
		rc = ECANCELED;
	else if (idle_alarm(idle) < 0)
		rc = make_alarm(timer);
	if (rc == 0)
		*fd = idle_alarm(idle);
	pthread_mutex_unlock(&timer->monitor.mutex);
	return rc;
}
