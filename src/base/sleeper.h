/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The clocks, CLOCK_MONOTONIC and others; and sleeping until a time.  A thread waits on a condition, or the caller of
 * hwt_timer_advance polls a descriptor.  Any other thread wakes it.  In the test build functions may stand in for clock
 * and sleep, for virtual time.
 */
#ifndef HWT_SLEEPER_H
#define HWT_SLEEPER_H

#include "base/base.h"

#include <hwt.h>
#include <pthread.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

#ifdef HWT_TEST
/* NULL: the real clock, the real sleep. */
extern int64_t (*hwt_test_clock)(void);
extern void (*hwt_test_sleep)(int64_t until_ns);
#endif

/* Returns the time of a clock, HWT_CLOCK_*, in nanoseconds.  -1: there is no such clock here. */
int64_t hwt_clock_read(uint32_t clock);

/* Converts a time for the calls that wait.  Where time_t has 32 bits, its latest value stands for all later times. */
static inline struct timespec clock_timespec(int64_t time_ns)
{
	if (sizeof(time_t) < sizeof(int64_t) && time_ns / NS_PER_S > INT32_MAX)
		return (struct timespec){ .tv_sec = (time_t)INT32_MAX };
	return (struct timespec){ .tv_sec = (time_t)(time_ns / NS_PER_S), .tv_nsec = (long)(time_ns % NS_PER_S) };
}

/* Returns the time of CLOCK_MONOTONIC. */
static inline int64_t clock_monotonic(void)
{
	struct timespec now;

#ifdef HWT_TEST
	if (hwt_test_clock != NULL)
		return hwt_test_clock();
#endif
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* A mutex, and a condition whose time is CLOCK_MONOTONIC's. */
struct hwt_monitor {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
};

int hwt_monitor_init(struct hwt_monitor *monitor);
void hwt_monitor_destroy(struct hwt_monitor *monitor);

/*
 * Waits for a change or until a time (INT64_MAX: without end).  May return without a reason.  The caller holds the
 * mutex.
 */
int hwt_monitor_wait(struct hwt_monitor *monitor, int64_t time_ns);

/*
 * One sleeper, any number of wakers.  A wake that comes before the sleep is not lost: the sleep then ends at once.
 *
 * A thread that sleeps in a loop of its own has an alarm instead, a descriptor that becomes readable, or `ring`, a
 * function of the loop's that the waker calls with no lock of the library held; or both.
 */
struct hwt_sleeper {
	struct hwt_monitor monitor;
	bool woken; /* under the mutex */

	_Atomic int alarm; /* the descriptor, -1: none.  Relaxed: only a number; a new descriptor rings at once */
	_Atomic bool stepped; /* the system told a ring of a step of the clock, and the driver has not seen this yet */

	/* Never change. */
	uint32_t clock;          /* of the alarm, and of the times to sleep until */
	bool polls;              /* the worker sleeps in a poll for the alarm: no condition knows its clock */
	void (*ring)(void *ctx); /* NULL: none */
	void *ring_ctx;
};

/*
 * Takes the clock and on_earlier from a timer's settings; NULL: CLOCK_MONOTONIC and no function.  Returns 0, ENOMEM,
 * ENOTSUP, or an error of the system.
 */
int hwt_sleeper_init(struct hwt_sleeper *sleeper, const hwt_config *config);
void hwt_sleeper_destroy(struct hwt_sleeper *sleeper);
void hwt_sleeper_sleep_until(struct hwt_sleeper *sleeper, int64_t time_ns); /* INT64_MAX: without end */
void hwt_sleeper_wake(struct hwt_sleeper *sleeper);

/* Returns the descriptor of the alarm, -1: there is none.  Relaxed: see `alarm`. */
static inline int sleeper_alarm(const struct hwt_sleeper *sleeper)
{
	return atomic_load_explicit(&sleeper->alarm, memory_order_relaxed);
}

/* Makes the alarm, which rings at once.  Returns 0, ENOTSUP, or an error of the system. */
int hwt_sleeper_make_alarm(struct hwt_sleeper *sleeper);

/*
 * Silences the alarm, if there is one, until a time; INT64_MAX: until a thread wakes it.  Returns 0, or the error of a
 * system that refuses: then the alarm stays as it was.
 */
int hwt_sleeper_set_alarm(struct hwt_sleeper *sleeper, int64_t time_ns);

/*
 * Returns true, once, after a step of the clock of which the system has told a thread that rang the alarm, not one that
 * set it.
 */
static inline bool sleeper_has_stepped(struct hwt_sleeper *sleeper)
{
	/* Relaxed: the caller has acquired the ring that stored it, [rung]. */
	return atomic_load_explicit(&sleeper->stepped, memory_order_relaxed) &&
	       atomic_exchange_explicit(&sleeper->stepped, false, memory_order_relaxed);
}

/* Asks the system not to round this thread's wake-ups (Linux: timer slack 1 ns instead of 50 us). */
void hwt_sleeper_precise_thread(void);

#endif
