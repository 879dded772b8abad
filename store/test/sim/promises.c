/* SPDX-License-Identifier: BSD-2-Clause */
/* Worlds for a single promise, mostly that something does not become slow; world.h. */
#include "world.h"

#include <stdlib.h>

static unsigned put_in(struct node *node, unsigned kind, int64_t delay_ns)
{
	return sim_put_in(node, kind, 0, delay_ns, 0);
}

static void settle(int64_t lease_ns, void *(*use)(void *node))
{
	sim_settle_scene(lease_ns, use);
	sim_network.trip_ns = HWT_US(50);
}

static uint64_t lost_leases(struct node *node)
{
	hwt_store_stats stats = { .size = sizeof(stats) };

	SIM_CHECK(hwt_store_read_stats(node->store, &stats) == 0);
	return stats.lost_leases;
}

/*
 * An old snapshot keeps rows that are gone.  A look that reads all of them takes as long as the seed says.  The lease
 * must not be lost for that, and these rows must not be read again and again.
 */
#define LEASES 50

static void *put_now_and_then(void *arg)
{
	struct node *node = arg;

	while (!node->halts && !sim_is_over && item_count < ITEMS) {
		(void)put_in(node, HWT_STORE_AT_LEAST_ONCE, 0);
		sim_sleep(HWT_MS(100));
	}
	SIM_CHECK(lost_leases(node) == 0);
	return NULL;
}

void sim_live_beside_an_old_snapshot(void)
{
	uint64_t before;

	settle(HWT_S(6), put_now_and_then);
	sim_server.kept = 1;
	sim_server.price_ns = HWT_US(sim_hit(2) ? 100 : 1000);
	sim_start_workers(1, 4);
	sim_sleep(LEASES * sim_lease_ns);
	before = sim_server.read;
	sim_sleep(5 * sim_lease_ns);
	if (sim_server.read - before > UINT64_C(5) * item_count)
		sim_fail("looks", 0, "have read %d rows in 5 leases, and %u have been put",
			 (int)(sim_server.read - before), item_count);
	sim_come_to_the_end();
}

#define MOST_CONNECTIONS 10 /* in a second */

static int64_t sum_of_epochs(void)
{
	int64_t sum = 0;

	EACH_ROW(SHARD, row)
	sum += row->newest ? row->newest->n[SHARD_EPOCH] : 0;
	return sum;
}

static void *put_much(void *node)
{
	for (unsigned i = 0; i < 40; i++)
		(void)put_in(node, i % KINDS, HWT_S(1));
	return NULL;
}

/*
 * A process renews its lease, but cannot do one thing, or any.  Then another process gets all its shards; without
 * another process it keeps them.  It connects less and less often, also if connections are made and fail later.
 */
void sim_live_beside_one_that_cannot_begin(void)
{
	static const unsigned roles[] = { 1u << HWTS_BEGIN, 1u << HWTS_END, 1u << HWTS_READ, 1u << HWTS_TASK,
					  1u << HWTS_BEGIN | 1u << HWTS_END | 1u << HWTS_READ | 1u << HWTS_TASK };
	struct sim_process *process;
	bool alone = sim_hit(4);
	int64_t epochs;

	settle(HWT_S(sim_hit(3) ? 6 : 1), NULL);
	sim_start_workers(alone ? 1 : 2, 4);
	sim_sleep(4 * sim_lease_ns);
	process = nodes[node_count - 1].process;
	process->unable = roles[sim_random(HWTS_COUNT(roles))];
	process->connects = sim_hit(2);
	process->connections = 0;
	(void)sim_start(nodes[0].process, "puts much", put_much, &nodes[0]);
	epochs = sum_of_epochs();
	sim_tell("%s cannot do what is %x", process->name, process->unable);
	sim_note_fault((alone ? 22 : 6) * sim_lease_ns);
	sim_sleep(20 * sim_lease_ns);
	SIM_CHECK(!alone || sum_of_epochs() == epochs);
	if (process->connections > 20 * sim_lease_ns / HWT_S(1) * MOST_CONNECTIONS &&
	    process->unable != 1u << HWTS_TASK) /* if tasks get no connection, each thread asks again */
		sim_fail("connections", 0, "%u were asked for", process->connections);
	process->unable = 0;
	sim_note_fault(2 * sim_lease_ns);
	sim_come_to_the_end();
}

/* A row that is due is locked for long: the other rows start as if it were not there. */
static void *lock_one(void *arg)
{
	const struct item *item = arg;
	struct tx *tx = sim_begin_tx(0);
	struct act act = { .tx = tx, .sees = sim_server.commits };

	EACH_ROW(TIMEOUT, row)
	if (row->newest && sim_item_of(row->newest) == item)
		(void)sim_lock(&act, row, true, SKIPS);
	sim_sleep(HWT_S(30));
	sim_abort_tx(tx);
	return NULL;
}

static void *put_beside_a_lock(void *arg)
{
	struct node *node = arg;
	int64_t before_ns;
	unsigned locked = put_in(node, HWT_STORE_AT_LEAST_ONCE, HWT_S(1));

	(void)sim_start(NULL, "a user", lock_one, &items[locked]);
	sim_sleep(HWT_S(2));
	before_ns = sim_late_ns;
	for (unsigned i = 0; i < 100; i++) {
		(void)put_in(node, HWT_STORE_AT_LEAST_ONCE, 0);
		sim_sleep(HWT_MS(100));
	}
	if (sim_late_ns - before_ns > HWT_S(3))
		sim_fail("a lock", 0, "of one row has cost 100 others %.3f s", (double)(sim_late_ns - before_ns) / 1e9);
	return NULL;
}

void sim_live_beside_a_lock(void)
{
	settle(HWT_S(60), put_beside_a_lock);
	sim_start_workers(1, 4);
	sim_sleep(HWT_S(30));
	SIM_CHECK(item_count > 100);
	sim_sleep(HWT_S(30));
	sim_stop_all();
}

/*
 * Threads that put at the same time share commits, as do threads that cancel.  Large data is not sent in one statement,
 * and readers do not get a connection each: the driver checks both.
 */
#define HERD 70

enum herd_act { PUT, CANCEL, READ, PUT_LARGE };

static struct {
	struct node *node;
	unsigned first, done, cancelled;
	enum herd_act act;
} herd;

static void put_large(void)
{
	static unsigned char data[HWT_STORE_DATA_MAX];
	hwt_store_spec spec = { .size = sizeof(spec),
				.kind = sim_kinds[HWT_STORE_AT_LEAST_ONCE].name,
				.data = data,
				.len = sizeof(data),
				.delay_ns = HWT_S(100000) };

	SIM_CHECK(hwt_store_put(herd.node->store, &spec, NULL) == 0);
}

static void *act_in_herd(void *number)
{
	/* Two threads for each id: one of them cancels it. */
	int64_t id = items[herd.first + *(unsigned *)number / 2].id;
	hwt_store_info info = { .size = sizeof(info) };
	int rc = 0;

	if (herd.act == PUT)
		(void)put_in(herd.node, HWT_STORE_AT_LEAST_ONCE, HWT_S(100000));
	else if (herd.act == PUT_LARGE)
		put_large();
	else
		rc = herd.act == READ ? hwt_store_get(herd.node->store, id, &info)
				      : hwt_store_cancel(herd.node->store, id);
	SIM_CHECK(rc == 0 || (rc == ENOENT && herd.act == CANCEL));
	herd.cancelled += herd.act == CANCEL && rc == 0;
	herd.done++;
	sim_wake_all(&herd);
	return NULL;
}

static void run_herd(enum herd_act act)
{
	static unsigned numbers[HERD];
	uint64_t before = sim_sum->exchanges;

	herd.act = act;
	herd.done = herd.cancelled = 0;
	for (unsigned i = 0; i < HERD; i++) {
		numbers[i] = i;
		sim_detach(sim_start(herd.node->process, "one of many", act_in_herd, &numbers[i]));
	}
	while (herd.done < HERD)
		(void)sim_wait("the herd", &herd, SIM_NEVER);
	if (act != READ && sim_sum->exchanges - before > HERD / 2)
		sim_fail("a herd", 0, "%d threads have made %d exchanges to %s", HERD,
			 (int)(sim_sum->exchanges - before), act == CANCEL ? "cancel" : "put");
	SIM_CHECK(herd.cancelled == (act == CANCEL ? HERD / 2 : 0));
}

static void *act_at_once(void *arg)
{
	herd.node = arg;
	sim_sleep(HWT_S(1));
	for (int round = 0; round < 4; round++) {
		herd.first = item_count;
		run_herd(PUT);
		sim_sleep(HWT_MS(200));
		run_herd(READ);
		SIM_CHECK(sim_count_calls(herd.node->process) == 16); /* KEEP: these connections are kept */
		run_herd(CANCEL);
		sim_sleep(HWT_MS(200));
	}
	run_herd(PUT_LARGE);
	return NULL;
}

void sim_live_with_a_herd(void)
{
	settle(HWT_S(3600), act_at_once);
	sim_start_workers(1, 4);
	sim_sleep(HWT_S(60));
	SIM_CHECK(item_count == 4 * HERD);
	sim_stop_all();
}

/*
 * The rows of a list of several pages are told of once.  If their own process moves them later, it does not begin them
 * in vain at the old time.
 */
#define LISTED 2400
#define MOVES 100

static bool count_one(void *ctx, const hwt_store_info *info)
{
	if (++*(unsigned *)ctx > LISTED)
		sim_fail("each", 0, "tells of more than there are, of timeout %lld", (long long)info->id);
	return true;
}

static void count_listed(struct node *node)
{
	hwt_store_which which = {
		.size = sizeof(which), .kind = sim_kinds[HWT_STORE_AT_LEAST_ONCE].name, .all = true, .any_group = true
	};
	unsigned count = 0;

	SIM_CHECK(hwt_store_each_ex(node->store, &which, count_one, &count) == 0);
	if (count != LISTED)
		sim_fail("each", 0, "tells of %u, and %d are there", count, LISTED);
}

static void *put_and_move(void *arg)
{
	struct node *node = arg;
	unsigned first;

	for (unsigned i = 0; i < LISTED; i++)
		(void)put_in(node, HWT_STORE_AT_LEAST_ONCE, HWT_S(100000));
	count_listed(node);
	first = item_count;
	for (unsigned i = 0; i < MOVES; i++)
		(void)put_in(node, HWT_STORE_AT_LEAST_ONCE, HWT_S(10));
	for (unsigned i = 0; i < MOVES; i++)
		SIM_CHECK(hwt_store_reschedule(node->store, items[first + i].id, HWT_S(20) << sim_random(12)) == 0);
	return NULL;
}

void sim_live_with_moves(void)
{
	settle(HWT_S(30), put_and_move);
	sim_start_workers(1, 4);
	sim_sleep(HWT_S(60));
	if (sim_server.vain > MOVES / 10)
		sim_fail("begins", 0, "are in vain %d times, for %d moves", (int)sim_server.vain, MOVES);
	sim_stop_all();
}

/*
 * Reading all again is asked for at any time: before a shard's first look, or during a look.  Rows that come due
 * meanwhile wait for that reading, not for a renewal.
 */
static void *put_and_have_read_again(void *arg)
{
	struct node *node = arg;

	while (!node->halts && !sim_is_over && item_count < ITEMS) {
		sim_sleep(sim_some_time(HWT_MS(50)));
		sim_read_again(node);
		for (unsigned kind = 0; kind < KINDS; kind++)
			(void)put_in(node, kind, sim_some_time(sim_lease_ns / 4));
		sim_sleep(sim_some_time(sim_lease_ns / 2));
	}
	return NULL;
}

static void start_again(struct node *node)
{
	node->halts = true;
	sim_wake_all(node);
	while (node->is_up)
		(void)sim_wait("a stop", &node->is_up, SIM_NEVER);
	sim_note_fault(0);
	sim_start_node(node);
}

void sim_live_with_readings(void)
{
	settle(HWT_S(60), put_and_have_read_again);
	sim_network.trip_ns = HWT_US(50) << sim_random(8);
	sim_settings.most_late_ns = HWT_S(1);
	sim_start_workers(1, 8);
	for (unsigned life = 0; life < 20; life++) {
		sim_sleep(sim_some_time(sim_lease_ns));
		start_again(&nodes[0]);
	}
	sim_come_to_the_end();
}

/*
 * A user edits the tables.  Rows need not run after that, but no process crashes, and each stops when it is asked to.
 */
static void damage(enum table table, int columns)
{
	const int64_t values[] = { 0, -1, table == KIND ? 15 : 1500 };
	unsigned count = 0, which;

	EACH_ROW(table, row)
	count += row->newest != NULL;
	if (count == 0)
		return;
	which = (unsigned)sim_random(count);
	EACH_ROW(table, row)
	if (row->newest && which-- == 0) {
		int at = (int)sim_random((uint64_t)columns);

		row->newest->n[at] = values[sim_random(HWTS_COUNT(values))];
		sim_tell("number %d of a row of table %d is %lld", at, (int)table, (long long)row->newest->n[at]);
	}
}

static void *put_some(void *arg)
{
	struct node *node = arg;

	while (!node->halts && item_count < ITEMS) {
		(void)put_in(node, HWT_STORE_AT_LEAST_ONCE, sim_some_time(sim_lease_ns));
		sim_sleep(HWT_MS(500));
	}
	return NULL;
}

static void stop_in_time(void)
{
	int64_t until_ns = sim_now() + HWT_S(60) + 100 * sim_lease_ns;

	for (unsigned i = 0; i < node_count; i++) {
		nodes[i].halts = true;
		sim_wake_all(&nodes[i]);
	}
	for (unsigned i = 0; i < node_count; i++)
		while (nodes[i].is_up)
			if (!sim_wait("the end", &nodes[i].is_up, until_ns) && sim_now() >= until_ns)
				sim_fail("a stop", 0, "of %s does not end", nodes[i].process->name);
}

void sim_live_with_damaged_rows(void)
{
	settle(HWT_S(2), put_some);
	sim_settings.damages = true;
	sim_start_workers(2, 4);
	sim_sleep(3 * sim_lease_ns);
	for (unsigned round = 0; round < 4; round++) {
		if (sim_hit(2))
			damage(SHARD, SHARD_RULES + 1);
		else
			damage(KIND, KIND_HORIZON + 1);
		if (sim_hit(2) && nodes[0].is_up) {
			sim_kill_node(&nodes[0]);
			sim_start_node(&nodes[0]);
		}
		sim_sleep(2 * sim_lease_ns);
	}
	stop_in_time();
}
