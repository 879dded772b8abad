/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes, and what they and their users do; world.h. */
#include "world.h"
#include "statements.h"

#include <stdio.h>
#include <stdlib.h>

struct item items[ITEMS_ROOM];
unsigned item_count;
struct node nodes[NODES];
unsigned node_count;
struct settings sim_settings;
int64_t sim_fault_ns, sim_step_ns, sim_lease_ns, sim_epoch_ns, sim_late_ns;
bool sim_is_over;
static int pids;

const struct sim_kind sim_kinds[KINDS] = {
	{ "least", HWT_STORE_AT_LEAST_ONCE, 0 },
	{ "most", HWT_STORE_AT_MOST_ONCE, 0 },
	{ "transaction", HWT_STORE_TRANSACTION, 0 },
	{ "pulled", HWT_STORE_AT_LEAST_ONCE, HWT_STORE_PULLED },
	{ "pulled at most once", HWT_STORE_AT_MOST_ONCE, HWT_STORE_PULLED },
};
const char *const sim_group_names[GROUPS] = { NULL, "group", "another group", "tenant 9", "a" };

void sim_set_kind(struct item *item, unsigned kind)
{
	item->kind = kind;
	item->mode = sim_kinds[kind].mode;
}

/*
 * Tasks
 */

#define LATE_US 300000

static int answer_of(struct item *item, const hwt_store_run *run)
{
	if (item->fails > 0 && item->fails-- > 0)
		return EPERM;
	if (item->agains > 0 && item->agains-- > 0)
		return hwt_store_again(run, sim_some_time(2 * sim_lease_ns));
	item->gave_up |= item->gives_up;
	if (item->gives_up)
		return hwt_store_give_up(run, NULL);
	item->done++;
	if (item->last_start == 0 || item->starts < item->last_start)
		return 0;
	sim_note_over(item, run);
	return hwt_store_end_series(run);
}

/* In the run's transaction: its effect, and perhaps another timeout. */
static int work_in_transaction(struct item *item, struct node *node, const hwt_store_run *run)
{
	unsigned child = 0;

	if (!sim_is_over && sim_hit(8) && !sim_put_child(node, (unsigned)(item - items), run->connection, &child))
		return EIO;
	return sim_effect(run->connection, item - items, run->due_us, item->agains ? -1 : (int64_t)run->missed, child);
}

static void note_lateness(struct node *node, int64_t late_us)
{
	sim_late_ns += HWTS_MAX(late_us, 0) * 1000;
	if (late_us > LATE_US)
		node->late_ns = sim_now();
}

unsigned sim_bound(const struct node *node, unsigned kind)
{
	unsigned bound = sim_settings.concurrency[kind];

	return bound == 0 && sim_kinds[kind].flags ? node->threads : bound;
}

void sim_begin_run(struct item *item, struct node *node, const hwt_store_run *run)
{
	unsigned limit = sim_bound(node, item->kind);

	sim_tell("starts %u (attempt %u)", (unsigned)(item - items), run->attempt);
	sim_judge_start(item, run, node);
	if (item->mode == HWT_STORE_AT_MOST_ONCE || sim_kinds[item->kind].flags)
		sim_judge_begun(node, item->kind);
	sim_sum->runs++;
	item->starts++;
	item->began_ns = sim_now();
	note_lateness(node, sim_server_us() - ((const struct hwts_running *)run)->row->due_us);
	item->running[node->number]++;
	node->running[item->kind]++;
	if (limit > 0 && node->running[item->kind] > limit)
		sim_fail("concurrency", 0, "%u runs of one kind", node->running[item->kind]);
}

int sim_work(struct item *item, struct node *node, const hwt_store_run *run)
{
	if (item->kills > 0 && item->kills-- > 0) {
		sim_fault_count += !node->fell;
		node->fell = true;
		sim_kill_node(node); /* does not return */
	}
	if (sim_settings.replaces && item->key && !sim_is_over && sim_hit(4))
		sim_replace(node, item);
	sim_sleep(item->lasts_ns);
	if (hwt_store_is_mine(run) && sim_is_anothers(item, run))
		sim_fail("D5", 0, "timeout %u is another's, and its process does not know", (unsigned)(item - items));
	if (!sim_is_over && sim_hit(40) && !sim_settings.use)
		sim_use_once(node);
	if (item->mode == HWT_STORE_TRANSACTION) {
		int rc = work_in_transaction(item, node, run);

		if (rc != 0)
			return rc;
	}
	return answer_of(item, run);
}

bool sim_is_long(const struct item *item)
{
	return sim_now() - item->began_ns > HWT_MS(20);
}

void sim_end_run(struct item *item, struct node *node)
{
	/* Other timeouts may have had to wait for its thread; for a moment even if there are others. */
	if (sim_is_long(item) && (sim_settings.most_late_ns || sim_lacks_threads(node)))
		sim_note_fault(0);
	item->running[node->number]--;
	node->running[item->kind]--;
	item->returned++;
	item->ended_ns = sim_now();
	sim_note_end(item);
}

static int run_item(const hwt_store_run *run, void *ctx)
{
	struct item *item = &items[*(const unsigned *)run->data];
	int rc;

	sim_begin_run(item, ctx, run);
	rc = sim_work(item, ctx, run);
	sim_end_run(item, ctx);
	sim_tell("ends %u with %d", *(const unsigned *)run->data, rc);
	return rc;
}

bool sim_is_poisoned(const struct row *row, bool ends)
{
	unsigned number;

	if (!row->newest->s[DATA])
		return false;
	memcpy(&number, row->newest->s[DATA]->bytes, sizeof(number));
	return items[number].is_poisoned && (ends || !items[number].ends_badly);
}

bool sim_is_unreadable(const struct version *t)
{
	const struct item *item = t->s[DATA] ? sim_item_of(t) : NULL;

	return item && item->is_poisoned && !item->ends_badly && (item - items) % 2 == 0;
}

/*
 * The life of a process
 */

static void warn(void *ctx, const char *message)
{
	(void)ctx;
	sim_tell("warns: %s", message);
}

static int register_kinds(struct node *node)
{
	int rc = 0;

	for (unsigned i = 0; i < KINDS && rc == 0; i++) {
		hwt_store_kind kind = { .size = sizeof(kind),
					.name = sim_kinds[i].name,
					.task = sim_kinds[i].flags ? NULL : run_item,
					.ctx = node,
					.mode = sim_kinds[i].mode,
					.flags = sim_kinds[i].flags,
					.shards = 4,
					.concurrency = sim_settings.concurrency[i],
					.max_attempts = sim_settings.max_attempts,
					.backoff_ns = sim_settings.backoff_ns,
					.backoff_max_ns = 4 * sim_settings.backoff_ns,
					.horizon_ns = sim_settings.horizon_ns };

		rc = hwt_store_register(node->store, &kind);
	}
	return rc == EEXIST ? 0 : rc;
}

/* Tries again after a while, as the server may be away. */
static int open_store(struct node *node)
{
	hwt_store_config config = { .size = sizeof(config),
				    .lease_ns = sim_lease_ns,
				    .threads = node->threads,
				    .warn = warn,
				    .name = sim_settings.one_name ? "service"
					    : node->number % 2    ? node->process->name
								  : NULL };
	int rc = hwt_store_open(&node->store, "pg:simulation", &config, NULL, 0);

	if (rc == 0 && node->is_worker) {
		rc = register_kinds(node);
		if (rc == 0)
			rc = hwt_store_start(node->store);
		if (rc != 0)
			(void)hwt_store_close(node->store);
	}
	return rc;
}

/* After the stop no run goes on. */
static void stop_store(struct node *node)
{
	int rc = ETIMEDOUT;

	if (node->drops)
		return;
	node->stops_since_ns = sim_now();
	if (sim_hit(2))
		rc = hwt_store_stop_within(node->store, sim_some_time(sim_lease_ns));
	if (rc != 0 && rc != ETIMEDOUT && rc != ENOMEM)
		sim_fail("stop_within", 0, "returns %d", rc);
	while (rc != 0) {
		unsigned out = node->out, pulls = node->pulls;

		rc = hwt_store_stop(node->store);
		if (rc != 0 && (rc != EBUSY || (out == 0 && pulls == node->pulls)))
			sim_fail("a stop", 0, "returns %d, and %u runs are out", rc, out);
		if (rc == 0)
			break;
		if (node->halts && sim_hit(8))
			break;
		sim_sleep(sim_some_time(sim_lease_ns));
	}
	if (rc != 0)
		sim_drop_pulled(node);
	for (unsigned kind = 0; kind < KINDS && rc == 0; kind++)
		SIM_CHECK(node->running[kind] == 0);
	node->stops_since_ns = 0;
}

static void stop_and_start(struct node *node)
{
	sim_tell("stops");
	stop_store(node);
	sim_tell("starts again");
	while (!node->halts && !node->drops && hwt_store_start(node->store) != 0)
		sim_sleep(HWT_MS(500));
	sim_note_fault(0);
}

/* Now and then the process stops and goes on, or stops as soon as it has started. */
static void be_there(struct node *node)
{
	int64_t most_ns = 60 * sim_lease_ns;

	while (!node->halts) {
		int64_t until_ns = sim_settings.pauses ? sim_now() + sim_some_time(most_ns) : SIM_NEVER;

		if (sim_wait("lives", node, until_ns) || node->halts || !node->is_worker || sim_is_over)
			continue;
		stop_and_start(node);
		most_ns = sim_hit(2) ? HWT_MS(20) : 60 * sim_lease_ns;
	}
}

static void *live_as_process(void *arg)
{
	struct node *node = arg;
	struct sim_actor *user, *puller = NULL;

	while (open_store(node) != 0) {
		sim_tell("does not start: %s", hwt_store_error());
		sim_sleep(HWT_MS(500));
		if (node->halts)
			goto end;
	}
	sim_tell("is started");
	user = sim_start(node->process, "user", sim_settings.use ? sim_settings.use : sim_use, node);
	if (node->is_worker)
		puller = sim_start(node->process, "puller", sim_pull, node);
	be_there(node);
	(void)sim_join(user);
	if (node->is_worker) {
		stop_store(node);
		(void)sim_join(puller);
	}
	SIM_CHECK(hwt_store_close(node->store) == 0);
	sim_tell("has stopped");
end:
	node->process->is_dead = true;
	node->is_up = false;
	sim_wake_all(&node->is_up);
	return NULL;
}

void sim_start_node(struct node *node)
{
	struct sim_process *process = calloc(1, sizeof(*process));

	(void)snprintf(process->name, sizeof(process->name), "p%u", node->number);
	process->pid = 100 + ++pids;
	process->mono_ns = (int64_t)sim_random(HWT_S(100000));
	process->boot_ns = process->mono_ns + (int64_t)sim_random(HWT_S(100000));
	process->wall_ns = sim_epoch_ns + sim_some_time(HWT_S(10));
	node->process = process;
	node->halts = node->drops = false;
	node->out = 0;
	node->is_up = true;
	node->stops_since_ns = 0;
	(void)sim_start(process, "main", live_as_process, node);
}

bool sim_has_pid(int pid)
{
	for (unsigned i = 0; i < node_count; i++)
		if (nodes[i].process && nodes[i].process->pid == pid && !nodes[i].process->is_dead)
			return true;
	return false;
}

void sim_kill_node(struct node *node)
{
	struct sim_process *process = node->process;

	sim_tell("%s is killed", process->name);
	for (unsigned i = 0; i < item_count; i++)
		items[i].running[node->number] = 0;
	memset(node->running, 0, sizeof(node->running));
	node->is_up = false;
	sim_wake_all(&node->is_up);
	process->is_dead = true;
	sim_drop_connections(process);
	sim_kill(process); /* does not return if called by one of its actors */
}
