/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a program of timer calls on a timer and on the reference model, and compares everything that can be observed.
 *
 * A program is a sequence of numbers, drawn at random or decoded from bytes (a fuzzer's), so the same interpreter
 * serves both.  Time is virtual, and so each program runs the same way each time.
 */
#ifndef HWT_ORACLE_H
#define HWT_ORACLE_H

#include "check/check.h"
#include "oracle_model.h"
#include "oracle_table.h"

/* The source of a program's numbers: bytes, or a random generator if there are none. */
struct source {
	const uint8_t *bytes;
	size_t left;
	uint64_t random;
};

/* Above every errno value that is counted. */
#define REFUSALS 200

/* Counts of what happened, by which a test sees that its programs did something. */
struct oracle_sums {
	uint64_t steps, programs, ran, cancelled, busy, no_memory, no_room, lazy, unplaced, stopped_midway;
	uint64_t moved, requeued, unmoved, again, not_again, too_late, merged, dropped, released;
};

/* Where a finaliser may run. */
enum phase { AT_WORK, IN_STOP, IN_DESTROY };

struct oracle {
	const struct oracle_row *row;
	struct source source;
	struct model model;
	hwt_timer *timer;
	unsigned step;
	unsigned stop_in; /* the stop comes in this many tasks, 0: not asked for */
	unsigned agains;  /* this many more tasks run again */
	bool stopping;    /* a task has asked for the stop: no task may start any more */
	bool stopped;
	enum phase phase;
	size_t running; /* the timeout whose task is running; NOBODY */
	size_t ran;     /* the timeout whose task has just returned; NOBODY */
	bool disturbed; /* a finaliser has cancelled a timeout in this pass */
	bool over;      /* the bytes are used up */
	unsigned refuse;
	uint64_t refuse_random, refused;
	uint64_t refusals[REFUSALS]; /* calls of schedule that were refused, by their error */
	struct oracle_sums sums;
};

#define NOBODY SIZE_MAX

static struct oracle oracle;

/* Draws 0 ..  limit - 1; limit 0: 64 bits. */
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

/* Scarcity of memory does not depend on the program's numbers, only on the number of allocations. */
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

	/* One number a statement, so that the order of the draws does not depend on the compiler. */
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
static void oracle_release(void *arg);

static inline struct hwt_lane *oracle_lane(uint32_t lane)
{
	return lane_at(&oracle.timer->lanes, (lane * 5 + 1) & oracle.timer->lanes.last_seat);
}

/* A timeout that a program asks for. */
struct wish {
	int64_t delay_ns;
	int64_t period_ns; /* 0: none */
	bool at;           /* by an absolute time */
	bool owned;        /* with a finaliser */
	bool ex;           /* always by hwt_new_timeout_ex */
};

/* Schedules on the lane of another thread. */
static inline int submit_elsewhere(struct hwt_lane *lane, void *arg, const struct wish *wish, hwt_timeout *out)
{
	struct hwt_extension extension = { arg, wish->owned ? oracle_release : NULL, 0 };
	int64_t deadline_ns = model_deadline(fake_now_ns, wish->delay_ns);

	if (wish->owned || wish->period_ns > 0)
		return hwt_lane_submit_extended(lane, oracle_task, &extension, wish->period_ns, deadline_ns, out);
	return hwt_lane_submit(lane, oracle_task, arg, deadline_ns, out);
}

/* Schedules through the public header. */
static inline int submit_here(void *arg, const struct wish *wish, hwt_timeout *out)
{
	int64_t deadline_ns = model_deadline(fake_now_ns, wish->delay_ns);
	hwt_spec spec = { .size = sizeof(spec), .task = oracle_task, .arg = arg, .period_ns = wish->period_ns };

	if (wish->period_ns > 0 && !wish->at && !wish->owned && !wish->ex)
		return hwt_new_periodic(oracle.timer, oracle_task, arg, wish->delay_ns, wish->period_ns, out);
	if (wish->period_ns > 0 || wish->owned || wish->ex) {
		spec.when_ns = wish->at ? deadline_ns : wish->delay_ns;
		spec.flags = wish->at ? HWT_ABSOLUTE : 0;
		spec.release = wish->owned ? oracle_release : NULL;
		return hwt_new_timeout_ex(oracle.timer, &spec, out);
	}
	if (wish->at)
		return hwt_new_timeout_at(oracle.timer, oracle_task, arg, deadline_ns, out);
	return hwt_new_timeout(oracle.timer, oracle_task, arg, wish->delay_ns, out);
}

/* Returns the lane in which a submission ends up. */
static inline struct hwt_lane *lane_of_submission(uint32_t lane)
{
	return oracle.row->lanes > 1 ? oracle_lane(lane) : lanes_home(&oracle.timer->lanes);
}

static inline void schedule_wish(const struct wish *wish)
{
	struct model *model = &oracle.model;
	uint64_t refused = oracle.refused;
	uint32_t lane = (uint32_t)draw(oracle.row->lanes);
	const struct hwt_lane *home = lane_of_submission(lane);
	void *arg = (void *)(model->count + 1);
	hwt_timeout handle = HWT_TIMEOUT_NONE;
	int expected = 0, rc;

	if (oracle.row->lanes > 1)
		rc = submit_elsewhere(oracle_lane(lane), arg, wish, &handle);
	else
		rc = submit_here(arg, wish, &handle);
	if (oracle.stopped)
		expected = ECANCELED;
	else if (oracle.refused > refused && rc == ENOMEM)
		expected = ENOMEM;
	else if (model_is_full(model) || (rc == ENOBUFS && hwt_lane_is_full(home)))
		expected = ENOBUFS;
	CHECK_INT(rc, ==, expected);
	CHECK((handle.entry == NULL) == (rc != 0));
	if (rc >= 0 && rc < REFUSALS)
		oracle.refusals[rc]++;
	oracle.sums.no_memory += rc == ENOMEM;
	oracle.sums.no_room += rc == ENOBUFS;
	if (rc == 0)
		model_add(model, (struct model_timeout){ .handle = handle,
							 .deadline_ns = model_deadline(fake_now_ns, wish->delay_ns),
							 .period_ns = wish->period_ns,
							 .lane = lane,
							 .owned = wish->owned });
}

static inline void schedule(int64_t delay_ns, bool at)
{
	schedule_wish(&(struct wish){ .delay_ns = delay_ns, .at = at });
}

static inline bool there_is_room(void)
{
	return model_waits(&oracle.model) < oracle.row->most;
}

static inline void op_new(void)
{
	bool at = draw(3) == 0;

	if (there_is_room())
		schedule(draw_delay(), at);
}

static inline void op_burst(void)
{
	size_t count = draw(700);
	bool alike = draw(2) == 0;
	int64_t delay_ns = draw_delay();

	for (size_t i = 0; i < count && there_is_room(); i++)
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
	oracle.sums.dropped += oracle.model.all[i].fate == RUNS_LAST;
}

/* Draws any timeout, or one of the newest. */
static inline size_t draw_timeout(void)
{
	size_t count = oracle.model.count, newest = draw(4) == 0 ? count : 32;

	return newest < count ? count - 1 - draw(newest) : draw(count);
}

/* Draws a timeout, mostly one that has not ended, if there are any. */
static inline size_t draw_live(void)
{
	const struct model_list *live = &oracle.model.live;

	return live->count == 0 || draw(8) == 0 ? draw_timeout() : live->at[draw(live->count)];
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

	for (size_t n = 0; n < oracle.model.live.count; n++)
		if ((n % nth == 0) != spare && oracle.model.all[oracle.model.live.at[n]].fate == WAITS)
			cancel(oracle.model.live.at[n]);
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
	CHECK(!hwt_timer_next_unprocessed(oracle.timer, &out)); /* nothing before the stop, and each timeout once */
	if (oracle.model.count == 0)
		return;
	i = draw_timeout();
	state = model_state(&oracle.model, i);
	handle = oracle.model.all[i].handle;
	CHECK_INT(hwt_timeout_state(handle), ==, state);
	CHECK(hwt_is_expired(handle) == (state == HWT_RUNNING || state == HWT_EXPIRED));
	CHECK(hwt_is_cancelled(handle) == (state == HWT_CANCELLED));
	CHECK(hwt_timeout_timer(handle) == oracle.timer);
	CHECK_INT(hwt_timeout_missed(handle), ==, i == oracle.running ? oracle.model.all[i].missed : 0);
}

static inline void op_stop_midway(void)
{
	if (draw(4) == 0) /* a stop ends the program, so it must not come too often */
		oracle.stop_in = 1 + (unsigned)draw(8);
}

#endif
