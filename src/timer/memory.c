/* SPDX-License-Identifier: BSD-2-Clause */
/* hwt_timer_trim: which thread gives the memory back, and how the caller waits for it. */
#include "base/thread.h"
#include "timer/timer.h"
#include "worker/trim.h"

#include <errno.h>

/* So long the caller waits for a worker that is in a task. */
#define WAIT_NS HWT_MS(1000)

/*
 * Makes the caller the worker, until hwt_driver_end.  Returns 0, EBUSY or ECANCELED.  A look of another thread lasts
 * some instructions, under the mutex.
 */
static int begin(hwt_timer *timer)
{
	int was, state;

	while ((was = hwt_driver_take(timer, DRIVER_BUSY)) == DRIVER_LOOK) {
		pthread_mutex_lock(&timer->monitor.mutex);
		pthread_mutex_unlock(&timer->monitor.mutex);
	}
	state = atomic_load_explicit(&timer->state, memory_order_acquire); /* [started] */
	if (state == TIMER_INIT || state == TIMER_DRIVEN)
		return was == DRIVER_FREE ? 0 : EBUSY;
	if (was == DRIVER_FREE)
		(void)hwt_driver_end(timer);
	return ECANCELED;
}

static int trim_driven(hwt_timer *timer, size_t *bytes)
{
	size_t before;
	int rc = begin(timer);

	if (rc != 0)
		return rc;
	before = hwt_worker_given(&timer->worker);
	hwt_worker_trim_now(&timer->worker);
	*bytes = hwt_worker_given(&timer->worker) - before;
	(void)hwt_driver_end(timer);
	return 0;
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
	debug_timer(timer);
	cancel_before = thread_no_cancel();
	rc = timer_is_driven(timer) ? trim_driven(timer, &gone) : trim_by_worker(timer, &gone);
	thread_restore_cancel(cancel_before);
	if (rc == 0 && bytes != NULL)
		*bytes = gone;
	return rc;
}
