/* SPDX-License-Identifier: BSD-2-Clause */
/* When memory goes back to the system; trim.h. */
#include "worker/trim.h"
#include "lane/lane.h"

#include <errno.h>

#define LOOK_NS HWT_MS(1000)
#define HOLD_NS HWT_MS(2000)

/* The least memory that is worth a look. */
HWT_TUNABLE(size_t, enough, (size_t)4 << 20)

/* The worker begins no slice within this time before a tick. */
#define MARGIN_NS (HWT_MS(1) / 5)

void hwt_trimming_end(struct hwt_worker *worker)
{
	struct hwt_trimming *trimming = &worker->trimming;

	pthread_mutex_lock(&trimming->monitor.mutex);
	trimming->is_over = true;
	pthread_cond_broadcast(&trimming->monitor.changed);
	pthread_mutex_unlock(&trimming->monitor.mutex);
}

/* Returns the number of the last request.  Relaxed: no other data depends on it. */
static uint64_t asked(const struct hwt_trimming *trimming)
{
	return atomic_load_explicit(&trimming->asked, memory_order_relaxed);
}

static size_t lanes_bytes(const struct hwt_lanes *lanes)
{
	size_t bytes = record_slabs_held(&lanes->slabs);

	for (uint32_t i = 0; i < lanes_count(lanes); i++)
		bytes += slabs_bytes(&lanes->made[i]->submitted.slabs) + slabs_bytes(&lanes->made[i]->cancelled.slabs);
	return bytes;
}

/* Returns the number of operations taken in plus the number of records that the worker has returned, ever. */
static uint64_t activity(const struct hwt_worker *worker)
{
	return counts_get(&worker->counts.transfers) + worker->lanes->slabs.returned;
}

/* Returns true if task threads or an executor have records, which come home without the worker. */
static bool has_others(const struct hwt_worker *worker)
{
	return worker->tasks != NULL && hwt_tasks_are_out(worker->tasks);
}

static bool has_to_look(const struct hwt_worker *worker)
{
	const struct hwt_trimming *trimming = &worker->trimming;

	if (!trimming->again && activity(worker) == trimming->at_look && !has_others(worker))
		return false;
	return lanes_bytes(worker->lanes) + wheel_spare(worker->wheel) >= enough();
}

/*
 * Returns true if the wheel is to be trimmed: it has been empty and large for HOLD_NS; or it is empty, and a caller
 * asks (`all`).
 */
static bool wheel_is_to_go(struct hwt_worker *worker, int64_t now_ns, bool all)
{
	struct hwt_trimming *trimming = &worker->trimming;
	bool large = wheel_spare(worker->wheel) >= enough();

	if (worker->bound.is_cut || !wheel_is_empty(worker->wheel) || (!large && !all)) {
		trimming->wheel_calm_ns = 0;
		return false;
	}
	if (trimming->wheel_calm_ns == 0)
		trimming->wheel_calm_ns = now_ns;
	trimming->again |= !all && now_ns - trimming->wheel_calm_ns < HOLD_NS;
	return all || now_ns - trimming->wheel_calm_ns >= HOLD_NS;
}

/* Begins a look.  What happens from here on counts for the next look. */
static void begin(struct hwt_worker *worker, int64_t now_ns, bool all)
{
	struct hwt_trimming *trimming = &worker->trimming;

	if (all)
		trimming->serving = asked(trimming);
	trimming->at_look = activity(worker);
	trimming->again = has_others(worker);
	trimming->look_ns = now_ns + LOOK_NS;
	trimming->trims_wheel = wheel_is_to_go(worker, now_ns, all);
	hwt_look_begin(&trimming->look, worker->lanes, now_ns, HOLD_NS, all);
}

/* Makes a slice of the look.  Returns true if there is more to do. */
static bool step(struct hwt_worker *worker)
{
	struct hwt_trimming *trimming = &worker->trimming;
	bool more = hwt_look_step(&trimming->look) || (trimming->trims_wheel && !worker->bound.is_cut &&
						       wheel_trim(worker->wheel, &trimming->look.given));

	/* Relaxed: only a number. */
	atomic_store_explicit(&trimming->given, trimming->look.given, memory_order_relaxed);
	return more;
}

size_t hwt_worker_given(const struct hwt_worker *worker)
{
	return atomic_load_explicit(&worker->trimming.given, memory_order_relaxed); /* relaxed: as in step */
}

static void finish(struct hwt_worker *worker)
{
	struct hwt_trimming *trimming = &worker->trimming;

	trimming->is_active = false;
	trimming->again |= trimming->look.again;
	pthread_mutex_lock(&trimming->monitor.mutex);
	trimming->answered = trimming->serving;
	pthread_cond_broadcast(&trimming->monitor.changed);
	pthread_mutex_unlock(&trimming->monitor.mutex);
}

/* Makes slices until the next tick is near or an operation comes in.  Returns true if there is more to do. */
static bool make_slices(struct hwt_worker *worker)
{
	int64_t until_ns = subtract_saturating(grid_time(&worker->wheel->grid, worker->wheel->tick), MARGIN_NS);

	do
		if (!step(worker)) {
			finish(worker);
			/*
			 * A request that came meanwhile may have woken the worker from a nap between two slices, and
			 * would not wake it again.
			 */
			return asked(&worker->trimming) != worker->trimming.serving;
		}
	while (!worker_has_to_stop(worker) && hwt_lanes_are_empty(worker->lanes) && worker_now(worker) < until_ns);
	return true;
}

bool hwt_worker_trim(struct hwt_worker *worker, int64_t now_ns)
{
	struct hwt_trimming *trimming = &worker->trimming;
	/* Times of looks are on CLOCK_MONOTONIC, as a wall clock may be set back. */
	int64_t steady_ns = worker->clock == HWT_CLOCK_MONOTONIC ? now_ns : clock_monotonic();

	if (likely(!trimming->is_active)) {
		bool is_asked = asked(trimming) != trimming->serving;

		if (likely(steady_ns < trimming->look_ns && !is_asked))
			return false;
		if (!is_asked && !has_to_look(worker)) {
			trimming->look_ns = steady_ns + LOOK_NS;
			return false;
		}
		trimming->is_active = true;
		begin(worker, steady_ns, is_asked);
	}
	return make_slices(worker);
}

int64_t hwt_worker_trim_due(const struct hwt_worker *worker, int64_t due, int64_t now_ns)
{
	int64_t steady_ns, tick;

	if (likely(!has_to_look(worker)))
		return due;
	steady_ns = worker->clock == HWT_CLOCK_MONOTONIC ? now_ns : clock_monotonic();
	tick = grid_ticks_passed(&worker->wheel->grid, add_saturating(now_ns, worker->trimming.look_ns - steady_ns)) +
	       1;
	return tick < due ? tick : due;
}

void hwt_worker_trim_now(struct hwt_worker *worker)
{
	begin(worker, clock_monotonic(), true);
	while (step(worker))
		;
	worker->trimming.again = false; /* a driven timer makes no looks by itself */
}

int hwt_worker_ask_trim(struct hwt_worker *worker, int64_t until_ns, size_t *bytes)
{
	struct hwt_trimming *trimming = &worker->trimming;
	size_t before = hwt_worker_given(worker);
	uint64_t mine;
	int rc = 0;

	pthread_mutex_lock(&trimming->monitor.mutex);
	mine = asked(trimming) + 1;
	/* Relaxed: the mutex of the sleeper, in the wake below, orders the store before the worker's next check. */
	atomic_store_explicit(&trimming->asked, mine, memory_order_relaxed);
	pthread_mutex_unlock(&trimming->monitor.mutex);
	hwt_idle_stop(&worker->lanes->idle);
	pthread_mutex_lock(&trimming->monitor.mutex);
	while (trimming->answered < mine && !trimming->is_over && clock_monotonic() < until_ns)
		(void)hwt_monitor_wait(&trimming->monitor, until_ns);
	if (trimming->answered < mine && trimming->is_over)
		rc = ECANCELED;
	else
		*bytes = hwt_worker_given(worker) - before;
	pthread_mutex_unlock(&trimming->monitor.mutex);
	return rc;
}
