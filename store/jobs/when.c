/* SPDX-License-Identifier: BSD-2-Clause */
/* Times and durations as people write them. */
#include "jobs.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define LONGEST_S INT64_C(3155760000) /* 100 years */

int64_t wall_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static const struct {
	const char *name;
	int64_t ns;
} units[] = {
	{ "ms", 1000000 },         { "s", HWT_S(1) },     { "sec", HWT_S(1) },     { "second", HWT_S(1) },
	{ "m", HWT_S(60) },        { "min", HWT_S(60) },  { "minute", HWT_S(60) }, { "h", HWT_S(3600) },
	{ "hour", HWT_S(3600) },   { "d", HWT_S(86400) }, { "day", HWT_S(86400) }, { "w", HWT_S(604800) },
	{ "week", HWT_S(604800) },
};

/* One number with its unit; the end of it, or NULL. */
static const char *read_part(const char *text, double *ns)
{
	char *end;
	double value = strtod(text, &end);
	size_t len;

	if (end == text || !isdigit((unsigned char)*text))
		return NULL;
	end += strspn(end, " ");
	for (len = 0; isalpha((unsigned char)end[len]);)
		len++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t own = strlen(units[i].name);
		bool many = len == own + 1 && own > 2 && end[own] == 's';

		if ((len == own || many) && strncmp(end, units[i].name, own) == 0) {
			*ns = value * (double)units[i].ns;
			return end + len + strspn(end + len, " ");
		}
	}
	return NULL;
}

bool read_duration(const char *text, int64_t *ns)
{
	double sum = 0, part;

	if (*text == '\0')
		return false;
	while (*text) {
		text = read_part(text, &part);
		if (!text)
			return false;
		sum += part;
	}
	if (!(sum <= (double)LONGEST_S * 1e9))
		return false;
	*ns = (int64_t)sum;
	return true;
}

/* H:MM[:SS]; the end of it, or NULL. */
static const char *read_clock(const char *text, struct tm *tm)
{
	int n = 0;

	tm->tm_sec = 0;
	if (sscanf(text, "%2d:%2d%n", &tm->tm_hour, &tm->tm_min, &n) != 2 || n == 0)
		return NULL;
	text += n;
	if (*text == ':') {
		if (sscanf(text, ":%2d%n", &tm->tm_sec, &n) != 1)
			return NULL;
		text += n;
	}
	return tm->tm_hour >= 0 && tm->tm_hour < 24 && tm->tm_min >= 0 && tm->tm_min < 60 && tm->tm_sec >= 0 &&
		       tm->tm_sec < 60
		   ? text
		   : NULL;
}

/* Z, +01:00 or -0330; seconds east. */
static bool read_offset(const char *text, long *east)
{
	int hours, minutes, n = 0;

	*east = 0;
	if (strcmp(text, "Z") == 0)
		return true;
	if ((*text != '+' && *text != '-') ||
	    (sscanf(text + 1, "%2d:%2d%n", &hours, &minutes, &n) != 2 &&
	     sscanf(text + 1, "%2d%2d%n", &hours, &minutes, &n) != 2) ||
	    text[1 + n] != '\0' || hours < 0 || hours > 15 || minutes < 0 || minutes > 59)
		return false;
	*east = (hours * 60L + minutes) * (*text == '-' ? -60 : 60);
	return true;
}

/* Seconds since 1970 on a clock on the wall that nobody ever sets. */
static int64_t wall_of(const struct tm *tm)
{
	struct tm is = *tm;

	return (int64_t)timegm(&is);
}

static int64_t shown_at(int64_t at_s)
{
	time_t s = (time_t)at_s;
	struct tm tm;

	return localtime_r(&s, &tm) ? wall_of(&tm) : at_s;
}

/*
 * When the clocks of this place first show a time, or a later one where it is left out: calendars.md, once a day.
 * Quarters of an hour are looked at, from the earliest moment on that has this time anywhere; within one of them a
 * clock is set once at most.
 */
static int64_t first_shown(int64_t wall_s)
{
	enum { STEP = 900, FURTHEST = 26 * 3600 };
	int64_t from_s = wall_s - FURTHEST - 3 * 86400, shown_s = shown_at(from_s);

	while (from_s <= wall_s + FURTHEST) {
		int64_t at_s = from_s + wall_s - shown_s, until_s = from_s + STEP;

		if (at_s >= from_s && at_s < until_s && shown_at(at_s) == wall_s)
			return at_s;
		if (shown_at(until_s) > wall_s)
			break; /* in the gap before until_s */
		from_s = until_s;
		shown_s = shown_at(from_s);
	}
	for (int64_t until_s = from_s + STEP; until_s - from_s > 1;) {
		int64_t middle_s = from_s + (until_s - from_s) / 2;

		if (shown_at(middle_s) >= wall_s)
			until_s = middle_s;
		else
			from_s = middle_s;
	}
	return from_s + 1;
}

/* By the clocks of this place.  Days beyond the month's are those of the next one. */
static int64_t to_us(const struct tm *tm)
{
	return first_shown(wall_of(tm)) * 1000000;
}

/* 2026-12-01, with T10:00 or 10:00 behind it, with an offset behind that. */
static bool read_date(const char *text, int64_t *us)
{
	struct tm tm = { .tm_sec = 0 }, is;
	const char *end;
	long east;
	int n = 0;

	if (sscanf(text, "%4d-%2d-%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &n) != 3 || n < 8 ||
	    tm.tm_year < 1970 || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon--;
	end = text + n;
	if (*end != '\0')
		end = *end == 'T' || *end == ' ' ? read_clock(end + 1, &tm) : NULL;
	is = tm;
	(void)timegm(&is);
	if (!end || is.tm_mday != tm.tm_mday) /* there is no such day */
		return false;
	if (*end == '\0') {
		*us = to_us(&tm);
		return true;
	}
	if (!read_offset(end, &east))
		return false;
	*us = (wall_of(&tm) - east) * 1000000;
	return true;
}

/* "9:00": the next one, today or tomorrow.  "tomorrow 9:00".  "tomorrow": 0:00. */
static bool read_day(const char *text, int64_t now_us, int64_t *us)
{
	time_t now_s = (time_t)(now_us / 1000000);
	bool tomorrow = strncmp(text, "tomorrow", 8) == 0;
	struct tm tm;
	const char *end = text + (tomorrow ? 8 : 0);

	localtime_r(&now_s, &tm);
	tm.tm_mday += tomorrow;
	end += strspn(end, " ");
	if (*end == '\0' && tomorrow)
		tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	else
		end = read_clock(end, &tm);
	if (!end || *end != '\0')
		return false;
	*us = to_us(&tm);
	if (!tomorrow && *us <= now_us) {
		tm.tm_mday++;
		*us = to_us(&tm);
	}
	return true;
}

bool read_when(const char *text, int64_t now_us, hwt_store_when *when)
{
	hwt_store_when is = { 0, 0 };
	char *end;

	if (strncmp(text, "in ", 3) == 0) {
		if (!read_duration(text + 3, &is.delay_ns))
			return false;
	} else if (*text == '@') {
		double s = strtod(text + 1, &end);

		if (end == text + 1 || *end != '\0' || !(s > 0 && s < 253402300800.0)) /* the year 10000 */
			return false;
		is.due_us = (int64_t)(s * 1e6);
	} else if (strcmp(text, "now") != 0 && !read_duration(text, &is.delay_ns) && !read_date(text, &is.due_us) &&
		   !read_day(text, now_us, &is.due_us)) {
		return false;
	}
	*when = is;
	return true;
}

/*
 * Writing
 */

void write_time(int64_t us, char *text, size_t size)
{
	time_t s = (time_t)(us / 1000000);
	struct tm tm;

	if (us == 0)
		(void)snprintf(text, size, "not known yet");
	else
		(void)strftime(text, size, "%Y-%m-%d %H:%M:%S", localtime_r(&s, &tm));
}

void write_utc(int64_t us, char *text, size_t size)
{
	time_t s = (time_t)(us / 1000000);
	struct tm tm;
	size_t len = strftime(text, size, "%Y-%m-%dT%H:%M:%S", gmtime_r(&s, &tm));

	(void)snprintf(text + len, size - len, ".%06dZ", (int)(us % 1000000));
}

void write_duration(int64_t ns, char *text, size_t size)
{
	static const struct {
		int64_t ns;
		const char *name;
	} sizes[] = { { HWT_S(86400), "d" }, { HWT_S(3600), "h" }, { HWT_S(60), "min" }, { HWT_S(1), "s" } };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (ns >= 2 * sizes[i].ns || (ns >= sizes[i].ns && ns % sizes[i].ns == 0)) {
			double value = (double)ns / (double)sizes[i].ns;

			(void)snprintf(text, size, value < 10 && ns % sizes[i].ns ? "%.1f %s" : "%.0f %s", value,
				       sizes[i].name);
			return;
		}
	(void)snprintf(text, size, "%.0f ms", (double)ns / 1e6);
}

void write_distance(int64_t us, int64_t now_us, char *text, size_t size)
{
	int64_t apart_us = us > now_us ? us - now_us : now_us - us;
	char duration[32];

	write_duration(apart_us < INT64_MAX / 1000 ? apart_us * 1000 : INT64_MAX, duration, sizeof(duration));
	if (us == 0)
		(void)snprintf(text, size, "-");
	else
		(void)snprintf(text, size, us > now_us ? "in %s" : "%s ago", duration);
}
