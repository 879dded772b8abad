/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The share of this process: its lease, the shards that it holds, and the look-ahead into them.
 *
 * Structure
 *
 *   shard:  free (no owner, or the owner's lease is over) --take: epoch + 1--> held --give--> free
 *
 *   Each process wants ceil(shards / live members) of a kind.  With fewer it takes free ones, beginning anywhere.  With
 *   more it marks some as giving: nothing more is begun in them, and once nothing runs there they are given.  A shard
 *   in which something still runs after a third of a lease is kept for a lease, so that the rest of it does not wait.
 *
 *   A taker names the epoch that it has read, so of two takers one gets the shard.
 *
 * Threads
 *
 *   All by control; hwts_share_join and the first look also by hwt_store_start, before there is a control.
 */
#include "core/store.h"

#include <stdio.h>

static int64_t lease_ns(const hwt_store *store)
{
	return store->config.lease_ns;
}

/* How often the lease is renewed: in time for the window, too. */
static int64_t period_ns(const hwt_store *store)
{
	int64_t period = lease_ns(store) / 3;

	HWTS_EACH_KIND (store, kind)
		period = HWTS_MIN(period, kind->row.horizon_us * 1000 / 2);
	return period;
}

/* With the lock. */
static void lose(hwt_store *store, struct hwts_shard *shard)
{
	if (!shard->held)
		return;
	shard->held = shard->giving = false;
	store->stats.shards_held--;
	hwts_window_drop(store, shard->id);
	hwts_give_back_queued(store, shard->id);
}

void hwts_share_lose_all(hwt_store *store)
{
	HWTS_EACH_SHARD (store, kind, shard)
		lose(store, shard);
}

/* With the lock: it is read from the beginning. */
static void hold(hwt_store *store, struct hwts_shard *shard, int64_t epoch)
{
	if (!shard->held)
		store->stats.shards_held++;
	shard->held = true;
	shard->giving = store->phase == HWTS_STOPPING; /* a stop came between the decision to take it and this */
	shard->epoch = epoch;
	shard->mark_due_us = INT64_MIN;
	shard->mark_id = 0;
	shard->left_us = HWTS_NEVER;
}

/*
 * Joining
 */

/* force: a process that was started again under its old name gets it back. */
int hwts_share_join(hwt_store *store, bool force)
{
	char stem[HWTS_MEMBER_MAX - 17];
	const struct hwts_look *look = &store->look;
	int rc;

	if (force && store->name[0] != '\0')
		hwts_set_me(store->db, store->name);
	rc = hwts_rows_join(store->control_conn, look->kinds, look->kind_count, force);
	if (rc == EEXIST) {
		char name[HWTS_MEMBER_MAX + 1];

		hwts_cut(stem, sizeof(stem), hwts_me(store->db), strlen(hwts_me(store->db)));
		stem[strcspn(stem, "#")] = '\0';
		hwts_warn(store, "the name %s is in use by another process: give each its own", stem);
		(void)snprintf(name, sizeof(name), "%s#%08x", stem, (unsigned)hwts_random());
		hwts_set_me(store->db, name);
		rc = hwts_rows_join(store->control_conn, look->kinds, look->kind_count, true);
	}
	store->joined = rc == 0;
	return rc;
}

/*
 * Balance
 */

/* A row of a look about one shard; with the lock.  Someone else may have it by now. */
static void check_held(hwt_store *store, const struct hwts_shard_row *row)
{
	struct hwts_shard *shard = hwts_shard(store, row->shard, NULL);

	if (shard && shard->held && (!row->mine || shard->epoch != row->epoch))
		lose(store, shard);
}

static void give_some(hwt_store *store, struct hwts_kind *kind, uint32_t too_many)
{
	for (int busy = 0; busy < 2 && too_many > 0; busy++) {
		for (uint32_t i = 0; i < kind->row.shards && too_many > 0; i++) {
			struct hwts_shard *shard = &kind->shards[i];

			/* Idle ones first. */
			if (!shard->held || shard->giving || (shard->active > 0) != (busy == 1) ||
			    (busy == 1 && hwt_now() < shard->stays_until_ns))
				continue;
			shard->giving = true;
			shard->giving_since_ns = hwt_now();
			hwts_give_back_queued(store, shard->id);
			too_many--;
		}
	}
}

/* With the lock: decides about a kind; adds what is to be taken to take. */
static void balance(hwt_store *store, struct hwts_kind *kind, uint32_t members, const struct hwts_look *look,
		    struct hwts_shard_row *take, size_t *take_count)
{
	uint32_t want = (kind->row.shards + HWTS_MAX(members, 1) - 1) / HWTS_MAX(members, 1), have = 0, stay = 0;
	size_t from = look->shard_count ? hwts_random() % look->shard_count : 0;

	for (uint32_t i = 0; i < kind->row.shards; i++) {
		struct hwts_shard *shard = &kind->shards[i];

		if (shard->giving && hwt_now() - shard->giving_since_ns > lease_ns(store) / 3) {
			shard->giving = false;
			shard->stays_until_ns = hwt_now() + lease_ns(store);
		}
		have += shard->held;
		stay += shard->held && !shard->giving;
	}
	if (stay > want)
		give_some(store, kind, stay - want);
	for (size_t i = 0; i < look->shard_count && have < want; i++) {
		const struct hwts_shard_row *row = &look->shards[(from + i) % look->shard_count];
		struct hwts_kind *of;
		struct hwts_shard *shard = hwts_shard(store, row->shard, &of);

		if (!shard || of != kind || shard->held || !(row->free || row->mine))
			continue;
		take[(*take_count)++] = *row;
		have++;
	}
}

static int take_all(hwt_store *store, struct hwts_shard_row *take, size_t count)
{
	int rc;

	pthread_mutex_lock(&store->lock);
	for (size_t i = 0; i < count; i++) {
		struct hwts_kind *kind;

		take[i].fail_running = hwts_shard(store, take[i].shard, &kind) &&
				       kind->row.mode == HWT_STORE_AT_MOST_ONCE;
	}
	pthread_mutex_unlock(&store->lock);
	/* Hear first, then take, then read: so nothing is missed in between. */
	rc = store->engine->listen(store->control_conn, take, count, true);
	HWTS_POINT("take");
	if (rc == 0)
		rc = hwts_rows_take(store->control_conn, take, count);
	pthread_mutex_lock(&store->lock);
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct hwts_shard *shard = hwts_shard(store, take[i].shard, NULL);

		if (shard && take[i].epoch != 0) {
			hold(store, shard, take[i].epoch);
			store->stats.taken_over += take[i].left_us != 0 && !take[i].mine; /* it had an owner */
		}
	}
	pthread_mutex_unlock(&store->lock);
	return rc;
}

/* Gives what the database says is ours, and is neither held nor wanted: of a lease that was lost. */
static int give_strays(hwt_store *store, const struct hwts_look *look, const struct hwts_shard_row *take, size_t taken)
{
	int rc = 0;

	for (size_t i = 0; i < look->shard_count && rc == 0; i++) {
		const struct hwts_shard_row *row = &look->shards[i];
		const struct hwts_shard *shard;
		bool stray = row->mine;

		for (size_t j = 0; j < taken && stray; j++)
			stray = take[j].shard != row->shard;
		if (!stray)
			continue;
		pthread_mutex_lock(&store->lock);
		shard = hwts_shard(store, row->shard, NULL);
		stray = shard && !shard->held; /* NULL: a damaged row, which has a number that the kind does not */
		pthread_mutex_unlock(&store->lock);
		if (stray)
			rc = hwts_rows_give(store->control_conn, row, 1);
	}
	return rc;
}

/* Acts on what a look said about the shards; *left_us is when the next lease of others ends. */
static int act(hwt_store *store, struct hwts_look *look, int64_t *left_us)
{
	struct hwts_shard_row *take = hwts_alloc(look->shard_count * sizeof(*take));
	size_t count = 0;
	int rc = 0;

	if (!take)
		return ENOMEM;
	*left_us = HWTS_NEVER;
	pthread_mutex_lock(&store->lock);
	for (size_t i = 0; i < look->shard_count; i++) {
		check_held(store, &look->shards[i]);
		if (!look->shards[i].mine && !look->shards[i].free)
			*left_us = HWTS_MIN(*left_us, look->shards[i].left_us);
	}
	for (size_t i = 0; i < look->kind_count && store->phase == HWTS_STARTED; i++)
		HWTS_EACH_KIND (store, kind)
			if (kind->row.id == look->kinds[i])
				balance(store, kind, look->members[i], look, take, &count);
	pthread_mutex_unlock(&store->lock);
	rc = give_strays(store, look, take, count);
	if (rc == 0 && count > 0) {
		rc = take_all(store, take, count);
		if (rc == 0)
			rc = hwts_ahead_load(store, look);
	}
	free(take);
	return rc;
}

/* The renewal has come back. */
static int renewed(hwt_store *store, struct hwts_look *look, int64_t sent_boot_ns)
{
	pthread_mutex_lock(&store->lock);
	if (hwts_clock_sample(store, look->now_us, look->sent_ns, look->reply_ns))
		hwts_window_rearm(store);
	if (look->renewed) {
		store->trusted_ns = sent_boot_ns + lease_ns(store) / 6 * 5;
		hwts_ahead_see_all(store, look);
		pthread_cond_broadcast(&store->begin_work);
		pthread_cond_broadcast(&store->task_work);
		pthread_cond_broadcast(&store->end_work);
	} else {
		store->trusted_ns = 0;
		store->stats.lost_leases++;
		hwts_share_lose_all(store);
	}
	pthread_mutex_unlock(&store->lock);
	if (look->renewed)
		return 0;
	hwts_warn(store, "the lease of %s is lost: this process, its machine or the database stood still for too long",
		  hwts_me(store->db));
	return hwts_share_join(store, false);
}

/* Renews, looks ahead, balances.  *next_ns: when to come again at the latest. */
int hwts_share_look(hwt_store *store, int64_t *next_ns)
{
	struct hwts_look *look = &store->look;
	int64_t left_us = HWTS_NEVER, sent_boot_ns = hwts_boot_ns();
	int rc;

	free(look->held);
	rc = hwts_ahead_collect(store, &look->held, &look->held_count);
	look->renew = true;
	look->page = HWTS_PAGE;
	look->overdue_us = lease_ns(store) / 3 / 1000;
	if (rc == 0)
		rc = hwts_rows_look(store->control_conn, look);
	HWTS_POINT("looked");
	if (rc == 0)
		rc = renewed(store, look, sent_boot_ns);
	if (rc == 0 && !look->renewed) { /* joined again: once more, with nothing held */
		look->held_count = 0;
		sent_boot_ns = hwts_boot_ns();
		rc = hwts_rows_look(store->control_conn, look);
		if (rc == 0)
			rc = renewed(store, look, sent_boot_ns);
	}
	if (rc == 0)
		rc = hwts_ahead_read_on(store, look);
	if (rc == 0)
		rc = act(store, look, &left_us);
	*next_ns = hwt_now() + period_ns(store);
	if (left_us < lease_ns(store) / 1000)
		*next_ns = HWTS_MIN(*next_ns, hwt_now() + left_us * 1000 + HWT_MS(20));
	return rc;
}

/* Gives what is marked and has nothing running.  A shard that could not be given stays marked. */
void hwts_share_give(hwt_store *store)
{
	struct hwts_shard_row *rows = NULL;
	size_t room = 0, count = 0;

	pthread_mutex_lock(&store->lock);
	HWTS_EACH_SHARD (store, kind, shard)
		room += shard->giving && shard->active == 0;
	if (room > 0)
		rows = hwts_alloc(room * sizeof(*rows));
	HWTS_EACH_SHARD (store, kind, shard)
		if (rows && shard->giving && shard->active == 0)
			rows[count++] = (struct hwts_shard_row){ .shard = shard->id, .epoch = shard->epoch };
	pthread_mutex_unlock(&store->lock);
	if (count > 0 && hwts_rows_give(store->control_conn, rows, count) == 0) {
		pthread_mutex_lock(&store->lock);
		for (size_t i = 0; i < count; i++)
			lose(store, hwts_shard(store, rows[i].shard, NULL));
		pthread_mutex_unlock(&store->lock);
		(void)store->engine->listen(store->control_conn, rows, count, false);
	}
	free(rows);
}
