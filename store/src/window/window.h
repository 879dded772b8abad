/* SPDX-License-Identifier: BSD-2-Clause */
/* The window: rows that this process may have to begin soon, or has begun; window.c. */
#ifndef HWTS_WINDOW_H
#define HWTS_WINDOW_H

#include "store/kind.h"

#define HWTS_WINDOW_MAX 200000 /* entries: kinds share it, and beyond its share a kind's look-ahead waits */
#define HWTS_PAGE 5000         /* rows in one look, of all shards together */

enum hwts_entry_state { HWTS_FREE, HWTS_ARMED, HWTS_IS_DUE, HWTS_BEGUN };

struct hwts_entry {
	int64_t id;
	struct hwts_turn turn; /* with its due time, or that of the timer */
	int64_t since_us;      /* when it was due for which why says more than its turn */
	int64_t again_us;      /* news while it was not ARMED, else its due time if that was before; HWTS_NEVER: none */
	uint64_t heard;        /* the number of the last news about it, of all that the window has heard */
	uint64_t begin;        /* the number of its last begin, of the same numbers; 0: none */
	hwt_timeout timeout;
	hwt_store *store;
	struct hwts_kind *kind;
	struct hwts_entry *next; /* in the chain of its bucket, or of free ones */
	uint32_t len;
	int32_t shard;
	int8_t priority; /* as was last heard: that of its turn when it is due again */
	enum hwts_entry_state state;
	uint8_t why;  /* a hwt_store_wait: ROW or ZONE, as far as its last try tells; else STARTS */
	bool unsure;  /* the reply to its begin was lost */
	bool last;    /* its next attempt is its last: begun only when a thread is free */
	bool aside;   /* the database refuses to begin it: tried again each lease, whatever news says */
	bool between; /* BEGUN, and neither in the queue nor started: what becomes of it is known in a moment */
	bool changed; /* and it is not to start */
	bool told;    /* only news tell of it: kind->told counts it, and not kind->entries */
};

#define HWTS_SLAB_ENTRIES 256
struct hwts_slab { /* entries stay where they are until the timer is gone: its tasks point to them */
	struct hwts_slab *next;
	struct hwts_entry entries[HWTS_SLAB_ENTRIES];
};

struct hwts_window {
	hwt_timer *timer;
	struct hwts_slab *slabs;
	struct hwts_entry **buckets, *free;
	size_t bucket_count, count;
	uint64_t heard;
	int64_t look_ns; /* when what is due may be looked through again for the oldest */
};

/* In window_life.c. */
int hwts_window_open(hwt_store *store);
void hwts_window_close(hwt_store *store);
void hwts_window_drop_lost(hwt_store *store); /* what waits in shards that are not held */
/* Drops the entries of a kind that wait: the look-ahead reads them again.  The caller holds the lock of the store. */
void hwts_window_empty(hwt_store *store, const struct hwts_kind *kind);

/*
 * In window.c.  With the lock.
 */

size_t hwts_window_count(const hwt_store *store);
size_t hwts_window_limit(const hwt_store *store); /* of a kind: the backlog of one must not hide what others have */
size_t hwts_window_share(const hwt_store *store); /* of a group: beyond it a rest has the rows */
/* Wakes the reader if a rest of the group is to be read. */
void hwts_window_want_rest(hwt_store *store, const struct hwts_kind *kind, const struct hwts_turn_group *group);
struct hwts_shard;                                                                      /* shards.h */
bool hwts_window_is_beyond(const struct hwts_shard *shard, const struct hwts_due *due); /* its mark */
/* True: a look-ahead comes to it.  The one that is under way may have read too early. */
bool hwts_window_is_for_a_look(const struct hwts_shard *shard, const struct hwts_due *due);
struct hwts_entry *hwts_window_insert(hwt_store *store, struct hwts_kind *kind, const struct hwts_due *due);
void hwts_window_arm(struct hwts_entry *entry, int64_t due_us);
void hwts_window_arm_again(struct hwts_entry *entry, int64_t due_us); /* it was */
void hwts_window_erase(struct hwts_entry *entry);
void hwts_window_rearm(hwt_store *store);
void hwts_window_not_running(struct hwts_entry *entry); /* or not any more */
void hwts_window_due(struct hwts_entry *entry);
void hwts_window_not_begun(struct hwts_entry *entry, int64_t due_us, bool runs);
void hwts_window_set_aside(struct hwts_entry *entry);
void hwts_window_forget(hwt_store *store, int64_t id);                            /* if it is ARMED */
void hwts_window_between(hwt_store *store, int64_t id);                           /* it is neither queued nor started */
struct hwts_kind *hwts_window_begun(hwt_store *store, int64_t id, bool *between); /* NULL: it is not */
#define HWTS_IS_BEGUN UINT64_MAX
uint64_t hwts_window_begin(hwt_store *store, int64_t id);            /* the number of its last begin; HWTS_IS_BEGUN */
struct hwts_kind *hwts_window_changed(hwt_store *store, int64_t id); /* the same; it is not to start */
int32_t hwts_window_again(struct hwts_entry *entry);                 /* to be begun, perhaps once more; its shard */
struct hwts_entry *hwts_window_find(hwt_store *store, int64_t id);
void hwts_window_known(struct hwts_entry *entry); /* there is such a row */
/* Its end is committed, and it is due again then; HWTS_NEVER: it is not. */
void hwts_window_ended(hwt_store *store, const struct hwts_row *row, int64_t due_us);

/*
 * In window_in.c.  With the lock.
 */

void hwts_window_see(hwt_store *store, const struct hwts_due *due);
/* The same, read by a statement that was sent when the window had heard so much: what it has heard since is younger. */
void hwts_window_read(hwt_store *store, const struct hwts_due *due, uint64_t heard);
void hwts_window_hear(hwt_store *store, const struct hwts_due *due);               /* the same, of news */
int64_t hwts_window_soon_us(const hwt_store *store, const struct hwts_kind *kind); /* it waits for no look */
/* Of a rest that was read; false: it stays there. */
bool hwts_window_refill(hwt_store *store, const struct hwts_rest *rest, const struct hwts_due *due, uint64_t heard);
/* Moved by this process, which had heard so much of it before: it need not be tried at the time that it had. */
uint64_t hwts_window_heard(hwt_store *store, int64_t id);
uint64_t hwts_window_number(hwt_store *store); /* a new one, larger than all before */
void hwts_window_move(hwt_store *store, const struct hwts_due *due, uint64_t heard);
/* True: it was missing. */
bool hwts_window_rescue(hwt_store *store, const struct hwts_due *due); /* overdue: it should have been begun */
bool hwts_window_revive(hwt_store *store, const struct hwts_due *due); /* it should be running, says the database */
/* At most once: it runs, says the database, and not here.  Not NULL: it is to be made FAILED. */
struct hwts_entry *hwts_window_condemn(hwt_store *store, const struct hwts_due *due);
/* It runs under an older epoch, and counts.  False: no memory. */
bool hwts_window_runs(hwt_store *store, const struct hwts_due *due);

/*
 * In window_due.c.  With the lock: the entry whose turn it is; pop: to begin it, which may have to wait for a thread.
 * NULL: there is none.
 */
struct hwts_entry *hwts_window_peek(struct hwts_kind *kind);
struct hwts_entry *hwts_window_pop(hwt_store *store, struct hwts_kind *kind, bool thread);
/* Whether the rules of its group, which may have changed since it was begun, let it start. */
bool hwts_window_may_start(hwt_store *store, int64_t id);
hwt_store_wait hwts_window_why(hwt_store *store, int64_t id); /* what its entry says: ROW, ZONE, or STARTS */
bool hwts_window_may_begin(const hwt_store *store);           /* something may be begun */
/* What is due in the window or in rests, and has not been begun. */
void hwts_window_waits(hwt_store *store, const struct hwts_kind *kind, struct hwts_waits *waits);
int64_t hwts_window_oldest_us(hwt_store *store, const struct hwts_kind *kind); /* of what is due; HWTS_NEVER: none is */

#endif
