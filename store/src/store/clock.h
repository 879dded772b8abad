/* SPDX-License-Identifier: BSD-2-Clause */
/* The time in the database, and how long the lease can be trusted; clock.c. */
#ifndef HWTS_CLOCK_H
#define HWTS_CLOCK_H

#include "rows/engine.h"

/* The database's clock.  The estimate is a lower bound, at most one round trip too low. */
struct hwts_clock {
	int64_t offset_ns;  /* database - CLOCK_MONOTONIC */
	int64_t slept_ns;   /* CLOCK_BOOTTIME - CLOCK_MONOTONIC at that sample */
	int64_t best_ns;    /* the shortest round trip, growing with age */
	int64_t steady_us;  /* database - CLOCK_BOOTTIME without leaps: for the grids of series */
	int64_t asked_ns;   /* CLOCK_BOOTTIME of the newest question that has an answer */
	int64_t leapt_ns;   /* CLOCK_BOOTTIME when the database's clock leapt ahead of steady_us; 0: no leap */
	int64_t trusted_ns; /* CLOCK_BOOTTIME: I3 */
	bool known;
};

/* When the exchange began and ended that has read the database's clock. */
struct hwts_trip {
	int64_t sent_ns, reply_ns; /* hwt_now() before and after it */
	int64_t slept_ns;          /* hwts_clock_slept_ns() before it */
};

/* The caller holds store->lock. */
int64_t hwts_clock_slept_ns(void); /* how long this machine has slept since its boot */
bool hwts_clock_sample(hwt_store *store, int64_t db_us, const struct hwts_trip *trip); /* true: the estimate moved */
int64_t hwts_clock_db_us(const hwt_store *store);
/* The latest time that the database's clock may show: a round trip and the sleep of this machine are added. */
int64_t hwts_clock_latest_us(const hwt_store *store);
int64_t hwts_clock_deadline_ns(const hwt_store *store, int64_t due_us);
int64_t hwts_clock_without_leap_us(const hwt_store *store, int64_t db_us);
int64_t hwts_clock_trip_ns(const hwt_store *store);
bool hwts_trusted(const hwt_store *store);
void hwts_trust(hwt_store *store, int64_t until_ns);

#endif
