/* SPDX-License-Identifier: BSD-2-Clause */
/* G2: the groups of a kind that are due take turns; world.h. */
#include "world.h"
#include "statements.h"

#define PASSED 12 /* starts of other groups while a group waits: more than there are groups and threads */

/* True: the holder has known a row of the group for a while, and might have begun it. */
static bool waits(const struct node *node, unsigned kind, unsigned group)
{
	struct act act = { .sees = sim_server.commits };

	EACH_ROW(TIMEOUT, row)
	{
		const struct version *t = sim_see(&act, row), *shard;

		if (!t || sim_item_of(t)->kind != kind || sim_item_of(t)->group != group || !sim_has_waited(t, row))
			continue;
		shard = sim_shard(&act, t->n[SHARD_OF], NULL);
		if (sim_holds(node, shard) && !(shard->made && shard->made->commit_ns > sim_now() - HWT_S(2)))
			return true;
	}
	return false;
}

void sim_judge_turns(const struct item *item, const struct node *node)
{
	static unsigned passed[NODES][KINDS][GROUPS];
	unsigned *of = passed[node->number][item->kind];

	if (!sim_settings.is_flooded && (!sim_settings.most_late_ns || sim_settings.rules || sim_settings.one_name))
		return;
	for (unsigned group = 0; group < GROUPS; group++) {
		of[group] = group != item->group && waits(node, item->kind, group) ? of[group] + 1 : 0;
		if (of[group] > PASSED)
			sim_fail("G2", 0, "%s of %s has waited while %u others of its kind have started",
				 group ? sim_group_names[group] : "what has no group", sim_kinds[item->kind].name,
				 of[group]);
	}
}
