/* SPDX-License-Identifier: BSD-2-Clause */
/* The shards of the registered kinds, as this process has them; shards.c. */
#ifndef HWTS_SHARDS_H
#define HWTS_SHARDS_H

#include "store/kind.h"

struct hwts_shard {
	int32_t id;
	bool held, giving;
	bool unread;  /* rows between the mark and the end of the look-ahead may be unread */
	bool loading; /* being read from the beginning, and has not reached the end of the look-ahead yet */
	int64_t epoch;
	int64_t mark_due_us, mark_id;
	int64_t again_us;               /* the database's clock when reading from the beginning was asked for */
	int64_t swept_due_us, swept_id; /* the next sweep reads overdue rows from here on; INT64_MIN: all */
	int64_t reach_us;               /* the look that is under way reads up to here; 0: none reads this shard */
	int64_t giving_since_ns;
	int64_t locked_ns;      /* since when takes find its row or its owner's row locked; 0: not locked */
	int64_t stays_until_ns; /* the shard could not be given, as rows ran: not tried again before this time */
	int64_t rules;          /* the number of the rules that this process has read */
	/* NEW, CHANGED: rules have to be read before a row is begun. */
	enum { HWTS_RULED, HWTS_NEW, HWTS_CHANGED } unruled;
	unsigned told;   /* how often this process was told of a change of the rules */
	bool runs_known; /* rows that run under an older epoch have been read, and are counted */
	unsigned active; /* I2 */
	unsigned ending; /* of the active rows: those that have run, and whose end is not committed */
};

struct hwts_shards {
	unsigned active; /* rows that are begun, and whose end is not committed */
	unsigned held;
};

#define HWTS_EACH_SHARD(store, kind, shard)                                                                            \
	HWTS_EACH_KIND (store, kind)                                                                                   \
		for (struct hwts_shard * (shard) = (kind)->shards; (shard) < (kind)->shards + (kind)->row.shards;      \
		     (shard)++)

/* The caller holds store->lock. */
struct hwts_shard *hwts_shard(hwt_store *store, int32_t shard, struct hwts_kind **kind);
bool hwts_holds(hwt_store *store, int32_t shard, int64_t epoch);      /* under this epoch */
bool hwts_keeps(hwt_store *store, int32_t shard);                     /* held, and not being given */
void hwts_active(hwt_store *store, struct hwts_shard *shard);         /* one begun row more */
void hwts_inactive(hwt_store *store, struct hwts_shard *shard);       /* one begun row less */
void hwts_read_again(hwt_store *store, struct hwts_shard *shard);     /* from the beginning */
void hwts_hold(hwt_store *store, const struct hwts_shard_row *taken); /* and reads it from the beginning */
void hwts_lose(hwt_store *store, struct hwts_shard *shard);
/* Groups of a held shard whose rules have changed and are unread begin nothing.  Wakes the beginner. */
void hwts_stall(hwt_store *store, struct hwts_kind *kind, const struct hwts_shard *shard);
void hwts_shards_give(hwt_store *store);  /* marks all held shards as giving */
void hwts_shards_reset(hwt_store *store); /* as if no shard was ever held */
/* Counts each shard that has not been read up to now as one row: due rows in it are not known yet. */
void hwts_shards_waits(const hwt_store *store, const struct hwts_kind *kind, struct hwts_waits *waits);
unsigned hwts_shards_active(const hwt_store *store);
unsigned hwts_shards_held(const hwt_store *store);

#endif
