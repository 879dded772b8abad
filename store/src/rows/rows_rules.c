/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules of groups in the database.
 *
 * The numbers of the shards are read before the rules.  A change in between is in the rules that were read, but not yet
 * in the number: the next begin then says that the rules have changed, and they are read again.
 */
#include "rows/rows.h"

#include <stdlib.h>

#define LONGEST_US HWTS_LONGEST_PERIOD_US

/* Limits the burst so that a full bucket takes at most the longest period. */
static struct hwts_rules rules_of(const struct hwts_value *row)
{
	int64_t every_us = hwts_within(row[1].number, LONGEST_US), most = every_us > 0 ? LONGEST_US / every_us : 0;

	return (
	    struct hwts_rules){ .running = (uint32_t)hwts_within(row[0].number, INT32_MAX),
				.every_ns = every_us * 1000,
				.burst = (uint32_t)(every_us > 0 ? HWTS_MAX(hwts_within(row[2].number, most), 1) : 0) };
}

static int read_shard(void *ctx, const struct hwts_value *row)
{
	struct hwts_ruling *ruling = ctx;

	for (size_t i = 0; i < ruling->n; i++) {
		struct hwts_ruled *ruled = &ruling->shards[i];

		if (ruled->id != row[0].number)
			continue;
		ruled->rules = row[1].number;
		ruled->is_there = true;
		free(ruled->levels);
		ruled->levels = hwts_alloc(row[2].len + 1);
		if (!ruled->levels)
			return ENOMEM;
		ruled->levels_len = row[2].len;
		if (row[2].len > 0)
			memcpy(ruled->levels, row[2].bytes, row[2].len);
	}
	ruling->paused = row[3].number != 0;
	ruling->each = rules_of(&row[4]);
	return 0;
}

static int read_group(void *ctx, const struct hwts_value *row)
{
	struct hwts_ruling *ruling = ctx;
	struct hwts_ruled_group *group;

	if (!hwts_grow(&ruling->groups, &ruling->group_room, ruling->group_count + 1, sizeof(*group)))
		return ENOMEM;
	group = &ruling->groups[ruling->group_count++];
	*group = (struct hwts_ruled_group){ .len = (uint8_t)HWTS_MIN(row[0].len, (size_t)HWTS_KEY_MAX) };
	memcpy(group->name, row[0].bytes, group->len);
	group->is = (struct hwts_own){ .paused = row[2].number != 0,
				       .limited = row[3].number != 0,
				       .rules = rules_of(&row[4]) };
	return 0;
}

static int read_run(void *ctx, const struct hwts_value *row)
{
	struct hwts_ruling *ruling = ctx;
	const struct hwts_due *due = hwts_due_add(row, &ruling->runs, &ruling->run_count, &ruling->run_room);

	if (!due)
		return ENOMEM;
	ruling->at = (struct hwts_place){ due->due_us, due->id };
	return 0;
}

bool hwts_ruling_has(void *ctx, uint32_t number)
{
	const struct hwts_ruling *ruling = ctx;

	for (size_t i = 0; i < ruling->n; i++)
		if ((uint32_t)(ruling->shards[i].id % HWTS_SHARDS_MAX) == number)
			return true;
	return false;
}

int hwts_rows_rules(struct hwts_conn *conn, struct hwts_ruling *ruling)
{
	int64_t *ids = hwts_alloc(ruling->n * sizeof(*ids)), buckets[HWTS_BUCKETS];
	struct hwts_step steps[] = {
		HWTS_ASK(RULES, read_shard, ruling, HWTS_BYTES(ids, ruling->n)),
		HWTS_ASK(RULES_OWN, read_group, ruling, HWTS_BYTES(buckets, 0), HWTS_NUMBER(ruling->kind)),
	};
	int rc = ids ? 0 : ENOMEM;

	for (size_t i = 0; i < ruling->n && rc == 0; i++)
		ids[i] = ruling->shards[i].id;
	for (uint32_t i = 0; i < HWTS_BUCKETS; i++)
		if (hwts_ruling_has(ruling, i % ruling->kind_shards))
			buckets[steps[1].args[0].len++] = i;
	if (rc == 0)
		rc = hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_READS);
	free(ids);
	return rc;
}

/* Reads the runs of one shard, past rows that cannot be read, or up to the damage. */
static int read_past(struct hwts_conn *conn, struct hwts_ruling *ruling, const int64_t *shard, const int64_t *epoch)
{
	struct hwts_past past = { .step = HWTS_ASK(RULES_RUN, read_run, ruling, HWTS_BYTES(shard, 1),
						   HWTS_BYTES(epoch, 1)),
				  .from_at = 2,
				  .page_at = 4,
				  .next = { HWTS_SQL_LOOK_NEXT, .args[2].number = *shard },
				  .due_us = &ruling->at.due_us,
				  .id = &ruling->at.id,
				  .told = &ruling->run_count,
				  .page = INT32_MAX, /* all rows */
				  .shard = (int32_t)*shard };
	int rc;

	ruling->at = (struct hwts_place){ .due_us = INT64_MIN };
	rc = hwts_rows_past(conn, &past);
	return rc != 0 && conn->refused ? 0 : rc;
}

int hwts_rows_runs(struct hwts_conn *conn, struct hwts_ruling *ruling)
{
	int64_t *columns = hwts_alloc(2 * ruling->n * sizeof(*columns));
	struct hwts_step step = HWTS_ASK(RULES_RUN, read_run, ruling, HWTS_BYTES(columns, 0), HWTS_BYTES(columns, 0),
					 HWTS_NUMBER(INT64_MIN), HWTS_NUMBER(0), HWTS_NUMBER(INT64_MAX));
	size_t count = 0;
	int rc = columns ? 0 : ENOMEM;

	for (size_t i = 0; i < ruling->n && rc == 0; i++)
		if (ruling->shards[i].counts) {
			columns[count] = ruling->shards[i].id;
			columns[ruling->n + count++] = ruling->shards[i].epoch;
		}
	step.args[0].len = count;
	step.args[1] = (struct hwts_value)HWTS_BYTES(columns + ruling->n, count);
	if (rc == 0 && count > 0)
		rc = hwts_run(conn, &step, 1, HWTS_READS);
	if (rc != 0 && count > 0 && conn->refused) {
		ruling->run_count = 0;
		rc = 0;
		for (size_t i = 0; i < count && rc == 0; i++)
			rc = read_past(conn, ruling, &columns[i], &columns[ruling->n + i]);
	}
	free(columns);
	return rc;
}

void hwts_ruling_free(struct hwts_ruling *ruling)
{
	for (size_t i = 0; i < ruling->n; i++)
		free(ruling->shards[i].levels);
	free(ruling->shards);
	free(ruling->groups);
	free(ruling->runs);
}

/*
 * Changes
 */

/* The change itself.  Returns the number of steps. */
static size_t write_change(struct hwts_step *steps, const struct hwts_rules_change *change)
{
	struct hwts_value kind = HWTS_NUMBER(change->kind), bucket = HWTS_NUMBER(change->bucket),
			  group = HWTS_TEXT(change->group), paused = HWTS_NUMBER(change->paused),
			  running = HWTS_NUMBER(change->running), every = HWTS_NUMBER(change->every_us),
			  burst = HWTS_NUMBER(change->burst);

	if (!change->group) {
		*steps = change->limits ? (struct hwts_step)HWTS_DO(LIMIT_KIND, kind, running, every, burst)
					: (struct hwts_step)HWTS_DO(PAUSE_KIND, kind, paused);
		return 1;
	}
	steps[0] = change->limits ? (struct hwts_step)HWTS_DO(LIMIT_GROUP, bucket, kind, group, running, every, burst)
				  : (struct hwts_step)HWTS_DO(PAUSE_GROUP, bucket, kind, group, paused);
	steps[1] = (struct hwts_step)HWTS_DO(TIDY_GROUP, bucket, kind, group);
	return 2;
}

/*
 * A list
 */

struct groups {
	hwt_store_group_info *infos;
	size_t count, room;
};

static int add_group(void *ctx, const struct hwts_value *row)
{
	struct groups *groups = ctx;
	hwt_store_group_info *info;

	if (!hwts_grow(&groups->infos, &groups->room, groups->count + 1, sizeof(*info)))
		return ENOMEM;
	info = &groups->infos[groups->count++];
	*info = (hwt_store_group_info){ .size = sizeof(*info),
					.paused = row[2].number != 0,
					.limited = row[3].number != 0 };
	info->limits = (hwt_store_limits){ .size = sizeof(info->limits) };
	if (info->limited) {
		info->limits.running = (uint32_t)hwts_within(row[4].number, INT32_MAX);
		info->limits.start_every_ns = hwts_within(row[5].number, LONGEST_US) * 1000;
		info->limits.burst = (uint32_t)hwts_within(row[6].number, INT32_MAX);
	}
	hwts_cut(info->group, sizeof(info->group), row[0].bytes ? row[0].bytes : "", row[0].len);
	return 0;
}

static int by_name(const void *left, const void *right)
{
	return strcmp(((const hwt_store_group_info *)left)->group, ((const hwt_store_group_info *)right)->group);
}

int hwts_rows_groups(struct hwts_conn *conn, int32_t kind, hwt_store_group_info **infos, size_t *count)
{
	int64_t buckets[HWTS_BUCKETS];
	struct groups groups = { .infos = NULL };
	bool is_there = false;
	struct hwts_step steps[] = {
		HWTS_ASK(RULES_THERE, hwts_note_row, &is_there, HWTS_NUMBER(kind)),
		HWTS_ASK(RULES_OWN, add_group, &groups, HWTS_BYTES(buckets, HWTS_BUCKETS), HWTS_NUMBER(kind)),
	};
	int rc;

	for (int64_t i = 0; i < HWTS_BUCKETS; i++)
		buckets[i] = i;
	rc = hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_READS);
	if (rc != 0 || !is_there) {
		free(groups.infos);
		return rc ? rc : ENOENT;
	}
	if (groups.count > 0)
		qsort(groups.infos, groups.count, sizeof(*groups.infos), by_name);
	*infos = groups.infos;
	*count = groups.count;
	return 0;
}

/*
 * All transactions lock the kind or the group before the shards, and shards in one order: so no two wait for each
 * other.  While one waits for a user's transaction it holds no shard, so no begin waits for it.
 */
int hwts_rows_rules_change(struct hwts_conn *conn, const struct hwts_rules_change *change)
{
	struct hwts_value shards = HWTS_BYTES(change->shards, change->n), kind = HWTS_NUMBER(change->kind);
	struct hwts_step steps[7] = { HWTS_DO(RULES_BACK, kind) };
	bool is_there = false;
	size_t n = 1 + write_change(steps + 1, change);
	int rc;

	steps[n++] = (struct hwts_step)HWTS_ASK(RULES_THERE, hwts_note_row, &is_there, kind);
	steps[n++] = (struct hwts_step)HWTS_DO(RULES_LOCK, shards);
	steps[n++] = (struct hwts_step)HWTS_DO(RULES_RAISE, shards);
	steps[n++] = (struct hwts_step){ .sql = HWTS_SQL_RULES_TELL,
					 .args = { shards, HWTS_TEXT(hwts_me(conn->db)) },
					 .after = true };
	rc = hwts_run(conn, steps, n, HWTS_SYNCED);
	return rc == 0 && !is_there ? ENOENT : rc;
}
