/* SPDX-License-Identifier: BSD-2-Clause */
/* Which due row is begun next; what the window says about rows that are BEGUN. */
#include "store/clock.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

bool hwts_window_has_room_now(const hwt_store *store, const struct hwts_kind *kind)
{
	return kind->turns.queued < hwts_window_limit(store) / 2;
}

size_t hwts_window_count(const hwt_store *store)
{
	return store->window->count;
}

/* Why an entry that is due and not begun has not started, if its last try does not tell. */
static hwt_store_wait why_not(const struct hwts_entry *entry, int64_t now_ns)
{
	hwt_store_wait why = HWT_STORE_STARTS;

	if (entry->state == HWTS_IS_DUE)
		why = hwts_turns_why(&entry->kind->turns, &entry->turn, now_ns);
	if ((why == HWT_STORE_STARTS || why == HWT_STORE_WAITS_TURN) && !hwts_keeps(entry->store, entry->shard))
		why = HWT_STORE_WAITS_LEASE;
	return why;
}

/* Only the next of its group shows that nothing starts: the others wait for it. */
static void see_due(const struct hwts_entry *entry, int64_t now_ns, int64_t due_us)
{
	struct hwts_kind *kind = entry->kind;
	hwt_store_wait why = why_not(entry, now_ns);

	hwts_waits_add(&kind->waits, why, due_us, entry->id);
	if (why == HWT_STORE_STARTS && entry->turn.group->queue == &entry->turn)
		hwts_wait_join(&kind->nexts,
			       &(struct hwts_wait){ 1, due_us > 0 ? due_us : HWTS_NEVER, entry->id });
}

/*
 * Counts one entry under the reason for which it has not started.  Started rows and those in the queue are counted in
 * runs/.
 */
static void see(struct hwts_entry *entry, int64_t now_ns, int64_t now_us)
{
	struct hwts_kind *kind = entry->kind;
	int64_t due_us = HWTS_MIN(entry->turn.due_us, entry->again_us);

	if (entry->state == HWTS_IS_DUE)
		kind->oldest_us = HWTS_MIN(kind->oldest_us, entry->turn.due_us);
	if (entry->why != HWT_STORE_STARTS)
		hwts_waits_add(&kind->waits, entry->why, entry->since_us, entry->id);
	else if (entry->state == HWTS_BEGUN && entry->between)
		hwts_waits_add(&kind->waits, HWT_STORE_STARTS, due_us, entry->id);
	else if (entry->state == HWTS_IS_DUE || (entry->state == HWTS_ARMED && due_us <= now_us))
		see_due(entry, now_ns, due_us);
}

/* However often statistics are asked for, this takes half a percent of the time, or runs each third of a lease. */
static void look_through(hwt_store *store)
{
	int64_t start_ns = hwt_now(), now_us = hwts_clock_db_us(store);

	HWTS_EACH_KIND (store, kind) {
		kind->oldest_us = HWTS_NEVER;
		kind->waits = (struct hwts_waits){ { { .count = 0 } } };
		kind->nexts = (struct hwts_wait){ .count = 0 };
		/* moves paused and full groups out of the ring's front, so that first is the next group */
		(void)hwts_window_peek(kind);
	}
	for (struct hwts_slab *slab = store->window->slabs; slab; slab = slab->next)
		for (struct hwts_entry *entry = slab->entries; entry < slab->entries + HWTS_SLAB_ENTRIES; entry++)
			if (entry->state != HWTS_FREE)
				see(entry, start_ns, now_us);
	HWTS_EACH_KIND (store, kind)
		hwts_turns_rest_waits(&kind->turns, now_us, start_ns, &kind->waits);
	store->window->look_ns = hwt_now() + HWTS_MIN((hwt_now() - start_ns) * 200, store->config.lease_ns / 3);
}

void hwts_window_waits(hwt_store *store, const struct hwts_kind *kind, struct hwts_waits *waits)
{
	if (hwt_now() >= store->window->look_ns)
		look_through(store);
	hwts_waits_join(waits, &kind->waits);
}

hwt_store_wait hwts_window_why(hwt_store *store, int64_t id)
{
	const struct hwts_entry *entry = hwts_window_find(store, id);

	return entry ? (hwt_store_wait)entry->why : HWT_STORE_STARTS;
}

int64_t hwts_window_oldest_us(hwt_store *store, const struct hwts_kind *kind)
{
	if (kind->turns.queued == 0)
		return HWTS_NEVER;
	if (hwt_now() >= store->window->look_ns)
		look_through(store);
	return kind->oldest_us;
}

bool hwts_window_may_begin(const hwt_store *store)
{
	HWTS_EACH_KIND (store, kind)
		if (hwts_turns_ready(&kind->turns))
			return true;
	return false;
}

static struct hwts_entry *entry_of(struct hwts_turn *turn)
{
	return turn ? (struct hwts_entry *)((char *)turn - offsetof(struct hwts_entry, turn)) : NULL;
}

static struct hwts_entry *peek(struct hwts_kind *kind, int64_t now_ns)
{
	return entry_of(hwts_turns_peek(&kind->turns, now_ns));
}

struct hwts_entry *hwts_window_peek(struct hwts_kind *kind)
{
	const struct hwts_turns *turns = &kind->turns;

	return turns->first || turns->waiting ? peek(kind, hwt_now()) : NULL;
}

/*
 * Pops until an entry is found whose shard is held, has known rules and is not being given.  A look finds the rows of
 * the other entries again.
 */
struct hwts_entry *hwts_window_pop(hwt_store *store, struct hwts_kind *kind, bool thread)
{
	int64_t now_ns = hwt_now();
	struct hwts_entry *entry;

	if (kind->turns.rests)
		hwts_turns_at(&kind->turns, hwts_clock_db_us(store));
	while ((entry = peek(kind, now_ns)) != NULL) {
		struct hwts_shard *shard = hwts_shard(store, entry->shard, NULL);
		bool held = shard && shard->held && shard->unruled != HWTS_NEW;

		if (held && !shard->giving && entry->last && !thread)
			return NULL;
		/* aside: the group keeps its turn, as the database may refuse this row once more. */
		(void)hwts_turns_pop(&kind->turns, now_ns, entry->aside);
		hwts_window_want_rest(store, kind, entry->turn.group);
		if (kind->late && hwts_window_has_room_now(store, kind))
			hwts_wake(store, HWTS_READ);
		if (held && !shard->giving)
			return entry;
		if (!entry->unsure && !entry->turn.elsewhere)
			hwts_turns_done(&kind->turns, &entry->turn);
		if (held) /* the shard is given in a moment, or giving ends */
			hwts_window_not_begun(entry, entry->turn.due_us, entry->unsure);
		else
			hwts_window_erase(entry);
	}
	return NULL;
}

/*
 * Rows that are BEGUN
 */

void hwts_window_between(hwt_store *store, int64_t id)
{
	struct hwts_entry *entry = hwts_window_find(store, id);

	if (entry)
		entry->between = true;
}

struct hwts_kind *hwts_window_begun(hwt_store *store, int64_t id, bool *between)
{
	const struct hwts_entry *entry = hwts_window_find(store, id);

	*between = entry && entry->between;
	return entry && entry->state == HWTS_BEGUN ? entry->kind : NULL;
}

uint64_t hwts_window_begin(hwt_store *store, int64_t id)
{
	const struct hwts_entry *entry = hwts_window_find(store, id);

	return !entry ? 0 : entry->state == HWTS_BEGUN ? HWTS_IS_BEGUN : entry->begin;
}

struct hwts_kind *hwts_window_changed(hwt_store *store, int64_t id)
{
	struct hwts_entry *entry = hwts_window_find(store, id);

	if (!entry || entry->state != HWTS_BEGUN)
		return NULL;
	entry->changed = true;
	return entry->kind;
}

int32_t hwts_window_again(struct hwts_entry *entry)
{
	entry->unsure = true;
	hwts_window_due(entry);
	return entry->shard;
}

void hwts_window_forget(hwt_store *store, int64_t id)
{
	struct hwts_entry *entry = hwts_window_find(store, id);

	if (entry && entry->state == HWTS_ARMED)
		hwts_window_erase(entry);
}

bool hwts_window_may_start(hwt_store *store, int64_t id)
{
	struct hwts_entry *entry = hwts_window_find(store, id);
	bool may = !entry || hwts_turns_start(&entry->kind->turns, &entry->turn, hwt_now());

	if (entry && may)
		entry->why = HWT_STORE_STARTS;
	return may;
}
