/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process around the library: signals and child processes.
 */
#include "support.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

#define TICK_NS HWT_MS(1)

/* Runs a task at once and waits until it has begun. */
static void begin_task(hwt_timer *timer, hwt_task *task, void *arg, atomic_uint *begun)
{
	CHECK_RC(hwt_new_timeout(timer, task, arg, 0, NULL), 0);
	REQUIRE(wait_count(begun, 1));
}

/*
 * Signals
 */

/* What a handler saw.  Handlers run on any thread, one test at a time. */
static atomic_uint caught, caught_elsewhere;
static pthread_t catcher; /* the thread that is to catch */
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

/* Until sigaction(signal, before): the handler. */
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

/* As a collector of garbage does it, or a crash reporter. */
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

/* Until a signal has come, or far more processor time has gone than the profiler lets pass. */
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
	REQUIRE(pthread_sigmask(SIG_BLOCK, &prof, &mine) == 0); /* so that it is the worker's, and nobody else's */
	REQUIRE(setitimer(ITIMER_PROF, &each_ms, NULL) == 0);
	begin_task(timer, burn_task, &ran, &ran);
	REQUIRE(setitimer(ITIMER_PROF, &never, NULL) == 0);
	CHECK_INT(caught, >, 0);
	REQUIRE(sigaction(SIGPROF, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL) ==
		0); /* one that is on its way */
	REQUIRE(pthread_sigmask(SIG_SETMASK, &mine, NULL) == 0);
	REQUIRE(sigaction(SIGPROF, &before, NULL) == 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Whatever the worker does: it looks idle to the system, and asleep, or busy. */
TEST(a_signal_for_the_process_comes_to_its_own_threads)
{
	hwt_timer *timer = new_timer(TICK_NS, 64);
	struct sigaction before;
	atomic_uint ran = 0;

	catcher = pthread_self();
	handle(SIGUSR1, catch, &before);
	REQUIRE(hwt_new_periodic(timer, count_task, &ran, 0, TICK_NS, NULL) == 0);
	for (unsigned i = 1; i <= 20; i++) {
		REQUIRE(wait_count(&ran, i));
		REQUIRE(kill(getpid(), SIGUSR1) == 0);
		REQUIRE(wait_count(&caught, i));
	}
	CHECK_INT(caught_elsewhere, ==, 0);
	REQUIRE(sigaction(SIGUSR1, &before, NULL) == 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * A child process
 */

struct child {
	bool own_mask;
	int status;
	atomic_uint done;
};

/* A shell that sends itself SIGTERM, and says 7 if it survives. */
static void spawn_task(hwt_timeout timeout, void *arg)
{
	struct child *child = arg;
	sigset_t none;
	pid_t pid;

	(void)timeout;
	sigemptyset(&none);
	pid = fork();
	if (pid == 0) {
		if (child->own_mask)
			sigprocmask(SIG_SETMASK, &none, NULL);
		execl("/bin/sh", "sh", "-c", "kill -TERM $$; exit 7", (char *)NULL);
		_exit(99);
	}
	CHECK_INT(pid, >, 0);
	CHECK_INT(waitpid(pid, &child->status, 0), ==, pid);
	atomic_fetch_add(&child->done, 1);
}

/* The worker's mask is inherited, so a child gets one of its own. */
TEST(a_child_that_a_task_spawns_with_a_mask_of_its_own_can_be_terminated)
{
	hwt_timer *timer = new_timer(TICK_NS, 64);
	struct child free_child = { .own_mask = true }, deaf_child = { .own_mask = false };

	begin_task(timer, spawn_task, &free_child, &free_child.done);
	begin_task(timer, spawn_task, &deaf_child, &deaf_child.done);
	CHECK(WIFSIGNALED(free_child.status) && WTERMSIG(free_child.status) == SIGTERM);
	CHECK(WIFEXITED(deaf_child.status) && WEXITSTATUS(deaf_child.status) == 7);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN(RUN(a_signal_for_the_process_comes_to_its_own_threads),
	  RUN(a_child_that_a_task_spawns_with_a_mask_of_its_own_can_be_terminated), RUN(a_profiler_sees_the_worker),
	  RUN(a_fault_of_a_task_reaches_the_handler_of_the_program))
