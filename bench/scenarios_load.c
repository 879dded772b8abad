/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios in which producers do as much as they can: S1 schedule, S2 schedule and cancel at once, S2w cancel what has
 * reached the wheel.
 *
 * Measured: operations per second from the first producer's first call to the last one's last; CPU time of the
 * producers, and of the whole process until its worker has come to rest; memory.  Of the bench itself an operation
 * holds a random number, a call through a table and a store of 16 bytes into memory that has been touched before; the
 * floor line of the output tells how much that is.
 */
#include "bench.h"
#include "measure.h"

enum { GIVEN_DEADLINE = 1, WARM = 2 }; /* S1: schedule_at; into a timer that has held as many before */

struct load {
	const struct run *run;
	void *timer;
	struct handle *handles;
	int64_t base_ns; /* taken before the phase, so base + delay is no later than the deadline */
};

static double per(int64_t ns, size_t n)
{
	return (double)ns / (double)n;
}

static double millions_per_s(size_t n, int64_t ns)
{
	return (double)n * 1e3 / (double)ns;
}

static void fill_by_delay(struct member *me)
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

static void s1_run(const struct run *run, struct outcome *outcome)
{
	team_work *fill = run->variant & GIVEN_DEADLINE ? fill_by_deadline : fill_by_delay;
	bool warm = (run->variant & WARM) != 0;
	struct load load = { .run = run, .handles = touched(run->n, sizeof(*load.handles)) };
	struct account account = { 0 };
	struct phase phase;
	struct team team;
	size_t before, after;
	int64_t cpu_ns, cancel_ns = 0;

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

static void churn(struct member *me)
{
	const struct load *load = me->shared;
	const struct subject *subject = load->run->subject;
	void *arg = fire_arg(load->base_ns + 30 * NS_PER_S);
	uint64_t cancelled = 0;
	struct handle handle;
	size_t i;

	for (i = me->first; i < me->end && me->error == 0; i++) {
		me->error = subject->schedule(load->timer, arg, 30 * NS_PER_S, &handle);
		cancelled += me->error == 0 && subject->cancel(load->timer, &handle) == 0;
	}
	me->accepted = i - me->first - (me->error != 0);
	me->cancelled = cancelled;
}

static void s2_run(const struct run *run, struct outcome *outcome)
{
	struct load load = { .run = run };
	struct account account = { 0 };
	struct phase phase;
	struct team team;
	size_t before;
	int64_t cpu_ns;

	load.timer = run_begin(run, fire_task, outcome);
	if (!load.timer)
		return;
	team_start(&team, run->producers, run->n, run->seed, run->pinned, &load);
	before = rss_bytes();
	load.base_ns = now_ns();
	cpu_ns = others_cpu_ns();
	phase = team_phase(&team, churn);
	settle(run->tick_ns);
	cpu_ns = others_cpu_ns() - cpu_ns;
	team_end(&team);
	account.accepted = phase.accepted;
	account.cancelled = phase.cancelled;
	account.error = phase.error;
	outcome_add(outcome, millions_per_s(run->n, phase.elapsed_ns));
	outcome_add(outcome, per(phase.cpu_ns, run->n));
	outcome_add(outcome, per(cpu_ns, run->n));
	outcome_add(outcome, ((double)rss_peak_bytes() - (double)before) / 1e6);
	(void)run_end(run, load.timer, &account, outcome);
}

static void shuffle(struct member *me)
{
	struct handle *handles = ((const struct load *)me->shared)->handles;

	for (size_t i = me->end; i > me->first + 1; i--) {
		size_t other = me->first + (size_t)(rng_next(&me->rng) % (i - me->first));
		struct handle handle = handles[i - 1];

		handles[i - 1] = handles[other];
		handles[other] = handle;
	}
}

static void cancel_own(struct member *me)
{
	const struct load *load = me->shared;
	uint64_t cancelled = 0;

	for (size_t i = me->first; i < me->end; i++)
		cancelled += load->run->subject->cancel(load->timer, &load->handles[i]) == 0;
	me->cancelled += cancelled;
}

/*
 * In waves of a window each: fill it, wait 20 ms, cancel it in random order.  Only the cancels make the rate; the next
 * wave follows at once, so the worker takes cancels in while producers schedule.
 */
static void s2w_run(const struct run *run, struct outcome *outcome)
{
	size_t window = run->n < 4000000 ? run->n / 10 + 1 : 400000, waves = run->n / window, all = waves * window;
	struct load load = { .run = run, .handles = touched(window, sizeof(*load.handles)) };
	struct phase fill = { .error = 0 }, cancel = { .error = 0 };
	int64_t fill_ns = 0, cancel_ns = 0, cancel_cpu_ns = 0, cpu_ns;
	struct account account;
	struct team team;
	size_t before;

	load.timer = run_begin(run, fire_task, outcome);
	if (!load.timer)
		return;
	team_start(&team, run->producers, window, run->seed, run->pinned, &load);
	before = rss_bytes();
	cpu_ns = others_cpu_ns();
	for (size_t wave = 0; wave < waves; wave++) {
		load.base_ns = now_ns();
		fill = team_phase(&team, fill_by_delay);
		fill_ns += fill.elapsed_ns;
		sleep_ns(20 * NS_PER_MS);
		cpu_ns += team_phase(&team, shuffle).cpu_ns; /* not to be counted, so it counts as earlier */
		cancel = team_phase(&team, cancel_own);
		cancel_ns += cancel.elapsed_ns;
		cancel_cpu_ns += cancel.cpu_ns;
	}
	settle(run->tick_ns);
	cpu_ns = others_cpu_ns() - cpu_ns;
	team_end(&team);
	account = (struct account){ fill.accepted, cancel.cancelled, fill.error };
	outcome_add(outcome, millions_per_s(all, cancel_ns));
	outcome_add(outcome, per(cancel_cpu_ns, all));
	outcome_add(outcome, millions_per_s(all, fill_ns));
	outcome_add(outcome, per(cpu_ns, all));
	outcome_add(outcome, ((double)rss_peak_bytes() - (double)before) / 1e6);
	(void)run_end(run, load.timer, &account, outcome);
}

#define S1_COLD                                                                                                        \
	{                                                                                                              \
		"Mop/s", "producer ns/op", "process ns/op", "RSS B/pending", "stop ns/op"                              \
	}
#define S1_WARM                                                                                                        \
	{                                                                                                              \
		"Mop/s", "producer ns/op", "process ns/op", "RSS B gained", "cancel Mop/s"                             \
	}
#define S2W                                                                                                            \
	{                                                                                                              \
		"cancel Mop/s", "cancel ns", "schedule Mop/s", "process ns/pair", "peak RSS MB"                        \
	}
#define S2                                                                                                             \
	{                                                                                                              \
		"Mpairs/s", "producer ns", "process ns", "peak RSS MB"                                                 \
	}

const struct scenario scenarios_load[] = {
	{ "S1",
	  "schedule, delays 60..120 s, tick 1 ms",
	  S1_COLD,
	  s1_run,
	  0,
	  NS_PER_MS,
	  true,
	  false,
	  { 3000000, SIZE_END } },
	{ "S1at",
	  "S1 with the deadline given",
	  S1_COLD,
	  s1_run,
	  GIVEN_DEADLINE,
	  NS_PER_MS,
	  true,
	  false,
	  { 3000000, SIZE_END } },
	{ "S1w",
	  "S1 into a timer that held as many before, cancelled by another thread",
	  S1_WARM,
	  s1_run,
	  WARM,
	  NS_PER_MS,
	  true,
	  false,
	  { 3000000, SIZE_END } },
	{ "S1wat",
	  "S1w with the deadline given",
	  S1_WARM,
	  s1_run,
	  WARM | GIVEN_DEADLINE,
	  NS_PER_MS,
	  true,
	  false,
	  { 3000000, SIZE_END } },
	{ "S2",
	  "schedule (30 s) and cancel at once, tick 1 ms",
	  S2,
	  s2_run,
	  0,
	  NS_PER_MS,
	  true,
	  false,
	  { 20000000, SIZE_END } },
	{ "S2",
	  "schedule (30 s) and cancel at once, tick 100 ms",
	  S2,
	  s2_run,
	  0,
	  100 * NS_PER_MS,
	  true,
	  false,
	  { 20000000, SIZE_END } },
	{ "S2w",
	  "cancels 20 ms after their schedule, in random order, tick 1 ms",
	  S2W,
	  s2w_run,
	  0,
	  NS_PER_MS,
	  true,
	  false,
	  { 4000000, SIZE_END } },
	{ .name = NULL },
};
