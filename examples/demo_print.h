/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the demos print: colours only on a terminal, blocks only where the locale has them; a chart of lateness.
 */
#ifndef DEMO_PRINT_H
#define DEMO_PRINT_H

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "histogram.h"

#define BAR_WIDTH 40
#define BARS 11

static struct {
	bool terminal, utf8;
	const char *bold, *good, *bad, *plain;
} style;

static void style_choose(void)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	style.terminal = isatty(STDOUT_FILENO) && (term == NULL || strcmp(term, "dumb") != 0);
	style.utf8 = setlocale(LC_CTYPE, "") != NULL && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	style.bold = style.good = style.bad = style.plain = "";
	if (style.terminal && (no_color == NULL || *no_color == '\0')) {
		style.bold = "\033[1m";
		style.good = "\033[32m";
		style.bad = "\033[1;31m";
		style.plain = "\033[0m";
	}
}

static const char *ok_or_wrong(bool ok)
{
	static char text[2][32];

	snprintf(text[ok], sizeof(text[ok]), "%s%-5s%s", ok ? style.good : style.bad, ok ? "ok" : "WRONG", style.plain);
	return text[ok];
}

static void print_bar(uint64_t count, uint64_t most)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	uint64_t units = most != 0 ? (count * BAR_WIDTH * 8 + most - 1) / most : 0;

	for (uint64_t i = 0; i < units / 8; i++)
		fputs(style.utf8 ? "█" : "#", stdout);
	if (style.utf8)
		fputs(eighths[units % 8], stdout);
	else if (units > 0 && units < 8)
		fputc('.', stdout);
}

/* By quarters of a tick, as far as a timer without load goes, then doubling.  Leaves its last line open. */
static void print_lateness(const struct histogram *late, int64_t tick_ns)
{
	int64_t bounds[BARS + 1] = { 0, tick_ns / 4, tick_ns / 2, tick_ns * 3 / 4 };
	uint64_t counts[BARS], most = 0;
	int rows = 4;

	for (int i = 4; i < BARS; i++)
		bounds[i] = tick_ns << (i - 4);
	bounds[BARS] = INT64_MAX;
	for (int i = 0; i < BARS; i++) {
		counts[i] = histogram_between(late, bounds[i], bounds[i + 1]);
		most = counts[i] > most ? counts[i] : most;
		rows = i >= rows && counts[i] > 0 ? i + 1 : rows;
	}
	for (int i = 0; i < rows; i++) {
		if (i < BARS - 1)
			printf("    %6.1f .. %6.1f ms ", (double)bounds[i] / 1e6, (double)bounds[i + 1] / 1e6);
		else
			printf("    %6.1f ms or more ", (double)bounds[i] / 1e6);
		printf("%7" PRIu64 "  ", counts[i]);
		print_bar(counts[i], most);
		putchar('\n');
	}
	printf("\n    p50 %.1f ms, p99 %.1f ms, max %.1f ms, %" PRIu64 " early",
	       (double)histogram_quantile(late, 500) / 1e6, (double)histogram_quantile(late, 990) / 1e6,
	       (double)late->max_ns / 1e6, late->negative);
}

#endif /* DEMO_PRINT_H */
