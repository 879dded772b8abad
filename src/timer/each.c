/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A walk over all timeouts of a timer: hwt_timer_each.
 *
 * The walk reads all records in the order of their addresses, slab by slab, whichever list each record is in.  It does
 * not synchronise with other threads: record_read finds out whether the fields that it has read belong to one timeout.
 * A timeout that is pending during the whole walk stays in its record, which the walk passes once.  Its slab is in the
 * list and its record below the span, as both were so before the caller could know of the timeout.
 *
 * The list of timeouts that a stop gave back does not change any more, but for its first member.
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

/* Shows the timeouts that hwt_timer_next_unprocessed has not handed out yet. */
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
	cancel_before = thread_no_cancel(); /* visit may be a C++ function, for which a cancellation is an exception */
	/* Acquire: the list and its members are complete, [started]. */
	if (atomic_load_explicit(&timer->state, memory_order_acquire) == TIMER_STOPPED)
		walk_unprocessed(&walk);
	else
		walk_slabs(&walk);
	thread_restore_cancel(cancel_before);
	return 0;
}
