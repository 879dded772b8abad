/* SPDX-License-Identifier: BSD-2-Clause */
/* What fills one lane must not keep the other lanes waiting: the shares of a pass, on virtual time. */
#include "unit.h"

/* No machine has been up for so long: what really sleeps until a time of the test never wakes. */
#define START HWT_S(1000000000)
#define TICK HWT_MS(1)
#define FAR HWT_S(3600)

static hwt_timer *timer;
static unsigned ran;

static uint32_t lanes(void)
{
	return timer->lanes.last_seat + 1;
}

/* Lane 0 is that of this thread, which makes the passes; the others stand for those of other threads. */
static struct hwt_lane *lane(uint32_t i)
{
	return lane_at(&timer->lanes, (hwt_own_number + i) & timer->lanes.last_seat);
}

/* With so many transfers a pass, and all lanes. */
static void begin(uint32_t max_transfers)
{
	hwt_config config = driven_config(TICK, 64);

	config.max_transfers_per_tick = max_transfers;
	ran = 0;
	timer = driven_create(&config, START);
	REQUIRE(lanes_home(&timer->lanes) == lane(0));
	for (uint32_t i = 1; i < lanes(); i++)
		(void)lane(i);
}

static void count(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
}

static void submit(uint32_t to, unsigned n, hwt_task *task, int64_t delay_ns)
{
	for (unsigned i = 0; i < n; i++)
		CHECK_INT(hwt_lane_submit(lane(to), task, NULL, fake_now_ns + delay_ns, NULL), ==, 0);
}

static uint64_t waiting(uint32_t in)
{
	uint64_t n = 0;

	/* Relaxed: nobody else is at work. */
	n = atomic_load_explicit(&lane(in)->accepted, memory_order_relaxed);
	return n - atomic_load_explicit(&lane(in)->taken, memory_order_relaxed);
}

/* A producer need not be the first to write to a page, once its timer is large. */
TEST(a_pass_has_a_slab_ready_for_a_lane_that_grows)
{
	const struct hwt_record_slabs *slabs;

	begin(1000);
	slabs = &timer->lanes.slabs;
	submit(0, 7 * SLAB_RECORDS, count, FAR);
	CHECK(!atomic_load(&slabs->wanted)); /* it is small */
	submit(0, SLAB_RECORDS, count, FAR);
	CHECK(atomic_load(&slabs->wanted));
	driven_pass(timer, START + TICK);
	CHECK(!atomic_load(&slabs->wanted));
	CHECK_INT(record_slabs_held(slabs), ==, 9 * SLAB_RECORDS * sizeof(struct hwt_record));
	submit(0, SLAB_RECORDS / 4, count, FAR);
	CHECK_INT(record_slabs_held(slabs), ==, 9 * SLAB_RECORDS * sizeof(struct hwt_record));
	CHECK(atomic_load(&slabs->wanted)); /* and the next one */
	driven_destroy(timer);
}

/* What a lane has, up to its share, comes in one pass, however much the others have and wherever the pass begins. */
TEST(each_lane_has_its_share_of_each_pass)
{
	begin(1);
	timer->worker.intake.max_transfers = 10 * lanes();
	for (uint32_t i = 1; i < lanes(); i++)
		submit(i, 1000, count, FAR);
	for (unsigned pass = 1; pass <= 50; pass++) {
		submit(0, 10, count, 0);
		CHECK(driven_pass(timer, START + pass * TICK));
		CHECK_INT(ran, ==, 10 * pass);
		CHECK_INT(waiting(0), ==, 0);
	}
	for (uint32_t i = 1; i < lanes(); i++)
		CHECK_INT(waiting(i), ==, 1000 - 50 * 10);
	driven_destroy(timer);
}

/* With less than one for each lane the lanes take turns. */
TEST(few_transfers_go_around)
{
	static const uint32_t busy[] = { 0, 1, 2, 7, 11 };
	enum { BUSY = sizeof(busy) / sizeof(busy[0]) };

	for (uint32_t transfers = 1; transfers < 4; transfers++) {
		begin(transfers);
		for (unsigned i = 0; i < BUSY; i++)
			submit(busy[i], 20, count, FAR);
		for (unsigned pass = 1; pass <= 10; pass++) {
			CHECK(driven_pass(timer, START));
			for (unsigned i = 0; i < BUSY; i++) {
				CHECK_INT(waiting(busy[i]), <=, 20 - pass * transfers / BUSY);
				CHECK_INT(waiting(busy[i]), >=, 20 - (pass * transfers + BUSY - 1) / BUSY);
			}
		}
		driven_destroy(timer);
	}
}

/* The worker runs in this thread, until nothing is left.  What comes between two of its looks at the clock. */
static uint64_t operations[2], most_at_once, looks, begun[2];

static uint64_t left_of(unsigned side)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < lanes(); i++)
		n += side == 0 ? waiting(i) : lane_waiting_cancels(lane(i));
	return n;
}

static int64_t count_look(void)
{
	uint64_t left[2] = { left_of(0), left_of(1) }, came[2], max = timer->worker.intake.max_transfers;

	for (unsigned side = 0; side < 2; side++)
		came[side] = operations[side] - left[side];
	if (came[0] + came[1] > most_at_once)
		most_at_once = came[0] + came[1];
	/* Each has half while both wait; of one operation, each has every second. */
	for (unsigned side = 0; side < 2 && max > 1; side++)
		if (looks > 0 && operations[0] >= max && operations[1] >= max)
			CHECK_INT(came[side], >=, max / 2);
	if (looks > 0 && (left[0] > 0 || left[1] > 0))
		CHECK_INT(came[0] + came[1], ==, max);
	if (max == 1 && looks == 20 && begun[0] > 20 && begun[1] > 20) {
		CHECK_INT(begun[0] - left[0], >=, 9);
		CHECK_INT(begun[1] - left[1], >=, 9);
	}
	looks++;
	memcpy(operations, left, sizeof(left));
	if (left[0] + left[1] == 0)
		hwt_worker_request_stop(&timer->worker);
	return fake_now_ns;
}

static void sleep_no_time(int64_t until_ns)
{
	(void)until_ns;
}

/* So many of each in each lane: in the wheel and cancelled there, and new. */
static void take_in(uint32_t max_transfers, unsigned cancels, unsigned new)
{
	hwt_timeout *timeouts;
	unsigned all;

	begin(100000);
	all = lanes() * cancels;
	timeouts = calloc(all + 1, sizeof(*timeouts));
	REQUIRE(timeouts != NULL);
	for (unsigned i = 0; i < all; i++)
		CHECK_INT(hwt_lane_submit(lane(i % lanes()), count, NULL, START + FAR, &timeouts[i]), ==, 0);
	driven_pass(timer, START);
	for (unsigned i = 0; i < all; i++)
		CHECK_INT(hwt_lane_cancel(lane(i % lanes()), timeouts[i].entry, timeouts[i].generation), ==, 0);
	free(timeouts);
	timer->worker.intake.max_transfers = max_transfers;
	for (uint32_t i = 0; i < lanes(); i++)
		submit(i, new, count, FAR);
	for (unsigned side = 0; side < 2; side++)
		begun[side] = operations[side] = left_of(side);
	looks = most_at_once = 0;
	hwt_test_clock = count_look;
	hwt_test_sleep = sleep_no_time;
	hwt_worker_run(&timer->worker);
	hwt_test_sleep = NULL;
	hwt_test_clock = fake_clock;
	CHECK_INT(begun[1], ==, all);
	driven_destroy(timer);
}

/* Of all lanes together, however many there are. */
TEST(row25_so_many_operations_come_between_two_looks_at_the_clock)
{
	for (uint32_t max = 1; max <= 100; max += 33) {
		take_in(max, 150, 200);
		CHECK_INT(most_at_once, ==, max);
	}
}

TEST(neither_side_starves_the_other)
{
	for (uint32_t max = 1; max <= 10; max += 3) {
		take_in(max, 40, 20);
		take_in(max, 20, 40);
		take_in(max, 40, 0);
		take_in(max, 0, 40);
	}
}

TEST_MAIN()
