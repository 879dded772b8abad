/* SPDX-License-Identifier: BSD-2-Clause */
/* The worker between two passes: how long it sleeps; worker.h argues. */
#include "worker/worker.h"
#include "base/counter.h"

/* More than this taken from the lanes in one tick is traffic: going idle would cost more than the next tick. */
#define TRAFFIC 64

/* How often it may go idle in one tick; then it waits for the next. */
#define IDLE_LOOKS 2

/* A nap of this length or more ends early for the sake of memory. */
#define LONG_NAP_NS HWT_MS(4)

static void nap(struct hwt_worker *worker, int64_t now_ns)
{
	struct hwt_idle *idle = &worker->lanes->idle;
	int64_t until_ns = grid_time(&worker->wheel->grid, worker->wheel->tick);

	if (until_ns - LONG_NAP_NS < now_ns) {
		hwt_idle_sleep(idle, until_ns);
		return;
	}
	hwt_idle_begin_nap(idle);
	hwt_idle_sleep(idle, until_ns);
	hwt_idle_end(idle);
}

/* Until the tick due, if nothing is in the lanes. */
static void idle(struct hwt_worker *worker, int64_t due, int64_t now_ns)
{
	struct hwt_grid *grid = &worker->wheel->grid;
	struct hwt_idle *idle = &worker->lanes->idle;
	bool ready = hwt_idle_begin(idle, due == HWT_TICK_NEVER ? INT64_MAX : grid_time(grid, due - 1));

	worker->idle_looks++;
	if (ready && hwt_lanes_are_empty(worker->lanes))
		hwt_idle_sleep(idle, grid_time(grid, due));
	hwt_idle_end(idle);
	if (unlikely(!ready))
		nap(worker, now_ns);
}

void hwt_worker_settle(struct hwt_worker *worker)
{
	struct hwt_wheel *wheel = worker->wheel;

	if (worker->is_cut)
		return;
	hwt_wheel_settle(wheel);
	/* The bound was reached, and what seemed to be due after it had been cancelled. */
	if (unlikely(wheel->tick <= worker->traffic_tick) && hwt_wheel_next_due(wheel) > worker->traffic_tick)
		hwt_wheel_seek(wheel, worker->traffic_tick + 1);
}

void hwt_worker_rest(struct hwt_worker *worker, int64_t now_ns)
{
	struct hwt_wheel *wheel = worker->wheel;
	int64_t due = wheel->tick;

	if (worker->transferred < TRAFFIC && worker->idle_looks < IDLE_LOOKS && wheel->unplaced.first == NULL) {
		hwt_wheel_settle(wheel);
		due = hwt_wheel_next_due(wheel);
	}
	if (due <= wheel->tick)
		nap(worker, now_ns);
	else
		idle(worker, due, now_ns);
}

void hwt_worker_run(struct hwt_worker *worker)
{
	while (!worker_has_to_stop(worker)) {
		int64_t now_ns = hwt_clock_now();
		bool more = hwt_worker_pass(worker, now_ns);

		hwt_counter_ask(now_ns); /* for the producers */
		if (more)
			continue;
		hwt_worker_rest(worker, now_ns);
		counts_add(&worker->counts.wakeups, 1);
	}
}
