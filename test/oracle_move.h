/* SPDX-License-Identifier: BSD-2-Clause */
/* The oracle's operations that move timeouts, let them run again, or give them a period or a finaliser. */
#ifndef HWT_ORACLE_MOVE_H
#define HWT_ORACLE_MOVE_H

#include "oracle.h"

/* Draws another time for a timeout with this deadline. */
static inline int64_t draw_move(int64_t deadline_ns)
{
	static const int64_t special[] = { INT64_MAX, INT64_MIN, INT64_MAX - 1, 0 };
	const struct oracle_row *row = oracle.row;
	int64_t some_ns = (int64_t)draw(3 * (uint64_t)row->tick_ns + 2);

	switch (draw(8)) {
	case 0: /* unchanged */
		return deadline_ns;
	case 1: /* a little earlier */
		return model_deadline(deadline_ns, -some_ns);
	case 2: /* a little later */
		return model_deadline(deadline_ns, some_ns);
	case 3: /* later by rounds */
		return model_saturated((int128)deadline_ns + (int128)draw(5) * row->wheel * row->tick_ns + some_ns);
	case 4: /* a time that has passed, or is about to */
		return model_deadline(fake_now_ns, row->tick_ns - some_ns);
	case 5:
		if (draw(8) == 0)
			return special[draw(4)];
		return model_deadline(deadline_ns, row->tick_ns);
	default:
		return model_deadline(fake_now_ns, draw_delay());
	}
}

/* Reschedules by one of the two calls, or on the lane of another thread.  `own`: in the timeout's task. */
static inline int reschedule(hwt_timeout handle, bool own, int64_t *deadline_ns)
{
	int64_t delay_ns = model_saturated((int128)*deadline_ns - fake_now_ns);
	struct hwt_lane *lane;

	if (oracle.row->lanes > 1) {
		lane = oracle_lane((uint32_t)draw(oracle.row->lanes));
		return own ? hwt_lane_rearm(lane, handle.entry, *deadline_ns)
			   : hwt_lane_reschedule(lane, handle.entry, handle.generation, *deadline_ns);
	}
	if (draw(2) == 0)
		return hwt_reschedule_at(handle, *deadline_ns);
	*deadline_ns = model_deadline(fake_now_ns, delay_ns);
	return hwt_reschedule(handle, delay_ns);
}

/* Moves a timeout from outside of its task. */
static inline void move_to(size_t i, int64_t deadline_ns)
{
	struct model *model = &oracle.model;
	uint64_t refused = oracle.refused;
	bool urgent;
	int rc;

	if (i == oracle.running) /* the call comes as from another thread */
		rc = hwt_lane_reschedule(oracle_lane(0), model->all[i].handle.entry, model->all[i].handle.generation,
					 deadline_ns);
	else
		rc = reschedule(model->all[i].handle, false, &deadline_ns);
	urgent = model_is_urgent(model, i, deadline_ns);
	if (rc == ENOMEM && urgent && oracle.refused > refused) {
		oracle.sums.unmoved++;
		return;
	}
	CHECK_INT(rc, ==, model_move(model, i, deadline_ns));
	oracle.sums.moved += rc == 0;
	oracle.sums.requeued += rc == 0 && urgent;
}

static inline void move(size_t i)
{
	move_to(i, draw_move(oracle.model.all[i].deadline_ns));
}

static inline void op_move(void)
{
	size_t i;

	CHECK_INT(hwt_reschedule(HWT_TIMEOUT_NONE, 0), ==, ENOENT);
	CHECK_INT(hwt_reschedule_at(HWT_TIMEOUT_NONE, 0), ==, ENOENT);
	if (oracle.model.count == 0)
		return;
	i = draw_live();
	for (uint64_t n = 1 + draw(3); n > 0; n--)
		move(i);
}

static inline void op_moves(void)
{
	size_t nth = 1 + (draw(2) == 0 ? 0 : draw(20));
	uint64_t way = draw(3);
	int64_t delay_ns = draw_delay();

	for (size_t n = 0; n < oracle.model.live.count; n += nth) {
		size_t i = oracle.model.live.at[n];

		if (way == 0)
			move(i);
		else if (way == 1)
			move_to(i, model_deadline(fake_now_ns, delay_ns));
		else /* the worker is told of each move */
			move_to(i, model_deadline(oracle.model.all[i].deadline_ns, -1));
	}
}

/* Makes timeout i, whose task is running, run again if it can. */
static inline void again(size_t i)
{
	struct model *model = &oracle.model;

	for (uint64_t n = 1 + draw(3); n > 0; n--) {
		int64_t deadline_ns = draw_move(model->all[i].deadline_ns);
		int rc = reschedule(model->all[i].handle, true, &deadline_ns);

		CHECK_INT(rc, ==, model_again(model, i, deadline_ns));
		oracle.sums.again += rc == 0;
		oracle.sums.not_again += rc == ENOBUFS;
		oracle.sums.too_late += rc == ENOENT && model->all[i].last;
	}
	CHECK_INT(hwt_pending_timeouts(oracle.timer), ==, model_waits(model));
}

static inline void op_again(void)
{
	oracle.agains += 1 + (unsigned)draw(4);
}

/* Periodic timeouts do not end by themselves, so their number is bounded. */
static inline bool there_is_room_for_a_periodic_one(void)
{
	const struct model *model = &oracle.model;
	size_t most = oracle.row->most, count = 0;

	if (model->limit > 0 && (size_t)model->limit < most)
		most = (size_t)model->limit;
	for (size_t n = 0; n < model->live.count; n++) {
		const struct model_timeout *it = &model->all[model->live.at[n]];

		count += it->period_ns > 0 && !model_has_ended(it);
	}
	return count < most / 4 && there_is_room();
}

static inline int64_t draw_period(void)
{
	const struct oracle_row *row = oracle.row;
	int128 period = row->tick_ns;

	switch (draw(4)) {
	case 0:
		period *= (int64_t)(1 + draw(8));
		break;
	case 1: /* not a multiple of the tick */
		period *= (int64_t)(1 + draw(4));
		period += (int64_t)draw((uint64_t)row->tick_ns);
		break;
	case 2: /* about a round */
		period *= (int64_t)row->wheel;
		period += (int64_t)draw(2) * row->tick_ns;
		break;
	default:
		period += (int64_t)draw((uint64_t)row->farthest_ns);
		break;
	}
	return model_saturated(period);
}

static inline void op_periodic(void)
{
	struct wish wish = { .period_ns = draw_period(), .delay_ns = draw_delay(), .at = draw(3) == 0 };
	hwt_timeout none = HWT_TIMEOUT_NONE;

	CHECK_INT(hwt_new_periodic(oracle.timer, oracle_task, NULL, 0, oracle.row->tick_ns - 1, &none), ==, EINVAL);
	CHECK(none.entry == NULL);
	if (there_is_room_for_a_periodic_one())
		schedule_wish(&wish);
}

static inline void op_release(void)
{
	struct wish wish = { .delay_ns = draw_delay(), .ex = true };

	wish.owned = draw(8) != 0;
	wish.at = draw(3) == 0;
	if (draw(6) == 0 && there_is_room_for_a_periodic_one())
		wish.period_ns = draw_period();
	if (there_is_room())
		schedule_wish(&wish);
}

/* Makes calls with a timeout during a stop, which hands pending timeouts out: either the call or the stop ends it. */
static inline void try_in_stop(size_t i)
{
	struct model *model = &oracle.model;
	hwt_timeout handle = model->all[i].handle;
	int64_t deadline_ns = draw_move(model->all[i].deadline_ns);
	int moved = hwt_reschedule_at(handle, deadline_ns), cancelled = hwt_cancel(handle);

	CHECK(moved == ENOENT || (moved == 0 && model->all[i].fate == WAITS));
	CHECK_INT(cancelled, ==, moved);
	if (moved == 0) {
		model->all[i].deadline_ns = deadline_ns;
		model->moved++;
	}
	if (cancelled == 0)
		model_end(model, i, IS_CANCELLED);
}

/*
 * The calls of a finaliser.  After a task it may make those of a task; after a cancel the pass is in a place that tasks
 * never see.
 */
static inline void finalise(size_t i)
{
	if (oracle.phase != AT_WORK) {
		schedule(0, draw(2) == 0);
		try_in_stop(draw_timeout());
		return;
	}
	cancel(draw_timeout());
	oracle.disturbed = true;
	if (oracle.ran == i) {
		op_new();
		op_move();
		op_look();
	}
}

static void oracle_release(void *arg)
{
	struct model *model = &oracle.model;
	size_t i = (size_t)(uintptr_t)arg - 1;
	struct model_timeout *it;
	hwt_timeout handle;

	REQUIRE(i < model->count);
	it = &model->all[i];
	handle = it->handle;
	CHECK(it->owned && !it->released);
	CHECK(it->fate == HAS_RUN || it->fate == IS_CANCELLED || it->fate == HANDED_OUT);
	CHECK((it->fate == HANDED_OUT) == (oracle.phase == IN_DESTROY));
	CHECK(it->fate != HAS_RUN || oracle.ran == i); /* without delay */
	CHECK_INT(hwt_timeout_state(handle), ==, it->fate == HAS_RUN ? HWT_EXPIRED : HWT_CANCELLED);
	CHECK_INT(hwt_timeout_missed(handle), ==, 0);
	CHECK_INT(hwt_timer_stop(oracle.timer, NULL), ==, EDEADLK);
	it->released = true;
	oracle.sums.released++;
	CHECK_INT(hwt_cancel(handle), ==, ENOENT);
	CHECK_INT(hwt_reschedule(handle, 0), ==, ENOENT);
	if (draw(256) < oracle.row->deeds)
		finalise(i);
}

#endif
