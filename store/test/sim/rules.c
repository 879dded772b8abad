/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules of groups: how users change them, and what must hold; world.h.
 *
 * The judge looks where the server begins a row.  That holds a lock on the shard, so no change of its rules is under
 * way, and the rules in the tables are in force.  The judge also looks at starts, which may follow a change by a
 * moment.
 */
#include "world.h"
#include "statements.h"

#include <stdlib.h>

#define STARTS_NS HWT_MS(30) /* between the moment at which the store lets a task start, and its start */

struct rules {
	bool paused;
	int64_t running, every_ns, burst;
};

/* For each kind, and each group in it; the first group stands for the kind itself. */
static struct sim_ruled {
	bool ever;
	int64_t changed_ns; /* when a change was last under way */
	int64_t moved_ns;   /* when a timeout of the group last started or ended, or could not for its rules */
	int64_t full_ns;    /* when the bucket of its starts is full */
} ruled[KINDS][GROUPS];

static int64_t changed_ns(unsigned kind, unsigned group)
{
	return HWTS_MAX(ruled[kind][0].changed_ns, ruled[kind][group].changed_ns);
}

bool sim_is_ruled(const struct item *item)
{
	return ruled[item->kind][0].ever || ruled[item->kind][item->group].ever;
}

static unsigned kind_of_id(int64_t id)
{
	EACH_ROW(KIND, row)
	{
		const struct version *is = sim_committed(row);

		for (unsigned kind = 0; is && is->n[KIND_ID] == id && kind < KINDS; kind++)
			if (strcmp(is->s[KIND_NAME]->bytes, sim_kinds[kind].name) == 0)
				return kind;
	}
	return KINDS;
}

void sim_note_rules(int64_t id, const struct hwts_value *name)
{
	unsigned kind = kind_of_id(id), group = 0;

	while (name && !(sim_group_names[group] && strcmp(sim_group_names[group], name->bytes) == 0))
		group++;
	ruled[kind][group].ever = true;
	ruled[kind][group].changed_ns = sim_now();
}

static void add_kind(struct rules *rules, const char *name, int64_t *id)
{
	EACH_ROW(KIND, row)
	{
		const struct version *is = sim_committed(row);

		if (!is || strcmp(is->s[KIND_NAME]->bytes, name) != 0)
			continue;
		*id = is->n[KIND_ID];
		*rules = (struct rules){ is->n[KIND_PAUSED] != 0, is->n[KIND_RUNNING], is->n[KIND_EVERY] * 1000,
					 is->n[KIND_BURST] };
	}
}

/* The rules as the tables have them. */
static struct rules rules_of(unsigned kind, unsigned group)
{
	struct rules rules = { .running = 0 };
	int64_t id = 0;

	add_kind(&rules, sim_kinds[kind].name, &id);
	if (group == 0)
		return (struct rules){ .paused = rules.paused };
	EACH_ROW(RULES, row)
	{
		const struct version *is = sim_committed(row);

		if (!is || is->n[RULES_KIND] != id || strcmp(is->s[RULES_NAME]->bytes, sim_group_names[group]) != 0)
			continue;
		rules.paused |= is->n[RULES_PAUSED] != 0;
		if (!is->n[RULES_LIMITED])
			continue;
		rules.running = is->n[RULES_RUNNING];
		rules.every_ns = is->n[RULES_EVERY] * 1000;
		rules.burst = is->n[RULES_BURST];
	}
	return rules;
}

/*
 * Begins, as the server commits them
 */

/* A clock that was put back by more than this hides running rows from the process that takes their shard. */
static bool is_far_back(void)
{
	return sim_server.most_us - sim_server_us() > 50000000;
}

static bool is_of(const struct version *t, unsigned kind, unsigned group)
{
	const struct item *item = sim_item_of(t);

	return item->kind == kind && item->group == group;
}

/* Counts the runs of a group on all processes, as far as the database knows. */
static unsigned count_running(struct act *act, unsigned kind, unsigned group)
{
	struct act now = { .tx = act->tx, .sees = sim_server.commits };
	unsigned count = 0;

	EACH_ROW(TIMEOUT, row)
	{
		const struct version *t = sim_see(&now, row);

		count += t && t->n[STATE] == 2 && is_of(t, kind, group) && !sim_item_of(t)->lost &&
			 !sim_item_of(t)->is_undone;
	}
	return count;
}

void sim_judge_begin(struct act *act, const struct version *t, const struct version *before)
{
	struct item *item = sim_item_of(t);
	struct rules rules;
	unsigned count;

	if (before->n[STATE] == 2 && before->n[EPOCH] != t->n[EPOCH] && before->n[ATTEMPT] > 1)
		sim_fail("attempts", 0, "timeout %u is begun at once as its process has died in attempt %d",
			 (unsigned)(item - items), (int)before->n[ATTEMPT]);
	item->is_undone = false;
	if (!sim_is_ruled(item) || sim_server.broke_its_word || is_far_back())
		return;
	rules = rules_of(item->kind, item->group);
	if (rules.paused && (before->n[STATE] != 2 || before->n[EPOCH] != t->n[EPOCH]))
		sim_fail("pause", 0, "timeout %u is begun, and its group is paused", (unsigned)(item - items));
	count = rules.running > 0 && before->n[STATE] != 2 ? count_running(act, item->kind, item->group) : 0;
	if (count > rules.running)
		sim_fail("G1", 0, "timeout %u is begun as number %u of its group, of which %d may run",
			 (unsigned)(item - items), count, (int)rules.running);
}

/*
 * G3: the holder has known for a while of a row that goes before this one, and could have begun it.  A replacement of
 * another row may have that row's place.
 */
bool sim_has_waited(const struct version *t, const struct row *row)
{
	int64_t since_us = sim_server_us() - HWTS_S_US, since_ns = sim_now() - HWT_S(1);

	return t->n[STATE] == 1 && t->n[DUE] < since_us && !sim_item_of(t)->flags && row->lock_count == 0 &&
	       row->unlocked_ns < since_ns && (!t->made || t->made->commit_ns < since_ns);
}

static bool is_before(const struct version *a, const struct version *b)
{
	return a->n[PRIORITY] != b->n[PRIORITY] ? a->n[PRIORITY] > b->n[PRIORITY] : a->n[DUE] < b->n[DUE];
}

/*
 * Called once all rows of an exchange are begun.  If another process has put off that other row, its holder finds out
 * only by a begin.
 */
void sim_judge_order(struct act *act, const struct version *begun)
{
	const struct item *item = sim_item_of(begun);
	const struct version *shard = sim_shard(act, begun->n[SHARD_OF], NULL);

	if (!sim_settings.most_late_ns || item->group == 0 || begun->older->n[STATE] == 2 || item->is_moved ||
	    item->flags || (shard->made && shard->made->commit_ns > sim_now() - HWT_S(2)))
		return;
	EACH_ROW(TIMEOUT, row)
	{
		const struct version *t = sim_see(act, row);

		if (t && is_of(t, item->kind, item->group) && sim_has_waited(t, row) && is_before(t, begun))
			sim_fail(
			    "G3", 0,
			    "timeout %u, of priority %d, due for %.3f s, is begun before %u, of %d, due for %.3f s",
			    (unsigned)(item - items), (int)begun->n[PRIORITY],
			    (double)(sim_server_us() - begun->n[DUE]) / 1e6, (unsigned)(sim_item_of(t) - items),
			    (int)t->n[PRIORITY], (double)(sim_server_us() - t->n[DUE]) / 1e6);
	}
}

/*
 * Starts
 */

/* Counts the group's runs on processes whose epoch is the shard's. */
static unsigned count_live(const struct item *of)
{
	unsigned count = 0;

	for (const struct item *item = items; item < items + item_count; item++)
		for (unsigned node = 0; node < node_count && item->kind == of->kind && item->group == of->group;
		     node++) {
			const struct version *t = item->running[node] ? sim_row_of_id(item->id) : NULL;

			count += t && t->n[STATE] == 2 && t->n[EPOCH] == item->epoch[node] ? item->running[node] : 0;
		}
	return count;
}

/* A token is there if the start is not before full_ns allows. */
static void judge_rate(const struct item *item, const struct rules *rules)
{
	struct sim_ruled *of = &ruled[item->kind][item->group];
	int64_t now_ns = sim_now(), allowed_ns = (HWTS_MAX(rules->burst, 1) - 1) * rules->every_ns + STARTS_NS;

	if (of->full_ns - allowed_ns > now_ns)
		sim_fail("G1", 0, "timeout %u starts %.6f s before its group has a token", (unsigned)(item - items),
			 (double)(of->full_ns - allowed_ns - now_ns) / 1e9);
	of->full_ns = HWTS_MAX(of->full_ns, now_ns) + rules->every_ns;
}

void sim_judge_rules(const struct item *item, bool was_stopped)
{
	struct sim_ruled *of = &ruled[item->kind][item->group];
	struct rules rules;
	int64_t since_ns, news_ns = sim_settings.most_late_ns ? sim_settings.most_late_ns : sim_lease_ns + HWT_S(1);

	of->moved_ns = sim_now();
	if (!sim_is_ruled(item) || was_stopped || sim_server.broke_its_word)
		return;
	rules = rules_of(item->kind, item->group);
	since_ns = HWTS_MAX(changed_ns(item->kind, item->group), sim_step_ns);
	if (rules.paused && sim_now() - since_ns > news_ns)
		sim_fail("pause", 0, "timeout %u starts, and its group is paused", (unsigned)(item - items));
	if (sim_now() - since_ns < 2 * sim_lease_ns) {
		of->full_ns = 0;
		return;
	}
	if (rules.running > 0 && count_live(item) >= rules.running)
		sim_fail("G1", 0, "timeout %u starts, and %d others of its group run", (unsigned)(item - items),
			 (int)rules.running);
	if (rules.every_ns > 0)
		judge_rate(item, &rules);
}

void sim_note_end(const struct item *item)
{
	ruled[item->kind][item->group].moved_ns = sim_now();
}

/* News of a change of rules may not have come to all processes, though nothing holds it up. */
static bool is_news(unsigned kind, unsigned group)
{
	return (ruled[kind][group].ever || ruled[kind][0].ever) && changed_ns(kind, group) > sim_now() - HWT_S(2);
}

bool sim_is_paused(const struct item *item)
{
	return !is_news(item->kind, item->group) && rules_of(item->kind, item->group).paused;
}

/* True: some rules give timeouts this reason to wait, or may have given it until now. */
bool sim_is_reason(hwt_store_wait why)
{
	for (unsigned kind = 0; kind < KINDS; kind++)
		for (unsigned group = 0; group < GROUPS; group++) {
			struct rules rules = rules_of(kind, group);

			if (is_news(kind, group) || (why == HWT_STORE_WAITS_PAUSE && rules.paused) ||
			    (why == HWT_STORE_WAITS_RATE && rules.every_ns > 0) ||
			    (why != HWT_STORE_WAITS_RATE && why != HWT_STORE_WAITS_PAUSE && rules.running > 0))
				return true;
		}
	return false;
}

/* The database refuses a row of the group: a begin without a reply may have made it run, and then it has no end. */
static bool is_blocked_for_ever(const struct item *item, const struct rules *rules)
{
	EACH_ROW(TIMEOUT, row)
	{
		const struct version *t = rules->running > 0 ? sim_committed(row) : NULL;

		if (t && t->n[STATE] != 3 && sim_item_of(t)->is_poisoned && is_of(t, item->kind, item->group))
			return true;
	}
	return false;
}

int64_t sim_waits_since_us(const struct item *item, int64_t since_us, int64_t *more_us)
{
	struct sim_ruled *of = &ruled[item->kind][item->group];
	struct rules rules;

	if (!sim_is_ruled(item))
		return since_us;
	rules = rules_of(item->kind, item->group);
	if (rules.paused || is_blocked_for_ever(item, &rules) ||
	    (rules.running > 0 && count_live(item) >= rules.running)) /* full for as long as the tasks last */
		of->moved_ns = sim_now();
	*more_us = rules.every_ns / 1000;
	of->moved_ns = HWTS_MAX(of->moved_ns, changed_ns(item->kind, item->group));
	return HWTS_MAX(since_us, (of->moved_ns + sim_server.clock_ns) / 1000);
}

/*
 * Users
 */

static bool is_done(const char *call, int rc)
{
	if (rc != 0 && rc != EAGAIN && rc != ENOTCONN && rc != ECONNRESET && rc != EIO && rc != ENOMEM && rc != ENOENT)
		sim_fail(call, 0, "returns %d: %s", rc, hwt_store_error());
	return rc == 0;
}

static const char *name(unsigned group)
{
	return group ? sim_group_names[group] : "each";
}

static void limit(struct node *node, unsigned kind, unsigned group)
{
	hwt_store_limits limits = { .size = sizeof(limits), .running = (uint32_t)sim_random(4) };
	bool goes = group && sim_hit(3);
	int rc;

	if (sim_hit(3)) {
		limits.start_every_ns = HWT_MS(50) + sim_some_time(sim_lease_ns / 2);
		limits.burst = (uint32_t)sim_random(4);
	}
	rc = hwt_store_limit(node->store, sim_kinds[kind].name, sim_group_names[group], goes ? NULL : &limits);
	sim_tell("limits %s of %s to %u, every %.3f s, %u at once%s: %d", name(group), sim_kinds[kind].name,
		 limits.running, (double)limits.start_every_ns / 1e9, limits.burst, goes ? ", no more" : "", rc);
	(void)is_done("limit", rc);
}

static void resume(struct node *node, unsigned kind, unsigned group)
{
	while (!node->halts) {
		int rc = hwt_store_resume(node->store, sim_kinds[kind].name, sim_group_names[group]);

		sim_tell("resumes %s of %s: %d", name(group), sim_kinds[kind].name, rc);
		if (is_done("resume", rc))
			return;
		sim_sleep(HWT_MS(500));
	}
}

static void pause(struct node *node, unsigned kind, unsigned group)
{
	int rc = hwt_store_pause(node->store, sim_kinds[kind].name, sim_group_names[group]);

	sim_tell("pauses %s of %s: %d", name(group), sim_kinds[kind].name, rc);
	(void)is_done("pause", rc);
	sim_sleep(sim_some_time(2 * sim_lease_ns));
	if (sim_settings.tells)
		sim_judge_stats(node);
	resume(node, kind, group);
}

/* A crowd uses only two kinds in a seed. */
void sim_draw_group(unsigned *kind, unsigned *group)
{
	static unsigned kinds[2];
	static bool drawn;

	for (unsigned i = 0; i < 2 && !drawn; i++)
		kinds[i] = (unsigned)sim_random(KINDS);
	drawn = true;
	*kind = kinds[sim_random(2)];
	*group = 1 + (unsigned)sim_random(2);
}

/* Changes rules mostly of groups, as a rule of a kind concerns all of its groups. */
void sim_rule(struct node *node)
{
	unsigned kind = (unsigned)sim_random(KINDS), group = sim_hit(6) ? 0 : 1 + (unsigned)sim_random(GROUPS - 1);

	if (sim_settings.is_crowded) {
		sim_draw_group(&kind, &group);
		group = sim_hit(4) ? 0 : group;
	}
	if (sim_hit(3))
		pause(node, kind, group);
	else
		limit(node, kind, group);
}

static bool is_any(unsigned kind, unsigned group)
{
	struct rules rules = rules_of(kind, group);
	int64_t id;

	if (group == 0)
		add_kind(&rules, sim_kinds[kind].name, &id);
	return rules.paused || rules.running > 0 || rules.every_ns > 0;
}

static void lift(struct node *node, unsigned kind, unsigned group)
{
	hwt_store_limits none = { .size = sizeof(none) };

	while (!node->halts && !is_done("limit", hwt_store_limit(node->store, sim_kinds[kind].name,
								 sim_group_names[group], group ? NULL : &none)))
		sim_sleep(HWT_MS(500));
	resume(node, kind, group);
}

void sim_lift_rules(struct node *node)
{
	for (unsigned kind = 0; kind < KINDS; kind++)
		for (unsigned group = 0; group < GROUPS; group++)
			if (ruled[kind][group].ever && is_any(kind, group))
				lift(node, kind, group);
}
