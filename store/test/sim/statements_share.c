/* SPDX-License-Identifier: BSD-2-Clause */
/* Statements about kinds, members, shards and looks; tables.h.  store/sql/ says what they mean. */
#include "statements.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Kinds
 */

static const struct version *kind_of_name(struct act *act, const struct hwts_value *name)
{
	EACH_SEEN (act, KIND, kind)
		if (sim_is_text(kind->s[KIND_NAME], name))
			return kind;
	return NULL;
}

static int kind(struct act *act)
{
	const struct version *is = kind_of_name(act, TEXT_ARG(0));

	if (is)
		SIM_EMIT(act, is->n[KIND_ID], is->n[KIND_SHARDS], is->n[KIND_MODE], is->n[KIND_HORIZON], 0);
	return 0;
}

static int lock_advisory(struct act *act, int64_t which, bool exclusive)
{
	struct row *row = NULL;

	(void)sim_find(act, ADVISORY, which, &row);
	return sim_lock(act, row, exclusive, WAITS);
}

static int kind_lock(struct act *act)
{
	return lock_advisory(act, ADVISORY_KIND, true);
}

static int kind_share(struct act *act)
{
	return lock_advisory(act, ADVISORY_KIND, false);
}

static int kind_making(struct act *act)
{
	return lock_advisory(act, ADVISORY_MAKE, true);
}

static int flush(struct act *act)
{
	act->tx->synced = true;
	return 0;
}

/* i: the id that the kind would have; 0: any. */
static bool is_kind(const struct act *act, const struct version *kind, size_t i)
{
	return kind->n[KIND_ID] == (int64_t)i || sim_is_text(kind->s[KIND_NAME], TEXT_ARG(0));
}

static int kind_make(struct act *act)
{
	int64_t most = 0;
	struct version *made;
	struct row *taken;
	int rc;

	EACH_SEEN (act, KIND, is)
		most = HWTS_MAX(most, is->n[KIND_ID]);
	rc = sim_find_unique(act, KIND, is_kind, 0, &taken); /* ON CONFLICT names the name alone */
	if (rc == 0 && !taken)
		rc = sim_find_unique(act, KIND, is_kind, (size_t)most + 1, &taken);
	if (rc != 0 || taken)
		return rc;
	made = sim_insert(act, KIND);
	made->n[KIND_ID] = most + 1;
	made->n[KIND_SHARDS] = NUMBER_ARG(1);
	made->n[KIND_MODE] = NUMBER_ARG(2);
	made->n[KIND_HORIZON] = NUMBER_ARG(3);
	sim_set_text(made, KIND_NAME, TEXT_ARG(0)->bytes, TEXT_ARG(0)->len);
	return 0;
}

static int kind_open(struct act *act)
{
	EACH_ROW(KIND, row)
	{
		const struct version *is = sim_see(act, row);
		struct version *changed;
		int rc;

		if (!is || !sim_is_text(is->s[KIND_NAME], TEXT_ARG(0)) || is->n[KIND_MODE] >= 0 || NUMBER_ARG(1) < 0)
			continue;
		rc = sim_lock(act, row, true, WAITS);
		if (rc != 0)
			return rc;
		changed = sim_change(act, row);
		changed->n[KIND_MODE] = NUMBER_ARG(1);
		changed->n[KIND_HORIZON] = NUMBER_ARG(2);
	}
	return 0;
}

static bool is_shard(const struct act *act, const struct version *shard, size_t id)
{
	(void)act;
	return shard->n[SHARD_ID] == (int64_t)id;
}

static int kind_shards(struct act *act)
{
	const struct version *is = kind_of_name(act, TEXT_ARG(0));
	int rc = 0;

	for (int64_t i = 0; is && i < is->n[KIND_SHARDS] && rc == 0; i++) {
		int64_t id = is->n[KIND_ID] * HWTS_SHARDS_MAX + i;
		struct version *made;
		struct row *row;

		rc = sim_find_unique(act, SHARD, is_shard, (size_t)id, &row);
		if (rc != 0 || row)
			continue;
		made = sim_insert(act, SHARD);
		made->n[SHARD_ID] = id;
		made->n[SHARD_KIND] = is->n[KIND_ID];
	}
	return rc;
}

static int store(struct act *act)
{
	const struct version *meta = sim_see(act, sim_server.rows[META]),
			     *is = TEXT_ARG(0)->bytes ? kind_of_name(act, TEXT_ARG(0)) : NULL;
	struct hwts_value values[3] = { HWTS_BYTES(meta->s[META_STORE]->bytes, meta->s[META_STORE]->len),
					HWTS_NUMBER(is ? is->n[KIND_ID] : 0), HWTS_NUMBER(0) };

	sim_emit(act, values, 3);
	return 0;
}

static int draw(struct act *act)
{
	struct row *row = sim_server.rows[META];
	int64_t count = NUMBER_ARG(0), most = INT64_C(4398046511104) - count, least;
	struct version *meta;
	int rc = sim_see(act, row)->n[META_NEXT] <= most ? sim_lock(act, row, true, WAITS) : 0;

	if (rc != 0 || row->newest->n[META_NEXT] > most)
		return rc;
	least = HWTS_MIN((act->now_us - INT64_C(1767225600000000)) / 250, INT64_C(3298534883328));
	meta = sim_change(act, row);
	meta->n[META_NEXT] = HWTS_MAX(meta->n[META_NEXT], least) + count;
	SIM_EMIT(act, meta->n[META_NEXT] - count);
	return 0;
}

/*
 * Members
 */

static struct row *member_row(struct act *act, const struct hwts_value *name)
{
	EACH_ROW(MEMBER, row)
	{
		const struct version *is = sim_see(act, row);

		if (is && sim_is_text(is->s[MEMBER_NAME], name))
			return row;
	}
	return NULL;
}

/* Locks the member's row, if it fits before and after; NULL: there is no such row. */
static int claim_member(struct act *act, is_for *fits, struct row **out)
{
	struct row *row = member_row(act, TEXT_ARG(0));
	const struct version *last;
	int rc;

	*out = NULL;
	if (!row || !fits(act, sim_see(act, row)))
		return 0;
	rc = sim_lock(act, row, true, WAITS);
	last = rc == 0 ? sim_see_last(act, row) : NULL;
	if (last && fits(act, last))
		*out = row;
	return rc;
}

static bool is_member(const struct act *act, const struct version *member, size_t i)
{
	(void)i;
	return sim_is_text(member->s[MEMBER_NAME], TEXT_ARG(0));
}

static int join(struct act *act)
{
	struct row *row;
	struct version *member;
	int rc = sim_find_unique(act, MEMBER, is_member, 0, &row);

	if (rc == 0 && row)
		rc = sim_lock(act, row, true, WAITS);
	if (rc != 0)
		return rc;
	if (row && row->newest->n[MEMBER_INCARNATION] != NUMBER_ARG(4) &&
	    row->newest->n[MEMBER_INCARNATION] != NUMBER_ARG(1) && sim_is_live(act, row->newest->n[MEMBER_UNTIL]))
		return 0;
	member = row ? sim_change(act, row) : sim_insert(act, MEMBER);
	member->n[MEMBER_INCARNATION] = NUMBER_ARG(1);
	member->n[MEMBER_UNTIL] = act->now_us + NUMBER_ARG(2);
	sim_set_text(member, MEMBER_NAME, TEXT_ARG(0)->bytes, TEXT_ARG(0)->len);
	sim_set_text(member, MEMBER_KINDS, TEXT_ARG(3)->bytes, TEXT_ARG(3)->len * sizeof(int64_t));
	sim_set_text(member, MEMBER_WAITS, NULL, 0);
	sim_set_text(member, MEMBER_STARTS, NULL, 0);
	member->n[MEMBER_WAITS_US] = 0;
	SIM_EMIT(act, 1);
	return 0;
}

static int namesake(struct act *act)
{
	struct row *row = member_row(act, TEXT_ARG(0));
	const struct version *is = row ? sim_see(act, row) : NULL;

	if (is)
		SIM_EMIT(act, is->n[MEMBER_INCARNATION], is->n[MEMBER_UNTIL], is->n[MEMBER_UNTIL] - act->now_us);
	return 0;
}

static bool leaves(struct act *act, const struct version *member)
{
	return member->n[MEMBER_INCARNATION] == NUMBER_ARG(1);
}

static int leave(struct act *act)
{
	struct row *row;
	int rc = claim_member(act, leaves, &row);

	if (row)
		sim_remove(act, row);
	return rc;
}

static bool is_long_over(const struct act *act, const struct version *member)
{
	return member->n[MEMBER_UNTIL] < act->now_us - INT64_C(600000000) ||
	       member->n[MEMBER_UNTIL] > act->now_us + INT64_C(3600000000);
}

static int bury(struct act *act)
{
	EACH_ROW(MEMBER, row)
	{
		const struct version *is = sim_see(act, row);
		int rc;

		if (!is || !is_long_over(act, is))
			continue;
		rc = sim_lock(act, row, true, SKIPS);
		if (rc == EBUSY)
			continue;
		if (rc != 0)
			return rc;
		is = sim_see_last(act, row);
		if (is && is_long_over(act, is))
			sim_remove(act, row);
	}
	return 0;
}

static int call(struct act *act)
{
	sim_add_news(act->tx, -1, &(struct hwts_due){ .id = 0 });
	return 0;
}

static bool handles(const struct version *member, int64_t kind)
{
	const struct text *kinds = member->s[MEMBER_KINDS];

	for (size_t i = 0; kinds && i < kinds->len / sizeof(int64_t); i++) {
		int64_t is;

		memcpy(&is, kinds->bytes + i * sizeof(is), sizeof(is));
		if (is == kind)
			return true;
	}
	return false;
}

static int members(struct act *act)
{
	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		int64_t count = 0;

		EACH_SEEN (act, MEMBER, is)
			count += sim_is_live(act, is->n[MEMBER_UNTIL]) && handles(is, ITEM_ARG(0, i));
		SIM_EMIT(act, ITEM_ARG(0, i), count);
	}
	return 0;
}

static const struct version *owner_of(struct act *act, const struct version *shard)
{
	const struct text *owner = shard->s[SHARD_OWNER];
	struct row *row = owner ? member_row(act, &(struct hwts_value)HWTS_BYTES(owner->bytes, owner->len)) : NULL;

	return row ? sim_see(act, row) : NULL;
}

static void emit_shard(struct act *act, const struct version *shard)
{
	const struct version *owner = owner_of(act, shard);

	SIM_EMIT(act, shard->n[SHARD_ID], shard->n[SHARD_EPOCH], sim_is_text(shard->s[SHARD_OWNER], TEXT_ARG(1)),
		 !owner || !sim_is_live(act, owner->n[MEMBER_UNTIL]), owner ? owner->n[MEMBER_UNTIL] - act->now_us : 0,
		 shard->n[SHARD_RULES]);
}

static int shards(struct act *act)
{
	for (size_t i = 0; i < COUNT_ARG(0); i++)
		EACH_SEEN (act, SHARD, is)
			if (is->n[SHARD_KIND] == ITEM_ARG(0, i))
				emit_shard(act, is);
	return 0;
}

static bool may_renew(struct act *act, const struct version *member)
{
	return member->n[MEMBER_INCARNATION] == NUMBER_ARG(2) && sim_is_live(act, member->n[MEMBER_UNTIL]);
}

static int renew(struct act *act)
{
	struct row *row;
	int rc = claim_member(act, may_renew, &row);

	act->tx->synced = true;
	if (row) {
		struct version *member = sim_change(act, row);

		member->n[MEMBER_UNTIL] = act->now_us + NUMBER_ARG(1);
		sim_set_text(member, MEMBER_KINDS, TEXT_ARG(3)->bytes, TEXT_ARG(3)->len * sizeof(int64_t));
		if ((TEXT_ARG(4)->bytes || member->s[MEMBER_WAITS]) &&
		    !sim_is_text(member->s[MEMBER_WAITS], TEXT_ARG(4)))
			member->n[MEMBER_WAITS_US] = act->now_us;
		sim_set_text(member, MEMBER_WAITS, TEXT_ARG(4)->bytes, TEXT_ARG(4)->len);
		sim_set_text(member, MEMBER_STARTS, TEXT_ARG(5)->bytes, TEXT_ARG(5)->len);
		SIM_EMIT(act, 1);
	}
	return rc;
}

/* A text that the library may have written. */
static struct hwts_value told_value(const struct text *text)
{
	return sim_text_value(text && text->len <= HWTS_WAITS_MAX ? text : NULL);
}

static int waits(struct act *act)
{
	EACH_SEEN (act, MEMBER, is) {
		struct hwts_value values[] = { HWTS_NUMBER(is->n[MEMBER_WAITS_US]), told_value(is->s[MEMBER_WAITS]),
					       told_value(is->s[MEMBER_STARTS]) };

		if ((is->s[MEMBER_WAITS] || is->s[MEMBER_STARTS]) && sim_is_live(act, is->n[MEMBER_UNTIL]))
			sim_emit(act, values, 3);
	}
	return 0;
}

static bool owns_one(struct act *act, const struct version *member)
{
	const struct text *name = member->s[MEMBER_NAME];

	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		const struct version *shard = sim_shard(act, ITEM_ARG(0, i), NULL);

		if (shard && sim_is_text(shard->s[SHARD_OWNER], &(struct hwts_value)HWTS_BYTES(name->bytes, name->len)))
			return true;
	}
	return false;
}

static int over(struct act *act)
{
	EACH_ROW(MEMBER, row)
	{
		const struct version *is = sim_see(act, row);
		int rc;

		if (!is || is->n[MEMBER_UNTIL] == 0 || sim_is_live(act, is->n[MEMBER_UNTIL]) || !owns_one(act, is))
			continue;
		rc = sim_lock(act, row, true, SKIPS);
		if (rc == EBUSY)
			continue;
		if (rc != 0)
			return rc;
		is = sim_see_last(act, row);
		if (is && is->n[MEMBER_UNTIL] != 0 && !sim_is_live(act, is->n[MEMBER_UNTIL]))
			sim_change(act, row)->n[MEMBER_UNTIL] = 0;
	}
	return 0;
}

static bool can_take(struct act *act, const struct version *shard)
{
	const struct version *owner;

	if (!shard || shard->n[SHARD_EPOCH] != NUMBER_ARG(1))
		return false;
	owner = owner_of(act, shard);
	return !shard->s[SHARD_OWNER] || sim_is_text(shard->s[SHARD_OWNER], TEXT_ARG(2)) || !owner ||
	       owner->n[MEMBER_UNTIL] == 0;
}

/* Returns the shard if the statement sees it under its epoch: with the new epoch, or 0 if it was not taken. */
static int take(struct act *act)
{
	struct row *row = NULL;
	const struct version *seen = sim_shard(act, NUMBER_ARG(0), &row);
	struct version *shard;
	int rc;

	if (!seen || seen->n[SHARD_EPOCH] != NUMBER_ARG(1))
		return 0;
	rc = can_take(act, seen) ? sim_lock(act, row, true, SKIPS) : EBUSY;
	if (rc != 0 && rc != EBUSY)
		return rc;
	if (rc == EBUSY || !can_take(act, sim_see_last(act, row))) {
		SIM_EMIT(act, seen->n[SHARD_ID], 0, 0, 0);
		return 0;
	}
	shard = sim_change(act, row);
	shard->n[SHARD_EPOCH]++;
	if (shard->s[SHARD_OWNER])
		sim_set_text(shard, SHARD_LEVELS, NULL, 0);
	sim_set_text(shard, SHARD_OWNER, TEXT_ARG(2)->bytes, TEXT_ARG(2)->len);
	SIM_EMIT(act, shard->n[SHARD_ID], shard->n[SHARD_EPOCH], shard->n[SHARD_RULES],
		 shard->n[SHARD_EPOCH] > 1 && !shard->s[SHARD_LEVELS]);
	return 0;
}

static bool can_give(const struct act *act, const struct version *shard)
{
	return shard && shard->n[SHARD_EPOCH] == NUMBER_ARG(1) && sim_is_text(shard->s[SHARD_OWNER], TEXT_ARG(2));
}

static int give(struct act *act)
{
	struct row *row = NULL;
	int rc;

	if (!can_give(act, sim_shard(act, NUMBER_ARG(0), &row)))
		return 0;
	rc = sim_lock(act, row, true, SKIPS);
	if (rc == EBUSY)
		return 0;
	if (rc == 0 && can_give(act, sim_see_last(act, row))) {
		struct version *shard = sim_change(act, row);

		sim_set_text(shard, SHARD_OWNER, NULL, 0);
		if (!NUMBER_ARG(4))
			sim_set_text(shard, SHARD_LEVELS, TEXT_ARG(3)->bytes, TEXT_ARG(3)->len);
	}
	return rc;
}

static int clock_now(struct act *act)
{
	SIM_EMIT(act, act->now_us, 0);
	return 0;
}

static int here(struct act *act)
{
	const struct version *meta = sim_see(act, sim_server.rows[META]);

	if (sim_is_text(meta->s[META_STORE], TEXT_ARG(0)))
		SIM_EMIT(act, 1);
	return 0;
}

sim_statement *const sim_share_statements[HWTS_SQLS] = {
	[HWTS_SQL_KIND] = kind,
	[HWTS_SQL_KIND_LOCK] = kind_lock,
	[HWTS_SQL_KIND_SHARE] = kind_share,
	[HWTS_SQL_KIND_MAKING] = kind_making,
	[HWTS_SQL_FLUSH] = flush,
	[HWTS_SQL_KIND_GROUPS] = flush,
	[HWTS_SQL_KIND_MAKE] = kind_make,
	[HWTS_SQL_KIND_OPEN] = kind_open,
	[HWTS_SQL_KIND_SHARDS] = kind_shards,
	[HWTS_SQL_JOIN] = join,
	[HWTS_SQL_LEAVE] = leave,
	[HWTS_SQL_BURY] = bury,
	[HWTS_SQL_CALL] = call,
	[HWTS_SQL_RENEW] = renew,
	[HWTS_SQL_WAITS] = waits,
	[HWTS_SQL_MEMBERS] = members,
	[HWTS_SQL_SHARDS] = shards,
	[HWTS_SQL_CLOCK] = clock_now,
	[HWTS_SQL_OVER] = over,
	[HWTS_SQL_TAKE] = take,
	[HWTS_SQL_GIVE] = give,
	[HWTS_SQL_DRAW] = draw,
	[HWTS_SQL_NAMESAKE] = namesake,
	[HWTS_SQL_STORE] = store,
	[HWTS_SQL_HERE] = here,
};
