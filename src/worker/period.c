/* SPDX-License-Identifier: BSD-2-Clause */
/* The grid of a periodic timeout's deadlines; period.h. */
#include "worker/period.h"

/*
 * The present moment itself does not count: each tick comes a little late, so a period of one tick would be merged
 * every other time.
 */
void hwt_period_begin(struct hwt_counts *counts, const struct hwt_grid *grid, struct hwt_record *record,
		      int64_t deadline_ns, int64_t now_ns)
{
	struct hwt_extension *extension = record_extension(record);
	int64_t passed_ns = grid_time(grid, grid_ticks_passed(grid, now_ns));
	/* Unsigned, because a deadline may lie before all times. */
	uint64_t late_ns = (uint64_t)passed_ns - (uint64_t)deadline_ns;
	uint64_t period_ns = (uint64_t)record_period(record);

	extension->missed = late_ns / period_ns;
	counts_add(&counts->merged, extension->missed);
	counts_add(&counts->repeats, 1);
	/* The first summand is not in the future, the second not more than a period. */
	record_set_deadline(record, add_saturating((int64_t)((uint64_t)deadline_ns + extension->missed * period_ns),
						   (int64_t)period_ns));
}
