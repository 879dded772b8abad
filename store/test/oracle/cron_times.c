/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What hwt_store_next_time says of 200 lines in the zones that are named, for other programs to compare; cron.sh.
 *
 *   cron_times YEARS ZONE...     from 2026 on
 *
 * Around each change of a clock, from 30 hours before to 30 hours after it, all times of a line (of one that runs often,
 * 3 hours); and in each year its first time after a random moment.  A line of output is a window:
 *
 *   zone <tab> line <tab> after <tab> until <tab> change <tab> by <tab> offset before <tab> offset after <tab> times...
 *
 * in seconds; change 0: no clock changes there.  until 0: the first time after, and no other.
 */
#include "base/calendar.h"

#include <stdio.h>
#include <stdlib.h>

#define HOUR_S 3600
#define YEAR_S (365 * 86400)
#define BEGIN_S INT64_C(1767225600) /* 2026 */
#define LINES 200
#define OFTEN 40 /* times in 60 hours */

static char lines[LINES][80];
static uint64_t seed = 20260101;

static unsigned below(unsigned n)
{
	seed += UINT64_C(0x9e3779b97f4a7c15);
	return (unsigned)(hwts_mix(seed) % n);
}

static void add(char *line, const char *format, unsigned a, unsigned b, unsigned c)
{
	size_t len = strlen(line);

	(void)snprintf(line + len, sizeof(lines[0]) - len, format, a, b, c);
}

/* Draws a number, a range with or without a step, a list, a star, or a star with a step. */
static void add_field(char *line, unsigned least, unsigned most, bool star)
{
	unsigned a = least + below(most - least), b = a + 1 + below(most - a), kind = below(star ? 6 : 4);

	switch (kind) {
	case 0:
		add(line, "%u-%u ", a, b, 0);
		break;
	case 1:
		add(line, "%u-%u/%u ", a, b, 1 + below(b - a));
		break;
	case 2:
		add(line, "%u,%u ", a, b, 0);
		break;
	case 3:
		add(line, "%u ", b, 0, 0);
		break;
	case 4:
		add(line, "* ", 0, 0, 0);
		break;
	default:
		add(line, "*/%u ", 2 + below(most / 2), 0, 0);
	}
}

/* Others read two day fields of which one is a star with a step in another way, so there is no such. */
static void make_lines(void)
{
	static const char *const known[] = {
		"0 * * * *",    "30 * * * *",   "*/15 * * * *", "*/30 * * * *", "0 0 * * *",     "30 0 * * *",
		"0 1 * * *",    "30 1 * * *",   "0 2 * * *",    "15 2 * * *",   "30 2 * * *",    "0 3 * * *",
		"30 3 * * *",   "45 23 * * *",  "*/30 2 * * *", "30 */2 * * *", "0 */6 * * *",   "0 0 1 * *",
		"0 0 * * 0",    "30 2 * * 0",   "30 2 * * 6",   "30 2 1-7 * *", "0 12 * * 1-5",  "0 9 1 1 *",
		"0 0 29 2 *",   "0 0 31 * *",   "0 0 13 * 5",   "0 0 1 * 1",    "59 23 31 12 *", "0,15,45 2 * * *",
		"30 1-3 * * *", "0 0,12 * * *", "30 0-4 * * *", "0 2,3 * * *",  "0 0 * 3 *",     "0 0 * 3,10 0",
	};

	for (size_t i = 0; i < LINES; i++) {
		if (i < HWTS_COUNT(known)) {
			(void)strcpy(lines[i], known[i]);
			continue;
		}
		add_field(lines[i], 0, 59, below(2) == 0);
		add_field(lines[i], 0, below(2) == 0 ? 4 : 23, true);
		if (below(2) == 0)
			add_field(lines[i], 1, 31, false);
		else
			add(lines[i], "* ", 0, 0, 0);
		if (below(3) == 0)
			add_field(lines[i], 1, 12, false);
		else
			add(lines[i], "* ", 0, 0, 0);
		if (below(2) == 0)
			add_field(lines[i], 0, 6, false);
		else
			add(lines[i], "*", 0, 0, 0);
		if (lines[i][strlen(lines[i]) - 1] == ' ')
			lines[i][strlen(lines[i]) - 1] = '\0';
	}
}

/* The first time after; HWTS_NEVER: none. */
static int64_t next_time(const char *line, const char *zone, int64_t after_s)
{
	char error[256];
	int64_t us;
	int rc = hwt_store_next_time(line, zone, after_s * HWTS_S_US, &us, error, sizeof(error));

	if (rc == 0)
		return us / HWTS_S_US;
	if (!strstr(error, "ten years")) {
		fprintf(stderr, "cron_times: \"%s\" in %s: %s\n", line, zone, error);
		exit(1);
	}
	return HWTS_NEVER;
}

struct change {
	int64_t at_s, before_s, after_s; /* offsets */
};

static void print_window(const char *zone, const char *line, const struct change *change, int64_t hours)
{
	int64_t from_s = change->at_s - hours * HOUR_S, until_s = change->at_s + hours * HOUR_S, times[OFTEN + 1], s;
	size_t count = 0;

	for (s = next_time(line, zone, from_s); s < until_s && count <= OFTEN; s = next_time(line, zone, s))
		times[count++] = s;
	if (count > OFTEN) {
		if (hours > 3)
			print_window(zone, line, change, 3);
		return;
	}
	printf("%s\t%s\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld", zone, line, (long long)from_s, (long long)until_s,
	       (long long)change->at_s, (long long)(change->after_s - change->before_s), (long long)change->before_s,
	       (long long)change->after_s);
	for (size_t i = 0; i < count; i++)
		printf("\t%lld", (long long)times[i]);
	printf("\n");
}

/* The offset at a moment, and the change that comes next. */
static struct change change_after(const char *name, int64_t from_s, int64_t end_s)
{
	const struct hwts_zone *zone;
	struct change change = { .at_s = end_s };

	if (hwts_zone_open(name, &zone) != 0) {
		fprintf(stderr, "cron_times: %s: %s\n", name, hwt_store_error());
		exit(1);
	}
	hwts_zone_at(zone, from_s, end_s, &change.before_s, &change.at_s);
	if (change.at_s < end_s)
		hwts_zone_at(zone, change.at_s, end_s + YEAR_S, &change.after_s, &(int64_t){ 0 });
	hwts_zone_close(zone);
	return change;
}

static void print_zone(const char *zone, int years)
{
	int64_t end_s = BEGIN_S + (int64_t)years * YEAR_S;

	for (int64_t from_s = BEGIN_S; from_s < end_s;) {
		struct change change = change_after(zone, from_s, end_s);

		for (size_t i = 0; i < LINES && change.at_s < end_s; i++)
			if (change.after_s != change.before_s)
				print_window(zone, lines[i], &change, 30);
		from_s = change.at_s;
	}
	for (int year = 0; year < years; year++)
		for (size_t i = 0; i < LINES; i++) {
			int64_t after_s = BEGIN_S + (int64_t)year * YEAR_S + below(YEAR_S);
			struct change now = change_after(zone, after_s, end_s + YEAR_S);
			int64_t s = next_time(lines[i], zone, after_s);

			printf("%s\t%s\t%lld\t0\t0\t0\t%lld\t%lld\t%lld\n", zone, lines[i], (long long)after_s,
			       (long long)now.before_s, (long long)now.before_s, (long long)(s == HWTS_NEVER ? 0 : s));
		}
}

int main(int argc, char **argv)
{
	make_lines();
	for (int i = 2; i < argc; i++)
		print_zone(argv[i], atoi(argv[1]));
	return 0;
}
