/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef HWT_H
#define HWT_H

/*
 * libhwt: a hashed wheel timer for multithreaded C.
 *
 * A timer runs functions, called tasks, at later times.  Any thread may schedule a timeout and cancel it; both take
 * some tens of nanoseconds, however many timeouts are pending.  The timer is made for servers: very many timeouts, most
 * of which are cancelled before they fire.  The price is precision.  Time is cut into ticks, which lie on the grid
 * start + n * tick_duration_ns, and a task runs at the first tick at or after its deadline.
 *
 * Each timer has one worker thread, which runs tasks one after another.  It starts with the first timeout, ends in
 * hwt_timer_stop, and sleeps until the next deadline; a timeout for an earlier time wakes it, a cancel does not.  With
 * config.task_threads or config.executor other threads run the tasks.  With HWT_CALLER_DRIVEN a timer has no thread,
 * and tasks run in your calls of hwt_timer_advance.
 *
 * First use
 *
 *     static void give_up(hwt_timeout timeout, void *request) { (void)timeout; refuse(request); }
 *     ...
 *     int rc = hwt_timer_create(&timer, NULL);          // a tick of 100 ms, and other defaults
 *     if (rc == 0) rc = hwt_new_timeout(timer, give_up, request, HWT_S(5), &limit);
 *     ...
 *     if (hwt_cancel(limit) == 0) free(request);        // otherwise give_up runs or ran: request is the task's
 *     ...
 *     hwt_timer_stop(timer, NULL);                      // when it returns no task runs any more
 *     while (hwt_timer_next_unprocessed(timer, &left)) free(left.arg);
 *     hwt_timer_destroy(timer);
 *
 *   A task is short, because it holds up the others.  It may schedule, cancel, and reschedule itself.  A first reader
 *   may stop here and go on with doc/guide.md: patterns, settings, and a cure for each error.
 *
 * Guarantees
 *
 *   G1 exactly one end.  Each accepted timeout has exactly one of these ends: its task has run, or one
 *      hwt_timer_advance_batch handed it out; one hwt_cancel or hwt_cancel_sync returned 0; one
 *      hwt_timer_next_unprocessed reported it.  This holds when all three race; a hwt_new_timeout that races a stop is
 *      accepted or returns ECANCELED.  What runs again ends with its last run, the cancel or the stop.
 *   G2 never early.  A task does not start before its deadline.  Without load it starts within one tick of it, plus the
 *      time that the system takes to wake a thread.
 *   G3 order.  A task sees what its scheduler wrote before the call.  Two timeouts of one thread that fall into the
 *      same tick, both accepted before it, run in the order of acceptance, unless one has been rescheduled.  On an
 *      executor and on task threads they may run at the same time, and in any order.
 *   G4 the count goes first.  A timeout stops counting as pending before its task starts, and before a cancel returns
 *      0.  So a task can re-arm itself at the limit, and a cancel makes room at once (max_pending_timeouts has the
 *      exception).  A periodic timeout counts as one until it is cancelled.
 *   G5 memory.  What a cancelled timeout held is free for reuse at most two ticks after the cancel, however far its
 *      deadline was, while the worker keeps up.  While it does not (a slow task, no processor, nobody calls
 *      hwt_timer_advance) cancelled timeouts wait for it, 64 bytes each, and what a task thread or an executor has
 *      waits for that.  A limit of pending timeouts bounds what waits (max_pending_timeouts); without one memory
 *      grows until the worker comes by.  In steady state no call allocates.  doc/guide.md, "Memory", has numbers and
 *      the way back to the system.
 *   G6 a slow task delays others and loses none.  The worker catches up tick by tick, then takes in what was scheduled
 *      meanwhile; what it takes in after its tick has passed runs at the next.  A thread that schedules faster than
 *      that delays the few threads that share its lane.
 *
 *   Not promised: precision below a tick; an order between threads; equal shares for the threads of one lane.
 *
 * What may run when
 *
 *   Any thread may make any call, with these exceptions.  "Threads" stands below where there is more to say.
 *
 *                                 with other calls             inside a task of this timer    after stop
 *     hwt_new_*                   any                          yes                            ECANCELED
 *     hwt_cancel                  any                          yes                            ENOENT
 *     hwt_cancel_sync             any                          yes; its own: EDEADLK          ENOENT
 *     hwt_reschedule*             any                          yes; its own: re-arms          ENOENT
 *     hwt_timeout_*, hwt_is_*, hwt_pending_timeouts, hwt_timer_each, hwt_timer_stats, hwt_timer_config, hwt_timer_user,
 *     hwt_timer_grid
 *                                 any                          yes                            yes
 *     hwt_timer_start             any                          yes, does nothing              ECANCELED
 *     hwt_timer_stop              any                          EDEADLK                        waits, does nothing
 *     hwt_timer_next_unprocessed  any                          yes                            yes: this is its use
 *     hwt_timer_advance*          any but itself (EBUSY)       EBUSY; in a stop: ECANCELED    ECANCELED
 *     hwt_timer_next              any but hwt_timer_advance*   EBUSY; in a stop: ECANCELED    ECANCELED
 *     hwt_timer_trim              any but hwt_timer_advance*   done after it; driven: EBUSY   ECANCELED
 *     hwt_timer_fd                any                          yes; the first call: EBUSY     ECANCELED
 *     hwt_timer_destroy           none, and none afterwards    EDEADLK                        yes
 *     hwt_timer_create, hwt_now, hwt_clock_now, hwt_version, hwt_warn_stderr: always
 *
 *   Not detected: a call in a signal handler, or in a forked child with a timer of its parent, may deadlock or corrupt
 *   the timer.  Write to a pipe; create the timer after the fork (doc/guide.md, "fork", says when a driven timer may go
 *   on in both).  fork followed by exec is fine.
 *
 * Errors
 *
 *   A function that can fail returns 0 or a positive errno value, as pthread functions do.  It leaves errno alone, and
 *   on failure it changes nothing, out-parameters included.  Under "Returns" a value stands alone where it means the
 *   following.  The library prints nothing but warnings (config.warn).
 *
 *     EINVAL     an argument makes no sense, or is NULL  ECANCELED  the timer has been stopped
 *     ENOMEM     no memory; nothing was accepted         EBUSY      the task is running, or an advance is in progress
 *     ENOBUFS    max_pending_timeouts are pending        ENOENT     the timeout has ended; nothing to cancel or move
 *     EDEADLK    the call would wait for itself          ENOTSUP    a setting that this build does not serve
 *
 * Time, signals, cancelled threads
 *
 *   Times are nanoseconds in int64_t, in names that end in _ns, on the timer's clock.  That is CLOCK_MONOTONIC, which
 *   hwt_now() reads: steps of the wall clock do not matter, and on Linux the time that a machine is suspended does not
 *   count.  With config.clock or HWT_VIRTUAL_CLOCK it is another one, and hwt_now() is no time of the timer's.
 *
 *   The threads of a timer block all signals but those of faults.  No call is a cancellation point, and a thread with
 *   PTHREAD_CANCEL_ASYNCHRONOUS must make none.  Before 1.0 the binary interface may change: rebuild for each 0.x.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HWT_VERSION_MAJOR 0
#define HWT_VERSION_MINOR 2
#define HWT_VERSION_PATCH 0

#if defined(__GNUC__)
#define HWT_API __attribute__((visibility("default")))
#else
#define HWT_API
#endif

/* Durations in nanoseconds.  The product must fit an int64_t (292 years). */
#ifdef __cplusplus
#define HWT_NS(n) static_cast<int64_t>(n)
#else
#define HWT_NS(n) ((int64_t)(n))
#endif
#define HWT_US(n) (INT64_C(1000) * HWT_NS(n))
#define HWT_MS(n) (INT64_C(1000000) * HWT_NS(n))
#define HWT_S(n) (INT64_C(1000000000) * HWT_NS(n))

/* A timer: a worker thread, a wheel and its timeouts.  One in a process is usual, 64 are plenty. */
typedef struct hwt_timer hwt_timer;

/* Timeouts */

/* A handle names one timeout.  It is a value: copy it, share it, keep it.  Until its timer is destroyed it never
 * dangles: once the timeout has ended, every call with the handle is harmless and says so, even when the memory behind
 * it serves a later timeout or has gone back to the system.  Two handles are equal when both members are. */
typedef struct hwt_timeout {
	void *entry;
	uint64_t generation;
} hwt_timeout;

/* The handle that names nothing, as one of zero bytes does.  Every function accepts it. */
#ifdef __cplusplus
#define HWT_TIMEOUT_NONE (hwt_timeout())
#else
#define HWT_TIMEOUT_NONE ((hwt_timeout){ NULL, 0 })
#endif

/* A task, called with the handle that hwt_new_timeout gave out.  It may make every call but stop and destroy of its own
 * timer, and may free what arg points to: the library never looks there.  A task must return, and so must a finaliser
 * and execute: with a longjmp, a C++ exception or pthread_exit out of one the behaviour is undefined. */
typedef void hwt_task(hwt_timeout timeout, void *arg);

/* A timeout that hwt_timer_advance_batch hands out. */
typedef struct hwt_fired {
	hwt_timeout timeout;
	void *arg;
	uint64_t missed; /* of a periodic one: how many periods were merged into this run */
} hwt_fired;

typedef enum hwt_state {
	HWT_NONE,      /* the zero handle */
	HWT_PENDING,   /* accepted, not yet run; also while it waits for a task thread or in an executor */
	HWT_RUNNING,   /* its task is running */
	HWT_EXPIRED,   /* its task has returned */
	HWT_CANCELLED, /* cancelled by hwt_cancel*, or by hwt_timer_stop */
	HWT_RETIRED    /* ended; its memory serves a later timeout or was given back, how it ended is no longer known */
} hwt_state;

/* Schedules task(timeout, arg) to run once, at the first tick at or after delay_ns from now, or deadline_ns on the
 * timer's clock.  A delay of 0 or less means the next tick, which is up to one tick away: 100 ms by default, on a
 * virtual clock too; a deadline in the past means the next tick at the latest.  A sum past INT64_MAX counts as
 * INT64_MAX, which never comes.  *out (may be NULL) is the handle, written before the task can start; other threads may
 * use it once this call has returned.
 * Returns  0; EINVAL; ECANCELED; ENOMEM; ENOBUFS: see max_pending_timeouts; what hwt_timer_start returns.
 * Threads  waits for no task and not for the worker, which the first call starts.
 * Order    the task sees what the caller wrote before the call: a release that the start of the task acquires.
 * Cost     a clock read, which hwt_new_timeout_at does not need; the uncontended lock of the thread's lane; some 60
 *          bytes.  At most one system call, to wake a worker that would sleep too long (doc/guide.md, "Wake-ups"). */
HWT_API int hwt_new_timeout(hwt_timer *timer, hwt_task *task, void *arg, int64_t delay_ns, hwt_timeout *out);
HWT_API int hwt_new_timeout_at(hwt_timer *timer, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out);

/* Schedules task(timeout, arg) to run again and again: at the first tick at or after first_delay_ns from now, then at
 * those at or after each further period_ns of that, without drift.  Runs never overlap, wherever tasks run.  Those
 * whose tick passes while the worker is late or the task still runs are merged into one, and so are the periods since a
 * first deadline in the past: hwt_timeout_missed.  hwt_cancel ends it, and a stop hands it out once.
 * Returns  as hwt_new_timeout; EINVAL also: period_ns is less than a tick.
 * Threads, Order  as hwt_new_timeout.
 * Cost     as hwt_new_timeout, always with a clock read, and 48 bytes more; in each period a new place in the wheel. */
HWT_API int hwt_new_periodic(hwt_timer *timer, hwt_task *task, void *arg, int64_t first_delay_ns, int64_t period_ns,
			     hwt_timeout *out);

/* Flags of hwt_spec. */
#define HWT_ABSOLUTE 256u /* when_ns is a deadline */

/* Everything a timeout can have.  A program leaves at 0 what it does not set. */
typedef struct hwt_spec {
	size_t size;    /* sizeof(hwt_spec) */
	hwt_task *task; /* NULL with HWT_COLLECT */
	void *arg;
	int64_t when_ns;   /* a delay; with HWT_ABSOLUTE a deadline on the timer's clock */
	int64_t period_ns; /* 0: once; otherwise the period, as for hwt_new_periodic */
	/* The finaliser, or NULL.  The library calls it exactly once, when it is done with arg: after the last run,
	 * soon after the cancel, or for what a stop handed back in hwt_timer_destroy.  It runs where tasks run, or in
	 * stop and destroy, never in hwt_cancel, and may do what a task may.  doc/guide.md, "Finalisers". */
	void (*release)(void *arg);
	uint32_t flags; /* 0 or HWT_ABSOLUTE */
} hwt_spec;

/* A delay of 0, once, without a finaliser.  The task is yours to set. */
/* clang-format off */
#define HWT_SPEC_INIT { sizeof(hwt_spec), NULL, NULL, 0, 0, NULL, 0 }
/* clang-format on */

/* Schedules what *spec says, and copies it.  With a finaliser arg is then the library's, also after a hwt_cancel that
 * returned 0.  If this call fails arg is the caller's.
 * Returns  as hwt_new_timeout; EINVAL also: size is too small or above 4096, a period is less than a tick, a flag is
 *          unknown, a finaliser with HWT_COLLECT; ENOTSUP: a setting of a newer header.
 * Threads, Order  as hwt_new_timeout.
 * Cost     as hwt_new_timeout; with a period or a finaliser 48 bytes more, and a cancel
 *          of one with a finaliser may wake the worker. */
HWT_API int hwt_new_timeout_ex(hwt_timer *timer, const hwt_spec *spec, hwt_timeout *out);

/* Cancels a timeout.  0 says that this very call prevented the task: it has not started and never will, and arg is the
 * caller's again, or the finaliser's if there is one.  Whatever the call returns, no run begins afterwards.  A run in
 * progress goes on to its end and is the last; it may still use arg, so do not free that.  In such a run the call
 * returns 0 if the task was going to run again (it is periodic, or has rescheduled itself), and EBUSY if it was not, or
 * not yet: a hwt_reschedule from the task now returns ENOENT, and the timeout ends as HWT_EXPIRED with the run.
 * Returns  0; EBUSY: the task is running; ENOENT: the timeout has ended (it ran, was cancelled, was handed out by a
 *          stop, its memory serves another one), or the handle is zero.  Never ENOMEM.
 * Threads  never waits for a task.
 * Order    after 0 the caller sees what the thread that scheduled wrote before.
 * Cost     one compare-and-swap; if the timeout has reached the wheel also a push on the calling thread's lane. */
HWT_API int hwt_cancel(hwt_timeout timeout);

/* Cancels a timeout and waits for its task, if that has begun.  When it returns 0 or ENOENT the task does not run and
 * never will: arg may be freed, unless the task or a finaliser frees it, for which the call does not wait.  It cannot
 * detect an indirect deadlock: hold no lock that the task may want (doc/guide.md, "Freeing arg").
 * Returns  0: this call prevented the task, or its further runs; ENOENT: the timeout has ended, perhaps during this
 *          call; EDEADLK: called in the timeout's own task, nothing has changed.
 * Order    the caller sees what the task wrote.
 * Cost     that of hwt_cancel; system calls if it waits. */
HWT_API int hwt_cancel_sync(hwt_timeout timeout);

/* Moves a pending timeout to delay_ns from now, or to deadline_ns on the timer's clock.  0 says that the task had
 * not started and has the new deadline: it runs neither at the old one nor before the new one.  Of a periodic timeout
 * it sets the next run, from which the periods count on.  It does not revive a timeout that has ended.
 *
 * From its own task it re-arms the same handle: the task runs again at the new time, after it has returned.  From this
 * call on the timeout is pending again for hwt_cancel and hwt_pending_timeouts; its state is HWT_RUNNING until the task
 * has returned.  If it has been cancelled since the task began, the call returns ENOENT and this run is the last.
 * Returns  0; EBUSY: the task is running, and is not the caller: it alone decides whether the timeout runs again;
 *          ENOENT, also in its own task: it was cancelled; ENOMEM: no memory to tell the worker of an earlier deadline,
 *          the old one holds; ENOBUFS: in its own task.
 * Threads  waits for no task; waits some instructions for another reschedule of the same timeout.
 * Order    the last of several calls counts.  The task sees what the caller wrote before the call.
 * Cost     one clock read, which hwt_reschedule_at does not need, and two atomic operations; an earlier deadline costs
 *          as much as hwt_new_timeout. */
HWT_API int hwt_reschedule(hwt_timeout timeout, int64_t delay_ns);
HWT_API int hwt_reschedule_at(hwt_timeout timeout, int64_t deadline_ns);

/* How far a timeout has come: a snapshot, except that an ended timeout never comes back.  hwt_is_expired is true for
 * HWT_RUNNING and HWT_EXPIRED, hwt_is_cancelled for HWT_CANCELLED; both are false for HWT_RETIRED.  hwt_timeout_timer
 * returns its timer, also when it has ended.
 * Returns  as above; HWT_NONE, false, NULL of the zero handle.  With HWT_EXPIRED the caller sees what the task wrote.
 * Cost     some reads of the timeout's memory. */
HWT_API hwt_state hwt_timeout_state(hwt_timeout timeout);
HWT_API bool hwt_is_expired(hwt_timeout timeout);
HWT_API bool hwt_is_cancelled(hwt_timeout timeout);
HWT_API hwt_timer *hwt_timeout_timer(hwt_timeout timeout);

/* hwt_timeout_left writes the time until the deadline to *left_ns: 0 or less when the task is due and has not started,
 * INT64_MAX if it is never due.  During a reschedule the old or the new deadline counts.
 * hwt_timeout_missed tells a task how many periods were merged into this run of its periodic timeout.
 * hwt_timeout_format writes words for a log: "hwt timeout 0x7f32c4001040:17 pending, 1.204 s left".
 * Returns  left: 0; EINVAL; EBUSY: the task is running; ENOENT.  missed: 0 outside of the task or with another handle.
 *          format: as snprintf, the length without the final 0, even if len is less; buf may be NULL if len is 0.
 * Cost     some reads of the timeout's memory, and a clock read; that of snprintf. */
HWT_API int hwt_timeout_left(hwt_timeout timeout, int64_t *left_ns);
HWT_API uint64_t hwt_timeout_missed(hwt_timeout timeout);
HWT_API int hwt_timeout_format(hwt_timeout timeout, char *buf, size_t len);

/* The number of timeouts that have been accepted and have neither started to run nor been cancelled.
 * Returns  exact while no thread is in a call, otherwise near it, never below 0 nor above the limit; 0 for NULL.
 * Cost     some six reads for each lane and two for each task thread, up to four times while timeouts end meanwhile. */
HWT_API uint64_t hwt_pending_timeouts(const hwt_timer *timer);

/* A timeout, as hwt_timer_each shows it. */
typedef struct hwt_pending {
	hwt_timeout timeout;
	hwt_task *task; /* NULL with HWT_COLLECT */
	void *arg;
	/* On the timer's clock.  While the task runs: of a timeout that runs once, the deadline of this run; of a
	 * timeout that runs again, the next deadline. */
	int64_t deadline_ns;
	int64_t period_ns; /* 0: once */
	hwt_state state;   /* HWT_PENDING or HWT_RUNNING; after a stop HWT_CANCELLED */
} hwt_pending;

/* Calls visit(ctx, pending) for each timeout that is pending or running, in no order; a visit that returns false is the
 * last.  A timeout that is pending during the whole call is visited exactly once, also if it is moved meanwhile, with
 * the old deadline or the new one.  A timeout that begins or ends meanwhile is visited once or not at all.  task, arg
 * and period_ns belong to the handle; state and deadline_ns may be some instructions apart.  A timeout that was
 * cancelled in its run is HWT_RUNNING until its task returns.  After a stop the call visits the timeouts that
 * hwt_timer_next_unprocessed has not handed out yet; a stop during the call may end it early.  doc/guide.md, "What is
 * pending".
 * Returns  0; EINVAL.
 * Threads  any number at once; holds up no other thread, and takes no lock while the timer runs.  visit may make every
 *          call but hwt_timer_destroy, and may cancel what it is shown.  It returns: no longjmp and no exception leaves
 *          it.  A pthread_cancel of the thread takes effect after the call.
 * Cost     some 10 ns for each record that the timer has memory for (hwt_stats.records), and the visits. */
HWT_API int hwt_timer_each(hwt_timer *timer, bool (*visit)(void *ctx, const hwt_pending *pending), void *ctx);

/* Settings */

/* Flags of hwt_config. */
#define HWT_FINE_TICKS 1u    /* ticks of 10 us to 1 ms are honoured; see tick_duration_ns */
#define HWT_CALLER_DRIVEN 2u /* no worker: tasks run in hwt_timer_advance */
#define HWT_VIRTUAL_CLOCK 4u /* with HWT_CALLER_DRIVEN: the times told to hwt_timer_advance are the clock, from 0 on */
#define HWT_COLLECT 8u       /* with HWT_CALLER_DRIVEN: no tasks; hwt_timer_advance_batch hands timeouts out */

/* Values of hwt_config.clock, the clock of all times of a timer.  With HWT_CLOCK_BOOTTIME timeouts that become due
 * while the machine is suspended run when it wakes up.  With HWT_CLOCK_REALTIME deadlines are times of the day: a step
 * forward makes the timeouts due that it passes, and merges periods; after a step back pending timeouts wait for their
 * deadlines. */
#define HWT_CLOCK_MONOTONIC 0u
#define HWT_CLOCK_BOOTTIME 1u
#define HWT_CLOCK_REALTIME 2u

/* Values of hwt_config.wheel. */
#define HWT_WHEEL_HASHED 0u       /* one wheel, remaining rounds */
#define HWT_WHEEL_HIERARCHICAL 1u /* levels of wheels, each coarser by ticks_per_wheel than the one below */

/* Threads of the program that run tasks.  For each due timeout the worker, or hwt_timer_advance, calls execute.
 * execute arranges that some thread calls run(job) once, and returns 0; or it returns an errno value, and the worker
 * calls run(job) itself.  Until run begins the task the timeout is pending: it can be cancelled or moved, and run then
 * only tidies up.  hwt_timer_stop waits until each job that execute accepted has been run.  execute must not wait for a
 * task of this timer, nor stop or destroy the timer. */
typedef struct hwt_executor {
	int (*execute)(void *ctx, void (*run)(void *job), void *job);
	void *ctx;
} hwt_executor;

/* Settings of a timer.  Start from HWT_CONFIG_INIT and change what you need. */
typedef struct hwt_config {
	size_t size; /* sizeof(hwt_config), by which a program built against an older header is served */
	/* Default 100 ms.  Above 0.  Below 1 ms it is raised to 1 ms with a warning; with HWT_FINE_TICKS, below 10 us
	 * to 10 us.  No tick is more precise than the system wakes a thread: some 50 us on an idle machine. */
	int64_t tick_duration_ns;
	/* Default 512.  1 to 2^30 buckets, rounded up to a power of two; in a hierarchical wheel 2 or more a level. */
	uint32_t ticks_per_wheel;
	/* Default 100000.  At least 1.  The most operations of all lanes that are taken in between two clock reads. */
	uint32_t max_transfers_per_tick;
	/* Default 0.  How many timeouts may be pending; more are refused with ENOBUFS.  0 and below: no limit.  Fewer
	 * are refused, too, while more than 262144 plus four times the limit wait in a lane for the worker (G5),
	 * cancelled ones included. */
	int64_t max_pending_timeouts;
	uint32_t flags; /* 0 or HWT_FINE_TICKS | HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK | HWT_COLLECT */
	uint32_t wheel; /* HWT_WHEEL_HASHED or HWT_WHEEL_HIERARCHICAL: doc/wheels.md compares them */
	/* For all threads of the timer, which must be joinable; NULL: defaults.  Valid until the worker has started. */
	const pthread_attr_t *thread_attr;
	const char *thread_name; /* NULL: "hwt-worker".  hwt_timer_create copies the first 15 characters */
	/* Called with a line of text without a newline.  hwt_timer_create calls it with a warning.  A call that returns
	 * EINVAL for a hwt_config, except for its size, or for a hwt_spec calls it with the name of the bad field, on
	 * the thread of that call: perhaps several at once, also in a task.  It and warn_ctx are valid until
	 * hwt_timer_destroy has returned.  NULL: silent.  doc/guide.md, "Errors". */
	void (*warn)(void *ctx, const char *message);
	void *warn_ctx;
	const hwt_executor *executor; /* NULL: tasks run on the worker.  hwt_timer_create copies it */
	uint64_t reserved[8];         /* 0 */
	/* Default 0: tasks run on the worker.  1 to 1024: this number of threads of the library run them instead, and a
	 * slow task delays others only while all threads are in slow tasks.  Until a thread begins the task the timeout
	 * is pending.  EINVAL with executor, with HWT_CALLER_DRIVEN, or with a thread_attr that names a stack. */
	uint32_t task_threads;
	uint32_t clock; /* HWT_CLOCK_MONOTONIC, _BOOTTIME or _REALTIME; 0 with HWT_VIRTUAL_CLOCK */
	/* Default 0: no bound.  Only with HWT_CALLER_DRIVEN.  The most tasks that an advance runs or hands over. */
	uint32_t max_tasks_per_advance;
	/* Default NULL.  Only with HWT_CALLER_DRIVEN.  Called when hwt_timer_advance has to be called earlier than it
	 * answered last: at most once for each advance and not before the first, by the thread whose call is the cause,
	 * with no lock of the library held.  It must not advance, stop or destroy the timer.  doc/guide.md, "A loop of
	 * your own". */
	void (*on_earlier)(void *ctx);
	void *on_earlier_ctx;
	void *user; /* yours: hwt_timer_user returns it, and the library does not look at it */
} hwt_config;

/* Every default above. */
/* clang-format off */
#define HWT_CONFIG_INIT                                                                             \
	{                                                                                           \
		sizeof(hwt_config), HWT_MS(100), 512, 100000, 0, 0, HWT_WHEEL_HASHED, NULL, NULL,   \
		hwt_warn_stderr, NULL, NULL, { 0, 0, 0, 0, 0, 0, 0, 0 }, 0, 0, 0, NULL, NULL,       \
		NULL                                                                                \
	}
/* clang-format on */

/* The warning function of HWT_CONFIG_INIT: writes "hwt: message" and a newline to stderr.  It does not use ctx.
 * Cost     that of fprintf. */
HWT_API void hwt_warn_stderr(void *ctx, const char *message);

/* A timeout that had neither run nor been cancelled when its timer was stopped. */
typedef struct hwt_unprocessed {
	hwt_timeout timeout;
	hwt_task *task; /* NULL with HWT_COLLECT */
	void *arg;
	int64_t deadline_ns; /* of a delay right to some nanoseconds: doc/guide.md, "Settings" */
} hwt_unprocessed;

/* Life cycle */

/* Creates a timer and starts no thread.  A config of NULL means HWT_CONFIG_INIT.
 * Returns  0 and *timer; EINVAL: a field is out of range, or tick_duration_ns >= INT64_MAX / ticks_per_wheel; ENOTSUP:
 *          a clock that the system lacks, a setting of a newer header; ENOMEM; EMFILE, ENFILE, EPERM: with another
 *          clock than CLOCK_MONOTONIC, the system refuses the worker's descriptor.
 * Cost     some 20 KiB with the default settings; 15 KiB more with the first thread that schedules, 5 to 11 with each
 *          further one, up to the number of lanes: doc/guide.md, "Memory". */
HWT_API int hwt_timer_create(hwt_timer **timer, const hwt_config *config);

/* Starts the worker, and returns once it has set the start time, from which ticks are counted.  The first timeout does
 * this by itself: call it to learn early that no thread can be created, or to keep that timeout fast.
 * Returns  0, also if the timer has been started; EINVAL; ECANCELED; the error of pthread_create, for the worker or a
 *          task thread, after which the timer is as before, has no thread, and may be started again.
 * Threads  any number at once: one starts the worker, the others wait for it.
 * Cost     creates one thread, and task_threads more; one read if the timer has been started. */
HWT_API int hwt_timer_start(hwt_timer *timer);

/* Writes the time of tick 0 on the timer's clock to *start_ns: the moment of the start, or 1970 on HWT_CLOCK_REALTIME,
 * or 0 with HWT_VIRTUAL_CLOCK.  Tick n lies n * tick_duration_ns later; hwt_timer_config has the duration in force.
 * Returns  0 and *start_ns, the same each time; EINVAL; ENOENT: the timer has not been started, or never was.
 * Cost     some reads. */
HWT_API int hwt_timer_grid(const hwt_timer *timer, int64_t *start_ns);

/* Stops the timer for good.  It waits for the task that is running (on task threads, for all that are); those due
 * behind it do not run any more.  When it returns, the timer's threads have exited, no task runs or will run, and every
 * accepted timeout that had neither run nor been cancelled is cancelled and waits in hwt_timer_next_unprocessed;
 * *unprocessed (may be NULL) is their number.  From the moment of the call on, hwt_new_timeout may be refused.  It
 * cannot detect an indirect deadlock: hold no lock that a task or a finaliser may want.
 * Returns  0; EINVAL; EDEADLK: called in a task of this timer.
 * Threads  a second or concurrent call waits for the first, then reports 0.
 * Order    the caller sees what the tasks wrote.
 * Cost     one cancel for each pending timeout, and the wait.  Never allocates. */
HWT_API int hwt_timer_stop(hwt_timer *timer, size_t *unprocessed);

/* Hands out one timeout that the stop gave back, each exactly once, in no particular order.  Its state is HWT_CANCELLED
 * and its arg is the caller's again.  With a finaliser arg may be read until hwt_timer_destroy calls the finaliser.
 * Returns  true and *out; false, with *out untouched, when none is left or the timer has not been stopped.
 * Cost     a mutex. */
HWT_API bool hwt_timer_next_unprocessed(hwt_timer *timer, hwt_unprocessed *out);

/* Stops the timer if need be, and frees it.  All its handles die here: no call with one may be in progress or come
 * later.  NULL is a no-op.
 * Returns  0; EDEADLK: called in a task of this timer.
 * Cost     that of hwt_timer_stop, the finalisers of what the stop gave back, and freeing all memory. */
HWT_API int hwt_timer_destroy(hwt_timer *timer);

/* hwt_timer_config writes the settings in force (the tick after its floor, the wheel after rounding) to *out, as far as
 * out->size reaches, which the caller sets.  A second timer can be made from them.  executor and thread_name point into
 * the timer, thread_attr is NULL.  hwt_timer_user returns config.user alone.
 * Returns  0; EINVAL, also if out->size is too small for any setting or above 4096.  NULL for NULL.
 * Cost     copies the structure; one read. */
HWT_API int hwt_timer_config(const hwt_timer *timer, hwt_config *out);
HWT_API void *hwt_timer_user(const hwt_timer *timer);

/*
 * A timer in a loop of your own (HWT_CALLER_DRIVEN)
 *
 * Such a timer has no thread: tasks run in hwt_timer_advance, on the thread that calls it, or on an executor.  All
 * other calls are as ever.  With HWT_VIRTUAL_CLOCK the timer's time begins at 0 and is the latest that it was told.
 */

/* Runs what is due at now_ns and was accepted before the call, as far as max_tasks_per_advance allows; what its tasks
 * schedule waits for a later one.  *next_ns (may be NULL) says when there is work again: INT64_MAX if nothing is
 * pending, now_ns or earlier if there is more to do at once.  It may be early, and is never late for what was accepted
 * before the call; what comes later makes the descriptor of hwt_timer_fd readable and calls on_earlier.  A time behind
 * the clock makes tasks run late, a time ahead of it early; one earlier than a time before runs at most what a bound
 * had left, and deadlines that were in the past.  The caller may hold a lock of its own across the call.  doc/guide.md,
 * "A loop of your own", has the details.
 * Returns  0; EINVAL: the timer has no HWT_CALLER_DRIVEN, or has HWT_COLLECT, or the time is refused: a first one of 0
 *          or less, with HWT_VIRTUAL_CLOCK any below 0; EBUSY: an advance is in progress, in another thread or around
 *          the task that calls; ECANCELED: the timer has been stopped, perhaps meanwhile.  *next_ns: with 0 only.
 * Threads  one at a time.
 * Order    as if one thread made all calls, one after the other.
 * Cost     some 100 instructions if nothing is due and what has come in is due after the answer.  Else what is due.  A
 *          descriptor takes a system call when it has to be set, and with it or on_earlier comes a membarrier. */
HWT_API int hwt_timer_advance(hwt_timer *timer, int64_t now_ns, int64_t *next_ns);

/* hwt_timer_advance for a timer with HWT_COLLECT, which calls no function of yours for a timeout: every task is NULL,
 * there are no finalisers, and it has no executor.  What would run is written to out[0] up to out[*fired - 1], at most
 * n, in the order of ticks, and within a tick as G3 says.  When the call returns each has ended, as if its task had
 * returned; a periodic one is pending again.  A cancel takes nothing out of a batch: it says ENOENT, or 0 of a periodic
 * one, whose run that is its last.  *next_ns (may be NULL) is the answer of hwt_timer_advance, never earlier than
 * now_ns, which it is if more are due than n or max_tasks_per_advance, or if the timer has been stopped meanwhile.
 * With n == 0, where out may be NULL, it takes in what has come, unless a tick was handed out in part, and hands out
 * nothing.
 * Returns  0; EINVAL: the timer has no HWT_COLLECT, fired is NULL, out is NULL and n is not 0, or the time is refused;
 *          EBUSY, ECANCELED: as hwt_timer_advance.  *fired and *next_ns are written with 0 only.
 * Threads  one at a time.  Meanwhile other threads find what it is handing out HWT_RUNNING: EBUSY.
 * Order    the caller sees what the threads that scheduled wrote before.
 * Cost     that of hwt_timer_advance; some 20 ns for each timeout. */
HWT_API int hwt_timer_advance_batch(hwt_timer *timer, int64_t now_ns, hwt_fired *out, size_t n, size_t *fired,
				    int64_t *next_ns);

/* When hwt_timer_advance has work again, without running anything: the least of what it answered last and of what has
 * come since, on the grid.  Never later than the first tick at which something pending would run.  If the earliest
 * timeout has been cancelled since, its time may still be the answer.  A time that has passed says "at once": something
 * is due or was due when it came, a finaliser is to be called, or thousands of operations have gathered.  INT64_MAX
 * only if nothing that can become due is pending.
 * Returns  0 and *next_ns; EINVAL, also without HWT_CALLER_DRIVEN; EBUSY, also around the task that calls; ECANCELED.
 * Threads  waits some instructions for the begin or the end of an advance, and for a trim.
 * Cost     an atomic exchange and some seven loads for each lane. */
HWT_API int hwt_timer_next(hwt_timer *timer, int64_t *next_ns);

/* Gives memory that no timeout needs now back to the system, as the worker does by itself some seconds after a burst.
 * A timer in the caller's loop gives memory back in this call only.  Handles remain harmless.  *bytes (may be NULL)
 * becomes how much has gone back during the call, whichever caller asked for it.  In a task, or after a second of a
 * busy worker, the call only asks, and *bytes is mostly 0.  doc/guide.md, "Memory", says what goes.
 * Returns  0; EINVAL; ECANCELED after stop, perhaps meanwhile; EBUSY with HWT_CALLER_DRIVEN: an advance is in progress.
 *          *bytes is written with 0 only.
 * Threads  waits for the worker, but not for longer than a second; in a task it does not wait.  With HWT_CALLER_DRIVEN
 *          the caller does the work, and an advance of another thread waits for it.
 * Cost     some 10 ns for each slab of 2 MiB, and a system call for each that goes. */
HWT_API int hwt_timer_trim(hwt_timer *timer, size_t *bytes);

/* A descriptor that poll, epoll and their like find readable when hwt_timer_advance has something to do: also after
 * another thread has set an earlier timeout, after a stop, and the first time at once.  hwt_timer_advance silences it;
 * do not read from it.  It is close-on-exec, the same in each call, belongs to the timer and is closed by
 * hwt_timer_destroy.  doc/guide.md, "A loop of your own", says how to watch it edge-triggered.
 * Returns  0 and *fd; EINVAL: the timer has no HWT_CALLER_DRIVEN or has HWT_VIRTUAL_CLOCK; EBUSY: this is the first
 *          call, and an advance is in progress; ECANCELED; ENOTSUP: not on this system (it is on Linux); EMFILE,
 *          ENFILE, ENOMEM, EPERM: the system refuses.
 * Cost     a mutex; the first time some system calls. */
HWT_API int hwt_timer_fd(hwt_timer *timer, int *fd);

/* Statistics */

/* Numbers since the timer was created, unless a line says "now". */
typedef struct hwt_stats {
	size_t size; /* set by the caller: sizeof(hwt_stats) */
	/* Timeouts, each in one of five states: accepted = completed + cancelled + returned + pending + running. */
	uint64_t accepted;
	uint64_t completed;      /* ended by the return of their last run; a periodic one is pending until then */
	uint64_t cancelled;      /* ended by a cancel that returned 0 */
	uint64_t returned;       /* ended by hwt_timer_stop */
	uint64_t pending;        /* now: waiting for a run, or in a run that is not the last */
	uint64_t running;        /* now: in a run that is the last, as far as is known */
	uint64_t runs;           /* tasks that have started: a periodic timeout adds one for each run */
	uint64_t merged_periods; /* runs of periodic timeouts that were left out */
	uint64_t rescheduled;    /* calls of hwt_reschedule* that returned 0 */
	/* Calls of hwt_new_timeout* that were refused: ENOBUFS, ECANCELED, ENOMEM. */
	uint64_t refused_limit;
	uint64_t refused_stopped;
	uint64_t refused_memory;
	uint64_t executor_refusals; /* tasks that the executor would not take */
	/* The worker; of a caller-driven timer, hwt_timer_advance. */
	uint64_t ticks;       /* at which tasks have started */
	uint64_t wakeups;     /* from sleep; calls of hwt_timer_advance */
	uint64_t transfers;   /* timeouts and cancellations taken out of the lanes */
	uint64_t backlog_max; /* the most that it found there at once */
	/* Memory held now, what is free for later timeouts included. */
	uint64_t records; /* timeouts for which there is memory */
	uint64_t bytes;
	/* How much later than its deadline the tick of a task began; on task threads and executors, the task itself.
	 * A task also waits for those of its tick that run before it.  That wait is not in the number, and is at most
	 * tick_max_ns. */
	int64_t lateness_max_ns;
	int64_t tick_max_ns;   /* the longest work of a tick */
	uint64_t lateness[32]; /* tasks: [0] under 1 us late, [i] 2^(i-1) to 2^i us, [31] all above */
	/* Task threads: now waiting for one; the longest wait, of a sample: one of those that wait at a time. */
	uint64_t tasks_waiting;
	int64_t task_wait_max_ns;
} hwt_stats;

/* Writes statistics to *out, as far as out->size reaches.  Each number is exact, but for task_wait_max_ns; those of
 * timeouts belong together, the others may be of moments some nanoseconds apart.
 * Returns  0; EINVAL: out->size is too small for any number or above 4096.
 * Cost     two short locks and some reads, some 20 ns, for each lane in use; some 50 ns for each task thread. */
HWT_API int hwt_timer_stats(const hwt_timer *timer, hwt_stats *out);

/* CLOCK_MONOTONIC; each clock that a timer can have (HWT_CLOCK_*); the version of the library that is linked.
 * Returns  nanoseconds; of a clock that is unknown here -1; "MAJOR.MINOR.PATCH", a constant.
 * Cost     that of clock_gettime, some 30 ns; none. */
HWT_API int64_t hwt_now(void);
HWT_API int64_t hwt_clock_now(uint32_t clock);
HWT_API const char *hwt_version(void);

#ifdef __cplusplus
}
#endif

#endif /* HWT_H */
