/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The law of the library under stress: of every accepted timeout exactly one end is seen.  It ran, not before its
 * deadline, or one cancel got 0, or it was returned after the stop.
 *
 * Many rounds, each with a timer of random settings: threads that schedule, threads that cancel what others scheduled
 * (also what has ended long ago, whose memory serves others by then), tasks that re-arm themselves, and a stop in the
 * middle or at the end.  Each timeout has an item of its own, so a cancel that hits a stranger shows as an item with
 * two ends and another with none.
 */
#include "support.h"

struct item {
	hwt_timeout handle;
	int64_t not_before_ns;
	struct round *round;
	atomic_uint accepted; /* the handle may be read */
	atomic_uint ran, cancelled, returned;
	bool rearms;
};

struct round {
	hwt_timer *timer;
	struct item *items;
	size_t count;
	atomic_size_t taken; /* items handed out so far */
	int64_t delay_max_ns;
	atomic_uint threads;   /* started so far: each has numbers of its own */
	atomic_uint producing; /* producers still at it */
	atomic_uint stopped;   /* set once the stop has returned */
	bool limited, stop_early;
	uint64_t seed;
};

static atomic_ullong operations;

static void item_task(hwt_timeout timeout, void *arg);

static struct prng thread_prng(struct round *round)
{
	return (struct prng){ round->seed + atomic_fetch_add(&round->threads, 1) * UINT64_C(0xd1342543de82ef95) };
}

static struct item *take_item(struct round *round)
{
	size_t i = atomic_fetch_add(&round->taken, 1);

	return i < round->count ? &round->items[i] : NULL;
}

/* Schedules the item.  False when the timer has been stopped. */
static bool schedule(struct item *item, int64_t delay_ns, bool absolute)
{
	hwt_timer *timer = item->round->timer;
	int rc;

	item->not_before_ns = hwt_now() + (delay_ns > 0 ? delay_ns : 0);
	if (absolute)
		rc = hwt_new_timeout_at(timer, item_task, item, item->not_before_ns, &item->handle);
	else
		rc = hwt_new_timeout(timer, item_task, item, delay_ns, &item->handle);
	if (rc == 0)
		atomic_store(&item->accepted, 1);
	else
		CHECK(rc == ECANCELED || (rc == ENOBUFS && item->round->limited));
	return rc != ECANCELED;
}

static void item_task(hwt_timeout timeout, void *arg)
{
	struct item *item = arg, *next;
	size_t i;

	CHECK_INT(hwt_now(), >=, item->not_before_ns);
	CHECK_INT(atomic_load(&item->round->stopped), ==, 0);
	CHECK(same_handle(timeout, item->handle));
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
	CHECK_INT(hwt_cancel(timeout), ==, EBUSY);
	if (item->rearms && (next = take_item(item->round))) {
		i = (size_t)(next - item->round->items);
		next->rearms = i % 3 == 0;
		schedule(next, item->round->delay_max_ns / 8, i % 2);
	}
	atomic_fetch_add(&item->ran, 1);
}

static void *produce(void *arg)
{
	struct round *round = arg;
	struct prng prng = thread_prng(round);
	uint64_t done = 0;
	struct item *item;

	while ((item = take_item(round))) {
		int64_t delay_ns = (int64_t)prng_below(&prng, (uint64_t)round->delay_max_ns);
		uint64_t kind = prng_below(&prng, 100);

		if (kind < 5)
			delay_ns = -delay_ns;
		else if (kind < 10 && round->stop_early)
			delay_ns = HWT_S(100000);
		item->rearms = kind >= 90;
		done++;
		if (!schedule(item, delay_ns, kind % 2))
			break;
		if (prng_below(&prng, 4000) == 0)
			sched_yield();
	}
	atomic_fetch_add(&operations, done);
	atomic_fetch_sub(&round->producing, 1);
	return NULL;
}

/* Cancels whatever has been published, until the producers are done and a while after. */
static void *cancel(void *arg)
{
	struct round *round = arg;
	struct prng prng = thread_prng(round);
	uint64_t tries = 0, most = 20 * round->count;

	for (uint64_t rest = round->count / 4; rest > 0 && tries < most; tries++) {
		size_t taken = atomic_load(&round->taken), limit = taken < round->count ? taken : round->count;
		/* Mostly the newest ones, so that a cancel meets them on their way. */
		size_t back = prng_below(&prng, 4) ? prng_below(&prng, 200) : prng_below(&prng, round->count);
		struct item *item = &round->items[back < limit ? limit - 1 - back : 0];
		hwt_state state;
		int rc;

		if (atomic_load(&round->producing) == 0)
			rest--;
		if (!atomic_load(&item->accepted)) {
			if (tries % 1024 == 0)
				sched_yield();
			continue;
		}
		rc = hwt_cancel(item->handle);
		state = hwt_timeout_state(item->handle);
		if (rc == 0) {
			atomic_fetch_add(&item->cancelled, 1);
			CHECK(state == HWT_CANCELLED || state == HWT_RETIRED);
		} else {
			CHECK(rc == EBUSY || rc == ENOENT);
			CHECK(rc == EBUSY || state == HWT_EXPIRED || state == HWT_CANCELLED || state == HWT_RETIRED);
		}
	}
	atomic_fetch_add(&operations, tries);
	return NULL;
}

/* Each item on its own, then the sums. */
static void check_round(struct round *round, size_t returned)
{
	size_t limit = atomic_load(&round->taken) < round->count ? atomic_load(&round->taken) : round->count;
	size_t sums[4] = { 0 };

	for (size_t i = 0; i < limit; i++) {
		struct item *item = &round->items[i];
		unsigned ends = item->ran + item->cancelled + item->returned;

		CHECK_INT(ends, ==, item->accepted);
		sums[0] += item->accepted;
		sums[1] += item->ran;
		sums[2] += item->cancelled;
		sums[3] += item->returned;
	}
	CHECK_INT(sums[0], ==, sums[1] + sums[2] + sums[3]);
	CHECK_INT(sums[3], ==, returned);
	CHECK_INT(hwt_pending_timeouts(round->timer), ==, 0);
}

/* Stops the timer, cancellers still at it.  Returns how many were returned. */
static size_t stop_and_collect(struct round *round)
{
	hwt_unprocessed left;
	size_t returned = 0, collected = 0;

	CHECK_RC(hwt_timer_stop(round->timer, &returned), 0);
	atomic_store(&round->stopped, 1);
	while (collected <= round->count && hwt_timer_next_unprocessed(round->timer, &left)) {
		struct item *item = left.arg;

		collected++;
		atomic_fetch_add(&item->returned, 1);
		CHECK(left.task == item_task);
		CHECK(hwt_is_cancelled(left.timeout));
	}
	CHECK_INT(collected, ==, returned);
	return returned;
}

static hwt_timer *random_timer(struct prng *prng, size_t count, bool *limited)
{
	static const uint32_t transfers[] = { 1, 3, 100, 100000 };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = HWT_MS(1);
	config.ticks_per_wheel = (uint32_t)1 << prng_below(prng, 10);
	config.max_transfers_per_tick = transfers[prng_below(prng, 4)];
	*limited = prng_below(prng, 3) == 0;
	if (*limited)
		config.max_pending_timeouts = prng_between(prng, 1, (int64_t)count / 8 + 1);
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

static void one_round(struct prng *prng, unsigned producers, unsigned cancellers, size_t count)
{
	struct crew producing, cancelling;
	struct round round = { .count = count, .seed = prng_next(prng) };
	size_t returned;

	round.items = calloc(count, sizeof(*round.items));
	REQUIRE(round.items);
	for (size_t i = 0; i < count; i++)
		round.items[i].round = &round;
	round.timer = random_timer(prng, count, &round.limited);
	round.delay_max_ns = prng_between(prng, HWT_MS(1), HWT_MS(40));
	round.stop_early = prng_below(prng, 2);
	atomic_store(&round.producing, producers);
	crew_start(&producing, producers, produce, &round, 0);
	crew_start(&cancelling, cancellers, cancel, &round, 0);
	if (round.stop_early) {
		sleep_ns(prng_between(prng, 0, HWT_MS(15)));
		returned = stop_and_collect(&round);
		crew_join(&producing);
	} else {
		crew_join(&producing);
		CHECK(wait_none_pending(round.timer));
		returned = stop_and_collect(&round);
		CHECK_INT(returned, <=, 1); /* a task that was about to re-arm itself */
	}
	crew_join(&cancelling);
	check_round(&round, returned);
	CHECK_RC(hwt_timer_destroy(round.timer), 0);
	free(round.items);
}

TEST(every_timeout_has_one_end)
{
	struct prng prng = { test_seed("every_timeout_has_one_end") };
	int64_t enough_ns = hwt_now() + ENOUGH_NS;
	unsigned count = scaled(20000), round;

	for (round = 0; round < 200 && hwt_now() < enough_ns; round++) {
		unsigned producers = 1 + (unsigned)prng_below(&prng, 6),
			 cancellers = 1 + (unsigned)prng_below(&prng, 3);

		one_round(&prng, producers, cancellers, count);
	}
	printf("# %u rounds, %llu operations\n", round, atomic_load(&operations));
}

/* 32 threads on whatever the machine has: they are preempted in every place. */
TEST(every_timeout_has_one_end_with_32_threads)
{
	struct prng prng = { test_seed("every_timeout_has_one_end_with_32_threads") };
	int64_t enough_ns = hwt_now() + ENOUGH_NS;

	for (unsigned round = 0; round < 40 && hwt_now() < enough_ns; round++)
		one_round(&prng, 28, 4, scaled(50000));
}

TEST_MAIN()