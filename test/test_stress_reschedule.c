/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hwt_reschedule in a crowd: threads move, cancel and wait for the same timeouts, tasks arm themselves again, some have
 * a period or a finaliser, and a stop comes in the middle.
 *
 * The law: each accepted timeout has exactly one end; it never runs before the deadline of the last call that had
 * returned 0; it never runs twice at once, nor after a cancel_sync; its finaliser is called exactly once, when nothing
 * of it will run any more; and the statistics say so.
 */
#include "executor.h"

#define TICK_NS HWT_US(50)
#define FAR_NS HWT_S(3600)

/* The pool refuses what goes beyond this. */
#define QUEUE 64
#define POOL_THREADS 2

static hwt_timer *new_fine_timer(struct pool *pool)
{
	hwt_executor executor = { pool_execute, pool };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = TICK_NS;
	config.ticks_per_wheel = 64; /* several rounds, too */
	config.flags = HWT_FINE_TICKS;
	config.executor = pool != NULL ? &executor : NULL;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

/*
 * What is known of one timeout.  Each has one of its own, so that nothing is forgotten when memory is used again.
 */
struct item {
	_Atomic int64_t not_before_ns;
	_Atomic int64_t offer_ns; /* what a call in progress asks for; INT64_MAX: there is none */
	atomic_uint runs, moved, ends, inside, released;
	unsigned agains;  /* how often its task arms it again; only the task touches it */
	unsigned selfish; /* then it cancels itself, every so many runs; 0: never */
	bool has_release, is_periodic;
	unsigned plain; /* ThreadSanitizer watches */
	uint64_t random;
};

/*
 * The offer is looked at first: where it has gone, the deadline is that of the call.
 */
static void begin_run(struct item *item)
{
	int64_t now_ns = hwt_now();

	if (now_ns < atomic_load(&item->offer_ns))
		CHECK_INT(now_ns, >=, atomic_load(&item->not_before_ns));
	CHECK_INT(atomic_fetch_add(&item->inside, 1), ==, 0);
	CHECK_INT(atomic_load(&item->released), ==, 0);
	atomic_fetch_add(&item->runs, 1);
	item->plain++;
}

static void end_run(struct item *item)
{
	item->plain++;
	CHECK_INT(atomic_load(&item->released), ==, 0);
	atomic_fetch_sub(&item->inside, 1);
}

/* In its own task it is armed again, and perhaps cancelled at once.  Whoever gets its end counts it. */
static void item_task(hwt_timeout timeout, void *arg)
{
	struct item *item = arg;
	struct prng prng = { item->random++ };
	int64_t delay_ns = prng_between(&prng, -HWT_US(10), HWT_US(200));
	bool again = item->is_periodic;

	begin_run(item);
	if (item->agains > 0) {
		int rc;

		item->agains--;
		atomic_store(&item->not_before_ns, hwt_now() + delay_ns);
		rc = hwt_reschedule(timeout, delay_ns);
		CHECK(rc == 0 || rc == ENOENT); /* somebody has cancelled it since it began */
		atomic_fetch_add(&item->moved, rc == 0);
		again |= rc == 0;
		CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
	} else if (item->is_periodic) {
		atomic_store(&item->not_before_ns, INT64_MIN);
	}
	if (item->selfish != 0 && atomic_load(&item->runs) % item->selfish == 0) {
		int rc = hwt_cancel(timeout);

		CHECK_INT(hwt_cancel_sync(timeout), ==, EDEADLK);
		CHECK(again ? rc == 0 || rc == ENOENT : rc == EBUSY);
		atomic_fetch_add(&item->ends, rc == 0);
	}
	end_run(item);
	if (!again)
		atomic_fetch_add(&item->ends, 1);
}

static void item_release(void *arg)
{
	struct item *item = arg;

	CHECK_INT(atomic_load(&item->inside), ==, 0);
	CHECK_INT(item->plain, ==, 2 * atomic_load(&item->runs));
	CHECK_INT(atomic_fetch_add(&item->released, 1), ==, 0);
}

/* A place where a handle is shared. */
struct slot {
	pthread_mutex_t mutex;
	hwt_timeout timeout;
	struct item *item;
};

static void slot_get(struct slot *slot, hwt_timeout *timeout, struct item **item)
{
	pthread_mutex_lock(&slot->mutex);
	*timeout = slot->timeout;
	*item = slot->item;
	pthread_mutex_unlock(&slot->mutex);
}

/*
 * One mover a timeout, so that it is known which deadline holds
 */

#define MOVERS 3
#define VANDALS 2
#define SLOTS 12
#define EACH 20000

struct mover {
	hwt_timer *timer;
	uint64_t seed;
	unsigned operations, room, accepted, moved;
	struct slot slots[SLOTS];
	struct item *items;
	atomic_uint *stop;
	bool stopped;
};

static void make_item(struct item *item, struct prng *prng)
{
	uint64_t kind = prng_below(prng, 8);

	memset(item, 0, sizeof(*item));
	item->agains = kind < 3 ? (unsigned)kind + 1 : 0;
	item->selfish = prng_below(prng, 4) == 0 ? 2 + (unsigned)prng_below(prng, 2) : 0;
	item->is_periodic = kind == 2 || kind == 3;
	item->has_release = prng_below(prng, 2) == 0;
	item->random = prng_next(prng);
	atomic_store(&item->offer_ns, INT64_MAX);
}

static int64_t random_delay(struct prng *prng)
{
	uint64_t kind = prng_below(prng, 16);

	if (kind == 0)
		return FAR_NS;
	return kind < 8 ? prng_between(prng, -HWT_US(20), HWT_US(60)) : prng_between(prng, 0, HWT_MS(2));
}

static void mover_new(struct mover *mover, struct slot *slot, struct prng *prng)
{
	struct item *item = &mover->items[mover->accepted];
	int64_t delay_ns = random_delay(prng);
	hwt_timeout timeout;
	hwt_spec spec;
	int rc;

	make_item(item, prng);
	spec = (hwt_spec){ sizeof(spec), item_task, item, delay_ns, item->is_periodic ? HWT_US(100) : 0, NULL, 0 };
	spec.release = item->has_release ? item_release : NULL;
	atomic_store(&item->not_before_ns, hwt_now() + delay_ns);
	if (prng_below(prng, 2) == 0) {
		spec.flags = HWT_ABSOLUTE;
		spec.when_ns = atomic_load(&item->not_before_ns);
	}
	rc = hwt_new_timeout_ex(mover->timer, &spec, &timeout);
	if (rc != 0) {
		CHECK_INT(rc, ==, ECANCELED);
		mover->stopped = true;
		return;
	}
	mover->accepted++;
	pthread_mutex_lock(&slot->mutex);
	slot->timeout = timeout;
	slot->item = item;
	pthread_mutex_unlock(&slot->mutex);
}

/*
 * During the call either deadline is allowed; after 0 the new one.  What its own task has set meanwhile was no earlier:
 * that has run already.
 */
static void mover_move(struct mover *mover, struct slot *slot, struct prng *prng)
{
	int64_t delay_ns = random_delay(prng), new_ns = hwt_now() + delay_ns;
	struct item *item = slot->item;
	int rc;

	atomic_store(&item->offer_ns, new_ns);
	rc = prng_below(prng, 2) == 0 ? hwt_reschedule(slot->timeout, delay_ns)
				      : hwt_reschedule_at(slot->timeout, new_ns);
	CHECK(rc == 0 || rc == EBUSY || rc == ENOENT);
	if (rc == 0)
		atomic_store(&item->not_before_ns, new_ns);
	atomic_store(&item->offer_ns, INT64_MAX);
	mover->moved += rc == 0;
}

static void cancel_one(hwt_timeout timeout, struct item *item, bool sync)
{
	int rc = sync ? hwt_cancel_sync(timeout) : hwt_cancel(timeout);

	CHECK(rc == 0 || rc == ENOENT || (rc == EBUSY && !sync));
	atomic_fetch_add(&item->ends, rc == 0);
	if (!sync)
		return;
	CHECK_INT(atomic_load(&item->inside), ==, 0);
	CHECK_INT(item->plain, ==, 2 * atomic_load(&item->runs));
}

static bool has_ended(hwt_timeout timeout)
{
	hwt_state state = hwt_timeout_state(timeout);

	return state != HWT_PENDING && state != HWT_RUNNING;
}

static void *move(void *arg)
{
	struct mover *mover = arg;
	struct prng prng = { mover->seed };

	for (unsigned i = 0; i < mover->operations && !mover->stopped; i++) {
		struct slot *slot = &mover->slots[prng_below(&prng, SLOTS)];
		uint64_t what = prng_below(&prng, 64);

		if (slot->item == NULL || has_ended(slot->timeout))
			mover_new(mover, slot, &prng);
		else if (what < 60)
			mover_move(mover, slot, &prng);
		else
			cancel_one(slot->timeout, slot->item, what == 63);
		if (prng_below(&prng, 64) == 0)
			sleep_ns(prng_between(&prng, 0, HWT_US(300)));
	}
	atomic_fetch_add(mover->stop, 1);
	return NULL;
}

struct vandal {
	struct mover *movers;
	uint64_t seed;
	atomic_uint *stop;
};

/* Cancels, or looks at, whatever is there, until the movers have gone. */
static void *spoil(void *arg)
{
	struct vandal *vandal = arg;
	struct prng prng = { vandal->seed };

	while (atomic_load(vandal->stop) < MOVERS) {
		struct slot *slot = &vandal->movers[prng_below(&prng, MOVERS)].slots[prng_below(&prng, SLOTS)];
		uint64_t what = prng_below(&prng, 16);
		struct item *item;
		hwt_timeout timeout;

		slot_get(slot, &timeout, &item);
		if (item != NULL && what < 2)
			cancel_one(timeout, item, what == 1);
		else
			CHECK_INT(hwt_timeout_missed(timeout), ==, 0);
		sleep_ns(prng_between(&prng, 0, HWT_US(100)));
	}
	return NULL;
}

static void check_law(hwt_timer *timer, struct mover *movers)
{
	uint64_t accepted = 0, runs = 0, moved = 0;
	hwt_unprocessed unprocessed;
	hwt_stats stats = stats_of(timer);

	while (hwt_timer_next_unprocessed(timer, &unprocessed))
		atomic_fetch_add(&((struct item *)unprocessed.arg)->ends, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	for (unsigned i = 0; i < MOVERS; i++) {
		accepted += movers[i].accepted;
		moved += movers[i].moved;
		for (unsigned j = 0; j < movers[i].accepted; j++) {
			struct item *item = &movers[i].items[j];

			CHECK_INT(item->ends, ==, 1);
			CHECK_INT(item->inside, ==, 0);
			CHECK_INT(item->released, ==, item->has_release);
			runs += item->runs;
			moved += item->moved;
		}
	}
	CHECK_INT(stats.accepted, ==, accepted);
	CHECK_INT(stats.runs, ==, runs);
	CHECK_INT(stats.rescheduled, ==, moved);
	CHECK_INT(stats.pending | stats.running, ==, 0);
}

static void move_in_a_crowd(uint64_t seed, struct pool *pool, int64_t stop_after_ns)
{
	static struct mover movers[MOVERS];
	struct vandal vandals[VANDALS];
	struct crew crew, gang;
	atomic_uint stop = 0;
	hwt_timer *timer = new_fine_timer(pool);

	for (unsigned i = 0; i < MOVERS; i++) {
		memset(&movers[i], 0, sizeof(movers[i]));
		movers[i].timer = timer;
		movers[i].seed = seed + i;
		movers[i].operations = scaled(EACH);
		movers[i].stop = &stop;
		movers[i].items = calloc(scaled(EACH), sizeof(struct item));
		REQUIRE(movers[i].items != NULL);
		for (unsigned j = 0; j < SLOTS; j++)
			pthread_mutex_init(&movers[i].slots[j].mutex, NULL);
	}
	for (unsigned i = 0; i < VANDALS; i++)
		vandals[i] = (struct vandal){ movers, seed + 100 + i, &stop };
	crew_start(&crew, MOVERS, move, movers, sizeof(*movers));
	crew_start(&gang, VANDALS, spoil, vandals, sizeof(*vandals));
	if (stop_after_ns > 0)
		sleep_ns(stop_after_ns);
	else
		crew_join(&crew);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	crew_join(&crew);
	crew_join(&gang);
	check_law(timer, movers);
	for (unsigned i = 0; i < MOVERS; i++) {
		for (unsigned j = 0; j < SLOTS; j++)
			pthread_mutex_destroy(&movers[i].slots[j].mutex);
		free(movers[i].items);
	}
}

static struct pool pool;

TEST(each_has_one_end_and_is_never_early)
{
	uint64_t seed = test_seed("each_has_one_end");

	for (unsigned round = 0; round < 3; round++)
		move_in_a_crowd(seed + 1000 * round, NULL, 0);
}

TEST(each_has_one_end_on_an_executor)
{
	uint64_t seed = test_seed("each_has_one_end_on");

	pool_start(&pool, POOL_THREADS);
	pool.capacity = QUEUE;
	move_in_a_crowd(seed, &pool, 0);
	pool_stop(&pool);
}

TEST(each_has_one_end_when_a_stop_comes)
{
	uint64_t seed = test_seed("each_has_one_end_when");
	struct prng prng = { seed };

	for (unsigned round = 0; round < scaled(16); round++) {
		bool on_pool = round % 2 != 0;

		if (on_pool) {
			pool_start(&pool, POOL_THREADS);
			pool.capacity = QUEUE;
		}
		move_in_a_crowd(seed + 1000 * round, on_pool ? &pool : NULL, prng_between(&prng, 1, HWT_MS(15)));
		if (on_pool)
			pool_stop(&pool);
	}
}

/*
 * Many movers of the same timeouts: whose call was the last is not known, but the call after all of them counts.
 */

#define SHARED 16
#define SHARERS 4

struct shared {
	hwt_timer *timer;
	struct run runs[SHARED];
	hwt_timeout timeouts[SHARED];
};

struct sharer {
	struct shared *shared;
	uint64_t seed;
};

static void *share(void *arg)
{
	struct sharer *sharer = arg;
	struct prng prng = { sharer->seed };

	for (unsigned i = 0; i < 300; i++) {
		uint64_t which = prng_below(&prng, SHARED);
		/* Half an hour at least: no machine is away for so long. */
		int64_t delay_ns = HWT_S(1800) + prng_between(&prng, 0, i % 2 == 0 ? HWT_MS(10) : FAR_NS);

		CHECK_RC(hwt_reschedule(sharer->shared->timeouts[which], delay_ns), 0);
	}
	return NULL;
}

TEST(after_all_movers_the_last_call_counts)
{
	uint64_t seed = test_seed("after_all_movers");

	for (unsigned round = 0; round < scaled(60); round++) {
		struct shared shared = { .timer = new_fine_timer(NULL) };
		struct sharer sharers[SHARERS];

		for (unsigned i = 0; i < SHARED; i++) {
			shared.runs[i].not_before_ns = INT64_MAX;
			CHECK_RC(
			    hwt_new_timeout(shared.timer, run_task, &shared.runs[i], HWT_S(1800), &shared.timeouts[i]),
			    0);
		}
		for (unsigned i = 0; i < SHARERS; i++)
			sharers[i] = (struct sharer){ &shared, seed + round * 100 + i };
		crew_run(SHARERS, share, sharers, sizeof(*sharers));
		for (unsigned i = 0; i < SHARED; i++) {
			shared.runs[i].not_before_ns = hwt_now() + (i % 2 == 0 ? HWT_US(300) : FAR_NS);
			CHECK_RC(hwt_reschedule_at(shared.timeouts[i], shared.runs[i].not_before_ns), 0);
		}
		for (unsigned i = 0; i < SHARED; i += 2)
			REQUIRE(wait_count(&shared.runs[i].ran, 1));
		for (unsigned i = 1; i < SHARED; i += 2)
			CHECK_RC(hwt_cancel(shared.timeouts[i]), 0);
		CHECK_INT(stats_of(shared.timer).runs, ==, SHARED / 2);
		CHECK_INT(stats_of(shared.timer).rescheduled, ==, SHARERS * 300 + SHARED);
		CHECK_RC(hwt_timer_destroy(shared.timer), 0);
	}
}

/*
 * Nothing is forgotten: after the storm everything that is left runs when it is told to.
 */

struct hurry {
	struct shared *shared;
	uint64_t seed;
	atomic_uint ended;
};

/* Earlier by one and later by another, at about the time at which the worker goes to sleep for it. */
static void *hurry(void *arg)
{
	struct hurry *it = arg;
	struct prng prng = { it->seed };

	for (unsigned i = 0; i < 200; i++) {
		uint64_t which = prng_below(&prng, SHARED);
		int64_t delay_ns = i % 3 == 0 ? FAR_NS : prng_between(&prng, 0, HWT_MS(2));
		int rc = hwt_reschedule(it->shared->timeouts[which], delay_ns);

		CHECK(rc == 0 || rc == EBUSY || rc == ENOENT);
		if (i % 16 == 0)
			sleep_ns(prng_between(&prng, 0, HWT_US(150)));
	}
	return NULL;
}

TEST(nothing_is_forgotten)
{
	uint64_t seed = test_seed("nothing_is_forgotten");

	for (unsigned round = 0; round < scaled(80); round++) {
		struct shared shared = { .timer = new_fine_timer(NULL) };
		struct hurry hurries[SHARERS];

		for (unsigned i = 0; i < SHARED; i++) {
			shared.runs[i].not_before_ns = INT64_MIN;
			CHECK_RC(hwt_new_timeout(shared.timer, run_task, &shared.runs[i], FAR_NS, &shared.timeouts[i]),
				 0);
		}
		for (unsigned i = 0; i < SHARERS; i++)
			hurries[i] = (struct hurry){ .shared = &shared, .seed = seed + round * 100 + i };
		crew_run(SHARERS, hurry, hurries, sizeof(*hurries));
		for (unsigned i = 0; i < SHARED; i++)
			(void)hwt_reschedule(shared.timeouts[i], (int64_t)i * HWT_US(20));
		for (unsigned i = 0; i < SHARED; i++) {
			REQUIRE(wait_count(&shared.runs[i].ran, 1));
			REQUIRE(wait_state(shared.timeouts[i], HWT_EXPIRED));
		}
		CHECK_INT(stats_of(shared.timer).runs, ==, SHARED);
		CHECK_RC(hwt_timer_destroy(shared.timer), 0);
	}
}

TEST_MAIN()
