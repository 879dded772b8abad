/* SPDX-License-Identifier: BSD-2-Clause */
/* The worker's slow paths: timeouts that cannot simply be placed and run. */
#ifndef HWT_WORKER_SLOW_H
#define HWT_WORKER_SLOW_H

#include "worker/state.h"

/*
 * Takes in a record from a submitted queue or the stack that cannot simply be armed: it has a flag, was cancelled, or
 * is in the wheel already and must be placed earlier.  Returns true if the caller is to place it.
 */
bool hwt_worker_take_slow(struct hwt_worker *worker, struct hwt_record *record);

/*
 * Returns true if the worker is behind: in a lane waits a timeout that had been accepted before the next tick runs, or
 * before the tick that was next when the worker came to be behind.  To be called after a transfer that may have left
 * something, and before any task runs.  What tasks schedule is not counted, so this comes to an end.
 */
bool hwt_worker_is_behind(struct hwt_worker *worker);

/*
 * While the worker is behind: returns how many of the next `part` records of a lane to take in at once, so that either
 * all or none of them count as accepted before.  Sets takes_late accordingly.
 */
uint32_t hwt_worker_late_part(struct hwt_worker *worker, const struct hwt_lane *lane, uint32_t part);

/*
 * For armed records while takes_late is set: postpones those whose tick has passed, so that they run next and not a
 * tick later.  Returns how many are left to be placed.
 */
size_t hwt_worker_put_off_late(struct hwt_worker *worker, struct hwt_record **batch, size_t n);

/* Handles a collected record that cannot simply be run: it has a flag, or was cancelled. */
void hwt_worker_expire_slow(struct hwt_worker *worker, struct hwt_record *record);

/*
 * Hands the batch over to the task threads or the executor.  If a stop is requested it leaves the rest.  There is no
 * fast path here: another thread costs more than a slow one.
 */
void hwt_worker_hand_over(struct hwt_worker *worker);

/* Ends the run of a record that has a flag, or got one while its task ran. */
void hwt_worker_end_slow(struct hwt_worker *worker, struct hwt_record *record);

#endif
