/* SPDX-License-Identifier: BSD-2-Clause */
/* The tests of the simulation; sim.h. */
#include "test.h"
#include "sim/scenes.h"
#include "sim/world.h"
#include "base/sleeper.h"

static uint64_t steps;

/* Runs a seed.  If it fails, shortens its story and tells it. */
bool sim_run_seed(void (*scenario)(void), uint64_t seed)
{
	struct sim_report *report = sim_new_report();
	bool passed;

	report->is_quiet = true;
	passed = sim_run(scenario, seed, report);
	if (!passed)
		sim_shrink(scenario, seed, report);
	steps += report->steps;
	sim_free_report(report);
	return passed;
}

void sim_say_sum(unsigned seeds, uint64_t first, double seconds)
{
	printf("# %u seeds from %" PRIu64 " on, %" PRIu64 " steps, %.1f million a second\n", seeds, first, steps,
	       (double)steps / seconds / 1e6);
	steps = 0;
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

/* Seeds that once failed, and the faults that they found.  Each run begins with them. */
static const struct sim_known known[] = {
	{ live_with_a_loop, 200147, "a ring was noted only when it was over: the loop missed an edge" },
	{ live_with_any, 79, "what was cancelled without a place went home from the middle of a list" },
	{ live_with_any, 1000197, "a call without more room forgot what runs again and is held" },
};

static void run_seeds(void (*scenario)(void), unsigned others)
{
	CHECK(sim_run_seeds(scenario, others, known, sizeof(known) / sizeof(known[0])));
}

TEST(an_edge_triggered_loop_misses_nothing)
{
	run_seeds(live_with_a_loop, 1000);
}

TEST(each_timeout_has_one_end)
{
	run_seeds(live_with_a_worker, 1000);
}

TEST(any_loop_and_its_pool)
{
	run_seeds(live_with_any, 1000);
}

TEST(a_burst_is_given_back)
{
	run_seeds(live_through_a_burst, 3);
}

TEST(a_step_of_the_clock_is_heard)
{
	run_seeds(live_through_steps, 3000);
}

TEST(twice_as_many_cost_twice_as_much)
{
	run_seeds(live_at_twice_the_size, 20);
}

TEST(thousands_of_operations_wake_a_sleeper)
{
	run_seeds(live_beside_a_sleeper, 20);
}

int main(int argc, char **argv)
{
	return test_run_all(argc, argv);
}
