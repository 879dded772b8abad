/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/worker.h"
#include "worker/worker_slow.h"
#include "base/probe.h"

/* How many records are taken from a queue at once, so that their lines are on the way while the others are handled. */
#define DRAIN_BATCH HWT_PLACE_MAX

/* How far ahead of the running task the records are fetched. */
#define RUN_AHEAD 8

void hwt_worker_init(struct hwt_worker *worker, struct hwt_lanes *lanes, struct hwt_wheel *wheel,
		     uint32_t max_transfers)
{
	worker->lanes = lanes;
	worker->waiters = &lanes->waiters;
	worker->wheel = wheel;
	worker->max_transfers = max_transfers;
	worker->next_lane = 0;
	worker->batch_at = worker->batch_end = 0;
	worker->rearmed = NULL;
	worker->tick = worker->mark_tick = 0;
	worker->is_behind = worker->was_held_up = worker->takes_late = worker->has_late = false;
	worker->traffic_tick = -1;
	worker->transferred = 0;
	worker->idle_looks = 0;
	worker->jobs = NULL;
	worker->passes = 0;
	worker->backlog = 0;
	worker->lateness_ns = 0;
	worker->is_told = worker->is_cut = false;
	worker->runs_max = UINT64_MAX;
	worker->late_last = NULL;
	atomic_init(&worker->expired, 0);
	atomic_init(&worker->stop, false);
}

void hwt_worker_request_stop(struct hwt_worker *worker)
{
	atomic_store_explicit(&worker->stop, true, memory_order_release); /* [stop] */
	hwt_idle_stop(&worker->lanes->idle);
}

static void transfer_batch(struct hwt_worker *worker, struct hwt_record **batch, size_t n)
{
	size_t armed = 0;
	uint64_t word;

	for (size_t i = 0; i < n; i++) {
		struct hwt_record *record = batch[i];

		batch[armed] = record; /* if it is to be placed */
		if (likely(record_arm(record, &word)))
			armed++;
		else if (likely(word_is_plain(word, STATE_CANCELLED))) /* while it was queued */
			chain_append(&record_lane(record)->free_chain, record);
		else
			armed += hwt_worker_take_slow(worker, record);
	}
	if (unlikely(worker->takes_late))
		armed = hwt_worker_put_off_late(worker, batch, armed);
	hwt_wheel_place(worker->wheel, batch, armed);
}

static void cancel_batch(struct hwt_worker *worker, struct hwt_record **batch, size_t n)
{
	/* The records are here or on their way; now what they point at. */
	for (size_t i = 0; i < n; i++)
		hwt_wheel_prefetch(worker->wheel, batch[i]);
	for (size_t i = 0; i < n; i++)
		if (likely(hwt_wheel_remove(worker->wheel, batch[i])))
			lane_return(batch[i]);
}

/*
 * Up to max records of a queue, and *taken goes up by as many; their lines are asked for.  0 also if a producer that
 * reclaims does not get done.
 */
static size_t pop_batch(struct hwt_worker *worker, struct hwt_queue *queue, _Atomic uint64_t *taken,
			struct hwt_record **batch, size_t max)
{
	size_t n = 0;

	if (unlikely(!queue_begin_consume(queue))) {
		worker->was_held_up = true;
		return 0;
	}
	while (n < max && (batch[n] = queue_pop(queue)) != NULL)
		record_prefetch(batch[n++]);
	/* Relaxed: the consumer's. */
	atomic_store_explicit(taken, atomic_load_explicit(taken, memory_order_relaxed) + n, memory_order_relaxed);
	queue_end_consume(queue);
	return n;
}

/* Empties a queue as far as *budget goes. */
static void drain(struct hwt_worker *worker, struct hwt_queue *queue, _Atomic uint64_t *taken,
		  void (*handle)(struct hwt_worker *, struct hwt_record **, size_t), uint32_t *budget)
{
	struct hwt_record *batch[DRAIN_BATCH];

	while (*budget > 0) {
		size_t n = pop_batch(worker, queue, taken, batch, *budget < DRAIN_BATCH ? *budget : DRAIN_BATCH);

		if (n == 0)
			return;
		handle(worker, batch, n);
		*budget -= (uint32_t)n;
		worker->transferred += n;
		worker->backlog += n;
	}
}

static void transfer_rearmed(struct hwt_worker *worker)
{
	struct hwt_record *record;

	while ((record = worker_next_rearmed(worker)) != NULL) {
		record->place = 0;
		transfer_batch(worker, &record, 1);
	}
}

/* Goes around the lanes, which get at most `share` each.  Returns how many used theirs up. */
static uint32_t transfer_shares(struct hwt_worker *worker, uint32_t share, uint32_t *budget)
{
	uint32_t count = lanes_count(worker->lanes), busy = 0;

	for (uint32_t i = 0; *budget > 0 && i < count; i++) {
		struct hwt_lane *lane = worker->lanes->made[worker->next_lane];
		uint32_t part = share < *budget ? share : *budget, left;

		worker->next_lane = worker->next_lane + 1 < count ? worker->next_lane + 1 : 0;
		if (queue_is_empty(&lane->submitted))
			continue;
		if (unlikely(worker->is_behind))
			part = hwt_worker_late_part(worker, lane, part);
		left = part;
		drain(worker, &lane->submitted, &lane->taken, transfer_batch, &left);
		*budget -= part - left;
		busy += left == 0;
	}
	return busy;
}

/*
 * All lanes have the same share of a pass, and what some do not use is shared by the others.  So a lane that refills as
 * fast as it is drained keeps nobody waiting: what the others have, up to their share, comes with the next pass.
 *
 * Returns true if the budget was used up.
 */
static bool transfer(struct hwt_worker *worker)
{
	uint32_t budget = worker->max_transfers, busy = lanes_count(worker->lanes);

	hwt_wheel_retry_unplaced(worker->wheel);
	transfer_rearmed(worker);
	while (busy > 0 && budget > 0)
		busy = transfer_shares(worker, budget > busy ? budget / busy : 1, &budget);
	worker->takes_late = false;
	return budget == 0;
}

/* The same for cancellations.  Each lane has a budget: what they free must not wait behind another's. */
static bool cancel(struct hwt_worker *worker)
{
	bool more = false;

	for (uint32_t i = 0; i < lanes_count(worker->lanes); i++) {
		struct hwt_lane *lane = worker->lanes->made[i];
		uint32_t budget = worker->max_transfers;

		drain(worker, &lane->cancelled, &lane->unlinked, cancel_batch, &budget);
		more |= budget == 0;
	}
	return more;
}

static void return_records(struct hwt_worker *worker)
{
	for (uint32_t i = 0; i < lanes_count(worker->lanes); i++) {
		lane_splice_returned(worker->lanes->made[i]);
		lane_tell_drained(worker->lanes->made[i]);
	}
}

/* Runs the task of a record whose word has no flags. */
static void expire_plain(struct hwt_worker *worker, struct hwt_record *record, uint64_t word)
{
	worker_count_expired(worker);
	if (!worker_run_task(worker, record, word, record_deadline(record), &record->arg))
		return;
	if (unlikely(!record_finish(record, word_with_state(word, STATE_RUNNING)))) {
		hwt_worker_end_slow(worker, record);
		return;
	}
	waiters_look(worker->waiters);
	worker_count_finished(worker);
	chain_append(&record_lane(record)->free_chain, record);
}

static void expire_one(struct hwt_worker *worker, struct hwt_record *record)
{
	uint64_t word;

	if (likely(record_run(record, &word)))
		expire_plain(worker, record, word);
	else
		hwt_worker_expire_slow(worker, record);
}

static bool collect_batch(struct hwt_worker *worker)
{
	worker->batch_at = 0;
	worker->batch_end = hwt_wheel_collect(worker->wheel, worker->batch, worker_room(worker));
	for (size_t i = 0; i < RUN_AHEAD && i < worker->batch_end; i++)
		record_prefetch(worker->batch[i]);
	return worker->batch_end > 0;
}

/* The next record of the batch, which is not empty; one further on is asked for. */
static struct hwt_record *next_of_batch(struct hwt_worker *worker)
{
	if (worker->batch_at + RUN_AHEAD < worker->batch_end)
		record_prefetch(worker->batch[worker->batch_at + RUN_AHEAD]);
	return worker->batch[worker->batch_at++];
}

/* What stop leaves in the batch is given back by hwt_worker_next_unprocessed. */
static void run_batch(struct hwt_worker *worker)
{
	while (worker->batch_at < worker->batch_end && !worker_has_to_stop(worker))
		expire_one(worker, next_of_batch(worker));
}

/* Runs what is due at the wheel's tick.  false: stopped or cut in the middle, with a batch left. */
static bool expire_tick(struct hwt_worker *worker)
{
	worker->is_cut = false;
	do
		run_batch(worker);
	while (!worker_has_to_stop(worker) && collect_batch(worker) && !(worker->is_cut = worker_is_full(worker)));
	return !worker_has_to_stop(worker) && !worker->is_cut;
}

/* Runs what is late: all that has been put off in this pass up to now.  false: as above. */
static bool expire_late(struct hwt_worker *worker, int64_t now_ns)
{
	struct hwt_record *last = worker->is_cut ? worker->late_last : worker->wheel->postponed.last;
	int64_t began_ns = hwt_clock_now();

	worker->has_late = false;
	worker->late_last = last;
	worker->tick = worker->wheel->tick - 1;
	worker->lateness_ns = worker->is_told ? now_ns : began_ns;
	do {
		worker->is_cut = worker_is_full(worker);
		if (unlikely(worker->is_cut))
			return false;
		worker->batch_at = 0;
		worker->batch_end = hwt_wheel_take_postponed(worker->wheel, worker->batch, worker_room(worker), last);
		run_batch(worker);
	} while (!worker_has_to_stop(worker) && worker->batch[worker->batch_end - 1] != last);
	counts_max(&worker->counts.tick_max_ns, (uint64_t)(hwt_clock_now() - began_ns));
	if (worker_has_to_stop(worker))
		return false;
	worker->late_last = NULL;
	hwt_wheel_end_tick(worker->wheel);
	return true;
}

/* Runs the wheel's tick, or what is left of it, and goes on to the next.  *began_ns: when.  false: as above. */
static bool expire_one_tick(struct hwt_worker *worker, int64_t now_ns, int64_t *began_ns)
{
	struct hwt_wheel *wheel = worker->wheel;
	bool was_cut = worker->is_cut;
	uint64_t runs = worker_runs(worker);
	int64_t ended_ns;

	worker->tick = wheel->tick;
	worker->lateness_ns = worker->is_told ? now_ns : *began_ns;
	if (!expire_tick(worker))
		return false;
	ended_ns = hwt_clock_now();
	counts_add(&worker->counts.ticks, was_cut || worker_runs(worker) != runs);
	HWT_PROBE(tick, wheel->tick, ended_ns - *began_ns);
	counts_max(&worker->counts.tick_max_ns, (uint64_t)(ended_ns - *began_ns));
	*began_ns = ended_ns;
	hwt_wheel_seek(wheel, wheel->tick + 1);
	hwt_wheel_end_tick(wheel);
	return true;
}

/* Goes on where the bound of the last advance cut a tick.  false: cut again, stopped, or it is too early. */
static bool resume(struct hwt_worker *worker, int64_t passed, int64_t now_ns)
{
	int64_t began_ns = hwt_clock_now();

	if (passed < worker->tick)
		return false;
	if (worker->late_last != NULL)
		return expire_late(worker, now_ns);
	return expire_one_tick(worker, now_ns, &began_ns);
}

/* Runs the ticks up to target, those with nothing due excepted.  false: as above. */
static bool expire(struct hwt_worker *worker, int64_t target, int64_t now_ns)
{
	struct hwt_wheel *wheel = worker->wheel;
	int64_t began_ns;

	if (unlikely(worker->has_late) && !expire_late(worker, now_ns))
		return false;
	began_ns = hwt_wheel_next_due(wheel) <= target ? hwt_clock_now() : 0;
	while (hwt_wheel_next_due(wheel) <= target) {
		if (unlikely(worker_is_full(worker))) {
			target = wheel->tick - 1;
			break;
		}
		hwt_wheel_seek(wheel, hwt_wheel_next_due(wheel));
		if (!expire_one_tick(worker, now_ns, &began_ns))
			return false;
	}
	if (target >= wheel->tick)
		hwt_wheel_seek(wheel, target + 1);
	hwt_wheel_end_tick(wheel); /* what the transfer has put off */
	return true;
}

bool hwt_worker_pass(struct hwt_worker *worker, int64_t now_ns)
{
	int64_t passed = grid_ticks_passed(&worker->wheel->grid, now_ns);
	bool more;

	if (passed != worker->traffic_tick) {
		worker->traffic_tick = passed;
		worker->transferred = 0;
		worker->idle_looks = 0;
	}
	worker->passes++;
	worker->backlog = 0;
	worker->was_held_up = false;
	if (unlikely(worker->is_cut) && !resume(worker, passed, now_ns))
		return false;
	more = transfer(worker);
	if (unlikely(more || worker->was_held_up || worker->is_behind))
		worker->is_behind = hwt_worker_is_behind(worker);
	/*
	 * The places of a batch that is left are stale: a cancellation for one of it must not look there.  Stop sees to
	 * all.
	 */
	if (!expire(worker, passed, now_ns))
		return false;
	more |= cancel(worker);
	return_records(worker);
	counts_add(&worker->counts.transfers, worker->backlog);
	counts_max(&worker->counts.backlog_max, worker->backlog);
	return more;
}
