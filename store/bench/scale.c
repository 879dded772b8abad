/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios of store_bench at the sizes where a store could grow slow: store/bench/scale.sh runs them.
 *
 *     scale_far        another process puts N that are due in ten days, while this one runs 1000 a second: rows a second,
 *                      and the lateness of the near ones meanwhile
 *     scale_window     N due in 4 s in a store that nobody runs: how long a started process takes until all are in its
 *                      window
 *     scale_herd       N due at one instant, two processes, and 100 a second of another kind: runs a second, lateness,
 *                      lateness of the other kind meanwhile, the most memory of a process
 *     scale_processes  -P processes share a kind of four shards each: time until each has its share; N put by all of them,
 *                      due at once: runs a second; 5000 put ahead: lateness; round trips while idle
 *                      (-T: idle for so many seconds, and 1000 put ahead)
 *     scale_kinds      the same with two processes and -K kinds of eight shards
 *     scale_lives      N lives as fast as they go, at most BACKLOG waiting: lives a second; the script looks at the size
 */
#include "common.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAR_US INT64_C(864000000000)
#define NEAR_STEP_US 100000
#define NEAR_STEP 100 /* put in each step, due 1 to 1.1 s later */
#define LATE 5000
#define BACKLOG 50000
#define IDLE_S 12
#define PATIENCE_US INT64_C(600000000)

static int64_t far_due_us(unsigned number)
{
	return random_us(number, (int64_t)n * 1000000 / RATE) + FAR_US;
}

static bool note_any(void *ctx, const hwt_store_info *info)
{
	(void)info;
	++*(unsigned *)ctx;
	return false;
}

/* Demands that nothing is left in the store. */
static void check_empty(hwt_store *store)
{
	unsigned states = 1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING | 1u << HWT_STORE_FAILED, count = 0;

	check("each", hwt_store_each(store, KIND, states, note_any, &count));
	if (count > 0) {
		fputs("store_bench: some are left\n", stderr);
		exit(1);
	}
}

/*
 * Far rows
 */

static void put_far(void)
{
	hwt_store *store = open_store();

	put_range(store, 0, n, far_due_us);
	atomic_store(&shared->ended_us, clock_us(CLOCK_MONOTONIC));
	check("close", hwt_store_close(store));
}

static bool lives(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

void scale_far(void)
{
	int64_t start_us = clock_us(CLOCK_MONOTONIC), took_us;
	unsigned near = 0;
	hwt_store *store;
	pid_t child;

	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME));
	child = spawn(put_far);
	store = start_store();
	do {
		int64_t at_us = clock_us(CLOCK_REALTIME), next_us = clock_us(CLOCK_MONOTONIC) + NEAR_STEP_US;

		for (unsigned i = 0; i < NEAR_STEP; i++)
			shared->due_us[near + i] = at_us + 1000000 + (int64_t)i * NEAR_STEP_US / NEAR_STEP;
		put_range(store, near, NEAR_STEP, noted_due_us);
		near += NEAR_STEP;
		sleep_us(next_us - clock_us(CLOCK_MONOTONIC));
	} while (atomic_load(&shared->ended_us) == 0 && near + NEAR_STEP <= N_MAX && lives(child));
	took_us = atomic_load(&shared->ended_us) - start_us;
	wait_for_runs(near, 60000000);
	check("close", hwt_store_close(store));
	reap(child);
	check_law(near, 0);
	print_figure("far_put", "1/s", n * 1e6 / (double)took_us);
	print_figure("far_took", "s", (double)took_us / 1e6);
	print_lateness("far_near", 0, near);
}

static int64_t soon_due_us(unsigned number)
{
	return atomic_load(&shared->started_us) + number;
}

void scale_window(void)
{
	hwt_store *store = open_store();
	int64_t start_us;

	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME) + 4000000);
	put_range(store, 0, n, soon_due_us);
	check("close", hwt_store_close(store));
	start_us = clock_us(CLOCK_MONOTONIC);
	store = start_store();
	while (read_stats(store).window < n && atomic_load(&shared->ran) == 0)
		sleep_us(100);
	print_figure("window_read", "ms", (double)(clock_us(CLOCK_MONOTONIC) - start_us) / 1e3);
	wait_for_runs(n, PATIENCE_US);
	check("close", hwt_store_close(store));
	check_law(n, 0);
	print_lateness("window", 0, n);
}

/*
 * A herd
 */

static int64_t herd_due_us(unsigned number)
{
	(void)number;
	return atomic_load(&shared->started_us);
}

static unsigned calm_is_second(unsigned number)
{
	return number >= n;
}

void scale_herd(void)
{
	int64_t start_us, ahead_us = 7000000 + (int64_t)n * 1000000 / 8000, last_us = 0;
	double memory[2] = { 0, 0 };
	unsigned calm = 0;
	hwt_store *store;
	pid_t pids[2];

	kind_count = 2;
	kind_of = calm_is_second;
	start_all(pids, 2);
	store = open_store();
	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME) + ahead_us);
	start_us = clock_us(CLOCK_MONOTONIC);
	put_range(store, 0, n, herd_due_us);
	print_figure("herd_put", "1/s", n * 1e6 / (double)(clock_us(CLOCK_MONOTONIC) - start_us));
	start_us += ahead_us;
	if (clock_us(CLOCK_MONOTONIC) > start_us - 6000000)
		check("the herd was put too late", ETIMEDOUT);
	sleep_us(start_us - 6000000 - clock_us(CLOCK_MONOTONIC));
	while (atomic_load(&shared->ran) < n + calm && clock_us(CLOCK_MONOTONIC) < start_us + PATIENCE_US) {
		int64_t at_us = clock_us(CLOCK_REALTIME);

		/* Until the herd has run; the first are due with it. */
		if (atomic_load(&shared->ran) < n && clock_us(CLOCK_MONOTONIC) > start_us - 300000) {
			for (unsigned i = 0; i < 10; i++)
				shared->due_us[n + calm + i] = at_us + 300000 + i * 10000;
			put_range(store, n + calm, 10, noted_due_us);
			calm += 10;
		}
		for (unsigned i = 0; i < 2; i++)
			memory[i] = memory_of(pids[i]) > memory[i] ? memory_of(pids[i]) : memory[i];
		sleep_us(100000);
	}
	stop_all(pids, 2);
	check_law(n + calm, 0);
	check_empty(store);
	check("close", hwt_store_close(store));
	for (unsigned i = 0; i < n; i++)
		last_us = shared->begun_us[i] > last_us ? shared->begun_us[i] : last_us;
	last_us -= atomic_load(&shared->started_us);
	print_figure("herd_took", "s", (double)last_us / 1e6);
	print_figure("herd_runs", "1/s", n * 1e6 / (double)last_us);
	print_lateness("herd", 0, n);
	if (calm > 0)
		print_lateness("herd_calm", n, calm);
	print_figure("herd_memory", "MB", (memory[0] > memory[1] ? memory[0] : memory[1]) / 1e6);
}

/*
 * Many processes, many kinds
 */

static void run_shares(const char *name, unsigned each)
{
	int64_t start_us = clock_us(CLOCK_MONOTONIC);
	pid_t pids[PROCESSES_MAX];
	unsigned count = n, idle_s = seconds > 0 ? seconds : IDLE_S;
	uint64_t before = 0, after = 0;
	unsigned late = seconds > 0 ? LATE / 5 : LATE;
	char figure[64];
	hwt_store *store;

	start_all(pids, processes);
	while (!all_hold(processes, each)) {
		if (clock_us(CLOCK_MONOTONIC) > start_us + 120000000)
			check("shares", ETIMEDOUT);
		sleep_us(10000);
	}
	snprintf(figure, sizeof(figure), "%s_shared", name);
	print_figure(figure, "s", (double)(clock_us(CLOCK_MONOTONIC) - start_us) / 1e6);

	start_us = clock_us(CLOCK_MONOTONIC);
	atomic_store(&shared->go, 1);
	wait_for_runs(count, PATIENCE_US);
	snprintf(figure, sizeof(figure), "%s_runs", name);
	print_figure(figure, "1/s", count * 1e6 / (double)(clock_us(CLOCK_MONOTONIC) - start_us));
	sleep_us(1000000); /* what has run ends */
	for (unsigned i = 0; i < processes; i++)
		before += atomic_load(&shared->round_trips[i]);
	sleep_us(idle_s * INT64_C(1000000));
	for (unsigned i = 0; i < processes; i++)
		after += atomic_load(&shared->round_trips[i]);
	snprintf(figure, sizeof(figure), "%s_round_trips", name);
	print_figure(figure, "per_third_of_lease", (double)(after - before) / processes / (idle_s / 2.0));

	store = open_store();
	n = late;
	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME) + AHEAD_US);
	for (unsigned i = 0; i < late; i++)
		shared->due_us[count + i] = random_due_us(i);
	put_range(store, count, late, noted_due_us);
	wait_for_runs(count + late, PATIENCE_US);
	stop_all(pids, processes);
	check_law(count + late, 0);
	check_empty(store);
	check("close", hwt_store_close(store));
	print_lateness(name, count, late);
}

void scale_processes(void)
{
	shards = 4 * processes;
	run_shares("processes", 4);
}

void scale_kinds(void)
{
	kind_of = in_turn;
	processes = 2;
	run_shares("kinds", kind_count * 8 / 2);
}

/*
 * Lives
 */

static void put_lives(void)
{
	hwt_store *store = open_store();

	while (atomic_load(&shared->go) == 0)
		sleep_us(1000);
	for (unsigned from = 0; from < n; from += BATCH) {
		while (from > atomic_load(&shared->ran) + BACKLOG)
			sleep_us(1000);
		put_range(store, from, n - from < BATCH ? n - from : BATCH, NULL);
	}
	check("close", hwt_store_close(store));
}

void scale_lives(void)
{
	pid_t child = spawn(put_lives);
	hwt_store *store = start_store();
	int64_t start_us, took_us;

	wait_for_shards(store, 8, 8);
	start_us = clock_us(CLOCK_MONOTONIC);
	atomic_store(&shared->go, 1);
	while (read_stats(store).done < n && clock_us(CLOCK_MONOTONIC) < start_us + 10 * PATIENCE_US)
		sleep_us(1000);
	took_us = clock_us(CLOCK_MONOTONIC) - start_us;
	reap(child);
	check_law(n, 0);
	check_empty(store);
	check("close", hwt_store_close(store));
	print_figure("lives", "1/s", n * 1e6 / (double)took_us);
	print_figure("lives_took", "s", (double)took_us / 1e6);
}
