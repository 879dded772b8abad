/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * S9, the tail of a call: how long the slowest calls take, where S1 and S2x tell only what a call costs on average.
 *
 * Each producer has a window of pending timeouts, cancels one of them at random and schedules another in its place, as
 * in S2x.  Each call is timed on its own, so a time contains one reading of the clock, and whatever kept the thread
 * from its processor.  The subject `none` makes no calls of a timer: its times are those of the machine.
 */
#include "load.h"

#include <string.h>

#define WINDOW 1000

/*
 * Times by their size: those below 64 ns exactly, then 32 bins to each doubling, up to 2^38 ns.  So a figure is at most
 * 3 % too large.
 */
#define BINS 1088

struct times {
	uint64_t bins[BINS];
	uint64_t count;
};

struct tail {
	struct load load;                  /* first: fill_by_delay expects a load */
	size_t calls;                      /* of each kind and member, in a phase */
	struct times *schedules, *cancels; /* one a member */
};

static size_t bin_of(uint64_t ns)
{
	unsigned shift = ns < 64 ? 0 : 58 - (unsigned)__builtin_clzll(ns);
	size_t bin = 32 * shift + (size_t)(ns >> shift);

	return bin < BINS ? bin : BINS - 1;
}

/* Returns the largest time of a bin, in us. */
static double bin_us(size_t bin)
{
	unsigned shift = bin < 64 ? 0 : (unsigned)bin / 32 - 1;

	return (double)(((bin - 32 * shift + 1) << shift) - 1) / 1e3;
}

static void times_add(struct times *times, int64_t ns)
{
	times->bins[bin_of((uint64_t)ns)]++;
	times->count++;
}

static double times_quantile(const struct times *times, double q)
{
	uint64_t rank = (uint64_t)(q * (double)times->count), seen = 0;
	size_t bin = 0;

	while (bin < BINS - 1 && (seen += times->bins[bin]) <= rank)
		bin++;
	return bin_us(bin);
}

/* Adds the quantiles of what all members have timed to the outcome. */
static void add_quantiles(struct times *times, unsigned members, struct outcome *outcome)
{
	static const double quantiles[] = { 0.99, 0.999, 0.9999, 0.99999 };

	for (unsigned i = 1; i < members; i++) {
		for (size_t bin = 0; bin < BINS; bin++)
			times[0].bins[bin] += times[i].bins[bin];
		times[0].count += times[i].count;
	}
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
		outcome_add(outcome, times_quantile(&times[0], quantiles[i]));
}

static void exchange_timed(struct member *me)
{
	const struct tail *tail = me->shared;
	const struct subject *subject = tail->load.run->subject;
	struct times *schedules = &tail->schedules[me->index], *cancels = &tail->cancels[me->index];
	struct handle *handles = tail->load.handles + me->first;
	uint64_t window = me->end - me->first, accepted = 0, cancelled = 0;
	struct rng rng = me->rng;

	memset(schedules, 0, sizeof(*schedules));
	memset(cancels, 0, sizeof(*cancels));
	for (size_t i = 0; i < tail->calls && me->error == 0; i++) {
		struct handle *handle = &handles[(rng_next(&rng) >> 32) * window >> 32];
		int64_t delay_ns = 60 * NS_PER_S + rng_span(&rng, 60 * NS_PER_S);
		void *arg = fire_arg(tail->load.base_ns + delay_ns);
		int64_t begun_ns = now_ns(), between_ns;

		cancelled += subject->cancel(tail->load.timer, handle) == 0;
		between_ns = now_ns();
		me->error = subject->schedule(tail->load.timer, arg, delay_ns, handle);
		times_add(schedules, now_ns() - between_ns);
		times_add(cancels, between_ns - begun_ns);
		accepted += me->error == 0;
	}
	me->rng = rng;
	me->accepted += accepted;
	me->cancelled += cancelled;
}

static size_t window_of(const struct run *run)
{
	size_t max = run->subject->pending_max ? run->subject->pending_max() / run->producers : WINDOW;

	return max < WINDOW ? max : WINDOW;
}

static void s9_run(const struct run *run, struct outcome *outcome)
{
	size_t all = window_of(run) * run->producers;
	struct tail tail = {
		.load = { .run = run, .handles = touched(all, sizeof(*tail.load.handles)) },
		.calls = run->n / run->producers / 10 + 1,
		.schedules = touched(run->producers, sizeof(*tail.schedules)),
		.cancels = touched(run->producers, sizeof(*tail.cancels)),
	};
	struct account account;
	struct phase phase;
	struct team team;

	tail.load.timer = run_begin(run, fire_task, outcome);
	if (!tail.load.timer)
		return;
	team_start(&team, run->producers, all, run->seed, run->pinned, &tail);
	tail.load.base_ns = now_ns();
	team_phase(&team, fill_by_delay);
	settle(run->tick_ns);
	tail.load.base_ns = now_ns();
	team_phase(&team, exchange_timed); /* until memory is what it takes; this phase's times are not kept */
	tail.calls = run->n / run->producers;
	phase = team_phase(&team, exchange_timed);
	team_end(&team);
	account = (struct account){ phase.accepted, phase.cancelled, phase.error };
	if (!phase.error && phase.accepted - phase.cancelled != all)
		outcome_wrong(outcome, "%llu pending instead of %zu",
			      (unsigned long long)(phase.accepted - phase.cancelled), all);
	add_quantiles(tail.schedules, run->producers, outcome);
	add_quantiles(tail.cancels, run->producers, outcome);
	(void)run_end(run, tail.load.timer, &account, outcome);
}

const struct scenario scenarios_tail[] = {
	{ .name = "S9",
	  .title = "the tail of a call: cancel one of 1000 a thread at random and schedule another, tick 1 ms",
	  .figures = { "schedule us p99", "schedule us p99.9", "schedule us p99.99", "schedule us p99.999",
		       "cancel us p99", "cancel us p99.9", "cancel us p99.99", "cancel us p99.999" },
	  .run = s9_run,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 10000000, SIZE_END },
	  .producers = { 1, 2, 32 },
	  .rank = RANK_OTHER,
	  .churn = true },
	{ .name = NULL },
};
