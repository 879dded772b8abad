/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules that hold for a group: its own, or those of its kind; turns.h. */
#include "groups/turns.h"

struct hwts_rules hwts_turns_rules(const struct hwts_turns *turns, const struct hwts_turn_group *group)
{
	if (group == &turns->none)
		return (struct hwts_rules){ .running = 0 };
	return group->own && group->own->limited ? group->own->rules : turns->each;
}

bool hwts_turns_is_paused(const struct hwts_turns *turns, const struct hwts_turn_group *group)
{
	return turns->paused || (group->own && group->own->paused);
}

bool hwts_turns_is_barred(const struct hwts_turns *turns, const struct hwts_turn_group *group)
{
	uint32_t most = hwts_turns_rules(turns, group).running;

	return hwts_turns_is_paused(turns, group) || (most > 0 && group->running >= most);
}

bool hwts_turns_is_stalled(const struct hwts_turns *turns, const struct hwts_turn_group *group)
{
	uint32_t shard;

	if (turns->stalls == 0 || group == &turns->none)
		return turns->stalls > 0;
	shard = group->bucket % turns->shards;
	return turns->stalled[shard / 64] >> shard % 64 & 1;
}

void hwts_turns_count(struct hwts_turn *turn)
{
	turn->group->running += !turn->counted;
	turn->counted = true;
}

void hwts_turns_elsewhere(struct hwts_turn *turn, bool is)
{
	turn->group->elsewhere = (uint16_t)(turn->group->elsewhere + is - turn->elsewhere);
	turn->elsewhere = is;
}

bool hwts_turns_exceed(const struct hwts_turns *turns, const struct hwts_turn *turn)
{
	uint32_t most = hwts_turns_rules(turns, turn->group).running;

	return hwts_turns_is_paused(turns, turn->group) || (most > 0 && turn->group->running > most);
}

bool hwts_turns_is_beyond(const struct hwts_turns *turns, const struct hwts_turn *turn)
{
	return hwts_turns_exceed(turns, turn) || (hwts_turns_rules(turns, turn->group).every_ns > 0 && !turn->reserved);
}

/* Under new rules a bucket is at worst empty, whatever it was before.  A bucket whose level was lost began empty. */
int64_t hwts_turns_full_ns(const struct hwts_turns *turns, const struct hwts_turn_group *group,
			   const struct hwts_rules *rules, int64_t now_ns)
{
	int64_t empty_ns = turns->empty_ns ? turns->empty_ns[group->bucket % turns->shards] : 0;
	int64_t all_ns = rules->burst * rules->every_ns, full = group->rate->full_ns;

	return HWTS_MIN(empty_ns ? HWTS_MAX(full, empty_ns + all_ns) : full, now_ns + all_ns);
}

/* Nobody knows when a reserved token will be used. */
int64_t hwts_turns_token_ns(const struct hwts_turns *turns, const struct hwts_turn_group *group,
			    const struct hwts_rules *rules, int64_t reserved, int64_t now_ns)
{
	int64_t more = HWTS_MIN(reserved + 1 - rules->burst, 1), full;

	if (rules->every_ns == 0)
		return INT64_MIN;
	full = hwts_turns_full_ns(turns, group, rules, now_ns);
	return (more > 0 ? HWTS_MAX(full, now_ns) : full) + more * rules->every_ns;
}
