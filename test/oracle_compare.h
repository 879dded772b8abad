/* SPDX-License-Identifier: BSD-2-Clause */
/* The comparisons of timer and model after a step or a pass. */
#ifndef HWT_ORACLE_COMPARE_H
#define HWT_ORACLE_COMPARE_H

#include "oracle.h"

/* Compares the statistics. */
static inline void compare_stats(void)
{
	const struct model *model = &oracle.model;
	hwt_stats stats = { .size = sizeof(stats) };

	CHECK_INT(hwt_timer_stats(oracle.timer, &stats), ==, 0);
	CHECK_INT(stats.accepted, ==,
		  stats.completed + stats.cancelled + stats.returned + stats.pending + stats.running);
	CHECK_INT(stats.accepted, ==, model->count);
	CHECK_INT(stats.completed, ==, model->fates[HAS_RUN]);
	CHECK_INT(stats.cancelled, ==, model->fates[IS_CANCELLED] + model->fates[RUNS_LAST]);
	CHECK_INT(stats.returned, ==, model->fates[HANDED_OUT]);
	CHECK_INT(stats.pending, ==, model_waits(model));
	CHECK_INT(stats.running, ==, model->fates[RUNS]);
	CHECK_INT(stats.runs, ==, model->runs);
	CHECK_INT(stats.merged_periods, ==, model->merged);
	CHECK_INT(stats.rescheduled, ==, model->moved);
	CHECK_INT(stats.refused_limit, ==, oracle.refusals[ENOBUFS]);
	CHECK_INT(stats.refused_stopped, ==, oracle.refusals[ECANCELED]);
	CHECK_INT(stats.refused_memory, ==, oracle.refusals[ENOMEM]);
}

/* Without a lack of memory and without a backlog only pending timeouts are in lanes and wheel after a pass: G5. */
static inline void compare_places(const struct hwt_check_counts *counts)
{
	size_t in_lanes = 0, in_wheel = 0, requeued = 0, extensions = 0;

	for (size_t n = 0; n < oracle.model.live.count; n++) {
		const struct model_timeout *it = &oracle.model.all[oracle.model.live.at[n]];
		bool in_lane = it->tick == TICK_UNKNOWN;

		in_lanes += in_lane && !it->placed;
		requeued += in_lane && it->placed;
		in_wheel += model_has_place(it);
		extensions += (in_lane || it->fate == WAITS) && (it->period_ns > 0 || it->owned);
	}
	CHECK_INT(counts->place[PLACE_SUBMITTED], ==, in_lanes);
	CHECK_INT(counts->requeued, ==, requeued);
	CHECK_INT(counts->place[PLACE_WHEEL], >=, in_wheel);
	CHECK_INT(counts->place[PLACE_WHEEL], <=, in_wheel + requeued); /* if their old tick has not come */
	CHECK_INT(counts->place[PLACE_EXTENSION], ==, extensions);
	CHECK_INT(counts->place[PLACE_UNPLACED], ==, 0);
	CHECK_INT(counts->cancelled, ==, 0);
}

/*
 * Checks that finalisers of timeouts that have run were called; with `all` also those of cancelled ones, which may be
 * delayed.
 */
static inline void compare_releases(bool all)
{
	for (size_t n = 0; n < oracle.model.live.count; n++) {
		const struct model_timeout *it = &oracle.model.all[oracle.model.live.at[n]];

		if (it->owned && (it->fate == HAS_RUN || (all && it->fate == IS_CANCELLED && it->tick != TICK_UNKNOWN)))
			CHECK(it->released);
	}
}

/* Checks that settling makes the wheel forget all removed records, keeps its invariants and makes its answer exact. */
static inline void check_settled(void)
{
	struct hwt_wheel *wheel = oracle.timer->wheel;
	struct hwt_check_counts counts;
	int64_t before;

	do {
		before = hwt_wheel_next_due(wheel);
		hwt_wheel_settle(wheel);
		CHECK_INT(hwt_wheel_next_due(wheel), >=, before);
	} while (hwt_wheel_next_due(wheel) != before);
	hwt_check_count(oracle.timer, &counts);
	/* Levels are brought down before their timeouts are due. */
	if (!hwt_wheel_is_hierarchical(wheel) && counts.place[PLACE_UNPLACED] == 0 && before < HWT_TICK_MAX)
		CHECK_INT(before, ==, counts.first);
	if (counts.place[PLACE_WHEEL] + counts.place[PLACE_UNPLACED] == 0)
		CHECK_INT(before, >=, HWT_TICK_MAX);
}

static inline void check_all(bool after_pass)
{
	struct hwt_check_counts counts;

	hwt_check_count(oracle.timer, &counts);
	oracle.sums.unplaced += counts.place[PLACE_UNPLACED];
	compare_stats();
	if (after_pass && oracle.refused == 0 && !oracle.stopping && !oracle.disturbed &&
	    oracle.row->max_transfers >= LOTS)
		compare_places(&counts);
	/* Not always: settling forgets removed records, which are to be there in other steps. */
	if (!oracle.stopping && oracle.step / oracle.row->check_every % 2 == 0)
		check_settled();
}

/* Compares what callers can see, after every step. */
static inline void compare(void)
{
	const struct hwt_wheel *wheel = oracle.timer->wheel;

	CHECK_INT(hwt_pending_timeouts(oracle.timer), ==, model_waits(&oracle.model));
	if (oracle.stopping)
		return;
	CHECK_INT(wheel->tick, ==, oracle.model.wheel_tick);
	CHECK_INT(hwt_wheel_next_due(wheel), >=, wheel->tick);
	CHECK_INT(hwt_wheel_next_due(wheel), <=, model_first_tick(&oracle.model));
}

#endif
