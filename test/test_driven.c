/* SPDX-License-Identifier: BSD-2-Clause */
/* A timer in the caller's own loop: hwt_timer_advance, hwt_timer_fd, and a clock of the caller's own. */
#include "virtual.h"

#include <poll.h>
#include <sys/resource.h>

#define TICK_NS HWT_MS(1)
#define FAR_NS HWT_S(3600)

static bool is_readable(int fd, int64_t patience_ns)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };

	return poll(&wanted, 1, (int)(patience_ns / HWT_MS(1))) == 1 && (wanted.revents & POLLIN) != 0;
}

TEST(a_timer_with_a_worker_is_not_for_the_caller_to_drive)
{
	hwt_timer *timer = new_timer(TICK_NS, 512), *driven = driven_timer(0);
	int64_t next_ns = 17;
	int fd = 17;

	CHECK_RC(hwt_timer_advance(timer, hwt_now(), &next_ns), EINVAL);
	CHECK_RC(hwt_timer_fd(timer, &fd), EINVAL);
	CHECK_RC(hwt_timer_start(timer), 0);
	CHECK_RC(hwt_timer_advance(timer, hwt_now(), &next_ns), EINVAL);
	CHECK_RC(hwt_timer_fd(timer, &fd), EINVAL);
	CHECK_RC(hwt_timer_advance(NULL, 0, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_fd(NULL, &fd), EINVAL);
	CHECK_RC(hwt_timer_fd(driven, NULL), EINVAL);
	CHECK_INT(next_ns, ==, 17);
	CHECK_INT(fd, ==, 17);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_RC(hwt_timer_destroy(driven), 0);
}

TEST(what_is_due_runs_in_the_caller_and_the_answer_says_when)
{
	hwt_timer *timer = virtual_timer();
	atomic_uint ran[3] = { 0, 0, 0 };
	hwt_timeout far;

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran[0], HWT_MS(10), NULL), 0);
	CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran[1], HWT_MS(20) + 1, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran[2], FAR_NS, &far), 0);
	CHECK_INT(advance(timer, HWT_MS(10) - 1), ==, HWT_MS(10));
	CHECK_INT(ran[0], ==, 0);
	CHECK_INT(advance(timer, HWT_MS(10)), ==, HWT_MS(21));
	CHECK_INT(ran[0], ==, 1);
	CHECK_INT(advance(timer, HWT_MS(21) - 1), ==, HWT_MS(21));
	CHECK_INT(ran[1], ==, 0);
	CHECK_INT(advance(timer, HWT_MS(25)), ==, FAR_NS);
	CHECK_INT(ran[1], ==, 1);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
	CHECK_RC(hwt_cancel(far), 0);
	CHECK_INT(advance(timer, HWT_MS(26)), ==, INT64_MAX);
	CHECK_INT(advance(timer, FAR_NS + 1), ==, INT64_MAX);
	CHECK_INT(ran[0] + ran[1] + ran[2], ==, 2);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * Most timeouts are cancelled: the answer does not know of them any more.
 */

#define CANCELLED 3000

/* One a tick, taken in, and all but each `kept`-th cancelled; 0: all are. */
static void spread_and_cancel(hwt_timer *timer, atomic_uint *ran, unsigned kept)
{
	static hwt_timeout timeouts[CANCELLED];

	for (unsigned i = 0; i < CANCELLED; i++)
		CHECK_RC(hwt_new_timeout_at(timer, count_task, ran, (10 + i) * TICK_NS, &timeouts[i]), 0);
	CHECK_INT(advance(timer, 1), ==, 10 * TICK_NS);
	for (unsigned i = 0; i < CANCELLED; i++)
		if (kept == 0 || i % kept != 0)
			CHECK_RC(hwt_cancel(timeouts[i]), 0);
}

TEST(after_cancels_the_answer_is_never)
{
	hwt_timer *timer = virtual_timer();
	atomic_uint ran = 0;

	spread_and_cancel(timer, &ran, 0);
	CHECK_INT(advance(timer, TICK_NS), ==, INT64_MAX); /* in the tick of so much traffic it may be early */
	CHECK_INT(advance(timer, HWT_S(10)), ==, INT64_MAX);
	CHECK_INT(ran, ==, 0);
	CHECK_INT(stats_of(timer).ticks, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(after_cancels_the_answer_is_the_next_of_what_is_left)
{
	hwt_timer *timer = virtual_timer();
	atomic_uint ran = 0;
	unsigned calls = 0;
	int64_t next_ns;

	spread_and_cancel(timer, &ran, 100);
	for (next_ns = advance(timer, 2); next_ns != INT64_MAX; calls++) {
		CHECK_INT(next_ns, ==, (10 + 100 * calls) * TICK_NS);
		next_ns = advance(timer, next_ns);
		CHECK_INT(ran, ==, calls + 1);
		REQUIRE(calls < CANCELLED);
	}
	CHECK_INT(calls, ==, CANCELLED / 100);
	CHECK_INT(stats_of(timer).ticks, ==, CANCELLED / 100);
	CHECK_INT(stats_of(timer).wakeups, ==, CANCELLED / 100 + 3); /* one made the clock */
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

struct relay {
	hwt_timer *timer;
	int64_t delay_ns;
	unsigned runs, left;
};

static void relay_task(hwt_timeout timeout, void *arg)
{
	struct relay *relay = arg;

	(void)timeout;
	relay->runs++;
	if (relay->left-- > 0)
		CHECK_RC(hwt_new_timeout(relay->timer, relay_task, relay, relay->delay_ns, NULL), 0);
}

/* What a task schedules counts from the time that the call was told, and is in its answer. */
TEST(the_answer_knows_what_tasks_have_scheduled)
{
	struct relay relay = { .timer = virtual_timer(), .delay_ns = HWT_MS(5), .left = 3 };

	CHECK_RC(hwt_new_timeout(relay.timer, relay_task, &relay, HWT_MS(10), NULL), 0);
	CHECK_INT(advance(relay.timer, HWT_MS(3)), ==, HWT_MS(10));
	CHECK_INT(advance(relay.timer, HWT_MS(10)), ==, HWT_MS(15));
	CHECK_INT(advance(relay.timer, HWT_MS(15)), ==, HWT_MS(20));
	/* It comes late: the next one counts from then. */
	CHECK_INT(advance(relay.timer, HWT_MS(33)), ==, HWT_MS(38));
	CHECK_INT(advance(relay.timer, HWT_MS(38)), ==, INT64_MAX);
	CHECK_INT(relay.runs, ==, 4);
	CHECK_RC(hwt_timer_destroy(relay.timer), 0);
}

/* No delay: the next tick, so that an advance comes to an end. */
TEST(a_task_that_arms_itself_without_delay_does_not_keep_the_caller)
{
	struct relay relay = { .timer = virtual_timer(), .delay_ns = 0, .left = 1000 };

	CHECK_RC(hwt_new_timeout(relay.timer, relay_task, &relay, 0, NULL), 0);
	CHECK_INT(advance(relay.timer, HWT_MS(1)), ==, HWT_MS(2));
	for (int64_t ms = 2; ms <= 11; ms++)
		CHECK_INT(advance(relay.timer, HWT_MS(ms)), ==, HWT_MS(ms + 1));
	CHECK_INT(relay.runs, ==, 11);
	CHECK_RC(hwt_timer_destroy(relay.timer), 0);
}

static hwt_timer *slow_timer(uint32_t max_transfers)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = HWT_MS(10);
	config.max_transfers_per_tick = max_transfers;
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	return timer;
}

/* What had been accepted before the call is not late, however little is taken in at a time. */
TEST(more_than_the_transfers_of_a_tick_are_not_late)
{
	static const uint32_t limits[] = { 1, 2, 4, 5, 1000 };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		hwt_timer *timer = slow_timer(limits[i]);
		struct run runs[60];
		unsigned places = 0;

		for (unsigned j = 0; j < 60; j++) {
			int64_t delay_ns = j < 10 ? HWT_MS(10) : j < 30 ? HWT_MS(20) : HWT_S(1000);

			runs[j] = (struct run){ .not_before_ns = INT64_MIN, .places = &places };
			CHECK_RC(hwt_new_timeout(timer, run_task, &runs[j], delay_ns, NULL), 0);
		}
		CHECK_INT(advance(timer, HWT_MS(20)), ==, HWT_S(1000));
		CHECK_INT(places, ==, 30);
		for (unsigned j = 1; j < 30; j++)
			CHECK(runs[j - 1].place < runs[j].place);
		CHECK_INT(advance(timer, HWT_S(1000)), ==, INT64_MAX);
		CHECK_INT(places, ==, 60);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

static void overdue_task(hwt_timeout timeout, void *arg)
{
	++*(unsigned *)arg;
	CHECK_RC(hwt_new_timeout_at(hwt_timeout_timer(timeout), overdue_task, arg, -1, NULL), 0);
}

static void overdue_again_task(hwt_timeout timeout, void *arg)
{
	++*(unsigned *)arg;
	CHECK_RC(hwt_reschedule_at(timeout, -1), 0);
}

/* Overdue means the next tick: once in each, also while more is taken in. */
TEST(what_is_overdue_at_once_runs_once_a_tick_also_beyond_the_transfers_of_one)
{
	hwt_timer *timer = slow_timer(1);
	unsigned ran = 0, ran_again = 0;

	for (unsigned j = 0; j < 10; j++) {
		CHECK_RC(hwt_new_timeout(timer, overdue_task, &ran, HWT_MS(10), NULL), 0);
		CHECK_RC(hwt_new_timeout(timer, overdue_again_task, &ran_again, HWT_MS(10), NULL), 0);
	}
	for (unsigned tick = 1; tick <= 5; tick++) {
		int64_t now_ns = HWT_MS(10 * tick), next_ns;
		unsigned calls = 0;

		do {
			next_ns = advance(timer, now_ns);
		} while (next_ns <= now_ns && ++calls < 10);
		CHECK_INT(next_ns, ==, now_ns + HWT_MS(10));
		CHECK_INT(ran, ==, 10 * tick);
		CHECK_INT(ran_again, ==, 10 * tick);
	}
	CHECK_INT(stats_of(timer).ticks, ==, 5);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(time_that_goes_back_runs_nothing)
{
	hwt_timer *timer = virtual_timer();
	atomic_uint ran = 0;

	advance(timer, HWT_S(10));
	CHECK_INT(advance(timer, HWT_S(5)), ==, INT64_MAX);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_S(1), NULL), 0); /* from the latest: 11 s */
	CHECK_INT(advance(timer, HWT_S(5)), ==, HWT_S(11));
	CHECK_INT(advance(timer, HWT_S(11) - 1), ==, HWT_S(11));
	CHECK_INT(ran, ==, 0);
	advance(timer, HWT_S(11));
	CHECK_INT(ran, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

#define MANY 1000

/* A day at once: tick by tick, in order. */
TEST(a_leap_runs_everything_in_the_order_of_ticks)
{
	hwt_timer *timer = virtual_timer();
	struct prng prng = { test_seed("a_leap") };
	static struct run runs[MANY];
	unsigned places = 0;
	int64_t ticks[MANY];

	for (unsigned i = 0; i < MANY; i++) {
		ticks[i] = prng_between(&prng, 1, 50);
		runs[i] = (struct run){ .not_before_ns = INT64_MIN, .places = &places };
		CHECK_RC(hwt_new_timeout(timer, run_task, &runs[i], ticks[i] * HWT_S(1000), NULL), 0);
	}
	CHECK_INT(advance(timer, HWT_S(86400)), ==, INT64_MAX);
	CHECK_INT(places, ==, MANY);
	for (unsigned i = 0; i < MANY; i++)
		for (unsigned j = i + 1; j < MANY; j++)
			CHECK(ticks[i] <= ticks[j] ? runs[i].place < runs[j].place : runs[i].place > runs[j].place);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void reentering_task(hwt_timeout timeout, void *arg)
{
	hwt_timer *timer = hwt_timeout_timer(timeout);
	int64_t next_ns = 17;
	int fd = 17;

	CHECK_RC(hwt_timer_advance(timer, HWT_S(100), &next_ns), EBUSY);
	CHECK_RC(hwt_timer_stop(timer, NULL), EDEADLK);
	CHECK_RC(hwt_timer_destroy(timer), EDEADLK);
	CHECK(hwt_timer_fd(timer, &fd) != 0);
	CHECK_INT(next_ns, ==, 17);
	CHECK_INT(fd, ==, 17);
	atomic_fetch_add((atomic_uint *)arg, 1);
}

TEST(a_task_cannot_advance_stop_or_destroy)
{
	hwt_timer *timer = virtual_timer(), *other = virtual_timer();
	atomic_uint ran = 0;

	CHECK_RC(hwt_new_timeout(timer, reentering_task, &ran, 1, NULL), 0);
	advance(timer, HWT_MS(1));
	CHECK_INT(ran, ==, 1);
	/* Outside it may, and the other timer was never concerned. */
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_timer_stop(other, NULL), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_RC(hwt_timer_destroy(other), 0);
}

struct gate {
	hwt_timer *timer;
	atomic_uint entered, open;
	int64_t after_ms;
	int rc;
};

static void gate_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;

	(void)timeout;
	atomic_store(&gate->entered, 1);
	REQUIRE(wait_count(&gate->open, 1));
}

static void *advance_thread(void *arg)
{
	struct gate *gate = arg;

	gate->rc = hwt_timer_advance(gate->timer, HWT_S(1), NULL);
	return NULL;
}

/* Opens the gate some time after a stop has begun. */
static void *open_thread(void *arg)
{
	struct gate *gate = arg;
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;

	while (hwt_timer_start(gate->timer) != ECANCELED) {
		REQUIRE(hwt_now() < give_up_ns);
		sleep_ns(HWT_US(200));
	}
	sleep_ms(gate->after_ms);
	atomic_store(&gate->open, 1);
	return NULL;
}

TEST(one_thread_at_a_time_advances)
{
	struct gate gate = { .timer = virtual_timer() };
	struct crew crew;
	int64_t next_ns = 17;
	int fd = 17;

	CHECK_RC(hwt_new_timeout(gate.timer, gate_task, &gate, HWT_MS(1), NULL), 0);
	crew_start(&crew, 1, advance_thread, &gate, 0);
	REQUIRE(wait_count(&gate.entered, 1));
	CHECK_RC(hwt_timer_advance(gate.timer, HWT_S(2), &next_ns), EBUSY);
	CHECK_INT(next_ns, ==, 17);
	CHECK(hwt_timer_fd(gate.timer, &fd) != 0);
	atomic_store(&gate.open, 1);
	crew_join(&crew);
	CHECK_INT(gate.rc, ==, 0);
	CHECK_INT(advance(gate.timer, HWT_S(2)), ==, INT64_MAX);
	CHECK_RC(hwt_timer_destroy(gate.timer), 0);
}

/* Returns what the advance did: 0 if it was over before the stop reached it, as that took longer than after_ms. */
static int stop_in_an_advance(int64_t after_ms)
{
	struct gate gate = { .timer = virtual_timer(), .after_ms = after_ms };
	hwt_unprocessed unprocessed;
	atomic_uint ran = 0;
	struct crew crew, opener;
	size_t said = 0, returned = 0;
	int64_t next_ns = 17;

	CHECK_RC(hwt_new_timeout(gate.timer, gate_task, &gate, HWT_MS(1), NULL), 0);
	for (int i = 0; i < 1000; i++)
		CHECK_RC(hwt_new_timeout(gate.timer, count_task, &ran, HWT_MS(1 + i % 3), NULL), 0);
	crew_start(&crew, 1, advance_thread, &gate, 0);
	REQUIRE(wait_count(&gate.entered, 1));
	crew_start(&opener, 1, open_thread, &gate, 0);
	CHECK_RC(hwt_timer_stop(gate.timer, &said), 0);
	CHECK_INT(atomic_load(&gate.open), ==, 1);
	crew_join(&crew);
	crew_join(&opener);
	CHECK(gate.rc == ECANCELED || (gate.rc == 0 && ran == 1000));
	while (hwt_timer_next_unprocessed(gate.timer, &unprocessed))
		returned++;
	CHECK_INT(returned, ==, said);
	CHECK_INT(returned + ran, ==, 1000);
	CHECK_RC(hwt_timer_advance(gate.timer, HWT_S(3), &next_ns), ECANCELED);
	CHECK_RC(hwt_new_timeout(gate.timer, count_task, &ran, 0, NULL), ECANCELED);
	CHECK_INT(next_ns, ==, 17);
	CHECK_RC(hwt_timer_destroy(gate.timer), 0);
	return gate.rc;
}

/* Stop waits for the task that runs; those due behind it are handed back. */
TEST(stop_ends_an_advance)
{
	int64_t after_ms = 20;

	while (stop_in_an_advance(after_ms) == 0)
		REQUIRE(HWT_MS(after_ms *= 2) < PATIENCE_NS / 10);
}

TEST(what_was_never_advanced_is_handed_back)
{
	hwt_timer *timer = driven_timer(0);
	hwt_unprocessed unprocessed;
	atomic_uint ran = 0;
	hwt_timeout timeout;
	size_t said = 0;
	int fd = 17;

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, &timeout), 0);
	sleep_ms(5);
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_PENDING);
	CHECK_RC(hwt_timer_stop(timer, &said), 0);
	CHECK_INT(said, ==, 1);
	CHECK(hwt_timer_next_unprocessed(timer, &unprocessed) && same_handle(unprocessed.timeout, timeout));
	CHECK_RC(hwt_timer_fd(timer, &fd), ECANCELED);
	CHECK_INT(fd, ==, 17);
	CHECK_INT(ran, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* On CLOCK_MONOTONIC: never early, also when the loop has told nothing for a while. */
TEST(delays_count_from_the_clock)
{
	hwt_timer *timer = driven_timer(0);
	struct run run = { .not_before_ns = 0 };
	int64_t next_ns = advance(timer, hwt_now());

	CHECK_INT(next_ns, ==, INT64_MAX);
	sleep_ms(30);
	run.not_before_ns = hwt_now() + HWT_MS(20);
	CHECK_RC(hwt_new_timeout(timer, run_task, &run, HWT_MS(20), NULL), 0);
	next_ns = advance(timer, hwt_now());
	CHECK_INT(next_ns, >=, run.not_before_ns);
	for (int i = 0; i < 10000 && run.ran == 0; i++) {
		sleep_ns(HWT_US(300));
		advance(timer, hwt_now());
	}
	CHECK_INT(run.ran, ==, 1);
	/* Told of a later time than it is: from then. */
	next_ns = hwt_now() + FAR_NS;
	CHECK_INT(advance(timer, next_ns), ==, INT64_MAX);
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_MS(20), NULL), 0);
	CHECK_INT(advance(timer, hwt_now()), >, next_ns);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(the_descriptor_is_readable_when_there_is_something_to_do)
{
	hwt_timer *timer = driven_timer(0);
	atomic_uint ran = 0;
	int fd = -1, again = -1;
	int64_t now_ns;

	NEEDS_LINUX();
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK_RC(hwt_timer_fd(timer, &again), 0);
	CHECK_INT(fd, >=, 0);
	CHECK_INT(again, ==, fd);
	CHECK(is_readable(fd, PATIENCE_NS)); /* the first time at once */
	CHECK_INT(advance(timer, hwt_now()), ==, INT64_MAX);
	CHECK(!is_readable(fd, HWT_MS(20)));
	/* Scheduled by this thread: there is something to do.  Told of the time before, it runs nothing. */
	now_ns = hwt_now();
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(30), NULL), 0);
	CHECK(is_readable(fd, PATIENCE_NS));
	advance(timer, now_ns);
	CHECK_INT(ran, ==, 0);
	CHECK(is_readable(fd, PATIENCE_NS));
	for (int i = 0; i < 1000 && ran == 0; i++) {
		CHECK(is_readable(fd, PATIENCE_NS));
		advance(timer, hwt_now());
	}
	CHECK_INT(ran, ==, 1);
	/* A later one than the next does not disturb. */
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, FAR_NS, NULL), 0);
	advance(timer, hwt_now());
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 2 * FAR_NS, NULL), 0);
	CHECK(!is_readable(fd, HWT_MS(20)));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void *schedule_thread(void *arg)
{
	struct gate *gate = arg;

	sleep_ms(20);
	CHECK_RC(hwt_new_timeout(gate->timer, count_task, &gate->entered, HWT_MS(1), NULL), 0);
	return NULL;
}

TEST(another_threads_earlier_timeout_makes_it_readable)
{
	NEEDS_LINUX();
	for (int round = 0; round < 20; round++) {
		struct gate gate = { .timer = driven_timer(0) };
		struct crew crew;
		int fd = -1;

		CHECK_RC(hwt_timer_fd(gate.timer, &fd), 0);
		if (round % 2 == 0)
			CHECK_RC(hwt_new_timeout(gate.timer, count_task, &gate.open, FAR_NS, NULL), 0);
		advance(gate.timer, hwt_now());
		crew_start(&crew, 1, schedule_thread, &gate, 0);
		while (atomic_load(&gate.entered) == 0) {
			REQUIRE(is_readable(fd, PATIENCE_NS));
			advance(gate.timer, hwt_now());
		}
		crew_join(&crew);
		CHECK_RC(hwt_timer_destroy(gate.timer), 0);
	}
}

/* G5: what has gathered wants to be taken in, however far the next deadline is. */
TEST(cancelled_timeouts_make_it_readable_in_time)
{
	hwt_timer *timer = driven_timer(0);
	hwt_timeout timeouts[2] = { HWT_TIMEOUT_NONE, HWT_TIMEOUT_NONE };
	int fd = -1;

	NEEDS_LINUX();
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, FAR_NS, NULL), 0);
	advance(timer, hwt_now());
	CHECK(!is_readable(fd, 0));
	for (int i = 0; i < 5000; i++) { /* not the newest: that would gather nothing */
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, 2 * FAR_NS, &timeouts[i % 2]), 0);
		CHECK_RC(hwt_cancel(timeouts[(i + 1) % 2]), i == 0 ? ENOENT : 0);
	}
	CHECK_RC(hwt_cancel(timeouts[1]), 0);
	CHECK(is_readable(fd, PATIENCE_NS));
	CHECK_INT(advance(timer, hwt_now()), >, hwt_now() + FAR_NS / 2);
	CHECK(!is_readable(fd, 0));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(no_descriptor_for_a_clock_of_ones_own)
{
	hwt_timer *timer = flagged_timer(HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK, 0);
	int fd = 17;

	CHECK_RC(hwt_timer_fd(timer, &fd), EINVAL);
	CHECK_RC(hwt_timer_start(timer), 0);
	CHECK_RC(hwt_timer_fd(timer, &fd), EINVAL);
	CHECK_RC(hwt_timer_advance(timer, 1, NULL), 0);
	CHECK_RC(hwt_timer_fd(timer, &fd), EINVAL);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_timer_fd(timer, &fd), EINVAL);
	CHECK_INT(fd, ==, 17);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Whatever call is the first one, and whatever time is told first. */
TEST(a_virtual_clock_begins_at_0)
{
	static const int64_t told_ns[] = { 0, 1, HWT_S(1000000) };

	for (unsigned way = 0; way < 6; way++) {
		hwt_timer *timer = flagged_timer(HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK, 0);
		int64_t first_ns = told_ns[way / 2];
		atomic_uint ran = 0;

		if (way % 2 == 0)
			CHECK_RC(hwt_timer_start(timer), 0);
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(10), NULL), 0);
		CHECK_INT(advance(timer, first_ns), ==, first_ns > HWT_MS(10) ? INT64_MAX : HWT_MS(10));
		CHECK_INT(ran, ==, first_ns > HWT_MS(10));
		CHECK_INT(advance(timer, HWT_S(2000000)), ==, INT64_MAX);
		CHECK_INT(ran, ==, 1);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* Neither as the first time nor later, and nothing is changed: the answer, the clock, what is pending. */
TEST(a_virtual_clock_has_no_time_below_0)
{
	static const int64_t told_ns[] = { INT64_MIN, -HWT_MS(10), -1 };
	hwt_timer *timer = flagged_timer(HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK, 0);
	int64_t next_ns = 77, start_ns = 77;
	atomic_uint ran = 0;

	CHECK_RC(hwt_timer_advance(timer, -1, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_grid(timer, &start_ns), ENOENT);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(10), NULL), 0);
	for (unsigned i = 0; i < 6; i++) {
		CHECK_RC(hwt_timer_advance(timer, told_ns[i % 3], &next_ns), EINVAL);
		CHECK_INT(next_ns, ==, 77);
		CHECK_INT(advance(timer, 0), ==, HWT_MS(10));
	}
	CHECK_INT(stats_of(timer).wakeups, ==, 6);
	CHECK_INT(advance(timer, HWT_MS(10)), ==, INT64_MAX);
	CHECK_INT(ran, ==, 1);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, -1, &next_ns), ECANCELED);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* As of a loop that reads the clock once a turn: it has a descriptor, and tasks do not start early. */
TEST(a_first_time_that_is_old_makes_no_clock_of_its_own)
{
	static const int64_t ages_ns[] = { HWT_MS(900), HWT_MS(1500), HWT_S(60) };

	NEEDS_LINUX();
	for (unsigned i = 0; i < sizeof(ages_ns) / sizeof(ages_ns[0]); i++) {
		hwt_timer *timer = driven_timer(0);
		struct run run = { .not_before_ns = 0 };
		int64_t told_ns = hwt_now() > ages_ns[i] ? hwt_now() - ages_ns[i] : 1;
		int fd = -1;

		CHECK_INT(advance(timer, told_ns), ==, INT64_MAX);
		CHECK_RC(hwt_timer_fd(timer, &fd), 0);
		CHECK(is_readable(fd, PATIENCE_NS));
		run.not_before_ns = hwt_now() + HWT_MS(50);
		CHECK_RC(hwt_new_timeout(timer, run_task, &run, HWT_MS(50), NULL), 0);
		CHECK_INT(advance(timer, told_ns), >=, run.not_before_ns);
		CHECK_INT(run.ran, ==, 0);
		for (int turn = 0; turn < 1000 && run.ran == 0; turn++) {
			CHECK(is_readable(fd, PATIENCE_NS));
			advance(timer, hwt_now());
		}
		CHECK_INT(run.ran, ==, 1);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* What programs of before the flag began with: they are told, and the timer is as before. */
TEST(a_first_time_that_is_none_of_the_clock_is_refused)
{
	static const int64_t bad_ns[] = { 0, -1, INT64_MIN };
	hwt_timer *timer = driven_timer(0);
	int64_t next_ns = 17;
	int fd = -1;

	NEEDS_LINUX();
	for (unsigned i = 0; i < sizeof(bad_ns) / sizeof(bad_ns[0]); i++)
		CHECK_RC(hwt_timer_advance(timer, bad_ns[i], &next_ns), EINVAL);
	CHECK_INT(next_ns, ==, 17);
	CHECK_INT(stats_of(timer).wakeups, ==, 0);
	CHECK_INT(advance(timer, hwt_now()), ==, INT64_MAX);
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	/* Later ones are times that go back. */
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, FAR_NS, NULL), 0);
	for (unsigned i = 0; i < sizeof(bad_ns) / sizeof(bad_ns[0]); i++)
		CHECK_INT(advance(timer, bad_ns[i]), >, FAR_NS);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, 0, NULL), ECANCELED);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(without_descriptors_left_it_fails_and_works_later)
{
	hwt_timer *timer = driven_timer(0);
	struct rlimit before, none;
	int fd = 17;

	NEEDS_LINUX();
	REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = before;
	none.rlim_cur = 0;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHECK_RC(hwt_timer_fd(timer, &fd), EMFILE);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
	CHECK_INT(fd, ==, 17);
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK(is_readable(fd, PATIENCE_NS));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* The law, with an event loop and producers that schedule, cancel and look. */

#define PRODUCERS 4
#define EACH 20000

struct producer {
	hwt_timer *timer;
	uint64_t seed;
	atomic_uint *done, *ran;
	unsigned cancelled;
};

struct stamp {
	int64_t not_before_ns;
	atomic_uint *ran;
};

static void stamp_task(hwt_timeout timeout, void *arg)
{
	struct stamp *stamp = arg;

	CHECK(hwt_timeout_state(timeout) == HWT_RUNNING);
	CHECK_INT(hwt_now(), >=, stamp->not_before_ns);
	atomic_fetch_add(stamp->ran, 1);
	free(stamp);
}

static void *produce(void *arg)
{
	struct producer *producer = arg;
	struct prng prng = { producer->seed };

	for (unsigned i = 0; i < scaled(EACH); i++) {
		int64_t delay_ns = prng_below(&prng, 4) == 0 ? FAR_NS : prng_between(&prng, 0, HWT_MS(8));
		struct stamp *stamp = malloc(sizeof(*stamp));
		hwt_timeout timeout;

		REQUIRE(stamp != NULL);
		*stamp = (struct stamp){ hwt_now() + delay_ns, producer->ran };
		CHECK_RC(hwt_new_timeout(producer->timer, stamp_task, stamp, delay_ns, &timeout), 0);
		if (delay_ns == FAR_NS || prng_below(&prng, 2) == 0) {
			if (hwt_cancel(timeout) == 0) {
				producer->cancelled++;
				free(stamp);
			}
		}
		if (prng_below(&prng, 2000) == 0)
			sleep_ms((int64_t)prng_below(&prng, 10));
	}
	atomic_fetch_add(producer->done, 1);
	return NULL;
}

TEST(nothing_is_lost_in_an_event_loop)
{
	hwt_timer *timer = driven_timer(0);
	struct producer producers[PRODUCERS];
	uint64_t seed = test_seed("nothing_is_lost");
	atomic_uint done = 0, ran = 0;
	unsigned cancelled = 0;
	struct crew crew;
	int fd = -1;

	NEEDS_LINUX();
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	for (unsigned i = 0; i < PRODUCERS; i++)
		producers[i] = (struct producer){ timer, seed + i, &done, &ran, 0 };
	crew_start(&crew, PRODUCERS, produce, producers, sizeof(*producers));
	while (atomic_load(&done) < PRODUCERS || hwt_pending_timeouts(timer) > 0) {
		/* A caller that comes late to the end finds nothing to wait for: no longer than a second. */
		(void)is_readable(fd, HWT_S(1));
		advance(timer, hwt_now());
	}
	crew_join(&crew);
	for (unsigned i = 0; i < PRODUCERS; i++)
		cancelled += producers[i].cancelled;
	CHECK_INT(atomic_load(&ran) + cancelled, ==, PRODUCERS * scaled(EACH));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_limit_holds_and_makes_room)
{
	hwt_timer *timer = limited_virtual_timer(2);
	atomic_uint ran = 0;

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(1), NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(2), NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(3), NULL), ENOBUFS);
	advance(timer, HWT_MS(1));
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(3), NULL), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* In real time: the descriptor of a timer whose timeouts have been cancelled is quiet. */
TEST(after_cancels_the_descriptor_is_readable_at_most_once)
{
	static hwt_timeout timeouts[CANCELLED];
	hwt_timer *timer = driven_timer(0);
	atomic_uint ran = 0;
	int64_t began_ns = hwt_now(), first_ns = began_ns + HWT_MS(700);
	int fd;

	NEEDS_LINUX();
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	for (unsigned i = 0; i < CANCELLED; i++)
		CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, first_ns + i * TICK_NS, &timeouts[i]), 0);
	advance(timer, began_ns); /* told of that time none runs, however late it is */
	for (unsigned i = 0; i < CANCELLED; i++)
		CHECK_RC(hwt_cancel(timeouts[i]), 0);
	CHECK(is_readable(fd, PATIENCE_NS)); /* when the first one would have been due, or before */
	CHECK_INT(advance(timer, hwt_now()), ==, INT64_MAX);
	CHECK(!is_readable(fd, HWT_MS(800)));
	CHECK_INT(ran, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static int busy_rc;

static void ask_what_is_left(hwt_timeout timeout, void *arg)
{
	int64_t left_ns = 4711;

	busy_rc = hwt_timeout_left(timeout, &left_ns);
	CHECK_INT(left_ns, ==, 4711);
	count_task(timeout, arg);
}

TEST(what_is_left_is_told_by_the_timers_own_clock)
{
	hwt_timer *timer = virtual_timer();
	hwt_timeout timeout, periodic, never, cancelled;
	atomic_uint ran = 0;
	int64_t left_ns = -1;

	busy_rc = -1;
	CHECK_RC(hwt_timeout_left(HWT_TIMEOUT_NONE, &left_ns), ENOENT);
	CHECK_RC(hwt_new_timeout(timer, ask_what_is_left, &ran, HWT_MS(10), &timeout), 0);
	CHECK_RC(hwt_new_periodic(timer, count_task, &ran, HWT_MS(20), HWT_MS(30), &periodic), 0);
	CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, INT64_MAX, &never), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(10), &cancelled), 0);
	CHECK_RC(hwt_timeout_left(timeout, NULL), EINVAL);
	CHECK_RC(hwt_timeout_left(timeout, &left_ns), 0);
	CHECK_INT(left_ns, ==, HWT_MS(10)); /* in the lane */
	CHECK_RC(hwt_timer_advance(timer, HWT_MS(4), NULL), 0);
	CHECK_RC(hwt_timeout_left(timeout, &left_ns), 0);
	CHECK_INT(left_ns, ==, HWT_MS(6)); /* in the wheel */
	CHECK_RC(hwt_timeout_left(periodic, &left_ns), 0);
	CHECK_INT(left_ns, ==, HWT_MS(16));
	CHECK_RC(hwt_timeout_left(never, &left_ns), 0);
	CHECK_INT(left_ns, ==, INT64_MAX);
	CHECK_RC(hwt_reschedule(timeout, HWT_MS(40)), 0);
	CHECK_RC(hwt_timeout_left(timeout, &left_ns), 0);
	CHECK_INT(left_ns, ==, HWT_MS(40));
	CHECK_RC(hwt_reschedule_at(timeout, -5), 0);
	CHECK_RC(hwt_timeout_left(timeout, &left_ns), 0);
	CHECK_INT(left_ns, ==, -HWT_MS(4) - 5); /* due, and not advanced yet */
	CHECK_RC(hwt_cancel(cancelled), 0);
	left_ns = 4711;
	CHECK_RC(hwt_timeout_left(cancelled, &left_ns), ENOENT);
	CHECK_RC(hwt_timer_advance(timer, HWT_MS(21), NULL), 0);
	CHECK_INT(ran, ==, 2);
	CHECK_INT(busy_rc, ==, EBUSY);
	CHECK_RC(hwt_timeout_left(timeout, &left_ns), ENOENT);
	CHECK_INT(left_ns, ==, 4711);
	CHECK_RC(hwt_timeout_left(periodic, &left_ns), 0);
	CHECK_INT(left_ns, ==, HWT_MS(29));
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_timeout_left(periodic, &left_ns), ENOENT);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void ask_for_the_next(hwt_timeout timeout, void *arg)
{
	int64_t next_ns = 4711;

	CHECK_RC(hwt_timer_next(hwt_timeout_timer(timeout), &next_ns), EBUSY);
	CHECK_INT(next_ns, ==, 4711);
	count_task(timeout, arg);
}

TEST(the_next_time_is_asked_for_without_running_anything)
{
	hwt_timer *timer = flagged_timer(HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK, 0), *other = new_timer(HWT_MS(1), 64);
	hwt_timeout timeout;
	atomic_uint ran = 0;
	int64_t next_ns = -1, told_ns = -1;

	CHECK_RC(hwt_timer_next(NULL, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_next(timer, NULL), EINVAL);
	CHECK_RC(hwt_timer_next(other, &next_ns), EINVAL);
	CHECK_INT(next_ns, ==, -1);
	CHECK_RC(hwt_timer_next(timer, &next_ns), 0);
	CHECK_INT(next_ns, ==, INT64_MAX);
	CHECK_RC(hwt_new_timeout(timer, ask_for_the_next, &ran, HWT_MS(10), &timeout), 0);
	CHECK_RC(hwt_timer_next(timer, &next_ns), 0);
	CHECK_INT(next_ns, <=, 0); /* somebody has to look at it */
	CHECK_RC(hwt_timer_advance(timer, HWT_MS(3), &told_ns), 0);
	CHECK_RC(hwt_timer_next(timer, &next_ns), 0);
	CHECK_INT(next_ns, ==, told_ns);
	CHECK_INT(next_ns, ==, HWT_MS(10));
	CHECK_RC(hwt_reschedule(timeout, HWT_MS(5)), 0);
	CHECK_RC(hwt_timer_next(timer, &next_ns), 0);
	CHECK_INT(next_ns, <=, HWT_MS(3));
	CHECK_RC(hwt_timer_advance(timer, HWT_MS(3), &told_ns), 0);
	CHECK_RC(hwt_timer_next(timer, &next_ns), 0);
	CHECK_INT(next_ns, ==, told_ns);
	CHECK_INT(next_ns, ==, HWT_MS(8));
	CHECK_INT(ran, ==, 0);
	CHECK_RC(hwt_timer_advance(timer, HWT_MS(8), &told_ns), 0);
	CHECK_INT(ran, ==, 1);
	CHECK_RC(hwt_timer_next(timer, &next_ns), 0);
	CHECK_INT(next_ns, ==, INT64_MAX);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	next_ns = 4711;
	CHECK_RC(hwt_timer_next(timer, &next_ns), ECANCELED);
	CHECK_INT(next_ns, ==, 4711);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_RC(hwt_timer_destroy(other), 0);
}

struct asker {
	hwt_timer *timer;
	atomic_bool over;
	unsigned answers;
};

static void *keep_asking(void *arg)
{
	struct asker *asker = arg;

	while (!atomic_load(&asker->over)) {
		int64_t next_ns = 0;
		int rc = hwt_timer_next(asker->timer, &next_ns);

		CHECK(rc == EBUSY || (rc == 0 && (next_ns % HWT_MS(1) == 0 || next_ns == INT64_MAX)));
		asker->answers += rc == 0;
	}
	return NULL;
}

/* An advance is not refused because somebody asks. */
TEST(another_thread_may_ask_for_the_next_time)
{
	struct asker asker = { .timer = virtual_timer() };
	pthread_t thread;
	atomic_uint ran = 0;

	REQUIRE(pthread_create(&thread, NULL, keep_asking, &asker) == 0);
	for (unsigned i = 1; i <= 3000; i++) {
		CHECK_RC(hwt_new_timeout(asker.timer, count_task, &ran, HWT_MS(2), NULL), 0);
		CHECK_RC(hwt_timer_advance(asker.timer, HWT_MS(i), NULL), 0);
	}
	atomic_store(&asker.over, true);
	REQUIRE(pthread_join(thread, NULL) == 0);
	CHECK_INT(ran, ==, 2999);
	CHECK_RC(hwt_timer_destroy(asker.timer), 0);
}

TEST_MAIN()
