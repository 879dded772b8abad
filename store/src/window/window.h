/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The window: the rows that this process may have to begin soon, or has begun; window.c.
 *
 * States of an entry.  "-" means that the event does not occur, or changes no state.
 *
 *   event                                       FREE    ARMED      IS_DUE     BEGUN
 *   a row is seen: insert, then arm             ARMED   (1)        -          -
 *   the timer fires: due                        -       IS_DUE     -          -
 *   its group's turn: pop, add to a batch       -       -          BEGUN      -
 *   the begin finds nothing to start: not_begun -       -          -          ARMED, FREE if the row is gone
 *   the database refuses the begin: set_aside   -       -          -          ARMED, for a lease
 *   the reply is lost, or doubted: again        -       -          -          IS_DUE
 *   the end is committed: ended                 -       -          -          ARMED if due again, else FREE
 *   the row runs, and must not run: condemn     BEGUN   BEGUN (2)  -          -
 *   the row was cancelled: forget               -       FREE       -          -
 *   its shard is lost: drop_lost, pop           -       FREE       FREE       -, its end comes first
 *   its shard is being given: pop               -       -          ARMED      -
 *   no room to read its shard again: empty      -       FREE       -          -
 *
 *   (1) ARMED for the earlier of the two times: a begin that is too early costs a statement, one too late costs time.
 *   (2) Only if the row runs under an older epoch: under the epoch that is held, an ARMED entry is right.
 *   An entry that is armed for a time in the past goes on to IS_DUE at once, and to FREE if there is no memory.
 *   A row that is seen while its entry is IS_DUE or BEGUN leaves its time in again_us.
 */
#ifndef HWTS_WINDOW_H
#define HWTS_WINDOW_H

#include "store/kind.h"

#define HWTS_WINDOW_MAX 200000 /* entries of all kinds; a kind that has its share is not looked ahead for */
#define HWTS_PAGE 5000         /* rows that a look reads, of all shards together */

enum hwts_entry_state { HWTS_FREE, HWTS_ARMED, HWTS_IS_DUE, HWTS_BEGUN };

struct hwts_entry {
	int64_t id;
	/* its due_us: when the row is due, the time for which the timer is armed, or when the row that runs was due */
	struct hwts_turn turn;
	int64_t since_us;      /* when the row was due, if it waits for the reason in why */
	/* The earliest time heard of while IS_DUE or BEGUN.  ARMED for a later try: the due time.  HWTS_NEVER: none. */
	int64_t again_us;
	uint64_t heard; /* the number of the last news of this row; window->heard counts them */
	uint64_t begin; /* the number of the last begin of this row, from the same counter; 0: never begun */
	hwt_timeout timeout;
	hwt_store *store;
	struct hwts_kind *kind;
	struct hwts_entry *next; /* in the chain of its bucket, or in the list of free entries */
	uint32_t len;
	int32_t shard;
	int8_t priority; /* the priority that was last heard; turn.priority takes it over when the row is due again */
	enum hwts_entry_state state;
	uint8_t why;  /* a hwt_store_wait: ROW or ZONE, as the last try found; otherwise STARTS */
	bool unsure;  /* the reply to its begin was lost: the row may run under this epoch */
	bool last;    /* its next attempt is its last: the beginner begins it only when a thread is free */
	bool aside;   /* the database refuses to begin it: tried once a lease, whatever news says */
	bool between; /* BEGUN, but neither in the queue nor started: a begin or a return is under way */
	bool changed; /* BEGUN, and must not start: the row was changed, or its group is paused */
	bool told;    /* known from news alone: counted in kind->told instead of kind->entries */
};

#define HWTS_SLAB_ENTRIES 256
struct hwts_slab { /* entries never move while the timer lives: its tasks point to them */
	struct hwts_slab *next;
	struct hwts_entry entries[HWTS_SLAB_ENTRIES];
};

struct hwts_window {
	hwt_timer *timer;
	struct hwts_slab *slabs;
	struct hwts_entry **buckets, *free;
	size_t bucket_count, count;
	uint64_t heard;
	int64_t look_ns; /* the next time at which look_through may count oldest_us and the waits of the kinds again */
};

/* window_life.c */
int hwts_window_open(hwt_store *store);
void hwts_window_close(hwt_store *store);
void hwts_window_drop_lost(hwt_store *store); /* drops the waiting entries of shards that are not held */
/* Drops the waiting entries of a kind: the look-ahead reads them again.  The caller holds store->lock. */
void hwts_window_empty(hwt_store *store, const struct hwts_kind *kind);

/*
 * window.c.  The caller holds store->lock.
 */

size_t hwts_window_count(const hwt_store *store);
/* Entries of a kind: the backlog of one kind must not hide the rows of others. */
size_t hwts_window_limit(const hwt_store *store);
/* True: there is room for rows that are due, even if rows that are due later fill the window. */
bool hwts_window_has_room_now(const hwt_store *store, const struct hwts_kind *kind);
/* Entries of a group: rows beyond this share stay in the database alone; a rest (turns.h) notes from where. */
size_t hwts_window_share(const hwt_store *store);
/* Wakes the reader if a rest of the group has to be read. */
void hwts_window_want_rest(hwt_store *store, const struct hwts_kind *kind, const struct hwts_turn_group *group);
struct hwts_shard; /* shards.h */
/* True: the row lies beyond the shard's mark. */
bool hwts_window_is_beyond(const struct hwts_shard *shard, const struct hwts_due *due);
/* True: a look has yet to come to this row.  False: the look that is under way may have passed its place already. */
bool hwts_window_is_for_a_look(const struct hwts_shard *shard, const struct hwts_due *due);
struct hwts_entry *hwts_window_insert(hwt_store *store, struct hwts_kind *kind, const struct hwts_due *due);
void hwts_window_arm(struct hwts_entry *entry, int64_t due_us);
void hwts_window_arm_again(struct hwts_entry *entry, int64_t due_us); /* for an entry that is ARMED */
void hwts_window_erase(struct hwts_entry *entry);
void hwts_window_rearm(hwt_store *store);
void hwts_window_not_running(struct hwts_entry *entry); /* frees its place in the group: the row does not run */
void hwts_window_due(struct hwts_entry *entry);
void hwts_window_has_begun(struct hwts_entry *entry, int64_t due_us);
void hwts_window_not_begun(struct hwts_entry *entry, int64_t due_us, bool runs);
void hwts_window_set_aside(struct hwts_entry *entry);
void hwts_window_forget(hwt_store *store, int64_t id);  /* erases an ARMED entry */
void hwts_window_between(hwt_store *store, int64_t id); /* a begin or a return of the row is under way: notes it */
/* Returns the kind of a row that is BEGUN, otherwise NULL. */
struct hwts_kind *hwts_window_begun(hwt_store *store, int64_t id, bool *between);
#define HWTS_IS_BEGUN UINT64_MAX
/* Returns the number of the last begin.  HWTS_IS_BEGUN: the row is BEGUN.  0: no entry, or no begin yet. */
uint64_t hwts_window_begin(hwt_store *store, int64_t id);
/* Marks a row that is BEGUN so that it does not start.  Returns its kind; NULL: it is not BEGUN. */
struct hwts_kind *hwts_window_changed(hwt_store *store, int64_t id);
/* Queues the row once more: nobody knows whether its begin happened.  Returns its shard. */
int32_t hwts_window_again(struct hwts_entry *entry);
struct hwts_entry *hwts_window_find(hwt_store *store, int64_t id);
void hwts_window_known(struct hwts_entry *entry); /* the row was read or put: no longer known from news alone */
/* The end of the run is committed.  due_us: when the row is due again; HWTS_NEVER: not. */
void hwts_window_ended(hwt_store *store, const struct hwts_row *row, int64_t due_us);

/*
 * window_in.c.  The caller holds store->lock.
 */

/* A row that a call of this process has written. */
void hwts_window_see(hwt_store *store, const struct hwts_due *due);
/* A row that a statement read.  heard: hwts_window_number as it was sent; news with larger numbers are younger. */
void hwts_window_read(hwt_store *store, const struct hwts_due *due, uint64_t heard);
void hwts_window_hear(hwt_store *store, const struct hwts_due *due); /* a row from news */
/* How far ahead of now a row may be due to enter the window past a look that is behind. */
int64_t hwts_window_soon_us(const hwt_store *store, const struct hwts_kind *kind);
/* A row of a rest that was read.  False: the window keeps no more of this group, and the row stays in the rest. */
bool hwts_window_refill(hwt_store *store, const struct hwts_rest *rest, const struct hwts_due *due, uint64_t heard);
/*
 * For a call of this process that moves a row: hwts_window_heard comes before the statement, hwts_window_move after it.
 * If no news came in between, the new time holds.
 */
uint64_t hwts_window_heard(hwt_store *store, int64_t id);
uint64_t hwts_window_number(hwt_store *store); /* a new number, larger than all before */
void hwts_window_move(hwt_store *store, const struct hwts_due *due, uint64_t heard);
/* A look found the row.  True: its entry was missing from the window. */
bool hwts_window_rescue(hwt_store *store, const struct hwts_due *due); /* overdue: the row should have been begun */
/* The database says that the row runs under the epoch that is held: this process should run it. */
bool hwts_window_revive(hwt_store *store, const struct hwts_due *due);
/*
 * At most once: the database says that the row runs, and this process does not run it.  If the result is not NULL, the
 * caller makes the row FAILED.
 */
struct hwts_entry *hwts_window_condemn(hwt_store *store, const struct hwts_due *due);
/* The row runs under an older epoch, and counts against the cap of its group.  False: no memory. */
bool hwts_window_runs(hwt_store *store, const struct hwts_due *due);

/*
 * window_due.c.  The caller holds store->lock.  The entry whose turn it is, or NULL; pop takes it to be begun.  thread:
 * a thread is free, so a last attempt may be begun too.
 */
struct hwts_entry *hwts_window_peek(struct hwts_kind *kind);
struct hwts_entry *hwts_window_pop(hwt_store *store, struct hwts_kind *kind, bool thread);
/* Whether the group's rules let the row start: they may have changed since its begin. */
bool hwts_window_may_start(hwt_store *store, int64_t id);
hwt_store_wait hwts_window_why(hwt_store *store, int64_t id); /* ROW, ZONE or STARTS, as the entry has it */
bool hwts_window_may_begin(const hwt_store *store);           /* some group is in the ring of its kind */
/* Adds the rows that are due in the window or in rests, and are not begun. */
void hwts_window_waits(hwt_store *store, const struct hwts_kind *kind, struct hwts_waits *waits);
/* Returns when the oldest due row was due.  HWTS_NEVER: no row is due. */
int64_t hwts_window_oldest_us(hwt_store *store, const struct hwts_kind *kind);

#endif
