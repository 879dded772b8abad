/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for the end of a task; waiters.h. */
#include "base/waiters.h"
#include "base/thread.h"

/* The pause between two checks of a waiter where the system refuses the fence. */
#define LOOK_AGAIN_NS HWT_MS(1)

int hwt_waiters_init(struct hwt_waiters *waiters, const struct hwt_idle *idle)
{
	*waiters = (struct hwt_waiters){ .waiting = !idle->has_barrier, .has_barrier = idle->has_barrier };
	return hwt_monitor_init(&waiters->monitor);
}

void hwt_waiters_destroy(struct hwt_waiters *waiters)
{
	hwt_monitor_destroy(&waiters->monitor);
}

/* Neighbours among the records have different lists. */
static struct hwt_waiter *_Atomic *waiters_of(struct hwt_waiters *waiters, const struct hwt_record *record)
{
	return &waiters->list[(uintptr_t)record / RECORD_SIZE % WAITERS_LISTS];
}

/* Relaxed: the mutex orders the stores, and the fence a load without the mutex, [wait]. */
static struct hwt_waiter *list_at(_Atomic(struct hwt_waiter *) *list)
{
	return atomic_load_explicit(list, memory_order_relaxed);
}

static void enter(struct hwt_waiters *waiters, struct hwt_waiter *waiter)
{
	_Atomic(struct hwt_waiter *) *list = waiters_of(waiters, waiter->record);

	pthread_mutex_lock(&waiters->monitor.mutex);
	waiter->next = list_at(list);
	/* Relaxed, both: the fence that follows orders them, [wait]. */
	atomic_store_explicit(list, waiter, memory_order_relaxed);
	pthread_mutex_unlock(&waiters->monitor.mutex);
	atomic_fetch_add_explicit(&waiters->waiting, 1, memory_order_relaxed);
}

/* Under the mutex. */
static void leave(struct hwt_waiters *waiters, const struct hwt_waiter *waiter)
{
	_Atomic(struct hwt_waiter *) *list = waiters_of(waiters, waiter->record);
	struct hwt_waiter *before = list_at(list);

	/* Relaxed, both: a waiter that the ender sees for too long costs only a check. */
	if (before == waiter) {
		atomic_store_explicit(list, waiter->next, memory_order_relaxed);
	} else {
		while (before->next != waiter)
			before = before->next;
		before->next = waiter->next;
	}
	atomic_fetch_sub_explicit(&waiters->waiting, 1, memory_order_relaxed);
}

void hwt_waiters_wait(struct hwt_waiters *waiters, const struct hwt_idle *idle, struct hwt_record *record,
		      uint64_t generation)
{
	int cancel_before = thread_no_cancel();
	struct hwt_waiter waiter = { record, NULL };
	bool fenced;

	enter(waiters, &waiter);
	HWT_POINT("await said");
	fenced = hwt_idle_fence_all(idle); /* [wait] */
	pthread_mutex_lock(&waiters->monitor.mutex);
	/* The word is checked under the mutex, so that no broadcast comes between the check and the wait. */
	while (record_is_running(record, generation))
		hwt_monitor_wait(&waiters->monitor, fenced ? INT64_MAX : clock_monotonic() + LOOK_AGAIN_NS);
	leave(waiters, &waiter);
	pthread_mutex_unlock(&waiters->monitor.mutex);
	thread_restore_cancel(cancel_before);
}

void hwt_waiters_look_again(struct hwt_waiters *waiters, const struct hwt_record *record)
{
	_Atomic(struct hwt_waiter *) *list = waiters_of(waiters, record);
	const struct hwt_waiter *waiter;

	if (!waiters->has_barrier)
		fence_between(false); /* [wait] */
	if (list_at(list) == NULL)
		return;
	/* Under the mutex, or the broadcast could come between a waiter's check and its wait. */
	pthread_mutex_lock(&waiters->monitor.mutex);
	for (waiter = list_at(list); waiter != NULL && waiter->record != record;)
		waiter = waiter->next;
	if (waiter != NULL) {
		HWT_POINT("await told");
		pthread_cond_broadcast(&waiters->monitor.changed);
	}
	pthread_mutex_unlock(&waiters->monitor.mutex);
}
