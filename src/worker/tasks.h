/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Task threads: threads of the library that run tasks instead of the worker.
 *
 * Structure
 *
 *   The worker turns the due records of a batch from ARMED into READY and puts them into a queue (ready.h).  A task
 *   thread takes one, turns it into RUNNING, runs the task, ends the timeout and returns the record (handback.h).
 *
 *   READY is pending to everybody.  Until a thread has turned it into RUNNING a cancel takes it away, a mover gives it
 *   another deadline, and a stop gives it back.  None of them touches the queue: the thread that takes the record finds
 *   it cancelled and returns it, or finds a deadline that has not come and sends it to the worker.
 *
 * Threads
 *
 *   hwt_tasks_run, hwt_tasks_run_one   the task thread itself.
 *   hwt_tasks_stop                     any thread.
 *   hwt_tasks_join                     stop, or a start that has failed.
 *   the queue                          the worker puts.
 *
 * Invariants
 *
 *   T4  no thread is between hwt_ready_take and the end of a run once hwt_tasks_join has returned: all that had not
 *       begun is in the queue, on the stack of rearmed records, or returned.
 *   T5  a thread alone writes its numbers.  A run is counted as started before its task, as finished after it.
 *
 * Ordering
 *
 *   The mutex of the queue orders the worker's writes before the thread that takes the record.  [count] [finished]: as
 *   those of the worker (worker.h).
 */
#ifndef HWT_TASKS_H
#define HWT_TASKS_H

#include "base/current_task.h"
#include "base/grid.h"
#include "lane/lane.h"
#include "worker/counts.h"
#include "worker/ready.h"

struct hwt_tasks;

struct hwt_task_thread {
	struct hwt_counts counts; /* of the tasks that ran here: finished, repeats, merged, lateness */
	_Atomic uint64_t expired; /* runs started, without those of periodic timeouts; [count] */
	_Atomic uint64_t wait_max_ns;
	struct hwt_tasks *tasks;
	struct hwt_current_task frame;
	pthread_t id;
	uint32_t number; /* from 1 on */
};

struct hwt_tasks {
	uint32_t count;   /* 0: there are none, and nothing else here means anything */
	uint32_t started; /* threads to be joined */
	struct hwt_task_thread *thread;
	struct hwt_lanes *lanes;
	const struct hwt_grid *grid;
	uint32_t clock;
	int64_t tick; /* the worker's: the last at which it put something */
	struct hwt_ready ready;
};

/* Makes room for config->task_threads threads and starts none.  Returns 0, ENOMEM, or an error of the system. */
int hwt_tasks_init(struct hwt_tasks *tasks, struct hwt_lanes *lanes, const struct hwt_grid *grid,
		   const hwt_config *config);
void hwt_tasks_destroy(struct hwt_tasks *tasks);

/* Runs tasks until hwt_tasks_stop. */
void hwt_tasks_run(struct hwt_task_thread *self);

/* One turn of it: runs the task of a record that was taken from the queue, or finds that it must not run. */
void hwt_tasks_run_one(struct hwt_task_thread *self, struct hwt_record *record, int64_t put_ns);

/* Lets the threads end after the task that they are in. */
void hwt_tasks_stop(struct hwt_tasks *tasks);

/* The same, and waits for them.  Afterwards they may be started again. */
void hwt_tasks_join(struct hwt_tasks *tasks);

/* Sums over the threads.  The caller keeps the order of [finished] and [count]. */
uint64_t hwt_tasks_finished(const struct hwt_tasks *tasks);
uint64_t hwt_tasks_expired(const struct hwt_tasks *tasks);

/* Returns how many tasks of all threads were late by what counts in this place of the histogram. */
uint64_t hwt_tasks_late(const struct hwt_tasks *tasks, unsigned place);

/* Adds other numbers: repeats, merged and the most lateness to *counts, the longest wait to *wait_max_ns. */
void hwt_tasks_tally(const struct hwt_tasks *tasks, struct hwt_counts *counts, uint64_t *wait_max_ns);

#endif
