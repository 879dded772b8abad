/* SPDX-License-Identifier: BSD-2-Clause */
/* config.on_earlier: a loop without a descriptor is told when it has to advance earlier than it was told. */
#include "virtual.h"

#include <poll.h>

static atomic_uint tellings;

static void tell(void *ctx)
{
	if (ctx != NULL)
		atomic_fetch_add((atomic_uint *)ctx, 1);
	errno = EDOM; /* what it does with errno is not seen by the call that tells */
}

static hwt_timer *telling_timer(uint32_t flags, void (*on_earlier)(void *ctx), void *ctx)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = HWT_MS(1);
	config.flags = HWT_CALLER_DRIVEN | flags;
	config.on_earlier = on_earlier;
	config.on_earlier_ctx = ctx;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	atomic_store(&tellings, 0);
	return timer;
}

TEST(a_worker_tells_nobody)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.on_earlier = tell;
	CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
	config.on_earlier = NULL;
	config.on_earlier_ctx = &tellings;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(the_loop_is_told_of_what_is_earlier_and_of_nothing_else)
{
	hwt_timer *timer = telling_timer(HWT_VIRTUAL_CLOCK, tell, &tellings);
	atomic_uint ran = 0;
	hwt_timeout far;

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(100), &far), 0);
	CHECK_INT(tellings, ==, 0); /* nobody has advanced, nobody has been told anything */
	CHECK_INT(advance(timer, 0), ==, HWT_MS(100));
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(100), NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(200), NULL), 0);
	CHECK_RC(hwt_cancel(far), 0);
	CHECK_INT(tellings, ==, 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(99), NULL), 0);
	CHECK_INT(tellings, ==, 1);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(5), NULL), 0);
	CHECK_INT(tellings, ==, 1); /* once */
	CHECK_INT(advance(timer, HWT_MS(1)), ==, HWT_MS(5));
	CHECK_INT(tellings, ==, 1);
	CHECK_INT(advance(timer, HWT_MS(99)), ==, HWT_MS(100));
	CHECK_INT(ran, ==, 2);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_INT(tellings, ==, 2);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_INT(tellings, ==, 2);
}

static void count_release(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

TEST(the_loop_is_told_of_a_move_and_of_a_finaliser)
{
	hwt_timer *timer = telling_timer(HWT_VIRTUAL_CLOCK, tell, &tellings);
	hwt_spec spec = HWT_SPEC_INIT;
	atomic_uint ran = 0;
	hwt_timeout moved, owned;

	spec.task = count_task;
	spec.arg = &ran;
	spec.when_ns = HWT_MS(100);
	spec.release = count_release;
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(100), &moved), 0);
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &owned), 0);
	CHECK_INT(advance(timer, 0), ==, HWT_MS(100));
	CHECK_RC(hwt_reschedule(moved, HWT_MS(300)), 0);
	CHECK_INT(tellings, ==, 0);
	CHECK_RC(hwt_reschedule(moved, HWT_MS(30)), 0);
	CHECK_INT(tellings, ==, 1);
	CHECK_INT(advance(timer, 0), ==, HWT_MS(30));
	CHECK_RC(hwt_cancel(owned), 0);
	CHECK_INT(tellings, ==, 2); /* the finaliser is to be called */
	CHECK_INT(advance(timer, 0), ==, HWT_MS(30));
	CHECK_INT(ran, ==, 1); /* by the finaliser */
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void schedule_more(hwt_timeout timeout, void *arg)
{
	CHECK_RC(hwt_new_timeout(hwt_timeout_timer(timeout), count_task, arg, HWT_MS(2), NULL), 0);
}

TEST(what_a_task_schedules_is_in_the_answer)
{
	hwt_timer *timer = telling_timer(HWT_VIRTUAL_CLOCK, tell, &tellings);
	atomic_uint ran = 0;

	CHECK_RC(hwt_new_timeout(timer, schedule_more, &ran, HWT_MS(5), NULL), 0);
	CHECK_INT(advance(timer, 0), ==, HWT_MS(5));
	CHECK_INT(advance(timer, HWT_MS(5)), ==, HWT_MS(7));
	CHECK_INT(tellings, ==, 0);
	CHECK_INT(advance(timer, HWT_MS(7)), ==, INT64_MAX);
	CHECK_INT(ran, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(with_a_descriptor_both_are_told)
{
	hwt_timer *timer = telling_timer(0, tell, &tellings);
	struct pollfd set[1] = { { .events = POLLIN } };
	int64_t now_ns;

	NEEDS_LINUX();
	now_ns = hwt_now();
	CHECK_INT(advance(timer, now_ns), ==, INT64_MAX);
	CHECK_RC(hwt_timer_fd(timer, &set[0].fd), 0);
	CHECK_INT(poll(set, 1, 0), ==, 1);
	CHECK_INT(advance(timer, now_ns), ==, INT64_MAX);
	CHECK_INT(poll(set, 1, 0), ==, 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_S(3600), NULL), 0);
	CHECK_INT(tellings, ==, 1);
	CHECK_INT(poll(set, 1, 0), ==, 1);
	CHECK_INT(advance(timer, now_ns), >, now_ns + HWT_S(3000));
	CHECK_INT(poll(set, 1, 0), ==, 0);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_INT(tellings, ==, 2);
	CHECK_INT(poll(set, 1, 0), ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* It asks the timer, whose locks are free, and schedules on the very lane that tells. */
static void ask_and_schedule(void *ctx)
{
	hwt_timer *timer = *(hwt_timer **)ctx;
	hwt_stats stats = { .size = sizeof(stats) };
	int64_t next_ns = -1;

	if (atomic_fetch_add(&tellings, 1) > 0) /* the stop */
		return;
	CHECK_RC(hwt_timer_next(timer, &next_ns), 0);
	CHECK_INT(next_ns, <=, 0);
	CHECK_RC(hwt_timer_stats(timer, &stats), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_MS(1), NULL), 0);
}

TEST(it_is_told_outside_all_locks)
{
	static hwt_timer *timer;

	timer = telling_timer(HWT_VIRTUAL_CLOCK, ask_and_schedule, &timer);
	CHECK_INT(advance(timer, 0), ==, INT64_MAX);
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_MS(50), NULL), 0);
	CHECK_INT(tellings, ==, 1);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 2);
	CHECK_INT(advance(timer, 0), ==, HWT_MS(1));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void sleep_in_there(void *ctx)
{
	struct timespec none = { 0, 1 };

	nanosleep(&none, NULL); /* a cancellation point */
	atomic_store((atomic_bool *)ctx, true);
}

static atomic_bool came_back, told_all;

static void *schedule_while_cancelled(void *timer)
{
	pthread_cancel(pthread_self());
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_MS(50), NULL), 0);
	atomic_store(&came_back, true);
	pthread_testcancel();
	return NULL;
}

TEST(a_cancelled_thread_tells_to_the_end)
{
	hwt_timer *timer = telling_timer(HWT_VIRTUAL_CLOCK, sleep_in_there, &told_all);
	void *result = NULL;
	pthread_t thread;

	CHECK_INT(advance(timer, 0), ==, INT64_MAX);
	REQUIRE(pthread_create(&thread, NULL, schedule_while_cancelled, timer) == 0);
	REQUIRE(pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK(atomic_load(&told_all));
	CHECK(atomic_load(&came_back));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* A loop on a condition, and threads that schedule and cancel: it sleeps through nothing, or this hangs. */
struct loop {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool told, over;
	hwt_timer *timer;
	uint64_t advances;
	atomic_uint ran;
};

static void tell_condition(void *ctx)
{
	struct loop *loop = ctx;

	pthread_mutex_lock(&loop->mutex);
	loop->told = true;
	pthread_cond_signal(&loop->changed);
	pthread_mutex_unlock(&loop->mutex);
}

static void *drive(void *arg)
{
	struct loop *loop = arg;
	int64_t next_ns;

	pthread_mutex_lock(&loop->mutex);
	while (!loop->over) {
		struct timespec until;

		loop->told = false;
		pthread_mutex_unlock(&loop->mutex);
		CHECK_RC(hwt_timer_advance(loop->timer, hwt_now(), &next_ns), 0);
		loop->advances++;
		pthread_mutex_lock(&loop->mutex);
		until = (struct timespec){ (time_t)(next_ns / HWT_S(1)), (long)(next_ns % HWT_S(1)) };
		while (!loop->told && !loop->over && next_ns > hwt_now())
			pthread_cond_timedwait(&loop->changed, &loop->mutex, &until);
	}
	pthread_mutex_unlock(&loop->mutex);
	return NULL;
}

static void *schedule_and_wait(void *arg)
{
	struct loop *loop = arg;
	struct prng prng = { (uint64_t)(uintptr_t)&prng };

	for (unsigned i = 0; i < scaled(400); i++) {
		atomic_uint ran = 0;
		hwt_timeout far;

		CHECK_RC(hwt_new_timeout(loop->timer, count_task, NULL, HWT_S(1000), &far), 0);
		if (prng_below(&prng, 2))
			CHECK_RC(hwt_new_timeout(loop->timer, count_task, &ran, 0, NULL), 0);
		else
			CHECK_RC(hwt_new_timeout(loop->timer, count_task, &ran, HWT_US(prng_below(&prng, 3000)), NULL),
				 0);
		REQUIRE(wait_count(&ran, 1));
		CHECK_RC(hwt_cancel(far), 0);
	}
	return NULL;
}

TEST(a_loop_on_a_condition_sleeps_through_nothing)
{
	struct loop loop = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	pthread_condattr_t attr;
	pthread_t driver;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&loop.changed, &attr);
	loop.timer = telling_timer(0, tell_condition, &loop);
	REQUIRE(pthread_create(&driver, NULL, drive, &loop) == 0);
	crew_run(3, schedule_and_wait, &loop, 0);
	pthread_mutex_lock(&loop.mutex);
	loop.over = true;
	pthread_cond_signal(&loop.changed);
	pthread_mutex_unlock(&loop.mutex);
	REQUIRE(pthread_join(driver, NULL) == 0);
	CHECK_RC(hwt_timer_destroy(loop.timer), 0);
	pthread_cond_destroy(&loop.changed);
	pthread_condattr_destroy(&attr);
}

TEST_MAIN()
