/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pulled runs: the program fetches rows that are begun, and ends them, where a task thread runs the rows of other
 * kinds.
 *
 * Structure
 *
 *     queue --hwt_store_next--> out --hwt_store_end--> ends
 *
 *   A run that is out is in a list, so that a close finds it.  It counts against the concurrency of its kind as a run
 *   on a thread would, and its shard is kept until the run has ended.  But it takes no thread from other kinds.
 *
 * The end
 *
 *   While the lease is trusted no other process can have begun the row: the ender commits the end, and the caller goes
 *   on.  Otherwise only the database knows: the caller waits until the ender has asked it.
 */
#include "runs/ender.h"
#include "runs/pulled.h"
#include "runs/begun.h"
#include "runs/poll.h"
#include "store/clock.h"
#include "store/ends.h"
#include "store/run.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

/* A run that the program has fetched. */
struct hwts_pull {
	struct hwts_running running; /* first, as the caller's pointer is to running.run */
	struct hwts_pull *next, **link;
};

int hwt_store_fd(hwt_store *store, int *fd)
{
	struct hwts_call call = hwts_enter();
	int rc = hwts_check_store(store);

	if (rc == 0 && !fd)
		rc = hwts_fail(EINVAL, "the pointer to the descriptor is NULL");
	if (rc == 0) {
		hwts_lock(store);
		rc = hwts_poll_fd(store, fd);
		hwts_unlock(store);
	}
	return hwts_leave(call, rc);
}

/* The caller holds store->lock. */
static void place_is_free(hwt_store *store)
{
	if (hwts_window_may_begin(store))
		hwts_wake(store, HWTS_BEGIN);
}

/* The caller holds store->lock.  Returns a row that starts now, or NULL. */
static struct hwts_row *take(hwt_store *store)
{
	struct hwts_row *row;

	while ((row = hwts_begun_next(store, &store->pulled->turn, true)) != NULL) {
		if (hwts_may_start(store, row)) {
			if (!hwts_series_may_start(row, hwts_start_us(store, row)))
				hwts_end(store, row);
			else if (hwts_window_may_start(store, row->id))
				return row;
			else
				hwts_give_back(store, row);
		}
		place_is_free(store);
	}
	return NULL;
}

/* The caller holds store->lock. */
static int next(hwt_store *store, struct hwts_pull **out)
{
	struct hwts_pull *pull = NULL;
	struct hwts_row *row;

	if (hwts_phase(store) != HWTS_STARTED)
		return hwts_fail(ECANCELED, "the store is not started, or is being stopped");
	if (hwts_poll_waits(store)) {
		pull = hwts_alloc(sizeof(*pull));
		if (!pull)
			return ENOMEM;
	}
	row = pull ? take(store) : NULL;
	if (!row) {
		free(pull);
		if (hwts_poll_waits(store)) {
			hwts_poll_unread(store);
			hwts_wake(store, HWTS_BEGIN);
		}
		return hwts_fail(EAGAIN, "nothing is due: poll the descriptor of hwt_store_fd");
	}
	hwts_running_init(&pull->running, store, row, NULL);
	pull->next = store->pulled->first;
	pull->link = &store->pulled->first;
	if (pull->next)
		pull->next->link = &pull->next;
	store->pulled->first = pull;
	store->pulled->count++;
	hwts_begun_runs(store, row->kind);
	hwts_note_start(store, row);
	*out = pull;
	return 0;
}

int hwt_store_next(hwt_store *store, hwt_store_run **run)
{
	struct hwts_call call = hwts_enter();
	struct hwts_pull *pull = NULL;
	int rc = hwts_check_store(store);

	if (rc == 0 && !run)
		rc = hwts_fail(EINVAL, "the pointer to the run is NULL");
	if (rc == 0) {
		hwts_lock(store);
		rc = next(store, &pull);
		hwts_unlock(store);
	}
	if (rc == 0)
		*run = &pull->running.run;
	return hwts_leave(call, rc);
}

/* The caller holds store->lock.  Takes the run off the list and returns its row. */
static struct hwts_row *bring_back(hwt_store *store, struct hwts_pull *pull)
{
	struct hwts_row *row = pull->running.row;

	*pull->link = pull->next;
	if (pull->next)
		pull->next->link = pull->link;
	hwts_begun_ran(store, row->kind, 0);
	if (--store->pulled->count == 0)
		hwts_stir(store);
	free(pull);
	return row;
}

/* The caller holds store->lock. */
static int end(hwt_store *store, struct hwts_pull *pull, int answer)
{
	struct hwts_row *row = pull->running.row;
	int told = hwts_trusted(store) && hwts_holds(store, row->shard, row->epoch) ? 0 : -1;

	if (told != 0 && hwts_in_ended())
		return hwts_fail(EDEADLK,
				 "whether another process has begun it is known when this call of ended returns");
	if (told != 0 && hwts_holds_lock(store))
		return hwts_fail(EDEADLK, "whether another process has begun it is known when this transaction ends");
	hwts_answered(&pull->running, answer);
	if (told != 0)
		row->told = &told;
	hwts_end(store, bring_back(store, pull));
	place_is_free(store);
	while (told < 0)
		hwts_wait_stirred(store, HWT_S(1));
	if (told == ESTALE)
		return hwts_fail(ESTALE, "the lease was lost: this timeout has been begun again, or will be");
	return told == 0 ? 0 : hwts_fail(told, "the database refuses this end: it is tried again each lease");
}

int hwt_store_end(hwt_store_run *run, int answer)
{
	struct hwts_call call = hwts_enter();
	struct hwts_pull *pull = (struct hwts_pull *)run; /* as hwt_store_next returned it */
	int rc = run ? hwts_check_store(pull->running.store) : hwts_fail(EINVAL, "the run is NULL");

	if (rc == 0) {
		hwt_store *store = pull->running.store;

		hwts_lock(store);
		rc = end(store, pull, answer);
		hwts_unlock(store);
	}
	return hwts_leave(call, rc);
}

/*
 * Stop and close
 */

unsigned hwts_pulled_out(hwt_store *store)
{
	unsigned count;

	hwts_lock(store);
	count = store->pulled->count;
	hwts_unlock(store);
	return count;
}

void hwts_pulled_await(hwt_store *store)
{
	hwts_lock(store);
	while (store->pulled->count > 0)
		hwts_wait_stirred(store, HWT_S(1));
	hwts_unlock(store);
}

/* Gives up a run that the program has not ended: its row stays as it is in the database. */
static void drop(hwt_store *store, struct hwts_row *row)
{
	hwts_finished(store, row);
	free(row);
}

void hwts_pulled_drop(hwt_store *store)
{
	hwts_lock(store);
	while (store->pulled->first)
		drop(store, bring_back(store, store->pulled->first));
	hwts_unlock(store);
}
