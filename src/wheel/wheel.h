/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wheel: which records are due at which tick.  It knows ticks; no clock, no threads, no tasks.
 *
 * Structure
 *
 *   An interface over layouts (hashed.c, levels.c), and what they share: the current tick and the
 *   unplaced list.  A record for which a layout has no memory goes on that list, linked through itself.  It is tried
 *   again in each pass and expires from there if it becomes due: lack of memory delays nothing and loses nothing.  What
 *   is put off in the middle of a tick waits for its end in a list of the same kind.
 *
 *   A user of the wheel goes from tick to tick:
 *
 *       while ((tick = hwt_wheel_next_due(wheel)) <= target) {
 *               hwt_wheel_seek(wheel, tick);
 *               while ((n = hwt_wheel_collect(wheel, batch, max)) > 0)
 *                       run batch
 *               hwt_wheel_seek(wheel, tick + 1);
 *               hwt_wheel_end_tick(wheel);
 *       }
 *       hwt_wheel_seek(wheel, target + 1);
 *
 * Threads: one at a time, the worker or stop after it.
 *
 * Invariants
 *
 *   W1  nothing in the wheel is due before wheel->tick.
 *   W2  two records of one tick are collected in the order in which they were placed; those of the unplaced list were
 *       placed after all others, because while it has members every new one joins it.
 *   W3  between the first and the last collect of a tick nothing is placed and nothing removed.
 */
#ifndef HWT_WHEEL_H
#define HWT_WHEEL_H

#include "base/grid.h"
#include "base/record.h"

#define HWT_PLACE_MAX 32

/* Some 70 microseconds. */
#define HWT_SETTLE_LOOKS 1024

struct hwt_wheel;

struct hwt_wheel_layout {
	/* Records that are due at ticks >= wheel->tick, in their order.  How many: it ends where memory does. */
	size_t (*place)(struct hwt_wheel *wheel, struct hwt_record *const *records, const int64_t *ticks, size_t n);
	/* record->place != 0: what remove is going to touch, or nothing. */
	void (*prefetch)(const struct hwt_record *record);
	/* record->place != 0, and is 0 afterwards. */
	void (*remove)(struct hwt_wheel *wheel, struct hwt_record *record);
	int64_t (*next_due)(const struct hwt_wheel *wheel);
	void (*settle)(struct hwt_wheel *wheel, unsigned looks);
	/* wheel->tick becomes tick, which is later.  NULL: that is all. */
	void (*seek)(struct hwt_wheel *wheel, int64_t tick);
	/* The wheel is empty: wheel->tick may become an earlier one.  NULL: nothing to do for that. */
	void (*reset)(struct hwt_wheel *wheel);
	size_t (*collect)(struct hwt_wheel *wheel, struct hwt_record **due, size_t max);
	size_t (*sweep)(struct hwt_wheel *wheel, struct hwt_record **all, size_t max);
	/* Of memory that it holds.  Any thread. */
	size_t (*bytes)(const struct hwt_wheel *wheel);
	void (*destroy)(struct hwt_wheel *wheel);
};

/* Records in no bucket, in their order. */
struct hwt_wheel_list {
	struct hwt_record *first, *last; /* linked through place, bit 0 set */
};

struct hwt_wheel {
	const struct hwt_wheel_layout *layout;
	struct hwt_grid grid; /* turns deadlines into ticks; start_ns is set before the first use */
	int64_t tick;         /* the next one to expire */

	struct hwt_wheel_list unplaced;
	int64_t unplaced_due; /* not later than the first tick at which one of them wants attention */

	struct hwt_wheel_list postponed;
};

/* A wheel of the hashed layout with a power of two of buckets.  NULL without memory. */
struct hwt_wheel *hwt_wheel_hashed_create(uint32_t buckets);

/* One of the hierarchical layout, with a power of two of at least 2 buckets for each block.  NULL without memory. */
struct hwt_wheel *hwt_wheel_levels_create(uint32_t size);

void hwt_wheel_destroy(struct hwt_wheel *wheel);

/*
 * Places n <= HWT_PLACE_MAX records by their deadline_ns, at wheel->tick if that has passed.  None was RESCHEDULING
 * after it was armed and before this (worker.c and worker_slow.c see to that).  Cannot fail.  Takes many at once,
 * so that the lines they go to are on their way while others are placed.
 */
void hwt_wheel_place(struct hwt_wheel *wheel, struct hwt_record *const *records, size_t n);

/* Tries the unplaced ones again, first come, first served. */
void hwt_wheel_retry_unplaced(struct hwt_wheel *wheel);

/* Ends a tick: places what was postponed, then as above. */
void hwt_wheel_end_tick(struct hwt_wheel *wheel);

/*
 * A record that was collected at this tick and turned out to be due at a later one, or has run and runs again, or whose
 * deadline is not known at the moment: hwt_wheel_end_tick places it, not before the next tick.
 */
void hwt_wheel_postpone(struct hwt_wheel *wheel, struct hwt_record *record);

/*
 * Takes up to max of the postponed records, from the first one, up to `last` if that comes by.  They are then the
 * caller's, which may postpone some of them again.
 */
size_t hwt_wheel_take_postponed(struct hwt_wheel *wheel, struct hwt_record **records, size_t max,
				const struct hwt_record *last);

/*
 * Takes an armed record out, if it is in, to be placed elsewhere.  Returns false if it stays, on the unplaced list,
 * which then knows its new deadline.
 */
bool hwt_wheel_take_out(struct hwt_wheel *wheel, struct hwt_record *record);

/* Fetches what hwt_wheel_remove will touch.  The record itself should have been fetched. */
void hwt_wheel_prefetch(const struct hwt_wheel *wheel, const struct hwt_record *record);

/*
 * Takes a cancelled record out, if it is in.  false: it cannot be taken out now; its word is LAZY and it comes with
 * the next collect instead.
 */
bool hwt_wheel_remove(struct hwt_wheel *wheel, struct hwt_record *record);

/* The next tick at which hwt_wheel_collect may return anything; never too late; HWT_TICK_NEVER. */
int64_t hwt_wheel_next_due(const struct hwt_wheel *wheel);

/*
 * Makes that answer forget the records that were removed.  For a caller that is about to sleep; not in the middle of a
 * tick.
 *
 * Looks at the bucket that is first by the tree, and corrects its entry if the member that was first has left; then at
 * the bucket that is first now.  So a removal itself costs nothing here, an entry that is right costs one look at its
 * bucket, and one that is wrong costs a look instead of a wake-up and a pass.  Gives up after HWT_SETTLE_LOOKS buckets
 * and chunks: then the answer is the tick of a record that was removed, which is too early.
 */
void hwt_wheel_settle(struct hwt_wheel *wheel);

/* Goes on to tick >= wheel->tick; nothing between may be due (W1).  A layout may put records elsewhere meanwhile. */
void hwt_wheel_seek(struct hwt_wheel *wheel, int64_t tick);

/*
 * Takes up to max of the records that are due at wheel->tick, without touching them: their place is stale.  Less than
 * max: there are no more at this tick.
 */
size_t hwt_wheel_collect(struct hwt_wheel *wheel, struct hwt_record **due, size_t max);

/*
 * For layouts: a record that was placed, before all of the unplaced list, and for which there is no memory any more.
 * So it goes to the front.
 */
void hwt_wheel_unplace(struct hwt_wheel *wheel, struct hwt_record *record, int64_t tick);

/* Takes up to max of all records, in no order.  0: the wheel is empty. */
size_t hwt_wheel_sweep(struct hwt_wheel *wheel, struct hwt_record **all, size_t max);

/* Of memory that it holds.  Any thread. */
static inline size_t wheel_bytes(const struct hwt_wheel *wheel)
{
	return wheel->layout->bytes(wheel);
}

/*
 * Goes back to a tick before wheel->tick, and places all records again.  The n records have been collected and are in
 * the caller's hands; they come first.
 */
void hwt_wheel_go_back(struct hwt_wheel *wheel, int64_t tick, struct hwt_record *const *records, size_t n);

#ifdef HWT_TEST
/* For the checker: the insides of the hashed layout, or of one level of the other. */
struct hwt_wheel_view {
	uint32_t count;
	unsigned bits, levels;
	const struct hwt_ring *ring;
	const struct hwt_store *store;
	int32_t max_remaining;              /* hashed only */
	const struct hwt_chunk *collecting; /* hashed only: where an unfinished collect stands, NULL: none */
};

bool hwt_wheel_is_hierarchical(const struct hwt_wheel *wheel);
void hwt_wheel_levels_view(const struct hwt_wheel *wheel, unsigned level, struct hwt_wheel_view *view);
void hwt_wheel_hashed_view(const struct hwt_wheel *wheel, struct hwt_wheel_view *view);
#endif

#endif
