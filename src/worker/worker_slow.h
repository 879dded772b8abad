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
