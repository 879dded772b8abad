/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cancelling: hwt_cancel; lane.h.
 *
 * A cancel takes one edge of the state word.  The state and the flags decide which; word.h has the edges, and what
 * follows each.
 *
 * At the same moment the worker may arm or run the record, its task may end or rearm it, a mover may write another
 * deadline, and another thread may cancel it.  All of them exchange the exact word that they have seen.  A cancel that
 * loses reads the new word and tries the edge for that one.
 */
#include "lane/lane.h"

#include <errno.h>

/* Out of line, so that the fast path need not save registers for the call. */
static __attribute__((noinline)) int wake(const struct hwt_lane *lane, int64_t seen_ns, bool has_release)
{
	if ((has_release && seen_ns > IDLE_NAP) || lane_is_long(lane))
		hwt_idle_wake(&lane->lanes->idle, seen_ns);
	return 0;
}

/*
 * Wakes a worker that sleeps if the lane has grown long; and one that sleeps beyond the next tick if the timeout had a
 * finaliser, which is to be called soon, not when the next timeout happens to be due.  A cancel makes nothing due
 * earlier, so it has no other reason to wake.  To be called after a push on `cancelled`.  Returns 0, so that
 * hwt_lane_cancel can end with the call.
 */
static inline int notify_cancelled(const struct hwt_lane *lane, bool has_release)
{
	int64_t seen_ns = idle_look(&lane->lanes->idle);

	if (unlikely(has_release))
		lanes_hurry(lane->lanes, HURRY_AT_ONCE);
	return likely(seen_ns == IDLE_AWAKE) ? 0 : wake(lane, seen_ns, has_release);
}

/*
 * Pushes a record that this thread has just cancelled.  The count of the pushes also counts the end: under the lock,
 * which the push needs anyway, a plain store is enough.
 */
static void push_cancelled(struct hwt_lane *lane, hwt_node *node, struct hwt_record *record)
{
	/* Relaxed: written under the lock. */
	uint64_t pushed = atomic_load_explicit(&lane->cancelled_pushed, memory_order_relaxed);

	atomic_store_explicit(&lane->cancelled_pushed, pushed + 1, memory_order_release); /* [count] */
	queue_push(&lane->cancelled, node, record);
}

/* Counts the end of a timeout whose cancel pushes nothing. */
static void count_cancelled(struct hwt_lane *lane)
{
	atomic_fetch_add_explicit(&lane->cancelled_count, 1, memory_order_release); /* [count] */
}

/* Counts an edge that needs no push, if this thread took it.  Returns `taken`. */
static bool count_if(struct hwt_lane *lane, bool taken)
{
	if (taken)
		count_cancelled(lane);
	return taken;
}

/* Gives the slot below the limit back, after every edge.  The end has been counted: L2. */
static inline void make_room(const struct hwt_lane *lane, struct hwt_record *record)
{
	(void)record; /* without probes */
	HWT_PROBE(cancel, record, 0);
	lanes_release_limit(lane->lanes);
}

/*
 * Takes the edge cancel_armed, or cancel_lazy if there is no memory for a node.  Waits for the lock.  Returns false if
 * the word has changed.
 *
 * The node comes before the exchange.  Once the word says CANCELLED the worker relies on the push: if the record
 * becomes due first, the worker takes it out of the wheel and leaves it to the queue.  Without a node the record would
 * then belong to no list and never come back.  LAZY tells the worker that no push follows.
 */
static bool cancel_armed(struct hwt_lane *lane, struct hwt_record *record, uint64_t *word)
{
	hwt_node *node;
	bool won;

	queue_lock(&lane->cancelled);
	node = queue_node(&lane->cancelled);
	won = record_edge(record, word, node != NULL ? STATE_CANCELLED : STATE_LAZY);
	if (node != NULL) {
		if (won)
			push_cancelled(lane, node, record);
		else
			queue_node_unused(&lane->cancelled, node);
	}
	queue_unlock(&lane->cancelled);
	return node != NULL ? won : count_if(lane, won);
}

/* Returns true if the timeout with this word has a finaliser, or may have one: the word has changed. */
static bool has_finaliser(struct hwt_record *record, uint64_t word)
{
	const struct hwt_record *second;

	if (!word_has(word, WORD_EXTENDED) || !word_is_alive(word))
		return false;
	second = atomic_load_explicit(&record->arg, memory_order_acquire); /* [look] */
	/*
	 * If the word has changed, arg may be a pointer of any kind.  Then the answer is true: a mover may restore the
	 * word, so that the caller's edge succeeds.  Relaxed: the answer only decides whether the worker is woken.
	 */
	HWT_POINT("finaliser");
	return atomic_load_explicit(&record->word, memory_order_acquire) != word || /* [look] */
	       atomic_load_explicit(&second->extension.release, memory_order_relaxed) != NULL;
}

/*
 * Takes the edge that cancels a timeout with this word, counts the end and returns true.  Returns false if *word has
 * changed, and the caller tries again; or if there is no such edge, and *rc is the answer.
 */
static bool cancel_edge(struct hwt_lane *lane, struct hwt_record *record, uint64_t *word, int *rc)
{
	*rc = ENOENT;
	switch (word_state(*word)) {
	case STATE_QUEUED: /* Races with arm.  If the worker wins, the next try finds ARMED. */
	case STATE_READY:  /* Races with start.  If the task thread wins, the next try finds RUNNING. */
		return count_if(lane, record_edge(record, word, STATE_CANCELLED));
	case STATE_ARMED:
		/*
		 * The worker is going to pop the record from a submitted queue.  If it has just done so, REQUEUED is
		 * clear and the edge fails.
		 */
		if (word_has(*word, WORD_REQUEUED))
			return count_if(lane, record_edge(record, word, STATE_CANCELLED));
		/* Races with run. */
		return cancel_armed(lane, record, word);
	case STATE_RUNNING:
		/*
		 * Races with record_end.  If record_end wins, the timeout is ARMED or QUEUED again, and the next try
		 * cancels it.
		 */
		if (word_has(*word, WORD_REARMED))
			return count_if(lane, record_change(record, word, (*word & ~WORD_REARMED) | WORD_DROPPED));
		*rc = word_has(*word, WORD_DROPPED) ? ENOENT : EBUSY;
		/*
		 * LAST keeps the task from rearming after this cancel has answered.  If the exchange fails, the task
		 * has just rearmed or ended: the word has changed, and cancel_slowly tries again.
		 */
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

/* Cancels whatever the word says, and whichever threads compete for it. */
static __attribute__((noinline)) int cancel_slowly(struct hwt_lane *lane, struct hwt_record *record,
						   uint64_t generation)
{
	uint64_t word = record_word(record), tried;
	bool has_release;
	int rc;

	for (;;) {
		if (word_generation(word) != generation)
			return ENOENT;
		/*
		 * The mover or the task may end its move by a plain store, which would overwrite the edge of this
		 * cancel: the cancel would answer 0, and the task would run.
		 */
		if (word_has(word, WORD_RESCHEDULING)) {
			word = record_await_mover(record, word);
			continue;
		}
		tried = word;
		has_release = has_finaliser(record, word); /* before the edge gives the record away */
		if (cancel_edge(lane, record, &word, &rc))
			break;
		if (word == tried) /* no edge out of this word */
			return rc;
	}
	make_room(lane, record);
	return notify_cancelled(lane, has_release);
}

/*
 * Takes the edge cancel_armed in the common case: the lock is free, and a node has come back.  Otherwise, or if the
 * exchange fails, it changes nothing and returns false.  Lock, node and exchange come in this order as in cancel_armed.
 */
static inline bool cancel_armed_at_once(struct hwt_lane *lane, struct hwt_record *record, uint64_t word)
{
	hwt_node *node;
	bool won = false;

	HWT_POINT("lock");
	if (unlikely(!queue_try_lock(&lane->cancelled)))
		return false;
	node = queue_recycled(&lane->cancelled);
	if (likely(node != NULL)) {
		won = record_change(record, &word, word_step(word, STATE_ARMED, STATE_CANCELLED));
		if (likely(won))
			push_cancelled(lane, node, record);
		else
			queue_node_unused(&lane->cancelled, node);
	}
	queue_unlock(&lane->cancelled);
	return won;
}

/*
 * Cancels a timeout of this generation.  Returns 0, EBUSY or ENOENT.
 *
 * The common cases make no call and take few instructions.  The record's cache line is most often far away.  Until it
 * arrives, the processor executes ahead, as far as its window of some 200 instructions reaches.  The window should
 * reach the caller's load of the next record.
 *
 * If the word is equal, the handle is not stale and no flag is set, so no mover is at work.
 */
int hwt_lane_cancel(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation)
{
	uint64_t word = record_word(record);

	if (likely(word == word_make(generation, STATE_ARMED))) {
		if (likely(cancel_armed_at_once(lane, record, word))) {
			make_room(lane, record);
			return notify_cancelled(lane, false);
		}
		/* Lock, node or exchange failed.  The slow way begins afresh. */
	} else if (word == word_make(generation, STATE_QUEUED)) {
		if (record_change(record, &word, word_step(word, STATE_QUEUED, STATE_CANCELLED))) {
			/* This thread has pushed nothing, so there is nothing to tell the worker. */
			count_cancelled(lane);
			make_room(lane, record);
			return 0;
		}
	}
	return cancel_slowly(lane, record, generation);
}
