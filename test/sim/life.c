/* SPDX-License-Identifier: BSD-2-Clause */
/* A life: settings by the seed, then rounds; world.h. */
#include "sim/world.h"
#include "base/mem.h"
#include "timer/timer.h"
#include "tunables.h"

#include <errno.h>

/* If memory never came back, a worker would try at each tick for as long as its producers sleep. */
#define REFUSED_MAX UINT64_C(1000000)

#define VAIN_MAX 10000 /* advances that only take in operations, one by one */
#define WAKES_MAX 400  /* wakes of a worker that naps in traffic, and waits for memory */

static bool refuses(void)
{
	bool no = world.refuse_all > 0 || (world.refused < REFUSED_MAX && sim_random(256) < world.refuse);

	world.refused += no;
	return no;
}

/* Returns how often the worker or the loop has come. */
static uint64_t times(void)
{
	return world.driving == WORKER ? counts_get(&world.timer->worker.counts.wakeups) : world.advances;
}

/*
 * Returns when only periodic timeouts are left to happen.  Then a worker, or a loop that is told when to come, sleeps.
 */
void let_rest(void)
{
	uint64_t before = times(), runs = world.sums.runs, naps;
	int64_t first_ns = sim_held(), held_ns;

	do {
		held_ns = sim_held();
		sim_sleep(world.delay_max_ns + world_patience());
	} while (sim_held() != held_ns);
	for (unsigned i = 0; i < 1000 && !sim_others_wait(); i++)
		sim_sleep(HWT_US(50));
	naps = (uint64_t)((held_ns - first_ns) / world.tick_ns); /* naps beside a push that is held up */
	if (world.driving == WORKER)
		SIM_CHECK(times() - before <= 8 * (world.sums.runs - runs) + naps + WAKES_MAX);
	else if (world.driving <= EARLIER && !world.has_pool)
		SIM_CHECK(times() - before <= 2 * (world.sums.runs - runs) + VAIN_MAX);
}

static void choose_places(void)
{
	static const long cores[] = { 1, 2, 16, 64, 512 };

	hwt_test_cores = cores[sim_plan(sim_plan(4) == 0 ? 5 : 2)];
	hwt_test_no_membarrier = hit(4);
	if (hit(2))
		hwt_test_slab_records = 64u << sim_plan(6);
	if (hit(4))
		hwt_test_full = 16u << sim_plan(6);
	if (hit(2))
		hwt_test_enough = (size_t)1 << sim_plan(20);
}

static bool chooses_to_collect(void)
{
	uint64_t plan = sim_plan_begin(UINT64_C(5000000), 0);
	bool collects = hit(3);

	sim_plan_end(plan);
	return collects;
}

static void choose_config(void)
{
	hwt_config *config = &world.config;

	*config = (hwt_config)HWT_CONFIG_INIT;
	config->warn = NULL;
	config->user = &world;
	config->tick_duration_ns = HWT_US(10) << sim_plan(8);
	config->ticks_per_wheel = 1u << sim_plan(10);
	config->wheel = hit(2) ? HWT_WHEEL_HIERARCHICAL : HWT_WHEEL_HASHED;
	config->max_transfers_per_tick = hit(2) ? 100000 : 1 + (uint32_t)sim_plan(64);
	config->max_pending_timeouts = hit(4) ? 1 + (int64_t)sim_plan(64) : 0;
	config->flags = HWT_FINE_TICKS;
	world.has_pool = hit(3);
	if (world.driving == WORKER) {
		config->task_threads = world.has_pool ? 0 : (uint32_t)sim_plan(hit(8) ? 9 : 3);
	} else {
		config->flags |= HWT_CALLER_DRIVEN | (world.driving == VIRTUAL ? HWT_VIRTUAL_CLOCK : 0);
		config->max_tasks_per_advance = hit(3) ? 1 + (uint32_t)sim_plan(8) : 0;
	}
	if (world.driving != VIRTUAL && world.driving != EARLIER && world.driving != NAPS)
		config->clock = hit(2) ? HWT_CLOCK_MONOTONIC : (uint32_t)sim_plan(HWT_CLOCK_REALTIME + 1);
	world.collects = config->flags != HWT_FINE_TICKS && !world.has_pool && chooses_to_collect();
	config->flags |= world.collects ? HWT_COLLECT : 0;
	world.tick_ns = config->tick_duration_ns;
	world.delay_max_ns = HWT_US(50) << sim_plan(hit(4) && world.driving <= EARLIER ? 25 : 9);
	world.step_ns = INT64_MIN / 2;
}

/* Checks that a creation that runs out of memory leaves nothing behind. */
static void try_in_vain(void)
{
	unsigned blocks = sim_blocks();

	world.refuse = hit(4) ? 64 : 0;
	for (unsigned i = 0; i < 4 && world.refuse > 0; i++) {
		int rc = hwt_timer_create(&world.timer, &world.config);

		SIM_CHECK(rc == 0 || rc == ENOMEM || rc == EMFILE);
		if (rc == 0)
			SIM_CHECK(hwt_timer_destroy(world.timer) == 0);
		SIM_CHECK(sim_blocks() == blocks);
	}
	world.refuse = 0;
}

static void create(void)
{
	int rc;

	(void)sim_plan_begin(UINT64_C(4000000), 0);
	choose_places();
	choose_config();
	begin_actors();
	try_in_vain();
	SIM_CHECK(hwt_timer_create(&world.timer, &world.config) == 0);
	SIM_CHECK(hwt_timer_config(world.timer, &world.config) == 0);
	world.refuse = hit(4) ? 128 : 0;
	while ((rc = hwt_timer_start(world.timer)) != 0)
		SIM_CHECK(rc == EAGAIN || rc == ENOMEM);
	world.refuse = 0;
	SIM_CHECK(hwt_timer_grid(world.timer, &world.start_ns) == 0);
	world.is_started = true;
	begin_loop();
}

/* Sets the time of the day. */
static void step_clock(void)
{
	int64_t by_ns = some_time(hit(2) ? HWT_S(10) : world.delay_max_ns);

	if (!hit(2))
		return;
	if (world.config.clock != HWT_CLOCK_REALTIME) {
		sim_step_clock(hit(2) ? by_ns : -by_ns); /* which must not affect this timer */
		return;
	}
	sim_sleep(some_time(world.delay_max_ns));
	world_step(hit(2) ? by_ns : -by_ns);
}

static void live_in_rounds(void)
{
	bool has_faults = hit(2);

	for (unsigned i = (unsigned)sim_plan(8); i > 0; i--) {
		world.refuse = has_faults && hit(2) ? 1u << sim_plan(9) : 0;
		begin_round();
		step_clock();
		end_round();
		world.refuse = 0;
		let_rest();
		judge_quiet();
	}
	world.refuse = has_faults && hit(2) ? 1u << sim_plan(9) : 0;
	begin_round();
	if (hit(2))
		sim_sleep(some_time(world.delay_max_ns));
}

void live_as(enum driving driving)
{
	bool stops;

	world.driving = driving;
	hwt_test_mem_refuses = refuses;
	create();
	live_in_rounds();
	stops = !hit(4);
	if (stops)
		(void)call_stop();
	end_producers();
	if (!stops)
		(void)call_stop();
	end_actors();
	SIM_CHECK(hwt_timer_destroy(world.timer) == 0);
	SIM_CHECK(sim_blocks() == 0);
	judge_ends(true);
}
