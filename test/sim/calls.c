/* SPDX-License-Identifier: BSD-2-Clause */
/* The alphabet: all public calls, each with its allowed answers; world.h. */
#include "sim/world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TASKS UINT64_C(1000000) /* plans of tasks */
#define FINALISERS UINT64_C(2000000)

/* Checks that a call takes no longer than the simulation holds it up, unless it waits for a task or the worker. */
struct guard {
	int64_t now_ns, held_ns;
	uint64_t refused;
	unsigned steps;
};

#define ERRNO_BEFORE 1234 /* errno, which a call leaves alone */

static struct guard begin_call(void)
{
	errno = ERRNO_BEFORE;
	return (struct guard){ sim_now(), sim_held(), world.refused, world.steps };
}

static void end_call(const struct guard *guard)
{
	SIM_CHECK(sim_now() - guard->now_ns <= HWT_MS(20) + sim_held() - guard->held_ns);
	SIM_CHECK(errno == ERRNO_BEFORE);
}

static bool was_refused(const struct guard *guard, int rc)
{
	return (rc == ENOMEM || rc == EAGAIN) && world.refused > guard->refused;
}

static int64_t plus(int64_t a, int64_t b)
{
	return a > 0 && b > INT64_MAX - a ? INT64_MAX : a + b;
}

/*
 * Scheduling
 */

static struct item *new_item(void)
{
	struct item *item = &world.items[world.item_count];

	if (world.item_count == ITEMS)
		return NULL;
	item->number = world.item_count++;
	item->owner = sim_self();
	item->runs_max = UINT32_MAX;
	item->known_since = FOREVER;
	item->most_ns = UNKNOWN;
	item->has_finaliser = hit(3) && !world.collects;
	item->agains = hit(6) ? (unsigned)sim_plan(4) : 0;
	return item;
}

static int64_t some_delay(void)
{
	switch (sim_plan(16)) {
	case 0:
		return -some_time(world.delay_max_ns);
	case 1:
		return 0;
	case 2:
		return world.delay_max_ns;
	case 3:
		return (int64_t)sim_plan(4) * world.config.tick_duration_ns;
	default:
		return some_time(world.delay_max_ns);
	}
}

hwt_task *its_task(void)
{
	return world.collects ? NULL : run_item;
}

static int submit(struct item *item, const hwt_spec *spec)
{
	if (spec->release != NULL || hit(4))
		return hwt_new_timeout_ex(world.timer, spec, &item->handle);
	if (spec->period_ns > 0)
		return hwt_new_periodic(world.timer, its_task(), item, spec->when_ns, spec->period_ns, &item->handle);
	if ((spec->flags & HWT_ABSOLUTE) != 0)
		return hwt_new_timeout_at(world.timer, its_task(), item, spec->when_ns, &item->handle);
	return hwt_new_timeout(world.timer, its_task(), item, spec->when_ns, &item->handle);
}

static void count_refusal(int rc)
{
	world.sums.limit += rc == ENOBUFS;
	world.sums.stopped += rc == ECANCELED;
	world.sums.memory += rc == ENOMEM;
}

static int schedule(bool must_have_memory)
{
	struct item *item = new_item();
	hwt_spec spec = { .size = sizeof(spec), .task = its_task(), .arg = item };
	struct guard guard = begin_call();
	int64_t delay_ns = some_delay(), begun_ns = world_clock(), least_ns = world_clock_least();
	bool at = hit(3);
	int rc;

	if (item == NULL)
		return 0;
	spec.release = item->has_finaliser ? release_item : NULL;
	if (hit(12))
		spec.period_ns = item->period_ns = world.config.tick_duration_ns + world.delay_max_ns / 8 +
						   some_time(world.delay_max_ns);
	at = at && (item->period_ns == 0 || item->has_finaliser);
	spec.when_ns = at ? plus(begun_ns, delay_ns) : delay_ns;
	spec.flags = at ? HWT_ABSOLUTE : 0;
	item->least_ns = plus(at ? begun_ns : least_ns, delay_ns);
	item->is_exact = at;
	rc = submit(item, &spec);
	sim_say(item->period_ns > 0 ? "schedules %ld, again and again: %ld" : "schedules %ld: %ld", (long)item->number,
		rc);
	SIM_CHECK(rc == 0 || (rc == ENOBUFS && world.config.max_pending_timeouts > 0) ||
		  (rc == ECANCELED && world.is_stopping) || was_refused(&guard, rc));
	SIM_CHECK(rc != ENOMEM || !must_have_memory);
	SIM_CHECK(rc == 0 || (item->handle.entry == NULL && item->runs == 0));
	count_refusal(rc);
	world.is_started = world.is_started || rc == 0;
	item->accepted = rc == 0;
	world.sums.accepted += rc == 0;
	if (world.steps != guard.steps)
		item_forget(item);
	else if (item->runs == 0)
		item_end_call(item, item->least_ns, plus(at ? begun_ns : world_clock(), delay_ns));
	else if (item->period_ns > 0)
		item_forget(item); /* the task is running: any later run may be the next */
	end_call(&guard);
	return rc;
}

/*
 * Calls with a handle
 */

static struct item *some_item(void)
{
	struct item *item;
	unsigned newest = hit(4) ? world.item_count : 32;

	if (world.item_count == 0)
		return NULL;
	newest = newest < world.item_count ? newest : world.item_count;
	item = &world.items[world.item_count - 1 - sim_plan(newest)];
	return item->accepted != 0 ? item : NULL;
}

static void cancel(struct item *item, bool sync)
{
	bool waited = item_waits(item), idle = item->calls == 0;
	struct guard guard = begin_call();
	unsigned runs = item->runs;
	int rc;

	item->calls++;
	world.waits += sync;
	rc = sync ? hwt_cancel_sync(item->handle) : hwt_cancel(item->handle);
	sim_say(sync ? "cancels %ld and waits: %ld" : "cancels %ld: %ld", (long)item->number, rc);
	SIM_CHECK(rc == 0 || rc == ENOENT || (rc == EBUSY && !sync));
	item_cancelled(item, rc, sync);
	/* The call could only fail to wait if the task ran, or another thread had the timeout. */
	if (waited && idle && item->calls == 0 && item->runs == runs && !item->in_run && !world.is_stopping &&
	    !world.in_hand)
		SIM_CHECK(rc != ENOENT || item->cancels > 0);
	if (!sync)
		end_call(&guard);
}

static void cancel_own(struct item *item)
{
	if (hit(3)) {
		SIM_CHECK(hwt_cancel_sync(item->handle) == EDEADLK);
	} else if (hit(2)) {
		cancel(item, false);
	}
}

/* Moves of a timeout overlap only if one of them is its task's; then its deadline is unknown until the next call. */
static void move(struct item *item)
{
	bool at = hit(2);
	int64_t delay_ns = some_delay(), begun_ns = at ? world_clock() : world_clock_least();
	int64_t to_ns = plus(begun_ns, delay_ns);
	int64_t before_ns = item->least_ns, most_ns = item->most_ns;
	struct guard guard = begin_call();
	unsigned runs = item->runs;
	int rc;

	if (item->calls > 0 || item->in_run || item->known_since == FOREVER)
		return;
	item->calls++;
	item->is_exact = false;
	item_begin_call(item, to_ns);
	rc = at ? hwt_reschedule_at(item->handle, to_ns) : hwt_reschedule(item->handle, delay_ns);
	item->calls--;
	sim_say("moves %ld: %ld", (long)item->number, rc);
	SIM_CHECK(rc == 0 || rc == EBUSY || rc == ENOENT || was_refused(&guard, rc));
	world.sums.moved += rc == 0;
	if (item->runs != runs || world.steps != guard.steps || (world.in_hand && item->period_ns > 0))
		item_forget(item);
	else if (rc == 0)
		item_end_call(item, to_ns, plus(at ? begun_ns : world_clock(), delay_ns));
	else
		item_end_call(item, before_ns, most_ns);
	end_call(&guard);
}

/* Reschedules in the timeout's own task. */
static void again(struct item *item)
{
	int64_t delay_ns = some_delay(), begun_ns = world_clock_least();
	struct guard guard = begin_call();
	unsigned cancels = item->runs_max != UINT32_MAX || item->calls > 0;
	int rc;

	if (item->agains == 0)
		return;
	item->agains--;
	item->is_exact = false;
	item->calls++;
	rc = hwt_reschedule(item->handle, delay_ns);
	item->calls--;
	sim_say("runs %ld again: %ld", (long)item->number, rc);
	SIM_CHECK(rc == 0 || (rc == ENOBUFS && world.config.max_pending_timeouts > 0) ||
		  (rc == ENOENT && (cancels || item->calls > 0 || item->runs_max != UINT32_MAX || world.is_stopping)) ||
		  was_refused(&guard, rc));
	if (rc != 0)
		return;
	world.sums.moved++;
	if (item->period_ns == 0) {
		item->rearms += !item->is_rearmed;
		item->is_rearmed = true;
	}
	if (world.steps != guard.steps)
		item_forget(item);
	else
		item_end_call(item, plus(begun_ns, delay_ns), plus(world_clock(), delay_ns));
	end_call(&guard);
}

static bool may_be(const struct item *item, hwt_state state)
{
	if (item->in_run)
		return state == HWT_RUNNING;
	if (item->returned + item->cancels > 0 && item->period_ns == 0 && item->runs == 0)
		return state == HWT_CANCELLED || state == HWT_RETIRED;
	if (item_waits(item))
		return state == HWT_PENDING || state == HWT_RUNNING || world.is_stopping;
	return state != HWT_NONE && (state != HWT_PENDING || item->runs_max != UINT32_MAX);
}

static void look_at(struct item *item)
{
	unsigned runs = item->runs, calls = item->calls;
	bool in_run = item->in_run;
	int64_t left_ns = 0, before_ns = world_clock_least();
	uint64_t known_since = item->known_since;
	struct guard guard = begin_call();
	hwt_state state = hwt_timeout_state(item->handle);
	char text[80] = "";
	int rc;

	if (runs == item->runs && in_run == item->in_run && calls == 0 && item->calls == 0 && !world.in_hand)
		SIM_CHECK(may_be(item, state));
	SIM_CHECK(hwt_timeout_timer(item->handle) == world.timer);
	rc = hwt_timeout_left(item->handle, &left_ns);
	SIM_CHECK(rc == 0 || rc == EBUSY || rc == ENOENT);
	if (rc == 0 && known_since == item->known_since && known_since != FOREVER && item->calls == 0 &&
	    item_waits(item) && !world.is_stopping && world.steps == guard.steps && item->period_ns == 0)
		SIM_CHECK(left_ns <= item->most_ns - before_ns && left_ns >= item->least_ns - world_clock());
	SIM_CHECK(hwt_timeout_format(item->handle, text, sizeof(text)) > 0 && strncmp(text, "hwt timeout", 11) == 0);
	(void)hwt_is_expired(item->handle);
	(void)hwt_is_cancelled(item->handle);
	end_call(&guard);
}

/*
 * Calls with the timer
 */

static void look_at_timer(void)
{
	struct guard guard = begin_call();
	hwt_stats stats = { .size = sizeof(stats) };
	hwt_config config = { .size = sizeof(config) };
	hwt_unprocessed left;
	int64_t start_ns;

	SIM_CHECK(hwt_timer_stats(world.timer, &stats) == 0);
	SIM_CHECK(stats.accepted == stats.completed + stats.cancelled + stats.returned + stats.pending + stats.running);
	SIM_CHECK(hwt_timer_config(world.timer, &config) == 0 && config.wheel == world.config.wheel);
	SIM_CHECK(hwt_timer_user(world.timer) == &world);
	SIM_CHECK(hwt_timer_grid(world.timer, &start_ns) == (world.is_started ? 0 : ENOENT) || !world.is_started);
	SIM_CHECK(world.is_stopping || !hwt_timer_next_unprocessed(world.timer, &left));
	SIM_CHECK(hwt_pending_timeouts(world.timer) <= ITEMS); /* nor below zero, which would be a huge number */
	end_call(&guard);
}

/*
 * A walk, during which others go on.  It must show each timeout whose state is the same when the walk begins and when
 * it ends.
 */
struct known {
	unsigned shown, runs, rearms;
	bool waits;
};

static bool meet(void *ctx, const hwt_pending *pending)
{
	struct item *item = pending->arg;
	struct known *known = &((struct known *)ctx)[item->number];

	SIM_CHECK(item >= world.items && item < world.items + ITEMS);
	SIM_CHECK(known->shown++ == 0);
	SIM_CHECK(pending->task == its_task() && pending->period_ns == item->period_ns);
	SIM_CHECK(pending->state == HWT_PENDING || pending->state == HWT_RUNNING ||
		  (pending->state == HWT_CANCELLED && world.is_stopping));
	if (item->accepted > 0) { /* else the call that schedules it has not returned */
		SIM_CHECK(pending->timeout.entry == item->handle.entry &&
			  pending->timeout.generation == item->handle.generation);
		if (item->is_exact && item->runs == 0 && item->calls == 0 && item->period_ns == 0 &&
		    item->known_since != FOREVER)
			SIM_CHECK(pending->deadline_ns == item->least_ns);
		if (hit(32))
			cancel(item, false);
	}
	return true;
}

static void walk(void)
{
	struct known *known = calloc(ITEMS, sizeof(*known));
	struct guard guard = begin_call();

	SIM_CHECK(known != NULL);
	for (unsigned i = 0; i < world.item_count; i++) {
		const struct item *item = &world.items[i];

		known[i] = (struct known){ 0, item->runs, item->rearms, item_waits(item) && !item->in_run };
	}
	SIM_CHECK(hwt_timer_each(world.timer, meet, known) == 0);
	end_call(&guard);
	for (unsigned i = 0; i < world.item_count && !world.is_stopping; i++) {
		const struct item *item = &world.items[i];
		bool waited = known[i].waits && item_waits(item) && item->runs == known[i].runs && item->calls == 0;

		if (waited && known[i].shown != 1)
			sim_say("%ld was shown %ld times", (long)i, (long)known[i].shown);
		SIM_CHECK(!waited || known[i].shown == 1 || world.in_hand);
	}
	free(known);
}

static void trim(bool in_task)
{
	size_t bytes = 0;
	struct guard guard = begin_call();
	int rc = hwt_timer_trim(world.timer, &bytes);

	sim_say("trims: %ld, %ld bytes", rc, (long)bytes);
	SIM_CHECK(rc == 0 || (rc == EBUSY && world.driving != WORKER) || (rc == ECANCELED && world.is_stopping));
	if (in_task)
		end_call(&guard);
}

static void next(bool in_task)
{
	struct guard guard = begin_call();
	uint64_t began = sim_steps();
	int64_t next_ns;
	int rc = hwt_timer_next(world.timer, &next_ns);

	if (world.driving == WORKER)
		SIM_CHECK(rc == EINVAL);
	else
		SIM_CHECK(rc == 0 || rc == EBUSY || (rc == ECANCELED && world.is_stopping));
	if (rc == 0)
		judge_next(began, next_ns);
	end_call(&guard);
	if (!in_task || world.driving == WORKER)
		return;
	rc = hwt_timer_advance(world.timer, world_clock(), NULL);
	SIM_CHECK(rc == EBUSY || rc == ECANCELED);
}

/* Advances, and goes through the batch; meanwhile other actors make calls. */
static int advance_batch(int64_t now_ns, int64_t *next_ns)
{
	size_t room = sim_random(hit(2) ? 4 : 17), count = 0;
	hwt_fired batch[16];
	int rc;

	world.in_hand = true;
	rc = hwt_timer_advance_batch(world.timer, now_ns, batch, room, &count, next_ns);
	SIM_CHECK(rc != 0 || (count <= room && *next_ns >= now_ns));
	for (size_t i = 0; i < count; i++) {
		sim_point("takes one out of the batch");
		sim_say("has collected %ld, after %ld that were missed", (long)((struct item *)batch[i].arg)->number,
			(long)batch[i].missed);
		item_start(batch[i].arg, batch[i].timeout, batch[i].missed);
		item_end(batch[i].arg);
	}
	world.in_hand = false;
	world.is_cut = count == room || world.is_stopping;
	return rc;
}

/* A virtual clock knows no time before 0. */
static void advance_to_before_all_times(void)
{
	int rc = hwt_timer_advance(world.timer, -1 - some_time(world.delay_max_ns), NULL);

	SIM_CHECK(rc == EINVAL || (rc == EBUSY && world.has_pool) || (rc == ECANCELED && world.is_stopping));
}

int call_advance(int64_t now_ns, int64_t *next_ns)
{
	uint64_t began = sim_steps();
	unsigned steps = world.steps;
	int rc;

	if (world.driving == VIRTUAL && hit(16))
		advance_to_before_all_times();
	world.advances++;
	rc = world.collects ? advance_batch(now_ns, next_ns) : hwt_timer_advance(world.timer, now_ns, next_ns);
	sim_say("advances to %ld: %ld", (long)(now_ns - world.start_ns), rc);
	SIM_CHECK(rc == 0 || (rc == EBUSY && world.has_pool) ||
		  (rc == ECANCELED && world.is_stopping)); /* pool: next */
	if (rc != 0)
		return rc;
	/* After a step back due timeouts run at the next tick.  The advance before may have read a later clock. */
	if (now_ns < world.heard_ns || world.steps != world.heard_steps)
		world.back_until_ns = world_tick(now_ns) + world.tick_ns;
	if (now_ns >= world.back_until_ns)
		judge_advance(began, now_ns, *next_ns);
	world.heard_ns = now_ns;
	world.heard_steps = steps;
	return rc;
}

static bool count_left(void *ctx, const hwt_pending *pending)
{
	SIM_CHECK(pending->state == HWT_CANCELLED);
	++*(size_t *)ctx;
	return true;
}

int call_stop(void)
{
	hwt_unprocessed left;
	size_t count = 0, shown = 0;
	int rc;

	world.is_stopping = true;
	world.stop_ns = sim_now();
	world.stop_held_ns = sim_held();
	rc = hwt_timer_stop(world.timer, &count);
	sim_say("stops: %ld, gives back %ld", rc, (long)count);
	world.is_stopped = true;
	SIM_CHECK(rc == 0);
	SIM_CHECK(hwt_timer_each(world.timer, count_left, &shown) == 0 && shown == count);
	for (; hwt_timer_next_unprocessed(world.timer, &left); count--) {
		struct item *item = left.arg;

		SIM_CHECK(left.task == its_task() && left.timeout.entry == item->handle.entry);
		SIM_CHECK(item->calls > 0 || item->known_since == FOREVER || left.deadline_ns >= item->least_ns);
		SIM_CHECK(item->released == 0); /* only hwt_timer_destroy calls the finaliser */
		item->returned++;
	}
	SIM_CHECK(count == 0);
	shown = 0;
	SIM_CHECK(hwt_timer_each(world.timer, count_left, &shown) == 0 && shown == 0);
	return rc;
}

void call_something(bool in_task)
{
	struct item *item = some_item();
	unsigned what = (unsigned)sim_plan(32);

	if (what < 14 || item == NULL)
		(void)schedule(false);
	else if (what < 21)
		cancel(item, !in_task && hit(4));
	else if (what < 26)
		move(item);
	else if (what < 28)
		look_at(item);
	else if (what < 30)
		look_at_timer();
	else if (what < 31)
		next(in_task);
	else if (hit(4))
		trim(in_task);
	else
		walk();
}

/*
 * Tasks
 */

void run_item(hwt_timeout timeout, void *arg)
{
	struct item *item = arg;
	uint64_t plan = sim_plan_begin(TASKS + item->number, item->runs);

	sim_say("begins the task of %ld, %ld ns late", (long)item->number,
		item->most_ns != UNKNOWN ? (long)(world_clock() - item->most_ns) : -1);
	item_start(item, timeout, hwt_timeout_missed(timeout));
	if (hit(4))
		world_sleep(some_time(hit(16) ? HWT_MS(500) : HWT_US(100)));
	again(item);
	if (hit(8))
		call_something(true);
	if (hit(16))
		cancel_own(item);
	if (hit(32))
		SIM_CHECK(hwt_timer_stop(world.timer, NULL) == EDEADLK && hwt_timer_destroy(world.timer) == EDEADLK);
	if (hit(8))
		again(item);
	item_end(item);
	sim_plan_end(plan);
}

void release_item(void *arg)
{
	struct item *item = arg;
	uint64_t plan = sim_plan_begin(FINALISERS, item->number);

	sim_say("releases %ld", (long)item->number, 0L);
	item_release(item);
	if (hit(8))
		world_sleep(some_time(HWT_US(100)));
	if (hit(8))
		call_something(true);
	sim_plan_end(plan);
}
