/* SPDX-License-Identifier: BSD-2-Clause */
/* The times of a cron line in a zone. */
#ifndef HWTS_CALENDAR_H
#define HWTS_CALENDAR_H

#include "base/common.h"

/*
 * Lines of a crontab; cron.c
 */

#define HWTS_SCHEDULE_MAX 127 /* bytes of a line */

/* Bit n stands for the value n. */
struct hwts_cron {
	uint64_t minutes;
	uint32_t hours, days, months, weekdays; /* weekdays: Sunday is 0 */
	bool any_day, any_weekday;              /* the field begins with "*", so it does not restrict the day */
	bool wild;                              /* the minute or the hour begins with "*" */
};

/* EINVAL: the thread's text names the field. */
int hwts_cron_parse(struct hwts_cron *cron, const char *line);

/*
 * Returns the first full minute that the line names, from <= minute < until.  Times are seconds since 1970 on a wall
 * clock that is never set.  HWTS_NEVER: no such minute.
 */
int64_t hwts_cron_find(const struct hwts_cron *cron, int64_t from_s, int64_t until_s);

/*
 * after_s is a time that the line names.  Returns how many times it names later on that day; *last_s is the last of
 * them, *end_s the midnight after.
 */
unsigned hwts_cron_rest(const struct hwts_cron *cron, int64_t after_s, int64_t *last_s, int64_t *end_s);

/*
 * Zones of the system's tz database; zone.c
 */

#define HWTS_ZONE_MAX 63 /* bytes of a name */

struct hwts_zone;

/*
 * Opens a zone for this thread; name NULL: UTC.  Close it soon, as other threads wait to open one.  EINVAL: no such
 * name; ENOTSUP: no tz database; EIO: a damaged file; ENOMEM; EMFILE.  With the thread's text.
 */
int hwts_zone_open(const char *name, const struct hwts_zone **zone);
void hwts_zone_close(const struct hwts_zone *zone);

/* *offset_s: how far a wall clock in the zone is ahead of UTC at at_s.  *until_s: until when; at most limit_s. */
void hwts_zone_at(const struct hwts_zone *zone, int64_t at_s, int64_t limit_s, int64_t *offset_s, int64_t *until_s);

#ifdef HWT_TEST
extern _Atomic(const char *) hwts_test_zones; /* the folder of the tz database */
extern _Atomic unsigned hwts_test_zone_reads; /* how many files were read */
#endif

/*
 * Lines in zones; calendar.c
 */

/* The place of a series on its grid: base_us is a time of the grid, now_us is not before it. */
struct hwts_grid {
	uint64_t missed; /* how many times after base_us, up to now_us */
	int64_t last_us; /* the last of these times; none: base_us */
	int64_t next_us; /* the first time after now_us */
};
int hwts_calendar_merge(const char *schedule, const char *zone, int64_t base_us, int64_t now_us,
			struct hwts_grid *grid);

/* zone NULL: UTC.  As hwt_store_next_time; sets the thread's text. */
int hwts_calendar_next(const char *schedule, const char *zone, int64_t after_us, int64_t *due_us);

/* A random delay within the spread, and before the next time of the grid. */
static inline int64_t hwts_spread(int64_t spread_us, int64_t room_us)
{
	int64_t within_us = HWTS_MIN(spread_us, room_us);

	return within_us > 0 ? (int64_t)(hwts_random() % (uint64_t)within_us) : 0;
}

#endif
