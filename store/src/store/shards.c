/* SPDX-License-Identifier: BSD-2-Clause */
/* The shards of the registered kinds. */
#include "store/asks.h"
#include "store/clock.h"
#include "store/shards.h"
#include "store/store.h"

struct hwts_shard *hwts_shard(hwt_store *store, int32_t shard, struct hwts_kind **out)
{
	HWTS_EACH_KIND (store, kind) {
		uint32_t number = (uint32_t)(shard % HWTS_SHARDS_MAX);

		if (kind->row.id != shard / HWTS_SHARDS_MAX || shard < 0)
			continue;
		if (out)
			*out = kind;
		return number < kind->row.shards ? &kind->shards[number] : NULL;
	}
	return NULL;
}

bool hwts_holds(hwt_store *store, int32_t id, int64_t epoch)
{
	const struct hwts_shard *shard = hwts_shard(store, id, NULL);

	return shard && shard->held && shard->epoch == epoch;
}

bool hwts_keeps(hwt_store *store, int32_t id)
{
	const struct hwts_shard *shard = hwts_shard(store, id, NULL);

	return shard && shard->held && !shard->giving;
}

void hwts_active(hwt_store *store, struct hwts_shard *shard)
{
	store->shards->active++;
	shard->active++;
}

void hwts_inactive(hwt_store *store, struct hwts_shard *shard)
{
	store->shards->active--;
	if (--shard->active == 0 && shard->giving)
		hwts_poke(store);
}

void hwts_read_again(hwt_store *store, struct hwts_shard *shard)
{
	shard->again_us = hwts_clock_db_us(store);
	shard->unread = shard->loading = true;
	shard->mark_due_us = shard->swept_due_us = INT64_MIN;
	shard->mark_id = 0;
}

void hwts_hold(hwt_store *store, const struct hwts_shard_row *taken)
{
	struct hwts_kind *kind;
	struct hwts_shard *shard = hwts_shard(store, taken->shard, &kind);

	store->shards->held += !shard->held;
	shard->held = true;
	shard->epoch = taken->epoch;
	hwts_read_again(store, shard);
	shard->rules = taken->rules;
	shard->unruled = taken->rules > 0 ? HWTS_NEW : HWTS_RULED;
	shard->runs_known = false;
	hwts_turns_taken(&kind->turns, (uint32_t)(shard - kind->shards), taken->empty, hwt_now());
	hwts_stall(store, kind, shard);
}

void hwts_stall(hwt_store *store, struct hwts_kind *kind, const struct hwts_shard *shard)
{
	hwts_turns_stall(&kind->turns, (uint32_t)(shard - kind->shards),
			 shard->held && shard->unruled == HWTS_CHANGED);
	hwts_wake(store, HWTS_BEGIN);
	hwts_wake(store, HWTS_READ);
}

void hwts_lose(hwt_store *store, struct hwts_shard *shard)
{
	struct hwts_kind *kind;

	store->shards->held -= shard->held;
	shard->held = shard->giving = false;
	if (hwts_shard(store, shard->id, &kind) != shard) /* a row is damaged, and two kinds have one id */
		return;
	hwts_turns_drop_rests(&kind->turns, shard->id);
	/* Rows of groups may have waited for the rests, or for rules: no thread reads those of a shard that is lost. */
	hwts_stall(store, kind, shard);
}

void hwts_shards_give(hwt_store *store)
{
	HWTS_EACH_SHARD (store, kind, shard)
		shard->giving = shard->held;
}

void hwts_shards_reset(hwt_store *store)
{
	HWTS_EACH_SHARD (store, kind, shard) {
		*shard = (struct hwts_shard){ .id = shard->id };
		hwts_stall(store, kind, shard);
	}
	store->shards->held = 0;
}

/* A shard that is read from the beginning counts only once a look should have come. */
void hwts_shards_waits(const hwt_store *store, const struct hwts_kind *kind, struct hwts_waits *waits)
{
	int64_t now_us = hwts_clock_db_us(store);

	for (uint32_t i = 0; i < kind->row.shards; i++) {
		const struct hwts_shard *shard = &kind->shards[i];
		bool is_new = shard->mark_due_us == INT64_MIN;

		if (shard->held &&
		    (is_new ? shard->again_us + store->config.lease_ns / 3000 : shard->mark_due_us) < now_us)
			hwts_waits_add(waits, shard->unruled == HWTS_NEW ? HWT_STORE_WAITS_RULES : HWT_STORE_WAITS_READ,
				       is_new ? shard->again_us : shard->mark_due_us, 0);
	}
}

unsigned hwts_shards_active(const hwt_store *store)
{
	return store->shards->active;
}

unsigned hwts_shards_held(const hwt_store *store)
{
	return store->shards->held;
}
