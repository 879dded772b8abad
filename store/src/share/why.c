/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why due timeouts have not started.  The rooms below give their reasons; this file adds those that no room knows:
 * whether a thread is free, and whether this process may begin rows.
 */
#include "runs/begun.h"
#include "share/why.h"
#include "store/ability.h"
#include "store/clock.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

#include <stdio.h>
#include <stdlib.h>

#define STANDS_STILL_NS HWT_S(300)

/* The reasons of timeouts that their groups would let start. */
static const hwt_store_wait free_ones[] = { HWT_STORE_STARTS,      HWT_STORE_WAITS_THREAD, HWT_STORE_WAITS_TURN,
					    HWT_STORE_WAITS_RULES, HWT_STORE_WAITS_READ,   HWT_STORE_WAITS_LEASE };

void hwts_waits_of_kind(hwt_store *store, struct hwts_kind *kind, struct hwts_waits *waits)
{
	hwt_store_wait why = hwts_ability_why(store, kind->row.mode == HWT_STORE_TRANSACTION);

	*waits = (struct hwts_waits){ { { .count = 0 } } };
	hwts_window_waits(store, kind, waits);
	if (hwts_begun_free(store, kind, 0) == 0)
		hwts_waits_move(waits, HWT_STORE_STARTS, HWT_STORE_WAITS_THREAD);
	else
		hwts_waits_move(waits, HWT_STORE_WAITS_TURN, HWT_STORE_STARTS);
	hwts_begun_waits(store, kind, waits);
	hwts_shards_waits(store, kind, waits);
	for (size_t i = 0; i < HWTS_COUNT(free_ones) && why != HWT_STORE_STARTS; i++)
		if (free_ones[i] != why)
			hwts_waits_move(waits, free_ones[i], why);
	/* Without a lease no row can be read: the rows that were due when it was lost are the best estimate. */
	if (why == HWT_STORE_STARTS || hwts_trusted(store))
		kind->lost.count = 0;
	else if (waits->of[why].count == 0)
		waits->of[why] = kind->lost;
	else
		kind->lost = waits->of[why];
}

void hwts_waits_lose(hwt_store *store)
{
	struct hwts_waits waits;

	HWTS_EACH_KIND (store, kind)
		hwts_waits_of_kind(store, kind, &waits);
}

/*
 * Warnings
 */

/* NULL: no warning, as a user has asked for the wait, or another process tells (NOBODY). */
static const char *const texts[HWT_STORE_WAITS] = {
	[HWT_STORE_STARTS] = "nothing keeps it from starting, so libhwt-store stands still: please report this; "
			     "a restart of this process may help",
	[HWT_STORE_WAITS_ELSEWHERE] = "runs of its group that a dead process had still count, and cannot be begun here",
	[HWT_STORE_WAITS_RULES] = "new rules of its kind could not be read",
	[HWT_STORE_WAITS_READ] = "this process has not read it yet",
	[HWT_STORE_WAITS_ZONE] = "its time zone cannot be read here: is tzdata installed?",
	[HWT_STORE_WAITS_ROW] = "its row is locked, damaged, or refused by the database",
	[HWT_STORE_WAITS_LEASE] = "the lease of this process could not be renewed",
	[HWT_STORE_WAITS_DATABASE] = "this process has no connection that can write",
};

static bool is_of_process(size_t why)
{
	return why == HWT_STORE_WAITS_LEASE || why == HWT_STORE_WAITS_DATABASE;
}

/*
 * The oldest timeout may have waited for another reason before, so a reason counts only if it was seen again and
 * again for two thirds of a lease.  STARTS is an error of this library: no machine should be so slow that it is told.
 */
static int64_t patience_ns(const hwt_store *store, size_t why)
{
	int64_t lease_ns = store->config.lease_ns;

	return why == HWT_STORE_STARTS ? HWTS_MAX(10 * lease_ns, STANDS_STILL_NS) : lease_ns / 3 * 2;
}

static bool is_news(hwt_store *store, struct hwts_watch *watch, size_t why, const struct hwts_wait *wait,
		    int64_t age_ns)
{
	bool was = watch->told;

	if (wait->count == 0)
		*watch = (struct hwts_watch){ .told = false };
	else if (why == HWT_STORE_STARTS && wait->id != watch->id)
		*watch = (struct hwts_watch){ .id = wait->id, .told = was };
	else if (watch->since_ns == 0)
		watch->since_ns = hwt_now();
	else if (age_ns >= store->config.lease_ns && hwt_now() - watch->since_ns >= patience_ns(store, why))
		watch->told = true;
	return watch->told != was;
}

static void watch(hwt_store *store, int64_t now_us, const char *kind, size_t why, struct hwts_watch *watch,
		  const struct hwts_wait *wait)
{
	/* If the age is not known: since the reason was first seen. */
	int64_t age_ns = wait->oldest_us == HWTS_NEVER ? hwt_now() - watch->since_ns
						       : hwts_age_ns(now_us, wait->oldest_us);
	char which[64];

	if (!is_news(store, watch, why, wait, age_ns))
		return;
	(void)snprintf(which, sizeof(which), wait->id ? "timeout %lld" : "what is due", (long long)wait->id);
	if (watch->told)
		hwts_warn(store, "kind %s: %s has been due for %lld s and has not started, reason %s: %s", kind, which,
			  (long long)(age_ns / HWT_S(1)), hwts_wait_word(why), texts[why]);
	else
		hwts_warn(store, "kind %s: nothing waits any more, reason %s", kind, hwts_wait_word(why));
}

/*
 * The kind after this one, and its waits; NULL: there is none.  Of what STARTS, only the next of each group: the others
 * wait for that one, for the turn of their group, or for the answer to a begin.
 */
static struct hwts_kind *look_at_next(hwt_store *store, struct hwts_kind *kind, struct hwts_waits *waits,
				      int64_t *now_us)
{
	hwts_lock(store);
	*now_us = hwts_clock_db_us(store);
	kind = hwts_kind_next(store, kind);
	if (kind)
		hwts_waits_of_kind(store, kind, waits);
	if (kind && waits->of[HWT_STORE_STARTS].count > 0)
		waits->of[HWT_STORE_STARTS] = kind->nexts;
	hwts_unlock(store);
	return kind;
}

void hwts_waits_watch(hwt_store *store, struct hwts_watching *watching)
{
	struct hwts_waits all = { { { .count = 0 } } }, waits;
	const char *names[HWT_STORE_WAITS] = { NULL };
	struct hwts_kind *kind = NULL;
	int64_t now_us;

	if (hwt_now() - watching->last_ns < store->config.lease_ns / 3)
		return;
	watching->last_ns = hwt_now();
	while ((kind = look_at_next(store, kind, &waits, &now_us)) != NULL) {
		if (hwts_trusted(store)) /* a shard is being given, as a stop or the balance wants */
			waits.of[HWT_STORE_WAITS_LEASE].count = 0;
		for (size_t i = 0; i < HWT_STORE_WAITS; i++)
			if (texts[i] && !is_of_process(i))
				watch(store, now_us, kind->name, i, &kind->watch[i], &waits.of[i]);
			else if (waits.of[i].count && (!names[i] || waits.of[i].oldest_us < all.of[i].oldest_us))
				names[i] = kind->name;
		hwts_waits_join(&all, &waits);
	}
	for (size_t i = 0; i < HWT_STORE_WAITS; i++)
		if (is_of_process(i))
			watch(store, now_us, names[i] ? names[i] : "of any", i, &watching->of[i], &all.of[i]);
}

/*
 * For other processes
 */

struct told {
	int64_t kind, oldest_us;
	struct hwts_waits waits;
};

static int by_oldest(const void *left, const void *right)
{
	const struct told *a = left, *b = right;

	if (a->oldest_us != b->oldest_us)
		return a->oldest_us < b->oldest_us ? -1 : 1;
	return (a->kind > b->kind) - (a->kind < b->kind);
}

void hwts_waits_tell(hwt_store *store, char text[HWTS_WAITS_MAX + 1])
{
	struct told *told = NULL, next = { .kind = 0 };
	struct hwts_kind *kind = NULL;
	size_t count = 0, room = 0;
	int64_t now_us;

	while ((kind = look_at_next(store, kind, &next.waits, &now_us)) != NULL) {
		struct hwts_wait all = { .count = 0 };

		for (size_t i = 0; i < HWT_STORE_WAITS; i++)
			if (hwts_wait_is_told(i))
				hwts_wait_join(&all, &next.waits.of[i]);
		if (all.count == 0)
			continue;
		next.kind = kind->row.id;
		next.oldest_us = all.oldest_us;
		if (!hwts_grow(&told, &room, count + 1, sizeof(*told)))
			break;
		told[count++] = next;
	}
	text[0] = '\0';
	if (count > 0)
		qsort(told, count, sizeof(*told), by_oldest);
	for (size_t i = 0; i < count && hwts_waits_write(text, told[i].kind, &told[i].waits); i++)
		;
	free(told);
}

void hwts_starts_tell(hwt_store *store, char text[HWTS_WAITS_MAX + 1])
{
	int64_t now_ns = hwt_now();

	text[0] = '\0';
	hwts_lock(store);
	HWTS_EACH_KIND (store, kind)
		hwts_starts_write(text, kind->row.id, hwts_peak_count(&kind->tally.lateness, now_ns));
	hwts_unlock(store);
}
