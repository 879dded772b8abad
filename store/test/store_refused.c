/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that the database refuses because of their content: such a row holds up no other row, and no stop.  In the tests
 * a trigger refuses, as a damaged page, a constraint, or a user's table that refers to the row would.
 */
#include "store_query.h"

#include "inside.h"
#include "refuse.h"

enum { OTHERS = 30 };

static atomic_uint warned, refusals;

static void count_warning(void *ctx, const char *message)
{
	(void)ctx;
	atomic_fetch_add(&warned, strstr(message, "set aside") != NULL);
	atomic_fetch_add(&refusals, strstr(message, "refused here") != NULL);
}

/* A store that is not started, with a row of the key "bad" among others. */
static hwt_store *with_a_bad_one(int64_t *bad)
{
	hwt_store *store;

	store = FRESH(.lease_ns = HWT_S(2), .warn = count_warning); /* a row that is set aside waits for a lease */
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	atomic_store(&warned, 0);
	atomic_store(&refusals, 0);
	for (int i = 0; i < OTHERS; i++) {
		if (i == OTHERS / 2)
			*bad = put_key(store, "a", "bad", 0);
		put(store, "a", 0);
	}
	return store;
}

#define WAIT_STAT(store, member, value) WAIT_FOR(stats_of_store(store).member == (value))

static void start(hwt_store *store)
{
	int rc;

	PATIENTLY(rc, hwt_store_start(store));
	CHECK_INT(rc, ==, 0);
}

TEST(a_timeout_whose_end_is_refused_is_FAILED_and_the_others_are_done)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t bad;
	CLOSING hwt_store *store = with_a_bad_one(&bad);

	refuse("delete", "old.key = 'bad'");
	start(store);
	WAIT_STAT(store, done, OTHERS);
	WAIT_STAT(store, failed, 1);
	CHECK_CALL(hwt_store_get(store, bad, &info), 0);
	CHECK_INT(info.state, ==, HWT_STORE_FAILED);
	CHECK(strstr(info.error, "refused here") != NULL);
	CHECK_INT(stats_of_store(store).set_aside, ==, 0);
	accept_again("delete");
}

TEST(a_row_that_cannot_be_ended_is_set_aside_and_tried_again)
{
	int64_t bad;
	CLOSING hwt_store *store = with_a_bad_one(&bad);

	refuse("delete", "old.key = 'bad' and old.state = 2");
	refuse("update", "old.key = 'bad' and old.state = 2");
	start(store);
	WAIT_STAT(store, done, OTHERS);
	WAIT_STAT(store, set_aside, 1);
	CHECK(wait_count(&warned, 1)); /* after the statistics */
	accept_again("delete");
	accept_again("update");
	CHECK(wait_gone(store, bad));
	CHECK_INT(atomic_load(&warned), ==, 1);
}

TEST(a_stop_returns_although_an_end_is_refused_and_it_runs_again)
{
	int64_t bad;
	CLOSING hwt_store *store = with_a_bad_one(&bad);

	refuse("delete", "old.key = 'bad' and old.state = 2");
	refuse("update", "old.key = 'bad' and old.state = 2");
	start(store);
	WAIT_STAT(store, set_aside, 1);
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK(wait_store_state(store, bad, HWT_STORE_RUNNING));
	accept_again("delete");
	accept_again("update");
	start(store);
	CHECK(wait_gone(store, bad));
	CHECK_INT(atomic_load(&ran), >=, OTHERS + 2);
}

TEST(a_row_that_cannot_be_begun_is_set_aside_and_tried_again)
{
	int64_t bad;
	CLOSING hwt_store *store = with_a_bad_one(&bad);

	refuse("update", "old.key = 'bad' and new.state = 2");
	start(store);
	WAIT_STAT(store, done, OTHERS);
	WAIT_STAT(store, set_aside, 1);
	CHECK(wait_count(&warned, 1)); /* after the statistics */
	CHECK_INT(atomic_load(&ran), ==, OTHERS);
	accept_again("update");
	CHECK(wait_gone(store, bad));
	CHECK_INT(atomic_load(&warned), ==, 1);
}

/* The row has been started twice, so it is not begun at once. */
static void file_a_bad_one(void)
{
	int64_t bad;
	CLOSING hwt_store *store = with_a_bad_one(&bad);

	(void)query("update %s_timeout set state = 2, attempt = 2 where key = 'bad'", world.schema);
	refuse("update", "old.key = 'bad' and new.state = 1");
	start(store);
	WAIT_STAT(store, done, OTHERS);
	CHECK(wait_count(&refusals, 1));
	CHECK_INT(stats_of_store(store).set_aside, ==, 1);
	for (int i = 1; i <= 10; i++) { /* more begins */
		put(store, "a", 0);
		WAIT_STAT(store, done, OTHERS + (uint64_t)i);
	}
	CHECK_INT(atomic_load(&refusals), ==, 1);
	accept_again("update");
	CHECK(wait_gone(store, bad));
	CHECK_INT(atomic_load(&warned), ==, 1);
}

TEST(a_run_of_a_process_that_died_and_cannot_be_filed_is_set_aside_and_tried_again)
{
	file_a_bad_one();
}

TEST(a_run_of_a_process_that_died_and_that_a_policy_keeps_from_being_filed_is_set_aside)
{
	NEEDS_POSTGRES();
	refused_as = " using errcode = ''42501''";
	file_a_bad_one();
	refused_as = "";
}

/* The end is in the task's own transaction; in other modes the ender writes the end. */
TEST(a_run_whose_end_is_refused_in_its_transaction_is_one_of_max_attempts)
{
	hwt_store *store = fresh_store();
	int64_t id = put_key(store, "a", "bad", 0);

	refuse("delete", "old.key = 'bad'");
	CHECK_CALL(hwt_store_register(store, &KIND(.name = "a", .task = count_run, .mode = HWT_STORE_TRANSACTION,
						   .max_attempts = 2, .backoff_ns = HWT_MS(5))),
		   0);
	start(store);
	WAIT_FOR(atomic_load(&ran) >= 4 || stats_of_store(store).failed != 0);
	CHECK_INT(atomic_load(&ran), ==, 2);
	CHECK(wait_store_state(store, id, HWT_STORE_FAILED));
	accept_again("delete");
	CHECK_CALL(hwt_store_close(store), 0);
}

static int fail(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	return run->key ? EIO : 0;
}

/* PostgreSQL: a database in LATIN1; on SQLite a trigger refuses the text, as such a database would. */
TEST(an_error_text_that_the_database_cannot_hold_is_stored_as_ascii)
{
	int64_t id;

	fresh_world();
	if (!world.sqlite)
		use_database_of("latin1");
	CLOSING hwt_store *store = open_store();
	CHECK_CALL(register_patiently(store, &KIND(.name = "a", .task = fail, .max_attempts = 1)), 0);
	if (world.sqlite)
		refuse("update", "new.error glob '*[^ -~]*'");
	atomic_store(&hwts_test_error_text, "\xe5\x85\xa5\xe5\x87\xba error"); /* two characters, in Japanese */
	for (int i = 0; i < OTHERS; i++)
		put(store, "a", 0);
	CHECK_CALL(put_patiently(store, &SPEC("a", 0, .key = "bad"), &id), 0);
	start(store);
	WAIT_STAT(store, done, OTHERS);
	CHECK(wait_store_state(store, id, HWT_STORE_FAILED));
	CHECK(strcmp(info_of(store, id).error, "?? error") == 0);
	atomic_store(&hwts_test_error_text, NULL);
}

STORE_MAIN(NULL)
