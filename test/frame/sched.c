/* SPDX-License-Identifier: BSD-2-Clause */
/* Actors and simulated time; frame.h. */
#include "sim.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct sim_actor *sim_actors[SIM_ACTORS], *sim_current;
unsigned sim_actor_count;

static struct sim_actor *leaving; /* has finished; the next actor may still be on its stack */
static uint64_t state;
static int64_t now_ns;

/* xorshift64 */
uint64_t sim_draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

uint64_t sim_random(uint64_t below)
{
	return (sim_draw() >> 11) % below;
}

void sim_draw_from(uint64_t from)
{
	state = from;
}

int64_t sim_now(void)
{
	return now_ns;
}

void sim_set_now(int64_t to_ns)
{
	now_ns = to_ns;
}

/*
 * The actor that goes on
 */

/*
 * Finds the actors that can go on.  Returns their number; *next_ns is the earliest time for which another actor waits.
 */
static unsigned find_ready(struct sim_actor **ready, int64_t *next_ns)
{
	unsigned count = 0;

	*next_ns = SIM_NEVER;
	for (unsigned i = 0; i < sim_actor_count; i++) {
		struct sim_actor *actor = sim_actors[i];

		if (actor->state == SIM_FINISHED || !sim_can_go_on(actor))
			continue;
		if (actor->state == SIM_WAITS && actor->until_ns <= now_ns)
			actor->state = SIM_READY;
		if (actor->state == SIM_READY)
			ready[count++] = actor;
		else if (actor->state == SIM_WAITS && actor->until_ns < *next_ns)
			*next_ns = actor->until_ns;
	}
	return count;
}

static struct sim_actor *choose(void)
{
	struct sim_actor *ready[SIM_ACTORS];
	int64_t next_ns;
	unsigned count;

	while ((count = find_ready(ready, &next_ns)) == 0)
		sim_pass_time(next_ns);
	return ready[count == 1 ? 0 : sim_random(count)];
}

static void switch_to(struct sim_actor *to)
{
	struct sim_actor *from = sim_current;

	sim_leave(from);
	sim_current = to;
	sim_enter(to);
	coroutine_switch(&from->coroutine, &to->coroutine);
}

void sim_give_turn(void)
{
	struct sim_actor *to = choose();

	if (to != sim_current)
		switch_to(to);
}

bool sim_wait(const char *where, const void *on, int64_t until_ns)
{
	struct sim_actor *me = sim_current;

	sim_note(where, true);
	me->state = SIM_WAITS;
	me->on = on;
	me->until_ns = until_ns;
	sim_give_turn();
	return me->on == NULL && on != NULL;
}

void sim_sleep(int64_t ns)
{
	(void)sim_wait("sleeps", NULL, now_ns + ns);
}

static void wake(struct sim_actor *actor)
{
	actor->state = SIM_READY;
	actor->on = NULL;
}

void sim_wake_all(const void *on)
{
	for (unsigned i = 0; i < sim_actor_count; i++)
		if (sim_actors[i]->state == SIM_WAITS && sim_actors[i]->on == on)
			wake(sim_actors[i]);
}

void sim_wake_one(const void *on)
{
	struct sim_actor *waiting[SIM_ACTORS];
	unsigned count = 0;

	for (unsigned i = 0; i < sim_actor_count; i++)
		if (sim_actors[i]->state == SIM_WAITS && sim_actors[i]->on == on)
			waiting[count++] = sim_actors[i];
	if (count > 0)
		wake(waiting[sim_random(count)]);
}

/*
 * Life of actors
 */

/* Removes actors that have finished and were joined, or that no actor will join.  Their stacks may be reused. */
static void sweep(void)
{
	for (unsigned i = 0; i < sim_actor_count; i++) {
		struct sim_actor *actor = sim_actors[i];

		if (actor->state == SIM_FINISHED && actor != sim_current && actor != leaving &&
		    (actor->is_joined || sim_is_left(actor))) {
			sim_actors[i--] = sim_actors[--sim_actor_count];
			sim_actors[sim_actor_count] = actor;
		}
	}
}

_Noreturn void sim_finish(void)
{
	sim_current->state = SIM_FINISHED;
	sim_wake_all(sim_current);
	leaving = sim_current;
	switch_to(choose());
	abort();
}

static void actor_main(void)
{
	sim_current->result = sim_current->act(sim_current->arg);
	sim_finish();
}

struct sim_actor *sim_spawn(const char *name, void *(*act)(void *), void *arg)
{
	struct sim_actor *actor;
	char *stack;

	sweep();
	if (sim_actor_count == SIM_ACTORS)
		abort();
	if (sim_actors[sim_actor_count] == NULL && (sim_actors[sim_actor_count] = calloc(1, sizeof(*actor))) == NULL)
		abort();
	actor = sim_actors[sim_actor_count++];
	stack = actor->coroutine.stack;
	*actor = (struct sim_actor){ .coroutine = { .main = actor_main, .stack = stack },
				     .act = act,
				     .arg = arg,
				     .state = SIM_READY,
				     .where = "its beginning" };
	(void)snprintf(actor->name, sizeof(actor->name), "%s", name);
	return actor;
}

void *sim_join(struct sim_actor *actor)
{
	while (actor->state != SIM_FINISHED)
		(void)sim_wait("join", actor, SIM_NEVER);
	actor->is_joined = true;
	return actor->result;
}

/*
 * A seed
 */

static void crash(int number)
{
	(void)number;
	sim_has_crashed();
}

static _Noreturn void live(void (*scenario)(void), uint64_t seed)
{
	static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		(void)signal(signals[i], crash);
	sim_actors[0] = sim_current = calloc(1, sizeof(*sim_current));
	if (sim_current == NULL)
		abort();
	sim_actor_count = 1;
	sim_current->where = "its beginning";
	now_ns = SIM_START;
	sim_begin(seed);
	scenario();
	sim_end();
	_exit(0);
}

bool sim_run_apart(void (*scenario)(void), uint64_t seed)
{
	int status = 1;
	pid_t child;

	(void)fflush(NULL);
	child = fork();
	if (child == 0)
		live(scenario, seed);
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	return status == 0;
}
