/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one place that knows time: reading it, cutting it into ticks, sleeping until it.
 *
 * Structure
 *
 *   hwt_clock_now()     CLOCK_MONOTONIC.  In the test build a function pointer may stand in for it (virtual time).
 *   struct hwt_grid     ticks <-> nanoseconds.  Tick n is the instant start_ns + n * tick_ns; it is computed from the
 *                       start each time, so no error adds up.
 *   struct hwt_sleeper  one thread sleeps until a time; any other wakes it.
 *
 * Invariants of the grid
 *
 *   E1  grid_tick_of(d) is the smallest n >= 0 with grid_time(n) >= d: whoever runs d at that tick is never early.
 *   E2  grid_ticks_passed(t) is the largest n with grid_time(n) <= t; -1 before the start.
 *   E3  every result lies within -1 .. HWT_TICK_MAX, whatever the times are.
 */
#ifndef HWT_CLOCK_H
#define HWT_CLOCK_H

#include "base/base.h"

#include <pthread.h>
#include <time.h>

#define HWT_TICK_MAX (INT64_MAX - 1)
#define HWT_TICK_NEVER INT64_MAX

#define NS_PER_S INT64_C(1000000000)

#ifdef HWT_TEST
/* NULL: the real clock, and real sleep. */
extern int64_t (*hwt_test_clock)(void);
extern void (*hwt_test_sleep)(int64_t until_ns);
#endif

static inline int64_t hwt_clock_now(void)
{
	struct timespec now;

#ifdef HWT_TEST
	if (hwt_test_clock != NULL)
		return hwt_test_clock();
#endif
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

struct hwt_grid {
	int64_t start_ns;
	int64_t tick_ns;  /* > 0 */
	uint64_t inverse; /* 2^64 / tick_ns, or just below */
};

static inline struct hwt_grid grid_make(int64_t start_ns, int64_t tick_ns)
{
	return (struct hwt_grid){ start_ns, tick_ns, UINT64_MAX / (uint64_t)tick_ns };
}

/* distance / tick_ns, and what is left.  A division would be the longest instruction on a timeout's way. */
static inline uint64_t grid_divide(const struct hwt_grid *grid, uint64_t distance, uint64_t *rest)
{
	__extension__ typedef unsigned __int128 wide;
	uint64_t ticks = (uint64_t)((wide)distance * grid->inverse >> 64);

	/* The inverse is less than 1 too small, so ticks is 1 too small at the most. */
	*rest = distance - ticks * (uint64_t)grid->tick_ns;
	if (*rest >= (uint64_t)grid->tick_ns) {
		*rest -= (uint64_t)grid->tick_ns;
		ticks++;
	}
	return ticks;
}

/* later - earlier of any two times does not fit an int64_t, but always a uint64_t. */
static inline uint64_t grid_distance(int64_t earlier_ns, int64_t later_ns)
{
	return (uint64_t)later_ns - (uint64_t)earlier_ns;
}

static inline int64_t grid_clamp(uint64_t ticks)
{
	return ticks > (uint64_t)HWT_TICK_MAX ? HWT_TICK_MAX : (int64_t)ticks;
}

static inline int64_t grid_tick_of(const struct hwt_grid *grid, int64_t deadline_ns)
{
	uint64_t rest;

	if (deadline_ns <= grid->start_ns)
		return 0;
	return grid_clamp(grid_divide(grid, grid_distance(grid->start_ns, deadline_ns) - 1, &rest) + 1);
}

/* Would a deadline that much earlier or later be of the same tick?  May say false for no reason. */
static inline bool grid_is_within(const struct hwt_grid *grid, int64_t deadline_ns, int64_t error_ns)
{
	uint64_t rest;

	if (unlikely(deadline_ns <= grid->start_ns))
		return false;
	(void)grid_divide(grid, grid_distance(grid->start_ns, deadline_ns) - 1, &rest);
	return rest >= (uint64_t)error_ns && rest + (uint64_t)error_ns < (uint64_t)grid->tick_ns;
}

static inline int64_t grid_ticks_passed(const struct hwt_grid *grid, int64_t now_ns)
{
	uint64_t rest;

	if (now_ns < grid->start_ns)
		return -1;
	return grid_clamp(grid_divide(grid, grid_distance(grid->start_ns, now_ns), &rest));
}

/* The nearest that an int64_t can say. */
static inline int64_t grid_time(const struct hwt_grid *grid, int64_t tick)
{
	__extension__ typedef __int128 wide;
	wide time_ns = (wide)tick * grid->tick_ns + grid->start_ns; /* the product alone may be too long */

	if (unlikely(time_ns != (int64_t)time_ns))
		return time_ns > 0 ? INT64_MAX : INT64_MIN;
	return (int64_t)time_ns;
}

/* A mutex, and a condition whose time is CLOCK_MONOTONIC's. */
struct hwt_monitor {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
};

int hwt_monitor_init(struct hwt_monitor *monitor);
void hwt_monitor_destroy(struct hwt_monitor *monitor);

/* Under the mutex: waits for a change, or until a time (INT64_MAX: without end), or for no reason. */
int hwt_monitor_wait(struct hwt_monitor *monitor, int64_t time_ns);

/*
 * One sleeper, any number of wakers.  A wake that comes before the sleep is not lost: the sleep ends at once.
 *
 * It may also be one who sleeps elsewhere, in a poll of his own: then the alarm is a descriptor that becomes readable.
 */
struct hwt_sleeper {
	struct hwt_monitor monitor;
	bool woken; /* under the mutex */
	int alarm;  /* -1: none; set before anybody can have a reason to wake */
};

int hwt_sleeper_init(struct hwt_sleeper *sleeper);
void hwt_sleeper_destroy(struct hwt_sleeper *sleeper);
void hwt_sleeper_sleep_until(struct hwt_sleeper *sleeper, int64_t time_ns); /* INT64_MAX: without end */
void hwt_sleeper_wake(struct hwt_sleeper *sleeper);

/* Makes the alarm, which rings at once.  ENOTSUP, or what the system says. */
int hwt_sleeper_make_alarm(struct hwt_sleeper *sleeper);

/* Silences the alarm until a time; INT64_MAX: until it is woken. */
void hwt_sleeper_set_alarm(const struct hwt_sleeper *sleeper, int64_t time_ns);

/* Asks the system not to round this thread's wake-ups (Linux: timer slack 1 ns instead of 50 us). */
void hwt_sleeper_precise_thread(void);

#endif
