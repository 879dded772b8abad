/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reclaiming: a producer takes back records that were cancelled in its lane's submitted queue; lane.h.
 *
 * A timeout that is cancelled while it is QUEUED stays in the queue, and the worker returns its record when it drains.
 * But the worker may be in a slow task, without a processor, or a loop that calls hwt_timer_advance in an hour.  It may
 * be the producer itself, in a task.  So before a lane takes new memory for records, the producer becomes the consumer
 * of its own queue for a moment and takes the cancelled records out.  The others keep their places, and so their order
 * (G3).  The producer waits for no other thread but a worker that is popping a batch, and for that one not long.
 *
 * Races
 *
 *   with the worker    The lock of the consumer's end keeps it out.  The worker holds that lock while it pops a batch
 *                      and waits for nothing under it, so a producer that wants it under its lane's lock gets it.
 *   with cancels       CANCELLED is an end: of a record that shows it, no other thread writes the word any more.  A
 *                      record that is cancelled after the look stays in the queue, and the worker or the next look
 *                      finds it.
 *   with producers     They wait for the lane's lock, as for any submission.
 *
 * Bound
 *
 *   The producer looks through the queue only if so much has been pushed on it, and so much cancelled anywhere, since
 *   the last look that a good part of the queue may be cancelled.  So the looks cost some nanoseconds for each push,
 *   and a queue holds HWT_GATHER records and those that are pending, or at most twice as many as were pending at the
 *   last look.
 *
 *   Two kinds of cancelled records stay.  Those that are in the wheel, too: at most as many as were armed when the
 *   worker last drained.  And those with a finaliser, which only the worker may call: as many as the program makes,
 *   unless there is a limit of pending timeouts.  Then a lane takes no new memory while more than HWT_FULL and four
 *   times the limit wait in its queue.  Without these two kinds a queue does not become as long, unless the worker
 *   loses its processor in the middle of a batch, and for long.
 */
#include "lane/lane.h"

#ifdef HWT_TEST
_Atomic uint64_t hwt_test_gather = HWT_GATHER;
#endif

static uint64_t gather(void)
{
#ifdef HWT_TEST
	return atomic_load_explicit(&hwt_test_gather, memory_order_acquire); /* a test's */
#else
	return HWT_GATHER;
#endif
}

/* Returns HWT_FULL, or what stands for it in a test. */
static uint64_t full(void)
{
	return gather() * (HWT_FULL / HWT_GATHER);
}

/* Returns how many records have ever been pushed on the submitted queue.  Under the lock. */
static uint64_t pushed(const struct hwt_lane *lane)
{
	/* Relaxed: written under the lock. */
	return atomic_load_explicit(&lane->accepted, memory_order_relaxed) +
	       atomic_load_explicit(&lane->requeued, memory_order_relaxed);
}

/*
 * Returns how many cancels there have ever been in the timer that left the record in a submitted queue: that of a lane
 * may be cancelled by any thread.
 */
static uint64_t cancels(const struct hwt_lanes *lanes)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < lanes_count(lanes); i++)
		/* Relaxed: only a number. */
		sum += atomic_load_explicit(&lanes->made[i]->cancelled_count, memory_order_relaxed);
	return sum;
}

bool hwt_lane_is_full(const struct hwt_lane *lane)
{
	uint64_t limit = (uint64_t)lane->lanes->max_pending, waits = lane_waiting(lane);

	return limit > 0 && waits > full() && (waits - full()) / 4 > limit;
}

/* Returns true if since the last look half of the queue came, and as much was cancelled as a quarter of it. */
static bool is_worth_while(const struct hwt_lane *lane, uint64_t cancelled)
{
	uint64_t came = pushed(lane) - lane->pushed_at_reclaim, went = cancelled - lane->cancelled_at_reclaim;
	uint64_t waits = lane_waiting(lane);

	return 2 * came >= waits && went >= gather() && 4 * went >= waits;
}

/* Returns true if the record was cancelled while it was queued and nothing is left to do for it.  Then it is free. */
static bool is_free(void *ctx, void *value)
{
	struct hwt_chain *chain = ctx;
	struct hwt_record *record = value;
	uint64_t word = record_word(record);

	/*
	 * REQUEUED says that the record has been in the wheel, and may still be: only the worker may take it out there.
	 * Without that flag a record of this queue has never been placed.
	 */
	if (word_state(word) != STATE_CANCELLED || word_has(word, WORD_REQUEUED) ||
	    (word_has(word, WORD_EXTENDED) && record_extension(record)->release != NULL))
		return false;
	if (word_has(word, WORD_EXTENDED))
		chain_append(chain, record->arg);
	chain_append(chain, record);
	return true;
}

/* Takes out what is free, and keeps the counts right.  For the consumer, under the lock. */
static void sift(struct hwt_lane *lane, struct hwt_chain *chain)
{
	/* Relaxed: written under the lock. */
	uint64_t reclaimed = atomic_load_explicit(&lane->reclaimed, memory_order_relaxed);

	reclaimed += hwt_queue_sift(&lane->submitted, is_free, chain);
	atomic_store_explicit(&lane->reclaimed, reclaimed, memory_order_release); /* [length] */
}

bool hwt_lane_reclaim(struct hwt_lane *lane)
{
	struct hwt_chain chain = { .count = 0 };
	uint64_t cancelled;

	/* In a closed lane stop is the consumer, without the lock of that end. */
	if (lane->closed || pushed(lane) - lane->pushed_at_reclaim < gather())
		return false;
	cancelled = cancels(lane->lanes);
	/*
	 * false from queue_begin_consume: the worker has lost its processor.  The lane goes on to steal or to allocate.
	 */
	if (!is_worth_while(lane, cancelled) || !queue_begin_consume(&lane->submitted))
		return false;
	sift(lane, &chain);
	queue_end_consume(&lane->submitted);
	lane->pushed_at_reclaim = pushed(lane);
	lane->cancelled_at_reclaim = cancelled;
	lane->pool.free = chain.first;
	return lane->pool.free != NULL;
}
