/* SPDX-License-Identifier: BSD-2-Clause */
/* How runs end: retries, FAILED, periods, transactions, put_on, at most once. */
#include "store_query.h"

#include "inside.h"

static int64_t effects(void)
{
	return query("select count(*) from %s_effects", world.schema);
}

static hwt_store *store_with(const hwt_store_kind *kind)
{
	hwt_store *store = fresh_store();

	CHECK_CALL(hwt_store_register(store, kind), 0);
	return store;
}

/* A store with such a kind, "a". */
#define STORE_OF(...) store_with(&KIND(.name = "a", __VA_ARGS__))

/*
 * Failures
 */

struct failing {
	atomic_uint ran;
	atomic_uint fail_first; /* this number of runs fail first */
	int64_t at_ns[32];
	unsigned attempts[32];
};

static int fail_first(const hwt_store_run *run, void *ctx)
{
	struct failing *failing = ctx;
	unsigned i = atomic_load(&failing->ran);

	CHECK_INT(now_us(), >=, run->due_us);
	if (i < 32) {
		failing->at_ns[i] = hwt_now();
		failing->attempts[i] = run->attempt;
	}
	atomic_fetch_add(&failing->ran, 1);
	return i < atomic_load(&failing->fail_first) ? EPERM : 0;
}

TEST(a_failing_run_is_tried_again_after_a_growing_back_off)
{
	struct failing failing = { .fail_first = 3 };
	CLOSING hwt_store *store = STORE_OF(.task = fail_first, .ctx = &failing, .backoff_ns = HWT_MS(40));
	hwt_store_stats stats;

	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, put(store, "a", 0)));
	CHECK_INT(atomic_load(&failing.ran), ==, 4);
	for (unsigned i = 0; i < 4; i++) {
		CHECK_INT(failing.attempts[i], ==, i + 1);
		if (i > 0)
			CHECK_INT(failing.at_ns[i] - failing.at_ns[i - 1], >=, HWT_MS(40) << (i - 1));
	}
	stats = settled_stats(store);
	CHECK_INT(stats.retried, ==, 3);
	CHECK_INT(stats.done, ==, 1);
	CHECK_INT(stats.failed, ==, 0);
}

struct warned {
	_Atomic(hwt_store *) store;
	_Atomic int64_t id;
	atomic_uint failed; /* how often the row was FAILED when the failure was reported */
};

/* The end is committed before the warning: a caller that asks now sees FAILED. */
static void look_at_failed(void *ctx, const char *message)
{
	struct warned *warned = ctx;
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t id = atomic_load(&warned->id);

	if (!strstr(message, "failed for good"))
		return;
	CHECK_INT(hwt_store_get(atomic_load(&warned->store), id, &info), ==, 0);
	CHECK_INT(info.state, ==, HWT_STORE_FAILED);
	atomic_fetch_add(&warned->failed, 1);
}

TEST(a_timeout_that_failed_for_good_is_failed_when_the_warning_comes)
{
	struct failing failing = { .fail_first = 1000 };
	struct warned warned = { .store = NULL };
	CLOSING hwt_store *store = FRESH(.warn = look_at_failed, .warn_ctx = &warned);

	CHECK_CALL(
	    hwt_store_register(store, &KIND(.name = "a", .task = fail_first, .ctx = &failing, .max_attempts = 1)), 0);
	atomic_store(&warned.store, store);
	for (int i = 0; i < 20; i++) {
		int64_t id = put(store, "a", 0);

		atomic_store(&warned.id, id);
		CHECK_CALL(hwt_store_start(store), 0);
		CHECK(wait_store_state(store, id, HWT_STORE_FAILED));
		CHECK_CALL(hwt_store_stop(store), 0);
	}
	CHECK_INT(atomic_load(&warned.failed), ==, 20);
}

TEST(after_max_attempts_it_is_failed_and_kept_until_it_is_rescheduled_replaced_or_cancelled)
{
	struct failing failing = { .fail_first = 3 };
	hwt_store_info info = HWT_STORE_INFO_INIT;
	hwt_store_spec spec = SPEC("a", 0, .key = "k");
	int64_t id, other = 0;

	CLOSING hwt_store *store = STORE_OF(.task = fail_first, .ctx = &failing, .max_attempts = 2,
					    .backoff_ns = HWT_MS(5));
	CHECK_CALL(hwt_store_start(store), 0);
	id = put_spec(store, &spec);
	CHECK(wait_store_state(store, id, HWT_STORE_FAILED));
	CHECK_INT(atomic_load(&failing.ran), ==, 2);
	info = info_of(store, id);
	CHECK_INT(info.attempt, ==, 2);
	CHECK(strcmp(info.error, strerror(EPERM)) == 0 && strcmp(info.key, "k") == 0);
	CHECK_INT(settled_stats(store).failed, ==, 1);
	/* The row keeps its key. */
	CHECK_CALL(hwt_store_put(store, &spec, &other), EEXIST);
	CHECK_INT(other, ==, id);
	/*
	 * Pending again, from the first attempt on: one more run fails, then one succeeds; the same when the row is
	 * replaced.
	 */
	for (int replaces = 0; replaces < 2; replaces++) {
		spec.flags = HWT_STORE_REPLACE;
		if (replaces)
			CHECK_INT(put_spec(store, &spec), ==, id);
		else
			CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
		CHECK(wait_gone(store, id));
		CHECK_INT(failing.attempts[2], ==, 1);
		CHECK_INT(failing.attempts[3], ==, 2);
		atomic_store(&failing.ran, 0);
		id = put_spec(store, &spec);
		CHECK(wait_store_state(store, id, HWT_STORE_FAILED));
	}
	/* A failed row can be removed. */
	CHECK_CALL(hwt_store_cancel(store, id), 0);
	CHECK_CALL(hwt_store_get(store, id, &info), ENOENT);
	CHECK_CALL(hwt_store_cancel(store, id), ENOENT);
}

/* A program puts its series like this at each start. */
TEST(a_series_that_has_failed_is_revived_by_the_put_of_the_next_start)
{
	struct failing failing = { .fail_first = 2 };
	hwt_store_info info = HWT_STORE_INFO_INIT;
	hwt_store_spec specs[2] = { SPEC("a", 0, .key = "nightly", .period_ns = HWT_S(3600), .flags = HWT_STORE_REVIVE),
				    spec_of("a", HWT_S(1000)) };
	int64_t id = 0, ids[2];

	CLOSING hwt_store *store = STORE_OF(.task = fail_first, .ctx = &failing, .max_attempts = 2,
					    .backoff_ns = HWT_MS(5));
	CHECK_CALL(hwt_store_start(store), 0);
	id = put_spec(store, &specs[0]);
	CHECK(wait_store_state(store, id, HWT_STORE_FAILED));
	/* As put now. */
	specs[0].delay_ns = HWT_S(500);
	specs[0].period_ns = HWT_S(60);
	CHECK_INT(put_spec(store, &specs[0]), ==, id);
	info = info_of(store, id);
	CHECK_INT(info.state, ==, HWT_STORE_PENDING);
	CHECK_INT(info.attempt, ==, 0);
	CHECK_INT(info.period_ns, ==, HWT_S(60));
	CHECK_INT(info.due_us, >, now_us() + 1000000);
	CHECK(info.error[0] == '\0');
	/* A pending row is left alone. */
	specs[0].period_ns = HWT_S(90);
	CHECK_CALL(hwt_store_put(store, &specs[0], &ids[0]), EEXIST);
	CHECK_INT(ids[0], ==, id);
	CHECK_INT(info_of(store, id).period_ns, ==, HWT_S(60));
	/* The row enters the window, and fails once more. */
	atomic_store(&failing.ran, 0);
	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	CHECK(wait_store_state(store, id, HWT_STORE_FAILED));
	specs[0].delay_ns = 0;
	CHECK_CALL(hwt_store_put_many(store, specs, 2, ids), 0);
	CHECK_INT(ids[0], ==, id);
	CHECK(wait_count(&failing.ran, 3));
	CHECK(wait_store_state(store, id, HWT_STORE_PENDING));
	CHECK_CALL(hwt_store_put_many(store, specs, 2, ids), EEXIST);
	CHECK_INT(ids[0], ==, id);
}

/* The attempts go on: only a row that is FAILED, put again or done starts from 1. */
TEST(one_that_waits_for_its_retry_keeps_its_attempts_when_it_is_rescheduled)
{
	struct failing failing = { .fail_first = 2 };
	CLOSING hwt_store *store = STORE_OF(.task = fail_first, .ctx = &failing, .backoff_ns = HWT_S(1000));
	int64_t id;

	CHECK_CALL(hwt_store_start(store), 0);
	id = put(store, "a", 0);
	for (unsigned i = 1; i <= 2; i++) {
		CHECK(wait_count(&failing.ran, i));
		CHECK(wait_store_state(store, id, HWT_STORE_PENDING));
		CHECK_CALL(hwt_store_reschedule(store, id, HWT_S(1000)), 0);
		CHECK_INT(info_of(store, id).attempt, ==, i);
		CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	}
	CHECK(wait_gone(store, id));
	CHECK_INT(atomic_load(&failing.ran), ==, 3);
	for (unsigned i = 0; i < 3; i++)
		CHECK_INT(failing.attempts[i], ==, i + 1);
}

/*
 * Transactions
 */

enum { EFFECT_FAILS = 1, ENDS_IT, ENDS_AND_BEGINS, STATEMENT_FAILS, PUTS };

struct effect {
	hwt_store *store;
	atomic_uint ran;
	unsigned what; /* what the first run does */
};

static int have_effect(const hwt_store_run *run, void *ctx)
{
	struct effect *effect = ctx;
	unsigned what = atomic_fetch_add(&effect->ran, 1) == 0 ? effect->what : 0;

	CHECK(run->connection != NULL);
	CHECK(user_sql(run->connection, "insert into %s_effects values (%lld)", world.schema, (long long)run->id));
	switch (what) {
	case EFFECT_FAILS:
		return EIO;
	case ENDS_IT:
		CHECK(user_sql(run->connection, "rollback"));
		break;
	case ENDS_AND_BEGINS:
		CHECK(user_sql(run->connection, "rollback"));
		CHECK(user_sql(run->connection, "begin"));
		break;
	case STATEMENT_FAILS:
		CHECK(!user_sql(run->connection, "select * from no_such_table"));
		/* SQLite's transaction goes on; PostgreSQL has rolled its transaction back. */
		return world.sqlite ? EIO : 0;
	case PUTS: {
		hwt_store_spec spec = spec_of("a", 0);
		hwt_store_info info = HWT_STORE_INFO_INIT;
		int64_t id = -1;

		CHECK_CALL(hwt_store_put(effect->store, &spec, &id), world.sqlite ? EDEADLK : 0);
		CHECK_CALL(hwt_store_put_on(effect->store, run->connection, &spec, &id), 0);
		spec.kind = "new";
		CHECK_CALL(hwt_store_put_on(effect->store, run->connection, &spec, &id), 0);
		CHECK_CALL(hwt_store_get(effect->store, run->id, &info), 0);
		if (world.sqlite) {
			CHECK_CALL(hwt_store_cancel(effect->store, run->id), EDEADLK);
			CHECK_CALL(hwt_store_reschedule(effect->store, run->id, 0), EDEADLK);
		}
		break;
	}
	default:
		break;
	}
	return 0;
}

static hwt_store *effect_store(struct effect *effect, unsigned what)
{
	effect->what = what;
	atomic_store(&effect->ran, 0);
	effect->store = STORE_OF(.task = have_effect, .ctx = effect, .mode = HWT_STORE_TRANSACTION,
				 .backoff_ns = HWT_MS(40));
	(void)query("create table %s_effects (id bigint)", world.schema);
	CHECK_CALL(hwt_store_start(effect->store), 0);
	return effect->store;
}

#ifdef HWT_STORE_SQLITE
static sqlite3_stmt *left; /* a statement in progress, left by the first run */

static int leave_a_select(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	if (atomic_fetch_add(&ran, 1) > 0)
		return 0;
	CHECK_INT(sqlite3_prepare_v2(run->connection, "select name from sqlite_master", -1, &left, NULL), ==,
		  SQLITE_OK);
	CHECK_INT(sqlite3_step(left), ==, SQLITE_ROW);
	return 0;
}

TEST(a_statement_that_a_task_leaves_in_the_middle_does_not_spoil_its_thread)
{
	NEEDS_SQLITE();
	hwt_store *store = run_tasks(FRESH(.threads = 1), leave_a_select, HWT_STORE_TRANSACTION);

	CHECK(wait_gone(store, put(store, "a", 0)));
	CHECK(wait_gone(store, put(store, "a", 0)));
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(sqlite3_finalize(left), ==, SQLITE_OK);
}
#endif

#ifdef HWT_STORE_POSTGRES
static void silence(PGconn *connection)
{
	CHECK(PQsendQuery(connection, "set idle_in_transaction_session_timeout = 50"));
	CHECK(PQflush(connection) == 0);
}

static void await_end_of(PGconn *connection)
{
	WAIT_FOR(query("select count(*) from pg_stat_activity where pid = %d", PQbackendPID(connection)) == 0);
	atomic_fetch_add(&ran, 1);
}

static void read_answers(PGconn *connection)
{
	for (PGresult *result; (result = PQgetResult(connection)) != NULL; PQclear(result))
		CHECK_INT(PQresultStatus(result), ==, PGRES_COMMAND_OK);
}

/* LATE: libpq reads the end of the connection together with the answer, and takes it for a notice. */
enum reading { AT_ONCE, LATE, TO_THE_END };

static int be_silent(const hwt_store_run *run, void *ctx)
{
	const enum reading reading = *(const enum reading *)ctx;

	silence(run->connection);
	if (reading == AT_ONCE)
		read_answers(run->connection);
	await_end_of(run->connection);
	if (reading != AT_ONCE)
		read_answers(run->connection);
	while (reading == TO_THE_END && PQconsumeInput(run->connection))
		(void)PQisBusy(run->connection);
	CHECK(reading != TO_THE_END || PQstatus(run->connection) == CONNECTION_BAD);
	return 0;
}

static void ignore(void *arg, const PGresult *notice)
{
	(void)notice;
	atomic_fetch_add((atomic_uint *)arg, 1);
}

/* libpq returns the previous receiver, and not its argument. */
static int listen_for_a_while(const hwt_store_run *run, void *ctx)
{
	PQnoticeReceiver before = PQsetNoticeReceiver(run->connection, ignore, ctx);

	CHECK(user_sql(run->connection, "do 'begin raise notice using errcode = ''25P03''; end'"));
	(void)PQsetNoticeReceiver(run->connection, before, NULL);
	CHECK(user_sql(run->connection, "do 'begin raise notice using errcode = ''25P03''; end'"));
	return 0;
}

static void hear(void *arg, const char *message)
{
	(void)message;
	atomic_fetch_add((atomic_uint *)arg, 1);
}

static int leave_an_ear(const hwt_store_run *run, void *ctx)
{
	CHECK(user_sql(run->connection, "do 'begin raise notice ''of this run''; end'"));
	(void)PQsetNoticeReceiver(run->connection, ignore, ctx);
	(void)PQsetNoticeProcessor(run->connection, hear, ctx);
	atomic_fetch_add(&ran, 1);
	return 0;
}

static void check_silence(enum reading reading)
{
	int64_t id;

	CLOSING hwt_store *store = STORE_OF(.task = be_silent, .ctx = &reading, .mode = HWT_STORE_TRANSACTION,
					    .max_attempts = 2, .backoff_ns = HWT_MS(40));
	CHECK_CALL(hwt_store_start(store), 0);
	id = put(store, "a", 0);
	CHECK(wait_store_state(store, id, HWT_STORE_FAILED));
	CHECK_INT(atomic_load(&ran), ==, 2);
	CHECK(strstr(info_of(store, id).error, "longer than the lease") != NULL);
}

TEST(a_transaction_in_which_nothing_is_said_for_a_lease_has_failed)
{
	NEEDS_POSTGRES();
	check_silence(AT_ONCE);
}

TEST(a_transaction_whose_end_is_read_late_has_failed)
{
	NEEDS_POSTGRES();
	check_silence(LATE);
}

TEST(a_transaction_whose_end_the_task_has_seen_has_failed)
{
	NEEDS_POSTGRES();
	check_silence(TO_THE_END);
}

TEST(what_a_task_sets_for_notices_goes_with_it)
{
	NEEDS_POSTGRES();
	atomic_uint heard = 0;
	CLOSING hwt_store *store = FRESH(.threads = 1);

	register_kind(store, "a", leave_an_ear, &heard, HWT_STORE_TRANSACTION);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, put(store, "a", 0)));
	CHECK(wait_gone(store, put(store, "a", 0)));
	CHECK_INT(atomic_load(&ran), ==, 2);
	CHECK_INT(atomic_load(&heard), ==, 0);
}

TEST(a_task_that_gives_libpqs_receiver_back_is_done)
{
	NEEDS_POSTGRES();
	atomic_uint heard = 0;
	CLOSING hwt_store *store = STORE_OF(.task = listen_for_a_while, .ctx = &heard, .mode = HWT_STORE_TRANSACTION);

	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, put(store, "a", 0)));
	CHECK_INT(atomic_load(&heard), ==, 1);
}
#endif

TEST(the_effects_of_a_transaction_and_its_end_are_one)
{
	struct effect effect;

	for (unsigned what = 0; what <= STATEMENT_FAILS; what++) {
		CLOSING hwt_store *store = effect_store(&effect, what);
		int64_t id = put(store, "a", 0);

		CHECK(wait_gone(store, id));
		CHECK_INT(effects(), ==, 1);
		CHECK_INT(atomic_load(&effect.ran), ==, what == 0 ? 1 : 2);
		CHECK_INT(settled_stats(store).retried, ==, what == 0 ? 0 : 1);
	}
}

TEST(a_task_puts_in_its_own_transaction)
{
	struct effect effect;
	CLOSING hwt_store *store = effect_store(&effect, PUTS);

	put(store, "a", 0);
	CHECK(wait_count(&effect.ran, world.sqlite ? 2 : 3));
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_INT(effects(), ==, world.sqlite ? 2 : 3);
}

/*
 * put_on
 */

#ifdef HWT_STORE_SQLITE

/* The caller's connection waits ten seconds for the lock. */
static int commit_later(void *locks, int count)
{
	if (count == 0) {
		atomic_store(&hwts_test_wall_us, 10 * HWTS_S_US);
		CHECK(user_sql(locks, "commit"));
	}
	return 1;
}

/*
 * The row was due beyond the horizon when it was put, and no longer is when it is written: looks have passed meanwhile.
 */
TEST(what_is_put_on_a_connection_that_waits_for_the_lock_is_told_of)
{
	NEEDS_SQLITE();
	hwt_store_kind kind = KIND(.name = "a", .task = count_run, .ctx = NULL, .backoff_ns = HWT_MS(40));
	CLOSING hwt_store *store = store_with(&kind);
	USER *locks = connect_user(), *connection = connect_user();
	hwt_store_spec spec = spec_of("a", HWT_S(405)); /* the horizon is 400 s */
	int64_t id = 0;

	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(user_sql(locks, "begin immediate"));
	sqlite3_busy_handler(connection, commit_later, locks);
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, &id), 0);
	CHECK_INT(query("select count(*) from %s_hint where id = %lld", world.schema, (long long)id), ==, 1);
	atomic_store(&hwts_test_wall_us, 0);
}

#endif

TEST(what_is_put_on_a_connection_exists_if_that_commits)
{
	CLOSING hwt_store *store = run_tasks(fresh_store(), count_run, HWT_STORE_AT_LEAST_ONCE);
	hwt_store_spec spec = spec_of("a", 0);
	hwt_store_info info = HWT_STORE_INFO_INIT;
	USER *connection = connect_user();
	int64_t id = 0, first = 0;

	CHECK(user_sql(connection, "begin"));
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, &id), 0);
	CHECK_CALL(hwt_store_get(store, id, &info), ENOENT);
	CHECK(user_sql(connection, "rollback"));
	sleep_ms(100);
	CHECK_INT(atomic_load(&ran), ==, 0);
	/* After the commit it runs soon, though no thread of the store has put it. */
	CHECK(user_sql(connection, "begin"));
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, &id), 0);
	sleep_ms(50);
	CHECK_INT(atomic_load(&ran), ==, 0);
	CHECK(user_sql(connection, "commit"));
	CHECK(wait_count(&ran, 1));
	CHECK(wait_gone(store, id));
	/* With a key: EEXIST leaves the transaction usable. */
	spec.delay_ns = HWT_S(1000);
	spec.key = "k";
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, &first), 0);
	CHECK(user_sql(connection, "begin"));
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, &id), EEXIST);
	CHECK_INT(id, ==, first);
	spec.flags = HWT_STORE_REPLACE;
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, &id), 0);
	CHECK_INT(id, ==, first);
	spec.key = "other";
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, &id), 0);
	CHECK(user_sql(connection, "commit"));
	CHECK_CALL(hwt_store_get_key(store, "a", "other", &info), 0);
	CHECK_CALL(hwt_store_put_on(store, NULL, &spec, &id), EINVAL);
	CHECK_CALL(hwt_store_put_on(store, connection, NULL, &id), EINVAL);
}

/* On SQLite the caller has the lock that a new kind needs. */
TEST(a_kind_is_made_in_the_transaction_that_puts_the_first_of_it)
{
	CLOSING hwt_store *store = fresh_store();
	hwt_store_spec spec = spec_of("new", 0);
	void *connection = connect_user();
	int64_t id = 0;

	CHECK(user_sql(connection, world.sqlite ? "begin immediate" : "begin"));
	CHECK_INT(hwt_store_put_on(store, connection, &spec, &id), ==, 0);
	CHECK(user_sql(connection, "rollback"));
	if (world.sqlite)
		CHECK_INT(query("select count(*) from %s_kind where name = 'new'", world.schema), ==, 0);
	CHECK(user_sql(connection, "begin"));
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, &id), 0);
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, &id), 0);
	CHECK(user_sql(connection, "commit"));
	disconnect_user(connection);
	CLOSING hwt_store *other = open_store();
	register_kind(other, "new", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(other), 0);
	CHECK(wait_count(&ran, 2));
}

TEST(a_transaction_that_commits_late_is_found)
{
	hwt_store_spec spec = spec_of("a", HWT_MS(1200));
	int64_t id = 0;

	/* SQLite's lock is held longer than a short lease. */
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(on_sqlite() ? 20 : 1));
	CHECK_CALL(
	    hwt_store_register(store, &KIND(.name = "a", .task = count_run, .horizon_ns = HWT_S(on_sqlite() ? 14 : 1))),
	    0);
	CHECK_CALL(hwt_store_start(store), 0);
	USER *connection = connect_user();
	CHECK(user_sql(connection, "begin"));
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, &id), 0);
	sleep_ms(1700); /* several look-aheads, and the due time, pass */
	CHECK_INT(atomic_load(&ran), ==, 0);
	CHECK(user_sql(connection, "commit"));
	CHECK(wait_count(&ran, 1));
	CHECK(wait_gone(store, id));
}

/*
 * At most once; concurrency
 */

struct slow {
	atomic_uint now, most, ran;
	atomic_bool held; /* while it is true no run returns */
};

static int be_slow(const hwt_store_run *run, void *ctx)
{
	struct slow *slow = ctx;
	unsigned now = atomic_fetch_add(&slow->now, 1) + 1, most = atomic_load(&slow->most);

	(void)run;
	while (now > most && !atomic_compare_exchange_weak(&slow->most, &most, now))
		;
	do
		sleep_ms(10);
	while (atomic_load(&slow->held));
	atomic_fetch_sub(&slow->now, 1);
	atomic_fetch_add(&slow->ran, 1);
	return 0;
}

static hwt_store *slow_store(struct slow *slow)
{
	hwt_store *store = FRESH(.threads = 4);

	register_kind(store, "a", be_slow, slow, HWT_STORE_AT_MOST_ONCE);
	for (int i = 0; i < 20; i++)
		put(store, "a", 0);
	return store;
}

/* The number of rows that are begun, and whose tasks have not returned. */
static int64_t begun_and_open(struct slow *slow)
{
	int64_t begun = 20 - COUNT("state = 1");

	return begun - (int64_t)atomic_load(&slow->ran);
}

TEST(at_most_once_begins_no_more_than_threads_are_free)
{
	struct slow slow = { .held = true };
	CLOSING hwt_store *store = slow_store(&slow);

	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&slow.most, 4));
	for (int i = 0; i < 10; i++, sleep_ms(5))
		CHECK_INT(begun_and_open(&slow), ==, 4);
	atomic_store(&slow.held, false);
	for (struct patience patience = PATIENCE("20 runs");
	     atomic_load(&slow.ran) < 20 && patience_lasts(&patience, 0);)
		CHECK_INT(begun_and_open(&slow), <=, 4);
	CHECK_INT(atomic_load(&slow.ran), ==, 20);
}

STORE_MAIN(NULL)
