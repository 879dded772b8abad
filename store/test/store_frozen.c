/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process stands still in the middle of an answer, and with it the server's end of the connection: other processes
 * take its rows, as if it had died.
 */
#include "store_query.h"

#include "inside.h"

#include <sys/prctl.h>

/* One row is more than a socket's buffer takes. */
enum { ROWS = 32, LEN = 300000 };

static hwt_store *worker;

static void stand_still(const char *where)
{
	const struct hwts_threads *threads = &worker->threads[HWTS_BEGIN];

	if (strcmp(where, "sent") == 0 && threads->ids && pthread_equal(pthread_self(), threads->ids[0]))
		(void)raise(SIGSTOP);
}

/* argv: "stands" URL SCHEMA LOG.  Stops itself when its first begin is sent, before the answer. */
static int child(int argc, char **argv)
{
	(void)argc;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	enter_world(argv + 1);
	worker = OPEN(.lease_ns = HWT_S(1));
	atomic_store(&hwts_test_at, stand_still);
	register_and_start(worker, &KIND(.name = "a", .task = count_run));
	return pause();
}

static void put_rows(hwt_store *store)
{
	static char data[LEN];
	hwt_store_spec specs[ROWS];

	for (size_t i = 0; i < ROWS; i++)
		specs[i] = SPEC("a", 0, .data = data, .len = LEN);
	CHECK_CALL(hwt_store_put_many(store, specs, ROWS, NULL), 0);
}

/* No lease ends but that of the process that stands still. */
TEST(what_is_begun_by_a_process_that_stands_still_in_the_answer_runs_elsewhere)
{
	NEEDS_POSTGRES(); /* SQLite sends no answers */
	CLOSING hwt_store *store = run_tasks(FRESH(.lease_ns = HWT_S(600)), count_run, HWT_STORE_AT_LEAST_ONCE);
	pid_t pid = spawn("stands", NULL);
	int status;

	CHECK(wait_held(store, 4));
	put_rows(store);
	REQUIRE(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	CHECK(wait_held(store, 8));
	CHECK(wait_count(&ran, ROWS));
	WAIT_FOR(COUNT("true") == 0);
	CHECK_INT(stats_of_store(store).lost_leases, ==, 0);
	kill_child(pid);
}

#ifdef HWT_STORE_POSTGRES
/* A client that has locked a row, and is silent between two statements of its transaction. */
static PGconn *hold(const char *name, const char *row)
{
	PGconn *conn = connect_user();

	CHECK(user_sql(conn, "set application_name = '%s'", name));
	CHECK(user_sql(conn, "begin; select 1 from %s_%s for update", world.schema, row));
	return conn;
}

/* As a store's connection whose client stands still amid an exchange: rows are locked, and the commit is not sent. */
static PGconn *freeze(const char *row)
{
	PGconn *conn = connect_user();
	PGresult *result;
	char text[200];

	CHECK(user_sql(conn, "set application_name = 'libhwt-store'"));
	(void)snprintf(text, sizeof(text), "select 1 from %s_%s for update", world.schema, row);
	CHECK(PQenterPipelineMode(conn) && PQsendQueryParams(conn, text, 0, NULL, NULL, NULL, NULL, 0) &&
	      PQsendFlushRequest(conn) && PQflush(conn) == 0);
	result = PQgetResult(conn);
	CHECK_INT(PQresultStatus(result), ==, PGRES_TUPLES_OK);
	PQclear(result);
	return conn;
}

/*
 * The leases are over, and no member's row is locked.  A task that works without a statement is as silent as the user.
 * The server asks about the shards in the order of their ids, so when the last are taken it has asked about both.
 */
TEST(shards_that_a_frozen_exchange_keeps_locked_are_taken_and_those_of_a_silent_task_or_user_are_not)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(1));
	PGconn *stores, *users, *tasks;

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	users = hold("reports", "shard where id = 1024");
	tasks = hold("libhwt-store", "shard where id = 1025");
	stores = freeze("shard where id > 1025");
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 6));
	CHECK(user_sql(users, "rollback"));
	CHECK(user_sql(tasks, "commit"));
	CHECK(wait_held(store, 8));
	PQfinish(stores);
	PQfinish(users);
	PQfinish(tasks);
}

TEST(what_a_frozen_exchange_keeps_locked_runs)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(1));
	PGconn *stores;
	int64_t id;

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	id = put(store, "a", 0);
	stores = freeze("timeout");
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, id));
	PQfinish(stores);
}

/*
 * A process whose shards are taken stands still as it ends its runs.  The first run is begun again; the last has used
 * up its attempts after a death, and is filed.
 */
TEST(runs_whose_frozen_end_keeps_them_locked_are_inherited)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(1));
	PGconn *stores;
	int64_t first, last;

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	first = put(store, "a", 0);
	last = put(store, "a", 0);
	(void)query("update %s_timeout set state = 2, epoch = 0, attempt = case id when %lld then 1 else 4 end",
		    world.schema, (long long)first);
	stores = freeze("timeout");
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, first));
	WAIT_FOR(query("select count(*) from %s_timeout where id = %lld and state = 2 and epoch = 0", world.schema,
		       (long long)last) == 0);
	PQfinish(stores);
}

TEST(a_row_that_a_user_keeps_locked_hides_none_that_a_frozen_exchange_does)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(1));
	PGconn *stores, *users;
	int64_t first, last;
	char row[64];

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	first = put(store, "a", 0);
	last = put(store, "a", HWT_MS(1));
	(void)snprintf(row, sizeof(row), "timeout where id = %lld", (long long)first);
	users = hold("reports", row);
	(void)snprintf(row, sizeof(row), "timeout where id = %lld", (long long)last);
	stores = freeze(row);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, last));
	CHECK(user_sql(users, "rollback"));
	CHECK(wait_gone(store, first));
	PQfinish(stores);
	PQfinish(users);
}
#endif

STORE_MAIN(child)
