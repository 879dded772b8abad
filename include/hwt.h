/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef HWT_H
#define HWT_H

/*
 * libhwt: a hashed wheel timer for multithreaded C.
 *
 * What it is
 *
 *   A timer runs functions ("tasks") later, on a thread of its own.  Any thread may schedule and cancel; both
 *   cost some tens of nanoseconds, however many timeouts are pending, because neither looks at the timeouts of
 *   anybody else.  It is made for the load of network servers, brokers and databases: very many timeouts, most of
 *   which are cancelled long before they would fire.
 *
 *   The price is precision: time is cut into ticks of config.tick_duration_ns, and a task runs at the first tick
 *   at or after its deadline.  Never before it.
 *
 * Threads
 *
 *     any thread                              one worker thread a timer
 *     hwt_new_timeout --> [ lane: submitted ] --+
 *     hwt_cancel -------> [ lane: cancelled ] --+--> drain --> wheel --> due --> task(timeout, arg)
 *           ^                                                                       |
 *           +--------------- memory comes back to the lanes, once a tick -----------+
 *
 *   A lane belongs to a few threads at the most, so that producers do not wait for each other.  The worker starts
 *   with the first hwt_new_timeout (or with hwt_timer_start), runs tasks at ticks of the grid start + n *
 *   tick_duration_ns and ends in hwt_timer_stop.  Tasks run on it one after the other: a task that blocks holds up
 *   the others.
 *
 *   It does not wake up for a tick at which nothing is due: without traffic it sleeps until the next deadline, or
 *   without end if there is none, and a hwt_new_timeout for something earlier wakes it.  While many calls come in it
 *   looks once a tick.
 *
 * Guarantees
 *
 *   G1 exactly one end.  For every timeout that hwt_new_timeout* accepted exactly one of these happens: its task
 *      runs once; one hwt_cancel call returns 0; one hwt_timer_next_unprocessed call reports it.  Also when all
 *      three race, and when hwt_new_timeout races hwt_timer_stop (it wins and is accounted for, or it loses and
 *      returns ECANCELED).  A periodic timeout, and one whose task reschedules itself, runs more than once; the last
 *      run, the cancel or the stop is its one end.
 *   G2 never early.  A task does not start before its deadline on CLOCK_MONOTONIC.  Without load it starts within
 *      one tick of it, plus the time the system takes to wake a thread.
 *   G3 order.  What the caller wrote before hwt_new_timeout is visible to the task.  Two timeouts of one thread
 *      that fall into the same tick, both accepted before it, run in the order in which they were accepted; not so
 *      one that has been rescheduled.
 *   G4 the count goes first.  A timeout stops counting as pending before its task starts, and as soon as a cancel
 *      has returned 0.  At the limit a task can re-arm itself, and a cancel makes room at once.  A periodic one counts
 *      as one pending timeout until it is cancelled.
 *   G5 memory.  What a cancelled timeout held is free for reuse two ticks after the cancel at the latest, while
 *      the worker keeps up, however far its deadline was.  While it sleeps because nothing is due, at most 4096 of
 *      them wait for it in each lane.  In steady state no call allocates.
 *   G6 a slow task delays others and loses none: the worker catches up tick by tick.  What tasks schedule meanwhile is
 *      taken in when it has caught up.  A thread that schedules faster than the worker takes in delays the threads of
 *      its own lane, and no others.
 *
 *   Not promised: use from a signal handler or in a forked child; precision below a tick; an order between
 *   threads; equal shares for the threads of one lane.
 *
 * What may run when
 *
 *                               other calls, same timer      inside a task of it    after stop
 *     hwt_new_timeout*          any                          yes                    ECANCELED
 *     hwt_cancel                any                          yes                    ENOENT
 *     hwt_cancel_sync           any                          yes; its own: EDEADLK  ENOENT
 *     hwt_reschedule*           any                          yes; its own: re-arms  ENOENT
 *     state, queries            any                          yes                    yes
 *     hwt_timer_start           any                          yes (a no-op)          ECANCELED
 *     hwt_timer_stop            any                          EDEADLK                a no-op
 *     hwt_timer_next_unprocessed any                         yes                    yes, this is its use
 *     hwt_timer_advance         any but itself (EBUSY)       EBUSY                  ECANCELED
 *     hwt_timer_fd              any                          yes (EBUSY at first)   ECANCELED
 *     hwt_timer_destroy         none, and none later         EDEADLK                yes
 *
 * Errors
 *
 *   Functions that can fail return 0 or a positive errno value, as the pthread functions do; strerror() explains
 *   it.  They leave errno alone, and on failure change nothing, their out-parameters included.  They print nothing;
 *   warnings go to config.warn, which by default, and so with a config of NULL, writes them to stderr.
 *
 *     EINVAL     an argument makes no sense                ECANCELED  the timer has been stopped
 *     ENOMEM     no memory; nothing was accepted           EBUSY      its task is running
 *     ENOBUFS    max_pending_timeouts are pending          ENOENT     nothing to cancel or move any more
 *     EDEADLK    would wait for itself                     ENOTSUP    a setting that this build does not serve
 *
 * Time
 *
 *   Nanoseconds on CLOCK_MONOTONIC in int64_t, in variables that end in _ns.  Steps of the wall clock do not matter.
 *   The time a machine is suspended does not count, as CLOCK_MONOTONIC does not count it on Linux.
 *
 * Signals, child processes, cancelled threads
 *
 *   The worker blocks what is sent to the process, so that it comes to a thread of the program's own.  It leaves open
 *   what a fault of a task raises, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP and SIGSYS, for the program's handlers, and
 *   SIGPROF if the thread that starts the worker does.  A child process inherits the mask and would ignore SIGTERM: a
 *   task that spawns one gives it a mask (posix_spawnattr_setsigmask, or pthread_sigmask between fork and exec).
 *
 *   No call is a cancellation point: a thread that is cancelled (pthread_cancel) leaves after the call, and the tasks
 *   and finalisers that run in the call are not cut short.  A thread with PTHREAD_CANCEL_ASYNCHRONOUS must make no
 *   call.
 *
 * A first program
 *
 *     static void hello(hwt_timeout timeout, void *arg) { (void)timeout; puts(arg); }
 *     ...
 *     hwt_timer *timer;
 *     hwt_timeout timeout;
 *     int rc = hwt_timer_create(&timer, NULL);
 *     if (rc == 0) rc = hwt_new_timeout(timer, hello, "a second later", HWT_S(1), &timeout);
 *     ...
 *     hwt_timer_destroy(timer);
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HWT_VERSION_MAJOR 0
#define HWT_VERSION_MINOR 1
#define HWT_VERSION_PATCH 0

#if defined(__GNUC__)
#define HWT_API __attribute__((visibility("default")))
#else
#define HWT_API
#endif

/* Durations in nanoseconds.  The product must fit an int64_t (292 years). */
#define HWT_US(n) (INT64_C(1000) * (int64_t)(n))
#define HWT_MS(n) (INT64_C(1000000) * (int64_t)(n))
#define HWT_S(n) (INT64_C(1000000000) * (int64_t)(n))

/*
 * Types
 */

/* A timer: worker thread, wheel and timeouts.  64 in a process are plenty; one is usual. */
typedef struct hwt_timer hwt_timer;

/*
 * A handle names one timeout.  It is a plain value: copy it, share it between threads, keep it as long as you like.
 * Until its timer is destroyed a handle never dangles: once the timeout has ended, every call with it is harmless and
 * says so, also when the memory behind it serves a later timeout.  Handles are equal when both members are.
 */
typedef struct hwt_timeout {
	void *entry;
	uint64_t generation;
} hwt_timeout;

/* The handle that names nothing, accepted everywhere.  The same as a handle of zero bytes. */
#ifdef __cplusplus
#define HWT_TIMEOUT_NONE (hwt_timeout())
#else
#define HWT_TIMEOUT_NONE ((hwt_timeout){ NULL, 0 })
#endif

/*
 * A task.  It runs on the worker, or where the executor runs it, with the handle that hwt_new_timeout gave out.  It may
 * call everything but stop and destroy.  What arg points to may be freed by the task, or by whoever it hands it to: the
 * library does not look at it.
 *
 * A task returns; so do finalisers and execute.  It must not leave by longjmp or by an exception of C++.  If it ends
 * its thread (pthread_exit), the timer has lost that thread: config.warn is told, no task runs any more, calls that
 * would schedule or advance return ECANCELED, and hwt_timer_stop hands out what was pending.  On a thread of an
 * executor it has ended as if it had returned, and the timer goes on.
 */
typedef void hwt_task(hwt_timeout timeout, void *arg);

typedef enum hwt_state {
	HWT_NONE,      /* the zero handle */
	HWT_PENDING,   /* accepted, not yet run */
	HWT_RUNNING,   /* its task is running, or has been handed to the executor */
	HWT_EXPIRED,   /* its task has returned */
	HWT_CANCELLED, /* cancelled by hwt_cancel or by hwt_timer_stop */
	HWT_RETIRED    /* ended; its memory serves a later timeout, how it ended is no longer known */
} hwt_state;

/* Flags of hwt_config. */
#define HWT_FINE_TICKS 1u    /* ticks of 10 us to 1 ms are honoured; see tick_duration_ns */
#define HWT_CALLER_DRIVEN 2u /* no worker: tasks run in hwt_timer_advance */
#define HWT_VIRTUAL_CLOCK 4u /* with HWT_CALLER_DRIVEN: the times told to hwt_timer_advance are the clock, from 0 on */

/* Values of hwt_config.wheel. */
#define HWT_WHEEL_HASHED 0u       /* one wheel, remaining rounds */
#define HWT_WHEEL_HIERARCHICAL 1u /* levels of wheels, each coarser by ticks_per_wheel than the one below */

/*
 * Where tasks run, if not on the worker: on threads of yours, so that a slow task does not delay the others.
 *
 * For each timeout that is due the worker calls execute(ctx, run, job), which is to arrange that run(job) is called
 * once, on any thread, and to return 0; or to return an errno value, and then the worker runs the task itself.  A
 * timeout is HWT_RUNNING from then until run has returned; hwt_timer_stop waits for that.  Tasks that are due at the
 * same tick may run at the same time and in any order.
 *
 * execute must not wait for a task of this timer, and must not stop or destroy it.
 */
typedef struct hwt_executor {
	int (*execute)(void *ctx, void (*run)(void *job), void *job);
	void *ctx;
} hwt_executor;

/*
 * Settings of a timer.  Start from HWT_CONFIG_INIT, change what you need:
 *
 *     hwt_config config = HWT_CONFIG_INIT;
 *     config.tick_duration_ns = HWT_MS(10);
 */
typedef struct hwt_config {
	size_t size; /* sizeof(hwt_config), by which a program built against an older header is served */

	/*
	 * Default 100 ms.  > 0; below 1 ms it is raised to 1 ms, with a warning; with HWT_FINE_TICKS below 10 us to
	 * 10 us.  A fine tick costs a wake-up of some microseconds for each tick in which something is due or many
	 * calls came in, and is no more precise than the system wakes a thread (some 50 us on an idle machine).
	 */
	int64_t tick_duration_ns;

	/*
	 * Default 512.  1 .. 2^30, rounded up to a power of two.  The number of buckets; a timeout that lies
	 * further off than ticks_per_wheel * tick_duration_ns waits for several rounds, which costs next to nothing.
	 * 24 bytes each.  Of a hierarchical wheel: of each level, at least 2, 50 bytes each; a level is made when a
	 * timeout first lies that far off.
	 */
	uint32_t ticks_per_wheel;

	/*
	 * Default 100000.  >= 1.  How many new timeouts the worker takes in before it runs what is due.  Each lane has
	 * an equal share of them, and what it does not use is for the others.
	 */
	uint32_t max_transfers_per_tick;

	/* Default 0.  How many timeouts may be pending; 0 and below: any number, and then nothing is counted for it. */
	int64_t max_pending_timeouts;

	uint32_t flags; /* 0 or HWT_FINE_TICKS | HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK */
	uint32_t wheel; /* HWT_WHEEL_HASHED, HWT_WHEEL_HIERARCHICAL: doc/wheels.md says which is for whom */

	/* NULL: defaults.  Read when the worker is started, must be valid until then.  Not for a detached thread. */
	const pthread_attr_t *thread_attr;

	const char *thread_name; /* NULL: "hwt-worker".  The first 15 characters are used, copied by hwt_timer_create */

	/*
	 * Called with a line of text (no newline): by hwt_timer_create when a setting is served differently from what
	 * was asked for, or when many timers are alive; until hwt_timer_destroy on a thread that a task ends (see
	 * hwt_task).  NULL: silent.  HWT_CONFIG_INIT sets hwt_warn_stderr.
	 */
	void (*warn)(void *ctx, const char *message);
	void *warn_ctx;

	const hwt_executor *executor; /* NULL: tasks run on the worker.  Copied by hwt_timer_create */
	uint64_t reserved[8];         /* 0 */
} hwt_config;

/* Every default above. */
/* clang-format off */
#define HWT_CONFIG_INIT                                                                             \
	{                                                                                           \
		sizeof(hwt_config), HWT_MS(100), 512, 100000, 0, 0, HWT_WHEEL_HASHED, NULL, NULL,   \
		hwt_warn_stderr, NULL, NULL, { 0, 0, 0, 0, 0, 0, 0, 0 }                             \
	}
/* clang-format on */

/* The warning function of HWT_CONFIG_INIT: writes "hwt: message" and a newline to stderr.  ctx is not used. */
HWT_API void hwt_warn_stderr(void *ctx, const char *message);

/* A timeout that was neither run nor cancelled when its timer was stopped. */
typedef struct hwt_unprocessed {
	hwt_timeout timeout;
	hwt_task *task;
	void *arg;
	int64_t deadline_ns;
} hwt_unprocessed;

/*
 * Life cycle: create, (start), use, stop, (collect what was not processed), destroy
 */

/*
 * Creates a timer; starts no thread.  config NULL means
 * HWT_CONFIG_INIT.  Warns, through config.warn and once in a process, when more than 64 timers are alive: a timer is
 * meant to be shared.
 *
 * Threads  any.
 * Returns  0 and *timer; EINVAL: timer is NULL, a field is out of range, or tick_duration_ns >= INT64_MAX /
 *          ticks_per_wheel; ENOTSUP: a setting that this version knows but does not serve; ENOMEM.
 * Cost     some 20 KiB with the default settings, 24 bytes a bucket of it; 7 KiB more for each thread that schedules,
 *          with its first call, up to twice as many as there are cores.
 */
HWT_API int hwt_timer_create(hwt_timer **timer, const hwt_config *config);

/*
 * Starts the worker and returns once it has set the timer's start time, from which ticks are counted.
 * hwt_new_timeout calls it by itself; call it to learn of a failing thread creation early, or to keep the first
 * hwt_new_timeout fast.  When started already, does nothing.
 *
 * Threads  any number at once: one starts, the others wait for it.
 * Returns  0; EINVAL: timer is NULL; ECANCELED after stop; the error of pthread_create, after which the timer is as
 *          before and may be started again.
 */
HWT_API int hwt_timer_start(hwt_timer *timer);

/*
 * Stops the timer for good.  When it returns the worker has exited, no task runs or will run, and every timeout that
 * had been accepted and had neither run nor been cancelled is cancelled and waits in hwt_timer_next_unprocessed;
 * *unprocessed (may be NULL) is their number.  A task that is running is waited for; those due behind it are not run
 * any more.  From the moment of the call on, hwt_new_timeout may be refused.
 *
 * Threads  any, but no task of this timer.  A second or concurrent call waits for the first, then reports 0.
 * Returns  0; EINVAL: timer is NULL; EDEADLK from a task of this timer, with nothing changed.  Never fails for want of
 *          memory.
 * Order    what the tasks wrote is visible to the caller.
 * Cost     one cancel a pending timeout.
 *
 * It cannot detect an indirect deadlock: do not hold a lock that a task or a finaliser may want, and do not let two
 * tasks of two timers stop each other's timer.
 */
HWT_API int hwt_timer_stop(hwt_timer *timer, size_t *unprocessed);

/*
 * Hands out one timeout that the stop returned, each exactly once, in no particular order.  Its state is
 * HWT_CANCELLED and its arg is the caller's again (with a finaliser: to be read until hwt_timer_destroy calls that).
 *
 * Threads  any.
 * Returns  true and *out; false with *out untouched when none is left, or when the timer has not been stopped.
 */
HWT_API bool hwt_timer_next_unprocessed(hwt_timer *timer, hwt_unprocessed *out);

/*
 * Stops the timer if need be, and frees it.  All its handles die here: no call with one may be in progress or come
 * later.  NULL is a no-op.
 *
 * Returns  0; EDEADLK from a task of this timer, with nothing changed.
 */
HWT_API int hwt_timer_destroy(hwt_timer *timer);

/*
 * Writes the settings in force (the tick after its floor, the wheel after rounding) to *out, as far as
 * out->size, which the caller sets, reaches.  A second timer can be made from them.  executor and thread_name point
 * into the timer and are valid until hwt_timer_destroy; thread_attr is NULL, as the library keeps no copy of it.
 *
 * Threads  any.
 * Returns  0; EINVAL: timer or out is NULL, or out->size is too small to hold any setting, or more than 4096.
 */
HWT_API int hwt_timer_config(const hwt_timer *timer, hwt_config *out);

/*
 * Timeouts
 */

/*
 * Schedules task(timeout, arg) to run once, at the first tick not before delay_ns from now.  delay_ns <= 0 means the
 * next tick; a sum past INT64_MAX counts as INT64_MAX, which never comes.  *out (may be NULL) is the handle; it is
 * written before the task can start, so a task may read it where the caller keeps it.  Other threads may use it once
 * this call has returned.
 *
 * Threads  any, tasks included.  Does not block on tasks or on the worker; starts the worker if it is the first call.
 * Returns  0; EINVAL: timer or task is NULL; ECANCELED: the timer has been stopped; ENOBUFS: max_pending_timeouts are
 *          pending; ENOMEM; what hwt_timer_start returns.
 * Order    what the caller wrote before the call is visible to the task (a release that the task's start acquires).
 * Cost     one clock read, one uncontended lock of the thread's lane, 48 bytes and about 13 for its place in the wheel.
 *          Where the kernel's clock is the processor's time stamp counter, a thread that schedules often reads that
 *          instead of the clock when no more is needed to know the tick; the deadline that hwt_unprocessed shows may
 *          then be some nanoseconds off.  Workers ask once a second whether that is still so: they read a file below
 *          /sys.
 *          No allocation once the timer and the lane have seen as much before, no system call but one: when the
 *          worker sleeps beyond the deadline, or 4096 operations have gathered in the lane, the first caller to find
 *          it so wakes it (a futex call, some microseconds).
 */
HWT_API int hwt_new_timeout(hwt_timer *timer, hwt_task *task, void *arg, int64_t delay_ns, hwt_timeout *out);

/*
 * The same for an absolute time on the clock of hwt_now().  No clock is read: a caller that has the time at hand, or
 * schedules many timeouts at once, saves the larger part of the cost.  A deadline in the past means the next tick.
 */
HWT_API int hwt_new_timeout_at(hwt_timer *timer, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out);

/*
 * Schedules task(timeout, arg) to run again and again: at the first tick not before first_delay_ns from now, and then
 * at those not before each further period_ns of that, without drift, however long the task takes.  When the worker is
 * late, or the task takes longer than a period, the runs that are due meanwhile are merged into one
 * (hwt_timeout_missed).  It never runs twice at the same time, on an executor neither.
 *
 * If the first deadline is in the past, the periods since then are merged into the first run.
 *
 * hwt_cancel ends it, also from its own task: 0, and there will be no further run; one in progress comes to its end.
 * hwt_reschedule sets the time of the next run, and the later ones follow that.  A stop returns it once.
 *
 * Threads  as hwt_new_timeout.
 * Returns  as hwt_new_timeout; EINVAL also: period_ns is less than a tick.
 * Cost     as hwt_new_timeout, and 48 bytes more; the clock is read in any case; in each period a place in the wheel.
 */
HWT_API int hwt_new_periodic(hwt_timer *timer, hwt_task *task, void *arg, int64_t first_delay_ns, int64_t period_ns,
			     hwt_timeout *out);

/*
 * Within the task of a periodic timeout, with the handle it was called with: how many periods were merged into this
 * run, 0 if it is in time.  0 everywhere else.
 */
HWT_API uint64_t hwt_timeout_missed(hwt_timeout timeout);

/* Flags of hwt_spec. */
#define HWT_ABSOLUTE 1u /* when_ns is a deadline */

/* Everything a timeout can have.  What a program does not set is 0. */
typedef struct hwt_spec {
	size_t size; /* sizeof(hwt_spec) */
	hwt_task *task;
	void *arg;
	int64_t when_ns;   /* a delay; with HWT_ABSOLUTE a deadline on the clock of hwt_now() */
	int64_t period_ns; /* 0: once; else as hwt_new_periodic has it */

	/*
	 * NULL, or called exactly once, when the library is done with arg: after the task if it ran (of a periodic one
	 * after the last run), else soon after the cancel (without memory to tell the worker: at the time when it would
	 * have been due).  Of a timeout that a stop returned by hwt_timer_destroy, so
	 * that what hwt_timer_next_unprocessed hands out can still be read.  Not called if hwt_new_timeout_ex fails.
	 *
	 * It runs on the worker (of a caller-driven timer in hwt_timer_advance), on the thread of the executor after a
	 * task that ran there, or in hwt_timer_stop and hwt_timer_destroy; never in hwt_cancel, and with no lock of the
	 * library held.  It may call everything that a task may; in stop and destroy what it schedules is refused.  It
	 * holds up the other tasks as a task does.
	 */
	void (*release)(void *arg);

	uint32_t flags; /* 0 or HWT_ABSOLUTE */
} hwt_spec;

/*
 * Schedules what *spec says.  With a finaliser arg is the library's until that is called: after a hwt_cancel that
 * returned 0 the task will not run, but arg is released by the finaliser, not by the caller.
 *
 * Threads  as hwt_new_timeout; *spec is copied.
 * Returns  as hwt_new_timeout; EINVAL also: spec or its task is NULL, its size too small or more than 4096, a period
 *          less than a tick, unknown flags; ENOTSUP: a setting of a newer header.
 * Cost     as hwt_new_timeout; with a period or a finaliser 48 bytes more.  To call a finaliser a cancel wakes a worker
 *          that sleeps beyond the next tick.
 */
HWT_API int hwt_new_timeout_ex(hwt_timer *timer, const hwt_spec *spec, hwt_timeout *out);

/*
 * Cancels a timeout.  0 says that this very call prevented the task: it has not started and never will, and arg is
 * the caller's again, or the finaliser's if it has one.  Of several calls for one timeout at most one gets 0.
 *
 * Whatever it returns, no run begins afterwards.  If the task is running, that run goes on to its end and is the last:
 *
 *     0       the timeout was going to run again (it is periodic, or its task has rescheduled it), and will not.
 *     EBUSY   it was not, or not yet: a hwt_reschedule from its own task now returns ENOENT.  The timeout ends when
 *             the task returns, as HWT_EXPIRED; no stop hands it out.
 *
 * With both the task may still use arg; hwt_cancel_sync waits for it.
 *
 * Threads  any, tasks included, also that of the timeout itself.  Never waits for a task, never fails for want of
 *          memory.
 * Returns  0; EBUSY: the task is running, and this call neither interrupts it nor waits for its end; ENOENT: there is
 *          nothing to cancel any more (it ran, was cancelled, was handed out by a stop, its memory serves another one,
 *          the zero handle).
 * Order    after 0, what the thread that scheduled wrote before is visible to the caller.
 * Cost     one compare-and-swap; when the timeout has reached the wheel, also a push on the calling thread's lane,
 *          which like that of hwt_new_timeout wakes a sleeping worker when 4096 operations have gathered there.
 */
HWT_API int hwt_cancel(hwt_timeout timeout);

/*
 * Cancels a timeout, and waits for its task if that is running: when it returns 0 or ENOENT the task does not run and
 * never will.  So what arg points to may be freed, with 0 and with ENOENT, if the task itself has not.
 *
 * It cannot detect an indirect deadlock.  Do not hold a lock that the task may want.  Do not wait in a task for a task
 * that waits for this one, or that cannot begin before this one returns: on an executor of one thread every task that
 * is queued behind it.  Where that cannot be had, count references: the task holds one, and whoever drops the last one
 * frees.
 *
 * Threads  any, tasks included: of another timeout.
 * Returns  0: this call prevented the task, or further runs; ENOENT: there is nothing to cancel, or not any more: it
 *          ran, perhaps to its end during this call; EDEADLK: from within that very task, with nothing changed.
 * Order    what the task wrote is visible to the caller.
 * Cost     that of hwt_cancel; if it waits, system calls.
 */
HWT_API int hwt_cancel_sync(hwt_timeout timeout);

/*
 * Sets another time for a timeout that is pending: delay_ns from now.  0 says that it had not started to run, and now
 * has the new deadline: it never runs at the old one, nor before the new one.  Made for timeouts that are put off all
 * the time, as that of an idle connection with each packet: a later deadline is a few instructions and no queue
 * operation, and when the old time comes the worker looks at the new one.  An earlier one the worker is told at once.
 *
 * From its own task it re-arms the same handle: the task runs again at the new time, after it has returned.  So a task
 * can be its own scheduler, for back-off or for times of a calendar.  The last of several calls counts.  From this
 * call on the timeout is pending again for hwt_cancel and hwt_pending_timeouts, though its state is HWT_RUNNING until
 * the task has returned.  If somebody has cancelled the timeout since the task began, the call returns ENOENT and this
 * run is the last: so one hwt_cancel ends the series.
 *
 * Of a periodic one: the time of the next run, from which the periods count on.
 *
 * Threads  any, tasks included.  Does not wait for a task; waits some instructions for another reschedule of the same
 *          timeout.
 * Returns  0; EBUSY: its task is running, and this is not it: until the task has returned it alone says whether and
 *          when the timeout runs again; ENOENT: it has ended (ran, was cancelled, was handed out by a stop, its memory
 *          serves another one, the zero handle), or was cancelled while its task, which calls, is running; ENOMEM:
 *          there is no memory to tell the worker of an earlier deadline, the old one holds; ENOBUFS: from its own
 *          task, at max_pending_timeouts.
 * Order    the last of several calls counts; what the caller wrote before the call is visible to the task.
 * Cost     one clock read, two atomic operations; an earlier one that of hwt_new_timeout.  One timeout is in a queue
 *          once, however often it is moved.
 */
HWT_API int hwt_reschedule(hwt_timeout timeout, int64_t delay_ns);

/* The same for an absolute time on the clock of hwt_now(). */
HWT_API int hwt_reschedule_at(hwt_timeout timeout, int64_t deadline_ns);

/*
 * What is known of a timeout: a snapshot, old the moment it is returned, except that an ended timeout never comes back.
 * hwt_is_expired: HWT_RUNNING or HWT_EXPIRED.  hwt_is_cancelled: HWT_CANCELLED.  Both are false for a retired handle.
 *
 * Threads  any.
 * Order    HWT_EXPIRED: what the task wrote is visible to the caller.
 */
HWT_API hwt_state hwt_timeout_state(hwt_timeout timeout);
HWT_API bool hwt_is_expired(hwt_timeout timeout);
HWT_API bool hwt_is_cancelled(hwt_timeout timeout);

/* The timer of a handle, stale ones included; NULL for the zero handle. */
HWT_API hwt_timer *hwt_timeout_timer(hwt_timeout timeout);

/*
 * How many timeouts have been accepted and have neither started to run nor been cancelled.  Exact when nobody is in a
 * call; otherwise a value near those of the moment, never below 0.  0 for NULL.
 *
 * Cost     reads two counters a lane.
 */
HWT_API uint64_t hwt_pending_timeouts(const hwt_timer *timer);

/*
 * A timer in a loop of your own (HWT_CALLER_DRIVEN)
 *
 *   Such a timer has no thread.  Who calls hwt_timer_advance is its worker: tasks run in that call.  All other calls
 *   are as ever, from any thread.
 *
 *     for (;;) {                                   or, with hwt_timer_fd in the set of the poll:
 *             hwt_timer_advance(timer, hwt_now(), &next_ns);
 *             poll(..., until next_ns);                    poll(...); if (fd is readable) hwt_timer_advance(...);
 *     }
 *
 *   A virtual clock, to test what uses a timer without waiting: with HWT_VIRTUAL_CLOCK the timer's time begins at 0 and
 *   is the latest that hwt_timer_advance was told.  Delays count from it, and where this manual says CLOCK_MONOTONIC
 *   this clock is meant.  hwt_now() still reads CLOCK_MONOTONIC, and there is no descriptor.
 */

/*
 * Runs what is due at now_ns, at most what was accepted before, and says in *next_ns (may be NULL) when there is
 * something to do again: INT64_MAX if nothing is pending, now_ns or earlier if there is more to do at once.  The answer
 * is never late for what had been accepted when the call returned.  What is scheduled later for an earlier time, by a
 * task too, makes the descriptor of hwt_timer_fd readable; without one, ask again.  A now_ns earlier than one before
 * runs nothing.
 *
 * On CLOCK_MONOTONIC, delays count from the later of the clock and the times told.  A time behind the clock, as of a
 * loop that reads the clock once a turn, makes tasks run late, also when it is the first one.  A time ahead of the
 * clock makes them run early.
 *
 * Threads  any, one at a time.
 * Returns  0; EINVAL: timer is NULL or has no HWT_CALLER_DRIVEN, or this is the call that starts the timer, now_ns is
 *          0 or less, which CLOCK_MONOTONIC never is, and HWT_VIRTUAL_CLOCK is not set; EBUSY: a call is in progress,
 *          in another thread or in the task that makes this one; ECANCELED: the timer has been stopped, perhaps
 *          meanwhile.  *next_ns is written with 0 only.
 * Order    as if all calls were made by one thread, one after the other.
 * Cost     a mutex, a look at all lanes, what is due; with a descriptor also a system call to set it, and one so that
 *          producers need no fence (membarrier).
 */
HWT_API int hwt_timer_advance(hwt_timer *timer, int64_t now_ns, int64_t *next_ns);

/*
 * A descriptor that poll, epoll and their like find readable when hwt_timer_advance has something to do, also after
 * another thread has set an earlier timeout, and the first time at once.  hwt_timer_advance silences it; do not read
 * from it.  The same one in each call; it belongs to the timer and is closed by hwt_timer_destroy.
 *
 * Threads  any.
 * Returns  0 and *fd; EINVAL: timer or fd is NULL, the timer has no HWT_CALLER_DRIVEN, or has HWT_VIRTUAL_CLOCK; EBUSY:
 *          it was not made before, and hwt_timer_advance is in progress; ECANCELED after stop; ENOTSUP: not on this
 *          system (it is on Linux); EMFILE, ENFILE, ENOMEM: the system has none to give.
 */
HWT_API int hwt_timer_fd(hwt_timer *timer, int *fd);

/*
 * Statistics
 */

/* Numbers since the timer was created, if not said otherwise. */
typedef struct hwt_stats {
	size_t size; /* set by the caller: sizeof(hwt_stats) */

	/* Timeouts.  accepted = completed + cancelled + returned + pending + running, in each snapshot. */
	uint64_t accepted;
	uint64_t completed; /* their task has returned */
	uint64_t cancelled;
	uint64_t returned; /* by stop */
	uint64_t pending;  /* now; so are running ones that are going to run again */
	uint64_t running;  /* now, the others */

	uint64_t runs;           /* tasks that have started */
	uint64_t merged_periods; /* of periodic timeouts: runs that were left out */
	uint64_t rescheduled;    /* calls of hwt_reschedule* that returned 0 */

	/* Calls of hwt_new_timeout* that were refused: ENOBUFS, ECANCELED, ENOMEM. */
	uint64_t refused_limit;
	uint64_t refused_stopped;
	uint64_t refused_memory;
	uint64_t executor_refusals; /* tasks that the executor would not take */

	/* The worker; of a caller-driven timer, hwt_timer_advance. */
	uint64_t ticks;       /* at which something was due */
	uint64_t wakeups;     /* from sleep; calls of hwt_timer_advance */
	uint64_t transfers;   /* timeouts and cancellations taken out of the lanes */
	uint64_t backlog_max; /* the most that it found there at once */

	/* Memory held now, what is free for later timeouts included. */
	uint64_t records; /* timeouts for which there is memory */
	uint64_t bytes;

	/*
	 * How much later than its deadline the tick of a task began.  The clock is read once a tick: what a task waits
	 * for others of its own tick is not in here, but is at most tick_max_ns, the longest work of one tick.
	 */
	int64_t lateness_max_ns;
	int64_t tick_max_ns;
	uint64_t lateness[32]; /* tasks: [0] under 1 us late, [i] 2^(i-1) to 2^i us, [31] all above */
} hwt_stats;

/*
 * Writes statistics to *out, as far as out->size reaches.  Each number is exact; those under "timeouts" belong
 * together, others may be of moments some nanoseconds apart.
 *
 * Threads  any, at any time before destroy, after stop too.
 * Returns  0; EINVAL: timer or out is NULL, or out->size is too small for any number, or more than 4096.
 * Cost     some 20 ns for each lane that is in use, as hwt_timer_create tells: two short locks and some reads.
 *          Counting costs the timer next to nothing: no number is shared between threads that write.
 */
HWT_API int hwt_timer_stats(const hwt_timer *timer, hwt_stats *out);

/*
 * Helpers
 */

/*
 * Writes a timeout in words, for logs: "hwt timeout 0x7f32c4001040:17 pending, 1.204 s left" (or ", due since 0.002 s",
 * ", never due"), or running, expired, cancelled, retired, none.  A snapshot.
 *
 * Threads  any.
 * Returns  as snprintf: how many characters it takes, without the final 0, also if len is less; buf may be NULL if len
 *          is 0.
 * Cost     that of snprintf.  The timeout is only read: its order and its time stay what they are.
 */
HWT_API int hwt_timeout_format(hwt_timeout timeout, char *buf, size_t len);

/* CLOCK_MONOTONIC in nanoseconds. */
HWT_API int64_t hwt_now(void);

/* "MAJOR.MINOR.PATCH" of the library that is linked, where HWT_VERSION_* tell of the header. */
HWT_API const char *hwt_version(void);

#ifdef __cplusplus
}
#endif

#endif /* HWT_H */
