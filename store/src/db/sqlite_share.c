/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Leases, shards and the look-ahead in SQLite.
 *
 * All processes on a file are on one machine, so leases are measured on CLOCK_BOOTTIME, which nobody can set.  It
 * begins at 0 with each boot: the tables note the boot, and the first process after a reboot removes the members of
 * before.
 */
#include "db/sqlite.h"

#include <stdio.h>
#include <stdlib.h>

static int64_t lease_clock_us(void)
{
	return hwts_boot_ns() / 1000;
}

/* ",1,5," */
static char *list_of(const int32_t *kinds, size_t n)
{
	char *list = hwts_alloc(n * 12 + 2);
	size_t at = 1;

	if (!list)
		return NULL;
	list[0] = ',';
	for (size_t i = 0; i < n; i++)
		at += (size_t)snprintf(list + at, 13, "%d,", kinds[i]);
	return list;
}

static bool is_listed(const char *list, int32_t kind)
{
	char word[16];

	(void)snprintf(word, sizeof(word), ",%d,", kind);
	return strstr(list, word) != NULL;
}

static int add_member(struct sqlite_conn *conn, const char *list, bool force, int *changes)
{
	return hwts_sqlite_do(
	    conn, changes,
	    "insert into @_member values (?1, ?2, ?3 + ?4, ?5) on conflict (name) do update set"
	    " incarnation = excluded.incarnation, until_us = excluded.until_us, kinds = excluded.kinds"
	    " where ?6 or incarnation = ?2 or until_us <= ?3",
	    WITH(TEXT(hwts_me(conn->conn.db)), NUMBER(conn->conn.db->incarnation), NUMBER(lease_clock_us()),
		 NUMBER(conn->conn.db->lease_us), TEXT(list), NUMBER(force)));
}

/* A hint that tells the others to look at the shards. */
static int call_others(struct sqlite_conn *conn)
{
	return hwts_sqlite_hint(conn, &(struct hwts_due){ 0, 0, -1, 0 }, hwts_wall_us());
}

int hwts_sqlite_join(struct hwts_conn *base, const int32_t *kinds, size_t n, bool force)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	char *list = list_of(kinds, n);
	int changes = 0;
	int rc = list ? hwts_sqlite_begin(conn, false) : ENOMEM;

	if (rc == 0) {
		rc = add_member(conn, list, force, &changes);
		if (rc == 0 && changes == 0)
			rc = hwts_fail(EEXIST, "the name %s is in use by another process", hwts_me(base->db));
		if (rc == 0)
			rc = call_others(conn);
		rc = hwts_sqlite_commit(conn, rc);
	}
	free(list);
	return rc;
}

int hwts_sqlite_leave(struct hwts_conn *base)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int changes = 0;
	int rc = hwts_sqlite_begin(conn, false);

	if (rc != 0)
		return rc;
	rc = hwts_sqlite_do(conn, &changes, "delete from @_member where name = ? and incarnation = ?",
			    WITH(TEXT(hwts_me(base->db)), NUMBER(base->db->incarnation)));
	if (rc == 0 && changes == 1)
		rc = call_others(conn);
	return hwts_sqlite_commit(conn, rc);
}

/*
 * Looking
 */

static int renew(struct sqlite_conn *conn, struct hwts_look *look)
{
	int changes = 0;
	int rc = hwts_sqlite_do(
	    conn, &changes,
	    "update @_member set until_us = ?1 + ?2 where name = ?3 and incarnation = ?4 and until_us > ?1",
	    WITH(NUMBER(lease_clock_us()), NUMBER(conn->conn.db->lease_us), TEXT(hwts_me(conn->conn.db)),
		 NUMBER(conn->conn.db->incarnation)));

	look->renewed = changes == 1;
	return rc;
}

static int count_members(struct sqlite_conn *conn, struct hwts_look *look)
{
	int rc = 0;
	sqlite3_stmt *rows = hwts_sqlite_rows(conn, &rc, "select kinds from @_member where until_us > ?",
					      WITH(NUMBER(lease_clock_us())));

	memset(look->members, 0, look->kind_count * sizeof(*look->members));
	while (hwts_sqlite_next(conn, rows, &rc))
		for (size_t i = 0; i < look->kind_count; i++)
			look->members[i] += is_listed((const char *)sqlite3_column_text(rows, 0), look->kinds[i]);
	return rc;
}

static int list_shards(struct sqlite_conn *conn, struct hwts_look *look, int32_t kind)
{
	int rc = 0;
	sqlite3_stmt *rows = hwts_sqlite_rows(
	    conn, &rc,
	    "select s.id, s.epoch, s.owner = ?2, s.owner is null or ifnull(m.until_us, 0) <= ?3, m.until_us - ?3"
	    " from @_shard s left join @_member m on m.name = s.owner where s.kind = ?1",
	    WITH(NUMBER(kind), TEXT(hwts_me(conn->conn.db)), NUMBER(lease_clock_us())));

	while (hwts_sqlite_next(conn, rows, &rc)) {
		struct hwts_shard_row shard = { .shard = (int32_t)number_of(rows, 0),
						.epoch = number_of(rows, 1),
						.mine = number_of(rows, 2) == 1,
						.free = number_of(rows, 3) == 1,
						.left_us = number_of(rows, 4) };

		if (!hwts_look_shard(look, &shard))
			rc = ENOMEM;
	}
	return rc;
}

/* Adds to the dues; *last is the last of them. */
static int read_dues(struct sqlite_conn *conn, struct hwts_look *look, sqlite3_stmt *rows, struct hwts_due *last)
{
	int rc = 0;

	while (hwts_sqlite_next(conn, rows, &rc)) {
		last->id = number_of(rows, 0);
		last->due_us = number_of(rows, 1);
		last->len = (uint32_t)number_of(rows, 2);
		if (!hwts_look_due(look, last))
			rc = ENOMEM;
	}
	return rc;
}

static int look_ahead(struct sqlite_conn *conn, struct hwts_look *look, struct hwts_held *held)
{
	size_t before = look->due_count;
	int64_t to_us = look->now_us + held->horizon_us;
	struct hwts_due last = { .shard = held->shard };
	int rc = 0;
	sqlite3_stmt *rows = hwts_sqlite_rows(
	    conn, &rc,
	    "select id, due_us, length(data) from @_timeout where shard = ?1 and (due_us, id) > (?2, ?3)"
	    " and due_us < ?4 and (state = 1 or (state = 2 and epoch < ?5)) order by due_us, id limit ?6",
	    WITH(NUMBER(held->shard), NUMBER(held->mark_due_us), NUMBER(held->mark_id), NUMBER(to_us),
		 NUMBER(held->epoch), NUMBER((int64_t)look->page)));

	if (rc == 0)
		rc = read_dues(conn, look, rows, &last);
	held->full = look->due_count - before >= look->page;
	if (held->full) {
		held->mark_due_us = last.due_us;
		held->mark_id = last.id;
	} else if (to_us > held->mark_due_us) {
		held->mark_due_us = to_us;
		held->mark_id = 0;
	}
	return rc;
}

static int look_back(struct sqlite_conn *conn, struct hwts_look *look, const struct hwts_held *held)
{
	int rc = 0;
	sqlite3_stmt *rows =
	    hwts_sqlite_rows(conn, &rc,
			     "select id, due_us, length(data) from @_timeout where shard = ?1 and due_us < ?2"
			     " and (state = 1 or (state = 2 and epoch < ?3)) order by due_us, id limit ?4",
			     WITH(NUMBER(held->shard), NUMBER(look->now_us - look->overdue_us), NUMBER(held->epoch),
				  NUMBER((int64_t)look->page)));

	return rc ? rc : read_dues(conn, look, rows, &(struct hwts_due){ .shard = held->shard });
}

static int look_at_all(struct sqlite_conn *conn, struct hwts_look *look)
{
	int failed = 0;

	if (look->renew) {
		failed = renew(conn, look);
		if (failed == 0)
			failed = count_members(conn, look);
		for (size_t i = 0; i < look->kind_count && failed == 0; i++)
			failed = list_shards(conn, look, look->kinds[i]);
	}
	for (size_t i = 0; i < look->held_count && failed == 0; i++)
		failed = look_ahead(conn, look, &look->held[i]);
	look->overdue_from = look->due_count;
	for (size_t i = 0; i < look->held_count && failed == 0 && look->renew; i++)
		failed = look_back(conn, look, &look->held[i]);
	look->running_from = look->due_count; /* an end is lost with the machine, and its process is, too */
	return failed;
}

int hwts_sqlite_look(struct hwts_conn *base, struct hwts_look *look)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int rc;

	look->shard_count = look->due_count = 0;
	look->sent_ns = hwt_now();
	rc = hwts_sqlite_begin(conn, false);
	if (rc != 0)
		return rc;
	look->now_us = hwts_wall_us();
	look->reply_ns = hwt_now();
	return hwts_sqlite_commit(conn, look_at_all(conn, look));
}

/*
 * Taking, giving
 */

static int take_one(struct sqlite_conn *conn, struct hwts_shard_row *shard, int64_t now_us)
{
	int changes = 0;
	int rc = hwts_sqlite_do(
	    conn, &changes,
	    "update @_shard set epoch = epoch + 1, owner = ?1 where id = ?3 and epoch = ?4 and (owner = ?1 or owner is"
	    " null or not exists (select 1 from @_member m where m.name = @_shard.owner and m.until_us > ?2))",
	    WITH(TEXT(hwts_me(conn->conn.db)), NUMBER(lease_clock_us()), NUMBER(shard->shard), NUMBER(shard->epoch)));

	shard->epoch = changes == 1 ? shard->epoch + 1 : 0;
	if (rc != 0 || changes != 1 || !shard->fail_running)
		return rc;
	/* At most once: what was running there must not run again.  What runs was due; a day for a clock put back. */
	return hwts_sqlite_do(conn, NULL,
			      "update @_timeout set state = 3, shard = -1 - shard,"
			      " error = 'its process died or was cut off while it ran'"
			      " where shard = ? and due_us < ? and state = 2",
			      WITH(NUMBER(shard->shard), NUMBER(now_us + 86400 * HWTS_S_US)));
}

int hwts_sqlite_take(struct hwts_conn *base, struct hwts_shard_row *shards, size_t n)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int64_t now_us = 0;
	int rc = hwts_sqlite_begin(conn, false);

	if (rc != 0)
		return rc;
	now_us = hwts_wall_us();
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = take_one(conn, &shards[i], now_us);
	return hwts_sqlite_commit(conn, rc);
}

int hwts_sqlite_give(struct hwts_conn *base, const struct hwts_shard_row *shards, size_t n)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int rc = hwts_sqlite_begin(conn, false);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = hwts_sqlite_do(conn, NULL, "update @_shard set owner = null where id = ? and epoch = ?",
				    WITH(NUMBER(shards[i].shard), NUMBER(shards[i].epoch)));
	if (rc == 0)
		rc = call_others(conn);
	return hwts_sqlite_commit(conn, rc);
}
