/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A task thread ends a timeout, whose record comes home.  The worker finds the slab empty and gives its memory back;
 * then the record serves a second timeout.  Meanwhile a walk comes by: the fields that it shows belong to one of the
 * two.  With WEAK_KEPT the system refuses, and the memory keeps its bytes.
 */
#define WEAK_GIVES_BACK
#include "shown.h"

static hwt_timeout timeout;

/*
 * The system's zeros, in any order.  Release: when the call returns, no processor has the old page any more, so a
 * thread that reads a zero sees all that came before the call.
 */
bool hwt_mem_give_back(void *memory, size_t size)
{
	struct hwt_record *record = memory;

	(void)size;
#ifdef WEAK_KEPT
	return false;
#else
	atomic_store_explicit(&record->task, NULL, memory_order_release);
	atomic_store_explicit(&record->arg, NULL, memory_order_release);
	atomic_store_explicit(&record->deadline_ns, 0, memory_order_release);
	atomic_store_explicit(&record->lane, NULL, memory_order_release);
	atomic_store_explicit(&record->word, 0, memory_order_release);
	return true;
#endif
}

static void *end(void *unused)
{
	struct hwt_record *record = timeout.entry;
	uint64_t word;

	if (record_run(record, &word) && record_finish(record, word))
		record_slab_return_one(record);
	return unused;
}

static void *give_and_serve(void *unused)
{
	size_t bytes = 0;

	(void)hwt_record_slab_look(&slab, 1, 0, &bytes);
	if (slab.carve == 0)
		assert(hwt_lane_submit(&lane, second, &runs[1], 2 * LANE_TICK_NS, NULL) == 0);
	return unused;
}

static void *walk(void *unused)
{
	hwt_pending shown;

	if (record_read(&records[0], &shown)) {
		check_shown(&shown);
		assert((shown.timeout.generation == timeout.generation) == (shown.arg == &runs[0]));
	}
	return unused;
}

int main(void)
{
	pthread_t ender, giver, walker;

	lane_make(1);
	(void)hwt_lane_submit(&lane, first, &runs[0], LANE_TICK_NS, &timeout);
	lane_pass(0);
	hwt_pool_leave(&lane.pool);
	ender = weak_start(end);
	giver = weak_start(give_and_serve);
	walker = weak_start(walk);
	pthread_join(ender, NULL);
	pthread_join(giver, NULL);
	pthread_join(walker, NULL);
	return 0;
}
