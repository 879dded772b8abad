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
 * Threads hand their calls over in lanes.  At most a few threads share a lane, so producers do not wait for each other.
 * One worker thread per timer starts with the first timeout, takes in what the lanes have, runs tasks one after
 * another, and ends in hwt_timer_stop.  With config.task_threads it has threads beside it that run the tasks.  While
 * many calls come in it looks once a tick, otherwise it sleeps until the next deadline, or without end.  A timeout for
 * an earlier time wakes it, a cancel does not.  doc/guide.md, "Wake-ups", lists the few that find nothing to do.
 *
 * Usage, by role
 *
 *   You schedule and cancel.  The answer of hwt_cancel says whether arg is yours:
 *
 *     int rc = hwt_new_timeout(timer, give_up, request, HWT_S(5), &limit);
 *     if (rc != 0) return rc;                          // nothing was accepted: request is still yours
 *     ...
 *     if (hwt_cancel(limit) == 0)
 *             free(request);                           // EBUSY, ENOENT: give_up runs or ran, and frees it
 *
 *   You write tasks.  A task is short, for it holds up the others (doc/guide.md, "Slow tasks", has cures), and it
 *   returns.  It may schedule, cancel and re-arm:
 *
 *     static void attempt(hwt_timeout timeout, void *arg)
 *     {
 *             if (!connect_to(arg) && hwt_reschedule(timeout, HWT_S(2)) != 0)
 *                     abandon(arg);                    // the timeout has been cancelled: this run is the last
 *     }
 *
 *   You own the timer.  Stop what schedules, then the timer; then take back what is left:
 *
 *     hwt_config config = HWT_CONFIG_INIT;             // a tick of 100 ms, and other defaults
 *     if (hwt_timer_create(&timer, &config) != 0) ...
 *     hwt_timer_stop(timer, NULL);
 *     while (hwt_timer_next_unprocessed(timer, &left)) free(left.arg);
 *     hwt_timer_destroy(timer);
 *
 *   You have a loop of your own.  With config.flags = HWT_CALLER_DRIVEN a timer has no thread; tasks run in your call:
 *
 *     hwt_timer_fd(timer, &set[0].fd);                 // one more descriptor, for POLLIN
 *     poll(set, n, -1);
 *     if (set[0].revents) hwt_timer_advance(timer, hwt_now(), NULL);
 *
 *   You come from another language, for which a call from C is expensive or forbidden.  With HWT_COLLECT the library
 *   calls nothing and hands out what is due, a hundred at a time: hwt_timer_advance_batch.
 *
 * Guarantees
 *
 *   G1 exactly one end.  Each accepted timeout has exactly one of these ends: its task has run, or one
 *      hwt_timer_advance_batch handed it out; one hwt_cancel or hwt_cancel_sync returned 0; one
 *      hwt_timer_next_unprocessed reported it.  This holds when all three race.  A hwt_new_timeout that races
 *      hwt_timer_stop wins, and its timeout has one of these ends, or returns ECANCELED.  A periodic timeout, or one
 *      whose task reschedules it, ends with its last run, the cancel or the stop.
 *   G2 never early.  A task does not start before its deadline.  Without load it starts within one tick of it, plus the
 *      time that the system takes to wake a thread.
 *   G3 order.  A task sees what its scheduler wrote before the call.  Two timeouts of one thread that fall into the
 *      same tick, both accepted before it, run in the order of acceptance, unless one has been rescheduled.  On an
 *      executor and on task threads they may run at the same time, and in any order.
 *   G4 the count goes first.  A timeout stops counting as pending before its task starts, and before a cancel returns
 *      0.  So a task can re-arm itself at the limit, and a cancel makes room at once.  A periodic timeout counts as one
 *      until it is cancelled.
 *   G5 memory.  What a cancelled timeout held is free for reuse at most two ticks after the cancel, however far its
 *      deadline was, while the worker keeps up.  While it does not (it is in a slow task, it has no processor, or
 *      nobody calls hwt_timer_advance) cancelled timeouts wait for it, but those that a thread cancels before it
 *      schedules another one: the next timeout uses their memory at once.  With a limit of pending timeouts there is an
 *      end to what waits (max_pending_timeouts); without one memory grows until the worker comes by.  A worker that
 *      sleeps, the descriptor of hwt_timer_fd and on_earlier hear when 4096 operations have gathered in a lane; a loop
 *      with neither must advance now and then.  What is cancelled while it waits for a task thread stays there until
 *      one is free, or the worker hands over more: fewer than 4096, or than twice as many as have waited there pending.
 *      What is cancelled while an executor has it stays until that has run the job.  In steady state no call allocates.
 *      Some seconds after a burst the worker gives back to the system what it does not need (hwt_timer_trim).
 *   G6 a slow task delays others and loses none.  The worker catches up tick by tick, then takes in what was scheduled
 *      meanwhile.  A timeout that it takes in after its tick has passed runs at the next tick.  A thread that schedules
 *      faster than that delays the threads of its own lane, and no others.  hwt_timer_advance runs what was accepted
 *      before the call and is due.
 *
 *   Not promised: precision below a tick; an order between threads; equal shares for the threads of one lane.
 *
 * What may run when
 *
 *                                 with other calls             inside a task of this timer    after stop
 *     hwt_new_timeout*            any                          yes                            ECANCELED
 *     hwt_cancel                  any                          yes                            ENOENT
 *     hwt_cancel_sync             any                          yes; its own: EDEADLK          ENOENT
 *     hwt_reschedule*             any                          yes; its own: re-arms          ENOENT
 *     states, queries             any                          yes                            yes
 *     hwt_reserve                 any                          yes                            ECANCELED
 *     hwt_timer_start             any                          yes, does nothing              ECANCELED
 *     hwt_timer_stop              any                          EDEADLK                        waits, does nothing
 *     hwt_timer_next_unprocessed  any                          yes                            yes: this is its use
 *     hwt_timer_advance*          any but itself (EBUSY)       EBUSY                          ECANCELED
 *     hwt_timer_next              any but hwt_timer_advance*   EBUSY                          ECANCELED
 *     hwt_timer_trim              any                          yes; done after it             ECANCELED
 *     hwt_timer_fd                any                          yes; the first call: EBUSY     ECANCELED
 *     hwt_timer_destroy           none, and none afterwards    EDEADLK                        yes
 *
 * Errors
 *
 *   A function that can fail returns 0 or a positive errno value, as pthread functions do.  It leaves errno alone, and
 *   on failure it changes nothing, out-parameters included.  Under "Returns" a value stands alone where it means this:
 *
 *     EINVAL     an argument makes no sense, or is NULL  ECANCELED  the timer has been stopped
 *     ENOMEM     no memory; nothing was accepted         EBUSY      the task is running, or an advance is in progress
 *     ENOBUFS    max_pending_timeouts are pending        ENOENT     the timeout has ended; nothing to cancel or move
 *     EDEADLK    the call would wait for itself          ENOTSUP    a setting that this build does not serve
 *
 *   The library prints nothing but warnings, which go to config.warn and by default to stderr.
 *
 *   Not detected: a call in a signal handler, or in a forked child with a timer of its parent, may deadlock or corrupt
 *   the timer.  Write to a pipe; create the timer after the fork.  fork followed by exec is fine.  A library that was
 *   built with -DHWT_DEBUG ends the process, with a line that says why, at a handle of a destroyed timer.  A process
 *   may exit without hwt_timer_destroy; until it is gone the worker runs tasks.
 *
 * Time, signals, cancelled threads
 *
 *   Times are nanoseconds in int64_t, in names that end in _ns, on the timer's clock.  That is CLOCK_MONOTONIC, which
 *   hwt_now() reads: steps of the wall clock do not matter, and on Linux the time that a machine is suspended does not
 *   count.  With config.clock or HWT_VIRTUAL_CLOCK it is another one, and hwt_now() is no time of the timer's.
 *
 *   The worker blocks signals, so a thread of the program gets those that are sent to the process.  It leaves open what
 *   a fault of a task raises (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS), and SIGPROF if the thread that starts
 *   the worker does.  A child that a task spawns inherits the mask: doc/guide.md, "Settings".
 *
 *   No call is a cancellation point.  A thread that is cancelled (pthread_cancel) leaves after the call, and tasks and
 *   finalisers that run in the call come to their end.  A thread with PTHREAD_CANCEL_ASYNCHRONOUS must make no call.
 *
 * Systems
 *
 *   Tested on Linux with glibc and musl, on x86-64 and i386, and emulated on ARM of 64 and 32 bits, RISC-V, s390x,
 *   Power and MIPS, built by gcc and clang; -DHWT_PORTABLE builds it with nothing but POSIX.  `pkg-config --cflags
 *   --libs hwt` says how to link, with --static for the archive.  Before 1.0 the binary interface may change: rebuild
 *   for each 0.x.
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

/*
 * Timeouts
 */

/*
 * A handle names one timeout.  It is a value: copy it, share it, keep it.  Until its timer is destroyed it never
 * dangles: once the timeout has ended, every call with the handle is harmless and says so, even when the memory behind
 * it serves a later timeout or has gone back to the system.  Two handles are equal when both members are.
 */
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

/*
 * A task.  It runs on the worker, on a task thread, or where the executor runs it, with the handle that hwt_new_timeout
 * gave out.  It may make every call but stop and destroy of its own timer, and may free what arg points to: the library
 * never looks there.
 *
 * A task must return, and so must a finaliser and execute: with a longjmp, a C++ exception or pthread_exit out of one
 * the behaviour is undefined.
 */
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

/*
 * Schedules task(timeout, arg) to run once, at the first tick at or after delay_ns from now, or deadline_ns on the
 * timer's clock.  What has passed, as delay_ns <= 0, means the next tick, which is up to one tick away: 100 ms by
 * default, on a virtual clock too.  A sum past INT64_MAX counts as INT64_MAX, which never comes.  *out (may be NULL) is
 * the handle.  It is written before the task can start, so the task may read it where the caller keeps it; other
 * threads may use it once this call has returned.
 *
 * Threads  any, tasks included.  Waits for no task and not for the worker.  The first call starts the worker.
 * Returns  0; EINVAL; ECANCELED; ENOMEM; ENOBUFS: see max_pending_timeouts; what hwt_timer_start returns.
 * Order    the task sees what the caller wrote before the call: a release that the start of the task acquires.
 * Cost     a clock read, the larger part, which hwt_new_timeout_at does not need; the uncontended lock of the thread's
 *          lane; 48 bytes, and about 13 for its place in the wheel.  No allocation once timer and lane have held as
 *          much before.  One system call at most (a futex, microseconds): the first caller that finds the worker asleep
 *          beyond the deadline, or 4096 operations in the lane, wakes it.
 */
HWT_API int hwt_new_timeout(hwt_timer *timer, hwt_task *task, void *arg, int64_t delay_ns, hwt_timeout *out);
HWT_API int hwt_new_timeout_at(hwt_timer *timer, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out);

/*
 * Schedules task(timeout, arg) to run again and again: at the first tick at or after first_delay_ns from now, then at
 * those at or after each further period_ns of that, without drift.  Runs never overlap, wherever tasks run.  Those
 * whose tick passes while the worker is late or the task still runs are merged into one, and so are the periods since a
 * first deadline in the past: hwt_timeout_missed.  For a period that counts from the end of a run let the task
 * reschedule itself.
 *
 * hwt_cancel ends it, also from its own task: it returns 0, a run in progress comes to its end, and no other begins.
 * hwt_reschedule sets the time of the next run, from which the periods count on.  A stop hands it out once.
 *
 * Threads, Order  as hwt_new_timeout.
 * Returns  as hwt_new_timeout; EINVAL also: period_ns is less than a tick.
 * Cost     as hwt_new_timeout, always with a clock read, and 48 bytes more; in each period a new place in the wheel.
 */
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

	/*
	 * The finaliser, or NULL.  The library calls it exactly once, when it is done with arg: after the last run, or
	 * soon after the cancel (without memory to tell the worker: when the timeout would have been due; of one that
	 * waits for a task thread or in an executor: when a thread comes to it, which may take as long as tasks do).
	 * For a timeout that a stop handed back, hwt_timer_destroy calls it.  It is not called if hwt_new_timeout_ex
	 * fails.
	 *
	 * It runs on the worker (caller-driven: in hwt_timer_advance), on a task thread, on the executor's thread that
	 * comes to it, or in stop and destroy, which refuse what it schedules; never in hwt_cancel, and with no lock of
	 * the library held.  It may make every call that a task may, and holds up others as a task does.
	 */
	void (*release)(void *arg);

	uint32_t flags; /* 0 or HWT_ABSOLUTE */
} hwt_spec;

/* A delay of 0, once, without a finaliser.  The task is yours to set. */
/* clang-format off */
#define HWT_SPEC_INIT { sizeof(hwt_spec), NULL, NULL, 0, 0, NULL, 0 }
/* clang-format on */

/*
 * Schedules what *spec says.  With a finaliser arg is the library's: after a hwt_cancel that returned 0 the task will
 * not run, but the finaliser releases arg, and the caller must not.
 *
 * Threads, Order  as hwt_new_timeout; *spec is copied.
 * Returns  as hwt_new_timeout; EINVAL also: size is too small or above 4096, a period is less than a tick, a flag is
 *          unknown, a finaliser with HWT_COLLECT; ENOTSUP: a setting of a newer header.
 * Cost     as hwt_new_timeout; with a period or a finaliser 48 bytes more.  A cancel of a timeout with a finaliser
 *          wakes a worker that sleeps beyond the next tick.
 */
HWT_API int hwt_new_timeout_ex(hwt_timer *timer, const hwt_spec *spec, hwt_timeout *out);

/*
 * Sets memory aside for the next n timeouts of the calling thread, so that they cannot fail with ENOMEM: one-shot and
 * periodic ones, with and without a finaliser.  It is used when there is no other memory, and by no other thread; the
 * next call fills it again.  A smaller n gives back what is more; 0, and the end of the thread, all of it.  The call
 * starts the timer.
 *
 * Nothing else of such a timeout needs memory: neither its place in the wheel nor its run nor its cancel.  Not covered
 * are a hwt_reschedule to an earlier time (ENOMEM: the old one holds), and ENOBUFS at a limit.
 *
 * Threads  any; it counts for the caller alone.
 * Returns  0; EINVAL; ECANCELED; ENOMEM: what was set aside before still is; what hwt_timer_start returns.
 * Cost     112 bytes and some 20 ns for each timeout.
 */
HWT_API int hwt_reserve(hwt_timer *timer, uint32_t n);

/*
 * Cancels a timeout.  0 says that this very call prevented the task: it has not started and never will, and arg is the
 * caller's again, or the finaliser's if there is one.
 *
 * Whatever it returns, no run begins afterwards.  A run in progress goes on to its end and is the last; it may still
 * use arg, so do not free that.  hwt_cancel_sync waits for it.  While a task runs the answer is
 *
 *     0       if it was going to run again (it is periodic, or has rescheduled itself), and will not;
 *     EBUSY   if it was not, or not yet: a hwt_reschedule from the task now returns ENOENT.  The timeout ends as
 *             HWT_EXPIRED when the task returns; no stop hands it out.
 *
 * Threads  any, tasks included, also the timeout's own.  Never waits for a task, never fails with ENOMEM.
 * Returns  0; EBUSY: the task is running; ENOENT: the timeout has ended (it ran, was cancelled, was handed out by a
 *          stop, its memory serves another one), or the handle is zero.
 * Order    after 0 the caller sees what the thread that scheduled wrote before.
 * Cost     one compare-and-swap; if the timeout has reached the wheel also a push on the calling thread's lane, which
 *          wakes a sleeping worker when 4096 operations have gathered there.
 */
HWT_API int hwt_cancel(hwt_timeout timeout);

/*
 * Cancels a timeout and waits for its task.  When it returns 0 or ENOENT the task does not run and never will: arg may
 * be freed, unless the task frees it.  With a finaliser arg is never the caller's, and the call does not wait for that.
 *
 * It cannot detect an indirect deadlock.  Hold no lock that the task may want.  In a task do not wait for a task that
 * waits for this one.  It does not wait for what has not begun, in an executor or behind the task threads.  Where that
 * cannot be had, count references: doc/guide.md, "Freeing arg".
 *
 * Threads  any, also tasks of other timeouts.
 * Returns  0: this call prevented the task, or its further runs; ENOENT: the timeout has ended, perhaps during this
 *          call; EDEADLK: called in the timeout's own task, nothing has changed.
 * Order    the caller sees what the task wrote.
 * Cost     that of hwt_cancel; system calls if it waits.
 */
HWT_API int hwt_cancel_sync(hwt_timeout timeout);

/*
 * Moves a pending timeout to delay_ns from now, or to deadline_ns on the timer's clock.  0 says that the task had
 * not started and has the new deadline: it runs neither at the old one nor before the new one.  Made for timeouts that
 * move all the time, as that of an idle connection with each packet: a later deadline is a few instructions and no
 * queue operation, and when the old time comes the worker finds the new one.  The worker is told of an earlier one at
 * once.  Of a periodic timeout it sets the next run, from which the periods count on.
 *
 * From its own task it re-arms the same handle: the task runs again at the new time, after it has returned.  From this
 * call on the timeout is pending again for hwt_cancel and hwt_pending_timeouts; its state is HWT_RUNNING until the task
 * has returned.  If it has been cancelled since the task began, the call returns ENOENT and this run is the last: one
 * hwt_cancel ends the series.
 *
 * It does not revive a timeout that has ended: to restart one that may be pending, running or over, cancel it and
 * schedule a new one.
 *
 * Threads  any, tasks included.  Waits for no task; waits some instructions for another reschedule of the same timeout.
 * Returns  0; EBUSY: the task is running, and is not the caller: until it returns, it alone decides whether the timeout
 *          runs again; ENOENT: the timeout has ended, the handle is zero, or in its own task: it was cancelled; ENOMEM:
 *          no memory to tell the worker of an earlier deadline, the old one holds; ENOBUFS: in its own task.
 * Order    the last of several calls counts.  The task sees what the caller wrote before the call.
 * Cost     one clock read, which hwt_reschedule_at does not need, and two atomic operations; an earlier deadline costs
 *          as much as hwt_new_timeout.  However often it is moved, a timeout is in a queue at most once.
 */
HWT_API int hwt_reschedule(hwt_timeout timeout, int64_t delay_ns);
HWT_API int hwt_reschedule_at(hwt_timeout timeout, int64_t deadline_ns);

/*
 * Looks at a timeout.  hwt_timeout_state says how far it has come: a snapshot, except that an ended timeout never comes
 * back.  hwt_is_expired is true for HWT_RUNNING and HWT_EXPIRED, hwt_is_cancelled for HWT_CANCELLED; both are false for
 * HWT_RETIRED.  hwt_timeout_timer returns its timer, also when it has ended.
 *
 * Threads  any, until the timer is destroyed.
 * Returns  as above; HWT_NONE, false and NULL for the zero handle.
 * Order    with HWT_EXPIRED the caller sees what the task wrote.
 * Cost     some reads of the timeout's memory.
 */
HWT_API hwt_state hwt_timeout_state(hwt_timeout timeout);
HWT_API bool hwt_is_expired(hwt_timeout timeout);
HWT_API bool hwt_is_cancelled(hwt_timeout timeout);
HWT_API hwt_timer *hwt_timeout_timer(hwt_timeout timeout);

/*
 * How long it is to the deadline, on the timer's own clock: *left_ns is 0 or less when the task is due and has not
 * started, and INT64_MAX of one that is never due.  With a reschedule at the same time it is the old or the new one.
 *
 * Threads  any.
 * Returns  0 and *left_ns; EINVAL; EBUSY: the task is running; ENOENT.
 * Cost     some reads of the timeout's memory and a clock read.
 */
HWT_API int hwt_timeout_left(hwt_timeout timeout, int64_t *left_ns);

/*
 * How many periods were merged into this run of a periodic timeout: 0 if it is in time.
 *
 * Threads  the task itself, with the handle that it was called with.
 * Returns  the number; 0 everywhere else.
 * Cost     some reads.
 */
HWT_API uint64_t hwt_timeout_missed(hwt_timeout timeout);

/*
 * Writes a timeout in words, for logs: "hwt timeout 0x7f32c4001040:17 pending, 1.204 s left" (or ", due since 0.002 s",
 * ", never due"), or running, expired, cancelled, retired, none.  The answer is a snapshot.
 *
 * Threads  any.
 * Returns  as snprintf: the number of characters without the final 0, also when len is less; buf may be NULL if len is
 * 0.
 * Cost     that of snprintf.  It only reads the timeout, whose order and time stay what they are.
 */
HWT_API int hwt_timeout_format(hwt_timeout timeout, char *buf, size_t len);

/*
 * How many timeouts have been accepted and have neither started to run nor been cancelled.
 *
 * Threads  any.
 * Returns  the number: exact while no thread is in a call, otherwise near it and never below 0; 0 for NULL.
 * Cost     reads four counters for each lane and one for each task thread: 1 us with 1024 of these.
 */
HWT_API uint64_t hwt_pending_timeouts(const hwt_timer *timer);

/*
 * Settings
 */

/* Flags of hwt_config. */
#define HWT_FINE_TICKS 1u    /* ticks of 10 us to 1 ms are honoured; see tick_duration_ns */
#define HWT_CALLER_DRIVEN 2u /* no worker: tasks run in hwt_timer_advance */
#define HWT_VIRTUAL_CLOCK 4u /* with HWT_CALLER_DRIVEN: the times told to hwt_timer_advance are the clock, from 0 on */
#define HWT_COLLECT 8u       /* with HWT_CALLER_DRIVEN: no tasks, hwt_timer_advance_batch hands out what is due */

/*
 * Values of hwt_config.clock: the clock of all times of a timer.  hwt_clock_now reads it.  A deadline computed from
 * hwt_now(), which reads the first one, is on HWT_CLOCK_REALTIME a time of 1970: due at once.  A timer with another
 * clock than the first reads its clock for each delay, and its worker holds a descriptor (Linux only).
 *
 * With HWT_CLOCK_BOOTTIME what becomes due while the machine is suspended runs when it wakes up.  With
 * HWT_CLOCK_REALTIME deadlines are times of the day.  A step forward makes due what it passes, and merges periods.
 * After a step back what is pending waits until the clock has come to its deadline, and delays count from the new time;
 * the worker places each timeout again.  No task starts before its deadline on that clock.
 */
#define HWT_CLOCK_MONOTONIC 0u
#define HWT_CLOCK_BOOTTIME 1u
#define HWT_CLOCK_REALTIME 2u

/* Values of hwt_config.wheel. */
#define HWT_WHEEL_HASHED 0u       /* one wheel, remaining rounds */
#define HWT_WHEEL_HIERARCHICAL 1u /* levels of wheels, each coarser by ticks_per_wheel than the one below */

/*
 * Where tasks run, if not on the worker: on threads of the program, so that a slow task does not delay the others.
 * config.task_threads does that with threads of the library.
 *
 * For each due timeout the worker (caller-driven: hwt_timer_advance) calls execute(ctx, run, job).  execute arranges
 * that some thread calls run(job) once, and returns 0.  If it returns an errno value, the worker calls run(job) itself.
 * Until run begins the task the timeout is pending: hwt_cancel prevents it, hwt_reschedule moves it, and run(job) then
 * does nothing but tidy up.  It must be called in any case: hwt_timer_stop waits until each job that execute accepted
 * has been run.  Tasks of the same tick may run at the same time and in any order.  execute must not wait for a task of
 * this timer, nor stop or destroy the timer.
 */
typedef struct hwt_executor {
	int (*execute)(void *ctx, void (*run)(void *job), void *job);
	void *ctx;
} hwt_executor;

/* Settings of a timer.  Start from HWT_CONFIG_INIT and change what you need. */
typedef struct hwt_config {
	size_t size; /* sizeof(hwt_config), by which a program built against an older header is served */

	/*
	 * Default 100 ms.  Above 0.  Below 1 ms it is raised to 1 ms with a warning; with HWT_FINE_TICKS, below 10 us
	 * to 10 us.  A fine tick costs some microseconds for each tick in which something is due or many calls came in,
	 * and is no more precise than the system wakes a thread: some 50 us on an idle machine.
	 */
	int64_t tick_duration_ns;

	/*
	 * Default 512.  1 to 2^30, rounded up to a power of two.  The number of buckets, of 24 bytes each.  A timeout
	 * beyond ticks_per_wheel * tick_duration_ns waits for several rounds, which costs next to nothing.  In a
	 * hierarchical wheel: of each level, at least 2, of 50 bytes each; a level is made when a timeout first lies
	 * that far off.
	 */
	uint32_t ticks_per_wheel;

	/*
	 * Default 100000.  At least 1.  How many operations, new timeouts and cancels of all lanes together, the worker
	 * takes in before it looks at the clock again.  Each side has half and may use what the other leaves, and so
	 * have the lanes equal shares.  The first pass of hwt_timer_advance takes in all new ones.
	 */
	uint32_t max_transfers_per_tick;

	/*
	 * Default 0.  How many timeouts may be pending; beyond that ENOBUFS.  0 and below: no limit, and then nothing
	 * is counted for it.  A limit also bounds the memory (G5): ENOBUFS comes below it, too, while a lane has no
	 * free memory and more than 262144 and four times the limit wait there for a worker that does not come by.
	 */
	int64_t max_pending_timeouts;

	uint32_t flags; /* 0 or HWT_FINE_TICKS | HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK | HWT_COLLECT */
	uint32_t wheel; /* HWT_WHEEL_HASHED or HWT_WHEEL_HIERARCHICAL: doc/wheels.md compares them */

	/*
	 * NULL: defaults.  Of the worker and of the task threads.  Must stay valid until the worker has started.  Not
	 * for a detached thread.
	 */
	const pthread_attr_t *thread_attr;

	const char *thread_name; /* NULL: "hwt-worker".  hwt_timer_create copies the first 15 characters */

	/*
	 * Called with a line of text without a newline: by hwt_timer_create when it serves a setting differently from
	 * what was asked for, or when many timers are alive.  NULL: silent.
	 */
	void (*warn)(void *ctx, const char *message);
	void *warn_ctx;

	const hwt_executor *executor; /* NULL: tasks run on the worker.  hwt_timer_create copies it */
	uint64_t reserved[8];         /* 0 */

	/*
	 * Default 0: tasks run on the worker.  1 to 1024: so many threads of the library run them instead, and a slow
	 * task delays others only while all threads are in slow ones.  They are named hwt-task-1 and so on, are made
	 * with the worker and as thread_attr says, and have its signal mask.  Not with a thread_attr that names a stack
	 * (pthread_attr_setstack), which all of them would share, with executor or with HWT_CALLER_DRIVEN: EINVAL.
	 *
	 * The worker hands over what is due, which takes no memory and cannot be refused.  Until a thread begins the
	 * task the timeout is pending: it counts for max_pending_timeouts, hwt_cancel prevents it, hwt_reschedule moves
	 * it, a stop hands it out.
	 */
	uint32_t task_threads;
	uint32_t clock; /* HWT_CLOCK_MONOTONIC, _BOOTTIME or _REALTIME; 0 with HWT_VIRTUAL_CLOCK */

	/*
	 * Default 0: no bound.  Only with HWT_CALLER_DRIVEN.  How many tasks one hwt_timer_advance runs, or hands to
	 * the executor.  If more are due its answer is a time that has passed, so the loop comes again at once; they
	 * keep their order.  A tick that is run in several parts is finished first, and only then cancelled timeouts
	 * are freed and new ones looked at.
	 */
	uint32_t max_tasks_per_advance;

	/*
	 * Default NULL.  Only with HWT_CALLER_DRIVEN: for a loop that waits on a condition variable or a queue and has
	 * no poll for the descriptor of hwt_timer_fd.  Called when hwt_timer_advance has to be called earlier than it
	 * answered last, for the reasons that make that descriptor readable:
	 *
	 *     by hwt_new_timeout* and hwt_new_periodic, for an earlier time or with ENOMEM
	 *     by hwt_reschedule* to an earlier time, and on the executor's thread after one that runs again
	 *     by hwt_cancel* of a timeout with a finaliser
	 *     by any of these and any hwt_cancel*, when 4096 operations have gathered in a lane
	 *     by hwt_timer_stop and hwt_timer_destroy, unless an advance that is in progress then returns ECANCELED
	 *
	 * Not before the first advance, and at most once for each.  A thread that loses its processor calls late: then
	 * the call for one advance and that for the next may both come after the second.  The library holds no lock
	 * then.  So on_earlier may take a lock of the loop's and signal.  No thread may then make one of these calls
	 * with that lock held, but tasks in hwt_timer_advance may: it is not called for them.  It must not advance,
	 * stop or destroy the timer.
	 */
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

/*
 * The warning function of HWT_CONFIG_INIT: writes "hwt: message" and a newline to stderr.  It does not use ctx.
 *
 * Threads  any.
 * Cost     that of fprintf.
 */
HWT_API void hwt_warn_stderr(void *ctx, const char *message);

/* A timeout that had neither run nor been cancelled when its timer was stopped. */
typedef struct hwt_unprocessed {
	hwt_timeout timeout;
	hwt_task *task; /* NULL with HWT_COLLECT */
	void *arg;
	int64_t deadline_ns; /* of a delay right to some nanoseconds: doc/guide.md, "Settings" */
} hwt_unprocessed;

/*
 * Life cycle
 */

/*
 * Creates a timer and starts no thread.  A config of NULL means HWT_CONFIG_INIT.  When more than 64 timers have a
 * worker it warns through config.warn, once in a process: a timer is meant to be shared.
 *
 * Threads  any.
 * Returns  0 and *timer; EINVAL: a field is out of range, or tick_duration_ns >= INT64_MAX / ticks_per_wheel; ENOTSUP:
 *          a clock that the system lacks, a setting of a newer header; ENOMEM; EMFILE, ENFILE: with another clock
 *          than CLOCK_MONOTONIC, no descriptor for the worker.
 * Cost     some 20 KiB with the default settings, 24 bytes a bucket included.  Each thread that schedules takes 7 KiB
 *          more with its first call, up to twice as many threads as there are cores.
 */
HWT_API int hwt_timer_create(hwt_timer **timer, const hwt_config *config);

/*
 * Starts the worker, and returns once it has set the start time, from which ticks are counted.  hwt_new_timeout calls
 * it by itself.  Call it to learn early that no thread can be created, or to keep the first hwt_new_timeout fast.
 *
 * Threads  any, any number at once: one starts the worker, the others wait for it.
 * Returns  0, also if the timer has been started; EINVAL; ECANCELED; the error of pthread_create, for the worker or a
 *          task thread, after which the timer is as before, has no thread, and may be started again.
 * Cost     creates a thread, with task_threads so many more; one read if the timer has been started.
 */
HWT_API int hwt_timer_start(hwt_timer *timer);

/*
 * Writes the time of tick 0 on the timer's clock to *start_ns.  Tick n lies n * tick_duration_ns later, and a task runs
 * at the first tick at or after its deadline: hwt_timer_config has the duration in force.  On HWT_CLOCK_REALTIME tick 0
 * is 1970, with HWT_VIRTUAL_CLOCK it is 0, otherwise it is the moment of the start.
 *
 * Threads  any, after stop too.
 * Returns  0 and *start_ns, the same each time; EINVAL; ENOENT: the timer has not been started, or never was.
 * Cost     some reads.
 */
HWT_API int hwt_timer_grid(const hwt_timer *timer, int64_t *start_ns);

/*
 * Stops the timer for good.  It waits for the task that is running (on task threads, for all that are); those due
 * behind it do not run any more.  When it returns, the timer's threads have exited, no task runs or will run, and every
 * accepted timeout that had neither run nor been cancelled is cancelled and waits in hwt_timer_next_unprocessed;
 * *unprocessed (may be NULL) is their number.  From the moment of the call on, hwt_new_timeout may be refused.  A
 * descriptor of hwt_timer_fd becomes readable.
 *
 * It cannot detect an indirect deadlock: hold no lock that a task or a finaliser may want, and do not let two tasks of
 * two timers stop each other's timer.
 *
 * Threads  any, but no task of this timer.  A second or concurrent call waits for the first, then reports 0.
 * Returns  0; EINVAL; EDEADLK: called in a task of this timer.
 * Order    the caller sees what the tasks wrote.
 * Cost     one cancel for each pending timeout, and the wait.  Never allocates.
 */
HWT_API int hwt_timer_stop(hwt_timer *timer, size_t *unprocessed);

/*
 * Hands out one timeout that the stop gave back, each exactly once, in no particular order.  Its state is HWT_CANCELLED
 * and its arg is the caller's again.  With a finaliser arg may be read until hwt_timer_destroy calls the finaliser.
 *
 * Threads  any.
 * Returns  true and *out; false, with *out untouched, when none is left or the timer has not been stopped.
 * Cost     a mutex.
 */
HWT_API bool hwt_timer_next_unprocessed(hwt_timer *timer, hwt_unprocessed *out);

/*
 * Stops the timer if need be, and frees it.  All its handles die here: no call with one may be in progress or come
 * later.  NULL is a no-op.
 *
 * Threads  any, but no task of this timer.  No other call of this timer may be in progress.
 * Returns  0; EDEADLK: called in a task of this timer.
 * Cost     that of hwt_timer_stop, the finalisers of what the stop gave back, and freeing all memory.
 */
HWT_API int hwt_timer_destroy(hwt_timer *timer);

/*
 * hwt_timer_config writes the settings in force (the tick after its floor, the wheel after rounding) to *out, as far as
 * out->size reaches, which the caller sets.  A second timer can be made from them.  executor and thread_name point into
 * the timer and are valid until hwt_timer_destroy.  thread_attr is NULL: the library keeps no copy.  hwt_timer_user
 * returns config.user alone: hwt_timer_user(hwt_timeout_timer(timeout)) leads a task to it.
 *
 * Threads  any.
 * Returns  0; EINVAL, also if out->size is too small for any setting or above 4096.  NULL for NULL.
 * Cost     copies the structure; one read.
 */
HWT_API int hwt_timer_config(const hwt_timer *timer, hwt_config *out);
HWT_API void *hwt_timer_user(const hwt_timer *timer);

/*
 * A timer in a loop of your own (HWT_CALLER_DRIVEN)
 *
 * Such a timer has no thread: tasks run in hwt_timer_advance, on the thread that calls it, or on an executor.  All
 * other calls are as ever, from any thread.
 *
 * To test what uses a timer without waiting, set HWT_VIRTUAL_CLOCK: the timer's time begins at 0 and is the latest that
 * hwt_timer_advance was told.  hwt_now() still reads CLOCK_MONOTONIC, and there is no descriptor.
 */

/*
 * Runs what is due at now_ns and was accepted before the call, as far as max_tasks_per_advance allows; what its tasks
 * schedule waits for a later one.  *next_ns (may be NULL) says when there is work again: INT64_MAX if nothing is
 * pending, now_ns or earlier if there is more to do at once.
 *
 * The answer is never late for what was accepted before the call looked at the lanes for the last time.  What another
 * thread schedules between that look and the return may be missing in it.  Such a timeout, a later one for an earlier
 * time, and all else that config.on_earlier names make the descriptor of hwt_timer_fd readable and call on_earlier; a
 * loop with neither has to be woken by the thread that calls.  The answer may be early: at most one tick away while a
 * task is with the executor, as it may run again; where a worker would wake up for nothing; where the cancelled
 * timeouts of many hundred ticks have to be forgotten, of which one call does a part; in a tick with much traffic, as
 * if what was cancelled in it still were; and with a descriptor, at the time for which that is set.
 *
 * Delays count from the later of the timer's clock and the times told, but on HWT_CLOCK_REALTIME, which may be set
 * back, from the clock alone.  A time behind the clock, as of a loop that reads the clock once a turn, makes tasks run
 * late, also when it is the first one; a time ahead of it makes them run early; one earlier than a time before runs
 * nothing, and on HWT_CLOCK_REALTIME it is a step back.  Without HWT_VIRTUAL_CLOCK the clock stays the system's: a
 * first time of 0 or less, which CLOCK_MONOTONIC never is, is refused, any other wrong time fails silently.  With it
 * any time below 0 is refused.
 *
 * The caller may hold a lock of its own across the call, if its tasks drop the lock while they need others to have it.
 * To a thread that has the lock no task is then between its start and the point at which it drops the lock.
 *
 * Threads  any, one at a time.
 * Returns  0; EINVAL: the timer has no HWT_CALLER_DRIVEN, or has HWT_COLLECT, or the time is refused; EBUSY: an
 *          advance is in progress, in another thread or around the task that calls; ECANCELED: the timer has been
 *          stopped, perhaps meanwhile.  *next_ns is written with 0 only.
 * Order    as if one thread made all calls, one after the other.
 * Cost     two exchanges and a look at all lanes, some 100 instructions, if nothing is due and what has come in is due
 *          after the answer: that waits for the end of its tick.  Else what is due.  A descriptor takes a system call
 *          when it has to be set: what it was set for has come, or something earlier.  With that, and with on_earlier,
 *          comes another one (membarrier) so that producers need no fence.
 */
HWT_API int hwt_timer_advance(hwt_timer *timer, int64_t now_ns, int64_t *next_ns);

/*
 * hwt_timer_advance for a timer with HWT_COLLECT.  Such a timer calls no function of yours for a timeout: every task
 * is NULL, there are no finalisers, and it has no executor.  What would run is written to out[0] up to
 * out[*fired - 1], at most n, in the order of ticks, and within a tick as G3 says.  When the call returns each has
 * ended, as if its task had returned: HWT_EXPIRED, ENOENT for hwt_cancel and hwt_reschedule.  A periodic one is pending
 * again, and hwt_cancel ends it.  *next_ns (may be NULL) is the answer of hwt_timer_advance, never earlier than now_ns.
 * It is now_ns if more are due than n, or than max_tasks_per_advance.
 *
 * While you go through a batch, a cancel takes nothing out of it: hwt_cancel says ENOENT of what is further on, and 0
 * of a periodic one, whose run that is its last.  Where a cancel has to stop that, too, mark what arg points to.
 *
 * With n == 0, where out may be NULL, it takes in what has come, and hands out nothing.  If the timer is stopped
 * meanwhile the call hands out what it has and returns 0, with *next_ns now_ns; the next one returns ECANCELED.
 *
 * Threads  any, one at a time.  Meanwhile other threads find what it is handing out HWT_RUNNING: EBUSY.
 * Returns  0; EINVAL: the timer has no HWT_COLLECT, fired is NULL, out is NULL and n is not 0, or the time is refused;
 *          EBUSY, ECANCELED: as hwt_timer_advance.  *fired and *next_ns are written with 0 only.
 * Order    the caller sees what the threads that scheduled wrote before.
 * Cost     that of hwt_timer_advance; some 20 ns for each timeout.
 */
HWT_API int hwt_timer_advance_batch(hwt_timer *timer, int64_t now_ns, hwt_fired *out, size_t n, size_t *fired,
				    int64_t *next_ns);

/*
 * What hwt_timer_advance would answer now, without running anything: what it answered last, or a time that has passed
 * if something has come since, so that an advance has to look at it.  INT64_MAX while there was never anything.
 *
 * Threads  any.  Waits some instructions for the begin or the end of an advance, and for a trim.
 * Returns  0 and *next_ns; EINVAL, also without HWT_CALLER_DRIVEN; EBUSY, also around the task that calls; ECANCELED.
 * Cost     a mutex and a look at all lanes.
 */
HWT_API int hwt_timer_next(hwt_timer *timer, int64_t *next_ns);

/*
 * Gives memory that no timeout needs now back to the system.  Without this call the worker does it by itself some
 * seconds after a burst.  A timer in the caller's loop gives memory back in this call only.
 *
 * Records go back in slabs of 2 MiB of which none holds a timeout; what a thread has set aside stays.  The memory of
 * the wheel goes back if no timeout waits in it, that of the queues if these are empty.  What was cancelled since the
 * last tick, or the last advance, may count as still there.  Addresses stay with the timer, so handles remain harmless.
 *
 * bytes may be NULL.  *bytes becomes how much has gone back to the system, or to the allocator, during the call,
 * whichever caller asked for it.  In a task of the timer the call only asks: the worker trims after the task, or beside
 * it if the task has another thread, and *bytes is mostly 0.  So it is after a second in which the worker was in a task
 * or very busy: it goes on later.
 *
 * Threads  any.  Waits for the worker, but not for longer than a second; in a task it does not wait.  With
 *          HWT_CALLER_DRIVEN the caller does the work, and an advance of another thread waits for it.  While an advance
 *          is in progress, in another thread or around the task that calls, the end of the advance does it instead.
 * Returns  0; EINVAL; ECANCELED after stop, perhaps meanwhile.  *bytes is written with 0 only.
 * Cost     a look at each slab of 2 MiB, some 10 ns, and a system call for each that goes.
 */
HWT_API int hwt_timer_trim(hwt_timer *timer, size_t *bytes);

/*
 * A descriptor that poll, epoll and their like find readable when hwt_timer_advance has something to do: also after
 * another thread has set an earlier timeout, after a stop, and the first time at once.  hwt_timer_advance silences it;
 * do not read from it.  It is close-on-exec, and may be watched edge-triggered with one advance for each event, if the
 * loop reads the clock after the wait, or waits no longer than until *next_ns: at a time from before the wait the
 * advance may find nothing due, and no other event comes.  Nor does one come after an EBUSY, if several threads
 * advance: the one that gets EBUSY has to call again.  It is the same one in each call, belongs to the timer and is
 * closed by hwt_timer_destroy.
 *
 * Threads  any.
 * Returns  0 and *fd; EINVAL: the timer has no HWT_CALLER_DRIVEN or has HWT_VIRTUAL_CLOCK; EBUSY: this is the first
 *          call, and an advance is in progress; ECANCELED; ENOTSUP: not on this system (it is on Linux); EMFILE,
 *          ENFILE, ENOMEM: the system has none to give.
 * Cost     a mutex; the first time some system calls.
 */
HWT_API int hwt_timer_fd(hwt_timer *timer, int *fd);

/*
 * Statistics
 */

/* Numbers since the timer was created, unless a line says "now". */
typedef struct hwt_stats {
	size_t size; /* set by the caller: sizeof(hwt_stats) */

	/* Timeouts, each in one of five places: accepted = completed + cancelled + returned + pending + running. */
	uint64_t accepted;
	uint64_t completed; /* ended by the return of their last run; a periodic one is pending until then */
	uint64_t cancelled; /* ended by a cancel that returned 0 */
	uint64_t returned;  /* ended by hwt_timer_stop */
	uint64_t pending;   /* now: waiting for a run, or in a run that is not the last */
	uint64_t running;   /* now: in a run that is the last, as far as is known */

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

	/*
	 * How much later than its deadline the tick of a task began.  What a task waits for others of its own tick is
	 * not in here, but is at most tick_max_ns, the longest work of one tick: the clock is read once a tick.  On
	 * task threads and executors the clock is read for each task, and lateness is that of its start.
	 */
	int64_t lateness_max_ns;
	int64_t tick_max_ns;
	uint64_t lateness[32]; /* tasks: [0] under 1 us late, [i] 2^(i-1) to 2^i us, [31] all above */

	/* Task threads (config.task_threads). */
	uint64_t tasks_waiting; /* now: handed over, and neither begun nor found cancelled */

	/* The longest time from there to a thread.  What comes while some 30 batches wait is counted by a sample. */
	int64_t task_wait_max_ns;
} hwt_stats;

/*
 * Writes statistics to *out, as far as out->size reaches.  Each number is exact, but for task_wait_max_ns; those of
 * timeouts belong together, the others may be of moments some nanoseconds apart.
 *
 * Threads  any, at any time before destroy, after stop too.
 * Returns  0; EINVAL: out->size is too small for any number or above 4096.
 * Cost     some 20 ns for each lane in use: two short locks and some reads; some 50 ns for each task thread, 50 us with
 *          1024.  Counting costs the timer next to nothing: no two threads write the same number.
 */
HWT_API int hwt_timer_stats(const hwt_timer *timer, hwt_stats *out);

/*
 * CLOCK_MONOTONIC, each clock that a timer can have (HWT_CLOCK_*), and the version of the library that is linked;
 * HWT_VERSION_* say that of the header.
 *
 * Threads  any.
 * Returns  CLOCK_MONOTONIC in nanoseconds; the time of that clock, or -1 for one that is unknown here;
 *          "MAJOR.MINOR.PATCH", a constant.
 * Cost     that of clock_gettime, some 30 ns; none.
 */
HWT_API int64_t hwt_now(void);
HWT_API int64_t hwt_clock_now(uint32_t clock);
HWT_API const char *hwt_version(void);

#ifdef __cplusplus
}
#endif

#endif /* HWT_H */
