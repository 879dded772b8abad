/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures a store: one scenario, one round, a process of its own.  bench/store/run.sh makes the rounds and the medians.
 *
 *     store_bench -u URL [-S SCHEMA] [-n N] SCENARIO
 *
 *     lives     a process puts N by 500, due at once; this one runs them: lives/s from the first put to the last end
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
 *
 * Output    lines FIGURE UNIT VALUE.  Exit status 1 when a timeout was lost, ran twice or ran early: a bench that is
 *           wrong measures nothing.
 */
#include <hwt_store.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KIND "bench"
#define BATCH 500
#define N_MAX 1000000
#define PUT_S 3
#define RATE 1000 /* a second, in the scenarios that measure lateness */
#define AHEAD_US INT64_C(3000000)
#define KILLS_RATE 200 /* a second, in kills */
#define TASK_US 20000
#define KILLS_MAX 1000
#define PAYLOAD 40 /* bytes, the number of the timeout among them */

/* Shared with children, by fork. */
struct shared {
	_Atomic int64_t started_us;
	atomic_uint ran, ready;
	atomic_uint starts[N_MAX], ends[N_MAX]; /* ends: in kills alone */
	int64_t due_us[N_MAX], begun_us[N_MAX];
};

static struct shared *shared;
static const char *url, *schema;
static unsigned n = 50000;
static unsigned kills = 20;
static int64_t lease_ns; /* 0: the default */
static bool tasks_are_slow;

static void check(const char *what, int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "store_bench: %s: %s: %s\n", what, strerror(rc), hwt_store_error());
	exit(1);
}

static int64_t clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void sleep_us(int64_t us)
{
	if (us > 0)
		nanosleep(&(struct timespec){ (time_t)(us / 1000000), (long)(us % 1000000) * 1000 }, NULL);
}

static void print_figure(const char *figure, const char *unit, double value)
{
	printf("%s %s %.6g\n", figure, unit, value);
}

/*
 * Stores
 */

static int note_start(const hwt_store_run *run, void *ctx)
{
	unsigned number;

	(void)ctx;
	memcpy(&number, run->data, sizeof(number));
	if (atomic_fetch_add(&shared->starts[number], 1) == 0) {
		shared->begun_us[number] = clock_us(CLOCK_REALTIME);
		shared->due_us[number] = run->due_us;
		atomic_fetch_add(&shared->ran, 1);
	}
	if (tasks_are_slow) {
		sleep_us(TASK_US);
		atomic_fetch_add(&shared->ends[number], 1);
	}
	return 0;
}

static hwt_store *open_store(void)
{
	hwt_store_config config = HWT_STORE_CONFIG_INIT;
	hwt_store *store;
	char error[256];

	config.schema = schema;
	config.lease_ns = lease_ns;
	if (hwt_store_open(&store, url, &config, error, sizeof(error)) != 0) {
		fprintf(stderr, "store_bench: %s\n", error);
		exit(1);
	}
	return store;
}

static hwt_store *start_store(void)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store = open_store();

	kind.name = KIND;
	kind.task = note_start;
	check("register", hwt_store_register(store, &kind));
	check("start", hwt_store_start(store));
	return store;
}

static hwt_store_stats read_stats(hwt_store *store)
{
	hwt_store_stats stats = HWT_STORE_STATS_INIT;

	check("stats", hwt_store_read_stats(store, &stats));
	return stats;
}

static unsigned shards_held(hwt_store *store)
{
	return (unsigned)read_stats(store).shards_held;
}

static void wait_for_shards(hwt_store *store, unsigned least, unsigned most)
{
	for (int i = 0; shards_held(store) < least || shards_held(store) > most; i++) {
		if (i == 3000)
			check("shards", ETIMEDOUT);
		sleep_us(10000);
	}
}

/* Puts first .. first + count - 1, those of a batch in one call; due_us gives each its time. */
static void put_range(hwt_store *store, unsigned first, unsigned count, int64_t (*due_us)(unsigned number))
{
	static char payload[BATCH][PAYLOAD];
	static hwt_store_spec specs[BATCH];
	static char keys[BATCH][12];

	for (unsigned from = 0; from < count; from += BATCH) {
		unsigned batch = count - from < BATCH ? count - from : BATCH;

		for (unsigned i = 0; i < batch; i++) {
			unsigned number = first + from + i;

			memcpy(payload[i], &number, sizeof(number));
			specs[i] = (hwt_store_spec)HWT_STORE_SPEC_INIT;
			specs[i].kind = KIND;
			specs[i].data = payload[i];
			specs[i].len = PAYLOAD;
			if (tasks_are_slow) { /* what is left is known by its key */
				snprintf(keys[i], sizeof(keys[i]), "%u", number);
				specs[i].key = keys[i];
			}
			if (due_us != NULL) {
				specs[i].flags = HWT_STORE_ABSOLUTE;
				specs[i].due_us = due_us(number);
			}
		}
		check("put_many", hwt_store_put_many(store, specs, batch, NULL));
	}
}

static void wait_for_runs(unsigned count, int64_t patience_us)
{
	int64_t end_us = clock_us(CLOCK_MONOTONIC) + patience_us;

	while (atomic_load(&shared->ran) < count && clock_us(CLOCK_MONOTONIC) < end_us)
		sleep_us(1000);
}

/* The law: each of the first count ran, none early, none twice (but `again` of them, when a process died). */
static void check_law(unsigned count, unsigned again)
{
	unsigned lost = 0, twice = 0, early = 0;

	for (unsigned i = 0; i < count; i++) {
		unsigned starts = atomic_load(&shared->starts[i]);

		lost += starts == 0;
		twice += starts > 1;
		early += starts > 0 && shared->begun_us[i] < shared->due_us[i];
	}
	if (lost > 0 || twice > again || early > 0) {
		fprintf(stderr, "store_bench: %u lost, %u ran twice, %u early\n", lost, twice, early);
		exit(1);
	}
}

/*
 * Processes
 */

static pid_t spawn(void (*role)(void))
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

static void reap(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "store_bench: a process ended with status 0x%x\n", (unsigned)status);
		exit(1);
	}
}

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

static void lives(void)
{
	pid_t child = spawn(putter);
	hwt_store *store = start_store();
	int64_t over_us;
	double before_us;

	wait_for_shards(store, 8, 8);
	before_us = cpu_us();
	atomic_store(&shared->ready, 1);
	while (read_stats(store).done < n)
		sleep_us(500);
	over_us = clock_us(CLOCK_MONOTONIC);
	reap(child);
	check_law(n, 0);
	print_figure("lives", "1/s", n * 1e6 / (double)(over_us - atomic_load(&shared->started_us)));
	print_figure("lives_cpu", "us", (cpu_us() - before_us) / n); /* the server's is not in it */
	check("close", hwt_store_close(store));
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
	hwt_store_spec spec = HWT_STORE_SPEC_INIT;
	char payload[PAYLOAD] = "";

	spec.kind = KIND;
	spec.data = payload;
	spec.len = sizeof(payload);
	spec.delay_ns = HWT_S(3600);
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

static int compare(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* What a sync of the disk costs at this moment: most other figures follow it. */
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
	qsort(took_us, 200, sizeof(took_us[0]), compare);
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

static void print_lateness(const char *name)
{
	int64_t *late_us = malloc(n * sizeof(*late_us));
	char figure[64];

	check("memory", late_us != NULL ? 0 : ENOMEM);
	for (unsigned i = 0; i < n; i++)
		late_us[i] = shared->begun_us[i] - shared->due_us[i];
	qsort(late_us, n, sizeof(*late_us), compare);
	snprintf(figure, sizeof(figure), "%s_p50", name);
	print_figure(figure, "ms", (double)late_us[n / 2] / 1e3);
	snprintf(figure, sizeof(figure), "%s_p99", name);
	print_figure(figure, "ms", (double)late_us[(uint64_t)n * 99 / 100] / 1e3);
	snprintf(figure, sizeof(figure), "%s_max", name);
	print_figure(figure, "ms", (double)late_us[n - 1] / 1e3);
	free(late_us);
}

/* At random in n / RATE seconds, the same times in each round. */
static int64_t random_due_us(unsigned number)
{
	uint64_t x = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);

	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 32;
	return atomic_load(&shared->started_us) + (int64_t)(x % (n * UINT64_C(1000000) / RATE));
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
	print_lateness("late");
}

static int64_t noted_due_us(unsigned number)
{
	return shared->due_us[number];
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
	pid_t child = spawn(live_putter);
	hwt_store *store = start_store();

	wait_for_shards(store, 8, 8);
	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME));
	atomic_store(&shared->ready, 1);
	reap(child);
	wait_for_runs(n, 20000000);
	check("close", hwt_store_close(store));
	check_law(n, 0);
	print_lateness("live");
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
	{ "lives", lives, 50000 }, { "one", put_one, 0 },     { "sixteen", put_sixteen, 0 }, { "late", late, 5000 },
	{ "live", live, 5000 },    { "idle", idle, 0 },       { "kill", kill_one, 12000 },   { "stop", stop_one, 6000 },
	{ "sync", sync_disk, 0 },  { "fill", fill, 1000000 }, { "kills", kill_many, 4000 },
};

int main(int argc, char **argv)
{
	const struct scenario *scenario = NULL;
	long count = 0;
	int c;

	while ((c = getopt(argc, argv, "u:S:n:l:k:")) != -1) {
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
		default:
			return 2;
		}
	}
	for (size_t i = 0; optind + 1 == argc && i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		if (strcmp(argv[optind], scenarios[i].name) == 0)
			scenario = &scenarios[i];
	if (scenario == NULL || url == NULL || count < 0 || count > N_MAX || kills < 1 || kills > KILLS_MAX) {
		fputs("usage: store_bench -u URL [-S SCHEMA] [-n N] [-l LEASE_MS] [-k KILLS] "
		      "lives|one|sixteen|late|live|idle|kill|stop|kills|sync|fill\n",
		      stderr);
		return 2;
	}
	n = count > 0 ? (unsigned)count : scenario->n;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check("memory", shared != MAP_FAILED ? 0 : ENOMEM);
	alarm(300);
	scenario->run();
	return 0;
}
