/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tasks on an executor: threads of the program instead of the worker.
 *
 * Structure
 *
 *   The worker hands over a RUNNING record and does not touch it again.  The executor's thread runs the task, ends the
 *   timeout and returns the record, by the chain on which the worker splices, too.  A record that runs again goes to
 *   the worker by a stack (stack.h).
 *
 * Threads
 *
 *   hwt_executor_hand_over  the worker.
 *   the job                 any thread, once.
 *   hwt_executor_wait       stop, after the last hand-over.
 *
 * Invariants
 *
 *   J1  finished <= handed.  They are equal only when no job will touch the timer any more, except to unlock a mutex
 *       that the waiter has to lock before it goes on.
 */
#ifndef HWT_JOB_H
#define HWT_JOB_H

#include "base/current_task.h"
#include "lane/lane.h"
#include "worker/counts.h"

struct hwt_executor_jobs {
	struct hwt_lanes *lanes;
	hwt_executor executor;    /* execute NULL: there is none */
	_Atomic uint64_t handed;  /* jobs that the executor has taken; written by the worker */
	_Atomic uint64_t refused; /* jobs that it would not take; the same */

	alignas(HWT_UNIT) _Atomic uint64_t finished; /* jobs that are over; written under the mutex of the waiters */
	_Atomic uint64_t completed;                  /* of these, timeouts that ended as EXPIRED; the same */
};

/* executor NULL: tasks run on the worker. */
void hwt_executor_init(struct hwt_executor_jobs *jobs, struct hwt_lanes *lanes, const hwt_executor *executor);

/* Hands over a RUNNING record.  Returns false if the executor refuses; then the record is still the caller's. */
bool hwt_executor_hand_over(struct hwt_executor_jobs *jobs, struct hwt_record *record);

/* For the worker: returns true if all jobs have finished.  The worker then sees what they pushed. */
static inline bool executor_is_done(const struct hwt_executor_jobs *jobs)
{
	uint64_t finished = atomic_load_explicit(&jobs->finished, memory_order_acquire); /* [finished] */

	return finished == counts_get(&jobs->handed);
}

/* Returns when all jobs have finished. */
void hwt_executor_wait(struct hwt_executor_jobs *jobs);

#endif
