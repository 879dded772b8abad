/* SPDX-License-Identifier: BSD-2-Clause */
/* Task threads: the library's own, on which tasks run instead of the worker. */
#include "support.h"

#include <signal.h>

#define TICK_NS HWT_MS(1)
#define FAR_NS HWT_S(3600)

static void set_threads(hwt_config *config, uint32_t threads)
{
	hwt_config usual = HWT_CONFIG_INIT;

	*config = usual;
	config->tick_duration_ns = TICK_NS;
	config->task_threads = threads;
}

static hwt_timer *timer_with(uint32_t threads)
{
	hwt_config config;
	hwt_timer *timer = NULL;

	set_threads(&config, threads);
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

/* A task that says that it has begun, and goes on when its gate opens. */
struct gate {
	atomic_uint begun, open, ended, released;
};

static void gate_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;

	(void)timeout;
	atomic_fetch_add(&gate->begun, 1);
	REQUIRE(wait_count(&gate->open, 1));
	atomic_fetch_add(&gate->ended, 1);
}

static void release_gate(void *arg)
{
	struct gate *gate = arg;

	atomic_fetch_add(&gate->released, 1);
}

static bool wait_waiting(const hwt_timer *timer, uint64_t count)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;

	while (stats_of(timer).tasks_waiting != count) {
		if (hwt_now() > give_up_ns)
			return false;
		sleep_ns(HWT_US(200));
	}
	return true;
}

/* A timer whose only task thread is in a task until *gate opens. */
static hwt_timer *held_timer(struct gate *gate)
{
	hwt_timer *timer = timer_with(1);

	*gate = (struct gate){ 0 };
	CHECK_RC(hwt_new_timeout(timer, gate_task, gate, 0, NULL), 0);
	REQUIRE(wait_count(&gate->begun, 1));
	return timer;
}

static void open_gate(struct gate *gate)
{
	atomic_store(&gate->open, 1);
}

/*
 * Where tasks run
 */

struct where {
	pthread_t thread;
	hwt_timeout timeout;
	hwt_state state;
	sigset_t mask;
	char name[16];
	atomic_uint ran;
};

static void where_task(hwt_timeout timeout, void *arg)
{
	struct where *where = arg;
	hwt_timer *timer = hwt_timeout_timer(timeout);

	where->thread = pthread_self();
	where->state = hwt_timeout_state(timeout);
	pthread_sigmask(SIG_SETMASK, NULL, &where->mask);
#ifndef HWT_PORTABLE
	pthread_getname_np(pthread_self(), where->name, sizeof(where->name));
#endif
	CHECK(same_handle(timeout, where->timeout));
	CHECK_RC(hwt_cancel(timeout), EBUSY);
	CHECK_RC(hwt_cancel_sync(timeout), EDEADLK);
	CHECK_RC(hwt_timer_stop(timer, NULL), EDEADLK);
	CHECK_RC(hwt_timer_destroy(timer), EDEADLK);
	atomic_fetch_add(&where->ran, 1);
}

TEST(a_task_runs_on_a_task_thread)
{
	struct where where = { .state = HWT_NONE };
	hwt_timer *timer = timer_with(2);

	CHECK_RC(hwt_new_timeout(timer, where_task, &where, 0, &where.timeout), 0);
	REQUIRE(wait_count(&where.ran, 1));
	CHECK(!pthread_equal(where.thread, pthread_self()));
	CHECK_INT(where.state, ==, HWT_RUNNING);
#ifndef HWT_PORTABLE
	CHECK(strcmp(where.name, "hwt-task-1") == 0 || strcmp(where.name, "hwt-task-2") == 0);
#endif
	CHECK_INT(sigismember(&where.mask, SIGTERM), ==, 1);
	CHECK_INT(sigismember(&where.mask, SIGSEGV), ==, 0);
	REQUIRE(wait_state(where.timeout, HWT_EXPIRED));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* As many tasks at once as there are threads. */
TEST(each_thread_runs_a_task_of_its_own)
{
	struct gate gate = { 0 };
	hwt_timer *timer = timer_with(3);

	for (int i = 0; i < 4; i++)
		CHECK_RC(hwt_new_timeout(timer, gate_task, &gate, 0, NULL), 0);
	REQUIRE(wait_count(&gate.begun, 3));
	CHECK(wait_waiting(timer, 1));
	CHECK_INT(stats_of(timer).running, ==, 3);
	CHECK_INT(gate.begun, ==, 3);
	open_gate(&gate);
	CHECK(wait_count(&gate.ended, 4));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_slow_task_does_not_delay_the_others)
{
	struct gate gate = { 0 };
	atomic_uint ran = 0;
	hwt_timer *timer = timer_with(2);

	CHECK_RC(hwt_new_timeout(timer, gate_task, &gate, 0, NULL), 0);
	REQUIRE(wait_count(&gate.begun, 1));
	for (int i = 0; i < 1000; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_US(20) * i, NULL), 0);
	CHECK(wait_count(&ran, 1000));
	CHECK_INT(gate.ended, ==, 0);
	open_gate(&gate);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static bool is_refused(const hwt_config *config)
{
	hwt_timer *timer = NULL;

	return hwt_timer_create(&timer, config) == EINVAL && timer == NULL;
}

static int never_execute(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx;
	(void)run;
	(void)job;
	return EAGAIN;
}

TEST(task_threads_go_with_a_worker_and_without_an_executor)
{
	hwt_executor executor = { never_execute, NULL };
	hwt_config config, in_force = { .size = sizeof(in_force) };
	hwt_timer *timer = NULL;

	set_threads(&config, 1025);
	CHECK(is_refused(&config));
	set_threads(&config, UINT32_MAX);
	CHECK(is_refused(&config));
	set_threads(&config, 1);
	config.executor = &executor;
	CHECK(is_refused(&config));
	set_threads(&config, 1);
	config.flags = HWT_CALLER_DRIVEN;
	CHECK(is_refused(&config));
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	CHECK(is_refused(&config));

	set_threads(&config, 1024);
	CHECK_RC(hwt_timer_create(&timer, &config), 0);
	CHECK_RC(hwt_timer_config(timer, &in_force), 0);
	CHECK_INT(in_force.task_threads, ==, 1024);
	CHECK_RC(hwt_timer_destroy(timer), 0); /* it had never started */
}

/*
 * Between the worker and a thread
 */

TEST(a_task_that_waits_for_a_thread_is_pending_and_can_be_cancelled)
{
	struct gate gate, never = { 0 };
	hwt_timer *timer = held_timer(&gate);
	hwt_timeout timeouts[3];
	int64_t left_ns = 1;
	atomic_uint ran = 0;
	hwt_stats stats;

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, &timeouts[0]), 0);
	CHECK_RC(hwt_new_timeout(timer, gate_task, &never, 0, &timeouts[1]), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, &timeouts[2]), 0);
	REQUIRE(wait_waiting(timer, 3));
	for (int i = 0; i < 3; i++)
		CHECK_INT(hwt_timeout_state(timeouts[i]), ==, HWT_PENDING);
	CHECK_RC(hwt_timeout_left(timeouts[0], &left_ns), 0);
	CHECK_INT(left_ns, <=, 0);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 3);
	CHECK_RC(hwt_cancel(timeouts[1]), 0);
	CHECK_INT(hwt_timeout_state(timeouts[1]), ==, HWT_CANCELLED);
	CHECK_RC(hwt_cancel(timeouts[1]), ENOENT);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 2);
	open_gate(&gate);
	REQUIRE(wait_count(&ran, 2));
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_INT(never.begun, ==, 0);
	stats = stats_of(timer);
	CHECK_INT(stats.cancelled, ==, 1);
	CHECK_INT(stats.completed, ==, 3);
	CHECK_INT(stats.tasks_waiting, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* On one thread: the task that waits is behind the one that cancels it.  On an executor this would be a deadlock. */
struct canceller {
	struct gate gate;
	hwt_timeout behind;
};

static void cancel_sync_task(hwt_timeout timeout, void *arg)
{
	struct canceller *canceller = arg;

	gate_task(timeout, &canceller->gate);
	CHECK_RC(hwt_cancel_sync(canceller->behind), 0);
}

TEST(a_task_cancels_the_one_behind_it_and_does_not_wait)
{
	hwt_timer *timer = timer_with(1);
	struct canceller canceller = { .behind = HWT_TIMEOUT_NONE };
	struct gate never = { 0 };
	hwt_timeout first;

	CHECK_RC(hwt_new_timeout(timer, cancel_sync_task, &canceller, 0, &first), 0);
	REQUIRE(wait_count(&canceller.gate.begun, 1));
	CHECK_RC(hwt_new_timeout(timer, gate_task, &never, 0, &canceller.behind), 0);
	REQUIRE(wait_waiting(timer, 1));
	open_gate(&canceller.gate);
	REQUIRE(wait_state(first, HWT_EXPIRED));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_INT(never.begun, ==, 0);
}

TEST(the_finaliser_of_one_that_was_cancelled_while_it_waited_is_called_once)
{
	struct gate gate, owned = { 0 };
	hwt_timer *timer = held_timer(&gate);
	hwt_spec spec = HWT_SPEC_INIT;
	hwt_timeout timeout;

	spec.task = gate_task;
	spec.arg = &owned;
	spec.release = release_gate;
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), 0);
	REQUIRE(wait_waiting(timer, 1));
	CHECK_RC(hwt_cancel(timeout), 0);
	CHECK_INT(owned.released, ==, 0);
	open_gate(&gate);
	CHECK(wait_count(&owned.released, 1));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_INT(owned.released, ==, 1);
	CHECK_INT(owned.begun, ==, 0);
}

/* What was cancelled serves again, however often. */
TEST(the_memory_of_what_ended_on_a_thread_is_used_again)
{
	hwt_timer *timer = timer_with(2);
	atomic_uint ran = 0;
	hwt_spec spec = HWT_SPEC_INIT;
	struct gate owned = { 0 };

	owned.open = 1;
	spec.task = gate_task;
	spec.arg = &owned;
	spec.release = release_gate;
	for (unsigned i = 0; i < 300; i++) {
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, NULL), 0);
		CHECK_RC(hwt_new_timeout_ex(timer, &spec, NULL), 0);
		REQUIRE(wait_count(&ran, i + 1) && wait_count(&owned.released, i + 1));
	}
	CHECK_INT(stats_of(timer).records, <, 200);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_task_that_waits_can_be_moved)
{
	struct gate gate;
	hwt_timer *timer = held_timer(&gate);
	struct run later = { .not_before_ns = 0 }, earlier = { .not_before_ns = 0 };
	hwt_timeout timeouts[3];
	atomic_uint ran = 0;

	CHECK_RC(hwt_new_timeout(timer, run_task, &later, 0, &timeouts[0]), 0);
	CHECK_RC(hwt_new_timeout(timer, run_task, &earlier, 0, &timeouts[1]), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, &timeouts[2]), 0);
	REQUIRE(wait_waiting(timer, 3));
	later.not_before_ns = hwt_now() + HWT_MS(30);
	CHECK_RC(hwt_reschedule_at(timeouts[0], later.not_before_ns), 0);
	CHECK_RC(hwt_reschedule(timeouts[1], HWT_S(100)), 0);
	CHECK_RC(hwt_reschedule(timeouts[1], -HWT_S(1)), 0);
	CHECK_RC(hwt_reschedule(timeouts[2], FAR_NS), 0);
	open_gate(&gate);
	CHECK(wait_count(&earlier.ran, 1));
	CHECK(wait_count(&later.ran, 1));
	CHECK_INT(ran, ==, 0);
	CHECK_INT(hwt_timeout_state(timeouts[2]), ==, HWT_PENDING);
	CHECK_RC(hwt_cancel(timeouts[2]), 0);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_INT(stats_of(timer).completed, ==, 3);
	CHECK_INT(stats_of(timer).rescheduled, ==, 4);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * A run that is not the last
 */

struct series {
	atomic_uint inside, runs, merged;
	unsigned plain; /* no two runs at once: ThreadSanitizer looks, too */
	int64_t sleep_ns;
	unsigned rearms;
	int rc;
};

static void series_task(hwt_timeout timeout, void *arg)
{
	struct series *series = arg;

	CHECK_INT(atomic_fetch_add(&series->inside, 1), ==, 0);
	series->plain++;
	if (series->sleep_ns > 0)
		sleep_ns(series->sleep_ns);
	atomic_fetch_add(&series->merged, (unsigned)hwt_timeout_missed(timeout));
	if (series->rearms > 0) {
		series->rearms--;
		series->rc = hwt_reschedule(timeout, 0);
	}
	CHECK_INT(atomic_fetch_sub(&series->inside, 1), ==, 1);
	atomic_fetch_add(&series->runs, 1);
}

TEST(a_periodic_task_does_not_overlap_itself)
{
	hwt_timer *timer = timer_with(4);
	struct series slow = { .sleep_ns = HWT_MS(4) }, quick = { .sleep_ns = 0 };
	hwt_timeout timeouts[2];
	unsigned runs;

	CHECK_RC(hwt_new_periodic(timer, series_task, &slow, 0, TICK_NS, &timeouts[0]), 0);
	CHECK_RC(hwt_new_periodic(timer, series_task, &quick, 0, TICK_NS, &timeouts[1]), 0);
	CHECK(wait_count(&slow.runs, 5));
	CHECK(wait_count(&quick.runs, 5));
	CHECK_INT(slow.merged, >, 0);
	CHECK_INT(stats_of(timer).merged_periods, >=, slow.merged);
	CHECK_RC(hwt_cancel_sync(timeouts[0]), 0);
	CHECK_RC(hwt_cancel_sync(timeouts[1]), 0);
	runs = slow.runs;
	CHECK_INT(slow.inside + quick.inside, ==, 0);
	CHECK_INT(stats_of(timer).runs, ==, slow.runs + quick.runs);
	CHECK_INT(stats_of(timer).cancelled, ==, 2);
	wait_ticks(timer, 3, TICK_NS);
	CHECK_INT(slow.runs, ==, runs);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_periodic_task_that_waits_is_cancelled_and_handed_out_as_any_other)
{
	struct gate gate;
	hwt_timer *timer = held_timer(&gate);
	struct series cancelled = { .sleep_ns = 0 }, kept = { .sleep_ns = 0 };
	hwt_timeout timeout;
	hwt_unprocessed left;

	CHECK_RC(hwt_new_periodic(timer, series_task, &cancelled, 0, TICK_NS, &timeout), 0);
	CHECK_RC(hwt_new_periodic(timer, series_task, &kept, 0, FAR_NS, NULL), 0);
	REQUIRE(wait_waiting(timer, 2));
	CHECK_RC(hwt_cancel(timeout), 0);
	open_gate(&gate);
	CHECK(wait_count(&kept.runs, 1));
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	REQUIRE(hwt_timer_next_unprocessed(timer, &left));
	CHECK(left.arg == &kept);
	CHECK(!hwt_timer_next_unprocessed(timer, &left));
	CHECK_INT(cancelled.runs, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* The limit is one: the place is free before the task starts. */
TEST(a_task_reschedules_itself_at_the_limit)
{
	struct series series = { .rearms = 50 };
	hwt_config config;
	hwt_timer *timer = NULL;

	set_threads(&config, 2);
	config.max_pending_timeouts = 1;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_new_timeout(timer, series_task, &series, 0, NULL), 0);
	CHECK(wait_count(&series.runs, 51));
	CHECK_INT(series.rc, ==, 0);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_INT(stats_of(timer).runs, ==, 51);
	CHECK_INT(stats_of(timer).completed, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_task_that_waits_counts_for_the_limit)
{
	struct gate gates[3];
	hwt_config config;
	hwt_timer *timer = NULL;
	hwt_timeout waiting;

	memset(gates, 0, sizeof(gates));
	set_threads(&config, 1);
	config.max_pending_timeouts = 1;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_new_timeout(timer, gate_task, &gates[0], 0, NULL), 0);
	REQUIRE(wait_count(&gates[0].begun, 1));
	CHECK_RC(hwt_new_timeout(timer, gate_task, &gates[1], 0, &waiting), 0);
	REQUIRE(wait_waiting(timer, 1));
	CHECK_RC(hwt_new_timeout(timer, gate_task, &gates[2], 0, NULL), ENOBUFS);
	CHECK_RC(hwt_cancel(waiting), 0);
	CHECK_RC(hwt_new_timeout(timer, gate_task, &gates[2], 0, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, gate_task, &gates[2], 0, NULL), ENOBUFS);
	open_gate(&gates[0]);
	REQUIRE(wait_count(&gates[2].begun, 1)); /* it has left the limit, and runs */
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	open_gate(&gates[2]);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_INT(gates[1].begun, ==, 0);
}

static void *reschedule_running(void *arg)
{
	hwt_timeout *timeout = arg;

	CHECK_RC(hwt_reschedule(*timeout, 0), EBUSY);
	CHECK_RC(hwt_cancel(*timeout), EBUSY);
	return NULL;
}

TEST(running_means_running)
{
	struct gate gate = { 0 };
	hwt_timer *timer = timer_with(2);
	hwt_timeout timeout;

	CHECK_RC(hwt_new_timeout(timer, gate_task, &gate, 0, &timeout), 0);
	REQUIRE(wait_count(&gate.begun, 1));
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	crew_run(2, reschedule_running, &timeout, 0);
	open_gate(&gate);
	CHECK_RC(hwt_cancel_sync(timeout), ENOENT);
	CHECK_INT(gate.ended, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * Waiting for a task
 */

struct waiter {
	hwt_timeout of;
	struct gate *gate;
	atomic_uint begun;
	int rc;
	unsigned ended; /* how often the gate's task had ended when the call returned */
};

static void wait_for(struct waiter *waiter)
{
	atomic_fetch_add(&waiter->begun, 1);
	waiter->rc = hwt_cancel_sync(waiter->of);
	waiter->ended = atomic_load(&waiter->gate->ended);
}

static void wait_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	wait_for(arg);
}

static void *wait_thread(void *arg)
{
	wait_for(arg);
	return NULL;
}

TEST(cancel_sync_waits_for_a_task_from_a_thread_and_from_another_task)
{
	struct gate gate = { 0 };
	struct waiter waiters[2] = { { .gate = &gate }, { .gate = &gate } };
	hwt_timer *timer = timer_with(2);
	hwt_timeout timeout, in_task;
	struct crew crew;

	CHECK_RC(hwt_new_timeout(timer, gate_task, &gate, 0, &timeout), 0);
	REQUIRE(wait_count(&gate.begun, 1));
	waiters[0].of = waiters[1].of = timeout;
	crew_start(&crew, 1, wait_thread, &waiters[0], 0);
	CHECK_RC(hwt_new_timeout(timer, wait_task, &waiters[1], 0, &in_task), 0);
	REQUIRE(wait_count(&waiters[0].begun, 1) && wait_count(&waiters[1].begun, 1));
	sleep_ms(2);
	open_gate(&gate);
	crew_join(&crew);
	REQUIRE(wait_state(in_task, HWT_EXPIRED));
	for (int i = 0; i < 2; i++) {
		CHECK_INT(waiters[i].rc, ==, ENOENT);
		CHECK_INT(waiters[i].ended, ==, 1);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * Stop
 */

/*
 * Opens a gate when the worker's thread ends, which a stop waits for: by then it has closed the task threads' queue.  A
 * finaliser of what is cancelled in the wheel runs on the worker, and leaves the gate there for the key's destructor.
 */
struct opener {
	pthread_key_t key;
	struct gate *gate;
	atomic_uint set;
};

static void open_at_exit(void *gate)
{
	open_gate(gate);
}

static void set_opener(void *arg)
{
	struct opener *opener = arg;

	REQUIRE(pthread_setspecific(opener->key, opener->gate) == 0);
	atomic_store(&opener->set, 1);
}

static void open_when_the_worker_ends(struct opener *opener, hwt_timer *timer, struct gate *gate)
{
	hwt_spec spec = HWT_SPEC_INIT;
	hwt_timeout timeout;

	*opener = (struct opener){ .gate = gate };
	REQUIRE(pthread_key_create(&opener->key, open_at_exit) == 0);
	spec.task = count_task;
	spec.arg = opener;
	spec.release = set_opener;
	spec.when_ns = FAR_NS;
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), 0);
	CHECK_RC(hwt_cancel(timeout), 0);
	REQUIRE(wait_count(&opener->set, 1));
	CHECK(pthread_getspecific(opener->key) == NULL); /* it was not on this thread */
}

TEST(a_stop_waits_for_what_runs_and_hands_out_what_has_not_begun)
{
	struct gate gate, owned[3];
	hwt_timer *timer = held_timer(&gate);
	atomic_uint ran = 0;
	hwt_spec spec = HWT_SPEC_INIT;
	hwt_timeout cancelled;
	hwt_unprocessed left;
	struct opener opener;
	size_t said = 0, found = 0;

	memset(owned, 0, sizeof(owned));
	spec.task = gate_task;
	spec.release = release_gate;
	for (int i = 0; i < 3; i++) {
		spec.arg = &owned[i];
		CHECK_RC(hwt_new_timeout_ex(timer, &spec, &cancelled), 0);
	}
	for (int i = 0; i < 20; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, FAR_NS, NULL), 0);
	REQUIRE(wait_waiting(timer, 23));
	CHECK_RC(hwt_cancel(cancelled), 0);
	open_when_the_worker_ends(&opener, timer, &gate);
	CHECK_RC(hwt_timer_stop(timer, &said), 0);
	CHECK_INT(gate.ended, ==, 1);
	CHECK_INT(said, ==, 23);
	CHECK_INT(owned[2].released, ==, 1); /* it was cancelled, and comes back to nobody */
	while (hwt_timer_next_unprocessed(timer, &left)) {
		CHECK_INT(hwt_timeout_state(left.timeout), ==, HWT_CANCELLED);
		found++;
	}
	CHECK_INT(found, ==, 23);
	CHECK_INT(ran, ==, 0);
	CHECK_INT(owned[0].released + owned[1].released, ==, 0);
	CHECK_INT(stats_of(timer).returned, ==, 23);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	pthread_key_delete(opener.key);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(owned[i].released, ==, 1);
		CHECK_INT(owned[i].begun, ==, 0);
	}
}

/*
 * Numbers
 */

TEST(the_statistics_know_the_waits_and_count_lateness_when_a_task_starts)
{
	struct gate gate;
	hwt_timer *timer = held_timer(&gate);
	uint64_t counted = 0, slow = 0;
	atomic_uint ran = 0;
	hwt_stats stats;

	for (int i = 0; i < 10; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, NULL), 0);
	REQUIRE(wait_waiting(timer, 10));
	CHECK_INT(stats_of(timer).runs, ==, 1);
	sleep_ms(20);
	open_gate(&gate);
	REQUIRE(wait_count(&ran, 10));
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	stats = stats_of(timer);
	CHECK_INT(stats.tasks_waiting, ==, 0);
	CHECK_INT(stats.task_wait_max_ns, >=, HWT_MS(20));
	CHECK_INT(stats.lateness_max_ns, >=, HWT_MS(20));
	for (unsigned i = 0; i < 32; i++) {
		counted += stats.lateness[i];
		slow += i > 14 ? stats.lateness[i] : 0; /* above 16.4 ms */
	}
	CHECK_INT(counted, ==, 11);
	CHECK_INT(slow, >=, 10);
	CHECK_INT(stats.runs, ==, 11);
	CHECK_INT(stats.ticks, >=, 2);
	CHECK_INT(stats.ticks, <=, 11);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* A program built against the header of before has no room for the new numbers. */
TEST(the_statistics_of_before_end_where_they_ended)
{
	struct gate gate;
	hwt_timer *timer = held_timer(&gate);
	hwt_stats stats;

	memset(&stats, 0x5a, sizeof(stats));
	stats.size = offsetof(hwt_stats, tasks_waiting);
	CHECK_RC(hwt_timer_stats(timer, &stats), 0);
	CHECK_INT(stats.accepted, ==, 1);
	CHECK_INT(stats.lateness[31], ==, 0);
	CHECK_INT(stats.tasks_waiting, ==, INT64_C(0x5a5a5a5a5a5a5a5a));
	stats.size = offsetof(hwt_stats, task_wait_max_ns);
	CHECK_RC(hwt_timer_stats(timer, &stats), 0);
	CHECK_INT(stats.tasks_waiting, ==, 0);
	CHECK_INT(stats.task_wait_max_ns, ==, INT64_C(0x5a5a5a5a5a5a5a5a));
	open_gate(&gate);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * Races
 */

#define RACERS 4000

struct racer {
	hwt_timeout timeout;
	atomic_uint runs, cancels, returns, releases;
	bool owned;
};

struct race {
	hwt_timer *timer;
	struct racer *racers;
	atomic_uint scheduled, enough;
};

static void racer_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	atomic_fetch_add(&((struct racer *)arg)->runs, 1);
}

static void release_racer(void *arg)
{
	atomic_fetch_add(&((struct racer *)arg)->releases, 1);
}

/* Behind the one that schedules: most of them are waiting for a thread then. */
static void *cancel_racers(void *arg)
{
	struct race *race = arg;
	struct prng prng = { (uint64_t)(uintptr_t)&prng };
	unsigned at = 0;

	while (!atomic_load(&race->enough)) {
		unsigned scheduled = atomic_load(&race->scheduled);

		if (scheduled == 0)
			continue;
		at = scheduled - 1 - (unsigned)prng_below(&prng, scheduled < 200 ? scheduled : 200);
		if (prng_below(&prng, 4) == 0)
			(void)hwt_reschedule(race->racers[at].timeout, prng_between(&prng, -HWT_MS(1), HWT_MS(3)));
		else if (hwt_cancel(race->racers[at].timeout) == 0)
			atomic_fetch_add(&race->racers[at].cancels, 1);
	}
	return NULL;
}

static void *stop_race(void *arg)
{
	struct race *race = arg;
	hwt_unprocessed left;

	CHECK_RC(hwt_timer_stop(race->timer, NULL), 0);
	while (hwt_timer_next_unprocessed(race->timer, &left))
		atomic_fetch_add(&((struct racer *)left.arg)->returns, 1);
	return NULL;
}

static unsigned schedule_racers(struct race *race)
{
	hwt_spec spec = HWT_SPEC_INIT;
	unsigned i;
	int rc = 0;

	spec.task = racer_task;
	for (i = 0; i < RACERS; i++) {
		struct racer *racer = &race->racers[i];

		racer->owned = i % 3 == 0;
		spec.arg = racer;
		spec.release = racer->owned ? release_racer : NULL;
		rc = hwt_new_timeout_ex(race->timer, &spec, &racer->timeout);
		CHECK(rc == 0 || rc == ECANCELED);
		if (rc != 0)
			break;
		atomic_store(&race->scheduled, i + 1);
		if (i % 256 == 255)
			sleep_ns(HWT_US(300));
	}
	return i;
}

static void one_race(uint32_t threads, bool stop_early)
{
	struct race race = { .timer = timer_with(threads), .racers = calloc(RACERS, sizeof(struct racer)) };
	struct crew cancelling, stopping;
	unsigned accepted;

	REQUIRE(race.racers != NULL);
	crew_start(&cancelling, 2, cancel_racers, &race, 0);
	if (stop_early) {
		crew_start(&stopping, 1, stop_race, &race, 0);
		accepted = schedule_racers(&race);
		crew_join(&stopping);
	} else {
		accepted = schedule_racers(&race);
		crew_run(2, stop_race, &race, 0);
	}
	atomic_store(&race.enough, 1);
	crew_join(&cancelling);
	CHECK_RC(hwt_timer_destroy(race.timer), 0);
	for (unsigned i = 0; i < accepted; i++) {
		const struct racer *racer = &race.racers[i];

		CHECK_INT(racer->runs + racer->cancels + racer->returns, ==, 1);
		CHECK_INT(racer->releases, ==, racer->owned);
	}
	free(race.racers);
}

TEST(each_has_one_end_while_cancels_moves_and_a_stop_race_the_threads)
{
	for (unsigned i = 0; i < 4; i++)
		one_race(1 + i % 3, false);
	for (unsigned i = 0; i < 20; i++)
		one_race(1 + i % 3, true);
}

TEST_MAIN()
