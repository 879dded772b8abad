/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Turns: in which order what is due of a kind is begun, and what has to wait.
 *
 * Structure
 *
 *     turns --ring---> group -> group -> group   those that may have something to begin
 *           --waiting> group                     a heap, by the time at which each has a token, or its bucket is full
 *           --later--> rest                      a heap, by due time, of the rests that are not due
 *
 *     group --queue--> turn                      a heap, by priority, then by due time
 *                      /  \
 *                   turn  rest --rows--> . . .   stands for all that is in the database alone from its place on
 *
 *   A turn belongs to a timeout in the window, from its entry to its end.  Groups are found by their name; each exists
 *   as long as it has a turn or a rest, its bucket is not full, or it has rules of its own.  What has no group has one
 *   in common, which no rule limits.  The ring goes round: the first group begins one timeout and goes to the end.  A
 *   group that is paused, full or out of tokens leaves the ring when it comes to its front, and comes back by what
 *   happens to it: an end, a token's time, other rules.
 *
 *   A bucket of tokens is one number, when it will be full: a start moves that by start_every, and one is possible
 *   while it is at most (burst - 1) * start_every away.  A turn that is taken reserves a token, and uses it when its
 *   task starts: so a timeout that is given back has used none, and the time between the two makes no two starts too
 *   close to each other.
 *
 *   The window keeps a share of rows of one group; twice as many, if those beyond the share are put or told of and due
 *   within a second.  For what is not kept a rest notes from which place on rows of a shard, a group and a priority are
 *   in the database alone.  A rest that is due has a place in the queue of its group, as if it were the first of its
 *   rows; when it comes to the front, the group begins nothing until that has been read.  So the order of a group
 *   holds, whatever is kept, and nobody has to look through rests.  They are also read when the group has few left.
 *
 * Cost
 *
 *   Nothing here grows with the rows of a group.  A group has at most one rest for each priority, and as its share is a
 *   twentieth of the window, few groups have any.
 *
 * Threads
 *
 *   One at a time: in a store, with its lock.  The clock is an argument.
 *
 * Invariants
 *
 *   T1  running = the group's turns that are counted: from the moment at which one is taken, or is known to run on a
 *       process that died, to its end, or until it is known not to run.  Whatever becomes of its shard
 *   T2  reserved = the group's turns that were taken for a token, and have neither started nor been put off
 *   T3  a group that has something queued is in the ring, waits, or is blocked: paused, full, or a rest is its first
 *   T4  a turn that was counted when it was queued is first in its group, which may begin it, full, paused or out of
 *       tokens: it runs already, as far as anybody knows, and is counted.  If its group may not start it, the begin is
 *       to find it running, or else it is pending after that, can be cancelled, and waits for its turn
 *   T5  a pending row that the window has passed over, and that has no turn, lies in a rest: not before its from, nor
 *       before its asked while it is being read.  The earlier of the two is its place in the queue, or in later
 *   T6  a group has its rate if its own rules or those of the kind have one
 */
#ifndef HWTS_TURNS_H
#define HWTS_TURNS_H

#include "base/waits.h"

struct hwts_due; /* due.h */

/* Where a row lies: due_us HWTS_NEVER is nowhere. */
struct hwts_place {
	int64_t due_us, id;
};

struct hwts_turn {
	struct hwts_turn *next, *prev, *child; /* in a heap: siblings, the first of which has its parent as prev */
	struct hwts_turn_group *group;
	int64_t due_us;
	int8_t priority;
	bool counted;   /* T1 */
	bool reserved;  /* T2 */
	bool is_rest;   /* of a struct hwts_rest */
	bool elsewhere; /* counted: it runs on a process that died, as far as is known */
};

/* Turns, the first of which is the next one; NULL: there are none.  turn_queue.c. */
void hwts_turn_push(struct hwts_turn **queue, struct hwts_turn *turn);
void hwts_turn_remove(struct hwts_turn **queue, struct hwts_turn *turn);

/* What holds of a group; 0: no limit. */
struct hwts_rules {
	uint32_t running, burst;
	int64_t every_ns; /* between two starts */
};

/* Rules of a group's own. */
struct hwts_own {
	struct hwts_rules rules;
	bool limited; /* they count, and not those of the kind */
	bool paused;
	bool seen; /* since the last hwts_turns_settle */
};

/* Of a group whose starts are limited. */
struct hwts_rate {
	struct hwts_turn turn; /* in waiting; its due_us is the time in ns */
	int64_t full_ns;       /* when its bucket is full */
};

/* 70 bytes with a name of up to 11. */
struct hwts_turn_group {
	struct hwts_turn_group *chain; /* of those with its hash */
	struct hwts_turn_group *next;  /* in the ring */
	struct hwts_turn *queue;
	struct hwts_own *own;          /* NULL: the rules of the kind hold */
	struct hwts_rate *rate;        /* T6 */
	uint32_t turns, running;       /* its turns; T1 */
	uint32_t round;                /* of its last timeout that was queued for a thread */
	uint16_t reserved;             /* T2 */
	uint16_t elsewhere;            /* its turns of which that is said */
	uint16_t bucket : 10;          /* by its name, whatever ids are told with it */
	uint16_t where : 2, rests : 1; /* rests: it has one */
	uint8_t len;
	char start[5]; /* of the name, which goes on behind the structure */
};

static inline char *hwts_turn_name(const struct hwts_turn_group *group)
{
	return (char *)(uintptr_t)group + offsetof(struct hwts_turn_group, start);
}

/* T5: of a priority. */
struct hwts_rest {
	struct hwts_turn turn;
	struct hwts_turn **queue; /* of its group, or later; NULL: in none */
	struct hwts_rests *rests;
	struct hwts_place from, asked; /* asked: it is being read from there on; or nowhere */
	int8_t priority;
};

/* Of a group in a shard. */
struct hwts_rests {
	struct hwts_rests *next;
	struct hwts_turn_group *group;
	int32_t shard;
	unsigned count, asked; /* those that are, and those that are being read */
	struct hwts_rest *of[2 * HWTS_PRIORITY_MAX + 1];
};

struct hwts_turns {
	struct hwts_turn_group none; /* of what has no group */
	struct hwts_turn_group **chains;
	size_t room, count;
	struct hwts_turn_group *first, *end; /* the ring */
	struct hwts_turn *waiting;           /* the rates of groups; each group is here or in the ring, or in neither */
	size_t queued;
	uint32_t round; /* of what has last been given to a thread */
	struct hwts_rests *rests;
	struct hwts_turn *later; /* rests */
	unsigned firsts;         /* how often a row has made its rest the first of later, or of its group */
	int64_t now_us;          /* the database's clock, for them */

	/* Rules. */
	bool paused;            /* all of the kind */
	bool stalled;           /* the rules have changed, and are being read: nothing is begun */
	struct hwts_rules each; /* of each group without its own */
	int64_t *empty_ns;      /* of each shard: when its buckets were empty; 0: they were not */
	uint32_t shards;
};

void hwts_turns_clear(struct hwts_turns *turns); /* all of it, rules too; not empty_ns */

/* A timeout comes into the window: false, no memory.  len 0: it has no group. */
bool hwts_turns_join(struct hwts_turns *turns, struct hwts_turn *turn, const char *name, size_t len);
void hwts_turns_leave(struct hwts_turns *turns, struct hwts_turn *turn, int64_t now_ns); /* it is not queued */

void hwts_turns_add(struct hwts_turns *turns, struct hwts_turn *turn); /* it is due */
struct hwts_turn *hwts_turns_peek(struct hwts_turns *turns, int64_t now_ns);
/* The same, and it is about to be begun.  stays: its group has one more turn. */
struct hwts_turn *hwts_turns_pop(struct hwts_turns *turns, int64_t now_ns, bool stays);
void hwts_turns_remove(struct hwts_turns *turns, struct hwts_turn *turn); /* it is queued, and not to be begun */
/* One that runs, as far as is known, and was not taken.  It is not queued; */
void hwts_turns_count(struct hwts_turn *turn);
void hwts_turns_count_queued(struct hwts_turns *turns, struct hwts_turn *turn); /* or it is */
void hwts_turns_elsewhere(struct hwts_turn *turn, bool is);
/* More of its group are counted than may run: if that is paused, any. */
bool hwts_turns_exceed(const struct hwts_turns *turns, const struct hwts_turn *turn);
/* That, or it was taken without a token, T4. */
bool hwts_turns_is_beyond(const struct hwts_turns *turns, const struct hwts_turn *turn);
/* Its task is about to start.  False: by the rules that came meanwhile it must not. */
bool hwts_turns_start(struct hwts_turns *turns, struct hwts_turn *turn, int64_t now_ns);
/* It is tried again later: it may run, but nobody knows when it starts. */
void hwts_turns_put_off(struct hwts_turns *turns, struct hwts_turn *turn);
/* It has ended, or was not begun. */
void hwts_turns_done(struct hwts_turns *turns, struct hwts_turn *turn);

/* Why it is not taken, if it is queued: STARTS, if its group may begin it and comes next. */
hwt_store_wait hwts_turns_why(const struct hwts_turns *turns, const struct hwts_turn *turn, int64_t now_ns);
/* The rests that are due, each as one; in turn_rest.c. */
void hwts_turns_rest_waits(const struct hwts_turns *turns, int64_t now_us, int64_t now_ns, struct hwts_waits *waits);

/* Something may be taken at once; when a group may come back by itself, INT64_MAX: not. */
static inline bool hwts_turns_ready(const struct hwts_turns *turns)
{
	return turns->first && !turns->stalled;
}
static inline int64_t hwts_turns_wake_ns(const struct hwts_turns *turns)
{
	return turns->waiting && !turns->stalled ? turns->waiting->due_us : INT64_MAX;
}

/* The place of a timeout among those that wait for a thread: groups take turns there, too. */
uint32_t hwts_turns_round(const struct hwts_turns *turns, struct hwts_turn_group *group);

/*
 * Rests; turn_rest.c.  share: how many turns of a group are kept.
 */

void hwts_turns_at(struct hwts_turns *turns, int64_t now_us); /* the database's clock, for them */
/* Whether the window is to have a pending row; false: a rest has it. */
bool hwts_turns_keeps(struct hwts_turns *turns, const struct hwts_due *due, size_t share);
bool hwts_turns_rests(struct hwts_turns *turns, const struct hwts_due *due); /* a rest has it */
/* Whether a rest of this group may be read, now or once a turn has left or is done, which the caller does next. */
bool hwts_turns_want(const struct hwts_turns *turns, const struct hwts_turn_group *group, size_t share);
struct hwts_rest *hwts_turns_wanted(const struct hwts_turns *turns, size_t share); /* the next that is to be read */
size_t hwts_rest_page(const struct hwts_turns *turns, const struct hwts_rest *rest, size_t share); /* rows to read */
void hwts_rest_ask(struct hwts_rest *rest); /* it is being read, from its asked on */
/* Whether a row that was read is kept.  If not, that is the place up to which the rest has been read. */
bool hwts_rest_keeps(const struct hwts_turns *turns, const struct hwts_rest *rest, const struct hwts_due *due,
		     size_t share);
/* It has been read, up to this place; nowhere: all of it.  Without a place left it goes. */
void hwts_rest_read(struct hwts_turns *turns, struct hwts_rest *rest, struct hwts_place to);
void hwts_turns_drop_rests(struct hwts_turns *turns, int32_t shard);
void hwts_turns_free_rests(struct hwts_turns *turns);

/* When the next of them is due; HWTS_NEVER. */
static inline int64_t hwts_turns_rest_us(const struct hwts_turns *turns)
{
	return turns->later ? turns->later->due_us : HWTS_NEVER;
}

/* Of use to its other files. */
struct hwts_turn_group *hwts_turns_find(const struct hwts_turns *turns, const char *name, size_t len);
/* Or made; NULL: no memory. */
struct hwts_turn_group *hwts_turns_group(struct hwts_turns *turns, const char *name, size_t len);
bool hwts_turns_rate(struct hwts_turn_group *group); /* it has one; false: no memory */
bool hwts_turns_is_paused(const struct hwts_turns *turns, const struct hwts_turn_group *group);
bool hwts_turns_is_barred(const struct hwts_turns *turns, const struct hwts_turn_group *group); /* paused, or full */
struct hwts_rules hwts_turns_rules(const struct hwts_turns *turns, const struct hwts_turn_group *group);
/* After a change of a group's turns, rules or tokens: the group goes into the ring, waits, or is blocked; T3. */
void hwts_turns_place(struct hwts_turns *turns, struct hwts_turn_group *group);

/*
 * Rules; turn_change.c
 */

/* False: no memory, and nothing has changed. */
bool hwts_turns_set_kind(struct hwts_turns *turns, bool paused, struct hwts_rules each);
/* Of the shards for which read says true all own rules follow by set_own; settle drops the others. */
bool hwts_turns_set_own(struct hwts_turns *turns, const char *name, size_t len,
			const struct hwts_own *is); /* false: no memory */
void hwts_turns_settle(struct hwts_turns *turns, bool (*read)(void *ctx, uint32_t shard), void *ctx);

/* A shard was taken.  empty: nobody knows its levels, and its buckets begin empty. */
void hwts_turns_taken(struct hwts_turns *turns, uint32_t shard, bool empty, int64_t now_ns);

/*
 * Levels of a shard, as bytes: for each bucket that is not full the group and when it will be, on the database's clock.
 * If the shard was taken with empty buckets, first when that was, with no group.  NULL: no memory, or too many.
 */
char *hwts_turns_levels(const struct hwts_turns *turns, uint32_t shard, int64_t now_ns, int64_t now_us, size_t *len);
void hwts_turns_read_levels(struct hwts_turns *turns, const void *bytes, size_t len, int64_t now_ns, int64_t now_us);
bool hwts_turns_level(struct hwts_turns *turns, const char *name, size_t len, int64_t full_ns,
		      int64_t now_ns); /* in turns.c; false: no memory */

#endif
