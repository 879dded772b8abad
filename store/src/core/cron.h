/* SPDX-License-Identifier: BSD-2-Clause */
/* A line of a crontab; cron.c. */
#ifndef HWTS_CRON_H
#define HWTS_CRON_H

#include "core/base.h"

#define HWTS_SCHEDULE_MAX 127 /* bytes of a line */

/* Bit n: the value n. */
struct hwts_cron {
	uint64_t minutes;
	uint32_t hours, days, months, weekdays; /* weekdays: Sunday is 0 */
	bool any_day, any_weekday;              /* the field begins with "*": it is not set */
	bool wild;                              /* minute or hour begins with "*" */
};

/* EINVAL and the thread's text, which names the field. */
int hwts_cron_parse(struct hwts_cron *cron, const char *line);

/*
 * The first full minute that the line names, at or after from and before until, in seconds of a clock on the wall that
 * nobody ever sets, counted from 1970.  HWTS_NEVER: there is none.
 */
int64_t hwts_cron_find(const struct hwts_cron *cron, int64_t from_s, int64_t until_s);

#endif
