/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kinds in the database.
 */
#include "core/rows.h"

static int read_row(void *ctx, const struct hwts_value *row)
{
	*(struct hwts_kind_row *)ctx = (struct hwts_kind_row){ (int32_t)row[0].number, (uint32_t)row[1].number,
							       (int)row[2].number, row[3].number };
	return 0;
}

/* Makes it, or sets what the first registration of a kind sets that a put has made; and reads it. */
static int make_kind(struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
		     struct hwts_kind_row *is)
{
	struct hwts_step steps[] = {
		{ .sql = HWTS_SQL_KIND_LOCK },
		{ .sql = HWTS_SQL_FLUSH },
		{ .sql = HWTS_SQL_KIND_MAKE,
		  .args = { HWTS_TEXT(name), HWTS_NUMBER(make->shards), HWTS_NUMBER(make->mode),
			    HWTS_NUMBER(make->horizon_us) } },
		{ .sql = HWTS_SQL_KIND_OPEN,
		  .args = { HWTS_TEXT(name), HWTS_NUMBER(make->mode), HWTS_NUMBER(make->horizon_us) } },
		{ .sql = HWTS_SQL_KIND_SHARDS, .args = { HWTS_TEXT(name) } },
		{ HWTS_SQL_KIND, { HWTS_TEXT(name) }, .each = read_row, .ctx = is },
	};

	return hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED);
}

int hwts_rows_kind(struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
		   struct hwts_kind_row *out)
{
	struct hwts_kind_row is = { .id = 0 };
	struct hwts_step step = { HWTS_SQL_KIND, { HWTS_TEXT(name) }, .each = read_row, .ctx = &is };
	int rc = hwts_run(conn, &step, 1, HWTS_READS);

	if (rc == 0 && make && (is.id == 0 || (is.mode == HWTS_MODE_OPEN && make->mode != HWTS_MODE_OPEN)))
		rc = make_kind(conn, name, make, &is);
	if (rc == 0 && is.id == 0)
		rc = hwts_fail(ENOENT, "there is no kind \"%s\"", name);
	if (rc == 0)
		*out = is;
	return rc == ECONNRESET ? ENOTCONN : rc; /* it may be made: then it is read the next time */
}

struct store {
	char *text;
	int32_t *kind;
};

static int read_store(void *ctx, const struct hwts_value *row)
{
	struct store *store = ctx;

	hwts_cut(store->text, 33, row[0].bytes ? row[0].bytes : "", row[0].len);
	*store->kind = (int32_t)row[1].number;
	return 0;
}

int hwts_rows_store(struct hwts_conn *conn, const char *name, char text[33], int32_t *kind)
{
	struct store store = { text, kind };
	struct hwts_step step = { HWTS_SQL_STORE, { HWTS_TEXT(name) }, .each = read_store, .ctx = &store };

	text[0] = '\0';
	*kind = 0;
	return hwts_run(conn, &step, 1, HWTS_READS);
}

static int note_row(void *ctx, const struct hwts_value *row)
{
	(void)row;
	*(bool *)ctx = true;
	return 0;
}

int hwts_rows_not_here(const struct hwts_conn *conn)
{
	return hwts_fail(EINVAL, "%s: the connection leads to another store, whose tables are called %s_* too",
			 conn->db->engine->name, conn->db->prefix);
}

int hwts_rows_here(struct hwts_conn *conn)
{
	bool here = false;
	struct hwts_step step = { HWTS_SQL_HERE, { HWTS_TEXT(conn->db->store) }, .each = note_row, .ctx = &here };
	int rc = hwts_run(conn, &step, 1, HWTS_OPEN);

	return rc == 0 && !here ? hwts_rows_not_here(conn) : rc;
}
