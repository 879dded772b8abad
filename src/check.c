/* SPDX-License-Identifier: BSD-2-Clause */
/* The checker, only in the test build.  Stupid on purpose: no shortcut that the code under test takes is taken here. */
#include "check.h"

#ifdef HWT_TEST

#include "bucket.h"
#include "check_inventory.h"
#include "due.h"

#include <stdio.h>

/* A record's mark. */
#define PLACE_MASK 0x7fu
#define IN_CANCELLED 0x80u

void hwt_check_failed(const char *invariant, const char *what, const char *file, int line)
{
	fflush(stdout);
	fprintf(stderr, "%s:%d: invariant %s is broken: %s\n", file, line, invariant, what);
	abort();
}

static struct inventory all_records, all_nodes, all_chunks;

/* Relaxed: the timer is quiet. */
static int state_of(const struct hwt_timer *timer)
{
	return atomic_load_explicit(&timer->state, memory_order_relaxed);
}

/* Relaxed: the timer is quiet. */
static uint64_t word_of(const struct hwt_record *record)
{
	return atomic_load_explicit(&record->word, memory_order_relaxed);
}

static void put_record(const struct hwt_record *record, uint8_t place)
{
	inventory_put(&all_records, "R1", record, sizeof(*record), place);
}

/* clock.h: E1 and E3 of one deadline. */
__extension__ typedef __int128 wide;

static void check_deadline(const struct hwt_grid *grid, int64_t deadline_ns)
{
	int64_t tick = grid_tick_of(grid, deadline_ns);
	wide at = (wide)grid->start_ns + (wide)tick * grid->tick_ns;

	HOLDS("E3", tick >= 0 && tick <= HWT_TICK_MAX);
	HOLDS("E1", at >= deadline_ns || tick == HWT_TICK_MAX);
	HOLDS("E1", tick == 0 || at - grid->tick_ns < deadline_ns);
}

/* queue.h.  Hands each value that waits to `found`. */
static void check_queue(const struct hwt_queue *queue, struct hwt_lane *lane,
			void (*found)(struct hwt_lane *, struct hwt_record *))
{
	struct hwt_node_slab *slab = NULL;
	bool behind = true, snapshot_seen = false;
	char *begin, *end;
	hwt_node *last = NULL;

	inventory_clear(&all_nodes, sizeof(hwt_node));
	while (hwt_queue_next_slab(queue, &slab, &begin, &end)) {
		HOLDS("Q1", slab != queue->slabs || (char *)queue->carve_end == end);
		inventory_add(&all_nodes, begin, end);
	}
	inventory_put(&all_nodes, "Q1", queue->carve, (size_t)((char *)queue->carve_end - (char *)queue->carve), 1);
	for (hwt_node *node = queue->spare; node != NULL; node = node->next)
		inventory_put(&all_nodes, "Q1", node, sizeof(*node), 1);
	for (hwt_node *node = queue->fifo.garbage; node != NULL; last = node, node = node->next) {
		inventory_put(&all_nodes, "Q1", node, sizeof(*node), 1);
		if (!behind)
			found(lane, node->value);
		snapshot_seen |= behind && node == queue->fifo.head_snapshot;
		behind &= node != queue->fifo.head; /* that one is the stub */
	}
	HOLDS("Q1", last == queue->fifo.tail && !behind);
	HOLDS("Q2", snapshot_seen);
	for (size_t i = 0; i < all_nodes.marks; i++)
		HOLDS("Q1", all_nodes.mark[i] != 0);
}

static void found_submitted(struct hwt_lane *lane, struct hwt_record *record)
{
	put_record(record, PLACE_SUBMITTED);
	HOLDS("R1", record_lane(record) == lane);
	HOLDS("R3", record->place == 0);
}

static void found_cancelled(struct hwt_lane *lane, struct hwt_record *record)
{
	uint8_t *mark = inventory_mark(&all_records, record);

	(void)lane; /* of who cancelled it */
	HOLDS("R1", mark != NULL && (*mark & IN_CANCELLED) == 0);
	*mark |= IN_CANCELLED;
}

/* pool.h: a list of free records; `lane`: that it came home to, NULL: any. */
static void check_free(struct hwt_record *first, uint8_t place, const struct hwt_lane *lane)
{
	for (struct hwt_record *record = first; record != NULL; record = record->free_next) {
		put_record(record, place);
		HOLDS("pool", inventory_mark(&all_records, record->free_ahead) != NULL);
		HOLDS("pool", lane == NULL || record_lane(record) == lane);
	}
}

/* What a pass that stop has ended did not send home; otherwise there is nothing between passes. */
static void check_home(const struct hwt_lane *lane, bool midway)
{
	const struct hwt_record *last = NULL;
	size_t count = 0;

	check_free(lane->home.first, PLACE_HOME, lane);
	for (const struct hwt_record *record = lane->home.first; record != NULL; record = record->free_next) {
		last = record;
		count++;
	}
	HOLDS("pool", lane->home.count == count && lane->home.last == last);
	HOLDS("G5", midway || count == 0);
}

static void check_pool(const struct hwt_lane *lane)
{
	const struct hwt_pool *pool = &lane->pool;

	inventory_put(&all_records, "R1", pool->carve, (size_t)(pool->carve_end - pool->carve), PLACE_NOT_CARVED);
	check_free(pool->free, PLACE_FREE, NULL);
	/* Relaxed: the timer is quiet. */
	check_free(atomic_load_explicit(&lane->returned, memory_order_relaxed), PLACE_RETURNED, lane);
}

static void add_slabs(const struct hwt_pool *pool)
{
	struct hwt_slab *slab = NULL;
	char *begin, *end;

	while (hwt_pool_next_slab(pool, &slab, &begin, &end)) {
		HOLDS("pool", slab != pool->slabs || pool->carve_end == end);
		inventory_add(&all_records, begin, end);
	}
}

/* due.h: D1 against naive maxima, and that each entry may be its bucket's. */
static void check_due(const struct hwt_due *due, uint32_t buckets, int64_t now_tick)
{
	for (unsigned l = 0; l < due->top; l++) {
		const uint64_t *above = due->level[l + 1];

		for (size_t i = 0; i < (size_t)(above - due->level[l]); i += DUE_FANOUT) {
			uint64_t most = 0;

			for (unsigned j = 0; j < DUE_FANOUT; j++)
				most = due->level[l][i + j] > most ? due->level[l][i + j] : most;
			HOLDS("D1", above[i / DUE_FANOUT] == most);
		}
	}
	HOLDS("D1", due->top == 0 || (buckets - 1) >> (DUE_FANOUT_BITS * (due->top - 1)) > 0);
	HOLDS("D1", (buckets - 1) >> (DUE_FANOUT_BITS * due->top) == 0);
	for (uint32_t i = 0; i < buckets; i++) {
		int64_t tick = HWT_TICK_NEVER - (int64_t)due->level[0][i];

		HOLDS("D2", tick >= now_tick);
		HOLDS("H2", tick >= HWT_TICK_MAX || ((uint64_t)tick & (buckets - 1)) == i);
	}
}

struct wheel_check {
	const struct hwt_wheel *wheel;
	struct hwt_hashed_view view;
	int64_t first_due; /* the least tick of any member */
};

/* One member: where it says it is, and the tick that bucket and round say, against that of its deadline. */
static void check_member(struct wheel_check *check, struct hwt_chunk *chunk, unsigned i)
{
	const struct hwt_record *record = chunk->records[i];
	const struct hwt_wheel *wheel = check->wheel;
	uint32_t bucket = (uint32_t)(chunk->bucket - check->view.buckets);
	int64_t round = wheel->tick >> check->view.bits;
	int32_t distance = round_distance(chunk_rounds(chunk)[i], (uint32_t)round);
	int64_t tick = (int64_t)((uint64_t)(round + distance) << check->view.bits | bucket);
	int64_t truly = grid_tick_of(&wheel->grid, record->deadline_ns);

	put_record(record, PLACE_WHEEL);
	check_deadline(&wheel->grid, record->deadline_ns);
	HOLDS("B1", record->place == place_make(chunk, i));
	HOLDS("B3", round_distance(chunk->least, (uint32_t)round) <= distance);
	HOLDS("H1", distance >= 0 && distance <= check->view.max_remaining);
	HOLDS("W1", tick >= wheel->tick);
	truly = truly > wheel->tick ? truly : wheel->tick;
	HOLDS("B5", chunk->clamped ? tick <= truly : tick == truly);
	HOLDS("H1", ((uint64_t)truly & (check->view.count - 1)) == bucket);
	HOLDS("H2", HWT_TICK_NEVER - (int64_t)check->view.due->level[0][bucket] <= tick);
	check->first_due = tick < check->first_due ? tick : check->first_due;
}

static size_t check_bucket(struct wheel_check *check, const struct hwt_bucket *bucket)
{
	struct hwt_chunk *before = NULL, *chunk = bucket->first;
	size_t chunks = 0;

	for (; chunk != NULL; before = chunk, chunk = chunk->next, chunks++) {
		unsigned live = 0;

		HOLDS("store", chunk->class < CHUNK_CLASSES);
		inventory_put(&all_chunks, "store", chunk, hwt_chunk_bytes(chunk), 1);
		HOLDS("B2", chunk->prev == before && chunk->bucket == bucket && chunk->used <= chunk_capacity(chunk));
		for (unsigned i = 0; i < chunk->used; i++) {
			if (chunk->records[i] == NULL)
				continue;
			live++;
			check_member(check, chunk, i);
		}
		HOLDS("B2", live == chunk->live);
		HOLDS("B2", live > 0 || chunk == check->view.collecting);
	}
	HOLDS("B2", bucket->last == before);
	HOLDS("B6", hwt_bucket_spans_hold(bucket, (uint32_t)(check->wheel->tick >> check->view.bits)));
	return chunks;
}

/* bucket.h: free chunks + used chunks + what is not cut = blocks.  Returns the number of used ones. */
static size_t check_hashed(struct wheel_check *check)
{
	const struct hwt_store *store = check->view.store;
	struct hwt_store_block *block = NULL;
	size_t chunks = 0;
	char *begin, *end;

	inventory_clear(&all_chunks, CHUNK_ALIGN);
	while (hwt_store_next_block(store, &block, &begin, &end)) {
		HOLDS("store", block != store->blocks || store->carve_end == end);
		inventory_add(&all_chunks, begin, end);
	}
	inventory_put(&all_chunks, "store", store->carve, (size_t)(store->carve_end - store->carve), 1);
	for (unsigned i = 0; i < CHUNK_CLASSES; i++) {
		for (const struct hwt_chunk *chunk = store->free[i]; chunk != NULL; chunk = chunk->next) {
			HOLDS("store", chunk->class == i);
			inventory_put(&all_chunks, "store", chunk, hwt_chunk_bytes(chunk), 1);
		}
	}
	for (uint32_t i = 0; i < check->view.count; i++)
		chunks += check_bucket(check, &check->view.buckets[i]);
	for (size_t i = 0; i < all_chunks.marks; i++)
		HOLDS("store", all_chunks.mark[i] != 0);
	return chunks;
}

static void check_unplaced(const struct hwt_wheel *wheel)
{
	struct hwt_record *last = NULL, *record = wheel->unplaced_first;

	for (; record != NULL; last = record, record = (struct hwt_record *)(record->place & ~(uintptr_t)1)) {
		put_record(record, PLACE_UNPLACED);
		check_deadline(&wheel->grid, record->deadline_ns);
		HOLDS("R3", (record->place & 1) != 0);
		HOLDS("unplaced", wheel->unplaced_due <= grid_tick_of(&wheel->grid, record->deadline_ns) ||
				      wheel->unplaced_due <= wheel->tick);
	}
	HOLDS("unplaced", wheel->unplaced_last == last);
	HOLDS("unplaced", wheel->unplaced_due >= wheel->tick);
}

static size_t check_wheel(const struct hwt_wheel *wheel)
{
	struct wheel_check check = { .wheel = wheel, .first_due = HWT_TICK_NEVER };
	size_t chunks;

	hwt_wheel_hashed_view(wheel, &check.view);
	chunks = check_hashed(&check);
	check_due(check.view.due, check.view.count, wheel->tick);
	HOLDS("D2", due_first(check.view.due) <= check.first_due);
	check_unplaced(wheel);
	return chunks;
}

#define STATE(name) (1u << STATE_##name)

/* Which states a record may have where, if it is in no cancelled queue. */
static const unsigned legal_states[PLACES] = {
	[PLACE_NOWHERE] = 0,
	[PLACE_FREE] = STATE(FREE) | STATE(EXPIRED) | STATE(CANCELLED) | STATE(LAZY),
	[PLACE_RETURNED] = STATE(EXPIRED) | STATE(CANCELLED) | STATE(LAZY),
	[PLACE_HOME] = STATE(EXPIRED) | STATE(CANCELLED) | STATE(LAZY),
	[PLACE_SUBMITTED] = STATE(QUEUED) | STATE(CANCELLED),
	[PLACE_WHEEL] = STATE(ARMED) | STATE(LAZY),
	[PLACE_UNPLACED] = STATE(ARMED) | STATE(LAZY),
	[PLACE_BATCH] = STATE(ARMED) | STATE(LAZY),
	[PLACE_UNPROCESSED] = STATE(CANCELLED),
};

/* After a stop: what is left has been cancelled, and was dropped or handed out; its place member means nothing. */
static bool is_legal(const struct hwt_timer *timer, const struct hwt_record *record, enum word_state state,
		     enum hwt_check_place index, bool in_cancelled)
{
	if (index == PLACE_NOWHERE && state_of(timer) == TIMER_STOPPED)
		return state == STATE_CANCELLED || state == STATE_LAZY;
	if (!in_cancelled)
		return (legal_states[index] >> state & 1) != 0;
	return state == STATE_CANCELLED && (index == PLACE_WHEEL || index == PLACE_UNPLACED || index == PLACE_BATCH ||
					    (index == PLACE_NOWHERE && record->place == 0));
}

static void check_record(struct hwt_timer *timer, struct hwt_record *record, uint8_t mark, uint64_t *pending,
			 uint64_t *begun)
{
	uint64_t word = word_of(record);
	enum word_state state = word_state(word);

	HOLDS("word", (word >> 8 & 0xff) == 0 && state <= STATE_LAZY);
	HOLDS("word", (word_generation(word) == 0) == (state == STATE_FREE));
	HOLDS("R1", is_legal(timer, record, state, mark & PLACE_MASK, (mark & IN_CANCELLED) != 0));
	if (state != STATE_FREE) {
		size_t i = (size_t)(record_lane(record) - timer->lanes.lane);

		HOLDS("R1", i < timer->lanes.count && record_lane(record) == &timer->lanes.lane[i]);
	}
	*pending += state == STATE_QUEUED || state == STATE_ARMED;
	*begun += word_generation(word);
}

/* All of R1, then lane.h. */
static void check_records(struct hwt_timer *timer, struct hwt_check_counts *counts)
{
	const struct hwt_lanes *lanes = &timer->lanes;
	/* Relaxed: the timer is quiet. */
	int64_t limited = atomic_load_explicit(&lanes->limited, memory_order_relaxed);
	uint64_t pending = 0, begun = 0;

	for (size_t i = 0; i < all_records.areas; i++) {
		const struct area *area = &all_records.area[i];
		const uint8_t *mark = &all_records.mark[area->first_mark];
		struct hwt_record *record = (struct hwt_record *)(void *)area->begin;

		for (; (char *)record != area->end; record++, mark++) {
			counts->place[*mark & PLACE_MASK]++;
			counts->cancelled += (*mark & IN_CANCELLED) != 0;
			if (*mark != PLACE_NOT_CARVED)
				check_record(timer, record, *mark, &pending, &begun);
		}
	}
	HOLDS("L1", hwt_pending_timeouts(timer) == pending);
	HOLDS("L1", hwt_lanes_accepted(lanes) == begun);
	HOLDS("L2", lanes->max_pending == 0 || ((int64_t)pending <= limited && limited <= lanes->max_pending));
	if (state_of(timer) == TIMER_STARTED)
		HOLDS("L2", limited == (lanes->max_pending == 0 ? 0 : (int64_t)pending)); /* G4 */
}

static void check_stopped(const struct hwt_timer *timer, const struct hwt_check_counts *counts)
{
	for (uint32_t i = 0; i < timer->lanes.count; i++)
		HOLDS("L3", timer->lanes.lane[i].closed);
	HOLDS("L3", counts->place[PLACE_SUBMITTED] == 0);
	HOLDS("P2", counts->place[PLACE_BATCH] + counts->place[PLACE_WHEEL] + counts->place[PLACE_UNPLACED] == 0);
}

void hwt_check_count(hwt_timer *timer, struct hwt_check_counts *counts)
{
	struct hwt_worker *worker = &timer->worker;
	struct hwt_check_counts unused;
	/* Relaxed: the timer is quiet. */
	bool stopped = atomic_load_explicit(&worker->stop, memory_order_relaxed);

	counts = counts != NULL ? counts : &unused;
	memset(counts, 0, sizeof(*counts));
	inventory_clear(&all_records, sizeof(struct hwt_record));
	for (uint32_t i = 0; i < timer->lanes.count; i++)
		add_slabs(&timer->lanes.lane[i].pool);
	for (uint32_t i = 0; i < timer->lanes.count; i++) {
		check_pool(&timer->lanes.lane[i]);
		check_home(&timer->lanes.lane[i], stopped);
		check_queue(&timer->lanes.lane[i].submitted, &timer->lanes.lane[i], found_submitted);
	}
	counts->chunks = check_wheel(timer->wheel);
	HOLDS("P2", worker->batch_at <= worker->batch_end && worker->batch_end <= HWT_BATCH);
	for (size_t i = worker->batch_at; i < worker->batch_end; i++)
		put_record(worker->batch[i], PLACE_BATCH);
	for (struct hwt_record *record = timer->unprocessed; record != NULL; record = record->link)
		put_record(record, PLACE_UNPROCESSED);
	for (uint32_t i = 0; i < timer->lanes.count; i++)
		check_queue(&timer->lanes.lane[i].cancelled, &timer->lanes.lane[i], found_cancelled);
	check_records(timer, counts);
	if (state_of(timer) == TIMER_STOPPED)
		check_stopped(timer, counts);
}

void hwt_check(hwt_timer *timer)
{
	hwt_check_count(timer, NULL);
}

#endif
