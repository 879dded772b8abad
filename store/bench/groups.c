/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *     cliff_group    N of one group lie among as many of others: how long it takes to list them, to move them and to
 *                    cancel them, and the slowest put of another store meanwhile; before it is the slowest of PUTS
 */
#include "common.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

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
