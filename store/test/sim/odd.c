/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that must be refused, and what the counts of an operator must say; world.h. */
#include "world.h"
#include "base/waits.h"
#include "statements.h"
#include "window/window.h"

#include <stdio.h>

static hwt_store_spec spec_of(const unsigned *number)
{
	return (hwt_store_spec){ .size = sizeof(hwt_store_spec),
				 .kind = sim_kinds[sim_random(KINDS)].name,
				 .data = number,
				 .len = sizeof(*number) };
}

/* The connection leads to the database of another store. */
static void put_elsewhere(struct node *node)
{
	static const unsigned number;
	void *connection = sim_user_begin(true);
	hwt_store_spec spec = spec_of(&number);
	int64_t id = 1;
	int rc;

	if (!connection)
		return;
	rc = hwt_store_put_on(node->store, connection, &spec, &id);
	sim_tell("puts into another store: %d", rc);
	if (rc == 0)
		sim_fail("a put", 0, "into another store is accepted");
	rc = hwt_store_cancel_on(node->store, connection,
				 &(hwt_store_which){ .size = sizeof(hwt_store_which), .id = id });
	if (rc == 0)
		sim_fail("a cancel", 0, "in another store succeeds");
	(void)sim_user_end(connection, false);
}

#define TOO_MANY 10001 /* for one put_many */

static void put_too_many(struct node *node)
{
	static hwt_store_spec specs[TOO_MANY];
	static const unsigned number;

	for (size_t i = 0; i < TOO_MANY; i++)
		specs[i] = spec_of(&number);
	SIM_CHECK(hwt_store_put_many(node->store, specs, TOO_MANY, NULL) == EINVAL);
}

/* True: the row has been due for a while, no begin of it is under way, and the node holds its shard. */
static bool is_overdue(const struct node *node, const struct version *t)
{
	struct act act = { .sees = sim_server.commits };
	bool between;

	(void)hwts_window_begun(node->store, t->n[ID], &between);
	return !between && t->n[STATE] == 1 && t->n[DUE] < sim_server_us() - 2 * HWTS_S_US &&
	       (!t->made || t->made->commit_ns < sim_now() - HWT_S(2)) && !sim_item_of(t)->is_moved &&
	       sim_holds(node, sim_shard(&act, t->n[SHARD_OF], NULL));
}

static uint64_t count_overdue(const struct node *node, bool paused)
{
	uint64_t count = 0;

	EACH_COMMITTED (TIMEOUT, t)
		count += is_overdue(node, t) && (!paused || sim_is_paused(sim_item_of(t)));
	return count;
}

/*
 * In peace, each reason is one that there is, and what is paused is told as paused.  A shard that is not read yet counts
 * as one timeout, and one that is given away has another reason.
 */
static void judge_reasons(const struct node *node, const hwt_store_stats *stats)
{
	static const hwt_store_wait of_rules[] = { HWT_STORE_WAITS_PAUSE, HWT_STORE_WAITS_CAP, HWT_STORE_WAITS_RATE,
						   HWT_STORE_WAITS_ELSEWHERE },
				    never[] = { HWT_STORE_WAITS_ZONE, HWT_STORE_WAITS_DATABASE,
						HWT_STORE_WAITS_NOBODY };
	const uint64_t *waiting = stats->waiting;
	const char *name = node->process->name;

	if (!sim_settings.most_late_ns || !stats->trusted)
		return;
	for (size_t i = 0; i < HWTS_COUNT(never); i++)
		if (waiting[never[i]] > 0)
			sim_fail("reasons", 0, "of %s: %s", name, hwts_wait_word(never[i]));
	for (size_t i = 0; i < HWTS_COUNT(of_rules); i++)
		if (waiting[of_rules[i]] > 0 && !sim_is_reason(of_rules[i]))
			sim_fail("reasons", 0, "of %s: %s, and no rule says so", name, hwts_wait_word(of_rules[i]));
	if (waiting[HWT_STORE_WAITS_READ] + waiting[HWT_STORE_WAITS_RULES] + waiting[HWT_STORE_WAITS_LEASE] == 0 &&
	    hwts_test_window == 0 && waiting[HWT_STORE_WAITS_PAUSE] < count_overdue(node, true))
		sim_fail("reasons", 0, "of %s: %d are paused, and not %d", name, (int)count_overdue(node, true),
			 (int)waiting[HWT_STORE_WAITS_PAUSE]);
}

void sim_judge_stats(struct node *node)
{
	hwt_store_stats stats = { .size = sizeof(stats) };
	uint64_t overdue = count_overdue(node, false);
	const struct sim_process *process = node->process;

	SIM_CHECK(hwt_store_read_stats(node->store, &stats) == 0);
	if (stats.trusted && process->is_cut && sim_now() - process->cut_ns > sim_lease_ns)
		sim_fail("statistics", 0, "of %s say that it may begin, and its lease is over", process->name);
	if (stats.overdue < overdue && sim_settings.most_late_ns && hwts_test_window == 0)
		sim_fail("statistics", 0, "of %s say that %d are overdue, and not %d", process->name,
			 (int)stats.overdue, (int)overdue);
	judge_reasons(node, &stats);
}

/* The lateness of the last minute may include a start up to a second before. */
static void read_lateness(struct node *node)
{
	hwt_store_stats stats = { .size = sizeof(stats) };

	SIM_CHECK(hwt_store_read_stats(node->store, &stats) == 0);
	if (stats.lateness_minute_max_ns > HWT_MS(500) && sim_settings.most_late_ns &&
	    sim_now() - node->late_ns > HWT_S(62))
		sim_fail("statistics", 0, "of %s tell of what was late %.0f s ago", node->process->name,
			 (double)(sim_now() - node->late_ns) / 1e9);
}

void sim_call_oddly(struct node *node)
{
	if (sim_hit(40))
		put_too_many(node);
	else if (sim_hit(2))
		put_elsewhere(node);
	else if (sim_hit(3))
		sim_count_inside(node);
	else if (sim_hit(2))
		sim_judge_stats(node);
	else
		read_lateness(node);
}
