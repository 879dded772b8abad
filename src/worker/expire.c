/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 2 of the life of a tick (worker.c): due timeouts run. */
#include "worker/worker.h"

/*
 * Runs the task of a record whose word has no flag.  `word` is the word after the edge run.
 *
 * From that edge on a cancel finds RUNNING and returns EBUSY, and hwt_cancel_sync waits.  The order:
 *
 *     count_run       before the task, so that the task may re-arm itself at the limit (G4)
 *     the task        may set REARMED; a cancel in another thread may set LAST
 *     record_finish   stores EXPIRED, unless a flag has come
 *     waiters_look    after the word.  In the other order a thread could begin to wait in between: it has seen RUNNING,
 *                     the worker has not seen the waiter, and no wake follows, [wait]
 *     count_finished  after count_expired, [finished]
 *     chain           last: until the record goes home it is the worker's, and a stale handle reads EXPIRED in it
 */
static void expire_plain(struct hwt_worker *worker, struct hwt_record *record, uint64_t word)
{
	worker_count_run(worker, record);
	worker_run_task(worker, record, word, &record->arg);
	if (unlikely(!record_finish(record, word))) {
		hwt_worker_end_slow(worker, record);
		return;
	}
	waiters_look(worker->waiters, record);
	worker_count_finished(worker);
	record_slab_chain(record);
}

/*
 * Takes the edge run, against cancels and movers, and runs the task.  A record that has a flag, or whose edge fails,
 * goes the slow way.
 */
static void expire_one(struct hwt_worker *worker, struct hwt_record *record)
{
	uint64_t word;

	if (likely(record_run(record, &word)))
		expire_plain(worker, record, word);
	else
		hwt_worker_expire_slow(worker, record);
}

/* Collects the next due records, and prefetches the first of them.  Returns false if there are none. */
static bool collect_batch(struct hwt_worker *worker)
{
	worker->batch.at = 0;
	worker->batch.end = hwt_wheel_collect(worker->wheel, worker->batch.records, worker_room(worker));
	for (size_t i = 0; i < HWT_RUN_AHEAD && i < worker->batch.end; i++)
		record_prefetch(worker->batch.records[i]);
	return worker->batch.end > 0;
}

/*
 * Runs the batch, or hands it over.  After a request to stop it leaves the rest, which hwt_worker_next_unprocessed
 * gives back (P2).
 */
static void run_batch(struct hwt_worker *worker)
{
	size_t i = worker->batch.at;

	if (unlikely(worker->tasks != NULL)) {
		hwt_worker_hand_over(worker);
		return;
	}
	for (; i < worker->batch.end && !worker_has_to_stop(worker); i++)
		expire_one(worker, worker_record(worker, i));
	worker->batch.at = i;
}

/*
 * Runs the records that are due at the wheel's tick.  Returns false if a stop or the bound came in the middle; then a
 * batch is left.
 */
static bool expire_tick(struct hwt_worker *worker)
{
	worker->bound.is_cut = false;
	do
		run_batch(worker);
	while (!worker_has_to_stop(worker) && collect_batch(worker) &&
	       !(worker->bound.is_cut = worker_is_full(worker)));
	return !worker_has_to_stop(worker) && !worker->bound.is_cut;
}

/* Returns the time on the timer's clock at which a tick begins: as told to an advance, began_ns, or read now. */
static int64_t moment(const struct hwt_worker *worker, int64_t now_ns, int64_t began_ns)
{
	int64_t read_ns;

	if (worker->is_told)
		return now_ns;
	if (likely(worker->clock == HWT_CLOCK_MONOTONIC))
		return began_ns;
	read_ns = worker_now(worker);
	return read_ns > now_ns ? read_ns : now_ns; /* the clock may have been set back since */
}

/*
 * Runs the wheel's tick, or the rest of it, and goes on to the next.  *began_ns is the time at which the tick began,
 * and becomes the time at which it ended.  Returns false as expire_tick does.
 */
static bool expire_one_tick(struct hwt_worker *worker, int64_t now_ns, int64_t *began_ns)
{
	struct hwt_wheel *wheel = worker->wheel;
	bool was_cut = worker->bound.is_cut;
	uint64_t runs = worker_runs(worker);
	int64_t ended_ns;

	worker->tick = wheel->tick;
	worker_set_lateness(worker, moment(worker, now_ns, *began_ns));
	if (!expire_tick(worker))
		return false;
	ended_ns = clock_monotonic();
	counts_add(&worker->counts.ticks, was_cut || worker_runs(worker) != runs);
	HWT_PROBE(tick, wheel->tick, ended_ns - *began_ns);
	counts_max(&worker->counts.tick_max_ns, (uint64_t)(ended_ns - *began_ns));
	*began_ns = ended_ns;
	hwt_wheel_seek(wheel, wheel->tick + 1);
	hwt_wheel_end_tick(wheel);
	return true;
}

bool hwt_worker_resume(struct hwt_worker *worker, int64_t passed, int64_t now_ns)
{
	int64_t began_ns = clock_monotonic();

	if (passed < worker->tick || worker_is_full(worker)) /* full from the start: hwt_timer_advance_batch of none */
		return false;
	return expire_one_tick(worker, now_ns, &began_ns);
}

/*
 * The caller read the clock before it computed `target`, so no task is early (P1).  The clock is read again once a
 * tick, for the statistics: the end of a tick's work is the beginning of the next tick's.
 */
bool hwt_worker_expire(struct hwt_worker *worker, int64_t target, int64_t now_ns)
{
	struct hwt_wheel *wheel = worker->wheel;
	int64_t due, began_ns;

	hwt_wheel_end_hold(wheel); /* records held in an advance that was full */
	due = hwt_wheel_next_due(wheel);
	began_ns = due <= target ? clock_monotonic() : 0;
	/*
	 * If the bound has been reached no tick begins: a batch would be left, and cancels could not be taken in (P3).
	 */
	for (; due <= target && !worker_is_full(worker); due = hwt_wheel_next_due(wheel)) {
		hwt_wheel_seek(wheel, due);
		if (!expire_one_tick(worker, now_ns, &began_ns))
			return false;
	}
	if (due > target) {
		if (target >= wheel->tick)
			hwt_wheel_seek(wheel, target + 1);
		hwt_wheel_end_hold(wheel); /* after the last tick that has come */
	}
	hwt_wheel_end_tick(wheel); /* places records that the transfer has postponed, also if no tick ran */
	return true;
}

/*
 * All records in the wheel are placed again from the new tick on.  Otherwise timeouts that are scheduled from now on
 * would wait until the clock has come to the wheel's old tick.
 */
void hwt_worker_go_back(struct hwt_worker *worker, int64_t passed)
{
	worker->bound.is_cut = false;
	hwt_wheel_go_back(worker->wheel, passed + 1, worker->batch.records + worker->batch.at,
			  worker->batch.end - worker->batch.at);
	worker->batch.at = worker->batch.end;
}
