/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes to many timeouts: all of a group, or of a kind.
 *
 * Their places are read in pages, which lock nothing, and then changed in slices, each in a transaction of its own.  A
 * row that another transaction has locked is tried again alone.  A slice that took long makes the next one smaller, so
 * no lock is held for long, however slow the database is.
 *
 * All rows move to one time, the same for every slice.  So the place of a row says whether it has been moved already.
 * The walk reads three ranges and so leaves those rows out: first rows that are due at that time already, then rows due
 * before it, then rows due after it.
 */
#include "runs/begun.h"
#include "store/kind.h"
#include "store/conns.h"
#include "store/store.h"
#include "store/which.h"
#include "window/window.h"

#define SLICE 1000
#define SLICE_FIRST 250
#define SLICE_LEAST 10
#define LONG_NS HWT_MS(12)
#define SHORT_NS HWT_MS(6)
#define GIVE_WAY_NS HWT_MS(2)

struct slice {
	int64_t ids[SLICE];
	uint64_t heard[SLICE], begin[SLICE]; /* hwts_window_heard and hwts_window_begin before the statement */
	struct hwts_due dues[SLICE];
	int rcs[SLICE];
	size_t n;
};

struct walk {
	hwt_store *store;
	const struct hwts_about *about;
	struct hwts_conn *conn;
	struct hwts_list list;
	struct slice slice;
	const struct hwts_move *move; /* NULL: a cancel */
	size_t size;                  /* of the next slice */
	uint64_t n;
};

/* The caller holds store->lock. */
static void note(struct walk *walk)
{
	struct slice *slice = &walk->slice;

	for (size_t i = 0; i < slice->n; i++) {
		if (slice->rcs[i] != 0)
			continue;
		walk->n++;
		if (walk->move) {
			hwts_window_move(walk->store, &slice->dues[i], slice->heard[i]);
		} else {
			hwts_window_forget(walk->store, slice->ids[i]);
			hwts_give_back_changed(walk->store, slice->ids[i]);
		}
		HWTS_TALLY(walk->store, cancelled, !walk->move);
		HWTS_TALLY(walk->store, rescheduled, walk->move != NULL);
	}
}

static int change_all(struct walk *walk)
{
	struct slice *slice = &walk->slice;

	return walk->move
		   ? hwts_rows_reschedule_all(walk->conn, slice->ids, slice->dues, slice->rcs, slice->n, walk->move)
		   : hwts_rows_cancel_all(walk->conn, slice->ids, slice->rcs, slice->n, walk->about->states);
}

static int change_under(struct walk *walk, size_t i, int64_t epoch)
{
	struct slice *slice = &walk->slice;
	struct hwts_move move;

	if (!walk->move)
		return hwts_rows_cancel(walk->conn, slice->ids[i], epoch, walk->about->states, true);
	move = *walk->move;
	move.epoch = epoch;
	return hwts_rows_reschedule(walk->conn, slice->ids[i], &move, &slice->dues[i]);
}

static bool means_pending(const struct walk *walk)
{
	return walk->about->states & 1u << HWT_STORE_PENDING;
}

/*
 * Changes one row.  A row that was begun by this process and has not started is pending.  A cancel marks a row that
 * runs, so that its end removes it.
 */
static int change_one(struct walk *walk, size_t i)
{
	struct slice *slice = &walk->slice;
	struct hwts_row *row = NULL;
	int rc, found;

	do {
		uint64_t before = hwts_begin_before(walk->store, slice->ids[i]);

		rc = change_under(walk, i, HWTS_NOT_BEGUN);
		found = means_pending(walk) && (rc == ENOENT || rc == EBUSY)
			    ? hwts_unbegin(walk->store, slice->ids[i], before, &row)
			    : EBUSY;
	} while (found == EINTR);
	if (found == EAGAIN)
		rc = EAGAIN;
	if (row) {
		rc = change_under(walk, i, row->epoch);
		hwts_unbegun(walk->store, row, rc == 0, walk->move ? &slice->dues[i] : NULL);
	}
	slice->rcs[i] = rc;
	return rc == ENOENT || rc == EBUSY ? 0 : rc;
}

/*
 * True: the row was locked, has just changed, runs, or was begun by this process during the statement and may have been
 * given back since.
 */
static bool is_tried_alone(const struct walk *walk, size_t i)
{
	int rc = walk->slice.rcs[i];

	return rc == EINTR || (rc == EBUSY && !walk->move) ||
	       (rc == ENOENT && means_pending(walk) &&
		(walk->slice.begin[i] == HWTS_IS_BEGUN ||
		 walk->slice.begin[i] != hwts_begin_before(walk->store, walk->slice.ids[i])));
}

static int do_slice(struct walk *walk)
{
	struct slice *slice = &walk->slice;
	int64_t before_ns = hwt_now(), took_ns;
	int rc;

	hwts_lock(walk->store);
	for (size_t i = 0; i < slice->n; i++) {
		slice->heard[i] = hwts_window_heard(walk->store, slice->ids[i]);
		slice->begin[i] = hwts_window_begin(walk->store, slice->ids[i]);
	}
	hwts_unlock(walk->store);
	rc = change_all(walk);
	took_ns = hwt_now() - before_ns;
	if (took_ns > LONG_NS)
		walk->size = HWTS_MAX(walk->size / 2, SLICE_LEAST);
	else if (took_ns < SHORT_NS)
		walk->size = HWTS_MIN(walk->size * 2, SLICE);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < slice->n && rc == 0; i++)
		if (is_tried_alone(walk, i))
			rc = change_one(walk, i);
	HWTS_POINT("slice");
	hwts_lock(walk->store);
	note(walk);
	hwts_unlock(walk->store);
	return rc;
}

/* Sleeps so that others get a turn: they check only now and then whether the lock of the whole database is free. */
static void give_way(const struct walk *walk)
{
	if (!walk->store->engine->locks_rows)
		hwts_sleep_ns(GIVE_WAY_NS);
}

/* Changes the rows due at or after the place from, and before to_us. */
static int do_range(struct walk *walk, struct hwts_place from, int64_t to_us)
{
	struct hwts_list *list = &walk->list;
	int rc = 0;

	list->last = from;
	list->to_us = to_us;
	list->read = false;
	list->count = list->at = 0;
	while (rc == 0 && !(list->read && list->at == list->count)) {
		if (list->at == list->count)
			rc = hwts_rows_places(walk->conn, &walk->about->row, list);
		walk->slice.n = HWTS_MIN(list->count - list->at, walk->size);
		for (size_t i = 0; i < walk->slice.n; i++)
			walk->slice.ids[i] = list->places[list->at + i].id;
		list->at += walk->slice.n;
		if (rc == 0 && walk->slice.n > 0) {
			rc = do_slice(walk);
			give_way(walk);
		}
	}
	return rc;
}

static int walk_all(struct walk *walk, struct hwts_move *move)
{
	int64_t at_us = HWTS_NEVER, now_us = 0;
	int rc = move && !move->absolute ? hwts_rows_clock(walk->conn, HWTS_READS, &now_us) : 0;

	if (rc != 0)
		return rc;
	if (move) {
		at_us = move->when_us += now_us;
		move->absolute = true;
		walk->move = move;
		rc = do_range(walk, (struct hwts_place){ at_us, INT64_MIN }, at_us + 1);
	}
	if (rc == 0)
		rc = do_range(walk, (struct hwts_place){ INT64_MIN, 0 }, at_us);
	if (rc == 0 && move)
		rc = do_range(walk, (struct hwts_place){ at_us, INT64_MAX }, HWTS_NEVER);
	return rc;
}

int hwts_many(hwt_store *store, struct hwts_about *about, struct hwts_move *move, uint64_t *n)
{
	struct walk *walk = hwts_alloc(sizeof(*walk));
	int rc = walk ? hwts_kind_of(store, about->kind, NULL, &about->row) : ENOMEM;

	if (rc == 0)
		rc = hwts_conns_get(store, &walk->conn);
	if (rc == 0) {
		walk->store = store;
		walk->about = about;
		walk->size = SLICE_FIRST;
		walk->list = (struct hwts_list){ .states = about->states |
							   (means_pending(walk) ? 1u << HWT_STORE_RUNNING : 0),
						 .group = about->group,
						 .any_group = about->any_group };
		rc = hwts_conns_put(store, walk->conn, walk_all(walk, move));
		*n = walk->n;
		free(walk->list.places);
	}
	free(walk);
	return rc == ENOENT ? 0 : rc; /* ENOENT: a kind that was never made has no timeouts */
}
