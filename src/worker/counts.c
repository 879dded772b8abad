/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/counts.h"

void hwt_tally_find(struct hwt_tally *tally, uint64_t late_ns)
{
	uint64_t late_us = late_ns / 1000;
	unsigned i = late_us == 0 ? 0 : 64 - (unsigned)__builtin_clzll(late_us);

	if (i >= TALLY_LATENESS - 1) {
		i = TALLY_LATENESS - 1;
		tally->found_from_ns = (UINT64_C(1000) << (i - 1));
		tally->found_width_ns = UINT64_MAX - tally->found_from_ns;
	} else {
		tally->found_from_ns = i == 0 ? 0 : UINT64_C(1000) << (i - 1);
		tally->found_width_ns = i == 0 ? 1000 : tally->found_from_ns;
	}
	tally->found = &tally->lateness[i];
}
