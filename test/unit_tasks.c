/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Task threads from inside: their queue and its waits, and a start that gets no thread.  The test plays the worker and
 * the task thread, on its own clock.
 */
#include "check/check.h"
#include "unit.h"
#include "support.h"

#define TICK HWT_MS(1)
#define START HWT_S(1)

static hwt_timer *timer;
static unsigned ran, released;

static void note(hwt_timeout timeout, void *arg)
{
	(void)arg;
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
	ran++;
}

static void note_release(void *arg)
{
	(void)arg;
	released++;
}

static void begin(void)
{
	hwt_config config = driven_config(TICK, 64);

	config.task_threads = 1;
	timer = driven_create(&config, START);
	ran = released = 0;
}

static hwt_timeout at(unsigned number, int64_t deadline_ns)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	CHECK_INT(hwt_new_timeout_at(timer, note, (void *)(uintptr_t)number, deadline_ns, &timeout), ==, 0);
	return timeout;
}

static void pass_at(int64_t now_ns)
{
	driven_pass(timer, now_ns);
	hwt_check(timer);
}

static uint64_t waiting(void)
{
	return ready_waiting(&timer->tasks.ready);
}

/* Runs the waiting tasks as a task thread does, without sleeping. */
static void run_what_waits(void)
{
	struct hwt_record *record;

	while ((record = hwt_ready_take_left(&timer->tasks.ready)) != NULL) {
		hwt_tasks_run_one(&timer->tasks.runner[0], record, READY_NOT_MARKED);
		hwt_check(timer);
	}
}

TEST(a_stop_gives_back_what_waits_in_any_state)
{
	struct hwt_extension extension = { NULL, note_release, 0 };
	hwt_timeout cancelled, owned, moved;
	size_t count = 0;

	begin();
	at(1, START + TICK);
	CHECK_INT(hwt_lane_submit_extended(lane_at(&timer->lanes, 0), note, &extension, TICK, START + TICK, &owned), ==,
		  0);
	CHECK_INT(hwt_lane_submit_extended(lane_at(&timer->lanes, 0), note, &extension, TICK, START + TICK, &cancelled),
		  ==, 0);
	moved = at(2, START + TICK);
	pass_at(START + TICK);
	CHECK_INT(waiting(), ==, 4);
	CHECK_INT(hwt_cancel(cancelled), ==, 0);
	CHECK_INT(hwt_reschedule_at(moved, START + 9 * TICK), ==, 0);
	CHECK_INT(hwt_timer_stop(timer, &count), ==, 0);
	hwt_check(timer);
	CHECK_INT(count, ==, 3);
	CHECK_INT(released, ==, 1);
	driven_destroy(timer);
	CHECK_INT(released, ==, 2);
	CHECK_INT(ran, ==, 0);
}

/* The deadline lies between two ticks, and the thread comes to the record after the deadline and before its tick. */
TEST(a_periodic_one_that_was_moved_between_two_ticks_merges_nothing)
{
	struct hwt_extension extension = { .missed = 0 };
	hwt_stats stats = { .size = sizeof(stats) };
	hwt_timeout timeout;

	begin();
	CHECK_INT(
	    hwt_lane_submit_extended(lane_at(&timer->lanes, 0), note, &extension, 4 * TICK, START + TICK, &timeout), ==,
	    0);
	pass_at(START + TICK);
	CHECK_INT(hwt_reschedule_at(timeout, START + TICK + TICK / 4), ==, 0);
	fake_now_ns = START + TICK + TICK / 2;
	run_what_waits();
	CHECK_INT(ran, ==, 0);
	pass_at(START + 2 * TICK);
	run_what_waits();
	CHECK_INT(ran, ==, 1);
	CHECK_INT(hwt_timer_stats(timer, &stats), ==, 0);
	CHECK_INT(stats.merged_periods, ==, 0);
	CHECK_INT(stats.runs, ==, 1);
	CHECK_INT(stats.pending, ==, 1);
	driven_destroy(timer);
}

TEST(the_longest_wait_and_the_lateness_are_those_of_the_start)
{
	hwt_stats stats = { .size = sizeof(stats) };
	struct hwt_record *record;
	int64_t put_ns = 0;

	begin();
	at(1, START + TICK);
	at(2, START + TICK);
	pass_at(START + 3 * TICK);
	fake_now_ns = START + 10 * TICK;
	CHECK_INT(hwt_timer_stats(timer, &stats), ==, 0);
	CHECK_INT(stats.tasks_waiting, ==, 2);
	CHECK_INT(stats.runs, ==, 0);
	CHECK_INT(stats.ticks, ==, 1);
	run_what_waits();
	at(3, START + 20 * TICK);
	pass_at(START + 21 * TICK);
	timer->tasks.ready.closed = false;
	record = hwt_ready_take(&timer->tasks.ready, &put_ns);
	REQUIRE(record != NULL);
	CHECK_INT(put_ns, ==, START + 21 * TICK);
	fake_now_ns = START + 26 * TICK;
	hwt_tasks_run_one(&timer->tasks.runner[0], record, put_ns);
	CHECK_INT(hwt_timer_stats(timer, &stats), ==, 0);
	CHECK_INT(stats.tasks_waiting, ==, 0);
	CHECK_INT(stats.task_wait_max_ns, ==, 5 * TICK);
	CHECK_INT(stats.lateness_max_ns, ==, 9 * TICK);
	CHECK_INT(stats.runs, ==, 3);
	CHECK_INT(stats.completed, ==, 3);
	CHECK_INT(stats.ticks, ==, 2);
	driven_destroy(timer);
}

/* Chains of two records; one record at a time is marked. */
TEST(the_queue_is_first_in_first_out_and_knows_its_waits)
{
	enum { CHAINS = 5 };
	static struct hwt_record records[2 * CHAINS];
	struct hwt_ready ready;
	int64_t put_ns;

	REQUIRE(hwt_ready_init(&ready) == 0);
	for (unsigned turn = 0; turn < 3; turn++) {
		for (unsigned i = 0; i < CHAINS; i++) {
			struct hwt_ready_chain chain = { NULL, NULL, 0 };

			ready_chain_append(&chain, &records[2 * i]);
			ready_chain_append(&chain, &records[2 * i + 1]);
			hwt_ready_put(&ready, &chain, 1000 * turn + i);
		}
		CHECK_INT(ready_waiting(&ready), ==, 2 * CHAINS);
		for (unsigned i = 0; i < 2 * CHAINS; i++) {
			CHECK(hwt_ready_take(&ready, &put_ns) == &records[i]);
			CHECK_INT(put_ns, ==, i == 1 ? 1000 * (int64_t)turn : READY_NOT_MARKED);
		}
		CHECK_INT(ready_waiting(&ready), ==, 0);
	}
	hwt_ready_close(&ready);
	CHECK(hwt_ready_take(&ready, &put_ns) == NULL);
	hwt_ready_destroy(&ready);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	return memory_refuses() ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

/* The system refuses each thread in turn, and the worker at last. */
TEST(row26_a_start_that_finds_no_thread_says_so_and_loses_nothing)
{
	for (unsigned refused = 0; refused < 4; refused++) {
		hwt_config config = driven_config(TICK, 64);
		hwt_timeout timeout = HWT_TIMEOUT_NONE;
		atomic_uint counted = 0;

		config.task_threads = 3;
		REQUIRE(hwt_timer_create(&timer, &config) == 0);
		for (unsigned i = 0; i < 2; i++) {
			memory_fails(refused, refused + 1);
			CHECK_INT(hwt_new_timeout(timer, count_task, &counted, 0, &timeout), ==, EAGAIN);
			CHECK(timeout.entry == NULL);
			memory_fails(refused, refused + 1);
			CHECK_INT(hwt_timer_start(timer), ==, EAGAIN);
			memory_is_back();
			CHECK_INT(timer->tasks.started, ==, 0);
			CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
		}
		if (refused < 3) { /* the last timer is destroyed without a start */
			CHECK_INT(hwt_new_timeout(timer, count_task, &counted, 0, &timeout), ==, 0);
			CHECK(wait_count(&counted, 1));
			CHECK_INT(timer->tasks.started, ==, 3);
		}
		CHECK_INT(hwt_timer_destroy(timer), ==, 0);
	}
}

TEST_MAIN()
