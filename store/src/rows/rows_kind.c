/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kinds in the database.
 */
#include "rows/rows.h"

#include <stdio.h>
#include <stdlib.h>

static int read_row(void *ctx, const struct hwts_value *row)
{
	*(struct hwts_kind_row *)ctx = (struct hwts_kind_row){ (int32_t)row[0].number, (uint32_t)row[1].number,
							       (int)row[2].number, row[3].number, row[4].number == 1 };
	return 0;
}

/*
 * Makes a kind, or makes it again if it was removed, and reads it.  If a put has made the kind, its first
 * registration sets mode and horizon.
 */
static int make_kind(struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
		     struct hwts_kind_row *is)
{
	struct hwts_step steps[] = {
		{ .sql = HWTS_SQL_KIND_SHARE },
		{ .sql = HWTS_SQL_KIND_MAKING },
		{ .sql = HWTS_SQL_FLUSH },
		HWTS_DO(KIND_GROUPS, HWTS_TEXT(name)),
		HWTS_DO(KIND_MAKE, HWTS_TEXT(name), HWTS_NUMBER(make->shards), HWTS_NUMBER(make->mode),
			HWTS_NUMBER(make->horizon_us)),
		HWTS_DO(KIND_OPEN, HWTS_TEXT(name), HWTS_NUMBER(make->mode), HWTS_NUMBER(make->horizon_us)),
		HWTS_DO(KIND_SHARDS, HWTS_TEXT(name)),
		HWTS_ASK(KIND, read_row, is, HWTS_TEXT(name)),
	};

	return hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED);
}

static int no_kind(const char *name)
{
	return hwts_fail(ENOENT, "there is no kind \"%s\"", name);
}

int hwts_rows_kind(struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
		   struct hwts_kind_row *out)
{
	struct hwts_kind_row is = { .id = 0 };
	struct hwts_step step = HWTS_ASK(KIND, read_row, &is, HWTS_TEXT(name));
	int rc = hwts_run(conn, &step, 1, HWTS_READS);

	if (rc == 0 && make &&
	    (is.id == 0 || is.removed || (is.mode == HWTS_MODE_OPEN && make->mode != HWTS_MODE_OPEN)))
		rc = make_kind(conn, name, make, &is);
	if (rc == 0 && is.id == 0)
		rc = no_kind(name);
	if (rc == 0)
		*out = is;
	return rc == ECONNRESET ? ENOTCONN : rc; /* the kind may be made: the next call reads it */
}

int hwts_rows_kind_keep(struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
			struct hwts_kind_row *out)
{
	struct hwts_step steps[] = {
		{ .sql = HWTS_SQL_KIND_SHARE },
		HWTS_DO(KIND_GROUPS, HWTS_TEXT(name)),
		HWTS_DO(KIND_OPEN, HWTS_TEXT(name), HWTS_NUMBER(make->mode), HWTS_NUMBER(make->horizon_us)),
		HWTS_ASK(KIND, read_row, out, HWTS_TEXT(name)),
	};

	return hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED);
}

/*
 * Lists, and removing
 */

struct kinds {
	hwt_store_kind_info *infos;
	int64_t *ids;
	size_t count, room, id_room;
	int64_t now_us, told_us; /* since when the process whose text is added has told that text */
};

static void read_info(hwt_store_kind_info *info, const struct hwts_value *row)
{
	*info = (hwt_store_kind_info){ .size = sizeof(*info),
				       .mode = (unsigned)row[1].number,
				       .shards = (unsigned)row[2].number,
				       .paused = row[3].number != 0,
				       .processes = (uint32_t)row[7].number,
				       .failed = (uint64_t)row[8].number,
				       .oldest_due_us = row[9].number };
	info->each_group = (hwt_store_limits){ .size = sizeof(info->each_group),
					       .running = (uint32_t)row[4].number,
					       .start_every_ns = hwts_within(row[5].number, INT64_MAX / 1000) * 1000,
					       .burst = (uint32_t)row[6].number };
	hwts_cut(info->kind, sizeof(info->kind), row[0].bytes ? row[0].bytes : "", row[0].len);
}

/*
 * No process counts the due timeouts of shards that no living process holds.  Each such shard with something due
 * counts as one of LEASE; if no living process runs the kind, all together count as one of NOBODY.  A process that
 * stops, or leaves the kind to others, does not run the kind, but tells of the shards that it still holds.
 */
static void note_unheld(hwt_store_kind_info *info, uint64_t shards, int64_t oldest_ns)
{
	hwt_store_wait why = info->processes > 0 ? HWT_STORE_WAITS_LEASE : HWT_STORE_WAITS_NOBODY;

	if (shards == 0)
		return;
	info->waiting[why] = info->processes > 0 ? shards : 1;
	info->waiting_oldest_ns[why] = oldest_ns;
}

static int add_info(void *ctx, const struct hwts_value *row)
{
	struct kinds *kinds = ctx;

	if (!hwts_grow(&kinds->infos, &kinds->room, kinds->count + 1, sizeof(*kinds->infos)) ||
	    !hwts_grow(&kinds->ids, &kinds->id_room, kinds->count + 1, sizeof(*kinds->ids)))
		return ENOMEM;
	kinds->now_us = row[12].number;
	kinds->ids[kinds->count] = row[13].number;
	read_info(&kinds->infos[kinds->count], row);
	note_unheld(&kinds->infos[kinds->count++], (uint64_t)row[10].number,
		    hwts_age_ns(kinds->now_us, row[11].number));
	return 0;
}

/* Programs show sums as signed numbers, too. */
static void add_count(uint64_t *sum, uint64_t count)
{
	*sum += HWTS_MIN(count, (uint64_t)INT64_MAX - *sum);
}

static void add_wait(void *ctx, int64_t kind, size_t why, const struct hwts_wait *wait)
{
	struct kinds *kinds = ctx;
	int64_t oldest_ns = hwts_age_ns(kinds->now_us, wait->oldest_us), age_ns;

	age_ns = HWTS_MAX(hwts_age_ns(kinds->now_us, kinds->told_us), 1);
	for (size_t i = 0; i < kinds->count; i++) {
		hwt_store_kind_info *info = &kinds->infos[i];

		if (kinds->ids[i] != kind)
			continue;
		add_count(&info->waiting[why], wait->count);
		info->waiting_oldest_ns[why] = HWTS_MAX(info->waiting_oldest_ns[why], oldest_ns);
		info->waiting_age_ns = HWTS_MAX(info->waiting_age_ns, age_ns);
	}
}

static void add_starts(void *ctx, int64_t kind, uint64_t count)
{
	struct kinds *kinds = ctx;

	for (size_t i = 0; i < kinds->count; i++)
		if (kinds->ids[i] == kind)
			add_count(&kinds->infos[i].started_minute, count);
}

/* Adds the texts of a process: each whole, or nothing of it if it is damaged or its time is out of range. */
static int add_waits(void *ctx, const struct hwts_value *row)
{
	struct kinds *kinds = ctx;
	const char *text = row[1].bytes ? row[1].bytes : "", *starts = row[2].bytes ? row[2].bytes : "";

	kinds->told_us = row[0].number;
	if (kinds->told_us > 0 && hwts_waits_read(text, row[1].len, NULL, NULL))
		(void)hwts_waits_read(text, row[1].len, add_wait, kinds);
	if (hwts_starts_read(starts, row[2].len, NULL, NULL))
		(void)hwts_starts_read(starts, row[2].len, add_starts, kinds);
	return 0;
}

/* A living process may hold shards of a kind that it does not run any more, and tells nothing of them. */
static void note_nobody(hwt_store_kind_info *info, int64_t now_us)
{
	uint64_t told = 0;

	for (size_t why = 0; why < HWT_STORE_WAITS; why++)
		told |= info->waiting[why];
	if (told != 0 || info->processes > 0 || info->oldest_due_us == 0 || info->oldest_due_us > now_us)
		return;
	info->waiting[HWT_STORE_WAITS_NOBODY] = 1;
	info->waiting_oldest_ns[HWT_STORE_WAITS_NOBODY] = hwts_age_ns(now_us, info->oldest_due_us);
}

int hwts_rows_kinds(struct hwts_conn *conn, hwt_store_kind_info **infos, size_t *count, int64_t *now_us)
{
	struct kinds kinds = { .infos = NULL };
	struct hwts_step steps[] = {
		{ .sql = HWTS_SQL_KINDS, .each = add_info, .ctx = &kinds },
		{ .sql = HWTS_SQL_WAITS, .each = add_waits, .ctx = &kinds },
	};
	int rc = hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_READS);

	free(kinds.ids);
	if (rc != 0) {
		free(kinds.infos);
		return rc;
	}
	for (size_t i = 0; i < kinds.count; i++)
		note_nobody(&kinds.infos[i], kinds.now_us);
	*infos = kinds.infos;
	*count = kinds.count;
	*now_us = kinds.now_us;
	return 0;
}

/* A process that starts asks for its kinds under the same lock, once it has joined: hwts_rows_kind_keep. */
int hwts_rows_kind_remove(struct hwts_conn *conn, const char *name)
{
	int64_t shards = -1; /* the number of shards that have rows; -1: there is no such kind */
	bool removed = false;
	struct hwts_step steps[] = {
		{ .sql = HWTS_SQL_KIND_LOCK },
		HWTS_ASK(KIND_ROWS, hwts_note_number, &shards, HWTS_TEXT(name)),
		HWTS_ASK(KIND_REMOVE, hwts_note_row, &removed, HWTS_TEXT(name)),
		HWTS_DO(KIND_GROUPS, HWTS_TEXT(name)),
		HWTS_DO(KIND_RULES, HWTS_TEXT(name)),
	};
	int rc = hwts_run(conn, steps, HWTS_COUNT(steps), HWTS_SYNCED);

	if (rc == 0 && shards < 0)
		rc = no_kind(name);
	else if (rc == 0 && !removed)
		rc = hwts_fail(EBUSY, "kind %s %s", name,
			       shards > 0 ? "has timeouts: cancel them, or let them run"
					  : "is registered by a process that lives");
	return rc;
}

static int read_store(void *ctx, const struct hwts_value *row)
{
	struct hwts_store_row *is = ctx;

	hwts_cut(is->text, sizeof(is->text), row[0].bytes ? row[0].bytes : "", row[0].len);
	is->kind = (int32_t)row[1].number;
	is->hides = row[2].number != 0;
	return 0;
}

int hwts_rows_store(struct hwts_conn *conn, const char *name, struct hwts_store_row *row)
{
	struct hwts_step step = HWTS_ASK(STORE, read_store, row, HWTS_TEXT(name));

	*row = (struct hwts_store_row){ .kind = 0 };
	return hwts_run(conn, &step, 1, HWTS_READS);
}

int hwts_rows_not_here(const struct hwts_conn *conn)
{
	return hwts_fail(EINVAL,
			 "%s: the connection leads to another store, or to a copy of this one, whose tables are called"
			 " %s_* too",
			 conn->db->engine->name, conn->db->prefix);
}

void hwts_rows_write_place(const struct hwts_db *db, char text[HWTS_PLACE_SIZE])
{
	int64_t place = atomic_load_explicit(&db->place, memory_order_relaxed); /* relaxed: see struct hwts_db */

	text[0] = '\0';
	if (place != 0)
		(void)snprintf(text, HWTS_PLACE_SIZE, " and " HWTS_PLACE " = %lld", (long long)place);
}

int hwts_rows_here(struct hwts_conn *conn)
{
	bool here = false;
	char place[HWTS_PLACE_SIZE];
	struct hwts_step step = HWTS_ASK(HERE, hwts_note_row, &here, HWTS_TEXT(conn->db->store));
	int rc;

	hwts_rows_write_place(conn->db, place);
	conn->here = place;
	rc = hwts_run(conn, &step, 1, HWTS_OPEN);
	conn->here = NULL;
	return rc == 0 && !here ? hwts_rows_not_here(conn) : rc;
}
