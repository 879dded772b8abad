/* SPDX-License-Identifier: BSD-2-Clause */
/* The model: what each timeout may do and must do; world.h. */
#include "sim/world.h"
#include "check/check.h"

#include <errno.h>

struct world world;

int64_t world_clock(void)
{
	bool before = sim_freeze(true); /* the model must not change meanwhile */
	int64_t now_ns = world.driving == VIRTUAL ? world.told_ns : hwt_clock_now(world.config.clock);

	(void)sim_freeze(before);
	return now_ns;
}

int64_t world_clock_least(void)
{
	return world.driving == VIRTUAL ? world.heard_ns : world_clock();
}

/* Returns the sum of the times for which the sleepers have slept. */
static int64_t asleep(void)
{
	int64_t now_ns = sim_now();

	world.asleep_ns += world.sleepers * (now_ns - world.asleep_at_ns);
	world.asleep_at_ns = now_ns;
	return world.asleep_ns;
}

int64_t world_excuse(void)
{
	return sim_held() + asleep();
}

int64_t world_patience(void)
{
	return HWT_MS(5) + 4 * SIM_HOLD_MAX_NS + 4 * world.tick_ns;
}

int64_t world_tick(int64_t deadline_ns)
{
	int64_t ticks = (deadline_ns - world.start_ns + world.tick_ns - 1) / world.tick_ns;

	return world.start_ns + ticks * world.tick_ns;
}

void world_sleep(int64_t ns)
{
	(void)asleep();
	world.sleepers++;
	sim_sleep(ns);
	(void)asleep();
	world.sleepers--;
}

void world_step(int64_t ns)
{
	sim_say("sets the clock by %ld ns", (long)ns, 0L);
	if (ns > 0)
		world.asleep_ns += ns;
	world.steps++;
	world.step_ns = sim_now();
	world.step_excuse_ns = world_excuse();
	sim_step_clock(ns);
}

bool item_waits(const struct item *item)
{
	if (item->accepted == 0 || item->cancels + item->returned > 0 || item->runs >= item->runs_max)
		return false;
	return item->period_ns > 0 || item->runs < item->accepted + item->rearms;
}

void item_begin_call(struct item *item, int64_t to_ns)
{
	item->least_ns = to_ns < item->least_ns ? to_ns : item->least_ns;
	item->most_ns = UNKNOWN;
	item->known_since = FOREVER;
}

void item_end_call(struct item *item, int64_t least_ns, int64_t most_ns)
{
	int64_t now_ns = world_clock();

	item->is_exact = item->is_exact && most_ns > now_ns; /* a time that has passed runs as soon as it is seen */
	item->least_ns = least_ns;
	item->most_ns = most_ns > now_ns ? most_ns : now_ns + 1;
	item->known_since = sim_steps();
	item->known_by = sim_self();
	item->excuse_ns = world_excuse();
}

void item_forget(struct item *item)
{
	item->least_ns = INT64_MIN;
	item->most_ns = UNKNOWN;
	item->known_since = FOREVER;
}

static bool is_one_thread(void)
{
	return world.config.executor == NULL && world.config.task_threads == 0;
}

/* Checks that of two timeouts of a thread at the same tick the one accepted first runs first. */
static void judge_order(const struct item *item)
{
	unsigned first = item->number > 64 ? item->number - 64 : 0;

	if (!item->is_exact || item->runs > 0 || !is_one_thread() || item->known_since == FOREVER)
		return;
	for (unsigned i = item->number; i-- > first;) {
		const struct item *other = &world.items[i];

		if (other->owner == item->owner && other->is_exact && other->runs == 0 && other->calls == 0 &&
		    item_waits(other) && world_tick(other->most_ns) == world_tick(item->most_ns)) {
			sim_say("runs %ld before %ld", (long)item->number, (long)other->number);
			SIM_CHECK(!"those of a thread run in their order");
		}
	}
}

static void judge_time(const struct item *item, int64_t least_ns, int64_t most_ns)
{
	int64_t now_ns = world_clock(), excuse_ns = world_excuse() - world.step_excuse_ns;

	if (sim_now() - world.step_ns > world_patience() + excuse_ns) /* else the clock may have been set back */
		SIM_CHECK(now_ns >= least_ns);
	if (item->most_ns != UNKNOWN && world.driving != VIRTUAL)
		SIM_CHECK(now_ns - most_ns <= world_patience() + world_excuse() - item->excuse_ns);
}

void item_start(struct item *item, hwt_timeout timeout, uint64_t missed)
{
	int64_t merged_ns = (int64_t)missed * item->period_ns;
	bool in_time = item->most_ns == UNKNOWN || world_clock() - item->most_ns < HWT_MS(5);

	SIM_CHECK(timeout.entry == item->handle.entry && timeout.generation == item->handle.generation);
	SIM_CHECK((!world.is_stopped || world.in_hand) && !item->in_run && item->released == 0 &&
		  item->runs < item->runs_max);
	SIM_CHECK(item->period_ns > 0 || item->runs <= item->rearms);
	SIM_CHECK(missed == 0 || item->period_ns > 0);
	/* Timeouts behind a task for which a stop waits do not run, however long it takes; a pool decides by itself. */
	if (world.is_stopping && !world.has_pool)
		SIM_CHECK(sim_now() - world.stop_ns <= world_patience() + sim_held() - world.stop_held_ns);
	judge_time(item, item->least_ns + merged_ns, item->most_ns == UNKNOWN ? UNKNOWN : item->most_ns + merged_ns);
	judge_order(item);
	item->in_run = true;
	item->is_rearmed = false;
	item->runs++;
	world.sums.runs++;
	world.sums.missed += missed;
	if (item->period_ns > 0) {
		if (item->known_since != FOREVER) /* else a call may still move it to the noted time */
			item->least_ns += merged_ns + item->period_ns;
		if (item->most_ns != UNKNOWN) {
			item->most_ns += merged_ns + item->period_ns;
			item->known_since = sim_steps();
		}
		if (in_time) /* else the worker has not caught up */
			item->excuse_ns = world_excuse();
	}
}

void item_end(struct item *item)
{
	item->in_run = false;
}

void item_release(struct item *item)
{
	item->released++;
	SIM_CHECK(item->has_finaliser && !item->in_run && item->released == 1);
	SIM_CHECK(item->calls > 0 || !item_waits(item) || world.is_stopping);
}

/* A task that a call reports as running may not have come to its first line. */
void item_cancelled(struct item *item, int rc, bool sync)
{
	unsigned more = 1;

	item->calls--;
	item->cancels += rc == 0;
	world.sums.cancelled += rc == 0;
	if (rc == 0 && item->period_ns == 0)
		more = 0;
	else if (sync && (rc == 0 || rc == ENOENT))
		more = world.in_hand;
	if (item->runs_max > item->runs + more)
		item->runs_max = item->runs + more;
	if (sync && (rc == 0 || rc == ENOENT))
		SIM_CHECK(!item->in_run);
	if (rc == EBUSY)
		SIM_CHECK(item->period_ns == 0);
	SIM_CHECK(item->cancels <= 1);
}

void judge_advance(uint64_t began, int64_t now_ns, int64_t next_ns)
{
	bool runs_all = !world.has_pool && world.config.max_tasks_per_advance == 0 && !world.is_cut;

	if (!world.is_started || world.has_pool)
		return;
	for (unsigned i = 0; i < world.item_count; i++) {
		const struct item *item = &world.items[i];
		int64_t tick_ns;
		bool late;

		/*
		 * A timeout that a task of the advance has scheduled waits for a later advance, but the answer knows of
		 * it.
		 */
		bool is_new = item->known_since >= began;

		if (!item_waits(item) || item->calls > 0 || item->in_run || item->known_since == FOREVER ||
		    (is_new && (item->known_by != sim_self() || world.config.clock == HWT_CLOCK_REALTIME)))
			continue;
		tick_ns = world_tick(item->most_ns);
		late = next_ns > tick_ns && next_ns > now_ns;
		if ((runs_all && !is_new && tick_ns <= now_ns) || late)
			sim_say("%ld is due at tick %ld", (long)item->number, (long)(tick_ns - world.start_ns));
		SIM_CHECK(!runs_all || is_new || tick_ns > now_ns);
		SIM_CHECK(!late); /* a time that has passed will do: the loop comes again at once */
	}
}

/* Checks that the answer is not later than timeouts known when the call began.  Jobs in a pool do not count. */
void judge_next(uint64_t began, int64_t next_ns)
{
	if (!world.is_started || world.has_pool || world.is_stopping || world.config.clock == HWT_CLOCK_REALTIME)
		return;
	for (unsigned i = 0; i < world.item_count; i++) {
		const struct item *item = &world.items[i];
		int64_t tick_ns = world_tick(item->most_ns);

		if (!item_waits(item) || item->calls > 0 || item->in_run || item->known_since >= began)
			continue;
		if (next_ns > tick_ns && next_ns > world_clock())
			sim_say("%ld is due at tick %ld", (long)item->number, (long)(tick_ns - world.start_ns));
		SIM_CHECK(next_ns <= tick_ns || next_ns <= world_clock());
	}
}

/* Checks that the handle of a timeout that has ended says so for ever, whatever its memory serves. */
static void judge_handle(struct item *item)
{
	hwt_state state = hwt_timeout_state(item->handle);

	if (item->accepted == 0 || item_waits(item))
		return;
	SIM_CHECK(state == HWT_EXPIRED || state == HWT_CANCELLED || state == HWT_RETIRED);
	SIM_CHECK(state == HWT_RETIRED || !item->is_retired);
	item->is_retired = state == HWT_RETIRED;
}

/* Checks that no timeout is overdue, and that the timer has no more than the model. */
static void judge_items(void)
{
	uint64_t waiting = 0;

	for (unsigned i = 0; i < world.item_count; i++) {
		const struct item *item = &world.items[i];

		waiting += item_waits(item);
		if (item_waits(item) && world.driving != VIRTUAL) {
			if (world_clock() - item->most_ns > world_patience() + world_excuse() - item->excuse_ns)
				sim_say("%ld has not run", (long)item->number, 0L);
			SIM_CHECK(world_clock() - item->most_ns <= world_patience() + world_excuse() - item->excuse_ns);
		}
	}
	if (!sim_others_wait())
		return;
	for (unsigned i = 0; i < world.item_count; i++)
		judge_handle(&world.items[i]);
	SIM_CHECK(hwt_pending_timeouts(world.timer) == waiting);
	SIM_CHECK(world.config.max_pending_timeouts <= 0 || waiting <= (uint64_t)world.config.max_pending_timeouts);
}

static void judge_stats(void)
{
	const struct sums *sums = &world.sums;
	hwt_stats stats = { .size = sizeof(stats) };
	uint64_t late = 0;

	SIM_CHECK(hwt_timer_stats(world.timer, &stats) == 0);
	for (unsigned i = 0; i < 32; i++)
		late += stats.lateness[i];
	SIM_CHECK(late == stats.runs);
	SIM_CHECK(stats.accepted == sums->accepted && stats.cancelled == sums->cancelled);
	SIM_CHECK(stats.runs == sums->runs && stats.merged_periods == sums->missed);
	SIM_CHECK(stats.rescheduled == sums->moved && stats.running == 0 && stats.returned == 0);
	SIM_CHECK(stats.pending == hwt_pending_timeouts(world.timer));
	SIM_CHECK(stats.refused_limit == sums->limit && stats.refused_memory == sums->memory);
	SIM_CHECK(stats.executor_refusals == sums->refusals && stats.tasks_waiting == 0);
	SIM_CHECK(world.driving != WORKER || stats.backlog_max <= world.config.max_transfers_per_tick);
	SIM_CHECK(sim_broadcasts() <= world.waits);
}

void judge_quiet(void)
{
	bool before = sim_freeze(true);

	judge_items();
	if (world.is_started && sim_others_wait()) {
		judge_stats();
		hwt_check(world.timer);
	}
	(void)sim_freeze(before);
}

/* Checks, after the timer has been destroyed, that each accepted timeout had one end, and each refused one none. */
void judge_ends(bool was_stopped)
{
	for (unsigned i = 0; i < world.item_count; i++) {
		const struct item *item = &world.items[i];
		unsigned ends = item->cancels + item->returned;

		if (item->period_ns == 0)
			ends += item->runs - item->rearms;
		if (ends != item->accepted || item->released != (item->has_finaliser ? item->accepted : 0))
			sim_say("%ld has had %ld ends", (long)item->number, (long)ends);
		SIM_CHECK(was_stopped ? ends == item->accepted : ends <= item->accepted);
		SIM_CHECK(item->released == (item->has_finaliser ? item->accepted : 0));
		SIM_CHECK(!item->in_run);
	}
}
