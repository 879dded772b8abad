/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Worlds in which a process or user stands still, holds a lock or never rests, and no other process may wait for that;
 * world.h.
 *
 * The judge of silence (judge.c) excuses here only rows that a user's lock holds up.
 */
#include "statements.h"
#include "world.h"

#include <stdio.h>

#define BURST 48
#define ROOM 1000 /* bytes of a buffer: less than the data of a burst, and than an answer about all shards */

static bool goes_on(const struct node *node)
{
	return !node->halts && !sim_is_over && item_count + 2 * BURST < ITEMS;
}

static unsigned add_item(unsigned kind, unsigned key)
{
	unsigned number = item_count++;
	struct item *item = &items[number];

	sim_set_kind(item, kind);
	item->len = sizeof(number);
	item->key = key;
	item->flags = key ? HWT_STORE_REPLACE : 0;
	return number;
}

/* One put_many, which replaces the timeouts of another that are due soon. */
static void put_together(struct node *node, int64_t delay_ns)
{
	hwt_store_spec specs[BURST];
	int64_t ids[BURST] = { 0 };
	unsigned first = item_count, numbers[BURST];
	char keys[BURST][12];
	int rc;

	for (unsigned i = 0; i < BURST; i++) {
		numbers[i] = add_item(HWT_STORE_AT_LEAST_ONCE, 1 + i);
		(void)snprintf(keys[i], sizeof(keys[i]), "%u", 1 + i);
		specs[i] = (hwt_store_spec){ .size = sizeof(specs[i]),
					     .kind = sim_kinds[HWT_STORE_AT_LEAST_ONCE].name,
					     .key = keys[i],
					     .data = &numbers[i],
					     .len = sizeof(numbers[i]),
					     .delay_ns = delay_ns,
					     .flags = HWT_STORE_REPLACE };
	}
	rc = hwt_store_put_many(node->store, specs, BURST, ids);
	for (unsigned i = 0; i < BURST; i++) {
		items[first + i].put = rc == 0 ? ACCEPTED : rc == ECONNRESET ? CALLED : REFUSED;
		items[first + i].id = rc == 0 ? ids[i] : items[first + i].id;
	}
}

/* This process only puts. */
static void *put_bursts(void *arg)
{
	struct node *node = arg;

	while (!node->is_worker && goes_on(node)) {
		unsigned kind = sim_hit(2) ? HWT_STORE_AT_LEAST_ONCE : (unsigned)sim_random(KINDS);
		int64_t due_ns = sim_now() + sim_lease_ns / 4;

		if (sim_hit(4))
			put_together(node, sim_lease_ns / 4);
		for (unsigned i = 0; i < BURST; i++)
			(void)sim_put_in(node, kind, 0, HWTS_MAX(due_ns - sim_now(), 0), 0);
		sim_sleep(sim_lease_ns / 2 + sim_some_time(sim_lease_ns));
	}
	return NULL;
}

/* The last process only puts. */
static void start(unsigned workers, int64_t lease_ns, void *(*use)(void *node))
{
	sim_settle_scene(lease_ns, use);
	sim_network.trip_ns = HWT_US(50) << sim_random(6);
	sim_start_workers(workers + 1, 4);
	nodes[workers].is_worker = false;
}

/*
 * Stops a worker amid the answer to a begin or a renewal, or the process of put_bursts amid a request: the server waits
 * inside the transaction.
 */
static void *stand_still(void *unused)
{
	sim_sleep(3 * sim_lease_ns);
	while (!sim_is_over) {
		bool puts = sim_hit(4);
		struct sim_process *process = nodes[puts ? node_count - 1 : 0].process;

		process->stands = 1 + (puts ? HWTS_CALL : sim_hit(2) ? HWTS_CONTROL : HWTS_BEGIN);
		while (!process->is_stopped && !sim_is_over)
			sim_sleep(HWT_MS(5));
		process->stands = 0;
		sim_note_fault(0);
		sim_sleep(4 * sim_lease_ns + sim_some_time(4 * sim_lease_ns));
		sim_tell("%s goes on", process->name);
		sim_continue(process);
		sim_note_fault(0);
		sim_sleep(4 * sim_lease_ns);
	}
	return unused;
}

void sim_live_beside_one_that_stands_still(void)
{
	start(2, HWT_S(2) << sim_random(3), put_bursts);
	sim_network.room = ROOM;
	sim_server.user_timeout_ns = sim_hit(4) ? sim_lease_ns : 0;
	(void)sim_start(NULL, "stands", stand_still, NULL);
	sim_sleep(60 * sim_lease_ns);
	sim_come_to_the_end();
}

/*
 * Users hold the lock of a row of any table for longer than a lease.  Meanwhile a worker may die, unless the other
 * cannot renew.
 */
static bool holds_member(const struct tx *tx, const struct node *node)
{
	const struct row *row = tx ? tx->locked[0] : NULL;

	return row && row->table == MEMBER && strcmp(row->newest->s[MEMBER_NAME]->bytes, node->process->name) == 0;
}

static void *hold_rows(void *unused)
{
	static const enum table tables[] = { SHARD, SHARD, SHARD, SHARD, MEMBER, KIND, TIMEOUT };

	sim_sleep(3 * sim_lease_ns);
	while (!sim_is_over) {
		enum table table = tables[sim_random(HWTS_COUNT(tables))];
		struct tx *tx = sim_hold_a_row(table);

		sim_tell("a user holds a row of table %d", (int)table);
		if (!holds_member(tx, &nodes[1]) && !sim_hit(4)) {
			sim_kill_node(&nodes[0]);
			sim_note_fault(0);
		}
		sim_sleep(2 * sim_lease_ns + sim_some_time(4 * sim_lease_ns));
		if (tx)
			sim_abort_tx(tx);
		sim_tell("a user's lock is gone");
		if (!nodes[0].is_up)
			sim_start_node(&nodes[0]);
		sim_sleep(3 * sim_lease_ns);
	}
	return unused;
}

/* With the whole window: due rows of a locked shard may fill a small one, and then their kind waits. */
void sim_live_beside_users_that_lock(void)
{
	atomic_store(&hwts_test_window, 0);
	start(2, HWT_S(2) << sim_random(3), put_bursts);
	(void)sim_start(NULL, "holds", hold_rows, NULL);
	sim_sleep(60 * sim_lease_ns);
	sim_is_over = true;
	sim_sleep(10 * sim_lease_ns);
	sim_come_to_the_end();
}

/*
 * A user has made a kind, and its transaction stays open.  Meanwhile a worker loses its lease, or another is started.
 */
static void *make_kinds(void *unused)
{
	sim_sleep(3 * sim_lease_ns);
	while (!sim_is_over) {
		struct hwts_step steps[] = { { .sql = HWTS_SQL_KIND_SHARE }, { .sql = HWTS_SQL_KIND_MAKING } };
		struct output output = { .end = &output.first };
		struct tx *tx = sim_begin_tx(0);
		int64_t took_ns = 0;

		tx->is_users = true;
		for (size_t i = 0; i < HWTS_COUNT(steps); i++)
			SIM_CHECK(sim_execute(tx, &steps[i], &output, &took_ns) == 0);
		sim_tell("a user makes a kind");
		if (sim_hit(2)) {
			sim_kill_node(&nodes[0]);
			sim_start_node(&nodes[0]);
		} else {
			sim_fault_count++; /* no other worker is left */
			sim_stop(nodes[0].process);
			sim_reap(nodes[0].process);
			sim_sleep(2 * sim_lease_ns);
			sim_continue(nodes[0].process);
			sim_fault_count--;
		}
		sim_note_fault(0);
		sim_sleep(4 * sim_lease_ns);
		sim_abort_tx(tx);
		sim_tell("a user's transaction ends");
		sim_sleep(3 * sim_lease_ns);
	}
	return unused;
}

void sim_live_beside_users_that_make_kinds(void)
{
	start(1, HWT_S(2) << sim_random(3), put_bursts);
	(void)sim_start(NULL, "makes", make_kinds, NULL);
	sim_sleep(40 * sim_lease_ns);
	sim_is_over = true;
	sim_sleep(10 * sim_lease_ns);
	sim_come_to_the_end();
}

/*
 * The rules of a group change faster than the rules of its shard are read.  No group of another shard or kind waits for
 * that.
 */
#define STORM_GROUP (GROUPS - 1)

static bool puts_in_the_storm;

/* Also what has no group: it waits for all shards of the kind. */
static bool is_in_the_storm(unsigned group)
{
	const char *name = sim_group_names[group], *other = sim_group_names[STORM_GROUP];

	return !name || hwts_bucket(name, strlen(name)) % 4 == hwts_bucket(other, strlen(other)) % 4; /* shards */
}

static void *change_rules(void *arg)
{
	hwt_store_limits limits = { .size = sizeof(limits), .running = 1000 };
	struct node *node = arg;

	if (node->is_worker)
		return NULL;
	for (unsigned group = 1; group < GROUPS; group++)
		(void)hwt_store_limit(node->store, sim_kinds[HWT_STORE_AT_LEAST_ONCE].name, sim_group_names[group],
				      &limits);
	sim_sleep(4 * sim_lease_ns);
	while (goes_on(node)) {
		unsigned group = (unsigned)sim_random(STORM_GROUP);

		limits.running++;
		(void)hwt_store_limit(node->store, sim_kinds[HWT_STORE_AT_LEAST_ONCE].name,
				      sim_group_names[STORM_GROUP], &limits);
		if (sim_hit(8) && (puts_in_the_storm || !is_in_the_storm(group)))
			(void)sim_put_in(node, HWT_STORE_AT_LEAST_ONCE, group, 0, 0);
		if (sim_hit(20)) {
			(void)hwt_store_limit(node->store, sim_kinds[HWT_STORE_AT_MOST_ONCE].name,
					      sim_group_names[group], &limits);
			(void)sim_put_in(node, HWT_STORE_AT_MOST_ONCE, group, 0, 0);
		}
		sim_sleep(sim_some_time(HWT_MS(60)));
	}
	return NULL;
}

void sim_live_beside_rules_that_change_at_once(void)
{
	start(1, HWT_S(2) << sim_random(3), change_rules);
	sim_server.rule_ns = HWT_MS(100);
	sim_sleep(40 * sim_lease_ns);
	sim_come_to_the_end();
}

void sim_live_with_rules_that_change_at_once(void)
{
	puts_in_the_storm = true;
	sim_live_beside_rules_that_change_at_once();
}

/*
 * Many groups, each with rows of many priorities, more than the window keeps.  Compares the cost under the lock for n
 * and 2 n rests, in two kinds: linear is 2, quadratic is 4.
 */
#define RESTS 128u
#define ROWS_EACH 3

static void put_rests(struct node *node, unsigned kind, unsigned n)
{
	for (unsigned i = 0; i < ROWS_EACH * n; i++) {
		unsigned number = add_item(kind, 0);
		struct item *item = &items[number];
		hwt_store_spec spec = {
			.size = sizeof(spec),
			.kind = sim_kinds[kind].name,
			.group = sim_group_names[1 + i % (GROUPS - 1)],
			.data = &number,
			.len = sizeof(number),
			.priority = (int)(i / (GROUPS - 1) % (n / (GROUPS - 1))) - 100,
		};

		item->group = 1 + i % (GROUPS - 1);
		item->priority = spec.priority;
		item->put = hwt_store_put(node->store, &spec, &item->id) == 0 ? ACCEPTED : CALLED;
	}
}

static uint64_t cost_of(unsigned kind, unsigned n)
{
	unsigned before = item_count, started;

	put_rests(&nodes[0], kind, n);
	(void)sim_most_locked();
	sim_start_node(&nodes[1]);
	do {
		started = 0;
		sim_sleep(sim_lease_ns);
		for (unsigned i = before; i < item_count; i++)
			started += items[i].starts > 0;
	} while (started < item_count - before);
	nodes[1].halts = true;
	sim_wake_all(&nodes[1]);
	while (nodes[1].is_up)
		(void)sim_wait("a stop", &nodes[1].is_up, SIM_NEVER);
	return sim_most_locked();
}

static void *compare(void *arg)
{
	struct node *node = arg;
	uint64_t once, twice;

	if (node->is_worker)
		return NULL;
	once = cost_of(HWT_STORE_AT_LEAST_ONCE, RESTS);
	twice = cost_of(HWT_STORE_AT_LEAST_ONCE, 2 * RESTS);
	sim_tell("most steps with a lock: %d for %u rests, %d for twice as many", (int)once, RESTS, (int)twice);
	if (twice > 3 * once)
		sim_fail("the store's lock", 0, "is held for %d steps with %u rests, and for %d with twice as many",
			 (int)once, RESTS, (int)twice);
	sim_is_over = true;
	return NULL;
}

void sim_live_with_many_rests(void)
{
	sim_settle_scene(HWT_S(6), compare);
	sim_network.trip_ns = HWT_US(50);
	atomic_store(&hwts_test_window, 80);
	node_count = 2;
	sim_make_tables();
	for (unsigned i = 0; i < 2; i++)
		nodes[i] = (struct node){ .number = i, .is_worker = i == 1, .threads = 4 };
	sim_start_node(&nodes[0]);
	while (!sim_is_over)
		sim_sleep(sim_lease_ns);
	sim_stop_all();
}
