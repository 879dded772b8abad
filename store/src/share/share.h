/* SPDX-License-Identifier: BSD-2-Clause */
/* The share of this process; share.c. */
#ifndef HWTS_SHARE_H
#define HWTS_SHARE_H

#include "rows/engine.h"

/* The lease was found to be lost, and no renewal has found it since. */
struct hwts_loss {
	bool counted, told;
	bool removed; /* it should have lasted */
	bool remade;  /* the tables are others */
	bool joined;  /* since then, and no renewal has come back */
};

struct hwts_share {
	/*
	 * The name of the process while it is started: config.name, or what has been made of it; "": putter.  Before
	 * and after it has another: a process that only puts may be configured as a worker is, and must not be taken
	 * for that.
	 */
	char name[HWTS_MEMBER_MAX + 1], putter[HWTS_MEMBER_MAX + 1];
	bool joined;
	struct hwts_loss loss;
	bool abandons; /* shards are given whatever runs there */
	bool bare;     /* of some kind no shard was seen */
	struct hwts_renewal renewal;
	struct hwts_shard_row *skipped; /* shards the last take found locked; control retries at again_ns */
	size_t skipped_count;
	int64_t again_ns;
};

int hwts_share_open(hwt_store *store); /* for a start */
void hwts_share_close(hwt_store *store);
void hwts_share_name(hwt_store *store, const char *name); /* config.name, or NULL; it has the other one now */
void hwts_share_leave(hwt_store *store);
void hwts_share_tell_remade(hwt_store *store);
int64_t hwts_share_incarnation(void); /* one that no other store has */
/* With the lock. */
void hwts_share_abandon(hwt_store *store);
bool hwts_share_is_abandoned(const hwt_store *store);

/* By control. */
void hwts_hear_news(void *store, const struct hwts_due *due); /* in control.c */
/* *shards: what has failed of that which is no renewal. */
int hwts_share_look(hwt_store *store, int64_t *next_ns, int *shards);
#define HWTS_TAKE_AGAIN_NS HWT_MS(100)
/* Keeps at its beginning what was skipped, to be tried again: until the next renewal says what is to be taken. */
int hwts_share_take(hwt_store *store, struct hwts_shard_row *take, size_t *count);
int64_t hwts_share_again_ns(const hwt_store *store); /* when what was locked is to be tried again; INT64_MAX */
void hwts_share_take_again(hwt_store *store);
int hwts_share_join(hwt_store *store);       /* at a start; EEXIST: another process has the name, and renews */
int hwts_share_join_again(hwt_store *store); /* after the lease was lost: it may get another name */
void hwts_share_give(hwt_store *store);

#endif
