/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenes that chance would hardly produce: a burst, steps of the clock, doubled sizes; sim.h. */
#include "sim/scenes.h"
#include "sim/sim.h"
#include "base/mem.h"
#include "base/sleeper.h"
#include "tunables.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

static hwt_timer *timer;

static void create(hwt_config config)
{
	config.warn = NULL;
	config.tick_duration_ns = HWT_US(10) << sim_random(8);
	config.flags |= HWT_FINE_TICKS;
	config.ticks_per_wheel = 1u << sim_random(10);
	config.wheel = sim_random(2) == 0 ? HWT_WHEEL_HIERARCHICAL : HWT_WHEEL_HASHED;
	SIM_CHECK(hwt_timer_create(&timer, &config) == 0);
}

/* Draws a time: some microseconds as likely as some milliseconds. */
static int64_t some_time(int64_t max_ns)
{
	return (int64_t)sim_random((uint64_t)max_ns >> sim_random(12));
}

/*
 * A burst over several slabs of records; in each slab a task runs on while the worker trims.  When all is quiet again
 * the timer holds at most what a fresh timer holds, and memory that is not worth a trim.
 */
#define BURST 160000
#define A_SLAB 32768
#define NOT_WORTH_IT ((uint64_t)4 << 20)

static void run_long(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	sim_sleep(*(int64_t *)arg);
}

static uint64_t bytes_held(void)
{
	hwt_stats stats = { .size = sizeof(stats) };

	SIM_CHECK(hwt_timer_stats(timer, &stats) == 0);
	return stats.bytes;
}

void live_through_a_burst(void)
{
	static hwt_timeout burst[BURST];
	int64_t length_ns = HWT_S(5) + some_time(HWT_S(5));
	hwt_config config = HWT_CONFIG_INIT;
	uint64_t fresh;

	config.task_threads = 8;
	create(config);
	SIM_CHECK(hwt_new_timeout(timer, run_long, &length_ns, HWT_MS(10), NULL) == 0);
	fresh = bytes_held();
	for (unsigned i = 0; i < BURST; i++)
		SIM_CHECK(hwt_new_timeout(timer, run_long, &length_ns, i % A_SLAB == 0 ? 0 : HWT_S(100), &burst[i]) ==
			  0);
	sim_sleep(HWT_MS(100));
	for (unsigned i = 0; i < BURST; i++)
		if (i % A_SLAB != 0)
			SIM_CHECK(hwt_cancel(burst[i]) == 0);
	sim_sleep(length_ns + HWT_S(60));
	SIM_CHECK(hwt_pending_timeouts(timer) == 0);
	SIM_CHECK(bytes_held() <= fresh + 2 * NOT_WORTH_IT); /* for the lanes, and for the wheel */
	SIM_CHECK(hwt_timer_destroy(timer) == 0);
}

#define STEP_DELAY_NS HWT_MS(5)
#define PATIENCE (HWT_MS(5) + 4 * SIM_HOLD_MAX_NS)

/* Returns when all is quiet. */
static void let_rest(void)
{
	int64_t held_ns;

	do {
		held_ns = sim_held();
		sim_sleep(STEP_DELAY_NS + PATIENCE);
	} while (sim_held() != held_ns);
}

static void count_run(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	++*(unsigned *)arg;
	sim_sleep(some_time(HWT_US(100)));
}

/* Advances at each ring.  It tells a time that it has read some time before. */
static void *advance_at_each_ring(void *set)
{
	for (;;) {
		int64_t now_ns = hwt_clock_now(HWT_CLOCK_REALTIME);
		int rc;

		if (sim_random(2) == 0)
			sim_sleep(some_time(STEP_DELAY_NS));
		rc = hwt_timer_advance(timer, now_ns, NULL);
		SIM_CHECK(rc == 0 || rc == ECANCELED);
		if (rc != 0)
			return set;
		(void)poll(set, 1, -1);
	}
}

/* After a step of the clock new timeouts run in time, wherever the worker or the loop was. */
void live_through_steps(void)
{
	hwt_config config = HWT_CONFIG_INIT;
	unsigned before = 0, after = 0, wanted = 0;
	struct pollfd set[1] = { { .events = POLLIN } };
	struct sim_actor *loop = NULL;

	config.clock = HWT_CLOCK_REALTIME;
	config.flags = sim_random(2) == 0 ? HWT_CALLER_DRIVEN : 0;
	sim_look_at(config.flags == 0 ? "poll" : "idle");
	create(config);
	if (config.flags != 0) {
		SIM_CHECK(hwt_timer_fd(timer, &set[0].fd) == 0);
		loop = sim_start("loop", advance_at_each_ring, set);
	}
	for (unsigned i = (unsigned)sim_random(21); i > 0; i--) {
		SIM_CHECK(hwt_new_timeout(timer, count_run, &before, some_time(STEP_DELAY_NS), NULL) == 0);
		sim_sleep(some_time(STEP_DELAY_NS));
		sim_step_clock(sim_random(2) == 0 ? HWT_S(10) : -HWT_S(10));
		SIM_CHECK(hwt_new_timeout(timer, count_run, &after, some_time(STEP_DELAY_NS), NULL) == 0);
		let_rest();
		SIM_CHECK(after == ++wanted);
	}
	SIM_CHECK(hwt_timer_stop(timer, NULL) == 0);
	if (loop != NULL)
		(void)sim_join(loop);
	SIM_CHECK(hwt_timer_destroy(timer) == 0);
}

/*
 * Cost: the steps of a life in virtual time with n timeouts, and of one with twice as many.
 */
#define FEW 2000
#define LANES_APART 125 /* timeouts for each lane */

static void count_only(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	++*(unsigned *)arg;
}

static void advance_to(int64_t now_ns)
{
	SIM_CHECK(hwt_timer_advance(timer, now_ns, NULL) == 0);
}

/* Returns the steps of lives in which timeouts are moved, cancelled and run tick by tick. */
static uint64_t steps_of_lives(unsigned count, hwt_config config)
{
	static hwt_timeout timeouts[2 * FEW];
	uint64_t before = sim_steps();
	unsigned runs = 0, cancelled = 0;

	SIM_CHECK(hwt_timer_create(&timer, &config) == 0);
	for (unsigned i = 0; i < count; i++)
		SIM_CHECK(hwt_new_timeout(timer, count_only, &runs, (int64_t)sim_random(HWT_S(10)), &timeouts[i]) == 0);
	advance_to(1);
	for (unsigned i = 0; i < count; i++) {
		if (i % 4 == 0)
			cancelled += hwt_cancel(timeouts[i]) == 0;
		else if (i % 4 == 1)
			SIM_CHECK(hwt_reschedule(timeouts[i], (int64_t)sim_random(HWT_S(20))) == 0);
		SIM_CHECK(hwt_timeout_state(timeouts[i]) != HWT_RETIRED);
	}
	for (int64_t now_ns = 0; now_ns < HWT_S(21); now_ns += HWT_MS(100))
		advance_to(now_ns);
	SIM_CHECK(runs + cancelled == count);
	SIM_CHECK(hwt_timer_destroy(timer) == 0);
	return sim_steps() - before;
}

static bool refuse_all(void)
{
	return true;
}

/* Returns the steps of timeouts that are all due at two ticks and find no place in the wheel. */
static uint64_t steps_without_memory(unsigned count, hwt_config config)
{
	uint64_t before = sim_steps();
	unsigned runs = 0;

	SIM_CHECK(hwt_timer_create(&timer, &config) == 0);
	for (unsigned i = 0; i < count; i++)
		SIM_CHECK(hwt_new_timeout(timer, count_only, &runs, HWT_S(1 + i % 2), NULL) == 0);
	hwt_test_mem_refuses = refuse_all;
	advance_to(1);
	advance_to(HWT_S(1) + HWT_MS(500));
	advance_to(HWT_S(3));
	hwt_test_mem_refuses = NULL;
	SIM_CHECK(runs == count);
	SIM_CHECK(hwt_timer_destroy(timer) == 0);
	return sim_steps() - before;
}

static void *schedule_some(void *count)
{
	for (unsigned i = *(unsigned *)count; i > 0; i--)
		SIM_CHECK(hwt_new_timeout(timer, count_only, NULL, HWT_S(1), NULL) == 0);
	return NULL;
}

/* Returns the steps of a stop before any advance: all timeouts wait in the last of many lanes. */
static uint64_t steps_of_a_stop(unsigned count, hwt_config config)
{
	uint64_t before = sim_steps();
	unsigned one = 1, lanes = count / LANES_APART;
	size_t left;

	SIM_CHECK(hwt_timer_create(&timer, &config) == 0);
	for (unsigned i = 1; i <= lanes; i++)
		(void)sim_join(sim_start("a producer", schedule_some, i < lanes ? &one : &count));
	SIM_CHECK(hwt_timer_stop(timer, &left) == 0 && left == lanes - 1 + count);
	SIM_CHECK(hwt_timer_destroy(timer) == 0);
	return sim_steps() - before;
}

void live_at_twice_the_size(void)
{
	static uint64_t (*const steps_of[])(unsigned, hwt_config) = { steps_of_lives, steps_without_memory,
								      steps_of_a_stop };
	unsigned which = (unsigned)sim_random(4) % 3;
	hwt_config config = HWT_CONFIG_INIT;
	uint64_t few, many;

	hwt_test_cores = 512;
	if (which == 0 && sim_random(2) == 0)
		hwt_test_slab_records = 64;
	config.warn = NULL;
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	config.tick_duration_ns = HWT_MS(1) << sim_random(5);
	config.ticks_per_wheel = 64u << sim_random(5);
	config.wheel = sim_random(2) == 0 ? HWT_WHEEL_HIERARCHICAL : HWT_WHEEL_HASHED;
	few = steps_of[which](FEW, config);
	many = steps_of[which](2 * FEW, config);
	sim_say("%ld steps, with twice as many %ld", (long)few, (long)many);
	SIM_CHECK(many < few * 9 / 4);
}

/*
 * New timeouts and cancels gather in the lane of a thread while the worker sleeps, or naps in a long tick: some
 * thousands at most.  For these the worker wakes up once, not for each.
 */
#define GATHER 4096
#define GATHERED (3 * GATHER)

void live_beside_a_sleeper(void)
{
	static hwt_timeout far[GATHERED];
	uint64_t count = sim_random(2) == 0 ? GATHER : 1 + sim_random(GATHERED);
	uint64_t cancels = sim_random(2) * sim_random(2 * GATHER);
	unsigned ran = 0;
	bool naps = sim_random(2) == 0;
	hwt_config config = HWT_CONFIG_INIT;
	hwt_stats before = { .size = sizeof(before) }, after = before;

	hwt_test_enough = SIZE_MAX;
	config.tick_duration_ns = naps ? HWT_MS(256) : HWT_MS(1);
	SIM_CHECK(hwt_timer_create(&timer, &config) == 0);
	for (unsigned i = 0; i < GATHERED; i++)
		SIM_CHECK(hwt_new_timeout(timer, count_only, NULL, HWT_S(1000), &far[i]) == 0);
	SIM_CHECK(hwt_new_timeout(timer, count_only, &ran, 0, NULL) == 0);
	sim_sleep(HWT_S(2));
	SIM_CHECK(hwt_timer_stats(timer, &before) == 0 && before.transfers == GATHERED + 1);
	for (unsigned i = 0; i < count; i++) {
		if (i < cancels)
			SIM_CHECK(hwt_cancel(far[i]) == 0);
		else
			SIM_CHECK(hwt_new_timeout(timer, count_only, NULL, HWT_S(1000), NULL) == 0);
		if (i % 64 == 0 && !naps)
			sim_sleep(HWT_MS(3));
	}
	sim_sleep(PATIENCE);
	SIM_CHECK(hwt_timer_stats(timer, &after) == 0);
	sim_say("%ld operations, %ld taken in", (long)count, (long)(after.transfers - before.transfers));
	SIM_CHECK(after.transfers - before.transfers + GATHER > count);
	SIM_CHECK(after.wakeups - before.wakeups <= 8 + 4 * count / GATHER);
	SIM_CHECK(hwt_timer_destroy(timer) == 0);
}
