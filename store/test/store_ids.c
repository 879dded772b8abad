/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids: none is used twice, whatever is undone or restored, and each contains its bucket. */
#include "store_query.h"

#include "inside.h"

static int64_t number_of_id(int64_t id)
{
	return id >> HWTS_BUCKET_BITS;
}

TEST(a_bucket_is_the_hash_of_the_group_or_of_the_key_or_else_of_the_number)
{
	CHECK_INT(hwts_id_of(7, NULL, "a"), ==, 7 * 1024 + 102);
	CHECK_INT(hwts_id_of(7, NULL, "order 17"), ==, 7 * 1024 + 296);
	CHECK_INT(hwts_id_of(7, "tenant 9", NULL), ==, 7 * 1024 + 556);
	CHECK_INT(hwts_id_of(7, "tenant 9", "order 17"), ==, 7 * 1024 + 556);
	CHECK_INT(hwts_id_of(7, NULL, NULL), ==, 7 * 1024 + 7);
	CHECK_INT(hwts_id_of(1024 + 7, NULL, NULL), ==, (1024 + 7) * 1024 + 7);
	CHECK_INT(hwts_id_of(HWTS_NUMBERS_END - 1, NULL, NULL), ==, (INT64_C(1) << 52) - 1);
}

/* The holder of an id whose put was undone must not cancel another timeout. */
TEST(an_id_that_was_rolled_back_is_never_used_again)
{
	hwt_store_spec spec = spec_of("a", HWT_S(600));
	int64_t undone[20], id;
	CLOSING hwt_store *store = fresh_store();

	USER *connection = connect_user();
	put(store, "a", HWT_S(600)); /* makes the kind */
	CHECK(user_sql(connection, "begin"));
	for (size_t i = 0; i < HWTS_COUNT(undone); i++)
		CHECK_CALL(hwt_store_put_on(store, connection, &spec, &undone[i]), 0);
	CHECK(user_sql(connection, "rollback"));
	for (size_t i = 0; i < HWTS_COUNT(undone); i++) {
		id = put(store, "a", HWT_S(600));
		for (size_t j = 0; j < HWTS_COUNT(undone); j++)
			CHECK(id != undone[j]);
		CHECK_CALL(hwt_store_cancel(store, undone[i]), ENOENT);
	}
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, HWTS_COUNT(undone) + 1);
}

/* Four for each millisecond since 2026. */
static int64_t clock_number(void)
{
	return (now_us() - INT64_C(1767225600000000)) / 250;
}

TEST(numbers_begin_where_the_clock_is_after_an_old_copy_was_restored)
{
	int64_t before, id, last = 0;
	hwt_store *store;

	fresh_world();
	for (int i = 0; i < 3; i++) {
		before = clock_number();
		store = open_store();
		id = put(store, "a", HWT_S(600));
		CHECK_INT(number_of_id(id), >=, before);
		CHECK_INT(id, <, INT64_C(1) << 53);
		CHECK_INT(id, >, last);
		last = id;
		CHECK_CALL(hwt_store_close(store), 0);
		(void)query("update %s_meta set next_number = 1", world.schema); /* as it was at the start */
		(void)query("delete from %s_timeout", world.schema);
	}
}

TEST(numbers_begin_behind_those_that_were_reserved)
{
	const int64_t ahead = INT64_C(1) << 41;
	int64_t first;

	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	(void)query("update %s_meta set next_number = %lld", world.schema, (long long)ahead);
	CLOSING hwt_store *store = open_store();
	first = number_of_id(put(store, "a", HWT_S(600)));
	CHECK_INT(first, >=, ahead);
	CHECK_CALL(hwt_store_close(store), 0);
	store = open_store(); /* the rest of the block is not used */
	CHECK_INT(number_of_id(put(store, "a", HWT_S(600))), >=, first + 64);
}

/* A clock ahead is believed only as far as enough numbers are left. */
TEST(a_clock_that_is_far_ahead_does_not_use_up_the_numbers)
{
	NEEDS_SQLITE(); /* this test can set its clock */
	hwt_store *store;
	int64_t id;

	fresh_world();
	atomic_store(&hwts_test_wall_us, INT64_C(200) * 365 * 86400 * 1000000);
	store = open_store();
	id = put(store, "a", HWT_S(600));
	CHECK_INT(number_of_id(id), >=, clock_number());
	CHECK_INT(HWTS_NUMBERS_END - number_of_id(id), >, INT64_C(1) << 39);
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_wall_us, 0);
}

TEST(when_the_numbers_are_used_up_nothing_is_put)
{
	hwt_store_spec spec = spec_of("a", HWT_S(600));
	hwt_store *store;
	int64_t id = -7;

	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	(void)query("update %s_meta set next_number = %lld", world.schema, (long long)HWTS_NUMBERS_END - 70);
	store = open_store(); /* has the last numbers */
	for (int i = 0; i < 65; i++)
		CHECK_INT(number_of_id(put(store, "a", HWT_S(600))), ==, HWTS_NUMBERS_END - 70 + i);
	CHECK_CALL(hwt_store_put(store, &spec, &id), EIO);
	CHECK_INT(id, ==, -7);
	CHECK_CALL(hwt_store_close(store), 0);
	store = open_store();
	CHECK_CALL(hwt_store_put(store, &spec, &id), EIO);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* Else many processes that open, put a timeout and end would meet in few buckets. */
TEST(blocks_are_odd)
{
	int64_t before, after;

	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	(void)query("update %s_meta set next_number = %lld", world.schema, 1LL << 41);
	for (int i = 0; i < 3; i++) {
		before = query("select next_number from %s_meta", world.schema);
		CHECK_CALL(hwt_store_close(open_store()), 0);
		after = query("select next_number from %s_meta", world.schema);
		CHECK_INT((after - before) % 2, ==, 1);
	}
}

/* Numbers drawn before a connection to a server are dropped, so with many connections only small blocks are drawn. */
TEST(connections_that_come_and_go_use_up_few_numbers)
{
	CLOSING hwt_store *store = fresh_store();

	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&store->conns->lock);
		store->conns->connects++;
		pthread_mutex_unlock(&store->conns->lock);
		put(store, "a", HWT_S(600));
	}
	pthread_mutex_lock(&store->numbers->lock);
	CHECK_INT(store->numbers->block, <=, 256);
	pthread_mutex_unlock(&store->numbers->lock);
}

static int by_number(const void *left, const void *right)
{
	const int64_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

enum { PUTTERS = 4, PUTS = 3000 };

struct numberer {
	hwt_store *store;
	int64_t ids[PUTS];
};

static void *put_many_times(void *arg)
{
	struct numberer *self = arg;
	hwt_store_spec specs[30];
	int rc;

	for (size_t i = 0; i < HWTS_COUNT(specs); i++)
		specs[i] = spec_of("a", HWT_S(600));
	for (size_t i = 0; i < PUTS; i += HWTS_COUNT(specs)) {
		PATIENTLY(rc, hwt_store_put_many(self->store, specs, HWTS_COUNT(specs), self->ids + i));
		CHECK_INT(rc, ==, 0);
	}
	return NULL;
}

TEST(threads_that_draw_at_once_draw_each_number_once)
{
	static struct numberer self[PUTTERS];
	static int64_t all[PUTTERS * PUTS];
	pthread_t threads[PUTTERS];
	CLOSING hwt_store *store = fresh_store(), *other = open_store();

	put(store, "a", HWT_S(600));
	for (int i = 0; i < PUTTERS; i++) {
		self[i].store = i % 2 ? other : store;
		CHECK_INT(pthread_create(&threads[i], NULL, put_many_times, &self[i]), ==, 0);
	}
	for (int i = 0; i < PUTTERS; i++) {
		CHECK_INT(pthread_join(threads[i], NULL), ==, 0);
		memcpy(all + (size_t)i * PUTS, self[i].ids, sizeof(self[i].ids));
	}
	qsort(all, HWTS_COUNT(all), sizeof(*all), by_number);
	for (size_t i = 1; i < HWTS_COUNT(all); i++)
		CHECK(number_of_id(all[i]) != number_of_id(all[i - 1]));
}

/*
 * On a connection of the caller
 */

/* Puts until there are no numbers, in a transaction that prevents the store from drawing more.  Returns how many. */
static int put_until_dry(hwt_store *store, void *connection, int most)
{
	hwt_store_spec spec = spec_of("a", HWT_S(600));
	int64_t id = 0, before;
	int rc = 0, count = 0;

	CHECK(user_sql(connection, world.sqlite ? "begin immediate" : "begin"));
	for (; rc == 0 && count < most; count += rc == 0) {
		before = id;
		rc = hwt_store_put_on(store, connection, &spec, &id);
		CHECK(rc == 0 || id == before);
	}
	CHECK(rc == 0 || rc == EAGAIN);
	CHECK(user_sql(connection, "commit"));
	return count;
}

TEST(without_numbers_in_hand_a_put_on_a_connection_is_refused_and_changes_nothing)
{
	struct patience patience = PATIENCE("numbers enough are in hand");
	CLOSING hwt_store *store = fresh_store();
	int count, next = 0, more = 0;

	put(store, "a", HWT_S(600));
	USER *connection = connect_user();
	count = put_until_dry(store, connection, 5000);
	CHECK_INT(count, >=, 60); /* the store has this many in reserve */
	CHECK(world.sqlite ? count < 5000 : count == 5000);
	if (world.sqlite) {
		/* More and more numbers are drawn meanwhile, until there are enough. */
		for (; next < 5000 && patience_lasts(&patience, HWT_MS(1)); more += next)
			next = put_until_dry(store, connection, 5000);
		CHECK_INT(next, ==, 5000);
	}
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 1 + count + more);
}

/* The transaction may still write: no other has drawn numbers before it. */
TEST(a_transaction_that_has_only_read_can_put)
{
	hwt_store_spec spec = spec_of("a", HWT_S(600));
	void *connection;
	hwt_store *store;

	for (int i = 0; i < 20; i++) {
		store = fresh_store();
		register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
		connection = connect_user();
		CHECK(user_sql(connection, "begin"));
		CHECK(user_sql(connection, "select count(*) from %s_kind", world.schema));
		CHECK_CALL(hwt_store_put_on(store, connection, &spec, NULL), 0);
		CHECK(user_sql(connection, "commit"));
		disconnect_user(connection);
		CHECK_CALL(hwt_store_close(store), 0);
	}
}

/* Numbers are drawn outside the transaction: neither its lock nor its rollback matters. */
TEST(numbers_of_puts_on_a_connection_were_drawn_before)
{
	int64_t next;
	CLOSING hwt_store *store = fresh_store();

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE); /* nothing was put before */
	USER *connection = connect_user();
	next = query("select next_number from %s_meta", world.schema);
	CHECK(user_sql(connection, world.sqlite ? "begin immediate" : "begin"));
	for (int i = 0; i < 50; i++) {
		hwt_store_spec spec = spec_of("a", HWT_S(600));
		int64_t id;

		CHECK_CALL(hwt_store_put_on(store, connection, &spec, &id), 0);
		CHECK_INT(number_of_id(id), <, next);
	}
	CHECK(user_sql(connection, "rollback"));
}

STORE_MAIN(NULL)
