/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small world, all of it: every delay at every tick of small wheels, and the number pending against a closed formula.
 */
#include "check/check.h"
#include "unit.h"

#define START HWT_S(1000)
#define TICK HWT_MS(1)

/* Each timeout of a test, found by its arg. */
struct timeout {
	hwt_timeout handle;
	int64_t deadline_ns;
	int64_t tick; /* the tick at which it has to run */
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

/* Returns the place for another timeout. */
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

/* Returns 1 + 2 + ..  + n. */
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

TEST_MAIN()
