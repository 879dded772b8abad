/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of runs that have ended, until the ender commits their ends. */
#include "store/ends.h"
#include "store/clock.h"
#include "store/shards.h"
#include "store/store.h"

void hwts_ends_put(hwt_store *store, struct hwts_row *row)
{
	row->next = NULL;
	*store->ends->end = row;
	store->ends->end = &row->next;
}

/*
 * The end of an at-most-once run is synced.  If the server forgot that end, the row would look like one whose begin was
 * not answered.  Then an entry of the window would begin it once more: the entry of the next run, or that of a look
 * that read the row before the begin.
 */
void hwts_end(hwt_store *store, struct hwts_row *row)
{
	row->synced = row->kind->row.mode == HWT_STORE_AT_MOST_ONCE;
	row->ending = true;
	row->ended_us = hwts_clock_db_us(store);
	hwts_shard(store, row->shard, NULL)->ending++;
	hwts_ends_put(store, row);
	hwts_wake(store, HWTS_END);
}

struct hwts_row *hwts_ends_pop(hwt_store *store)
{
	struct hwts_row *rows = store->ends->first, *last = rows;

	for (unsigned i = 1; i < store->config.batch && last->next; i++)
		last = last->next;
	store->ends->first = last->next;
	if (!store->ends->first)
		store->ends->end = &store->ends->first;
	last->next = NULL;
	return rows;
}

void hwts_ends_lend(hwt_store *store, int n)
{
	store->ends->lent += (unsigned)n;
	if (n < 0)
		hwts_wake(store, HWTS_END);
}

void hwts_ends_until(hwt_store *store, int64_t until_ns)
{
	store->ends->until_ns = until_ns;
}
