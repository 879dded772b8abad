/* SPDX-License-Identifier: BSD-2-Clause */
/* What changes for many groups at once: rules, and shards that come and go. */
#include "core/turns.h"

#include <stdlib.h>

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

void hwts_turns_set_kind(struct hwts_turns *turns, bool paused, struct hwts_rules each)
{
	bool same = are_same(&turns->each, &each);

	turns->paused = paused;
	turns->each = each;
	if (!same)
		place_all(turns);
}

static void place_named(struct hwts_turns *turns, const char *name, size_t len, bool own)
{
	struct hwts_turn_group *group = hwts_turns_find(turns, name, len);

	if (!group)
		return;
	group->own = own;
	if (group->turns > 0)
		hwts_turns_place(turns, group);
}

bool hwts_turns_set_own(struct hwts_turns *turns, const char *name, size_t len, uint16_t bucket,
			const struct hwts_own *is)
{
	struct hwts_own_rules *own = hwts_rules_find(&turns->book, name, len);
	bool made = !own, changed;

	if (!own)
		own = hwts_rules_make(&turns->book, name, len);
	if (!own)
		return false;
	changed = made || own->is.limited != is->limited || own->is.paused != is->paused ||
		  !are_same(&own->is.rules, &is->rules);
	own->is = *is;
	own->bucket = bucket;
	own->seen = true;
	if (changed)
		place_named(turns, name, len, true);
	return true;
}

void hwts_turns_settle(struct hwts_turns *turns, bool (*read)(void *ctx, uint32_t shard), void *ctx)
{
	struct hwts_rule_book *book = &turns->book;

	for (size_t i = 0; i < book->room; i++)
		for (struct hwts_own_rules *own = book->chains[i], *next; own; own = next) {
			next = own->chain;
			if (!own->seen && read(ctx, own->bucket % turns->shards)) {
				place_named(turns, own->name, own->len, false);
				hwts_rules_remove(book, own);
			} else {
				own->seen = false;
			}
		}
}

void hwts_turns_empty(struct hwts_turns *turns, uint32_t shard, int64_t now_ns)
{
	if (turns->empty_ns)
		turns->empty_ns[shard] = now_ns;
	for (size_t i = 0; i < turns->room; i++)
		for (struct hwts_turn_group *group = turns->chains[i]; group; group = group->chain) {
			struct hwts_rules rules = hwts_turns_rules(turns, group);

			if (group->bucket % turns->shards == shard)
				group->full_ns = now_ns + rules.burst * rules.every_ns;
		}
}

struct hwts_turn *hwts_turns_drain(struct hwts_turns *turns, bool (*lost)(void *ctx, uint32_t shard), void *ctx)
{
	struct hwts_turn *list = NULL, *turn;

	for (size_t i = 0; i < turns->room; i++)
		for (struct hwts_turn_group *group = turns->chains[i]; group; group = group->chain)
			while (lost(ctx, group->bucket % turns->shards) &&
			       (turn = hwts_turn_pop(&group->queue)) != NULL) {
				turns->queued--;
				turn->next = list;
				list = turn;
			}
	return list;
}

void hwts_turns_clear(struct hwts_turns *turns)
{
	struct hwts_turns none = { .empty_ns = turns->empty_ns, .shards = turns->shards };

	for (size_t i = 0; i < turns->room; i++)
		for (struct hwts_turn_group *group = turns->chains[i], *next; group; group = next) {
			next = group->chain;
			free(group);
		}
	free(turns->chains);
	hwts_rules_clear(&turns->book);
	*turns = none;
}
