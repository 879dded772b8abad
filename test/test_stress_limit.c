/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * max_pending_timeouts under stress: never more are pending, nobody is refused without need, and nothing is forgotten.
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
	atomic_uint accepted, refused, cancelled, ran;
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

/* Exactly as many fit as the limit says. */
static void check_room(hwt_timer *timer, int64_t limit, int64_t left)
{
	hwt_timeout *timeouts = calloc((size_t)limit, sizeof(*timeouts));

	REQUIRE(timeouts);
	CHECK_INT(hwt_pending_timeouts(timer), ==, limit - left);
	for (int64_t i = 0; i < left; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, &timeouts[i]), 0);
	for (int i = 0; i < 10; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS, NULL), ENOBUFS);
	CHECK_INT(hwt_pending_timeouts(timer), ==, limit);
	for (int64_t i = 0; i < left; i++)
		CHECK_RC(hwt_cancel(timeouts[i]), 0);
	free(timeouts);
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
		check_room(pool.timer, limits[l], limits[l]);
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

TEST(nobody_is_refused_without_need)
{
	struct prng prng = { test_seed("nobody_is_refused_without_need") };
	struct pool pool = { .timer = new_limited_timer(THREADS), .limit = THREADS, .steps = scaled(20000) };
	struct worker workers[THREADS];

	for (int i = 0; i < THREADS; i++)
		workers[i] = (struct worker){ &pool, prng_next(&prng) };
	crew_run(THREADS, one_at_a_time, workers, sizeof(workers[0]));
	CHECK(wait_none_pending(pool.timer));
	check_room(pool.timer, THREADS, THREADS);
	CHECK_RC(hwt_timer_destroy(pool.timer), 0);
}

/* Short ones that expire, are cancelled or are refused, with cancels of the same timeout from other threads. */
struct shared {
	struct pool *pool;
	hwt_timeout *timeouts; /* of all threads, one part each */
	unsigned first, count;
	atomic_uint *published;
	uint64_t seed;
};

static bool cancel_one(struct shared *shared, unsigned i)
{
	if (!atomic_load(&shared->published[i]) || hwt_cancel(shared->timeouts[i]) != 0)
		return false;
	atomic_fetch_add(&shared->pool->cancelled, 1);
	return true;
}

static void *mix(void *arg)
{
	struct shared *shared = arg;
	struct pool *pool = shared->pool;
	struct prng prng = { shared->seed };

	for (unsigned i = shared->first; i < shared->first + shared->count; i++) {
		int rc = hwt_new_timeout(pool->timer, count_task, &pool->ran, prng_between(&prng, 0, HWT_MS(3)),
					 &shared->timeouts[i]);

		CHECK(rc == 0 || rc == ENOBUFS);
		if (rc == 0) {
			atomic_fetch_add(&pool->accepted, 1);
			atomic_store(&shared->published[i], 1);
		} else if (atomic_fetch_add(&pool->refused, 1) % 256 == 0) {
			sched_yield();
		}
		/* Room for the next: the newest of this thread's that is left.  And anybody's. */
		for (unsigned back = 0; rc != 0 && back < 64 && back <= i - shared->first; back++)
			if (cancel_one(shared, i - back))
				break;
		cancel_one(shared, (unsigned)prng_below(&prng, shared->count * THREADS));
	}
	return NULL;
}

TEST(as_much_room_as_before)
{
	struct prng prng = { test_seed("as_much_room_as_before") };
	unsigned count = scaled(30000);

	for (int64_t limit = 3; limit <= 300; limit *= 10) {
		struct pool pool = { .timer = new_limited_timer(limit), .limit = limit };
		struct shared shared[THREADS];
		hwt_timeout *timeouts = calloc((size_t)count * THREADS, sizeof(*timeouts)), keep;
		atomic_uint *published = calloc((size_t)count * THREADS, sizeof(*published));

		REQUIRE(timeouts && published);
		for (unsigned i = 0; i < THREADS; i++)
			shared[i] = (struct shared){ &pool, timeouts, i * count, count, published, prng_next(&prng) };
		crew_run(THREADS, mix, shared, sizeof(shared[0]));
		CHECK(wait_none_pending(pool.timer));
		CHECK(wait_count(&pool.ran, pool.accepted - pool.cancelled));
		CHECK_INT(pool.ran + pool.cancelled, ==, pool.accepted);
		printf("# limit %" PRId64 ": %u accepted, %u refused, %u ran\n", limit, pool.accepted, pool.refused,
		       pool.ran);
		check_room(pool.timer, limit, limit);
		/* And with one that stays. */
		CHECK_RC(hwt_new_timeout(pool.timer, count_task, NULL, HOUR_NS, &keep), 0);
		check_room(pool.timer, limit, limit - 1);
		CHECK_RC(hwt_timer_destroy(pool.timer), 0);
		free(timeouts);
		free(published);
	}
}

TEST_MAIN()
