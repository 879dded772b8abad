/* SPDX-License-Identifier: BSD-2-Clause */
/* Actors and simulated time; sim.h. */
#include "sim/sim.h"
#include "sim/coroutine.h"
#include "base/counter.h"
#include "base/thread.h"
#include "lane/lane.h"
#include "timer/timer.h"
#include "tunables.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ACTORS_MAX 32
#define STEP_NS 5
#define START HWT_S(1000)
#define HOLDS 200 /* in a life */
#define NAMED 3   /* at an HWT_POINT a turn ends 2^3 times as often */
#define KINDS 16  /* of HWT_POINTs */
#define STEPS_MAX UINT64_C(400000000)
#define SPINS_MAX 1000000 /* in a row while nobody gets on */

/* What a thread has for itself; the library's four variables. */
struct own {
	struct hwt_home home;
	struct hwt_reading reading;
	struct hwt_current_task *task;
	uint32_t number;
	int error;
};

struct sim_actor {
	struct coroutine coroutine;
	struct own own;
	char name[32];
	uint32_t id; /* no other thread of the life has had it */
	void *(*act)(void *arg);
	void *arg, *result;
	uint64_t plan;

	enum { READY, SPINS, WAITS, FINISHED, JOINED } state;
	bool is_held;     /* it has lost its processor */
	const void *on;   /* which it waits for */
	int64_t until_ns; /* how long */
	const char *where;
};

static struct sim_actor actors[ACTORS_MAX], *current;
static unsigned actor_count, started, spins, holds;
static uint64_t seed, state, steps, turns, broadcasts;
static bool is_frozen;
static struct sim_report *report; /* in memory that the parent sees */
static uint64_t switch_mask;      /* an actor goes on if the bits of a random number there are not all zero */
static unsigned hold_bits;        /* one of so many turns, to the power of 2, ends in being held up */
static unsigned focus;            /* the kind of points at which it does more often */
static int64_t now_ns, held_ns;
int64_t sim_alarm_ns = INT64_MAX;

/* xorshift64 */
static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

uint64_t sim_random(uint64_t below)
{
	return (draw() >> 11) % below;
}

static uint64_t mixed(uint64_t number)
{
	number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
	return number ^ number >> 31;
}

uint64_t sim_plan_begin(uint64_t what, uint64_t number)
{
	uint64_t before = current->plan;

	current->plan = mixed(mixed(mixed(seed) + what) + number);
	return before;
}

void sim_plan_end(uint64_t before)
{
	current->plan = before;
}

uint64_t sim_plan(uint64_t below)
{
	current->plan += UINT64_C(0x9e3779b97f4a7c15);
	return (mixed(current->plan) >> 11) % below;
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
	return current->id;
}

const char *sim_name(void)
{
	return current->name;
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
	for (unsigned i = 0; i < actor_count; i++) {
		const struct sim_actor *actor = &actors[i];

		if (actor != current && actor->state != FINISHED && actor->state != JOINED &&
		    (actor->state != WAITS || actor->is_held || actor->until_ns <= now_ns || actor->on == NULL))
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

int64_t sim_now(void)
{
	return now_ns;
}

int64_t sim_held(void)
{
	return held_ns;
}

static void tell_actor(const struct sim_actor *actor)
{
	static const char *const states[] = { "may go on", "spins", "waits" };

	if (actor->state < FINISHED)
		fprintf(stderr, "# %s %s at %s\n", actor->name, actor->is_held ? "is held up" : states[actor->state],
			actor->where);
}

_Noreturn void sim_fail(const char *file, int line, const char *what)
{
	is_frozen = true;
	report->steps = steps;
	report->turns = turns;
	(void)snprintf(report->what, sizeof(report->what), "%s:%d: %s", file, line, what);
	if (!report->is_quiet) {
		fprintf(stderr, "%s\n", report->what);
		sim_tell_story(steps, START);
		for (unsigned a = 0; a < actor_count; a++)
			tell_actor(&actors[a]);
	}
	_exit(1);
}

static void crash(int number)
{
	(void)number;
	sim_fail("the library", 0, "has crashed");
}

/* Whose time has come may go on. */
static unsigned find_ready(struct sim_actor **ready, int64_t *next_ns, bool *one_spins)
{
	unsigned count = 0;

	*next_ns = sim_alarm_ns;
	*one_spins = false;
	for (struct sim_actor *actor = actors; actor < actors + actor_count; actor++) {
		if (actor->state == WAITS && actor->until_ns <= now_ns) {
			actor->state = READY;
			actor->is_held = false;
		}
		if (actor->state == READY)
			ready[count++] = actor;
		else if (actor->state == WAITS && actor->until_ns < *next_ns)
			*next_ns = actor->until_ns;
		*one_spins = *one_spins || actor->state == SPINS;
	}
	return count;
}

static void let_spinning_go_on(void)
{
	for (unsigned i = 0; i < actor_count; i++)
		if (actors[i].state == SPINS)
			actors[i].state = READY;
}

static void move_time(int64_t to_ns)
{
	if (to_ns > now_ns)
		now_ns = to_ns;
	if (now_ns >= sim_alarm_ns)
		sim_alarm();
}

static struct sim_actor *choose(void)
{
	struct sim_actor *ready[ACTORS_MAX];
	unsigned count;
	int64_t next_ns;
	bool one_spins;

	while ((count = find_ready(ready, &next_ns, &one_spins)) == 0) {
		if (one_spins) {
			if (++spins > SPINS_MAX)
				sim_fail("the library", 0, "spins for ever");
			let_spinning_go_on();
			if (next_ns > now_ns + 1000)
				next_ns = now_ns + 1000;
		} else if (next_ns == INT64_MAX) {
			sim_fail("the library", 0, "deadlock: all wait, and nothing will come");
		}
		move_time(next_ns);
	}
	return ready[count == 1 ? 0 : sim_random(count)];
}

/* Lets another one go on, or this one; comes back when it is this one's turn. */
static void switch_actor(void)
{
	struct sim_actor *from = current, *to = choose();

	if (to == from)
		return;
	from->own = (struct own){ hwt_home, hwt_reading, hwt_current_task, hwt_own_number, errno };
	current = to;
	hwt_home = to->own.home;
	hwt_reading = to->own.reading;
	hwt_current_task = to->own.task;
	hwt_own_number = to->own.number;
	errno = to->own.error;
	coroutine_switch(&from->coroutine, &to->coroutine);
}

static void note(const char *where)
{
	current->where = where;
	sim_remember(steps, current->name, where, now_ns);
	if (++steps > STEPS_MAX)
		sim_fail("the library", 0, "does not come to an end");
}

/* The end of a turn: perhaps this actor loses its processor. */
static __attribute__((noinline)) void end_turn(unsigned bits)
{
	let_spinning_go_on();
	spins = 0;
	if (sim_has(report->no_turns, turns++))
		return;
	if (holds > 0 && sim_random(UINT64_C(1) << bits) == 0) {
		int64_t hold_ns = (int64_t)sim_random(SIM_HOLD_MAX_NS >> sim_random(24));

		holds--;
		held_ns += hold_ns;
		current->state = WAITS;
		current->is_held = true;
		current->on = NULL;
		current->until_ns = now_ns + hold_ns;
	}
	switch_actor();
}

static void step(const char *where, bool ends, unsigned bits)
{
	if (current == NULL || is_frozen)
		return;
	note(where);
	move_time(now_ns + STEP_NS);
	if (ends)
		end_turn(bits);
}

void sim_point(const char *where)
{
	step(where, ((draw() >> 11) & switch_mask) == 0, hold_bits);
}

void sim_give_way(const char *where)
{
	if (current == NULL || is_frozen)
		return;
	note(where);
	move_time(now_ns + STEP_NS);
	current->state = SPINS;
	switch_actor();
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
		step(where, ((draw() >> 11) & switch_mask >> NAMED) == 0, hold_bits);
}

bool sim_wait(const char *where, const void *on, int64_t until_ns)
{
	note(where);
	let_spinning_go_on();
	current->state = WAITS;
	current->on = on;
	current->until_ns = until_ns;
	switch_actor();
	return current->on == NULL && on != NULL;
}

void sim_sleep(int64_t ns)
{
	(void)sim_wait("sleeps", NULL, now_ns + ns);
}

static void wake(struct sim_actor *actor)
{
	actor->state = READY;
	actor->on = NULL;
}

void sim_wake_all(const void *on)
{
	for (unsigned i = 0; i < actor_count; i++)
		if (actors[i].state == WAITS && actors[i].on == on)
			wake(&actors[i]);
}

void sim_wake_one(const void *on)
{
	struct sim_actor *waiting[ACTORS_MAX];
	unsigned count = 0;

	for (unsigned i = 0; i < actor_count; i++)
		if (actors[i].state == WAITS && actors[i].on == on)
			waiting[count++] = &actors[i];
	if (count > 0)
		wake(waiting[sim_random(count)]);
}

static void actor_main(void)
{
	current->result = current->act(current->arg);
	current->state = FINISHED;
	sim_wake_all(current);
	let_spinning_go_on();
	switch_actor();
	abort();
}

/* The place of a thread that has been joined, or another one. */
static struct sim_actor *new_actor(void)
{
	for (unsigned i = 1; i < actor_count; i++)
		if (actors[i].state == JOINED)
			return &actors[i];
	if (actor_count == ACTORS_MAX)
		abort();
	return &actors[actor_count++];
}

struct sim_actor *sim_start(const char *name, void *(*act)(void *), void *arg)
{
	struct sim_actor *actor = new_actor();
	char *stack = actor->coroutine.stack;

	*actor = (struct sim_actor){ .coroutine = { .main = actor_main, .stack = stack },
				     .id = ++started,
				     .act = act,
				     .arg = arg,
				     .state = READY,
				     .where = "its beginning" };
	(void)snprintf(actor->name, sizeof(actor->name), "%s", name);
	sim_point("starts another");
	return actor;
}

void *sim_join(struct sim_actor *actor)
{
	void *result;

	while (actor->state != FINISHED)
		(void)sim_wait("join", actor, INT64_MAX);
	result = actor->result;
	actor->state = JOINED;
	return result;
}

void sim_call_me(const char *name)
{
	(void)snprintf(current->name, sizeof(current->name), "%s", name);
}

/* Of the seed are also how often actors change and how often they are held up. */
static void begin(void)
{
	state = mixed(seed + 1) | 1;
	now_ns = START;
	actor_count = 1;
	current = &actors[0];
	sim_call_me("main");
	switch_mask = (UINT64_C(1) << sim_random(8)) - 1;
	hold_bits = (unsigned)sim_random(6);
	holds = HOLDS;
	focus = (unsigned)sim_random(KINDS);
}

static void end(void)
{
	for (unsigned i = 1; i < actor_count; i++)
		if (actors[i].state < FINISHED)
			sim_fail(actors[i].name, 0, "has not finished");
	report->steps = steps;
	report->turns = turns;
}

static _Noreturn void live(void (*scenario)(void))
{
	static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		(void)signal(signals[i], crash);
	begin();
	atomic_store(&hwt_test_point, at_named_point);
	scenario();
	end();
	_exit(0);
}

bool sim_run(void (*scenario)(void), uint64_t number, struct sim_report *into)
{
	int status = 1;
	pid_t child;

	report = into;
	seed = number;
	(void)fflush(NULL);
	child = fork();
	if (child == 0)
		live(scenario);
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	return status == 0;
}
