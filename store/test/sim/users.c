/* SPDX-License-Identifier: BSD-2-Clause */
/* What users do, and which answers they may get; world.h. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#define KEYS 7
#define TOGETHER 5 /* most timeouts in one put_many */
#define RUSH_PUTS 24
#define RUSH_CALLS 24 /* calls of each user */

static bool is_unknown(int rc)
{
	return rc == ECONNRESET;
}

static bool is_refusal(int rc)
{
	return rc == EEXIST || rc == EBUSY || rc == EAGAIN || rc == ENOTCONN || rc == EIO || rc == ENOMEM;
}

static void check_answer(const char *call, int rc)
{
	if (rc != 0 && rc != ENOENT && !is_refusal(rc) && !is_unknown(rc))
		sim_fail(call, 0, "returns %d: %s", rc, hwt_store_error());
}

static unsigned number_of(const struct item *item)
{
	return (unsigned)(item - items);
}

static struct item *some_item(const struct node *node)
{
	unsigned last = item_count < 40 ? item_count : 40;
	struct item *item = sim_is_rush() ? sim_rush_item(node) : NULL;

	if (!item && last)
		item = &items[item_count - 1 - sim_random(last)];

	return item && item->id != 0 && item->put == ACCEPTED ? item : NULL;
}

/*
 * Puts
 */

struct putting {
	hwt_store_spec spec;
	struct item *item;
	unsigned number;
	char key[16];
	unsigned char data[sizeof(unsigned) + 64];
};

/* Changes of all timeouts of a kind that are under way: a timeout that is put meanwhile may be among them. */
static unsigned cancels[KINDS], moves[KINDS];

/* A series with a period or a cron line. */
static void draw_series(struct putting *put)
{
	static const struct {
		const char *line, *zone;
		int64_t period_s;
	} lines[] = {
		{ "* * * * *", NULL, 60 },
		{ "*/5 * * * *", NULL, 300 },
		{ "@hourly", NULL, 3600 },
		{ "@daily", NULL, 86400 },
		{ "*/30 * * * *", "Europe/Berlin", 1800 },
		{ SIM_LOCAL_LINE, "Europe/Berlin", 86400 },
		{ SIM_LOCAL_LINE, "Europe/Berlin", 86400 },
	};
	hwt_store_spec *spec = &put->spec;
	int64_t period_ns = HWT_S(1) + (sim_lease_ns / 4 + sim_some_time(4 * sim_lease_ns)) / 1000 * 1000;
	unsigned at = (unsigned)sim_random(HWTS_COUNT(lines));

	if (sim_hit(3) && HWT_S(lines[at].period_s) > sim_lease_ns / 4) {
		spec->schedule = lines[at].line;
		spec->zone = lines[at].zone;
		put->item->is_local = strcmp(spec->schedule, SIM_LOCAL_LINE) == 0;
		period_ns = HWT_S(lines[at].period_s);
	} else {
		spec->period_ns = period_ns;
	}
	if (sim_hit(4))
		spec->spread_ns = period_ns / 2;
	put->item->period_us = period_ns / 1000;
	put->item->last_start = !sim_hit(3) ? 1 + (unsigned)sim_random(5) : 0;
}

static void draw_task(struct item *item)
{
	sim_set_kind(item, (unsigned)sim_random(KINDS));
	item->fails = sim_hit(6) ? (unsigned)sim_random(4) : 0;
	item->agains = sim_hit(8) ? 1 + (unsigned)sim_random(8) : 0;
	item->gives_up = sim_hit(40);
	item->lasts_ns = sim_some_time(sim_settings.long_tasks && sim_hit(20) ? 2 * sim_lease_ns : HWT_MS(20));
	item->is_poisoned = sim_settings.poisons && sim_hit(40);
	item->ends_badly = sim_hit(2);
	item->kills = sim_settings.kills && sim_hit(30) ? 1 + (unsigned)sim_random(8) : 0;
	item->len = sizeof(unsigned) + sim_random(64);
	item->key = sim_hit(4) ? 1 + (unsigned)sim_random(KEYS - 1) : 0;
	item->group = sim_hit(sim_settings.rules ? 2 : 4) ? 1 + (unsigned)sim_random(GROUPS - 1) : 0;
	if (sim_settings.is_crowded) {
		unsigned kind;

		sim_draw_group(&kind, &item->group);
		sim_set_kind(item, kind);
		item->lasts_ns = sim_some_time(HWT_MS(200));
	}
	item->priority = sim_hit(4) ? (int)sim_random(201) - 100 : 0;
}

/* like: the timeout to replace, or NULL. */
static void draw_key(struct item *item, const struct item *like)
{
	item->flags = item->key && sim_hit(3) ? sim_hit(2) ? HWT_STORE_REVIVE : HWT_STORE_REPLACE : 0;
	if (sim_settings.replaces && sim_hit(2)) {
		item->key = 1 + (unsigned)sim_random(2);
		item->flags = sim_hit(2) ? HWT_STORE_REPLACE : item->flags;
	}
	if (!like)
		return;
	sim_set_kind(item, like->kind);
	item->key = like->key;
	item->group = like->group;
	item->flags = HWT_STORE_REPLACE;
}

static void draw_like(struct putting *put, const struct item *like)
{
	struct item *item = &items[item_count];
	int64_t delay_ns = sim_settings.is_crowded ? sim_lease_ns - sim_now() % sim_lease_ns
						   : sim_some_time(6 * sim_lease_ns);
	bool is_rush;

	SIM_CHECK(item_count < ITEMS_ROOM);
	*put = (struct putting){ .item = item, .number = item_count++ };
	draw_task(item);
	memset(put->data, (int)(put->number & 0xff), sizeof(put->data));
	memcpy(put->data, &put->number, sizeof(put->number));
	is_rush = !like && sim_draw_rush(item, &delay_ns);
	draw_key(item, like);
	(void)snprintf(put->key, sizeof(put->key), "%u", item->key);
	put->spec = (hwt_store_spec){ .size = sizeof(put->spec),
				      .kind = sim_kinds[item->kind].name,
				      .key = item->key ? put->key : NULL,
				      .group = sim_group_names[item->group],
				      .data = put->data,
				      .len = item->len,
				      .priority = item->priority,
				      .delay_ns = delay_ns,
				      .flags = item->flags };
	if (sim_hit(is_rush ? 3 : 20))
		draw_series(put);
	else if (sim_hit(10))
		put->spec.grace_ns = HWT_MS(100) + sim_some_time(4 * sim_lease_ns);
	item->grace_us = put->spec.grace_ns / 1000;
}

static void draw(struct putting *put)
{
	draw_like(put, NULL);
}

static void draw_without_key(struct putting *put)
{
	draw(put);
	put->item->key = put->item->flags = put->spec.flags = 0;
	put->spec.key = NULL;
}

/* Called before the put. */
static void calls(struct putting *put)
{
	struct item *item = put->item;

	item->may_be_cancelled |= cancels[item->kind] > 0;
	item->is_moved |= moves[item->kind] > 0;
}

/*
 * A cancel or move of the timeout that this one replaced, before its id was known, may have been a cancel or move of
 * this one.
 */
static void note_same(struct item *item)
{
	for (unsigned i = 0; i < item_count; i++) {
		item->may_be_cancelled |= items[i].id == item->id && items[i].may_be_cancelled;
		item->is_moved |= items[i].id == item->id && items[i].is_moved;
	}
}

/* The timeout that had this id before is replaced now, unless a cancel may drop the replacement. */
static void note_replaced(const struct node *node, const struct item *item, int64_t called_ns)
{
	bool waits = sim_waits_here(node, item->id);

	for (struct item *other = items; other < item; other++) {
		if (other->id != item->id || other->put != ACCEPTED || other->accepted_ns >= called_ns ||
		    other->may_be_cancelled)
			continue;
		other->replaced = true;
		other->off_ns = sim_now();
		other->is_off |= waits;
	}
}

static void returned(struct putting *put, int rc, int64_t id)
{
	struct item *item = put->item;

	sim_sum->puts++;
	item->accepted_ns = sim_now();
	if (rc == EBUSY || (rc == EEXIST && item->flags == HWT_STORE_REPLACE && !item->batch))
		sim_fail("a put", 0, "returns %d: %s", rc, hwt_store_error());
	item->put = rc == 0 ? ACCEPTED : is_refusal(rc) ? REFUSED : CALLED;
	item->id = is_refusal(rc) ? 0 : id ? id : item->id; /* a start may have told the id */
	sim_tell("puts %u, %s of %s (%d)%s%s in %.3f s: %d", put->number, put->spec.kind,
		 put->spec.group ? put->spec.group : "none", item->priority,
		 item->flags == HWT_STORE_REPLACE ? ", replaces," : "", item->period_us ? ", a series," : "",
		 (double)put->spec.delay_ns / 1e9, rc);
	if (rc != 0 && !is_refusal(rc) && !is_unknown(rc))
		sim_fail("a put", 0, "returns %d: %s", rc, hwt_store_error());
	if (rc == 0)
		note_same(item);
}

/* Finds a timeout with a key that runs, or is about to. */
static const struct item *one_that_runs(void)
{
	for (int i = 0; i < 20; i++) {
		for (unsigned j = item_count; j > 0 && item_count - j < 40; j--)
			if (items[j - 1].key && sim_is_running(&items[j - 1]))
				return &items[j - 1];
		sim_sleep(HWT_MS(2));
	}
	return NULL;
}

/* The row with this key in this state; NULL: none. */
static const struct version *one_with_key(const struct item *item, int64_t state)
{
	EACH_COMMITTED (TIMEOUT, t)
		if (t->n[STATE] == state && sim_has_key_of(sim_item_of(t), item))
			return t;
	return NULL;
}

/* The timeout may be there under the id of another. */
static void judge_told(const struct item *item, int64_t id)
{
	EACH_COMMITTED (TIMEOUT, t)
		if (sim_item_of(t) == item && id != 0 && t->n[ID] != id)
			sim_fail("a put", 0, "of timeout %u has told another id", number_of(item));
}

/* Transactions of users are short. */
static void judge_patience(int64_t called_ns, int rc)
{
	if (sim_settings.most_late_ns && (rc == EAGAIN || sim_now() - called_ns > HWT_S(4)))
		sim_fail("a put", 0, "returns %d after %.3f s", rc, (double)(sim_now() - called_ns) / 1e9);
}

/*
 * In its own process a row that has not started is pending, whatever the database says: such a call takes it out of the
 * queue.
 */
static void judge_queued(const char *call, const struct node *node, int64_t id, int64_t since_ns, int rc)
{
	if ((rc == 0 || rc == EBUSY || rc == ENOENT) && since_ns != 0 && sim_queued_ns(node, id) == since_ns)
		sim_fail(call, 0, "returns %d, and what it is about has been begun here and may start", rc);
}

static void put_like(struct node *node, const struct item *like)
{
	const struct version *failed, *present;
	struct putting put;
	int64_t id = 0, called_ns = sim_now(), queued_ns, tx;
	int rc;

	if (item_count == ITEMS)
		return;
	draw_like(&put, like);
	calls(&put);
	failed = one_with_key(put.item, HWT_STORE_FAILED);
	tx = failed ? failed->n[TX] : 0; /* by this a later version of the row is recognised */
	present = one_with_key(put.item, HWT_STORE_RUNNING);
	queued_ns = present ? sim_queued_ns(node, present->n[ID]) : 0;
	rc = hwt_store_put(node->store, &put.spec, &id);
	returned(&put, rc, id);
	if (rc == 0)
		judge_queued("a put", node, id, queued_ns, rc);
	if (rc == 0 || is_unknown(rc))
		judge_told(put.item, id);
	if (is_unknown(rc) && !put.item->flags && id == 0)
		sim_fail("a put", 0, "of timeout %u tells no id", put.number);
	if (rc == EEXIST && put.item->flags == HWT_STORE_REVIVE && failed &&
	    one_with_key(put.item, HWT_STORE_FAILED) == failed && failed->n[TX] == tx)
		sim_fail("a put that revives", 0, "finds timeout %u, which has failed", number_of(sim_item_of(failed)));
	judge_patience(called_ns, rc);
	if (rc == 0 && put.item->flags == HWT_STORE_REPLACE)
		note_replaced(node, put.item, called_ns);
}

static void put_one(struct node *node)
{
	const struct item *like = sim_is_rush() ? some_item(node) : NULL;

	if (sim_settings.replaces && sim_hit(2))
		like = one_that_runs();
	put_like(node, like && like->key && sim_hit(2) ? like : NULL);
}

void sim_replace(struct node *node, const struct item *item)
{
	put_like(node, item);
}

/*
 * All or none: if one of them starts, all were accepted (judge.c).  With keys they are of one kind, in that order, so
 * that another user can put the same keys in the opposite order.
 */
static void put_many_with(struct node *node, unsigned n, const unsigned *keys)
{
	struct putting puts[TOGETHER];
	hwt_store_spec specs[TOGETHER];
	int64_t ids[TOGETHER] = { 0 }, called_ns = sim_now();
	int rc;

	for (unsigned i = 0; i < n; i++) {
		draw(&puts[i]);
		if (keys) {
			sim_set_kind(puts[i].item, HWT_STORE_AT_LEAST_ONCE);
			puts[i].item->group = 0;
			puts[i].item->key = keys[i];
			puts[i].item->flags = puts[i].spec.flags = HWT_STORE_REPLACE;
			puts[i].spec.kind = sim_kinds[HWT_STORE_AT_LEAST_ONCE].name;
			puts[i].spec.group = NULL;
			puts[i].spec.key = puts[i].key;
			(void)snprintf(puts[i].key, sizeof(puts[i].key), "%u", keys[i]);
		}
		puts[i].item->batch = n;
		puts[i].item->at_in_batch = i;
		specs[i] = puts[i].spec;
		calls(&puts[i]);
	}
	rc = hwt_store_put_many(node->store, specs, n, ids);
	for (unsigned i = 0; i < n; i++)
		returned(&puts[i], rc, ids[i]);
	judge_patience(called_ns, rc);
}

static void *put_the_other_way(void *node)
{
	put_many_with(node, 2, (const unsigned[]){ KEYS - 1, KEYS - 2 });
	return NULL;
}

static void put_many(struct node *node)
{
	struct sim_actor *rival;

	if (!sim_hit(4) || item_count + 2 * TOGETHER > ITEMS) {
		put_many_with(node, 1 + (unsigned)sim_random(TOGETHER), NULL);
		return;
	}
	rival = sim_start(node->process, "a rival", put_the_other_way, node);
	put_many_with(node, 2, (const unsigned[]){ KEYS - 2, KEYS - 1 });
	(void)sim_join(rival);
}

/*
 * Cancels and reschedules
 */

/* The result is not known, or the replacement may be dropped. */
static void may_cancel(struct item *item)
{
	item->may_be_cancelled = true;
	item->replaced = false;
}

/* A row may have been taken over by another timeout: a cancel of one is a cancel of the other. */
static void may_be_cancelled(int64_t id)
{
	for (unsigned i = 0; i < item_count; i++)
		if (items[i].id == id)
			may_cancel(&items[i]);
}

/* before: the row with its id.  Since the cancel the row may have become the replacement's. */
static bool is_its_own(const struct item *item, const struct version *before)
{
	return !item->lost && !item->is_another && (!before || sim_item_of(before) == item);
}

static void is_cancelled(struct item *item, const struct version *before)
{
	if (item->cancelled && is_its_own(item, before))
		sim_fail("D2", 0, "timeout %u is cancelled twice", number_of(item));
	item->cancelled = true;
	item->off_ns = sim_now();
}

static hwt_store_which which_of(const struct item *item, char key[16])
{
	(void)snprintf(key, 16, "%u", item->key);
	return (hwt_store_which){ .size = sizeof(hwt_store_which),
				  .kind = sim_kinds[item->kind].name,
				  .group = sim_group_names[item->group],
				  .key = key };
}

/* By id, if the timeout is in one of these states. */
static hwt_store_which by_id(const struct item *item, unsigned states)
{
	return (hwt_store_which){ .size = sizeof(hwt_store_which), .id = item->id, .states = states };
}

static void cancel(struct node *node)
{
	struct item *item = some_item(node);
	unsigned starts = sim_server.starts, states = sim_hit(4) ? 1u << HWT_STORE_PENDING : 0;
	const struct version *before;
	hwt_store_which which;
	int64_t queued_ns;
	int rc;

	if (!item)
		return;
	may_be_cancelled(item->id);
	before = sim_row_of_id(item->id);
	queued_ns = sim_queued_ns(node, item->id);
	which = by_id(item, states);
	rc = hwt_store_cancel_ex(node->store, &which, NULL);
	sim_tell("cancels %u%s: %d", number_of(item), states ? " if it is pending" : "", rc);
	check_answer("a cancel", rc);
	if (states == 0 || (before && before->n[STATE] == HWT_STORE_PENDING))
		sim_judge_none(before, item->id, starts, rc);
	judge_queued("a cancel", node, item->id, queued_ns, rc);
	if (rc != 0)
		return;
	is_cancelled(item, before);
	item->is_off |= sim_waits_here(node, item->id);
}

/* Cancels whichever timeout has the key now. */
static void cancel_key(struct node *node)
{
	struct item *item = some_item(node);
	char key[16];
	hwt_store_which which;
	uint64_t n = 7;
	int rc;

	if (!item || !item->key)
		return;
	for (unsigned i = 0; i < item_count; i++)
		if (sim_has_key_of(&items[i], item))
			may_cancel(&items[i]);
	cancels[item->kind]++;
	which = which_of(item, key);
	rc = hwt_store_cancel_ex(node->store, &which, &n);
	cancels[item->kind]--;
	sim_tell("cancels the one with the key of %u: %d", number_of(item), rc);
	check_answer("a cancel by key", rc);
	SIM_CHECK(n == (rc == 0));
}

/* A timeout may have FAILED, perhaps as its end was forgotten.  The reply to a reschedule may come after the run. */
static void may_start_again(int64_t id, int more)
{
	for (unsigned i = 0; i < item_count; i++)
		items[i].may_start_again += items[i].id == id ? more : 0;
}

static void is_to_move(int64_t id)
{
	for (unsigned i = 0; i < item_count; i++)
		items[i].is_moved |= items[i].id == id;
}

static void reschedule(struct node *node)
{
	struct item *item = some_item(node);
	const struct version *before;
	unsigned starts = sim_server.starts;
	bool was_cancelled;
	int64_t queued_ns;
	int rc;

	if (!item)
		return;
	before = sim_row_of_id(item->id);
	queued_ns = sim_queued_ns(node, item->id);
	was_cancelled = item->cancelled;
	may_start_again(item->id, 1);
	is_to_move(item->id);
	rc = hwt_store_reschedule(node->store, item->id, sim_some_time(4 * sim_lease_ns));
	sim_tell("reschedules %u: %d", number_of(item), rc);
	check_answer("a reschedule", rc);
	sim_judge_none(before, item->id, starts, rc);
	judge_queued("a reschedule", node, item->id, queued_ns, rc);
	if (rc == ENOENT || rc == EBUSY)
		may_start_again(item->id, -1);
	if (rc == 0 && was_cancelled && is_its_own(item, before))
		sim_fail("D2", 0, "timeout %u is cancelled and rescheduled", number_of(item));
}

/* All of a kind: of a group, without a group, or both. */
static hwt_store_which draw_which(unsigned *kind, unsigned *group)
{
	*kind = (unsigned)sim_random(KINDS);
	*group = (unsigned)sim_random(GROUPS);
	return (hwt_store_which){ .size = sizeof(hwt_store_which),
				  .kind = sim_kinds[*kind].name,
				  .group = sim_group_names[*group],
				  .all = true,
				  .any_group = *group == 0 && sim_hit(2) };
}

static bool is_among(const struct item *item, const hwt_store_which *which, unsigned kind, unsigned group)
{
	return item->kind == kind && (which->any_group || item->group == group);
}

static void cancel_all(struct node *node)
{
	unsigned kind, group;
	hwt_store_which which = draw_which(&kind, &group);
	struct view *view;
	uint64_t n = 0;
	int rc;

	for (unsigned i = 0; i < item_count; i++)
		if (is_among(&items[i], &which, kind, group))
			may_cancel(&items[i]);
	cancels[kind]++;
	view = sim_view(kind, group, which.any_group, 1u << HWT_STORE_PENDING | 1u << HWT_STORE_FAILED);
	rc = hwt_store_cancel_ex(node->store, &which, &n);
	cancels[kind]--;
	sim_tell("cancels all of a group: %d, %d of them", rc, (int)n);
	check_answer("a cancel of all", rc);
	if (rc == 0)
		sim_view_changed(view);
	sim_view_free(view);
}

static void reschedule_all(struct node *node)
{
	unsigned kind, group;
	hwt_store_which which = draw_which(&kind, &group);
	hwt_store_when when = { .delay_ns = sim_some_time(4 * sim_lease_ns) };
	struct view *view;
	uint64_t n = 0;
	int rc;

	for (unsigned i = 0; i < item_count; i++)
		items[i].is_moved |= is_among(&items[i], &which, kind, group);
	moves[kind]++;
	view = sim_view(kind, group, which.any_group, 1u << HWT_STORE_PENDING);
	rc = hwt_store_reschedule_ex(node->store, &which, when, &n);
	moves[kind]--;
	sim_tell("reschedules all of a group: %d, %d of them", rc, (int)n);
	check_answer("a reschedule of all", rc);
	if (rc == 0)
		sim_view_changed(view);
	sim_view_free(view);
}

/*
 * Reading
 */

static void get(struct node *node)
{
	hwt_store_info info = { .size = sizeof(info) };
	struct item *item = some_item(node);
	const struct version *before;
	unsigned starts = sim_server.starts;
	int rc;

	if (!item)
		return;
	before = sim_row_of_id(item->id);
	rc = hwt_store_get(node->store, item->id, &info);
	check_answer("a get", rc);
	sim_judge_get(item->id, before, starts, rc, &info);
}

static bool hear(void *ctx, const hwt_store_info *info)
{
	sim_view_heard(ctx, info);
	return true;
}

static void list(struct node *node)
{
	unsigned kind, group, states = 1 + (unsigned)sim_random(7);
	hwt_store_which which = draw_which(&kind, &group);
	struct view *view;
	int rc;

	which.states = states << 1;
	view = sim_view(kind, group, which.any_group, which.states);
	rc = hwt_store_each_ex(node->store, &which, hear, view);
	check_answer("each", rc);
	if (rc == 0)
		sim_view_listed(view);
	sim_view_free(view);
}

/*
 * In the user's own transaction
 */

bool sim_put_child(struct node *node, unsigned parent, void *connection, unsigned *child)
{
	struct putting put;
	int64_t id;
	int rc;

	if (item_count == ITEMS)
		return true;
	draw_without_key(&put);
	put.item->parent = parent + 1;
	calls(&put);
	rc = hwt_store_put_on(node->store, connection, &put.spec, &id);
	returned(&put, rc, id);
	put.item->put = rc == 0 ? CALLED : REFUSED; /* the effect of its parent says more */
	*child = rc == 0 ? put.number : 0;
	return rc == 0 || rc == EAGAIN || rc == ENOMEM;
}

struct rival {
	struct node *node;
	const struct item *like;
	struct sim_actor *actor;
};

static void *put_the_same(void *arg)
{
	struct rival *rival = arg;

	put_like(rival->node, rival->like);
	return NULL;
}

/* While a transaction has put a timeout with a key, its user puts another, and another thread the same key. */
static void put_beside(struct node *node, struct rival *rival, const struct item *item)
{
	struct putting put;
	int64_t id = 0;
	int rc;

	*rival = (struct rival){ .node = node, .like = item };
	if (!item->key || !sim_hit(3) || item_count + 2 > ITEMS)
		return;
	rival->actor = sim_start(node->process, "a rival", put_the_same, rival);
	sim_sleep(HWT_MS(1));
	draw_without_key(&put);
	calls(&put);
	rc = hwt_store_put(node->store, &put.spec, &id);
	returned(&put, rc, id);
}

static void put_and_cancel_on(struct node *node, void *connection, struct putting *put, struct item *cancelled,
			      struct rival *rival)
{
	int64_t id = 0;
	int rc;

	draw(put);
	calls(put);
	rc = hwt_store_put_on(node->store, connection, &put->spec, &id);
	returned(put, rc, id);
	if (rc == 0)
		put->item->put = CALLED;
	put_beside(node, rival, put->item);
	sim_sleep(sim_some_time(HWT_MS(100)));
	if (!cancelled)
		return;
	rc = hwt_store_cancel_on(node->store, connection,
				 &(hwt_store_which){ .size = sizeof(hwt_store_which), .id = cancelled->id });
	sim_tell("cancels %u in a transaction: %d", number_of(cancelled), rc);
	cancelled->may_be_cancelled |= is_unknown(rc);
}

static void act_in_transaction(struct node *node)
{
	void *connection = sim_user_begin(false);
	struct item *cancelled = sim_hit(2) ? some_item(node) : NULL;
	bool commits = !sim_hit(3);
	const struct version *before = cancelled ? sim_row_of_id(cancelled->id) : NULL;
	struct rival rival;
	struct putting put;
	int rc;

	if (!connection)
		return;
	put_and_cancel_on(node, connection, &put, before ? cancelled : NULL, &rival);
	if (cancelled && commits)
		may_be_cancelled(cancelled->id);
	rc = sim_user_end(connection, commits);
	sim_tell("%s a transaction: %d", commits ? "commits" : "rolls back", rc);
	if (put.item->put == CALLED && (!commits || rc == 0))
		put.item->put = commits ? ACCEPTED : REFUSED;
	if (rival.actor)
		(void)sim_join(rival.actor);
}

/* Makes calls until the rush is over, or for a number of calls. */
static void join_rush(struct node *node)
{
	static void (*const acts[])(struct node *) = { put_one,           cancel, cancel, reschedule, cancel_key, get,
						       act_in_transaction };

	for (int i = 0; i < RUSH_CALLS && sim_is_rush() && !node->halts && item_count + TOGETHER < ITEMS; i++) {
		acts[sim_random(sim_hit(20) ? HWTS_COUNT(acts) : HWTS_COUNT(acts) - 1)](node);
		sim_sleep(sim_some_time(HWT_MS(4)));
	}
}

/* The first puts may take long. */
static void begin_rush(struct node *node)
{
	if (item_count + RUSH_PUTS > ITEMS || sim_hit(2) ||
	    !sim_begin_rush(4 * RUSH_PUTS * (HWT_MS(1) + sim_network.trip_ns)))
		return;
	for (int i = 0; i < RUSH_PUTS && !node->halts; i++)
		put_one(node);
	sim_call_to_rush();
	join_rush(node);
}

void sim_use_once(struct node *node)
{
	static void (*const acts[])(struct node *) = {
		put_one,
		put_one,
		put_one,
		put_one,
		put_one,
		put_one,
		put_one,
		put_many,
		cancel,
		cancel,
		cancel_key,
		reschedule,
		get,
		list,
		act_in_transaction,
		act_in_transaction,
		sim_call_oddly,
		begin_rush,
	};
	static void (*const wide[])(struct node *) = { cancel_all, reschedule_all };

	if (sim_settings.rules && sim_hit(sim_settings.is_crowded ? 8 : 16)) {
		sim_rule(node);
		return;
	}

	if (item_count + TOGETHER > ITEMS)
		return;
	if (sim_hit(60))
		wide[sim_random(2)](node);
	else
		acts[sim_random(HWTS_COUNT(acts))](node);
}

void *sim_use(void *arg)
{
	struct node *node = arg;

	while (!node->halts && !sim_is_over) {
		sim_use_once(node);
		sim_wait_for_rush(sim_now() + sim_some_time(sim_lease_ns * 2));
		join_rush(node);
	}
	while (!node->halts) { /* a change that was under way may arrive long after */
		sim_lift_rules(node);
		(void)sim_wait("lifts rules", node, sim_now() + 20 * sim_lease_ns);
	}
	return NULL;
}
