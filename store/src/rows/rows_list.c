/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading timeouts.
 */
#include "rows/rows.h"

#include <stdlib.h>

static void cut_value(char *field, size_t size, const struct hwts_value *value)
{
	hwts_cut(field, size, value->bytes ? value->bytes : "", value->len);
}

static void read_info(hwt_store_info *info, const struct hwts_value *row)
{
	info->id = row[0].number;
	info->state = hwts_state_of(&row[1]);
	info->attempt = (unsigned)row[2].number;
	info->due_us = row[3].number;
	info->period_ns = hwts_within(row[4].number, HWTS_LONGEST_PERIOD_US) * 1000;
	cut_value(info->kind, sizeof(info->kind), &row[5]);
	cut_value(info->key, sizeof(info->key), &row[6]);
	cut_value(info->owner, sizeof(info->owner), &row[7]);
	cut_value(info->error, sizeof(info->error), &row[8]);
	cut_value(info->group, sizeof(info->group), &row[9]);
	info->priority = (int)row[10].number;
	cut_value(info->schedule, sizeof(info->schedule), &row[11]);
	cut_value(info->zone, sizeof(info->zone), &row[12]);
	info->len = (size_t)row[13].number;
}

struct got {
	hwt_store_info *info;
	bool found;
};

static int get_row(void *ctx, const struct hwts_value *row)
{
	struct got *got = ctx;

	read_info(got->info, row);
	if (row[14].len > 0)
		memcpy(got->info->data, row[14].bytes, HWTS_MIN(row[14].len, got->info->data_room));
	got->found = true;
	return 0;
}

int hwts_rows_get(struct hwts_conn *conn, int64_t id, hwt_store_info *info)
{
	struct got got = { .info = info };
	size_t room = info->data ? HWTS_MIN(info->data_room, HWT_STORE_DATA_MAX) : 0;
	struct hwts_step step = HWTS_ASK(GET, get_row, &got, HWTS_NUMBER(id), HWTS_NUMBER((int64_t)room));
	int rc = hwts_run(conn, &step, 1, HWTS_READS);

	return rc == 0 && !got.found ? hwts_fail(ENOENT, "there is no timeout %lld", (long long)id) : rc;
}

/* A row without a group has an empty text: null would not be unique in an index. */
struct hwts_step hwts_find(int32_t kind, const char *group, const char *key, hwts_each *each, void *ctx)
{
	return (struct hwts_step)HWTS_ASK(FIND, each, ctx, HWTS_NUMBER(hwts_id_of(0, group, key)), HWTS_NUMBER(kind),
					  HWTS_TEXT(group ? group : ""), HWTS_TEXT(key));
}

int hwts_rows_find(struct hwts_conn *conn, int32_t kind, const char *group, const char *key, int64_t *id)
{
	int64_t found = 0;
	struct hwts_step step = hwts_find(kind, group, key, hwts_note_number, &found);
	int rc = hwts_run(conn, &step, 1, HWTS_READS);

	if (rc != 0)
		return rc;
	if (found == 0)
		return hwts_fail(ENOENT, "there is no timeout with the key \"%s\"", key);
	*id = found;
	return 0;
}

/*
 * Lists.  A page asks each shard for the next few places.  Places up to the earliest `last place` of the shards that
 * have more are complete, and are handed out in order.  So a row is read only a few times, however many shards there
 * are.
 */

#define PLACES_LEAST 8

struct reading {
	struct hwts_list *list;
	size_t limit;         /* most places to read of a shard */
	int64_t shard, count; /* the shard whose places come now, and how many have come */
	struct hwts_place end;
	bool more; /* there may be places after end */
};

static int by_place(const void *left, const void *right)
{
	const struct hwts_place *a = left, *b = right;

	if (a->due_us != b->due_us)
		return a->due_us < b->due_us ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

static int place_row(void *ctx, const struct hwts_value *row)
{
	struct reading *reading = ctx;
	struct hwts_list *list = reading->list;
	struct hwts_place place = { row[1].number, row[2].number };

	if (!hwts_grow(&list->places, &list->room, list->count + 1, sizeof(place)))
		return ENOMEM;
	list->places[list->count++] = place;
	reading->count = row[0].number == reading->shard ? reading->count + 1 : 1;
	reading->shard = row[0].number;
	if ((size_t)reading->count == reading->limit && (!reading->more || by_place(&place, &reading->end) < 0)) {
		reading->more = true;
		reading->end = place;
	}
	return 0;
}

static int read_places(struct hwts_conn *conn, struct hwts_list *list, struct hwts_step step, struct reading *reading)
{
	int rc;

	list->count = list->at = 0;
	step.each = place_row;
	step.ctx = reading;
	rc = hwts_run(conn, &step, 1, HWTS_READS);
	if (rc != 0) {
		list->count = 0;
		return rc;
	}
	if (list->count > 0)
		qsort(list->places, list->count, sizeof(*list->places), by_place);
	while (reading->more && by_place(&list->places[list->count - 1], &reading->end) > 0)
		list->count--;
	list->last = reading->end;
	list->read = !reading->more;
	return 0;
}

static size_t places_of(const struct hwts_list *list)
{
	return list->may_stop && !list->places ? HWTS_PLACES / 8 : HWTS_PLACES;
}

static int read_group(struct hwts_conn *conn, const struct hwts_kind_row *kind, struct hwts_list *list)
{
	struct reading reading = { .list = list, .limit = places_of(list), .shard = INT64_MIN };
	struct hwts_step step = HWTS_DO(GROUP_PLACES, HWTS_NUMBER(hwts_id_of(0, list->group, NULL)),
					HWTS_NUMBER(kind->id), HWTS_TEXT(list->group), HWTS_NUMBER(list->last.due_us),
					HWTS_NUMBER(list->last.id), HWTS_NUMBER(list->to_us), HWTS_NUMBER(list->states),
					HWTS_NUMBER((int64_t)reading.limit));

	return read_places(conn, list, step, &reading);
}

static int read_shards(struct hwts_conn *conn, struct hwts_list *list, const int64_t *shards, size_t n, size_t limit)
{
	struct reading reading = { .list = list, .limit = limit, .shard = INT64_MIN };
	bool pending = list->states & 1u << HWT_STORE_PENDING;
	struct hwts_step step = HWTS_DO(PLACES, HWTS_BYTES(shards, n), HWTS_NUMBER(list->last.due_us),
					HWTS_NUMBER(list->last.id), HWTS_NUMBER(list->states),
					HWTS_NUMBER((int64_t)reading.limit), HWTS_NUMBER(pending),
					HWTS_NUMBER(list->any_group), HWTS_NUMBER(list->to_us));

	return read_places(conn, list, step, &reading);
}

int hwts_rows_places(struct hwts_conn *conn, const struct hwts_kind_row *kind, struct hwts_list *list)
{
	bool live = list->states & (1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING);
	size_t limit = HWTS_MAX(places_of(list) / kind->shards, PLACES_LEAST), n = 0; /* few rows are FAILED */
	int64_t *shards;
	int rc;

	if (list->group)
		return read_group(conn, kind, list);
	shards = hwts_alloc(2 * kind->shards * sizeof(*shards));
	for (uint32_t i = 0; i < kind->shards && shards; i++) {
		int64_t shard = (int64_t)kind->id * HWTS_SHARDS_MAX + i;

		if (live)
			shards[n++] = shard;
		if (list->states & 1u << HWT_STORE_FAILED)
			shards[n++] = -1 - shard;
	}
	rc = shards ? read_shards(conn, list, shards, n, limit) : ENOMEM;
	free(shards);
	return rc;
}

struct infos {
	const struct hwts_list *list;
	hwt_store_info *infos; /* by the places; id 0: the row is gone */
	size_t n;
};

/* True: the row has moved since its last place was read, and comes at a later place. */
static bool comes_later(const struct hwts_list *list, const hwt_store_info *info)
{
	struct hwts_place place = { info->due_us, info->id };

	return !list->read && by_place(&place, &list->last) > 0;
}

static int info_row(void *ctx, const struct hwts_value *row)
{
	struct infos *infos = ctx;
	const struct hwts_place *places = infos->list->places + infos->list->at;
	hwt_store_info info = { .size = 0 };

	read_info(&info, row);
	if (comes_later(infos->list, &info))
		return 0;
	for (size_t i = 0; i < infos->n; i++) {
		if (places[i].id != info.id || infos->infos[i].id != 0 || !(infos->list->states & 1u << info.state))
			continue;
		if (row[14].len > 0) {
			info.data = hwts_alloc(row[14].len);
			info.data_room = row[14].len;
			if (!info.data)
				return ENOMEM;
			memcpy(info.data, row[14].bytes, row[14].len);
		}
		infos->infos[i] = info;
		break;
	}
	return 0;
}

/* Returns the next rows, at most n.  *count may be less, even 0, before the end of the list. */
int hwts_rows_list(struct hwts_conn *conn, const struct hwts_kind_row *kind, struct hwts_list *list,
		   hwt_store_info *out, size_t n, size_t *count)
{
	struct infos infos = { .list = list, .infos = out };
	int64_t *ids = hwts_alloc(n * sizeof(*ids));
	int rc = !ids ? ENOMEM : list->at == list->count ? hwts_rows_places(conn, kind, list) : 0;

	*count = 0;
	if (rc == 0) {
		infos.n = HWTS_MIN(list->count - list->at, n);
		memset(out, 0, n * sizeof(*out));
		for (size_t i = 0; i < infos.n; i++)
			ids[i] = list->places[list->at + i].id;
		if (infos.n > 0)
			rc = hwts_run(conn,
				      &(struct hwts_step)HWTS_ASK(INFOS, info_row, &infos, HWTS_BYTES(ids, infos.n),
								  HWTS_NUMBER(list->with_data)),
				      1, HWTS_READS);
	}
	for (size_t i = 0; i < infos.n; i++)
		if (rc != 0)
			free(out[i].data);
		else if (out[i].id != 0)
			out[(*count)++] = out[i];
	list->at += rc == 0 ? infos.n : 0;
	free(ids);
	return rc;
}
