/* SPDX-License-Identifier: BSD-2-Clause */
/* Deadlines from the processor's counter fall into the ticks of those from the clock, whatever happens to either. */
#include "unit.h"
#include "support.h"
#include "counter.h"

#define TICK_NS HWT_MS(1)

static int64_t time_ns;      /* what the clock says */
static unsigned clock_reads; /* how often it was asked */
static int64_t read_takes_ns;
static double counts_per_ns;
static uint64_t counter_offset;

static int64_t counted_clock(void)
{
	clock_reads++;
	time_ns += read_takes_ns / 2;
	return time_ns;
}

static uint64_t fake_counter(void)
{
	return counter_offset + (uint64_t)((double)time_ns * counts_per_ns);
}

static void begin(double counts)
{
	hwt_reading = (struct hwt_reading){ 0 };
	time_ns = HWT_S(100);
	read_takes_ns = 0;
	counts_per_ns = counts;
	counter_offset = UINT64_MAX - 12345; /* it wraps early on */
	hwt_test_clock = counted_clock;
	hwt_test_counter = fake_counter;
	clock_reads = 0;
}

static void end(void)
{
	hwt_test_clock = NULL;
	hwt_test_counter = NULL;
	hwt_reading = (struct hwt_reading){ 0 };
}

static struct hwt_grid grid_of_now(int64_t tick_ns)
{
	return grid_make(time_ns - HWT_MS(7) - 1234, tick_ns);
}

/* Reads the clock for so long that the rate is known, and once more. */
static void measure_rate(const struct hwt_grid *grid)
{
	for (int i = 0; i < 8; i++) {
		(void)counter_deadline(grid, 0);
		time_ns += COUNTER_BASE_NS / 4;
	}
	(void)hwt_counter_read_clock();
	CHECK(hwt_reading.good_for > 0);
	clock_reads = 0;
}

/* A delay that ends in the middle of a tick. */
static int64_t to_the_middle(const struct hwt_grid *grid, int64_t ticks)
{
	int64_t tick = grid_tick_of(grid, time_ns) + ticks;

	return grid_time(grid, tick) + grid->tick_ns / 2 - time_ns;
}

/* true: the clock was not read. */
static bool check_deadline(const struct hwt_grid *grid, int64_t delay_ns)
{
	unsigned before = clock_reads;
	int64_t deadline_ns = counter_deadline(grid, delay_ns);

	CHECK_INT(grid_tick_of(grid, deadline_ns), ==, grid_tick_of(grid, time_ns + delay_ns));
	return clock_reads == before;
}

TEST(ticks_are_those_of_the_clock)
{
	static const double rates[] = { 0.3, 1, 2.4, 5.7 };
	uint64_t seed = 42;

	for (size_t r = 0; r < 4; r++) {
		for (int64_t tick_ns = HWT_US(10); tick_ns <= HWT_MS(100); tick_ns *= 10) {
			struct hwt_grid grid;
			unsigned guessed = 0;

			begin(rates[r]);
			grid = grid_of_now(tick_ns);
			measure_rate(&grid);
			for (int i = 0; i < 20000; i++) {
				time_ns += (int64_t)random_below(&seed, 2000);
				guessed += check_deadline(&grid, (int64_t)random_below(&seed, (uint64_t)HWT_S(100)));
			}
			/* All but those near the ends of a tick, and one in 32 us. */
			CHECK(tick_ns < HWT_MS(1) || guessed > 18000);
			end();
		}
	}
}

/* As when the clock is being disciplined: faster and slower by an eighth than what was measured. */
TEST(a_rate_that_is_wrong_by_an_eighth_does_no_harm)
{
	static const double factors[] = { 0.885, 0.95, 1.05, 1.115 };
	uint64_t seed = 7;

	for (size_t f = 0; f < 4; f++) {
		struct hwt_grid grid;
		unsigned guessed = 0;

		begin(2.4);
		grid = grid_of_now(TICK_NS);
		measure_rate(&grid);
		for (int i = 0; i < 100000; i++) {
			uint64_t count = fake_counter();

			counts_per_ns = 2.4 * factors[f];
			counter_offset += count - fake_counter();
			time_ns += (int64_t)random_below(&seed, 4000);
			guessed += check_deadline(&grid, (int64_t)random_below(&seed, (uint64_t)HWT_S(1)));
		}
		CHECK(guessed > 50000);
		end();
	}
}

TEST(the_clock_is_read_when_the_guess_is_old_or_near_the_end_of_a_tick)
{
	struct hwt_grid grid;

	begin(2.5);
	grid = grid_of_now(TICK_NS);
	CHECK(!check_deadline(&grid, to_the_middle(&grid, 3))); /* the rate is not known */
	measure_rate(&grid);
	CHECK(check_deadline(&grid, to_the_middle(&grid, 3)));
	time_ns += COUNTER_GOOD_FOR_NS - 100;
	CHECK(check_deadline(&grid, to_the_middle(&grid, 3)));
	CHECK(!check_deadline(&grid, to_the_middle(&grid, 3) + TICK_NS / 2 - COUNTER_ERROR_NS / 2));
	CHECK(hwt_reading.now_ns == time_ns);
	CHECK(!check_deadline(&grid, to_the_middle(&grid, 3) - TICK_NS / 2 + COUNTER_ERROR_NS / 2));
	CHECK(check_deadline(&grid, to_the_middle(&grid, 3)));
	time_ns += COUNTER_GOOD_FOR_NS + 100;
	CHECK(!check_deadline(&grid, to_the_middle(&grid, 3)));
	CHECK(check_deadline(&grid, to_the_middle(&grid, 3)));
	end();
}

TEST(what_lies_before_the_start_or_beyond_the_end_is_exact)
{
	struct hwt_grid grid;

	begin(2.5);
	grid = grid_of_now(TICK_NS);
	measure_rate(&grid);
	CHECK_INT(counter_deadline(&grid, INT64_MAX), ==, INT64_MAX);
	CHECK_INT(counter_deadline(&grid, -time_ns), ==, 0);
	CHECK_INT(counter_deadline(&grid, INT64_MIN), ==, time_ns + INT64_MIN);
	end();
}

TEST(a_counter_that_jumps_is_measured_anew)
{
	static const uint64_t jumps[] = { UINT64_MAX - 5, UINT64_MAX / 2, (uint64_t)1 << 40, (uint64_t)1 << 33 };

	for (size_t j = 0; j < 4; j++) {
		struct hwt_grid grid;

		begin(2.5);
		grid = grid_of_now(TICK_NS);
		measure_rate(&grid);
		counter_offset += jumps[j];
		CHECK(!check_deadline(&grid, to_the_middle(&grid, 3)));
		time_ns += 100;
		CHECK(!check_deadline(&grid, to_the_middle(&grid, 3))); /* and again, the rate is not known */
		measure_rate(&grid);
		CHECK(check_deadline(&grid, to_the_middle(&grid, 3)));
		end();
	}
}

TEST(a_counter_that_changes_its_pace_is_measured_anew)
{
	static const double paces[] = { 0.5, 1.5 };

	for (size_t p = 0; p < 2; p++) {
		struct hwt_grid grid;
		uint64_t count;

		begin(2.5);
		grid = grid_of_now(TICK_NS);
		measure_rate(&grid);
		count = fake_counter();
		counts_per_ns *= paces[p];
		counter_offset += count - fake_counter();
		time_ns += HWT_MS(1); /* a guess is not good for that long: at the next reading it comes out */
		CHECK(!check_deadline(&grid, to_the_middle(&grid, 3)));
		CHECK(!check_deadline(&grid, to_the_middle(&grid, 3)));
		measure_rate(&grid);
		CHECK(check_deadline(&grid, to_the_middle(&grid, 3)));
		time_ns += 20000;
		CHECK(check_deadline(&grid, to_the_middle(&grid, 3)));
		end();
	}
}

/* A machine sleeps for hours: the clock stands, or goes on; the counter goes on, or begins again. */
TEST(a_long_pause_is_no_measurement)
{
	static const int64_t clock_s[] = { 0, 0, 7200, 7200 };
	static const double counter_s[] = { 7200, -50, 7200.1, -50 };

	for (size_t k = 0; k < 4; k++) {
		struct hwt_grid grid;

		begin(2.5);
		grid = grid_of_now(TICK_NS);
		measure_rate(&grid);
		time_ns += HWT_S(clock_s[k]);
		counter_offset += (uint64_t)(int64_t)((counter_s[k] - (double)clock_s[k]) * 1e9 * counts_per_ns);
		for (int i = 0; i < 5000; i++) {
			check_deadline(&grid, HWT_US(777) * i);
			time_ns += 1000;
		}
		CHECK(check_deadline(&grid, to_the_middle(&grid, 3)));
		end();
	}
}

TEST(a_reading_that_was_interrupted_is_not_kept)
{
	struct hwt_grid grid;

	begin(2.5);
	grid = grid_of_now(TICK_NS);
	measure_rate(&grid);
	time_ns += COUNTER_GOOD_FOR_NS * 2;
	read_takes_ns = HWT_US(50);
	(void)counter_deadline(&grid, 0);
	CHECK_INT(hwt_reading.good_for, ==, 0);
	read_takes_ns = 0;
	CHECK(!check_deadline(&grid, to_the_middle(&grid, 3)));
	CHECK(check_deadline(&grid, to_the_middle(&grid, 3)));
	end();
}

TEST(absurd_paces_are_refused)
{
	static const double paces[] = { 0, 0.01, 100 };

	for (size_t p = 0; p < 3; p++) {
		struct hwt_grid grid;

		begin(paces[p]);
		grid = grid_of_now(TICK_NS);
		for (int i = 0; i < 1000; i++) {
			CHECK(!check_deadline(&grid, to_the_middle(&grid, 1)));
			time_ns += HWT_US(i % 2 == 0 ? 10 : 500);
		}
		end();
	}
}

/* With a virtual clock and no virtual counter nothing is guessed. */
TEST(without_a_counter_the_clock_is_read)
{
	struct hwt_grid grid;

	begin(2.5);
	grid = grid_of_now(TICK_NS);
	measure_rate(&grid);
	hwt_test_counter = NULL;
	for (int i = 0; i < 100; i++)
		CHECK(!check_deadline(&grid, to_the_middle(&grid, i)));
	end();
}

/* The real ones. */
TEST(real_deadlines_lie_between_two_readings_of_the_clock)
{
	struct hwt_grid grid;
	uint64_t seed = 3;
	long n = (long)scaled(1000000);

	hwt_counter_init();
	grid = grid_make(hwt_clock_now() - HWT_S(1), TICK_NS);
	for (long i = 0; i < n; i++) {
		int64_t delay_ns = (int64_t)random_below(&seed, (uint64_t)HWT_S(10));
		int64_t before_ns = hwt_clock_now();
		int64_t tick = grid_tick_of(&grid, counter_deadline(&grid, delay_ns));

		CHECK_INT(tick, >=, grid_tick_of(&grid, before_ns + delay_ns));
		CHECK_INT(tick, <=, grid_tick_of(&grid, hwt_clock_now() + delay_ns));
	}
}

TEST_MAIN(RUN(ticks_are_those_of_the_clock), RUN(a_rate_that_is_wrong_by_an_eighth_does_no_harm),
	  RUN(the_clock_is_read_when_the_guess_is_old_or_near_the_end_of_a_tick),
	  RUN(what_lies_before_the_start_or_beyond_the_end_is_exact), RUN(a_counter_that_jumps_is_measured_anew),
	  RUN(a_counter_that_changes_its_pace_is_measured_anew), RUN(a_long_pause_is_no_measurement),
	  RUN(a_reading_that_was_interrupted_is_not_kept), RUN(absurd_paces_are_refused),
	  RUN(without_a_counter_the_clock_is_read), RUN(real_deadlines_lie_between_two_readings_of_the_clock))
