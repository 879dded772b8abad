/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells the program of ends.  The thread that has written the end calls hwt_store_config.ended after the commit: the
 * ender, a task thread whose transaction had the end in it, or the beginner.  A call that takes long holds up the ends
 * behind it.
 *
 * During the call the thread counts as one that runs a task: a stop in it would wait for itself.
 */
#include "runs/ended.h"
#include "store/clock.h"
#include "store/kind.h"
#include "store/conns.h"
#include "store/run.h"
#include "store/store.h"

/* Finds what became of a row that is over.  False: no run has ended. */
static bool find_became(const struct hwts_row *row, hwt_store_became *became)
{
	bool started = row->started_us > 0, goes_on = row->how == HWTS_AT || row->how == HWTS_AFTER;

	if (row->give_back || (!started && !row->hit))
		return false;
	if (!row->hit)
		*became = row->unsure ? HWT_STORE_BECAME_UNKNOWN : HWT_STORE_BECAME_LOST;
	else if (row->cancelled)
		*became = HWT_STORE_BECAME_CANCELLED;
	else if (row->replaced && !row->kept)
		*became = HWT_STORE_BECAME_REPLACED;
	else if (row->late)
		*became = HWT_STORE_BECAME_TOO_LATE;
	else if (row->how == HWTS_FAIL)
		*became = HWT_STORE_BECAME_FAILED;
	else if (goes_on && (!row->serves || row->error[0]))
		*became = HWT_STORE_BECAME_AGAIN;
	else
		*became = HWT_STORE_BECAME_DONE;
	/*
	 * Neither is an end: that a row was cancelled or replaced before it started, and the search for the first time
	 * of a row that SQL has put.
	 */
	return started || row->late || row->how == HWTS_FAIL || row->error[0];
}

bool hwts_is_told(const hwt_store *store, const struct hwts_row *row)
{
	hwt_store_became became;

	return store->config.ended && find_became(row, &became);
}

/* For a row that this process has never begun. */
static void read_run(hwt_store *store, hwt_store_run *run, hwt_store_info *info)
{
	struct hwts_conn *conn = NULL;
	int rc = hwts_conns_get(store, &conn);

	if (rc == 0) {
		rc = hwts_rows_get(conn, run->id, info);
		rc = hwts_conns_put(store, conn, rc);
	}
	if (rc != 0)
		return;
	run->key = info->key[0] ? info->key : NULL;
	run->group = info->group[0] ? info->group : NULL;
	run->len = info->len;
	run->due_us = info->due_us;
	run->attempt = info->attempt;
}

void hwts_tell_ended(hwt_store *store, struct hwts_row *row)
{
	struct hwts_running running, *outer = hwts_running;
	hwt_store_info info = HWT_STORE_INFO_INIT;
	hwt_store_ended ended = { .size = sizeof(ended),
				  .run = &running.run,
				  .rc = row->answer,
				  .error = row->error[0] ? row->error : NULL,
				  .started_us = row->started_us,
				  .ended_us = row->ended_us };

	if (!find_became(row, &ended.became))
		return;
	if (row->hit && (row->how == HWTS_AT || row->how == HWTS_AFTER))
		ended.due_us = row->when_us;
	hwts_running_init(&running, store, row, NULL);
	running.run.data = NULL;
	running.has_ended = true;
	if (row->bare)
		read_run(store, &running.run, &info);
	hwts_running = &running;
	store->config.ended(store->config.ended_ctx, &ended);
	hwts_running = outer;
}

void hwts_tell_died(hwt_store *store, struct hwts_kind *kind, int64_t id)
{
	struct hwts_row row = { .id = id, .kind = kind, .attempt = 1, .how = HWTS_FAIL, .hit = true, .bare = true };

	if (!store->config.ended)
		return;
	hwts_lock(store);
	row.ended_us = hwts_clock_db_us(store);
	hwts_unlock(store);
	hwts_cut(row.error, sizeof(row.error), HWTS_DIED, strlen(HWTS_DIED));
	hwts_tell_ended(store, &row);
}
