/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a task that does not run on the worker; tasks.h. */
#include "worker/tasks.h"
#include "base/mem.h"
#include "lane/submit.h"

#include <errno.h>

int hwt_tasks_init(struct hwt_tasks *tasks, struct hwt_lanes *lanes, const struct hwt_grid *grid,
		   const hwt_config *config)
{
	int rc;

	tasks->count = config->executor != NULL ? 1 : config->task_threads;
	if (tasks->count == 0)
		return 0;
	if (config->executor != NULL)
		tasks->executor = *config->executor;
	tasks->lanes = lanes;
	lanes->tasks = tasks;
	tasks->grid = grid;
	tasks->clock = config->clock;
	tasks->is_virtual = (config->flags & HWT_VIRTUAL_CLOCK) != 0;
	rc = hwt_ready_init(&tasks->ready);
	if (rc != 0)
		return rc;
	tasks->runner = hwt_mem_zeroed(alignof(struct hwt_runner), tasks->count * sizeof(struct hwt_runner));
	if (tasks->runner == NULL) {
		hwt_ready_destroy(&tasks->ready);
		return ENOMEM;
	}
	for (uint32_t i = 0; i < tasks->count; i++) {
		tasks->runner[i].tasks = tasks;
		tasks->runner[i].number = i + 1;
	}
	return 0;
}

void hwt_tasks_destroy(struct hwt_tasks *tasks)
{
	if (tasks->count == 0)
		return;
	hwt_mem_free(tasks->runner);
	hwt_ready_destroy(&tasks->ready);
}

/*
 * Returns an ended record to its slab, and its extension after the finaliser.  No other thread touches the record
 * before.
 */
static void hand_back(struct hwt_record *record)
{
	/* Relaxed: the record has ended, and is this thread's. */
	if (word_has(atomic_load_explicit(&record->word, memory_order_relaxed), WORD_EXTENDED)) {
		struct hwt_record *second = record_second(record);

		hwt_record_release(record);
		record_slab_return_one(second);
	}
	record_slab_return_one(record);
}

/*
 * Sends a record whose deadline has not come to the worker: the timeout has been moved, or the clock has gone back.
 * Returns false if the word is not *word any more.  RESCHEDULING holds off cancels and movers until the record is on
 * the stack.
 */
static bool send_back(struct hwt_record *record, uint64_t *word)
{
	if (!record_change(record, word, word_again(*word, STATE_QUEUED | WORD_RESCHEDULING)))
		return false;
	hwt_lanes_push_rearmed(record_lane(record)->lanes, record);
	return true;
}

/*
 * Takes the edge start: READY -> RUNNING, against cancels and movers.  *word is then the word after the edge.  Returns
 * false if the task must not run; the record then has been returned or sent back.
 *
 * The deadline of a RESCHEDULED record is read between two exchanges, as in begin_slow of worker_slow.c.  Unlike the
 * worker this thread waits for a mover: no other thread has the record, and no later tick would check it again.
 */
static bool start(struct hwt_tasks *tasks, struct hwt_record *record, int64_t now_ns, uint64_t *word)
{
	for (*word = record_word(record);;) {
		uint64_t to = word_with_state(*word, STATE_RUNNING);

		if (word_state(*word) != STATE_READY) {
			hand_back(record); /* cancelled */
			return false;
		}
		if (word_has(*word, WORD_RESCHEDULING)) {
			*word = record_await_mover(record, *word);
			continue;
		}
		if (word_has(*word, WORD_RESCHEDULED) && !word_has(*word, WORD_RESCHEDULE_SEEN)) {
			if (record_change(record, word, *word | WORD_RESCHEDULE_SEEN))
				*word |= WORD_RESCHEDULE_SEEN;
			continue;
		}
		if (grid_tick_of(tasks->grid, record_deadline(record)) > grid_ticks_passed(tasks->grid, now_ns)) {
			if (send_back(record, word))
				return false;
			continue;
		}
		if (word_has(*word, WORD_PERIODIC))
			to |= WORD_REARMED;
		if (record_change(record, word, to)) {
			*word = to;
			return true;
		}
	}
}

/* T5: the threads of an executor share their numbers. */
static void lock_counts(struct hwt_tasks *tasks)
{
	if (tasks->executor.execute != NULL)
		pthread_mutex_lock(&tasks->ready.monitor.mutex);
}

static void unlock_counts(struct hwt_tasks *tasks)
{
	if (tasks->executor.execute != NULL)
		pthread_mutex_unlock(&tasks->ready.monitor.mutex);
}

/*
 * Counts a RUNNING record as started at now_ns; if it is not periodic, also as no longer pending.  Called before the
 * task, so that the task may re-arm itself at the limit (G4).
 */
static void count_started(struct hwt_runner *self, struct hwt_record *record, uint64_t word, int64_t now_ns)
{
	struct hwt_tasks *tasks = self->tasks;
	int64_t deadline_ns = record_deadline(record);
	uint64_t expired;

	HWT_PROBE(expire, record, (uint64_t)now_ns - (uint64_t)deadline_ns);
	lock_counts(tasks);
	expired = counts_get(&self->expired);
	counts_begin(&self->counts, now_ns);
	if (word_has(word, WORD_PERIODIC)) {
		hwt_counts_repeat(&self->counts, tasks->grid, record);
	} else {
		if (!counts_belongs(&self->counts, deadline_ns))
			hwt_counts_lateness(&self->counts, deadline_ns, expired);
		atomic_store_explicit(&self->expired, expired + 1, memory_order_release); /* [count] */
	}
	unlock_counts(tasks);
	if (!word_has(word, WORD_PERIODIC)) /* after the count: L2 */
		lanes_release_limit(tasks->lanes);
}

static void count_finished(struct hwt_runner *self)
{
	lock_counts(self->tasks);
	atomic_store_explicit(&self->counts.finished, counts_get(&self->counts.finished) + 1,
			      memory_order_release); /* [finished] */
	unlock_counts(self->tasks);
}

/*
 * Ends the run.  waiters_look comes after the word, as on the worker.  The record is handed back last: until then a
 * stale handle reads the end in it.
 *
 * record_end makes a record that runs again QUEUED and RESCHEDULING.  So from that exchange to the push, while the
 * record is in no queue, threads that want to cancel or move it wait.
 */
static void end(struct hwt_runner *self, struct hwt_record *record)
{
	enum word_state state = record_end(record, STATE_QUEUED | WORD_RESCHEDULING);

	if (state == STATE_QUEUED)
		hwt_lanes_push_rearmed(self->tasks->lanes, record);
	waiters_look(&self->tasks->lanes->waiters, record);
	if (state == STATE_EXPIRED)
		count_finished(self);
	if (state != STATE_QUEUED)
		hand_back(record);
}

/*
 * Returns the time of the timer's clock, or a later time that its driver has told.  Counts the wait of a record that
 * was put at put_ns.
 */
static int64_t moment(struct hwt_runner *self, int64_t put_ns)
{
	const struct hwt_tasks *tasks = self->tasks;
	int64_t now_ns = clock_monotonic(), told_ns;

	if (put_ns != READY_NOT_MARKED && now_ns > put_ns)
		counts_max(&self->wait_max_ns, (uint64_t)(now_ns - put_ns));
	if (unlikely(tasks->clock != HWT_CLOCK_MONOTONIC))
		now_ns = hwt_clock_read(tasks->clock);
	if (likely(tasks->told_ns == NULL))
		return now_ns;
	told_ns = atomic_load_explicit(tasks->told_ns, memory_order_relaxed); /* relaxed: the hand-over orders it */
	return tasks->is_virtual || told_ns > now_ns ? told_ns : now_ns;
}

void hwt_tasks_run_one(struct hwt_runner *self, struct hwt_record *record, int64_t put_ns)
{
	int64_t now_ns = moment(self, put_ns);
	struct hwt_current_task frame;
	uint64_t word;

	current_task_enter(&frame, self->tasks->lanes->timer, NULL);
	if (start(self->tasks, record, now_ns, &word)) {
		count_started(self, record, word, now_ns);
		frame.record = record;
		record_task(record)((hwt_timeout){ record, word_generation(word) }, record_arg(record, word));
		frame.record = NULL; /* a finaliser runs in no task, but inside the timer */
		end(self, record);
	}
	current_task_leave(&frame);
	if (self->tasks->executor.execute == NULL)
		atomic_store_explicit(&self->over, counts_get(&self->over) + 1, memory_order_release); /* [finished] */
}

bool hwt_tasks_are_out(const struct hwt_tasks *tasks)
{
	if (tasks->executor.execute != NULL)
		return !tasks_are_done(tasks);
	return tasks_sum(tasks, over) != tasks->handed;
}

void hwt_tasks_run(struct hwt_runner *self)
{
	struct hwt_record *record;
	int64_t put_ns;

	while ((record = hwt_ready_take(&self->tasks->ready, &put_ns)) != NULL)
		hwt_tasks_run_one(self, record, put_ns);
}

/*
 * Runs a job, on an executor's thread.  J1: it counts the job as finished last, and under the mutex, so that stop,
 * which reads the count under the mutex, frees the timer only after the unlock.  A job that has begun is finished, also
 * on a thread that is cancelled.
 */
static void run_job(void *job)
{
	struct hwt_record *record = job;
	struct hwt_tasks *tasks = record_lane(record)->lanes->tasks;
	int cancel_before = thread_no_cancel();

	hwt_tasks_run_one(&tasks->runner[0], record, READY_NOT_MARKED);
	pthread_mutex_lock(&tasks->ready.monitor.mutex);
	/* Release: a thread that sees the count sees the pushes of the job, [finished]. */
	atomic_store_explicit(&tasks->finished, counts_get(&tasks->finished) + 1, memory_order_release);
	HWT_POINT("job over");
	pthread_cond_broadcast(&tasks->ready.monitor.changed);
	pthread_mutex_unlock(&tasks->ready.monitor.mutex);
	thread_restore_cancel(cancel_before);
}

void hwt_tasks_execute(struct hwt_tasks *tasks, struct hwt_record *record)
{
	if (likely(tasks->executor.execute(tasks->executor.ctx, run_job, record) == 0))
		return;
	counts_add(&tasks->refused, 1);
	run_job(record);
}

void hwt_tasks_stop(struct hwt_tasks *tasks)
{
	if (tasks->count > 0)
		hwt_ready_close(&tasks->ready);
}

void hwt_tasks_join(struct hwt_tasks *tasks)
{
	if (tasks->count == 0)
		return;
	hwt_ready_close(&tasks->ready);
	for (uint32_t i = 0; i < tasks->started; i++)
		pthread_join(tasks->runner[i].id, NULL);
	tasks->started = 0;
	pthread_mutex_lock(&tasks->ready.monitor.mutex);
	while (!tasks_are_done(tasks))
		hwt_monitor_wait(&tasks->ready.monitor, INT64_MAX);
	tasks->ready.closed = false; /* a start that failed may be tried again */
	pthread_mutex_unlock(&tasks->ready.monitor.mutex);
}

uint64_t hwt_tasks_sum(const struct hwt_tasks *tasks, size_t offset)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < tasks->count; i++) {
		const void *number = (const char *)&tasks->runner[i] + offset;

		sum += atomic_load_explicit((const _Atomic uint64_t *)number, memory_order_acquire);
	}
	return sum;
}

uint64_t hwt_tasks_late(const struct hwt_tasks *tasks, unsigned bin)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < tasks->count; i++)
		sum += hwt_counts_late(&tasks->runner[i].counts, &tasks->runner[i].expired, bin);
	return sum;
}

void hwt_tasks_tally(const struct hwt_tasks *tasks, struct hwt_counts *counts, uint64_t *wait_max_ns)
{
	for (uint32_t i = 0; i < tasks->count; i++) {
		const struct hwt_runner *runner = &tasks->runner[i];
		uint64_t wait_ns = counts_get(&runner->wait_max_ns);

		counts_add(&counts->merged, counts_get(&runner->counts.merged));
		counts_add(&counts->repeats, counts_get(&runner->counts.repeats));
		counts_max(&counts->lateness_max_ns, counts_get(&runner->counts.lateness_max_ns));
		*wait_max_ns = wait_ns > *wait_max_ns ? wait_ns : *wait_max_ns;
	}
}
