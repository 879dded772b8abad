/* SPDX-License-Identifier: BSD-2-Clause */
/* HWT_COLLECT: no task is called, hwt_timer_advance_batch hands out what is due. */
#include "support.h"

#include <poll.h>

#define BATCH 64

static hwt_config collecting(uint32_t flags)
{
	hwt_config config = HWT_CONFIG_INIT;

	config.tick_duration_ns = HWT_MS(1);
	config.ticks_per_wheel = 16;
	config.flags = HWT_CALLER_DRIVEN | HWT_COLLECT | flags;
	return config;
}

static hwt_timer *made(const hwt_config *config)
{
	hwt_timer *timer = NULL;

	REQUIRE(hwt_timer_create(&timer, config) == 0);
	return timer;
}

static hwt_timer *collecting_timer(void)
{
	hwt_config config = collecting(HWT_VIRTUAL_CLOCK);

	return made(&config);
}

static hwt_timeout schedule(hwt_timer *timer, uintptr_t number, int64_t delay_ns)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	CHECK_RC(hwt_new_timeout(timer, NULL, (void *)number, delay_ns, &timeout), 0);
	return timeout;
}

/* What the last batch had. */
static hwt_fired fired[BATCH + 1];
static size_t count;

static uintptr_t number(size_t i)
{
	return (uintptr_t)fired[i].arg;
}

/* Returns the answer.  What is behind the room is not touched. */
static int64_t advance(hwt_timer *timer, int64_t now_ns, size_t room)
{
	int64_t next_ns = -1, asked_ns = -1;

	fired[room] = (hwt_fired){ { &count, 4711 }, &count, 4711 };
	count = SIZE_MAX;
	CHECK_RC(hwt_timer_advance_batch(timer, now_ns, fired, room, &count, &next_ns), 0);
	CHECK_INT(count, <=, room);
	CHECK(fired[room].timeout.entry == &count && fired[room].missed == 4711);
	CHECK_INT(next_ns, >=, now_ns);
	CHECK_RC(hwt_timer_next(timer, &asked_ns), 0);
	CHECK(asked_ns == next_ns || (asked_ns < now_ns && next_ns == now_ns));
	return next_ns;
}

static bool is(hwt_timeout a, hwt_timeout b)
{
	return a.entry == b.entry && a.generation == b.generation;
}

static int refuse(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx, (void)run, (void)job;
	return EAGAIN;
}

TEST(it_is_for_loops_of_ones_own_and_without_threads_for_tasks)
{
	static const hwt_executor executor = { refuse, NULL };
	hwt_config config = collecting(0);
	hwt_timer *timer = NULL;

	config.flags = HWT_COLLECT;
	CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
	config.flags = HWT_CALLER_DRIVEN | HWT_COLLECT;
	config.executor = &executor;
	CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
	config.executor = NULL;
	config.task_threads = 1;
	CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
	CHECK(timer == NULL);
	config.task_threads = 0;
	timer = made(&config);
	CHECK_RC(hwt_timer_config(timer, &config), 0);
	CHECK_INT(config.flags, ==, HWT_CALLER_DRIVEN | HWT_COLLECT);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static unsigned released;

static void release(void *arg)
{
	(void)arg;
	released++;
}

TEST(it_takes_no_task_and_no_finaliser)
{
	hwt_timer *timer = collecting_timer();
	hwt_timeout timeout = { &timer, 4711 };
	hwt_spec spec = HWT_SPEC_INIT;

	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, 0, &timeout), EINVAL);
	CHECK_RC(hwt_new_timeout_at(timer, count_task, NULL, 0, &timeout), EINVAL);
	CHECK_RC(hwt_new_periodic(timer, count_task, NULL, 0, HWT_MS(5), &timeout), EINVAL);
	spec.task = count_task;
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), EINVAL);
	spec.task = NULL;
	spec.release = release;
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), EINVAL);
	spec.period_ns = HWT_MS(5);
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), EINVAL);
	CHECK(timeout.entry == &timer && timeout.generation == 4711);
	CHECK_INT(stats_of(timer).accepted, ==, 0);
	CHECK_INT(advance(timer, HWT_MS(10), BATCH), ==, INT64_MAX);
	CHECK_INT(count, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_INT(released, ==, 0);
}

TEST(each_timer_has_its_own_advance)
{
	hwt_timer *timer = collecting_timer(), *other;
	hwt_config config = collecting(HWT_VIRTUAL_CLOCK);
	int64_t next_ns = -1;
	atomic_uint ran = 0;
	size_t n = 4711;

	config.flags &= ~HWT_COLLECT;
	other = made(&config);
	CHECK_RC(hwt_new_timeout(other, NULL, NULL, 0, NULL), EINVAL);
	CHECK_RC(hwt_new_timeout(other, count_task, &ran, 0, NULL), 0);
	CHECK_RC(hwt_timer_advance_batch(other, HWT_MS(1), fired, BATCH, &n, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_advance(other, HWT_MS(1), NULL), 0);
	CHECK_INT(ran, ==, 1);
	schedule(timer, 1, 0);
	CHECK_RC(hwt_timer_advance(timer, HWT_MS(1), &next_ns), EINVAL);
	CHECK_RC(hwt_timer_advance_batch(NULL, HWT_MS(1), fired, BATCH, &n, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(1), NULL, 1, &n, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(1), fired, BATCH, NULL, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_advance_batch(timer, -1, fired, BATCH, &n, &next_ns), EINVAL);
	CHECK(n == 4711 && next_ns == -1);
	CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(1), fired, BATCH, &n, NULL), 0); /* who wants no answer */
	CHECK_INT(n, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_RC(hwt_timer_destroy(other), 0);
}

TEST(what_is_due_comes_in_the_order_of_ticks_and_has_ended)
{
	static const int64_t ticks[] = { 7, 3, 3, 90, 5, 3, 7, 5 };
	static const uintptr_t order[] = { 1, 2, 5, 4, 7, 0, 6, 3 };
	hwt_timer *timer = collecting_timer();
	hwt_timeout timeouts[8];
	char text[80];
	size_t seen = 0;

	for (size_t i = 0; i < 8; i++)
		timeouts[i] = schedule(timer, i, HWT_MS(ticks[i]));
	CHECK_INT(advance(timer, HWT_MS(2), BATCH), ==, HWT_MS(3));
	CHECK_INT(count, ==, 0);
	for (int64_t next_ns = HWT_MS(90); next_ns == HWT_MS(90); seen += count) {
		next_ns = advance(timer, HWT_MS(90), 3);
		CHECK_INT(count, ==, seen < 6 ? 3 : 2); /* there is no more room, or no more is due */
		for (size_t i = 0; i < count; i++) {
			hwt_timeout timeout = timeouts[order[seen + i]];

			CHECK_INT(number(i), ==, order[seen + i]);
			CHECK(is(fired[i].timeout, timeout));
			CHECK_INT(fired[i].missed, ==, 0);
			CHECK_INT(hwt_timeout_state(timeout), ==, HWT_EXPIRED);
			CHECK_RC(hwt_cancel(timeout), ENOENT);
			CHECK_RC(hwt_cancel_sync(timeout), ENOENT);
			CHECK_RC(hwt_reschedule(timeout, HWT_MS(1)), ENOENT);
			CHECK(hwt_timeout_timer(timeout) == timer);
		}
	}
	CHECK_INT(seen, ==, 8);
	CHECK(hwt_timeout_format(timeouts[3], text, sizeof(text)) > 0 && strstr(text, "expired") != NULL);
	CHECK_INT(advance(timer, HWT_MS(91), BATCH), ==, INT64_MAX);
	CHECK_INT(count, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Also when one of them has been found due already, and waits. */
TEST(without_room_nothing_fires_and_nothing_is_lost)
{
	hwt_timer *timer = collecting_timer();
	hwt_timeout timeouts[3];
	size_t n = 4711;
	int64_t next_ns;

	for (size_t i = 0; i < 3; i++)
		timeouts[i] = schedule(timer, i, HWT_MS(5));
	CHECK_INT(advance(timer, HWT_MS(4), 0), ==, HWT_MS(5));
	for (int i = 0; i < 3; i++)
		CHECK_INT(advance(timer, HWT_MS(6), 0), ==, HWT_MS(6));
	CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(6), NULL, 0, &n, &next_ns), 0);
	CHECK(n == 0 && next_ns == HWT_MS(6));
	CHECK_INT(hwt_pending_timeouts(timer), ==, 3);
	for (size_t i = 0; i < 3; i++) {
		CHECK_INT(hwt_timeout_state(timeouts[i]), ==, HWT_PENDING);
		CHECK_INT(advance(timer, HWT_MS(6), 1), ==, i < 2 ? HWT_MS(6) : INT64_MAX);
		CHECK(count == 1 && is(fired[0].timeout, timeouts[i]));
		CHECK_INT(advance(timer, HWT_MS(6), 0), ==, i < 2 ? HWT_MS(6) : INT64_MAX);
	}
	schedule(timer, 3, 0);
	CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(7), fired, SIZE_MAX, &n, &next_ns), 0);
	CHECK(n == 1 && next_ns == INT64_MAX);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_periodic_one_is_pending_again)
{
	hwt_timer *timer = collecting_timer();
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	CHECK_RC(hwt_new_periodic(timer, NULL, &timeout, HWT_MS(5), HWT_MS(10), &timeout), 0);
	CHECK_INT(advance(timer, HWT_MS(5), BATCH), ==, HWT_MS(15));
	CHECK(count == 1 && is(fired[0].timeout, timeout) && fired[0].arg == &timeout);
	CHECK_INT(fired[0].missed, ==, 0);
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_PENDING);
	CHECK_INT(hwt_timeout_missed(timeout), ==, 0);
	CHECK_INT(advance(timer, HWT_MS(48), BATCH), ==, HWT_MS(55));
	CHECK_INT(count, ==, 1);
	CHECK_INT(fired[0].missed, ==, 3); /* those of 25, 35 and 45 ms in that of 15 ms */
	CHECK_RC(hwt_reschedule_at(timeout, HWT_MS(51)), 0);
	CHECK_INT(advance(timer, HWT_MS(51), BATCH), ==, HWT_MS(61));
	CHECK(count == 1 && fired[0].missed == 0);
	CHECK_INT(stats_of(timer).merged_periods, ==, 3);
	CHECK_INT(stats_of(timer).runs, ==, 3);
	CHECK_RC(hwt_cancel(timeout), 0);
	(void)advance(timer, HWT_MS(99), BATCH);
	CHECK_INT(count, ==, 0);
	CHECK_INT(stats_of(timer).completed, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(the_bound_on_tasks_bounds_a_batch)
{
	hwt_config config = collecting(HWT_VIRTUAL_CLOCK);
	hwt_timer *timer;

	config.max_tasks_per_advance = 3;
	timer = made(&config);
	for (size_t i = 0; i < 8; i++)
		schedule(timer, i, HWT_MS(5));
	CHECK_INT(advance(timer, HWT_MS(7), BATCH), ==, HWT_MS(7));
	CHECK_INT(count, ==, 3);
	CHECK_INT(advance(timer, HWT_MS(7), 2), ==, HWT_MS(7));
	CHECK_INT(count, ==, 2);
	CHECK_INT(advance(timer, HWT_MS(7), BATCH), ==, INT64_MAX);
	CHECK(count == 3 && number(2) == 7);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* One of which waits for room. */
TEST(a_stop_hands_out_the_rest_without_tasks)
{
	hwt_timer *timer = collecting_timer();
	bool seen[10] = { false };
	hwt_unprocessed left;
	size_t n = 0;

	for (size_t i = 0; i < 10; i++)
		schedule(timer, i, HWT_MS(i < 6 ? 5 : 50));
	CHECK_RC(hwt_new_periodic(timer, NULL, NULL, HWT_MS(50), HWT_MS(1), NULL), 0);
	CHECK_INT(advance(timer, HWT_MS(5), 2), ==, HWT_MS(5));
	CHECK_RC(hwt_timer_stop(timer, &n), 0);
	CHECK_INT(n, ==, 9);
	for (n = 0; hwt_timer_next_unprocessed(timer, &left); n++) {
		CHECK(left.task == NULL);
		CHECK_RC(hwt_cancel(left.timeout), ENOENT);
		CHECK(!seen[(uintptr_t)left.arg]);
		seen[(uintptr_t)left.arg] = true;
	}
	CHECK_INT(n, ==, 9);
	CHECK_RC(hwt_timer_advance_batch(timer, HWT_MS(50), fired, BATCH, &n, NULL), ECANCELED);
	CHECK_RC(hwt_new_timeout(timer, NULL, NULL, 0, NULL), ECANCELED);
	CHECK_INT(n, ==, 9);
	CHECK_INT(stats_of(timer).refused_stopped, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

#ifndef HWT_PORTABLE
#endif

TEST_MAIN()
