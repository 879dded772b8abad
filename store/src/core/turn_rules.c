/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules that groups have of their own, by name, and those that hold. */
#include "core/turns.h"

#include <stdlib.h>

#define FIRST_ROOM 16

uint32_t hwts_name_hash(const char *name, size_t len)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)name[i]) * 16777619u;
	return (uint32_t)hwts_mix(h);
}

static struct hwts_own_rules **chain_of(const struct hwts_rule_book *book, const char *name, size_t len)
{
	return &book->chains[hwts_name_hash(name, len) & (book->room - 1)];
}

struct hwts_own_rules *hwts_rules_find(const struct hwts_rule_book *book, const char *name, size_t len)
{
	struct hwts_own_rules *own = book->count > 0 ? *chain_of(book, name, len) : NULL;

	while (own && (own->len != len || memcmp(own->name, name, len) != 0))
		own = own->chain;
	return own;
}

/* False: no memory, and the chains get longer, which is no failure unless there are none. */
static bool resize(struct hwts_rule_book *book, size_t room)
{
	struct hwts_rule_book is = { .chains = hwts_alloc(room * sizeof(*is.chains)), .room = room };

	if (!is.chains)
		return book->room > 0;
	for (size_t i = 0; i < book->room; i++)
		for (struct hwts_own_rules *own = book->chains[i], *next; own; own = next) {
			struct hwts_own_rules **chain = chain_of(&is, own->name, own->len);

			next = own->chain;
			own->chain = *chain;
			*chain = own;
		}
	free(book->chains);
	book->chains = is.chains;
	book->room = room;
	return true;
}

struct hwts_own_rules *hwts_rules_make(struct hwts_rule_book *book, const char *name, size_t len)
{
	struct hwts_own_rules *own, **chain;

	if (book->count >= book->room && !resize(book, HWTS_MAX(book->room * 2, FIRST_ROOM)))
		return NULL;
	own = hwts_alloc(sizeof(*own) + len);
	if (!own)
		return NULL;
	own->len = (uint8_t)len;
	memcpy(own->name, name, len);
	chain = chain_of(book, name, len);
	own->chain = *chain;
	*chain = own;
	book->count++;
	return own;
}

void hwts_rules_remove(struct hwts_rule_book *book, struct hwts_own_rules *own)
{
	struct hwts_own_rules **link = chain_of(book, own->name, own->len);

	while (*link != own)
		link = &(*link)->chain;
	*link = own->chain;
	free(own);
	book->count--;
}

void hwts_rules_clear(struct hwts_rule_book *book)
{
	for (size_t i = 0; i < book->room; i++)
		for (struct hwts_own_rules *own = book->chains[i], *next; own; own = next) {
			next = own->chain;
			free(own);
		}
	free(book->chains);
	*book = (struct hwts_rule_book){ .room = 0 };
}

/*
 * What holds of a group
 */

static const struct hwts_own_rules *own_of(const struct hwts_turns *turns, const struct hwts_turn_group *group)
{
	return group->own ? hwts_rules_find(&turns->book, hwts_turn_name(group), group->len) : NULL;
}

struct hwts_rules hwts_turns_rules(const struct hwts_turns *turns, const struct hwts_turn_group *group)
{
	const struct hwts_own_rules *own = own_of(turns, group);

	if (group == &turns->none)
		return (struct hwts_rules){ .running = 0 };
	return own && own->is.limited ? own->is.rules : turns->each;
}

bool hwts_turns_is_paused(const struct hwts_turns *turns, const struct hwts_turn_group *group)
{
	const struct hwts_own_rules *own = own_of(turns, group);

	return turns->paused || (own && own->is.paused);
}

bool hwts_turns_exceed(const struct hwts_turns *turns, const struct hwts_turn *turn)
{
	uint32_t most = hwts_turns_rules(turns, turn->group).running;

	return hwts_turns_is_paused(turns, turn->group) || (most > 0 && turn->group->running > most);
}
