/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the worker gives free memory back to the system.  lane/trim.c and wheel/bucket.c say how.
 *
 * Structure
 *
 *   The worker looks once a second, and only before it sleeps.  What it may need again is what is pending and what was
 *   accepted since the look before: so a load that comes in bursts keeps what its bursts need.  If for two seconds that
 *   has been less than half of what it holds, it trims.  Unless 2 MiB go, it waits twice as long before the next trim,
 *   and up to a minute.  While nothing happens in the timer it does not look again.
 *
 *   The wheel's memory can go only while no timeout waits there.  If it holds much more than is needed, that moment is
 *   a reason of its own to trim.
 *
 *   Timeouts that wait for a task thread, or that an executor has, end without the worker.  While there are
 *   such and the lanes are not small, the worker wakes up once a second and looks.
 *
 *   A trim is made of slices of some tens of microseconds.  The worker makes one before it sleeps, and more while the
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
#ifndef HWT_WORKER_TRIM_H
#define HWT_WORKER_TRIM_H

#include "worker/state.h"

/* Returns 0 or an error of the system. */
int hwt_trimming_init(struct hwt_worker *worker);

/* From now on no request is answered. */
void hwt_trimming_end(struct hwt_worker *worker);

/* Before a sleep: looks, or trims for a while.  Returns true if there is more to trim. */
bool hwt_worker_trim(struct hwt_worker *worker, int64_t now_ns);

/* Returns the tick at which to wake up: `due`, or an earlier one, for a look. */
int64_t hwt_worker_trim_due(const struct hwt_worker *worker, int64_t due, int64_t now_ns);

/* Returns how many bytes have gone back to the system, ever. */
size_t hwt_worker_given(const struct hwt_worker *worker);

/* Trims all at once. */
void hwt_worker_trim_now(struct hwt_worker *worker);

/*
 * Has the worker trim, and waits for that until a time on CLOCK_MONOTONIC; if it has not by then, it does later.
 * Returns 0 and how many bytes have gone back meanwhile, or ECANCELED.
 */
int hwt_worker_ask_trim(struct hwt_worker *worker, int64_t until_ns, size_t *bytes);

#ifdef HWT_TEST
extern _Atomic size_t hwt_test_enough; /* the least memory of the lanes for which the worker looks */
#endif

#endif
