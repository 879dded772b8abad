/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reference model of a timer: an array of all timeouts that were ever accepted, in that order, and linear searches.
 * It knows no buckets, no rounds, no records; ticks are computed in 128 bits.
 *
 * What it says of a pass at a time whose tick is T, with wheel tick W (the next one to be expired):
 *
 *   transfer   the oldest max_transfers of those that wait in their lane, cancelled ones included, leave it.  Each that
 *              is not cancelled gets its tick: that of its deadline, or W if that has passed.
 *   expire     all with tick <= T run, by tick, within a tick in the order of acceptance; W becomes T + 1.
 *
 * So with a small max_transfers a timeout may be late, by as many passes as its lane is behind, and never early.  The
 * order between lanes is not promised, nor asked for.
 */
#ifndef HWT_ORACLE_MODEL_H
#define HWT_ORACLE_MODEL_H

#include "unit.h"

__extension__ typedef __int128 int128;

enum fate { WAITS, RUNS, HAS_RUN, IS_CANCELLED, HANDED_OUT };

struct model_timeout {
	hwt_timeout handle;
	int64_t deadline_ns;
	int64_t tick; /* TICK_UNKNOWN: still in the lane */
	uint32_t lane;
	enum fate fate;
};

#define TICK_UNKNOWN INT64_C(-1)

struct model {
	struct model_timeout *all;
	size_t count, room;
	size_t over;  /* those before have ended and left their lane: nothing to look for there */
	size_t waits; /* pending */
	int64_t start_ns, tick_ns;
	int64_t wheel_tick;
	int64_t target; /* of the pass under way */
};

static inline void model_clear(struct model *model, int64_t start_ns, int64_t tick_ns)
{
	model->count = model->over = model->waits = 0;
	model->start_ns = start_ns;
	model->tick_ns = tick_ns;
	model->wheel_tick = 0;
	model->target = -1;
}

static inline int64_t model_tick_of(const struct model *model, int64_t deadline_ns)
{
	int128 distance = (int128)deadline_ns - model->start_ns;

	return distance <= 0 ? 0 : (int64_t)((distance + model->tick_ns - 1) / model->tick_ns);
}

/* The last tick that has come. */
static inline int64_t model_tick_at(const struct model *model, int64_t now_ns)
{
	int128 distance = (int128)now_ns - model->start_ns;

	return distance < 0 ? -1 : (int64_t)(distance / model->tick_ns);
}

/* INT64_MAX for one that the clock cannot say. */
static inline int64_t model_time_of(const struct model *model, int64_t tick)
{
	int128 time = (int128)model->start_ns + (int128)tick * model->tick_ns;

	return time > INT64_MAX ? INT64_MAX : (int64_t)time;
}

/* now + delay as the manual has it. */
static inline int64_t model_deadline(int64_t now_ns, int64_t delay_ns)
{
	int128 sum = (int128)now_ns + delay_ns;

	return sum > INT64_MAX ? INT64_MAX : sum < INT64_MIN ? INT64_MIN : (int64_t)sum;
}

static inline void model_add(struct model *model, hwt_timeout handle, int64_t deadline_ns, uint32_t lane)
{
	if (model->count == model->room) {
		model->room = model->room == 0 ? 1024 : model->room * 2;
		model->all = realloc(model->all, model->room * sizeof(*model->all));
		REQUIRE(model->all != NULL);
	}
	model->all[model->count++] = (struct model_timeout){ handle, deadline_ns, TICK_UNKNOWN, lane, WAITS };
	model->waits++;
}

static inline void model_end(struct model *model, size_t i, enum fate fate)
{
	model->waits -= model->all[i].fate == WAITS;
	model->all[i].fate = fate;
}

/* What hwt_cancel has to answer; its consequence. */
static inline int model_cancel(struct model *model, size_t i)
{
	enum fate fate = model->all[i].fate;

	if (fate != WAITS)
		return fate == RUNS ? EBUSY : ENOENT;
	model_end(model, i, IS_CANCELLED);
	return 0;
}

/* Returns how many are left behind in the lanes. */
static inline size_t model_begin_pass(struct model *model, int64_t now_ns, size_t max_transfers)
{
	size_t left = 0;

	while (model->over < model->count && model->all[model->over].fate > RUNS &&
	       model->all[model->over].tick != TICK_UNKNOWN)
		model->over++;
	model->target = model_tick_at(model, now_ns);
	for (size_t i = model->over; i < model->count; i++) {
		struct model_timeout *timeout = &model->all[i];

		if (timeout->tick != TICK_UNKNOWN)
			continue;
		if (max_transfers == 0) {
			left++;
			continue;
		}
		max_transfers--;
		timeout->tick = model_tick_of(model, timeout->deadline_ns);
		if (timeout->tick < model->wheel_tick)
			timeout->tick = model->wheel_tick;
	}
	return left;
}

static inline void model_end_pass(struct model *model)
{
	if (model->wheel_tick <= model->target)
		model->wheel_tick = model->target + 1;
}

/* The first tick of those that wait in the wheel, HWT_TICK_NEVER when none does. */
static inline int64_t model_first_tick(const struct model *model)
{
	int64_t first = HWT_TICK_NEVER;

	for (size_t i = model->over; i < model->count; i++)
		if (model->all[i].fate == WAITS && model->all[i].tick != TICK_UNKNOWN && model->all[i].tick < first)
			first = model->all[i].tick;
	return first;
}

/* In the pass under way it is the turn of i: it is due, and nobody who must come before it waits. */
static inline bool model_is_next(const struct model *model, size_t i)
{
	const struct model_timeout *it = &model->all[i];

	if (it->fate != WAITS || it->tick == TICK_UNKNOWN || it->tick > model->target)
		return false;
	for (size_t j = model->over; j < model->count; j++) {
		const struct model_timeout *other = &model->all[j];

		if (other->fate != WAITS || other->tick == TICK_UNKNOWN)
			continue;
		if (other->tick < it->tick || (other->tick == it->tick && other->lane == it->lane && j < i))
			return false;
	}
	return true;
}

/* What hwt_timeout_state has to say: retired if a later one got the same record. */
static inline hwt_state model_state(const struct model *model, size_t i)
{
	static const hwt_state states[] = { HWT_PENDING, HWT_RUNNING, HWT_EXPIRED, HWT_CANCELLED, HWT_CANCELLED };

	for (size_t j = i + 1; j < model->count; j++)
		if (model->all[j].handle.entry == model->all[i].handle.entry)
			return HWT_RETIRED;
	return states[model->all[i].fate];
}

#endif
