/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading timeouts in PostgreSQL.
 */
#include "db/postgres.h"

#define INFO                                                                                                           \
	"select t.id, t.state, t.attempt, t.due_us, t.period_us, k.name, t.key, s.owner, t.error from @_timeout t"     \
	" join @_kind k on k.id = t.kind"                                                                              \
	" left join @_shard s on s.id = case when t.shard < 0 then -1 - t.shard else t.shard end"

static void cut_column(char *field, size_t size, const PGresult *result, int row, int column)
{
	hwts_cut(field, size, PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column));
}

static void read_info(hwt_store_info *info, const PGresult *result, int row)
{
	info->id = hwts_pg_get(result, row, 0);
	info->state = (hwt_store_state)hwts_pg_get(result, row, 1);
	info->attempt = (unsigned)hwts_pg_get(result, row, 2);
	info->due_us = hwts_pg_get(result, row, 3);
	info->period_ns = hwts_pg_get(result, row, 4) * 1000;
	cut_column(info->kind, sizeof(info->kind), result, row, 5);
	cut_column(info->key, sizeof(info->key), result, row, 6);
	cut_column(info->owner, sizeof(info->owner), result, row, 7);
	cut_column(info->error, sizeof(info->error), result, row, 8);
}

/* Reading changes nothing, so that what happened is known when a connection breaks. */
static int read_only(int rc)
{
	return rc == ECONNRESET ? ENOTCONN : rc;
}

int hwts_pg_get_info(struct hwts_conn *base, int64_t id, hwt_store_info *info)
{
	struct pg_args args = { .n = 0 };
	PGresult *result;
	int rc;

	hwts_pg_int8(&args, id);
	rc = hwts_pg_one(pg_conn(base), INFO " where t.id = $1::bigint", &args, &result);
	if (rc != 0)
		return read_only(rc);
	if (PQntuples(result) == 1)
		read_info(info, result, 0);
	else
		rc = hwts_fail(ENOENT, "there is no timeout %lld", (long long)id);
	PQclear(result);
	return rc;
}

int hwts_pg_find(struct hwts_conn *base, int32_t kind, const char *key, int64_t *id)
{
	struct pg_args args = { .n = 0 };
	PGresult *result;
	int rc;

	hwts_pg_int4(&args, kind);
	hwts_pg_bytes(&args, key, strlen(key));
	rc = hwts_pg_one(pg_conn(base), "select id from @_timeout where kind = $1::int and key = $2::bytea", &args,
			 &result);
	if (rc != 0)
		return read_only(rc);
	if (PQntuples(result) == 1)
		*id = hwts_pg_get(result, 0, 0);
	else
		rc = hwts_fail(ENOENT, "there is no timeout with the key \"%s\"", key);
	PQclear(result);
	return rc;
}

/* The next n of each shard by the index, then the first n of them all.  What runs was due, so without PENDING only what
 * is due is read. */
int hwts_pg_page(struct hwts_conn *base, const struct hwts_kind_row *kind, unsigned states, int64_t due_us, int64_t id,
		 hwt_store_info *out, size_t n, size_t *count)
{
	struct pg_args args = { .n = 0 };
	bool live = states & (1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING),
	     failed = states & 1u << HWT_STORE_FAILED;
	PGresult *result;
	int rc;

	hwts_pg_array(&args, PG_INT4, kind->shards * (size_t)(live + failed));
	for (int32_t i = 0, shard; i < (int32_t)kind->shards; i++) {
		shard = kind->id * HWTS_SHARDS_MAX + i;
		if (live)
			hwts_pg_item_int4(&args, shard);
		if (failed)
			hwts_pg_item_int4(&args, -1 - shard);
	}
	hwts_pg_int8(&args, due_us);
	hwts_pg_int8(&args, id);
	hwts_pg_int4(&args, (int32_t)states);
	hwts_pg_int8(&args, (int64_t)n);
	hwts_pg_bool(&args, (states & 1u << HWT_STORE_PENDING) != 0);
	rc = hwts_pg_one(
	    pg_conn(base),
	    "with n as materialized " PG_NOW ", p as (select x.* from unnest($1::int[]) s(id), n, lateral ("
	    "select t.id, t.due_us from @_timeout t where t.shard = s.id and (t.due_us, t.id) > ($2::bigint,"
	    " $3::bigint) and t.due_us < case when $6::bool or s.id < 0 then 9223372036854775807"
	    " else n.us + 1000000 end and (1 << t.state) & $4::int <> 0 order by t.due_us, t.id limit $5::bigint"
	    ") x order by x.due_us, x.id limit $5::bigint) " INFO " join p on p.id = t.id order by p.due_us, p.id",
	    &args, &result);
	*count = 0;
	if (rc != 0)
		return read_only(rc);
	for (int row = 0; row < PQntuples(result); row++)
		read_info(&out[(*count)++], result, row);
	PQclear(result);
	return 0;
}
