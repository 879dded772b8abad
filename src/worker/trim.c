/* SPDX-License-Identifier: BSD-2-Clause */
/* When memory goes back to the system; trim.h. */
#include "worker/trim.h"

#include <errno.h>

#define LOOK_NS HWT_MS(1000)
#define HOLD_NS HWT_MS(2000)
#define HOLD_MAX_NS HWT_MS(64000)

/* Less than this is never worth a trim. */
#define ENOUGH ((size_t)4 << 20)

#ifdef HWT_TEST
_Atomic size_t hwt_test_enough = ENOUGH;
#endif

static size_t enough(void)
{
#ifdef HWT_TEST
	return atomic_load_explicit(&hwt_test_enough, memory_order_acquire); /* a test's */
#else
	return ENOUGH;
#endif
}

/* What a timeout needs of the lanes' memory: a record and a node; and of the wheel's: a place in a chunk. */
#define NEED_BYTES 64
#define NEED_WHEEL_BYTES 16

/* The worker does not begin a slice so shortly before a tick. */
#define MARGIN_NS (HWT_MS(1) / 5)

int hwt_trimming_init(struct hwt_worker *worker)
{
	struct hwt_trimming *trimming = &worker->trimming;

	*trimming = (struct hwt_trimming){ .hold_ns = HOLD_NS };
	atomic_init(&trimming->asked, 0);
	atomic_init(&trimming->given, 0);
	return hwt_monitor_init(&trimming->monitor);
}

void hwt_trimming_end(struct hwt_worker *worker)
{
	struct hwt_trimming *trimming = &worker->trimming;

	pthread_mutex_lock(&trimming->monitor.mutex);
	trimming->is_over = true;
	pthread_cond_broadcast(&trimming->monitor.changed);
	pthread_mutex_unlock(&trimming->monitor.mutex);
}

/* Returns the number of the last request.  Relaxed: it only says that a trim is wanted. */
static uint64_t asked(const struct hwt_trimming *trimming)
{
	return atomic_load_explicit(&trimming->asked, memory_order_relaxed);
}

static size_t lanes_bytes(const struct hwt_lanes *lanes)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < lanes_count(lanes); i++)
		bytes += slabs_bytes(&lanes->made[i]->pool.slabs) + pool_bytes_ahead(&lanes->made[i]->pool) +
			 slabs_bytes(&lanes->made[i]->submitted.slabs) + slabs_bytes(&lanes->made[i]->cancelled.slabs);
	return bytes;
}

static struct hwt_counted count(const struct hwt_worker *worker)
{
	struct hwt_counted now;

	/* Ends first, [count]. */
	now.ended = counts_get(&worker->expired) + hwt_lanes_cancelled(worker->lanes);
	if (worker->tasks != NULL)
		now.ended += hwt_tasks_expired(worker->tasks);
	now.begun = hwt_lanes_rearmed(worker->lanes) + hwt_lanes_accepted(worker->lanes);
	return now;
}

static uint64_t needed(const struct hwt_counted *now)
{
	return now->begun - now->ended;
}

static bool has_changed(const struct hwt_counted *now, const struct hwt_counted *then)
{
	return now->begun != then->begun || now->ended != then->ended;
}

/*
 * Returns whether the lanes hold much more than so many timeouts need.  Without a change since the last trim another
 * one would find the same.
 */
static bool lanes_are_large(const struct hwt_worker *worker, const struct hwt_counted *now, uint64_t timeouts)
{
	size_t bytes = lanes_bytes(worker->lanes);

	return bytes >= enough() && timeouts < bytes / NEED_BYTES / 2 && has_changed(now, &worker->trimming.at_trim);
}

/* The same of the wheel.  All of that can go while the wheel is empty, and nothing before. */
static bool wheel_is_large(const struct hwt_worker *worker, uint64_t timeouts, bool *empty)
{
	size_t bytes = wheel_spare(worker->wheel, empty);

	return bytes >= enough() && timeouts < bytes / NEED_WHEEL_BYTES / 2;
}

/* Returns whether a reason to trim has lasted.  *since_ns: since when there has been one; 0: there was none. */
static bool has_lasted(struct hwt_trimming *trimming, bool is_one, int64_t *since_ns, int64_t now_ns)
{
	int64_t due_ns;

	if (!is_one) {
		*since_ns = 0;
		return false;
	}
	if (*since_ns == 0)
		*since_ns = now_ns;
	due_ns = *since_ns + trimming->hold_ns;
	if (due_ns > now_ns && due_ns < trimming->look_ns)
		trimming->look_ns = due_ns;
	return due_ns <= now_ns;
}

/* Looks whether to trim now. */
static bool look(struct hwt_worker *worker, int64_t now_ns)
{
	struct hwt_trimming *trimming = &worker->trimming;
	struct hwt_counted now = count(worker);
	uint64_t came = now.begun - trimming->at_look.begun, timeouts = needed(&now) + came;
	bool large = lanes_are_large(worker, &now, timeouts), large_wheel, empty;

	large_wheel = wheel_is_large(worker, timeouts, &empty);
	trimming->at_look = now;
	trimming->look_ns = now_ns + LOOK_NS;
	large = has_lasted(trimming, large, &trimming->calm_ns, now_ns);
	return (has_lasted(trimming, large_wheel, &trimming->wheel_calm_ns, now_ns) && empty) || large;
}

static size_t held_bytes(const struct hwt_worker *worker)
{
	return lanes_bytes(worker->lanes) + wheel_bytes(worker->wheel);
}

static void begin(struct hwt_worker *worker)
{
	struct hwt_trimming *trimming = &worker->trimming;

	trimming->serving = asked(trimming);
	trimming->bytes = held_bytes(worker);
	hwt_trim_begin(worker->lanes);
}

/* Makes a slice.  Returns true if there are more. */
static bool step(struct hwt_worker *worker)
{
	struct hwt_lanes *lanes = worker->lanes;
	bool more = hwt_trim_step(lanes) || (!worker->is_cut && wheel_trim(worker->wheel, &lanes->trim.given));

	/* Relaxed: only a number. */
	atomic_store_explicit(&worker->trimming.given, lanes->trim.given, memory_order_relaxed);
	return more;
}

size_t hwt_worker_given(const struct hwt_worker *worker)
{
	return atomic_load_explicit(&worker->trimming.given, memory_order_relaxed); /* relaxed: as above */
}

static void finish(struct hwt_worker *worker)
{
	struct hwt_trimming *trimming = &worker->trimming;

	trimming->is_active = false;
	trimming->calm_ns = trimming->wheel_calm_ns = 0;
	trimming->at_trim = trimming->at_look;
	/* A trim that has given nothing back, but for some nodes, is repeated ever more rarely. */
	if (held_bytes(worker) + HWT_HUGE_PAGE <= trimming->bytes)
		trimming->hold_ns = HOLD_NS;
	else if (trimming->hold_ns < HOLD_MAX_NS)
		trimming->hold_ns *= 2;
	pthread_mutex_lock(&trimming->monitor.mutex);
	trimming->answered = trimming->serving;
	pthread_cond_broadcast(&trimming->monitor.changed);
	pthread_mutex_unlock(&trimming->monitor.mutex);
}

/* Makes slices until the next tick is near or something comes in.  Returns true if there are more. */
static bool make_slices(struct hwt_worker *worker)
{
	int64_t until_ns = subtract_saturating(grid_time(&worker->wheel->grid, worker->wheel->tick), MARGIN_NS);

	do
		if (!step(worker)) {
			finish(worker);
			/* A request that came meanwhile may have spent its wake on a nap between two slices. */
			return asked(&worker->trimming) != worker->trimming.serving;
		}
	while (!worker->lanes->trim.stalled && !worker_has_to_stop(worker) && hwt_lanes_are_empty(worker->lanes) &&
	       worker_now(worker) < until_ns);
	return true;
}

bool hwt_worker_trim(struct hwt_worker *worker, int64_t now_ns)
{
	struct hwt_trimming *trimming = &worker->trimming;
	/* A wall clock may be set back. */
	int64_t steady_ns = worker->clock == HWT_CLOCK_MONOTONIC ? now_ns : clock_monotonic();

	if (likely(!trimming->is_active)) {
		if (likely(steady_ns < trimming->look_ns && asked(trimming) == trimming->serving))
			return false;
		if (!look(worker, steady_ns) && asked(trimming) == trimming->serving)
			return false;
		trimming->is_active = true;
		begin(worker);
	}
	return make_slices(worker);
}

/* Returns whether other threads are to end timeouts.  Not all of that wakes the worker. */
static bool has_others(const struct hwt_worker *worker)
{
	const struct hwt_tasks *tasks = worker->tasks;

	return tasks != NULL && (ready_waiting(&tasks->ready) > 0 || !tasks_are_done(tasks));
}

/* Returns when the worker has to look, INT64_MAX: not by itself. */
static int64_t look_due(const struct hwt_worker *worker)
{
	const struct hwt_trimming *trimming = &worker->trimming;
	struct hwt_counted now = count(worker);
	uint64_t timeouts = needed(&now);
	int64_t due_ns = INT64_MAX, held_ns;
	bool empty;

	if (unlikely(lanes_are_large(worker, &now, timeouts)))
		due_ns = trimming->calm_ns == 0 ? 0 : trimming->calm_ns + trimming->hold_ns;
	if (unlikely(wheel_is_large(worker, timeouts, &empty)) && empty) {
		held_ns = trimming->wheel_calm_ns == 0 ? 0 : trimming->wheel_calm_ns + trimming->hold_ns;
		due_ns = held_ns < due_ns ? held_ns : due_ns;
	}
	if (unlikely(has_others(worker)) && lanes_bytes(worker->lanes) >= enough())
		due_ns = 0;
	/* Before look_ns a wake-up is none for a look. */
	return due_ns < trimming->look_ns ? trimming->look_ns : due_ns;
}

int64_t hwt_worker_trim_due(const struct hwt_worker *worker, int64_t due, int64_t now_ns)
{
	int64_t look_ns = look_due(worker), steady_ns, tick;

	if (likely(look_ns == INT64_MAX))
		return due;
	steady_ns = worker->clock == HWT_CLOCK_MONOTONIC ? now_ns : clock_monotonic();
	tick = grid_ticks_passed(&worker->wheel->grid, add_saturating(now_ns, look_ns - steady_ns)) + 1;
	return tick < due ? tick : due;
}

void hwt_worker_trim_now(struct hwt_worker *worker)
{
	unsigned turns = 0;

	begin(worker);
	while (step(worker))
		if (worker->lanes->trim.stalled)
			hwt_thread_give_way(&turns);
}

int hwt_worker_ask_trim(struct hwt_worker *worker, int64_t until_ns, size_t *bytes)
{
	struct hwt_trimming *trimming = &worker->trimming;
	size_t before = hwt_worker_given(worker);
	uint64_t mine;
	int rc = 0;

	pthread_mutex_lock(&trimming->monitor.mutex);
	mine = asked(trimming) + 1;
	/* Relaxed: the wake below, and the mutex of the sleeper in it, order it before the worker's next look. */
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
