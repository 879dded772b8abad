/* SPDX-License-Identifier: BSD-2-Clause */
/* Submitting, and what follows a push; lane.h argues. */
#ifndef HWT_SUBMIT_H
#define HWT_SUBMIT_H

#include "lane/lane.h"

/* Returns 0, ECANCELED, ENOMEM or ENOBUFS.  *out (may be NULL) is written before another thread can see the record. */
int hwt_lane_submit(struct hwt_lane *lane, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out);

/* Submits a timeout with an extension.  A period_ns of 0 means no period. */
int hwt_lane_submit_extended(struct hwt_lane *lane, hwt_task *task, const struct hwt_extension *extension,
			     int64_t period_ns, int64_t deadline_ns, hwt_timeout *out);

/*
 * Hands a record that is QUEUED and RESCHEDULING to the worker, and clears RESCHEDULING.  For an executor's thread or a
 * task thread.
 */
void hwt_lanes_push_rearmed(struct hwt_lanes *lanes, struct hwt_record *record);

/* Takes a slot below the limit.  Of several threads that race for the last slot exactly one gets it. */
bool hwt_lanes_take_limit(struct hwt_lanes *lanes);

/* Returns true if the records that wait in the lane are too many, by the limit, for the lane to take new memory. */
bool hwt_lane_is_full(const struct hwt_lane *lane);

/*
 * Notes a deadline for a driver, before the push and under the lock.  A queue that is empty here stays so until the
 * push, as pushes need the lock.
 */
static inline void lane_note_deadline(struct hwt_lane *lane, int64_t deadline_ns)
{
	if (!lane->lanes->is_driven)
		return;
	/* Relaxed: written under the lock; the push publishes it, [push]. */
	if (queue_is_empty(&lane->submitted) ||
	    deadline_ns < atomic_load_explicit(&lane->earliest_ns, memory_order_relaxed))
		atomic_store_explicit(&lane->earliest_ns, deadline_ns, memory_order_relaxed);
}

/* Wakes the worker after a push if it sleeps beyond the deadline, or sleeps while the lane grows long, [idle]. */
static inline void notify_submitted(const struct hwt_lane *lane, int64_t deadline_ns)
{
	struct hwt_idle *idle = &lane->lanes->idle;
	int64_t seen_ns = idle_look(idle);

	if (unlikely(seen_ns != IDLE_AWAKE) && (deadline_ns <= seen_ns || lane_is_long(lane)))
		hwt_idle_wake(idle, seen_ns);
}

/* Calls the finaliser of a record with an extension, if there is one and it has not been called. */
void hwt_record_release(struct hwt_record *record);

/* Slow half of lane_return. */
void hwt_lane_return_both(struct hwt_record *record);

/* Returns an ended record to its slab, by the chain of this pass.  Relaxed: the record is the worker's. */
static inline void lane_return(struct hwt_record *record)
{
	if (unlikely(word_has(atomic_load_explicit(&record->word, memory_order_relaxed), WORD_EXTENDED)))
		hwt_lane_return_both(record);
	else
		record_slab_chain(record);
}

#endif
