/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the worker gives free memory back to the system.  lane/look.c and wheel/bucket.c say how.
 *
 * Structure
 *
 *   The worker looks once a second, and only before it sleeps.  A slab of records goes if it was empty and unused at
 *   three looks: so a load that comes in bursts each second keeps the memory that its bursts need.  The wheel's memory
 *   goes if the wheel was empty at three looks.
 *
 *   The worker looks while the timer holds 4 MiB, and only if operations have been taken in or records have come home
 *   since the last look; if the last look left memory for a later look; or if task threads or an executor have records,
 *   which come home without the worker.  So a timer in which nothing happens causes no wake-ups.
 *
 *   A look is made of slices of some tens of microseconds.  The worker makes a slice before it sleeps, and more while
 *   the next tick is not near and no operation comes in.
 *
 *   A caller-driven timer trims only in hwt_timer_trim.
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

/* Ends all requests, now and later, without an answer. */
void hwt_trimming_end(struct hwt_worker *worker);

/* Makes some slices of a look before a sleep, if it is time for one.  Returns true if there is more to do. */
bool hwt_worker_trim(struct hwt_worker *worker, int64_t now_ns);

/* Returns the tick at which the worker is to wake up: `due`, or an earlier tick for a look. */
int64_t hwt_worker_trim_due(const struct hwt_worker *worker, int64_t due, int64_t now_ns);

/* Returns the number of bytes that have gone back to the system, ever. */
size_t hwt_worker_given(const struct hwt_worker *worker);

/* Gives all unused memory back at once. */
void hwt_worker_trim_now(struct hwt_worker *worker);

/*
 * Asks the worker to trim, and waits for the trim until a time on CLOCK_MONOTONIC; a trim that is not over by then goes
 * on later.  Returns 0, and in *bytes the number of bytes that have gone back meanwhile; or ECANCELED.
 */
int hwt_worker_ask_trim(struct hwt_worker *worker, int64_t until_ns, size_t *bytes);

#endif
