/* SPDX-License-Identifier: BSD-2-Clause */
/* A file of the tz database, in memory: how far the clocks of a zone are ahead of UTC, and until when. */
#ifndef HWTS_TZIF_H
#define HWTS_TZIF_H

#include "base/common.h"

/* One of two changes a year: month, week (5: last) and weekday; J: day 1..365 without 29 February; day 0..365. */
struct hwts_tz_change {
	char form; /* M, J, or another */
	int64_t month, week, weekday, day;
	int64_t time_s; /* of the day, from -167 to 167 hours */
};

/* Points into the bytes that were read. */
struct hwts_tz {
	size_t wide; /* bytes of a time: 4 or 8 */
	size_t time_count, type_count;
	const unsigned char *times, *type_of,
	    *types; /* type_of[i] begins at times[i]; before the first there is type 0 */

	bool ruled, changes;          /* there is a rule for later times, and one with summer time */
	int64_t standard_s, summer_s; /* ahead of UTC; summer time may be behind standard time */
	struct hwts_tz_change begins, ends;
};

/* EINVAL: it is no such file; EIO: it is a damaged one.  With the thread's text.  data has to stay as long as *tz. */
int hwts_tz_read(struct hwts_tz *tz, const unsigned char *data, size_t len);
int64_t hwts_tz_time(const struct hwts_tz *tz, size_t i);

/* Ahead of UTC at this second, and until when; INT64_MAX: for ever. */
void hwts_tz_at(const struct hwts_tz *tz, int64_t at_s, int64_t *offset_s, int64_t *until_s);

#endif
