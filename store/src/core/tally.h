/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics; tally.c. */
#ifndef HWTS_TALLY_H
#define HWTS_TALLY_H

#include "core/engine.h"

/* The largest of each of the last 60 seconds. */
struct hwts_peak {
	int64_t second[60], ns[60];
};

struct hwts_tally {
	hwt_store_stats stats;
	struct hwts_peak lateness;
};

/* With the lock. */
#define HWTS_TALLY(store, what, n) ((store)->tally->stats.what += (n))
void hwts_tally_start(hwt_store *store, int64_t late_ns); /* a run starts so late */
void hwts_peak_note(struct hwts_peak *peak, int64_t now_ns, int64_t ns);
int64_t hwts_peak_read(const struct hwts_peak *peak, int64_t now_ns);

#endif
