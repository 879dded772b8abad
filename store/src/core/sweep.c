/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the sweep begins that looks behind the marks.
 *
 * Rows that are gone may stay in the index for hours: pg_dump has a snapshot, a prepared transaction was forgotten.  So
 * the regular sweep begins at low_us, 4/3 of a lease ago, and no look reads all of them.  What lies before was in the
 * window, or its news came, or it became visible in time.  What came later still (by a transaction that took longer, or
 * due in the past) and whose news was lost is found by a sweep of all: each hour on PostgreSQL, each time on SQLite,
 * which keeps nothing of what is gone.
 *
 * All may be a backlog of millions, of a group that is paused, and the window knows of it.  So a sweep reads a page,
 * and the next one goes on behind it.  While pages are full and nothing is missed, more and more sweeps leave that out.
 */
#include "core/ahead.h"
#include "core/store.h"
#include "core/window.h"

#define APART_MAX 63
#define NOT_YET (INT64_MIN + 1)

void hwts_sweep_init(struct hwts_sweep *sweep, const hwt_store *store)
{
	*sweep = (struct hwts_sweep){ .low_us = NOT_YET };
	if (store->engine->keeps_dead)
		sweep->least = sweep->rest = (unsigned)(HWT_S(3600) / HWTS_MAX(store->config.lease_ns / 3, 1));
}

/* Behind the last one, or what came due of late. */
void hwts_sweep_choose(struct hwts_sweep *sweep, const hwt_store *store, struct hwts_look *look)
{
	if (sweep->low_us == NOT_YET) /* all that is read is new, and so is its epoch */
		sweep->low_us = look->late_us - store->db->lease_us;
	look->from_us = sweep->low_us;
	look->far = sweep->low_us == INT64_MIN || sweep->rest == 0;
	sweep->goes_on = false;
	for (size_t i = 0; i < look->held_count; i++) {
		struct hwts_held *held = &look->held[i];

		sweep->goes_on |= held->swept_due_us != INT64_MIN;
		if (!look->far) {
			held->swept_due_us = sweep->low_us - 1;
			held->swept_id = INT64_MAX;
		}
	}
}

static void tell_slow(struct hwts_sweep *sweep, hwt_store *store, const struct hwts_look *look, int64_t took_ns)
{
	bool slow = took_ns >= store->config.lease_ns / 3;

	if (!slow || sweep->told || look->due_count > HWTS_PAGE / 2) {
		sweep->told &= slow;
		return;
	}
	sweep->told = true;
	hwts_warn(store,
		  "a look at the timeouts took %lld ms: the database keeps rows that are gone, for a snapshot that is "
		  "old (a long transaction, a prepared one that was forgotten)",
		  (long long)(took_ns / HWT_MS(1)));
}

/* When what has been overdue for long is read again. */
static void choose_rest(struct hwts_sweep *sweep, const struct hwts_look *look)
{
	bool full = false;

	if (!look->far) {
		sweep->rest -= sweep->rest > 0;
		return;
	}
	for (size_t i = 0; i < look->held_count; i++)
		full |= look->held[i].overdue >= look->page;
	if (full)
		sweep->apart = HWTS_MIN(2 * sweep->apart + 1, APART_MAX);
	if (look->missed || !(full || sweep->goes_on))
		sweep->apart = 0;
	sweep->rest = look->missed || full ? sweep->apart : HWTS_MAX(sweep->apart, sweep->least);
}

void hwts_swept(struct hwts_sweep *sweep, hwt_store *store, const struct hwts_look *look, int64_t took_ns)
{
	choose_rest(sweep, look);
	sweep->low_us = HWTS_MAX(sweep->low_us, look->late_us - store->db->lease_us);
	if (store->engine->keeps_dead)
		tell_slow(sweep, store, look, took_ns);
}
