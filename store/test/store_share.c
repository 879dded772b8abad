/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several processes on one database: who runs what, take-over, news, kills, clocks that are wrong.
 */
#include "store_query.h"

#include "inside.h"

/*
 * Leases, in milliseconds: one that does not end while a test lasts, one whose renewals come soon, and one whose end is
 * waited for.
 */
#define LONG_LEASE "600000"
#define QUICK_RENEWALS "6000"
#define SHORT_LEASE "2000"

/*
 * The child: a worker.  argv: URL SCHEMA LOG MODE TASK_US LEASE_MS [WALL_OFFSET_US] [NAME] [POINT COUNT]
 */

static int64_t task_us;
static unsigned die_at; /* a point's count */
static const char *die_where;
static atomic_uint points;

static void maybe_die(const char *where)
{
	if (die_where && strcmp(where, die_where) == 0 && atomic_fetch_add(&points, 1) + 1 == die_at)
		(void)raise(SIGKILL);
}

static int work(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	log_start(run);
	if (task_us > 0)
		sleep_ns(task_us * 1000);
	return 0;
}

static int child_works(int argc, char **argv)
{
	hwt_store_config config;
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store;

	enter_world(argv + 1);
	config = store_config();
	task_us = strtoll(argv[5], NULL, 10);
	config.lease_ns = HWT_MS(strtoll(argv[6], NULL, 10));
	if (argc > 7)
		atomic_store(&hwts_test_wall_us, strtoll(argv[7], NULL, 10));
	if (argc > 8 && argv[8][0])
		config.name = argv[8];
	if (argc > 10) {
		die_where = argv[9];
		die_at = (unsigned)strtoul(argv[10], NULL, 10);
		atomic_store(&hwts_test_at, maybe_die);
	}
	store = open_with(&config);
	kind.name = "a";
	kind.task = work;
	kind.mode = (unsigned)strtoul(argv[4], NULL, 10);
	kind.backoff_ns = HWT_MS(10);
	register_and_start(store, &kind);
	while (!asked_to_stop)
		sleep_ms(2);
	REQUIRE(hwt_store_close(store) == 0);
	return atomic_load(&test_failures) == 0 ? 0 : 1;
}

/* argv: URL SCHEMA LOG COUNT APART_US DELAY_US: puts one after the other. */
static int child_puts(char **argv)
{
	hwt_store *store;
	long count = strtol(argv[4], NULL, 10);

	enter_world(argv + 1);
	store = open_store();
	for (long i = 0; i < count; i++) {
		hwt_store_spec spec = spec_of("a", strtoll(argv[6], NULL, 10) * 1000);

		REQUIRE(put_patiently(store, &spec, NULL) == 0);
		sleep_ns(strtoll(argv[5], NULL, 10) * 1000);
	}
	REQUIRE(hwt_store_close(store) == 0);
	return 0;
}

static int child(int argc, char **argv)
{
	return strcmp(argv[0], "work") == 0 ? child_works(argc, argv) : child_puts(argv);
}

/*
 * The parent
 */

static hwt_store *producer_with(unsigned mode, int64_t lease_ns)
{
	hwt_store_config config;
	hwt_store *store;

	fresh_world();
	config = store_config();
	config.lease_ns = lease_ns;
	store = open_with(&config);
	register_kind(store, "a", work, NULL, mode);
	return store;
}

static hwt_store *producer(unsigned mode)
{
	return producer_with(mode, HWT_S(600));
}

static atomic_uint looks;

static void count_look(const char *where)
{
	atomic_fetch_add(&looks, strcmp(where, "looked") == 0);
}

/* Works in this process, and would look by itself each twenty minutes: longer than anything is waited for. */
static hwt_store *seldom_looking(void)
{
	hwt_store *store = producer_with(HWT_STORE_AT_LEAST_ONCE, HWT_S(3600));

	log_open(world.log);
	atomic_store(&looks, 0);
	atomic_store(&hwts_test_at, count_look);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
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

/* The log has each of count ids, and none early; returns the starts. */
static size_t check_log(size_t count)
{
	size_t starts, early;

	CHECK_INT(log_ids(&starts, &early), ==, count);
	CHECK_INT(early, ==, 0);
	return starts;
}

TEST(two_processes_share_the_work_and_nothing_runs_twice)
{
	hwt_store *store = producer(HWT_STORE_AT_LEAST_ONCE);
	pid_t one, two;
	size_t count, of_one = 0;
	struct start *starts;

	put_batch(store, 100, HWT_S(10000), 1);
	one = spawn("work", "0", "0", LONG_LEASE, NULL);
	two = spawn("work", "0", "0", LONG_LEASE, NULL);
	CHECK(wait_owners(store, 2));
	put_batch(store, 400, 0, HWT_MS(1));
	CHECK(wait_log(400));
	end_child(one);
	end_child(two);
	CHECK_INT(check_log(400), ==, 400);
	starts = log_read(&count);
	for (size_t i = 0; i < count; i++)
		of_one += starts[i].pid == one;
	CHECK(of_one > 0 && of_one < 400);
	free(starts);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* How many processes own a shard of what was put far ahead. */
static size_t count_owners(hwt_store *store)
{
	struct owners owners = { .count = 0 };

	CHECK_CALL(hwt_store_each(store, "a", 1u << HWT_STORE_PENDING, note_owner, &owners), 0);
	return owners.count;
}

/* At once: it has given what it held when the stop returns, and the other one takes that without a lease that ends. */
TEST(a_stop_hands_over_at_once)
{
	hwt_store *store = seldom_looking();
	pid_t one;

	put_batch(store, 100, HWT_S(10000), 1);
	one = spawn("work", "0", "0", LONG_LEASE, NULL);
	CHECK(wait_owners(store, 2));
	put_batch(store, 300, 0, HWT_MS(1));
	CHECK(wait_log(100));
	end_child(one);
	CHECK_INT(count_owners(store), ==, 1);
	CHECK(wait_held(store, 8));
	CHECK(wait_log(300));
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_INT(count_owners(store), ==, 0);
	CHECK_INT(check_log(300), ==, 300);
	CHECK_INT(stats_of_store(store).taken_over, ==, 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK_CALL(hwt_store_close(store), 0);
}

#ifdef HWT_STORE_SQLITE
/* SQLite: a process that is stopped inside a write transaction keeps the lock, and holds everybody up. */
static bool nobody_writes(void)
{
	sqlite3 *handle = NULL;
	bool nobody = false;

	if (!world.sqlite)
		return true;
	if (sqlite3_open_v2(world.url + strlen("sqlite:"), &handle, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK) {
		(void)sqlite3_busy_timeout(handle, 100);
		nobody = sqlite3_exec(handle, "begin immediate; rollback", NULL, NULL, NULL) == SQLITE_OK;
	}
	(void)sqlite3_close(handle);
	return nobody;
}
#else
static bool nobody_writes(void)
{
	return true;
}
#endif

/* Stops a process at a moment at which it has no lock; false: it always had one.  The pauses grow: it goes on. */
static bool stop_child(pid_t pid)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;

	for (int pause_ms = 1; hwt_now() < give_up_ns; pause_ms += pause_ms < 200) {
		int status;

		CHECK_INT(kill(pid, SIGSTOP), ==, 0);
		CHECK_INT(waitpid(pid, &status, WUNTRACED), ==, pid); /* it stands still */
		if (nobody_writes())
			return true;
		CHECK_INT(kill(pid, SIGCONT), ==, 0);
		sleep_ms(pause_ms);
	}
	return false;
}

/* Until the store has looked so often again. */
static void look_again(hwt_store *store, unsigned times)
{
	for (; times > 0; times--) {
		unsigned next = atomic_load(&looks) + 1;

		look_now(store);
		CHECK(wait_count(&looks, next));
	}
}

/*
 * The holder knows from its last look when the lease of the other one would end, and looks again then: it finds that
 * the lease was renewed until the signal, and at the look after that it takes all.  One look may have been under way.
 */
static void take_over_after(int signal)
{
	hwt_store *store = seldom_looking();
	unsigned before;
	pid_t one;

	put_batch(store, 100, HWT_S(10000), 1);
	one = spawn("work", "0", "0", SHORT_LEASE, NULL);
	CHECK(wait_owners(store, 2));
	look_again(store, 1); /* it has seen what the other one holds */
	put_batch(store, 100, 0, HWT_MS(1));
	CHECK(wait_log(50));
	if (signal == SIGSTOP)
		REQUIRE(stop_child(one));
	else
		CHECK_INT(kill(one, signal), ==, 0);
	before = atomic_load(&looks);
	CHECK(wait_held(store, 8));
	CHECK_INT(atomic_load(&looks) - before, <=, 3);
	CHECK_INT(stats_of_store(store).taken_over, >, 0);
	put_batch(store, 100, 0, HWT_MS(1));
	CHECK(wait_log(200));
	if (signal == SIGSTOP) {
		/* It finds that its lease is lost, and takes its share again. */
		CHECK_INT(kill(one, SIGCONT), ==, 0);
		CHECK(wait_owners(store, 2));
		put_batch(store, 100, 0, HWT_MS(1));
		CHECK(wait_log(300));
		end_child(one);
	} else {
		kill_child(one);
	}
	check_log(signal == SIGSTOP ? 300 : 200);
	atomic_store(&hwts_test_at, NULL);
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(what_a_killed_process_held_is_taken_at_the_look_after_the_end_of_its_lease)
{
	take_over_after(SIGKILL);
}

TEST(what_a_stopped_process_held_is_taken_at_the_look_after_the_end_of_its_lease)
{
	take_over_after(SIGSTOP);
}

/* As a restarted service does. */
TEST(a_process_that_is_started_again_under_its_name_gets_its_shards_at_once)
{
	hwt_store *store = producer(HWT_STORE_AT_LEAST_ONCE);
	pid_t one = spawn("work", "0", "0", LONG_LEASE, "0", "service", NULL), two;

	put_batch(store, 1, 0, 1);
	CHECK(wait_log(1));
	kill_child(one);
	put_batch(store, 50, 0, 1);
	two = spawn("work", "0", "0", LONG_LEASE, "0", "service", NULL);
	CHECK(wait_log(51));
	end_child(two);
	CHECK_INT(check_log(51), >=, 51);
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(two_processes_of_one_name_do_not_rob_each_other)
{
	hwt_store *store = producer(HWT_STORE_AT_LEAST_ONCE);
	pid_t one, two;

	put_batch(store, 100, HWT_S(10000), 1);
	one = spawn("work", "0", "0", QUICK_RENEWALS, "0", "same", NULL);
	put_batch(store, 1, 0, 1);
	CHECK(wait_log(1));
	two = spawn("work", "0", "0", QUICK_RENEWALS, "0", "same", NULL);
	CHECK(wait_owners(store, 2)); /* one of them has taken another name */
	put_batch(store, 200, 0, HWT_MS(1));
	CHECK(wait_log(201));
	end_child(one);
	end_child(two);
	check_log(201);
	CHECK_CALL(hwt_store_close(store), 0);
}

static hwt_store *_Atomic taker;
static atomic_uint taking;

static pthread_t starter; /* whose own look finds nothing to take: the other one gives when the start is over */
static atomic_uint may_give;

/* A take of control goes on when the stop has begun. */
static void take_during_stop(const char *where)
{
	hwt_store *store = atomic_load(&taker);

	if (pthread_equal(pthread_self(), starter))
		return;
	if (strcmp(where, "renewed") == 0)
		CHECK(wait_count(&may_give, 1));
	for (bool started = strcmp(where, "take") == 0; started; sleep_ms(1)) {
		atomic_store(&taking, 1);
		pthread_mutex_lock(&store->lock);
		started = hwts_phase(store) == HWTS_STARTED;
		pthread_mutex_unlock(&store->lock);
	}
}

TEST(a_stop_that_meets_a_take_gives_back_what_was_taken)
{
	hwt_store *store = producer(HWT_STORE_AT_LEAST_ONCE), *other = open_store();

	register_kind(other, "a", work, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(other), 0);
	CHECK(wait_held(other, 8));
	atomic_store(&taking, 0);
	atomic_store(&taker, store);
	starter = pthread_self();
	atomic_store(&may_give, 0);
	atomic_store(&hwts_test_at, take_during_stop);
	CHECK_CALL(hwt_store_start(store), 0);
	atomic_store(&may_give, 1);
	CHECK(wait_count(&taking, 1)); /* it takes what the other one gives */
	CHECK_CALL(hwt_store_stop(store), 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK(wait_held(other, 8));
	CHECK_INT(stats_of_store(other).taken_over, ==, 0); /* they were given, not left to the lease */
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

/*
 * Kills at chosen points, and at random ones
 */

/* Until each has run, or is FAILED; false: patience has ended, and nothing went on. */
static bool wait_none_left(hwt_store *store)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;

	for (size_t before = SIZE_MAX; hwt_now() < give_up_ns; sleep_ms(10)) {
		struct owners left = { .count = 0 };

		CHECK_CALL(
		    hwt_store_each(store, "a", 1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING, note_owner, &left),
		    0);
		if (left.rows == 0)
			return true;
		if (left.rows != before)
			give_up_ns = hwt_now() + PATIENCE_NS;
		before = left.rows;
	}
	return false;
}

static void die_at_point(const char *point, unsigned mode)
{
	hwt_store *store = producer(mode);
	char mode_text[4];
	size_t starts, early, ids, failed = 0;
	struct owners left = { .count = 0 };
	pid_t one, two;

	(void)snprintf(mode_text, sizeof(mode_text), "%u", mode);
	put_batch(store, 100, HWT_MS(300), HWT_MS(2));
	/* Begins and ends share commits: where all is due before it starts, there may be one of each. */
	one = spawn("work", mode_text, "0", LONG_LEASE, "0", "", point, strcmp(point, "ran") == 0 ? "5" : "1", NULL);
	{
		int status;

		CHECK_INT(waitpid(one, &status, 0), ==, one);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	(void)query("update %s_member set until_us = 1", world.schema); /* the end of its lease */
	two = spawn("work", mode_text, "0", LONG_LEASE, NULL);
	CHECK(wait_none_left(store));
	end_child(two);
	memset(&left, 0, sizeof(left));
	CHECK_CALL(hwt_store_each(store, "a", 1u << HWT_STORE_FAILED, note_owner, &left), 0);
	failed = left.rows;
	ids = log_ids(&starts, &early);
	CHECK_INT(early, ==, 0);
	if (mode == HWT_STORE_AT_MOST_ONCE) {
		CHECK_INT(starts, ==, ids); /* none twice */
		CHECK_INT(ids + failed, >=, 100);
	} else {
		CHECK_INT(ids, ==, 100);
		CHECK_INT(failed, ==, 0);
	}
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(a_process_that_dies_after_its_begin_loses_nothing)
{
	die_at_point("begun", HWT_STORE_AT_LEAST_ONCE);
}

TEST(a_process_that_dies_after_a_task_loses_nothing)
{
	die_at_point("ran", HWT_STORE_AT_LEAST_ONCE);
}

TEST(a_process_that_dies_after_an_end_loses_nothing)
{
	die_at_point("ended", HWT_STORE_AT_LEAST_ONCE);
}

TEST(at_most_once_survives_a_death_after_the_begin)
{
	die_at_point("begun", HWT_STORE_AT_MOST_ONCE);
}

TEST(at_most_once_survives_a_death_after_a_task)
{
	die_at_point("ran", HWT_STORE_AT_MOST_ONCE);
}

static void kill_at_random(unsigned mode)
{
	enum { ROUNDS = 4, COUNT = 600 };
	static const char *const names[] = { "one", "two" };
	struct prng prng = { test_seed("kill_at_random") };
	hwt_store *store = producer(mode);
	char mode_text[4];
	pid_t workers[2];
	size_t starts, early, ids;
	struct owners left = { .count = 0 };

	(void)snprintf(mode_text, sizeof(mode_text), "%u", mode);
	put_batch(store, COUNT, 0, HWT_MS(2));
	for (int i = 0; i < 2; i++)
		workers[i] = spawn("work", mode_text, "300", LONG_LEASE, "0", names[i], NULL);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(wait_log((size_t)(i * 80 + prng_between(&prng, 1, 80))));
		kill_child(workers[i % 2]);
		workers[i % 2] = spawn("work", mode_text, "300", LONG_LEASE, "0", names[i % 2], NULL);
	}
	CHECK(wait_none_left(store));
	end_child(workers[0]);
	end_child(workers[1]);
	memset(&left, 0, sizeof(left));
	CHECK_CALL(hwt_store_each(store, "a", 1u << HWT_STORE_FAILED, note_owner, &left), 0);
	ids = log_ids(&starts, &early);
	CHECK_INT(early, ==, 0);
	if (mode == HWT_STORE_AT_MOST_ONCE) {
		CHECK_INT(starts, ==, ids);
		CHECK_INT(ids + left.rows, >=, COUNT);
		CHECK_INT(left.rows, <=, ROUNDS * 64); /* four run, and some have ended with no commit yet */
	} else {
		CHECK_INT(ids, ==, COUNT);
		CHECK_INT(left.rows, ==, 0);
	}
	printf("# %zu starts, %zu ids, %zu failed\n", starts, ids, left.rows);
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(at_least_once_survives_kills_at_random)
{
	kill_at_random(HWT_STORE_AT_LEAST_ONCE);
}

TEST(at_most_once_survives_kills_at_random)
{
	kill_at_random(HWT_STORE_AT_MOST_ONCE);
}

TEST(puts_survive_the_death_of_the_putter)
{
	hwt_store *store;
	struct owners there = { .count = 0 };
	pid_t pid;

	fresh_world();
	store = open_store();
	pid = spawn("put", "1000000", "0", "1000000000", NULL);
	for (int64_t until_ns = hwt_now() + PATIENCE_NS; hwt_now() < until_ns && there.rows < 20; sleep_ms(20)) {
		memset(&there, 0, sizeof(there));
		(void)hwt_store_each(store, "a", 1u << HWT_STORE_PENDING, note_owner, &there);
	}
	kill_child(pid);
	CHECK_INT(there.rows, >=, 20);
	{
		struct owners after = { .count = 0 };

		CHECK_CALL(hwt_store_each(store, "a", 1u << HWT_STORE_PENDING, note_owner, &after), 0);
		CHECK_INT(after.rows, >=, there.rows);
	}
	CHECK_CALL(hwt_store_close(store), 0);
}

/*
 * News
 */

/*
 * A holder in this process; children put into its window, hundreds of times.  Its next look is twenty minutes away, so
 * only news can be why they run.  How soon they come make bench-store says.
 */
TEST(what_another_process_puts_is_known_by_its_news)
{
	hwt_store *store = seldom_looking();
	unsigned rescued = atomic_load(&hwts_test_rescued);
	pid_t putters[3];

	putters[0] = spawn("put", "200", "1000", "0", NULL);
	putters[1] = spawn("put", "200", "700", "50000", NULL);
	putters[2] = spawn("put", "200", "900", "1990000", NULL);
	for (int i = 0; i < 3; i++) {
		int status = -1;

		CHECK_INT(waitpid(putters[i], &status, 0), ==, putters[i]);
		CHECK_INT(status, ==, 0);
	}
	CHECK(wait_log(600));
	CHECK_INT(check_log(600), ==, 600);
	CHECK_INT(atomic_load(&hwts_test_rescued), ==, rescued);
	atomic_store(&hwts_test_at, NULL);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* Of one configuration file: the putter must not think that it is the worker, who then hears of nothing. */
TEST(what_a_putter_of_the_workers_name_puts_is_known_by_its_news)
{
	hwt_store_config config;
	hwt_store *worker, *putter;

	fresh_world();
	config = store_config();
	config.name = "worker";
	worker = open_with(&config);
	putter = open_with(&config);
	register_kind(worker, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(worker), 0);
	CHECK(wait_gone(worker, put(putter, "a", 0)));
	CHECK_CALL(hwt_store_close(putter), 0);
	CHECK_CALL(hwt_store_close(worker), 0);
}

/* Its stop did not reach the database: a start of the same process need not wait for the end of its own lease. */
TEST(a_store_that_is_started_again_has_its_shards_at_once)
{
	hwt_store *store;

	fresh_world();
	store = open_store();
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
	CHECK_CALL(hwt_store_close(store), 0);
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
	hwt_store_spec spec = spec_of("a", 0);
	unsigned has[2] = { 0, 0 }, count = 0;
	int64_t id;

	spec.data = "x";
	spec.len = 1;
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
	hwt_store_config config;
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store;
	int64_t give_up_ns;
	unsigned longs;

	fresh_world();
	config = store_config();
	config.lease_ns = HWT_S(6);
	config.threads = 64;
	store = open_with(&config);
	kind.name = "a";
	kind.task = run_long_or_short;
	kind.shards = 2;
	CHECK_CALL(hwt_store_register(store, &kind), 0);
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
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(what_is_put_at_the_far_edge_of_the_window_is_found)
{
	hwt_store *store = producer_with(HWT_STORE_AT_LEAST_ONCE, HWT_S(2));
	unsigned rescued = atomic_load(&hwts_test_rescued);
	pid_t putter;

	log_open(world.log);
	CHECK_CALL(hwt_store_start(store), 0);
	putter = spawn("put", "600", "500", "4999000", NULL); /* the horizon is 5 s */
	{
		int status = -1;

		CHECK_INT(waitpid(putter, &status, 0), ==, putter);
	}
	CHECK(wait_log(600));
	check_log(600);
	CHECK_INT(atomic_load(&hwts_test_rescued), ==, rescued); /* the look has found them, not the net */
	CHECK_CALL(hwt_store_close(store), 0);
}

static hwt_store *_Atomic puts_while_it_looks;
static atomic_uint put_while_it_looked;

/* Between the reading of a look-ahead and its marks: due beyond the old mark and before the new one. */
static void put_after_look(const char *where)
{
	hwt_store *store = atomic_load(&puts_while_it_looks);

	if (!store || strcmp(where, "looked") != 0 || atomic_load(&put_while_it_looked) == 6)
		return;
	put(store, "a", HWT_MS(600));
	atomic_fetch_add(&put_while_it_looked, 1);
}

TEST(what_is_put_while_the_holder_looks_ahead_is_not_passed_over)
{
	hwt_store_config config;
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store;
	unsigned rescued = atomic_load(&hwts_test_rescued);

	fresh_world();
	log_open(world.log);
	config = store_config();
	config.lease_ns = HWT_S(1); /* a look each 333 ms moves the mark so far */
	store = open_with(&config);
	kind.name = "a";
	kind.task = work;
	kind.horizon_ns = HWT_MS(700);
	CHECK_CALL(hwt_store_register(store, &kind), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	atomic_store(&looks, 0);
	atomic_store(&hwts_test_at, count_look);
	CHECK(wait_count(&looks, 3)); /* those of the start are over */
	atomic_store(&put_while_it_looked, 0);
	atomic_store(&hwts_test_at, put_after_look);
	atomic_store(&puts_while_it_looks, store);
	CHECK(wait_count(&put_while_it_looked, 6));
	atomic_store(&puts_while_it_looks, NULL);
	atomic_store(&hwts_test_at, NULL);
	CHECK(wait_log(6));
	check_log(6);
	CHECK_INT(atomic_load(&hwts_test_rescued), ==, rescued);
	CHECK_CALL(hwt_store_close(store), 0);
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
	check_log(30);
	CHECK_INT(atomic_load(&hwts_test_rescued), ==, rescued); /* the look has found them, not the net */
	atomic_store(&hwts_test_deaf, false);
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* A call that comes after the run has begun says so: then the run counts. */
TEST(a_cancel_by_another_process_holds)
{
	hwt_store *store = producer(HWT_STORE_AT_LEAST_ONCE), *other;
	hwt_store_spec specs[40];
	size_t left = 40;
	int64_t ids[40], give_up_ns;

	log_open(world.log);
	CHECK_CALL(hwt_store_start(store), 0);
	other = open_store();
	for (int i = 0; i < 40; i++)
		specs[i] = spec_of("a", HWT_S(1));
	CHECK_CALL(hwt_store_put_many(store, specs, 40, ids), 0);
	for (int i = 0; i < 40; i++) {
		int rc;

		PATIENTLY(rc, i % 2 == 0   ? hwt_store_cancel(other, ids[i])
			      : i % 4 == 1 ? hwt_store_reschedule(other, ids[i], 0)
					   : 0);
		CHECK(rc == 0 || rc == EBUSY || rc == ENOENT);
		left -= i % 2 == 0 && rc == 0;
	}
	CHECK(wait_log(left));
	give_up_ns = hwt_now() + PATIENCE_NS; /* until the holder has tried the others in vain */
	while (stats_of_store(store).window > 0 && hwt_now() < give_up_ns)
		sleep_ms(5);
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_INT(check_log(left), ==, left);
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

/*
 * Clocks
 */

TEST(a_process_whose_clock_is_wrong_begins_nothing_early)
{
	hwt_store *store = producer(HWT_STORE_AT_LEAST_ONCE);
	pid_t one;

	if (world.sqlite) { /* there the wall clock is the database's clock */
		CHECK_CALL(hwt_store_close(store), 0);
		SKIP("the wall clock is the clock of a SQLite database");
	}
	one = spawn("work", "0", "0", LONG_LEASE, "7200000000", NULL); /* two hours ahead */
	put_batch(store, 200, HWT_MS(200), HWT_MS(3));
	CHECK(wait_log(200));
	end_child(one);
	CHECK_INT(check_log(200), ==, 200);
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(steps_of_the_wall_clock_take_no_lease_and_start_nothing_early)
{
	hwt_store *store = seldom_looking();
	int64_t id = put(store, "a", HWT_S(3600)), soon;
	hwt_store_info info = HWT_STORE_INFO_INIT;

	/* Two hours ahead: on SQLite it is due now; PostgreSQL's clock has not moved. */
	atomic_store(&hwts_test_wall_us, INT64_C(7200000000));
	look_again(store, 3);
	if (world.sqlite)
		CHECK(wait_gone(store, id));
	else
		CHECK_CALL(hwt_store_get(store, id, &info), 0);
	CHECK_INT(stats_of_store(store).lost_leases, ==, 0);
	/* And back again: what is put now is due by the new clock. */
	atomic_store(&hwts_test_wall_us, 0);
	for (int i = 0; i < 2; i++) {
		soon = put(store, "a", HWT_MS(50));
		hwts_hear_news(store, &(struct hwts_due){ .id = -1 }); /* as control does when the clock was set */
		look_again(store, 1);
		CHECK(wait_gone(store, soon));
	}
	CHECK_INT(stats_of_store(store).lost_leases, ==, 0);
	CHECK_INT(stats_of_store(store).shards_held, ==, 8);
	atomic_store(&hwts_test_at, NULL);
	CHECK_CALL(hwt_store_close(store), 0);
}

/*
 * Idle, far
 */

#define ROUND 6 /* looks */

/* At each look, by the thread that looks: what it reads is no older than the look. */
struct look_note {
	int64_t at_ns;
	uint64_t round_trips, lost_leases;
	bool by_control; /* it went with a renewal */
};

static struct look_note notes[200];
static hwt_store *noted;

static void note_look(const char *where)
{
	unsigned look = atomic_load(&looks);

	if (strcmp(where, "looked") != 0)
		return;
	if (look < HWTS_COUNT(notes)) {
		pthread_mutex_lock(&noted->lock);
		notes[look].lost_leases = noted->tally->stats.lost_leases;
		pthread_mutex_unlock(&noted->lock);
		notes[look].round_trips = atomic_load(&noted->db->round_trips);
		notes[look].by_control = IS_CONTROL(noted);
		notes[look].at_ns = hwt_now();
	}
	atomic_store(&looks, look + 1);
}

static bool is_quiet(const struct look_note *first)
{
	bool is = first->lost_leases == first[ROUND].lost_leases;

	for (unsigned i = 0; i <= ROUND; i++)
		is = is && first[i].by_control;
	return is;
}

/*
 * The first note of a round in which no lease was lost, and no look took longer than a renewal waits for it: who stands
 * still for long loses the lease, and takes again.
 */
static struct look_note *quiet_round(void)
{
	unsigned first = 4;

	for (; first + 2 * ROUND < HWTS_COUNT(notes); first += ROUND) {
		REQUIRE(wait_count(&looks, first + ROUND + 1));
		if (is_quiet(&notes[first]))
			break;
	}
	return &notes[first];
}

/* A renewal comes no sooner than a third of the lease after the one before, and there is nothing else. */
TEST(an_idle_process_makes_one_round_trip_each_third_of_its_lease)
{
	struct look_note *first, *last;

	noted = producer_with(HWT_STORE_AT_LEAST_ONCE, HWT_S(1));
	put_batch(noted, 2000, HWT_S(100000), HWT_S(1));
	atomic_store(&looks, 0);
	atomic_store(&hwts_test_at, note_look);
	CHECK_CALL(hwt_store_start(noted), 0);
	first = quiet_round();
	last = first + ROUND;
	CHECK(is_quiet(first));
	CHECK_INT(last->at_ns - first->at_ns, >=, HWT_S(1) / 3 * (ROUND - 1)); /* the first may have been late */
	CHECK_INT(last->round_trips - first->round_trips, ==, ROUND);          /* a renewal, and a look with it */
	CHECK_INT(stats_of_store(noted).window, ==, 0);
	CHECK_CALL(hwt_store_stop(noted), 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK_CALL(hwt_store_close(noted), 0);
}

STORE_MAIN(child)
