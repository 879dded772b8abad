/* SPDX-License-Identifier: BSD-2-Clause */
/* The word of the thread that drives a timer (timer.h), and hwt_timer_trim, which is done by the thread that has it. */
#include "base/thread.h"
#include "timer/timer.h"
#include "worker/trim.h"

#include <errno.h>

int hwt_driver_take(hwt_timer *timer, int as)
{
	int was = DRIVER_FREE;

	/* Acquire: [driver].  On failure relaxed: the caller tries again under the mutex, or gives up. */
	atomic_compare_exchange_strong_explicit(&timer->driver, &was, as, memory_order_acquire, memory_order_relaxed);
	return was;
}

void hwt_driver_free(hwt_timer *timer)
{
	atomic_store_explicit(&timer->driver, DRIVER_FREE, memory_order_release); /* [driver] */
}

/* Has the end of the advance in progress trim.  Returns false if there is none. */
static bool ask(hwt_timer *timer)
{
	int was = DRIVER_BUSY;

	/*
	 * Also from ASKED to ASKED, so that the end sees what every asker has done.  Release: [driver].  On failure
	 * relaxed: the caller tries again.
	 */
	while (!atomic_compare_exchange_strong_explicit(&timer->driver, &was, DRIVER_ASKED, memory_order_release,
							memory_order_relaxed))
		if (was != DRIVER_BUSY && was != DRIVER_ASKED)
			return false;
	return true;
}

/*
 * Without the count a thread that trims again and again could have the mutex each time, and an advance never.  Relaxed:
 * a trim that overlooks it once is followed by one that does not.
 */
void hwt_driver_lock(hwt_timer *timer)
{
	atomic_fetch_add_explicit(&timer->queued, 1, memory_order_relaxed); /* relaxed: as above */
	HWT_POINT("driver queued");
	pthread_mutex_lock(&timer->monitor.mutex);
	/* Relaxed: the mutex orders it before the look of a trim that waits. */
	if (atomic_fetch_sub_explicit(&timer->queued, 1, memory_order_relaxed) == 1)
		pthread_cond_broadcast(&timer->monitor.changed);
}

/* Locks the mutex for a trim: lets the threads of hwt_driver_lock go first, however many trims there are. */
static void lock_last(hwt_timer *timer)
{
	pthread_mutex_lock(&timer->monitor.mutex);
	while (atomic_load_explicit(&timer->queued, memory_order_relaxed) != 0) /* relaxed: as above */
		pthread_cond_wait(&timer->monitor.changed, &timer->monitor.mutex);
}

/* Under the mutex: trims if that was asked for, or else lets the stop go on that waits.  Returns as hwt_driver_end. */
static int end_slowly(hwt_timer *timer)
{
	int was = DRIVER_ASKED;
	bool stops;

	/* Acquire: [driver].  On failure relaxed: the mutex orders what follows. */
	if (!atomic_compare_exchange_strong_explicit(&timer->driver, &was, DRIVER_LOOK, memory_order_acquire,
						     memory_order_relaxed)) {
		atomic_store_explicit(&timer->driver, DRIVER_CLOSED, memory_order_release); /* [driver] */
		pthread_cond_broadcast(&timer->monitor.changed);
		return ECANCELED;
	}
	/* Relaxed: under the mutex. */
	if (atomic_load_explicit(&timer->state, memory_order_relaxed) == TIMER_DRIVEN)
		hwt_worker_trim_now(&timer->worker);
	stops = worker_has_to_stop(&timer->worker);
	hwt_driver_free(timer);
	return stops ? ECANCELED : 0;
}

int hwt_driver_end(hwt_timer *timer)
{
	/*
	 * A stop may have rung already and not yet be at the word.  It rings once, and the loop may be here because of
	 * that.  The load comes before the exchange: after that the timer may be destroyed.
	 */
	bool stops = worker_has_to_stop(&timer->worker);
	int was = DRIVER_BUSY, rc, cancel_before;

	/* Release: [driver].  On failure relaxed: what follows tries again. */
	if (likely(atomic_compare_exchange_strong_explicit(&timer->driver, &was, DRIVER_FREE, memory_order_release,
							   memory_order_relaxed)))
		return unlikely(stops) ? ECANCELED : 0;
	cancel_before = thread_no_cancel();
	hwt_driver_lock(timer);
	rc = end_slowly(timer);
	pthread_mutex_unlock(&timer->monitor.mutex);
	thread_restore_cancel(cancel_before);
	return rc;
}

void hwt_driver_close(hwt_timer *timer)
{
	int was = DRIVER_FREE;

	/*
	 * The mutex excludes a look, but an advance may begin or end at this moment.  Acquire: [driver].  On failure
	 * relaxed: it tries again.
	 */
	while (!atomic_compare_exchange_strong_explicit(&timer->driver, &was,
							was == DRIVER_FREE ? DRIVER_CLOSED : DRIVER_AWAITED,
							memory_order_acquire, memory_order_relaxed))
		HWT_POINT("close driver");
	while (atomic_load_explicit(&timer->driver, memory_order_acquire) == DRIVER_AWAITED) /* [driver] */
		pthread_cond_wait(&timer->monitor.changed, &timer->monitor.mutex);
}

/* How long the caller waits for a worker that is in a task. */
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
		if (ask(timer))
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
	if (ask(timer))
		return 0;
	lock_last(timer);
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
