/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hwt_new_periodic: the grid of its deadlines, periods that are merged, its one end; on the worker, on an executor, and
 * on a clock of the test's own.
 */
#include "spawn.h"
#include "virtual.h"

#define TICK_NS HWT_MS(1)
#define FAR_NS HWT_S(3600)

static int64_t round_up(int64_t ns)
{
	return (ns + TICK_NS - 1) / TICK_NS * TICK_NS;
}

struct beat {
	hwt_timeout timeout;
	unsigned runs;
	int64_t at_ns; /* of the last run */
	uint64_t missed, all_missed;
	unsigned cancel_at, move_at; /* the run that does it, 0: none */
	int64_t move_ns;
};

static void beat_task(hwt_timeout timeout, void *arg)
{
	struct beat *beat = arg;
	hwt_timer *timer = hwt_timeout_timer(timeout);

	CHECK(same_handle(timeout, beat->timeout));
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
	CHECK_INT(hwt_pending_timeouts(timer), >=, 1);
	CHECK_INT(stats_of(timer).running, ==, 0);
	beat->runs++;
	beat->at_ns = virtual_ns;
	beat->missed = hwt_timeout_missed(timeout);
	beat->all_missed += beat->missed;
	if (beat->runs == beat->move_at)
		CHECK_RC(hwt_reschedule(timeout, beat->move_ns), 0);
	if (beat->runs != beat->cancel_at)
		return;
	CHECK_RC(hwt_cancel_sync(timeout), EDEADLK);
	CHECK_RC(hwt_cancel(timeout), 0);
	CHECK_RC(hwt_cancel(timeout), ENOENT);
	CHECK_RC(hwt_reschedule(timeout, 0), ENOENT);
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
}

static void start(hwt_timer *timer, struct beat *beat, int64_t first_ns, int64_t period_ns)
{
	CHECK_RC(hwt_new_periodic(timer, beat_task, beat, first_ns, period_ns, &beat->timeout), 0);
}

TEST(bad_periods_are_refused)
{
	static const int64_t bad_ns[] = { 0, -1, INT64_MIN, 1, TICK_NS - 1 };
	hwt_timer *timer = virtual_timer();
	hwt_timeout timeout = { &virtual_ns, 17 };

	for (unsigned i = 0; i < sizeof(bad_ns) / sizeof(bad_ns[0]); i++)
		CHECK_RC(hwt_new_periodic(timer, count_task, NULL, 0, bad_ns[i], &timeout), EINVAL);
	CHECK_RC(hwt_new_periodic(NULL, count_task, NULL, 0, TICK_NS, &timeout), EINVAL);
	CHECK_RC(hwt_new_periodic(timer, NULL, NULL, 0, TICK_NS, &timeout), EINVAL);
	CHECK(timeout.entry == &virtual_ns && timeout.generation == 17);
	CHECK_INT(stats_of(timer).accepted, ==, 0);
	CHECK_RC(hwt_new_periodic(timer, count_task, NULL, FAR_NS, TICK_NS, NULL), 0);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_new_periodic(timer, count_task, NULL, 0, TICK_NS, &timeout), ECANCELED);
	CHECK(timeout.entry == &virtual_ns && timeout.generation == 17);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Run k is at the first tick not before first + k * period, whatever the two are. */
TEST(it_runs_on_its_grid_without_drift)
{
	static const int64_t rows[][2] = {
		{ HWT_MS(5), HWT_MS(10) },
		{ HWT_US(3300), HWT_US(2500) },
		{ 0, TICK_NS },
		{ HWT_US(999), TICK_NS + 1 },
		{ 1, HWT_US(1999) },
		{ HWT_MS(700), HWT_MS(600) },
		{ HWT_US(100500), 7654321 },
		{ HWT_MS(2), HWT_MS(512) },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hwt_timer *timer = virtual_timer();
		struct beat beat = { .runs = 0 };
		int64_t expected_ns = round_up(rows[i][0]);

		start(timer, &beat, rows[i][0], rows[i][1]);
		for (unsigned k = 0; k < 300; k++) {
			expected_ns = round_up(rows[i][0] + k * rows[i][1]);
			expected_ns = expected_ns > 0 ? expected_ns : TICK_NS;
			if (expected_ns == virtual_ns) /* 0 and a tick: both at the first one, merged or a tick later */
				continue;
			walk(timer, expected_ns - TICK_NS);
			CHECK_INT(beat.at_ns, <, expected_ns);
			CHECK_INT(advance(timer, expected_ns), >, expected_ns);
			CHECK_INT(beat.at_ns, ==, expected_ns);
		}
		CHECK_INT(beat.runs, >=, 299);
		CHECK_INT(beat.runs + beat.all_missed, ==, 300);
		CHECK_INT(stats_of(timer).runs, ==, beat.runs);
		CHECK_INT(stats_of(timer).accepted, ==, 1);
		CHECK_INT(stats_of(timer).completed, ==, 0);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* Each tick is a little late, as every wake-up is, and the deadlines come soon after a tick. */
TEST(a_period_of_one_tick_has_a_run_in_each)
{
	hwt_timer *timer = virtual_timer();
	struct beat beat = { .runs = 0 };

	start(timer, &beat, HWT_US(1), TICK_NS);
	for (unsigned k = 1; k <= 100; k++) {
		CHECK_INT(advance(timer, k * TICK_NS + HWT_US(50)), ==, (k + 1) * TICK_NS);
		CHECK_INT(beat.runs, ==, k);
		CHECK_INT(beat.missed, ==, 0);
	}
	CHECK_INT(advance(timer, 105 * TICK_NS + HWT_US(50)), ==, 106 * TICK_NS);
	CHECK_INT(beat.runs, ==, 101);
	CHECK_INT(beat.missed, ==, 4);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(what_is_due_meanwhile_is_merged)
{
	hwt_timer *timer = virtual_timer();
	struct beat beat = { .runs = 0 };

	start(timer, &beat, HWT_MS(10), HWT_MS(10));
	advance(timer, HWT_MS(10));
	CHECK_INT(beat.missed, ==, 0);
	CHECK_INT(advance(timer, HWT_MS(55)), ==, HWT_MS(60)); /* 20, 30, 40, 50 in one */
	CHECK_INT(beat.runs, ==, 2);
	CHECK_INT(beat.missed, ==, 3);
	CHECK_INT(stats_of(timer).merged_periods, ==, 3);
	CHECK_INT(advance(timer, HWT_MS(60)), ==, HWT_MS(70));
	CHECK_INT(beat.runs, ==, 3);
	CHECK_INT(beat.missed, ==, 0);
	CHECK_INT(advance(timer, HWT_MS(80) - 1), ==, HWT_MS(80)); /* late by less than a period */
	CHECK_INT(beat.missed, ==, 0);
	CHECK_INT(advance(timer, HWT_MS(90)), ==, HWT_MS(100)); /* 80, and 90 at this very moment */
	CHECK_INT(beat.missed, ==, 1);
	CHECK_INT(advance(timer, HWT_S(86400)), ==, HWT_S(86400) + HWT_MS(10));
	CHECK_INT(beat.runs, ==, 6);
	CHECK_INT(beat.missed, ==, 8640000 - 10);
	CHECK_INT(stats_of(timer).merged_periods, ==, beat.all_missed);
	CHECK_INT(stats_of(timer).runs, ==, 6);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

#define BEATS 100

/* Many at once, some of which are moved or end: the others know nothing of it. */
TEST(many_have_each_their_own_grid)
{
	struct prng prng = { test_seed("many_have_each") };
	static struct beat beats[BEATS];
	static int64_t first_ns[BEATS], period_ns[BEATS];
	hwt_timer *timer = virtual_timer();

	memset(beats, 0, sizeof(beats));
	for (unsigned i = 0; i < BEATS; i++) {
		first_ns[i] = prng_between(&prng, 1, HWT_MS(900));
		period_ns[i] = prng_between(&prng, TICK_NS, i % 2 == 0 ? HWT_MS(20) : HWT_MS(1500));
		start(timer, &beats[i], first_ns[i], period_ns[i]);
	}
	for (int64_t tick = 1; tick <= 2000; tick++) {
		advance(timer, tick * TICK_NS);
		for (unsigned i = 0; i < BEATS; i++) {
			int64_t since_ns = virtual_ns - first_ns[i];

			CHECK_INT(beats[i].runs, ==, since_ns < 0 ? 0 : since_ns / period_ns[i] + 1);
		}
	}
	CHECK_INT(hwt_pending_timeouts(timer), ==, BEATS);
	CHECK_INT(stats_of(timer).merged_periods, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(extreme_times_neither_overflow_nor_run_early)
{
	hwt_timer *timer = virtual_timer();
	struct beat once = { .runs = 0 }, never = { .runs = 0 }, past = { .runs = 0 }, oldest = { .runs = 0 };

	advance(timer, HWT_S(1));
	start(timer, &once, HWT_MS(5), INT64_MAX);
	start(timer, &never, INT64_MAX, HWT_MS(10));
	start(timer, &past, -HWT_MS(25), HWT_MS(10));
	CHECK_RC(hwt_reschedule_at(never.timeout, INT64_MAX), 0);
	advance(timer, virtual_ns + TICK_NS);
	CHECK_INT(past.runs, ==, 1); /* at the next tick; its grid is that of the first deadline */
	CHECK_INT(past.at_ns, ==, HWT_S(1) + TICK_NS);
	walk(timer, HWT_S(1) + HWT_MS(34));
	CHECK_INT(past.runs, ==, 4);
	CHECK_INT(past.at_ns, ==, HWT_S(1) + HWT_MS(25));
	CHECK_RC(hwt_cancel(past.timeout), 0);
	CHECK_INT(once.runs, ==, 1);
	start(timer, &oldest, INT64_MIN, INT64_MAX);
	advance(timer, HWT_S(1000000));
	CHECK_INT(once.runs, ==, 1);
	CHECK_INT(never.runs, ==, 0);
	CHECK_INT(oldest.runs, ==, 1);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 3);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(missed_is_of_the_running_task_only)
{
	hwt_timer *timer = virtual_timer();
	struct beat beat = { .runs = 0 };

	CHECK_INT(hwt_timeout_missed(HWT_TIMEOUT_NONE), ==, 0);
	start(timer, &beat, HWT_MS(10), HWT_MS(10));
	CHECK_INT(hwt_timeout_missed(beat.timeout), ==, 0);
	advance(timer, HWT_MS(65));
	CHECK_INT(beat.missed, ==, 5);
	CHECK_INT(hwt_timeout_missed(beat.timeout), ==, 0);
	CHECK_RC(hwt_cancel(beat.timeout), 0);
	CHECK_INT(hwt_timeout_missed(beat.timeout), ==, 0);
	advance(timer, HWT_MS(70));
	CHECK_INT(hwt_timeout_missed(beat.timeout), ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

struct asker {
	hwt_timeout other;
	unsigned runs;
};

/* A periodic one that is late, but in the task of another; and that other, which has no period. */
static void ask_task(hwt_timeout timeout, void *arg)
{
	struct asker *asker = arg;

	CHECK_INT(hwt_timeout_missed(timeout), ==, 0);
	CHECK_INT(hwt_timeout_missed(asker->other), ==, 0);
	asker->runs++;
}

TEST(missed_is_not_for_other_tasks)
{
	hwt_timer *timer = virtual_timer();
	struct beat beat = { .runs = 0 };
	struct asker asker = { .runs = 0 };

	start(timer, &beat, HWT_MS(10), HWT_MS(10));
	asker.other = beat.timeout;
	CHECK_RC(hwt_new_timeout(timer, ask_task, &asker, HWT_MS(10), NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, ask_task, &asker, HWT_MS(20), NULL), 0);
	advance(timer, HWT_MS(65));
	CHECK_INT(asker.runs, ==, 2);
	CHECK_INT(beat.missed, ==, 5);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(cancelled_from_outside_it_never_runs_again)
{
	for (int ms = 0; ms < 30; ms++) { /* on its way, before the first run, between runs */
		hwt_timer *timer = virtual_timer();
		struct beat beat = { .runs = 0 };
		unsigned runs;
		hwt_stats stats;

		start(timer, &beat, HWT_MS(5), HWT_MS(10));
		walk(timer, HWT_MS(ms));
		runs = beat.runs;
		CHECK_INT(runs, ==, (ms + 5) / 10);
		CHECK_INT(hwt_timeout_state(beat.timeout), ==, HWT_PENDING);
		CHECK_RC(hwt_cancel(beat.timeout), 0);
		CHECK_INT(hwt_timeout_state(beat.timeout), ==, HWT_CANCELLED);
		CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
		CHECK_RC(hwt_cancel_sync(beat.timeout), ENOENT);
		CHECK_RC(hwt_reschedule(beat.timeout, 0), ENOENT);
		walk(timer, HWT_MS(100));
		CHECK_INT(beat.runs, ==, runs);
		stats = stats_of(timer);
		CHECK_INT(stats.cancelled, ==, 1);
		CHECK_INT(stats.runs, ==, runs);
		CHECK_INT(stats.completed | stats.pending | stats.running, ==, 0);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

TEST(cancelled_in_its_own_task_it_never_runs_again)
{
	for (unsigned run = 1; run <= 3; run++) {
		hwt_timer *timer = virtual_timer();
		struct beat beat = { .cancel_at = run };

		start(timer, &beat, HWT_MS(5), HWT_MS(10));
		walk(timer, HWT_MS(100));
		CHECK_INT(beat.runs, ==, run);
		CHECK_INT(hwt_timeout_state(beat.timeout), ==, HWT_CANCELLED);
		CHECK_INT(stats_of(timer).cancelled, ==, 1);
		CHECK_INT(stats_of(timer).completed, ==, 0);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

TEST(a_move_moves_the_grid)
{
	hwt_timer *timer = virtual_timer();
	struct beat beat = { .move_at = 5, .move_ns = HWT_MS(3) };

	start(timer, &beat, HWT_MS(10), HWT_MS(10));
	walk(timer, HWT_MS(21));
	CHECK_INT(beat.runs, ==, 2);
	CHECK_RC(hwt_reschedule_at(beat.timeout, HWT_MS(37)), 0); /* later than 30 */
	walk(timer, HWT_MS(36));
	CHECK_INT(beat.runs, ==, 2);
	walk(timer, HWT_MS(38));
	CHECK_INT(beat.runs, ==, 3);
	CHECK_RC(hwt_reschedule_at(beat.timeout, HWT_MS(41)), 0); /* earlier than 47 */
	walk(timer, HWT_MS(41));
	CHECK_INT(beat.runs, ==, 4);
	walk(timer, HWT_MS(50));
	CHECK_INT(beat.runs, ==, 4);
	walk(timer, HWT_MS(51));
	CHECK_INT(beat.runs, ==, 5); /* that one says 54 */
	walk(timer, HWT_MS(53));
	CHECK_INT(beat.runs, ==, 5);
	walk(timer, HWT_MS(54));
	CHECK_INT(beat.runs, ==, 6);
	walk(timer, HWT_MS(63));
	CHECK_INT(beat.runs, ==, 6);
	walk(timer, HWT_MS(64));
	CHECK_INT(beat.runs, ==, 7);
	CHECK_INT(beat.all_missed, ==, 0);
	CHECK_INT(stats_of(timer).rescheduled, ==, 3);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(it_is_one_pending_timeout_all_the_time)
{
	hwt_timer *timer = limited_virtual_timer(1);
	struct beat beat = { .move_at = 3, .move_ns = HWT_MS(7) };

	start(timer, &beat, HWT_MS(5), HWT_MS(5));
	for (int ms = 1; ms < 100; ms++) {
		CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
		CHECK_INT(stats_of(timer).pending, ==, 1);
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, 0, NULL), ENOBUFS);
		CHECK_RC(hwt_new_periodic(timer, count_task, NULL, 0, TICK_NS, NULL), ENOBUFS);
		walk(timer, HWT_MS(ms));
	}
	CHECK_INT(beat.runs, ==, 19); /* 5 10 15 22 27 .. 97 */
	CHECK_RC(hwt_cancel(beat.timeout), 0);
	CHECK_RC(hwt_new_periodic(timer, count_task, NULL, FAR_NS, TICK_NS, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, 0, NULL), ENOBUFS);
	CHECK_INT(stats_of(timer).refused_limit, ==, 2 * 99 + 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(its_memory_is_used_again)
{
	hwt_timer *timer = virtual_timer();
	uint64_t records = 0;

	for (unsigned i = 0; i < 3000; i++) {
		struct beat beat = { .cancel_at = i % 3 == 0 ? 2 : 0 };

		start(timer, &beat, 0, HWT_MS(1));
		walk(timer, virtual_ns + HWT_MS(i % 4));
		if (i % 3 != 0)
			CHECK_RC(hwt_cancel(beat.timeout), 0);
		else
			walk(timer, virtual_ns + HWT_MS(3));
		walk(timer, virtual_ns + TICK_NS);
		CHECK_INT(hwt_timeout_state(beat.timeout), ==, HWT_CANCELLED);
		if (i == 500)
			records = stats_of(timer).records;
	}
	CHECK_INT(stats_of(timer).records, ==, records);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_stop_hands_it_out_once_with_its_next_deadline)
{
	for (int ms = 0; ms < 30; ms++) {
		hwt_timer *timer = virtual_timer();
		hwt_unprocessed unprocessed = { .deadline_ns = 0 };
		struct beat beat = { .runs = 0 };
		size_t said = 17;

		start(timer, &beat, HWT_MS(5), HWT_MS(10));
		walk(timer, HWT_MS(ms));
		CHECK_RC(hwt_timer_stop(timer, &said), 0);
		CHECK_INT(said, ==, 1);
		CHECK(hwt_timer_next_unprocessed(timer, &unprocessed));
		CHECK(same_handle(unprocessed.timeout, beat.timeout));
		CHECK(unprocessed.task == beat_task && unprocessed.arg == &beat);
		CHECK_INT(unprocessed.deadline_ns, ==, HWT_MS(5 + (ms + 5) / 10 * 10));
		CHECK(!hwt_timer_next_unprocessed(timer, &unprocessed));
		CHECK_INT(hwt_timeout_state(beat.timeout), ==, HWT_CANCELLED);
		CHECK_INT(stats_of(timer).returned, ==, 1);
		CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* With an executor, on our clock: jobs are kept until the test runs them, or refused. */

struct parked {
	void (*run)(void *job);
	void *job;
	unsigned waiting, handed;
	bool refuses;
};

static int park(void *ctx, void (*run)(void *job), void *job)
{
	struct parked *parked = ctx;

	if (parked->refuses)
		return EAGAIN;
	CHECK_INT(parked->waiting, ==, 0); /* never a second run at once */
	parked->run = run;
	parked->job = job;
	parked->waiting = 1;
	parked->handed++;
	return 0;
}

static void run_parked(struct parked *parked)
{
	CHECK_INT(parked->waiting, ==, 1);
	parked->waiting = 0;
	parked->run(parked->job);
}

static hwt_timer *begin_parked(struct parked *parked)
{
	hwt_executor executor = { park, parked };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = TICK_NS;
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	config.executor = &executor;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	advance(timer, 0);
	return timer;
}

TEST(a_task_that_waits_in_an_executor_merges_and_is_there_once)
{
	struct parked parked = { .waiting = 0 };
	hwt_timer *timer = begin_parked(&parked);
	struct beat beat = { .cancel_at = 4 };

	start(timer, &beat, HWT_MS(10), HWT_MS(10));
	walk(timer, HWT_MS(10));
	CHECK_INT(hwt_timeout_state(beat.timeout), ==, HWT_PENDING);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
	walk(timer, HWT_MS(47));
	CHECK_INT(hwt_timeout_missed(beat.timeout), ==, 0);
	CHECK_INT(parked.handed, ==, 1);
	run_parked(&parked); /* 10, 20, 30, 40 in one */
	CHECK_INT(beat.missed, ==, 3);
	CHECK_INT(hwt_timeout_state(beat.timeout), ==, HWT_PENDING);
	walk(timer, HWT_MS(49));
	CHECK_INT(parked.waiting, ==, 0);
	for (int64_t ms = 50; ms <= 70; ms += 10) {
		walk(timer, HWT_MS(ms));
		run_parked(&parked); /* the last one cancels itself */
		CHECK_INT(beat.missed, ==, 0);
	}
	CHECK_INT(hwt_timeout_state(beat.timeout), ==, HWT_CANCELLED);
	walk(timer, HWT_MS(200));
	CHECK_INT(parked.handed, ==, 4);
	CHECK_INT(stats_of(timer).merged_periods, ==, 3);
	CHECK_INT(stats_of(timer).cancelled, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(cancelled_while_it_waits_in_the_executor_it_does_not_run)
{
	struct parked parked = { .waiting = 0 };
	hwt_timer *timer = begin_parked(&parked);
	struct beat beat = { .runs = 0 };

	start(timer, &beat, HWT_MS(10), HWT_MS(10));
	walk(timer, HWT_MS(15));
	CHECK_RC(hwt_cancel(beat.timeout), 0);
	CHECK_RC(hwt_cancel(beat.timeout), ENOENT);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_INT(hwt_timeout_state(beat.timeout), ==, HWT_CANCELLED);
	walk(timer, HWT_MS(40));
	run_parked(&parked);
	walk(timer, HWT_MS(80));
	CHECK_INT(beat.runs, ==, 0);
	CHECK_INT(parked.handed, ==, 1);
	CHECK_INT(stats_of(timer).cancelled, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(what_the_executor_refuses_runs_on_the_worker)
{
	struct parked parked = { .refuses = true };
	hwt_timer *timer = begin_parked(&parked);
	struct beat beat = { .cancel_at = 9 };

	start(timer, &beat, HWT_MS(10), HWT_MS(10));
	walk(timer, HWT_MS(55));
	CHECK_INT(beat.runs, ==, 5);
	CHECK_INT(stats_of(timer).executor_refusals, ==, 5);
	parked.refuses = false;
	walk(timer, HWT_MS(85));
	CHECK_INT(beat.runs, ==, 5);
	parked.refuses = true;
	run_parked(&parked);
	CHECK_INT(beat.runs, ==, 6);
	CHECK_INT(beat.missed, ==, 2); /* 60, 70, 80 */
	walk(timer, HWT_MS(95));
	CHECK_INT(beat.runs, ==, 7);
	CHECK_INT(beat.missed, ==, 0);
	walk(timer, HWT_MS(300));
	CHECK_INT(beat.runs, ==, 9);
	CHECK_INT(hwt_timeout_state(beat.timeout), ==, HWT_CANCELLED);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* With a worker, and a thread for each job. */

struct gate {
	atomic_uint entered, open, runs, inside;
	unsigned plain; /* ThreadSanitizer watches */
	int64_t sleep_ns;
};

static void gate_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;

	(void)timeout;
	CHECK_INT(atomic_fetch_add(&gate->inside, 1), ==, 0);
	gate->plain++;
	atomic_fetch_add(&gate->entered, 1);
	REQUIRE(wait_count(&gate->open, 1));
	if (gate->sleep_ns > 0)
		sleep_ns(gate->sleep_ns);
	gate->plain++;
	atomic_fetch_add(&gate->runs, 1);
	atomic_fetch_sub(&gate->inside, 1);
}

TEST(cancelled_by_another_thread_the_run_in_progress_comes_to_its_end)
{
	for (int with_executor = 0; with_executor < 2; with_executor++) {
		hwt_timer *timer = spawn_timer(TICK_NS, with_executor != 0);
		struct gate gate = { .sleep_ns = 0 };
		hwt_timeout timeout;

		CHECK_RC(hwt_new_periodic(timer, gate_task, &gate, 0, TICK_NS, &timeout), 0);
		REQUIRE(wait_count(&gate.entered, 1));
		CHECK_RC(hwt_reschedule(timeout, 0), EBUSY);
		CHECK_RC(hwt_cancel(timeout), 0);
		CHECK_RC(hwt_cancel(timeout), ENOENT);
		CHECK_RC(hwt_reschedule(timeout, 0), ENOENT);
		CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
		CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
		atomic_store(&gate.open, 1);
		REQUIRE(wait_state(timeout, HWT_CANCELLED));
		CHECK_INT(gate.runs, ==, 1);
		wait_ticks(timer, 3, TICK_NS);
		CHECK_INT(gate.entered, ==, 1);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* Opens the gate some time after the other thread has begun to cancel, or to stop. */
struct opener {
	struct gate *gate;
	hwt_timer *timer;
	int64_t after_ms;
};

static void *open_cancelled(void *arg)
{
	struct opener *opener = arg;

	REQUIRE(wait_none_pending(opener->timer));
	sleep_ms(opener->after_ms);
	atomic_store(&opener->gate->open, 1);
	return NULL;
}

static void *open_stopped(void *arg)
{
	struct opener *opener = arg;
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;

	while (hwt_timer_start(opener->timer) != ECANCELED) {
		REQUIRE(hwt_now() < give_up_ns);
		sleep_ns(HWT_US(200));
	}
	sleep_ms(opener->after_ms);
	atomic_store(&opener->gate->open, 1);
	return NULL;
}

TEST(cancel_sync_waits_for_the_run_in_progress)
{
	for (int with_executor = 0; with_executor < 2; with_executor++) {
		hwt_timer *timer = spawn_timer(TICK_NS, with_executor != 0);
		struct gate gate = { .sleep_ns = HWT_MS(3) };
		struct opener opener = { &gate, timer, 10 };
		hwt_timeout timeout;
		struct crew crew;

		CHECK_RC(hwt_new_periodic(timer, gate_task, &gate, 0, TICK_NS, &timeout), 0);
		REQUIRE(wait_count(&gate.entered, 1));
		crew_start(&crew, 1, open_cancelled, &opener, 0);
		CHECK_RC(hwt_cancel_sync(timeout), 0);
		CHECK_INT(gate.plain, ==, 2);
		CHECK_INT(hwt_timeout_state(timeout), ==, HWT_CANCELLED);
		crew_join(&crew);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* At any moment: after it the task does not run, and never will. */
TEST(cancel_sync_is_the_end_of_it)
{
	for (unsigned round = 0; round < scaled(100); round++) {
		hwt_timer *timer = spawn_timer(TICK_NS, round % 2 != 0);
		struct gate gate = { .open = 1 };
		hwt_timeout timeout;
		unsigned runs;

		CHECK_RC(hwt_new_periodic(timer, gate_task, &gate, 0, TICK_NS, &timeout), 0);
		REQUIRE(wait_count(&gate.entered, 1 + round % 3));
		CHECK_RC(hwt_cancel_sync(timeout), 0);
		runs = gate.runs;
		CHECK_INT(gate.plain, ==, 2 * runs);
		wait_ticks(timer, 2, TICK_NS);
		CHECK_INT(gate.entered, ==, runs);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* Returns how often the task ran: more than once if the stop took longer than after_ms to reach the worker. */
static unsigned stop_in_a_run(bool with_executor, int64_t after_ms)
{
	hwt_timer *timer = spawn_timer(TICK_NS, with_executor);
	struct gate gate = { .sleep_ns = 0 };
	struct opener opener = { &gate, timer, after_ms };
	hwt_unprocessed unprocessed = { .arg = NULL };
	struct crew crew;
	size_t said = 17;
	unsigned runs;

	CHECK_RC(hwt_new_periodic(timer, gate_task, &gate, 0, TICK_NS, NULL), 0);
	REQUIRE(wait_count(&gate.entered, 1));
	crew_start(&crew, 1, open_stopped, &opener, 0);
	CHECK_RC(hwt_timer_stop(timer, &said), 0);
	runs = gate.runs;
	CHECK_INT(runs, >=, 1);
	CHECK_INT(gate.entered, ==, runs);
	CHECK_INT(gate.plain, ==, 2 * runs);
	CHECK_INT(said, ==, 1);
	CHECK(hwt_timer_next_unprocessed(timer, &unprocessed) && unprocessed.arg == &gate);
	CHECK(!hwt_timer_next_unprocessed(timer, &unprocessed));
	crew_join(&crew);
	CHECK_INT(gate.entered, ==, runs);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	return runs;
}

TEST(a_stop_waits_for_the_run_in_progress_and_hands_it_out)
{
	for (int with_executor = 0; with_executor < 2; with_executor++) {
		int64_t after_ms = 10;

		while (stop_in_a_run(with_executor != 0, after_ms) > 1)
			REQUIRE(HWT_MS(after_ms *= 2) < PATIENCE_NS / 10);
	}
}

/* Each run takes several periods: never two at once, and every period is run or merged. */
TEST(slow_runs_are_merged_by_the_clock)
{
	for (int with_executor = 0; with_executor < 2; with_executor++) {
		hwt_timer *timer = spawn_timer(TICK_NS, with_executor != 0);
		struct gate gate = { .open = 1, .sleep_ns = HWT_MS(5) };
		int64_t began_ns, periods;
		hwt_timeout timeout;
		hwt_stats stats;

		CHECK_RC(hwt_timer_start(timer), 0);
		began_ns = hwt_now();
		CHECK_RC(hwt_new_periodic(timer, gate_task, &gate, 0, TICK_NS, &timeout), 0);
		REQUIRE(wait_count(&gate.runs, 8));
		CHECK_RC(hwt_cancel_sync(timeout), 0);
		periods = (hwt_now() - began_ns) / TICK_NS + 1;
		stats = stats_of(timer);
		CHECK_INT(stats.runs, ==, gate.runs);
		CHECK_INT(stats.merged_periods, >=, (stats.runs - 1) * 4);
		CHECK_INT(stats.merged_periods + stats.runs, <=, periods);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

TEST_MAIN()
