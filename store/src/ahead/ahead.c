/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reader: the thread that looks ahead, on a connection of its own, so that no renewal waits for a slow look.
 *
 * Structure
 *
 *   After each renewal the reader looks at all shards that are held: from their marks on, and behind the marks
 *   (sweep.c; rows_look.c has both statements).  Where a page was full it reads on, as long as the kind has room in the
 *   window.
 *   Shards that were just taken are read from the beginning, in looks of their own, so that the others need not wait.
 */
#include "ahead/ahead.h"
#include "store/ability.h"
#include "store/asks.h"
#include "store/clock.h"
#include "store/conns.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

#define LOAD_SLOW_NS HWT_S(1)

struct hwts_reader {
	hwt_store *store;
	struct hwts_look look;
	struct hwts_sweep sweep;
	bool loaded;   /* the last look began to read shards from their beginning */
	bool refilled; /* the last exchange refilled groups; looks and refills take turns */
	bool ruled;    /* the last exchange read rules; rules and rows take turns, as rules may change all the time */
	bool told;     /* the warning of a damaged index was given */
	size_t loads;
	unsigned failures;
	unsigned turn; /* of the kinds whose rules are read */
};

/*
 * What to look at.  The caller holds store->lock.
 */

static bool has_room(const struct hwts_kind *kind, size_t limit)
{
	return kind->entries < (kind->behind ? limit / 2 : limit);
}

/*
 * How far a kind that is behind is read: what comes due before the next renewal would otherwise wait for that.  A
 * window that is far too full takes only what is due.
 */
static int64_t soon_us(const hwt_store *store, const struct hwts_kind *kind)
{
	bool room = kind->entries < 2 * hwts_window_limit(store) + HWTS_PAGE;

	return store->reading->seen_us + (room ? HWTS_MIN(store->db->lease_us / 3, kind->row.horizon_us) : 0);
}

/* Rows that are due, or will be soon, may be unread. */
static bool is_late(const hwt_store *store, const struct hwts_kind *kind, const struct hwts_shard *shard)
{
	return shard->mark_due_us < soon_us(store, kind);
}

/* Sets kind->behind and kind->late: of a kind that is behind, only shards that are new or late are looked at. */
static void measure(hwt_store *store)
{
	size_t limit = hwts_window_limit(store);

	HWTS_EACH_KIND (store, kind) {
		bool room = has_room(kind, limit);

		kind->behind = kind->late = false;
		for (uint32_t i = 0; i < kind->row.shards && !room; i++) {
			bool unread = kind->shards[i].held && kind->shards[i].unread;

			kind->behind |= unread;
			kind->late |= unread && is_late(store, kind, &kind->shards[i]);
		}
	}
}

/* The shard is to be read from its beginning: it was just taken, or its mark is void. */
static bool is_new(const struct hwts_shard *shard)
{
	return shard->mark_due_us == INT64_MIN;
}

/*
 * A new shard does not wait for room: the window has none of its rows yet.  Rows that are due before the next renewal
 * wait only for rows that are due: later rows may fill the window for as long as the horizon.
 */
static bool is_wanted(const hwt_store *store, const struct hwts_kind *kind, const struct hwts_shard *shard)
{
	if (!shard->held || !shard->unread || shard->unruled == HWTS_NEW)
		return false;
	return is_new(shard) || !kind->behind || (is_late(store, kind, shard) && hwts_window_has_room_now(store, kind));
}

static bool has_look(hwt_store *store)
{
	if (store->reading->sweep_due || store->reading->again)
		return true;
	if (!store->reading->unread)
		return false;
	measure(store);
	HWTS_EACH_SHARD (store, kind, shard)
		if (is_wanted(store, kind, shard))
			return true;
	return false;
}

static bool has_work(hwt_store *store)
{
	return hwts_rules_wanted(store) || has_look(store) || hwts_refill_wanted(store);
}

/*
 * Reads all shards from the beginning: marks that were set by another database, or under another clock, are void.
 *
 * A kind without room could not begin its look, and rows that are put would be left to that look.  So its waiting
 * entries go, and the look brings the earliest of them again.
 */
static void read_again(struct hwts_reader *reader)
{
	hwt_store *store = reader->store;
	size_t limit = hwts_window_limit(store);

	HWTS_EACH_KIND (store, kind)
		if (!has_room(kind, limit))
			hwts_window_empty(store, kind);
	HWTS_EACH_SHARD (store, kind, shard)
		hwts_read_again(store, shard);
	store->reading->again = false;
	store->reading->unread = true;
	reader->sweep.low_us = INT64_MIN;
	reader->sweep.apart = reader->sweep.rest = 0;
	free(reader->look.snapshot);
	reader->look.snapshot = NULL;
	measure(store);
}

/*
 * A reading from the beginning is under way.  The next one waits for its end: otherwise rows behind a backlog would
 * never be read.
 */
static bool is_loading(hwt_store *store)
{
	HWTS_EACH_SHARD (store, kind, shard)
		if (shard->loading && is_wanted(store, kind, shard))
			return true;
	return false;
}

static bool reserve(struct hwts_reader *reader)
{
	struct hwts_look *look = &reader->look;
	size_t room = 0;

	HWTS_EACH_KIND (reader->store, kind)
		room += kind->row.shards;
	return hwts_grow(&look->held, &look->held_room, room, sizeof(*look->held));
}

static struct hwts_held held_of(const hwt_store *store, const struct hwts_kind *kind, const struct hwts_shard *shard)
{
	bool all = !kind->behind || is_new(shard); /* false: only rows that are due soon are read */

	return (struct hwts_held){ .shard = shard->id,
				   .epoch = shard->epoch,
				   .to_us = all ? store->reading->seen_us + kind->row.horizon_us : soon_us(store, kind),
				   .part = !all,
				   .mark_due_us = shard->mark_due_us,
				   .mark_id = shard->mark_id,
				   .swept_due_us = shard->swept_due_us,
				   .swept_id = shard->swept_id };
}

/*
 * Returns true for the shards that were just taken, a few at a time, since reading them may take long; false for the
 * other shards and the sweep.  If there are both, the two take turns.
 */
static bool chooses_new(const struct hwts_reader *reader)
{
	bool any_new = false, any_other = reader->store->reading->sweep_due;

	HWTS_EACH_SHARD (reader->store, kind, shard)
		if (is_wanted(reader->store, kind, shard))
			*(is_new(shard) ? &any_new : &any_other) = true;
	return any_new && !(any_other && reader->loaded);
}

static void collect(struct hwts_reader *reader, int64_t now_us)
{
	hwt_store *store = reader->store;
	struct hwts_look *look = &reader->look;
	bool news;

	measure(store);
	if (store->reading->again && !is_loading(store))
		read_again(reader);
	news = chooses_new(reader);
	look->held_count = 0;
	HWTS_EACH_SHARD (store, kind, shard) {
		if (!is_wanted(store, kind, shard) || is_new(shard) != news ||
		    (news && look->held_count >= reader->loads))
			continue;
		look->held[look->held_count] = held_of(store, kind, shard);
		shard->reach_us = look->held[look->held_count++].to_us;
		shard->unread = false; /* a renewal may set it again while the look is under way */
	}
	look->ahead_count = look->held_count;
	look->sweeps = store->reading->sweep_due && !news;
	store->reading->sweep_due &= news;
	HWTS_EACH_SHARD (store, kind, shard)
		if (look->sweeps && shard->held && shard->reach_us == 0)
			look->held[look->held_count++] = held_of(store, kind, shard);
	store->reading->unread &= look->held_count > 0; /* hwts_look_found sets it again */
	look->heard = hwts_window_number(store);
	look->page = HWTS_MAX(HWTS_PAGE / HWTS_MAX(look->held_count, 1), 1);
	look->late_us = now_us - store->db->lease_us / 3;
	reader->loaded = news;
}

void hwts_reader_renewed(hwt_store *store, const struct hwts_renewal *renewal)
{
	struct hwts_reading *reading = store->reading;

	reading->seen_us = renewal->now_us;
	reading->again |= hwts_asked(store, HWTS_LOAD);
	hwts_ask_done(store, HWTS_LOAD);
	reading->sweep_due = reading->unread = true;
	HWTS_EACH_SHARD (store, kind, shard)
		shard->unread = true;
}

/*
 * The thread
 */

/* Warns once; again only after a sweep that could read everything. */
static void tell_blocked(struct hwts_reader *reader, const struct hwts_conn *conn)
{
	if (reader->look.blocked > 0 && !reader->told && !hwts_read_halts(conn))
		hwts_warn(reader->store,
			  "look-ahead: of %zu shards not all can be found, for their index is damaged: %s",
			  reader->look.blocked, hwts_fail_text());
	reader->told = reader->look.blocked > 0 || (reader->told && !reader->look.sweeps);
}

static int look(struct hwts_reader *reader, struct hwts_conn *conn)
{
	hwt_store *store = reader->store;
	int64_t began_ns = hwt_now(), took_ns;
	int rc;

	hwts_sweep_choose(&reader->sweep, store, &reader->look);
	rc = hwts_rows_look(conn, &reader->look);
	took_ns = hwt_now() - began_ns + HWTS_TEST(look_took);
	if (rc != 0)
		return rc;
	tell_blocked(reader, conn);
	HWTS_POINT("read");
	if (reader->look.sweeps)
		HWTS_POINT("looked");
	hwts_lock(store);
	hwts_look_found(store, &reader->look);
	/* Without the round trip, which a look that finds nothing takes as well. */
	took_ns -= HWTS_MIN(hwts_clock_trip_ns(store), took_ns);
	hwts_unlock(store);
	if (reader->loaded)
		reader->loads = took_ns > LOAD_SLOW_NS ? 1 : HWTS_MIN(reader->loads * 2, HWTS_PAGE);
	if (reader->look.sweeps)
		hwts_swept(&reader->sweep, store, &reader->look, took_ns);
	return 0;
}

/* The caller holds store->lock.  The shards of the look are read again after a while. */
static void look_failed(struct hwts_reader *reader)
{
	hwt_store *store = reader->store;

	store->reading->sweep_due |= reader->look.sweeps;
	HWTS_EACH_SHARD (store, kind, shard) {
		shard->unread |= shard->held && shard->reach_us != 0;
		shard->reach_us = 0;
	}
	store->reading->unread = true;
}

/* The caller holds store->lock.  Waits for work, or until a rest is due. */
static void await(hwt_store *store)
{
	int64_t due_us = hwts_refill_us(store), left_ns = hwts_clock_deadline_ns(store, due_us) - hwt_now();

	if (due_us == HWTS_NEVER)
		hwts_wait(store, HWTS_READ);
	else
		hwts_wait_for(store, HWTS_READ, HWTS_MAX(left_ns, HWT_MS(1)));
}

/* Rules and rows take turns; among the rows, looks and refills do. */
enum next { HALT, RULES, GROUPS, ROWS };

/* The caller holds store->lock. */
static enum next choose(struct hwts_reader *reader)
{
	hwt_store *store = reader->store;

	while (!hwts_halts(store, HWTS_READ) && !has_work(store))
		await(store);
	if (hwts_halts(store, HWTS_READ))
		return HALT;
	reader->ruled = hwts_rules_wanted(store) && !(reader->ruled && (has_look(store) || hwts_refill_wanted(store)));
	if (reader->ruled) {
		store->reading->unread = true;
		return RULES;
	}
	reader->refilled = hwts_refill_wanted(store) && !(reader->refilled && has_look(store));
	return reader->refilled ? GROUPS : ROWS;
}

static int read_next(struct hwts_reader *reader, enum next next)
{
	hwt_store *store = reader->store;
	struct hwts_conn *conn = NULL;
	int rc = hwts_connect_role(store, HWTS_READ);

	if (rc == 0) {
		conn = hwts_conn(store, HWTS_READ);
		rc = next == RULES    ? hwts_rules_read(store, conn, reader->turn++)
		     : next == GROUPS ? hwts_refill_read(store, conn)
				      : look(reader, conn);
	}
	if (rc == 0)
		hwts_works(store, HWTS_READ, &reader->failures);
	else if (!conn || !hwts_read_halts(conn))
		hwts_fails(store, HWTS_READ, rc);
	return rc;
}

void *hwts_reader(void *arg)
{
	struct hwts_reader reader = { .store = arg, .loads = 1 };
	hwt_store *store = arg;
	enum next next;
	int rc;

	hwts_sweep_init(&reader.sweep, store);
	hwts_lock(store);
	while ((next = choose(&reader)) != HALT) {
		rc = next != ROWS || reserve(&reader) ? 0 : ENOMEM;
		if (rc == 0 && next == ROWS)
			collect(&reader, store->reading->seen_us);
		if (rc == 0 && next == ROWS && reader.look.held_count == 0)
			continue;
		hwts_unlock(store);
		rc = rc ? rc : read_next(&reader, next);
		hwts_lock(store);
		hwts_ability_note(store, HWTS_READ, rc == 0);
		if (rc != 0 && next == ROWS)
			look_failed(&reader);
		if (rc != 0 && next == RULES)
			reader.ruled = false; /* next again: rows that can be read are no sign that rules can */
		if (rc != 0 && !hwts_halts(store, HWTS_READ))
			hwts_rest(store, &reader.failures);
	}
	hwts_unlock(store);
	hwts_look_free(&reader.look);
	return NULL;
}
