/* SPDX-License-Identifier: BSD-2-Clause */
/* What stop finds when the worker has gone: whatever is pending is given back, what was cancelled is released. */
#include "worker/stop.h"

/* Any record that has not been looked at yet: batch, wheel, those that run again, lanes. */
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
 * One that had been cancelled before: nobody sends it home any more, but its finaliser is owed.  One that was urged
 * comes by a second time; if it has been given back, it is not for here.
 */
static void release_left(struct hwt_record *record)
{
	if ((record_word(record) & (WORD_EXTENDED | WORD_DROPPED)) == WORD_EXTENDED)
		hwt_record_release(record);
}

/* Those that are in cancelled queues, elsewhere too or not. */
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
