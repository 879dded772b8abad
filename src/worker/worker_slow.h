/* SPDX-License-Identifier: BSD-2-Clause */
/* The worker's slow paths: timeouts that are not simply placed and run. */
#ifndef HWT_WORKER_SLOW_H
#define HWT_WORKER_SLOW_H

#include "worker/state.h"

/*
 * A record from a submitted queue or the stack that is not simply to be armed: it has flags, was cancelled, or is in
 * the wheel already and has become urgent.  true: to be placed.
 */
bool hwt_worker_take_slow(struct hwt_worker *worker, struct hwt_record *record);

/*
 * After a transfer that may have left something, before any task runs: returns true if the worker is behind.  Then
 * something waits that had been accepted before the tick that is next, or was when the worker came to be behind.  What
 * tasks schedule is not among it, so it comes to an end.
 */
bool hwt_worker_is_behind(struct hwt_worker *worker);

/*
 * While it is behind: how many of the next `part` records of a lane to take in at once, so that either all or none of
 * them had been accepted before; sets takes_late.
 */
uint32_t hwt_worker_late_part(struct hwt_worker *worker, const struct hwt_lane *lane, uint32_t part);

/*
 * Armed records of which takes_late says that they had been accepted before: puts off those whose tick has passed, so
 * that they run next and not a tick later.  Returns how many are left, to be placed.
 */
size_t hwt_worker_put_off_late(struct hwt_worker *worker, struct hwt_record **batch, size_t n);

/* A collected record that is not simply to be run: it has flags, or was cancelled. */
void hwt_worker_expire_slow(struct hwt_worker *worker, struct hwt_record *record);

/* The same after the task of one that got a flag while it ran. */
void hwt_worker_end_slow(struct hwt_worker *worker, struct hwt_record *record);

/* The thread is ending in a task, which counts as having returned.  Nothing if it is in none. */
void hwt_worker_abandon(struct hwt_worker *worker);

#endif
