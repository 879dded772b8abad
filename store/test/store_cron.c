/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cron lines and zones, without a store: which lines are refused; the days on which clocks are set; and the next time,
 * compared with a search over all minutes that uses the C library's reading of the zone.
 */
#include "store.h"
#include "base/calendar.h"
#include "base/tzif.h"

#include <time.h>

#define US(seconds) ((int64_t)(seconds)*HWTS_S_US)

/* Converts 2026-03-29 01:00:00 to seconds. */
static int64_t at(const char *text)
{
	struct tm tm = { .tm_isdst = 0 };

	REQUIRE(sscanf(text, "%d-%d-%d %d:%d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
		       &tm.tm_sec) == 6);
	tm.tm_year -= 1900;
	tm.tm_mon--;
	return (int64_t)timegm(&tm);
}

static const char *shown(int64_t us)
{
	static char text[64];
	time_t seconds = (time_t)(us / HWTS_S_US);
	struct tm tm;

	(void)strftime(text, sizeof(text), "%F %T", gmtime_r(&seconds, &tm));
	return text;
}

/* Checks the times of a line after a time, all in UTC; NULL ends them. */
static void check_times(const char *line, const char *zone, const char *after, const char *const *times)
{
	char error[256] = "";
	int64_t us = US(at(after));

	for (; *times != NULL; times++) {
		int rc = hwt_store_next_time(line, zone, us, &us, error, sizeof(error));

		if (rc == 0 && us == US(at(*times)))
			continue;
		fprintf(stderr, "\"%s\" in %s: %s instead of %s, rc %d %s\n", line, zone ? zone : "UTC", shown(us),
			*times, rc, error);
		CHECK(false);
		return;
	}
}
#define TIMES(line, zone, after, ...) check_times(line, zone, after, (const char *const[]){ __VA_ARGS__, NULL })

static void check_refused(const char *line, const char *zone, int expected, const char *word)
{
	char error[256] = "";
	int64_t us = 42;
	int rc = hwt_store_next_time(line, zone, US(at("2026-01-01 00:00:00")), &us, error, sizeof(error));

	if (rc == expected && us == 42 && strstr(error, word) != NULL && strcmp(error, hwt_store_error()) == 0)
		return;
	fprintf(stderr, "\"%s\": rc %d, \"%s\"\n", line ? line : "NULL", rc, error);
	CHECK(false);
}

TEST(a_wrong_line_is_refused_and_the_text_names_the_field)
{
	static const struct {
		const char *line, *word;
	} wrong[] = {
		{ NULL, "schedule" },
		{ "", "minute" },
		{ "   ", "minute" },
		{ "* * * *", "day of week" },
		{ "* * * * * *", "five fields" },
		{ "60 * * * *", "minute: 60" },
		{ "* 24 * * *", "hour: 24" },
		{ "* * 0 * *", "day of month: 0" },
		{ "* * 32 * *", "day of month: 32" },
		{ "* * * 0 *", "month: 0" },
		{ "* * * 13 *", "month: 13" },
		{ "* * * * 8", "day of week: 8" },
		{ "5/15 * * * *", "minute" },
		{ "* mon * * *", "hour" },
		{ "* 2/3 * * *", "hour" },
		{ "* * 1/2 * *", "day of month" },
		{ "* * L * *", "day of month" },
		{ "* * 15W * *", "day of month" },
		{ "* * ? * *", "day of month" },
		{ "* * * * ?", "day of week" },
		{ "* * * * 5L", "day of week" },
		{ "* * * * mon#2", "day of week" },
		{ "30-10 * * * *", "minute: the range is reversed" },
		{ "* 22-6 * * *", "hour: the range is reversed" },
		{ "* * * nov-feb *", "month: the range is reversed" },
		{ "* * * * fri-mon", "day of week: the range is reversed" },
		{ "*/0 * * * *", "minute: the step" },
		{ "*/ * * * *", "minute" },
		{ "*/-2 * * * *", "minute" },
		{ "1, * * * *", "minute" },
		{ ",1 * * * *", "minute" },
		{ "1,,2 * * * *", "minute" },
		{ "1- * * * *", "minute" },
		{ "-1 * * * *", "minute" },
		{ "1-2-3 * * * *", "minute" },
		{ "*5 * * * *", "minute" },
		{ "**  * * * *", "minute" },
		{ "+1 * * * *", "minute" },
		{ "1.5 * * * *", "minute" },
		{ "99999999999999999999 * * * *", "minute" },
		{ "* * * january *", "month" },
		{ "* * * ja *", "month" },
		{ "* * * foo *", "month" },
		{ "* * * * jan", "day of week" },
		{ "* * * * mo", "day of week" },
		{ "* * * * \xc3\xa4", "day of week" },
		{ "* * * *\n*", "month" },
		{ "* * * * *\n", "day of week" },
		{ "@reboot", "shorthand" },
		{ "@Daily", "shorthand" },
		{ "@daily ", "shorthand" },
		{ "@", "shorthand" },
		{ "@every 5m", "shorthand" },
		{ "0 0 30 2 *", "day of month" },
		{ "0 0 31 4,6,9,11 *", "day of month" },
	};
	char longer[140];

	for (size_t i = 0; i < HWTS_COUNT(wrong); i++)
		check_refused(wrong[i].line, NULL, EINVAL, wrong[i].word);
	memset(longer, ' ', sizeof(longer));
	memcpy(longer, "* * * * *", 9);
	longer[128] = '\0';
	check_refused(longer, NULL, EINVAL, "127 bytes");
	longer[127] = '\0';
	TIMES(longer, NULL, "2026-01-01 00:00:00", "2026-01-01 00:01:00");
}

TEST(a_wrong_zone_is_refused)
{
	static const char *const wrong[] = { "",
					     "Europe/Nowhere",
					     "/usr/share/zoneinfo/Europe/Berlin",
					     ":Europe/Berlin",
					     "../zoneinfo/Europe/Berlin",
					     "Europe/../Europe/Berlin",
					     "Europe",
					     "Europe/",
					     "Europe//Berlin",
					     "./UTC",
					     "+05:00",
					     "+05",
					     "Z",
					     "CET-1CEST",
					     "CET-1CEST,M3.5.0,M10.5.0/3",
					     "posix/Europe/Berlin",
					     "right/Europe/Berlin",
					     "localtime",
					     "posixrules",
					     "zone.tab",
					     "tzdata.zi",
					     "zone1970",
					     "Europe/Berlin ",
					     "Europe/Berl\xc3\xadn" };
	char longer[70];

	for (size_t i = 0; i < HWTS_COUNT(wrong); i++)
		check_refused("0 0 * * *", wrong[i], EINVAL, "zone");
	memset(longer, 'a', sizeof(longer));
	longer[64] = '\0';
	check_refused("0 0 * * *", longer, EINVAL, "63 bytes");
	CHECK_INT(hwt_store_next_time("* * * * *", NULL, 0, NULL, NULL, 0), ==, EINVAL);
	CHECK_INT(hwt_store_next_time("* * * * *", NULL, -1, &(int64_t){ 0 }, NULL, 0), ==, EINVAL);
	CHECK_INT(hwt_store_next_time("* * * * *", NULL, INT64_MAX, &(int64_t){ 0 }, NULL, 0), ==, EINVAL);
	CHECK_INT(hwt_store_next_time("* * * * *", NULL, INT64_MIN, &(int64_t){ 0 }, NULL, 0), ==, EINVAL);
	CHECK_INT(hwt_store_next_time("* * * * *", NULL, HWTS_LATEST_US, &(int64_t){ 0 }, NULL, 0), ==, EINVAL);
}

TEST(a_line_says_what_crontab_says)
{
	TIMES("* * * * *", NULL, "2026-01-01 00:00:00", "2026-01-01 00:01:00", "2026-01-01 00:02:00");
	TIMES(" \t0\t0  1 1 * ", NULL, "2026-01-01 00:00:00", "2027-01-01 00:00:00");
	TIMES("*/20 * * * *", NULL, "2026-01-01 00:00:00", "2026-01-01 00:20:00", "2026-01-01 00:40:00",
	      "2026-01-01 01:00:00");
	TIMES("*/100 * * * *", NULL, "2026-01-01 00:00:00", "2026-01-01 01:00:00");
	TIMES("5-59/25 * * * *", NULL, "2026-01-01 00:00:00", "2026-01-01 00:05:00", "2026-01-01 00:30:00",
	      "2026-01-01 00:55:00", "2026-01-01 01:05:00");
	TIMES("10,5,7-8 3 * * *", NULL, "2026-01-01 00:00:00", "2026-01-01 03:05:00", "2026-01-01 03:07:00",
	      "2026-01-01 03:08:00", "2026-01-01 03:10:00", "2026-01-02 03:05:00");
	TIMES("0 0 * MAR-May *", NULL, "2026-05-30 12:00:00", "2026-05-31 00:00:00", "2027-03-01 00:00:00");
	TIMES("007 00 01 02 *", NULL, "2026-01-01 00:00:00", "2026-02-01 00:07:00");
	/* 1 January 2026 was a Thursday. */
	TIMES("0 0 * * 0", NULL, "2026-01-01 00:00:00", "2026-01-04 00:00:00", "2026-01-11 00:00:00");
	TIMES("0 0 * * 7", NULL, "2026-01-01 00:00:00", "2026-01-04 00:00:00", "2026-01-11 00:00:00");
	TIMES("0 0 * * Fri-sun", NULL, "2026-01-01 00:00:00", "2026-01-02 00:00:00", "2026-01-03 00:00:00",
	      "2026-01-04 00:00:00", "2026-01-09 00:00:00");
	TIMES("0 0 * * sun-mon", NULL, "2026-01-01 00:00:00", "2026-01-04 00:00:00", "2026-01-05 00:00:00",
	      "2026-01-11 00:00:00");
	TIMES("0 0 * * sun-sun", NULL, "2026-01-01 00:00:00", "2026-01-04 00:00:00", "2026-01-11 00:00:00");
	TIMES("0 0 * * 5-7/2", NULL, "2026-01-01 00:00:00", "2026-01-02 00:00:00", "2026-01-04 00:00:00",
	      "2026-01-09 00:00:00");
	TIMES("0 0 * * mon,wed", NULL, "2026-01-01 00:00:00", "2026-01-05 00:00:00", "2026-01-07 00:00:00");
	TIMES("@hourly", NULL, "2026-01-01 00:00:00", "2026-01-01 01:00:00", "2026-01-01 02:00:00");
	TIMES("@daily", NULL, "2026-01-01 00:00:00", "2026-01-02 00:00:00");
	TIMES("@weekly", NULL, "2026-01-01 00:00:00", "2026-01-04 00:00:00");
	TIMES("@monthly", NULL, "2026-01-01 00:00:00", "2026-02-01 00:00:00");
	TIMES("@yearly", NULL, "2026-01-01 00:00:00", "2027-01-01 00:00:00");
	TIMES("0 0 29 2 *", NULL, "2026-01-01 00:00:00", "2028-02-29 00:00:00", "2032-02-29 00:00:00");
	TIMES("0 0 29 2 *", NULL, "2096-03-01 00:00:00", "2104-02-29 00:00:00");
	TIMES("59 23 31 12 *", NULL, "2000-01-01 00:00:00", "2000-12-31 23:59:00", "2001-12-31 23:59:00");
}

TEST(it_comes_strictly_after_on_a_full_minute)
{
	int64_t us = 0;

	CHECK_INT(hwt_store_next_time("* * * * *", NULL, 0, &us, NULL, 0), ==, 0);
	CHECK_INT(us, ==, US(60));
	CHECK_INT(hwt_store_next_time("* * * * *", NULL, US(60) - 1, &us, NULL, 0), ==, 0);
	CHECK_INT(us, ==, US(60));
	CHECK_INT(hwt_store_next_time("* * * * *", NULL, US(60), &us, NULL, 0), ==, 0);
	CHECK_INT(us, ==, US(120));
	CHECK_INT(hwt_store_next_time("* * * * *", NULL, US(119) + 999999, &us, NULL, 0), ==, 0);
	CHECK_INT(us, ==, US(120));
}

TEST(a_text_is_cut_and_errno_stays)
{
	char error[8];
	int64_t us;

	errno = 77;
	memset(error, 'x', sizeof(error));
	CHECK_INT(hwt_store_next_time("60 * * * *", NULL, 0, &us, error, sizeof(error)), ==, EINVAL);
	CHECK_INT(strlen(error), ==, 7);
	CHECK_INT(hwt_store_next_time("60 * * * *", "Europe/Nowhere", 0, &us, NULL, 0), ==, EINVAL);
	CHECK_INT(hwt_store_next_time("60 * * * *", NULL, 0, &us, error, 0), ==, EINVAL);
	CHECK_INT(errno, ==, 77);
}

/*
 * Zones
 */

TEST(a_line_without_stars_runs_once_on_each_day_of_change)
{
	/* Berlin, forward: 2:00 becomes 3:00, at 1:00 UTC. */
	TIMES("30 2 * * *", "Europe/Berlin", "2026-03-28 00:00:00", "2026-03-28 01:30:00", "2026-03-29 01:00:00",
	      "2026-03-30 00:30:00");
	TIMES("0,15,45 2 * * *", "Europe/Berlin", "2026-03-28 12:00:00", "2026-03-29 01:00:00", "2026-03-30 00:00:00");
	TIMES("30 1-3 * * *", "Europe/Berlin", "2026-03-28 12:00:00", "2026-03-29 00:30:00", "2026-03-29 01:00:00",
	      "2026-03-29 01:30:00", "2026-03-29 23:30:00");
	TIMES("0 3 * * *", "Europe/Berlin", "2026-03-28 12:00:00", "2026-03-29 01:00:00", "2026-03-30 01:00:00");
	TIMES("30 2 29 3 *", "Europe/Berlin", "2026-03-28 12:00:00", "2026-03-29 01:00:00", "2027-03-29 00:30:00");
	/* At the end of the gap its time has come: the next one is on the next day. */
	TIMES("30 2 * * *", "Europe/Berlin", "2026-03-29 01:00:00", "2026-03-30 00:30:00");
	TIMES("30 2 * * *", "Europe/Berlin", "2026-03-29 01:10:00", "2026-03-30 00:30:00");
	/* Back: 3:00 becomes 2:00, and 2:30 comes at 0:30 and at 1:30 UTC. */
	TIMES("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00:00", "2026-10-25 00:30:00", "2026-10-26 01:30:00");
	TIMES("30 2 * * *", "Europe/Berlin", "2026-10-25 00:30:00", "2026-10-26 01:30:00");
	TIMES("0 2,3 * * *", "Europe/Berlin", "2026-10-24 12:00:00", "2026-10-25 00:00:00", "2026-10-25 02:00:00",
	      "2026-10-26 01:00:00");
	/* A midnight that does not exist, or comes twice. */
	TIMES("@daily", "Africa/Cairo", "2026-04-23 12:00:00", "2026-04-23 22:00:00", "2026-04-24 21:00:00");
	TIMES("@daily", "America/Havana", "2026-03-07 12:00:00", "2026-03-08 05:00:00", "2026-03-09 04:00:00");
	TIMES("30 0 * * *", "America/Havana", "2026-10-31 12:00:00", "2026-11-01 04:30:00", "2026-11-02 05:30:00");
	/* A change by half an hour. */
	TIMES("15 2 * * *", "Australia/Lord_Howe", "2026-10-02 16:00:00", "2026-10-03 15:30:00", "2026-10-04 15:15:00");
	TIMES("45 1 * * *", "Australia/Lord_Howe", "2026-04-03 16:00:00", "2026-04-04 14:45:00", "2026-04-05 15:15:00");
	/* A day that was left out: 30 December 2011 in Samoa. */
	TIMES("0 12 * * *", "Pacific/Apia", "2011-12-29 23:00:00", "2011-12-30 10:00:00", "2011-12-30 22:00:00");
}

TEST(a_line_with_a_star_follows_elapsed_time)
{
	TIMES("30 * * * *", "Europe/Berlin", "2026-03-29 00:00:00", "2026-03-29 00:30:00", "2026-03-29 01:30:00");
	TIMES("30 */2 * * *", "Europe/Berlin", "2026-03-28 23:00:00", "2026-03-28 23:30:00", "2026-03-29 02:30:00");
	TIMES("*/30 2 * * *", "Europe/Berlin", "2026-03-28 12:00:00", "2026-03-30 00:00:00", "2026-03-30 00:30:00");
	TIMES("* 2 29 3 *", "Europe/Berlin", "2026-03-28 12:00:00", "2027-03-29 00:00:00");
	TIMES("30 * * * *", "Europe/Berlin", "2026-10-25 00:00:00", "2026-10-25 00:30:00", "2026-10-25 01:30:00");
	TIMES("*/30 2 * * *", "Europe/Berlin", "2026-10-24 12:00:00", "2026-10-25 00:00:00", "2026-10-25 00:30:00",
	      "2026-10-25 01:00:00", "2026-10-25 01:30:00", "2026-10-26 01:00:00");
	TIMES("@hourly", "Australia/Lord_Howe", "2026-04-04 13:00:00", "2026-04-04 14:00:00", "2026-04-04 15:30:00");
}

TEST(a_zone_that_was_not_used_lately_is_read_again)
{
	static const char *const zones[] = { "Africa/Cairo",     "America/Bogota", "America/Lima", "Asia/Tokyo",
					     "Asia/Kolkata",     "Europe/Paris",   "Europe/Rome",  "Europe/Madrid",
					     "Pacific/Auckland", "Asia/Dubai",     "Asia/Dhaka",   "Asia/Seoul",
					     "Europe/Vienna",    "Europe/Oslo",    "Asia/Manila",  "Asia/Karachi",
					     "America/Denver",   "EST5EDT" };
	unsigned before = atomic_load(&hwts_test_zone_reads);

	for (int i = 0; i < 100; i++)
		TIMES("0 12 1 7 *", "Europe/Paris", "2026-01-01 00:00:00", "2026-07-01 10:00:00");
	CHECK_INT(atomic_load(&hwts_test_zone_reads), <=, before + 1);
	for (size_t i = 0; i < 2 * HWTS_COUNT(zones); i++) {
		int64_t us;

		CHECK_INT(hwt_store_next_time("0 0 * * *", zones[i % HWTS_COUNT(zones)], US(0), &us, NULL, 0), ==, 0);
	}
	TIMES("0 12 1 7 *", "Europe/Paris", "2026-01-01 00:00:00", "2026-07-01 10:00:00");
}

static void copy_file(const char *from, const char *to)
{
	char command[1024], next[256];

	(void)snprintf(next, sizeof(next), "%s.new", to);
	(void)snprintf(command, sizeof(command), "cp '%s' '%s' && mv '%s' '%s'", from, next, next, to);
	REQUIRE(system(command) == 0);
}

TEST(a_new_tz_database_counts_from_the_next_call_on)
{
	char path[192];

	fresh_world();
	(void)snprintf(path, sizeof(path), "%s/Here", world.folder);
	atomic_store(&hwts_test_zones, world.folder);
	check_refused("0 12 * * *", "Here", EINVAL, "zone");
	copy_file("/usr/share/zoneinfo/Europe/Berlin", path);
	TIMES("0 12 * * *", "Here", "2026-07-01 00:00:00", "2026-07-01 10:00:00");
	copy_file("/usr/share/zoneinfo/Asia/Tokyo", path);
	TIMES("0 12 * * *", "Here", "2026-07-01 00:00:00", "2026-07-01 03:00:00");
	copy_file("/usr/share/zoneinfo/tzdata.zi", path);
	check_refused("0 12 * * *", "Here", EINVAL, "zone");
	copy_file("/usr/share/zoneinfo/Europe/Berlin", path);
	TIMES("0 12 * * *", "Here", "2026-07-01 00:00:00", "2026-07-01 10:00:00");
	REQUIRE(unlink(path) == 0);
	check_refused("0 12 * * *", "Here", EINVAL, "zone");
	atomic_store(&hwts_test_zones, "/nowhere");
	check_refused("0 12 * * *", "Europe/Berlin", ENOTSUP, "tzdata");
	TIMES("0 12 * * *", "UTC", "2026-07-01 00:00:00", "2026-07-01 12:00:00");
	atomic_store(&hwts_test_zones, NULL);
}

/*
 * Files of the tz database, real ones and our own
 */

static struct hwts_tz tz;
static unsigned char file[64 << 10];
static size_t file_len;

static void read_bytes(const char *zone)
{
	char path[128];
	FILE *from;

	(void)snprintf(path, sizeof(path), "/usr/share/zoneinfo/%s", zone);
	from = fopen(path, "rb");
	REQUIRE(from != NULL);
	file_len = fread(file, 1, sizeof(file), from);
	(void)fclose(from);
}

static int64_t offset_at(int64_t at_s)
{
	int64_t offset_s, until_s;

	hwts_tz_at(&tz, at_s, &offset_s, &until_s);
	CHECK_INT(until_s, >, at_s);
	return offset_s;
}

/* Reads a file of one block with one type, an hour ahead, and this rule. */
static int read_rule(const char *rule)
{
	static const unsigned char head[44] = { 'T', 'Z', 'i', 'f', '2', [39] = 1, [43] = 4 };
	static const unsigned char type[10] = { 0, 0, 0x0e, 0x10, 0, 0, 'X', 'X', 'X', 0 };

	file_len = 0;
	for (int i = 0; i < 2; i++) {
		memcpy(file + file_len, head, sizeof(head));
		memcpy(file + file_len + sizeof(head), type, sizeof(type));
		file_len += sizeof(head) + sizeof(type);
	}
	file_len += (size_t)sprintf((char *)file + file_len, "\n%s\n", rule);
	return hwts_tz_read(&tz, file, file_len);
}

/* By law the standard time of Ireland is its summer time, and winter time is the exception. */
TEST(a_zone_whose_summer_time_is_behind_its_standard_time)
{
	TIMES("0 12 * * *", "Europe/Dublin", "2036-07-01 00:00:00", "2036-07-01 11:00:00");
	TIMES("0 12 * * *", "Europe/Dublin", "2037-07-01 00:00:00", "2037-07-01 11:00:00");
	TIMES("0 12 * * *", "Europe/Dublin", "2038-01-20 00:00:00", "2038-01-20 12:00:00");
	TIMES("0 12 * * *", "Eire", "2040-07-01 00:00:00", "2040-07-01 11:00:00");
	TIMES("0 12 * * *", "Europe/Dublin", "2100-01-01 00:00:00", "2100-01-01 12:00:00");
	TIMES("0 12 * * *", "Europe/Dublin", "2400-07-01 00:00:00", "2400-07-01 11:00:00");
	TIMES("0 12 * * *", "Europe/Dublin", "1970-07-01 00:00:00", "1970-07-01 11:00:00");
	CHECK_INT(read_rule("IST-1GMT0,M10.5.0,M3.5.0/1"), ==, 0);
	CHECK_INT(offset_at(at("2026-03-29 00:59:59")), ==, 0);
	CHECK_INT(offset_at(at("2026-03-29 01:00:00")), ==, 3600);
	CHECK_INT(offset_at(at("2026-10-25 00:59:59")), ==, 3600);
	CHECK_INT(offset_at(at("2026-10-25 01:00:00")), ==, 0);
}

TEST(a_rule_changes_up_to_a_week_beside_its_day)
{
	/* The second change is at the end of a year, and its time of day reaches into the next year. */
	CHECK_INT(read_rule("AAA0BBB-2:30:15,J60/-167,J365/167"), ==, 0);
	CHECK_INT(offset_at(at("2028-02-22 00:59:59")), ==, 0);
	CHECK_INT(offset_at(at("2028-02-23 01:00:00")), ==, 9015);
	CHECK_INT(offset_at(at("2029-01-06 20:29:44")), ==, 9015);
	CHECK_INT(offset_at(at("2029-01-06 20:29:45")), ==, 0);
	/* In the southern hemisphere; a day that counts 29 February, and one that does not. */
	CHECK_INT(read_rule("<-03>3<-02>,300,J60"), ==, 0);
	CHECK_INT(offset_at(at("2028-01-01 00:00:00")), ==, -7200);
	CHECK_INT(offset_at(at("2028-03-01 03:59:59")), ==, -7200);
	CHECK_INT(offset_at(at("2028-03-01 04:00:00")), ==, -10800);
	CHECK_INT(offset_at(at("2028-10-27 04:59:59")), ==, -10800);
	CHECK_INT(offset_at(at("2028-10-27 05:00:00")), ==, -7200);
	/* Summer time all year: each end is the next begin. */
	CHECK_INT(read_rule("EST5EDT,0/0,J365/25"), ==, 0);
	for (int64_t s = at("2099-12-30 00:00:00"); s < at("2100-01-03 00:00:00"); s += 1800)
		CHECK_INT(offset_at(s), ==, -4 * 3600);
	CHECK_INT(read_rule(""), ==, 0);
	CHECK_INT(offset_at(at("2400-02-29 00:00:00")), ==, 3600);
}

TEST(a_damaged_file_is_refused)
{
	static const char *const wrong[] = { "CET",
					     "C-1",
					     "CET-1CEST",
					     "CET-25",
					     "CET-1CEST,M3.5.0",
					     "CET-1:60",
					     "<CET-1",
					     "<C>-1",
					     "CET-1CEST,M3.5.0,M10.5.0/168",
					     "CET-1 ",
					     "CET-1CEST,M0.5.0,M10.5.0",
					     "CET-1CEST,M13.5.0,M10.5.0",
					     "CET-1\n",
					     "CET-1CEST,M3.6.0,M10.5.0",
					     "CET-1CEST,M3.5.7,M10.5.0",
					     "CET-1CEST,J0,J366",
					     "CET-1CEST,366,0",
					     "CET-1CEST,J1,J2,",
					     ",M3.5.0",
					     "CET-99999999999999999999",
					     "CET-1CEST,M3.5.0/,M10.5.0" };

	for (size_t i = 0; i < HWTS_COUNT(wrong); i++)
		if (read_rule(wrong[i]) != EIO)
			CHECK_INT((int)i, ==, -1);
	read_bytes("Europe/Berlin");
	CHECK_INT(hwts_tz_read(&tz, file, file_len), ==, 0);
	for (size_t len = 0; len < file_len; len++) {
		unsigned char *cut = malloc(len ? len : 1);

		memcpy(cut, file, len);
		CHECK_INT(hwts_tz_read(&tz, cut, len), ==, len > 0 && len < 4 ? EINVAL : EIO);
		free(cut);
	}
	CHECK_INT(read_rule("CET-1"), ==, 0);
	file[4] = '5';
	CHECK_INT(hwts_tz_read(&tz, file, file_len), ==, EIO);
	file[4] = '\0'; /* version 1: one block, and no rule */
	CHECK_INT(hwts_tz_read(&tz, file, file_len), ==, 0);
	CHECK(!tz.ruled);
	CHECK_INT(offset_at(at("2037-07-01 00:00:00")), ==, 3600);
	memset(file + 44, 0x7f, 4); /* an offset of 68 years */
	CHECK_INT(hwts_tz_read(&tz, file, file_len), ==, EIO);
	read_bytes("right/Europe/Berlin");
	CHECK_INT(hwts_tz_read(&tz, file, file_len), ==, EINVAL);
	CHECK(strstr(hwts_fail_text(), "leap") != NULL);
}

static void check_year(const char *zone, int64_t from_s)
{
	REQUIRE(setenv("TZ", zone, 1) == 0);
	tzset();
	for (int64_t s = from_s; s < from_s + 366 * 86400; s += 6 * 3600 - 1) {
		time_t now = (time_t)s;
		struct tm tm;

		if (offset_at(s) != localtime_r(&now, &tm)->tm_gmtoff) {
			fprintf(stderr, "%s at %lld: %lld instead of %ld\n", zone, (long long)s,
				(long long)offset_at(s), tm.tm_gmtoff);
			CHECK(false);
			return;
		}
	}
}

TEST(zones_have_the_offsets_that_the_c_library_shows)
{
	static const char *const zones[] = { "Europe/Berlin",     "Europe/Dublin",       "America/New_York",
					     "America/Sao_Paulo", "Australia/Lord_Howe", "Antarctica/Troll",
					     "Africa/Casablanca", "America/Nuuk",        "Asia/Gaza",
					     "Pacific/Apia",      "America/Santiago",    "Africa/Monrovia" };
	static const char *const years[] = { "1970-01-01 00:00:00", "2026-01-01 00:00:00", "2037-01-01 00:00:00",
					     "2038-01-01 00:00:00", "2100-01-01 00:00:00", "2400-01-01 00:00:00" };

	for (size_t i = 0; i < HWTS_COUNT(zones); i++) {
		read_bytes(zones[i]);
		REQUIRE(hwts_tz_read(&tz, file, file_len) == 0);
		for (size_t j = 0; j < HWTS_COUNT(years); j++)
			check_year(zones[i], at(years[j]));
	}
	REQUIRE(unsetenv("TZ") == 0);
	tzset();
}

static bool refuse(void)
{
	return true;
}

TEST(without_memory_nothing_changes)
{
	char path[192];

	fresh_world();
	(void)snprintf(path, sizeof(path), "%s/Here", world.folder);
	atomic_store(&hwts_test_zones, world.folder);
	copy_file("/usr/share/zoneinfo/Europe/Berlin", path);
	TIMES("0 12 * * *", "Here", "2026-07-01 00:00:00", "2026-07-01 10:00:00");
	copy_file("/usr/share/zoneinfo/Asia/Tokyo", path);
	atomic_store(&hwts_test_refuses_memory, refuse);
	check_refused("0 12 * * *", "Here", ENOMEM, "memory");
	atomic_store(&hwts_test_refuses_memory, NULL);
	TIMES("0 12 * * *", "Here", "2026-07-01 00:00:00", "2026-07-01 03:00:00");
	/* Reports a damaged file, and a file that is too large. */
	REQUIRE(truncate(path, 100) == 0);
	check_refused("0 12 * * *", "Here", EIO, "damaged");
	REQUIRE(truncate(path, 1 << 20) == 0);
	check_refused("0 12 * * *", "Here", EINVAL, "too large");
	REQUIRE(unlink(path) == 0 && mkfifo(path, 0600) == 0);
	check_refused("0 12 * * *", "Here", EINVAL, "zone");
	atomic_store(&hwts_test_zones, NULL);
}

static void *ask_often(void *zone)
{
	for (int i = 0; i < 2000; i++)
		TIMES("0 12 1 * *", zone, "2026-06-15 00:00:00",
		      strcmp(zone, "Europe/Berlin") == 0 ? "2026-07-01 10:00:00" : "2026-07-01 03:00:00");
	return NULL;
}

TEST(threads_ask_for_zones_at_the_same_time)
{
	pthread_t threads[4];
	char zones[2][16] = { "Europe/Berlin", "Asia/Tokyo" };

	for (size_t i = 0; i < HWTS_COUNT(threads); i++)
		REQUIRE(pthread_create(&threads[i], NULL, ask_often, zones[i % 2]) == 0);
	for (size_t i = 0; i < HWTS_COUNT(threads); i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
}

/*
 * Random lines at random times, compared with a search over all minutes
 */

static uint64_t seed;

static unsigned below(unsigned n)
{
	seed += UINT64_C(0x9e3779b97f4a7c15);
	return (unsigned)(hwts_mix(seed) % n);
}

struct set {
	uint64_t values;
	bool star;
};

/* Adds an element to the list of a field, and its values to the set. */
static void add_element(char *line, struct set *set, unsigned least, unsigned most, bool first)
{
	unsigned low = least + below(most - least + 1), high = low + below(most - low + 1), step = 1, kind = below(8);
	char text[48];

	if (kind < 2) {
		low = least;
		high = most;
		(void)strcpy(text, "*");
		set->star |= first;
	} else if (kind < 5) {
		high = low;
		(void)snprintf(text, sizeof(text), "%u", low);
	} else {
		(void)snprintf(text, sizeof(text), "%u-%u", low, high);
	}
	if ((kind < 2 || kind > 4) && below(2) == 0) {
		step = 1 + below(most);
		(void)snprintf(text + strlen(text), 16, "/%u", step);
	}
	for (unsigned i = low; i <= high; i += step)
		set->values |= UINT64_C(1) << i;
	(void)strcat(line, text);
}

static void add_field(char *line, struct set *set, unsigned least, unsigned most)
{
	unsigned count = below(3) == 0 ? 1 + below(3) : 1;

	*set = (struct set){ 0 };
	(void)strcat(line, *line ? " " : "");
	for (unsigned i = 0; i < count; i++) {
		(void)strcat(line, i > 0 ? "," : "");
		add_element(line, set, least, most, i == 0);
	}
}

#define WINDOW_DAYS 400
#define QUARTERS (WINDOW_DAYS * 96)

static struct {
	int64_t begin_s;
	int32_t offsets[QUARTERS]; /* offset in each quarter of an hour, by the C library */
} year;

static void read_year(const char *zone, int64_t begin_s)
{
	REQUIRE(setenv("TZ", zone, 1) == 0);
	tzset();
	year.begin_s = begin_s;
	for (size_t i = 0; i < QUARTERS; i++) {
		time_t now = (time_t)(begin_s + (int64_t)i * 900);
		struct tm tm;

		year.offsets[i] = (int32_t)localtime_r(&now, &tm)->tm_gmtoff;
	}
	REQUIRE(unsetenv("TZ") == 0);
	tzset();
}

static bool names(const struct set *sets, int64_t wall_s)
{
	static _Thread_local struct tm tm;
	static _Thread_local int64_t day = INT64_MIN;
	bool by_day, by_weekday;

	if (wall_s / 86400 != day) {
		time_t midnight = (time_t)(wall_s / 86400 * 86400);

		day = wall_s / 86400;
		(void)gmtime_r(&midnight, &tm);
	}
	by_day = sets[2].values >> tm.tm_mday & 1;
	by_weekday = (sets[4].values >> tm.tm_wday | (tm.tm_wday == 0 ? sets[4].values >> 7 : 0)) & 1;
	return sets[0].values >> (wall_s / 60 % 60) & 1 && sets[1].values >> (wall_s / 3600 % 24) & 1 &&
	       sets[3].values >> (tm.tm_mon + 1) & 1 &&
	       (sets[2].star || sets[4].star ? by_day && by_weekday : by_day || by_weekday);
}

/* Searches minute by minute, by the times that the wall clock shows and has shown. */
static int64_t search(const struct set *sets, int64_t after_s, int64_t until_s)
{
	bool wild = sets[0].star || sets[1].star;
	int64_t shown_s = INT64_MIN;

	for (int64_t now_s = after_s / 60 * 60 - 2 * 86400; now_s < until_s; now_s += 60) {
		int64_t wall_s = now_s + year.offsets[(now_s - year.begin_s) / 900];
		int64_t first_s = shown_s == INT64_MIN ? wall_s : shown_s + 60;

		if (wild)
			first_s = wall_s;
		for (int64_t s = first_s; s <= wall_s; s += 60)
			if (now_s > after_s && names(sets, s))
				return now_s;
		shown_s = wall_s > shown_s ? wall_s : shown_s;
	}
	return HWTS_NEVER;
}

/* Returns the first quarter with another offset than before, from a random quarter on. */
static int64_t near_a_change(void)
{
	unsigned from = 3 * 96 + below(QUARTERS - 30 * 96);

	for (unsigned i = from; i < QUARTERS - 25 * 96 && below(8) > 0; i++)
		if (year.offsets[i] != year.offsets[i - 1])
			return year.begin_s + (int64_t)i * 900 + (int64_t)below(3 * 86400) - 2 * 86400;
	return year.begin_s + (int64_t)from * 900 + below(900);
}

static void check_random_line(const char *zone)
{
	char line[128] = "", error[256] = "";
	struct set sets[5];
	int64_t after_s, found_s, until_s, us = 0;
	int rc;

	do {
		line[0] = '\0';
		add_field(line, &sets[0], 0, 59);
		add_field(line, &sets[1], 0, 23);
		add_field(line, &sets[2], 1, 31);
		add_field(line, &sets[3], 1, 12);
		add_field(line, &sets[4], 0, 7);
	} while (strlen(line) > 110);
	after_s = HWTS_MAX(near_a_change(), year.begin_s + 3 * 86400);
	until_s = after_s + 20 * 86400;
	found_s = search(sets, after_s, until_s);
	rc = hwt_store_next_time(line, zone, US(after_s) + below(1000000), &us, error, sizeof(error));
	if (found_s == HWTS_NEVER ? rc == EINVAL || (rc == 0 && us >= US(until_s)) : rc == 0 && us == US(found_s))
		return;
	fprintf(stderr, "\"%s\" in %s after %lld: %d %lld instead of %lld %s\n", line, zone, (long long)after_s, rc,
		(long long)(us / HWTS_S_US), (long long)found_s, error);
	CHECK(false);
}

TEST(any_line_has_the_time_that_a_search_over_all_minutes_finds)
{
	static const char *const zones[] = { "Europe/Berlin",       "America/New_York", "Australia/Lord_Howe",
					     "America/Havana",      "Africa/Cairo",     "Antarctica/Troll",
					     "Pacific/Chatham",     "America/St_Johns", "America/Nuuk",
					     "Asia/Kathmandu",      "America/Santiago", "Europe/Dublin",
					     "Africa/Casablanca",   "Asia/Gaza",        "UTC",
					     "America/Scoresbysund" };
	unsigned times = HWTS_MAX(scaled(400), 20);

	seed = test_seed("lines");
	for (size_t i = 0; i < HWTS_COUNT(zones); i++) {
		read_year(zones[i], at("2024-01-01 00:00:00") + (int64_t)below(9) * 365 * 86400);
		for (unsigned j = 0; j < times; j++)
			check_random_line(zones[i]);
	}
	/* Samoa left out 30 December 2011. */
	read_year("Pacific/Apia", at("2011-06-01 00:00:00"));
	for (unsigned j = 0; j < times; j++)
		check_random_line("Pacific/Apia");
}

/* Over the nights in which clocks are set, from all times of a day. */
static void check_merge(const char *line, const char *zone, const char *from, const char *to)
{
	struct hwts_grid grid;
	int64_t base_us = 0, now_us = US(at(to)), last_us, next_us = 0;
	uint64_t missed = 0;

	CHECK_INT(hwts_calendar_next(line, zone, US(at(from)), &base_us), ==, 0);
	for (last_us = base_us; hwts_calendar_next(line, zone, last_us, &next_us) == 0 && next_us <= now_us; missed++)
		last_us = next_us;
	CHECK_INT(hwts_calendar_merge(line, zone, base_us, now_us, &grid), ==, 0);
	CHECK_INT(grid.missed, ==, missed);
	CHECK_INT(grid.last_us, ==, last_us);
	CHECK_INT(grid.next_us, ==, next_us);
}

TEST(times_that_are_counted_by_days_are_those_that_come_one_after_the_other)
{
	static const char *const zones[] = { NULL, "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe" },
				 *const lines[] = { "*/3 * * * *",        "7 * * * *",  "*/20 3-5 * * *", "0 0 * * *",
						    "15,45 1,2,23 * * 0", "30 2 * * *", "59 23 * * 1-5" };
	struct hwts_grid grid;

	for (size_t i = 0; i < HWTS_COUNT(zones); i++)
		for (size_t j = 0; j < HWTS_COUNT(lines); j++) {
			check_merge(lines[j], zones[i], "2026-03-27 17:11:00", "2026-04-06 05:06:07");
			check_merge(lines[j], zones[i], "2026-10-24 22:59:59", "2026-11-03 23:00:00");
		}
	/* A time in a gap is due at its end, on a day that the line does not name. */
	check_merge("30 23 * * 6", "America/Nuuk", "2026-03-20 00:00:00", "2026-03-30 02:00:00");
	check_merge("30 12 30 12 *", "Pacific/Apia", "2010-01-01 00:00:00", "2012-01-10 00:00:00");
	CHECK_INT(hwts_calendar_merge("* * * * *", NULL, 0, US(at("2026-01-01 00:00:59")), &grid), ==, 0);
	CHECK_INT(grid.missed, ==, at("2026-01-01 00:00:00") / 60); /* 29 million */
	CHECK_INT(grid.last_us, ==, US(at("2026-01-01 00:00:00")));
}

/* Random bytes, mostly of those that a line has: the parser accepts or refuses them, and never hangs or crashes. */
TEST(any_bytes_are_a_line_or_are_refused)
{
	static const char known[] = "0123456789*,-/ \t@LW?#abcdefghijklmnoprstuvwy";

	seed = test_seed("bytes");
	for (unsigned i = 0; i < scaled(20000); i++) {
		char line[160], error[64];
		unsigned len = below(sizeof(line) - 1);
		int64_t us = 0;
		int rc;

		for (unsigned j = 0; j < len; j++)
			line[j] = (char)(below(50) > 0 ? known[below(sizeof(known) - 1)] : (int)(1 + below(255)));
		line[len] = '\0';
		rc = hwt_store_next_time(line, below(2) ? NULL : line, US(below(2000000000)), &us, error,
					 sizeof(error));
		CHECK(rc == EINVAL || (rc == 0 && us > 0));
	}
}

/* Whatever bytes a file has: it is refused, or each time has an offset of at most 26 hours, and an end after it. */
TEST(any_bytes_are_a_zone_or_are_refused)
{
	static const char *const zones[] = { "Europe/Berlin", "Europe/Dublin", "Asia/Tokyo", "Africa/Casablanca" };
	unsigned taken = 0;

	seed = test_seed("files");
	for (unsigned i = 0; i < scaled(20000); i++) {
		unsigned char *bytes;
		size_t len;

		read_bytes(zones[below(HWTS_COUNT(zones))]);
		len = below(4) ? file_len : below((unsigned)file_len + 1);
		bytes = malloc(len + 1);
		memcpy(bytes, file, len);
		for (unsigned j = below(4); j > 0 && len > 0; j--) {
			size_t where = below(3) ? below((unsigned)len) : len - 1 - below((unsigned)HWTS_MIN(len, 40));

			bytes[where] = (unsigned char)(below(2) ? below(256) : bytes[where] + below(3) - 1);
		}
		if (hwts_tz_read(&tz, bytes, len) == 0) {
			taken++;
			for (int j = 0; j < 8; j++) {
				int64_t offset_s = offset_at((int64_t)below(UINT32_MAX) * 59 - 3 * 86400);

				CHECK(offset_s >= -93600 && offset_s <= 93600);
			}
		}
		free(bytes);
	}
	CHECK_INT(taken, >, 0);
}

int main(int argc, char **argv)
{
	argc = test_run_all(argc, argv);
	end_world();
	return argc;
}
