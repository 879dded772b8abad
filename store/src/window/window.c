/* SPDX-License-Identifier: BSD-2-Clause */
/* The window: entries by id, and the timer in which they wait until they are due. */
#include "store/asks.h"
#include "store/clock.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

#define AGAIN_US 20000 /* how soon to try again a due row that another transaction has locked */

/*
 * Entries by id
 */

static struct hwts_entry **bucket_of(struct hwts_window *window, int64_t id)
{
	return &window->buckets[hwts_mix((uint64_t)id) & (window->bucket_count - 1)];
}

struct hwts_entry *hwts_window_find(hwt_store *store, int64_t id)
{
	struct hwts_entry *entry = store->window->timer ? *bucket_of(store->window, id) : NULL;

	while (entry && entry->id != id)
		entry = entry->next;
	return entry;
}

static bool rehash(struct hwts_window *window, size_t bucket_count)
{
	struct hwts_entry **buckets = hwts_alloc(bucket_count * sizeof(*buckets)), **old = window->buckets;
	size_t old_count = window->bucket_count;

	if (!buckets)
		return false;
	window->buckets = buckets;
	window->bucket_count = bucket_count;
	for (size_t i = 0; i < old_count; i++) {
		for (struct hwts_entry *entry = old[i], *next; entry; entry = next) {
			struct hwts_entry **head = bucket_of(window, entry->id);

			next = entry->next;
			entry->next = *head;
			*head = entry;
		}
	}
	free(old);
	return true;
}

size_t hwts_window_limit(const hwt_store *store)
{
	if (HWTS_TEST(window))
		return HWTS_TEST(window);
	return HWTS_MAX(HWTS_WINDOW_MAX / HWTS_MAX(hwts_kind_count(store), 1), HWTS_PAGE);
}

size_t hwts_window_share(const hwt_store *store)
{
	return HWTS_MAX(hwts_window_limit(store) / 20, 4);
}

void hwts_window_want_rest(hwt_store *store, const struct hwts_kind *kind, const struct hwts_turn_group *group)
{
	if (hwts_turns_want(&kind->turns, group, hwts_window_share(store)))
		hwts_wake(store, HWTS_READ);
}

static bool make_free(struct hwts_window *window)
{
	struct hwts_slab *slab;

	if (window->free)
		return true;
	slab = hwts_alloc(sizeof(*slab));
	if (!slab)
		return false;
	slab->next = window->slabs;
	window->slabs = slab;
	for (size_t i = 0; i < HWTS_SLAB_ENTRIES; i++) {
		slab->entries[i].next = window->free;
		window->free = &slab->entries[i];
	}
	return true;
}

struct hwts_entry *hwts_window_insert(hwt_store *store, struct hwts_kind *kind, const struct hwts_due *due)
{
	struct hwts_window *window = store->window;
	struct hwts_turn turn = { .due_us = due->due_us };
	struct hwts_entry *entry, **head;

	if (!make_free(window) || !hwts_turns_join(&kind->turns, &turn, due->group, due->group_len))
		return NULL;
	/* Without memory the chains stay, and get longer: no failure. */
	if (window->count >= window->bucket_count)
		(void)rehash(window, window->bucket_count * 2);
	entry = window->free;
	window->free = entry->next;
	head = bucket_of(window, due->id);
	*entry = (struct hwts_entry){ .id = due->id,
				      .turn = turn,
				      .store = store,
				      .kind = kind,
				      .next = *head,
				      .shard = due->shard,
				      .priority = due->priority,
				      .len = due->len,
				      .again_us = HWTS_NEVER,
				      .heard = ++window->heard };
	*head = entry;
	window->count++;
	kind->entries++;
	return entry;
}

void hwts_window_known(struct hwts_entry *entry)
{
	entry->kind->told -= entry->told;
	entry->kind->entries += entry->told;
	entry->told = false;
}

void hwts_window_erase(struct hwts_entry *entry)
{
	hwt_store *store = entry->store;
	struct hwts_window *window = store->window;
	struct hwts_kind *kind = entry->kind;
	struct hwts_entry **link = bucket_of(window, entry->id);

	if (entry->state == HWTS_ARMED)
		(void)hwt_cancel(entry->timeout);
	while (*link != entry)
		link = &(*link)->next;
	*link = entry->next;
	if (entry->turn.counted)
		hwts_window_not_running(entry);
	hwts_window_want_rest(store, kind, entry->turn.group);
	hwts_turns_leave(&kind->turns, &entry->turn, hwt_now());
	entry->state = HWTS_FREE;
	entry->next = window->free;
	window->free = entry;
	window->count--;
	hwts_window_known(entry);
	kind->entries--;
	if (kind->behind && kind->entries < hwts_window_limit(store) / 2)
		hwts_wake(store, HWTS_READ);
}

bool hwts_window_is_beyond(const struct hwts_shard *shard, const struct hwts_due *due)
{
	return due->due_us > shard->mark_due_us || (due->due_us == shard->mark_due_us && due->id > shard->mark_id);
}

bool hwts_window_is_for_a_look(const struct hwts_shard *shard, const struct hwts_due *due)
{
	return hwts_window_is_beyond(shard, due) && due->due_us > shard->reach_us;
}

/*
 * Arming
 */

void hwts_window_due(struct hwts_entry *entry)
{
	struct hwts_turns *turns = &entry->kind->turns;
	bool waits = hwts_turns_ready(turns); /* true: the end of a task or of a begin wakes the beginner */

	if (entry->state == HWTS_ARMED) {
		entry->turn.due_us = HWTS_MIN(entry->turn.due_us, entry->again_us);
		entry->again_us = HWTS_NEVER;
	}
	entry->state = HWTS_IS_DUE;
	entry->kind->oldest_us = HWTS_MIN(turns->queued > 0 ? entry->kind->oldest_us : HWTS_NEVER, entry->turn.due_us);
	entry->turn.priority = entry->priority;
	hwts_turns_add(turns, &entry->turn);
	if (!waits)
		hwts_wake(entry->store, HWTS_BEGIN);
}

static void on_timer(hwt_timeout timeout, void *arg)
{
	struct hwts_entry *entry = arg;
	/* A late timer may find the entry freed or used again: its memory stays with this store. */
	hwt_store *store = entry->store;

	if (HWTS_TEST(loses_timers))
		return;
	hwts_lock(store);
	if (entry->state == HWTS_ARMED && entry->timeout.entry == timeout.entry &&
	    entry->timeout.generation == timeout.generation)
		hwts_window_due(entry);
	hwts_unlock(store);
}

/* when_us: when to try; due_us: the place in the group.  A row that is tried later than it was due keeps its place. */
static void arm(struct hwts_entry *entry, int64_t when_us, int64_t due_us)
{
	hwt_store *store = entry->store;
	int64_t deadline_ns = hwts_clock_deadline_ns(store, when_us);

	entry->turn.due_us = when_us;
	entry->again_us = due_us < when_us ? due_us : HWTS_NEVER;
	entry->state = HWTS_ARMED;
	entry->between = false;
	entry->timeout = HWT_TIMEOUT_NONE;
	if (deadline_ns <= hwt_now()) {
		hwts_window_due(entry);
		return;
	}
	if (hwt_new_timeout_at(store->window->timer, on_timer, entry, deadline_ns, &entry->timeout) == 0)
		return;
	/* No memory: a look from the beginning of the shard finds the row again. */
	hwts_ask(store, HWTS_LOAD);
	hwts_window_erase(entry);
}

void hwts_window_arm(struct hwts_entry *entry, int64_t due_us)
{
	arm(entry, due_us, due_us);
}

void hwts_window_arm_again(struct hwts_entry *entry, int64_t due_us)
{
	(void)hwt_cancel(entry->timeout); /* a task already under way compares handles, and does nothing */
	hwts_window_arm(entry, due_us);
}

void hwts_window_rearm(hwt_store *store)
{
	struct hwts_slab *slab = store->window->slabs;

	for (; slab; slab = slab->next)
		for (size_t i = 0; i < HWTS_SLAB_ENTRIES; i++)
			if (slab->entries[i].state == HWTS_ARMED)
				hwts_window_arm_again(&slab->entries[i], slab->entries[i].turn.due_us);
}

/*
 * After a begin, and after an end
 */

/* Its group may have been full, and may begin another row now. */
void hwts_window_not_running(struct hwts_entry *entry)
{
	struct hwts_turns *turns = &entry->kind->turns;
	bool waits = hwts_turns_ready(turns);

	hwts_turns_elsewhere(&entry->turn, false);
	hwts_turns_done(turns, &entry->turn);
	hwts_window_want_rest(entry->store, entry->kind, entry->turn.group);
	if (!waits && hwts_turns_ready(turns))
		hwts_wake(entry->store, HWTS_BEGIN);
}

/* Notes the reason for which this row alone does not start, and since when. */
static void wait_for(struct hwts_entry *entry, hwt_store_wait why, int64_t since_us)
{
	if (entry->why != why)
		entry->since_us = since_us;
	entry->why = (uint8_t)why;
}

/* News and looks from before the begin tell when this run was due, and not when the row is due again. */
void hwts_window_has_begun(struct hwts_entry *entry, int64_t due_us)
{
	entry->turn.due_us = due_us;
	if (entry->again_us == due_us)
		entry->again_us = HWTS_NEVER;
}

/*
 * due_us: the due time that the begin read, or HWTS_NEVER if the row is gone.  runs: the row runs under this epoch, and
 * has to be begun once more.
 */
void hwts_window_not_begun(struct hwts_entry *entry, int64_t due_us, bool runs)
{
	int64_t now_us = hwts_clock_db_us(entry->store), again_us = entry->again_us,
		when_us = due_us <= entry->turn.due_us && due_us <= now_us ? now_us + AGAIN_US : due_us;

	due_us = HWTS_MIN(due_us, again_us);
	when_us = HWTS_MIN(when_us, again_us);
	entry->unsure = runs;
	entry->aside = false;
	/* If the row is due, is tried later, and its kind could begin it, another transaction has locked it. */
	wait_for(entry,
		 when_us > due_us && !hwts_turns_is_stalled(&entry->kind->turns, entry->turn.group) &&
				 hwts_keeps(entry->store, entry->shard)
		     ? HWT_STORE_WAITS_ROW
		     : HWT_STORE_STARTS,
		 due_us);
	hwts_turns_put_off(&entry->kind->turns, &entry->turn);
	if (due_us == HWTS_NEVER)
		hwts_window_erase(entry);
	else
		arm(entry, when_us, due_us);
}

void hwts_window_set_aside(struct hwts_entry *entry)
{
	wait_for(entry, HWT_STORE_WAITS_ROW, HWTS_MIN(entry->turn.due_us, entry->again_us));
	entry->aside = true;
	hwts_turns_put_off(&entry->kind->turns, &entry->turn);
	hwts_window_arm(entry, hwts_clock_db_us(entry->store) + entry->store->db->lease_us);
}

void hwts_window_ended(hwt_store *store, const struct hwts_row *row, int64_t due_us)
{
	struct hwts_entry *entry = hwts_window_find(store, row->id);
	struct hwts_shard *shard = hwts_shard(store, row->shard, NULL);

	if (!entry || entry->state != HWTS_BEGUN)
		return;
	hwts_window_not_running(entry);
	if (due_us != HWTS_NEVER && row->rest_us > 0)
		due_us = hwts_clock_db_us(store) + row->rest_us;
	due_us = HWTS_MIN(due_us, entry->again_us);
	entry->last = hwts_is_last(entry->kind, row->next_attempt);
	entry->len = (uint32_t)row->len;
	if (row->replaced)
		entry->priority = row->priority;
	if (row->hit && row->waits != HWT_STORE_STARTS)
		wait_for(entry, row->waits, HWTS_MIN(row->base_us, hwts_clock_db_us(store)));
	else if (!row->give_back) /* a row given back was not tried */
		entry->why = HWT_STORE_STARTS;
	/*
	 * A row that waits for a reason of its own stays in the window, so that statistics name it; at most a share of
	 * them.
	 */
	if (due_us == HWTS_NEVER || !shard || !shard->held ||
	    (hwts_window_is_for_a_look(shard, &(struct hwts_due){ .id = row->id, .due_us = due_us }) &&
	     (entry->why == HWT_STORE_STARTS || entry->kind->entries > hwts_window_share(store))))
		hwts_window_erase(entry);
	else
		hwts_window_arm(entry, due_us);
}
