/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a process; world.h. */
#include "world.h"

int64_t sim_queued_ns(const struct node *node, int64_t id)
{
	int64_t since_ns = 0;

	hwts_lock(node->store);
	HWTS_EACH_KIND (node->store, kind)
		for (const struct hwts_row *row = kind->begun.first; row; row = row->next)
			since_ns = row->id == id ? row->queued_ns : since_ns;
	hwts_unlock(node->store);
	return since_ns;
}

bool sim_waits_here(const struct node *node, int64_t id)
{
	bool between;

	if (sim_queued_ns(node, id) != 0)
		return true;
	hwts_lock(node->store);
	between = hwts_window_begun(node->store, id, &between) && between;
	hwts_unlock(node->store);
	return between;
}

/* Sums over the entries and groups of a kind. */
struct count {
	size_t begun, running, reserved;
};

static struct count count_entries(const hwt_store *store, const struct hwts_kind *kind)
{
	struct count count = { 0 };

	for (const struct hwts_slab *slab = store->window->slabs; slab; slab = slab->next)
		for (size_t i = 0; i < HWTS_SLAB_ENTRIES; i++) {
			const struct hwts_entry *entry = &slab->entries[i];

			if (entry->state == HWTS_FREE || entry->kind != kind)
				continue;
			count.begun += entry->state == HWTS_BEGUN;
			count.running += entry->turn.counted;
			count.reserved += entry->turn.reserved;
		}
	return count;
}

static struct count count_groups(const struct hwts_kind *kind)
{
	struct count count = { .running = kind->turns.none.running, .reserved = kind->turns.none.reserved };

	for (size_t i = 0; i < kind->turns.room; i++)
		for (const struct hwts_turn_group *group = kind->turns.chains[i]; group; group = group->chain) {
			count.running += group->running;
			count.reserved += group->reserved;
		}
	for (uint32_t i = 0; i < kind->row.shards; i++)
		count.begun += kind->shards[i].active;
	return count;
}

/* I2, T1, T2: no place and no token of a group is lost or given twice. */
void sim_count_inside(struct node *node)
{
	hwt_store *store = node->store;

	hwts_lock(store);
	HWTS_EACH_KIND (store, kind) {
		struct count entries = count_entries(store, kind), groups = count_groups(kind);
		unsigned queued = 0;

		for (const struct hwts_row *row = kind->begun.first; row; row = row->next)
			queued++;
		if (queued != kind->begun.count)
			sim_fail("the queue", 0, "of %s has %u rows and not %u", kind->name, queued, kind->begun.count);
		if (entries.begun != groups.begun || entries.running != groups.running ||
		    entries.reserved != groups.reserved)
			sim_fail("groups", 0, "of %s have %u begun, %u running, %u tokens, and not %u, %u, %u",
				 kind->name, (unsigned)groups.begun, (unsigned)groups.running,
				 (unsigned)groups.reserved, (unsigned)entries.begun, (unsigned)entries.running,
				 (unsigned)entries.reserved);
	}
	hwts_unlock(store);
}

void sim_read_again(struct node *node)
{
	hwts_lock(node->store);
	hwts_ask(node->store, HWTS_LOOK | HWTS_LOAD);
	hwts_unlock(node->store);
	hwts_poke(node->store);
}
