/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * idle_server as a child process of demo.c: start it, learn its port, stop it, read its report.  Nothing here waits for
 * ever, and nothing but this child is ever signalled.
 */
#ifndef DEMO_SERVER_H
#define DEMO_SERVER_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"

#define REPORT_FD 3 /* in the child */
#define REPORT_BYTES 65536
#define PATIENCE_MS 120000

struct child {
	volatile pid_t pid; /* 0: none.  The watchdog's handler reads it */
	int output, report; /* what it writes to stdout, and to REPORT_FD */
	int port;
	int status; /* of waitpid */
	char text[REPORT_BYTES];
};

/* In the child, between fork and exec. */
static void child_exec(const char *path, char *const *argv, const int *output, const int *report, pid_t parent)
{
	/* dup2 leaves no O_CLOEXEC behind, but does nothing when both are the same. */
	if (dup2(output[1], STDOUT_FILENO) < 0)
		_exit(126);
	if (report[1] == REPORT_FD ? fcntl(REPORT_FD, F_SETFD, 0) < 0 : dup2(report[1], REPORT_FD) < 0)
		_exit(126);
	/* Whatever becomes of us, the server is told to end. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(126);
	execv(path, argv);
	fprintf(stderr, "demo: cannot run %s: %s\n", path, strerror(errno));
	_exit(127);
}

/* Reads up to size - 1 bytes, until there is the character stop, or the end (stop 0), or patience has run out. */
static bool child_read(int fd, char *text, size_t size, char stop)
{
	size_t used = 0;

	text[0] = '\0';
	for (int waited_ms = 0; waited_ms < PATIENCE_MS && used < size - 1;) {
		struct pollfd ready = { fd, POLLIN, 0 };
		ssize_t n;

		if (poll(&ready, 1, 100) <= 0) {
			waited_ms += 100;
			continue;
		}
		n = read(fd, text + used, size - 1 - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 && stop == '\0';
		used += (size_t)n;
		text[used] = '\0';
		if (stop != '\0' && strchr(text, stop) != NULL)
			return true;
	}
	return false;
}

static bool child_start(struct child *child, const char *path, char *const *argv)
{
	int output[2], report[2];
	pid_t parent = getpid(), pid;
	char line[128];

	if (pipe2(output, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0)
		return false;
	pid = fork();
	if (pid < 0)
		return false;
	if (pid == 0)
		child_exec(path, argv, output, report, parent);
	child->pid = pid;
	child->output = output[0];
	child->report = report[0];
	close(output[1]);
	close(report[1]);
	return child_read(child->output, line, sizeof(line), '\n') &&
	       sscanf(line, "listening on 127.0.0.1:%d", &child->port) == 1;
}

/* Has it ended?  Then child->status tells how. */
static bool child_has_ended(struct child *child)
{
	int status;

	if (child->pid > 0 && waitpid(child->pid, &status, WNOHANG) == child->pid) {
		child->status = status;
		child->pid = 0;
	}
	return child->pid == 0;
}

/* Asks it to end and collects its report; when it does not listen, it is killed.  True: it ended well. */
static bool child_stop(struct child *child)
{
	bool read_all;

	if (!child_has_ended(child))
		kill(child->pid, SIGTERM);
	read_all = child_read(child->report, child->text, sizeof(child->text), '\0');
	for (int waited_ms = 0; !child_has_ended(child) && waited_ms < PATIENCE_MS; waited_ms += 10)
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	if (!child_has_ended(child)) {
		kill(child->pid, SIGKILL);
		waitpid(child->pid, &child->status, 0);
		child->pid = 0;
	}
	close(child->report);
	close(child->output);
	return read_all && WIFEXITED(child->status) && WEXITSTATUS(child->status) == 0;
}

/* The text behind "KEY=" in the report, or NULL. */
static const char *child_text(const struct child *child, const char *key)
{
	size_t length = strlen(key);

	for (const char *word = child->text; word != NULL; word = strchr(word, ' ')) {
		word += *word == ' ';
		if (strncmp(word, key, length) == 0 && word[length] == '=')
			return word + length + 1;
	}
	return NULL;
}

static int64_t child_number(const struct child *child, const char *key)
{
	const char *text = child_text(child, key);

	return text != NULL ? strtoll(text, NULL, 10) : -1;
}

#endif /* DEMO_SERVER_H */
