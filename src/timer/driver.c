/* SPDX-License-Identifier: BSD-2-Clause */
/* The word that the thread driving a timer holds (timer.h), and hwt_timer_trim, which takes it on a driven timer. */
#include "base/thread.h"
#include "timer/timer.h"
#include "worker/trim.h"

#include <errno.h>

int hwt_driver_wait(hwt_timer *timer)
{
	unsigned turns = 0;

	/*
	 * For a task of an executor the advance counts as in progress, as for any task, even if it has returned by now.
	 */
	if (timer->tasks.count > 0 && current_task_is_in_timer(timer)) {
		int state = atomic_load_explicit(&timer->state, memory_order_acquire); /* [started] */

		return state == TIMER_INIT || state == TIMER_DRIVEN ? EBUSY : ECANCELED;
	}
	for (;;) {
		int was = DRIVER_FREE;

		/* Acquire: [driver].  On failure relaxed: the word is tried again, or the call gives up. */
		if (atomic_compare_exchange_strong_explicit(&timer->driver, &was, DRIVER_LOOK, memory_order_acquire,
							    memory_order_relaxed))
			return 0;
		if (was != DRIVER_LOOK)
			return was == DRIVER_BUSY ? EBUSY : ECANCELED;
		HWT_POINT("blocked");
		hwt_thread_give_way(&turns);
	}
}

int hwt_driver_end(hwt_timer *timer)
{
	/*
	 * A stop rings once, before it takes the driver's word; the loop may have woken by that ring.  The load comes
	 * before the exchange: after the exchange the timer may be destroyed.
	 */
	bool stops = worker_has_to_stop(&timer->worker);
	int was = DRIVER_BUSY, cancel_before;

	/* Release: [driver].  On failure relaxed: a stop is waiting, and the mutex below orders the rest. */
	if (likely(atomic_compare_exchange_strong_explicit(&timer->driver, &was, DRIVER_FREE, memory_order_release,
							   memory_order_relaxed)))
		return unlikely(stops) ? ECANCELED : 0;
	cancel_before = thread_no_cancel();
	pthread_mutex_lock(&timer->monitor.mutex);
	atomic_store_explicit(&timer->driver, DRIVER_CLOSED, memory_order_release); /* [driver] */
	pthread_cond_broadcast(&timer->monitor.changed);
	pthread_mutex_unlock(&timer->monitor.mutex);
	thread_restore_cancel(cancel_before);
	return ECANCELED;
}

void hwt_driver_close(hwt_timer *timer)
{
	int was = DRIVER_FREE;
	unsigned turns = 0;

	/* Acquire: [driver].  On failure relaxed: the loop tries again.  The end of a LOOK is waited for. */
	while (!atomic_compare_exchange_strong_explicit(&timer->driver, &was,
							was == DRIVER_FREE ? DRIVER_CLOSED : DRIVER_AWAITED,
							memory_order_acquire, memory_order_relaxed)) {
		HWT_POINT("close driver");
		if (was != DRIVER_LOOK)
			continue;
		was = DRIVER_FREE;
		HWT_POINT("blocked");
		hwt_thread_give_way(&turns);
	}
	while (atomic_load_explicit(&timer->driver, memory_order_acquire) == DRIVER_AWAITED) /* [driver] */
		pthread_cond_wait(&timer->monitor.changed, &timer->monitor.mutex);
}

/* How long hwt_timer_trim waits for a worker that is in a task. */
#define WAIT_NS HWT_MS(1000)

/* Trims between two advances, as the worker would.  Under the mutex. */
static int trim_driven(hwt_timer *timer, size_t *bytes)
{
	struct hwt_worker *worker = &timer->worker;
	size_t before = hwt_worker_given(worker);
	int state = atomic_load_explicit(&timer->state, memory_order_relaxed); /* relaxed: under the mutex */
	int rc;

	if (state != TIMER_INIT && state != TIMER_DRIVEN)
		return ECANCELED;
	rc = driver_take(timer);
	if (rc != 0)
		return rc;
	hwt_worker_trim_now(worker);
	*bytes = hwt_worker_given(worker) - before;
	driver_free(timer);
	return 0;
}

/* Asks the worker to trim.  In a task it does not wait: the worker trims after the task. */
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

	CHECK_TIMER(timer);
	if (timer == NULL)
		return EINVAL;
	cancel_before = thread_no_cancel();
	if (timer_is_driven(timer)) {
		pthread_mutex_lock(&timer->monitor.mutex);
		rc = trim_driven(timer, &gone);
		pthread_mutex_unlock(&timer->monitor.mutex);
	} else {
		rc = trim_by_worker(timer, &gone);
	}
	thread_restore_cancel(cancel_before);
	if (rc == 0 && bytes != NULL)
		*bytes = gone;
	return rc;
}
