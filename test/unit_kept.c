/* SPDX-License-Identifier: BSD-2-Clause */
/* Records that a lane keeps at the end of its queue, and what waits there for a worker that does not come by. */
#include "check/check.h"
#include "unit.h"

#include <pthread.h>

#define START HWT_S(1000)
#define TICK HWT_MS(1)
#define FAR HWT_S(3600)
#define MANY 100

static hwt_timer *timer;
static struct hwt_lane *lane;
static unsigned ran, released, order_broken;
static uintptr_t last_arg;

static void begin_with(hwt_config config)
{
	ran = released = order_broken = 0;
	last_arg = 0;
	timer = driven_create(&config, START);
	lane = lanes_home(&timer->lanes);
	REQUIRE(lane != NULL);
}

/* A lane is full with so many and four times the limit. */
static void begin(int64_t limit, uint64_t full)
{
	hwt_config config = driven_config(TICK, 64);

	config.max_pending_timeouts = limit;
	atomic_store(&hwt_test_full, full);
	begin_with(config);
}

static void end(void)
{
	hwt_check(timer);
	driven_destroy(timer);
	atomic_store(&hwt_test_full, HWT_FULL);
}

static void count(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	order_broken += (uintptr_t)arg <= last_arg;
	last_arg = (uintptr_t)arg;
	ran++;
}

static void count_release(void *arg)
{
	(void)arg;
	released++;
}

enum kind { PLAIN, PERIODIC, OWNED };

static hwt_timeout schedule_kind(enum kind kind, uintptr_t arg)
{
	hwt_spec spec = { .size = sizeof(spec), .task = count, .arg = (void *)arg, .when_ns = TICK };
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	spec.period_ns = kind == PERIODIC ? FAR : 0;
	spec.release = kind == OWNED ? count_release : NULL;
	CHECK_INT(hwt_new_timeout_ex(timer, &spec, &timeout), ==, 0);
	return timeout;
}

static hwt_timeout schedule(uintptr_t arg)
{
	return schedule_kind(PLAIN, arg);
}

static void schedule_and_cancel(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		CHECK_INT(hwt_cancel(schedule(1)), ==, 0);
}

static unsigned in_queue(void)
{
	struct hwt_check_counts counts;

	hwt_check_count(timer, &counts);
	return (unsigned)counts.place[PLACE_SUBMITTED];
}

static unsigned waiting(void)
{
	return (unsigned)lane_waiting(lane);
}

/* One record and one node, however many there are, and whatever is asked of each. */
TEST(who_schedules_and_cancels_needs_one_record)
{
	for (int64_t limit = 0; limit <= 1; limit++) {
		hwt_timeout timeout, before = HWT_TIMEOUT_NONE;
		size_t bytes;

		begin(limit, HWT_FULL);
		bytes = slabs_bytes(&lane->submitted.slabs);
		for (unsigned i = 0; i < 100000; i++) {
			timeout = schedule(1);
			CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
			CHECK_INT(hwt_timeout_state(timeout), ==, HWT_PENDING);
			CHECK_INT(hwt_timeout_state(before), ==, i == 0 ? HWT_NONE : HWT_RETIRED);
			CHECK_INT(hwt_cancel(before), ==, ENOENT);
			CHECK_INT(hwt_reschedule(before, 0), ==, ENOENT);
			CHECK_INT(hwt_cancel(timeout), ==, 0);
			CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
			CHECK_INT(hwt_timeout_state(timeout), ==, HWT_CANCELLED);
			CHECK_INT(hwt_cancel(timeout), ==, ENOENT);
			CHECK_INT(hwt_reschedule(timeout, 0), ==, ENOENT);
			before = timeout;
		}
		CHECK_INT(slabs_bytes(&lane->submitted.slabs), ==, bytes);
		CHECK_INT(record_slabs_held(&timer->lanes.slabs), <=, 4096);
		CHECK_INT(in_queue(), ==, 1);
		CHECK_INT(waiting(), ==, 1);
		CHECK(!lane_is_long(lane));
		driven_pass(timer, START + TICK);
		CHECK_INT(waiting(), ==, 0);
		CHECK_INT(ran, ==, 0);
		end();
	}
}

/* The worker calls finalisers; and a second record would have to be kept as well. */
TEST(one_with_an_extension_is_left_to_the_worker)
{
	begin(0, HWT_FULL);
	for (unsigned i = 0; i < MANY; i++) {
		CHECK_INT(hwt_cancel(schedule_kind(PERIODIC, 1)), ==, 0);
		CHECK_INT(hwt_cancel(schedule_kind(OWNED, 1)), ==, 0);
		CHECK_INT(hwt_cancel(schedule_kind(PLAIN, 1)), ==, 0);
	}
	CHECK_INT(in_queue(), ==, 3 * MANY);
	CHECK_INT(released, ==, 0);
	driven_pass(timer, START);
	CHECK_INT(released, ==, MANY);
	CHECK_INT(ran, ==, 0);
	end();
}

static const char *meet_at;
static int64_t meet_ns;

static void pass_here(const char *where)
{
	if (strcmp(where, meet_at) != 0)
		return;
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	driven_pass(timer, meet_ns);
}

static void meet(const char *where, int64_t now_ns)
{
	meet_at = where;
	meet_ns = now_ns;
	atomic_store(&hwt_test_point, pass_here);
}

/* Just before it is QUEUED again.  It is older than what comes next, and not lost. */
TEST(a_record_that_is_popped_while_it_is_queued_again_runs_in_its_turn)
{
	begin(0, HWT_FULL);
	CHECK_INT(hwt_cancel(schedule(1)), ==, 0);
	meet("word requeue", START);
	schedule(2);
	CHECK(atomic_load(&hwt_test_point) == NULL);
	CHECK(lane->parked != NULL && lane->kept == NULL);
	CHECK(!hwt_lanes_are_empty(&timer->lanes));
	hwt_check(timer);
	schedule(3);
	driven_pass(timer, START + TICK);
	CHECK_INT(ran, ==, 2);
	CHECK_INT(order_broken, ==, 0);
	end();
	begin(0, HWT_FULL); /* the same with more in one batch */
	CHECK_INT(hwt_cancel(schedule(1)), ==, 0);
	meet("word requeue", START);
	schedule(2);
	for (uintptr_t i = 3; i < 100; i++)
		schedule(i);
	driven_pass(timer, START + TICK);
	CHECK_INT(ran, ==, 98);
	CHECK_INT(order_broken, ==, 0);
	end();
	begin(0, HWT_FULL); /* and a stop */
	CHECK_INT(hwt_cancel(schedule(1)), ==, 0);
	meet("word requeue", START);
	schedule(2);
	{
		size_t unprocessed;

		CHECK_INT(hwt_timer_stop(timer, &unprocessed), ==, 0);
		CHECK_INT(unprocessed, ==, 1);
	}
	end();
}

/* It waits on the stack and not at the end of the queue, though it was submitted last. */
static void (*run_job)(void *job);
static void *job_at_hand;

static int keep_job(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx;
	run_job = run;
	job_at_hand = job;
	return 0;
}

static void run_again(hwt_timeout timeout, void *arg)
{
	(void)arg;
	CHECK_INT(hwt_reschedule(timeout, FAR), ==, 0);
}

TEST(one_that_runs_again_is_not_kept)
{
	hwt_executor executor = { keep_job, NULL };
	hwt_config config = driven_config(TICK, 64);
	hwt_timeout timeout;

	config.executor = &executor;
	begin_with(config);
	CHECK_INT(hwt_new_timeout(timer, run_again, NULL, TICK, &timeout), ==, 0);
	driven_pass(timer, START + TICK);
	run_job(job_at_hand);
	CHECK_INT(hwt_cancel(timeout), ==, 0);
	CHECK(lane->kept == NULL);
	schedule(1);
	hwt_check(timer);
	driven_pass(timer, START + 3 * TICK);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 1); /* with the executor */
	run_job(job_at_hand);
	end();
}

/* Or a lane could keep a slab for it. */
TEST(a_trim_gets_the_record)
{
	begin(0, HWT_FULL);
	for (unsigned popped = 0; popped < 2; popped++) {
		CHECK_INT(hwt_cancel(schedule(1)), ==, 0);
		if (popped == 1)
			driven_pass(timer, START);
		hwt_look_begin(&timer->worker.trimming.look, &timer->lanes, START, 0, true);
		while (hwt_look_step(&timer->worker.trimming.look))
			;
		CHECK(lane->kept == NULL);
		CHECK(popped == 0 || lane->parked == NULL);
		driven_pass(timer, START);
		hwt_look_begin(&timer->worker.trimming.look, &timer->lanes, START, 0, true);
		while (hwt_look_step(&timer->worker.trimming.look))
			;
		CHECK_INT(record_slabs_held(&timer->lanes.slabs), ==, 0);
		hwt_check(timer);
	}
	end();
}

/* One that the worker has popped and that is QUEUED again is not free. */
TEST(a_trim_leaves_what_was_queued_again)
{
	begin(0, HWT_FULL);
	CHECK_INT(hwt_cancel(schedule(1)), ==, 0);
	meet("word requeue", START);
	schedule(2);
	CHECK(lane->parked != NULL && lane->kept == NULL);
	hwt_look_begin(&timer->worker.trimming.look, &timer->lanes, START, 0, true);
	while (hwt_look_step(&timer->worker.trimming.look))
		;
	hwt_check(timer);
	driven_pass(timer, START + TICK);
	CHECK_INT(ran, ==, 1);
	end();
}

static uint64_t looks;

static void count_looks(const char *where)
{
	looks += strcmp(where, "word load") == 0;
}

/* However long the queue is, and however much of it was cancelled: under the lock of the lane nobody walks through. */
TEST(no_call_looks_through_the_queue)
{
	begin(0, HWT_FULL);
	for (uintptr_t i = 0; i < 20000; i++) {
		hwt_timeout timeout = schedule(i + 1);

		schedule(i + 1);
		CHECK_INT(hwt_cancel(timeout), ==, 0);
		looks = 0;
		atomic_store(&hwt_test_point, count_looks);
		schedule_and_cancel(1);
		atomic_store(&hwt_test_point, (hwt_point_hook *)0);
		CHECK_INT(looks, <, 8);
	}
	end();
}

/* A worker may sleep, or run a task, for a while: a program that stays below its limit is not refused for that. */
TEST(a_limit_refuses_no_finaliser_for_a_worker_that_comes_late)
{
	begin(1, HWT_FULL);
	for (unsigned i = 0; i < 200000; i++)
		REQUIRE(hwt_cancel(schedule_kind(OWNED, 1)) == 0);
	driven_pass(timer, START);
	while (released < 200000)
		driven_pass(timer, START);
	end();
}

/* The numbers of the manual, with 64 for 262144. */
TEST(a_lane_is_full_beyond_four_times_the_limit)
{
	enum { LIMIT = 100, FULL = 64 + 4 * LIMIT };

	begin(LIMIT, 64);
	for (unsigned i = 1; i <= FULL + 4; i++) {
		CHECK_INT(hwt_cancel(schedule_kind(OWNED, 1)), ==, 0);
		CHECK_INT(hwt_lane_is_full(lane), ==, i >= FULL + 4);
	}
	driven_pass(timer, START);
	CHECK(!hwt_lane_is_full(lane));
	end();
	begin(0, 64);
	for (unsigned i = 0; i < 2 * FULL; i++)
		CHECK_INT(hwt_cancel(schedule_kind(OWNED, 1)), ==, 0);
	CHECK(!hwt_lane_is_full(lane));
	end();
}

static void pass_if_full(const char *where)
{
	if (strcmp(where, "full") != 0 || !hwt_lane_is_full(lane))
		return;
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	driven_pass(timer, START);
}

/* A refusal at the limit says ENOBUFS and not ENOMEM, although the worker drains the queue in between. */
TEST(a_refusal_names_one_reason)
{
	hwt_spec spec = { .size = sizeof(spec), .task = count, .when_ns = FAR, .release = count_release };
	hwt_timeout timeout;
	unsigned accepted = 0;
	int rc;

	begin(1, 64);
	atomic_store(&hwt_test_point, pass_if_full);
	while (accepted < 100000 && (rc = hwt_new_timeout_ex(timer, &spec, &timeout)) == 0) {
		CHECK_INT(hwt_cancel(timeout), ==, 0);
		accepted++;
	}
	CHECK_INT(rc, ==, ENOBUFS);
	CHECK_INT(released, ==, accepted);
	CHECK_INT(hwt_new_timeout_ex(timer, &spec, &timeout), ==, 0);
	CHECK_INT(hwt_cancel(timeout), ==, 0);
	end();
}

TEST_MAIN()
