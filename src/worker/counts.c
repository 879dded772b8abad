/* SPDX-License-Identifier: BSD-2-Clause */
/* The histogram of lateness; counts.h. */
#include "worker/counts.h"

void hwt_counts_find(struct hwt_counts *counts, uint64_t late_ns)
{
	uint64_t late_us = late_ns / 1000;
	unsigned i = late_us == 0 ? 0 : 64 - (unsigned)__builtin_clzll(late_us);

	if (i >= COUNTS_LATENESS - 1) {
		i = COUNTS_LATENESS - 1;
		counts->found_from_ns = (UINT64_C(1000) << (i - 1));
		counts->found_width_ns = UINT64_MAX - counts->found_from_ns;
	} else {
		counts->found_from_ns = i == 0 ? 0 : UINT64_C(1000) << (i - 1);
		counts->found_width_ns = i == 0 ? 1000 : counts->found_from_ns;
	}
	counts->found = &counts->lateness[i];
}
