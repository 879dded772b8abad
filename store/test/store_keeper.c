/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log of a SQLite store while somebody reads for long: a snapshot keeps the log from beginning again.
 */
#include "store.h"

#include <dlfcn.h>

#ifdef HWT_STORE_SQLITE
#include <sqlite3.h>
#include <sys/stat.h>

#define LOG_MAX (64 << 20)
#endif

#ifdef HWT_STORE_SQLITE
static sqlite3 *hold_snapshot(void)
{
	sqlite3 *reader = NULL;

	REQUIRE(sqlite3_open(world.url + 7, &reader) == SQLITE_OK);
	CHECK_INT(sqlite3_exec(reader, "begin; select count(*) from sqlite_master", NULL, NULL, NULL), ==, SQLITE_OK);
	return reader;
}

static _Thread_local unsigned
    naps; /* of this thread: a writer that meets a lock sleeps a millisecond again and again */

int nanosleep(const struct timespec *ns, struct timespec *left)
{
	static int (*real)(const struct timespec *, struct timespec *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "nanosleep");
	naps++;
	return real(ns, left);
}

static void note_most(unsigned *most)
{
	*most = naps > *most ? naps : *most;
	naps = 0;
}

/* 80 MiB, far off; the keeper would like to begin the log again at 64.  Returns the most naps of a put. */
static unsigned lengthen_log(hwt_store *store)
{
	hwt_store_spec spec = spec_of("a", HWT_S(86400));
	unsigned most = 0;
	int64_t id;

	spec.data = calloc(1, HWT_STORE_DATA_MAX);
	spec.len = HWT_STORE_DATA_MAX;
	naps = 0;
	for (int i = 0; i < 80; i++) {
		CHECK_CALL(hwt_store_put(store, &spec, &id), 0);
		note_most(&most);
	}
	free((void *)(uintptr_t)spec.data);
	return most;
}

static int64_t log_size(void)
{
	char path[1024];
	struct stat info = { .st_size = -1 };

	(void)snprintf(path, sizeof(path), "%s-wal", world.url + 7);
	CHECK_INT(stat(path, &info), ==, 0);
	return info.st_size;
}
#endif

TEST(a_reader_that_holds_a_snapshot_does_not_hold_up_the_writers)
{
#ifdef HWT_STORE_SQLITE
	hwt_store *store;
	sqlite3 *reader;
	unsigned most;

	if (!on_sqlite())
		SKIP("of SQLite");
	fresh_world();
	store = open_store();
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	reader = hold_snapshot();
	most = lengthen_log(store);
	for (int i = 0; i < 30; i++) {
		put(store, "a", 0);
		sleep_ms(20);
		note_most(&most);
	}
	CHECK_INT(most, <, 3000); /* the patience of a writer is 10 s */
	CHECK(wait_count(&ran, 30));
	CHECK_INT(log_size(), >, LOG_MAX);
	sqlite3_close(reader);
	/* The keeper begins the log again, and the next commit gives back what is too much. */
	for (int64_t give_up_ns = hwt_now() + PATIENCE_NS; log_size() > LOG_MAX && hwt_now() < give_up_ns;) {
		put(store, "a", HWT_S(3600));
		sleep_ms(10);
	}
	CHECK_INT(log_size(), <=, LOG_MAX);
	CHECK_CALL(hwt_store_close(store), 0);
#else
	SKIP("of SQLite");
#endif
}

STORE_MAIN(NULL)
