/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for the end of a task; waiters.h. */
#include "base/waiters.h"
#include "base/debug.h"
#include "base/thread.h"

/* How often a waiter looks if the system refuses the fence. */
#define LOOK_AGAIN_NS HWT_MS(1)

int hwt_waiters_init(struct hwt_waiters *waiters, const struct hwt_idle *idle)
{
	waiters->has_barrier = idle->has_barrier;
	atomic_init(&waiters->waiting, waiters->has_barrier ? 0 : 1);
	return hwt_monitor_init(&waiters->monitor);
}

void hwt_waiters_destroy(struct hwt_waiters *waiters)
{
	hwt_monitor_destroy(&waiters->monitor);
}

static bool runs(struct hwt_record *record, uint64_t generation)
{
	uint64_t word = record_word(record);

	return word_generation(word) == generation && word_state(word) == STATE_RUNNING;
}

void hwt_waiters_wait(struct hwt_waiters *waiters, const struct hwt_idle *idle, struct hwt_record *record,
		      uint64_t generation)
{
	int cancel_before = thread_no_cancel();
	bool fenced;

	/* Relaxed: the fence orders it, [wait]. */
	atomic_fetch_add_explicit(&waiters->waiting, 1, memory_order_relaxed);
	HWT_POINT("await said");
	fenced = hwt_idle_fence_all(idle); /* [wait] */
#ifdef HWT_DEBUG
	struct hwt_debug_wait wait;

	hwt_debug_begin_wait(&wait, record);
#endif
	pthread_mutex_lock(&waiters->monitor.mutex);
	/* The word is looked at under the mutex, so that no broadcast comes between the look and the wait. */
	while (runs(record, generation))
		hwt_monitor_wait(&waiters->monitor, fenced ? INT64_MAX : clock_monotonic() + LOOK_AGAIN_NS);
	pthread_mutex_unlock(&waiters->monitor.mutex);
#ifdef HWT_DEBUG
	hwt_debug_end_wait(&wait);
#endif
	/* Relaxed: a count that is too high for a moment only costs a broadcast. */
	atomic_fetch_sub_explicit(&waiters->waiting, 1, memory_order_relaxed);
	thread_restore_cancel(cancel_before);
}

void hwt_waiters_look_again(struct hwt_waiters *waiters)
{
	if (!waiters->has_barrier) {
		fence_between(false); /* [wait] */
		/* Relaxed: the fences order it, [wait]. */
		if (atomic_load_explicit(&waiters->waiting, memory_order_relaxed) == 1)
			return;
	}
	hwt_waiters_tell(waiters);
}

void hwt_waiters_tell(struct hwt_waiters *waiters)
{
	/* Under the mutex, or the broadcast could come between a waiter's look and its wait. */
	pthread_mutex_lock(&waiters->monitor.mutex);
	pthread_cond_broadcast(&waiters->monitor.changed);
	pthread_mutex_unlock(&waiters->monitor.mutex);
}
