/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What hwt_reschedule does to records, with the checker after each step: requeued records in the wheel, cancelled,
 * stopped, or overtaken by their old tick; postponed ones; no memory at each place; which call wakes a worker that
 * falls asleep between the two halves of a call; and which calls wait for a mover.
 */
#include "check/check.h"
#include "unit.h"

#include <sched.h>
#include <time.h>

#define START HWT_S(1000)
#define TICK HWT_MS(1)
#define AT(tick) (START + (tick)*TICK)

static hwt_timer *timer;

static void begin(uint32_t max_transfers)
{
	hwt_config config = driven_config(TICK, 64);

	config.max_transfers_per_tick = max_transfers;
	timer = driven_create(&config, START);
}

static struct hwt_check_counts counts(void)
{
	struct hwt_check_counts found;

	hwt_check_count(timer, &found);
	return found;
}

struct shot {
	hwt_timeout timeout;
	unsigned runs, released;
	int64_t tick; /* of the last run */
};

static void shot_task(hwt_timeout timeout, void *arg)
{
	struct shot *shot = arg;

	(void)timeout;
	shot->runs++;
	shot->tick = timer->wheel->tick;
}

static void shot_release(void *arg)
{
	((struct shot *)arg)->released++;
}

static int try_start(struct shot *shot, int64_t deadline_ns, bool extended)
{
	hwt_spec spec = { sizeof(spec), shot_task, shot, deadline_ns, 0, shot_release, HWT_ABSOLUTE };

	memset(shot, 0, sizeof(*shot));
	if (extended)
		return hwt_new_timeout_ex(timer, &spec, &shot->timeout);
	return hwt_new_timeout_at(timer, shot_task, shot, deadline_ns, &shot->timeout);
}

static void start(struct shot *shot, int64_t deadline_ns, bool extended)
{
	CHECK_INT(try_start(shot, deadline_ns, extended), ==, 0);
}

static uint64_t word_of(const struct shot *shot)
{
	return record_word(shot->timeout.entry);
}

static bool has(const struct shot *shot, uint64_t flag)
{
	return word_has(word_of(shot), flag);
}

/* A pass as the worker makes it: a task knows that it is in it. */
static void unchecked_pass(int64_t tick)
{
	current_task_enter(&timer->worker.frame, timer, NULL);
	driven_pass(timer, AT(tick));
	current_task_leave(&timer->worker.frame);
}

static void pass(int64_t tick)
{
	unchecked_pass(tick);
	hwt_check(timer);
}

static void end(void)
{
	memory_is_back();
	driven_destroy(timer);
}

TEST(a_later_one_stays_where_it_is_until_its_old_tick)
{
	struct shot shot;

	begin(1000);
	start(&shot, AT(5), false);
	pass(1);
	CHECK_INT(hwt_reschedule_at(shot.timeout, AT(9)), ==, 0);
	CHECK(has(&shot, WORD_RESCHEDULED) && !has(&shot, WORD_RESCHEDULING | WORD_REQUEUED | WORD_RESCHEDULE_SEEN));
	CHECK_INT(counts().requeued, ==, 0);
	CHECK_INT(hwt_wheel_next_due(timer->wheel), ==, 5);
	pass(5);
	CHECK(has(&shot, WORD_RESCHEDULE_SEEN));
	CHECK_INT(counts().place[PLACE_WHEEL], ==, 1);
	CHECK_INT(counts().place[PLACE_UNPLACED], ==, 0);
	CHECK_INT(hwt_wheel_next_due(timer->wheel), ==, 9);
	CHECK_INT(hwt_reschedule_at(shot.timeout, AT(11)), ==, 0);
	CHECK(!has(&shot, WORD_RESCHEDULE_SEEN));
	pass(9);
	pass(11);
	CHECK_INT(shot.runs, ==, 1);
	CHECK_INT(shot.tick, ==, 11);
	end();
}

TEST(a_requeued_timeout_is_in_the_wheel_and_in_a_queue)
{
	struct shot shot;

	begin(1000);
	start(&shot, AT(50), true);
	pass(1);
	CHECK_INT(hwt_reschedule_at(shot.timeout, AT(20)), ==, 0);
	CHECK(has(&shot, WORD_REQUEUED) && has(&shot, WORD_RESCHEDULED) && !has(&shot, WORD_RESCHEDULING));
	CHECK_INT(counts().requeued, ==, 1);
	CHECK_INT(counts().place[PLACE_WHEEL], ==, 1);
	CHECK_INT(counts().place[PLACE_EXTENSION], ==, 1);
	CHECK_INT(hwt_reschedule_at(shot.timeout, AT(10)), ==, 0);
	CHECK_INT(hwt_reschedule_at(shot.timeout, AT(30)), ==, 0);
	CHECK_INT(counts().requeued, ==, 1);
	pass(2);
	CHECK(!has(&shot, WORD_REQUEUED));
	CHECK_INT(counts().requeued, ==, 0);
	CHECK_INT(counts().place[PLACE_WHEEL], ==, 1);
	pass(29);
	CHECK_INT(shot.runs, ==, 0);
	pass(30);
	CHECK_INT(shot.tick, ==, 30);
	CHECK_INT(shot.released, ==, 1);
	CHECK_INT(counts().place[PLACE_EXTENSION], ==, 0);
	end();
}

TEST(a_requeued_timeout_is_cancelled_without_a_second_push)
{
	for (int extended = 0; extended < 2; extended++) {
		struct shot shot;

		begin(1000);
		start(&shot, AT(50), extended != 0);
		pass(1);
		CHECK_INT(hwt_reschedule_at(shot.timeout, AT(20)), ==, 0);
		CHECK_INT(hwt_cancel(shot.timeout), ==, 0);
		CHECK_INT(counts().cancelled, ==, 0);
		CHECK_INT(counts().requeued, ==, 1);
		CHECK_INT(hwt_cancel(shot.timeout), ==, ENOENT);
		CHECK_INT(hwt_reschedule_at(shot.timeout, AT(5)), ==, ENOENT);
		CHECK_INT(shot.released, ==, 0);
		pass(2);
		CHECK_INT(counts().place[PLACE_WHEEL], ==, 0);
		CHECK_INT(counts().place[PLACE_RETURNED], ==, 1 + extended);
		CHECK_INT(shot.released, ==, extended);
		pass(60);
		CHECK_INT(shot.runs, ==, 0);
		end();
		CHECK_INT(shot.released, ==, extended);
	}
}

enum then {
	THEN_WAIT,
	THEN_CANCEL,
	THEN_LATER,
	THEN_STOP,
	THENS,
};

static void after_overtaken(struct shot *shot, enum then then)
{
	size_t said = 0;

	if (then == THEN_CANCEL)
		CHECK_INT(hwt_cancel(shot->timeout), ==, 0);
	if (then == THEN_LATER)
		CHECK_INT(hwt_reschedule_at(shot->timeout, AT(40)), ==, 0);
	if (then == THEN_STOP) {
		CHECK_INT(hwt_timer_stop(timer, &said), ==, 0);
		CHECK_INT(said, ==, 4); /* with the other three */
	}
	hwt_check(timer);
	CHECK_INT(shot->released, ==, 0);
}

/* The worker takes in one timeout a pass, and others wait before it: its old tick comes first. */
TEST(the_old_tick_of_a_requeued_timeout_comes_first)
{
	for (unsigned i = 0; i < 2 * THENS; i++) {
		bool extended = i % 2 != 0;
		enum then then = i / 2;
		struct shot shot, others[3];

		begin(1);
		start(&shot, AT(5), extended);
		pass(1);
		for (int j = 0; j < 3; j++)
			start(&others[j], AT(1000), false);
		CHECK_INT(hwt_reschedule_at(shot.timeout, AT(3)), ==, 0);
		pass(3);
		CHECK_INT(shot.runs, ==, 0);
		pass(5); /* it leaves the wheel */
		CHECK_INT(shot.runs, ==, 0);
		CHECK(has(&shot, WORD_REQUEUED));
		CHECK_INT(((struct hwt_record *)shot.timeout.entry)->place, ==, 0);
		CHECK_INT(counts().requeued, ==, 1);
		after_overtaken(&shot, then);
		if (then != THEN_STOP)
			for (int64_t tick = 6; tick <= 45; tick++)
				pass(tick);
		CHECK_INT(shot.runs, ==, then == THEN_WAIT || then == THEN_LATER ? 1 : 0);
		if (shot.runs == 1)
			CHECK_INT(shot.tick, ==, then == THEN_LATER ? 40 : 7); /* the third pass from then */
		CHECK_INT(shot.released, ==, extended && then != THEN_STOP ? 1 : 0);
		end();
		CHECK_INT(shot.released, ==, extended ? 1 : 0);
	}
}

/* In each of the places where it can be. */
TEST(a_stop_finds_moved_ones_once)
{
	for (unsigned i = 0; i < 32; i++) {
		struct shot shots[3];
		bool extended = (i & 1) != 0, cancelled = (i & 16) != 0;
		hwt_unprocessed unprocessed;
		size_t said = 0;

		begin(1000);
		for (int j = 0; j < 3; j++)
			start(&shots[j], AT(50), extended);
		if ((i & 2) != 0)
			pass(1);
		CHECK_INT(hwt_reschedule_at(shots[0].timeout, AT(20)), ==, 0);
		CHECK_INT(hwt_reschedule_at(shots[1].timeout, AT(90)), ==, 0);
		if ((i & 4) != 0)
			pass(2);
		if ((i & 8) != 0)
			CHECK_INT(hwt_reschedule_at(shots[1].timeout, AT(10)), ==, 0);
		if (cancelled)
			CHECK_INT(hwt_cancel(shots[1].timeout), ==, 0);
		hwt_check(timer);
		CHECK_INT(hwt_timer_stop(timer, &said), ==, 0);
		CHECK_INT(said, ==, cancelled ? 2 : 3);
		hwt_check(timer);
		CHECK_INT(shots[1].released, ==, extended && cancelled ? 1 : 0);
		for (; hwt_timer_next_unprocessed(timer, &unprocessed); said--)
			CHECK_INT(((struct shot *)unprocessed.arg)->released, ==, 0);
		CHECK_INT(said, ==, 0);
		end();
		for (int j = 0; j < 3; j++)
			CHECK_INT(shots[j].released, ==, extended ? 1 : 0);
	}
}

/* A stop closes the lanes before it looks at what is pending, and finds this one where it is. */
TEST(one_that_is_moved_in_a_stop_is_not_pushed)
{
	hwt_unprocessed unprocessed;
	struct shot shot;
	size_t said = 0;

	begin(1000);
	start(&shot, AT(50), false);
	pass(1);
	hwt_lanes_close(&timer->lanes);
	CHECK_INT(hwt_reschedule_at(shot.timeout, AT(20)), ==, 0);
	CHECK(!has(&shot, WORD_REQUEUED));
	CHECK_INT(hwt_timer_stop(timer, &said), ==, 0);
	CHECK_INT(said, ==, 1);
	CHECK(hwt_timer_next_unprocessed(timer, &unprocessed));
	CHECK_INT(unprocessed.deadline_ns, ==, AT(20));
	end();
}

static void stop_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	hwt_worker_request_stop(&timer->worker);
}

/* A pass that ends in the middle of its batch, of which some have just been moved. */
TEST(a_stop_in_the_middle_of_a_tick)
{
	for (int extended = 0; extended < 2; extended++) {
		struct shot shots[4];
		size_t said = 0;

		begin(1);
		CHECK_INT(hwt_new_timeout_at(timer, stop_task, NULL, AT(9), NULL), ==, 0);
		pass(0);
		for (int j = 0; j < 4; j++) {
			start(&shots[j], AT(9), extended != 0);
			pass(0);
		}
		CHECK_INT(hwt_reschedule_at(shots[0].timeout, AT(30)), ==, 0);
		CHECK_INT(hwt_reschedule_at(shots[1].timeout, AT(3)), ==, 0);
		CHECK_INT(hwt_reschedule_at(shots[2].timeout, AT(4)), ==, 0);
		CHECK_INT(hwt_reschedule_at(shots[3].timeout, AT(5)), ==, 0);
		CHECK_INT(hwt_cancel(shots[3].timeout), ==, 0);
		unchecked_pass(9); /* takes in the first of the requeued ones only */
		CHECK_INT(counts().place[PLACE_BATCH], >=, 2);
		CHECK_INT(hwt_timer_stop(timer, &said), ==, 0);
		hwt_check(timer);
		CHECK_INT(shots[1].runs, ==, 1);
		CHECK_INT(said, ==, 2);
		end();
		CHECK_INT(shots[0].runs + shots[2].runs + shots[3].runs, ==, 0);
		for (int j = 0; j < 4; j++)
			CHECK_INT(shots[j].released, ==, extended);
	}
}

/*
 * Want of memory
 */

#define MANY 2000

/* Many records and few nodes: they were taken in a few at a time. */
static void start_many(struct shot *shots, int64_t tick)
{
	for (unsigned i = 0; i < MANY; i++) {
		start(&shots[i], AT(tick), false);
		if (i % 8 == 7)
			pass(0);
	}
	pass(0);
}

TEST(an_earlier_deadline_needs_a_node_or_the_old_one_holds)
{
	static struct shot shots[MANY];
	struct shot queued;
	unsigned moved = 0;

	begin(100000);
	start_many(shots, 500);
	start(&queued, AT(500), false);
	memory_fails(0, UINT64_MAX);
	while (moved < MANY && hwt_reschedule_at(shots[moved].timeout, AT(100)) == 0)
		moved++;
	REQUIRE(moved > 0 && moved < MANY - 10);
	for (unsigned i = moved; i < moved + 10; i++) {
		CHECK_INT(hwt_reschedule_at(shots[i].timeout, AT(100)), ==, ENOMEM);
		CHECK_INT(hwt_reschedule(shots[i].timeout, -1), ==, ENOMEM);
		CHECK(word_state(word_of(&shots[i])) == STATE_ARMED &&
		      !has(&shots[i], WORD_RESCHEDULING | WORD_REQUEUED));
		CHECK_INT(record_deadline(shots[i].timeout.entry), ==, AT(500));
	}
	CHECK_INT(counts().requeued, ==, moved);
	CHECK_INT(hwt_reschedule_at(queued.timeout, AT(90)), ==, 0);        /* needs none */
	CHECK_INT(hwt_reschedule_at(shots[0].timeout, AT(95)), ==, 0);      /* has one */
	CHECK_INT(hwt_reschedule_at(shots[moved].timeout, AT(600)), ==, 0); /* later */
	CHECK_INT(hwt_reschedule_at(shots[moved].timeout, AT(550)), ==, ENOMEM);
	CHECK_INT(hwt_lanes_rescheduled(&timer->lanes), ==, moved + 3);
	hwt_check(timer);
	for (int64_t tick = 1; tick <= 700; tick++)
		unchecked_pass(tick);
	hwt_check(timer);
	CHECK_INT(queued.tick, ==, 90);
	for (unsigned i = 0; i < MANY; i++) {
		CHECK_INT(shots[i].runs, ==, 1);
		CHECK_INT(shots[i].tick, ==, i == 0 ? 95 : i < moved ? 100 : i == moved ? 600 : 500);
	}
	end();
}

/* A timer that has never been used: its first allocations fail one by one. */
TEST(the_first_timeout_with_a_finaliser_needs_memory_or_changes_nothing)
{
	struct shot shot;
	int rc = ENOMEM;

	for (uint64_t n = 0; rc != 0; n++) {
		REQUIRE(n < 100);
		begin(1000);
		memory_fails(n, UINT64_MAX);
		rc = try_start(&shot, AT(5), true);
		CHECK(rc == 0 || rc == ENOMEM);
		CHECK_INT(counts().place[PLACE_SUBMITTED], ==, rc == 0 ? 1 : 0);
		CHECK_INT(hwt_pending_timeouts(timer), ==, rc == 0 ? 1 : 0);
		if (rc == ENOMEM) {
			CHECK(shot.timeout.entry == NULL && shot.released == 0);
			CHECK(n > 0 || shot.timeout.generation == 0);
			memory_is_back();
			start(&shot, AT(5), true);
		}
		pass(5);
		CHECK_INT(shot.runs, ==, 1);
		CHECK_INT(shot.released, ==, 1);
		end();
		CHECK_INT(shot.released, ==, 1);
	}
}

/* With each number of records and nodes left: for none, for one, for both. */
TEST(at_the_end_of_memory_a_timeout_with_a_finaliser_is_accepted_whole_or_not_at_all)
{
	unsigned refused = 0, half = 0;

	for (unsigned before = 1; before < 200; before++) {
		struct shot shot, plain;
		int rc;

		begin(1000);
		for (unsigned i = 0; i < before; i++) {
			CHECK_INT(hwt_new_timeout_at(timer, shot_task, &plain, AT(1000), NULL), ==, 0);
			if (i % 4 == 0)
				unchecked_pass(0);
		}
		memory_fails(0, UINT64_MAX);
		rc = try_start(&shot, AT(1000), true);
		CHECK(rc == 0 || rc == ENOMEM);
		hwt_check(timer);
		CHECK_INT(hwt_pending_timeouts(timer), ==, before + (rc == 0));
		if (rc == ENOMEM) {
			refused++;
			CHECK(shot.timeout.entry == NULL);
			half += try_start(&plain, AT(1000), false) == 0; /* what it had taken is there again */
			hwt_check(timer);
		}
		memory_is_back();
		end();
		CHECK_INT(shot.released, ==, rc == 0 ? 1 : 0);
	}
	CHECK(refused > 0 && half > 0);
}

/* Fills the wheel's memory: what is placed now is on the list of the unplaced. */
static void start_unplaced(struct shot *shots, unsigned count, int64_t tick, bool extended)
{
	for (unsigned i = 0; i < count; i++)
		start(&shots[i], AT(tick), extended);
	memory_fails(0, UINT64_MAX);
	pass(0);
	CHECK_INT(counts().place[PLACE_UNPLACED], ==, count);
}

TEST(unplaced_ones_are_moved)
{
	for (unsigned i = 0; i < 16; i++) {
		bool extended = (i & 1) != 0, memory_stays_away = (i & 2) != 0, early = (i & 4) != 0;
		int64_t new_tick = early ? 10 : 30;
		struct shot shots[4];

		begin(1000);
		start_unplaced(shots, 4, 20, extended);
		CHECK_INT(hwt_reschedule_at(shots[1].timeout, AT(new_tick)), ==, 0);
		CHECK_INT(hwt_reschedule_at(shots[2].timeout, AT(new_tick)), ==, 0);
		CHECK_INT(hwt_reschedule_at(shots[3].timeout, AT(15)), ==, 0);
		if ((i & 8) != 0)
			pass(1);
		CHECK_INT(hwt_cancel(shots[2].timeout), ==, 0);
		hwt_check(timer);
		if (!memory_stays_away)
			memory_is_back();
		for (int64_t tick = 2; tick <= 40; tick++)
			pass(tick);
		CHECK_INT(shots[0].tick, ==, 20);
		CHECK_INT(shots[1].tick, ==, new_tick);
		CHECK_INT(shots[2].runs, ==, 0);
		CHECK_INT(shots[3].tick, ==, 15);
		CHECK_INT(counts().place[PLACE_UNPLACED], ==, 0);
		for (int j = 0; j < 4; j++)
			CHECK_INT(shots[j].released, ==, extended);
		end();
	}
}

/* Its old tick comes and there is no memory to place it again. */
TEST(put_off_without_memory_it_is_in_time)
{
	for (int when_back = 0; when_back < 40; when_back += 13) {
		struct shot shot;

		begin(1000);
		start(&shot, AT(10), true);
		pass(0);
		CHECK_INT(hwt_reschedule_at(shot.timeout, AT(25)), ==, 0);
		memory_fails(0, UINT64_MAX);
		for (int64_t tick = 1; tick <= 30; tick++) {
			if (tick == when_back)
				memory_is_back();
			pass(tick);
			CHECK_INT(shot.runs, ==, tick < 25 ? 0 : 1);
		}
		CHECK_INT(shot.released, ==, 1);
		end();
	}
}

static void again_task(hwt_timeout timeout, void *arg)
{
	struct shot *shot = arg;

	shot_task(timeout, arg);
	if (shot->runs < 5)
		CHECK_INT(hwt_reschedule_at(timeout, AT(timer->wheel->tick + 1)), ==, 0); /* never ENOMEM */
}

TEST(running_again_needs_no_memory)
{
	struct shot shot = { .runs = 0 };

	begin(1000);
	CHECK_INT(hwt_new_timeout_at(timer, again_task, &shot, AT(5), &shot.timeout), ==, 0);
	memory_fails(0, UINT64_MAX);
	for (int64_t tick = 1; tick <= 30; tick++) {
		pass(tick);
		CHECK_INT(shot.runs, ==, tick < 5 ? 0 : tick < 9 ? tick - 4 : 5);
	}
	CHECK_INT(hwt_timeout_state(shot.timeout), ==, HWT_EXPIRED);
	end();
}

/* All of it at random, memory coming and going: every task runs in its tick, and the checker finds nothing. */

#define CROWD 120

static struct shot crowd[CROWD];
static int64_t crowd_tick[CROWD]; /* at which it has to run; 0: it is not pending */
static bool crowd_extended[CROWD];

static void crowd_task(hwt_timeout timeout, void *arg)
{
	size_t i = (size_t)((struct shot *)arg - crowd);

	shot_task(timeout, arg);
	CHECK_INT(timer->wheel->tick, ==, crowd_tick[i]);
	crowd_tick[i] = 0;
}

static void change_one(uint64_t *random, int64_t now)
{
	size_t i = random_below(random, CROWD);
	int64_t tick = now + 1 + (int64_t)random_below(random, random_below(random, 4) == 0 ? 300 : 20);
	bool earlier = tick < crowd_tick[i];
	hwt_spec spec = { sizeof(spec), crowd_task, &crowd[i], AT(tick), 0, shot_release, HWT_ABSOLUTE };
	int rc;

	if (crowd_tick[i] == 0) {
		CHECK_INT(crowd[i].released, ==, crowd_extended[i] && crowd[i].runs > 0);
		memset(&crowd[i], 0, sizeof(crowd[i]));
		crowd_extended[i] = random_below(random, 2) == 0;
		spec.release = crowd_extended[i] ? shot_release : NULL;
		rc = hwt_new_timeout_ex(timer, &spec, &crowd[i].timeout);
		CHECK(rc == 0 || rc == ENOMEM);
		crowd_tick[i] = rc == 0 ? tick : 0;
		return;
	}
	rc = hwt_reschedule_at(crowd[i].timeout, AT(tick));
	CHECK(rc == 0 || (rc == ENOMEM && earlier));
	crowd_tick[i] = rc == 0 ? tick : crowd_tick[i];
}

TEST(everything_at_random_keeps_the_law_while_memory_comes_and_goes)
{
	uint64_t random = random_seed();

	memset(crowd, 0, sizeof(crowd));
	memset(crowd_tick, 0, sizeof(crowd_tick));
	begin(1000);
	for (int64_t tick = 1; tick <= 3000; tick++) {
		if (random_below(&random, 20) == 0)
			memory_fails(random_below(&random, 3), UINT64_MAX);
		if (random_below(&random, 20) == 0)
			memory_is_back();
		for (uint64_t n = random_below(&random, 12); n > 0; n--)
			change_one(&random, tick - 1);
		if (tick % 8 == 0)
			hwt_check(timer);
		pass(tick);
		for (size_t i = 0; i < CROWD; i++)
			CHECK(crowd_tick[i] == 0 || crowd_tick[i] > tick);
	}
	end();
}

/*
 * Between the halves of a call
 *
 *   A producer pushes, and then wakes the worker if that sleeps beyond the deadline.  Here another thread comes in just
 *   before the push, has the worker woken for a deadline that the producer does not know, and the worker, which finds
 *   nothing yet, goes to sleep again, until tick 30.  Then it is for the producer to wake it.
 */

static struct shot subject;
static const char *gap; /* where the other one comes in */
static void (*in_the_gap)(void);
static bool came_in;

/* A lane of another thread. */
static struct hwt_lane *other_lane(void)
{
	(void)lanes_home(&timer->lanes); /* now it has a number */
	return lane_at(&timer->lanes, (hwt_own_number + 1) & timer->lanes.last_place);
}

static void sleep_until_30(void)
{
	CHECK(hwt_idle_begin(&timer->lanes.idle, AT(30)));
}

static bool is_awake(void)
{
	return idle_look(&timer->lanes.idle) == IDLE_AWAKE;
}

static void come_in(const char *where)
{
	/* Who is writing the deadline is waited for: then there is no gap. */
	if (came_in || strcmp(where, gap) != 0 || has(&subject, WORD_RESCHEDULING))
		return;
	came_in = true;
	in_the_gap();
	CHECK(is_awake());
	unchecked_pass(0);
	sleep_until_30();
}

static void open_gap(const char *where, void (*act)(void))
{
	gap = where;
	in_the_gap = act;
	came_in = false;
	sleep_until_30();
	atomic_store(&hwt_test_point, come_in);
}

/* What did not come in comes afterwards. */
static void close_gap(void)
{
	atomic_store(&hwt_test_point, NULL);
	if (!came_in)
		in_the_gap();
	CHECK(is_awake());
	idle_publish(&timer->lanes.idle, IDLE_AWAKE);
	pass(1);
}

static void move_to_10(void)
{
	CHECK_INT(hwt_lane_reschedule(other_lane(), subject.timeout.entry, subject.timeout.generation, AT(10)), ==, 0);
}

static void cancel_it(void)
{
	CHECK_INT(hwt_lane_cancel(other_lane(), subject.timeout.entry, subject.timeout.generation), ==, 0);
}

TEST(moved_earlier_while_another_moves_it_earlier)
{
	begin(1000);
	start(&subject, AT(90), false);
	pass(0);
	open_gap("queue push", move_to_10);
	CHECK_INT(hwt_reschedule_at(subject.timeout, AT(50)), ==, 0);
	close_gap();
	pass(10);
	CHECK_INT(subject.tick, ==, 10);
	end();
}

TEST(cancelled_while_another_moves_it_earlier)
{
	begin(1000);
	start(&subject, AT(90), true);
	pass(0);
	open_gap("queue push", cancel_it);
	CHECK_INT(hwt_reschedule_at(subject.timeout, AT(50)), ==, 0);
	close_gap();
	CHECK_INT(subject.released, ==, 1);
	end();
}

/* An executor that keeps the job. */
static void (*kept_run)(void *job);
static void *kept_job;

static int keep(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx;
	kept_run = run;
	kept_job = job;
	return 0;
}

static void to_50_task(hwt_timeout timeout, void *arg)
{
	shot_task(timeout, arg);
	if (subject.runs == 1)
		CHECK_INT(hwt_reschedule_at(timeout, AT(50)), ==, 0);
}

static void on_its_way_from_an_executor(void (*act)(void))
{
	hwt_config config = driven_config(TICK, 64);
	hwt_executor executor = { keep, NULL };
	hwt_spec spec = { sizeof(spec), to_50_task, &subject, AT(0), 0, shot_release, HWT_ABSOLUTE };

	config.executor = &executor;
	memset(&subject, 0, sizeof(subject));
	kept_run = NULL;
	timer = driven_create(&config, START);
	CHECK_INT(hwt_new_timeout_ex(timer, &spec, &subject.timeout), ==, 0);
	unchecked_pass(0); /* the checker does not know of running ones */
	REQUIRE(kept_run != NULL);
	open_gap("stack push", act);
	kept_run(kept_job);
	close_gap();
}

TEST(moved_earlier_on_its_way_from_an_executor)
{
	on_its_way_from_an_executor(move_to_10);
	kept_run = NULL;
	unchecked_pass(10);
	CHECK(kept_run != NULL);
	if (kept_run != NULL)
		kept_run(kept_job);
	end();
	CHECK_INT(subject.released, ==, 1);
}

TEST(cancelled_on_its_way_from_an_executor)
{
	on_its_way_from_an_executor(cancel_it);
	CHECK_INT(subject.released, ==, 1);
	end();
	CHECK_INT(subject.runs, ==, 1);
}

/*
 * While one is writing the deadline
 */

static atomic_uint lingers, has_left;
static const char *linger_at;

/* Once, for long, on the mover's thread, which is about to take RESCHEDULING away. */
static void linger(const char *where)
{
	struct timespec nap = { 0, 20000000 };

	if (strcmp(where, linger_at) != 0 || atomic_exchange(&lingers, 1) != 0)
		return;
	nanosleep(&nap, NULL);
	atomic_store(&has_left, 1);
}

static void *move_slowly(void *arg)
{
	CHECK_INT(hwt_reschedule_at(subject.timeout, *(int64_t *)arg), ==, 0);
	return NULL;
}

static void call_meanwhile(int call)
{
	size_t said = 0;

	switch (call) {
	case 0:
		CHECK_INT(hwt_cancel(subject.timeout), ==, 0);
		break;
	case 1:
		CHECK_INT(hwt_reschedule_at(subject.timeout, AT(60)), ==, 0);
		break;
	case 2:
		CHECK_INT(hwt_reschedule_at(subject.timeout, AT(20)), ==, 0);
		break;
	default:
		CHECK_INT(hwt_timer_stop(timer, &said), ==, 0);
		CHECK_INT(said, ==, 1);
		break;
	}
}

TEST(all_but_the_worker_wait_for_a_mover)
{
	static const int64_t expected[] = { 0, 60, 20, 0 };

	for (int i = 0; i < 8; i++) {
		int64_t new_ns = i / 4 == 0 ? AT(50) : AT(30);
		pthread_t thread;

		begin(1000);
		start(&subject, AT(40), true);
		pass(1);
		linger_at = i / 4 == 0 ? "moved" : "queue push";
		atomic_store(&lingers, 0);
		atomic_store(&has_left, 0);
		atomic_store(&hwt_test_point, linger);
		REQUIRE(pthread_create(&thread, NULL, move_slowly, &new_ns) == 0);
		while (atomic_load(&lingers) == 0)
			(void)sched_yield();
		call_meanwhile(i % 4);
		CHECK_INT(atomic_load(&has_left), ==, 1);
		REQUIRE(pthread_join(thread, NULL) == 0);
		atomic_store(&hwt_test_point, NULL);
		hwt_check(timer);
		for (int64_t tick = 2; i % 4 != 3 && tick <= 70; tick++)
			pass(tick);
		CHECK_INT(subject.tick, ==, expected[i % 4]);
		end();
		CHECK_INT(subject.released, ==, 1);
	}
}

/*
 * While one only looks, or hands over
 */

static const char *pass_at; /* the point at which the worker comes by; NULL: any */
static unsigned pass_after; /* so many points are passed over first */
static int64_t pass_tick;

static void pass_once(const char *where)
{
	if (came_in || (pass_at != NULL && strcmp(where, pass_at) != 0) || pass_after-- > 0)
		return;
	came_in = true;
	unchecked_pass(pass_tick);
}

/* The worker comes by in the middle.  false: there was no such point. */
static bool pass_while(void (*act)(void), const char *at, unsigned after, int64_t tick)
{
	pass_at = at;
	pass_after = after;
	pass_tick = tick;
	came_in = false;
	atomic_store(&hwt_test_point, pass_once);
	act();
	atomic_store(&hwt_test_point, NULL);
	return came_in;
}

static void look_at_it(void)
{
	char text[96];

	CHECK(hwt_timeout_format(subject.timeout, text, sizeof(text)) > 0);
}

static struct shot second;
static unsigned seconds_first; /* ran before the subject */

static void in_order_task(hwt_timeout timeout, void *arg)
{
	shot_task(timeout, arg);
	seconds_first += arg == &second && subject.runs == 0;
}

static void start_in_order(struct shot *shot, int64_t deadline_ns)
{
	memset(shot, 0, sizeof(*shot));
	CHECK_INT(hwt_new_timeout_at(timer, in_order_task, shot, deadline_ns, &shot->timeout), ==, 0);
}

/* Two of one tick; in the middle of a look at the first the worker comes by.  false: the look has no such point. */
static bool looked_at_in_a_pass(int64_t tick, bool in_the_wheel, unsigned point)
{
	bool reached;

	begin(1000);
	seconds_first = 0;
	start_in_order(&subject, AT(5));
	start_in_order(&second, AT(5));
	if (in_the_wheel)
		pass(0);
	reached = pass_while(look_at_it, NULL, point, tick);
	hwt_check(timer);
	for (int64_t at = tick; at <= 7; at++)
		pass(at);
	CHECK_INT(subject.tick, ==, 5);
	CHECK_INT(second.tick, ==, 5);
	CHECK_INT(seconds_first, ==, 0);
	end();
	return reached;
}

/* G3: whatever the worker does in the middle of a look, taking in or running. */
TEST(a_look_changes_no_order)
{
	for (int i = 0; i < 3; i++) {
		unsigned point = 0;

		while (looked_at_in_a_pass(i < 2 ? 5 : 1, i == 0, point))
			REQUIRE(++point < 100);
		CHECK_INT(point, >, 1);
	}
}

static void cancel_in_the_look(const char *where)
{
	if (strcmp(where, "look") != 0)
		return;
	atomic_store(&hwt_test_point, NULL);
	CHECK_INT(hwt_cancel(subject.timeout), ==, 0);
}

/* Before it, or in the middle of it. */
TEST(a_look_at_one_that_is_not_pending_finds_nothing)
{
	int64_t deadline_ns = 0;

	begin(1000);
	start(&subject, AT(5), false);
	CHECK(record_read_deadline(subject.timeout.entry, subject.timeout.generation, &deadline_ns));
	CHECK_INT(deadline_ns, ==, AT(5));
	atomic_store(&hwt_test_point, cancel_in_the_look);
	CHECK(!record_read_deadline(subject.timeout.entry, subject.timeout.generation, &deadline_ns));
	CHECK(atomic_load(&hwt_test_point) == NULL);
	CHECK(!record_read_deadline(subject.timeout.entry, subject.timeout.generation, &deadline_ns));
	CHECK(!record_read_deadline(subject.timeout.entry, subject.timeout.generation - 1, &deadline_ns));
	end();
}

static void finish_job(void)
{
	kept_run(kept_job);
}

static void expect_at_50(void)
{
	for (int64_t tick = 1; tick < 50; tick++) {
		unchecked_pass(tick);
		CHECK(kept_run == NULL && subject.tick == 0);
	}
}

TEST(taken_in_while_somebody_looks_at_it)
{
	begin(1000);
	kept_run = NULL;
	start(&subject, AT(50), false);
	CHECK(pass_while(look_at_it, NULL, 1, 0));
	expect_at_50();
	pass(50);
	CHECK_INT(subject.tick, ==, 50);
	end();
}

static void taken_in_while_handed_over(void (*finaliser)(void *arg))
{
	hwt_config config = driven_config(TICK, 64);
	hwt_executor executor = { keep, NULL };
	hwt_spec spec = { sizeof(spec), to_50_task, &subject, AT(0), 0, finaliser, HWT_ABSOLUTE };

	config.executor = &executor;
	memset(&subject, 0, sizeof(subject));
	kept_run = NULL;
	timer = driven_create(&config, START);
	CHECK_INT(hwt_new_timeout_ex(timer, &spec, &subject.timeout), ==, 0);
	unchecked_pass(0);
	REQUIRE(kept_run != NULL);
	CHECK(pass_while(finish_job, "moved", 0, 0));
	subject.tick = 0;
	kept_run = NULL;
	expect_at_50();
	unchecked_pass(50);
	CHECK(kept_run != NULL);
	if (kept_run != NULL)
		kept_run(kept_job);
	end();
}

/* Also one whose word has no flag that makes the worker look at the deadline. */
TEST(taken_in_while_an_executor_hands_it_over)
{
	taken_in_while_handed_over(shot_release);
	taken_in_while_handed_over(NULL);
}

TEST_MAIN()
