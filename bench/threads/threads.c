/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The gain of task threads, in two measurements:
 *
 *     rate       N tasks of 1 us, all due at one tick: how many a second, on the worker and on 1 and 2 task threads
 *     lateness   2 task threads, one of them held for 20 ms by a task: how late timeouts of 1 ms start meanwhile, and
 *                the same on the worker
 *
 *     build/bench/threads [-n tasks] [-r rounds]
 *
 * The rounds go around all ways.  Prints the median, the least and the largest of the rounds; for lateness, quantiles
 * over all rounds.  The rate on two threads needs two free cores besides the worker's; the worker sleeps then.
 */
#include <hwt.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS HWT_MS(1)
#define TASK_NS HWT_US(1)
#define HELD_NS HWT_MS(20)
#define DELAY_NS HWT_MS(1)
#define EVERY_NS HWT_US(250)
#define EACH 64 /* timeouts in a round of lateness, which span 16 ms */
#define WAYS 3
#define ROUNDS_MAX 99

static void demand(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "threads: %s\n", what);
	exit(1);
}

static void sleep_ns(int64_t ns)
{
	struct timespec time = { (time_t)(ns / HWT_S(1)), (long)(ns % HWT_S(1)) };

	nanosleep(&time, NULL);
}

static hwt_timer *start(uint32_t threads)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = TICK_NS;
	config.task_threads = threads;
	demand(hwt_timer_create(&timer, &config) == 0 && hwt_timer_start(timer) == 0, "no timer");
	return timer;
}

static int by_size(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/*
 * Rate
 */

static atomic_ullong ran;
static _Atomic int64_t first_ns, last_ns;

static void busy_task(hwt_timeout timeout, void *arg)
{
	int64_t begin_ns = hwt_now(), now_ns, none = 0;

	(void)timeout;
	atomic_compare_exchange_strong(&first_ns, &none, begin_ns);
	do
		now_ns = hwt_now();
	while (now_ns - begin_ns < TASK_NS);
	if (atomic_fetch_add(&ran, 1) + 1 == *(const unsigned long *)arg)
		atomic_store(&last_ns, now_ns);
}

/* Returns tasks a second, in millions. */
static double rate(uint32_t threads, unsigned long tasks)
{
	hwt_timer *timer = start(threads);
	int64_t due_ns = hwt_now() + HWT_MS(50) + (int64_t)tasks * 200;

	atomic_store(&ran, 0);
	atomic_store(&first_ns, 0);
	atomic_store(&last_ns, 0);
	for (unsigned long i = 0; i < tasks; i++)
		demand(hwt_new_timeout_at(timer, busy_task, &tasks, due_ns, NULL) == 0, "rate: schedule");
	demand(hwt_now() < due_ns, "rate: too slow, the first was due before the last was scheduled");
	while (atomic_load(&last_ns) == 0) {
		demand(hwt_now() < due_ns + HWT_S(30), "rate: they do not all run");
		sleep_ns(HWT_MS(1));
	}
	demand(hwt_timer_destroy(timer) == 0, "rate: destroy");
	return (double)tasks * 1e3 / (double)(last_ns - first_ns);
}

/*
 * Lateness
 */

struct late {
	int64_t deadline_ns;
	double late_ms;
	atomic_bool done;
};

static void late_task(hwt_timeout timeout, void *arg)
{
	struct late *late = arg;

	(void)timeout;
	late->late_ms = (double)(hwt_now() - late->deadline_ns) / 1e6;
	atomic_store(&late->done, true);
}

static void hold_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	atomic_store((atomic_bool *)arg, true);
	sleep_ns(HELD_NS);
}

static void wait_for(atomic_bool *done)
{
	int64_t give_up_ns = hwt_now() + HWT_S(30);

	while (!atomic_load(done)) {
		demand(hwt_now() < give_up_ns, "lateness: a task does not run");
		sleep_ns(HWT_US(100));
	}
}

/* Adds the lateness of EACH timeouts, scheduled while one thread is held, to late_ms. */
static void lateness(uint32_t threads, double *late_ms)
{
	static struct late late[EACH];
	hwt_timer *timer = start(threads);
	atomic_bool held = false;

	demand(hwt_new_timeout(timer, hold_task, &held, 0, NULL) == 0, "lateness: hold");
	wait_for(&held);
	for (unsigned i = 0; i < EACH; i++) {
		late[i].deadline_ns = hwt_now() + DELAY_NS;
		atomic_store(&late[i].done, false);
		demand(hwt_new_timeout_at(timer, late_task, &late[i], late[i].deadline_ns, NULL) == 0,
		       "lateness: schedule");
		sleep_ns(EVERY_NS);
	}
	for (unsigned i = 0; i < EACH; i++) {
		wait_for(&late[i].done);
		late_ms[i] = late[i].late_ms;
	}
	demand(hwt_timer_destroy(timer) == 0, "lateness: destroy");
}

static void print_lateness(const char *way, double *late_ms, unsigned count)
{
	qsort(late_ms, count, sizeof(*late_ms), by_size);
	printf("lateness  %-14s p50 %7.3f ms   p99 %7.3f ms   most %7.3f ms\n", way, late_ms[count / 2],
	       late_ms[(uint64_t)count * 99 / 100], late_ms[count - 1]);
}

static void print_rate(const char *way, double *rates, unsigned count, const char *unit)
{
	qsort(rates, count, sizeof(*rates), by_size);
	printf("rate      %-14s %6.3f (%.3f .. %.3f) %s\n", way, rates[count / 2], rates[0], rates[count - 1], unit);
}

int main(int argc, char **argv)
{
	static double rates[WAYS][ROUNDS_MAX], ratio[ROUNDS_MAX], late_ms[2][ROUNDS_MAX * EACH];
	static const char *const ways[WAYS] = { "on the worker", "1 task thread", "2 task threads" };
	unsigned long tasks = 100000;
	unsigned rounds = 7;

	for (int option; (option = getopt(argc, argv, "n:r:")) != -1;) {
		demand(option != '?', "threads [-n tasks] [-r rounds]");
		if (option == 'n')
			tasks = strtoul(optarg, NULL, 0);
		else
			rounds = (unsigned)strtoul(optarg, NULL, 0);
	}
	demand(tasks > 0 && tasks <= 10000000 && rounds > 0 && rounds <= ROUNDS_MAX, "1 to 10^7 tasks, 1 to 99 rounds");
	for (unsigned round = 0; round < rounds; round++) {
		for (uint32_t way = 0; way < WAYS; way++)
			rates[way][round] = rate(way, tasks);
		ratio[round] = rates[2][round] / rates[1][round];
		lateness(0, &late_ms[0][round * EACH]);
		lateness(2, &late_ms[1][round * EACH]);
	}
	for (unsigned way = 0; way < WAYS; way++)
		print_rate(ways[way], rates[way], rounds, "M/s");
	print_rate("2 against 1", ratio, rounds, "times");
	print_lateness(ways[0], late_ms[0], rounds * EACH);
	print_lateness(ways[2], late_ms[1], rounds * EACH);
	return 0;
}
