/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulation of the library as it ships: all threads, the clock and the kernel in one thread, under a seed.
 *
 * Structure
 *
 *   sched.c    actors, which are coroutines, and simulated time.  Each atomic access (points.h), HWT_POINT, lock, wait,
 *              reading of the clock and system call of the library is a point.  There the seed may let another actor go
 *              on, or hold this one up for a while, as a thread that loses its processor.
 *   system.c   in place of threads, mutexes, conditions, clocks, timerfd and poll (the linker's --wrap).
 *   main.c     the scenarios and their judges.
 *
 *   Time goes on by some nanoseconds with each step, and when all actors wait, to the next moment for which one waits.
 *   An actor that spins waits until another one has gone on.  If none can go on, that is a deadlock.
 *
 *   Each seed runs in a process of its own, so what it finds depends on nothing else, and comes again.  If the seed
 *   fails, the process tells the last turns of all actors and ends.
 *
 * What it does not see: orders of memory accesses other than those of the program, real signals and forks.
 *
 *   HWT_SEED          the first seed
 *   HWT_SIM_SEEDS     how many seeds a scenario runs
 *   HWT_SIM_SECONDS   instead: for how long
 *   HWT_SIM_TURNS     how many turns a failure tells
 */
#ifndef HWT_SIM_H
#define HWT_SIM_H

#include <hwt.h>

#include <stdbool.h>
#include <stdint.h>

struct sim_actor;

/* The program's threads. */
struct sim_actor *sim_start(const char *name, void *(*act)(void *), void *arg);
void *sim_join(struct sim_actor *actor);
void sim_call_me(const char *name);

/* A place where the seed may let another actor go on.  `where` lives as long as the program. */
void sim_point(const char *where);

/* From now on HWT_POINTs whose names begin so are where actors lose their processor most.  Otherwise the seed says. */
void sim_look_at(const char *kind);

/* Waits for a wake of `on` until a time; false if that has come.  NULL: nobody wakes.  INT64_MAX: without end. */
bool sim_wait(const char *where, const void *on, int64_t until_ns);
void sim_sleep(int64_t ns);

/* Wakes one that waits for `on`, or all. */
void sim_wake_one(const void *on);
void sim_wake_all(const void *on);

/* Gives way as one that spins. */
void sim_give_way(const char *where);

int64_t sim_now(void); /* CLOCK_MONOTONIC */
#define SIM_HOLD_MAX_NS (INT64_C(1) << 24)

int64_t sim_held(void);              /* for how long actors have been held up, all together, those that are included */
uint64_t sim_random(uint64_t below); /* of the seed */

/* When sim_alarm is to be called; INT64_MAX: not. */
extern int64_t sim_alarm_ns;
void sim_alarm(void);

/* Tells the story and ends the process. */
_Noreturn void sim_fail(const char *file, int line, const char *what);
#define SIM_CHECK(condition) ((condition) ? (void)0 : sim_fail(__FILE__, __LINE__, #condition))

/* Runs a scenario in a process of its own.  Returns false if it failed; *steps: how many choices it made. */
bool sim_run(void (*scenario)(void), uint64_t seed, uint64_t *steps);

/* Sets CLOCK_REALTIME forward, or back. */
void sim_step_clock(int64_t ns);

/* Waits as epoll does for a descriptor that it watches edge-triggered, until it is readable again. */
void sim_wait_edge(int fd);

#endif
