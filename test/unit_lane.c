/* SPDX-License-Identifier: BSD-2-Clause */
/* Lanes and their free records: handing over, coming home, other lanes' records, limits, closing, lack of memory. */
#include "unit.h"
#include "support.h"

#include <limits.h>

static struct hwt_lanes lanes;
static const hwt_config no_limit;

static void begin(int64_t limit)
{
	hwt_config config = { .max_pending_timeouts = limit };

	REQUIRE(hwt_lanes_init(&lanes, NULL, 4, &config) == 0);
	for (uint32_t place = 0; place < 4; place++)
		(void)lane_at(&lanes, place);
}

static void end(void)
{
	hwt_lanes_destroy(&lanes);
}

static hwt_timeout submit(unsigned lane)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	CHECK_INT(hwt_lane_submit(lane_at(&lanes, lane), nothing, NULL, 5, &timeout), ==, 0);
	return timeout;
}

static bool arm(struct hwt_record *record)
{
	uint64_t word;

	return record_arm(record, &word);
}

/* Returns cancelled or finished records, as the worker does. */
static unsigned bring_home(unsigned lane)
{
	struct hwt_record *record;
	unsigned n = 0;

	for (; (record = queue_pop(&lane_at(&lanes, lane)->submitted)) != NULL; n++) {
		if (arm(record))
			CHECK(record_give_back(record));
		lane_return(record);
	}
	hwt_record_slabs_flush(&lanes.slabs);
	return n;
}

TEST(free_records_of_other_lanes_are_used_before_memory_is_asked_for)
{
	begin(0);
	for (int i = 0; i < 5000; i++)
		submit(0);
	bring_home(0);
	for (int i = 0; i < 200; i++) /* the first few dozen of a lane come from its own slab */
		submit(1);
	bring_home(1);
	memory_is_back();
	for (int i = 0; i < 5000; i++)
		submit(1);
	CHECK_INT(memory_asked, <=, 8); /* nodes of lane 1's queue; a slab of records would be more */
	CHECK_INT(records_held(&lanes), <, 8500);
	end();
}

TEST(closed_lanes_refuse_and_so_do_those_that_are_made_later)
{
	REQUIRE(hwt_lanes_init(&lanes, NULL, 4, &no_limit) == 0);
	submit(0);
	hwt_lanes_close(&lanes);
	for (uint32_t place = 0; place < 4; place++)
		CHECK_INT(hwt_lane_submit(lane_at(&lanes, place), nothing, NULL, 0, NULL), ==, ECANCELED);
	CHECK_INT(lanes_count(&lanes), ==, 4);
	CHECK_INT(bring_home(0), ==, 1);
	end();
}

TEST(a_word_tells_its_holder_the_state_and_others_retired)
{
	static const struct {
		enum word_state state;
		hwt_state expected;
	} rows[] = { { STATE_FREE, HWT_NONE },       { STATE_QUEUED, HWT_PENDING },  { STATE_ARMED, HWT_PENDING },
		     { STATE_RUNNING, HWT_RUNNING }, { STATE_EXPIRED, HWT_EXPIRED }, { STATE_CANCELLED, HWT_CANCELLED },
		     { STATE_LAZY, HWT_CANCELLED } };
	const uint64_t last = (UINT64_C(1) << 48) - 1;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK_INT(word_public_state(word_make(last, rows[i].state), last), ==, rows[i].expected);
		CHECK_INT(word_public_state(word_make(last, rows[i].state), last - 1), ==, HWT_RETIRED);
	}
}

#define SHARED_MANY 20000

static hwt_timeout shared[SHARED_MANY];
static atomic_uint cancelling;

/* Cancels every other timeout, all on lane 1: threads may share a home lane. */
static void *cancel_half(void *arg)
{
	for (size_t i = (size_t)(uintptr_t)arg; i < SHARED_MANY; i += 2)
		CHECK_INT(hwt_lane_cancel(lane_at(&lanes, 1), shared[i].entry, shared[i].generation), ==, 0);
	atomic_fetch_sub(&cancelling, 1);
	return NULL;
}

TEST(two_threads_at_home_in_one_lane_lose_no_cancellation)
{
	struct hwt_record *record;
	unsigned popped = 0;
	pthread_t threads[2];

	begin(0);
	for (int i = 0; i < SHARED_MANY; i++) {
		shared[i] = submit(0);
		CHECK(arm(shared[i].entry));
	}
	atomic_store(&cancelling, 2);
	for (uintptr_t t = 0; t < 2; t++)
		REQUIRE(pthread_create(&threads[t], NULL, cancel_half, (void *)t) == 0);
	for (bool last = false; !last;) {
		last = atomic_load(&cancelling) == 0; /* then the worker looks once more */
		for (; (record = queue_pop(&lane_at(&lanes, 1)->cancelled)) != NULL; popped++)
			CHECK_INT(record->place, ==, 0);
	}
	for (int t = 0; t < 2; t++)
		pthread_join(threads[t], NULL);
	CHECK_INT(popped, ==, SHARED_MANY);
	CHECK_INT(lanes_cancelled(&lanes), ==, SHARED_MANY);
	end();
}

/* After 2^48 lives: the handle and the word wrap together. */
TEST(a_generation_wraps_in_the_handle_as_in_the_word)
{
	hwt_config config = driven_config(HWT_MS(1), 64);
	hwt_timer *timer = driven_create(&config, HWT_S(1));
	hwt_timeout timeout;
	struct hwt_record *record;

	for (uint64_t life = 0; life < 3; life++) {
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, HWT_S(60), &timeout), ==, 0);
		CHECK_INT(hwt_timeout_state(timeout), ==, HWT_PENDING);
		CHECK_INT(hwt_cancel(timeout), ==, 0);
		record = timeout.entry;
		atomic_store(&record->word, word_make((UINT64_C(1) << 48) - 2 + life, STATE_CANCELLED));
		driven_pass(timer, fake_now_ns + HWT_MS(1));
	}
	driven_destroy(timer);
}

/* Another lane wants its slab each time it grows; of two that are used in turn neither has the other's. */
TEST(a_lane_in_use_keeps_its_slab)
{
	const struct hwt_record_slab *slab = NULL;

	begin(0);
	for (unsigned i = 0; i < 2000; i++) {
		submit(0);
		slab = i == 0 ? lane_at(&lanes, 0)->pool.slab : slab;
		CHECK(lane_at(&lanes, 0)->pool.slab == slab);
		for (unsigned n = 0; n < 3; n++)
			submit(1);
	}
	end();
}

/* A lane that has much free, and whose lock is held just when another lane looks. */
static struct hwt_lane *held;
static unsigned looks, looks_until_free;

static void free_after_some_looks(const char *where)
{
	if (strcmp(where, "held") == 0 && ++looks == looks_until_free)
		queue_unlock(&held->submitted);
}

/* Returns how many records lane 0 got new memory for while the lock of lane 1 was held. */
static size_t asked_for_while_held(unsigned looks_wanted)
{
	size_t before;

	begin(0);
	for (unsigned i = 0; i < 10000; i++)
		submit(1);
	bring_home(1);
	do
		submit(0);
	while (!pool_is_used_up(&lane_at(&lanes, 0)->pool));
	held = lane_at(&lanes, 1);
	queue_lock(&held->submitted);
	looks = 0;
	looks_until_free = looks_wanted;
	before = records_held(&lanes);
	atomic_store(&hwt_test_point, free_after_some_looks);
	for (unsigned i = 0; i < 400; i++)
		submit(0);
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	before = records_held(&lanes) - before;
	if (looks < looks_wanted) {
		CHECK(!queue_try_lock(&held->submitted)); /* nor does anybody else unlock it */
		queue_unlock(&held->submitted);
	}
	end();
	return before;
}

/* A lock that is held for long is given up: its holder may wait for the lock of lane 0. */
TEST(a_lock_that_is_held_for_a_moment_costs_no_memory)
{
	CHECK_INT(asked_for_while_held(1), ==, 0);
	CHECK_INT(asked_for_while_held(20), ==, 0);
	CHECK_INT(asked_for_while_held(UINT_MAX), >, 0);
}

/* A producer need not be the first to write to a page, once its timer is large. */
TEST(a_lane_that_grows_asks_for_a_slab_ahead)
{
	const struct hwt_record_slabs *slabs = &lanes.slabs;

	begin(0);
	for (unsigned i = 0; i < 7 * SLAB_RECORDS; i++)
		submit(0);
	CHECK(!atomic_load(&slabs->wanted)); /* the timer is small */
	for (unsigned i = 0; i < SLAB_RECORDS; i++)
		submit(0);
	CHECK(atomic_load(&slabs->wanted));
	hwt_pool_prepare(&lanes.slabs); /* as the worker does in its next pass */
	CHECK(!atomic_load(&slabs->wanted));
	for (unsigned i = 0; i < SLAB_RECORDS / 4; i++)
		submit(0);
	CHECK_INT(record_slabs_held(slabs), ==, 9 * SLAB_RECORDS * sizeof(struct hwt_record));
	CHECK(atomic_load(&slabs->wanted)); /* the next slab is wanted as well */
	end();
}

/* Finds a lane at its seat, or by the count, as soon as it is there. */
static void *find_lane(void *by_count)
{
	struct patience patience = PATIENCE("the lane");
	const struct hwt_lane *lane = NULL;

	/* Quickly at first: the other thread may lose its processor before it makes the lane. */
	for (unsigned tries = 0; lane == NULL; tries++) {
		if (by_count == NULL)
			lane = lanes_at(&lanes, 1);
		else if (lanes_count(&lanes) > 0)
			lane = lanes.made[0];
		if (tries > 10000000 && !patience_lasts(&patience, HWT_MS(1)))
			break;
	}
	REQUIRE(lane != NULL);
	CHECK(lane->lanes == &lanes && lane->turn == 0);
	return NULL;
}

TEST(a_lane_is_complete_when_it_is_found)
{
	for (int round = 0; round < 20; round++) {
		pthread_t thread;

		REQUIRE(hwt_lanes_init(&lanes, NULL, 4, &no_limit) == 0);
		REQUIRE(pthread_create(&thread, NULL, find_lane, round % 2 ? &lanes : NULL) == 0);
		CHECK(hwt_lanes_make(&lanes, 1) != NULL);
		pthread_join(thread, NULL);
		end();
	}
}

/* While another thread looks up the lane of the record, the record comes to serve a lane that was just made. */
static void *submit_on_a_new_lane(void *record)
{
	const struct hwt_lane *first = lanes.made[0];

	for (unsigned i = 0; i < 1000 && record_lane(record) == first; i++)
		submit(1);
	return NULL;
}

TEST(a_record_leads_to_a_lane_that_is_complete)
{
	struct hwt_record *record;
	const struct hwt_lane *first;
	unsigned looks_left = 100000000;
	pthread_t thread;

	REQUIRE(hwt_lanes_init(&lanes, NULL, 4, &no_limit) == 0);
	record = submit(0).entry;
	submit(0); /* else its lane would keep the record */
	bring_home(0);
	first = record_lane(record);
	REQUIRE(pthread_create(&thread, NULL, submit_on_a_new_lane, record) == 0);
	do
		CHECK(record_lane(record)->lanes == &lanes);
	while (record_lane(record) == first && --looks_left > 0);
	CHECK(record_lane(record)->lanes == &lanes);
	pthread_join(thread, NULL);
	CHECK(record_lane(record) != first);
	end();
}

TEST_MAIN()
