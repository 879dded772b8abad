/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by most runs: the task that checks its deadline, the account, beginning and end. */
#include "run.h"
#include "measure.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct fired fired;

void fire_task(void *arg)
{
	int64_t deadline_ns = (int64_t)(intptr_t)arg;
	uint64_t ran = atomic_load_explicit(&fired.ran, memory_order_relaxed) + 1; /* only this thread writes it */

	if (deadline_ns > fired.seen_ns) {
		fired.seen_ns = now_ns();
		fired.early += fired.seen_ns < deadline_ns;
		if (ran == 1)
			fired.first_ns = fired.seen_ns;
	}
	if (ran == fired.expected)
		fired.last_ns = now_ns();
	atomic_store_explicit(&fired.ran, ran, memory_order_release);
}

void fire_wait(uint64_t count, int64_t limit_ns)
{
	while (atomic_load_explicit(&fired.ran, memory_order_acquire) < count && now_ns() < limit_ns)
		sleep_ns(2 * NS_PER_MS);
}

void outcome_add(struct outcome *outcome, double figure)
{
	if (outcome->count < FIGURES_MAX)
		outcome->figures[outcome->count++] = figure;
}

void outcome_wrong(struct outcome *outcome, const char *format, ...)
{
	va_list args;

	if (outcome->why[0] != '\0')
		return;
	va_start(args, format);
	(void)vsnprintf(outcome->why, sizeof(outcome->why), format, args);
	va_end(args);
}

void outcome_absent(struct outcome *outcome, const char *why)
{
	if (outcome->why[0] != '\0')
		return; /* a fault must not be hidden */
	outcome->absent = true;
	(void)snprintf(outcome->why, sizeof(outcome->why), "%s", why);
}

void *run_begin(const struct run *run, subject_task *task, struct outcome *outcome)
{
	struct subject_config config = {
		.tick_ns = run->tick_ns,
		.constant_ns = run->scenario->constant_ns,
		.buckets = BUCKETS,
	};
	void *timer = run->subject->init(&config, task);

	if (!timer)
		outcome_wrong(outcome, "no timer");
	return timer;
}

int64_t run_end(const struct run *run, void *timer, const struct account *account, struct outcome *outcome)
{
	int64_t begin_ns = now_ns(), took_ns;
	uint64_t returned = run->subject->destroy(timer), ran;

	took_ns = now_ns() - begin_ns;
	ran = atomic_load(&fired.ran);
	if (account->error)
		outcome_wrong(outcome, "a call failed: %s", strerror(account->error));
	if (fired.early)
		outcome_wrong(outcome, "%" PRIu64 " ran early", fired.early);
	if (account->accepted != ran + account->cancelled + returned)
		outcome_wrong(outcome,
			      "accepted %" PRIu64 ", but ran %" PRIu64 ", cancelled %" PRIu64 ", returned %" PRIu64,
			      account->accepted, ran, account->cancelled, returned);
	return took_ns;
}

void run_schedule(const struct run *run, void *timer, int64_t deadline_ns, struct handle *handle,
		  struct account *account)
{
	void *arg = fire_arg(deadline_ns);
	int rc;

	if (run->subject->schedule_at)
		rc = run->subject->schedule_at(timer, arg, deadline_ns, handle);
	else
		rc = run->subject->schedule(timer, arg, deadline_ns - now_ns(), handle);
	if (rc == 0)
		account->accepted++;
	else
		account->error = rc;
}

int64_t run_scatter(const struct run *run, void *timer, struct account *account)
{
	struct handle *handles = touched(run->n, sizeof(*handles));
	struct rng rng = rng_seed(run->seed);
	int64_t begin_ns = now_ns(), far_ns = begin_ns + 600 * NS_PER_S, took_ns;

	for (size_t i = 0; i < run->n; i++)
		run_schedule(run, timer, far_ns + rng_span(&rng, 60 * NS_PER_S), &handles[i], account);
	took_ns = now_ns() - begin_ns;
	for (size_t i = run->n; i > 1; i--) {
		size_t other = (size_t)(rng_next(&rng) % i);
		struct handle handle = handles[i - 1];

		handles[i - 1] = handles[other];
		handles[other] = handle;
	}
	settle(run->tick_ns); /* timeouts that have not reached the wheel would be freed in order */
	for (size_t i = 0; i < run->n; i++)
		account->cancelled += run->subject->cancel(timer, &handles[i]) == 0;
	settle(run->tick_ns);
	untouch(handles, run->n, sizeof(*handles));
	return took_ns;
}

static int nothing(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	(void)timer;
	out->pointer = arg;
	out->number = (uint64_t)delay_ns;
	return 0;
}

double floor_bench_ns(void)
{
	enum { CALLS = 100000 };
	int (*volatile schedule)(void *, void *, int64_t, struct handle *) = nothing; /* volatile: not inlined */
	struct handle *handles = touched(CALLS, sizeof(*handles));
	struct rng rng = rng_seed(1);
	int64_t begin_ns = now_ns();

	for (size_t i = 0; i < CALLS; i++)
		schedule(NULL, NULL, rng_span(&rng, 60 * NS_PER_S), &handles[i]);
	begin_ns = now_ns() - begin_ns;
	untouch(handles, CALLS, sizeof(*handles));
	return (double)begin_ns / CALLS;
}
