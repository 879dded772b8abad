/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of hwt_new_timeout and a cancel, the calls of an advance, a stop beside others, and hwt_timeout_format. */
#include "unit.h"
#include "support.h"

TEST(new_timeout_writes_to_its_own_lane_only)
{
	hwt_config config = driven_config(HWT_MS(1), 64);
	hwt_timer *timer = driven_create(&config, HWT_S(1));
	const struct hwt_lane *mine = lanes_home(&timer->lanes);
	struct hwt_lane *before = malloc((timer->lanes.last_seat + 1) * sizeof(*before));
	unsigned char *timer_before = malloc(sizeof(hwt_timer));

	REQUIRE(before != NULL && timer_before != NULL);
	for (uint32_t place = 0; place <= timer->lanes.last_seat; place++)
		(void)lane_at(&timer->lanes, place);
	while (records_held(&timer->lanes) < 2000) /* until the lane needs no more memory */
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, HWT_S(60), NULL), ==, 0);
	for (uint32_t i = 0; i < lanes_count(&timer->lanes); i++)
		memcpy(&before[i], timer->lanes.made[i], sizeof(*before));
	memcpy(timer_before, timer, sizeof(hwt_timer));
	for (int i = 0; i < 1000; i++)
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, HWT_S(60), NULL), ==, 0);
	for (uint32_t i = 0; i < lanes_count(&timer->lanes); i++)
		CHECK((memcmp(&before[i], timer->lanes.made[i], sizeof(*before)) != 0) ==
		      (timer->lanes.made[i] == mine));
	CHECK(memcmp(timer_before, timer, sizeof(hwt_timer)) == 0); /* no counter, lock or list has changed */
	free(before);
	free(timer_before);
	driven_destroy(timer);
}

static void cancel_many_again_and_again(const hwt_config *config)
{
	hwt_timer *timer = driven_create(config, HWT_S(1));

	for (int round = 0; round < 300; round++) {
		hwt_timeout timeouts[500];

		if (round == 3)
			memory_is_back();
		for (int i = 0; i < 500; i++)
			CHECK_INT(hwt_new_timeout(timer, nothing, NULL, HWT_S(3600), &timeouts[i]), ==, 0);
		if (round % 2 == 0) /* cancelled in the wheel, or in the queue */
			driven_pass(timer, fake_now_ns + HWT_MS(1));
		for (int i = 0; i < 500; i++)
			CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
		driven_pass(timer, fake_now_ns + HWT_MS(1));
	}
	CHECK_INT(memory_asked, ==, 0);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	driven_destroy(timer);
}

TEST(row24_a_cancelled_ones_record_is_free_after_the_pass_however_far_its_deadline)
{
	hwt_config config = driven_config(HWT_MS(1), 512);

	for (config.wheel = HWT_WHEEL_HASHED; config.wheel <= HWT_WHEEL_HIERARCHICAL; config.wheel++)
		cancel_many_again_and_again(&config);
}

/* A canceller that has taken the edge from ARMED and has not pushed the record yet, while a stop passes by. */
static struct {
	pthread_t thread;
	hwt_timeout timeout;
	atomic_uint in_push, may_push, released;
} slow;

static void count_slow_release(void *arg)
{
	(void)arg;
	atomic_fetch_add(&slow.released, 1);
}

static void hold_the_push(const char *where)
{
	if (strcmp(where, "blocked") == 0)
		atomic_store(&slow.may_push, 1); /* the stop waits for the lock */
	if (strcmp(where, "queue push") == 0 && atomic_exchange(&slow.in_push, 1) == 0)
		CHECK(wait_count(&slow.may_push, 1));
}

static void *cancel_slow(void *arg)
{
	(void)arg;
	CHECK_INT(hwt_cancel(slow.timeout), ==, 0);
	return NULL;
}

TEST(a_stop_calls_the_finaliser_of_a_timeout_whose_cancel_is_under_way)
{
	hwt_spec spec = { .size = sizeof(spec), .task = nothing, .when_ns = HWT_MS(5), .release = count_slow_release };
	hwt_config config = driven_config(HWT_MS(1), 64);
	hwt_timer *timer = driven_create(&config, HWT_S(1));
	size_t unprocessed = 1;

	REQUIRE(hwt_new_timeout_ex(timer, &spec, &slow.timeout) == 0);
	driven_pass(timer, HWT_S(1) + HWT_MS(1)); /* into the wheel */
	atomic_store(&hwt_test_point, hold_the_push);
	REQUIRE(pthread_create(&slow.thread, NULL, cancel_slow, NULL) == 0);
	REQUIRE(wait_count(&slow.in_push, 1));
	driven_pass(timer, HWT_S(1) + HWT_MS(10)); /* out of the wheel: now only the canceller knows it */
	CHECK_INT(slow.released, ==, 0);
	CHECK_INT(hwt_timer_stop(timer, &unprocessed), ==, 0);
	CHECK_INT(unprocessed, ==, 0);
	atomic_store(&slow.may_push, 1);
	pthread_join(slow.thread, NULL);
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	driven_destroy(timer);
	CHECK_INT(slow.released, ==, 1);
}

/*
 * What an advance asks of the system
 */

/* Advances, and returns how many points of this name the advance has passed. */
static unsigned points_of_an_advance(hwt_timer *timer, const char *where, int64_t now_ns, int64_t *next_ns)
{
	points_begin(where);
	CHECK_INT(hwt_timer_advance(timer, now_ns, next_ns), ==, 0);
	return points_end();
}

static void tell_nobody(void *ctx)
{
	(void)ctx;
}

/* A pass would publish. */
TEST(an_empty_timer_is_quiet_within_a_tick)
{
	hwt_config config = driven_config(HWT_MS(10), 64);
	hwt_timer *timer;
	int64_t next_ns = 0;

	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	config.on_earlier = tell_nobody;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_INT(points_of_an_advance(timer, "idle published", 0, &next_ns), ==, 1);
	CHECK_INT(points_of_an_advance(timer, "idle published", 1, &next_ns), ==, 0);
	CHECK_INT(next_ns, ==, INT64_MAX);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

/* Later timeouts come and go for three ticks. */
TEST(only_an_earlier_deadline_sets_the_alarm)
{
	hwt_config config = driven_config(HWT_MS(10), 64);
	int64_t now_ns = hwt_now(), first_ns = now_ns + HWT_S(3600), next_ns = 0;
	hwt_timeout first, other;
	hwt_timer *timer;
	int fd;

	NEEDS_LINUX();
	config.flags = HWT_CALLER_DRIVEN;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_INT(hwt_timer_fd(timer, &fd), ==, 0);
	CHECK_INT(hwt_new_timeout_at(timer, nothing, NULL, first_ns, &first), ==, 0);
	CHECK_INT(points_of_an_advance(timer, "idle alarm", now_ns, &next_ns), >, 0);
	for (unsigned i = 0; i < 300; i++, now_ns += HWT_US(100)) {
		CHECK_INT(hwt_new_timeout_at(timer, nothing, NULL, first_ns + HWT_S(1), &other), ==, 0);
		CHECK_INT(points_of_an_advance(timer, "idle alarm", now_ns, &next_ns), ==, 0);
		CHECK_INT(hwt_cancel(other), ==, 0);
		CHECK_INT(points_of_an_advance(timer, "idle alarm", now_ns, &next_ns), ==, 0);
	}
	CHECK_INT(hwt_cancel(first), ==, 0); /* the alarm was set for this one, and stays */
	CHECK_INT(points_of_an_advance(timer, "idle alarm", now_ns, &next_ns), ==, 0);
	CHECK_INT(hwt_new_timeout_at(timer, nothing, NULL, first_ns - HWT_S(1), NULL), ==, 0);
	CHECK_INT(points_of_an_advance(timer, "idle alarm", now_ns, &next_ns), ==, 1);
	CHECK_INT(hwt_timer_advance(timer, first_ns, &next_ns), ==, 0);
	CHECK_INT(next_ns, >, first_ns); /* the alarm is set again */
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

/* A stop closes the lanes before it collects pending timeouts, and finds this timeout in the wheel. */
TEST(one_that_is_moved_in_a_stop_is_not_pushed)
{
	hwt_config config = driven_config(HWT_MS(1), 64);
	hwt_timer *timer = driven_create(&config, HWT_S(1));
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	hwt_unprocessed unprocessed;

	CHECK_INT(hwt_new_timeout(timer, nothing, NULL, HWT_MS(50), &timeout), ==, 0);
	driven_pass(timer, HWT_S(1) + HWT_MS(1));
	hwt_lanes_close(&timer->lanes);
	CHECK_INT(hwt_reschedule_at(timeout, HWT_S(1) + HWT_MS(20)), ==, 0);
	CHECK(!word_has(record_word(timeout.entry), WORD_REQUEUED));
	CHECK_INT(hwt_timer_stop(timer, NULL), ==, 0);
	CHECK(hwt_timer_next_unprocessed(timer, &unprocessed));
	CHECK_INT(unprocessed.deadline_ns, ==, HWT_S(1) + HWT_MS(20));
	driven_destroy(timer);
}

/*
 * A loop's descriptor beside a stop and on_earlier
 */

static hwt_timer *loop;
static int64_t loop_ns; /* the time that the loop was told last */
static unsigned told, ran;

static void stop_loop(void)
{
	CHECK_INT(hwt_timer_stop(loop, NULL), ==, 0);
}

/* What a stop does on another thread before it takes the driver's word. */
static void ask_for_stop(void)
{
	hwt_worker_request_stop(&loop->worker);
}

static void count_tellings(void *ctx)
{
	(void)ctx;
	told++;
}

/* Returns the descriptor of a loop that has advanced, with one timeout in an hour. */
static int begin_loop(void (*on_earlier)(void *ctx))
{
	hwt_config config = driven_config(HWT_MS(10), 64);
	int fd = -1;

	config.flags = HWT_CALLER_DRIVEN;
	config.on_earlier = on_earlier;
	REQUIRE(hwt_timer_create(&loop, &config) == 0);
	CHECK_INT(hwt_timer_fd(loop, &fd), ==, 0);
	CHECK_INT(hwt_new_timeout(loop, nothing, NULL, HWT_S(3600), NULL), ==, 0);
	loop_ns = hwt_now(); /* not before the grid's start */
	CHECK_INT(hwt_timer_advance(loop, loop_ns, NULL), ==, 0);
	told = ran = 0;
	return fd;
}

TEST(no_descriptor_is_made_behind_a_stop)
{
	hwt_config config = driven_config(HWT_MS(10), 64);
	int fd = 17;

	NEEDS_LINUX();
	config.flags = HWT_CALLER_DRIVEN;
	REQUIRE(hwt_timer_create(&loop, &config) == 0);
	meanwhile("descriptor", stop_loop);
	CHECK_INT(hwt_timer_fd(loop, &fd), ==, ECANCELED);
	CHECK(meanwhile_came());
	CHECK(fd == 17 && idle_alarm(&loop->lanes.idle) < 0);
	CHECK_INT(hwt_timer_destroy(loop), ==, 0);
}

/* The passes are over, and the advance is about to set its alarm. */
TEST(a_stop_that_rings_in_an_advance_is_not_silenced)
{
	int64_t next_ns = 17;
	int fd;

	NEEDS_LINUX();
	fd = begin_loop(NULL);
	CHECK_INT(hwt_new_timeout(loop, nothing, NULL, HWT_S(60), NULL), ==, 0);
	meanwhile("idle alarm", ask_for_stop);
	CHECK_INT(hwt_timer_advance(loop, loop_ns, &next_ns), ==, ECANCELED);
	CHECK(meanwhile_came());
	CHECK_INT(next_ns, ==, 17);
	CHECK(wait_readable(fd));
	CHECK_INT(hwt_timer_destroy(loop), ==, 0);
}

/* The stop has not taken the driver's word yet. */
TEST(during_a_stop_no_next_time_is_told)
{
	int64_t next_ns = 17;

	NEEDS_LINUX();
	(void)begin_loop(NULL);
	CHECK_INT(hwt_timer_next(loop, &next_ns), ==, 0);
	next_ns = 17;
	ask_for_stop();
	CHECK_INT(hwt_timer_next(loop, &next_ns), ==, ECANCELED);
	CHECK_INT(next_ns, ==, 17);
	CHECK_INT(hwt_timer_destroy(loop), ==, 0);
}

static void schedule_earlier(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	CHECK_INT(hwt_new_timeout(loop, nothing, NULL, HWT_MS(100), NULL), ==, 0);
	CHECK_INT(told, ==, 0);
	ran++;
}

/* The loop advances while a producer has pushed and has not yet looked whether to tell. */
static void advance_loop(void)
{
	CHECK_INT(hwt_timer_advance(loop, loop_ns + HWT_MS(10), NULL), ==, 0);
}

TEST(a_task_of_an_advance_tells_nobody_also_with_a_descriptor)
{
	NEEDS_LINUX();
	(void)begin_loop(count_tellings);
	CHECK_INT(idle_told(&loop->lanes.idle), >, IDLE_NAP);
	meanwhile("idle look", advance_loop);
	CHECK_INT(hwt_new_timeout_at(loop, schedule_earlier, NULL, loop_ns, NULL), ==, 0);
	CHECK(meanwhile_came());
	CHECK_INT(ran, ==, 1);
	CHECK_INT(told, ==, 1); /* the producer looks late, and tells for nothing */
	CHECK_INT(hwt_timer_destroy(loop), ==, 0);
}

/* A clock may begin anywhere, and a deadline may lie anywhere from it. */
TEST(format_knows_what_is_left_at_either_end_of_all_times)
{
	static const struct {
		int64_t now_ns, deadline_ns;
		const char *left;
	} rows[] = {
		{ INT64_MIN, INT64_MIN + HWT_MS(1500), "pending, 1.500 s left" },
		{ INT64_MIN, INT64_MIN, "pending, 0.000 s left" },
		{ INT64_MIN, INT64_MAX - 1, "pending, 9223372036.854 s left" },
		{ INT64_MIN + HWT_MS(20), INT64_MIN, "pending, due since 0.020 s" },
		{ INT64_MAX, INT64_MIN, "pending, due since 9223372036.854 s" },
		{ INT64_MAX, INT64_MAX - HWT_MS(7), "pending, due since 0.007 s" },
		{ INT64_MAX, INT64_MAX, "pending, never due" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hwt_config config = driven_config(HWT_MS(1), 64);
		hwt_timer *timer = driven_create(&config, 0);
		hwt_timeout timeout = HWT_TIMEOUT_NONE;
		char text[128] = "";

		CHECK_INT(hwt_new_timeout_at(timer, nothing, NULL, rows[i].deadline_ns, &timeout), ==, 0);
		fake_now_ns = rows[i].now_ns;
		(void)hwt_timeout_format(timeout, text, sizeof(text));
		if (strstr(text, rows[i].left) == NULL)
			test_fail(__FILE__, __LINE__, text, 0, 0, false);
		driven_destroy(timer);
	}
}

static hwt_timer *crowded;

/* Schedules and cancels in the middle of each count. */
static void come_and_go(const char *where)
{
	hwt_timeout timeout;

	if (strcmp(where, "pending count") != 0 && strcmp(where, "begins count") != 0)
		return;
	for (unsigned i = 0; i < 50; i++) {
		CHECK_INT(hwt_new_timeout(crowded, nothing, NULL, HWT_S(60), &timeout), ==, 0);
		CHECK_INT(hwt_cancel(timeout), ==, 0);
	}
}

TEST(counts_stay_within_what_there_can_be_though_nothing_is_ever_still)
{
	hwt_config config = driven_config(HWT_MS(1), 64);

	for (config.max_pending_timeouts = 0; config.max_pending_timeouts < 2; config.max_pending_timeouts++) {
		hwt_stats stats = { .size = sizeof(stats) };
		uint64_t most = config.max_pending_timeouts > 0 ? 1 : 50;

		crowded = driven_create(&config, HWT_S(1));
		atomic_store(&hwt_test_point, come_and_go);
		CHECK(hwt_pending_timeouts(crowded) <= most); /* nor below 0, which would be a huge number */
		CHECK_INT(hwt_timer_stats(crowded, &stats), ==, 0);
		atomic_store(&hwt_test_point, (hwt_point_hook *)0);
		CHECK(stats.pending <= most);
		CHECK_INT(stats.running, ==, 0);
		CHECK_INT(stats.accepted, ==,
			  stats.completed + stats.cancelled + stats.returned + stats.pending + stats.running);
		CHECK_INT(hwt_pending_timeouts(crowded), ==, 0);
		driven_destroy(crowded);
	}
}

TEST_MAIN()
