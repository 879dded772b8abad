/* SPDX-License-Identifier: BSD-2-Clause */
/* The shards of the registered kinds, as this process has them; shards.c. */
#ifndef HWTS_SHARDS_H
#define HWTS_SHARDS_H

#include "store/kind.h"

struct hwts_shard {
	int32_t id;
	bool held, giving;
	bool unread;  /* there may be more between its mark and the end of the look-ahead */
	bool loading; /* it is read from the beginning, and has not been read to that end yet */
	int64_t epoch;
	int64_t mark_due_us, mark_id;
	int64_t again_us;               /* the database's clock, as it was to be read from the beginning */
	int64_t swept_due_us, swept_id; /* the next sweep reads what is overdue from here on; INT64_MIN: all */
	int64_t reach_us;               /* how far the look that is under way reads here; 0: it does not */
	int64_t giving_since_ns;
	int64_t locked_ns;      /* since when takes have found its row locked, or its owner's; 0: not */
	int64_t stays_until_ns; /* it could not be given, for something ran there: until then it is not tried again */
	int64_t rules;          /* the number of those that are in force here */
	enum { HWTS_RULED, HWTS_NEW, HWTS_CHANGED } unruled; /* they are to be read: nothing is begun before that */
	unsigned told;                                       /* how often they changed */
	bool runs_known; /* what runs here under an older epoch has been read, and counts */
	unsigned active; /* I2 */
	unsigned ending; /* of these, those that have run: their end is to be committed */
};

struct hwts_shards {
	unsigned active; /* begun, end not committed */
	unsigned held;
};

#define HWTS_EACH_SHARD(store, kind, shard)                                                                            \
	HWTS_EACH_KIND (store, kind)                                                                                   \
		for (struct hwts_shard * (shard) = (kind)->shards; (shard) < (kind)->shards + (kind)->row.shards;      \
		     (shard)++)

/* With the lock. */
struct hwts_shard *hwts_shard(hwt_store *store, int32_t shard, struct hwts_kind **kind);
bool hwts_holds(hwt_store *store, int32_t shard, int64_t epoch);      /* under this epoch */
bool hwts_keeps(hwt_store *store, int32_t shard);                     /* holds it, and is not about to give it */
void hwts_active(hwt_store *store, struct hwts_shard *shard);         /* one begun row more */
void hwts_inactive(hwt_store *store, struct hwts_shard *shard);       /* one less */
void hwts_read_again(hwt_store *store, struct hwts_shard *shard);     /* from the beginning */
void hwts_hold(hwt_store *store, const struct hwts_shard_row *taken); /* it is read from the beginning */
void hwts_lose(hwt_store *store, struct hwts_shard *shard);
void hwts_stall(hwt_store *store, struct hwts_kind *kind); /* or not: rules of what it holds are unread */
void hwts_shards_give(hwt_store *store);                   /* all that are held are giving */
void hwts_shards_reset(hwt_store *store);                  /* none was ever held */
/* What is due and cannot be known yet: each shard that has not been read up to now is one. */
void hwts_shards_waits(const hwt_store *store, const struct hwts_kind *kind, struct hwts_waits *waits);
unsigned hwts_shards_active(const hwt_store *store);
unsigned hwts_shards_held(const hwt_store *store);

#endif
