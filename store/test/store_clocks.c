/* SPDX-License-Identifier: BSD-2-Clause */
/* Clocks that are set: the wall clock of a series; the clock of leases after a boot, or in a time namespace. */
#include "store_query.h"

#include "inside.h"

#define YEARS_US (12 * INT64_C(365) * 86400 * 1000000)
#define HOUR_US (INT64_C(3600) * 1000000)

struct series {
	hwt_store *store;
	int64_t id, first_us, back_us; /* back_us: the first run puts the clock back by this, and fails */
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

/* Puts a series whose first time is in first_in_us, with a period of an hour. */
static void begin_series(struct series *series, int64_t first_in_us)
{
	series->store = fresh_store();
	register_kind(series->store, "a", run_series, series, HWT_STORE_AT_LEAST_ONCE);
	series->first_us = now_us() + first_in_us;
	series->id = put_spec(series->store, &SPEC("a", 0, .flags = HWT_STORE_ABSOLUTE, .due_us = series->first_us,
						   .period_ns = HOUR_US * 1000));
}

static void end_series(struct series *series)
{
	atomic_store(&hwts_test_wall_us, 0);
	atomic_store(&hwts_test_boot_ns, 0);
	CHECK_CALL(hwt_store_close(series->store), 0);
}

static hwt_store_info info_of_series(const struct series *series)
{
	CHECK(wait_store_state(series->store, series->id, HWT_STORE_PENDING));
	return info_of(series->store, series->id);
}

/* As control does when it notices that the clock was set. */
static void clock_was_set(hwt_store *store, int64_t to_us)
{
	atomic_store(&hwts_test_wall_us, to_us);
	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	hwts_poke(store);
}

TEST(a_clock_that_is_put_back_leaves_a_series_on_its_grid)
{
	struct series series = { .back_us = HOUR_US * 10 };

	NEEDS_SQLITE(); /* its database uses the wall clock */
	begin_series(&series, 0);
	CHECK_CALL(hwt_store_start(series.store), 0);
	CHECK(wait_count(&series.ran, 2)); /* the retry is due by the clock that was put back */
	CHECK_INT(info_of_series(&series).due_us, ==, series.first_us + HOUR_US);
	CHECK_INT(atomic_load(&series.missed[1]), ==, 0);
	end_series(&series);
}

static int64_t leapt_ns(const struct series *series)
{
	return LOCKED(series->store, series->store->clock->leapt_ns);
}

/*
 * Lets a lease pass.  Control may still read an answer from before the clock was set ahead, which ends the leap.  The
 * next answer begins a new leap, and the caller lets one more lease pass.
 */
static void stay_ahead(struct series *series, int64_t leases)
{
	int64_t boot_ns = hwts_boot_ns();

	WAIT_FOR((clock_was_set(series->store, YEARS_US), leapt_ns(series) != 0));
	atomic_store(&hwts_test_boot_ns, leases * HWT_S(601));
	WAIT_FOR((clock_was_set(series->store, YEARS_US),
		  atomic_load(&series->ran) != 0 || leapt_ns(series) > boot_ns + HWT_S(600)));
}

TEST(a_clock_that_is_years_ahead_for_a_moment_leaves_a_series_on_its_grid)
{
	struct series series = { .back_us = 0 };

	NEEDS_SQLITE(); /* its database uses the wall clock */
	begin_series(&series, HOUR_US);
	CHECK_CALL(hwt_store_start(series.store), 0);
	clock_was_set(series.store, YEARS_US);
	WAIT_FOR(stats_of_store(series.store).begun != 0);
	(void)settled_stats(series.store); /* the row was begun, and waits */
	CHECK_INT(info_of_series(&series).due_us, ==, series.first_us);
	CHECK_INT(atomic_load(&series.ran), ==, 0);
	clock_was_set(series.store, 0);
	/* A clock that stays ahead is believed after a lease, as the clock before may have been wrong. */
	clock_was_set(series.store, YEARS_US);
	WAIT_FOR(stats_of_store(series.store).begun >= 2);
	CHECK_INT(settled_stats(series.store).done, ==, 0);
	for (int64_t leases = 1; leases <= 3 && atomic_load(&series.ran) == 0; leases++)
		stay_ahead(&series, leases);
	CHECK(wait_count(&series.ran, 1));
	CHECK_INT(info_of_series(&series).due_us, >, series.first_us + YEARS_US - 2 * HOUR_US);
	CHECK_INT(atomic_load(&series.missed[0]), >, 100000);
	end_series(&series);
}

/* A time that was due before is served: the grid goes on by one period. */
TEST(a_series_that_is_due_while_the_clock_is_years_ahead_runs_and_goes_on_by_a_period)
{
	struct series series = { .back_us = 0 };

	NEEDS_SQLITE(); /* its database uses the wall clock */
	begin_series(&series, 200000);
	CHECK_CALL(hwt_store_start(series.store), 0);
	atomic_store(&hwts_test_wall_us, YEARS_US); /* control does not notice it */
	CHECK(wait_count(&series.ran, 1));
	CHECK_INT(atomic_load(&series.missed[0]), ==, 0);
	CHECK_INT(info_of_series(&series).due_us, ==, series.first_us + HOUR_US);
	end_series(&series);
}

static struct hwts_trip trip_of_now(void)
{
	struct hwts_trip trip = { .slept_ns = hwts_clock_slept_ns() };

	trip.sent_ns = hwt_now();
	return trip;
}

static void sample(hwt_store *store, int64_t db_us, struct hwts_trip trip)
{
	trip.reply_ns = hwt_now();
	pthread_mutex_lock(&store->lock);
	(void)hwts_clock_sample(store, db_us, &trip);
	pthread_mutex_unlock(&store->lock);
}

/* The process stands still for an hour between the database's answer and its reading. */
TEST(an_answer_that_is_read_late_is_no_leap)
{
	CLOSING hwt_store *store = fresh_store();
	const struct hwts_clock *clock = store->clock;
	struct hwts_trip first = trip_of_now();
	int64_t db_us = now_us(), steady_us;

	sample(store, db_us, first);
	steady_us = clock->steady_us;
	atomic_store(&hwts_test_boot_ns, HWT_S(3600));
	sample(store, db_us, first);
	CHECK_INT(clock->steady_us, ==, steady_us);
	sample(store, db_us + HOUR_US, trip_of_now());
	CHECK_INT(clock->leapt_ns, ==, 0);
	/* An answer to an older question ends no leap; one to a younger question does, and the clock is put back. */
	sample(store, db_us + YEARS_US, trip_of_now());
	CHECK_INT(clock->leapt_ns, !=, 0);
	sample(store, db_us, first);
	CHECK_INT(clock->leapt_ns, !=, 0);
	sample(store, db_us - HOUR_US, trip_of_now());
	CHECK_INT(clock->leapt_ns, ==, 0);
	CHECK_INT(steady_us - clock->steady_us, >=, 2 * HOUR_US);
	atomic_store(&hwts_test_boot_ns, 0);
}

/*
 * Leases
 */

#define DAY_US (24 * HOUR_US)

static void insert_member(const char *name, int64_t from_now_us)
{
	int64_t clock_us = world.sqlite ? hwts_boot_ns() / 1000 : now_us();

	(void)query("insert into %s_member (name, incarnation, until_us, kinds) values ('%s', 1, %" PRId64 ", '%s')",
		    world.schema, name, clock_us + from_now_us, world.sqlite ? ",1," : "{1}");
}

static int64_t members(void)
{
	return query("select count(*) from %s_member", world.schema);
}

/* A tool in a container, for instance, cannot tell the boot. */
TEST(who_cannot_tell_the_boot_leaves_the_leases_of_others_alone)
{
	NEEDS_SQLITE(); /* PostgreSQL has a clock of its own */
	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	insert_member("other", 1000000);
	atomic_store(&hwts_test_hides_proc, true);
	CHECK_CALL(hwt_store_close(open_store()), 0);
	CHECK_INT(members(), ==, 1);
	atomic_store(&hwts_test_hides_proc, false);
	CHECK_CALL(hwt_store_close(open_store()), 0);
	CHECK_INT(members(), ==, 1);
	/* Members that joined while the boot was unknown are left alone, too. */
	(void)query("update %s_meta set boot = null", world.schema);
	CHECK_CALL(hwt_store_close(open_store()), 0);
	CHECK_INT(members(), ==, 1);
	CHECK_INT(query("select count(*) from %s_meta where boot is not null", world.schema), ==, 1);
}

/* SQLite: a process in a time namespace, or from before a boot.  PostgreSQL: the server's clock was put back. */
TEST(a_lease_that_ends_in_thirty_days_is_over)
{
	CLOSING hwt_store *store = fresh_store();
	int64_t id;

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	insert_member("other", 30 * DAY_US);
	(void)query("update %s_shard set owner = 'other', epoch = 1", world.schema);
	id = put(store, "a", 0);
	CHECK_CALL(hwt_store_start(store), 0);
	/* After the first look, as it shares with no other process. */
	CHECK_INT(stats_of_store(store).shards_held, ==, 8);
	CHECK(wait_gone(store, id));
	/*
	 * Its own lease is over as well: the process joins again.  0 stays 0: a day later would be a lease that lives,
	 * if the machine has been up for nearly a day.
	 */
	(void)query("update %s_member set until_us = until_us + %lld where until_us <> 0", world.schema,
		    (long long)DAY_US);
	look_now(store);
	WAIT_FOR(stats_of_store(store).lost_leases != 0);
	id = put(store, "a", 0);
	CHECK(wait_gone(store, id));
}

/* A process that is started again under its name need not wait. */
TEST(a_name_whose_lease_ends_in_thirty_days_is_free)
{
	CLOSING hwt_store *store = FRESH(.name = "me");

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	(void)query("update %s_member set incarnation = 1, until_us = until_us + %lld", world.schema,
		    (long long)(30 * DAY_US));
	look_now(store); /* the process joins again */
	WAIT_FOR(stats_of_store(store).lost_leases != 0);
	CHECK(wait_held(store, 8));
	CHECK_INT(query("select count(*) from %s_member where name = 'me' and incarnation <> 1", world.schema), ==, 1);
}

TEST(processes_that_died_long_ago_leave_no_rows)
{
	hwt_store *store = fresh_store();

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	insert_member("of_last_week", -7 * DAY_US);
	insert_member("of_eleven_minutes_ago", -660 * INT64_C(1000000));
	insert_member("just_now", -1000000);
	insert_member("of_another_clock", 30 * DAY_US);
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(members() == 2);
	CHECK_INT(members(), ==, 2); /* a process that died just now may still be looked for */
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(query("select count(*) from %s_member where name = 'just_now'", world.schema), ==, 1);
}

/* While a worker that was killed stays away. */
TEST(who_is_dead_is_left_no_hints)
{
	NEEDS_SQLITE();
	CLOSING hwt_store *store = fresh_store();

	(void)put(store, "a", HWT_S(3600));
	insert_member("other", 3000000000);
	(void)query("update %s_shard set owner = 'other', epoch = 1", world.schema);
	for (int i = 0; i < 10; i++)
		(void)put(store, "a", 0);
	CHECK_INT(query("select count(*) from %s_hint", world.schema), ==, 10);
	(void)query("update %s_member set until_us = 1", world.schema);
	for (int i = 0; i < 10; i++)
		(void)put(store, "a", 0);
	CHECK_INT(query("select count(*) from %s_hint", world.schema), ==, 10);
}

STORE_MAIN(NULL)
