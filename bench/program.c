/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subjects that are programs of their own, since they are in other languages.
 *
 * They are called with: SCENARIO PRODUCERS N TICK_NS VARIANT WINDOW_NS SEED QUICK, run one round of it after having
 * warmed up, check it as the scenarios in C do, and print one line:
 *
 *     outcome FIGURE ...     in the order of the scenario's names; - for one that is not known
 *     absent REASON          they have no such thing
 *     wrong REASON           the run broke the law
 *
 * With --version: one line that says what they are.  Whatever else they print is shown and means nothing, and a program
 * that ends without such a line, or with a status other than 0, has failed.
 */
#include "program.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBER 32
#define OUTPUT_MAX 4096

/* Starts the program.  Returns the pipe of its output, or -1. */
static int start(char *const *argv, pid_t *pid)
{
	int ends[2];

	if (pipe(ends) != 0)
		return -1;
	*pid = fork();
	if (*pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (dup2(ends[1], STDOUT_FILENO) >= 0) {
			close(ends[0]);
			close(ends[1]);
			execv(argv[0], argv);
		}
		_exit(127);
	}
	close(ends[1]);
	if (*pid > 0)
		return ends[0];
	close(ends[0]);
	return -1;
}

/* Reads the output of the program, and returns its status.  The caller's alarm ends a program that hangs. */
static int finish(pid_t pid, int fd, char *output)
{
	size_t length = 0;
	ssize_t got;
	int status = -1;

	while (length < OUTPUT_MAX - 1 && (got = read(fd, output + length, OUTPUT_MAX - 1 - length)) != 0)
		if (got > 0)
			length += (size_t)got;
		else if (errno != EINTR)
			break;
	output[length] = '\0';
	close(fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static void parse_figures(char *text, struct outcome *outcome)
{
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
		char *end;
		double figure = strtod(word, &end);

		if (strcmp(word, "-") == 0)
			outcome_add(outcome, NAN);
		else if (*end == '\0')
			outcome_add(outcome, figure);
		else
			outcome_wrong(outcome, "not a figure: %s", word);
	}
}

static void parse(char *output, int status, struct outcome *outcome)
{
	char *rest = NULL;
	bool said = false;

	for (char *line = strtok_r(output, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		said = true;
		if (strncmp(line, "outcome ", 8) == 0)
			parse_figures(line + 8, outcome);
		else if (strncmp(line, "absent ", 7) == 0)
			outcome_absent(outcome, line + 7);
		else if (strncmp(line, "wrong ", 6) == 0)
			outcome_wrong(outcome, "%s", line + 6);
		else
			fprintf(stderr, "%s\n", line);
	}
	if (status != 0)
		outcome_wrong(outcome, "the program ended with status %#x", (unsigned)status);
	if (!said || (outcome->count == 0 && outcome->why[0] == '\0'))
		outcome_wrong(outcome, "the program said nothing");
}

void program_run(const struct run *run, struct outcome *outcome)
{
	char numbers[7][NUMBER], path[4200], name[NUMBER], output[OUTPUT_MAX];
	char *argv[] = { path,       name,       numbers[0], numbers[1], numbers[2],
			 numbers[3], numbers[4], numbers[5], numbers[6], NULL };
	unsigned expected = 0;
	pid_t pid = -1;
	int fd, status;

	(void)snprintf(path, sizeof(path), "%s", run->subject->program);
	(void)snprintf(name, sizeof(name), "%s", run->scenario->name);
	(void)snprintf(numbers[0], NUMBER, "%u", run->producers);
	(void)snprintf(numbers[1], NUMBER, "%zu", run->n);
	(void)snprintf(numbers[2], NUMBER, "%lld", (long long)run->tick_ns);
	(void)snprintf(numbers[3], NUMBER, "%u", run->variant);
	(void)snprintf(numbers[4], NUMBER, "%lld", (long long)run->window_ns);
	(void)snprintf(numbers[5], NUMBER, "%llu", (unsigned long long)run->seed);
	(void)snprintf(numbers[6], NUMBER, "%d", run->quick);
	fd = start(argv, &pid);
	if (fd < 0) {
		outcome_wrong(outcome, "%s: %s", path, strerror(errno));
		return;
	}
	status = finish(pid, fd, output);
	parse(output, status, outcome);
	while (expected < FIGURES_MAX && run->scenario->figures[expected])
		expected++;
	if (!outcome->absent && outcome->count != expected)
		outcome_wrong(outcome, "%u figures instead of %u", outcome->count, expected);
}

void program_version(const char *path, char *version, size_t size)
{
	char copy[4200], option[] = "--version", output[OUTPUT_MAX] = "";
	char *argv[] = { copy, option, NULL };
	pid_t pid = -1;
	int fd;

	(void)snprintf(copy, sizeof(copy), "%s", path);
	fd = start(argv, &pid);
	if (fd >= 0)
		(void)finish(pid, fd, output);
	output[strcspn(output, "\n")] = '\0';
	(void)snprintf(version, size, "%.*s", (int)size - 1, output);
}
