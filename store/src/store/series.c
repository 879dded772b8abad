/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Series: timeouts with a period or a schedule.  Timeouts without share the code for grace.
 *
 *   base_us     the time of the grid that has to be served next; in the database
 *   last_us     the latest time of the grid that has come when a run starts; times from base to last are merged into it
 *   grid_us     the time after last: the next base
 *
 *   base ....... last .. now .. grid         missed = times after base, up to last
 *
 * A run that fails or comes too late leaves the base as it is, and is merged into the next run.  So grace counts from
 * last, not from base.  The spread moves due times, never the grid.
 */
#include "base/calendar.h"
#include "store/kind.h"
#include "store/run.h"

static int find_place(struct hwts_row *row)
{
	struct hwts_grid grid = { .last_us = row->due_us };
	int64_t after_us;
	int rc;

	if (row->schedule) {
		rc = hwts_calendar_merge(row->schedule, row->zone, row->base_us, row->now_us, &grid);
		if (rc == 0 && row->spread_us > 0)
			rc = hwts_calendar_next(row->schedule, row->zone, grid.next_us, &after_us);
		if (rc != 0)
			return rc;
	} else if (row->period_us > 0) {
		grid.missed = (uint64_t)(HWTS_MAX(row->now_us - row->base_us, 0) / row->period_us);
		grid.last_us = row->base_us + (int64_t)grid.missed * row->period_us;
		grid.next_us = grid.last_us + row->period_us;
		after_us = grid.next_us + row->period_us;
	}
	row->missed = grid.missed;
	row->last_us = grid.last_us;
	row->grid_us = row->grid_due_us = grid.next_us;
	if (hwts_is_series(row) && row->spread_us > 0)
		row->grid_due_us += hwts_spread(row->spread_us, after_us - grid.next_us);
	return 0;
}

/*
 * A cron line without a next time will never have one: FAILED.  Another failure may pass: a missing zone file may be
 * installed.  Until then a row without its first time stays due at 0, which marks it as such, or gets the line that was
 * declared meanwhile.  No attempt counts, so the back-off grows with the time that the row has waited.
 */
static void cannot_go_on(struct hwts_row *row, int rc, bool begins)
{
	int64_t since_us = HWTS_MIN(row->base_us, row->waits_since_us); /* moved by SQL, a row is due before its base */

	row->grid_due_us = HWTS_NEVER;
	hwts_fail_run(row, hwts_fail_text(), false);
	row->when_us = HWTS_MAX(row->when_us, HWTS_MIN(row->now_us - since_us, row->kind->backoff_max_us));
	row->waits = rc == EINVAL ? HWT_STORE_STARTS : HWT_STORE_WAITS_ZONE;
	if (rc == EINVAL) {
		row->how = HWTS_FAIL;
	} else if (begins) {
		row->how = HWTS_AT;
		row->serves = true;
		row->rest_us = row->when_us;
		row->when_us = row->due_us;
	}
}

static void come_too_late(struct hwts_row *row)
{
	row->late = true;
	row->again = row->serves = hwts_is_series(row);
	row->how = row->again ? HWTS_AT : HWTS_FAIL;
	row->when_us = row->grid_due_us;
	row->next_base_us = row->base_us;
	row->next_attempt = --row->attempt; /* it has not started */
	if (!row->again)
		hwts_cut(row->error, sizeof(row->error), "too late", 8);
}

/*
 * The row was put by SQL, which cannot compute its first time.  If another line has been declared, that line holds from
 * now on, and no run is lost.
 */
static int find_first_time(struct hwts_row *row)
{
	int rc = hwts_calendar_next(row->schedule, row->zone, row->base_us, &row->when_us);

	row->again = row->serves = true;
	row->how = HWTS_AT;
	row->next_base_us = row->when_us;
	row->next_attempt = row->attempt - 1;
	return rc;
}

bool hwts_series_may_start(struct hwts_row *row, int64_t now_us)
{
	bool begins = row->schedule && row->due_us == 0;
	int rc = begins ? find_first_time(row) : find_place(row);

	if (begins && rc == 0)
		return false;
	if (rc != 0)
		cannot_go_on(row, rc, begins);
	else if (row->grace_us > 0 && now_us - row->last_us > row->grace_us)
		come_too_late(row);
	else
		return true;
	return false;
}

int hwts_series_begin(struct hwts_put *put, int64_t now_us)
{
	int64_t room_us = put->period_us, next_us;
	int rc = 0;

	if (put->schedule) {
		rc = hwts_calendar_next(put->schedule, put->zone, put->absolute ? put->when_us : now_us + put->when_us,
					&put->when_us);
		put->absolute = true;
		if (rc == 0 && put->spread_us > 0) {
			rc = hwts_calendar_next(put->schedule, put->zone, put->when_us, &next_us);
			room_us = next_us - put->when_us;
		}
	}
	if (rc == 0)
		put->later_us = hwts_spread(put->spread_us, room_us);
	return rc;
}
