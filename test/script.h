/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests as scripts: calls, the answers they must give, and what must be seen afterwards; on virtual time and on both
 * wheels.  After each step outside of tasks the checker checks the whole timer.
 *
 * A script is statements with ';' behind each.  A letter is a timeout; those of capital letters have a finaliser.  A
 * time is in milliseconds, with "+n" or "-n" for nanoseconds more or less, or "never", "ever" (INT64_MAX, INT64_MIN).
 *
 *     limit n  bound n  transfers n  wheel n  full n  unstarted     settings, before all others
 *     parked  told                     an executor keeps what is due; on_earlier is set
 *     collect                          no task is called: "fired abc", or "-", are those of the last advance
 *     room n                           a batch has room for n from then on; 30, as at first: for any number
 *     day t                            the clock is the time of the day, and this is it; it begins unstarted
 *     new x t  at x t  every x t p     schedules: a delay, a deadline, a first delay and a period
 *     move x t  place x t              reschedules, by a delay or a deadline
 *     crowd x t                        schedules and cancels x until that is refused for the limit
 *     grid = t                         where tick 0 is
 *     cancel x  sync x  start  trim
 *     advance t  next                  "= t": the answer
 *     walk t                           advances tick by tick
 *     stop n                           n: number handed out.  "back x t": x is one of them, with this deadline
 *     halt                             as a stop on another thread does in the middle of this task
 *     meanwhile point { ... }          what comes at this HWT_POINT of the next statement, which has it ('-' for ' ')
 *     work n  refuse n                 runs n of the parked tasks; the executor refuses the next n
 *     no-memory [from to]  memory      all of it, or that of these requests, from 0
 *     ran x n  at-time x t  missed x n  released x n  state x S  left x t  pending n  none (handed out any more)
 *     stat name n  most name n         a number of hwt_stats; at most that
 *     late i n ...                     n tasks are in place i of hwt_stats.lateness
 *     lanes n                          number of lanes
 *     rings n                          on_earlier has been called n times since the last "rings"
 *     in x n { ... }                   what the next n runs of x do.  "out": what the finaliser does, if n is 0
 *     thread { ... }                   what another thread does meanwhile
 *     times n { ... }
 *
 * If several timeouts are scheduled under one letter, all their runs count, and calls are for the last of them.
 *
 * A call that is to fail has "= ENOENT" or the like behind it.
 */
#ifndef HWT_TEST_SCRIPT_H
#define HWT_TEST_SCRIPT_H

#include "script_see.h"

/*
 * Tasks, finalisers, the executor
 */

static void script_task(hwt_timeout timeout, void *arg)
{
	struct script_timeout *it = arg;

	if (!it->are_many)
		script_want("handle", timeout.entry == it->handle.entry && timeout.generation == it->handle.generation,
			    true);
	it->runs++;
	it->at_ns = script.now_ns;
	it->missed = hwt_timeout_missed(timeout);
	if (it->plays == 0)
		return;
	it->plays--;
	script.depth++;
	script_play(it->in);
	script.depth--;
}

static inline void script_release(void *arg)
{
	struct script_timeout *it = arg;

	it->released++;
	script.depth++;
	if (it->out.at != NULL)
		script_play(it->out);
	script.depth--;
}

static inline int script_park(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx;
	if (script.refuse > 0) {
		script.refuse--;
		return EAGAIN;
	}
	REQUIRE(script.end < SCRIPT_PARKED);
	script.parked[script.end].run = run;
	script.parked[script.end++].job = job;
	return 0;
}

static inline void script_work(uint64_t count)
{
	for (; count > 0; count--) {
		unsigned next = script.first++;

		REQUIRE(next < script.end);
		script.parked[next].run(script.parked[next].job);
	}
	if (script.first == script.end)
		script.first = script.end = 0;
}

static inline void *script_thread(void *arg)
{
	script_play(*(struct script_part *)arg);
	return NULL;
}

/*
 * Calls
 */

static inline hwt_task *script_its_task(void)
{
	return (script.config.flags & HWT_COLLECT) != 0 ? NULL : script_task;
}

/* Checks the handle of a timeout in a batch, and returns its letter. */
static inline char script_fired(const hwt_fired *fired)
{
	struct script_timeout *it = fired->arg;
	unsigned i = (unsigned)(it - script.all);

	script_want("handle",
		    fired->timeout.entry == it->handle.entry && fired->timeout.generation == it->handle.generation,
		    true);
	script_want("missed later", (int64_t)hwt_timeout_missed(it->handle), 0);
	it->runs++;
	it->at_ns = script.now_ns;
	it->missed = fired->missed;
	return (char)(i < 26 ? 'a' + i : 'A' + i - 26);
}

/* Advances a timer that collects, and checks that nothing is written behind `room`. */
static inline int script_collect(int64_t to_ns, int64_t *next_ns)
{
	hwt_fired fired[SCRIPT_ROOM + 1];
	size_t count = 0, room = script.room < SCRIPT_ROOM ? script.room : SIZE_MAX;
	int rc;

	fired[script.room] = (hwt_fired){ { &script, 4711 }, &script, 4711 };
	rc = hwt_timer_advance_batch(script.timer, to_ns, room > 0 ? fired : NULL, room, &count, next_ns);
	script_want("fits", count <= script.room && fired[script.room].missed == 4711, true);
	for (size_t i = 0; i < count; i++)
		script.fired[i] = script_fired(&fired[i]);
	(void)strcpy(&script.fired[count], count > 0 ? "" : "-");
	return rc;
}

/* Schedules, and checks that a refused call leaves the handle alone. */
static inline int script_schedule(struct script_part *part, const char *verb)
{
	struct script_timeout *it = script_which(part);
	hwt_timeout before = it->handle;
	hwt_spec spec = { .size = sizeof(spec), .task = script_its_task(), .arg = it, .when_ns = script_when(part) };
	int rc;

	it->are_many = it->are_many || hwt_timeout_state(it->handle) == HWT_PENDING;
	spec.period_ns = strcmp(verb, "every") == 0 ? script_when(part) : 0;
	spec.flags = strcmp(verb, "at") == 0 ? HWT_ABSOLUTE : 0;
	spec.release = it >= &script.all[26] ? script_release : NULL;
	if (spec.release != NULL)
		rc = hwt_new_timeout_ex(script.timer, &spec, &it->handle);
	else if (strcmp(verb, "every") == 0)
		rc = hwt_new_periodic(script.timer, spec.task, it, spec.when_ns, spec.period_ns, &it->handle);
	else if (spec.flags != 0)
		rc = hwt_new_timeout_at(script.timer, spec.task, it, spec.when_ns, &it->handle);
	else
		rc = hwt_new_timeout(script.timer, spec.task, it, spec.when_ns, &it->handle);
	if (rc != 0)
		script_want("leaves the handle", memcmp(&before, &it->handle, sizeof(before)), 0);
	return rc;
}

static inline void script_told(struct script_part *part, int rc, int64_t next_ns)
{
	char word[SCRIPT_WORD];
	bool is_wanted = script_answer(part, word);
	int wanted = is_wanted ? script_error(word) : 0;

	script_want("returns", rc, wanted);
	if (rc != 0)
		script_want("answers all the same", next_ns, 4711);
	else if (is_wanted && wanted == 0)
		script_want("answers", next_ns, script_time(word));
}

static inline void script_advance(struct script_part *part)
{
	int64_t to_ns = script_when(part), before_ns = script.now_ns, next_ns = 4711;
	int rc;

	script.now_ns = to_ns;
	rc = script_its_task() == NULL ? script_collect(to_ns, &next_ns)
				       : hwt_timer_advance(script.timer, to_ns, &next_ns);
	if (rc != 0)
		script.now_ns = before_ns;
	script_told(part, rc, next_ns);
}

static inline void script_next(struct script_part *part)
{
	int64_t next_ns = 4711;
	int rc = hwt_timer_next(script.timer, &next_ns);

	script_told(part, rc, next_ns);
}

static inline void script_grid(struct script_part *part)
{
	int64_t start_ns = 4711;
	int rc = hwt_timer_grid(script.timer, &start_ns);

	script_told(part, rc, start_ns);
}

static inline void script_walk(int64_t to_ns)
{
	for (int64_t ns = script.now_ns; ns < to_ns;) {
		ns = ns / HWT_MS(1) * HWT_MS(1) + HWT_MS(1);
		ns = ns < to_ns ? ns : to_ns;
		script.now_ns = ns;
		script_want("returns", hwt_timer_advance(script.timer, ns, NULL), 0);
	}
}

static inline void script_stop(struct script_part *part)
{
	char word[SCRIPT_WORD];
	size_t count = 4711;
	bool has_error;
	int rc = hwt_timer_stop(script.timer, &count);

	has_error = !isdigit((unsigned char)script_word(part, word)[0]);
	script_want("returns", rc, has_error ? script_error(script_word(part, word)) : 0);
	script_want("hands out", (int64_t)count, has_error ? 4711 : strtoll(word, NULL, 10));
}

/*
 * Statements
 */

/* on_earlier.  It changes errno, which the library must hide from the caller. */
static inline void script_ring(void *ctx)
{
	(void)ctx;
	script.rings++;
	errno = EAGAIN;
}

static int64_t script_clock(void)
{
	return script.now_ns;
}

static inline void script_create(void)
{
	static const hwt_executor executor = { script_park, NULL };

	if (script.timer != NULL)
		return;
	script.config.executor = script.is_parked ? &executor : NULL;
	hwt_test_clock = script.config.clock == HWT_CLOCK_REALTIME ? script_clock : NULL;
	script.config.on_earlier = script.is_told ? script_ring : NULL;
	REQUIRE(hwt_timer_create(&script.timer, &script.config) == 0);
	if (!script.is_unstarted)
		REQUIRE((script_its_task() == NULL ? script_collect(0, NULL)
						   : hwt_timer_advance(script.timer, 0, NULL)) == 0);
}

/* Sets the clock, at first and whenever the script sets it. */
static inline void script_set_day(int64_t now_ns)
{
	script.now_ns = now_ns;
	script.is_unstarted = true;
	script.config.clock = HWT_CLOCK_REALTIME;
	script.config.flags = HWT_CALLER_DRIVEN;
}

static inline bool script_set(struct script_part *part, const char *verb)
{
	if (strcmp(verb, "limit") == 0)
		script.config.max_pending_timeouts = script_number(part);
	else if (strcmp(verb, "bound") == 0)
		script.config.max_tasks_per_advance = (uint32_t)script_number(part);
	else if (strcmp(verb, "transfers") == 0)
		script.config.max_transfers_per_tick = (uint32_t)script_number(part);
	else if (strcmp(verb, "wheel") == 0)
		script.config.ticks_per_wheel = (uint32_t)script_number(part);
	else if (strcmp(verb, "full") == 0)
		hwt_test_full = (uint64_t)script_number(part);
	else if (strcmp(verb, "parked") == 0)
		script.is_parked = true;
	else if (strcmp(verb, "told") == 0)
		script.is_told = true;
	else if (strcmp(verb, "unstarted") == 0)
		script.is_unstarted = true;
	else if (strcmp(verb, "collect") == 0)
		script.config.flags |= HWT_COLLECT;
	else if (strcmp(verb, "room") == 0)
		script.room = (size_t)script_number(part);
	else if (strcmp(verb, "day") == 0)
		script_set_day(script_when(part));
	else
		return false;
	return true;
}

/* Makes a call, and checks that it leaves errno alone, whether it fails or not. */
static inline bool script_call(struct script_part *part, const char *verb)
{
	struct script_timeout *it;

	errno = 4711;
	if (strcmp(verb, "new") == 0 || strcmp(verb, "at") == 0 || strcmp(verb, "every") == 0)
		script_rc(part, script_schedule(part, verb));
	else if (strcmp(verb, "move") == 0)
		it = script_which(part), script_rc(part, hwt_reschedule(it->handle, script_when(part)));
	else if (strcmp(verb, "place") == 0)
		it = script_which(part), script_rc(part, hwt_reschedule_at(it->handle, script_when(part)));
	else if (strcmp(verb, "cancel") == 0)
		it = script_which(part), script_rc(part, hwt_cancel(it->handle));
	else if (strcmp(verb, "sync") == 0)
		it = script_which(part), script_rc(part, hwt_cancel_sync(it->handle));
	else if (strcmp(verb, "start") == 0)
		script_rc(part, hwt_timer_start(script.timer));
	else if (strcmp(verb, "trim") == 0)
		script_rc(part, hwt_timer_trim(script.timer, NULL));
	else if (strcmp(verb, "advance") == 0)
		script_advance(part);
	else if (strcmp(verb, "next") == 0)
		script_next(part);
	else if (strcmp(verb, "walk") == 0)
		script_walk(script_when(part));
	else if (strcmp(verb, "stop") == 0)
		script_stop(part);
	else if (strcmp(verb, "grid") == 0)
		script_grid(part);
	else
		return false;
	script_want("changes errno", errno, 4711);
	return true;
}

static inline void script_in(struct script_part *part)
{
	struct script_timeout *it = script_which(part);

	it->plays = (unsigned)script_number(part);
	*(it->plays > 0 ? &it->in : &it->out) = script_braces(part);
}

static inline void script_crowd(struct script_part *part)
{
	struct script_part again = *part;
	unsigned n = 0;
	int rc = 0;

	while (rc == 0 && ++n < 1000000) {
		struct script_part which = *part;

		again = *part;
		rc = script_schedule(&again, "new");
		if (rc == 0)
			rc = hwt_cancel(script_which(&which)->handle);
	}
	*part = again;
	script_want("is refused", rc, ENOBUFS);
}

static void script_come_by(void)
{
	script.depth++;
	script_play(script.there);
	script.depth--;
}

static inline void script_meanwhile(struct script_part *part)
{
	(void)script_word(part, script.point);
	for (char *at = script.point; (at = strchr(at, '-')) != NULL;)
		*at = ' ';
	script.there = script_braces(part);
	meanwhile(script.point, script_come_by);
}

static inline bool script_arrange(struct script_part *part, const char *verb)
{
	if (strcmp(verb, "in") == 0) {
		script_in(part);
	} else if (strcmp(verb, "meanwhile") == 0) {
		script_meanwhile(part);
	} else if (strcmp(verb, "halt") == 0) {
		hwt_worker_request_stop(&script.timer->worker);
	} else if (strcmp(verb, "thread") == 0) {
		struct script_part inside = script_braces(part);
		pthread_t thread;

		script.depth++;
		REQUIRE(pthread_create(&thread, NULL, script_thread, &inside) == 0);
		REQUIRE(pthread_join(thread, NULL) == 0);
		script.depth--;
	} else if (strcmp(verb, "times") == 0) {
		int64_t times = script_number(part);
		struct script_part inside = script_braces(part);

		for (script.depth++; times > 0; times--)
			script_play(inside);
		script.depth--;
	} else if (strcmp(verb, "crowd") == 0) {
		script_crowd(part);
	} else if (strcmp(verb, "work") == 0) {
		script_work((uint64_t)script_number(part));
	} else if (strcmp(verb, "refuse") == 0) {
		script.refuse = (unsigned)script_number(part);
	} else if (strcmp(verb, "no-memory") == 0) {
		bool has_range = part->at < part->end;
		uint64_t from = has_range ? (uint64_t)script_number(part) : 0;

		memory_fails(from, has_range ? (uint64_t)script_number(part) : UINT64_MAX);
	} else if (strcmp(verb, "memory") == 0) {
		memory_is_back();
	} else {
		return false;
	}
	return true;
}

/* Takes a statement up to its ';', which does not count inside of braces. */
static inline struct script_part script_statement(struct script_part *part)
{
	struct script_part statement = *part;
	unsigned depth = 0;

	for (; part->at < part->end && (*part->at != ';' || depth > 0); part->at++) {
		depth += *part->at == '{';
		depth -= *part->at == '}';
	}
	statement.end = part->at;
	part->at += part->at < part->end;
	return statement;
}

static void script_play(struct script_part part)
{
	char verb[SCRIPT_WORD];

	for (script_skip(&part); part.at < part.end; script_skip(&part)) {
		struct script_part statement = script_statement(&part), before = script.now;
		bool comes_by = script.depth == 0 && atomic_load(&hwt_test_point) != NULL;

		script.now = statement;
		(void)script_word(&statement, verb);
		if (!script_set(&statement, verb)) {
			script_create();
			if (!script_call(&statement, verb) && !script_see(&statement, verb) &&
			    !script_arrange(&statement, verb))
				script_fail("no such verb", 0, 0);
			if (comes_by)
				script_want("comes by", meanwhile_came(), true);
			if (script.depth == 0 && script.first == script.end && atomic_load(&hwt_test_point) == NULL)
				hwt_check(script.timer);
		}
		script_skip(&statement);
		script_want("has more words", statement.end - statement.at, 0);
		script.now = before;
	}
}

/* Plays a script on both wheels.  Afterwards parked jobs are run, and finalisers that have not been called. */
static inline void play(const char *text)
{
	for (uint32_t wheel = HWT_WHEEL_HASHED; wheel <= HWT_WHEEL_HIERARCHICAL; wheel++) {
		script = (struct script){ .config = HWT_CONFIG_INIT, .room = SCRIPT_ROOM };
		script.config.warn = NULL;
		script.config.tick_duration_ns = HWT_MS(1);
		script.config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
		script.config.wheel = wheel;
		script_play((struct script_part){ text, text + strlen(text) });
		memory_is_back();
		script_work(script.end - script.first);
		CHECK_INT(hwt_timer_destroy(script.timer), ==, 0);
		hwt_test_clock = NULL;
		hwt_test_full = HWT_FULL;
	}
}

#endif
