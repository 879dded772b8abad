/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random programs of timer calls against the reference model, in every configuration of oracle_table.h; the fuzzer's
 * corpus, replayed; and cases of memory, which the model does not have.
 *
 * HWT_SEED repeats a run, HWT_SCALE changes its length (per cent).
 */
#include "oracle_run.h"

#include <signal.h>

#if defined(__SANITIZE_ADDRESS__) || defined(HWT_TSAN)
#define SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLOW 1
#endif
#endif
#ifdef SLOW
#define STEPS 120000
#else
#define STEPS 900000
#endif

#define CORPUS "test/corpus.tar" /* from the root of the project */

static struct oracle_sums totals;

static uint64_t steps_of_a_row(void)
{
	const char *given = getenv("HWT_SCALE");
	uint64_t percent = given != NULL ? strtoull(given, NULL, 10) : 100;

	return (uint64_t)STEPS * percent / 100 / ORACLE_ROWS + 1;
}

/* Prints the seed: hwt_check and HWT_ASSERT abort. */
static void tell_where(int number)
{
	(void)number;
	fprintf(stderr, "in configuration %s, at step %u of program %" PRIu64 "\n", oracle.row->name, oracle.step,
		oracle.sums.programs + 1);
	signal(SIGABRT, SIG_DFL);
	raise(SIGABRT);
}

static void add_to_totals(const struct oracle_sums *sums)
{
	totals.steps += sums->steps;
	totals.programs += sums->programs;
	totals.ran += sums->ran;
	totals.cancelled += sums->cancelled;
	totals.busy += sums->busy;
	totals.no_memory += sums->no_memory;
	totals.no_room += sums->no_room;
	totals.lazy += sums->lazy;
	totals.unplaced += sums->unplaced;
	totals.stopped_midway += sums->stopped_midway;
	totals.moved += sums->moved;
	totals.requeued += sums->requeued;
	totals.unmoved += sums->unmoved;
	totals.again += sums->again;
	totals.not_again += sums->not_again;
	totals.too_late += sums->too_late;
	totals.merged += sums->merged;
	totals.dropped += sums->dropped;
	totals.released += sums->released;
}

/* In few steps perhaps no task runs; then the test goes on, up to a bound. */
static bool enough(uint64_t wanted)
{
	const struct oracle_sums *sums = &oracle.sums;

	return sums->steps >= wanted && ((sums->ran > 0 && sums->cancelled > 0) || sums->steps >= wanted + 10000);
}

static void run_row(const struct oracle_row *row)
{
	uint64_t steps = steps_of_a_row(), seed = random_seed();

	signal(SIGABRT, tell_where);
	memset(&oracle.sums, 0, sizeof(oracle.sums));
	while (!enough(steps) && oracle_run(row, (struct source){ NULL, 0, random_next(&seed) | 1 }))
		;
	CHECK_INT(oracle.sums.ran, >, 0);
	CHECK_INT(oracle.sums.cancelled, >, 0);
	add_to_totals(&oracle.sums);
}

/* One test a configuration. */
#define X(name, ...)                                                                                                   \
	TEST(agrees_on_##name)                                                                                         \
	{                                                                                                              \
		run_row(&oracle_table[ROW_##name]);                                                                    \
	}
ORACLE_TABLE(X)
#undef X

/* Programs that never come to a difficult case would agree with any model. */
TEST(row15_no_part_of_the_random_model_ran_idle)
{
	printf("# %" PRIu64 " steps, %" PRIu64 " programs, %" PRIu64 " ran, %" PRIu64 " cancelled, %" PRIu64
	       " too late to, %" PRIu64 " refused for memory, %" PRIu64 " for the limit, %" PRIu64 " lazy, %" PRIu64
	       " unplaced, %" PRIu64 " stops midway\n",
	       totals.steps, totals.programs, totals.ran, totals.cancelled, totals.busy, totals.no_memory,
	       totals.no_room, totals.lazy, totals.unplaced, totals.stopped_midway);
	printf("# %" PRIu64 " moved, %" PRIu64 " of them earlier, %" PRIu64 " not, as memory had run out, %" PRIu64
	       " again, %" PRIu64 " not for the limit, %" PRIu64 " not after a cancel, %" PRIu64
	       " late by periods, %" PRIu64 " cancelled while they ran, %" PRIu64 " released\n",
	       totals.moved, totals.requeued, totals.unmoved, totals.again, totals.not_again, totals.too_late,
	       totals.merged, totals.dropped, totals.released);
	if (totals.steps < 400000) /* only some tests, or few steps, were run */
		return;
	CHECK_INT(totals.busy, >, 0);
	CHECK_INT(totals.no_memory, >, 0);
	CHECK_INT(totals.no_room, >, 0);
	CHECK_INT(totals.lazy, >, 0);
	CHECK_INT(totals.unplaced, >, 0);
	CHECK_INT(totals.stopped_midway, >, 0);
	CHECK_INT(totals.moved, >, totals.requeued);
	CHECK_INT(totals.requeued, >, 0);
	CHECK_INT(totals.unmoved, >, 0);
	CHECK_INT(totals.again, >, 0);
	CHECK_INT(totals.not_again, >, 0);
	CHECK_INT(totals.too_late, >, 0);
	CHECK_INT(totals.merged, >, 0);
	CHECK_INT(totals.dropped, >, 0);
	CHECK_INT(totals.released, >, 0);
}

/* The header of a file in an archive, as POSIX defines it.  The contents follow, padded to whole blocks of 512. */
union block {
	struct {
		char name[100], mode[8], uid[8], gid[8], size[12];
	} header;
	uint8_t bytes[512];
};

TEST(corpus_replays)
{
	static union block blocks[1 << 10]; /* the blocks of one program */
	FILE *archive = fopen(CORPUS, "rb");
	unsigned replayed = 0;
	size_t size;

	REQUIRE(archive != NULL); /* run it from the root of the project */
	signal(SIGABRT, tell_where);
	memset(&oracle.sums, 0, sizeof(oracle.sums));
	while (fread(blocks, sizeof(*blocks), 1, archive) == 1 && blocks->header.name[0] != 0) {
		printf("# %.100s\n", blocks->header.name);
		size = strtoul(blocks->header.size, NULL, 8);
		REQUIRE(size <= sizeof(blocks));
		REQUIRE(fread(blocks, sizeof(*blocks), (size + 511) / 512, archive) == (size + 511) / 512);
		(void)oracle_run_bytes(blocks->bytes, size);
		replayed++;
	}
	fclose(archive);
	printf("# %u programs, %" PRIu64 " steps\n", replayed, oracle.sums.steps);
	CHECK_INT(replayed, >, 0);
}

/* Matters of memory, which programs cannot see. */

#define UNPLACED_MANY 300

/* Makes a timer whose timeouts are all hours off and unplaced, for lack of memory. */
static hwt_timer *unplaced_create(hwt_timeout *timeouts)
{
	hwt_config config = driven_config(MS, 64);
	hwt_timer *timer = driven_create(&config, BEGIN);

	for (int i = 0; i < UNPLACED_MANY; i++) /* so that there are records for them */
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, HOUR, &timeouts[i]), ==, 0);
	for (int i = 0; i < UNPLACED_MANY; i++)
		CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
	driven_pass(timer, BEGIN);
	memory_fails(0, UINT64_MAX);
	for (int i = 0; i < UNPLACED_MANY; i++)
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, HOUR, &timeouts[i]), ==, 0);
	driven_pass(timer, BEGIN);
	return timer;
}

static struct hwt_check_counts counts_after_tick(hwt_timer *timer, int64_t tick)
{
	struct hwt_check_counts counts;

	driven_pass(timer, BEGIN + tick * MS);
	hwt_check_count(timer, &counts);
	return counts;
}

/* G5: also while memory is short. */
TEST(a_cancelled_one_without_a_place_is_free_two_ticks_later)
{
	hwt_timeout timeouts[UNPLACED_MANY];
	hwt_timer *timer = unplaced_create(timeouts);
	struct hwt_check_counts counts = counts_after_tick(timer, 1);

	CHECK_INT(counts.place[PLACE_UNPLACED], ==, UNPLACED_MANY);
	/* As many as the queue has nodes, but not the first: each pass tries that one. */
	for (int i = 0; i < 60; i++)
		CHECK_INT(hwt_cancel(timeouts[i * 4 + 1]), ==, 0);
	(void)counts_after_tick(timer, 2);
	counts = counts_after_tick(timer, 3);
	CHECK_INT(counts.place[PLACE_UNPLACED], ==, UNPLACED_MANY - 60);
	memory_is_back();
	driven_destroy(timer);
}

/* Each pass tries the unplaced records again, whichever is first (wheel.h). */
TEST(those_behind_a_lazy_one_find_a_place_when_memory_is_back)
{
	hwt_timeout timeouts[UNPLACED_MANY];
	hwt_timer *timer = unplaced_create(timeouts);
	struct hwt_check_counts counts;

	for (int i = 0; i < 100; i++) /* more than the queue has nodes: the last cancels are lazy */
		CHECK_INT(hwt_cancel(timeouts[i]), ==, 0);
	memory_is_back();
	for (int64_t tick = 1; tick < 4; tick++)
		counts = counts_after_tick(timer, tick);
	CHECK_INT(counts.place[PLACE_UNPLACED], ==, 0);
	CHECK_INT(counts.place[PLACE_WHEEL], ==, UNPLACED_MANY - 100);
	driven_destroy(timer);
}

TEST_MAIN()
