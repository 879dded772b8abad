/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Submitting: what a producer does under the lock of its lane; lane.h.
 *
 * prepare does everything that can fail and changes nothing for good.  accept cannot fail:
 *
 *     accepted++       before the record can end, or an end could be counted whose begin is not (L1)
 *     record->lane     before the word: a canceller that sees the generation must find the lane
 *     word: QUEUED     with task, arg and deadline before it, [word]
 *     *out             before the push: the task may read the handle
 *     push             from here on the worker may run the task and the record may serve another timeout
 *
 * If the push came before the word, the worker could pop a record that still shows the end of its last life.  It would
 * mistake it for a cancelled one, and send it home to its slab while the timeout uses it.
 */
#include "lane/submit.h"

#include <errno.h>

/*
 * With a limit of pending timeouts, a lane is full only if more than this many records wait in it.  A worker that has
 * no processor for a tenth of a second, or is in a task for as long, is no reason to refuse.
 */
HWT_TUNABLE(uint64_t, full, 64 * (uint64_t)HWT_GATHER)

/* Finds a record when the free list is empty. */
static struct hwt_record *find_record(struct hwt_lane *lane)
{
	struct hwt_record *record;

	if (likely(pool_has_only_span(&lane->pool))) /* the usual case while a lane fills up */
		return pool_carve(&lane->pool);
	record = hwt_lane_find_at_hand(lane);
	if (likely(record != NULL))
		return record;
	/* Asked once: the worker may make room at any moment, and the refusal must have one reason. */
	lane->was_full = hwt_lane_is_full(lane);
	HWT_POINT("full");
	if (lane->was_full)
		return NULL;
	return hwt_lane_find_more(lane);
}

bool hwt_lanes_take_limit(struct hwt_lanes *lanes)
{
	/* Relaxed: a guess, which the exchange checks.  The exchange acquires, [limit]. */
	int64_t limited = atomic_load_explicit(&lanes->limited, memory_order_relaxed);

	/*
	 * An add whose result is checked afterwards would exceed the limit for a moment, in which another thread could
	 * be refused.
	 */
	do {
		if (limited >= lanes->max_pending)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&lanes->limited, &limited, limited + 1, memory_order_acquire,
							memory_order_relaxed));
	return true;
}

bool hwt_lane_is_full(const struct hwt_lane *lane)
{
	uint64_t limit = (uint64_t)lane->lanes->max_pending, waits = lane_waiting(lane);

	return limit > 0 && waits > full() && (waits - full()) / 4 > limit;
}

/* Returns a free record, which is the caller's, or NULL if there is no memory. */
static inline struct hwt_record *take_record(struct hwt_lane *lane)
{
	struct hwt_record *record = pool_pop(&lane->pool);

	return likely(record != NULL) ? record : find_record(lane);
}

/*
 * Takes a slot below the limit, and notes the deadline for a driver: few timers need either.  Returns false at the
 * limit.  Under the submit lock.
 */
static __attribute__((noinline)) bool admit(struct hwt_lane *lane, int64_t deadline_ns)
{
	struct hwt_lanes *lanes = lane->lanes;

	if (lanes->max_pending > 0 && !hwt_lanes_take_limit(lanes))
		return false;
	lane_note_deadline(lane, deadline_ns);
	return true;
}

/*
 * Does everything that can fail, and undoes it on failure.  Under the submit lock.
 *
 * The caller has read `closed` under the same lock, under which stop sets it: no push follows a close (L3).  The limit
 * comes last, because other threads see it: a slot that is taken and given back could refuse one of them in between.
 */
static inline __attribute__((always_inline)) int prepare(struct hwt_lane *lane, int64_t deadline_ns,
							 struct hwt_record **record, hwt_node **node)
{
	*record = take_record(lane);
	if (unlikely(*record == NULL))
		return lane->was_full ? ENOBUFS : ENOMEM;
	*node = queue_node(&lane->submitted);
	if (unlikely(*node == NULL)) {
		hwt_pool_unused(&lane->pool, *record);
		return ENOMEM;
	}
	if (unlikely(lane->lanes->asks_more) && !admit(lane, deadline_ns)) {
		hwt_pool_unused(&lane->pool, *record);
		queue_node_unused(&lane->submitted, *node);
		return ENOBUFS;
	}
	return 0;
}

static void count_refused(struct hwt_lane *lane, int rc)
{
	if (rc == ENOBUFS)
		lane->refused_limit++;
	else if (rc == ECANCELED)
		lane->refused_stopped++;
	else
		lane->refused_memory++;
}

/*
 * Accepts the timeout.  prepare has got the record and the node, so this cannot fail.  Under the lock; the top of this
 * file argues the order.
 */
static inline __attribute__((always_inline)) void accept(struct hwt_lane *lane, struct hwt_record *record,
							 hwt_node *node, hwt_task *task, void *arg, int64_t deadline_ns,
							 uint64_t flags, hwt_timeout *out)
{
	/* Relaxed: written under the lock only.  The release of take publishes it, [count]. */
	uint64_t accepted = atomic_load_explicit(&lane->accepted, memory_order_relaxed);
	hwt_timeout timeout;

	atomic_store_explicit(&lane->accepted, accepted + 1, memory_order_relaxed);
	atomic_store_explicit(&record->lane, lane, memory_order_release); /* [made] */
	timeout = record_take(record, task, arg, deadline_ns, flags);
	if (out != NULL)
		*out = timeout;
	HWT_PROBE(schedule, record, deadline_ns);
	queue_push(&lane->submitted, node, record);
}

static __attribute__((noinline)) void ask_for_memory(struct hwt_lanes *lanes)
{
	hwt_idle_wake(&lanes->idle, idle_look(&lanes->idle));
	lanes_hurry(lanes, HURRY_AT_ONCE);
}

/*
 * Wakes the worker if need be, after the lock has been released: a wake is a system call, and must not hold up the
 * lane's other threads.  The push comes first in any case, [idle].  Returns rc.
 */
static inline __attribute__((always_inline)) int notify(const struct hwt_lane *lane, int rc, int64_t deadline_ns)
{
	if (likely(rc == 0))
		notify_submitted(lane, deadline_ns);
	else if (rc == ENOMEM) /* the next pass of a sleeping worker may free memory that is in the queues */
		ask_for_memory(lane->lanes);
	return rc;
}

int hwt_lane_submit(struct hwt_lane *lane, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out)
{
	struct hwt_record *record;
	hwt_node *node;
	int rc = ECANCELED;

	queue_lock(&lane->submitted);
	if (likely(!lane->closed) && likely((rc = prepare(lane, deadline_ns, &record, &node)) == 0))
		accept(lane, record, node, task, arg, deadline_ns, 0, out);
	if (unlikely(rc != 0))
		count_refused(lane, rc);
	queue_unlock(&lane->submitted);
	return notify(lane, rc, deadline_ns);
}

/* Makes the extension of the record to be submitted.  Returns NULL if there is no memory.  Under the lock. */
static struct hwt_record *make_extension(struct hwt_lane *lane, const struct hwt_extension *extension,
					 int64_t period_ns)
{
	struct hwt_record *record = take_record(lane);

	if (record == NULL)
		return NULL;
	/*
	 * A stale handle may still lead here, and a walk comes by.  The word stays that of an ended timeout: the holder
	 * of the handle uses only the lane, to find the timer, and the lane is valid.  The holder and a walk discard
	 * the other fields when they load the word again.
	 */
	atomic_store_explicit(&record->lane, lane, memory_order_release); /* [made] */
	record_set_deadline(record, period_ns);
	atomic_store_explicit(&record->extension.arg, extension->arg, memory_order_release);         /* [look] */
	atomic_store_explicit(&record->extension.release, extension->release, memory_order_release); /* [look] */
	record->extension.missed = 0;
	return record;
}

int hwt_lane_submit_extended(struct hwt_lane *lane, hwt_task *task, const struct hwt_extension *extension,
			     int64_t period_ns, int64_t deadline_ns, hwt_timeout *out)
{
	uint64_t flags = WORD_EXTENDED | (period_ns > 0 ? WORD_PERIODIC : 0);
	struct hwt_record *record, *second;
	hwt_node *node;
	int rc;

	queue_lock(&lane->submitted);
	if (lane->closed)
		rc = ECANCELED;
	else if ((second = make_extension(lane, extension, period_ns)) == NULL)
		rc = lane->was_full ? ENOBUFS : ENOMEM;
	else if ((rc = prepare(lane, deadline_ns, &record, &node)) == 0)
		accept(lane, record, node, task, second, deadline_ns, flags, out);
	else
		hwt_pool_unused(&lane->pool, second);
	if (rc != 0)
		count_refused(lane, rc);
	queue_unlock(&lane->submitted);
	return notify(lane, rc, deadline_ns);
}

void hwt_record_release(struct hwt_record *record)
{
	struct hwt_extension *extension = record_extension(record);
	/* Relaxed: the extension belongs to the thread that has ended the timeout. */
	void (*release)(void *) = atomic_load_explicit(&extension->release, memory_order_relaxed);
	void *arg = atomic_load_explicit(&extension->arg, memory_order_relaxed);

	/* Release: `release` shares its memory with arg, and a look at a former timeout of this record may read it. */
	atomic_store_explicit(&extension->release, NULL, memory_order_release); /* [look] */
	if (release != NULL)
		release(arg);
}

void hwt_lane_return_both(struct hwt_record *record)
{
	struct hwt_record *second = record_second(record);

	hwt_record_release(record);
	record_slab_chain(second);
	record_slab_chain(record);
}

void hwt_lanes_push_rearmed(struct hwt_lanes *lanes, struct hwt_record *record)
{
	/*
	 * The record's lane, as the calling thread may have none.  Lane and deadline are read here: after
	 * record_end_reschedule the worker may run the timeout, and the record may serve another timeout.
	 */
	const struct hwt_lane *lane = record_lane(record);
	int64_t deadline_ns = record_deadline(record);

	/*
	 * While the word says RESCHEDULING, movers, cancels and stop wait, and the worker only postpones the record.
	 * If the flag were cleared before the push, a mover could wake the worker for a record that is in no queue yet:
	 * the worker would find nothing and sleep past the new deadline.
	 */
	stack_push(&lanes->rearmed, record);
	record_end_reschedule(record);
	notify_submitted(lane, deadline_ns);
}
