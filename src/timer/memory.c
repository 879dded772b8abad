/* SPDX-License-Identifier: BSD-2-Clause */
/* hwt_timer_trim: which thread gives the memory back, and how the caller waits for it. */
#include "base/thread.h"
#include "timer/timer.h"
#include "worker/trim.h"

#include <errno.h>

/* So long the caller waits for a worker that is in a task. */
#define WAIT_NS HWT_MS(1000)

/* Has the end of an advance trim, or does it.  Under the mutex. */
static int ask_or_trim(hwt_timer *timer, size_t *bytes)
{
	struct hwt_worker *worker = &timer->worker;
	size_t before = hwt_worker_given(worker);

	while (hwt_driver_take(timer, DRIVER_LOOK) != DRIVER_FREE) {
		int state = atomic_load_explicit(&timer->state, memory_order_relaxed); /* relaxed: under the mutex */

		if (state != TIMER_INIT && state != TIMER_DRIVEN)
			return ECANCELED;
		if (hwt_driver_ask(timer))
			return 0;
	}
	HWT_POINT("trim driven");
	hwt_worker_trim_now(worker);
	*bytes = hwt_worker_given(worker) - before;
	hwt_driver_free(timer);
	return 0;
}

/*
 * The caller trims, as the worker would, between two advances.  The first look at the state is for a finaliser that a
 * stop calls.
 */
static int trim_driven(hwt_timer *timer, size_t *bytes)
{
	int state = atomic_load_explicit(&timer->state, memory_order_acquire); /* [started] */
	int rc = ECANCELED;

	if (state != TIMER_INIT && state != TIMER_DRIVEN)
		return ECANCELED;
	if (hwt_driver_ask(timer))
		return 0;
	hwt_driver_lock_last(timer);
	state = atomic_load_explicit(&timer->state, memory_order_relaxed); /* relaxed: under the mutex */
	if (state == TIMER_INIT || state == TIMER_DRIVEN)
		rc = ask_or_trim(timer, bytes);
	pthread_mutex_unlock(&timer->monitor.mutex);
	return rc;
}

/* In a task it does not wait: the worker trims after the task. */
static int trim_by_worker(hwt_timer *timer, size_t *bytes)
{
	int64_t wait_ns = current_task_is_in_timer(timer) ? 0 : WAIT_NS;

	switch (atomic_load_explicit(&timer->state, memory_order_acquire)) { /* [started] */
	case TIMER_INIT:
		return 0;
	case TIMER_STARTING:
	case TIMER_STARTED:
	case TIMER_CLOCKED:
		return hwt_worker_ask_trim(&timer->worker, add_saturating(clock_monotonic(), wait_ns), bytes);
	default:
		return ECANCELED;
	}
}

int hwt_timer_trim(hwt_timer *timer, size_t *bytes)
{
	int rc, cancel_before;
	size_t gone = 0;

	if (timer == NULL)
		return EINVAL;
	cancel_before = thread_no_cancel();
	rc = timer_is_driven(timer) ? trim_driven(timer, &gone) : trim_by_worker(timer, &gone);
	thread_restore_cancel(cancel_before);
	if (rc == 0 && bytes != NULL)
		*bytes = gone;
	return rc;
}
