/* SPDX-License-Identifier: BSD-2-Clause */
/* The scheduler: which thread goes on, and when a thread loses its processor; sim.h. */
#include "sim.h"
#include "tunables.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STEP_NS 5
#define HOLDS 200 /* the most in a life */
#define NAMED 3   /* at an HWT_POINT turns end 2^3 times as often */
#define KINDS 16  /* kinds of HWT_POINTs */
#define STEPS_MAX UINT64_C(400000000)
#define SPINS_MAX 1000000 /* spins in a row without any progress */

static unsigned started, spins, holds;
static uint64_t seed, steps, turns, broadcasts;
static bool is_frozen;
static struct sim_report *report; /* in memory that the parent sees */
static uint64_t switch_mask;      /* an actor goes on unless a random number is zero under this mask */
static unsigned hold_bits;        /* one of 2^hold_bits turns ends with the actor being held up */
static unsigned focus;            /* the kind of points at which turns end so more often */
static int64_t held_ns;
int64_t sim_alarm_ns = SIM_NEVER;

static uint64_t mixed(uint64_t number)
{
	number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
	return number ^ number >> 31;
}

uint64_t sim_plan_begin(uint64_t what, uint64_t number)
{
	uint64_t before = sim_current->mine.plan;

	sim_current->mine.plan = mixed(mixed(mixed(seed) + what) + number);
	return before;
}

void sim_plan_end(uint64_t before)
{
	sim_current->mine.plan = before;
}

uint64_t sim_plan(uint64_t below)
{
	sim_current->mine.plan += UINT64_C(0x9e3779b97f4a7c15);
	return (mixed(sim_current->mine.plan) >> 11) % below;
}

uint64_t sim_steps(void)
{
	return steps;
}

uint64_t sim_broadcasts(void)
{
	return broadcasts;
}

uint32_t sim_self(void)
{
	return sim_current->mine.id;
}

const char *sim_name(void)
{
	return sim_current->name;
}

bool sim_may_call(uint64_t number)
{
	if (sim_has(report->no_calls, number))
		return false;
	if (number < SIM_SET)
		report->made[number / 64] |= UINT64_C(1) << number % 64;
	return true;
}

bool sim_others_wait(void)
{
	for (unsigned i = 0; i < sim_actor_count; i++) {
		const struct sim_actor *actor = sim_actors[i];

		if (actor != sim_current && actor->state != SIM_FINISHED &&
		    (actor->state != SIM_WAITS || actor->mine.is_held || actor->until_ns <= sim_now() ||
		     actor->on == NULL))
			return false;
	}
	return true;
}

bool sim_freeze(bool freeze)
{
	bool before = is_frozen;

	is_frozen = freeze;
	return before;
}

int64_t sim_held(void)
{
	return held_ns;
}

static void tell_actor(const struct sim_actor *actor)
{
	static const char *const states[] = { "may go on", "spins", "waits" }; /* in the order of frame.h */

	if (actor->state < SIM_FINISHED)
		fprintf(stderr, "# %s %s at %s\n", actor->name,
			actor->mine.is_held ? "is held up" : states[actor->state], actor->where);
}

_Noreturn void sim_fail(const char *file, int line, const char *what)
{
	is_frozen = true;
	report->steps = steps;
	report->turns = turns;
	(void)snprintf(report->what, sizeof(report->what), "%s:%d: %s", file, line, what);
	if (!report->is_quiet) {
		fprintf(stderr, "%s\n", report->what);
		sim_tell_story(steps, SIM_START);
		for (unsigned a = 0; a < sim_actor_count; a++)
			tell_actor(sim_actors[a]);
	}
	_exit(1);
}

_Noreturn void sim_has_crashed(void)
{
	sim_fail("the library", 0, "has crashed");
}

static bool let_spinning_go_on(void)
{
	bool one_spins = false;

	for (unsigned i = 0; i < sim_actor_count; i++)
		if (sim_actors[i]->state == SIM_SPINS) {
			sim_actors[i]->state = SIM_READY;
			one_spins = true;
		}
	return one_spins;
}

static void move_time(int64_t to_ns)
{
	if (to_ns > sim_now())
		sim_set_now(to_ns);
	if (sim_now() >= sim_alarm_ns)
		sim_alarm();
}

void sim_pass_time(int64_t next_ns)
{
	if (sim_alarm_ns < next_ns)
		next_ns = sim_alarm_ns;
	if (let_spinning_go_on()) {
		if (++spins > SPINS_MAX)
			sim_fail("the library", 0, "spins for ever");
		if (next_ns > sim_now() + 1000)
			next_ns = sim_now() + 1000;
	} else if (next_ns == SIM_NEVER) {
		sim_fail("the library", 0, "deadlock: all wait, and nothing will come");
	}
	move_time(next_ns);
}

/* Returns true: no actor's process is ever stopped here. */
bool sim_can_go_on(const struct sim_actor *actor)
{
	(void)actor;
	return true;
}

bool sim_is_left(const struct sim_actor *actor)
{
	(void)actor;
	return false;
}

void sim_leave(struct sim_actor *actor)
{
	actor->mine.home = hwt_home;
	actor->mine.reading = hwt_reading;
	actor->mine.task = hwt_current_task;
	actor->mine.number = hwt_own_number;
	actor->mine.error = errno;
}

void sim_enter(struct sim_actor *actor)
{
	hwt_home = actor->mine.home;
	hwt_reading = actor->mine.reading;
	hwt_current_task = actor->mine.task;
	hwt_own_number = actor->mine.number;
	errno = actor->mine.error;
}

int64_t sim_mono_ahead(void)
{
	return 0;
}

void sim_note(const char *where, bool waits)
{
	if (waits)
		(void)let_spinning_go_on();
	sim_current->where = where;
	sim_remember(steps, sim_current->name, where, sim_now());
	if (++steps > STEPS_MAX)
		sim_fail("the library", 0, "does not come to an end");
}

/* Ends a turn: perhaps this actor loses its processor. */
static __attribute__((noinline)) void end_turn(unsigned bits)
{
	(void)let_spinning_go_on();
	spins = 0;
	if (sim_has(report->no_turns, turns++))
		return;
	if (holds > 0 && sim_random(UINT64_C(1) << bits) == 0) {
		int64_t hold_ns = (int64_t)sim_random(SIM_HOLD_MAX_NS >> sim_random(24));

		holds--;
		held_ns += hold_ns;
		sim_current->state = SIM_WAITS;
		sim_current->mine.is_held = true;
		sim_current->on = NULL;
		sim_current->until_ns = sim_now() + hold_ns;
	}
	sim_give_turn();
	sim_current->mine.is_held = false;
}

static void step(const char *where, bool ends, unsigned bits)
{
	if (sim_current == NULL || is_frozen)
		return;
	sim_note(where, false);
	move_time(sim_now() + STEP_NS);
	if (ends)
		end_turn(bits);
}

void sim_point(const char *where)
{
	step(where, ((sim_draw() >> 11) & switch_mask) == 0, hold_bits);
}

void sim_give_way(const char *where)
{
	if (sim_current == NULL || is_frozen)
		return;
	sim_note(where, false);
	move_time(sim_now() + STEP_NS);
	sim_current->state = SIM_SPINS;
	sim_give_turn();
}

/* Points whose names begin alike are of one kind. */
static unsigned kind_of(const char *where)
{
	return ((unsigned char)where[0] ^ (unsigned char)where[1] * 3u) & (KINDS - 1);
}

void sim_look_at(const char *kind)
{
	focus = kind_of(kind);
}

static void at_named_point(const char *where)
{
	broadcasts += strcmp(where, "await told") == 0;
	if (strcmp(where, "blocked") == 0 || strcmp(where, "held") == 0)
		sim_give_way(where);
	else if (kind_of(where) == focus)
		step(where, sim_random(2) == 0, 1);
	else
		step(where, ((sim_draw() >> 11) & switch_mask >> NAMED) == 0, hold_bits);
}

struct sim_actor *sim_start(const char *name, void *(*act)(void *), void *arg)
{
	struct sim_actor *actor = sim_spawn(name, act, arg);

	actor->mine.id = ++started;
	sim_point("starts another");
	return actor;
}

void sim_call_me(const char *name)
{
	(void)snprintf(sim_current->name, sizeof(sim_current->name), "%s", name);
}

/* Begins a seed, which also decides how often actors change and are held up. */
void sim_begin(uint64_t number)
{
	seed = number;
	sim_draw_from(mixed(seed + 1) | 1);
	sim_call_me("main");
	switch_mask = (UINT64_C(1) << sim_random(8)) - 1;
	hold_bits = (unsigned)sim_random(6);
	holds = HOLDS;
	focus = (unsigned)sim_random(KINDS);
	atomic_store(&hwt_test_point, at_named_point);
}

void sim_end(void)
{
	for (unsigned i = 1; i < sim_actor_count; i++)
		if (sim_actors[i]->state < SIM_FINISHED)
			sim_fail(sim_actors[i]->name, 0, "has not finished");
	report->steps = steps;
	report->turns = turns;
}

bool sim_run(void (*scenario)(void), uint64_t number, struct sim_report *into)
{
	report = into;
	return sim_run_apart(scenario, number);
}
