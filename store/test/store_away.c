/* SPDX-License-Identifier: BSD-2-Clause */
/* The database away, locked, restarted. */
#include "store_query.h"

/*
 * Puts go on while the database comes and goes
 */

struct load {
	hwt_store *store;
	atomic_uint accepted, unknown, refused, stop;
	int64_t *ids; /* of those that were accepted */
};

static int count_not_early(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	CHECK_INT(now_us(), >=, run->due_us);
	atomic_fetch_add(&ran, 1);
	return 0;
}

/* There are as many as come while the main thread stands still. */
static void note_accepted(struct load *load, int64_t id)
{
	unsigned count = atomic_load(&load->accepted);

	if (count % 1024 == 0)
		load->ids = realloc(load->ids, (count + 1024) * sizeof(*load->ids));
	REQUIRE(load->ids != NULL);
	load->ids[count] = id;
	atomic_store(&load->accepted, count + 1);
}

static void *put_on_and_on(void *arg)
{
	struct load *load = arg;

	while (!atomic_load(&load->stop)) {
		hwt_store_spec spec = spec_of("a", HWT_MS(20));
		int64_t id = 0;
		int rc = hwt_store_put(load->store, &spec, &id);

		if (rc == 0) {
			note_accepted(load, id);
		} else if (rc == ECONNRESET) {
			CHECK_INT(id, >, 0); /* by which it can be asked for */
			atomic_fetch_add(&load->unknown, 1);
		} else {
			CHECK(rc == ENOTCONN || rc == EAGAIN);
			atomic_fetch_add(&load->refused, 1);
			sleep_ms(5);
		}
		sleep_ms(1);
	}
	return NULL;
}

#define LEASE_NS HWT_S(1) /* which ends while the database is away */

static struct load *start_load(struct crew *crew)
{
	struct load *load = calloc(1, sizeof(*load));

	load->store = FRESH(.lease_ns = LEASE_NS);
	register_kind(load->store, "a", count_not_early, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(load->store), 0);
	crew_start(crew, 1, put_on_and_on, load, 0); /* accepted is written by one thread */
	CHECK(wait_count(&ran, 5));
	return load;
}

static void end_load(struct load *load, struct crew *crew)
{
	unsigned more = atomic_load(&ran) + 20;

	CHECK(wait_count(&ran, more)); /* it goes on by itself */
	atomic_store(&load->stop, 1);
	crew_join(crew);
	for (unsigned i = 0; i < atomic_load(&load->accepted); i++)
		CHECK(wait_gone(load->store, load->ids[i]));
	CHECK_INT(atomic_load(&ran), >=, atomic_load(&load->accepted));
	CHECK_INT(stats_of_store(load->store).failed, ==, 0);
	printf("# %u accepted, %u unknown, %u refused, %u ran, %" PRIu64 " reconnects\n", atomic_load(&load->accepted),
	       atomic_load(&load->unknown), atomic_load(&load->refused), atomic_load(&ran),
	       stats_of_store(load->store).reconnects);
	CHECK_CALL(hwt_store_close(load->store), 0);
	free(load->ids);
	free(load);
}

TEST(a_server_that_is_restarted_loses_nothing)
{
	const char *ctl = getenv("HWT_POSTGRES_CTL");
	struct crew crew;
	struct load *load;
	char command[256];

	if (on_sqlite() || !ctl)
		SKIP("of PostgreSQL, with a server that may be restarted");
	load = start_load(&crew);
	(void)snprintf(command, sizeof(command), "%s restart", ctl);
	CHECK_INT(system(command), ==, 0);
	sleep_ms(200);
	(void)snprintf(command, sizeof(command), "%s -m immediate stop", ctl);
	CHECK_INT(system(command), ==, 0);
	sleep_ns(LEASE_NS + HWT_MS(200));
	(void)snprintf(command, sizeof(command), "%s start", ctl);
	CHECK_INT(system(command), ==, 0);
	end_load(load, &crew);
}

TEST(a_stop_without_a_database_comes_to_an_end)
{
	const char *ctl = getenv("HWT_POSTGRES_CTL");
	hwt_store *store;
	char command[256];
	int64_t id;

	if (on_sqlite() || !ctl)
		SKIP("of PostgreSQL, with a server that may be stopped");
	store = FRESH(.lease_ns = LEASE_NS);
	register_kind(store, "a", count_not_early, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	(void)snprintf(command, sizeof(command), "%s -m immediate stop", ctl);
	CHECK_INT(system(command), ==, 0);
	CHECK_CALL(hwt_store_stop(store), 0); /* the lease ends in any case */
	{
		hwt_store_spec spec = spec_of("a", 0);
		hwt_store_info info = HWT_STORE_INFO_INIT;

		id = -7;
		CHECK_CALL(hwt_store_put(store, &spec, &id), ENOTCONN);
		CHECK_INT(id, ==, -7);
		CHECK_CALL(hwt_store_get(store, 1, &info), ENOTCONN);
		CHECK_CALL(hwt_store_start(store), ENOTCONN);
	}
	(void)snprintf(command, sizeof(command), "%s start", ctl);
	CHECK_INT(system(command), ==, 0);
	id = put(store, "a", 0);
	CHECK_CALL(hwt_store_start(store), 0); /* under new epochs: what it held before the stop is forgotten */
	CHECK(wait_gone(store, id));
	CHECK(wait_held(store, 8));
	CHECK_CALL(hwt_store_close(store), 0);
}

/*
 * A renewal that has read the clock just before the end of the lease, and commits after it: its process trusts it.
 */

#ifdef HWT_STORE_POSTGRES
TEST(a_lease_that_is_being_renewed_is_not_over)
{
	NEEDS_POSTGRES(); /* SQLite takes its lock before it reads the clock */
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(1));

	register_kind(store, "a", count_not_early, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	(void)query("insert into %s_member (name, incarnation, until_us, kinds) values ('other', 1, %lld, '{1}')",
		    world.schema, (long long)now_us());
	USER *conn = connect_user();
	CHECK(user_sql(conn, "begin; update %s_member set until_us = %lld where name = 'other'", world.schema,
		       (long long)(now_us() + 3600 * HWTS_S_US)));
	(void)query("update %s_shard set owner = 'other', epoch = epoch + 1", world.schema);
	CHECK(wait_held(store, 0));
	for (int i = 0; i < 75; i++, sleep_ms(20)) {
		CHECK_INT(query("select count(*) from %s_shard where owner = 'other'", world.schema), ==, 8);
		if (i == 50)
			CHECK(user_sql(conn, "commit"));
	}
	(void)query("update %s_member set until_us = 1 where name = 'other'", world.schema);
	CHECK(wait_held(store, 8)); /* now it is over */
	CHECK_INT(query("select until_us from %s_member where name = 'other'", world.schema), ==, 0);
}
#endif

/* The lease ends meanwhile, on both engines. */
TEST(a_database_that_is_locked_for_longer_than_the_lease_loses_nothing)
{
	struct crew crew;
	struct load *load = start_load(&crew);
	USER *conn = connect_user();

	if (world.sqlite)
		CHECK(user_sql(conn, "begin immediate"));
	else
		CHECK(user_sql(conn, "begin; lock table %s_member, %s_timeout in exclusive mode", world.schema,
			       world.schema));
	sleep_ns(LEASE_NS + HWT_MS(500));
	CHECK(user_sql(conn, "rollback"));
	end_load(load, &crew);
}

STORE_MAIN(NULL)
