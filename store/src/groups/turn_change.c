/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules, levels of token buckets, and the order among rows that wait for a thread. */
#include "groups/turns.h"

#include <stdlib.h>

/*
 * Rules
 */

static void place_all(struct hwts_turns *turns)
{
	for (size_t i = 0; i < turns->room; i++)
		for (struct hwts_turn_group *group = turns->chains[i]; group; group = group->chain)
			if (group->turns > 0)
				hwts_turns_place(turns, group);
	hwts_turns_place(turns, &turns->none);
}

static bool are_same(const struct hwts_rules *a, const struct hwts_rules *b)
{
	return a->running == b->running && a->burst == b->burst && a->every_ns == b->every_ns;
}

/* Gives each group a rate.  False: no memory. */
static bool rate_all(struct hwts_turns *turns)
{
	for (size_t i = 0; i < turns->room; i++)
		for (struct hwts_turn_group *group = turns->chains[i]; group; group = group->chain)
			if (!hwts_turns_rate(group))
				return false;
	return true;
}

bool hwts_turns_set_kind(struct hwts_turns *turns, bool paused, struct hwts_rules each)
{
	bool same = turns->paused == paused && are_same(&turns->each, &each);

	if (each.every_ns > 0 && turns->each.every_ns == 0 && !rate_all(turns))
		return false;
	turns->paused = paused;
	turns->each = each;
	if (!same)
		place_all(turns);
	return true;
}

static bool was_not_read(void *ctx, uint32_t shard)
{
	(void)ctx;
	(void)shard;
	return false;
}

bool hwts_turns_set_own(struct hwts_turns *turns, const char *name, size_t len, const struct hwts_own *is)
{
	struct hwts_own *own = hwts_alloc(sizeof(*own)), *was;
	struct hwts_turn_group *group = own ? hwts_turns_group(turns, name, len) : NULL;

	if (!group || (is->rules.every_ns > 0 && !hwts_turns_rate(group))) { /* the rules are read once more */
		if (group)
			hwts_turns_place(turns, group); /* hwts_turns_group may have made the group just now */
		free(own);
		hwts_turns_settle(turns, was_not_read, NULL);
		return false;
	}
	was = group->own;
	group->own = own;
	*own = *is;
	own->seen = true;
	if (group->turns > 0 &&
	    !(was && was->limited == is->limited && was->paused == is->paused && are_same(&was->rules, &is->rules)))
		hwts_turns_place(turns, group);
	free(was);
	return true;
}

void hwts_turns_settle(struct hwts_turns *turns, bool (*read)(void *ctx, uint32_t shard), void *ctx)
{
	for (size_t i = 0; i < turns->room; i++)
		for (struct hwts_turn_group *group = turns->chains[i]; group; group = group->chain) {
			if (group->own && !group->own->seen && read(ctx, group->bucket % turns->shards)) {
				free(group->own);
				group->own = NULL;
				hwts_turns_place(turns, group);
			} else if (group->own) {
				group->own->seen = false;
			}
		}
}

void hwts_turns_taken(struct hwts_turns *turns, uint32_t shard, bool empty, int64_t now_ns)
{
	if (turns->empty_ns)
		turns->empty_ns[shard] = empty ? now_ns : 0;
}

/*
 * Levels
 */

#define LEVELS_MAX ((size_t)1 << 20) /* bytes */
#define LEVEL 11 /* bytes of a record beside the name: the time, the bucket, the length of the name */

static bool has_level(const struct hwts_turns *turns, const struct hwts_turn_group *group, uint32_t shard,
		      int64_t now_ns)
{
	return group->bucket % turns->shards == shard && hwts_turns_rules(turns, group).every_ns > 0 &&
	       (group->rate->full_ns > now_ns || group->reserved > 0);
}

static char *put_level(char *to, int64_t us, uint16_t bucket, const char *name, uint8_t len)
{
	hwts_put_bytes(to, (uint64_t)HWTS_MAX(us, 0), 8);
	hwts_put_bytes(to + 8, bucket, 2);
	hwts_put_bytes(to + 10, len, 1);
	memcpy(to + LEVEL, name, len);
	return to + LEVEL + len;
}

static char *put_group(const struct hwts_turns *turns, const struct hwts_turn_group *group, char *to, int64_t now_ns,
		       int64_t now_us)
{
	struct hwts_rules rules = hwts_turns_rules(turns, group); /* the burst may have been larger */
	int64_t left_ns = HWTS_MAX(group->rate->full_ns - now_ns, 0) +
			  HWTS_MIN((uint32_t)group->reserved, rules.burst) * rules.every_ns;

	return put_level(to, now_us + left_ns / 1000 + 1, group->bucket, hwts_turn_name(group), group->len);
}

/* Writes a record that names no group: when the buckets of all other groups of the shard were empty. */
static char *put_empty(const struct hwts_turns *turns, uint32_t shard, char *to, int64_t now_ns, int64_t now_us)
{
	return put_level(to, now_us - (now_ns - turns->empty_ns[shard]) / 1000 + 1, (uint16_t)shard, "", 0);
}

char *hwts_turns_levels(const struct hwts_turns *turns, uint32_t shard, int64_t now_ns, int64_t now_us, size_t *len)
{
	bool was_empty = turns->empty_ns && turns->empty_ns[shard];
	char *bytes, *to;

	*len = was_empty ? LEVEL : 0;
	for (size_t i = 0; i < turns->room; i++)
		for (const struct hwts_turn_group *group = turns->chains[i]; group; group = group->chain)
			if (has_level(turns, group, shard, now_ns))
				*len += LEVEL + group->len;
	bytes = to = *len <= LEVELS_MAX ? hwts_alloc(*len + 1) : NULL;
	if (bytes && was_empty)
		to = put_empty(turns, shard, to, now_ns, now_us);
	for (size_t i = 0; i < turns->room && bytes; i++)
		for (const struct hwts_turn_group *group = turns->chains[i]; group; group = group->chain)
			if (has_level(turns, group, shard, now_ns))
				to = put_group(turns, group, to, now_ns, now_us);
	return bytes;
}

void hwts_turns_read_levels(struct hwts_turns *turns, const void *bytes, size_t len, int64_t now_ns, int64_t now_us)
{
	const unsigned char *at = bytes, *end = at ? at + len : at;

	for (size_t name; end - at >= LEVEL; at += LEVEL + name) {
		int64_t us = (int64_t)hwts_get_bytes(at, 8), ns;
		uint16_t bucket = (uint16_t)(hwts_get_bytes(at + 8, 2) & 1023);

		name = at[10];
		if ((size_t)(end - at) < LEVEL + name || us < 0 || us >= HWTS_LATEST_US)
			return;
		ns = now_ns + HWTS_MIN(us - now_us, HWTS_LONGEST_PERIOD_US) * 1000;
		if (name == 0)
			hwts_turns_taken(turns, bucket % turns->shards, true, ns);
		else if (us > now_us && !hwts_turns_level(turns, (const char *)at + LEVEL, name, ns, now_ns))
			/* The level is lost: as after a death, buckets begin empty. */
			hwts_turns_taken(turns, bucket % turns->shards, true, now_ns);
	}
}

void hwts_turns_clear(struct hwts_turns *turns)
{
	struct hwts_turns none = { .empty_ns = turns->empty_ns, .shards = turns->shards };

	hwts_turns_free_rests(turns);
	for (size_t i = 0; i < turns->room; i++)
		for (struct hwts_turn_group *group = turns->chains[i], *next; group; group = next) {
			next = group->chain;
			free(group->own);
			free(group->rate);
			free(group);
		}
	free(turns->chains);
	*turns = none;
}

/* The turn is queued, and its place in the queue changes. */
void hwts_turns_count_queued(struct hwts_turns *turns, struct hwts_turn *turn)
{
	hwts_turn_remove(&turn->group->queue, turn);
	hwts_turns_count(turn);
	hwts_turn_push(&turn->group->queue, turn);
	hwts_turns_place(turns, turn->group);
}

uint32_t hwts_turns_round(const struct hwts_turns *turns, struct hwts_turn_group *group)
{
	if ((int32_t)(++group->round - turns->round) < 0)
		group->round = turns->round;
	return group->round;
}
