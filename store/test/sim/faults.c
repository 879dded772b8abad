/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults of a world; world.h. */
#include "world.h"

#include <stdlib.h>

void sim_note_fault(int64_t ns)
{
	sim_fault_ns = HWTS_MAX(sim_fault_ns, sim_now() + ns);
}

unsigned sim_fault_count;

static int64_t some_leases(int64_t n)
{
	return sim_some_time(n * sim_lease_ns);
}

/* Lets the fault happen to a process that lives and goes on. */
static void befall_node(void (*befall)(struct node *node))
{
	struct node *node = &nodes[sim_random(node_count)];

	if (node->is_up && !node->halts && !node->process->is_stopped && !node->process->is_cut)
		befall(node);
}

static void start_again(struct node *node)
{
	if (!node->is_up)
		sim_start_node(node);
}

static void kill_one(struct node *node)
{
	sim_kill_node(node);
	sim_sleep(some_leases(2));
	start_again(node);
}

static void stop_one(struct node *node)
{
	struct sim_process *process = node->process;

	sim_tell("%s stands still", process->name);
	sim_stop(process);
	sim_reap(process);
	sim_sleep(some_leases(3));
	if (process->is_dead)
		return;
	sim_tell("%s goes on", process->name);
	sim_continue(process);
}

/* The machine sleeps: CLOCK_MONOTONIC stands still, too. */
static void suspend_one(struct node *node)
{
	struct sim_process *process = node->process;
	int64_t begin_ns = sim_now();

	sim_tell("the machine of %s sleeps", process->name);
	sim_stop(process);
	sim_reap(process);
	sim_sleep(some_leases(3));
	if (process->is_dead)
		return;
	process->mono_ns -= sim_now() - begin_ns;
	sim_shift_waits(process, sim_now() - begin_ns);
	sim_tell("the machine of %s wakes", process->name);
	sim_continue(process);
}

static void cut_one(struct node *node)
{
	struct sim_process *process = node->process;

	sim_tell("%s is cut off", process->name);
	process->is_cut = true;
	process->cut_ns = sim_now();
	sim_sleep(some_leases(3));
	sim_tell("%s is not cut off any more", process->name);
	process->is_cut = false;
}

static void restart_one(struct node *node)
{
	sim_tell("%s has to stop", node->process->name);
	node->halts = true;
	sim_wake_all(node);
	while (node->is_up)
		(void)sim_wait("a stop", &node->is_up, SIM_NEVER);
	sim_sleep(some_leases(2));
	start_again(node);
}

static void lose(void)
{
	sim_network.loses = 2 + (unsigned)sim_random(30);
	sim_sleep(some_leases(2));
	sim_network.loses = 0;
}

static void freeze(void)
{
	sim_network.freezes = 2 + (unsigned)sim_random(30);
	sim_sleep(some_leases(1));
	sim_network.freezes = 0;
}

static void deafen(void)
{
	sim_network.deaf = 1 + (unsigned)sim_random(3);
	sim_sleep(some_leases(3));
	sim_network.deaf = 0;
}

void sim_crash_server(int64_t down_ns)
{
	unsigned count;

	if (sim_server.is_down)
		return;
	sim_server.is_down = true;
	count = sim_crash(FORGETS_UNSYNCED, sim_now() - sim_some_time(HWT_MS(600)));
	sim_tell("the server crashes, and forgets %u commits", count);
	sim_drop_connections(NULL);
	sim_sleep(down_ns);
	sim_tell("the server is back");
	sim_server.is_down = false;
}

static void crash_server(void)
{
	sim_crash_server(some_leases(2));
}

/*
 * A standby takes over: it has all synced commits and some of the others.  Or it is an older copy, which lacks synced
 * commits.
 */
static void fail_over(void)
{
	bool is_old = sim_hit(3) && sim_now() > HWT_S(1200);
	unsigned count;

	if (sim_server.is_down)
		return;
	sim_server.is_down = true;
	count = sim_crash(is_old ? FORGETS_SYNCED : FAILS_OVER, sim_now() - sim_some_time(HWT_S(20)));
	sim_tell("%s takes over, and has forgotten %u commits", is_old ? "an older copy" : "a standby", count);
	sim_drop_connections(NULL);
	sim_sleep(sim_some_time(HWT_S(2)));
	sim_server.is_down = false;
}

static void slow_server(void)
{
	sim_server.slow_until_ns = sim_now() + some_leases(2);
	sim_tell("the server says nothing for %.3f s", (double)(sim_server.slow_until_ns - sim_now()) / 1e9);
	sim_sleep(sim_server.slow_until_ns - sim_now());
}

/* A transaction of a user locks rows. */
void sim_lock_rows(int64_t ns)
{
	struct tx *tx = sim_begin_tx(HWT_S(10));
	struct act act = { .tx = tx, .sees = sim_server.commits };
	unsigned starts = sim_server.starts, count = 0;

	EACH_ROW(TIMEOUT, row)
	if (row->newest && row->lock_count == 0 && sim_hit(3) && sim_lock(&act, row, true, SKIPS) == 0)
		count++;
	sim_tell("a user locks %u rows", count);
	sim_sleep(HWTS_MIN(ns, HWT_S(60))); /* meanwhile the store tries each row again and again */
	if (starts == sim_server.starts)
		sim_abort_tx(tx);
	sim_tell("a user's locks are gone");
}

/* Locks a row of the table that is not locked; NULL: there is none. */
struct tx *sim_hold_a_row(enum table table)
{
	struct tx *tx = sim_begin_tx(0);
	struct act act = { .tx = tx, .sees = sim_server.commits };
	struct row *chosen = NULL;
	unsigned count = 0;

	tx->is_users = true;
	EACH_ROW(table, row)
	if (sim_see(&act, row) && row->lock_count == 0 && sim_hit(++count))
		chosen = row;
	if (chosen && sim_lock(&act, chosen, true, SKIPS) == 0)
		return tx;
	sim_abort_tx(tx);
	return NULL;
}

static void lock_rows(void)
{
	sim_lock_rows(some_leases(2));
}

static void keep_snapshot(void)
{
	if (sim_server.kept)
		return;
	sim_server.kept = sim_server.commits + 1;
	sim_sleep(some_leases(10));
	sim_server.kept = 0;
}

/*
 * The server's clock is set.  Leases are measured on it, so a dead process may seem alive for that much longer.  Until
 * the next look at the clock, rows that are no longer due are tried again and again.
 */
static void step_server(void)
{
	int64_t step_ns = sim_hit(2) ? some_leases(3) : -HWTS_MIN(some_leases(3), HWT_S(60));

	sim_tell("the clock of the server is set by %.3f s", (double)step_ns / 1e9);
	(void)sim_server_us();
	sim_server.clock_ns += step_ns;
	sim_step_ns = sim_now();
	sim_note_fault(2 * sim_lease_ns + (step_ns < 0 ? -step_ns : 0));
}

static void step_client(struct node *node)
{
	sim_tell("the clock of %s is set", node->process->name);
	sim_step_wall(node->process, sim_hit(2) ? some_leases(1000) : -some_leases(1000));
}

/* Kills the process at one of its next points instead of at some time. */
static void kill_at_a_point(struct node *node)
{
	struct sim_process *process = node->process;

	process->fuse = 1 + (unsigned)sim_random(UINT64_C(1) << sim_random(14));
	sim_sleep(some_leases(4));
	process->fuse = 0;
	start_again(node);
}

void sim_blow(struct sim_process *process)
{
	for (unsigned i = 0; i < node_count; i++)
		if (nodes[i].process == process && nodes[i].is_up)
			sim_kill_node(&nodes[i]);
}

static void take_memory(struct node *node)
{
	struct sim_process *process = node->process;

	sim_tell("%s has little memory", process->name);
	process->no_memory = 1 + (unsigned)sim_random(UINT64_C(1) << sim_random(8));
	sim_sleep(some_leases(2));
	sim_tell("%s has memory", process->name);
	process->no_memory = 0;
}

/* Faults of the whole world, or of one process. */
static void (*const faults[FAULTS])(void) = {
	[LOSE] = lose,        [FREEZE] = freeze,       [CRASH] = crash_server,
	[SLOW] = slow_server, [LOCK] = lock_rows,      [SNAPSHOT] = keep_snapshot,
	[DEAFEN] = deafen,    [FAIL_OVER] = fail_over, [STEP_SERVER] = step_server,
};
static void (*const faults_of_one[FAULTS])(struct node *node) = {
	[KILL] = kill_one,       [STOP] = stop_one,           [SUSPEND] = suspend_one,     [CUT] = cut_one,
	[RESTART] = restart_one, [STEP_CLIENT] = step_client, [KILL_AT] = kill_at_a_point, [NO_MEMORY] = take_memory,
};

/* A machine that has slept knows the server's time only after its next look, and gives its levels before. */
void *sim_befall_sleepers(void *unused)
{
	while (!sim_is_over) {
		sim_sleep(some_leases(2));
		sim_fault_count++;
		befall_node(suspend_one);
		befall_node(restart_one);
		sim_fault_count--;
		sim_note_fault(0);
	}
	return unused;
}

/* The database refuses a begin after its reply was lost or not. */
void *sim_befall_replies(void *unused)
{
	while (!sim_is_over) {
		sim_sleep(some_leases(2));
		sim_fault_count++;
		lose();
		sim_fault_count--;
		sim_note_fault(0);
		sim_sleep(4 * sim_lease_ns);
	}
	return unused;
}

/* Starts processes again that their own tasks have killed. */
void *sim_tend(void *unused)
{
	for (;;) {
		sim_sleep(sim_lease_ns / 2);
		for (unsigned i = 0; i < node_count; i++) {
			if (!nodes[i].fell || nodes[i].halts)
				continue;
			nodes[i].fell = false;
			start_again(&nodes[i]);
			sim_fault_count--;
			sim_note_fault(0);
		}
	}
	return unused;
}

void *sim_befall(void *unused)
{
	while (!sim_is_over) {
		unsigned which = (unsigned)sim_random(FAULTS);

		sim_sleep(some_leases(6));
		if (sim_is_over || !(sim_settings.faults >> which & 1))
			continue;
		sim_sum->faults++;
		sim_fault_count++;
		if (faults[which])
			faults[which]();
		else
			befall_node(faults_of_one[which]);
		sim_fault_count--;
		sim_note_fault(0);
	}
	return unused;
}

/* Ends faults that are still going on when the time is over. */
void sim_heal(void)
{
	while (sim_fault_count > 0)
		sim_sleep(HWT_MS(100));
	sim_note_fault(0);
}
