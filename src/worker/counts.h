/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the worker counts for hwt_timer_stats.  Written by it alone, read by anybody at any time; each number is right,
 * and no two of them belong to the same moment.
 *
 * Lateness is that of the beginning of a tick against the deadline of each task in it: the clock is read once a tick,
 * not once a task.  What a task waits for those before it in its own tick is in tick_max_ns.
 */
#ifndef HWT_TALLY_H
#define HWT_TALLY_H

#include "base/base.h"

#include <stdalign.h>

#define COUNTS_LATENESS 32

struct hwt_counts {
	alignas(HWT_UNIT) _Atomic uint64_t finished; /* tasks that have returned; [finished] */
	_Atomic uint64_t ticks;                      /* at which a task has started */
	_Atomic uint64_t wakeups;
	_Atomic uint64_t transfers; /* taken out of the lanes */
	_Atomic uint64_t backlog_max;
	_Atomic uint64_t lateness_max_ns;
	_Atomic uint64_t tick_max_ns;
	_Atomic uint64_t repeats;                   /* runs of periodic timeouts */
	_Atomic uint64_t merged;                    /* periods that were merged into others */
	_Atomic uint64_t lateness[COUNTS_LATENESS]; /* [0]: under 1 us, [i]: 2^(i-1) .. 2^i us, the last: all above */

	/* The worker's: the place that was found last, and for which lateness it is. */
	_Atomic uint64_t *found;
	uint64_t found_from_ns, found_width_ns;
};

/* Relaxed: one thread writes, and nothing hangs on what it counts. */
static inline uint64_t counts_get(const _Atomic uint64_t *number)
{
	return atomic_load_explicit(number, memory_order_relaxed);
}

static inline void counts_set(_Atomic uint64_t *number, uint64_t value)
{
	atomic_store_explicit(number, value, memory_order_relaxed); /* relaxed: as above */
}

static inline void counts_add(_Atomic uint64_t *number, uint64_t more)
{
	counts_set(number, counts_get(number) + more);
}

static inline void counts_max(_Atomic uint64_t *number, uint64_t value)
{
	if (unlikely(value > counts_get(number)))
		counts_set(number, value);
}

/* Finds the place of a lateness, and remembers it. */
void hwt_counts_find(struct hwt_counts *counts, uint64_t late_ns);

/* One task more is that late.  Most are as late, to a factor of two, as the one before. */
static inline void counts_lateness(struct hwt_counts *counts, int64_t deadline_ns, int64_t now_ns)
{
	/* Not signed: a deadline may lie before all times.  And never negative: nobody is early. */
	uint64_t late_ns = (uint64_t)now_ns - (uint64_t)deadline_ns;

	if (unlikely(late_ns - counts->found_from_ns >= counts->found_width_ns))
		hwt_counts_find(counts, late_ns);
	counts_add(counts->found, 1);
	counts_max(&counts->lateness_max_ns, late_ns);
}

#endif
