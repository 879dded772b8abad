/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for a lane, or for a deadline that is being written.
 *
 * Threads of a real-time class: one that waits for another thread on its own processor must sleep, or the other will
 * never come on.
 *
 * An ordinary thread is in the middle of a call, with a mark or a lock that others wait for.  There it lets an urgent
 * one go on, SCHED_FIFO on the same processor, which meets what the first one holds.  Counted is how often the urgent
 * one gives way.
 */
#include "unit.h"
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

/* A second of mere yielding has some hundred thousand turns, one with sleep a thousand. */
#define MANY_TURNS 20000

#define AT(tick) HWT_MS(tick)

struct scene {
	const char *point; /* where the ordinary one is held up */
	void (*ordinary)(struct scene *scene);
	void (*urgent)(struct scene *scene);
	hwt_timer *timer;
	hwt_timeout first, second; /* both are in the wheel */
};

static struct {
	struct scene *scene;
	sem_t go;
	atomic_uint turns, held_up;
} stage;

static _Thread_local enum { BYSTANDER, ORDINARY, URGENT } role;

static void watch(const char *where)
{
	if (role == ORDINARY && strcmp(where, stage.scene->point) == 0 && atomic_fetch_add(&stage.held_up, 1) == 0)
		sem_post(&stage.go); /* this thread has lost its processor when it returns */
	else if (role == URGENT && strcmp(where, "give way") == 0)
		atomic_fetch_add(&stage.turns, 1);
}

static void *ordinary_thread(void *unused)
{
	role = ORDINARY;
	hwt_own_number = 1; /* the two share a lane */
	stage.scene->ordinary(stage.scene);
	return unused;
}

static void *urgent_thread(void *unused)
{
	hwt_own_number = 1;
	while (sem_wait(&stage.go) != 0)
		;
	role = URGENT;
	stage.scene->urgent(stage.scene);
	role = BYSTANDER;
	return unused;
}

static void on_one_processor(pthread_attr_t *attr, int policy)
{
	struct sched_param param = { .sched_priority = policy == SCHED_FIFO ? 1 : 0 };
	cpu_set_t mine, one;
	unsigned cpu = 0;

	REQUIRE(sched_getaffinity(0, sizeof(mine), &mine) == 0);
	while (!CPU_ISSET(cpu, &mine))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	REQUIRE(pthread_attr_init(attr) == 0 && pthread_attr_setaffinity_np(attr, sizeof(one), &one) == 0);
	REQUIRE(pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED) == 0);
	REQUIRE(pthread_attr_setschedpolicy(attr, policy) == 0 && pthread_attr_setschedparam(attr, &param) == 0);
}

/* false: a thread may not be made urgent here. */
static bool start_both(pthread_t *ordinary, pthread_t *urgent)
{
	pthread_attr_t attr;
	int rc;

	on_one_processor(&attr, SCHED_FIFO);
	rc = pthread_create(urgent, &attr, urgent_thread, NULL);
	pthread_attr_destroy(&attr);
	REQUIRE(rc == 0 || rc == EPERM);
	if (rc != 0)
		return false;
	on_one_processor(&attr, SCHED_OTHER);
	REQUIRE(pthread_create(ordinary, &attr, ordinary_thread, NULL) == 0);
	pthread_attr_destroy(&attr);
	return true;
}

/* How often the urgent one let others go on; -1: there may be none here. */
static int64_t play_once(struct scene *scene)
{
	hwt_config config = driven_config(HWT_MS(1), 64);
	pthread_t ordinary, urgent;
	bool played;

	stage.scene = scene;
	atomic_store(&stage.turns, 0);
	atomic_store(&stage.held_up, 0);
	REQUIRE(sem_init(&stage.go, 0, 0) == 0);
	scene->timer = driven_create(&config, 0);
	CHECK_INT(hwt_new_timeout_at(scene->timer, count_task, NULL, AT(1000), &scene->first), ==, 0);
	CHECK_INT(hwt_new_timeout_at(scene->timer, count_task, NULL, AT(1000), &scene->second), ==, 0);
	driven_pass(scene->timer, AT(1));
	atomic_store(&hwt_test_point, watch);
	played = start_both(&ordinary, &urgent);
	if (played) {
		REQUIRE(pthread_join(urgent, NULL) == 0);
		REQUIRE(pthread_join(ordinary, NULL) == 0);
		CHECK_INT(stage.held_up, >, 0);
	}
	atomic_store(&hwt_test_point, NULL);
	driven_destroy(scene->timer);
	sem_destroy(&stage.go);
	return played ? (int64_t)atomic_load(&stage.turns) : -1;
}

/* Now and then the system keeps urgent threads back, and the ordinary one finishes first. */
static bool play(struct scene *scene)
{
	int64_t turns = 0;

	for (unsigned i = 0; i < 20 && turns == 0; i++)
		turns = play_once(scene);
	CHECK_INT(turns, !=, 0);
	CHECK_INT(turns, <, MANY_TURNS);
	return turns > 0;
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

TEST(an_urgent_thread_sleeps_while_a_deadline_is_being_written)
{
	static struct scene scenes[] = {
		{ .point = "moving", .ordinary = postponed_first, .urgent = postponed_first },
		{ .point = "moving", .ordinary = postponed_first, .urgent = cancel_first },
		{ .point = "moving", .ordinary = postponed_first, .urgent = stop },
	};

	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (!play(&scenes[i]))
			SKIP("SCHED_FIFO is not permitted here");
}

TEST(an_urgent_thread_sleeps_while_its_lane_is_locked)
{
	static struct scene scenes[] = {
		{ .point = "word take", .ordinary = schedule, .urgent = schedule },
		{ .point = "queue push", .ordinary = cancel_first, .urgent = cancel_second },
	};

	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (!play(&scenes[i]))
			SKIP("SCHED_FIFO is not permitted here");
}

/*
 * A thread that is cancelled while it sleeps so.
 */

static atomic_uint gave_way, returned;

static void count_turns(const char *where)
{
	if (strcmp(where, "give way") == 0)
		atomic_fetch_add(&gave_way, 1);
}

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
	atomic_store(&hwt_test_point, count_turns);
	REQUIRE(pthread_create(&thread, NULL, cancelled_thread, timer) == 0);
	REQUIRE(wait_count(&gave_way, 30)); /* it sleeps */
	queue_unlock(&lane->submitted);
	REQUIRE(pthread_join(thread, &result) == 0);
	atomic_store(&hwt_test_point, NULL);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_INT(returned, ==, 1);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
	driven_destroy(timer);
}

TEST_MAIN()
