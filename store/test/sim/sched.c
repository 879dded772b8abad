/* SPDX-License-Identifier: BSD-2-Clause */
/* Actors of processes: which goes on, and kill, stop and continue; the story of a seed; sim.h. */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEP_NS 50
#define IDLE_MAX 5000000    /* steps without a second passing */
#define STEPS_MAX 100000000 /* steps of one seed, whose processes rest most of the time */
#define STORY 8192          /* lines of the story that are kept */
#define LINES 80            /* lines that a failure prints */
#define SMALL_WINDOW 80     /* of every second seed: entries of a group beyond 4 are left to a rest */
#define LINE 200

extern char __start_sim_own[], __stop_sim_own[];

static uint64_t seed, steps;
static unsigned switch_bits;
static int64_t second_ns;
static uint64_t second_steps;
struct sim_sum *sim_sum;

static char story[STORY][LINE];
static int64_t story_ns[STORY];
static uint64_t lines;

bool sim_hit(unsigned one_of)
{
	return sim_random(one_of) == 0;
}

int64_t sim_some_time(int64_t max_ns)
{
	return (int64_t)sim_random((uint64_t)(max_ns >> sim_random(12)) + 1);
}

struct sim_process *sim_me(void)
{
	return sim_current->mine.process;
}

/*
 * The story
 */

static void print_line(uint64_t i)
{
	fprintf(stderr, "# %14.6f s  %s\n", (double)(story_ns[i % STORY] - SIM_START) / 1e9, story[i % STORY]);
}

void sim_tell(const char *format, ...)
{
	static int verbose = -1;
	char *line = story[lines % STORY];
	const char *name = sim_current->mine.process ? sim_current->mine.process->name : "";
	int at = snprintf(line, LINE, "%-8s ", name);
	va_list args;

	if (verbose < 0)
		verbose = getenv("HWT_SIM_VERBOSE") != NULL;
	va_start(args, format);
	(void)vsnprintf(line + at, (size_t)(LINE - at), format, args);
	va_end(args);
	story_ns[lines % STORY] = sim_now();
	if (verbose)
		print_line(lines);
	lines++;
}

_Noreturn void sim_fail(const char *file, int line, const char *format, ...)
{
	static const char *const states[] = { "may go on", "spins", "waits", "has finished" };
	const char *wish = getenv("HWT_SIM_LINES");
	uint64_t count = wish ? strtoull(wish, NULL, 0) : LINES;
	va_list args;

	count = HWTS_MIN(HWTS_MIN(count, STORY), lines);
	for (uint64_t i = lines - count; i < lines; i++)
		print_line(i);
	fprintf(stderr, "# %14.6f s  %s:%d: ", (double)(sim_now() - SIM_START) / 1e9, file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	for (unsigned i = 0; i < sim_actor_count && wish; i++)
		fprintf(stderr, "# %s %s %s at %s\n",
			sim_actors[i]->mine.process ? sim_actors[i]->mine.process->name : "", sim_actors[i]->name,
			states[sim_actors[i]->state], sim_actors[i]->where);
	fprintf(stderr, "# again: HWT_SEED=%" PRIu64 " HWT_SIM_SEEDS=1\n", seed);
	_exit(1);
}

_Noreturn void sim_has_crashed(void)
{
	sim_fail("the store", 0, "%s has crashed", sim_current->name);
}

/*
 * The actor that goes on next
 */

bool sim_can_go_on(const struct sim_actor *actor)
{
	return actor->mine.in_server > 0 || !actor->mine.process || !actor->mine.process->is_stopped;
}

bool sim_is_left(const struct sim_actor *actor)
{
	return !actor->mine.process || actor->mine.process->is_dead;
}

void sim_pass_time(int64_t next_ns)
{
	if (next_ns == SIM_NEVER)
		sim_fail("the store", 0, "deadlock: all wait, and nothing will come");
	sim_set_now(next_ns);
}

void sim_leave(struct sim_actor *actor)
{
	memcpy(actor->mine.own, __start_sim_own, (size_t)(__stop_sim_own - __start_sim_own));
	actor->mine.error = errno;
}

void sim_enter(struct sim_actor *actor)
{
	memcpy(__start_sim_own, actor->mine.own, (size_t)(__stop_sim_own - __start_sim_own));
	errno = actor->mine.error;
}

int64_t sim_mono_ahead(void)
{
	return sim_me() ? sim_me()->mono_ns : 0;
}

void sim_note(const char *where, bool waits)
{
	(void)waits;
	sim_current->where = where;
	sim_set_now(sim_now() + STEP_NS);
	if (++steps == STEPS_MAX)
		sim_fail("the store", 0, "tries again and again and never rests: %s at %s", sim_current->name, where);
	if (steps - second_steps > IDLE_MAX) {
		if (sim_now() - second_ns < HWT_S(1))
			sim_fail("the store", 0, "works without end: %s at %s", sim_current->name, where);
		second_steps = steps;
		second_ns = sim_now();
	}
}

void sim_point(const char *where)
{
	struct sim_process *process = sim_current->mine.process;

	sim_note(where, false);
	if (process && process->fuse > 0 && --process->fuse == 0)
		sim_blow(process);
	if (sim_random(UINT64_C(1) << switch_bits) == 0)
		sim_give_turn();
}

/*
 * Life of actors
 */

struct sim_actor *sim_start(struct sim_process *process, const char *name, void *(*act)(void *), void *arg)
{
	struct sim_actor *actor = sim_spawn(name, act, arg);

	actor->mine.process = process;
	return actor;
}

void sim_detach(struct sim_actor *actor)
{
	actor->is_joined = true;
}

void sim_enter_server(void)
{
	sim_current->mine.in_server++;
}

void sim_leave_server(void)
{
	sim_current->mine.in_server--;
	if (sim_current->mine.in_server > 0 || !sim_current->mine.process)
		return;
	if (sim_current->mine.process->is_dead)
		sim_finish();
	while (sim_current->mine.process->is_stopped)
		sim_give_turn();
}

void sim_kill(struct sim_process *process)
{
	process->is_dead = true;
	process->is_stopped = false;
	sim_wake_all(process);
	sim_close_all(process);
	for (unsigned i = 0; i < sim_actor_count; i++)
		if (sim_actors[i]->mine.process == process && sim_actors[i]->mine.in_server == 0)
			sim_actors[i]->state = SIM_FINISHED;
	if (sim_current->state == SIM_FINISHED)
		sim_finish();
}

void sim_stop(struct sim_process *process)
{
	process->is_stopped = true;
}

void sim_continue(struct sim_process *process)
{
	process->is_stopped = false;
	process->continued_ns = sim_now();
	sim_wake_all(process);
}

void sim_shift_waits(struct sim_process *process, int64_t ns)
{
	for (unsigned i = 0; i < sim_actor_count; i++) {
		struct sim_actor *actor = sim_actors[i];

		if (actor->mine.process == process && actor->state == SIM_WAITS && actor->until_ns != SIM_NEVER &&
		    actor->mine.in_server == 0)
			actor->until_ns += ns;
	}
}

/*
 * Seeds
 */

static void at_point(const char *where)
{
	sim_point(where);
}

static bool refuses_memory(void)
{
	return sim_current->mine.process && sim_current->mine.process->no_memory > 0 &&
	       sim_hit(sim_current->mine.process->no_memory);
}

void sim_begin(uint64_t number)
{
	if ((size_t)(__stop_sim_own - __start_sim_own) > SIM_OWN)
		abort();
	seed = number;
	sim_draw_from((seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1);
	for (int i = 0; i < 8; i++)
		(void)sim_random(2);
	second_ns = SIM_START;
	(void)snprintf(sim_current->name, sizeof(sim_current->name), "world");
	switch_bits = (unsigned)sim_random(10);
	atomic_store(&hwts_test_at, at_point);
	atomic_store(&hwts_test_refuses_memory, refuses_memory);
}

void sim_end(void)
{
	sim_sum->steps += steps;
	sim_sum->lived_ns += sim_now() - SIM_START;
}

bool sim_run_seed(void (*scenario)(void), uint64_t number)
{
	if (!sim_sum)
		sim_sum = mmap(NULL, sizeof(*sim_sum), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	atomic_store(&hwts_test_window, number % 2 ? SMALL_WINDOW : 0);
	return sim_run_apart(scenario, number);
}
