/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The grid of ticks: ticks <-> nanoseconds.  Tick n is the instant start_ns + n * tick_ns.  Every tick is computed from
 * the start, so no error adds up.
 *
 * Invariants
 *
 *   E1  grid_tick_of(d) is the smallest n >= 0 with grid_time(n) >= d: a task that runs at that tick is never early.
 *   E2  grid_ticks_passed(t) is the largest n with grid_time(n) <= t; -1 before the start.
 *   E3  every result lies within -1 .. HWT_TICK_MAX, for all times.
 */
#ifndef HWT_GRID_H
#define HWT_GRID_H

#include "base/wide.h"

#define HWT_TICK_MAX (INT64_MAX - 1)
#define HWT_TICK_NEVER INT64_MAX

struct hwt_grid {
	int64_t start_ns;
	int64_t tick_ns;  /* > 0 */
	uint64_t inverse; /* (2^64 - 1) / tick_ns, rounded down */
};

static inline struct hwt_grid grid_make(int64_t start_ns, int64_t tick_ns)
{
	return (struct hwt_grid){ start_ns, tick_ns, UINT64_MAX / (uint64_t)tick_ns };
}

/* Returns distance / tick_ns, and the rest.  A division would be the slowest instruction of hwt_new_timeout. */
static inline uint64_t grid_divide(const struct hwt_grid *grid, uint64_t distance, uint64_t *rest)
{
	uint64_t ticks = wide_multiply_high(distance, grid->inverse);

	/* The inverse is at most 1 below 2^64 / tick_ns, so ticks is at most 1 too small. */
	*rest = distance - ticks * (uint64_t)grid->tick_ns;
	if (*rest >= (uint64_t)grid->tick_ns) {
		*rest -= (uint64_t)grid->tick_ns;
		ticks++;
	}
	return ticks;
}

/* Returns later - earlier.  For any two times it fits a uint64_t, but not always an int64_t. */
static inline uint64_t grid_distance(int64_t earlier_ns, int64_t later_ns)
{
	return (uint64_t)later_ns - (uint64_t)earlier_ns;
}

static inline int64_t grid_clamp(uint64_t ticks)
{
	return ticks > (uint64_t)HWT_TICK_MAX ? HWT_TICK_MAX : (int64_t)ticks;
}

/* E1. */
static inline int64_t grid_tick_of(const struct hwt_grid *grid, int64_t deadline_ns)
{
	uint64_t rest;

	if (deadline_ns <= grid->start_ns)
		return 0;
	return grid_clamp(grid_divide(grid, grid_distance(grid->start_ns, deadline_ns) - 1, &rest) + 1);
}

/* Returns true if a deadline earlier or later by error_ns has the same tick.  May return false where it has. */
static inline bool grid_is_within(const struct hwt_grid *grid, int64_t deadline_ns, int64_t error_ns)
{
	uint64_t rest;

	if (unlikely(deadline_ns <= grid->start_ns))
		return false;
	(void)grid_divide(grid, grid_distance(grid->start_ns, deadline_ns) - 1, &rest);
	return rest >= (uint64_t)error_ns && rest + (uint64_t)error_ns < (uint64_t)grid->tick_ns;
}

/* E2. */
static inline int64_t grid_ticks_passed(const struct hwt_grid *grid, int64_t now_ns)
{
	uint64_t rest;

	if (now_ns < grid->start_ns)
		return -1;
	now_ns -= now_ns == INT64_MAX; /* INT64_MAX is "never", also where a tick lies on it */
	return grid_clamp(grid_divide(grid, grid_distance(grid->start_ns, now_ns), &rest));
}

/* Returns the time of a tick, or the nearest time that an int64_t can hold. */
static inline int64_t grid_time(const struct hwt_grid *grid, int64_t tick)
{
	return wide_multiply_add(tick, grid->tick_ns, grid->start_ns);
}

#endif
