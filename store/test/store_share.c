/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several processes on one database.  The simulation and torture test faults; this test covers cases that need real
 * processes, a real database, or one name for two processes.
 */
#include "store_query.h"

#include "inside.h"

static int work(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	log_start(run);
	return 0;
}

/* The child, a worker with a lease that does not end in a test.  argv: "work" URL SCHEMA LOG NAME. */
static int child(int argc, char **argv)
{
	hwt_store *store;

	(void)argc;
	enter_world(argv + 1);
	store = OPEN(.name = argv[4]);
	register_and_start(store, &KIND(.name = "a", .task = work));
	while (!atomic_load(&asked_to_stop))
		sleep_ms(2);
	return 127; /* the child is killed before */
}

/* The stop did not reach the database: a start of the same process need not wait for the end of its own lease. */
TEST(a_store_that_is_started_again_has_its_shards_at_once)
{
	CLOSING hwt_store *store = run_tasks(fresh_store(), count_run, HWT_STORE_AT_LEAST_ONCE);

	(void)query("create table %s_members as select * from %s_member", world.schema, world.schema);
	(void)query("create table %s_shards as select * from %s_shard", world.schema, world.schema);
	CHECK_CALL(hwt_store_stop(store), 0);
	(void)query("insert into %s_member select * from %s_members", world.schema, world.schema);
	(void)query("update %s_shard set owner = (select s.owner from %s_shards s where s.id = %s_shard.id)",
		    world.schema, world.schema, world.schema);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_INT(stats_of_store(store).shards_held, ==, 8);
}

static atomic_bool may_end;
static atomic_uint long_ones, short_ones;

static int run_long_or_short(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	if (run->len == 0) {
		atomic_fetch_add(&short_ones, 1);
		return 0;
	}
	atomic_fetch_add(&long_ones, 1);
	while (!atomic_load(&may_end))
		sleep_ms(1);
	return 0;
}

/* Puts long tasks until each of two shards has one.  Returns how many. */
static unsigned put_long_ones(hwt_store *store)
{
	hwt_store_spec spec = SPEC("a", 0, .data = "x", .len = 1);
	unsigned has[2] = { 0, 0 }, count = 0;
	int64_t id;

	for (; count < 60 && (has[0] == 0 || has[1] == 0); count++) {
		CHECK_CALL(hwt_store_put(store, &spec, &id), 0);
		has[hwts_shard_of(&store->kinds->row, id) % 2]++;
	}
	return count;
}

/*
 * Another process joins while each shard has a long run.  Half of the shards cannot be handed over yet: the other due
 * rows of these run in the old process all the same, on its free threads.
 */
TEST(what_is_due_in_a_shard_that_cannot_be_given_runs)
{
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(6), .threads = 64);
	const struct hwts_shard *shards;
	unsigned longs;

	CHECK_CALL(hwt_store_register(store, &KIND(.name = "a", .task = run_long_or_short, .shards = 2)), 0);
	shards = store->kinds->shards;
	atomic_store(&may_end, false);
	longs = put_long_ones(store);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&long_ones, longs));
	(void)query("insert into %s_member (name, incarnation, until_us, kinds)"
		    " select 'other', 1, until_us + 1000000000, kinds from %s_member",
		    world.schema, world.schema);
	WAIT_FOR(LOCKED(store, shards[0].giving || shards[1].giving) || stats_of_store(store).lost_leases > 0);
	for (int i = 0; i < 40; i++)
		(void)put(store, "a", 0);
	/* If the machine stood still and the lease was lost, the other process has half of the shards. */
	WAIT_FOR(atomic_load(&short_ones) >= 40 || stats_of_store(store).lost_leases > 0);
	atomic_store(&may_end, true);
}

/*
 * A name that is in use
 */

/* With a lease of ten minutes, which does not end in a test. */
static hwt_store *named(const char *name)
{
	hwt_store *store = OPEN(.name = name);

	register_kind(store, "a", work, NULL, HWT_STORE_AT_LEAST_ONCE);
	return store;
}

static int64_t lease_end_us(const char *name)
{
	return query("select until_us from %s_member where name = '%s'", world.schema, name);
}

/* Adds a member of another host that is named "me", and whose lease ends in left_s seconds. */
static void put_namesake(int left_s)
{
	(void)query("delete from %s_member where name = 'me'", world.schema);
	(void)query("insert into %s_member (name, incarnation, until_us, kinds)"
		    " select 'me', 1, until_us - %lld, kinds from %s_member",
		    world.schema, (600LL - left_s) * HWTS_S_US, world.schema);
}

static atomic_uint waits;
static hwt_store *_Atomic waiter;

static void renew_namesake(const char *point)
{
	if (strcmp(point, "name in use") != 0)
		return;
	atomic_fetch_add(&waits, 1);
	/* Puts of a process that waits for its name send news, too. */
	CHECK(strcmp(hwts_me(atomic_load(&waiter)->db), "me") != 0);
	(void)query("update %s_member set until_us = until_us + 600000000 where name = 'me'", world.schema);
}

TEST(a_name_whose_lease_is_renewed_is_refused)
{
	struct patience patience = PATIENCE("a start that finds the name in use");
	int rc = 0;

	fresh_world();
	CLOSING hwt_store *store = named("other");
	CHECK_CALL(hwt_store_start(store), 0);
	CLOSING hwt_store *twin = named("me");
	atomic_store(&waiter, twin);
	atomic_store(&waits, 0);
	atomic_store(&hwts_test_at, renew_namesake);
	/* Where a start takes longer than the namesake's lease lasts, the next namesake has twice as long. */
	for (int left_s = 1; atomic_load(&waits) == 0 && patience_lasts(&patience, 0); left_s *= 2) {
		CHECK_CALL(hwt_store_stop(twin), 0);
		put_namesake(left_s);
		rc = hwt_store_start(twin);
	}
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(rc, ==, EEXIST);
	CHECK(strstr(hwt_store_error(), "the name me is in use") != NULL);
	(void)query("delete from %s_member where name = 'me'", world.schema);
	CHECK_CALL(hwt_store_start(twin), 0);
}

static atomic_bool lasts;

static int last(const hwt_store_run *run, void *ctx)
{
	(void)run;
	(void)ctx;
	atomic_fetch_add(&ran, 1);
	while (atomic_load(&lasts))
		sleep_ms(1);
	return 0;
}

/* Another process may have the name by then, and puts from here would not notify it. */
TEST(a_stop_that_waits_for_a_task_bears_no_name)
{
	fresh_world();
	CLOSING hwt_store *store = named("me");
	register_kind(store, "lasts", last, NULL, HWT_STORE_AT_LEAST_ONCE);
	atomic_store(&lasts, true);
	CHECK_CALL(hwt_store_start(store), 0);
	put(store, "lasts", 0);
	CHECK(wait_count(&ran, 1));
	CHECK_CALL(hwt_store_stop_within(store, 0), ETIMEDOUT);
	WAIT_FOR(strcmp(hwts_me(store->db), "me") != 0);
	atomic_store(&lasts, false);
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(strcmp(hwts_me(store->db), "me") == 0);
}

TEST(a_name_is_free_when_its_lease_has_ended)
{
	int64_t end_us;

	fresh_world();
	CLOSING hwt_store *store = named("other");
	CHECK_CALL(hwt_store_start(store), 0);
	put_namesake(1);
	end_us = lease_end_us("me");
	CLOSING hwt_store *twin = named("me");
	CHECK(strcmp(hwts_me(twin->db), "me") != 0); /* this process only puts */
	CHECK_CALL(hwt_store_start(twin), 0);
	CHECK_INT(lease_end_us("me"), >=, end_us + 600000000);
}

/* By the clock of the other process the lease had ended: the machine was asleep. */
TEST(a_process_whose_name_another_has_goes_on_under_another_name)
{
	hwt_store *store;

	fresh_world();
	store = named("me");
	CHECK_CALL(hwt_store_start(store), 0);
	(void)query("update %s_member set incarnation = 1", world.schema);
	look_now(store);
	WAIT_FOR(query("select count(*) from %s_member where name like 'me#%%'", world.schema) == 1);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(query("select count(*) from %s_member where name = 'me'", world.schema), ==, 1);
}

TEST(the_name_of_a_process_that_died_on_this_host_is_free_at_once)
{
	int64_t end_us;
	pid_t pid;

	fresh_world();
	log_open(world.log);
	CLOSING hwt_store *store = named("me");
	(void)put(store, "a", 0);
	pid = spawn("work", "me", NULL);
	CHECK(wait_log(1));
	kill_child(pid);
	end_us = lease_end_us("me");
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_INT(lease_end_us("me"), <, end_us + 600000000);
}

/* The dead process's half of the shards is free until its lease ends, long before the next renewal. */
TEST(what_is_left_to_a_process_that_died_is_taken_when_its_lease_ends)
{
	fresh_world();
	CLOSING hwt_store *store = named("other");
	CHECK_CALL(hwt_store_start(store), 0);
	put_namesake(2);
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
}

TEST(a_lost_notification_costs_a_look_ahead)
{
	NEEDS_POSTGRES(); /* a hint of SQLite is a row of the same transaction */
	unsigned rescued = atomic_load(&hwts_test_rescued);
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(2));

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	atomic_store(&hwts_test_deaf, true);
	CHECK_CALL(hwt_store_start(store), 0);
	CLOSING hwt_store *other = open_store();
	for (int i = 0; i < 30; i++) {
		put(other, "a", HWT_MS(20));
		sleep_ms(30);
	}
	CHECK(wait_count(&ran, 30));
	CHECK_INT(atomic_load(&hwts_test_rescued), ==, rescued); /* the look has found them, not the net */
	atomic_store(&hwts_test_deaf, false);
}

/*
 * Tokens
 */

static atomic_uint lacks;

static void hear_of_tokens(void *ctx, const char *message)
{
	(void)ctx;
	atomic_fetch_add(&lacks, strstr(message, "without the tokens of their groups") != NULL);
}

/* What a shard hands over of its groups has room for 1 MiB: for 4,000 with names of 250 bytes. */
TEST(tokens_of_too_many_groups_are_not_handed_over_which_is_told)
{
	enum { MANY = 4100 };
	static char names[MANY][251];
	hwt_store_spec specs[MANY];

	CLOSING hwt_store *store = FRESH(.warn = hear_of_tokens);
	CHECK_CALL(register_patiently(store, &KIND(.name = "a", .task = count_run, .shards = 1)), 0);
	CHECK_CALL(hwt_store_limit(store, "a", NULL, &LIMITS(.start_every_ns = HWT_S(3600))), 0);
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "%0250d", i);
		specs[i] = SPEC("a", 0, .group = names[i]);
	}
	for (unsigned n = 3900; n <= MANY; n += MANY - 3900) {
		atomic_store(&lacks, 0);
		CHECK_CALL(hwt_store_start(store), 0);
		CHECK_CALL(hwt_store_put_many(store, n < MANY ? specs : specs + 3900, n < MANY ? n : MANY - 3900, NULL),
			   0);
		CHECK(wait_count(&ran, n));
		CHECK_CALL(hwt_store_stop(store), 0);
		CHECK_INT(atomic_load(&lacks), ==, n == MANY);
	}
}

STORE_MAIN(child)
