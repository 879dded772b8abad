/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The worker: the life of one tick.
 *
 * Structure
 *
 *       pass(now):  transfer   submitted -> wheel, max_transfers_per_tick at most, which the lanes share; some are
 *                              in it, and placed anew
 *                   expire     every tick whose time has passed, in order: collect a batch, run it, until none is left
 *                   cancel     cancelled -> out of the wheel
 *                   send home  each lane's records in one chain
 *
 *   Then it sleeps.  How long, depends on whether there is traffic:
 *
 *       nap    until the next tick: much came in during this one, or it was about to sleep for longer twice already, or
 *              there is something to do at the next one anyway.
 *       idle   until the tick at which the wheel next has something due, what was cancelled aside (hwt_wheel_settle);
 *              without end if there is nothing.  A producer with something earlier wakes it (idle.h).
 *
 *   If a pass left work behind in the lanes it passes again at once: a backlog is never slept on.  After a long task
 *   or a suspended machine one pass runs through all ticks that have gone by; those at which nothing is due are
 *   skipped, however many they are.
 *
 * Threads
 *
 *   The worker alone, except for hwt_worker_request_stop (any thread) and, after the worker has gone,
 *   hwt_worker_next_unprocessed (stop).  Tasks run in here.  They may push on lanes; nothing they do touches the wheel.
 *
 * Invariants
 *
 *   P1  no task of a tick starts before grid_time(tick): the pass read the clock before (G2).
 *   P2  a record leaves the batch by running, by having been cancelled, or by hwt_worker_next_unprocessed.
 *   P3  no cancellation is handled while the batch has members: their places are stale (R3).
 *
 * Ordering
 *
 *   [stop]   request_stop stores (release), the worker loads (acquire).
 *   [count]  expired is stored (release) before the task starts; see lane.h.
 *   [finished]  stored (release) after the task, and so after expired; stats load it (acquire) and then expired: what
 *            has finished has started.
 */
#ifndef HWT_WORKER_H
#define HWT_WORKER_H

#include "worker/state.h"

void hwt_worker_init(struct hwt_worker *worker, struct hwt_lanes *lanes, struct hwt_wheel *wheel,
		     uint32_t max_transfers);

/* Passes and sleeps until stop is requested.  The wheel's start time has been set. */
void hwt_worker_run(struct hwt_worker *worker);

/* One pass at the time now_ns.  true: there is more in the lanes.  Not after stop has been requested: P3. */
bool hwt_worker_pass(struct hwt_worker *worker, int64_t now_ns);

/* After the passes of an advance: makes the wheel forget what was cancelled, unless the bound has cut a tick. */
void hwt_worker_settle(struct hwt_worker *worker);

/* Sleeps after a pass at now_ns that left nothing: see the top.  It may return at any time. */
void hwt_worker_rest(struct hwt_worker *worker, int64_t now_ns);

/* Lets hwt_worker_run return after the task that is running, and wakes it. */
void hwt_worker_request_stop(struct hwt_worker *worker);

#endif
