/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small world, all of it: every delay at every tick of small wheels, the number pending against a closed formula,
 * wake-ups against what they are for; Kafka's case; and a random model with delays up to 2^52.
 */
#include "check/check.h"
#include "unit.h"

#define START HWT_S(1000)
#define TICK HWT_MS(1)

/* Each timeout of a test, found by its arg. */
struct timeout {
	hwt_timeout handle;
	int64_t deadline_ns;
	int64_t tick; /* at which it has to run */
	bool over;
};

static struct timeout *all;
static size_t count, room, ran;
static hwt_timer *timer;

static void begin(hwt_config config, int64_t start_ns)
{
	count = ran = 0;
	timer = driven_create(&config, start_ns);
}

static void end(void)
{
	driven_destroy(timer);
}

static void run_once_in_its_tick(hwt_timeout timeout, void *arg)
{
	struct timeout *it = &all[(uintptr_t)arg - 1];

	CHECK(timeout.entry == it->handle.entry && timeout.generation == it->handle.generation);
	CHECK(!it->over);
	CHECK_INT(timer->wheel->tick, ==, it->tick);
	CHECK_INT(it->deadline_ns, <=, fake_now_ns);
	it->over = true;
	ran++;
}

/* The place for one more. */
static struct timeout *another(void)
{
	if (count == room) {
		room = room == 0 ? 1024 : room * 2;
		all = realloc(all, room * sizeof(*all));
		REQUIRE(all != NULL);
	}
	return &all[count++];
}

static void arm(int64_t delay_ns, int64_t tick)
{
	struct timeout *it = another();

	*it = (struct timeout){ HWT_TIMEOUT_NONE, fake_now_ns + delay_ns, tick, false };
	CHECK_INT(hwt_new_timeout(timer, run_once_in_its_tick, (void *)count, delay_ns, &it->handle), ==, 0);
}

/* 1 + 2 + .. + n. */
static int64_t triangle(int64_t n)
{
	return n > 0 ? n * (n + 1) / 2 : 0;
}

/*
 * At each tick t = 0 .. arms - 1, `offset_ns` after it and after its pass, one timeout is armed for each delay of
 * d = 0 .. delays - 1 whole ticks.  How many are pending after the arming at tick T?
 *
 * Let k = T - t be the age in ticks of those that were armed together.
 *
 *   Between ticks (offset > 0) the deadline lies behind tick t + d, so it runs at t + d + 1 and is pending while
 *   d + 1 > k, that is d = k .. delays - 1: delays - k of them, if that is positive.
 *
 *   On a tick (offset = 0) it runs at t + d, but d = 0 has missed the pass of t and runs at t + 1, as d = 1 does.  So
 *   all `delays` at k = 0; later on those with d > k: delays - 1 - k.  That is delays - 1 - k in all cases, and one
 *   more at k = 0.
 *
 * With n = delays or delays - 1 the sum of max(0, n - k) for k = a .. b is triangle(n - a) - triangle(n - 1 - b); b is
 * T, and a is 0 while timeouts are being armed, T - arms + 1 afterwards.
 */
static int64_t pending_at(int64_t tick, int64_t arms, int64_t delays, bool on_tick)
{
	int64_t n = on_tick ? delays - 1 : delays, a = tick < arms ? 0 : tick - arms + 1;

	return triangle(n - a) - triangle(n - 1 - tick) + (on_tick && a == 0);
}

static void every_delay_at_every_tick(uint32_t wheel, int64_t offset_ns)
{
	int64_t arms = 3 * (int64_t)wheel + 1, delays = 4 * (int64_t)wheel + 3;

	begin(driven_config(TICK, wheel), START);
	for (int64_t tick = 0; tick < arms + delays + 2; tick++) {
		driven_pass(timer, START + tick * TICK);
		fake_now_ns += offset_ns;
		for (int64_t delay = 0; tick < arms && delay < delays; delay++)
			arm(delay * TICK, tick + (offset_ns > 0 || delay == 0 ? delay + 1 : delay));
		CHECK_INT(hwt_pending_timeouts(timer), ==, pending_at(tick, arms, delays, offset_ns == 0));
		hwt_check(timer);
	}
	CHECK_INT(ran, ==, arms * delays);
	CHECK_INT(hwt_wheel_next_due(timer->wheel), ==, HWT_TICK_NEVER);
	end();
}

TEST(row16_every_delay_at_every_tick_and_a_closed_formula)
{
	for (uint32_t wheel = 1; wheel <= 16; wheel *= 2) {
		every_delay_at_every_tick(wheel, 0);
		every_delay_at_every_tick(wheel, 1);
		every_delay_at_every_tick(wheel, TICK - 1);
	}
}

/* Each in turn is cancelled, alone, from each tick: the others run as if it had not been there. */
TEST(row16_every_delay_at_every_tick_with_one_cancelled)
{
	for (uint32_t wheel = 1; wheel <= 8; wheel *= 2) {
		for (size_t victim = 0; victim < 3 * wheel; victim++) {
			for (int64_t from = 0; from < 2 * (int64_t)wheel; from++) {
				begin(driven_config(TICK, wheel), START);
				driven_pass(timer, START + from * TICK);
				for (int64_t delay = 1; delay <= 3 * (int64_t)wheel; delay++)
					arm(delay * TICK, from + delay);
				driven_pass(timer, fake_now_ns);
				CHECK_INT(hwt_cancel(all[victim].handle), ==, 0);
				all[victim].over = true;
				driven_walk(timer, START + (from + 3 * (int64_t)wheel) * TICK);
				CHECK_INT(ran, ==, 3 * wheel - 1);
				hwt_check(timer);
				end();
			}
		}
	}
}

/*
 * Each in turn is moved, alone, at each tick before its own and to each tick: earlier, later, to where it is, and to
 * one that has passed, which means the next.  The others run as if nothing had been.
 */
static void one_moved(uint32_t wheel, int64_t from, int64_t delay, int64_t at, int64_t to)
{
	int64_t delays = 3 * (int64_t)wheel;

	begin(driven_config(TICK, wheel), START);
	driven_pass(timer, START + from * TICK);
	for (int64_t other = 1; other <= delays; other++)
		arm(other * TICK, from + other);
	driven_walk(timer, START + at * TICK); /* at == from: it is in the wheel, but no tick has gone by */
	all[delay - 1].deadline_ns = START + to * TICK;
	all[delay - 1].tick = to > at ? to : at + 1;
	CHECK_INT(hwt_reschedule_at(all[delay - 1].handle, START + to * TICK), ==, 0);
	driven_walk(timer, START + (from + 5 * (int64_t)wheel) * TICK);
	CHECK_INT(ran, ==, delays);
	CHECK_INT(hwt_wheel_next_due(timer->wheel), ==, HWT_TICK_NEVER);
	hwt_check(timer);
	end();
}

TEST(row16_every_delay_at_every_tick_with_one_moved)
{
	for (uint32_t wheel = 1; wheel <= 8; wheel *= 2) {
		int64_t delays = 3 * (int64_t)wheel, from_end = wheel < 8 ? 2 * (int64_t)wheel : 2;

		for (int64_t from = 0; from < from_end; from++)
			for (int64_t delay = 1; delay <= delays; delay++)
				for (int64_t at = from; at < from + delay; at++)
					for (int64_t to = from; to <= from + 5 * (int64_t)wheel; to++)
						one_moved(wheel, from, delay, at, to);
	}
}

/* Goes from wake-up to wake-up.  Returns how many there were, and in *idle those at which nothing ran. */
static size_t sleep_and_wake(size_t *idle)
{
	size_t wakes = 0;
	int64_t tick;

	*idle = 0;
	while ((tick = hwt_wheel_next_due(timer->wheel)) != HWT_TICK_NEVER) {
		size_t before = ran;

		CHECK_INT(tick, >=, timer->wheel->tick);
		driven_pass(timer, grid_time(&timer->wheel->grid, tick));
		*idle += ran == before;
		REQUIRE(++wakes < 1000000);
	}
	return wakes;
}

/* In a wheel of levels some wake-ups bring down a bucket of many. */
#define SLICES (test_is_hierarchical() ? 40u : 0u)

/* A wake-up is for somebody who runs in it, or for somebody who was cancelled; none comes twice. */
TEST(row16_wake_ups_make_progress)
{
	uint64_t seed = random_seed();

	for (uint32_t wheel = 1; wheel <= 1024; wheel *= 4) {
		for (unsigned cancels_of_10 = 0; cancels_of_10 < 10; cancels_of_10 += 3) {
			size_t cancelled = 0, idle;

			begin(driven_config(TICK, wheel), START);
			for (unsigned i = 0; i < 2000; i++) {
				int64_t ticks = 1 + (int64_t)random_below(&seed, 40 * wheel);

				arm(ticks * TICK, ticks);
			}
			driven_pass(timer, START);
			for (unsigned i = 0; i < 2000; i++) {
				if (random_below(&seed, 10) >= cancels_of_10)
					continue;
				CHECK_INT(hwt_cancel(all[i].handle), ==, 0);
				all[i].over = true;
				cancelled++;
			}
			driven_pass(timer, START);
			CHECK_INT(sleep_and_wake(&idle), <=, 2000);
			CHECK_INT(idle, <=, cancelled + SLICES);
			CHECK_INT(ran, ==, 2000 - cancelled);
			end();
		}
	}
}

/* Once in 2^31 rounds each is looked up again, and so is the hole that each leaves behind. */
TEST(row16_wake_ups_of_far_timeouts_are_few)
{
	for (uint32_t wheel = 1; wheel <= 4; wheel *= 2) {
		size_t idle;

		begin(driven_config(TICK, wheel), START);
		for (unsigned bits = 28; bits <= 42; bits++)
			arm((INT64_C(1) << bits) * TICK + 1, (INT64_C(1) << bits) + 1);
		driven_pass(timer, START);
		hwt_check(timer);
		(void)sleep_and_wake(&idle);
		CHECK_INT(idle, <=, (INT64_C(15) << 42 >> 31) / wheel + 15);
		CHECK_INT(ran, ==, 15);
		end();
	}
}

/* Row 15: a random model.  All of it in nanoseconds. */
static const struct world {
	int64_t tick;
	uint32_t wheel;
	int64_t least, most; /* delays */
	int64_t start, end;
	size_t number; /* of timeouts, each is armed again when it has run */
	int64_t step;  /* the largest */
	bool relative; /* hwt_new_timeout, or hwt_new_timeout_at */
	bool removing;
} worlds[] = {
	{ 1, 4, 1, 1000, 1, 5000, 100, 1, true, false },
	{ 1, 4, 1, 1000, 1, 5000, 100, 1, false, true },
	{ 1, 64, 1, 1000, 1000000, 1020000, 200, 10, true, true },
	{ 7, 16, 0, 500, 99, 9999, 100, 5, true, true },
	{ 1000, 512, 0, 1 << 20, 5, 1 << 23, 300, 4000, true, true },
	{ HWT_MS(1), 64, 0, HWT_S(60), HWT_S(1), HWT_S(600), 300, HWT_MS(900), true, true },
	{ HWT_MS(100), 512, HWT_S(1), HWT_S(3600), HWT_S(1), HWT_S(36000), 500, HWT_S(30), false, true },
	{ 3, 1024, 1 << 30, INT64_C(1) << 40, 12345, INT64_C(1) << 42, 300, INT64_C(1) << 32, true, true },
	{ 1, 4096, 0, INT64_C(1) << 52, 1, INT64_C(1) << 52, 300, INT64_C(1) << 42, false, true },
	{ 1, 1 << 16, 0, INT64_C(1) << 52, INT64_C(1) << 62, (INT64_C(1) << 62) + (INT64_C(1) << 52), 300,
	  INT64_C(1) << 42, true, true },
};

static const struct world *world;
static uint64_t world_seed;
static int64_t passed_tick; /* the last one */

static void run_in_the_world(hwt_timeout timeout, void *arg);

static void arm_in_the_world(struct timeout *it)
{
	int64_t delay = world->least + (int64_t)random_below(&world_seed, (uint64_t)(world->most - world->least + 1));
	void *arg = (void *)(it - all + 1);
	int rc;

	it->deadline_ns = fake_now_ns + delay;
	it->tick = (it->deadline_ns - world->start + world->tick - 1) / world->tick;
	it->tick = it->tick > passed_tick ? it->tick : passed_tick + 1;
	it->over = false;
	if (world->relative)
		rc = hwt_new_timeout(timer, run_in_the_world, arg, delay, &it->handle);
	else
		rc = hwt_new_timeout_at(timer, run_in_the_world, arg, it->deadline_ns, &it->handle);
	CHECK_INT(rc, ==, 0);
}

static void run_in_the_world(hwt_timeout timeout, void *arg)
{
	struct timeout *it = &all[(uintptr_t)arg - 1];

	run_once_in_its_tick(timeout, arg);
	if (fake_now_ns < world->end)
		arm_in_the_world(it);
}

static void remove_some(void)
{
	for (uint64_t n = random_below(&world_seed, 4); n > 0; n--) {
		struct timeout *it = &all[random_below(&world_seed, count)];
		int rc = hwt_cancel(it->handle);

		CHECK_INT(rc, ==, it->over ? ENOENT : 0);
		if (fake_now_ns < world->end)
			arm_in_the_world(it);
		else
			it->over = true;
	}
}

/* "How long may I sleep": not longer than to anybody's tick; and nobody whose tick has come is still there. */
static void check_the_world(void)
{
	int64_t due = hwt_wheel_next_due(timer->wheel);

	for (size_t i = 0; i < count; i++) {
		if (all[i].over)
			continue;
		CHECK_INT(all[i].tick, >, passed_tick);
		CHECK_INT(all[i].tick, >=, due);
	}
}

/* A pass at a time, of which arm_in_the_world knows. */
static void pass_the_world(int64_t now_ns)
{
	passed_tick = (now_ns - world->start) / world->tick;
	driven_pass(timer, now_ns);
}

static void run_world(void)
{
	bool more = true;

	begin(driven_config(HWT_MS(1), world->wheel), world->start);
	timer->config.tick_duration_ns = world->tick;
	timer->grid = timer->wheel->grid = grid_make(world->start, world->tick);
	passed_tick = -1;
	for (size_t i = 0; i < world->number; i++)
		arm_in_the_world(another());
	for (unsigned step = 0; more; step++) {
		int64_t now = fake_now_ns + 1 + (int64_t)random_below(&world_seed, (uint64_t)world->step);

		pass_the_world(now);
		more = now < world->end || hwt_pending_timeouts(timer) > 0;
		if (world->removing && random_below(&world_seed, 4) == 0)
			remove_some();
		pass_the_world(now); /* takes the new ones in */
		check_the_world();
		if (step % 16 == 0)
			hwt_check(timer);
	}
	for (size_t i = 0; i < count; i++) /* not lost */
		CHECK(all[i].over);
	CHECK_INT(ran, >, 0);
	end();
}

TEST(row15_the_wheel_agrees_with_a_random_model)
{
	world_seed = random_seed();
	for (unsigned i = 0; i < 3 * sizeof(worlds) / sizeof(worlds[0]); i++) {
		world = &worlds[i / 3];
		run_world();
	}
}

TEST_MAIN()
