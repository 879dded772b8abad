/* SPDX-License-Identifier: BSD-2-Clause */
#include "lane.h"
#include "mem.h"

#include <errno.h>

/* After a look at all lanes that found nothing, a lane does not look again for this many submissions. */
#define STEAL_INTERVAL 64

static _Atomic uint64_t last_id;

int hwt_lanes_init(struct hwt_lanes *lanes, hwt_timer *timer, uint32_t count, int64_t max_pending)
{
	int rc;

	/* Relaxed: an id only has to be different. */
	lanes->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
	lanes->timer = timer;
	lanes->count = count;
	lanes->max_pending = max_pending > 0 ? max_pending : 0;
	atomic_init(&lanes->limited, 0);
	rc = hwt_idle_init(&lanes->idle);
	if (rc != 0)
		return rc;
	rc = hwt_await_init(&lanes->await, &lanes->idle);
	if (rc != 0)
		goto no_await;
	lanes->lane = hwt_mem_zeroed(HWT_UNIT, count * sizeof(*lanes->lane));
	if (lanes->lane == NULL) {
		rc = ENOMEM;
		goto no_lane;
	}
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		struct hwt_lane *lane = &lanes->lane[i];

		lane->lanes = lanes;
		atomic_init(&lane->returned, NULL);
		atomic_init(&lane->drained_told, 0);
		atomic_init(&lane->accepted, 0);
		atomic_init(&lane->cancelled_pushed, 0);
		atomic_init(&lane->cancelled_count, 0);
		rc = hwt_queue_init(&lane->submitted);
		if (rc == 0)
			rc = hwt_queue_init(&lane->cancelled);
	}
	if (rc != 0)
		hwt_lanes_destroy(lanes);
	return rc;

no_lane:
	hwt_await_destroy(&lanes->await);
no_await:
	hwt_idle_destroy(&lanes->idle);
	return rc;
}

void hwt_lanes_destroy(struct hwt_lanes *lanes)
{
	for (uint32_t i = 0; i < lanes->count; i++) {
		hwt_queue_destroy(&lanes->lane[i].submitted);
		hwt_queue_destroy(&lanes->lane[i].cancelled);
		hwt_pool_destroy(&lanes->lane[i].pool);
	}
	hwt_mem_free(lanes->lane);
	hwt_await_destroy(&lanes->await);
	hwt_idle_destroy(&lanes->idle);
}

uint64_t hwt_lanes_accepted(const struct hwt_lanes *lanes)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < lanes->count; i++)
		sum += atomic_load_explicit(&lanes->lane[i].accepted,
					    memory_order_relaxed); /* relaxed: the caller orders it, [count] */
	return sum;
}

uint64_t hwt_lanes_cancelled(const struct hwt_lanes *lanes)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < lanes->count; i++)
		sum += atomic_load_explicit(&lanes->lane[i].cancelled_count, memory_order_acquire); /* [count] */
	return sum;
}

_Thread_local uint32_t hwt_own_number;
_Thread_local struct hwt_home hwt_home;

struct hwt_lane *hwt_lanes_find_home(const struct hwt_lanes *lanes)
{
	hwt_home = (struct hwt_home){ lanes->id, lanes_home(lanes) };
	return hwt_home.lane;
}

uint32_t hwt_thread_number_new(void)
{
	static _Atomic uint32_t last;

	/* Relaxed: a number only has to be different.  Zero again after 2^32 threads only costs a second number. */
	hwt_own_number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
	return hwt_own_number;
}

/*
 * What other lanes have free: the chains that came home to them, or the lists of those whose lock can be had at once.
 * Without it records strand as threads come and go, and memory grows towards lanes x peak.
 */
static bool steal_records(struct hwt_lane *thief)
{
	struct hwt_lanes *lanes = thief->lanes;
	uint32_t self = (uint32_t)(thief - lanes->lane);
	/* Relaxed: written under this lock. */
	uint64_t accepted = atomic_load_explicit(&thief->accepted, memory_order_relaxed);

	if (accepted - thief->accepted_at_steal < STEAL_INTERVAL)
		return false;
	for (uint32_t i = 1; i < lanes->count && thief->pool.free == NULL; i++) {
		struct hwt_lane *lane = &lanes->lane[(self + i) & (lanes->count - 1)];

		thief->pool.free = returned_take_all(&lane->returned);
		if (thief->pool.free == NULL && queue_try_lock(&lane->submitted)) {
			thief->pool.free = lane->pool.free;
			lane->pool.free = NULL;
			queue_unlock(&lane->submitted);
		}
	}
	if (thief->pool.free == NULL)
		thief->accepted_at_steal = accepted;
	return thief->pool.free != NULL;
}

/* The private list is empty: what came home, the rest of the slab, what others have, a new slab. */
static struct hwt_record *find_record(struct hwt_lane *lane)
{
	struct hwt_pool *pool = &lane->pool;

	pool->free = returned_take_all(&lane->returned);
	if (pool->free == NULL && pool->carve != pool->carve_end)
		return pool_carve(pool);
	if (pool->free != NULL || steal_records(lane))
		return pool_pop(pool);
	return hwt_pool_grow(pool) ? pool_carve(pool) : NULL;
}

/* Exact: one of those who race for the last place gets it, and a refused one was never counted. */
static bool take_limit(struct hwt_lanes *lanes)
{
	/* Relaxed: a guess, which the exchange checks; that one acquires, [limit]. */
	int64_t limited = atomic_load_explicit(&lanes->limited, memory_order_relaxed);

	do {
		if (limited >= lanes->max_pending)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&lanes->limited, &limited, limited + 1, memory_order_acquire,
							memory_order_relaxed));
	return true;
}

/* All that can fail, before anything is changed for good.  Under the submit lock. */
static int prepare(struct hwt_lane *lane, struct hwt_record **record, hwt_node **node)
{
	if (unlikely(lane->closed))
		return ECANCELED;
	*record = pool_pop(&lane->pool);
	if (*record == NULL)
		*record = find_record(lane);
	if (unlikely(*record == NULL))
		return ENOMEM;
	*node = queue_node(&lane->submitted);
	if (unlikely(*node == NULL)) {
		pool_push(&lane->pool, *record);
		return ENOMEM;
	}
	if (unlikely(lane->lanes->max_pending > 0) && !take_limit(lane->lanes)) {
		queue_node_unused(&lane->submitted, *node);
		pool_push(&lane->pool, *record);
		return ENOBUFS;
	}
	return 0;
}

/* Has much gathered in the queues since the worker last took what was there? */
static bool is_long(const struct hwt_lane *lane)
{
	/* Relaxed: each may be a little old, so the difference may even be negative; the next operation looks again. */
	uint64_t gathered = atomic_load_explicit(&lane->accepted, memory_order_relaxed) +
			    atomic_load_explicit(&lane->cancelled_pushed, memory_order_relaxed) -
			    atomic_load_explicit(&lane->drained_told, memory_order_relaxed);

	return (int64_t)gathered >= HWT_GATHER;
}

/* After a push: wakes the worker if it sleeps and has to know of a deadline, or of how much there is. */
static inline void notify_submitted(const struct hwt_lane *lane, int64_t deadline_ns)
{
	struct hwt_idle *idle = &lane->lanes->idle;
	int64_t seen_ns = idle_look(idle);

	if (unlikely(seen_ns != IDLE_AWAKE) && (deadline_ns <= seen_ns || is_long(lane)))
		hwt_idle_wake(idle, seen_ns);
}

static __attribute__((noinline)) int wake_if_long(const struct hwt_lane *lane, int64_t seen_ns)
{
	if (is_long(lane))
		hwt_idle_wake(&lane->lanes->idle, seen_ns);
	return 0;
}

/* The same after a cancellation has been pushed.  0, so that hwt_lane_cancel can end with it. */
static inline int notify_cancelled(const struct hwt_lane *lane)
{
	int64_t seen_ns = idle_look(&lane->lanes->idle);

	return likely(seen_ns == IDLE_AWAKE) ? 0 : wake_if_long(lane, seen_ns);
}

static void count_refused(struct hwt_lane *lane, int rc)
{
	if (rc == ENOBUFS)
		lane->refused_limit++;
	else if (rc == ECANCELED)
		lane->refused_stopped++;
	else
		lane->refused_memory++;
}

int hwt_lane_submit(struct hwt_lane *lane, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out)
{
	struct hwt_record *record;
	hwt_timeout timeout;
	hwt_node *node;
	int rc;

	queue_lock(&lane->submitted);
	rc = prepare(lane, &record, &node);
	if (likely(rc == 0)) {
		/* Relaxed: written under the lock only; take's release publishes it, [count]. */
		uint64_t accepted = atomic_load_explicit(&lane->accepted, memory_order_relaxed);

		atomic_store_explicit(&lane->accepted, accepted + 1, memory_order_relaxed);
		atomic_store_explicit(&record->lane, lane, memory_order_relaxed);
		timeout = record_take(record, task, arg, deadline_ns);
		if (out != NULL)
			*out = timeout;
		queue_push(&lane->submitted, node, record);
	}
	if (unlikely(rc != 0))
		count_refused(lane, rc);
	queue_unlock(&lane->submitted);
	if (likely(rc == 0))
		notify_submitted(lane, deadline_ns);
	else if (rc == ENOMEM) /* a sleeping worker may have what we need */
		hwt_idle_wake(&lane->lanes->idle, idle_look(&lane->lanes->idle));
	return rc;
}

static void push_cancelled(struct hwt_lane *lane, hwt_node *node, struct hwt_record *record)
{
	/* Relaxed: written under the lock. */
	uint64_t pushed = atomic_load_explicit(&lane->cancelled_pushed, memory_order_relaxed);

	atomic_store_explicit(&lane->cancelled_pushed, pushed + 1, memory_order_relaxed);
	queue_push(&lane->cancelled, node, record);
}

static inline void count_cancelled(struct hwt_lane *lane)
{
	/* In this order, or a new one could be counted before this one is not: L2. */
	atomic_fetch_add_explicit(&lane->cancelled_count, 1, memory_order_release); /* [count] */
	lanes_release_limit(lane->lanes);
}

/* The node comes first: once the word says cancelled the worker counts on the push. */
static bool cancel_armed(struct hwt_lane *lane, struct hwt_record *record, uint64_t *word)
{
	hwt_node *node;
	bool won;

	queue_lock(&lane->cancelled);
	node = queue_node(&lane->cancelled);
	won = record_edge(record, word, node != NULL ? STATE_CANCELLED : STATE_LAZY);
	if (node != NULL) {
		if (won)
			push_cancelled(lane, node, record);
		else
			queue_node_unused(&lane->cancelled, node);
	}
	queue_unlock(&lane->cancelled);
	return won;
}

/* Whatever the word says, and whoever else is there. */
static __attribute__((noinline)) int cancel_slowly(struct hwt_lane *lane, struct hwt_record *record,
						   uint64_t generation)
{
	uint64_t word = record_word(record);
	bool won = false;

	while (!won) {
		if (word_generation(word) != generation)
			return ENOENT;
		if (word_state(word) == STATE_QUEUED)
			won = record_edge(record, &word, STATE_CANCELLED);
		else if (word_state(word) == STATE_ARMED)
			won = cancel_armed(lane, record, &word);
		else
			return word_state(word) == STATE_RUNNING ? EBUSY : ENOENT;
	}
	count_cancelled(lane);
	return notify_cancelled(lane);
}

/* cancel_armed where nobody holds the lock and a node has come back.  false: nothing was done. */
static inline bool cancel_armed_at_once(struct hwt_lane *lane, struct hwt_record *record, uint64_t word)
{
	hwt_node *node;
	bool won = false;

	HWT_POINT("lock");
	if (unlikely(!queue_try_lock(&lane->cancelled)))
		return false;
	node = queue_recycled(&lane->cancelled);
	if (likely(node != NULL)) {
		won = record_edge(record, &word, STATE_CANCELLED);
		if (likely(won))
			push_cancelled(lane, node, record);
		else
			queue_node_unused(&lane->cancelled, node);
	}
	queue_unlock(&lane->cancelled);
	return won;
}

/*
 * The common cases without a call and in few instructions: the record is most often far away, and what the processor
 * can do until it is here ends with its window of some 200, which is to reach the next record.
 */
int hwt_lane_cancel(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation)
{
	uint64_t word = record_word(record);

	if (likely(word == word_make(generation, STATE_ARMED))) {
		if (likely(cancel_armed_at_once(lane, record, word))) {
			count_cancelled(lane);
			return notify_cancelled(lane);
		}
	} else if (word == word_make(generation, STATE_QUEUED) && record_edge(record, &word, STATE_CANCELLED)) {
		count_cancelled(lane);
		return 0;
	}
	return cancel_slowly(lane, record, generation);
}

void hwt_lane_count(struct hwt_lane *lane, struct hwt_lane_tally *tally)
{
	queue_lock(&lane->submitted);
	tally->refused_limit += lane->refused_limit;
	tally->refused_stopped += lane->refused_stopped;
	tally->refused_memory += lane->refused_memory;
	tally->records += lane->pool.records;
	tally->bytes += lane->pool.bytes + lane->submitted.bytes;
	queue_unlock(&lane->submitted);
	queue_lock(&lane->cancelled);
	tally->bytes += lane->cancelled.bytes;
	queue_unlock(&lane->cancelled);
}

void hwt_lane_close(struct hwt_lane *lane)
{
	queue_lock(&lane->submitted);
	lane->closed = true;
	queue_unlock(&lane->submitted);
}

bool hwt_lanes_are_empty(struct hwt_lanes *lanes)
{
	for (uint32_t i = 0; i < lanes->count; i++)
		if (!queue_is_empty(&lanes->lane[i].submitted) || !queue_is_empty(&lanes->lane[i].cancelled))
			return false;
	return true;
}
