/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The beginner: turns rows that are due into rows that are begun.
 *
 * The beginner begins rows ahead of the tasks, so that no task waits for a round trip, but not far ahead: a row that
 * has been begun stays with this process, and other processes can no longer cancel it.  Beyond what free threads take
 * at once it begins rows that will start within 20 ms (begun.c), estimated by the last runs of the kind.  If the next
 * runs last longer, rows that have waited for 100 ms are given back; those that wait to be pulled are read instead.  A
 * row that runs at most once is begun only when a thread is free: if the process died before the start, the row would
 * be FAILED.
 */
#include "ahead/ahead.h"
#include "runs/ended.h"
#include "runs/inherit.h"
#include "runs/locked.h"
#include "runs/begun.h"
#include "runs/stale.h"
#include "store/ability.h"
#include "store/asks.h"
#include "store/clock.h"
#include "store/conns.h"
#include "store/run.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

#define BATCH_BYTES ((size_t)4 << 20)
/* Most bytes that an entry known from news alone counts for: otherwise a few forged news would fill a batch. */
#define TOLD_BYTES ((size_t)64 << 10)

struct batch {
	struct hwts_want *wants;
	size_t count, bytes;
	int64_t work_ns; /* how long the runs of the batch will take */
	unsigned doubts; /* hwts_doubts when the batch was gathered */
	bool at_most_once, unsure;
	char why[256]; /* the error with which the database refused to begin a row */
	struct hwts_locked locked;
};

/*
 * A last attempt, or a row that runs at most once, waits for a free thread.  If others were begun ahead meanwhile, no
 * thread would ever be free.
 */
static bool one_waits_for_a_thread(const hwt_store *store)
{
	HWTS_EACH_KIND (store, kind) {
		const struct hwts_entry *entry = hwts_window_peek(kind);

		if (entry && (entry->last || kind->row.mode == HWT_STORE_AT_MOST_ONCE) && hwts_begun_may_run(kind))
			return true;
	}
	return false;
}

/* How many more rows of a kind may be begun.  The caller holds store->lock.  A last attempt is not begun ahead. */
static unsigned room(const hwt_store *store, struct hwts_kind *kind, const struct batch *batch)
{
	unsigned now = hwts_begun_free(store, kind, batch->count);
	const struct hwts_entry *entry = hwts_window_peek(kind);

	if (kind->pulled)
		return now;
	if ((entry && entry->last) || kind->row.mode == HWT_STORE_AT_MOST_ONCE || one_waits_for_a_thread(store))
		return now;
	return hwts_begun_is_full(store) ? 0 : HWTS_MAX(now, hwts_begun_ahead(store, kind, batch->work_ns));
}

static void add(struct batch *batch, struct hwts_entry *entry)
{
	struct hwts_shard *shard = hwts_shard(entry->store, entry->shard, NULL);
	const struct hwts_turns *turns = &entry->kind->turns;
	bool beyond = hwts_turns_is_beyond(turns, &entry->turn);

	entry->state = HWTS_BEGUN;
	entry->begin = hwts_window_number(entry->store);
	entry->between = true;
	entry->changed = hwts_turns_is_paused(turns, entry->turn.group);
	entry->again_us = HWTS_NEVER;     /* nothing heard so far is newer than what the begin will read */
	hwts_active(entry->store, shard); /* active from here on, so that the shard is not given during the begin */
	batch->wants[batch->count++] = (struct hwts_want){ .entry = entry,
							   .kind = entry->kind,
							   .id = entry->id,
							   .epoch = shard->epoch,
							   .shard = entry->shard,
							   .rules = shard->rules,
							   .max_attempts = entry->kind->max_attempts,
							   .beyond = beyond,
							   .last = entry->last ||
								   entry->kind->row.mode == HWT_STORE_AT_MOST_ONCE };
	batch->bytes += entry->told ? HWTS_MIN(entry->len, TOLD_BYTES) : entry->len;
	batch->work_ns += hwts_begun_run_ns(entry->kind);
	batch->unsure |= entry->unsure;
}

/* The caller holds store->lock. */
static void gather_from(hwt_store *store, struct batch *batch, struct hwts_kind *kind)
{
	bool at_most_once = kind->row.mode == HWT_STORE_AT_MOST_ONCE;
	unsigned may;

	if (!hwts_window_peek(kind) || (batch->count > 0 && at_most_once != batch->at_most_once))
		return;
	may = room(store, kind, batch);
	batch->at_most_once = at_most_once;
	while (may-- > 0 && batch->count < store->config.batch && batch->bytes < BATCH_BYTES) {
		struct hwts_entry *entry = hwts_window_pop(store, kind, hwts_begun_free(store, kind, batch->count) > 0);

		if (!entry)
			break;
		add(batch, entry);
	}
}

/* The caller holds store->lock.  Kinds take turns at being the first. */
static void gather(hwt_store *store, struct batch *batch, unsigned turn)
{
	const unsigned kinds = (unsigned)hwts_kind_count(store);
	struct hwts_kind *kind = hwts_kind_turn(store, turn);

	batch->count = batch->bytes = 0;
	batch->work_ns = 0;
	batch->unsure = false;
	batch->doubts = hwts_doubts(store);
	for (unsigned i = 0; i < kinds; i++, kind = hwts_kind_around(store, kind))
		gather_from(store, batch, kind);
}

/* The caller holds store->lock. */
static void not_begun(hwt_store *store, const struct hwts_want *want)
{
	struct hwts_entry *entry = want->entry;
	struct hwts_shard *shard = hwts_shard(store, want->shard, NULL);

	hwts_inactive(store, shard);
	/* Control has not noticed yet that the shard is lost. */
	if (want->lost && shard->held && shard->epoch == want->epoch) {
		hwts_ask(store, HWTS_LOOK);
		hwts_poke(store);
	}
	HWTS_TALLY_OF(store, entry->kind, failed, want->inherited && want->delay_us == HWTS_NEVER);
	if (want->stale && shard->rules == want->rules) /* otherwise the rules have been read since */
		hwts_rules_changed(store, want->shard);
	if (want->dead && !want->inherited)
		hwts_turns_elsewhere(&entry->turn, true);
	if (!want->locked && !(want->dead && !want->inherited))
		hwts_window_not_running(entry);
	if (want->inherited && want->mark == HWTS_REPLACED) {
		entry->len = want->len;
		entry->priority = want->priority;
	}
	if (!want->last && !want->lost && want->due_us != HWTS_NEVER)
		entry->last = hwts_is_last(entry->kind, want->attempt);
	if (want->due_us != HWTS_NEVER)
		hwts_window_known(entry);
	if (entry->last && !want->last && !want->inherited && !want->locked) /* begun as soon as a thread is free */
		hwts_window_due(entry);
	else
		hwts_window_not_begun(entry, want->lost ? HWTS_NEVER : want->due_us, want->locked);
}

static void begun(hwt_store *store, struct hwts_entry *entry, struct hwts_row *row)
{
	struct hwts_kind *kind = entry->kind;

	entry->unsure = entry->aside = false;
	if (entry->why == HWT_STORE_WAITS_ROW)
		entry->why = HWT_STORE_STARTS;
	hwts_turns_elsewhere(&entry->turn, false);
	hwts_window_known(entry);
	hwts_window_has_begun(entry, row->due_us);
	row->kind = kind;
	row->next = NULL;
	row->waits_since_us = entry->why == HWT_STORE_WAITS_ZONE ? entry->since_us : HWTS_NEVER;
	HWTS_TALLY_OF(store, kind, begun, 1);
	if (hwts_halts(store, HWTS_BEGIN) || !hwts_trusted(store) || entry->changed) {
		hwts_give_back(store, row);
		return;
	}
	entry->between = false;
	/* A pulled row is read again when what its begin has read is a third of a lease old, however late the reply. */
	if (!kind->pulled)
		row->queued_ns = hwts_boot_ns();
	row->priority = entry->priority;
	row->turns = entry->turn.group;
	row->round = hwts_turns_round(&kind->turns, row->turns);
	hwts_begun_push(store, row);
	if (!kind->pulled)
		hwts_wake(store, HWTS_TASK);
}

/* The database refuses to begin the row of this want, or to take it from a process that died. */
static void set_aside(hwt_store *store, const struct hwts_want *want)
{
	struct hwts_entry *entry = want->entry;

	if (want->dead)
		hwts_turns_elsewhere(&entry->turn, true);
	HWTS_TALLY_OF(store, entry->kind, set_aside, !entry->aside);
	hwts_inactive(store, hwts_shard(store, entry->shard, NULL));
	if (!entry->unsure && !entry->turn.elsewhere)
		hwts_window_not_running(entry);
	hwts_window_set_aside(entry);
}

/*
 * The caller holds store->lock.  A row was due by our clock, but not by the database's, which has been put back.  We
 * take the time from its reply: otherwise the row would be begun in vain until the next renewal.
 */
static void follow_clock(hwt_store *store, const struct hwts_want *wants, size_t n, const struct hwts_trip *trip)
{
	for (size_t i = 0; i < n; i++) {
		const struct hwts_want *want = &wants[i];

		if (want->row || want->due_us == HWTS_NEVER || want->due_us <= want->now_us ||
		    want->due_us > hwts_clock_db_us(store))
			continue;
		if (hwts_clock_sample(store, want->now_us, trip))
			hwts_window_rearm(store);
		return;
	}
}

/*
 * Sends the begin of n rows.  At most once, without a reply: the begin is repeated until the database says what
 * happened, because rows that may have been begun would be made FAILED by the process that takes the shard.  A process
 * that can begin nothing leaves that to the next holder.
 */
static int ask(hwt_store *store, struct batch *batch, struct hwts_want *wants, size_t n, unsigned *failures)
{
	struct hwts_trip trip;
	bool again, refused;
	int64_t sent_ns;
	int rc;

	do {
		refused = false;
		trip.slept_ns = hwts_clock_slept_ns();
		trip.sent_ns = hwt_now();
		sent_ns = hwts_boot_ns();
		rc = hwts_connect_role(store, HWTS_BEGIN);
		if (rc == 0) {
			struct hwts_conn *conn = hwts_conn(store, HWTS_BEGIN);

			conn->refused = false;
			rc = hwts_rows_begin(conn, wants, n, batch->at_most_once, batch->unsure);
			refused = rc != 0 && conn->refused;
		}
		if (rc != 0 && !refused)
			hwts_fails(store, HWTS_BEGIN, rc);
		batch->unsure |= rc == ECONNRESET;
		trip.reply_ns = hwt_now();
		hwts_lock(store);
		if (rc == 0)
			follow_clock(store, wants, n, &trip);
		if (!refused)
			hwts_ability_note(store, HWTS_BEGIN, rc == 0);
		again = rc != 0 && !refused && batch->unsure && batch->at_most_once && hwts_trusted(store) &&
			!hwts_ability_lacks(store);
		if (again)
			hwts_rest(store, failures);
		hwts_unlock(store);
	} while (again);
	for (size_t i = 0; i < n; i++)
		if (wants[i].row)
			wants[i].row->queued_ns = sent_ns;
	return rc;
}

/* Halves a batch that the database refuses, until only the refused rows are left. */
static int ask_by_halves(hwt_store *store, struct batch *batch, struct hwts_want *wants, size_t n, unsigned *failures)
{
	int rc = ask(store, batch, wants, n, failures), rest;
	const struct hwts_conn *conn = hwts_conn(store, HWTS_BEGIN);
	bool refused = rc != 0 && conn && conn->refused;

	if (refused && n > 1) {
		rc = ask_by_halves(store, batch, wants, n / 2, failures);
		rest = ask_by_halves(store, batch, wants + n / 2, n - n / 2, failures);
		return rc ? rc : rest;
	}
	for (size_t i = 0; i < n; i++) {
		wants[i].failed = rc != 0 && !refused;
		wants[i].refused = refused;
	}
	if (refused)
		hwts_cut(batch->why, sizeof(batch->why), hwts_fail_text(), strlen(hwts_fail_text()));
	return refused ? 0 : rc;
}

/* Warns of the rows that have just been set aside. */
static void tell_refused(hwt_store *store, const struct batch *batch, int64_t first, unsigned count)
{
	if (count > 0)
		hwts_warn(store, "begin: %u are set aside, and are tried again each lease; timeout %lld: %s", count,
			  (long long)first, batch->why);
}

static int begin(hwt_store *store, struct batch *batch, unsigned *failures)
{
	int rc = ask_by_halves(store, batch, batch->wants, batch->count, failures);
	int inherits = hwts_inherit(store, batch->wants, batch->count, batch->at_most_once, batch->why);
	unsigned refused = 0;
	int64_t first = 0;

	if (inherits != 0 && rc == 0)
		hwts_fails(store, HWTS_BEGIN, inherits);
	if (store->engine->locks_rows)
		hwts_unblock(store, batch->wants, batch->count, &batch->locked);
	HWTS_POINT("begun");
	hwts_lock(store);
	for (size_t i = 0; i < batch->count; i++) {
		struct hwts_want *want = &batch->wants[i];

		if (want->refused && !want->entry->aside && refused++ == 0)
			first = want->id;
		if (want->refused)
			set_aside(store, want);
		else if (want->failed)
			hwts_begin_again(store, want->entry);
		else if (want->row && batch->doubts != hwts_doubts(store) && !hwts_halts(store, HWTS_BEGIN) &&
			 !batch->at_most_once)
			hwts_doubt(store, want->row);
		else if (want->row)
			begun(store, want->entry, want->row);
		else
			not_begun(store, want);
	}
	hwts_unlock(store);
	hwts_tell_inherited(store, batch->wants, batch->count);
	tell_refused(store, batch, first, refused);
	return rc ? rc : inherits;
}

/* The caller holds store->lock. */
static bool may_begin(hwt_store *store)
{
	struct batch none = { .count = 0 };

	if (!hwts_trusted(store))
		return false;
	HWTS_EACH_KIND (store, kind)
		if (hwts_window_peek(kind) && room(store, kind, &none) > 0)
			return true;
	return false;
}

/*
 * The caller holds store->lock.  Waits for work, for the time of a group's token, or until a row in the queue is stale.
 */
static void wait(hwt_store *store)
{
	int64_t left_ns = hwts_begun_stale_ns(store), wake_ns = INT64_MAX;

	HWTS_EACH_KIND (store, kind)
		if (hwts_trusted(store)) /* otherwise the renewal wakes the beginner */
			wake_ns = HWTS_MIN(wake_ns, hwts_turns_wake_ns(&kind->turns));
	if (wake_ns != INT64_MAX)
		left_ns = HWTS_MIN(left_ns, HWTS_MAX(wake_ns - hwt_now(), 1));
	if (left_ns == INT64_MAX)
		hwts_wait(store, HWTS_BEGIN);
	else
		hwts_wait_for(store, HWTS_BEGIN, left_ns);
}

static void work(hwt_store *store, struct batch *batch)
{
	unsigned failures = 0;

	for (unsigned turn = 0;; turn++) {
		hwts_lock(store);
		while (!hwts_halts(store, HWTS_BEGIN)) {
			hwts_see_to_stale(store, batch->wants, &failures);
			if (hwts_halts(store, HWTS_BEGIN) || may_begin(store))
				break;
			wait(store);
		}
		if (hwts_halts(store, HWTS_BEGIN)) {
			hwts_unlock(store);
			return;
		}
		gather(store, batch, turn);
		hwts_unlock(store);
		if (batch->count == 0)
			continue;
		if (begin(store, batch, &failures) == 0) {
			hwts_works(store, HWTS_BEGIN, &failures);
			continue;
		}
		hwts_lock(store);
		if (!hwts_halts(store, HWTS_BEGIN))
			hwts_rest(store, &failures);
		hwts_unlock(store);
	}
}

void *hwts_beginner(void *arg)
{
	hwt_store *store = arg;
	struct batch batch = { .wants = calloc(store->config.batch, sizeof(*batch.wants)) };

	if (batch.wants)
		work(store, &batch);
	else
		hwts_warn(store, "begin: no memory: nothing is begun before the next start");
	free(batch.wants);
	return NULL;
}
