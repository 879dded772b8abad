/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of the worker, and short functions on it that several files share; worker.h argues. */
#ifndef HWT_STATE_H
#define HWT_STATE_H

#include "lane/look.h"
#include "worker/counts.h"
#include "worker/tasks.h"
#include "wheel/wheel.h"

#define HWT_BATCH 256

/* How many records ahead of the running task are fetched. */
#define HWT_RUN_AHEAD 24

/* The state of trimming; trim.h. */
struct hwt_trimming {
	struct hwt_look look;  /* look.given counts the wheel's bytes, too */
	bool is_active;        /* a look is under way */
	bool trims_wheel;      /* this look trims the wheel, too */
	bool again;            /* another look is to come, even without activity */
	int64_t look_ns;       /* the time of the next look, on CLOCK_MONOTONIC */
	int64_t wheel_calm_ns; /* when a look first found the wheel large and empty; 0: it is not */
	uint64_t at_look;      /* activity() at the last look */

	_Atomic size_t given;   /* bytes that have gone back in all trims; the worker writes */
	_Atomic uint64_t asked; /* requests; written under the mutex */
	uint64_t serving;       /* the last request that a look serves */
	struct hwt_monitor monitor;
	uint64_t answered; /* the last request that has been served; under the mutex */
	bool is_over;      /* no request will be served any more; under the mutex */
};

/* Due records; those from `at` to end - 1 have not run yet.  expire.c. */
struct hwt_batch {
	struct hwt_record *records[HWT_BATCH];
	size_t at, end;
};

/* How passes take operations in; worker.c. */
struct hwt_intake {
	uint32_t max_transfers;
	uint32_t next_lane[2];      /* for new timeouts and for cancels: the lane whose turn it is */
	bool takes_all;             /* the next transfer takes all new timeouts in: the first pass of an advance */
	uint64_t passes;            /* since the start */
	uint64_t backlog;           /* operations that this pass has taken in */
	struct hwt_record *rearmed; /* records taken from the stack `rearmed` and not yet placed */
};

/* The traffic of the present tick; rest.c. */
struct hwt_traffic {
	int64_t tick;
	uint64_t transferred; /* records taken out of the lanes */
	unsigned idle_looks;  /* how often the worker has gone idle in this tick */
};

/*
 * The bound on the tasks of an advance.  If the bound is reached in the middle of a tick, the next pass goes on with
 * this tick.
 */
struct hwt_bound {
	uint64_t runs_max; /* no task starts once worker_runs has reached this */
	bool is_cut;       /* the bound has cut the tick: the rest of its records has not run */
};

struct hwt_worker {
	struct hwt_lanes *lanes;
	struct hwt_wheel *wheel;
	struct hwt_waiters *waiters;
	struct hwt_tasks *tasks; /* NULL: tasks run here */
	uint32_t clock;          /* HWT_CLOCK_* */

	struct hwt_intake intake;
	struct hwt_batch batch;
	struct hwt_traffic traffic;
	struct hwt_bound bound;

	int64_t tick;                  /* the tick at which tasks run now */
	int64_t lateness_ns;           /* the beginning of this tick: lateness counts from the deadline to it */
	bool is_told;                  /* lateness_ns is a time told to hwt_timer_advance, not read from the clock */
	struct hwt_current_task frame; /* of the thread that makes the passes */

	struct hwt_counts counts;
	struct hwt_trimming trimming;

	alignas(HWT_UNIT) _Atomic uint64_t expired; /* runs started, without those of periodic timeouts; [count] */
	_Atomic bool stop;
};

/* Takes the oldest record that is to run again from the stack.  Returns NULL if there is none. */
static inline struct hwt_record *worker_next_rearmed(struct hwt_worker *worker)
{
	struct hwt_record *record = worker->intake.rearmed;

	if (likely(record == NULL))
		record = stack_take_all(&worker->lanes->rearmed);
	worker->intake.rearmed = record != NULL ? record->link : NULL;
	return record;
}

/* Returns the number of runs that the worker has started or handed over. */
static inline uint64_t worker_runs(const struct hwt_worker *worker)
{
	if (worker->tasks != NULL)
		return worker->tasks->handed;
	return counts_get(&worker->expired) + counts_get(&worker->counts.repeats);
}

/* Returns true if another pass at the same time would find nothing to do in worker and wheel. */
static inline bool worker_left_nothing(const struct hwt_worker *worker)
{
	const struct hwt_wheel *wheel = worker->wheel;

	return !worker->bound.is_cut && wheel->unplaced.first == NULL && wheel->postponed.first == NULL &&
	       wheel->held.first == NULL;
}

/* Returns the time of the timer's clock. */
static inline int64_t worker_now(const struct hwt_worker *worker)
{
	return likely(worker->clock == HWT_CLOCK_MONOTONIC) ? clock_monotonic() : hwt_clock_read(worker->clock);
}

/* Returns true if the bound on the tasks of this advance has been reached. */
static inline bool worker_is_full(const struct hwt_worker *worker)
{
	return worker_runs(worker) == worker->bound.runs_max;
}

/* Returns how many due records to collect at once: as many as may still run, or one, to learn whether there is any. */
static inline size_t worker_room(const struct hwt_worker *worker)
{
	uint64_t left = worker->bound.runs_max - worker_runs(worker);

	return left >= HWT_BATCH ? HWT_BATCH : left > 0 ? (size_t)left : 1;
}

/* Counts a timeout as no longer pending, before its task starts: so the task may re-arm itself at the limit (G4). */
static inline void worker_count_expired(struct hwt_worker *worker)
{
	/*
	 * Only the worker writes the counter.  The store is [count].  The slot below the limit is released after it:
	 * L2.
	 */
	atomic_store_explicit(&worker->expired, counts_get(&worker->expired) + 1, memory_order_release);
	lanes_release_limit(worker->lanes);
}

/* Counts a timeout whose last run has returned. */
static inline void worker_count_finished(struct hwt_worker *worker)
{
	atomic_store_explicit(&worker->counts.finished, counts_get(&worker->counts.finished) + 1,
			      memory_order_release); /* [finished] */
}

/* From here on the lateness of a task is measured up to now_ns. */
static inline void worker_set_lateness(struct hwt_worker *worker, int64_t now_ns)
{
	worker->lateness_ns = now_ns;
	counts_begin(&worker->counts, now_ns);
}

/* Counts a RUNNING record whose task is going to start, its lateness first (counts.h). */
static inline void worker_count_run(struct hwt_worker *worker, const struct hwt_record *record)
{
	int64_t deadline_ns = record_deadline(record);

	HWT_ASSERT(deadline_ns <= grid_time(&worker->wheel->grid, worker->tick));
	if (unlikely(!counts_belongs(&worker->counts, deadline_ns)))
		hwt_counts_lateness(&worker->counts, deadline_ns, counts_get(&worker->expired));
	HWT_PROBE(expire, record, (uint64_t)worker->lateness_ns - (uint64_t)deadline_ns);
	worker_count_expired(worker);
}

/*
 * Runs the task of a RUNNING record.  `arg` points to the task's argument, which is read last, so that it occupies no
 * register before.
 */
static inline void worker_run_task(struct hwt_worker *worker, struct hwt_record *record, uint64_t word,
				   const _Atomic(void *) *arg)
{
	worker->frame.record = record;
	record_task(record)((hwt_timeout){ record, word_generation(word) },
			    atomic_load_explicit(arg, memory_order_relaxed)); /* relaxed: as record_arg */
	worker->frame.record = NULL;
}

/* Returns record i of the batch, and prefetches one further on. */
static inline struct hwt_record *worker_record(const struct hwt_worker *worker, size_t i)
{
	if (likely(i + HWT_RUN_AHEAD < worker->batch.end))
		record_prefetch(worker->batch.records[i + HWT_RUN_AHEAD]);
	return worker->batch.records[i];
}

static inline bool worker_has_to_stop(const struct hwt_worker *worker)
{
	return atomic_load_explicit(&worker->stop, memory_order_acquire); /* [stop] */
}

#endif
