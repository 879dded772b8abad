/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A put that replaces a timeout in progress: it holds after that run, whatever the run answers and however it ends.
 * 'a' is the data of the run, and 'b' or 'c' the data of the replacement.
 */
#include "store_query.h"

#include "inside.h"

static hwt_store *store;
static int64_t id;

/* A task that notes its data, and waits until it is released; later runs return 0. */
static atomic_uint started, released;
static char answer; /* what the first run answers */
static char data[8];
static unsigned attempts[8];
static void (*inside)(const hwt_store_run *run); /* called by the first run; or NULL */

static int run_it(const hwt_store_run *run, void *ctx)
{
	unsigned i = atomic_load(&started);

	(void)ctx;
	REQUIRE(i < 8 && run->len == 1);
	data[i] = *(const char *)run->data;
	attempts[i] = run->attempt;
	if (i == 0 && inside)
		inside(run);
	atomic_store(&started, i + 1);
	while (atomic_load(&released) <= i)
		sleep_ms(1);
	return i == 0 ? answer_by(run, answer, HWT_S(3600)) : 0;
}

static hwt_store *store_of(unsigned mode, unsigned max_attempts)
{
	hwt_store_kind kind = KIND(.name = "a", .task = run_it, .mode = mode, .shards = 1, .max_attempts = max_attempts,
				   .backoff_ns = HWT_MS(20));
	hwt_store *made;

	made = OPEN(.threads = 1);
	CHECK_CALL(register_patiently(made, &kind), 0);
	return made;
}

static hwt_store_spec spec_with(const char *what, int64_t delay_ns)
{
	hwt_store_spec spec = SPEC("a", delay_ns, .key = "k", .data = what, .len = 1,
				   .flags = what[0] == 'a' ? 0 : HWT_STORE_REPLACE);

	return spec;
}

static void replace_with(const char *what, int64_t delay_ns)
{
	hwt_store_spec spec = spec_with(what, delay_ns);

	CHECK_INT(put_spec(store, &spec), ==, id);
}

static void set_up(unsigned mode, unsigned max_attempts, int64_t period_ns)
{
	hwt_store_spec spec = spec_with("a", 0);

	fresh_world();
	atomic_store(&started, 0);
	atomic_store(&released, 0);
	answer = '0';
	inside = NULL;
	spec.period_ns = period_ns;
	store = store_of(mode, max_attempts);
	id = put_spec(store, &spec);
}

/* Puts a timeout and waits until it runs. */
static void run_one(unsigned mode, int64_t period_ns)
{
	set_up(mode, 0, period_ns);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&started, 1));
}

static void let_go(char its_answer)
{
	answer = its_answer;
	atomic_fetch_add(&released, 1);
}

/* Runs until nothing is left; checks the number of runs, the data of the last, and its attempt. */
static void check_rest(unsigned runs, char last, unsigned attempt)
{
	atomic_store(&released, 99);
	CHECK(wait_gone(store, id));
	CHECK_INT(atomic_load(&started), ==, runs);
	CHECK_INT(data[runs - 1], ==, last);
	CHECK_INT(attempts[runs - 1], ==, attempt);
	CHECK_INT(settled_stats(store).failed, ==, 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(what_replaces_one_that_runs_runs_after_it_whatever_that_answers)
{
	for (unsigned mode = 0; mode < modes_beside_others(); mode++)
		for (const char *each = "0fage"; *each; each++) {
			run_one(mode, *each == 'e' ? HWT_S(3600) : 0);
			replace_with("b", 0);
			CHECK_INT(info_of(store, id).state, ==, HWT_STORE_RUNNING);
			let_go(*each);
			CHECK(wait_count(&started, 2));
			check_rest(2, 'b', 1);
		}
}

static void replace_in_the_transaction(const hwt_store_run *run)
{
	hwt_store_spec spec = spec_with("b", 0);
	int64_t found = 0;

	CHECK_INT(hwt_store_put_on(store, run->connection, &spec, &found), ==, 0);
	CHECK_INT(found, ==, run->id);
}

/* The replacement holds with the effects of the run, or not at all. */
TEST(a_task_replaces_its_own_timeout_in_its_own_transaction)
{
	for (const char *each = "0af"; *each; each++) {
		bool fails = *each == 'f';

		set_up(HWT_STORE_TRANSACTION, 0, 0);
		inside = replace_in_the_transaction;
		answer = *each;
		atomic_store(&released, 99);
		CHECK_CALL(hwt_store_start(store), 0);
		CHECK(wait_count(&started, 2));
		check_rest(2, fails ? 'a' : 'b', fails ? 2 : 1);
	}
}

static void check_next(hwt_store_info info, int64_t before_us)
{
	CHECK_INT(info.state, ==, HWT_STORE_PENDING);
	CHECK_INT(info.attempt, ==, 0);
	CHECK_INT(info.due_us, >=, before_us + 1000 * HWTS_S_US);
	CHECK_INT(info.due_us, <=, now_us() + 1600 * HWTS_S_US);
	CHECK_INT(info.error[0], ==, '\0');
}

/* Until its end the run stays unchanged. */
TEST(all_that_a_put_says_holds_after_the_run)
{
	hwt_store_spec spec = spec_with("b", HWT_S(1000));
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t before_us = now_us();
	char bytes[4] = "";

	run_one(HWT_STORE_AT_LEAST_ONCE, 0);
	spec.period_ns = HWT_S(600);
	spec.spread_ns = HWT_S(600);
	spec.grace_ns = HWT_S(60);
	spec.priority = 7;
	CHECK_INT(put_spec(store, &spec), ==, id);
	info.data = bytes;
	info.data_room = sizeof(bytes);
	CHECK_CALL(hwt_store_get(store, id, &info), 0);
	CHECK_INT(info.state, ==, HWT_STORE_RUNNING);
	CHECK_INT(info.attempt, ==, 1);
	CHECK_INT(info.period_ns, ==, 0);
	CHECK_INT(info.priority, ==, 0);
	CHECK_INT(bytes[0], ==, 'a');
	let_go('f');
	CHECK(wait_store_state(store, id, HWT_STORE_PENDING));
	CHECK_CALL(hwt_store_get_key(store, "a", "k", &info), 0);
	check_next(info, before_us);
	CHECK_INT(info.id, ==, id);
	CHECK_INT(info.period_ns, ==, HWT_S(600));
	CHECK_INT(info.priority, ==, 7);
	CHECK_INT(bytes[0], ==, 'b');
	CHECK_INT(query("select grace_us + spread_us from %s_timeout", world.schema), ==, 660 * HWTS_S_US);
	CHECK_INT(query("select due_us - base_us from %s_timeout", world.schema), <=, 600 * HWTS_S_US);
	CHECK_INT(COUNT("next_due_us is not null or next_data is not null"), ==, 0);
	/* The timeout runs, and becomes a single one with a schedule that is far away. */
	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	CHECK(wait_count(&started, 2));
	spec = spec_with("c", 0);
	spec.schedule = "0 0 29 2 *";
	CHECK_INT(put_spec(store, &spec), ==, id);
	let_go('0');
	CHECK(wait_store_state(store, id, HWT_STORE_PENDING));
	info = info_of(store, id);
	CHECK_INT(info.period_ns, ==, 0);
	CHECK(strcmp(info.schedule, "0 0 29 2 *") == 0);
	CHECK_INT(info.priority, ==, 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* The run is tried again, unchanged. */
TEST(a_cancel_drops_what_has_replaced_it_and_is_EBUSY)
{
	for (int way = 0; way < 4; way++) {
		hwt_store_which which = { .size = sizeof(which), .kind = "a", .key = "k" },
				all = { .size = sizeof(all), .kind = "a", .all = true, .any_group = true };
		uint64_t n = 9;
		void *connection;

		run_one(HWT_STORE_AT_LEAST_ONCE, 0);
		connection = connect_user();
		replace_with("b", 0);
		if (way == 0) {
			CHECK_CALL(hwt_store_cancel(store, id), EBUSY);
		} else if (way == 1) {
			CHECK_CALL(hwt_store_cancel_ex(store, &which, &n), EBUSY);
			CHECK_INT(n, ==, 0);
		} else if (way == 2) {
			CHECK_CALL(hwt_store_cancel_ex(store, &all, &n), 0);
			CHECK_INT(n, ==, 1); /* the run in progress is the last */
		} else {
			CHECK(user_sql(connection, "begin"));
			CHECK_CALL(hwt_store_cancel_on(store, connection, &which), EBUSY);
			CHECK(user_sql(connection, "commit"));
		}
		CHECK_INT(COUNT("next_due_us is not null"), ==, 0);
		CHECK_CALL(hwt_store_cancel(store, id), EBUSY);
		disconnect_user(connection);
		let_go('f');
		if (way == 2)
			CHECK(wait_gone(store, id));
		else
			CHECK(wait_count(&started, 2));
		check_rest(way == 2 ? 1 : 2, 'a', way == 2 ? 1 : 2);
	}
}

/* The run in progress is the last of the series. */
TEST(a_cancel_of_a_series_drops_what_has_replaced_it_too)
{
	run_one(HWT_STORE_AT_LEAST_ONCE, HWT_S(3600));
	replace_with("b", 0);
	CHECK_CALL(hwt_store_cancel(store, id), 0);
	CHECK_CALL(hwt_store_cancel(store, id), EBUSY);
	let_go('f');
	check_rest(1, 'a', 1);
}

TEST(a_series_that_was_cancelled_while_it_ran_is_put_again)
{
	for (int dropped = 0; dropped < 2; dropped++) {
		hwt_store_spec spec = spec_with("b", 0);
		int64_t found = 0;

		run_one(HWT_STORE_AT_LEAST_ONCE, HWT_S(3600));
		CHECK_CALL(hwt_store_cancel(store, id), 0);
		spec.flags = 0;
		CHECK_CALL(hwt_store_put(store, &spec, &found), EEXIST);
		CHECK_INT(found, ==, id);
		replace_with("b", 0);
		CHECK_CALL(hwt_store_put(store, &spec, &found), EEXIST);
		if (dropped)
			CHECK_CALL(hwt_store_cancel(store, id), EBUSY);
		let_go('f');
		if (!dropped)
			CHECK(wait_count(&started, 2));
		check_rest(dropped ? 1 : 2, dropped ? 'a' : 'b', 1);
	}
}

/* The transaction that replaces has the lock when the run ends. */
TEST(what_replaces_one_in_a_transaction_holds_if_that_commits)
{
	for (int commits = 0; commits < 2; commits++) {
		hwt_store_spec spec = spec_with("b", 0);
		void *connection;

		run_one(HWT_STORE_AT_LEAST_ONCE, 0);
		connection = connect_user();
		CHECK(user_sql(connection, "begin"));
		CHECK_CALL(hwt_store_put_on(store, connection, &spec, NULL), 0);
		let_go('0');
		sleep_ms(50); /* time in which the end would be committed */
		CHECK(user_sql(connection, commits ? "commit" : "rollback"));
		disconnect_user(connection);
		if (commits)
			CHECK(wait_count(&started, 2));
		check_rest(commits ? 2 : 1, commits ? 'b' : 'a', 1);
	}
}

/*
 * Deaths and stops
 */

TEST(what_replaces_one_whose_process_died_runs_and_nothing_fails)
{
	for (unsigned mode = 0; mode < 3; mode++)
		for (unsigned attempt = 1; attempt < 4; attempt++) {
			set_up(mode, 3, 0);
			(void)query("update %s_timeout set state = 2, epoch = 0, attempt = %u", world.schema, attempt);
			replace_with("b", 0);
			CHECK_INT(info_of(store, id).attempt, ==, attempt);
			CHECK_CALL(hwt_store_start(store), 0);
			CHECK(wait_count(&started, 1));
			check_rest(1, 'b', 1);
		}
}

STORE_MAIN(NULL)
