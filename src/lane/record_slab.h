/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slabs of records: lanes take records from them, ended records go home to them, and their memory goes back to the
 * system.
 *
 * Structure
 *
 *       multiple of 2 MiB
 *       v
 *       [ record record record ...       2 MiB ][ page: .. head .. ]
 *
 *   The address of a record leads to the head of its slab.  The head lies behind the records: so the records fill a
 *   huge page and go back as a whole, and the head stays readable.  Heads lie at different offsets in their pages, as
 *   otherwise all heads would compete for one set of the processor's caches.
 *
 *   The thread that ends a record puts it into the slab it came from, whichever lane used it:
 *
 *       owner's free list --pop--> [ timeout ] --> worker's chain --once a pass--> home --refill--> owner's free list
 *                                             +--> other threads ----------------> home
 *
 *   home is one word: the offset of the first record, and how many hang behind it.  A slab has one owner at a time: a
 *   lane, the worker for a moment, or nobody.  A lane owns at most one.  The lane takes all records of home at once; it
 *   carves new records, in spans that double from 4 KiB; then it goes on to another slab that nobody owns (pool.h).
 *
 *   All slabs of a timer stay in one list until the timer is destroyed: a record's memory stays a record (record.h).
 *
 * Threads
 *
 *   record_slab_chain, hwt_record_slabs_flush           the worker.
 *   hwt_record_slab_return                              any thread that has ended records; its last access to them.
 *   hwt_record_slab_claim, _release                     the owner, or a thread that wants to be the owner.  No thread
 *                                                       waits for a slab.
 *   refill, extend, hwt_record_slab_look                the owner: a thread with the lock of the lane, or the worker.
 *
 * Invariants
 *
 *   S1  each carved record of a slab is in its owner's free list, at home, in the worker's chain, or out: in a timeout
 *       or an extension.
 *   S2  out = records carved or popped - records taken from home or put back unused.  So out equals the count of home
 *       if and only if no record is in the chain or in a timeout.  Then only stale handles lead into the slab.
 *   S3  after each give, base is above the generation of each handle that was made in the slab before.  Between two
 *       lives a record comes home, and the owner refills.  So each generation is at most base + 1 + refills.
 *   S4  free, out, carve, span, base and refills change only under the owner.
 *   S5  each word up to span is that of a record, or 0: memory that has not been carved has bytes of zero, or those of
 *       ended records where the system keeps memory that is given back.
 *
 * Ordering
 *
 *   [home]   a return (release) -> refill, or the look that finds the slab empty (acquire): the thread that returned is
 *            done with the records.  The owner always takes all records, so the word needs no counter against reuse.
 *   [owner]  release of a slab -> claim (acquire): S4.
 *   [slabs]  a slab is put into the list with release, and found with acquire: the finder sees a complete head.
 *   [look]   the links of free records share memory with task and arg (record.h).
 */
#ifndef HWT_RECORD_SLAB_H
#define HWT_RECORD_SLAB_H

#include "base/mem.h"
#include "base/record.h"

#include <stdalign.h>

#define SLAB_BYTES HWT_HUGE_PAGE
#define SLAB_RECORDS (SLAB_BYTES / sizeof(struct hwt_record))

/* Colours of heads: places of 64 bytes in a page. */
#define SLAB_COLOURS 64

/* A record that has come home points to the eighth that came after it: a take prefetches that one. */
#define HWT_RETURN_AHEAD 8

/* What a slab that nobody owns has besides records that came home. */
enum record_slab_rest {
	REST_NONE,
	REST_SOME, /* free records, or an uncarved rest of its span */
	REST_ROOM, /* memory not yet taken from the system */
};

struct hwt_record_slabs;

struct hwt_record_slab {
	/* For any thread. */
	_Atomic uint64_t home;       /* [home] */
	_Atomic(const void *) owner; /* [owner]: a lane, the worker (&hwt_record_slab_worker), NULL */
	_Atomic unsigned rest;       /* enum record_slab_rest.  A hint, written by the owner */
	_Atomic uint32_t span;       /* offset of the end of the span, written by the owner: S5 */
	struct hwt_record_slabs *slabs;
	struct hwt_record_slab *next;

	/* The owner's. */
	alignas(HWT_LINE) struct hwt_record *free;
	uint32_t out;
	uint32_t carve;   /* offset of the next record to be carved */
	bool is_used;     /* a lane has owned it since the worker's last look */
	uint64_t base;    /* the generation of what is carved */
	uint64_t refills; /* since the last give */
	int64_t empty_ns; /* when the worker first found the slab empty; 0: it is not */

	/* The worker's chain: records in the order in which they ended. */
	alignas(HWT_LINE) struct hwt_record *first;
	struct hwt_record *last;
	struct hwt_record_slab *touched; /* the next slab with a chain */
	uint32_t count;
	uint32_t recent[HWT_RETURN_AHEAD]; /* offsets of the last records of the chain */
};

static_assert(sizeof(struct hwt_record_slab) == 3 * (size_t)HWT_LINE, "heads have three lines");

/* All slabs of a timer; bytes of zero before the first. */
struct hwt_record_slabs {
	_Atomic(struct hwt_record_slab *) newest; /* [slabs] */
	_Atomic size_t heads;                     /* bytes of all heads */
	_Atomic size_t held;                      /* bytes of all spans */
	_Atomic unsigned looks;                   /* looks so far; after each, lanes search from the newest on */
	_Atomic bool wanted;                      /* a lane will need a large slab; a hint for the worker */
	struct hwt_record_slab *touched;          /* the worker's: the slabs with a chain */
	uint64_t returned;                        /* the worker's: how many records it has returned */
};

extern const char hwt_record_slab_worker;

#ifndef WEAK_SLAB /* the harnesses of test/weak/ have a slab of another shape */
/* Returns the address of the slab of a record. */
static inline uintptr_t record_slab_base(const struct hwt_record *record)
{
	return (uintptr_t)record & ~(uintptr_t)(SLAB_BYTES - 1);
}

static inline struct hwt_record_slab *record_slab_of(const struct hwt_record *record)
{
	return (struct hwt_record_slab *)(record_slab_base(record) + SLAB_BYTES +
					  (uintptr_t)record / SLAB_BYTES % SLAB_COLOURS * HWT_LINE);
}

/* Returns the address of the first record of a slab. */
static inline char *record_slab_begin(const struct hwt_record_slab *slab)
{
	return (char *)(((uintptr_t)slab & ~(uintptr_t)(SLAB_BYTES - 1)) - SLAB_BYTES);
}
#endif

/*
 * Returns the offset of the end of the span.  Relaxed: a walk has to show only timeouts that were accepted before it
 * began, and their records lay in the span by then.
 */
static inline uint32_t record_slab_span(const struct hwt_record_slab *slab)
{
	return atomic_load_explicit(&slab->span, memory_order_relaxed);
}

static inline uint32_t record_slab_offset(const struct hwt_record *record)
{
	return (uint32_t)((uintptr_t)record - record_slab_base(record));
}

static inline uint32_t home_count(uint64_t home)
{
	return (uint32_t)(home >> 32);
}

static inline struct hwt_record *home_first(const struct hwt_record_slab *slab, uint64_t home)
{
	return home == 0 ? NULL : (struct hwt_record *)(void *)(record_slab_begin(slab) + (uint32_t)home);
}

/* Returns the newest slab; the older slabs follow by next. */
static inline struct hwt_record_slab *record_slabs_newest(const struct hwt_record_slabs *slabs)
{
	return atomic_load_explicit(&slabs->newest, memory_order_acquire); /* [slabs] */
}

/* Returns the bytes that the records hold of the system's memory.  Relaxed: no other data depends on the number. */
static inline size_t record_slabs_held(const struct hwt_record_slabs *slabs)
{
	return atomic_load_explicit(&slabs->held, memory_order_relaxed);
}

/* Returns the bytes of the records and the heads of the slabs.  Relaxed: as in record_slabs_held. */
static inline size_t record_slabs_bytes(const struct hwt_record_slabs *slabs)
{
	return record_slabs_held(slabs) + atomic_load_explicit(&slabs->heads, memory_order_relaxed);
}

void hwt_record_slabs_destroy(struct hwt_record_slabs *slabs);

/* Makes a slab that belongs to `owner`.  Returns NULL if there is no memory. */
struct hwt_record_slab *hwt_record_slab_make(struct hwt_record_slabs *slabs, const void *owner);

/*
 * Doubles the span, as far as there is room; with `all` extends it to the end of the slab.  Returns false if there is
 * no room.
 */
bool hwt_record_slab_extend(struct hwt_record_slab *slab, bool all);
bool hwt_record_slab_has_room(const struct hwt_record_slab *slab);

/* Makes `owner` the owner.  Returns false if the slab has another owner. */
bool hwt_record_slab_claim(struct hwt_record_slab *slab, const void *owner);

/* Gives up the ownership: any thread may claim the slab. */
void hwt_record_slab_release(struct hwt_record_slab *slab);

/*
 * Checks whether a slab is empty.  If it has been empty for hold_ns, its memory goes back to the system and its bytes
 * are added to *bytes.  Returns true if the slab is empty and still has its memory, so that another look is to come.
 * The worker.
 */
bool hwt_record_slab_look(struct hwt_record_slab *slab, int64_t now_ns, int64_t hold_ns, size_t *bytes);

/* Returns `count` records of one slab, linked by free_next. */
void hwt_record_slab_return(struct hwt_record_slab *slab, struct hwt_record *first, struct hwt_record *last,
			    uint32_t count);

/* Returns all chains to their slabs.  From then on owners may take the records.  The worker, once a pass. */
void hwt_record_slabs_flush(struct hwt_record_slabs *slabs);

/* Slow half of record_slab_chain: begins the chain of a slab in a pass. */
void hwt_record_slab_begin_chain(struct hwt_record_slab *slab, struct hwt_record *record);

/* Returns the next record of a list of free records.  Relaxed: only the owner of the list reads its links. */
static inline struct hwt_record *record_next(const struct hwt_record *record)
{
	return atomic_load_explicit(&record->free_next, memory_order_relaxed);
}

static inline void record_set_next(struct hwt_record *record, struct hwt_record *next)
{
	atomic_store_explicit(&record->free_next, next, memory_order_release); /* [look] */
}

static inline void record_set_ahead(struct hwt_record *record, struct hwt_record *ahead)
{
	atomic_store_explicit(&record->free_ahead, ahead, memory_order_release); /* [look] */
}

/* Appends an ended record to the chain of its slab, and makes the record HWT_RETURN_AHEAD places before point to it. */
static inline void record_slab_chain(struct hwt_record *record)
{
	struct hwt_record_slab *slab = record_slab_of(record);
	uint32_t *recent = &slab->recent[slab->count % HWT_RETURN_AHEAD];

	if (unlikely(slab->count == 0)) {
		hwt_record_slab_begin_chain(slab, record);
		return;
	}
	record_set_next(slab->last, record);
	slab->last = record;
	record_set_ahead(record, record);
	record_set_ahead((struct hwt_record *)(record_slab_base(record) + *recent), record);
	*recent = record_slab_offset(record);
	slab->count++;
}

/* Returns an ended record to its slab at once.  For threads other than the worker. */
static inline void record_slab_return_one(struct hwt_record *record)
{
	record_set_ahead(record, record);
	hwt_record_slab_return(record_slab_of(record), record, record, 1);
}

/* Takes all records that have come home.  Returns their number; *first is the first of them. */
static inline uint32_t record_slab_take_home(struct hwt_record_slab *slab, struct hwt_record **first)
{
	uint64_t home;

	/*
	 * A load comes first, as an exchange would take the cache line from the worker for nothing.  Relaxed: the
	 * exchange orders.
	 */
	if (atomic_load_explicit(&slab->home, memory_order_relaxed) == 0)
		return 0;
	HWT_POINT("slab refill");
	home = atomic_exchange_explicit(&slab->home, 0, memory_order_acquire); /* [home] */
	slab->refills++;
	*first = home_first(slab, home);
	return home_count(home);
}

#endif
