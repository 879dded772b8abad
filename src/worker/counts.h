/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the worker counts for hwt_timer_stats.  The worker alone writes, any thread reads at any time.  Each number is
 * right, but two numbers need not belong to the same moment.
 *
 * The lateness of a task is that of the beginning of its tick: the clock is read once a tick, not once a task.  What a
 * task waits for others of its own tick is at most tick_max_ns.
 *
 * Structure
 *
 *   After some tasks that are as late as each other, to a factor of two, their bin of the histogram is opened.  From
 *   then on the thread writes nothing for a task that belongs there: each run that it counts is one more in the open
 *   bin.  A task that is late by another factor closes the bin, and is counted in its own, like the next ones.
 *
 *       closed   the bin holds its count
 *       open     the bin holds its count less the runs, as it was opened: the count is what it holds plus the runs
 *
 *   The lowest bit says which.  So a burst, or a worker that is behind, costs a comparison a task.  Tasks that are due
 *   all over a tick belong to several bins, and none is opened: a branch that goes either way would cost more.
 *
 *   Runs of periodic timeouts are not among these runs, and are added to their bin.
 *
 * Invariant
 *
 *   C1  at most one bin is open, and width_ns > 0 while one is.  Each run that is counted meanwhile has a lateness of
 *       this bin, and none is later than lateness_max_ns.
 *
 * Ordering
 *
 *   [bin]  a bin is opened (release) when the runs before have been counted, and closed before the next run is,
 *            [count].  A reader loads the bin (acquire), the runs (acquire) and the bin again.  If that is the
 *            same, the sum lies between the counts of the first and of the last moment.
 */
#ifndef HWT_COUNTS_H
#define HWT_COUNTS_H

#include "base/grid.h"
#include "base/record.h"

#include <stdalign.h>

#define COUNTS_LATENESS 32
#define COUNTS_OPEN UINT64_C(1) /* the bit of a bin that is open; the bits above hold the number */
#define COUNTS_ONE UINT64_C(2)  /* one task */
#define COUNTS_ALIKE 16         /* tasks as late as each other, after which a bin is opened */

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

	unsigned bin;          /* of the task before, while no bin is open; then the open one */
	unsigned alike;        /* how many tasks before belonged there, too */
	uint64_t from_ns;      /* from what lateness on a task belongs into the open bin, */
	uint64_t width_ns;     /* and how far; 0: no bin is open */
	uint64_t from_time_ns; /* now less from_ns */
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

/* From here on lateness counts to now_ns. */
static inline void counts_begin(struct hwt_counts *counts, int64_t now_ns)
{
	counts->from_time_ns = (uint64_t)now_ns - counts->from_ns;
}

/*
 * Returns true if a task with this deadline belongs into the open bin: then it is counted by being counted as a run.
 * If not, hwt_counts_lateness comes before that.
 *
 * Unsigned, because a deadline may lie before all times.  No task is early, so no lateness is negative.
 */
static inline bool counts_belongs(const struct hwt_counts *counts, int64_t deadline_ns)
{
	return counts->from_time_ns - (uint64_t)deadline_ns < counts->width_ns;
}

/* Counts the lateness of such a task.  `runs` is how many have been counted. */
void hwt_counts_lateness(struct hwt_counts *counts, int64_t deadline_ns, uint64_t runs);

/*
 * Counts a run of a RUNNING record that is PERIODIC, and sets its next deadline: the first one on the grid of its
 * deadlines whose tick has not passed.  Periods in between are merged into this run.
 */
void hwt_counts_repeat(struct hwt_counts *counts, const struct hwt_grid *grid, struct hwt_record *record);

/* Returns how many tasks this bin counts.  `runs` is where their thread counts runs.  Any thread. */
uint64_t hwt_counts_late(const struct hwt_counts *counts, const _Atomic uint64_t *runs, unsigned bin);

#endif
