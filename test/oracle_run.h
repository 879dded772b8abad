/* SPDX-License-Identifier: BSD-2-Clause */
/* The oracle's last part: tasks, passes, and whole programs. */
#ifndef HWT_ORACLE_RUN_H
#define HWT_ORACLE_RUN_H

#include "oracle_compare.h"
#include "oracle_move.h"

/* Returns a timeout that is still to run in this pass, after the running task; i if there is none. */
static inline size_t next_in_line(size_t i)
{
	const struct model *model = &oracle.model;

	for (size_t n = 0; n < model->live.count; n++) {
		size_t j = model->live.at[n];

		if (j != i && model_has_place(&model->all[j]) && model->all[j].tick <= model->target)
			return j;
	}
	return i;
}

static inline void deed(size_t self)
{
	switch (draw(8)) {
	case 0:
		op_new();
		break;
	case 1:
		op_cancel();
		break;
	case 2:
		cancel(next_in_line(self));
		break;
	case 3:
		move(next_in_line(self));
		break;
	case 4:
		op_move();
		break;
	case 5:
		again(self);
		break;
	case 6:
		op_release();
		break;
	default:
		cancel(self);
		CHECK_INT(hwt_cancel_sync(oracle.model.all[self].handle), ==, EDEADLK);
		op_look();
		break;
	}
}

/* Requests a stop, as hwt_timer_stop of another thread begins. */
static inline void stop_midway(void)
{
	hwt_worker_request_stop(&oracle.timer->worker);
	oracle.stopping = true;
	oracle.sums.stopped_midway++;
}

static inline void begin_task(size_t i, hwt_timeout timeout)
{
	struct model *model = &oracle.model;
	const struct model_timeout *it = &model->all[i];
	uint64_t merged = model->merged;

	CHECK(model_is_next(model, i));
	CHECK(!oracle.stopping);
	CHECK(oracle.running == NOBODY);
	CHECK_INT(oracle.timer->worker.tick, ==, it->tick);
	CHECK_INT(it->deadline_ns, <=, fake_now_ns);
	CHECK(timeout.entry == it->handle.entry && timeout.generation == it->handle.generation);
	model_begin_run(model, i, fake_now_ns);
	oracle.running = i;
	CHECK_INT(hwt_timeout_missed(timeout), ==, it->missed);
	CHECK_INT(hwt_pending_timeouts(oracle.timer), ==, model_waits(model)); /* G4 */
	oracle.sums.ran++;
	oracle.sums.merged += model->merged != merged;
}

static void oracle_task(hwt_timeout timeout, void *arg)
{
	size_t i = (size_t)(uintptr_t)arg - 1;

	begin_task(i, timeout);
	if (oracle.stop_in > 0 && --oracle.stop_in == 0)
		stop_midway();
	if (oracle.agains > 0) {
		oracle.agains--;
		again(i);
		if (draw(4) == 0)
			cancel(i);
	}
	if (draw(256) < oracle.row->deeds)
		for (uint64_t n = 1 + draw(3); n > 0; n--)
			deed(i);
	model_end_run(&oracle.model, i);
	oracle.running = NOBODY;
	oracle.ran = i;
}

/* Makes a pass as the worker does, inside the timer. */
static inline bool worker_pass(void)
{
	struct hwt_worker *worker = &oracle.timer->worker;
	bool more;

	oracle.ran = NOBODY;
	oracle.disturbed = false;
	current_task_enter(&worker->frame, oracle.timer, NULL);
	more = hwt_worker_pass(worker, fake_now_ns);
	current_task_leave(&worker->frame);
	oracle.ran = NOBODY;
	return more;
}

/* Returns the most new timeouts that the next pass takes in: up to half of the pass is for waiting cancels. */
static inline size_t transfers(void)
{
	const struct hwt_worker *worker = &oracle.timer->worker;
	uint64_t most = oracle.row->max_transfers, half = most / 2 + (most & (worker->intake.passes + 1) & 1),
		 waits = 0;

	for (uint32_t i = 0; i < lanes_count(worker->lanes); i++)
		waits += lane_waiting_cancels(worker->lanes->made[i]);
	return most - (waits < half ? waits : half);
}

static inline void pass(int128 now_ns)
{
	size_t left;
	bool more;

	fake_now_ns = model_saturated(now_ns);
	left = model_begin_pass(&oracle.model, fake_now_ns, transfers());
	more = worker_pass();
	compare_releases(!oracle.stopping && !oracle.disturbed && oracle.refused == 0 &&
			 oracle.row->max_transfers >= LOTS);
	if (oracle.stopping)
		return;
	CHECK(more || left == 0);
	CHECK_INT(model_first_tick(&oracle.model), >, oracle.model.target); /* no timeout is late */
	model_end_pass(&oracle.model);
	if (oracle.step % oracle.row->check_every == 0)
		check_all(true);
}

static inline void op_pass(void)
{
	pass(fake_now_ns);
}

static inline void op_linger(void)
{
	int128 now_ns = (int128)fake_now_ns + (int64_t)draw((uint64_t)oracle.row->tick_ns);

	fake_now_ns = model_saturated(now_ns);
}

static inline void op_ticks(void)
{
	int128 ticks = 1 + (int64_t)draw(4);

	pass((int128)fake_now_ns + ticks * oracle.row->tick_ns - (int64_t)draw(2));
}

/* Rounds are cut at 2^31 and computed again then: a jump over many more rounds would take long. */
static inline unsigned longest_jump_bits(void)
{
	unsigned bits = 35 + (unsigned)__builtin_ctz(oracle.timer->config.ticks_per_wheel);

	return bits < 62 ? bits : 62;
}

static inline void op_due(void)
{
	int64_t first = model_first_tick(&oracle.model);

	if (first == HWT_TICK_NEVER || (first - oracle.model.wheel_tick) >> longest_jump_bits() != 0)
		op_ticks();
	else
		pass((int128)model_time_of(&oracle.model, first) - (int64_t)(draw(3) == 0));
}

static inline void op_rounds(void)
{
	int128 ticks = (int128)(1 + draw(3)) * oracle.row->wheel;

	ticks += (int64_t)draw(3) - 1;
	pass((int128)fake_now_ns + ticks * oracle.row->tick_ns);
}

static inline void op_jump(void)
{
	unsigned bits = (unsigned)draw(longest_jump_bits());

	pass((int128)fake_now_ns + (int128)(draw(0) >> (63 - bits)) * oracle.row->tick_ns);
}

static inline void op_back(void)
{
	fake_now_ns -= (int64_t)draw(3 * (uint64_t)oracle.row->tick_ns);
}

static inline void step(void)
{
	static void (*const operations[])(void) = {
#define X(name) op_##name,
		OPERATIONS(X)
#undef X
	};
	unsigned sum = 0, chosen = 0, n;

	for (unsigned i = 0; i < OPERATION_COUNT; i++)
		sum += oracle.row->weight[i];
	for (n = (unsigned)draw(sum); n >= oracle.row->weight[chosen]; chosen++)
		n -= oracle.row->weight[chosen];
	operations[chosen]();
	compare();
	if (++oracle.step % oracle.row->check_every == 0)
		check_all(false);
}

/* Checks that the stop hands out each pending timeout once, and no other. */
static inline void collect_unprocessed(void)
{
	hwt_unprocessed out;
	size_t i, last = 0;

	while (hwt_timer_next_unprocessed(oracle.timer, &out)) {
		i = (size_t)(uintptr_t)out.arg - 1;
		REQUIRE(i < oracle.model.count && oracle.model.all[i].fate == WAITS);
		CHECK(out.timeout.entry == oracle.model.all[i].handle.entry);
		CHECK(out.timeout.generation == oracle.model.all[i].handle.generation);
		CHECK_INT(out.deadline_ns, ==, oracle.model.all[i].deadline_ns);
		CHECK(out.task == oracle_task);
		model_end(&oracle.model, i, HANDED_OUT);
		CHECK(hwt_is_cancelled(out.timeout));
		CHECK_INT(hwt_cancel(out.timeout), ==, ENOENT);
		last = i;
	}
	CHECK_INT(model_waits(&oracle.model), ==, 0);
	CHECK(last < oracle.model.count || oracle.model.count == 0);
}

/* Checks the calls of finalisers.  Timeouts that were handed out keep their args until the end. */
static inline void check_released(bool at_the_end)
{
	for (size_t i = 0; i < oracle.model.count; i++) {
		const struct model_timeout *it = &oracle.model.all[i];

		CHECK(it->released == (it->owned && (at_the_end || it->fate != HANDED_OUT)));
	}
}

static inline void stop(void)
{
	size_t unprocessed = 0;

	oracle.stopping = oracle.stopped = true;
	oracle.phase = IN_STOP;
	CHECK_INT(hwt_timer_stop(oracle.timer, &unprocessed), ==, 0);
	CHECK_INT(unprocessed, ==, model_waits(&oracle.model));
	CHECK_INT(hwt_pending_timeouts(oracle.timer), ==, 0);
	hwt_check(oracle.timer);
	schedule(0, draw(2) == 0);
	collect_unprocessed();
	check_released(false);
	hwt_check(oracle.timer);
	for (unsigned n = 0; n < 5; n++) {
		op_cancel();
		op_move();
		op_look();
	}
	compare_stats();
}

static inline void destroy(void)
{
	oracle.phase = IN_DESTROY;
	driven_destroy(oracle.timer);
	check_released(true);
}

static inline void begin(void)
{
	const struct oracle_row *row = oracle.row;
	hwt_config config = driven_config(HWT_MS(1), row->wheel);

	config.max_pending_timeouts = row->limit;
	config.max_transfers_per_tick = row->max_transfers;
	oracle.step = oracle.stop_in = oracle.agains = oracle.refuse = 0;
	oracle.phase = AT_WORK;
	oracle.running = oracle.ran = NOBODY;
	oracle.disturbed = false;
	oracle.stopping = oracle.stopped = oracle.over = false;
	oracle.refuse_random = 88172645463325252;
	oracle.refused = 0;
	memset(oracle.refusals, 0, sizeof(oracle.refusals));
	oracle.timer = driven_create(&config, row->start_ns);
	for (uint32_t place = 0; place <= oracle.timer->lanes.last_seat; place++)
		(void)lane_at(&oracle.timer->lanes, place);
	/* The wheel serves ticks, too, that hwt_timer_create refuses. */
	oracle.timer->config.tick_duration_ns = row->tick_ns;
	oracle.timer->grid = oracle.timer->wheel->grid = grid_make(row->start_ns, row->tick_ns);
	model_clear(&oracle.model, row->start_ns, row->tick_ns, row->limit);
	atomic_store(&hwt_test_mem_refuses, oracle_refuses);
	atomic_store(&hwt_test_full, row->most > 1000 ? HWT_FULL : 128); /* small programs need a small one */
}

/* Runs one program.  Returns false if a check failed, which has been reported. */
static inline bool oracle_run(const struct oracle_row *row, struct source source)
{
	oracle.row = row;
	oracle.source = source;
	begin();
	while (!oracle.over && !oracle.stopping && oracle.step < row->steps && atomic_load(&test_failures) == 0)
		step();
	if (oracle.stopping) { /* other threads are in their calls meanwhile */
		for (uint64_t n = draw(8); n > 0; n--) {
			op_new();
			op_cancel();
			op_move();
			op_release();
		}
		hwt_check(oracle.timer);
	}
	stop();
	oracle.sums.steps += oracle.step;
	oracle.sums.programs++;
	oracle.refuse = 0;
	destroy();
	if (atomic_load(&test_failures) != 0)
		fprintf(stderr, "in configuration %s, after step %u of program %" PRIu64 "\n", row->name, oracle.step,
			oracle.sums.programs);
	return atomic_load(&test_failures) == 0;
}

/*
 * Runs a program decoded from bytes.  The first byte chooses the configuration, but never the one that takes long to
 * check.
 */
static inline bool oracle_run_bytes(const uint8_t *bytes, size_t size)
{
	static_assert(ROW_million_buckets == ORACLE_ROWS - 1, "the last row is the one to leave out");

	if (size == 0)
		return true;
	return oracle_run(&oracle_table[bytes[0] % (ORACLE_ROWS - 1)], (struct source){ bytes + 1, size - 1, 0 });
}

#endif
