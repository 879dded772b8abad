/* SPDX-License-Identifier: BSD-2-Clause */
/* hwt_timer_trim while the worker or an advance is busy: no request is lost, and none is held up. */
#include "unit.h"
#include "support.h"
#include "worker/trim.h"

#define FAR HWT_S(3600)
#define MANY 90000u
#define LEFT 50000u /* records that a trim may leave */

static hwt_timer *timer;
static hwt_timeout timeouts[MANY];
static atomic_uint ran;

/* The worker does not trim by itself. */
static void begin(uint32_t flags)
{
	hwt_config config = driven_config(HWT_MS(1), 512);

	atomic_store(&hwt_test_enough, SIZE_MAX);
	atomic_store(&ran, 0);
	config.flags = flags;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
}

static void end(void)
{
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

static void burst(void)
{
	for (unsigned i = 0; i < MANY; i++)
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, FAR, &timeouts[i]), ==, 0);
	for (unsigned i = 0; i < MANY; i++)
		CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
}

static void advance(int64_t now_ns)
{
	CHECK_INT(hwt_timer_advance(timer, now_ns, NULL), ==, 0);
}

static void drive_a_burst(void)
{
	begin(HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK);
	advance(0);
	burst();
	advance(HWT_MS(1));
	advance(HWT_MS(3));
	CHECK_INT(stats_now(timer).records, >=, MANY);
}

TEST(a_trim_says_how_much_has_gone)
{
	uint64_t before;
	size_t bytes = 0;

	drive_a_burst();
	before = stats_now(timer).bytes;
	CHECK_INT(hwt_timer_trim(timer, &bytes), ==, 0);
	CHECK_INT(stats_now(timer).records, <=, LEFT);
	CHECK_INT(bytes, >=, 2 * HWT_HUGE_PAGE);
	CHECK_INT(bytes, ==, before - stats_now(timer).bytes);
	CHECK_INT(hwt_timer_trim(timer, &bytes), ==, 0);
	CHECK_INT(bytes, ==, 0);
	end();
}

static void *ask(void *arg)
{
	size_t bytes = 1;

	(void)arg;
	CHECK_INT(hwt_timer_trim(timer, &bytes), ==, 0);
	CHECK_INT(bytes, ==, 0);
	return NULL;
}

static void ask_in_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)ask(arg);
	CHECK_INT(stats_now(timer).records, >=, MANY);
	ran++;
}

/* Waits until a trim has given the memory of the burst back. */
static void wait_trimmed(void)
{
	for (struct patience patience = PATIENCE("the trim"); stats_now(timer).records > LEFT;)
		if (!patience_lasts(&patience, HWT_MS(1)))
			break;
	CHECK_INT(stats_now(timer).records, <=, LEFT);
}

/* In a task the trim is "done after it" (hwt.h).  Then this thread asks, too, and waits for the worker. */
TEST(the_worker_trims_after_the_task_that_asks)
{
	size_t bytes = 0;

	begin(0);
	burst();
	CHECK_INT(stats_now(timer).records, >=, MANY);
	CHECK_INT(hwt_new_timeout(timer, ask_in_task, NULL, 0, NULL), ==, 0);
	wait_trimmed();
	CHECK_INT(ran, ==, 1);
	CHECK_INT(hwt_timer_trim(timer, &bytes), ==, 0);
	end();
}

TEST_MAIN()
