/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a tick, on virtual time: a timer without a thread, whose passes the test makes. */
#include "unit.h"

#define START HWT_S(1000)
#define TICK HWT_MS(1)

static hwt_timer *timer;

static void begin(void)
{
	hwt_config config = driven_config(TICK, 512);

	timer = driven_create(&config, START);
}

/* A time that goes back is a mistake of the teller's, and the wheel stays where it is. */
TEST(row31_a_monotonic_clock_does_not_go_back)
{
	int64_t tick;

	begin();
	driven_pass(timer, START + 100 * TICK);
	tick = timer->wheel->tick;
	driven_pass(timer, START);
	CHECK_INT(timer->wheel->tick, ==, tick);
	driven_destroy(timer);
}

TEST(row24_a_cancelled_ones_record_is_free_after_the_pass_however_far_its_deadline)
{
	begin();
	for (int round = 0; round < 300; round++) {
		hwt_timeout timeouts[500];

		if (round == 3)
			memory_is_back();
		for (int i = 0; i < 500; i++)
			CHECK_INT(hwt_new_timeout(timer, nothing, NULL, HWT_S(3600), &timeouts[i]), ==, 0);
		if (round % 2 == 0) /* out of the wheel, or out of the queue */
			driven_pass(timer, fake_now_ns + TICK);
		for (int i = 0; i < 500; i++)
			CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
		driven_pass(timer, fake_now_ns + TICK);
	}
	CHECK_INT(memory_asked, ==, 0);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	driven_destroy(timer);
}

TEST_MAIN()
