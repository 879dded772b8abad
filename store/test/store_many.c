/* SPDX-License-Identifier: BSD-2-Clause */
/* The SQL function hwt_put_many beside other sessions, and cut off: all of its puts are made, or none. */
#include "sql_calls.h"

#ifdef HWT_STORE_POSTGRES

#define KEYS 9
/* The keys a to i, in this order. */
#define KEYED(order) "'a', key => array(select chr(96 + i) from generate_series(1, 9) i order by i " order ")"
#define TOMORROW ", delay => '1 day', if_exists => 'replace'"

static hwt_store *open_many(void)
{
	hwt_store *store = fresh_store();

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	return store;
}

/* A store with the kind "a", and two sessions of users. */
#define MANY_WORLD(store, conn, other)                                                                                 \
	NEEDS_POSTGRES();                                                                                              \
	CLOSING hwt_store *store = open_many();                                                                        \
	USER *conn = connect_user(), *other = connect_user()

#define MANY(conn, arguments) call(conn, "put_many", "%s", arguments)

static void send_call(PGconn *conn, const char *function, const char *arguments)
{
	char text[512];

	(void)snprintf(text, sizeof(text), "select %s_%s(%s)", world.schema, function, arguments);
	CHECK_INT(PQsendQuery(conn, text), ==, 1);
}

static int64_t count_all(void)
{
	return query("select count(*) from %s_timeout", world.schema);
}

/* The answer was the ids of all keys, and each key is there once. */
static void check_all_put(void)
{
	CHECK(answer[0] == '{' || (fprintf(stderr, "    %s\n", answer), false));
	CHECK_INT(query("select count(distinct key) from unnest('%s'::bigint[]) u(id) join %s_timeout t using (id)",
			answer[0] == '{' ? answer : "{}", world.schema),
		  ==, KEYS);
	CHECK_INT(count_all(), ==, KEYS);
}

/*
 * A third session has the key in the middle, new in the first round and in use in the second.  If each session locked
 * the keys in the order of its array, both would wait for the middle, and then for each other.
 */
TEST(many_with_the_same_keys_in_opposite_orders_do_not_deadlock)
{
	MANY_WORLD(store, conn, other);
	USER *middle = connect_user();
	char ids[sizeof(answer)];

	(void)store;
	for (int round = 0; round < 2; round++) {
		SAYS("", sql, middle, "begin");
		if (round == 0)
			(void)call(middle, "put", "'a', key => 'e'" TOMORROW);
		else /* the inserts pass by a row that is merely locked, and the updates wait */
			(void)sql(middle, "select 1 from %s_timeout where key = 'e' for update", world.schema);
		send_call(conn, "put_many", KEYED("asc") TOMORROW);
		send_call(other, "put_many", KEYED("desc") TOMORROW);
		WAIT_FOR(IS_BLOCKED(conn) && IS_BLOCKED(other));
		SAYS("", sql, middle, "rollback");
		(void)answer_of(conn);
		check_all_put();
		(void)snprintf(ids, sizeof(ids), "%s", answer);
		(void)answer_of(other);
		check_all_put();
		/* Both have the ids of the same timeouts. */
		CHECK_INT(query("select count(distinct id) from unnest('%s'::bigint[] || '%s'::bigint[]) u(id)", ids,
				answer[0] == '{' ? answer : "{}"),
			  ==, KEYS);
	}
}

TEST(many_that_meet_a_key_of_another_session_put_nothing_unless_it_is_rolled_back)
{
	MANY_WORLD(store, conn, other);

	(void)store;
	for (int round = 0; round < 2; round++) {
		SAYS("", sql, other, "begin");
		(void)call(other, "put", "'a', 'its own', key => 'e', delay => '1 day'");
		send_call(conn, "put_many", KEYED("asc") ", delay => '1 day'");
		WAIT_FOR(IS_BLOCKED(conn));
		CHECK_INT(count_all(), ==, 0);
		SAYS("", sql, other, round == 0 ? "commit" : "rollback");
		(void)answer_of(conn);
		if (round == 1) {
			check_all_put();
			return;
		}
		IS("!23505 hint");
		CHECK_INT(count_all(), ==, 1);
		SAYS("cancelled", call, other, "cancel_key", "'a', 'e'");
	}
}

TEST(a_cancel_waits_for_many_that_replace_its_timeout_and_they_for_a_cancel)
{
	MANY_WORLD(store, conn, other);
	int64_t id;

	(void)store;
	id = strtoll(call(conn, "put", "'a', key => 'e', delay => '1 hour'"), NULL, 10);
	SAYS("", sql, conn, "begin");
	(void)MANY(conn, KEYED("asc") TOMORROW);
	send_call(other, "cancel_key", "'a', 'e'");
	WAIT_FOR(IS_BLOCKED(other));
	SAYS("", sql, conn, "commit");
	SAYS("cancelled", answer_of, other);
	CHECK_INT(count_all(), ==, KEYS - 1);
	CHECK_INT(COUNT("key = 'e'"), ==, 0);

	(void)MANY(conn, KEYED("desc") TOMORROW);
	check_all_put();
	CHECK_INT(query("select id from %s_timeout where key = 'e'", world.schema), >, id);
	for (int round = 0; round < 2; round++) {
		id = query("select id from %s_timeout where key = 'e'", world.schema);
		SAYS("", sql, other, "begin");
		SAYS("cancelled", call, other, "cancel_key", "'a', 'e'");
		send_call(conn, "put_many", KEYED("asc") TOMORROW);
		WAIT_FOR(IS_BLOCKED(conn));
		SAYS("", sql, other, round == 0 ? "commit" : "rollback");
		(void)answer_of(conn);
		check_all_put();
		/* A cancel that was rolled back has left the timeout, which is replaced. */
		CHECK((query("select id from %s_timeout where key = 'e'", world.schema) == id) == (round == 1));
	}
}

TEST(many_and_a_pause_do_not_wait_for_each_other)
{
	MANY_WORLD(store, conn, other);

	CHECK_CALL(hwt_store_start(store), 0);
	SAYS("", sql, conn, "begin");
	(void)MANY(conn, "'a', array['1', '2', '3']");
	SAYS("", call, other, "pause", "'a'");
	SAYS("", sql, conn, "commit");
	LOOK_UNTIL(store, stats_of_store(store).waiting[HWT_STORE_WAITS_PAUSE] == 3);
	SAYS("", sql, other, "begin");
	SAYS("", call, other, "resume", "'a'");
	(void)MANY(conn, "'a', array['4', '5']");
	LOOK_UNTIL(store, stats_of_store(store).waiting[HWT_STORE_WAITS_PAUSE] == 5);
	CHECK_INT(atomic_load(&ran), ==, 0);
	SAYS("", sql, other, "commit");
	WAIT_FOR(count_all() == 0);
	CHECK_INT(atomic_load(&ran), ==, 5);
}

/* A kind without timeouts may go while puts of it are not committed: with their commit it is there again. */
TEST(a_kind_that_is_removed_beside_many_comes_back_with_them)
{
	MANY_WORLD(store, conn, other);

	SAYS("", call, conn, "make_kind", "'b'");
	SAYS("", sql, conn, "begin");
	(void)MANY(conn, "'b', array['1', '2', '3'], key => array['x', 'y', 'z']");
	CHECK_CALL(hwt_store_remove_kind(store, "b"), 0);
	SAYS("!42704 hint", MANY, other, "'b', array['4', '5']");
	CHECK_INT(count_all(), ==, 0);
	SAYS("", sql, conn, "commit");
	CHECK_CALL(hwt_store_remove_kind(store, "b"), EBUSY);
	SAYS("cancelled", call, other, "cancel_key", "'b', 'y'");
	(void)MANY(other, "'b', array['4', '5']");
	CHECK_INT(count_all(), ==, 4);
	register_kind(store, "b", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(count_all() == 0);
	CHECK_INT(atomic_load(&ran), ==, 4);
}

/* The last number that the sequence of ids has given. */
static int64_t last_number(void)
{
	return query("select last_value from %s_number", world.schema);
}

/* Puts all keys.  Their ids are larger than those that a call has drawn when the sequence stood at `before`. */
static void check_new_ids(PGconn *conn, int64_t before)
{
	(void)MANY(conn, KEYED("asc") ", delay => '1 day'");
	check_all_put();
	CHECK_INT(query("select min(id >> 10) - 4398046511104 from %s_timeout", world.schema), >, before + KEYS);
}

TEST(many_that_are_rolled_back_leave_nothing_and_their_ids_are_not_used_again)
{
	MANY_WORLD(store, conn, other);
	int64_t before;

	(void)store;
	(void)call(conn, "put", "'a', key => 'e', delay => '1 day'");
	before = last_number();
	SAYS("", sql, conn, "begin");
	(void)MANY(conn, KEYED("asc") TOMORROW);
	SAYS("", sql, conn, "rollback");
	CHECK_INT(count_all(), ==, 1);
	SAYS("cancelled", call, other, "cancel_key", "'a', 'e'");
	check_new_ids(other, before);
	(void)query("delete from %s_timeout", world.schema);

	/* The last element is wrong: hwt_put raises after the insert of the others. */
	before = last_number();
	SAYS("!23505 hint", MANY, conn,
	     "'a', key => array['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'i'], delay => '1 day'");
	CHECK_INT(count_all(), ==, 0);
	check_new_ids(conn, before);
	(void)query("delete from %s_timeout", world.schema);

	before = last_number();
	SAYS("", sql, conn, "begin; savepoint s");
	(void)MANY(conn, KEYED("asc") TOMORROW);
	SAYS("", sql, conn, "rollback to savepoint s; commit");
	CHECK_INT(count_all(), ==, 0);
	check_new_ids(conn, before);
}

/* The session has put the first keys, and waits for the fifth, when the server ends it. */
TEST(many_whose_session_is_ended_in_the_middle_leave_nothing)
{
	MANY_WORLD(store, conn, other);
	USER *third = connect_user();
	int64_t before;

	(void)store;
	SAYS("", sql, other, "begin");
	(void)call(other, "put", "'a', key => 'e', delay => '1 day'");
	before = last_number();
	send_call(conn, "put_many", KEYED("asc") TOMORROW);
	WAIT_FOR(IS_BLOCKED(conn));
	CHECK_INT(last_number(), >=, before + KEYS);
	SAYS("t", sql, third, "select pg_terminate_backend(%d)", PQbackendPID(conn));
	(void)answer_of(conn);
	CHECK(answer[0] == '!');
	/* None of its keys is locked: this put waits for nobody. */
	SAYS("", sql, third, "set lock_timeout = '20s'");
	CHECK_INT(strtoll(call(third, "put", "'a', key => 'a', delay => '1 day'"), NULL, 10), >, 0);
	CHECK_INT(count_all(), ==, 1);
	SAYS("cancelled", call, third, "cancel_key", "'a', 'a'");
	SAYS("", sql, other, "rollback");
	CHECK_INT(count_all(), ==, 0);
	check_new_ids(third, before);
}

STORE_MAIN(NULL)

#else

TEST(many)
{
	SKIP("of PostgreSQL");
}

STORE_MAIN(NULL)

#endif
