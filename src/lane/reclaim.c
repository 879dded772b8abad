/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A producer takes back what was cancelled in its lane's queue; lane.h.
 *
 * A timeout that is cancelled while it is queued costs nothing more: its record comes back when the worker drains the
 * queue.  But the worker may be in a slow task, or without a processor, or be a loop that calls hwt_timer_advance in an
 * hour; or it is the producer itself, in a task.  So before a lane takes new memory for records it becomes the consumer
 * of its own queue for a moment and takes the cancelled ones out.  The others keep their places, and so their order
 * (G3).  It waits for nobody but a worker that is taking a batch out of the queue, and for that not long.
 *
 * Bound
 *
 *   The lane looks through its queue only if enough has been pushed on it, and cancelled anywhere, since it did so last
 *   that a good part of the queue may be cancelled.  So the looks cost some nanoseconds for each push, and a queue
 *   holds HWT_GATHER records and those that are pending, or at most twice as many as were pending at the last look.
 *
 *   Two kinds stay.  Those that are in the wheel, too, are at most as many as were armed when the worker last came by.
 *   Those with a finaliser, which is not a producer's to call, are as many as the program makes.  With a limit of
 *   pending timeouts there is an end to that, too: a lane takes no new memory while more than HWT_FULL and four times
 *   the limit wait in its queue.  Without these two kinds it never comes to that, unless the worker lost its processor
 *   in the middle of a batch, and that for long.
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

static uint64_t full(void)
{
	return gather() * (HWT_FULL / HWT_GATHER);
}

/* Ever.  Under the lock. */
static uint64_t pushed(const struct hwt_lane *lane)
{
	/* Relaxed: written under the lock. */
	return atomic_load_explicit(&lane->accepted, memory_order_relaxed) +
	       atomic_load_explicit(&lane->requeued, memory_order_relaxed);
}

/* How many are in the queue, or have been just now. */
static uint64_t waiting(const struct hwt_lane *lane)
{
	/* Relaxed: the worker goes on meanwhile; the other is written under the lock. */
	return pushed(lane) - atomic_load_explicit(&lane->taken, memory_order_relaxed) -
	       atomic_load_explicit(&lane->reclaimed, memory_order_relaxed);
}

/* Anywhere, ever. */
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
	uint64_t limit = (uint64_t)lane->lanes->max_pending, waits = waiting(lane);

	return limit > 0 && waits > full() && (waits - full()) / 4 > limit;
}

static bool is_worth_while(const struct hwt_lane *lane, uint64_t cancelled)
{
	uint64_t came = pushed(lane) - lane->pushed_at_reclaim, went = cancelled - lane->cancelled_at_reclaim;
	uint64_t waits = waiting(lane);

	return 2 * came >= waits && went >= gather() && 4 * went >= waits;
}

struct sieve {
	struct hwt_chain chain; /* what is free again */
	uint64_t seen;
	uint64_t marks,
	    freed_marks; /* so many at the queue's front are marked (worker_slow.c), of them so many are free */
};

/* Has the record been cancelled while it was queued, and is there nothing left to do for it?  Then it is free. */
static bool is_free(void *ctx, void *value)
{
	struct sieve *sieve = ctx;
	struct hwt_record *record = value;
	uint64_t word = record_word(record);
	bool is_marked = sieve->seen++ < sieve->marks;

	/* With REQUEUED it is in the wheel, too, or has been; without it has never got there. */
	if (word_state(word) != STATE_CANCELLED || word_has(word, WORD_REQUEUED) ||
	    (word_has(word, WORD_EXTENDED) && record_extension(record)->release != NULL))
		return false;
	sieve->freed_marks += is_marked;
	if (word_has(word, WORD_EXTENDED))
		chain_append(&sieve->chain, record->arg);
	chain_append(&sieve->chain, record);
	return true;
}

/*
 * The consumer of the queue, under the lock.  The worker may set the mark meanwhile: then what has been taken back
 * behind the old one is missing there, and the mark comes a little too late.
 */
static void sift(struct hwt_lane *lane, struct sieve *sieve)
{
	/* Relaxed: the consumer's, the worker's, and written under the lock. */
	uint64_t taken = atomic_load_explicit(&lane->taken, memory_order_relaxed);
	uint64_t mark = atomic_load_explicit(&lane->mark, memory_order_relaxed);
	uint64_t reclaimed = atomic_load_explicit(&lane->reclaimed, memory_order_relaxed);

	sieve->marks = mark > taken ? mark - taken : 0;
	reclaimed += hwt_queue_sift(&lane->submitted, is_free, sieve) - sieve->freed_marks;
	atomic_store_explicit(&lane->taken, taken + sieve->freed_marks, memory_order_relaxed); /* relaxed: as above */
	atomic_store_explicit(&lane->reclaimed, reclaimed, memory_order_release);              /* [mark] */
}

bool hwt_lane_reclaim(struct hwt_lane *lane)
{
	struct sieve sieve = { .seen = 0 };
	uint64_t cancelled;

	/* A lane that is closed has no consumer but stop. */
	if (lane->closed || pushed(lane) - lane->pushed_at_reclaim < gather())
		return false;
	cancelled = cancels(lane->lanes);
	if (!is_worth_while(lane, cancelled) || !queue_begin_consume(&lane->submitted))
		return false;
	sift(lane, &sieve);
	queue_end_consume(&lane->submitted);
	lane->pushed_at_reclaim = pushed(lane);
	lane->cancelled_at_reclaim = cancelled;
	lane->pool.free = sieve.chain.first;
	return lane->pool.free != NULL;
}
