/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Turns: in which order the due rows of a kind are begun, and which of them have to wait.
 *
 * Structure
 *
 *     turns --ring---> acme -> blue -> none      groups that may begin a row; the first is next
 *           --waiting> zoo                       groups without a token, or whose bucket is not full: a heap by time
 *           --later--> rest -> rest              rests that are not due: a heap by due time
 *
 *     acme --queue--> turn (9)                   a heap by priority, then by due time
 *                     /      \
 *                 turn (7)   rest (7) --place--> rows that are in the database alone, from this place on
 *
 *   A turn belongs to a timeout in the window, from the first entry to the end of its run.  A group is found by its
 *   name.  It exists as long as it has a turn or a rest, its bucket is not full, or it has rules of its own.  Rows
 *   without a group share the group `none`, which no rule limits.
 *
 *   The ring goes round: the first group begins one timeout, and goes to the end.  A group that is paused, full or out
 *   of tokens leaves the ring when it comes to the front, and so does one whose rules are being read, as those of its
 *   shard have changed.  It comes back when a run of it ends, the time of its token comes, or its rules change or have
 *   been read.
 *
 *   A bucket of tokens is one number, full_ns: when it will be full.  A start moves full_ns by start_every; a start is
 *   possible while full_ns is at most (burst - 1) * start_every away.  A turn that is taken reserves a token, and uses
 *   it when its task starts.  So a timeout that is given back has used no token, and a long time between begin and
 *   start brings no two starts too close to each other.
 *
 *   The window keeps a share of the rows of a group, and up to twice the share if a row is put, or told by news, and
 *   due within a second.  For the other rows a rest notes the place (due time, id) from which on the rows of a shard, a
 *   group and a priority are in the database alone.  A rest that is due stands in the queue of its group as the first
 *   of its rows would.  While a rest is the first of the queue the group begins nothing, until the rest has been read:
 *   so the order within a group holds, whatever the window keeps, and no thread searches through rests.  A rest is
 *   also read when its group has few turns left.
 *
 * Cost
 *
 *   Nothing in groups/ grows with the rows of a group.  A group has at most one rest for each shard and priority.  A
 *   share is a twentieth of the window, so few groups have a rest.
 *
 * Threads
 *
 *   One thread at a time: the caller holds store->lock.  The clock is an argument.
 *
 * Invariants
 *
 *   T1  running = the group's turns that are counted.  A turn is counted from the moment at which it is taken, or is
 *       known to run on a process that died, until its run ends or is known not to run.  Losing the shard changes
 *       nothing of that
 *   T2  reserved = the group's turns that were taken with a token, and have neither started nor been put off
 *   T3  a group with a turn in its queue is in the ring, waits, or is blocked: stalled, paused, full, or a rest is its
 *       first
 *   T4  a turn that was counted when it was queued is first in its group.  The group may begin it though full, paused
 *       or out of tokens: as far as this process knows the row runs already, and is counted.  If the group may not
 *       start it, the begin finds the row running, or leaves it pending: then it can be cancelled, or waits for a turn
 *   T5  a pending row that the window has passed over, and that has no turn, lies in a rest: not before its from, nor
 *       before its asked while the rest is being read.  The earlier of the two is the rest's place in the queue, or in
 *       later
 *   T6  a group has a rate if its own rules or those of the kind limit its starts
 */
#ifndef HWTS_TURNS_H
#define HWTS_TURNS_H

#include "base/waits.h"

struct hwts_due; /* due.h */

/* The place of a row in the order (due time, id); due_us HWTS_NEVER: no place. */
struct hwts_place {
	int64_t due_us, id;
};

struct hwts_turn {
	struct hwts_turn *next, *prev, *child; /* of a heap: siblings; the prev of the first sibling is its parent */
	struct hwts_turn_group *group;
	int64_t due_us;
	int8_t priority;
	bool counted;   /* the row may be running: T1 */
	bool reserved;  /* the turn has a token, and its task has not started: T2 */
	bool is_rest;   /* the turn of a struct hwts_rest */
	bool elsewhere; /* counted for a run of a process that died, as far as is known */
};

/* turn_queue.c: a heap of turns, the first of which is next; NULL: empty. */
void hwts_turn_push(struct hwts_turn **queue, struct hwts_turn *turn);
void hwts_turn_remove(struct hwts_turn **queue, struct hwts_turn *turn);

/* Limits of a group; 0: no limit. */
struct hwts_rules {
	uint32_t running, burst;
	int64_t every_ns; /* between two starts */
};

/* The rules of one group. */
struct hwts_own {
	struct hwts_rules rules;
	bool limited; /* these limits hold, and not those of the kind */
	bool paused;
	bool seen; /* read again since the last hwts_turns_settle */
};

/* For a group whose starts are limited. */
struct hwts_rate {
	struct hwts_turn turn; /* in turns->waiting; its due_us is when the wait ends, in ns */
	int64_t full_ns;       /* when the bucket of tokens is full */
};

/* 59 bytes and the name, at least 64: 70 with a name of 11. */
struct hwts_turn_group {
	struct hwts_turn_group *chain; /* groups with this hash */
	struct hwts_turn_group *next;  /* in the ring */
	struct hwts_turn *queue;
	struct hwts_own *own;          /* NULL: the rules of the kind hold */
	struct hwts_rate *rate;        /* NULL: its starts have no rate; T6 */
	uint32_t turns, running;       /* how many turns; how many are counted: T1 */
	uint32_t round;                /* round of the last timeout that was queued for a thread */
	uint16_t reserved;             /* turns with a token that have not started; T2 */
	uint16_t elsewhere;            /* turns that are marked elsewhere */
	uint16_t bucket : 10;          /* a hash of the name; the ids that news bring with it do not matter */
	uint16_t where : 2, rests : 1; /* where: enum where in turns.c.  rests: the group has a rest */
	uint8_t len;
	char start[5]; /* of the name, which goes on behind the structure */
};

static inline char *hwts_turn_name(const struct hwts_turn_group *group)
{
	return (char *)(uintptr_t)group + offsetof(struct hwts_turn_group, start);
}

/* T5: the rows of one priority. */
struct hwts_rest {
	struct hwts_turn turn;
	struct hwts_turn **queue; /* the queue of the group, or turns->later; NULL: neither */
	struct hwts_rests *rests;
	struct hwts_place from, asked; /* asked: the rest is being read from this place on; or no place */
	int8_t priority;
};

/* The rests of a group in a shard. */
struct hwts_rests {
	struct hwts_rests *next;
	struct hwts_turn_group *group;
	int32_t shard;
	unsigned count, asked; /* how many there are, and how many are being read */
	struct hwts_rest *of[2 * HWTS_PRIORITY_MAX + 1];
};

struct hwts_turns {
	struct hwts_turn_group none; /* the group of all rows without a group */
	struct hwts_turn_group **chains;
	size_t room, count;
	struct hwts_turn_group *first, *end; /* the ring */
	struct hwts_turn_group *stalled_first, *stalled_end; /* out of the ring until rules have been read */
	struct hwts_turn *waiting; /* the rates of groups; a group is in at most one of heap, ring and stalled */
	size_t queued;
	uint32_t round; /* round of the row that a thread took last */
	struct hwts_rests *rests;
	struct hwts_turn *later; /* the rests that are not due */
	unsigned firsts;         /* how often a row has made its rest the first of later, or of its group */
	int64_t now_us;          /* the database's clock, for the rests */

	bool paused;            /* the whole kind is paused */
	/*
	 * A bit for each shard whose rules have changed and are being read: none of its groups begins a row.  stalls:
	 * how many such shards there are; if any, rows without a group are not begun either.
	 */
	uint64_t stalled[1024 / 64];
	unsigned stalls;
	struct hwts_rules each; /* for each group without limits of its own */
	int64_t *empty_ns;      /* for each shard: when its buckets were empty; 0: their levels are known */
	uint32_t shards;
};

void hwts_turns_clear(struct hwts_turns *turns); /* forgets all groups and rules; empty_ns stays */

/* A timeout enters the window.  len 0: no group.  False: no memory. */
bool hwts_turns_join(struct hwts_turns *turns, struct hwts_turn *turn, const char *name, size_t len);
void hwts_turns_leave(struct hwts_turns *turns, struct hwts_turn *turn, int64_t now_ns); /* the turn is not queued */

void hwts_turns_add(struct hwts_turns *turns, struct hwts_turn *turn); /* queues a turn whose row is due */
struct hwts_turn *hwts_turns_peek(struct hwts_turns *turns, int64_t now_ns);
/* Takes the turn that peek returns: its begin follows.  stays: its group keeps its place in the ring. */
struct hwts_turn *hwts_turns_pop(struct hwts_turns *turns, int64_t now_ns, bool stays);
void hwts_turns_remove(struct hwts_turns *turns, struct hwts_turn *turn); /* out of the queue, unbegun */
/* Counts a turn that was not popped, and whose row runs as far as is known.  count: the turn is not queued. */
void hwts_turns_count(struct hwts_turn *turn);
void hwts_turns_count_queued(struct hwts_turns *turns, struct hwts_turn *turn); /* counts a queued turn */
void hwts_turns_elsewhere(struct hwts_turn *turn, bool is);
/* True: the group is paused, or more of its turns are counted than may run. */
bool hwts_turns_exceed(const struct hwts_turns *turns, const struct hwts_turn *turn);
/* True: hwts_turns_exceed, or the turn was taken without a token (T4). */
bool hwts_turns_is_beyond(const struct hwts_turns *turns, const struct hwts_turn *turn);
/* The task is about to start.  False: rules that came after the begin forbid the start. */
bool hwts_turns_start(struct hwts_turns *turns, struct hwts_turn *turn, int64_t now_ns);
/* The turn is tried again later.  It stays counted, and gives its token back. */
void hwts_turns_put_off(struct hwts_turns *turns, struct hwts_turn *turn);
/* The run has ended, or was not begun. */
void hwts_turns_done(struct hwts_turns *turns, struct hwts_turn *turn);

/* Why a queued turn is not taken.  STARTS: its group may begin it, and is next. */
hwt_store_wait hwts_turns_why(const struct hwts_turns *turns, const struct hwts_turn *turn, int64_t now_ns);
/* Counts each rest that is due as one row; turn_rest.c. */
void hwts_turns_rest_waits(const struct hwts_turns *turns, int64_t now_us, int64_t now_ns, struct hwts_waits *waits);

/*
 * ready: a group is in the ring.  wake_ns: when a group comes back by time; INT64_MAX: none does.
 */
static inline bool hwts_turns_ready(const struct hwts_turns *turns)
{
	return turns->first != NULL;
}
static inline int64_t hwts_turns_wake_ns(const struct hwts_turns *turns)
{
	return turns->waiting ? turns->waiting->due_us : INT64_MAX;
}

/* The round in which a timeout is started among those that wait for a thread: there, too, groups take turns. */
uint32_t hwts_turns_round(const struct hwts_turns *turns, struct hwts_turn_group *group);

/*
 * turn_rest.c.  share: how many turns of a group the window keeps.
 */

void hwts_turns_at(struct hwts_turns *turns, int64_t now_us); /* the database's clock, for the rests */
/* True: the window keeps this pending row.  False: a rest has noted it. */
bool hwts_turns_keeps(struct hwts_turns *turns, const struct hwts_due *due, size_t share);
bool hwts_turns_rests(struct hwts_turns *turns, const struct hwts_due *due); /* True: a rest covers the row */
/*
 * True: the reader should read a rest of the group, now or after the caller has dropped a turn of the group, as it does
 * next.
 */
bool hwts_turns_want(const struct hwts_turns *turns, const struct hwts_turn_group *group, size_t share);
struct hwts_rest *hwts_turns_wanted(const struct hwts_turns *turns, size_t share); /* the rest to read next */
size_t hwts_rest_page(const struct hwts_turns *turns, const struct hwts_rest *rest, size_t share); /* number of rows */
void hwts_rest_ask(struct hwts_rest *rest); /* the reader reads the rest from asked on */
/* True: the window keeps a row that was read.  False: the rest goes on from this row. */
bool hwts_rest_keeps(const struct hwts_turns *turns, const struct hwts_rest *rest, const struct hwts_due *due,
		     size_t share);
/* The rest has been read up to `to`; no place: all of it.  A rest without a place is freed. */
void hwts_rest_read(struct hwts_turns *turns, struct hwts_rest *rest, struct hwts_place to);
void hwts_turns_drop_rests(struct hwts_turns *turns, int32_t shard);
void hwts_turns_free_rests(struct hwts_turns *turns);

/* When the next rest is due; HWTS_NEVER: none. */
static inline int64_t hwts_turns_rest_us(const struct hwts_turns *turns)
{
	return turns->later ? turns->later->due_us : HWTS_NEVER;
}

/* For the other files of this room. */
struct hwts_turn_group *hwts_turns_find(const struct hwts_turns *turns, const char *name, size_t len);
/* Finds or makes a group; NULL: no memory. */
struct hwts_turn_group *hwts_turns_group(struct hwts_turns *turns, const char *name, size_t len);
bool hwts_turns_rate(struct hwts_turn_group *group); /* makes sure that the group has a rate; false: no memory */
bool hwts_turns_is_paused(const struct hwts_turns *turns, const struct hwts_turn_group *group);
bool hwts_turns_is_barred(const struct hwts_turns *turns, const struct hwts_turn_group *group); /* paused or full */
struct hwts_rules hwts_turns_rules(const struct hwts_turns *turns, const struct hwts_turn_group *group);
bool hwts_turns_is_stalled(const struct hwts_turns *turns, const struct hwts_turn_group *group);
/* When the bucket of the group is full under these rules. */
int64_t hwts_turns_full_ns(const struct hwts_turns *turns, const struct hwts_turn_group *group,
			   const struct hwts_rules *rules, int64_t now_ns);
/* When there is a token beyond those that are reserved. */
int64_t hwts_turns_token_ns(const struct hwts_turns *turns, const struct hwts_turn_group *group,
			    const struct hwts_rules *rules, int64_t reserved, int64_t now_ns);
/* Call after a change of a group's turns, rules or tokens: the group goes into the ring, waits, or is blocked; T3. */
void hwts_turns_place(struct hwts_turns *turns, struct hwts_turn_group *group);

/*
 * turn_change.c: rules
 */

/* False: no memory; the rules are as before. */
bool hwts_turns_set_kind(struct hwts_turns *turns, bool paused, struct hwts_rules each);
/*
 * set_own is called for each group with own rules in the shards for which `read` returns true.  settle then drops the
 * own rules that were not set again.
 */
bool hwts_turns_set_own(struct hwts_turns *turns, const char *name, size_t len,
			const struct hwts_own *is); /* false: no memory */
void hwts_turns_settle(struct hwts_turns *turns, bool (*read)(void *ctx, uint32_t shard), void *ctx);

void hwts_turns_stall(struct hwts_turns *turns, uint32_t shard, bool stalls); /* in turns.c */

/* A shard was taken.  empty: the levels of its buckets are lost, so they begin empty. */
void hwts_turns_taken(struct hwts_turns *turns, uint32_t shard, bool empty, int64_t now_ns);

/*
 * The levels of a shard's buckets as bytes: each group whose bucket is not full, and when it will be, on the database's
 * clock.  If the shard was taken with empty buckets, the first record says when, without a group.  NULL: no memory, or
 * more than a megabyte.
 */
char *hwts_turns_levels(const struct hwts_turns *turns, uint32_t shard, int64_t now_ns, int64_t now_us, size_t *len);
void hwts_turns_read_levels(struct hwts_turns *turns, const void *bytes, size_t len, int64_t now_ns, int64_t now_us);
bool hwts_turns_level(struct hwts_turns *turns, const char *name, size_t len, int64_t full_ns,
		      int64_t now_ns); /* in turns.c; false: no memory */

#endif
