/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows that are begun and wait to be pulled, while another process cancels their series; world.h. */
#include "world.h"

#define PULLED 3 /* a kind */
#define SERIES 6

static void put_series(struct node *node)
{
	unsigned number = item_count++;
	struct item *item = &items[number];
	hwt_store_spec spec = { .size = sizeof(spec),
				.kind = sim_kinds[PULLED].name,
				.data = &number,
				.len = sizeof(number),
				.period_ns = HWT_S(1000000) };

	sim_set_kind(item, PULLED);
	item->len = sizeof(number);
	item->period_us = spec.period_ns / 1000;
	item->put = hwt_store_put(node->store, &spec, &item->id) == 0 ? ACCEPTED : CALLED;
}

static void cancel(struct node *node, struct item *item)
{
	item->may_be_cancelled = true;
	item->cancelled = hwt_store_cancel(node->store, item->id) == 0;
	item->off_ns = sim_now();
	sim_tell("cancels %u: %d", (unsigned)(item - items), item->cancelled);
}

static void *cancel_what_waits(void *arg)
{
	struct node *node = arg;

	for (unsigned round = 0; round < 20 && !node->is_worker; round++) {
		unsigned first = item_count;

		for (unsigned i = 0; i < SERIES; i++)
			put_series(node);
		sim_sleep((int64_t)sim_random((uint64_t)sim_lease_ns));
		for (unsigned i = 0; i < SERIES; i++)
			cancel(node, &items[first + i]);
		sim_sleep(3 * sim_lease_ns);
	}
	sim_is_over = !node->is_worker;
	return NULL;
}

void sim_live_with_what_waits(void)
{
	sim_settle_scene(HWT_S(1), cancel_what_waits);
	sim_settings.leaves = true;
	node_count = 2;
	sim_make_tables();
	for (unsigned i = 0; i < node_count; i++) {
		nodes[i] = (struct node){ .number = i, .is_worker = i == 0, .threads = 2 };
		sim_start_node(&nodes[i]);
	}
	while (!sim_is_over)
		sim_sleep(sim_lease_ns);
	sim_come_to_the_end();
}
