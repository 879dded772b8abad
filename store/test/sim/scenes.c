/* SPDX-License-Identifier: BSD-2-Clause */
/* Worlds: a random one, and stories that chance would hardly lead to; world.h. */
#include "world.h"

#include <stdlib.h>

/*
 * Parts that scenes share
 */

void sim_make_tables(void)
{
	struct tx *tx = sim_begin_tx(0);
	struct act act = { .tx = tx };
	struct version *meta = sim_insert(&act, META);

	for (int64_t i = 0; i < ADVISORY_LOCKS; i++)
		sim_insert(&act, ADVISORY)->n[0] = i;
	meta->n[META_NEXT] = 1;
	sim_set_text(meta, META_STORE, "store", 5);
	sim_commit_tx(tx);
	sim_sleep(HWT_S(40));
	sim_settle();
}

void sim_settle_world(void)
{
	static const int64_t leases[] = { 1, 1, 2, 6, 6, 30, 600, 3600 };
	static const int64_t epochs[] = { 1800000000, SIM_SPRING_S, SIM_AUTUMN_S };

	sim_lease_ns = HWT_S(leases[sim_random(HWTS_COUNT(leases))]);
	sim_epoch_ns = HWT_S(epochs[sim_random(HWTS_COUNT(epochs))]) - (int64_t)sim_random(HWT_S(100000));
	sim_server.clock_ns = sim_epoch_ns;
	sim_network.trip_ns = HWT_US(50) << sim_random(8);
	sim_settings = (struct settings){ .length_ns = sim_lease_ns * (int64_t)(10 + sim_random(100)),
					  .faults = (unsigned)sim_random(UINT64_C(1) << 32),
					  .max_attempts = 3 + (unsigned)sim_random(4),
					  .backoff_ns = sim_lease_ns / 8,
					  .long_tasks = sim_hit(4),
					  .poisons = sim_hit(4),
					  .pauses = sim_hit(2),
					  .kills = sim_hit(2),
					  .rules = sim_hit(2),
					  .one_name = sim_hit(8) };
	for (unsigned kind = 0; kind < KINDS; kind++)
		sim_settings.concurrency[kind] = sim_hit(3) ? 1 + (unsigned)sim_random(2) : 0;
	node_count = 1 + (unsigned)sim_random(NODES);
}

/* No faults happen except those of the scene. */
void sim_settle_scene(int64_t lease_ns, void *(*use)(void *node))
{
	sim_settle_world();
	sim_lease_ns = lease_ns;
	sim_settings = (struct settings){ .max_attempts = 5, .backoff_ns = HWT_S(1), .use = use };
}

/* Waits until nothing is left to do, but not for ever. */
static void let_rest(void)
{
	int64_t until_ns = sim_now() + 2000 * sim_lease_ns;

	while (!sim_is_quiet() && sim_now() < until_ns)
		sim_sleep(sim_lease_ns / 2);
	sim_sleep(2 * sim_lease_ns);
}

void sim_stop_all(void)
{
	sim_fault_count++; /* late starts are no failures any more */
	for (unsigned i = 0; i < node_count; i++) {
		nodes[i].halts = true;
		sim_wake_all(&nodes[i]);
	}
	for (unsigned i = 0; i < node_count; i++)
		while (nodes[i].is_up)
			(void)sim_wait("the end", &nodes[i].is_up, SIM_NEVER);
}

/*
 * Random worlds
 */

static void start_all(void)
{
	for (unsigned i = 0; i < node_count; i++)
		nodes[i] = (struct node){ .number = i,
					  .is_worker = i == 0 || !sim_hit(4),
					  .threads = 1 + (unsigned)sim_random(4) };
	sim_make_tables();
	sim_tell("a lease is %.0f s, %u processes", (double)sim_lease_ns / 1e9, node_count);
	for (unsigned i = 0; i < node_count; i++)
		sim_start_node(&nodes[i]);
	(void)sim_start(NULL, "watch", sim_watch, NULL);
}

void sim_start_workers(unsigned count, unsigned threads)
{
	node_count = count;
	sim_make_tables();
	if (!sim_settings.damages)
		(void)sim_start(NULL, "watch", sim_watch, NULL);
	for (unsigned i = 0; i < count; i++) {
		nodes[i] = (struct node){ .number = i, .is_worker = true, .threads = threads };
		sim_start_node(&nodes[i]);
	}
}

void sim_come_to_the_end(void)
{
	sim_is_over = true;
	sim_heal();
	sim_tell("all is in order from now on");
	let_rest();
	sim_judge_all();
	sim_stop_all();
}

static void live(void)
{
	start_all();
	for (unsigned i = 0; i < 2; i++)
		(void)sim_start(NULL, "faults", sim_befall, NULL);
	if (sim_settings.kills)
		(void)sim_start(NULL, "tends", sim_tend, NULL);
	sim_sleep(sim_settings.length_ns);
	sim_come_to_the_end();
}

void sim_live(void)
{
	sim_settle_world();
	live();
}

/* Half of the timeouts have one of a few keys, and are replaced, mostly while they run. */
void sim_live_with_puts_that_replace(void)
{
	sim_settle_world();
	sim_settings.replaces = true;
	live();
}

static void live_in_peace(bool is_crowded, bool tells)
{
	sim_settle_world();
	sim_lease_ns = HWT_S(12) << (is_crowded ? 0 : sim_random(8));
	sim_network.trip_ns = HWT_US(50) << sim_random(6);
	sim_settings = (struct settings){ .max_attempts = 4,
					  .backoff_ns = HWT_S(1),
					  .length_ns = 40 * sim_lease_ns,
					  .horizon_ns = sim_lease_ns << sim_random(5),
					  .pauses = sim_hit(2),
					  .rules = is_crowded || sim_hit(2),
					  .is_crowded = is_crowded,
					  .tells = tells,
					  .one_name = sim_hit(2) };
	start_all();
	for (unsigned i = 0; i < node_count; i++)
		nodes[i].threads = 8;
	sim_sleep(3 * sim_lease_ns); /* of two processes with one name, the second waits for the end of a lease */
	sim_settings.most_late_ns = HWT_S(1);
	hwts_test_rescued = 0;
	sim_sleep(sim_settings.length_ns);
	SIM_CHECK(hwts_test_rescued == 0);
	sim_come_to_the_end();
}

/* Nothing is ever out of order, so each timeout starts at once, and the safety net finds nothing. */
void sim_live_in_peace(void)
{
	live_in_peace(false, false);
}

/* Many timeouts are due at once, of groups with caps, rates and pauses. */
void sim_live_under_rules(void)
{
	live_in_peace(true, false);
}

/* The same, and users ask why timeouts wait. */
void sim_live_and_tell(void)
{
	live_in_peace(true, true);
}

static void *do_nothing(void *node)
{
	(void)node;
	return NULL;
}

/* An idle process makes two round trips each third of its lease, and members that died long ago are removed. */
void sim_live_idly(void)
{
	uint64_t before;
	unsigned members = 0;

	sim_settle_scene(HWT_S(6), do_nothing);
	node_count = 3;
	start_all();
	sim_kill_node(&nodes[1]);
	sim_sleep(HWT_S(1300) + 4 * sim_lease_ns);
	for (unsigned i = 1; i < node_count; i++)
		if (nodes[i].is_up)
			sim_kill_node(&nodes[i]);
	sim_sleep(HWT_S(1300) + 4 * sim_lease_ns);
	EACH_COMMITTED (MEMBER, member)
		members++;
	SIM_CHECK(members == 1);
	before = sim_sum->exchanges;
	sim_sleep(30 * sim_lease_ns);
	if (sim_sum->exchanges - before > 190)
		sim_fail("D7", 0, "%d exchanges in 30 leases", (int)(sim_sum->exchanges - before));
	sim_come_to_the_end();
}

/*
 * Stories
 */

/* Ends a story without faults to heal. */
static void end(void)
{
	sim_is_over = true;
	let_rest();
	sim_judge_all();
	sim_stop_all();
}

/* A process dies, and so does the next one, before it has any of the shards. */
void sim_live_after_two_deaths(void)
{
	sim_settle_scene(HWT_S(30), NULL);
	node_count = 3;
	sim_make_tables();
	(void)sim_start(NULL, "watch", sim_watch, NULL);
	for (unsigned i = 0; i < node_count; i++) {
		nodes[i] = (struct node){ .number = i, .is_worker = true, .threads = 4 };
		sim_start_node(&nodes[i]);
		sim_sleep(HWT_S(5) + sim_some_time(HWT_S(20)));
		if (i == 2)
			break;
		sim_kill_node(&nodes[i]);
		sim_note_fault(0);
	}
	sim_sleep(3 * sim_lease_ns);
	end();
}

unsigned sim_put_in(struct node *node, unsigned kind, unsigned group, int64_t delay_ns, int64_t lasts_ns)
{
	unsigned number = item_count++;
	hwt_store_spec spec = {
		.size = sizeof(spec),
		.kind = sim_kinds[kind].name,
		.group = sim_group_names[group],
		.data = &number,
		.len = sizeof(number),
		.delay_ns = delay_ns,
	};
	struct item *item = &items[number];

	sim_set_kind(item, kind);
	item->group = group;
	item->lasts_ns = lasts_ns;
	item->len = sizeof(number);
	item->is_poisoned = sim_settings.poisons && number < 100 && sim_hit(8);
	item->put = hwt_store_put(node->store, &spec, &item->id) == 0 ? ACCEPTED : CALLED;
	return number;
}

static unsigned put_now(struct node *node, unsigned kind, int64_t lasts_ns)
{
	return sim_put_in(node, kind, 0, 0, lasts_ns);
}

#define FLOOD 300

static void *put_a_flood(void *arg)
{
	static const unsigned others[] = { 0, 2, 3, 4 };
	struct node *node = arg;
	unsigned kind = (unsigned)sim_random(KINDS);

	for (int i = 0; i < FLOOD && node->number == 0; i++)
		(void)sim_put_in(node, kind, 1, sim_lease_ns, HWT_MS(15));
	sim_sleep(sim_lease_ns);
	for (int i = 0; i < FLOOD / 8 && node->number == 0; i++) {
		(void)sim_put_in(node, kind, others[sim_random(HWTS_COUNT(others))], 0, HWT_MS(15));
		sim_sleep(sim_some_time(HWT_MS(100)));
	}
	return NULL;
}

void sim_live_beside_a_flood(void)
{
	sim_settle_scene(HWT_S(12), put_a_flood);
	sim_network.trip_ns = HWT_US(50) << sim_random(6);
	sim_settings.is_flooded = true;
	node_count = 1 + (unsigned)sim_random(2);
	start_all();
	for (unsigned i = 0; i < node_count; i++)
		nodes[i].threads = 1 + (unsigned)sim_random(2);
	sim_sleep(3 * sim_lease_ns);
	sim_come_to_the_end();
}

static void *put_at_a_rate(void *arg)
{
	hwt_store_limits limits = { .size = sizeof(limits), .start_every_ns = sim_lease_ns / 16, .burst = 1 };
	struct node *node = arg;

	while (node->number == 0 && item_count == 0 && !node->halts &&
	       hwt_store_limit(node->store, sim_kinds[0].name, sim_group_names[1], &limits) != 0)
		sim_sleep(HWT_S(1));
	while (node->number == 0 && !node->halts && !sim_is_over) {
		(void)sim_put_in(node, 0, 1, 0, HWT_MS(5));
		sim_sleep(sim_some_time(sim_lease_ns));
	}
	return NULL;
}

static void live_at_a_rate(int64_t lease_ns, bool poisons, void *(*befall)(void *))
{
	sim_settle_scene(lease_ns, put_at_a_rate);
	sim_settings.poisons = poisons;
	node_count = 1 + (unsigned)sim_random(2);
	start_all();
	(void)sim_start(NULL, "faults", befall, NULL);
	sim_sleep(60 * sim_lease_ns);
	sim_come_to_the_end();
}

void sim_live_asleep(void)
{
	live_at_a_rate(HWT_S(600), false, sim_befall_sleepers);
}

void sim_live_refused(void)
{
	live_at_a_rate(HWT_S(12), true, sim_befall_replies);
}

#define BUSY 300

/*
 * A row that has not started is overdue, and can be cancelled or moved by its process, though most rows are begun
 * ahead.
 */
static void have_what_waits(struct node *node)
{
	hwt_store_stats stats = { .size = sizeof(stats) };

	SIM_CHECK(hwt_store_read_stats(node->store, &stats) == 0 && stats.overdue > 0);
	for (struct item *item = items; item < items + BUSY; item += 1 + sim_random(10)) {
		int rc;

		if (item->starts > 0)
			continue;
		item->may_be_cancelled = item->is_moved = true;
		rc = sim_hit(2) ? hwt_store_cancel(node->store, item->id)
				: hwt_store_reschedule(node->store, item->id, 0);
		if (rc == EBUSY && item->starts == 0)
			sim_fail("a call", 0, "says that timeout %u runs, which has not started",
				 (unsigned)(item - items));
	}
}

/* A row that runs at most once waits for a thread that other rows occupy all the time. */
static void *put_much_and_one(void *arg)
{
	struct node *node = arg;
	uint64_t before;
	unsigned one;

	for (int i = 0; i < BUSY; i++)
		(void)put_now(node, HWT_STORE_AT_LEAST_ONCE, HWT_MS(15));
	have_what_waits(node);
	one = put_now(node, HWT_STORE_AT_MOST_ONCE, 0);
	before = sim_sum->runs;
	while (items[one].starts == 0)
		sim_sleep(HWT_MS(1));
	if (sim_sum->runs - before > BUSY / 10)
		sim_fail("a busy kind", 0, "%d others have started before it", (int)(sim_sum->runs - before));
	return NULL;
}

void sim_live_beside_a_busy_kind(void)
{
	sim_settle_scene(HWT_S(30), put_much_and_one);
	sim_network.trip_ns = HWT_US(50);
	sim_start_workers(1, 1);
	sim_sleep(sim_lease_ns);
	end();
}

/*
 * Cut off for longer than its lease, a process begins rows that run at most once.  It knows that it may not begin any
 * more.
 */
static void *put_and_be_cut_off(void *arg)
{
	hwt_store_stats stats = { .size = sizeof(stats) };
	struct node *node = arg;

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 30; i++)
			(void)put_now(node, HWT_STORE_AT_MOST_ONCE, HWT_MS(5));
		sim_sleep(sim_some_time(HWT_MS(20)));
		node->process->is_cut = true;
		sim_note_fault(2 * sim_lease_ns);
		sim_sleep(sim_lease_ns + sim_some_time(sim_lease_ns));
		SIM_CHECK(hwt_store_read_stats(node->store, &stats) == 0 && !stats.trusted);
		node->process->is_cut = false;
		sim_sleep(5 * sim_lease_ns);
	}
	return NULL;
}

void sim_live_cut_off(void)
{
	sim_settle_scene(HWT_S(2), put_and_be_cut_off);
	sim_start_workers(1, 4);
	sim_sleep(40 * sim_lease_ns);
	end();
}

/* A user locks the rows, for longer than it takes the looks to come back to them. */
static void *put_and_crash(void *arg)
{
	struct node *node = arg;

	while (!node->is_worker && !sim_is_over) {
		for (int i = 0; i < 6; i++)
			(void)put_now(node, (unsigned)sim_random(2), sim_some_time(HWT_MS(2)));
		sim_sleep(sim_some_time(HWT_MS(20)));
		sim_note_fault(4 * sim_lease_ns);
		sim_crash_server(sim_some_time(HWT_MS(10)));
		if (sim_hit(6)) {
			sim_lock_rows(sim_lease_ns + sim_some_time(2 * sim_lease_ns));
			sim_sleep(8 * sim_lease_ns);
		}
		sim_sleep(sim_some_time(HWT_MS(200)));
	}
	return NULL;
}

void sim_live_with_a_server_that_crashes(void)
{
	sim_settle_scene(HWT_S(2), put_and_crash);
	sim_network.trip_ns = HWT_US(50) << sim_random(6);
	sim_start_workers(2, 4);
	nodes[1].is_worker = false;
	sim_sleep(100 * sim_lease_ns);
	sim_is_over = true;
	sim_sleep(12 * sim_lease_ns); /* the user's transaction ends */
	end();
}
