/* SPDX-License-Identifier: BSD-2-Clause */
/* The checker's half for the wheel, only in the test build. */
#include "check/check_wheel.h"

#ifdef HWT_TEST

#include "wheel/levels.h"

static struct inventory all_chunks;

static bool span_holds(const struct hwt_chunk *chunk, uint32_t round)
{
	const struct hwt_chunk *member = chunk;

	if (chunk->span == NULL)
		return true;
	for (; member != NULL && member != chunk->span; member = member->next)
		if (round_distance(member->least, round) < round_distance(chunk->span_least, round))
			return false;
	return member != NULL && member != chunk && member->span_from == chunk;
}

bool hwt_check_spans(const struct hwt_bucket *bucket, uint32_t round)
{
	for (const struct hwt_chunk *chunk = bucket->first; chunk != NULL; chunk = chunk->next)
		if (!span_holds(chunk, round) || (chunk->span_from != NULL && chunk->span_from->span != chunk))
			return false;
	return true;
}

/* Returns the bytes that a chunk takes of its slab. */
static size_t bytes_of(const struct hwt_chunk *chunk)
{
	static const size_t bytes[CHUNK_CLASSES] = { 128, 256, 512, 768 };

	return bytes[chunk->class];
}

void hwt_check_levels_view(const struct hwt_wheel *wheel, unsigned level, struct hwt_wheel_view *view)
{
	const struct hwt_levels *h = (const struct hwt_levels *)wheel;

	view->count = h->mask + 1;
	view->bits = h->bits;
	view->levels = h->top + 1;
	view->ring = &h->level[level];
}

/* Returns the time of a tick, held within int64_t, in another way than the library if there is one. */
static int64_t time_of(const struct hwt_grid *grid, int64_t tick)
{
#ifdef __SIZEOF_INT128__
	__extension__ typedef __int128 wide;
	wide at = (wide)grid->start_ns + (wide)tick * grid->tick_ns;

	return at > INT64_MAX ? INT64_MAX : (int64_t)at; /* ticks are not negative */
#else
	return grid_time(grid, tick);
#endif
}

/* Checks E1 and E3 of grid.h for a deadline. */
static void check_deadline(const struct hwt_grid *grid, int64_t deadline_ns)
{
	int64_t tick = grid_tick_of(grid, deadline_ns);

	HOLDS("E3", tick >= 0 && tick <= HWT_TICK_MAX);
	HOLDS("E1", time_of(grid, tick) >= deadline_ns || tick == HWT_TICK_MAX);
	HOLDS("E1", tick == 0 || time_of(grid, tick - 1) < deadline_ns);
}

/* Checks D1 of ring.h against naive maxima, and that each entry may belong to its bucket. */
static void check_ring(const struct hwt_ring *ring, uint32_t buckets, int64_t now_tick, bool hashed)
{
	for (unsigned l = 0; l < ring->top; l++) {
		const uint64_t *above = ring->level[l + 1];

		for (size_t i = 0; i < (size_t)(above - ring->level[l]); i += RING_FANOUT) {
			uint64_t most = 0;

			for (unsigned j = 0; j < RING_FANOUT; j++)
				most = ring->level[l][i + j] > most ? ring->level[l][i + j] : most;
			HOLDS("D1", above[i / RING_FANOUT] == most);
		}
	}
	HOLDS("D1", ring->top == 0 || (buckets - 1) >> (RING_FANOUT_BITS * (ring->top - 1)) > 0);
	HOLDS("D1", (buckets - 1) >> (RING_FANOUT_BITS * ring->top) == 0);
	for (uint32_t i = 0; i < buckets; i++) {
		int64_t tick = ring_due(ring, i);

		HOLDS("D2", tick >= now_tick);
		HOLDS("H2", !hashed || tick >= HWT_TICK_MAX || ((uint64_t)tick & (buckets - 1)) == i);
	}
}

struct wheel_check {
	const struct hwt_wheel *wheel;
	struct inventory *records;
	struct hwt_wheel_view view;
	unsigned level;
	int64_t first_due; /* the least tick of all members */
};

typedef void check_one(struct wheel_check *check, struct hwt_chunk *chunk, unsigned i);

/* Relaxed: the timer is quiet. */
static bool has_flag(const struct hwt_record *record, uint64_t flag)
{
	return word_has(atomic_load_explicit(&record->word, memory_order_relaxed), flag);
}

static bool was_rescheduled(const struct hwt_record *record)
{
	return has_flag(record, WORD_RESCHEDULED);
}

/* Returns true if a submitted queue has the record, too. */
static bool is_requeued(const struct hwt_record *record)
{
	return has_flag(record, WORD_REQUEUED);
}

/* Checks that a member's `place` is right.  Returns its tick by its deadline. */
static int64_t check_placed(struct wheel_check *check, struct hwt_chunk *chunk, unsigned i)
{
	const struct hwt_record *record = chunk->records[i];
	const struct hwt_wheel *wheel = check->wheel;
	int64_t truly = grid_tick_of(&wheel->grid, record_deadline(record));

	inventory_put(check->records, "R1", record, sizeof(*record), PLACE_WHEEL);
	check_deadline(&wheel->grid, record_deadline(record));
	HOLDS("B1", record->place == place_make(chunk, i));
	return truly > wheel->tick ? truly : wheel->tick;
}

/* Checks a member of the hashed wheel: its tick by bucket and round, against its tick by the deadline. */
static void check_member(struct wheel_check *check, struct hwt_chunk *chunk, unsigned i)
{
	const struct hwt_record *record = chunk->records[i];
	const struct hwt_wheel *wheel = check->wheel;
	uint32_t bucket = (uint32_t)(chunk->bucket - check->view.ring->buckets);
	int64_t round = wheel->tick >> check->view.bits;
	int32_t distance = round_distance(chunk_rounds(chunk)[i], (uint32_t)round);
	int64_t tick = (int64_t)((uint64_t)(round + distance) << check->view.bits | bucket);
	int64_t truly = check_placed(check, chunk, i);

	HOLDS("B3", round_distance(chunk->least, (uint32_t)round) <= distance);
	HOLDS("H1", distance >= 0 && distance <= check->view.max_remaining);
	HOLDS("W1", tick >= wheel->tick);
	if (!was_rescheduled(record)) {
		HOLDS("B5", chunk->clamped ? tick <= truly : tick == truly);
		HOLDS("H1", ((uint64_t)truly & (check->view.count - 1)) == bucket);
	}
	HOLDS("R4", tick <= truly || is_requeued(record));
	HOLDS("H2", ring_due(check->view.ring, bucket) <= tick);
	check->first_due = tick < check->first_due ? tick : check->first_due;
}

/* Checks a member of the hierarchical wheel: its level has a bucket for its block, and its tick is of that block. */
static void check_level_member(struct wheel_check *check, struct hwt_chunk *chunk, unsigned i)
{
	const struct hwt_wheel_view *view = &check->view;
	const struct hwt_record *record = chunk->records[i];
	unsigned shift = view->bits * check->level;
	uint64_t index = (uint64_t)(chunk->bucket - view->ring->buckets), now = (uint64_t)check->wheel->tick >> shift;
	uint64_t first = now >> view->bits << view->bits; /* the first block of the present block of the level above */
	uint64_t block = first + ((index - first) & (view->count - 1));
	int64_t tick = check_placed(check, chunk, i), entry = ring_due(view->ring, (uint32_t)index);

	HOLDS("K2", check->level == 0 ? block >= now : block > now);
	if (!was_rescheduled(record)) {
		HOLDS("K1", (uint64_t)tick >> shift == block);
		HOLDS("K1", chunk_rounds(chunk)[i] == (uint32_t)tick);
		HOLDS("K3", entry <= tick);
		check->first_due = tick < check->first_due ? tick : check->first_due;
	}
	HOLDS("R4", block << shift <= (uint64_t)tick || is_requeued(record));
}

static size_t check_bucket(struct wheel_check *check, const struct hwt_bucket *bucket, check_one *check_one_member)
{
	struct hwt_chunk *before = NULL, *chunk = bucket->first;
	size_t chunks = 0;

	for (; chunk != NULL; before = chunk, chunk = chunk->next, chunks++) {
		unsigned live = 0;

		HOLDS("stock", chunk->class < CHUNK_CLASSES);
		inventory_put(&all_chunks, "stock", chunk, bytes_of(chunk), 1);
		HOLDS("B2", chunk->prev == before && chunk->bucket == bucket && chunk->used <= chunk_capacity(chunk));
		for (unsigned i = 0; i < chunk->used; i++) {
			if (chunk->records[i] == NULL)
				continue;
			live++;
			check_one_member(check, chunk, i);
		}
		HOLDS("B2", live == chunk->live);
		HOLDS("B2", live > 0 || chunk == check->view.collecting);
	}
	HOLDS("B2", bucket->last == before);
	return chunks;
}

static void check_stock(const struct hwt_stock *stock)
{
	inventory_clear(&all_chunks, CHUNK_ALIGN);
	inventory_add_slabs(&all_chunks, "stock", &stock->slabs, &hwt_chunk_slab);
	inventory_put(&all_chunks, "stock", stock->slabs.carve, (size_t)(stock->slabs.carve_end - stock->slabs.carve),
		      1);
	for (unsigned i = 0; i < CHUNK_CLASSES; i++) {
		for (const struct hwt_chunk *chunk = stock->free[i]; chunk != NULL; chunk = chunk->next) {
			HOLDS("stock", chunk->class == i);
			inventory_put(&all_chunks, "stock", chunk, bytes_of(chunk), 1);
		}
	}
}

static size_t check_hashed(struct wheel_check *check)
{
	const struct hwt_wheel_view *view = &check->view;
	uint32_t round = (uint32_t)(check->wheel->tick >> view->bits);
	size_t chunks = 0;

	for (uint32_t i = 0; i < view->count; i++) {
		chunks += check_bucket(check, &view->ring->buckets[i], check_member);
		HOLDS("B6", hwt_check_spans(&view->ring->buckets[i], round));
	}
	check_ring(view->ring, view->count, check->wheel->tick, true);
	HOLDS("D2", ring_first_due(view->ring) <= check->first_due);
	return chunks;
}

static size_t check_levels(struct wheel_check *check)
{
	struct hwt_wheel_view *view = &check->view;
	size_t chunks = 0;

	for (check->level = 0; check->level < view->levels; check->level++) {
		hwt_check_levels_view(check->wheel, check->level, view);
		if (view->ring->buckets == NULL)
			continue;
		for (uint32_t i = 0; i < view->count; i++)
			chunks += check_bucket(check, &view->ring->buckets[i], check_level_member);
		check_ring(view->ring, view->count, check->wheel->tick, false);
	}
	HOLDS("D2", check->wheel->layout->next_due(check->wheel) <= check->first_due);
	return chunks;
}

static void put_list(struct inventory *records, const struct hwt_wheel_list *list)
{
	for (struct hwt_record *record = list->first; record != NULL;
	     record = (struct hwt_record *)(record->place & ~(uintptr_t)1))
		inventory_put(records, "R1", record, sizeof(*record), PLACE_UNPLACED);
}

static void check_unplaced(const struct hwt_wheel *wheel, struct inventory *records, bool midway)
{
	struct hwt_record *last = NULL, *record;

	HOLDS("unplaced", midway || wheel->ripe.first == NULL);
	put_list(records, &wheel->ripe);
	for (record = wheel->unplaced.first; record != NULL;
	     last = record, record = (struct hwt_record *)(record->place & ~(uintptr_t)1)) {
		inventory_put(records, "R1", record, sizeof(*record), PLACE_UNPLACED);
		check_deadline(&wheel->grid, record_deadline(record));
		HOLDS("R3", (record->place & 1) != 0);
		HOLDS("unplaced", wheel->unplaced_due <= grid_tick_of(&wheel->grid, record_deadline(record)) ||
				      wheel->unplaced_due <= wheel->tick || is_requeued(record));
	}
	HOLDS("unplaced", wheel->unplaced.last == last);
	/* Postponed records wait for the end of a tick, and only a stop ends a tick in the middle. */
	HOLDS("put off", midway || wheel->postponed.first == NULL);
	put_list(records, &wheel->postponed);
	put_list(records, &wheel->held);
	HOLDS("unplaced", wheel->unplaced_due >= wheel->tick);
}

/* Checks that free chunks + used chunks + the uncut rest = the slabs, and the rest of the wheel's invariants. */
size_t hwt_check_wheel(const struct hwt_wheel *wheel, struct inventory *records, bool midway, int64_t *first)
{
	struct wheel_check check = { .wheel = wheel, .records = records, .first_due = HWT_TICK_NEVER };
	bool is_hierarchical = hwt_wheel_is_hierarchical(wheel);
	size_t chunks;

	if (is_hierarchical)
		hwt_check_levels_view(wheel, 0, &check.view);
	else
		hwt_wheel_hashed_view(wheel, &check.view);
	check_stock(&wheel->stock);
	chunks = is_hierarchical ? check_levels(&check) : check_hashed(&check);
	HOLDS("stock", wheel->stock.used == chunks);
	*first = check.first_due;
	for (size_t i = 0; i < all_chunks.marks; i++)
		HOLDS("stock", all_chunks.mark[i] != 0);
	check_unplaced(wheel, records, midway);
	return chunks;
}

#endif
