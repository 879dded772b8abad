/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups, their ring, and the heap of groups that wait for a time; turns.h. */
#include "groups/turns.h"

#include <stdlib.h>

#define FIRST_ROOM 64

enum where { OUT, IN_RING, WAITS }; /* IN_RING: or stalled */

/*
 * Rules
 */

/* The group may not begin the first of its queue: a row more would be too many, or a rest is first. */
static bool is_blocked(const struct hwts_turns *turns, const struct hwts_turn_group *group)
{
	return !group->queue->counted && (hwts_turns_is_barred(turns, group) || group->queue->is_rest);
}

/* Returns until when the group has to wait: for a token, or, if it has no turns, until its bucket is full. */
static int64_t ready_ns(const struct hwts_turns *turns, const struct hwts_turn_group *group, int64_t now_ns)
{
	struct hwts_rules rules = hwts_turns_rules(turns, group);

	if (group->queue && group->queue->counted)
		return INT64_MIN; /* T4: the group may begin a counted turn at once */
	if (group->turns > 0)
		return hwts_turns_token_ns(turns, group, &rules, group->reserved, now_ns);
	return rules.every_ns > 0 ? hwts_turns_full_ns(turns, group, &rules, now_ns) : INT64_MIN;
}

/*
 * The ring, and the groups that wait
 */

static void append(struct hwts_turn_group **first, struct hwts_turn_group **end, struct hwts_turn_group *group)
{
	group->next = NULL;
	if (*first)
		(*end)->next = group;
	else
		*first = group;
	*end = group;
}

static void to_ring(struct hwts_turns *turns, struct hwts_turn_group *group)
{
	group->where = IN_RING;
	append(&turns->first, &turns->end, group);
}

static void out_of_ring(struct hwts_turns *turns)
{
	struct hwts_turn_group *group = turns->first;

	turns->first = group->next;
	group->where = OUT;
}

/* The order of the groups stays, so that each has its turn however often the rules change. */
static void stall(struct hwts_turns *turns, struct hwts_turn_group *group)
{
	group->where = IN_RING;
	append(&turns->stalled_first, &turns->stalled_end, group);
}

/* By T6 (turns.h) a group that waits for a time has a rate. */
static void wait(struct hwts_turns *turns, struct hwts_turn_group *group, int64_t ready)
{
	group->where = WAITS;
	group->rate->turn.due_us = ready;
	hwts_turn_push(&turns->waiting, &group->rate->turn);
}

static void wait_no_more(struct hwts_turns *turns, struct hwts_turn_group *group)
{
	hwts_turn_remove(&turns->waiting, &group->rate->turn);
	group->where = OUT;
}

/* A group without turns goes into the ring too: it is retired at the front. */
void hwts_turns_place(struct hwts_turns *turns, struct hwts_turn_group *group)
{
	if (group->where == WAITS)
		wait_no_more(turns, group);
	if (group->where == OUT && (group->queue || group->turns == 0))
		to_ring(turns, group);
}

static struct hwts_turn_group **chain_of(const struct hwts_turns *turns, const char *name, size_t len)
{
	return &turns->chains[hwts_mix(hwts_hash(name, len)) & (turns->room - 1)];
}

/* False: no memory for the first chains.  Chains that cannot be resized stay: no failure. */
static bool resize(struct hwts_turns *turns, size_t room)
{
	struct hwts_turn_group **chains = hwts_alloc(room * sizeof(*chains)), **old = turns->chains;
	size_t old_room = turns->room;

	if (!chains)
		return old_room > 0;
	turns->chains = chains;
	turns->room = room;
	for (size_t i = 0; i < old_room; i++)
		for (struct hwts_turn_group *group = old[i], *next; group; group = next) {
			struct hwts_turn_group **chain = chain_of(turns, hwts_turn_name(group), group->len);

			next = group->chain;
			group->chain = *chain;
			*chain = group;
		}
	free(old);
	return true;
}

static void forget(struct hwts_turns *turns, struct hwts_turn_group *group)
{
	struct hwts_turn_group **link = chain_of(turns, hwts_turn_name(group), group->len);

	while (*link != group)
		link = &(*link)->chain;
	*link = group->chain;
	free(group->rate);
	free(group);
	if (--turns->count == 0) {
		free(turns->chains);
		turns->chains = NULL;
		turns->room = 0;
	} else if (turns->room > FIRST_ROOM && turns->count < turns->room / 8) {
		(void)resize(turns, turns->room / 2);
	}
}

/*
 * The group has no turns, and is neither in the ring nor in the heap.  Frees the group if it has no rules, no rests and
 * a full bucket; if its bucket is not full, the group waits in the heap until it is.
 */
static void retire(struct hwts_turns *turns, struct hwts_turn_group *group, int64_t now_ns)
{
	int64_t ready = ready_ns(turns, group, now_ns);

	if (group == &turns->none || group->rests)
		return;
	if (ready > now_ns)
		wait(turns, group, ready);
	else if (!group->own)
		forget(turns, group);
}

/* Places the groups whose time has come.  A group whose time has moved on meanwhile waits again. */
static void advance(struct hwts_turns *turns, int64_t now_ns)
{
	while (turns->waiting && turns->waiting->due_us <= now_ns) {
		struct hwts_turn_group *group = turns->waiting->group;

		wait_no_more(turns, group);
		if (group->turns == 0)
			retire(turns, group, now_ns);
		else
			hwts_turns_place(turns, group);
	}
}

/* Returns the next group, which is then at the front of the ring.  NULL: no group may begin a row. */
static struct hwts_turn_group *front(struct hwts_turns *turns, int64_t now_ns)
{
	struct hwts_turn_group *group;

	advance(turns, now_ns);
	while ((group = turns->first) != NULL) {
		bool may = group->queue && !is_blocked(turns, group), stalled = hwts_turns_is_stalled(turns, group);
		int64_t ready = may ? ready_ns(turns, group, now_ns) : INT64_MIN;

		if (may && ready <= now_ns && !stalled)
			return group;
		out_of_ring(turns);
		if (group->turns == 0)
			retire(turns, group, now_ns);
		else if (may && ready > now_ns)
			wait(turns, group, ready);
		else if (may)
			stall(turns, group);
	}
	return NULL;
}

/* When a shard goes on, groups of shards that are still stalled come back too: front() takes those out again. */
void hwts_turns_stall(struct hwts_turns *turns, uint32_t shard, bool stalls)
{
	uint64_t *word = &turns->stalled[shard / 64], bit = UINT64_C(1) << shard % 64;

	if (stalls == ((*word & bit) != 0))
		return;
	*word ^= bit;
	turns->stalls = stalls ? turns->stalls + 1 : turns->stalls - 1;
	if (stalls || !turns->stalled_first)
		return;
	if (turns->first)
		turns->end->next = turns->stalled_first;
	else
		turns->first = turns->stalled_first;
	turns->end = turns->stalled_end;
	turns->stalled_first = NULL;
}

/*
 * Turns
 */

struct hwts_turn_group *hwts_turns_find(const struct hwts_turns *turns, const char *name, size_t len)
{
	struct hwts_turn_group *group = turns->room > 0 ? *chain_of(turns, name, len) : NULL;

	while (group && (group->len != len || memcmp(hwts_turn_name(group), name, len) != 0))
		group = group->chain;
	return group;
}

bool hwts_turns_rate(struct hwts_turn_group *group)
{
	if (!group->rate && (group->rate = hwts_alloc(sizeof(*group->rate))) != NULL)
		group->rate->turn.group = group;
	return group->rate != NULL;
}

static struct hwts_turn_group *make(struct hwts_turns *turns, const char *name, size_t len)
{
	struct hwts_turn_group *group, **chain;

	if (turns->count >= turns->room && !resize(turns, HWTS_MAX(turns->room * 2, FIRST_ROOM)))
		return NULL;
	group = hwts_alloc(HWTS_MAX(offsetof(struct hwts_turn_group, start) + len, sizeof(*group)));
	if (!group || (turns->each.every_ns > 0 && !hwts_turns_rate(group))) {
		free(group);
		return NULL;
	}
	group->len = (uint8_t)len;
	group->bucket = hwts_bucket(name, len) & 1023u;
	memcpy(hwts_turn_name(group), name, len);
	chain = chain_of(turns, name, len);
	group->chain = *chain;
	*chain = group;
	turns->count++;
	return group;
}

struct hwts_turn_group *hwts_turns_group(struct hwts_turns *turns, const char *name, size_t len)
{
	struct hwts_turn_group *group = hwts_turns_find(turns, name, len);

	return group ? group : make(turns, name, len);
}

bool hwts_turns_join(struct hwts_turns *turns, struct hwts_turn *turn, const char *name, size_t len)
{
	struct hwts_turn_group *group = len > 0 ? hwts_turns_group(turns, name, len) : &turns->none;

	if (!group)
		return false;
	if (group->turns++ == 0 && group->where == WAITS)
		wait_no_more(turns, group);
	turn->group = group;
	return true;
}

void hwts_turns_leave(struct hwts_turns *turns, struct hwts_turn *turn, int64_t now_ns)
{
	struct hwts_turn_group *group = turn->group;

	hwts_turns_done(turns, turn);
	hwts_turns_elsewhere(turn, false);
	turn->group = NULL;
	if (--group->turns == 0 && group->where == OUT)
		retire(turns, group, now_ns);
}

void hwts_turns_add(struct hwts_turns *turns, struct hwts_turn *turn)
{
	turn->group->reserved -= turn->reserved;
	turn->reserved = false;
	hwts_turn_push(&turn->group->queue, turn);
	turns->queued++;
	if (turn->group->where == OUT || turn->counted)
		hwts_turns_place(turns, turn->group);
}

void hwts_turns_remove(struct hwts_turns *turns, struct hwts_turn *turn)
{
	hwts_turn_remove(&turn->group->queue, turn);
	turns->queued--;
}

struct hwts_turn *hwts_turns_peek(struct hwts_turns *turns, int64_t now_ns)
{
	struct hwts_turn_group *group = front(turns, now_ns);

	return group ? group->queue : NULL;
}

struct hwts_turn *hwts_turns_pop(struct hwts_turns *turns, int64_t now_ns, bool stays)
{
	struct hwts_turn_group *group = front(turns, now_ns);
	struct hwts_turn *turn;
	struct hwts_rules rules;

	if (!group)
		return NULL;
	turn = group->queue;
	hwts_turns_remove(turns, turn);
	hwts_turns_count(turn);
	rules = hwts_turns_rules(turns, group);
	turn->reserved = rules.every_ns > 0 && group->reserved < UINT16_MAX &&
			 hwts_turns_token_ns(turns, group, &rules, group->reserved, now_ns) <= now_ns;
	group->reserved += turn->reserved;
	if (stays && group->queue)
		return turn;
	out_of_ring(turns);
	if (group->queue)
		to_ring(turns, group);
	return turn;
}

hwt_store_wait hwts_turns_why(const struct hwts_turns *turns, const struct hwts_turn *turn, int64_t now_ns)
{
	const struct hwts_turn_group *group = turn->group;
	struct hwts_rules rules = hwts_turns_rules(turns, group);

	if (hwts_turns_is_stalled(turns, group)) /* the pauses and limits that this process has read may be old */
		return HWT_STORE_WAITS_RULES;
	if (!turn->counted) {
		if (hwts_turns_is_paused(turns, group))
			return HWT_STORE_WAITS_PAUSE;
		if (rules.running > 0 && group->running >= rules.running)
			return group->running - group->elsewhere < rules.running ? HWT_STORE_WAITS_ELSEWHERE
										 : HWT_STORE_WAITS_CAP;
		if (hwts_turns_token_ns(turns, group, &rules, group->reserved, now_ns) > now_ns)
			return HWT_STORE_WAITS_RATE;
	}
	if (group->queue && group->queue->is_rest)
		return HWT_STORE_WAITS_READ;
	if (group->where == IN_RING && turns->first && turns->first != group)
		return HWT_STORE_WAITS_TURN;
	return HWT_STORE_STARTS;
}

bool hwts_turns_start(struct hwts_turns *turns, struct hwts_turn *turn, int64_t now_ns)
{
	struct hwts_turn_group *group = turn->group;
	struct hwts_rules rules = hwts_turns_rules(turns, group);

	group->reserved -= turn->reserved;
	turn->reserved = false;
	if (hwts_turns_exceed(turns, turn) || hwts_turns_token_ns(turns, group, &rules, 0, now_ns) > now_ns)
		return false;
	if (rules.every_ns > 0)
		group->rate->full_ns =
		    HWTS_MAX(hwts_turns_full_ns(turns, group, &rules, now_ns), now_ns) + rules.every_ns;
	return true;
}

void hwts_turns_put_off(struct hwts_turns *turns, struct hwts_turn *turn)
{
	turn->group->reserved -= turn->reserved;
	turn->reserved = false;
	hwts_turns_place(turns, turn->group);
}

void hwts_turns_done(struct hwts_turns *turns, struct hwts_turn *turn)
{
	struct hwts_turn_group *group = turn->group;

	if (!turn->counted)
		return;
	group->running--;
	group->reserved -= turn->reserved;
	turn->counted = turn->reserved = false;
	hwts_turns_place(turns, group);
}

bool hwts_turns_level(struct hwts_turns *turns, const char *name, size_t len, int64_t full_ns, int64_t now_ns)
{
	struct hwts_turn_group *group = hwts_turns_group(turns, name, len);

	if (group && !hwts_turns_rate(group))
		hwts_turns_place(turns, group); /* hwts_turns_group may have made the group just now */
	if (!group || !group->rate)
		return false;
	group->rate->full_ns = HWTS_MAX(group->rate->full_ns, full_ns);
	if (group->turns == 0 && group->where == OUT)
		retire(turns, group, now_ns);
	return true;
}
