/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fence: begins and ends under an epoch that is over change nothing.  The engine is called directly, since in a
 * whole store other means hide most of what a hole in the fence would let through.
 */
#include "store.h"

#include "inside.h"
#include "store_query.h"

#ifdef HWT_STORE_SQLITE
#include "db/sqlite.h"
#endif
#ifdef HWT_STORE_POSTGRES
#include "db/postgres.h"
#endif

enum { EPOCH = 5 };

static struct fence {
	hwt_store *store;
	struct hwts_conn *conn;
	int64_t id;
	struct hwts_kind_row kind;
} fence;

static void execute(const char *text)
{
	int rc = ENOTSUP;

#ifdef HWT_STORE_SQLITE
	if (world.sqlite)
		rc = hwts_sqlite_do(sqlite_conn(fence.conn), text, NOTHING);
#endif
#ifdef HWT_STORE_POSTGRES
	if (!world.sqlite)
		rc = hwts_pg_simple(pg_conn(fence.conn), text);
#endif
	CHECK_INT(rc, ==, 0);
}

/* One timeout that is due; this process owns the shards, under EPOCH. */
static void set_up(void)
{
	char text[256];

	fresh_world();
	fence = (struct fence){ .store = open_store() };
	register_kind(fence.store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	fence.id = put(fence.store, "a", 0);
	CHECK_INT(fence.store->engine->connect(fence.store->db, HWTS_BEGIN, &fence.conn), ==, 0);
	CHECK_INT(hwts_rows_kind(fence.conn, "a", NULL, &fence.kind), ==, 0);
	(void)snprintf(text, sizeof(text), "update @_shard set owner = '%s', epoch = %d", hwts_me(fence.store->db),
		       EPOCH);
	execute(text);
}

static void tear_down(void)
{
	fence.store->engine->disconnect(fence.conn);
	CHECK_CALL(hwt_store_close(fence.store), 0);
}

static struct hwts_want begin(int64_t epoch)
{
	struct hwts_want want = { .id = fence.id, .epoch = epoch, .shard = hwts_shard_of(&fence.kind, fence.id) };

	CHECK_INT(hwts_rows_begin(fence.conn, &want, 1, false, false), ==, 0);
	return want;
}

static unsigned state(void)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;

	CHECK_CALL(hwt_store_get(fence.store, fence.id, &info), 0);
	return info.state;
}

/* The reply to the begin was lost, so the run did not start. */
TEST(a_begin_that_is_repeated_counts_no_attempt)
{
	struct hwts_want want;

	set_up();
	want = begin(EPOCH);
	CHECK(want.row != NULL);
	free(want.row);
	CHECK_INT(hwts_rows_begin(fence.conn, &want, 1, false, true), ==, 0);
	CHECK(want.row != NULL && want.row->attempt == 1);
	free(want.row);
	tear_down();
}

TEST(a_begin_under_an_epoch_that_is_over_begins_nothing)
{
	struct hwts_want want;

	set_up();
	want = begin(EPOCH - 1);
	CHECK(!want.row);
	CHECK(want.lost);
	CHECK_INT(state(), ==, HWT_STORE_PENDING);
	want = begin(EPOCH);
	CHECK(want.row);
	CHECK_INT(state(), ==, HWT_STORE_RUNNING);
	free(want.row);
	tear_down();
}

static const struct hwts_engine *plain;
static size_t begins, locked_first;

static int count_begins(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	for (size_t i = 0; i < n; i++)
		begins += steps[i].sql == HWTS_SQL_BEGIN;
	locked_first = steps[0].sql == HWTS_SQL_SHARE ? steps[0].args[0].len : 0;
	return plain->run(conn, steps, n, flags);
}

/* The results of the statements after a commit are lost. */
static int lose_what_is_behind(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	return plain->run(conn, steps, steps[n - 1].after ? n - 1 : n, flags);
}

/* Nor can the row be read alone, as if a page of its data were damaged. */
static int refuse_to_read(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	if (steps[0].sql != HWTS_SQL_BEGUN)
		return lose_what_is_behind(conn, steps, n, flags);
	conn->refused = true;
	return hwts_fail(EIO, "refused here");
}

static int begin_by(int (*run)(struct hwts_conn *, const struct hwts_step *, size_t, unsigned), struct hwts_want *want)
{
	struct hwts_engine front = *fence.store->db->engine;
	int rc;

	plain = fence.store->db->engine;
	front.run = run;
	fence.store->db->engine = &front;
	*want = (struct hwts_want){ .id = fence.id, .epoch = EPOCH, .shard = hwts_shard_of(&fence.kind, fence.id) };
	rc = hwts_rows_begin(fence.conn, want, 1, false, false);
	fence.store->db->engine = plain;
	return rc;
}

TEST(what_was_begun_and_not_read_is_read_again)
{
	NEEDS_POSTGRES(); /* SQLite reads before it commits */
	struct hwts_want want;

	set_up();
	CHECK_INT(begin_by(lose_what_is_behind, &want), ==, 0);
	CHECK(want.row && want.row->attempt == 1);
	free(want.row);
	tear_down();
}

TEST(what_was_begun_and_cannot_be_read_is_pending_again)
{
	NEEDS_POSTGRES(); /* SQLite reads before it commits */
	struct hwts_want want;

	set_up();
	CHECK_INT(begin_by(refuse_to_read, &want), ==, EIO);
	CHECK(fence.conn->refused && strstr(hwts_fail_text(), "refused here"));
	CHECK_INT(state(), ==, HWT_STORE_PENDING);
	want = begin(EPOCH);
	CHECK(want.row && want.row->attempt == 1);
	free(want.row);
	tear_down();
}

/* Two rows of different shards; the shard of the second has another epoch. */
static void begin_two(int64_t id, int64_t epoch)
{
	struct hwts_want wants[] = {
		{ .id = fence.id, .epoch = EPOCH, .shard = hwts_shard_of(&fence.kind, fence.id) },
		{ .id = id, .epoch = epoch, .shard = hwts_shard_of(&fence.kind, id) },
	};
	struct hwts_engine front = *fence.store->db->engine;

	if (epoch != EPOCH)
		execute("update @_shard set epoch = epoch + 1 where id = (select shard from @_timeout where id ="
			" (select max(id) from @_timeout))");
	plain = fence.store->db->engine;
	front.run = count_begins;
	fence.store->db->engine = &front;
	begins = 0;
	CHECK_INT(hwts_rows_begin(fence.conn, wants, 1, false, true), ==, 0);
	CHECK_INT(locked_first, ==, 0); /* one statement locks its shards itself */
	free(wants[0].row);
	CHECK_INT(hwts_rows_begin(fence.conn, wants, 2, false, true), ==, 0);
	fence.store->db->engine = plain;
	CHECK(wants[0].row && wants[0].row->epoch == EPOCH);
	CHECK(wants[1].row && wants[1].row->epoch == epoch);
	free(wants[0].row);
	free(wants[1].row);
}

/* Transactions that raise the rules of shards lock the shards in their order as well. */
TEST(a_begin_of_several_statements_locks_its_shards_before_them)
{
	int64_t id;

	set_up();
	do
		id = put(fence.store, "a", 0);
	while (hwts_shard_of(&fence.kind, id) == hwts_shard_of(&fence.kind, fence.id));
	begin_two(id, EPOCH);
	CHECK_INT(begins, ==, 2);
	begin_two(id, EPOCH + 1);
	CHECK_INT(begins, ==, 3);
	CHECK_INT(locked_first, ==, world.sqlite ? 0 : 2);
	tear_down();
}

/* The row is marked, and is not begun again.  Its end is filed under the epoch of the run. */
static struct hwts_want refuse_and_inherit(struct hwts_want want, enum hwts_mark mark)
{
	for (int64_t epoch = EPOCH - 1; epoch <= EPOCH + 1; epoch++) { /* the next holder does not begin it either */
		want.epoch = epoch;
		execute(epoch > EPOCH ? "update @_shard set epoch = epoch + 1" : "select 1");
		CHECK_INT(hwts_rows_begin(fence.conn, &want, 1, false, true), ==, 0);
		CHECK(!want.row);
		CHECK(want.mark == (epoch >= EPOCH ? mark : HWTS_UNMARKED));
	}
	CHECK_INT(want.runs_epoch, ==, EPOCH);
	want.runs_epoch = EPOCH - 1;
	CHECK_INT(hwts_rows_inherit(fence.conn, &want, 1), ==, 0);
	CHECK(!want.inherited);
	CHECK_INT(state(), ==, HWT_STORE_RUNNING);
	want.runs_epoch = EPOCH;
	CHECK_INT(hwts_rows_inherit(fence.conn, &want, 1), ==, 0);
	CHECK(want.inherited);
	return want;
}

/* The reply to the begin of a series was lost, and the series was cancelled before the begin was repeated. */
TEST(a_series_that_was_begun_and_cancelled_is_not_begun_again)
{
	struct hwts_want want;

	set_up();
	want = begin(EPOCH);
	free(want.row);
	execute("update @_timeout set last = true");
	want = refuse_and_inherit(want, HWTS_LAST);
	CHECK_INT(want.due_us, ==, HWTS_NEVER);
	CHECK(wait_gone(fence.store, fence.id));
	tear_down();
}

/* The timeout that replaces a run is filed under the epoch in which the run was seen: a request may come late. */
TEST(one_that_was_begun_and_replaced_is_not_begun_again)
{
	const struct hwts_move move = { .states = 1u << HWT_STORE_PENDING, .epoch = EPOCH };
	struct hwts_want want;
	struct hwts_due due;

	set_up();
	want = begin(EPOCH);
	free(want.row);
	execute("update @_timeout set next_due_us = 1, next_base_us = 2, next_period_us = 0, next_priority = 3");
	CHECK_INT(hwts_rows_reschedule(fence.conn, fence.id, &move, &due), ==, EBUSY);
	want = refuse_and_inherit(want, HWTS_REPLACED);
	CHECK_INT(want.due_us, ==, 1);
	CHECK_INT(state(), ==, HWT_STORE_PENDING);
	CHECK_INT(info_of(fence.store, fence.id).priority, ==, 3);
	want = begin(EPOCH + 1);
	CHECK(want.row && want.row->attempt == 1 && want.row->base_us == 2);
	free(want.row);
	tear_down();
}

/* Of the rows that a dead process held, the row that a user keeps locked is left for later, and the others are not. */
TEST(one_that_is_locked_keeps_no_other_from_being_inherited)
{
	NEEDS_POSTGRES(); /* SQLite has no locks of rows */
	struct hwts_want wants[3] = { { .id = 0 } };

	set_up();
	USER *user = connect_user();
	for (size_t i = 0; i < HWTS_COUNT(wants); i++) {
		if (i > 0)
			fence.id = put(fence.store, "a", 0);
		wants[i] = begin(EPOCH);
		REQUIRE(wants[i].row != NULL);
		free(wants[i].row);
	}
	execute("update @_shard set epoch = epoch + 1");
	execute("update @_timeout set attempt = 100"); /* a row with 100 attempts is not begun at once after a death */
	for (size_t i = 0; i < HWTS_COUNT(wants); i++) {
		wants[i].epoch = EPOCH + 1;
		CHECK_INT(hwts_rows_begin(fence.conn, &wants[i], 1, false, true), ==, 0);
		REQUIRE(wants[i].dead && !wants[i].row);
		wants[i].delay_us = 1;
	}
	CHECK(user_sql(user, "begin; select 1 from %s_timeout where id = %lld for update", world.schema,
		       (long long)wants[1].id));
	CHECK_INT(hwts_rows_inherit(fence.conn, wants, HWTS_COUNT(wants)), ==, 0);
	CHECK(wants[0].inherited && !wants[1].inherited && wants[2].inherited);
	CHECK(wants[1].locked);
	CHECK_INT(COUNT("state = 1"), ==, 2);
	CHECK(user_sql(user, "rollback"));
	wants[0].dead = wants[2].dead = wants[1].locked = false;
	CHECK_INT(hwts_rows_inherit(fence.conn, wants, HWTS_COUNT(wants)), ==, 0);
	CHECK(wants[1].inherited);
	CHECK_INT(COUNT("state = 1"), ==, 3);
	tear_down();
}

static void end(struct hwts_row *row)
{
	CHECK_INT(hwts_rows_end(fence.conn, row), ==, 0);
	CHECK(row->hit);
	free(row);
}

/* The row failed once, was begun again, and was not started. */
TEST(one_that_is_given_back_keeps_the_error_of_its_last_run)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;
	struct hwts_row *row;

	set_up();
	row = begin(EPOCH).row;
	REQUIRE(row != NULL);
	row->how = HWTS_AT;
	row->next_attempt = 1;
	(void)snprintf(row->error, sizeof(row->error), "it failed");
	end(row);
	row = begin(EPOCH).row;
	REQUIRE(row != NULL);
	row->how = HWTS_AT;
	row->next_attempt = row->attempt - 1;
	row->give_back = true;
	end(row);
	CHECK_CALL(hwt_store_get(fence.store, fence.id, &info), 0);
	CHECK_INT(info.attempt, ==, 1);
	CHECK(strcmp(info.error, "it failed") == 0);
	tear_down();
}

/* A fail-over has lost a take: two processes may have the same epoch, and one of them is the owner. */
TEST(a_begin_in_a_shard_of_another_process_begins_nothing)
{
	struct hwts_want want;

	set_up();
	execute("update @_shard set owner = 'another'");
	want = begin(EPOCH);
	CHECK(!want.row);
	CHECK_INT(state(), ==, HWT_STORE_PENDING);
	tear_down();
}

TEST(an_end_under_an_epoch_that_is_over_ends_nothing)
{
	static const enum hwts_how hows[] = { HWTS_FAIL, HWTS_AT, HWTS_DONE };
	struct hwts_want want;

	set_up();
	want = begin(EPOCH);
	REQUIRE(want.row != NULL);
	execute("update @_timeout set epoch = epoch + 1"); /* another process has begun the row */
	for (size_t i = 0; i < HWTS_COUNT(hows); i++) {
		want.row->how = hows[i];
		CHECK_INT(hwts_rows_end(fence.conn, want.row), ==, 0);
		CHECK(!want.row->hit);
		CHECK_INT(state(), ==, HWT_STORE_RUNNING);
	}
	execute("update @_timeout set epoch = epoch - 1");
	CHECK_INT(hwts_rows_end(fence.conn, want.row), ==, 0);
	CHECK(want.row->hit);
	CHECK(wait_gone(fence.store, fence.id));
	free(want.row);
	tear_down();
}

/* The same fence, in the transaction that a task is given. */
TEST(a_transaction_under_an_epoch_that_is_over_is_rolled_back)
{
	static const enum hwts_how hows[] = { HWTS_AT, HWTS_DONE };
	struct hwts_conn *conn = NULL;
	struct hwts_want want;
	void *handle;

	set_up();
	want = begin(EPOCH);
	REQUIRE(want.row != NULL);
	execute("update @_timeout set epoch = epoch + 1");
	CHECK_INT(fence.store->engine->connect(fence.store->db, HWTS_TASK, &conn), ==, 0);
	for (size_t i = 0; i < HWTS_COUNT(hows); i++) {
		want.row->how = hows[i];
		CHECK_INT(fence.store->engine->open_run(conn, &handle), ==, 0);
		CHECK_INT(hwts_rows_close_run(conn, want.row), ==, ESTALE);
		CHECK(!conn->broken);
		CHECK_INT(state(), ==, HWT_STORE_RUNNING);
	}
	execute("update @_timeout set epoch = epoch - 1");
	CHECK_INT(fence.store->engine->open_run(conn, &handle), ==, 0);
	CHECK_INT(hwts_rows_close_run(conn, want.row), ==, 0);
	CHECK(wait_gone(fence.store, fence.id));
	free(want.row);
	fence.store->engine->disconnect(conn);
	tear_down();
}

STORE_MAIN(NULL)
