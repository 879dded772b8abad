/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two threads push urgent records, and the driver resets hurry_ns once.  It then sees the pushes of both, or the next
 * advance hurries, too.
 */
#include "lane.h"

static _Atomic bool pushed[2];
static bool seen[2];

/* Pushes a record.  It may be in the queue of any lane, under a lock that the driver does not take. */
static void push(unsigned i)
{
	atomic_store_explicit(&pushed[i], true, memory_order_relaxed);
	lanes_hurry(&lanes, i);
}

static void *push_first(void *unused)
{
	push(0);
	return unused;
}

static void *push_second(void *unused)
{
	push(1);
	return unused;
}

int main(void)
{
	pthread_t threads[2];

	lane_make(1);
	lanes.is_driven = true;
	atomic_init(&lanes.hurry_ns, INT64_MAX);
	threads[0] = weak_start(push_first);
	threads[1] = weak_start(push_second);
	hwt_lanes_take_hurry(&lanes);
	for (unsigned i = 0; i < 2; i++)
		seen[i] = atomic_load_explicit(&pushed[i], memory_order_relaxed);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	assert(atomic_load_explicit(&lanes.hurry_ns, memory_order_relaxed) != INT64_MAX || (seen[0] && seen[1]));
	return 0;
}
