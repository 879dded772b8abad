/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much memory the library holds, as the system sees it: resident bytes.  Timeouts of hours that are cancelled soon
 * must not leave theirs behind, whichever threads come and go (row 24 of the list of behaviours).
 *
 * Under a sanitizer the same calls are made, fewer of them, but resident bytes are then its own and only printed.
 */
#include "support.h"

#include <malloc.h>

#define HOUR_NS HWT_S(3600)
#define TICK_NS HWT_MS(1)
#define MIB (INT64_C(1) << 20)

/* What is resident, with what libc has kept for later given back. */
static int64_t resident(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
	return rss_bytes();
}

static void check_growth(const char *what, int64_t before, int64_t after, int64_t limit)
{
	printf("# %s: %.3f MiB, allowed %.3f\n", what, (double)(after - before) / (double)MIB,
	       (double)limit / (double)MIB);
	if (before < 0 || after < 0)
		printf("# not tested, the system does not tell\n");
	else if (!SANITIZED)
		CHECK_INT(after - before, <=, limit);
}

struct filler {
	hwt_timer *timer;
	hwt_timeout *timeouts;
	unsigned count;
};

static void fill(const struct filler *filler)
{
	for (unsigned i = 0; i < filler->count; i++)
		CHECK_RC(
		    hwt_new_timeout(filler->timer, count_task, NULL, HOUR_NS + HWT_US(i % 1000), &filler->timeouts[i]),
		    0);
}

static void empty(const struct filler *filler)
{
	for (unsigned i = 0; i < filler->count; i++)
		CHECK_RC(hwt_cancel(filler->timeouts[i]), 0);
}

static struct filler new_filler(hwt_timer *timer, unsigned count)
{
	struct filler filler = { timer, malloc(count * sizeof(*filler.timeouts)), count };

	REQUIRE(filler.timeouts);
	memset(filler.timeouts, 0, count * sizeof(*filler.timeouts)); /* resident from now on */
	return filler;
}

static void *fill_and_empty(void *arg)
{
	const struct filler *filler = arg;

	fill(filler);
	empty(filler);
	return NULL;
}

/* One thread after the other, hundreds: what one has freed serves the next.  A lane itself takes some KiB. */
TEST(threads_one_after_the_other)
{
	unsigned threads = scaled(200);
	struct filler filler = new_filler(new_timer(TICK_NS, 512), 4000);
	int64_t first = 0;

	for (unsigned i = 0; i < threads; i++) {
		crew_run(1, fill_and_empty, &filler, 0);
		wait_ticks(filler.timer, 3, TICK_NS); /* two ticks after the cancel it is free */
		if (i == 0)
			first = resident();
	}
	check_growth("growth from the first thread to the last", first, resident(), 6 * MIB);
	CHECK_RC(hwt_timer_destroy(filler.timer), 0);
	free(filler.timeouts);
}

/* A handful of timeouts from many threads, whose stacks are there before. */
struct few {
	hwt_timer *timer;
	pthread_barrier_t *barrier;
	unsigned number;
};

static void touch_stack(void)
{
	volatile char space[32768];

	for (size_t i = 0; i < sizeof(space); i += 512)
		space[i] = 1;
}

static void *schedule_few(void *arg)
{
	struct few *few = arg;

	touch_stack();
	free(malloc(100));                  /* the thread's own part of the heap */
	pthread_barrier_wait(few->barrier); /* ready */
	pthread_barrier_wait(few->barrier); /* measured */
	for (unsigned i = few->number; i < 100; i += 16)
		CHECK_RC(hwt_new_timeout(few->timer, count_task, NULL, HOUR_NS, NULL), 0);
	pthread_barrier_wait(few->barrier); /* done */
	pthread_barrier_wait(few->barrier); /* measured */
	return NULL;
}

TEST(few_timeouts_from_many_threads_take_little_memory)
{
	enum { THREADS = 16 };
	hwt_timer *timer = new_timer(TICK_NS, 512);
	pthread_barrier_t barrier;
	struct few few[THREADS];
	struct crew crew;
	int64_t before;

	/* The worker has run: its stack is not counted. */
	wait_ticks(timer, 3, TICK_NS);
	REQUIRE(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		few[i] = (struct few){ timer, &barrier, i };
	crew_start(&crew, THREADS, schedule_few, few, sizeof(few[0]));
	pthread_barrier_wait(&barrier);
	before = resident();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	wait_ticks(timer, 3, TICK_NS); /* they have gone to the wheel */
	CHECK_INT(hwt_pending_timeouts(timer), ==, 100);
	check_growth("100 timeouts from 16 threads", before, resident(), 512 * 1024);
	pthread_barrier_wait(&barrier);
	crew_join(&crew);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	pthread_barrier_destroy(&barrier);
}

/* The price of one pending timeout, record, queue and wheel taken together. */
TEST(a_pending_timeout_takes_at_most_80_bytes)
{
	unsigned count = 1000000; /* fewer, and it would be slabs that are measured */
	hwt_timer *timer = new_timer(TICK_NS, 512);
	struct prng prng = { 1 };
	int64_t before;

	wait_ticks(timer, 3, TICK_NS);
	before = resident();
	for (unsigned i = 0; i < count; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HOUR_NS + (int64_t)prng_below(&prng, HOUR_NS), NULL),
			 0);
	wait_ticks(timer, 3, TICK_NS);
	CHECK_INT(hwt_pending_timeouts(timer), ==, count);
	/* And of records, nodes and buckets a slab each that has just been begun. */
	check_growth("a million pending", before, resident(), 80 * (int64_t)count + 6 * MIB);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Nothing stays when the timer has gone. */
TEST(destroy_gives_memory_back)
{
	int64_t first = 0;

	for (int i = 0; i < 10; i++) {
		struct filler filler = new_filler(new_timer(TICK_NS, 512), scaled(200000));

		fill(&filler);
		wait_ticks(filler.timer, 3, TICK_NS);
		CHECK_RC(hwt_timer_destroy(filler.timer), 0);
		free(filler.timeouts);
		if (i == 0)
			first = resident();
	}
	check_growth("growth over ten timers", first, resident(), 8 * MIB);
}

TEST_MAIN()
