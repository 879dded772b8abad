/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What calls must say of the tables; world.h.  A row that is the same when the call begins and when it has returned was
 * so all the time.
 */
#include "world.h"
#include "statements.h"

#include <stdlib.h>

#define STATES(t) (1u << (t)->n[STATE])

struct view {
	unsigned kind, states, starts;
	const char *group; /* "": rows without a group */
	bool any_group;
	size_t n;
	struct {
		const struct version *t;
		int64_t id, tx;
		unsigned heard;
	} at[ITEMS_ROOM];
};

static bool is_in(const struct view *view, const struct version *t)
{
	return sim_item_of(t)->kind == view->kind && (view->states & STATES(t)) &&
	       (view->any_group || strcmp(t->s[GROUP]->bytes, view->group) == 0);
}

struct view *sim_view(unsigned kind, unsigned group, bool any_group, unsigned states)
{
	struct view *view = calloc(1, sizeof(*view));

	view->kind = kind;
	view->group = group ? sim_group_names[group] : "";
	view->any_group = any_group;
	view->states = states;
	view->starts = sim_server.starts;
	EACH_COMMITTED (TIMEOUT, t) {
		if (!is_in(view, t))
			continue;
		view->at[view->n].t = t;
		view->at[view->n].id = t->n[ID];
		view->at[view->n++].tx = t->n[TX];
	}
	return view;
}

static bool is_as_it_was(const struct view *view, size_t i)
{
	const struct version *t = sim_row_of_id(view->at[i].id);

	return t && t == view->at[i].t && t->n[TX] == view->at[i].tx && view->starts == sim_server.starts;
}

static bool is_text(const struct text *text, const char *told)
{
	return text ? strcmp(text->bytes, told) == 0 : told[0] == '\0';
}

static void judge_info(const struct version *t, const hwt_store_info *info)
{
	SIM_CHECK(info->id == t->n[ID] && info->due_us == t->n[DUE] && info->period_ns == t->n[PERIOD] * 1000);
	SIM_CHECK((int64_t)info->state == t->n[STATE] && info->attempt == t->n[ATTEMPT]);
	SIM_CHECK(info->len == sim_item_of(t)->len && strcmp(info->kind, sim_kinds[sim_item_of(t)->kind].name) == 0);
	SIM_CHECK(is_text(t->s[KEY], info->key) && is_text(t->s[GROUP], info->group));
	SIM_CHECK(is_text(t->s[SCHEDULE], info->schedule) && is_text(t->s[ERROR], info->error));
}

void sim_view_heard(struct view *view, const hwt_store_info *info)
{
	for (size_t i = 0; i < view->n; i++)
		view->at[i].heard += view->at[i].id == info->id;
	SIM_CHECK(view->states & 1u << info->state);
	SIM_CHECK(view->any_group || strcmp(info->group, view->group) == 0);
}

/* The row runs, and its time is still to come: the clock was put back.  Without PENDING a list reads a minute ahead. */
static bool is_ahead_of_the_clock(const struct version *t)
{
	return t->n[DUE] >= sim_server_us() + 60 * HWTS_S_US && t->n[STATE] == HWT_STORE_RUNNING;
}

void sim_view_listed(struct view *view)
{
	for (size_t i = 0; i < view->n; i++)
		if (is_as_it_was(view, i) && view->at[i].heard != 1 && !is_ahead_of_the_clock(view->at[i].t))
			sim_fail("each", 0, "timeout %u was told of %u times",
				 (unsigned)(sim_item_of(view->at[i].t) - items), view->at[i].heard);
}

void sim_view_changed(struct view *view)
{
	for (size_t i = 0; i < view->n; i++)
		if (is_as_it_was(view, i))
			sim_fail("all", 0, "timeout %u was left as it was",
				 (unsigned)(sim_item_of(view->at[i].t) - items));
}

void sim_view_free(struct view *view)
{
	free(view);
}

const struct version *sim_row_of_id(int64_t id)
{
	EACH_COMMITTED (TIMEOUT, t)
		if (t->n[ID] == id)
			return t;
	return NULL;
}

void sim_judge_none(const struct version *before, int64_t id, unsigned starts, int rc)
{
	if (before && rc == ENOENT && before == sim_row_of_id(id) && starts == sim_server.starts)
		sim_fail("ENOENT", 0, "timeout %u is there", (unsigned)(sim_item_of(before) - items));
}

bool sim_holds(const struct node *node, const struct version *shard)
{
	const char *name = hwts_me(node->store->db);
	struct hwts_value value = HWTS_TEXT(name);

	return shard && sim_is_text(shard->s[SHARD_OWNER], &value);
}

bool sim_is_owner(const struct node *node, const struct version *t)
{
	struct act act = { .sees = sim_server.commits };
	const struct version *shard = sim_shard(&act, t->n[SHARD_OF], NULL);

	return sim_holds(node, shard) && t->n[EPOCH] == shard->n[SHARD_EPOCH];
}

void sim_judge_get(int64_t id, const struct version *before, unsigned starts, int rc, const hwt_store_info *info)
{
	const struct version *t = sim_row_of_id(id);

	if (t != before || starts != sim_server.starts || (rc != 0 && rc != ENOENT))
		return;
	SIM_CHECK((rc == 0) == (t != NULL));
	if (t)
		judge_info(t, info);
}
