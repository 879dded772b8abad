/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a timer where memory or threads fail, and what hwt_new_timeout touches. */
#include "unit.h"

#include <sched.h>

TEST(stop_and_destroy_allocate_nothing)
{
	size_t unprocessed = 0;
	hwt_timer *timer;

	REQUIRE(hwt_timer_create(&timer, NULL) == 0);
	for (int i = 0; i < 10000; i++)
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, HWT_S(60), NULL), ==, 0);
	hwt_timer_start(timer);
	memory_fails(0, UINT64_MAX);
	CHECK_INT(hwt_timer_stop(timer, &unprocessed), ==, 0);
	CHECK_INT(unprocessed, ==, 10000);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
	memory_is_back();
}

TEST(new_timeout_writes_to_its_own_lane_only)
{
	hwt_config config = driven_config(HWT_MS(1), 64);
	hwt_timer *timer = driven_create(&config, HWT_S(1));
	const struct hwt_lane *mine = lanes_home(&timer->lanes);
	struct hwt_lane *before = malloc((timer->lanes.last_seat + 1) * sizeof(*before));
	unsigned char *timer_before = malloc(sizeof(hwt_timer));

	REQUIRE(before != NULL && timer_before != NULL);
	for (uint32_t place = 0; place <= timer->lanes.last_seat; place++)
		(void)lane_at(&timer->lanes, place);
	while (records_held(&timer->lanes) < 2000) /* so that it needs no more memory */
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, HWT_S(60), NULL), ==, 0);
	for (uint32_t i = 0; i < lanes_count(&timer->lanes); i++)
		memcpy(&before[i], timer->lanes.made[i], sizeof(*before));
	memcpy(timer_before, timer, sizeof(hwt_timer));
	for (int i = 0; i < 1000; i++)
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, HWT_S(60), NULL), ==, 0);
	for (uint32_t i = 0; i < lanes_count(&timer->lanes); i++)
		CHECK((memcmp(&before[i], timer->lanes.made[i], sizeof(*before)) != 0) ==
		      (timer->lanes.made[i] == mine));
	CHECK(memcmp(timer_before, timer, sizeof(hwt_timer)) == 0); /* no counter, no lock, no list of the timer's */
	free(before);
	free(timer_before);
	driven_destroy(timer);
}

TEST(row26_a_timer_whose_thread_cannot_be_made_can_be_started_later)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	pthread_attr_t attr;
	hwt_timer *timer;

	REQUIRE(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, SIZE_MAX / 4 * 3) == 0);
	config.thread_attr = &attr;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	for (int i = 0; i < 3; i++) { /* the second one would hang if the first had left it "starting" */
		CHECK_INT(hwt_timer_start(timer), !=, 0);
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, 0, &timeout), !=, 0);
	}
	CHECK(timeout.entry == NULL);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_INT(atomic_load(&timer->state), ==, TIMER_INIT);
	REQUIRE(pthread_attr_setstacksize(&attr, (size_t)1 << 18) == 0);
	CHECK_INT(hwt_new_timeout(timer, nothing, NULL, 0, &timeout), ==, 0);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
	pthread_attr_destroy(&attr);
}

TEST(no_timer_is_an_error_and_nothing_else)
{
	hwt_config out = HWT_CONFIG_INIT;
	hwt_unprocessed left;
	size_t unprocessed = 7;

	CHECK_INT(hwt_timer_start(NULL), ==, EINVAL);
	CHECK_INT(hwt_timer_stop(NULL, &unprocessed), ==, EINVAL);
	CHECK_INT(unprocessed, ==, 7);
	CHECK(!hwt_timer_next_unprocessed(NULL, &left));
	CHECK_INT(hwt_timer_config(NULL, &out), ==, EINVAL);
	CHECK_INT(hwt_timer_destroy(NULL), ==, 0);
}

static hwt_timer *raced;

static void *start_it(void *arg)
{
	(void)arg;
	CHECK_INT(hwt_timer_start(raced), ==, 0);
	CHECK(raced->wheel->grid.start_ns > 0); /* the starters wait for it */
	return NULL;
}

TEST(row28_many_threads_start_one_worker)
{
	pthread_t threads[8];

	for (int round = 0; round < 30; round++) {
		REQUIRE(hwt_timer_create(&raced, NULL) == 0);
		for (int i = 0; i < 8; i++)
			REQUIRE(pthread_create(&threads[i], NULL, start_it, NULL) == 0);
		for (int i = 0; i < 8; i++)
			pthread_join(threads[i], NULL);
		CHECK_INT(hwt_timer_destroy(raced), ==, 0); /* a second worker would go on in freed memory */
	}
}

/* A canceller that has taken ARMED away and has not pushed the record yet, while a stop passes by. */
static struct {
	pthread_t thread;
	hwt_timeout timeout;
	_Atomic bool in_push, may_push;
	_Atomic unsigned released;
} slow;

static void count_slow_release(void *arg)
{
	(void)arg;
	atomic_fetch_add(&slow.released, 1);
}

static void hold_the_push(const char *where)
{
	if (strcmp(where, "blocked") == 0)
		atomic_store(&slow.may_push, true); /* the stop waits for the lock */
	if (strcmp(where, "queue push") != 0 || atomic_exchange(&slow.in_push, true))
		return;
	while (!atomic_load(&slow.may_push))
		sched_yield();
}

static void *cancel_slow(void *arg)
{
	(void)arg;
	CHECK_INT(hwt_cancel(slow.timeout), ==, 0);
	return NULL;
}

TEST(a_stop_calls_the_finaliser_of_a_timeout_whose_cancel_is_under_way)
{
	hwt_spec spec = { .size = sizeof(spec), .task = nothing, .when_ns = HWT_MS(5), .release = count_slow_release };
	hwt_config config = driven_config(HWT_MS(1), 64);
	hwt_timer *timer = driven_create(&config, HWT_S(1));
	size_t unprocessed = 1;

	REQUIRE(hwt_new_timeout_ex(timer, &spec, &slow.timeout) == 0);
	driven_pass(timer, HWT_S(1) + HWT_MS(1)); /* into the wheel */
	atomic_store(&hwt_test_point, hold_the_push);
	REQUIRE(pthread_create(&slow.thread, NULL, cancel_slow, NULL) == 0);
	while (!atomic_load(&slow.in_push))
		sched_yield();
	driven_pass(timer, HWT_S(1) + HWT_MS(10)); /* out of the wheel: now only the canceller knows it */
	CHECK_INT(slow.released, ==, 0);
	CHECK_INT(hwt_timer_stop(timer, &unprocessed), ==, 0);
	CHECK_INT(unprocessed, ==, 0);
	atomic_store(&slow.may_push, true);
	pthread_join(slow.thread, NULL);
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	driven_destroy(timer);
	CHECK_INT(slow.released, ==, 1);
}

/* A clock may begin anywhere, and a deadline may lie anywhere from it. */
TEST(format_knows_what_is_left_at_either_end_of_all_times)
{
	static const struct {
		int64_t now_ns, deadline_ns;
		const char *left;
	} rows[] = {
		{ INT64_MIN, INT64_MIN + HWT_MS(1500), "pending, 1.500 s left" },
		{ INT64_MIN, INT64_MIN, "pending, 0.000 s left" },
		{ INT64_MIN, INT64_MAX - 1, "pending, 9223372036.854 s left" },
		{ INT64_MIN + HWT_MS(20), INT64_MIN, "pending, due since 0.020 s" },
		{ INT64_MAX, INT64_MIN, "pending, due since 9223372036.854 s" },
		{ INT64_MAX, INT64_MAX - HWT_MS(7), "pending, due since 0.007 s" },
		{ INT64_MAX, INT64_MAX, "pending, never due" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hwt_config config = driven_config(HWT_MS(1), 64);
		hwt_timer *timer = driven_create(&config, 0);
		hwt_timeout timeout = HWT_TIMEOUT_NONE;
		char text[128] = "";

		CHECK_INT(hwt_new_timeout_at(timer, nothing, NULL, rows[i].deadline_ns, &timeout), ==, 0);
		fake_now_ns = rows[i].now_ns;
		(void)hwt_timeout_format(timeout, text, sizeof(text));
		if (strstr(text, rows[i].left) == NULL)
			test_fail(__FILE__, __LINE__, text, 0, 0, false);
		driven_destroy(timer);
	}
}

TEST_MAIN()
