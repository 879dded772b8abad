/* SPDX-License-Identifier: BSD-2-Clause */
/* Lanes come with the threads that use them: what a timer costs on a machine of many cores, and what each has of it. */
#include "check/check.h"
#include "unit.h"
#include "support.h"

#include <limits.h>

#define START HWT_S(1)
#define TICK HWT_MS(1)
#define FAR HWT_S(3600)

static atomic_uint ran;

static void count(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	atomic_fetch_add(&ran, 1);
}

/* A timer whose passes the test makes, as on a machine of so many cores. */
static hwt_timer *timer_on(long cores)
{
	hwt_config config = driven_config(TICK, 512);
	hwt_timer *timer;

	hwt_test_cores = cores;
	timer = driven_create(&config, START);
	hwt_test_cores = 0;
	return timer;
}

/* In a thread of its own, which has never used the timer before. */
static void in_new_thread(void *(*act)(void *), void *arg)
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, act, arg) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
}

TEST(a_timer_of_1024_places_costs_little_before_its_first_timeout)
{
	hwt_timer *small = timer_on(1), *large = timer_on(512);

	CHECK_INT(large->lanes.last_seat, ==, 1023);
	CHECK_INT(stats_now(small).bytes, <=, 20 * 1024);
	CHECK_INT(stats_now(large).bytes, <=, 40 * 1024);
	driven_destroy(small);
	driven_destroy(large);
}

/* Threads that come at the same time, while passes are made and statistics are read. */
enum { THREADS = 8, SHARING = 2 };

static pthread_barrier_t barrier;
static atomic_uint numbers;

/* Memory that takes so long that the others come, too. */
static bool memory_is_slow(void)
{
	nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	return false;
}

static void *come_together(void *timer)
{
	hwt_own_number = 1 + atomic_fetch_add(&numbers, 1) / SHARING;
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 10; i++) {
		hwt_timeout timeout;

		CHECK_INT(hwt_new_timeout_at(timer, count, NULL, START + TICK, NULL), ==, 0);
		CHECK_INT(hwt_new_timeout_at(timer, count, NULL, START + FAR, &timeout), ==, 0);
		CHECK_INT(hwt_cancel(timeout), ==, 0);
	}
	return NULL;
}

TEST(lanes_that_are_made_at_the_same_time_are_one_a_place)
{
	for (int round = 0; round < 10; round++) {
		hwt_timer *timer = timer_on(round % 2 ? 1 : 512);
		pthread_t threads[THREADS];

		atomic_store(&ran, 0);
		atomic_store(&numbers, 0);
		atomic_store(&hwt_test_mem_refuses, memory_is_slow);
		REQUIRE(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
		for (int i = 0; i < THREADS; i++)
			REQUIRE(pthread_create(&threads[i], NULL, come_together, timer) == 0);
		pthread_barrier_wait(&barrier);
		for (int i = 0; i < 20; i++) {
			driven_pass(timer, START);
			CHECK_INT(hwt_pending_timeouts(timer), <=, THREADS * 20);
			CHECK(stats_now(timer).bytes > 0);
		}
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		pthread_barrier_destroy(&barrier);
		atomic_store(&hwt_test_mem_refuses, NULL);
		CHECK_INT(lanes_count(&timer->lanes), ==, THREADS / SHARING);
		driven_pass(timer, START + 2 * TICK);
		CHECK_INT(atomic_load(&ran), ==, THREADS * 10);
		hwt_check(timer);
		driven_destroy(timer);
	}
}

/* A thread that finds a lane at its place, or by the count, as soon as it is there. */
struct look {
	hwt_timer *timer;
	bool by_count;
};

static void *look_for_it(void *arg)
{
	const struct look *look = arg;
	const struct hwt_lanes *lanes = &look->timer->lanes;
	const struct hwt_lane *lane = NULL;
	struct patience patience = PATIENCE("the lane");

	/* Quickly at first: the other thread may lose its processor before it makes the lane. */
	for (unsigned looks = 0; lane == NULL; looks++) {
		if (!look->by_count)
			lane = lanes_at(lanes, 1);
		else if (lanes_count(lanes) > 0)
			lane = lanes->made[0];
		if (looks > 10000000 && !patience_lasts(&patience, HWT_MS(1)))
			break;
	}
	REQUIRE(lane != NULL);
	CHECK(lane->lanes == lanes);
	CHECK_INT(lane->turn, ==, 0);
	return NULL;
}

TEST(a_lane_is_complete_when_it_is_found)
{
	for (int round = 0; round < 20; round++) {
		struct look look = { timer_on(1), round % 2 };
		pthread_t thread;

		REQUIRE(pthread_create(&thread, NULL, look_for_it, &look) == 0);
		CHECK(hwt_lanes_make(&look.timer->lanes, 1) != NULL);
		pthread_join(thread, NULL);
		driven_destroy(look.timer);
	}
}

/* A record that goes on to a lane just made, while a handle of its earlier life is used. */
struct hand_on {
	hwt_timer *timer;
	hwt_timeout stale;
	struct hwt_lane *first;
};

static void *take_over(void *arg)
{
	struct hand_on *hand_on = arg;

	/* Its own first slab, then those of others. */
	for (int i = 0; i < 1000 && record_lane(hand_on->stale.entry) == hand_on->first; i++)
		CHECK_INT(hwt_new_timeout_at(hand_on->timer, count, NULL, START + FAR, NULL), ==, 0);
	return NULL;
}

TEST(a_stale_handle_finds_its_timer_by_a_lane_that_was_just_made)
{
	struct hand_on hand_on = { .timer = timer_on(512) };
	pthread_t thread;
	int looks = 0;

	REQUIRE(hwt_new_timeout_at(hand_on.timer, count, NULL, START + FAR, &hand_on.stale) == 0);
	hand_on.first = record_lane(hand_on.stale.entry);
	REQUIRE(hwt_new_timeout_at(hand_on.timer, count, NULL, START + FAR, NULL) == 0); /* or its lane would keep it */
	CHECK_INT(hwt_cancel(hand_on.stale), ==, 0);
	driven_pass(hand_on.timer, START);
	REQUIRE(pthread_create(&thread, NULL, take_over, &hand_on) == 0);
	do
		CHECK(hwt_timeout_timer(hand_on.stale) == hand_on.timer);
	while (record_lane(hand_on.stale.entry) == hand_on.first && ++looks < 100000000);
	CHECK(hwt_timeout_timer(hand_on.stale) == hand_on.timer);
	CHECK_INT(hwt_cancel(hand_on.stale), ==, ENOENT);
	pthread_join(thread, NULL);
	CHECK(record_lane(hand_on.stale.entry) != hand_on.first);
	driven_destroy(hand_on.timer);
}

/*
 * Memory over time.  Each thread has a lane of its own, schedules MANY, cancels them, and goes.
 */

#define MANY 10000

static void *fill_and_empty(void *arg)
{
	hwt_timer *timer = arg;
	static hwt_timeout timeouts[MANY];

	for (int i = 0; i < MANY; i++)
		CHECK_INT(hwt_new_timeout_at(timer, count, NULL, START + FAR, &timeouts[i]), ==, 0);
	driven_pass(timer, START);
	for (int i = 0; i < MANY; i++)
		CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
	driven_pass(timer, START);
	return NULL;
}

TEST(memory_follows_the_peak_and_not_the_number_of_threads)
{
	enum { THREADS_IN_ALL = 200 };
	hwt_timer *timer = timer_on(512);
	int64_t first = 0, growth;

	for (unsigned i = 0; i < THREADS_IN_ALL; i++) {
		in_new_thread(fill_and_empty, timer);
		if (i == 0)
			first = (int64_t)stats_now(timer).bytes;
	}
	CHECK_INT(lanes_count(&timer->lanes), ==, THREADS_IN_ALL);
	/* The records have served one thread after the other.  The nodes of all go back, so that theirs need not. */
	driven_trim(timer);
	growth = ((int64_t)stats_now(timer).bytes - first) / (THREADS_IN_ALL - 1);
	printf("# %" PRId64 " bytes after the first thread, %" PRId64 " more for each other one\n", first, growth);
	CHECK_INT(growth, <=, 8192); /* the lane, and the first slab of records */
	hwt_check(timer);
	driven_destroy(timer);
}

/* So many on this lane, which are then free, records and nodes. */
static void use_lane(hwt_timer *timer, uint32_t place, unsigned n)
{
	static hwt_timeout timeouts[MANY];

	for (unsigned i = 0; i < n; i++)
		CHECK_INT(hwt_lane_submit(lane_at(&timer->lanes, place), count, NULL, START + FAR, &timeouts[i]), ==,
			  0);
	driven_pass(timer, START);
	for (unsigned i = 0; i < n; i++)
		CHECK_INT(hwt_lane_cancel(lane_at(&timer->lanes, place), timeouts[i].entry, timeouts[i].generation), ==,
			  0);
	driven_pass(timer, START);
}

/* So many, and for how many new records that asked. */
static uint64_t asked_for(hwt_timer *timer, uint32_t place, unsigned n)
{
	struct hwt_lane *lane = lane_at(&timer->lanes, place);
	size_t before = records_held(&timer->lanes);

	for (unsigned i = 0; i < n; i++)
		CHECK_INT(hwt_lane_submit(lane, count, NULL, START + FAR, NULL), ==, 0);
	return records_held(&timer->lanes) - before;
}

/* Until its own slab of records has been used up. */
static void use_up_slab(hwt_timer *timer, uint32_t place)
{
	struct hwt_lane *lane = lane_at(&timer->lanes, place);

	do
		CHECK_INT(hwt_lane_submit(lane, count, NULL, START + FAR, NULL), ==, 0);
	while (!pool_is_used_up(&lane->pool));
}

/* Another lane wants its slab each time it grows; of two that are used in turn neither has the other's. */
TEST(a_lane_in_use_keeps_its_slab)
{
	hwt_timer *timer = timer_on(512);
	const struct hwt_pool *pool = &lane_at(&timer->lanes, 0)->pool;
	struct hwt_record_slab *slab = NULL;

	for (unsigned i = 0; i < 2000; i++) {
		CHECK_INT(hwt_lane_submit(lane_at(&timer->lanes, 0), count, NULL, START + FAR, NULL), ==, 0);
		slab = i == 0 ? pool->slab : slab;
		CHECK(pool->slab == slab);
		for (unsigned n = 0; n < 3; n++)
			CHECK_INT(hwt_lane_submit(lane_at(&timer->lanes, 1), count, NULL, START + FAR, NULL), ==, 0);
	}
	hwt_check(timer);
	driven_destroy(timer);
}

/* A lane that has much free, and whose lock is held just when another lane looks. */
static struct hwt_lane *held;
static unsigned looks, looks_until_free;

static void free_after_some_looks(const char *where)
{
	if (strcmp(where, "held") == 0 && ++looks == looks_until_free)
		queue_unlock(&held->submitted);
}

static uint64_t asked_for_while_held(unsigned looks_wanted)
{
	hwt_timer *timer = timer_on(512);
	uint64_t asked;

	use_lane(timer, 1, MANY);
	use_up_slab(timer, 0);
	held = lane_at(&timer->lanes, 1);
	queue_lock(&held->submitted);
	looks = 0;
	looks_until_free = looks_wanted;
	atomic_store(&hwt_test_point, free_after_some_looks);
	asked = asked_for(timer, 0, 400);
	atomic_store(&hwt_test_point, NULL);
	if (looks < looks_wanted) {
		CHECK(!queue_try_lock(&held->submitted)); /* nor does anybody else unlock it */
		queue_unlock(&held->submitted);
	}
	hwt_check(timer);
	driven_destroy(timer);
	return asked;
}

TEST(a_lock_that_is_held_for_a_moment_costs_no_memory)
{
	CHECK_INT(asked_for_while_held(1), ==, 0);
	CHECK_INT(asked_for_while_held(20), ==, 0);
}

/* Its holder may wait for ours. */
TEST(a_lock_that_is_held_for_long_is_not_waited_for)
{
	CHECK_INT(asked_for_while_held(UINT_MAX), >, 0);
}

TEST_MAIN()
