/* SPDX-License-Identifier: BSD-2-Clause */
/* HWT_COLLECT: no task is called, hwt_timer_advance_batch hands timeouts out. */
#include "support.h"

#define BATCH 64

static hwt_config collecting(uint32_t flags)
{
	hwt_config config = HWT_CONFIG_INIT;

	config.tick_duration_ns = HWT_MS(1);
	config.ticks_per_wheel = 16;
	config.flags = HWT_CALLER_DRIVEN | HWT_COLLECT | flags;
	return config;
}

static hwt_timer *made(const hwt_config *config)
{
	hwt_timer *timer = NULL;

	REQUIRE(hwt_timer_create(&timer, config) == 0);
	return timer;
}

static hwt_timer *collecting_timer(void)
{
	hwt_config config = collecting(HWT_VIRTUAL_CLOCK);

	return made(&config);
}

static hwt_fired fired[BATCH];

static int refuse(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx, (void)run, (void)job;
	return EAGAIN;
}

TEST(it_is_for_loops_of_ones_own_and_without_threads_for_tasks)
{
	static const hwt_executor executor = { refuse, NULL };
	hwt_config config = collecting(0);
	hwt_timer *timer = NULL;

	config.flags = HWT_COLLECT;
	CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
	config.flags = HWT_CALLER_DRIVEN | HWT_COLLECT;
	config.executor = &executor;
	CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
	config.executor = NULL;
	config.task_threads = 1;
	CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
	CHECK(timer == NULL);
	config.task_threads = 0;
	timer = made(&config);
	CHECK_RC(hwt_timer_config(timer, &config), 0);
	CHECK_INT(config.flags, ==, HWT_CALLER_DRIVEN | HWT_COLLECT);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static unsigned released;

static void release(void *arg)
{
	(void)arg;
	released++;
}

TEST(it_takes_no_task_and_no_finaliser)
{
	hwt_timer *timer = collecting_timer();
	hwt_timeout timeout = { &timer, 4711 };
	hwt_spec spec = HWT_SPEC_INIT;
	int64_t next_ns = -1;
	size_t n = 4711;

	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, 0, &timeout), EINVAL);
	CHECK_RC(hwt_new_timeout_at(timer, count_task, NULL, 0, &timeout), EINVAL);
	CHECK_RC(hwt_new_periodic(timer, count_task, NULL, 0, HWT_MS(5), &timeout), EINVAL);
	spec.task = count_task;
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), EINVAL);
	spec.task = NULL;
	spec.release = release;
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), EINVAL);
	spec.period_ns = HWT_MS(5);
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), EINVAL);
	CHECK(timeout.entry == &timer && timeout.generation == 4711);
	CHECK_INT(stats_of(timer).accepted, ==, 0);
	CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(10), fired, BATCH, &n, &next_ns), 0);
	CHECK(n == 0 && next_ns == INT64_MAX);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_INT(released, ==, 0);
}

TEST(each_timer_has_its_own_advance)
{
	hwt_timer *timer = collecting_timer(), *other;
	hwt_config config = collecting(HWT_VIRTUAL_CLOCK);
	int64_t next_ns = -1;
	atomic_uint ran = 0;
	size_t n = 4711;

	config.flags &= ~HWT_COLLECT;
	other = made(&config);
	CHECK_RC(hwt_new_timeout(other, NULL, NULL, 0, NULL), EINVAL);
	CHECK_RC(hwt_new_timeout(other, count_task, &ran, 0, NULL), 0);
	CHECK_RC(hwt_timer_advance_batch(other, HWT_MS(1), fired, BATCH, &n, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_advance(other, HWT_MS(1), NULL), 0);
	CHECK_INT(ran, ==, 1);
	CHECK_RC(hwt_new_timeout(timer, NULL, NULL, 0, NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, HWT_MS(1), &next_ns), EINVAL);
	CHECK_RC(hwt_timer_advance_batch(NULL, HWT_MS(1), fired, BATCH, &n, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(1), NULL, 1, &n, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(1), fired, BATCH, NULL, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_advance_batch(timer, -1, fired, BATCH, &n, &next_ns), EINVAL);
	CHECK(n == 4711 && next_ns == -1);
	CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(1), fired, BATCH, &n, NULL), 0); /* next_ns may be NULL */
	CHECK_INT(n, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_RC(hwt_timer_destroy(other), 0);
}

/* Operations do not wait in the lanes for a call with room: they would gather there. */
TEST(with_room_for_none_it_takes_in_what_has_come_while_something_is_due)
{
	hwt_timer *timer = collecting_timer();
	hwt_stats stats = { .size = sizeof(stats) };
	hwt_timeout timeout;
	int64_t next_ns = 0;
	size_t n = 1;

	CHECK_RC(hwt_new_timeout(timer, NULL, &released, HWT_MS(5), NULL), 0);
	for (unsigned i = 1; i <= 3; i++) {
		CHECK_RC(hwt_new_timeout(timer, NULL, NULL, HWT_MS(50), &timeout), 0);
		CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(10 + i), NULL, 0, &n, &next_ns), 0);
		CHECK_INT(n, ==, 0);
		CHECK_INT(next_ns, ==, HWT_MS(10 + i));
		CHECK_RC(hwt_timer_stats(timer, &stats), 0);
		CHECK_INT(stats.transfers, ==, 2 * i);
		CHECK_RC(hwt_cancel(timeout), 0);
		CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(10 + i), NULL, 0, &n, &next_ns), 0);
		CHECK_RC(hwt_timer_stats(timer, &stats), 0);
		CHECK_INT(stats.transfers, ==, 2 * i + 1);
	}
	CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(20), fired, BATCH, &n, &next_ns), 0);
	CHECK(n == 1 && fired[0].arg == &released && next_ns == INT64_MAX);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
