/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that goes back to the system after a burst: as the system sees it, with real threads.
 *
 * Under a sanitizer resident bytes are its own; then only the library's count is looked at.
 */
#include "support.h"

#define HOUR_NS HWT_S(3600)
#define TICK_NS HWT_MS(1)
#define MIB (INT64_C(1) << 20)
#define MANY (SANITIZED ? 150000u : 600000u)

static hwt_timeout *timeouts;

/*
 * Schedules and cancels many, with an advance now and then if the caller drives the timer.  Returns the resident peak.
 */
static int64_t burst(hwt_timer *timer, bool driven)
{
	int64_t peak;

	for (unsigned i = 0; i < MANY; i++) {
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS + i % 1000 * HWT_MS(50), &timeouts[i]), 0);
		if (driven && i % 50000 == 0)
			CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), 0);
	}
	peak = rss_bytes();
	for (unsigned i = 0; i < MANY; i++) {
		CHECK_RC(hwt_cancel(timeouts[i]), 0);
		if (driven && i % 50000 == 0)
			CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), 0);
	}
	if (driven)
		CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), 0);
	return peak;
}

/* How much may stay resident: small slabs and the newest of the others, a few MiB, however large the peak. */
static int64_t may_stay(int64_t before, int64_t peak)
{
	return (peak - before) / 20 + 4 * MIB;
}

static void check_resident(int64_t before, int64_t peak, const char *what)
{
	int64_t after = rss_bytes();

	printf("# %s: %.1f MiB at the peak, %.1f MiB after\n", what, (double)(peak - before) / (double)MIB,
	       (double)(after - before) / (double)MIB);
	if (before < 0 || after < 0)
		printf("# not tested, the system does not tell\n");
	else if (!SANITIZED)
		CHECK_INT(after - before, <, may_stay(before, peak));
}

static void check_stale(hwt_timer *timer)
{
	for (unsigned i = 0; i < MANY; i += 97) {
		CHECK_RC(hwt_cancel(timeouts[i]), ENOENT);
		CHECK_RC(hwt_reschedule(timeouts[i], 0), ENOENT);
		CHECK(hwt_timeout_timer(timeouts[i]) == timer);
		CHECK(hwt_timeout_state(timeouts[i]) != HWT_PENDING);
	}
}

static void begin(void)
{
	timeouts = malloc(MANY * sizeof(*timeouts));
	REQUIRE(timeouts != NULL);
	memset(timeouts, 1, MANY * sizeof(*timeouts)); /* so that it is resident */
}

static void end(hwt_timer *timer)
{
	CHECK_RC(hwt_timer_destroy(timer), 0);
	free(timeouts);
}

/* On a busy machine a call may come back before the worker has done it. */
static void trim(hwt_timer *timer, int64_t before, int64_t peak)
{
	for (unsigned i = 0; i < 300; i++) {
		CHECK_RC(hwt_timer_trim(timer, NULL), 0);
		if (i > 1 && stats_of(timer).records <= 50000 &&
		    (SANITIZED || before < 0 || rss_bytes() - before < may_stay(before, peak)))
			return;
		sleep_ms(i > 10 ? 1000 : 0);
	}
}

TEST(the_worker_gives_memory_back_by_itself)
{
	hwt_timer *timer = new_timer(TICK_NS, 512);
	int64_t before, peak;

	begin();
	before = rss_bytes();
	peak = burst(timer, false);
	for (int64_t give_up_ns = hwt_now() + PATIENCE_NS; stats_of(timer).records > 50000 && hwt_now() < give_up_ns;)
		sleep_ms(100);
	CHECK_INT(stats_of(timer).records, <=, 50000);
	trim(timer, before, peak); /* the last slabs may still be on their way */
	check_resident(before, peak, "worker");
	check_stale(timer);
	end(timer);
}

TEST(a_call_gives_memory_back_at_once)
{
	hwt_timer *timer = new_timer(TICK_NS, 512);
	int64_t before, peak;

	begin();
	before = rss_bytes();
	peak = burst(timer, false);
	wait_ticks(timer, 3, TICK_NS);
	trim(timer, before, peak);
	check_resident(before, peak, "call");
	check_stale(timer);
	end(timer);
}

TEST(a_caller_driven_timer_gives_memory_back_in_a_call)
{
	hwt_timer *timer = driven_timer(0);
	int64_t before, peak;

	begin();
	before = rss_bytes();
	CHECK_RC(hwt_timer_trim(timer, NULL), 0); /* it has not even started */
	peak = burst(timer, true);
	CHECK_RC(hwt_timer_trim(timer, NULL), 0);
	CHECK_INT(stats_of(timer).records, <=, 50000);
	check_resident(before, peak, "caller-driven");
	check_stale(timer);
	end(timer);
}

static void trim_here(hwt_timer *timer)
{
	for (unsigned i = 0; i < 10; i++) {
		size_t bytes = 1;

		CHECK_RC(hwt_timer_trim(timer, &bytes), 0);
		CHECK_INT(bytes, ==, 0);
	}
}

static void trim_in_task(hwt_timeout timeout, void *arg)
{
	trim_here(hwt_timeout_timer(timeout));
	count_task(timeout, arg);
}

struct released {
	hwt_timer *timer;
	atomic_uint count;
};

static void trim_in_finaliser(void *arg)
{
	struct released *released = arg;

	trim_here(released->timer);
	released->count++;
}

static void trim_in_finaliser_of_a_stop(void *arg)
{
	struct released *released = arg;
	size_t bytes = 7;

	CHECK_RC(hwt_timer_trim(released->timer, &bytes), ECANCELED);
	CHECK_INT(bytes, ==, 7);
	released->count++;
}

static void nothing(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
}

static void trim_in_tasks_of(const hwt_config *config)
{
	struct released ended = { .timer = NULL }, stopped = { .timer = NULL };
	hwt_spec spec = HWT_SPEC_INIT;
	atomic_uint ran = 0;
	hwt_timer *timer;

	REQUIRE(hwt_timer_create(&timer, config) == 0);
	ended.timer = stopped.timer = timer;
	spec.arg = &ended;
	spec.release = trim_in_finaliser;
	spec.task = nothing;
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, NULL), 0);
	spec.arg = &stopped;
	spec.release = trim_in_finaliser_of_a_stop;
	spec.when_ns = HOUR_NS;
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, trim_in_task, &ran, 0, NULL), 0);
	CHECK(wait_count(&ran, 1));
	CHECK(wait_count(&ended.count, 1));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_INT(stopped.count, ==, 1);
}

/* That it does not wait there: unit_trim_calls. */
TEST(a_task_and_a_finaliser_may_trim)
{
	hwt_config config = HWT_CONFIG_INIT;

	trim_in_tasks_of(&config);
	config.task_threads = 2;
	trim_in_tasks_of(&config);
}

static void hold(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	CHECK_RC(pthread_mutex_lock(arg), 0);
	CHECK_RC(pthread_mutex_unlock(arg), 0);
}

TEST(a_call_that_cannot_be_served_says_why)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	hwt_timer *timer = new_timer(TICK_NS, 64);
	hwt_timeout held;
	size_t bytes = 1;

	CHECK_RC(hwt_timer_trim(NULL, NULL), EINVAL);
	CHECK_RC(hwt_timer_trim(timer, NULL), 0);
	pthread_mutex_lock(&mutex);
	CHECK_RC(hwt_new_timeout(timer, hold, &mutex, 0, &held), 0);
	CHECK(wait_state(held, HWT_RUNNING));
	CHECK_RC(hwt_timer_trim(timer, &bytes), 0); /* and the worker does it later */
	CHECK_INT(bytes, ==, 0);
	pthread_mutex_unlock(&mutex);
	CHECK(wait_ended(held));
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	bytes = 7;
	CHECK_RC(hwt_timer_trim(timer, &bytes), ECANCELED);
	CHECK_RC(hwt_timer_trim(NULL, &bytes), EINVAL);
	CHECK_INT(bytes, ==, 7);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static atomic_bool over;

static void *trim_again_and_again(void *arg)
{
	while (!atomic_load(&over)) {
		int rc = hwt_timer_trim(arg, NULL);

		CHECK(rc == 0 || rc == ECANCELED);
		if (rc == ECANCELED)
			return NULL;
	}
	return NULL;
}

/* One advance for each event is enough for a loop: none is refused because another thread trims. */
TEST(no_advance_is_refused_because_threads_trim_all_the_time)
{
	hwt_timer *timer = flagged_timer(HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK, 0);
	struct crew trimmers;
	atomic_uint ran = 0;

	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	atomic_store(&over, false);
	crew_start(&trimmers, 2, trim_again_and_again, timer, 0);
	for (unsigned i = 1; i <= 2000; i++) {
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(1), NULL), 0);
		CHECK_RC(hwt_timer_advance(timer, HWT_MS(3 * i), NULL), 0);
		CHECK_INT(ran, ==, i);
	}
	atomic_store(&over, true);
	crew_join(&trimmers);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

#define CHURNED 60000u
#define ROUNDS 4u

static void *churn(void *arg)
{
	hwt_timeout *mine = malloc(CHURNED * sizeof(*mine)), *old = malloc(CHURNED * sizeof(*old));
	unsigned known = 0;

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < CHURNED; i++) {
			CHECK_RC(hwt_new_timeout(arg, count_task, NULL, HOUR_NS, &mine[i]), 0);
			if (i < known) /* of a life before: whatever its memory is now */
				CHECK_RC(hwt_cancel(old[i]), ENOENT);
		}
		for (unsigned i = 0; i < CHURNED; i++)
			CHECK_RC(hwt_cancel(mine[i]), 0);
		memcpy(old, mine, CHURNED * sizeof(*old));
		known = CHURNED;
		sleep_ms(5);
	}
	for (unsigned i = 0; i < known; i++) {
		CHECK_RC(hwt_cancel(old[i]), ENOENT);
		CHECK(hwt_timeout_timer(old[i]) == arg);
	}
	free(mine);
	free(old);
	return NULL;
}

static void three_beside_trims(hwt_timer *timer, void *(*work)(void *))
{
	struct crew producers, trimmer;

	atomic_store(&over, false);
	crew_start(&trimmer, 1, trim_again_and_again, timer, 0);
	crew_start(&producers, 3, work, timer, 0);
	crew_join(&producers);
	atomic_store(&over, true);
	crew_join(&trimmer);
}

TEST(threads_schedule_and_cancel_while_memory_goes_back_all_the_time)
{
	hwt_timer *timer = new_timer(TICK_NS, 512);

	three_beside_trims(timer, churn);
	CHECK_INT(stats_of(timer).accepted, ==, 3 * ROUNDS * CHURNED);
	CHECK_INT(stats_of(timer).cancelled, ==, 3 * ROUNDS * CHURNED);
	CHECK_INT(stats_of(timer).pending, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void *reserve_again_and_again(void *arg)
{
	for (unsigned i = 0; i < 1000; i++)
		CHECK_RC(hwt_reserve(arg, i % 2 * 100), 0);
	return NULL;
}

/* Queues are empty all the time, so a trim looks at what is set aside. */
TEST(threads_set_memory_aside_while_it_goes_back)
{
	hwt_timer *timer = new_timer(TICK_NS, 512);

	three_beside_trims(timer, reserve_again_and_again);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_stop_ends_a_call_that_waits)
{
	for (unsigned i = 0; i < 5; i++) {
		hwt_timer *timer = new_timer(TICK_NS, 512);
		struct crew trimmer;

		begin();
		atomic_store(&over, false);
		(void)burst(timer, false);
		crew_start(&trimmer, 1, trim_again_and_again, timer, 0);
		sleep_ms((int)i);
		CHECK_RC(hwt_timer_stop(timer, NULL), 0);
		crew_join(&trimmer);
		end(timer);
	}
}

TEST_MAIN()
