/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The worker: the life of one tick.
 *
 * Structure
 *
 *   worker.c has the steps of a pass.  A pass takes in at most max_transfers_per_tick operations, new timeouts and
 *   cancels, in which the lanes share.
 *
 *   Then the worker sleeps: it naps to the next tick if there is traffic; otherwise it idles until a timeout is due
 *   that has not been cancelled (hwt_wheel_settle), and a producer with an earlier timeout wakes it (rest.c, idle.h).
 *
 *   If a pass has left work in the lanes, the worker makes another pass at once.  A timeout that is taken in after its
 *   tick has passed runs at the next tick.  The first pass of an advance takes in all new timeouts.  After a long task
 *   or a suspension of the machine one pass runs through all ticks that have passed.  It skips ticks at which nothing
 *   is due, however many there are.
 *
 * Threads
 *
 *   The worker alone, except for hwt_worker_request_stop (any thread) and, after the worker has gone,
 *   hwt_worker_next_unprocessed (stop).  Tasks run on this thread.  Their calls may push on lanes; none touches the
 *   wheel.
 *
 * Invariants
 *
 *   P1  no task of a tick starts before grid_time(tick): the clock was read before the pass (G2).
 *   P2  a record leaves the batch by running, by being found cancelled, by being put back into the wheel, or by
 *       hwt_worker_next_unprocessed.
 *   P3  the worker handles no cancellation while the batch has members, because their places are stale (R3).
 *
 * Ordering
 *
 *   [stop]   request_stop stores (release), the worker loads (acquire).
 *   [count]  expired is stored (release) before the task starts; see lane.h.
 *   [finished]  `finished` is stored (release) after the task, and so after `expired`.  hwt_timer_stats loads it
 *            (acquire) before `expired`: a task that counts as finished also counts as started.
 */
#ifndef HWT_WORKER_H
#define HWT_WORKER_H

#include "worker/state.h"

/* Returns 0 or an error of the system. */
int hwt_worker_init(struct hwt_worker *worker, struct hwt_lanes *lanes, struct hwt_wheel *wheel,
		    const hwt_config *config);

void hwt_worker_destroy(struct hwt_worker *worker);

/* Passes and sleeps until a stop is requested.  The wheel's start time has been set. */
void hwt_worker_run(struct hwt_worker *worker);

/* Makes one pass at the time now_ns.  Returns true if there is more in the lanes.  Not after a request to stop: P3. */
bool hwt_worker_pass(struct hwt_worker *worker, int64_t now_ns);

/* Sleeps after a pass at now_ns that left nothing in the lanes.  May return at any time. */
void hwt_worker_rest(struct hwt_worker *worker, int64_t now_ns);

/* Makes hwt_worker_run return after the task that is running, and wakes the worker. */
void hwt_worker_request_stop(struct hwt_worker *worker);

/*
 * Cancels and returns the next timeout that neither ran nor was cancelled, NULL when none is left.  To be called when
 * the worker has gone and all lanes are closed.  Allocates nothing.  (stop.c)
 */
struct hwt_record *hwt_worker_next_unprocessed(struct hwt_worker *worker);

/*
 * A part of a pass: runs all ticks up to `target` at which a timeout is due.  Returns false if a stop or the bound came
 * in the middle; then a batch is left.  (This and the next two: expire.c)
 */
bool hwt_worker_expire(struct hwt_worker *worker, int64_t target, int64_t now_ns);

/* Goes on in the tick that the bound of the last advance cut.  Returns false also if that has not come. */
bool hwt_worker_resume(struct hwt_worker *worker, int64_t passed, int64_t now_ns);

/* Makes the wheel go back to the tick behind `passed`, which a clock shows that has been set back. */
void hwt_worker_go_back(struct hwt_worker *worker, int64_t passed);

/*
 * Takes in a record from a submitted queue or the stack that record_arm could not arm: it has a flag, was cancelled, or
 * is in the wheel already and must be placed earlier.  Returns true if the caller is to place it.  (This and what
 * follows: worker_slow.c)
 */
bool hwt_worker_take_slow(struct hwt_worker *worker, struct hwt_record *record);

/* Handles a collected record that record_run could not run: it has a flag, or was cancelled. */
void hwt_worker_expire_slow(struct hwt_worker *worker, struct hwt_record *record);

/*
 * Hands the batch over to the task threads or the executor.  After a request to stop it leaves the rest.  It has no
 * fast path: handing over to another thread costs more than a slow path.
 */
void hwt_worker_hand_over(struct hwt_worker *worker);

/* Ends the run of a record that has a flag, or got one while its task ran. */
void hwt_worker_end_slow(struct hwt_worker *worker, struct hwt_record *record);

#endif
