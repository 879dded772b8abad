/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bench: chooses scenarios, runs each round of each in a process of its own, and prints what they found.
 *
 * Rounds go around the rows of a scenario (subjects, producer counts, sizes), so that a minute in which the machine is
 * busy with something else strikes them all alike.  A run that breaks the law (see bench.h), crashes or takes too long
 * makes the whole bench fail.
 */
#include "bench.h"
#include "measure.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS_MAX 100
#define PRODUCERS_MAX 256
#define ROWS_MAX 64
#define RUN_SECONDS_MAX 120
#define LIST_MAX 16
#define WARM_BYTES_EACH ((size_t)96)
#define WARM_BYTES_MAX ((size_t)512 << 20)

static const struct subject *const subjects[] = { &subject_hwt };
#define SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))

static struct options {
	char *scenarios[LIST_MAX + 1]; /* none: all */
	unsigned producers[LIST_MAX];
	size_t producer_count;
	size_t n; /* 0: the scenario's own */
	unsigned rounds;
	bool rounds_given, quick, pinned;
	const char *csv;
} options = { .producers = { 1, 2, 4 }, .producer_count = 3, .rounds = ROUNDS_DEFAULT };

static const char usage[] = "usage: bench [-s SCENARIO,...] [-p PRODUCERS,...] [-n N] [-r ROUNDS] [-q] [-a] [-c FILE]\n"
			    "  -s  scenarios: S1 S1at S1w S1wat S2 S2w S3 first S4 drift S5 S6 S6c; default all\n"
			    "  -p  numbers of producer threads, default 1,2,4\n"
			    "  -n  timeouts (S2: pairs), default as benchmarked\n"
			    "  -r  rounds, default 5, and 3 for what is slow\n"
			    "  -q  quick: a tenth of the timeouts, short windows, 2 rounds, 1 and 2 producers\n"
			    "  -a  pin each producer to a core\n"
			    "  -c  write CSV as well\n";

struct row {
	struct run run;
	double figures[FIGURES_MAX][ROUNDS_MAX];
	unsigned rounds; /* that went well */
};

static struct outcome *shared_outcome; /* with the children */
static bool failed;

/*
 * In a virtual machine the first touch of a page may be the host's business too, and take several times as long.  Which
 * pages that strikes depends on what ran before: so pages enough are touched and handed back to the kernel first.
 */
static void warm_memory(size_t n)
{
	size_t bytes = n < WARM_BYTES_MAX / WARM_BYTES_EACH ? n * WARM_BYTES_EACH : WARM_BYTES_MAX;

	untouch(touched(bytes, 1), bytes, 1);
}

static void child(const struct scenario *scenario, const struct run *run)
{
	struct outcome outcome = { .complete = false };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)alarm(RUN_SECONDS_MAX);
	scenario->run(run, &outcome);
	outcome.complete = true;
	*shared_outcome = outcome;
	_exit(0); /* what is left in buffers is the parent's to print */
}

static void run_round(const struct scenario *scenario, struct row *row)
{
	int status = 0;
	pid_t pid;

	memset(shared_outcome, 0, sizeof(*shared_outcome));
	warm_memory(row->run.n); /* here, as it would count for the child's peak */
	pid = fork();
	if (pid == 0)
		child(scenario, &row->run);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0)
		outcome_wrong(shared_outcome, "fork: %s", strerror(errno));
	else if (WIFSIGNALED(status))
		outcome_wrong(shared_outcome, "killed by signal %d%s", WTERMSIG(status),
			      WTERMSIG(status) == SIGALRM ? ": it took too long" : "");
	else if (!shared_outcome->complete || WEXITSTATUS(status) != 0)
		outcome_wrong(shared_outcome, "ended before its time, status %d", WEXITSTATUS(status));
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

static size_t size_of(const struct scenario *scenario, size_t index)
{
	size_t size = scenario->sizes[index];

	if (size == 0)
		return 0; /* the row that the others are compared with */
	if (options.n)
		return options.n;
	return options.quick ? size / 10 : size;
}

static int64_t window_of(const struct scenario *scenario)
{
	if (options.quick)
		return 300 * NS_PER_MS;
	return scenario->slow ? 1500 * NS_PER_MS : 2000 * NS_PER_MS;
}

static size_t make_rows(const struct scenario *scenario, struct row *rows)
{
	size_t count = 0, producer_counts = scenario->by_producers ? options.producer_count : 1, previous = SIZE_END;

	for (size_t i = 0; i < SIZES_MAX && scenario->sizes[i] != SIZE_END; i++) {
		size_t n = size_of(scenario, i);

		if (n == previous) /* -n makes them alike */
			continue;
		previous = n;
		for (size_t p = 0; p < producer_counts; p++)
			for (size_t s = 0; s < SUBJECTS && count < ROWS_MAX; s++)
				rows[count++].run =
				    (struct run){ .subject = subjects[s],
						  .n = n,
						  .producers = scenario->by_producers ? options.producers[p] : 1,
						  .tick_ns = scenario->tick_ns,
						  .variant = scenario->variant,
						  .window_ns = window_of(scenario),
						  .quick = options.quick,
						  .pinned = options.pinned };
	}
	return count;
}

static void run_scenario(const struct scenario *scenario)
{
	static struct row rows[ROWS_MAX];
	unsigned rounds = scenario->slow && !options.rounds_given && options.rounds > 3 ? 3 : options.rounds;
	size_t count;

	memset(rows, 0, sizeof(rows));
	count = make_rows(scenario, rows);
	for (unsigned round = 0; round < rounds; round++)
		for (size_t i = 0; i < count; i++) {
			progress(scenario, &rows[i], round, rounds);
			rows[i].run.seed = round + 1;
			run_round(scenario, &rows[i]);
		}
	progress(NULL, NULL, 0, 0);
	report_scenario(scenario, rounds);
	for (size_t i = 0; i < count; i++) {
		struct summary summaries[FIGURES_MAX];

		for (size_t f = 0; f < FIGURES_MAX; f++)
			summaries[f] = summarise(rows[i].figures[f], rows[i].rounds);
		report_row(scenario, &rows[i].run, summaries, rows[i].rounds);
	}
}

/* How many scenarios of this list have been asked for; runs them, unless this is only about counting. */
static unsigned run_list(const struct scenario *list, const char *only, bool counting)
{
	unsigned count = 0;

	for (; list->name; list++) {
		bool chosen = only ? strcmp(only, list->name) == 0 : !options.scenarios[0];

		for (size_t i = 0; !only && options.scenarios[i]; i++)
			chosen |= strcmp(options.scenarios[i], list->name) == 0;
		count += chosen;
		if (chosen && !counting)
			run_scenario(list);
	}
	return count;
}

static bool whole_number(const char *text, size_t max, size_t *out)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (end == text || *end != '\0' || *text == '-' || errno != 0 || value < 1 || value > max)
		return false;
	*out = (size_t)value;
	return true;
}

static bool take_scenarios(char *list)
{
	size_t count = 0;

	for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
		if (count == LIST_MAX || run_list(scenarios_load, name, true) + run_list(scenarios_fire, name, true) +
						 run_list(scenarios_idle, name, true) ==
					     0)
			return false;
		options.scenarios[count++] = name;
	}
	options.scenarios[count] = NULL;
	return count > 0;
}

static bool take_producers(char *list)
{
	options.producer_count = 0;
	for (char *number = strtok(list, ","); number; number = strtok(NULL, ",")) {
		size_t value;

		if (options.producer_count == LIST_MAX || !whole_number(number, PRODUCERS_MAX, &value))
			return false;
		options.producers[options.producer_count++] = (unsigned)value;
	}
	return options.producer_count > 0;
}

static bool take_options(int argc, char **argv)
{
	bool producers_given = false;
	size_t number;
	int option;

	while ((option = getopt(argc, argv, "s:p:n:r:qac:")) != -1) {
		bool good = true;

		switch (option) {
		case 's':
			good = take_scenarios(optarg);
			break;
		case 'p':
			good = producers_given = take_producers(optarg);
			break;
		case 'n':
			good = whole_number(optarg, 100000000, &options.n);
			break;
		case 'r':
			good = options.rounds_given = whole_number(optarg, ROUNDS_MAX, &number);
			options.rounds = good ? (unsigned)number : 0;
			break;
		case 'q':
			options.quick = true;
			break;
		case 'a':
			options.pinned = true;
			break;
		case 'c':
			options.csv = optarg;
			break;
		default:
			good = false;
		}
		if (!good)
			return false;
	}
	if (options.quick && !options.rounds_given)
		options.rounds = 2;
	if (options.quick && !producers_given)
		options.producer_count = 2;
	return optind == argc;
}

int main(int argc, char **argv)
{
	if (!take_options(argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	shared_outcome = mmap(NULL, sizeof(*shared_outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared_outcome == MAP_FAILED) {
		perror("bench: mmap");
		return 1;
	}
	if (options.csv && report_csv(options.csv) != 0) {
		perror(options.csv);
		return 1;
	}
	report_machine(subjects, SUBJECTS, options.quick);
	run_list(scenarios_load, NULL, false);
	run_list(scenarios_fire, NULL, false);
	run_list(scenarios_idle, NULL, false);
	if (!report_end()) {
		fputs("bench: the output could not be written\n", stderr);
		return 1;
	}
	return failed ? 1 : 0;
}
