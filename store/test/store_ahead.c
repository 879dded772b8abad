/* SPDX-License-Identifier: BSD-2-Clause */
/* The look-ahead, which has a thread of its own: it holds up nobody, and nothing is hidden from it. */
#include "store_query.h"

#include "inside.h"

#ifdef HWT_STORE_POSTGRES
#include "db/postgres.h"
#endif

static atomic_uint looks, renewals, reads;
static atomic_bool may_look_on;

static atomic_uint told; /* of renewals that failed */

static void count_warning(void *ctx, const char *message)
{
	(void)ctx;
	if (getenv("HWT_STORE_LOUD"))
		printf("# %s\n", message);
	atomic_fetch_add(&told, strncmp(message, "renewal: ", 9) == 0);
}

static hwt_store *started_with(hwt_store_kind *kind, int64_t lease_ns)
{
	hwt_store *store = OPEN(.warn = count_warning, .lease_ns = lease_ns);

	atomic_store(&told, 0);
	kind->name = "a";
	kind->task = count_run;
	CHECK_CALL(hwt_store_register(store, kind), 0);
	atomic_store(&ran, 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, kind->shards ? kind->shards : 8));
	return store;
}

/*
 * Whom it holds up
 */

static pthread_t starter;
static atomic_bool starter_looked;
static atomic_uint held; /* looks that found that they may not go on */

static void look_for_long(const char *where)
{
	atomic_fetch_add(&renewals, strcmp(where, "renewed") == 0);
	if (strcmp(where, "looked") != 0)
		return;
	atomic_fetch_add(&looks, 1);
	if (pthread_equal(pthread_self(), starter))
		atomic_store(&starter_looked, true);
	else if (!atomic_load(&may_look_on)) {
		atomic_fetch_add(&held, 1);
		while (!atomic_load(&may_look_on))
			sleep_ms(1);
	}
}

/* What waits keeps a look from going with a renewal.  One that had been lent before is through with the second. */
static void keep_the_look(hwt_store *store)
{
	unsigned before;

	put(store, "a", HWT_S(300));
	before = atomic_load(&renewals);
	for (unsigned i = 1; i <= 2; i++) {
		look_now(store);
		CHECK(wait_count(&renewals, before + i));
	}
	atomic_store(&held, 0);
	atomic_store(&may_look_on, false);
}

/* All is to be read again, and the look that is under way has been sent before. */
TEST(a_look_that_is_under_way_is_not_the_reading_that_is_asked_for)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store;
	unsigned before;

	fresh_world();
	starter = pthread_self();
	atomic_store(&may_look_on, true);
	atomic_store(&hwts_test_at, look_for_long);
	store = started_with(&kind, HWT_S(1800));
	CHECK(!atomic_load(&starter_looked));
	WAIT_READ(store);
	keep_the_look(store);
	look_now(store);
	CHECK(wait_count(&held, 1));
	before = atomic_load(&looks);
	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	hwts_poke(store);
	WAIT_FOR(LOCKED(store, store->reading->again));
	atomic_store(&may_look_on, true);
	CHECK(wait_count(&looks, before + 1));
	put(store, "a", 0);
	CHECK(wait_count(&ran, 1)); /* and not after a third of the lease */
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_at, NULL);
}

/*
 * What goes with a renewal
 */

static hwt_store *_Atomic idles;
static atomic_uint lent;

static void count_lent(const char *where)
{
	hwt_store *store = atomic_load(&idles);

	atomic_fetch_add(&renewals, strcmp(where, "renewed") == 0);
	atomic_fetch_add(&lent, store && strcmp(where, "looked") == 0 && IS_CONTROL(store));
}

/* Until its looks go with its renewals.  The starting thread has made the first renewal. */
static hwt_store *idle(hwt_store_kind *kind, int64_t lease_ns)
{
	hwt_store *store;

	fresh_world();
	atomic_store(&hwts_test_at, count_lent);
	store = started_with(kind, lease_ns);
	atomic_store(&lent, 0);
	atomic_store(&idles, store);
	LOOK_UNTIL(store, atomic_load(&lent) >= 2);
	/* Nor is one under way that was asked for meanwhile. */
	WAIT_FOR(LOCKED(store, !store->reading->unread && !store->reading->sweep_due &&
				   !hwts_asked(store, HWTS_LOOK | HWTS_LOAD)));
	return store;
}

static void end_idle(hwt_store *store)
{
	atomic_store(&idles, NULL);
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_at, NULL);
}

/*
 * The window misses what is put.  PostgreSQL's sweep sees what was not visible to the sweep before, that of SQLite what
 * is overdue.  There is more than a look that goes with a renewal would read.
 */
TEST(what_an_idle_process_was_not_told_of_is_found_by_its_next_look)
{
	enum { COUNT = 20 };
	hwt_store_spec specs[COUNT];
	hwt_store *store;

	store = idle(&KIND(.shards = 2), HWT_S(1800));
	for (int i = 0; i < COUNT; i++) {
		specs[i] = SPEC("a", 0, .flags = HWT_STORE_ABSOLUTE,
				.due_us = now_us() - (world.sqlite ? 1000 : 0) * HWTS_S_US);
	}
	atomic_store(&hwts_test_loses_rows, true);
	CHECK_CALL(hwt_store_put_many(store, specs, COUNT, NULL), 0);
	atomic_store(&hwts_test_loses_rows, false);
	CHECK_INT(stats_of_store(store).window, ==, 0);
	look_now(store);
	CHECK(wait_count(&ran, COUNT));
	end_idle(store);
}

static void put_beyond_the_mark(const char *where)
{
	hwt_store *store = strcmp(where, "looked") == 0 ? atomic_exchange(&idles, NULL) : NULL;
	hwt_store_spec spec = spec_of("a", 0);

	if (!store)
		return;
	CHECK(IS_CONTROL(store));
	spec.due_us = LOCKED(store, store->kinds->shards[0].mark_due_us + 1);
	spec.flags = HWT_STORE_ABSOLUTE;
	CHECK_CALL(hwt_store_put(store, &spec, NULL), 0);
}

/* It is due in 1200 s, so nothing but the window shows it, and the look that nobody asks for comes in 600 s. */
TEST(what_is_put_while_a_look_goes_with_a_renewal_is_not_passed_over)
{
	hwt_store *store;

	store = idle(&KIND(.shards = 1), HWT_S(1800));
	atomic_store(&hwts_test_at, put_beyond_the_mark);
	look_now(store);
	WAIT_FOR(stats_of_store(store).window != 0);
	CHECK(atomic_load(&idles) == NULL);
	CHECK_INT(stats_of_store(store).window, ==, 1);
	end_idle(store);
}

/* This process's estimate of the clock is wrong, so the look before set marks for another time. */
static void look_at_a_wrong_time(hwt_store *store, int64_t wrong_ns)
{
	struct patience patience = PATIENCE("the clock is corrected");
	int64_t right_ns, mark_us = 0, horizon_us = store->kinds->row.horizon_us;
	bool corrected = false;

	pthread_mutex_lock(&store->lock);
	right_ns = store->clock->offset_ns;
	store->clock->offset_ns += wrong_ns;
	HWTS_EACH_SHARD (store, kind, shard)
		shard->mark_due_us = now_us(); /* as if the look before were old */
	pthread_mutex_unlock(&store->lock);
	look_now(store);
	while (!corrected && patience_lasts(&patience, HWT_MS(1))) {
		int64_t off_ns;

		pthread_mutex_lock(&store->lock);
		off_ns = store->clock->offset_ns - right_ns;
		corrected = off_ns < HWT_S(100) && off_ns > -HWT_S(100) && !store->reading->unread;
		mark_us = store->kinds->shards[0].mark_due_us;
		pthread_mutex_unlock(&store->lock);
	}
	CHECK(corrected);
	CHECK_INT(mark_us, <=, now_us() + horizon_us);
	CHECK_INT(mark_us, >, now_us() + horizon_us - 1000 * HWTS_S_US);
}

TEST(a_look_that_went_with_a_renewal_at_a_wrong_time_does_not_count)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store = idle(&kind, HWT_S(1800));

	look_at_a_wrong_time(store, HWT_S(900));
	look_at_a_wrong_time(store, -HWT_S(1500));
	end_idle(store);
}

/* The table becomes a function, so that a look takes as long as its loop does. */
static void slow_down(const char *loop)
{
	const char *name = world.schema;

	(void)query("begin; create table %s_slow as select 1; alter table %s_timeout rename to %s_real;"
		    " create function %s_wait() returns setof %s_real language plpgsql as 'begin %s; end';"
		    " create view %s_timeout as select * from %s_wait(); commit",
		    name, name, name, name, name, loop, name, name);
}

static void speed_up(void)
{
	const char *name = world.schema;

	(void)query("delete from %s_slow", name);
	(void)query("begin; drop view %s_timeout; drop function %s_wait(); alter table %s_real rename to %s_timeout;"
		    " commit",
		    name, name, name, name);
}

/* The server comes to no end with it. */
TEST(a_look_that_stalls_holds_up_no_renewal)
{
	NEEDS_POSTGRES(); /* no look of SQLite waits */
	hwt_store *store = idle(&KIND(.shards = 8), HWT_S(30));
	char loop[100];
	unsigned before;

	(void)snprintf(loop, sizeof(loop), "while exists (select from %s_slow) loop perform pg_sleep(0.01); end loop",
		       world.schema);
	slow_down(loop);
	before = atomic_load(&renewals);
	for (unsigned i = 1; i <= 3; i++) {
		look_now(store);
		CHECK(wait_count(&renewals, before + i));
	}
	CHECK_INT(atomic_load(&told), ==, 0); /* each had its answer */
	speed_up();
	put(store, "a", 0);
	CHECK(wait_count(&ran, 1));
	end_idle(store);
}

#ifdef HWT_STORE_POSTGRES

/* The statement that also looks is broken off; the one behind it is not. */
TEST(a_renewal_of_an_idle_process_waits_for_its_row)
{
	NEEDS_POSTGRES();
	hwt_store *store = idle(&KIND(.shards = 1), HWT_S(600));
	USER *locker = connect_user();
	unsigned before;

	CHECK(user_sql(locker, "begin; update %s_member set until_us = until_us", world.schema));
	before = atomic_load(&renewals);
	look_now(store);
	WAIT_FOR(query("select count(*) from pg_locks where not granted") != 0);
	sleep_ms(500);
	CHECK(user_sql(locker, "commit"));
	CHECK(wait_count(&renewals, before + 1));
	CHECK_INT(atomic_load(&told), ==, 0);
	end_idle(store);
}
#endif

/* Between the time and its receipt lies more than the trip, so that one would be believed to be behind. */
TEST(a_clock_that_was_read_with_a_look_counts_only_if_it_contradicts)
{
	CLOSING hwt_store *store = fresh_store();
	struct hwts_trip trip = { .sent_ns = HWT_S(1) - HWT_MS(9), .reply_ns = HWT_S(1), .exact = true };
	int64_t us = 100 * HWTS_S_US;

	pthread_mutex_lock(&store->lock);
	CHECK(!hwts_clock_sample(store, us, &trip));
	CHECK_INT(store->clock->offset_ns, ==, HWT_S(99));
	trip = (struct hwts_trip){ .sent_ns = HWT_S(1) - HWT_MS(3), .reply_ns = HWT_S(1) };
	CHECK(!hwts_clock_sample(store, us - 2000, &trip));
	CHECK_INT(store->clock->offset_ns, ==, HWT_S(99));
	trip.exact = true;
	CHECK(hwts_clock_sample(store, us - 2000, &trip));
	CHECK_INT(store->clock->offset_ns, ==, HWT_S(99) - HWT_MS(2));
	trip.exact = false;
	trip.slept_ns = 77; /* before the exchange: what it slept meanwhile lies behind the time */
	CHECK(hwts_clock_sample(store, us + HWTS_S_US, &trip));
	CHECK_INT(store->clock->offset_ns, ==, HWT_S(100));
	CHECK_INT(store->clock->slept_ns, ==, 77);
	pthread_mutex_unlock(&store->lock);
}

#ifdef HWT_STORE_POSTGRES
#define IN_A_ROW 5

/* What control says to the server, from one look that went with a renewal to the fifth after it. */
static struct {
	FILE *file;
	bool looked;
	unsigned lent, exact;
	uint64_t trips;
	atomic_bool over;
	unsigned tries;
} traced;

static void begin_trace(hwt_store *store)
{
	PGconn *handle = pg_conn(hwts_conn(store, HWTS_CONTROL))->handle;

	REQUIRE(ftruncate(fileno(traced.file), 0) == 0);
	rewind(traced.file);
	PQtrace(handle, traced.file);
	PQsetTraceFlags(handle, PQTRACE_SUPPRESS_TIMESTAMPS);
	traced.exact = 0;
	traced.trips = atomic_load(&store->db->round_trips);
	traced.tries++;
}

static unsigned traced_statements(void)
{
	char line[512];
	unsigned count = 0;

	rewind(traced.file);
	while (fgets(line, sizeof(line), traced.file))
		count += line[0] == 'F' && (strstr(line, "\tExecute\t") || strstr(line, "\tQuery\t"));
	return count;
}

/* All in a row: what is looked for by the reader begins the row again, and so does a clock that moves. */
static void trace_idle(const char *where)
{
	hwt_store *store = atomic_load(&idles);

	if (!store || atomic_load(&traced.over) || !IS_CONTROL(store))
		return;
	if (strcmp(where, "renewed") == 0) {
		traced.lent = traced.looked ? traced.lent : 0;
		traced.looked = false;
	}
	if (strcmp(where, "looked") != 0)
		return;
	traced.looked = true;
	traced.exact += store->share->renewal.exact;
	if (traced.lent++ == 0 || traced.exact > 1) {
		traced.lent = 1;
		begin_trace(store);
	}
	if (traced.lent <= IN_A_ROW)
		return;
	PQuntrace(pg_conn(hwts_conn(store, HWTS_CONTROL))->handle);
	CHECK_INT(atomic_load(&store->db->round_trips) - traced.trips, ==, IN_A_ROW);
	atomic_store(&traced.over, true);
}

/* The lease, the shards, their members and the look; and in one of five the clock. */
TEST(an_idle_store_asks_one_statement_at_a_renewal)
{
	hwt_store *store;

	NEEDS_POSTGRES();
	store = idle(&KIND(.shards = 8), HWT_S(1800));
	traced.file = tmpfile();
	REQUIRE(traced.file);
	atomic_store(&hwts_test_at, trace_idle);
	LOOK_UNTIL(store, atomic_load(&traced.over) || traced.tries >= 1000);
	CHECK(atomic_load(&traced.over));
	CHECK_INT(traced_statements(), ==, IN_A_ROW + 1);
	end_idle(store);
	fclose(traced.file);
}
#endif

/*
 * Whom a backlog holds up
 */

static atomic_bool may_end;

static int wait_for_end(const hwt_store_run *run, void *ctx)
{
	(void)run;
	(void)ctx;
	while (!atomic_load(&may_end))
		sleep_ms(1);
	return 0;
}

/* Waits until the window holds so many, those that run included. */
static void wait_window(hwt_store *store, size_t n)
{
	WAIT_FOR(stats_of_store(store).window + stats_of_store(store).running >= n);
}

/* The next group; all of them lie in one shard if that is asked for. */
static void next_group(char *group, size_t size, uint32_t shards, bool in_one)
{
	static unsigned number;

	do
		(void)snprintf(group, size, "g%u", number++);
	while (in_one && (hwts_id_of(0, group, NULL) & (HWTS_BUCKETS - 1)) % shards != 0);
}

/* The groups of one kind fill its share of the window, and wait.  Those of another are read nevertheless. */
TEST(a_kind_that_is_behind_hides_no_other)
{
	hwt_store_kind kind = KIND(.name = "slow", .task = wait_for_end, .concurrency = 1);
	hwt_store *store;

	fresh_world();
	atomic_store(&hwts_test_window, 20);
	atomic_store(&may_end, false);
	store = OPEN(.lease_ns = HWT_S(3));
	CHECK_CALL(register_patiently(store, &kind), 0);
	kind.name = "b";
	kind.task = count_run;
	kind.horizon_ns = HWT_S(2);
	CHECK_CALL(register_patiently(store, &kind), 0);
	for (int i = 0; i < 50; i++) {
		hwt_store_spec spec = spec_of("slow", 0);
		char group[16];

		next_group(group, sizeof(group), 1, false);
		spec.group = group;
		CHECK_CALL(put_patiently(store, &spec, NULL), 0);
	}
	CHECK_CALL(hwt_store_start(store), 0);
	wait_window(store, 20);
	put(store, "b", HWT_S(3)); /* beyond the mark */
	CHECK(wait_count(&ran, 1));
	atomic_store(&may_end, true);
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_window, 0);
}

/* A window that has room for 20, and is full of what is due much later: of groups that have one each. */
static hwt_store *full_window(uint32_t shards, bool in_one, size_t n)
{
	char group[16];
	hwt_store_spec spec = SPEC("a", HWT_S(3600), .group = group);
	hwt_store *store;

	fresh_world();
	atomic_store(&hwts_test_window, 20);
	atomic_store(&may_look_on, true);
	atomic_store(&hwts_test_at, look_for_long);
	store = started_with(&KIND(.horizon_ns = HWT_S(7200), .shards = shards), HWT_S(600));
	WAIT_READ(store); /* what is put from here on is before the marks */
	for (size_t i = 0; i < n; i++) {
		next_group(group, sizeof(group), shards, in_one);
		CHECK_CALL(put_patiently(store, &spec, NULL), 0);
	}
	wait_window(store, n);
	return store;
}

/* As after news were lost. */
static void read_all_again(hwt_store *store)
{
	unsigned before;

	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	before = atomic_load(&looks);
	look_now(store);
	CHECK(wait_count(&looks, before + 1));
}

static void end_full_window(hwt_store *store)
{
	atomic_store(&hwts_test_at, NULL);
	atomic_store(&hwts_test_look_took, 0);
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_window, 0);
}

/* All of a shard, and more than a look reads of it, was moved without news. */
TEST(a_full_window_that_is_read_again_hides_nothing_that_is_due)
{
	enum { SHARDS = 64, MOVED = 2 * HWTS_PAGE / SHARDS };
	hwt_store *store = full_window(SHARDS, true, MOVED);

	(void)query("update %s_timeout set due_us = %lld", world.schema, (long long)now_us());
	read_all_again(store);
	CHECK(wait_count(&ran, MOVED));
	end_full_window(store);
}

static hwt_store *_Atomic puts_due;

static void put_what_is_due(const char *where)
{
	hwt_store *store = strcmp(where, "read") == 0 ? atomic_exchange(&puts_due, NULL) : NULL;

	look_for_long(where);
	if (store)
		put(store, "a", 0);
}

/* It is put when the look has read the shard, and there is no room for another look. */
TEST(a_full_window_hides_nothing_that_comes_while_it_is_read_again)
{
	hwt_store *store = full_window(1, false, 100);

	atomic_store(&puts_due, store);
	atomic_store(&hwts_test_at, put_what_is_due);
	read_all_again(store);
	CHECK(wait_count(&ran, 1));
	end_full_window(store);
}

/* As slow looks read one shard at a time, the first ones fill the window. */
TEST(a_full_window_does_not_keep_shards_from_being_read_at_all)
{
	enum { SHARDS = 8 };
	hwt_store *store;

	atomic_store(&hwts_test_look_took, HWT_S(2));
	store = full_window(SHARDS, false, 100);
	read_all_again(store);
	for (unsigned i = 0; i < SHARDS; i++)
		put(store, "a", 0);
	CHECK(wait_count(&ran, SHARDS));
	end_full_window(store);
}

static hwt_store *_Atomic moves;
static int64_t moved;

/* All threads of the store come by here. */
static void move_again(const char *where)
{
	hwt_store *store = strcmp(where, "rescheduled") == 0 ? atomic_exchange(&moves, NULL) : NULL;

	if (!store)
		return;
	CHECK_INT(hwt_store_reschedule(store, moved, HWT_S(100)), ==, 0);
}

/* The later change is noted first. */
TEST(two_moves_leave_the_earlier_time_in_the_window)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;

	fresh_world();
	CLOSING hwt_store *store = started_with(&kind, HWT_S(600));
	WAIT_READ(store);
	moved = put(store, "a", HWT_S(300));
	atomic_store(&moves, store);
	atomic_store(&hwts_test_at, move_again);
	CHECK_CALL(hwt_store_reschedule(store, moved, HWT_S(86400)), 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK(atomic_load(&moves) == NULL);
	CHECK_INT(stats_of_store(store).window, ==, 1);
}

/* A pass has the lock for as long as the window is large. */
TEST(what_waits_in_shards_that_are_given_is_dropped_at_once)
{
	fresh_world();
	CLOSING hwt_store *store = started_with(&KIND(.shards = 64), HWT_S(600));
	count_passes("dropped");
	CHECK_CALL(hwt_store_stop(store), 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(atomic_load(&passes), >, 0);
	CHECK_INT(atomic_load(&passes), <, 8); /* and not one for each shard */
}

/*
 * What must not be hidden from it
 */

/*
 * At most once: a row that its process has left running, and that is due far ahead, as after a clock that was put back.
 * The look comes to it when its time comes.
 */
TEST(a_run_that_was_left_is_failed_when_its_time_comes)
{
	CLOSING hwt_store *putter = fresh_store();
	int64_t id;

	register_kind(putter, "a", count_run, NULL, HWT_STORE_AT_MOST_ONCE);
	id = put(putter, "a", HWT_S(302400));
	(void)query("update %s_shard set epoch = 5", world.schema);
	(void)query("update %s_timeout set state = 2, epoch = 3, attempt = 1", world.schema);
	CLOSING hwt_store *store = started_with(&KIND(.mode = HWT_STORE_AT_MOST_ONCE), HWT_S(600));
	WAIT_READ(store);
	(void)query("update %s_timeout set due_us = %lld", world.schema, (long long)now_us() - 1000 * HWTS_S_US);
	LOOK_UNTIL(store, info_of(putter, id).state == HWT_STORE_FAILED);
	CHECK_INT(atomic_load(&ran), ==, 0);
}

/* Each look takes so long that no sweep reads all; and nobody tells of the row. */
TEST(what_is_put_before_the_low_water_mark_is_found)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store_spec spec = spec_of("a", 0);
	CLOSING hwt_store *putter = fresh_store();

	atomic_store(&hwts_test_look_took, HWT_S(1));
	atomic_store(&hwts_test_deaf, true);
	CLOSING hwt_store *store = started_with(&kind, HWT_S(600));
	look_now(store);
	for (int64_t ago_s = 3000; ago_s < INT64_C(1000000000); ago_s *= 100) {
		unsigned before = atomic_load(&ran);

		spec.flags = HWT_STORE_ABSOLUTE;
		spec.due_us = now_us() - ago_s * HWTS_S_US;
		CHECK_CALL(put_patiently(putter, &spec, NULL), 0);
		LOOK_UNTIL(store, atomic_load(&ran) != before);
		CHECK_INT(atomic_load(&ran), ==, before + 1);
	}
	atomic_store(&hwts_test_look_took, 0);
	atomic_store(&hwts_test_deaf, false);
}

/* By a clock that is put back: what is due soon is due here, and the next renewal comes in 200 s. */
TEST(a_clock_that_is_put_back_costs_one_begin_in_vain)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	int64_t right_ns, id;

	fresh_world();
	CLOSING hwt_store *store = started_with(&kind, HWT_S(600));
	WAIT_READ(store);
	id = put(store, "a", HWT_S(300));
	CHECK_INT(stats_of_store(store).window, ==, 1);
	count_passes("begun");
	pthread_mutex_lock(&store->lock);
	right_ns = store->clock->offset_ns;
	store->clock->offset_ns += HWT_S(500);
	hwts_window_rearm(store);
	pthread_mutex_unlock(&store->lock);
	WAIT_FOR(LOCKED(store, store->clock->offset_ns - right_ns) < HWT_S(100) || atomic_load(&passes) >= 10);
	CHECK(wait_gone(store, put(store, "a", 0)));
	CHECK_INT(atomic_load(&passes), ==, 2);
	CHECK_INT(info_of(store, id).attempt, ==, 0);
	CHECK_INT(atomic_load(&ran), ==, 1);
	atomic_store(&hwts_test_at, NULL);
}

/* Rows of a paused group, due long ago. */
static void put_backlog(hwt_store *store, int64_t first_us)
{
	enum { BATCH = 10000, BACKLOG = 2 * BATCH };
	hwt_store_spec *specs = calloc(BATCH, sizeof(*specs));

	CHECK_CALL(hwt_store_pause(store, "a", "g"), 0);
	for (int from = 0; from < BACKLOG; from += BATCH) {
		for (int i = 0; i < BATCH; i++)
			specs[i] = SPEC("a", 0, .flags = HWT_STORE_ABSOLUTE, .due_us = first_us + from + i,
					.group = "g");
		CHECK_CALL(hwt_store_put_many(store, specs, BATCH, NULL), 0);
	}
	free(specs);
}

static void look_once(hwt_store *store)
{
	unsigned before = atomic_load(&looks);

	look_now(store);
	WAIT_FOR(atomic_load(&looks) > before);
}

/* A sweep reads a page, which is full of what waits and is known; the next one goes on behind it. */
TEST(a_backlog_that_waits_does_not_hide_what_was_lost)
{
	hwt_store_kind kind = KIND(.name = "a", .task = count_run, .shards = 1);
	int64_t long_ago_us = now_us() - 1000000 * HWTS_S_US;
	CLOSING hwt_store *putter = fresh_store();

	atomic_store(&may_look_on, true);
	CHECK_CALL(hwt_store_register(putter, &kind), 0);
	put_backlog(putter, long_ago_us);
	CLOSING hwt_store *store = started_with(&kind, HWT_S(600));
	WAIT_READ(store);
	atomic_store(&hwts_test_at, look_for_long);
	atomic_store(&hwts_test_loses_rows, true);
	(void)put_spec(putter, &SPEC("a", 0, .flags = HWT_STORE_ABSOLUTE, .due_us = long_ago_us + 1000 * HWTS_S_US));
	look_once(store);
	look_once(store);
	atomic_store(&hwts_test_loses_rows, false);
	for (int i = 0; i < 300 && atomic_load(&ran) == 0; i++)
		look_once(store);
	CHECK(wait_count(&ran, 1));
	atomic_store(&hwts_test_at, NULL);
}

static hwt_store *_Atomic rereads;

/* News after each look says that all is to be read again. */
static void ask_to_read_again(const char *where)
{
	hwt_store *store = strcmp(where, "read") == 0 ? atomic_load(&rereads) : NULL;

	look_for_long(where);
	if (!store)
		return;
	atomic_fetch_add(&reads, 1);
	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	hwts_poke(store);
	WAIT_FOR(!LOCKED(store, hwts_asked(store, HWTS_LOAD)));
}

/* Others put much, all the time.  What lies behind a backlog is found nevertheless. */
TEST(a_reading_comes_to_its_end_however_often_it_is_asked_for)
{
	hwt_store_kind kind = KIND(.name = "a", .task = count_run, .shards = 1);
	CLOSING hwt_store *putter = fresh_store();

	atomic_store(&may_look_on, true);
	CHECK_CALL(hwt_store_register(putter, &kind), 0);
	put_backlog(putter, now_us() - 1000000 * HWTS_S_US);
	CLOSING hwt_store *store = started_with(&kind, HWT_S(600));
	WAIT_READ(store);
	atomic_store(&hwts_test_deaf, true);
	put(putter, "a", 0);
	atomic_store(&reads, 0);
	atomic_store(&rereads, store);
	atomic_store(&hwts_test_at, ask_to_read_again);
	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	look_now(store);
	WAIT_FOR(atomic_load(&reads) > 100 || atomic_load(&ran) > 0);
	CHECK_INT(atomic_load(&ran), ==, 1);
	atomic_store(&rereads, NULL);
	atomic_store(&hwts_test_at, NULL);
	atomic_store(&hwts_test_deaf, false);
}

STORE_MAIN(NULL)
