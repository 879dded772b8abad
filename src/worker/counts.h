/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the worker counts for hwt_timer_stats.  The worker alone writes, any thread reads at any time.  Each number is
 * right, but two numbers need not belong to the same moment.
 *
 * The lateness of a task is that of the beginning of its tick: the clock is read once a tick, not once a task.  What a
 * task waits for others of its own tick is at most tick_max_ns.
 */
#ifndef HWT_TALLY_H
#define HWT_TALLY_H

#include "base/base.h"

#include <stdalign.h>

#define COUNTS_LATENESS 32

struct hwt_counts {
	alignas(HWT_UNIT) _Atomic uint64_t finished; /* tasks that have returned; [finished] */
	_Atomic uint64_t ticks;                      /* ticks at which a task has started */
	_Atomic uint64_t wakeups;
	_Atomic uint64_t transfers; /* records taken out of the lanes */
	_Atomic uint64_t backlog_max;
	_Atomic uint64_t lateness_max_ns;
	_Atomic uint64_t tick_max_ns;
	_Atomic uint64_t repeats;                   /* runs of periodic timeouts */
	_Atomic uint64_t merged;                    /* periods merged into other runs */
	_Atomic uint64_t lateness[COUNTS_LATENESS]; /* [0]: under 1 us, [i]: 2^(i-1) .. 2^i us, the last: all above */

	/* The place that the worker found last, and the range of lateness that it counts. */
	_Atomic uint64_t *found;
	uint64_t found_from_ns, found_width_ns;
};

/* Relaxed: one thread writes, and no other data depends on the number. */
static inline uint64_t counts_get(const _Atomic uint64_t *number)
{
	return atomic_load_explicit(number, memory_order_relaxed);
}

/* A store, where several writers would need an exchange. */
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

/* Finds the place that counts a lateness, and remembers it. */
void hwt_counts_find(struct hwt_counts *counts, uint64_t late_ns);

/* Counts the lateness of a task.  Most tasks are as late, to a factor of two, as the one before. */
static inline void counts_lateness(struct hwt_counts *counts, int64_t deadline_ns, int64_t now_ns)
{
	/* Unsigned, because a deadline may lie before all times.  No task is early, so it is not negative. */
	uint64_t late_ns = (uint64_t)now_ns - (uint64_t)deadline_ns;

	if (unlikely(late_ns - counts->found_from_ns >= counts->found_width_ns))
		hwt_counts_find(counts, late_ns);
	counts_add(counts->found, 1);
	counts_max(&counts->lateness_max_ns, late_ns);
}

#endif
