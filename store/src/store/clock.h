/* SPDX-License-Identifier: BSD-2-Clause */
/* What time it is in the database, and how long the lease can be trusted; clock.c. */
#ifndef HWTS_CLOCK_H
#define HWTS_CLOCK_H

#include "rows/engine.h"

/* The database's clock: a lower bound, by at most one round trip. */
struct hwts_clock {
	int64_t offset_ns;  /* database - CLOCK_MONOTONIC */
	int64_t slept_ns;   /* CLOCK_BOOTTIME - CLOCK_MONOTONIC, as that was found */
	int64_t best_ns;    /* the shortest round trip, aged */
	int64_t steady_us;  /* database - CLOCK_BOOTTIME, as the grids of series follow it: without leaps */
	int64_t leapt_ns;   /* CLOCK_BOOTTIME: when the database's clock leapt ahead of that; 0: it has not */
	int64_t trusted_ns; /* CLOCK_BOOTTIME: I3 */
	bool known;
};

/* With the lock. */
/* The exchange that has brought a time. */
struct hwts_trip {
	int64_t sent_ns, reply_ns; /* hwt_now() before and after */
	int64_t slept_ns;          /* hwts_clock_slept_ns() before */
};
int64_t hwts_clock_slept_ns(void); /* how long this machine has slept since its boot */
bool hwts_clock_sample(hwt_store *store, int64_t db_us, const struct hwts_trip *trip); /* true: it moved */
int64_t hwts_clock_db_us(const hwt_store *store);
/* The latest time that the database may have: a round trip more, and the sleep of this machine. */
int64_t hwts_clock_latest_us(const hwt_store *store);
int64_t hwts_clock_deadline_ns(const hwt_store *store, int64_t due_us);
int64_t hwts_clock_without_leap_us(const hwt_store *store, int64_t db_us);
int64_t hwts_clock_trip_ns(const hwt_store *store);
bool hwts_trusted(const hwt_store *store);
void hwts_trust(hwt_store *store, int64_t until_ns);

#endif
