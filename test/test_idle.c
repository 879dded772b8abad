/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timer with nothing to do leaves the processor alone, and is there when there is something; ticks finer than a
 * millisecond.  In real time, through the public interface.
 */
#include "support.h"

#include <dirent.h>

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

TEST(an_idle_worker_sleeps_through)
{
	static const char *const names[] = { "nothing", "far", "far-large" };
	hwt_timer *timers[3] = { named_timer(names[0], 512, 0), named_timer(names[1], 512, 10000),
				 named_timer(names[2], UINT32_C(1) << 20, 10000) };
	int64_t before[3];

	for (int64_t give_up_ns = hwt_now() + PATIENCE_NS; sleeps_of(names[2]) == 0 && hwt_now() < give_up_ns;)
		sleep_ms(1);
	sleep_ms(100); /* what came in is taken in */
	if (sleeps_of(names[0]) < 0) {
		printf("# /proc/self/task/*/status does not tell\n");
	} else {
		for (int i = 0; i < 3; i++)
			before[i] = sleeps_of(names[i]);
		sleep_ms(400);
		for (int i = 0; i < 3; i++) {
			CHECK_INT(before[i], >=, 0);
			CHECK_INT(sleeps_of(names[i]) - before[i], <=, FEW);
			printf("# %s: %" PRId64 " sleeps in 400 ms\n", names[i], sleeps_of(names[i]) - before[i]);
		}
	}
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

static hwt_timer *fine_timer(int64_t tick_ns)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = tick_ns;
	config.flags = HWT_FINE_TICKS;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

#define STRETCH 20

/* Re-arms itself, and looks how long the last twenty runs took. */
struct metronome {
	hwt_timer *timer;
	int64_t not_before_ns, ran_ns[STRETCH];
	unsigned runs;
	int64_t shortest_ns, give_up_ns;
	atomic_uint done;
};

#define FINE_NS HWT_US(100)

static void swing(hwt_timeout timeout, void *arg)
{
	struct metronome *metronome = arg;
	int64_t now_ns = hwt_now(), *oldest_ns = &metronome->ran_ns[metronome->runs % STRETCH];

	(void)timeout;
	CHECK_INT(now_ns, >=, metronome->not_before_ns);
	if (metronome->runs >= STRETCH && now_ns - *oldest_ns < metronome->shortest_ns)
		metronome->shortest_ns = now_ns - *oldest_ns;
	*oldest_ns = now_ns;
	metronome->runs++;
	if (metronome->shortest_ns < HWT_MS(10) || now_ns > metronome->give_up_ns) {
		atomic_store(&metronome->done, 1);
		return;
	}
	metronome->not_before_ns = now_ns + FINE_NS;
	CHECK_RC(hwt_new_timeout_at(metronome->timer, swing, metronome, metronome->not_before_ns, NULL), 0);
}

/* With ticks of a millisecond twenty periods take 19 ms at least, on any machine; here, on a quiet one, 4. */
TEST(a_grid_of_100_us_is_honoured)
{
	struct metronome metronome = { .timer = fine_timer(FINE_NS), .shortest_ns = INT64_MAX };

	metronome.give_up_ns = hwt_now() + PATIENCE_NS / 2;
	CHECK_RC(hwt_new_timeout(metronome.timer, swing, &metronome, 0, NULL), 0);
	REQUIRE(wait_count(&metronome.done, 1));
	CHECK_INT(metronome.shortest_ns, <, HWT_MS(10));
	CHECK_INT(metronome.shortest_ns, >=, STRETCH * FINE_NS - FINE_NS);
	printf("# %u periods took %" PRId64 " us\n", STRETCH, metronome.shortest_ns / 1000);
	CHECK_RC(hwt_timer_destroy(metronome.timer), 0);
}

TEST(fine_ticks_are_not_early)
{
	static const int64_t ticks_ns[] = { HWT_US(10), HWT_US(33), HWT_US(100) };

	for (size_t t = 0; t < sizeof(ticks_ns) / sizeof(ticks_ns[0]); t++) {
		hwt_timer *timer = fine_timer(ticks_ns[t]);
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
