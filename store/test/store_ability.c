/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that renews its lease and can do nothing else: others run what it holds. */
#include "store_query.h"

#include "inside.h"

#define ROWS 64 /* in all shards */

/* An engine in front of the real one, on whose connections for these (bits) nothing can be done. */
static const struct hwts_engine *real;
static atomic_uint unable, tried;
static atomic_bool connects; /* all the same */

static bool is_unable(enum hwts_role role)
{
	return (atomic_load(&unable) >> role & 1) != 0;
}

static int connect_or_not(struct hwts_db *db, enum hwts_role role, struct hwts_conn **conn)
{
	return is_unable(role) && !atomic_load(&connects) ? hwts_fail(ENOTCONN, "no connection is left")
							  : real->connect(db, role, conn);
}

static int run_or_not(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	if (!is_unable(conn->role))
		return real->run(conn, steps, n, flags);
	atomic_fetch_add(&tried, 1);
	conn->broken = true;
	return hwts_fail(ENOTCONN, "the connection broke");
}

static int open_run_or_not(struct hwts_conn *conn, void **handle)
{
	if (!is_unable(conn->role))
		return real->open_run(conn, handle);
	conn->broken = true;
	return hwts_fail(ENOTCONN, "the connection broke");
}

static void put_front_before(hwt_store *store)
{
	static struct hwts_engine front;

	real = store->engine;
	front = *real;
	front.connect = connect_or_not;
	front.run = run_or_not;
	front.open_run = open_run_or_not;
	store->engine = store->db->engine = &front;
}

static atomic_uint told;

static void hear(void *ctx, const char *message)
{
	(void)ctx;
	atomic_fetch_add(&told, strstr(message, "other processes may have its shards") != NULL);
}

static hwt_store *started(unsigned mode, bool has_front, uint64_t shards)
{
	hwt_store *store;

	store = OPEN(.lease_ns = HWT_S(1), .warn = hear);
	if (has_front)
		put_front_before(store);
	register_kind(store, "a", count_run, NULL, mode);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, shards));
	return store;
}

/* Until nothing is left to run. */
static bool wait_empty(void)
{
	WAIT_FOR(query("select count(*) from %s_timeout", world.schema) == 0);
	return query("select count(*) from %s_timeout", world.schema) == 0;
}

/* Of two processes that share the shards one becomes unable to do this. */
static void check_unable(enum hwts_role role, unsigned mode)
{
	hwt_store *one, *other;

	fresh_world();
	atomic_store(&told, 0);
	atomic_store(&unable, 0);
	one = started(mode, true, 8);
	other = started(mode, false, 4);
	CHECK(wait_held(one, 4));
	atomic_store(&unable, 1u << role);
	for (unsigned i = 0; i < ROWS; i++) /* while some wait the reader looks by itself */
		put(other, "a", role == HWTS_READ ? HWT_S(4) : 0);
	CHECK(wait_held(other, 8));
	CHECK(wait_empty());
	CHECK(wait_count(&told, 1));
	atomic_store(&unable, 0);
	CHECK(wait_held(one, 4)); /* it takes part again */
	CHECK_CALL(hwt_store_close(one), 0);
	CHECK_CALL(hwt_store_close(other), 0);
}

TEST(a_process_that_cannot_begin_leaves_its_shards_to_others)
{
	check_unable(HWTS_BEGIN, HWT_STORE_AT_LEAST_ONCE);
}

TEST(a_process_that_cannot_end_leaves_its_shards_and_what_has_run_to_others)
{
	check_unable(HWTS_END, HWT_STORE_AT_LEAST_ONCE);
}

TEST(a_process_that_cannot_read_leaves_its_shards_to_others)
{
	check_unable(HWTS_READ, HWT_STORE_AT_LEAST_ONCE);
}

TEST(a_process_that_cannot_open_transactions_leaves_its_shards_to_others)
{
	check_unable(HWTS_TASK, HWT_STORE_TRANSACTION);
}

/* It can begin again before any other could have begun anything. */
TEST(a_process_that_is_alone_keeps_its_shards_while_it_cannot_begin)
{
	int64_t epochs;

	fresh_world();
	atomic_store(&told, 0);
	atomic_store(&unable, 0);
	CLOSING hwt_store *store = started(HWT_STORE_AT_LEAST_ONCE, true, 8);
	atomic_store(&unable, 1u << HWTS_BEGIN);
	epochs = query("select sum(epoch) from %s_shard", world.schema);
	put(store, "a", 0);
	CHECK(wait_count(&told, 1));
	look_now(store);
	atomic_store(&unable, 0);
	CHECK(wait_count(&ran, 1));
	if (stats_of_store(store).lost_leases == 0)
		CHECK_INT(query("select sum(epoch) from %s_shard", world.schema), ==, epochs);
}

/* A damaged page, say: a new connection is no success, so the pauses grow. */
TEST(a_connection_that_is_made_and_fails_is_made_less_and_less_often)
{
	int64_t began_ns;

	fresh_world();
	atomic_store(&unable, 0);
	atomic_store(&connects, true);
	CLOSING hwt_store *store = started(HWT_STORE_AT_LEAST_ONCE, true, 8);
	put(store, "a", HWT_S(4)); /* so the reader looks by itself */
	atomic_store(&tried, 0);
	began_ns = hwt_now();
	atomic_store(&unable, 1u << HWTS_READ);
	CHECK(wait_count(&tried, 7));
	CHECK_INT(hwt_now() - began_ns, >=, HWT_MS(20 + 40 + 80 + 160 + 320 + 640));
	atomic_store(&unable, 0);
	atomic_store(&connects, false);
}

STORE_MAIN(NULL)
