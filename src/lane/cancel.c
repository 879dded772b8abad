/* SPDX-License-Identifier: BSD-2-Clause */
/* Cancelling, lane.h. */
#include "lane/lane.h"
#include "base/probe.h"

#include <errno.h>

static __attribute__((noinline)) int wake_if_long(const struct hwt_lane *lane, int64_t seen_ns)
{
	if (hwt_lane_is_long(lane))
		hwt_idle_wake(&lane->lanes->idle, seen_ns);
	return 0;
}

/* The same after a cancellation has been pushed.  0, so that hwt_lane_cancel can end with it. */
static inline int notify_cancelled(const struct hwt_lane *lane)
{
	int64_t seen_ns = idle_look(&lane->lanes->idle);

	return likely(seen_ns == IDLE_AWAKE) ? 0 : wake_if_long(lane, seen_ns);
}

static void push_cancelled(struct hwt_lane *lane, hwt_node *node, struct hwt_record *record)
{
	/* Relaxed: written under the lock. */
	uint64_t pushed = atomic_load_explicit(&lane->cancelled_pushed, memory_order_relaxed);

	atomic_store_explicit(&lane->cancelled_pushed, pushed + 1, memory_order_relaxed);
	queue_push(&lane->cancelled, node, record);
}

static inline void count_cancelled(struct hwt_lane *lane)
{
	/* In this order, or a new one could be counted before this one is not: L2. */
	atomic_fetch_add_explicit(&lane->cancelled_count, 1, memory_order_release); /* [count] */
	lanes_release_limit(lane->lanes);
}

/* The node comes first: once the word says cancelled the worker counts on the push. */
static bool cancel_armed(struct hwt_lane *lane, struct hwt_record *record, uint64_t *word)
{
	hwt_node *node;
	bool won;

	queue_lock(&lane->cancelled);
	node = lane_node(lane, &lane->cancelled);
	won = record_edge(record, word, node != NULL ? STATE_CANCELLED : STATE_LAZY);
	if (node != NULL) {
		if (won)
			push_cancelled(lane, node, record);
		else
			queue_node_unused(&lane->cancelled, node);
	}
	queue_unlock(&lane->cancelled);
	return won;
}

/* A finaliser is to be called soon: a sleeping worker does not wait for the next timeout with it. */
static void notify_release(const struct hwt_lane *lane, uint64_t word)
{
	struct hwt_idle *idle = &lane->lanes->idle;
	int64_t seen_ns = idle_look(idle);

	if (word_has(word, WORD_EXTENDED) && seen_ns > IDLE_NAP)
		hwt_idle_wake(idle, seen_ns);
}

/* One edge that ends the timeout as cancelled, if it still has this word.  *rc: what to say if there is none. */
static bool cancel_edge(struct hwt_lane *lane, struct hwt_record *record, uint64_t *word, int *rc)
{
	*rc = ENOENT;
	switch (word_state(*word)) {
	case STATE_QUEUED:
		return record_edge(record, word, STATE_CANCELLED);
	case STATE_ARMED:
		if (word_has(*word, WORD_REQUEUED)) /* it is in a queue already */
			return record_edge(record, word, STATE_CANCELLED);
		return cancel_armed(lane, record, word);
	case STATE_RUNNING:
		if (word_has(*word, WORD_REARMED))
			return record_change(record, word, (*word & ~WORD_REARMED) | WORD_DROPPED);
		*rc = word_has(*word, WORD_DROPPED) ? ENOENT : EBUSY;
		/* Its task is told that it is not to be armed again.  If that fails, cancel_slowly looks again. */
		if (!word_has(*word, WORD_DROPPED | WORD_LAST))
			(void)record_change(record, word, *word | WORD_LAST);
		return false;
	case STATE_FREE:
	case STATE_EXPIRED:
	case STATE_CANCELLED:
	case STATE_LAZY:
		break;
	}
	return false;
}

/* Whatever the word says, and whoever else is there. */
static __attribute__((noinline)) int cancel_slowly(struct hwt_lane *lane, struct hwt_record *record,
						   uint64_t generation)
{
	uint64_t word = record_word(record), tried;
	int rc;

	for (;;) {
		if (word_generation(word) != generation)
			return ENOENT;
		if (word_has(word, WORD_RESCHEDULING)) {
			word = hwt_record_await_mover(record, word);
			continue;
		}
		tried = word;
		if (cancel_edge(lane, record, &word, &rc))
			break;
		if (word == tried)
			return rc;
	}
	HWT_PROBE(cancel, record, 0);
	count_cancelled(lane);
	notify_release(lane, tried);
	return notify_cancelled(lane);
}

/* cancel_armed where nobody holds the lock and a node has come back.  false: nothing was done. */
static inline bool cancel_armed_at_once(struct hwt_lane *lane, struct hwt_record *record, uint64_t word)
{
	hwt_node *node;
	bool won = false;

	HWT_POINT("lock");
	if (unlikely(!queue_try_lock(&lane->cancelled)))
		return false;
	node = queue_recycled(&lane->cancelled);
	if (likely(node != NULL)) {
		won = record_edge(record, &word, STATE_CANCELLED);
		if (likely(won))
			push_cancelled(lane, node, record);
		else
			queue_node_unused(&lane->cancelled, node);
	}
	queue_unlock(&lane->cancelled);
	return won;
}

/*
 * The common cases without a call and in few instructions: the record is most often far away, and what the processor
 * can do until it is here ends with its window of some 200, which is to reach the next record.
 */
int hwt_lane_cancel(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation)
{
	uint64_t word = record_word(record);

	if (likely(word == word_make(generation, STATE_ARMED))) {
		if (likely(cancel_armed_at_once(lane, record, word))) {
			HWT_PROBE(cancel, record, 0);
			count_cancelled(lane);
			return notify_cancelled(lane);
		}
	} else if (word == word_make(generation, STATE_QUEUED) && record_edge(record, &word, STATE_CANCELLED)) {
		HWT_PROBE(cancel, record, 0);
		count_cancelled(lane);
		return 0;
	}
	return cancel_slowly(lane, record, generation);
}
