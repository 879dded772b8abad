/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buckets: lists of records in insertion order, each with a 32-bit round, made to be scanned and to lose members
 * anywhere.
 *
 * Structure
 *
 *   A bucket is a list of chunks.  A chunk is a pair of parallel arrays: the rounds, which a scan reads alone and in
 *   sequence, 16 to a line, and the records, of which it touches only those that are due.  A removed member leaves a
 *   hole (record NULL).  No member is shifted: a shifted record must learn its new place, at one cache miss each.
 *
 *       bucket --> [ chunk: 6 ] <-> [ chunk: 16 ] <-> [ chunk: 38 ] <-> [ chunk: 59 ] <-> [ chunk: 59 ] ...
 *                    least   a lower bound of the rounds in the chunk: a scan may skip all of it
 *                    rounds  5 5 9 5 ...
 *                    records a - b c ...
 *
 *   A pass need not even touch every chunk.  It joins neighbouring chunks in which nothing was due to a "span".  The
 *   first chunk of a span holds the lower bound of the rounds in the span and a pointer behind the last chunk, so the
 *   next pass jumps over the span:
 *
 *       [ chunk ] -> [ chunk: span, span_least ] -> [ ] -> [ ] -> [ chunk: span_from ] -> ...
 *                             |                                        ^
 *                             +----------------------------------------+
 *
 *   A bucket's chunks grow from 128 to 768 bytes, so that a wheel of a million sparse buckets stays small.  A chunk
 *   whose last member leaves goes back to the stock at once.  Two neighbours that together fill at most half of a chunk
 *   are merged, which moves at most one record a removal (amortised).  So the memory follows the number of members:
 *   between 13 and some 30 bytes a member.
 *
 *   The place of a record is its chunk's address, a multiple of 128, with the index within the chunk in bits 1 to 6.
 *   Bit 0 marks a record in a list of wheel.c.
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
 *   B6  chunk->span is NULL, or a later chunk of the bucket whose span_from is chunk; span_least <= the `least` of
 *       every chunk from this one to the one before chunk->span.  So the last chunk, the only chunk to which members
 *       are appended, is in no span.
 */
#ifndef HWT_BUCKET_H
#define HWT_BUCKET_H

#include "base/record.h"
#include "base/slab.h"

#define CHUNK_ALIGN 128
#define CHUNK_CLASSES 4
#define CHUNK_LAST_CAPACITY 59
#define CHUNK_LAST_BYTES 768

/* A scan compares rounds in blocks of this size, for which compilers generate vector instructions. */
#define SCAN_BLOCK 8

struct hwt_chunk {
	struct hwt_chunk *next, *prev;
	struct hwt_bucket *bucket;
	struct hwt_chunk *span, *span_from;
	uint32_t span_least;
	union {
		uint32_t span_chunks; /* in the first chunk of a span: the number of its chunks, or more */
		uint32_t ordinal;     /* in levels, which have no spans: 1 more than in the chunk before */
	};
	uint32_t least;
	uint8_t used, live, class;
	bool clamped;                 /* the round of some member was cut to 31 bits */
	struct hwt_record *records[]; /* [capacity], then the rounds */
};

struct hwt_bucket {
	struct hwt_chunk *first, *last;
};

/* Where chunks come from. */
struct hwt_stock {
	struct hwt_chunk *free[CHUNK_CLASSES];
	struct hwt_slabs slabs;
	struct hwt_slab *retired; /* slabs that a restart has taken out */
	size_t used;              /* chunks in buckets; 0: no bucket has a member */
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

/* Returns a - b.  Rounds wrap. */
static inline int32_t round_distance(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

static inline int32_t smaller(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/*
 * Returns the first index from `i` on whose round has come, or `end`.  Lowers *least to the least distance of the
 * rounds before that index.
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

/* Makes a span of the chunks from this one to the one before `behind`, all of one bucket. */
static inline void chunk_span_set(struct hwt_chunk *chunk, struct hwt_chunk *behind, uint32_t chunks, uint32_t least)
{
	chunk->span = behind;
	chunk->span_chunks = chunks;
	chunk->span_least = least;
	behind->span_from = chunk;
}

/* Dissolves the span that begins with this chunk, if there is one. */
static inline void chunk_span_clear(struct hwt_chunk *chunk)
{
	if (chunk->span != NULL)
		chunk->span->span_from = NULL;
	chunk->span = NULL;
}

/*
 * Fetches all lines of a chunk from which all members are to be taken: chunks of a bucket lie anywhere in memory, so
 * the processor fetches none by itself.  Beyond the end of a smaller chunk that is useless and harmless.
 */
static inline void chunk_prefetch(const struct hwt_chunk *chunk)
{
	for (size_t at = 0; chunk != NULL && at < CHUNK_LAST_BYTES; at += HWT_LINE)
		prefetch_for_write((const char *)chunk + at);
}

/* Fetches the lines that hwt_bucket_remove will write. */
static inline void hwt_bucket_prefetch(uintptr_t place)
{
	prefetch_for_write(place_chunk(place));
	prefetch_for_write(&place_chunk(place)->records[place_index(place)]);
}

void hwt_stock_destroy(struct hwt_stock *stock);

/*
 * Gives memory back while no bucket has a member.  The stock begins again with the newest slab, and each call frees one
 * of the other slabs, of at most 256 KiB, in some tens of microseconds.  Returns true if there are more to free.
 */
bool hwt_stock_trim(struct hwt_stock *stock, size_t *bytes);

/*
 * Fetch the lines that bucket_append will write: the head of the last chunk, then, once the head has arrived, the end
 * of the members.
 */
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

/*
 * Appends a chunk whose first member will have this round.  Returns NULL, and changes nothing, if there is no memory.
 */
struct hwt_chunk *hwt_bucket_extend(struct hwt_stock *stock, struct hwt_bucket *bucket, uint32_t round);

/* Adds a member.  The chunk must have room. */
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

/* Appends a record.  Amortised O(1).  Returns false, and changes nothing, if there is no memory.  `clamped`: B5. */
static inline bool bucket_append(struct hwt_stock *stock, struct hwt_bucket *bucket, struct hwt_record *record,
				 uint32_t round, bool clamped)
{
	struct hwt_chunk *chunk = bucket->last;

	if (unlikely(chunk == NULL || chunk->used == chunk_capacity(chunk))) {
		chunk = hwt_bucket_extend(stock, bucket, round);
		if (chunk == NULL)
			return false;
	}
	chunk_add(chunk, record, round);
	if (unlikely(clamped))
		chunk->clamped = true;
	return true;
}

/* Takes a member out, and clears its place.  Amortised O(1). */
void hwt_bucket_remove(struct hwt_stock *stock, struct hwt_record *record);

/*
 * Returns the least distance of a member's round from `round`, or INT32_MAX if the bucket has no member.  The caller
 * knows that the distance is at least `bound`, so the search ends at the first member with that distance.  Each visit
 * of a chunk counts *visits down; when it is used up, the answer is `bound`.  Corrects `least` of each chunk whose
 * earliest member has left.  O(chunks).
 */
int32_t hwt_bucket_least(const struct hwt_bucket *bucket, uint32_t round, int32_t bound, unsigned *visits);

/* Takes up to max members out, and returns their number.  Their places are stale. */
size_t hwt_bucket_sweep(struct hwt_stock *stock, struct hwt_bucket *bucket, struct hwt_record **all, size_t max);

/* Unlinks a chunk without members, and gives it back to the stock. */
void hwt_bucket_drop(struct hwt_stock *stock, struct hwt_chunk *chunk);

#endif
