/* SPDX-License-Identifier: BSD-2-Clause */
/* Tasks on an executor: a pool of threads that also refuses, or runs at once. */
#include "executor.h"

#define TICK_NS HWT_MS(1)
#define FAR_NS HWT_S(3600)
static hwt_timer *timer_on(struct pool *pool, uint32_t flags)
{
	hwt_executor executor = { pool_execute, pool }; /* copied: it need not live on */
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = TICK_NS;
	config.executor = &executor;
	config.flags = flags;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

static struct pool pool;

TEST(an_executor_without_a_function_is_refused)
{
	hwt_executor executor = { NULL, &pool };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.executor = &executor;
	CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
	CHECK(timer == NULL);
}

struct where {
	pthread_t thread;
	hwt_timeout timeout;
	hwt_state state;
	int cancel_rc, stop_rc;
	atomic_uint ran;
};

static void where_task(hwt_timeout timeout, void *arg)
{
	struct where *where = arg;

	where->thread = pthread_self();
	where->state = hwt_timeout_state(timeout);
	CHECK(same_handle(timeout, where->timeout));
	where->cancel_rc = hwt_cancel(timeout);
	CHECK_RC(hwt_cancel_sync(timeout), EDEADLK);
	where->stop_rc = hwt_timer_stop(hwt_timeout_timer(timeout), NULL);
	atomic_fetch_add(&where->ran, 1);
}

TEST(tasks_run_in_the_pool)
{
	struct where where = { .cancel_rc = 0 };
	hwt_timer *timer;

	pool_start(&pool, 1);
	timer = timer_on(&pool, 0);
	CHECK_RC(hwt_new_timeout(timer, where_task, &where, 0, &where.timeout), 0);
	REQUIRE(wait_count(&where.ran, 1));
	CHECK(pthread_equal(where.thread, pool.crew.threads[0]));
	CHECK_INT(where.state, ==, HWT_RUNNING);
	CHECK_INT(where.cancel_rc, ==, EBUSY);
	CHECK_INT(where.stop_rc, ==, EDEADLK);
	REQUIRE(wait_state(where.timeout, HWT_EXPIRED));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	pool_stop(&pool);
}

static atomic_uint gate_entered, gate_open;

static void gate_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	atomic_fetch_add(&gate_entered, 1);
	REQUIRE(wait_count(&gate_open, 1));
}

TEST(a_slow_task_does_not_hold_up_others)
{
	atomic_uint ran = 0;
	hwt_timer *timer;

	atomic_store(&gate_entered, 0);
	atomic_store(&gate_open, 0);
	pool_start(&pool, 2);
	timer = timer_on(&pool, 0);
	CHECK_RC(hwt_new_timeout(timer, gate_task, NULL, 0, NULL), 0);
	REQUIRE(wait_count(&gate_entered, 1));
	for (int i = 0; i < 100; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_US(100) * i, NULL), 0);
	CHECK(wait_count(&ran, 100));
	CHECK_INT(stats_of(timer).running, >=, 1);
	atomic_store(&gate_open, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	pool_stop(&pool);
}

/* Waits until so many jobs are in the pool's queue. */
static bool wait_queued(unsigned count)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;
	unsigned queued;

	do {
		sleep_ns(HWT_US(200));
		pthread_mutex_lock(&pool.mutex);
		queued = pool.count;
		pthread_mutex_unlock(&pool.mutex);
	} while (queued != count && hwt_now() < give_up_ns);
	return queued == count;
}

static void count_release(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

/* The pool runs their jobs later, which do nothing but return the memory and call the finaliser. */
TEST(what_waits_in_the_pool_is_pending_and_can_be_cancelled)
{
	atomic_uint ran = 0, released = 0;
	hwt_spec spec = HWT_SPEC_INIT;
	hwt_timeout timeouts[4];
	hwt_timer *timer;
	size_t said = 17;

	pool_start(&pool, 1);
	timer = timer_on(&pool, 0);
	pool_set_held(&pool, true);
	for (int i = 0; i < 3; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, &timeouts[i]), 0);
	spec.task = count_task;
	spec.arg = &released;
	spec.release = count_release;
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeouts[3]), 0);
	REQUIRE(wait_queued(4));
	for (int i = 0; i < 4; i++)
		CHECK_INT(hwt_timeout_state(timeouts[i]), ==, HWT_PENDING);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 4);
	CHECK_INT(stats_of(timer).running, ==, 0);
	CHECK_RC(hwt_cancel(timeouts[1]), 0);
	CHECK_RC(hwt_cancel(timeouts[1]), ENOENT);
	CHECK_INT(hwt_timeout_state(timeouts[1]), ==, HWT_CANCELLED);
	CHECK_RC(hwt_cancel_sync(timeouts[2]), 0); /* waits for nothing: it has not begun */
	CHECK_RC(hwt_cancel(timeouts[3]), 0);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
	CHECK_INT(released, ==, 0);
	pool_set_held(&pool, false);
	REQUIRE(wait_count(&ran, 1) && wait_count(&released, 1));
	CHECK_RC(hwt_timer_stop(timer, &said), 0);
	CHECK_INT(said, ==, 0);
	CHECK_INT(ran, ==, 1);
	CHECK_INT(released, ==, 1);
	CHECK_INT(stats_of(timer).cancelled, ==, 3);
	CHECK_INT(stats_of(timer).completed, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	pool_stop(&pool);
}

static void *open_the_pool(void *arg)
{
	sleep_ms(20);
	pool_set_held(arg, false);
	return NULL;
}

/* Also for those that have been cancelled or moved: the pool has their jobs. */
TEST(a_stop_waits_until_the_pool_has_run_what_it_accepted)
{
	hwt_timeout timeouts[5];
	hwt_unprocessed left;
	struct crew opener;
	atomic_uint ran = 0;
	hwt_timer *timer;
	size_t said = 17;

	pool_start(&pool, 1);
	timer = timer_on(&pool, 0);
	pool_set_held(&pool, true);
	for (int i = 0; i < 5; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, &timeouts[i]), 0);
	REQUIRE(wait_queued(5));
	CHECK_RC(hwt_cancel(timeouts[0]), 0);
	CHECK_RC(hwt_reschedule(timeouts[1], FAR_NS), 0);
	crew_start(&opener, 1, open_the_pool, &pool, 0);
	CHECK_RC(hwt_timer_stop(timer, &said), 0);
	crew_join(&opener);
	CHECK_INT(said, ==, 1);
	REQUIRE(hwt_timer_next_unprocessed(timer, &left));
	CHECK(same_handle(left.timeout, timeouts[1]));
	CHECK_INT(ran, ==, 3);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	pool_stop(&pool);
}

TEST(what_is_refused_runs_on_the_worker)
{
	atomic_uint ran = 0;
	hwt_timer *timer;

	pool_start(&pool, 1);
	pool.refuse_every = 3;
	timer = timer_on(&pool, 0);
	for (int i = 0; i < 300; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, NULL), 0);
	REQUIRE(wait_count(&ran, 300));
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_INT(pool.refused, ==, 100);
	CHECK_INT(stats_of(timer).executor_refusals, ==, 100);
	CHECK_INT(stats_of(timer).completed, ==, 300);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	pool_stop(&pool);
}

static int run_at_once(void *ctx, void (*run)(void *job), void *job)
{
	atomic_fetch_add((atomic_uint *)ctx, 1);
	run(job);
	return 0;
}

/* An executor that runs the job before it returns; in the caller's own loop. */
TEST(an_executor_may_run_the_job_at_once)
{
	atomic_uint asked = 0, ran = 0;
	hwt_executor executor = { run_at_once, &asked };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = TICK_NS;
	config.executor = &executor;
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	for (int64_t i = 1; i <= 1000; i++) {
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, TICK_NS, NULL), 0);
		CHECK_RC(hwt_timer_advance(timer, i * TICK_NS, NULL), 0);
	}
	CHECK_RC(hwt_timer_advance(timer, 1001 * TICK_NS, NULL), 0);
	CHECK_INT(ran, ==, 1000);
	CHECK_INT(asked, ==, 1000);
	CHECK_INT(stats_of(timer).records, <, 200); /* memory comes home from wherever a task has run */
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
