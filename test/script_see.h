/* SPDX-License-Identifier: BSD-2-Clause */
/* The statements of a script that check a state; script.h. */
#ifndef HWT_TEST_SCRIPT_SEE_H
#define HWT_TEST_SCRIPT_SEE_H

#include "script_words.h"

static hwt_task *script_its_task(void);

static inline void script_back(struct script_part *part)
{
	const struct script_timeout *it = script_which(part);
	hwt_unprocessed left = { .arg = NULL };

	script_want("hands out", hwt_timer_next_unprocessed(script.timer, &left), true);
	script_want("that one", left.arg == it && left.task == script_its_task(), true);
	script_want("its deadline", left.deadline_ns, script_when(part));
}

static inline void script_left(struct script_part *part)
{
	const struct script_timeout *it = script_which(part);
	int64_t left_ns = 4711;
	int rc = hwt_timeout_left(it->handle, &left_ns), wanted;
	char word[SCRIPT_WORD];

	wanted = script_error(script_word(part, word));
	script_want("returns", rc, wanted);
	script_want("tells", left_ns, wanted != 0 ? 4711 : script_time(word));
}

static inline void script_state(struct script_part *part)
{
	static const char *const names[] = { "NONE", "PENDING", "RUNNING", "EXPIRED", "CANCELLED", "RETIRED" };
	const struct script_timeout *it = script_which(part);
	char word[SCRIPT_WORD];
	hwt_state state = hwt_timeout_state(it->handle);

	(void)script_word(part, word);
	script_want(names[state], strcmp(names[state], word), 0);
	script_want("is expired", hwt_is_expired(it->handle), state == HWT_RUNNING || state == HWT_EXPIRED);
	script_want("is cancelled", hwt_is_cancelled(it->handle), state == HWT_CANCELLED);
}

static inline void script_stat(struct script_part *part, bool at_most)
{
#define NUMBER(name)                                                                                                   \
	{                                                                                                              \
#name, offsetof(hwt_stats, name)                                                                       \
	}
	static const struct {
		const char *name;
		size_t offset;
	} numbers[] = {
		NUMBER(accepted),
		NUMBER(completed),
		NUMBER(cancelled),
		NUMBER(returned),
		NUMBER(pending),
		NUMBER(running),
		NUMBER(runs),
		NUMBER(merged_periods),
		NUMBER(rescheduled),
		NUMBER(refused_limit),
		NUMBER(refused_stopped),
		NUMBER(refused_memory),
		NUMBER(executor_refusals),
		NUMBER(ticks),
		NUMBER(wakeups),
		NUMBER(transfers),
		NUMBER(backlog_max),
		NUMBER(lateness_max_ns),
		NUMBER(tick_max_ns),
		NUMBER(records),
	};
#undef NUMBER
	hwt_stats stats = { .size = sizeof(stats) };
	char word[SCRIPT_WORD];
	size_t i = 0;
	uint64_t value;
	int64_t wanted;

	(void)script_word(part, word);
	while (strcmp(numbers[i].name, word) != 0)
		REQUIRE(++i < sizeof(numbers) / sizeof(numbers[0]));
	script_want("returns", hwt_timer_stats(script.timer, &stats), 0);
	memcpy(&value, (const char *)&stats + numbers[i].offset, sizeof(value));
	wanted = script_number(part);
	if (!at_most || (int64_t)value > wanted)
		script_want("is", (int64_t)value, wanted);
	script_want("adds up to",
		    (int64_t)(stats.completed + stats.cancelled + stats.returned + stats.pending + stats.running),
		    (int64_t)stats.accepted);
}

static inline void script_late(struct script_part *part)
{
	hwt_stats stats = { .size = sizeof(stats) };
	bool alone = atomic_load(&hwt_test_point) == NULL;
	uint64_t sum = 0;

	script_want("returns", hwt_timer_stats(script.timer, &stats), 0);
	for (; part->at < part->end; script_skip(part)) {
		int64_t place = script_number(part);

		script_want("late", (int64_t)stats.lateness[place], script_number(part));
	}
	for (unsigned i = 0; i < 32; i++)
		sum += stats.lateness[i];
	if (alone)
		script_want("adds up to", (int64_t)sum, (int64_t)stats.runs);
}

static inline bool script_see(struct script_part *part, const char *verb)
{
	struct script_timeout *it;
	hwt_unprocessed left = { .arg = &left };
	char word[SCRIPT_WORD];

	if (strcmp(verb, "ran") == 0)
		it = script_which(part), script_want("runs", it->runs, script_number(part));
	else if (strcmp(verb, "at-time") == 0)
		it = script_which(part), script_want("time", it->at_ns, script_when(part));
	else if (strcmp(verb, "missed") == 0)
		it = script_which(part), script_want("missed", (int64_t)it->missed, script_number(part));
	else if (strcmp(verb, "released") == 0)
		it = script_which(part), script_want("released", it->released, script_number(part));
	else if (strcmp(verb, "state") == 0)
		script_state(part);
	else if (strcmp(verb, "left") == 0)
		script_left(part);
	else if (strcmp(verb, "stat") == 0 || strcmp(verb, "most") == 0)
		script_stat(part, verb[0] == 'm');
	else if (strcmp(verb, "late") == 0)
		script_late(part);
	else if (strcmp(verb, "rings") == 0)
		script_want("rings", atomic_exchange(&script.rings, 0), script_number(part));
	else if (strcmp(verb, "pending") == 0)
		script_want("pending", (int64_t)hwt_pending_timeouts(script.timer), script_number(part));
	else if (strcmp(verb, "fired") == 0)
		script_want(script.fired, strcmp(script.fired, script_word(part, word)), 0);
	else if (strcmp(verb, "lanes") == 0)
		script_want("lanes", lanes_count(&script.timer->lanes), script_number(part));
	else if (strcmp(verb, "back") == 0)
		script_back(part);
	else if (strcmp(verb, "none") == 0)
		script_want("hands out", hwt_timer_next_unprocessed(script.timer, &left) || left.arg != &left, false);
	else
		return false;
	return true;
}

#endif
