/* SPDX-License-Identifier: BSD-2-Clause */
/* What the worker knows, and what its files do with it in a line or two.  worker.h argues. */
#ifndef HWT_WORKER_STATE_H
#define HWT_WORKER_STATE_H

#include "worker/counts.h"
#include "worker/executor.h"
#include "base/probe.h"
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
	bool takes_late;  /* what transfer takes in now is of that */
	bool has_late;    /* the wheel's list of those put off has some of it, to be run before the next tick */
	bool was_held_up; /* this pass has not looked through a lane, as a producer is the consumer of its queue */

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

	/* A bound on the tasks of an advance.  Reached in the middle of a tick, it makes the next pass go on there. */
	uint64_t runs_max;            /* no task starts when worker_runs has come to this */
	bool is_cut;                  /* the tick is not through */
	struct hwt_record *late_last; /* the last of those that are late, while they run */

	struct hwt_counts counts;

	alignas(HWT_UNIT) _Atomic uint64_t expired; /* have started to run; written by the worker */
	_Atomic bool stop;
};

/* The oldest of those that are to run again, taken from the stack; NULL. */
static inline struct hwt_record *worker_next_rearmed(struct hwt_worker *worker)
{
	struct hwt_record *record = worker->rearmed;

	if (likely(record == NULL))
		record = stack_take_all(&worker->lanes->rearmed);
	worker->rearmed = record != NULL ? record->link : NULL;
	return record;
}

/* Tasks that have started. */
static inline uint64_t worker_runs(const struct hwt_worker *worker)
{
	return counts_get(&worker->expired) + counts_get(&worker->counts.repeats);
}

static inline bool worker_is_full(const struct hwt_worker *worker)
{
	return worker_runs(worker) == worker->runs_max;
}

/* How many due records to take at once: no more than may run, and one to know whether there is one. */
static inline size_t worker_room(const struct hwt_worker *worker)
{
	uint64_t left = worker->runs_max - worker_runs(worker);

	return left >= HWT_BATCH ? HWT_BATCH : left > 0 ? (size_t)left : 1;
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

/*
 * Counts how late a RUNNING record is, and runs its task.  deadline_ns is the deadline of this run: that of a periodic
 * record is already the next one.  *arg, the task's argument, is read last: it need not be kept meanwhile.  Returns
 * false if an executor runs the task, and ends the record, instead.
 */
static inline bool worker_run_task(struct hwt_worker *worker, struct hwt_record *record, uint64_t word,
				   int64_t deadline_ns, void *const *arg)
{
	HWT_ASSERT(deadline_ns <= grid_time(&worker->wheel->grid, worker->tick));
	counts_lateness(&worker->counts, deadline_ns, worker->lateness_ns);
	HWT_PROBE(expire, record, (uint64_t)worker->lateness_ns - (uint64_t)deadline_ns);
	if (unlikely(worker->jobs != NULL) && hwt_executor_hand_over(worker->jobs, record))
		return false;
	worker->frame.record = record;
	record->task((hwt_timeout){ record, word_generation(word) }, *arg);
	worker->frame.record = NULL;
	return true;
}

static inline bool worker_has_to_stop(const struct hwt_worker *worker)
{
	return atomic_load_explicit(&worker->stop, memory_order_acquire); /* [stop] */
}

#endif
