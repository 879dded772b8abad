/* SPDX-License-Identifier: BSD-2-Clause */
/* hwt_reserve: the next timeouts of a thread need no memory of the system's. */
#include "check/check.h"
#include "lane/find.h"
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TICK HWT_MS(1)

static hwt_timer *timer;
static unsigned ran, released;

static void note(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
}

static void note_release(void *arg)
{
	(void)arg;
	released++;
}

static void begin(int64_t limit)
{
	hwt_config config = driven_config(TICK, 64);

	config.max_pending_timeouts = limit;
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_INT(hwt_timer_advance(timer, 0, NULL), ==, 0);
	ran = released = 0;
}

static void end(void)
{
	memory_is_back();
	hwt_check(timer);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

static int schedule(void)
{
	return hwt_new_timeout(timer, note, NULL, 5 * TICK, NULL);
}

static int schedule_owned(void)
{
	hwt_spec spec = HWT_SPEC_INIT;

	spec.task = note;
	spec.release = note_release;
	spec.when_ns = 5 * TICK;
	return hwt_new_timeout_ex(timer, &spec, NULL);
}

/* Until the lane has nothing left.  Returns how many were accepted. */
static unsigned schedule_until_refused(int (*once)(void))
{
	unsigned accepted = 0;

	memory_fails(0, UINT64_MAX);
	while (once() == 0)
		REQUIRE(++accepted < 100000);
	return accepted;
}

/* A thread that had set so much aside gets it.  More only as far as one of two things was left that are needed. */
static void check_reserved(unsigned n)
{
	unsigned accepted = schedule_until_refused(schedule);

	CHECK_INT(accepted, >=, n);
	CHECK_INT(accepted, <=, 2 * n);
}

/* What a thread that shares the lane finds is what the lane has, and never what another thread has set aside. */
struct neighbour {
	unsigned accepted;
	int rc;
};

static struct neighbour use_up_by_a_neighbour(void)
{
	struct neighbour neighbour = { 0, 0 };
	uint32_t mine = hwt_own_number;

	hwt_own_number = mine + timer->lanes.last_seat + 1; /* the same lane */
	memory_fails(0, UINT64_MAX);
	while ((neighbour.rc = schedule()) == 0)
		REQUIRE(++neighbour.accepted < 100000);
	hwt_own_number = mine;
	return neighbour;
}

TEST(what_a_thread_has_set_aside_is_there_when_nothing_else_is)
{
	begin(0);
	CHECK_INT(hwt_reserve(timer, 100), ==, 0);
	hwt_check(timer);
	CHECK_INT(use_up_by_a_neighbour().rc, ==, ENOMEM);
	hwt_check(timer);
	check_reserved(100);
	hwt_check(timer);
	CHECK_INT(schedule(), ==, ENOMEM);
	end();
}

TEST(it_holds_for_timeouts_with_a_finaliser_and_for_periodic_ones)
{
	begin(0);
	CHECK_INT(hwt_reserve(timer, 50), ==, 0);
	(void)use_up_by_a_neighbour();
	for (unsigned i = 0; i < 25; i++) {
		CHECK_INT(schedule_owned(), ==, 0);
		CHECK_INT(hwt_new_periodic(timer, note, NULL, TICK, TICK, NULL), ==, 0);
	}
	CHECK_INT(schedule(), ==, ENOMEM);
	end();
	CHECK_INT(released, ==, 25);
}

/* All that the lane has at hand for anybody. */
static void lose_the_rest(struct hwt_lane *lane)
{
	queue_lock(&lane->submitted);
	while (pool_pop(&lane->pool) != NULL || hwt_lane_find_at_hand(lane) != NULL || hwt_lane_find_more(lane) != NULL)
		;
	while (queue_node(&lane->submitted) != NULL)
		;
	queue_unlock(&lane->submitted);
}

TEST(a_refusal_at_the_limit_uses_nothing_up)
{
	hwt_timeout pending[3];
	struct hwt_lane *lane;
	uint32_t mine;

	begin(3);
	CHECK_INT(hwt_reserve(timer, 3), ==, 0);
	mine = hwt_own_number;
	for (unsigned i = 0; i < 3; i++)
		CHECK_INT(hwt_new_timeout(timer, note, NULL, HWT_S(1), &pending[i]), ==, 0);
	CHECK_INT(hwt_timer_advance(timer, TICK, NULL), ==, 0);
	memory_fails(0, UINT64_MAX);
	lane = lanes_home(&timer->lanes);
	lose_the_rest(lane);
	for (unsigned i = 0; i < 100; i++)
		CHECK_INT(i % 2 ? schedule() : schedule_owned(), ==, ENOBUFS);
	queue_lock(&lane->submitted);
	CHECK(pool_pop(&lane->pool) == NULL); /* which serves others, too */
	queue_unlock(&lane->submitted);
	for (unsigned i = 0; i < 3; i++)
		CHECK_INT(hwt_cancel(pending[i]), ==, 0); /* the worker has not seen it yet */
	hwt_own_number = mine + timer->lanes.last_seat + 1;
	CHECK_INT(schedule(), ==, ENOMEM);
	hwt_own_number = mine;
	for (unsigned i = 0; i < 3; i++)
		CHECK_INT(schedule_owned(), ==, 0);
	memory_is_back();
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
	CHECK_INT(released, ==, 3);
}

/* Memory comes back between the two records of a timeout.  Another thread could have wanted the place meanwhile. */
TEST(a_refusal_without_memory_takes_no_place_below_the_limit)
{
	unsigned refused = 0;

	for (uint64_t n = 1; n < 6; n++) {
		int rc;

		begin(3);
		CHECK_INT(schedule(), ==, 0);
		memory_fails(0, UINT64_MAX);
		lose_the_rest(lanes_home(&timer->lanes));
		memory_fails(0, n);
		points_begin("limit");
		rc = schedule_owned();
		CHECK_INT(points_end(), ==, 0);
		CHECK(rc == 0 || rc == ENOMEM);
		refused += rc == ENOMEM;
		memory_is_back();
		CHECK_INT(hwt_timer_destroy(timer), ==, 0);
	}
	CHECK_INT(refused, >, 0);
}

/* Those that were used are the queue's, and their block is one of its slabs. */
TEST(a_reserve_that_was_begun_keeps_its_nodes)
{
	begin(0);
	for (unsigned i = 0; i < 1000; i++) /* so that there is a slab to give back */
		CHECK_INT(schedule(), ==, 0);
	CHECK_INT(hwt_reserve(timer, 5000), ==, 0);
	(void)use_up_by_a_neighbour();
	for (unsigned i = 0; i < 4000; i++)
		CHECK_INT(schedule(), ==, 0);
	CHECK(lanes_home(&timer->lanes)->reserves->block == NULL);
	memory_is_back();
	CHECK_INT(hwt_timer_advance(timer, 5 * TICK, NULL), ==, 0);
	CHECK_INT(hwt_timer_trim(timer, NULL), ==, 0);
	hwt_check(timer);
	(void)use_up_by_a_neighbour();
	for (unsigned i = 0; i < 1000; i++)
		CHECK_INT(schedule(), ==, 0);
	memory_is_back();
	CHECK_INT(hwt_timer_advance(timer, 20 * TICK, NULL), ==, 0);
	CHECK_INT(hwt_reserve(timer, 0), ==, 0);
	CHECK_INT(hwt_timer_trim(timer, NULL), ==, 0);
	end();
}

/* What another thread does in between: at the n-th lock. */
static unsigned lock_count, lock_of_act;
static void (*act)(void);

static void act_at_lock(const char *where)
{
	if (strcmp(where, "lock") != 0 || lock_count++ != lock_of_act)
		return;
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	act();
}

/* Lets the other act happen after so many locks of a call of hwt_reserve.  Returns true if it locks so often. */
static bool reserve_meanwhile(uint32_t n, unsigned locks, void (*other)(void))
{
	lock_count = 0;
	lock_of_act = locks;
	act = other;
	atomic_store(&hwt_test_point, act_at_lock);
	CHECK_INT(hwt_reserve(timer, n), ==, 0);
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	return lock_count > locks;
}

static void trim_meanwhile(void)
{
	CHECK_INT(hwt_timer_trim(timer, NULL), ==, 0);
}

TEST(nodes_that_are_given_back_do_not_go_with_their_slab)
{
	bool acts = true;

	for (unsigned locks = 0; acts; locks++) {
		begin(0);
		for (unsigned i = 0; i < 1000; i++)
			CHECK_INT(schedule(), ==, 0);
		CHECK_INT(hwt_reserve(timer, 500), ==, 0);
		(void)use_up_by_a_neighbour();
		for (unsigned i = 0; i < 400; i++)
			CHECK_INT(schedule(), ==, 0);
		CHECK(lanes_home(&timer->lanes)->reserves->block == NULL);
		memory_is_back();
		CHECK_INT(hwt_timer_advance(timer, 5 * TICK, NULL), ==, 0);
		acts = reserve_meanwhile(0, locks, trim_meanwhile);
		hwt_check(timer);
		for (unsigned i = 0; i < 1000; i++)
			CHECK_INT(schedule(), ==, 0);
		end();
	}
}

static void ask_meanwhile(void)
{
	hwt_stats stats = { .size = sizeof(stats) };

	CHECK_INT(hwt_timer_stats(timer, &stats), ==, 0);
	CHECK(stats.bytes < (16u << 20)); /* unsigned: garbage may look negative */
}

TEST(statistics_count_a_reserve_that_changes)
{
	bool acts = true;

	for (unsigned locks = 0; acts; locks++) {
		begin(0);
		CHECK_INT(hwt_reserve(timer, 10), ==, 0);
		acts = reserve_meanwhile(20, locks, ask_meanwhile);
		end();
	}
}

static void *reserve_and_go(void *n)
{
	CHECK_INT(hwt_reserve(timer, *(uint32_t *)n), ==, 0);
	return NULL;
}

static unsigned reserves(void)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < lanes_count(&timer->lanes); i++)
		for (struct hwt_reserve *reserve = timer->lanes.made[i]->reserves; reserve != NULL;
		     reserve = reserve->next)
			n++;
	return n;
}

TEST(a_thread_that_ends_gives_its_reserve_back)
{
	uint32_t n = 5000;
	pthread_t thread;
	size_t bytes;

	begin(0);
	CHECK_INT(hwt_reserve(timer, 10), ==, 0);
	for (unsigned i = 0; i < 50; i++) {
		CHECK_INT(pthread_create(&thread, NULL, reserve_and_go, &n), ==, 0);
		CHECK_INT(pthread_join(thread, NULL), ==, 0);
	}
	CHECK_INT(reserves(), ==, 1);
	hwt_check(timer);
	CHECK_INT(records_held(&timer->lanes), <, 50000);
	CHECK_INT(hwt_reserve(timer, 0), ==, 0);
	CHECK_INT(reserves(), ==, 0);
	CHECK_INT(hwt_timer_trim(timer, &bytes), ==, 0);
	CHECK_INT(records_held(&timer->lanes), ==, 0);
	end();
}

static _Thread_local bool is_ending;
static atomic_bool gives_back;

static void take_time(const char *where)
{
	struct timespec while_others_fork = { .tv_nsec = HWT_MS(20) };

	if (!is_ending || strcmp(where, "slab return") != 0 || atomic_exchange(&gives_back, true))
		return;
	(void)nanosleep(&while_others_fork, NULL);
}

static void *reserve_and_end(void *n)
{
	(void)reserve_and_go(n);
	is_ending = true;
	return NULL;
}

/* The exit status: 0, or a signal if a call hangs. */
static void make_a_timer_of_ones_own(void)
{
	(void)alarm(100);
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	begin(0);
	CHECK_INT(hwt_reserve(timer, 10), ==, 0);
	end();
	_exit(test_failures != 0);
}

/* A thread that ends was giving its reserve back: in the child there is no such thread. */
TEST(a_child_may_make_timers_whatever_its_parents_threads_did)
{
	uint32_t n = 100;
	pthread_t thread;
	int status = -1;
	pid_t child;

	begin(0);
	atomic_store(&hwt_test_point, take_time);
	atomic_store(&gives_back, false);
	CHECK_INT(pthread_create(&thread, NULL, reserve_and_end, &n), ==, 0);
	while (!atomic_load(&gives_back))
		(void)sched_yield();
	child = fork();
	if (child == 0)
		make_a_timer_of_ones_own();
	CHECK_INT(waitpid(child, &status, 0), ==, child);
	CHECK_INT(status, ==, 0);
	CHECK_INT(pthread_join(thread, NULL), ==, 0);
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	CHECK_INT(hwt_reserve(timer, 10), ==, 0);
	CHECK_INT(reserves(), ==, 1);
	end();
}

TEST_MAIN()
