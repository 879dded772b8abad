/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a stop finds when the worker has gone: it gives back what is pending, and calls the finalisers of what had been
 * cancelled and has not come back to its lane.
 *
 * Only cancels and movers are still under way in other threads.  A cancel may win a record from under the stop at any
 * moment: the exchange in record_give_back decides.  If it wins while the record is in the wheel or a submitted queue,
 * the stop finds it there, and it does not matter that no thread pops what the canceller pushes.  If it won earlier,
 * the worker may have taken the record out of the wheel, and only the canceller knows it: release_cancelled waits for
 * that.
 */
#include "worker/worker.h"
#include "lane/submit.h"

/* Returns any record that has not been taken yet, from batch, wheel, stack, the task threads' queue or lanes. */
static struct hwt_record *next_left(struct hwt_worker *worker)
{
	uint32_t count = lanes_count(worker->lanes);
	struct hwt_record *record;

	if (worker->batch.at == worker->batch.end) {
		worker->batch.at = 0;
		worker->batch.end = hwt_wheel_sweep(worker->wheel, worker->batch.records, HWT_BATCH);
	}
	if (worker->batch.at < worker->batch.end)
		return worker->batch.records[worker->batch.at++];
	record = worker_next_rearmed(worker);
	if (record == NULL && worker->tasks != NULL)
		record = hwt_ready_take_left(&worker->tasks->ready);
	if (record != NULL)
		return record;
	/* Goes on where the last one was: those before are empty, as all lanes are closed. */
	for (uint32_t i = 0; i < count; i++, worker->intake.next_lane[0] = (worker->intake.next_lane[0] + 1) % count) {
		struct hwt_lane *lane = worker->lanes->made[worker->intake.next_lane[0]];

		record = queue_pop(&lane->submitted);
		if (record != NULL)
			return record;
	}
	return NULL;
}

/*
 * Calls the finaliser of a timeout that had been cancelled before the stop.  A REQUEUED record comes by twice, in the
 * wheel and in a queue; the second call does nothing.  A timeout that stop gave back (DROPPED) keeps its arg until
 * hwt_timer_destroy.
 */
static void release_left(struct hwt_record *record)
{
	if ((record_word(record) & (WORD_EXTENDED | WORD_DROPPED)) == WORD_EXTENDED)
		hwt_record_release(record);
}

/*
 * The same for a cancelled queue.  A record there may also have been found in the wheel.
 *
 * A canceller holds the lock from before its exchange until after the push.  So once the lock has been free, every
 * record that was cancelled before the worker went is in the queue.  Finalisers are called without the lock.
 */
static void release_cancelled(struct hwt_queue *cancelled)
{
	struct hwt_record *record;

	queue_lock(cancelled);
	queue_unlock(cancelled);
	while ((record = queue_pop(cancelled)) != NULL)
		release_left(record);
}

struct hwt_record *hwt_worker_next_unprocessed(struct hwt_worker *worker)
{
	struct hwt_record *record;

	while ((record = next_left(worker)) != NULL) {
		if (record_give_back(record))
			return record;
		release_left(record);
	}
	for (uint32_t i = 0; i < lanes_count(worker->lanes); i++)
		release_cancelled(&worker->lanes->made[i]->cancelled);
	return NULL;
}
