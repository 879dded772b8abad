/* SPDX-License-Identifier: BSD-2-Clause */
/* hwt_cancel_sync: when it has returned, nobody touches arg any more. */
#include "virtual.h"

#define TICK_NS HWT_MS(1)
#define FAR_NS HWT_S(3600)

TEST(it_says_what_hwt_cancel_says_where_nothing_runs)
{
	hwt_timer *timer = new_timer(TICK_NS, 512);
	atomic_uint ran = 0;
	hwt_timeout timeout;

	CHECK_RC(hwt_cancel_sync(HWT_TIMEOUT_NONE), ENOENT);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, FAR_NS, &timeout), 0);
	CHECK_RC(hwt_cancel_sync(timeout), 0);
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_CANCELLED);
	CHECK_RC(hwt_cancel_sync(timeout), ENOENT);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, &timeout), 0);
	REQUIRE(wait_state(timeout, HWT_EXPIRED));
	CHECK_RC(hwt_cancel_sync(timeout), ENOENT);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, FAR_NS, &timeout), 0);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_cancel_sync(timeout), ENOENT);
	CHECK_INT(ran, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

struct slow {
	atomic_uint entered, open, returned;
	unsigned plain; /* written by the task, read by the thread that waited: ThreadSanitizer watches */
	hwt_timeout timeout;
};

static void slow_task(hwt_timeout timeout, void *arg)
{
	struct slow *slow = arg;

	(void)timeout;
	atomic_store(&slow->entered, 1);
	REQUIRE(wait_count(&slow->open, 1));
	sleep_ms(5);
	slow->plain = 4711;
}

static void *cancel_and_look(void *arg)
{
	struct slow *slow = arg;

	CHECK_RC(hwt_cancel_sync(slow->timeout), ENOENT);
	CHECK_INT(slow->plain, ==, 4711);
	CHECK_INT(hwt_timeout_state(slow->timeout), ==, HWT_EXPIRED);
	atomic_fetch_add(&slow->returned, 1);
	return NULL;
}

#define WAITERS 8

TEST(all_waiters_return_when_the_task_has_returned)
{
	hwt_timer *timer = new_timer(TICK_NS, 512);

	for (unsigned round = 0; round < scaled(20); round++) {
		struct slow slow = { .plain = 0 };
		struct crew crew;

		CHECK_RC(hwt_new_timeout(timer, slow_task, &slow, 0, &slow.timeout), 0);
		REQUIRE(wait_count(&slow.entered, 1));
		crew_start(&crew, WAITERS, cancel_and_look, &slow, 0);
		sleep_ms(2);
		CHECK_INT(atomic_load(&slow.returned), ==, 0);
		CHECK_RC(hwt_cancel(slow.timeout), EBUSY);
		atomic_store(&slow.open, 1);
		crew_join(&crew);
		CHECK_INT(atomic_load(&slow.returned), ==, WAITERS);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void own_task(hwt_timeout timeout, void *arg)
{
	hwt_timeout other;

	CHECK_RC(hwt_cancel_sync(timeout), EDEADLK);
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
	/* Others may be cancelled from here. */
	CHECK_RC(hwt_new_timeout(hwt_timeout_timer(timeout), count_task, arg, FAR_NS, &other), 0);
	CHECK_RC(hwt_cancel_sync(other), 0);
	CHECK_RC(hwt_cancel_sync(other), ENOENT);
	atomic_fetch_add((atomic_uint *)arg, 1);
}

TEST(a_task_cannot_wait_for_itself)
{
	hwt_timer *timer = new_timer(TICK_NS, 512);
	atomic_uint ran = 0;
	hwt_timeout timeout;

	CHECK_RC(hwt_new_timeout(timer, own_task, &ran, 0, &timeout), 0);
	REQUIRE(wait_count(&ran, 1));
	REQUIRE(wait_state(timeout, HWT_EXPIRED));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

struct nested {
	hwt_timer *outer, *inner;
	hwt_timeout outer_timeout;
	unsigned ran;
};

static void inner_task(hwt_timeout timeout, void *arg)
{
	struct nested *nested = arg;

	CHECK_RC(hwt_cancel_sync(timeout), EDEADLK);
	CHECK_RC(hwt_cancel_sync(nested->outer_timeout), EDEADLK);
	CHECK_RC(hwt_timer_stop(nested->outer, NULL), EDEADLK);
	CHECK_RC(hwt_timer_stop(nested->inner, NULL), EDEADLK);
	nested->ran++;
}

static void outer_task(hwt_timeout timeout, void *arg)
{
	struct nested *nested = arg;

	(void)timeout;
	CHECK_RC(hwt_timer_advance(nested->inner, HWT_MS(1), NULL), 0);
	CHECK_RC(hwt_timer_stop(nested->inner, NULL), 0); /* that is not in its task any more */
	CHECK_RC(hwt_timer_stop(nested->outer, NULL), EDEADLK);
	nested->ran++;
}

TEST(a_task_cannot_wait_for_the_outer_task_that_called_it)
{
	struct nested nested = { .outer = virtual_timer(), .inner = virtual_timer() };

	CHECK_RC(hwt_new_timeout(nested.outer, outer_task, &nested, 0, &nested.outer_timeout), 0);
	CHECK_RC(hwt_new_timeout(nested.inner, inner_task, &nested, 0, NULL), 0);
	CHECK_RC(hwt_timer_advance(nested.outer, HWT_MS(1), NULL), 0);
	CHECK_INT(nested.ran, ==, 2);
	CHECK_RC(hwt_timer_destroy(nested.outer), 0);
	CHECK_RC(hwt_timer_destroy(nested.inner), 0);
}

/*
 * What it is for: memory that is freed as soon as it has returned.  A task that still runs, or runs later, touches
 * freed memory (AddressSanitizer), without an order to the free (ThreadSanitizer), or finds it overwritten.
 */

#define THREADS 4
#define ROUNDS 4000
#define ALIVE 0x600d600d

struct freed {
	unsigned alive, runs;
};

static void touch_task(hwt_timeout timeout, void *arg)
{
	struct freed *freed = arg;

	(void)timeout;
	for (int i = 0; i < 50; i++)
		CHECK_INT(*(volatile unsigned *)&freed->alive, ==, ALIVE);
	freed->runs++;
}

struct freer {
	hwt_timer *timer;
	uint64_t seed;
	atomic_uint prevented, too_late;
};

static void *schedule_and_free(void *arg)
{
	struct freer *freer = arg;
	struct prng prng = { freer->seed };

	for (unsigned i = 0; i < scaled(ROUNDS); i++) {
		struct freed *freed = malloc(sizeof(*freed));
		hwt_timeout timeout;
		int rc;

		REQUIRE(freed != NULL);
		*freed = (struct freed){ ALIVE, 0 };
		CHECK_RC(
		    hwt_new_timeout(freer->timer, touch_task, freed, prng_between(&prng, 0, HWT_US(300)), &timeout), 0);
		if (prng_below(&prng, 4) != 0)
			sleep_ns(prng_between(&prng, 0, HWT_US(400)));
		rc = hwt_cancel_sync(timeout);
		CHECK(rc == 0 || rc == ENOENT);
		CHECK_INT(freed->runs, ==, rc == 0 ? 0 : 1);
		atomic_fetch_add(rc == 0 ? &freer->prevented : &freer->too_late, 1);
		freed->alive = 0;
		free(freed);
	}
	return NULL;
}

TEST(what_arg_points_to_may_be_freed)
{
	uint64_t seed = test_seed("what_arg_points_to");
	hwt_config config = HWT_CONFIG_INIT;
	struct freer freers[THREADS];
	unsigned prevented = 0, too_late = 0;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = HWT_US(50);
	config.flags = HWT_FINE_TICKS;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		freers[i] = (struct freer){ .timer = timer, .seed = seed + i };
	crew_run(THREADS, schedule_and_free, freers, sizeof(*freers));
	for (unsigned i = 0; i < THREADS; i++) {
		prevented += freers[i].prevented;
		too_late += freers[i].too_late;
	}
	CHECK_INT(prevented + too_late, ==, THREADS * scaled(ROUNDS));
	CHECK(prevented > 0 && too_late > 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
