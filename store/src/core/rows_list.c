/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading timeouts.
 */
#include "core/rows.h"

#include <stdlib.h>

static void cut_value(char *field, size_t size, const struct hwts_value *value)
{
	hwts_cut(field, size, value->bytes ? value->bytes : "", value->len);
}

static void read_info(hwt_store_info *info, const struct hwts_value *row)
{
	info->id = row[0].number;
	info->state = (hwt_store_state)row[1].number;
	info->attempt = (unsigned)row[2].number;
	info->due_us = row[3].number;
	info->period_ns = hwts_within(row[4].number, HWTS_LONGEST_PERIOD_US) * 1000;
	cut_value(info->kind, sizeof(info->kind), &row[5]);
	cut_value(info->key, sizeof(info->key), &row[6]);
	cut_value(info->owner, sizeof(info->owner), &row[7]);
	cut_value(info->error, sizeof(info->error), &row[8]);
}

struct got {
	hwt_store_info *info;
	bool found;
};

static int get_row(void *ctx, const struct hwts_value *row)
{
	struct got *got = ctx;

	read_info(got->info, row);
	got->found = true;
	return 0;
}

int hwts_rows_get(struct hwts_conn *conn, int64_t id, hwt_store_info *info)
{
	struct got got = { .info = info };
	int rc = hwts_run(conn, &(struct hwts_step){ HWTS_SQL_GET, { HWTS_NUMBER(id) }, .each = get_row, .ctx = &got },
			  1, HWTS_READS);

	return rc == 0 && !got.found ? hwts_fail(ENOENT, "there is no timeout %lld", (long long)id) : rc;
}

static int find_row(void *ctx, const struct hwts_value *row)
{
	*(int64_t *)ctx = row[0].number;
	return 0;
}

int hwts_rows_find(struct hwts_conn *conn, int32_t kind, const char *key, int64_t *id)
{
	int64_t found = 0;
	int rc =
	    hwts_run(conn,
		     &(struct hwts_step){ HWTS_SQL_FIND,
					  { HWTS_NUMBER(hwts_id_of(0, NULL, key)), HWTS_NUMBER(kind), HWTS_TEXT(key) },
					  .each = find_row,
					  .ctx = &found },
		     1, HWTS_READS);

	if (rc != 0)
		return rc;
	if (found == 0)
		return hwts_fail(ENOENT, "there is no timeout with the key \"%s\"", key);
	*id = found;
	return 0;
}

/*
 * Pages: the next n of each shard, of which the first n of them all are kept.
 */

struct page {
	hwt_store_info *infos; /* room for 2 n */
	size_t n, count;
};

static int by_place(const void *left, const void *right)
{
	const hwt_store_info *a = left, *b = right;

	if (a->due_us != b->due_us)
		return a->due_us < b->due_us ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

static int page_row(void *ctx, const struct hwts_value *row)
{
	struct page *page = ctx;

	if (page->count == 2 * page->n) {
		qsort(page->infos, page->count, sizeof(*page->infos), by_place);
		page->count = page->n;
	}
	read_info(&page->infos[page->count++], row);
	return 0;
}

int hwts_rows_page(struct hwts_conn *conn, const struct hwts_kind_row *kind, unsigned states, int64_t due_us,
		   int64_t id, hwt_store_info *out, size_t n, size_t *count)
{
	bool pending = states & 1u << HWT_STORE_PENDING, live = pending || states & 1u << HWT_STORE_RUNNING;
	struct page page = { .infos = hwts_alloc(2 * n * sizeof(*page.infos)), .n = n };
	int64_t *shards = hwts_alloc(2 * kind->shards * sizeof(*shards));
	size_t shard_count = 0;
	int rc = page.infos && shards ? 0 : ENOMEM;

	for (uint32_t i = 0; i < kind->shards && rc == 0; i++) {
		int64_t shard = (int64_t)kind->id * HWTS_SHARDS_MAX + i;

		if (live)
			shards[shard_count++] = shard;
		if (states & 1u << HWT_STORE_FAILED)
			shards[shard_count++] = -1 - shard;
	}
	if (rc == 0)
		rc = hwts_run(
		    conn,
		    &(struct hwts_step){ HWTS_SQL_PAGE,
					 { HWTS_BYTES(shards, shard_count), HWTS_NUMBER(due_us), HWTS_NUMBER(id),
					   HWTS_NUMBER(states), HWTS_NUMBER((int64_t)n), HWTS_NUMBER(pending) },
					 .each = page_row,
					 .ctx = &page },
		    1, HWTS_READS);
	*count = 0;
	if (rc == 0) {
		qsort(page.infos, page.count, sizeof(*page.infos), by_place);
		*count = HWTS_MIN(page.count, n);
		memcpy(out, page.infos, *count * sizeof(*out));
	}
	free(page.infos);
	free(shards);
	return rc;
}
