/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios of a steady stream, in which as many timeouts run as are scheduled: S6c one constant delay, S6m near
 * timeouts while very many far ones wait.
 *
 * Measured over a window of time: CPU time of every thread but the bench's own, per timeout that ran.
 */
#include "load.h"

#include <stdatomic.h>

enum { ORDERED, SCATTERED, EQUAL_RATE };

#define S6C_DELAY_NS (20 * NS_PER_S)
#define S6C_EQUAL_RATE 100000 /* a second */
#define S6M_RATE 200000       /* a second */
#define S6M_SPAN_NS (400 * NS_PER_MS)

struct stream {
	const struct run *run;
	void *timer;
	struct account account;
	int64_t step_ns;  /* between two timeouts */
	int64_t delay_ns; /* 0: random delays below S6M_SPAN_NS */
	struct rng rng;
};

/* Schedules each millisecond's share until end_ns. */
static void flow(struct stream *stream, int64_t begin_ns, int64_t end_ns)
{
	int64_t next_ns = begin_ns;
	struct handle handle;

	for (int64_t wake_ns = begin_ns; wake_ns < end_ns && stream->account.error == 0; wake_ns += NS_PER_MS) {
		sleep_until(wake_ns);
		for (; next_ns < wake_ns + NS_PER_MS; next_ns += stream->step_ns) {
			int64_t delay_ns = stream->delay_ns ? stream->delay_ns : rng_span(&stream->rng, S6M_SPAN_NS);

			run_schedule(stream->run, stream->timer, next_ns + delay_ns, &handle, &stream->account);
		}
	}
}

/* Lets the stream flow, first to warm up, then for the run's window, to which the figures belong. */
static void measure(struct stream *stream, int64_t base_ns, int64_t warm_ns, struct outcome *outcome)
{
	const struct run *run = stream->run;
	uint64_t ran;
	int64_t cpu_ns, window_ns;

	flow(stream, base_ns, base_ns + warm_ns);
	ran = atomic_load(&fired.ran);
	cpu_ns = others_cpu_ns();
	window_ns = now_ns();
	flow(stream, base_ns + warm_ns, base_ns + warm_ns + run->window_ns);
	window_ns = now_ns() - window_ns;
	cpu_ns = others_cpu_ns() - cpu_ns;
	ran = atomic_load(&fired.ran) - ran;
	outcome_add(outcome, (double)ran * 1e6 / (double)window_ns);
	outcome_add(outcome, ran ? (double)cpu_ns / (double)ran : 0);
	outcome_add(outcome, (double)cpu_ns * 1e3 / (double)window_ns);
}

/*
 * Ends the run.  `due` timeouts must run, however busy the machine is.  A library that is still running tasks after a
 * while cannot keep up with this stream; a library that has come to rest has lost timeouts.
 */
static void finish(struct stream *stream, uint64_t due, struct outcome *outcome)
{
	uint64_t ran, before;

	fire_wait(due, now_ns() + 10 * NS_PER_S);
	before = atomic_load(&fired.ran);
	if (before < due)
		sleep_ns(3 * NS_PER_S);
	ran = atomic_load(&fired.ran);
	if (before < due && ran == before)
		outcome_wrong(outcome, "only %llu ran of %llu", (unsigned long long)ran, (unsigned long long)due);
	(void)run_end(stream->run, stream->timer, &stream->account, outcome);
	if (before < due)
		outcome_absent(outcome, "too slow for this stream");
}

/*
 * S6c.  It begins in the steady state, with n timeouts that seem to have waited for up to the whole delay: their
 * deadlines lie as far apart as those of the stream that follows.
 */
static void s6c_run(const struct run *run, struct outcome *outcome)
{
	int64_t delay_ns = run->variant == EQUAL_RATE ? (int64_t)run->n * NS_PER_S / S6C_EQUAL_RATE : S6C_DELAY_NS;
	struct stream stream = { .run = run, .delay_ns = delay_ns, .step_ns = delay_ns / (int64_t)run->n };
	int64_t base_ns, warm_ns = (run->quick ? 100 : 500) * NS_PER_MS;
	struct handle handle;

	stream.timer = run_begin(run, fire_task, outcome);
	if (!stream.timer)
		return;
	if (run->variant == SCATTERED)
		(void)run_scatter(run, stream.timer, &stream.account);
	base_ns = now_ns() + 100 * NS_PER_MS + (int64_t)run->n * 150;
	for (size_t i = 0; i < run->n; i++)
		run_schedule(run, stream.timer, base_ns + (int64_t)i * stream.step_ns, &handle, &stream.account);
	measure(&stream, base_ns, warm_ns, outcome);
	finish(&stream, (uint64_t)((warm_ns + run->window_ns) / stream.step_ns), outcome);
}

/* S6m. */
static void s6m_run(const struct run *run, struct outcome *outcome)
{
	struct stream stream = { .run = run, .step_ns = NS_PER_S / S6M_RATE, .rng = rng_seed(run->seed) };
	struct handle handle;
	int64_t far_ns;

	stream.timer = run_begin(run, fire_task, outcome);
	if (!stream.timer)
		return;
	far_ns = now_ns() + 600 * NS_PER_S;
	for (size_t i = 0; i < run->n; i++)
		run_schedule(run, stream.timer, far_ns + rng_span(&stream.rng, 3000 * NS_PER_S), &handle,
			     &stream.account);
	settle(run->tick_ns);
	measure(&stream, now_ns() + 10 * NS_PER_MS, S6M_SPAN_NS + 100 * NS_PER_MS, outcome);
	finish(&stream, stream.account.accepted - run->n, outcome);
}

#define S6C                                                                                                            \
	{                                                                                                              \
		"thousand/s", "worker ns/task", "worker ms/s"                                                          \
	}

const struct scenario scenarios_steady[] = {
	{ .name = "S6c",
	  .title = "a steady stream of one delay of 20 s, n/20 a second, tick 1 ms",
	  .figures = S6C,
	  .run = s6c_run,
	  .variant = ORDERED,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 20000, 200000, 2000000, 6000000, SIZE_END },
	  .slow = true },
	{ .name = "S6c.scattered",
	  .title = "the same, records scattered",
	  .figures = S6C,
	  .run = s6c_run,
	  .variant = SCATTERED,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 6000000, SIZE_END },
	  .slow = true },
	{ .name = "S6c.rate",
	  .title = "a steady stream of one delay, 100,000 a second whatever n is, tick 1 ms",
	  .figures = S6C,
	  .run = s6c_run,
	  .variant = EQUAL_RATE,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 20000, 2000000, SIZE_END } },
	{ .name = "S6m",
	  .title = "200,000 near ones (0..400 ms) a second beside n far ones (10 minutes to an hour), tick 1 ms",
	  .figures = S6C,
	  .run = s6m_run,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 0, 10000000, SIZE_END } },
	{ .name = NULL },
};
