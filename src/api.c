/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that users make all the time: new, cancel, look. */
#include "counter.h"
#include "timer.h"

#include <errno.h>

#define STRING(x) #x
#define VERSION(major, minor, patch) STRING(major) "." STRING(minor) "." STRING(patch)

static struct hwt_record *record_of(hwt_timeout timeout)
{
	return timeout.entry;
}

static bool is_started(hwt_timer *timer)
{
	return atomic_load_explicit(&timer->state, memory_order_acquire) == TIMER_STARTED; /* [started] */
}

static int submit(hwt_timer *timer, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out)
{
	return hwt_lane_submit(lanes_home(&timer->lanes), task, arg, deadline_ns, out);
}

static int submit_delay(hwt_timer *timer, hwt_task *task, void *arg, int64_t delay_ns, hwt_timeout *out)
{
	return submit(timer, task, arg, counter_deadline(&timer->grid, delay_ns), out);
}

static int start_or_refuse(hwt_timer *timer)
{
	int rc = hwt_timer_start(timer);

	if (rc == ECANCELED) /* relaxed: it only counts */
		atomic_fetch_add_explicit(&timer->refused_stopped, 1, memory_order_relaxed);
	return rc;
}

/*
 * The slow way: start the worker, or find out that the timer has been stopped, or that there is no worker.  Not in one
 * with the fast way, which would have to save its arguments for it.
 */
static __attribute__((noinline)) int submit_slowly(hwt_timer *timer, hwt_task *task, void *arg, int64_t deadline_ns,
						   hwt_timeout *out)
{
	int rc = start_or_refuse(timer);

	return rc == 0 ? submit(timer, task, arg, deadline_ns, out) : rc;
}

static __attribute__((noinline)) int submit_delay_slowly(hwt_timer *timer, hwt_task *task, void *arg, int64_t delay_ns,
							 hwt_timeout *out)
{
	int rc = start_or_refuse(timer);

	if (rc != 0)
		return rc;
	if (timer_is_driven(timer))
		return submit(timer, task, arg, add_saturating(hwt_timer_told(timer), delay_ns), out);
	return submit_delay(timer, task, arg, delay_ns, out);
}

int hwt_new_timeout(hwt_timer *timer, hwt_task *task, void *arg, int64_t delay_ns, hwt_timeout *out)
{
	if (unlikely(timer == NULL || task == NULL))
		return EINVAL;
	if (unlikely(!is_started(timer)))
		return submit_delay_slowly(timer, task, arg, delay_ns, out);
	return submit_delay(timer, task, arg, delay_ns, out);
}

int hwt_new_timeout_at(hwt_timer *timer, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out)
{
	if (unlikely(timer == NULL || task == NULL))
		return EINVAL;
	if (unlikely(!is_started(timer)))
		return submit_slowly(timer, task, arg, deadline_ns, out);
	return submit(timer, task, arg, deadline_ns, out);
}

int hwt_cancel(hwt_timeout timeout)
{
	struct hwt_record *record = record_of(timeout);

	if (record == NULL)
		return ENOENT;
	prefetch_for_write(record); /* or the load below would fetch its line to read, and the exchange once more */
	return hwt_lane_cancel(lanes_home_guessed(record_lane(record)->lanes), record, timeout.generation);
}

int hwt_cancel_sync(hwt_timeout timeout)
{
	struct hwt_record *record = record_of(timeout);
	int rc = hwt_cancel(timeout);
	struct hwt_lanes *lanes;

	if (rc != EBUSY)
		return rc;
	if (frame_is_in_task(record))
		return EDEADLK;
	lanes = record_lane(record)->lanes;
	hwt_await_end(&lanes->await, &lanes->idle, record, timeout.generation);
	return ENOENT;
}

hwt_state hwt_timeout_state(hwt_timeout timeout)
{
	struct hwt_record *record = record_of(timeout);

	return record == NULL ? HWT_NONE : word_public_state(record_word(record), timeout.generation);
}

bool hwt_is_expired(hwt_timeout timeout)
{
	hwt_state state = hwt_timeout_state(timeout);

	return state == HWT_RUNNING || state == HWT_EXPIRED;
}

bool hwt_is_cancelled(hwt_timeout timeout)
{
	return hwt_timeout_state(timeout) == HWT_CANCELLED;
}

hwt_timer *hwt_timeout_timer(hwt_timeout timeout)
{
	struct hwt_record *record = record_of(timeout);

	return record == NULL ? NULL : record_lane(record)->lanes->timer;
}

int64_t hwt_now(void)
{
	return hwt_clock_now();
}

const char *hwt_version(void)
{
	return VERSION(HWT_VERSION_MAJOR, HWT_VERSION_MINOR, HWT_VERSION_PATCH);
}
