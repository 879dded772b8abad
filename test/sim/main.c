/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs seeds: those of the table, and others; sim.h. */
#include "test.h"
#include "sim/scenes.h"
#include "sim/world.h"
#include "base/sleeper.h"

/* Seeds that once failed, and what they found.  Each run begins with them. */
static const struct {
	const char *scenario;
	uint64_t seed;
	const char *found;
} known[] = {
#include "sim/seeds.h"
};

static unsigned number_in(const char *name, unsigned otherwise)
{
	const char *wish = getenv(name);

	return wish != NULL ? (unsigned)strtoul(wish, NULL, 0) : otherwise;
}

/* HWT_SCALE, as the stress tests have it. */
static unsigned scaled(unsigned count)
{
	return 1 + count * number_in("HWT_SCALE", 100) / 100;
}

static int64_t real_now(void)
{
	struct timespec now;

	(void)timespec_get(&now, TIME_UTC);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* A seed that fails is told and ends the test. */
static bool run_seed(void (*scenario)(void), uint64_t seed, uint64_t *steps)
{
	struct sim_report *report = sim_new_report();
	bool passed;

	report->is_quiet = true;
	passed = sim_run(scenario, seed, report);
	if (!passed)
		sim_shrink(scenario, seed, report);
	*steps += report->steps;
	sim_free_report(report);
	return passed;
}

static bool run_known(const char *name, void (*scenario)(void), uint64_t *steps)
{
	bool passed = true;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && passed; i++)
		if (strcmp(known[i].scenario, name) == 0)
			passed = run_seed(scenario, known[i].seed, steps);
	return passed;
}

/* Runs the seeds of the table and so many others. */
static void run_seeds(const char *name, void (*scenario)(void), unsigned others)
{
	uint64_t seed = getenv("HWT_SEED") != NULL ? strtoull(getenv("HWT_SEED"), NULL, 0) : (uint64_t)real_now();
	int64_t begin_ns = real_now(), end_ns = begin_ns + HWT_S(number_in("HWT_SIM_SECONDS", 0));
	unsigned count = end_ns > begin_ns ? UINT32_MAX : number_in("HWT_SIM_SEEDS", scaled(others)), run = 0;
	uint64_t steps = 0;
	bool passed = run_known(name, scenario, &steps);

	for (; run < count && passed && (run == 0 || end_ns == begin_ns || real_now() < end_ns); run++)
		passed = run_seed(scenario, seed + run, &steps);
	CHECK(passed);
	printf("# %u seeds from %" PRIu64 " on, %" PRIu64 " steps, %.1f million a second\n", run, seed, steps,
	       (double)steps * 1e3 / (double)(real_now() - begin_ns));
}

static void live_with_a_worker(void)
{
	live_as(WORKER);
}

static void live_with_a_loop(void)
{
	(void)sim_plan_begin(0, 0);
	if (!hit(4))
		sim_look_at("idle");
	live_as(EDGE);
}

static void live_with_any(void)
{
	(void)sim_plan_begin(0, 0);
	live_as((enum driving)sim_plan(VIRTUAL + 1));
}

TEST(an_edge_triggered_loop_misses_nothing)
{
	run_seeds("loop", live_with_a_loop, 1000);
}

TEST(each_timeout_has_one_end)
{
	run_seeds("worker", live_with_a_worker, 1000);
}

TEST(any_loop_and_its_pool)
{
	run_seeds("any", live_with_any, 1000);
}

TEST(a_burst_is_given_back)
{
	run_seeds("burst", live_through_a_burst, 3);
}

TEST(what_is_cancelled_behind_a_long_task_is_released)
{
	run_seeds("queue", live_behind_a_long_task, 3);
}

TEST(a_step_of_the_clock_is_heard)
{
	run_seeds("steps", live_through_steps, 3000);
}

TEST(twice_as_many_cost_twice_as_much)
{
	run_seeds("cost", live_at_twice_the_size, 20);
}

TEST(thousands_of_operations_wake_a_sleeper)
{
	run_seeds("sleeper", live_beside_a_sleeper, 20);
}

int main(int argc, char **argv)
{
	return test_run_all(argc, argv);
}
