/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines of a crontab: parsing them, and finding the minutes that they name in a calendar without zones.  calendar.c
 * turns these minutes into moments.
 *
 * A field is a set of bits, so the way it was written does not matter, except for "*", which is kept beside the sets:
 * if a day field begins with "*", both day fields must match, otherwise either; if the minute or the hour does, the
 * line follows elapsed time.  Debian's cron(8) does the same.
 *
 * A line that two implementations read differently (5/15, L, ?, 5-1) is refused: it would run at other times than its
 * author has seen elsewhere.
 */
#include "base/calendar.h"

#include <ctype.h>
#include <stdio.h>

#define MINUTES_A_DAY 1440

struct field {
	const char *name, *names; /* names: three letters for each value, from least on */
	unsigned least, most;
};

enum { MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

static const struct field fields[FIELDS] = {
	[MINUTE] = { "minute", "", 0, 59 },
	[HOUR] = { "hour", "", 0, 23 },
	[DAY] = { "day of month", "", 1, 31 },
	[MONTH] = { "month", "janfebmaraprmayjunjulaugsepoctnovdec", 1, 12 },
	[WEEKDAY] = { "day of week", "sunmontuewedthufrisat", 0, 7 },
};

static const struct {
	const char *name, *line;
} shorthands[] = {
	{ "@hourly", "0 * * * *" },  { "@daily", "0 0 * * *" },  { "@weekly", "0 0 * * 0" },
	{ "@monthly", "0 0 1 * *" }, { "@yearly", "0 0 1 1 *" },
};

static int wrong(const struct field *field, const char *why)
{
	return hwts_fail(EINVAL, "the schedule's %s: %s", field->name, why);
}

/*
 * Values and ranges
 */

struct value {
	unsigned number;
	bool is_sunday; /* given by name: 0 as the first day of a range, 7 as the last */
};

static int read_number(const struct field *field, const char **at, unsigned *number)
{
	unsigned value = 0;

	for (; isdigit((unsigned char)**at); (*at)++) {
		if (value > 999)
			return wrong(field, "the number is too large");
		value = 10 * value + (unsigned)(**at - '0');
	}
	*number = value;
	return 0;
}

static int read_name(const struct field *field, const char **at, struct value *value)
{
	size_t len = 0;

	while (isalpha((unsigned char)(*at)[len]))
		len++;
	for (const char *name = field->names; len == 3 && *name; name += 3) {
		if (tolower((unsigned char)(*at)[0]) != name[0] || tolower((unsigned char)(*at)[1]) != name[1] ||
		    tolower((unsigned char)(*at)[2]) != name[2])
			continue;
		*at += len;
		value->number = field->least + (unsigned)(name - field->names) / 3;
		value->is_sunday = field == &fields[WEEKDAY] && value->number == 0;
		return 0;
	}
	return wrong(field, "there is no such name; it is three letters");
}

static int read_value(const struct field *field, const char **at, struct value *value)
{
	char range[64];
	int rc;

	*value = (struct value){ 0 };
	if (isalpha((unsigned char)**at) && *field->names)
		return read_name(field, at, value);
	if (!isdigit((unsigned char)**at))
		return wrong(field, **at == '?' ? "\"?\" is not known: write \"*\""
				    : **at      ? "a number was expected"
						: "it ends where a number was expected");
	rc = read_number(field, at, &value->number);
	if (rc == 0 && (value->number < field->least || value->number > field->most)) {
		(void)snprintf(range, sizeof(range), "%u is not within %u to %u", value->number, field->least,
			       field->most);
		rc = wrong(field, range);
	}
	return rc;
}

/* Reads the part before a step: one value, a range or "*". */
static int read_range(const struct field *field, const char **at, struct value *first, struct value *last, bool *many)
{
	int rc;

	*many = true;
	if (**at == '*') {
		(*at)++;
		first->number = field->least;
		last->number = field->most;
		return 0;
	}
	rc = read_value(field, at, first);
	if (rc != 0)
		return rc;
	*last = *first;
	*many = **at == '-';
	if (!*many)
		return 0;
	(*at)++;
	rc = read_value(field, at, last);
	if (rc != 0)
		return rc;
	if (last->is_sunday)
		last->number = 7;
	if (first->is_sunday && last->is_sunday) /* sun-sun is one day */
		first->number = 7;
	return last->number < first->number ? wrong(field, "the range is reversed") : 0;
}

/* Reads one element of a list. */
static int read_element(const struct field *field, const char **at, uint64_t *set)
{
	struct value first = { 0 }, last = { 0 };
	unsigned step = 1;
	bool many;
	int rc = read_range(field, at, &first, &last, &many);

	if (rc == 0 && **at == '/') {
		if (!many)
			return wrong(field, "a step needs a range or \"*\" before it: 5-59/15, not 5/15");
		(*at)++;
		if (!isdigit((unsigned char)**at))
			return wrong(field, "a step is a number");
		rc = read_number(field, at, &step);
		if (rc == 0 && step == 0)
			rc = wrong(field, "the step is 0");
	}
	for (unsigned i = first.number; rc == 0 && i <= last.number; i += step)
		*set |= UINT64_C(1) << (field == &fields[WEEKDAY] ? i % 7 : i);
	return rc;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static int read_field(const struct field *field, const char **at, uint64_t *set)
{
	int rc;

	*set = 0;
	if (**at == '\0')
		return wrong(field, "it is missing: a line is minute, hour, day of month, month, day of week");
	for (;;) {
		rc = read_element(field, at, set);
		if (rc != 0 || **at != ',')
			break;
		(*at)++;
	}
	if (rc == 0 && **at && !is_blank(**at))
		rc = wrong(field, "only numbers, names, \"*\", \",\", \"-\" and \"/\" are known");
	return rc;
}

/*
 * Lines
 */

static int read_line(struct hwts_cron *cron, const char *line)
{
	const char *at = line;
	uint64_t sets[FIELDS];
	bool stars[FIELDS];

	for (int i = 0; i < FIELDS; i++) {
		int rc;

		while (is_blank(*at))
			at++;
		stars[i] = *at == '*';
		rc = read_field(&fields[i], &at, &sets[i]);
		if (rc != 0)
			return rc;
	}
	while (is_blank(*at))
		at++;
	if (*at)
		return hwts_fail(EINVAL, "the schedule has more than five fields, and the day of week is the last");
	*cron = (struct hwts_cron){ .minutes = sets[MINUTE],
				    .hours = (uint32_t)sets[HOUR],
				    .days = (uint32_t)sets[DAY],
				    .months = (uint32_t)sets[MONTH],
				    .weekdays = (uint32_t)sets[WEEKDAY],
				    .any_day = stars[DAY],
				    .any_weekday = stars[WEEKDAY],
				    .wild = stars[MINUTE] || stars[HOUR] };
	return 0;
}

int hwts_cron_parse(struct hwts_cron *cron, const char *line)
{
	if (!line)
		return hwts_fail(EINVAL, "the schedule is NULL");
	if (strlen(line) > HWTS_SCHEDULE_MAX)
		return hwts_fail(EINVAL, "the schedule is longer than %d bytes", HWTS_SCHEDULE_MAX);
	if (line[0] != '@')
		return read_line(cron, line);
	for (size_t i = 0; i < HWTS_COUNT(shorthands); i++)
		if (strcmp(line, shorthands[i].name) == 0)
			return read_line(cron, shorthands[i].line);
	return hwts_fail(EINVAL, "the schedule's shorthand is none of @hourly @daily @weekly @monthly @yearly");
}

/*
 * Days.  A year begins in March here, so that the leap day is its last.
 */

struct date {
	unsigned month, day, days; /* month and day from 1 on; days: of this month */
};

static int64_t floor_of(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static struct date date_of(int64_t day)
{
	static const unsigned begins[] = { 0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337, 366 };
	int64_t since = day + 719468; /* days since the first of March of the year 0 */
	int64_t cycle = floor_of(since, 146097);
	unsigned rest = (unsigned)(since - cycle * 146097), year, month = 0;
	bool leap;

	/*
	 * Years of 365 days, without the leap days before.  A leap day is the last of its four years, and 29 February
	 * 2000 the last of its 400 years; without the correction it would count as the next year's first day.
	 */
	year = (rest - rest / 1460 + rest / 36524 - rest / 146096) / 365;
	rest -= 365 * year + year / 4 - year / 100;
	year++; /* February belongs to the next calendar year */
	leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
	while (rest >= begins[month + 1])
		month++;
	return (struct date){ month < 10 ? month + 3 : month - 9, rest - begins[month] + 1,
			      month == 11 ? 28 + (unsigned)leap : begins[month + 1] - begins[month] };
}

static bool names_day(const struct hwts_cron *cron, int64_t day, const struct date *date)
{
	unsigned weekday = (unsigned)(day + 4 - 7 * floor_of(day + 4, 7)); /* 1 January 1970 was a Thursday */
	bool by_day = cron->days >> date->day & 1, by_weekday = cron->weekdays >> weekday & 1;

	return cron->any_day || cron->any_weekday ? by_day && by_weekday : by_day || by_weekday;
}

/* Returns the first minute of a day from `from` on.  MINUTES_A_DAY: none. */
static int64_t minute_of(const struct hwts_cron *cron, int64_t from)
{
	unsigned minute = (unsigned)(from % 60);

	for (unsigned hour = (unsigned)(from / 60); hour < 24; hour++, minute = 0) {
		uint64_t rest = cron->minutes >> minute << minute;

		if (!(cron->hours >> hour & 1) || rest == 0)
			continue;
		for (minute = 0; !(rest >> minute & 1);)
			minute++;
		return hour * 60 + minute;
	}
	return MINUTES_A_DAY;
}

int64_t hwts_cron_find(const struct hwts_cron *cron, int64_t from_s, int64_t until_s)
{
	int64_t from = -floor_of(-from_s, 60), day = floor_of(from, MINUTES_A_DAY);
	int64_t minute = from - day * MINUTES_A_DAY;

	while (day * 86400 < until_s) {
		struct date date = date_of(day);

		if (!(cron->months >> date.month & 1)) {
			day += date.days - date.day + 1;
		} else {
			if (names_day(cron, day, &date))
				minute = minute_of(cron, minute);
			else
				minute = MINUTES_A_DAY;
			if (minute < MINUTES_A_DAY) {
				int64_t found_s = day * 86400 + minute * 60;

				return found_s < until_s ? found_s : HWTS_NEVER;
			}
			day++;
		}
		minute = 0;
	}
	return HWTS_NEVER;
}

static unsigned count_bits(uint64_t bits, unsigned *highest)
{
	unsigned count = 0;

	for (unsigned bit = 0; bits >> bit; bit++) {
		count += bits >> bit & 1;
		*highest = bit;
	}
	return count;
}

unsigned hwts_cron_rest(const struct hwts_cron *cron, int64_t after_s, int64_t *last_s, int64_t *end_s)
{
	int64_t day_s = floor_of(after_s, 86400) * 86400;
	unsigned minute = (unsigned)((after_s - day_s) / 60), hour = minute / 60, last_minute = 0, last_hour = hour;
	unsigned none = 0, each_hour = count_bits(cron->minutes, &last_minute);
	unsigned count = cron->hours >> hour & 1 ? count_bits(cron->minutes >> (minute % 60 + 1), &none) : 0;

	count += count_bits(cron->hours >> (hour + 1) << (hour + 1), &last_hour) * each_hour;
	*last_s = day_s + (int64_t)last_hour * 3600 + (int64_t)last_minute * 60;
	*end_s = day_s + 86400;
	return count;
}
