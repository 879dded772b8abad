/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios of timeouts that are cancelled or moved, as most are: S2 schedule and cancel at once, S2w cancel what has
 * reached the wheel, S2x cancel one of many and schedule another, S7 move to a later deadline.
 *
 * Measured: as in S1 (scenarios_load.c).
 */
#include "load.h"

#include <string.h>

#define REFRESHED 100000
#define EXCHANGED 200000 /* timeouts pending for each producer */

enum { LATE, SOON }; /* whether the cancelled would have been due after an S2x, or in it */

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

void s2_run(const struct run *run, struct outcome *outcome)
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
 * In waves of a window of timeouts: schedules the window, waits 20 ms, cancels it in random order.  The rate is that of
 * the cancels; the next wave follows at once, so the worker takes cancels in while producers schedule.
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
		cpu_ns += team_phase(&team, shuffle).cpu_ns; /* not counted: as if it came earlier */
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

/*
 * S2x.  Each producer has a window of its own, in which it cancels a random timeout and schedules another in its place,
 * as a server whose requests are answered long before their timeouts, in no order.  S2x.due has delays of half a second
 * to a second, so that a library which keeps what is cancelled until it would be due has to get rid of it in the run.
 */
static void exchange(struct member *me, size_t times)
{
	const struct load *load = me->shared;
	const struct subject *subject = load->run->subject;
	struct handle *handles = load->handles + me->first;
	uint64_t window = me->end - me->first, accepted = 0, cancelled = 0;
	int64_t least_ns = load->run->variant == SOON ? NS_PER_S / 2 : 60 * NS_PER_S;
	struct rng rng = me->rng;

	for (size_t i = 0; i < times && me->error == 0; i++) {
		struct handle *handle = &handles[(rng_next(&rng) >> 32) * window >> 32];
		int64_t delay_ns = least_ns + rng_span(&rng, least_ns);
		void *arg = fire_arg(load->base_ns + delay_ns);

		cancelled += subject->cancel(load->timer, handle) == 0;
		me->error = subject->schedule(load->timer, arg, delay_ns, handle);
		accepted += me->error == 0;
	}
	me->rng = rng;
	me->accepted += accepted;
	me->cancelled += cancelled;
}

/* Exchanges until hardly any timeout is where the filling put it. */
static void exchange_all(struct member *me)
{
	exchange(me, 2 * (me->end - me->first));
}

static void exchange_own(struct member *me)
{
	const struct run *run = ((const struct load *)me->shared)->run;

	exchange(me, run->n / run->producers);
}

static size_t exchange_window(const struct run *run)
{
	size_t max = run->subject->pending_max ? run->subject->pending_max() / run->producers : EXCHANGED;

	if (run->n / run->producers < 2 * EXCHANGED)
		max = max < run->n / run->producers / 2 + 1 ? max : run->n / run->producers / 2 + 1;
	return max < EXCHANGED ? max : EXCHANGED;
}

static void s2x_run(const struct run *run, struct outcome *outcome)
{
	size_t all = exchange_window(run) * run->producers, times = run->n / run->producers * run->producers;
	struct load load = { .run = run, .handles = touched(all, sizeof(*load.handles)) };
	struct phase phase;
	struct account account;
	struct team team;
	size_t before;
	int64_t cpu_ns;

	load.timer = run_begin(run, fire_task, outcome);
	if (!load.timer)
		return;
	team_start(&team, run->producers, all, run->seed, run->pinned, &load);
	before = rss_bytes();
	load.base_ns = now_ns();
	team_phase(&team, fill_by_delay);
	settle(run->tick_ns);
	team_phase(&team, exchange_all);
	settle(run->tick_ns);
	load.base_ns = now_ns();
	cpu_ns = others_cpu_ns();
	phase = team_phase(&team, exchange_own);
	settle(run->tick_ns);
	cpu_ns = others_cpu_ns() - cpu_ns;
	team_end(&team);
	account = (struct account){ phase.accepted, phase.cancelled, phase.error };
	if (!phase.error && run->variant == LATE && phase.accepted - phase.cancelled != all)
		outcome_wrong(outcome, "%llu pending instead of %zu",
			      (unsigned long long)(phase.accepted - phase.cancelled), all);
	outcome_add(outcome, millions_per_s(times, phase.elapsed_ns));
	outcome_add(outcome, per(phase.cpu_ns, times));
	outcome_add(outcome, per(cpu_ns, times));
	outcome_add(outcome, ((double)rss_peak_bytes() - (double)before) / (double)all);
	(void)run_end(run, load.timer, &account, outcome);
}

static size_t held(const struct subject *subject)
{
	size_t max = subject->pending_max ? subject->pending_max() : REFRESHED;

	return max < REFRESHED ? max : REFRESHED;
}

/*
 * S7.  Each producer has its share of the timeouts, as each thread of a server has its share of the connections, and
 * moves them one after the other.
 */
static void refresh(struct member *me)
{
	const struct load *load = me->shared;
	const struct subject *subject = load->run->subject;
	size_t all = held(subject), first = all * me->index / me->team->size;
	size_t end = all * (me->index + 1) / me->team->size, at = first;
	uint64_t refused = 0;

	for (size_t i = me->first; i < me->end; i++) {
		refused += subject->reschedule(load->timer, &load->handles[at], 60 * NS_PER_S) != 0;
		if (++at == end)
			at = first;
	}
	me->cancelled = refused;
}

static void s7_run(const struct run *run, struct outcome *outcome)
{
	struct load load = { .run = run };
	struct account account = { 0 };
	struct phase phase;
	struct team team;
	int64_t cpu_ns;

	if (!run->subject->reschedule) {
		outcome_absent(outcome, "not available: it cannot move a timeout");
		return;
	}
	load.handles = touched(REFRESHED, sizeof(*load.handles));
	load.timer = run_begin(run, fire_task, outcome);
	if (!load.timer)
		return;
	for (size_t i = 0; i < held(run->subject); i++)
		run_schedule(run, load.timer, now_ns() + 60 * NS_PER_S, &load.handles[i], &account);
	if (account.error) {
		outcome_wrong(outcome, "a call failed: %s", strerror(account.error));
		return;
	}
	settle(run->tick_ns);
	team_start(&team, run->producers, run->n, run->seed, run->pinned, &load);
	cpu_ns = others_cpu_ns();
	phase = team_phase(&team, refresh);
	settle(run->tick_ns);
	cpu_ns = others_cpu_ns() - cpu_ns;
	team_end(&team);
	if (phase.cancelled)
		outcome_wrong(outcome, "%llu could not be moved", (unsigned long long)phase.cancelled);
	outcome_add(outcome, millions_per_s(run->n, phase.elapsed_ns));
	outcome_add(outcome, per(phase.cpu_ns, run->n));
	outcome_add(outcome, per(cpu_ns, run->n));
	(void)run_end(run, load.timer, &account, outcome);
}

const struct scenario scenarios_churn[] = {
	{ .name = "S2",
	  .title = "schedule (30 s) and cancel at once, tick 1 ms",
	  .figures = S2_FIGURES,
	  .run = s2_run,
	  .tick_ns = NS_PER_MS,
	  .constant_ns = 30 * NS_PER_S,
	  .sizes = { 50000000, SIZE_END },
	  .producers = { 1, 2, 4 },
	  .rank = RANK_OTHER,
	  .brief = true,
	  .churn = true },
	{ .name = "S2",
	  .title = "schedule (30 s) and cancel at once, tick 100 ms",
	  .figures = S2_FIGURES,
	  .run = s2_run,
	  .tick_ns = 100 * NS_PER_MS,
	  .constant_ns = 30 * NS_PER_S,
	  .sizes = { 50000000, SIZE_END },
	  .producers = { 1, 2, 4 },
	  .rank = RANK_MAIN,
	  .churn = true },
	{ .name = "S2w",
	  .title = "cancels 20 ms after their schedule, in random order, tick 1 ms",
	  .figures = { "cancel Mop/s", "cancel ns", "schedule Mop/s", "process ns/pair", "peak RSS MB" },
	  .run = s2w_run,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 4000000, SIZE_END },
	  .producers = { 1, 2, 4 },
	  .rank = RANK_OTHER },
	{ .name = "S2x",
	  .title = "cancel one of 200,000 a thread at random and schedule another, delays 60..120 s, tick 1 ms",
	  .figures = { "Mexchanges/s", "producer ns", "process ns", "peak RSS B/pending" },
	  .run = s2x_run,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 4000000, SIZE_END },
	  .producers = { 1, 2, 4 },
	  .rank = RANK_OTHER,
	  .churn = true },
	{ .name = "S2x.due",
	  .title = "the same with delays of 0.5 to 1 s: the cancelled would be due in the run",
	  .figures = { "Mexchanges/s", "producer ns", "process ns", "peak RSS B/pending" },
	  .run = s2x_run,
	  .variant = SOON,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 20000000, SIZE_END },
	  .producers = { 1, 2, 4 },
	  .rank = RANK_MAIN,
	  .churn = true },
	{ .name = "S7",
	  .title = "move 100,000 timeouts to a later deadline, again and again, tick 1 ms",
	  .figures = { "Mmoves/s", "producer ns", "process ns" },
	  .run = s7_run,
	  .tick_ns = NS_PER_MS,
	  .constant_ns = 60 * NS_PER_S,
	  .sizes = { 5000000, SIZE_END },
	  .producers = { 1, 2, 4 },
	  .rank = RANK_OTHER,
	  .churn = true },
	{ .name = NULL },
};
