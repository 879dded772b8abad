/* SPDX-License-Identifier: BSD-2-Clause */
#include "lane/lane.h"
#include "base/probe.h"

#include <errno.h>

/*
 * The private list is empty: what came home, the rest of the slab, what was cancelled in the queue, what others have, a
 * new slab.
 */
static struct hwt_record *find_record(struct hwt_lane *lane)
{
	struct hwt_pool *pool = &lane->pool;

	pool->free = returned_take_all(&lane->returned);
	if (pool->free == NULL && !slabs_are_used_up(&pool->slabs))
		return pool_carve(pool);
	if (pool->free != NULL || hwt_lane_reclaim(lane) || hwt_lane_steal_records(lane))
		return pool_pop(pool);
	/* Only one look: the worker may make room at any moment, and a refusal has one reason. */
	lane->was_full = hwt_lane_is_full(lane);
	HWT_POINT("full");
	return !lane->was_full && hwt_pool_grow(pool) ? pool_carve(pool) : NULL;
}

bool hwt_lanes_take_limit(struct hwt_lanes *lanes)
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

static inline struct hwt_record *take_record(struct hwt_lane *lane)
{
	struct hwt_record *record = pool_pop(&lane->pool);

	return likely(record != NULL) ? record : find_record(lane);
}

/* All that can fail, before anything is changed for good.  Under the submit lock. */
static inline __attribute__((always_inline)) int prepare(struct hwt_lane *lane, struct hwt_record **record,
							 hwt_node **node)
{
	if (unlikely(lane->closed))
		return ECANCELED;
	*record = take_record(lane);
	if (unlikely(*record == NULL))
		return lane->was_full ? ENOBUFS : ENOMEM;
	*node = lane_node(lane, &lane->submitted);
	if (unlikely(*node == NULL)) {
		pool_push(&lane->pool, *record);
		return ENOMEM;
	}
	if (unlikely(lane->lanes->max_pending > 0) && !hwt_lanes_take_limit(lane->lanes)) {
		queue_node_unused(&lane->submitted, *node);
		pool_push(&lane->pool, *record);
		return ENOBUFS;
	}
	return 0;
}

bool hwt_lane_is_long(const struct hwt_lane *lane)
{
	/* Relaxed: each may be a little old, so the difference may even be negative; the next operation looks again. */
	uint64_t gathered = atomic_load_explicit(&lane->accepted, memory_order_relaxed) +
			    atomic_load_explicit(&lane->requeued, memory_order_relaxed) +
			    atomic_load_explicit(&lane->cancelled_pushed, memory_order_relaxed) -
			    atomic_load_explicit(&lane->reclaimed, memory_order_relaxed) -
			    atomic_load_explicit(&lane->drained_told, memory_order_relaxed);

	return (int64_t)gathered >= HWT_GATHER;
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

/* Accepts what prepare has prepared.  Under the lock. */
static inline __attribute__((always_inline)) void accept(struct hwt_lane *lane, struct hwt_record *record,
							 hwt_node *node, hwt_task *task, void *arg, int64_t deadline_ns,
							 uint64_t flags, hwt_timeout *out)
{
	/* Relaxed: written under the lock only; take's release publishes it, [count]. */
	uint64_t accepted = atomic_load_explicit(&lane->accepted, memory_order_relaxed);
	hwt_timeout timeout;

	atomic_store_explicit(&lane->accepted, accepted + 1, memory_order_relaxed);
	atomic_store_explicit(&record->lane, lane, memory_order_release); /* [made] */
	timeout = record_take(record, task, arg, deadline_ns, flags);
	if (out != NULL)
		*out = timeout;
	HWT_PROBE(schedule, record, deadline_ns);
	queue_push(&lane->submitted, node, record);
}

/* After the lock. */
static inline __attribute__((always_inline)) int notify(const struct hwt_lane *lane, int rc, int64_t deadline_ns)
{
	if (likely(rc == 0))
		notify_submitted(lane, deadline_ns);
	else if (rc == ENOMEM) /* a sleeping worker may have what we need */
		hwt_idle_wake(&lane->lanes->idle, idle_look(&lane->lanes->idle));
	return rc;
}

int hwt_lane_submit(struct hwt_lane *lane, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out)
{
	struct hwt_record *record;
	hwt_node *node;
	int rc;

	queue_lock(&lane->submitted);
	rc = prepare(lane, &record, &node);
	if (likely(rc == 0))
		accept(lane, record, node, task, arg, deadline_ns, 0, out);
	else
		count_refused(lane, rc);
	queue_unlock(&lane->submitted);
	return notify(lane, rc, deadline_ns);
}

/* Under the lock. */
static struct hwt_record *make_extension(struct hwt_lane *lane, const struct hwt_extension *extension,
					 int64_t period_ns)
{
	struct hwt_record *record = take_record(lane);

	if (record == NULL)
		return NULL;
	/* A handle of an earlier life may lead here, but asks only for the timer and the deadline. */
	atomic_store_explicit(&record->lane, lane, memory_order_release); /* [made] */
	record_set_deadline(record, period_ns);
	record->extension = *extension;
	return record;
}

int hwt_lane_submit_extended(struct hwt_lane *lane, hwt_task *task, const struct hwt_extension *extension,
			     int64_t period_ns, int64_t deadline_ns, hwt_timeout *out)
{
	uint64_t flags = WORD_EXTENDED | (period_ns > 0 ? WORD_PERIODIC : 0);
	struct hwt_record *record, *second;
	hwt_node *node;
	int rc;

	queue_lock(&lane->submitted);
	second = make_extension(lane, extension, period_ns);
	rc = prepare(lane, &record, &node);
	if (second == NULL && rc == 0) {
		queue_node_unused(&lane->submitted, node);
		pool_push(&lane->pool, record);
		lanes_release_limit(lane->lanes);
		rc = lane->was_full ? ENOBUFS : ENOMEM;
	} else if (second != NULL && rc != 0) {
		pool_push(&lane->pool, second);
	}
	if (rc == 0)
		accept(lane, record, node, task, second, deadline_ns, flags, out);
	else
		count_refused(lane, rc);
	queue_unlock(&lane->submitted);
	return notify(lane, rc, deadline_ns);
}

void hwt_record_release(struct hwt_record *record)
{
	struct hwt_extension *extension = record_extension(record);
	void (*release)(void *) = extension->release;

	extension->release = NULL;
	if (release != NULL)
		release(extension->arg);
}

void hwt_lane_return_both(struct hwt_lane *lane, struct hwt_record *record)
{
	struct hwt_record *second = record->arg;

	hwt_record_release(record);
	chain_append(&lane->free_chain, second);
	chain_append(&lane->free_chain, record);
}

void hwt_lanes_push_rearmed(struct hwt_lanes *lanes, struct hwt_record *record)
{
	/* Its own lane, not the caller's: a thread that only runs tasks needs none. */
	const struct hwt_lane *lane = record_lane(record);
	int64_t deadline_ns = record_deadline(record);

	stack_push(&lanes->rearmed, record);
	record_end_reschedule(
	    record); /* until now nobody could move it: he would have woken a worker that does not find it */
	notify_submitted(lane, deadline_ns);
}

void hwt_lane_count(struct hwt_lane *lane, struct hwt_lane_counts *counts)
{
	queue_lock(&lane->submitted);
	counts->refused_limit += lane->refused_limit;
	counts->refused_stopped += lane->refused_stopped;
	counts->refused_memory += lane->refused_memory;
	counts->records += lane->pool.records;
	counts->bytes += slabs_bytes(&lane->pool.slabs) + slabs_bytes(&lane->submitted.slabs);
	queue_unlock(&lane->submitted);
	queue_lock(&lane->cancelled);
	counts->bytes += slabs_bytes(&lane->cancelled.slabs);
	queue_unlock(&lane->cancelled);
}
