/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The law of the library under stress: of every accepted timeout exactly one end is seen.  It ran, not before its
 * deadline, or one cancel got 0, or it was returned after the stop.
 * Those of one thread and one deadline run in the order in which they were accepted, whatever was cancelled between
 * them.  Afterwards as many timeouts fit below the limit as before.
 *
 * Each row of the table below is a test of many rounds.  A round has a timer of random settings, threads that schedule,
 * threads that cancel what others scheduled (also what has ended long ago, whose memory serves others by then), tasks
 * that re-arm themselves, and stops in the middle or at the end.  Each timeout has an item of its own, so a cancel that
 * hits a stranger shows as an item with two ends and another with none.
 */
#include "executor.h"

enum kind { USUAL, ON_AN_EXECUTOR, IN_GROUPS };

struct setting {
	unsigned rounds, items;
	unsigned producers[2], cancellers[2]; /* at least and at most */
	unsigned stoppers;                    /* several: they stop in the middle */
	enum kind kind;
};

/* 32 threads are preempted in every place, whatever the machine has. */
#define SETTINGS(X)                                                                                                    \
	X(every_timeout_has_one_end, 200, 20000, { 1, 6 }, { 1, 3 }, 1, USUAL)                                         \
	X(every_timeout_has_one_end_with_32_threads, 40, 50000, { 28, 28 }, { 4, 4 }, 1, USUAL)                        \
	X(every_timeout_has_one_end_when_several_stop, 100, 20000, { 12, 12 }, { 1, 2 }, 3, USUAL)                     \
	X(every_timeout_has_one_end_on_an_executor, 20, 20000, { 3, 3 }, { 1, 3 }, 1, ON_AN_EXECUTOR)                  \
	X(those_of_one_deadline_run_as_they_were_accepted, 12, 24000, { 4, 4 }, { 1, 2 }, 1, IN_GROUPS)

#define PRODUCERS_MAX 32
#define GROUPS 12 /* deadlines that many share */

struct item {
	hwt_timeout handle;
	int64_t not_before_ns;
	struct round *round;
	atomic_uint accepted; /* the handle may be read */
	atomic_uint ran, cancelled, returned;
	bool rearms;
	unsigned producer, group;
	size_t place; /* among all that ran, from 1 on */
	bool early;   /* accepted before its deadline, so before its tick */
};

struct round {
	hwt_timer *timer;
	struct item *items;
	size_t count;
	atomic_size_t taken; /* items handed out so far */
	int64_t delay_max_ns;
	atomic_uint threads, producers;    /* started so far: each has numbers of its own */
	atomic_uint producing;             /* producers still at it */
	atomic_uint stopped;               /* set once a stop has returned */
	atomic_size_t returned, collected; /* as the stops said, and as they were handed out */
	int64_t limit;
	bool stop_early, in_groups;
	int64_t group_ns[GROUPS];
	size_t places; /* only the worker touches it */
	uint64_t seed;
};

static atomic_ullong operations;
static unsigned long compared; /* pairs of one thread and deadline */

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
	if (item->round->in_groups)
		item->not_before_ns = item->round->group_ns[item->group];
	if (absolute || item->round->in_groups)
		rc = hwt_new_timeout_at(timer, item_task, item, item->not_before_ns, &item->handle);
	else
		rc = hwt_new_timeout(timer, item_task, item, delay_ns, &item->handle);
	item->early = hwt_now() < item->not_before_ns;
	if (rc == 0)
		atomic_store(&item->accepted, 1);
	else
		CHECK(rc == ECANCELED || (rc == ENOBUFS && item->round->limit > 0));
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
	if (item->round->in_groups)
		item->place = ++item->round->places;
	atomic_fetch_add(&item->ran, 1);
}

static void *produce(void *arg)
{
	struct round *round = arg;
	struct prng prng = thread_prng(round);
	unsigned number = atomic_fetch_add(&round->producers, 1);
	uint64_t done = 0;
	struct item *item;

	while ((item = take_item(round))) {
		int64_t delay_ns = (int64_t)prng_below(&prng, (uint64_t)round->delay_max_ns);
		uint64_t kind = prng_below(&prng, 100);

		if (kind < 5)
			delay_ns = -delay_ns;
		else if (kind < 10 && round->stop_early)
			delay_ns = HWT_S(100000);
		item->rearms = kind >= 90 && !round->in_groups;
		item->producer = number;
		item->group = (unsigned)prng_below(&prng, GROUPS);
		done++;
		if (!schedule(item, delay_ns, kind % 2)) {
			for (int i = 0; i < 3; i++) /* for good */
				CHECK_RC(hwt_new_timeout(round->timer, item_task, item, 0, NULL), ECANCELED);
			break;
		}
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
		size_t back = (size_t)prng_below(&prng, prng_below(&prng, 4) ? 200 : round->count);
		struct item *item = &round->items[back < limit ? limit - 1 - back : 0];
		bool waits = prng_below(&prng, 4) == 0;
		hwt_state state;
		int rc;

		if (atomic_load(&round->producing) == 0)
			rest--;
		if (!atomic_load(&item->accepted)) {
			if (tries % 1024 == 0)
				sched_yield();
			continue;
		}
		rc = waits ? hwt_cancel_sync(item->handle) : hwt_cancel(item->handle);
		state = hwt_timeout_state(item->handle);
		if (rc == 0) {
			atomic_fetch_add(&item->cancelled, 1);
			CHECK(state == HWT_CANCELLED || state == HWT_RETIRED);
		} else {
			CHECK((rc == EBUSY && !waits) || rc == ENOENT);
			CHECK(rc == EBUSY || state == HWT_EXPIRED || state == HWT_CANCELLED || state == HWT_RETIRED);
		}
	}
	atomic_fetch_add(&operations, tries);
	return NULL;
}

/* A producer took its items in the order in which it scheduled them. */
static void check_order(const struct round *round, size_t limit)
{
	size_t last[PRODUCERS_MAX][GROUPS] = { 0 };

	for (size_t i = 0; i < limit; i++) {
		const struct item *item = &round->items[i];
		size_t *before = &last[item->producer][item->group];

		if (item->place == 0 || !item->early)
			continue;
		CHECK_INT(item->place, >, *before);
		compared += *before != 0;
		*before = item->place;
	}
}

/* Each item on its own, then the sums. */
static void check_round(struct round *round)
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
	CHECK_INT(sums[3], ==, round->returned);
	CHECK_INT(sums[3], ==, round->collected);
	CHECK_INT(hwt_pending_timeouts(round->timer), ==, 0);
	if (round->in_groups)
		check_order(round, limit);
}

/* Nothing is pending, and no task that runs schedules another one. */
static bool wait_all_over(hwt_timer *timer)
{
	for (int64_t give_up_ns = hwt_now() + PATIENCE_NS; hwt_now() < give_up_ns; sleep_ns(HWT_US(200))) {
		hwt_stats stats = stats_of(timer);

		if (stats.pending == 0 && stats.running == 0)
			return true;
	}
	return false;
}

/* Stops the timer and collects, cancellers still at it, and others that do the same. */
static void *stop(void *arg)
{
	struct round *round = arg;
	hwt_unprocessed left;
	size_t returned = 77;

	CHECK_RC(hwt_timer_stop(round->timer, &returned), 0);
	atomic_store(&round->stopped, 1);
	CHECK_INT(stats_of(round->timer).running, ==, 0); /* nor in the pool */
	atomic_fetch_add(&round->returned, returned);
	while (atomic_load(&round->collected) <= round->count && hwt_timer_next_unprocessed(round->timer, &left)) {
		struct item *item = left.arg;

		atomic_fetch_add(&round->collected, 1);
		atomic_fetch_add(&item->returned, 1);
		CHECK(left.task == item_task);
		CHECK_INT(hwt_timeout_state(left.timeout), ==, HWT_CANCELLED);
	}
	return NULL;
}

static hwt_timer *random_timer(struct prng *prng, size_t count, int64_t *limit, const hwt_executor *executor)
{
	static const uint32_t transfers[] = { 1, 3, 100, 100000 };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = HWT_MS(1);
	config.ticks_per_wheel = (uint32_t)1 << prng_below(prng, 10);
	config.max_transfers_per_tick = transfers[prng_below(prng, 4)];
	config.executor = executor;
	config.wheel = prng_below(prng, 2) == 0 ? HWT_WHEEL_HASHED : HWT_WHEEL_HIERARCHICAL;
	if (prng_below(prng, 3) == 0)
		config.max_pending_timeouts = prng_between(prng, 1, (int64_t)count / 8 + 1);
	*limit = config.max_pending_timeouts;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

static void one_round(struct prng *prng, const struct setting *is)
{
	static struct pool pool;
	const hwt_executor executor = { pool_execute, &pool };
	struct round round = { .count = scaled(is->items), .seed = prng_next(prng) };
	struct crew producing, cancelling;

	round.items = calloc(round.count, sizeof(*round.items));
	REQUIRE(round.items);
	for (size_t i = 0; i < round.count; i++)
		round.items[i].round = &round;
	if (is->kind == ON_AN_EXECUTOR) {
		pool_start(&pool, 2);
		pool.refuse_every = prng_below(prng, 2) ? 5 : 0;
	}
	round.timer = random_timer(prng, round.count, &round.limit, is->kind == ON_AN_EXECUTOR ? &executor : NULL);
	round.delay_max_ns = prng_between(prng, HWT_MS(1), HWT_MS(40));
	round.stop_early = is->kind != IN_GROUPS && (is->stoppers > 1 || prng_below(prng, 2));
	round.in_groups = is->kind == IN_GROUPS;
	for (unsigned i = 0; i < GROUPS; i++)
		round.group_ns[i] = hwt_now() + prng_between(prng, HWT_MS(30), HWT_MS(60));
	round.producing = (unsigned)prng_between(prng, is->producers[0], is->producers[1]);
	crew_start(&producing, round.producing, produce, &round, 0);
	crew_start(&cancelling, (unsigned)prng_between(prng, is->cancellers[0], is->cancellers[1]), cancel, &round, 0);
	if (round.stop_early) {
		if (prng_below(prng, 4)) /* else the stop may come before the start */
			sleep_ns(prng_between(prng, 0, HWT_MS(15)));
		crew_run(is->stoppers, stop, &round, 0);
		crew_join(&producing);
	} else {
		crew_join(&producing);
		CHECK(wait_all_over(round.timer));
		if (round.limit > 0)
			check_room(round.timer, round.limit);
		crew_run(is->stoppers, stop, &round, 0);
		CHECK_INT(round.returned, ==, 0);
	}
	crew_join(&cancelling);
	check_round(&round);
	CHECK_RC(hwt_timer_destroy(round.timer), 0);
	if (is->kind == ON_AN_EXECUTOR)
		pool_stop(&pool);
	free(round.items);
}

static void run_setting(const char *name, const struct setting *is)
{
	struct prng prng = { test_seed(name) };
	int64_t enough_ns = hwt_now() + ENOUGH_NS;
	uint64_t before = atomic_load(&operations);
	unsigned round;

	for (round = 0; round < is->rounds && hwt_now() < enough_ns; round++)
		one_round(&prng, is);
	printf("# %u rounds, %llu operations\n", round, atomic_load(&operations) - before);
	CHECK(is->kind != IN_GROUPS || compared > 0);
}

#define X(name, ...)                                                                                                   \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		run_setting(#name, &(const struct setting){ __VA_ARGS__ });                                            \
	}
SETTINGS(X)
#undef X

TEST_MAIN()
