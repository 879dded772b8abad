/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * max_pending_timeouts under stress: never more are pending, and no call is refused without need.  That all of it is
 * there again afterwards is in test_stress.c.
 */
#include "support.h"

#define THREADS 6
#define HOUR_NS HWT_S(3600)

/*
 * What is known to be pending: counted up after the timeout has been accepted, down before it is cancelled.  So it is
 * never more than what is pending in truth.
 */
struct pool {
	hwt_timer *timer;
	int64_t limit;
	atomic_llong known;
	atomic_uint accepted, refused, ran;
	unsigned steps;
	uint64_t seed;
};

struct worker {
	struct pool *pool;
	uint64_t seed;
};

/* Fills and empties at random; each thread cancels its own, all of them an hour off. */
static void *fill_and_empty(void *arg)
{
	struct worker *worker = arg;
	struct pool *pool = worker->pool;
	struct prng prng = { worker->seed };
	size_t most = (size_t)pool->limit, count = 0;
	hwt_timeout *own = calloc(most, sizeof(*own));

	REQUIRE(own);
	for (unsigned step = 0; step < pool->steps; step++) {
		if (count < most && prng_below(&prng, 5) < 3) {
			int rc = hwt_new_timeout_at(pool->timer, count_task, &pool->ran, INT64_MAX, &own[count]);

			if (rc == 0) {
				count++;
				CHECK_INT(atomic_fetch_add(&pool->known, 1) + 1, <=, pool->limit);
				atomic_fetch_add(&pool->accepted, 1);
			} else {
				CHECK_INT(rc, ==, ENOBUFS);
				atomic_fetch_add(&pool->refused, 1);
			}
		} else if (count > 0) {
			size_t i = prng_below(&prng, count);

			atomic_fetch_sub(&pool->known, 1);
			CHECK_INT(hwt_cancel(own[i]), ==, 0);
			own[i] = own[--count];
		}
	}
	while (count > 0) {
		atomic_fetch_sub(&pool->known, 1);
		CHECK_INT(hwt_cancel(own[--count]), ==, 0);
	}
	free(own);
	return NULL;
}

TEST(never_more_than_the_limit)
{
	static const int64_t limits[] = { 1, 2, 5, 64, 1000 };
	struct prng prng = { test_seed("never_more_than_the_limit") };

	for (size_t l = 0; l < sizeof(limits) / sizeof(limits[0]); l++) {
		struct pool pool = { .timer = new_limited_timer(limits[l]),
				     .limit = limits[l],
				     .steps = scaled(400000) };
		struct worker workers[THREADS];

		for (int i = 0; i < THREADS; i++)
			workers[i] = (struct worker){ &pool, prng_next(&prng) };
		crew_run(THREADS, fill_and_empty, workers, sizeof(workers[0]));
		CHECK_INT(pool.accepted, >, 0);
		printf("# limit %" PRId64 ": %u accepted, %u refused\n", limits[l], pool.accepted, pool.refused);
		CHECK_INT(pool.ran, ==, 0);
		check_room(pool.timer, limits[l]);
		CHECK_RC(hwt_timer_destroy(pool.timer), 0);
	}
}

/* As many threads as the limit, each with one timeout at most: there is always room for the next. */
static void *one_at_a_time(void *arg)
{
	struct worker *worker = arg;
	struct pool *pool = worker->pool;
	struct prng prng = { worker->seed };

	for (unsigned step = 0; step < pool->steps; step++) {
		hwt_timeout timeout;
		int64_t delay_ns = prng_below(&prng, 8) ? HOUR_NS : 0;

		CHECK_INT(hwt_new_timeout(pool->timer, count_task, &pool->ran, delay_ns, &timeout), ==, 0);
		/* Either way it has ended: it has begun to run, or is cancelled. */
		if (step % 64 == 0 && delay_ns == 0)
			CHECK(wait_ended(timeout));
		else
			hwt_cancel(timeout);
		atomic_fetch_add(&pool->accepted, 1);
	}
	return NULL;
}

TEST(no_call_is_refused_without_need)
{
	struct prng prng = { test_seed("nobody_is_refused_without_need") };
	struct pool pool = { .timer = new_limited_timer(THREADS), .limit = THREADS, .steps = scaled(20000) };
	struct worker workers[THREADS];

	for (int i = 0; i < THREADS; i++)
		workers[i] = (struct worker){ &pool, prng_next(&prng) };
	crew_run(THREADS, one_at_a_time, workers, sizeof(workers[0]));
	CHECK(wait_none_pending(pool.timer));
	check_room(pool.timer, THREADS);
	CHECK_RC(hwt_timer_destroy(pool.timer), 0);
}

TEST_MAIN()
