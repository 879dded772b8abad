/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lanes: where producers hand over timeouts and cancellations, each thread in its own lane.
 *
 * Structure
 *
 *   A thread gets a number at its first call, and with it one seat in each timer: the seat of its home lane.  The
 *   first thread that comes to a seat makes the lane.  Threads may share a lane.  A thread never changes its lane:
 *   hopping to a free one would break the order within a thread (G3).  If there is no memory for its lane a thread may
 *   not schedule, but it can cancel: it uses the lane that was made first.
 *
 *       lane   submitted  queue of new records, and    ---> worker: drain
 *                         of records to place earlier
 *              pool       free records of one slab     <--- worker: into the slab of each
 *              cancelled  queue of cancelled records   ---> worker: unlink
 *
 * Threads
 *
 *   Any thread calls on its own home lane; the record may belong to any lane.  The worker pops the queues.
 *
 *   One lock acquisition covers a submission: closed, record, node, limit, handle, push.  The worker takes no lane's
 *   lock in a pass, and waits for none in a trim (look.c).
 *
 * Invariants
 *
 *   L1  pending = sum of accepted and rearmed - sum of cancelled - expired - given back.  A begin (accepted, rearmed)
 *       is counted before its timeout can end, an end after the timeout has ended.  A reader sums the ends before the
 *       begins, so the difference is never negative.  A timeout that is going to run again counts as pending, a
 *       periodic one always.
 *   L2  with a limit: pending <= limited <= max_pending, at any moment.
 *   L3  nothing is pushed on a submitted queue after hwt_lanes_close has returned.
 *   L4  a lane stays at its seat, and in its turn, until the timer is destroyed.
 *
 * Ordering
 *
 *   [limit]  a slot below the limit is given back with release and taken with acquire: the end that made room has been
 *            counted (L2).
 *   [count]  ends are counted with release and read with acquire, and the begins are read afterwards: a reader that
 *            counts an end also counts its begin.
 *   [hurry]  a push, or an earlier deadline in a queue -> hurry_ns (release) -> the driver's check (acquire), which
 *            then drains the queues.
 *   [made]   the address of a complete lane is stored with release (at its seat, by the count of lanes, in records)
 *            and loaded with acquire.  A reader that counts an end sees the lane that has its begin: the lane was made
 *            before, and [count] orders the two.
 */
#ifndef HWT_LANE_H
#define HWT_LANE_H

#include "base/thread.h"
#include "base/waiters.h"
#include "lane/pool.h"
#include "lane/queue.h"
#include "lane/stack.h"

#include <stdalign.h>

/*
 * When this many operations have gathered in a lane, they wake a sleeping worker: their memory must not wait for the
 * next timeout (G5).
 */
#define HWT_GATHER 4096

struct hwt_tasks;
struct hwt_lanes;

struct hwt_lane {
	/* Written by the worker. */
	alignas(HWT_UNIT) _Atomic uint64_t unlinked; /* records taken out of the cancelled queue, ever */
	_Atomic uint64_t taken;                      /* records taken out of the submitted queue, ever */
	uint64_t accepted_at_look;                   /* `accepted` at the worker's last look; look.c */
	uint64_t cancelled_at_look;                  /* `cancelled_pushed` at the worker's last look */

	/* Written by the worker, read by producers. */
	alignas(HWT_UNIT) _Atomic uint64_t drained_told; /* taken + unlinked, as the last pass left them */

	/*
	 * The first 64 bytes of the queue are the consumer's.  The rest of it, and the fields below, are under the
	 * queue's lock.
	 */
	alignas(HWT_LINE) struct hwt_queue submitted;
	_Atomic uint64_t accepted;    /* submissions, ever; written under the lock, read by any thread */
	_Atomic uint64_t pushed_more; /* pushes ever that were no submission */
	bool closed;                  /* L3 */
	bool was_full;                /* the lane was full when it last found no free record */

	/*
	 * In a caller-driven timer: the earliest deadline that a timeout in the submitted queue had when it was pushed.
	 * Written under the lock before the push, read by the driver after it has seen the push, [push].
	 */
	_Atomic int64_t earliest_ns;
	struct hwt_pool pool;
	uint64_t accepted_at_search; /* `accepted` when another lane last wanted this lane's slab */
	uint64_t refused_limit, refused_stopped, refused_memory;

	/* Never changes. */
	alignas(HWT_UNIT) struct hwt_lanes *lanes;
	uint64_t id;   /* a copy of lanes->id, which saves a load in a cancel by another lane */
	uint32_t turn; /* lanes->made[turn] is this lane */

	/* Laid out as `submitted`. */
	alignas(HWT_LINE) struct hwt_queue cancelled;
	_Atomic uint64_t cancelled_pushed; /* cancels, ever; written under this queue's lock, read by any thread */
	_Atomic uint64_t cancelled_count;  /* cancels that pushed nothing; counted without a lock */
	_Atomic uint64_t rearmed_count, rescheduled_count;
};

static_assert(offsetof(struct hwt_lane, submitted) % HWT_UNIT == HWT_LINE, "the queue straddles two units");
static_assert(offsetof(struct hwt_lane, cancelled) % HWT_UNIT == HWT_LINE, "the queue straddles two units");

typedef _Atomic(struct hwt_lane *) hwt_seat;

struct hwt_lanes {
	/* Read in every call, and hardly ever written. */
	hwt_seat *seat;         /* the lane at each seat; NULL: no thread has come there yet */
	uint32_t last_seat;     /* a power of two - 1 */
	_Atomic uint32_t count; /* the number of lanes; written under the mutex */
	struct hwt_lane **made; /* the lanes, in the order in which they were made */
	hwt_timer *timer;
	uint64_t id;               /* no other timer ever has the same */
	int64_t max_pending;       /* 0: no limit */
	struct hwt_tasks *tasks;   /* of the timer */
	bool is_driven, asks_more; /* asks_more: there is a limit, or the timer is driven by its caller */

	alignas(HWT_UNIT) _Atomic int64_t limited; /* pending timeouts; counted only if there is a limit */
	alignas(HWT_UNIT) hwt_stack rearmed;       /* records to run again, from other threads to the worker */
	/*
	 * The earliest deadline that a mover has set since the last drain.  No earliest_ns knows it, as the record may
	 * lie in another lane's queue.  INT64_MIN: drain now.  INT64_MAX: no mover has asked; [hurry].
	 */
	_Atomic int64_t hurry_ns;
	struct hwt_idle idle;
	struct hwt_waiters waiters;

	pthread_mutex_t making;   /* held while a lane is made */
	bool closed;              /* lanes made from now on are closed; under the mutex */
	_Atomic uint64_t refused; /* submissions without a lane */

	alignas(HWT_UNIT) struct hwt_record_slabs slabs;
};

/* Returns how many lanes there are: made[0] and so on. */
static inline uint32_t lanes_count(const struct hwt_lanes *lanes)
{
	return atomic_load_explicit(&lanes->count, memory_order_acquire); /* [made] */
}

/* Returns the lane at a seat.  NULL: no thread has come there yet. */
static inline struct hwt_lane *lanes_at(const struct hwt_lanes *lanes, uint32_t number)
{
	return atomic_load_explicit(lanes->seat + number, memory_order_acquire); /* [made] */
}

/*
 * Returns the number of records in the submitted queue.  To the worker it counts every record pushed before the call
 * that is still there; other threads get a number that may be slightly old.
 */
static inline uint64_t lane_waiting(const struct hwt_lane *lane)
{
	/*
	 * Relaxed: a push during the call may count or not.  A thread that pops a record sees that it has been counted,
	 * [push].
	 */
	return atomic_load_explicit(&lane->accepted, memory_order_relaxed) +
	       atomic_load_explicit(&lane->pushed_more, memory_order_relaxed) -
	       atomic_load_explicit(&lane->taken, memory_order_relaxed);
}

/* Returns how many cancels wait in the lane for the worker.  Relaxed: other threads may see slightly old numbers. */
static inline uint64_t lane_waiting_cancels(const struct hwt_lane *lane)
{
	return atomic_load_explicit(&lane->cancelled_pushed, memory_order_relaxed) -
	       atomic_load_explicit(&lane->unlinked, memory_order_relaxed);
}

/* Returns true if at least HWT_GATHER operations wait in the queues, as far as the last pass has told. */
static inline bool lane_is_long(const struct hwt_lane *lane)
{
	/*
	 * Relaxed: each number may be a little old, so the difference may even be negative.  The next operation checks
	 * again, and the worker checks the lanes before it sleeps.
	 */
	uint64_t gathered = atomic_load_explicit(&lane->accepted, memory_order_relaxed) +
			    atomic_load_explicit(&lane->pushed_more, memory_order_relaxed) +
			    atomic_load_explicit(&lane->cancelled_pushed, memory_order_relaxed) -
			    atomic_load_explicit(&lane->drained_told, memory_order_relaxed);

	return (int64_t)gathered >= HWT_GATHER;
}

/*
 * Gives back the slot of a timeout below the limit.  The caller has counted the end, and calls this before the task
 * starts or the cancel returns: G4.
 */
static inline void lanes_release_limit(struct hwt_lanes *lanes)
{
	/* Release: the thread that takes the slot counts its begin after this end was counted, [limit]. */
	if (unlikely(lanes->max_pending > 0)) {
		atomic_fetch_sub_explicit(&lanes->limited, 1, memory_order_release);
		HWT_POINT("limit");
	}
}

/*
 * Returns the record's lane.  For a stale handle the lane may be that of another life; all lanes of the record belong
 * to the same timer.  NULL: the handle is stale, and the memory was given back.  A call with a handle loads the lane
 * before the word.  If the word then shows the handle's generation, and no end, the record's memory has not been given
 * back since the record was taken, so the lane is not NULL.  With an end the lane may be NULL, as a record may lie on
 * two pages.
 */
static inline struct hwt_lane *record_lane(struct hwt_record *record)
{
	return atomic_load_explicit(&record->lane, memory_order_acquire); /* [made] */
}

/* Returns the lanes of a record's timer, also if its memory was given back: a slab stays with its timer. */
static inline struct hwt_lanes *lanes_of(const struct hwt_record *record)
{
	return (struct hwt_lanes *)(void *)((char *)record_slab_of(record)->slabs - offsetof(struct hwt_lanes, slabs));
}

/* Tells producers how many operations the worker has taken from the lane.  The worker, once a pass. */
static inline void lane_tell_drained(struct hwt_lane *lane)
{
	/* Relaxed: a producer that sees an older count wakes the worker a little too early. */
	uint64_t drained = atomic_load_explicit(&lane->taken, memory_order_relaxed) +
			   atomic_load_explicit(&lane->unlinked, memory_order_relaxed);

	if (atomic_load_explicit(&lane->drained_told, memory_order_relaxed) != drained)
		atomic_store_explicit(&lane->drained_told, drained, memory_order_relaxed);
}

#define HURRY_AT_ONCE INT64_MIN

/*
 * Tells the driver that a queue holds a record for this time that is no new timeout.  To be called after the push.  It
 * exchanges the word even if the value stays: the driver reads the write of the last thread, and must also see the
 * pushes of the threads before.
 */
static inline void lanes_hurry(struct hwt_lanes *lanes, int64_t time_ns)
{
	int64_t seen_ns;

	if (!lanes->is_driven)
		return;
	seen_ns = atomic_load_explicit(&lanes->hurry_ns, memory_order_relaxed); /* relaxed: the exchange checks it */
	while (!atomic_compare_exchange_weak_explicit(&lanes->hurry_ns, &seen_ns, time_ns < seen_ns ? time_ns : seen_ns,
						      memory_order_release, memory_order_relaxed)) /* [hurry] */
		;
}

/* Returns 0 or ENOMEM. */
int hwt_lanes_init(struct hwt_lanes *lanes, hwt_timer *timer, uint32_t seats, const hwt_config *config);
void hwt_lanes_destroy(struct hwt_lanes *lanes);

/* Returns the lane at a seat, which it makes if there is none.  NULL: there is no memory. */
struct hwt_lane *hwt_lanes_make(struct hwt_lanes *lanes, uint32_t number);

/* Refuses submissions from now on.  Waits for those in progress. */
void hwt_lanes_close(struct hwt_lanes *lanes);

/* Counts a submission that found no lane.  Returns ENOMEM. */
int hwt_lanes_refuse(struct hwt_lanes *lanes);

/* Slow half of lanes_home: gives the thread its number, makes its lane. */
struct hwt_lane *hwt_lanes_make_home(struct hwt_lanes *lanes);

/* Returns the home lane of the calling thread.  NULL: the lane does not exist yet, and there is no memory for it. */
static inline struct hwt_lane *lanes_home(struct hwt_lanes *lanes)
{
	uint32_t number = hwt_own_number;
	struct hwt_lane *lane;

	if (likely(number != 0)) {
		lane = lanes_at(lanes, number & lanes->last_seat);
		if (likely(lane != NULL))
			return lane;
	}
	return hwt_lanes_make_home(lanes);
}

/* The home lane of the calling thread in the timer that it last used. */
struct hwt_home {
	uint64_t id;
	struct hwt_lane *lane;
};

extern HWT_OWN struct hwt_home hwt_home;
struct hwt_lane *hwt_lanes_find_home(const struct hwt_lane *of);

/*
 * Returns the calling thread's home lane in the timer of a record whose lane is `of`; or another lane if there is no
 * memory for the home lane.  The thread remembers its last answer.  So the processor need not wait for the record's
 * cache line to know the lane: it predicts the comparison and goes on, perhaps as far as the next cancel.
 *
 * Most often the record is of the home lane itself.  The remembered lane may have been of a timer that has been
 * destroyed.  If its memory now serves a lane of this timer, that lane will do.  Returns NULL for NULL: see
 * record_lane.
 */
static inline struct hwt_lane *lanes_home_guessed(const struct hwt_lane *of)
{
	struct hwt_lane *home = hwt_home.lane;

	if (likely(of == home))
		return home;
	return likely(of != NULL && of->id == hwt_home.id) ? home : hwt_lanes_find_home(of);
}

/* Returns the sum of a number over all lanes.  Acquire: [count].  The caller keeps the order. */
#define lanes_sum(lanes, number) hwt_lanes_sum(lanes, offsetof(struct hwt_lane, number))
uint64_t hwt_lanes_sum(const struct hwt_lanes *lanes, size_t offset);

/* Returns how many timeouts were cancelled. */
static inline uint64_t lanes_cancelled(const struct hwt_lanes *lanes)
{
	return lanes_sum(lanes, cancelled_count) + lanes_sum(lanes, cancelled_pushed);
}

/*
 * Adds to *stats what all lanes and slabs hold, and what the lanes have refused.  The numbers of one lane are of one
 * moment.
 */
void hwt_lanes_tally(const struct hwt_lanes *lanes, hwt_stats *stats);

/*
 * Returns true if all lanes are empty, and no mover hurries the driver.  A pass may drain the queues before the
 * producer's lanes_hurry: then only another pass clears hurry_ns, and hwt_timer_next answers "now" until then.
 */
bool hwt_lanes_are_empty(struct hwt_lanes *lanes);

/* Resets hurry_ns, before the queues are drained. */
void hwt_lanes_take_hurry(struct hwt_lanes *lanes);

/*
 * In a caller-driven timer: returns the earliest deadline that has come into the lanes since the last drain; its
 * timeout may have been cancelled.  INT64_MIN: drain at once, as a finaliser is to be called or a lane is long; with
 * `cancels` also if a timeout in the wheel has been cancelled.  INT64_MAX: nothing has come.  Clears nothing.
 */
int64_t hwt_lanes_earliest(struct hwt_lanes *lanes, bool cancels);

/*
 * Returns a free record of memory that the timer has: from the lane's slab, from a slab that nobody owns, or from that
 * of a lane at rest.  Leaves alone what other lanes may need the moment after.  NULL: there is none.  To be called
 * after pool_pop has found none, under the submit lock.  (This and the next: find.c)
 */
struct hwt_record *hwt_lane_find_at_hand(struct hwt_lane *lane);

/* Returns a record of new memory.  If there is none, it takes any free record of the timer, or returns NULL. */
struct hwt_record *hwt_lane_find_more(struct hwt_lane *lane);

/* Cancels a timeout (cancel.c).  Returns 0, EBUSY or ENOENT.  The lane may be NULL if the handle is stale. */
int hwt_lane_cancel(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation);

/* Sets another deadline (reschedule.c).  Returns 0, EBUSY or ENOENT; for an earlier deadline also ENOMEM. */
int hwt_lane_reschedule(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation, int64_t deadline_ns);

/* Makes the task that is running run again at a deadline.  Called by that task.  Returns 0, ENOENT or ENOBUFS. */
int hwt_lane_rearm(struct hwt_lane *lane, struct hwt_record *record, int64_t deadline_ns);

#endif
