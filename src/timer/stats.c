/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hwt_timer_stats and hwt_pending_timeouts: add up the counters of lanes, worker and task threads.
 *
 * The numbers of timeouts always add up, although other threads go on counting.  The sums read ends before begins
 * ([count]) and a later stage before an earlier one; pending and running follow from them.  A timeout that is going to
 * run again counts as pending, and not as running, from the call that re-armed it.
 */
#include "timer/timer.h"
#include "base/sized.h"
#include "lane/lane.h"

/* Every field but the histogram has 8 bytes.  A field that the caller's size cuts is left out. */
#define LATENESS_AT offsetof(hwt_stats, lateness)
#define SIZE_BYTES (offsetof(hwt_stats, accepted) % 8) /* before `accepted`: 4 if 8 bytes are aligned to 4 */

#define LATENESS_END (LATENESS_AT + COUNTS_LATENESS * sizeof(uint64_t))

/*
 * A reader that loses its processor between reading the ends and the begins counts begins whose ends it has missed.  So
 * it reads up to COUNT_READS times, and takes the read during which the fewest timeouts have ended.
 */
#define COUNT_READS 4

static_assert(LATENESS_AT % 8 == SIZE_BYTES && sizeof(hwt_stats) % 8 == SIZE_BYTES, "fields are of 8 bytes");
static_assert(sizeof(((hwt_stats *)0)->lateness) == COUNTS_LATENESS * sizeof(uint64_t),
	      "the histogram has as many bins");

static size_t whole_fields(size_t size)
{
	if (size >= sizeof(hwt_stats))
		return sizeof(hwt_stats);
	if (size >= LATENESS_AT && size < LATENESS_END)
		return LATENESS_AT;
	return size <= SIZE_BYTES ? 0 : (size - SIZE_BYTES) / 8 * 8 + SIZE_BYTES;
}

static int64_t as_time(uint64_t ns)
{
	return ns < INT64_MAX ? (int64_t)ns : INT64_MAX;
}

/* Returns the number of timeouts that have ended or begun their run, ever. */
static uint64_t count_ended(const hwt_timer *timer)
{
	return atomic_load_explicit(&timer->worker.expired, memory_order_acquire) + /* [count] */
	       atomic_load_explicit(&timer->given_back, memory_order_acquire) +     /* [count] */
	       lanes_cancelled(&timer->lanes) + tasks_sum(&timer->tasks, expired);
}

static void count_once(const hwt_timer *timer, hwt_stats *stats)
{
	const struct hwt_worker *worker = &timer->worker;
	uint64_t expired, again, most;

	/*
	 * Acquire, and in this order, [count]: rearmed, finished, expired, ends in the lanes, accepted.  A timeout that
	 * goes on to another stage between two of these loads counts in the earlier stage only.
	 */
	again = lanes_sum(&timer->lanes, rearmed_count);
	HWT_POINT("stats count");
	stats->completed = atomic_load_explicit(&worker->counts.finished, memory_order_acquire) + /* [finished] */
			   tasks_sum(&timer->tasks, counts.finished);
	expired = atomic_load_explicit(&worker->expired, memory_order_acquire) + tasks_sum(&timer->tasks, expired);
	stats->returned = atomic_load_explicit(&timer->given_back, memory_order_acquire);
	stats->cancelled = lanes_cancelled(&timer->lanes);
	HWT_POINT("begins count");
	stats->accepted = lanes_sum(&timer->lanes, accepted);
	stats->runs = expired;
	/*
	 * `expired` may include runs of timeouts that were re-armed after the first load: these count as not begun yet.
	 */
	most = stats->accepted + again - stats->cancelled - stats->returned;
	expired = expired < most ? expired : most;
	stats->pending = most - expired;
	stats->running = expired - again - stats->completed;
}

/* At most the limit can be pending, and one timeout for each thread be running: a surplus has ended meanwhile. */
static void clip(const hwt_timer *timer, hwt_stats *stats)
{
	uint64_t limit = (uint64_t)timer->lanes.max_pending, threads = timer->config.task_threads, over = 0;

	if (limit > 0 && stats->pending > limit) {
		over = stats->pending - limit;
		stats->pending = limit;
	}
	threads = threads > 0 ? threads : 1;
	if (timer->config.executor == NULL && stats->running > threads) {
		over += stats->running - threads;
		stats->running = threads;
	}
	stats->completed += over;
}

/* Counts until no timeout ends during a count, or takes the best of some counts. */
static void count_ends(const hwt_timer *timer, hwt_stats *stats)
{
	uint64_t least = UINT64_MAX;

	for (unsigned reads = 0; reads < COUNT_READS && least > 0; reads++) {
		uint64_t ended = count_ended(timer), meanwhile;
		hwt_stats read = *stats;

		count_once(timer, &read);
		meanwhile = count_ended(timer) - ended;
		if (meanwhile < least) {
			*stats = read;
			least = meanwhile;
		}
	}
	clip(timer, stats);
}

static void count_lanes(const hwt_timer *timer, hwt_stats *stats)
{
	hwt_lanes_tally(&timer->lanes, stats);
	/* Relaxed: no other data depends on the number. */
	stats->refused_stopped += atomic_load_explicit(&timer->refused_stopped, memory_order_relaxed);
	stats->bytes += sizeof(*timer) + wheel_bytes(timer->wheel) + timer->tasks.count * sizeof(struct hwt_runner);
}

static void count_work(const hwt_timer *timer, hwt_stats *stats)
{
	const struct hwt_counts *counts = &timer->worker.counts;
	struct hwt_counts tasks = { .finished = 0 };
	uint64_t wait_max_ns = 0;

	hwt_tasks_tally(&timer->tasks, &tasks, &wait_max_ns);
	counts_max(&tasks.lateness_max_ns, counts_get(&counts->lateness_max_ns));
	stats->runs += counts_get(&counts->repeats) + counts_get(&tasks.repeats);
	stats->executor_refusals = counts_get(&timer->tasks.refused);
	stats->ticks = counts_get(&counts->ticks);
	stats->merged_periods = counts_get(&counts->merged) + counts_get(&tasks.merged);
	stats->rescheduled = lanes_sum(&timer->lanes, rescheduled_count);
	stats->wakeups = counts_get(&counts->wakeups);
	stats->transfers = counts_get(&counts->transfers);
	stats->backlog_max = counts_get(&counts->backlog_max);
	stats->lateness_max_ns = as_time(counts_get(&tasks.lateness_max_ns));
	stats->tick_max_ns = as_time(counts_get(&counts->tick_max_ns));
	for (unsigned i = 0; i < COUNTS_LATENESS; i++)
		stats->lateness[i] = hwt_counts_late(counts, &timer->worker.expired, i) +
				     hwt_tasks_late(&timer->tasks, i);
	stats->tasks_waiting = timer->tasks.count > 0 ? ready_waiting(&timer->tasks.ready) : 0;
	stats->task_wait_max_ns = as_time(wait_max_ns);
}

int hwt_timer_stats(const hwt_timer *timer, hwt_stats *out)
{
	hwt_stats stats = { 0 };

	CHECK_TIMER(timer);
	if (timer == NULL || out == NULL || out->size < 2 * sizeof(uint64_t) || out->size > HWT_STRUCT_MAX)
		return EINVAL;
	count_ends(timer, &stats);
	count_lanes(timer, &stats);
	count_work(timer, &stats);
	sized_write(out, out->size, &stats, whole_fields(out->size));
	return 0;
}

uint64_t hwt_pending_timeouts(const hwt_timer *timer)
{
	uint64_t pending = 0, least = UINT64_MAX, limit;

	CHECK_TIMER(timer);
	if (timer == NULL)
		return 0;
	for (unsigned reads = 0; reads < COUNT_READS && least > 0; reads++) {
		uint64_t ended = count_ended(timer), begun, meanwhile;

		HWT_POINT("pending count");
		/* After the ends, [count]. */
		begun = lanes_sum(&timer->lanes, rearmed_count) + lanes_sum(&timer->lanes, accepted);
		meanwhile = count_ended(timer) - ended;
		if (meanwhile < least) {
			pending = begun - ended;
			least = meanwhile;
		}
	}
	limit = (uint64_t)timer->lanes.max_pending;
	return limit > 0 && pending > limit ? limit : pending;
}
