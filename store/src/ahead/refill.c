/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups of which the window has not kept all: what they begin next is read through the index by group.
 *
 * A rest is read as far as its shard's mark, for a look comes to what lies beyond.  A page is half of what is kept of a
 * group, so the next one is read while that runs.  No timer of the window knows when a rest is due, so the reader wakes
 * then: it may go before all that is kept.
 */
#include "ahead/ahead.h"
#include "store/clock.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

bool hwts_refill_wanted(hwt_store *store)
{
	size_t share = hwts_window_share(store);
	bool wanted = false;

	HWTS_EACH_KIND (store, kind) {
		if (!kind->turns.rests)
			continue;
		kind->turns.now_us = hwts_clock_db_us(store);
		wanted |= hwts_turns_wanted(&kind->turns, NULL, share) != NULL;
	}
	return wanted;
}

int64_t hwts_refill_us(hwt_store *store)
{
	int64_t now_us = hwts_clock_db_us(store), due_us = HWTS_NEVER;

	HWTS_EACH_KIND (store, kind)
		due_us = HWTS_MIN(due_us, hwts_turns_rest_us(&kind->turns, now_us));
	return due_us;
}

static struct hwts_refill refill_of(const hwt_store *store, const struct hwts_kind *kind, const struct hwts_rest *rest,
				    const struct hwts_shard *shard)
{
	const struct hwts_turn_group *group = rest->turn.group;
	size_t most = hwts_turns_share(&kind->turns, group, hwts_window_share(store)) / 2;
	struct hwts_refill refill = { .shard = rest->shard,
				      .epoch = shard->epoch,
				      .bucket = group->bucket,
				      .priority = rest->turn.priority,
				      .group_len = group->len,
				      .from = { rest->asked.due_us, rest->asked.id - 1 },
				      .to = { shard->mark_due_us, shard->mark_id } };

	/* What has no group has a rest in each shard. */
	refill.page = HWTS_MAX(most / (group->len > 0 ? 1 : kind->row.shards), 1);
	memcpy(refill.group, hwts_turn_name(group), group->len);
	return refill;
}

static size_t collect(hwt_store *store, struct hwts_refill *refills)
{
	size_t share = hwts_window_share(store), n = 0;

	HWTS_EACH_KIND (store, kind) {
		struct hwts_rest *rest;

		while (n < HWTS_REFILLS && (rest = hwts_turns_wanted(&kind->turns, NULL, share)) != NULL) {
			hwts_rest_ask(rest);
			refills[n++] = refill_of(store, kind, rest, hwts_shard(store, rest->shard, NULL));
		}
	}
	return n;
}

/* The rest that was asked for; NULL: it went with its shard. */
static struct hwts_rest *find(struct hwts_kind *kind, const struct hwts_refill *refill)
{
	struct hwts_rest *rest = kind->turns.rests;

	while (rest && !(rest->shard == refill->shard && rest->turn.priority == refill->priority &&
			 rest->turn.group->len == refill->group_len &&
			 memcmp(hwts_turn_name(rest->turn.group), refill->group, refill->group_len) == 0))
		rest = rest->next;
	return rest && rest->asked.due_us != HWTS_NEVER ? rest : NULL;
}

static struct hwts_place end_of(const struct hwts_refill *refill, bool ok)
{
	if (ok && refill->count < refill->page)
		return (struct hwts_place){ .due_us = HWTS_NEVER };
	return (struct hwts_place){ refill->from.due_us, refill->from.id + 1 };
}

static void apply(hwt_store *store, const struct hwts_refill *refill, bool ok)
{
	struct hwts_kind *kind;
	const struct hwts_shard *shard = hwts_shard(store, refill->shard, &kind);
	struct hwts_rest *rest = shard->held && shard->epoch == refill->epoch ? find(kind, refill) : NULL;

	if (!rest)
		return;
	for (size_t i = 0; i < refill->count; i++)
		hwts_window_refill(store, &refill->dues[i]);
	hwts_rest_read(&kind->turns, rest, end_of(refill, ok), hwt_now());
	hwts_wake(store, HWTS_BEGIN);
}

int hwts_refill_read(hwt_store *store, struct hwts_conn *conn)
{
	struct hwts_refill refills[HWTS_REFILLS];
	size_t n;
	int rc;

	hwts_lock(store);
	n = collect(store, refills);
	hwts_unlock(store);
	rc = n > 0 ? hwts_rows_refill(conn, refills, n) : 0;
	HWTS_POINT("refilled");
	hwts_lock(store);
	for (size_t i = 0; i < n; i++) {
		apply(store, &refills[i], rc == 0);
		free(refills[i].dues);
	}
	hwts_unlock(store);
	return rc;
}
