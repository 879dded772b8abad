/* SPDX-License-Identifier: BSD-2-Clause */
/* Behaviours of executors, moved and periodic timeouts, of wheels above wheels, and of a cancel that waits. */
#include "virtual.h"

#define MS HWT_MS(1)

/*
 * Row 9: an executor of one thread
 */

struct single {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	void (*run)(void *job);
	void *job;
	bool has_job, end;
	unsigned refuse; /* so many to come */
	pthread_t thread;
};

static void *single_main(void *arg)
{
	struct single *single = arg;

	pthread_mutex_lock(&single->mutex);
	for (;;) {
		while (!single->has_job && !single->end)
			pthread_cond_wait(&single->changed, &single->mutex);
		if (!single->has_job)
			break;
		pthread_mutex_unlock(&single->mutex);
		single->run(single->job);
		pthread_mutex_lock(&single->mutex);
		single->has_job = false;
	}
	pthread_mutex_unlock(&single->mutex);
	return NULL;
}

static int single_execute(void *ctx, void (*run)(void *job), void *job)
{
	struct single *single = ctx;
	int rc = EAGAIN;

	pthread_mutex_lock(&single->mutex);
	if (single->refuse > 0) {
		single->refuse--;
	} else if (!single->has_job) {
		single->has_job = true;
		single->run = run;
		single->job = job;
		pthread_cond_signal(&single->changed);
		rc = 0;
	}
	pthread_mutex_unlock(&single->mutex);
	return rc;
}

static void single_begin(struct single *single)
{
	*single = (struct single){ .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
	REQUIRE(pthread_create(&single->thread, NULL, single_main, single) == 0);
}

static void single_end(struct single *single)
{
	pthread_mutex_lock(&single->mutex);
	single->end = true;
	pthread_cond_signal(&single->changed);
	pthread_mutex_unlock(&single->mutex);
	pthread_join(single->thread, NULL);
}

static hwt_timer *timer_on(struct single *single)
{
	hwt_executor executor = { single_execute, single };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer;

	config.tick_duration_ns = MS;
	config.executor = &executor;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

struct where {
	pthread_t thread;
	atomic_uint ran;
};

static void where_task(hwt_timeout timeout, void *arg)
{
	struct where *where = arg;

	(void)timeout;
	where->thread = pthread_self();
	atomic_fetch_add(&where->ran, 1);
}

TEST(row09_a_task_of_an_executor_runs_there_and_a_refused_one_is_not_lost)
{
	struct where there = { .ran = 0 }, here = { .ran = 0 };
	struct single single;
	hwt_timer *timer;

	single_begin(&single);
	timer = timer_on(&single);
	CHECK_RC(hwt_new_timeout(timer, where_task, &there, MS, NULL), 0);
	REQUIRE(wait_count(&there.ran, 1));
	CHECK(pthread_equal(there.thread, single.thread));
	pthread_mutex_lock(&single.mutex);
	single.refuse = 1;
	pthread_mutex_unlock(&single.mutex);
	CHECK_RC(hwt_new_timeout(timer, where_task, &here, MS, NULL), 0);
	REQUIRE(wait_count(&here.ran, 1));
	CHECK(!pthread_equal(here.thread, single.thread));
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_INT(stats_of(timer).executor_refusals, ==, 1);
	CHECK_INT(stats_of(timer).completed, ==, 2);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	single_end(&single);
}

/*
 * Row 11
 */

TEST(row11_negative_delays_run)
{
	hwt_timer *timer = virtual_timer();
	atomic_uint ran = 0;

	CHECK_RC(hwt_timer_advance(timer, HWT_S(1), NULL), 0);
	for (int64_t delay = -5; delay < 0; delay++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, delay * MS, NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, HWT_S(1) + MS, NULL), 0);
	CHECK_INT(ran, ==, 5);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(row11_to_add_a_pending_one_again_moves_it)
{
	hwt_timer *timer = virtual_timer();
	atomic_uint ran = 0;
	hwt_timeout timeout;

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 10 * MS, &timeout), 0);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
	for (int64_t delay = 20; delay <= 50; delay += 10) {
		CHECK_RC(hwt_reschedule(timeout, delay * MS), 0);
		CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
	}
	CHECK_RC(hwt_timer_advance(timer, 49 * MS, NULL), 0);
	CHECK_INT(ran, ==, 0);
	CHECK_RC(hwt_timer_advance(timer, 50 * MS, NULL), 0);
	CHECK_INT(ran, ==, 1);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Its neighbour is so far off that its rounds do not fit 32 bits. */
static int64_t late_now_ns;

static void in_time_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	CHECK_INT(late_now_ns, ==, *(int64_t *)arg);
}

TEST(row11_moved_ones_beside_a_very_far_one_are_in_time)
{
	static int64_t deadlines[1024];
	hwt_timer *timer = virtual_timer();
	hwt_timeout timeouts[1024];
	atomic_uint never = 0;

	CHECK_RC(hwt_new_timeout_at(timer, count_task, &never, INT64_MAX, NULL), 0);
	for (unsigned i = 0; i < 1024; i++) {
		deadlines[i] = (1000 + i) * MS;
		CHECK_RC(hwt_new_timeout_at(timer, in_time_task, &deadlines[i], deadlines[i], &timeouts[i]), 0);
	}
	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	for (unsigned i = 0; i < 1024; i++) {
		deadlines[i] += (i % 5 * 300 + i % 7) * MS;
		CHECK_RC(hwt_reschedule_at(timeouts[i], deadlines[i]), 0);
	}
	for (late_now_ns = 0; late_now_ns < 6000 * MS; late_now_ns += MS)
		CHECK_RC(hwt_timer_advance(timer, late_now_ns, NULL), 0);
	CHECK_INT(stats_of(timer).completed, ==, 1024);
	CHECK_INT(never, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * Row 12
 */

struct beat {
	int64_t now_ns, period_ns;
	unsigned runs;
};

static int64_t beat_now_ns;

static void beat_task(hwt_timeout timeout, void *arg)
{
	struct beat *beat = arg;

	CHECK_INT(hwt_timeout_missed(timeout), ==, 0);
	CHECK_INT(beat_now_ns, ==, ++beat->runs * beat->period_ns);
}

TEST(row12_the_ith_run_lies_at_the_sum_of_the_first_i_intervals)
{
	static const int64_t periods[] = { 1, 4, 5, 40, 50, 400, 500 };
	struct beat beats[7];
	hwt_timer *timer = virtual_timer();

	for (unsigned i = 0; i < 7; i++) {
		beats[i] = (struct beat){ .period_ns = periods[i] * MS };
		CHECK_RC(hwt_new_periodic(timer, beat_task, &beats[i], periods[i] * MS, periods[i] * MS, NULL), 0);
	}
	for (beat_now_ns = MS; beat_now_ns <= 10000 * MS; beat_now_ns += MS)
		CHECK_RC(hwt_timer_advance(timer, beat_now_ns, NULL), 0);
	for (unsigned i = 0; i < 7; i++)
		CHECK_INT(beats[i].runs, ==, 10000 / periods[i]);
	CHECK_INT(stats_of(timer).merged_periods, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * Rows 33, 34: timeouts that go from wheel to wheel
 */

/* Cancelled at each moment of its way down, among others that come down with it: 0, and it never runs. */
TEST(row33_a_cancel_while_it_moves_between_wheels_is_a_cancel)
{
	for (int64_t at = 0; at < 600; at++) {
		hwt_timer *timer = virtual_timer();
		atomic_uint ran = 0, others = 0;
		hwt_timeout timeout = HWT_TIMEOUT_NONE;

		for (unsigned i = 0; i < 300; i++)
			CHECK_RC(hwt_new_timeout(timer, count_task, i == 150 ? &ran : &others, 599 * MS + i % 3 * MS,
						 i == 150 ? &timeout : NULL),
				 0);
		for (int64_t now = 1; now < at; now += 7)
			CHECK_RC(hwt_timer_advance(timer, now * MS, NULL), 0);
		CHECK_RC(hwt_cancel(timeout), at > 599 ? ENOENT : 0);
		CHECK_RC(hwt_timer_advance(timer, 700 * MS, NULL), 0);
		CHECK_INT(ran, ==, 0);
		CHECK_INT(others, ==, 299);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

struct again {
	hwt_timer *timer;
	unsigned left;
};

/* Into the bucket that is just being worked on, one block further and one wheel above. */
static void again_task(hwt_timeout timeout, void *arg)
{
	static const int64_t delays[] = { 0, 512 * MS, 1024 * MS, 512 * 512 * MS };
	struct again *again = arg;
	hwt_timeout unused;

	(void)timeout;
	for (unsigned i = 0; i < 4 && again->left > 0; i++, again->left--)
		CHECK_RC(hwt_new_timeout(again->timer, again_task, again, delays[i], &unused), 0);
}

TEST(row34_a_task_inserts_into_the_bucket_that_it_comes_from)
{
	struct again again = { .timer = virtual_timer(), .left = 1000 };
	int64_t next_ns = 0;

	CHECK_RC(hwt_new_timeout(again.timer, again_task, &again, MS, NULL), 0);
	for (unsigned i = 0; i < 100000 && next_ns != INT64_MAX; i++)
		CHECK_RC(hwt_timer_advance(again.timer, next_ns, &next_ns), 0);
	CHECK_INT(next_ns, ==, INT64_MAX);
	CHECK_INT(stats_of(again.timer).completed, ==, 1001);
	CHECK_RC(hwt_timer_destroy(again.timer), 0);
}

/*
 * Row 36
 */

static void own_task(hwt_timeout timeout, void *arg)
{
	CHECK_RC(hwt_cancel_sync(timeout), EDEADLK);
	CHECK_RC(hwt_timeout_state(timeout), HWT_RUNNING);
	count_task(timeout, arg);
}

TEST(row36_to_wait_for_oneself_is_an_error_and_no_deadlock)
{
	atomic_uint ran = 0;
	struct single single;
	hwt_timer *timer = new_timer(MS, 64);
	hwt_timeout timeout;

	CHECK_RC(hwt_new_timeout(timer, own_task, &ran, MS, &timeout), 0);
	REQUIRE(wait_count(&ran, 1));
	CHECK_RC(hwt_cancel_sync(timeout), ENOENT);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	single_begin(&single);
	timer = timer_on(&single);
	CHECK_RC(hwt_new_timeout(timer, own_task, &ran, MS, &timeout), 0);
	REQUIRE(wait_count(&ran, 2));
	CHECK_RC(hwt_cancel_sync(timeout), ENOENT);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	single_end(&single);
}

/* It is running, and cannot be cancelled; then, while somebody waits for its end, it decides to run again. */
static atomic_uint undecided_runs, undecided_goes_on;
static int undecided_rc;

static void undecided_task(hwt_timeout timeout, void *arg)
{
	(void)arg;
	if (atomic_fetch_add(&undecided_runs, 1) == 0) {
		(void)wait_count(&undecided_goes_on, 1);
		sleep_ms(50); /* until the other one waits */
		undecided_rc = hwt_reschedule(timeout, HWT_MS(20));
	}
}

static void *sync_main(void *arg)
{
	int rc;

	atomic_store(&undecided_goes_on, 1);
	rc = hwt_cancel_sync(*(hwt_timeout *)arg);
	/* On a very busy machine the task is first: then it is taken back what it has armed. */
	CHECK_INT(undecided_rc, ==, rc);
	CHECK(rc == ENOENT || rc == 0);
	return NULL;
}

TEST(row36_waiting_for_one_that_would_run_again_ends_the_series)
{
	hwt_timer *timer = new_timer(MS, 64);
	hwt_timeout timeout;
	struct crew crew;

	CHECK_RC(hwt_new_timeout(timer, undecided_task, NULL, MS, &timeout), 0);
	REQUIRE(wait_count(&undecided_runs, 1));
	crew_start(&crew, 1, sync_main, &timeout, 0);
	crew_join(&crew);
	CHECK_INT(hwt_timeout_state(timeout), ==, undecided_rc == 0 ? HWT_CANCELLED : HWT_EXPIRED);
	wait_ticks(timer, 50, MS);
	CHECK_INT(undecided_runs, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
