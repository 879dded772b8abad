/* SPDX-License-Identifier: BSD-2-Clause */
/* The slab that the worker makes ahead of a lane that grows: which lane gets one, when, and who comes first. */
#include "check/check.h"
#include "unit.h"
#include "worker/trim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/mman.h>
#include <sys/prctl.h>
#endif

#define START HWT_S(1000)
#define TICK HWT_MS(1)
#define FAR HWT_S(3600)

static hwt_timer *timer;
static struct hwt_lane *lane;
static uint64_t scheduled;

static void nothing(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
}

static void begin_with(uint32_t flags)
{
	hwt_config config = driven_config(TICK, 512);

	config.flags = flags;
	config.max_transfers_per_tick = 64; /* a pass is short */
	scheduled = 0;
	if (flags & HWT_CALLER_DRIVEN)
		REQUIRE(hwt_timer_create(&timer, &config) == 0);
	else
		timer = driven_create(&config, START);
	lane = lanes_home(&timer->lanes);
	REQUIRE(lane != NULL);
}

static void end(void)
{
	hwt_stats stats = { .size = sizeof(stats) };

	CHECK_INT(hwt_timer_stats(timer, &stats), ==, 0);
	CHECK_INT(stats.pending, ==, scheduled);
	driven_destroy(timer);
}

static uint64_t bytes(void)
{
	hwt_stats stats = { .size = sizeof(stats) };

	CHECK_INT(hwt_timer_stats(timer, &stats), ==, 0);
	return stats.bytes;
}

static struct hwt_slab *ahead_of(struct hwt_lane *of)
{
	return atomic_load(&of->pool.ahead);
}

static bool is_asked(void)
{
	return atomic_load(&timer->lanes.want_ahead);
}

static void schedule_in(struct hwt_lane *in)
{
	REQUIRE(hwt_lane_submit(in, nothing, NULL, START + FAR, NULL) == 0);
	scheduled++;
}

/* Until the lane begins another slab. */
static void begin_slab(struct hwt_lane *in)
{
	const struct hwt_slab *newest = in->pool.slabs.newest;

	while (in->pool.slabs.newest == newest)
		schedule_in(in);
}

/* Until the lane asks the worker. */
static void grow(struct hwt_lane *in)
{
	while (!atomic_load(&in->pool.wants_ahead))
		schedule_in(in);
}

/* With huge pages one write would bring all pages of the slab. */
static void allow_huge_pages(bool allowed)
{
#if defined(__linux__) && defined(PR_SET_THP_DISABLE)
	(void)prctl(PR_SET_THP_DISABLE, !allowed, 0, 0, 0);
#else
	(void)allowed;
#endif
}

#ifdef __linux__
static size_t pages_there(const void *memory, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), there = 0;
	static unsigned char in_core[1024];

	REQUIRE(size / page <= sizeof(in_core));
	REQUIRE(mincore((void *)(uintptr_t)memory, size, in_core) == 0);
	for (size_t i = 0; i < size / page; i++)
		there += in_core[i] & 1;
	return there * page;
}
#endif

TEST(the_worker_makes_the_next_slab_of_a_lane_that_grows)
{
	const struct hwt_slab *ahead;
	uint64_t before;

	begin_with(0);
	grow(lane);
	CHECK(ahead_of(lane) == NULL);
	before = bytes();
	allow_huge_pages(false);
	driven_pass(timer, START);
	allow_huge_pages(true);
	ahead = ahead_of(lane);
	REQUIRE(ahead != NULL);
	CHECK(!is_asked());
	CHECK_INT(bytes() - before, >=, HWT_HUGE_PAGE);
#ifdef __linux__
	CHECK_INT(pages_there(ahead, HWT_HUGE_PAGE), ==, HWT_HUGE_PAGE);
#endif
	before = bytes();
	begin_slab(lane);
	CHECK(lane->pool.slabs.newest == ahead);
	CHECK(ahead_of(lane) == NULL);
	CHECK_INT(bytes() - before, <, HWT_HUGE_PAGE); /* nodes, not another slab */
	CHECK(is_asked());
	driven_pass(timer, START);
	CHECK(ahead_of(lane) != NULL);
	end(); /* with a slab ahead that nobody uses */
}

TEST(a_lane_has_at_most_one_slab_ahead)
{
	const struct hwt_slab *ahead;
	uint64_t before;

	begin_with(0);
	grow(lane);
	begin_slab(lane); /* the producer comes before the worker, and asks twice */
	driven_pass(timer, START);
	ahead = ahead_of(lane);
	CHECK(ahead != NULL);
	before = bytes();
	hwt_lane_ask_ahead(lane);
	CHECK(is_asked());
	driven_pass(timer, START);
	CHECK(!is_asked());
	CHECK(ahead_of(lane) == ahead);
	CHECK_INT(bytes() - before, <, HWT_HUGE_PAGE);
	end();
}

TEST(each_lane_that_asks_gets_its_own)
{
	struct hwt_lane *other, *small;

	begin_with(0);
	other = lane_at(&timer->lanes, (hwt_own_number + 1) & timer->lanes.last_place);
	small = lane_at(&timer->lanes, (hwt_own_number + 2) & timer->lanes.last_place);
	grow(lane);
	grow(other);
	schedule_in(small);
	driven_pass(timer, START);
	CHECK(ahead_of(lane) != NULL);
	CHECK(ahead_of(other) != NULL);
	CHECK(ahead_of(other) != ahead_of(lane));
	CHECK(ahead_of(small) == NULL);
	end();
}

TEST(a_lane_of_4_mib_has_none)
{
	begin_with(0);
	while (slabs_bytes(&lane->pool.slabs) < 2 * HWT_HUGE_PAGE - 4096)
		begin_slab(lane);
	CHECK(!is_asked());
	driven_pass(timer, START);
	CHECK(ahead_of(lane) == NULL);
	end();
}

TEST(a_timer_that_its_caller_drives_has_none)
{
	int64_t next_ns;

	begin_with(HWT_CALLER_DRIVEN);
	while (slabs_bytes(&lane->pool.slabs) < 6 * HWT_HUGE_PAGE)
		begin_slab(lane);
	CHECK(!is_asked());
	CHECK_INT(hwt_timer_advance(timer, START, &next_ns), ==, 0);
	CHECK(ahead_of(lane) == NULL);
	end();
}

TEST(without_memory_for_it_the_lane_grows_by_itself)
{
	begin_with(0);
	grow(lane);
	memory_fails(0, UINT64_MAX);
	driven_pass(timer, START);
	memory_is_back();
	CHECK(ahead_of(lane) == NULL);
	begin_slab(lane);
	CHECK(is_asked());
	driven_pass(timer, START);
	CHECK(ahead_of(lane) != NULL);
	end();
}

TEST(a_trim_frees_it)
{
	uint64_t before;

	begin_with(0);
	grow(lane);
	driven_pass(timer, START);
	REQUIRE(ahead_of(lane) != NULL);
	before = bytes();
	hwt_worker_trim_now(&timer->worker);
	CHECK(ahead_of(lane) == NULL);
	CHECK_INT(before - bytes(), >=, HWT_HUGE_PAGE);
	begin_slab(lane);
	driven_pass(timer, START);
	CHECK(ahead_of(lane) != NULL);
	end();
}

/* What the other thread does at a point, once. */
static const char *point;

static void grow_here(const char *where)
{
	if (strcmp(where, point) != 0)
		return;
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	begin_slab(lane);
}

TEST(a_producer_that_comes_while_the_slab_is_made_makes_its_own)
{
	const struct hwt_slab *ahead;

	begin_with(0);
	grow(lane);
	point = "made ahead";
	atomic_store(&hwt_test_point, grow_here);
	driven_pass(timer, START);
	CHECK(atomic_load(&hwt_test_point) == NULL);
	ahead = ahead_of(lane);
	REQUIRE(ahead != NULL);
	CHECK(lane->pool.slabs.newest != ahead);
	begin_slab(lane);
	CHECK(lane->pool.slabs.newest == ahead);
	end();
}

static void pass_here(const char *where)
{
	if (strcmp(where, point) != 0)
		return;
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	driven_pass(timer, START);
}

TEST(a_worker_that_looks_in_the_middle_of_an_ask_looks_again)
{
	begin_with(0);
	point = "ask ahead";
	atomic_store(&hwt_test_point, pass_here);
	grow(lane);
	CHECK(atomic_load(&hwt_test_point) == NULL);
	driven_pass(timer, START);
	CHECK(ahead_of(lane) != NULL);
	end();
}

/* Schedules until it is refused; *arg counts. */
static void *schedule_until_stopped(void *arg)
{
	size_t *accepted = arg;

	while (hwt_new_timeout(timer, nothing, NULL, FAR, NULL) == 0)
		++*accepted;
	return NULL;
}

TEST(a_stop_in_the_middle_of_it_hands_everything_back)
{
	enum { THREADS = 2, ENOUGH = 400000 };
	hwt_stats stats = { .size = sizeof(stats) };
	hwt_config config = HWT_CONFIG_INIT;
	size_t accepted[THREADS] = { 0 }, unprocessed = 0;
	pthread_t threads[THREADS];

	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	REQUIRE(hwt_timer_start(timer) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, schedule_until_stopped, &accepted[i]) == 0);
	do
		CHECK_INT(hwt_timer_stats(timer, &stats), ==, 0);
	while (stats.pending < ENOUGH);
	CHECK_INT(hwt_timer_stop(timer, &unprocessed), ==, 0);
	for (unsigned i = 0; i < THREADS; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	CHECK_INT(unprocessed, ==, accepted[0] + accepted[1]);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

TEST_MAIN()
