/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *     cliff_group    N of one group lie among as many of others: how long it takes to list them, to move them and to
 *                    cancel them, and the slowest put of another store meanwhile; before it is the slowest of PUTS
 *     group_rate     a group may start 100 a second, and ten at once, and more are due: how many start a second in -T
 *                    seconds, and the most in one second
 */
#include "common.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PUTS 200
#define FEW 1000 /* of each other group */

static atomic_bool over;
static int64_t slowest_us;

static hwt_store_spec spec_of(const char *group)
{
	hwt_store_spec spec = HWT_STORE_SPEC_INIT;

	spec.kind = KIND;
	spec.group = group;
	spec.delay_ns = HWT_S(864000);
	return spec;
}

static void put_group(hwt_store *store, const char *group, unsigned count)
{
	hwt_store_spec specs[BATCH];

	for (unsigned i = 0; i < BATCH; i++)
		specs[i] = spec_of(group);
	for (unsigned at = 0; at < count; at += BATCH)
		check("put_many", hwt_store_put_many(store, specs, count - at < BATCH ? count - at : BATCH, NULL));
}

static void put_once(hwt_store *store)
{
	hwt_store_spec spec = spec_of("bystander");
	int64_t start_us = clock_us(CLOCK_MONOTONIC), took_us;

	check("put", hwt_store_put(store, &spec, NULL));
	took_us = clock_us(CLOCK_MONOTONIC) - start_us;
	slowest_us = took_us > slowest_us ? took_us : slowest_us;
}

static void *put_on(void *store)
{
	while (!atomic_load(&over)) {
		put_once(store);
		sleep_us(1000);
	}
	return NULL;
}

static bool count_any(void *ctx, const hwt_store_info *info)
{
	(void)info;
	++*(unsigned *)ctx;
	return true;
}

static void list(hwt_store *store, const hwt_store_which *which)
{
	unsigned count = 0;

	check("each", hwt_store_each_ex(store, which, count_any, &count));
	check("some were not listed", count != n ? EIO : 0);
}

static void move(hwt_store *store, const hwt_store_which *which)
{
	const hwt_store_when when = { .delay_ns = HWT_S(864000) * 2 };
	uint64_t count = 0;

	check("reschedule", hwt_store_reschedule_ex(store, which, when, &count));
	check("some were not moved", count != n ? EIO : 0);
}

static void cancel(hwt_store *store, const hwt_store_which *which)
{
	uint64_t count = 0;

	check("cancel", hwt_store_cancel_ex(store, which, &count));
	check("some were not cancelled", count != n ? EIO : 0);
}

static void measure(hwt_store *store, const char *name, void (*act)(hwt_store *, const hwt_store_which *))
{
	hwt_store_which which = HWT_STORE_WHICH_INIT;
	hwt_store *other = open_store();
	pthread_t thread;
	char figure[32];
	int64_t start_us;

	which.kind = KIND;
	which.group = "large";
	which.all = true;
	slowest_us = 0;
	atomic_store(&over, false);
	check("thread", pthread_create(&thread, NULL, put_on, other));
	start_us = clock_us(CLOCK_MONOTONIC);
	act(store, &which);
	print_figure(name, "s", (double)(clock_us(CLOCK_MONOTONIC) - start_us) / 1e6);
	atomic_store(&over, true);
	check("thread", pthread_join(thread, NULL));
	(void)snprintf(figure, sizeof(figure), "%s_put_max", name);
	print_figure(figure, "ms", (double)slowest_us / 1e3);
	check("close", hwt_store_close(other));
}

void cliff_group(void)
{
	hwt_store *store = open_store();
	char group[32];

	for (unsigned i = 0; i < n / FEW; i++) {
		(void)snprintf(group, sizeof(group), "small %u", i);
		put_group(store, group, FEW);
	}
	put_group(store, "large", n);
	for (unsigned i = 0; i < PUTS; i++)
		put_once(store);
	print_figure("before_put_max", "ms", (double)slowest_us / 1e3);
	measure(store, "each", list);
	measure(store, "move", move);
	measure(store, "cancel", cancel);
	check("close", hwt_store_close(store));
}

#define PER_S 100

/* The most in one second, of times in order. */
static unsigned most_in_a_second(const int64_t *at_us, unsigned count)
{
	unsigned most = 0;

	for (unsigned i = 0, first = 0; i < count; i++) {
		while (at_us[first] <= at_us[i] - 1000000)
			first++;
		most = i - first + 1 > most ? i - first + 1 : most;
	}
	return most;
}

void group_rate(void)
{
	hwt_store_limits limits = HWT_STORE_LIMITS_INIT;
	unsigned for_s = seconds > 0 ? seconds : 8, ran;
	hwt_store *store = open_store();

	limits.start_every_ns = HWT_S(1) / PER_S;
	limits.burst = PER_S / 10;
	n = PER_S * 2 * for_s;
	group_count = 1;
	register_kinds(store);
	check("limit", hwt_store_limit(store, KIND, NULL, &limits));
	put_range(store, 0, n, NULL);
	check("start", hwt_store_start(store));
	wait_for_runs(1, 60000000);
	sleep_us(for_s * INT64_C(1000000));
	check("close", hwt_store_close(store));
	ran = atomic_load(&shared->ran);
	qsort(shared->begun_us, n, sizeof(shared->begun_us[0]), compare_us); /* what has not begun comes first */
	print_figure("rate", "1/s", (double)ran / for_s);
	print_figure("rate_most", "starts", most_in_a_second(&shared->begun_us[n - ran], ran));
}
