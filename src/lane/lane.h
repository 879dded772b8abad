/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lanes: where producers hand over timeouts and cancellations, each thread in its own.
 *
 * Structure
 *
 *   A thread gets a number when it first comes, and with it one place in each timer, where its home lane is.  The first
 *   thread that comes to a place makes the lane.  Two threads may share a lane, a thread never changes its own: hopping
 *   to a free one would break the order within a thread (G3).  A thread for whose lane there is no memory may not
 *   schedule, but it can cancel: it uses the lane that was made first.
 *
 *       lane   submitted  queue of new records, and    ---> worker: drain
 *                         of those to be placed anew
 *              pool       free records                 <--- worker: returned
 *              cancelled  queue of cancelled records   ---> worker: unlink
 *
 * Threads
 *
 *   hwt_lane_submit, hwt_lane_cancel, hwt_lane_reschedule
 *                                     any thread, on its own home lane.  What it cancels or moves may belong to any.
 *   hwt_lane_rearm                    the task of the record.
 *   hwt_lanes_make                    any thread; those that make lanes wait for each other.
 *   hwt_lanes_close                   stop.
 *   lane_return, lane_splice_returned  the worker; it pops the queues, too.
 *
 *   One lock acquisition covers a submission: closed, record, node, limit, handle, push.  The worker takes no lane's
 *   lock.  It is the consumer of the submitted queue for a batch at a time, as a producer may be that for a moment
 *   (reclaim.c).
 *
 * Invariants
 *
 *   L1  pending = sum of accepted and again - sum of cancelled - expired - given back.  The minuend is counted before
 *       its record can end, the others after; read in the opposite order the difference is never negative.  A timeout
 *       that is going to run again counts as pending, a periodic one always.
 *   L2  with a limit: pending <= limited <= max_pending, at any moment.
 *   L3  nothing is pushed on a submitted queue after hwt_lanes_close has returned.
 *   L4  a lane stays at its place, and in its turn, until the timer is destroyed.
 *
 * Ordering
 *
 *   [limit]  a place is given back with release and taken with acquire: the end that made room has been counted (L2).
 *   [count]  the ends are counted with release and read with acquire, then accepted and again are read: whoever
 *            counts an end counts its begin.
 *   [mark]   reclaimed is stored with release, and loaded with acquire before accepted and requeued are read: what it
 *            counts is counted there, so a mark never comes before a record that was accepted.
 *   [made]   a lane's address is stored with release when the lane is complete, at its place, by the count of lanes,
 *            and in records, and loaded with acquire.  Whoever counts an end sees the lane that has its begin: that
 *            lane was made before, and [count] leads here.
 */
#ifndef HWT_LANE_H
#define HWT_LANE_H

#include "base/waiters.h"
#include "lane/pool.h"
#include "lane/queue.h"
#include "lane/stack.h"

#include <stdalign.h>

/* This many operations in a lane wake a sleeping worker: what they hold must not wait for the next timeout (G5). */
#define HWT_GATHER 4096

/*
 * With a limit of pending timeouts, so many wait in a lane at least before it is full.  A worker that has no processor
 * for a tenth of a second, or is in a task that long, is no reason to refuse.
 */
#define HWT_FULL (64 * (uint64_t)HWT_GATHER)

struct hwt_executor_jobs;
struct hwt_lanes;

struct hwt_lane {
	/* The worker's. */
	alignas(HWT_UNIT) struct hwt_chain free_chain; /* records to send home at the end of the pass */
	_Atomic uint64_t unlinked;                     /* taken out of the cancelled queue, ever */

	_Atomic uint64_t taken; /* the same of the submitted queue; written by its consumer, the worker or a producer */
	_Atomic uint64_t mark;  /* the worker is behind until taken reaches this (worker_slow.c) */

	/* Worker and producers. */
	alignas(HWT_UNIT) hwt_returned returned;
	_Atomic uint64_t drained_told; /* taken and unlinked, as the last pass left them */

	/* The queue's first 64 bytes are the worker's, the rest, and what follows, is under its lock. */
	alignas(HWT_LINE) struct hwt_queue submitted;
	_Atomic uint64_t accepted; /* written under the lock, read by anybody */
	_Atomic uint64_t requeued; /* the same: pushed to be placed anew */

	/*
	 * The same: taken back by a producer from behind the mark, as if never pushed.  What it takes back in front of
	 * the mark counts as taken.
	 */
	_Atomic uint64_t reclaimed;
	bool closed, was_full; /* full when it last found no free record */
	struct hwt_pool pool;
	uint64_t accepted_at_steal; /* when it last found nothing to steal */
	uint64_t pushed_at_reclaim, cancelled_at_reclaim;
	uint64_t refused_limit, refused_stopped, refused_memory;

	/* Never changes. */
	alignas(HWT_UNIT) struct hwt_lanes *lanes;
	uint32_t turn; /* lanes->made[turn] */

	/* The same for cancellations. */
	alignas(HWT_LINE) struct hwt_queue cancelled;
	_Atomic uint64_t cancelled_pushed; /* written under its lock, read by anybody */
	_Atomic uint64_t cancelled_count;  /* counters of what the threads at home here did; no lock */
	_Atomic uint64_t rearmed_count, rescheduled_count;
};

static_assert(offsetof(struct hwt_lane, submitted) % HWT_UNIT == HWT_LINE, "the queue straddles two units");
static_assert(offsetof(struct hwt_lane, cancelled) % HWT_UNIT == HWT_LINE, "the queue straddles two units");

typedef _Atomic(struct hwt_lane *) hwt_place;

struct hwt_lanes {
	/* Read in every call, and hardly ever written. */
	hwt_place *place;       /* by the numbers of threads; NULL: nobody has come */
	uint32_t last_place;    /* a power of two - 1 */
	_Atomic uint32_t count; /* of the lanes that exist; written under the mutex */
	struct hwt_lane **made; /* those, in the order in which they were made */
	hwt_timer *timer;
	uint64_t id;         /* of no other timer, ever */
	int64_t max_pending; /* 0: no limit */
	struct hwt_executor_jobs *jobs;

	alignas(HWT_UNIT) _Atomic int64_t limited; /* counts only when there is a limit */
	alignas(HWT_UNIT) hwt_stack rearmed;       /* to run again, from executors to the worker */
	struct hwt_idle idle;
	struct hwt_waiters waiters;

	pthread_mutex_t making;   /* of lanes */
	bool closed;              /* those that are made from now on; under the mutex */
	_Atomic uint64_t refused; /* submissions without a lane */
};

/* ENOMEM.  (This and the others of all lanes: lanes.c) */
int hwt_lanes_init(struct hwt_lanes *lanes, hwt_timer *timer, uint32_t places, int64_t max_pending);
void hwt_lanes_destroy(struct hwt_lanes *lanes);

/* The lane at a place; makes it.  NULL without memory. */
struct hwt_lane *hwt_lanes_make(struct hwt_lanes *lanes, uint32_t place);

/* From now on submissions are refused.  Waits for those in progress. */
void hwt_lanes_close(struct hwt_lanes *lanes);

/* How many lanes there are: made[0] and so on. */
static inline uint32_t lanes_count(const struct hwt_lanes *lanes)
{
	return atomic_load_explicit(&lanes->count, memory_order_acquire); /* [made] */
}

/* NULL: nobody has come there yet. */
static inline struct hwt_lane *lanes_at(const struct hwt_lanes *lanes, uint32_t place)
{
	return atomic_load_explicit(&lanes->place[place], memory_order_acquire); /* [made] */
}

/* Sums over the lanes; [count] is the caller's to keep. */
uint64_t hwt_lanes_accepted(const struct hwt_lanes *lanes);
uint64_t hwt_lanes_cancelled(const struct hwt_lanes *lanes);
uint64_t hwt_lanes_rearmed(const struct hwt_lanes *lanes);
uint64_t hwt_lanes_rescheduled(const struct hwt_lanes *lanes);

/* What a lane has for statistics, all of one moment. */
struct hwt_lane_counts {
	uint64_t refused_limit, refused_stopped, refused_memory, records, bytes;
};

/* Free records of other lanes become the lane's.  Under its submit lock.  (This and the next: steal.c) */
bool hwt_lane_steal_records(struct hwt_lane *thief);

/* The same for records that were cancelled in the lane's own queue, if it may be worth while.  (reclaim.c) */
bool hwt_lane_reclaim(struct hwt_lane *lane);

/* With a limit: so much waits in its queue that a lane is to take no new memory for records.  (reclaim.c) */
bool hwt_lane_is_full(const struct hwt_lane *lane);

#ifdef HWT_TEST
extern _Atomic uint64_t hwt_test_gather; /* HWT_GATHER, as far as that is about memory */
#endif

/* Slow half of lane_node. */
hwt_node *hwt_lane_find_node(struct hwt_lane *lane, struct hwt_queue *queue);

/* A node for one push on a queue of the lane.  NULL without memory.  Under the queue's lock. */
static inline hwt_node *lane_node(struct hwt_lane *lane, struct hwt_queue *queue)
{
	hwt_node *node = queue_recycled(queue);

	return likely(node != NULL) ? node : hwt_lane_find_node(lane, queue);
}

/* Adds the lane's to what is in *counts. */
void hwt_lane_count(struct hwt_lane *lane, struct hwt_lane_counts *counts);

/* The sums over all lanes, with what is refused and held outside of them. */
struct hwt_lane_counts hwt_lanes_tally(const struct hwt_lanes *lanes);

/* 0, ECANCELED, ENOMEM, ENOBUFS; *out (may be NULL) is written before the record can be seen. */
int hwt_lane_submit(struct hwt_lane *lane, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out);

/* The same for one with an extension; period_ns 0: none. */
int hwt_lane_submit_extended(struct hwt_lane *lane, hwt_task *task, const struct hwt_extension *extension,
			     int64_t period_ns, int64_t deadline_ns, hwt_timeout *out);

/* 0, EBUSY, ENOENT.  (cancel.c) */
int hwt_lane_cancel(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation);

/* Another deadline: 0, EBUSY, ENOENT, ENOMEM for an earlier one.  (reschedule.c) */
int hwt_lane_reschedule(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation, int64_t deadline_ns);

/* The same by its own task, which is running: then it runs again.  0, ENOENT, ENOBUFS. */
int hwt_lane_rearm(struct hwt_lane *lane, struct hwt_record *record, int64_t deadline_ns);

/* From the end of a task on an executor to the worker.  The record is QUEUED and RESCHEDULING, which this clears. */
void hwt_lanes_push_rearmed(struct hwt_lanes *lanes, struct hwt_record *record);

/* The calling thread's, 1 .. ; 0 until it has asked. */
extern HWT_OWN uint32_t hwt_own_number;

/* Slow half of lanes_home: gives the thread its number, makes its lane. */
struct hwt_lane *hwt_lanes_make_home(struct hwt_lanes *lanes);

/* The home lane of the calling thread.  NULL: there is none, and no memory for it. */
static inline struct hwt_lane *lanes_home(struct hwt_lanes *lanes)
{
	uint32_t number = hwt_own_number;
	struct hwt_lane *lane;

	if (likely(number != 0)) {
		lane = lanes_at(lanes, number & lanes->last_place);
		if (likely(lane != NULL))
			return lane;
	}
	return hwt_lanes_make_home(lanes);
}

/* Counts a submission without a lane.  ENOMEM. */
int hwt_lanes_refuse(struct hwt_lanes *lanes);

/* The home lane of the calling thread in the timer that it asked about last. */
struct hwt_home {
	uint64_t id;
	struct hwt_lane *lane;
};

extern HWT_OWN struct hwt_home hwt_home;
struct hwt_lane *hwt_lanes_find_home(struct hwt_lanes *lanes);

/*
 * lanes_home of the lanes that a record leads to, or another lane if there is no memory.  Remembered, so that the
 * processor need not wait for the record to know the lane: it checks a guess later, and goes on meanwhile, perhaps as
 * far as the next cancel.
 */
static inline struct hwt_lane *lanes_home_guessed(struct hwt_lanes *lanes)
{
	return likely(lanes->id == hwt_home.id) ? hwt_home.lane : hwt_lanes_find_home(lanes);
}

/*
 * One timeout less is pending, and counted as ended: to be called before its task starts, or before a cancel returns.
 */
static inline void lanes_release_limit(struct hwt_lanes *lanes)
{
	/* Release: who takes the place counts after the end was counted, [limit]. */
	if (unlikely(lanes->max_pending > 0)) {
		atomic_fetch_sub_explicit(&lanes->limited, 1, memory_order_release);
		HWT_POINT("limit");
	}
}

/* A stale handle may ask at any time, and gets any lane of the record's life: all belong to one timer. */
static inline struct hwt_lane *record_lane(struct hwt_record *record)
{
	return atomic_load_explicit(&record->lane, memory_order_acquire); /* [made] */
}

/* The finaliser of a record with an extension, if it has not been called. */
void hwt_record_release(struct hwt_record *record);

/* Slow half of lane_return. */
void hwt_lane_return_both(struct hwt_lane *lane, struct hwt_record *record);

/* Relaxed: it has ended, and is the worker's. */
static inline void lane_return(struct hwt_record *record)
{
	if (unlikely(word_has(atomic_load_explicit(&record->word, memory_order_relaxed), WORD_EXTENDED)))
		hwt_lane_return_both(record_lane(record), record);
	else
		chain_append(&record_lane(record)->free_chain, record);
}

/* A place for one that is going to be pending.  Exact: one of those who race for the last one gets it. */
bool hwt_lanes_take_limit(struct hwt_lanes *lanes);

/* Has much gathered in the queues since the worker last took what was there? */
bool hwt_lane_is_long(const struct hwt_lane *lane);

/* After a push: wakes the worker if it sleeps and has to know of a deadline, or of how much there is. */
static inline void notify_submitted(const struct hwt_lane *lane, int64_t deadline_ns)
{
	struct hwt_idle *idle = &lane->lanes->idle;
	int64_t seen_ns = idle_look(idle);

	if (unlikely(seen_ns != IDLE_AWAKE) && (deadline_ns <= seen_ns || hwt_lane_is_long(lane)))
		hwt_idle_wake(idle, seen_ns);
}

static inline void lane_splice_returned(struct hwt_lane *lane)
{
	returned_splice(&lane->returned, &lane->free_chain);
}

/* Tells producers how much has been taken from the lane.  The worker, once a pass. */
static inline void lane_tell_drained(struct hwt_lane *lane)
{
	/* Relaxed: who sees an older count wakes the worker a little too early. */
	uint64_t drained = atomic_load_explicit(&lane->taken, memory_order_relaxed) +
			   atomic_load_explicit(&lane->unlinked, memory_order_relaxed);

	if (atomic_load_explicit(&lane->drained_told, memory_order_relaxed) != drained)
		atomic_store_explicit(&lane->drained_told, drained, memory_order_relaxed);
}

/* There is nothing for the worker in any lane. */
bool hwt_lanes_are_empty(struct hwt_lanes *lanes);

#endif
