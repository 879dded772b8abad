/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups in a store: turns, priority, pauses, caps and rates.  The tests judge by the order of starts, without a clock.
 */
#include "store_query.h"
#include "front.h"
#include "ahead/ahead.h"

#define STARTS 4096

static struct {
	char group[16];
	int priority;
} starts[STARTS];
static atomic_uint started, ended;
static atomic_bool held;
static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;

/* Notes its start, and waits while it is held.  Whoever reads started also finds the note. */
static int note(const hwt_store_run *run, void *ctx)
{
	unsigned at;

	(void)ctx;
	pthread_mutex_lock(&noting);
	at = atomic_load(&started);
	REQUIRE(at < STARTS);
	(void)snprintf(starts[at].group, sizeof(starts[at].group), "%s", run->group ? run->group : "");
	starts[at].priority = run->len == sizeof(int) ? *(const int *)run->data : 0;
	atomic_store(&started, at + 1);
	pthread_mutex_unlock(&noting);
	while (atomic_load(&held))
		sleep_ms(1);
	atomic_fetch_add(&ended, 1);
	return 0;
}

static void put_in(hwt_store *store, const char *group, int priority, unsigned count)
{
	hwt_store_spec specs[100];

	for (unsigned i = 0; i < HWTS_COUNT(specs); i++) {
		specs[i] = SPEC("a", 0, .group = group, .priority = priority, .data = &priority,
				.len = sizeof(priority));
	}
	for (unsigned at = 0; at < count; at += 100)
		CHECK_CALL(hwt_store_put_many(store, specs, count - at < 100 ? count - at : 100, NULL), 0);
}

static hwt_store *fresh_with(unsigned threads, bool hold)
{
	atomic_store(&started, 0);
	atomic_store(&ended, 0);
	atomic_store(&held, hold);
	return FRESH(.threads = threads);
}

static hwt_store *start_with(unsigned threads, bool hold)
{
	return run_tasks(fresh_with(threads, hold), note, HWT_STORE_AT_LEAST_ONCE);
}

static void wait_window(hwt_store *store, uint64_t count)
{
	WAIT_FOR(stats_of_store(store).overdue == count);
}

/* The position of the nth start of a group among all starts, from 1 on. */
static unsigned place_of(const char *group, unsigned n)
{
	for (unsigned i = 0; i < atomic_load(&started); i++)
		if (strcmp(starts[i].group, group) == 0 && --n == 0)
			return i + 1;
	return STARTS;
}

static unsigned starts_of(const char *group)
{
	unsigned count = 0;

	for (unsigned i = 0; i < atomic_load(&started); i++)
		count += strcmp(starts[i].group, group) == 0;
	return count;
}

/* The position of the last row of b in the queue for a thread; 0: not all are there, or too few rows of the flood. */
static unsigned place_in_queue(hwt_store *store)
{
	unsigned at = 0, last = 0, of_b = 0, of_flood = 0;

	hwts_lock(store);
	for (const struct hwts_row *row = store->kinds->begun.first; row; row = row->next) {
		at++;
		of_b += strcmp(row->group, "b") == 0;
		of_flood += strcmp(row->group, "flood") == 0;
		last = strcmp(row->group, "b") == 0 ? at : last;
	}
	hwts_unlock(store);
	return of_b == 3 && of_flood > 20 ? last : 0;
}

TEST(what_was_begun_ahead_takes_turns_too)
{
	CLOSING hwt_store *store = start_with(1, true);
	unsigned place;

	put_in(store, "x", 0, 1);
	CHECK(wait_count(&started, 1));
	BEGIN_AHEAD(store);
	put_in(store, "flood", 0, 100); /* with less than half a batch in the queue more rows are begun */
	put_in(store, "b", 0, 3);
	WAIT_FOR((place = place_in_queue(store)) != 0);
	CHECK_INT(place, >, 0);
	CHECK_INT(place, <=, 6);
	atomic_store(&held, false);
	CHECK(wait_count(&ended, 104));
}

/*
 * More rows of a group than the window keeps
 */

#define SHARE 10 /* of a window of 200; rows without a group have ten times as many */

/* By priority, the starts of a group after the first. */
static void check_order(const char *group, unsigned count)
{
	int least = HWTS_PRIORITY_MAX;

	CHECK_INT(place_of(group, count), <, STARTS);
	for (unsigned i = 1; i < atomic_load(&started); i++)
		if (strcmp(starts[i].group, group) == 0) {
			CHECK_INT(starts[i].priority, <=, least);
			least = starts[i].priority;
		}
}

static void put_mixed(hwt_store *store, const char *group, unsigned count)
{
	static const int priorities[] = { 0, 2, -1, 1, 2 };

	for (size_t i = 0; i < HWTS_COUNT(priorities); i++)
		put_in(store, group, priorities[i], count / 5);
}

/* A row waits for the turn of its group. */
static bool is_queued(hwt_store *store, int64_t id)
{
	const struct hwts_entry *entry;

	return LOCKED(store, (entry = hwts_window_find(store, id)) && entry->state == HWTS_IS_DUE);
}

TEST(what_a_group_has_beyond_its_share_starts_in_its_order_and_hides_nobody)
{
	int priority = 0;
	int64_t ids[3];
	hwt_store *store;

	atomic_store(&hwts_test_window, 20 * SHARE);
	store = start_with(1, true);
	put_in(store, "flood", 0, 1);
	CHECK(wait_count(&started, 1));
	put_mixed(store, "flood", 300);
	CHECK_INT(stats_of_store(store).window, <=, 4 * SHARE);
	put_mixed(store, NULL, 50 * SHARE);
	for (unsigned i = 0; i < 3; i++)
		ids[i] = put_spec(store, &SPEC("a", 0, .group = "b", .data = &priority, .len = sizeof(priority)));
	/* The estimate of the database's clock may be a round trip low, and b is due here only after that. */
	WAIT_FOR(is_queued(store, ids[0]) && is_queued(store, ids[1]) && is_queued(store, ids[2]));
	atomic_store(&held, false);
	CHECK(wait_count(&ended, 304 + 50 * SHARE));
	CHECK_INT(place_of("b", 3), <=, 12);
	check_order("flood", 301);
	check_order("", 50 * SHARE);
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_window, 0);
}

static void put_in_shard(hwt_store *store, uint32_t shard, int priority, unsigned count)
{
	static unsigned number;
	char key[16];
	hwt_store_spec spec = SPEC("a", 0, .key = key, .priority = priority);

	for (; count > 0; number++) {
		(void)snprintf(key, sizeof(key), "%u", number);
		if ((hwts_id_of(0, NULL, key) & (HWTS_BUCKETS - 1)) % 8 != shard)
			continue;
		(void)put_spec(store, &spec);
		count--;
	}
}

/* If a rest cannot be read the order is lost, and its shard is given up.  On PostgreSQL the rest may have been read. */
TEST(what_waits_for_a_rest_goes_on_when_that_is_lost)
{
	NEEDS_SQLITE();
	hwt_store *store;

	fresh_world();
	atomic_store(&hwts_test_window, 20 * 4);
	atomic_store(&started, 0);
	atomic_store(&ended, 0);
	atomic_store(&held, false);
	store = OPEN(.threads = 1, .lease_ns = HWT_S(3600));
	register_kind(store, "a", note, NULL, HWT_STORE_AT_LEAST_ONCE);
	front_put_before(store);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	WAIT_READ(store);
	CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
	WAIT_FOR(LOCKED(store, !hwts_rules_wanted(store)));
	put_in_shard(store, 1, 0, 79); /* with the next row twice the share of rows without a group */
	put_in_shard(store, 0, 5, 2);
	atomic_store(&front_only, "look");
	front_arm(1, FRONT_BEFORE, 1u << 30);
	CHECK_CALL(hwt_store_resume(store, "a", NULL), 0);
	WAIT_FOR(stats_of_store(store).done == 1); /* the end of this run has woken every waiting thread */
	WAIT_FOR(!LOCKED(store, hwts_window_may_begin(store)));
	hwts_lock(store);
	hwts_lose(store, &store->kinds->shards[0]);
	hwts_unlock(store);
	CHECK(wait_count(&ended, 80));
	front_arm(0, 0, 0);
	atomic_store(&front_only, NULL);
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_window, 0);
}

/* News of another process carry the group and the priority. */
TEST(what_another_process_puts_takes_turns_too)
{
	CLOSING hwt_store *store = start_with(1, true), *other = open_store();

	put_in(store, "flood", 0, 100);
	CHECK(wait_count(&started, 1));
	put_in(other, "b", 1, 3);
	put_in(other, "flood", 7, 2);
	wait_window(store, 104);
	atomic_store(&held, false);
	CHECK(wait_count(&ended, 105));
	CHECK_INT(place_of("b", 3), <=, 7);
	CHECK_INT(starts[place_of("flood", 2) - 1].priority, ==, 7);
	CHECK_INT(starts[place_of("flood", 3) - 1].priority, ==, 7);
}

/*
 * Pauses
 */

/* When a due row of a group that may run has started, all rows that were due before would have started as well. */
static void wait_for_another(hwt_store *store, unsigned others)
{
	unsigned before = starts_of("sentinel");

	put_in(store, "sentinel", 0, others);
	WAIT_FOR(starts_of("sentinel") >= before + others);
	CHECK_INT(starts_of("sentinel"), ==, before + others);
}

/* The begin itself compares the number of the rules. */
TEST(after_a_pause_whose_news_is_lost_nothing_is_begun)
{
	CLOSING hwt_store *store = start_with(2, false), *other = open_store();

	put_in(store, "g", 0, 1);
	CHECK(wait_count(&ended, 1));
	atomic_store(&hwts_test_deaf, true);
	CHECK_CALL(hwt_store_pause(other, "a", "g"), 0);
	put_in(store, "g", 0, 20);
	wait_for_another(store, 5);
	atomic_store(&hwts_test_deaf, false);
	wait_for_another(store, 5);
	CHECK_INT(starts_of("g"), ==, 1);
	CHECK_CALL(hwt_store_resume(other, "a", "g"), 0);
	CHECK(wait_count(&ended, 31));
}

/* No begin is answered until the group is paused; and the rows of a process that has died are as if they were due. */
TEST(what_may_have_been_begun_before_a_pause_can_be_cancelled_and_moved)
{
	NEEDS_POSTGRES(); /* SQLite answers at once */
	hwt_store *store = start_with(4, false);
	hwt_store_spec spec = SPEC("p", 0, .group = "g");
	hwt_store_run *run = NULL;
	int64_t ids[4];

	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_CALL(hwt_store_register(store, &KIND(.name = "p", .flags = HWT_STORE_PULLED, .concurrency = 8)), 0);
	front_put_before(store);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 16));
	atomic_store(&front_only, "begin");
	front_arm(1, FRONT_AFTER, 1u << 30);
	for (int i = 0; i < 4; i++)
		ids[i] = put_spec(store, &spec);
	WAIT_FOR(query("select count(*) from %s_timeout where state = 2", world.schema) == 4);
	CHECK_CALL(hwt_store_pause(store, "p", "g"), 0);
	WAIT_FOR(LOCKED(store, !hwts_rules_wanted(store)));
	(void)query("update %s_timeout set epoch = 0 where id >= %lld", world.schema, (long long)ids[2]);
	front_arm(0, 0, 0);
	atomic_store(&front_only, NULL);
	WAIT_FOR(query("select count(*) from %s_timeout where state = 2", world.schema) == 0);
	for (int i = 0; i < 4; i += 2) {
		CHECK_CALL(hwt_store_cancel(store, ids[i]), 0);
		CHECK_CALL(hwt_store_reschedule(store, ids[i + 1], 0), 0);
	}
	CHECK_CALL(hwt_store_resume(store, "p", "g"), 0);
	for (int i = 1; i < 4; i += 2) {
		WAIT_FOR(hwt_store_next(store, &run) == 0);
		CHECK(run->id == ids[1] || run->id == ids[3]);
		CHECK_CALL(hwt_store_end(run, 0), 0);
	}
	WAIT_FOR(query("select count(*) from %s_timeout", world.schema) == 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* The row was due when it was replaced, and is begun in vain.  Then its time comes. */
TEST(what_has_replaced_another_has_its_own_priority)
{
	CLOSING hwt_store *store = start_with(1, false);
	struct hwts_due due = { .due_us = 1, .part = HWTS_OVERDUE };
	int priority = 100;
	hwt_store_spec spec = SPEC("a", 0, .group = "g", .key = "k", .priority = 100, .data = &priority,
				   .len = sizeof(priority));

	CHECK_CALL(hwt_store_pause(store, "a", "g"), 0);
	(void)put_spec(store, &spec);
	wait_window(store, 1);
	priority = spec.priority = -100;
	spec.flags = HWT_STORE_REPLACE;
	spec.delay_ns = HWT_S(3600);
	due.id = put_spec(store, &spec);
	due.shard = hwts_shard_of(&store->kinds->row, due.id);
	CHECK_CALL(hwt_store_resume(store, "a", "g"), 0);
	wait_window(store, 0);
	(void)settled_stats(store); /* the begin has been answered */
	CHECK_CALL(hwt_store_pause(store, "a", "g"), 0);
	(void)query("update %s_timeout set due_us = 1", world.schema);
	CHECK(!LOCKED(store, hwts_window_rescue(store, &due)));
	put_in(store, "g", 0, 3);
	wait_window(store, 4);
	CHECK_CALL(hwt_store_resume(store, "a", "g"), 0);
	CHECK(wait_count(&ended, 4));
	CHECK_INT(starts[0].priority, ==, 0);
}

static hwt_store *_Atomic changing;
static atomic_uint rules_read, looks;

static void change_and_count(const char *point)
{
	hwt_store *store = atomic_load(&changing);

	if (strcmp(point, "rules") == 0) {
		atomic_fetch_add(&rules_read, 1);
		hwts_lock(store);
		hwts_rules_changed(store, store->kinds->shards[0].id);
		hwts_unlock(store);
	}
	atomic_fetch_add(&looks, strcmp(point, "looked") == 0);
}

/* The rules change each time that they are read. */
TEST(rules_that_change_faster_than_they_are_read_hold_up_no_look)
{
	CLOSING hwt_store *store = start_with(1, false);
	unsigned read;

	WAIT_FOR(LOCKED(store, !store->reading->sweep_due));
	atomic_store(&changing, store);
	atomic_store(&looks, 0);
	atomic_store(&hwts_test_at, change_and_count);
	CHECK_CALL(hwt_store_pause(store, "a", "g"), 0);
	WAIT_FOR(atomic_load(&rules_read) > 0);
	look_now(store);
	WAIT_FOR(LOCKED(store, store->reading->sweep_due) || atomic_load(&looks) > 0);
	read = atomic_load(&rules_read);
	WAIT_FOR(atomic_load(&rules_read) > read + 100);
	CHECK_INT(atomic_load(&looks), >, 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK_CALL(hwt_store_resume(store, "a", "g"), 0);
	put_in(store, "g", 0, 1);
	CHECK(wait_count(&ended, 1));
}

static atomic_bool reading_lasts;

static void stay_in_reading(const char *point)
{
	while (strcmp(point, "rules") == 0 && atomic_load(&reading_lasts))
		sleep_ms(1);
}

/* A name of a group in another shard than that of "g". */
static const char *elsewhere(const hwt_store *store)
{
	static char name[24];
	uint32_t shards = store->kinds->row.shards;

	for (int i = 0; i == 0 || hwts_bucket(name, strlen(name)) % shards == hwts_bucket("g", 1) % shards; i++)
		(void)snprintf(name, sizeof(name), "other %d", i);
	return name;
}

TEST(while_rules_are_read_groups_of_other_shards_begin)
{
	CLOSING hwt_store *store = start_with(1, false);
	const char *other = elsewhere(store);

	WAIT_FOR(LOCKED(store, !store->reading->unread && !store->reading->sweep_due));
	atomic_store(&reading_lasts, true);
	atomic_store(&hwts_test_at, stay_in_reading);
	CHECK_CALL(hwt_store_limit(store, "a", "g", &LIMITS(.running = 7)), 0);
	put_in(store, "g", 0, 1);
	put_in(store, other, 0, 3);
	CHECK(wait_count(&ended, 3));
	CHECK_INT(starts_of(other), ==, 3);
	atomic_store(&reading_lasts, false);
	CHECK(wait_count(&ended, 4));
	atomic_store(&hwts_test_at, NULL);
}

TEST(rules_that_change_faster_than_they_are_read_hold_up_no_other_kind)
{
	CLOSING hwt_store *store = fresh_with(1, false);
	const char *other;

	register_kind(store, "a", note, NULL, HWT_STORE_AT_LEAST_ONCE);
	register_kind(store, "b", note, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 16));
	other = strcmp(store->kinds->name, "a") == 0 ? "b" : "a";
	atomic_store(&changing, store);
	atomic_store(&rules_read, 0);
	atomic_store(&hwts_test_at, change_and_count);
	CHECK_CALL(hwt_store_pause(store, store->kinds->name, "g"), 0);
	WAIT_FOR(atomic_load(&rules_read) > 1);
	CHECK_CALL(hwt_store_limit(store, other, "g", &LIMITS(.running = 7)), 0);
	put_spec(store, &SPEC(other, 0, .group = "g"));
	CHECK(wait_count(&ended, 1));
	atomic_store(&hwts_test_at, NULL);
}

/*
 * Rates
 */

/* A rate of this burst, and then one start an hour. */
static void limit_rate(hwt_store *store, uint32_t burst)
{
	CHECK_CALL(hwt_store_limit(store, "a", "g", &LIMITS(.start_every_ns = HWT_S(3600), .burst = burst)), 0);
}

/* The transaction could not be opened, so the run is given back. */
TEST(a_run_that_cannot_start_costs_no_token)
{
	hwt_store *store = fresh_with(1, false);

	front_put_before(store);
	(void)run_tasks(store, note, HWT_STORE_TRANSACTION);
	limit_rate(store, 1);
	atomic_store(&front_only, "open_run");
	front_arm(1, FRONT_BEFORE, 1);
	put_in(store, "g", 0, 1);
	CHECK(wait_count(&ended, 1));
	CHECK_INT(atomic_load(&front_count), >=, 2);
	front_arm(0, 0, 0);
	atomic_store(&front_only, NULL);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* The rules cannot be read, and so neither can the levels. */
TEST(a_process_that_stops_before_it_knew_the_levels_hands_them_over)
{
	hwt_store *store = start_with(4, false);

	limit_rate(store, 3);
	put_in(store, "g", 0, 2);
	CHECK(wait_count(&ended, 2));
	CHECK_CALL(hwt_store_close(store), 0);
	CLOSING hwt_store *next = open_store();
	front_put_before(next);
	atomic_store(&front_only, "rules");
	front_arm(1, FRONT_BEFORE, 1u << 30);
	(void)run_tasks(next, note, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_stop(next), 0);
	front_arm(0, 0, 0);
	atomic_store(&front_only, NULL);
	CHECK_CALL(hwt_store_start(next), 0);
	put_in(next, "g", 0, 5);
	CHECK(wait_count(&ended, 3)); /* the third end is that of the run that was left */
	wait_for_another(next, 5);
	CHECK_INT(starts_of("g"), ==, 3);
}

/* Nor does a group get tokens if the next process has stopped before it had rows of the group. */
TEST(after_a_death_a_group_begins_without_tokens)
{
	CLOSING hwt_store *store = start_with(4, false);

	limit_rate(store, 3);
	CHECK_CALL(hwt_store_stop(store), 0);
	(void)query("update %s_shard set levels = null", world.schema); /* a process that died hands over no levels */
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	wait_for_another(store, 1); /* as another row has started, the process has read the rules */
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	put_in(store, "g", 0, 5);
	CHECK(wait_held(store, 8));
	wait_for_another(store, 5);
	CHECK_INT(starts_of("g"), ==, 0);
	CHECK_CALL(hwt_store_limit(store, "a", "g", NULL), 0);
	CHECK(wait_count(&ended, 11));
}

/*
 * Arguments
 */

TEST(wrong_limits_are_refused)
{
	CLOSING hwt_store *store = start_with(1, false);
	const hwt_store_limits none = LIMITS(.running = 0), wrong[] = { LIMITS(.burst = 1),
									LIMITS(.start_every_ns = -1, .burst = 1),
									LIMITS(.start_every_ns = INT64_MAX, .burst = 1),
									LIMITS(.running = UINT32_MAX),
									{ .size = 1 } };

	CHECK_CALL(hwt_store_limit(NULL, "a", NULL, &none), EINVAL);
	CHECK_CALL(hwt_store_limit(store, NULL, NULL, &none), EINVAL);
	CHECK_CALL(hwt_store_limit(store, "a", "", &none), EINVAL);
	CHECK_CALL(hwt_store_limit(store, "nobody", NULL, &none), ENOENT);
	CHECK_CALL(hwt_store_pause(store, "nobody", NULL), ENOENT);
	CHECK_CALL(hwt_store_resume(store, "a", "\xff"), EINVAL);
	for (size_t i = 0; i < HWTS_COUNT(wrong); i++)
		CHECK_CALL(hwt_store_limit(store, "a", NULL, &wrong[i]), EINVAL);
	put_in(store, "g", 0, 5);
	CHECK(wait_count(&ended, 5));
}

STORE_MAIN(NULL)
