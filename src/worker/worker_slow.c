/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of a timeout that is not simply placed and run: cancelled ones, moved ones, those with an extension or a
 * period, and those that run again, and those that come late, as too much waited before them.  worker.c has the others.
 */
#include "worker/worker_slow.h"

/*
 * A mover that starts after this point sees that the record is armed, and tells the worker if the deadline becomes
 * earlier.  Of a record that a mover writes already the deadline is not known.
 */
static bool is_to_be_placed(struct hwt_worker *worker, struct hwt_record *record, uint64_t word)
{
	if (!word_has(word, WORD_RESCHEDULING))
		return true;
	/*
	 * Relaxed: the flag is for this thread.  A job that hands its record over clears the other one alone, and among
	 * late records this one must not pass for a plain one that is due.
	 */
	atomic_fetch_or_explicit(&record->word, WORD_RESCHEDULED, memory_order_relaxed);
	hwt_wheel_postpone(worker->wheel, record);
	return false;
}

/* It has been moved to an earlier deadline, and perhaps been cancelled then. */
static bool take_requeued(struct hwt_worker *worker, struct hwt_record *record)
{
	/* From now on movers push again.  What they wrote before is seen: [move]. */
	uint64_t word = atomic_fetch_and_explicit(&record->word, ~WORD_REQUEUED, memory_order_acq_rel);

	if (word_state(word) == STATE_ARMED)
		return hwt_wheel_take_out(worker->wheel, record) && is_to_be_placed(worker, record, word);
	if (hwt_wheel_remove(worker->wheel, record))
		lane_return(record);
	return false;
}

bool hwt_worker_take_slow(struct hwt_worker *worker, struct hwt_record *record)
{
	uint64_t word = record_word(record);

	while (word_state(word) == STATE_QUEUED)
		if (record_edge(record, &word, STATE_ARMED))
			return is_to_be_placed(worker, record, word);
	if (word_has(word, WORD_REQUEUED))
		return take_requeued(worker, record);
	lane_return(record); /* cancelled while it was queued */
	return false;
}

/* It has left the wheel; a queue sends it home, unless there was no memory for that queue. */
static void drop_cancelled(struct hwt_record *record, uint64_t word)
{
	record->place = 0;
	if (word_state(word) == STATE_LAZY)
		lane_return(record);
}

/*
 * The edge run for a word with flags.  false: it does not run now, and is where it has to be.  *word: what it has
 * become.
 */
static bool begin_slow(struct hwt_worker *worker, struct hwt_record *record, uint64_t *word)
{
	struct hwt_wheel *wheel = worker->wheel;

	for (*word = record_word(record);;) {
		uint64_t to = word_with_state(*word, STATE_RUNNING);

		if (word_state(*word) != STATE_ARMED) {
			drop_cancelled(record, *word);
			return false;
		}
		if (word_has(*word, WORD_REQUEUED)) { /* the queue has it, too: R1 */
			record->place = 0;
			return false;
		}
		if (word_has(*word, WORD_RESCHEDULED) && !word_has(*word, WORD_RESCHEDULING | WORD_RESCHEDULE_SEEN)) {
			if (record_change(record, word, *word | WORD_RESCHEDULE_SEEN))
				*word |= WORD_RESCHEDULE_SEEN;
			continue;
		}
		/* Who moves it from here on takes RESCHEDULE_SEEN away. */
		if (word_has(*word, WORD_RESCHEDULING) ||
		    grid_tick_of(&wheel->grid, record_deadline(record)) > worker->tick) {
			hwt_wheel_postpone(wheel, record);
			return false;
		}
		if (word_has(*word, WORD_PERIODIC))
			to |= WORD_REARMED;
		if (record_change(record, word, to)) {
			*word = to;
			return true;
		}
	}
}

/*
 * The next deadline of a periodic one: on the grid of the present one, after the present moment.  What lies between is
 * merged into this run.
 */
static void begin_period(struct hwt_worker *worker, struct hwt_record *record, int64_t deadline_ns)
{
	struct hwt_extension *extension = record_extension(record);
	/* Not signed: a deadline may lie before all times. */
	uint64_t late_ns = (uint64_t)worker->lateness_ns - (uint64_t)deadline_ns;
	uint64_t period_ns = (uint64_t)record_period(record);

	extension->missed = late_ns / period_ns;
	counts_add(&worker->counts.merged, extension->missed);
	counts_add(&worker->counts.repeats, 1);
	/* The first summand is not in the future, the second not more than a period. */
	record_set_deadline(record, add_saturating((int64_t)((uint64_t)deadline_ns + extension->missed * period_ns),
						   (int64_t)period_ns));
}

/* After the task, or in place of it. */
void hwt_worker_end_slow(struct hwt_worker *worker, struct hwt_record *record)
{
	enum word_state end = record_end(record, STATE_ARMED);

	waiters_look(worker->waiters);
	if (end == STATE_ARMED) {
		hwt_wheel_postpone(worker->wheel, record);
		return;
	}
	if (end == STATE_EXPIRED)
		worker_count_finished(worker);
	lane_return(record);
}

void hwt_worker_abandon(struct hwt_worker *worker)
{
	if (worker->frame.record == NULL)
		return;
	worker->frame.record = NULL;
	hwt_worker_end_slow(worker, worker->batch[worker->batch_at - 1]); /* it was the last that was taken */
}

void hwt_worker_expire_slow(struct hwt_worker *worker, struct hwt_record *record)
{
	void *const *arg;
	int64_t deadline_ns;
	uint64_t word;

	if (!begin_slow(worker, record, &word))
		return;
	deadline_ns = record_deadline(record);
	if (word_has(word, WORD_PERIODIC))
		begin_period(worker, record, deadline_ns);
	else
		worker_count_expired(worker);
	arg = word_has(word, WORD_EXTENDED) ? &record_extension(record)->arg : &record->arg;
	if (worker_run_task(worker, record, word, deadline_ns, arg))
		hwt_worker_end_slow(worker, record);
}

/* What waits now had been accepted before the ticks that come next. */
static void mark_lanes(struct hwt_lanes *lanes)
{
	for (uint32_t i = 0; i < lanes_count(lanes); i++) {
		struct hwt_lane *lane = lanes->made[i];
		uint64_t reclaimed = atomic_load_explicit(&lane->reclaimed, memory_order_acquire); /* [mark] */
		/* Relaxed: what the caller of a pass knows to have been accepted is seen; more does no harm. */
		uint64_t pushed = atomic_load_explicit(&lane->accepted, memory_order_relaxed) +
				  atomic_load_explicit(&lane->requeued, memory_order_relaxed);

		HWT_POINT("mark");
		atomic_store_explicit(&lane->mark, pushed - reclaimed, memory_order_relaxed);
	}
}

/* How many at the front of the lane's queue are marked. */
static uint64_t marked(const struct hwt_lane *lane)
{
	/* Relaxed: the worker's; a producer that reclaims only counts there what was marked. */
	uint64_t mark = atomic_load_explicit(&lane->mark, memory_order_relaxed);
	uint64_t taken = atomic_load_explicit(&lane->taken, memory_order_relaxed);

	return taken < mark ? mark - taken : 0;
}

static bool has_marked(struct hwt_lanes *lanes)
{
	for (uint32_t i = 0; i < lanes_count(lanes); i++)
		if (marked(lanes->made[i]) > 0 && !queue_is_empty(&lanes->made[i]->submitted))
			return true;
	return false;
}

bool hwt_worker_is_behind(struct hwt_worker *worker)
{
	if (!worker->is_behind) {
		mark_lanes(worker->lanes);
		worker->mark_tick = worker->wheel->tick;
	}
	return has_marked(worker->lanes);
}

uint32_t hwt_worker_late_part(struct hwt_worker *worker, const struct hwt_lane *lane, uint32_t part)
{
	uint64_t late = marked(lane);
	int64_t tick = worker->wheel->tick;

	/* The last condition: a clock that goes back must make nothing early. */
	worker->takes_late = late > 0 && worker->mark_tick < tick && worker->traffic_tick >= tick - 1;
	return late > 0 && late < part ? (uint32_t)late : part;
}

size_t hwt_worker_put_off_late(struct hwt_worker *worker, struct hwt_record **batch, size_t n)
{
	struct hwt_wheel *wheel = worker->wheel;
	size_t left = 0;

	for (size_t i = 0; i < n; i++) {
		if (grid_tick_of(&wheel->grid, record_deadline(batch[i])) >= wheel->tick)
			batch[left++] = batch[i];
		else
			hwt_wheel_postpone(wheel, batch[i]);
	}
	worker->has_late |= left < n;
	return left;
}
