/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines computed from the processor's counter have the same ticks as those computed from the clock, whatever
 * happens to counter and clock.
 */
#include "unit.h"
#include "support.h"
#include "base/counter.h"

#include <math.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_NS HWT_MS(1)

static int64_t time_ns;      /* the time of the clock */
static unsigned clock_reads; /* how often the clock was read */
static int64_t read_takes_ns, after_read_ns;
static uint64_t fuzzy; /* a seed for the moment in a reading at which the clock is read; 0: its end */
static double counts_per_ns;
static uint64_t counter_offset;

static int64_t counted_clock(void)
{
	clock_reads++;
	if (fuzzy != 0)
		after_read_ns = (int64_t)random_below(&fuzzy, (uint64_t)read_takes_ns / 2 + 1);
	time_ns += read_takes_ns / 2 - after_read_ns;
	return time_ns;
}

static uint64_t fake_counter(void)
{
	time_ns += after_read_ns;
	after_read_ns = 0;
	return counter_offset + (uint64_t)((double)time_ns * counts_per_ns);
}

static void begin(double counts)
{
	hwt_reading = (struct hwt_reading){ 0 };
	time_ns = HWT_S(100);
	read_takes_ns = after_read_ns = 0;
	fuzzy = 0;
	counts_per_ns = counts;
	counter_offset = UINT64_MAX - 12345; /* the counter wraps early */
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

/* Reads the clock until the rate is known, and once more. */
static void measure_rate(const struct hwt_grid *grid)
{
	for (int i = 0; i < 16; i++) {
		(void)counter_deadline(grid, 0);
		time_ns += COUNTER_BASE_NS / 4;
	}
	(void)hwt_counter_read_clock();
	CHECK(hwt_reading.good_for > 0);
	clock_reads = 0;
}

/* Returns a delay that ends in the middle of a tick. */
static int64_t to_the_middle(const struct hwt_grid *grid, int64_t ticks)
{
	int64_t tick = grid_tick_of(grid, time_ns) + ticks;

	return grid_time(grid, tick) + grid->tick_ns / 2 - time_ns;
}

/* Checks the tick of a deadline.  Returns true if the clock was not read for it. */
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
			/* All deadlines but those near the ends of a tick, and one in 32 us. */
			CHECK(tick_ns < HWT_MS(1) || guessed > 18000);
			end();
		}
	}
}

static void set_pace(double counts)
{
	uint64_t count = fake_counter();

	counts_per_ns = counts;
	counter_offset += count - fake_counter();
}

/* The clock is disciplined: from now on it runs faster or slower by an eighth than measured. */
TEST(a_rate_that_is_wrong_by_an_eighth_does_no_harm)
{
	static const double factors[] = { 0.885, 0.95, 1.05, 1.115 };
	uint64_t seed = 7;

	for (size_t f = 0; f < 4; f++) {
		struct hwt_grid grid;
		unsigned guessed = 0;

		begin(2.4);
		grid = grid_of_now(TICK_NS);
		for (int i = 0; i < 5000; i++) {
			set_pace(2.4);
			measure_rate(&grid);
			set_pace(2.4 * factors[f]);
			for (int j = 0; j < 20; j++) {
				time_ns += (int64_t)random_below(&seed, 3000);
				guessed += check_deadline(&grid, (int64_t)random_below(&seed, (uint64_t)HWT_S(1)));
			}
		}
		CHECK(guessed > 90000);
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

TEST(a_counter_that_jumps_is_measured_again)
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
		CHECK(!check_deadline(&grid, to_the_middle(&grid, 3))); /* again the rate is not known */
		measure_rate(&grid);
		CHECK(check_deadline(&grid, to_the_middle(&grid, 3)));
		end();
	}
}

/*
 * A machine that is suspended again and again: the clock stands still, the counter goes on or begins again.  However
 * long it is awake between two suspensions, and whenever the thread calls, each deadline keeps its tick.
 */

enum rhythm {
	NEVER_BUSY_TWICE, /* one call in each waking period, always at the same moment, then a burst */
	BURSTS,           /* each waking period begins with a burst, and ends in silence */
	TWO_BURSTS,       /* a burst at each end of a waking period */
	AT_RANDOM,
	RHYTHMS,
};

struct machine {
	struct hwt_grid grid;
	int64_t awake_ns, asleep_ns;
	bool restarts; /* the counter begins again with each suspension */
	uint64_t seed;
};

static void suspend(const struct machine *machine)
{
	if (machine->restarts)
		counter_offset = 1000 - (uint64_t)((double)time_ns * counts_per_ns);
	else
		counter_offset += (uint64_t)((double)machine->asleep_ns * counts_per_ns);
}

/* Makes the calls of a busy thread: close together, some deadlines near the ends of their ticks. */
static void burst(struct machine *machine, int64_t length_ns)
{
	for (int64_t until_ns = time_ns + length_ns; time_ns < until_ns;) {
		(void)check_deadline(&machine->grid, (int64_t)random_below(&machine->seed, (uint64_t)HWT_S(10)));
		time_ns += (int64_t)random_below(&machine->seed, 2000);
	}
}

static void be_awake(struct machine *machine, enum rhythm rhythm, int cycle)
{
	int64_t until_ns = time_ns + machine->awake_ns, burst_ns = HWT_US(300);

	if (rhythm == AT_RANDOM) {
		for (int i = 0; i < 8 && time_ns < until_ns; i++) {
			burst(machine, (int64_t)random_below(&machine->seed, (uint64_t)burst_ns));
			time_ns += (int64_t)random_below(&machine->seed, (uint64_t)machine->awake_ns / 4);
		}
	} else if (rhythm == NEVER_BUSY_TWICE && cycle % 8 != 7) {
		(void)check_deadline(&machine->grid, to_the_middle(&machine->grid, 3));
	} else {
		burst(machine, burst_ns);
	}
	if (rhythm == TWO_BURSTS && time_ns < until_ns - burst_ns) {
		time_ns = until_ns - burst_ns;
		burst(machine, burst_ns);
	}
	if (time_ns < until_ns)
		time_ns = until_ns;
}

static void suspend_again_and_again(double pace, int64_t awake_ns, double times)
{
	for (unsigned way = 0; way < 4 * RHYTHMS; way++) {
		struct machine machine = {
			.awake_ns = awake_ns,
			.asleep_ns = (int64_t)((double)awake_ns * times),
			.restarts = way % 2 != 0,
			.seed = way + 1,
		};

		begin(pace);
		machine.grid = grid_of_now(TICK_NS);
		if (way / 2 % 2 != 0)
			measure_rate(&machine.grid);
		for (int cycle = 0; cycle < 24; cycle++) {
			be_awake(&machine, (enum rhythm)(way / 4), cycle);
			suspend(&machine);
		}
		end();
	}
}

TEST(a_suspension_is_no_measurement)
{
	static const double times[] = { 0.1, 0.13, 0.25, 0.5, 1, 2, 3, 4, 6, 10, 24, 39, 60, 100 };
	static const double paces[] = { 0.4, 1, 2.5, 5 };
	size_t step = scaled(100) < 100 ? 5 : 1;

	for (size_t p = 0; p < sizeof(paces) / sizeof(paces[0]); p++)
		for (int64_t awake_ns = HWT_MS(1); awake_ns <= HWT_S(10); awake_ns *= 10)
			for (size_t t = 0; t < sizeof(times) / sizeof(times[0]); t += step)
				suspend_again_and_again(paces[p], awake_ns, times[t]);
}

/* Advances the clock by clock_ns, and the counter by more_ns more; then the clock is read. */
static void step(int64_t clock_ns, int64_t more_ns)
{
	time_ns += clock_ns;
	counter_offset += (uint64_t)((double)more_ns * counts_per_ns);
	(void)hwt_counter_read_clock();
}

TEST(a_first_rate_needs_a_second_measurement)
{
	begin(2.5);
	step(0, 0);
	step(COUNTER_BASE_NS, COUNTER_BASE_NS); /* twice the rate */
	CHECK_INT(hwt_reading.good_for, ==, 0);
	step(COUNTER_BASE_NS, 0); /* this measurement is right, and differs from the last */
	CHECK_INT(hwt_reading.good_for, ==, 0);
	step(COUNTER_BASE_NS, 0);
	CHECK_INT(hwt_reading.good_for, >, 0);
	end();
	/* Two measurements agree, but with a pause between them: each may contain a suspension. */
	begin(2.5);
	step(0, 0);
	step(COUNTER_BASE_NS, COUNTER_BASE_NS);
	step(HWT_MS(10), HWT_MS(10));
	step(COUNTER_BASE_NS, COUNTER_BASE_NS);
	CHECK_INT(hwt_reading.good_for, ==, 0);
	end();
}

TEST(a_new_rate_has_to_agree_with_the_old_one)
{
	struct hwt_grid grid;

	begin(2.5);
	grid = grid_of_now(TICK_NS);
	measure_rate(&grid);
	step(COUNTER_BASE_NS, COUNTER_BASE_NS / 5); /* so little that a single reading is accepted */
	CHECK_INT(hwt_reading.good_for, ==, 0);
	step(COUNTER_BASE_NS, 0);
	CHECK_INT(hwt_reading.good_for, ==, 0);
	step(COUNTER_BASE_NS, 0);
	CHECK_INT(hwt_reading.good_for, >, 0);
	/* The rate follows a clock that is disciplined. */
	for (int i = 0; i < 100; i++) {
		set_pace(counts_per_ns * 0.999);
		step(COUNTER_BASE_NS, 0);
		CHECK_INT(hwt_reading.good_for, >, 0);
	}
	end();
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

/*
 * For each length of a reading, and each moment in it at which the clock is read.  If the reading is too long the rate
 * is not used.
 */
TEST(a_rate_that_is_used_is_right_to_a_64th)
{
	static const struct {
		double pace;
		int64_t takes_ns;
		bool used;
	} rows[] = {
		{ 2.5, 25, true }, { 2.5, 400, true }, { 5, 800, true }, { 0.3, 200, true }, { 0.3, 12000, false }
	};

	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		unsigned used = 0;

		begin(rows[r].pace);
		read_takes_ns = 2 * rows[r].takes_ns;
		fuzzy = r + 1;
		for (int i = 0; i < 20000; i++) {
			(void)hwt_counter_read_clock();
			time_ns += (int64_t)random_below(&fuzzy, 2000);
			if (hwt_reading.good_for == 0)
				continue;
			used++;
			CHECK(fabs((double)hwt_reading.rate / 0x1p32 * rows[r].pace - 1) < 1 / 64.0);
		}
		CHECK(rows[r].used ? used > 19000 : used == 0);
		end();
	}
}

TEST(a_measurement_is_as_good_as_its_worse_end)
{
	begin(2.5);
	read_takes_ns = HWT_US(1);
	step(0, 0);
	read_takes_ns = 50;
	step(COUNTER_BASE_NS, 0); /* right to 250 ns of 50 us */
	CHECK_INT(hwt_reading.rate, ==, 0);
	step(COUNTER_BASE_NS, 0); /* of 100 us */
	CHECK_INT(hwt_reading.rate, !=, 0);
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
			time_ns += HWT_US(i % 2 == 0 ? 10 : 60);
		}
		end();
	}
}

static int64_t not_before_ns; /* the next run */
static unsigned runs;

static void beat_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	CHECK_INT(time_ns, >=, not_before_ns);
	not_before_ns += *(const int64_t *)arg;
	runs++;
}

/*
 * Makes guesses wrong: the last reading is as old as allowed, and since then the clock has run slower or faster by a
 * tenth.
 */
static void guess_wrong(double factor)
{
	set_pace(counts_per_ns * factor);
	time_ns += (int64_t)((double)(COUNTER_GOOD_FOR_NS - 100) / (factor > 1 ? factor : 1));
}

static void run_until(hwt_timer *timer, int64_t tick)
{
	for (int64_t t = grid_ticks_passed(&timer->grid, time_ns) + 1; t <= tick; t++) {
		time_ns = grid_time(&timer->grid, t);
		hwt_worker_pass(&timer->worker, time_ns);
	}
}

/* The first deadline may be a guess if its tick is right; a deadline to which periods are added may not. */
TEST(periods_are_added_to_the_exact_deadline)
{
	for (int way = 0; way < 4; way++) {
		hwt_config config = driven_config(TICK_NS, 64);
		int64_t period_ns = HWT_US(2300), second_ns;
		hwt_timer *timer;
		hwt_timeout timeout;

		begin(2.5);
		timer = driven_create(&config, time_ns - HWT_MS(7));
		hwt_test_clock = counted_clock;
		runs = 0;
		not_before_ns = 0;
		if (way >= 2)
			CHECK_INT(hwt_new_periodic(timer, beat_task, &period_ns, HWT_S(10), period_ns, &timeout), ==,
				  0);
		measure_rate(&timer->grid);
		guess_wrong(way % 2 == 0 ? 0.9 : 1.1);
		/*
		 * The second deadline is 1 us after the beginning of a tick, so the run is at the next tick; or 1 us
		 * before.
		 */
		second_ns = grid_time(&timer->grid, 24) + (way % 2 == 0 ? 1000 : -1000);
		not_before_ns = second_ns - period_ns;
		if (way < 2)
			CHECK_INT(hwt_new_periodic(timer, beat_task, &period_ns, not_before_ns - time_ns, period_ns,
						   &timeout),
				  ==, 0);
		else
			CHECK_INT(hwt_reschedule(timeout, not_before_ns - time_ns), ==, 0);
		run_until(timer, grid_tick_of(&timer->grid, second_ns) - 1);
		CHECK_INT(runs, ==, 1);
		run_until(timer, grid_tick_of(&timer->grid, second_ns));
		CHECK_INT(runs, ==, 2);
		driven_destroy(timer);
		end();
	}
}

#if defined(__x86_64__) && defined(__linux__)
/* In place of the kernel's file that names the clock source. */
static char source_path[] = "/tmp/hwt-clocksource-XXXXXX";

static void kernel_says(const char *source)
{
	FILE *file;

	if (hwt_test_clocksource == NULL)
		REQUIRE(close(mkstemp(source_path)) == 0);
	hwt_test_clocksource = source_path;
	file = fopen(source_path, "w");
	REQUIRE(file != NULL);
	REQUIRE(fputs(source, file) >= 0 && fclose(file) == 0);
}

static void kernel_is_itself(void)
{
	unlink(source_path);
	strcpy(strrchr(source_path, '-'), "-XXXXXX");
	hwt_test_clocksource = NULL;
}

/* Makes calls until the rate could be known.  Returns true if a call then does not read the clock. */
static bool does_without_the_clock(struct hwt_grid *grid)
{
	unsigned before;

	for (int i = 0; i < 40; i++) {
		(void)check_deadline(grid, to_the_middle(grid, 3));
		time_ns += COUNTER_BASE_NS / 8;
	}
	(void)hwt_counter_read_clock();
	before = clock_reads;
	for (int i = 0; i < 20; i++, time_ns += 100)
		(void)check_deadline(grid, to_the_middle(grid, 3));
	CHECK(clock_reads == before || clock_reads == before + 20);
	return clock_reads == before;
}

TEST(the_counter_is_used_only_where_the_kernel_trusts_it)
{
	static const char *const others[] = { "hpet\n", "kvm-clock\n", "tsc-early\n", "ts\n", "" };
	struct hwt_grid grid;

	NEEDS_LINUX();
	begin(2.5);
	grid = grid_of_now(TICK_NS);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		kernel_says(others[i]);
		time_ns += COUNTER_ASK_AGAIN_NS;
		hwt_counter_ask(time_ns);
		CHECK(!does_without_the_clock(&grid));
		kernel_says("tsc\n");
		time_ns += COUNTER_ASK_AGAIN_NS;
		hwt_counter_ask(time_ns);
		CHECK(does_without_the_clock(&grid));
	}
	kernel_is_itself();
	end();
}

TEST(the_kernel_is_asked_again_and_an_old_answer_does_not_count)
{
	struct hwt_grid grid;
	int64_t asked_ns;

	NEEDS_LINUX();
	begin(2.5);
	grid = grid_of_now(TICK_NS);
	kernel_says("tsc\n");
	asked_ns = time_ns += COUNTER_TRUST_NS;
	hwt_counter_ask(time_ns);
	CHECK(does_without_the_clock(&grid));
	kernel_says("hpet\n");
	time_ns = asked_ns + COUNTER_ASK_AGAIN_NS - HWT_MS(1);
	hwt_counter_ask(time_ns); /* the kernel is not asked that often */
	CHECK(does_without_the_clock(&grid));
	time_ns = asked_ns + COUNTER_TRUST_NS - HWT_MS(1);
	CHECK(does_without_the_clock(&grid));
	time_ns = asked_ns + COUNTER_TRUST_NS;
	CHECK(!does_without_the_clock(&grid));
	kernel_says("tsc\n");
	hwt_counter_ask(time_ns);
	CHECK(does_without_the_clock(&grid));
	kernel_is_itself();
	end();
}

static hwt_timer *asking;
static unsigned naps;

static void nap_for_a_second(int64_t until_ns)
{
	(void)until_ns;
	time_ns += COUNTER_ASK_AGAIN_NS;
	if (++naps % 3 == 0)
		hwt_worker_request_stop(&asking->worker);
}

/* Runs the worker's loop three times. */
static void let_the_worker_run(void)
{
	atomic_store(&asking->worker.stop, false);
	hwt_worker_run(&asking->worker);
}

TEST(the_worker_asks_the_kernel)
{
	hwt_config config = driven_config(TICK_NS, 64);
	struct hwt_grid grid;

	NEEDS_LINUX();
	kernel_says("hpet\n");
	asking = driven_create(&config, HWT_S(200));
	begin(2.5);
	time_ns = HWT_S(200);
	hwt_test_sleep = nap_for_a_second;
	grid = grid_of_now(TICK_NS);
	CHECK(!does_without_the_clock(&grid));
	kernel_says("tsc\n");
	let_the_worker_run();
	CHECK(does_without_the_clock(&grid));
	kernel_says("hpet\n");
	let_the_worker_run();
	CHECK(!does_without_the_clock(&grid));
	kernel_is_itself();
	hwt_test_sleep = NULL;
	end();
	driven_destroy(asking);
}

/* Under a tracer, and on some machines, each reading of the counter costs a trap. */
TEST(a_counter_that_is_not_trusted_is_not_even_read)
{
	struct hwt_grid grid;
	int status = -1;
	pid_t child;

	begin(2.5);
	hwt_test_counter = NULL;
	grid = grid_of_now(TICK_NS);
	fflush(NULL);
	child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0)
			_exit(77);
		for (int i = 0; i < 100; i++)
			(void)counter_deadline(&grid, HWT_MS(i));
		_exit(clock_reads == 100 ? 0 : 1);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
	end();
}
#endif

/* The real clock and counter. */
TEST(row05_real_deadlines_lie_between_two_readings_of_the_clock)
{
	struct hwt_grid grid;
	uint64_t seed = 3;
	long n = (long)scaled(1000000);

	hwt_counter_ask(clock_monotonic());
	grid = grid_make(clock_monotonic() - HWT_S(1), TICK_NS);
	for (long i = 0; i < n; i++) {
		int64_t delay_ns = (int64_t)random_below(&seed, (uint64_t)HWT_S(10));
		int64_t before_ns = clock_monotonic();
		int64_t tick = grid_tick_of(&grid, counter_deadline(&grid, delay_ns));

		CHECK_INT(tick, >=, grid_tick_of(&grid, before_ns + delay_ns));
		CHECK_INT(tick, <=, grid_tick_of(&grid, clock_monotonic() + delay_ns));
	}
}

TEST_MAIN()
