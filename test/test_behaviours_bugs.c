/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What broke timers of this field in production, as far as it can be seen through the public interface.  The number
 * in a name is that of the behaviour in our list; the comment says what broke.  Stopping is in
 * test_behaviours_stop.c, the clock's step in test_behaviours_clock.c; what needs a virtual clock or a failing
 * allocator is in the tests of the modules.
 */
#include "support.h"

#include <signal.h>

#define TICK_NS HWT_MS(1)
#define HOUR_NS HWT_S(3600)

/*
 * Accumulated sleeps drifted.  After a second of ticks, each slept for (a task re-arms itself for the next one), the
 * worker is still on time.  A busy machine delays one task or another; a drift delays every one, so one in time is
 * enough.
 */
static void next_tick_task(hwt_timeout timeout, void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
	hwt_new_timeout(hwt_timeout_timer(timeout), next_tick_task, arg, 0, NULL);
}

TEST(row22_ticks_do_not_drift)
{
	enum { TICKS = 1000, TRIES = 500 };
	hwt_timer *timer = new_timer(TICK_NS, 512);
	int64_t best_ns = INT64_MAX;
	atomic_uint ticks = 0;

	CHECK_RC(hwt_new_timeout(timer, next_tick_task, &ticks, 0, NULL), 0);
	CHECK(wait_count(&ticks, TICKS));
	for (int i = 0; i < TRIES && best_ns > HWT_MS(10); i++) {
		struct run run = { .not_before_ns = hwt_now() + TICK_NS };

		CHECK_RC(hwt_new_timeout_at(timer, run_task, &run, run.not_before_ns, NULL), 0);
		CHECK(wait_count(&run.ran, 1));
		if (run.at_ns - run.not_before_ns < best_ns)
			best_ns = run.at_ns - run.not_before_ns;
	}
	CHECK_INT(best_ns, <=, HWT_MS(10)); /* 1000 sleeps, each 50 us long too much, make 50 ms */
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static int compare_pointers(const void *a, const void *b)
{
	const char *left = *(char *const *)a, *right = *(char *const *)b;

	return (left > right) - (left < right);
}

/* Cancelled timeouts were kept until their bucket came round, hours later: here their memory serves the next ones. */
TEST(row24_memory_of_cancelled_ones_is_used_again)
{
	enum { ROUNDS = 20, COUNT = 1000 };
	hwt_timer *timer = new_timer(TICK_NS, 512);
	void **entries = calloc(ROUNDS * COUNT, sizeof(*entries));
	hwt_timeout timeouts[COUNT];
	unsigned different = 1;

	REQUIRE(entries);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < COUNT; i++) {
			CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, &timeouts[i]), 0);
			entries[round * COUNT + i] = timeouts[i].entry;
		}
		if (round % 2)
			wait_ticks(timer, 3, TICK_NS); /* now they lie in the wheel */
		for (unsigned i = 0; i < COUNT; i++)
			CHECK_RC(hwt_cancel(timeouts[i]), 0);
		wait_ticks(timer, 4, TICK_NS);
	}
	qsort(entries, ROUNDS * COUNT, sizeof(*entries), compare_pointers);
	for (unsigned i = 1; i < ROUNDS * COUNT; i++)
		different += entries[i] != entries[i - 1];
	CHECK_INT(different, <=, 5 * COUNT);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	free(entries);
}

/* More adds than transfers a tick for long: what was behind the limit stayed there, cancelled or not. */
TEST(row25_more_adds_than_transfers)
{
	enum { COUNT = 50000 };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timeout *timeouts = calloc(COUNT, sizeof(*timeouts));
	hwt_timer *timer = NULL;
	atomic_uint ran = 0, never = 0;

	config.tick_duration_ns = HWT_MS(5);
	config.max_transfers_per_tick = 1000;
	REQUIRE(timeouts && hwt_timer_create(&timer, &config) == 0);
	for (int i = 0; i < COUNT; i++) {
		CHECK_RC(hwt_new_timeout(timer, count_task, &never, HOUR_NS, &timeouts[i]), 0);
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(1), NULL), 0);
	}
	for (int i = 0; i < COUNT; i++)
		CHECK_RC(hwt_cancel(timeouts[i]), 0);
	CHECK(wait_count(&ran, COUNT));
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_INT(never, ==, 0);
	free(timeouts);
}

/*
 * No thread could be created, and the timer was left "started": every later call hung.  Here the error comes back,
 * nothing is pending, and once there are threads again the timer works.
 */
TEST(row26_worker_cannot_be_created)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;
	hwt_timeout untouched = { &config, 1 }, timeout = untouched;
	pthread_attr_t attr;
	atomic_uint ran = 0;
	int rc;

	/* More address space than there is. */
	REQUIRE(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, (size_t)1 << 60) == 0);
	config.tick_duration_ns = TICK_NS;
	config.thread_attr = &attr;
	for (int retry = 0; retry < 2; retry++) {
		REQUIRE(hwt_timer_create(&timer, &config) == 0);
		for (int i = 0; i < 3; i++) {
			errno = ERRNO_MARK;
			rc = hwt_new_timeout(timer, count_task, &ran, 0, &timeout);
			CHECK_INT(errno, ==, ERRNO_MARK);
			CHECK(rc == EAGAIN || rc == EINVAL || rc == ENOMEM);
			CHECK_RC(hwt_timer_start(timer), rc);
			CHECK(same_handle(timeout, untouched));
			CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
		}
		if (retry) {
			REQUIRE(pthread_attr_setstacksize(&attr, 1 << 20) == 0);
			CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, &timeout), 0);
			CHECK(wait_count(&ran, 1));
		}
		CHECK_RC(hwt_timer_stop(timer, NULL), 0);
		CHECK_RC(hwt_timer_start(timer), ECANCELED);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
	pthread_attr_destroy(&attr);
}

static void ignore_signal(int signal_number)
{
	(void)signal_number;
}

static void tell_thread_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	*(pthread_t *)arg = pthread_self();
}

/* An exception ended the worker while the timer went on accepting.  In C: signals that interrupt its sleep. */
TEST(row27_worker_survives_signals)
{
	struct sigaction action = { .sa_handler = ignore_signal }, before;
	hwt_timer *timer = new_timer(HWT_MS(10), 512);
	struct run runs[20] = { 0 };
	pthread_t worker;
	hwt_timeout told;

	REQUIRE(sigaction(SIGUSR1, &action, &before) == 0); /* without SA_RESTART */
	CHECK_RC(hwt_new_timeout(timer, tell_thread_task, &worker, 0, &told), 0);
	REQUIRE(wait_state(told, HWT_EXPIRED));
	for (int i = 0; i < 20; i++) {
		runs[i].not_before_ns = hwt_now() + HWT_MS(10) * i;
		CHECK_RC(hwt_new_timeout_at(timer, run_task, &runs[i], runs[i].not_before_ns, NULL), 0);
	}
	for (int i = 0; i < 20; i++)
		for (int64_t give_up_ns = hwt_now() + PATIENCE_NS; runs[i].ran == 0 && hwt_now() < give_up_ns;) {
			CHECK_INT(pthread_kill(worker, SIGUSR1), ==, 0);
			sleep_ns(HWT_US(500));
		}
	for (int i = 0; i < 20; i++)
		CHECK_INT(runs[i].ran, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	REQUIRE(sigaction(SIGUSR1, &before, NULL) == 0);
}

/* Several threads cancel the same timeouts while they expire. */
struct cancelling {
	hwt_timeout *timeouts;
	unsigned count;
	int64_t at_ns;
	atomic_uint cancelled, ran;
};

static void *cancel_all(void *arg)
{
	struct cancelling *cancelling = arg;

	while (hwt_now() < cancelling->at_ns)
		sched_yield();
	for (unsigned i = 0; i < cancelling->count; i++)
		if (hwt_cancel(cancelling->timeouts[i]) == 0)
			atomic_fetch_add(&cancelling->cancelled, 1);
	return NULL;
}

/* The pending count was decremented twice: afterwards the limit was off.  Here exactly as many fit as before. */
TEST(row30_counted_down_once)
{
	enum { LIMIT = 300, ROUNDS = 40 };
	hwt_timer *timer = new_limited_timer(LIMIT);
	hwt_timeout timeouts[LIMIT];

	for (int round = 0; round < ROUNDS; round++) {
		struct cancelling cancelling = { timeouts, LIMIT, hwt_now() + HWT_MS(2), 0, 0 };

		for (int i = 0; i < LIMIT; i++)
			CHECK_RC(hwt_new_timeout_at(timer, count_task, &cancelling.ran, cancelling.at_ns, &timeouts[i]),
				 0);
		crew_run(3, cancel_all, &cancelling, 0);
		CHECK(wait_none_pending(timer));
		CHECK(wait_count(&cancelling.ran, LIMIT - cancelling.cancelled));
		CHECK_INT(cancelling.ran + cancelling.cancelled, ==, LIMIT);
		for (int i = 0; i < LIMIT; i++)
			CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, &timeouts[i]), 0);
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, NULL), ENOBUFS);
		for (int i = 0; i < LIMIT; i++)
			CHECK_RC(hwt_cancel(timeouts[i]), 0);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Rounding down fired up to a tick early: deadlines all over the tick, to the nanosecond. */
TEST(row32_never_early)
{
	enum { COUNT = 20000 };
	hwt_timer *timer = new_timer(HWT_MS(3), 16);
	struct run *runs = calloc(COUNT, sizeof(*runs));
	struct prng prng = { test_seed("row32_never_early") };

	REQUIRE(runs);
	for (int i = 0; i < COUNT; i++) {
		int64_t delay_ns = (int64_t)prng_below(&prng, HWT_MS(150));

		runs[i].not_before_ns = hwt_now() + delay_ns;
		if (i % 2)
			CHECK_RC(hwt_new_timeout(timer, run_task, &runs[i], delay_ns, NULL), 0);
		else
			CHECK_RC(hwt_new_timeout_at(timer, run_task, &runs[i], runs[i].not_before_ns, NULL), 0);
	}
	for (int i = 0; i < COUNT; i++)
		CHECK(wait_count(&runs[i].ran, 1));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	free(runs);
}

/* A handle whose memory served a new timeout cancelled a stranger. */
TEST(row35_stale_handle_cancels_nobody)
{
	enum { COUNT = 500, ROUNDS = 20 };
	hwt_timer *timer = new_timer(TICK_NS, 64);
	hwt_timeout *stale = calloc(COUNT * ROUNDS, sizeof(*stale));
	atomic_uint ran = 0;
	unsigned retired = 0;

	REQUIRE(stale);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < COUNT; i++)
			CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(5), &stale[round * COUNT + i]), 0);
		for (unsigned i = 0; i < round * COUNT; i++) {
			CHECK_RC(hwt_cancel(stale[i]), ENOENT);
			CHECK(hwt_timeout_timer(stale[i]) == timer);
			retired += hwt_timeout_state(stale[i]) == HWT_RETIRED;
		}
		CHECK(wait_count(&ran, (round + 1) * COUNT));
		wait_ticks(timer, 3, TICK_NS);
	}
	CHECK_INT(retired, >, 0); /* else nothing was tested */
	CHECK_INT(ran, ==, ROUNDS * COUNT);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	free(stale);
}

TEST_MAIN()
