/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Behaviours that the tests of this field's timers check, and what broke them in production.  The number in a name is
 * that of the behaviour in test/behaviours.md.  Here are those that need threads, a process or the public interface;
 * what time alone shows is in the unit tests, on a clock of the test's own.
 */
#include "virtual.h"

#include <signal.h>

#define TICK_NS HWT_MS(1)
#define HOUR_NS HWT_S(3600)

/* [Netty] Stop returns none when all have run, all when none has, and these are cancelled. */
TEST(row02_stop_returns_what_is_pending)
{
	for (unsigned pending = 0; pending <= 5; pending += 5) {
		hwt_timer *timer = virtual_timer();
		atomic_uint ran = 0, never = 0;
		hwt_unprocessed left;
		size_t count = 77;

		for (int i = 0; i < 3; i++)
			CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(i), NULL), 0);
		for (unsigned i = 0; i < pending; i++)
			CHECK_RC(hwt_new_timeout(timer, count_task, &never, HOUR_NS, NULL), 0);
		CHECK_RC(hwt_timer_advance(timer, HWT_MS(2), NULL), 0);
		CHECK_INT(ran, ==, 3);
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
	hwt_timeout armed;
	unsigned ran;
};

static void rearm_task(hwt_timeout timeout, void *arg)
{
	struct rearming *rearming = arg;

	rearming->ran++;
	CHECK_RC(hwt_new_timeout(hwt_timeout_timer(timeout), rearm_task, arg, HWT_MS(2), &rearming->armed), 0);
}

/* [Netty] A task that re-arms itself keeps running; stop returns the one that is armed. */
TEST(row04_a_task_re_arms_itself)
{
	hwt_timer *timer = virtual_timer();
	struct rearming rearming = { .ran = 0 };
	hwt_unprocessed left;
	size_t count = 77;

	CHECK_RC(hwt_new_timeout(timer, rearm_task, &rearming, 0, &rearming.armed), 0);
	for (int64_t now = 0; now <= 100; now += 2)
		CHECK_RC(hwt_timer_advance(timer, HWT_MS(now), NULL), 0);
	CHECK_INT(rearming.ran, ==, 50);
	CHECK_RC(hwt_timer_stop(timer, &count), 0);
	CHECK_INT(count, ==, 1);
	REQUIRE(hwt_timer_next_unprocessed(timer, &left));
	CHECK(same_handle(left.timeout, rearming.armed));
	CHECK(left.arg == &rearming);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* [Netty] 100,000 in a loop: each delay, measured from its own call, is as asked. */
TEST(row05_delays_of_many_are_kept)
{
	enum { COUNT = 100000 };
	hwt_timer *timer = new_timer(HWT_MS(10), 512);
	struct run *runs = calloc(COUNT, sizeof(*runs));

	REQUIRE(runs);
	for (int i = 0; i < COUNT; i++) {
		int64_t delay_ns = HWT_MS(10) + i % 7 * HWT_MS(3);

		runs[i].not_before_ns = hwt_now() + delay_ns;
		CHECK_RC(hwt_new_timeout(timer, run_task, &runs[i], delay_ns, NULL), 0);
	}
	for (int i = 0; i < COUNT; i++)
		REQUIRE(wait_count(&runs[i].ran, 1));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	free(runs);
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

struct meddler {
	hwt_timeout others[3]; /* due in the same tick, an hour off, its own child */
	atomic_uint ran, done;
};

static void meddler_task(hwt_timeout timeout, void *arg)
{
	struct meddler *meddler = arg;
	hwt_timer *timer = hwt_timeout_timer(timeout);

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
	hwt_timer *timer = virtual_timer();
	struct meddler meddler = { .ran = 0 };

	CHECK_RC(hwt_new_timeout(timer, count_task, &meddler.ran, HOUR_NS, &meddler.others[1]), 0);
	CHECK_RC(hwt_new_timeout(timer, meddler_task, &meddler, TICK_NS, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &meddler.ran, TICK_NS, &meddler.others[0]), 0);
	CHECK_RC(hwt_timer_advance(timer, 2 * HOUR_NS, NULL), 0);
	CHECK_INT(meddler.done, ==, 1);
	CHECK_INT(meddler.ran, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
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
	enum { COUNT = 10 };
	struct sigaction action = { .sa_handler = ignore_signal }, before;
	hwt_timer *timer = new_timer(HWT_MS(10), 512);
	struct run runs[COUNT] = { 0 };
	pthread_t worker;
	hwt_timeout told;

	REQUIRE(sigaction(SIGUSR1, &action, &before) == 0); /* without SA_RESTART */
	CHECK_RC(hwt_new_timeout(timer, tell_thread_task, &worker, 0, &told), 0);
	REQUIRE(wait_state(told, HWT_EXPIRED));
	for (int i = 0; i < COUNT; i++) {
		runs[i].not_before_ns = hwt_now() + HWT_MS(10) * i;
		CHECK_RC(hwt_new_timeout_at(timer, run_task, &runs[i], runs[i].not_before_ns, NULL), 0);
	}
	for (int i = 0; i < COUNT; i++)
		for (int64_t give_up_ns = hwt_now() + PATIENCE_NS; runs[i].ran == 0 && hwt_now() < give_up_ns;) {
			CHECK_INT(pthread_kill(worker, SIGUSR1), ==, 0);
			sleep_ns(HWT_US(500));
		}
	for (int i = 0; i < COUNT; i++)
		CHECK_INT(runs[i].ran, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	REQUIRE(sigaction(SIGUSR1, &before, NULL) == 0);
}

static void *start_or_be_refused(void *arg)
{
	for (int i = 0; i < 3; i++) {
		int rc = hwt_timer_start(*(hwt_timer **)arg);

		CHECK(rc == 0 || rc == ECANCELED);
	}
	return NULL;
}

/* Stop raced start: a worker was left behind, or the stop hung. */
TEST(row28_stop_races_start)
{
	unsigned rounds = scaled(500);

	for (unsigned round = 0; round < rounds; round++) {
		hwt_timer *timer = new_timer(TICK_NS, 64);
		struct crew crew;

		crew_start(&crew, 2, start_or_be_refused, &timer, 0);
		if (round % 2)
			sleep_ns(HWT_US(30));
		CHECK_RC(hwt_timer_stop(timer, NULL), 0);
		CHECK_RC(hwt_timer_start(timer), ECANCELED);
		crew_join(&crew);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* A slow task, and those who stop its timer meanwhile. */
struct slow {
	hwt_timer *timer;
	atomic_uint entered;
	unsigned finished; /* plain: what the task wrote is visible to whom stop has returned */
	atomic_uint returned;
};

static void slow_task(hwt_timeout timeout, void *arg)
{
	struct slow *slow = arg;

	(void)timeout;
	atomic_store(&slow->entered, 1);
	sleep_ms(10);
	CHECK_RC(hwt_timer_stop(slow->timer, NULL), EDEADLK); /* also while others are at it */
	CHECK_RC(hwt_timer_destroy(slow->timer), EDEADLK);
	sleep_ms(5);
	slow->finished++;
}

static void *stop_slow(void *arg)
{
	struct slow *slow = arg;
	size_t count = 77;

	CHECK_RC(hwt_timer_stop(slow->timer, &count), 0);
	CHECK_INT(slow->finished, ==, 1);
	atomic_fetch_add(&slow->returned, (unsigned)count);
	return NULL;
}

/* Stop from two threads at once: the second came back before the worker was gone.  And from inside a task. */
TEST(row29_stop_from_two_threads)
{
	for (int round = 0; round < 10; round++) {
		struct slow slow = { .timer = new_timer(TICK_NS, 64) };

		CHECK_RC(hwt_new_timeout(slow.timer, slow_task, &slow, 0, NULL), 0);
		for (int i = 0; i < 5; i++)
			CHECK_RC(hwt_new_timeout(slow.timer, count_task, NULL, HOUR_NS, NULL), 0);
		CHECK(wait_count(&slow.entered, 1));
		crew_run(4, stop_slow, &slow, 0);
		CHECK_INT(slow.returned, ==, 5); /* one told it, the others told 0 */
		CHECK_RC(hwt_timer_stop(slow.timer, NULL), 0);
		CHECK_RC(hwt_timer_destroy(slow.timer), 0);
	}
}

TEST_MAIN()
