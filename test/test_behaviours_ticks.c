/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Behaviours that the tests of this field's timers check, continued from test_behaviours.c: ticks, rounds, skipped
 * ticks and the answers of a cancel.
 */
#include "support.h"

#define TICK_NS HWT_MS(1)
#define HOUR_NS HWT_S(3600)

/*
 * [Agrona] Edges of ticks, a start time other than 0, several rounds of a wheel of 16, a deadline in the past: each
 * runs once, none early, and those further off run later.
 */
TEST(row13_rounds_and_edges)
{
	static const int64_t ticks[] = { 63, 17, 16, 15, 64, 65, 1, 31, 33, 32, 48, 0, 47, 49, 79, 80, 81, -5 };
	enum { COUNT = sizeof(ticks) / sizeof(ticks[0]) };
	hwt_timer *timer = new_timer(TICK_NS, 16);
	struct run runs[COUNT];
	unsigned places = 0;

	CHECK_RC(hwt_timer_start(timer), 0);
	sleep_ms(23);
	for (int attempt = 0; attempt < 50; attempt++) {
		int64_t base_ns = hwt_now() + HWT_MS(10);
		bool in_time;

		memset(runs, 0, sizeof(runs));
		for (int i = 0; i < COUNT; i++) {
			runs[i].not_before_ns = base_ns + ticks[i] * TICK_NS;
			runs[i].places = &places;
			CHECK_RC(hwt_new_timeout_at(timer, run_task, &runs[i], runs[i].not_before_ns, NULL), 0);
		}
		in_time = hwt_now() < base_ns - HWT_MS(5); /* all accepted before the first was due */
		for (int i = 0; i < COUNT; i++)
			CHECK(wait_count(&runs[i].ran, 1));
		for (int i = 0; in_time && i < COUNT; i++)
			for (int j = 0; j < COUNT; j++)
				CHECK(ticks[i] >= ticks[j] || runs[i].place < runs[j].place);
		if (in_time)
			break;
	}
	wait_ticks(timer, 33, TICK_NS);
	for (int i = 0; i < COUNT; i++)
		CHECK_INT(runs[i].ran, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* [Agrona] Two in the same tick of different rounds: the later one must neither run with the first nor block it. */
TEST(row13_same_bucket_of_different_rounds)
{
	hwt_timer *timer = new_timer(HWT_MS(5), 4);
	struct run runs[2][3] = { 0 };
	int64_t base_ns = hwt_now() + HWT_MS(5);

	for (int twice = 0; twice < 2; twice++)
		for (int i = 2; i >= 0; i--) {
			runs[twice][i].not_before_ns = base_ns + i * HWT_MS(20);
			CHECK_RC(hwt_new_timeout_at(timer, run_task, &runs[twice][i], base_ns + i * HWT_MS(20), NULL),
				 0);
		}
	for (int i = 0; i < 6; i++)
		CHECK(wait_count(&runs[i / 3][i % 3].ran, 1));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* [Agrona] Cancel is true once, then false; the cancelled one never runs. */
TEST(row13_cancel_once)
{
	enum { COUNT = 100 };
	hwt_timer *timer = new_timer(TICK_NS, 16);
	hwt_timeout timeouts[COUNT];
	atomic_uint ran = 0;
	unsigned cancelled = 0;

	for (int i = 0; i < COUNT; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(20) + HWT_US(300) * i, &timeouts[i]), 0);
	for (int i = 0; i < COUNT; i += 2) {
		if (hwt_cancel(timeouts[i]) != 0)
			continue;
		cancelled++;
		CHECK_RC(hwt_cancel(timeouts[i]), ENOENT);
	}
	CHECK(wait_none_pending(timer));
	CHECK(wait_count(&ran, COUNT - cancelled));
	wait_ticks(timer, 100, TICK_NS);
	CHECK_INT(ran + cancelled, ==, COUNT);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void block_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	sleep_ms(*(int *)arg);
}

/* [Agrona] Expiring after many skipped ticks fires the old ones, tick by tick. */
TEST(row14_skipped_ticks)
{
	enum { COUNT = 100 };
	hwt_timer *timer = new_timer(TICK_NS, 8);
	struct run runs[COUNT];
	struct prng prng = { test_seed("row14_skipped_ticks") };
	unsigned places = 0;
	int block_ms = 60;

	for (int attempt = 0; attempt < 50; attempt++) {
		int64_t base_ns = hwt_now() + HWT_MS(20);
		bool in_time;

		memset(runs, 0, sizeof(runs));
		CHECK_RC(hwt_new_timeout_at(timer, block_task, &block_ms, base_ns, NULL), 0);
		for (int i = 0; i < COUNT; i++) {
			runs[i].not_before_ns = base_ns + HWT_MS(1) + (int64_t)prng_below(&prng, 50) * TICK_NS;
			runs[i].places = &places;
			CHECK_RC(hwt_new_timeout_at(timer, run_task, &runs[i], runs[i].not_before_ns, NULL), 0);
		}
		in_time = hwt_now() < base_ns;
		for (int i = 0; i < COUNT; i++)
			CHECK(wait_count(&runs[i].ran, 1));
		for (int i = 0; in_time && i < COUNT; i++)
			for (int j = 0; j < COUNT; j++)
				CHECK(runs[i].not_before_ns >= runs[j].not_before_ns || runs[i].place < runs[j].place);
		if (in_time)
			break;
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* [Agrona] A limit per pass delivers the rest in the next. */
TEST(row14_the_rest_comes_with_the_next_pass)
{
	static const uint32_t limits[] = { 1, 2, 7, 1000 };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		hwt_config config = HWT_CONFIG_INIT;
		hwt_timer *timer = NULL;
		atomic_uint ran = 0;

		config.tick_duration_ns = TICK_NS;
		config.max_transfers_per_tick = limits[i];
		REQUIRE(hwt_timer_create(&timer, &config) == 0);
		for (int j = 0; j < 200; j++)
			CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_US(10) * j, NULL), 0);
		CHECK(wait_count(&ran, 200));
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

struct gate {
	atomic_uint entered, open;
};

static void gate_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;

	CHECK_RC(hwt_cancel(timeout), EBUSY);
	atomic_store(&gate->entered, 1);
	CHECK(wait_count(&gate->open, 1));
}

/* [brpc] Cancel tells removed, running and unknown apart. */
TEST(row17_three_answers)
{
	hwt_timer *timer = new_timer(TICK_NS, 16);
	struct gate gate = { .entered = 0 };
	atomic_uint ran = 0;
	hwt_timeout running, behind;

	CHECK_RC(hwt_new_timeout(timer, gate_task, &gate, 0, &running), 0);
	CHECK(wait_count(&gate.entered, 1));
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, &behind), 0);
	for (int i = 0; i < 3; i++)
		CHECK_RC(hwt_cancel(running), EBUSY);
	CHECK_RC(hwt_timeout_state(running), HWT_RUNNING);
	CHECK_RC(hwt_cancel(behind), 0); /* due, but it cannot have started */
	atomic_store(&gate.open, 1);
	CHECK(wait_state(running, HWT_EXPIRED));
	CHECK_RC(hwt_cancel(running), ENOENT);
	CHECK_RC(hwt_cancel(behind), ENOENT);
	wait_ticks(timer, 3, TICK_NS);
	CHECK_INT(ran, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

struct meddler {
	hwt_timeout others[3]; /* due in the same tick, an hour off, its own child */
	atomic_uint ready, ran, done;
};

static void meddler_task(hwt_timeout timeout, void *arg)
{
	struct meddler *meddler = arg;
	hwt_timer *timer = hwt_timeout_timer(timeout);

	CHECK(wait_count(&meddler->ready, 1));
	CHECK_RC(hwt_new_timeout(timer, count_task, &meddler->ran, 0, &meddler->others[2]), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_RC(hwt_cancel(meddler->others[i]), 0);
		CHECK_RC(hwt_timeout_state(meddler->others[i]), HWT_CANCELLED);
	}
	CHECK_RC(hwt_cancel(timeout), EBUSY);
	atomic_store(&meddler->done, 1);
}

/* [brpc] A task schedules and cancels others, one due right behind it too, and tries to cancel itself. */
TEST(row17_task_cancels_others)
{
	for (int round = 0; round < 30; round++) {
		hwt_timer *timer = new_timer(TICK_NS, 4);
		struct meddler meddler = { .ran = 0 };
		int64_t at_ns = hwt_now() + HWT_MS(5);

		CHECK_RC(hwt_new_timeout(timer, count_task, &meddler.ran, HOUR_NS, &meddler.others[1]), 0);
		CHECK_RC(hwt_new_timeout_at(timer, meddler_task, &meddler, at_ns, NULL), 0);
		CHECK_RC(hwt_new_timeout_at(timer, count_task, &meddler.ran, at_ns, &meddler.others[0]), 0);
		atomic_store(&meddler.ready, 1);
		CHECK(wait_count(&meddler.done, 1));
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(meddler.ran, ==, 0);
	}
}

TEST_MAIN()
