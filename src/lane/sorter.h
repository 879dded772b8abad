/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Free records sorted by slab, and slabs of records that have left their lanes: what giving memory back needs.
 *
 * Structure
 *
 *       free lists of a lane ---> unsorted ---> sorted list of each large slab --- all its records: the slab leaves
 *                                          \                                   \
 *                                           +-> rest (of small slabs)           +-> else back to a lane
 *
 *       leaving   slabs without a record outside, still with their memory
 *       given     the same, after their memory went back to the system: they read as zeros but for the head
 *
 *   A large slab has 2 MiB and begins at a multiple of that.  So the slab of a record is found by its address, in a
 *   table of those slabs.  Only large slabs leave.
 *
 *   A record of a slab that was given back has a word of generation 0, and no lane.  A handle has a generation from 1
 *   on and so matches nothing there.  Each slab keeps the highest generation that its records had; when it serves again
 *   they begin above that.
 *
 * Threads
 *
 *   hwt_sorter_take_back, hwt_sorter_grow   a producer, under the lock of its lane.
 *   the others                              the worker.
 *
 *   All of it is under the mutex, which the worker holds for one slice of its work.  A thread that needs the lock of a
 *   lane as well takes that first.
 *
 * Invariants
 *
 *   S1  a record in the worker's hands (unsorted, rest, sorted) is in no free list, and its timeout has ended.
 *   S2  sorted_count of a slab is the length of its sorted list.  A slab leaves when that is all of its records
 *       that have been carved: then no list, queue, wheel or reserve has one, and only stale handles lead there.
 *   S3  generation of a slab that left >= that of each handle to one of its records.
 *   S4  while leaving or given has a slab, holds_slabs is true.
 *
 * Ordering
 *
 *   [given]  the head of a slab is cleared with it, and written again: lane last (release).  hwt_sorter_lane loads it
 *            (acquire), and waits for it.
 *
 *   model/trim.pml is this together with lanes, producers and stale handles.
 */
#ifndef HWT_SORTER_H
#define HWT_SORTER_H

#include "lane/pool.h"

#include <pthread.h>

struct hwt_sorter {
	pthread_mutex_t mutex;

	/* Under the mutex. */
	struct hwt_record_slab **table; /* large slabs, by a hash of their addresses; NULL: nothing is being sorted */
	unsigned bits;                  /* the table has 2^bits places */
	size_t taken_back;              /* no records are taken back from places of the table before this one */
	struct hwt_record *unsorted;
	struct hwt_chain rest;
	struct hwt_slab *leaving, *given;
	uint64_t left;        /* slabs that have left, ever */
	_Atomic size_t bytes; /* of slabs that left and still have their memory */

	_Atomic bool holds_records, holds_slabs; /* hints for producers: a look under the mutex may be worth while */
};

/* Returns 0 or an error of the system. */
int hwt_sorter_init(struct hwt_sorter *sorter);

/* Frees the slabs that left. */
void hwt_sorter_destroy(struct hwt_sorter *sorter);

/* Begins with room for so many large slabs, which hwt_sorter_add names.  Returns false without memory. */
bool hwt_sorter_begin(struct hwt_sorter *sorter, size_t slabs);
void hwt_sorter_add(struct hwt_sorter *sorter, struct hwt_slab *slab);

/* Hands over a list of free records to be sorted.  There is no other. */
void hwt_sorter_put(struct hwt_sorter *sorter, struct hwt_record *first);

/* Returns how many places the table has. */
static inline size_t hwt_sorter_places(const struct hwt_sorter *sorter)
{
	return (size_t)1 << sorter->bits;
}

/* Sorts some records.  Returns true if there are more. */
bool hwt_sorter_sort(struct hwt_sorter *sorter);

/* Returns whether so many records of a large slab are sorted.  Under the mutex, as the next three. */
bool hwt_sorter_has(const struct hwt_slab *slab, size_t records);

/* Takes over a slab of which that is true, and which its lane has taken out. */
void hwt_sorter_leave(struct hwt_sorter *sorter, struct hwt_slab *slab);

/* Puts sorted records, or the rest, into a pool, whose lock the caller holds. */
void hwt_sorter_return(struct hwt_record_slab *slab, struct hwt_pool *pool);
void hwt_sorter_return_rest(struct hwt_sorter *sorter, struct hwt_pool *pool);

/* No record is in the worker's hands any more. */
void hwt_sorter_end(struct hwt_sorter *sorter);

/* Gives the memory of one slab back.  Returns false if there was none. */
bool hwt_sorter_give_back(struct hwt_sorter *sorter, size_t *bytes);

/* Takes records out of the worker's hands, as a list.  NULL: there are none. */
struct hwt_record *hwt_sorter_take_back(struct hwt_sorter *sorter);

/* Adds a slab to the pool: one that left, or a new one.  Returns false without memory. */
bool hwt_sorter_grow(struct hwt_sorter *sorter, struct hwt_pool *pool);

/* Returns the bytes of slabs that left and still have their memory.  Any thread.  Relaxed: only a number. */
static inline size_t sorter_bytes(const struct hwt_sorter *sorter)
{
	return atomic_load_explicit(&sorter->bytes, memory_order_relaxed);
}

/* Returns the lane of a record that has none, because its memory was given back: some lane of its timer. */
struct hwt_lane *hwt_sorter_lane(const struct hwt_record *record);

#endif
