/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buckets: lists of records in insertion order, each with a 32-bit round, made to be scanned and to lose members
 * anywhere.
 *
 * Structure
 *
 *   A bucket is a list of chunks.  A chunk is a pair of parallel arrays: the rounds, which a scan reads alone and in
 *   sequence, 16 to a line, and the records, which it touches only for those that are due.  A removed member leaves a
 *   hole (record NULL); nobody is shifted, because a shifted record must be told its new place, one cache miss each.
 *
 *       bucket --> [ chunk: 6 ] <-> [ chunk: 16 ] <-> [ chunk: 38 ] <-> [ chunk: 59 ] <-> [ chunk: 59 ] ...
 *                    least   a lower bound of the rounds in the chunk: a scan may pass over the whole of it
 *                    rounds  5 5 9 5 ...
 *                    records a - b c ...
 *
 *   A pass need not even touch every chunk.  One at which nothing was due notes of runs of chunks ("spans") the lower
 *   bound of all their rounds in the first of each, with a pointer behind the last, and the next pass jumps over them:
 *
 *       [ chunk ] -> [ chunk: span, span_least ] -> [ ] -> [ ] -> [ chunk: span_from ] -> ...
 *                             |                                        ^
 *                             +----------------------------------------+
 *
 *   A bucket's chunks grow from 128 to 768 bytes, so that a wheel of a million sparse buckets stays small.  A chunk
 *   whose last member leaves goes back to the store at once; two neighbours that together fill half of one are merged,
 *   which moves at most one record a removal (amortised).  So the memory follows what is pending: between 13 and
 *   some 30 bytes a member.
 *
 *   The place of a record is its chunk's address, a multiple of 128, with the index within the chunk in bits 1 to 6.
 *   Bit 0 is left to others.
 *
 * Threads: one, the worker.
 *
 * Invariants
 *
 *   B1  records[i]->place names (chunk, i) for every i < used that is not a hole.
 *   B2  live = number of i < used that are not holes; live > 0 in every chunk of a bucket.
 *   B3  least <= rounds[i] for all i < used with a record, as signed distances from the current round.
 *   B4  the members' order, chunk after chunk, is that of their insertion.
 *   B5  a member of a chunk without `clamped` has its true round.
 *   B6  chunk->span == NULL, or a later chunk of the bucket with span_from == chunk; span_least <= the least of every
 *       chunk from this one to before that.  So the last chunk, the only one that is appended to, is in no span.
 */
#ifndef HWT_BUCKET_H
#define HWT_BUCKET_H

#include "base/record.h"
#include "base/slab.h"

#define CHUNK_ALIGN 128
#define CHUNK_CLASSES 4
#define CHUNK_LAST_CAPACITY 59

/* Rounds are looked at in blocks of this many; compilers make vector instructions of it. */
#define SCAN_BLOCK 8

struct hwt_chunk {
	struct hwt_chunk *next, *prev;
	struct hwt_bucket *bucket;
	struct hwt_chunk *span, *span_from;
	uint32_t span_least;
	union {
		uint32_t span_chunks; /* where a span begins: its length at most; some may have gone */
		uint32_t ordinal;     /* where there are no spans: one more than that of the chunk before when made */
	};
	uint32_t least;
	uint8_t used, live, class;
	bool clamped;                 /* some member's round was cut to what 31 bits can say */
	struct hwt_record *records[]; /* [capacity], then the rounds */
};

struct hwt_bucket {
	struct hwt_chunk *first, *last;
};

/* Where chunks come from. */
struct hwt_store {
	struct hwt_chunk *free[CHUNK_CLASSES];
	struct hwt_slabs slabs;
	size_t used; /* chunks in buckets; 0: no bucket has a member */
};

extern const struct hwt_slab_kind hwt_chunk_slab;
extern const uint8_t hwt_chunk_capacity[CHUNK_CLASSES];

static inline unsigned chunk_capacity(const struct hwt_chunk *chunk)
{
	return hwt_chunk_capacity[chunk->class];
}

static inline uint32_t *chunk_rounds(struct hwt_chunk *chunk)
{
	return (uint32_t *)(void *)(chunk->records + chunk_capacity(chunk));
}

static inline uintptr_t place_make(struct hwt_chunk *chunk, unsigned index)
{
	return (uintptr_t)chunk | (uintptr_t)index << 1;
}

static inline struct hwt_chunk *place_chunk(uintptr_t place)
{
	return (struct hwt_chunk *)(place & ~(uintptr_t)(CHUNK_ALIGN - 1));
}

static inline unsigned place_index(uintptr_t place)
{
	return (unsigned)(place & (CHUNK_ALIGN - 1)) >> 1;
}

/* a - b of rounds, which wrap. */
static inline int32_t round_distance(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

static inline int32_t smaller(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/*
 * The first index from `i` on whose round has come, `end` if there is none; *least takes in the distances of those
 * before it.
 */
static inline unsigned skip_not_due(const uint32_t *rounds, unsigned i, unsigned end, uint32_t round, int32_t *least)
{
	int32_t block_least = *least;

	for (; i + SCAN_BLOCK <= end; i += SCAN_BLOCK) {
		int32_t this_least = INT32_MAX;

		for (unsigned j = 0; j < SCAN_BLOCK; j++)
			this_least = smaller(this_least, round_distance(rounds[i + j], round));
		if (this_least <= 0)
			break;
		block_least = smaller(block_least, this_least);
	}
	for (; i < end && round_distance(rounds[i], round) > 0; i++)
		block_least = smaller(block_least, round_distance(rounds[i], round));
	*least = block_least;
	return i;
}

/* The chunks from this one to before `behind`, all of one bucket, are a span now. */
static inline void chunk_span_set(struct hwt_chunk *chunk, struct hwt_chunk *behind, uint32_t chunks, uint32_t least)
{
	chunk->span = behind;
	chunk->span_chunks = chunks;
	chunk->span_least = least;
	behind->span_from = chunk;
}

/* Whatever span begins here is none any more. */
static inline void chunk_span_clear(struct hwt_chunk *chunk)
{
	if (chunk->span != NULL)
		chunk->span->span_from = NULL;
	chunk->span = NULL;
}

/* What hwt_bucket_remove is going to write to. */
static inline void hwt_bucket_prefetch(uintptr_t place)
{
	prefetch_for_write(place_chunk(place));
	prefetch_for_write(&place_chunk(place)->records[place_index(place)]);
}

void hwt_store_destroy(struct hwt_store *store);

/* What bucket_append is going to write to: first the head of the last chunk, then, when that is here, its end. */
static inline void bucket_prefetch_last(const struct hwt_bucket *bucket)
{
	if (bucket->last != NULL)
		prefetch_for_write(bucket->last);
}

static inline void bucket_prefetch_end(const struct hwt_bucket *bucket)
{
	struct hwt_chunk *chunk = bucket->last;

	if (chunk == NULL)
		return;
	prefetch_for_write(&chunk->records[chunk->used]);
	prefetch_for_write(&chunk_rounds(chunk)[chunk->used]);
}

/* A new last chunk, whose first member is going to be of this round.  NULL, with nothing changed, without memory. */
struct hwt_chunk *hwt_bucket_extend(struct hwt_store *store, struct hwt_bucket *bucket, uint32_t round);

/* There is room. */
static inline void chunk_add(struct hwt_chunk *chunk, struct hwt_record *record, uint32_t round)
{
	unsigned index = chunk->used++;

	chunk->live++;
	chunk_rounds(chunk)[index] = round;
	chunk->records[index] = record;
	record->place = place_make(chunk, index);
	if (round_distance(round, chunk->least) < 0)
		chunk->least = round;
}

/* Appends a record; clamped: see B5.  Amortised O(1).  false, with nothing changed, without memory. */
static inline bool bucket_append(struct hwt_store *store, struct hwt_bucket *bucket, struct hwt_record *record,
				 uint32_t round, bool clamped)
{
	struct hwt_chunk *chunk = bucket->last;

	if (unlikely(chunk == NULL || chunk->used == chunk_capacity(chunk))) {
		chunk = hwt_bucket_extend(store, bucket, round);
		if (chunk == NULL)
			return false;
	}
	chunk_add(chunk, record, round);
	if (unlikely(clamped))
		chunk->clamped = true;
	return true;
}

/* Takes a member out by its place and clears that.  Amortised O(1). */
void hwt_bucket_remove(struct hwt_store *store, struct hwt_record *record);

/*
 * Returns the least distance of a member's round from `round`, INT32_MAX if there is no member.  It is known to be
 * `bound` or more: once a member with that has been found, the others are not looked at.  Takes what that costs from
 * *looks, and when these are used up returns `bound`.  Where a chunk's least is that of a member which has left, puts
 * it right.  O(chunks).
 */
int32_t hwt_bucket_least(const struct hwt_bucket *bucket, uint32_t round, int32_t bound, unsigned *looks);

/* Takes up to max members out; their places are stale. */
size_t hwt_bucket_sweep(struct hwt_store *store, struct hwt_bucket *bucket, struct hwt_record **all, size_t max);

/* Unlinks a chunk without members and gives it back. */
void hwt_bucket_drop(struct hwt_store *store, struct hwt_chunk *chunk);

#ifdef HWT_TEST
/* B6, as seen from a round. */
bool hwt_bucket_spans_hold(const struct hwt_bucket *bucket, uint32_t round);
/* The bytes that a chunk takes of one. */
size_t hwt_chunk_bytes(const struct hwt_chunk *chunk);
#endif

#endif
