/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What hwt_reschedule does to records: in a stop, without memory, and which call wakes a worker that falls asleep
 * between the two halves of a call; and looks at a deadline.
 */
#include "check/check.h"
#include "unit.h"

#define START HWT_S(1000)
#define TICK HWT_MS(1)
#define AT(tick) (START + (tick)*TICK)

static hwt_timer *timer;

static void begin(void)
{
	hwt_config config = driven_config(TICK, 64);

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
	unsigned runs;
	int64_t tick; /* of the last run */
};

static void shot_task(hwt_timeout timeout, void *arg)
{
	struct shot *shot = arg;

	(void)timeout;
	shot->runs++;
	shot->tick = timer->wheel->tick;
}

static void start(struct shot *shot, int64_t deadline_ns)
{
	memset(shot, 0, sizeof(*shot));
	CHECK_INT(hwt_new_timeout_at(timer, shot_task, shot, deadline_ns, &shot->timeout), ==, 0);
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

/* A stop closes the lanes before it looks at what is pending, and finds this one where it is. */
TEST(one_that_is_moved_in_a_stop_is_not_pushed)
{
	hwt_unprocessed unprocessed;
	struct shot shot;
	size_t said = 0;

	begin();
	start(&shot, AT(50));
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

/*
 * Want of memory
 */

#define MANY 2000

/* Many records and few nodes: they were taken in a few at a time. */
static void start_many(struct shot *shots, int64_t tick)
{
	for (unsigned i = 0; i < MANY; i++) {
		start(&shots[i], AT(tick));
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

	begin();
	start_many(shots, 500);
	start(&queued, AT(500));
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
	return lane_at(&timer->lanes, (hwt_own_number + 1) & timer->lanes.last_seat);
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

TEST(moved_earlier_while_another_moves_it_earlier)
{
	begin();
	start(&subject, AT(90));
	pass(0);
	open_gap("queue push", move_to_10);
	CHECK_INT(hwt_reschedule_at(subject.timeout, AT(50)), ==, 0);
	close_gap();
	pass(10);
	CHECK_INT(subject.tick, ==, 10);
	end();
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

	begin();
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

static void cancel_it(void)
{
	CHECK_INT(hwt_cancel(subject.timeout), ==, 0);
}

/* Before it, or in the middle of it. */
TEST(a_look_at_one_that_is_not_pending_finds_nothing)
{
	int64_t deadline_ns = 0;

	begin();
	start(&subject, AT(5));
	CHECK(record_read_deadline(subject.timeout.entry, subject.timeout.generation, &deadline_ns));
	CHECK_INT(deadline_ns, ==, AT(5));
	meanwhile("look", cancel_it);
	CHECK(!record_read_deadline(subject.timeout.entry, subject.timeout.generation, &deadline_ns));
	CHECK(meanwhile_came());
	CHECK(!record_read_deadline(subject.timeout.entry, subject.timeout.generation, &deadline_ns));
	CHECK(!record_read_deadline(subject.timeout.entry, subject.timeout.generation - 1, &deadline_ns));
	end();
}

TEST_MAIN()
