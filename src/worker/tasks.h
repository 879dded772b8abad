/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tasks elsewhere: on threads of the library (task threads) or of the program (an executor) instead of the worker.
 *
 * Structure
 *
 *   The worker turns the due records of a batch from ARMED into READY and hands them over: to task threads by a queue
 *   (ready.h), to an executor by a call each.  Whichever thread comes to a record then turns it into RUNNING, runs the
 *   task, ends the timeout and returns the record.  A job that execute refuses runs at once on the worker, in the same
 *   way.
 *
 *   READY is pending to everybody.  Until a thread has turned it into RUNNING a cancel takes it away, and a mover gives
 *   it another deadline.  Neither touches a queue: the thread that comes to the record finds it cancelled and returns
 *   it, or finds a deadline that has not come and sends it to the worker.  A stop gives back what waits for a task
 *   thread, and waits for what an executor has.
 *
 * Threads
 *
 *   hwt_tasks_run, hwt_tasks_run_one   the task thread itself; the latter also the one that calls a job.
 *   hwt_tasks_execute                  the worker.
 *   hwt_tasks_stop                     any thread.
 *   hwt_tasks_join                     stop, or a start that has failed.
 *   the queue                          the worker puts.
 *
 * Invariants
 *
 *   J1  finished <= handed.  They are equal only when no job will touch the timer any more, except to unlock a mutex
 *       that stop has to lock before it goes on.
 *   T4  no thread is between hwt_ready_take, or the begin of a job, and the end of a run once hwt_tasks_join has
 *       returned: all that had not begun is in the queue, on the stack of rearmed records, or returned.
 *   T5  a task thread alone writes its numbers, the threads of an executor write theirs under the mutex of the queue.
 *       A run is counted as started before its task, as finished after it.
 *
 * Ordering
 *
 *   The mutex of the queue, or execute, orders the worker's writes before the thread that comes to the record.  [count]
 *   [finished]: as those of the worker (worker.h).
 */
#ifndef HWT_TASKS_H
#define HWT_TASKS_H

#include "base/grid.h"
#include "base/thread.h"
#include "lane/lane.h"
#include "worker/counts.h"
#include "worker/ready.h"

struct hwt_tasks;

/* A task thread, or all threads of an executor. */
struct hwt_runner {
	struct hwt_counts counts; /* of the tasks that ran here: finished, repeats, merged, lateness */
	_Atomic uint64_t expired; /* runs started, without those of periodic timeouts; [count] */
	_Atomic uint64_t wait_max_ns;
	_Atomic uint64_t over; /* of a task thread: records that have left it */
	struct hwt_tasks *tasks;
	pthread_t id;
	uint32_t number; /* from 1 on */
};

struct hwt_tasks {
	uint32_t count;   /* of runners; 0: tasks run on the worker, and nothing else here means anything */
	uint32_t started; /* threads to be joined */
	struct hwt_runner *runner;
	hwt_executor executor; /* execute NULL: there are task threads */
	struct hwt_lanes *lanes;
	const struct hwt_grid *grid;
	uint32_t clock;
	bool is_virtual;                /* *told_ns is the clock */
	const _Atomic int64_t *told_ns; /* of a timer that its caller drives: its time is not before this one */
	struct hwt_ready ready;         /* of the task threads; the executor's threads use its monitor */
	uint64_t handed;                /* the worker's: records handed over, ever */
	_Atomic uint64_t refused;       /* jobs that the executor would not take; the worker writes */
	_Atomic uint64_t finished;      /* jobs that are over; written under the mutex */
};

/*
 * Makes room for config->task_threads threads, or for the numbers of an executor, and starts none.  Returns 0, ENOMEM,
 * or an error of the system.
 */
int hwt_tasks_init(struct hwt_tasks *tasks, struct hwt_lanes *lanes, const struct hwt_grid *grid,
		   const hwt_config *config);
void hwt_tasks_destroy(struct hwt_tasks *tasks);

/* Runs tasks until hwt_tasks_stop. */
void hwt_tasks_run(struct hwt_runner *self);

/* One turn of it: runs the task of a record that was taken from the queue, or finds that it must not run. */
void hwt_tasks_run_one(struct hwt_runner *self, struct hwt_record *record, int64_t put_ns);

/* Hands a READY record to the executor, which has been counted as handed.  If that refuses, the task runs here. */
void hwt_tasks_execute(struct hwt_tasks *tasks, struct hwt_record *record);

/* For the worker: returns true if no job is out.  The worker then sees what they pushed. */
static inline bool tasks_are_done(const struct hwt_tasks *tasks)
{
	if (tasks->executor.execute == NULL)
		return true;
	return atomic_load_explicit(&tasks->finished, memory_order_acquire) == tasks->handed; /* [finished] */
}

/* For the worker: returns true if task threads or jobs have records.  Otherwise it sees that they have come home. */
bool hwt_tasks_are_out(const struct hwt_tasks *tasks);

/* Lets the threads end after the task that they are in. */
void hwt_tasks_stop(struct hwt_tasks *tasks);

/* The same, and waits for them; or for all jobs.  Afterwards threads may be started again. */
void hwt_tasks_join(struct hwt_tasks *tasks);

/* Sums over the runners.  The caller keeps the order of [finished] and [count]. */
uint64_t hwt_tasks_finished(const struct hwt_tasks *tasks);
uint64_t hwt_tasks_expired(const struct hwt_tasks *tasks);

/* Returns how many tasks of all runners were late by what counts in this bin of the histogram. */
uint64_t hwt_tasks_late(const struct hwt_tasks *tasks, unsigned bin);

/* Adds other numbers: repeats, merged and the most lateness to *counts, the longest wait to *wait_max_ns. */
void hwt_tasks_tally(const struct hwt_tasks *tasks, struct hwt_counts *counts, uint64_t *wait_max_ns);

#endif
