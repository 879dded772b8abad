/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts: each alone, all or none, or on a connection of the caller. */
#include "rows/rows.h"

#include <stdio.h>
#include <stdlib.h>

#define TRIES 10
#define ROWS_MAX 1000 /* in one exchange */

static bool changes(const struct hwts_put *puts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (hwts_changes(&puts[i]))
			return true;
	return false;
}

/* Puts rows in one transaction, in which each row is accepted or refused alone. */
static int put_batch(struct hwts_conn *conn, struct hwts_put *puts, size_t n)
{
	bool inside = !conn->db->engine->locks_rows;
	int rc;

	if (!inside && !changes(puts, n))
		return hwts_rows_send(conn, puts, n, 0, true);
	/*
	 * Puts that change rows learn their ids from the reply.  SQLite first asks whether another process has to be
	 * told.
	 */
	rc = hwts_rows_send(conn, puts, n, inside ? HWTS_OPEN : 0, false);
	if (inside) {
		if (rc == 0)
			rc = hwts_rows_tell(conn, puts, n, HWTS_OPEN, false);
		return hwts_finish(conn, rc);
	}
	if (rc == 0)
		(void)hwts_rows_tell(conn, puts, n, 0, false);
	return rc;
}

/* Once the batch is committed a failure is that of a single put: the others may be in the database. */
static int put_each(struct hwts_conn *conn, struct hwts_put *puts, size_t n)
{
	int rc = put_batch(conn, puts, n);

	for (size_t i = 0; i < n && rc == 0; i++) {
		int failed = 0;

		for (int tries = 0; failed == 0 && puts[i].again && tries < TRIES; tries++) {
			HWTS_POINT("refused");
			failed = put_batch(conn, &puts[i], 1);
		}
		if (failed != 0)
			puts[i].rc = failed;
	}
	return rc;
}

/*
 * All or none
 */

static size_t batch_size(const struct hwts_put *puts, size_t n)
{
	size_t count = 0, bytes = 0;

	for (; count < n && count < ROWS_MAX && bytes < HWTS_PUT_BYTES; count++)
		bytes += puts[count].len;
	return count;
}

static int tell_all(struct hwts_conn *conn, const struct hwts_put *puts, size_t n, unsigned flags)
{
	int rc = 0;

	for (size_t at = 0, size; at < n && rc == 0; at += size) {
		size = HWTS_MIN(n - at, ROWS_MAX);
		rc = hwts_rows_tell(conn, puts + at, size, flags, false);
	}
	return rc;
}

/* *refused: the first put that was refused. */
static int put_in_transaction(struct hwts_conn *conn, struct hwts_put *puts, size_t n, struct hwts_put **refused)
{
	bool inside = !conn->db->engine->locks_rows;
	int rc = 0;

	*refused = NULL;
	for (size_t at = 0, size; at < n && rc == 0 && !*refused; at += size) {
		size = batch_size(puts + at, n - at);
		rc = hwts_rows_send(conn, puts + at, size, HWTS_OPEN, false);
		for (size_t i = at; i < at + size && rc == 0 && !*refused; i++)
			if (puts[i].rc != 0)
				*refused = &puts[i];
	}
	if (rc == 0 && *refused)
		rc = (*refused)->rc;
	if (rc == 0 && inside)
		rc = tell_all(conn, puts, n, HWTS_OPEN);
	rc = hwts_finish(conn, rc);
	if (rc == 0 && !inside)
		(void)tell_all(conn, puts, n, 0);
	return rc;
}

static int put_all(struct hwts_conn *conn, struct hwts_put *puts, size_t n, bool keyed)
{
	struct hwts_put *refused = NULL;
	int rc = 0;

	if (!keyed && batch_size(puts, n) == n)
		return put_batch(conn, puts, n);
	for (int tries = 0; tries < TRIES; tries++) {
		rc = put_in_transaction(conn, puts, n, &refused);
		if (!refused)
			return rc;
		for (const struct hwts_put *put = puts; put < refused; put++)
			if (put->drawn == refused->found_id) { /* put was rolled back as well */
				refused->found_id = 0;
				return rc;
			}
		if (!refused->again)
			return rc;
	}
	return rc;
}

/*
 * Puts are sent in the order of kind, group and key; puts of one key in the order in which they were given.  So of two
 * transactions that put the same keys one waits for the other, and there is no deadlock.
 */

static int by_key(const void *left, const void *right)
{
	const struct hwts_put *a = *(const struct hwts_put *const *)left, *b = *(const struct hwts_put *const *)right;
	int differ;

	if (a->kind.id != b->kind.id)
		return a->kind.id < b->kind.id ? -1 : 1;
	differ = strcmp(a->group ? a->group : "", b->group ? b->group : "");
	if (differ == 0)
		differ = strcmp(a->key ? a->key : "", b->key ? b->key : "");
	return differ ? differ : (a > b) - (a < b);
}

static int put_in_order(struct hwts_conn *conn, struct hwts_put *puts, size_t n, bool all)
{
	struct hwts_put **order = hwts_alloc(n * sizeof(*order)), *sorted = hwts_alloc(n * sizeof(*sorted));
	int rc = order && sorted ? 0 : ENOMEM;

	for (size_t i = 0; i < n && rc == 0; i++)
		order[i] = &puts[i];
	if (rc == 0) {
		qsort(order, n, sizeof(struct hwts_put *), by_key);
		for (size_t i = 0; i < n; i++)
			sorted[i] = *order[i];
		rc = all ? put_all(conn, sorted, n, true) : put_each(conn, sorted, n);
		for (size_t i = 0; i < n; i++)
			*order[i] = sorted[i];
	}
	free(order);
	free(sorted);
	return rc;
}

int hwts_rows_put(struct hwts_conn *conn, struct hwts_put *puts, size_t n, bool all)
{
	bool keyed = false;

	for (size_t i = 0; i < n; i++)
		keyed |= puts[i].key != NULL;
	if (n > 1 && keyed && conn->db->engine->locks_rows)
		return put_in_order(conn, puts, n, all);
	return all ? put_all(conn, puts, n, keyed) : put_each(conn, puts, n);
}

/*
 * On a connection of the caller, in the caller's transaction
 */

/*
 * Writes a kind's name into a statement: on PostgreSQL as hex digits, since the connection may have another encoding.
 */
static void write_name(char *to, const char *name, bool digits)
{
	for (; *name; name++)
		if (digits)
			to += sprintf(to, "%02x", (unsigned)(unsigned char)*name);
		else
			to += sprintf(to, *name == '\'' ? "''" : "%c", *name);
	*to = '\0';
}

/*
 * Writes the condition that the connection leads to this store.  Its pointer proves nothing, as a later connection may
 * have the same; so each insert carries the condition.
 */
static void write_here(const struct hwts_db *db, const struct hwts_put *put, char *here, size_t size)
{
	char name[2 * HWTS_NAME_MAX + 1], place[HWTS_PLACE_SIZE];

	write_name(name, put->kind_name, !db->file);
	hwts_rows_write_place(db, place);
	(void)snprintf(here, size,
		       " where exists (select 1 from %s%s_meta m, %s%s_kind k where m.store = '%s' and k.id = %d and "
		       "%s = '%s'%s)",
		       db->schema, db->prefix, db->schema, db->prefix, db->store, (int)put->kind.id,
		       db->file ? "k.name" : "encode(convert_to(k.name, 'UTF8'), 'hex')", name, place);
}

/* Explains why nothing was inserted. */
static int explain(struct hwts_conn *conn, const struct hwts_put *put)
{
	char place[HWTS_PLACE_SIZE];
	struct hwts_store_row is;
	int rc;

	hwts_rows_write_place(conn->db, place);
	conn->here = place;
	rc = hwts_rows_store(conn, put->kind_name, &is);
	conn->here = NULL;
	if (rc != 0)
		return rc;
	if (strcmp(is.text, conn->db->store) != 0)
		return hwts_rows_not_here(conn);
	if (is.kind != put->kind.id)
		return hwts_fail(
		    EIO,
		    "kind %s is not in the database as this transaction sees it: begin a new one; if it is "
		    "lost, restart this process",
		    put->kind_name);
	return put->rc;
}

int hwts_rows_put_on(struct hwts_conn *conn, struct hwts_put *put)
{
	char here[sizeof(conn->db->schema) * 2 + 400 + HWTS_PLACE_SIZE];
	int rc = 0;

	write_here(conn->db, put, here, sizeof(here));
	put->again = true;
	if (put->keep_due) /* the put may change the row it finds, so the place is checked before */
		rc = hwts_rows_here(conn);
	conn->here = here;
	for (int tries = 0; tries < TRIES && put->again && rc == 0; tries++)
		rc = hwts_rows_send(conn, put, 1, HWTS_OPEN, false);
	if (rc == 0 && put->rc != 0)
		rc = explain(conn, put);
	/*
	 * The notification is delivered when the caller commits.  This process gets one too, as it does not know when
	 * that is.
	 */
	if (rc == 0)
		rc = hwts_rows_tell(conn, put, 1, HWTS_OPEN, true);
	conn->here = NULL;
	return rc;
}
