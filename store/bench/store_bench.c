/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures a store: one scenario, one round, a process of its own.  store/bench/run.sh makes the rounds and the medians.
 *
 *     store_bench -u URL [-S SCHEMA] [-n N] SCENARIO
 *
 *     lives     a process puts N by 500, due at once; this one runs them: lives/s from the first put to the last end
 *     grouped   the same in 100 groups, four times: without a cap, twice with one that does not bind, without
 *     one       single puts from one thread, due in an hour, for three seconds: puts/s
 *     sixteen   the same from sixteen threads
 *     late      N put ahead, 1000 a second at random times: lateness of the starts
 *     live      the same, but put by another process 0.1 to 3 s before it is due
 *     idle      nothing due: round trips for each third of the lease, in five leases
 *     kill      two processes, 1000 due a second, one dies by SIGKILL: the longest wait of what was due then
 *     stop      the same, one stops
 *     kills     N put ahead, 200 a second, each a task of 20 ms, two processes; about each second one is killed
 *               and another one started, -k times: lost, kept back, begun and done more than once
 *     sync      200 writes of 4 KiB beside the file of the url, each synced: what the disk costs
 *     fill      puts N that are due in ten days, for the rounds with far rows
 *     sql_*     see sql.c
 *     scale_*   see scale.c
 *     cliff_*   see cliffs.c, calls.c, groups.c and held.c
 *     group_*   see fair.c, and groups.c
 *
 * Output    lines FIGURE UNIT VALUE.  Exit status 1 when a timeout was lost, ran twice or ran early: a bench that is
 *           wrong measures nothing.
 */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PUT_S 3
#define KILLS_RATE 200 /* a second, in kills */
#define KILLS_MAX 1000

/*
 * Scenarios
 */

static void putter(void)
{
	hwt_store *store = open_store();

	while (atomic_load(&shared->ready) == 0)
		sleep_us(1000);
	atomic_store(&shared->started_us, clock_us(CLOCK_MONOTONIC));
	put_range(store, 0, n, NULL);
	check("close", hwt_store_close(store));
}

/* Of this process and of the children that have been reaped. */
static double cpu_us(void)
{
	double us = 0;

	for (int i = 0; i < 2; i++) {
		struct rusage usage;

		getrusage(i == 0 ? RUSAGE_SELF : RUSAGE_CHILDREN, &usage);
		us += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
		      (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	}
	return us;
}

static double live_all(const char *figure, uint32_t cap)
{
	hwt_store_limits limits = HWT_STORE_LIMITS_INIT;
	pid_t child = spawn(putter);
	hwt_store *store = start_store();
	char cpu[40];
	double before_us, rate;
	int64_t over_us;

	wait_for_shards(store, 8, 8);
	limits.running = cap;
	if (group_count > 0)
		check("limit", hwt_store_limit(store, KIND, NULL, &limits));
	before_us = cpu_us();
	atomic_store(&shared->ready, 1);
	while (read_stats(store).done < n)
		sleep_us(500);
	over_us = clock_us(CLOCK_MONOTONIC);
	reap(child);
	check_law(n, 0);
	rate = n * 1e6 / (double)(over_us - atomic_load(&shared->started_us));
	print_figure(figure, "1/s", rate);
	(void)snprintf(cpu, sizeof(cpu), "%s_cpu", figure);
	print_figure(cpu, "us", (cpu_us() - before_us) / n); /* the server's is not in it */
	check("close", hwt_store_close(store));
	return rate;
}

static void lives(void)
{
	(void)live_all("lives", 0);
}

static void grouped(void)
{
	double rates[2] = { 0, 0 };

	group_count = 100;
	for (unsigned i = 0; i < 4; i++) {
		bool capped = i == 1 || i == 2; /* what grows from round to round strikes both alike */

		rates[capped] += live_all(capped ? "grouped_capped" : "grouped", capped ? 1000000 : 0);
		atomic_store(&shared->ready, 0);
		for (unsigned number = 0; number < n; number++)
			atomic_store(&shared->starts[number], 0);
	}
	print_figure("capped_ratio", "ratio", rates[1] / rates[0]);
}

struct thread {
	hwt_store *store;
	pthread_t thread;
	uint64_t puts;
	int64_t end_us;
};

static void *put_singly(void *arg)
{
	struct thread *thread = arg;
	hwt_store_spec spec = in_an_hour();

	for (; clock_us(CLOCK_MONOTONIC) < thread->end_us; thread->puts++)
		check("put", hwt_store_put(thread->store, &spec, NULL));
	return NULL;
}

static void puts_of(unsigned count)
{
	hwt_store *store = open_store();
	static struct thread threads[16];
	int64_t start_us = clock_us(CLOCK_MONOTONIC);
	double puts = 0;

	for (unsigned i = 0; i < count; i++) {
		threads[i].store = store;
		threads[i].end_us = start_us + PUT_S * 1000000;
		check("thread", pthread_create(&threads[i].thread, NULL, put_singly, &threads[i]));
	}
	for (unsigned i = 0; i < count; i++) {
		pthread_join(threads[i].thread, NULL);
		puts += (double)threads[i].puts;
	}
	print_figure(count == 1 ? "put_1_thread" : "put_16_threads", "1/s",
		     puts * 1e6 / (double)(clock_us(CLOCK_MONOTONIC) - start_us));
	check("close", hwt_store_close(store));
}

/* Measures a sync of the disk, which most other figures follow. */
static void sync_disk(void)
{
	char path[4096], block[4096] = "";
	int64_t took_us[200];
	int fd;

	snprintf(path, sizeof(path), "%s.sync", strncmp(url, "sqlite:", 7) == 0 ? url + 7 : "store_bench");
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	check(path, fd < 0 ? errno : 0);
	for (int i = 0; i < 200; i++) {
		int64_t start_us = clock_us(CLOCK_MONOTONIC);

		check("write", write(fd, block, sizeof(block)) == sizeof(block) && fdatasync(fd) == 0 ? 0 : errno);
		took_us[i] = clock_us(CLOCK_MONOTONIC) - start_us;
	}
	close(fd);
	unlink(path);
	qsort(took_us, 200, sizeof(took_us[0]), compare_us);
	print_figure("sync_p50", "ms", (double)took_us[100] / 1e3);
	print_figure("sync_p99", "ms", (double)took_us[198] / 1e3);
}

static void put_one(void)
{
	puts_of(1);
}

static void put_sixteen(void)
{
	puts_of(16);
}

static void late(void)
{
	hwt_store *store = start_store();

	wait_for_shards(store, 8, 8);
	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME) + AHEAD_US);
	put_range(store, 0, n, random_due_us);
	wait_for_runs(n, AHEAD_US + (int64_t)n * 1000000 / RATE + 10000000);
	check("close", hwt_store_close(store));
	check_law(n, 0);
	print_lateness("late", 0, n);
}

/* Fifty small batches a second, each due 0.1 to 3 s later. */
static void live_putter(void)
{
	hwt_store *store = open_store();
	unsigned step = RATE / 50;

	while (atomic_load(&shared->ready) == 0)
		sleep_us(1000);
	for (unsigned number = 0; number < n; number += step) {
		int64_t at_us = atomic_load(&shared->started_us) + (int64_t)number * 1000000 / RATE;
		unsigned count = n - number < step ? n - number : step;

		sleep_us(at_us - clock_us(CLOCK_REALTIME));
		at_us = clock_us(CLOCK_REALTIME); /* it may have been late itself */
		for (unsigned i = number; i < number + count; i++)
			shared->due_us[i] = at_us + 100000 + (int64_t)i * 7919 % 2900000;
		put_range(store, number, count, noted_due_us);
	}
	check("close", hwt_store_close(store));
}

static void live(void)
{
	run_what_is_put("live", live_putter);
}

static void idle(void)
{
	hwt_store *store = start_store();
	uint64_t before;

	wait_for_shards(store, 8, 8);
	sleep_us(3000000);
	before = read_stats(store).round_trips;
	sleep_us(30000000);
	print_figure("idle_round_trips", "per_third_of_lease", (double)(read_stats(store).round_trips - before) / 15);
	check("close", hwt_store_close(store));
}

static void fill(void)
{
	hwt_store *store = open_store();
	int64_t start_us = clock_us(CLOCK_MONOTONIC);

	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME) + INT64_C(864000000000));
	put_range(store, 0, n, random_due_us);
	print_figure("fill", "1/s", n * 1e6 / (double)(clock_us(CLOCK_MONOTONIC) - start_us));
	check("close", hwt_store_close(store));
}

/* Runs until it is told to stop. */
static void runner(void)
{
	hwt_store *store;
	sigset_t term;
	int number;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &term, NULL);
	store = start_store();
	wait_for_shards(store, 4, 4);
	atomic_store(&shared->ready, 1);
	sigwait(&term, &number);
	check("close", hwt_store_close(store));
}

/* Runs until it is killed. */
static void starter(void)
{
	start_store();
	for (;;)
		pause();
}

/* What was due in the last 100 ms before the blow or after it, and how long it waited from then on. */
static void take_over(int signal, const char *figure)
{
	pid_t child = spawn(runner);
	hwt_store *store = start_store();
	int64_t blow_us, longest_us = 0;

	while (atomic_load(&shared->ready) == 0)
		sleep_us(10000);
	wait_for_shards(store, 4, 4);
	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME) + AHEAD_US);
	put_range(store, 0, n, random_due_us);
	sleep_us(atomic_load(&shared->started_us) + 2000000 - clock_us(CLOCK_REALTIME));
	blow_us = clock_us(CLOCK_REALTIME);
	kill(child, signal);
	if (signal == SIGKILL)
		waitpid(child, NULL, 0);
	else
		reap(child);
	wait_for_runs(n, AHEAD_US + (int64_t)n * 1000000 / RATE + 30000000);
	sleep_us(200000); /* one that ran twice runs the second time now */
	check("close", hwt_store_close(store));
	check_law(n, signal == SIGKILL ? 1000 : 0);
	for (unsigned i = 0; i < n; i++) {
		int64_t from_us = shared->due_us[i] > blow_us ? shared->due_us[i] : blow_us;
		int64_t waited_us = shared->begun_us[i] - from_us;

		if (shared->due_us[i] > blow_us - 100000 && waited_us > longest_us)
			longest_us = waited_us;
	}
	print_figure(figure, "s", (double)longest_us / 1e6);
}

static void kill_one(void)
{
	take_over(SIGKILL, "wait_after_kill");
}

static void stop_one(void)
{
	take_over(SIGTERM, "wait_after_stop");
}

static int64_t even_due_us(unsigned number)
{
	return atomic_load(&shared->started_us) + (int64_t)number * 1000000 / KILLS_RATE;
}

static bool note_left(void *ctx, const hwt_store_info *info)
{
	bool *left = ctx;

	left[strtoul(info->key, NULL, 10)] = true;
	return true;
}

/* How many of the numbers are left, FAILED ones among them. */
static unsigned find_left(hwt_store *store, bool *left)
{
	unsigned states = 1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING | 1u << HWT_STORE_FAILED, count = 0;

	memset(left, 0, n * sizeof(*left));
	check("each", hwt_store_each(store, KIND, states, note_left, left));
	for (unsigned i = 0; i < n; i++)
		count += left[i];
	return count;
}

static void print_kills(const bool *left, int64_t settled_us)
{
	unsigned lost = 0, kept = 0, again = 0, twice = 0, early = 0;

	for (unsigned i = 0; i < n; i++) {
		lost += atomic_load(&shared->ends[i]) == 0 && !left[i];
		kept += left[i];
		again += atomic_load(&shared->starts[i]) > 1;
		twice += atomic_load(&shared->ends[i]) > 1;
		early += atomic_load(&shared->starts[i]) > 0 && shared->begun_us[i] < shared->due_us[i];
	}
	print_figure("kills_lost", "jobs", lost);
	print_figure("kills_kept_back", "jobs", kept);
	print_figure("kills_begun_again", "jobs", again);
	print_figure("kills_done_twice", "jobs", twice);
	print_figure("kills_settled", "s", (double)settled_us / 1e6);
	if (lost > 0 || kept > 0 || early > 0)
		exit(1);
}

/*
 * What has run is noted in memory that outlives the processes.  No store is open here while processes begin: none may
 * inherit one.
 */
static void kill_many(void)
{
	hwt_store *store = open_store();
	bool *left = calloc(n, sizeof(*left));
	int64_t last_us = 0, end_us;
	pid_t pids[2];

	check("memory", left != NULL ? 0 : ENOMEM);
	tasks_are_slow = true;
	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME) + AHEAD_US);
	put_range(store, 0, n, even_due_us);
	check("close", hwt_store_close(store));
	for (unsigned i = 0; i < 2; i++)
		pids[i] = spawn(starter);
	sleep_us(atomic_load(&shared->started_us) - clock_us(CLOCK_REALTIME));
	for (unsigned i = 0; i < kills; i++) {
		last_us = clock_us(CLOCK_MONOTONIC);
		kill(pids[i % 2], SIGKILL);
		waitpid(pids[i % 2], NULL, 0);
		pids[i % 2] = spawn(starter);
		sleep_us(last_us + (600 + i * INT64_C(7919) % 800) * 1000 - clock_us(CLOCK_MONOTONIC));
	}
	store = open_store();
	end_us = clock_us(CLOCK_MONOTONIC) + (int64_t)n * 1000000 / KILLS_RATE + 30000000;
	while (find_left(store, left) > 0 && clock_us(CLOCK_MONOTONIC) < end_us)
		sleep_us(100000);
	print_kills(left, clock_us(CLOCK_MONOTONIC) - last_us);
	check("close", hwt_store_close(store));
	for (unsigned i = 0; i < 2; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	free(left);
}

static const struct scenario {
	const char *name;
	void (*run)(void);
	unsigned n; /* if -n does not say otherwise */
} scenarios[] = {
	{ "lives", lives, 50000 },
	{ "grouped", grouped, 50000 },
	{ "one", put_one, 0 },
	{ "sixteen", put_sixteen, 0 },
	{ "late", late, 5000 },
	{ "live", live, 5000 },
	{ "idle", idle, 0 },
	{ "kill", kill_one, 12000 },
	{ "stop", stop_one, 6000 },
	{ "sync", sync_disk, 0 },
	{ "fill", fill, 1000000 },
	{ "kills", kill_many, 4000 },
	{ "sql_late", sql_late, 2000 },
	{ "sql_far", sql_far, 0 },
	{ "sql_many", sql_many, 0 },
	{ "scale_far", scale_far, 1000000 },
	{ "scale_window", scale_window, 5000 },
	{ "scale_herd", scale_herd, 1000000 },
	{ "scale_processes", scale_processes, 100000 },
	{ "scale_kinds", scale_kinds, 50000 },
	{ "scale_lives", scale_lives, 1000000 },
	{ "cliff_backlog", cliff_backlog, 10000 },
	{ "cliff_once", cliff_once, 100000 },
	{ "cliff_puts", cliff_puts, 100000 },
	{ "cliff_each", cliff_each, 40000 },
	{ "cliff_join", cliff_join, 10000 },
	{ "cliff_moved", cliff_moved, 20000 },
	{ "cliff_calls", cliff_calls, 20000 },
	{ "cliff_group", cliff_group, 100000 },
	{ "group_flood", group_flood, 1000000 },
	{ "group_levels", group_levels, 1000000 },
	{ "group_taken", group_taken, 1000000 },
	{ "group_cancel", group_cancel, 500000 },
	{ "group_pause", group_pause, 0 },
	{ "group_crowd", group_crowd, 100000 },
	{ "group_caps", group_caps, 20000 },
	{ "group_rate", group_rate, 0 },
	{ "cliff_snapshot", cliff_snapshot, 100000 },
	{ "cliff_lock", cliff_lock, 0 },
	{ "cliff_soak", cliff_soak, 0 },
};

int main(int argc, char **argv)
{
	const struct scenario *scenario = NULL;
	long count = 0;
	int c;

	while ((c = getopt(argc, argv, "u:S:n:l:k:P:K:s:t:T:")) != -1) {
		switch (c) {
		case 'u':
			url = optarg;
			break;
		case 'S':
			schema = optarg;
			break;
		case 'n':
			count = strtol(optarg, NULL, 10);
			break;
		case 'l':
			lease_ns = HWT_MS(strtol(optarg, NULL, 10));
			break;
		case 'k':
			kills = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'P':
			processes = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'K':
			kind_count = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 's':
			shards = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 't':
			thread_count = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'T':
			seconds = (unsigned)strtoul(optarg, NULL, 10);
			break;
		default:
			return 2;
		}
	}
	for (size_t i = 0; optind + 1 == argc && i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		if (strcmp(argv[optind], scenarios[i].name) == 0)
			scenario = &scenarios[i];
	if (scenario == NULL || url == NULL || count < 0 || count > N_MAX || kills < 1 || kills > KILLS_MAX ||
	    processes < 1 || processes > PROCESSES_MAX || kind_count < 1 || kind_count > KINDS_MAX ||
	    thread_count < 1 || thread_count > THREADS_MAX || seconds > 1000000) {
		fputs(
		    "usage: store_bench -u URL [-S SCHEMA] [-n N] [-l LEASE_MS] [-k KILLS] [-P PROCESSES] [-K KINDS] "
		    "[-s SHARDS] [-t THREADS] [-T SECONDS] lives|one|sixteen|late|live|idle|kill|stop|kills|sync|fill|"
		    "sql_late|sql_far|sql_many|"
		    "scale_far|scale_window|scale_herd|scale_processes|scale_kinds|scale_lives|"
		    "cliff_backlog|cliff_once|cliff_puts|cliff_each|cliff_join|cliff_moved|cliff_calls|"
		    "cliff_group|cliff_snapshot|cliff_lock|cliff_soak|"
		    "group_flood|group_levels|group_taken|group_cancel|group_pause|group_crowd|group_caps|"
		    "group_rate\n",
		    stderr);
		return 2;
	}
	schema = schema != NULL ? schema : "hwt";
	n = count > 0 ? (unsigned)count : scenario->n;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check("memory", shared != MAP_FAILED ? 0 : ENOMEM);
	alarm(strchr(scenario->name, '_') != NULL ? 7200 + seconds : 300);
	scenario->run();
	return 0;
}
