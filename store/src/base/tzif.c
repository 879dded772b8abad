/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the bytes of a file of the tz database: TZif, RFC 9636, versions 1 to 4.
 *
 * Structure
 *
 *   A block of 32-bit times (version 1).  Later versions add a block of 64-bit times and a footer.  A block is a head
 *   with six counts, the times, the type that begins at each time, and the types with their offsets; then names and
 *   flags.  The footer is a rule for all later times in the form of TZ in POSIX, in hours west of Greenwich:
 *   IST-1GMT0,M10.5.0,M3.5.0/1.
 *
 * Trap
 *
 *   The bytes may come from anybody.  Counts are compared with the length before they are used, and no offset may
 *   exceed the limit that calendar.c relies on.
 */
#include "base/tzif.h"

#include <ctype.h>

#define HEAD 44
#define OFFSET_MOST INT64_C(93600) /* 26 hours: no clock has ever been set by more */
#define DAY_S INT64_C(86400)

static int damaged(const char *what)
{
	return hwts_fail(EIO, "the zone's file is damaged: %s", what);
}

static uint64_t big_endian(const unsigned char *at, size_t bytes)
{
	uint64_t value = 0;

	while (bytes-- > 0)
		value = value << 8 | *at++;
	return value;
}

/*
 * The footer
 */

/* Returns the place behind a name such as IST or <+0330>.  NULL: not a name. */
static const char *after_name(const char *at)
{
	const char *from = at;

	if (*at == '<') {
		while (isalnum((unsigned char)*++at) || *at == '+' || *at == '-')
			;
		return *at == '>' && at - from >= 4 ? at + 1 : NULL;
	}
	while (isalpha((unsigned char)*at))
		at++;
	return at - from >= 3 ? at : NULL;
}

static const char *read_number(const char *at, int64_t least, int64_t most, int64_t *value)
{
	*value = 0;
	if (!isdigit((unsigned char)*at))
		return NULL;
	while (isdigit((unsigned char)*at) && *value <= most)
		*value = 10 * *value + (*at++ - '0');
	return *value >= least && *value <= most ? at : NULL;
}

/* Reads [+-]h[:mm[:ss]]. */
static const char *read_time(const char *at, int64_t hours_most, int64_t *s)
{
	int64_t sign = *at == '-' ? -1 : 1, part;

	at = read_number(at + (*at == '-' || *at == '+'), 0, hours_most, s);
	*s *= 3600;
	for (int64_t unit = 60; at && *at == ':' && unit > 0; unit /= 60) {
		at = read_number(at + 1, 0, 59, &part);
		*s += part * unit;
	}
	*s *= sign;
	return at;
}

/* Reads ,J60 or ,59 or ,M3.5.0, and /2:00 behind it. */
static const char *read_change(const char *at, struct hwts_tz_change *change)
{
	int64_t *const parts[] = { &change->month, &change->week, &change->weekday };
	static const int64_t least[] = { 1, 1, 0 }, most[] = { 12, 5, 6 };

	*change = (struct hwts_tz_change){ .form = at[0] == ',' ? at[1] : 0, .time_s = 7200 };
	if (change->form == 'M') {
		at++;
		for (size_t i = 0; at && i < HWTS_COUNT(parts); i++)
			at = *at == (i ? '.' : 'M') ? read_number(at + 1, least[i], most[i], parts[i]) : NULL;
	} else if (change->form == 'J') {
		at = read_number(at + 2, 1, 365, &change->day);
	} else {
		at = change->form ? read_number(at + 1, 0, 365, &change->day) : NULL;
	}
	return at && *at == '/' ? read_time(at + 1, 167, &change->time_s) : at;
}

static int read_rule(struct hwts_tz *tz, const char *at)
{
	if (*at == '\0')
		return 0;
	tz->ruled = true;
	at = after_name(at);
	at = at ? read_time(at, 24, &tz->standard_s) : NULL;
	tz->standard_s = -tz->standard_s;
	tz->summer_s = tz->standard_s;
	if (at && *at) {
		tz->changes = true;
		tz->summer_s += 3600;
		at = after_name(at);
		if (at && *at != ',') {
			at = read_time(at, 24, &tz->summer_s);
			tz->summer_s = -tz->summer_s;
		}
		at = at ? read_change(at, &tz->begins) : NULL;
		at = at ? read_change(at, &tz->ends) : NULL;
	}
	return at && *at == '\0' ? 0 : damaged("its rule for later years");
}

static bool is_leap(int64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Days from 1970 to 1 January of the year. */
static int64_t year_begins(int64_t year)
{
	int64_t before = year - 1;

	return 365 * before + before / 4 - before / 100 + before / 400 - 719162;
}

static int64_t day_of(const struct hwts_tz_change *change, int64_t year)
{
	static const int begins[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 };
	int64_t first = year_begins(year), month = change->month, leap = is_leap(year), day, next;

	if (change->form != 'M')
		return first + change->day - (change->form == 'J' && !(leap && change->day >= 60));
	next = first + begins[month] + (month > 1 ? leap : 0);
	first += begins[month - 1] + (month > 2 ? leap : 0);
	day = first + (change->weekday - (first + 4) % 7 + 7) % 7 +
	      7 * (change->week - 1); /* 1 January 1970 was a Thursday */
	return day < next ? day : day - 7;
}

/*
 * Applies the rule.  A change may lie up to seven days outside of its year.  If the changes of two years fall on one
 * time, the later year's counts: so a rule can say that summer time never ends.
 */
static void by_rule(const struct hwts_tz *tz, int64_t at_s, int64_t *offset_s, int64_t *until_s)
{
	int64_t year = 1970 + at_s / (366 * DAY_S), latest_s = INT64_MIN;

	while (year_begins(year + 1) * DAY_S <= at_s)
		year++;
	*offset_s = tz->standard_s;
	*until_s = INT64_MAX;
	for (int64_t of = year - 2; tz->changes && of <= year + 2; of++) {
		int64_t begins_s = day_of(&tz->begins, of) * DAY_S + tz->begins.time_s - tz->standard_s;
		int64_t ends_s = day_of(&tz->ends, of) * DAY_S + tz->ends.time_s - tz->summer_s;
		bool begins_first = begins_s < ends_s;

		for (int i = 0; i < 2; i++) {
			bool begins = begins_first == (i == 0);
			int64_t change_s = begins ? begins_s : ends_s;

			if (change_s > at_s) {
				*until_s = HWTS_MIN(*until_s, change_s);
			} else if (change_s >= latest_s) {
				latest_s = change_s;
				*offset_s = begins ? tz->summer_s : tz->standard_s;
			}
		}
	}
}

/*
 * Blocks
 */

struct block {
	size_t times, types, leaps, names, standards, universals; /* the counts of the head */
	size_t bytes;                                             /* length of the block without the head */
};

static bool read_head(const unsigned char *at, size_t len, size_t wide, struct block *block)
{
	size_t counts[6];

	if (len < HEAD || memcmp(at, "TZif", 4) != 0)
		return false;
	for (size_t i = 0; i < HWTS_COUNT(counts); i++) {
		counts[i] = (size_t)big_endian(at + 20 + 4 * i, 4);
		if (counts[i] > len)
			return false;
	}
	*block = (struct block){ .universals = counts[0],
				 .standards = counts[1],
				 .leaps = counts[2],
				 .times = counts[3],
				 .types = counts[4],
				 .names = counts[5] };
	block->bytes = block->times * (wide + 1) + block->types * 6 + block->names + block->leaps * (wide + 4) +
		       block->standards + block->universals;
	return block->bytes <= len - HEAD;
}

static int check_types(const struct hwts_tz *tz)
{
	for (size_t i = 0; i < tz->type_count; i++) {
		int64_t offset_s = (int32_t)(uint32_t)big_endian(tz->types + 6 * i, 4);

		if (offset_s < -OFFSET_MOST || offset_s > OFFSET_MOST)
			return damaged("an offset of more than a day");
	}
	for (size_t i = 0; i < tz->time_count; i++) {
		if (tz->type_of[i] >= tz->type_count)
			return damaged("a type that it does not have");
		if (i > 0 && hwts_tz_time(tz, i) <= hwts_tz_time(tz, i - 1))
			return damaged("its times are not in order");
	}
	return 0;
}

static int read_block(struct hwts_tz *tz, const unsigned char *at, const struct block *block)
{
	if (block->leaps > 0)
		return hwts_fail(EINVAL, "the zone's file counts leap seconds: it is not of the tz database");
	if (block->types == 0 || block->types > 256 || block->names == 0)
		return damaged("it has no types of time");
	tz->time_count = block->times;
	tz->type_count = block->types;
	tz->times = at;
	tz->type_of = tz->times + block->times * tz->wide;
	tz->types = tz->type_of + block->times;
	return check_types(tz);
}

int hwts_tz_read(struct hwts_tz *tz, const unsigned char *data, size_t len)
{
	char rule[128];
	struct block block;
	const unsigned char *at = data, *end;
	size_t left;

	*tz = (struct hwts_tz){ .wide = 4 };
	if (len == 0 || data[0] == '\0')
		return damaged("it is empty"); /* as after a power failure */
	if (len < 4 || memcmp(data, "TZif", 4) != 0)
		return hwts_fail(EINVAL, "the zone's file is none of the tz database");
	if (!read_head(at, len, tz->wide, &block))
		return damaged("it is cut");
	if (data[4] == '\0')
		return read_block(tz, at + HEAD, &block);
	if (data[4] < '2' || data[4] > '4')
		return damaged("its version is not known");
	at += HEAD + block.bytes;
	tz->wide = 8;
	if (!read_head(at, len - (size_t)(at - data), tz->wide, &block))
		return damaged("it is cut");
	left = len - (size_t)(at - data) - HEAD - block.bytes;
	end = at + HEAD + block.bytes;
	if (left < 2 || left > sizeof(rule) || end[0] != '\n' || end[left - 1] != '\n')
		return damaged("its end is missing");
	memcpy(rule, end + 1, left - 2);
	rule[left - 2] = '\0';
	if (strlen(rule) < left - 2 || read_rule(tz, rule) != 0)
		return damaged("its rule for later years");
	return read_block(tz, at + HEAD, &block);
}

int64_t hwts_tz_time(const struct hwts_tz *tz, size_t i)
{
	uint64_t value = big_endian(tz->times + i * tz->wide, tz->wide);

	return tz->wide == 8 ? (int64_t)value : (int32_t)(uint32_t)value;
}

void hwts_tz_at(const struct hwts_tz *tz, int64_t at_s, int64_t *offset_s, int64_t *until_s)
{
	/* Low: these times are <= at_s; high: the times from here on are later. */
	size_t low = 0, high = tz->time_count;
	unsigned type = 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (hwts_tz_time(tz, middle) <= at_s)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == tz->time_count && tz->ruled) {
		by_rule(tz, at_s, offset_s, until_s);
		return;
	}
	if (low > 0)
		type = tz->type_of[low - 1];
	*offset_s = (int32_t)(uint32_t)big_endian(tz->types + 6 * (size_t)type, 4);
	*until_s = low < tz->time_count ? hwts_tz_time(tz, low) : INT64_MAX;
}
