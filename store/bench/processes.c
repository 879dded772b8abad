/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes of store_bench: see common.h.
 */
#include "common.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t spawn(void (*role)(void))
{
	pid_t parent = getpid(), pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		check("fork", errno);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		role();
	_exit(getppid() == parent ? 0 : 1);
}

void reap(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "store_bench: a process ended with status 0x%x\n", (unsigned)status);
		exit(1);
	}
}

void run_what_is_put(const char *name, void (*putter)(void))
{
	pid_t child = spawn(putter);
	hwt_store *store = start_store();

	wait_for_shards(store, 8, 8);
	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME));
	atomic_store(&shared->ready, 1);
	reap(child);
	wait_for_runs(n, 20000000);
	check("close", hwt_store_close(store));
	check_law(n, 0);
	print_lateness(name, 0, n);
}

static unsigned my_number; /* of the next that is spawned */

static void put_share(hwt_store *store)
{
	unsigned from = (unsigned)((uint64_t)n * my_number / processes);

	put_range(store, from, (unsigned)((uint64_t)n * (my_number + 1) / processes) - from, NULL);
}

void run_until_term(void)
{
	struct timespec look = { 0, 20000000 };
	bool has_put = false;
	hwt_store *store;
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	store = start_store();
	atomic_fetch_add(&shared->ready, 1);
	while (sigtimedwait(&term, NULL, &look) != SIGTERM) {
		hwt_store_stats stats = read_stats(store);

		atomic_store(&shared->held[my_number], (unsigned)stats.shards_held);
		atomic_store(&shared->round_trips[my_number], stats.round_trips);
		if (atomic_load(&shared->go) != 0 && !has_put) {
			has_put = true;
			put_share(store);
		}
	}
	check("close", hwt_store_close(store));
}

void start_one(pid_t *pid, unsigned number)
{
	my_number = number;
	*pid = spawn(run_until_term);
}

void start_all(pid_t *pids, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		start_one(&pids[i], i);
	while (atomic_load(&shared->ready) < count)
		sleep_us(1000);
}

void stop_all(const pid_t *pids, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		kill(pids[i], SIGTERM);
	for (unsigned i = 0; i < count; i++)
		reap(pids[i]);
}

bool all_hold(unsigned count, unsigned each)
{
	for (unsigned i = 0; i < count; i++)
		if (atomic_load(&shared->held[i]) != each)
			return false;
	return true;
}

double memory_of(pid_t pid)
{
	char path[64], line[256];
	double kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "r");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, "RssAnon:", 8) == 0)
			kib = strtod(line + 8, NULL);
	if (file != NULL)
		fclose(file);
	return kib * 1024;
}
