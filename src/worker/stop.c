/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a stop finds when the worker has gone: it gives back what is pending, and calls the finalisers of what had been
 * cancelled and has not come back to its lane.
 *
 * Only cancels and movers are still under way in other threads.  A cancel may win a record from under the stop at any
 * moment: the exchange in record_give_back decides.  If the canceller pushes the record on a queue that has been
 * emptied, no thread pops it there.  Nothing is lost by that: the record was in the wheel or a submitted queue as well,
 * where this file finds it, and its memory goes with the timer.
 */
#include "worker/stop.h"

/* Returns any record that has not been looked at yet, from batch, wheel, stack or lanes. */
static struct hwt_record *next_left(struct hwt_worker *worker)
{
	struct hwt_record *record;

	if (worker->batch_at == worker->batch_end) {
		worker->batch_at = 0;
		worker->batch_end = hwt_wheel_sweep(worker->wheel, worker->batch, HWT_BATCH);
	}
	if (worker->batch_at < worker->batch_end)
		return worker->batch[worker->batch_at++];
	record = worker_next_rearmed(worker);
	if (record != NULL)
		return record;
	for (uint32_t i = 0; i < lanes_count(worker->lanes); i++) {
		record = queue_pop(&worker->lanes->made[i]->submitted);
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

/* The same for the cancelled queues.  A record there may also have been found in the wheel. */
static void release_cancelled(struct hwt_lanes *lanes)
{
	struct hwt_record *record;

	for (uint32_t i = 0; i < lanes_count(lanes); i++)
		while ((record = queue_pop(&lanes->made[i]->cancelled)) != NULL)
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
	release_cancelled(worker->lanes);
	return NULL;
}
