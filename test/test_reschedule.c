/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hwt_reschedule: another deadline for a timeout that is pending, and for one in its own task.  Most of it on a clock
 * of the test's own, where the tick at which a task runs is exact.
 */
#include "spawn.h"
#include "virtual.h"

#define TICK_NS HWT_MS(1)
#define FAR_NS HWT_S(3600)

struct shot {
	unsigned runs;
	int64_t at_ns;
	hwt_timeout timeout;
};

static void shot_task(hwt_timeout timeout, void *arg)
{
	struct shot *shot = arg;

	CHECK(same_handle(timeout, shot->timeout));
	shot->runs++;
	shot->at_ns = virtual_ns;
}

/* The first tick at or after the deadline, but none that has been. */
static int64_t tick_for(int64_t deadline_ns)
{
	int64_t tick = deadline_ns > 0 ? (deadline_ns - 1) / TICK_NS + 1 : 0, next = virtual_ns / TICK_NS + 1;

	return tick > next ? tick : next;
}

static void move_and_run(int64_t first_ns, int64_t second_ns, bool taken_in, bool by_delay)
{
	hwt_timer *timer = virtual_timer();
	struct shot shot = { .runs = 0 };
	int64_t at_ns;

	CHECK_RC(hwt_new_timeout_at(timer, shot_task, &shot, first_ns, &shot.timeout), 0);
	if (taken_in)
		advance(timer, TICK_NS);
	at_ns = tick_for(second_ns) * TICK_NS;
	if (by_delay)
		CHECK_RC(hwt_reschedule(shot.timeout, second_ns - virtual_ns), 0);
	else
		CHECK_RC(hwt_reschedule_at(shot.timeout, second_ns), 0);
	CHECK_INT(hwt_timeout_state(shot.timeout), ==, HWT_PENDING);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
	while (virtual_ns + TICK_NS < at_ns)
		CHECK_INT(advance(timer, virtual_ns + TICK_NS), <=, at_ns); /* it may look for nothing, but not late */
	CHECK_INT(shot.runs, ==, 0);
	advance(timer, at_ns);
	CHECK_INT(shot.runs, ==, 1);
	CHECK_INT(hwt_timeout_state(shot.timeout), ==, HWT_EXPIRED);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	walk(timer, first_ns + 2 * TICK_NS);
	CHECK_INT(advance(timer, virtual_ns + FAR_NS), ==, INT64_MAX);
	CHECK_INT(shot.runs, ==, 1);
	CHECK_INT(stats_of(timer).rescheduled, ==, 1);
	CHECK_INT(stats_of(timer).completed, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Later, earlier, the same, within a tick, rounds of the wheel away, the past; taken in by the worker before or not. */
TEST(it_runs_at_the_new_deadline_and_not_at_the_old_one)
{
	static const int64_t rows[][2] = {
		{ HWT_MS(10), HWT_MS(20) },
		{ HWT_MS(50), HWT_MS(20) },
		{ HWT_MS(10), HWT_MS(10) },
		{ HWT_MS(10), HWT_MS(10) + 1 },
		{ HWT_MS(10) + 1, HWT_MS(10) },
		{ HWT_MS(10) + 1, HWT_MS(10) + 2 },
		{ HWT_MS(600), HWT_MS(1300) },
		{ HWT_MS(1300), HWT_MS(600) },
		{ HWT_MS(10), HWT_MS(10 + 512) },
		{ HWT_MS(10 + 512), HWT_MS(10) },
		{ HWT_MS(50), 0 },
		{ HWT_MS(50), -HWT_S(5) },
		{ HWT_MS(3), HWT_MS(2) },
		{ HWT_MS(2), HWT_MS(3) },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (unsigned how = 0; how < 4; how++)
			move_and_run(rows[i][0], rows[i][1], how % 2 != 0, how / 2 != 0);
}

/* One pass over the old deadline and not the new one, then one over both. */
TEST(a_leap_over_the_old_deadline_does_not_run_it)
{
	hwt_timer *timer = virtual_timer();
	struct shot shot = { .runs = 0 };

	CHECK_RC(hwt_new_timeout(timer, shot_task, &shot, HWT_MS(10), &shot.timeout), 0);
	advance(timer, HWT_MS(1));
	CHECK_RC(hwt_reschedule_at(shot.timeout, HWT_S(100)), 0);
	CHECK_INT(advance(timer, HWT_S(99)), ==, HWT_S(100));
	CHECK_INT(shot.runs, ==, 0);
	CHECK_RC(hwt_reschedule(shot.timeout, HWT_S(3)), 0);
	CHECK_INT(advance(timer, HWT_S(102) - 1), ==, HWT_S(102));
	CHECK_INT(shot.runs, ==, 0);
	CHECK_INT(advance(timer, HWT_S(1000)), ==, INT64_MAX);
	CHECK_INT(shot.runs, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(back_and_forth_the_last_call_counts)
{
	static const int64_t ways[][4] = {
		{ 50, 40, 30, 20 }, { 20, 80, 30, 60 }, { 50, 20, 60, 10 },
		{ 10, 50, 50, 90 }, { 50, 20, 20, 90 }, { 50, 9, 90, 40 },
	};

	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		for (unsigned between = 0; between < 16; between++) {
			hwt_timer *timer = virtual_timer();
			struct shot shot = { .runs = 0 };

			CHECK_RC(hwt_new_timeout_at(timer, shot_task, &shot, HWT_MS(ways[i][0]), &shot.timeout), 0);
			for (unsigned j = 1; j < 4; j++) {
				if ((between >> j & 1) != 0)
					advance(timer, virtual_ns + TICK_NS);
				CHECK_RC(hwt_reschedule_at(shot.timeout, HWT_MS(ways[i][j])), 0);
			}
			if ((between & 1) != 0)
				advance(timer, virtual_ns + TICK_NS);
			walk(timer, HWT_MS(ways[i][3]) - TICK_NS);
			CHECK_INT(shot.runs, ==, 0);
			walk(timer, HWT_MS(200));
			CHECK_INT(shot.runs, ==, 1);
			CHECK_INT(shot.at_ns, ==, HWT_MS(ways[i][3]));
			CHECK_INT(stats_of(timer).rescheduled, ==, 3);
			CHECK_RC(hwt_timer_destroy(timer), 0);
		}
	}
}

/* Many timeouts that are armed, moved and cancelled at random: each runs at the very tick of its last deadline. */

#define MODELLED 250
#define STEPS 4000

struct modelled {
	hwt_timeout timeout;
	int64_t tick; /* at which it has to run */
	bool pending;
};

static unsigned modelled_runs;

static void modelled_task(hwt_timeout timeout, void *arg)
{
	struct modelled *it = arg;

	CHECK(it->pending && same_handle(timeout, it->timeout));
	CHECK_INT(virtual_ns, ==, it->tick * TICK_NS);
	it->pending = false;
	modelled_runs++;
}

/* Some never come: in the wheel they lie among the others. */
static int64_t random_deadline(struct prng *prng)
{
	uint64_t kind = prng_below(prng, 32);

	if (kind < 4)
		return INT64_MAX - prng_between(prng, 0, HWT_MS(100));
	if (kind == 4)
		return INT64_MIN;
	return virtual_ns + prng_between(prng, -HWT_MS(3), kind < 20 ? HWT_MS(1500) : HWT_MS(40));
}

static void change_one(hwt_timer *timer, struct modelled *it, struct prng *prng)
{
	int64_t deadline_ns = random_deadline(prng);

	if (it->pending && prng_below(prng, 10) == 0) {
		CHECK_RC(hwt_cancel(it->timeout), 0);
		it->pending = false;
		return;
	}
	if (it->pending)
		CHECK_RC(hwt_reschedule_at(it->timeout, deadline_ns), 0);
	else
		CHECK_RC(hwt_new_timeout_at(timer, modelled_task, it, deadline_ns, &it->timeout), 0);
	it->pending = true;
	it->tick = tick_for(deadline_ns);
}

TEST(each_runs_at_the_tick_of_its_last_deadline)
{
	struct prng prng = { test_seed("each_runs_at_the_tick") };
	static struct modelled all[MODELLED];
	hwt_timer *timer = virtual_timer();
	unsigned pending = 0;

	memset(all, 0, sizeof(all));
	modelled_runs = 0;
	for (unsigned step = 0; step < scaled(STEPS); step++) {
		for (uint64_t n = prng_below(&prng, 6); n > 0; n--)
			change_one(timer, &all[prng_below(&prng, MODELLED)], &prng);
		advance(timer, virtual_ns + TICK_NS);
		pending = 0;
		for (unsigned i = 0; i < MODELLED; i++) {
			CHECK(!all[i].pending || all[i].tick > virtual_ns / TICK_NS);
			pending += all[i].pending;
		}
		CHECK_INT(hwt_pending_timeouts(timer), ==, pending);
	}
	CHECK_INT(stats_of(timer).completed, ==, modelled_runs);
	CHECK_INT(stats_of(timer).pending, ==, pending);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * One that never comes shares the bucket of its old tick; the new tick lies in a later round of the wheel, at a bucket
 * before that one.
 */
TEST(it_is_in_time_beside_one_that_never_comes)
{
	int64_t bucket = ((INT64_MAX - 1) / TICK_NS + 1) % 512;

	for (int64_t rounds = 1; rounds <= 3; rounds++) {
		for (int64_t back = 0; back < bucket; back += 7) {
			hwt_timer *timer = virtual_timer();
			struct shot shot = { .runs = 0 }, never = { .runs = 0 };
			int64_t new_ns = (rounds * 512 + bucket - back) * TICK_NS;

			CHECK_RC(hwt_new_timeout_at(timer, shot_task, &never, INT64_MAX, &never.timeout), 0);
			CHECK_RC(hwt_new_timeout_at(timer, shot_task, &shot, bucket * TICK_NS, &shot.timeout), 0);
			advance(timer, TICK_NS);
			CHECK_RC(hwt_reschedule_at(shot.timeout, new_ns), 0);
			advance(timer, bucket * TICK_NS);
			CHECK_INT(advance(timer, new_ns - TICK_NS), ==, new_ns);
			CHECK_INT(shot.runs, ==, 0);
			advance(timer, new_ns);
			CHECK_INT(shot.runs, ==, 1);
			CHECK_INT(never.runs, ==, 0);
			CHECK_RC(hwt_timer_destroy(timer), 0);
		}
	}
}

TEST(what_has_ended_is_not_moved)
{
	hwt_timer *timer = virtual_timer();
	struct shot shot = { .runs = 0 };
	hwt_timeout ended, cancelled, last;

	CHECK_RC(hwt_reschedule(HWT_TIMEOUT_NONE, 0), ENOENT);
	CHECK_RC(hwt_reschedule_at(HWT_TIMEOUT_NONE, 0), ENOENT);
	CHECK_RC(hwt_new_timeout(timer, shot_task, &shot, 0, &shot.timeout), 0);
	ended = shot.timeout;
	advance(timer, TICK_NS);
	CHECK_RC(hwt_reschedule(ended, HWT_MS(5)), ENOENT);
	CHECK_INT(hwt_timeout_state(ended), ==, HWT_EXPIRED);
	CHECK_RC(hwt_new_timeout(timer, shot_task, &shot, HWT_MS(5), &cancelled), 0);
	CHECK_RC(hwt_cancel(cancelled), 0);
	CHECK_RC(hwt_reschedule_at(cancelled, HWT_MS(6)), ENOENT);
	/* Their memory serves others: those stay where they are. */
	for (int i = 0; i < 300; i++) {
		CHECK_RC(hwt_new_timeout(timer, shot_task, &shot, FAR_NS, &last), 0);
		advance(timer, virtual_ns + TICK_NS);
		CHECK_RC(hwt_reschedule(ended, 0), ENOENT);
		CHECK_RC(hwt_reschedule_at(cancelled, 0), ENOENT);
		if (i < 299)
			CHECK_RC(hwt_cancel(last), 0);
	}
	CHECK_INT(hwt_timeout_state(ended), ==, HWT_RETIRED);
	advance(timer, virtual_ns + HWT_S(1));
	CHECK_INT(shot.runs, ==, 1);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_reschedule(last, 0), ENOENT);
	CHECK_RC(hwt_reschedule_at(last, FAR_NS), ENOENT);
	CHECK_INT(stats_of(timer).rescheduled, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* G5, for all ways of being moved before a cancel. */
TEST(moved_and_cancelled_ones_give_their_memory_back)
{
	hwt_timer *timer = virtual_timer();
	uint64_t records = 0;
	hwt_timeout timeout;

	for (unsigned i = 0; i < 20000; i++) {
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, FAR_NS, &timeout), 0);
		if (i % 2 != 0)
			advance(timer, virtual_ns + TICK_NS);
		if (i % 3 != 0)
			CHECK_RC(hwt_reschedule(timeout, FAR_NS / 2), 0);
		if (i % 7 == 0)
			advance(timer, virtual_ns + TICK_NS);
		if (i % 5 == 0)
			CHECK_RC(hwt_reschedule(timeout, FAR_NS * 2), 0);
		if (i % 11 == 0)
			CHECK_RC(hwt_reschedule(timeout, FAR_NS / 4), 0);
		CHECK_RC(hwt_cancel(timeout), 0);
		CHECK_RC(hwt_cancel(timeout), ENOENT);
		if (i == 1000)
			records = stats_of(timer).records;
	}
	CHECK_INT(stats_of(timer).records, ==, records);
	CHECK_INT(stats_of(timer).cancelled, ==, 20000);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

#define KEPT 100

/* Connections with a packet now and then: nothing is queued, and each is closed when it falls silent. */
TEST(putting_off_makes_no_queue_operation)
{
	hwt_timer *timer = virtual_timer();
	struct shot shots[KEPT];
	hwt_stats before, after;
	int64_t last_ns[KEPT];

	memset(shots, 0, sizeof(shots));
	for (unsigned i = 0; i < KEPT; i++)
		CHECK_RC(hwt_new_timeout(timer, shot_task, &shots[i], HWT_MS(100), &shots[i].timeout), 0);
	advance(timer, TICK_NS);
	before = stats_of(timer);
	for (unsigned i = 0; i < 100000; i++) {
		last_ns[i % KEPT] = virtual_ns + HWT_MS(100);
		CHECK_RC(hwt_reschedule(shots[i % KEPT].timeout, HWT_MS(100)), 0);
		if (i % 20 == 19)
			advance(timer, virtual_ns + TICK_NS);
	}
	after = stats_of(timer);
	CHECK_INT(after.transfers, ==, before.transfers);
	CHECK_INT(after.records, ==, before.records);
	CHECK_INT(after.rescheduled, ==, 100000);
	CHECK_INT(after.runs, ==, 0);
	walk(timer, virtual_ns + HWT_MS(200));
	for (unsigned i = 0; i < KEPT; i++) {
		CHECK_INT(shots[i].runs, ==, 1);
		CHECK_INT(shots[i].at_ns, ==, last_ns[i]);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* However often it is moved: one that is due earlier is in a queue once. */
TEST(an_earlier_one_is_queued_once)
{
	hwt_timer *timer = virtual_timer();
	struct shot shot = { .runs = 0 };

	CHECK_RC(hwt_new_timeout(timer, shot_task, &shot, FAR_NS, &shot.timeout), 0);
	for (int i = 1; i <= 1000; i++) /* still on its way: not a second time */
		CHECK_RC(hwt_reschedule(shot.timeout, FAR_NS - i), 0);
	advance(timer, TICK_NS);
	CHECK_INT(stats_of(timer).transfers, ==, 1);
	for (int i = 1; i <= 1000; i++)
		CHECK_RC(hwt_reschedule(shot.timeout, FAR_NS / 2 + (i % 2 == 0 ? i : -i)), 0);
	advance(timer, 2 * TICK_NS);
	CHECK_INT(stats_of(timer).transfers, ==, 2);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(times_beyond_all_bounds)
{
	hwt_timer *timer = virtual_timer();
	struct shot shot = { .runs = 0 };

	advance(timer, HWT_S(1));
	CHECK_RC(hwt_new_timeout(timer, shot_task, &shot, HWT_MS(10), &shot.timeout), 0);
	CHECK_RC(hwt_reschedule(shot.timeout, INT64_MAX), 0);
	walk(timer, HWT_S(2));
	CHECK_RC(hwt_reschedule_at(shot.timeout, INT64_MAX), 0);
	advance(timer, HWT_S(1000000));
	CHECK_INT(shot.runs, ==, 0);
	CHECK_RC(hwt_reschedule_at(shot.timeout, INT64_MIN), 0);
	advance(timer, virtual_ns + TICK_NS);
	CHECK_INT(shot.runs, ==, 1);
	CHECK_RC(hwt_new_timeout(timer, shot_task, &shot, INT64_MAX, &shot.timeout), 0);
	advance(timer, virtual_ns + TICK_NS);
	CHECK_RC(hwt_reschedule(shot.timeout, INT64_MIN), 0);
	advance(timer, virtual_ns + TICK_NS);
	CHECK_INT(shot.runs, ==, 2);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* A stop hands it out with the deadline that it has now. */
TEST(a_stop_knows_the_new_deadline)
{
	static const int64_t new_ns[] = { HWT_MS(500), HWT_MS(1500), HWT_MS(1000), INT64_MAX };

	for (unsigned i = 0; i < 4; i++) {
		for (unsigned when = 0; when < 4; when++) { /* bit 0: taken in before, bit 1: after */
			hwt_timer *timer = virtual_timer();
			hwt_unprocessed unprocessed = { .deadline_ns = 0 };
			struct shot shot = { .runs = 0 };
			size_t said = 0;

			CHECK_RC(hwt_new_timeout(timer, shot_task, &shot, HWT_MS(1000), &shot.timeout), 0);
			if ((when & 1) != 0)
				advance(timer, TICK_NS);
			CHECK_RC(hwt_reschedule_at(shot.timeout, new_ns[i]), 0);
			if ((when & 2) != 0)
				advance(timer, 2 * TICK_NS);
			CHECK_RC(hwt_timer_stop(timer, &said), 0);
			CHECK_INT(said, ==, 1);
			CHECK(hwt_timer_next_unprocessed(timer, &unprocessed));
			CHECK(same_handle(unprocessed.timeout, shot.timeout) && unprocessed.arg == &shot);
			CHECK_INT(unprocessed.deadline_ns, ==, new_ns[i]);
			CHECK(!hwt_timer_next_unprocessed(timer, &unprocessed));
			CHECK_INT(hwt_timeout_state(shot.timeout), ==, HWT_CANCELLED);
			CHECK_INT(stats_of(timer).returned, ==, 1);
			CHECK_RC(hwt_timer_destroy(timer), 0);
		}
	}
}

/*
 * In its own task
 */

enum then {
	THEN_NOTHING,
	THEN_CANCEL,
	THEN_CANCEL_SYNC,
};

struct again {
	hwt_timeout timeout;
	unsigned runs, left;
	int64_t at_ns[8];
	int64_t delays_ns[3]; /* one call for each that is not 0 */
	enum then then;
};

static void again_task(hwt_timeout timeout, void *arg)
{
	struct again *again = arg;
	hwt_timer *timer = hwt_timeout_timer(timeout);

	CHECK(same_handle(timeout, again->timeout));
	again->at_ns[again->runs++ % 8] = virtual_ns;
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_INT(stats_of(timer).running, ==, 1);
	if (again->left == 0)
		return;
	again->left--;
	for (int i = 0; i < 3 && again->delays_ns[i] != 0; i++) {
		CHECK_RC(hwt_reschedule(timeout, again->delays_ns[i]), 0);
		CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
		CHECK_INT(stats_of(timer).pending, ==, 1);
		CHECK_INT(stats_of(timer).running, ==, 0);
		CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
	}
	if (again->then == THEN_CANCEL_SYNC)
		CHECK_RC(hwt_cancel_sync(timeout), EDEADLK);
	if (again->then != THEN_CANCEL)
		return;
	CHECK_RC(hwt_cancel(timeout), 0);
	CHECK_RC(hwt_cancel(timeout), ENOENT);
	CHECK_RC(hwt_reschedule(timeout, 1), ENOENT);
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
}

TEST(a_task_arms_its_own_timeout_again)
{
	struct again again = { .left = 3, .delays_ns = { HWT_MS(7) } };
	hwt_timer *timer = virtual_timer();
	hwt_stats stats;

	CHECK_RC(hwt_new_timeout(timer, again_task, &again, HWT_MS(5), &again.timeout), 0);
	walk(timer, HWT_MS(11));
	CHECK_INT(again.runs, ==, 1);
	CHECK_INT(hwt_timeout_state(again.timeout), ==, HWT_PENDING);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
	walk(timer, HWT_MS(100));
	CHECK_INT(again.runs, ==, 4);
	for (int i = 0; i < 4; i++)
		CHECK_INT(again.at_ns[i], ==, HWT_MS(5 + 7 * i));
	CHECK_INT(hwt_timeout_state(again.timeout), ==, HWT_EXPIRED);
	CHECK_RC(hwt_reschedule(again.timeout, 0), ENOENT);
	stats = stats_of(timer);
	CHECK_INT(stats.accepted, ==, 1);
	CHECK_INT(stats.completed, ==, 1);
	CHECK_INT(stats.runs, ==, 4);
	CHECK_INT(stats.rescheduled, ==, 3);
	CHECK_INT(stats.merged_periods, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(of_several_calls_in_one_task_the_last_counts)
{
	static const int64_t rows[][3] = { { HWT_MS(9), HWT_MS(4), HWT_MS(6) }, { HWT_MS(2), HWT_MS(8), HWT_MS(6) } };

	for (int i = 0; i < 2; i++) {
		struct again again = { .left = 1, .delays_ns = { rows[i][0], rows[i][1], rows[i][2] } };
		hwt_timer *timer = virtual_timer();

		CHECK_RC(hwt_new_timeout(timer, again_task, &again, HWT_MS(5), &again.timeout), 0);
		walk(timer, HWT_MS(100));
		CHECK_INT(again.runs, ==, 2);
		CHECK_INT(again.at_ns[1], ==, HWT_MS(11));
		CHECK_INT(stats_of(timer).rescheduled, ==, 3);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* At once means the next tick: neither the worker nor an advance is kept by it. */
TEST(armed_again_without_delay_it_runs_once_a_tick)
{
	struct again again = { .left = 100, .delays_ns = { -HWT_S(1) } };
	hwt_timer *timer = virtual_timer();

	CHECK_RC(hwt_new_timeout(timer, again_task, &again, 0, &again.timeout), 0);
	for (unsigned i = 1; i <= 50; i++) {
		CHECK_INT(advance(timer, i * TICK_NS), ==, (i + 1) * TICK_NS);
		CHECK_INT(again.runs, ==, i);
	}
	CHECK_RC(hwt_cancel(again.timeout), 0);
	walk(timer, HWT_MS(200));
	CHECK_INT(again.runs, ==, 50);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(between_its_runs_it_is_moved_and_cancelled_as_any_other)
{
	struct again again = { .left = 10, .delays_ns = { HWT_MS(10) } };
	hwt_timer *timer = virtual_timer();

	CHECK_RC(hwt_new_timeout(timer, again_task, &again, HWT_MS(1), &again.timeout), 0);
	walk(timer, HWT_MS(2));
	CHECK_RC(hwt_reschedule_at(again.timeout, HWT_MS(5)), 0);
	walk(timer, HWT_MS(6));
	CHECK_INT(again.at_ns[1], ==, HWT_MS(5));
	CHECK_RC(hwt_reschedule_at(again.timeout, HWT_MS(30)), 0);
	walk(timer, HWT_MS(35));
	CHECK_INT(again.runs, ==, 3);
	CHECK_INT(again.at_ns[2], ==, HWT_MS(30));
	CHECK_RC(hwt_cancel(again.timeout), 0);
	CHECK_INT(hwt_timeout_state(again.timeout), ==, HWT_CANCELLED);
	walk(timer, HWT_MS(100));
	CHECK_INT(again.runs, ==, 3);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_task_takes_back_what_it_has_armed)
{
	struct again again = { .left = 1, .delays_ns = { HWT_MS(3) }, .then = THEN_CANCEL };
	hwt_timer *timer = virtual_timer();
	hwt_stats stats;

	CHECK_RC(hwt_new_timeout(timer, again_task, &again, HWT_MS(5), &again.timeout), 0);
	walk(timer, HWT_MS(50));
	CHECK_INT(again.runs, ==, 1);
	CHECK_INT(hwt_timeout_state(again.timeout), ==, HWT_CANCELLED);
	stats = stats_of(timer);
	CHECK_INT(stats.cancelled, ==, 1);
	CHECK_INT(stats.runs, ==, 1);
	CHECK_INT(stats.completed | stats.pending | stats.running, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_task_cannot_wait_for_itself_though_it_runs_again)
{
	struct again again = { .left = 1, .delays_ns = { HWT_MS(3) }, .then = THEN_CANCEL_SYNC };
	hwt_timer *timer = virtual_timer();

	CHECK_RC(hwt_new_timeout(timer, again_task, &again, HWT_MS(5), &again.timeout), 0);
	walk(timer, HWT_MS(50));
	CHECK_INT(again.runs, ==, 2);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(one_that_runs_again_for_ever_takes_no_memory)
{
	struct again again = { .left = UINT32_MAX, .delays_ns = { HWT_MS(3) } };
	hwt_timer *timer = virtual_timer();
	uint64_t records;

	CHECK_RC(hwt_new_timeout(timer, again_task, &again, 0, &again.timeout), 0);
	walk(timer, HWT_MS(100));
	records = stats_of(timer).records;
	walk(timer, HWT_MS(6000));
	CHECK_INT(again.runs, ==, 2000);
	CHECK_INT(stats_of(timer).records, ==, records);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* A task that moves another one. */
struct mover {
	struct shot *victim;
	int64_t delay_ns;
	int rc;
};

static void mover_task(hwt_timeout timeout, void *arg)
{
	struct mover *mover = arg;

	(void)timeout;
	mover->rc = hwt_reschedule(mover->victim->timeout, mover->delay_ns);
	if (mover->rc == 0)
		CHECK_INT(hwt_timeout_state(mover->victim->timeout), ==, HWT_PENDING);
}

TEST(a_task_moves_others)
{
	static const struct {
		int64_t deadline_ns, delay_ns, at_ns;
	} rows[] = {
		{ HWT_MS(50), HWT_MS(10), HWT_MS(20) },
		{ HWT_MS(15), HWT_MS(10), HWT_MS(20) },
		{ HWT_MS(50), -1, HWT_MS(11) },
		{ HWT_MS(10), HWT_MS(10), HWT_MS(20) }, /* due at the same tick */
		{ HWT_MS(10), HWT_US(1), HWT_MS(11) },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hwt_timer *timer = virtual_timer();
		struct shot shot = { .runs = 0 };
		struct mover mover = { &shot, rows[i].delay_ns, -1 };

		CHECK_RC(hwt_new_timeout(timer, mover_task, &mover, HWT_MS(10), NULL), 0);
		CHECK_RC(hwt_new_timeout_at(timer, shot_task, &shot, rows[i].deadline_ns, &shot.timeout), 0);
		walk(timer, HWT_MS(100));
		CHECK_INT(mover.rc, ==, 0);
		CHECK_INT(shot.runs, ==, 1);
		CHECK_INT(shot.at_ns, ==, rows[i].at_ns);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* G4: there was room for it before its task started, but that may be gone. */
struct crowded {
	struct shot *other;
	unsigned runs;
};

static void crowded_task(hwt_timeout timeout, void *arg)
{
	struct crowded *crowded = arg;
	hwt_timer *timer = hwt_timeout_timer(timeout);
	struct shot *other = crowded->other;

	if (crowded->runs++ == 0) {
		CHECK_RC(hwt_reschedule(timeout, HWT_MS(5)), 0);
		CHECK_RC(hwt_new_timeout(timer, shot_task, other, 0, NULL), ENOBUFS);
		CHECK_RC(hwt_reschedule(timeout, HWT_MS(6)), 0); /* no second place */
		return;
	}
	CHECK_RC(hwt_new_timeout(timer, shot_task, other, HWT_MS(1), &other->timeout), 0);
	CHECK_RC(hwt_reschedule(timeout, HWT_MS(5)), ENOBUFS);
	CHECK_RC(hwt_cancel(other->timeout), 0);
	CHECK_RC(hwt_reschedule(timeout, HWT_MS(5)), 0);
	CHECK_RC(hwt_cancel(timeout), 0);
	CHECK_RC(hwt_new_timeout(timer, shot_task, other, HWT_MS(1), &other->timeout), 0);
}

TEST(at_the_limit_a_task_needs_a_free_place)
{
	hwt_timer *timer = limited_virtual_timer(1);
	struct shot other = { .runs = 0 };
	struct crowded crowded = { &other, 0 };
	hwt_timeout timeout;

	CHECK_RC(hwt_new_timeout(timer, crowded_task, &crowded, HWT_MS(5), &timeout), 0);
	CHECK_RC(hwt_reschedule(timeout, HWT_MS(6)), 0); /* a place that it has */
	walk(timer, HWT_MS(11));
	CHECK_INT(crowded.runs, ==, 1);
	CHECK_RC(hwt_new_timeout(timer, shot_task, &other, 0, NULL), ENOBUFS);
	walk(timer, HWT_MS(50));
	CHECK_INT(crowded.runs, ==, 2);
	CHECK_INT(other.runs, ==, 1);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_INT(stats_of(timer).refused_limit, ==, 2);
	CHECK_RC(hwt_new_timeout(timer, shot_task, &other, 0, NULL), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * With an executor, still on our clock: jobs are kept and run when the test says so.
 */

struct parked {
	void (*run)(void *job);
	void *job;
	unsigned count;
};

static int park(void *ctx, void (*run)(void *job), void *job)
{
	struct parked *parked = ctx;

	CHECK_INT(parked->count, ==, 0);
	*parked = (struct parked){ run, job, 1 };
	return 0;
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

static void run_parked(struct parked *parked)
{
	CHECK_INT(parked->count, ==, 1);
	parked->count = 0;
	parked->run(parked->job);
}

TEST(on_an_executor_it_is_moved_before_and_armed_again_after)
{
	struct again again = { .left = 2, .delays_ns = { HWT_MS(7) } };
	struct parked parked = { .count = 0 };
	hwt_timer *timer = begin_parked(&parked);

	CHECK_RC(hwt_new_timeout(timer, again_task, &again, HWT_MS(20), &again.timeout), 0);
	walk(timer, HWT_MS(1));
	CHECK_RC(hwt_reschedule_at(again.timeout, HWT_MS(5)), 0);
	walk(timer, HWT_MS(5));
	CHECK_RC(hwt_reschedule_at(again.timeout, HWT_MS(8)), 0); /* handed over is pending */
	walk(timer, HWT_MS(7));
	run_parked(&parked);
	CHECK_INT(again.runs, ==, 0);
	CHECK_INT(hwt_timeout_state(again.timeout), ==, HWT_PENDING);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
	walk(timer, HWT_MS(8));
	run_parked(&parked); /* 8 + 7 */
	CHECK_INT(again.runs, ==, 1);
	CHECK_INT(hwt_timeout_state(again.timeout), ==, HWT_PENDING);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
	CHECK_RC(hwt_reschedule_at(again.timeout, HWT_MS(30)), 0); /* not yet taken in again */
	walk(timer, HWT_MS(29));
	CHECK_INT(parked.count, ==, 0);
	CHECK_RC(hwt_reschedule_at(again.timeout, HWT_MS(40)), 0);
	walk(timer, HWT_MS(39));
	CHECK_INT(parked.count, ==, 0);
	walk(timer, HWT_MS(40));
	run_parked(&parked); /* 40 + 7 */
	CHECK_RC(hwt_reschedule_at(again.timeout, HWT_MS(43)), 0);
	walk(timer, HWT_MS(42));
	CHECK_INT(parked.count, ==, 0);
	walk(timer, HWT_MS(43));
	run_parked(&parked);
	CHECK_INT(again.runs, ==, 3);
	CHECK_INT(hwt_timeout_state(again.timeout), ==, HWT_EXPIRED);
	CHECK_INT(stats_of(timer).completed, ==, 1);
	CHECK_INT(stats_of(timer).runs, ==, 3);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(on_an_executor_it_is_cancelled_or_stopped_after_it_was_armed_again)
{
	for (int way = 0; way < 5; way++) {
		struct again again = { .left = 9, .delays_ns = { HWT_MS(7) }, .then = way == 0 ? THEN_CANCEL : 0 };
		struct parked parked = { .count = 0 };
		hwt_timer *timer = begin_parked(&parked);
		hwt_unprocessed unprocessed;
		size_t said = 17;

		CHECK_RC(hwt_new_timeout(timer, again_task, &again, HWT_MS(5), &again.timeout), 0);
		walk(timer, HWT_MS(5));
		run_parked(&parked);
		if (way == 2 || way == 4)
			walk(timer, HWT_MS(6));
		if (way == 1 || way == 2)
			CHECK_RC(hwt_cancel(again.timeout), 0);
		if (way < 3)
			walk(timer, HWT_MS(30));
		CHECK_RC(hwt_timer_stop(timer, &said), 0);
		CHECK_INT(said, ==, way < 3 ? 0 : 1);
		if (way >= 3 && hwt_timer_next_unprocessed(timer, &unprocessed))
			CHECK_INT(unprocessed.deadline_ns, ==, HWT_MS(12));
		CHECK_INT(again.runs, ==, 1);
		CHECK_INT(parked.count, ==, 0);
		CHECK_INT(hwt_timeout_state(again.timeout), ==, HWT_CANCELLED);
		CHECK_INT(stats_of(timer).cancelled, ==, way < 3 ? 1 : 0);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/*
 * Cancelled while its task runs and has not armed it again: this run is the last
 */

struct ended {
	hwt_timeout timeout;
	unsigned runs, released;
	bool cancels; /* itself */
	int rc;       /* of the reschedule */
};

static void ended_task(hwt_timeout timeout, void *arg)
{
	struct ended *ended = arg;
	hwt_timer *timer = hwt_timeout_timer(timeout);

	ended->runs++;
	if (ended->cancels) {
		CHECK_RC(hwt_cancel(timeout), EBUSY);
		CHECK_RC(hwt_cancel(timeout), EBUSY);
		CHECK_RC(hwt_cancel_sync(timeout), EDEADLK);
	}
	ended->rc = hwt_reschedule(timeout, HWT_MS(3));
	CHECK_RC(hwt_reschedule_at(timeout, virtual_ns), ended->rc);
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
	CHECK_INT(hwt_pending_timeouts(timer), ==, ended->rc == 0 ? 1 : 0);
}

static void ended_release(void *arg)
{
	((struct ended *)arg)->released++;
}

static void check_ended(hwt_timer *timer, const struct ended *ended)
{
	hwt_stats stats = stats_of(timer);

	CHECK_INT(ended->rc, ==, ENOENT);
	CHECK_INT(ended->runs, ==, 1);
	CHECK_INT(ended->released, ==, 1);
	CHECK_INT(hwt_timeout_state(ended->timeout), ==, HWT_EXPIRED); /* the cancel did not return 0 */
	CHECK_RC(hwt_cancel(ended->timeout), ENOENT);
	CHECK_INT(stats.completed, ==, 1);
	CHECK_INT(stats.cancelled | stats.pending | stats.running | stats.rescheduled, ==, 0);
	CHECK_INT(stats.refused_limit, ==, 0);
}

TEST(a_task_that_cancels_itself_does_not_arm_itself_again)
{
	for (int64_t limit = 0; limit < 2; limit++) {
		hwt_timer *timer = limited_virtual_timer(limit);
		struct ended ended = { .cancels = true };
		hwt_spec spec = { sizeof(spec), ended_task, &ended, HWT_MS(5), 0, ended_release, 0 };
		size_t said = 17;

		CHECK_RC(hwt_new_timeout_ex(timer, &spec, &ended.timeout), 0);
		walk(timer, HWT_MS(20));
		check_ended(timer, &ended);
		CHECK_RC(hwt_new_timeout_ex(timer, &spec, &ended.timeout), 0); /* it has taken no place */
		ended.cancels = false;
		walk(timer, HWT_MS(25));
		CHECK_INT(ended.rc, ==, 0); /* that was another one */
		CHECK_RC(hwt_timer_stop(timer, &said), 0);
		CHECK_INT(said, ==, 1);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* Handed over, not yet begun: it runs, as the cancel said, and no more. */
TEST(on_an_executor_it_is_cancelled_before_it_arms_itself_again)
{
	for (int stops = 0; stops < 2; stops++) {
		struct parked parked = { .count = 0 };
		hwt_timer *timer = begin_parked(&parked);
		struct ended ended = { .cancels = true };
		hwt_spec spec = { sizeof(spec), ended_task, &ended, HWT_MS(5), 0, ended_release, 0 };
		size_t said = 17;

		CHECK_RC(hwt_new_timeout_ex(timer, &spec, &ended.timeout), 0);
		walk(timer, HWT_MS(5));
		run_parked(&parked);
		check_ended(timer, &ended);
		if (stops == 0)
			walk(timer, HWT_MS(30));
		CHECK_RC(hwt_timer_stop(timer, &said), 0);
		CHECK_INT(said, ==, 0);
		CHECK_INT(ended.runs, ==, 1);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/*
 * With a worker
 */

struct gate {
	atomic_uint entered, open, runs;
	int64_t again_ns; /* 0: not again */
	unsigned plain;   /* ThreadSanitizer watches */
};

static void gate_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;

	if (gate->again_ns != 0)
		CHECK_RC(hwt_reschedule(timeout, gate->again_ns), 0);
	gate->plain++;
	atomic_fetch_add(&gate->entered, 1);
	REQUIRE(wait_count(&gate->open, 1));
	gate->plain++;
	atomic_fetch_add(&gate->runs, 1);
}

static void spin_ns(int64_t ns)
{
	for (int64_t end_ns = hwt_now() + ns; hwt_now() < end_ns;)
		;
}

/* Runs again unless that is refused; decides that some time after it has begun. */
static void series_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;

	atomic_fetch_add(&gate->entered, 1);
	gate->plain++;
	spin_ns(HWT_US(200));
	(void)hwt_reschedule(timeout, gate->again_ns);
	gate->plain++;
	atomic_fetch_add(&gate->runs, 1);
}

/* Opens the gate some time after the other thread has begun to cancel, where that can be seen. */
struct opener {
	struct gate *gate;
	hwt_timer *timer; /* or NULL */
	int64_t after_ms;
};

static void *open_gate(void *arg)
{
	struct opener *opener = arg;

	REQUIRE(opener->timer == NULL || wait_none_pending(opener->timer));
	sleep_ms(opener->after_ms);
	atomic_store(&opener->gate->open, 1);
	return NULL;
}

TEST(one_whose_task_is_running_is_not_moved_by_others)
{
	for (int with_executor = 0; with_executor < 2; with_executor++) {
		hwt_timer *timer = spawn_timer(TICK_NS, with_executor != 0);
		struct gate gate = { .again_ns = 0 };
		hwt_timeout timeout;

		CHECK_RC(hwt_new_timeout(timer, gate_task, &gate, 0, &timeout), 0);
		REQUIRE(wait_count(&gate.entered, 1));
		CHECK_RC(hwt_reschedule(timeout, 0), EBUSY);
		CHECK_RC(hwt_reschedule_at(timeout, INT64_MAX), EBUSY);
		CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
		atomic_store(&gate.open, 1);
		REQUIRE(wait_state(timeout, HWT_EXPIRED));
		CHECK_RC(hwt_reschedule(timeout, 0), ENOENT);
		wait_ticks(timer, 3, TICK_NS);
		CHECK_INT(gate.runs, ==, 1);
		CHECK_INT(stats_of(timer).rescheduled, ==, 0);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

TEST(others_cancel_it_while_it_runs_and_has_been_armed_again)
{
	for (int with_executor = 0; with_executor < 2; with_executor++) {
		hwt_timer *timer = spawn_timer(TICK_NS, with_executor != 0);
		struct gate gate = { .again_ns = -1 };
		hwt_timeout timeout;

		CHECK_RC(hwt_new_timeout(timer, gate_task, &gate, 0, &timeout), 0);
		REQUIRE(wait_count(&gate.entered, 1));
		CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
		CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
		CHECK_INT(stats_of(timer).pending, ==, 1);
		CHECK_RC(hwt_reschedule(timeout, 0), EBUSY);
		CHECK_RC(hwt_cancel(timeout), 0);
		CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
		CHECK_RC(hwt_cancel(timeout), ENOENT);
		CHECK_RC(hwt_reschedule(timeout, 0), ENOENT);
		CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
		atomic_store(&gate.open, 1);
		REQUIRE(wait_state(timeout, HWT_CANCELLED));
		wait_ticks(timer, 3, TICK_NS);
		CHECK_INT(gate.runs, ==, 1);
		CHECK_INT(stats_of(timer).cancelled, ==, 1);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* Waits first, and would run again then. */
static void late_gate_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;
	int rc;

	gate->plain++;
	atomic_fetch_add(&gate->entered, 1);
	REQUIRE(wait_count(&gate->open, 1));
	rc = hwt_reschedule(timeout, gate->again_ns);
	CHECK(rc == 0 || rc == ENOENT);
	gate->plain++;
	atomic_fetch_add(&gate->runs, 1);
}

/* hwt_cancel says that this run goes on: there is no other. */
TEST(others_cancel_it_while_it_runs_and_before_it_has_been_armed_again)
{
	for (int with_executor = 0; with_executor < 2; with_executor++) {
		hwt_timer *timer = spawn_timer(TICK_NS, with_executor != 0);
		struct gate gate = { .again_ns = -1 };
		hwt_timeout timeout;

		CHECK_RC(hwt_new_timeout(timer, late_gate_task, &gate, 0, &timeout), 0);
		REQUIRE(wait_count(&gate.entered, 1));
		CHECK_RC(hwt_cancel(timeout), EBUSY);
		atomic_store(&gate.open, 1);
		REQUIRE(wait_state(timeout, HWT_EXPIRED));
		wait_ticks(timer, 3, TICK_NS);
		CHECK_INT(gate.runs, ==, 1);
		CHECK_INT(stats_of(timer).cancelled, ==, 0);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* Returns how often the task ran: more than once if the cancel came later than after_ms. */
static unsigned cancel_sync_in_a_run(bool with_executor, int64_t after_ms)
{
	hwt_timer *timer = spawn_timer(TICK_NS, with_executor);
	struct gate gate = { .again_ns = -1 };
	struct opener opener = { &gate, NULL, after_ms };
	hwt_timeout timeout;
	struct crew crew;
	unsigned runs;
	int rc;

	CHECK_RC(hwt_new_timeout(timer, late_gate_task, &gate, 0, &timeout), 0);
	REQUIRE(wait_count(&gate.entered, 1));
	crew_start(&crew, 1, open_gate, &opener, 0);
	rc = hwt_cancel_sync(timeout);
	runs = gate.runs;
	CHECK_INT(gate.plain, ==, 2 * gate.entered);
	CHECK(rc == ENOENT || (rc == 0 && atomic_load(&gate.open) == 1));
	crew_join(&crew);
	CHECK_INT(hwt_timeout_state(timeout), ==, rc == 0 ? HWT_CANCELLED : HWT_EXPIRED);
	wait_ticks(timer, 3, TICK_NS);
	CHECK_INT(gate.entered, ==, runs);
	CHECK_INT(stats_of(timer).cancelled, ==, rc == 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	return rc == 0 ? 2 : runs; /* it had been armed again */
}

/* hwt_cancel_sync waits for the end of the run: there is no other.  That it waits cannot be seen from outside. */
TEST(others_cancel_it_and_wait_before_it_has_been_armed_again)
{
	for (int with_executor = 0; with_executor < 2; with_executor++) {
		int64_t after_ms = 10;

		while (cancel_sync_in_a_run(with_executor != 0, after_ms) > 1)
			REQUIRE(HWT_MS(after_ms *= 2) < PATIENCE_NS / 10);
	}
}

/* The guide's promise, at any moment: whatever it returns, one cancel ends the series. */
TEST(one_cancel_ends_the_series)
{
	struct prng prng = { test_seed("one_cancel_ends_the_series") };
	unsigned busy = 0;

	for (unsigned round = 0; round < scaled(200); round++) {
		hwt_timer *timer = spawn_timer(TICK_NS, round % 2 != 0);
		struct gate gate = { .again_ns = 0 };
		hwt_timeout timeout;
		unsigned runs;
		int rc;

		CHECK_RC(hwt_new_timeout(timer, series_task, &gate, 0, &timeout), 0);
		REQUIRE(wait_count(&gate.entered, 1 + (unsigned)prng_below(&prng, 3)));
		spin_ns(prng_between(&prng, 0, HWT_US(500)));
		rc = hwt_cancel(timeout);
		CHECK(rc == 0 || rc == EBUSY);
		busy += rc == EBUSY;
		REQUIRE(wait_state(timeout, rc == 0 ? HWT_CANCELLED : HWT_EXPIRED));
		runs = gate.entered;
		wait_ticks(timer, 2, TICK_NS);
		CHECK_INT(gate.entered, ==, runs);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
	printf("# %u while it ran\n", busy);
}

/* It returns 0, for further runs, and only when the present one is over. */
TEST(cancel_sync_waits_for_the_run_in_progress)
{
	for (int with_executor = 0; with_executor < 2; with_executor++) {
		hwt_timer *timer = spawn_timer(TICK_NS, with_executor != 0);
		struct gate gate = { .again_ns = FAR_NS };
		struct opener opener = { &gate, timer, 10 };
		hwt_timeout timeout;
		struct crew crew;

		CHECK_RC(hwt_new_timeout(timer, gate_task, &gate, 0, &timeout), 0);
		REQUIRE(wait_count(&gate.entered, 1));
		crew_start(&crew, 1, open_gate, &opener, 0);
		CHECK_RC(hwt_cancel_sync(timeout), 0);
		CHECK_INT(gate.plain, ==, 2);
		CHECK_INT(hwt_timeout_state(timeout), ==, HWT_CANCELLED);
		crew_join(&crew);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* A task that would go on for ever ends at any moment at which it is told to. */
TEST(cancel_sync_ends_one_that_always_runs_again)
{
	for (unsigned round = 0; round < scaled(100); round++) {
		hwt_timer *timer = spawn_timer(TICK_NS, round % 2 != 0);
		struct gate gate = { .again_ns = round % 3 == 0 ? HWT_US(500) : -1 };
		hwt_timeout timeout;
		unsigned runs;
		int rc;

		CHECK_RC(hwt_new_timeout(timer, series_task, &gate, 0, &timeout), 0);
		REQUIRE(wait_count(&gate.entered, 1 + round % 3));
		rc = hwt_cancel_sync(timeout);
		CHECK(rc == 0 || rc == ENOENT);
		runs = gate.runs;
		CHECK_INT(gate.plain, ==, 2 * runs);
		CHECK_INT(hwt_timeout_state(timeout), ==, rc == 0 ? HWT_CANCELLED : HWT_EXPIRED);
		wait_ticks(timer, 2, TICK_NS);
		CHECK_INT(gate.runs, ==, runs);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* Nothing else is due for an hour. */
TEST(an_earlier_deadline_wakes_the_worker)
{
	for (int round = 0; round < 10; round++) {
		hwt_timer *timer = spawn_timer(TICK_NS, round % 2 != 0);
		struct run run = { .not_before_ns = INT64_MAX };
		hwt_timeout timeout;

		CHECK_RC(hwt_new_timeout(timer, run_task, &run, FAR_NS, &timeout), 0);
		if (round >= 5)
			sleep_ms(5 * round % 20);
		if (round == 9)
			CHECK_RC(hwt_reschedule(timeout, 2 * FAR_NS), 0);
		run.not_before_ns = hwt_now() + HWT_MS(round);
		CHECK_RC(hwt_reschedule(timeout, HWT_MS(round)), 0);
		REQUIRE(wait_count(&run.ran, 1));
		REQUIRE(wait_state(timeout, HWT_EXPIRED));
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* Not before the last of its deadlines, by the clock. */
TEST(put_off_again_and_again_it_is_never_early)
{
	hwt_timer *timer = spawn_timer(TICK_NS, false);
	struct run runs[20];
	hwt_timeout timeouts[20];

	for (int i = 0; i < 20; i++) {
		runs[i] = (struct run){ .not_before_ns = INT64_MIN };
		CHECK_RC(hwt_new_timeout(timer, run_task, &runs[i], HWT_S(100), &timeouts[i]), 0);
	}
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 20; i++)
			CHECK_RC(hwt_reschedule(timeouts[i], HWT_S(100 + (i * round) % 7)), 0);
		sleep_ms(1);
	}
	for (int i = 0; i < 20; i++) {
		runs[i].not_before_ns = hwt_now() + HWT_MS(i);
		CHECK_RC(hwt_reschedule_at(timeouts[i], runs[i].not_before_ns), 0);
	}
	for (int i = 0; i < 20; i++)
		REQUIRE(wait_count(&runs[i].ran, 1));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
