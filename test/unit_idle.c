/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the worker sleeps and is woken: the handshake alone; then the worker on virtual time, in the test's thread, which
 * counts each sleep.
 */
#include "unit.h"
#include "support.h"
#include "worker/trim.h"

#include <stdalign.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#endif

#define START HWT_S(1000)
#define TICK HWT_MS(1)
#define HOUR HWT_S(3600)
#define AT(tick) (START + (tick)*TICK)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Repeats a test: with the kernel's barrier, and with fences. */
#define BOTH_WAYS(fences) for (int fences = 0; fences < 2; fences++)

static bool take_wake(struct hwt_idle *idle)
{
	struct hwt_sleeper *sleeper = &idle->sleeper;
	bool woken;

	pthread_mutex_lock(&sleeper->monitor.mutex);
	woken = sleeper->woken;
	sleeper->woken = false;
	pthread_mutex_unlock(&sleeper->monitor.mutex);
	return woken;
}

static int64_t word_of(struct hwt_idle *idle)
{
	return atomic_load(&idle->wake_for_ns);
}

/* The handshake alone */

static struct hwt_idle alone;

static void begin_alone(bool fences)
{
	atomic_store(&hwt_test_no_membarrier, fences);
	REQUIRE(hwt_idle_init(&alone, NULL) == 0);
	atomic_store(&hwt_test_no_membarrier, false);
}

/* Does what a lane does after a push. */
static void look_and_wake(int64_t deadline_ns, bool long_lane)
{
	int64_t seen_ns = idle_look(&alone);

	if (seen_ns != IDLE_AWAKE && (deadline_ns <= seen_ns || long_lane))
		hwt_idle_wake(&alone, seen_ns);
}

static bool kernel_has_membarrier(void)
{
#ifdef SYS_membarrier
	const long query = 0, private_expedited = 1 << 3; /* of <linux/membarrier.h> */
	long commands = syscall(SYS_membarrier, query, 0, 0);

	return commands > 0 && (commands & private_expedited) != 0;
#else
	return false;
#endif
}

TEST(producers_are_spared_the_fence_where_the_kernel_can)
{
	int before = errno;

	NEEDS_LINUX();
	BOTH_WAYS(fences)
	{
		begin_alone(fences);
		CHECK_INT(alone.has_barrier, ==, !fences && kernel_has_membarrier());
		CHECK_INT(word_of(&alone), ==, IDLE_AWAKE);
		CHECK(hwt_idle_begin(&alone, 1000));
		CHECK_INT(word_of(&alone), ==, 1000);
		idle_publish(&alone, IDLE_AWAKE);
		CHECK_INT(word_of(&alone), ==, IDLE_AWAKE);
		hwt_idle_destroy(&alone);
	}
	CHECK_INT(errno, ==, before);
}

/*
 * The handshake between two real threads: at the same moment the worker publishes and looks, and a producer pushes and
 * looks.  If neither saw the other, the worker would sleep on.
 */

#define BALLAST 8

struct duel {
	alignas(HWT_UNIT) _Atomic uint64_t arrived; /* how often the two threads have come to a meeting point */
	_Atomic int64_t skew; /* > 0: the worker waits this long before it begins, < 0: the producer does */
	_Atomic bool over;
	alignas(HWT_UNIT) _Atomic uint64_t pushed; /* stands for the lane */
	alignas(HWT_UNIT) _Atomic uint64_t ballast[BALLAST][HWT_UNIT / sizeof(uint64_t)];
	uint64_t round, met, lost, close;
	bool seen_before;
	int64_t step;
};

/* Waits for the other thread.  Returns false if it does not come. */
static bool meet(struct duel *duel, uint64_t *met)
{
	struct patience patience = PATIENCE("the other one");

	*met += 2;
	atomic_fetch_add(&duel->arrived, 1);
	for (unsigned i = 1; atomic_load(&duel->arrived) < *met; i++) {
		if (i % 256 == 0 && !patience_lasts(&patience, 0))
			return false;
		if (i % 256 == 0)
			sched_yield();
	}
	return true;
}

/*
 * Waits if the skew says so, then fills the store buffer with slow stores, so that the next store stays in it for a
 * while.
 */
static void dawdle(struct duel *duel, uint64_t *state, int64_t skew)
{
	for (int64_t n = (skew > 0 ? skew : 0) + (int64_t)random_below(state, 64); n > 0; n--)
		atomic_signal_fence(memory_order_seq_cst);
	for (unsigned i = 0; i < BALLAST; i++)
		atomic_store_explicit(&duel->ballast[i][0], *state, memory_order_relaxed);
}

static void *push_at_once(void *arg)
{
	struct duel *duel = arg;
	uint64_t met = 0, state = 77;

	for (uint64_t round = 1; meet(duel, &met) && !atomic_load(&duel->over); round++) {
		dawdle(duel, &state, -atomic_load(&duel->skew));
		atomic_store_explicit(&duel->pushed, round, memory_order_release);
		look_and_wake(500, false);
		if (!meet(duel, &met))
			break;
	}
	return NULL;
}

/* Adjusts the skew: the late thread waits less, so that the race stays close. */
static void settle_skew(struct duel *duel, bool seen)
{
	if (seen == duel->seen_before && duel->step < 1000) {
		duel->step++;
	} else if (seen != duel->seen_before) {
		duel->close++;
		duel->step = 1;
	}
	duel->seen_before = seen;
	atomic_fetch_add(&duel->skew, seen ? -duel->step : duel->step);
}

static bool publish_once(struct duel *duel, uint64_t *state)
{
	bool seen, woken;

	dawdle(duel, state, atomic_load(&duel->skew));
	CHECK(hwt_idle_begin(&alone, 1000));
	seen = atomic_load_explicit(&duel->pushed, memory_order_acquire) == duel->round;
	if (!meet(duel, &duel->met))
		return false;
	woken = take_wake(&alone);
	idle_publish(&alone, IDLE_AWAKE);
	duel->lost += !seen && !woken;
	settle_skew(duel, seen);
	return true;
}

/*
 * Gives each of the two threads its own processor: on a shared one they never race.  Returns false if there is only
 * one.
 */
static bool move_apart(pthread_t other, const cpu_set_t *mine)
{
	pthread_t threads[] = { pthread_self(), other };
	unsigned moved = 0;

	for (unsigned cpu = 0; cpu < CPU_SETSIZE && moved < 2; cpu++) {
		cpu_set_t one;

		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (CPU_ISSET(cpu, mine) && pthread_setaffinity_np(threads[moved], sizeof(one), &one) == 0)
			moved++;
	}
	return moved == 2;
}

/* Repeats the race until it was close often enough, which takes long on a busy machine. */
static void publish_at_once(struct duel *duel, bool apart)
{
	int64_t now_ns = clock_monotonic(), enough_ns = now_ns + HWT_MS(700);
	int64_t give_up_ns = apart ? now_ns + HWT_S(5) : enough_ns;
	uint64_t state = 99;

	for (;;) {
		REQUIRE(meet(duel, &duel->met));
		duel->round++;
		REQUIRE(publish_once(duel, &state));
		now_ns = clock_monotonic();
		if (duel->close >= 10000 || (duel->close >= 1000 && now_ns > enough_ns) || now_ns > give_up_ns) {
			atomic_store(&duel->over, true);
			meet(duel, &duel->met);
			return;
		}
	}
}

TEST(of_two_that_meet_one_sees_the_other)
{
	static struct duel duel;
	cpu_set_t mine;

	REQUIRE(pthread_getaffinity_np(pthread_self(), sizeof(mine), &mine) == 0);
	BOTH_WAYS(fences)
	{
		pthread_t producer;

		memset(&duel, 0, sizeof(duel));
		begin_alone(fences);
		REQUIRE(pthread_create(&producer, NULL, push_at_once, &duel) == 0);
		publish_at_once(&duel, move_apart(producer, &mine));
		REQUIRE(pthread_join(producer, NULL) == 0);
		REQUIRE(pthread_setaffinity_np(pthread_self(), sizeof(mine), &mine) == 0);
		CHECK_INT(duel.lost, ==, 0);
		printf("# %" PRIu64 " of %" PRIu64 " times it was close\n", duel.close, duel.round);
		hwt_idle_destroy(&alone);
	}
}

/*
 * The worker on virtual time
 */

static hwt_timer *timer;

struct slept {
	int64_t from_ns, until_ns, word;
	bool cut; /* a wake ended it at once */
};

static struct slept slept[5000];
static unsigned sleeps, sleeps_most;
static int64_t oversleep_ns;   /* added to the next sleep that has an end */
static void (*in_sleep)(void); /* called during a sleep */

/* Sleeps on virtual time.  A sleep without end, or beyond the most sleeps, ends hwt_worker_run. */
static void fake_sleep(int64_t until_ns)
{
	struct slept *this = &slept[sleeps < COUNT(slept) ? sleeps : COUNT(slept) - 1];

	*this = (struct slept){ fake_now_ns, until_ns, word_of(&timer->lanes.idle), false };
	sleeps++;
	if (in_sleep != NULL)
		in_sleep();
	this->cut = take_wake(&timer->lanes.idle);
	if (sleeps >= sleeps_most || (!this->cut && until_ns == INT64_MAX)) {
		hwt_worker_request_stop(&timer->worker);
	} else if (!this->cut) {
		fake_now_ns = (until_ns > fake_now_ns ? until_ns : fake_now_ns) + oversleep_ns;
		oversleep_ns = 0;
	}
}

static unsigned ran, order_broken, inexact;
static intptr_t last_tick;

/* A task; arg is its tick. */
static void note(hwt_timeout timeout, void *arg)
{
	intptr_t tick = (intptr_t)arg;

	(void)timeout;
	inexact += fake_now_ns != AT(tick);
	order_broken += tick < last_tick || fake_now_ns < AT(tick);
	last_tick = tick;
	ran++;
}

static void begin(hwt_config config, bool fences)
{
	atomic_store(&hwt_test_no_membarrier, fences);
	timer = driven_create(&config, START);
	atomic_store(&hwt_test_no_membarrier, false);
	hwt_test_sleep = fake_sleep;
	in_sleep = NULL;
	oversleep_ns = 0;
	last_tick = 0;
	ran = order_broken = inexact = 0;
}

static void end(void)
{
	CHECK_INT(order_broken, ==, 0);
	driven_destroy(timer);
	hwt_test_sleep = NULL;
}

static hwt_timeout schedule(int64_t tick)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	CHECK_INT(hwt_new_timeout_at(timer, note, (void *)(intptr_t)tick, AT(tick), &timeout), ==, 0);
	return timeout;
}

static void forget_stop(void)
{
	atomic_store(&timer->worker.stop, false);
	take_wake(&timer->lanes.idle);
	sleeps = 0;
}

/* Runs the worker's loop until it sleeps without end, or has slept `most` times. */
static void run(unsigned most)
{
	sleeps_most = most;
	forget_stop();
	hwt_worker_run(&timer->worker);
	CHECK_INT(word_of(&timer->lanes.idle), ==, IDLE_AWAKE);
}

/*
 * Checks that sleep i lasted until this time, and that the word named the tick before.  A sleep to the next tick is a
 * nap.
 */
static void check_slept(unsigned i, int64_t until_ns)
{
	int64_t word = until_ns == INT64_MAX ? INT64_MAX : until_ns - TICK;

	CHECK_INT(i, <, sleeps);
	CHECK_INT(slept[i].until_ns, ==, until_ns);
	CHECK_INT(slept[i].word, ==, until_ns == slept[i].from_ns + TICK ? IDLE_AWAKE : word);
	CHECK(!slept[i].cut);
}

TEST(a_kernel_that_refuses_the_barrier_is_slept_with_tick_by_tick)
{
	begin(driven_config(TICK, 64), true);
	timer->lanes.idle.has_barrier = true; /* not registered, so the kernel returns EPERM; this test is the first */
	if (hwt_idle_begin(&timer->lanes.idle, 0))
		printf("# this process was registered\n");
	else {
		idle_publish(&timer->lanes.idle, IDLE_AWAKE);
		schedule(100);
		run(1000);
		CHECK_INT(ran, ==, 1);
		CHECK_INT(inexact, ==, 0);
		CHECK_INT(sleeps, >=, 100);
		for (unsigned i = 0; i < sleeps && i < COUNT(slept); i++) {
			CHECK_INT(slept[i].until_ns - slept[i].from_ns, <=, TICK);
			CHECK_INT(slept[i].until_ns - slept[i].from_ns, >, 0);
			CHECK_INT(slept[i].word, ==, IDLE_AWAKE);
		}
	}
	idle_publish(&timer->lanes.idle, IDLE_AWAKE);
	end();
}

TEST(it_wakes_at_the_ticks_of_what_is_pending_and_at_no_other)
{
	static const int64_t ticks[] = { 1, 2, 3, 10, 511, 512, 513, 1024, 5000, 3600000, 3600001, 86400000 };

	BOTH_WAYS(fences)
	{
		for (uint32_t wheel = 1; wheel <= UINT32_C(1) << 20; wheel <<= 5) {
			begin(driven_config(TICK, wheel), fences);
			for (size_t i = COUNT(ticks); i-- > 0;)
				schedule(ticks[i]);
			run(1000);
			CHECK_INT(sleeps, ==, COUNT(ticks) + 1);
			for (unsigned i = 0; i < COUNT(ticks); i++)
				check_slept(i, AT(ticks[i]));
			check_slept(COUNT(ticks), INT64_MAX);
			CHECK_INT(ran, ==, COUNT(ticks));
			CHECK_INT(inexact, ==, 0);
			end();
		}
	}
}

static hwt_timeout spread[60];

static void cancel_all(void)
{
	if (sleeps == 1)
		for (unsigned i = 0; i < 60; i++)
			CHECK_INT(hwt_cancel(spread[i]), ==, 0);
}

/* A cancel does not wake the worker: it wakes once, for the first of the cancelled timeouts, and then not again. */
TEST(cancelled_while_it_sleeps_they_cost_one_wake_up)
{
	begin(driven_config(TICK, 512), false);
	for (unsigned i = 0; i < 60; i++)
		spread[i] = schedule(1000 + 3 * i);
	driven_pass(timer, fake_now_ns);
	fake_now_ns = AT(1);
	in_sleep = cancel_all;
	run(100);
	CHECK_INT(sleeps, ==, 2);
	check_slept(0, AT(1000));
	check_slept(1, INT64_MAX);
	CHECK_INT(ran, ==, 0);
	CHECK_INT(counts_get(&timer->worker.counts.ticks), ==, 0);
	end();
}

static void check_traffic(int64_t tick_ns, unsigned moved, bool naps, int64_t nap_word)
{
	begin(driven_config(tick_ns, 512), false);
	for (unsigned i = 0; i < moved; i++)
		schedule(HOUR / TICK);
	run(10);
	if (naps) {
		CHECK_INT(slept[0].until_ns, ==, START + tick_ns);
		CHECK_INT(slept[0].word, ==, nap_word);
	}
	CHECK_INT(sleeps, ==, naps ? 3 : 2);
	CHECK_INT(slept[sleeps - 2].until_ns, ==, START + HOUR);
	CHECK_INT(slept[sleeps - 2].word, ==, START + HOUR - tick_ns);
	CHECK_INT(slept[sleeps - 1].until_ns, ==, INT64_MAX);
	CHECK_INT(ran, ==, moved);
	end();
}

TEST(after_much_in_one_tick_it_naps_to_the_next_and_only_there)
{
	check_traffic(TICK, 63, false, 0);
	check_traffic(TICK, 64, true, IDLE_AWAKE);
	if (!test_is_hierarchical()) /* that wheel brings this many down in slices, at times of its own */
		check_traffic(TICK, 3000, true, IDLE_AWAKE);
	check_traffic(HWT_MS(100), 63, false, 0);
	check_traffic(HWT_MS(100), 64, true, IDLE_NAP); /* long enough to end early for the sake of memory */
}

/* In each sleep a producer comes with an earlier timeout. */
static void disturb(void)
{
	schedule(HOUR / TICK - sleeps);
}

TEST(a_worker_that_is_disturbed_again_and_again_in_one_tick_naps_to_the_next)
{
	begin(driven_config(TICK, 512), false);
	schedule(HOUR / TICK);
	in_sleep = disturb;
	run(30);
	for (unsigned i = 0; i + 3 <= sleeps; i++)
		CHECK(!slept[i].cut || !slept[i + 1].cut || !slept[i + 2].cut ||
		      slept[i + 2].from_ns > slept[i].from_ns);
	CHECK_INT(fake_now_ns, >=, AT(8));
	end();
}

/* Calls `act` while the worker sleeps.  Returns true if that woke it. */
static bool asleep(void (*act)(void))
{
	in_sleep = act;
	sleeps_most = 2;
	forget_stop();
	hwt_worker_rest(&timer->worker, fake_now_ns);
	in_sleep = NULL;
	CHECK_INT(sleeps, ==, 1);
	CHECK_INT(word_of(&timer->lanes.idle), ==, IDLE_AWAKE);
	return slept[0].cut;
}

/* Runs the worker until it has taken in all operations, and there is no traffic. */
static void settle(void)
{
	while (driven_pass(timer, fake_now_ns))
		;
	driven_pass(timer, fake_now_ns + TICK);
}

#define FAR (HOUR / TICK)

static hwt_timeout armed[40];

static void run_out_of_memory(void)
{
	int rc = 0;

	for (unsigned i = 0; i < 40; i++)
		CHECK_INT(hwt_cancel(armed[i]), ==, 0);
	memory_fails(0, UINT64_MAX);
	for (unsigned i = 0; i < HWT_GATHER - 100 && rc == 0; i++) {
		CHECK_INT(word_of(&timer->lanes.idle), !=, IDLE_AWAKE);
		rc = hwt_new_timeout_at(timer, note, NULL, AT(FAR), NULL);
	}
	CHECK_INT(rc, ==, ENOMEM);
	CHECK_INT(word_of(&timer->lanes.idle), ==, IDLE_AWAKE);
}

TEST(a_call_without_memory_wakes_it_as_it_may_have_some)
{
	BOTH_WAYS(fences)
	{
		begin(driven_config(TICK, 512), fences);
		for (unsigned i = 0; i < 40; i++)
			armed[i] = schedule(FAR);
		settle();
		CHECK(asleep(run_out_of_memory));
		driven_pass(timer, fake_now_ns);
		CHECK_INT(hwt_new_timeout_at(timer, note, NULL, AT(FAR), NULL), ==, 0);
		memory_is_back();
		end();
	}
}

static void be_refused(void)
{
	for (unsigned i = 0; i < 10; i++)
		CHECK_INT(hwt_new_timeout_at(timer, note, NULL, START, NULL), ==, ENOBUFS);
}

TEST(a_refusal_at_the_limit_does_not_wake_it)
{
	hwt_config config = driven_config(TICK, 512);

	config.max_pending_timeouts = 1;
	begin(config, false);
	schedule(FAR);
	settle();
	CHECK(!asleep(be_refused));
	end();
}

TEST_MAIN()
