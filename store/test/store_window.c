/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The window, the queue for threads and the shards, a call at a time.  The test holds the lock of an idle store, so no
 * thread acts meanwhile.
 */
#include "store_query.h"

#include "inside.h"

#include <fcntl.h>
#include <unistd.h>

#define LATER_US (1000 * HWTS_S_US) /* no machine stands still for so long */

/* Locks the store once it has read all rows that it holds. */
static void lock_once_read(hwt_store *store)
{
	CHECK(wait_held(store, 8));
	WAIT_FOR((hwts_lock(store), !store->reading->unread) || (hwts_unlock(store), false));
}

/* A started store, locked. */
static hwt_store *locked_store(void)
{
	hwt_store *store = fresh_store();

	register_and_start(store, &KIND(.name = "a", .task = count_run, .horizon_ns = HWT_S(4 * 3600)));
	lock_once_read(store);
	return store;
}

static void close_locked(hwt_store *store)
{
	hwts_unlock(store);
	CHECK_CALL(hwt_store_close(store), 0);
}

static struct hwts_due due_at(const hwt_store *store, int64_t id, int64_t due_us)
{
	return (struct hwts_due){
		.id = id, .shard = store->kinds->shards[0].id, .due_us = due_us, .group = "g", .group_len = 1
	};
}

/* An entry that was begun a moment ago, without a row in the database. */
static struct hwts_entry *begun_entry(hwt_store *store, int64_t id, int64_t due_us)
{
	struct hwts_due due = due_at(store, id, due_us);
	struct hwts_entry *entry = hwts_window_insert(store, store->kinds, &due);

	REQUIRE(entry != NULL);
	entry->turn.due_us = due_us;
	entry->state = HWTS_BEGUN;
	hwts_turns_count(&entry->turn);
	return entry;
}

/* When the entry comes next, once a run that was due at due_us has ended with this rest, and heard_us was heard of. */
static int64_t next_after(hwt_store *store, int64_t heard_us, int64_t due_us, int64_t when_us, int64_t rest_us)
{
	struct hwts_entry *entry = begun_entry(store, 1, due_us);
	struct hwts_due heard = due_at(store, 1, heard_us), own = due_at(store, 1, due_us);
	struct hwts_row row = {
		.id = 1, .shard = heard.shard, .due_us = due_us, .when_us = when_us, .rest_us = rest_us
	};
	int64_t next_us;

	entry->turn.due_us = due_us + 1; /* the entry was armed for a later try */
	entry->between = true;
	hwts_window_see(store, &own); /* a look from before the begin, and news that is late */
	hwts_window_has_begun(entry, due_us);
	entry->between = false;
	hwts_window_see(store, &own);
	hwts_window_see(store, &heard);
	hwts_window_ended(store, &row, row.when_us);
	next_us = entry->turn.due_us;
	if (entry->state == HWTS_IS_DUE)
		CHECK(hwts_window_pop(store, store->kinds, true) == entry);
	hwts_window_erase(entry);
	return next_us;
}

TEST(what_a_look_heard_before_a_begin_does_not_date_the_next_run)
{
	hwt_store *store = locked_store();
	int64_t now_us = hwts_clock_db_us(store), when_us = now_us + 2 * LATER_US;

	CHECK_INT(next_after(store, now_us, now_us, when_us, 0), ==, when_us);
	/* The row was moved, perhaps while it waited for a line that can be read. */
	CHECK_INT(next_after(store, now_us + LATER_US, now_us, when_us, 0), ==, now_us + LATER_US);
	CHECK_INT(next_after(store, now_us + LATER_US, now_us, now_us, 2 * LATER_US), ==, now_us + LATER_US);
	CHECK_INT(next_after(store, now_us, now_us, now_us, LATER_US), >=, now_us + LATER_US);
	close_locked(store);
}

static bool in_state(hwt_store *store, int64_t id, enum hwts_entry_state state)
{
	const struct hwts_entry *entry;

	return LOCKED(store, (entry = hwts_window_find(store, id)) && entry->state == state);
}

static bool is_paused(hwt_store *store)
{
	return LOCKED(store, store->kinds->turns.paused);
}

/* While a series waits for its begin, news name a time that it no longer has. */
TEST(a_begin_knows_all_that_was_heard_before_it)
{
	CLOSING hwt_store *store = locked_store();
	struct hwts_due due;
	int64_t id;

	hwts_unlock(store);
	CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
	WAIT_FOR(is_paused(store));
	CHECK_CALL(hwt_store_put(store, &SPEC("a", 0, .period_ns = HWT_S(3600)), &id), 0);
	WAIT_FOR(in_state(store, id, HWTS_IS_DUE));
	hwts_lock(store);
	due = due_at(store, id, hwts_clock_db_us(store) - LATER_US);
	due.shard = hwts_window_find(store, id)->shard;
	hwts_window_see(store, &due);
	hwts_unlock(store);
	count_passes("begun");
	CHECK_CALL(hwt_store_resume(store, "a", NULL), 0);
	WAIT_FOR(atomic_load(&ran) == 1 && in_state(store, id, HWTS_ARMED)); /* the entry waits for its next run */
	atomic_store(&hwts_test_at, NULL);
	/* No begin was in vain; a row that waits too long for a thread is begun once more. */
	CHECK_INT(stats_of_store(store).begun, ==, atomic_load(&passes));
}

/* No look and no sweep finds the row: a row that runs is read with the rules, counts, and is begun. */
TEST(a_cap_counts_what_runs_under_an_older_epoch)
{
	hwt_store *store = FRESH(.lease_ns = HWT_S(3600));

	register_and_start(store, &KIND(.name = "a", .task = count_run));
	CHECK_CALL(hwt_store_put(store, &SPEC("a", HWT_S(3600), .group = "g"), NULL), 0);
	CHECK_CALL(hwt_store_stop(store), 0);
	(void)query("update %s_timeout set state = 2, epoch = 1, attempt = 1, due_us = due_us - 3600000000",
		    world.schema);
	atomic_store(&hwts_test_loses_rows, true);
	CHECK_CALL(hwt_store_start(store), 0);
	lock_once_read(store);
	hwts_unlock(store);
	atomic_store(&hwts_test_loses_rows, false);
	CHECK_INT(atomic_load(&ran), ==, 0);
	CHECK_CALL(hwt_store_limit(store, "a", "g", &LIMITS(.running = 1)), 0);
	CHECK(wait_count(&ran, 1));
	CHECK_CALL(hwt_store_close(store), 0);
}

/* The first row could not be begun, as another transaction had locked it, and the second has become due meanwhile. */
TEST(what_is_tried_again_keeps_its_place_in_its_group)
{
	hwt_store *store = locked_store();
	int64_t now_us = hwts_clock_db_us(store);
	struct hwts_entry *first = begun_entry(store, 1, now_us - LATER_US), *second;
	struct hwts_due due = due_at(store, 2, now_us - 1);

	hwts_window_see(store, &due);
	second = hwts_window_find(store, due.id);
	REQUIRE(second != NULL);
	hwts_window_not_running(first);
	hwts_window_not_begun(first, now_us - LATER_US, false);
	if (first->state == HWTS_ARMED) { /* the time of the first row has not come yet */
		CHECK_INT(first->turn.due_us, >, now_us);
		(void)hwt_cancel(first->timeout);
		hwts_window_due(first);
	}
	CHECK(hwts_window_pop(store, store->kinds, true) == first);
	CHECK(hwts_window_pop(store, store->kinds, true) == second);
	hwts_window_erase(first);
	hwts_window_erase(second);
	close_locked(store);
}

static const struct hwts_rules one_at_a_time = { .running = 1 };

static atomic_bool may_renew;

static void hold_renewals(const char *where)
{
	while (strcmp(where, "renewed") == 0 && !atomic_load(&may_renew))
		sleep_ms(1);
}

/*
 * The row ran on a process that died, was locked when it was tried, and is pending by now.  A call of this process
 * removes it, moves it, or moves it beyond what has been read.  No renewal wakes the beginner.
 */
static void change_what_counts(int64_t by_us)
{
	const struct hwts_own own = { .rules = one_at_a_time, .limited = true };
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(3600));
	struct hwts_entry *entry;
	struct hwts_due due;
	int64_t id;

	register_and_start(store, &KIND(.name = "a", .task = count_run, .horizon_ns = HWT_S(4 * 3600)));
	lock_once_read(store);
	REQUIRE(hwts_turns_set_own(&store->kinds->turns, "g", 1, &own));
	due = due_at(store, 1, hwts_clock_db_us(store) + LATER_US);
	entry = begun_entry(store, due.id, due.due_us);
	hwts_turns_elsewhere(&entry->turn, true);
	hwts_window_arm(entry, due.due_us);
	hwts_unlock(store);
	atomic_store(&may_renew, false);
	atomic_store(&hwts_test_at, hold_renewals);
	CHECK_CALL(hwt_store_put(store, &SPEC("a", 0, .group = "g"), &id), 0);
	WAIT_FOR(in_state(store, id, HWTS_IS_DUE));
	WAIT_FOR(LOCKED(store, !hwts_turns_ready(&store->kinds->turns))); /* the beginner has looked */
	CHECK_INT(atomic_load(&ran), ==, 0);
	hwts_lock(store);
	due.due_us += by_us;
	if (by_us == 0)
		hwts_window_forget(store, due.id);
	else
		hwts_window_move(store, &due, entry->heard);
	hwts_unlock(store);
	CHECK(wait_count(&ran, 1));
	atomic_store(&may_renew, true);
	atomic_store(&hwts_test_at, NULL);
}

TEST(what_does_not_run_any_more_frees_its_place_in_its_group)
{
	change_what_counts(0);
	change_what_counts(LATER_US);
	change_what_counts(100 * LATER_US);
}

/* The rules of a shard that is lost are not read. */
TEST(a_kind_does_not_wait_for_the_rules_of_shards_that_it_has_lost)
{
	hwt_store *store = locked_store();
	struct hwts_kind *kind = store->kinds;
	struct hwts_shard was[2] = { kind->shards[0], kind->shards[1] };

	for (int i = 0; i < 2; i++)
		hwts_rules_changed(store, kind->shards[i].id);
	CHECK(kind->turns.stalls == 2 && kind->turns.stalled[0] == 3);
	hwts_lose(store, &kind->shards[0]);
	CHECK(kind->turns.stalls == 1 && kind->turns.stalled[0] == 2);
	hwts_lose(store, &kind->shards[1]);
	CHECK(kind->turns.stalls == 0 && kind->turns.stalled[0] == 0);
	for (int i = 0; i < 2; i++)
		kind->shards[i] = was[i];
	store->shards->held += 2;
	close_locked(store);
}

/* The group is paused, so the row is not begun.  When the shard is held again, its rules are read first. */
TEST(what_is_due_in_a_shard_that_is_lost_is_dropped)
{
	static const struct hwts_own paused = { .paused = true };
	hwt_store *store = FRESH(.lease_ns = HWT_S(3600));
	struct hwts_kind *kind;
	struct hwts_shard was;
	struct hwts_due due;

	register_and_start(store, &KIND(.name = "a", .task = count_run));
	lock_once_read(store);
	kind = store->kinds;
	was = kind->shards[0];
	due = due_at(store, 1, hwts_clock_db_us(store) - LATER_US);
	REQUIRE(hwts_turns_set_own(&kind->turns, "g", 1, &paused));
	hwts_window_see(store, &due);
	CHECK_INT(kind->turns.queued, ==, 1);
	hwts_lose(store, &kind->shards[0]);
	hwts_unlock(store);
	hwts_window_drop_lost(store);
	hwts_lock(store);
	CHECK(!hwts_window_find(store, 1));
	CHECK_INT(kind->turns.queued, ==, 0);
	kind->shards[0] = was;
	store->shards->held++;
	close_locked(store);
}

/* The look has found rows begun under the epoch before; the next look reads the shard from the beginning. */
TEST(nothing_is_begun_in_a_shard_before_its_rules_are_read)
{
	hwt_store *store = locked_store();
	struct hwts_shard *shard = &store->kinds->shards[0];
	struct hwts_due due = due_at(store, 1, hwts_clock_db_us(store) - LATER_US);

	hwts_window_see(store, &due);
	CHECK(hwts_window_peek(store->kinds) == hwts_window_find(store, 1));
	shard->unruled = HWTS_NEW;
	CHECK(!hwts_window_pop(store, store->kinds, true));
	CHECK(!hwts_window_find(store, 1));
	shard->unruled = HWTS_RULED;
	close_locked(store);
}

/* The shard is read again from the beginning, and no look has reached the row. */
TEST(a_rest_is_read_although_its_shard_is_read_again)
{
	hwt_store *store = FRESH(.lease_ns = HWT_S(3600));
	struct hwts_entry *entry;
	struct hwts_shard *shard;
	struct hwts_due due;
	int64_t id, was_us;

	register_and_start(store, &KIND(.name = "a", .task = count_run));
	lock_once_read(store);
	hwts_unlock(store);
	CHECK_CALL(hwt_store_pause(store, "a", "g"), 0);
	WAIT_FOR(LOCKED(store, hwts_turns_find(&store->kinds->turns, "g", 1)));
	CHECK_CALL(hwt_store_put(store, &SPEC("a", 0, .group = "g"), &id), 0);
	WAIT_FOR(in_state(store, id, HWTS_IS_DUE));
	hwts_lock(store);
	entry = hwts_window_find(store, id);
	due = due_at(store, id, entry->turn.due_us);
	due.shard = entry->shard;
	hwts_turns_remove(&store->kinds->turns, &entry->turn);
	hwts_window_erase(entry);
	CHECK(!hwts_turns_keeps(&store->kinds->turns, &due, 0));
	shard = hwts_shard(store, due.shard, NULL);
	was_us = shard->mark_due_us;
	shard->mark_due_us = INT64_MIN;
	hwts_wake(store, HWTS_READ);
	hwts_unlock(store);
	WAIT_FOR(LOCKED(store, !store->kinds->turns.rests));
	CHECK(in_state(store, id, HWTS_IS_DUE));
	hwts_lock(store);
	shard->mark_due_us = was_us;
	close_locked(store);
}

/* The mark stands still, and the rest of the group is being read. */
TEST(what_is_due_now_and_has_no_room_goes_to_the_rest_beyond_the_mark_too)
{
	hwt_store *store = locked_store();
	struct hwts_turns *turns = &store->kinds->turns;
	struct hwts_shard *shard = &store->kinds->shards[0];
	struct hwts_due first = due_at(store, 1, hwts_clock_db_us(store) - LATER_US), due = first;
	int64_t was_us = shard->mark_due_us;
	struct hwts_turn turn = { .counted = false };
	struct hwts_rest *rest;

	hwts_turns_at(turns, hwts_clock_db_us(store));
	shard->mark_due_us = first.due_us;
	REQUIRE(hwts_turns_join(turns, &turn, "g", 1));
	CHECK(!hwts_turns_keeps(turns, &first, 0));
	rest = hwts_turns_wanted(turns, hwts_window_share(store));
	REQUIRE(rest != NULL);
	hwts_rest_ask(rest);
	due.id = 2;
	due.due_us += LATER_US - 1;
	hwts_window_see(store, &due);
	hwts_rest_read(turns, rest, (struct hwts_place){ .due_us = HWTS_NEVER });
	CHECK(hwts_turns_rests(turns, &due));
	hwts_turns_drop_rests(turns, shard->id);
	hwts_turns_leave(turns, &turn, hwt_now());
	shard->mark_due_us = was_us;
	close_locked(store);
}

/* Rests are found by the bucket of their group, and its rules are dropped with those of the bucket's shard. */
TEST(forged_news_do_not_move_a_group_to_another_bucket)
{
	hwt_store *store = locked_store();
	int64_t bucket = hwts_id_of(0, "g", NULL);
	struct hwts_due due = due_at(store, bucket + 1, hwts_clock_db_us(store) + LATER_US);
	struct hwts_entry *entry;

	due.shard = hwts_shard_of(&store->kinds->row, due.id);
	hwts_window_hear(store, &due);
	entry = hwts_window_find(store, due.id);
	REQUIRE(entry != NULL);
	CHECK_INT(entry->turn.group->bucket, ==, bucket);
	hwts_window_erase(entry);
	close_locked(store);
}

/* A row that comes before others of its group takes the place of a row of another size. */
TEST(what_waits_for_a_thread_counts_with_its_own_size)
{
	hwt_store *store = locked_store();
	struct hwts_kind *kind = store->kinds;
	struct hwts_row small = { .kind = kind, .turns = &kind->turns.none, .round = 1, .len = 10 };
	struct hwts_row large = { .kind = kind, .turns = &kind->turns.none, .round = 2, .len = 1000, .priority = 1 };
	unsigned turn = 0;

	hwts_begun_push(store, &small);
	hwts_begun_push(store, &large);
	CHECK_INT(store->runs->queued_bytes, ==, 1010);
	CHECK(hwts_begun_next(store, &turn, false) == &large);
	CHECK_INT(store->runs->queued_bytes, ==, 10);
	CHECK(hwts_begun_next(store, &turn, false) == &small);
	CHECK_INT(store->runs->queued_bytes, ==, 0);
	close_locked(store);
}

/* The others wait for the shard. */
TEST(the_last_run_of_a_shard_that_is_given_away_wakes_control)
{
	hwt_store *store = locked_store();
	struct hwts_shard *shard = &store->kinds->shards[0];
	int fds[2], was = dup(store->asks->poke[1]);
	char byte;

	REQUIRE(was >= 0 && pipe2(fds, O_NONBLOCK | O_CLOEXEC) == 0 && dup2(fds[1], store->asks->poke[1]) >= 0);
	for (int i = 0; i < 3; i++)
		hwts_active(store, shard);
	hwts_inactive(store, shard);
	shard->giving = true;
	hwts_inactive(store, shard);
	CHECK_INT(read(fds[0], &byte, 1), <, 0);
	hwts_inactive(store, shard);
	CHECK_INT(read(fds[0], &byte, 1), ==, 1);
	shard->giving = false;
	CHECK(dup2(was, store->asks->poke[1]) >= 0);
	close(was);
	close(fds[0]);
	close(fds[1]);
	close_locked(store);
}

static unsigned told_slow;

static void count_slow(void *ctx, const char *message)
{
	(void)ctx;
	told_slow += strstr(message, "a look at the timeouts took") != NULL;
}

/* Reported once, until a look has been quick again. */
TEST(a_look_that_is_slow_is_told)
{
	NEEDS_POSTGRES();
	static const struct {
		int64_t took_ns;
		unsigned told;
	} looks[] = { { HWT_S(9), 1 }, { HWT_S(9), 1 }, { HWT_MS(1), 1 }, { HWT_S(9), 2 }, { HWT_S(9), 2 } };
	hwt_store *store = FRESH(.lease_ns = HWT_S(15), .warn = count_slow);
	struct hwts_look look = { .slice_from_us = INT64_MIN };
	struct hwts_sweep sweep;

	told_slow = 0;
	hwts_sweep_init(&sweep, store);
	for (size_t i = 0; i < HWTS_COUNT(looks); i++) {
		hwts_swept(&sweep, store, &look, looks[i].took_ns);
		CHECK_INT(told_slow, ==, looks[i].told);
	}
	CHECK_CALL(hwt_store_close(store), 0);
}

STORE_MAIN(NULL)
