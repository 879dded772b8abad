/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics of a store and of a kind; how late runs start. */
#include "runs/begun.h"
#include "share/why.h"
#include "store/clock.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

static unsigned lateness_bucket(int64_t ns)
{
	unsigned bucket = 0;

	for (int64_t us = ns / 1000; us > 0 && bucket < 31; us >>= 1)
		bucket++;
	return bucket;
}

void hwts_tally_start(struct hwts_tally *tally, int64_t now_ns, int64_t late_ns)
{
	late_ns = HWTS_MAX(late_ns, 0);
	tally->lateness_sum_ns += HWTS_MIN(late_ns, INT64_MAX - tally->lateness_sum_ns);
	tally->stats.lateness[lateness_bucket(late_ns)]++;
	tally->stats.lateness_max_ns = HWTS_MAX(tally->stats.lateness_max_ns, late_ns);
	hwts_peak_note(&tally->lateness, now_ns, late_ns);
}

/*
 * Reading
 */

/* Rows that are due and have not started: how many, and when the oldest was due. */
struct overdue {
	uint64_t count;
	int64_t oldest_us;
};

static void see_overdue(hwt_store *store, const struct hwts_kind *kind, struct overdue *overdue)
{
	overdue->count += kind->turns.queued + hwts_queued(store, kind);
	overdue->oldest_us = HWTS_MIN(overdue->oldest_us, hwts_begun_oldest_us(kind));
	overdue->oldest_us = HWTS_MIN(overdue->oldest_us, hwts_window_oldest_us(store, kind));
}

static void set_overdue(const hwt_store *store, const struct overdue *overdue, hwt_store_stats *stats)
{
	stats->overdue = overdue->count;
	stats->overdue_oldest_ns = overdue->count ? hwts_age_ns(hwts_clock_db_us(store), overdue->oldest_us) : 0;
}

static void set_waits(const hwt_store *store, const struct hwts_waits *waits, hwt_store_stats *stats)
{
	int64_t now_us = hwts_clock_db_us(store);

	for (size_t i = 0; i < HWT_STORE_WAITS; i++) {
		const struct hwts_wait *wait = &waits->of[i];

		stats->waiting[i] = wait->count;
		stats->waiting_oldest_ns[i] = wait->count ? hwts_age_ns(now_us, wait->oldest_us) : 0;
	}
}

static bool is_trusted(const hwt_store *store)
{
	return hwts_phase(store) != HWTS_STOPPED && hwts_trusted(store);
}

void hwts_stats_of_kind(hwt_store *store, struct hwts_kind *kind, hwt_store_stats *stats)
{
	struct overdue overdue = { 0, HWTS_NEVER };
	struct hwts_waits waits;

	*stats = kind->tally.stats;
	for (uint32_t i = 0; i < kind->row.shards; i++) {
		stats->running += kind->shards[i].active;
		stats->shards_held += kind->shards[i].held;
	}
	stats->window = kind->entries + kind->told - stats->running;
	see_overdue(store, kind, &overdue);
	set_overdue(store, &overdue, stats);
	hwts_waits_of_kind(store, kind, &waits);
	set_waits(store, &waits, stats);
	stats->lateness_minute_max_ns = hwts_peak_read(&kind->tally.lateness, hwt_now());
	stats->trusted = is_trusted(store);
}

void hwts_stats_now(hwt_store *store, hwt_store_stats *stats)
{
	struct overdue overdue = { 0, HWTS_NEVER };
	struct hwts_waits waits = { { { .count = 0 } } }, some;

	*stats = store->tally->stats;
	stats->window = hwts_window_count(store) - hwts_shards_active(store);
	stats->running = hwts_shards_active(store);
	stats->shards_held = hwts_shards_held(store);
	HWTS_EACH_KIND (store, kind) {
		see_overdue(store, kind, &overdue);
		hwts_waits_of_kind(store, kind, &some);
		hwts_waits_join(&waits, &some);
	}
	set_overdue(store, &overdue, stats);
	set_waits(store, &waits, stats);
	stats->lateness_minute_max_ns = hwts_peak_read(&store->tally->lateness, hwt_now());
	stats->trusted = is_trusted(store);
	stats->round_trips = atomic_load_explicit(&store->db->round_trips,
						  memory_order_relaxed); /* relaxed: a statistic */
}

static int check(const hwt_store *store, const hwt_store_stats *out)
{
	int rc = hwts_check_store(store);

	if (rc == 0 && (!out || out->size < offsetof(hwt_store_stats, begun)))
		rc = hwts_fail(EINVAL, "hwt_store_stats.size must be sizeof(hwt_store_stats)");
	return rc;
}

static void give(const hwt_store_stats *stats, hwt_store_stats *out)
{
	size_t size = out->size;

	memcpy(out, stats, HWTS_MIN(size, sizeof(*stats)));
	out->size = size;
}

int hwt_store_read_stats(hwt_store *store, hwt_store_stats *out)
{
	struct hwts_call call = hwts_enter();
	hwt_store_stats stats;
	int rc = check(store, out);

	if (rc != 0)
		return hwts_leave(call, rc);
	hwts_lock(store);
	hwts_stats_now(store, &stats);
	hwts_unlock(store);
	give(&stats, out);
	return hwts_leave(call, 0);
}

int hwt_store_read_kind_stats(hwt_store *store, const char *name, hwt_store_stats *out)
{
	struct hwts_call call = hwts_enter();
	struct hwts_kind *kind;
	hwt_store_stats stats;
	int rc = check(store, out);

	if (rc == 0)
		rc = hwts_check_kind_name(name);
	if (rc != 0)
		return hwts_leave(call, rc);
	hwts_lock(store);
	kind = hwts_kind_find(store, name);
	if (kind && kind->registered)
		hwts_stats_of_kind(store, kind, &stats);
	else
		rc = hwts_fail(ENOENT, "kind %s is not registered by this process", name);
	hwts_unlock(store);
	if (rc == 0)
		give(&stats, out);
	return hwts_leave(call, rc);
}
