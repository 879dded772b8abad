/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics; stats.c. */
#ifndef HWTS_TALLY_H
#define HWTS_TALLY_H

#include "core/engine.h"

/* The largest of each of the last 60 seconds. */
struct hwts_peak {
	int64_t second[60], ns[60];
};

struct hwts_tally {
	hwt_store_stats stats; /* what is counted */
	struct hwts_peak lateness;
	int64_t lateness_sum_ns;
};

#define HWTS_TALLY_ALONE(store, what, n) (hwts_lock(store), HWTS_TALLY(store, what, n), hwts_unlock(store))
/* With the lock. */
#define HWTS_TALLY(store, what, n) ((store)->tally->stats.what += (n))
#define HWTS_TALLY_OF(store, kind, what, n)                                                                            \
	((store)->tally->stats.what += (n), (kind)->tally.stats.what += (n))      /* and of its kind */
void hwts_tally_start(struct hwts_tally *tally, int64_t now_ns, int64_t late_ns); /* a run starts so late */
void hwts_peak_note(struct hwts_peak *peak, int64_t now_ns, int64_t ns);
int64_t hwts_peak_read(const struct hwts_peak *peak, int64_t now_ns);
/* What is counted, and how things are now: of all kinds, and of one. */
void hwts_stats_now(hwt_store *store, hwt_store_stats *stats);
void hwts_stats_of_kind(hwt_store *store, const struct hwts_kind *kind, hwt_store_stats *stats);

#endif
