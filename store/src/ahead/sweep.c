/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a sweep begins: the part of a look behind the marks.
 *
 * Rows that are gone may stay in the index for hours: pg_dump has a snapshot, or a prepared transaction was forgotten.
 * No look should read all of them.  So the regular sweep begins at low_us, 4/3 of a lease ago.  A row due before low_us
 * was in the window, or its news came, or it became visible in time.
 *
 * Rows that became visible later still (their transaction took longer, or they were put with a due time in the past),
 * and whose news was lost, are found in slices: each sweep reads a slice, downwards from low_us to the beginning.
 * Slices grow while they are quick and shrink while they are slow.  Once a whole pass is quick, each sweep reads
 * everything.
 *
 * "Everything" may be a backlog of millions, of a group that is paused, and the window knows of that.  So a sweep reads
 * a page, and the next goes on behind it.  While pages are full and no row is missing from the window, more and more
 * sweeps leave the backlog out.
 */
#include "ahead/ahead.h"
#include "store/store.h"
#include "window/window.h"

#define SLOW_NS HWT_MS(100)      /* a sweep that takes longer than usual by this: its slice is too long */
#define PASS_SLOW_NS HWT_MS(500) /* a pass whose slices take longer than this together */
#define NOT_YET (INT64_MIN + 1)
#define APART_MAX 63

void hwts_sweep_init(struct hwts_sweep *sweep, const hwt_store *store)
{
	*sweep = (struct hwts_sweep){ .low_us = NOT_YET, .usual_ns = HWT_S(3600), .all = !store->engine->keeps_dead };
}

static void begin_pass(struct hwts_sweep *sweep, const hwt_store *store)
{
	sweep->slice_end = sweep->low_us;
	sweep->slice_us = 4 * store->db->lease_us;
	sweep->pass_ns = 0;
}

/* The sweep goes on where the last one ended, or reads only rows that came due of late. */
static void choose_begin(struct hwts_sweep *sweep, struct hwts_look *look)
{
	look->from_us = sweep->low_us;
	look->far = sweep->low_us == INT64_MIN || (sweep->all && sweep->rest == 0);
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

void hwts_sweep_choose(struct hwts_sweep *sweep, const hwt_store *store, struct hwts_look *look)
{
	look->slice_from_us = look->slice_to_us = 0;
	if (sweep->low_us == NOT_YET) { /* the first look: all its rows are new */
		sweep->low_us = look->late_us - store->db->lease_us;
		begin_pass(sweep, store);
	}
	choose_begin(sweep, look);
	if (!look->sweeps || sweep->all || sweep->low_us == INT64_MIN)
		return;
	look->slice_to_us = sweep->slice_end;
	look->slice_from_us = sweep->slice_end - sweep->slice_us;
	if (look->slice_from_us < 0)
		look->slice_from_us = INT64_MIN;
}

static void tell_slow(struct hwts_sweep *sweep, hwt_store *store, const struct hwts_look *look, int64_t took_ns)
{
	if (sweep->told || took_ns < store->config.lease_ns / 3 || look->due_count > HWTS_PAGE / 2)
		return;
	sweep->told = true;
	hwts_warn(store,
		  "a look at the timeouts took %lld ms: the database keeps rows that are gone, for a snapshot that is "
		  "old (a long transaction, a prepared one that was forgotten)",
		  (long long)(took_ns / HWT_MS(1)));
}

/* How many of the next sweeps leave out rows that have been overdue for long. */
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
	sweep->rest = sweep->apart;
}

void hwts_swept(struct hwts_sweep *sweep, hwt_store *store, const struct hwts_look *look, int64_t took_ns)
{
	bool slow = took_ns > sweep->usual_ns + SLOW_NS;

	choose_rest(sweep, look);
	sweep->low_us = HWTS_MAX(sweep->low_us, look->late_us - store->db->lease_us);
	if (!store->engine->keeps_dead)
		return;
	sweep->usual_ns = HWTS_MIN(took_ns, sweep->usual_ns + sweep->usual_ns / 4);
	tell_slow(sweep, store, look, took_ns);
	if (look->slice_from_us == look->slice_to_us) {
		sweep->all = sweep->all && !slow;
		begin_pass(sweep, store);
		return;
	}
	sweep->pass_ns += took_ns;
	if (look->slice_from_us == INT64_MIN) { /* the pass is over */
		sweep->all = sweep->pass_ns <= PASS_SLOW_NS;
		sweep->told = sweep->told && !sweep->all;
		begin_pass(sweep, store);
		return;
	}
	sweep->slice_end = look->slice_from_us;
	sweep->slice_us = slow ? HWTS_MAX(sweep->slice_us / 2, store->db->lease_us)
			       : HWTS_MIN(sweep->slice_us * 2, HWTS_LATEST_US);
}
