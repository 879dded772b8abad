/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rescheduling: another deadline for a pending timeout, or for one whose task is running; lane.h.
 *
 * Structure
 *
 *   A later deadline costs no queue operation.  The record stays where it is in the wheel.  At its old tick the worker
 *   sees RESCHEDULED, reads the deadline, and places the record again.  So a timeout that moves later all the time,
 *   as that of an idle connection, costs the worker one check in each of its delays.
 *
 *   A record that waits for a task thread or an executor (READY) stays where it is, whatever the deadline: the thread
 *   that comes to it reads the deadline, and sends the record to the worker if the deadline has not come.
 *
 *   An earlier deadline has to reach the worker.  The mover pushes the record on its own lane, once (REQUEUED) however
 *   often it is moved before the worker pops it.  A record that is still QUEUED needs no push: the worker arms it and
 *   then reads the deadline, or sees RESCHEDULING and tries again.
 *
 *       later                                            earlier
 *                                                        lock of the lane, a node in hand
 *       set RESCHEDULED, RESCHEDULING;                   the same, and set REQUEUED if the record is ARMED
 *       clear RESCHEDULE_SEEN
 *       write the deadline                               write the deadline
 *                                                        push
 *       clear RESCHEDULING                               clear RESCHEDULING
 *
 * Races
 *
 *   with the worker's run      The exchange that sets RESCHEDULED makes the worker's exchange for RUNNING fail.  If
 *                              RESCHEDULED is set already, the clearing of RESCHEDULE_SEEN makes it fail.  So a task
 *                              never starts at a deadline that a call which returned 0 has replaced.
 *   with the worker's arm      The arm changes only the state, and the mover's last step changes only its flag.
 *   with another mover         One of them sets RESCHEDULING, the other waits.  The last mover writes the last
 *                              deadline.
 *   with cancel and stop       They wait until RESCHEDULING is clear, some instructions.
 *
 *   worker/worker_slow.c has the worker's side; test/unit_interleave.c goes through the races.
 */
#include "lane/lane.h"
#include "lane/submit.h"

#include <errno.h>

/* Returns 0 if a timeout with this word can be moved, otherwise the error. */
static int refuse(uint64_t word, uint64_t generation)
{
	if (word_generation(word) != generation)
		return ENOENT;
	if (likely(word_is_pending(word)))
		return 0;
	return word_state(word) == STATE_RUNNING && !word_has(word, WORD_DROPPED) ? EBUSY : ENOENT;
}

/*
 * Sets RESCHEDULING, and `flags`, if the word is still *word.  Then only the caller may write the deadline, until it
 * clears RESCHEDULING.  RESCHEDULE_SEEN is cleared, or a worker that has read the old deadline would not see that the
 * word has changed (begin_slow of worker_slow.c).
 */
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

/*
 * Waits until no other thread is moving the timeout, and returns its word.  *rc is 0, or says why the timeout cannot be
 * moved.
 */
static uint64_t look(struct hwt_record *record, uint64_t generation, int *rc)
{
	uint64_t word = record_word(record);

	for (;;) {
		*rc = refuse(word, generation);
		if (*rc != 0 || !word_has(word, WORD_RESCHEDULING))
			return word;
		word = record_await_mover(record, word);
	}
}

/*
 * Returns true if the record must be pushed, so that the worker learns of an earlier deadline.  A record that is
 * QUEUED, READY or REQUEUED is in a queue already, and the worker or a task thread reads the deadline after it has
 * taken the record.
 */
static bool must_requeue(const struct hwt_lane *lane, uint64_t word)
{
	/*
	 * A closed lane stays closed, and nothing may be pushed on it (L3).  No timeout runs any more; stop reads the
	 * deadline.
	 */
	return word_state(word) == STATE_ARMED && !word_has(word, WORD_REQUEUED) && !lane->closed;
}

static void push_requeued(struct hwt_lane *lane, hwt_node *node, struct hwt_record *record, int64_t deadline_ns)
{
	/* Relaxed: written under the lock. */
	uint64_t pushed = atomic_load_explicit(&lane->pushed_more, memory_order_relaxed);

	atomic_store_explicit(&lane->pushed_more, pushed + 1, memory_order_relaxed);
	lane_note_deadline(lane, deadline_ns);
	queue_push(&lane->submitted, node, record);
}

/*
 * Moves the timeout to an earlier deadline, under the lock of the lane.  *node is a node or NULL; a node that the move
 * uses becomes NULL.  The caller gets the node before the word changes: once REQUEUED is set, cancels and other movers
 * rely on the push.
 */
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
		/*
		 * Fails if the worker has armed or run the record, or another thread has cancelled or moved it.  Then
		 * try again.
		 */
		if (!begin(record, &word, urge ? WORD_REQUEUED : 0))
			continue;
		record_set_deadline(record, deadline_ns);
		if (urge) {
			push_requeued(lane, *node, record, deadline_ns);
			*node = NULL;
		}
		/*
		 * RESCHEDULING is cleared after the push.  The next mover sees REQUEUED, pushes nothing and wakes the
		 * worker.  If the flag were cleared before the push, the worker could find the queue empty and sleep
		 * past the deadline.
		 */
		record_end_reschedule(record);
		return 0;
	}
}

/* Moves the timeout to an earlier deadline: lock, node, move; and a wake if the worker sleeps beyond that. */
static __attribute__((noinline)) int urge(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation,
					  int64_t deadline_ns)
{
	hwt_node *node;
	int rc;

	queue_lock(&lane->submitted);
	node = queue_node(&lane->submitted);
	rc = reschedule_locked(lane, record, generation, deadline_ns, &node);
	if (node != NULL)
		queue_node_unused(&lane->submitted, node);
	queue_unlock(&lane->submitted);
	if (rc == 0) {
		count_rescheduled(lane);
		lanes_hurry(lane->lanes, deadline_ns); /* the record may be in the queue of any lane */
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
		/*
		 * Only now is the deadline known to be that of this timeout: before begin() the record could have come
		 * to serve another timeout.  An earlier deadline needs the lane's lock, for which no thread may wait
		 * under RESCHEDULING: so the flag is cleared, and urge begins again.  In between another thread may
		 * move or cancel the timeout; urge finds that.
		 */
		if (deadline_ns < record_deadline(record)) {
			record_end_reschedule(record);
			return urge(lane, record, generation, deadline_ns);
		}
		record_set_deadline(record, deadline_ns);
		if (likely((word & (STATE_MASK | WORD_REQUEUED)) == STATE_ARMED)) {
			HWT_POINT("moved");
			/*
			 * A store is enough: while the word of an ARMED record that is in no queue says RESCHEDULING,
			 * the worker only reads it, and cancels, movers and stop wait.  The worker may be arming a
			 * QUEUED record, or clearing REQUEUED, which a store would undo; these two cases take the
			 * atomic AND below.
			 */
			atomic_store_explicit(&record->word, word & ~WORD_RESCHEDULING,
					      memory_order_release); /* [move] */
		} else {
			record_end_reschedule(record);
		}
		count_rescheduled(lane);
		return 0;
	}
}

/*
 * Called by the task itself, so the record is RUNNING and the worker leaves it alone.  The only rivals are cancels,
 * which set LAST, or clear REARMED and set DROPPED.
 */
int hwt_lane_rearm(struct hwt_lane *lane, struct hwt_record *record, int64_t deadline_ns)
{
	struct hwt_lanes *lanes = lane->lanes;
	uint64_t word = record_word(record);

	do {
		if (word_has(word, WORD_DROPPED | WORD_LAST))
			return ENOENT;
		/* This is the second call in one run.  If a cancel comes at this moment the deadline is never used. */
		if (word_has(word, WORD_REARMED)) {
			record_set_deadline(record, deadline_ns);
			count_rescheduled(lane);
			return 0;
		}
		/*
		 * From this exchange on a cancel waits until the rearm is decided.  Otherwise the cancel could clear
		 * REARMED and count an end before the begin is counted below (L1), or set LAST, which the store below
		 * would overwrite.
		 */
	} while (!record_change(record, &word, word | WORD_RESCHEDULING)); /* [move] */
	HWT_POINT("moving");
	if (unlikely(lanes->max_pending > 0) && !hwt_lanes_take_limit(lanes)) {
		record_end_reschedule(record);
		return ENOBUFS;
	}
	atomic_fetch_add_explicit(&lane->rearmed_count, 1, memory_order_release); /* [count] */
	record_set_deadline(record, deadline_ns);
	HWT_POINT("moved");
	/* Sets REARMED and clears RESCHEDULING: `word` is the word before the exchange, without that flag. */
	atomic_store_explicit(&record->word, word | WORD_REARMED, memory_order_release); /* [move] [word] */
	count_rescheduled(lane);
	return 0;
}
