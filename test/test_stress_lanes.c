/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that come and go: crews one after the other, whose members schedule in bursts, cancel what others of the crew
 * have scheduled, and exit.  What one crew has used serves the next, however many there were: memory, and the law.
 */
#include "support.h"

#define MEMBERS 4
#define BURST 3000

struct member {
	hwt_timer *timer;
	pthread_barrier_t *barrier;
	hwt_timeout *own, *others; /* BURST each: what it schedules, and what it cancels */
	uint64_t seed;
	unsigned cancelled;
	atomic_uint *ran;
};

/* Half of them soon, so that some are too late to be cancelled. */
static void *come_and_go(void *arg)
{
	struct member *member = arg;
	struct prng prng = { member->seed };
	unsigned burst = BURST / 2 + (unsigned)prng_below(&prng, BURST / 2);

	for (unsigned i = 0; i < BURST; i++) {
		int64_t delay_ns = i % 2 ? HWT_S(3600) : (int64_t)prng_below(&prng, HWT_MS(4));

		if (i < burst)
			CHECK_RC(hwt_new_timeout(member->timer, count_task, member->ran, delay_ns, &member->own[i]), 0);
		else
			member->own[i] = HWT_TIMEOUT_NONE;
	}
	pthread_barrier_wait(member->barrier);
	for (unsigned i = 0; i < BURST; i++)
		member->cancelled += hwt_cancel(member->others[i]) == 0;
	return NULL;
}

static void send_crew(hwt_timer *timer, uint64_t seed, hwt_timeout *timeouts, atomic_uint *ran, unsigned *cancelled)
{
	struct member members[MEMBERS];
	pthread_barrier_t barrier;

	REQUIRE(pthread_barrier_init(&barrier, NULL, MEMBERS) == 0);
	for (unsigned i = 0; i < MEMBERS; i++)
		members[i] = (struct member){ .timer = timer,
					      .barrier = &barrier,
					      .own = timeouts + (size_t)i * BURST,
					      .others = timeouts + (size_t)((i + 1) % MEMBERS) * BURST,
					      .seed = seed + i,
					      .ran = ran };
	crew_run(MEMBERS, come_and_go, members, sizeof(members[0]));
	for (unsigned i = 0; i < MEMBERS; i++)
		*cancelled += members[i].cancelled;
	pthread_barrier_destroy(&barrier);
}

TEST(what_one_crew_has_used_serves_the_next)
{
	unsigned crews = scaled(200), cancelled = 0;
	uint64_t seed = test_seed("what_one_crew_has_used_serves_the_next"), early = 0;
	hwt_timer *timer = new_timer(HWT_MS(1), 512);
	hwt_timeout *timeouts = calloc((size_t)MEMBERS * BURST, sizeof(*timeouts));
	atomic_uint ran = 0;
	hwt_stats stats = stats_of(timer);

	REQUIRE(timeouts != NULL);
	for (unsigned i = 0; i < crews; i++) {
		send_crew(timer, seed + (uint64_t)i * MEMBERS, timeouts, &ran, &cancelled);
		REQUIRE(wait_none_pending(timer));
		wait_ticks(timer, 3, HWT_MS(1)); /* what was cancelled is free */
		stats = stats_of(timer);
		if (i == 4) /* all members have been unlucky once */
			early = stats.bytes;
	}
	CHECK_INT(stats.cancelled, ==, cancelled);
	printf("# %u ran, %u cancelled; %" PRIu64 " bytes after five crews, %" PRIu64 " after %u\n", atomic_load(&ran),
	       cancelled, early, stats.bytes, crews);
	/* For the lanes that came later, and what is not worth a look of the worker, which gives the rest back. */
	CHECK_INT(stats.bytes, <=, early + UINT64_C(16) * 7168 + (UINT64_C(4) << 20));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	free(timeouts);
}

TEST_MAIN()
