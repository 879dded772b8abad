/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for a lane, or for a deadline that is being written.
 *
 * A thread that waits must sleep after some yields.  If it is of a real-time class and waits for an ordinary thread on
 * its own processor, that thread does not run before.
 *
 * A holder is in the middle of a call, with a flag or a lock for which others wait.  It stays there until a waiter has
 * given way MANY_TURNS times.  Counted is how often the waiter has only yielded.
 */
#include "unit.h"
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>

#define MANY_TURNS 100
#define FEW_YIELDS 30 /* a wait yields 16 times */

#define AT(tick) HWT_MS(tick)

struct scene {
	const char *point; /* the point at which the holder stops */
	void (*holder)(struct scene *scene);
	void (*waiter)(struct scene *scene);
	hwt_timer *timer;
	hwt_timeout first, second; /* both timeouts are in the wheel */
};

static struct {
	struct scene *scene;
	sem_t go;
	atomic_uint turns, yields, held_up;
} stage;

static _Thread_local enum { BYSTANDER, HOLDER, WAITER } role;

/* In place of libc's, also for the library: counts the yields of the waiter. */
int sched_yield(void)
{
	if (role == WAITER)
		atomic_fetch_add(&stage.yields, 1);
	return (int)syscall(SYS_sched_yield);
}

static void watch(const char *where)
{
	if (role == HOLDER && strcmp(where, stage.scene->point) == 0 && atomic_fetch_add(&stage.held_up, 1) == 0) {
		sem_post(&stage.go);
		CHECK(wait_count(&stage.turns, MANY_TURNS));
	} else if (role == WAITER && strcmp(where, "give way") == 0) {
		atomic_fetch_add(&stage.turns, 1);
	}
}

static void *holder_thread(void *unused)
{
	role = HOLDER;
	hwt_own_number = 1; /* the two share a lane */
	stage.scene->holder(stage.scene);
	return unused;
}

static void *waiter_thread(void *unused)
{
	hwt_own_number = 1;
	while (sem_wait(&stage.go) != 0)
		;
	role = WAITER;
	stage.scene->waiter(stage.scene);
	role = BYSTANDER;
	return unused;
}

static void play(struct scene *scene)
{
	hwt_config config = driven_config(HWT_MS(1), 64);
	pthread_t holder, waiter;

	stage.scene = scene;
	atomic_store(&stage.turns, 0);
	atomic_store(&stage.yields, 0);
	atomic_store(&stage.held_up, 0);
	REQUIRE(sem_init(&stage.go, 0, 0) == 0);
	scene->timer = driven_create(&config, 0);
	CHECK_INT(hwt_new_timeout_at(scene->timer, count_task, NULL, AT(1000), &scene->first), ==, 0);
	CHECK_INT(hwt_new_timeout_at(scene->timer, count_task, NULL, AT(1000), &scene->second), ==, 0);
	driven_pass(scene->timer, AT(1));
	atomic_store(&hwt_test_point, watch);
	REQUIRE(pthread_create(&waiter, NULL, waiter_thread, NULL) == 0);
	REQUIRE(pthread_create(&holder, NULL, holder_thread, NULL) == 0);
	REQUIRE(pthread_join(holder, NULL) == 0);
	REQUIRE(pthread_join(waiter, NULL) == 0);
	atomic_store(&hwt_test_point, NULL);
	CHECK_INT(stage.yields, <=, FEW_YIELDS);
	driven_destroy(scene->timer);
	sem_destroy(&stage.go);
}

static void postponed_first(struct scene *scene)
{
	CHECK_INT(hwt_reschedule_at(scene->first, AT(2000)), ==, 0);
}

static void cancel_first(struct scene *scene)
{
	CHECK_INT(hwt_cancel(scene->first), ==, 0);
}

static void cancel_second(struct scene *scene)
{
	CHECK_INT(hwt_cancel(scene->second), ==, 0);
}

static void schedule(struct scene *scene)
{
	CHECK_INT(hwt_new_timeout_at(scene->timer, count_task, NULL, AT(1000), NULL), ==, 0);
}

static void stop(struct scene *scene)
{
	size_t count = 0;

	CHECK_INT(hwt_timer_stop(scene->timer, &count), ==, 0);
	CHECK_INT(count, ==, 2);
}

TEST(a_waiter_sleeps_while_a_deadline_is_being_written)
{
	static struct scene scenes[] = {
		{ .point = "moving", .holder = postponed_first, .waiter = postponed_first },
		{ .point = "moving", .holder = postponed_first, .waiter = cancel_first },
		{ .point = "moving", .holder = postponed_first, .waiter = stop },
	};

	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		play(&scenes[i]);
}

TEST(a_waiter_sleeps_while_its_lane_is_locked)
{
	static struct scene scenes[] = {
		{ .point = "word take", .holder = schedule, .waiter = schedule },
		{ .point = "queue push", .holder = cancel_first, .waiter = cancel_second },
	};

	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		play(&scenes[i]);
}

/* A thread that is cancelled while it gives way. */

static atomic_uint returned;

static void *cancelled_thread(void *timer)
{
	hwt_own_number = 1;
	REQUIRE(pthread_cancel(pthread_self()) == 0);
	CHECK_INT(hwt_new_timeout_at(timer, count_task, NULL, AT(1000), NULL), ==, 0);
	atomic_fetch_add(&returned, 1);
	pthread_testcancel();
	return NULL;
}

TEST(a_cancelled_thread_that_waits_for_a_lane_leaves_after_the_call)
{
	hwt_config config = driven_config(HWT_MS(1), 64);
	hwt_timer *timer = driven_create(&config, 0);
	struct hwt_lane *lane;
	pthread_t thread;
	void *result = NULL;

	hwt_own_number = 1;
	lane = lanes_home(&timer->lanes);
	queue_lock(&lane->submitted);
	points_begin("give way");
	REQUIRE(pthread_create(&thread, NULL, cancelled_thread, timer) == 0);
	REQUIRE(wait_count(&points_passed, 30)); /* the waiter sleeps */
	queue_unlock(&lane->submitted);
	REQUIRE(pthread_join(thread, &result) == 0);
	(void)points_end();
	CHECK(result == PTHREAD_CANCELED);
	CHECK_INT(returned, ==, 1);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
	driven_destroy(timer);
}

TEST_MAIN()
