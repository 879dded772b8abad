/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two wheels side by side, on a clock of the program's own: what the worker does for a timeout, without what sleeping
 * and producers cost.  For each number of timeouts and each delay:
 *
 *   in        CPU ns a timeout to take it in: from its lane into the wheel
 *   waiting   CPU ms a second that the others cost while they wait, with one task in each tick of 1 ms
 *   life      CPU ns a timeout from there to the end of its task, nothing else going on
 *   out       CPU ns a timeout to take it out when it is cancelled instead, in random order
 *   bytes     a pending timeout, of the library's own account
 *
 * The program is one process for each row, so that none finds the memory of another.  usage: wheels [-q] [-r ROUNDS]
 */
#include <hwt.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MINUTE HWT_S(60)
#define HOUR HWT_S(3600)
#define DAY HWT_S(86400)
#define WINDOW_TICKS 5000
#define FIGURES 5
#define ROUNDS_MAX 15

static const struct delay {
	const char *name;
	int64_t from_ns, to_ns;
	bool logarithmic;
} delays[] = {
	{ "1 s", HWT_MS(900), HWT_MS(1100), false },        { "1 min", MINUTE * 9 / 10, MINUTE * 11 / 10, false },
	{ "1 h", HOUR - HWT_S(1), HOUR + HWT_S(1), false }, { "1 day", DAY * 9 / 10, DAY * 11 / 10, false },
	{ "10 ms .. 30 days", HWT_MS(10), 30 * DAY, true },
};
#define DELAYS (sizeof(delays) / sizeof(delays[0]))
#define HOUR_DELAY 2

/* More timeouts only with the delay of an hour: wide delays take a call for each timeout. */
#define MOST_OF_ALL 1000000

static const struct setting {
	const char *name;
	uint32_t wheel, ticks;
} settings[] = {
	{ "hashed 512", HWT_WHEEL_HASHED, 512 },
	{ "hashed 2^20", HWT_WHEEL_HASHED, 1u << 20 },
	{ "hierarchical 64", HWT_WHEEL_HIERARCHICAL, 64 },
	{ "hierarchical 512", HWT_WHEEL_HIERARCHICAL, 512 },
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static const char *const figures[FIGURES] = { "in ns", "waiting ms/s", "life ns", "out ns", "bytes" };

static uint64_t ran, random_state = 88172645463325252;
static int64_t next_tick_ns;
static hwt_timer *timer;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static int64_t random_delay(const struct delay *delay)
{
	double part = (double)(random_next() >> 11) * 0x1p-53;

	if (delay->logarithmic)
		return (int64_t)((double)delay->from_ns * pow((double)delay->to_ns / (double)delay->from_ns, part));
	return delay->from_ns + (int64_t)((double)(delay->to_ns - delay->from_ns) * part);
}

static int64_t cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (int64_t)used.tv_sec * HWT_S(1) + used.tv_nsec;
}

static void must(int rc)
{
	if (rc != 0) {
		fprintf(stderr, "wheels: %s\n", strerror(rc));
		exit(2);
	}
}

static void count(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
}

/* A task that arms itself for each next tick. */
static void tick(hwt_timeout timeout, void *arg)
{
	(void)arg;
	next_tick_ns += HWT_MS(1);
	must(hwt_reschedule_at(timeout, next_tick_ns));
}

/* Returns the CPU time of going from tick to tick, with one task in each. */
static int64_t walk(int64_t from_ns, unsigned ticks)
{
	int64_t begin_ns = cpu_ns(), unused_ns;

	for (unsigned i = 1; i <= ticks; i++)
		must(hwt_timer_advance(timer, from_ns + i * HWT_MS(1), &unused_ns));
	return cpu_ns() - begin_ns;
}

static hwt_timeout *fill(const struct delay *delay, size_t n, double *in_ns)
{
	hwt_timeout *handles = calloc(n, sizeof(*handles));
	int64_t taken_ns = 0, begin_ns, unused_ns;

	if (handles == NULL)
		exit(2);
	for (size_t i = 0; i < n;) {
		/* As many as come in during a tick of a busy server. */
		for (size_t end = i + 10000 < n ? i + 10000 : n; i < end; i++)
			must(hwt_new_timeout(timer, count, NULL, random_delay(delay), &handles[i]));
		begin_ns = cpu_ns();
		must(hwt_timer_advance(timer, 0, &unused_ns));
		taken_ns += cpu_ns() - begin_ns;
	}
	*in_ns = (double)taken_ns / (double)n;
	return handles;
}

/* The cost of one task a tick is the same for all rows; the row of the fewest timeouts shows it. */
static double waiting_ms(const struct delay *delay)
{
	unsigned ticks = delay->from_ns < MINUTE / 2 ? WINDOW_TICKS / 10 : WINDOW_TICKS;
	hwt_timeout ticker;
	int64_t used_ns;

	next_tick_ns = HWT_MS(1);
	must(hwt_new_timeout_at(timer, tick, NULL, next_tick_ns, &ticker));
	used_ns = walk(0, ticks);
	must(hwt_cancel(ticker));
	return (double)used_ns / ((double)ticks * 1e3);
}

static double life_ns(size_t n)
{
	int64_t begin_ns = cpu_ns(), next_ns = 0;

	while (next_ns != INT64_MAX)
		must(hwt_timer_advance(timer, next_ns, &next_ns));
	if (ran != n) {
		fprintf(stderr, "wheels: %" PRIu64 " ran, not %zu\n", ran, n);
		exit(2);
	}
	return (double)(cpu_ns() - begin_ns) / (double)n;
}

static double out_ns(hwt_timeout *handles, size_t n)
{
	int64_t begin_ns, sum_ns = 0, unused_ns;

	for (size_t i = n - 1; i > 0; i--) {
		size_t j = (size_t)(random_next() % (i + 1));
		hwt_timeout other = handles[j];

		handles[j] = handles[i];
		handles[i] = other;
	}
	for (size_t i = 0; i < n;) {
		for (size_t end = i + 10000 < n ? i + 10000 : n; i < end; i++)
			(void)hwt_cancel(handles[i]); /* some timeouts have run */
		begin_ns = cpu_ns();
		must(hwt_timer_advance(timer, 0, &unused_ns));
		sum_ns += cpu_ns() - begin_ns;
	}
	return (double)sum_ns / (double)n;
}

static void create(const struct setting *setting)
{
	hwt_config config = HWT_CONFIG_INIT;

	config.tick_duration_ns = HWT_MS(1);
	config.wheel = setting->wheel;
	config.ticks_per_wheel = setting->ticks;
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	must(hwt_timer_create(&timer, &config));
	must(hwt_timer_advance(timer, 0, NULL));
	ran = 0;
}

static void measure(const struct setting *setting, const struct delay *delay, size_t n, double *result)
{
	hwt_stats stats = { .size = sizeof(stats) };
	hwt_timeout *handles;
	double unused;

	create(setting);
	handles = fill(delay, n, &result[0]);
	must(hwt_timer_stats(timer, &stats));
	result[4] = (double)stats.bytes / (double)n;
	result[1] = waiting_ms(delay);
	result[3] = out_ns(handles, n);
	free(handles);
	must(hwt_timer_destroy(timer));
	create(setting);
	free(fill(delay, n, &unused));
	result[2] = life_ns(n);
	must(hwt_timer_destroy(timer));
}

/* Measures a row in a process of its own. */
static bool measured(const struct setting *setting, const struct delay *delay, size_t n, double *result)
{
	size_t bytes = FIGURES * sizeof(*result);
	int ends[2], status;
	pid_t child;

	if (pipe(ends) != 0 || (child = fork()) < 0)
		return false;
	if (child == 0) {
		double mine[FIGURES];

		measure(setting, delay, n, mine);
		_exit(write(ends[1], mine, bytes) == (ssize_t)bytes ? 0 : 1);
	}
	close(ends[1]);
	if (read(ends[0], result, bytes) != (ssize_t)bytes)
		status = -1;
	close(ends[0]);
	return waitpid(child, &status, 0) == child && status == 0;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static bool row(const struct setting *setting, const struct delay *delay, size_t n, unsigned rounds)
{
	double all[ROUNDS_MAX][FIGURES], one[ROUNDS_MAX];

	for (unsigned r = 0; r < rounds; r++)
		if (!measured(setting, delay, n, all[r]))
			return false;
	for (unsigned f = 0; f < FIGURES; f++) {
		for (unsigned r = 0; r < rounds; r++)
			one[r] = all[r][f];
		qsort(one, rounds, sizeof(*one), by_size);
		printf("%s,%s,%zu,%s,%.2f,%.2f,%.2f\n", setting->name, delay->name, n, figures[f], one[rounds / 2],
		       one[0], one[rounds - 1]);
	}
	fflush(stdout);
	return true;
}

int main(int argc, char **argv)
{
	size_t most = 10000000;
	unsigned rounds = 3;
	int option;

	while ((option = getopt(argc, argv, "qr:")) != -1) {
		if (option == 'q')
			most = 100000;
		else if (option == 'r')
			rounds = (unsigned)strtoul(optarg, NULL, 10);
		if (option == '?' || rounds == 0 || rounds > ROUNDS_MAX)
			return fprintf(stderr, "usage: wheels [-q] [-r ROUNDS]\n"), 2;
	}
	printf("wheel,delay,n,figure,median,min,max\n");
	for (size_t n = 1000; n <= most; n *= 10)
		for (size_t d = 0; d < DELAYS; d++)
			for (size_t s = 0; s < SETTINGS; s++)
				if ((n <= MOST_OF_ALL || d == HOUR_DELAY) && !row(&settings[s], &delays[d], n, rounds))
					return 1;
	return 0;
}
