/* SPDX-License-Identifier: BSD-2-Clause */
/* The worker between two passes: how long it sleeps (worker.h), after the handshake with producers (idle.h). */
#include "worker/trim.h"
#include "worker/worker.h"
#include "base/counter.h"
#include "lane/lane.h"

/* With this many records in one tick there is traffic: going idle would cost more than a check at the next tick. */
#define TRAFFIC 64

/* How often the worker may go idle in one tick.  Then it naps until the next. */
#define IDLE_LOOKS 2

/* A nap of at least this length ends early if a lane grows long, for the sake of memory. */
#define LONG_NAP_NS HWT_MS(4)

/*
 * Sleeps to the next tick.  Only a long nap is published, so that a lane that grows long may end it.  Publishing needs
 * no fence here: a wake that the nap misses comes with the producer's next operation, and the tick comes soon.
 */
static void nap(struct hwt_worker *worker, int64_t now_ns)
{
	struct hwt_idle *idle = &worker->lanes->idle;
	int64_t until_ns = grid_time(&worker->wheel->grid, worker->wheel->tick);

	if (until_ns - LONG_NAP_NS < now_ns) {
		hwt_idle_sleep(idle, until_ns);
		return;
	}
	idle_publish(idle, IDLE_NAP);
	hwt_idle_sleep(idle, until_ns);
	idle_publish(idle, IDLE_AWAKE);
}

/*
 * Sleeps until the tick `due`, unless the lanes have operations.
 *
 * The worker publishes the time of the tick before `due`: a timeout for a later time belongs to tick `due` or to a
 * later tick, and need not wake the worker.  If the system refuses the fence, the check of the lanes proves nothing.
 * Then the worker naps, and checks again at the next tick.
 */
static void idle(struct hwt_worker *worker, int64_t due, int64_t now_ns)
{
	struct hwt_grid *grid = &worker->wheel->grid;
	struct hwt_idle *idle = &worker->lanes->idle;
	bool ready = hwt_idle_begin(idle, grid_time(grid, due - 1));

	worker->traffic.idle_looks++;
	if (ready && hwt_lanes_are_empty(worker->lanes))
		hwt_idle_sleep(idle, grid_time(grid, due));
	idle_publish(idle, IDLE_AWAKE);
	if (unlikely(!ready))
		nap(worker, now_ns);
}

/* Naps if there is traffic, if unplaced records wait for memory, or if the next tick has work.  Otherwise idles. */
void hwt_worker_rest(struct hwt_worker *worker, int64_t now_ns)
{
	struct hwt_wheel *wheel = worker->wheel;
	int64_t due = wheel->tick;

	if (unlikely(hwt_worker_trim(worker, now_ns))) {
		nap(worker, now_ns);
		return;
	}
	if (worker->traffic.transferred < TRAFFIC && worker->traffic.idle_looks < IDLE_LOOKS &&
	    wheel->unplaced.first == NULL) {
		hwt_wheel_settle(wheel);
		due = hwt_worker_trim_due(worker, hwt_wheel_next_due(wheel), now_ns);
	}
	if (due <= wheel->tick)
		nap(worker, now_ns);
	else
		idle(worker, due, now_ns);
}

void hwt_worker_run(struct hwt_worker *worker)
{
	while (!worker_has_to_stop(worker)) {
		int64_t now_ns = worker_now(worker);
		bool more = hwt_worker_pass(worker, now_ns);

		if (worker->clock == HWT_CLOCK_MONOTONIC)
			hwt_counter_ask(now_ns); /* producers use the answer */
		if (more)
			continue;
		hwt_worker_rest(worker, now_ns);
		counts_add(&worker->counts.wakeups, 1);
	}
}
