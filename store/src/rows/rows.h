/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a store does to its rows, as steps over the statements of sql.h.  Each function is one exchange and one
 * transaction unless its comment says otherwise: it happens as a whole, or not.
 */
#ifndef HWTS_ROWS_H
#define HWTS_ROWS_H

#include "groups/turns.h"
#include "rows/sql.h"
#include "rows/want.h"

/* After an exchange that met a locked row, this many begins or ends look for locks first and pass locked rows by. */
#define HWTS_SKIPS 100

/* rows_list.c */
int hwts_rows_get(struct hwts_conn *conn, int64_t id, hwt_store_info *info); /* info->data: a buffer, or NULL */
int hwts_rows_find(struct hwts_conn *conn, int32_t kind, const char *group, const char *key, int64_t *id);
struct hwts_step hwts_find(int32_t kind, const char *group, const char *key, hwts_each *each, void *ctx);
/* A list of a kind's timeouts, and how far it has been read.  It begins with last.due_us = INT64_MIN. */
struct hwts_list {
	unsigned states;
	const char *group; /* NULL: rows without a group */
	bool any_group;
	bool with_data;            /* each info has its data, which the caller frees */
	bool may_stop;             /* often after a page: the first read is a small one */
	int64_t to_us;             /* rows that are due before this time */
	struct hwts_place *places; /* the caller frees them */
	size_t count, room, at;
	struct hwts_place last;
	bool read; /* read to the end */
};
#define HWTS_PLACES 2048 /* places that are read at a time, of all shards; of many shards more */
int hwts_rows_places(struct hwts_conn *conn, const struct hwts_kind_row *kind, struct hwts_list *list);
int hwts_rows_list(struct hwts_conn *conn, const struct hwts_kind_row *kind, struct hwts_list *list,
		   hwt_store_info *out, size_t n, size_t *count);

/* rows_change.c */
#define HWTS_ALL_STATES (1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING | 1u << HWT_STORE_FAILED)
/* epoch: the row may be begun under this epoch; HWTS_NOT_BEGUN: no row that is begun. */
#define HWTS_NOT_BEGUN (-1)
int hwts_rows_cancel(struct hwts_conn *conn, int64_t id, int64_t epoch, unsigned states,
		     /* All: one of many; the end of a running row removes it, whether or not it is a series. */
		     bool all);
int hwts_rows_explain(int rc, int64_t id); /* sets the thread's text for ENOENT or EBUSY */
/* rcs[i] belongs to ids[i].  EINTR: the row was locked, and has to be cancelled alone. */
int hwts_rows_cancel_all(struct hwts_conn *conn, const int64_t *ids, int *rcs, size_t n, unsigned states);

/* Where rows move to, and which. */
struct hwts_move {
	int64_t when_us; /* a time, or a delay */
	bool absolute;   /* of many: always */
	bool tells_all;  /* tells this process too */
	unsigned states; /* without RUNNING */
	int64_t epoch;   /* in a move of a single row: as in a cancel */
};
int hwts_rows_reschedule(struct hwts_conn *conn, int64_t id, const struct hwts_move *move, struct hwts_due *due);
int hwts_rows_reschedule_all(struct hwts_conn *conn, const int64_t *ids, struct hwts_due *dues, int *rcs, size_t n,
			     const struct hwts_move *move); /* rcs as for hwts_rows_cancel_all */

/* rows_kind.c.  make NULL: ENOENT if there is no such kind. */
int hwts_rows_kind(struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
		   struct hwts_kind_row *out);

/*
 * The same for a kind that this process has registered, and that may have been removed since.  make: the kind as it
 * was.
 */
int hwts_rows_kind_keep(struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
			struct hwts_kind_row *out);
/* The caller frees the infos. */
int hwts_rows_kinds(struct hwts_conn *conn, hwt_store_kind_info **infos, size_t *count, int64_t *now_us);
int hwts_rows_kind_remove(struct hwts_conn *conn, const char *name);

int hwts_rows_not_here(const struct hwts_conn *conn); /* the connection leads elsewhere: sets the thread's text */
/*
 * Writes " and " and the condition that the connection leads to the store's own database.  Writes nothing while the
 * place of that is not known.
 */
#define HWTS_PLACE_SIZE 320
void hwts_rows_write_place(const struct hwts_db *db, char text[HWTS_PLACE_SIZE]);
/* EINVAL: the connection leads to another store.  SQLite: takes the lock for writing. */
int hwts_rows_here(struct hwts_conn *conn);
/* Which store a connection leads to. */
struct hwts_store_row {
	char text[33]; /* "": the table cannot be seen */
	int32_t kind;  /* of the name that was asked for; 0: no such kind */
	bool hides;    /* PostgreSQL: row level security is active for this role */
};

/* name: of a kind, or NULL. */
int hwts_rows_store(struct hwts_conn *conn, const char *name, struct hwts_store_row *row);

/* rows_share.c */
/* A process that has the name of this one. */
struct hwts_namesake {
	int64_t incarnation;
	int64_t until_us, left_us; /* when its lease ends, and how long until then */
};

/*
 * EEXIST: another process has the name; *has is that process.  dead: the incarnation of a dead process whose name is
 * taken over, or 0.
 */
int hwts_rows_join(struct hwts_conn *conn, const char *name, const int64_t *kinds, size_t n, int64_t dead,
		   struct hwts_namesake *has);
int hwts_rows_leave(struct hwts_conn *conn);
int hwts_rows_bury(struct hwts_conn *conn); /* removes members that died long ago */
/* PostgreSQL: the renewal is committed before the clock and the shards are read. */
int hwts_rows_renew(struct hwts_conn *conn, struct hwts_renewal *renewal);
/*
 * Takes free shards under the epochs that were read.  Sets the new epoch; skipped if the row is locked; 0 if another
 * process was faster.
 */
int hwts_rows_take(struct hwts_conn *conn, struct hwts_shard_row *shards, size_t n);
int hwts_rows_give(struct hwts_conn *conn, const struct hwts_shard_row *shards, size_t n);

/* rows_rules.c: the rules of some shards of a kind. */
struct hwts_ruled {
	int32_t id;
	int64_t epoch;
	unsigned told;
	bool counts;   /* its runs have to be read if some rule caps them */
	bool is_there; /* set by the reading, with what follows */
	int64_t rules; /* the number of its rules */
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
	struct hwts_ruled_group *groups; /* groups with rules of their own */
	size_t group_count, group_room;
	struct hwts_due *runs; /* rows that run under an older epoch */
	size_t run_count, run_room;
	struct hwts_place at; /* the place of the last run that was read */
};
int hwts_rows_rules(struct hwts_conn *conn, struct hwts_ruling *ruling);
int hwts_rows_runs(struct hwts_conn *conn, struct hwts_ruling *ruling); /* reads the runs of shards that count */
bool hwts_ruling_has(void *ruling, uint32_t shard);                     /* the shard is among ruling->shards */
void hwts_ruling_free(struct hwts_ruling *ruling);
/* All groups of a kind with rules of their own, by name; the caller frees the infos. */
int hwts_rows_groups(struct hwts_conn *conn, int32_t kind, hwt_store_group_info **infos, size_t *count);

/* Changes the rules of a group, or (NULL) of its kind, and raises the number of rules in its shards. */
struct hwts_rules_change {
	int32_t kind, bucket;
	const char *group;
	const int64_t *shards;
	size_t n;
	bool limits; /* true: changes the limits; false: the pause */
	bool paused;
	int32_t running, burst; /* running -1: the group has no limits of its own */
	int64_t every_us;
};
int hwts_rows_rules_change(struct hwts_conn *conn, const struct hwts_rules_change *change);

/* rows_look.c */
/* Appends the row of a look; NULL: no memory. */
const struct hwts_due *hwts_due_add(const struct hwts_value *row, struct hwts_due **dues, size_t *count, size_t *room);

/* A value that is no state (somebody has edited the row) becomes none of the states. */
static inline hwt_store_state hwts_state_of(const struct hwts_value *value)
{
	return (hwt_store_state)hwts_within(value->number, HWT_STORE_FAILED + 1);
}
int hwts_rows_look(struct hwts_conn *conn, struct hwts_look *look);
void hwts_look_free(struct hwts_look *look);

/*
 * rows_past.c: reads a shard up to a full page, past rows that cannot be read.  EIO and conn->refused: up to the damage
 * of its index.
 */
struct hwts_past {
	struct hwts_step step;
	int from_at, page_at;  /* parameters of step: the place behind which it reads, and the number of rows */
	struct hwts_step next; /* LOOK_NEXT or LOOK_NEXT_IN: the place of the next row, readable or not */
	int64_t *due_us, *id;  /* how far the reading has come; each row moves it */
	const size_t *told;    /* how many rows were read */
	size_t page, passed;   /* passed: set to the number of rows that could not be read */
	int32_t shard;
	enum hwts_part part;
	bool tells; /* a row that cannot be read is reported with its place alone */
};
int hwts_rows_past(struct hwts_conn *conn, struct hwts_past *past);

/* Pending rows of a group that the window has not kept, in their order. */
struct hwts_refill {
	int32_t shard;
	int64_t epoch;
	uint16_t bucket;
	int8_t priority;
	uint8_t group_len; /* 0: rows without a group */
	char group[HWTS_KEY_MAX];
	struct hwts_place from, to; /* rows behind from, up to and with to; each row moves from */
	size_t page;
	uint64_t heard;        /* as a look has it */
	struct hwts_due *dues; /* the caller frees them */
	size_t count, room;
};
#define HWTS_REFILLS 16 /* in one exchange */
int hwts_rows_refill(struct hwts_conn *conn, struct hwts_refill *refills, size_t n);

/* rows_keep.c: a put that keeps the due time has found its key in use.  In the transaction that is open. */
int hwts_rows_keep(struct hwts_conn *conn, struct hwts_put *put);
hwts_each hwts_accepted; /* ctx, a struct hwts_put: the statement has put or changed its row, and returns it */

/* rows_run.c, rows_inherit.c and rows_end.c */
/* PostgreSQL: the data of the begun rows is read after the commit. */
int hwts_rows_begin(struct hwts_conn *conn, struct hwts_want *wants, size_t n, bool synced, bool again);
/* Sets `locked` of each row that runs under the epoch of its want and is not marked, and of one refused alone. */
int hwts_rows_begun(struct hwts_conn *conn, struct hwts_want *wants, size_t n);
/* Rows of dead processes that were not begun. */
int hwts_rows_inherit(struct hwts_conn *conn, struct hwts_want *wants, size_t n);
int hwts_rows_end(struct hwts_conn *conn, struct hwts_row *rows);
int hwts_rows_close_run(struct hwts_conn *conn, struct hwts_row *row); /* ESTALE: the row was no longer this run's */

/* rows_send.c */
int hwts_rows_clock(struct hwts_conn *conn, unsigned flags, int64_t *now_us);
int hwts_rows_draw(struct hwts_conn *conn, int64_t count, bool hasty, int64_t *first); /* numbers for ids */
/* Sends rows, which the database accepts or refuses; tells: notifies the holders in the same exchange. */
int hwts_rows_send(struct hwts_conn *conn, struct hwts_put *puts, size_t n, unsigned flags, bool tells);
/*
 * Tells the holders of rows that were sent before; too: this process as well.  A notification that PostgreSQL loses is
 * no loss: a look finds the row.
 */
int hwts_rows_tell(struct hwts_conn *conn, const struct hwts_put *puts, size_t n, unsigned flags, bool too);

#define HWTS_PUT_BYTES ((size_t)32 << 20) /* of data in one exchange; the last put may exceed it */

/* rows_put.c */
/* all: if one put has an rc, no row is put.  Otherwise each put counts alone. */
int hwts_rows_put(struct hwts_conn *conn, struct hwts_put *puts, size_t n, bool all);
/* On a borrowed connection.  EINVAL: it leads to another store, or to a copy of this one. */
int hwts_rows_put_on(struct hwts_conn *conn, struct hwts_put *put);

#endif
