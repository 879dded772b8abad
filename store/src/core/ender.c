/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ender: commits how runs ended, by batches, and tries until the database has them.
 */
#include "core/store.h"

/*
 * With the lock.  At most once: the row that is pending again is in the window, to be begun.  If the server forgot its
 * end, that row would look like one whose begin was not answered, and the run that has been would be begun once more.
 */
void hwts_end(hwt_store *store, struct hwts_row *row)
{
	row->synced = row->kind->row.mode == HWT_STORE_AT_MOST_ONCE && row->how != HWTS_DONE && row->how != HWTS_FAIL;
	row->next = NULL;
	*store->ends_end = row;
	store->ends_end = &row->next;
	hwts_wake(&store->end_work);
}

static void count(hwt_store *store, const struct hwts_row *row)
{
	if (!row->hit || row->give_back)
		return;
	store->stats.done += row->how == HWTS_DONE || (row->how == HWTS_AT && row->next_attempt == 0 && !row->error[0]);
	store->stats.failed += row->how == HWTS_FAIL;
	store->stats.retried += row->how != HWTS_DONE && row->how != HWTS_FAIL && row->error[0];
}

void hwts_finished(hwt_store *store, struct hwts_row *row)
{
	struct hwts_shard *shard = hwts_shard(store, row->shard, NULL);

	count(store, row);
	store->active--;
	shard->active--;
	if (shard->active == 0 && shard->giving)
		hwts_poke(store);
	hwts_window_ended(store, row, row->hit && (row->how == HWTS_AT || row->how == HWTS_AFTER));
	if (store->active == 0)
		pthread_cond_broadcast(&store->drained);
	free(row);
}

/* With the lock: up to a batch of ends. */
static struct hwts_row *take_ends(hwt_store *store)
{
	struct hwts_row *rows = store->ends, *last = rows;

	for (unsigned i = 1; i < store->config.batch && last->next; i++)
		last = last->next;
	store->ends = last->next;
	if (!store->ends)
		store->ends_end = &store->ends;
	last->next = NULL;
	return rows;
}

/* The store is being stopped and its lease is over: other processes run these rows again. */
static bool is_pointless(hwt_store *store)
{
	bool pointless;

	pthread_mutex_lock(&store->lock);
	pointless = store->phase == HWTS_STOPPING && !hwts_trusted(store);
	pthread_mutex_unlock(&store->lock);
	return pointless;
}

static void commit(hwt_store *store, struct hwts_row *rows, unsigned *failures)
{
	for (;;) {
		if ((store->end_conn && !store->end_conn->broken) ||
		    hwts_reconnect(store, &store->end_conn, HWTS_END, failures) == 0) {
			if (hwts_rows_end(store->end_conn, rows) == 0) {
				*failures = 0;
				return;
			}
			hwts_warn(store, "end: %s", hwts_fail_text());
		}
		if (is_pointless(store))
			return;
		pthread_mutex_lock(&store->lock);
		hwts_wait_ns(&store->drained, &store->lock, hwts_backoff_ns(++*failures));
		pthread_mutex_unlock(&store->lock);
	}
}

/* A caller that is told can look: the end is in the database.  Without the lock, for the warning may call the store. */
static void warn_of_failed(hwt_store *store, const struct hwts_row *rows)
{
	for (const struct hwts_row *row = rows; row; row = row->next)
		if (row->hit && row->how == HWTS_FAIL)
			hwts_warn(store, "timeout %lld of kind %s has failed for good after %u attempts: %s",
				  (long long)row->id, row->kind->name, row->attempt, row->error);
}

void *hwts_ender(void *arg)
{
	hwt_store *store = arg;
	unsigned failures = 0;

	pthread_mutex_lock(&store->lock);
	for (;;) {
		while (!store->ends && !store->end_halt)
			pthread_cond_wait(&store->end_work, &store->lock);
		if (!store->ends)
			break;
		struct hwts_row *rows = take_ends(store);

		pthread_mutex_unlock(&store->lock);
		commit(store, rows, &failures);
		HWTS_POINT("ended");
		warn_of_failed(store, rows);
		pthread_mutex_lock(&store->lock);
		for (struct hwts_row *next; rows; rows = next) {
			next = rows->next;
			hwts_finished(store, rows);
		}
	}
	pthread_mutex_unlock(&store->lock);
	return NULL;
}
