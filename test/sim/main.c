/* SPDX-License-Identifier: BSD-2-Clause */
/* The scenarios of the simulation, and their judges; sim.h. */
#include "test.h"
#include "sim/sim.h"
#include "base/sleeper.h"

#include <errno.h>

#define ITEMS 1024

/* Seeds that once failed, run each time. */
struct seeds {
	const uint64_t *known;
	unsigned count;
	unsigned random; /* so many others */
};

static hwt_timer *timer;

/* A timeout, and what has become of it. */
static struct item {
	hwt_timeout handle;
	int64_t least_ns; /* not before */
	int64_t most_ns;  /* the latest deadline that it had; INT64_MAX: it is being moved */
	int64_t held_ns;  /* sim_held when it got that */
	unsigned accepted, runs, cancels, returned, released;
	bool has_finaliser, is_moved; /* is_moved: a thread is at it */
} items[ITEMS];
static unsigned item_count;

static bool hit(unsigned one_of)
{
	return sim_random(one_of) == 0;
}

static unsigned at_most(unsigned n)
{
	return (unsigned)sim_random(n + 1);
}

/* No task is late by more than this and by what threads have been held up since: they may have been when it began. */
#define PATIENCE (HWT_MS(5) + 4 * SIM_HOLD_MAX_NS)

/* As likely some microseconds as some milliseconds. */
static int64_t some_time(int64_t max_ns)
{
	return (int64_t)sim_random((uint64_t)max_ns >> sim_random(12));
}

static unsigned number_in(const char *name, unsigned otherwise)
{
	const char *wish = getenv(name);

	return wish != NULL ? (unsigned)strtoul(wish, NULL, 0) : otherwise;
}

static int64_t real_now(void)
{
	struct timespec now;

	(void)timespec_get(&now, TIME_UTC);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void run_seeds(void (*scenario)(void), struct seeds seeds)
{
	uint64_t seed = getenv("HWT_SEED") != NULL ? strtoull(getenv("HWT_SEED"), NULL, 0) : (uint64_t)real_now();
	int64_t begin_ns = real_now(), end_ns = begin_ns + HWT_S(number_in("HWT_SIM_SECONDS", 0));
	unsigned count = end_ns > begin_ns ? UINT32_MAX : number_in("HWT_SIM_SEEDS", seeds.random), run = 0;
	uint64_t steps = 0;
	bool passed = true;

	for (unsigned i = 0; i < seeds.count && passed; i++)
		passed = sim_run(scenario, seeds.known[i], &steps);
	for (; run < count && passed && (run == 0 || end_ns == begin_ns || real_now() < end_ns); run++)
		passed = sim_run(scenario, seed + run, &steps);
	CHECK(passed);
	printf("# %u seeds from %" PRIu64 " on, %" PRIu64 " steps, %.1f million a second\n", run, seed, steps,
	       (double)steps * 1e3 / (double)(real_now() - begin_ns));
}

/*
 * What actors do
 */

static void run_item(hwt_timeout timeout, void *arg)
{
	struct item *item = arg;

	SIM_CHECK(timeout.entry == item->handle.entry && timeout.generation == item->handle.generation);
	SIM_CHECK(hwt_now() >= item->least_ns);
	SIM_CHECK(item->most_ns == INT64_MAX || sim_now() - item->most_ns <= PATIENCE + sim_held() - item->held_ns);
	SIM_CHECK(item->released == 0);
	item->runs++;
	if (hit(4))
		sim_sleep(some_time(HWT_US(100)));
}

static void release_item(void *arg)
{
	((struct item *)arg)->released++;
}

static void schedule(int64_t delay_ns)
{
	struct item *item = &items[item_count++];
	hwt_spec spec = { .size = sizeof(spec), .task = run_item, .arg = item, .when_ns = delay_ns };
	int rc;

	item->has_finaliser = hit(3);
	spec.release = item->has_finaliser ? release_item : NULL;
	item->least_ns = sim_now() + delay_ns;
	item->most_ns = INT64_MAX;
	item->held_ns = sim_held();
	item->is_moved = true;
	rc = hwt_new_timeout_ex(timer, &spec, &item->handle);
	SIM_CHECK(rc == 0 || rc == ECANCELED);
	item->accepted = rc == 0;
	item->most_ns = sim_now() + delay_ns;
	item->is_moved = false;
}

static void cancel(struct item *item)
{
	int rc = hit(4) ? hwt_cancel_sync(item->handle) : hwt_cancel(item->handle);

	SIM_CHECK(rc == 0 || rc == EBUSY || rc == ENOENT);
	item->cancels += rc == 0;
}

/* By one thread at a time: only then is it known what holds. */
static void move(struct item *item, int64_t delay_ns)
{
	int64_t to_ns = hwt_now() + delay_ns, before_ns;
	int rc;

	if (item->is_moved)
		return;
	item->is_moved = true;
	before_ns = item->least_ns;
	item->least_ns = to_ns < before_ns ? to_ns : before_ns;
	item->most_ns = INT64_MAX;
	item->held_ns = sim_held();
	rc = hwt_reschedule_at(item->handle, to_ns);
	SIM_CHECK(rc == 0 || rc == EBUSY || rc == ENOENT);
	item->least_ns = rc == 0 ? to_ns : before_ns;
	item->most_ns = sim_now() > to_ns ? sim_now() : to_ns;
	item->is_moved = false;
}

static int64_t delay_max_ns;

static void do_something(void)
{
	unsigned what = at_most(9);

	if (item_count < ITEMS && (what < 5 || item_count == 0)) {
		schedule(some_time(delay_max_ns));
	} else if (item_count > 0) {
		struct item *item = &items[sim_random(item_count)];

		if (what < 7)
			cancel(item);
		else if (what < 9)
			move(item, some_time(delay_max_ns));
		else
			(void)hwt_pending_timeouts(timer);
	}
}

/* Producers act in rounds. */
static unsigned rounds, at_work, producer_count;
static bool is_over;

static void *produce(void *unused)
{
	for (unsigned round = 0; !is_over;) {
		while (round == rounds && !is_over)
			(void)sim_wait("waits for a round", &rounds, INT64_MAX);
		round = rounds;
		for (unsigned i = at_most(24); i > 0; i--) {
			do_something();
			if (hit(4))
				sim_sleep(some_time(delay_max_ns));
		}
		at_work--;
		sim_wake_all(&at_work);
	}
	return unused;
}

static void begin_round(void)
{
	at_work = producer_count;
	rounds++;
	sim_wake_all(&rounds);
}

static void end_round(void)
{
	while (at_work > 0)
		(void)sim_wait("waits for the producers", &at_work, INT64_MAX);
}

/*
 * Judges
 */

/* Returns when all is quiet. */
static void let_rest(void)
{
	int64_t held_ns;

	do {
		held_ns = sim_held();
		sim_sleep(delay_max_ns + PATIENCE);
	} while (sim_held() != held_ns);
}

/* After the timer: each accepted timeout has had one end, each other one none. */
static void judge_ends(void)
{
	for (unsigned i = 0; i < item_count; i++) {
		const struct item *item = &items[i];

		SIM_CHECK(item->runs + item->cancels + item->returned == item->accepted);
		SIM_CHECK(item->released == (item->has_finaliser ? item->accepted : 0));
	}
}

static void stop(void)
{
	hwt_unprocessed left;
	size_t count = 0;

	SIM_CHECK(hwt_timer_stop(timer, &count) == 0);
	for (; hwt_timer_next_unprocessed(timer, &left); count--)
		((struct item *)left.arg)->returned++;
	SIM_CHECK(count == 0);
}

static void create(hwt_config config)
{
	memset(items, 0, sizeof(items));
	item_count = rounds = 0;
	is_over = false;
	config.warn = NULL;
	config.tick_duration_ns = HWT_US(10) << sim_random(8);
	config.flags |= HWT_FINE_TICKS;
	config.ticks_per_wheel = 1u << sim_random(10);
	config.wheel = hit(2) ? HWT_WHEEL_HIERARCHICAL : HWT_WHEEL_HASHED;
	SIM_CHECK(hwt_timer_create(&timer, &config) == 0);
}

/* A loop that watches the descriptor edge-triggered, as the manual has it. */
static void *loop(void *fd)
{
	int rc;

	do {
		sim_wait_edge(*(int *)fd);
		rc = hwt_timer_advance(timer, hwt_now(), NULL);
		SIM_CHECK(rc == 0 || rc == ECANCELED);
	} while (rc == 0);
	return NULL;
}

/* Lets producers act, and stops the timer when all is quiet or in the middle. */
static void let_act(void)
{
	static const char *const names[] = { "producer 1", "producer 2", "producer 3" };
	struct sim_actor *producers[3];
	unsigned some = 1 + at_most(9);

	delay_max_ns = HWT_US(50) << sim_random(9);
	producer_count = 1 + at_most(at_most(2));
	for (unsigned i = 0; i < producer_count; i++)
		producers[i] = sim_start(names[i], produce, NULL);
	for (unsigned i = 0; i < some; i++) {
		begin_round();
		end_round();
		let_rest();
		SIM_CHECK(hwt_pending_timeouts(timer) == 0); /* what was due has run */
	}
	begin_round();
	if (hit(2))
		sim_sleep(some_time(delay_max_ns));
	is_over = true;
	sim_wake_all(&rounds);
	stop();
	for (unsigned i = 0; i < producer_count; i++)
		(void)sim_join(producers[i]);
}

static void live_with_a_loop(void)
{
	struct sim_actor *its_loop;
	hwt_config config = HWT_CONFIG_INIT;
	int fd;

	if (!hit(4))
		sim_look_at("idle");
	config.flags = HWT_CALLER_DRIVEN;
	create(config);
	SIM_CHECK(hwt_timer_fd(timer, &fd) == 0);
	its_loop = sim_start("loop", loop, &fd);
	let_act();
	(void)sim_join(its_loop); /* a stop makes the descriptor readable */
	SIM_CHECK(hwt_timer_destroy(timer) == 0);
	judge_ends();
}

static void live_with_a_worker(void)
{
	hwt_config config = HWT_CONFIG_INIT;

	config.task_threads = at_most(2);
	config.clock = hit(2) ? HWT_CLOCK_MONOTONIC : (uint32_t)at_most(HWT_CLOCK_REALTIME);
	create(config);
	let_act();
	SIM_CHECK(hwt_timer_destroy(timer) == 0);
	judge_ends();
}

/*
 * A burst over several slabs of records, of which each has one whose task runs on while the worker trims.  What is held
 * when all is quiet again is no more than a fresh timer holds and what is not worth a trim.
 */
#define BURST 160000
#define A_SLAB 32768
#define NOT_WORTH_IT ((uint64_t)4 << 20)

static void run_long(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	sim_sleep(*(int64_t *)arg);
}

static uint64_t bytes_held(void)
{
	hwt_stats stats = { .size = sizeof(stats) };

	SIM_CHECK(hwt_timer_stats(timer, &stats) == 0);
	return stats.bytes;
}

static void live_through_a_burst(void)
{
	static hwt_timeout burst[BURST];
	int64_t length_ns = HWT_S(5) + some_time(HWT_S(5));
	hwt_config config = HWT_CONFIG_INIT;
	uint64_t fresh;

	config.task_threads = 8;
	create(config);
	SIM_CHECK(hwt_new_timeout(timer, run_long, &length_ns, HWT_MS(10), NULL) == 0);
	fresh = bytes_held();
	for (unsigned i = 0; i < BURST; i++)
		SIM_CHECK(hwt_new_timeout(timer, run_long, &length_ns, i % A_SLAB == 0 ? 0 : HWT_S(100), &burst[i]) ==
			  0);
	sim_sleep(HWT_MS(100));
	for (unsigned i = 0; i < BURST; i++)
		if (i % A_SLAB != 0)
			SIM_CHECK(hwt_cancel(burst[i]) == 0);
	sim_sleep(length_ns + HWT_S(60));
	SIM_CHECK(hwt_pending_timeouts(timer) == 0);
	SIM_CHECK(bytes_held() <= fresh + 2 * NOT_WORTH_IT); /* of the lanes, and of the wheel */
	stop();
	SIM_CHECK(hwt_timer_destroy(timer) == 0);
}

static void count_run(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	++*(unsigned *)arg;
	sim_sleep(some_time(HWT_US(100)));
}

/* What is scheduled after a step of the clock runs in its time, wherever the worker was. */
static void live_through_steps(void)
{
	hwt_config config = HWT_CONFIG_INIT;
	unsigned before = 0, after = 0, wanted = 0;

	sim_look_at("poll");
	config.clock = HWT_CLOCK_REALTIME;
	create(config);
	delay_max_ns = HWT_MS(5);
	for (unsigned i = at_most(20); i > 0; i--) {
		SIM_CHECK(hwt_new_timeout(timer, count_run, &before, some_time(delay_max_ns), NULL) == 0);
		sim_sleep(some_time(delay_max_ns));
		sim_step_clock(hit(2) ? HWT_S(10) : -HWT_S(10));
		SIM_CHECK(hwt_new_timeout(timer, count_run, &after, some_time(delay_max_ns), NULL) == 0);
		let_rest();
		SIM_CHECK(after == ++wanted);
	}
	SIM_CHECK(hwt_timer_stop(timer, NULL) == 0);
	SIM_CHECK(hwt_timer_destroy(timer) == 0);
}

TEST(an_edge_triggered_loop_misses_nothing)
{
	static const uint64_t known[] = { 129, 1022, 3024, 5056 };

	run_seeds(live_with_a_loop, (struct seeds){ known, 4, 100 });
}

TEST(each_timeout_has_one_end)
{
	run_seeds(live_with_a_worker, (struct seeds){ .random = 100 });
}

TEST(a_burst_is_given_back)
{
	run_seeds(live_through_a_burst, (struct seeds){ .random = 3 });
}

TEST(a_step_of_the_clock_is_heard)
{
	run_seeds(live_through_steps, (struct seeds){ .random = 50 });
}

int main(int argc, char **argv)
{
	return test_run_all(argc, argv);
}
