/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The work of a stop after the worker has ended: it gives pending timeouts back, and calls the finalisers of cancelled
 * timeouts whose records have not come home.
 *
 * Only cancels and movers are still under way in other threads.  A cancel may end a timeout before the stop does: the
 * exchange in record_give_back decides.  If the record is still in the wheel or a submitted queue, the stop finds it
 * there, and it does not matter that no thread pops the canceller's push.  But the worker may have taken a cancelled
 * record out of the wheel, and then only the canceller knows it: release_cancelled waits for the push.
 */
#include "worker/worker.h"
#include "lane/submit.h"

/*
 * Takes any record that is left in the batch, the wheel, the stack, the task threads' queue or the lanes.  Returns NULL
 * if there is none.
 */
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
	/* Goes on with the lane of the last record: the lanes before it stay empty, as all lanes are closed. */
	for (uint32_t i = 0; i < count; i++, worker->intake.next_lane[0] = (worker->intake.next_lane[0] + 1) % count) {
		struct hwt_lane *lane = worker->lanes->made[worker->intake.next_lane[0]];

		record = queue_pop(&lane->submitted);
		if (record != NULL)
			return record;
	}
	return NULL;
}

/*
 * Calls the finaliser of a timeout that was cancelled.  A REQUEUED record comes by twice, in the wheel and in a queue;
 * the second call does nothing.  A timeout that stop gave back (DROPPED) keeps its arg until hwt_timer_destroy.
 */
static void release_left(struct hwt_record *record)
{
	if ((record_word(record) & (WORD_EXTENDED | WORD_DROPPED)) == WORD_EXTENDED)
		hwt_record_release(record);
}

/*
 * Calls the finalisers of the records in a cancelled queue, some of which next_left may have found in the wheel before.
 *
 * A canceller holds the lock from before its exchange until after the push.  So once this thread has had the lock, each
 * record that was cancelled before the worker ended is in the queue.  Finalisers are called without the lock.
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
