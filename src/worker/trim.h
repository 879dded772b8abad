/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the worker gives free memory back to the system.  lane/look.c and wheel/bucket.c say how.
 *
 * Structure
 *
 *   The worker looks once a second, and only before it sleeps.  A slab of records goes when it was empty and unused at
 *   three looks: so a load that comes in bursts each second keeps what its bursts need.  The wheel's memory can go only
 *   while no timeout waits there, for as long.
 *
 *   It looks while the timer holds 4 MiB, and only if something has been taken in or come home since the last look, if
 *   that has found something to wait for, or if task threads or an executor have records, which come home without the
 *   worker.  So a timer in which nothing happens causes no wake-ups.
 *
 *   A look is made of slices of some tens of microseconds.  The worker makes one before it sleeps, and more while the
 *   next tick is not near and nothing comes in.
 *
 *   A timer that its caller drives trims only when hwt_timer_trim says so: the time is the caller's.
 *
 * Threads
 *
 *   hwt_worker_ask_trim, hwt_trimming_end,
 *   hwt_worker_given                        any thread.
 *   hwt_worker_trim, hwt_worker_trim_due    the worker.
 *   hwt_worker_trim_now                     the caller that drives the timer.
 */
#ifndef HWT_TRIM_H
#define HWT_TRIM_H

#include "worker/state.h"

/* From now on no request is answered. */
void hwt_trimming_end(struct hwt_worker *worker);

/* Before a sleep: looks, if it is time, for a while.  Returns true if there is more to look at. */
bool hwt_worker_trim(struct hwt_worker *worker, int64_t now_ns);

/* Returns the tick at which to wake up: `due`, or an earlier one, for a look. */
int64_t hwt_worker_trim_due(const struct hwt_worker *worker, int64_t due, int64_t now_ns);

/* Returns how many bytes have gone back to the system, ever. */
size_t hwt_worker_given(const struct hwt_worker *worker);

/* Gives all back that nobody uses, at once. */
void hwt_worker_trim_now(struct hwt_worker *worker);

/*
 * Has the worker trim, and waits for that until a time on CLOCK_MONOTONIC; if it has not by then, it does later.
 * Returns 0 and how many bytes have gone back meanwhile, or ECANCELED.
 */
int hwt_worker_ask_trim(struct hwt_worker *worker, int64_t until_ns, size_t *bytes);

#endif
