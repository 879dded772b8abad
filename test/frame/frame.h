/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The base of both simulations, that of the timer (test/sim) and that of the store (store/test/sim): the threads of a
 * program as coroutines, simulated time, and seeds.
 *
 * Structure
 *
 *   sched.c      actors: a seed chooses which of them goes on
 *   threads.c    in place of mutexes and conditions (the linker's --wrap)
 *   seeds.c      runs the seeds of a table and others, each in a process of its own, so that it comes again
 *   coroutine.h  switches from one stack to another
 *
 *   Each simulation compiles these files with its own headers: mine.h says what an actor has beside what is here, and
 *   the functions below "What a simulation adds" say where the two differ.
 *
 *   HWT_SEED          the first seed
 *   HWT_SIM_SEEDS     how many seeds a scenario runs, beside those of the table; otherwise HWT_SCALE, in percent
 *   HWT_SIM_SECONDS   instead: for how long
 */
#ifndef HWT_FRAME_H
#define HWT_FRAME_H

#include "frame/coroutine.h"
#include "mine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NEVER INT64_MAX
#define SIM_START INT64_C(1000000000000) /* the time at which each seed begins */
#define SIM_ACTORS 384

/* A thread of the simulated program. */
struct sim_actor {
	struct coroutine coroutine;
	char name[32];
	void *(*act)(void *arg);
	void *arg, *result;
	enum { SIM_READY, SIM_SPINS, SIM_WAITS, SIM_FINISHED } state;
	bool is_joined;
	const void *on;    /* the address that the actor waits for; NULL once it was woken */
	int64_t until_ns;  /* the time until which it waits */
	const char *where; /* the last point that it has reached */
	struct sim_mine mine;
};

extern struct sim_actor *sim_actors[SIM_ACTORS], *sim_current;
extern unsigned sim_actor_count;

/* Makes an actor, which the seed lets begin at some later point. */
struct sim_actor *sim_spawn(const char *name, void *(*act)(void *), void *arg);
void *sim_join(struct sim_actor *actor);
_Noreturn void sim_finish(void); /* ends the running actor */

/* Lets the seed choose the actor that goes on: perhaps this one, if it may. */
void sim_give_turn(void);

/*
 * Waits for a wake of `on` until a time; returns false if the time has come.  NULL: no wake.  SIM_NEVER: without end.
 */
bool sim_wait(const char *where, const void *on, int64_t until_ns);
void sim_sleep(int64_t ns);

/* Wake one or all of the actors that wait for `on`. */
void sim_wake_one(const void *on);
void sim_wake_all(const void *on);

int64_t sim_now(void);
void sim_set_now(int64_t now_ns);

/* Draw a number from the seed; sim_draw gives all 64 bits. */
uint64_t sim_draw(void);
uint64_t sim_random(uint64_t below);
void sim_draw_from(uint64_t state); /* not 0 */

/* A point at which the seed may let another actor go on.  `where` lives as long as the program. */
void sim_point(const char *where);

/* Runs a scenario under a seed in a process of its own.  Returns false if it failed. */
bool sim_run_apart(void (*scenario)(void), uint64_t seed);

/*
 * Runs the known seeds of a scenario, then `count` others (seeds.c has the variables that change this), and stops at
 * the first that fails.  Prints a summary of the simulation.  Returns false if a seed failed.
 */
struct sim_known {
	void (*scenario)(void);
	uint64_t seed;
	const char *found;
};
bool sim_run_seeds(void (*scenario)(void), unsigned others, const struct sim_known *known, size_t count);

/* To be defined by a simulation */

void sim_begin(uint64_t seed);                /* a seed begins: the first actor runs */
void sim_end(void);                           /* the scenario of the seed has returned */
void sim_note(const char *where, bool waits); /* the running actor has reached a point; waits: it will wait there */
void sim_pass_time(int64_t next_ns);          /* no actor can go on; next_ns: the earliest time for which one waits */
bool sim_can_go_on(const struct sim_actor *actor);        /* false: the actor's process is stopped */
bool sim_is_left(const struct sim_actor *actor);          /* no actor will join it */
void sim_leave(struct sim_actor *actor);                  /* the actor stops running: saves its thread-local state */
void sim_enter(struct sim_actor *actor);                  /* restores that state */
_Noreturn void sim_has_crashed(void);                     /* the program got a signal that ends it */
void sim_locks(bool locks);                               /* the running actor has locked (true) or unlocks a mutex */
int64_t sim_mono_ahead(void);                             /* the running actor's CLOCK_MONOTONIC less simulated time */
bool sim_run_seed(void (*scenario)(void), uint64_t seed); /* sim_run_apart, and the handling of a seed that fails */
void sim_say_sum(unsigned seeds, uint64_t first, double seconds); /* prints a summary of the seeds of a scenario */

#endif
