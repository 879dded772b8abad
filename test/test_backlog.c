/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is cancelled while the worker does not come by: who cancels what it has scheduled last needs no memory,
 * whichever thread that is and whatever holds the worker up, and a limit bounds the rest.
 */
#include "support.h"

#define FAR_NS HWT_S(3600)
#define GATHER 4096

/* Records of a lane with a thousand pending ones: the next slab doubles what there is. */
#define BOUND (4 * GATHER)

struct gate {
	hwt_timer *timer;
	atomic_uint entered, open;
	unsigned pairs, keep, refused;
	int rc;
};

static void gate_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;

	(void)timeout;
	atomic_store(&gate->entered, 1);
	REQUIRE(wait_count(&gate->open, 1));
}

/* A timer whose worker is in a task until the gate is open. */
static void begin(struct gate *gate, int64_t limit)
{
	*gate = (struct gate){ .timer = limit > 0 ? new_limited_timer(limit) : new_timer(HWT_MS(1), 512) };
	CHECK_RC(hwt_new_timeout(gate->timer, gate_task, gate, 0, NULL), 0);
	REQUIRE(wait_count(&gate->entered, 1));
}

static void end(struct gate *gate)
{
	atomic_store(&gate->open, 1);
	CHECK_RC(hwt_timer_destroy(gate->timer), 0);
}

static void pairs(hwt_timer *timer, unsigned count)
{
	hwt_timeout timeout;

	for (unsigned i = 0; i < count; i++) {
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, FAR_NS, &timeout), 0);
		CHECK_RC(hwt_cancel(timeout), 0);
	}
}

/* A loop without a descriptor that believes the answer: the next timeout is far. */
TEST(a_loop_that_sleeps_until_the_answer_keeps_its_memory)
{
	hwt_timer *timer = driven_timer(0);
	int64_t next_ns = -1, far_ns;
	hwt_timeout far;
	hwt_stats stats;

	CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, FAR_NS, &far), 0);
	CHECK_RC(hwt_timer_advance(timer, hwt_now(), &next_ns), 0);
	far_ns = next_ns;
	CHECK_INT(far_ns, >, hwt_now() + FAR_NS / 2);
	for (unsigned i = 0; i < 10; i++) {
		pairs(timer, scaled(50000));
		if (hwt_now() >= next_ns)
			CHECK_RC(hwt_timer_advance(timer, hwt_now(), &next_ns), 0);
	}
	stats = stats_of(timer);
	CHECK_INT(stats.records, <=, BOUND);
	CHECK_INT(stats.bytes, <, 2 << 20);
	/* The load is over, and leaves nothing to wake up for. */
	CHECK_RC(hwt_timer_advance(timer, hwt_now(), &next_ns), 0);
	CHECK_INT(next_ns, ==, far_ns);
	CHECK_RC(hwt_cancel(far), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_slow_task_does_not_make_memory_grow)
{
	for (int64_t limit = 0; limit <= 1000; limit += 1000) {
		struct gate gate;

		begin(&gate, limit);
		for (unsigned i = 0; i < 3; i++)
			CHECK_RC(hwt_new_timeout(gate.timer, count_task, NULL, FAR_NS, NULL), 0);
		pairs(gate.timer, scaled(500000));
		CHECK_INT(stats_of(gate.timer).records, <=, BOUND);
		CHECK_INT(hwt_pending_timeouts(gate.timer), ==, 3);
		end(&gate);
	}
}

static void *pairs_thread(void *arg)
{
	struct gate *gate = arg;

	pairs(gate->timer, scaled(100000));
	return NULL;
}

TEST(a_slow_task_does_not_make_the_memory_of_several_threads_grow)
{
	struct gate gate;

	begin(&gate, 1000);
	crew_run(8, pairs_thread, &gate, 0);
	CHECK_INT(stats_of(gate.timer).records, <=, 8 * BOUND);
	end(&gate);
}

static void pairs_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;

	pairs(hwt_timeout_timer(timeout), scaled(500000));
	atomic_store(&gate->entered, 1);
}

/* The producer is the worker: nobody else could come by. */
TEST(a_slow_task_that_schedules_does_not_make_memory_grow)
{
	struct gate gate = { .timer = new_limited_timer(1000) };
	hwt_timer *driven = driven_timer(1000);

	CHECK_RC(hwt_new_timeout(gate.timer, pairs_task, &gate, 0, NULL), 0);
	REQUIRE(wait_count(&gate.entered, 1));
	CHECK_INT(stats_of(gate.timer).records, <=, BOUND);
	CHECK_RC(hwt_timer_destroy(gate.timer), 0);
	atomic_store(&gate.entered, 0);
	CHECK_RC(hwt_new_timeout(driven, pairs_task, &gate, 0, NULL), 0);
	CHECK_RC(hwt_timer_advance(driven, hwt_now() + HWT_S(1), NULL), 0);
	CHECK_INT(gate.entered, ==, 1);
	CHECK_INT(stats_of(driven).records, <=, BOUND);
	CHECK_RC(hwt_timer_destroy(driven), 0);
}

/* Some stay pending among those that are cancelled. */
TEST(what_stays_pending_among_the_cancelled_runs_in_its_order)
{
	enum { KEPT = 1000, EACH = 200 };
	static struct run runs[KEPT];
	unsigned places = 0;
	struct gate gate;

	begin(&gate, KEPT + 1);
	for (unsigned i = 0; i < KEPT; i++) {
		runs[i] = (struct run){ .not_before_ns = INT64_MIN, .places = &places };
		CHECK_RC(hwt_new_timeout_at(gate.timer, run_task, &runs[i], 0, NULL), 0);
		for (unsigned j = 0; j < EACH; j++) {
			hwt_timeout timeout;

			CHECK_RC(hwt_new_timeout(gate.timer, count_task, NULL, FAR_NS, &timeout), 0);
			CHECK_RC(hwt_cancel(timeout), 0);
		}
	}
	CHECK_INT(stats_of(gate.timer).records, <=, BOUND);
	CHECK_INT(hwt_pending_timeouts(gate.timer), ==, KEPT);
	atomic_store(&gate.open, 1);
	REQUIRE(wait_none_pending(gate.timer));
	REQUIRE(wait_count(&runs[KEPT - 1].ran, 1));
	CHECK_INT(places, ==, KEPT);
	for (unsigned i = 0; i < KEPT; i++)
		CHECK_INT(runs[i].place, ==, i);
	end(&gate);
}

static atomic_uint released;

static void count_release(void *arg)
{
	(void)arg;
	atomic_fetch_add(&released, 1);
}

/* A finaliser is the worker's to call: with a limit there is an end to how many wait for that. */
TEST(finalisers_that_wait_for_the_worker_are_bounded_by_a_limit)
{
	hwt_spec spec = { .size = sizeof(spec), .task = count_task, .when_ns = FAR_NS, .release = count_release };
	unsigned accepted = 0;
	hwt_timeout timeout;
	struct gate gate;
	int rc = 0;

	begin(&gate, 1000);
	atomic_store(&released, 0);
	while (accepted < 1000000 && (rc = hwt_new_timeout_ex(gate.timer, &spec, &timeout)) == 0) {
		accepted++;
		CHECK_RC(hwt_cancel(timeout), 0);
	}
	CHECK_INT(rc, ==, ENOBUFS);
	CHECK_INT(accepted, >, 64 * GATHER);
	CHECK_INT(accepted, <, 400000);
	CHECK_INT(stats_of(gate.timer).refused_limit, ==, 1);
	CHECK_INT(released, ==, 0); /* not in a call of ours */
	atomic_store(&gate.open, 1);
	REQUIRE(wait_count(&released, accepted));
	while ((rc = hwt_new_timeout_ex(gate.timer, &spec, &timeout)) == ENOBUFS)
		sleep_ms(1); /* until the memory has come back */
	CHECK_INT(rc, ==, 0);
	CHECK_RC(hwt_cancel(timeout), 0);
	end(&gate);
	CHECK_INT(released, ==, accepted + 1);
}

TEST_MAIN()
