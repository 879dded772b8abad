/* SPDX-License-Identifier: BSD-2-Clause */
/* News between processes on one SQLite file: its delay, on a slow disk, and its cost while nothing happens. */
#include "store.h"

#include "inside.h"

#include <dlfcn.h>

#ifdef HWT_STORE_SQLITE
#include "db/sqlite.h"

#define SYNC_MS 100

/*
 * A disk on which a sync takes SYNC_MS: SQLite's own functions but one
 */

static sqlite3_vfs *fast, slow;
static const sqlite3_io_methods *fast_methods;
static sqlite3_io_methods slow_methods;
static atomic_bool is_slow;

static int sync_slowly(sqlite3_file *file, int flags)
{
	if (atomic_load(&is_slow))
		sleep_ms(SYNC_MS);
	return fast_methods->xSync(file, flags);
}

static int open_slowly(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
	int rc = fast->xOpen(vfs, name, file, flags, out_flags);

	if (rc != SQLITE_OK || !(flags & SQLITE_OPEN_WAL))
		return rc;
	if (!fast_methods) { /* the first file is opened while there is no other thread */
		fast_methods = file->pMethods;
		slow_methods = *file->pMethods;
		slow_methods.xSync = sync_slowly;
	}
	if (file->pMethods == fast_methods)
		file->pMethods = &slow_methods;
	return rc;
}

static void use_slow_disk(void)
{
	fast = sqlite3_vfs_find(NULL);
	slow = *fast;
	slow.zName = "slow";
	slow.xOpen = open_slowly;
	slow.pNext = NULL;
	CHECK_INT(sqlite3_vfs_register(&slow, 1), ==, SQLITE_OK);
}

/* Looks ahead come each 200 s, so they find no row of another process in a test. */
static hwt_store *holder(void)
{
	return run_tasks(open_store(), count_run, HWT_STORE_AT_LEAST_ONCE);
}

/* A connection of control that listens. */
static struct hwts_conn *listener(hwt_store *store)
{
	struct hwts_conn *conn = NULL;

	REQUIRE(store->engine->connect(store->db, HWTS_CONTROL, &conn) == 0);
	CHECK_INT(store->engine->listen(conn, NULL, 0, true), ==, 0);
	return conn;
}

static void check_heard(hwt_store *other, int64_t delay_ns)
{
	for (unsigned i = 0; i < 5; i++) {
		atomic_store(&ran, 0);
		put(other, "a", delay_ns);
		CHECK(wait_count(&ran, 1));
	}
}

TEST(news_is_heard_though_the_disk_takes_long_to_sync)
{
	NEEDS_SQLITE();
	hwt_store *store, *other;

	fresh_world();
	use_slow_disk();
	store = holder();
	other = open_store();
	CHECK(fast_methods != NULL);
	atomic_store(&is_slow, true);
	check_heard(other, 0);
	atomic_store(&is_slow, false);
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(sqlite3_vfs_unregister(&slow), ==, SQLITE_OK);
}

static void no_news(void *ctx, const struct hwts_due *due)
{
	(void)ctx;
	(void)due;
}

/*
 * Control checks for news at each turn, and comes back when the engine says.  After a write it comes back some 30
 * times, whatever the pace: each pause is a quarter of the time since the write.
 */
TEST(an_idle_process_looks_for_news_seldom)
{
	NEEDS_SQLITE(); /* PostgreSQL sends its news */
	CLOSING hwt_store *store = fresh_store(), *other = open_store();
	struct hwts_conn *conn = listener(store);
	const unsigned most = 100;
	int64_t again_ns = 1;
	unsigned looks = 0;

	put(other, "a", HWT_S(3600));
	for (; again_ns > 0 && looks < most && store->engine->news_fd(conn) >= 0; looks++) {
		CHECK_INT(store->engine->news(conn, true, no_news, NULL, &again_ns), ==, 0);
		sleep_ns(again_ns);
	}
	CHECK_INT(looks, <, most);
	store->engine->disconnect(conn);
}

static int64_t hints_left(struct sqlite_conn *conn)
{
	int64_t left = -1;
	int rc = 0;
	sqlite3_stmt *rows = hwts_sqlite_rows(conn, &rc, "select count(*) from @_hint", NOTHING);

	while (hwts_sqlite_next(conn, rows, &rc))
		left = number_of(rows, 0);
	CHECK_INT(rc, ==, 0);
	return left;
}

static void leave_hints(struct sqlite_conn *conn, int64_t count, int64_t at_us)
{
	static const char TEXT[] = "with recursive r(i) as (select 1 union all select i + 1 from r where i < ?1)"
				   " insert into @_hint (id, due_us, shard, len, at_us) select i, 0, 0, 0, ?2 from r";

	CHECK_INT(hwts_sqlite_do(conn, TEXT, WITH(count, at_us)), ==, 0);
}

/*
 * Leaves a hint at ahead_us from now, then hints of a minute ago (old: their number), and 10 of now, which tending has
 * to keep.
 */
static void tend_hints(int64_t ahead_us, int64_t old)
{
	int64_t now_us, left;
	struct hwts_conn *conn;
	hwt_store *store;

	store = FRESH(.lease_ns = HWT_S(3600)); /* tending takes at most a twelfth of the lease */
	CHECK_INT(store->engine->connect(store->db, HWTS_CONTROL, &conn), ==, 0);
	now_us = hwts_wall_us();
	leave_hints(sqlite_conn(conn), 1, now_us + ahead_us);
	leave_hints(sqlite_conn(conn), old, now_us - 60 * HWTS_S_US);
	leave_hints(sqlite_conn(conn), 10, now_us);
	store->engine->tend(conn);
	left = hints_left(sqlite_conn(conn));
	CHECK_INT(left, <=, 10);
	if (hwts_wall_us() - now_us < 10 * HWTS_S_US) /* else the last hints have grown old meanwhile */
		CHECK_INT(left, ==, 10);
	store->engine->disconnect(conn);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* 50,000 puts a second leave as many hints, and a process tends the database each third of its lease. */
TEST(hints_go_as_quickly_as_they_come)
{
	NEEDS_SQLITE();
	tend_hints(-60 * HWTS_S_US, 100000);
}

/* A clock that was an hour ahead has been set right; in the second case nothing has been put for a minute as well. */
TEST(hints_go_although_one_is_of_the_future)
{
	NEEDS_SQLITE();
	tend_hints(3600 * HWTS_S_US, 100);
	tend_hints(3600 * HWTS_S_US, 0);
}

/*
 * A process without inotify: its number is limited, and some systems have none
 */

static atomic_bool no_inotify;

int inotify_init1(int flags); /* not all systems have <sys/inotify.h> */

int inotify_init1(int flags)
{
	int (*real)(int);

	if (atomic_load(&no_inotify)) {
		errno = EMFILE;
		return -1;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "inotify_init1");
	return real(flags);
}

static void count_news(void *ctx, const struct hwts_due *due)
{
	CHECK_INT(due->id, >, 0);
	++*(unsigned *)ctx;
}

/* A process listens again when it takes shards. */
TEST(to_listen_again_passes_over_no_news)
{
	NEEDS_SQLITE();
	for (int without = 0; without < 2; without++) {
		struct hwts_shard_row shard = { .shard = 1024 };
		unsigned heard = 0;
		int64_t again_ns;

		fresh_world();
		atomic_store(&no_inotify, without == 1);
		CLOSING hwt_store *store = holder(), *other = open_store();
		struct hwts_conn *conn = listener(store);
		CHECK((store->engine->news_fd(conn) < 0) == (without == 1));
		put(other, "a", HWT_S(3));
		CHECK_INT(store->engine->listen(conn, &shard, 1, true), ==, 0);
		CHECK_INT(store->engine->news(conn, true, count_news, &heard, &again_ns), ==, 0);
		CHECK_INT(heard, ==, 1);
		CHECK_INT(again_ns, >, 0); /* another check, in any case */
		CHECK_INT(again_ns, <=, HWT_MS(20));
		store->engine->disconnect(conn);
	}
	atomic_store(&no_inotify, false);
}

TEST(news_is_heard_without_inotify)
{
	NEEDS_SQLITE();
	fresh_world();
	atomic_store(&no_inotify, true);
	CLOSING hwt_store *store = holder(), *other = open_store();
	check_heard(other, HWT_MS(5));
	atomic_store(&no_inotify, false);
}

static _Thread_local unsigned refused; /* the allocation that fails; 0: none */

static bool refuse(void)
{
	return refused > 0 && --refused == 0;
}

static unsigned open_descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/*
 * The process then checks by the clock.  A listen that failed leaves one descriptor behind, which the next listen uses.
 */
TEST(news_is_heard_though_there_was_no_memory_to_listen)
{
	NEEDS_SQLITE();
	struct hwts_conn *conn = NULL;
	unsigned heard = 0, before;
	int64_t again_ns = 0;

	fresh_world();
	CLOSING hwt_store *store = holder(), *other = open_store();
	CHECK_INT(store->engine->connect(store->db, HWTS_CONTROL, &conn), ==, 0);
	atomic_store(&hwts_test_refuses_memory, refuse);
	refused = 1; /* the allocation of the log's name */
	CHECK_INT(store->engine->listen(conn, NULL, 0, true), ==, 0);
	atomic_store(&hwts_test_refuses_memory, NULL);
	put(other, "a", HWT_S(3));
	CHECK_INT(store->engine->news(conn, false, count_news, &heard, &again_ns), ==, 0);
	CHECK_INT(heard, ==, 1);
	CHECK_INT(again_ns, >, 0);
	store->engine->disconnect(conn);
	CHECK_INT(store->engine->connect(store->db, HWTS_CONTROL, &conn), ==, 0);
	before = open_descriptors();
	atomic_store(&hwts_test_refuses_memory, refuse);
	for (unsigned i = 0; i < 20; i++) {
		refused = 2; /* the allocation of the statement */
		(void)store->engine->listen(conn, NULL, 0, true);
	}
	atomic_store(&hwts_test_refuses_memory, NULL);
	CHECK_INT(open_descriptors(), <, before + 10);
	store->engine->disconnect(conn);
}

#else
TEST(news_of_sqlite)
{
	SKIP("a build without SQLite");
}
#endif

STORE_MAIN(NULL)
