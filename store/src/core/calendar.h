/* SPDX-License-Identifier: BSD-2-Clause */
/* The times of a cron line in a zone; calendar.c. */
#ifndef HWTS_CALENDAR_H
#define HWTS_CALENDAR_H

#include "core/cron.h"
#include "core/zone.h"

/* Where a series is on its grid: base_us is a time of that, and now_us not before it. */
struct hwts_grid {
	uint64_t missed; /* times after base_us, and not after now_us */
	int64_t last_us; /* the last of these; none: base_us */
	int64_t next_us; /* the first after now_us */
};
int hwts_calendar_merge(const char *schedule, const char *zone, int64_t base_us, int64_t now_us,
			struct hwts_grid *grid);

/* zone NULL: UTC.  As hwt_store_next_time, with the thread's text. */
int hwts_calendar_next(const char *schedule, const char *zone, int64_t after_us, int64_t *due_us);

#endif
