/* SPDX-License-Identifier: BSD-2-Clause */
/* The word of the thread that drives a timer; timer.h. */
#include "base/thread.h"
#include "timer/timer.h"
#include "worker/trim.h"

#include <errno.h>

int hwt_driver_take(hwt_timer *timer, int as)
{
	int was = DRIVER_FREE;

	/* Acquire: [driver].  On failure relaxed: the caller looks again under the mutex, or gives up. */
	atomic_compare_exchange_strong_explicit(&timer->driver, &was, as, memory_order_acquire, memory_order_relaxed);
	return was;
}

void hwt_driver_free(hwt_timer *timer)
{
	atomic_store_explicit(&timer->driver, DRIVER_FREE, memory_order_release); /* [driver] */
}

bool hwt_driver_ask(hwt_timer *timer)
{
	int was = DRIVER_BUSY;

	/*
	 * Also from ASKED to ASKED, so that the end sees what every asker has done.  Release: [driver].  On failure
	 * relaxed: the caller looks again.
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

void hwt_driver_lock_last(hwt_timer *timer)
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
	 * that.  The look comes before the exchange: after that the timer may be destroyed.
	 */
	bool stops = worker_has_to_stop(&timer->worker);
	int was = DRIVER_BUSY, rc, cancel_before;

	/* Release: [driver].  On failure relaxed: what follows looks again. */
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
