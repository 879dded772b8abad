/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a store does to its rows, in the words of sql.h.  Each function is one exchange with the database and one
 * transaction unless it says otherwise: it has happened, or has not.
 */
#ifndef HWTS_ROWS_H
#define HWTS_ROWS_H

#include "groups/turns.h"
#include "rows/sql.h"

/* Begins or ends without a locked row that follow one with it, before the next waits for locks again. */
#define HWTS_SKIPS 100

/* In rows_list.c. */
int hwts_rows_get(struct hwts_conn *conn, int64_t id, hwt_store_info *info); /* info->data: a buffer, or NULL */
int hwts_rows_find(struct hwts_conn *conn, int32_t kind, const char *group, const char *key, int64_t *id);
struct hwts_step hwts_find(int32_t kind, const char *group, const char *key, hwts_each *each, void *ctx);
/* A list of a kind's timeouts, as far as it has been read.  It begins with last.due_us = INT64_MIN. */
struct hwts_list {
	unsigned states;
	const char *group; /* NULL: of none */
	bool any_group;
	bool with_data;            /* each info has its data, which the caller frees */
	int64_t to_us;             /* what is due before it */
	struct hwts_place *places; /* the caller frees them */
	size_t count, room, at;
	struct hwts_place last;
	bool read; /* to its end */
};
#define HWTS_PLACES 2048 /* read at a time, of all shards */
int hwts_rows_places(struct hwts_conn *conn, const struct hwts_kind_row *kind, struct hwts_list *list);
int hwts_rows_list(struct hwts_conn *conn, const struct hwts_kind_row *kind, struct hwts_list *list,
		   hwt_store_info *out, size_t n, size_t *count);

/* In rows_change.c. */
#define HWTS_ALL_STATES (1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING | 1u << HWT_STORE_FAILED)
/* epoch: also one that is begun under it; HWTS_NOT_BEGUN: none that is. */
#define HWTS_NOT_BEGUN (-1)
int hwts_rows_cancel(struct hwts_conn *conn, int64_t id, int64_t epoch, unsigned states,
		     bool all);            /* it is one of many: what runs is marked as its last run, a series or not */
int hwts_rows_explain(int rc, int64_t id); /* ENOENT, EBUSY: sets the thread's text */
/* Many: rcs[i] is that of ids[i]; EINTR: it could not be had at once, and is to be cancelled alone. */
int hwts_rows_cancel_all(struct hwts_conn *conn, const int64_t *ids, int *rcs, size_t n, unsigned states);

/* Where rows are moved to. */
struct hwts_move {
	int64_t when_us; /* a time, or a delay */
	bool absolute;   /* of many: always */
	bool tells_all;  /* this process, too */
	unsigned states; /* without RUNNING */
	int64_t epoch;   /* of one: as for a cancel */
};
int hwts_rows_reschedule(struct hwts_conn *conn, int64_t id, const struct hwts_move *move, struct hwts_due *due);
int hwts_rows_reschedule_all(struct hwts_conn *conn, const int64_t *ids, struct hwts_due *dues, int *rcs, size_t n,
			     const struct hwts_move *move); /* rcs as for cancels */

/* In rows_kind.c.  make NULL: ENOENT if it is not there. */
int hwts_rows_kind(struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
		   struct hwts_kind_row *out);

/* The same of a kind that this process has registered: it may have been removed since.  make is what it was. */
int hwts_rows_kind_keep(struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
			struct hwts_kind_row *out);
/* The caller frees the infos. */
int hwts_rows_kinds(struct hwts_conn *conn, hwt_store_kind_info **infos, size_t *count, int64_t *now_us);
int hwts_rows_kind_remove(struct hwts_conn *conn, const char *name);

int hwts_rows_not_here(const struct hwts_conn *conn); /* sets the thread's text */
/* Writes " and " the condition that the connection leads to the store's own database; nothing while that is unknown. */
#define HWTS_PLACE_SIZE 320
void hwts_rows_write_place(const struct hwts_db *db, char text[HWTS_PLACE_SIZE]);
int hwts_rows_here(struct hwts_conn *conn); /* EINVAL: to another store.  SQLite: takes the lock, to write */
/* Which store a connection leads to. */
struct hwts_store_row {
	char text[33]; /* "": that is not seen */
	int32_t kind;  /* of the name that was asked for; 0: there is none */
	bool hides;    /* PostgreSQL: row level security is active for this role */
};

/* name, of a kind, may be NULL. */
int hwts_rows_store(struct hwts_conn *conn, const char *name, struct hwts_store_row *row);

/* In rows_share.c. */
/* Another process that has this one's name. */
struct hwts_namesake {
	int64_t incarnation;
	int64_t until_us, left_us; /* of its lease */
};

/* EEXIST and *has: the name is another's.  dead: the incarnation of one whose name this is to have, or 0. */
int hwts_rows_join(struct hwts_conn *conn, const int64_t *kinds, size_t n, int64_t dead, struct hwts_namesake *has);
int hwts_rows_leave(struct hwts_conn *conn);
int hwts_rows_bury(struct hwts_conn *conn); /* removes members that died long ago */
/* PostgreSQL: the renewal is committed before the clock and the shards are read. */
int hwts_rows_renew(struct hwts_conn *conn, struct hwts_renewal *renewal);
/* Takes free shards under the epochs that were read.  Sets the new epoch, or skipped, or 0 where another was faster. */
int hwts_rows_take(struct hwts_conn *conn, struct hwts_shard_row *shards, size_t n);
int hwts_rows_give(struct hwts_conn *conn, const struct hwts_shard_row *shards, size_t n);

/* In rows_rules.c: the rules of some shards of a kind. */
struct hwts_ruled {
	int32_t id;
	int64_t epoch;
	unsigned told;
	bool counts;   /* what runs there is to be read, if anything is capped */
	bool is_there; /* from here on set: */
	int64_t rules; /* their number */
	char *levels;
	size_t levels_len;
};
struct hwts_ruled_group {
	struct hwts_own is;
	uint8_t len;
	char name[HWTS_KEY_MAX];
};
struct hwts_ruling {
	int32_t kind;
	uint32_t kind_shards;
	struct hwts_ruled *shards;
	size_t n;
	bool paused;
	struct hwts_rules each;
	struct hwts_ruled_group *groups; /* those with rules of their own */
	size_t group_count, group_room;
	struct hwts_due *runs; /* that runs under an older epoch */
	size_t run_count, run_room;
	struct hwts_place at; /* of the last of them */
};
int hwts_rows_rules(struct hwts_conn *conn, struct hwts_ruling *ruling);
int hwts_rows_runs(struct hwts_conn *conn, struct hwts_ruling *ruling); /* of those that count */
bool hwts_ruling_has(void *ruling, uint32_t shard);                     /* the shard of this number is one of them */
void hwts_ruling_free(struct hwts_ruling *ruling);
/* All groups of a kind with rules of their own, by name; the caller frees the infos. */
int hwts_rows_groups(struct hwts_conn *conn, int32_t kind, hwt_store_group_info **infos, size_t *count);

/* Changes the rules of a group, or (NULL) of its kind, and raises the number of rules in its shards. */
struct hwts_rules_change {
	int32_t kind, bucket;
	const char *group;
	const int64_t *shards;
	size_t n;
	bool limits; /* or a pause */
	bool paused;
	int32_t running, burst; /* running -1: the group has no limits of its own */
	int64_t every_us;
};
int hwts_rows_rules_change(struct hwts_conn *conn, const struct hwts_rules_change *change);

/* In rows_look.c. */
/* Appends what a row of a look says; NULL: no memory. */
const struct hwts_due *hwts_due_add(const struct hwts_value *row, struct hwts_due **dues, size_t *count, size_t *room);

/* None of the states if somebody has edited it. */
static inline hwt_store_state hwts_state_of(const struct hwts_value *value)
{
	return (hwt_store_state)hwts_within(value->number, HWT_STORE_FAILED + 1);
}
int hwts_rows_look(struct hwts_conn *conn, struct hwts_look *look);
void hwts_look_free(struct hwts_look *look);

/*
 * In rows_past.c: reads a shard as far as a full page, past what cannot be read; EIO and conn->refused: as far as its
 * index can be read.
 */
struct hwts_past {
	struct hwts_step step;
	int from_at, page_at;  /* its parameters: a place, behind which it reads, and how many rows */
	struct hwts_step next; /* LOOK_NEXT or LOOK_NEXT_IN: the place of any row that follows */
	int64_t *due_us, *id;  /* how far it has come; its rows move it */
	const size_t *told;    /* how many they are */
	size_t page, passed;   /* passed: set to how many could not be read */
	int32_t shard;
	enum hwts_part part;
	bool tells; /* it is told of what cannot be read as of a row that has its place alone */
};
int hwts_rows_past(struct hwts_conn *conn, struct hwts_past *past);

/* Pending rows of a group that the window has not kept, in their order. */
struct hwts_refill {
	int32_t shard;
	int64_t epoch;
	uint16_t bucket;
	int8_t priority;
	uint8_t group_len; /* 0: of those that have none */
	char group[HWTS_KEY_MAX];
	struct hwts_place from, to; /* behind from, which its rows move, to included */
	size_t page;
	uint64_t heard;        /* as a look has it */
	struct hwts_due *dues; /* the caller frees them */
	size_t count, room;
};
#define HWTS_REFILLS 16 /* in one exchange */
int hwts_rows_refill(struct hwts_conn *conn, struct hwts_refill *refills, size_t n);

/* In rows_keep.c: if it keeps its due time and has found its key in use, in the transaction that is open. */
int hwts_rows_keep(struct hwts_conn *conn, struct hwts_put *put);
hwts_each hwts_accepted; /* ctx, a struct hwts_put: its row has been put or changed, and comes back */

/* In rows_run.c, rows_inherit.c and rows_end.c. */
/* PostgreSQL: what the rows say is read behind the commit. */
int hwts_rows_begin(struct hwts_conn *conn, struct hwts_want *wants, size_t n, bool synced, bool again);
/* What processes held when they died, and was not begun. */
int hwts_rows_inherit(struct hwts_conn *conn, struct hwts_want *wants, size_t n);
int hwts_rows_end(struct hwts_conn *conn, struct hwts_row *rows);
int hwts_rows_close_run(struct hwts_conn *conn, struct hwts_row *row); /* ESTALE: it was no longer this run's */

/* In rows_send.c. */
int hwts_rows_clock(struct hwts_conn *conn, unsigned flags, int64_t *now_us);
int hwts_rows_draw(struct hwts_conn *conn, int64_t count, bool hasty, int64_t *first); /* numbers of ids */
/* Sends rows, which are accepted or refused, and tells of them in the same exchange if that is asked for. */
int hwts_rows_send(struct hwts_conn *conn, struct hwts_put *puts, size_t n, unsigned flags, bool tells);
/* Tells of rows that were sent before; too: also this process.  Lost on PostgreSQL: the look-ahead finds them. */
int hwts_rows_tell(struct hwts_conn *conn, const struct hwts_put *puts, size_t n, unsigned flags, bool too);

#define HWTS_PUT_BYTES ((size_t)32 << 20) /* of data in one exchange, and at most one more put */

/* In rows_put.c. */
/* all: none if one has an rc.  Otherwise each for itself. */
int hwts_rows_put(struct hwts_conn *conn, struct hwts_put *puts, size_t n, bool all);
/* On a connection that was borrowed.  EINVAL: it leads to another store, or to a copy. */
int hwts_rows_put_on(struct hwts_conn *conn, struct hwts_put *put);

#endif
