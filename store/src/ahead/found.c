/* SPDX-License-Identifier: BSD-2-Clause */
/* A look has been answered: its rows go into the window, and the marks move.  The caller holds store->lock. */
#include "ahead/ahead.h"
#include "store/ends.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

/* Makes a row FAILED: no process can account for its run.  False: no memory. */
static bool fail_lost(hwt_store *store, struct hwts_kind *kind, const struct hwts_due *due, const char *error)
{
	struct hwts_shard *shard = hwts_shard(store, due->shard, NULL);
	struct hwts_row *row = hwts_alloc(sizeof(*row));

	if (!row)
		return false;
	row->id = due->id;
	row->kind = kind;
	row->shard = due->shard;
	row->epoch = due->epoch;
	row->attempt = 1;
	row->bare = true;
	row->how = HWTS_FAIL;
	hwts_cut(row->error, sizeof(row->error), error, strlen(error));
	hwts_active(store, shard);
	hwts_end(store, row);
	return true;
}

/* Fails a run that is at most once: nobody knows how far it came, or the server has lost its end. */
static void fail(hwt_store *store, struct hwts_kind *kind, const struct hwts_due *due)
{
	struct hwts_entry *entry = hwts_window_condemn(store, due);

	if (entry && !fail_lost(store, kind, due, due->part == HWTS_RUNS ? "the database has lost its end" : HWTS_DIED))
		hwts_window_erase(entry);
}

static void see(hwt_store *store, struct hwts_look *look, const struct hwts_due *due)
{
	struct hwts_kind *kind = NULL;

	if (!hwts_shard(store, due->shard, &kind))
		return;
	if (due->epoch != 0 && kind->row.mode == HWT_STORE_AT_MOST_ONCE)
		fail(store, kind, due);
	else if (due->part <= HWTS_LATE)
		hwts_window_read(store, due, look->heard);
	else if (due->part == HWTS_OVERDUE)
		look->missed |= hwts_window_rescue(store, due);
	else
		look->missed |= hwts_window_revive(store, due);
}

/* Marks move first: rows beyond a mark would be left to the next look. */
void hwts_look_found(hwt_store *store, struct hwts_look *look)
{
	for (size_t i = 0; i < look->ahead_count; i++) {
		const struct hwts_held *held = &look->held[i];
		struct hwts_shard *shard = hwts_shard(store, held->shard, NULL);

		if (!shard || !shard->held || shard->epoch != held->epoch)
			continue;
		shard->mark_due_us = held->mark_due_us;
		shard->mark_id = held->mark_id;
		shard->unread |= held->full || held->part;
		shard->loading &= held->full || held->part;
	}
	for (size_t i = 0; i < look->held_count && look->sweeps && look->far; i++) {
		struct hwts_shard *shard = hwts_shard(store, look->held[i].shard, NULL);

		if (shard && shard->epoch == look->held[i].epoch) {
			shard->swept_due_us = look->held[i].swept_due_us;
			shard->swept_id = look->held[i].swept_id;
		}
	}
	for (size_t i = 0; i < look->due_count; i++)
		see(store, look, &look->dues[i]);
	store->reading->unread = false;
	HWTS_EACH_SHARD (store, kind, shard) {
		shard->reach_us = 0;
		store->reading->unread |= shard->held && shard->unread;
	}
}

void hwts_reader_go_on(hwt_store *store)
{
	store->reading->unread = true;
	hwts_wake(store, HWTS_READ);
}

void hwts_reader_reset(hwt_store *store)
{
	*store->reading = (struct hwts_reading){ .seen_us = 0 };
	HWTS_EACH_KIND (store, kind)
		kind->behind = kind->late = false;
}
