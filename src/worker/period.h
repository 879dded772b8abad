/* SPDX-License-Identifier: BSD-2-Clause */
/* The next deadline of a periodic timeout. */
#ifndef HWT_PERIOD_H
#define HWT_PERIOD_H

#include "base/grid.h"
#include "base/record.h"
#include "worker/counts.h"

/*
 * Sets the next deadline of a RUNNING record that is PERIODIC: the first one on the grid of its deadlines whose tick
 * has not passed at now_ns.  Periods in between are merged into this run.  Counts both.
 */
void hwt_period_begin(struct hwt_counts *counts, const struct hwt_grid *grid, struct hwt_record *record,
		      int64_t deadline_ns, int64_t now_ns);

#endif
