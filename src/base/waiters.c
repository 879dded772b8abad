/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/waiters.h"
#include "base/thread.h"

/* How often to look where the system refuses its fence. */
#define LOOK_AGAIN_NS HWT_MS(1)

int hwt_await_init(struct hwt_await *await, const struct hwt_idle *idle)
{
	await->has_barrier = idle->has_barrier;
	atomic_init(&await->waiting, 0);
	return hwt_monitor_init(&await->monitor);
}

void hwt_await_destroy(struct hwt_await *await)
{
	hwt_monitor_destroy(&await->monitor);
}

static bool runs(struct hwt_record *record, uint64_t generation)
{
	uint64_t word = record_word(record);

	return word_generation(word) == generation && word_state(word) == STATE_RUNNING;
}

void hwt_await_end(struct hwt_await *await, const struct hwt_idle *idle, struct hwt_record *record, uint64_t generation)
{
	int cancel_before = thread_no_cancel();
	bool fenced;

	/* Relaxed: the fence orders it, [await]. */
	atomic_fetch_add_explicit(&await->waiting, 1, memory_order_relaxed);
	HWT_POINT("await said");
	fenced = hwt_idle_fence_all(idle); /* [await] */
	pthread_mutex_lock(&await->monitor.mutex);
	while (runs(record, generation))
		hwt_monitor_wait(&await->monitor, fenced ? INT64_MAX : hwt_clock_now() + LOOK_AGAIN_NS);
	pthread_mutex_unlock(&await->monitor.mutex);
	/* Relaxed: too high for a moment costs a broadcast. */
	atomic_fetch_sub_explicit(&await->waiting, 1, memory_order_relaxed);
	thread_restore_cancel(cancel_before);
}

void hwt_await_tell(struct hwt_await *await)
{
	/* Under the mutex, or it could come between a waiter's look and its wait. */
	pthread_mutex_lock(&await->monitor.mutex);
	pthread_cond_broadcast(&await->monitor.changed);
	pthread_mutex_unlock(&await->monitor.mutex);
}
