/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios of store_bench in which a user holds something while others run.  A process puts, this one runs.
 *
 *     cliff_snapshot  lives as fast as they go for -T seconds, then with a snapshot open, then when N have died since,
 *                     then without it: runs a second, and the longest time in which nothing ran
 *     cliff_lock      the same with a transaction that has locked one row that is due; none on SQLite
 *     cliff_soak      1000 lives a second for -T seconds with a snapshot open: rate and lateness of each tenth
 */
#include "common.h"

#include <stdio.h>
#include <string.h>

#define BACKLOG 4000
#define PATIENCE_US INT64_C(300000000)
#define STEP_US 100000
#define STEP 100 /* put in each step of a soak, due a second later */
#define TENTHS 10

static int64_t now_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

/*
 * The process that puts, from the number shared->put on, while shared->go is 1
 */

static void put_while_told(bool paced)
{
	hwt_store *store = open_store();
	unsigned step = paced ? STEP : BATCH;

	while (atomic_load(&shared->go) == 0)
		sleep_us(1000);
	while (atomic_load(&shared->go) == 1 && atomic_load(&shared->put) + step <= N_MAX) {
		unsigned put = atomic_load(&shared->put);
		int64_t next_us = now_us() + STEP_US, at_us = clock_us(CLOCK_REALTIME);

		if (!paced && put > atomic_load(&shared->ran) + BACKLOG) {
			sleep_us(500);
			continue;
		}
		for (unsigned i = 0; paced && i < step; i++)
			shared->due_us[put + i] = at_us + 1000000 + (int64_t)i * STEP_US / STEP;
		put_range(store, put, step, paced ? noted_due_us : NULL);
		atomic_store(&shared->put, put + step);
		if (paced)
			sleep_us(next_us - now_us());
	}
	check("close", hwt_store_close(store));
}

static void put_fast(void)
{
	put_while_told(false);
}

static void put_paced(void)
{
	put_while_told(true);
}

/* Prints runs a second, and the longest time without a run, until for_s seconds are over or `most` more have run. */
static void watch(const char *name, unsigned for_s, unsigned most)
{
	unsigned first = atomic_load(&shared->ran), last = first, ran = first;
	int64_t start_us = now_us(), ran_us = start_us, stood_us = 0, at_us = start_us;
	char figure[64];

	while (at_us < start_us + for_s * INT64_C(1000000) && ran - first < most) {
		sleep_us(2000);
		at_us = now_us();
		ran = atomic_load(&shared->ran);
		stood_us = at_us - ran_us > stood_us ? at_us - ran_us : stood_us;
		if (ran != last)
			ran_us = at_us;
		last = ran;
	}
	snprintf(figure, sizeof(figure), "%sruns", name);
	print_figure(figure, "1/s", (ran - first) * 1e6 / (double)(at_us - start_us));
	snprintf(figure, sizeof(figure), "%sstood", name);
	print_figure(figure, "ms", (double)stood_us / 1e3);
}

/* What was put has run, once unless a lease was lost. */
static void finish(hwt_store *store, pid_t child)
{
	uint64_t lost = read_stats(store).lost_leases;

	atomic_store(&shared->go, 2);
	reap(child);
	wait_for_runs(atomic_load(&shared->put), PATIENCE_US);
	check("close", hwt_store_close(store));
	print_figure("lost_leases", "leases", (double)lost);
	if (lost > 0)
		check_kept(atomic_load(&shared->put));
	else
		check_law(atomic_load(&shared->put), 0);
}

static void *open_snapshot(void)
{
	void *user = user_open();

	(void)user_sql(user, user_has_locks_of_rows() ? "begin isolation level repeatable read" : "begin");
	(void)user_sql(user, "select count(*) from %s_kind", schema);
	return user;
}

void cliff_snapshot(void)
{
	pid_t child = spawn(put_fast);
	hwt_store *store = start_store();
	unsigned each_s = seconds > 0 ? seconds : 10, before;
	void *user;

	wait_for_shards(store, 8, 8);
	atomic_store(&shared->go, 1);
	watch("before_", each_s, N_MAX);
	user = open_snapshot();
	before = atomic_load(&shared->ran);
	watch("filling_", (unsigned)(PATIENCE_US / 1000000), n);
	print_figure("dead", "rows", atomic_load(&shared->ran) - before);
	watch("during_", each_s, N_MAX);
	(void)user_sql(user, "rollback");
	user_close(user);
	watch("after_", each_s, N_MAX);
	finish(store, child);
}

static int64_t in_a_second_us(unsigned number)
{
	(void)number;
	return clock_us(CLOCK_REALTIME) + 1000000;
}

void cliff_lock(void)
{
	pid_t child = spawn(put_fast);
	hwt_store *store = start_store();
	unsigned each_s = seconds > 0 ? seconds : 10;
	void *user = user_open();
	int64_t id;

	wait_for_shards(store, 8, 8);
	put_range(store, 0, 1, in_a_second_us);
	atomic_store(&shared->put, 1);
	(void)user_sql(user, "begin");
	id = user_sql(user, "select id from %s_timeout for update", schema);
	check("no row was locked", id == 0);
	atomic_store(&shared->go, 1);
	sleep_us(2000000);
	watch("during_", each_s, N_MAX);
	(void)user_sql(user, "rollback");
	user_close(user);
	watch("after_", each_s, N_MAX);
	finish(store, child);
}

void cliff_soak(void)
{
	pid_t child = spawn(put_paced);
	hwt_store *store = start_store();
	unsigned each_s = seconds > TENTHS ? seconds / TENTHS : 1;
	void *user = open_snapshot();

	wait_for_shards(store, 8, 8);
	atomic_store(&shared->go, 1);
	for (unsigned i = 1; i <= TENTHS; i++) {
		char name[32];
		unsigned first = atomic_load(&shared->ran), count;

		snprintf(name, sizeof(name), "tenth=%u/", i);
		watch(name, each_s, N_MAX);
		count = atomic_load(&shared->ran) - first;
		if (i > 1 && count > STEP) /* of those whose number is in between some may not have begun */
			print_lateness(strcat(name, "late"), first > STEP ? first - STEP : 0, count - STEP);
	}
	(void)user_sql(user, "rollback");
	user_close(user);
	finish(store, child);
}
