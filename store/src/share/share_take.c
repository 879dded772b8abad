/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes free shards, which share.c has chosen.  Called by control, or by a start before control exists. */
#include "ahead/ahead.h"
#include "share/share.h"
#include "store/shards.h"
#include "store/store.h"

/* The caller holds store->lock. */
static void hold(hwt_store *store, struct hwts_shard *shard, const struct hwts_shard_row *taken)
{
	hwts_hold(store, taken);
	shard->giving = hwts_phase(store) == HWTS_STOPPING; /* a stop may come between the decision and the take */
	hwts_reader_go_on(store);
}

/*
 * The row of a shard may stay locked after its owner's lease, by a process of the store that stands still amid an
 * exchange.  Ends the server's side of that process's connection.
 */
static void unblock(hwt_store *store, const struct hwts_shard_row *skipped, size_t n)
{
	const int64_t most_ns = store->config.lease_ns + HWT_S(1);
	int32_t id = 0;

	hwts_lock(store);
	for (size_t i = 0; i < n && id == 0; i++) {
		struct hwts_shard *shard = hwts_shard(store, skipped[i].shard, NULL);

		if (!shard || hwt_now() - shard->locked_ns < most_ns)
			continue;
		shard->locked_ns = hwt_now(); /* the lock may be a user's: asks again after most_ns */
		id = shard->id;
	}
	hwts_unlock(store);
	if (id != 0 && store->engine->unblock(hwts_conn(store, HWTS_CONTROL), true, id, most_ns) > 0)
		hwts_warn(store, "a process that stands still, or is cut off, kept shards locked: the server has ended "
				 "its connection");
}

int hwts_share_take(hwt_store *store, struct hwts_shard_row *take, size_t *count)
{
	/* Listens first, then takes, then reads: no news in between is missed. */
	int rc = store->engine->listen(hwts_conn(store, HWTS_CONTROL), take, *count, true);
	size_t skipped = 0;

	HWTS_POINT("take");
	if (rc == 0)
		rc = hwts_rows_take(hwts_conn(store, HWTS_CONTROL), take, *count);
	store->share->again_ns = hwt_now() + HWTS_TAKE_AGAIN_NS;
	if (rc != 0)
		return rc;
	hwts_lock(store);
	for (size_t i = 0; i < *count; i++) {
		struct hwts_shard *shard = hwts_shard(store, take[i].shard, NULL);

		if (shard)
			shard->locked_ns = !take[i].skipped ? 0 : shard->locked_ns ? shard->locked_ns : hwt_now();
		if (take[i].skipped) {
			take[skipped++] = take[i];
		} else if (shard && take[i].epoch != 0) {
			hold(store, shard, &take[i]);
			/* A shard without an owner has left_us 0. */
			HWTS_TALLY(store, taken_over, take[i].left_us != 0 && !take[i].mine);
		}
	}
	hwts_unlock(store);
	*count = skipped;
	unblock(store, take, skipped);
	return 0;
}

int64_t hwts_share_again_ns(const hwt_store *store)
{
	return store->share->skipped_count > 0 ? store->share->again_ns : INT64_MAX;
}

void hwts_share_take_again(hwt_store *store)
{
	struct hwts_share *share = store->share;

	if (hwt_now() < hwts_share_again_ns(store))
		return;
	hwts_lock(store);
	if (hwts_phase(store) != HWTS_STARTED)
		share->skipped_count = 0;
	hwts_unlock(store);
	if (share->skipped_count > 0 && hwts_share_take(store, share->skipped, &share->skipped_count) != 0)
		share->skipped_count = 0; /* the next renewal decides again */
}
