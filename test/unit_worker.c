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

/* A time that goes back is a mistake of the teller's, and the wheel stays where it is. */
TEST(row31_a_monotonic_clock_does_not_go_back)
{
	int64_t tick;

	begin(driven_config(TICK, 64));
	driven_pass(timer, START + 100 * TICK);
	tick = timer->wheel->tick;
	driven_pass(timer, START);
	CHECK_INT(timer->wheel->tick, ==, tick);
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

TEST_MAIN()
