/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * News between processes on one SQLite file.
 *
 * Structure
 *
 *   A put leaves a row in @_hint if another process holds the shard.  The holder watches the -wal file by inotify.  The
 *   event comes when the log is written, before the commit becomes visible: the log is synced in between, which may
 *   take long.  So after an event the holder checks for 2 s: every 2 ms at first, then more and more seldom, each time
 *   after a quarter of the time since the event.  Rows that become visible later are left to the look-ahead, each third
 *   of a lease.  A check is PRAGMA data_version, which takes a few microseconds, and the hints if that has changed.
 *
 *   Hints have consecutive numbers.  A holder that finds a gap (it slept while hints were removed) reads its window
 *   again.
 */
#define _GNU_SOURCE
#include "db/sqlite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/inotify.h>
#endif

#define LOOK_FOR_NS HWT_S(2)
#define LOOK_EACH_NS HWT_MS(2)
#define HINT_LIFE_US (10 * HWTS_S_US)
#define HINTS_A_SLICE 5000
#define SLICES_MAX 40

/* Reads the number of the newest hint, even if that hint has been removed. */
static int last_hint(struct sqlite_conn *conn, int64_t *seq)
{
	return hwts_sqlite_ask(conn, seq, "select seq from sqlite_sequence where name = '@_hint'", NOTHING);
}

#ifdef __linux__
static void watch(struct sqlite_conn *conn)
{
	char *wal = hwts_alloc(strlen(sqlite_db(&conn->conn)->path) + 5);

	conn->inotify = wal ? inotify_init1(IN_NONBLOCK | IN_CLOEXEC) : -1;
	if (conn->inotify >= 0) {
		(void)sprintf(wal, "%s-wal", sqlite_db(&conn->conn)->path);
		if (inotify_add_watch(conn->inotify, wal, IN_MODIFY) < 0) {
			close(conn->inotify);
			conn->inotify = -1;
		}
	}
	free(wal);
}
#else
static void watch(struct sqlite_conn *conn)
{
	conn->inotify = -1;
}
#endif

/*
 * Called before each take; only the first call does something.  Hints that are left from then on are news.  Without
 * inotify the holder looks for them every 20 ms.
 */
int hwts_sqlite_listen(struct hwts_conn *base, const struct hwts_shard_row *shards, size_t n, bool on)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int rc;

	(void)shards;
	(void)n;
	if (!on || conn->listens)
		return 0;
	if (conn->inotify < 0) /* an earlier call that failed may have made one */
		watch(conn);
	rc = last_hint(conn, &conn->hints_read);
	conn->listens = rc == 0;
	return rc;
}

int hwts_sqlite_news_fd(struct hwts_conn *base)
{
	return sqlite_conn(base)->inotify;
}

/* Passes a hint on, with the group of its row if the row is still there. */
static void hear_hint(sqlite3_stmt *row, hwts_hear *hear, void *ctx)
{
	struct hwts_due due = { .id = number_of(row, 1),
				.due_us = number_of(row, 2),
				.shard = (int32_t)number_of(row, 3),
				.len = (uint32_t)number_of(row, 4) };

	hwts_due_set(&due, sqlite3_column_text(row, 5), (size_t)sqlite3_column_bytes(row, 5), number_of(row, 6));
	if (!HWTS_TEST(deaf))
		hear(ctx, &due);
}

/* Passes on the hints that were not read yet. */
static int read_new(struct sqlite_conn *conn, hwts_hear *hear, void *ctx)
{
	int rc = 0;
	sqlite3_stmt *rows =
	    hwts_sqlite_rows(conn, &rc,
			     "select h.seq, h.id, h.due_us, h.shard, h.len, t.grp, t.priority from @_hint h"
			     " left join @_timeout t on t.id = h.id where h.seq > ? order by h.seq",
			     WITH(conn->hints_read));

	while (hwts_sqlite_next(conn, rows, &rc)) {
		if (number_of(rows, 0) != conn->hints_read + 1)
			hear(ctx, &(struct hwts_due){ .id = -1 });
		conn->hints_read = number_of(rows, 0);
		hear_hint(rows, hear, ctx);
	}
	return rc;
}

static int read_hints(struct sqlite_conn *conn, hwts_hear *hear, void *ctx)
{
	int64_t before = conn->hints_read, last = 0;
	int rc = read_new(conn, hear, ctx);

	if (rc != 0 || conn->hints_read != before)
		return rc;
	/* None: either one comes only now, or some came and went while this process slept, or the file was restored. */
	HWTS_POINT("no hint");
	rc = last_hint(conn, &last);
	if (rc == 0 && last > before)
		rc = read_new(conn, hear, ctx);
	if (rc == 0 && (conn->hints_read < last || last < before)) {
		conn->hints_read = last;
		hear(ctx, &(struct hwts_due){ .id = -1 });
	}
	return rc;
}

static int version_changed(struct sqlite_conn *conn, bool *changed)
{
	int64_t version;
	int rc = hwts_sqlite_ask(conn, &version, "pragma data_version", NOTHING);

	*changed = rc == 0 && version != conn->data_version;
	conn->data_version = rc == 0 ? version : conn->data_version;
	return rc;
}

int hwts_sqlite_news(struct hwts_conn *base, bool signalled, hwts_hear *hear, void *ctx, int64_t *again_ns)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int64_t now_ns = hwt_now(), since_ns;
	bool changed = false;
	char drain[4096];
	int failed;

	if (signalled && conn->inotify >= 0)
		while (read(conn->inotify, drain, sizeof(drain)) > 0)
			conn->written_ns = now_ns;
	since_ns = now_ns - conn->written_ns;
	*again_ns = 0;
	if (conn->inotify < 0)
		*again_ns = LOOK_EACH_NS * 10;
	else if (since_ns < LOOK_FOR_NS)
		*again_ns = HWTS_MAX(since_ns / 4, LOOK_EACH_NS);
	failed = version_changed(conn, &changed);
	return failed == 0 && changed ? read_hints(conn, hear, ctx) : failed;
}

/* Removes a slice in a transaction of its own, so that others wait only briefly.  Returns how many hints it removed. */
static int remove_hints(struct sqlite_conn *conn, int64_t now_us)
{
	int removed, rc;

	if (hwts_sqlite_begin(conn, false) != 0)
		return 0;
	rc = hwts_sqlite_do(conn,
			    "delete from @_hint where seq in (select seq from @_hint order by seq limit ?1)"
			    " and at_us not between ?2 and ?3",
			    WITH(HINTS_A_SLICE, now_us - HINT_LIFE_US, now_us + HINT_LIFE_US));
	removed = sqlite3_changes(conn->handle);
	return hwts_sqlite_commit(conn, rc) == 0 ? removed : 0;
}

/*
 * Removes hints that every holder has read, or will find gone.  At the default lease it keeps up with 100,000 puts a
 * second; a file whose hints stayed would grow without end.  It stops early enough for the next renewal.
 *
 * A hint with a time in the future is from a clock that was ahead.  It is removed too, as later hints are behind it.
 */
void hwts_sqlite_tend(struct hwts_conn *base)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int64_t now_us = hwts_wall_us(), any;
	int64_t enough_ns = hwt_now() + base->db->lease_us * 1000 / 12;

	if (hwts_sqlite_ask(conn, &any,
			    "select exists (select 1 from (select at_us from @_hint order by seq limit 1)"
			    " where at_us not between ?1 and ?2)",
			    WITH(now_us - HINT_LIFE_US, now_us + HINT_LIFE_US)) == 0 &&
	    any)
		for (int i = 0; i < SLICES_MAX; i++)
			if (remove_hints(conn, now_us) < HINTS_A_SLICE || hwt_now() > enough_ns)
				break;
}
