/* SPDX-License-Identifier: BSD-2-Clause */
/* What hwt_timer_stats says, against what happened. */
#include "support.h"

#define TICK_NS HWT_MS(1)
#define FAR_NS HWT_S(3600)

static atomic_uint ignored;

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

static uint64_t histogram_sum(const hwt_stats *stats)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < 32; i++)
		sum += stats->lateness[i];
	return sum;
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

/* Larger than any version's structure: the caller never set it, and nothing is written. */
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

/* A run is counted after its task has returned, and its tick after the last run of it. */
static bool wait_counted(hwt_timer *timer, uint64_t completed)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;
	hwt_stats stats;

	while ((stats = stats_of(timer)).completed < completed || stats.tick_max_ns == 0) {
		if (hwt_now() > give_up_ns)
			return false;
		sleep_ms(1);
	}
	return true;
}

TEST(a_new_timer_has_done_nothing)
{
	hwt_timer *timer = timer_with(0, 0);
	hwt_stats stats = stats_of(timer);

	CHECK_INT(stats.accepted | stats.completed | stats.cancelled | stats.returned | stats.pending, ==, 0);
	CHECK_INT(stats.running | stats.runs | stats.ticks | stats.wakeups | stats.transfers, ==, 0);
	CHECK_INT(stats.records, ==, 0);
	CHECK_INT(stats.bytes, >, 1000);
	CHECK_INT(stats.bytes, <, 10000000); /* lanes follow the number of cores */
	CHECK_INT(histogram_sum(&stats), ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(each_end_is_counted_where_it_belongs)
{
	hwt_timer *timer = timer_with(5, 0);
	atomic_uint ran = 0;
	hwt_timeout timeouts[5];
	hwt_stats stats;

	for (int i = 0; i < 5; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, i < 2 ? 0 : FAR_NS, &timeouts[i]), 0);
	REQUIRE(wait_counted(timer, 2));
	for (int i = 0; i < 2; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, FAR_NS, NULL), 0);
	for (int i = 0; i < 3; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, FAR_NS, NULL), ENOBUFS);
	CHECK_RC(hwt_cancel(timeouts[2]), 0);
	CHECK_RC(hwt_cancel(timeouts[2]), ENOENT);
	stats = stats_of(timer);
	CHECK_INT(stats.accepted, ==, 7);
	CHECK_INT(stats.completed, ==, 2);
	CHECK_INT(stats.runs, ==, 2);
	CHECK_INT(stats.cancelled, ==, 1);
	CHECK_INT(stats.pending, ==, 4);
	CHECK_INT(stats.pending, ==, hwt_pending_timeouts(timer));
	CHECK_INT(stats.refused_limit, ==, 3);
	CHECK_INT(stats.refused_stopped | stats.refused_memory | stats.executor_refusals, ==, 0);
	CHECK_INT(stats.ticks, >=, 1);
	CHECK_INT(stats.ticks, <=, 4); /* one may have been looked at for nothing */
	CHECK_INT(histogram_sum(&stats), ==, 2);
	CHECK_INT(stats.lateness_max_ns, >, 0);
	CHECK_INT(stats.tick_max_ns, >, 0);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	for (int i = 0; i < 2; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, NULL), ECANCELED);
	CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, 0, NULL), ECANCELED);
	stats = stats_of(timer);
	CHECK_INT(stats.returned, ==, 4);
	CHECK_INT(stats.pending | stats.running, ==, 0);
	CHECK_INT(stats.refused_stopped, ==, 3);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void look_task(hwt_timeout timeout, void *arg)
{
	*(hwt_stats *)arg = stats_of(hwt_timeout_timer(timeout));
}

/* A worker that comes late finds a timeout due and has not slept for it, but not again and again. */
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
 * On a system of 32 bits it may not fit the seconds of a timespec.  The worker that got the wrong time woke up at each
 * tick.
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

TEST(a_task_sees_itself_running)
{
	hwt_timer *timer = timer_with(0, HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK);
	hwt_stats seen = { 0 };

	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, look_task, &seen, 0, NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, TICK_NS, NULL), 0);
	CHECK_INT(seen.running, ==, 1);
	CHECK_INT(seen.runs, ==, 1);
	CHECK_INT(seen.completed | seen.pending, ==, 0);
	CHECK_INT(stats_of(timer).completed, ==, 1);
	CHECK_INT(stats_of(timer).running, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* On a clock of our own: the histogram to the task. */
TEST(lateness_is_sorted_by_powers_of_two)
{
	static const struct {
		int64_t late_ns;
		unsigned place;
	} rows[] = { { 0, 0 },    { 999, 0 },      { 1000, 1 },     { 1999, 1 },      { 2000, 2 },        { 3999, 2 },
		     { 4000, 3 }, { 1023999, 10 }, { 1024000, 11 }, { HWT_S(1), 20 }, { HWT_S(4000), 31 } };
	hwt_timer *timer = timer_with(0, HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK);
	hwt_stats before, after;
	int64_t max_ns = 0;

	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	before = stats_of(timer);
	for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++, before = after) {
		unsigned row = i * 7 % (sizeof(rows) / sizeof(rows[0])); /* back and forth */
		int64_t deadline_ns = HWT_S(10000) * (i + 1);

		CHECK_RC(hwt_new_timeout_at(timer, count_task, &ignored, deadline_ns, NULL), 0);
		CHECK_RC(hwt_timer_advance(timer, deadline_ns + rows[row].late_ns, NULL), 0);
		after = stats_of(timer);
		max_ns = rows[row].late_ns > max_ns ? rows[row].late_ns : max_ns;
		CHECK_INT(histogram_sum(&after), ==, i + 1);
		CHECK_INT(after.lateness[rows[row].place], ==, before.lateness[rows[row].place] + 1);
		CHECK_INT(after.lateness_max_ns, ==, max_ns);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* What the statistics say to each task of a burst: place and number of those as late as it, and the latest. */
struct look {
	unsigned place;
	int64_t max_ns;
	uint64_t expected[32];
};

static void look_at_lateness(hwt_timeout timeout, void *arg)
{
	struct look *look = arg;
	hwt_stats stats = stats_of(hwt_timeout_timer(timeout));

	look->expected[look->place]++;
	CHECK(memcmp(stats.lateness, look->expected, sizeof(stats.lateness)) == 0);
	CHECK_INT(histogram_sum(&stats), ==, stats.runs);
	CHECK_INT(stats.lateness_max_ns, ==, look->max_ns);
}

/* In bursts of all lengths, which end with a task of another lateness, and with a periodic one in every other. */
TEST(each_task_of_a_burst_is_counted_when_it_starts)
{
	static const struct {
		int64_t late_ns;
		unsigned place, tasks;
	} rows[] = { { 70000, 7, 50 }, { 71000, 7, 3 }, { 70000, 7, 1 },  { 300000, 9, 1 }, { 70000, 7, 16 },
		     { 0, 0, 17 },     { 500, 0, 18 },  { 70000, 7, 40 }, { 90000, 7, 40 }, { 2000000, 11, 300 },
		     { 70000, 7, 15 }, { 0, 0, 1 },     { 70000, 7, 1 },  { 0, 0, 100 } };
	hwt_timer *timer = timer_with(0, HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK);
	struct look look = { .max_ns = 0 };
	int64_t deadline_ns = 0;

	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	CHECK_RC(hwt_new_periodic(timer, look_at_lateness, &look, HWT_MS(10), HWT_MS(20), NULL), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		deadline_ns += HWT_MS(10);
		look.place = rows[i].place;
		look.max_ns = rows[i].late_ns > look.max_ns ? rows[i].late_ns : look.max_ns;
		for (unsigned k = 0; k < rows[i].tasks; k++)
			CHECK_RC(hwt_new_timeout_at(timer, look_at_lateness, &look, deadline_ns, NULL), 0);
		CHECK_RC(hwt_timer_advance(timer, deadline_ns + rows[i].late_ns, NULL), 0);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static bool is_counted(hwt_timer *timer, hwt_stats *seen, uint64_t completed)
{
	hwt_stats stats = stats_of(timer);

	for (unsigned i = 0; i < 32; i++)
		CHECK_INT(stats.lateness[i], >=, seen->lateness[i]);
	CHECK_INT(stats.lateness_max_ns, >=, seen->lateness_max_ns);
	*seen = stats;
	return stats.completed >= completed;
}

/* A second thread reads while the worker goes from one place to the other, and no number ever goes down. */
TEST(no_place_of_the_histogram_ever_goes_down)
{
	hwt_timer *timer = timer_with(0, 0);
	hwt_stats seen = { 0 };
	uint64_t scheduled = 0;

	CHECK_RC(hwt_timer_start(timer), 0);
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 1000; i++, scheduled++)
			CHECK_RC(hwt_new_timeout(timer, count_task, &ignored, i % 100 < 50 ? 0 : i * 1000, NULL), 0);
		while (!is_counted(timer, &seen, scheduled))
			;
	}
	CHECK_INT(histogram_sum(&seen), ==, scheduled);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Deadlines as far back as there are. */
TEST(lateness_does_not_overflow)
{
	hwt_timer *timer = timer_with(0, HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK);
	hwt_stats stats;

	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	CHECK_RC(hwt_new_timeout_at(timer, count_task, &ignored, INT64_MIN, NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, HWT_S(10), NULL), 0);
	stats = stats_of(timer);
	CHECK_INT(stats.lateness_max_ns, ==, INT64_MAX);
	CHECK_INT(stats.lateness[31], ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

struct slow {
	atomic_uint begun, open;
};

static void slow_task(hwt_timeout timeout, void *arg)
{
	struct slow *slow = arg;

	(void)timeout;
	atomic_store(&slow->begun, 1);
	REQUIRE(wait_count(&slow->open, 1));
}

TEST(a_slow_task_makes_a_long_tick_and_others_late)
{
	hwt_timer *timer = timer_with(0, 0);
	struct slow slow = { 0, 0 };
	atomic_uint ran = 0;
	hwt_stats stats;
	int64_t due_ns;

	CHECK_RC(hwt_new_timeout(timer, slow_task, &slow, 0, NULL), 0);
	REQUIRE(wait_count(&slow.begun, 1));
	due_ns = hwt_now();
	CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, due_ns, NULL), 0);
	while (hwt_now() < due_ns + HWT_MS(30))
		sleep_ms(1);
	atomic_store(&slow.open, 1);
	REQUIRE(wait_count(&ran, 1));
	REQUIRE(wait_none_pending(timer));
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	stats = stats_of(timer);
	CHECK_INT(stats.tick_max_ns, >=, HWT_MS(30));
	CHECK_INT(stats.lateness_max_ns, >=, HWT_MS(30));
	CHECK_INT(histogram_sum(&stats), ==, 2);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

#define HELD 10000

TEST(memory_and_transfers_are_counted)
{
	hwt_timer *timer = timer_with(0, HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK);
	static hwt_timeout timeouts[HELD];
	hwt_stats empty, full, after;

	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	empty = stats_of(timer);
	for (int i = 0; i < HELD; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, FAR_NS, &timeouts[i]), 0);
	CHECK_RC(hwt_timer_advance(timer, TICK_NS, NULL), 0);
	full = stats_of(timer);
	CHECK_INT(full.records, >=, HELD);
	CHECK_INT(full.bytes - empty.bytes, >=, HELD * 60);
	CHECK_INT(full.bytes - empty.bytes, <, HELD * 200); /* nodes of the queue as well */
	CHECK_INT(full.transfers, ==, HELD);
	CHECK_INT(full.backlog_max, ==, HELD);
	CHECK_INT(full.wakeups, ==, 2);
	for (int i = 0; i < HELD; i++)
		CHECK_RC(hwt_cancel(timeouts[i]), 0);
	CHECK_RC(hwt_timer_advance(timer, 2 * TICK_NS, NULL), 0);
	for (int i = 0; i < HELD; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, FAR_NS, &timeouts[i]), 0);
	CHECK_RC(hwt_timer_advance(timer, 3 * TICK_NS, NULL), 0);
	after = stats_of(timer);
	CHECK_INT(after.records, ==, full.records);
	CHECK_INT(after.transfers, ==, 3 * HELD);
	CHECK_INT(after.backlog_max, ==, HELD);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* A program that knows fewer fields, and one that knows more. */
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

/* Each snapshot adds up (stats_of checks that), while threads schedule, cancel, run and stop. */

struct busy {
	hwt_timer *timer;
	atomic_uint ran;
	uint64_t accepted, cancelled;
};

static void *be_busy(void *arg)
{
	struct busy *busy = arg;
	hwt_timeout timeout;
	int rc = 0;

	for (unsigned i = 0; rc == 0; i++) {
		rc = hwt_new_timeout(busy->timer, count_task, &busy->ran, i % 3 == 0 ? 0 : FAR_NS, &timeout);
		busy->accepted += rc == 0;
		if (rc == 0 && i % 3 != 0)
			busy->cancelled += hwt_cancel(timeout) == 0;
	}
	CHECK_INT(rc, ==, ECANCELED);
	return NULL;
}

TEST(snapshots_add_up_while_others_are_at_work)
{
	hwt_timer *timer = timer_with(0, 0);
	struct busy busy[3] = { { .timer = timer }, { .timer = timer }, { .timer = timer } };
	uint64_t accepted = 0, cancelled = 0, ran = 0;
	hwt_stats before = stats_of(timer), stats;
	struct crew crew;

	crew_start(&crew, 3, be_busy, busy, sizeof(*busy));
	for (unsigned i = 0; i < scaled(3000); i++) {
		stats = stats_of(timer);
		CHECK(stats.accepted >= before.accepted && stats.completed >= before.completed);
		CHECK(stats.cancelled >= before.cancelled && stats.runs >= before.runs);
		CHECK_INT(stats.pending, <, INT64_MAX); /* not below zero */
		CHECK_INT(stats.running, <=, 1);
		before = stats;
	}
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	crew_join(&crew);
	stats = stats_of(timer);
	for (int i = 0; i < 3; i++) {
		accepted += busy[i].accepted;
		cancelled += busy[i].cancelled;
		ran += busy[i].ran;
	}
	CHECK_INT(stats.accepted, ==, accepted);
	CHECK_INT(stats.cancelled, ==, cancelled);
	CHECK_INT(stats.completed, ==, ran);
	CHECK_INT(stats.returned, ==, accepted - cancelled - ran);
	CHECK_INT(stats.refused_stopped, ==, 3);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
