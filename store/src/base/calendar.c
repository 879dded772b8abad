/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The next time of a cron line in a zone.
 *
 * A zone is a sequence of stretches, each with one offset.  Where a stretch begins, the wall clock is set forward (a
 * gap: some of its times never come) or back (some come twice).  The code walks over the stretches, and asks the line
 * for minutes between two times of the wall clock.
 *
 *   A wild line follows elapsed time: in each stretch, all minutes that the line names count.
 *   Any other line names times of the wall clock, and each of them counts once.  `shown` is the latest time that the
 *   wall clock has shown so far.  If a stretch begins later than shown, there is a gap, and a time in the gap is due
 *   when the stretch begins.  If it begins earlier, only times after shown count.
 *
 * The walk of such a line begins three days early, so that shown is right: no clock has ever been set by more than 26
 * hours.
 */
#include "base/calendar.h"

#define DAY_S INT64_C(86400)
#define YEARS_S (3653 * DAY_S) /* ten years */

struct walk {
	const struct hwts_cron *cron;
	const struct hwts_zone *zone;
	int64_t after_s, end_s;
	int64_t from_s; /* begin of the stretch, or of the walk within it */
	int64_t until_s, offset_s;
	int64_t shown_s; /* a time of the wall clock */
};

/* Returns the next time in this stretch.  HWTS_NEVER: none. */
static int64_t find_here(const struct walk *walk)
{
	int64_t begins_s = walk->from_s + walk->offset_s, found_s;

	if (!walk->cron->wild && walk->from_s > walk->after_s &&
	    hwts_cron_find(walk->cron, walk->shown_s, begins_s) != HWTS_NEVER)
		return walk->from_s;
	if (!walk->cron->wild)
		begins_s = HWTS_MAX(begins_s, walk->shown_s);
	found_s = hwts_cron_find(walk->cron, HWTS_MAX(begins_s, walk->after_s + 1 + walk->offset_s),
				 walk->until_s + walk->offset_s);
	return found_s == HWTS_NEVER ? HWTS_NEVER : found_s - walk->offset_s;
}

static void enter(struct walk *walk)
{
	hwts_zone_at(walk->zone, walk->from_s, walk->end_s, &walk->offset_s, &walk->until_s);
}

/* Finds the next time, and moves the walk behind it. */
static int find(struct walk *walk, int64_t *due_s)
{
	walk->end_s = HWTS_MIN(walk->after_s + YEARS_S, HWTS_LATEST_US / HWTS_S_US);
	while ((*due_s = find_here(walk)) == HWTS_NEVER && walk->until_s < walk->end_s) {
		walk->shown_s = HWTS_MAX(walk->shown_s, walk->until_s + walk->offset_s);
		walk->from_s = walk->until_s;
		enter(walk);
	}
	walk->after_s = *due_s;
	if (*due_s == HWTS_NEVER)
		return hwts_fail(EINVAL,
				 "the schedule's day of month, month and day of week name no time within ten years");
	return 0;
}

/* Other threads that want a zone wait until the walk is closed. */
static int open_walk(struct walk *walk, struct hwts_cron *cron, const char *schedule, const char *zone,
		     int64_t after_us)
{
	int rc = hwts_cron_parse(cron, schedule);

	if (rc == 0 && (after_us < 0 || after_us > HWTS_LATEST_US))
		rc = hwts_fail(EINVAL, "the time is not within the years 1970 to 9999");
	if (rc == 0)
		rc = hwts_zone_open(zone, &walk->zone);
	if (rc != 0)
		return rc;
	walk->cron = cron;
	walk->after_s = after_us / HWTS_S_US;
	walk->from_s = cron->wild ? walk->after_s : walk->after_s - 3 * DAY_S;
	walk->end_s = HWTS_MIN(walk->after_s + YEARS_S, HWTS_LATEST_US / HWTS_S_US);
	enter(walk);
	walk->shown_s = walk->from_s + walk->offset_s;
	return 0;
}

/*
 * Counts the rest of a day that has passed and in which no clock is set: a line names up to 1440 times a day.  The
 * begin of a stretch may stand for a time in a gap of the day before; then the line need not name this day.
 */
static void pass_day(struct walk *walk, int64_t now_us, struct hwts_grid *grid)
{
	int64_t last_s, end_s;
	unsigned rest;

	if (walk->after_s == walk->from_s)
		return;
	rest = hwts_cron_rest(walk->cron, walk->after_s + walk->offset_s, &last_s, &end_s);
	end_s -= walk->offset_s;
	if (rest == 0 || end_s > walk->until_s || end_s * HWTS_S_US > now_us)
		return;
	walk->after_s = last_s - walk->offset_s;
	grid->missed += rest;
	grid->last_us = walk->after_s * HWTS_S_US;
}

int hwts_calendar_merge(const char *schedule, const char *zone, int64_t base_us, int64_t now_us, struct hwts_grid *grid)
{
	struct hwts_cron cron;
	struct walk walk;
	int64_t due_s;
	int rc = open_walk(&walk, &cron, schedule, zone, base_us);

	*grid = (struct hwts_grid){ .last_us = base_us };
	if (rc != 0)
		return rc;
	while ((rc = find(&walk, &due_s)) == 0 && due_s * HWTS_S_US <= now_us) {
		grid->missed++;
		grid->last_us = due_s * HWTS_S_US;
		pass_day(&walk, now_us, grid);
	}
	if (rc == 0)
		grid->next_us = due_s * HWTS_S_US;
	hwts_zone_close(walk.zone);
	return rc;
}

int hwts_calendar_next(const char *schedule, const char *zone, int64_t after_us, int64_t *due_us)
{
	struct hwts_grid grid;
	int rc = hwts_calendar_merge(schedule, zone, after_us, after_us, &grid);

	if (rc == 0)
		*due_us = grid.next_us;
	return rc;
}

int hwt_store_next_time(const char *schedule, const char *zone, int64_t after_us, int64_t *due_us, char *error,
			size_t error_len)
{
	struct hwts_call call = hwts_enter();
	int rc = due_us ? hwts_calendar_next(schedule, zone, after_us, due_us) : hwts_fail(EINVAL, "due_us is NULL");

	if (rc != 0 && error && error_len > 0)
		hwts_cut(error, error_len, hwts_fail_text(), strlen(hwts_fail_text()));
	return hwts_leave(call, rc);
}
