/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles under stress: writes before one call are visible after another.  For ThreadSanitizer only the library orders
 * the accesses here.
 */
#include "support.h"

#define HOUR_NS HWT_S(3600)

/* A handle handed over without ordering: two relaxed words, each written once; the reader waits until it sees both. */
struct letter {
	unsigned before;              /* plain: written before hwt_new_timeout */
	unsigned by_task;             /* plain: written by the task */
	_Atomic(void *) entry;        /* relaxed */
	_Atomic(uint64_t) generation; /* relaxed */
	atomic_uint ended;            /* relaxed: for the count at the end */
};

struct post {
	hwt_timer *timer;
	struct letter *letters;
	unsigned count;
	atomic_uint warm, cancelled, expired;
};

static void letter_task(hwt_timeout timeout, void *arg)
{
	struct letter *letter = arg;

	(void)timeout;
	CHECK_INT(letter->before, ==, 1); /* G3 */
	letter->by_task = 2;
	letter->before = 3;
	atomic_fetch_add_explicit(&letter->ended, 1, memory_order_relaxed);
}

/* Schedules as many timeouts from this thread as the test will: afterwards the timer allocates no memory. */
static void warm_up(struct post *post)
{
	hwt_timeout *timeouts = calloc(post->count, sizeof(*timeouts));

	REQUIRE(timeouts);
	for (unsigned i = 0; i < post->count; i++)
		CHECK_RC(hwt_new_timeout(post->timer, count_task, NULL, HOUR_NS, &timeouts[i]), 0);
	for (unsigned i = 0; i < post->count; i++)
		CHECK_RC(hwt_cancel(timeouts[i]), 0);
	wait_ticks(post->timer, 3, HWT_MS(1));
	atomic_store(&post->warm, 1);
	free(timeouts);
}

static void *write_letters(void *arg)
{
	struct post *post = arg;

	warm_up(post);
	for (unsigned i = 0; i < post->count; i++) {
		struct letter *letter = &post->letters[i];
		hwt_timeout timeout;

		letter->before = 1;
		CHECK_RC(hwt_new_timeout(post->timer, letter_task, letter, i % 3 ? HWT_US(i % 500) : HOUR_NS, &timeout),
			 0);
		atomic_store_explicit(&letter->entry, timeout.entry, memory_order_relaxed);
		atomic_store_explicit(&letter->generation, timeout.generation, memory_order_relaxed);
		if (i % 50 == 0)
			sleep_ns(HWT_US(100));
	}
	return NULL;
}

static hwt_timeout read_handle(struct letter *letter)
{
	struct patience patience = PATIENCE("a letter");
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	while ((!timeout.entry || !timeout.generation) && patience_lasts(&patience, 0)) {
		timeout.entry = atomic_load_explicit(&letter->entry, memory_order_relaxed);
		timeout.generation = atomic_load_explicit(&letter->generation, memory_order_relaxed);
	}
	return timeout;
}

/* Cancels each timeout, or sees that it has expired; then reads the other side's writes with plain loads. */
static void *read_letters(void *arg)
{
	struct post *post = arg;

	REQUIRE(wait_count(&post->warm, 1));
	for (unsigned i = 0; i < post->count; i++) {
		struct letter *letter = &post->letters[i];
		/* In turns close behind the writer, and far behind, where most timeouts have expired. */
		unsigned lag = i / 2000 % 2 ? 2000 : 0;
		hwt_timeout timeout;

		(void)read_handle(&post->letters[i + lag < post->count ? i + lag : post->count - 1]);
		timeout = read_handle(letter);
		if (i % 2 && hwt_cancel(timeout) == 0) {
			CHECK_INT(letter->before, ==, 1);
			letter->before = 4;
			atomic_fetch_add_explicit(&letter->ended, 1, memory_order_relaxed);
			atomic_fetch_add(&post->cancelled, 1);
		} else if (i % 3 && hwt_timeout_state(timeout) == HWT_EXPIRED) {
			CHECK_INT(letter->by_task, ==, 2);
			CHECK_INT(letter->before, ==, 3);
			atomic_fetch_add(&post->expired, 1);
		}
	}
	return NULL;
}

TEST(the_task_sees_what_the_scheduler_wrote)
{
	struct post post = { .timer = new_timer(HWT_MS(1), 64), .count = scaled(100000) };
	struct crew writer, reader;
	hwt_unprocessed left;
	size_t count = 0, returned = 0;

	post.letters = calloc(post.count, sizeof(*post.letters));
	REQUIRE(post.letters);
	crew_start(&writer, 1, write_letters, &post, 0);
	crew_start(&reader, 1, read_letters, &post, 0);
	crew_join(&writer);
	crew_join(&reader);
	CHECK_RC(hwt_timer_stop(post.timer, &count), 0);
	while (returned <= count && hwt_timer_next_unprocessed(post.timer, &left)) {
		struct letter *letter = left.arg;

		CHECK_INT(letter->before, ==, 1);
		atomic_fetch_add_explicit(&letter->ended, 1, memory_order_relaxed);
		returned++;
	}
	CHECK_INT(returned, ==, count);
	for (unsigned i = 0; i < post.count; i++) {
		CHECK_INT(post.letters[i].ended, ==, 1);
		CHECK(post.letters[i].by_task == 0 ||
		      post.letters[i].before == 3); /* the stop orders the tasks before this */
	}
	printf("# %u cancelled, %u seen expired, %zu returned\n", post.cancelled, post.expired, returned);
	CHECK_RC(hwt_timer_destroy(post.timer), 0);
	free(post.letters);
}

TEST_MAIN()
