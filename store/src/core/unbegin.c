/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that were begun and do not start: what waits for a thread for too long, and what a call of this process cancels
 * or moves.  The call takes the row out of the queue, and changes it in the database under the epoch of its begin, so
 * nothing starts it meanwhile, here or elsewhere.  The ender waits for rows that calls have.
 */
#include "core/ender.h"
#include "core/store.h"
#include "core/tasks.h"
#include "core/threads.h"
#include "core/window.h"

/* The runs before them take longer than those before did: nothing more is begun ahead until some have ended. */
void hwts_give_back_stale(hwt_store *store, int64_t age_ns)
{
	int64_t now_ns = hwt_now();

	HWTS_EACH_KIND (store, kind)
		while (kind->queue && now_ns - kind->queue->queued_ns >= age_ns) {
			kind->run_ns = HWTS_MAX(kind->run_ns, age_ns * store->config.threads);
			hwts_give_back(store, hwts_unqueue(store, kind, &kind->queue));
		}
}

struct hwts_row *hwts_unbegin(hwt_store *store, int64_t id, bool *waited)
{
	struct hwts_row *row = NULL;
	struct hwts_entry *entry;

	*waited = false;
	hwts_lock(store);
	while ((entry = hwts_window_find(store, id)) != NULL && entry->state == HWTS_BEGUN && entry->between) {
		*waited = true;
		hwts_unlock(store);
		hwts_sleep_ns(HWT_MS(1));
		hwts_lock(store);
	}
	if (entry && entry->state == HWTS_BEGUN)
		for (struct hwts_row **link = &entry->kind->queue; *link && !row; link = &(*link)->next)
			if ((*link)->id == id) {
				row = hwts_unqueue(store, entry->kind, link);
				entry->between = true;
				break;
			}
	hwts_ends_lend(store, row != NULL);
	hwts_unlock(store);
	return row;
}

void hwts_unbegun(hwt_store *store, struct hwts_row *row, bool changed, const struct hwts_due *due)
{
	hwts_lock(store);
	if (changed) {
		row->give_back = true;
		row->hit = due != NULL;
		row->how = due ? HWTS_AT : HWTS_DONE;
		row->when_us = due ? due->due_us : 0;
		row->next_attempt = row->attempt - 1;
		hwts_finished(store, row);
	} else {
		hwts_give_back(store, row);
	}
	hwts_ends_lend(store, -1);
	hwts_unlock(store);
}
