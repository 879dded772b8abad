/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Begins and ends that a server forgets when it crashes or is replaced: they are not synced, so the last of them may be
 * lost although they were answered.  The process that held the rows lives on, and still holds them.
 */
#include "store_query.h"

#include "inside.h"

#include <poll.h>
#include <dlfcn.h>

#ifdef HWT_STORE_POSTGRES
#include "db/postgres.h"
#endif

static atomic_bool may_end;

#ifdef HWT_STORE_POSTGRES
/* The first run waits until its row has been copied in the state "running". */
static int run_slowly(const hwt_store_run *run, void *ctx)
{
	(void)run;
	if (atomic_fetch_add(&ran, 1) == 0 || ctx)
		while (!atomic_load(&may_end))
			sleep_ms(1);
	return 0;
}

/* A store with one timeout that has run; the server has forgotten the end. */
static hwt_store *forget_an_end(unsigned mode, int64_t period_ns, int64_t *id)
{
	hwt_store_kind kind = KIND(.name = "a", .task = run_slowly, .mode = mode, .horizon_ns = HWT_S(86400));
	hwt_store *store = fresh_store();

	CHECK_CALL(hwt_store_register(store, &kind), 0);
	atomic_store(&may_end, false);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_CALL(hwt_store_put(store, &SPEC("a", 0, .period_ns = period_ns), id), 0);
	CHECK(wait_count(&ran, 1));
	CHECK_INT(query("create table %s_copy as select * from %s_timeout", world.schema, world.schema), ==, -1);
	CHECK_INT(query("select count(*) from %s_copy where state = 2", world.schema), ==, 1);
	atomic_store(&may_end, true);
	WAIT_FOR(stats_of_store(store).done != 0);
	(void)query("delete from %s_timeout", world.schema);
	(void)query("insert into %s_timeout select * from %s_copy", world.schema, world.schema);
	/* Overdue, so that the net looks for it. */
	(void)query("update %s_timeout set due_us = due_us - 1000000000", world.schema);
	return store;
}

/*
 * The entry of the next run, an hour later, must not hide the state of the row: until then a cancel would be refused.
 */
TEST(a_series_whose_next_run_is_far_away_goes_on_at_once_when_the_server_forgot_an_end)
{
	NEEDS_POSTGRES();
	static const unsigned modes[] = { HWT_STORE_AT_LEAST_ONCE, HWT_STORE_TRANSACTION };

	for (size_t i = 0; i < HWTS_COUNT(modes); i++) {
		int64_t id;
		hwt_store *store = forget_an_end(modes[i], HWT_S(3600), &id);
		int rc;

		LOOK_UNTIL(store, atomic_load(&ran) >= 2);
		WAIT_FOR((rc = hwt_store_cancel(store, id)) != EBUSY && rc != EAGAIN);
		CHECK_INT(rc, ==, 0);
		CHECK_CALL(hwt_store_close(store), 0);
		CHECK_INT(atomic_load(&ran), ==, 2);
	}
}

TEST(what_runs_at_most_once_is_FAILED_when_the_server_forgot_its_end)
{
	NEEDS_POSTGRES();
	hwt_store_info info;
	int64_t id;
	hwt_store *store = forget_an_end(HWT_STORE_AT_MOST_ONCE, 0, &id);

	LOOK_UNTIL(store, (info = info_of(store, id)).state == HWT_STORE_FAILED);
	CHECK(strstr(info.error, "lost") != NULL);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(atomic_load(&ran), ==, 1);
}

/*
 * Transactions that are synced
 */

static int fail_once(const hwt_store_run *run, void *ctx)
{
	(void)run;
	(void)ctx;
	return atomic_fetch_add(&ran, 1) == 0 ? EPROTO : 0;
}

/* Notes, as the transaction of such a change commits, whether it is synced. */
static void note_syncs(const char *change, const char *table, const char *when)
{
	(void)query("set client_min_messages = error; create table if not exists %s_sync (what text, how text)",
		    world.schema);
	(void)query("create or replace function %s_note() returns trigger language plpgsql"
		    " set search_path = public as $$ begin"
		    " insert into %s_sync values (tg_table_name || ' ' || tg_op,"
		    " current_setting('synchronous_commit')); return null; end $$",
		    world.schema, world.schema);
	(void)query("create constraint trigger %s_note after %s on %s_%s deferrable initially deferred"
		    " for each row when (%s) execute function %s_note()",
		    world.schema, change, world.schema, table, when, world.schema);
}

/* Checks that the change was noted this often (0: at least once), and that all its commits were synced, or none. */
static void check_noted(const char *what, int64_t most, bool synced)
{
	int64_t noted = query("select count(*) from %s_sync where what like '%%%s'", world.schema, what);

	CHECK(most ? noted == most : noted > 0);
	CHECK_INT(query("select count(*) from %s_sync where what like '%%%s' and how = 'on'", world.schema, what), ==,
		  synced ? noted : 0);
}

/* A series that fails once: a retry, and a period. */
static void fail_and_wait_for_the_next(hwt_store *store, unsigned mode, const char *when)
{
	note_syncs("update", "timeout", when);
	(void)run_tasks(store, fail_once, mode);
	CHECK_CALL(hwt_store_put(store, &SPEC("a", 0, .period_ns = HWT_S(3600)), NULL), 0);
	CHECK(wait_count(&ran, 2));
	WAIT_FOR(stats_of_store(store).done != 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

/*
 * Else a crash of the server may undo the end.  If it also takes the reply to the next begin, the begin is sent again
 * and finds the run that has ended.
 */
TEST(what_runs_at_most_once_and_waits_again_was_filed_with_a_sync)
{
	NEEDS_POSTGRES();
	for (unsigned mode = 0; mode < 2; mode++) {
		fail_and_wait_for_the_next(fresh_store(), mode, "old.state = 2 and new.state = 1");
		check_noted("", 2, mode == HWT_STORE_AT_MOST_ONCE);
	}
}

/*
 * Else a look that has read the row before its run, and a crash that undoes the end, make a run FAILED that succeeded.
 */
TEST(the_end_of_what_runs_at_most_once_is_synced)
{
	NEEDS_POSTGRES();
	hwt_store *store = fresh_store();

	note_syncs("delete", "timeout", "old.state = 2");
	(void)run_tasks(store, count_run, HWT_STORE_AT_MOST_ONCE);
	put(store, "a", 0);
	WAIT_FOR(stats_of_store(store).done != 0);
	CHECK_CALL(hwt_store_close(store), 0);
	check_noted("DELETE", 1, true);
}

/* Else a crash of the server undoes the begin, and the run starts twice: this setting is not the role's to decide. */
TEST(what_runs_at_most_once_is_synced_although_its_role_syncs_nothing)
{
	NEEDS_POSTGRES();
	static const char *const settings[] = { "off", "local" };

	for (size_t i = 0; i < HWTS_COUNT(settings); i++) {
		fail_and_wait_for_the_next(fresh_store_that_syncs(settings[i]), HWT_STORE_AT_MOST_ONCE, "true");
		check_noted("", 4, true);
	}
}

/* Else, when a server forgets the take or is replaced, a process takes a shard that another believes to own. */
TEST(a_lease_and_a_take_are_synced_although_the_role_syncs_nothing)
{
	NEEDS_POSTGRES();
	hwt_store *store = fresh_store_that_syncs("off");

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	note_syncs("insert or update", "member", "new.until_us <> 0");
	note_syncs("update", "shard", "new.owner is not null");
	CHECK_CALL(hwt_store_start(store), 0);
	look_now(store);
	WAIT_FOR(query("select count(distinct what) from %s_sync", world.schema) == 3);
	CHECK_CALL(hwt_store_close(store), 0);
	check_noted("member INSERT", 0, true);
	check_noted("member UPDATE", 0, true);
	check_noted("shard UPDATE", 0, true);
}

/*
 * Begins that the server has forgotten
 */

static _Atomic(hwt_store *) forgets; /* store whose next begin is forgotten as it is answered */
static _Atomic(int64_t) moved;

/* The server crashes, and comes back without begins that it has answered.  Returns when control has seen that. */
static void forget_begins_of(hwt_store *store, const char *group, int64_t id, void (*meanwhile)(void))
{
	int64_t before = LOCKED(store, store->runs->doubts);

	(void)query(
	    "update %s_timeout set state = 1, epoch = 0, attempt = 0 where state = 2 and (grp = '%s' or id = %lld)",
	    world.schema, group, (long long)id);
	if (meanwhile)
		meanwhile();
	(void)query("select pg_terminate_backend(pid) from pg_stat_activity"
		    " where backend_type = 'client backend' and pid <> pg_backend_pid()");
	WAIT_FOR(LOCKED(store, store->runs->doubts) != before);
}

/* Moves the row while it is pending in the database, before this process begins it again. */
static void move_it(void)
{
	CHECK_INT(query("update %s_timeout set due_us = due_us + 3600000000 where state = 1 and id = %lld returning 1",
			world.schema, (long long)atomic_load(&moved)),
		  ==, 1);
}

static void forget_begins(hwt_store *store)
{
	forget_begins_of(store, "", atomic_load(&moved), move_it);
}

static void forget_this_begin(const char *where)
{
	if (strcmp(where, "begun") == 0) {
		hwt_store *store = atomic_load(&forgets);

		if (store) {
			atomic_store(&moved, query("select id from %s_timeout where state = 2", world.schema));
			forget_begins(store);
			atomic_store(&forgets, NULL);
		}
	}
}

/* A run that is pulled waits for the program, however long that takes. */
static hwt_store *with_pulled(void)
{
	hwt_store_kind kind = KIND(.name = "a", .flags = HWT_STORE_PULLED, .concurrency = 4);
	hwt_store *store = fresh_store();

	CHECK_CALL(register_patiently(store, &kind), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	return store;
}

/* The first calls after a crash may fail. */
static int64_t put_again(hwt_store *store)
{
	hwt_store_spec spec = spec_of("a", 0);
	int64_t id = 0;

	WAIT_FOR(hwt_store_put(store, &spec, &id) == 0);
	return id;
}

static int64_t pull(hwt_store *store)
{
	hwt_store_run *run = NULL;
	int64_t id;

	WAIT_FOR(hwt_store_next(store, &run) == 0);
	id = run->id;
	CHECK_CALL(hwt_store_end(run, 0), 0);
	return id;
}

/* The row may be pending in the database, and cancelled or moved since. */
TEST(what_was_begun_and_is_not_started_is_begun_once_more_when_the_server_was_gone)
{
	NEEDS_POSTGRES();
	hwt_store *store = with_pulled();
	int64_t other;

	atomic_store(&forgets, store);
	atomic_store(&hwts_test_at, forget_this_begin);
	put(store, "a", 0);
	WAIT_FOR(!atomic_load(&forgets));
	other = put_again(store); /* it would come after the first */
	CHECK_INT(pull(store), ==, other);
	atomic_store(&hwts_test_at, NULL);
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(what_was_begun_and_waits_to_start_is_begun_once_more_when_the_server_was_gone)
{
	NEEDS_POSTGRES();
	hwt_store *store = with_pulled();
	int64_t other;

	atomic_store(&moved, put(store, "a", 0));
	WAIT_FOR(stats_of_store(store).begun == 1);
	forget_begins(store);
	other = put_again(store);
	CHECK_INT(pull(store), ==, other);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* From now on the database refuses to begin two rows of g at once. */
static void allow_one_of_g(void)
{
	(void)query("create function %s_one() returns trigger language plpgsql"
		    " set search_path = public as $$ begin"
		    " if (select count(*) from %s_timeout where state = 2 and grp = 'g') > 1 then"
		    " raise exception 'beyond' using errcode = '23514'; end if; return null; end $$",
		    world.schema, world.schema);
	(void)query("create trigger one after update of state on %s_timeout"
		    " for each row when (new.state = 2) execute function %s_one()",
		    world.schema, world.schema);
}

TEST(what_was_begun_and_is_not_counts_no_more_when_fewer_of_its_group_may_run)
{
	NEEDS_POSTGRES();
	hwt_store *store = with_pulled();
	uint64_t begun;

	CHECK_CALL(hwt_store_limit(store, "a", "g", &LIMITS(.running = 2)), 0);
	put_spec(store, &SPEC("a", 0, .group = "g"));
	put_spec(store, &SPEC("a", 0, .group = "g"));
	WAIT_FOR((begun = stats_of_store(store).begun) == 2);
	CHECK_CALL(hwt_store_limit(store, "a", "g", &LIMITS(.running = 1)), 0);
	forget_begins_of(store, "g", 0, allow_one_of_g);
	WAIT_FOR(stats_of_store(store).begun > begun);
	REQUIRE(stats_of_store(store).set_aside == 0);
	(void)pull(store);
	(void)pull(store);
	CHECK_CALL(hwt_store_close(store), 0);
}

#endif

/*
 * A database that comes back
 */

static void *sleep_until_called(void *arg)
{
	hwt_store *store = arg;

	pthread_mutex_lock(&store->lock);
	atomic_store(&may_end, true); /* with the lock held, so the thread sleeps before another can take the lock */
	hwts_wait_stirred(store, HWT_S(600));
	pthread_mutex_unlock(&store->lock);
	atomic_fetch_add(&ran, 1);
	return NULL;
}

static bool is_called(hwt_store *store)
{
	struct pollfd fd = { .fd = hwts_poke_fd(store), .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

/* To connect is no success: threads that can connect and do nothing else would keep each other from resting. */
TEST(the_first_thread_whose_exchange_succeeds_again_calls_the_others)
{
	struct hwts_conn *conn = NULL;
	unsigned failures = 7;
	pthread_t thread;
	CLOSING hwt_store *store = fresh_store();

	atomic_store(&may_end, false);
	CHECK_INT(pthread_create(&thread, NULL, sleep_until_called, store), ==, 0);
	WAIT_FOR(atomic_load(&may_end));
	CHECK_INT(hwts_asks_open(store), ==, 0);
	CHECK_INT(hwts_reconnect(store, &conn, HWTS_CALL), ==, 0);
	CHECK(!is_called(store));
	hwts_works(store, HWTS_CALL, &failures);
	CHECK(is_called(store));
	CHECK(wait_count(&ran, 1)); /* else in ten minutes, which is longer than the wait */
	CHECK_INT(pthread_join(thread, NULL), ==, 0);
	store->engine->disconnect(conn);
	CHECK_INT(failures, ==, 0);
}

/*
 * A server that has been replaced: it may still believe that it writes, and its commits are lost
 */

#ifdef HWT_STORE_POSTGRES
TEST(a_server_that_was_replaced_is_not_used_any_more)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = run_tasks(fresh_store(), count_run, HWT_STORE_AT_LEAST_ONCE);
	struct pg_db *db = (struct pg_db *)store->db;
	uint64_t here = atomic_load(&db->origin);
	int64_t id = -7;

	CHECK(wait_gone(store, put(store, "a", 0)));
	CHECK((here & UINT32_MAX) == 1);     /* the timeline */
	atomic_store(&db->origin, here + 1); /* as if another connection had met the successor */
	CHECK_CALL(hwt_store_put(store, &SPEC("a", 0, .flags = 0), &id), ENOTCONN);
	CHECK(strstr(hwt_store_error(), "timeline 1 of 2") != NULL);
	CHECK_INT(id, ==, -7);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 0);
	LOOK_UNTIL(store, stats_of_store(store).reconnects > 0); /* control connects again as well */
	atomic_store(&db->origin, here - 1);                     /* this server is the successor */
	put(store, "a", 0);
	CHECK(wait_count(&ran, 2));
	CHECK(atomic_load(&db->origin) == here);
}

/* At the end of an exchange, or just after it, another connection meets the successor of the server. */
enum meeting { AT_THE_END = 1, AFTER_IT };
static _Atomic(struct pg_db *) meets;
static _Atomic(enum meeting) meeting;

static void meet(enum meeting now)
{
	struct pg_db *db = atomic_load(&meets);

	if (db && atomic_load(&meeting) == now) {
		atomic_store(&meets, NULL);
		atomic_fetch_add(&db->origin, 1);
	}
}

int PQexitPipelineMode(PGconn *conn)
{
	int (*real)(PGconn *);

	*(void **)&real = dlsym(RTLD_NEXT, "PQexitPipelineMode");
	meet(AT_THE_END);
	return real(conn);
}

/* Called at the begin and at the end of an exchange. */
int PQsetnonblocking(PGconn *conn, int on)
{
	int (*real)(PGconn *, int);

	*(void **)&real = dlsym(RTLD_NEXT, "PQsetnonblocking");
	if (!on)
		meet(AFTER_IT);
	return real(conn, on);
}

/* Puts two timeouts while the server is replaced amid the put; returns the error of the put. */
static int put_and_meet(hwt_store *store, const char *key, enum meeting when)
{
	hwt_store_spec specs[] = { SPEC("a", HWT_S(3600), .key = key), spec_of("a", HWT_S(3600)) };
	struct pg_db *db = (struct pg_db *)store->db;
	uint64_t here = atomic_load(&db->origin);
	int rc;

	atomic_store(&meeting, when);
	atomic_store(&meets, db);
	rc = hwt_store_put_many(store, specs, 2, NULL);
	CHECK(atomic_load(&db->origin) == here + 1);
	CHECK(rc == 0 || strstr(hwt_store_error(), "another server") != NULL);
	atomic_store(&db->origin, here);
	return rc;
}

TEST(what_a_server_answers_that_was_replaced_meanwhile_is_not_taken_for_sure)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = fresh_store();

	put(store, "a", HWT_S(3600)); /* ids are drawn, and statements are prepared */
	/* One exchange, which has committed, and whose commit may be lost. */
	CHECK_INT(put_and_meet(store, NULL, AT_THE_END), ==, ECONNRESET);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 3);
	/* With a key the commit is an exchange of its own: it is not sent, and nothing has happened. */
	for (enum meeting when = AT_THE_END; when <= AFTER_IT; when++) {
		put(store, "a", HWT_S(3600)); /* connected again */
		CHECK_INT(put_and_meet(store, "k", when), ==, ENOTCONN);
		CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 3 + (int)when);
	}
}

/* Puts two rows of kind "a", of which a trigger of the user's lets in only what is_let_in says. */
static void put_two(struct hwts_put puts[2], const char *is_let_in, void (*at)(const char *where))
{
	CLOSING hwt_store *store = fresh_store();
	struct hwts_conn *conn;

	put(store, "a", HWT_S(3600));
	(void)query("create function %s_no() returns trigger language plpgsql as 'begin return case when %s"
		    " then new end; end'",
		    world.schema, is_let_in);
	(void)query("create trigger no before insert on %s_timeout for each row execute function %s_no()", world.schema,
		    world.schema);
	CHECK_INT(hwts_kind_of(store, "a", NULL, &puts[0].kind), ==, 0);
	puts[1].kind = puts[0].kind;
	CHECK_INT(hwts_conns_get(store, &conn), ==, 0);
	CHECK_INT(hwts_numbers_give(store, conn, puts, 2), ==, 0);
	atomic_store(&hwts_test_at, at);
	CHECK_INT(hwts_rows_put(conn, puts, 2, false), ==, 0);
	atomic_store(&hwts_test_at, NULL);
	hwts_conns_put(store, conn, 0);
	CHECK_INT(puts[0].rc, ==, 0);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 2);
}

TEST(what_a_trigger_drops_is_not_put)
{
	NEEDS_POSTGRES();
	struct hwts_put puts[2] = { { .kind_name = "a", .when_us = 3600000000 },
				    { .kind_name = "a", .when_us = 3600000000, .priority = 1 } };

	put_two(puts, "new.priority = 0", NULL);
	CHECK_INT(puts[1].rc, ==, EEXIST);
}

/* The put of the row that was dropped is made again, alone; just before that its session is ended. */
static void end_session(const char *where)
{
	if (strcmp(where, "refused") == 0)
		(void)query("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and"
			    " application_name = 'libhwt-store'");
}

TEST(what_fails_for_one_put_of_a_group_is_told_to_that_one)
{
	NEEDS_POSTGRES();
	struct hwts_put puts[2] = { { .kind_name = "a", .when_us = 3600000000 },
				    { .kind_name = "a", .when_us = 3600000000, .key = "k" } };

	put_two(puts, "new.key is null", end_session);
	CHECK(puts[1].rc == ENOTCONN || puts[1].rc == ECONNRESET);
}

TEST(a_server_of_another_cluster_and_one_that_is_not_known_are_used)
{
	NEEDS_POSTGRES();
	hwt_store_info info = HWT_STORE_INFO_INIT;
	struct hwts_conn *conn = NULL;
	CLOSING hwt_store *store = fresh_store();
	int64_t id = put(store, "a", HWT_S(3600));
	struct pg_db *db = (struct pg_db *)store->db;
	uint64_t here = atomic_load(&db->origin);

	/* The url now leads elsewhere, to a cluster with fewer promotions. */
	atomic_store(&db->origin, (here ^ (UINT64_C(1) << 40)) + 8);
	put(store, "a", HWT_S(3600));
	CHECK(atomic_load(&db->origin) == here);
	/* A server that cannot name its origin. */
	CHECK_INT(hwts_conns_get(store, &conn), ==, 0);
	pg_conn(conn)->origin = 0;
	CHECK_INT(hwts_rows_get(conn, id, &info), ==, 0);
	hwts_conns_put(store, conn, 0);
}

TEST(a_role_without_rights_may_ask_which_server_it_is)
{
	NEEDS_POSTGRES();
	CHECK_INT(query("create role %s; set role %s; select count(*) from pg_control_system(),"
			" pg_walfile_name(pg_current_wal_lsn())",
			world.schema, world.schema),
		  ==, 1);
	(void)query("drop role %s", world.schema);
}
#endif

STORE_MAIN(NULL)
