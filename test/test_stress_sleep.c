/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lost wake-ups: a worker that goes to sleep just as somebody hands in something earlier, and sleeps on.  Whoever
 * submits here waits for its task before it submits again, and nobody else would wake the worker: one that slept on
 * would do so for ever.  Also a worker that is asked to stop, or taken off its processor, just then.
 */
#include "support.h"

#include <signal.h>
#include <sys/wait.h>

#define HOUR_NS HWT_S(3600)

static hwt_timer *new_fine_timer(int64_t tick_ns, bool far_one)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = tick_ns;
	config.ticks_per_wheel = 64;
	config.flags = HWT_FINE_TICKS;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_start(timer), 0);
	if (far_one)
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, NULL), 0);
	return timer;
}

/* As wait_count, without sleeping: the moment after the task has run counts. */
static bool spin_count(atomic_uint *counter, unsigned target)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;

	for (unsigned i = 1; atomic_load(counter) < target; i++) {
		if (i % 4096 != 0)
			continue;
		if (hwt_now() > give_up_ns)
			return false;
		sched_yield();
	}
	return true;
}

static void spin_ns(int64_t ns)
{
	int64_t until_ns = hwt_now() + ns;

	while (hwt_now() < until_ns)
		;
}

/*
 * The worker has run the task and is on its way to sleep: it looks at what there is, says how long it will sleep, looks
 * again.  That takes from a fraction of a microsecond to a few, and the next timeout comes at a random moment of it.
 */
static void chase(struct prng *prng, bool far_one, int64_t most_ns, int64_t for_ns)
{
	hwt_timer *timer = new_fine_timer(HWT_US(10), far_one);
	int64_t enough_ns = hwt_now() + for_ns;
	atomic_uint ran = 0;
	unsigned rounds = 0;

	while (hwt_now() < enough_ns) {
		int64_t delay_ns = prng_between(prng, 0, 1) * HWT_US(10);

		spin_ns(prng_between(prng, 0, rounds % 8 ? most_ns : rounds % 64 ? HWT_US(3) : HWT_US(200)));
		REQUIRE(hwt_new_timeout(timer, count_task, &ran, delay_ns, NULL) == 0);
		REQUIRE(spin_count(&ran, ++rounds)); /* or the wake-up was lost */
	}
	printf("# %u rounds\n", rounds);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(no_push_misses_a_worker_that_is_falling_asleep)
{
	struct prng prng = { test_seed("nobody_catches_the_worker_falling_asleep") };
	unsigned slice_ms = scaled(400) < 300 && !SANITIZED ? 300 : scaled(400); /* less would find nothing */

	for (int i = 0; i < 4; i++) /* without a barrier it is soon, with one in the wrong place later */
		chase(&prng, i % 2, i < 2 ? 150 : 600, HWT_MS(slice_ms));
}

TEST(a_stop_finds_it_asleep_or_on_its_way)
{
	struct prng prng = { test_seed("a_stop_finds_it_asleep_or_on_its_way") };
	unsigned rounds = scaled(300);
	int64_t enough_ns = hwt_now() + ENOUGH_NS / 4;

	for (unsigned i = 0; i < rounds && hwt_now() < enough_ns; i++) {
		bool far_one = i % 2;
		hwt_timer *timer = new_fine_timer(i % 4 < 2 ? HWT_MS(1) : HWT_US(10), far_one);
		size_t count = 77;

		if (i % 16 == 0)
			sleep_ms(2);
		else
			spin_ns(prng_between(&prng, 0, HWT_US(i % 8 ? 30 : 300)));
		CHECK_RC(hwt_timer_stop(timer, &count), 0); /* or this hangs */
		CHECK_INT(count, ==, far_one);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/*
 * A process that is stopped for a while
 */

#define STOPPED 3000

/*
 * The child: timeouts over two seconds; the parent takes it off its processor in the middle, and it does not end before
 * that.  Its exit status.
 */
static int be_stopped(int ready, int continued)
{
	static struct run runs[STOPPED];
	hwt_timer *timer = new_timer(HWT_MS(1), 512);
	int64_t start_ns = hwt_now();
	unsigned places = 0;
	char byte;

	for (unsigned i = 0; i < STOPPED; i++) {
		int64_t deadline_ns = start_ns + HWT_S(1) * i / (STOPPED * 5 / 8); /* several a tick, up to 1.6 s */

		runs[i].not_before_ns = deadline_ns;
		runs[i].places = &places;
		CHECK_RC(hwt_new_timeout_at(timer, run_task, &runs[i], deadline_ns, NULL), 0);
	}
	CHECK_INT(write(ready, "", 1), ==, 1);
	CHECK_INT(read(continued, &byte, 1), ==, 1);
	CHECK(wait_count(&runs[STOPPED - 1].ran, 1));
	CHECK(wait_none_pending(timer));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	for (unsigned i = 0; i < STOPPED; i++) {
		CHECK_INT(runs[i].ran, ==, 1);
		CHECK_INT(runs[i].place, ==, i); /* deadlines go up, so all run in the order of the calls */
	}
	return atomic_load(&test_failures) == 0 ? 0 : 1;
}

TEST(a_process_that_is_stopped_for_a_while_catches_up)
{
	int ready[2], continued[2], status = -1;
	char byte;
	pid_t child;

	REQUIRE(pipe(ready) == 0 && pipe(continued) == 0);
	fflush(NULL);
	child = fork(); /* this test is the first: no thread has been made yet */
	REQUIRE(child >= 0);
	if (child == 0) {
		alarm(HANG_S);
		_exit(be_stopped(ready[1], continued[0]));
	}
	close(ready[1]);
	close(continued[0]);
	CHECK_INT(read(ready[0], &byte, 1), ==, 1); /* or it has died */
	sleep_ms(100);
	CHECK_INT(kill(child, SIGSTOP), ==, 0);
	CHECK_INT(waitpid(child, &status, WUNTRACED), ==, child);
	CHECK(WIFSTOPPED(status));
	sleep_ms(1000);
	if (WIFSTOPPED(status)) {
		CHECK_INT(kill(child, SIGCONT), ==, 0);
		CHECK_INT(write(continued[1], "", 1), ==, 1);
		CHECK_INT(waitpid(child, &status, 0), ==, child);
	}
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(ready[0]);
	close(continued[1]);
}

TEST_MAIN()
