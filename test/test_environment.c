/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process around the library: signals, and threads that are cancelled.
 */
#include "support.h"

#include <signal.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/time.h>

#define TICK_NS HWT_MS(1)

struct spawned {
	void (*run)(void *job);
	void *job;
};

static void *spawned_main(void *arg)
{
	struct spawned spawned = *(struct spawned *)arg;

	free(arg);
	spawned.run(spawned.job);
	return NULL;
}

static int spawn(void *ctx, void (*run)(void *job), void *job)
{
	struct spawned *spawned = malloc(sizeof(*spawned));
	pthread_t thread;

	(void)ctx;
	REQUIRE(spawned != NULL);
	*spawned = (struct spawned){ run, job };
	if (pthread_create(&thread, NULL, spawned_main, spawned) != 0) {
		free(spawned);
		return EAGAIN;
	}
	pthread_detach(thread);
	return 0;
}

/* Makes a timer with a worker and, if wanted, an executor that makes a thread for each job. */
static hwt_timer *spawn_timer(int64_t tick_ns, bool with_executor)
{
	hwt_executor executor = { spawn, NULL };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = tick_ns;
	config.executor = with_executor ? &executor : NULL;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

/* Runs a task at once and waits until it has begun. */
static void begin_task(hwt_timer *timer, hwt_task *task, void *arg, atomic_uint *begun)
{
	CHECK_RC(hwt_new_timeout(timer, task, arg, 0, NULL), 0);
	REQUIRE(wait_count(begun, 1));
}

/*
 * Signals
 */

/* Signals that a handler caught.  Handlers run on any thread, one test at a time. */
static atomic_uint caught, caught_elsewhere;
static pthread_t catcher; /* the thread that must catch the signal */
static void *guarded_page;

static void catch (int signal)
{
	(void)signal;
	atomic_fetch_add(pthread_equal(pthread_self(), catcher) ? &caught : &caught_elsewhere, 1);
}

static void open_page(int signal)
{
	catch (signal);
	if (mprotect(guarded_page, 1, PROT_READ | PROT_WRITE) != 0)
		_exit(1);
}

/* Installs a handler.  sigaction(signal, before) restores the old one. */
static void handle(int signal, void (*handler)(int), struct sigaction *before)
{
	struct sigaction action = { .sa_handler = handler };

	sigemptyset(&action.sa_mask);
	atomic_store(&caught, 0);
	atomic_store(&caught_elsewhere, 0);
	REQUIRE(sigaction(signal, &action, before) == 0);
}

static void touch_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	catcher = pthread_self();
	*(volatile char *)guarded_page = 1;
	atomic_fetch_add((atomic_uint *)arg, 1);
}

/* A garbage collector or a crash reporter handles faults like this. */
TEST(a_fault_of_a_task_reaches_the_handler_of_the_program)
{
	hwt_timer *timer = new_timer(TICK_NS, 64);
	struct sigaction before;
	atomic_uint ran = 0;

	guarded_page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(guarded_page != MAP_FAILED);
	handle(SIGSEGV, open_page, &before);
	begin_task(timer, touch_task, &ran, &ran);
	CHECK_INT(caught, ==, 1);
	CHECK_INT(caught_elsewhere, ==, 0);
	REQUIRE(sigaction(SIGSEGV, &before, NULL) == 0);
	REQUIRE(munmap(guarded_page, (size_t)sysconf(_SC_PAGESIZE)) == 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Burns processor time until a signal has come, or far longer than the profiler's interval. */
static void burn_task(hwt_timeout timeout, void *arg)
{
	struct timespec used = { 0 };

	(void)timeout;
	catcher = pthread_self();
	while (atomic_load(&caught) == 0 && used.tv_sec < 3)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	atomic_fetch_add((atomic_uint *)arg, 1);
}

TEST(a_profiler_sees_the_worker)
{
	const struct itimerval each_ms = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
	hwt_timer *timer = new_timer(TICK_NS, 64);
	struct sigaction before;
	sigset_t prof, mine;
	atomic_uint ran = 0;

	handle(SIGPROF, catch, &before);
	REQUIRE(hwt_timer_start(timer) == 0);
	sigemptyset(&prof);
	sigaddset(&prof, SIGPROF);
	REQUIRE(pthread_sigmask(SIG_BLOCK, &prof, &mine) == 0); /* so that only the worker can get it */
	REQUIRE(setitimer(ITIMER_PROF, &each_ms, NULL) == 0);
	begin_task(timer, burn_task, &ran, &ran);
	REQUIRE(setitimer(ITIMER_PROF, &never, NULL) == 0);
	CHECK_INT(caught, >, 0);
	REQUIRE(sigaction(SIGPROF, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL) ==
		0); /* a signal that is on its way */
	REQUIRE(pthread_sigmask(SIG_SETMASK, &mine, NULL) == 0);
	REQUIRE(sigaction(SIGPROF, &before, NULL) == 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * Threads that are cancelled.  A cancelled thread would leave at the first cancellation point: with a mutex of the
 * library locked, or half of the work done.  So no call contains one, and the thread leaves after the call.
 */

struct gate {
	atomic_uint begun, open;
};

static void gate_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;

	(void)timeout;
	atomic_fetch_add(&gate->begun, 1);
	while (atomic_load(&gate->open) == 0)
		sleep_ns(HWT_US(200));
}

/* Contains a cancellation point. */
static void sleepy_release(void *arg)
{
	sleep_ms(1);
	atomic_fetch_add((atomic_uint *)arg, 1);
}

static void sleepy_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	sleepy_release(arg);
}

struct victim {
	hwt_timer *timer;
	hwt_timeout timeout;
	void (*call)(struct victim *victim);
	bool pending; /* the thread is cancelled before the call, not in the middle of it */
	atomic_uint entered, returned, count;
};

static void *victim_thread(void *arg)
{
	struct victim *victim = arg;

	if (victim->pending)
		REQUIRE(pthread_cancel(pthread_self()) == 0);
	atomic_fetch_add(&victim->entered, 1);
	victim->call(victim);
	atomic_fetch_add(&victim->returned, 1);
	pthread_testcancel();
	return NULL;
}

static pthread_t start_victim(struct victim *victim)
{
	pthread_t thread;

	atomic_store(&victim->entered, 0);
	atomic_store(&victim->returned, 0);
	REQUIRE(pthread_create(&thread, NULL, victim_thread, victim) == 0);
	REQUIRE(wait_count(&victim->entered, 1));
	if (!victim->pending) {
		sleep_ms(5); /* until the thread waits, most likely */
		REQUIRE(pthread_cancel(thread) == 0);
	}
	return thread;
}

/* Joins the victim, and checks that it returned from the call and was cancelled then. */
static void join_victim(struct victim *victim, pthread_t thread)
{
	void *result = NULL;

	REQUIRE(pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED || !victim->pending);
	/* If the victim has left a lock locked, the rest of the test would wait for ever. */
	REQUIRE(atomic_load(&victim->returned) == 1);
}

static void run_victim(struct victim *victim)
{
	join_victim(victim, start_victim(victim));
}

static void call_create(struct victim *victim)
{
	hwt_config config = HWT_CONFIG_INIT;

	config.tick_duration_ns = TICK_NS;
	CHECK_RC(hwt_timer_create(&victim->timer, &config), 0);
}

static void call_start(struct victim *victim)
{
	CHECK_RC(hwt_timer_start(victim->timer), 0);
}

static void call_new_timeout(struct victim *victim)
{
	CHECK_RC(hwt_new_timeout(victim->timer, count_task, &victim->count, 0, &victim->timeout), 0);
}

static void call_stop(struct victim *victim)
{
	CHECK_RC(hwt_timer_stop(victim->timer, NULL), 0);
}

static void call_destroy(struct victim *victim)
{
	CHECK_RC(hwt_timer_destroy(victim->timer), 0);
}

static void call_cancel_sync(struct victim *victim)
{
	CHECK_RC(hwt_cancel_sync(victim->timeout), ENOENT);
}

static void call_advance(struct victim *victim)
{
	CHECK_RC(hwt_timer_advance(victim->timer, HWT_S(1), NULL), 0);
}

/* Makes the calls that do not wait. */
static void call_others(struct victim *victim)
{
	hwt_config config = { .size = sizeof(config) };
	hwt_unprocessed left;
	hwt_timeout timeout;
	char text[100];
	int fd;

	CHECK_RC(hwt_timer_config(victim->timer, &config), 0);
	CHECK_RC(hwt_timer_fd(victim->timer, &fd), 0);
	CHECK_RC(hwt_new_timeout(victim->timer, count_task, &victim->count, HWT_S(3600), &timeout), 0);
	CHECK_RC(hwt_reschedule(timeout, HWT_S(7200)), 0);
	CHECK_RC(hwt_reschedule(timeout, HWT_S(1800)), 0);
	CHECK_INT(hwt_timeout_format(timeout, text, sizeof(text)), >, 0);
	CHECK_RC(hwt_cancel(timeout), 0);
	CHECK_INT(stats_of(victim->timer).cancelled, ==, 1);
	CHECK_RC(hwt_timer_advance(victim->timer, hwt_now(), NULL), 0);
	CHECK_RC(hwt_timer_stop(victim->timer, NULL), 0);
	CHECK(!hwt_timer_next_unprocessed(victim->timer, &left));
	hwt_warn_stderr(NULL, "a line of the test");
}

TEST(a_cancelled_thread_leaves_after_the_call)
{
	struct victim victim = { .pending = true };

	for (unsigned i = 0; i < 20; i++) {
		victim.call = call_create;
		run_victim(&victim);
		victim.call = i % 2 == 0 ? call_start : call_new_timeout;
		run_victim(&victim);
		CHECK_RC(hwt_new_timeout(victim.timer, count_task, &victim.count, 0, NULL), 0);
		victim.call = i % 4 < 2 ? call_stop : call_destroy;
		run_victim(&victim);
		if (i % 4 < 2)
			CHECK_RC(hwt_timer_destroy(victim.timer), 0);
	}
	victim.timer = driven_timer();
	victim.call = call_others;
	run_victim(&victim);
	CHECK_RC(hwt_timer_destroy(victim.timer), 0);
}

/* Makes a call that waits for a running task.  The calling thread is cancelled before or meanwhile. */
static void cancel_in_a_wait(void (*call)(struct victim *victim), bool pending, bool with_executor)
{
	struct victim victim = { .timer = spawn_timer(TICK_NS, with_executor), .call = call, .pending = pending };
	struct gate gate = { 0, 0 };
	pthread_t thread;

	CHECK_RC(hwt_new_timeout(victim.timer, gate_task, &gate, 0, &victim.timeout), 0);
	REQUIRE(wait_count(&gate.begun, 1));
	thread = start_victim(&victim);
	sleep_ms(5);
	atomic_store(&gate.open, 1);
	join_victim(&victim, thread);
	if (call != call_destroy)
		CHECK_RC(hwt_timer_destroy(victim.timer), 0);
}

TEST(a_thread_that_is_cancelled_while_it_waits_for_a_task_leaves_after_the_call)
{
	for (unsigned i = 0; i < 4; i++) {
		cancel_in_a_wait(call_cancel_sync, i % 2 == 0, i < 2);
		cancel_in_a_wait(call_stop, i % 2 == 0, i < 2);
		cancel_in_a_wait(call_destroy, i % 2 == 0, i < 2);
	}
}

/* Tasks and finalisers that run in the call contain cancellation points, and are not cut short. */
TEST(a_cancelled_thread_runs_the_tasks_of_its_call_to_the_end)
{
	struct victim victim = { .timer = virtual_timer(), .call = call_advance, .pending = true };
	hwt_spec spec = { .size = sizeof(spec), .task = count_task, .arg = &victim.count, .release = sleepy_release };
	hwt_timeout timeout;

	for (unsigned i = 0; i < 3; i++)
		CHECK_RC(hwt_new_timeout(victim.timer, sleepy_task, &victim.count, 0, NULL), 0);
	run_victim(&victim);
	CHECK_INT(victim.count, ==, 3);

	/* Stop calls the finalisers of cancelled timeouts, destroy those of timeouts that stop gave back. */
	spec.when_ns = HWT_S(3600);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_RC(hwt_new_timeout_ex(victim.timer, &spec, &timeout), 0);
		CHECK_RC(hwt_cancel(timeout), 0);
		CHECK_RC(hwt_new_timeout_ex(victim.timer, &spec, NULL), 0);
	}
	victim.call = call_stop;
	run_victim(&victim);
	CHECK_INT(victim.count, ==, 6);
	victim.call = call_destroy;
	run_victim(&victim);
	CHECK_INT(victim.count, ==, 9);
}

struct caller {
	hwt_timer *timer;
	atomic_uint done;
};

static void *stop_thread(void *arg)
{
	struct caller *caller = arg;

	CHECK_RC(hwt_timer_stop(caller->timer, NULL), 0);
	atomic_fetch_add(&caller->done, 1);
	return NULL;
}

/* Stops a timer.  If the stop hangs, the test fails at once and ends the program. */
static void stop_within_patience(hwt_timer *timer)
{
	struct caller caller = { timer, 0 };
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, stop_thread, &caller) == 0);
	REQUIRE(wait_count(&caller.done, 1));
	REQUIRE(pthread_join(thread, NULL) == 0);
}

static void *cancelled_job_thread(void *arg)
{
	REQUIRE(pthread_cancel(pthread_self()) == 0);
	return spawned_main(arg);
}

static int execute_cancelled(void *ctx, void (*run)(void *job), void *job)
{
	struct spawned *spawned = malloc(sizeof(*spawned));
	pthread_t *thread = ctx;

	REQUIRE(spawned != NULL);
	*spawned = (struct spawned){ run, job };
	return pthread_create(thread, NULL, cancelled_job_thread, spawned);
}

/* The thread leaves after the task and its finaliser, and stop does not wait for a job that has ended. */
TEST(a_cancelled_thread_of_an_executor_runs_its_job_to_the_end)
{
	pthread_t thread;
	hwt_executor executor = { execute_cancelled, &thread };
	hwt_config config = HWT_CONFIG_INIT;
	atomic_uint count = 0;
	hwt_spec spec = { .size = sizeof(spec), .task = sleepy_task, .arg = &count, .release = sleepy_release };
	hwt_timer *timer = NULL;

	config.tick_duration_ns = TICK_NS;
	config.executor = &executor;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, NULL), 0);
	REQUIRE(wait_none_pending(timer));
	stop_within_patience(timer);
	CHECK_INT(count, ==, 2);
	REQUIRE(pthread_join(thread, NULL) == 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void tell_self_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	*(pthread_t *)arg = pthread_self();
}

/* The worker belongs to the library: a cancel by a task that knows its id has no effect. */
TEST(a_worker_that_is_cancelled_goes_on)
{
	hwt_timer *timer = new_timer(TICK_NS, 64);
	hwt_timeout timeout;
	atomic_uint ran = 0;
	pthread_t worker;

	CHECK_RC(hwt_new_timeout(timer, tell_self_task, &worker, 0, &timeout), 0);
	REQUIRE(wait_ended(timeout));
	REQUIRE(pthread_cancel(worker) == 0);
	for (unsigned i = 1; i <= 5; i++) {
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, i * TICK_NS, NULL), 0);
		REQUIRE(wait_count(&ran, i));
	}
	stop_within_patience(timer);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * In another timer an exception ended the worker while the timer went on accepting.  In C: signals that interrupt its
 * sleep.
 */
TEST(row27_worker_survives_signals)
{
	enum { COUNT = 10 };
	struct sigaction action = { .sa_handler = catch }, before;
	hwt_timer *timer = new_timer(HWT_MS(10), 512);
	struct run runs[COUNT] = { 0 };
	pthread_t worker;
	hwt_timeout told;

	REQUIRE(sigaction(SIGUSR1, &action, &before) == 0); /* without SA_RESTART */
	CHECK_RC(hwt_new_timeout(timer, tell_self_task, &worker, 0, &told), 0);
	REQUIRE(wait_ended(told));
	for (int i = 0; i < COUNT; i++) {
		runs[i].not_before_ns = hwt_now() + HWT_MS(10) * i;
		CHECK_RC(hwt_new_timeout_at(timer, run_task, &runs[i], runs[i].not_before_ns, NULL), 0);
	}
	for (int i = 0; i < COUNT; i++)
		for (struct patience patience = PATIENCE("a run"); runs[i].ran == 0;) {
			REQUIRE(patience_lasts(&patience, HWT_US(500)));
			CHECK_INT(pthread_kill(worker, SIGUSR1), ==, 0);
		}
	for (int i = 0; i < COUNT; i++)
		CHECK_INT(runs[i].ran, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	REQUIRE(sigaction(SIGUSR1, &before, NULL) == 0);
}

#ifdef PR_GET_TIMERSLACK
static void note_slack(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	atomic_store((atomic_int *)arg, prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL));
}

/* Linux adds up to 50 us to the sleeps of a thread that does not ask for exact ones. */
TEST(a_worker_asks_the_system_for_exact_sleeps)
{
	hwt_timer *timer = new_timer(HWT_MS(1), 64);
	atomic_int slack_ns = 0;

	NEEDS_LINUX();
	CHECK_RC(hwt_new_timeout(timer, note_slack, &slack_ns, 0, NULL), 0);
	REQUIRE(wait_none_pending(timer));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	if (slack_ns < 0)
		SKIP("the system does not tell");
	CHECK_INT(slack_ns, ==, 1);
}
#endif

TEST_MAIN()
