/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeping: a timeout that is cancelled while it is the newest of its lane's queue leaves its record there for the next
 * timeout; lane.h.
 *
 * Many timeouts are cancelled by the thread that scheduled them, before it schedules another one.  Then the end of the
 * queue is a node with a record that nobody needs, and both can serve the next timeout as they are: the record becomes
 * QUEUED again where it is, and nothing is pushed.  So a thread that schedules and cancels needs one record and one
 * node, however seldom the worker comes by, and the worker finds little to do.
 *
 *       lane_keep     QUEUED -> KEPT       the last node of the queue points at the record
 *       lane_requeue  KEPT -> QUEUED       the next timeout, one generation higher
 *       lane_let_go   KEPT -> CANCELLED    something else has been pushed, or is about to be: the worker returns
 *                                              the record, as any that was cancelled in the queue
 *
 * Races
 *
 *   All three are under the lane's lock; a cancel only tries to get it.  The first is an exchange, against the worker's
 *   arm, movers and other cancels.  Of a record that is KEPT nobody else writes the word, so the others are stores.
 *
 *   The worker may pop the record at any moment.  It leaves one that is KEPT alone: it parks it, and looks again before
 *   it handles what was pushed later, before it sleeps, and in the next pass.  By then the record may be QUEUED again,
 *   if it was popped while it was being requeued, or CANCELLED.  At most one record of a lane is KEPT, and the next one
 *   is pushed after that has been let go; so there is one to be parked at a time.
 */
#ifndef HWT_KEPT_H
#define HWT_KEPT_H

#include "lane/lane.h"

/*
 * Cancels a timeout of this word, which is QUEUED, and keeps its record for the next one, if it is the newest of the
 * lane's queue and the lock can be had.  Returns whether it did.
 */
static inline bool lane_keep(struct hwt_lane *lane, struct hwt_record *record, uint64_t word)
{
	bool won;

	HWT_POINT("lock");
	if (!queue_try_lock(&lane->submitted))
		return false;
	/*
	 * Otherwise the record waits elsewhere: it was QUEUED again by a task thread.  It may even be another lane's by
	 * now, and in this queue to be placed earlier until just before the exchange; each lane parks only its own.
	 */
	won = record_lane(record) == lane && queue_ends_with(&lane->submitted, record) &&
	      record_edge(record, &word, STATE_KEPT);
	if (won) {
		/* Relaxed: written under the lock. */
		uint64_t count = atomic_load_explicit(&lane->kept_count, memory_order_relaxed);

		HWT_ASSERT(lane->kept == NULL);
		lane->kept = record;
		lane->special |= LANE_KEEPS;
		atomic_store_explicit(&lane->kept_count, count + 1, memory_order_release); /* [count] */
	}
	queue_unlock(&lane->submitted);
	return won;
}

/* Takes the record that the lane keeps for a word that replaces KEPT. */
static inline void lane_end_keeping(struct hwt_lane *lane, uint64_t word)
{
	struct hwt_record *record = lane->kept;

	lane->kept = NULL;
	lane->special &= (uint8_t)~LANE_KEEPS;
	atomic_store_explicit(&record->word, word, memory_order_release); /* [word] */
}

/* Returns the generation of the record.  Relaxed: written under the lock. */
static inline uint64_t lane_kept_generation(const struct hwt_lane *lane)
{
	return word_generation(atomic_load_explicit(&lane->kept->word, memory_order_relaxed));
}

/* Keeps no record any more.  Under the submit lock, as what follows. */
static inline void lane_let_go(struct hwt_lane *lane)
{
	if (lane->kept != NULL)
		lane_end_keeping(lane, word_make(lane_kept_generation(lane), STATE_CANCELLED));
}

/* Submits with the record that is kept, without a push.  The order is that of accept in submit.c. */
static inline void lane_requeue(struct hwt_lane *lane, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out)
{
	struct hwt_record *record = lane->kept;
	uint64_t generation = lane_kept_generation(lane) + 1;
	/* Relaxed: written under the lock. */
	uint64_t accepted = atomic_load_explicit(&lane->accepted, memory_order_relaxed);
	uint64_t pushed = atomic_load_explicit(&lane->pushed_more, memory_order_relaxed);

	atomic_store_explicit(&lane->accepted, accepted + 1, memory_order_relaxed);  /* relaxed: as above */
	atomic_store_explicit(&lane->pushed_more, pushed - 1, memory_order_release); /* [length] */
	record_set_deadline(record, deadline_ns);
	record->task = task;
	record->arg = arg;
	if (out != NULL)
		*out = (hwt_timeout){ record, generation };
	HWT_PROBE(schedule, record, deadline_ns);
	HWT_POINT("word requeue");
	lane_end_keeping(lane, word_make(generation, STATE_QUEUED));
}

/* Returns true if the record that is kept is at the end of the queue.  If not, it is let go. */
static inline bool lane_can_requeue(struct hwt_lane *lane)
{
	if (queue_ends_with(&lane->submitted, lane->kept))
		return true;
	lane_let_go(lane);
	return false;
}

#endif
