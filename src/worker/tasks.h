/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tasks that do not run on the worker: they run on threads of the library (task threads) or of the program (an
 * executor).
 *
 * Structure
 *
 *   The worker turns the due records of a batch from ARMED into READY and hands them over: to task threads by a queue
 *   (ready.h), to an executor by a call for each.  The thread that gets a record turns it into RUNNING, runs the task,
 *   ends the timeout and returns the record.  A job that execute refuses runs at once on the worker, in the same way.
 *
 *   To callers READY means pending.  Until a thread has turned the record into RUNNING, a cancel may end the timeout
 *   and a mover may give it another deadline.  Neither touches a queue: the thread that gets the record finds it
 *   cancelled and returns it, or finds a deadline that has not come and sends the record to the worker.  A stop gives
 *   back the records that wait for a task thread, and waits for the jobs of an executor.
 *
 * Threads
 *
 *   hwt_tasks_run, hwt_tasks_run_one   the task thread itself; the latter also a thread that runs a job.
 *   hwt_tasks_execute                  the worker.
 *   hwt_tasks_stop                     any thread.
 *   hwt_tasks_join                     stop, or a start that has failed.
 *   the queue                          the worker puts.
 *
 * Invariants
 *
 *   J1  finished <= handed.  If they are equal, no job will touch the timer any more, except to unlock a mutex that
 *       stop has to lock before it goes on.
 *   T4  after hwt_tasks_join no thread is between hwt_ready_take, or the begin of a job, and the end of a run: each
 *       record whose task has not begun is in the queue, on the stack `rearmed`, or at home.
 *   T5  each task thread has counters that it alone writes; the threads of an executor share counters, which they write
 *       under the mutex of the queue.  A run is counted as started before its task, and as finished after it.
 *
 * Ordering
 *
 *   The mutex of the queue, or execute, orders the worker's writes before the reads of the thread that gets the record.
 *   [count] and [finished] are as on the worker (worker.h).
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
	struct hwt_counts counts; /* of the tasks of this runner: finished, repeats, merged, lateness */
	_Atomic uint64_t expired; /* runs started, without those of periodic timeouts; [count] */
	_Atomic uint64_t wait_max_ns;
	_Atomic uint64_t over; /* of a task thread: records that it has done with */
	struct hwt_tasks *tasks;
	pthread_t id;
	uint32_t number; /* from 1 on */
};

struct hwt_tasks {
	uint32_t count;   /* of runners; 0: tasks run on the worker, and no other field is set */
	uint32_t started; /* threads to be joined */
	struct hwt_runner *runner;
	hwt_executor executor; /* execute NULL: there are task threads */
	struct hwt_lanes *lanes;
	const struct hwt_grid *grid;
	uint32_t clock;
	bool is_virtual;                /* *told_ns is the timer's clock */
	const _Atomic int64_t *told_ns; /* of a caller-driven timer: a lower bound of its time; else NULL */
	struct hwt_ready ready;         /* of the task threads; the executor's threads use its monitor */
	uint64_t handed;                /* the worker's: records handed over, ever */
	_Atomic uint64_t refused;       /* jobs that the executor refused; the worker writes */
	_Atomic uint64_t finished;      /* jobs that are over; written under the mutex */
};

/*
 * Makes the runners of config->task_threads threads, or the runner of an executor.  Starts no thread.  Returns 0,
 * ENOMEM, or an error of the system.
 */
int hwt_tasks_init(struct hwt_tasks *tasks, struct hwt_lanes *lanes, const struct hwt_grid *grid,
		   const hwt_config *config);
void hwt_tasks_destroy(struct hwt_tasks *tasks);

/* Runs tasks until hwt_tasks_stop. */
void hwt_tasks_run(struct hwt_runner *self);

/* Handles a record that was taken from the queue: runs its task, unless the timeout has been cancelled or moved. */
void hwt_tasks_run_one(struct hwt_runner *self, struct hwt_record *record, int64_t put_ns);

/*
 * Hands a READY record, which has been counted in `handed`, to the executor.  If the executor refuses, the task runs
 * here.
 */
void hwt_tasks_execute(struct hwt_tasks *tasks, struct hwt_record *record);

/* For the worker: returns true if no executor's job is unfinished.  The worker then sees the pushes of all jobs. */
static inline bool tasks_are_done(const struct hwt_tasks *tasks)
{
	if (tasks->executor.execute == NULL)
		return true;
	return atomic_load_explicit(&tasks->finished, memory_order_acquire) == tasks->handed; /* [finished] */
}

/* For the worker: returns true if task threads or jobs have records.  If not, the worker sees these records at home. */
bool hwt_tasks_are_out(const struct hwt_tasks *tasks);

/* Makes each task thread end after the task that it is running. */
void hwt_tasks_stop(struct hwt_tasks *tasks);

/* Makes the task threads end and joins them; waits for all jobs.  Afterwards threads may be started again. */
void hwt_tasks_join(struct hwt_tasks *tasks);

/* Returns the sum of a number over all runners.  Acquire: [finished], [count].  The caller keeps their order. */
#define tasks_sum(tasks, number) hwt_tasks_sum(tasks, offsetof(struct hwt_runner, number))
uint64_t hwt_tasks_sum(const struct hwt_tasks *tasks, size_t offset);

/* Returns the number of tasks in this bin of the histogram, of all runners. */
uint64_t hwt_tasks_late(const struct hwt_tasks *tasks, unsigned bin);

/* Adds repeats, merged and the greatest lateness of all runners to *counts, and their longest wait to *wait_max_ns. */
void hwt_tasks_tally(const struct hwt_tasks *tasks, struct hwt_counts *counts, uint64_t *wait_max_ns);

#endif
