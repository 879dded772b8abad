/* SPDX-License-Identifier: BSD-2-Clause */
/* A bound on the tasks of one hwt_timer_advance: nothing is lost, the order stays, and the answer says "at once". */
#include "support.h"

#include <poll.h>

static uint32_t transfers = 100000;

static hwt_timer *bounded_timer(uint32_t max_tasks, const hwt_executor *executor)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = HWT_MS(1);
	config.ticks_per_wheel = 16;
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	config.max_tasks_per_advance = max_tasks;
	config.max_transfers_per_tick = transfers;
	config.executor = executor;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	return timer;
}

static uintptr_t ran[4096];
static unsigned ran_count, released;

static void note(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	REQUIRE(ran_count < 4096);
	ran[ran_count++] = (uintptr_t)arg;
}

static void note_release(void *arg)
{
	(void)arg;
	released++;
}

static hwt_timeout schedule(hwt_timer *timer, unsigned number, int64_t delay_ns)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	CHECK_RC(hwt_new_timeout(timer, note, (void *)(uintptr_t)number, delay_ns, &timeout), 0);
	return timeout;
}

/* Advances once; at most `most` tasks run. */
static int64_t advance(hwt_timer *timer, int64_t now_ns, unsigned most)
{
	unsigned before = ran_count;
	int64_t next_ns = -1, asked_ns = -1;

	CHECK_RC(hwt_timer_advance(timer, now_ns, &next_ns), 0);
	CHECK_INT(ran_count - before, <=, most);
	CHECK_RC(hwt_timer_next(timer, &asked_ns), 0);
	CHECK_INT(asked_ns, ==, next_ns);
	return next_ns;
}

TEST(a_bound_is_for_loops_of_ones_own)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.max_tasks_per_advance = 1;
	CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
	CHECK(timer == NULL);
	config.flags = HWT_CALLER_DRIVEN;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_config(timer, &config), 0);
	CHECK_INT(config.max_tasks_per_advance, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(tasks_of_one_tick_run_in_parts_and_in_their_order)
{
	hwt_timer *timer = bounded_timer(3, NULL);
	hwt_stats stats;

	ran_count = 0;
	for (unsigned i = 0; i < 8; i++)
		schedule(timer, i, HWT_MS(5));
	schedule(timer, 8, HWT_MS(40)); /* in the same bucket, of a later round */
	schedule(timer, 9, HWT_MS(6));
	CHECK_INT(advance(timer, HWT_MS(4), 0), ==, HWT_MS(5));
	CHECK_INT(advance(timer, HWT_MS(7), 3), <=, HWT_MS(7));
	CHECK_INT(ran_count, ==, 3);
	CHECK_INT(advance(timer, HWT_MS(2), 0), >, HWT_MS(2)); /* an earlier time runs nothing */
	CHECK_INT(advance(timer, HWT_MS(7), 3), <=, HWT_MS(7));
	schedule(timer, 10, 0);
	CHECK_INT(advance(timer, HWT_MS(7), 3), ==, HWT_MS(7));
	CHECK_INT(ran_count, ==, 9);
	CHECK_INT(advance(timer, HWT_MS(7), 3), ==, HWT_MS(40));
	CHECK_INT(ran_count, ==, 10);
	CHECK_INT(advance(timer, HWT_MS(40), 3), ==, INT64_MAX);
	CHECK_INT(ran_count, ==, 11);
	for (unsigned i = 0; i < 8; i++)
		CHECK_INT(ran[i], ==, i);
	CHECK_INT(ran[8], ==, 9);
	CHECK_INT(ran[9], ==, 10);
	CHECK_INT(ran[10], ==, 8);
	stats = stats_of(timer);
	CHECK_INT(stats.completed, ==, 11);
	CHECK_INT(stats.ticks, ==, 4);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Between two parts of a tick: its tick is being run, and so it runs at the next one. */
TEST(what_comes_in_the_middle_of_a_tick_runs_at_the_next)
{
	hwt_timer *timer = bounded_timer(1, NULL);

	ran_count = 0;
	for (unsigned i = 0; i < 3; i++)
		schedule(timer, i, HWT_MS(5));
	CHECK_INT(advance(timer, HWT_MS(5), 1), ==, HWT_MS(5));
	schedule(timer, 3, 0);
	CHECK_INT(advance(timer, HWT_MS(5), 1), ==, HWT_MS(5));
	CHECK_INT(advance(timer, HWT_MS(5), 1), ==, HWT_MS(6));
	CHECK_INT(ran_count, ==, 3);
	CHECK_INT(advance(timer, HWT_MS(6), 1), ==, INT64_MAX);
	CHECK_INT(ran_count, ==, 4);
	for (unsigned i = 0; i < 4; i++)
		CHECK_INT(ran[i], ==, i);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Exactly as many as may run are no reason to come again at once. */
TEST(what_the_bound_does_not_hold_back_is_not_announced)
{
	hwt_timer *timer = bounded_timer(3, NULL);

	ran_count = 0;
	for (unsigned i = 0; i < 3; i++)
		schedule(timer, i, HWT_MS(5));
	schedule(timer, 3, HWT_MS(9));
	CHECK_INT(advance(timer, HWT_MS(5), 3), ==, HWT_MS(9));
	CHECK_INT(ran_count, ==, 3);
	CHECK_INT(advance(timer, HWT_MS(9), 3), ==, INT64_MAX);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(between_two_parts_a_cancel_a_move_and_a_stop_count)
{
	hwt_spec spec = HWT_SPEC_INIT;
	hwt_timer *timer = bounded_timer(2, NULL);
	hwt_timeout timeouts[10], owned;
	size_t count = 0;

	ran_count = released = 0;
	spec.task = note;
	spec.arg = (void *)(uintptr_t)77;
	spec.when_ns = HWT_MS(3);
	spec.release = note_release;
	for (unsigned i = 0; i < 10; i++)
		timeouts[i] = schedule(timer, i, HWT_MS(3));
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &owned), 0);
	CHECK_INT(advance(timer, HWT_MS(3), 2), <=, HWT_MS(3));
	CHECK_RC(hwt_cancel(timeouts[1]), ENOENT);
	for (unsigned i = 2; i < 5; i++)
		CHECK_RC(hwt_cancel(timeouts[i]), 0); /* of the collected one, and of others */
	CHECK_RC(hwt_cancel(owned), 0);
	CHECK_RC(hwt_reschedule(timeouts[5], HWT_MS(10)), 0);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 5);
	CHECK_INT(advance(timer, HWT_MS(3), 2), <=, HWT_MS(3));
	CHECK_INT(ran_count, ==, 4);
	CHECK_INT(ran[2], ==, 6);
	CHECK_INT(ran[3], ==, 7);
	CHECK_RC(hwt_timer_stop(timer, &count), 0);
	CHECK_INT(count, ==, 3);
	CHECK_INT(released, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_INT(released, ==, 1);
}

TEST(what_was_cancelled_between_two_parts_is_released)
{
	hwt_spec spec = HWT_SPEC_INIT;
	hwt_timer *timer = bounded_timer(1, NULL);
	hwt_timeout owned[5];

	ran_count = released = 0;
	spec.task = note;
	spec.when_ns = HWT_MS(3);
	spec.release = note_release;
	for (unsigned i = 0; i < 5; i++)
		CHECK_RC(hwt_new_timeout_ex(timer, &spec, &owned[i]), 0);
	CHECK_INT(advance(timer, HWT_MS(3), 1), <=, HWT_MS(3));
	for (unsigned i = 1; i < 5; i++)
		CHECK_RC(hwt_cancel(owned[i]), 0);
	CHECK_INT(advance(timer, HWT_MS(3), 0), ==, INT64_MAX);
	CHECK_INT(ran_count, ==, 1);
	CHECK_INT(released, ==, 5);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_periodic_one_keeps_its_grid_and_lets_others_in)
{
	hwt_timer *timer = bounded_timer(1, NULL);
	hwt_timeout periodic;

	ran_count = 0;
	CHECK_RC(hwt_new_periodic(timer, note, (void *)(uintptr_t)1, HWT_MS(2), HWT_MS(2), &periodic), 0);
	schedule(timer, 2, HWT_MS(2));
	for (int64_t now_ns = HWT_MS(2); now_ns <= HWT_MS(6); now_ns += HWT_MS(2)) {
		int64_t next_ns = advance(timer, now_ns, 1);

		if (now_ns == HWT_MS(2)) {
			CHECK_INT(next_ns, <=, now_ns);
			next_ns = advance(timer, now_ns, 1);
		}
		CHECK_INT(next_ns, ==, now_ns + HWT_MS(2));
	}
	CHECK_INT(ran_count, ==, 4);
	CHECK_INT(ran[0], ==, 1);
	CHECK_INT(ran[1], ==, 2);
	CHECK_RC(hwt_cancel(periodic), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static unsigned handed;
static void (*jobs_run[64])(void *job);
static void *jobs[64];

static int hand_over(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx;
	jobs_run[handed] = run;
	jobs[handed++] = job;
	return 0;
}

TEST(what_an_executor_is_handed_counts)
{
	hwt_executor executor = { hand_over, NULL };
	hwt_timer *timer = bounded_timer(4, &executor);
	int64_t next_ns = -1;

	ran_count = handed = 0;
	for (unsigned i = 0; i < 10; i++)
		schedule(timer, i, HWT_MS(1));
	for (unsigned i = 0; i < 3; i++) {
		CHECK_RC(hwt_timer_advance(timer, HWT_MS(1), &next_ns), 0);
		CHECK_INT(handed, ==, i < 2 ? 4 * (i + 1) : 10);
		CHECK((next_ns <= HWT_MS(1)) == (i < 2));
	}
	for (unsigned i = 0; i < handed; i++)
		jobs_run[i](jobs[i]);
	CHECK_INT(ran_count, ==, 10);
	CHECK_RC(hwt_timer_advance(timer, HWT_MS(1), &next_ns), 0);
	CHECK_INT(next_ns, ==, INT64_MAX);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static int run_or_refuse(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx;
	if (++handed % 2 == 0)
		return EAGAIN;
	run(job);
	return 0;
}

TEST(what_an_executor_runs_at_once_or_refuses_counts_once)
{
	hwt_executor executor = { run_or_refuse, NULL };
	hwt_timer *timer = bounded_timer(4, &executor);

	ran_count = handed = 0;
	for (unsigned i = 0; i < 10; i++)
		schedule(timer, i, HWT_MS(1));
	for (unsigned i = 0; i < 3; i++) {
		CHECK_RC(hwt_timer_advance(timer, HWT_MS(1), NULL), 0);
		CHECK_INT(ran_count, ==, i < 2 ? 4 * (i + 1) : 10);
	}
	CHECK_INT(stats_of(timer).executor_refusals, ==, 5);
	CHECK_INT(stats_of(timer).completed, ==, 10);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(the_descriptor_stays_readable_until_all_have_run)
{
	struct pollfd set[1] = { { .events = POLLIN } };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;
	unsigned turns = 0;

	config.tick_duration_ns = HWT_MS(1);
	config.flags = HWT_CALLER_DRIVEN;
	config.max_tasks_per_advance = 2;
	ran_count = 0;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_fd(timer, &set[0].fd), 0);
	for (unsigned i = 0; i < 9; i++)
		schedule(timer, i, HWT_MS(2));
	for (; ran_count < 9 && turns < 100; turns++) {
		REQUIRE(poll(set, 1, (int)(PATIENCE_NS / HWT_MS(1))) == 1);
		(void)advance(timer, hwt_now(), 2);
	}
	CHECK_INT(ran_count, ==, 9);
	CHECK_INT(turns, >=, 5);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* The same calls on a timer without a bound: the same tasks in the same order, after as many advances as it takes. */
TEST(with_a_bound_the_same_runs_in_the_same_order)
{
	struct prng prng = { test_seed("bound") };

	for (unsigned round = 0; round < scaled(60); round++) {
		uint32_t bound = (uint32_t)prng_between(&prng, 1, 9);
		hwt_timer *timers[2] = { bounded_timer(0, NULL), bounded_timer(bound, NULL) };
		uintptr_t first[4096];
		hwt_timeout timeouts[2][300];
		unsigned scheduled = 0, first_count = 0;
		int64_t now_ns = 0;

		while (scheduled < 300) {
			unsigned crowd = (unsigned)prng_between(&prng, 1, 40), victim, end;
			int64_t delay_ns, move_ns = prng_between(&prng, -HWT_MS(1), HWT_MS(30));

			for (end = scheduled + crowd; scheduled < end && scheduled < 300; scheduled++) {
				delay_ns = HWT_MS(prng_between(&prng, -1, 40));
				for (unsigned t = 0; t < 2; t++)
					timeouts[t][scheduled] = schedule(timers[t], scheduled, delay_ns);
			}
			victim = (unsigned)prng_below(&prng, scheduled);
			CHECK_INT(hwt_cancel(timeouts[0][victim]), ==, hwt_cancel(timeouts[1][victim]));
			victim = (unsigned)prng_below(&prng, scheduled);
			CHECK_INT(hwt_reschedule(timeouts[0][victim], move_ns), ==,
				  hwt_reschedule(timeouts[1][victim], move_ns));
			now_ns += HWT_MS(prng_between(&prng, 0, 12));
			ran_count = 0;
			for (int64_t next_ns = 0; next_ns <= now_ns;)
				next_ns = advance(timers[0], now_ns, 4096);
			first_count = ran_count;
			memcpy(first, ran, sizeof(first));
			ran_count = 0;
			for (int64_t next_ns = 0; next_ns <= now_ns;)
				next_ns = advance(timers[1], now_ns, bound);
			CHECK_INT(ran_count, ==, first_count);
			CHECK(memcmp(first, ran, first_count * sizeof(*ran)) == 0);
		}
		CHECK_INT(hwt_pending_timeouts(timers[0]), ==, hwt_pending_timeouts(timers[1]));
		CHECK_RC(hwt_timer_destroy(timers[0]), 0);
		CHECK_RC(hwt_timer_destroy(timers[1]), 0);
	}
}

/* A load that never rests: each task schedules two more, one of which it cancels once that is in the wheel. */
#define ALWAYS 3
static hwt_timeout far[64];
static unsigned runs, cancels;

static void go_on(hwt_timeout timeout, void *arg)
{
	hwt_timer *timer = hwt_timeout_timer(timeout);
	hwt_timeout *place = &far[runs++ % 64];

	(void)arg;
	cancels += hwt_cancel(*place) == 0;
	CHECK_RC(hwt_new_timeout(timer, go_on, NULL, 0, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, note, NULL, HWT_S(3600), place), 0);
}

/* Something more is always due than the bound lets run.  What has ended and what was cancelled serves all the same. */
TEST(memory_is_used_again_however_often_the_bound_cuts)
{
	hwt_timer *timer = bounded_timer(1, NULL);
	unsigned turns = scaled(100000);

	memset(far, 0, sizeof(far));
	runs = cancels = 0;
	for (unsigned i = 0; i < ALWAYS; i++)
		CHECK_RC(hwt_new_timeout(timer, go_on, NULL, 0, NULL), 0);
	for (unsigned i = 0; i < turns; i++)
		CHECK_RC(hwt_timer_advance(timer, HWT_MS(i + 1), NULL), 0);
	CHECK_INT(runs, >=, turns - 1);
	CHECK_INT(cancels, ==, runs - 64);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 64 + ALWAYS);
	CHECK_INT(stats_of(timer).records, <, 1000);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
