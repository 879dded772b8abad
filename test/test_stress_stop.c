/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starting and stopping under stress: many threads add while several stop, and timers come and go.
 */
#include "support.h"

#define ADDERS 12
#define STOPPERS 3

struct arena {
	hwt_timer *timer;
	atomic_uint adding; /* adders that have begun */
	atomic_uint ran;
	atomic_uint stopped;   /* a stop has returned */
	atomic_uint returned;  /* as stop said */
	atomic_uint collected; /* as next_unprocessed handed out */
	atomic_uint accepted, cancelled;
};

static void arena_task(hwt_timeout timeout, void *arg)
{
	struct arena *arena = arg;

	(void)timeout;
	CHECK_INT(atomic_load(&arena->stopped), ==, 0);
	atomic_fetch_add(&arena->ran, 1);
}

/* Adds until refused; cancels every seventh. */
static void *add(void *arg)
{
	struct arena *arena = arg;
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;
	unsigned accepted = 0, cancelled = 0;
	int rc = 0;

	atomic_fetch_add(&arena->adding, 1);
	while (hwt_now() < give_up_ns) {
		int64_t delay_ns = accepted % 3 == 0 ? 0 : accepted % 3 == 1 ? HWT_MS(1) : HWT_S(3600);
		hwt_timeout timeout;

		rc = hwt_new_timeout(arena->timer, arena_task, arena, delay_ns, &timeout);
		if (rc != 0)
			break;
		accepted++;
		if (accepted % 7 == 0 && hwt_cancel(timeout) == 0)
			cancelled++;
		if (accepted > 3000) /* enough of a crowd */
			sleep_ns(HWT_US(20));
	}
	CHECK_INT(rc, ==, ECANCELED);
	for (int i = 0; i < 3; i++) /* for good */
		CHECK_RC(hwt_new_timeout(arena->timer, arena_task, arena, 0, NULL), ECANCELED);
	atomic_fetch_add(&arena->accepted, accepted);
	atomic_fetch_add(&arena->cancelled, cancelled);
	return NULL;
}

/* Stops, then collects, while others do the same. */
static void *stop(void *arg)
{
	struct arena *arena = arg;
	hwt_unprocessed left;
	size_t count = 77;

	CHECK_RC(hwt_timer_stop(arena->timer, &count), 0);
	atomic_store(&arena->stopped, 1);
	atomic_fetch_add(&arena->returned, (unsigned)count);
	while (atomic_load(&arena->collected) < UINT32_MAX && hwt_timer_next_unprocessed(arena->timer, &left)) {
		CHECK(left.arg == arena);
		CHECK_INT(hwt_timeout_state(left.timeout), ==, HWT_CANCELLED);
		atomic_fetch_add(&arena->collected, 1);
	}
	return NULL;
}

/* Every accepted one is accounted for, whoever stops and however many. */
TEST(stop_races_many_adders)
{
	int64_t enough_ns = hwt_now() + ENOUGH_NS;
	unsigned rounds = scaled(100);
	struct prng prng = { test_seed("stop_races_many_adders") };
	uint64_t accepted = 0;

	for (unsigned round = 0; round < rounds && hwt_now() < enough_ns; round++) {
		struct arena arena = { .timer = new_timer(HWT_MS(1), 64) };
		struct crew adders, stoppers;

		crew_start(&adders, ADDERS, add, &arena, 0);
		if (round % 4) /* else the stop may come before the start */
			CHECK(wait_count(&arena.adding, (unsigned)prng_between(&prng, 1, ADDERS)));
		sleep_ns(prng_between(&prng, 0, HWT_MS(3)));
		crew_start(&stoppers, STOPPERS, stop, &arena, 0);
		crew_join(&stoppers);
		crew_join(&adders);
		CHECK_INT(arena.collected, ==, arena.returned);
		CHECK_INT(arena.accepted, ==, arena.ran + arena.cancelled + arena.returned);
		CHECK_INT(hwt_pending_timeouts(arena.timer), ==, 0);
		CHECK_RC(hwt_timer_destroy(arena.timer), 0);
		accepted += arena.accepted;
	}
	printf("# %" PRIu64 " accepted\n", accepted);
}

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

/* Timers come and go; none leaves a thread behind. */
TEST(hundreds_of_timers_one_after_the_other)
{
	unsigned before = threads_of_process();
	int64_t give_up_ns;

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
	CHECK_INT(threads_of_process(), ==, before);
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