/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The worker: the life of one tick.
 *
 * Structure
 *
 *       pass(now):  transfer   submitted -> wheel, max_transfers_per_tick at most, which the lanes share; some are
 *                              in it, and placed anew
 *                   expire     every tick whose time has passed, in order: collect a batch, run it, until none is left
 *                   cancel     cancelled -> out of the wheel
 *                   send home  each lane's records in one chain
 *
 *   Then it sleeps.  How long, depends on whether there is traffic:
 *
 *       nap    until the next tick: much came in during this one, or it was about to sleep for longer twice already, or
 *              there is something to do at the next one anyway.
 *       idle   until the tick at which the wheel next has something due; without end if there is nothing.  A producer
 *              with something earlier wakes it (idle.h).
 *
 *   If a pass left work behind in the lanes it passes again at once: a backlog is never slept on.  After a long task
 *   or a suspended machine one pass runs through all ticks that have gone by; those at which nothing is due are
 *   skipped, however many they are.
 *
 * Threads
 *
 *   The worker alone, but for hwt_worker_request_stop (any thread) and, after the worker has gone, hwt_worker_next_unprocessed
 *   (stop). Tasks run in here.  They may push on lanes; nothing they do touches the wheel.
 *
 * Invariants
 *
 *   P1  no task of a tick starts before grid_time(tick): the pass read the clock before (G2).
 *   P2  a record leaves the batch by running, by having been cancelled, or by hwt_worker_next_unprocessed.
 *   P3  no cancellation is handled while the batch has members: their places are stale (R3).
 *
 * Ordering
 *
 *   [stop]   request_stop stores (release), the worker loads (acquire).
 *   [count]  expired is stored (release) before the task starts; see lane.h.
 *   [finished]  stored (release) after the task, and so after expired; stats load it (acquire) and then expired: what
 *            has finished has started.
 */
#ifndef HWT_WORKER_H
#define HWT_WORKER_H

#include "worker/executor.h"
#include "worker/counts.h"
#include "wheel/wheel.h"

#define HWT_BATCH 256

struct hwt_worker {
	struct hwt_lanes *lanes;
	struct hwt_wheel *wheel;
	uint32_t max_transfers;
	uint32_t next_lane; /* the first of the next pass: the lanes take turns */

	struct hwt_record *batch[HWT_BATCH]; /* due, batch_at .. batch_end - 1 not yet run */
	size_t batch_at, batch_end;
	struct hwt_record *rearmed; /* taken from the stack, not yet placed */
	int64_t tick;               /* at which tasks run */

	bool is_behind; /* some of what had been accepted before tick mark_tick ran is still in the lanes */
	int64_t mark_tick;
	bool takes_late; /* what transfer takes in now is of that */
	bool has_late;   /* the wheel's list of those put off has some of it, to be run before the next tick */

	/* The traffic of the present tick. */
	int64_t traffic_tick;
	uint64_t transferred; /* taken out of the lanes */
	unsigned idle_looks;  /* how often it was about to sleep beyond the tick */

	struct hwt_current_task frame; /* of who makes the passes */
	struct hwt_waiters *waiters;
	struct hwt_executor_jobs *jobs; /* NULL: tasks run here */

	uint64_t passes;     /* since the start */
	uint64_t backlog;    /* what this pass has found in the lanes */
	int64_t lateness_ns; /* the moment against which deadlines are late: when the present tick began */
	bool is_told;        /* that is the time it is told, not the clock */

	struct hwt_counts counts;

	alignas(HWT_UNIT) _Atomic uint64_t expired; /* have started to run; written by the worker */
	_Atomic bool stop;
};

void hwt_worker_init(struct hwt_worker *worker, struct hwt_lanes *lanes, struct hwt_wheel *wheel,
		     uint32_t max_transfers);

/* Passes and sleeps until stop is requested.  The wheel's start time has been set. */
void hwt_worker_run(struct hwt_worker *worker);

/* One pass at the time now_ns.  true: there is more in the lanes.  Not after stop has been requested: P3. */
bool hwt_worker_pass(struct hwt_worker *worker, int64_t now_ns);

/* Sleeps after a pass at now_ns that left nothing: see the top.  It may return at any time. */
void hwt_worker_rest(struct hwt_worker *worker, int64_t now_ns);

/*
 * A record from a submitted queue or the stack that is not simply to be armed: it has flags, was cancelled, or is in
 * the wheel already and has become urgent.  true: to be placed.  (run.c)
 */
bool hwt_worker_take_slow(struct hwt_worker *worker, struct hwt_record *record);

/*
 * After a transfer that used up its budget, before any task runs: returns true if the worker is behind, that is, if
 * something waits that had been accepted before the tick that is next, or was when the worker came to be behind.  What
 * tasks schedule is not among it, so it comes to an end.
 */
bool hwt_worker_is_behind(struct hwt_worker *worker);

/*
 * While it is behind: how many of the next `part` records of a lane to take in at once, so that either all or none of
 * them had been accepted before; sets takes_late.
 */
uint32_t hwt_worker_late_part(struct hwt_worker *worker, const struct hwt_lane *lane, uint32_t part);

/*
 * Armed records of which takes_late says that they had been accepted before: puts off those whose tick has passed, so
 * that they run next and not a tick later.  Returns how many are left, to be placed.
 */
size_t hwt_worker_put_off_late(struct hwt_worker *worker, struct hwt_record **batch, size_t n);

/* A collected record that is not simply to be run: it has flags, or was cancelled. */
void hwt_worker_expire_slow(struct hwt_worker *worker, struct hwt_record *record);

/* The same after the task of one that got a flag while it ran. */
void hwt_worker_end_slow(struct hwt_worker *worker, struct hwt_record *record);

/* The thread is ending in a task, which counts as having returned.  Nothing if it is in none. */
void hwt_worker_abandon(struct hwt_worker *worker);

/* The oldest of those that are to run again, taken from the stack; NULL. */
static inline struct hwt_record *worker_next_rearmed(struct hwt_worker *worker)
{
	struct hwt_record *record = worker->rearmed;

	if (likely(record == NULL))
		record = stack_take_all(&worker->lanes->rearmed);
	worker->rearmed = record != NULL ? record->link : NULL;
	return record;
}

/* One timeout less is pending: before its task starts. */
static inline void worker_count_expired(struct hwt_worker *worker)
{
	/* Relaxed: only the worker writes it.  The store is [count]; the limit goes after it: G4, L2. */
	uint64_t expired = atomic_load_explicit(&worker->expired, memory_order_relaxed);

	atomic_store_explicit(&worker->expired, expired + 1, memory_order_release);
	lanes_release_limit(worker->lanes);
}

/* A task has returned for good. */
static inline void worker_count_finished(struct hwt_worker *worker)
{
	atomic_store_explicit(&worker->counts.finished, counts_get(&worker->counts.finished) + 1,
			      memory_order_release); /* [finished] */
}

static inline bool worker_has_to_stop(const struct hwt_worker *worker)
{
	return atomic_load_explicit(&worker->stop, memory_order_acquire); /* [stop] */
}

/* Lets hwt_worker_run return after the task that is running, and wakes it. */
void hwt_worker_request_stop(struct hwt_worker *worker);

/*
 * After the worker has gone and all lanes are closed: the next timeout that neither ran nor was cancelled, cancelled by
 * this call; NULL when there is none left.  Allocates nothing.  (surrender.c)
 */
struct hwt_record *hwt_worker_next_unprocessed(struct hwt_worker *worker);

#endif
