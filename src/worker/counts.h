/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of a thread for hwt_timer_stats.  Only this thread writes them; any thread reads them at any time.  Each
 * number is right, but two numbers need not belong to the same moment.
 *
 * The lateness of a task is that of the beginning of its tick: the clock is read once a tick, not once a task.  The
 * time that a task waits for other tasks of its tick is at most tick_max_ns.
 *
 * Structure
 *
 *   After some tasks of the same bin of the histogram, which are as late as each other to a factor of two, the bin is
 *   opened.  From then on the thread writes nothing for a task of this bin: each run that it counts counts in the open
 *   bin, too.  A task of another bin closes the open bin, and is counted in its own, like the tasks after it.
 *
 *       closed   the bin holds its count
 *       open     the bin holds its count less the number of runs at its opening: the count is the held value plus the
 *                runs
 *
 *   The lowest bit tells an open bin.  So a burst, or a worker that is behind, costs a comparison a task.  If tasks are
 *   due all over a tick, they belong to several bins and no bin is opened: a branch that the processor cannot predict
 *   would cost more.
 *
 *   Runs of periodic timeouts are not among these runs; each is added to its bin.
 *
 * Invariant
 *
 *   C1  at most one bin is open, and width_ns > 0 while one is.  Each run that is counted while it is open has a
 *       lateness of this bin, of at most lateness_max_ns.
 *
 * Ordering
 *
 *   [bin]  a bin is opened (release) after the earlier runs have been counted, and closed before the next run is
 *            counted, [count].  A reader loads the bin (acquire), the runs (acquire) and the bin again.  If both loads
 *            of the bin agree, the sum lies between the counts at the first and at the last load.
 */
#ifndef HWT_COUNTS_H
#define HWT_COUNTS_H

#include "base/grid.h"
#include "base/record.h"

#include <stdalign.h>

#define COUNTS_LATENESS 32
#define COUNTS_OPEN UINT64_C(1) /* the bit of a bin that is open; the bits above hold the number */
#define COUNTS_ONE UINT64_C(2)  /* one task */
#define COUNTS_ALIKE 16         /* successive tasks of one bin after which the bin is opened */

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

	unsigned bin;          /* the open bin; while no bin is open, that of the last task */
	unsigned alike;        /* how many successive tasks before belonged to `bin` */
	uint64_t from_ns;      /* a task belongs to the open bin if its lateness is at least this */
	uint64_t width_ns;     /* and less than from_ns + width_ns; 0: no bin is open */
	uint64_t from_time_ns; /* the beginning of the tick - from_ns */
};

/* Relaxed: one thread writes, and no other data depends on the number. */
static inline uint64_t counts_get(const _Atomic uint64_t *number)
{
	return atomic_load_explicit(number, memory_order_relaxed);
}

/* A plain store: several writers would need an exchange. */
static inline void counts_set(_Atomic uint64_t *number, uint64_t value)
{
	atomic_store_explicit(number, value, memory_order_relaxed); /* relaxed: as in counts_get */
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

/* Makes lateness count to now_ns from here on. */
static inline void counts_begin(struct hwt_counts *counts, int64_t now_ns)
{
	counts->from_time_ns = (uint64_t)now_ns - counts->from_ns;
}

/*
 * Returns true if a task with this deadline belongs to the open bin: counting the run then counts its lateness, too.
 * Otherwise the caller calls hwt_counts_lateness before it counts the run.
 *
 * Unsigned, because the difference from a deadline near INT64_MIN may not fit an int64_t.  No task is early, so no
 * lateness is negative.
 */
static inline bool counts_belongs(const struct hwt_counts *counts, int64_t deadline_ns)
{
	return counts->from_time_ns - (uint64_t)deadline_ns < counts->width_ns;
}

/* Counts the lateness of a task that does not belong to the open bin.  `runs` is the number of runs counted so far. */
void hwt_counts_lateness(struct hwt_counts *counts, int64_t deadline_ns, uint64_t runs);

/*
 * Counts a run of a RUNNING record that is PERIODIC, and sets its next deadline: the first on the grid of its deadlines
 * whose tick has not passed.  Periods in between are merged into this run.
 */
void hwt_counts_repeat(struct hwt_counts *counts, const struct hwt_grid *grid, struct hwt_record *record);

/* Returns the number of tasks in this bin.  `runs` is the counter of runs of the thread that counts.  Any thread. */
uint64_t hwt_counts_late(const struct hwt_counts *counts, const _Atomic uint64_t *runs, unsigned bin);

#endif
