/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hashed wheel: one array of buckets, remaining rounds.
 *
 * Structure
 *
 *       tick             = round * buckets + bucket
 *       remaining rounds = round of the deadline - round of the wheel
 *
 *   A timeout waits in bucket (tick mod buckets), together with timeouts of other rounds.  The bucket stores the round
 *   in which a timeout is due, not the remaining rounds, which a pass would have to count down; so a pass writes
 *   nothing.  A pass reads 4 bytes a member, and only the head of a chunk in which nothing is due (bucket.h).  A tree
 *   knows which bucket is due next (ring.h), so ticks at which nothing is due cost nothing.
 *
 *   Rounds have 32 bits and are compared by signed distance.  A round further off than MAX_REMAINING is cut to that,
 *   and its chunk is flagged (`clamped`).  When the cut round comes, the true round is computed again.  The member
 *   stays in its place, so it keeps its turn.
 *
 * Threads: see wheel.h.
 *
 * Invariants
 *
 *   H1  a member whose round is not cut is collected at exactly its tick: until then 0 <= distance <= MAX_REMAINING.
 *   H2  the entry of a bucket in the tree <= the tick of each of its members.
 *
 * References: G. Varghese, T. Lauck, "Hashed and hierarchical timing wheels", SOSP 1987, scheme 6; Netty's
 * HashedWheelTimer.
 */
#include "wheel/ring.h"
#include "wheel/wheel.h"
#include "base/mem.h"

#include <stdalign.h>

#define MAX_REMAINING (INT32_MAX - 1)
#define NEVER_REMAINING INT32_MAX /* the distance of a hole that a pass has seen */

/* The most chunks of a span. */
#define SPAN_CHUNKS 64

struct hashed {
	struct hwt_wheel wheel;
	uint32_t mask;
	unsigned bits;
	struct hwt_ring ring;

	/* How far collect has come in the bucket of wheel.tick. */
	int64_t pass_tick;       /* the tick that is being collected, -1: none */
	struct hwt_chunk *chunk; /* NULL: the pass is done */
	unsigned index;
	int32_t chunk_least; /* least distance of the chunk's members so far */
	int32_t bucket_least;

	/* The span that is growing, from `span` to the chunk before the current one. */
	struct hwt_chunk *span; /* NULL: no span */
	uint32_t span_chunks, span_limit;
	int32_t span_least;
	uint32_t passed; /* chunks since the last chunk with a due member */
};

static inline struct hashed *hashed_of(struct hwt_wheel *wheel)
{
	return (struct hashed *)wheel;
}

static inline int64_t round_of(const struct hashed *hashed, int64_t tick)
{
	return tick >> hashed->bits;
}

static bool place_one(struct hashed *hashed, struct hwt_record *record, int64_t tick)
{
	uint32_t bucket = (uint32_t)tick & hashed->mask;
	int64_t cut = round_of(hashed, tick) - round_of(hashed, hashed->wheel.tick) - MAX_REMAINING;

	if (unlikely(cut > 0))
		tick -= cut << hashed->bits;
	if (unlikely(!bucket_append(&hashed->wheel.stock, &hashed->ring.buckets[bucket], record,
				    (uint32_t)round_of(hashed, tick), cut > 0)))
		return false;
	ring_lower(&hashed->ring, bucket, tick);
	return true;
}

static size_t hashed_place(struct hwt_wheel *wheel, struct hwt_record *const *records, const int64_t *ticks, size_t n)
{
	struct hashed *hashed = hashed_of(wheel);
	size_t i = 0;

	/* The last chunk of a bucket is rarely in the cache.  Its head says which other lines the append will write. */
	for (size_t j = 0; j < n; j++)
		bucket_prefetch_last(&hashed->ring.buckets[(uint32_t)ticks[j] & hashed->mask]);
	for (size_t j = 0; j < n; j++)
		bucket_prefetch_end(&hashed->ring.buckets[(uint32_t)ticks[j] & hashed->mask]);
	while (i < n && place_one(hashed, records[i], ticks[i]))
		i++;
	return i;
}

static int64_t hashed_next_due(const struct hwt_wheel *wheel)
{
	return ring_first_due(&((const struct hashed *)wheel)->ring);
}

/*
 * The round of a member of a flagged chunk has come.  If the member is due in a later round, corrects its round and
 * returns true.  A rescheduled record may belong to another bucket: it is collected, and the worker checks it before it
 * runs.
 */
static bool still_far(struct hashed *hashed, struct hwt_chunk *chunk, unsigned i)
{
	struct hwt_record *record = chunk->records[i];
	int64_t remaining;

	if (word_has(record_word(record), WORD_RESCHEDULED))
		return false;
	remaining = round_of(hashed, grid_tick_of(&hashed->wheel.grid, record_deadline(record))) -
		    round_of(hashed, hashed->wheel.tick);
	if (remaining <= 0)
		return false;
	remaining = remaining < MAX_REMAINING ? remaining : MAX_REMAINING;
	chunk_rounds(chunk)[i] += (uint32_t)remaining;
	hashed->chunk_least = smaller(hashed->chunk_least, (int32_t)remaining);
	return true;
}

/* Collects from the current chunk, from the current index on.  At the end of the chunk the index is `used`. */
static size_t collect_chunk(struct hashed *hashed, struct hwt_record **due, size_t max)
{
	struct hwt_chunk *chunk = hashed->chunk;
	struct hwt_record **records = chunk->records;
	uint32_t *rounds = chunk_rounds(chunk);
	uint32_t round = (uint32_t)round_of(hashed, hashed->wheel.tick);
	unsigned i = hashed->index;
	size_t n = 0;

	for (;; i++) {
		i = skip_not_due(rounds, i, chunk->used, round, &hashed->chunk_least);
		if (i == chunk->used || n == max)
			break;
		if (records[i] == NULL || (unlikely(chunk->clamped) && still_far(hashed, chunk, i))) {
			if (records[i] == NULL)
				rounds[i] = round + NEVER_REMAINING;
			continue;
		}
		due[n++] = records[i];
		records[i] = NULL;
		rounds[i] = round + NEVER_REMAINING;
		chunk->live--;
	}
	hashed->index = i;
	return n;
}

static void begin_chunk(struct hashed *hashed, struct hwt_chunk *chunk)
{
	hashed->chunk = chunk;
	hashed->index = 0;
	hashed->chunk_least = INT32_MAX;
	if (chunk != NULL && chunk->next != NULL)
		__builtin_prefetch(chunk->span != NULL ? chunk->span : chunk->next);
}

/* Ends the current chunk, in which a member was due: sets its least round, or drops the chunk if it is empty. */
static void end_chunk(struct hashed *hashed)
{
	struct hwt_chunk *chunk = hashed->chunk, *next = chunk->next;

	chunk->least = (uint32_t)round_of(hashed, hashed->wheel.tick) + (uint32_t)hashed->chunk_least;
	if (chunk->live == 0) {
		/* In a burst all members of the next chunks are due, too. */
		if (next != NULL)
			chunk_prefetch(next->next);
		hwt_bucket_drop(&hashed->wheel.stock, chunk);
	} else {
		hashed->bucket_least = smaller(hashed->bucket_least, hashed->chunk_least);
	}
	hashed->span = NULL;
	hashed->passed = 0;
	begin_chunk(hashed, next);
}

/*
 * Passes over the chunks from the current one to the one before `next`, in which nothing is due; `least` is their least
 * distance.  They join the span before them, or begin a span.  A span may be the longer, the further it is from the
 * last due member: the neighbours of a due member are likely to be due soon, and would break up a long span.
 */
static void pass_chunks(struct hashed *hashed, struct hwt_chunk *next, uint32_t chunks, int32_t least)
{
	struct hwt_chunk *chunk = hashed->chunk;
	uint32_t round = (uint32_t)round_of(hashed, hashed->wheel.tick);

	hashed->bucket_least = smaller(hashed->bucket_least, least);
	if (next != NULL && hashed->span != NULL && hashed->span_chunks + chunks <= hashed->span_limit) {
		hashed->span_chunks += chunks;
		hashed->span_least = smaller(hashed->span_least, least);
		chunk_span_clear(chunk);
		chunk_span_clear(hashed->span);
		chunk_span_set(hashed->span, next, hashed->span_chunks, round + (uint32_t)hashed->span_least);
	} else {
		hashed->span = chunk;
		hashed->span_chunks = chunks;
		hashed->span_limit = hashed->passed < SPAN_CHUNKS ? hashed->passed : SPAN_CHUNKS;
		hashed->span_least = least;
	}
	hashed->passed += chunks;
	begin_chunk(hashed, next);
}

/* Passes over a chunk or a span.  Returns false if a member of the current chunk is due. */
static bool pass(struct hashed *hashed, uint32_t round)
{
	struct hwt_chunk *chunk = hashed->chunk;
	int32_t least = round_distance(chunk->least, round);

	if (chunk->span != NULL) {
		int32_t span_least = round_distance(chunk->span_least, round);

		if (span_least > 0) {
			pass_chunks(hashed, chunk->span, chunk->span_chunks, span_least);
			return true;
		}
		chunk_span_clear(chunk);
	}
	if (least <= 0)
		return false;
	pass_chunks(hashed, chunk->next, 1, least);
	return true;
}

static void begin_pass(struct hashed *hashed)
{
	hashed->pass_tick = hashed->wheel.tick;
	hashed->bucket_least = INT32_MAX;
	hashed->span = NULL;
	hashed->passed = 0;
	begin_chunk(hashed, hashed->ring.buckets[(uint32_t)hashed->wheel.tick & hashed->mask].first);
}

/*
 * Returns the tick of a member of this bucket that is due in `distance` rounds.  INT32_MAX, no member, gives
 * HWT_TICK_NEVER.
 */
static int64_t tick_of_member(const struct hashed *hashed, uint32_t bucket, int32_t distance)
{
	int64_t tick = round_of(hashed, hashed->wheel.tick) << hashed->bits | bucket;

	if (distance == INT32_MAX)
		return HWT_TICK_NEVER;
	tick = add_saturating(tick, (int64_t)distance << hashed->bits);
	return tick < HWT_TICK_MAX ? tick : HWT_TICK_MAX;
}

static void end_pass(struct hashed *hashed)
{
	uint32_t bucket = (uint32_t)hashed->wheel.tick & hashed->mask;

	hwt_ring_set(&hashed->ring, bucket, tick_of_member(hashed, bucket, hashed->bucket_least));
}

static size_t hashed_collect(struct hwt_wheel *wheel, struct hwt_record **due, size_t max)
{
	struct hashed *hashed = hashed_of(wheel);
	uint32_t round = (uint32_t)round_of(hashed, wheel->tick);
	size_t n = 0;

	if (hashed->pass_tick != wheel->tick)
		begin_pass(hashed);
	else if (hashed->chunk == NULL)
		return 0;
	while (hashed->chunk != NULL && n < max) {
		/* A chunk that was begun is not passed over, as its `least` is set only at its end. */
		if (pass(hashed, round))
			continue;
		n += collect_chunk(hashed, due + n, max - n);
		if (hashed->index == hashed->chunk->used)
			end_chunk(hashed);
	}
	if (hashed->chunk == NULL)
		end_pass(hashed);
	return n;
}

static void hashed_settle(struct hwt_wheel *wheel, unsigned visits)
{
	struct hashed *hashed = hashed_of(wheel);
	int64_t round = round_of(hashed, wheel->tick);

	if (hashed->wheel.stock.used == 0)
		hwt_ring_clear(&hashed->ring);
	while (visits-- > 0 && ring_first_due(&hashed->ring) < HWT_TICK_MAX) {
		uint32_t bucket = hwt_ring_first(&hashed->ring);
		int32_t entry = (int32_t)(round_of(hashed, ring_first_due(&hashed->ring)) - round);
		int32_t least = hwt_bucket_least(&hashed->ring.buckets[bucket], (uint32_t)round, entry, &visits);

		if (least <= entry)
			return;
		hwt_ring_set(&hashed->ring, bucket, tick_of_member(hashed, bucket, least));
	}
}

static size_t hashed_sweep(struct hwt_wheel *wheel, struct hwt_record **all, size_t max)
{
	struct hashed *hashed = hashed_of(wheel);

	hashed->pass_tick = -1; /* the wheel may go back to this tick */
	return hwt_ring_sweep(&hashed->ring, &hashed->wheel.stock, all, max);
}

static void hashed_destroy(struct hwt_wheel *wheel)
{
	hwt_ring_destroy(&hashed_of(wheel)->ring);
}

static const struct hwt_wheel_layout hashed_layout = {
	.place = hashed_place,
	.next_due = hashed_next_due,
	.collect = hashed_collect,
	.settle = hashed_settle,
	.sweep = hashed_sweep,
	.destroy = hashed_destroy,
};

struct hwt_wheel *hwt_wheel_hashed_create(uint32_t buckets)
{
	struct hashed *hashed = hwt_mem_zeroed(alignof(struct hashed), sizeof(*hashed));

	HWT_ASSERT(buckets > 0 && (buckets & (buckets - 1)) == 0);
	if (hashed == NULL)
		return NULL;
	wheel_init(&hashed->wheel, &hashed_layout, sizeof(*hashed) + hwt_ring_bytes(buckets));
	hashed->mask = buckets - 1;
	hashed->bits = (unsigned)__builtin_ctz(buckets);
	hashed->pass_tick = -1;
	if (!hwt_ring_make(&hashed->ring, buckets)) {
		hwt_mem_free(hashed);
		return NULL;
	}
	return &hashed->wheel;
}

#ifdef HWT_TEST
void hwt_wheel_hashed_view(const struct hwt_wheel *wheel, struct hwt_wheel_view *view)
{
	const struct hashed *hashed = (const struct hashed *)wheel;

	view->count = hashed->mask + 1;
	view->bits = hashed->bits;
	view->max_remaining = MAX_REMAINING;
	view->ring = &hashed->ring;
	view->collecting = hashed->pass_tick == wheel->tick ? hashed->chunk : NULL;
}
#endif
