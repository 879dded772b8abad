/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios about when tasks run: S3 very many at once, S4 how late, "first" whether the first of a million waits for
 * the others, "drift" whether the ten-thousandth tick lies where the first one promised.
 *
 * Measured: tasks per second, lateness of a task's start against its deadline, CPU time of the worker.  The deadlines
 * do not lie on the library's ticks, so up to one tick of lateness is the tick itself.
 */
#include "load.h"

#include <stdatomic.h>

enum { SAME_INSTANT, SPREAD };

#define SPREAD_NS (100 * NS_PER_MS)
#define DRIFT_BLOCKS 10

static double ms(int64_t ns)
{
	return (double)ns / 1e6;
}

static void wrong_unless_all_ran(struct outcome *outcome)
{
	uint64_t ran = atomic_load(&fired.ran);

	if (ran != fired.expected)
		outcome_wrong(outcome, "only %llu of %llu ran in time", (unsigned long long)ran,
			      (unsigned long long)fired.expected);
}

/* S3, first: the first deadline is so far off that all timeouts have reached the wheel before. */
void s3_run(const struct run *run, struct outcome *outcome)
{
	struct account account = { 0 };
	struct rng rng = rng_seed(run->seed + 1);
	int64_t span_ns = run->variant == SPREAD ? SPREAD_NS : 0, lead_ns, deadline_ns, last_ns = 0, cpu_ns;
	void *timer = run_begin(run, fire_task, outcome);
	struct handle handle;
	bool late;

	if (!timer)
		return;
	lead_ns = 500 * NS_PER_MS + 5 * run_scatter(run, timer, &account);
	fired.expected = run->n;
	deadline_ns = now_ns() + lead_ns;
	for (size_t i = 0; i < run->n; i++) {
		int64_t one_ns = deadline_ns + rng_span(&rng, span_ns);

		last_ns = one_ns > last_ns ? one_ns : last_ns;
		run_schedule(run, timer, one_ns, &handle, &account);
	}
	late = now_ns() > deadline_ns - 100 * NS_PER_MS;
	sleep_until(deadline_ns - 5 * NS_PER_MS);
	cpu_ns = others_cpu_ns();
	sleep_until(last_ns + 10 * NS_PER_MS);
	fire_wait(fired.expected, last_ns + 20 * NS_PER_S);
	cpu_ns = others_cpu_ns() - cpu_ns;
	wrong_unless_all_ran(outcome);
	outcome_add(outcome, (double)run->n * 1e3 / (double)(fired.last_ns - fired.first_ns + 1));
	outcome_add(outcome, ms(fired.first_ns - deadline_ns));
	outcome_add(outcome, ms(fired.last_ns - last_ns));
	outcome_add(outcome, (double)cpu_ns / (double)run->n);
	(void)run_end(run, timer, &account, outcome);
	if (late)
		outcome_absent(outcome, "too slow: the first was due before the last was scheduled");
}

/*
 * S4
 */

static int64_t *late_ns; /* the lateness of each task, in the order of their runs; S4 and drift */

static void s4_task(void *arg)
{
	int64_t one_ns = now_ns() - (int64_t)(intptr_t)arg;
	uint64_t ran = atomic_load_explicit(&fired.ran, memory_order_relaxed);

	late_ns[ran] = one_ns;
	fired.early += one_ns < 0;
	atomic_store_explicit(&fired.ran, ran + 1, memory_order_release);
}

static void s4_run(const struct run *run, struct outcome *outcome)
{
	static const double quantiles[] = { 0.5, 0.9, 0.99, 0.999, 0.9999, 1 };
	int64_t span_ns = run->quick ? NS_PER_S : 5 * NS_PER_S, begin_ns, cpu_ns;
	struct account account = { 0 };
	struct rng rng = rng_seed(run->seed);
	struct handle handle;
	void *timer;

	late_ns = touched(run->n, sizeof(*late_ns));
	timer = run_begin(run, s4_task, outcome);
	if (!timer)
		return;
	fired.expected = run->n;
	cpu_ns = others_cpu_ns();
	begin_ns = now_ns();
	for (size_t i = 0; i < run->n; i++) {
		int64_t delay_ns = rng_span(&rng, span_ns);
		int rc = run->subject->schedule(timer, fire_arg(now_ns() + delay_ns), delay_ns, &handle);

		account.accepted += rc == 0;
		account.error = rc ? rc : account.error;
	}
	sleep_until(now_ns() + span_ns + 20 * NS_PER_MS);
	fire_wait(fired.expected, begin_ns + span_ns + 20 * NS_PER_S);
	cpu_ns = others_cpu_ns() - cpu_ns;
	begin_ns = now_ns() - begin_ns;
	wrong_unless_all_ran(outcome);
	sort_ns(late_ns, fired.ran);
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
		outcome_add(outcome, ms(quantile(late_ns, fired.ran, quantiles[i])));
	outcome_add(outcome, (double)fired.early);
	outcome_add(outcome, ms(cpu_ns) * 1e9 / (double)begin_ns);
	(void)run_end(run, timer, &account, outcome);
}

/*
 * S4.down: n timeouts are due within 0.4 s, in 2.5 s.  A wheel of levels brings them down before; does this delay the
 * other timeouts, one a millisecond?  Timeouts that are due together with the n do not count.
 */
#define PROBES 2000

static int64_t probes_end_ns;

static void down_task(void *arg)
{
	if ((int64_t)(intptr_t)arg < probes_end_ns)
		s4_task(arg);
	else
		fire_task(arg);
}

static void down_run(const struct run *run, struct outcome *outcome)
{
	static const double quantiles[] = { 0.5, 0.99, 0.999, 1 };
	struct account account = { 0 };
	struct rng rng = rng_seed(run->seed);
	struct handle handle;
	int64_t begin_ns, cpu_ns;
	void *timer;

	late_ns = touched(PROBES, sizeof(*late_ns));
	timer = run_begin(run, down_task, outcome);
	if (!timer)
		return;
	begin_ns = now_ns() + 400 * NS_PER_MS;
	probes_end_ns = begin_ns + PROBES * NS_PER_MS;
	fired.expected = PROBES + run->n;
	for (size_t i = 0; i < PROBES; i++)
		run_schedule(run, timer, begin_ns + (int64_t)i * NS_PER_MS, &handle, &account);
	for (size_t i = 0; i < run->n; i++)
		run_schedule(run, timer, probes_end_ns + 100 * NS_PER_MS + rng_span(&rng, 400 * NS_PER_MS), &handle,
			     &account);
	if (now_ns() > begin_ns)
		outcome_absent(outcome, "too slow: the first was due before the last was scheduled");
	cpu_ns = others_cpu_ns();
	sleep_until(probes_end_ns);
	cpu_ns = others_cpu_ns() - cpu_ns;
	fire_wait(fired.expected, probes_end_ns + 20 * NS_PER_S);
	wrong_unless_all_ran(outcome);
	sort_ns(late_ns, PROBES);
	for (unsigned i = 0; i < 4; i++)
		outcome_add(outcome, ms(quantile(late_ns, PROBES, quantiles[i])));
	outcome_add(outcome, (double)cpu_ns / (double)run->n);
	(void)run_end(run, timer, &account, outcome);
}

/*
 * Drift: one task arms itself for start + n * tick again and again.  Its lateness is its distance from the library's
 * next tick: always the same if ticks lie on a grid, growing if a period is a little too long.  A late task would stay
 * late for good, since it runs once a tick: so it leaves out the deadlines that it has missed.
 */
static struct drift {
	const struct run *run;
	void *timer;
	int64_t start_ns;
	size_t n; /* the number of the armed deadline */
	uint64_t missed;
	struct account account;
	atomic_bool done;
} drift;

static int64_t drift_deadline_ns(void)
{
	return drift.start_ns + (int64_t)drift.n * drift.run->tick_ns;
}

static void drift_task(void *arg)
{
	int64_t late_ticks = (now_ns() - drift_deadline_ns()) / drift.run->tick_ns;
	struct handle handle;

	s4_task(fire_arg(drift_deadline_ns()));
	if (late_ticks > 0) {
		drift.n += (size_t)late_ticks;
		drift.missed += (uint64_t)late_ticks;
	}
	if (++drift.n <= drift.run->n)
		run_schedule(drift.run, drift.timer, drift_deadline_ns(), &handle, &drift.account);
	else
		atomic_store_explicit(&drift.done, true, memory_order_release);
	(void)arg;
}

static void drift_figures(struct outcome *outcome)
{
	size_t block = fired.ran / DRIFT_BLOCKS;
	int64_t p50_ns[DRIFT_BLOCKS], max_ns[DRIFT_BLOCKS], low_ns = INT64_MAX, high_ns = INT64_MIN;

	for (size_t i = 0; i < DRIFT_BLOCKS; i++) {
		sort_ns(late_ns + i * block, block);
		p50_ns[i] = quantile(late_ns + i * block, block, 0.5);
		max_ns[i] = quantile(late_ns + i * block, block, 1);
		low_ns = p50_ns[i] < low_ns ? p50_ns[i] : low_ns;
		high_ns = p50_ns[i] > high_ns ? p50_ns[i] : high_ns;
	}
	outcome_add(outcome, ms(p50_ns[0]));
	outcome_add(outcome, ms(p50_ns[DRIFT_BLOCKS - 1]));
	outcome_add(outcome, ms(max_ns[0]));
	outcome_add(outcome, ms(max_ns[DRIFT_BLOCKS - 1]));
	outcome_add(outcome, ms(high_ns - low_ns));
	outcome_add(outcome, (double)drift.missed);
}

static void drift_run(const struct run *run, struct outcome *outcome)
{
	struct account account = { 0 };
	struct handle handle;
	int64_t end_ns;

	late_ns = touched(run->n + 1, sizeof(*late_ns));
	drift.run = run;
	drift.timer = run_begin(run, drift_task, outcome);
	if (!drift.timer)
		return;
	/* The ticks of most timers begin at their start: half a tick off, deadlines are far from either tick. */
	drift.start_ns = now_ns() + 10 * run->tick_ns + run->tick_ns / 2;
	end_ns = drift.start_ns + (int64_t)run->n * run->tick_ns;
	run_schedule(run, drift.timer, drift.start_ns, &handle, &account); /* the task uses an account of its own */
	sleep_until(end_ns);
	while (!atomic_load_explicit(&drift.done, memory_order_acquire) && now_ns() < end_ns + 5 * NS_PER_S)
		sleep_ns(NS_PER_MS);
	if (!atomic_load_explicit(&drift.done, memory_order_acquire))
		outcome_wrong(outcome, "the last deadline never came");
	drift_figures(outcome);
	account.accepted += drift.account.accepted;
	account.error = account.error ? account.error : drift.account.error;
	(void)run_end(run, drift.timer, &account, outcome);
}

const struct scenario scenarios_fire[] = {
	{ .name = "S3",
	  .title = "all due at one instant, records scattered, tick 1 ms",
	  .figures = S3_FIGURES,
	  .run = s3_run,
	  .variant = SAME_INSTANT,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 3000000, SIZE_END },
	  .rank = RANK_OTHER,
	  .brief = true },
	{ .name = "S3.spread",
	  .title = "spread over 100 ms, records scattered, tick 1 ms",
	  .figures = S3_FIGURES,
	  .run = s3_run,
	  .variant = SPREAD,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 3000000, SIZE_END },
	  .rank = RANK_OTHER,
	  .brief = true },
	{ .name = "first",
	  .title = "a million due in one tick: how long the first one waits",
	  .figures = S3_FIGURES,
	  .run = s3_run,
	  .variant = SAME_INSTANT,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 1000000, SIZE_END } },
	{ .name = "S4",
	  .title = "random delays 0..5 s (-q: 0..1 s), tick 1 ms: lateness in ms",
	  .figures = { "p50", "p90", "p99", "p99.9", "p99.99", "max", "early", "CPU ms/s" },
	  .run = s4_run,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 100000, SIZE_END },
	  .rank = RANK_OTHER,
	  .brief = true },
	{ .name = "S4.down",
	  .title = "one due each ms, lateness in ms, while n others come down that are due at once later; tick 1 ms",
	  .figures = { "p50", "p99", "p99.9", "max", "CPU ns/other" },
	  .run = down_run,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 1000, 1000000, SIZE_END },
	  .rank = RANK_OWN },
	{ .name = "drift",
	  .title = "a task on the grid start + n ms: lateness in ms, first and last tenth",
	  .figures = { "p50 first", "p50 last", "max first", "max last", "p50 range", "missed" },
	  .run = drift_run,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 10000, SIZE_END },
	  .slow = true },
	{ .name = NULL },
};
