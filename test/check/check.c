/* SPDX-License-Identifier: BSD-2-Clause */
/* The checker, only in the test build.  Stupid on purpose: it takes no shortcut of the code under test. */
#include "check/check.h"
#include "lane/lane.h"

#ifdef HWT_TEST

#include <stdio.h>

/* The mark of a record. */
#define PLACE_MASK 0x3fu
#define IN_SUBMITTED 0x40u /* REQUEUED: it has another place, too */
#define IN_CANCELLED 0x80u

void hwt_check_failed(const char *invariant, const char *what, const char *file, int line)
{
	fflush(stdout);
	fprintf(stderr, "%s:%d: invariant %s is broken: %s\n", file, line, invariant, what);
	abort();
}

static struct inventory all_records, all_nodes;

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

static void put_nodes(const struct hwt_queue *queue)
{
	bool behind = true, snapshot_seen = false;
	hwt_node *last = NULL;

	inventory_put(&all_nodes, "Q1", queue->slabs.carve, (size_t)(queue->slabs.carve_end - queue->slabs.carve), 1);
	for (hwt_node *node = queue->spare; node != NULL; node = node->next)
		inventory_put(&all_nodes, "Q1", node, sizeof(*node), 1);
	for (hwt_node *node = queue->fifo.garbage; node != NULL; last = node, node = node->next) {
		inventory_put(&all_nodes, "Q1", node, sizeof(*node), 1);
		snapshot_seen |= behind && node == queue->fifo.head_snapshot;
		behind &= node != queue->fifo.head; /* the head is the stub */
	}
	HOLDS("Q1", last == queue->fifo.tail && !behind);
	HOLDS("Q2", snapshot_seen);
}

static void check_nodes(const struct hwt_queue *queue)
{
	inventory_clear(&all_nodes, sizeof(hwt_node));
	inventory_add_slabs(&all_nodes, "Q1", &queue->slabs, &hwt_node_slab);
	put_nodes(queue);
	for (size_t i = 0; i < all_nodes.marks; i++)
		HOLDS("Q1", all_nodes.mark[i] != 0);
}

/* Calls `found` for each value that waits in a queue, which has been checked. */
static void each_queued(const struct hwt_queue *queue, struct hwt_lane *lane,
			void (*found)(struct hwt_lane *, struct hwt_record *))
{
	for (hwt_node *node = queue->fifo.head->next; node != NULL; node = node->next)
		found(lane, node->value);
}

/* Records that have another place, too, are left to found_requeued. */
static void found_submitted(struct hwt_lane *lane, struct hwt_record *record)
{
	HOLDS("R1", inventory_mark(&all_records, record) != NULL);
	if (word_has(word_of(record), WORD_REQUEUED))
		return;
	put_record(record, PLACE_SUBMITTED);
	HOLDS("R1", record_lane(record) == lane);
	HOLDS("R3", record->place == 0);
}

static void found_requeued(struct hwt_lane *lane, struct hwt_record *record)
{
	uint8_t *mark = inventory_mark(&all_records, record);

	(void)lane; /* the lane of the thread that moved it */
	if (!word_has(word_of(record), WORD_REQUEUED))
		return;
	HOLDS("R1", (*mark & IN_SUBMITTED) == 0);
	*mark |= IN_SUBMITTED;
}

static void found_cancelled(struct hwt_lane *lane, struct hwt_record *record)
{
	uint8_t *mark = inventory_mark(&all_records, record);

	(void)lane; /* the lane of the thread that cancelled it */
	HOLDS("R1", mark != NULL && (*mark & (IN_CANCELLED | IN_SUBMITTED)) == 0);
	*mark |= IN_CANCELLED;
}

/* Marks a list of `count` free records of a slab. */
static void check_free(const struct hwt_record_slab *slab, struct hwt_record *record, uint32_t count, uint8_t place)
{
	for (; count > 0; count--, record = record_next(record)) {
		HOLDS("S1", record != NULL && record_slab_of(record) == slab);
		put_record(record, place);
		HOLDS("pool", inventory_mark(&all_records, record->free_ahead) != NULL);
	}
}

static uint32_t length(const struct hwt_record *record)
{
	uint32_t count = 0;

	for (; record != NULL; record = record_next(record), count++)
		HOLDS("S1", count <= SLAB_RECORDS);
	return count;
}

/* Checks the worker's chain of a slab.  Between passes it is empty, unless a stop has ended the pass. */
static void check_chain(const struct hwt_record_slab *slab, bool midway)
{
	const struct hwt_record *last = slab->first;

	HOLDS("G5", midway || slab->count == 0);
	if (slab->count == 0)
		return;
	check_free(slab, slab->first, slab->count, PLACE_FREE_CHAIN);
	for (uint32_t i = 1; i < slab->count; i++)
		last = record_next(last);
	HOLDS("S1", slab->last == last);
}

/* Returns the pool of the lane that owns a slab; NULL: no lane does. */
static const struct hwt_pool *pool_of(const struct hwt_lanes *lanes, struct hwt_record_slab *slab)
{
	const void *owner = atomic_load_explicit(&slab->owner, memory_order_relaxed); /* relaxed: the timer is quiet */

	for (uint32_t i = 0; i < lanes_count(lanes); i++) {
		HOLDS("S4", (lanes->made[i]->pool.slab == slab) == (owner == lanes->made[i]));
		if (owner == lanes->made[i])
			return &lanes->made[i]->pool;
	}
	HOLDS("S4", owner == NULL);
	return NULL;
}

/* Checks the invariants of record_slab.h for a slab.  The inventory has the areas of all slabs. */
static void check_slab(const struct hwt_lanes *lanes, struct hwt_record_slab *slab, bool midway)
{
	const struct hwt_pool *pool = pool_of(lanes, slab);
	struct hwt_record *free = pool != NULL ? pool->free : slab->free;
	const char *carve = pool != NULL ? pool->carve : record_slab_begin(slab) + slab->carve;
	const char *end = record_slab_begin(slab) + record_slab_span(slab);
	size_t carved = (size_t)(carve - record_slab_begin(slab)) / sizeof(struct hwt_record);
	/* Relaxed: the timer is quiet. */
	uint64_t home = atomic_load_explicit(&slab->home, memory_order_relaxed);

	HOLDS("S4", pool == NULL || pool->carve_end == end);
	inventory_put(&all_records, "R1", carve, (size_t)(end - carve), PLACE_NOT_CARVED);
	for (const char *at = carve; at < end; at += sizeof(struct hwt_record))
		HOLDS("S5", !word_is_alive(word_of((const struct hwt_record *)(const void *)at)));
	check_free(slab, free, length(free), PLACE_FREE);
	check_free(slab, home_first(slab, home), home_count(home), PLACE_RETURNED);
	HOLDS("S1", length(home_first(slab, home)) == home_count(home));
	check_chain(slab, midway);
	HOLDS("S2", (pool != NULL ? pool->out : slab->out) == carved - length(free));
}

static void check_slabs(const struct hwt_lanes *lanes, bool midway)
{
	size_t held = 0;

	for (struct hwt_record_slab *slab = record_slabs_newest(&lanes->slabs); slab != NULL; slab = slab->next) {
		uint32_t span = record_slab_span(slab);

		if (span > 0)
			inventory_add(&all_records, record_slab_begin(slab), record_slab_begin(slab) + span);
		held += span;
	}
	HOLDS("pool", record_slabs_held(&lanes->slabs) == held);
	for (struct hwt_record_slab *slab = record_slabs_newest(&lanes->slabs); slab != NULL; slab = slab->next)
		check_slab(lanes, slab, midway);
	HOLDS("G5", midway || lanes->slabs.touched == NULL);
}

#define STATE(name) (1u << STATE_##name)

/* The states that a record may have in each place, if it is in no cancelled queue. */
static const unsigned legal_states[PLACES] = {
	[PLACE_NOWHERE] = 0,
	[PLACE_FREE] = STATE(FREE) | STATE(EXPIRED) | STATE(CANCELLED) | STATE(LAZY),
	/* FREE: a record that has only been an extension. */
	[PLACE_RETURNED] = STATE(FREE) | STATE(EXPIRED) | STATE(CANCELLED) | STATE(LAZY),
	[PLACE_FREE_CHAIN] = STATE(FREE) | STATE(EXPIRED) | STATE(CANCELLED) | STATE(LAZY),
	[PLACE_SUBMITTED] = STATE(QUEUED) | STATE(CANCELLED),
	[PLACE_REARMED] = STATE(QUEUED) | STATE(CANCELLED),
	[PLACE_READY] = STATE(READY) | STATE(CANCELLED),
	[PLACE_WHEEL] = STATE(ARMED) | STATE(LAZY),
	[PLACE_UNPLACED] = STATE(ARMED) | STATE(LAZY),
	[PLACE_BATCH] = STATE(ARMED) | STATE(LAZY),
	[PLACE_UNPROCESSED] = STATE(CANCELLED),
	[PLACE_EXTENSION] = STATE(FREE) | STATE(EXPIRED) | STATE(CANCELLED) | STATE(LAZY),
};

/* Returns true if a record in a queue may have its state, with or without another place. */
static bool is_legal_with_queue(const struct hwt_record *record, enum word_state state, enum hwt_check_place index,
				bool requeued)
{
	if (state != STATE_CANCELLED && !(requeued && state == STATE_ARMED))
		return false;
	return index == PLACE_WHEEL || index == PLACE_UNPLACED || index == PLACE_BATCH ||
	       (index == PLACE_NOWHERE && record->place == 0);
}

/*
 * Returns true if the record may have its state.  After a stop a record that is left has been cancelled and dropped or
 * handed out, or is the extension of such a record; its member `place` is meaningless.
 */
static bool is_legal(const struct hwt_timer *timer, const struct hwt_record *record, enum word_state state,
		     uint8_t mark)
{
	enum hwt_check_place index = mark & PLACE_MASK;

	if (index == PLACE_NOWHERE && state_of(timer) == TIMER_STOPPED)
		return (legal_states[PLACE_EXTENSION] >> state & 1) != 0;
	if ((mark & (IN_CANCELLED | IN_SUBMITTED)) != 0)
		return is_legal_with_queue(record, state, index, (mark & IN_SUBMITTED) != 0);
	return (legal_states[index] >> state & 1) != 0;
}

/* Checks the flags of a record that serves a timeout. */
static void check_flags(uint64_t word, uint8_t mark)
{
	HOLDS("word",
	      !word_has(word, WORD_RESCHEDULING | WORD_REARMED | WORD_LAST)); /* no thread is in a call, no task runs */
	HOLDS("word", !word_has(word, WORD_RESCHEDULE_SEEN) || word_has(word, WORD_RESCHEDULED));
	HOLDS("word", !word_has(word, WORD_PERIODIC) || word_has(word, WORD_EXTENDED));
	HOLDS("word", !word_has(word, WORD_DROPPED) || word_state(word) == STATE_CANCELLED);
	HOLDS("R1", word_has(word, WORD_REQUEUED) == ((mark & IN_SUBMITTED) != 0) || word_has(word, WORD_DROPPED));
}

static bool serves(uint8_t mark)
{
	enum hwt_check_place index = mark & PLACE_MASK;

	return (index >= PLACE_SUBMITTED && index <= PLACE_UNPROCESSED) || (mark & (IN_CANCELLED | IN_SUBMITTED)) != 0;
}

static void check_record(struct hwt_timer *timer, struct hwt_record *record, uint8_t mark, uint64_t *pending,
			 uint64_t *begun)
{
	const struct hwt_record_slab *slab = record_slab_of(record);
	uint64_t word = word_of(record), base = slab->base;
	enum word_state state = word_state(word);

	HOLDS("word", state <= STATE_READY);
	HOLDS("S3", word_generation(word) >= base);
	HOLDS("S3", word_generation(word) <= base + slab->refills + 1);
	HOLDS("word", (word_generation(word) == base) == (state == STATE_FREE));
	HOLDS("R1", is_legal(timer, record, state, mark));
	if (serves(mark))
		check_flags(word, mark);
	if (state != STATE_FREE) {
		const struct hwt_lane *lane = record_lane(record);

		HOLDS("R1",
		      lane != NULL && lane->turn < lanes_count(&timer->lanes) && lane == timer->lanes.made[lane->turn]);
	}
	*pending += state == STATE_QUEUED || state == STATE_ARMED || state == STATE_READY;
	*begun += word_generation(word) - base;
}

/* Calls `found` for each record that was ever carved. */
static void each_record(void (*found)(struct hwt_record *, uint8_t *))
{
	for (size_t i = 0; i < all_records.areas; i++) {
		const struct area *area = &all_records.area[i];
		uint8_t *mark = &all_records.mark[area->first_mark];
		struct hwt_record *record = (struct hwt_record *)(void *)area->begin;

		for (; (char *)record != area->end; record++, mark++)
			if (*mark != PLACE_NOT_CARVED)
				found(record, mark);
	}
}

static void mark_extension(struct hwt_record *record, uint8_t *mark)
{
	if (serves(*mark) && word_has(word_of(record), WORD_EXTENDED))
		put_record(record_second(record), PLACE_EXTENSION);
}

/* Checks R1, then the invariants of lane.h. */
static void check_records(struct hwt_timer *timer, struct hwt_check_counts *counts)
{
	const struct hwt_lanes *lanes = &timer->lanes;
	/* Relaxed: the timer is quiet. */
	int64_t limited = atomic_load_explicit(&lanes->limited, memory_order_relaxed);
	uint64_t pending = 0, begun = 0;
	bool was_given = false;

	for (size_t i = 0; i < all_records.areas; i++) {
		const struct area *area = &all_records.area[i];
		const uint8_t *mark = &all_records.mark[area->first_mark];
		struct hwt_record *record = (struct hwt_record *)(void *)area->begin;

		for (; (char *)record != area->end; record++, mark++) {
			counts->place[*mark & PLACE_MASK]++;
			counts->cancelled += (*mark & IN_CANCELLED) != 0;
			counts->requeued += (*mark & IN_SUBMITTED) != 0;
			if (*mark != PLACE_NOT_CARVED)
				check_record(timer, record, *mark, &pending, &begun);
		}
	}
	for (struct hwt_record_slab *slab = record_slabs_newest(&lanes->slabs); slab != NULL; slab = slab->next)
		was_given |= slab->base > 0;
	HOLDS("L1", hwt_pending_timeouts(timer) == pending);
	/* A slab that was given back has forgotten the begins of its records. */
	HOLDS("L1", was_given || lanes_sum(lanes, accepted) == begun);
	HOLDS("L2", lanes->max_pending == 0 || ((int64_t)pending <= limited && limited <= lanes->max_pending));
	if (state_of(timer) == TIMER_STARTED || state_of(timer) == TIMER_CLOCKED)
		HOLDS("L2", limited == (lanes->max_pending == 0 ? 0 : (int64_t)pending)); /* G4 */
}

/* Checks T1 and T2 of ready.h. */
static void check_ready(const struct hwt_ready *ready)
{
	const struct hwt_record *last = NULL;
	uint64_t count = 0;

	for (struct hwt_record *record = ready->first; record != NULL; last = record, record = record->link) {
		put_record(record, PLACE_READY);
		count++;
	}
	HOLDS("T1", count == 0 || ready->last == last);
	HOLDS("T1", ready->put - ready->taken == count && ready_waiting(ready) == count);
	HOLDS("T2", ready->mark <= ready->put);
}

static void check_stopped(const struct hwt_timer *timer, const struct hwt_check_counts *counts)
{
	for (uint32_t i = 0; i < lanes_count(&timer->lanes); i++)
		HOLDS("L3", timer->lanes.made[i]->closed);
	HOLDS("L3", counts->place[PLACE_SUBMITTED] == 0);
	HOLDS("T4", counts->place[PLACE_READY] == 0);
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
	check_slabs(&timer->lanes, stopped);
	for (uint32_t i = 0; i < lanes_count(&timer->lanes); i++) {
		check_nodes(&timer->lanes.made[i]->submitted);
		check_nodes(&timer->lanes.made[i]->cancelled);
		each_queued(&timer->lanes.made[i]->submitted, timer->lanes.made[i], found_submitted);
	}
	counts->chunks = hwt_check_wheel(timer->wheel, &all_records, stopped, &counts->first);
	HOLDS("P2", worker->batch.at <= worker->batch.end && worker->batch.end <= HWT_BATCH);
	for (size_t i = worker->batch.at; i < worker->batch.end; i++)
		put_record(worker->batch.records[i], PLACE_BATCH);
	for (struct hwt_record *record = timer->unprocessed; record != NULL; record = record->link)
		put_record(record, PLACE_UNPROCESSED);
	/* Relaxed: the timer is quiet. */
	for (struct hwt_record *record = atomic_load_explicit(&timer->lanes.rearmed, memory_order_relaxed);
	     record != NULL; record = record->link)
		put_record(record, PLACE_REARMED);
	if (timer->tasks.count > 0)
		check_ready(&timer->tasks.ready);
	for (uint32_t i = 0; i < lanes_count(&timer->lanes); i++) {
		each_queued(&timer->lanes.made[i]->submitted, timer->lanes.made[i], found_requeued);
		each_queued(&timer->lanes.made[i]->cancelled, timer->lanes.made[i], found_cancelled);
	}
	each_record(mark_extension);
	check_records(timer, counts);
	if (state_of(timer) == TIMER_STOPPED)
		check_stopped(timer, counts);
}

void hwt_check(hwt_timer *timer)
{
	hwt_check_count(timer, NULL);
}

#endif
