/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The threads that run tasks.
 *
 * Series: base_us is the time on the grid that a run serves; those after it that have come, too, are merged into the
 * run (missed).  When it is done the next one is the first of the grid that has not come, so that each is served once.
 * A failing run is tried again until then, under the same base: so it is merged into the next.  series.c
 *
 * A clock that is put back leaves the grid where it is.  While the clock has leapt ahead, see clock.c, what is due by
 * the leap alone is not started: all its times until then would be merged into this run.
 */
#include "core/tasks.h"
#include "core/ability.h"
#include "core/clock.h"
#include "core/ender.h"
#include "core/pool.h"
#include "core/run.h"
#include "core/shards.h"
#include "core/store.h"
#include "core/tally.h"
#include "core/window.h"
#include "core/threads.h"

bool hwt_store_is_mine(const hwt_store_run *run)
{
	const struct hwts_running *running = (const struct hwts_running *)run; /* its first member */
	hwt_store *store;
	struct hwts_shard *shard;
	bool mine;

	if (!run)
		return false;
	store = running->store;
	hwts_lock(store);
	shard = hwts_shard(store, running->row->shard, NULL);
	mine = hwts_trusted(store) && shard && shard->held && shard->epoch == running->row->epoch;
	hwts_unlock(store);
	return mine;
}

/*
 * The queue
 */

unsigned hwts_runs_queued(const hwt_store *store)
{
	return store->runs->queued;
}

/* With the lock.  The row was not started: pending again, as it was before the begin. */
void hwts_give_back(hwt_store *store, struct hwts_row *row)
{
	struct hwts_entry *entry = hwts_window_find(store, row->id);

	if (entry)
		entry->between = true;
	row->give_back = true;
	row->how = HWTS_AT;
	row->when_us = row->due_us;
	row->next_base_us = row->base_us;
	row->next_attempt = row->attempt - 1;
	hwts_end(store, row);
}

/*
 * Groups take turns here, too, so that one that came first does not make the others wait.  Within a group the larger
 * priority has the place of the smaller.
 */
void hwts_queue(hwt_store *store, struct hwts_row *row)
{
	struct hwts_kind *kind = row->kind;
	struct hwts_row **link = &kind->queue;
	const struct hwts_row *last = kind->queue ? (struct hwts_row *)kind->queue_end : NULL; /* next is its first */

	kind->least = last ? HWTS_MIN(kind->least, row->priority) : row->priority;
	if (last && row->priority == kind->least && (int32_t)(last->round - row->round) <= 0)
		link = kind->queue_end;
	for (; *link && (int32_t)((*link)->round - row->round) <= 0; link = &(*link)->next) {
		struct hwts_row *other = *link;
		uint32_t round = row->round;

		if (other->turns != row->turns || other->priority >= row->priority)
			continue;
		row->next = other->next;
		row->round = other->round;
		other->round = round;
		*link = row;
		if (!row->next)
			kind->queue_end = &row->next;
		row = other;
	}
	row->next = *link;
	*link = row;
	if (!row->next)
		kind->queue_end = &row->next;
	kind->queued++;
	store->runs->queued++;
	store->runs->queued_bytes += row->len;
}

struct hwts_row *hwts_unqueue(hwt_store *store, struct hwts_kind *kind, struct hwts_row **link)
{
	struct hwts_row *row = *link;

	*link = row->next;
	if (!row->next)
		kind->queue_end = link;
	row->next = NULL;
	kind->queued--;
	store->runs->queued--;
	store->runs->queued_bytes -= row->len;
	return row;
}

void hwts_give_back_queued(hwt_store *store, bool all)
{
	HWTS_EACH_KIND (store, kind) {
		for (struct hwts_row **link = &kind->queue; kind->queue && *link;) {
			const struct hwts_shard *shard = hwts_shard(store, (*link)->shard, NULL);

			if (!all && shard->held && !shard->giving)
				link = &(*link)->next;
			else
				hwts_give_back(store, hwts_unqueue(store, kind, link));
		}
	}
}

/* With the lock: nobody knows whether it is begun, so it is, even if it is already under this epoch. */
void hwts_begin_again(struct hwts_entry *entry)
{
	hwts_inactive(entry->store, hwts_shard(entry->store, entry->shard, NULL));
	entry->unsure = true;
	hwts_window_due(entry);
}

void hwts_doubt(hwt_store *store, struct hwts_row *row)
{
	hwts_begin_again(hwts_window_find(store, row->id));
	hwts_row_free(row);
}

/*
 * With the lock: the server is gone.  If it comes back without the last of its commits, or another takes its place,
 * what waits here may be pending there, and cancelled or moved by now.  So it is begun once more before it starts.
 */
void hwts_doubt_begun(hwt_store *store)
{
	store->runs->doubts++; /* what is being begun just now */
	if (hwts_halts(store, HWTS_BEGIN))
		return;
	HWTS_EACH_KIND (store, kind) {
		if (kind->row.mode == HWT_STORE_AT_MOST_ONCE) /* its begins are synced */
			continue;
		for (struct hwts_row **link = &kind->queue; kind->queue && *link;) {
			struct hwts_shard *shard = hwts_shard(store, (*link)->shard, NULL);

			if (shard->held && !shard->giving && shard->epoch == (*link)->epoch)
				hwts_doubt(store, hwts_unqueue(store, kind, link));
			else /* it is given back */
				link = &(*link)->next;
		}
	}
}

/* With the lock: the next row whose kind may have one more run.  Kinds take turns. */
static struct hwts_row *next_row(hwt_store *store, unsigned *turn)
{
	struct hwts_kind *kind = hwts_kind_turn(store, *turn);

	for (size_t i = 0, n = hwts_kind_count(store); i < n; i++, kind = hwts_kind_around(store, kind)) {
		if (!kind->queue || kind->running >= kind->concurrency)
			continue;
		*turn += (unsigned)i + 1;
		kind->turns.round = kind->queue->round;
		return hwts_unqueue(store, kind, &kind->queue);
	}
	return NULL;
}

/*
 * Ends
 */

/* Returns false without memory. */
bool hwts_fail_lost(hwt_store *store, const struct hwts_entry *entry, int64_t epoch, const char *error)
{
	struct hwts_shard *shard = hwts_shard(store, entry->shard, NULL);
	struct hwts_row *row = hwts_row_make(&(struct hwts_text){ NULL, 0 }, &(struct hwts_text){ NULL, 0 }, NULL, 0);

	if (!row)
		return false;
	row->id = entry->id;
	row->kind = entry->kind;
	row->shard = entry->shard;
	row->epoch = epoch;
	row->attempt = 1;
	row->how = HWTS_FAIL;
	hwts_cut(row->error, sizeof(row->error), error, strlen(error));
	hwts_active(store, shard);
	hwts_end(store, row);
	return true;
}

/* The end is in the transaction of the run; returns true if nothing is left for the ender. */
static bool end_in_transaction(struct hwts_conn *conn, struct hwts_row *row)
{
	int rc = hwts_rows_close_run(conn, row);

	row->hit = rc == 0;
	if (rc == 0 || rc == ESTALE)
		return true;
	/* Whether it was committed need not be known: if it was, the row is gone, and this end finds none. */
	hwts_fail_run(row, hwts_fail_text(), rc == EPROTO || rc == EIO);
	return false;
}

/*
 * Running
 */

/* Returns true if the end is already committed. */
static bool run(hwt_store *store, struct hwts_row *row, struct hwts_conn *conn, void *handle)
{
	struct hwts_running running = { .store = store, .row = row }, *outer = hwts_running;
	struct hwts_kind *kind = row->kind;
	int rc;

	running.run = (hwt_store_run){ .id = row->id,
				       .kind = kind->name,
				       .key = row->key,
				       .group = row->group,
				       .data = row->data,
				       .len = row->len,
				       .due_us = hwts_is_series(row) ? row->base_us : row->due_us,
				       .attempt = row->attempt,
				       .missed = row->missed,
				       .connection = handle };
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

/* In a transaction, if the kind wants one.  Returns true if the end is already committed. */
static bool run_in(hwt_store *store, struct hwts_row *row, struct hwts_conn **conn, unsigned *failures)
{
	void *handle = NULL;
	int64_t late_ns;
	int rc = 0;

	if (row->kind->row.mode == HWT_STORE_TRANSACTION) {
		if (!*conn || !store->engine->alive(*conn))
			rc = hwts_reconnect(store, conn, HWTS_TASK, failures);
		if (rc == 0)
			rc = store->engine->open_run(*conn, &handle);
		if (rc != 0) {
			hwts_warn(store, "a transaction for a run: %s", hwts_fail_text());
			hwts_lock(store);
			hwts_ability_note(store, HWTS_TASK, false);
			hwts_rest(store, failures);
			row->give_back = true;
			hwts_unlock(store);
			return false;
		}
		*failures = 0;
	}
	hwts_lock(store);
	late_ns = (hwts_clock_db_us(store) - row->due_us) * 1000;
	hwts_tally_start(store->tally, late_ns);
	hwts_tally_start(&row->kind->tally, late_ns);
	if (handle)
		hwts_ability_note(store, HWTS_TASK, true);
	hwts_unlock(store);
	return run(store, row, *conn, handle);
}

/* With the lock: what a series is due by.  True: by a leap of the clock. */
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

static void note_run(struct hwts_kind *kind, int64_t took_ns)
{
	int64_t mean_ns = kind->run_ns ? kind->run_ns + (took_ns - kind->run_ns) / 4 : took_ns;

	kind->run_ns = HWTS_MAX(mean_ns, 1);
}

/* With the lock.  One row, which was taken from the queue. */
static void serve(hwt_store *store, struct hwts_row *row, struct hwts_conn **conn, unsigned *failures)
{
	struct hwts_kind *kind = row->kind;
	struct hwts_shard *shard = hwts_shard(store, row->shard, NULL);
	int64_t began_ns = hwt_now(), now_us;
	bool ended;

	if (leaps(store, row) || hwts_halts(store, HWTS_TASK) || !hwts_trusted(store) || !shard->held ||
	    shard->epoch != row->epoch) {
		hwts_give_back(store, row);
		return;
	}
	kind->running++;
	store->runs->running++;
	now_us = hwts_clock_without_leap_us(store, HWTS_MAX(hwts_clock_db_us(store), row->now_us));
	hwts_unlock(store);
	ended = hwts_series_may_start(row, now_us) && run_in(store, row, conn, failures);
	hwts_lock(store);
	kind->running--;
	store->runs->running--;
	note_run(kind, hwt_now() - began_ns);
	if (row->give_back)
		hwts_give_back(store, row);
	else if (ended)
		hwts_finished(store, row);
	else
		hwts_end(store, row);
	if (kind->queue || kind->row.mode == HWT_STORE_AT_MOST_ONCE)
		hwts_wake_all(store, HWTS_TASK);
	if (hwts_window_waits(store))
		hwts_wake(store, HWTS_BEGIN);
}

void *hwts_task_thread(void *arg)
{
	hwt_store *store = arg;
	struct hwts_conn *conn = NULL;
	struct hwts_row *row;
	unsigned turn = 0, failures = 0;

	hwts_lock(store);
	while (!hwts_halts(store, HWTS_TASK) || store->runs->queued > 0) {
		row = next_row(store, &turn);
		if (row)
			serve(store, row, &conn, &failures);
		else if (hwts_halts(store, HWTS_TASK))
			break;
		else
			hwts_wait(store, HWTS_TASK);
		if (store->runs->queued < store->config.threads && hwts_window_waits(store))
			hwts_wake(store, HWTS_BEGIN);
	}
	hwts_unlock(store);
	if (conn)
		store->engine->disconnect(conn);
	return NULL;
}
