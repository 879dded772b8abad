/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Refills: the next rows of groups of which the window has not kept all, read through the index by group.
 *
 * A rest is read up to the mark of its shard, since a look comes to the rows beyond.  Rows that are due soon are read
 * in any case: the mark may stand still, or the shard may be read again.  A page is half of a group's share, so the
 * next page is read while the first half runs.
 *
 * No timer of the window is set for a rest, so the reader wakes when a rest is due: its first row may go before all
 * that the window keeps.
 */
#include "ahead/ahead.h"
#include "store/clock.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

bool hwts_refill_wanted(hwt_store *store)
{
	bool wanted = false;

	HWTS_EACH_KIND (store, kind) {
		if (!kind->turns.rests)
			continue;
		hwts_turns_at(&kind->turns, hwts_clock_db_us(store));
		wanted |= hwts_turns_wanted(&kind->turns, hwts_window_share(store)) != NULL;
	}
	return wanted;
}

int64_t hwts_refill_us(hwt_store *store)
{
	int64_t due_us = HWTS_NEVER;

	HWTS_EACH_KIND (store, kind)
		due_us = HWTS_MIN(due_us, hwts_turns_rest_us(&kind->turns));
	return due_us;
}

static struct hwts_refill refill_of(hwt_store *store, const struct hwts_kind *kind, const struct hwts_rest *rest)
{
	const struct hwts_turn_group *group = rest->turn.group;
	const struct hwts_shard *shard = hwts_shard(store, rest->rests->shard, NULL);
	int64_t soon_us = kind->turns.now_us + hwts_window_soon_us(store, kind);
	struct hwts_refill refill = { .shard = shard->id,
				      .epoch = shard->epoch,
				      .bucket = group->bucket,
				      .priority = rest->priority,
				      .group_len = group->len,
				      .from = { rest->from.due_us, rest->from.id - 1 },
				      .to = { shard->mark_due_us, shard->mark_id },
				      .page = hwts_rest_page(&kind->turns, rest, hwts_window_share(store)),
				      .heard = hwts_window_number(store) };

	if (soon_us > shard->mark_due_us)
		refill.to = (struct hwts_place){ soon_us, INT64_MAX };
	memcpy(refill.group, hwts_turn_name(group), group->len);
	return refill;
}

static size_t collect(hwt_store *store, struct hwts_rest **rests, struct hwts_refill *refills)
{
	size_t n = 0;

	HWTS_EACH_KIND (store, kind)
		while (n < HWTS_REFILLS &&
		       (rests[n] = hwts_turns_wanted(&kind->turns, hwts_window_share(store))) != NULL) {
			refills[n] = refill_of(store, kind, rests[n]);
			hwts_rest_ask(rests[n++]);
		}
	return n;
}

/* Returns the place up to which the rest has been read and kept. */
static struct hwts_place keep(hwt_store *store, const struct hwts_rest *rest, const struct hwts_refill *refill, bool ok)
{
	for (size_t i = 0; i < refill->count; i++)
		if (!hwts_window_refill(store, rest, &refill->dues[i], refill->heard))
			return (struct hwts_place){ refill->dues[i].due_us, refill->dues[i].id };
	if (ok && refill->count < refill->page)
		return (struct hwts_place){ .due_us = HWTS_NEVER };
	return (struct hwts_place){ refill->from.due_us, refill->from.id + 1 };
}

/* A rest that is being read is not freed while its shard is held. */
static void apply(hwt_store *store, struct hwts_rest *rest, const struct hwts_refill *refill, bool ok)
{
	struct hwts_kind *kind;

	hwts_lock(store);
	if (hwts_holds(store, refill->shard, refill->epoch)) {
		(void)hwts_shard(store, refill->shard, &kind);
		hwts_turns_at(&kind->turns, hwts_clock_db_us(store));
		hwts_rest_read(&kind->turns, rest, keep(store, rest, refill, ok));
		hwts_wake(store, HWTS_BEGIN);
	}
	hwts_unlock(store);
}

int hwts_refill_read(hwt_store *store, struct hwts_conn *conn)
{
	struct hwts_rest *rests[HWTS_REFILLS];
	struct hwts_refill refills[HWTS_REFILLS];
	size_t n;
	int rc;

	hwts_lock(store);
	n = collect(store, rests, refills);
	hwts_unlock(store);
	rc = n > 0 ? hwts_rows_refill(conn, refills, n) : 0;
	HWTS_POINT("refilled");
	for (size_t i = 0; i < n; i++) {
		apply(store, rests[i], &refills[i], rc == 0);
		free(refills[i].dues);
	}
	return rc;
}
