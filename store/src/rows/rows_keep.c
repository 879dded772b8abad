/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HWT_STORE_KEEP_DUE: a put finds its key in use, by a series whose settings it may change.
 *
 *   the row                        the new settings hold
 *   pending, and not due yet       at once
 *   due and not started            from its end on; data and priority at once, and the holder is told of that
 *   in back-off, or running        from its end on, which may be the end of a retry
 *   replaced while it runs         in the replacement, at once
 *
 * "From its end on": the settings wait in the columns next_..., with next_base_us = -1 - base.  A replacement waits in
 * next_..., too, with next_base_us >= 0.
 *
 * Everything is in the transaction of the put.  Most programs declare settings that are there already, so the row is
 * locked, and read once more, only if something differs.
 */
#include "base/calendar.h"
#include "rows/rows.h"

struct kept {
	struct hwts_put *put;
	bool is_there, last;
	bool is_series;
	bool was_put;   /* next_... is set: settings or a replacement wait for the end of a run */
	bool has_time;  /* false: a cron line whose first time is not known yet */
	bool same_line; /* the same line in the same zone, or no line in both */
	bool same;      /* all settings are the same */
	hwt_store_state state;
	unsigned attempt;
	int64_t id, due_us, base_us, next_due_us, next_base_us, period_us, now_us;
};

static int found(void *ctx, const struct hwts_value *row)
{
	struct kept *kept = ctx;

	kept->is_there = true;
	kept->id = row[0].number;
	kept->state = hwts_state_of(&row[1]);
	kept->due_us = hwts_within(row[2].number, HWTS_LATEST_US);
	kept->base_us = hwts_within(row[3].number, HWTS_LATEST_US);
	kept->attempt = (unsigned)row[4].number;
	kept->next_due_us = row[5].number;
	kept->next_base_us = row[6].number;
	kept->last = row[7].number != 0;
	kept->was_put = row[8].number != 0;
	kept->has_time = row[9].number != 0;
	kept->period_us = hwts_within(row[10].number, HWTS_LONGEST_PERIOD_US);
	kept->is_series = kept->period_us > 0 || row[11].number;
	kept->same_line = row[12].number != 0;
	kept->same = row[13].number != 0;
	kept->now_us = row[14].number;
	return 0;
}

/* Writes the settings of a put as parameters, in the order of KEEP_READ, KEEP_NOW and KEEP_NEXT.  Returns how many. */
static size_t set_settings(const struct hwts_put *put, struct hwts_value *args)
{
	const struct hwts_value settings[] = {
		HWTS_NUMBER(put->period_us),
		HWTS_NUMBER(put->priority),
		HWTS_TEXT(put->schedule),
		HWTS_TEXT(put->zone),
		HWTS_NUMBER(put->grace_us),
		HWTS_NUMBER(put->spread_us),
		HWTS_BYTES(put->len ? put->data : NULL, put->len),
	};

	memcpy(args, settings, sizeof(settings));
	return HWTS_COUNT(settings);
}

static int read_kept(struct hwts_conn *conn, struct kept *kept, bool locks)
{
	const struct hwts_put *put = kept->put;
	struct hwts_value id = HWTS_NUMBER(kept->id), group = HWTS_TEXT(put->group ? put->group : "");
	struct hwts_step steps[] = {
		HWTS_DO(KEEP_LOCK, id),
		HWTS_ASK(KEEP_READ, found, kept, HWTS_NUMBER(put->drawn & (HWTS_BUCKETS - 1)),
			 HWTS_NUMBER(put->kind.id), group, HWTS_TEXT(put->key)),
	};

	kept->is_there = false;
	set_settings(put, steps[1].args + 4);
	return hwts_run(conn, steps + !locks, HWTS_COUNT(steps) - !locks, HWTS_OPEN);
}

/* Finds the first time of the new line or period after after_us. */
static int next_of(const struct hwts_put *put, int64_t after_us, int64_t *us)
{
	*us = after_us + put->period_us;
	return put->schedule ? hwts_calendar_next(put->schedule, put->zone, after_us, us) : 0;
}

/* Finds the next time of the grid.  A new line begins a grid now. */
static int next_time(const struct kept *kept, int64_t *due_us, int64_t *base_us)
{
	const struct hwts_put *put = kept->put;
	int64_t late_us = HWTS_MAX(kept->now_us - kept->base_us, 0), then_us;
	int rc = 0;

	if (kept->same_line && !put->schedule)
		*base_us = kept->base_us + (late_us / kept->period_us + 1) * kept->period_us;
	else
		rc = next_of(put, kept->same_line ? kept->base_us + late_us : kept->now_us, base_us);
	*due_us = *base_us;
	if (rc != 0 || put->spread_us == 0)
		return rc;
	rc = next_of(put, *base_us, &then_us);
	if (rc == 0)
		*due_us += hwts_spread(put->spread_us, then_us - *base_us);
	return rc;
}

int hwts_accepted(void *ctx, const struct hwts_value *row)
{
	struct hwts_put *put = ctx;

	put->rc = 0;
	put->again = false;
	if (row[2].number == 0) { /* the row is as it was sent; PostgreSQL: row[1] is the clock */
		put->due_us += put->absolute ? 0 : row[1].number;
		return 0;
	}
	put->id = row[0].number;
	put->due_us = row[1].number;
	put->shard = (int32_t)row[2].number;
	put->runs = row[3].number == HWT_STORE_RUNNING;
	return 0;
}

/*
 * Settings that wait for the end of a run bring a time of their own.  A row that does not wait any more has the time it
 * was moved to.
 *
 * If the next time of a put cannot be found, this put fails, and not the puts that share its commit.
 */
static int change(struct hwts_conn *conn, struct kept *kept)
{
	struct hwts_put *put = kept->put;
	bool has_come = kept->has_time && kept->base_us <= kept->now_us, rests = kept->state != HWT_STORE_RUNNING;
	bool waits = kept->state != HWT_STORE_FAILED && (!rests || kept->attempt > 0 || has_come);
	bool starts_new = waits && rests && kept->attempt == 0;
	bool next = waits && kept->was_put, replaces = next && kept->next_base_us >= 0;
	int64_t due_us = next ? kept->next_due_us : kept->due_us,
		base_us = next ? HWTS_MAX(kept->next_base_us, -1 - kept->next_base_us) : kept->base_us;
	struct hwts_step step;
	int rc = 0;

	if (!kept->same_line || kept->state == HWT_STORE_FAILED || (waits && !next))
		rc = next_time(kept, &due_us, &base_us);
	if (rc != 0) {
		put->rc = rc;
		return 0;
	}
	put->stays = waits && !starts_new;
	step = (struct hwts_step){ .sql = waits ? HWTS_SQL_KEEP_NEXT : HWTS_SQL_KEEP_NOW,
				   .args = { HWTS_NUMBER(kept->id), HWTS_NUMBER(due_us),
					     HWTS_NUMBER(waits && !replaces ? -1 - base_us : base_us) },
				   .each = hwts_accepted,
				   .ctx = put };
	step.args[3 + set_settings(put, step.args + 3)] = (struct hwts_value)HWTS_NUMBER(starts_new);
	return hwts_run(conn, &step, 1, HWTS_OPEN);
}

/* True: nothing has to be written. */
static bool is_settled(struct kept *kept)
{
	struct hwts_put *put = kept->put;

	put->again = !kept->is_there; /* the row is gone meanwhile */
	if (!kept->is_there)
		return true;
	put->found_id = kept->id;
	if (!kept->is_series || kept->last)
		return true; /* EEXIST */
	if (!kept->same || kept->state == HWT_STORE_FAILED)
		return false;
	put->rc = 0;
	put->id = kept->id;
	put->due_us = kept->due_us;
	put->stays = true;
	return true;
}

int hwts_rows_keep(struct hwts_conn *conn, struct hwts_put *put)
{
	struct kept kept = { .put = put };
	int64_t locked;
	int rc = 0;

	if (!put->keep_due || put->rc == 0)
		return 0;
	rc = read_kept(conn, &kept, false);
	if (rc != 0 || is_settled(&kept))
		return rc;
	HWTS_POINT("keeps");
	locked = kept.id;
	rc = read_kept(conn, &kept, true);
	if (rc != 0 || is_settled(&kept))
		return rc;
	put->again = kept.id != locked; /* another row has the key by now, and is not locked */
	return put->again ? 0 : change(conn, &kept);
}
