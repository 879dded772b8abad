/* SPDX-License-Identifier: BSD-2-Clause */
/* The histogram of lateness; counts.h. */
#include "worker/counts.h"

static unsigned bin_of(uint64_t late_ns)
{
	uint64_t late_us = late_ns / 1000;
	unsigned i = late_us == 0 ? 0 : 64 - (unsigned)__builtin_clzll(late_us);

	return i < COUNTS_LATENESS - 1 ? i : COUNTS_LATENESS - 1;
}

static uint64_t late(const struct hwt_counts *counts, int64_t deadline_ns)
{
	return counts->from_time_ns + counts->from_ns - (uint64_t)deadline_ns;
}

/* The range ends at the greatest lateness so far: a later task comes here again and sets lateness_max_ns, C1. */
static void set_range(struct hwt_counts *counts, unsigned bin)
{
	uint64_t now_ns = counts->from_time_ns + counts->from_ns, max_ns = counts_get(&counts->lateness_max_ns);
	uint64_t end_ns = bin < COUNTS_LATENESS - 1 ? UINT64_C(1000) << bin : UINT64_MAX;

	counts->from_ns = bin > 0 ? UINT64_C(1000) << (bin - 1) : 0;
	counts->width_ns = (max_ns < end_ns ? max_ns + 1 : end_ns) - counts->from_ns;
	counts_begin(counts, (int64_t)now_ns);
}

static void open_bin(struct hwt_counts *counts, unsigned bin, uint64_t runs)
{
	uint64_t held = counts_get(&counts->lateness[bin]);

	atomic_store_explicit(&counts->lateness[bin], held - COUNTS_ONE * runs + COUNTS_OPEN,
			      memory_order_release); /* [bin] */
	set_range(counts, bin);
}

static void close_bin(struct hwt_counts *counts, uint64_t runs)
{
	counts_add(&counts->lateness[counts->bin], COUNTS_ONE * runs - COUNTS_OPEN);
	counts->width_ns = 0;
}

void hwt_counts_lateness(struct hwt_counts *counts, int64_t deadline_ns, uint64_t runs)
{
	uint64_t late_ns = late(counts, deadline_ns);
	unsigned bin = bin_of(late_ns);

	counts_max(&counts->lateness_max_ns, late_ns);
	if (counts->width_ns > 0) {
		if (bin == counts->bin) {
			set_range(counts, bin);
			return;
		}
		close_bin(counts, runs);
	}
	counts->alike = bin == counts->bin ? counts->alike + 1 : 0;
	counts->bin = bin;
	if (unlikely(counts->alike >= COUNTS_ALIKE))
		open_bin(counts, bin, runs);
	else
		counts_add(&counts->lateness[bin], COUNTS_ONE);
}

static void count_alone(struct hwt_counts *counts, int64_t deadline_ns)
{
	uint64_t late_ns = late(counts, deadline_ns);

	counts_max(&counts->lateness_max_ns, late_ns);
	counts_add(&counts->lateness[bin_of(late_ns)], COUNTS_ONE);
}

/*
 * Counts a period as passed if its tick has passed, not its time: each tick comes a little late, so by the time a
 * period of one tick would be merged every other time.
 */
void hwt_counts_repeat(struct hwt_counts *counts, const struct hwt_grid *grid, struct hwt_record *record)
{
	struct hwt_extension *extension = record_extension(record);
	int64_t deadline_ns = record_deadline(record), now_ns = (int64_t)(counts->from_time_ns + counts->from_ns);
	int64_t passed_ns = grid_time(grid, grid_ticks_passed(grid, now_ns));
	/* Unsigned, because the difference from a deadline near INT64_MIN may not fit an int64_t. */
	uint64_t late_ns = (uint64_t)passed_ns - (uint64_t)deadline_ns;
	uint64_t period_ns = (uint64_t)record_period(record);

	count_alone(counts, deadline_ns);
	extension->missed = late_ns / period_ns;
	counts_add(&counts->merged, extension->missed);
	counts_add(&counts->repeats, 1);
	/* The first summand is not in the future, the second not more than a period. */
	record_set_deadline(record, add_saturating((int64_t)((uint64_t)deadline_ns + extension->missed * period_ns),
						   (int64_t)period_ns));
}

uint64_t hwt_counts_late(const struct hwt_counts *counts, const _Atomic uint64_t *runs, unsigned bin)
{
	uint64_t held = atomic_load_explicit(&counts->lateness[bin], memory_order_acquire); /* [bin] */

	while ((held & COUNTS_OPEN) != 0) {
		uint64_t sum, again;

		HWT_POINT("counts late");
		sum = held + COUNTS_ONE * atomic_load_explicit(runs, memory_order_acquire); /* [count] */
		again = atomic_load_explicit(&counts->lateness[bin], memory_order_acquire); /* [bin] */
		if (again == held)
			return sum / COUNTS_ONE;
		held = again; /* the thread has closed the bin meanwhile, and perhaps opened it again */
	}
	return held / COUNTS_ONE;
}
