/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reader: the thread that looks ahead, on a connection of its own, so that no renewal waits for a look.
 *
 * Structure
 *
 *   After each renewal it looks at all shards that are held: from their marks on, and behind them (the sweep;
 *   rows_look.c has both).  It reads on where a page was full, as long as there is room in the window.  What has just
 *   been taken is read from the beginning, in looks of its own, so that the other shards need not wait.
 */
#include "core/store.h"

#define LOAD_SLOW_NS HWT_S(1)

struct reader {
	hwt_store *store;
	struct hwts_look look;
	bool loaded; /* the last look has read shards that were just taken */
	size_t loads;
	unsigned failures;
};

static int64_t lease_us(const hwt_store *store)
{
	return store->config.lease_ns / 1000;
}

/*
 * What to look at; with the lock
 */

static bool has_room(const hwt_store *store)
{
	return store->window.count < (store->behind ? HWTS_WINDOW_MAX / 2 : HWTS_WINDOW_MAX);
}

static bool has_work(const hwt_store *store)
{
	return store->sweep_due || (store->unread && has_room(store));
}

/* A shard that was just taken. */
static bool is_new(const struct hwts_shard *shard)
{
	return shard->mark_due_us == INT64_MIN;
}

/* What was seen in another database, or by another clock, counts no more. */
static void read_again(struct reader *reader)
{
	hwt_store *store = reader->store;

	HWTS_EACH_SHARD (store, kind, shard)
		shard->mark_due_us = INT64_MIN;
	store->read_again = false;
	free(reader->look.snapshot);
	reader->look.snapshot = NULL;
}

static bool reserve(struct reader *reader)
{
	struct hwts_look *look = &reader->look;
	void *held = look->held;
	size_t room = 0;
	bool ok;

	HWTS_EACH_KIND (reader->store, kind)
		room += kind->row.shards;
	ok = hwts_grow(&held, &look->held_room, room, sizeof(*look->held));
	look->held = held;
	return ok;
}

static struct hwts_held held_of(const hwt_store *store, const struct hwts_kind *kind, struct hwts_shard *shard)
{
	return (struct hwts_held){ .shard = shard->id,
				   .epoch = shard->epoch,
				   .to_us = store->seen_us + kind->row.horizon_us,
				   .mark_due_us = shard->mark_due_us,
				   .mark_id = shard->mark_id };
}

/*
 * Either those that were just taken, a few at a time, or the others and the sweep: in turn, if there are both.  What
 * was just taken may take long.
 */
static bool chooses_new(const struct reader *reader)
{
	bool any_new = false, any_other = reader->store->sweep_due;

	HWTS_EACH_SHARD (reader->store, kind, shard)
		if (shard->held && shard->unread)
			*(is_new(shard) ? &any_new : &any_other) = true;
	return any_new && !(any_other && reader->loaded);
}

static void collect(struct reader *reader)
{
	hwt_store *store = reader->store;
	struct hwts_look *look = &reader->look;
	bool room, news;

	if (store->read_again)
		read_again(reader);
	room = has_room(store);
	store->behind = store->unread && !room;
	news = room && chooses_new(reader);
	look->held_count = 0;
	HWTS_EACH_SHARD (store, kind, shard) {
		shard->left_us = HWTS_NEVER;
		shard->chosen = room && shard->held && shard->unread && is_new(shard) == news &&
				!(news && look->held_count >= reader->loads);
		if (shard->chosen)
			look->held[look->held_count++] = held_of(store, kind, shard);
	}
	look->ahead_count = look->held_count;
	look->sweeps = store->sweep_due && !news;
	store->sweep_due &= news;
	HWTS_EACH_SHARD (store, kind, shard)
		if (look->sweeps && shard->held && !shard->chosen)
			look->held[look->held_count++] = held_of(store, kind, shard);
	store->unread &= look->held_count > 0 || !room; /* else see_all says it */
	look->page = HWTS_MAX(HWTS_PAGE / HWTS_MAX(look->held_count, 1), 1);
	look->late_us = store->seen_us - lease_us(store) / 3;
	reader->loaded = news;
}

/*
 * What it found; with the lock
 */

/*
 * A mark does not pass what was left to a look while this one was under way.  It stops before it, and the next look
 * reads from there.
 */
static void hold_back(struct hwts_shard *shard)
{
	if (shard->left_us > shard->mark_due_us ||
	    (shard->left_us == shard->mark_due_us && shard->left_id > shard->mark_id))
		return;
	shard->mark_due_us = shard->left_us;
	shard->mark_id = shard->left_id - 1;
	shard->unread = true;
}

/* At most once: nobody knows how far it came, or its end was lost. */
static void fail(hwt_store *store, const struct hwts_due *due)
{
	struct hwts_entry *entry = hwts_window_condemn(store, due);

	if (entry && !hwts_fail_lost(store, entry, due->epoch,
				     due->part == HWTS_RUNS ? "the database has lost its end"
							    : "its process died or was cut off while it ran"))
		hwts_window_erase(entry);
}

static void see(hwt_store *store, const struct hwts_due *due)
{
	struct hwts_kind *kind = NULL;

	if (!hwts_shard(store, due->shard, &kind))
		return;
	if (due->epoch != 0 && kind->row.mode == HWT_STORE_AT_MOST_ONCE)
		fail(store, due);
	else if (due->part <= HWTS_LATE)
		hwts_window_see(store, due);
	else if (due->part == HWTS_OVERDUE)
		hwts_window_rescue(store, due);
	else
		hwts_window_revive(store, due);
}

/* Marks first, so that what is seen is not beyond them. */
static void see_all(hwt_store *store, const struct hwts_look *look)
{
	for (size_t i = 0; i < look->ahead_count; i++) {
		const struct hwts_held *held = &look->held[i];
		struct hwts_shard *shard = hwts_shard(store, held->shard, NULL);

		if (!shard || !shard->held || shard->epoch != held->epoch)
			continue;
		shard->mark_due_us = held->mark_due_us;
		shard->mark_id = held->mark_id;
		shard->unread = held->full;
	}
	for (size_t i = 0; i < look->due_count; i++)
		see(store, &look->dues[i]);
	store->unread = false;
	HWTS_EACH_SHARD (store, kind, shard) {
		if (shard->held && shard->chosen)
			hold_back(shard);
		store->unread |= shard->held && shard->unread;
	}
}

/*
 * The thread
 */

/* Returns false if it failed. */
static bool look(struct reader *reader)
{
	hwt_store *store = reader->store;
	int64_t began_ns = hwt_now(), took_ns;
	int rc;

	rc = hwts_rows_look(store->read_conn, &reader->look);
	took_ns = hwt_now() - began_ns;
	if (rc != 0) {
		hwts_warn(store, "look-ahead: %s", hwts_fail_text());
		return false;
	}
	HWTS_POINT("read");
	if (reader->look.sweeps)
		HWTS_POINT("looked");
	pthread_mutex_lock(&store->lock);
	see_all(store, &reader->look);
	took_ns -= HWTS_MIN(store->clock.best_ns, took_ns); /* a round trip by itself */
	pthread_mutex_unlock(&store->lock);
	if (reader->loaded)
		reader->loads = took_ns > LOAD_SLOW_NS ? 1 : HWTS_MIN(reader->loads * 2, HWTS_PAGE);
	return true;
}

/* What was to be looked at is looked at after a while. */
static void fail_look(struct reader *reader)
{
	hwt_store *store = reader->store;

	pthread_mutex_lock(&store->lock);
	store->sweep_due |= reader->look.sweeps;
	store->unread = true;
	if (!store->read_halt)
		hwts_wait_ns(&store->drained, &store->lock, hwts_backoff_ns(++reader->failures));
	pthread_mutex_unlock(&store->lock);
}

static void work(struct reader *reader)
{
	hwt_store *store = reader->store;

	for (;;) {
		bool ok;

		pthread_mutex_lock(&store->lock);
		while (!store->read_halt && !has_work(store))
			pthread_cond_wait(&store->read_work, &store->lock);
		if (store->read_halt) {
			pthread_mutex_unlock(&store->lock);
			return;
		}
		ok = reserve(reader);
		if (ok)
			collect(reader);
		pthread_mutex_unlock(&store->lock);
		if (ok && reader->look.held_count == 0)
			continue;
		ok = ok && ((store->read_conn && !store->read_conn->broken) ||
			    hwts_reconnect(store, &store->read_conn, HWTS_READ, &reader->failures) == 0);
		if (ok && look(reader))
			reader->failures = 0;
		else
			fail_look(reader);
	}
}

void *hwts_reader(void *arg)
{
	struct reader reader = { .store = arg, .loads = 1 };

	work(&reader);
	hwts_look_free(&reader.look);
	return NULL;
}
