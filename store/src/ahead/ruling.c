/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of groups in the process that holds their shard.
 *
 * A shard has the number of its rules as this process has read them, and each begin compares it with the row.  Each
 * change of rules raises it, so from then on nothing is begun by the old ones; news, the next renewal or a begin in
 * vain tells that they are to be read.  Until then nothing is begun of the kind.  A shard that was just taken is not
 * looked at before its rules are known, if it ever had any.
 *
 * If a group has a cap, what runs under older epochs counts: it is read before the first begin under such rules.
 */
#include "ahead/ahead.h"
#include "store/clock.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

void hwts_rules_changed(hwt_store *store, int32_t id)
{
	struct hwts_kind *kind;
	struct hwts_shard *shard = hwts_shard(store, id, &kind);

	if (!shard || !shard->held)
		return;
	shard->told++;
	if (shard->unruled == HWTS_RULED)
		shard->unruled = HWTS_CHANGED;
	kind->turns.stalled |= shard->unruled == HWTS_CHANGED;
	hwts_wake(store, HWTS_READ);
}

bool hwts_rules_wanted(hwt_store *store)
{
	HWTS_EACH_SHARD (store, kind, shard)
		if (shard->held && shard->unruled != HWTS_RULED)
			return true;
	return false;
}

/* With the lock: the first kind with shards whose rules are to be read. */
static struct hwts_kind *collect(hwt_store *store, struct hwts_ruling *ruling)
{
	HWTS_EACH_KIND (store, kind) {
		ruling->shards = hwts_alloc(kind->row.shards * sizeof(*ruling->shards));
		ruling->kind = kind->row.id;
		ruling->kind_shards = kind->row.shards;
		for (uint32_t i = 0; i < kind->row.shards && ruling->shards; i++) {
			const struct hwts_shard *shard = &kind->shards[i];

			if (shard->held && shard->unruled != HWTS_RULED)
				ruling->shards[ruling->n++] = (struct hwts_ruled){ .id = shard->id,
										   .epoch = shard->epoch,
										   .told = shard->told,
										   .counts = !shard->runs_known };
		}
		if (ruling->n > 0 || !ruling->shards)
			return kind;
		free(ruling->shards);
		ruling->shards = NULL;
	}
	return NULL;
}

/* Whether any of what was read caps how many may run. */
static bool caps(const struct hwts_ruling *ruling)
{
	bool any = ruling->each.running > 0;

	for (size_t i = 0; i < ruling->group_count && !any; i++)
		any = ruling->groups[i].is.limited && ruling->groups[i].is.rules.running > 0;
	return any;
}

/* With the lock. */
static bool apply_groups(struct hwts_kind *kind, struct hwts_ruling *ruling)
{
	bool ok = hwts_turns_set_kind(&kind->turns, ruling->paused, ruling->each);

	for (size_t i = 0; i < ruling->group_count && ok; i++) {
		const struct hwts_ruled_group *group = &ruling->groups[i];

		ok = hwts_turns_set_own(&kind->turns, group->name, group->len, &group->is);
	}
	if (ok)
		hwts_turns_settle(&kind->turns, hwts_ruling_has, ruling);
	return ok;
}

/* With the lock.  What has changed meanwhile is read once more. */
static void apply_shard(hwt_store *store, struct hwts_kind *kind, const struct hwts_ruled *ruled, bool counted)
{
	struct hwts_shard *shard = hwts_shard(store, ruled->id, NULL);

	if (!shard->held || shard->epoch != ruled->epoch || !ruled->is_there)
		return;
	if (shard->unruled == HWTS_NEW)
		hwts_turns_read_levels(&kind->turns, ruled->levels, ruled->levels_len, hwt_now(),
				       hwts_clock_db_us(store));
	shard->rules = ruled->rules;
	shard->runs_known |= counted;
	shard->unruled = shard->told == ruled->told ? HWTS_RULED : HWTS_CHANGED;
}

static int apply(hwt_store *store, struct hwts_kind *kind, struct hwts_ruling *ruling, bool counted)
{
	bool ok;

	hwts_lock(store);
	ok = apply_groups(kind, ruling); /* by these the bucket of a group that the others make is empty */
	for (size_t i = 0; i < ruling->run_count && ok; i++)
		ok = hwts_window_runs(store, &ruling->runs[i]);
	for (size_t i = 0; i < ruling->n && ok; i++)
		apply_shard(store, kind, &ruling->shards[i], counted);
	hwts_stall(store, kind);
	hwts_wake(store, HWTS_BEGIN);
	hwts_unlock(store);
	return ok ? 0 : ENOMEM;
}

int hwts_rules_read(hwt_store *store, struct hwts_conn *conn)
{
	struct hwts_ruling ruling = { .n = 0 };
	struct hwts_kind *kind;
	bool counted;
	int rc;

	hwts_lock(store);
	kind = collect(store, &ruling);
	hwts_unlock(store);
	if (!kind)
		return 0;
	rc = ruling.shards ? hwts_rows_rules(conn, &ruling) : ENOMEM;
	counted = rc == 0 && caps(&ruling);
	HWTS_POINT("rules");
	if (counted)
		rc = hwts_rows_runs(conn, &ruling);
	if (rc == 0)
		rc = apply(store, kind, &ruling, counted);
	hwts_ruling_free(&ruling);
	return rc;
}
