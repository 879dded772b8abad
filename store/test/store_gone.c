/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A database that answers, but does not show what this process knows: tables that row level security hides, that were
 * emptied or replaced, or that may only be read.  Each fault has its own text: the error of the call that finds the
 * fault, or one warning of a running process, and one more when the fault is over.
 */
#include "store_query.h"

#include "inside.h"
#include "store/conns.h"

static const char *const tables[] = { "meta", "kind", "shard", "group", "timeout", "member" };

#define WITH_MEMBERS HWTS_COUNT(tables)
#define BUT_MEMBERS (WITH_MEMBERS - 1)

/* format takes the prefix and the table's name, up to twice. */
static void each_table(size_t n, const char *format)
{
	char text[512];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(text, sizeof(text), format, world.schema, tables[i], world.schema, tables[i]);
		(void)query("%s", text);
	}
}

/*
 * Warnings
 */

#define LEASE_NS HWT_S(600) /* the lease that store_config sets */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char warnings[64][640];
static unsigned warning_count;
static atomic_uint renewals; /* renewals that came back */

static void note_warning(void *ctx, const char *text)
{
	(void)ctx;
	if (getenv("HWT_STORE_LOUD"))
		printf("# %s\n", text);
	pthread_mutex_lock(&lock);
	if (warning_count < HWTS_COUNT(warnings))
		(void)snprintf(warnings[warning_count++], sizeof(warnings[0]), "%s", text);
	pthread_mutex_unlock(&lock);
}

static unsigned told(const char *words)
{
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < warning_count; i++)
		n += strstr(warnings[i], words) != NULL;
	pthread_mutex_unlock(&lock);
	return n;
}

static void count_renewals(const char *point)
{
	if (strcmp(point, "renewed") == 0)
		atomic_fetch_add(&renewals, 1);
}

/* Opens a store with the kind "a", whose warnings are noted. */
static hwt_store *open_noted_with_a(const char *url, int64_t lease_ns)
{
	hwt_store_config config = store_config();
	hwt_store *store = NULL;

	warning_count = 0;
	config.warn = note_warning;
	config.lease_ns = lease_ns;
	CHECK_CALL(hwt_store_open(&store, url, &config, NULL, 0), 0);
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	return store;
}

static hwt_store *start_of(hwt_store *store)
{
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	atomic_store(&hwts_test_at, count_renewals);
	return store;
}

static hwt_store *start_noted(const char *url)
{
	return start_of(open_noted_with_a(url, LEASE_NS));
}

/* Each renewal finds the fault, and the first one tells it. */
static void is_told_once(hwt_store *store, const char *words)
{
	unsigned before;

	look_now(store);
	WAIT_FOR(told(words) > 0);
	before = atomic_load(&renewals);
	WAIT_FOR(atomic_load(&renewals) >= before + 4);
	CHECK_INT(told(words), ==, 1);
	CHECK_INT(told("works again"), ==, 0);
}

/* The end of the fault is told once; then was_put timeouts that were put before run, and one that is put now. */
static void is_over_and_runs(hwt_store *store, const char *over, unsigned was_put)
{
	WAIT_FOR(told(over) > 0);
	put(store, "a", 0);
	CHECK(wait_count(&ran, was_put + 1));
	CHECK_INT(told(over), ==, 1);
	atomic_store(&hwts_test_at, NULL);
}

#define RENEWS "renewal works again"
#define TAKES "taking shards works again"
#define RUNS "a transaction for a run works again"

static void call_the_store(void *ctx, const char *text)
{
	hwt_store *store = *(hwt_store **)ctx;
	hwt_store_stats stats = HWT_STORE_STATS_INIT;

	note_warning(NULL, text);
	if (store)
		CHECK_INT(hwt_store_read_stats(store, &stats), ==, 0);
}

TEST(a_warning_that_calls_the_store_leaves_the_text_of_a_failure)
{
	hwt_store_config config;
	unsigned failures = 0;
	CLOSING hwt_store *store = NULL;

	fresh_world();
	config = store_config();
	warning_count = 0;
	config.warn = call_the_store;
	config.warn_ctx = &store;
	CHECK_CALL(hwt_store_open(&store, world.url, &config, NULL, 0), 0);
	hwts_fails(store, HWTS_READ, hwts_fail(EIO, "it is broken"));
	CHECK_INT(told("it is broken"), ==, 1);
	CHECK(strcmp(hwt_store_error(), "it is broken") == 0);
	hwts_works(store, HWTS_READ, &failures);
	CHECK_INT(told("look-ahead works again"), ==, 1);
	CHECK(strcmp(hwt_store_error(), "it is broken") == 0);
}

/* A task thread that works says nothing of the others, each of which may fail with its own sort. */
TEST(each_sort_that_task_threads_fail_with_is_told_once)
{
	unsigned failures = 0;

	fresh_world();
	CLOSING hwt_store *store = start_noted(world.url);
	for (unsigned i = 0; i < 3; i++) {
		hwts_fails(store, HWTS_TASK, hwts_fail(ENOTCONN, "it is away"));
		hwts_fails(store, HWTS_TASK, hwts_fail(EAGAIN, "it is locked"));
		hwts_works(store, HWTS_TASK, &failures);
	}
	CHECK_INT(told("it is away"), ==, 1);
	CHECK_INT(told("it is locked"), ==, 1);
	CHECK_INT(told("works again"), ==, 0);
	atomic_store(&hwts_test_at, NULL);
}

/* Each thread that has failed may wait for its next run for hours: control tells when all of them work. */
TEST(task_threads_work_again_once_one_has_worked_and_none_fails)
{
	unsigned failures = 0, before;

	fresh_world();
	CLOSING hwt_store *store = start_of(open_noted_with_a(world.url, HWT_S(1)));
	hwts_fails(store, HWTS_TASK, hwts_fail(ENOTCONN, "it is away"));
	before = atomic_load(&renewals);
	WAIT_FOR(atomic_load(&renewals) >= before + 10);
	CHECK_INT(told(RUNS), ==, 0);
	hwts_fails(store, HWTS_TASK, hwts_fail(ENOTCONN, "it is away"));
	hwts_works(store, HWTS_TASK, &failures);
	WAIT_FOR(told(RUNS) == 1);
	CHECK_INT(told("it is away"), ==, 1);
	hwts_fails(store, HWTS_TASK, hwts_fail(ENOTCONN, "it is away"));
	CHECK_INT(told("it is away"), ==, 2);
	CHECK_INT(told(RUNS), ==, 1);
	atomic_store(&hwts_test_at, NULL);
}

/* As if this time had passed since the last failure of a task thread. */
static void calm_for(hwt_store *store, int64_t ns)
{
	pthread_mutex_lock(&store->conns->lock);
	store->conns->told[HWTS_TASK].failed_ns -= ns;
	pthread_mutex_unlock(&store->conns->lock);
	hwts_tell_works(store, HWTS_TASK);
}

/* Between two runs of the thread that fails, others work for longer than a lease. */
TEST(a_task_thread_that_always_fails_is_not_told_again_and_again)
{
	unsigned failures = 0;

	fresh_world();
	CLOSING hwt_store *store = start_noted(world.url);
	for (unsigned i = 0; i < 10; i++) {
		hwts_fails(store, HWTS_TASK, hwts_fail(ENOTCONN, "it is away"));
		hwts_works(store, HWTS_TASK, &failures);
		calm_for(store, LEASE_NS);
	}
	CHECK_INT(told("it is away"), ==, 2);
	CHECK_INT(told(RUNS), ==, 1);
	calm_for(store, LEASE_NS);
	CHECK_INT(told(RUNS), ==, 2);
	calm_for(store, 64 * LEASE_NS); /* what fails now is another outage */
	hwts_fails(store, HWTS_TASK, hwts_fail(ENOTCONN, "it is away"));
	hwts_works(store, HWTS_TASK, &failures);
	CHECK_INT(told("it is away"), ==, 3);
	CHECK_INT(told(RUNS), ==, 2);
	calm_for(store, LEASE_NS);
	CHECK_INT(told(RUNS), ==, 3);
	atomic_store(&hwts_test_at, NULL);
}

TEST(what_a_task_thread_told_before_a_stop_is_told_again)
{
	fresh_world();
	CLOSING hwt_store *store = start_noted(world.url);

	for (unsigned i = 1; i <= 2; i++) {
		hwts_fails(store, HWTS_TASK, hwts_fail(ENOTCONN, "it is away"));
		hwts_fails(store, HWTS_TASK, hwts_fail(ENOTCONN, "it is away"));
		CHECK_INT(told("it is away"), ==, i);
		CHECK_CALL(hwt_store_stop(store), 0);
		CHECK_CALL(hwt_store_start(store), 0);
	}
	atomic_store(&hwts_test_at, NULL);
}

/*
 * Emptied, replaced
 */

/* Empties all tables at once: a renewal between two of them would tell the first as another failure. */
static void keep_and_empty(void)
{
	USER *user = connect_user();

	each_table(BUT_MEMBERS, "create table %s_kept_%s as select * from %s_%s");
	REQUIRE(user_sql(user, "begin"));
	for (size_t i = WITH_MEMBERS; i-- > 0;) /* members first, as a renewal locks them */
		REQUIRE(user_sql(user, "delete from %s_%s", world.schema, tables[i]));
	REQUIRE(user_sql(user, "commit"));
}

static void copy_tables(size_t n, const char *to, const char *from)
{
	for (size_t i = 0; i < n; i++)
		(void)query("insert into %s_%s%s select * from %s_%s%s", world.schema, to, tables[i], world.schema,
			    from, tables[i]);
}

TEST(emptied_tables_are_told_once_and_take_no_puts)
{
	hwt_store_spec spec = spec_of("a", 0);
	int64_t id = -7;

	fresh_world();
	CLOSING hwt_store *store = start_noted(world.url);
	keep_and_empty();
	is_told_once(store, "have been emptied");
	CHECK_CALL(hwt_store_put(store, &spec, &id), EIO);
	CHECK(strstr(hwt_store_error(), "have been emptied") != NULL);
	CHECK_INT(id, ==, -7);
	copy_tables(BUT_MEMBERS, "", "kept_");
	is_over_and_runs(store, RENEWS, 0);
}

/*
 * The number of kind a may be that of another kind now, or of none: what a put writes would run as that kind, or
 * never.
 */
TEST(kinds_that_were_emptied_are_told_once_and_take_no_puts)
{
	hwt_store_spec spec = spec_of("a", 0);

	fresh_world();
	CLOSING hwt_store *store = start_noted(world.url);
	keep_and_empty();
	copy_tables(1, "", "kept_"); /* meta */
	is_told_once(store, "kind a is not in the database any more");
	CHECK_CALL(hwt_store_put(store, &spec, NULL), EIO);
	(void)query("insert into %s_kind select * from %s_kept_kind", world.schema, world.schema);
	(void)query("insert into %s_shard select * from %s_kept_shard", world.schema, world.schema);
	is_over_and_runs(store, RENEWS, 0);
}

TEST(an_open_says_that_the_tables_have_been_emptied)
{
	hwt_store_config config;
	char error[512] = "";
	hwt_store *store;

	fresh_world();
	config = store_config();
	CHECK_CALL(hwt_store_close(open_store()), 0);
	each_table(WITH_MEMBERS, "delete from %s_%s");
	CHECK_INT(hwt_store_open(&store, world.url, &config, error, sizeof(error)), ==, EIO);
	CHECK(strstr(error, "have been emptied") != NULL);
	CHECK(strstr(error, "_meta has no row") != NULL);
}

TEST(shards_that_were_emptied_are_told)
{
	fresh_world();
	CLOSING hwt_store *store = start_noted(world.url);
	each_table(3, "create table %s_kept_%s as select * from %s_%s");
	(void)query("delete from %s_shard", world.schema);
	is_told_once(store, "no row for kind a");
	CHECK_INT(stats_of_store(store).shards_held, ==, 0);
	put(store, "a", 0); /* this put is kept */
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_CALL(hwt_store_start(store), EIO);
	CHECK(strstr(hwt_store_error(), "no row for kind a") != NULL);
	(void)query("insert into %s_shard select * from %s_kept_shard", world.schema, world.schema);
	CHECK_CALL(hwt_store_start(store), 0);
	is_over_and_runs(store, TAKES, 1);
}

static void remove_shards_of_b(const char *point)
{
	static atomic_bool removed;

	if (strcmp(point, "renewed") == 0 && !atomic_exchange(&removed, true))
		(void)query("delete from %s_shard where kind = (select id from %s_kind where name = 'b')", world.schema,
			    world.schema);
	count_renewals(point);
}

/*
 * The shards are missing from the first look of control on.  The row of a process that died long ago is removed all
 * the same.  Its lease ended more than ten minutes before the clock of boots was 0: the machine may have just booted.
 */
TEST(a_kind_without_shards_is_told_once_and_holds_up_no_other)
{
	fresh_world();
	CLOSING hwt_store *store = open_noted_with_a(world.url, LEASE_NS);
	register_kind(store, "b", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	each_table(3, "create table %s_kept_%s as select * from %s_%s");
	(void)query("insert into %s_member (name, incarnation, until_us, kinds) values ('dead', 1, -1000000000, %s)",
		    world.schema, world.sqlite ? "','" : "'{}'");
	atomic_store(&hwts_test_at, remove_shards_of_b);
	CHECK_CALL(hwt_store_start(store), 0);
	is_told_once(store, "no row for kind b");
	CHECK_INT(query("select count(*) from %s_member where name = 'dead'", world.schema), ==, 0);
	CHECK(wait_held(store, 8));
	put(store, "b", 0);
	put(store, "a", 0);
	CHECK(wait_count(&ran, 1));
	CHECK_INT(told("no row for kind"), ==, 1);
	(void)query("insert into %s_shard select * from %s_kept_shard where id not in (select id from %s_shard)",
		    world.schema, world.schema, world.schema);
	is_over_and_runs(store, TAKES, 2);
}

TEST(another_store_in_the_place_of_this_one_is_told_once)
{
	fresh_world();
	CLOSING hwt_store *store = start_noted(world.url);
	(void)query("drop view %s_timeouts", world.schema);
	(void)query("drop view %s_kinds", world.schema);
	each_table(WITH_MEMBERS, "drop table %s_%s");
	CLOSING hwt_store *other = open_store();
	is_told_once(store, "another store has taken the place of this one");
	CHECK_CALL(hwt_store_put(store, &SPEC("a", 0, .flags = 0), NULL), EIO);
	put(other, "a", 0);
}

/* A restore beside the running process leaves the tables like this; nothing stood still. */
TEST(a_row_of_a_process_that_was_removed_is_told_as_such)
{
	fresh_world();
	CLOSING hwt_store *store = start_noted(world.url);
	(void)query("delete from %s_member", world.schema);
	look_now(store);
	WAIT_FOR(told("was removed or changed: somebody") == 1);
	CHECK_INT(told("stood still"), ==, 0);
	put(store, "a", 0);
	CHECK(wait_count(&ran, 1));
}

TEST(shards_that_cannot_be_taken_are_told_once)
{
	NEEDS_SQLITE();
	fresh_world();
	CLOSING hwt_store *store = start_noted(world.url);
	(void)query("create trigger %s_no before update on %s_shard when new.owner is not null begin"
		    " select raise(abort, 'refused here'); end",
		    world.schema, world.schema);
	(void)query("update %s_shard set owner = null, epoch = epoch + 1", world.schema);
	is_told_once(store, "shards: ");
	(void)query("drop trigger %s_no", world.schema);
	is_over_and_runs(store, TAKES, 0);
}

#ifdef HWT_STORE_POSTGRES

static void replace_tables(void)
{
	(void)query("drop view %s_timeouts, %s_kinds", world.schema, world.schema);
	each_table(WITH_MEMBERS, "create table %s_new_%s (like %s_%s including all)");
	copy_tables(BUT_MEMBERS, "new_", "");
	each_table(WITH_MEMBERS, "drop table %s_%s cascade");
	for (size_t i = 0; i < WITH_MEMBERS; i++)
		(void)query("alter table %s_new_%s rename to %s_%s", world.schema, tables[i], world.schema, tables[i]);
}

TEST(tables_that_were_made_again_before_a_start_are_told_by_it_alone)
{
	NEEDS_POSTGRES();
	fresh_world();
	CLOSING hwt_store *store = open_noted_with_a(world.url, LEASE_NS);
	replace_tables();
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_INT(told("were replaced beside this process"), ==, 1);
	CHECK(wait_held(store, 8));
	(void)query("delete from %s_member", world.schema);
	look_now(store);
	WAIT_FOR(told("the lease of") == 1);
	CHECK_INT(told("were replaced beside this process"), ==, 1);
	put(store, "a", 0);
	CHECK(wait_count(&ran, 1));
}

TEST(tables_that_were_made_again_from_a_dump_are_told)
{
	NEEDS_POSTGRES(); /* on SQLite the missing row of the process tells, as above */
	fresh_world();
	CLOSING hwt_store *store = start_noted(world.url);
	replace_tables();
	look_now(store);
	WAIT_FOR(told("were replaced beside this process") == 1);
	put(store, "a", 0);
	CHECK(wait_count(&ran, 1));
	look_now(store);
	WAIT_FOR(atomic_load(&renewals) > 3);
	CHECK_INT(told("were replaced beside this process"), ==, 1);
	CHECK_INT(told("stood still"), ==, 0);
	atomic_store(&hwts_test_at, NULL);
}

/* The lease is renewed all the time, so that nothing but the shards tells. */
TEST(tables_that_were_made_again_without_shards_are_told_as_such)
{
	NEEDS_POSTGRES();
	fresh_world();
	CLOSING hwt_store *store = start_noted(world.url);
	(void)query("create table %s_kept as select * from %s_member", world.schema, world.schema);
	replace_tables();
	(void)query("insert into %s_member select * from %s_kept", world.schema, world.schema);
	(void)query("delete from %s_shard", world.schema);
	is_told_once(store, "no row for kind a");
	WAIT_FOR(told("were replaced beside this process") > 0);
	CHECK_INT(told("were replaced beside this process"), ==, 1);
	CHECK_INT(told("the lease of"), ==, 0);
	atomic_store(&hwts_test_at, NULL);
}

/*
 * Row level security
 */

/* Makes a store that belongs to another role; `role` may read and write all its tables. */
static void fresh_role(char role[64], char url[TEXT_MAX])
{
	fresh_world();
	CHECK_CALL(hwt_store_close(open_store()), 0);
	(void)snprintf(role, 64, "%s_app", world.schema);
	(void)query("create role %s login", role);
	each_table(WITH_MEMBERS, "grant select, insert, update, delete on %s_%s to public");
	url_of_role(url, role);
}

static int open_noted(const char *url, char error[512])
{
	hwt_store_config config = store_config();
	hwt_store *store = NULL;
	int rc;

	config.warn = note_warning;
	warning_count = 0;
	error[0] = '\0';
	rc = hwt_store_open(&store, url, &config, error, 512);
	if (rc == 0)
		CHECK_CALL(hwt_store_close(store), 0);
	return rc;
}

TEST(an_open_names_the_table_that_row_level_security_hides)
{
	NEEDS_POSTGRES();
	char role[64], url[TEXT_MAX], error[512], name[64];

	fresh_role(role, url);
	for (size_t i = 0; i < WITH_MEMBERS; i++) {
		(void)snprintf(name, sizeof(name), "%s_%s", world.schema, tables[i]);
		(void)query("alter table %s enable row level security", name);
		CHECK_INT(open_noted(url, error), ==, EACCES);
		CHECK(strstr(error, "row level security") != NULL);
		CHECK(strstr(error, name) != NULL && strstr(error, role) != NULL);
		CHECK_INT(open_noted(world.url, error), ==, 0); /* a superuser sees all rows */
		(void)query("alter table %s disable row level security", name);
	}
	CHECK_INT(open_noted(url, error), ==, 0);
	CHECK_INT(warning_count, ==, 0);
}

TEST(row_level_security_that_is_forced_hides_from_the_owner_too)
{
	NEEDS_POSTGRES();
	char role[64], url[TEXT_MAX], error[512];

	fresh_world();
	(void)snprintf(role, sizeof(role), "%s_app", world.schema);
	(void)query("create role %s login; grant create on schema public to %s", role, role);
	url_of_role(url, role);
	CHECK_INT(open_noted(url, error), ==, 0);
	each_table(WITH_MEMBERS, "alter table %s_%s enable row level security");
	CHECK_INT(open_noted(url, error), ==, 0);
	each_table(WITH_MEMBERS, "alter table %s_%s force row level security");
	CHECK_INT(open_noted(url, error), ==, EACCES);
	CHECK(strstr(error, "row level security") != NULL);
}

TEST(policies_that_may_hide_rows_are_a_warning_and_those_that_cannot_are_none)
{
	NEEDS_POSTGRES();
	char role[64], url[TEXT_MAX], error[512];

	fresh_role(role, url);
	each_table(WITH_MEMBERS, "alter table %s_%s enable row level security");
	each_table(WITH_MEMBERS, "create policy p on %s_%s using (true)");
	CHECK_INT(open_noted(url, error), ==, 0);
	CHECK_INT(warning_count, ==, 0);
	(void)query("create policy q on %s_timeout as restrictive using (kind = 7)", world.schema);
	CHECK_INT(open_noted(url, error), ==, 0);
	CHECK_INT(told("row level security"), ==, 1);
	CHECK(strstr(warnings[0], world.schema) != NULL && strstr(warnings[0], "_timeout") != NULL);
	(void)query("drop policy q on %s_timeout; alter policy p on %s_timeout using (kind = 7)", world.schema,
		    world.schema);
	CHECK_INT(open_noted(url, error), ==, 0);
	CHECK_INT(told("row level security"), ==, 1);
	/* Now the policy shows rows to another role alone. */
	(void)query("alter policy p on %s_timeout to hwt using (true)", world.schema);
	CHECK_INT(open_noted(url, error), ==, EACCES);
}

/*
 * A policy for a single command is no sign that rows are hidden.  Policies of other tables are not read: the lock on
 * such a table holds up no check.
 */
TEST(a_lease_that_is_lost_under_policies_that_show_all_is_had_again)
{
	NEEDS_POSTGRES();
	char role[64], url[TEXT_MAX];
	USER *locker = NULL;

	fresh_role(role, url);
	locker = connect_user();
	each_table(WITH_MEMBERS, "alter table %s_%s enable row level security");
	each_table(WITH_MEMBERS, "create policy r on %s_%s for select using (true)");
	each_table(WITH_MEMBERS, "create policy w on %s_%s for insert with check (true)");
	each_table(WITH_MEMBERS, "create policy u on %s_%s for update using (true)");
	each_table(WITH_MEMBERS, "create policy d on %s_%s for delete using (true)");
	(void)query("create table %s_other (a int); create policy p on %s_other using (a = 1)", world.schema,
		    world.schema);
	CHECK(user_sql(locker, "begin; lock table %s_other", world.schema));
	{
		CLOSING hwt_store *store = start_noted(url);

		(void)query("update %s_member set until_us = 1", world.schema);
		look_now(store);
		WAIT_FOR(told("the lease of") == 1);
		CHECK(wait_held(store, 8));
		put(store, "a", 0);
		CHECK(wait_count(&ran, 1));
		CHECK_INT(told("hides"), ==, 0);
		atomic_store(&hwts_test_at, NULL);
	}
}

TEST(a_start_says_that_row_level_security_hides_the_rows)
{
	NEEDS_POSTGRES();
	static const char *const hidden[] = { "timeout", "shard", "member", "kind" };
	char role[64], url[TEXT_MAX];

	fresh_role(role, url);
	for (size_t i = 0; i < HWTS_COUNT(hidden); i++) {
		CLOSING hwt_store *store = start_noted(url);

		CHECK_CALL(hwt_store_stop(store), 0);
		(void)query("alter table %s_%s enable row level security", world.schema, hidden[i]);
		CHECK_CALL(hwt_store_start(store), EACCES);
		CHECK(strstr(hwt_store_error(), "row level security") != NULL);
		/* The role may insert rows there, and sees none. */
		(void)query("create policy p on %s_%s for insert with check (true)", world.schema, hidden[i]);
		CHECK_CALL(hwt_store_start(store), EACCES);
		CHECK(strstr(hwt_store_error(), "row level security hides") != NULL);
		(void)query("drop policy p on %s_%s; alter table %s_%s disable row level security", world.schema,
			    hidden[i], world.schema, hidden[i]);
		CHECK_CALL(hwt_store_start(store), 0);
	}
	atomic_store(&hwts_test_at, NULL);
}

TEST(rows_that_row_level_security_hides_from_a_process_that_runs_are_told_once)
{
	NEEDS_POSTGRES();
	char role[64], url[TEXT_MAX];

	fresh_role(role, url);
	CLOSING hwt_store *store = start_noted(url);
	each_table(WITH_MEMBERS, "alter table %s_%s enable row level security");
	is_told_once(store, "row level security hides");
	CHECK_CALL(hwt_store_put(store, &SPEC("a", 0, .flags = 0), NULL), EACCES);
	CHECK(strstr(hwt_store_error(), "row level security hides") != NULL);
	each_table(WITH_MEMBERS, "alter table %s_%s disable row level security");
	is_over_and_runs(store, RENEWS, 0);
}

/* The engine finds once that the tables are other ones; this process notes that until it can tell. */
TEST(tables_that_were_made_again_and_hide_their_rows_are_told_by_the_next_start)
{
	NEEDS_POSTGRES();
	char role[64], url[TEXT_MAX];

	fresh_role(role, url);
	CLOSING hwt_store *store = start_noted(url);
	replace_tables();
	each_table(WITH_MEMBERS, "grant select, insert, update, delete on %s_%s to public;"
				 " alter table %s_%s enable row level security");
	is_told_once(store, "row level security hides");
	CHECK_CALL(hwt_store_stop(store), 0);
	each_table(WITH_MEMBERS, "alter table %s_%s disable row level security");
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_INT(told("were replaced beside this process"), ==, 1);
	put(store, "a", 0);
	CHECK(wait_count(&ran, 1));
	CHECK_INT(told("were replaced beside this process"), ==, 1);
	atomic_store(&hwts_test_at, NULL);
}

TEST(a_role_that_may_not_take_shards_is_told_once)
{
	NEEDS_POSTGRES();
	char role[64], url[TEXT_MAX];

	fresh_role(role, url);
	CLOSING hwt_store *store = start_noted(url);
	(void)query("revoke update on %s_shard from public; update %s_shard set owner = null, epoch = epoch + 1",
		    world.schema, world.schema);
	is_told_once(store, "shards: ");
	CHECK_INT(told("permission denied"), ==, 1);
	(void)query("grant update on %s_shard to public", world.schema);
	is_over_and_runs(store, TAKES, 0);
}

/*
 * What may only be read
 */

#define READ_ONLY "default_transaction_read_only is on" /* PostgreSQL 13 does not say so: its text names both */
#define STANDBY "this server is a standby:"

TEST(a_role_that_may_only_read_is_told_as_such_and_once)
{
	NEEDS_POSTGRES();
	char role[64], url[TEXT_MAX], error[512];
	uint64_t trips;

	fresh_role(role, url);
	CLOSING hwt_store *store = start_noted(url);
	/* Two transactions: a session that begins before the first has committed may write. */
	(void)query("alter role %s set default_transaction_read_only = on", role);
	(void)query("select pg_terminate_backend(pid) from pg_stat_activity where usename = '%s'", role);
	WAIT_FOR(told(READ_ONLY) > 0);
	trips = stats_of_store(store).round_trips;
	WAIT_FOR(stats_of_store(store).round_trips > trips + 8);
	CHECK_INT(told(READ_ONLY), ==, 1);
	CHECK_INT(told(STANDBY), ==, 0);
	CHECK_CALL(hwt_store_put(store, &SPEC("a", 0, .flags = 0), NULL), EACCES);
	CHECK(strstr(hwt_store_error(), READ_ONLY) != NULL);
	(void)query("alter role %s reset default_transaction_read_only", role);
	is_over_and_runs(store, RENEWS, 0);
	CHECK_CALL(hwt_store_stop(store), 0);
	(void)query("alter role %s set default_transaction_read_only = on", role);
	CHECK_CALL(hwt_store_start(store), EACCES);
	CHECK(strstr(hwt_store_error(), READ_ONLY) != NULL);
	CHECK_INT(open_noted(url, error), ==, 0); /* what only looks may open it, and is told */
	CHECK_INT(told(READ_ONLY), ==, query("select (current_setting('server_version_num')::int / 140000 > 0)::int"));
	(void)query("alter role %s reset default_transaction_read_only", role);
	CHECK_INT(open_noted(url, error), ==, 0);
	CHECK_INT(warning_count, ==, 0);
	CHECK_CALL(hwt_store_start(store), 0);
}

#endif

STORE_MAIN(NULL)
