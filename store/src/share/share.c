/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The share of this process: its lease, and the shards that it holds.
 *
 * Structure
 *
 *   shard:  free (no owner, or the owner's lease is over) --take: epoch + 1--> held --give--> free
 *
 *   Each process wants ceil(shards / live members) shards of a kind; none while it is unable to work (ability.c) and
 *   another process runs the kind.  A process with fewer shards takes free ones, beginning with a random one.  A
 *   process with more marks shards as giving: no row is begun in them, and each is given once no row runs there.  A
 *   shard in which a row still runs after a third of a lease is kept for a lease, so that its other rows do not wait.
 *
 *   A process that is being stopped gives all its shards.  From its next renewal on it does not count as a member,
 *   however long it waits for its tasks, so other processes take the shards.
 *
 *   A taker names the epoch that it has read, so of two takers one gets the shard.
 *
 * Threads
 *
 *   Control calls these functions; before control exists, hwt_store_start joins and renews for the first time.
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

/* How often the lease is renewed: a look follows each renewal, so twice within each kind's horizon, too. */
static int64_t period_ns(hwt_store *store)
{
	int64_t period = lease_ns(store) / 3;

	hwts_lock(store);
	HWTS_EACH_KIND (store, kind)
		period = HWTS_MIN(period, kind->row.horizon_us * 1000 / 2);
	hwts_unlock(store);
	return period;
}

/* The caller holds store->lock, releases it, and then calls hwts_window_drop_lost. */
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

/* The caller holds store->lock.  False: the shard was held, and is lost: another process may have it by now. */
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

			/* In the first round idle shards, in the second busy ones. */
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

/* The index of the kind's first shard: renewal->shards are sorted by kind. */
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

/* The caller holds store->lock.  Marks shards of a kind to be given, and appends those to be taken to take. */
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
	leaves = hwts_ability_lacks(store) && members > 0; /* members does not count this process then */
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
 * The caller holds store->lock.  True: the database names this process as the owner of a shard that it neither holds
 * nor takes, and had in a lease that was lost.  A damaged row may have the number of no shard.
 */
static bool is_stray(hwt_store *store, const struct hwts_shard_row *row)
{
	const struct hwts_shard *shard = hwts_shard(store, row->shard, NULL);

	return row->mine && !row->taken && shard && !shard->held;
}

/*
 * The caller holds store->lock.  In how long owners of shards may change.  A free shard that this process does not
 * take is left to another member; that member may be dead, and counts until its lease ends.
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

/* Gives and takes shards after a renewal.  *left_us: in how long their owners may change. */
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
	strays = take + count; /* take has room for both: no shard is both taken and a stray */
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

/*
 * A renewal has found no row of this process.  An old row may have been removed; a row that this process has just
 * made cannot be gone, so it is hidden.
 */
static int lost(hwt_store *store)
{
	const char *prefix = store->db->prefix, *name = hwts_me(store->db);
	struct hwts_loss *loss = &store->share->loss;
	bool missing = loss->joined;
	int rc;

	loss->joined = false; /* at the next try the row is no longer new */
	rc = hwts_check_here(store, hwts_conn(store, HWTS_CONTROL), missing, &loss->remade);
	if (rc != 0)
		return rc;
	loss->told |= hwts_share_tell_remade(store);
	if (!loss->told && loss->removed)
		hwts_warn(store,
			  "the lease of %s is lost: its row of %s_member was removed or changed: somebody has"
			  " emptied that table, or restored a backup, or set the server's clock",
			  name, prefix);
	else if (!loss->told)
		hwts_warn(store,
			  "the lease of %s is lost: this process, its machine or the database stood still for too long",
			  name);
	loss->told = true;
	return hwts_share_join_again(store);
}

/* Takes in a renewal that has come back: the clock, and whether the lease is renewed or lost. */
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
		store->share->renewal.waits[0] = '\0'; /* no shard is held, so no row waits */
		HWTS_TALLY(store, lost_leases, !loss->counted);
		loss->counted = true;
		lose_all(store);
	}
	hwts_unlock(store);
	if (renewal->renewed) {
		(void)hwts_share_tell_remade(store);
		*loss = (struct hwts_loss){ .told = false };
		return 0;
	}
	hwts_window_drop_lost(store);
	return lost(store);
}

/*
 * Loses the shards of a kind of which the table has no row: it was emptied, or its rows are hidden, and no timeout of
 * the kind can run.
 */
static int check_shards(hwt_store *store, const struct hwts_renewal *renewal)
{
	const struct hwts_kind *bare = NULL;
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
	rc = hwts_check_here(store, hwts_conn(store, HWTS_CONTROL), true, &store->share->loss.remade);
	return rc ? rc
		  : hwts_fail(EIO,
			      "%s_shard has no row for kind %s: it was emptied, or restored in part: restore it from a "
			      "backup",
			      store->db->prefix, bare->name);
}

/* Decides whether other processes are to have the shards of this one. */
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

int hwts_share_look(hwt_store *store, int64_t *next_ns, int *shards)
{
	struct hwts_renewal *renewal = &store->share->renewal;
	int64_t left_us = HWTS_NEVER;
	int rc;

	*shards = 0;
	store->share->skipped_count = 0; /* the skipped shards were those of the last lease and name */
	judge(store, renewal);
	renewal->waits[0] = '\0'; /* without a lease the counts are those of the last one */
	if (hwts_trusted(store))
		hwts_waits_tell(store, renewal->waits);
	hwts_starts_tell(store, renewal->starts);
	rc = renew(store, renewal);
	if (rc == 0 && !renewal->renewed) /* the process has joined again: renews once more, with no shard held */
		rc = renew(store, renewal);
	*next_ns = hwt_now() + period_ns(store);
	/* The lease is renewed, even if the balance of shards fails. */
	if (rc == 0)
		*shards = act(store, renewal, &left_us);
	if (left_us < lease_ns(store) / 1000)
		*next_ns = HWTS_MIN(*next_ns, hwt_now() + left_us * 1000 + HWT_MS(20));
	if (rc == 0 && *shards == 0)
		*shards = check_shards(store, renewal);
	return rc;
}
