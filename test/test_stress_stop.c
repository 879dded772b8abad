/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starting and stopping under stress: timers come and go.  Stops that race producers are in test_stress.c.
 */
#include "support.h"

static unsigned threads_of_process(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	unsigned threads = 0;

	for (int i = 0; file && i < 200 && fgets(line, sizeof(line), file); i++)
		if (sscanf(line, "Threads: %u", &threads) == 1)
			break;
	if (file)
		fclose(file);
	return threads;
}

static void *nothing(void *arg)
{
	return arg;
}

/* Timers come and go; none leaves a thread behind. */
TEST(hundreds_of_timers_one_after_the_other)
{
	unsigned before;
	int64_t give_up_ns;
	pthread_t first;

	/* A sanitizer makes a thread of its own with the first one of the program, and keeps it. */
	CHECK_RC(pthread_create(&first, NULL, nothing, NULL), 0);
	CHECK_RC(pthread_join(first, NULL), 0);
	sleep_ms(20);
	before = threads_of_process();
	for (int i = 0; i < 300; i++) {
		hwt_timer *timer = new_timer(HWT_MS(1), (uint32_t)1 << i % 10);
		atomic_uint ran = 0, never = 0;
		size_t count = 77;

		CHECK_RC(hwt_timer_start(timer), 0);
		for (int j = 0; j < 20; j++) {
			CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_US(100) * j, NULL), 0);
			CHECK_RC(hwt_new_timeout(timer, count_task, &never, HWT_S(3600), NULL), 0);
		}
		if (i % 3)
			CHECK(wait_count(&ran, 20));
		if (i % 2) {
			CHECK_RC(hwt_timer_stop(timer, &count), 0);
			CHECK_INT(count, ==, 40 - ran);
		}
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(never, ==, 0);
	}
	/* The kernel may count a thread that has been joined for a moment longer. */
	for (give_up_ns = hwt_now() + PATIENCE_NS; threads_of_process() > before && hwt_now() < give_up_ns;)
		sleep_ms(1);
	CHECK_INT(threads_of_process(), <=, before);
}

/* One thread's timer: created, used and destroyed while others do the same. */
static void *come_and_go(void *arg)
{
	struct prng prng = { *(uint64_t *)arg };

	for (unsigned i = 0; i < scaled(40); i++) {
		hwt_timer *timer = new_timer(HWT_MS(1), 8);
		atomic_uint ran = 0;
		unsigned count = (unsigned)prng_between(&prng, 1, 200);

		for (unsigned j = 0; j < count; j++)
			CHECK_RC(hwt_new_timeout(timer, count_task, &ran, prng_between(&prng, 0, HWT_MS(4)), NULL), 0);
		if (prng_below(&prng, 2))
			CHECK(wait_count(&ran, count));
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(ran, <=, count);
	}
	return NULL;
}

TEST(many_timers_at_once)
{
	uint64_t seeds[8];
	struct prng prng = { test_seed("many_timers_at_once") };

	for (int i = 0; i < 8; i++)
		seeds[i] = prng_next(&prng);
	crew_run(8, come_and_go, seeds, sizeof(seeds[0]));
}

TEST_MAIN()
