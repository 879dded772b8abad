/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reference model of a timer: an array of all timeouts that were ever accepted, in that order, and linear searches.
 * It knows no buckets, no rounds, no records; ticks are computed in 128 bits.
 *
 * What it says of a pass at a time whose tick is T, with wheel tick W (the next one to be expired):
 *
 *   transfer   the oldest of those that wait in their lane, cancelled ones included, leave it: as many as a pass takes
 *              in.  Each that is not cancelled gets its tick: that of its deadline, or W if that has passed.
 *   expire     all with tick <= T run, by tick, within a tick in the order of acceptance; W becomes T + 1.
 *
 * So with a small max_transfers a timeout may be late, by as many passes as its lane is behind, and never early.  The
 * order between lanes is not promised, nor asked for.
 *
 * What it says of another time for a timeout that waits:
 *
 *   later      its tick is that of the new deadline, if that is a later one.
 *   earlier    it waits in a lane, behind all that do, and has no tick until it leaves it: as a new one.
 *   in a lane  only its deadline is another.
 *
 * One that runs again gets its tick when its task has returned: that of its deadline, but at the earliest W after the
 * pass.  For neither of them an order within the tick is promised.
 */
#ifndef HWT_ORACLE_MODEL_H
#define HWT_ORACLE_MODEL_H

#include "unit.h"

__extension__ typedef __int128 int128;

enum fate {
	WAITS,
	RUNS,
	RUNS_AGAIN, /* it runs, and is already pending again */
	RUNS_LAST,  /* it ran again, but the next run has been cancelled */
	HAS_RUN,
	IS_CANCELLED,
	HANDED_OUT,
	FATES
};

struct model_timeout {
	hwt_timeout handle;
	int64_t deadline_ns;
	int64_t tick;      /* TICK_UNKNOWN: the timeout is in a lane */
	int64_t period_ns; /* 0: none */
	uint64_t missed;   /* periods merged into the present run */
	uint32_t lane;
	enum fate fate;
	bool placed;   /* it has had a tick: if it has none now, it was moved earlier */
	bool loose;    /* it was moved or ran before: its order is not promised */
	bool last;     /* it was cancelled while it ran: it does not run again */
	bool owned;    /* it has a finaliser */
	bool released; /* the finaliser has been called */
};

#define TICK_UNKNOWN INT64_C(-1)

/* An ordered list of numbers of timeouts. */
struct model_list {
	size_t *at;
	size_t count, room;
};

struct model {
	struct model_timeout *all;
	size_t count, room;
	struct model_list live;  /* timeouts that have not both ended and left their lane, in the order of acceptance */
	struct model_list lanes; /* timeouts in a lane, in the order in which they came */
	size_t fates[FATES];     /* number of timeouts for each fate */
	int64_t start_ns, tick_ns;
	int64_t limit; /* of pending timeouts, 0: none */
	int64_t wheel_tick;
	int64_t target; /* the last tick of the present pass */
	uint64_t runs, merged, moved;
};

static inline void model_clear(struct model *model, int64_t start_ns, int64_t tick_ns, int64_t limit)
{
	model->count = model->live.count = model->lanes.count = 0;
	memset(model->fates, 0, sizeof(model->fates));
	model->start_ns = start_ns;
	model->tick_ns = tick_ns;
	model->limit = limit;
	model->wheel_tick = 0;
	model->target = -1;
	model->runs = model->merged = model->moved = 0;
}

/* Makes room for one more element of `size` bytes. */
static inline void *model_grown(void *memory, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return memory;
	*room = *room == 0 ? 1024 : *room * 2;
	memory = realloc(memory, *room * size);
	REQUIRE(memory != NULL);
	return memory;
}

static inline void model_append(struct model_list *list, size_t i)
{
	list->at = model_grown(list->at, list->count, &list->room, sizeof(*list->at));
	list->at[list->count++] = i;
}

static inline int64_t model_tick_of(const struct model *model, int64_t deadline_ns)
{
	int128 distance = (int128)deadline_ns - model->start_ns;

	return distance <= 0 ? 0 : (int64_t)((distance + model->tick_ns - 1) / model->tick_ns);
}

/* Returns the last tick that has come. */
static inline int64_t model_tick_at(const struct model *model, int64_t now_ns)
{
	int128 distance = (int128)now_ns - (now_ns == INT64_MAX) - model->start_ns; /* INT64_MAX never comes */

	return distance < 0 ? -1 : (int64_t)(distance / model->tick_ns);
}

static inline int64_t model_saturated(int128 time)
{
	return time > INT64_MAX ? INT64_MAX : time < INT64_MIN ? INT64_MIN : (int64_t)time;
}

/* Returns the time of a tick; INT64_MAX if an int64_t cannot hold it. */
static inline int64_t model_time_of(const struct model *model, int64_t tick)
{
	return model_saturated((int128)model->start_ns + (int128)tick * model->tick_ns);
}

/* Returns now + delay as the manual defines it. */
static inline int64_t model_deadline(int64_t now_ns, int64_t delay_ns)
{
	return model_saturated((int128)now_ns + delay_ns);
}

/* Returns the number of pending timeouts. */
static inline size_t model_waits(const struct model *model)
{
	return model->fates[WAITS] + model->fates[RUNS_AGAIN];
}

static inline bool model_is_full(const struct model *model)
{
	return model->limit > 0 && model_waits(model) >= (size_t)model->limit;
}

static inline bool model_has_ended(const struct model_timeout *it)
{
	return it->fate >= HAS_RUN;
}

/* Returns true if the timeout has a place in the wheel. */
static inline bool model_has_place(const struct model_timeout *it)
{
	return it->fate == WAITS && it->tick != TICK_UNKNOWN;
}

static inline void model_add(struct model *model, struct model_timeout timeout)
{
	model->all = model_grown(model->all, model->count, &model->room, sizeof(*model->all));
	model_append(&model->live, model->count);
	model_append(&model->lanes, model->count);
	timeout.tick = TICK_UNKNOWN;
	timeout.fate = WAITS;
	model->all[model->count++] = timeout;
	model->fates[WAITS]++;
}

static inline void model_end(struct model *model, size_t i, enum fate fate)
{
	model->fates[model->all[i].fate]--;
	model->all[i].fate = fate;
	model->fates[fate]++;
}

/* Cancels in the model.  Returns the answer that hwt_cancel must give. */
static inline int model_cancel(struct model *model, size_t i)
{
	enum fate fate = model->all[i].fate;

	model->all[i].last |= fate == RUNS;
	if (fate != WAITS && fate != RUNS_AGAIN)
		return fate == RUNS ? EBUSY : ENOENT;
	model_end(model, i, fate == WAITS ? IS_CANCELLED : RUNS_LAST);
	return 0;
}

/* Returns true if the worker has to be told of the new deadline: only then a move needs memory. */
static inline bool model_is_urgent(const struct model *model, size_t i, int64_t deadline_ns)
{
	return model_has_place(&model->all[i]) && deadline_ns < model->all[i].deadline_ns;
}

/* Moves in the model.  Returns the answer that hwt_reschedule must give outside of the task. */
static inline int model_move(struct model *model, size_t i, int64_t deadline_ns)
{
	struct model_timeout *it = &model->all[i];
	int64_t tick = model_tick_of(model, deadline_ns);

	if (it->fate != WAITS)
		return it->fate == RUNS || it->fate == RUNS_AGAIN ? EBUSY : ENOENT;
	if (model_is_urgent(model, i, deadline_ns)) {
		it->tick = TICK_UNKNOWN;
		model_append(&model->lanes, i);
	} else if (it->tick != TICK_UNKNOWN && it->tick < tick) {
		it->tick = tick;
	}
	it->deadline_ns = deadline_ns;
	it->loose = true;
	model->moved++;
	return 0;
}

/* Rearms in the model.  Returns the answer that hwt_reschedule must give in the task. */
static inline int model_again(struct model *model, size_t i, int64_t deadline_ns)
{
	struct model_timeout *it = &model->all[i];

	if (it->fate == RUNS_LAST || it->last)
		return ENOENT;
	if (it->fate == RUNS && model_is_full(model))
		return ENOBUFS;
	model_end(model, i, RUNS_AGAIN);
	it->deadline_ns = deadline_ns;
	model->moved++;
	return 0;
}

/*
 * Begins a run in the model.  A periodic timeout then waits for its next deadline: the first on its grid whose tick has
 * not come.
 */
static inline void model_begin_run(struct model *model, size_t i, int64_t now_ns)
{
	struct model_timeout *it = &model->all[i];
	int128 missed;

	model->runs++;
	if (it->period_ns == 0) {
		model_end(model, i, RUNS);
		return;
	}
	missed = ((int128)model_time_of(model, model_tick_at(model, now_ns)) - it->deadline_ns) / it->period_ns;
	it->missed = (uint64_t)missed;
	it->deadline_ns = model_saturated(it->deadline_ns + (missed + 1) * it->period_ns);
	model->merged += it->missed;
	model_end(model, i, RUNS_AGAIN);
}

static inline void model_end_run(struct model *model, size_t i)
{
	struct model_timeout *it = &model->all[i];
	int64_t tick = model_tick_of(model, it->deadline_ns);

	if (it->fate != RUNS_AGAIN) {
		model_end(model, i, it->fate == RUNS ? HAS_RUN : IS_CANCELLED);
		return;
	}
	it->tick = tick > model->target ? tick : model->target + 1;
	it->loose = true;
	model_end(model, i, WAITS);
}

/* Removes from the lists the timeouts that have ended, left their lane, and whose finaliser has been called. */
static inline void model_forget_ended(struct model *model)
{
	size_t kept = 0;

	for (size_t n = 0; n < model->live.count; n++) {
		const struct model_timeout *it = &model->all[model->live.at[n]];

		if (!model_has_ended(it) || it->tick == TICK_UNKNOWN || it->owned != it->released)
			model->live.at[kept++] = model->live.at[n];
	}
	model->live.count = kept;
}

/* Begins a pass in the model.  Returns the number of timeouts that stay in the lanes. */
static inline size_t model_begin_pass(struct model *model, int64_t now_ns, size_t max_transfers)
{
	size_t moved = max_transfers < model->lanes.count ? max_transfers : model->lanes.count;

	model_forget_ended(model);
	model->target = model_tick_at(model, now_ns);
	for (size_t n = 0; n < moved; n++) {
		struct model_timeout *it = &model->all[model->lanes.at[n]];

		it->placed = true;
		it->tick = model_tick_of(model, it->deadline_ns);
		if (it->tick < model->wheel_tick)
			it->tick = model->wheel_tick;
	}
	model->lanes.count -= moved;
	if (model->lanes.count > 0)
		memmove(model->lanes.at, model->lanes.at + moved, model->lanes.count * sizeof(*model->lanes.at));
	return model->lanes.count;
}

static inline void model_end_pass(struct model *model)
{
	if (model->wheel_tick <= model->target)
		model->wheel_tick = model->target + 1;
}

/* Returns the first tick of the timeouts that wait in the wheel, or HWT_TICK_NEVER. */
static inline int64_t model_first_tick(const struct model *model)
{
	int64_t first = HWT_TICK_NEVER;

	for (size_t n = 0; n < model->live.count; n++) {
		const struct model_timeout *it = &model->all[model->live.at[n]];

		if (model_has_place(it) && it->tick < first)
			first = it->tick;
	}
	return first;
}

/*
 * Returns true if timeout i may run next in the present pass: it is due, and no timeout that must come before it waits.
 */
static inline bool model_is_next(const struct model *model, size_t i)
{
	const struct model_timeout *it = &model->all[i];

	if (!model_has_place(it) || it->tick > model->target)
		return false;
	for (size_t n = 0; n < model->live.count; n++) {
		size_t j = model->live.at[n];
		const struct model_timeout *other = &model->all[j];

		if (!model_has_place(other) || other->tick > it->tick)
			continue;
		if (other->tick < it->tick)
			return false;
		if (j < i && other->lane == it->lane && !it->loose && !other->loose)
			return false;
	}
	return true;
}

/* Returns the state that hwt_timeout_state must report: retired if a later timeout got the same record. */
static inline hwt_state model_state(const struct model *model, size_t i)
{
	static const hwt_state states[FATES] = { HWT_PENDING, HWT_RUNNING,   HWT_RUNNING,  HWT_RUNNING,
						 HWT_EXPIRED, HWT_CANCELLED, HWT_CANCELLED };

	for (size_t j = i + 1; j < model->count; j++)
		if (model->all[j].handle.entry == model->all[i].handle.entry)
			return HWT_RETIRED;
	return states[model->all[i].fate];
}

#endif
