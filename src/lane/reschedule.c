/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Another deadline for a timeout that is pending: hwt_reschedule.
 *
 * Structure
 *
 *   A later deadline costs no queue operation.  The record stays where it is in the wheel.  At its old tick the
 *   worker sees RESCHEDULED, looks at the deadline, and places the record again.  So a timeout that is put off all the
 *   time, as that of an idle connection, costs the worker one look in each of its delays.
 *
 *   An earlier deadline has to reach the worker.  The mover pushes the record on its own lane, once (REQUEUED) however
 *   often it is moved meanwhile.  A record that is still QUEUED needs no push: the worker arms it and then reads the
 *   deadline, or sees RESCHEDULING and looks again.
 *
 *       later                                            earlier
 *                                                        lock of the lane, a node in hand
 *       set RESCHEDULED, RESCHEDULING;                   the same, and set REQUEUED if the worker has to be told
 *       clear RESCHEDULE_SEEN
 *       write the deadline                               write the deadline
 *                                                        push
 *       clear RESCHEDULING                               clear RESCHEDULING
 *
 *   worker/worker_slow.c has the worker's side; model/reschedule.pml is the whole.
 */
#include "lane/lane.h"

#include <errno.h>

/* What says that there is nothing to move in this word; 0 if there is. */
static int refuse(uint64_t word, uint64_t generation)
{
	if (word_generation(word) != generation)
		return ENOENT;
	switch (word_state(word)) {
	case STATE_QUEUED:
	case STATE_ARMED:
		return 0;
	case STATE_RUNNING:
		return word_has(word, WORD_DROPPED) ? ENOENT : EBUSY;
	case STATE_FREE:
	case STATE_EXPIRED:
	case STATE_CANCELLED:
	case STATE_LAZY:
		break;
	}
	return ENOENT;
}

/* Sets RESCHEDULING, with more flags, on this very word.  Then the deadline is the caller's. */
static bool begin(struct hwt_record *record, uint64_t *word, uint64_t flags)
{
	uint64_t to = (*word & ~WORD_RESCHEDULE_SEEN) | WORD_RESCHEDULED | WORD_RESCHEDULING | flags;

	if (!record_change(record, word, to)) /* [move] */
		return false;
	*word = to;
	HWT_POINT("moving");
	return true;
}

static void count_rescheduled(struct hwt_lane *lane)
{
	atomic_fetch_add_explicit(&lane->rescheduled_count, 1, memory_order_relaxed); /* relaxed: it only counts */
}

/* The word of a timeout that may be moved and that nobody else is moving; otherwise *rc. */
static uint64_t look(struct hwt_record *record, uint64_t generation, int *rc)
{
	uint64_t word = record_word(record);

	for (;;) {
		*rc = refuse(word, generation);
		if (*rc != 0 || !word_has(word, WORD_RESCHEDULING))
			return word;
		word = hwt_record_await_mover(record, word);
	}
}

/* Has the worker to be told that it is earlier now? */
static bool must_requeue(const struct hwt_lane *lane, uint64_t word)
{
	/* One that is closed is closed for good: nothing runs any more, and stop reads the deadline. */
	return word_state(word) == STATE_ARMED && !word_has(word, WORD_REQUEUED) && !lane->closed;
}

static void push_requeued(struct hwt_lane *lane, hwt_node *node, struct hwt_record *record)
{
	/* Relaxed: written under the lock. */
	uint64_t requeued = atomic_load_explicit(&lane->requeued, memory_order_relaxed);

	atomic_store_explicit(&lane->requeued, requeued + 1, memory_order_relaxed);
	queue_push(&lane->submitted, node, record);
}

/* Under the lock of the lane, with or without a node. */
static int reschedule_locked(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation, int64_t deadline_ns,
			     hwt_node **node)
{
	int rc;

	for (;;) {
		uint64_t word = look(record, generation, &rc);
		bool urge = must_requeue(lane, word);

		if (rc != 0)
			return rc;
		if (urge && *node == NULL)
			return ENOMEM;
		if (!begin(record, &word, urge ? WORD_REQUEUED : 0))
			continue;
		record_set_deadline(record, deadline_ns);
		if (urge) {
			push_requeued(lane, *node, record);
			*node = NULL;
		}
		/* Only now: who moves or cancels it next wakes a worker that is to find it. */
		record_end_reschedule(record);
		return 0;
	}
}

static __attribute__((noinline)) int urge(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation,
					  int64_t deadline_ns)
{
	hwt_node *node;
	int rc;

	queue_lock(&lane->submitted);
	node = lane_node(lane, &lane->submitted);
	rc = reschedule_locked(lane, record, generation, deadline_ns, &node);
	if (node != NULL)
		queue_node_unused(&lane->submitted, node);
	queue_unlock(&lane->submitted);
	if (rc == 0) {
		count_rescheduled(lane);
		notify_submitted(lane, deadline_ns);
	}
	return rc;
}

int hwt_lane_reschedule(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation, int64_t deadline_ns)
{
	int rc;

	for (;;) {
		uint64_t word = look(record, generation, &rc);

		if (unlikely(rc != 0))
			return rc;
		if (unlikely(!begin(record, &word, 0)))
			continue;
		/* Not before: the record might serve for something else. */
		if (deadline_ns < record_deadline(record)) {
			record_end_reschedule(record);
			return urge(lane, record, generation, deadline_ns);
		}
		record_set_deadline(record, deadline_ns);
		if (likely((word & (STATE_MASK | WORD_REQUEUED)) == STATE_ARMED)) {
			HWT_POINT("moved");
			/* A plain store: of such a one the worker leaves the word alone, as all others do. */
			atomic_store_explicit(&record->word, word & ~WORD_RESCHEDULING,
					      memory_order_release); /* [move] */
		} else {
			record_end_reschedule(record);
		}
		count_rescheduled(lane);
		return 0;
	}
}

int hwt_lane_rearm(struct hwt_lane *lane, struct hwt_record *record, int64_t deadline_ns)
{
	struct hwt_lanes *lanes = lane->lanes;
	uint64_t word = record_word(record);

	do {
		if (word_has(word, WORD_DROPPED | WORD_LAST))
			return ENOENT;
		if (word_has(word, WORD_REARMED)) {
			record_set_deadline(record, deadline_ns);
			count_rescheduled(lane);
			return 0;
		}
		/* Who cancels it from here on waits, and then takes REARMED away: it is counted by then. */
	} while (!record_change(record, &word, word | WORD_RESCHEDULING)); /* [move] */
	HWT_POINT("moving");
	if (unlikely(lanes->max_pending > 0) && !hwt_lanes_take_limit(lanes)) {
		record_end_reschedule(record);
		return ENOBUFS;
	}
	atomic_fetch_add_explicit(&lane->rearmed_count, 1, memory_order_release); /* [count] */
	record_set_deadline(record, deadline_ns);
	HWT_POINT("moved");
	atomic_store_explicit(&record->word, word | WORD_REARMED, memory_order_release); /* [move] [word] */
	count_rescheduled(lane);
	return 0;
}
