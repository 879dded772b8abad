/* SPDX-License-Identifier: BSD-2-Clause */
/* The log of a SQLite store during a long read: a snapshot keeps the log from beginning again. */
#include "store.h"

#include <dlfcn.h>

#ifdef HWT_STORE_SQLITE
#include <sqlite3.h>
#include <sys/stat.h>

#define LOG_MAX (64 << 20)

static sqlite3 *hold_snapshot(void)
{
	sqlite3 *reader = NULL;

	REQUIRE(sqlite3_open(world.url + 7, &reader) == SQLITE_OK);
	CHECK_INT(sqlite3_exec(reader, "begin; select count(*) from sqlite_master", NULL, NULL, NULL), ==, SQLITE_OK);
	return reader;
}

static _Thread_local bool restarts;
static _Thread_local unsigned naps; /* in a restart: a thread that meets a lock sleeps a millisecond again and again */
static _Thread_local unsigned copies; /* that this thread has made */
static atomic_uint most_naps, ended_restarts;

int nanosleep(const struct timespec *ns, struct timespec *left)
{
	static int (*real)(const struct timespec *, struct timespec *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "nanosleep");
	naps += restarts;
	return real(ns, left);
}

int sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode, int *pages, int *moved)
{
	static int (*real)(sqlite3 *, const char *, int, int *, int *);
	int rc;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sqlite3_wal_checkpoint_v2");
	restarts = mode == SQLITE_CHECKPOINT_RESTART;
	naps = 0;
	copies++;
	rc = real(db, name, mode, pages, moved);
	if (restarts) {
		if (naps > atomic_load(&most_naps)) /* one thread restarts */
			atomic_store(&most_naps, naps);
		atomic_fetch_add(&ended_restarts, 1);
	}
	restarts = false;
	return rc;
}

/* Puts 80 MiB that are due far off: more than the log keeps once it has begun again. */
static void lengthen_log(hwt_store *store)
{
	hwt_store_spec spec = SPEC("a", HWT_S(86400), .data = calloc(1, HWT_STORE_DATA_MAX), .len = HWT_STORE_DATA_MAX);
	int64_t id;

	for (int i = 0; i < 80; i++)
		CHECK_CALL(put_patiently(store, &spec, &id), 0);
	free((void *)(uintptr_t)spec.data);
}

static int64_t log_size(void)
{
	char path[1024];
	struct stat info = { .st_size = -1 };

	(void)snprintf(path, sizeof(path), "%s-wal", world.url + 7);
	CHECK_INT(stat(path, &info), ==, 0);
	return info.st_size;
}

TEST(a_reader_that_holds_a_snapshot_does_not_hold_up_the_writers)
{
	NEEDS_SQLITE();
	CLOSING hwt_store *store = fresh_store();
	sqlite3 *reader;

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	reader = hold_snapshot();
	lengthen_log(store);
	for (int i = 0; i < 30; i++) {
		put(store, "a", 0);
		sleep_ms(20);
	}
	CHECK(wait_count(&ended_restarts, 1));
	CHECK_INT(atomic_load(&most_naps), >, 0);
	CHECK_INT(atomic_load(&most_naps), <, 300); /* which the writers wait for; their own patience is 10000 */
	CHECK(wait_count(&ran, 30));
	CHECK_INT(log_size(), >, LOG_MAX);
	sqlite3_close(reader);
	/* The keeper begins the log again, and the next commit gives back the excess. */
	WAIT_FOR((put(store, "a", HWT_S(3600)), log_size() <= LOG_MAX));
}

/* A commit that copies the log holds up the rows that are due behind it. */
TEST(no_commit_of_a_started_store_copies_the_log)
{
	NEEDS_SQLITE();
	CLOSING hwt_store *store = fresh_store();
	hwt_store_spec spec = SPEC("a", HWT_S(86400), .data = calloc(1, HWT_STORE_DATA_MAX), .len = HWT_STORE_DATA_MAX);
	struct stat info;

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	copies = 0;
	for (int i = 0; i < 30; i++)
		CHECK_CALL(put_patiently(store, &spec, NULL), 0);
	CHECK_INT(copies, ==, 0);
	WAIT_FOR(stat(world.url + 7, &info) == 0 && info.st_size > (20 << 20));
	free((void *)(uintptr_t)spec.data);
}

/* The store is not started, so it has no keeper. */
TEST(commits_move_the_log_into_the_file)
{
	NEEDS_SQLITE();
	CLOSING hwt_store *store = fresh_store();
	struct stat info;

	lengthen_log(store);
	CHECK_INT(stat(world.url + 7, &info), ==, 0);
	CHECK_INT(info.st_size, >, LOG_MAX);
	CHECK_INT(log_size(), <, LOG_MAX / 4);
}
#endif

STORE_MAIN(NULL)
