/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the harnesses that need a timer without its threads: the rooms lane/ and worker/ as they are, one lane with some
 * records and nodes at hand, and a worker.  Three parts are replaced: a slab with a few records, a wheel for one
 * record, and a sleeper that only notes the wake.
 */
#ifndef HWT_WEAK_LANE_H
#define HWT_WEAK_LANE_H

#include "weak.h"

#define HWT_NO_PROBES
#include "slab.h"
#include "base/idle.c"
#include "lane/queue.c"
#include "lane/submit.c"
#include "lane/lanes.c"
#include "lane/cancel.c"
#include "lane/reschedule.c"
#include "lane/find.c"
#include "lane/pool.c"
#include "lane/record_slab.c"
#include "worker/counts.c"
#include "worker/expire.c"
#include "worker/worker.c"
#include "worker/worker_slow.c"

HWT_OWN uint32_t hwt_own_number;

#define LANE_NODES 3
#define LANE_TICK_NS 1000

static struct hwt_lanes lanes;
static struct hwt_lane lane, *made[1] = { &lane };
static hwt_node nodes[2][LANE_NODES];
static struct hwt_worker worker;

/* The wheel: at most one record, at the tick that its deadline had when it was placed. */
static struct hwt_wheel wheel;
static struct hwt_record *placed, *postponed;
static int64_t placed_tick;

void hwt_wheel_place(struct hwt_wheel *unused, struct hwt_record *const *batch, size_t n)
{
	if (n > 0) {
		assert(n == 1 && placed == NULL);
		placed = batch[0];
		placed->place = 1;
		placed_tick = grid_tick_of(&unused->grid, record_deadline(placed));
	}
}

void hwt_wheel_postpone(struct hwt_wheel *unused, struct hwt_record *record)
{
	(void)unused;
	assert(postponed == NULL);
	record->place = 1;
	postponed = record;
}

void hwt_wheel_hold(struct hwt_wheel *wheel, struct hwt_record *record)
{
	hwt_wheel_postpone(wheel, record);
}

void hwt_wheel_end_hold(struct hwt_wheel *unused)
{
	(void)unused;
}

void hwt_wheel_retry_unplaced(struct hwt_wheel *unused)
{
	(void)unused;
}

void hwt_wheel_prefetch(const struct hwt_record *record)
{
	(void)record;
}

bool hwt_wheel_take_out(struct hwt_wheel *unused, struct hwt_record *record)
{
	(void)unused;
	if (record->place != 0) {
		assert((placed == record) != (postponed == record));
		placed = postponed = NULL;
		record->place = 0;
	}
	return true;
}

bool hwt_wheel_remove(struct hwt_wheel *unused, struct hwt_record *record)
{
	return hwt_wheel_take_out(unused, record);
}

size_t hwt_wheel_collect(struct hwt_wheel *unused, struct hwt_record **due, size_t max)
{
	(void)max;
	(void)unused;
	if (placed == NULL || placed_tick > worker.tick)
		return 0;
	due[0] = placed;
	placed = NULL;
	return 1;
}

/* The sleeper. */
static bool woken; /* written by the thread that claims the wake */
static int64_t alarm_ns;

void hwt_sleeper_wake(struct hwt_sleeper *sleeper)
{
	(void)sleeper;
	assert(alarm_ns == 9 || alarm_ns == 0);
	woken = true;
}

int hwt_sleeper_set_alarm(struct hwt_sleeper *sleeper, int64_t time_ns)
{
	(void)sleeper;
	alarm_ns = time_ns;
	return 0;
}

/* Memory: a lane gets no more, unless a harness has the slab given back. */
bool hwt_mem_refused(void)
{
#ifdef WEAK_GIVES_BACK
	return false;
#else
	return true;
#endif
}

void *hwt_mem_block(size_t align, size_t size)
{
	(void)align;
	(void)size;
	return NULL;
}

void hwt_mem_want_huge(void *memory, size_t size, bool huge)
{
	(void)memory;
	(void)size;
	(void)huge;
}

void hwt_mem_populate(void *memory, size_t size)
{
	(void)memory;
	(void)size;
}

#ifndef WEAK_GIVES_BACK
bool hwt_mem_give_back(void *memory, size_t size)
{
	(void)memory;
	(void)size;
	return false;
}
#endif

void hwt_mem_zero(void *memory, size_t size)
{
	(void)memory;
	(void)size;
}

static inline void queue_make(struct hwt_queue *queue, hwt_node *node)
{
	ck_fifo_spsc_init(&queue->fifo, &node[0]);
	for (unsigned i = 1; i < LANE_NODES; i++)
		queue_node_unused(queue, &node[i]);
}

/* Makes lane and worker, before any thread starts.  The lane has the first `n` records. */
static inline void lane_make(unsigned n)
{
	lanes.made = made;
	atomic_init(&lanes.count, 1);
	atomic_init(&lanes.idle.wake_for_ns, IDLE_AWAKE);
	atomic_init(&lanes.hurry_ns, INT64_MAX);
	lane.lanes = &lanes;
	queue_make(&lane.submitted, nodes[0]);
	queue_make(&lane.cancelled, nodes[1]);
	slab_make(&lanes.slabs, n);
	lane.pool.slabs = &lanes.slabs; /* the checker reads no assignment of a whole structure */
	lane.pool.owner = &lane;
	(void)hwt_record_slab_claim(&slab, &lane);
	adopt(&lane.pool, &slab);
	wheel.grid = grid_make(0, LANE_TICK_NS);
	/* As with membarrier: no fence of a producer or of the worker may help the protocol under test. */
	lanes.idle.has_barrier = lanes.waiters.has_barrier = true;
	worker.lanes = &lanes;
	worker.wheel = &wheel;
	worker.waiters = &lanes.waiters;
	worker.intake.max_transfers = 2;
	worker.bound.runs_max = UINT64_MAX;
}

/* Makes a pass of the worker at a tick, without the sleep. */
static inline void lane_pass(int64_t tick)
{
	struct hwt_record *again = postponed;
	uint32_t kept;

	postponed = NULL;
	hwt_wheel_place(&wheel, &again, again != NULL);
	worker.tick = tick;
	worker_set_lateness(&worker, tick * LANE_TICK_NS);
	kept = kept_for_cancels(&worker);
	(void)transfer(&worker, (uint32_t)worker.intake.max_transfers - kept);
	assert(worker.batch.at == worker.batch.end);
	(void)expire_tick(&worker);
	(void)cancel(&worker, kept);
	return_records(&worker);
}

#endif
