/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of groups in the process that holds their shard.
 *
 * A number in the row of each shard counts the changes of its rules.  Each begin names the number that this process has
 * read; under another number it begins nothing.  News, a renewal or such a begin say that the rules have changed.
 * Until they are read, no row of a group of the shard is begun, nor any row of the kind that has no group.  A shard
 * that was just taken is not looked at before its rules are known, if it ever had rules.
 *
 * If a group has a cap, runs under older epochs count too: they are read before the first begin under such rules.
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
	hwts_stall(store, kind, shard);
	hwts_wake(store, HWTS_READ);
}

bool hwts_rules_wanted(hwt_store *store)
{
	HWTS_EACH_SHARD (store, kind, shard)
		if (shard->held && shard->unruled != HWTS_RULED)
			return true;
	return false;
}

/*
 * The caller holds store->lock.  Finds a kind with shards whose rules are not known.  Kinds take turns, as the rules of
 * one may change all the time.
 */
static struct hwts_kind *collect(hwt_store *store, struct hwts_ruling *ruling, unsigned turn)
{
	struct hwts_kind *kind = hwts_kind_turn(store, turn);

	for (size_t n = hwts_kind_count(store); n > 0; n--, kind = hwts_kind_around(store, kind)) {
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

/* True: some rules that were read cap the number of runs. */
static bool caps(const struct hwts_ruling *ruling)
{
	bool any = ruling->each.running > 0;

	for (size_t i = 0; i < ruling->group_count && !any; i++)
		any = ruling->groups[i].is.limited && ruling->groups[i].is.rules.running > 0;
	return any;
}

/* The caller holds store->lock. */
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

/* The caller holds store->lock.  Rules that changed during the reading are read once more. */
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
	hwts_stall(store, kind, shard);
}

static int apply(hwt_store *store, struct hwts_kind *kind, struct hwts_ruling *ruling, bool counted)
{
	bool ok;

	hwts_lock(store);
	/* Rules first: the runs and levels below may make groups, whose buckets are empty under these rules. */
	ok = apply_groups(kind, ruling);
	for (size_t i = 0; i < ruling->run_count && ok; i++)
		ok = hwts_window_runs(store, &ruling->runs[i]);
	for (size_t i = 0; i < ruling->n && ok; i++)
		apply_shard(store, kind, &ruling->shards[i], counted);
	hwts_wake(store, HWTS_BEGIN); /* apply_groups has placed groups, also when all shards were lost meanwhile */
	hwts_unlock(store);
	return ok ? 0 : ENOMEM;
}

int hwts_rules_read(hwt_store *store, struct hwts_conn *conn, unsigned turn)
{
	struct hwts_ruling ruling = { .n = 0 };
	struct hwts_kind *kind;
	bool counted;
	int rc;

	hwts_lock(store);
	kind = collect(store, &ruling, turn);
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
