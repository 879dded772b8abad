/* SPDX-License-Identifier: BSD-2-Clause */
/* Actors and simulated time; sim.h. */
#include "sim.h"
#include "sim/coroutine.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ACTORS 384
#define STEP_NS 50
#define START HWT_S(1000)
#define IDLE_MAX 5000000    /* steps without a second going by */
#define STEPS_MAX 100000000 /* of one seed, whose processes rest most of the time */
#define STORY 8192          /* lines that are remembered */
#define LINES 80            /* that are told */
#define SMALL_WINDOW 80     /* of each second seed: of a group with more than 4 a rest has the others */
#define LINE 200
#define OWN 2048

extern char __start_sim_own[], __stop_sim_own[];

struct sim_actor {
	struct coroutine coroutine;
	struct sim_process *process;
	char name[32];
	void *(*act)(void *arg);
	void *arg, *result;
	enum { FREE, READY, WAITS, FINISHED } state;
	unsigned in_server;
	bool is_joined;
	const void *on;
	int64_t until_ns;
	const char *where;
	int error;
	char own[OWN];
};

static struct sim_actor *actors[ACTORS], *current, *leaving;
static unsigned actor_count;
static uint64_t seed, state, steps;
static unsigned switch_bits;
static int64_t now_ns, second_ns;
static uint64_t second_steps;
struct sim_sum *sim_sum;

static char story[STORY][LINE];
static int64_t story_ns[STORY];
static uint64_t lines;

/* xorshift64 */
uint64_t sim_random(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 11) % below;
}

bool sim_hit(unsigned one_of)
{
	return sim_random(one_of) == 0;
}

int64_t sim_some_time(int64_t max_ns)
{
	return (int64_t)sim_random((uint64_t)(max_ns >> sim_random(12)) + 1);
}

int64_t sim_now(void)
{
	return now_ns;
}

struct sim_process *sim_me(void)
{
	return current->process;
}

/*
 * The story
 */

static void print_line(uint64_t i)
{
	fprintf(stderr, "# %14.6f s  %s\n", (double)(story_ns[i % STORY] - START) / 1e9, story[i % STORY]);
}

void sim_tell(const char *format, ...)
{
	static int verbose = -1;
	char *line = story[lines % STORY];
	const char *name = current->process ? current->process->name : "";
	int at = snprintf(line, LINE, "%-8s ", name);
	va_list args;

	if (verbose < 0)
		verbose = getenv("HWT_SIM_VERBOSE") != NULL;
	va_start(args, format);
	(void)vsnprintf(line + at, (size_t)(LINE - at), format, args);
	va_end(args);
	story_ns[lines % STORY] = now_ns;
	if (verbose)
		print_line(lines);
	lines++;
}

_Noreturn void sim_fail(const char *file, int line, const char *format, ...)
{
	static const char *const states[] = { "free", "may go on", "waits", "has finished" };
	const char *wish = getenv("HWT_SIM_LINES");
	uint64_t count = wish ? strtoull(wish, NULL, 0) : LINES;
	va_list args;

	count = HWTS_MIN(HWTS_MIN(count, STORY), lines);
	for (uint64_t i = lines - count; i < lines; i++)
		print_line(i);
	fprintf(stderr, "# %14.6f s  %s:%d: ", (double)(now_ns - START) / 1e9, file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	for (unsigned i = 0; i < actor_count && wish; i++)
		fprintf(stderr, "# %s %s %s at %s\n", actors[i]->process ? actors[i]->process->name : "",
			actors[i]->name, states[actors[i]->state], actors[i]->where);
	fprintf(stderr, "# again: HWT_SEED=%" PRIu64 " HWT_SIM_SEEDS=1\n", seed);
	_exit(1);
}

static void crash(int number)
{
	sim_fail("the store", number, "%s has crashed", current->name);
}

/*
 * Who goes on
 */

static bool may_run(const struct sim_actor *actor)
{
	return actor->in_server > 0 || !actor->process || !actor->process->is_stopped;
}

/* Returns one that may go on, and sets time forward until there is one. */
static struct sim_actor *choose(void)
{
	struct sim_actor *ready[ACTORS];

	for (;;) {
		int64_t next_ns = SIM_NEVER;
		unsigned count = 0;

		for (unsigned i = 0; i < actor_count; i++) {
			struct sim_actor *actor = actors[i];

			if (actor->state == FINISHED || !may_run(actor))
				continue;
			if (actor->state == WAITS && actor->until_ns <= now_ns)
				actor->state = READY;
			if (actor->state == READY)
				ready[count++] = actor;
			else
				next_ns = HWTS_MIN(next_ns, actor->until_ns);
		}
		if (count > 0)
			return ready[count == 1 ? 0 : sim_random(count)];
		if (next_ns == SIM_NEVER)
			sim_fail("the store", 0, "deadlock: all wait, and nothing will come");
		now_ns = next_ns;
	}
}

static void switch_to(struct sim_actor *to)
{
	struct sim_actor *from = current;
	size_t size = (size_t)(__stop_sim_own - __start_sim_own);

	memcpy(from->own, __start_sim_own, size);
	from->error = errno;
	current = to;
	memcpy(__start_sim_own, to->own, size);
	errno = to->error;
	coroutine_switch(&from->coroutine, &to->coroutine);
}

static void give_way(void)
{
	struct sim_actor *to = choose();

	if (to != current)
		switch_to(to);
}

static void note(const char *where)
{
	current->where = where;
	now_ns += STEP_NS;
	if (++steps == STEPS_MAX)
		sim_fail("the store", 0, "tries again and again and never rests: %s at %s", current->name, where);
	if (steps - second_steps > IDLE_MAX) {
		if (now_ns - second_ns < HWT_S(1))
			sim_fail("the store", 0, "works without end: %s at %s", current->name, where);
		second_steps = steps;
		second_ns = now_ns;
	}
}

void sim_point(const char *where)
{
	struct sim_process *process = current->process;

	note(where);
	if (process && process->fuse > 0 && --process->fuse == 0)
		sim_blow(process);
	if (sim_random(UINT64_C(1) << switch_bits) == 0)
		give_way();
}

bool sim_wait(const char *where, const void *on, int64_t until_ns)
{
	note(where);
	current->state = WAITS;
	current->on = on;
	current->until_ns = until_ns;
	give_way();
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
		if (actors[i]->state == WAITS && actors[i]->on == on)
			wake(actors[i]);
}

void sim_wake_one(const void *on)
{
	struct sim_actor *waiting[ACTORS];
	unsigned count = 0;

	for (unsigned i = 0; i < actor_count; i++)
		if (actors[i]->state == WAITS && actors[i]->on == on)
			waiting[count++] = actors[i];
	if (count > 0)
		wake(waiting[sim_random(count)]);
}

/*
 * Life of actors
 */

/* One that has finished is kept until it is joined; then another may have its stack. */
static void sweep(void)
{
	for (unsigned i = 0; i < actor_count; i++)
		if (actors[i]->state == FINISHED && actors[i] != current && actors[i] != leaving &&
		    (actors[i]->is_joined || !actors[i]->process || actors[i]->process->is_dead)) {
			struct sim_actor *last = actors[--actor_count];

			actors[actor_count] = actors[i];
			actors[actor_count]->state = FREE;
			actors[i--] = last;
		}
}

static _Noreturn void finish(void)
{
	current->state = FINISHED;
	sim_wake_all(current);
	leaving = current;
	switch_to(choose());
	abort();
}

static void actor_main(void)
{
	current->result = current->act(current->arg);
	finish();
}

struct sim_actor *sim_start(struct sim_process *process, const char *name, void *(*act)(void *), void *arg)
{
	struct sim_actor *actor;
	char *stack;

	sweep();
	if (actor_count == ACTORS)
		abort();
	if (!actors[actor_count])
		actors[actor_count] = calloc(1, sizeof(*actor));
	actor = actors[actor_count++];
	stack = actor->coroutine.stack;
	memset(actor, 0, sizeof(*actor));
	actor->coroutine.stack = stack;
	actor->coroutine.main = actor_main;
	actor->process = process;
	actor->act = act;
	actor->arg = arg;
	actor->state = READY;
	actor->where = "its beginning";
	(void)snprintf(actor->name, sizeof(actor->name), "%s", name);
	return actor;
}

void *sim_join(struct sim_actor *actor)
{
	while (actor->state != FINISHED)
		(void)sim_wait("join", actor, SIM_NEVER);
	actor->is_joined = true;
	return actor->result;
}

void sim_detach(struct sim_actor *actor)
{
	actor->is_joined = true;
}

void sim_enter_server(void)
{
	current->in_server++;
}

void sim_leave_server(void)
{
	current->in_server--;
	if (current->in_server > 0 || !current->process)
		return;
	if (current->process->is_dead)
		finish();
	while (current->process->is_stopped)
		give_way();
}

void sim_kill(struct sim_process *process)
{
	process->is_dead = true;
	process->is_stopped = false;
	sim_wake_all(process);
	sim_close_all(process);
	for (unsigned i = 0; i < actor_count; i++)
		if (actors[i]->process == process && actors[i]->in_server == 0)
			actors[i]->state = FINISHED;
	if (current->state == FINISHED)
		finish();
}

void sim_stop(struct sim_process *process)
{
	process->is_stopped = true;
}

void sim_continue(struct sim_process *process)
{
	process->is_stopped = false;
	process->continued_ns = now_ns;
	sim_wake_all(process);
}

void sim_shift_waits(struct sim_process *process, int64_t ns)
{
	for (unsigned i = 0; i < actor_count; i++)
		if (actors[i]->process == process && actors[i]->state == WAITS && actors[i]->until_ns != SIM_NEVER &&
		    actors[i]->in_server == 0)
			actors[i]->until_ns += ns;
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
	return current->process && current->process->no_memory > 0 && sim_hit(current->process->no_memory);
}

static _Noreturn void live(void (*scenario)(void))
{
	static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };

	if ((size_t)(__stop_sim_own - __start_sim_own) > OWN)
		abort();
	for (size_t i = 0; i < HWTS_COUNT(signals); i++)
		(void)signal(signals[i], crash);
	state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
	for (int i = 0; i < 8; i++)
		(void)sim_random(2);
	now_ns = second_ns = START;
	actors[0] = current = calloc(1, sizeof(*current));
	actor_count = 1;
	current->state = READY;
	current->where = "its beginning";
	(void)snprintf(current->name, sizeof(current->name), "world");
	switch_bits = (unsigned)sim_random(10);
	atomic_store(&hwts_test_at, at_point);
	atomic_store(&hwts_test_refuses_memory, refuses_memory);
	scenario();
	sim_sum->steps += steps;
	sim_sum->lived_ns += now_ns - START;
	_exit(0);
}

bool sim_run(void (*scenario)(void), uint64_t number)
{
	int status = 1;
	pid_t child;

	if (!sim_sum)
		sim_sum = mmap(NULL, sizeof(*sim_sum), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	seed = number;
	(void)fflush(NULL);
	atomic_store(&hwts_test_window, number % 2 ? SMALL_WINDOW : 0);
	child = fork();
	if (child == 0)
		live(scenario);
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	return status == 0;
}
