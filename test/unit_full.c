/* SPDX-License-Identifier: BSD-2-Clause */
/* A lane whose worker does not come by: the cost of its backlog for other calls, its bound, and its share of a pass. */
#include "check/check.h"
#include "lane/lane.h"
#include "unit.h"

#include <pthread.h>

#define START HWT_S(1000)

static hwt_timer *timer;
static struct hwt_lane *lane;
static unsigned released;

/* Begins with a timer whose lanes are full at `full` + 4 * limit records. */
static void begin(int64_t limit, uint64_t full)
{
	hwt_config config = driven_config(HWT_MS(1), 64);

	config.max_pending_timeouts = limit;
	atomic_store(&hwt_test_full, full);
	released = 0;
	timer = driven_create(&config, START);
	lane = lanes_home(&timer->lanes);
	REQUIRE(lane != NULL);
}

static void end(void)
{
	hwt_check(timer);
	driven_destroy(timer);
	atomic_store(&hwt_test_full, HWT_FULL);
}

static void count_release(void *arg)
{
	(void)arg;
	released++;
}

/*
 * Schedules and cancels.  With `owned` there is a finaliser: the worker calls it, so no lane reuses the record before.
 */
static int schedule_and_cancel(bool owned)
{
	hwt_spec spec = { .size = sizeof(spec), .task = nothing, .release = owned ? count_release : NULL };
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	int rc = hwt_new_timeout_ex(timer, &spec, &timeout);

	if (rc == 0)
		CHECK_INT(hwt_cancel(timeout), ==, 0);
	return rc;
}

/*
 * However long the queue is, and however many of its timeouts were cancelled: no call walks through it under the lock.
 */
TEST(no_call_looks_through_the_queue)
{
	begin(0, HWT_FULL);
	for (unsigned i = 0; i < 20000; i++) {
		hwt_timeout timeout;

		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, 0, &timeout), ==, 0);
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, 0, NULL), ==, 0);
		CHECK_INT(hwt_cancel(timeout), ==, 0);
		points_begin("word load");
		CHECK_INT(schedule_and_cancel(false), ==, 0);
		CHECK_INT(points_end(), <, 8);
	}
	end();
}

/* The numbers of the manual, with 64 for 262144. */
TEST(a_lane_is_full_beyond_four_times_the_limit)
{
	enum { LIMIT = 100, FULL = 64 + 4 * LIMIT };

	begin(LIMIT, 64);
	for (unsigned i = 1; i <= FULL + 4; i++) {
		CHECK_INT(schedule_and_cancel(true), ==, 0);
		CHECK_INT(hwt_lane_is_full(lane), ==, i >= FULL + 4);
	}
	driven_pass(timer, START);
	CHECK(!hwt_lane_is_full(lane));
	end();
	begin(0, 64);
	for (unsigned i = 0; i < 2 * FULL; i++)
		CHECK_INT(schedule_and_cancel(true), ==, 0);
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

/* A refusal at the limit is ENOBUFS, not ENOMEM, although the worker drains the queue in between. */
TEST(a_refusal_names_one_reason)
{
	unsigned accepted = 0;
	int rc;

	begin(1, 64);
	atomic_store(&hwt_test_point, pass_if_full);
	while ((rc = schedule_and_cancel(true)) == 0 && accepted < 100000)
		accepted++;
	CHECK_INT(rc, ==, ENOBUFS);
	CHECK_INT(released, ==, accepted);
	CHECK_INT(schedule_and_cancel(true), ==, 0);
	end();
}

/* Throws the free records of the lane away. */
static void lose_the_rest(void)
{
	queue_lock(&lane->submitted);
	while (pool_pop(&lane->pool) != NULL || hwt_lane_find_at_hand(lane) != NULL || hwt_lane_find_more(lane) != NULL)
		;
	while (queue_node(&lane->submitted) != NULL)
		;
	queue_unlock(&lane->submitted);
}

/*
 * The first n allocations fail.  A call without memory must not take a slot below the limit that another thread could
 * need.
 */
TEST(a_refusal_without_memory_takes_no_place_below_the_limit)
{
	unsigned refused = 0;

	for (uint64_t n = 1; n < 6; n++) {
		int rc;

		begin(3, HWT_FULL);
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, 0, NULL), ==, 0);
		memory_fails(0, UINT64_MAX);
		lose_the_rest();
		memory_fails(0, n);
		points_begin("limit");
		rc = schedule_and_cancel(true);
		CHECK_INT(points_end(), <=, rc == 0 ? 1 : 0);
		CHECK(rc == 0 || rc == ENOMEM);
		refused += rc == ENOMEM;
		memory_is_back();
		driven_destroy(timer);
	}
	CHECK_INT(refused, >, 0);
}

/*
 * The shares of a pass.  A lane stands for the threads that share it.
 */

enum { LANES = 8, MOST_CANCELS = 150 };

/* From the next pass on, max_transfers operations make a pass. */
static void begin_passes(uint32_t max_transfers)
{
	hwt_test_cores = LANES / 2;
	begin(0, HWT_FULL);
	hwt_test_cores = 0;
	for (uint32_t place = 0; place < LANES; place++)
		(void)lane_at(&timer->lanes, place);
	timer->worker.intake.max_transfers = max_transfers;
}

static void submit(uint32_t place, unsigned n, hwt_timeout *timeouts)
{
	for (unsigned i = 0; i < n; i++)
		CHECK_INT(hwt_lane_submit(lane_at(&timer->lanes, place), nothing, NULL, START + HWT_S(3600),
					  &timeouts[i]),
			  ==, 0);
}

/* A lane that refills keeps no other waiting, and with fewer operations than lanes the lanes take turns. */
TEST(each_lane_has_its_share_of_each_pass)
{
	static const uint32_t busy[] = { 0, 1, 2, 5, 7 };
	enum { BUSY = 5, EACH = 60 };

	for (uint32_t most = 1; most < 20; most++) {
		hwt_timeout timeouts[EACH];

		begin_passes(most);
		for (unsigned i = 0; i < BUSY; i++)
			submit(busy[i], EACH, timeouts);
		for (unsigned pass = 1; pass <= 10; pass++) {
			CHECK(driven_pass(timer, START));
			for (unsigned i = 0; i < BUSY; i++) {
				uint64_t came = EACH - lane_waiting(lane_at(&timer->lanes, busy[i]));

				CHECK_INT(came, >=, pass * most / BUSY);
				CHECK_INT(came, <=, (pass * most + BUSY - 1) / BUSY);
			}
		}
		end();
	}
}

/* Counts the operations that wait: new timeouts, and cancels of timeouts in the wheel. */
static void count_waiting(uint64_t left[2])
{
	left[0] = left[1] = 0;
	for (uint32_t i = 0; i < LANES; i++) {
		left[0] += lane_waiting(timer->lanes.made[i]);
		left[1] += lane_waiting_cancels(timer->lanes.made[i]);
	}
}

/* Fills each lane with new timeouts and cancels, and makes passes of `most` operations until none waits. */
static void take_in(uint32_t most, unsigned new, unsigned cancels)
{
	static hwt_timeout timeouts[LANES][MOST_CANCELS], others[2 * MOST_CANCELS];
	uint64_t all[2], before[2], left[2];

	begin_passes(LANES * MOST_CANCELS);
	for (uint32_t place = 0; place < LANES; place++)
		submit(place, cancels, timeouts[place]);
	driven_pass(timer, START);
	for (uint32_t place = 0; place < LANES; place++) {
		for (unsigned i = 0; i < cancels; i++)
			CHECK_INT(hwt_lane_cancel(lane_at(&timer->lanes, place), timeouts[place][i].entry,
						  timeouts[place][i].generation),
				  ==, 0);
		submit(place, new, others);
	}
	timer->worker.intake.max_transfers = most;
	count_waiting(all);
	CHECK(all[0] == LANES * new && all[1] == LANES * cancels);
	memcpy(before, all, sizeof(before));
	for (unsigned pass = 1; before[0] + before[1] > 0 && test_failures == 0; pass++) {
		uint64_t waited = before[0] + before[1];

		driven_pass(timer, START);
		count_waiting(left);
		CHECK_INT(waited - left[0] - left[1], ==, waited < most ? waited : most);
		/* Each side has half while both wait; of one operation a pass, every second. */
		for (unsigned side = 0; side < 2 && before[0] >= most && before[1] >= most; side++)
			CHECK_INT(all[side] - left[side], >=, pass * most / 2);
		memcpy(before, left, sizeof(before));
	}
	end();
}

/* The bound is for the operations of all lanes together, however many there are. */
TEST(row25_so_many_operations_come_in_a_pass_and_neither_side_starves_the_other)
{
	for (uint32_t most = 1; most <= 100; most += most < 10 ? 3 : 30) {
		take_in(most, 200, MOST_CANCELS);
		take_in(most, 20, 40);
		take_in(most, 0, 40);
		take_in(most, 40, 0);
	}
}

TEST_MAIN()
