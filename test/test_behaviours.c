/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Behaviours that the tests of this field's timers check, one test or more a behaviour.  The number in a name is that
 * of the behaviour in our list; the comment says whose timer it was that had it tested, and what went wrong there.
 * Ticks, rounds and the answers of a cancel are in test_behaviours_ticks.c, what broke these systems in production is
 * in test_behaviours_bugs.c and test_behaviours_clock.c.
 *
 * Lower bounds are exact: never early.  Upper bounds are those of a hopelessly busy machine.
 */
#include "support.h"

#define TICK_NS HWT_MS(1)
#define HOUR_NS HWT_S(3600)

/* [Netty] A timeout of a second has not run after 300 ms; one of 200 ms runs and is expired. */
TEST(row01_not_before_its_delay)
{
	hwt_timer *timer = new_timer(HWT_MS(20), 512);
	int64_t begin_ns = hwt_now();
	struct run late = { .not_before_ns = begin_ns + HWT_S(1) }, soon = { .not_before_ns = begin_ns + HWT_MS(200) };
	hwt_timeout late_timeout, soon_timeout;

	CHECK_RC(hwt_new_timeout(timer, run_task, &late, HWT_S(1), &late_timeout), 0);
	CHECK_RC(hwt_new_timeout(timer, run_task, &soon, HWT_MS(200), &soon_timeout), 0);
	while (hwt_now() < begin_ns + HWT_MS(300)) {
		bool late_expired = hwt_is_expired(late_timeout), soon_expired = hwt_is_expired(soon_timeout);
		int64_t now_ns = hwt_now();

		CHECK(!late_expired || now_ns >= late.not_before_ns);
		CHECK(!soon_expired || now_ns >= soon.not_before_ns);
		sleep_ms(2);
	}
	CHECK(wait_state(soon_timeout, HWT_EXPIRED));
	CHECK_INT(soon.ran, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* [Netty] Stop returns none when all have run, all when none has, and these are cancelled. */
TEST(row02_stop_returns_what_is_pending)
{
	for (unsigned pending = 0; pending <= 5; pending += 5) {
		hwt_timer *timer = new_timer(TICK_NS, 512);
		atomic_uint ran = 0, never = 0;
		hwt_unprocessed left;
		size_t count = 77;

		for (int i = 0; i < 3; i++)
			CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(i), NULL), 0);
		for (unsigned i = 0; i < pending; i++)
			CHECK_RC(hwt_new_timeout(timer, count_task, &never, HOUR_NS, NULL), 0);
		CHECK(wait_count(&ran, 3));
		CHECK_RC(hwt_timer_stop(timer, &count), 0);
		CHECK_INT(count, ==, pending);
		for (unsigned i = 0; i < pending; i++) {
			REQUIRE(hwt_timer_next_unprocessed(timer, &left));
			CHECK(hwt_is_cancelled(left.timeout));
			CHECK(left.arg == &never);
		}
		CHECK(!hwt_timer_next_unprocessed(timer, &left));
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(never, ==, 0);
	}
}

/* [Netty] Refused after stop; Netty's count of pending timeouts grew by one with each refused call. */
TEST(row03_refused_after_stop_and_not_counted)
{
	hwt_timer *timer = new_limited_timer(10);

	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, NULL), 0);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	for (int i = 0; i < 20; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, 0, NULL), ECANCELED);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

struct rearming {
	hwt_timeout armed; /* written by the task, read after the stop */
	atomic_uint ran;
};

static void rearm_task(hwt_timeout timeout, void *arg)
{
	struct rearming *rearming = arg;
	int rc;

	atomic_fetch_add(&rearming->ran, 1);
	rc = hwt_new_timeout(hwt_timeout_timer(timeout), rearm_task, arg, HWT_MS(2), &rearming->armed);
	CHECK(rc == 0 || rc == ECANCELED); /* refused if the stop is under way */
	if (rc != 0)
		rearming->armed = HWT_TIMEOUT_NONE;
}

/* [Netty] A task that re-arms itself keeps running; stop returns the one that is armed. */
TEST(row04_rearming_task)
{
	hwt_timer *timer = new_timer(TICK_NS, 4);
	struct rearming rearming = { .ran = 0 };
	hwt_unprocessed left;
	size_t count = 77;

	CHECK_RC(hwt_new_timeout(timer, rearm_task, &rearming, 0, &rearming.armed), 0);
	CHECK(wait_count(&rearming.ran, 50));
	CHECK_RC(hwt_timer_stop(timer, &count), 0);
	CHECK_INT(count, ==, rearming.armed.entry ? 1 : 0);
	if (count == 1) {
		CHECK(hwt_timer_next_unprocessed(timer, &left));
		CHECK(same_handle(left.timeout, rearming.armed));
		CHECK(left.arg == &rearming);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* [Netty] 100,000 in a loop: each delay, measured from its own call, is as asked. */
TEST(row05_delays_of_many)
{
	enum { COUNT = 100000 };
	hwt_timer *timer = new_timer(HWT_MS(10), 512);
	struct run *runs = calloc(COUNT, sizeof(*runs));
	int64_t worst_ns = 0;

	REQUIRE(runs);
	for (int i = 0; i < COUNT; i++) {
		int64_t delay_ns = HWT_MS(100) + i % 7 * HWT_MS(3);

		runs[i].not_before_ns = hwt_now() + delay_ns;
		CHECK_RC(hwt_new_timeout(timer, run_task, &runs[i], delay_ns, NULL), 0);
	}
	for (int i = 0; i < COUNT; i++) {
		int64_t late_ns;

		REQUIRE(wait_count(&runs[i].ran, 1));
		late_ns = runs[i].at_ns - runs[i].not_before_ns;
		if (late_ns > worst_ns)
			worst_ns = late_ns;
	}
	CHECK_INT(worst_ns, <, HWT_S(10));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	free(runs);
}

struct at_limit {
	hwt_timeout own;
	atomic_uint ran;
};

static void at_limit_task(hwt_timeout timeout, void *arg)
{
	struct at_limit *at_limit = arg;
	hwt_timer *timer = hwt_timeout_timer(timeout);

	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, &at_limit->own), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, NULL), ENOBUFS);
	atomic_fetch_add(&at_limit->ran, 1);
}

/* [Netty] Limit 2: no third; room at once after a cancel, after an expiry, and for the task itself. */
TEST(row06_limit)
{
	hwt_timer *timer = new_limited_timer(2);
	struct at_limit at_limit = { .ran = 0 };
	hwt_timeout far, near;

	for (int i = 0; i < 100; i++) {
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, &far), 0);
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, &near), 0);
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, NULL), ENOBUFS);
		CHECK_RC(hwt_cancel(near), 0);
		CHECK_RC(hwt_new_timeout(timer, at_limit_task, &at_limit, HWT_MS(1), &near), 0);
		if (i % 10) { /* now and then let it expire */
			if (hwt_cancel(near) == 0) {
				CHECK_RC(hwt_cancel(far), 0);
				continue;
			}
		}
		CHECK(wait_state(near, HWT_EXPIRED));
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, NULL),
			 ENOBUFS); /* the task's own, and far */
		CHECK_RC(hwt_cancel(at_limit.own), 0);
		CHECK_RC(hwt_cancel(far), 0);
	}
	CHECK(at_limit.ran >= 10);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* [Netty] The count goes 3, 1, 0 as two are cancelled and one runs. */
TEST(row07_count)
{
	hwt_timer *timer = new_timer(TICK_NS, 512);
	int64_t at_ns = hwt_now() + HWT_MS(50);
	uint64_t all, one;
	atomic_uint ran = 0;
	hwt_timeout timeouts[2];

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HOUR_NS, &timeouts[0]), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HOUR_NS, &timeouts[1]), 0);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 2);
	CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, at_ns, NULL), 0);
	all = hwt_pending_timeouts(timer);
	CHECK_RC(hwt_cancel(timeouts[0]), 0);
	CHECK_RC(hwt_cancel(timeouts[1]), 0);
	CHECK_RC(hwt_cancel(timeouts[1]), ENOENT);
	one = hwt_pending_timeouts(timer);
	if (hwt_now() < at_ns) { /* else the third may have run */
		CHECK_INT(all, ==, 3);
		CHECK_INT(one, ==, 1);
	}
	CHECK(wait_count(&ran, 1));
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* [Netty] The count went below zero when a timeout was cancelled while its bucket was being expired. */
TEST(row07_count_is_never_negative)
{
	enum { COUNT = 500, ROUNDS = 30 };
	hwt_timer *timer = new_timer(TICK_NS, 2);
	hwt_timeout timeouts[COUNT];
	atomic_uint ran = 0;
	unsigned cancelled = 0;

	for (int round = 0; round < ROUNDS; round++) {
		int64_t at_ns = hwt_now() + HWT_MS(3);

		for (int i = 0; i < COUNT; i++)
			CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, at_ns, &timeouts[i]), 0);
		while (hwt_now() < at_ns)
			sched_yield();
		for (int i = COUNT - 1; i >= 0; i--) {
			cancelled += hwt_cancel(timeouts[i]) == 0;
			CHECK_INT(hwt_pending_timeouts(timer), <=, COUNT); /* a negative one would be huge */
		}
		CHECK(wait_none_pending(timer));
	}
	CHECK(wait_count(&ran, COUNT * ROUNDS - cancelled));
	CHECK_INT(ran, ==, COUNT * ROUNDS - cancelled);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* [Netty] The largest delay: delay + now overflowed, and it fired at once. */
TEST(row08_largest_delay)
{
	hwt_timer *timer = new_timer(TICK_NS, 4);
	atomic_uint ran = 0;
	hwt_timeout delay, deadline;

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, INT64_MAX, &delay), 0);
	CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, INT64_MAX, &deadline), 0);
	wait_ticks(timer, 20, TICK_NS); /* five rounds */
	CHECK_INT(ran, ==, 0);
	CHECK_RC(hwt_cancel(delay), 0);
	CHECK_RC(hwt_cancel(deadline), 0);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
