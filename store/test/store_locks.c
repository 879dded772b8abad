/* SPDX-License-Identifier: BSD-2-Clause */
/* A transaction of a user that keeps a row locked, or the file: rows and calls that need neither go on. */
#include "store_query.h"

#include "inside.h"

#ifdef HWT_STORE_SQLITE
#include "db/sqlite.h"
#endif

#ifdef HWT_STORE_POSTGRES
/* Wraps the real engine, and counts the exchanges that a lock has prevented. */
static const struct hwts_engine *real;
static atomic_uint locked_out;

static int count_run_locked(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	int rc = real->run(conn, steps, n, flags);

	atomic_fetch_add(&locked_out, rc == EAGAIN);
	return rc;
}

static void count_locks(hwt_store *store)
{
	static struct hwts_engine front;

	real = store->engine;
	front = *real;
	front.run = count_run_locked;
	atomic_store(&locked_out, 0);
	store->engine = store->db->engine = &front;
}

static PGconn *lock_row(int64_t id)
{
	PGconn *conn = connect_user();

	CHECK(
	    user_sql(conn, "begin; select 1 from %s_timeout where id = %lld for update", world.schema, (long long)id));
	return conn;
}

static atomic_bool held;

static int wait_if_keyed(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	while (run->key && atomic_load(&held))
		sleep_ms(1);
	atomic_fetch_add(&ran, 1);
	return 0;
}

static hwt_store *opened(void)
{
	hwt_store *store = fresh_store();

	register_kind(store, "a", wait_if_keyed, NULL, HWT_STORE_AT_LEAST_ONCE);
	atomic_store(&held, true);
	count_locks(store);
	return store;
}

TEST(a_row_that_is_due_and_locked_delays_one_begin)
{
	NEEDS_POSTGRES(); /* SQLite has no locks of rows */
	CLOSING hwt_store *store = opened();
	int64_t id = put(store, "a", 0);
	USER *conn = lock_row(id);

	CHECK_CALL(hwt_store_start(store), 0);
	for (unsigned i = 1; i <= 60; i++) {
		put(store, "a", 0);
		WAIT_FOR(stats_of_store(store).done == i);
	}
	CHECK_INT(atomic_load(&locked_out), <=, 2);
	CHECK(user_sql(conn, "rollback"));
	CHECK(wait_gone(store, id));
}

/* Rows of another table of the store are locked, those of one shard or of all (-1): due rows of other shards run. */
static void check_locked(hwt_store *store, const char *table, const char *which, int32_t shard)
{
	const uint64_t done = stats_of_store(store).done;
	const unsigned count = 32;
	USER *conn = connect_user();
	unsigned others = 0;

	CHECK(user_sql(conn, "begin"));
	CHECK(user_sql(conn, "select 1 from %s_%s%s for update", world.schema, table, which));
	for (unsigned i = 0; i < count; i++)
		others += hwts_shard_of(&store->kinds->row, put(store, "a", 0)) != shard;
	WAIT_FOR(stats_of_store(store).done == done + others);
	CHECK(user_sql(conn, "rollback"));
	WAIT_FOR(stats_of_store(store).done == done + count);
}

TEST(locked_rows_of_other_tables_hold_up_no_run)
{
	NEEDS_POSTGRES(); /* SQLite has no locks of rows */
	CLOSING hwt_store *store = opened();
	char which[64];

	CHECK_CALL(hwt_store_limit(store, "a", "g", &LIMITS(.running = 1000)), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	check_locked(store, "kind", "", -1);
	check_locked(store, "member", "", -1);
	check_locked(store, "group", "", -1);
	(void)snprintf(which, sizeof(which), " where id = %d", (int)store->kinds->shards[3].id);
	check_locked(store, "shard", which, store->kinds->shards[3].id);
}

/*
 * A process that died had all shards but one.  The locks of a user are in the way of some shards: the others are taken,
 * and these once the locks are gone, not at the next renewal, which is far off.
 */
static void check_taken(const char *table, const char *which, uint64_t others)
{
	CLOSING hwt_store *store = opened();
	USER *conn = connect_user();

	(void)query("insert into %s_member (name, incarnation, until_us, kinds) values ('dead', 7, 1, '{1}')",
		    world.schema);
	(void)query("update %s_shard set owner = 'dead', epoch = 1 where id %% 1024 <> 0", world.schema);
	CHECK(user_sql(conn, "begin"));
	CHECK(user_sql(conn, "select 1 from %s_%s where %s for update", world.schema, table, which));
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_INT(stats_of_store(store).shards_held, ==, others);
	CHECK(user_sql(conn, "rollback"));
	CHECK(wait_held(store, 8));
}

TEST(a_shard_that_is_locked_keeps_no_other_from_being_taken)
{
	NEEDS_POSTGRES(); /* SQLite has no locks of rows */
	check_taken("shard", "id % 1024 = 3", 7);
}

TEST(the_shards_of_a_dead_member_that_is_locked_are_taken_once_it_is_not)
{
	NEEDS_POSTGRES(); /* SQLite has no locks of rows */
	check_taken("member", "name = 'dead'", 1);
}

TEST(a_process_starts_while_a_transaction_has_made_a_kind)
{
	NEEDS_POSTGRES(); /* SQLite has one transaction that writes */
	CLOSING hwt_store *store = opened();
	USER *conn = connect_user();

	CHECK(user_sql(conn, "begin; select %s_make_kind('new')", world.schema));
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	CHECK_INT(atomic_load(&locked_out), ==, 0);
	CHECK(user_sql(conn, "commit"));
	CHECK_INT(query("select count(*) from %s_shard", world.schema), ==, 16);
}

/* Waits until n statements wait for locks of a user's transaction. */
static void wait_locked(int n)
{
	WAIT_FOR(query("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") >= n);
}

#define KEYS 9

struct many {
	hwt_store *store;
	bool backwards;
	int rc;
};

static void *put_keys(void *arg)
{
	struct many *many = arg;
	hwt_store_spec specs[KEYS];
	char keys[KEYS][2];

	for (int i = 0; i < KEYS; i++) {
		keys[i][0] = (char)('a' + (many->backwards ? KEYS - 1 - i : i));
		keys[i][1] = '\0';
		specs[i] = SPEC("a", HWT_S(1000), .key = keys[i], .flags = HWT_STORE_REPLACE);
	}
	many->rc = hwt_store_put_many(many->store, specs, KEYS, NULL);
	return NULL;
}

/* The row in the middle is locked, so both batches hold the rows before it when the lock goes. */
TEST(batches_that_put_the_same_keys_in_opposite_orders_do_not_lock_each_other_out)
{
	NEEDS_POSTGRES(); /* SQLite has no locks of rows */
	CLOSING hwt_store *store = opened();
	hwt_store_info info = HWT_STORE_INFO_INIT;
	struct many many[2] = { { store, false, 0 }, { store, true, 0 } };
	pthread_t threads[2];

	(void)put_keys(&many[0]);
	CHECK_INT(many[0].rc, ==, 0);
	CHECK_CALL(hwt_store_get_key(store, "a", "e", &info), 0);
	USER *conn = lock_row(info.id);
	for (int i = 0; i < 2; i++) {
		REQUIRE(pthread_create(&threads[i], NULL, put_keys, &many[i]) == 0);
		wait_locked(i + 1);
	}
	CHECK(user_sql(conn, "commit"));
	for (int i = 0; i < 2; i++) {
		REQUIRE(pthread_join(threads[i], NULL) == 0);
		CHECK_INT(many[i].rc, ==, 0);
	}
}

struct other {
	hwt_store *store;
	int64_t id;
};

static void *cancel_locked(void *arg)
{
	const struct other *other = arg;

	CHECK_INT(hwt_store_cancel(other->store, other->id), ==, 0); /* not EAGAIN */
	return NULL;
}

TEST(a_cancel_does_not_wait_for_one_that_waits_for_its_own_transaction)
{
	NEEDS_POSTGRES(); /* SQLite has no locks of rows */
	CLOSING hwt_store *store = opened();
	struct other other = { store, put(store, "a", HWT_S(1000)) };
	int64_t id = put(store, "a", HWT_S(1000));
	USER *conn = lock_row(other.id);
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, cancel_locked, &other) == 0);
	wait_locked(1);
	CHECK_CALL(hwt_store_cancel(store, id), 0);
	CHECK(user_sql(conn, "commit"));
	REQUIRE(pthread_join(thread, NULL) == 0);
}
#endif

#ifdef HWT_STORE_SQLITE
static pthread_mutex_t users = PTHREAD_MUTEX_INITIALIZER;

static int want_mutex(const hwt_store_run *run, void *ctx)
{
	(void)run;
	(void)ctx;
	atomic_fetch_add(&ran, 1);
	pthread_mutex_lock(&users);
	pthread_mutex_unlock(&users);
	return 0;
}

/* The writer of a file, and the number of threads of this process that wait to write. */
struct writers {
	const struct sqlite_waiter *first;
	bool has_writer;
	unsigned waiting;
};

static struct writers writers_of(struct sqlite_db *db)
{
	struct writers writers;

	pthread_mutex_lock(&db->lock);
	writers = (struct writers){ db->waiting, db->has_writer, 0 };
	for (const struct sqlite_waiter *waiter = db->waiting; waiter; waiter = waiter->next)
		writers.waiting++;
	pthread_mutex_unlock(&db->lock);
	return writers;
}

static void *holder; /* a user's connection */
static atomic_uint strangers;

/* Called once a row is begun, and before its transaction. */
static void hold_the_file(const char *at)
{
	if (strcmp(at, "begun") != 0 || holder)
		return;
	holder = connect_user();
	CHECK(user_sql(holder, "begin immediate"));
}

static int look_whose(const hwt_store_run *run, void *ctx)
{
	atomic_fetch_add(&strangers, !hwt_store_is_mine(run));
	return count_run(run, ctx);
}

/* The lease has ended meanwhile, so another process may have begun the row. */
TEST(a_transaction_that_has_waited_for_the_file_for_longer_than_the_lease_does_not_start)
{
	NEEDS_SQLITE(); /* PostgreSQL begins it at once */
	CLOSING hwt_store *store = fresh_store();

	holder = NULL;
	atomic_store(&strangers, 0);
	register_kind(store, "a", look_whose, NULL, HWT_STORE_TRANSACTION);
	(void)put(store, "a", 0);
	atomic_store(&hwts_test_at, hold_the_file);
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(stats_of_store(store).begun == 1 && writers_of((struct sqlite_db *)store->db).has_writer);
	atomic_store(&hwts_test_boot_ns, HWT_S(601));
	CHECK(user_sql(holder, "rollback"));
	disconnect_user(holder);
	atomic_store(&hwts_test_at, NULL);
	look_now(store); /* and takes the shards again */
	CHECK(wait_count(&ran, 1));
	CHECK_INT(atomic_load(&strangers), ==, 0);
	CHECK_CALL(hwt_store_stop(store), 0);
	atomic_store(&hwts_test_boot_ns, 0);
}

struct turn {
	struct sqlite_db *db;
	bool first;
	unsigned *order, got;
};

static void *write_once(void *arg)
{
	struct turn *turn = arg;

	CHECK(hwts_sqlite_write_lock(turn->db, hwt_now() + PATIENCE_NS, turn->first));
	turn->got = ++*turn->order;
	hwts_sqlite_write_unlock(turn->db);
	return NULL;
}

TEST(a_put_under_a_mutex_that_a_transaction_wants_ends)
{
	NEEDS_SQLITE(); /* PostgreSQL locks rows */
	hwt_store_spec spec = spec_of("a", HWT_S(1000));
	CLOSING hwt_store *store = fresh_store();
	int64_t id;

	((struct sqlite_db *)store->db)->patience_ns = HWT_MS(200);
	pthread_mutex_lock(&users);
	(void)run_tasks(store, want_mutex, HWT_STORE_TRANSACTION);
	id = put(store, "a", 0);
	CHECK(wait_count(&ran, 1));
	CHECK_CALL(hwt_store_put(store, &spec, NULL), EAGAIN);
	pthread_mutex_unlock(&users);
	CHECK(wait_gone(store, id));
	CHECK_CALL(hwt_store_put(store, &spec, NULL), 0);
}

TEST(control_goes_before_all_that_wait_to_write)
{
	NEEDS_SQLITE(); /* PostgreSQL locks rows */
	CLOSING hwt_store *store = fresh_store();
	struct sqlite_db *db = (struct sqlite_db *)store->db;
	unsigned order = 0;
	struct turn turns[4];
	pthread_t threads[4];

	REQUIRE(hwts_sqlite_write_lock(db, hwt_now() + PATIENCE_NS, false));
	CHECK(!hwts_sqlite_write_lock(db, hwt_now() + HWT_MS(1), false)); /* this wait gives up, and leaves the queue */
	for (unsigned i = 0; i < 4; i++) {
		turns[i] = (struct turn){ db, i == 3, &order, 0 };
		REQUIRE(pthread_create(&threads[i], NULL, write_once, &turns[i]) == 0);
		WAIT_FOR(writers_of(db).waiting > i);
	}
	hwts_sqlite_write_unlock(db);
	for (unsigned i = 0; i < 4; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	CHECK_INT(turns[3].got, ==, 1);
	for (unsigned i = 0; i < 3; i++)
		CHECK_INT(turns[i].got, ==, i + 2);
}

static void *write_as_control(void *arg)
{
	CHECK_INT(hwts_rows_bury(arg), ==, 0);
	return NULL;
}

/* As when hundreds of tasks have transactions one after the other: the lease must not wait for all of them. */
TEST(the_connection_of_control_is_the_next_to_write)
{
	NEEDS_SQLITE(); /* PostgreSQL locks rows */
	CLOSING hwt_store *store = fresh_store();
	struct sqlite_db *db = (struct sqlite_db *)store->db;
	const struct sqlite_waiter *before;
	struct hwts_conn *conn;
	unsigned order = 0;
	struct turn turn = { db, false, &order, 0 };
	pthread_t threads[2];

	REQUIRE(hwts_connect(store, HWTS_CONTROL, &conn) == 0);
	db->patience_ns = PATIENCE_NS;
	REQUIRE(hwts_sqlite_write_lock(db, hwt_now() + PATIENCE_NS, false));
	REQUIRE(pthread_create(&threads[0], NULL, write_once, &turn) == 0);
	WAIT_FOR(writers_of(db).waiting > 0);
	before = writers_of(db).first;
	REQUIRE(pthread_create(&threads[1], NULL, write_as_control, conn) == 0);
	WAIT_FOR(writers_of(db).first != before);
	hwts_sqlite_write_unlock(db);
	for (unsigned i = 0; i < 2; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	store->engine->disconnect(conn);
}

static void *start_it(void *store)
{
	CHECK_INT(hwt_store_start(store), ==, 0);
	return NULL;
}

/* Control itself waits for half of a lease. */
TEST(a_start_waits_for_the_file_for_longer_than_a_lease)
{
	NEEDS_SQLITE();
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(1));
	void *user = connect_user();
	pthread_t thread;

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK(user_sql(user, "begin immediate"));
	REQUIRE(pthread_create(&thread, NULL, start_it, store) == 0);
	sleep_ms(1500);
	CHECK(user_sql(user, "commit"));
	REQUIRE(pthread_join(thread, NULL) == 0);
	disconnect_user(user);
}
#endif

STORE_MAIN(NULL)
