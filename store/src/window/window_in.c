/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows enter the window: from puts, news and looks.
 *
 * News may be late and in any order, so of two times for one id the earlier one counts.  A time that is too early costs
 * a begin in vain, which reads the right time from the row.  A time that is too late makes the row late.
 */
#include "store/asks.h"
#include "store/clock.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

/* False: the row goes into a rest of its group.  A row that runs is always kept, as it counts against the cap. */
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
 * A row that is due before the next look enters the window even if that look is behind.  Not before the shard's first
 * look: its rules may be unknown.
 */
static bool passes_look(const hwt_store *store, const struct hwts_kind *kind, const struct hwts_shard *shard,
			const struct hwts_due *due)
{
	return shard->mark_due_us != INT64_MIN && shard->unruled != HWTS_NEW &&
	       due->due_us < kind->turns.now_us + hwts_window_soon_us(store, kind) &&
	       kind->entries < 2 * hwts_window_limit(store);
}

/* False: no memory.  The look-ahead is asked to read the row again. */
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

/* The row keeps waiting for its turn, at another place of its group's queue. */
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

/* Notes a time of a row that is IS_DUE or BEGUN, unless it is that of the run itself. */
static void hear_again(struct hwts_entry *entry, int64_t due_us)
{
	if (entry->state != HWTS_BEGUN || entry->between || due_us != entry->turn.due_us)
		entry->again_us = HWTS_MIN(entry->again_us, due_us);
}

/* older: the window has heard of the row since this was read, so only an earlier time counts. */
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
			entry->why = HWT_STORE_STARTS; /* the row was moved, and is not due any more */
		if (due->due_us < entry->turn.due_us && !entry->aside)
			hwts_window_arm_again(entry, due->due_us);
	} else {
		hear_again(entry, due->due_us);
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

/* Beyond a kind's share of told entries, a look has to find the row: forged news must leave room for real rows. */
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
 * A time later than that of the entry counts too, if no news of the row came between the statement and now.  News that
 * comes after this call is of a younger change, or costs a begin in vain.
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
	hwts_window_not_running(entry);
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
 * A row that this process runs has an entry, IS_DUE or BEGUN, from before its begin until after its end.  Without an
 * entry, or with an ARMED one, the end was committed and the server has lost it, as ends are not synced.  (If the end
 * was committed after the look read the row, the begin finds no such row.)
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
 * The same for rows that run at most once: such a row is not begun again but made FAILED.  So is one that runs under an
 * older epoch.
 *
 * An end that files the row as pending is synced here.  So an ARMED entry is right, and a look that reads RUNNING under
 * the epoch held is old.
 */
struct hwts_entry *hwts_window_condemn(hwt_store *store, const struct hwts_due *due)
{
	struct hwts_kind *kind;
	struct hwts_shard *shard = hwts_shard(store, due->shard, &kind);
	struct hwts_entry *entry = hwts_window_find(store, due->id);

	if (!shard || !shard->held || !store->window->timer || hwts_phase(store) != HWTS_STARTED)
		return NULL;
	if (entry && (entry->state != HWTS_ARMED || due->part == HWTS_RUNS)) {
		if (due->part != HWTS_RUNS) /* older epoch: seen again when the entry's run is over */
			hear_again(entry, due->due_us);
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

/* Queues the row: its begin tells what has become of that run. */
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
	} else { /* the run under the older epoch may be over: then the row is begun again */
		hear_again(entry, due->due_us);
	}
	return true;
}
