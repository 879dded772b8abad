/* SPDX-License-Identifier: BSD-2-Clause */
/* Gives shards away; share.c. */
#include "runs/begun.h"
#include "share/share.h"
#include "store/ability.h"
#include "store/clock.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

/*
 * The caller holds store->lock.  Rows that are active keep their shard here, with two exceptions: a process that is
 * unable to work does not wait for ends to be committed, and one that abandons its shards waits for no row.  There
 * the new epoch of the shard refuses the ends.
 */
static bool may_give(const hwt_store *store, const struct hwts_shard *shard)
{
	return shard->giving &&
	       (store->share->abandons || shard->active - (hwts_ability_lacks(store) ? shard->ending : 0) == 0);
}

/* The caller holds store->lock. */
static struct hwts_shard_row given(hwt_store *store, struct hwts_kind *kind, const struct hwts_shard *shard)
{
	struct hwts_shard_row row = { .shard = shard->id, .epoch = shard->epoch };

	row.unread = shard->unruled == HWTS_NEW;
	row.levels = hwts_turns_levels(&kind->turns, (uint32_t)(shard - kind->shards), hwt_now(),
				       hwts_clock_latest_us(store), &row.levels_len);
	return row;
}

/* Gives the marked shards in which no row runs.  A shard that could not be given stays marked. */
void hwts_share_give(hwt_store *store)
{
	struct hwts_shard_row *rows = NULL;
	size_t room = 0, count = 0, lack = 0;

	hwts_lock(store);
	HWTS_EACH_SHARD (store, kind, shard)
		room += may_give(store, shard);
	if (room > 0)
		rows = hwts_alloc(room * sizeof(*rows));
	HWTS_EACH_SHARD (store, kind, shard)
		if (rows && may_give(store, shard))
			rows[count++] = given(store, kind, shard);
	hwts_unlock(store);
	if (count > 0 && hwts_rows_give(hwts_conn(store, HWTS_CONTROL), rows, count) == 0) {
		hwts_lock(store);
		for (size_t i = 0; i < count; i++) {
			hwts_lose(store, hwts_shard(store, rows[i].shard, NULL));
			lack += !rows[i].levels && !rows[i].unread;
		}
		hwts_give_back_queued(store, false);
		hwts_unlock(store);
		hwts_window_drop_lost(store);
		(void)store->engine->listen(hwts_conn(store, HWTS_CONTROL), rows, count, false);
		if (lack > 0)
			hwts_warn(store,
				  "%zu shards are given without the tokens of their groups, which are too many: where"
				  " they are taken next each group begins without a token",
				  lack);
	}
	for (size_t i = 0; i < count; i++)
		free(rows[i].levels);
	free(rows);
}
