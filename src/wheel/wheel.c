/* SPDX-License-Identifier: BSD-2-Clause */
/* The part that both layouts share: lists of unplaced, postponed and held records; wheel.h. */
#include "wheel/wheel.h"
#include "base/mem.h"

#define UNPLACED ((uintptr_t)1)

static struct hwt_record *list_next(const struct hwt_record *record)
{
	return (struct hwt_record *)(record->place & ~UNPLACED);
}

static void list_append(struct hwt_wheel_list *list, struct hwt_record *record)
{
	record->place = UNPLACED;
	if (list->last == NULL)
		list->first = record;
	else
		list->last->place = (uintptr_t)record | UNPLACED;
	list->last = record;
}

static void list_prepend(struct hwt_wheel_list *list, struct hwt_record *record)
{
	record->place = (uintptr_t)list->first | UNPLACED;
	if (list->last == NULL)
		list->last = record;
	list->first = record;
}

/* Takes the first record out.  Returns NULL if there is none.  The record's place is stale. */
static struct hwt_record *list_pop(struct hwt_wheel_list *list)
{
	struct hwt_record *record = list->first;

	if (record == NULL)
		return NULL;
	list->first = list_next(record);
	if (list->first == NULL)
		list->last = NULL;
	return record;
}

/* Takes out up to max records. */
static size_t take_list(struct hwt_wheel_list *list, struct hwt_record **records, size_t max)
{
	size_t n = 0;

	while (n < max && (records[n] = list_pop(list)) != NULL)
		n++;
	return n;
}

/* Notes that an unplaced record is due at this tick. */
static void want_unplaced_at(struct hwt_wheel *wheel, int64_t tick)
{
	if (tick < wheel->unplaced_due)
		wheel->unplaced_due = tick;
}

static void unplaced_append(struct hwt_wheel *wheel, struct hwt_record *record, int64_t tick)
{
	list_append(&wheel->unplaced, record);
	want_unplaced_at(wheel, tick);
}

static int64_t tick_to_place(const struct hwt_wheel *wheel, const struct hwt_record *record)
{
	int64_t tick = grid_tick_of(&wheel->grid, record_deadline(record));

	return tick > wheel->tick ? tick : wheel->tick;
}

/*
 * Returns the tick for a record whose deadline a mover may be writing.  Such a record is due at once and RESCHEDULED,
 * so that the worker checks its deadline again before it runs.  (A job that hands its record over sets RESCHEDULING
 * alone.)  A mover that starts after this load of the word notifies the worker if the deadline moves earlier.
 */
static int64_t tick_to_look(const struct hwt_wheel *wheel, struct hwt_record *record)
{
	if (likely(!word_has(record_word(record), WORD_RESCHEDULING))) /* [move] */
		return tick_to_place(wheel, record);
	/* Relaxed: the flag is for this thread.  A mover whose store overwrites the word has set the flag, too. */
	atomic_fetch_or_explicit(&record->word, WORD_RESCHEDULED, memory_order_relaxed);
	return wheel->tick;
}

static inline void place_at(struct hwt_wheel *wheel, struct hwt_record *const *records, const int64_t *ticks, size_t n)
{
	size_t i = 0;

	/* W2: while there are unplaced records, later records queue up behind them. */
	if (likely(wheel->unplaced.first == NULL))
		i = wheel->layout->place(wheel, records, ticks, n);
	for (; unlikely(i < n); i++)
		unplaced_append(wheel, records[i], ticks[i]);
}

void hwt_wheel_unplace(struct hwt_wheel *wheel, struct hwt_record *record, int64_t tick)
{
	list_prepend(&wheel->unplaced, record);
	want_unplaced_at(wheel, tick > wheel->tick ? tick : wheel->tick);
}

void hwt_wheel_place(struct hwt_wheel *wheel, struct hwt_record *const *records, size_t n)
{
	int64_t ticks[HWT_PLACE_MAX];

	HWT_ASSERT(n <= HWT_PLACE_MAX);
	if (n == 0)
		return;
	for (size_t j = 0; j < n; j++)
		ticks[j] = tick_to_place(wheel, records[j]);
	place_at(wheel, records, ticks, n);
}

void hwt_wheel_postpone(struct hwt_wheel *wheel, struct hwt_record *record)
{
	list_append(&wheel->postponed, record);
}

void hwt_wheel_hold(struct hwt_wheel *wheel, struct hwt_record *record)
{
	list_append(&wheel->held, record);
}

static bool is_lazy(struct hwt_record *record)
{
	/* Relaxed: the worker sees its own LAZY; that of a canceller it may see a pass later. */
	return word_state(atomic_load_explicit(&record->word, memory_order_relaxed)) == STATE_LAZY;
}

void hwt_wheel_retry_unplaced(struct hwt_wheel *wheel)
{
	while (wheel->unplaced.first != NULL) {
		struct hwt_record *record = wheel->unplaced.first, *next = list_next(record);
		int64_t tick = tick_to_look(wheel, record);

		/* A lazy record leaves with the next collect; the records behind it are tried after that. */
		if (is_lazy(record)) {
			wheel->unplaced_due = wheel->tick;
			return;
		}
		if (wheel->layout->place(wheel, &record, &tick, 1) == 0)
			return;
		wheel->unplaced.first = next;
	}
	wheel->unplaced.last = NULL;
	wheel->unplaced_due = HWT_TICK_NEVER;
}

/* Takes the first records of a list, to be placed.  Lazy records go to the unplaced list, for the next collect. */
static size_t take_to_place(struct hwt_wheel *wheel, struct hwt_wheel_list *list, struct hwt_record **records,
			    int64_t *ticks)
{
	struct hwt_record *record;
	size_t n = 0;

	while (n < HWT_PLACE_MAX && (record = list_pop(list)) != NULL) {
		if (is_lazy(record)) {
			unplaced_append(wheel, record, wheel->tick);
			continue;
		}
		ticks[n] = tick_to_look(wheel, record);
		records[n++] = record;
	}
	return n;
}

static void place_list(struct hwt_wheel *wheel, struct hwt_wheel_list *list)
{
	struct hwt_record *records[HWT_PLACE_MAX];
	int64_t ticks[HWT_PLACE_MAX];
	size_t n;

	while (unlikely((n = take_to_place(wheel, list, records, ticks)) > 0))
		place_at(wheel, records, ticks, n);
}

void hwt_wheel_end_hold(struct hwt_wheel *wheel)
{
	place_list(wheel, &wheel->held);
}

void hwt_wheel_end_tick(struct hwt_wheel *wheel)
{
	place_list(wheel, &wheel->postponed);
	if (unlikely(wheel->unplaced.first != NULL))
		hwt_wheel_retry_unplaced(wheel);
}

void hwt_wheel_prefetch(const struct hwt_record *record)
{
	if (likely(record->place != 0 && (record->place & UNPLACED) == 0))
		hwt_bucket_prefetch(record->place);
}

/*
 * Takes a record out of its bucket, if it is in one.  Returns false if it is in a list.  The trees of the layout stay
 * as they are: settle corrects them, once for many removals.
 */
static inline bool leave_bucket(struct hwt_wheel *wheel, struct hwt_record *record)
{
	if ((record->place & UNPLACED) != 0)
		return false;
	if (record->place != 0)
		hwt_bucket_remove(&wheel->stock, record);
	return true;
}

bool hwt_wheel_remove(struct hwt_wheel *wheel, struct hwt_record *record)
{
	if (likely(leave_bucket(wheel, record)))
		return true;
	record_mark_lazy(record);
	wheel->unplaced_due = wheel->tick;
	return false;
}

bool hwt_wheel_take_out(struct hwt_wheel *wheel, struct hwt_record *record)
{
	if (likely(leave_bucket(wheel, record)))
		return true;
	want_unplaced_at(wheel, tick_to_look(wheel, record));
	return false;
}

int64_t hwt_wheel_next_due(const struct hwt_wheel *wheel)
{
	int64_t placed = wheel->layout->next_due(wheel);

	return placed < wheel->unplaced_due ? placed : wheel->unplaced_due;
}

void hwt_wheel_settle(struct hwt_wheel *wheel)
{
	wheel->layout->settle(wheel, HWT_SETTLE_VISITS);
}

void hwt_wheel_seek(struct hwt_wheel *wheel, int64_t tick)
{
	HWT_ASSERT(tick >= wheel->tick);
	if (wheel->layout->seek != NULL && tick > wheel->tick)
		wheel->layout->seek(wheel, tick);
	wheel->tick = tick;
}

/* Moves the unplaced records that are due or lazy to `ripe`. */
static void sort_unplaced(struct hwt_wheel *wheel)
{
	struct hwt_wheel_list all = wheel->unplaced;
	struct hwt_record *record;

	wheel->unplaced = (struct hwt_wheel_list){ NULL, NULL };
	wheel->unplaced_due = HWT_TICK_NEVER;
	while ((record = list_pop(&all)) != NULL) {
		int64_t tick = tick_to_look(wheel, record);

		HWT_POINT("unplaced");
		if (tick <= wheel->tick || is_lazy(record))
			list_append(&wheel->ripe, record);
		else
			unplaced_append(wheel, record, tick);
	}
}

/* Collects unplaced records.  One pass over the list serves all collects of a tick. */
static size_t collect_unplaced(struct hwt_wheel *wheel, struct hwt_record **due, size_t max)
{
	size_t n;

	if (wheel->ripe.first == NULL)
		sort_unplaced(wheel);
	n = take_list(&wheel->ripe, due, max);
	if (wheel->ripe.first != NULL)
		wheel->unplaced_due = wheel->tick;
	return n;
}

size_t hwt_wheel_collect(struct hwt_wheel *wheel, struct hwt_record **due, size_t max)
{
	size_t n = wheel->layout->collect(wheel, due, max);

	if (unlikely(wheel->unplaced_due <= wheel->tick) && n < max)
		n += collect_unplaced(wheel, due + n, max - n);
	return n;
}

size_t hwt_wheel_sweep(struct hwt_wheel *wheel, struct hwt_record **all, size_t max)
{
	size_t n = wheel->layout->sweep(wheel, all, max);

	n += take_list(&wheel->ripe, all + n, max - n);
	n += take_list(&wheel->unplaced, all + n, max - n);
	n += take_list(&wheel->postponed, all + n, max - n);
	return n + take_list(&wheel->held, all + n, max - n);
}

void hwt_wheel_go_back(struct hwt_wheel *wheel, int64_t tick, struct hwt_record *const *records, size_t n)
{
	struct hwt_record *all[HWT_PLACE_MAX];
	struct hwt_wheel_list list = { NULL, NULL };

	HWT_ASSERT(tick >= 0 && tick < wheel->tick);
	for (size_t i = 0; i < n; i++)
		list_append(&list, records[i]);
	while ((n = hwt_wheel_sweep(wheel, all, HWT_PLACE_MAX)) > 0)
		for (size_t i = 0; i < n; i++)
			list_append(&list, all[i]);
	wheel->tick = tick;
	wheel->unplaced_due = HWT_TICK_NEVER;
	wheel->postponed = list;
	hwt_wheel_end_tick(wheel);
}

void hwt_wheel_destroy(struct hwt_wheel *wheel)
{
	wheel->layout->destroy(wheel);
	hwt_stock_destroy(&wheel->stock);
	hwt_mem_free(wheel);
}
