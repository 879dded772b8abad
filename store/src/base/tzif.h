/* SPDX-License-Identifier: BSD-2-Clause */
/* A file of the tz database in memory: how far the wall clocks of a zone are ahead of UTC, and until when. */
#ifndef HWTS_TZIF_H
#define HWTS_TZIF_H

#include "base/common.h"

/*
 * One of the two changes of a year, by its form.  M: month, week (5: the last) and weekday; J: day 1 to 365, without 29
 * February; otherwise day 0 to 365.
 */
struct hwts_tz_change {
	char form; /* M, J, or another */
	int64_t month, week, weekday, day;
	int64_t time_s; /* time of that day, from -167 to 167 hours */
};

/* The pointers lead into the bytes that were read. */
struct hwts_tz {
	size_t wide; /* bytes of a time: 4 or 8 */
	size_t time_count, type_count;
	const unsigned char *times, *type_of,
	    *types; /* type_of[i] is the type from times[i] on; before times[0] it is type 0 */

	bool ruled, changes;          /* ruled: a rule covers later times.  changes: the rule has summer time */
	int64_t standard_s, summer_s; /* seconds ahead of UTC; summer time may be behind standard time */
	struct hwts_tz_change begins, ends;
};

/* EINVAL: not a file of the tz database; EIO: a damaged one.  With the thread's text.  *tz points into data. */
int hwts_tz_read(struct hwts_tz *tz, const unsigned char *data, size_t len);
int64_t hwts_tz_time(const struct hwts_tz *tz, size_t i);

/* The offset from UTC at at_s, and until when; INT64_MAX: for ever. */
void hwts_tz_at(const struct hwts_tz *tz, int64_t at_s, int64_t *offset_s, int64_t *until_s);

#endif
