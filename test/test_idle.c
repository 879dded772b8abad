/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timer with nothing to do leaves the processor alone, and is there when there is something; ticks finer than a
 * millisecond.  In real time, through the public interface.
 */
#include "support.h"

#include <dirent.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#define HOUR_NS HWT_S(3600)
#define TICK_NS HWT_MS(1)

/* How often the thread of this name has gone to sleep; -1: there is none. */
static int64_t sleeps_of(const char *name)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int64_t sleeps = -1;

	while (dir && sleeps < 0 && (entry = readdir(dir)) != NULL) {
		char path[300], line[256], comm[64] = "";
		int64_t value = -1;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file))
			if (sscanf(line, "Name: %63[^\n]", comm) != 1)
				(void)sscanf(line, "voluntary_ctxt_switches: %" SCNd64, &value);
		if (file)
			fclose(file);
		if (strcmp(comm, name) == 0)
			sleeps = value;
	}
	if (dir)
		closedir(dir);
	return sleeps;
}

static hwt_timer *named_timer(const char *name, uint32_t wheel, unsigned far_ones)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = TICK_NS;
	config.ticks_per_wheel = wheel;
	config.thread_name = name;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_start(timer), 0);
	for (unsigned i = 0; i < far_ones; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS + i * TICK_NS / 8, NULL), 0);
	return timer;
}

#define FEW 50 /* in 400 ms; 400 if it woke with each tick */

/* It takes in what came, and sooner or later sleeps through. */
static void check_sleeps_through(const char *name)
{
	int64_t before, after = sleeps_of(name), give_up_ns = hwt_now() + PATIENCE_NS;

	do {
		before = after;
		sleep_ms(400);
		after = sleeps_of(name);
	} while ((after == 0 || after - before > FEW) && hwt_now() < give_up_ns);
	CHECK_INT(after, >, 0);
	CHECK_INT(after - before, <=, FEW);
	printf("# %s: %" PRId64 " sleeps in 400 ms\n", name, after - before);
}

TEST(an_idle_worker_sleeps_through)
{
	static const char *const names[] = { "nothing", "far", "far-large" };
	hwt_timer *timers[3] = { named_timer(names[0], 512, 0), named_timer(names[1], 512, 10000),
				 named_timer(names[2], UINT32_C(1) << 20, 10000) };

	if (sleeps_of(names[0]) < 0)
		printf("# /proc/self/task/*/status does not tell\n");
	else
		for (int i = 0; i < 3; i++)
			check_sleeps_through(names[i]);
	for (int i = 0; i < 3; i++)
		CHECK_RC(hwt_timer_destroy(timers[i]), 0);
}

#define CANCELLED 1000

static unsigned cancel_all(const hwt_timeout *timeouts)
{
	unsigned cancelled = 0;

	for (unsigned i = 0; i < CANCELLED; i++)
		cancelled += hwt_cancel(timeouts[i]) == 0;
	return cancelled;
}

/* A timeout at each of so many ticks, all cancelled: none of these ticks wakes it any more. */
TEST(after_cancels_the_worker_sleeps_through)
{
	static hwt_timeout timeouts[CANCELLED];
	hwt_timer *timer = named_timer("cancelled", 512, 0);
	int64_t first_ns, ahead_ns = HWT_MS(200), before, after;

	do { /* until none has run before it was cancelled */
		REQUIRE(wait_none_pending(timer));
		ahead_ns *= 2;
		first_ns = hwt_now() + ahead_ns;
		for (unsigned i = 0; i < CANCELLED; i++)
			CHECK_RC(hwt_new_timeout_at(timer, count_task, NULL, first_ns + i * TICK_NS, &timeouts[i]), 0);
		wait_ticks(timer, 2, TICK_NS); /* they are in the wheel */
	} while (cancel_all(timeouts) < CANCELLED);
	wait_ticks(timer, 2, TICK_NS); /* and out of it */
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	before = sleeps_of("cancelled");
	if (before < 0) {
		printf("# /proc/self/task/*/status does not tell\n");
	} else {
		while (hwt_now() < first_ns + HWT_MS(400))
			sleep_ms(50);
		after = sleeps_of("cancelled");
		CHECK_INT(after - before, <=, FEW);
		printf("# %" PRId64 " sleeps after the cancels\n", after - before);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_worker_that_sleeps_for_an_hour_is_woken_for_what_comes_before)
{
	hwt_timer *timer = new_timer(TICK_NS, 512);
	struct run near = { .not_before_ns = 0 };
	atomic_uint far_ran = 0;
	hwt_timeout far_one;

	CHECK_RC(hwt_new_timeout(timer, count_task, &far_ran, HOUR_NS, &far_one), 0);
	for (unsigned i = 0; i < 10; i++) {
		sleep_ms(20);
		near.not_before_ns = hwt_now() + HWT_MS(1);
		CHECK_RC(hwt_new_timeout(timer, run_task, &near, HWT_MS(1), NULL), 0);
		REQUIRE(wait_count(&near.ran, i + 1));
	}
	CHECK_INT(far_ran, ==, 0);
	CHECK_RC(hwt_cancel(far_one), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* A long tick: it sleeps within the tick, and neither the next one nor a stop is kept waiting. */
TEST(a_tick_of_an_hour_does_not_keep_stop_waiting)
{
	hwt_timer *timer = new_timer(HOUR_NS, 512);
	size_t count = 0;

	for (unsigned i = 0; i < 100; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, 0, NULL), 0);
	sleep_ms(20);
	CHECK_RC(hwt_timer_stop(timer, &count), 0);
	CHECK_INT(count, ==, 100);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * Fine ticks
 */

static hwt_timer *fine_timer(int64_t tick_ns, uint32_t flags)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = tick_ns;
	config.flags = HWT_FINE_TICKS | flags;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

#define FINE_NS HWT_US(100)

/* The caller tells the time, so this is exact. */
TEST(a_grid_of_100_us_is_honoured)
{
	hwt_timer *timer = fine_timer(FINE_NS, HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK);
	atomic_uint ran = 0;
	int64_t next_ns = -1;

	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	for (unsigned i = 1; i <= 20; i++)
		CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, i * FINE_NS - FINE_NS / 2, NULL), 0);
	for (unsigned i = 1; i <= 20; i++) {
		CHECK_RC(hwt_timer_advance(timer, i * FINE_NS - 1, &next_ns), 0);
		CHECK_INT(next_ns, ==, i * FINE_NS);
		CHECK_RC(hwt_timer_advance(timer, i * FINE_NS, NULL), 0);
		CHECK_INT(ran, ==, i);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

#ifdef PR_GET_TIMERSLACK
static void note_slack(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	atomic_store((atomic_int *)arg, prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL));
}

/* Linux adds 50 us to the sleeps of a thread that does not ask it to be exact. */
TEST(a_worker_asks_the_system_for_exact_sleeps)
{
	hwt_timer *timer = fine_timer(FINE_NS, 0);
	atomic_int slack_ns = 0;

	NEEDS_LINUX();
	CHECK_RC(hwt_new_timeout(timer, note_slack, &slack_ns, 0, NULL), 0);
	REQUIRE(wait_none_pending(timer));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	if (slack_ns < 0)
		SKIP("the system does not tell");
	CHECK_INT(slack_ns, ==, 1);
}
#endif

TEST(fine_ticks_are_not_early)
{
	static const int64_t ticks_ns[] = { HWT_US(10), HWT_US(33), HWT_US(100) };

	for (size_t t = 0; t < sizeof(ticks_ns) / sizeof(ticks_ns[0]); t++) {
		hwt_timer *timer = fine_timer(ticks_ns[t], 0);
		static struct run runs[500];

		memset(runs, 0, sizeof(runs));
		for (int i = 0; i < 500; i++) {
			int64_t delay_ns = i * HWT_US(37);

			runs[i].not_before_ns = hwt_now() + delay_ns;
			CHECK_RC(hwt_new_timeout(timer, run_task, &runs[i], delay_ns, NULL), 0);
		}
		for (int i = 0; i < 500; i++)
			REQUIRE(wait_count(&runs[i].ran, 1));
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

TEST_MAIN()
