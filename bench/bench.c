/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bench: chooses scenarios, runs each round of each scenario in a process of its own, and prints the figures.
 *
 * Rounds go around the rows of a scenario (subjects, producer counts, sizes), so that a minute of other load on the
 * machine affects all rows alike.  A run that breaks the law (run.h), crashes or takes too long makes the whole bench
 * fail.  Interrupted, it reports the rounds that it has.
 */
#include "run.h"
#include "program.h"
#include "report.h"
#include "measure.h"
#include "options.h"
#include "subjects.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROWS_MAX 256
#define RUN_SECONDS_MAX 180
#define WARM_BYTES_EACH ((size_t)96)
#define WARM_BYTES_MAX ((size_t)512 << 20)
#define QUICK_DIVISOR 10

static struct options options;
static const struct subject *subjects[SUBJECTS_MAX + 1];

static const struct scenario *const lists[] = { scenarios_load,   scenarios_churn,  scenarios_fire, scenarios_idle,
						scenarios_steady, scenarios_growth, scenarios_tail, scenarios_loop };
#define LISTS (sizeof(lists) / sizeof(lists[0]))

struct row {
	struct run run;
	double figures[FIGURES_MAX][ROUNDS_MAX];
	unsigned rounds; /* that succeeded */
	char absent[200];
};

static struct outcome *shared_outcome; /* shared with the children */
static bool failed;
static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
	interrupted = signal_number;
}

/*
 * In a virtual machine the first touch of a page may involve the host, and take several times as long.  Which pages are
 * affected depends on earlier programs: so this touches enough pages first, and hands them back to the kernel.
 */
static void warm_memory(const struct run *run)
{
	size_t bytes = run->n < WARM_BYTES_MAX / WARM_BYTES_EACH ? run->n * WARM_BYTES_EACH : WARM_BYTES_MAX;

	if (!run->scenario->churn)
		untouch(touched(bytes, 1), bytes, 1);
}

static void child(const struct scenario *scenario, const struct run *run)
{
	struct outcome outcome = { .complete = false };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGINT, SIG_DFL);
	(void)alarm(RUN_SECONDS_MAX);
	if (run->subject->program)
		program_run(run, &outcome);
	else
		scenario->run(run, &outcome);
	outcome.complete = true;
	*shared_outcome = outcome;
	_exit(0); /* the parent prints the buffers */
}

static void await(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		if (interrupted)
			(void)kill(pid, SIGKILL);
	if (WIFSIGNALED(status))
		outcome_wrong(shared_outcome, "killed by signal %d%s", WTERMSIG(status),
			      WTERMSIG(status) == SIGALRM ? ": it took too long" : "");
	else if (!shared_outcome->complete || WEXITSTATUS(status) != 0)
		outcome_wrong(shared_outcome, "ended before its time, status %d", WEXITSTATUS(status));
}

static void run_round(const struct scenario *scenario, struct row *row)
{
	pid_t pid;

	memset(shared_outcome, 0, sizeof(*shared_outcome));
	warm_memory(&row->run); /* in the parent: in the child it would count for the peak */
	pid = fork();
	if (pid == 0)
		child(scenario, &row->run);
	if (pid < 0)
		outcome_wrong(shared_outcome, "fork: %s", strerror(errno));
	else
		await(pid);
	if (interrupted)
		return;
	if (shared_outcome->absent) {
		memcpy(row->absent, shared_outcome->why, sizeof(row->absent));
		return;
	}
	if (shared_outcome->why[0] != '\0') {
		fprintf(stderr, "%s%s %s, %u producers, n %zu: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "",
			scenario->name, row->run.subject->name, row->run.producers, row->run.n, shared_outcome->why);
		failed = true;
		return;
	}
	for (size_t i = 0; i < shared_outcome->count; i++)
		row->figures[i][row->rounds] = shared_outcome->figures[i];
	row->rounds++;
}

static void progress(const struct scenario *scenario, const struct row *row, unsigned round, unsigned rounds)
{
	if (!isatty(STDERR_FILENO))
		return;
	if (!scenario)
		fputs("\r\033[K", stderr);
	else
		fprintf(stderr, "\r\033[K%s %s, %u producers, n %zu: round %u of %u", scenario->name,
			row->run.subject->name, row->run.producers, row->run.n, round + 1, rounds);
}

/* Returns the size of a row for one subject. */
static size_t size_of(const struct scenario *scenario, const struct subject *subject, size_t size)
{
	size_t max = SIZE_MAX;

	if (size == 0)
		return 0; /* the row with which the others are compared */
	if (options.n)
		size = options.n;
	else if (options.quick)
		size /= QUICK_DIVISOR;
	if (scenario->churn && subject->churn_max)
		max = options.quick ? subject->churn_max / QUICK_DIVISOR : subject->churn_max;
	else if (!scenario->churn && subject->pending_max)
		max = subject->pending_max();
	return size < max ? size : max;
}

static int64_t window_of(const struct scenario *scenario)
{
	if (options.quick)
		return 300 * NS_PER_MS;
	if (strcmp(scenario->name, "S5") == 0) /* wake-ups every few seconds must be visible */
		return 10 * NS_PER_S;
	return scenario->slow ? 1500 * NS_PER_MS : 2000 * NS_PER_MS;
}

static bool takes_part(const struct subject *subject, const struct scenario *scenario)
{
	char name[32];

	if (subject->rank > scenario->rank || scenario->driven != (subject->advance != NULL))
		return false;
	(void)snprintf(name, sizeof(name), " %s ", scenario->name);
	return !subject->only || strstr(subject->only, name);
}

static bool is_there(const struct row *rows, size_t count, const struct run *run)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].run.subject == run->subject && rows[i].run.n == run->n &&
		    rows[i].run.producers == run->producers)
			return true;
	return false;
}

static size_t make_rows(const struct scenario *scenario, struct row *rows)
{
	static const unsigned one[] = { 1, 0 }, quick[] = { 1, 4, 0 };
	const unsigned *producers = scenario->producers[0] ? scenario->producers : one;
	size_t count = 0;

	if (scenario->producers[0] && options.quick)
		producers = quick;
	if (scenario->producers[0] && options.producers[0])
		producers = options.producers;
	for (size_t i = 0; i < SIZES_MAX && scenario->sizes[i] != SIZE_END; i++)
		for (const unsigned *p = producers; p - producers < PRODUCERS_LIST_MAX && *p; p++)
			for (const struct subject *const *s = subjects; *s && count < ROWS_MAX; s++) {
				struct run run = { .subject = *s,
						   .scenario = scenario,
						   .n = size_of(scenario, *s, scenario->sizes[i]),
						   .producers = *p,
						   .tick_ns = scenario->tick_ns,
						   .variant = scenario->variant,
						   .window_ns = window_of(scenario),
						   .quick = options.quick,
						   .pinned = options.pinned };

				if (takes_part(*s, scenario) && !((*s)->producers_max && *p > (*s)->producers_max) &&
				    !is_there(rows, count, &run))
					rows[count++].run = run;
			}
	return count;
}

static void report_rows(const struct scenario *scenario, struct row *rows, size_t count, unsigned rounds)
{
	report_scenario(scenario, rounds);
	for (size_t i = 0; i < count; i++) {
		double *values[FIGURES_MAX];

		for (size_t f = 0; f < FIGURES_MAX; f++)
			values[f] = rows[i].figures[f];
		if (rows[i].rounds == 0 && rows[i].absent[0] != '\0')
			report_absent(&rows[i].run, rows[i].absent);
		else if (rows[i].rounds == 0)
			report_absent(&rows[i].run, interrupted ? "not measured" : "failed");
		else
			report_row(scenario, &rows[i].run, values, rows[i].rounds);
	}
}

static void run_scenario(const struct scenario *scenario)
{
	static struct row rows[ROWS_MAX];
	unsigned rounds = options.rounds ? options.rounds : scenario->slow ? ROUNDS_SLOW : ROUNDS_DEFAULT;
	size_t count;

	memset(rows, 0, sizeof(rows));
	count = make_rows(scenario, rows);
	if (count == 0)
		return;
	for (unsigned round = 0; round < rounds; round++)
		for (size_t i = 0; i < count && !interrupted; i++) {
			progress(scenario, &rows[i], round, rounds);
			rows[i].run.seed = round + 1;
			run_round(scenario, &rows[i]);
		}
	progress(NULL, NULL, 0, 0);
	report_rows(scenario, rows, count, rounds);
}

static bool chosen(const struct scenario *scenario)
{
	if (options.scenarios[0])
		return options_name(options.scenarios, scenario->name);
	return scenario->brief || !options.quick;
}

/* Calls act for each scenario that the options name, and returns their number. */
static unsigned each_scenario(void (*act)(const struct scenario *scenario))
{
	unsigned count = 0;

	for (size_t i = 0; i < LISTS; i++)
		for (const struct scenario *scenario = lists[i]; scenario->name; scenario++)
			if (chosen(scenario) && !interrupted) {
				count++;
				act(scenario);
			}
	return count;
}

static void list_scenario(const struct scenario *scenario)
{
	if (options.list)
		printf("%-14s %s\n", scenario->name, scenario->title);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = interrupt }; /* without SA_RESTART: the signal must end a wait */

	if (!options_take(&options, argc, argv))
		return 2;
	if (each_scenario(list_scenario) == 0) {
		fputs("bench: no such scenario\n", stderr);
		return 2;
	}
	if (options.list)
		return subjects_find(argv[0], options.subjects, subjects) ? 0 : 2;
	shared_outcome = mmap(NULL, sizeof(*shared_outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared_outcome == MAP_FAILED) {
		perror("bench: mmap");
		return 1;
	}
	if (options.csv && report_csv(options.csv) != 0) {
		perror(options.csv);
		return 1;
	}
	report_machine(options.quick, !options.n); /* -n asks for brevity */
	if (!subjects_find(argv[0], options.subjects, subjects)) {
		fputs("bench: no such subject\n", stderr);
		return 2;
	}
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	each_scenario(run_scenario);
	if (!report_end()) {
		fputs("bench: the output could not be written\n", stderr);
		return 1;
	}
	return interrupted ? 128 + interrupted : failed ? 1 : 0;
}
