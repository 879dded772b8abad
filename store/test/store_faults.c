/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every statement fails once.
 *
 * Generated  a short program: three kinds, one of each mode; puts, a batch, a key, a periodic one, a cancel, a
 *            reschedule, a task that fails at first; stop, start, close
 * Nemesis    an engine in front of the real one (store/front.h): the n-th exchange with the database fails before it,
 *            or after it was done, with the reply lost; for each n until the program ends before the n-th.  Then the
 *            same with three exchanges in a row
 * Checked    every timeout runs to its end although the caller only repeats what it was told had not happened; each
 *            task starts as often as its own failures say and no more, for no process dies here; effects exactly
 *            once; nothing is left in the table; and all of it without a lease being lost
 */
#include "store_query.h"

#include "front.h"

enum { ITEMS = 14, CANCELLED = 12, PERIODIC = 13, FAILS = 1 };

/* A run without a fault has 60 to 110 exchanges: what becomes ready at a time goes together in one. */
enum { LEAST = 50 };

static const char *const kinds[] = { "least", "most", "transaction" };
static atomic_uint starts[ITEMS], ends[ITEMS];
static atomic_uint not_mine;   /* runs */
static atomic_uint run_number; /* what is left of an earlier run does not count */

struct item {
	unsigned run, number;
};

static int run_item(const hwt_store_run *run, void *ctx)
{
	struct item item;

	(void)ctx;
	memcpy(&item, run->data, sizeof(item));
	if (item.run != atomic_load(&run_number))
		return 0;
	CHECK_INT(now_us(), >=, run->due_us);
	if (!hwt_store_is_mine(run))
		atomic_fetch_add(&not_mine, 1);
	if (atomic_fetch_add(&starts[item.number], 1) == 0 && item.number == FAILS)
		return EPROTO;
	if (run->connection &&
	    !user_sql(run->connection, "insert into %s_effects values (%u, %u)", world.schema, item.run, item.number))
		return EIO;
	atomic_fetch_add(&ends[item.number], 1);
	return 0;
}

/*
 * The program.  Each call is repeated as its answer says.
 */

static bool nothing_happened(int rc)
{
	return rc == ENOTCONN || rc == EAGAIN;
}

static int64_t put_item(hwt_store *store, unsigned number, int64_t delay_ns)
{
	struct item item = { atomic_load(&run_number), number };
	hwt_store_spec spec = SPEC(atomic_load(&front_only) ? kinds[1] : kinds[number % 3], delay_ns, .data = &item,
				   .len = sizeof(item), .period_ns = number == PERIODIC ? HWT_S(3600) : 0);
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t id = 0;
	char key[32];
	int rc;

	(void)snprintf(key, sizeof(key), "%u.%u", item.run, item.number);
	if (number % 2 == 1)
		spec.key = key;
	do {
		rc = hwt_store_put(store, &spec, &id);
		if (rc != ECONNRESET)
			continue;
		CHECK_INT(id, >, 0);
		while (nothing_happened(rc = hwt_store_get(store, id, &info)))
			;
		if (rc == ENOENT && atomic_load(&starts[number]) > 0) /* it has run already */
			rc = 0;
		if (rc == ENOENT)
			rc = ENOTCONN; /* it is not there: again */
	} while (nothing_happened(rc));
	CHECK_INT(rc, ==, 0);
	return id;
}

static void put_batch(hwt_store *store, unsigned from, unsigned n)
{
	struct item items[ITEMS];
	hwt_store_spec specs[ITEMS];
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t ids[ITEMS];
	int rc;

	for (unsigned i = 0; i < n; i++) {
		items[i] = (struct item){ atomic_load(&run_number), from + i };
		specs[i] = spec_of(kinds[(from + i) % 3], HWT_MS(40)); /* it is still there when get asks */
		specs[i].data = &items[i];
		specs[i].len = sizeof(items[i]);
	}
	do {
		rc = hwt_store_put_many(store, specs, n, ids);
		if (rc != ECONNRESET)
			continue;
		while (nothing_happened(rc = hwt_store_get(store, ids[0], &info)))
			;
		if (rc == ENOENT && atomic_load(&starts[from]) > 0)
			rc = 0;
		if (rc == ENOENT)
			rc = ENOTCONN;
	} while (nothing_happened(rc));
	CHECK_INT(rc, ==, 0);
}

static void cancel_item(hwt_store *store, int64_t id)
{
	bool unknown = false;
	int rc;

	do {
		rc = hwt_store_cancel(store, id);
		unknown |= rc == ECONNRESET;
	} while (nothing_happened(rc) || rc == ECONNRESET);
	CHECK(rc == 0 || (rc == ENOENT && unknown));
}

static void start(hwt_store *store)
{
	int rc;

	do {
		rc = hwt_store_start(store);
	} while (nothing_happened(rc) || rc == ECONNRESET);
	CHECK_INT(rc, ==, 0);
}

static bool all_ended(void)
{
	for (unsigned i = 0; i < ITEMS; i++)
		if (i != CANCELLED && atomic_load(&ends[i]) == 0)
			return false;
	return true;
}

/* Only a hang ends it. */
static bool wait_for(bool (*done)(void))
{
	WAIT_FOR(done());
	return done();
}

static bool none_runs(void)
{
	return number_in(ask("select count(*) from %s_timeout where period_us = 0 or state <> 1", world.schema)) == 0;
}

/*
 * False: the machine stood still for so long that a lease was lost or could not be trusted, so what happened is no
 * fault of an exchange.
 */
static bool program(int64_t lease_ns)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store;
	int64_t cancelled, moved, rc;
	bool ended, leased;

	store = OPEN(.threads = 2, .lease_ns = lease_ns);
	front_put_before(store);
	for (unsigned i = 0; i < 3; i++) {
		kind.name = kinds[i];
		kind.task = run_item;
		kind.mode = i;
		kind.shards = 2;
		kind.backoff_ns = HWT_MS(1);
		do
			rc = hwt_store_register(store, &kind);
		while (nothing_happened((int)rc) || rc == ECONNRESET);
		CHECK_INT(rc, ==, 0);
	}
	for (unsigned i = 0; i < 3; i++)
		(void)put_item(store, i, 0);
	start(store);
	for (unsigned i = 3; i < 6; i++)
		(void)put_item(store, i, HWT_MS(5));
	put_batch(store, 6, 5);
	cancelled = put_item(store, CANCELLED, HWT_S(3600));
	moved = put_item(store, 11, HWT_S(3600));
	cancel_item(store, cancelled);
	do
		rc = hwt_store_reschedule(store, moved, HWT_MS(2));
	while (nothing_happened((int)rc) || (rc == ECONNRESET && atomic_load(&starts[11]) == 0));
	CHECK(rc == 0 || rc == ECONNRESET || ((rc == ENOENT || rc == EBUSY) && wait_count(&starts[11], 1)));
	CHECK_CALL(hwt_store_stop(store), 0);
	start(store);
	(void)put_item(store, PERIODIC, 0);
	ended = wait_for(all_ended) && wait_for(none_runs);
	leased = stats_of_store(store).lost_leases == 0 && atomic_load(&not_mine) == 0;
	CHECK(ended || !leased);
	CHECK_CALL(hwt_store_close(store), 0);
	return leased;
}

/*
 * The verdict
 */

static void judge(void)
{
	for (unsigned i = 0; i < ITEMS; i++) {
		unsigned wanted = i == CANCELLED ? 0 : i == FAILS ? 2 : 1, is = atomic_load(&starts[i]);

		/* A transaction that could not be committed has not happened, and runs again. */
		if (i % 3 == HWT_STORE_TRANSACTION && is > wanted)
			is = wanted;
		CHECK_INT(is, ==, wanted);
		if (i % 3 != HWT_STORE_TRANSACTION)
			CHECK_INT(atomic_load(&ends[i]), ==, i == CANCELLED ? 0 : 1);
		if (i % 3 == HWT_STORE_TRANSACTION)
			CHECK_INT(number_in(ask("select count(*) from %s_effects where run = %u and item = %u",
						world.schema, atomic_load(&run_number), i)),
				  ==, 1);
	}
	/* The periodic one waits for its next time; all shards have been given back. */
	CHECK_INT(number_in(ask("select count(*) from %s_timeout where state <> 1 or attempt <> 0", world.schema)), ==,
		  0);
	CHECK_INT(number_in(ask("select count(*) from %s_timeout", world.schema)), ==, 1);
}

static void begin_run(void)
{
	(void)ask("delete from %s_timeout", world.schema);
	for (unsigned i = 0; i < ITEMS; i++) {
		atomic_store(&starts[i], 0);
		atomic_store(&ends[i], 0);
	}
	atomic_store(&not_mine, 0);
	atomic_fetch_add(&run_number, 1);
}

/* Each exchange in turn, from a random one of the first step; where several fail, each in one run. */
static void each_fails(enum front_how how, unsigned span)
{
	unsigned failures = atomic_load(&test_failures), reached = 1, failed = 0;
	unsigned step = step_of(span) < LEAST / 2 ? step_of(span) : LEAST / 2;
	unsigned n = 1 + (unsigned)(test_seed("first") % step);

	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	(void)ask("create table %s_effects (run bigint, item bigint)", world.schema);
	atomic_store(&run_number, 0);
	for (; reached > 0 && n < 1000; n += step) {
		bool leased = false;

		/* What needs a look-ahead waits for a third of the lease.  The longest one outlasts any pause. */
		for (int64_t lease_ns = HWT_S(5); lease_ns <= HWT_S(160) && !leased; lease_ns *= 2) {
			(void)alarm(HANG_S); /* each run may take so long */
			begin_run();
			front_arm(n, how, span);
			leased = program(lease_ns);
		}
		CHECK(leased);
		judge();
		reached = atomic_load(&front_count) >= n;
		failed += reached;
		if (atomic_load(&test_failures) > failures) {
			fprintf(stderr, "exchange %u of %u, %s\n", n, atomic_load(&front_count),
				atomic_load(&front_failed) ? atomic_load(&front_failed) : "none");
			break;
		}
	}
	front_arm(0, how, 0);
	printf("# one in %u of %u exchanges failed\n", step, n - 1);
	CHECK_INT(failed, >, 1);
}

TEST(each_exchange_fails_before_its_statement)
{
	each_fails(FRONT_BEFORE, 1);
}

TEST(each_exchange_fails_after_its_statement)
{
	each_fails(FRONT_AFTER, 1);
}

TEST(three_exchanges_fail_in_a_row)
{
	each_fails(FRONT_BEFORE, 3);
}

static bool one_failed(void)
{
	return atomic_load(&front_failed) != NULL;
}

/* Nobody knows that it did not start but this process, which therefore must not leave it to others. */
TEST(what_runs_at_most_once_is_not_failed_by_a_lost_reply_and_a_stop)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;
	hwt_store *store = fresh_store();
	int64_t id;

	front_put_before(store);
	atomic_store(&front_only, "begin");
	front_arm(1, FRONT_AFTER, 1);
	atomic_store(&run_number, 1);
	atomic_store(&starts[0], 0);
	register_kind(store, kinds[1], run_item, NULL, HWT_STORE_AT_MOST_ONCE);
	id = put_item(store, 0, 0);
	start(store);
	CHECK(wait_for(one_failed));
	CHECK_CALL(hwt_store_stop(store), 0);
	if (hwt_store_get(store, id, &info) == 0)
		CHECK_INT(info.state, ==, HWT_STORE_PENDING);
	start(store);
	CHECK(wait_gone(store, id));
	CHECK_INT(atomic_load(&starts[0]), ==, 1);
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&front_only, NULL);
}

/* No look that is not asked for comes for 200 s, and the net finds nothing that is not overdue for as long. */
TEST(what_was_put_while_control_had_no_connection_is_read_after_it)
{
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(600));
	unsigned rescued = atomic_load(&hwts_test_rescued), failed;

	front_put_before(store);
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CLOSING hwt_store *other = open_store();
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	atomic_store(&front_only, "news");
	front_arm(1, FRONT_AFTER, INT32_MAX); /* each time that control reads news its connection breaks */
	put(other, "a", 0);
	failed = atomic_load(&front_count);
	WAIT_FOR(atomic_load(&front_count) >= failed + 3);
	front_arm(0, FRONT_AFTER, 0); /* what told of the put went to a connection that is gone */
	CHECK(wait_count(&ran, 1));
	CHECK_INT(atomic_load(&hwts_test_rescued), ==, rescued);
	atomic_store(&front_only, NULL);
}

/* No news is sent, so only a look can find what is put, and that look fails; the next renewal is far off. */
TEST(what_a_look_that_failed_should_have_read_is_read_by_the_next)
{
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(1800));

	front_put_before(store);
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CLOSING hwt_store *other = open_store();
	count_passes("renewed");
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(atomic_load(&passes) > 1 && LOCKED(store, !store->reading->unread && !store->reading->sweep_due));
	atomic_store(&hwts_test_deaf, true);
	for (int i = 0; i < 50; i++)
		put(other, "a", 0);
	atomic_store(&front_only, "look");
	front_arm(1, FRONT_BEFORE, 1);
	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	hwts_poke(store);
	CHECK(wait_count(&ran, 50));
	CHECK(atomic_load(&front_failed) != NULL);
	front_arm(0, FRONT_BEFORE, 0);
	atomic_store(&front_only, NULL);
	atomic_store(&hwts_test_deaf, false);
	atomic_store(&hwts_test_at, NULL);
}

TEST(a_put_that_replaces_and_whose_reply_is_lost_tells_the_id_of_what_is_there)
{
	hwt_store_spec spec = SPEC("a", HWT_S(900), .key = "k", .flags = HWT_STORE_REPLACE);
	CLOSING hwt_store *store = fresh_store();
	int64_t first = put_key(store, "a", "k", HWT_S(600)), id = -1;

	front_put_before(store);
	front_callers_know = false;
	for (int way = 0; way < 3; way++) {
		front_arm(0, FRONT_AFTER, 0);
		CHECK_INT(put_spec(store, &spec), ==, first); /* connected again */
		/* When it cannot be asked for, no id is better than one that was never put. */
		front_arm(1, FRONT_AFTER, way < 2 ? 1 : INT32_MAX);
		CHECK_CALL(way == 1 ? hwt_store_put_many(store, &spec, 1, &id) : hwt_store_put(store, &spec, &id),
			   ECONNRESET);
		CHECK_INT(id, ==, way < 2 ? first : 0);
	}
	front_arm(0, FRONT_AFTER, 0);
}

static atomic_uint told;

static void hear(void *ctx, const char *message)
{
	(void)ctx;
	atomic_fetch_add(&told, strstr(message, "other processes may have its shards") != NULL);
}

/* The simulation has more of those that cannot do one thing or another; here each engine counts who is able. */
TEST(a_process_that_cannot_begin_leaves_its_shards_to_others)
{
	CLOSING hwt_store *one = FRESH(.lease_ns = HWT_S(1), .warn = hear), *other = OPEN(.lease_ns = HWT_S(1));

	atomic_store(&told, 0);
	front_put_before(one);
	register_kind(one, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	register_kind(other, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(one), 0);
	CHECK_CALL(hwt_store_start(other), 0);
	CHECK(wait_held(other, 4));
	atomic_store(&front_only, "begin");
	front_arm(1, FRONT_BEFORE, INT32_MAX);
	for (unsigned i = 0; i < 64; i++)
		put(other, "a", 0);
	CHECK(wait_held(other, 8));
	CHECK(wait_count(&ran, 64));
	CHECK(wait_count(&told, 1));
	front_arm(0, FRONT_BEFORE, 0);
	atomic_store(&front_only, NULL);
	CHECK(wait_held(one, 4)); /* it takes part again */
}

STORE_MAIN(NULL)
