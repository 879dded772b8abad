/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a job, on a thread of the program; executor.h.
 *
 *     run the task
 *     end the timeout     record_end: EXPIRED, CANCELLED, or QUEUED to run again
 *     return the record   to its lane, or on the stack of the worker
 *     count as finished   last of all: stop may be waiting for it to free the timer (J1)
 */
#include "worker/executor.h"
#include "base/thread.h"
#include "worker/handback.h"

void hwt_executor_init(struct hwt_executor_jobs *jobs, struct hwt_lanes *lanes, const hwt_executor *executor)
{
	jobs->lanes = lanes;
	lanes->jobs = jobs;
	jobs->executor = executor != NULL ? *executor : (hwt_executor){ NULL, NULL };
	atomic_init(&jobs->handed, 0);
	atomic_init(&jobs->refused, 0);
	atomic_init(&jobs->finished, 0);
	atomic_init(&jobs->completed, 0);
}

/*
 * Counts a job as finished, always under the mutex.  J1: hwt_executor_wait sees the count under the mutex, so it
 * returns, and the timer may be freed, only after the unlock.  And a thread in hwt_waiters_wait looks at the word under
 * the mutex: the broadcast cannot come between its look and its wait.
 */
static void finish(struct hwt_executor_jobs *jobs, bool completed)
{
	struct hwt_waiters *waiters = &jobs->lanes->waiters;

	pthread_mutex_lock(&waiters->monitor.mutex);
	/* Release: a reader of the statistics that sees the job finished also sees it begun, [finished]. */
	if (completed)
		atomic_store_explicit(&jobs->completed, counts_get(&jobs->completed) + 1, memory_order_release);
	atomic_store_explicit(&jobs->finished, counts_get(&jobs->finished) + 1, memory_order_release);
	pthread_cond_broadcast(&waiters->monitor.changed);
	pthread_mutex_unlock(&waiters->monitor.mutex);
}

struct running {
	struct hwt_record *record;
	uint64_t word;
	struct hwt_current_task frame;
};

/*
 * Ends a job whose task has returned: J1.
 *
 * A record that runs again comes out of record_end as QUEUED and RESCHEDULING.  So from that exchange to the push, when
 * it is in no queue, every thread that wants to cancel or move it waits.
 */
static void end_job(struct running *running)
{
	struct hwt_record *record = running->record;
	struct hwt_lane *lane = record_lane(record);
	struct hwt_executor_jobs *jobs = lane->lanes->jobs;
	enum word_state end = record_end(record, STATE_QUEUED | WORD_RESCHEDULING);

	running->frame.record = NULL; /* a finaliser runs in no task, but inside the timer */
	if (end == STATE_QUEUED)
		hwt_lanes_push_rearmed(lane->lanes, record);
	else
		hwt_handback_return(record);
	current_task_leave(&running->frame);
	finish(jobs, end == STATE_EXPIRED);
}

static void run(void *job)
{
	struct hwt_record *record = job;
	struct running running = { .record = record, .word = record_word(record) };
	int cancel_before = thread_no_cancel(); /* a job that has begun gets finished: J1 */

	HWT_ASSERT(word_state(running.word) == STATE_RUNNING);
	current_task_enter(&running.frame, record_lane(record)->lanes->timer, record);
	record->task((hwt_timeout){ record, word_generation(running.word) }, record_arg(record, running.word));
	end_job(&running);
	thread_restore_cancel(cancel_before);
}

bool hwt_executor_hand_over(struct hwt_executor_jobs *jobs, struct hwt_record *record)
{
	/* Before execute: the job may be over before execute returns, and finished would exceed handed (J1). */
	counts_add(&jobs->handed, 1);
	if (likely(jobs->executor.execute(jobs->executor.ctx, run, record) == 0))
		return true;
	counts_set(&jobs->handed, counts_get(&jobs->handed) - 1);
	counts_add(&jobs->refused, 1);
	return false;
}

void hwt_executor_wait(struct hwt_executor_jobs *jobs)
{
	struct hwt_waiters *waiters = &jobs->lanes->waiters;

	if (jobs->executor.execute == NULL)
		return;
	pthread_mutex_lock(&waiters->monitor.mutex);
	while (counts_get(&jobs->finished) != counts_get(&jobs->handed))
		hwt_monitor_wait(&waiters->monitor, INT64_MAX);
	pthread_mutex_unlock(&waiters->monitor.mutex);
}
