/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wheel: knows which records are due at which tick.  It has no clock, no threads and no tasks.
 *
 * Structure
 *
 *   An interface over two layouts (hashed.c, levels.c), and what they share: the current tick and some lists.  A record
 *   for which a layout has no memory is unplaced: it goes on a list, linked through itself.  Each pass tries to place
 *   it again; if it becomes due before, it expires from the list.  So a lack of memory delays no timeout and loses
 *   none.  A postponed record waits on a list of the same kind for the end of the tick; a held record, which runs
 *   again, waits for the end of all ticks that have come.
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
 *   W1  no record in the wheel is due before wheel->tick.
 *   W2  two records of one tick are collected in the order in which they were placed.  Unplaced records come after all
 *       others: while there are any, each new record joins them.
 *   W3  between the first and the last collect of a tick no record is placed and none removed.
 */
#ifndef HWT_WHEEL_H
#define HWT_WHEEL_H

#include "base/grid.h"
#include "base/record.h"
#include "wheel/bucket.h"

#define HWT_PLACE_MAX 32

/* Visits, of buckets or of their chunks, after which hwt_wheel_settle gives up: some 70 microseconds. */
#define HWT_SETTLE_VISITS 1024

struct hwt_wheel;

struct hwt_wheel_layout {
	/*
	 * Places records that are due at ticks >= wheel->tick, in order.  Returns their number, less than n if memory
	 * ran out.
	 */
	size_t (*place)(struct hwt_wheel *wheel, struct hwt_record *const *records, const int64_t *ticks, size_t n);
	int64_t (*next_due)(const struct hwt_wheel *wheel);
	void (*settle)(struct hwt_wheel *wheel, unsigned visits);
	/* Makes wheel->tick the later tick `tick`.  NULL: the layout has nothing to do. */
	void (*seek)(struct hwt_wheel *wheel, int64_t tick);
	size_t (*collect)(struct hwt_wheel *wheel, struct hwt_record **due, size_t max);
	/* When the wheel is empty, wheel->tick may become an earlier tick. */
	size_t (*sweep)(struct hwt_wheel *wheel, struct hwt_record **all, size_t max);
	/* Frees its buckets. */
	void (*destroy)(struct hwt_wheel *wheel);
};

/* An ordered list of records that are in no bucket. */
struct hwt_wheel_list {
	struct hwt_record *first, *last; /* linked through place, bit 0 set */
};

struct hwt_wheel {
	const struct hwt_wheel_layout *layout;
	struct hwt_grid grid;   /* converts deadlines to ticks; start_ns is set before the first use */
	int64_t tick;           /* the next tick to expire */
	struct hwt_stock stock; /* the chunks of all buckets */
	_Atomic size_t bytes;   /* all memory but the chunks; the worker writes */

	struct hwt_wheel_list unplaced;
	int64_t unplaced_due; /* a lower bound of the tick at which an unplaced record is due or can be dropped */

	struct hwt_wheel_list ripe; /* unplaced ones that the next collects return; empty between two ticks */

	struct hwt_wheel_list postponed, held;
};

/* Makes a wheel of the hashed layout with a power of two of buckets.  Returns NULL if there is no memory. */
struct hwt_wheel *hwt_wheel_hashed_create(uint32_t buckets);

/*
 * Makes a wheel of the hierarchical layout, with a power of two, at least 2, of buckets a block.  Returns NULL if there
 * is no memory.
 */
struct hwt_wheel *hwt_wheel_levels_create(uint32_t size);

void hwt_wheel_destroy(struct hwt_wheel *wheel);

/* For layouts: initialises a wheel of `bytes` of zeroed memory, which hwt_wheel_destroy frees. */
static inline void wheel_init(struct hwt_wheel *wheel, const struct hwt_wheel_layout *layout, size_t bytes)
{
	wheel->layout = layout;
	wheel->unplaced_due = HWT_TICK_NEVER;
	atomic_init(&wheel->bytes, bytes);
}

/* For layouts: counts more bytes.  Relaxed: one writer, and only a number. */
static inline void wheel_add_bytes(struct hwt_wheel *wheel, size_t more)
{
	atomic_fetch_add_explicit(&wheel->bytes, more, memory_order_relaxed);
}

/*
 * Places n <= HWT_PLACE_MAX records by their deadlines; a deadline that has passed counts as wheel->tick.  No record
 * may have been RESCHEDULING between its arm and this call (worker.c and worker_slow.c see to that).  Cannot fail.  It
 * takes many records at once, so that the cache lines of some arrive while others are placed.
 */
void hwt_wheel_place(struct hwt_wheel *wheel, struct hwt_record *const *records, size_t n);

/* Tries to place the unplaced records, in their order. */
void hwt_wheel_retry_unplaced(struct hwt_wheel *wheel);

/*
 * Holds a record that runs again until all ticks that have come are over: a task that re-arms itself for a time that
 * has passed would otherwise run at each of these ticks.
 */
void hwt_wheel_hold(struct hwt_wheel *wheel, struct hwt_record *record);

/* Places the held records.  Between two ticks. */
void hwt_wheel_end_hold(struct hwt_wheel *wheel);

/* Ends a tick: places the postponed records, then tries the unplaced ones. */
void hwt_wheel_end_tick(struct hwt_wheel *wheel);

/*
 * Leaves a record to hwt_wheel_end_tick, which places it at the next tick or later.  For a record that was collected
 * and is due later, or one whose deadline is being written.
 */
void hwt_wheel_postpone(struct hwt_wheel *wheel, struct hwt_record *record);

/*
 * Takes an armed record out of its bucket, if it is in one, to be placed elsewhere.  Returns false if the record stays
 * on the unplaced list, which then knows its new deadline.
 */
bool hwt_wheel_take_out(struct hwt_wheel *wheel, struct hwt_record *record);

/* Fetches the lines that hwt_wheel_remove will touch.  The record itself should have been fetched. */
void hwt_wheel_prefetch(const struct hwt_record *record);

/*
 * Takes a cancelled record out of its bucket, if it is in one.  Returns false if the record is unplaced: then its word
 * becomes LAZY, and the next collect returns it.
 */
bool hwt_wheel_remove(struct hwt_wheel *wheel, struct hwt_record *record);

/* Returns a tick not later than the first at which hwt_wheel_collect returns a record, or HWT_TICK_NEVER. */
int64_t hwt_wheel_next_due(const struct hwt_wheel *wheel);

/*
 * Corrects an answer of hwt_wheel_next_due that is too early because records were removed.  For a caller that is about
 * to sleep; not in the middle of a tick.
 *
 * Visits the bucket that is first by the tree (ring.h), and corrects its entry if its earliest member has left; then
 * the bucket that is first now, and so on.  Gives up after HWT_SETTLE_VISITS visits: the answer may still be too early.
 */
void hwt_wheel_settle(struct hwt_wheel *wheel);

/* Goes on to a tick >= wheel->tick.  No record may be due in between (W1).  The layout may move records. */
void hwt_wheel_seek(struct hwt_wheel *wheel, int64_t tick);

/*
 * Takes up to max of the records that are due at wheel->tick out, and returns their number; if it is less than max, the
 * tick has no more.  Does not touch the records, so their places are stale.
 */
size_t hwt_wheel_collect(struct hwt_wheel *wheel, struct hwt_record **due, size_t max);

/*
 * For layouts: makes a placed record unplaced, because its new place needs memory and there is none.  It goes to the
 * front of the unplaced list, as it was placed before all of them.
 */
void hwt_wheel_unplace(struct hwt_wheel *wheel, struct hwt_record *record, int64_t tick);

/* Takes up to max of all records out, in no order, and returns their number; 0 if the wheel is empty. */
size_t hwt_wheel_sweep(struct hwt_wheel *wheel, struct hwt_record **all, size_t max);

/*
 * Gives some memory for chunks back while no record is placed, and adds its bytes to *bytes.  Returns true if there is
 * more to give.  Not in the middle of a tick.
 */
static inline bool wheel_trim(struct hwt_wheel *wheel, size_t *bytes)
{
	return hwt_stock_trim(&wheel->stock, bytes);
}

/* Returns true if no record is placed. */
static inline bool wheel_is_empty(const struct hwt_wheel *wheel)
{
	return wheel->stock.used == 0;
}

/* Returns the bytes that wheel_trim gives back once no record is placed. */
static inline size_t wheel_spare(const struct hwt_wheel *wheel)
{
	const struct hwt_slab *newest = wheel->stock.slabs.newest;

	return newest != NULL ? slabs_bytes(&wheel->stock.slabs) - newest->bytes : 0;
}

/* Returns the bytes that the wheel holds.  Any thread.  Relaxed: only a number. */
static inline size_t wheel_bytes(const struct hwt_wheel *wheel)
{
	return atomic_load_explicit(&wheel->bytes, memory_order_relaxed) + slabs_bytes(&wheel->stock.slabs);
}

/*
 * Goes back to a tick before wheel->tick, and places all records again.  First come the n records that the caller has
 * collected and not run.
 */
void hwt_wheel_go_back(struct hwt_wheel *wheel, int64_t tick, struct hwt_record *const *records, size_t n);

#ifdef HWT_TEST
/* For the checker: the insides of the hashed layout, or of one level of the other (test/check/). */
struct hwt_wheel_view {
	uint32_t count;
	unsigned bits, levels;
	const struct hwt_ring *ring;
	int32_t max_remaining;              /* hashed only */
	const struct hwt_chunk *collecting; /* hashed only: where an unfinished collect goes on, NULL: nowhere */
};

bool hwt_wheel_is_hierarchical(const struct hwt_wheel *wheel);
void hwt_wheel_hashed_view(const struct hwt_wheel *wheel, struct hwt_wheel_view *view);
#endif

#endif
