/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a tick, on virtual time: a timer without a thread, whose passes the test makes. */
#include "unit.h"

#define START HWT_S(1000)
#define TICK HWT_MS(1)

static unsigned ran, order_broken;
static uintptr_t last_arg;
static hwt_timer *timer;

static void count(hwt_timeout timeout, void *arg)
{
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
	CHECK_INT(hwt_cancel(timeout), ==, EBUSY); /* row 17: a task may try to cancel itself */
	order_broken += (uintptr_t)arg < last_arg;
	last_arg = (uintptr_t)arg;
	ran++;
}

static void begin(hwt_config config)
{
	ran = order_broken = 0;
	last_arg = 0;
	timer = driven_create(&config, START);
}

static hwt_timeout schedule(int64_t delay_ns, uintptr_t arg)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	CHECK_INT(hwt_new_timeout(timer, count, (void *)arg, delay_ns, &timeout), ==, 0);
	return timeout;
}

TEST(row25_a_pass_transfers_so_many_and_tells_of_the_rest)
{
	hwt_config config = driven_config(TICK, 512);

	config.max_transfers_per_tick = 1000;
	begin(config);
	for (uintptr_t i = 0; i < 3500; i++)
		schedule(TICK, i);
	for (unsigned pass = 1; pass <= 3; pass++)
		CHECK(driven_pass(timer, START + TICK + pass));
	CHECK(!driven_pass(timer, START + TICK + 5));
	CHECK_INT(ran, ==, 1000); /* those that come in after their tick run at the next one */
	CHECK(!driven_pass(timer, START + 2 * TICK));
	CHECK_INT(ran, ==, 3500);
	CHECK_INT(order_broken, ==, 0);
	driven_destroy(timer);
}

TEST(row24_a_cancelled_ones_record_is_free_after_the_pass_however_far_its_deadline)
{
	begin(driven_config(TICK, 512));
	for (int round = 0; round < 300; round++) {
		hwt_timeout timeouts[500];

		if (round == 3)
			memory_is_back();
		for (int i = 0; i < 500; i++)
			timeouts[i] = schedule(HWT_S(3600), 0);
		if (round % 2 == 0) /* out of the wheel, or out of the queue */
			driven_pass(timer, fake_now_ns + TICK);
		for (int i = 0; i < 500; i++)
			CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
		driven_pass(timer, fake_now_ns + TICK);
	}
	CHECK_INT(memory_asked, ==, 0);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_INT(ran, ==, 0);
	driven_destroy(timer);
}

static hwt_timeout victims[100];

static void cancel_and_stop(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	for (int i = 0; i < 100; i++)
		CHECK_INT(hwt_cancel(victims[i]), ==, 0);
	hwt_worker_request_stop(&timer->worker); /* as a stop on another thread would in the middle of this task */
}

/* Cancellations of records that had been collected and not run were looked up at places that others held by then. */
TEST(row28_a_stop_in_the_middle_of_a_batch_with_cancelled_ones_in_it)
{
	size_t unprocessed;

	begin(driven_config(TICK, 8));
	CHECK_INT(hwt_new_timeout(timer, cancel_and_stop, NULL, TICK, NULL), ==, 0);
	for (uintptr_t i = 0; i < 200; i++) {
		hwt_timeout timeout = schedule(i % 2 == 0 ? TICK : 9 * TICK, i); /* the same bucket */

		if (i % 2 == 0)
			victims[i / 2] = timeout;
	}
	driven_pass(timer, START);
	driven_pass(timer, START + TICK);
	CHECK_INT(ran, ==, 0);
	CHECK_INT(hwt_timer_stop(timer, &unprocessed), ==, 0);
	CHECK_INT(unprocessed, ==, 100);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	driven_destroy(timer);
}

/* The lanes have memory, the wheel has none: all go on the unplaced list. */
static void begin_unplaced(hwt_timeout *timeouts)
{
	begin(driven_config(TICK, 64));
	for (int i = 0; i < 60; i++)
		timeouts[i] = schedule(TICK, 0);
	for (int i = 0; i < 60; i++) /* before they reach the wheel */
		CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
	driven_pass(timer, START);
	memory_fails(0, UINT64_MAX);
	for (uintptr_t i = 0; i < 60; i++)
		timeouts[i] = schedule((int64_t)(i / 20 + 10) * TICK * 3, i);
	driven_pass(timer, START);
	CHECK(timer->wheel->unplaced.first == timeouts[0].entry && timer->wheel->unplaced.last == timeouts[59].entry);
}

TEST(unplaced_ones_are_placed_when_memory_is_back_and_keep_their_turn)
{
	hwt_timeout timeouts[60];

	begin_unplaced(timeouts);
	memory_is_back();
	schedule(30 * TICK, 19);
	driven_pass(timer, START + TICK);
	CHECK(timer->wheel->unplaced.first == NULL);
	driven_walk(timer, START + 30 * TICK);
	CHECK_INT(ran, ==, 21);
	driven_walk(timer, START + 36 * TICK);
	CHECK_INT(ran, ==, 61);
	CHECK_INT(order_broken, ==, 0);
	driven_destroy(timer);
}

TEST(stop_gives_unplaced_ones_back)
{
	hwt_timeout timeouts[60];
	size_t unprocessed;

	begin_unplaced(timeouts);
	CHECK_INT(hwt_cancel(timeouts[7]), ==, 0); /* and this one has no node to be queued with */
	CHECK_INT(hwt_timer_stop(timer, &unprocessed), ==, 0);
	CHECK_INT(unprocessed, ==, 59);
	memory_is_back();
	driven_destroy(timer);
}

TEST_MAIN()
