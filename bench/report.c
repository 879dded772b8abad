/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Output: the machine, a table a scenario, and the same as CSV.
 *
 * Hidden here: layout.  A figure is printed as its median and, in brackets, the least and the largest of the rounds; a
 * ~ after the median says that the two are more than a factor of two apart.
 */
#include "report.h"
#include "measure.h"
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

static FILE *csv;
static char machine[256];

static void cpu_model(char *model, size_t size)
{
	char line[256];
	FILE *file = fopen("/proc/cpuinfo", "r");

	(void)snprintf(model, size, "unknown CPU");
	while (file && fgets(line, sizeof(line), file)) {
		char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || !colon)
			continue;
		line[strcspn(line, "\n")] = '\0';
		(void)snprintf(model, size, "%s", colon + 2);
		break;
	}
	if (file)
		fclose(file);
}

void report_machine(bool quick, bool floors)
{
	char model[128];
	const char *commit = getenv("BENCH_COMMIT"); /* from run.sh: a compiled-in commit could be an older one */
	struct utsname os;

	cpu_model(model, sizeof(model));
	if (uname(&os) != 0)
		(void)snprintf(os.release, sizeof(os.release), "unknown");
	(void)snprintf(machine, sizeof(machine), "%s, %ld cores, Linux %.64s, %s, commit %s", model,
		       sysconf(_SC_NPROCESSORS_ONLN), os.release, COMPILER, commit ? commit : "unknown");
	printf("machine   %s\n", machine);
	if (floors)
		printf(
		    "floor     clock_gettime %.1f ns, uncontended exchange %.1f ns, a line written %.1f ns, the bench "
		    "itself %.1f ns an operation\n",
		    floor_least(floor_clock_ns), floor_least(floor_exchange_ns), floor_least(floor_line_ns),
		    floor_least(floor_bench_ns));
	printf("figures   median (min..max) of the rounds; ~ where max is over twice min%s\n",
	       quick ? "; quick: smaller numbers, noisier figures" : "");
	(void)fflush(stdout);
}

void report_subject(const char *name, const char *version)
{
	printf("subject   %-9s %s\n", name, version);
	(void)fflush(stdout);
}

/* Returns the width of a column.  The last column is not padded. */
static int width(const struct scenario *scenario, size_t index)
{
	return index + 1 < FIGURES_MAX && scenario->figures[index + 1] ? 22 : 0;
}

void report_scenario(const struct scenario *scenario, unsigned rounds)
{
	printf("\n%s: %s, %u rounds\n%-24s", scenario->name, scenario->title, rounds, "");
	for (size_t i = 0; i < FIGURES_MAX && scenario->figures[i]; i++)
		printf(" %-*s", width(scenario, i), scenario->figures[i]);
	putchar('\n');
	(void)fflush(stdout);
}

/* Returns the number of decimals with which a value is printed: fewer for larger values. */
static int digits(double value)
{
	return value == 0 ? 0 : value < 10 && value > -10 ? 2 : value < 1000 && value > -1000 ? 1 : 0;
}

static void label(const struct run *run)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "%s P=%u n=%zu", run->subject->name, run->producers, run->n);
	printf("%-24s", text);
}

void report_absent(const struct run *run, const char *why)
{
	label(run);
	printf(" %s\n", why);
	(void)fflush(stdout);
}

/* Free text comes last and quoted, the other fields hold no comma: awk -F, can split a line up to the text. */
static void csv_figure(const struct scenario *scenario, const struct run *run, const char *figure,
		       const struct summary *s, const double *values, unsigned rounds)
{
	fprintf(csv, "%s,%s,%u,%zu,%g,%s,%.6g,%.6g,%.6g,%d,%u,%d,", scenario->name, run->subject->name, run->producers,
		run->n, (double)run->tick_ns / 1e6, figure, s->median, s->min, s->max, s->wide, rounds, run->quick);
	for (unsigned i = 0; i < rounds; i++)
		fprintf(csv, "%s%.6g", i ? " " : "", values[i]);
	fprintf(csv, ",\"%s\",\"%s\"\n", scenario->title, machine);
}

void report_row(const struct scenario *scenario, const struct run *run, double *const *values, unsigned rounds)
{
	char cell[64];

	label(run);
	for (size_t i = 0; i < FIGURES_MAX && scenario->figures[i]; i++) {
		double unsorted[ROUNDS_MAX];
		struct summary s;

		memcpy(unsorted, values[i], rounds * sizeof(*unsorted));
		s = summarise(values[i], rounds);
		if (isnan(s.median)) {
			printf(" %-*s", width(scenario, i), "-");
			continue;
		}
		(void)snprintf(cell, sizeof(cell), "%.*f%s (%.*f..%.*f)", digits(s.median), s.median, s.wide ? "~" : "",
			       digits(s.min), s.min, digits(s.max), s.max);
		printf(" %-*s", width(scenario, i), cell);
		if (csv)
			csv_figure(scenario, run, scenario->figures[i], &s, unsorted, rounds);
	}
	putchar('\n');
	(void)fflush(stdout);
	if (csv)
		(void)fflush(csv);
}

int report_csv(const char *path)
{
	csv = fopen(path, "w");
	if (!csv)
		return errno;
	fputs("scenario,subject,producers,n,tick_ms,figure,median,min,max,wide,rounds,quick,values,title,machine\n",
	      csv);
	return 0;
}

bool report_end(void)
{
	bool written = !csv || (!ferror(csv) && fclose(csv) == 0);

	csv = NULL;
	return fflush(stdout) == 0 && written;
}
