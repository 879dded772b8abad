/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why due rows have not started: each way of standing still has its reason, which goes when the row goes on.  Reasons
 * are read as operators read them: of the store, of the kind, in the text for Prometheus, and in warnings.
 */
#include "store_query.h"
#include "front.h"
#include "refuse.h"
#include "runs/begun.h"
#include "runs/stale.h"
#include "share/why.h"
#include "window/window.h"

static atomic_uint started, ended;
static atomic_bool held;

/* Waits while it is held. */
static int hold(const hwt_store_run *run, void *ctx)
{
	(void)run;
	(void)ctx;
	atomic_fetch_add(&started, 1);
	while (atomic_load(&held))
		sleep_ms(1);
	atomic_fetch_add(&ended, 1);
	return 0;
}

static hwt_store *start_with(hwt_store *store)
{
	atomic_store(&started, 0);
	atomic_store(&ended, 0);
	(void)run_tasks(store, hold, HWT_STORE_AT_LEAST_ONCE);
	WAIT_READ(store);
	return store;
}

/* A store with one thread, whose tasks wait. */
static hwt_store *start_held(hwt_store *store)
{
	atomic_store(&held, true);
	return start_with(store);
}

static void put_in(hwt_store *store, const char *group, unsigned count)
{
	hwt_store_spec spec = SPEC("a", -1, .group = group);

	for (unsigned i = 0; i < count; i++)
		(void)put_spec(store, &spec);
}

static uint64_t waiting(hwt_store *store, hwt_store_wait why)
{
	hwt_store_stats stats = HWT_STORE_STATS_INIT;

	CHECK_CALL(hwt_store_read_kind_stats(store, "a", &stats), 0);
	return stats.waiting[why];
}

static bool says(hwt_store *store, hwt_store_wait why, uint64_t count)
{
	char line[160], *text;
	int len = hwt_store_prometheus(store, NULL, 0) + 4096;
	bool said;

	(void)snprintf(line, sizeof(line), "\nhwt_store_waiting{kind=\"a\",reason=\"%s\"} %llu\n", hwts_wait_word(why),
		       (unsigned long long)count);
	text = malloc((size_t)len);
	REQUIRE(text != NULL && hwt_store_prometheus(store, text, (size_t)len) < len);
	said = strstr(text, line) != NULL;
	free(text);
	return said;
}

/* Checks that this number of rows wait for this reason, and none for another. */
static void check_waits(hwt_store *store, hwt_store_wait why, uint64_t count)
{
	hwt_store_stats all;

	WAIT_FOR(waiting(store, why) == count);
	WAIT_FOR(says(store, why, count));
	all = stats_of_store(store);
	CHECK_INT(all.waiting[why], ==, count);
	CHECK_INT(all.waiting_oldest_ns[why], >, 0);
	for (int other = 0; other < HWT_STORE_WAITS; other++)
		if (other != (int)why) {
			CHECK_INT(all.waiting[other], ==, 0);
			CHECK_INT(all.waiting_oldest_ns[other], ==, 0);
		}
}

static void check_none(hwt_store *store)
{
	hwt_store_stats all = stats_of_store(store);

	for (int why = 0; why < HWT_STORE_WAITS; why++) {
		WAIT_FOR(waiting(store, (hwt_store_wait)why) == 0);
		CHECK(all.waiting[why] > 0 || all.waiting_oldest_ns[why] == 0);
	}
}

static void let_go(hwt_store *store, unsigned count)
{
	atomic_store(&held, false);
	CHECK(wait_count(&ended, count));
	check_none(store);
}

/*
 * Reasons that a user has asked for
 */

TEST(no_thread_is_free)
{
	CLOSING hwt_store *store = start_held(FRESH(.threads = 1));

	check_none(store);
	(void)put(store, "a", HWT_S(3600)); /* not due */
	put_in(store, NULL, 1);
	CHECK(wait_count(&started, 1));
	put_in(store, NULL, 3);
	check_waits(store, HWT_STORE_WAITS_THREAD, 3);
	let_go(store, 4);
}

TEST(a_group_waits_for_its_turn)
{
	CLOSING hwt_store *store = start_held(FRESH(.threads = 1));

	put_in(store, "x", 1);
	CHECK(wait_count(&started, 1));
	put_in(store, "b", 2);
	WAIT_FOR(waiting(store, HWT_STORE_WAITS_THREAD) == 2);
	put_in(store, "c", 3);
	WAIT_FOR(waiting(store, HWT_STORE_WAITS_TURN) == 3);
	CHECK_INT(waiting(store, HWT_STORE_WAITS_THREAD), ==, 2);
	let_go(store, 6);
}

TEST(a_pulled_run_waits_for_the_program)
{
	hwt_store_kind kind = KIND(.name = "a", .flags = HWT_STORE_PULLED, .concurrency = 2);
	CLOSING hwt_store *store = fresh_store();
	hwt_store_run *run;

	CHECK_CALL(register_patiently(store, &kind), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	put_in(store, NULL, 3);
	check_waits(store, HWT_STORE_WAITS_THREAD, 3);
	for (int i = 0; i < 3; i++) {
		WAIT_FOR(hwt_store_next(store, &run) == 0);
		CHECK_CALL(hwt_store_end(run, 0), 0);
	}
	check_none(store);
}

TEST(a_group_is_full)
{
	CLOSING hwt_store *store = start_held(FRESH(.threads = 1));

	CHECK_CALL(hwt_store_limit(store, "a", NULL, &LIMITS(.running = 1)), 0);
	put_in(store, "b", 1);
	CHECK(wait_count(&started, 1));
	put_in(store, "b", 3); /* no thread is free either */
	check_waits(store, HWT_STORE_WAITS_CAP, 3);
	let_go(store, 4);
}

TEST(a_group_has_no_token)
{
	CLOSING hwt_store *store = start_with(fresh_store());

	atomic_store(&held, false);
	CHECK_CALL(hwt_store_limit(store, "a", "b", &LIMITS(.start_every_ns = HWT_S(3600))), 0);
	put_in(store, "b", 3);
	CHECK(wait_count(&ended, 1));
	check_waits(store, HWT_STORE_WAITS_RATE, 2);
	CHECK_CALL(hwt_store_limit(store, "a", "b", NULL), 0);
	let_go(store, 3);
}

TEST(a_group_or_its_kind_is_paused)
{
	CLOSING hwt_store *store = start_with(fresh_store());

	atomic_store(&held, false);
	CHECK_CALL(hwt_store_pause(store, "a", "b"), 0);
	put_in(store, "b", 2);
	check_waits(store, HWT_STORE_WAITS_PAUSE, 2);
	CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
	put_in(store, "c", 1);
	put_in(store, NULL, 1);
	check_waits(store, HWT_STORE_WAITS_PAUSE, 4);
	CHECK_CALL(hwt_store_resume(store, "a", "b"), 0);
	CHECK_CALL(hwt_store_resume(store, "a", NULL), 0);
	let_go(store, 4);
}

/*
 * Reasons that no user has asked for
 */

/* The database does not let this process begin the run of a dead process, and two others of its group wait. */
static void start_with_a_dead_run(hwt_store *store)
{
	hwt_store_spec spec = SPEC("a", -1, .group = "b", .key = "bad");

	register_kind(store, "a", hold, NULL, HWT_STORE_AT_LEAST_ONCE);
	atomic_store(&held, false);
	atomic_store(&ended, 0);
	CHECK_CALL(hwt_store_limit(store, "a", NULL, &LIMITS(.running = 1)), 0);
	(void)put_spec(store, &spec);
	(void)query("update %s_timeout set state = 2, epoch = 1, attempt = 1 where key = 'bad'", world.schema);
	(void)query("update %s_shard set epoch = 5", world.schema);
	refuse("update", "old.key = 'bad'");
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	WAIT_FOR(waiting(store, HWT_STORE_WAITS_ROW) == 1);
	put_in(store, "b", 2);
}

static void end_the_dead_run(hwt_store *store)
{
	accept_again("update");
	CHECK_CALL(hwt_store_limit(store, "a", NULL, NULL), 0);
	CHECK(wait_count(&ended, 2));
}

TEST(a_run_of_a_dead_process_counts)
{
	CLOSING hwt_store *store = fresh_store();

	start_with_a_dead_run(store);
	WAIT_FOR(waiting(store, HWT_STORE_WAITS_ELSEWHERE) == 2);
	CHECK_INT(waiting(store, HWT_STORE_WAITS_CAP), ==, 0);
	CHECK_INT(waiting(store, HWT_STORE_WAITS_ROW), ==, 1);
	end_the_dead_run(store);
	WAIT_FOR(waiting(store, HWT_STORE_WAITS_ELSEWHERE) == 0);
}

/* A thread of the store stops at a point until the gate is opened. */
static const char *_Atomic closed_at;

static void stay(const char *where)
{
	const char *at;

	while ((at = atomic_load(&closed_at)) != NULL && strcmp(at, where) == 0)
		sleep_ms(1);
}

static void close_gate(const char *where)
{
	atomic_store(&closed_at, where);
	atomic_store(&hwts_test_at, stay);
}

static void open_gate(void)
{
	atomic_store(&closed_at, NULL);
	atomic_store(&hwts_test_at, NULL);
}

TEST(new_rules_are_being_read)
{
	CLOSING hwt_store *store = start_with(fresh_store());

	atomic_store(&held, false);
	close_gate("rules");
	CHECK_CALL(hwt_store_limit(store, "a", NULL, &LIMITS(.running = 7)), 0);
	LOOK_UNTIL(store, LOCKED(store, hwts_rules_wanted(store)));
	put_in(store, "b", 2);
	check_waits(store, HWT_STORE_WAITS_RULES, 2);
	open_gate();
	let_go(store, 2);
}

TEST(shards_are_not_read)
{
	hwt_store *store = FRESH(.lease_ns = HWT_S(1));

	register_kind(store, "a", hold, NULL, HWT_STORE_AT_LEAST_ONCE);
	atomic_store(&held, false);
	atomic_store(&ended, 0);
	put_in(store, NULL, 3);
	close_gate("read");
	CHECK_CALL(hwt_store_start(store), 0);
	/* Each shard counts as one row: their number is not known. */
	WAIT_FOR(waiting(store, HWT_STORE_WAITS_READ) == 8);
	open_gate();
	CHECK(wait_count(&ended, 3));
	check_none(store);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* The rows of a group that the window does not keep wait as the others of the group do, or to be read. */
TEST(a_rest_is_not_read)
{
	CLOSING hwt_store *store;

	atomic_store(&hwts_test_window, 200);
	store = start_with(fresh_store());
	atomic_store(&held, false);
	CHECK_CALL(hwt_store_pause(store, "a", "b"), 0);
	put_in(store, "b", 30);
	WAIT_FOR(waiting(store, HWT_STORE_WAITS_PAUSE) == 21); /* a share, twice, and the rows beyond it */
	CHECK_INT(stats_of_store(store).waiting[HWT_STORE_WAITS_READ], ==, 0);
	close_gate("refilled");
	CHECK_CALL(hwt_store_resume(store, "a", "b"), 0);
	WAIT_FOR(waiting(store, HWT_STORE_WAITS_READ) > 0);
	open_gate();
	let_go(store, 30);
	atomic_store(&hwts_test_window, 0);
}

static int64_t put_zoned(hwt_store *store)
{
	hwt_store_spec spec = SPEC("a", 0, .schedule = "0 12 * * *", .zone = "Europe/Berlin");

	return put_spec(store, &spec);
}

TEST(the_tz_database_is_missing)
{
	CLOSING hwt_store *store = start_with(fresh_store());
	hwt_store_stats stats;
	int64_t id, age_ns;

	atomic_store(&held, false);
	id = put_zoned(store);
	CHECK_INT(setenv("TZDIR", "/there/is/none", 1), ==, 0);
	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	check_waits(store, HWT_STORE_WAITS_ZONE, 1);
	age_ns = stats_of_store(store).waiting_oldest_ns[HWT_STORE_WAITS_ZONE];
	for (int i = 0; i < 100; i++, sleep_ms(5)) { /* also while it backs off, and while it is tried */
		stats = stats_of_store(store);
		CHECK_INT(stats.waiting[HWT_STORE_WAITS_ZONE], ==, 1);
		CHECK_INT(stats.waiting_oldest_ns[HWT_STORE_WAITS_ZONE], >=, age_ns);
		age_ns = stats.waiting_oldest_ns[HWT_STORE_WAITS_ZONE];
	}
	CHECK_INT(atomic_load(&ended), ==, 0);
	CHECK_INT(unsetenv("TZDIR"), ==, 0);
	WAIT_FOR(hwt_store_reschedule(store, id, 0) == 0); /* EBUSY, while it is tried */
	let_go(store, 1);
}

/* Somebody moves the row by SQL: no time of its line has come. */
TEST(what_waits_for_its_zone_is_tried_less_and_less)
{
	CLOSING hwt_store *store = fresh_store();
	const struct hwts_entry *entry;
	int64_t id;

	CHECK_CALL(register_patiently(store, &KIND(.name = "a", .task = hold, .backoff_ns = HWT_MS(1))), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	WAIT_READ(store);
	id = put_zoned(store);
	CHECK_INT(setenv("TZDIR", "/there/is/none", 1), ==, 0);
	(void)query("update %s_timeout set due_us = %lld", world.schema, (long long)now_us());
	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	look_now(store);
	WAIT_FOR(LOCKED(store, (entry = hwts_window_find(store, id)) != NULL && entry->state == HWTS_ARMED &&
				       entry->why == HWT_STORE_WAITS_ZONE &&
				       entry->turn.due_us > hwts_clock_db_us(store) + HWTS_S_US / 5));
	CHECK_INT(unsetenv("TZDIR"), ==, 0);
}

static hwt_store *moved_by;
static int64_t minutely;
static atomic_uint looks;

/* Moves the row after the first look has read, and waits until the row has been tried. */
static void move_at_look(const char *where)
{
	const struct hwts_entry *entry;

	if (strcmp(where, "looked") != 0)
		return;
	if (atomic_load(&looks) == 0) {
		WAIT_FOR(hwt_store_reschedule(moved_by, minutely, 0) == 0);
		WAIT_FOR(LOCKED(moved_by, (entry = hwts_window_find(moved_by, minutely)) != NULL &&
							 entry->state == HWTS_ARMED &&
							 entry->why == HWT_STORE_WAITS_ZONE));
	}
	atomic_fetch_add(&looks, 1);
}

/* The look has found the row due at the next minute. */
TEST(a_look_that_read_before_a_move_does_not_undo_its_reason)
{
	CLOSING hwt_store *store = fresh_store();
	hwt_store_spec spec = SPEC("a", 0, .schedule = "* * * * *", .zone = "Europe/Berlin");

	CHECK_CALL(register_patiently(store, &KIND(.name = "a", .task = hold, .backoff_ns = HWT_S(3600),
						   .backoff_max_ns = HWT_S(3600))),
		   0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	WAIT_READ(store);
	minutely = put_spec(store, &spec);
	CHECK_INT(setenv("TZDIR", "/there/is/none", 1), ==, 0);
	moved_by = store;
	atomic_store(&looks, 0);
	atomic_store(&hwts_test_at, move_at_look);
	for (unsigned i = 1; i <= 2; i++) {
		look_now(store);
		CHECK(wait_count(&looks, i));
	}
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(LOCKED(store, hwts_window_why(store, minutely)), ==, HWT_STORE_WAITS_ZONE);
	CHECK_INT(unsetenv("TZDIR"), ==, 0);
}

/* The last try has given the reason; for the row that is given back no thread has come, so it was not tried again. */
TEST(what_is_given_back_waits_for_its_zone)
{
	CLOSING hwt_store *store = start_with(FRESH(.threads = 1));
	const struct hwts_entry *entry;
	int64_t id;

	atomic_store(&held, true);
	id = put_zoned(store);
	CHECK_INT(setenv("TZDIR", "/there/is/none", 1), ==, 0);
	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	check_waits(store, HWT_STORE_WAITS_ZONE, 1);
	put_in(store, NULL, 1);
	CHECK(wait_count(&started, 1));
	BEGIN_AHEAD(store);
	WAIT_FOR(LOCKED(store, store->kinds->begun.count) == 1);
	hwts_lock(store);
	atomic_store(&hwts_test_keeps_begun, false);
	store->kinds->begun.since_ns = store->kinds->begun.first->queued_ns -= HWT_S(3600);
	CHECK_INT(hwts_begun_stale(store, NULL, 0), ==, 0);
	store->kinds->begun.run_ns = HWT_S(1); /* and it is not begun once more */
	hwts_unlock(store);
	WAIT_FOR(LOCKED(store, (entry = hwts_window_find(store, id)) != NULL && entry->state == HWTS_IS_DUE));
	CHECK_INT(LOCKED(store, hwts_window_why(store, id)), ==, HWT_STORE_WAITS_ZONE);
	CHECK_INT(unsetenv("TZDIR"), ==, 0);
	let_go(store, 2);
}

TEST(a_row_is_refused)
{
	CLOSING hwt_store *store = start_with(FRESH(.lease_ns = HWT_S(2)));
	hwt_store_spec spec = SPEC("a", HWT_S(3600), .key = "bad");
	int64_t id;

	atomic_store(&held, false);
	CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
	id = put_spec(store, &spec);
	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	refuse("update", "old.key = 'bad'");
	CHECK_CALL(hwt_store_resume(store, "a", NULL), 0);
	check_waits(store, HWT_STORE_WAITS_ROW, 1);
	accept_again("update");
	let_go(store, 1); /* the row is tried again each lease */
}

#ifdef HWT_STORE_POSTGRES
TEST(a_row_is_locked)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = start_with(fresh_store());
	USER *conn = connect_user();

	atomic_store(&held, false);
	CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
	CHECK(user_sql(conn, "begin; select from %s_timeout where id = %lld for update", world.schema,
		       (long long)put(store, "a", -1)));
	CHECK_CALL(hwt_store_resume(store, "a", NULL), 0);
	check_waits(store, HWT_STORE_WAITS_ROW, 1);
	CHECK(user_sql(conn, "commit"));
	let_go(store, 1);
}
#endif

TEST(the_lease_cannot_be_renewed)
{
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(1));
	hwt_store_kind kind = KIND(.name = "a", .task = hold, .horizon_ns = HWT_S(600));

	/* Each shard has been read further than the test may take. */
	CHECK_CALL(register_patiently(store, &kind), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	WAIT_READ(store);
	atomic_store(&ended, 0);
	atomic_store(&held, false);
	close_gate("renewed");
	WAIT_FOR(stats_of_store(store).trusted == 0);
	put_in(store, NULL, 2);
	check_waits(store, HWT_STORE_WAITS_LEASE, 2);
	open_gate();
	let_go(store, 2);
}

TEST(what_a_lost_lease_had_is_counted_no_longer)
{
	CLOSING hwt_store *store = start_with(fresh_store());

	CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
	put_in(store, NULL, 2);
	check_waits(store, HWT_STORE_WAITS_PAUSE, 2);
	pthread_mutex_lock(&store->lock);
	store->window->look_ns = hwt_now() + HWT_S(3600); /* as if the last one had been slow */
	pthread_mutex_unlock(&store->lock);
	(void)query("delete from %s_timeout", world.schema);
	(void)query("update %s_member set until_us = 0", world.schema);
	look_now(store);
	WAIT_FOR(stats_of_store(store).lost_leases == 1);
	CHECK(wait_held(store, 8));
	check_none(store);
}

/* Starts a store with one shard, in which a run goes on until `held` is false. */
static void start_with_a_run(hwt_store *store)
{
	hwt_store_kind kind = KIND(.name = "a", .task = hold, .shards = 1);

	atomic_store(&started, 0);
	atomic_store(&ended, 0);
	atomic_store(&held, true);
	CHECK_CALL(register_patiently(store, &kind), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 1));
	WAIT_READ(store);
	put_in(store, NULL, 1);
	CHECK(wait_count(&started, 1));
}

/* A shard that cannot be given, for something runs there, is one of a process that stops, or has too many. */
TEST(a_shard_is_being_given)
{
	CLOSING hwt_store *store = fresh_store();

	start_with_a_run(store);
	pthread_mutex_lock(&store->lock);
	store->kinds->shards->giving = true;
	store->kinds->shards->giving_since_ns = hwt_now();
	pthread_mutex_unlock(&store->lock);
	put_in(store, NULL, 3);
	check_waits(store, HWT_STORE_WAITS_LEASE, 3);
	CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
	check_waits(store, HWT_STORE_WAITS_PAUSE, 3);
	CHECK_CALL(hwt_store_resume(store, "a", NULL), 0);
	atomic_store(&held, false);
	LOOK_UNTIL(store, atomic_load(&ended) == 4);
	check_none(store);
}

TEST(the_database_is_away)
{
	CLOSING hwt_store *store = fresh_store();

	front_put_before(store);
	(void)start_with(store);
	atomic_store(&held, false);
	(void)put(store, "a", HWT_MS(300));
	front_arm(1, FRONT_BEFORE, 1000000);
	check_waits(store, HWT_STORE_WAITS_DATABASE, 1);
	front_arm(0, FRONT_BEFORE, 0);
	let_go(store, 1);
}

static bool note_kind(void *ctx, const hwt_store_kind_info *info)
{
	*(hwt_store_kind_info *)ctx = *info;
	return true;
}

TEST(nobody_runs_a_kind)
{
	CLOSING hwt_store *store = fresh_store();
	hwt_store_kind_info info;

	(void)put(store, "a", HWT_S(3600));
	CHECK_CALL(hwt_store_each_kind(store, note_kind, &info), 0);
	CHECK_INT(info.waiting[HWT_STORE_WAITS_NOBODY], ==, 0);
	(void)put(store, "a", -1);
	WAIT_FOR(hwt_store_each_kind(store, note_kind, &info) == 0 && info.waiting[HWT_STORE_WAITS_NOBODY] == 1);
	CHECK_INT(info.waiting_oldest_ns[HWT_STORE_WAITS_NOBODY], >, 0);
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(hwt_store_each_kind(store, note_kind, &info) == 0 && info.waiting[HWT_STORE_WAITS_NOBODY] == 0);
}

/*
 * Warnings, once a lease has passed, and when the wait ends
 */

static struct {
	atomic_uint begins, ends;
} told[HWT_STORE_WAITS];

static void note_warning(void *ctx, const char *message)
{
	char reason[32];

	(void)ctx;
	for (size_t i = 0; i < HWT_STORE_WAITS; i++) {
		(void)snprintf(reason, sizeof(reason), ", reason %s", hwts_wait_word(i));
		if (!strstr(message, reason))
			continue;
		CHECK(strncmp(message, "kind a: ", 8) == 0 || strncmp(message, "kind of any: ", 13) == 0);
		CHECK(!strstr(message, "due for") || atoll(strstr(message, "due for") + 8) < 86400);
		atomic_fetch_add(strstr(message, "any more") ? &told[i].ends : &told[i].begins, 1);
	}
}

#define WARNS .lease_ns = HWT_S(1), .warn = note_warning

/* From now on. */
static void hear_warnings(void)
{
	for (size_t i = 0; i < HWT_STORE_WAITS; i++) {
		atomic_store(&told[i].begins, 0);
		atomic_store(&told[i].ends, 0);
	}
	atomic_store(&held, false);
	atomic_store(&ended, 0);
}

static hwt_store *start_warning(void)
{
	hwt_store *store = FRESH(WARNS);

	hear_warnings();
	return start_with(store);
}

/*
 * Reasons that a user has asked for are not reported.  If this machine loses a lease, warning and end come once more.
 */
static void check_over(hwt_store_wait why)
{
	static const hwt_store_wait silent[] = { HWT_STORE_STARTS,      HWT_STORE_WAITS_THREAD, HWT_STORE_WAITS_CAP,
						 HWT_STORE_WAITS_RATE,  HWT_STORE_WAITS_TURN,   HWT_STORE_WAITS_PAUSE,
						 HWT_STORE_WAITS_NOBODY };

	WAIT_FOR(atomic_load(&told[why].ends) == atomic_load(&told[why].begins));
	for (size_t i = 0; i < HWTS_COUNT(silent); i++)
		CHECK_INT(atomic_load(&told[silent[i]].begins), ==, 0);
}

TEST(a_zone_is_warned_of_and_a_pause_is_not)
{
	CLOSING hwt_store *store = start_warning();
	int64_t id = put_zoned(store);

	CHECK_CALL(hwt_store_pause(store, "a", "b"), 0);
	put_in(store, "b", 1);
	CHECK_INT(setenv("TZDIR", "/there/is/none", 1), ==, 0);
	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	WAIT_FOR(atomic_load(&told[HWT_STORE_WAITS_ZONE].begins) > 0);
	CHECK_INT(unsetenv("TZDIR"), ==, 0);
	WAIT_FOR(hwt_store_reschedule(store, id, 0) == 0); /* EBUSY, while it is tried */
	CHECK(wait_count(&ended, 1));
	check_over(HWT_STORE_WAITS_ZONE);
}

/* The second row is a cron line without a first time: its age is not known. */
TEST(a_refused_row_is_warned_of)
{
	for (int line = 0; line < 2; line++) {
		hwt_store *store = FRESH(WARNS);
		hwt_store_spec spec = SPEC("a", HWT_S(3600), .key = "bad", .schedule = line ? "0 0 1 1 *" : NULL);

		hear_warnings();
		register_kind(store, "a", hold, NULL, HWT_STORE_AT_LEAST_ONCE);
		(void)put_spec(store, &spec);
		(void)query("update %s_timeout set due_us = %lld", world.schema, line ? 0LL : (long long)now_us());
		refuse("update", "old.key = 'bad'");
		CHECK_CALL(hwt_store_start(store), 0);
		WAIT_FOR(atomic_load(&told[HWT_STORE_WAITS_ROW].begins) > 0);
		accept_again("update");
		CHECK(line || wait_count(&ended, 1));
		check_over(HWT_STORE_WAITS_ROW);
		CHECK_CALL(hwt_store_close(store), 0);
	}
}

TEST(a_run_of_a_dead_process_is_warned_of)
{
	CLOSING hwt_store *store = FRESH(WARNS);

	hear_warnings();
	start_with_a_dead_run(store);
	WAIT_FOR(atomic_load(&told[HWT_STORE_WAITS_ELSEWHERE].begins) > 0);
	end_the_dead_run(store);
	check_over(HWT_STORE_WAITS_ELSEWHERE);
}

TEST(what_is_not_read_is_warned_of)
{
	CLOSING hwt_store *store = FRESH(WARNS);

	hear_warnings();
	register_kind(store, "a", hold, NULL, HWT_STORE_AT_LEAST_ONCE);
	put_in(store, NULL, 1);
	close_gate("read");
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(atomic_load(&told[HWT_STORE_WAITS_READ].begins) > 0);
	open_gate();
	CHECK(wait_count(&ended, 1));
	check_over(HWT_STORE_WAITS_READ);
}

TEST(rules_that_cannot_be_read_are_warned_of)
{
	CLOSING hwt_store *store = start_warning();

	close_gate("rules");
	CHECK_CALL(hwt_store_limit(store, "a", NULL, &LIMITS(.running = 7)), 0);
	put_in(store, "b", 1);
	WAIT_FOR(atomic_load(&told[HWT_STORE_WAITS_RULES].begins) > 0);
	open_gate();
	CHECK(wait_count(&ended, 1));
	check_over(HWT_STORE_WAITS_RULES);
}

TEST(a_database_that_is_away_is_warned_of)
{
	CLOSING hwt_store *store = FRESH(WARNS);

	hear_warnings();
	front_put_before(store);
	(void)start_with(store);
	(void)put(store, "a", HWT_MS(300));
	front_arm(1, FRONT_BEFORE, 1000000);
	WAIT_FOR(atomic_load(&told[HWT_STORE_WAITS_DATABASE].begins) > 0);
	front_arm(0, FRONT_BEFORE, 0);
	CHECK(wait_count(&ended, 1));
	check_over(HWT_STORE_WAITS_DATABASE);
}

static void *stop(void *store)
{
	CHECK_CALL(hwt_store_stop(store), 0);
	return NULL;
}

/* Looks for warnings as control does, as if a lease and more had passed since timeouts were first seen to wait. */
static void watch_leases(hwt_store *store)
{
	struct hwts_watching watching = { .last_ns = hwt_now() - HWT_S(600) };

	watching.of[HWT_STORE_WAITS_LEASE].since_ns = watching.last_ns;
	hwts_waits_watch(store, &watching);
}

/* The lease is held: the timeouts wait because the stop does, which waits for a task. */
TEST(a_stop_that_waits_for_a_task_is_no_lost_lease)
{
	CLOSING hwt_store *store = FRESH(.threads = 1, .warn = note_warning);
	hwt_store_spec spec = SPEC("a", 0, .flags = HWT_STORE_ABSOLUTE, .due_us = now_us() - 3600000000);
	int64_t trusted_ns;
	pthread_t thread;

	hear_warnings();
	start_with_a_run(store);
	for (int i = 0; i < 3; i++)
		(void)put_spec(store, &spec);
	check_waits(store, HWT_STORE_WAITS_THREAD, 3);
	trusted_ns = LOCKED(store, store->clock->trusted_ns);
	CHECK_INT(pthread_create(&thread, NULL, stop, store), ==, 0);
	WAIT_FOR(LOCKED(store, store->clock->trusted_ns) != trusted_ns); /* control renews for the stop, and waits */
	check_waits(store, HWT_STORE_WAITS_LEASE, 3);
	watch_leases(store);
	CHECK_INT(atomic_load(&told[HWT_STORE_WAITS_LEASE].begins), ==, 0);
	hwts_lock(store);
	trusted_ns = store->clock->trusted_ns;
	hwts_trust(store, 0);
	hwts_unlock(store);
	watch_leases(store);
	CHECK_INT(atomic_load(&told[HWT_STORE_WAITS_LEASE].begins), ==, 1);
	hwts_lock(store);
	hwts_trust(store, trusted_ns);
	hwts_unlock(store);
	atomic_store(&held, false);
	CHECK_INT(pthread_join(thread, NULL), ==, 0);
}

/* Looks for warnings as control does a third of a lease later. */
static void watch_again(hwt_store *store)
{
	struct hwts_watching watching = { .last_ns = hwt_now() - store->config.lease_ns };

	hwts_lock(store);
	store->window->look_ns = 0;
	hwts_unlock(store);
	hwts_waits_watch(store, &watching);
}

/*
 * The group may begin the row, and nobody has put the group into the ring.  The lease is so long that control looks for
 * no warnings meanwhile.
 */
TEST(what_nothing_keeps_from_starting_is_warned_of)
{
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(3600), .warn = note_warning);
	hwt_store_spec spec =
	    SPEC("a", 0, .group = "b", .flags = HWT_STORE_ABSOLUTE, .due_us = now_us() - 2 * 3600000000);
	struct hwts_watch *watch;

	hear_warnings();
	(void)start_with(store);
	watch = &store->kinds->watch[HWT_STORE_STARTS];
	CHECK_CALL(hwt_store_pause(store, "a", "b"), 0);
	(void)put_spec(store, &spec);
	check_waits(store, HWT_STORE_WAITS_PAUSE, 1);
	hwts_lock(store);
	hwts_turns_find(&store->kinds->turns, "b", 1)->own->paused = false;
	hwts_unlock(store);
	for (int first = 1; first >= 0; first--) {
		watch_again(store);
		watch_again(store);
		CHECK_INT(atomic_load(&told[HWT_STORE_STARTS].begins), ==, 0);
		watch->since_ns -= HWT_S(86400);
		watch->id += first; /* as if another row had been the oldest for all that time */
	}
	watch_again(store);
	CHECK_INT(atomic_load(&told[HWT_STORE_STARTS].begins), ==, 1);
	watch->id++; /* as if the row that was told had started, and this one had not */
	watch_again(store);
	CHECK_INT(atomic_load(&told[HWT_STORE_STARTS].ends), ==, 0);
	CHECK_CALL(hwt_store_resume(store, "a", "b"), 0);
	CHECK(wait_count(&ended, 1));
	watch_again(store);
	CHECK_INT(atomic_load(&told[HWT_STORE_STARTS].ends), ==, 1);
}

#ifdef HWT_STORE_POSTGRES
TEST(a_lease_that_cannot_be_renewed_is_warned_of)
{
	NEEDS_POSTGRES(); /* SQLite has one lock for all */
	CLOSING hwt_store *store = start_warning();
	USER *conn = connect_user();

	CHECK(user_sql(conn, "begin; select from %s_member for update", world.schema));
	WAIT_FOR(stats_of_store(store).trusted == 0);
	put_in(store, NULL, 1);
	WAIT_FOR(atomic_load(&told[HWT_STORE_WAITS_LEASE].begins) > 0);
	CHECK(user_sql(conn, "commit"));
	CHECK(wait_count(&ended, 1));
	check_over(HWT_STORE_WAITS_LEASE);
}
#endif

STORE_MAIN(NULL)
