/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing the window; dropping entries that wait. */
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

#define FIRST_BUCKETS 1024
#define SLABS_AT_ONCE 16 /* how many are searched before the lock is released for a moment */

int hwts_window_open(hwt_store *store)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;
	int rc;

	config.tick_duration_ns = store->config.tick_ns;
	config.ticks_per_wheel = 8192;
	config.thread_name = "hwt-store";
	config.warn = NULL;
	store->window->buckets = hwts_alloc(FIRST_BUCKETS * sizeof(*store->window->buckets));
	if (!store->window->buckets)
		return ENOMEM;
	store->window->bucket_count = FIRST_BUCKETS;
	rc = hwt_timer_create(&timer, &config);
	if (rc == 0)
		rc = hwt_timer_start(timer);
	if (rc != 0) {
		(void)hwts_fail_errno(rc, "the timer");
		if (timer)
			(void)hwt_timer_destroy(timer);
		hwts_window_close(store);
		return rc;
	}
	hwts_lock(store);
	store->window->timer = timer;
	hwts_unlock(store);
	return 0;
}

void hwts_window_close(hwt_store *store)
{
	struct hwts_window window;

	hwts_lock(store);
	window = *store->window;
	store->window->timer = NULL; /* from here on no entry is armed */
	hwts_unlock(store);
	if (window.timer)
		(void)hwt_timer_destroy(window.timer); /* a task of the timer may be waiting for store->lock */
	hwts_lock(store);
	*store->window = (struct hwts_window){ .timer = NULL };
	HWTS_EACH_KIND (store, kind) {
		hwts_turns_clear(&kind->turns);
		kind->entries = kind->told = 0;
	}
	hwts_unlock(store);
	for (struct hwts_slab *slab = window.slabs, *next; slab; slab = next) {
		next = slab->next;
		free(slab);
	}
	free(window.buckets);
}

/* The caller holds store->lock. */
static void drop_lost(hwt_store *store, struct hwts_slab *slab)
{
	for (size_t i = 0; i < HWTS_SLAB_ENTRIES; i++) {
		struct hwts_entry *entry = &slab->entries[i];
		const struct hwts_shard *shard;

		if (entry->state != HWTS_ARMED && entry->state != HWTS_IS_DUE)
			continue;
		shard = hwts_shard(store, entry->shard, NULL);
		if (shard && shard->held)
			continue;
		if (entry->state == HWTS_IS_DUE)
			hwts_turns_remove(&entry->kind->turns, &entry->turn);
		hwts_window_erase(entry);
	}
}

/*
 * Drops what waits in shards that are not held.  BEGUN entries stay until their end is committed.  IS_DUE entries go
 * now: by the time the shard is taken again, their group may be paused or have other rules.
 *
 * Releasing the lock between slabs is safe: slabs do not move, and new entries are of shards that are held.
 */
void hwts_window_drop_lost(hwt_store *store)
{
	struct hwts_slab *slab;

	hwts_lock(store);
	slab = store->window->slabs;
	hwts_unlock(store);
	while (slab) {
		hwts_lock(store);
		for (unsigned i = 0; i < SLABS_AT_ONCE && slab; i++, slab = slab->next)
			drop_lost(store, slab);
		hwts_unlock(store);
	}
	hwts_lock(store);
	store->window->look_ns = 0; /* entries that were counted are gone */
	hwts_unlock(store);
	HWTS_POINT("dropped");
}

void hwts_window_empty(hwt_store *store, const struct hwts_kind *kind)
{
	for (struct hwts_slab *slab = store->window->slabs; slab; slab = slab->next)
		for (size_t i = 0; i < HWTS_SLAB_ENTRIES; i++) {
			struct hwts_entry *entry = &slab->entries[i];

			if (entry->state == HWTS_ARMED && entry->kind == kind && !entry->aside && !entry->turn.counted)
				hwts_window_erase(entry);
		}
}
