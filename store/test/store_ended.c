/* SPDX-License-Identifier: BSD-2-Clause */
/* hwt_store_config.ended: the call for each end that a process writes. */
#include "store_query.h"

static hwt_store *store;

/* The calls, in order. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct told {
	hwt_store_ended is;
	int64_t id;
	char error[64], kind[8], key[8], group[8];
	unsigned attempt;
	size_t len;
	bool has_more; /* data or a connection */
} told[16];
static atomic_uint told_count;
static void (*inside)(const hwt_store_ended *ended); /* executed in the call; or NULL */

static void note_end(void *ctx, const hwt_store_ended *ended)
{
	unsigned i;

	CHECK(ctx == (void *)told);
	CHECK_INT(ended->size, ==, sizeof(*ended));
	if (inside)
		inside(ended);
	pthread_mutex_lock(&lock);
	i = atomic_load(&told_count);
	REQUIRE(i < HWTS_COUNT(told));
	told[i] = (struct told){ .is = *ended,
				 .id = ended->run->id,
				 .attempt = ended->run->attempt,
				 .len = ended->run->len,
				 .has_more = ended->run->data || ended->run->connection };
	(void)snprintf(told[i].error, sizeof(told[i].error), "%s", ended->error ? ended->error : "");
	(void)snprintf(told[i].kind, sizeof(told[i].kind), "%s", ended->run->kind);
	(void)snprintf(told[i].key, sizeof(told[i].key), "%s", ended->run->key ? ended->run->key : "");
	(void)snprintf(told[i].group, sizeof(told[i].group), "%s", ended->run->group ? ended->run->group : "");
	atomic_store(&told_count, i + 1);
	pthread_mutex_unlock(&lock);
}

/* A task that says when it runs, and answers when it is released. */
static atomic_uint started, released;
static char letter;
static bool breaks; /* the first run ends the transaction that it was given */

static int run_it(const hwt_store_run *run, void *ctx)
{
	unsigned i = atomic_fetch_add(&started, 1);

	(void)ctx;
	if (breaks && i == 0)
		CHECK(user_sql(run->connection, "rollback"));
	while (atomic_load(&released) <= i)
		sleep_ms(1);
	return answer_by(run, letter, HWT_S(3600));
}

static void set_up_kind(hwt_store_kind kind)
{
	fresh_world();
	atomic_store(&told_count, 0);
	atomic_store(&started, 0);
	atomic_store(&released, 0);
	inside = NULL;
	letter = '0';
	breaks = false;
	kind.name = "a";
	kind.shards = 1;
	kind.backoff_ns = kind.backoff_ns ? kind.backoff_ns : HWT_S(3600);
	store = OPEN(.threads = 1, .ended = note_end, .ended_ctx = told);
	CHECK_CALL(register_patiently(store, &kind), 0);
}

static void set_up(unsigned mode, unsigned max_attempts)
{
	set_up_kind(KIND(.task = run_it, .mode = mode, .max_attempts = max_attempts));
}

static void end(void)
{
	atomic_store(&released, 99);
	CHECK_CALL(hwt_store_close(store), 0);
}

#define PUT_OF(its_delay, ...)                                                                                         \
	put_spec(store, &SPEC("a", its_delay, .key = "k", .group = "g", .data = "12345", .len = 5, __VA_ARGS__))
#define PUT(...) PUT_OF(__VA_ARGS__, .priority = 0)

/* Checks the nth call. */
static struct told *end_of(unsigned n, int64_t id, hwt_store_became became)
{
	struct told *is = &told[n];

	CHECK(wait_count(&told_count, n + 1));
	CHECK_INT(is->is.became, ==, became);
	CHECK_INT(is->id, ==, id);
	CHECK_INT(is->len, ==, 5);
	CHECK(strcmp(is->kind, "a") == 0 && strcmp(is->key, "k") == 0 && strcmp(is->group, "g") == 0);
	CHECK(!is->has_more);
	CHECK_INT(is->is.ended_us, >=, is->is.started_us);
	return is;
}

TEST(each_answer_is_told_with_what_became_of_it)
{
	static const struct {
		char letter;
		bool series;
		unsigned max_attempts;
		hwt_store_became became;
		int rc;
		const char *error;
	} cases[] = {
		{ '0', false, 0, HWT_STORE_BECAME_DONE, 0, "" },
		{ '0', true, 0, HWT_STORE_BECAME_DONE, 0, "" },
		{ 'e', true, 0, HWT_STORE_BECAME_DONE, HWT_STORE_ANSWER, "" },
		{ 'f', false, 0, HWT_STORE_BECAME_AGAIN, EIO, "Input/output error" },
		{ 'f', true, 1, HWT_STORE_BECAME_FAILED, EIO, "Input/output error" },
		{ 'a', false, 0, HWT_STORE_BECAME_AGAIN, HWT_STORE_ANSWER, "" },
		{ 'g', false, 0, HWT_STORE_BECAME_FAILED, HWT_STORE_ANSWER, "no such account" },
	};

	for (unsigned mode = 0; mode < 3; mode++)
		for (size_t i = 0; i < HWTS_COUNT(cases); i++) {
			bool comes_back = cases[i].became == HWT_STORE_BECAME_AGAIN ||
					  (cases[i].series && cases[i].letter == '0');
			const struct told *is;
			int64_t id;

			set_up(mode, cases[i].max_attempts);
			letter = cases[i].letter;
			atomic_store(&released, 99);
			CHECK_CALL(hwt_store_start(store), 0);
			id = PUT(0, .period_ns = cases[i].series ? HWT_S(86400) : 0);
			is = end_of(0, id, cases[i].became);
			CHECK_INT(is->is.rc, ==, cases[i].rc);
			CHECK(strcmp(is->error, cases[i].error) == 0);
			CHECK_INT(is->attempt, ==, 1);
			CHECK_INT(is->is.started_us, >, 0);
			if (comes_back)
				CHECK_INT(is->is.due_us, ==, info_of(store, id).due_us);
			else
				CHECK_INT(is->is.due_us, ==, 0);
			CHECK_INT(atomic_load(&told_count), ==, 1);
			end();
		}
}

/* The task says that it is done, but its transaction cannot be committed. */
TEST(a_run_that_was_rolled_back_has_failed)
{
	for (int series = 0; series < 2; series++) {
		const struct told *is;
		int64_t id;

		set_up_kind(KIND(.task = run_it, .mode = HWT_STORE_TRANSACTION, .backoff_ns = HWT_MS(20)));
		breaks = true;
		atomic_store(&released, 99);
		CHECK_CALL(hwt_store_start(store), 0);
		id = PUT(0, .period_ns = series ? HWT_S(86400) : 0);
		is = end_of(0, id, HWT_STORE_BECAME_AGAIN);
		CHECK_INT(is->is.rc, ==, 0);
		CHECK(is->error[0]);
		CHECK_INT(is->is.due_us, >, 0);
		CHECK_INT(end_of(1, id, HWT_STORE_BECAME_DONE)->attempt, ==, 2);
		end();
	}
}

/* By a call for many, which also marks running timeouts that are no series. */
TEST(a_single_timeout_that_is_cancelled_in_its_run_is_told)
{
	hwt_store_which all = { .size = sizeof(all), .kind = "a", .group = "g", .all = true };

	for (unsigned mode = 0; mode < modes_beside_others(); mode++) {
		uint64_t n = 0;
		int64_t id;

		set_up(mode, 0);
		CHECK_CALL(hwt_store_start(store), 0);
		id = PUT(0);
		CHECK(wait_count(&started, 1));
		CHECK_CALL(hwt_store_cancel_ex(store, &all, &n), 0);
		atomic_store(&released, 1);
		(void)end_of(0, id, HWT_STORE_BECAME_CANCELLED);
		end();
	}
}

TEST(what_is_cancelled_or_replaced_in_its_run_is_told_and_before_its_run_is_not)
{
	for (unsigned mode = 0; mode < modes_beside_others(); mode++) {
		int64_t id;

		set_up(mode, 0);
		id = PUT(HWT_S(60));
		CHECK_CALL(hwt_store_cancel(store, id), 0);
		CHECK_CALL(hwt_store_start(store), 0);
		id = PUT(0, .period_ns = HWT_S(86400));
		CHECK(wait_count(&started, 1));
		CHECK_CALL(hwt_store_cancel(store, id), 0);
		atomic_store(&released, 1);
		CHECK_INT(end_of(0, id, HWT_STORE_BECAME_CANCELLED)->is.due_us, ==, 0);
		id = PUT(0);
		CHECK(wait_count(&started, 2));
		CHECK_INT(PUT(HWT_S(3600), .flags = HWT_STORE_REPLACE), ==, id);
		atomic_store(&released, 2);
		CHECK_INT(end_of(1, id, HWT_STORE_BECAME_REPLACED)->is.due_us, ==, info_of(store, id).due_us);
		CHECK_INT(PUT(HWT_S(1800), .flags = HWT_STORE_REPLACE), ==, id);
		CHECK_CALL(hwt_store_reschedule(store, id, HWT_S(3600)), 0);
		CHECK_INT(atomic_load(&told_count), ==, 2);
		end();
	}
}

/* Settings that were kept for the end of a run are no replacement. */
TEST(a_series_whose_settings_changed_in_its_run_is_done)
{
	int64_t id;

	set_up(0, 0);
	CHECK_CALL(hwt_store_start(store), 0);
	id = PUT(0, .period_ns = HWT_S(86400));
	CHECK(wait_count(&started, 1));
	CHECK_INT(PUT(0, .period_ns = HWT_S(2 * 86400), .flags = HWT_STORE_KEEP_DUE), ==, id);
	atomic_store(&released, 1);
	CHECK_INT(end_of(0, id, HWT_STORE_BECAME_DONE)->is.due_us, ==, info_of(store, id).due_us);
	CHECK_INT(info_of(store, id).period_ns, ==, HWT_S(2 * 86400));
	end();
}

TEST(what_comes_too_late_is_told_without_a_start)
{
	for (int series = 0; series < 2; series++) {
		const struct told *is;
		int64_t id;

		set_up(0, 0);
		id = PUT(0, .flags = HWT_STORE_ABSOLUTE, .due_us = now_us() - 5000000, .grace_ns = HWT_MS(1),
			 .period_ns = series ? HWT_S(86400) : 0);
		CHECK_CALL(hwt_store_start(store), 0);
		is = end_of(0, id, HWT_STORE_BECAME_TOO_LATE);
		CHECK_INT(is->is.started_us, ==, 0);
		CHECK_INT(is->is.rc, ==, 0);
		CHECK(strcmp(is->error, series ? "" : "too late") == 0);
		CHECK_INT(is->is.due_us, ==, series ? info_of(store, id).due_us : 0);
		end();
	}
}

TEST(a_run_that_another_process_has_begun_is_lost)
{
	int64_t id;

	set_up(0, 0);
	CHECK_CALL(hwt_store_start(store), 0);
	id = PUT(0);
	CHECK(wait_count(&started, 1));
	(void)query("update %s_timeout set epoch = epoch + 1", world.schema);
	atomic_store(&released, 1);
	CHECK_INT(end_of(0, id, HWT_STORE_BECAME_LOST)->is.due_us, ==, 0);
	end();
}

TEST(a_run_that_was_pulled_is_told_of)
{
	hwt_store_run *run = NULL;
	int64_t id;

	set_up_kind(KIND(.flags = HWT_STORE_PULLED));
	CHECK_CALL(hwt_store_start(store), 0);
	id = PUT(0);
	WAIT_FOR(hwt_store_next(store, &run) == 0);
	CHECK_CALL(hwt_store_end(run, EIO), 0);
	CHECK_INT(end_of(0, id, HWT_STORE_BECAME_AGAIN)->is.rc, ==, EIO);
	end();
}

/* The child dies in its run, which is at most once. */
static int die(const hwt_store_run *run, void *ctx)
{
	(void)run;
	(void)ctx;
	(void)raise(SIGKILL);
	return 0;
}

static int child(int argc, char **argv)
{
	hwt_store_kind kind = KIND(.name = "a", .task = die, .mode = HWT_STORE_AT_MOST_ONCE, .shards = 1);
	hwt_store_config config;

	(void)argc;
	enter_world(argv + 1);
	config = store_config();
	config.name = "mortal";
	register_and_start(open_with(&config), &kind);
	(void)pause(); /* the child dies in its run */
	return 0;
}

TEST(what_a_take_over_makes_failed_is_told_by_the_process_that_takes)
{
	hwt_store_kind kind = KIND(.name = "a", .task = run_it, .mode = HWT_STORE_AT_MOST_ONCE, .shards = 1);
	const struct told *is;
	int64_t id;
	pid_t pid;

	set_up(HWT_STORE_AT_MOST_ONCE, 0);
	id = PUT(0);
	CHECK_CALL(hwt_store_close(store), 0);
	pid = spawn("die", NULL);
	CHECK_INT(waitpid(pid, NULL, 0), ==, pid);
	store = OPEN(.name = "mortal", .threads = 1, .ended = note_end, .ended_ctx = told);
	CHECK_CALL(register_patiently(store, &kind), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	is = end_of(0, id, HWT_STORE_BECAME_FAILED);
	CHECK_INT(is->is.started_us, ==, 0);
	CHECK(strcmp(is->error, "") != 0);
	CHECK_INT(info_of(store, id).state, ==, HWT_STORE_FAILED);
	end();
}

/* Inside the call, which may do what a task may. */
static _Atomic int64_t put_inside;
static atomic_bool slow;

static void call_inside(const hwt_store_ended *ended)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;

	if (ended->run->id == put_inside)
		return;
	CHECK_INT(hwt_store_stop(store), ==, EDEADLK);
	CHECK_INT(hwt_store_close(store), ==, EDEADLK);
	CHECK_INT(hwt_store_get(store, ended->run->id, &info), ==, ENOENT); /* the end is committed */
	put_inside = put(store, "a", 0);
	while (atomic_load(&slow))
		sleep_ms(1);
}

TEST(the_call_may_do_what_a_task_may_and_has_returned_before_a_stop_does)
{
	for (unsigned mode = 0; mode < 3; mode++) {
		set_up(mode, 0);
		put_inside = 0;
		inside = call_inside;
		atomic_store(&slow, true);
		atomic_store(&released, 99);
		CHECK_CALL(hwt_store_start(store), 0);
		(void)put(store, "a", 0);
		WAIT_FOR(put_inside != 0);
		CHECK_CALL(hwt_store_stop_within(store, HWT_MS(10)), ETIMEDOUT);
		CHECK_INT(atomic_load(&told_count), ==, 0);
		atomic_store(&slow, false);
		CHECK_CALL(hwt_store_stop(store), 0);
		CHECK_INT(atomic_load(&told_count), >=, 1);
		end();
	}
}

STORE_MAIN(child)
