/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clocks that step: the wall clock under a series, the clock of leases after a boot or in a namespace of its own.
 */
#include "store.h"
#include "store_query.h"

#define YEARS_US (12 * INT64_C(365) * 86400 * 1000000)
#define HOUR_US (INT64_C(3600) * 1000000)

struct series {
	hwt_store *store;
	int64_t id, first_us, back_us; /* back_us: the first run puts the clock back by that, and fails */
	atomic_uint ran;
	_Atomic uint64_t missed[4];
};

static int run_series(const hwt_store_run *run, void *ctx)
{
	struct series *series = ctx;
	unsigned n = atomic_fetch_add(&series->ran, 1);

	if (n < 4)
		atomic_store(&series->missed[n], run->missed);
	if (n > 0 || series->back_us == 0)
		return 0;
	atomic_store(&hwts_test_wall_us, -series->back_us);
	return EAGAIN;
}

/* A series that is due in so long, each hour. */
static void begin_series(struct series *series, int64_t first_in_us)
{
	hwt_store_spec spec = spec_of("a", 0);

	fresh_world();
	series->store = open_store();
	register_kind(series->store, "a", run_series, series, HWT_STORE_AT_LEAST_ONCE);
	series->first_us = now_us() + first_in_us;
	spec.flags = HWT_STORE_ABSOLUTE;
	spec.due_us = series->first_us;
	spec.period_ns = HOUR_US * 1000;
	CHECK_CALL(put_patiently(series->store, &spec, &series->id), 0);
}

static void end_series(struct series *series)
{
	atomic_store(&hwts_test_wall_us, 0);
	atomic_store(&hwts_test_boot_ns, 0);
	CHECK_CALL(hwt_store_close(series->store), 0);
}

static hwt_store_info info_of(const struct series *series)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;

	CHECK(wait_store_state(series->store, series->id, HWT_STORE_PENDING));
	CHECK_CALL(hwt_store_get(series->store, series->id, &info), 0);
	return info;
}

/* As control does when the clock was set. */
static void clock_was_set(hwt_store *store, int64_t to_us)
{
	atomic_store(&hwts_test_wall_us, to_us);
	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	hwts_poke(store);
}

TEST(a_clock_that_is_put_back_leaves_a_series_on_its_grid)
{
	struct series series = { .back_us = HOUR_US * 10 };

	if (!on_sqlite())
		SKIP("the wall clock is that of a SQLite database");
	begin_series(&series, 0);
	CHECK_CALL(hwt_store_start(series.store), 0);
	CHECK(wait_count(&series.ran, 2)); /* the retry is due by the clock that was put back */
	CHECK_INT(info_of(&series).due_us, ==, series.first_us + HOUR_US);
	CHECK_INT(atomic_load(&series.missed[1]), ==, 0);
	end_series(&series);
}

TEST(a_clock_that_is_years_ahead_for_a_moment_leaves_a_series_on_its_grid)
{
	struct series series = { .back_us = 0 };
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;

	if (!on_sqlite())
		SKIP("the wall clock is that of a SQLite database");
	begin_series(&series, HOUR_US);
	CHECK_CALL(hwt_store_start(series.store), 0);
	clock_was_set(series.store, YEARS_US);
	while (stats_of_store(series.store).begun == 0 && hwt_now() < give_up_ns)
		sleep_ms(1);
	(void)settled_stats(series.store); /* it was begun, and rests */
	CHECK_INT(info_of(&series).due_us, ==, series.first_us);
	CHECK_INT(atomic_load(&series.ran), ==, 0);
	clock_was_set(series.store, 0);
	/* A clock that stays ahead is believed after a lease: it was wrong before. */
	clock_was_set(series.store, YEARS_US);
	while (stats_of_store(series.store).begun < 2 && hwt_now() < give_up_ns)
		sleep_ms(1);
	CHECK_INT(settled_stats(series.store).done, ==, 0);
	atomic_store(&hwts_test_boot_ns, HWT_S(601));
	clock_was_set(series.store, YEARS_US);
	CHECK(wait_count(&series.ran, 1));
	CHECK_INT(info_of(&series).due_us, >, series.first_us + YEARS_US - 2 * HOUR_US);
	CHECK_INT(atomic_load(&series.missed[0]), >, 100000);
	end_series(&series);
}

/* What was due before is run: its grid goes on by one. */
TEST(a_series_that_is_due_while_the_clock_is_years_ahead_runs_and_goes_on_by_a_period)
{
	struct series series = { .back_us = 0 };

	if (!on_sqlite())
		SKIP("the wall clock is that of a SQLite database");
	begin_series(&series, 200000);
	CHECK_CALL(hwt_store_start(series.store), 0);
	atomic_store(&hwts_test_wall_us, YEARS_US); /* which control does not notice */
	CHECK(wait_count(&series.ran, 1));
	CHECK_INT(atomic_load(&series.missed[0]), ==, 0);
	CHECK_INT(info_of(&series).due_us, ==, series.first_us + HOUR_US);
	end_series(&series);
}

STORE_MAIN(NULL)
