/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What broke timers of this field in production, continued from test_behaviours_bugs.c: stopping while others add,
 * start or stop, and from inside a task.
 */
#include "support.h"

#define TICK_NS HWT_MS(1)
#define HOUR_NS HWT_S(3600)

/* A thread that adds until it is refused. */
struct adder {
	hwt_timer *timer;
	atomic_uint *ran, *over; /* over: set once the stop has returned; no task may run any more */
	unsigned accepted;
};

struct added {
	atomic_uint *ran, *over;
};

static void added_task(hwt_timeout timeout, void *arg)
{
	struct added *added = arg;

	(void)timeout;
	CHECK_INT(*added->over, ==, 0);
	atomic_fetch_add(added->ran, 1);
}

static void *add_until_refused(void *arg)
{
	struct adder *adder = arg;
	static const int64_t delays_ns[] = { 0, HWT_MS(1), HOUR_NS };
	struct added *added = malloc(sizeof(*added)); /* tasks may outlive this function, not the test */
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;
	int rc = 0;

	REQUIRE(added);
	*added = (struct added){ adder->ran, adder->over };
	while (hwt_now() < give_up_ns) {
		rc = hwt_new_timeout(adder->timer, added_task, added, delays_ns[adder->accepted % 3], NULL);
		if (rc != 0)
			break;
		adder->accepted++;
	}
	CHECK_INT(rc, ==, ECANCELED);
	return added;
}

/* Stop raced add: timeouts were neither run nor returned, or ran after stop had returned. */
TEST(row28_stop_races_add)
{
	unsigned rounds = scaled(300);

	for (unsigned round = 0; round < rounds; round++) {
		hwt_timer *timer = new_timer(TICK_NS, 64);
		atomic_uint ran = 0, over = 0;
		struct adder adders[2] = { { timer, &ran, &over, 0 }, { timer, &ran, &over, 0 } };
		pthread_t threads[2];
		void *added[2];
		hwt_unprocessed left;
		size_t returned = 0, count;

		for (int i = 0; i < 2; i++)
			REQUIRE(pthread_create(&threads[i], NULL, add_until_refused, &adders[i]) == 0);
		sleep_ns(round % 7 * HWT_US(400));
		CHECK_RC(hwt_timer_stop(timer, &count), 0);
		atomic_store(&over, 1);
		for (int i = 0; i < 2; i++)
			REQUIRE(pthread_join(threads[i], &added[i]) == 0);
		while (returned < UINT32_MAX && hwt_timer_next_unprocessed(timer, &left))
			returned++;
		CHECK_INT(returned, ==, count);
		CHECK_INT(adders[0].accepted + adders[1].accepted, ==, returned + ran);
		CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
		CHECK_RC(hwt_timer_destroy(timer), 0);
		free(added[0]);
		free(added[1]);
	}
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
	sleep_ms(30);
	CHECK_RC(hwt_timer_stop(slow->timer, NULL), EDEADLK); /* also while others are at it */
	CHECK_RC(hwt_timer_destroy(slow->timer), EDEADLK);
	sleep_ms(10);
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

struct gate {
	atomic_uint entered, open;
};

static void gate_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;

	(void)timeout;
	atomic_store(&gate->entered, 1);
	CHECK(wait_count(&gate->open, 1));
}

static void *open_soon(void *arg)
{
	sleep_ms(20); /* the stop is under way by then */
	atomic_store(&((struct gate *)arg)->open, 1);
	return NULL;
}

/*
 * A stop in the middle of a tick: a task is running, those due behind it have been cancelled meanwhile, and others wait
 * in the same bucket for later rounds.  Every one of these comes back.
 */
TEST(row28_stop_in_the_middle_of_a_tick)
{
	enum { COUNT = 300 };

	for (int round = 0; round < 5; round++) {
		hwt_timer *timer = new_timer(TICK_NS, 1); /* one bucket */
		int64_t at_ns = hwt_now() + HWT_MS(20);
		hwt_timeout due[COUNT];
		struct gate gate = { .entered = 0 };
		hwt_unprocessed left;
		struct crew opener;
		size_t count = 0, returned = 0;

		CHECK_RC(hwt_new_timeout_at(timer, gate_task, &gate, at_ns, NULL), 0);
		for (int i = 0; i < COUNT; i++) {
			CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, NULL), 0);
			CHECK_RC(hwt_new_timeout_at(timer, gate_task, &gate, at_ns, &due[i]), 0);
		}
		CHECK(wait_count(&gate.entered, 1));
		for (int i = 0; i < COUNT; i++)
			CHECK_RC(hwt_cancel(due[i]), 0);
		crew_start(&opener, 1, open_soon, &gate, 0);
		CHECK_RC(hwt_timer_stop(timer, &count), 0);
		crew_join(&opener);
		while (returned <= COUNT && hwt_timer_next_unprocessed(timer, &left)) {
			CHECK(left.task == count_task);
			returned++;
		}
		CHECK_INT(count, ==, COUNT);
		CHECK_INT(returned, ==, COUNT);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/*
 * Those due behind the task that is running are given back, not run.  The stop has to come while the task runs, which a
 * busy machine may prevent now and then, but not each time.
 */
TEST(row28_stop_runs_none_of_those_behind)
{
	enum { COUNT = 100, ATTEMPTS = 50 };
	bool none_ran = false;

	for (int attempt = 0; attempt < ATTEMPTS && !none_ran; attempt++) {
		hwt_timer *timer = new_timer(TICK_NS, 16);
		int64_t at_ns = hwt_now() + HWT_MS(10);
		struct gate gate = { .entered = 0 };
		struct crew opener;
		atomic_uint ran = 0;
		size_t count = 0;

		CHECK_RC(hwt_new_timeout_at(timer, gate_task, &gate, at_ns, NULL), 0);
		for (int i = 0; i < COUNT; i++)
			CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, at_ns, NULL), 0);
		CHECK(wait_count(&gate.entered, 1));
		crew_start(&opener, 1, open_soon, &gate, 0);
		CHECK_RC(hwt_timer_stop(timer, &count), 0);
		crew_join(&opener);
		CHECK_INT(count + ran, ==, COUNT);
		none_ran = ran == 0;
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
	CHECK(none_ran);
}

TEST_MAIN()
