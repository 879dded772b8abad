/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbers of hwt_timer_stats, compared with what happened. */
#include "support.h"

#define TICK_NS HWT_MS(1)
#define FAR_NS HWT_S(3600)

static hwt_timer *timer_with(int64_t limit, uint32_t flags)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = TICK_NS;
	config.max_pending_timeouts = limit;
	config.flags = flags;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

TEST(bad_arguments_are_refused)
{
	hwt_timer *timer = timer_with(0, 0);
	hwt_stats stats = { .size = 15, .accepted = 17 };

	CHECK_RC(hwt_timer_stats(NULL, &stats), EINVAL);
	CHECK_RC(hwt_timer_stats(timer, NULL), EINVAL);
	CHECK_RC(hwt_timer_stats(timer, &stats), EINVAL);
	stats.size = 0;
	CHECK_RC(hwt_timer_stats(timer, &stats), EINVAL);
	CHECK_INT(stats.accepted, ==, 17);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* The size is larger than any version's structure: the caller has not set it, and no byte is written. */
TEST(a_size_that_was_never_set_is_refused)
{
	static const size_t sizes[] = { 4097, 1 << 20, (size_t)0xa5a5a5a5, SIZE_MAX };
	static union {
		hwt_stats stats;
		unsigned char bytes[8192];
	} large, untouched;
	hwt_timer *timer = timer_with(0, 0);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(&large, 0xa5, sizeof(large));
		large.stats.size = sizes[i];
		untouched = large;
		CHECK_RC(hwt_timer_stats(timer, &large.stats), EINVAL);
		CHECK(memcmp(&large, &untouched, sizeof(large)) == 0);
	}
	large.stats.size = 4096;
	CHECK_RC(hwt_timer_stats(timer, &large.stats), 0);
	CHECK_INT(large.stats.accepted, ==, 0);
	CHECK_INT(large.bytes[4095], ==, 0);
	CHECK_INT(large.bytes[4096], ==, 0xa5);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * Waits until runs have been counted: a run is counted after its task has returned, its tick after the last run of the
 * tick.
 */
static bool wait_counted(hwt_timer *timer, uint64_t completed)
{
	struct patience patience = PATIENCE("the counts");
	hwt_stats stats;

	while ((stats = stats_of(timer)).completed < completed || stats.tick_max_ns == 0)
		if (!patience_lasts(&patience, HWT_MS(1)))
			return false;
	return true;
}

/* A worker that is late may find a timeout due without having slept, but not each time. */
TEST(a_sleep_that_ends_is_counted)
{
	hwt_timer *timer = timer_with(0, 0);
	atomic_uint ran = 0;

	for (uint64_t rounds = 1; rounds <= 200 && stats_of(timer).wakeups == 0; rounds++) {
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(5), NULL), 0);
		REQUIRE(wait_counted(timer, rounds));
	}
	CHECK_INT(stats_of(timer).wakeups, >=, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * On a 32-bit system the deadline may not fit the seconds of a timespec.  A worker that got the wrong time woke up at
 * each tick.
 */
TEST(a_worker_sleeps_for_a_deadline_in_a_century)
{
#ifdef HWT_PORTABLE
	const unsigned clocks = 1;
#else
	const unsigned clocks = 3;
#endif

	for (uint32_t clock = 0; clock < clocks; clock++) {
		hwt_config config = HWT_CONFIG_INIT;
		hwt_timer *timer = NULL;
		atomic_uint ran = 0;

		config.clock = clock;
		config.tick_duration_ns = HWT_MS(2);
		REQUIRE(hwt_timer_create(&timer, &config) == 0);
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_S(INT64_C(3155760000)), NULL), 0);
		sleep_ms(40);
		CHECK_INT(stats_of(timer).wakeups, <=, 5);
		CHECK_INT(ran, ==, 0);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* Programs that know fewer fields, and more. */
TEST(older_and_newer_sizes_are_served)
{
	hwt_timer *timer = timer_with(0, HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK);
	struct {
		hwt_stats stats;
		uint64_t more[4];
	} newer;
	union {
		hwt_stats stats;
		unsigned char bytes[sizeof(hwt_stats)];
	} older;

	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, FAR_NS, NULL), 0);
	for (size_t size = 16; size < sizeof(older); size++) {
		memset(&older, 0xa5, sizeof(older));
		older.stats.size = size;
		CHECK_RC(hwt_timer_stats(timer, &older.stats), 0);
		CHECK_INT(older.stats.size, ==, size);
		CHECK_INT(older.stats.accepted, ==, 1);
		CHECK_INT(older.bytes[size], ==, 0xa5);
	}
	memset(&newer, 0xa5, sizeof(newer));
	newer.stats.size = sizeof(newer);
	CHECK_RC(hwt_timer_stats(timer, &newer.stats), 0);
	CHECK_INT(newer.stats.size, ==, sizeof(newer));
	CHECK_INT(newer.stats.pending, ==, 1);
	CHECK_INT(newer.more[0] | newer.more[3], ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
