/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes the worker's thread and the task threads; their first steps. */
#define _GNU_SOURCE
#include "base/thread.h"
#include "timer/timer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

void hwt_timer_set_state(hwt_timer *timer, int state)
{
	atomic_store_explicit(&timer->state, state, memory_order_release); /* [started] */
	pthread_cond_broadcast(&timer->monitor.changed);
}

void hwt_timer_set_grid(hwt_timer *timer, int64_t start_ns)
{
	timer->grid = timer->wheel->grid = grid_make(start_ns, timer->config.tick_duration_ns);
}

void hwt_timer_begin_time(hwt_timer *timer, int64_t now_ns)
{
	bool may_go_back = timer->config.clock == HWT_CLOCK_REALTIME;

	hwt_timer_set_grid(timer, may_go_back ? 0 : now_ns);
	if (may_go_back && now_ns > 0)
		hwt_wheel_seek(timer->wheel, grid_ticks_passed(&timer->grid, now_ns));
	timer->has_begun = true;
}

static void *worker_main(void *arg)
{
	hwt_timer *timer = arg;

#ifdef HWT_LINUX
	(void)pthread_setname_np(pthread_self(), timer->thread_name);
#endif
	(void)thread_no_cancel();
	hwt_sleeper_precise_thread();
	current_task_enter(&timer->worker.frame, timer, NULL);
	pthread_mutex_lock(&timer->monitor.mutex);
	hwt_timer_begin_time(timer, worker_now(&timer->worker));
	hwt_timer_set_state(timer, timer_state_with_worker(timer));
	pthread_mutex_unlock(&timer->monitor.mutex);
	hwt_worker_run(&timer->worker);
	return NULL;
}

static void *task_main(void *arg)
{
	struct hwt_runner *runner = arg;
#ifdef HWT_LINUX
	char name[HWT_THREAD_NAME_LENGTH + 1];

	(void)snprintf(name, sizeof(name), "hwt-task-%u", (unsigned)runner->number % 10000);
	(void)pthread_setname_np(pthread_self(), name);
#endif
	(void)thread_no_cancel();
	hwt_tasks_run(runner);
	return NULL;
}

/*
 * Computes the worker's mask, which task threads have, too.  Signals sent to the process are for the program's own
 * threads, so the worker blocks them.  It does not block signals that an instruction of a task raises: if they were
 * blocked, they would kill the process without calling its handler.  The profiler's signal is blocked if the thread
 * that starts the worker blocks it: such a program waits for the signal in another thread.
 */
static void mask_of_worker(sigset_t *mask, const sigset_t *starter)
{
	static const int raised[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };

	sigfillset(mask);
	for (size_t i = 0; i < sizeof(raised) / sizeof(raised[0]); i++)
		sigdelset(mask, raised[i]);
	if (sigismember(starter, SIGPROF) == 0)
		sigdelset(mask, SIGPROF);
}

#if defined(__GLIBC__) && !defined(HWT_PORTABLE)
#define new_thread pthread_create
#else
#define WORKER_STACK ((size_t)1 << 20)

/* Creates a thread whose stack is large enough for tasks that print: musl's default is 128 KiB. */
static int new_thread(pthread_t *thread, const pthread_attr_t *wish, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	size_t size;
	int rc;

	if (wish != NULL)
		return pthread_create(thread, wish, run, arg);
	rc = pthread_attr_init(&attr);
	if (rc != 0)
		return rc;
	if (pthread_attr_getstacksize(&attr, &size) == 0 && size < WORKER_STACK)
		(void)pthread_attr_setstacksize(&attr, WORKER_STACK);
	rc = pthread_create(thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	return rc;
}
#endif

/* Creates a thread.  The new thread inherits the signal mask of this one, which is therefore changed for a moment. */
static int create_thread(hwt_timer *timer, pthread_t *thread, void *(*run)(void *), void *arg)
{
	int errno_before = errno; /* a failing pthread_create may change errno */
	sigset_t mask, before;
	int rc;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	mask_of_worker(&mask, &before);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	rc = new_thread(thread, timer->config.thread_attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = errno_before;
	return rc;
}

/* Creates the task threads, which sleep at first: the worker is created last, so no record is handed over yet. */
static int create_task_threads(hwt_timer *timer)
{
	struct hwt_tasks *tasks = &timer->tasks;
	int rc = 0;

	while (rc == 0 && tasks->started < timer->config.task_threads) {
		struct hwt_runner *runner = &tasks->runner[tasks->started];

		rc = create_thread(timer, &runner->id, task_main, runner);
		tasks->started += rc == 0;
	}
	return rc;
}

int hwt_timer_launch(hwt_timer *timer)
{
	int rc = create_task_threads(timer);

	if (rc == 0)
		rc = create_thread(timer, &timer->thread, worker_main, timer);
	if (rc != 0) {
		hwt_tasks_join(&timer->tasks);
		return rc;
	}
	timer->has_thread = true;
	hwt_timer_set_state(timer, TIMER_STARTING);
	return 0;
}
