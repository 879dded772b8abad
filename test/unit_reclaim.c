/* SPDX-License-Identifier: BSD-2-Clause */
/* A producer takes back what was cancelled in its own queue: what, when it looks, and that nobody waits for long. */
#include "check/check.h"
#include "unit.h"

#include <pthread.h>

#define START HWT_S(1000)
#define TICK HWT_MS(1)
#define FAR HWT_S(3600)
#define MANY 100

static hwt_timer *timer;
static struct hwt_lane *lane;
static unsigned ran, released, order_broken;
static uintptr_t last_arg;

/* A producer may reclaim from so many operations on.  By itself it does so only if it needs memory. */
static void begin(int64_t limit, uint64_t gather)
{
	hwt_config config = driven_config(TICK, 64);

	config.max_pending_timeouts = limit;
	ran = released = order_broken = 0;
	last_arg = 0;
	timer = driven_create(&config, START);
	lane = lanes_home(&timer->lanes);
	REQUIRE(lane != NULL);
	atomic_store(&hwt_test_gather, gather);
}

static void end(void)
{
	hwt_check(timer);
	driven_destroy(timer);
	atomic_store(&hwt_test_gather, HWT_GATHER);
}

static void count(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	order_broken += (uintptr_t)arg <= last_arg;
	last_arg = (uintptr_t)arg;
	ran++;
}

static void count_release(void *arg)
{
	(void)arg;
	released++;
}

enum kind { PLAIN, PERIODIC, OWNED };

static hwt_timeout schedule_kind(enum kind kind, uintptr_t arg)
{
	hwt_spec spec = { .size = sizeof(spec), .task = count, .arg = (void *)arg, .when_ns = TICK };
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	spec.period_ns = kind == PERIODIC ? FAR : 0;
	spec.release = kind == OWNED ? count_release : NULL;
	CHECK_INT(hwt_new_timeout_ex(timer, &spec, &timeout), ==, 0);
	return timeout;
}

static hwt_timeout schedule(uintptr_t arg)
{
	return schedule_kind(PLAIN, arg);
}

static void schedule_and_cancel(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		CHECK_INT(hwt_cancel(schedule(1)), ==, 0);
}

/* As a submission does that has no free record at hand.  How many are free then. */
static unsigned reclaim(void)
{
	unsigned n = 0;

	atomic_store(&hwt_test_gather, 1);
	queue_lock(&lane->submitted);
	CHECK(lane->pool.free == NULL);
	(void)hwt_lane_reclaim(lane);
	for (struct hwt_record *record = lane->pool.free; record != NULL; record = record->free_next)
		n++;
	queue_unlock(&lane->submitted);
	hwt_check(timer);
	return n;
}

static unsigned in_queue(void)
{
	struct hwt_check_counts counts;

	hwt_check_count(timer, &counts);
	return (unsigned)counts.place[PLACE_SUBMITTED];
}

/* Each of them cancelled or not, the first and the last among them, in every combination. */
TEST(what_is_not_cancelled_stays_in_its_order)
{
	for (unsigned mask = 0; mask < 256; mask++) {
		hwt_timeout timeouts[8];
		unsigned cancelled = 0;

		begin(0, HWT_GATHER);
		for (uintptr_t i = 0; i < 8; i++)
			timeouts[i] = schedule(i + 1);
		for (unsigned i = 0; i < 8; i++) {
			if ((mask >> i & 1) == 0)
				continue;
			CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
			cancelled++;
		}
		CHECK_INT(reclaim(), ==, cancelled >= 2 ? cancelled : 0); /* of one the others are too many */
		schedule(9);
		driven_pass(timer, START + TICK);
		CHECK_INT(ran, ==, 9 - cancelled);
		CHECK_INT(order_broken, ==, 0);
		for (uintptr_t i = 0; i < 20; i++) /* the queue and the free records are as good as ever */
			schedule(i + 10);
		hwt_check(timer);
		driven_pass(timer, START + 2 * TICK);
		CHECK_INT(ran, ==, 29 - cancelled);
		CHECK_INT(order_broken, ==, 0);
		end();
	}
}

TEST(an_empty_queue_has_nothing_to_take)
{
	begin(0, HWT_GATHER);
	CHECK_INT(reclaim(), ==, 0);
	schedule_and_cancel(10);
	driven_pass(timer, START);
	CHECK_INT(reclaim(), ==, 0);
	schedule_and_cancel(20); /* ten of them with the records that came home */
	driven_pass(timer, START);
	end();
}

/* A periodic one comes back with its second record; one with a finaliser waits for the worker. */
TEST(a_finaliser_is_left_to_the_worker)
{
	begin(0, HWT_GATHER);
	for (unsigned i = 0; i < MANY; i++) {
		CHECK_INT(hwt_cancel(schedule_kind(PERIODIC, 1)), ==, 0);
		CHECK_INT(hwt_cancel(schedule_kind(OWNED, 1)), ==, 0);
	}
	CHECK_INT(reclaim(), ==, 2 * MANY);
	CHECK_INT(in_queue(), ==, MANY);
	CHECK_INT(released, ==, 0);
	driven_pass(timer, START);
	CHECK_INT(released, ==, MANY);
	CHECK_INT(ran, ==, 0);
	end();
}

/* Such a one is in the wheel and in the queue. */
TEST(what_the_wheel_has_too_stays)
{
	hwt_timeout timeouts[MANY];

	begin(0, HWT_GATHER);
	for (uintptr_t i = 0; i < MANY; i++)
		CHECK_INT(hwt_new_timeout(timer, count, (void *)(i + 1), FAR, &timeouts[i]), ==, 0);
	driven_pass(timer, START);
	for (unsigned i = 0; i < MANY; i++) {
		CHECK_INT(hwt_reschedule(timeouts[i], TICK), ==, 0);
		if (i % 2 == 0)
			CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
	}
	schedule_and_cancel(MANY);
	CHECK_INT(reclaim(), ==, MANY);
	driven_pass(timer, START + TICK);
	CHECK_INT(ran, ==, MANY / 2);
	CHECK_INT(order_broken, ==, 0);
	end();
}

static uint64_t looks;

static void count_looks(const char *where)
{
	looks += strcmp(where, "word load") == 0;
}

/* Through a queue of which nothing can be taken, and one of which little can: some looks for each push. */
TEST(it_looks_through_its_queue_only_if_that_may_be_worth_while)
{
	begin(0, 8);
	looks = 0;
	atomic_store(&hwt_test_point, count_looks);
	for (uintptr_t i = 0; i < 20000; i++)
		schedule(i + 1);
	CHECK_INT(looks, ==, 0); /* nothing was cancelled anywhere */
	for (uintptr_t i = 0; i < 20000; i++) {
		schedule(i + 1);
		if (i % 100 == 0)
			schedule_and_cancel(1);
	}
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	CHECK_INT(looks, <, 200 * 10); /* the cancels' own */
	end();
	begin(0, 8);
	looks = 0;
	atomic_store(&hwt_test_point, count_looks);
	for (uintptr_t i = 0; i < 20000; i++) {
		schedule(i + 1);
		schedule_and_cancel(3);
	}
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	CHECK_INT(looks, <, 80000 * 8);
	CHECK_INT(lane->pool.records, <, 3 * 20000);
	end();
}

/* Cancels of before the last look say nothing about what has come since. */
TEST(old_cancels_are_no_reason_to_look_again)
{
	begin(0, 8);
	schedule_and_cancel(1000);
	looks = 0;
	atomic_store(&hwt_test_point, count_looks);
	for (uintptr_t i = 0; i < 20000; i++)
		schedule(i + 1);
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	CHECK_INT(looks, <, 2000);
	end();
}

static uint64_t looks_of_a_reclaim(void)
{
	looks = 0;
	atomic_store(&hwt_test_gather, 1);
	queue_lock(&lane->submitted);
	atomic_store(&hwt_test_point, count_looks);
	CHECK(!hwt_lane_reclaim(lane));
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	queue_unlock(&lane->submitted);
	return looks;
}

static void cancel_elsewhere(struct hwt_lane *other, unsigned n)
{
	hwt_timeout timeout;

	for (unsigned i = 0; i < n; i++) {
		CHECK_INT(hwt_lane_submit(other, count, NULL, START + FAR, &timeout), ==, 0);
		CHECK_INT(hwt_cancel(timeout), ==, 0);
	}
}

/* Or the looks would grow with the square of what is pending. */
TEST(a_look_for_nothing_is_repeated_when_the_queue_has_doubled)
{
	begin(0, HWT_GATHER);
	for (uintptr_t i = 0; i < MANY; i++)
		schedule(i + 1);
	cancel_elsewhere(lane_at(&timer->lanes, (hwt_own_number + 1) & timer->lanes.last_place), 10 * MANY);
	CHECK_INT(looks_of_a_reclaim(), ==, MANY);
	cancel_elsewhere(lane_at(&timer->lanes, (hwt_own_number + 1) & timer->lanes.last_place), 10 * MANY);
	for (uintptr_t i = 0; i < MANY - 1; i++)
		schedule(i + 1 + MANY);
	CHECK_INT(looks_of_a_reclaim(), ==, 0);
	schedule(2 * MANY);
	CHECK_INT(looks_of_a_reclaim(), ==, 2 * MANY);
	driven_pass(timer, START + TICK);
	CHECK_INT(ran, ==, 2 * MANY);
	CHECK_INT(order_broken, ==, 0);
	end();
}

TEST(a_lane_that_is_closed_is_left_alone)
{
	begin(0, HWT_GATHER);
	schedule_and_cancel(MANY);
	hwt_lanes_close(&timer->lanes);
	CHECK_INT(reclaim(), ==, 0);
	CHECK_INT(in_queue(), ==, MANY);
	end();
}

/* A worker may sleep, or run a task, for a while: a program that stays below its limit is not refused for that. */
TEST(a_limit_refuses_no_finaliser_for_a_worker_that_comes_late)
{
	begin(1, HWT_GATHER);
	for (unsigned i = 0; i < 200000; i++)
		REQUIRE(hwt_cancel(schedule_kind(OWNED, 1)) == 0);
	driven_pass(timer, START);
	while (released < 200000)
		driven_pass(timer, START);
	end();
}

/* The numbers of the manual, with a gather of 1: 64, and four times the limit. */
TEST(a_lane_is_full_beyond_four_times_the_limit)
{
	enum { LIMIT = 100, FULL = 64 + 4 * LIMIT };

	begin(LIMIT, 1);
	for (unsigned i = 1; i <= FULL + 4; i++) {
		CHECK_INT(hwt_cancel(schedule_kind(OWNED, 1)), ==, 0);
		CHECK_INT(hwt_lane_is_full(lane), ==, i >= FULL + 4);
	}
	driven_pass(timer, START);
	CHECK(!hwt_lane_is_full(lane));
	end();
	begin(0, 1);
	for (unsigned i = 0; i < 2 * FULL; i++)
		CHECK_INT(hwt_cancel(schedule_kind(OWNED, 1)), ==, 0);
	CHECK(!hwt_lane_is_full(lane));
	end();
}

static void pass_if_full(const char *where)
{
	if (strcmp(where, "full") != 0 || !hwt_lane_is_full(lane))
		return;
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	driven_pass(timer, START);
}

/* A refusal at the limit says ENOBUFS and not ENOMEM, although the worker drains the queue in between. */
TEST(a_refusal_names_one_reason)
{
	hwt_spec spec = { .size = sizeof(spec), .task = count, .when_ns = FAR, .release = count_release };
	hwt_timeout timeout;
	unsigned accepted = 0;
	int rc;

	begin(1, 1);
	atomic_store(&hwt_test_point, pass_if_full);
	while (accepted < 100000 && (rc = hwt_new_timeout_ex(timer, &spec, &timeout)) == 0) {
		CHECK_INT(hwt_cancel(timeout), ==, 0);
		accepted++;
	}
	CHECK_INT(rc, ==, ENOBUFS);
	CHECK_INT(released, ==, accepted);
	CHECK_INT(hwt_new_timeout_ex(timer, &spec, &timeout), ==, 0);
	CHECK_INT(hwt_cancel(timeout), ==, 0);
	end();
}

static unsigned turns;

static void count_turns(const char *where)
{
	turns += strcmp(where, "give way") == 0;
}

/* A worker that lost its processor while it took a batch out: a limit holds also then, and nobody waits for long. */
TEST(a_producer_does_not_wait_for_a_worker_without_a_processor)
{
	hwt_timeout timeout;
	unsigned accepted = 0;
	int rc = 0;

	begin(10, 8);
	REQUIRE(queue_begin_consume(&lane->submitted));
	hwt_test_clock = NULL;
	atomic_store(&hwt_test_point, count_turns);
	while (accepted < 10000 && (rc = hwt_new_timeout_at(timer, count, NULL, START + FAR, &timeout)) == 0) {
		CHECK_INT(hwt_cancel(timeout), ==, 0);
		accepted++;
	}
	CHECK_INT(rc, ==, ENOBUFS);
	CHECK_INT(accepted, <, 2000);
	atomic_store(&hwt_test_point, NULL);
	printf("# it has given way %u times\n", turns);
	CHECK_INT(turns, <, 100);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	queue_end_consume(&lane->submitted);
	CHECK_INT(hwt_new_timeout_at(timer, count, NULL, START + FAR, NULL), ==, 0);
	CHECK_INT(in_queue(), ==, 1);
	end();
	begin(0, 8); /* without a limit there is memory */
	REQUIRE(queue_begin_consume(&lane->submitted));
	schedule_and_cancel(1000);
	queue_end_consume(&lane->submitted);
	schedule_and_cancel(1000);
	CHECK_INT(in_queue(), <=, 1000);
	end();
}

/* And the other way round: a producer that lost it while it was reclaiming. */
TEST(the_worker_does_not_wait_for_a_producer_without_a_processor)
{
	struct hwt_lane *other;

	begin(0, HWT_GATHER);
	other = lane_at(&timer->lanes, (hwt_own_number + 1) & timer->lanes.last_place);
	schedule(1);
	CHECK_INT(hwt_lane_submit(other, count, (void *)2, START + TICK, NULL), ==, 0);
	REQUIRE(queue_begin_consume(&lane->submitted));
	CHECK(!driven_pass(timer, START + TICK)); /* nor at once again */
	CHECK_INT(ran, ==, 1);
	CHECK(!hwt_lanes_are_empty(&timer->lanes));
	queue_end_consume(&lane->submitted);
	last_arg = 0;
	driven_pass(timer, START + 2 * TICK);
	CHECK_INT(ran, ==, 2);
	end();
}

/* An advance comes to an end also in the middle of more than a pass takes in. */
TEST(an_advance_does_not_wait_for_a_producer_without_a_processor)
{
	for (uint32_t transfers = 2; transfers <= 200; transfers += 198) {
		hwt_config config = driven_config(TICK, 64);
		struct hwt_lane *other;
		int64_t next_ns = 0;

		config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
		config.max_transfers_per_tick = transfers;
		ran = 0;
		REQUIRE(hwt_timer_create(&timer, &config) == 0);
		CHECK_INT(hwt_timer_advance(timer, 0, NULL), ==, 0);
		lane = lanes_home(&timer->lanes);
		other = lane_at(&timer->lanes, (hwt_own_number + 1) & timer->lanes.last_place);
		for (unsigned i = 0; i < 4; i++) {
			CHECK_INT(hwt_new_timeout(timer, count, NULL, TICK, NULL), ==, 0);
			CHECK_INT(hwt_lane_submit(other, count, NULL, TICK, NULL), ==, 0);
		}
		REQUIRE(queue_begin_consume(&lane->submitted));
		CHECK_INT(hwt_timer_advance(timer, TICK, &next_ns), ==, 0);
		CHECK_INT(next_ns, ==, TICK);
		CHECK_INT(ran, ==, 4);
		queue_end_consume(&lane->submitted);
		CHECK_INT(hwt_timer_advance(timer, 2 * TICK, &next_ns), ==, 0);
		CHECK_INT(ran, ==, 8);
		CHECK_INT(next_ns, ==, INT64_MAX);
		CHECK_INT(hwt_timer_destroy(timer), ==, 0);
	}
}

/* Or each operation from then on would wake the worker. */
TEST(what_has_been_taken_back_does_not_gather)
{
	begin(0, HWT_GATHER);
	schedule_and_cancel(10 * HWT_GATHER);
	CHECK_INT(atomic_load(&lane->reclaimed), >, HWT_GATHER);
	driven_pass(timer, START);
	CHECK_INT(in_queue(), ==, 0);
	CHECK(!hwt_lane_is_long(lane));
	schedule_and_cancel(HWT_GATHER - 1);
	CHECK(!hwt_lane_is_long(lane));
	end();
}

/* The law, with a worker at work and producers that reclaim all the time. */

#define PRODUCERS 4
#define PAIRS 40000

static atomic_uint ran_all, released_all;

static void count_all(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	atomic_fetch_add(&ran_all, 1);
}

static void release_all(void *arg)
{
	(void)arg;
	atomic_fetch_add(&released_all, 1);
}

struct producer {
	uint64_t seed;
	unsigned accepted, cancelled, owned;
	hwt_timeout other; /* that of another thread, to be cancelled here */
};

static void *produce(void *arg)
{
	struct producer *producer = arg;
	hwt_timeout timeout, kept[64] = { { NULL, 0 } };

	for (unsigned i = 0; i < PAIRS; i++) {
		uint64_t draw = random_next(&producer->seed);
		hwt_spec spec = { .size = sizeof(spec), .task = count_all };

		spec.when_ns = draw % 16 == 0 ? 0 : FAR;
		spec.release = draw / 16 % 32 == 0 ? release_all : NULL;
		CHECK_INT(hwt_new_timeout_ex(timer, &spec, &timeout), ==, 0);
		producer->accepted++;
		producer->owned += spec.release != NULL;
		if (draw / 512 % 8 == 0) { /* later */
			hwt_timeout *place = &kept[draw / 4096 % 64];

			producer->cancelled += hwt_cancel(*place) == 0;
			*place = timeout;
		} else if (spec.when_ns != 0) {
			producer->cancelled += hwt_cancel(timeout) == 0;
		}
		if (draw / 262144 % 16 == 0)
			(void)hwt_reschedule(kept[draw / 4194304 % 64], HWT_MS(draw % 5));
	}
	for (unsigned i = 0; i < 64; i++)
		producer->cancelled += hwt_cancel(kept[i]) == 0;
	return NULL;
}

TEST(each_has_one_end_while_producers_reclaim)
{
	hwt_config config = driven_config(TICK, 64);
	struct producer producers[PRODUCERS];
	unsigned accepted = 0, cancelled = 0, owned = 0;
	pthread_t threads[PRODUCERS];
	uint64_t seed = random_seed();
	size_t unprocessed;

	atomic_store(&hwt_test_gather, 16);
	atomic_store(&ran_all, 0);
	atomic_store(&released_all, 0);
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	for (unsigned i = 0; i < PRODUCERS; i++) {
		producers[i] = (struct producer){ .seed = random_next(&seed) | 1 };
		REQUIRE(pthread_create(&threads[i], NULL, produce, &producers[i]) == 0);
	}
	for (unsigned i = 0; i < PRODUCERS; i++) {
		REQUIRE(pthread_join(threads[i], NULL) == 0);
		accepted += producers[i].accepted;
		cancelled += producers[i].cancelled;
		owned += producers[i].owned;
	}
	CHECK_INT(hwt_timer_stop(timer, &unprocessed), ==, 0);
	CHECK_INT(ran_all + cancelled + unprocessed, ==, accepted);
	hwt_check(timer);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
	CHECK_INT(released_all, ==, owned);
	atomic_store(&hwt_test_gather, HWT_GATHER);
}

TEST_MAIN()
