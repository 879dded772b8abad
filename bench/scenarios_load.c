/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * S1: producers schedule as fast as they can, nothing fires.
 *
 * Measured: operations per second from the first producer's first call to the last one's last; CPU time of the
 * producers, and of the whole process until its worker has come to rest; memory.  The bench itself adds to an operation
 * a random number, a call through a table and a store of 16 bytes to memory that has been touched; the floor line of
 * the output says how much that is.
 */
#include "load.h"

/* S1: by schedule_at; in a timer that has held as many before; with memory from a touched heap */
enum { GIVEN_DEADLINE = 1, WARM = 2, TOUCHED = 4 };

#define TOUCHED_BYTES 160 /* a timeout; a subject that needs more touches the rest itself */

void fill_by_delay(struct member *me)
{
	const struct load *load = me->shared;
	const struct subject *subject = load->run->subject;
	struct rng rng = me->rng;
	size_t i;

	for (i = me->first; i < me->end && me->error == 0; i++) {
		int64_t delay_ns = 60 * NS_PER_S + rng_span(&rng, 60 * NS_PER_S);
		void *arg = fire_arg(load->base_ns + delay_ns);

		me->error = subject->schedule(load->timer, arg, delay_ns, &load->handles[i]);
	}
	me->rng = rng;
	me->accepted += i - me->first - (me->error != 0);
}

static void fill_by_deadline(struct member *me)
{
	const struct load *load = me->shared;
	const struct subject *subject = load->run->subject;
	struct rng rng = me->rng;
	size_t i;

	for (i = me->first; i < me->end && me->error == 0; i++) {
		int64_t deadline_ns = load->base_ns + 60 * NS_PER_S + rng_span(&rng, 60 * NS_PER_S);

		me->error = subject->schedule_at(load->timer, fire_arg(deadline_ns), deadline_ns, &load->handles[i]);
	}
	me->rng = rng;
	me->accepted += i - me->first - (me->error != 0);
}

static uint64_t cancel_all(const struct load *load)
{
	uint64_t cancelled = 0;

	for (size_t i = 0; i < load->run->n; i++)
		cancelled += load->run->subject->cancel(load->timer, &load->handles[i]) == 0;
	return cancelled;
}

void s1_run(const struct run *run, struct outcome *outcome)
{
	team_work *fill = run->variant & GIVEN_DEADLINE ? fill_by_deadline : fill_by_delay;
	bool warm = (run->variant & WARM) != 0;
	struct load load = { .run = run, .handles = touched(run->n, sizeof(*load.handles)) };
	struct account account = { 0 };
	struct phase phase;
	struct team team;
	size_t before, after;
	int64_t cpu_ns, cancel_ns = 0;

	if ((run->variant & GIVEN_DEADLINE) && !run->subject->schedule_at) {
		outcome_absent(outcome, "takes delays only");
		return;
	}
	if (run->variant & TOUCHED)
		touch_heap(run->n * TOUCHED_BYTES);
	load.timer = run_begin(run, fire_task, outcome);
	if (!load.timer)
		return;
	team_start(&team, run->producers, run->n, run->seed, run->pinned, &load);
	if (warm) {
		load.base_ns = now_ns();
		team_phase(&team, fill);
		settle(run->tick_ns);
		before = rss_bytes();
		cancel_ns = now_ns();
		account.cancelled = cancel_all(&load);
		cancel_ns = now_ns() - cancel_ns;
		settle(run->tick_ns);
	} else {
		before = rss_bytes();
	}
	load.base_ns = now_ns();
	cpu_ns = others_cpu_ns();
	phase = team_phase(&team, fill);
	settle(run->tick_ns);
	cpu_ns = others_cpu_ns() - cpu_ns;
	after = rss_bytes();
	team_end(&team);
	account.accepted = phase.accepted;
	account.error = phase.error;
	outcome_add(outcome, millions_per_s(run->n, phase.elapsed_ns));
	outcome_add(outcome, per(phase.cpu_ns, run->n));
	outcome_add(outcome, per(cpu_ns, run->n));
	outcome_add(outcome, ((double)after - (double)before) / (double)run->n);
	if (warm)
		outcome_add(outcome, millions_per_s(run->n, cancel_ns));
	cpu_ns = run_end(run, load.timer, &account, outcome);
	if (!warm)
		outcome_add(outcome, per(cpu_ns, run->n));
}

#define S1_WARM                                                                                                        \
	{                                                                                                              \
		"Mop/s", "producer ns/op", "process ns/op", "RSS B gained", "cancel Mop/s"                             \
	}
#define S1_TOUCHED                                                                                                     \
	{                                                                                                              \
		"Mop/s", "producer ns/op", "process ns/op", "RSS B gained", "stop ns/op"                               \
	}
#define S1_N .sizes = { 3000000, SIZE_END }

const struct scenario scenarios_load[] = {
	{ .name = "S1",
	  .title = "schedule, delays 60..120 s, tick 1 ms",
	  .figures = S1_FIGURES,
	  .run = s1_run,
	  .tick_ns = NS_PER_MS,
	  .producers = { 1, 2, 4, 32 },
	  .rank = RANK_OTHER,
	  .brief = true,
	  S1_N },
	{ .name = "S1",
	  .title = "schedule, delays 60..120 s, tick 100 ms",
	  .figures = S1_FIGURES,
	  .run = s1_run,
	  .tick_ns = 100 * NS_PER_MS,
	  .producers = { 1, 2, 4, 32 },
	  .rank = RANK_MAIN,
	  S1_N },
	{ .name = "S1t",
	  .title = "S1 with a heap that was touched before, as Netty's always is, tick 1 ms",
	  .figures = S1_TOUCHED,
	  .run = s1_run,
	  .variant = TOUCHED,
	  .tick_ns = NS_PER_MS,
	  .producers = { 1, 2, 4, 32 },
	  .rank = RANK_MAIN,
	  S1_N },
	{ .name = "S1at",
	  .title = "S1 with the deadline given",
	  .figures = S1_FIGURES,
	  .run = s1_run,
	  .variant = GIVEN_DEADLINE,
	  .tick_ns = NS_PER_MS,
	  .producers = { 1, 2, 4 },
	  S1_N },
	{ .name = "S1w",
	  .title = "S1 into a timer that held as many before, cancelled by another thread",
	  .figures = S1_WARM,
	  .run = s1_run,
	  .variant = WARM,
	  .tick_ns = NS_PER_MS,
	  .producers = { 1, 2, 4 },
	  .rank = RANK_OTHER,
	  .brief = true,
	  S1_N },
	{ .name = "S1wat",
	  .title = "S1w with the deadline given",
	  .figures = S1_WARM,
	  .run = s1_run,
	  .variant = WARM | GIVEN_DEADLINE,
	  .tick_ns = NS_PER_MS,
	  .producers = { 1, 2, 4 },
	  S1_N },
	{ .name = NULL },
};
