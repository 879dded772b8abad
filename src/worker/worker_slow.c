/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The worker's slow paths: timeouts that were cancelled or moved, that have an extension or a period, or that run
 * again.  worker.c and expire.c have the others.
 *
 * Whatever the word of such a record says, another thread may change it at the same moment.  A mover sets RESCHEDULING
 * and later clears it; a cancel takes ARMED or REARMED away.  The worker waits for neither.  It exchanges the word that
 * it has seen, and tries again if the exchange fails; while a mover is at work it postpones the record to the next
 * tick.
 */
#include "worker/worker.h"
#include "lane/submit.h"

/*
 * Returns true if an ARMED record can be placed by its present deadline.
 *
 * A mover that starts after this point sees ARMED and notifies the worker if the deadline moves earlier.  While a mover
 * is at work already, the deadline may be the old one or the new one, and a mover that has seen QUEUED or REQUEUED
 * pushes nothing.  So the worker postpones the record, and checks again.
 */
static bool is_to_be_placed(struct hwt_worker *worker, struct hwt_record *record, uint64_t word)
{
	if (!word_has(word, WORD_RESCHEDULING))
		return true;
	hwt_wheel_postpone(worker->wheel, record);
	return false;
}

/*
 * Takes in a record that a mover pushed to be placed earlier.  It may have been cancelled since: the canceller saw
 * REQUEUED and pushed nothing, so the record is unlinked and returned here.  Returns true if the caller is to place it.
 */
static bool take_requeued(struct hwt_worker *worker, struct hwt_record *record)
{
	/*
	 * From here on movers push again.  Acquire: the worker sees what earlier movers wrote, [move].  The flag is
	 * cleared before the deadline is read: in the other order a mover in between would see REQUEUED and push
	 * nothing, and no thread would read its deadline.
	 */
	uint64_t word = atomic_fetch_and_explicit(&record->word, ~WORD_REQUEUED, memory_order_acq_rel);

	if (word_state(word) == STATE_ARMED)
		return hwt_wheel_take_out(worker->wheel, record) && is_to_be_placed(worker, record, word);
	if (hwt_wheel_remove(worker->wheel, record))
		lane_return(record);
	return false;
}

bool hwt_worker_take_slow(struct hwt_worker *worker, struct hwt_record *record)
{
	uint64_t word = record_word(record);

	/* The edge fails if a cancel takes QUEUED away or a mover sets a flag.  Any other state ends the loop. */
	while (word_state(word) == STATE_QUEUED)
		if (record_edge(record, &word, STATE_ARMED))
			return is_to_be_placed(worker, record, word);
	if (word_has(word, WORD_REQUEUED))
		return take_requeued(worker, record);
	lane_return(record); /* cancelled while it was queued */
	return false;
}

/*
 * Drops a collected record that has been cancelled.  If it is CANCELLED, the canceller has pushed it or is about to,
 * and the worker returns it after popping it: returned here, too, it would have two owners.  If it is LAZY, no push
 * follows, and it is returned here.
 */
static void drop_cancelled(struct hwt_record *record, uint64_t word)
{
	record->place = 0;
	if (word_state(word) == STATE_LAZY)
		lane_return(record);
}

/*
 * Takes the edge run, or with STATE_READY the edge hand_over, of a word with flags.  *word is then the word after the
 * edge.  Returns false if the task must not run now: the record has been dropped or postponed, or is in a queue.
 *
 * The deadline of a RESCHEDULED record is read between two exchanges:
 *
 *     set RESCHEDULE_SEEN       no mover is at work at this moment
 *     read the deadline
 *     ARMED -> RUNNING          fails if a mover has begun since, as begin() clears RESCHEDULE_SEEN
 *
 * So the deadline that was read is the one with which the task starts.  With one exchange only, a whole move could fit
 * between the read and the exchange and leave the same word behind.
 */
static bool begin_slow(struct hwt_worker *worker, struct hwt_record *record, enum word_state state, uint64_t *word)
{
	struct hwt_wheel *wheel = worker->wheel;

	for (*word = record_word(record);;) {
		uint64_t to = word_with_state(*word, state);

		if (word_state(*word) != STATE_ARMED) {
			drop_cancelled(record, *word);
			return false;
		}
		if (word_has(*word, WORD_REQUEUED)) { /* it is in a queue, too (R1), and the worker will pop it there */
			record->place = 0;
			return false;
		}
		if (word_has(*word, WORD_RESCHEDULED) && !word_has(*word, WORD_RESCHEDULING | WORD_RESCHEDULE_SEEN)) {
			if (record_change(record, word, *word | WORD_RESCHEDULE_SEEN))
				*word |= WORD_RESCHEDULE_SEEN;
			continue;
		}
		/* A mover that begins after this point clears RESCHEDULE_SEEN, and the exchange below fails. */
		if (word_has(*word, WORD_RESCHEDULING) ||
		    grid_tick_of(&wheel->grid, record_deadline(record)) > worker->tick) {
			hwt_wheel_postpone(wheel, record);
			return false;
		}
		if (word_has(*word, WORD_PERIODIC) && state == STATE_RUNNING)
			to |= WORD_REARMED;
		if (record_change(record, word, to)) {
			*word = to;
			return true;
		}
	}
}

/*
 * Races with cancels that turn REARMED into DROPPED; record_end decides.  waiters_look comes after the word, as in
 * expire_plain of expire.c.
 */
void hwt_worker_end_slow(struct hwt_worker *worker, struct hwt_record *record)
{
	enum word_state end = record_end(record, STATE_ARMED);

	waiters_look(worker->waiters, record);
	if (end == STATE_ARMED) {
		hwt_wheel_hold(worker->wheel, record);
		return;
	}
	if (end == STATE_EXPIRED)
		worker_count_finished(worker);
	lane_return(record);
}

void hwt_worker_expire_slow(struct hwt_worker *worker, struct hwt_record *record)
{
	uint64_t word;

	if (!begin_slow(worker, record, STATE_RUNNING, &word))
		return;
	if (word_has(word, WORD_PERIODIC)) {
		HWT_PROBE(expire, record, (uint64_t)worker->lateness_ns - (uint64_t)record_deadline(record));
		hwt_counts_repeat(&worker->counts, &worker->wheel->grid, record);
	} else {
		worker_count_run(worker, record);
	}
	worker_run_task(worker, record, word, record_arg_at(record, word));
	hwt_worker_end_slow(worker, record);
}

/*
 * Records that may run now become READY.  Each record is counted before it is handed over: execute may run the job at
 * once.
 */
void hwt_worker_hand_over(struct hwt_worker *worker)
{
	struct hwt_tasks *tasks = worker->tasks;
	struct hwt_ready_chain chain = { NULL, NULL, 0 };
	struct hwt_record *record;
	uint64_t word;

	while (worker->batch.at < worker->batch.end && !worker_has_to_stop(worker)) {
		record = worker_record(worker, worker->batch.at++);
		if (!begin_slow(worker, record, STATE_READY, &word))
			continue;
		tasks->handed++;
		if (tasks->executor.execute != NULL)
			hwt_tasks_execute(tasks, record);
		else
			ready_chain_append(&chain, record);
	}
	if (chain.first != NULL)
		hwt_ready_put(&tasks->ready, &chain, clock_monotonic());
}
