/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Output: the machine, a table a scenario, and the same as CSV.
 *
 * Hidden here: layout.  A figure is printed as its median and then, in brackets, the least and the largest of the
 * rounds; a ~ after the median says that these are more than a factor of two apart.
 */
#include "bench.h"
#include "measure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef BENCH_COMMIT
#define BENCH_COMMIT "unknown"
#endif

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

void report_machine(const struct subject *const *subjects, size_t count, bool quick)
{
	char model[128];
	struct utsname os;

	cpu_model(model, sizeof(model));
	if (uname(&os) != 0)
		(void)snprintf(os.release, sizeof(os.release), "unknown");
	(void)snprintf(machine, sizeof(machine), "%s, %ld cores, Linux %.64s, %s, commit %s", model,
		       sysconf(_SC_NPROCESSORS_ONLN), os.release, COMPILER, BENCH_COMMIT);
	printf("machine  %s\n", machine);
	for (size_t i = 0; i < count; i++)
		printf("subject  %s %s\n", subjects[i]->name, subjects[i]->version());
	printf("floor    clock_gettime %.1f ns, uncontended exchange %.1f ns, the bench itself %.1f ns an operation\n",
	       floor_least(floor_clock_ns), floor_least(floor_exchange_ns), floor_least(floor_bench_ns));
	printf("figures  median (min..max) of the rounds; ~ where max is over twice min%s\n",
	       quick ? "; quick: smaller numbers, noisier figures" : "");
	(void)fflush(stdout);
}

/* Of a column: the last one is not padded. */
static int width(const struct scenario *scenario, size_t index)
{
	return index + 1 < FIGURES_MAX && scenario->figures[index + 1] ? 22 : 0;
}

void report_scenario(const struct scenario *scenario, unsigned rounds)
{
	printf("\n%s: %s, %u rounds\n%-20s", scenario->name, scenario->title, rounds, "");
	for (size_t i = 0; i < FIGURES_MAX && scenario->figures[i]; i++)
		printf(" %-*s", width(scenario, i), scenario->figures[i]);
	putchar('\n');
	(void)fflush(stdout);
}

/* Three digits that tell something, whatever the size. */
static int digits(double value)
{
	return value == 0 ? 0 : value < 10 && value > -10 ? 2 : value < 1000 && value > -1000 ? 1 : 0;
}

void report_row(const struct scenario *scenario, const struct run *run, const struct summary *summaries,
		unsigned rounds)
{
	char label[64], cell[64];

	(void)snprintf(label, sizeof(label), "%s P=%u n=%zu", run->subject->name, run->producers, run->n);
	if (rounds == 0) {
		printf("%-20s failed\n", label);
		return;
	}
	printf("%-20s", label);
	for (size_t i = 0; i < FIGURES_MAX && scenario->figures[i]; i++) {
		const struct summary *s = &summaries[i];

		(void)snprintf(cell, sizeof(cell), "%.*f%s (%.*f..%.*f)", digits(s->median), s->median,
			       s->wide ? "~" : "", digits(s->min), s->min, digits(s->max), s->max);
		printf(" %-*s", width(scenario, i), cell);
		if (csv)
			fprintf(csv, "%s,\"%s\",%s,%u,%zu,%.3f,\"%s\",%.6g,%.6g,%.6g,%u,%d,\"%s\"\n", scenario->name,
				scenario->title, run->subject->name, run->producers, run->n, (double)run->tick_ns / 1e6,
				scenario->figures[i], s->median, s->min, s->max, rounds, run->quick, machine);
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
	fputs("scenario,title,subject,producers,n,tick_ms,figure,median,min,max,rounds,quick,machine\n", csv);
	return 0;
}

bool report_end(void)
{
	bool written = !csv || (!ferror(csv) && fclose(csv) == 0);

	csv = NULL;
	return fflush(stdout) == 0 && written;
}
