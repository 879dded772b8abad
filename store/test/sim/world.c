/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes, and what they and their users do; world.h. */
#include "world.h"
#include "statements.h"

#include <stdio.h>
#include <stdlib.h>

struct item items[ITEMS];
unsigned item_count;
struct node nodes[NODES];
unsigned node_count;
struct settings sim_settings;
int64_t sim_fault_ns, sim_lease_ns;
bool sim_is_over;
static int pids;

const char *const sim_kind_names[MODES] = { "least", "most", "transaction" };

/*
 * Tasks
 */

static int run_item(const hwt_store_run *run, void *ctx)
{
	struct item *item = &items[*(const unsigned *)run->data];
	const struct node *node = ctx;
	int rc = 0;

	sim_tell("starts %u (attempt %u)", *(const unsigned *)run->data, run->attempt);
	sim_judge_start(item, run);
	sim_sum->runs++;
	item->starts++;
	item->running[node->number]++;
	sim_sleep(item->lasts_ns);
	if (item->lasts_ns > HWT_MS(20)) /* others may have had to wait for its thread */
		sim_note_fault(0);
	if (item->mode == HWT_STORE_TRANSACTION)
		rc = sim_effect(run->connection, item - items, run->due_us);
	if (rc == 0 && item->fails > 0 && item->fails-- > 0)
		rc = EPERM;
	if (rc == 0)
		item->done++;
	item->running[node->number]--;
	item->returned++;
	item->ended_ns = sim_now();
	sim_tell("ends %u with %d", *(const unsigned *)run->data, rc);
	return rc;
}

bool sim_is_poisoned(const struct row *row)
{
	unsigned number;

	if (!row->newest->s[DATA])
		return false;
	memcpy(&number, row->newest->s[DATA]->bytes, sizeof(number));
	return items[number].is_poisoned;
}

/*
 * What users do
 */

static bool is_unknown(int rc)
{
	return rc == ECONNRESET;
}

static bool is_refusal(int rc)
{
	return rc == EEXIST || rc == EBUSY || rc == EAGAIN || rc == ENOTCONN || rc == EIO;
}

static void put(struct node *node)
{
	unsigned number = item_count++;
	struct item *item = &items[number];
	char key[16];
	hwt_store_spec spec = { .size = sizeof(spec), .data = &number, .len = sizeof(number) };
	int rc;

	item->mode = (unsigned)sim_random(MODES);
	item->key = sim_hit(4) ? 1 + (unsigned)sim_random(6) : 0;
	item->grouped = sim_hit(4);
	item->fails = sim_hit(6) ? (unsigned)sim_random(4) : 0;
	item->lasts_ns = sim_some_time(sim_settings.long_tasks && sim_hit(20) ? 2 * sim_lease_ns : HWT_MS(20));
	item->is_poisoned = sim_settings.poisons && sim_hit(40);
	(void)snprintf(key, sizeof(key), "%u", item->key);
	spec.kind = sim_kind_names[item->mode];
	spec.key = item->key ? key : NULL;
	spec.delay_ns = sim_some_time(6 * sim_lease_ns);
	spec.period_ns = sim_hit(20) ? HWT_S(1) + sim_lease_ns / 4 + sim_some_time(4 * sim_lease_ns) : 0;
	spec.flags = item->key && sim_hit(3) ? HWT_STORE_REVIVE : 0;
	item->period_us = spec.period_ns / 1000;
	spec.group = item->grouped ? "group" : NULL;
	for (unsigned i = 0; spec.flags && i < number; i++) /* those that may become this one */
		if (items[i].mode == item->mode && items[i].key == item->key && items[i].grouped == item->grouped &&
		    items[i].revived == 0)
			items[i].revived = number + 1;
	rc = hwt_store_put(node->store, &spec, &item->id);
	sim_sum->puts++;
	item->put = rc == 0 ? ACCEPTED : is_refusal(rc) ? REFUSED : CALLED;
	sim_tell("puts %u, %s%s in %.3f s: %d", number, spec.kind, spec.period_ns ? ", a series," : "",
		 (double)spec.delay_ns / 1e9, rc);
	if (rc != 0 && !is_refusal(rc) && !is_unknown(rc))
		sim_fail("a put", 0, "returns %d: %s", rc, hwt_store_error());
	for (unsigned i = 0; i < number; i++)
		item->may_be_cancelled |= items[i].id == item->id && items[i].may_be_cancelled;
	for (unsigned i = 0; is_refusal(rc) && i < number; i++)
		if (items[i].revived == number + 1)
			items[i].revived = 0;
}

/* A row may have been revived: a cancel of the one is a cancel of the other. */
static void may_be_cancelled(int64_t id)
{
	for (unsigned i = 0; i < item_count; i++)
		items[i].may_be_cancelled |= items[i].id == id;
}

static struct item *some_item(void)
{
	unsigned last = item_count < 40 ? item_count : 40;

	return last ? &items[item_count - 1 - sim_random(last)] : NULL;
}

static void cancel(struct node *node)
{
	struct item *item = some_item();
	int rc;

	if (!item || item->id == 0 || item->put != ACCEPTED)
		return;
	may_be_cancelled(item->id);
	rc = hwt_store_cancel(node->store, item->id);
	sim_tell("cancels %u: %d", (unsigned)(item - items), rc);
	if (rc != 0 && !is_unknown(rc) && rc != ENOENT && !is_refusal(rc))
		sim_fail("a cancel", 0, "returns %d: %s", rc, hwt_store_error());
	if (rc != 0)
		return;
	if (item->cancelled && !item->lost && !item->revived)
		sim_fail("D2", 0, "timeout %u is cancelled twice", (unsigned)(item - items));
	item->cancelled = true;
}

/* One may have FAILED, perhaps as its end was forgotten.  The reply to a reschedule may come after the run. */
static void may_start_again(int64_t id, int more)
{
	for (unsigned i = 0; i < item_count; i++)
		items[i].may_start_again += items[i].id == id ? more : 0;
}

static void reschedule(struct node *node)
{
	struct item *item = some_item();
	bool was_cancelled;
	int rc;

	if (!item || item->id == 0 || item->put != ACCEPTED)
		return;
	was_cancelled = item->cancelled;
	may_start_again(item->id, 1);
	rc = hwt_store_reschedule(node->store, item->id, sim_some_time(4 * sim_lease_ns));
	sim_tell("reschedules %u: %d", (unsigned)(item - items), rc);
	if (rc == ENOENT || rc == EBUSY)
		may_start_again(item->id, -1);
	if (rc != 0)
		return;
	if (was_cancelled && !item->lost && !item->revived)
		sim_fail("D2", 0, "timeout %u is cancelled and rescheduled", (unsigned)(item - items));
}

static void get(struct node *node)
{
	hwt_store_info info = { .size = sizeof(info) };
	struct item *item = some_item();

	if (item && item->id != 0)
		(void)hwt_store_get(node->store, item->id, &info);
}

static void *use(void *arg)
{
	struct node *node = arg;

	while (!node->halts && !sim_is_over && item_count < ITEMS) {
		unsigned what = (unsigned)sim_random(10);

		if (what < 6)
			put(node);
		else if (what < 8)
			cancel(node);
		else if (what < 9)
			reschedule(node);
		else
			get(node);
		sim_sleep(sim_some_time(sim_lease_ns * 2));
	}
	return NULL;
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

	for (unsigned mode = 0; mode < MODES && rc == 0; mode++) {
		hwt_store_kind kind = { .size = sizeof(kind),
					.name = sim_kind_names[mode],
					.task = run_item,
					.ctx = node,
					.mode = mode,
					.shards = 4,
					.max_attempts = sim_settings.max_attempts,
					.backoff_ns = sim_settings.backoff_ns,
					.backoff_max_ns = 4 * sim_settings.backoff_ns };

		rc = hwt_store_register(node->store, &kind);
	}
	return rc == EEXIST ? 0 : rc;
}

/* Again after a while, as the server may be away. */
static int open_store(struct node *node)
{
	hwt_store_config config = { .size = sizeof(config),
				    .lease_ns = sim_lease_ns,
				    .threads = node->threads,
				    .warn = warn,
				    .name = node->number % 2 ? node->process->name : NULL };
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

static void *live_as_process(void *arg)
{
	struct node *node = arg;
	struct sim_actor *user;

	while (open_store(node) != 0) {
		sim_tell("does not start: %s", hwt_store_error());
		sim_sleep(HWT_MS(500));
		if (node->halts)
			goto end;
	}
	sim_tell("is started");
	user = sim_start(node->process, "user", sim_settings.use ? sim_settings.use : use, node);
	while (!node->halts)
		(void)sim_wait("lives", node, SIM_NEVER);
	(void)sim_join(user);
	if (sim_hit(2) && node->is_worker)
		SIM_CHECK(hwt_store_stop(node->store) == 0);
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
	process->wall_ns = HWT_S(INT64_C(1800000000)) + sim_some_time(HWT_S(10));
	node->process = process;
	node->halts = false;
	node->is_up = true;
	(void)sim_start(process, "main", live_as_process, node);
}

void sim_kill_node(struct node *node)
{
	struct sim_process *process = node->process;

	sim_tell("%s is killed", process->name);
	for (unsigned i = 0; i < item_count; i++)
		items[i].running[node->number] = 0;
	sim_kill(process);
	sim_drop_connections(process);
	node->is_up = false;
}
