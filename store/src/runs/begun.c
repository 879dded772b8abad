/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that were begun, and wait for a thread or to be pulled.
 *
 * Some of them do not start:
 *
 *   a row that has waited for too long, or whose shard is given   is given back: pending, as before its begin
 *   a row to be pulled that another process has changed since     is given back, and its end does as the row says
 *   a row that a call of this process has replaced                is given back, and its end files the replacement
 *   a series that a call of this process has cancelled            is given back, and its end removes the row
 *   a row that a call cancels or moves                            is lent to that call (hwts_unbegin)
 *
 * Such a call takes the row out of the queue and changes it in the database under the epoch of its begin, so no process
 * starts the row meanwhile.  The ender waits for rows that are lent.
 */
#include "runs/ender.h"
#include "runs/begun.h"
#include "runs/poll.h"
#include "store/clock.h"
#include "store/ends.h"
#include "store/run.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

#define AHEAD_NS HWT_MS(20)
#define QUEUE_BYTES ((size_t)16 << 20)
#define BETWEEN_NS HWT_S(10) /* how long a call waits for a begin or a return of its row */

/* n: 1 when the row joins the queue, -1 when it leaves. */
static void count(hwt_store *store, const struct hwts_row *row, int n)
{
	row->kind->begun.count += (unsigned)n;
	if (row->kind->pulled) {
		hwts_poll_wait(store, n);
		return;
	}
	store->runs->queued += (unsigned)n;
	store->runs->queued_bytes += n > 0 ? row->len : -row->len;
}

/*
 * Groups take turns in this queue too, so that a group that came first does not hold up the others.  Within a group the
 * row with the larger priority takes the place of the one with the smaller.
 */
void hwts_begun_push(hwt_store *store, struct hwts_row *row)
{
	struct hwts_kind *kind = row->kind;
	struct hwts_row **link = &kind->begun.first;
	const struct hwts_row *last = kind->begun.first ? (struct hwts_row *)kind->begun.end
							: NULL; /* next is the first member of a row */

	count(store, row, 1); /* first, as the loop may assign another row to `row` */
	kind->begun.least = last ? HWTS_MIN(kind->begun.least, row->priority) : row->priority;
	kind->begun.since_ns = last ? kind->begun.since_ns : row->queued_ns;
	if (last && row->priority == kind->begun.least && (int32_t)(last->round - row->round) <= 0)
		link = kind->begun.end;
	for (; *link && (int32_t)((*link)->round - row->round) <= 0; link = &(*link)->next) {
		struct hwts_row *other = *link;
		uint32_t round = row->round;

		if (other->turns != row->turns || other->priority >= row->priority)
			continue;
		row->next = other->next;
		row->round = other->round;
		other->round = round;
		*link = row;
		if (!row->next)
			kind->begun.end = &row->next;
		row = other;
	}
	row->next = *link;
	*link = row;
	if (!row->next)
		kind->begun.end = &row->next;
}

struct hwts_row *hwts_unqueue(hwt_store *store, struct hwts_kind *kind, struct hwts_row **link)
{
	struct hwts_row *row = *link;

	*link = row->next;
	if (!row->next)
		kind->begun.end = link;
	row->next = NULL;
	count(store, row, -1);
	return row;
}

/*
 * The row waits to be pulled, and may have been cancelled or replaced by another process since it was read.  Without
 * trust it is given back.
 */
static bool is_unread(const hwt_store *store, const struct hwts_row *row)
{
	return row->kind->pulled && hwts_trusted(store) &&
	       hwts_boot_ns() - row->queued_ns >= store->config.lease_ns / 3;
}

/* Kinds take turns. */
struct hwts_row *hwts_begun_next(hwt_store *store, unsigned *turn, bool pulled)
{
	struct hwts_kind *kind = hwts_kind_turn(store, *turn);

	for (size_t i = 0, n = hwts_kind_count(store); i < n; i++, kind = hwts_kind_around(store, kind)) {
		if (kind->pulled != pulled || !kind->begun.first || kind->begun.running >= kind->concurrency ||
		    is_unread(store, kind->begun.first))
			continue;
		*turn += (unsigned)i + 1;
		kind->turns.round = kind->begun.first->round;
		return hwts_unqueue(store, kind, &kind->begun.first);
	}
	return NULL;
}

void hwts_begun_runs(hwt_store *store, struct hwts_kind *kind)
{
	kind->begun.running++;
	store->runs->running += !kind->pulled;
}

void hwts_begun_ran(hwt_store *store, struct hwts_kind *kind, int64_t took_ns)
{
	int64_t is_ns = kind->begun.run_ns;

	kind->begun.running--;
	if (kind->pulled)
		return;
	store->runs->running--;
	kind->begun.run_ns = HWTS_MAX(is_ns ? is_ns + (took_ns - is_ns) / 4 : took_ns, 1);
}

unsigned hwts_queued(const hwt_store *store, const struct hwts_kind *kind)
{
	return kind ? kind->begun.count : store->runs->queued;
}

int64_t hwts_begun_oldest_us(const struct hwts_kind *kind)
{
	int64_t oldest_us = HWTS_NEVER;

	for (const struct hwts_row *row = kind->begun.first; row; row = row->next)
		oldest_us = HWTS_MIN(oldest_us, row->due_us);
	return oldest_us;
}

void hwts_begun_waits(hwt_store *store, const struct hwts_kind *kind, struct hwts_waits *waits)
{
	bool starts = !kind->pulled && kind->begun.running < kind->concurrency &&
		      store->runs->running < store->config.threads;

	for (const struct hwts_row *row = kind->begun.first; row; row = row->next)
		if (hwts_window_why(store, row->id) == HWT_STORE_STARTS) /* otherwise the window counts its entry */
			hwts_waits_add(waits, starts ? HWT_STORE_STARTS : HWT_STORE_WAITS_THREAD, row->due_us, row->id);
}

/*
 * How much may be begun
 */

unsigned hwts_begun_free(const hwt_store *store, const struct hwts_kind *kind, size_t others)
{
	unsigned all = store->config.threads, busy = store->runs->queued + store->runs->running + (unsigned)others,
		 mine = kind->begun.count + kind->begun.running, threads = HWTS_MIN(kind->concurrency, all);

	if (kind->pulled)
		return kind->concurrency - HWTS_MIN(mine, kind->concurrency);
	return busy >= all || mine >= threads ? 0 : HWTS_MIN(all - busy, threads - mine);
}

bool hwts_begun_may_run(const struct hwts_kind *kind)
{
	return !kind->pulled && kind->begun.count + kind->begun.running < kind->concurrency;
}

/*
 * How many rows start within AHEAD_NS after those that all kinds have in their queues.  None while half of them are in
 * this kind's queue: so a batch is worth its round trip.
 */
unsigned hwts_begun_ahead(const hwt_store *store, const struct hwts_kind *kind, int64_t work_ns)
{
	int64_t threads = HWTS_MIN(kind->concurrency, store->config.threads), run_ns = kind->begun.run_ns,
		left_ns = AHEAD_NS * store->config.threads - work_ns, most;

	if (run_ns == 0) /* no run has ended yet */
		return 0;
	HWTS_EACH_KIND (store, k)
		left_ns -= k->begun.count * k->begun.run_ns;
	most = HWTS_MIN(AHEAD_NS * threads / run_ns, store->config.batch);
	return kind->begun.count > most / 2
		   ? 0
		   : (unsigned)HWTS_MAX(HWTS_MIN(left_ns / run_ns, most - kind->begun.count), 0);
}

bool hwts_begun_is_full(const hwt_store *store)
{
	return store->runs->queued_bytes >= QUEUE_BYTES;
}

int64_t hwts_begun_run_ns(const struct hwts_kind *kind)
{
	return kind->begun.run_ns;
}

/*
 * Rows that do not start
 */

/* A pulled row has left its place: another may be begun.  Where runs have threads, the end of a run sees to that. */
static void free_place(hwt_store *store, const struct hwts_kind *kind)
{
	if (kind->pulled)
		hwts_wake(store, HWTS_BEGIN);
}

/* The row is pending again, as before its begin. */
void hwts_give_back(hwt_store *store, struct hwts_row *row)
{
	free_place(store, row->kind);
	hwts_window_between(store, row->id);
	row->give_back = true;
	row->how = HWTS_AT;
	row->when_us = row->due_us;
	row->next_base_us = row->base_us;
	row->next_attempt = row->attempt - 1;
	hwts_end(store, row);
}

void hwts_give_back_queued(hwt_store *store, bool all)
{
	HWTS_EACH_KIND (store, kind)
		for (struct hwts_row **link = &kind->begun.first; kind->begun.first && *link;)
			if (all || !hwts_keeps(store, (*link)->shard))
				hwts_give_back(store, hwts_unqueue(store, kind, link));
			else
				link = &(*link)->next;
}

/*
 * Rows that are doubted, and rows that were changed
 */

/* Repeats the begin, whose answer may be lost: it also takes a row that runs under this epoch already. */
void hwts_begin_again(hwt_store *store, struct hwts_entry *entry)
{
	hwts_inactive(store, hwts_shard(store, hwts_window_again(entry), NULL));
}

void hwts_doubt(hwt_store *store, struct hwts_row *row)
{
	hwts_begin_again(store, hwts_window_find(store, row->id));
	free(row);
}

/*
 * The server may have forgotten its last commits, or another has taken its place.  A row that waits in the queue may be
 * pending in that server, and cancelled or moved by now.  So it is begun once more before it starts.
 */
void hwts_doubt_begun(hwt_store *store)
{
	store->runs->doubts++; /* for begins that are under way */
	if (hwts_halts(store, HWTS_BEGIN))
		return;
	HWTS_EACH_KIND (store, kind) {
		if (kind->row.mode == HWT_STORE_AT_MOST_ONCE) /* begins of this mode are synced */
			continue;
		for (struct hwts_row **link = &kind->begun.first; kind->begun.first && *link;) {
			const struct hwts_row *row = *link;

			if (hwts_keeps(store, row->shard) && hwts_holds(store, row->shard, row->epoch))
				hwts_doubt(store, hwts_unqueue(store, kind, link));
			else /* will be given back */
				link = &(*link)->next;
		}
	}
}

unsigned hwts_doubts(const hwt_store *store)
{
	return store->runs->doubts;
}

static struct hwts_row *unqueue_id(hwt_store *store, struct hwts_kind *kind, int64_t id)
{
	for (struct hwts_row **link = kind ? &kind->begun.first : NULL; link && *link; link = &(*link)->next)
		if ((*link)->id == id)
			return hwts_unqueue(store, kind, link);
	return NULL;
}

/*
 * A series that was cancelled goes by its end; a row that was replaced is filed by its end.  If the beginner has the
 * row just now, it gives the row back.
 */
void hwts_give_back_changed(hwt_store *store, int64_t id)
{
	struct hwts_row *row = unqueue_id(store, hwts_window_changed(store, id), id);

	if (row)
		hwts_give_back(store, row);
}

/*
 * Rows that calls change
 */

/*
 * A begin or a return is under way.  A return may wait for a lock of the caller's own transaction, so the wait has an
 * end.
 */
static int await_end(hwt_store *store, int64_t id)
{
	/* In a call of config.ended the thread would wait for itself. */
	int64_t until_ns = hwt_now() + (hwts_in_ended() ? 0 : BETWEEN_NS);
	bool between;

	do {
		hwts_sleep_ns(HWT_MS(1));
		hwts_lock(store);
		between = hwts_window_begun(store, id, &between) && between;
		hwts_unlock(store);
		if (!between)
			return EINTR;
	} while (hwt_now() < until_ns);
	return hwts_fail(EAGAIN, "timeout %lld is being begun or given back, and is locked: try again", (long long)id);
}

uint64_t hwts_begin_before(hwt_store *store, int64_t id)
{
	uint64_t begin;

	hwts_lock(store);
	begin = hwts_window_begin(store, id);
	hwts_unlock(store);
	return begin;
}

int hwts_unbegin(hwt_store *store, int64_t id, uint64_t before, struct hwts_row **row)
{
	struct hwts_kind *kind;
	bool between, given_back;

	hwts_lock(store);
	kind = hwts_window_begun(store, id, &between);
	*row = between ? NULL : unqueue_id(store, kind, id);
	given_back = !kind && hwts_window_begin(store, id) != before;
	if (*row) {
		free_place(store, kind);
		hwts_window_between(store, id);
		hwts_ends_lend(store, 1);
	}
	hwts_unlock(store);
	if (between && kind)
		return await_end(store, id);
	return *row ? 0 : given_back ? EINTR : EBUSY;
}

void hwts_unbegun(hwt_store *store, struct hwts_row *row, bool changed, const struct hwts_due *due)
{
	hwts_lock(store);
	if (changed) {
		row->give_back = true;
		row->hit = due != NULL;
		row->how = due ? HWTS_AT : HWTS_DONE;
		row->when_us = due ? due->due_us : 0;
		row->next_attempt = row->attempt - 1;
		hwts_finished(store, row);
		free(row);
	} else {
		hwts_give_back(store, row);
	}
	hwts_ends_lend(store, -1);
	hwts_unlock(store);
}
