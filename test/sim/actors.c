/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that make calls, loops that advance, and a pool that runs tasks; world.h. */
#include "sim/world.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#define PRODUCERS 12
#define POOL 3
#define JOBS 2048
#define CALLS_MAX 1024 /* calls of a producer */

/* Producers act in rounds.  Some end after their round, and others come. */

static struct producer {
	struct sim_actor *actor;
	unsigned number, calls;
	bool has_ended;
} producers[PRODUCERS];
static unsigned rounds, at_work, producer_count;
static bool is_over;

static void act(struct producer *self)
{
	(void)sim_plan_begin(self->number, self->calls);
	for (unsigned i = (unsigned)sim_plan(25); i > 0 && self->calls < CALLS_MAX; i--) {
		(void)sim_plan_begin(self->number, ++self->calls);
		if (sim_may_call(self->number * CALLS_MAX + self->calls))
			call_something(false);
		if (hit(4))
			sim_sleep(some_time(world.delay_max_ns));
	}
}

static void *produce(void *arg)
{
	struct producer *self = arg;

	for (unsigned round = rounds - 1; !is_over && !self->has_ended;) {
		while (round == rounds && !is_over)
			(void)sim_wait("waits for a round", &rounds, INT64_MAX);
		round = rounds;
		act(self);
		self->has_ended = hit(4);
		at_work--;
		sim_wake_all(&at_work);
	}
	return NULL;
}

static void start_producer(struct producer *producer, unsigned number)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "producer %u", number);
	producer->number = number;
	producer->calls = producer->calls % CALLS_MAX;
	producer->has_ended = false;
	producer->actor = sim_start(name, produce, producer);
}

void begin_round(void)
{
	at_work = producer_count;
	rounds++;
	for (unsigned i = 0; i < producer_count; i++) {
		if (producers[i].has_ended)
			(void)sim_join(producers[i].actor);
		if (producers[i].actor == NULL || producers[i].has_ended)
			start_producer(&producers[i], i + 1);
	}
	sim_wake_all(&rounds);
}

void end_round(void)
{
	while (at_work > 0)
		(void)sim_wait("waits for the producers", &at_work, INT64_MAX);
}

void end_producers(void)
{
	is_over = true;
	sim_wake_all(&rounds);
	for (unsigned i = 0; i < producer_count; i++)
		if (producers[i].actor != NULL)
			(void)sim_join(producers[i].actor);
}

/*
 * A pool
 */

static struct {
	struct sim_actor *actors[POOL];
	unsigned count;
	struct {
		void (*run)(void *job);
		void *job;
	} jobs[JOBS];
	unsigned first, end;
	bool is_over;
} pool;

static int execute(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx;
	if (pool.end - pool.first == JOBS || sim_random(8) == 0) {
		world.sums.refusals++;
		return EAGAIN;
	}
	if (sim_random(8) == 0) {
		run(job);
		return 0;
	}
	pool.jobs[pool.end % JOBS].run = run;
	pool.jobs[pool.end++ % JOBS].job = job;
	sim_wake_one(&pool);
	return 0;
}

/* Takes jobs.  It may put a job back at the end of the queue, and turn to another first. */
static void *serve(void *unused)
{
	for (;;) {
		void (*run)(void *job);
		void *job;

		while (pool.first == pool.end && !pool.is_over)
			(void)sim_wait("waits for a job", &pool, INT64_MAX);
		if (pool.first == pool.end)
			return unused;
		run = pool.jobs[pool.first % JOBS].run;
		job = pool.jobs[pool.first++ % JOBS].job;
		if (sim_random(8) == 0 && pool.end - pool.first < JOBS) {
			pool.jobs[pool.end % JOBS].run = run;
			pool.jobs[pool.end++ % JOBS].job = job;
			world_sleep((int64_t)sim_random(HWT_MS(1)));
			continue;
		}
		sim_point("takes a job");
		run(job);
	}
}

/*
 * Loops
 */

static struct sim_actor *its_loop;
static bool has_rung;
static uint64_t rings;
static uint32_t advancing; /* the thread that is advancing */
static int fd;

static void ring(void *unused)
{
	(void)unused;
	rings++;
	SIM_CHECK(sim_self() != advancing && rings <= world.advances + 1);
	has_rung = true;
	sim_wake_all(&has_rung);
}

static void wait_for_ring(int64_t until_ns)
{
	while (!has_rung && sim_now() < until_ns && !world.is_stopped)
		(void)sim_wait("waits to be told", &has_rung, until_ns);
	has_rung = false;
}

static void wait_for_work(int64_t next_ns)
{
	struct pollfd set[1] = { { .fd = fd, .events = POLLIN } };
	int64_t nap_ns;

	switch (world.driving) {
	case LEVEL:
		(void)poll(set, 1, -1);
		break;
	case EDGE:
		sim_wait_edge(fd);
		break;
	case EARLIER:
		wait_for_ring(next_ns);
		break;
	default:
		nap_ns = next_ns - world_clock();
		nap_ns = nap_ns < HWT_MS(5) ? nap_ns : HWT_MS(5); /* no ring tells it of earlier timeouts */
		sim_sleep(nap_ns > HWT_US(100) ? nap_ns : HWT_US(100));
	}
}

static int64_t time_to_tell(void)
{
	return world.driving == VIRTUAL ? world.told_ns + some_time(world.delay_max_ns) : world_clock();
}

static void *loop(void *unused)
{
	int64_t next_ns = 0;
	int rc = 0;

	(void)sim_plan_begin(UINT64_C(3000000), 0);
	for (; rc != ECANCELED; rc = call_advance(world.told_ns, &next_ns)) {
		if (rc == 0 && next_ns > world_clock())
			wait_for_work(next_ns);
		world.told_ns = time_to_tell();
		advancing = sim_self();
	}
	return unused;
}

void begin_actors(void)
{
	static const hwt_executor executor = { execute, NULL };

	producer_count = 1 + (unsigned)sim_plan(1 + sim_plan(PRODUCERS));
	if (world.has_pool)
		world.config.executor = &executor;
	for (pool.count = 0; world.has_pool && pool.count < 1 + sim_plan(POOL); pool.count++)
		pool.actors[pool.count] = sim_start("pool", serve, NULL);
	if (world.driving == EARLIER)
		world.config.on_earlier = ring;
}

void begin_loop(void)
{
	if (world.driving == LEVEL || world.driving == EDGE)
		SIM_CHECK(hwt_timer_fd(world.timer, &fd) == 0);
	if (world.driving != WORKER)
		its_loop = sim_start("loop", loop, NULL);
}

void end_actors(void)
{
	if (its_loop != NULL)
		(void)sim_join(its_loop);
	pool.is_over = true;
	sim_wake_all(&pool);
	for (unsigned i = 0; i < pool.count; i++)
		(void)sim_join(pool.actors[i]);
}
