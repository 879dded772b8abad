/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The threads that run tasks.
 *
 * Series (series.c): base_us is the time on the grid that a run serves.  Later times of the grid that have come too are
 * merged into the run (missed).  When the run is done, the next time is the first of the grid that has not come, so
 * each time is served once.  A run that fails is tried again under the same base until then, and merged into the next
 * run.
 *
 * A clock that is put back leaves the grid as it is.  While the clock has leapt ahead (clock.c), a series that is due
 * by the leap alone is not started: all its times up to the leapt clock would be merged into this run.
 */
#include "runs/ended.h"
#include "runs/ender.h"
#include "runs/begun.h"
#include "store/ability.h"
#include "store/clock.h"
#include "store/ends.h"
#include "store/conns.h"
#include "store/run.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

#include <unistd.h>

/* The caller holds store->lock. */
static bool is_ours(hwt_store *store, const struct hwts_row *row)
{
	return hwts_trusted(store) && hwts_holds(store, row->shard, row->epoch);
}

bool hwt_store_is_mine(const hwt_store_run *run)
{
	const struct hwts_running *running = (const struct hwts_running *)run; /* run is the first member */
	hwt_store *store;
	bool mine;

	if (!run || running->store->pid != getpid())
		return false;
	store = running->store;
	hwts_lock(store);
	mine = is_ours(store, running->row);
	hwts_unlock(store);
	return mine;
}

/*
 * Ends
 */

/* Commits the end in the transaction of the run.  True: nothing is left for the ender. */
static bool end_in_transaction(struct hwts_conn *conn, struct hwts_row *row)
{
	int rc = hwts_rows_close_run(conn, row);

	row->hit = rc == 0;
	if (rc == 0 || rc == ESTALE)
		return true;
	row->unsure = rc == ECONNRESET;
	/*
	 * It does not matter whether the transaction was committed: if it was, the row is gone, and the ender's end
	 * finds no row.
	 */
	hwts_fail_run(row, hwts_fail_text(), rc == EPROTO || rc == EIO);
	return false;
}

/*
 * Running
 */

/* True: nothing is left for the ender. */
static bool run(hwt_store *store, struct hwts_row *row, struct hwts_conn *conn, void *handle)
{
	struct hwts_running running, *outer = hwts_running;
	struct hwts_kind *kind = row->kind;
	int rc;

	hwts_running_init(&running, store, row, handle);
	hwts_running = &running;
	rc = kind->task(&running.run, kind->ctx);
	hwts_running = outer;
	HWTS_POINT("ran");
	hwts_answered(&running, rc);
	if (handle && !row->error[0])
		return end_in_transaction(conn, row);
	if (handle)
		store->engine->drop_run(conn);
	return false;
}

void hwts_note_start(hwt_store *store, struct hwts_row *row)
{
	int64_t late_ns, now_ns = hwt_now();

	row->started_us = hwts_clock_db_us(store);
	late_ns = (row->started_us - row->due_us) * 1000;
	hwts_tally_start(store->tally, now_ns, late_ns);
	hwts_tally_start(&row->kind->tally, now_ns, late_ns);
}

/*
 * The caller holds store->lock.  The run starts now, which costs its group a token.  If rules that came after the begin
 * forbid it, the row is given back.
 */
static void start(hwt_store *store, struct hwts_row *row)
{
	row->give_back = !hwts_window_may_start(store, row->id);
	if (!row->give_back)
		hwts_note_start(store, row);
}

/* A thread that runs tasks, and its connection. */
struct worker {
	struct hwts_conn *conn;
	unsigned failures;
};

/* Opens the transaction of a run.  If that fails the row is given back. */
static void open_run(hwt_store *store, struct hwts_row *row, struct worker *worker, void **handle)
{
	int rc = 0;

	if (!worker->conn || !store->engine->alive(worker->conn))
		rc = hwts_reconnect(store, &worker->conn, HWTS_TASK);
	if (rc == 0)
		rc = store->engine->open_run(worker->conn, handle);
	if (rc != 0)
		hwts_fails(store, HWTS_TASK, rc);
	else
		hwts_works(store, HWTS_TASK, &worker->failures);
	hwts_lock(store);
	hwts_ability_note(store, HWTS_TASK, rc == 0);
	if (rc != 0)
		hwts_rest(store, &worker->failures);
	/* The lease may have run out while open_run waited for SQLite's lock. */
	row->give_back = rc != 0 || !is_ours(store, row);
	if (!row->give_back)
		start(store, row);
	hwts_unlock(store);
	if (rc == 0 && row->give_back)
		store->engine->drop_run(worker->conn);
}

/* Runs the task, in a transaction if the kind wants one.  True: the end is already committed. */
static bool run_in(hwt_store *store, struct hwts_row *row, struct worker *worker)
{
	void *handle = NULL;

	if (row->kind->row.mode == HWT_STORE_TRANSACTION) {
		open_run(store, row, worker, &handle);
	} else {
		hwts_lock(store);
		start(store, row);
		hwts_unlock(store);
	}
	return !row->give_back && run(store, row, worker->conn, handle);
}

/* True: a series is due only because the clock has leapt ahead.  The caller holds store->lock. */
static bool leaps(hwt_store *store, struct hwts_row *row)
{
	int64_t now_us = hwts_clock_without_leap_us(store, row->now_us);
	bool leapt = hwts_is_series(row) && now_us < row->now_us;

	if (leapt)
		row->now_us = now_us;
	if (leapt && now_us < row->base_us)
		row->rest_us = HWTS_MIN(row->base_us - now_us, store->db->lease_us / 6);
	return row->rest_us > 0;
}

bool hwts_may_start(hwt_store *store, struct hwts_row *row)
{
	bool may = !leaps(store, row) && !hwts_halts(store, HWTS_TASK) && is_ours(store, row);

	if (!may)
		hwts_give_back(store, row);
	return may;
}

int64_t hwts_start_us(hwt_store *store, const struct hwts_row *row)
{
	return hwts_clock_without_leap_us(store, HWTS_MAX(hwts_clock_db_us(store), row->now_us));
}

/* The caller holds store->lock, which is released for a moment.  Nothing of the run is left for the ender. */
static void finish(hwt_store *store, struct hwts_row *row)
{
	row->ended_us = hwts_clock_db_us(store);
	hwts_finished(store, row);
	if (hwts_is_told(store, row)) {
		hwts_unlock(store);
		hwts_tell_ended(store, row);
		hwts_lock(store);
	}
	free(row);
}

/* The caller holds store->lock.  Serves one row that was taken from the queue. */
static void serve(hwt_store *store, struct hwts_row *row, struct worker *worker)
{
	struct hwts_kind *kind = row->kind;
	int64_t began_ns = hwt_now(), now_us;
	bool ended;

	if (!hwts_may_start(store, row))
		return;
	hwts_begun_runs(store, kind);
	now_us = hwts_start_us(store, row);
	hwts_unlock(store);
	ended = hwts_series_may_start(row, now_us) && run_in(store, row, worker);
	hwts_lock(store);
	hwts_begun_ran(store, kind, hwt_now() - began_ns);
	if (row->give_back)
		hwts_give_back(store, row);
	else if (ended)
		finish(store, row);
	else
		hwts_end(store, row);
	if (hwts_queued(store, kind) > 0 || kind->row.mode == HWT_STORE_AT_MOST_ONCE)
		hwts_wake_all(store, HWTS_TASK);
	if (hwts_window_may_begin(store))
		hwts_wake(store, HWTS_BEGIN);
}

void *hwts_task(void *arg)
{
	hwt_store *store = arg;
	struct worker worker = { .conn = NULL };
	struct hwts_row *row;
	unsigned turn = 0;

	hwts_lock(store);
	while (!hwts_halts(store, HWTS_TASK) || hwts_queued(store, NULL) > 0) {
		row = hwts_begun_next(store, &turn, false);
		if (row)
			serve(store, row, &worker);
		else if (hwts_halts(store, HWTS_TASK))
			break;
		else
			hwts_wait(store, HWTS_TASK);
		if (hwts_queued(store, NULL) < store->config.threads && hwts_window_may_begin(store))
			hwts_wake(store, HWTS_BEGIN);
	}
	hwts_unlock(store);
	if (worker.conn)
		store->engine->disconnect(worker.conn);
	return NULL;
}
