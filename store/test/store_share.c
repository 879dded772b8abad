/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several processes on one database.  What befalls them is the simulation's and torture's: this is what takes real
 * processes, a real database, or a name that two of them have.
 */
#include "store_query.h"

#include "inside.h"

/* The child, a worker with a lease that does not end while a test lasts.  argv: "work" URL SCHEMA LOG NAME. */

static int work(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	log_start(run);
	while (run->len > 0 && !atomic_load(&asked_to_stop)) /* a long one */
		sleep_ms(2);
	return 0;
}

/* "work long": with threads for many, and a lease of which a third is soon over. */
static int child(int argc, char **argv)
{
	bool is_long = argc > 4 && strcmp(argv[4], "long") == 0;
	hwt_store *store;

	enter_world(argv + 1);
	store = is_long ? OPEN(.lease_ns = HWT_S(3), .threads = 64)
			: OPEN(.lease_ns = HWT_S(600), .name = argc > 4 ? argv[4] : NULL);
	register_and_start(store, &KIND(.name = "a", .task = work));
	while (!atomic_load(&asked_to_stop))
		sleep_ms(2);
	REQUIRE(hwt_store_close(store) == 0);
	return atomic_load(&test_failures) == 0 ? 0 : 1;
}

/*
 * The parent
 */

static hwt_store *producer_with(unsigned mode, int64_t lease_ns)
{
	hwt_store *store = FRESH(.lease_ns = lease_ns);

	register_kind(store, "a", work, NULL, mode);
	return store;
}

static void put_batch(hwt_store *store, int count, int64_t from_ns, int64_t apart_ns)
{
	hwt_store_spec *specs = calloc((size_t)count, sizeof(*specs));

	for (int i = 0; i < count; i++)
		specs[i] = spec_of("a", from_ns + i * apart_ns);
	CHECK_CALL(hwt_store_put_many(store, specs, (size_t)count, NULL), 0);
	free(specs);
}

struct owners {
	char names[8][128];
	size_t count, rows;
};

static bool note_owner(void *ctx, const hwt_store_info *info)
{
	struct owners *owners = ctx;
	size_t i = 0;

	owners->rows++;
	if (!info->owner[0])
		return true;
	while (i < owners->count && strcmp(owners->names[i], info->owner) != 0)
		i++;
	if (i == owners->count && i < 8)
		memcpy(owners->names[owners->count++], info->owner, sizeof(info->owner));
	return true;
}

/* Until so many processes hold the shards of what was put far ahead; false: patience has ended. */
static bool wait_owners(hwt_store *store, size_t count)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;
	struct owners owners;

	do {
		memset(&owners, 0, sizeof(owners));
		CHECK_CALL(hwt_store_each(store, "a", 1u << HWT_STORE_PENDING, note_owner, &owners), 0);
		if (owners.count == count)
			return true;
		sleep_ms(10);
	} while (hwt_now() < give_up_ns);
	return false;
}

/* The one that stops gives its shards at once: nothing waits for the end of a lease. */
TEST(two_processes_share_the_work_and_nothing_runs_twice)
{
	CLOSING hwt_store *store = producer_with(HWT_STORE_AT_LEAST_ONCE, HWT_S(600));
	pid_t one, two;
	size_t count, of_one = 0, ids, early;
	struct start *starts;

	put_batch(store, 100, HWT_S(10000), 1);
	one = spawn("work", NULL);
	two = spawn("work", NULL);
	CHECK(wait_owners(store, 2));
	put_batch(store, 400, 0, HWT_MS(1));
	CHECK(wait_log(400));
	end_child(one);
	put_batch(store, 100, 0, HWT_MS(1));
	CHECK(wait_log(500));
	end_child(two);
	ids = log_ids(&count, &early);
	CHECK_INT(ids, ==, 500);
	CHECK_INT(count, ==, 500);
	CHECK_INT(early, ==, 0);
	starts = log_read(&count);
	for (size_t i = 0; i < count; i++)
		of_one += starts[i].pid == one;
	CHECK(of_one > 0 && of_one < 400);
	free(starts);
}

/* Its stop did not reach the database: a start of the same process need not wait for the end of its own lease. */
TEST(a_store_that_is_started_again_has_its_shards_at_once)
{
	CLOSING hwt_store *store = fresh_store();

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_INT(stats_of_store(store).shards_held, ==, 8);
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

/* Puts long ones until there is one in each of two shards.  Returns how many. */
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

static bool gives(hwt_store *store)
{
	const struct hwts_shard *shards = store->kinds->shards;
	bool is;

	pthread_mutex_lock(&store->lock);
	is = shards[0].giving || shards[1].giving;
	pthread_mutex_unlock(&store->lock);
	return is;
}

/*
 * Another process joins while a long task runs in each shard.  Half of the shards are to be given to it, and cannot be:
 * what else is due in them runs here all the same, on the threads that are free.
 */
TEST(what_is_due_in_a_shard_that_cannot_be_given_runs)
{
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(6), .threads = 64);
	int64_t give_up_ns;
	unsigned longs;

	CHECK_CALL(hwt_store_register(store, &KIND(.name = "a", .task = run_long_or_short, .shards = 2)), 0);
	atomic_store(&may_end, false);
	longs = put_long_ones(store);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&long_ones, longs));
	(void)query("insert into %s_member (name, incarnation, until_us, kinds)"
		    " select 'other', 1, until_us + 1000000000, kinds from %s_member",
		    world.schema, world.schema);
	give_up_ns = hwt_now() + PATIENCE_NS;
	while (!gives(store) && stats_of_store(store).lost_leases == 0 && hwt_now() < give_up_ns)
		sleep_ms(1);
	for (int i = 0; i < 40; i++)
		(void)put(store, "a", 0);
	while (atomic_load(&short_ones) < 40 && stats_of_store(store).lost_leases == 0 && hwt_now() < give_up_ns)
		sleep_ms(1);
	/* If the machine stood still and the lease was lost, half of the shards are the other's. */
	CHECK(atomic_load(&short_ones) >= 40 || stats_of_store(store).lost_leases > 0);
	atomic_store(&may_end, true);
}

/* The same with two real ones, each of which runs long tasks in all shards that it was given last. */
TEST(what_is_short_runs_beside_long_tasks_of_two_processes)
{
	enum { LONG = 40, SHORT = 100 };
	CLOSING hwt_store *store = producer_with(HWT_STORE_AT_LEAST_ONCE, HWT_S(600));
	pid_t pids[2];

	for (size_t i = 0; i < 2; i++) {
		pids[i] = spawn("work", "long", NULL);
		for (int j = 0; j < LONG / 2; j++)
			(void)put_spec(store, &SPEC("a", 0, .data = "x", .len = 1));
		CHECK(wait_log(LONG / 2 * (i + 1)));
	}
	put_batch(store, SHORT, 0, HWT_MS(1));
	CHECK(wait_log(LONG + SHORT));
	for (int i = 0; i < 2; i++)
		end_child(pids[i]);
}

/*
 * A name that is in use
 */

static hwt_store *named(const char *name, int64_t lease_ns)
{
	hwt_store *store;

	store = OPEN(.name = name, .lease_ns = lease_ns);
	register_kind(store, "a", work, NULL, HWT_STORE_AT_LEAST_ONCE);
	return store;
}

static int64_t lease_end_us(const char *name)
{
	return query("select until_us from %s_member where name = '%s'", world.schema, name);
}

/* A process of another host has the name, and its lease ends in so many seconds. */
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
	/* Its puts tell the holder, too. */
	CHECK(strcmp(hwts_me(atomic_load(&waiter)->db), "me") != 0);
	(void)query("update %s_member set until_us = until_us + 600000000 where name = 'me'", world.schema);
}

TEST(a_name_whose_lease_is_renewed_is_refused)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;
	int rc = 0;

	fresh_world();
	CLOSING hwt_store *store = named("other", HWT_S(600));
	CHECK_CALL(hwt_store_start(store), 0);
	CLOSING hwt_store *twin = named("me", HWT_S(600));
	atomic_store(&waiter, twin);
	atomic_store(&waits, 0);
	atomic_store(&hwts_test_at, renew_namesake);
	while (atomic_load(&waits) == 0 && hwt_now() < give_up_ns) { /* unless a second is over too soon */
		CHECK_CALL(hwt_store_stop(twin), 0);
		put_namesake(1);
		rc = hwt_store_start(twin);
	}
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(rc, ==, EEXIST);
	CHECK(strstr(hwt_store_error(), "the name me is in use") != NULL);
	(void)query("delete from %s_member where name = 'me'", world.schema);
	CHECK_CALL(hwt_store_start(twin), 0);
}

TEST(a_name_is_free_when_its_lease_has_ended)
{
	int64_t end_us;

	fresh_world();
	CLOSING hwt_store *store = named("other", HWT_S(600));
	CHECK_CALL(hwt_store_start(store), 0);
	put_namesake(1);
	end_us = lease_end_us("me");
	CLOSING hwt_store *twin = named("me", HWT_S(600));
	CHECK(strcmp(hwts_me(twin->db), "me") != 0); /* it only puts */
	CHECK_CALL(hwt_store_start(twin), 0);
	CHECK_INT(lease_end_us("me"), >=, end_us + 600000000);
}

/* Its lease had ended, as far as the other knows: the machine was asleep. */
TEST(a_process_whose_name_another_has_goes_on_under_another_name)
{
	hwt_store *store;

	fresh_world();
	store = named("me", HWT_S(600));
	CHECK_CALL(hwt_store_start(store), 0);
	(void)query("update %s_member set incarnation = 1", world.schema);
	look_now(store);
	WAIT_FOR(query("select count(*) from %s_member where name like 'me#%%'", world.schema) == 1);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(query("select count(*) from %s_member where name = 'me'", world.schema), ==, 1);
}

/* With a lease of ten minutes, which did not end meanwhile. */
TEST(the_name_of_a_process_that_died_on_this_host_is_free_at_once)
{
	int64_t end_us;
	pid_t pid;

	fresh_world();
	log_open(world.log);
	CLOSING hwt_store *store = named("me", HWT_S(600));
	(void)put(store, "a", 0);
	pid = spawn("work", "me", NULL);
	CHECK(wait_log(1));
	kill_child(pid);
	end_us = lease_end_us("me");
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_INT(lease_end_us("me"), <, end_us + 600000000);
}

/* Its half of the shards is free until its lease ends; the next renewal comes long after that. */
TEST(what_is_left_to_a_process_that_died_is_taken_when_its_lease_ends)
{
	fresh_world();
	CLOSING hwt_store *store = named("other", HWT_S(600));
	CHECK_CALL(hwt_store_start(store), 0);
	put_namesake(2);
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
}

TEST(a_lost_notification_costs_a_look_ahead)
{
	hwt_store *store, *other;
	unsigned rescued = atomic_load(&hwts_test_rescued);

	store = producer_with(HWT_STORE_AT_LEAST_ONCE, HWT_S(2));
	if (world.sqlite) { /* a hint is a row: it cannot be lost; a process that slept through them reads all again */
		CHECK_CALL(hwt_store_close(store), 0);
		SKIP("a hint of SQLite is a row of the same transaction");
	}
	log_open(world.log);
	atomic_store(&hwts_test_deaf, true);
	CHECK_CALL(hwt_store_start(store), 0);
	other = open_store();
	for (int i = 0; i < 30; i++) {
		put(other, "a", HWT_MS(20));
		sleep_ms(30);
	}
	CHECK(wait_log(30));
	CHECK_INT(atomic_load(&hwts_test_rescued), ==, rescued); /* the look has found them, not the net */
	atomic_store(&hwts_test_deaf, false);
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

STORE_MAIN(child)
