/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The promises of groups, each a scenario with a verdict: a line "bar NAME met" or "bar NAME missed" to stderr.  A rule
 * that was broken ends the program with 1; a time that was missed does not.
 *
 *     group_flood   N of one group are due, and 100 a second of another: lateness of these; 20 ms (p99)
 *     group_levels  the same, of 201 priorities
 *     group_taken   N of a paused group lie between two others in the order of time: rows a second that a look passes
 *     group_cancel  N of a group are due and run; all are cancelled: 10 s; then none starts; 50 ms for a put meanwhile
 *     group_pause   a group runs and is paused, ten times: how long after the answer something starts; 1 s
 *     group_crowd   N timeouts of N groups beside N of none: 100 bytes a group, and nothing once they are gone
 *     group_caps    -T seconds of N a second in 1000 groups with a cap of 3, in four processes of which one dies, stops
 *                   or joins each second: never a fourth
 */
#include "common.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define CAP 3
#define CAPPED 4 /* processes */
#define TASK_US 20000

static void bar(const char *figure, const char *unit, double value, double least, double most)
{
	print_figure(figure, unit, value);
	fprintf(stderr, "bar %s %s\n", figure, value >= least && value <= most ? "met" : "missed");
}

static void broken(const char *rule, unsigned times)
{
	if (times == 0)
		return;
	fprintf(stderr, "store_bench: %s: %u times\n", rule, times);
	exit(1);
}

static int64_t now_us(void)
{
	return clock_us(CLOCK_REALTIME);
}

static hwt_store_which all_of(const char *group)
{
	hwt_store_which which = HWT_STORE_WHICH_INIT;

	which.kind = KIND;
	which.group = group;
	which.all = true;
	return which;
}

/* By number: N of "large", and beyond them of others. */
static const char *large_or_other(unsigned number)
{
	return number < n ? "large" : "other";
}

static void put_large(int64_t (*due_us)(unsigned number))
{
	hwt_store *store = open_store();

	group_of = large_or_other;
	put_range(store, 0, n, due_us);
	check("close", hwt_store_close(store));
}

static unsigned ran_of(unsigned first, unsigned count)
{
	unsigned ran = 0;

	for (unsigned i = first; i < first + count; i++)
		ran += atomic_load(&shared->starts[i]) > 0;
	return ran;
}

/*
 * A flood
 */

#define OTHERS 100 /* a second */

static unsigned others(void)
{
	return OTHERS * (seconds > 0 ? seconds : 10);
}

/* Answered after started_us, by the put of one. */
static int64_t answered_us(unsigned number)
{
	return atomic_load(&shared->started_us) + atomic_load(&shared->ends[number]);
}

/* One each 10 ms, due 50 ms later. */
static void put_others(void)
{
	hwt_store *store = open_store();

	while (atomic_load(&shared->go) == 0)
		sleep_us(1000);
	for (unsigned i = 0; i < others(); i++) {
		int64_t next_us = now_us() + 1000000 / OTHERS;

		shared->due_us[n + i] = now_us() + 50000;
		put_range(store, n + i, 1, noted_due_us);
		atomic_store(&shared->ends[n + i], (unsigned)(now_us() - atomic_load(&shared->started_us)));
		sleep_us(next_us - now_us());
	}
	check("close", hwt_store_close(store));
}

static int64_t p99_of(unsigned first, unsigned count)
{
	int64_t *late_us = malloc(count * sizeof(*late_us)), p99_us;

	check("memory", late_us != NULL ? 0 : ENOMEM);
	for (unsigned i = 0; i < count; i++)
		late_us[i] = shared->begun_us[first + i] - shared->due_us[first + i];
	qsort(late_us, count, sizeof(*late_us), compare_us);
	p99_us = late_us[count * 99 / 100];
	free(late_us);
	return p99_us;
}

void group_flood(void)
{
	pid_t child;
	hwt_store *store;
	unsigned ran;

	put_large(NULL);
	child = spawn(put_others);
	store = start_store();
	wait_for_runs(1, 60000000);
	atomic_store(&shared->started_us, now_us());
	atomic_store(&shared->go, 1);
	reap(child);
	for (int i = 0; i < 300 && ran_of(n, others()) < others(); i++)
		sleep_us(100000);
	broken("one of the others did not run", others() - ran_of(n, others()));
	ran = ran_of(0, n);
	print_figure("flood_left", "rows", n - ran);
	print_figure("flood_ran", "rows", ran);
	for (unsigned i = n; i < n + others(); i++) /* a put may take longer than 50 ms */
		if (answered_us(i) > shared->due_us[i])
			shared->due_us[i] = answered_us(i);
	print_lateness("flood_late", n, others());
	bar("flood_p99", "ms", (double)p99_of(n, others()) / 1e3, 0, 20);
	check("close", hwt_store_close(store));
}

static int level_of(unsigned number)
{
	return number < n ? (int)(number * 7919 % 201) - 100 : 0;
}

void group_levels(void)
{
	priority_of = level_of;
	group_flood();
}

/*
 * A take-over
 */

static const char *first_or_last(unsigned number)
{
	return number == 0 ? "first" : number + 1 < n ? "large" : "last";
}

static int64_t long_ago_us(unsigned number)
{
	return atomic_load(&shared->started_us) - INT64_C(3600000000) + number;
}

void group_taken(void)
{
	hwt_store *store = open_store();

	shards = 1;
	register_kinds(store);
	group_of = first_or_last;
	atomic_store(&shared->started_us, now_us());
	put_range(store, 0, n, long_ago_us);
	check("pause", hwt_store_pause(store, KIND, "large"));
	check("start", hwt_store_start(store));
	wait_for_runs(2, 600000000);
	broken("the last one did not run", 2 - atomic_load(&shared->ran));
	bar("taken", "rows/s", n * 1e6 / (double)(shared->begun_us[n - 1] - shared->begun_us[0]), 200000, 1e12);
	check("close", hwt_store_close(store));
}

/*
 * A cancel
 */

static atomic_bool over;

static void *put_beside(void *arg)
{
	hwt_store *store = open_store();
	hwt_store_spec spec = HWT_STORE_SPEC_INIT;
	int64_t *slowest_us = arg;

	spec.kind = KIND;
	spec.group = "bystander";
	spec.delay_ns = HWT_S(864000);
	while (!atomic_load(&over)) {
		int64_t start_us = clock_us(CLOCK_MONOTONIC), took_us;

		check("put", hwt_store_put(store, &spec, NULL));
		took_us = clock_us(CLOCK_MONOTONIC) - start_us;
		*slowest_us = took_us > *slowest_us ? took_us : *slowest_us;
		sleep_us(1000);
	}
	check("close", hwt_store_close(store));
	return NULL;
}

/* How many starts of the first n there were after a time. */
static unsigned starts_after(int64_t at_us, int64_t *last_us)
{
	unsigned count = 0;

	*last_us = 0;
	for (unsigned i = 0; i < n; i++) {
		count += shared->begun_us[i] > at_us;
		*last_us = shared->begun_us[i] > *last_us ? shared->begun_us[i] : *last_us;
	}
	return count;
}

void group_cancel(void)
{
	hwt_store_which which = all_of("large");
	int64_t start_us, answer_us, last_us, slowest_us = 0, before_us = 0;
	hwt_store *store;
	pthread_t thread;
	uint64_t count = 0;

	put_large(NULL);
	check("thread", pthread_create(&thread, NULL, put_beside, &before_us));
	sleep_us(1000000);
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	print_figure("before_put_max", "ms", (double)before_us / 1e3);
	store = start_store();
	wait_for_runs(1, 60000000);
	atomic_store(&over, false);
	check("thread", pthread_create(&thread, NULL, put_beside, &slowest_us));
	start_us = now_us();
	check("cancel", hwt_store_cancel_ex(store, &which, &count));
	answer_us = now_us();
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	sleep_us(2000000);
	print_figure("cancelled", "rows", (double)count);
	bar("cancel", "s", (double)(answer_us - start_us) / 1e6, 0, 10);
	bar("cancel_put_max", "ms", (double)slowest_us / 1e3, 0, 50);
	broken("one of a cancelled group started", starts_after(answer_us, &last_us));
	count += ran_of(0, n); /* those that ran then count as cancelled, too */
	broken("one neither ran nor was cancelled", count < n ? n - (unsigned)count : 0);
	check("close", hwt_store_close(store));
}

/*
 * A pause
 */

void group_pause(void)
{
	hwt_store *store, *other = open_store();
	int64_t longest_us = 0, last_us;
	unsigned after = 0, before = 0;

	n = n > 0 ? n : 200000;
	put_large(NULL);
	store = start_store();
	wait_for_runs(1, 60000000);
	for (unsigned i = 0; i < 10; i++) {
		int64_t answer_us;

		if (before < n)
			wait_for_runs(before + 1, 60000000);
		broken("nothing ran between two pauses", before < n && atomic_load(&shared->ran) == before);
		sleep_us(200000 + 13000 * (int64_t)i);
		check("pause", hwt_store_pause(other, KIND, "large"));
		answer_us = now_us();
		sleep_us(1500000);
		after += starts_after(answer_us, &last_us);
		longest_us = last_us - answer_us > longest_us ? last_us - answer_us : longest_us;
		before = atomic_load(&shared->ran);
		check("resume", hwt_store_resume(other, KIND, "large"));
	}
	print_figure("pause_starts_after", "starts", after);
	bar("pause", "ms", (double)longest_us / 1e3, 0, 1000);
	check("close", hwt_store_close(store));
	check("close", hwt_store_close(other));
}

/*
 * A crowd
 */

static const char *own_group(unsigned number)
{
	static char names[BATCH][16];

	snprintf(names[number % BATCH], sizeof(names[0]), "tenant %u", number);
	return names[number % BATCH];
}

static double heap(void)
{
	struct mallinfo2 info = mallinfo2();

	return (double)(info.uordblks + info.hblkhd);
}

static int64_t in_an_hour_us(unsigned number)
{
	return atomic_load(&shared->started_us) + INT64_C(3600000000) + number;
}

/* Puts n and waits for them in the window; then cancels them, and waits for that. */
static double crowd(hwt_store *store, const char *(*of)(unsigned number), double *after)
{
	hwt_store_which which = all_of(NULL);
	uint64_t window;
	double full;

	which.any_group = true;
	group_of = of;
	put_range(store, 0, n, in_an_hour_us);
	for (int i = 0; i < 600 && read_stats(store).window < n; i++)
		sleep_us(100000);
	window = read_stats(store).window; /* some that were cancelled before may be left */
	broken("a row did not come into the window", window < n ? n - (unsigned)window : 0);
	full = heap();
	check("cancel", hwt_store_cancel_ex(store, &which, NULL));
	for (int i = 0; i < 600 && read_stats(store).window > 0; i++)
		sleep_us(100000);
	*after = heap();
	return full;
}

void group_crowd(void)
{
	double none, of_none, groups, of_groups;
	hwt_store *store;

	horizon_ns = HWT_S(7200);
	store = start_store();
	wait_for_shards(store, 8, 8);
	atomic_store(&shared->started_us, now_us());
	(void)crowd(store, NULL, &none); /* from here on the window has its memory */
	of_none = crowd(store, NULL, &none);
	of_groups = crowd(store, own_group, &groups);
	bar("crowd", "bytes", (of_groups - of_none) / n, 0, 100);
	bar("crowd_gone", "bytes", (groups - none) / n, -100, 1);
	check("close", hwt_store_close(store));
}

/*
 * Caps.  What runs is counted in memory that all processes share: each has a row, and that of one that was killed counts
 * no more.  So a fourth run is one that ran beside three others.
 */

static unsigned my_row;

/* A few groups have most: of these more are due than may run. */
static const char *skewed(unsigned number)
{
	static char names[BATCH][16];
	uint64_t of = (uint64_t)(random_us(number, GROUPS_MAX) - atomic_load(&shared->started_us));

	snprintf(names[number % BATCH], sizeof(names[0]), "%u", (unsigned)(of * of / GROUPS_MAX));
	return names[number % BATCH];
}

static int run_capped(const hwt_store_run *run, void *ctx)
{
	unsigned group = (unsigned)strtoul(run->group, NULL, 10), running = 0;

	atomic_fetch_add(&shared->running[my_row][group], 1);
	for (unsigned i = 0; i < PROCESSES_MAX; i++)
		running += atomic_load(&shared->running[i][group]);
	if (running > CAP)
		atomic_fetch_add(&shared->ends[0], 1);
	if (running == CAP)
		atomic_fetch_add(&shared->ends[1], 1);
	note_start(run, ctx);
	sleep_us(TASK_US);
	atomic_fetch_sub(&shared->running[my_row][group], 1);
	return 0;
}

static void begin_capped(pid_t *pid, unsigned row)
{
	my_row = row;
	memset(shared->running[row], 0, sizeof(shared->running[row]));
	start_one(pid, row);
}

static int64_t at_rate_us(unsigned number)
{
	return atomic_load(&shared->started_us) + (int64_t)number * 1000000 / n;
}

static unsigned capped(void)
{
	return n * (seconds > 0 ? seconds : 20);
}

static void put_capped(void)
{
	hwt_store *store = open_store();

	for (unsigned first = 0; first < capped(); first += BATCH) {
		sleep_us(at_rate_us(first) - 1000000 - now_us());
		put_range(store, first, BATCH, at_rate_us);
	}
	check("close", hwt_store_close(store));
}

void group_caps(void)
{
	hwt_store_limits limits = HWT_STORE_LIMITS_INIT;
	hwt_store *store = open_store();
	pid_t pids[CAPPED], putter;

	limits.running = CAP;
	task = run_capped;
	task_threads = 100;
	lease_ns = lease_ns > 0 ? lease_ns : HWT_S(3);
	group_of = skewed;
	n = (n + BATCH - 1) / BATCH * BATCH;
	register_kinds(store);
	check("limit", hwt_store_limit(store, KIND, NULL, &limits));
	check("close", hwt_store_close(store));
	for (unsigned i = 0; i < CAPPED; i++)
		begin_capped(&pids[i], i);
	atomic_store(&shared->started_us, now_us() + 3000000);
	putter = spawn(put_capped);
	sleep_us(3000000);
	for (unsigned i = 0; now_us() < at_rate_us(capped()); i++) {
		unsigned row = i % CAPPED;

		kill(pids[row], i % 2 ? SIGTERM : SIGKILL);
		waitpid(pids[row], NULL, 0);
		begin_capped(&pids[row], row);
		sleep_us(1000000);
	}
	reap(putter);
	wait_for_runs(capped(), 300000000);
	stop_all(pids, CAPPED);
	print_figure("caps_ran", "rows", atomic_load(&shared->ran));
	print_figure("caps_full", "starts", atomic_load(&shared->ends[1]));
	broken("not all have run", capped() - atomic_load(&shared->ran));
	broken("a fourth one ran", atomic_load(&shared->ends[0]));
	bar("caps_fourth", "starts", 0, 0, 0);
}
