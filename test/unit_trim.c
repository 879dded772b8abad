/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that goes back to the system: which memory, and when. */
#include "check/check.h"
#include "unit.h"
#include "worker/trim.h"

#define START HWT_S(1000)
#define TICK HWT_MS(1)
#define FAR HWT_S(3600)

/* A slab holds 43,690 records: one or two are filled, another begun. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(HWT_TSAN)
#define MANY 68000u
#else
#define MANY 90000u
#endif

static hwt_timer *timer;
static hwt_timeout timeouts[MANY];
static int64_t now_ns;

static void begin_with(const hwt_config *config)
{
	timer = driven_create(config, START);
	now_ns = START;
}

static void begin(void)
{
	hwt_config config = driven_config(TICK, 512);

	begin_with(&config);
}

static void end(void)
{
	hwt_check(timer);
	driven_destroy(timer);
}

static void pass(void)
{
	now_ns += TICK;
	while (driven_pass(timer, now_ns))
		;
}

static void fill(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		CHECK_INT(hwt_new_timeout_at(timer, nothing, NULL, now_ns + FAR + i % 1000 * TICK, &timeouts[i]), ==,
			  0);
}

static void cancel_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
}

/* Schedules and cancels n timeouts, whose memory is then free. */
static void burst(unsigned n)
{
	fill(n);
	pass();
	cancel_all(n);
	pass();
}

static void trim(void)
{
	hwt_worker_trim_now(&timer->worker);
	hwt_check(timer);
}

/* A caller that does not wait for the end subtracts two values. */
TEST(at_each_moment_of_a_trim_as_much_has_gone_back_as_before_or_more)
{
	size_t before = 0;

	begin();
	burst(MANY / 2);
	hwt_look_begin(&timer->worker.trimming.look, &timer->lanes, now_ns, 0, true);
	while (hwt_look_step(&timer->worker.trimming.look)) {
		CHECK_INT(timer->worker.trimming.look.given, >=, before);
		before = timer->worker.trimming.look.given;
	}
	CHECK_INT(before, >, 100000);
	end();
}

static unsigned asked_for_memory;

/* Called at each allocation, which may take long: no producer may wait meanwhile. */
static bool refuse_none(void)
{
	for (uint32_t i = 0; i < lanes_count(&timer->lanes); i++) {
		struct hwt_lane *lane = timer->lanes.made[i];

		CHECK(queue_try_lock(&lane->submitted) && queue_try_lock(&lane->cancelled));
		queue_unlock(&lane->submitted);
		queue_unlock(&lane->cancelled);
	}
	asked_for_memory++;
	return false;
}

TEST(a_trim_allocates_while_no_lane_is_locked)
{
	begin();
	burst(MANY);
	asked_for_memory = 0;
	atomic_store(&hwt_test_mem_refuses, refuse_none);
	trim();
	atomic_store(&hwt_test_mem_refuses, (hwt_mem_refuses *)0);
	CHECK_INT(asked_for_memory, >, 0);
	end();
}

TEST(a_trim_leaves_one_slab_of_nodes)
{
	begin();
	burst(MANY);
	trim();
	CHECK_INT(slabs_bytes(&lanes_home(&timer->lanes)->submitted.slabs), <=, 70000);
	CHECK_INT(stats_now(timer).records, <, 50000);
	end();
}

/* Between two slices the worker checks all lanes: with a slice for each lane the cost would be quadratic. */
TEST(a_look_at_many_lanes_takes_few_slices)
{
	unsigned slices = 1;

	hwt_test_cores = 256;
	begin();
	for (uint32_t place = 0; place < 512; place++)
		(void)lane_at(&timer->lanes, place);
	hwt_look_begin(&timer->worker.trimming.look, &timer->lanes, now_ns, 0, true);
	while (hwt_look_step(&timer->worker.trimming.look))
		slices++;
	CHECK_INT(lanes_count(&timer->lanes), ==, 512);
	CHECK_INT(slices, <=, 64);
	hwt_test_cores = 0;
	end();
}

/* Trims as a worker that goes to sleep.  Returns true if it has trimmed to the end. */
static bool rest_at(int64_t at_ns)
{
	uint64_t before = stats_now(timer).records;

	now_ns = at_ns;
	while (driven_pass(timer, now_ns))
		;
	while (hwt_worker_trim(&timer->worker, now_ns))
		;
	return stats_now(timer).records < before;
}

/*
 * The wake of the request may have ended a nap between two slices.  So the request is served before the worker sleeps
 * for long.
 */
TEST(a_request_in_the_middle_of_a_trim_is_answered_before_the_worker_sleeps)
{
	struct hwt_trimming *trimming;
	unsigned slices = 1;

	begin();
	trimming = &timer->worker.trimming;
	burst(MANY);
	fake_now_ns = now_ns + TICK; /* the next tick is near: one slice a call */
	atomic_store(&trimming->asked, 1);
	CHECK(hwt_worker_trim(&timer->worker, now_ns));
	atomic_store(&trimming->asked, 2);
	while (hwt_worker_trim(&timer->worker, now_ns))
		REQUIRE(++slices < 10000);
	CHECK_INT(slices, >, 1);
	CHECK_INT(trimming->answered, ==, 2);
	CHECK(!trimming->is_active);
	end();
}

TEST(a_load_that_swings_keeps_its_memory)
{
	int64_t begin_ns = START + HWT_S(1);

	begin();
	for (unsigned second = 0; second < 8; second++) {
		CHECK(!rest_at(begin_ns + HWT_S(second)));
		burst(MANY);
		CHECK(!rest_at(begin_ns + HWT_S(second) + HWT_MS(300)));
		CHECK(!rest_at(begin_ns + HWT_S(second) + HWT_MS(900)));
	}
	/* Quiet time: one look that still sees the load, and two seconds. */
	for (unsigned second = 8; second < 10; second++)
		CHECK(!rest_at(begin_ns + HWT_S(second)));
	CHECK(rest_at(begin_ns + HWT_S(10)) || rest_at(begin_ns + HWT_S(11)));
	CHECK_INT(stats_now(timer).records, <, 50000);
	end();
}

static size_t node_bytes(void)
{
	struct hwt_lane *lane = lanes_home(&timer->lanes);

	return slabs_bytes(&lane->submitted.slabs) + slabs_bytes(&lane->cancelled.slabs);
}

/* The lane never rests. */
TEST(nodes_of_a_load_that_has_become_light_go_back)
{
	begin();
	atomic_store(&hwt_test_enough, 100000);
	burst(MANY);
	CHECK_INT(node_bytes(), >=, MANY * sizeof(hwt_node));
	for (unsigned second = 0; second < 10; second++) {
		(void)rest_at(now_ns + HWT_S(1));
		burst(10);
	}
	CHECK_INT(node_bytes(), <=, 8192);
	atomic_store(&hwt_test_enough, (size_t)4 << 20);
	end();
}

/* The nodes are in use in each second. */
TEST(nodes_of_a_load_that_comes_in_bursts_stay)
{
	begin();
	atomic_store(&hwt_test_enough, 100000);
	for (unsigned second = 0; second < 10; second++) {
		burst(MANY);
		(void)rest_at(now_ns + HWT_S(1));
		CHECK_INT(node_bytes(), >=, 2 * MANY * sizeof(hwt_node));
	}
	atomic_store(&hwt_test_enough, (size_t)4 << 20);
	end();
}

/* In each second the load uses the same few slabs, and not all of them. */
TEST(a_load_of_some_slabs_leaves_the_others_alone)
{
	atomic_store(&hwt_test_slab_records, 1000);
	atomic_store_explicit(&hwt_test_enough, 1, memory_order_release);
	begin();
	burst(10000);
	CHECK_INT(stats_now(timer).records, >=, 10000);
	for (unsigned i = 0; i < 60; i++) {
		fill(1500);
		(void)rest_at(now_ns + HWT_MS(250));
		cancel_all(1500);
	}
	CHECK_INT(stats_now(timer).records, <=, 8000);
	end();
	atomic_store(&hwt_test_slab_records, SLAB_RECORDS);
	atomic_store_explicit(&hwt_test_enough, (size_t)4 << 20, memory_order_release);
}

/* Rests as often as the worker would, until it has no reason to wake up.  Returns the number of rests. */
static unsigned rest_until_calm(void)
{
	unsigned wakeups = 0;
	int64_t tick;

	while ((tick = hwt_worker_trim_due(&timer->worker, HWT_TICK_NEVER, now_ns)) != HWT_TICK_NEVER) {
		if (++wakeups == 10)
			break;
		(void)rest_at(grid_time(&timer->grid, tick));
	}
	return wakeups;
}

/*
 * The worker looks once at memory in use.  While memory waits to be given back it wakes up for that, and afterwards
 * not.
 */
TEST(the_worker_wakes_up_to_trim_and_then_no_more)
{
	int64_t from_ns;

	begin();
	CHECK_INT(hwt_worker_trim_due(&timer->worker, HWT_TICK_NEVER, now_ns), ==, HWT_TICK_NEVER);
	fill(MANY);
	CHECK(!rest_at(now_ns + TICK));
	CHECK_INT(rest_until_calm(), <=, 2);
	cancel_all(MANY);
	from_ns = now_ns;
	CHECK(!rest_at(now_ns + TICK));
	CHECK_INT(rest_until_calm(), <, 10);
	CHECK_INT(now_ns, <=, from_ns + HWT_S(5));
	CHECK_INT(stats_now(timer).records, <, 50000);
	end();
}

/* Timeouts begin on the worker and end on a task thread; while task threads are busy the worker looks now and then. */
TEST(memory_of_tasks_on_task_threads_goes_back_as_well)
{
	hwt_config config = driven_config(TICK, 512);
	struct hwt_record *record;

	config.task_threads = 2;
	begin_with(&config);
	for (unsigned i = 0; i < MANY; i++)
		CHECK_INT(hwt_new_timeout_at(timer, nothing, NULL, now_ns + TICK, &timeouts[i]), ==, 0);
	CHECK(!rest_at(now_ns + 2 * TICK));
	CHECK_INT(ready_waiting(&timer->tasks.ready), ==, MANY);
	for (unsigned i = 0; i < 4; i++) {
		int64_t tick = hwt_worker_trim_due(&timer->worker, HWT_TICK_NEVER, now_ns);

		REQUIRE(tick != HWT_TICK_NEVER);
		CHECK_INT(grid_time(&timer->grid, tick), >, now_ns + HWT_MS(900));
		CHECK(!rest_at(grid_time(&timer->grid, tick)));
	}
	while ((record = hwt_ready_take_left(&timer->tasks.ready)) != NULL)
		hwt_tasks_run_one(&timer->tasks.runner[0], record, READY_NOT_MARKED);
	(void)rest_at(now_ns + HWT_S(1));
	CHECK_INT(rest_until_calm(), <, 10);
	CHECK_INT(stats_now(timer).records, <, 50000);
	end();
}

static void (*run_job)(void *job);
static void *jobs[MANY];
static unsigned kept;

static int keep_job(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx;
	run_job = run;
	jobs[kept++] = job;
	return 0;
}

/* The same on an executor, where a timeout has ended for the worker before its task runs. */
TEST(memory_of_jobs_of_an_executor_goes_back_when_they_have_finished)
{
	hwt_executor executor = { keep_job, NULL };
	hwt_config config = driven_config(TICK, 512);

	config.executor = &executor;
	kept = 0;
	begin_with(&config);
	for (unsigned i = 0; i < MANY; i++)
		CHECK_INT(hwt_new_timeout_at(timer, nothing, NULL, now_ns + TICK, &timeouts[i]), ==, 0);
	CHECK(!rest_at(now_ns + 2 * TICK));
	CHECK_INT(kept, ==, MANY);
	for (unsigned i = 0; i < 6; i++) {
		int64_t tick = hwt_worker_trim_due(&timer->worker, HWT_TICK_NEVER, now_ns);

		REQUIRE(tick != HWT_TICK_NEVER);
		CHECK_INT(grid_time(&timer->grid, tick), >, now_ns + HWT_MS(900));
		CHECK(!rest_at(grid_time(&timer->grid, tick)));
	}
	for (unsigned i = 0; i < kept; i++)
		run_job(jobs[i]);
	(void)rest_at(now_ns + HWT_S(1));
	CHECK_INT(rest_until_calm(), <, 10);
	CHECK_INT(stats_now(timer).records, <, 50000);
	end();
}

/*
 * When the records' memory went, a timeout was waiting, and so the chunks stayed.  Chunks alone are a reason to trim.
 */
TEST(the_wheels_memory_goes_back_when_the_last_timeout_has_ended)
{
	hwt_config config = driven_config(TICK, 131072);

	begin_with(&config);
	for (unsigned i = 0; i < MANY; i++) /* each in a chunk of its own */
		CHECK_INT(hwt_new_timeout_at(timer, nothing, NULL, now_ns + HWT_S(20) + i * TICK, &timeouts[i]), ==, 0);
	pass();
	for (unsigned i = 1; i < MANY; i++)
		CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
	CHECK(!rest_at(now_ns + TICK));
	CHECK_INT(rest_until_calm(), <, 10);
	CHECK_INT(stats_now(timer).records, <, 50000);
	CHECK_INT(wheel_spare(timer->wheel), >, (size_t)4 << 20);
	CHECK(!wheel_is_empty(timer->wheel));
	CHECK_INT(hwt_cancel(timeouts[0]), ==, 0);
	CHECK(!rest_at(now_ns + HWT_S(1)));
	CHECK_INT(rest_until_calm(), <, 10);
	CHECK_INT(wheel_spare(timer->wheel), ==, 0);
	CHECK(wheel_is_empty(timer->wheel));
	end();
}

/* Each slab holds a timeout, so no memory can go.  Without activity the worker does not try again. */
TEST(the_worker_does_not_look_for_ever_for_what_it_cannot_give_back)
{
	unsigned wakeups = 0;
	int64_t tick;

	begin();
	fill(MANY);
	CHECK(!rest_at(now_ns + TICK));
	for (unsigned i = 0; i < MANY; i++)
		if (i % 11000 != 0)
			CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
	CHECK(!rest_at(now_ns + TICK));
	while ((tick = hwt_worker_trim_due(&timer->worker, HWT_TICK_NEVER, now_ns)) != HWT_TICK_NEVER) {
		REQUIRE(++wakeups < 10);
		CHECK(!rest_at(grid_time(&timer->grid, tick)));
	}
	CHECK_INT(wakeups, >, 0);
	CHECK_INT(stats_now(timer).records, >=, MANY);
	for (unsigned i = 0; i < MANY; i += 11000)
		CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
	CHECK(!rest_at(now_ns + TICK));
	for (wakeups = 0; stats_now(timer).records >= 50000; wakeups++) {
		tick = hwt_worker_trim_due(&timer->worker, HWT_TICK_NEVER, now_ns);
		REQUIRE(tick != HWT_TICK_NEVER && wakeups < 10);
		(void)rest_at(grid_time(&timer->grid, tick));
	}
	end();
}

TEST_MAIN()
