/* SPDX-License-Identifier: BSD-2-Clause */
/* Statements about the rules of groups; tables.h.  store/sql/ says what they mean. */
#include "statements.h"

/*
 * Reading
 */

static void emit_rules(struct act *act, struct hwts_value *values, size_t n, const int64_t *rules, size_t count)
{
	for (size_t i = 0; i < count; i++)
		values[n + i] = (struct hwts_value){ .number = rules[i] };
	sim_emit(act, values, n + count);
}

static int rules(struct act *act)
{
	EACH_SEEN (act, SHARD, shard) {
		const struct version *kind = sim_find(act, KIND, shard->n[SHARD_KIND], NULL);
		struct hwts_value values[7] = { { .number = shard->n[SHARD_ID] },
						{ .number = shard->n[SHARD_RULES] },
						sim_text_value(shard->s[SHARD_LEVELS]) };

		if (kind && sim_is_among(act, 0, shard->n[SHARD_ID])) /* otherwise a user has damaged it */
			emit_rules(act, values, 3, &kind->n[KIND_PAUSED], 4);
	}
	return 0;
}

static int rules_own(struct act *act)
{
	EACH_SEEN (act, RULES, is) {
		struct hwts_value values[7] = { sim_text_value(is->s[RULES_NAME]), { .number = is->n[RULES_BUCKET] } };

		if (!sim_is_among(act, 0, is->n[RULES_BUCKET]) || is->n[RULES_KIND] != NUMBER_ARG(1))
			continue;
		emit_rules(act, values, 2, &is->n[RULES_PAUSED], 5);
		act->rules++;
	}
	return 0;
}

/*
 * Changes
 */

/* Locks in the order of ids, as the statement does. */
static int rules_lock(struct act *act)
{
	int rc = 0;

	for (size_t i = 0; i < COUNT_ARG(0) && rc == 0; i++) {
		struct row *row;

		SIM_CHECK(i == 0 || ITEM_ARG(0, i - 1) < ITEM_ARG(0, i));
		if (sim_shard(act, ITEM_ARG(0, i), &row))
			rc = sim_lock(act, row, true, WAITS);
	}
	return rc;
}

static int rules_raise(struct act *act)
{
	int rc = 0;

	for (size_t i = 0; i < COUNT_ARG(0) && rc == 0; i++) {
		struct row *row;

		if (!sim_shard(act, ITEM_ARG(0, i), &row))
			continue;
		rc = sim_lock(act, row, true, WAITS);
		if (rc == 0)
			sim_change(act, row)->n[SHARD_RULES]++;
	}
	return rc;
}

static int rules_tell(struct act *act)
{
	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		int32_t id = (int32_t)ITEM_ARG(0, i);
		const struct version *shard = sim_shard(act, id, NULL);

		if (shard && shard->s[SHARD_OWNER] && !sim_is_text(shard->s[SHARD_OWNER], TEXT_ARG(1)))
			sim_add_news(act->tx, id, &(struct hwts_due){ .id = HWTS_RULES_ID, .shard = id });
	}
	return 0;
}

/* The simulation removes no kind. */
static int rules_back(struct act *act)
{
	(void)act;
	return 0;
}

static int rules_there(struct act *act)
{
	if (sim_find(act, KIND, NUMBER_ARG(0), NULL))
		SIM_EMIT(act, 1);
	return 0;
}

/* Sets n numbers of the row of the kind ?1. */
static int rule_kind(struct act *act, int at, int n)
{
	struct row *row = NULL;
	int rc = sim_find(act, KIND, NUMBER_ARG(0), &row) ? sim_lock(act, row, true, WAITS) : 0;
	struct version *kind = rc == 0 && row ? sim_change(act, row) : NULL;

	for (int i = 0; i < n && kind; i++)
		kind->n[at + i] = NUMBER_ARG(1 + i);
	sim_note_rules(NUMBER_ARG(0), NULL);
	return rc;
}

static int pause_kind(struct act *act)
{
	return rule_kind(act, KIND_PAUSED, 1);
}

static int limit_kind(struct act *act)
{
	return rule_kind(act, KIND_RUNNING, 3);
}

/* ?1 is the bucket, ?2 the kind, ?3 the group. */
static bool is_group(const struct act *act, const struct version *group, size_t i)
{
	(void)i;
	return group->n[RULES_BUCKET] == NUMBER_ARG(0) && group->n[RULES_KIND] == NUMBER_ARG(1) &&
	       sim_is_text(group->s[RULES_NAME], TEXT_ARG(2));
}

static int rule_group(struct act *act, int at, int n)
{
	struct version *group;
	struct row *row;
	int rc;

	if (!sim_find(act, KIND, NUMBER_ARG(1), NULL))
		return 0;
	rc = sim_find_unique(act, RULES, is_group, 0, &row);
	if (rc == 0 && row)
		rc = sim_lock(act, row, true, WAITS);
	sim_note_rules(NUMBER_ARG(1), TEXT_ARG(2));
	if (rc != 0)
		return rc;
	group = row ? sim_change(act, row) : sim_insert(act, RULES);
	group->n[RULES_BUCKET] = NUMBER_ARG(0);
	group->n[RULES_KIND] = NUMBER_ARG(1);
	sim_set_text(group, RULES_NAME, TEXT_ARG(2)->bytes, TEXT_ARG(2)->len);
	for (int i = 0; i < n; i++)
		group->n[at + i] = HWTS_MAX(NUMBER_ARG(3 + i), 0);
	if (at == RULES_RUNNING)
		group->n[RULES_LIMITED] = NUMBER_ARG(3) >= 0;
	return 0;
}

static int pause_group(struct act *act)
{
	return rule_group(act, RULES_PAUSED, 1);
}

static int limit_group(struct act *act)
{
	return rule_group(act, RULES_RUNNING, 3);
}

static int tidy_group(struct act *act)
{
	int rc = 0;

	EACH_ROW(RULES, row)
	{
		const struct version *is = sim_see(act, row);

		if (!is || !is_group(act, is, 0) || is->n[RULES_PAUSED] || is->n[RULES_LIMITED])
			continue;
		rc = sim_lock(act, row, true, WAITS);
		is = rc == 0 ? sim_see_last(act, row) : NULL;
		if (is && !is->n[RULES_PAUSED] && !is->n[RULES_LIMITED])
			sim_remove(act, row);
	}
	return rc;
}

sim_statement *const sim_rules_statements[HWTS_SQLS] = {
	[HWTS_SQL_RULES] = rules,
	[HWTS_SQL_RULES_OWN] = rules_own,
	[HWTS_SQL_RULES_LOCK] = rules_lock,
	[HWTS_SQL_RULES_RAISE] = rules_raise,
	[HWTS_SQL_RULES_TELL] = rules_tell,
	[HWTS_SQL_RULES_BACK] = rules_back,
	[HWTS_SQL_RULES_THERE] = rules_there,
	[HWTS_SQL_PAUSE_KIND] = pause_kind,
	[HWTS_SQL_PAUSE_GROUP] = pause_group,
	[HWTS_SQL_LIMIT_KIND] = limit_kind,
	[HWTS_SQL_LIMIT_GROUP] = limit_group,
	[HWTS_SQL_TIDY_GROUP] = tidy_group,
};
