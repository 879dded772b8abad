/* SPDX-License-Identifier: BSD-2-Clause */
/* Chunks: taken from the stock, linked, merged, dropped.  bucket.h draws them. */
#include "wheel/bucket.h"

#include <string.h>

static const uint16_t class_bytes[CHUNK_CLASSES] = { 128, 256, 512, CHUNK_LAST_BYTES };
const uint8_t hwt_chunk_capacity[CHUNK_CLASSES] = { 6, 16, 38, CHUNK_LAST_CAPACITY };

#define HEADER_BYTES sizeof(struct hwt_chunk)
#define MEMBER_BYTES (sizeof(uint32_t) + sizeof(struct hwt_record *))

static_assert(HEADER_BYTES + 6 * MEMBER_BYTES <= 128, "class 0");
static_assert(HEADER_BYTES + 16 * MEMBER_BYTES <= 256, "class 1");
static_assert(HEADER_BYTES + 38 * MEMBER_BYTES <= 512, "class 2");
static_assert(HEADER_BYTES + CHUNK_LAST_CAPACITY * MEMBER_BYTES <= CHUNK_LAST_BYTES, "class 3");
static_assert(CHUNK_LAST_CAPACITY <= 1 << 6, "an index fits a place");
static_assert(HEADER_BYTES % sizeof(void *) == 0, "the records are aligned");

const struct hwt_slab_kind hwt_chunk_slab = {
	.head = CHUNK_ALIGN,
	.align = CHUNK_ALIGN,
	.first = (size_t)4096,
	.last = (size_t)256 << 10,
};

static_assert(sizeof(struct hwt_slab) <= CHUNK_ALIGN, "no chunk lies on the head of its slab");

void hwt_stock_destroy(struct hwt_stock *stock)
{
	hwt_slabs_free(stock->slabs.newest);
	hwt_slabs_free(stock->retired);
}

bool hwt_stock_trim(struct hwt_stock *stock, size_t *bytes)
{
	if (stock->retired == NULL && stock->used == 0 && stock->slabs.newest != NULL) {
		stock->retired = hwt_slabs_restart(&stock->slabs, &hwt_chunk_slab);
		memset(stock->free, 0, sizeof(stock->free));
	}
	(void)hwt_slabs_release(&stock->retired, 1, bytes);
	return stock->retired != NULL;
}

static void stock_put(struct hwt_stock *stock, struct hwt_chunk *chunk)
{
	chunk->next = stock->free[chunk->class];
	stock->free[chunk->class] = chunk;
}

static struct hwt_chunk *stock_pop(struct hwt_stock *stock, unsigned class)
{
	struct hwt_chunk *chunk = stock->free[class];

	if (chunk != NULL)
		stock->free[class] = chunk->next;
	return chunk;
}

/* Cuts memory into the smallest chunks. */
static void stock_cut(struct hwt_stock *stock, char *rest, const char *end)
{
	for (; rest != end; rest += class_bytes[0]) {
		struct hwt_chunk *chunk = (struct hwt_chunk *)(void *)rest;

		chunk->class = 0;
		stock_put(stock, chunk);
	}
}

/* Takes a new slab.  The rest of the slab before becomes small chunks. */
static bool stock_grow(struct hwt_stock *stock)
{
	char *rest = stock->slabs.carve, *end = stock->slabs.carve_end;

	if (!hwt_slabs_grow(&stock->slabs, &hwt_chunk_slab))
		return false;
	stock_cut(stock, rest, end);
	return true;
}

/*
 * Cuts a chunk out of a larger free chunk, so that memory follows the members that there are, not those that there
 * were.  The rest becomes small chunks.
 */
static struct hwt_chunk *stock_split(struct hwt_stock *stock, unsigned class)
{
	for (unsigned larger = class + 1; larger < CHUNK_CLASSES; larger++) {
		struct hwt_chunk *chunk = stock_pop(stock, larger);

		if (chunk == NULL)
			continue;
		stock_cut(stock, (char *)chunk + class_bytes[class], (char *)chunk + class_bytes[larger]);
		return chunk;
	}
	return NULL;
}

/* Returns a chunk, of the smallest class if memory is short, or NULL. */
static struct hwt_chunk *stock_take(struct hwt_stock *stock, unsigned class)
{
	struct hwt_chunk *chunk = stock_pop(stock, class);

	if (chunk == NULL)
		chunk = stock_split(stock, class);
	if (chunk == NULL)
		chunk = hwt_slabs_carve(&stock->slabs, class_bytes[class]);
	if (chunk == NULL && !stock_grow(stock))
		return class > 0 ? stock_take(stock, 0) : NULL;
	if (chunk == NULL)
		chunk = hwt_slabs_carve(&stock->slabs, class_bytes[class]);
	chunk->class = (uint8_t) class;
	return chunk;
}

struct hwt_chunk *hwt_bucket_extend(struct hwt_stock *stock, struct hwt_bucket *bucket, uint32_t round)
{
	struct hwt_chunk *last = bucket->last, *chunk;
	unsigned class = 0;

	if (last != NULL)
		class = last->class + 1u < CHUNK_CLASSES ? last->class + 1u : CHUNK_CLASSES - 1u;
	chunk = stock_take(stock, class);
	if (chunk == NULL)
		return NULL;
	chunk->next = NULL;
	chunk->prev = last;
	chunk->bucket = bucket;
	chunk->span = chunk->span_from = NULL;
	chunk->ordinal = last != NULL ? last->ordinal + 1 : 0;
	chunk->least = round;
	chunk->used = chunk->live = 0;
	chunk->clamped = false;
	if (last == NULL)
		bucket->first = chunk;
	else
		last->next = chunk;
	bucket->last = chunk;
	stock->used++;
	return chunk;
}

/*
 * Keeps B6 while a chunk leaves.  A span that begins with the chunk now begins with the next chunk.  A span that ends
 * before the chunk now ends a chunk earlier, because the last chunk of a bucket is in no span; a span without a chunk
 * is dissolved.
 */
static void spans_without(struct hwt_chunk *chunk)
{
	struct hwt_chunk *behind = chunk->span, *from = chunk->span_from;

	chunk_span_clear(chunk);
	if (behind != NULL && behind != chunk->next)
		chunk_span_set(chunk->next, behind, chunk->span_chunks - 1, chunk->span_least);
	if (from == NULL)
		return;
	chunk_span_clear(from);
	if (from != chunk->prev)
		chunk_span_set(from, chunk->prev, from->span_chunks - 1, from->span_least);
}

void hwt_bucket_drop(struct hwt_stock *stock, struct hwt_chunk *chunk)
{
	struct hwt_bucket *bucket = chunk->bucket;

	HWT_ASSERT(chunk->live == 0);
	spans_without(chunk);
	if (chunk->prev == NULL)
		bucket->first = chunk->next;
	else
		chunk->prev->next = chunk->next;
	if (chunk->next == NULL)
		bucket->last = chunk->prev;
	else
		chunk->next->prev = chunk->prev;
	stock->used--;
	stock_put(stock, chunk);
}

/* Closes the holes of a chunk. */
static void chunk_compact(struct hwt_chunk *chunk)
{
	unsigned used = chunk->used;

	chunk->used = chunk->live = 0;
	for (unsigned i = 0; i < used; i++)
		if (chunk->records[i] != NULL)
			chunk_add(chunk, chunk->records[i], chunk_rounds(chunk)[i]);
}

/* Moves the members of `from` behind those of `to`, the chunk before it, if together they fill at most half of `to`. */
static bool merge(struct hwt_stock *stock, struct hwt_chunk *to, struct hwt_chunk *from)
{
	if (to == NULL || from == NULL || (unsigned)to->live + from->live > chunk_capacity(to) / 2)
		return false;
	if ((unsigned)to->used + from->live > chunk_capacity(to))
		chunk_compact(to);
	for (unsigned i = 0; i < from->used; i++)
		if (from->records[i] != NULL)
			chunk_add(to, from->records[i], chunk_rounds(from)[i]);
	to->clamped |= from->clamped;
	from->live = 0;
	hwt_bucket_drop(stock, from);
	return true;
}

void hwt_bucket_remove(struct hwt_stock *stock, struct hwt_record *record)
{
	struct hwt_chunk *chunk = place_chunk(record->place);
	unsigned index = place_index(record->place);

	HWT_ASSERT(index < chunk->used && chunk->records[index] == record);
	chunk->records[index] = NULL;
	record->place = 0;
	if (--chunk->live == 0) {
		hwt_bucket_drop(stock, chunk);
		return;
	}
	/*
	 * A visit to the neighbours costs cache misses, so it is only made when the number of members is a power of
	 * two.
	 */
	if ((chunk->live & (chunk->live - 1)) == 0 && !merge(stock, chunk->prev, chunk))
		(void)merge(stock, chunk, chunk->next);
}

/* The cost of scanning a chunk, in visits of its head. */
#define SCAN_VISITS 8

/* Sets the chunk's `least` to the exact value, and returns its distance. */
static int32_t chunk_settle(struct hwt_chunk *chunk, uint32_t round)
{
	const uint32_t *rounds = chunk_rounds(chunk);
	int32_t least = INT32_MAX;

	for (unsigned i = 0; i < chunk->used; i++)
		if (round_distance(rounds[i], round) < least && chunk->records[i] != NULL)
			least = round_distance(rounds[i], round);
	chunk->least = round + (uint32_t)least;
	return least;
}

int32_t hwt_bucket_least(const struct hwt_bucket *bucket, uint32_t round, int32_t bound, unsigned *visits)
{
	struct hwt_chunk *chunk = bucket->first;
	int32_t least = INT32_MAX;

	while (chunk != NULL && least > bound) {
		if (*visits < SCAN_VISITS)
			return bound;
		--*visits;
		if (chunk->span != NULL && round_distance(chunk->span_least, round) >= least) {
			chunk = chunk->span;
			continue;
		}
		if (round_distance(chunk->least, round) < least) {
			int32_t in_chunk = chunk_settle(chunk, round);

			*visits -= SCAN_VISITS - 1;
			least = in_chunk < least ? in_chunk : least;
		}
		chunk = chunk->next;
	}
	return least;
}

size_t hwt_bucket_sweep(struct hwt_stock *stock, struct hwt_bucket *bucket, struct hwt_record **all, size_t max)
{
	size_t n = 0;

	while (bucket->first != NULL) {
		struct hwt_chunk *chunk = bucket->first;

		chunk_prefetch(chunk->next);
		for (unsigned i = 0; i < chunk->used && n < max; i++) {
			if (chunk->records[i] == NULL)
				continue;
			all[n++] = chunk->records[i];
			chunk->records[i] = NULL;
			chunk->live--;
		}
		if (chunk->live != 0)
			break;
		hwt_bucket_drop(stock, chunk);
	}
	return n;
}
