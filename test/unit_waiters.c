/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for the end of a task, with either fence, and the wake between a waiter's look and its wait. */
#include "unit.h"
#include "support.h"

struct scene {
	struct hwt_idle idle;
	struct hwt_waiters waiters;
	struct hwt_record record;
	atomic_uint entered;
};

static struct hwt_record many[2 * WAITERS_LISTS];

static void scene_begin(struct scene *scene)
{
	REQUIRE(hwt_idle_init(&scene->idle, NULL) == 0);
	REQUIRE(hwt_waiters_init(&scene->waiters, &scene->idle) == 0);
	atomic_init(&scene->record.word, word_make(7, STATE_RUNNING));
	atomic_init(&scene->entered, 0);
}

static void scene_end(struct scene *scene)
{
	CHECK_INT(atomic_load(&scene->waiters.waiting), ==, scene->waiters.has_barrier ? 0 : 1);
	for (unsigned i = 0; i < WAITERS_LISTS; i++)
		CHECK(atomic_load(&scene->waiters.list[i]) == NULL);
	hwt_waiters_destroy(&scene->waiters);
	hwt_idle_destroy(&scene->idle);
}

static void *await_seven(void *arg)
{
	struct scene *scene = arg;

	atomic_fetch_add(&scene->entered, 1);
	hwt_waiters_wait(&scene->waiters, &scene->idle, &scene->record, 7);
	CHECK(word_state(record_word(&scene->record)) != STATE_RUNNING ||
	      word_generation(record_word(&scene->record)) != 7);
	return NULL;
}

/* Ends the task as the worker does. */
static void finish(struct scene *scene)
{
	CHECK(record_finish(&scene->record, word_make(7, STATE_RUNNING)));
	waiters_look(&scene->waiters, &scene->record);
}

/* No thread wakes the waiter.  This test comes first: a process that has registered is not refused. */
TEST(where_the_barrier_is_refused_a_waiter_looks_again)
{
	struct scene scene;
	struct crew crew;

	atomic_store(&hwt_test_no_membarrier, true);
	scene_begin(&scene);
	atomic_store(&hwt_test_no_membarrier, false);
	scene.idle.has_barrier = true;
	if (hwt_idle_fence_all(&scene.idle)) {
		printf("# this process was registered\n");
	} else {
		points_begin("word load");
		crew_start(&crew, 1, await_seven, &scene, 0);
		REQUIRE(wait_count(&points_passed, 3));
		CHECK(record_finish(&scene.record, word_make(7, STATE_RUNNING)));
		crew_join(&crew);
		(void)points_end();
	}
	scene_end(&scene);
}

TEST(what_does_not_run_is_not_waited_for)
{
	static const uint64_t words[] = { 7ull << GENERATION_SHIFT | STATE_EXPIRED,
					  8ull << GENERATION_SHIFT | STATE_RUNNING,
					  8ull << GENERATION_SHIFT | STATE_QUEUED };
	struct scene scene;

	for (size_t i = 0; i < 3; i++) {
		scene_begin(&scene);
		atomic_store(&scene.record.word, words[i]);
		await_seven(&scene);
		scene_end(&scene);
	}
}

/* Any number of waiters, that come before, while and after the task returns. */
TEST(no_waiter_is_left_behind)
{
	for (unsigned round = 0; round < scaled(400); round++) {
		struct scene scene;
		struct crew crew;

		atomic_store(&hwt_test_no_membarrier, round % 2 == 1);
		scene_begin(&scene);
		crew_start(&crew, 1 + round % 3, await_seven, &scene, 0);
		if (round % 4 < 2)
			REQUIRE(wait_count(&scene.entered, 1));
		if (round % 16 == 3)
			sleep_ns(HWT_US(300));
		if (round % 4 < 2)
			waiters_look(&scene.waiters, &scene.record); /* the waiter looks, and waits on */
		finish(&scene);
		crew_join(&crew);
		scene_end(&scene);
	}
	atomic_store(&hwt_test_no_membarrier, false);
}

/*
 * Many threads wait, each for its own record.  As many other records, for which no thread waits, are in the same lists.
 */

static struct scene crowded;
static atomic_uint entering, tellings;

static void *await_one(void *arg)
{
	struct hwt_record *record = &many[atomic_fetch_add(&entering, 1)];

	(void)arg;
	hwt_waiters_wait(&crowded.waiters, &crowded.idle, record, 7);
	CHECK(word_state(record_word(record)) != STATE_RUNNING);
	return NULL;
}

static void count_tellings(const char *where)
{
	if (strcmp(where, "await told") != 0)
		return;
	/* Otherwise the broadcast could come between a waiter's look and its wait. */
	CHECK(is_locked(&crowded.waiters.monitor.mutex));
	atomic_fetch_add(&tellings, 1);
}

TEST(only_the_end_of_what_is_waited_for_is_told)
{
	struct crew crew;

	for (unsigned without = 0; without < 2; without++) {
		atomic_store(&hwt_test_no_membarrier, without == 1);
		scene_begin(&crowded);
		atomic_store(&entering, 0);
		atomic_store(&tellings, 0);
		for (unsigned i = 0; i < WAITERS_LISTS; i++)
			atomic_store(&many[i].word, word_make(7, STATE_RUNNING));
		crew_start(&crew, WAITERS_LISTS, await_one, NULL, 0);
		REQUIRE(wait_count(&crowded.waiters.waiting, WAITERS_LISTS + without));
		atomic_store(&hwt_test_point, count_tellings);
		for (unsigned i = 0; i < WAITERS_LISTS; i++)
			waiters_look(&crowded.waiters, &many[WAITERS_LISTS + i]);
		CHECK_INT(tellings, ==, 0);
		for (unsigned i = 0; i < WAITERS_LISTS; i++) /* they look, and wait on */
			waiters_look(&crowded.waiters, &many[i]);
		CHECK_INT(tellings, ==, WAITERS_LISTS);
		atomic_store(&hwt_test_point, NULL);
		for (unsigned i = 0; i < WAITERS_LISTS; i++) {
			CHECK(record_finish(&many[i], word_make(7, STATE_RUNNING)));
			waiters_look(&crowded.waiters, &many[i]);
		}
		crew_join(&crew);
		scene_end(&crowded);
	}
	atomic_store(&hwt_test_no_membarrier, false);
}

TEST_MAIN()
