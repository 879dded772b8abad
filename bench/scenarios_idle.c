/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios about the cost of timeouts that only wait: S5 idle, S6 far timeouts.
 *
 * Measured over a window of time: CPU time of every thread but the bench's own, and voluntary context switches of the
 * process without the one that the bench itself makes.
 */
#include "load.h"

#include <stdatomic.h>

struct window {
	double cpu_ms_per_s, switches_per_s;
};

static struct window watch(int64_t window_ns)
{
	uint64_t switches = voluntary_switches();
	int64_t begin_ns = now_ns(), cpu_ns = others_cpu_ns();
	struct window window;
	double s;

	sleep_ns(window_ns);
	s = (double)(now_ns() - begin_ns) / 1e9;
	cpu_ns = others_cpu_ns() - cpu_ns;
	window.cpu_ms_per_s = cpu_ns > 0 ? (double)cpu_ns / 1e6 / s : 0; /* two clocks: may be negative */
	window.switches_per_s = (double)(voluntary_switches() - switches - 1) / s;
	return window;
}

/* Schedules n timeouts that do not fire during the measurement. */
static void fill(const struct run *run, void *timer, int64_t from_ns, int64_t to_ns, struct account *account)
{
	struct rng rng = rng_seed(run->seed);
	int64_t base_ns = now_ns();
	struct handle handle;

	for (size_t i = 0; i < run->n && account->error == 0; i++)
		run_schedule(run, timer, base_ns + from_ns + rng_span(&rng, to_ns - from_ns), &handle, account);
	settle(run->tick_ns);
}

static void s5_run(const struct run *run, struct outcome *outcome)
{
	struct account account = { 0 };
	void *timer = run_begin(run, fire_task, outcome);
	struct window window;

	if (!timer)
		return;
	fill(run, timer, 3600 * NS_PER_S, 3660 * NS_PER_S, &account);
	window = watch(run->window_ns);
	outcome_add(outcome, window.cpu_ms_per_s);
	outcome_add(outcome, window.switches_per_s);
	(void)run_end(run, timer, &account, outcome);
}

/*
 * S6.  A library that sleeps until its next deadline shows the cost of far timeouts only if a near timeout makes it
 * tick.  So there are two measurements: without and with a task that arms itself for each next tick.  The row without a
 * far timeout is the cost of that task alone.
 */
static struct ticking {
	const struct run *run;
	void *timer;
	atomic_bool stop, stopped;
	struct account account;
} ticking;

static void s6_task(void *arg)
{
	struct handle handle;
	int64_t deadline_ns = (int64_t)(intptr_t)arg;

	fire_task(arg);
	if (!atomic_load_explicit(&ticking.stop, memory_order_relaxed))
		run_schedule(ticking.run, ticking.timer, deadline_ns + ticking.run->tick_ns, &handle, &ticking.account);
	else
		atomic_store_explicit(&ticking.stopped, true, memory_order_release);
}

void s6_run(const struct run *run, struct outcome *outcome)
{
	struct account account = { 0 };
	struct window idle, busy;
	struct handle handle;
	size_t before, after;
	void *timer = run_begin(run, s6_task, outcome);

	if (!timer)
		return;
	before = rss_bytes();
	fill(run, timer, 600 * NS_PER_S, 3600 * NS_PER_S, &account);
	after = rss_bytes();
	idle = watch(run->window_ns);
	ticking.run = run;
	ticking.timer = timer;
	run_schedule(run, timer, now_ns() + run->tick_ns, &handle, &account);
	sleep_ns(50 * NS_PER_MS);
	busy = watch(run->window_ns);
	atomic_store(&ticking.stop, true);
	for (int i = 0; i < 1000 && !atomic_load_explicit(&ticking.stopped, memory_order_acquire); i++)
		sleep_ns(10 * NS_PER_MS);
	outcome_add(outcome, idle.cpu_ms_per_s);
	outcome_add(outcome, idle.switches_per_s);
	outcome_add(outcome, busy.cpu_ms_per_s);
	outcome_add(outcome, run->n ? ((double)after - (double)before) / (double)run->n : 0);
	account.accepted += ticking.account.accepted; /* the task has stopped: no thread writes the account any more */
	account.error = account.error ? account.error : ticking.account.error;
	(void)run_end(run, timer, &account, outcome);
}

const struct scenario scenarios_idle[] = {
	{ .name = "S5",
	  .title = "idle; n due in an hour, tick 1 ms",
	  .figures = { "CPU ms/s", "switches/s" },
	  .run = s5_run,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 0, 1000000, SIZE_END },
	  .rank = RANK_OTHER },
	{ .name = "S6",
	  .title = "n due in 10 minutes to an hour, tick 1 ms; idle, then with one task a tick",
	  .figures = S6_FIGURES,
	  .run = s6_run,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 0, 1000000, 10000000, SIZE_END },
	  .rank = RANK_OTHER,
	  .slow = true,
	  .brief = true },
	{ .name = NULL },
};
