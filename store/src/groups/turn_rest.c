/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rests: what of a group is in the database alone, because the window keeps no more of it; turns.h.
 *
 * A rest that is being read has two places.  What lies beyond asked is on its way; what is passed over meanwhile may
 * have come too late for that reading, so from notes it for the next one.
 */
#include "base/due.h"
#include "groups/turns.h"

#include <stdlib.h>

#define NONE_SHARES 10 /* of what has no group: without groups there is nobody to be fair to */

static const struct hwts_place nowhere = { .due_us = HWTS_NEVER };

static bool is_before(struct hwts_place a, struct hwts_place b)
{
	return a.due_us != b.due_us ? a.due_us < b.due_us : a.id < b.id;
}

static struct hwts_place place_of(const struct hwts_due *due)
{
	return (struct hwts_place){ due->due_us, due->id };
}

static struct hwts_turn_group *group_of(const struct hwts_turns *turns, const struct hwts_due *due)
{
	return due->group_len > 0 ? hwts_turns_find(turns, due->group, due->group_len)
				  : (struct hwts_turn_group *)(uintptr_t)&turns->none;
}

static struct hwts_rest *rest_of(const struct hwts_turns *turns, const struct hwts_due *due)
{
	const struct hwts_turn_group *group = group_of(turns, due);
	struct hwts_rest *rest = group && group->rests ? turns->rests : NULL;

	while (rest && (rest->turn.group != group || rest->shard != due->shard || rest->turn.priority != due->priority))
		rest = rest->next;
	return rest;
}

static bool has(const struct hwts_rest *rest, const struct hwts_due *due)
{
	return rest && (!is_before(place_of(due), rest->from) || !is_before(place_of(due), rest->asked));
}

bool hwts_turns_rests(const struct hwts_turns *turns, const struct hwts_due *due)
{
	return has(rest_of(turns, due), due);
}

size_t hwts_turns_share(const struct hwts_turns *turns, const struct hwts_turn_group *group, size_t share)
{
	return group == &turns->none ? NONE_SHARES * share : share;
}

/* What goes before all that is queued need not be read once more: up to twice the share. */
bool hwts_turns_has_room(const struct hwts_turns *turns, const struct hwts_due *due, size_t share)
{
	const struct hwts_turn_group *group = group_of(turns, due);
	const struct hwts_turn *first = group ? group->queue : NULL;
	size_t most = group ? hwts_turns_share(turns, group, share) : 0;

	if (!group || group->turns < most)
		return !has(rest_of(turns, due), due);
	return group->turns < 2 * most && !has(rest_of(turns, due), due) &&
	       (!first || due->priority > first->priority ||
		(due->priority == first->priority && due->due_us < first->due_us));
}

static struct hwts_rest *make(struct hwts_turns *turns, const struct hwts_due *due)
{
	struct hwts_rest *rest = hwts_alloc(sizeof(*rest));

	if (!rest || !hwts_turns_join(turns, &rest->turn, due->group, due->group_len, due->id)) {
		free(rest);
		return NULL;
	}
	rest->turn.priority = due->priority;
	rest->turn.group->rests = true;
	rest->shard = due->shard;
	rest->from = rest->asked = nowhere;
	rest->next = turns->rests;
	turns->rests = rest;
	return rest;
}

bool hwts_turns_keeps(struct hwts_turns *turns, const struct hwts_due *due, size_t share)
{
	struct hwts_rest *rest;

	if (hwts_turns_has_room(turns, due, share))
		return true;
	rest = rest_of(turns, due);
	if (!rest)
		rest = make(turns, due);
	if (!rest)
		return true; /* rather too many than one that is lost */
	if (is_before(place_of(due), rest->from))
		rest->from = place_of(due);
	return false;
}

static bool is_first(const struct hwts_rest *rest, const struct hwts_rest *other)
{
	if (!other || rest->turn.priority != other->turn.priority)
		return !other || rest->turn.priority > other->turn.priority;
	return is_before(rest->from, other->from);
}

/* The first that is due, if nothing goes before it; or the first of all, if few are left. */
static struct hwts_rest *wanted_of(const struct hwts_turns *turns, const struct hwts_turn_group *group, size_t share)
{
	const struct hwts_turn *first = group->queue;
	struct hwts_rest *due = NULL, *any = NULL;

	for (struct hwts_rest *rest = turns->rests; rest; rest = rest->next) {
		if (rest->turn.group != group || rest->asked.due_us != HWTS_NEVER || rest->from.due_us == HWTS_NEVER)
			continue;
		if (is_first(rest, any))
			any = rest;
		if (rest->from.due_us <= turns->now_us && is_first(rest, due))
			due = rest;
	}
	if (due && (!first || hwts_rest_precedes(due, first, turns->now_us)))
		return due;
	return group->turns < hwts_turns_share(turns, group, share) / 2 ? any : NULL;
}

struct hwts_rest *hwts_turns_wanted(const struct hwts_turns *turns, const struct hwts_turn_group *group, size_t share)
{
	const struct hwts_turn_group *seen = NULL;

	if (group)
		return group->rests ? wanted_of(turns, group, share) : NULL;
	for (const struct hwts_rest *rest = turns->rests; rest; seen = rest->turn.group, rest = rest->next) {
		struct hwts_rest *wanted = rest->turn.group != seen ? wanted_of(turns, rest->turn.group, share) : NULL;

		if (wanted)
			return wanted;
	}
	return NULL;
}

void hwts_rest_ask(struct hwts_rest *rest)
{
	rest->asked = rest->from;
	rest->from = nowhere;
}

int64_t hwts_turns_rest_us(const struct hwts_turns *turns, int64_t now_us)
{
	int64_t due_us = HWTS_NEVER;

	for (const struct hwts_rest *rest = turns->rests; rest; rest = rest->next)
		if (rest->from.due_us > now_us)
			due_us = HWTS_MIN(due_us, rest->from.due_us);
	return due_us;
}

/* Its group may wait for it. */
static void drop(struct hwts_turns *turns, struct hwts_rest *rest, int64_t now_ns)
{
	struct hwts_turn_group *group = rest->turn.group;
	struct hwts_rest **link = &turns->rests;

	while (*link != rest)
		link = &(*link)->next;
	*link = rest->next;
	group->rests = false;
	for (const struct hwts_rest *other = turns->rests; other; other = other->next)
		group->rests |= other->turn.group == group;
	hwts_turns_place(turns, group);
	hwts_turns_leave(turns, &rest->turn, now_ns);
	free(rest);
}

void hwts_rest_read(struct hwts_turns *turns, struct hwts_rest *rest, struct hwts_place to, int64_t now_ns)
{
	rest->asked = nowhere;
	if (is_before(to, rest->from))
		rest->from = to;
	if (rest->from.due_us == HWTS_NEVER)
		drop(turns, rest, now_ns);
	else
		hwts_turns_place(turns, rest->turn.group);
}

void hwts_turns_drop_rests(struct hwts_turns *turns, int32_t shard, int64_t now_ns)
{
	for (struct hwts_rest *rest = turns->rests, *next; rest; rest = next) {
		next = rest->next;
		if (rest->shard == shard)
			drop(turns, rest, now_ns);
	}
}
