/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread waits for the end of a task that is running, and sees what the task wrote.  It never sleeps without being
 * woken afterwards.
 */
#include "lane.h"

#include "base/waiters.c"

static _Atomic bool slept, told;
static _Atomic int wrote;

static void run(hwt_timeout self, void *arg);

void weak_broadcast(void)
{
	atomic_store_explicit(&told, true, memory_order_relaxed);
}

static hwt_timeout timeout;

/*
 * In place of a sleep the thread ends: main checks whether it would have been woken.  What it has entered outlives its
 * stack.
 */
int hwt_monitor_wait(struct hwt_monitor *monitor, int64_t time_ns)
{
	static struct hwt_waiter entered;
	_Atomic(struct hwt_waiter *) *list = waiters_of(&lanes.waiters, timeout.entry);

	(void)time_ns;
	entered.record = timeout.entry; /* member by member: the checker reads no memcpy */
	entered.next = NULL;
	atomic_store_explicit(list, &entered, memory_order_relaxed);
	atomic_store_explicit(&slept, true, memory_order_relaxed);
	pthread_mutex_unlock(&monitor->mutex);
	pthread_exit(NULL);
}

static void *wait_for_it(void *unused)
{
	hwt_waiters_wait(&lanes.waiters, &lanes.idle, timeout.entry, timeout.generation);
	if (word_public_state(record_word(timeout.entry), timeout.generation) == HWT_EXPIRED)
		assert(atomic_load_explicit(&wrote, memory_order_relaxed) == 1); /* [end] */
	return unused;
}

static void run(hwt_timeout self, void *arg)
{
	(void)self;
	(void)arg;
	atomic_store_explicit(&wrote, 1, memory_order_relaxed);
}

static void *work(void *unused)
{
	lane_pass(1);
	return unused;
}

int main(void)
{
	pthread_t passes, waiter;

	lane_make(1);
	lanes.idle.has_barrier = lanes.waiters.has_barrier = false; /* GenMC has no membarrier */
	atomic_init(&lanes.waiters.waiting, 1);
	pthread_mutex_init(&lanes.waiters.monitor.mutex, NULL);
	(void)hwt_lane_submit(&lane, run, NULL, LANE_TICK_NS, &timeout);
	lane_pass(0);
	passes = weak_start(work);
	waiter = weak_start(wait_for_it);
	pthread_join(passes, NULL);
	pthread_join(waiter, NULL);
	assert(!atomic_load_explicit(&slept, memory_order_relaxed) ||
	       atomic_load_explicit(&told, memory_order_relaxed));
	return 0;
}
