/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The look-ahead: reads the shards from their marks on into the window, page by page, as long as there is room in it.
 */
#include "core/store.h"

/* The shards to look into, from their marks. */
int hwts_ahead_collect(hwt_store *store, struct hwts_held **held, size_t *count)
{
	size_t room = 0;

	*count = 0;
	*held = NULL;
	pthread_mutex_lock(&store->lock);
	HWTS_EACH_KIND (store, kind)
		room += kind->row.shards;
	*held = hwts_alloc(room * sizeof(**held));
	HWTS_EACH_SHARD (store, kind, shard) {
		if (store->load_again)
			shard->mark_due_us = INT64_MIN;
		shard->left_us = HWTS_NEVER;
		if (shard->held && *held)
			(*held)[(*count)++] = (struct hwts_held){ .shard = shard->id,
								  .epoch = shard->epoch,
								  .horizon_us = kind->row.horizon_us,
								  .mark_due_us = shard->mark_due_us,
								  .mark_id = shard->mark_id };
	}
	store->load_again = store->load_again && !*held;
	pthread_mutex_unlock(&store->lock);
	return *held ? 0 : ENOMEM;
}

/*
 * With the lock: a mark does not pass what was left to a look while this one was under way.  It stops before it, and
 * the next look reads from there.
 */
static void hold_back(hwt_store *store, struct hwts_shard *shard)
{
	if (shard->left_us > shard->mark_due_us ||
	    (shard->left_us == shard->mark_due_us && shard->left_id > shard->mark_id))
		return;
	shard->mark_due_us = shard->left_us;
	shard->mark_id = shard->left_id - 1;
	store->look_soon = true;
}

/* With the lock.  What ran at most once, and whose end the database has lost, is FAILED. */
static void revive(hwt_store *store, const struct hwts_due *due)
{
	struct hwts_entry *entry = hwts_window_revive(store, due);

	if (entry && !hwts_fail_lost(store, entry))
		hwts_window_erase(entry);
}

/* With the lock: marks first, so that what is seen is not beyond them. */
void hwts_ahead_see_all(hwt_store *store, const struct hwts_look *look)
{
	for (size_t i = 0; i < look->held_count; i++) {
		const struct hwts_held *held = &look->held[i];
		struct hwts_shard *shard = hwts_shard(store, held->shard, NULL);

		if (!shard || !shard->held || shard->epoch != held->epoch)
			continue;
		shard->mark_due_us = held->mark_due_us;
		shard->mark_id = held->mark_id;
	}
	for (size_t i = 0; i < look->due_count; i++) {
		if (look->dues[i].part <= HWTS_LATE)
			hwts_window_see(store, &look->dues[i]);
		else if (look->dues[i].part == HWTS_OVERDUE)
			hwts_window_rescue(store, &look->dues[i]);
		else
			revive(store, &look->dues[i]);
	}
	for (size_t i = 0; i < look->held_count; i++) {
		struct hwts_shard *shard = hwts_shard(store, look->held[i].shard, NULL);

		if (shard && shard->held && shard->epoch == look->held[i].epoch)
			hold_back(store, shard);
	}
}

static bool keep_full(struct hwts_look *look)
{
	size_t kept = 0;

	for (size_t i = 0; i < look->held_count; i++)
		if (look->held[i].full)
			look->held[kept++] = look->held[i];
	look->held_count = kept;
	return kept > 0;
}

/* Reads on where a page was full, until the window is. */
int hwts_ahead_read_on(hwt_store *store, struct hwts_look *look)
{
	int rc = 0;
	bool room = true;

	look->renew = false;
	while (rc == 0 && keep_full(look)) {
		pthread_mutex_lock(&store->lock);
		room = store->window.count < HWTS_WINDOW_MAX;
		store->behind = !room;
		pthread_mutex_unlock(&store->lock);
		if (!room)
			return 0;
		rc = hwts_rows_look(store->control_conn, look);
		pthread_mutex_lock(&store->lock);
		if (rc == 0)
			hwts_ahead_see_all(store, look);
		pthread_mutex_unlock(&store->lock);
	}
	pthread_mutex_lock(&store->lock);
	store->behind = false;
	pthread_mutex_unlock(&store->lock);
	return rc;
}

/* Reads what the window lacks in shards that were just taken. */
int hwts_ahead_load(hwt_store *store, struct hwts_look *look)
{
	int rc;

	free(look->held);
	rc = hwts_ahead_collect(store, &look->held, &look->held_count);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < look->held_count; i++)
		look->held[i].full = look->held[i].mark_due_us == INT64_MIN;
	return hwts_ahead_read_on(store, look);
}
