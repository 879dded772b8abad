/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client forges news of rows that do not exist, each of 1 MiB: each costs a begin in vain.  Real puts beside them
 * must start on time, and not wait for a look: when they are due soon, are of many groups and fill a window; and when
 * many rows are overdue.
 */
#include "world.h"

#include <stdlib.h>

#define FORGED INT64_C(4000000000000) /* the first forged number; no put gets such numbers */
#define PUTS 100
#define BURST 5000

static void send_forged(int64_t number, int32_t shard, int64_t delay_us)
{
	struct news *news = calloc(1, sizeof(*news));

	news->shard = shard;
	news->due = (struct hwts_due){ .id = number << 10 | (shard & 1023),
				       .due_us = sim_server_us() + delay_us,
				       .shard = shard,
				       .len = HWT_STORE_DATA_MAX };
	hwts_due_set(&news->due, &number, delay_us > 0 ? sizeof(number) : 0, (int64_t)sim_random(100));
	sim_send_news(news);
}

static void *forge(void *arg)
{
	int64_t number = FORGED;

	for (; !sim_is_over; sim_sleep(HWT_MS(50)))
		EACH_COMMITTED (SHARD, place)
			send_forged(number++, (int32_t)place->n[SHARD_ID], 4 * HWTS_S_US);
	return arg;
}

static void put_some(struct node *node, unsigned n)
{
	int64_t before_ns = sim_late_ns;

	for (unsigned i = 0; i < n; i++) {
		(void)sim_put_in(node, HWT_STORE_AT_LEAST_ONCE, 0, 0, 0);
		sim_sleep(HWT_MS(50));
	}
	sim_is_over = true;
	sim_sleep(HWT_S(25)); /* long enough for a look */
	if (sim_late_ns - before_ns > HWT_S(1))
		sim_fail("forged news", 0, "have made %u others %.3f s late", n,
			 (double)(sim_late_ns - before_ns) / 1e9);
}

/* Meanwhile two looks have met a window that is full of forged news. */
static void *put_beside_a_forger(void *node)
{
	(void)sim_start(NULL, "a forger", forge, NULL);
	sim_sleep(HWT_S(45));
	put_some(node, PUTS);
	return NULL;
}

static void *put_behind_a_burst(void *node)
{
	uint64_t before = sim_sum->exchanges;

	sim_sleep(HWT_S(6));
	for (int64_t number = FORGED; number < FORGED + BURST;)
		EACH_COMMITTED (SHARD, place)
			send_forged(number++, (int32_t)place->n[SHARD_ID], -HWTS_S_US);
	put_some(node, 1);
	if (sim_sum->exchanges - before > BURST / 10)
		sim_fail("forged news", 0, "%d have cost %d exchanges", BURST, (int)(sim_sum->exchanges - before));
	return NULL;
}

static void live(void *(*use)(void *node), unsigned window, unsigned threads)
{
	sim_settle_scene(HWT_S(60), use);
	sim_network.trip_ns = HWT_MS(1);
	atomic_store(&hwts_test_window, window);
	sim_start_workers(1, threads);
	sim_sleep(HWT_S(90));
	SIM_CHECK(item_count > 0);
	sim_stop_all();
}

void sim_live_beside_a_forger(void)
{
	live(put_beside_a_forger, 80, 4);
}

void sim_live_behind_forged_news(void)
{
	live(put_behind_a_burst, 0, 64);
}
