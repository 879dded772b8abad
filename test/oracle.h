/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a program of timer calls on a timer and on the reference model, and compares all there is to see.
 *
 * A program is a sequence of numbers, drawn at random or decoded from bytes (a fuzzer's), so the same interpreter
 * serves both.  Time is virtual, and so each program runs the same way each time.
 */
#ifndef HWT_ORACLE_H
#define HWT_ORACLE_H

#include "check.h"
#include "oracle_model.h"
#include "oracle_table.h"

/* Where a program comes from: bytes, or without them random numbers. */
struct source {
	const uint8_t *bytes;
	size_t left;
	uint64_t random;
};

/* What happened, so that a test can see that its programs did not run idle. */
struct oracle_sums {
	uint64_t steps, programs, ran, cancelled, busy, no_memory, no_room, lazy, unplaced, stopped_midway;
};

struct oracle {
	const struct oracle_row *row;
	struct source source;
	struct model model;
	hwt_timer *timer;
	unsigned step;
	unsigned stop_in; /* so many tasks, 0: not asked for */
	bool stopping;    /* a task has asked for the stop: nothing may run any more */
	bool stopped;
	bool over; /* the bytes are used up */
	unsigned refuse;
	uint64_t refuse_random, refused;
	struct oracle_sums sums;
};

static struct oracle oracle;

/* 0 .. limit - 1; limit 0: 64 bits. */
static inline uint64_t draw(uint64_t limit)
{
	unsigned bytes = limit == 0 ? 8 : limit <= 1 << 8 ? 1 : limit <= 1 << 16 ? 2 : 8;
	uint64_t value = 0;

	if (oracle.source.bytes == NULL)
		return limit == 0 ? random_next(&oracle.source.random) : random_below(&oracle.source.random, limit);
	for (; bytes > 0 && oracle.source.left > 0; bytes--, oracle.source.left--)
		value = value << 8 | *oracle.source.bytes++;
	oracle.over |= oracle.source.left == 0;
	return limit == 0 ? value : value % limit;
}

/* Memory does not depend on the program's numbers, only on how often somebody asked. */
static inline bool oracle_refuses(void)
{
	bool refuses = random_below(&oracle.refuse_random, 256) < oracle.refuse;

	oracle.refused += refuses;
	return refuses;
}

static inline int64_t draw_delay(void)
{
	static const int64_t special[] = { INT64_MAX, INT64_MAX - 1, INT64_MIN, -1, 0, 1, 2, INT64_MAX / 2 };
	const struct oracle_row *row = oracle.row;
	int128 tick = row->tick_ns, span = tick * row->wheel, delay = 0;

	/* One number a statement: so that a compiler has no choice in which order they are drawn. */
	switch (draw(8)) {
	case 0:
		delay = (int128)draw(4) * tick;
		break;
	case 1:
		delay = (int128)draw(row->wheel * UINT64_C(2) + 2) * tick;
		break;
	case 2: /* about a multiple of the span */
		delay = (int128)(1 + draw(4)) * span;
		delay += ((int128)draw(3) - 1) * tick;
		break;
	case 3: /* of every order of magnitude */
		delay = (int128)(draw(0) >> 1);
		delay >>= draw(63);
		break;
	case 4: /* between ticks */
		delay = (int128)draw(row->wheel * UINT64_C(4)) * tick;
		delay += (int64_t)draw((uint64_t)tick);
		break;
	case 5:
		return -(int64_t)draw(3 * (uint64_t)tick);
	case 6:
		delay = row->farthest_ns - (int64_t)draw((uint64_t)tick);
		break;
	default:
		if (draw(16) == 0)
			return special[draw(8)];
		delay = (int128)draw(16) * tick + 1;
		break;
	}
	return (int64_t)(delay > row->farthest_ns ? delay % row->farthest_ns : delay);
}

static void oracle_task(hwt_timeout timeout, void *arg);

static inline struct hwt_lane *oracle_lane(uint32_t lane)
{
	return &oracle.timer->lanes.lane[(lane * 5 + 1) & (oracle.timer->lanes.count - 1)];
}

/* Through the public header, or on the lane of another thread. */
static inline int submit(uint32_t lane, void *arg, int64_t delay_ns, bool at, hwt_timeout *out)
{
	int64_t deadline_ns = model_deadline(fake_now_ns, delay_ns);

	if (oracle.row->lanes > 1)
		return hwt_lane_submit(oracle_lane(lane), oracle_task, arg, deadline_ns, out);
	if (at)
		return hwt_new_timeout_at(oracle.timer, oracle_task, arg, deadline_ns, out);
	return hwt_new_timeout(oracle.timer, oracle_task, arg, delay_ns, out);
}

static inline void schedule(int64_t delay_ns, bool at)
{
	struct model *model = &oracle.model;
	uint64_t refused = oracle.refused;
	uint32_t lane = (uint32_t)draw(oracle.row->lanes);
	hwt_timeout handle = HWT_TIMEOUT_NONE;
	int rc = submit(lane, (void *)(model->count + 1), delay_ns, at, &handle);
	int expected = 0;

	if (oracle.stopped)
		expected = ECANCELED;
	else if (oracle.refused > refused && rc == ENOMEM)
		expected = ENOMEM;
	else if (oracle.row->limit > 0 && model->waits >= (size_t)oracle.row->limit)
		expected = ENOBUFS;
	CHECK_INT(rc, ==, expected);
	CHECK((handle.entry == NULL) == (rc != 0));
	oracle.sums.no_memory += rc == ENOMEM;
	oracle.sums.no_room += rc == ENOBUFS;
	if (rc == 0)
		model_add(model, handle, model_deadline(fake_now_ns, delay_ns), lane);
}

static inline void op_new(void)
{
	bool at = draw(3) == 0;

	if (oracle.model.waits < oracle.row->most)
		schedule(draw_delay(), at);
}

static inline void op_burst(void)
{
	size_t count = draw(700);
	bool alike = draw(2) == 0;
	int64_t delay_ns = draw_delay();

	for (size_t i = 0; i < count && oracle.model.waits < oracle.row->most; i++)
		schedule(alike ? delay_ns : draw_delay(), true);
}

static inline void cancel(size_t i)
{
	hwt_timeout handle = oracle.model.all[i].handle;
	uint64_t refused = oracle.refused;
	int rc, expected = model_cancel(&oracle.model, i);

	if (oracle.row->lanes > 1)
		rc = hwt_lane_cancel(oracle_lane((uint32_t)draw(oracle.row->lanes)), handle.entry, handle.generation);
	else
		rc = hwt_cancel(handle);
	CHECK_INT(rc, ==, expected);
	oracle.sums.cancelled += rc == 0;
	oracle.sums.busy += rc == EBUSY;
	oracle.sums.lazy += rc == 0 && oracle.refused > refused;
}

/* Any of all, or of the newest. */
static inline size_t draw_timeout(void)
{
	size_t count = oracle.model.count, newest = draw(4) == 0 ? count : 32;

	return newest < count ? count - 1 - draw(newest) : draw(count);
}

static inline void op_cancel(void)
{
	if (oracle.model.count > 0)
		cancel(draw_timeout());
	CHECK_INT(hwt_cancel(HWT_TIMEOUT_NONE), ==, ENOENT);
}

static inline void op_cull(void)
{
	size_t nth = 1 + draw(20);
	bool spare = draw(2) == 0;

	for (size_t i = oracle.model.over; i < oracle.model.count; i++)
		if ((i % nth == 0) != spare && oracle.model.all[i].fate == WAITS)
			cancel(i);
}

static inline void op_memory(void)
{
	oracle.refuse = draw(2) == 0 ? oracle.row->refuse : 0;
}

static inline void op_look(void)
{
	hwt_unprocessed out;
	hwt_timeout handle;
	hwt_state state;
	size_t i;

	CHECK_INT(hwt_timeout_state(HWT_TIMEOUT_NONE), ==, HWT_NONE);
	CHECK(!hwt_timer_next_unprocessed(oracle.timer, &out)); /* not before the stop, and not more than once after */
	if (oracle.model.count == 0)
		return;
	i = draw_timeout();
	state = model_state(&oracle.model, i);
	handle = oracle.model.all[i].handle;
	CHECK_INT(hwt_timeout_state(handle), ==, state);
	CHECK(hwt_is_expired(handle) == (state == HWT_RUNNING || state == HWT_EXPIRED));
	CHECK(hwt_is_cancelled(handle) == (state == HWT_CANCELLED));
	CHECK(hwt_timeout_timer(handle) == oracle.timer);
}

static inline void op_stop_midway(void)
{
	if (draw(4) == 0) /* it ends the program: not too often */
		oracle.stop_in = 1 + (unsigned)draw(8);
}

#endif
