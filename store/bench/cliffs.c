/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios of store_bench where a store could fall off a cliff: one number grows, and nothing runs any more.  Each wait
 * ends after PATIENCE_US, and the figure then says so; a scenario fails only when nothing ran or something was lost.
 *
 *     cliff_backlog  N that are due already, of -K kinds of -s shards, and a lease of -l: time of the start, until the
 *                    first run; runs in -T seconds; leases lost; time of the stop
 *     cliff_once     N of a kind that runs at most once are due within a day, and who held them is killed: how long its
 *                    successor takes to start, to hold all shards, and to run 1000 that are put then
 *     cliff_puts     puts before and after the same process has put N that are due in ten days, and from a new process
 *     cliff_each     N in -s shards: time to list them
 *     cliff_join     -s shards and N in the window: until the first process holds all, until a second one has its half,
 *                    its stop, until the first one has them back, its stop
 *     cliff_moved    N in the window are moved to a later time, then N others are due: how long these take
 */
#include "common.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define PATIENCE_US INT64_C(60000000)
#define DAY_US INT64_C(86400000000)
#define SOME 1000
#define PUTS 300
#define MOVERS 16

static int64_t now_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

static void print_since(const char *figure, const char *unit, int64_t start_us)
{
	print_figure(figure, unit, (double)(now_us() - start_us) / (strcmp(unit, "s") == 0 ? 1e6 : 1e3));
}

static void make_kinds(void)
{
	int64_t start_us = now_us();
	hwt_store *store = open_store();

	shards = shards > 0 ? shards : 8;
	kind_of = in_turn;
	register_kinds(store);
	check("close", hwt_store_close(store));
	print_since("made", "ms", start_us);
}

static hwt_store *start_timed(void)
{
	hwt_store *store = open_store();
	int64_t start_us = now_us();

	register_kinds(store);
	print_since("register", "ms", start_us);
	start_us = now_us();
	check("start", hwt_store_start(store));
	print_since("start", "ms", start_us);
	return store;
}

static void close_timed(hwt_store *store, const char *figure)
{
	int64_t start_us = now_us();

	check("stop", hwt_store_stop(store));
	print_since(figure, "ms", start_us);
	check("close", hwt_store_close(store));
}

static void wait_to_hold(hwt_store *store, unsigned count, const char *figure)
{
	int64_t start_us = now_us();

	while (read_stats(store).shards_held < count && now_us() < start_us + PATIENCE_US)
		sleep_us(1000);
	print_since(figure, "ms", start_us);
}

void cliff_backlog(void)
{
	int64_t start_us, first_us;
	unsigned ran;
	hwt_store *store;

	make_kinds();
	store = open_store();
	put_range(store, 0, n, NULL);
	check("close", hwt_store_close(store));
	start_us = now_us();
	store = start_timed();
	wait_for_runs(1, PATIENCE_US);
	print_since("first_run", "ms", start_us);
	ran = atomic_load(&shared->ran);
	first_us = now_us();
	wait_for_runs(n, seconds > 0 ? seconds * INT64_C(1000000) : 10000000);
	print_figure("runs", "rows", atomic_load(&shared->ran));
	print_figure("rate", "1/s", (atomic_load(&shared->ran) - ran) * 1e6 / (double)(now_us() - first_us + 1));
	print_figure("held", "shards", (double)read_stats(store).shards_held);
	print_figure("lost_leases", "leases", (double)read_stats(store).lost_leases);
	close_timed(store, "stop");
	check_kept(n);
}

/*
 * At most once
 */

static int64_t today_us(unsigned number)
{
	return number < n ? random_us(number, DAY_US - INT64_C(3600000000)) + INT64_C(3600000000)
			  : clock_us(CLOCK_REALTIME);
}

void cliff_once(void)
{
	hwt_store *store;
	int64_t start_us;
	pid_t pid;

	mode = HWT_STORE_AT_MOST_ONCE;
	make_kinds();
	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME));
	store = open_store();
	put_range(store, 0, n, today_us);
	check("close", hwt_store_close(store));
	start_all(&pid, 1);
	for (start_us = now_us(); !all_hold(1, shards * kind_count) && now_us() < start_us + PATIENCE_US;)
		sleep_us(1000);
	print_since("first_held", "ms", start_us);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	start_us = now_us();
	store = start_timed();
	wait_to_hold(store, shards * kind_count, "held");
	put_range(store, n, SOME, today_us);
	wait_for_runs(1, PATIENCE_US);
	print_since("first_run", "ms", start_us);
	wait_for_runs(SOME, PATIENCE_US);
	print_since("runs_of_1000", "ms", start_us);
	print_figure("lost_leases", "leases", (double)read_stats(store).lost_leases);
	close_timed(store, "stop");
	check_kept(n + SOME);
}

/*
 * Far rows
 */

static int64_t far_us(unsigned number)
{
	return random_us(number, DAY_US) + 10 * DAY_US;
}

static unsigned keys; /* used so far */

/* Single puts, which stay: without a key, and with one. */
static void print_puts(hwt_store *store, const char *when, bool with_key)
{
	hwt_store_spec spec = HWT_STORE_SPEC_INIT;
	int64_t took_us[PUTS];
	char key[16], figure[64];

	spec.kind = KIND;
	spec.key = with_key ? key : NULL;
	spec.delay_ns = HWT_S(864000);
	for (unsigned i = 0; i < PUTS; i++) {
		int64_t start_us = now_us();

		snprintf(key, sizeof(key), "k%u", keys++);
		check("put", hwt_store_put(store, &spec, NULL));
		took_us[i] = now_us() - start_us;
	}
	qsort(took_us, PUTS, sizeof(took_us[0]), compare_us);
	snprintf(figure, sizeof(figure), "%s%s_p50", when, with_key ? "_key" : "");
	print_figure(figure, "ms", (double)took_us[PUTS / 2] / 1e3);
}

void cliff_puts(void)
{
	int64_t start_us;
	hwt_store *store, *other;
	void *user;

	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME));
	store = start_store();
	wait_to_hold(store, 8, "held");
	print_puts(store, "before", false);
	print_puts(store, "before", true);
	start_us = now_us();
	put_range(store, 0, n, far_us);
	print_figure("far_put", "1/s", n * 1e6 / (double)(now_us() - start_us));
	print_puts(store, "after", false);
	print_puts(store, "after", true);
	other = open_store();
	print_puts(other, "other", false);
	print_puts(other, "other", true);
	check("close", hwt_store_close(other));
	check("close", hwt_store_close(store));
	user = user_open();
	if (user_sql(user, "select count(*) from %s_timeout", schema) != n + 6 * PUTS)
		check("far rows were lost", EIO);
	user_close(user);
}

/*
 * Many shards
 */

static bool count_any(void *ctx, const hwt_store_info *info)
{
	(void)info;
	++*(unsigned *)ctx;
	return true;
}

void cliff_each(void)
{
	unsigned count = 0;
	hwt_store *store;
	int64_t start_us;

	make_kinds();
	kind_of = NULL;
	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME));
	store = open_store();
	put_range(store, 0, n, far_us);
	start_us = now_us();
	check("each", hwt_store_each(store, KIND, 1u << HWT_STORE_PENDING, count_any, &count));
	print_since("each", "ms", start_us);
	check("close", hwt_store_close(store));
	check("some were not listed", count != n ? EIO : 0);
}

static void wait_for_shares(unsigned first, unsigned second, const char *figure)
{
	int64_t start_us = now_us();

	while ((atomic_load(&shared->held[0]) != first || atomic_load(&shared->held[1]) != second) &&
	       now_us() < start_us + PATIENCE_US)
		sleep_us(1000);
	print_since(figure, "ms", start_us);
}

static void stop_timed(pid_t pid, const char *figure)
{
	int64_t start_us = now_us();

	stop_all(&pid, 1);
	print_since(figure, "ms", start_us);
}

static int64_t in_window_us(unsigned number)
{
	return random_us(number, 5000000) + 8000000;
}

void cliff_join(void)
{
	hwt_store *store;
	pid_t pids[2];
	unsigned all;

	horizon_ns = HWT_S(60);
	make_kinds();
	all = shards * kind_count;
	atomic_store(&shared->started_us, clock_us(CLOCK_REALTIME));
	store = open_store();
	put_range(store, 0, n, in_window_us);
	check("close", hwt_store_close(store));
	start_one(&pids[0], 0);
	wait_for_shares(all, 0, "all");
	start_one(&pids[1], 1);
	wait_for_shares(all - all / 2, all / 2, "half");
	stop_timed(pids[1], "stop_second");
	atomic_store(&shared->held[1], 0);
	wait_for_shares(all, 0, "back");
	wait_for_runs(n, PATIENCE_US);
	stop_timed(pids[0], "stop_first");
	check_kept(n);
}

/*
 * What is moved later
 */

static hwt_store *moved_in;
static int64_t *ids;
static atomic_uint moved;

static void *move_some(void *arg)
{
	unsigned i;

	(void)arg;
	while ((i = atomic_fetch_add(&moved, 1)) < n) {
		int rc;

		do
			rc = hwt_store_reschedule(moved_in, ids[i], HWT_S(3600));
		while (rc == EAGAIN);
		check("reschedule", rc == ENOENT || rc == EBUSY ? 0 : rc); /* it was due before its turn came */
	}
	return NULL;
}

/* Puts first .. first + n - 1 of the one kind, due then, and notes their ids. */
static void put_noted(unsigned first, int64_t due_us)
{
	hwt_store_spec specs[BATCH];
	unsigned numbers[BATCH];

	for (unsigned from = 0; from < n; from += BATCH) {
		unsigned count = n - from < BATCH ? n - from : BATCH;

		for (unsigned i = 0; i < count; i++) {
			numbers[i] = first + from + i;
			specs[i] = (hwt_store_spec)HWT_STORE_SPEC_INIT;
			specs[i].kind = KIND;
			specs[i].data = &numbers[i];
			specs[i].len = sizeof(numbers[i]);
			specs[i].flags = HWT_STORE_ABSOLUTE;
			specs[i].due_us = due_us;
		}
		check("put_many", hwt_store_put_many(moved_in, specs, count, ids + from));
	}
}

/* From the time on when they were due until the last of first .. first + n - 1 began. */
static void print_rate(unsigned first, int64_t due_us)
{
	int64_t last_us = due_us + 1;
	unsigned ran = 0;

	for (unsigned i = first; i < first + n; i++) {
		ran += atomic_load(&shared->starts[i]) > 0;
		last_us = shared->begun_us[i] > last_us ? shared->begun_us[i] : last_us;
	}
	print_figure("runs", "rows", ran);
	print_figure("rate", "1/s", ran * 1e6 / (double)(last_us - due_us));
}

void cliff_moved(void)
{
	pthread_t threads[MOVERS];
	int64_t due_us, start_us;

	horizon_ns = HWT_S(300);
	ids = calloc(n, sizeof(*ids));
	check("memory", ids != NULL ? 0 : ENOMEM);
	moved_in = start_store();
	wait_to_hold(moved_in, 8, "held");
	due_us = clock_us(CLOCK_REALTIME) + 5000000 + (int64_t)n * 1000000 / 1000;
	put_noted(0, due_us);
	for (start_us = now_us(); read_stats(moved_in).window < n && now_us() < start_us + PATIENCE_US;)
		sleep_us(1000);
	start_us = now_us();
	for (unsigned i = 0; i < MOVERS; i++)
		check("thread", pthread_create(&threads[i], NULL, move_some, NULL));
	for (unsigned i = 0; i < MOVERS; i++)
		pthread_join(threads[i], NULL);
	print_figure("moved", "1/s", n * 1e6 / (double)(now_us() - start_us));
	print_figure("window_then", "rows", (double)read_stats(moved_in).window);
	start_us = clock_us(CLOCK_REALTIME) + 1000000;
	due_us = due_us > start_us ? due_us : start_us;
	put_noted(n, due_us);
	sleep_us(due_us - clock_us(CLOCK_REALTIME));
	wait_for_runs(n, PATIENCE_US);
	print_rate(n, due_us);
	print_figure("window_at_end", "rows", (double)read_stats(moved_in).window);
	close_timed(moved_in, "stop");
	check_kept(2 * n);
	free(ids);
}
