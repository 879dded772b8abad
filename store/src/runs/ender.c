/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ender: commits the ends of runs in batches, and repeats them until the database has them.
 *
 * An end that the database refuses must not hold up the others.  A batch that is refused is tried by halves.  A single
 * row that is refused is tried with its error text in ASCII, then, if it has started, as FAILED.  If the database
 * refuses that too, the end is set aside in memory and tried again each lease; the row stays with this process.
 */
#include "runs/ender.h"
#include "runs/ended.h"
#include "store/ability.h"
#include "store/clock.h"
#include "store/ends.h"
#include "store/conns.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

#include <stdio.h>

#define LOCKED_NS HWT_MS(20) /* how soon to try again a row that another transaction has locked */

static bool has_failed(const struct hwts_row *row)
{
	return row->hit && row->how == HWTS_FAIL && !row->replaced;
}

static void count(hwt_store *store, const struct hwts_row *row)
{
	if (!row->hit || row->give_back)
		return;
	HWTS_TALLY_OF(store, row->kind, done,
		      !row->error[0] && !row->again &&
			  (row->how == HWTS_DONE || (row->how == HWTS_AT && row->next_attempt == 0)));
	HWTS_TALLY_OF(store, row->kind, failed, has_failed(row));
	HWTS_TALLY_OF(store, row->kind, retried,
		      row->how != HWTS_DONE && row->how != HWTS_FAIL && row->error[0] && !row->replaced);
}

/* Tells a caller that waits for this end.  0: committed; ESTALE: another process has begun the row; EIO: set aside. */
static void tell(hwt_store *store, struct hwts_row *row, int rc)
{
	if (!row->told)
		return;
	*row->told = rc;
	row->told = NULL;
	hwts_stir(store);
}

/*
 * The caller holds store->lock.  If the end has changed no row, it may have been filed before, with its reply lost: the
 * next begin tells.
 */
static int64_t next_due_us(const hwt_store *store, const struct hwts_row *row)
{
	if (!row->hit)
		return hwts_clock_db_us(store);
	return row->how == HWTS_AT || row->how == HWTS_AFTER ? row->when_us : HWTS_NEVER;
}

void hwts_finished(hwt_store *store, struct hwts_row *row)
{
	struct hwts_shard *shard = hwts_shard(store, row->shard, NULL);

	count(store, row);
	tell(store, row, row->hit ? 0 : ESTALE);
	if (row->hit && row->replaced) {
		row->how = HWTS_AT;
		row->when_us = row->next_due_us;
		row->rest_us = row->next_attempt = 0;
		row->waits = HWT_STORE_STARTS;
	}
	shard->ending -= row->ending;
	hwts_inactive(store, shard);
	hwts_window_ended(store, row, next_due_us(store, row));
}

struct ender {
	hwt_store *store;
	struct hwts_row *aside;            /* tried again at again_ns */
	struct hwts_row *told, **told_end; /* ends of which the program has not been told */
	unsigned failures;
};

/* True: the store is being stopped and its lease is over, so other processes run these rows again. */
static bool is_pointless(hwt_store *store)
{
	bool pointless;

	hwts_lock(store);
	pointless = hwts_phase(store) == HWTS_STOPPING && !hwts_trusted(store);
	hwts_unlock(store);
	return pointless;
}

enum answer { TAKEN, REFUSED, POINTLESS };

/* This process does not learn what became of these ends. */
static void doubt(struct hwts_row *rows)
{
	for (struct hwts_row *row = rows; row; row = row->next)
		row->unsure = true;
}

/* Sends ends until the database has committed or refused them. */
static enum answer offer(struct ender *ender, struct hwts_row *rows)
{
	hwt_store *store = ender->store;
	int rc;

	for (;;) {
		rc = hwts_connect_role(store, HWTS_END);
		if (rc == 0) {
			struct hwts_conn *conn = hwts_conn(store, HWTS_END);

			conn->refused = false;
			rc = hwts_rows_end(conn, rows);
			if (rc == 0 || conn->refused) {
				hwts_works(store, HWTS_END, &ender->failures);
				return rc == 0 ? TAKEN : REFUSED;
			}
			if (rc == ECONNRESET)
				doubt(rows);
		}
		hwts_fails(store, HWTS_END, rc);
		if (is_pointless(store)) {
			doubt(rows);
			return POINTLESS;
		}
		hwts_lock(store);
		hwts_ability_note(store, HWTS_END, false);
		hwts_rest(store, &ender->failures);
		hwts_unlock(store);
	}
}

/* Tries other forms of an end that was refused.  If these are refused, too, sets the row aside. */
static void mend(struct ender *ender, struct hwts_row *row)
{
	hwt_store *store = ender->store;
	const struct hwts_row is = *row;

	if (hwts_to_ascii(row->error) && offer(ender, row) != REFUSED)
		return;
	if (!row->give_back) { /* a run that never started cannot fail */
		(void)snprintf(row->error, sizeof(row->error), "its end was refused: %.200s", hwts_fail_text());
		(void)hwts_to_ascii(row->error);
		row->how = HWTS_FAIL;
		if (offer(ender, row) != REFUSED)
			return;
	}
	*row = is;
	row->aside = row->refused = true;
	row->again_ns = hwt_now() + store->config.lease_ns;
	if (is.refused)
		return;
	hwts_warn(store, "end: timeout %lld is set aside, and is tried again each lease: %s", (long long)row->id,
		  hwts_fail_text());
	HWTS_TALLY_ALONE(store, set_aside, 1);
}

/* Ends all rows of the list, and leaves the list as it is. */
static void commit(struct ender *ender, struct hwts_row *rows)
{
	struct hwts_row *half = rows, *rest;
	size_t n = 0;

	for (const struct hwts_row *row = rows; row; row = row->next)
		n++;
	if (offer(ender, rows) != REFUSED)
		return;
	if (n == 1) {
		mend(ender, rows);
		return;
	}
	for (size_t i = 1; i < n / 2; i++)
		half = half->next;
	rest = half->next;
	half->next = NULL;
	commit(ender, rows);
	commit(ender, rest);
	half->next = rest;
}

/* Warns of rows that are FAILED in the database.  Without store->lock, because the warning may call the store. */
static void warn_of_failed(hwt_store *store, const struct hwts_row *rows)
{
	for (const struct hwts_row *row = rows; row; row = row->next)
		if (has_failed(row))
			hwts_warn(store, "timeout %lld of kind %s has failed for good after %u attempts: %s",
				  (long long)row->id, row->kind->name, row->attempt, row->error);
}

/*
 * The caller holds store->lock.  Queues the ends set aside whose time has come; when the store stops, the refused ones
 * too.
 */
static void try_again(struct ender *ender, int64_t *next_ns)
{
	hwt_store *store = ender->store;
	int64_t now_ns = hwt_now();

	*next_ns = INT64_MAX;
	for (struct hwts_row **link = &ender->aside, *row; (row = *link) != NULL;) {
		if (row->again_ns > now_ns && !(hwts_halts(store, HWTS_END) && row->refused)) {
			*next_ns = HWTS_MIN(*next_ns, row->again_ns);
			link = &row->next;
			continue;
		}
		*link = row->next;
		row->aside = false;
		hwts_ends_put(store, row);
	}
}

static void keep_told(struct ender *ender, struct hwts_row *row)
{
	row->next = NULL;
	*ender->told_end = row;
	ender->told_end = &row->next;
}

static void tell_ended(struct ender *ender)
{
	for (struct hwts_row *row = ender->told, *next; row; row = next) {
		next = row->next;
		hwts_tell_ended(ender->store, row);
		free(row);
	}
	ender->told = NULL;
	ender->told_end = &ender->told;
}

/* The caller holds store->lock. */
static void settle(struct ender *ender, struct hwts_row *row)
{
	hwt_store *store = ender->store;
	bool late = hwts_halts(store, HWTS_END) && hwt_now() >= store->ends->until_ns,
	     pointless = hwts_phase(store) == HWTS_STOPPING && (late || !hwts_trusted(store));

	if (!row->hit && !row->locked && !row->marked && !row->aside && !pointless) {
		row->marked = true;
		hwts_ends_put(store, row);
		return;
	}
	if (row->locked && !row->aside) {
		row->aside = true;
		row->again_ns = hwt_now() + LOCKED_NS;
	}
	if (!row->aside || pointless || (hwts_halts(store, HWTS_END) && row->refused)) {
		hwts_finished(store, row); /* if the end has changed no row, the row runs again somewhere */
		if (hwts_is_told(store, row))
			keep_told(ender, row);
		else
			free(row);
		return;
	}
	if (row->refused)
		tell(store, row, EIO);
	row->next = ender->aside;
	ender->aside = row;
}

void *hwts_ender(void *arg)
{
	struct ender ender = { .store = arg };
	hwt_store *store = arg;
	int64_t next_ns;

	ender.told_end = &ender.told;
	hwts_lock(store);
	for (;;) {
		try_again(&ender, &next_ns);
		if (!store->ends->first && !ender.aside && hwts_halts(store, HWTS_END) && store->ends->lent == 0)
			break;
		if (!store->ends->first) {
			if (ender.aside)
				hwts_wait_for(store, HWTS_END, next_ns - hwt_now());
			else
				hwts_wait(store, HWTS_END);
			continue;
		}
		struct hwts_row *rows = hwts_ends_pop(store);

		hwts_unlock(store);
		commit(&ender, rows);
		HWTS_POINT("ended");
		warn_of_failed(store, rows);
		hwts_lock(store);
		if (ender.failures == 0)
			hwts_ability_note(store, HWTS_END, true);
		for (struct hwts_row *next; rows; rows = next) {
			next = rows->next;
			settle(&ender, rows);
		}
		if (!ender.told)
			continue;
		hwts_unlock(store);
		tell_ended(&ender);
		hwts_lock(store);
	}
	hwts_unlock(store);
	return NULL;
}
