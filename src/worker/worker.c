/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a tick.  hwt_worker_run goes around these steps:
 *
 *   1  transfer        pops the submitted queues, 32 records at a time so that their cache lines arrive together.
 *                      QUEUED becomes ARMED, and the wheel places the record.
 *   2  expire goes from one tick to the next at which anything is due.  At each it collects up to 256 records.  For
 *                      each it turns ARMED into RUNNING, counts, calls the task and stores EXPIRED.  It collects again
 *                      until no record is due: timeouts that tasks schedule go to the lanes, so this comes to an end.
 *   3  cancel          pops the cancelled queues, and unlinks the records from the wheel.
 *   4  return_records returns the records that ended in this pass to their slabs.
 *   5  rest sleeps to the next tick (nap), or until a timeout is due or a producer wakes the worker (idle).
 *
 * Meanwhile producers push, cancel and move.  They touch queues and state words, never the wheel.  This file, and
 * expire.c for step 2, have the fast paths, for records whose word has no flag: one exchange on the exact word decides
 * each race.  A record whose exchange fails goes to worker_slow.c.
 */
#include "worker/worker.h"
#include "worker/trim.h"
#include "lane/submit.h"

/* How many records are popped at once: their cache lines arrive while the first records are handled. */
#define DRAIN_BATCH HWT_PLACE_MAX

int hwt_worker_init(struct hwt_worker *worker, struct hwt_lanes *lanes, struct hwt_wheel *wheel,
		    const hwt_config *config)
{
	*worker = (struct hwt_worker){
		.lanes = lanes,
		.waiters = &lanes->waiters,
		.wheel = wheel,
		.clock = config->clock,
		.intake = { .max_transfers = config->max_transfers_per_tick },
		.traffic = { .tick = -1 },
		.bound = { .runs_max = UINT64_MAX },
	};
	return hwt_monitor_init(&worker->trimming.monitor);
}

void hwt_worker_destroy(struct hwt_worker *worker)
{
	hwt_monitor_destroy(&worker->trimming.monitor);
}

void hwt_worker_request_stop(struct hwt_worker *worker)
{
	/*
	 * `stop` is stored before the wake: a worker that the wake reaches before it sleeps reads `stop` and does not
	 * sleep.
	 */
	atomic_store_explicit(&worker->stop, true, memory_order_release); /* [stop] */
	hwt_idle_stop(&worker->lanes->idle);
	hwt_trimming_end(worker);
}

/*
 * Arms and places popped records.
 *
 * record_arm races with a cancel, which would leave CANCELLED, and with a mover, which would leave RESCHEDULED.
 * Between the arm and the placing a record is ARMED and not in the wheel.  A cancel in this gap pushes it on
 * `cancelled`, a mover to an earlier time on `submitted`.  This thread pops both queues, and so it does after the
 * placing.  A mover to a later time writes only the deadline.  Whether the placing reads the old or the new one,
 * RESCHEDULED makes the worker check again when the record comes up.
 */
static void transfer_batch(struct hwt_worker *worker, struct hwt_record **batch, size_t n)
{
	size_t armed = 0;
	uint64_t word;

	for (size_t i = 0; i < n; i++) {
		struct hwt_record *record = batch[i];

		batch[armed] = record; /* kept if `armed` is incremented */
		if (likely(record_arm(record, &word)))
			armed++;
		else if (likely(word_is_plain(word, STATE_CANCELLED))) /* cancelled while it was queued: in no wheel */
			record_slab_chain(record);
		else
			armed += hwt_worker_take_slow(worker, record);
	}
	hwt_wheel_place(worker->wheel, batch, armed);
}

/*
 * Takes cancelled records out of the wheel and returns them.  Not while there is a batch: the places of its members are
 * stale (P3).  A record that was due and found cancelled is not in the wheel any more, and has place 0.
 */
static void cancel_batch(struct hwt_worker *worker, struct hwt_record **batch, size_t n)
{
	/* The records are in the cache or on their way.  Now prefetch the chunks to which their places point. */
	for (size_t i = 0; i < n; i++)
		hwt_wheel_prefetch(batch[i]);
	for (size_t i = 0; i < n; i++)
		if (likely(hwt_wheel_remove(worker->wheel, batch[i])))
			lane_return(batch[i]);
}

/* Pops up to max records of a queue, prefetches them, and adds their number to *taken.  Returns their number. */
static size_t pop_batch(struct hwt_queue *queue, _Atomic uint64_t *taken, struct hwt_record **batch, size_t max)
{
	size_t n = 0;

	while (n < max && (batch[n] = queue_pop(queue)) != NULL)
		record_prefetch(batch[n++]);
	/* Relaxed: only the worker writes it. */
	atomic_store_explicit(taken, atomic_load_explicit(taken, memory_order_relaxed) + n, memory_order_relaxed);
	return n;
}

/* Arms and places the records that executors' threads have pushed to run again. */
static void transfer_rearmed(struct hwt_worker *worker)
{
	struct hwt_record *record;

	while ((record = worker_next_rearmed(worker)) != NULL) {
		record->place = 0; /* the link of the stack shares its memory */
		transfer_batch(worker, &record, 1);
	}
}

/* The two kinds of operations that wait in a lane. */
enum side { NEW, CANCELS };

/* Takes in at most `most` operations of one side of a lane.  Returns their number. */
static uint64_t drain(struct hwt_worker *worker, struct hwt_lane *lane, enum side side, uint64_t most)
{
	struct hwt_queue *queue = side == NEW ? &lane->submitted : &lane->cancelled;
	_Atomic uint64_t *taken = side == NEW ? &lane->taken : &lane->unlinked;
	struct hwt_record *batch[DRAIN_BATCH];
	uint64_t left = most;
	size_t n;

	HWT_POINT("queue look");
	/* A push that comes after this check waits for the next pass, or wakes the worker. */
	while (left > 0 && !queue_is_empty(queue)) {
		/* Relaxed: a hint. */
		if (unlikely(atomic_load_explicit(&worker->lanes->slabs.wanted, memory_order_relaxed)))
			hwt_pool_prepare(&worker->lanes->slabs);
		n = pop_batch(queue, taken, batch, left < DRAIN_BATCH ? (size_t)left : DRAIN_BATCH);
		left -= n;
		if (side == CANCELS)
			cancel_batch(worker, batch, n);
		else
			transfer_batch(worker, batch, n);
	}
	worker->traffic.transferred += most - left;
	worker->intake.backlog += most - left;
	return most - left;
}

/*
 * Goes once around the lanes, and takes in at most `share` operations of each.  Returns how many lanes used their share
 * up.
 */
static uint32_t drain_shares(struct hwt_worker *worker, enum side side, uint32_t share, uint32_t *budget)
{
	uint32_t count = lanes_count(worker->lanes), busy = 0, *next = &worker->intake.next_lane[side];

	for (uint32_t i = 0; *budget > 0 && i < count; i++) {
		struct hwt_lane *lane = worker->lanes->made[*next];
		uint32_t part = share < *budget ? share : *budget;
		uint32_t taken = (uint32_t)drain(worker, lane, side, part);

		*next = *next + 1 < count ? *next + 1 : 0;
		*budget -= taken;
		busy += taken == part;
	}
	return busy;
}

/*
 * Takes in operations of one side of all lanes.  Returns true if the budget was used up.
 *
 * Each lane has the same share of a pass, and the other lanes share what some leave.  So a lane that refills as fast as
 * it is drained keeps no other lane waiting: the operations of the others, up to their share, are taken in with the
 * next pass.
 */
static bool drain_lanes(struct hwt_worker *worker, enum side side, uint32_t budget)
{
	uint32_t busy = lanes_count(worker->lanes);

	while (busy > 0 && budget > 0)
		busy = drain_shares(worker, side, budget > busy ? budget / busy : 1, &budget);
	return budget == 0;
}

/*
 * Takes in each lane up to its length at this moment, so that this comes to an end.  All timeouts accepted before can
 * then run in order.
 */
static void transfer_all(struct hwt_worker *worker)
{
	worker->intake.takes_all = false;
	for (uint32_t i = 0; i < lanes_count(worker->lanes); i++)
		(void)drain(worker, worker->lanes->made[i], NEW, lane_waiting(worker->lanes->made[i]));
}

/* Returns how many operations of a pass are reserved for cancels: as many as wait, but at most half. */
static uint32_t kept_for_cancels(const struct hwt_worker *worker)
{
	const struct hwt_intake *intake = &worker->intake;
	/* If the number is odd, both sides take turns with the last operation. */
	uint32_t half = intake->max_transfers / 2 + (uint32_t)(intake->max_transfers & intake->passes & 1);
	uint64_t waits = 0;

	for (uint32_t i = 0; i < lanes_count(worker->lanes); i++)
		waits += lane_waiting_cancels(worker->lanes->made[i]);
	return waits < half ? (uint32_t)waits : half;
}

/* Takes in the records that producers have submitted.  Returns true if more may wait than fits in a pass. */
static bool transfer(struct hwt_worker *worker, uint32_t budget)
{
	hwt_wheel_retry_unplaced(worker->wheel);
	transfer_rearmed(worker);
	if (likely(!worker->intake.takes_all))
		return drain_lanes(worker, NEW, budget);
	transfer_all(worker);
	return false;
}

/*
 * Takes in cancels: as many as fit in the pass beside the operations that it has taken in so far, and at least `kept`.
 * Returns true if more may wait.
 */
static bool cancel(struct hwt_worker *worker, uint32_t kept)
{
	const struct hwt_intake *intake = &worker->intake;
	uint64_t rest = intake->backlog < intake->max_transfers ? intake->max_transfers - intake->backlog : 0;

	return drain_lanes(worker, CANCELS, rest > kept ? (uint32_t)rest : kept);
}

/* Returns the records that ended in this pass to their slabs.  From then on producers may take them. */
static void return_records(struct hwt_worker *worker)
{
	if (worker->lanes->slabs.touched != NULL)
		hwt_record_slabs_flush(&worker->lanes->slabs);
	for (uint32_t i = 0; i < lanes_count(worker->lanes); i++)
		lane_tell_drained(worker->lanes->made[i]);
}

/*
 * transfer comes before expire, so that a timeout accepted before a tick runs at this tick, in the order of acceptance
 * (G3).  cancel comes after expire, when no batch is left (P3).
 *
 * Under a constant load the bound may cut each pass.  So cancels are also taken in after the end of a cut tick.
 */
static bool make_pass(struct hwt_worker *worker, int64_t passed, int64_t now_ns)
{
	uint32_t kept;
	bool more;

	if (unlikely(worker->bound.is_cut)) {
		if (!hwt_worker_resume(worker, passed, now_ns))
			return false;
		(void)cancel(worker, 0);
	}
	kept = kept_for_cancels(worker);
	more = transfer(worker, worker->intake.max_transfers - kept);
	/*
	 * If a stop or the bound has left a batch, its places are stale: the cancel of a member must not use them (P3).
	 */
	if (!hwt_worker_expire(worker, passed, now_ns))
		return false;
	return cancel(worker, kept) || more;
}

/* return_records comes last, also in a pass that was cut. */
bool hwt_worker_pass(struct hwt_worker *worker, int64_t now_ns)
{
	int64_t passed = grid_ticks_passed(&worker->wheel->grid, now_ns);
	bool more;

	if (passed != worker->traffic.tick) {
		worker->traffic.tick = passed;
		worker->traffic.transferred = 0;
		worker->traffic.idle_looks = 0;
	}
	worker->intake.passes++;
	worker->intake.backlog = 0;
	if (unlikely(worker->clock == HWT_CLOCK_REALTIME) && passed + 1 < worker->wheel->tick)
		hwt_worker_go_back(worker, passed);
	more = make_pass(worker, passed, now_ns);
	return_records(worker);
	counts_add(&worker->counts.transfers, worker->intake.backlog);
	counts_max(&worker->counts.backlog_max, worker->intake.backlog);
	return more;
}
