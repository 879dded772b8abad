/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulation of the library as it ships: all threads, the clock and the kernel in one thread, under a seed.
 *
 * Structure
 *
 *   test/frame  actors, which are coroutines, simulated time, mutexes and seeds: frame.h.
 *   sched.c    what happens at a point.  Each atomic access (points.h), HWT_POINT, lock, wait, reading of the clock,
 *              allocation and system call of the library is one.  There the seed may let another actor go on, or hold
 *              this one up for a while, as a thread that loses its processor.
 *   system.c   in place of threads (the linker's --wrap).
 *   kernel.c   in place of clocks, timerfd, poll and epoll.
 *   memory.c   in place of memory: counts blocks, and fills what is freed with junk.
 *   story.c    what happened, in words.
 *   shrink.c   makes the story of a seed that fails shorter.
 *   world.h    the timer, its timeouts, what is known of them, and actors that make all public calls.
 *   scenes.c   lives that chance would not lead.
 *   main.c     the tests, and the table of seeds that once failed.
 *
 *   Time goes on by some nanoseconds with each step, and when all actors wait, to the next moment for which one waits.
 *   An actor that spins waits until another one has gone on.  If none can go on, that is a deadlock.
 *
 *   Each seed runs in a process of its own, so what it finds depends on nothing else, and comes again.  A seed has two
 *   kinds of choices: the plan, which says what actors call, and the schedule, which says when they lose their
 *   processor.  Each call has a plan of its own (sim_plan_begin), so that one can be left out and the others stay.  If
 *   a seed fails, calls and ends of turns are left out as long as the same check fails; then the process tells which
 *   calls were made, the last turns of all actors, and where each of them is.
 *
 * What it does not see: orders of memory accesses other than those of the program, real signals and forks.
 *
 *   HWT_SIM_TURNS     how many turns a failure tells; frame.h has the other variables
 */
#ifndef HWT_SIM_H
#define HWT_SIM_H

#include "frame/frame.h"

#include <hwt.h>

#define SIM_SET 65536 /* the calls, and ends of turns, some of which may be left out */

/* Shared by the process of a seed and its parent. */
struct sim_report {
	uint64_t no_calls[SIM_SET / 64], no_turns[SIM_SET / 64]; /* are left out */
	uint64_t made[SIM_SET / 64];                             /* calls */
	uint64_t steps, turns;
	bool is_quiet;
	char what[256]; /* the check that failed, and its place */
};

/* Returns true if a set has the number. */
static inline bool sim_has(const uint64_t *set, uint64_t number)
{
	return number < SIM_SET && (set[number / 64] >> number % 64 & 1) != 0;
}

/* Starts a thread of the program. */
struct sim_actor *sim_start(const char *name, void *(*act)(void *), void *arg);
void sim_call_me(const char *name);

/*
 * Makes actors lose their processor mostly at HWT_POINTs whose names begin with `kind`, in place of the seed's choice.
 */
void sim_look_at(const char *kind);

/* Gives way, as a thread that spins. */
void sim_give_way(const char *where);

#define SIM_HOLD_MAX_NS (INT64_C(1) << 24)

int64_t sim_held(void); /* the time for which all actors together have been held up, present holds included */
uint64_t sim_steps(void);
uint64_t sim_broadcasts(void); /* broadcasts at ends of tasks to waiting threads */
uint32_t sim_self(void);       /* the number of the running actor */
const char *sim_name(void);

/*
 * Draws a number of the plan, which depends only on the plan that was begun and the draws since; sim_random draws for
 * the schedule.
 */
uint64_t sim_plan(uint64_t below);
uint64_t sim_plan_begin(uint64_t what, uint64_t number);
void sim_plan_end(uint64_t before); /* before: the answer of sim_plan_begin */

/* Returns false if the call of this number is left out. */
bool sim_may_call(uint64_t number);

/* Returns true if all other actors wait for a wake. */
bool sim_others_wait(void);

/* Freezes the schedule: points have no effect.  Returns the state before. */
bool sim_freeze(bool freeze);

/* The time at which sim_alarm is called; INT64_MAX: never. */
extern int64_t sim_alarm_ns;
void sim_alarm(void);

/* Tells the story and ends the process. */
_Noreturn void sim_fail(const char *file, int line, const char *what);
#define SIM_CHECK(condition) ((condition) ? (void)0 : sim_fail(__FILE__, __LINE__, #condition))

/*
 * Adds to the story what the running actor does.  The format lives as long as the program, and has %ld at most twice.
 */
void sim_say(const char *format, long a, long b);
void sim_remember(uint64_t step, const char *name, const char *where, int64_t now_ns);
void sim_tell_story(uint64_t steps, int64_t start_ns);

/* Runs a scenario in a process of its own.  Returns false if it failed. */
bool sim_run(void (*scenario)(void), uint64_t seed, struct sim_report *report);
struct sim_report *sim_new_report(void);
void sim_free_report(struct sim_report *report);
void sim_shrink(void (*scenario)(void), uint64_t seed, struct sim_report *report);

/* Returns the number of blocks of memory that the library holds. */
unsigned sim_blocks(void);

/* Sets CLOCK_REALTIME forward or back. */
void sim_step_clock(int64_t ns);

/* Waits as epoll does for a descriptor that it watches edge-triggered, until it is readable again. */
void sim_wait_edge(int fd);

#endif
