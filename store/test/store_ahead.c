/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The look-ahead, which has a thread of its own: what it takes long for holds up nobody, it reads a few rows at a time,
 * and none is hidden from it.
 */
#include "store.h"

#include "core/store.h"
#include "store_query.h"

#define ROWS 20000

static atomic_uint looks, renewals, reads;
static atomic_bool may_look_on;

static hwt_store *started_with(hwt_store_kind *kind, int64_t lease_ns)
{
	hwt_store_config config = store_config();
	hwt_store *store;

	config.lease_ns = lease_ns;
	store = open_with(&config);
	kind->name = "a";
	kind->task = count_run;
	CHECK_CALL(hwt_store_register(store, kind), 0);
	atomic_store(&ran, 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, kind->shards ? kind->shards : 8));
	return store;
}

/* Until it has read all that it holds. */
static bool wait_read(hwt_store *store)
{
	bool reads_on = true;

	for (int64_t give_up_ns = hwt_now() + PATIENCE_NS; reads_on && hwt_now() < give_up_ns; sleep_ms(1)) {
		pthread_mutex_lock(&store->lock);
		reads_on = store->unread;
		pthread_mutex_unlock(&store->lock);
	}
	return !reads_on;
}

/*
 * Whom it holds up
 */

static pthread_t starter;
static atomic_bool starter_looked;

static void look_for_long(const char *where)
{
	atomic_fetch_add(&renewals, strcmp(where, "renewed") == 0);
	if (strcmp(where, "looked") != 0)
		return;
	atomic_fetch_add(&looks, 1);
	if (pthread_equal(pthread_self(), starter))
		atomic_store(&starter_looked, true);
	else
		while (!atomic_load(&may_look_on))
			sleep_ms(1);
}

TEST(a_look_that_lasts_holds_up_no_start_no_renewal_and_no_run)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store;
	unsigned before;

	fresh_world();
	starter = pthread_self();
	atomic_store(&may_look_on, true);
	atomic_store(&hwts_test_at, look_for_long);
	store = started_with(&kind, HWT_S(600));
	CHECK(!atomic_load(&starter_looked));
	CHECK(wait_read(store));
	atomic_store(&may_look_on, false);
	atomic_store(&looks, 0);
	look_now(store);
	CHECK(wait_count(&looks, 1)); /* it is under way from here on */
	before = atomic_load(&renewals);
	for (unsigned i = 1; i <= 3; i++) {
		look_now(store);
		CHECK(wait_count(&renewals, before + i));
	}
	put(store, "a", 0);
	CHECK(wait_count(&ran, 1));
	CHECK_INT(atomic_load(&looks), ==, 1);
	atomic_store(&may_look_on, true);
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_at, NULL);
}

/* All is to be read again, and the look that is under way has been sent before. */
TEST(a_look_that_is_under_way_is_not_the_reading_that_is_asked_for)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store;
	bool asked = false;

	fresh_world();
	starter = pthread_self();
	atomic_store(&may_look_on, true);
	atomic_store(&hwts_test_at, look_for_long);
	store = started_with(&kind, HWT_S(1800));
	CHECK(wait_read(store));
	atomic_store(&may_look_on, false);
	atomic_store(&looks, 0);
	look_now(store);
	CHECK(wait_count(&looks, 1));
	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	hwts_poke(store);
	for (int64_t give_up_ns = hwt_now() + PATIENCE_NS; !asked && hwt_now() < give_up_ns; sleep_ms(1)) {
		pthread_mutex_lock(&store->lock);
		asked = store->read_again;
		pthread_mutex_unlock(&store->lock);
	}
	CHECK(asked);
	atomic_store(&may_look_on, true);
	CHECK(wait_count(&looks, 2));
	put(store, "a", 0);
	CHECK(wait_count(&ran, 1)); /* and not after a third of the lease */
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_at, NULL);
}

/*
 * How much it reads
 */

static hwt_store *read_by;
static uint64_t window_before, most;

/* By the thread that looks, between two of its readings. */
static void measure_window(const char *where)
{
	uint64_t window;

	if (strcmp(where, "read") != 0 || !read_by)
		return;
	pthread_mutex_lock(&read_by->lock);
	window = read_by->window.count;
	pthread_mutex_unlock(&read_by->lock);
	most = HWTS_MAX(most, window - HWTS_MIN(window_before, window));
	window_before = window;
	atomic_fetch_add(&reads, 1);
}

/* The rows of all shards share a page: with many shards it is not so many times as large. */
TEST(a_reading_has_a_page_of_all_shards_together)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store_spec *specs = calloc(ROWS, sizeof(*specs));
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;
	hwt_store *putter, *store;

	fresh_world();
	kind.shards = 64;
	kind.horizon_ns = HWT_S(7200);
	putter = open_store();
	kind.name = "a";
	kind.task = count_run;
	CHECK_CALL(hwt_store_register(putter, &kind), 0);
	for (int i = 0; i < ROWS; i++)
		specs[i] = spec_of("a", HWT_S(3600));
	for (int i = 0; i < ROWS; i += 10000)
		CHECK_CALL(hwt_store_put_many(putter, specs + i, 10000, NULL), 0);
	free(specs);
	CHECK_CALL(hwt_store_close(putter), 0);
	most = window_before = 0;
	atomic_store(&hwts_test_at, measure_window);
	read_by = NULL;
	{
		hwt_store_config config = store_config();

		store = open_with(&config);
		CHECK_CALL(hwt_store_register(store, &kind), 0);
		read_by = store;
		CHECK_CALL(hwt_store_start(store), 0);
	}
	while (stats_of_store(store).window < ROWS && hwt_now() < give_up_ns)
		sleep_ms(1);
	CHECK_INT(stats_of_store(store).window, ==, ROWS);
	CHECK_CALL(hwt_store_stop(store), 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(most, >, 0);
	CHECK_INT(most, <=, HWTS_PAGE);
	CHECK_CALL(hwt_store_close(store), 0);
}

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
static bool wait_window(hwt_store *store, size_t n)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;
	hwt_store_stats stats = stats_of_store(store);

	while (stats.window + stats.running < n && hwt_now() < give_up_ns) {
		sleep_ms(1);
		stats = stats_of_store(store);
	}
	return stats.window + stats.running >= n;
}

/* The rows of one kind fill its share of the window, and wait.  Those of another are read nevertheless. */
TEST(a_kind_that_is_behind_hides_no_other)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store_config config = store_config();
	hwt_store *store;

	fresh_world();
	atomic_store(&hwts_test_window, 20);
	atomic_store(&may_end, false);
	atomic_store(&ran, 0);
	config.lease_ns = HWT_S(3);
	store = open_with(&config);
	kind.name = "slow";
	kind.task = wait_for_end;
	kind.concurrency = 1;
	CHECK_CALL(register_patiently(store, &kind), 0);
	kind.name = "b";
	kind.task = count_run;
	kind.horizon_ns = HWT_S(2);
	CHECK_CALL(register_patiently(store, &kind), 0);
	for (int i = 0; i < 50; i++)
		put(store, "slow", 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_window(store, 20));
	put(store, "b", HWT_S(3)); /* beyond the mark */
	CHECK(wait_count(&ran, 1));
	atomic_store(&may_end, true);
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_window, 0);
}

/* All is read again, as after news were lost, while the window is full of what is due much later. */
TEST(a_full_window_that_is_read_again_hides_nothing_that_is_due)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store_spec specs[100];
	hwt_store *store;
	unsigned before;

	fresh_world();
	atomic_store(&hwts_test_window, 20);
	atomic_store(&may_look_on, true);
	atomic_store(&hwts_test_at, look_for_long);
	kind.horizon_ns = HWT_S(7200);
	store = started_with(&kind, HWT_S(600));
	CHECK(wait_read(store)); /* what is put from here on is before the marks */
	for (size_t i = 0; i < HWTS_COUNT(specs); i++)
		specs[i] = spec_of("a", HWT_S(3600));
	CHECK_CALL(hwt_store_put_many(store, specs, HWTS_COUNT(specs), NULL), 0);
	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	before = atomic_load(&looks);
	look_now(store);
	CHECK(wait_count(&looks, before + 1));
	put(store, "a", 0);
	CHECK(wait_count(&ran, 1));
	atomic_store(&hwts_test_at, NULL);
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_window, 0);
}

/* What is moved beyond the window leaves it: it must not be tried in vain at the time that it had. */
TEST(what_is_moved_later_leaves_the_window)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store;
	int64_t ids[10];

	fresh_world();
	store = started_with(&kind, HWT_S(600)); /* the horizon is 400 s */
	CHECK(wait_read(store));
	for (size_t i = 0; i < HWTS_COUNT(ids); i++)
		ids[i] = put(store, "a", HWT_S(300));
	CHECK_INT(stats_of_store(store).window, ==, HWTS_COUNT(ids));
	for (size_t i = 0; i < HWTS_COUNT(ids); i++)
		CHECK_CALL(hwt_store_reschedule(store, ids[i], i % 2 ? HWT_S(86400) : HWT_S(350)), 0);
	CHECK_INT(stats_of_store(store).window, ==, HWTS_COUNT(ids) / 2);
	for (size_t i = 0; i < HWTS_COUNT(ids); i++)
		CHECK_CALL(hwt_store_reschedule(store, ids[i], 0), 0);
	CHECK(wait_count(&ran, HWTS_COUNT(ids)));
	CHECK_CALL(hwt_store_close(store), 0);
}

static hwt_store *moves;
static int64_t moved;

static void move_again(const char *where)
{
	hwt_store *store = moves;

	if (strcmp(where, "rescheduled") != 0 || !store)
		return;
	moves = NULL;
	CHECK_INT(hwt_store_reschedule(store, moved, HWT_S(100)), ==, 0);
}

/* The later change is noted first. */
TEST(two_moves_leave_the_earlier_time_in_the_window)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store;

	fresh_world();
	store = started_with(&kind, HWT_S(600));
	CHECK(wait_read(store));
	moved = put(store, "a", HWT_S(300));
	moves = store;
	atomic_store(&hwts_test_at, move_again);
	CHECK_CALL(hwt_store_reschedule(store, moved, HWT_S(86400)), 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK(moves == NULL);
	CHECK_INT(stats_of_store(store).window, ==, 1);
	CHECK_CALL(hwt_store_close(store), 0);
}

static atomic_uint drops;

static void count_drop(const char *where)
{
	atomic_fetch_add(&drops, strcmp(where, "dropped") == 0);
}

/* A pass has the lock for as long as the window is large. */
TEST(what_waits_in_shards_that_are_given_is_dropped_at_once)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store;

	fresh_world();
	kind.shards = 64;
	store = started_with(&kind, HWT_S(600));
	atomic_store(&drops, 0);
	atomic_store(&hwts_test_at, count_drop);
	CHECK_CALL(hwt_store_stop(store), 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(atomic_load(&drops), >, 0);
	CHECK_INT(atomic_load(&drops), <, 8); /* and not one for each shard */
	CHECK_CALL(hwt_store_close(store), 0);
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
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store, *putter;
	int64_t id;

	fresh_world();
	putter = open_store();
	register_kind(putter, "a", count_run, NULL, HWT_STORE_AT_MOST_ONCE);
	id = put(putter, "a", HWT_S(302400));
	(void)query("update %s_shard set epoch = 5", world.schema);
	(void)query("update %s_timeout set state = 2, epoch = 3, attempt = 1", world.schema);
	kind.mode = HWT_STORE_AT_MOST_ONCE;
	store = started_with(&kind, HWT_S(600));
	CHECK(wait_read(store));
	(void)query("update %s_timeout set due_us = %lld", world.schema, (long long)now_us() - 1000 * HWTS_S_US);
	for (int64_t give_up_ns = hwt_now() + PATIENCE_NS; hwt_now() < give_up_ns; sleep_ms(5)) {
		hwt_store_info info = HWT_STORE_INFO_INIT;

		CHECK_CALL(hwt_store_get(putter, id, &info), 0);
		if (info.state == HWT_STORE_FAILED)
			break;
		look_now(store);
	}
	CHECK(wait_store_state(putter, id, HWT_STORE_FAILED));
	CHECK_INT(atomic_load(&ran), ==, 0);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_CALL(hwt_store_close(putter), 0);
}

/* Each look takes so long that no sweep reads all; and nobody tells of the row. */
TEST(what_is_put_before_the_low_water_mark_is_found)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store_spec spec = spec_of("a", 0);
	hwt_store *store, *putter;

	fresh_world();
	putter = open_store();
	atomic_store(&hwts_test_look_took, HWT_S(1));
	atomic_store(&hwts_test_deaf, true);
	store = started_with(&kind, HWT_S(600));
	look_now(store);
	for (int64_t ago_s = 3000; ago_s < INT64_C(1000000000); ago_s *= 100) {
		unsigned before = atomic_load(&ran);

		spec.flags = HWT_STORE_ABSOLUTE;
		spec.due_us = now_us() - ago_s * HWTS_S_US;
		CHECK_CALL(put_patiently(putter, &spec, NULL), 0);
		for (int64_t give_up_ns = hwt_now() + PATIENCE_NS;
		     atomic_load(&ran) == before && hwt_now() < give_up_ns; sleep_ms(1))
			look_now(store);
		CHECK_INT(atomic_load(&ran), ==, before + 1);
	}
	atomic_store(&hwts_test_look_took, 0);
	atomic_store(&hwts_test_deaf, false);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_CALL(hwt_store_close(putter), 0);
}

STORE_MAIN(NULL)
