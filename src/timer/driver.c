/* SPDX-License-Identifier: BSD-2-Clause */
/* The word of the thread that drives a timer; timer.h. */
#include "timer/timer.h"

#include <errno.h>

int hwt_driver_take(hwt_timer *timer, int as)
{
	int was = DRIVER_FREE;

	/* Acquire: [driver].  On failure relaxed: the caller looks again under the mutex, or gives up. */
	atomic_compare_exchange_strong_explicit(&timer->driver, &was, as, memory_order_acquire, memory_order_relaxed);
	return was;
}

int hwt_driver_end(hwt_timer *timer)
{
	/*
	 * A stop may have rung already and not yet be at the word.  It rings once, and the loop may be here because of
	 * that.  The look comes before the exchange: after that the timer may be destroyed.
	 */
	bool stops = worker_has_to_stop(&timer->worker);
	int was = DRIVER_BUSY;

	/* Release: [driver].  On failure relaxed: the mutex orders what follows. */
	if (likely(atomic_compare_exchange_strong_explicit(&timer->driver, &was, DRIVER_FREE, memory_order_release,
							   memory_order_relaxed)))
		return unlikely(stops) ? ECANCELED : 0;
	pthread_mutex_lock(&timer->monitor.mutex);
	atomic_store_explicit(&timer->driver, DRIVER_CLOSED, memory_order_release); /* [driver] */
	pthread_cond_broadcast(&timer->monitor.changed);
	pthread_mutex_unlock(&timer->monitor.mutex);
	return ECANCELED;
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
