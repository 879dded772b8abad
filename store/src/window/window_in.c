/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What comes into the window: from puts, news and looks.
 *
 * News may come late and in any order, so of two times for one id the earlier one counts: too early costs a begin in
 * vain, which then reads the time from the row; too late would be late.
 */
#include "store/asks.h"
#include "store/clock.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

/* What runs counts, and is always kept.  A rest may be due, or be wanted, earlier now than the reader has thought. */
static bool keeps(hwt_store *store, struct hwts_kind *kind, const struct hwts_due *due)
{
	bool waits = hwts_turns_ready(&kind->turns);
	unsigned firsts = kind->turns.firsts;

	if (due->epoch != 0 || hwts_turns_keeps(&kind->turns, due, hwts_window_share(store)))
		return true;
	if (kind->turns.firsts != firsts)
		hwts_wake(store, HWTS_READ);
	if (!waits && hwts_turns_ready(&kind->turns))
		hwts_wake(store, HWTS_BEGIN);
	return false;
}

int64_t hwts_window_soon_us(const hwt_store *store, const struct hwts_kind *kind)
{
	return HWTS_MIN(store->config.lease_ns / 3000, kind->row.horizon_us);
}

/*
 * What is due before the next look does not wait for one that is behind; but it does as long as no look has read the
 * shard, for its rules may be unknown.
 */
static bool passes_look(const hwt_store *store, const struct hwts_kind *kind, const struct hwts_shard *shard,
			const struct hwts_due *due)
{
	return shard->mark_due_us != INT64_MIN && shard->unruled != HWTS_NEW &&
	       due->due_us < kind->turns.now_us + hwts_window_soon_us(store, kind) &&
	       kind->entries < 2 * hwts_window_limit(store);
}

/* False: no memory, and the look-ahead is to find it again. */
static bool add(hwt_store *store, struct hwts_kind *kind, const struct hwts_due *due, bool unsure)
{
	struct hwts_entry *entry = hwts_window_insert(store, kind, due);

	if (!entry) {
		hwts_ask(store, HWTS_LOAD);
		return false;
	}
	entry->unsure = unsure;
	hwts_turns_elsewhere(&entry->turn, due->epoch != 0);
	if (entry->turn.elsewhere || unsure)
		hwts_turns_count(&entry->turn);
	entry->last = hwts_is_last(kind, 0);
	hwts_window_arm(entry, due->due_us);
	return entry->state != HWTS_FREE;
}

static bool takes(hwt_store *store, struct hwts_kind *kind, const struct hwts_shard *shard, const struct hwts_due *due)
{
	return (!hwts_window_is_for_a_look(shard, due) || passes_look(store, kind, shard, due)) &&
	       keeps(store, kind, due);
}

/* It waits for its turn, which may be the first of its group now, or no longer. */
static void change_priority(struct hwts_entry *entry)
{
	struct hwts_turns *turns = &entry->kind->turns;
	bool waits = hwts_turns_ready(turns);

	hwts_turns_remove(turns, &entry->turn);
	entry->turn.priority = entry->priority;
	hwts_turns_add(turns, &entry->turn);
	hwts_window_want_rest(entry->store, entry->kind, entry->turn.group);
	if (!waits && hwts_turns_ready(turns))
		hwts_wake(entry->store, HWTS_BEGIN);
}

/* older: the window has heard of the row since that was read.  Then the time alone counts, if it is earlier. */
static void see(hwt_store *store, struct hwts_entry *entry, const struct hwts_due *due, bool older)
{
	hwts_window_known(entry);
	entry->len = HWTS_MAX(entry->len, due->len);
	if (!older)
		entry->priority = due->priority;
	entry->heard = hwts_window_number(store);
	if (entry->state == HWTS_ARMED) {
		if (!older && entry->why != HWT_STORE_STARTS && due->due_us != entry->turn.due_us &&
		    due->due_us > hwts_clock_db_us(store))
			entry->why = HWT_STORE_STARTS; /* it has been moved, and is not due */
		if (due->due_us < entry->turn.due_us && !entry->aside)
			hwts_window_arm_again(entry, due->due_us);
	} else {
		entry->again_us = HWTS_MIN(entry->again_us, due->due_us);
		if (entry->state == HWTS_IS_DUE && entry->turn.priority != entry->priority)
			change_priority(entry);
	}
}

void hwts_window_read(hwt_store *store, const struct hwts_due *due, uint64_t heard)
{
	struct hwts_kind *kind;
	struct hwts_shard *shard = hwts_shard(store, due->shard, &kind);
	struct hwts_entry *entry = hwts_window_find(store, due->id);

	if (!shard || !shard->held || !store->window->timer || HWTS_TEST(loses_rows))
		return;
	if (entry) {
		see(store, entry, due, entry->heard > heard);
		return;
	}
	hwts_turns_at(&kind->turns, hwts_clock_db_us(store));
	if (takes(store, kind, shard, due))
		(void)add(store, kind, due, false);
}

void hwts_window_see(hwt_store *store, const struct hwts_due *due)
{
	hwts_window_read(store, due, UINT64_MAX);
}

/* Beyond a kind's share what news tell is left to a look, so that forged news leave room for rows. */
void hwts_window_hear(hwt_store *store, const struct hwts_due *due)
{
	struct hwts_kind *kind = NULL;
	const struct hwts_shard *shard = hwts_shard(store, due->shard, &kind);
	struct hwts_entry *entry = hwts_window_find(store, due->id);
	bool told = !entry || entry->told;

	if (shard && !entry && kind->told >= hwts_window_limit(store)) {
		if (!hwts_window_is_for_a_look(shard, due))
			hwts_ask(store, HWTS_LOAD);
		return;
	}
	hwts_window_see(store, due);
	entry = hwts_window_find(store, due->id);
	if (entry && told && !entry->told) {
		entry->told = true;
		kind->told++;
		kind->entries--;
	}
}

bool hwts_window_refill(hwt_store *store, const struct hwts_rest *rest, const struct hwts_due *due, uint64_t heard)
{
	struct hwts_kind *kind;
	struct hwts_shard *shard = hwts_shard(store, due->shard, &kind);
	const struct hwts_entry *entry = hwts_window_find(store, due->id);

	if (!shard || !shard->held || !store->window->timer)
		return true;
	if (!entry && !hwts_rest_keeps(&kind->turns, rest, due, hwts_window_share(store)))
		return false;
	if (!entry)
		(void)add(store, kind, due, false);
	else if (entry->state == HWTS_ARMED)
		hwts_window_read(store, due, heard);
	return true;
}

uint64_t hwts_window_number(hwt_store *store)
{
	return ++store->window->heard;
}

uint64_t hwts_window_heard(hwt_store *store, int64_t id)
{
	const struct hwts_entry *entry = hwts_window_find(store, id);

	return entry ? entry->heard : 0;
}

/*
 * To a later time, too, if nothing was heard between the statement and now: what is heard from now on comes of a change
 * behind this one, or costs a begin in vain.
 */
void hwts_window_move(hwt_store *store, const struct hwts_due *due, uint64_t heard)
{
	struct hwts_shard *shard = hwts_shard(store, due->shard, NULL);
	struct hwts_entry *entry = hwts_window_find(store, due->id);

	if (!shard || !entry || entry->state != HWTS_ARMED || entry->heard != heard || entry->aside ||
	    due->due_us <= entry->turn.due_us) {
		hwts_window_see(store, due);
		return;
	}
	entry->heard = hwts_window_number(store);
	entry->why = HWT_STORE_STARTS;
	if (hwts_window_is_for_a_look(shard, due))
		hwts_window_erase(entry);
	else
		hwts_window_arm_again(entry, due->due_us);
}

bool hwts_window_rescue(hwt_store *store, const struct hwts_due *due)
{
	struct hwts_kind *kind;
	struct hwts_shard *shard = hwts_shard(store, due->shard, &kind);
	struct hwts_entry *entry = hwts_window_find(store, due->id);

	if (!shard || !shard->held || !store->window->timer)
		return false;
	if (!entry && !hwts_window_is_beyond(shard, due) && !hwts_turns_rests(&kind->turns, due)) {
		HWTS_COUNT_RESCUE();
		hwts_turns_at(&kind->turns, hwts_clock_db_us(store));
		if (keeps(store, kind, due))
			(void)add(store, kind, due, false);
		return true;
	}
	if (entry && entry->state == HWTS_ARMED && !entry->aside) {
		hwts_window_known(entry);
		if (entry->turn.due_us <= due->due_us)
			HWTS_COUNT_RESCUE();
		hwts_window_arm_again(entry, due->due_us);
	}
	return false;
}

/*
 * A row that this process runs has an entry, DUE or BEGUN, from before its begin until after its end.  Without one, or
 * with one that waits for the next run, its end was committed, and the server has lost it: ends are not synced.  (Or it
 * was committed after the look: then a begin or an end finds no such row.)
 */
bool hwts_window_revive(hwt_store *store, const struct hwts_due *due)
{
	struct hwts_kind *kind;
	struct hwts_shard *shard = hwts_shard(store, due->shard, &kind);
	struct hwts_entry *entry = hwts_window_find(store, due->id);

	if (!shard || !shard->held || !store->window->timer || hwts_phase(store) != HWTS_STARTED)
		return false;
	if (!entry) {
		(void)add(store, kind, due, true);
		return true;
	}
	if (entry->state == HWTS_ARMED) {
		entry->unsure = true;
		hwts_window_arm_again(entry, due->due_us);
	}
	return false;
}

/*
 * The same of what runs at most once, where it is not begun again; and one that runs under an older epoch.  There an
 * end after which the row waits again is synced: if the entry says that it waits, and the row that it runs under the
 * epoch that is held, the entry is right.
 */
struct hwts_entry *hwts_window_condemn(hwt_store *store, const struct hwts_due *due)
{
	struct hwts_kind *kind;
	struct hwts_shard *shard = hwts_shard(store, due->shard, &kind);
	struct hwts_entry *entry = hwts_window_find(store, due->id);

	if (!shard || !shard->held || !store->window->timer || hwts_phase(store) != HWTS_STARTED)
		return NULL;
	if (entry && (entry->state != HWTS_ARMED || due->part == HWTS_RUNS)) {
		if (due->part != HWTS_RUNS) /* of the older epoch, too: once that is over it is asked for again */
			entry->again_us = HWTS_MIN(entry->again_us, due->due_us);
		return NULL;
	}
	if (entry) {
		(void)hwt_cancel(entry->timeout);
		entry->again_us = entry->turn.due_us; /* news may be younger than the look */
	} else {
		entry = hwts_window_insert(store, kind, due);
		if (!entry)
			return NULL;
	}
	hwts_turns_count(&entry->turn);
	entry->state = HWTS_BEGUN;
	return entry;
}

/* It is begun as soon as a thread can: the begin tells what has become of it. */
bool hwts_window_runs(hwt_store *store, const struct hwts_due *due)
{
	struct hwts_kind *kind;
	struct hwts_shard *shard = hwts_shard(store, due->shard, &kind);
	struct hwts_entry *entry = hwts_window_find(store, due->id);

	if (!shard || !shard->held || !store->window->timer)
		return true;
	if (!entry)
		return add(store, kind, due, false);
	if (entry->state == HWTS_IS_DUE && !entry->turn.counted) {
		hwts_turns_elsewhere(&entry->turn, true);
		hwts_turns_count_queued(&kind->turns, &entry->turn);
	} else if (entry->state == HWTS_ARMED) {
		hwts_turns_elsewhere(&entry->turn, true);
		hwts_turns_count(&entry->turn);
	} else { /* under an epoch that is over, too: then it is begun again */
		entry->again_us = HWTS_MIN(entry->again_us, due->due_us);
	}
	return true;
}
