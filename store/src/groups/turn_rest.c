/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rests: the rows of a group that the window does not keep, and that are in the database alone; turns.h.
 *
 * A rest that is being read has two places.  The reading under way returns the rows from asked on.  A row that the
 * window passes over meanwhile may have come too late for that reading, so from notes it for the next one.
 */
#include "base/due.h"
#include "groups/turns.h"

#include <stdlib.h>

#define NONE_SHARES 10    /* rows without a group have ten shares: their turns need not be fair */
#define SOON_US HWTS_S_US /* rows put, or told by news, and due within this: up to twice the share */

static const struct hwts_place nowhere = { .due_us = HWTS_NEVER };

static bool is_before(struct hwts_place a, struct hwts_place b)
{
	return a.due_us != b.due_us ? a.due_us < b.due_us : a.id < b.id;
}

static struct hwts_place place_of(const struct hwts_due *due)
{
	return (struct hwts_place){ due->due_us, due->id };
}

static struct hwts_turn_group *group_of(struct hwts_turns *turns, const struct hwts_due *due)
{
	return due->group_len > 0 ? hwts_turns_find(turns, due->group, due->group_len) : &turns->none;
}

static struct hwts_rests **rests_of(struct hwts_turns *turns, const struct hwts_turn_group *group, int32_t shard)
{
	struct hwts_rests **link = &turns->rests;

	while (*link && ((*link)->group != group || (*link)->shard != shard))
		link = &(*link)->next;
	return link;
}

static struct hwts_rest *rest_of(struct hwts_turns *turns, const struct hwts_turn_group *group,
				 const struct hwts_due *due)
{
	struct hwts_rests *rests = group && group->rests ? *rests_of(turns, group, due->shard) : NULL;

	return rests ? rests->of[due->priority + HWTS_PRIORITY_MAX] : NULL;
}

static bool has(const struct hwts_rest *rest, const struct hwts_due *due)
{
	return rest && (!is_before(place_of(due), rest->from) || !is_before(place_of(due), rest->asked));
}

bool hwts_turns_rests(struct hwts_turns *turns, const struct hwts_due *due)
{
	return has(rest_of(turns, group_of(turns, due), due), due);
}

static size_t share_of(const struct hwts_turns *turns, const struct hwts_turn_group *group, size_t share)
{
	return group == &turns->none ? NONE_SHARES * share : share;
}

static bool has_room(const struct hwts_turns *turns, const struct hwts_turn_group *group, const struct hwts_rest *rest,
		     const struct hwts_due *due, size_t share)
{
	bool soon = due->part == HWTS_TOLD && due->due_us <= turns->now_us + SOON_US;

	return !group || (group->turns < share_of(turns, group, share) * (soon ? 2 : 1) && !has(rest, due));
}

/*
 * The places of rests in the queues of their groups
 */

static struct hwts_rest *rest_at(struct hwts_turn *turn)
{
	return (struct hwts_rest *)((char *)turn - offsetof(struct hwts_rest, turn));
}

/* Puts a rest into the queue of its group if it is due, otherwise into later. */
static void queue(struct hwts_turns *turns, struct hwts_rest *rest)
{
	int64_t due_us = HWTS_MIN(rest->from.due_us, rest->asked.due_us);

	if (rest->queue)
		hwts_turn_remove(rest->queue, &rest->turn);
	rest->queue = due_us <= turns->now_us ? &rest->turn.group->queue : due_us != HWTS_NEVER ? &turns->later : NULL;
	rest->turn.due_us = due_us;
	rest->turn.priority = rest->queue == &turns->later ? 0 : rest->priority;
	if (rest->queue)
		hwts_turn_push(rest->queue, &rest->turn);
}

void hwts_turns_at(struct hwts_turns *turns, int64_t now_us)
{
	turns->now_us = now_us;
	while (turns->later && turns->later->due_us <= now_us)
		queue(turns, rest_at(turns->later));
}

/* NULL: no memory. */
static struct hwts_rest *make(struct hwts_turns *turns, struct hwts_turn_group *group, const struct hwts_due *due)
{
	struct hwts_rests *rests = *rests_of(turns, group, due->shard);
	struct hwts_rest *rest = hwts_alloc(sizeof(*rest));

	if (rest && !rests && (rests = hwts_alloc(sizeof(*rests))) != NULL) {
		rests->group = group;
		rests->shard = due->shard;
		rests->next = turns->rests;
		turns->rests = rests;
		group->rests = true;
	}
	if (!rest || !rests) {
		free(rest);
		return NULL;
	}
	*rest = (struct hwts_rest){ .turn = { .group = group, .is_rest = true },
				    .rests = rests,
				    .from = nowhere,
				    .asked = nowhere,
				    .priority = due->priority };
	rests->of[due->priority + HWTS_PRIORITY_MAX] = rest;
	rests->count++;
	return rest;
}

bool hwts_turns_keeps(struct hwts_turns *turns, const struct hwts_due *due, size_t share)
{
	struct hwts_turn_group *group = group_of(turns, due);
	struct hwts_rest *rest = rest_of(turns, group, due);

	if (has_room(turns, group, rest, due, share))
		return true;
	if (!rest)
		rest = make(turns, group, due);
	if (!rest)
		return true; /* better an entry too many than a row that is lost */
	if (is_before(place_of(due), rest->from)) {
		rest->from = place_of(due);
		queue(turns, rest);
		turns->firsts += rest->asked.due_us == HWTS_NEVER && *rest->queue == &rest->turn;
		/* The rest may no longer be first: a row of the same time is, or the clock was put back. */
		hwts_turns_place(turns, rest->turn.group);
	}
	return false;
}

/*
 * Reading rests
 */

/* Each further reading of the group asks for half as many rows: all together they fill the share. */
size_t hwts_rest_page(const struct hwts_turns *turns, const struct hwts_rest *rest, size_t share)
{
	const struct hwts_turn_group *group = rest->turn.group;
	size_t most = share_of(turns, group, share);

	/* Rows without a group have a rest in each shard. */
	most = (group->turns < most ? most / 2 : most / 8) / (group == &turns->none ? turns->shards : 1);
	return HWTS_MAX(most >> rest->rests->asked, 1);
}

bool hwts_rest_keeps(const struct hwts_turns *turns, const struct hwts_rest *rest, const struct hwts_due *due,
		     size_t share)
{
	return due->due_us <= turns->now_us || rest->turn.group->turns < share_of(turns, rest->turn.group, share);
}

bool hwts_turns_want(const struct hwts_turns *turns, const struct hwts_turn_group *group, size_t share)
{
	return group->rests &&
	       ((group->queue && group->queue->is_rest) || group->turns < share_of(turns, group, share) / 2);
}

/* Returns the first rest that is due, otherwise the first of all.  NULL: all are being read. */
static struct hwts_rest *first_of(const struct hwts_turns *turns, const struct hwts_rests *rests)
{
	struct hwts_rest *first = NULL;

	for (size_t i = HWTS_COUNT(rests->of); i-- > 0;) {
		struct hwts_rest *rest = rests->of[i];

		if (!rest || rest->asked.due_us != HWTS_NEVER)
			continue;
		if (rest->queue != &turns->later)
			return rest;
		first = first ? first : rest;
	}
	return first;
}

struct hwts_rest *hwts_turns_wanted(const struct hwts_turns *turns, size_t share)
{
	for (const struct hwts_rests *rests = turns->rests; rests; rests = rests->next) {
		const struct hwts_turn_group *group = rests->group;
		size_t most = share_of(turns, group, share);
		struct hwts_rest *rest = group->queue && group->queue->is_rest ? rest_at(group->queue) : NULL;
		bool may = !hwts_turns_is_barred(turns, group) && !hwts_turns_is_stalled(turns, group);

		/*
		 * A group that may begin nothing keeps its share: otherwise each put could make its rest the first
		 * again, and be read.
		 */
		if (rest && rest->asked.due_us == HWTS_NEVER && (group->turns < most || may))
			return rest;
		if (group->turns < most / 2 && most >> rests->asked > 1 && (rest = first_of(turns, rests)) != NULL)
			return rest;
	}
	return NULL;
}

void hwts_rest_ask(struct hwts_rest *rest)
{
	rest->asked = rest->from;
	rest->from = nowhere;
	rest->rests->asked++;
}

static void drop(struct hwts_turns *turns, struct hwts_rest *rest)
{
	struct hwts_rests *rests = rest->rests, **link = rests_of(turns, rests->group, rests->shard);

	rest->from = rest->asked = nowhere;
	queue(turns, rest);
	rests->of[rest->priority + HWTS_PRIORITY_MAX] = NULL;
	free(rest);
	if (--rests->count > 0)
		return;
	*link = rests->next;
	rests->group->rests = false;
	for (const struct hwts_rests *other = turns->rests; other; other = other->next)
		rests->group->rests |= other->group == rests->group;
	free(rests);
}

/* The group may have waited for this rest. */
void hwts_rest_read(struct hwts_turns *turns, struct hwts_rest *rest, struct hwts_place to)
{
	struct hwts_turn_group *group = rest->turn.group;

	rest->rests->asked--;
	rest->asked = nowhere;
	if (is_before(to, rest->from))
		rest->from = to;
	if (rest->from.due_us == HWTS_NEVER)
		drop(turns, rest);
	else
		queue(turns, rest);
	hwts_turns_place(turns, group);
}

void hwts_turns_drop_rests(struct hwts_turns *turns, int32_t shard)
{
	for (struct hwts_rests *rests = turns->rests, *next; rests; rests = next) {
		struct hwts_turn_group *group = rests->group;
		unsigned left = rests->count;

		next = rests->next;
		if (rests->shard != shard)
			continue;
		for (size_t i = 0; left > 0; i++)
			if (rests->of[i]) {
				drop(turns, rests->of[i]);
				left--;
			}
		hwts_turns_place(turns, group);
	}
}

void hwts_turns_rest_waits(const struct hwts_turns *turns, int64_t now_us, int64_t now_ns, struct hwts_waits *waits)
{
	for (const struct hwts_rests *rests = turns->rests; rests; rests = rests->next)
		for (size_t i = 0; i < HWTS_COUNT(rests->of); i++) {
			const struct hwts_rest *rest = rests->of[i];
			int64_t due_us = rest ? HWTS_MIN(rest->from.due_us, rest->asked.due_us) : HWTS_NEVER;

			if (due_us <= now_us)
				hwts_waits_add(waits, hwts_turns_why(turns, &rest->turn, now_ns), due_us, 0);
		}
}

void hwts_turns_free_rests(struct hwts_turns *turns)
{
	for (struct hwts_rests *rests = turns->rests, *next; rests; rests = next) {
		next = rests->next;
		for (size_t i = 0; i < HWTS_COUNT(rests->of); i++)
			free(rests->of[i]);
		free(rests);
	}
}
