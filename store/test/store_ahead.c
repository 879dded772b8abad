/* SPDX-License-Identifier: BSD-2-Clause */
/* The look-ahead has a thread of its own: it holds up nothing else, and finds every row. */
#include "store_query.h"

#include "inside.h"

static atomic_uint looks, renewals, reads;
static atomic_bool may_look_on;

static atomic_uint told; /* renewals that failed */

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
 * What a look must not hold up
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

/* Reading all again is asked for after the look that is under way has been sent. */
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
	atomic_store(&held, 0);
	atomic_store(&may_look_on, false);
	look_now(store);
	CHECK(wait_count(&held, 1));
	before = atomic_load(&looks);
	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	hwts_poke(store);
	WAIT_FOR(LOCKED(store, store->reading->again));
	atomic_store(&may_look_on, true);
	CHECK(wait_count(&looks, before + 1));
	put(store, "a", 0);
	CHECK(wait_count(&ran, 1)); /* not only after a third of the lease */
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_at, NULL);
}

#ifdef HWT_STORE_POSTGRES
/* Nor does the look hold up a close, which breaks the look off. */
TEST(a_look_at_a_locked_table_holds_up_no_renewal)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store;
	USER *locker = NULL;
	unsigned before;

	NEEDS_POSTGRES(); /* no look of SQLite waits */
	fresh_world();
	atomic_store(&may_look_on, true);
	atomic_store(&hwts_test_at, look_for_long);
	store = started_with(&kind, HWT_S(600));
	locker = connect_user();
	CHECK(user_sql(locker, "begin; lock table %s_timeout", world.schema));
	before = atomic_load(&renewals);
	for (unsigned i = 1; i <= 3; i++) {
		look_now(store);
		CHECK(wait_count(&renewals, before + i));
	}
	WAIT_FOR(query("select count(*) from pg_locks where not granted and relation = '%s_timeout'::regclass",
		       world.schema) != 0);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(atomic_load(&told), ==, 0);
	atomic_store(&hwts_test_at, NULL);
}
#endif

/* A machine may sleep while the reply is on its way. */
TEST(what_a_machine_has_slept_counts_from_before_the_exchange)
{
	CLOSING hwt_store *store = fresh_store();
	struct hwts_trip trip = { .sent_ns = HWT_S(1) - HWT_MS(9), .reply_ns = HWT_S(1), .slept_ns = 77 };

	pthread_mutex_lock(&store->lock);
	CHECK(!hwts_clock_sample(store, 100 * HWTS_S_US, &trip));
	CHECK_INT(store->clock->offset_ns, ==, HWT_S(99));
	CHECK_INT(store->clock->slept_ns, ==, 77);
	pthread_mutex_unlock(&store->lock);
}

/*
 * What a backlog must not hide
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

/* Waits until the window holds n entries, running ones included. */
static void wait_window(hwt_store *store, size_t n)
{
	WAIT_FOR(stats_of_store(store).window + stats_of_store(store).running >= n);
}

/* Draws the next group; in_one: all groups are in one shard. */
static void next_group(char *group, size_t size, uint32_t shards, bool in_one)
{
	static unsigned number;

	do
		(void)snprintf(group, size, "g%u", number++);
	while (in_one && (hwts_id_of(0, group, NULL) & (HWTS_BUCKETS - 1)) % shards != 0);
}

/* The groups of one kind fill its share of the window, and wait.  Rows of another kind are read nevertheless. */
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

/* A window with room for 20 entries, full of rows that are due much later, each of a group of its own. */
static hwt_store *full_window(uint32_t shards, bool in_one, size_t n)
{
	char group[16];
	hwt_store_spec spec = SPEC("a", HWT_S(3600), .group = group);
	hwt_store *store;

	fresh_world();
	atomic_store(&hwts_test_window, 20);
	atomic_store(&may_look_on, true);
	atomic_store(&hwts_test_at, look_for_long);
	store = started_with(&KIND(.horizon_ns = HWT_S(7200), .shards = shards), HWT_S(3600));
	WAIT_READ(store); /* rows that are put from here on are before the marks */
	for (size_t i = 0; i < n; i++) {
		next_group(group, sizeof(group), shards, in_one);
		CHECK_CALL(put_patiently(store, &spec, NULL), 0);
	}
	wait_window(store, n);
	return store;
}

/* As after lost news. */
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

/* All rows of a shard, more than a look reads, were moved without news. */
TEST(a_full_window_that_is_read_again_hides_nothing_that_is_due)
{
	enum { SHARDS = 64, MOVED = 2 * HWTS_PAGE / SHARDS };
	hwt_store *store = full_window(SHARDS, true, MOVED);

	(void)query("update %s_timeout set due_us = %lld", world.schema, (long long)now_us());
	read_all_again(store);
	CHECK(wait_count(&ran, MOVED));
	end_full_window(store);
}

/*
 * The shards of a process that died come to one whose window is full: more is due in one of them than a look reads.
 * What is due later waits for room.
 */
static void take_what_is_due(int64_t in_us)
{
	enum { SHARDS = 64, FULL = 40, DUE = 2 * HWTS_PAGE / SHARDS + 2, LATER = HWTS_PAGE / SHARDS / 2 };
	hwt_store *store = full_window(SHARDS, true, FULL);
	hwt_store_spec spec = spec_of("a", HWT_S(3600));
	const struct hwts_shard *shard;
	char group[16];

	for (unsigned i = 0; i < DUE + LATER; i++) {
		do
			next_group(group, sizeof(group), 1, false);
		while ((hwts_id_of(0, group, NULL) & (HWTS_BUCKETS - 1)) % SHARDS != 1);
		spec.group = group;
		CHECK_CALL(put_patiently(store, &spec, NULL), 0);
	}
	(void)query("update %s_timeout set due_us = %lld where id in"
		    " (select id from %s_timeout where shard %% 1024 = 1 order by id limit %d)",
		    world.schema, (long long)(now_us() + in_us), world.schema, DUE);
	(void)query("update %s_shard set owner = null, epoch = epoch + 1 where id %% 1024 <> 0", world.schema);
	look_now(store);
	shard = &store->kinds->shards[1];
	WAIT_FOR(stats_of_store(store).done == DUE);
	/* The last look has been answered. */
	WAIT_FOR(LOCKED(store, shard->mark_due_us >= store->reading->seen_us && shard->reach_us == 0));
	CHECK_INT(stats_of_store(store).window, ==, FULL);
	for (unsigned i = 0; i < FULL; i++) {
		int64_t id = query("select min(id) from %s_timeout where shard %% 1024 = 0", world.schema);

		CHECK_CALL(hwt_store_cancel(store, id), 0);
	}
	WAIT_FOR(stats_of_store(store).window == LATER); /* there is room for what is due later */
	end_full_window(store);
}

TEST(a_full_window_hides_nothing_that_is_due_in_shards_that_are_taken)
{
	take_what_is_due(0);
}

/* No renewal comes meanwhile. */
TEST(a_full_window_hides_nothing_that_comes_due_between_two_renewals)
{
	take_what_is_due(3 * HWTS_S_US);
}

static hwt_store *_Atomic puts_due;

static void put_what_is_due(const char *where)
{
	hwt_store *store = strcmp(where, "read") == 0 ? atomic_exchange(&puts_due, NULL) : NULL;

	look_for_long(where);
	if (store)
		put(store, "a", 0);
}

/* The row is put when the look has read its shard, and there is no room for another look. */
TEST(a_full_window_hides_nothing_that_comes_while_it_is_read_again)
{
	hwt_store *store = full_window(1, false, 100);

	atomic_store(&puts_due, store);
	atomic_store(&hwts_test_at, put_what_is_due);
	read_all_again(store);
	CHECK(wait_count(&ran, 1));
	end_full_window(store);
}

/* Slow looks read one shard at a time, so the first shards fill the window. */
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

/* Called at points of all threads of the store. */
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

/* A pass holds the lock for as long as the window is large. */
TEST(what_waits_in_shards_that_are_given_is_dropped_at_once)
{
	fresh_world();
	CLOSING hwt_store *store = started_with(&KIND(.shards = 64), HWT_S(600));
	count_passes("dropped");
	CHECK_CALL(hwt_store_stop(store), 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(atomic_load(&passes), >, 0);
	CHECK_INT(atomic_load(&passes), <, 8); /* not one for each shard */
}

/*
 * What a look must find
 */

/*
 * At most once: a process has left a row running that is due far ahead, as after a clock was put back.  A look comes to
 * the row when it is due.
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

/* Looks take so long that no sweep reads everything, and there is no news of the row. */
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

/* Returns how many begins there have been once a timeout that is put now has run. */
static unsigned begins_with_a_wrong_clock(hwt_store *store)
{
	int64_t right_ns;

	count_passes("begun");
	pthread_mutex_lock(&store->lock);
	right_ns = store->clock->offset_ns;
	store->clock->offset_ns += HWT_S(500);
	hwts_window_rearm(store);
	pthread_mutex_unlock(&store->lock);
	WAIT_FOR(LOCKED(store, store->clock->offset_ns - right_ns) < HWT_S(100) || atomic_load(&passes) >= 10);
	CHECK(wait_gone(store, put(store, "a", 0)));
	return atomic_load(&passes);
}

/* By a clock that is put back later, the row is due in this process, and the next renewal comes in 200 s. */
TEST(a_clock_that_is_put_back_costs_one_begin_in_vain)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	unsigned begins = 0, rounds = 0;
	int64_t id;

	fresh_world();
	CLOSING hwt_store *store = started_with(&kind, HWT_S(600));
	WAIT_READ(store);
	id = put(store, "a", HWT_S(300));
	CHECK_INT(stats_of_store(store).window, ==, 1);
	/* A renewal that was under way may have corrected the clock before the begin. */
	do
		begins = begins_with_a_wrong_clock(store);
	while (++rounds < 100 && begins == 1);
	CHECK_INT(begins, ==, 2);
	CHECK_INT(info_of(store, id).attempt, ==, 0);
	CHECK_INT(atomic_load(&ran), ==, rounds);
	atomic_store(&hwts_test_at, NULL);
}

/* Puts rows of a paused group that have been due for long. */
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

/* A sweep reads a page, which is full of rows that wait and are known; the next sweep goes on behind the page. */
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

/* After each look, news says that all has to be read again. */
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

/* Another process puts many rows all the time.  A row behind a backlog is found nevertheless. */
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
