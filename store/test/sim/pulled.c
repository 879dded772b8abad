/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs that a process pulls, and ends on any of its threads, some of them late; world.h. */
#include "world.h"

#include <poll.h>
#include <stdlib.h>

struct pull {
	struct node *node;
	hwt_store_run *run;
	int64_t lasts_ns; /* how long the item runs, without this run */
};

static void end_run(struct pull *pull, struct item *item, int answer)
{
	bool is_late = sim_is_anothers(item, pull->run), is_calm = !sim_settings.one_name && sim_fault_count == 0 &&
								   sim_now() - sim_fault_ns > 3 * sim_lease_ns &&
								   !pull->node->stops_since_ns && !pull->node->halts;
	int rc = hwt_store_end(pull->run, answer);

	sim_tell("ends %u, which was pulled, with %d: %d", (unsigned)(item - items), answer, rc);
	if (rc != 0 && rc != ESTALE && !(rc == EIO && item->is_poisoned))
		sim_fail("an end", 0, "returns %d: %s", rc, hwt_store_error());
	if (rc == 0 && is_late)
		sim_fail("an end", 0, "of timeout %u is taken, and another process has begun it",
			 (unsigned)(item - items));
	if (rc == ESTALE && is_calm)
		sim_fail("an end", 0, "of timeout %u is stale, and nothing was out of order", (unsigned)(item - items));
}

static void *live_as_run(void *arg)
{
	struct pull *pull = arg;
	struct node *node = pull->node;
	struct item *item = &items[*(const unsigned *)pull->run->data];
	int answer = sim_work(item, node, pull->run);

	item->lasts_ns = pull->lasts_ns;
	sim_end_run(item, node);
	if (!node->drops)
		end_run(pull, item, answer);
	free(pull);
	node->out--;
	sim_wake_all(&node->out);
	return NULL;
}

static void begin_run(struct node *node, hwt_store_run *run)
{
	struct item *item = &items[*(const unsigned *)run->data];
	struct pull *pull = malloc(sizeof(*pull));

	*pull = (struct pull){ node, run, item->lasts_ns };
	if (sim_settings.faults && !sim_is_over && sim_hit(30))
		item->lasts_ns = sim_some_time(3 * sim_lease_ns);
	sim_begin_run(item, node, run);
	sim_detach(sim_start(node->process, "a run", live_as_run, pull));
}

/* Only the descriptor says that there is a run. */
void *sim_pull(void *arg)
{
	struct node *node = arg;
	const struct timespec long_s = { .tv_sec = 10 * sim_lease_ns / HWT_S(1) };
	struct pollfd set = { .fd = -1, .events = POLLIN };

	while (set.fd < 0 && hwt_store_fd(node->store, &set.fd) != 0)
		sim_sleep(HWT_MS(100));
	for (;;) {
		hwt_store_run *run = NULL;
		int rc;

		if (sim_settings.leaves && !node->halts)
			sim_sleep((int64_t)sim_random((uint64_t)(2 * sim_lease_ns)));
		node->out++;
		node->pulls++;
		rc = hwt_store_next(node->store, &run);
		if (rc == 0)
			begin_run(node, run);
		else
			node->out--;
		if (rc == ECANCELED && node->halts)
			return NULL;
		if (rc == ECANCELED || rc == ENOMEM)
			sim_sleep(HWT_MS(10));
		else if (rc == EAGAIN)
			(void)ppoll(&set, 1, &long_s, NULL);
		else if (rc != 0)
			sim_fail("next", 0, "returns %d: %s", rc, hwt_store_error());
	}
}

/* From now on no thread ends a run: the process closes its store. */
void sim_drop_pulled(struct node *node)
{
	sim_tell("closes, and %u runs are out", node->out);
	node->drops = true;
	while (node->out > 0)
		(void)sim_wait("runs that are dropped", &node->out, SIM_NEVER);
}
