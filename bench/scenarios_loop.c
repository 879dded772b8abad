/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A loop of one thread that advances its timer with each turn, while n timeouts are pending.  The loop tells its own
 * times, 10 us a turn, so the figures contain neither a clock reading nor a poll.
 */
#include "load.h"

#include <errno.h>

#define LOOP_DELAY_NS (600 * NS_PER_S)
#define LOOP_TURN_NS INT64_C(10000)
#define LOOP_TURNS 1000000

enum turn { IDLE, PAIR, EXCHANGE, NEXT };

struct loop {
	const struct run *run;
	void *timer;
	struct account account;
	struct handle *handles; /* of the pending timeouts, and one more */
	int64_t told_ns;
	struct rng rng;
};

static void schedule(struct loop *loop, size_t which)
{
	run_schedule(loop->run, loop->timer, loop->told_ns + LOOP_DELAY_NS + rng_span(&loop->rng, LOOP_DELAY_NS),
		     &loop->handles[which], &loop->account);
}

static void cancel(struct loop *loop, size_t which)
{
	if (loop->run->subject->cancel(loop->timer, &loop->handles[which]) == 0)
		loop->account.cancelled++;
}

/* Makes turns of one kind.  Returns the ns a turn. */
static double turn(struct loop *loop, enum turn what, size_t turns)
{
	const struct subject *subject = loop->run->subject;
	size_t n = loop->run->n;
	int64_t begin_ns = now_ns();

	for (size_t i = 0; i < turns; i++) {
		size_t which = what == PAIR ? n : rng_next(&loop->rng) % n;

		loop->told_ns += LOOP_TURN_NS;
		if (what == EXCHANGE)
			cancel(loop, which);
		if (what == PAIR || what == EXCHANGE)
			schedule(loop, which);
		if (what == PAIR)
			cancel(loop, which);
		if ((what == NEXT ? subject->next(loop->timer) : subject->advance(loop->timer, loop->told_ns)) <=
		    loop->told_ns)
			loop->account.error = loop->account.error ? loop->account.error : EBUSY;
	}
	return (double)(now_ns() - begin_ns) / (double)turns;
}

static void loop_run(const struct run *run, struct outcome *outcome)
{
	struct loop loop = { .run = run, .rng = rng_seed(run->seed), .told_ns = now_ns() };
	size_t turns = run->quick ? LOOP_TURNS / 10 : LOOP_TURNS;

	loop.timer = run_begin(run, fire_task, outcome);
	if (!loop.timer)
		return;
	loop.handles = touched(run->n + 1, sizeof(*loop.handles));
	for (size_t i = 0; i < run->n; i++)
		schedule(&loop, i);
	(void)run->subject->advance(loop.timer, loop.told_ns);
	for (enum turn what = IDLE; what <= NEXT; what++) {
		(void)turn(&loop, what, turns / 10);
		outcome_add(outcome, turn(&loop, what, turns));
	}
	(void)run_end(run, loop.timer, &loop.account, outcome);
	untouch(loop.handles, run->n + 1, sizeof(*loop.handles));
}

const struct scenario scenarios_loop[] = {
	{ .name = "loop",
	  .title = "a loop of one thread: a turn that only advances; schedule, cancel, advance; cancel one, schedule "
		   "one, advance; one that only asks for the next time",
	  .figures = { "idle ns", "pair ns", "exchange ns", "next ns" },
	  .run = loop_run,
	  .driven = true,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 200, 100000, SIZE_END },
	  .churn = true },
	{ .name = NULL },
};
