/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The share of this process: its lease, and the shards that it holds.
 *
 * Structure
 *
 *   shard:  free (no owner, or the owner's lease is over) --take: epoch + 1--> held --give--> free
 *
 *   Each process wants ceil(shards / live members) of a kind, but none while it is unable to work (ability.c).  With
 *   fewer it takes free ones, beginning anywhere.  With more it marks some as giving: nothing more is begun in them,
 *   and once nothing runs there they are given.  A shard in which something still runs after a third of a lease is
 *   kept for a lease, so that the rest of it does not wait.
 *
 *   One that is being stopped gives all that it has, and is no member from its next renewal on, however long it waits
 *   for its tasks: so others take what it has given.
 *
 *   A taker names the epoch that it has read, so of two takers one gets the shard.
 *
 * Threads
 *
 *   All by control; hwts_share_join and the first renewal also by hwt_store_start, before there is a control.
 */
#include "ahead/ahead.h"
#include "runs/begun.h"
#include "share/share.h"
#include "share/why.h"
#include "store/ability.h"
#include "store/clock.h"
#include "store/conns.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

static int64_t lease_ns(const hwt_store *store)
{
	return store->config.lease_ns;
}

/* How often the lease is renewed: in time for the window, too. */
static int64_t period_ns(hwt_store *store)
{
	int64_t period = lease_ns(store) / 3;

	hwts_lock(store);
	HWTS_EACH_KIND (store, kind)
		period = HWTS_MIN(period, kind->row.horizon_us * 1000 / 2);
	hwts_unlock(store);
	return period;
}

/* With the lock; without it then hwts_window_drop_lost. */
static void lose_all(hwt_store *store)
{
	hwts_waits_lose(store);
	HWTS_EACH_SHARD (store, kind, shard)
		hwts_lose(store, shard);
	hwts_give_back_queued(store, false);
}

/*
 * Balance
 */

/* With the lock.  Someone else may have it by now; false: it is lost. */
static bool check_held(hwt_store *store, const struct hwts_shard_row *row)
{
	struct hwts_shard *shard = hwts_shard(store, row->shard, NULL);

	if (!shard || !shard->held || (row->mine && shard->epoch == row->epoch)) {
		if (shard && shard->held && row->rules != shard->rules)
			hwts_rules_changed(store, row->shard);
		return true;
	}
	hwts_lose(store, shard);
	return false;
}

static void give_some(hwt_store *store, struct hwts_kind *kind, uint32_t too_many)
{
	for (int busy = 0; busy < 2 && too_many > 0; busy++) {
		for (uint32_t i = 0; i < kind->row.shards && too_many > 0; i++) {
			struct hwts_shard *shard = &kind->shards[i];

			/* Idle ones first. */
			if (!shard->held || shard->giving || (shard->active > 0) != (busy == 1) ||
			    (busy == 1 && hwt_now() < shard->stays_until_ns))
				continue;
			shard->giving = true;
			shard->giving_since_ns = hwt_now();
			too_many--;
		}
	}
	hwts_give_back_queued(store, false);
}

/* The first of the kind's shards, which lie side by side. */
static size_t first_of(const struct hwts_renewal *renewal, const struct hwts_kind *kind)
{
	size_t from = 0, to = renewal->shard_count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (renewal->shards[middle].shard / HWTS_SHARDS_MAX < kind->row.id)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* With the lock: decides about a kind; adds what is to be taken to take. */
static void balance(hwt_store *store, struct hwts_kind *kind, uint32_t members, struct hwts_renewal *renewal,
		    struct hwts_shard_row *take, size_t *take_count)
{
	uint32_t want, have = 0, stay = 0;
	size_t first = first_of(renewal, kind), count = 0, from;
	bool leaves;

	while (first + count < renewal->shard_count &&
	       renewal->shards[first + count].shard / HWTS_SHARDS_MAX == kind->row.id)
		count++;
	from = count ? hwts_random() % count : 0;
	leaves = hwts_ability_lacks(store) && members > 0; /* it is none of them */
	want = leaves ? 0 : (kind->row.shards + HWTS_MAX(members, 1) - 1) / HWTS_MAX(members, 1);
	for (uint32_t i = 0; i < kind->row.shards; i++) {
		struct hwts_shard *shard = &kind->shards[i];

		if (shard->giving && !leaves && hwt_now() - shard->giving_since_ns > lease_ns(store) / 3) {
			shard->giving = false;
			shard->stays_until_ns = hwt_now() + lease_ns(store);
		}
		have += shard->held;
		stay += shard->held && !shard->giving;
	}
	if (stay > want)
		give_some(store, kind, stay - want);
	for (size_t i = 0; i < count && have < want; i++) {
		struct hwts_shard_row *row = &renewal->shards[first + (from + i) % count];
		const struct hwts_shard *shard = hwts_shard(store, row->shard, NULL);

		if (!shard || shard->held || !(row->free || row->mine))
			continue;
		row->taken = true;
		take[(*take_count)++] = *row;
		have++;
	}
}

/*
 * With the lock.  What the database says is ours, and is neither held nor wanted, is of a lease that was lost.  No
 * shard: a damaged row, which has a number that the kind does not.
 */
static bool is_stray(hwt_store *store, const struct hwts_shard_row *row)
{
	const struct hwts_shard *shard = hwts_shard(store, row->shard, NULL);

	return row->mine && !row->taken && shard && !shard->held;
}

/*
 * With the lock: when the shards may be others' than they are now.  One that is free and stays free is left to a member
 * that may be dead: it is counted until its lease ends.
 */
static int64_t change_us(const hwt_store *store, const struct hwts_renewal *renewal)
{
	int64_t next_us = HWTS_NEVER;

	for (size_t i = 0; i < renewal->shard_count; i++) {
		const struct hwts_shard_row *row = &renewal->shards[i];

		if (!row->mine && !row->free)
			next_us = HWTS_MIN(next_us, row->left_us);
		else if (row->free && !row->taken && !hwts_ability_lacks(store))
			next_us = HWTS_MIN(next_us, HWTS_S_US);
	}
	return next_us;
}

/* Acts on what a renewal said about the shards; *left_us is when they may have changed. */
static int act(hwt_store *store, struct hwts_renewal *renewal, int64_t *left_us)
{
	struct hwts_shard_row *take = hwts_alloc(renewal->shard_count * sizeof(*take)), *strays;
	size_t count = 0, stray_count = 0;
	bool lost = false;
	int rc = 0;

	if (!take)
		return ENOMEM;
	free(store->share->skipped);
	store->share->skipped = take;
	hwts_lock(store);
	for (size_t i = 0; i < renewal->shard_count; i++)
		lost |= !check_held(store, &renewal->shards[i]);
	if (lost)
		hwts_give_back_queued(store, false);
	for (size_t i = 0; i < renewal->kind_count && hwts_phase(store) == HWTS_STARTED; i++)
		HWTS_EACH_KIND (store, kind)
			if (kind->row.id == renewal->kinds[i])
				balance(store, kind, renewal->members[i], renewal, take, &count);
	strays = take + count; /* there is room for both: none is taken that is a stray */
	for (size_t i = 0; i < renewal->shard_count; i++)
		if (is_stray(store, &renewal->shards[i]))
			strays[stray_count++] = renewal->shards[i];
	*left_us = change_us(store, renewal);
	hwts_unlock(store);
	if (lost)
		hwts_window_drop_lost(store);
	if (stray_count > 0)
		rc = hwts_rows_give(hwts_conn(store, HWTS_CONTROL), strays, stray_count);
	if (rc == 0 && count > 0)
		rc = hwts_share_take(store, take, &count);
	store->share->skipped_count = rc == 0 ? count : 0;
	return rc;
}

/* A row that was there before may have gone with time; one that was made a moment ago is hidden. */
static int lost(hwt_store *store)
{
	const char *prefix = store->db->prefix, *name = hwts_me(store->db);
	struct hwts_loss *loss = &store->share->loss;
	bool missing = loss->joined;
	int rc;

	loss->joined = false; /* once: the next time it may have gone with time, too */
	rc = hwts_check_here(store, hwts_conn(store, HWTS_CONTROL), missing, &loss->remade);
	if (rc != 0)
		return rc;
	if (loss->remade)
		hwts_share_tell_remade(store);
	else if (!loss->told && loss->removed)
		hwts_warn(store,
			  "the lease of %s is lost: its row of %s_member was removed or changed: somebody has"
			  " emptied that table, or restored a backup, or set the server's clock",
			  name, prefix);
	else if (!loss->told)
		hwts_warn(store,
			  "the lease of %s is lost: this process, its machine or the database stood still for too long",
			  name);
	loss->told = true;
	loss->remade = false;
	return hwts_share_join_again(store);
}

/* The renewal has come back. */
static int renewed(hwt_store *store, const struct hwts_renewal *renewal, int64_t sent_boot_ns, int64_t slept_ns)
{
	const struct hwts_trip trip = { renewal->sent_ns, renewal->reply_ns, slept_ns };
	struct hwts_loss *loss = &store->share->loss;

	hwts_lock(store);
	if (hwts_clock_sample(store, renewal->now_us, &trip))
		hwts_window_rearm(store);
	if (renewal->renewed) {
		hwts_trust(store, sent_boot_ns + lease_ns(store) / 6 * 5);
		hwts_ability_away(store, false);
		hwts_reader_renewed(store, renewal);
		hwts_wake_all(store, HWTS_BEGIN);
		hwts_wake_all(store, HWTS_READ);
		hwts_wake_all(store, HWTS_TASK);
		hwts_wake_all(store, HWTS_END);
	} else {
		loss->removed |= hwts_trusted(store);
		hwts_trust(store, 0);
		hwts_ability_forget(store);
		store->share->renewal.absent = false;
		store->share->renewal.waits[0] = '\0'; /* nothing is held, so nothing waits */
		HWTS_TALLY(store, lost_leases, !loss->counted);
		loss->counted = true;
		lose_all(store);
	}
	hwts_unlock(store);
	if (renewal->renewed) {
		*loss = (struct hwts_loss){ .told = false };
		return 0;
	}
	hwts_window_drop_lost(store);
	return lost(store);
}

/* A kind without a row of a shard: the table was emptied, or hides them, and nothing of the kind can run. */
static int check_shards(hwt_store *store, const struct hwts_renewal *renewal)
{
	const struct hwts_kind *bare = NULL;
	bool ignored = false; /* the text says it, too */
	int rc;

	hwts_lock(store);
	HWTS_EACH_KIND (store, kind) {
		size_t first = first_of(renewal, kind);

		if (first < renewal->shard_count && renewal->shards[first].shard / HWTS_SHARDS_MAX == kind->row.id)
			continue;
		for (uint32_t i = 0; i < kind->row.shards; i++)
			hwts_lose(store, &kind->shards[i]);
		bare = kind;
	}
	if (bare)
		hwts_give_back_queued(store, false);
	store->share->bare = bare != NULL;
	hwts_unlock(store);
	if (!bare)
		return 0;
	hwts_window_drop_lost(store);
	rc = hwts_check_here(store, hwts_conn(store, HWTS_CONTROL), true, &ignored);
	return rc ? rc
		  : hwts_fail(EIO,
			      "%s_shard has no row for kind %s: it was emptied, or restored in part: restore it from a "
			      "backup",
			      store->db->prefix, bare->name);
}

/* Whether others are to have what is this process's. */
static void judge(hwt_store *store, struct hwts_renewal *renewal)
{
	bool told;

	hwts_lock(store);
	renewal->absent = hwts_ability_judge(store, &told) || hwts_phase(store) == HWTS_STOPPING;
	hwts_unlock(store);
	if (told)
		hwts_warn(store,
			  "this process has failed to begin, to end or to read for %lld ms: other processes may have "
			  "its shards"
			  " until it can",
			  (long long)(lease_ns(store) / HWT_MS(1)));
}

static int renew(hwt_store *store, struct hwts_renewal *renewal)
{
	int64_t sent_boot_ns = hwts_boot_ns(), slept_ns = hwts_clock_slept_ns();
	int rc;

	rc = hwts_rows_renew(hwts_conn(store, HWTS_CONTROL), renewal);
	HWTS_POINT("renewed");
	return rc ? rc : renewed(store, renewal, sent_boot_ns, slept_ns);
}

/* Renews, and balances.  *next_ns: when to come again at the latest. */
int hwts_share_look(hwt_store *store, int64_t *next_ns, int *shards)
{
	struct hwts_renewal *renewal = &store->share->renewal;
	int64_t left_us = HWTS_NEVER;
	int rc;

	*shards = 0;
	store->share->skipped_count = 0; /* it was this lease's and this name's */
	judge(store, renewal);
	renewal->waits[0] = '\0'; /* without a lease what waits is what the last one had */
	if (hwts_trusted(store))
		hwts_waits_tell(store, renewal->waits);
	rc = renew(store, renewal);
	if (rc == 0 && !renewal->renewed) /* joined again: once more, with nothing held */
		rc = renew(store, renewal);
	*next_ns = hwt_now() + period_ns(store);
	/* The lease is renewed, whatever becomes of shards. */
	if (rc == 0)
		*shards = act(store, renewal, &left_us);
	if (left_us < lease_ns(store) / 1000)
		*next_ns = HWTS_MIN(*next_ns, hwt_now() + left_us * 1000 + HWT_MS(20));
	if (rc == 0 && *shards == 0)
		*shards = check_shards(store, renewal);
	return rc;
}
