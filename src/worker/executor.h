/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tasks that run elsewhere: on an executor.
 *
 * Structure
 *
 *   The worker hands over a record that is RUNNING, and has nothing more to do with it.  The executor's thread runs the
 *   task, ends the timeout and sends the record home, by the same list that the worker splices on.  One that runs again
 *   goes to the worker by a stack (stack.h).
 *
 * Threads
 *
 *   hwt_executor_hand_over  the worker.
 *   the job            any thread, once.
 *   hwt_executor_wait      stop, when nobody hands over any more.
 *
 * Invariants
 *
 *   J1  finished <= handed, and equal only when no job touches anything of the timer any more, but to unlock a mutex
 *       that the waiter has to lock before he goes on.
 */
#ifndef HWT_JOB_H
#define HWT_JOB_H

#include "base/current_task.h"
#include "lane/lane.h"
#include "worker/counts.h"

struct hwt_executor_jobs {
	struct hwt_lanes *lanes;
	hwt_executor executor;    /* execute NULL: none */
	_Atomic uint64_t handed;  /* written by the worker */
	_Atomic uint64_t refused; /* the same */

	alignas(HWT_UNIT) _Atomic uint64_t finished; /* written under the mutex of await */
	_Atomic uint64_t completed;                  /* the same, without those that run again or were cancelled */
};

/* executor NULL: none. */
void hwt_executor_init(struct hwt_executor_jobs *jobs, struct hwt_lanes *lanes, const hwt_executor *executor);

/* A record that is RUNNING.  false: refused, it is still the caller's. */
bool hwt_executor_hand_over(struct hwt_executor_jobs *jobs, struct hwt_record *record);

/* For the worker: have all jobs finished?  What they handed back is seen then. */
static inline bool executor_is_done(const struct hwt_executor_jobs *jobs)
{
	uint64_t finished = atomic_load_explicit(&jobs->finished, memory_order_acquire); /* [finished] */

	return finished == counts_get(&jobs->handed);
}

/* Returns when all jobs have finished. */
void hwt_executor_wait(struct hwt_executor_jobs *jobs);

#endif
