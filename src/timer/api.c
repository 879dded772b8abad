/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls that users make most: schedule, cancel, reschedule, ask.
 *
 * Each call checks its arguments, computes the deadline, and goes to the home lane of the calling thread.  A cancel or
 * a move first prefetches the record for writing: otherwise the load of the state word would fetch the cache line for
 * reading, and the exchange would fetch it again.
 */
#include "base/counter.h"
#include "base/sized.h"
#include "timer/timer.h"
#include "lane/lane.h"
#include "lane/submit.h"

#include <errno.h>

#define STRING(x) #x
#define VERSION(major, minor, patch) STRING(major) "." STRING(minor) "." STRING(patch)

static bool has_worker(hwt_timer *timer)
{
	return atomic_load_explicit(&timer->state, memory_order_acquire) == TIMER_STARTED; /* [started] */
}

static int submit(hwt_timer *timer, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out)
{
	struct hwt_lane *lane = lanes_home(&timer->lanes);

	if (unlikely(lane == NULL))
		return hwt_lanes_refuse(&timer->lanes);
	return hwt_lane_submit(lane, task, arg, deadline_ns, out);
}

/*
 * Returns now + delay; with `exact` right to the nanosecond, otherwise to the tick.  A periodic timeout needs an exact
 * deadline: the sums of deadline and periods must be of the right ticks, too.
 */
static int64_t deadline_after(hwt_timer *timer, int64_t delay_ns, bool exact)
{
	if (likely(!exact) && likely(has_worker(timer)))
		return counter_deadline(&timer->grid, delay_ns);
	return add_saturating(hwt_timer_now(timer), delay_ns);
}

/*
 * Returns the task of a timeout: the caller's; with HWT_COLLECT, where the caller must pass none, the library's.  NULL:
 * the caller's task is refused.
 */
static hwt_task *task_for(const hwt_timer *timer, hwt_task *task)
{
	if (likely(!timer_collects(timer)))
		return task;
	return task == NULL ? hwt_timer_collect : NULL;
}

static int start_or_refuse(hwt_timer *timer)
{
	int rc = likely(timer_is_started(timer)) ? 0 : hwt_timer_start(timer);

	if (rc == ECANCELED) /* relaxed: it only counts */
		atomic_fetch_add_explicit(&timer->refused_stopped, 1, memory_order_relaxed);
	return rc;
}

/*
 * The slow way: starts the worker if need be, and serves timers that have no worker or are stopped, and calls without a
 * task.  `time_ns` is a deadline, or a delay.  Out of line, so that the fast path need not spill its arguments.
 */
static __attribute__((noinline)) int submit_slowly(hwt_timer *timer, hwt_task *task, void *arg, int64_t time_ns,
						   hwt_timeout *out, bool is_delay)
{
	int rc;

	task = task_for(timer, task);
	if (task == NULL)
		return EINVAL;
	rc = start_or_refuse(timer);
	if (rc != 0)
		return rc;
	return submit(timer, task, arg, is_delay ? deadline_after(timer, time_ns, false) : time_ns, out);
}

int hwt_new_timeout(hwt_timer *timer, hwt_task *task, void *arg, int64_t delay_ns, hwt_timeout *out)
{
	CHECK_TIMER(timer);
	if (unlikely(timer == NULL))
		return EINVAL;
	if (unlikely(task == NULL || !has_worker(timer)))
		return submit_slowly(timer, task, arg, delay_ns, out, true);
	return submit(timer, task, arg, counter_deadline(&timer->grid, delay_ns), out);
}

int hwt_new_timeout_at(hwt_timer *timer, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out)
{
	CHECK_TIMER(timer);
	if (unlikely(timer == NULL))
		return EINVAL;
	if (unlikely(task == NULL || !has_worker(timer)))
		return submit_slowly(timer, task, arg, deadline_ns, out, false);
	return submit(timer, task, arg, deadline_ns, out);
}

/*
 * Copies the caller's specification.  It ignores the padding at the end of hwt_spec, so a new field must come after the
 * padding.
 */
static int read_spec(hwt_spec *spec, const hwt_spec *given)
{
	static const size_t field_ends[] = {
		FIELD_END(hwt_spec, when_ns),
		FIELD_END(hwt_spec, period_ns),
		FIELD_END(hwt_spec, release),
		FIELD_END(hwt_spec, flags),
	};

	*spec = (hwt_spec){ .size = sizeof(*spec) };
	return sized_read(spec, sizeof(*spec), given, given->size, field_ends, sizeof(field_ends) / sizeof(size_t));
}

/* Returns what is wrong with the specification, or NULL. */
static const char *wrong_spec(const hwt_timer *timer, const hwt_spec *spec)
{
	if ((spec->flags & ~HWT_ABSOLUTE) != 0)
		return "timeout: flags has an unknown bit";
	if (task_for(timer, spec->task) == NULL)
		return spec->task == NULL ? "timeout: task is NULL" : "timeout: task is not NULL with HWT_COLLECT";
	if (spec->release != NULL && timer_collects(timer))
		return "timeout: release is not for HWT_COLLECT";
	if (spec->period_ns != 0 && spec->period_ns < timer->config.tick_duration_ns)
		return "timeout: period_ns is less than a tick";
	return NULL;
}

/* Reads a specification and sets its task, or refuses it. */
static int take_spec(const hwt_timer *timer, hwt_spec *spec, const hwt_spec *given)
{
	const char *what;
	int rc;

	if (timer == NULL)
		return EINVAL;
	if (given == NULL)
		return hwt_config_refuse(&timer->config, "timeout: hwt_spec is NULL");
	rc = read_spec(spec, given);
	if (rc == EINVAL)
		return hwt_config_refuse(&timer->config, "timeout: size is not sizeof(hwt_spec)");
	if (rc != 0)
		return rc;
	what = wrong_spec(timer, spec);
	if (what != NULL)
		return hwt_config_refuse(&timer->config, what);
	spec->task = task_for(timer, spec->task);
	return 0;
}

int hwt_new_timeout_ex(hwt_timer *timer, const hwt_spec *given, hwt_timeout *out)
{
	struct hwt_extension extension;
	struct hwt_lane *lane;
	int64_t deadline_ns;
	hwt_spec spec;
	int rc;

	CHECK_TIMER(timer);
	rc = take_spec(timer, &spec, given);
	if (rc != 0)
		return rc;
	if (!has_worker(timer) && (rc = start_or_refuse(timer)) != 0)
		return rc;
	deadline_ns = spec.when_ns;
	if ((spec.flags & HWT_ABSOLUTE) == 0)
		deadline_ns = deadline_after(timer, spec.when_ns, spec.period_ns != 0);
	if (spec.period_ns == 0 && spec.release == NULL)
		return submit(timer, spec.task, spec.arg, deadline_ns, out);
	extension = (struct hwt_extension){ spec.arg, spec.release, 0 };
	lane = lanes_home(&timer->lanes);
	if (lane == NULL)
		return hwt_lanes_refuse(&timer->lanes);
	return hwt_lane_submit_extended(lane, spec.task, &extension, spec.period_ns, deadline_ns, out);
}

int hwt_new_periodic(hwt_timer *timer, hwt_task *task, void *arg, int64_t first_delay_ns, int64_t period_ns,
		     hwt_timeout *out)
{
	hwt_spec spec = { sizeof(spec), task, arg, first_delay_ns, period_ns, NULL, 0 };

	CHECK_TIMER(timer);
	if (period_ns == 0) /* hwt_new_timeout_ex would take 0 for "once" */
		return timer != NULL ? hwt_config_refuse(&timer->config, "timeout: period_ns is 0") : EINVAL;
	return hwt_new_timeout_ex(timer, &spec, out);
}

int hwt_cancel(hwt_timeout timeout)
{
	struct hwt_record *record = timeout.entry;

	CHECK_HANDLE(timeout);
	if (record == NULL)
		return ENOENT;
	prefetch_for_write(record); /* see the top of this file */
	return hwt_lane_cancel(lanes_home_guessed(record_lane(record)), record, timeout.generation);
}

/* Returns true if the calling thread is in the task of this timeout, not of another timeout in the same record. */
static bool is_own_task(struct hwt_record *record, uint64_t generation)
{
	return unlikely(current_task_is_in(record)) && word_generation(record_word(record)) == generation;
}

int hwt_cancel_sync(hwt_timeout timeout)
{
	struct hwt_record *record = timeout.entry;
	const struct hwt_lane *lane;
	struct hwt_lanes *lanes;
	int rc;

	CHECK_HANDLE(timeout);
	if (record == NULL || (lane = record_lane(record)) == NULL)
		return ENOENT;
	if (is_own_task(record, timeout.generation))
		return EDEADLK;
	lanes = lane->lanes;
	rc = hwt_cancel(timeout);
	/*
	 * Also after 0: a periodic or re-armed timeout may be in a run after which another was to come.  The cancel has
	 * made this run the last by DROPPED or LAST: the task can no longer re-arm.  So the wait ends with this run.
	 */
	if (record_is_running(record, timeout.generation))
		hwt_waiters_wait(&lanes->waiters, &lanes->idle, record, timeout.generation);
	return rc == EBUSY ? ENOENT : rc;
}

static inline int reschedule(struct hwt_record *record, const struct hwt_lane *of, uint64_t generation,
			     int64_t deadline_ns)
{
	struct hwt_lane *lane = lanes_home_guessed(of);

	if (unlikely(is_own_task(record, generation)))
		return hwt_lane_rearm(lane, record, deadline_ns);
	return hwt_lane_reschedule(lane, record, generation, deadline_ns);
}

static bool is_periodic(const struct hwt_record *record)
{
	/* Relaxed: the flag does not change in the life of a timeout; for a stale handle any answer will do. */
	return word_has(atomic_load_explicit(&record->word, memory_order_relaxed), WORD_PERIODIC);
}

int hwt_reschedule(hwt_timeout timeout, int64_t delay_ns)
{
	struct hwt_record *record = timeout.entry;
	const struct hwt_lane *lane;
	int64_t deadline_ns;

	CHECK_HANDLE(timeout);
	if (record == NULL)
		return ENOENT;
	prefetch_for_write(record);
	lane = record_lane(record);
	if (unlikely(lane == NULL))
		return ENOENT;
	deadline_ns = deadline_after(lane->lanes->timer, delay_ns, is_periodic(record));
	return reschedule(record, lane, timeout.generation, deadline_ns);
}

int hwt_reschedule_at(hwt_timeout timeout, int64_t deadline_ns)
{
	struct hwt_record *record = timeout.entry;
	const struct hwt_lane *lane;

	CHECK_HANDLE(timeout);
	if (record == NULL)
		return ENOENT;
	prefetch_for_write(record);
	lane = record_lane(record);
	return likely(lane != NULL) ? reschedule(record, lane, timeout.generation, deadline_ns) : ENOENT;
}

uint64_t hwt_timeout_missed(hwt_timeout timeout)
{
	struct hwt_record *record = timeout.entry;

	CHECK_HANDLE(timeout);
	if (record == NULL || !is_own_task(record, timeout.generation) || !word_has(record_word(record), WORD_PERIODIC))
		return 0;
	return record_extension(record)->missed;
}

hwt_state hwt_timeout_state(hwt_timeout timeout)
{
	struct hwt_record *record = timeout.entry;

	CHECK_HANDLE(timeout);
	return record == NULL ? HWT_NONE : word_public_state(record_word(record), timeout.generation);
}

bool hwt_is_expired(hwt_timeout timeout)
{
	hwt_state state;

	CHECK_HANDLE(timeout);
	state = hwt_timeout_state(timeout);
	return state == HWT_RUNNING || state == HWT_EXPIRED;
}

bool hwt_is_cancelled(hwt_timeout timeout)
{
	CHECK_HANDLE(timeout);
	return hwt_timeout_state(timeout) == HWT_CANCELLED;
}

hwt_timer *hwt_timeout_timer(hwt_timeout timeout)
{
	CHECK_HANDLE(timeout);
	return timeout.entry != NULL ? lanes_of(timeout.entry)->timer : NULL;
}

int64_t hwt_now(void)
{
	return clock_monotonic();
}

int64_t hwt_clock_now(uint32_t clock)
{
	return hwt_clock_read(clock);
}

const char *hwt_version(void)
{
	return VERSION(HWT_VERSION_MAJOR, HWT_VERSION_MINOR, HWT_VERSION_PATCH);
}
