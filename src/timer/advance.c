/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timer without a thread: the caller of hwt_timer_advance makes the passes from its own event loop.
 *
 * The worker sleeps; the caller polls, and the alarm ends the poll, with the same handshake (idle.h): the advance sets
 * the alarm, then publishes what a producer has to ring it for, then checks the lanes once more.  A slow producer that
 * has claimed an old publication may ring the new alarm too early.  That costs a pass and loses nothing.
 * config.on_earlier is an alarm that is never set: the caller knows the time, and a producer tells it of an earlier
 * time.
 *
 * With HWT_COLLECT each timeout has the same task, hwt_timer_collect, which writes the timeout into the caller's array.
 * So all rules for tasks hold, and the length of the array is a bound as max_tasks_per_advance is.
 */
#include "base/thread.h"
#include "timer/timer.h"
#include "lane/lane.h"

#include <errno.h>

/*
 * The most passes of an advance.  The first takes in all, the second what tasks scheduled, the others what other
 * threads did.
 */
#define MAX_PASSES 4

/*
 * With this many operations in a tick, cancels of timeouts in the wheel wait for the end of the tick: they can only
 * make an answer later.  In a loop with less to do the answer knows of each cancel.
 */
#define BUSY_TICK 64

static void pass(hwt_timer *timer, int64_t now_ns)
{
	struct hwt_worker *worker = &timer->worker;
	int passes = 0;
	bool more;

	worker->intake.takes_all = true; /* a due timeout that was accepted before the call runs in it */
	do {
		hwt_lanes_take_hurry(&timer->lanes);
		more = hwt_worker_pass(worker, now_ns) || !hwt_lanes_are_empty(&timer->lanes);
	} while (more && ++passes < MAX_PASSES && !worker_has_to_stop(worker) && !worker_is_full(worker));
}

/* Returns the time at which a timeout in the wheel is due.  INT64_MAX: there is none. */
static int64_t due_time(const hwt_timer *timer)
{
	return grid_time(&timer->grid, hwt_wheel_next_due(timer->wheel)); /* for HWT_TICK_NEVER, too */
}

/* Returns the time at which there is work again, as far as the timer knows. */
static int64_t next_time(hwt_timer *timer, int64_t now_ns)
{
	if (timer->worker.bound.is_cut)
		return grid_time(&timer->grid, timer->worker.tick);
	if (!hwt_lanes_are_empty(&timer->lanes))
		return now_ns;
	/* The next pass places what runs again and is held. */
	return timer->wheel->held.first != NULL && due_time(timer) > now_ns ? now_ns : due_time(timer);
}

/* Returns next_time, and sets the alarm to it.  A producer with an earlier timeout rings the alarm, [idle]. */
static int64_t next_alarm(hwt_timer *timer, int64_t now_ns)
{
	struct hwt_idle *idle = &timer->lanes.idle;
	bool is_cut = timer->worker.bound.is_cut; /* then the rest of a tick is due next */
	int64_t due = is_cut ? timer->worker.tick : hwt_wheel_next_due(timer->wheel);
	int64_t next_ns = next_time(timer, now_ns);

	hwt_idle_set_alarm(idle, next_ns <= now_ns ? 0 : next_ns);
	if (next_ns <= now_ns)
		return next_ns;
	if (hwt_idle_begin(idle, grid_time(&timer->grid, due - 1)) && hwt_lanes_are_empty(&timer->lanes))
		return next_ns;
	/* An operation came in, or the system refuses the fence: ask for the next advance now, or at the next tick. */
	idle_publish(idle, IDLE_AWAKE);
	next_ns = hwt_lanes_are_empty(&timer->lanes) ? grid_time(&timer->grid, timer->wheel->tick) : now_ns;
	hwt_idle_set_alarm(idle, next_ns == now_ns ? 0 : next_ns);
	return next_ns;
}

/*
 * Returns the time to which the alarm is set while no producer has rung: a tick behind the published time.  INT64_MIN:
 * there is no alarm, or it has rung.
 */
static int64_t alarm_time(const hwt_timer *timer)
{
	int64_t told_ns = idle_alarm(&timer->lanes.idle) >= 0 ? idle_told(&timer->lanes.idle) : IDLE_AWAKE;

	return told_ns == IDLE_AWAKE ? INT64_MIN : add_saturating(told_ns, timer->grid.tick_ns);
}

/*
 * Returns true if the alarm stays as it is during an advance: it has not rung, and its time has not come.  No timeout
 * is due before, and a producer with an earlier timeout rings the alarm.  So an advance that only takes operations in
 * makes no system call.  The price: if the timeout for which the alarm was set is cancelled, the alarm rings once for
 * nothing.
 *
 * A step of the clock rings the alarm of HWT_CLOCK_REALTIME, and only a new setting silences it.
 *
 * With on_earlier the published time must not stay: calls of a task in this advance would then call that function.
 */
static bool keeps_alarm(const hwt_timer *timer, int64_t now_ns)
{
	return now_ns < alarm_time(timer) && timer->config.clock != HWT_CLOCK_REALTIME &&
	       timer->config.on_earlier == NULL;
}

/* Returns the answer of an advance after its passes, and publishes what producers have to ring for. */
static int64_t next_watched(hwt_timer *timer, int64_t now_ns)
{
	int64_t alarm_ns = alarm_time(timer);

	if (alarm_ns != INT64_MIN && due_time(timer) >= alarm_ns && worker_left_nothing(&timer->worker))
		return alarm_ns;
	idle_publish(&timer->lanes.idle, IDLE_AWAKE);
	return next_alarm(timer, now_ns);
}

/* Notes the time that the caller told.  A time before the last is ignored, but on a clock that may be set back. */
static void tell(hwt_timer *timer, int64_t now_ns)
{
	/* Relaxed: one thread at a time writes it, and no other data depends on it. */
	if (now_ns > atomic_load_explicit(&timer->told_ns, memory_order_relaxed) ||
	    timer->config.clock == HWT_CLOCK_REALTIME)
		atomic_store_explicit(&timer->told_ns, now_ns, memory_order_relaxed);
}

int64_t hwt_timer_now(const hwt_timer *timer)
{
	/* Relaxed: as in tell. */
	int64_t told_ns = atomic_load_explicit(&timer->told_ns, memory_order_relaxed), clock_ns;

	if (timer_is_virtual(timer))
		return told_ns;
	clock_ns = worker_now(&timer->worker);
	if (!timer_is_driven(timer) || timer->config.clock == HWT_CLOCK_REALTIME)
		return clock_ns;
	return clock_ns > told_ns ? clock_ns : told_ns;
}

/*
 * Returns the answer of the advance.  A task that is with the executor may run again, from the next tick on, and only
 * the alarm would tell the caller.  So while a job is unfinished, the answer is at most the next tick.
 *
 * The executor is checked before the lanes: a job that ends in between has pushed by then, and the check of the lanes
 * sees the push.  In the other order both checks could miss the job.
 */
static int64_t next_call(hwt_timer *timer, int64_t now_ns)
{
	bool done = tasks_are_done(&timer->tasks), watched = idle_is_watched(&timer->lanes.idle);
	int64_t tick_ns = grid_time(&timer->grid, timer->wheel->tick);
	int64_t next_ns = watched ? next_watched(timer, now_ns) : next_time(timer, now_ns);

	return done || next_ns < tick_ns ? next_ns : tick_ns;
}

/* Notes in timer->quiet which of the next advances may repeat the answer next_ns without a pass. */
static void note_quiet(hwt_timer *timer, int64_t next_ns)
{
	const struct hwt_grid *grid = &timer->grid;
	int64_t tick_ns = grid_time(grid, timer->wheel->tick), alarm_ns = alarm_time(timer);

	timer->quiet = (struct hwt_quiet){ .from_ns = INT64_MAX, .until_ns = next_ns };
	if (next_ns != (alarm_ns != INT64_MIN ? alarm_ns : due_time(timer)) || next_ns < tick_ns)
		return; /* another advance has work at once */
	if (!worker_left_nothing(&timer->worker) || !tasks_are_done(&timer->tasks))
		return;
	/* As in keeps_alarm. */
	if (timer->config.clock == HWT_CLOCK_REALTIME && idle_alarm(&timer->lanes.idle) >= 0)
		return;
	timer->quiet = (struct hwt_quiet){
		.from_ns = grid_time(grid, timer->wheel->tick - 1),
		.tick_ns = tick_ns,
		.until_ns = next_ns,
		/*
		 * INT64_MAX - 1 if the wheel is empty: only the deadline "never" and hurry_ns at rest, both INT64_MAX,
		 * are later.
		 */
		.due_ns = next_ns == INT64_MAX ? INT64_MAX - 1 : next_ns - grid->tick_ns,
	};
}

/*
 * Returns true if a pass would find nothing to do, or only operations that can wait for the end of the tick.  Then the
 * answer, the publication and the alarm of the last advance still hold.  A loop that advances with each request mostly
 * gets true.
 */
static inline bool is_quiet(hwt_timer *timer, int64_t now_ns)
{
	const struct hwt_quiet *quiet = &timer->quiet;
	const struct hwt_idle *idle = &timer->lanes.idle;

	if (now_ns >= quiet->until_ns || now_ns < quiet->from_ns)
		return false;
	if (idle_is_watched(idle) && idle_told(idle) == IDLE_AWAKE)
		return false;
	if (now_ns >= quiet->tick_ns)
		return hwt_lanes_are_empty(&timer->lanes);
	return hwt_lanes_earliest(&timer->lanes, timer->worker.traffic.transferred < BUSY_TICK) > quiet->due_ns &&
	       stack_is_empty(&timer->lanes.rearmed);
}

/*
 * Returns true for a time that the timer's clock never shows.  On the system's clock a first time of 0 or less means
 * that the caller wants a virtual clock: nothing would ever run.  A timeout may have started the timer before the first
 * advance.
 */
static bool refuses(const hwt_timer *timer, int state, int64_t now_ns)
{
	if (timer_is_virtual(timer))
		return now_ns < 0;
	return now_ns <= 0 && counts_get(&timer->worker.counts.wakeups) == 0 &&
	       (state == TIMER_INIT || state == TIMER_DRIVEN);
}

/* Begins an advance: returns 0, or the error for which it may not begin.  The caller has the driver's word. */
static int begin(hwt_timer *timer, int64_t now_ns)
{
	int state, rc = 0;

	pthread_mutex_lock(&timer->monitor.mutex);
	state = atomic_load_explicit(&timer->state, memory_order_relaxed); /* relaxed: under the mutex */
	if (refuses(timer, state, now_ns))
		rc = EINVAL;
	else if (state == TIMER_INIT)
		hwt_timer_start_driven(timer);
	else if (state != TIMER_DRIVEN)
		rc = ECANCELED;
	pthread_mutex_unlock(&timer->monitor.mutex);
	return rc;
}

static void account(hwt_timer *timer, int64_t now_ns)
{
	tell(timer, now_ns);
	counts_add(&timer->worker.counts.wakeups, 1);
}

/* Bounds an advance to `room` tasks.  UINT64_MAX is no bound: runs_max wraps, and the count never comes to it. */
static void bound(hwt_timer *timer, uint64_t room)
{
	uint32_t most = timer->config.max_tasks_per_advance;

	timer->worker.bound.runs_max = worker_runs(&timer->worker) + (most != 0 && most < room ? most : room);
}

/* Makes the passes of an advance.  Returns its answer. */
static int64_t drive(hwt_timer *timer, int64_t now_ns, uint64_t room)
{
	struct hwt_worker *worker = &timer->worker;
	struct hwt_idle *idle = &timer->lanes.idle;
	int64_t next_ns;

	account(timer, now_ns);
	current_task_enter(&worker->frame, timer, NULL);
	if (!keeps_alarm(timer, now_ns))
		idle_publish(idle, IDLE_AWAKE);
	bound(timer, room);
	pass(timer, now_ns);
	if (!worker->bound.is_cut)
		hwt_wheel_settle(timer->wheel);
	next_ns = next_call(timer, now_ns);
	note_quiet(timer, next_ns);
	/*
	 * The new alarm may have silenced a stop that rang during the passes.  A stop that rings after this check rings
	 * the new alarm; or, if there is no alarm, finds the new publication, [idle].
	 */
	if (unlikely(worker_has_to_stop(worker)))
		hwt_idle_set_alarm(idle, 0);
	current_task_leave(&worker->frame);
	return next_ns;
}

static int advance_slowly(hwt_timer *timer, int64_t now_ns, uint64_t room, int64_t *next_ns)
{
	int cancel_before = thread_no_cancel(); /* a cancelled thread finishes its tasks, too */
	int rc, rc_of_end;

	/* Relaxed: all that happens before the end is published by the end, [driver]. */
	atomic_store_explicit(&timer->driver, DRIVER_BUSY, memory_order_relaxed);
	rc = begin(timer, now_ns);
	if (rc == 0)
		*next_ns = drive(timer, now_ns, room);
	rc_of_end = hwt_driver_end(timer);
	thread_restore_cancel(cancel_before);
	return rc != 0 ? rc : rc_of_end;
}

/* Makes an advance.  The caller has the driver's word, which is given back here. */
static inline int advance(hwt_timer *timer, int64_t now_ns, uint64_t room, int64_t *next_ns)
{
	bool stops;

	if (unlikely(!is_quiet(timer, now_ns)))
		return advance_slowly(timer, now_ns, room, next_ns);
	account(timer, now_ns);
	*next_ns = timer->quiet.until_ns;
	stops = worker_has_to_stop(&timer->worker); /* before the word is free: as in hwt_driver_end */
	driver_free(timer);
	return unlikely(stops) ? ECANCELED : 0;
}

int hwt_timer_advance(hwt_timer *timer, int64_t now_ns, int64_t *next_ns)
{
	int64_t next;
	int rc;

	CHECK_TIMER(timer);
	if (timer == NULL || (timer->config.flags & (HWT_CALLER_DRIVEN | HWT_COLLECT)) != HWT_CALLER_DRIVEN)
		return EINVAL;
	rc = driver_take(timer);
	if (rc != 0)
		return rc;
	rc = advance(timer, now_ns, UINT64_MAX, &next);
	if (rc == 0 && next_ns != NULL)
		*next_ns = next;
	return rc;
}

void hwt_timer_collect(hwt_timeout timeout, void *arg)
{
	struct hwt_record *record = timeout.entry;
	struct hwt_collected *collected = record_lane(record)->lanes->timer->collected;
	uint64_t missed = word_has(record_word(record), WORD_PERIODIC) ? record_extension(record)->missed : 0;

	HWT_ASSERT(collected->count < collected->room);
	collected->out[collected->count++] = (hwt_fired){ timeout, arg, missed };
}

int hwt_timer_advance_batch(hwt_timer *timer, int64_t now_ns, hwt_fired *out, size_t n, size_t *fired, int64_t *next_ns)
{
	struct hwt_collected collected = { out, 0, n };
	int64_t next;
	int rc;

	CHECK_TIMER(timer);
	if (timer == NULL || !timer_collects(timer) || fired == NULL || (out == NULL && n > 0))
		return EINVAL;
	rc = driver_take(timer);
	if (rc != 0)
		return rc;
	timer->collected = &collected;
	rc = advance(timer, now_ns, n, &next);
	/* A stop came.  The timeouts that fired have ended and are the caller's.  The next call returns ECANCELED. */
	if (rc == ECANCELED && collected.count > 0) {
		rc = 0;
		next = now_ns;
	}
	if (rc != 0)
		return rc;
	*fired = collected.count;
	if (next_ns != NULL)
		*next_ns = next > now_ns ? next : now_ns;
	return 0;
}
