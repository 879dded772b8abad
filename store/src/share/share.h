/* SPDX-License-Identifier: BSD-2-Clause */
/* The share of this process; share.c. */
#ifndef HWTS_SHARE_H
#define HWTS_SHARE_H

#include "rows/engine.h"

/* What is noted between the loss of a lease and the next renewal that succeeds. */
struct hwts_loss {
	bool counted, told; /* the statistics have counted the loss; a warning has told it */
	bool removed;       /* the lease was lost while this process trusted it */
	bool remade;        /* the tables were made again, which no warning has said yet; a start keeps this, too */
	bool joined;        /* this process has joined, and no renewal has come back since */
};

struct hwts_share {
	/*
	 * The names of this process.  name, while it is started: config.name, or a name made from it; "": putter
	 * serves.  putter, otherwise: a process that only puts may be configured like a worker, and must not be taken
	 * for that worker.
	 */
	char name[HWTS_MEMBER_MAX + 1], putter[HWTS_MEMBER_MAX + 1];
	bool joined;
	struct hwts_loss loss;
	bool abandons; /* shards are given although rows run there */
	bool bare;     /* the last look found a kind that lacks the row of a shard */
	struct hwts_renewal renewal;
	struct hwts_shard_row *skipped; /* locked at the last take; control tries them again at again_ns */
	size_t skipped_count;
	int64_t again_ns;
};

int hwts_share_open(hwt_store *store); /* at a start: allocates the renewal */
void hwts_share_close(hwt_store *store);
void hwts_share_left(hwt_store *store); /* this process is no member any more */
/* Notes config.name, which may be NULL, and the name that the process has now as its putter. */
void hwts_share_name(hwt_store *store, const char *name);
void hwts_share_leave(hwt_store *store);
bool hwts_share_tell_remade(hwt_store *store); /* true: loss.remade was set, and a warning has said so */
int64_t hwts_share_incarnation(void);          /* a number that no other store has */
/* The caller holds store->lock. */
void hwts_share_abandon(hwt_store *store);
bool hwts_share_is_abandoned(const hwt_store *store);

/* Called by control; hwts_share_join and the first look by hwt_store_start. */
void hwts_hear_news(void *store, const struct hwts_due *due); /* in control.c */
/*
 * Renews the lease and balances the shards.  *next_ns: when to call again at the latest.  *shards: the error of the
 * balance, which leaves the lease renewed.
 */
int hwts_share_look(hwt_store *store, int64_t *next_ns, int *shards);
#define HWTS_TAKE_AGAIN_NS HWT_MS(100)
/*
 * Takes shards.  Moves those that are locked to the front of take, *count of them: they are tried again until the
 * next renewal decides about shards.
 */
int hwts_share_take(hwt_store *store, struct hwts_shard_row *take, size_t *count);
int64_t hwts_share_again_ns(const hwt_store *store); /* when locked shards are tried again; INT64_MAX: none */
void hwts_share_take_again(hwt_store *store);
int hwts_share_join(hwt_store *store);       /* at a start; EEXIST: a process that renews its lease has the name */
int hwts_share_join_again(hwt_store *store); /* after the lease was lost; the name may change */
void hwts_share_give(hwt_store *store);

#endif
