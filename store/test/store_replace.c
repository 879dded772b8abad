/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts that replace: what their process tells the one that holds the shard.
 */
#include "store.h"

#include "inside.h"

/* A holder that does not look ahead for 200 s. */
static hwt_store *start_holder(hwt_store_task *task)
{
	hwt_store *store;

	store = OPEN(.lease_ns = HWT_S(600));
	register_kind(store, "a", task, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	return store;
}

/*
 * A put that is due now shares its commit with one that replaces and is due in ten minutes
 */

TEST(a_put_that_shares_its_commit_with_one_that_replaces_is_heard_at_once)
{
	struct hwts_put puts[2] = { { .kind_name = "a" },
				    { .kind_name = "a", .key = "key", .replace = true, .when_us = 600 * HWTS_S_US } };
	struct hwts_conn *conn;

	fresh_world();
	CLOSING hwt_store *store = start_holder(count_run), *other = open_store();
	CHECK_INT(hwts_kind_of(other, "a", NULL, &puts[0].kind), ==, 0);
	puts[1].kind = puts[0].kind;
	CHECK_INT(hwts_pool_get(other, &conn), ==, 0);
	CHECK_INT(hwts_numbers_give(other, conn, puts, 2), ==, 0);
	CHECK_INT(hwts_rows_put(conn, puts, 2, false), ==, 0);
	hwts_pool_put(other, conn);
	CHECK_INT(puts[0].rc, ==, 0);
	CHECK_INT(puts[1].rc, ==, 0);
	CHECK(wait_count(&ran, 1));
}

/*
 * A put of many is refused for a key, whose timeout has gone before anybody could ask for it, so it is tried again.
 * What it replaced at first has gone, too: a new timeout must not get the id of that.
 */

static const struct hwts_engine *real_engine;
static hwt_store *bystander;
static int64_t gone[2];

static int run_without_finding(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	struct hwts_step *deaf = calloc(n, sizeof(*deaf));
	int rc;

	REQUIRE(deaf != NULL);
	for (size_t i = 0; i < n; i++) {
		deaf[i] = steps[i];
		if (steps[i].sql == HWTS_SQL_FIND && gone[0] != 0)
			deaf[i].each = NULL;
	}
	rc = real_engine->run(conn, deaf, n, flags);
	free(deaf);
	return rc;
}

static int finish_and_cancel(struct hwts_conn *conn, int rc)
{
	rc = real_engine->finish(conn, rc);
	for (int i = 0; i < 2 && gone[i] != 0; gone[i++] = 0)
		CHECK_CALL(hwt_store_cancel(bystander, gone[i]), 0);
	return rc;
}

TEST(a_put_of_many_that_is_tried_again_uses_no_id_again)
{
	hwt_store_spec specs[2] = { spec_of("a", HWT_S(600)), spec_of("a", HWT_S(600)) };
	struct hwts_engine engine;
	int64_t ids[2] = { 0, 0 }, replaced;
	hwt_store *store;

	bystander = fresh_store();
	replaced = gone[0] = put_key(bystander, "a", "replaced", HWT_S(600));
	gone[1] = put_key(bystander, "a", "used", HWT_S(600));
	store = open_store();
	real_engine = store->engine;
	engine = *real_engine;
	engine.run = run_without_finding;
	engine.finish = finish_and_cancel;
	(void)put(store, "a", HWT_S(600)); /* has read the kind */
	store->db->engine = &engine;
	specs[0].key = "replaced";
	specs[0].flags = HWT_STORE_REPLACE;
	specs[1].key = "used";
	CHECK_CALL(hwt_store_put_many(store, specs, 2, ids), 0);
	CHECK_INT(gone[0], ==, 0);
	CHECK_INT(ids[0], !=, replaced);
	store->db->engine = real_engine;
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_CALL(hwt_store_close(bystander), 0);
}

/*
 * The reply to a put that replaces is lost
 */

static atomic_bool loses_reply, loses_connections;

static int run_and_lose_reply(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	int rc = real_engine->run(conn, steps, n, flags);

	for (size_t i = 0; i < n && rc == 0; i++) {
		if (steps[i].sql != HWTS_SQL_PUT_REPLACE || !atomic_exchange(&loses_reply, false))
			continue;
		conn->broken = true;
		return hwts_fail(ECONNRESET, "the reply is lost");
	}
	return rc;
}

static int connect_or_not(struct hwts_db *db, enum hwts_role role, struct hwts_conn **conn)
{
	return atomic_load(&loses_connections) ? hwts_fail(ENOTCONN, "there is no server")
					       : real_engine->connect(db, role, conn);
}

TEST(a_put_that_replaces_and_whose_reply_is_lost_tells_the_id_of_what_is_there)
{
	hwt_store_spec spec = SPEC("a", HWT_S(900), .key = "k", .flags = HWT_STORE_REPLACE);
	struct hwts_engine engine;
	int64_t first, id = -1;
	CLOSING hwt_store *store = fresh_store();

	first = put_key(store, "a", "k", HWT_S(600));
	real_engine = store->engine;
	engine = *real_engine;
	engine.run = run_and_lose_reply;
	engine.connect = connect_or_not;
	store->engine = store->db->engine = &engine;
	atomic_store(&loses_reply, true);
	CHECK_CALL(hwt_store_put(store, &spec, &id), ECONNRESET);
	CHECK(strstr(hwt_store_error(), "the reply is lost") != NULL);
	CHECK_INT(id, ==, first);
	atomic_store(&loses_reply, true);
	CHECK_CALL(hwt_store_put_many(store, &spec, 1, &id), ECONNRESET);
	CHECK_INT(id, ==, first);
	/* When it cannot be asked for, no id is better than one that was never put. */
	atomic_store(&loses_reply, true);
	atomic_store(&loses_connections, true);
	CHECK_CALL(hwt_store_put(store, &spec, &id), ECONNRESET);
	CHECK_INT(id, ==, 0);
	atomic_store(&loses_connections, false);
	/* There was none: the id is that of the put. */
	CHECK_CALL(hwt_store_cancel(store, first), 0);
	atomic_store(&loses_reply, true);
	CHECK_CALL(hwt_store_put(store, &spec, &id), ECONNRESET);
	CHECK_INT(id, >, 0);
	CHECK_CALL(hwt_store_cancel_key(store, "a", "k"), world.sqlite ? ENOENT : 0);
	store->engine = store->db->engine = real_engine;
}

STORE_MAIN(NULL)
