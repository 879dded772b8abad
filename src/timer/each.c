/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A walk over all timeouts of a timer: hwt_timer_each.
 *
 * The walk reads the records in the order of memory, slab by slab, whichever list each of them is in.  It takes no part
 * in what other threads do: record_read tells whether what it has read belongs to one timeout.  A timeout that is
 * pending during the whole walk stays in its record, which the walk comes by once.  Its slab is in the list, and its
 * record below the span: the caller of the walk has heard of the timeout after both were so.
 *
 * What a stop gives back is a list that does not change any more: only its first one does.
 */
#include "lane/lane.h"
#include "timer/timer.h"

#include <errno.h>

struct walk {
	hwt_timer *timer;
	bool (*visit)(void *ctx, const hwt_pending *pending);
	void *ctx;
};

static bool show(const struct walk *walk, hwt_pending *pending)
{
	if (timer_collects(walk->timer))
		pending->task = NULL;
	return walk->visit(walk->ctx, pending);
}

/* Returns false if visit ends the walk. */
static bool walk_slab(const struct walk *walk, const struct hwt_record_slab *slab)
{
	char *begin = record_slab_begin(slab), *end = begin + record_slab_span(slab);
	hwt_pending pending;

	for (char *at = begin; at < end; at += sizeof(struct hwt_record))
		if (record_read((struct hwt_record *)(void *)at, &pending) && !show(walk, &pending))
			return false;
	return true;
}

static void walk_slabs(const struct walk *walk)
{
	const struct hwt_record_slab *slab = record_slabs_newest(&walk->timer->lanes.slabs);

	while (slab != NULL && walk_slab(walk, slab))
		slab = slab->next;
}

hwt_pending hwt_timer_unprocessed(struct hwt_record *record)
{
	uint64_t word = record_word(record);

	return (hwt_pending){ .timeout = { record, word_generation(word) },
			      .task = record_task(record),
			      .arg = record_arg(record, word),
			      .deadline_ns = record_deadline(record),
			      .period_ns = word_has(word, WORD_EXTENDED) ? record_period(record) : 0,
			      .state = HWT_CANCELLED };
}

/* What hwt_timer_next_unprocessed would still hand out. */
static void walk_unprocessed(const struct walk *walk)
{
	struct hwt_record *record;
	hwt_pending pending;

	pthread_mutex_lock(&walk->timer->monitor.mutex);
	record = walk->timer->unprocessed;
	pthread_mutex_unlock(&walk->timer->monitor.mutex);
	for (; record != NULL; record = record->link) {
		pending = hwt_timer_unprocessed(record);
		if (!show(walk, &pending))
			return;
	}
}

int hwt_timer_each(hwt_timer *timer, bool (*visit)(void *ctx, const hwt_pending *pending), void *ctx)
{
	const struct walk walk = { timer, visit, ctx };
	int cancel_before;

	CHECK_TIMER(timer);
	if (timer == NULL || visit == NULL)
		return EINVAL;
	cancel_before = thread_no_cancel(); /* visit may be of C++, which takes a cancellation for an exception */
	/* Acquire: the list and what it has are complete, [started]. */
	if (atomic_load_explicit(&timer->state, memory_order_acquire) == TIMER_STOPPED)
		walk_unprocessed(&walk);
	else
		walk_slabs(&walk);
	thread_restore_cancel(cancel_before);
	return 0;
}
