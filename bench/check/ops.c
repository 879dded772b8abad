/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For bench/check.sh: drives a timer without a thread through each kind of operation, under callgrind, which counts
 * instructions.  At the end of each stretch it makes callgrind dump the counts under the stretch's name, and prints the
 * number of operations.
 *
 * The counts are the same from run to run: deadlines come from a generator with a fixed seed, passes are made at times
 * of a virtual clock.  Only hwt_new_timeout asks for the time; its thread has a reading that is always good
 * (counter.h).
 */
#include "base/counter.h"
#include "timer/timer.h"

#include <stdio.h>
#include <stdlib.h>
#include <valgrind/callgrind.h>

#define N 50000
#define TICK_NS HWT_MS(1)
#define BUCKETS 512

static hwt_timer *timer;
static hwt_timeout handles[N];
static int64_t now_ns;
static unsigned long ran;

static void task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
}

static void demand(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "ops: %s\n", what);
	exit(1);
}

static void begin(void)
{
	CALLGRIND_ZERO_STATS;
}

static void end(const char *name, unsigned long operations)
{
	CALLGRIND_DUMP_STATS_AT(name);
	printf("%s %lu\n", name, operations);
}

static uint64_t next_random(void)
{
	static uint64_t state = UINT64_C(0x9E3779B97F4A7C15);

	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * UINT64_C(0x2545F4914F6CDD1D);
}

static void pass_at(int64_t when_ns)
{
	now_ns = when_ns;
	while (hwt_worker_pass(&timer->worker, now_ns))
		;
}

/* Makes passes until all memory has come home. */
static void rest(void)
{
	for (int i = 0; i < 8; i++)
		pass_at(now_ns + TICK_NS);
}

static void schedule_all(int64_t from_ns, int64_t span_ns)
{
	for (int i = 0; i < N; i++) {
		int64_t deadline_ns = now_ns + from_ns + (int64_t)(next_random() % (uint64_t)span_ns);

		demand(hwt_new_timeout_at(timer, task, NULL, deadline_ns, &handles[i]) == 0, "no timeout");
	}
}

static void cancel_all(void)
{
	for (int i = 0; i < N; i++)
		demand(hwt_cancel(handles[i]) == 0, "not cancelled");
}

/*
 * Shuffles the handles, so that successive timeouts are not neighbours in memory, as in a server that has been up for a
 * day.
 */
static void shuffle(void)
{
	for (size_t i = N; i > 1; i--) {
		size_t other = (size_t)(next_random() % i);
		hwt_timeout handle = handles[i - 1];

		handles[i - 1] = handles[other];
		handles[other] = handle;
	}
}

static void cancel_while_queued(void)
{
	hwt_reading = (struct hwt_reading){ counter_count(), UINT64_MAX, now_ns + TICK_NS / 2, 1, true, 0, 0, 0, 0 };
	begin();
	for (int i = 0; i < N; i++)
		demand(hwt_new_timeout(timer, task, NULL, HWT_S(3600), &handles[i]) == 0, "no timeout");
	end("schedule", N);
	begin();
	cancel_all();
	end("cancel_queued", N);
	begin();
	rest();
	end("drain_queued", N);
}

static void cancel_in_the_wheel(const char *name, const char *drain)
{
	schedule_all(HWT_S(60), HWT_S(60));
	pass_at(now_ns + TICK_NS);
	shuffle();
	begin();
	cancel_all();
	end(name, N);
	begin();
	rest();
	end(drain, N);
}

static void fire_over(const char *schedule, const char *transfer, const char *expire, int64_t span_ns)
{
	int64_t from_ns = 2 * TICK_NS, until_ns = now_ns + from_ns + span_ns + 4 * TICK_NS;
	unsigned long before = ran;

	begin();
	schedule_all(from_ns, span_ns);
	end(schedule, N);
	begin();
	pass_at(now_ns + TICK_NS);
	end(transfer, N);
	begin();
	while (now_ns < until_ns)
		pass_at(now_ns + TICK_NS);
	end(expire, N);
	demand(ran - before == N, "not all have run");
	rest();
}

/*
 * A loop of one thread: 200 pending, and in each turn of 10 us an advance.  The turns of `pair` schedule a timeout and
 * cancel it, those of `exchange` cancel one of the 200 and schedule another.  Those of `next` do not advance: they ask
 * for the time of the next work.
 */

#define PENDING 200
#define TURN_NS HWT_US(10)

enum turn { TURN_IDLE, TURN_PAIR, TURN_EXCHANGE, TURN_NEXT };

static void turn_loop(hwt_timer *loop, const char *name, enum turn turn)
{
	static int64_t told_ns = 1;
	int64_t next_ns;

	begin();
	for (int i = 0; i < N; i++) {
		size_t which = turn == TURN_PAIR ? PENDING : (size_t)i % PENDING;

		told_ns += TURN_NS;
		if (turn == TURN_EXCHANGE)
			demand(hwt_cancel(handles[which]) == 0, "not cancelled");
		if (turn == TURN_PAIR || turn == TURN_EXCHANGE)
			demand(hwt_new_timeout_at(loop, task, NULL, told_ns + HWT_S(60), &handles[which]) == 0, "none");
		if (turn == TURN_PAIR)
			demand(hwt_cancel(handles[which]) == 0, "not cancelled");
		demand((turn == TURN_NEXT ? hwt_timer_next(loop, &next_ns)
					  : hwt_timer_advance(loop, told_ns, &next_ns)) == 0 &&
			   next_ns > told_ns,
		       "no advance");
	}
	end(name, N);
}

static hwt_timer *make_loop(void)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *loop;

	config.tick_duration_ns = TICK_NS;
	config.ticks_per_wheel = BUCKETS;
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	demand(hwt_timer_create(&loop, &config) == 0, "no timer");
	for (int i = 0; i < PENDING; i++)
		demand(hwt_new_timeout_at(loop, task, NULL, HWT_S(60), &handles[i]) == 0, "no timeout");
	demand(hwt_timer_advance(loop, 1, NULL) == 0, "no advance");
	return loop;
}

/* Goes twice through all stretches: the first time takes memory; only the second time, the steady state, counts. */
int main(void)
{
	hwt_config config = HWT_CONFIG_INIT;

	hwt_timer *loop;

	config.tick_duration_ns = TICK_NS;
	config.ticks_per_wheel = BUCKETS;
	demand(hwt_timer_create(&timer, &config) == 0, "no timer");
	hwt_timer_begin_time(timer, 0); /* there is no thread: the passes are made here */
	hwt_timer_set_state(timer, timer_state_with_worker(timer));
	for (int turn = 0; turn < 2; turn++) {
		cancel_while_queued();
		cancel_in_the_wheel("cancel_armed", "drain_armed");
		fire_over("schedule_at", "transfer", "expire_instant", 1);
		fire_over("schedule_at_spread", "transfer_spread", "expire_spread", 100 * TICK_NS);
		fire_over("schedule_at_rounds", "transfer_rounds", "expire_rounds", 2000 * TICK_NS);
	}
	loop = make_loop();
	for (int round = 0; round < 2; round++) {
		turn_loop(loop, "advance_idle", TURN_IDLE);
		turn_loop(loop, "loop_pair", TURN_PAIR);
		turn_loop(loop, "loop_exchange", TURN_EXCHANGE);
		turn_loop(loop, "next_idle", TURN_NEXT);
	}
	demand(hwt_timer_destroy(timer) == 0 && hwt_timer_destroy(loop) == 0, "not destroyed");
	return 0;
}
