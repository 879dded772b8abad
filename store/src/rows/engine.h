/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An engine: the table of functions behind which a database stands, and the rows that pass through it.
 *
 * Structure
 *
 *   A database (hwts_db) gives connections; a connection belongs to one thread at a time.  Both begin an engine's own
 *   structure.  An exchange is a few statements of sql.h in one transaction: it has happened, or has not.
 *
 * Tables: store/sql/tables_postgresql.sql, explained in store/doc/schema.md
 *
 *   An id, and a kind with a group or a key, each say where the row is, by the bucket.  A failed row has a shard below
 *   0: so it leaves every window, and its due time stays readable.
 *
 * A row
 *
 *   (none) -put-> PENDING -begin(e)-> RUNNING(e) -end(e)-> (none) | PENDING (period, retry, not started) | FAILED
 *   PENDING, FAILED -cancel-> (none);  PENDING, FAILED -reschedule-> PENDING
 *   RUNNING(e) -cancel, a series-> RUNNING(e), last: its end removes it, or the next holder of the shard
 *   RUNNING(e) -put, replaces-> RUNNING(e), next: any end files what is next as PENDING, or the next holder
 *   RUNNING(e) -begin(e') with e' > e-> RUNNING(e'): the take-over of a row.  At most once: the take makes it FAILED.
 *
 * Failures
 *
 *   0 or an errno value with the thread's text set.  ENOTCONN: the connection is of no use, nothing happened.
 *   ECONNRESET: it is of no use, and what happened is not known.  EAGAIN: locked for too long.
 */
#ifndef HWTS_ENGINE_H
#define HWTS_ENGINE_H

#include "base/due.h"

#include <stdatomic.h>

#define HWTS_VERSION 2 /* of the tables */
#define HWTS_MODE_OPEN (-1)
/* An id has 53 bits, which a double holds, too.  The upper half of the numbers is for SQL functions. */
#define HWTS_NUMBERS_END (INT64_C(1) << 42)

/* A row that a dead process held is begun at once up to this number of attempts; with more it waits its back-off. */
#define HWTS_AT_ONCE 1

/* What a connection is for. */
enum hwts_role {
	HWTS_CALL,    /* puts, cancels, ...: synced */
	HWTS_CONTROL, /* hears news; not synced */
	HWTS_BEGIN,
	HWTS_END,
	HWTS_READ, /* looks ahead */
	HWTS_TASK  /* the user's statements run on it */
};

#define HWTS_ROLES (HWTS_TASK + 1)

struct hwts_engine;
struct hwts_step; /* sql.h */

struct hwts_db {
	const struct hwts_engine *engine;
	const char *url;
	char prefix[25];
	char schema[132]; /* PostgreSQL: where the tables are, as a statement has it, with a dot */
	/*
	 * The name of this process, hwts_me().  Control changes it when another process uses it; earlier names
	 * stay readable for a while.
	 *
	 *   [name] the text is written before its number, and read after it
	 */
	char names[8][HWTS_MEMBER_MAX + 1];
	_Atomic unsigned name;
	int64_t incarnation;
	int64_t lease_us;
	char store[33];               /* which store this is: what @_meta says */
	char channel[48];             /* PostgreSQL: of news, without the shard; postgres_news.c */
	char notice[1500];            /* what open warns of, if anything */
	const char *file;             /* SQLite: where it is, as each store on it has it; NULL: a server */
	bool pooled;                  /* PostgreSQL: a pooler in transaction mode, so nothing stays with a session */
	_Atomic uint64_t round_trips; /* relaxed: a statistic */
	_Atomic bool read_halt;       /* relaxed: the store is being stopped, and a look ends soon */
	_Atomic int64_t place;        /* PostgreSQL: HWTS_PLACE, as newest connections have it; 0: not known; relaxed */
};

struct hwts_conn {
	struct hwts_db *db;
	enum hwts_role role;
	struct hwts_conn *next; /* in conns.c */
	const char *here;       /* a caller's: the condition that it leads to this store; sql.h */
	bool broken;
	bool refused;   /* the last failure lay in what was sent or stored, so it will fail again */
	bool brief;     /* PostgreSQL: EAGAIN soon, if others have locked a row: more callers wait for this exchange */
	unsigned skips; /* how many more begins or ends look for rows that others have locked, and pass them by */
	int64_t committed_ns; /* PostgreSQL: hwt_now() as the last step that .commits was answered */
};

struct hwts_kind_row {
	int32_t id;
	uint32_t shards;
	int mode; /* or HWTS_MODE_OPEN */
	int64_t horizon_us;
	bool removed; /* the next that asks to make it has it again */
};

/* One timeout to put. */
struct hwts_put {
	int64_t drawn; /* an id for it, from numbers.c */
	int64_t id;    /* of the row: the one drawn, or that of the timeout that it has replaced */
	const char *kind_name;
	struct hwts_kind_row kind;
	const char *group, *key; /* or NULL */
	const void *data;
	size_t len;
	int64_t when_us; /* a time, or a delay */
	int64_t period_us;
	const char *schedule, *zone; /* or NULL */
	int64_t grace_us, spread_us;
	int64_t later_us; /* due so much after the time on its grid */
	int priority;
	bool absolute, replace, revive, keep_due;

	int rc;           /* 0, EEXIST; one by one also what else became of this one alone */
	int64_t found_id; /* of the row that is there now; 0: not known */
	bool again;       /* refused, and may be accepted now */
	bool runs;        /* it changes what holds after a run: due_us is that of the run */
	bool stays;       /* keep_due: the due time in the database is what it was */
	int64_t due_us;
	int32_t shard;
};

/* It may change the row that has its key. */
static inline bool hwts_changes(const struct hwts_put *put)
{
	return put->replace || put->revive || put->keep_due;
}

/* How a run ends. */
enum hwts_how {
	HWTS_DONE,  /* the row goes */
	HWTS_AT,    /* pending again, at when_us */
	HWTS_AFTER, /* pending again, when_us from the database's now, not after limit_us */
	HWTS_FAIL   /* kept */
};

struct hwts_turn_group; /* turns.h */
struct hwts_entry;      /* window.h */

/* A row that was begun, until its end is in the database. */
struct hwts_row {
	struct hwts_row *next;
	struct hwts_kind *kind;
	struct hwts_turn_group *turns; /* while it waits for a thread: its group, */
	uint32_t round;                /* and its place */
	int8_t priority;
	int64_t id, due_us, base_us, period_us, epoch;
	int64_t now_us;    /* of the begin */
	int64_t queued_ns; /* since when it waits for a thread */
	int32_t shard;
	unsigned attempt;
	const char *key, *group; /* or NULL; they, data, schedule and zone lie behind the structure */
	const void *data;
	size_t len;

	const char *schedule, *zone; /* or NULL */
	int64_t grace_us, spread_us;
	uint64_t missed;
	int64_t last_us;     /* the latest time on its grid that has come, or that it was put for */
	int64_t grid_due_us; /* its next time, with the spread */

	enum hwts_how how;
	int64_t grid_us; /* of a series: its next time */
	int64_t when_us, limit_us, next_base_us;
	int64_t rest_us; /* with give_back: no begin before that has passed */
	unsigned next_attempt;
	hwt_store_wait waits;         /* why it has not started: ZONE, or nothing that is its own */
	int64_t started_us, ended_us; /* for hwt_store_ended; 0: it has not */
	int answer;                   /* of its task */
	bool late;                    /* it did not start within its grace */
	bool unsure;                  /* a reply about its end was lost */
	bool bare;                    /* another process has begun it, and what the database says of it was not read */
	bool cancelled;               /* set by the end: it was cancelled in its run */
	bool kept;                    /* set by the end, with replaced: settings that were kept hold now */
	bool give_back;               /* it was not started */
	bool serves;   /* its series goes on, or looks for its first time: settings that were kept for this end hold */
	bool ending;   /* its end is to be committed */
	bool again;    /* its task has answered so, or it came too late: no failure */
	bool synced;   /* once its end was answered, no crash of the server may undo it */
	bool hit;      /* set by the end: the row was this run's */
	bool replaced; /* set by the end: it is what has replaced it, pending, due at next_due_us */
	int64_t next_due_us;
	bool locked;  /* set by the end: another transaction has locked the row */
	bool marked;  /* it may be its last, or replaced: the row says how it ends */
	bool aside;   /* the ender tries again at again_ns */
	bool refused; /* the database has refused its end before */
	int64_t again_ns;
	int *told; /* not NULL: a caller waits for what becomes of its end */
	char error[HWTS_ERROR_MAX + 1];
};

/* A row to begin, and what became of it. */
struct hwts_want {
	struct hwts_entry *entry; /* the beginner's; with the lock, until the begin is over */
	struct hwts_kind *kind;
	int64_t id, epoch;
	int32_t shard;
	unsigned max_attempts; /* 0: any */
	bool last;             /* even if this is its last attempt */
	bool beyond;           /* its group has more than may run: only if it runs under this epoch */
	bool begun;            /* the begin has answered its id; row is set once its data are read */
	struct hwts_row *row;  /* begun, and read; NULL: not */
	int64_t due_us;        /* not begun: pending and due then; HWTS_NEVER: there is nothing to begin */
	int64_t now_us;        /* and the database's clock */
	int64_t rules;         /* of the shard, as this process has read them */
	bool lost;             /* the shard has another epoch */
	bool stale;            /* not begun: the shard has other rules */
	bool dead;             /* not begun: a process held it when it died, or was cut off */
	bool locked;           /* not begun: it runs under this epoch, to be begun again, and is locked */
	unsigned attempt;      /* not begun: how often it has been started */
	int64_t delay_us;      /* dead: pending again so much later; HWTS_NEVER: FAILED */
	/* Dead, or begun and not heard of: it was its last run, and goes; or it has been replaced, under that epoch. */
	enum hwts_mark { HWTS_UNMARKED, HWTS_LAST, HWTS_REPLACED } mark;
	int64_t runs_epoch;
	uint32_t len; /* it and priority: inherited as what has replaced it */
	int8_t priority;
	bool inherited;       /* set when it is */
	bool failed, refused; /* there was no reply; the database refuses to begin it */
};

/* A shard that this process holds, as far as the look-ahead needs it. */
struct hwts_held {
	int32_t shard;
	int64_t epoch;
	int64_t to_us;                  /* look as far as this */
	int64_t mark_due_us, mark_id;   /* seen up to here; set to how far it is seen now */
	int64_t swept_due_us, swept_id; /* a sweep reads on from here; set to where the next one begins */
	size_t seen, overdue;
	bool full; /* set: there may be more before that */
};

struct hwts_shard_row {
	int32_t shard;
	int64_t epoch;
	bool mine, free;
	int64_t left_us; /* of the owner's lease, if it is neither */
	bool taken;      /* it is about to be */
	int64_t rules;
	bool skipped; /* set by a take: another transaction has locked the row of the shard or of its owner */
	bool empty;   /* set by a take: nobody knows the levels of its groups */
	bool unread;  /* given: its levels were not read, and stay as they are */
	void *levels; /* given: of its groups; NULL: nobody knows them */
	size_t levels_len;
};

/* Renewal of the lease, and a look at the shards: one exchange. */
struct hwts_renewal {
	/* in */
	const int64_t *kinds;
	size_t kind_count;
	bool absent; /* it is not counted among those that share the kinds */

	/* out */
	bool renewed;
	int64_t now_us, reply_ns;      /* the database's clock, and hwt_now() just after */
	int64_t sent_ns;               /* hwt_now() before */
	struct hwts_shard_row *shards; /* by number */
	size_t shard_count, shard_room;
	uint32_t *members; /* live ones, of each kind */
};

/* Look-ahead: one exchange that writes nothing. */
struct hwts_look {
	/* in */
	struct hwts_held *held;
	size_t held_count, held_room;
	size_t ahead_count; /* held[0 .. ahead_count - 1] are read from their marks */
	size_t page;        /* most rows a shard */
	uint64_t heard;     /* how much the window had heard when it was sent */
	bool sweeps;        /* also behind the marks, in all that are held: from from_us on; */
	bool far;           /* what is overdue from where the last sweep that did so has ended */
	int64_t from_us;
	int64_t late_us;                    /* rows due before this time are overdue */
	int64_t slice_from_us, slice_to_us; /* and what is overdue between these */

	/* in and out */
	char *snapshot; /* PostgreSQL: of the last sweep; NULL: none */

	/* out */
	struct hwts_due *dues;
	size_t due_count, due_room;
	bool missed;    /* some of it should have been in the window */
	size_t blocked; /* shards whose index is damaged: they were read so far and no further */

	/* while it is under way */
	size_t at;
	int64_t *columns;
	char *next_snapshot;
};

/* due->id 0: look at the shards; -1: at the rows; HWTS_RULES_ID: at the rules of due->shard. */
typedef void hwts_hear(void *ctx, const struct hwts_due *due);
#define HWTS_RULES_ID (-2)

struct hwts_engine {
	const char *name;
	bool locks_rows; /* a statement may have to wait for a row, and not for the whole database */
	bool keeps_dead; /* rows that are gone stay in the indexes as long as anybody's snapshot may need them */
	int (*open)(const char *url, struct hwts_db **db);
	void (*close)(struct hwts_db *db);
	int (*connect)(struct hwts_db *db, enum hwts_role role, struct hwts_conn **conn);
	void (*disconnect)(struct hwts_conn *conn);
	bool (*alive)(struct hwts_conn *conn);  /* a look at an idle one, without asking the server */
	int (*prepare)(struct hwts_conn *conn); /* makes the tables */
	/*
	 * PostgreSQL: looks why rows are not seen.  EACCES: row level security hides them; missing: it hides perhaps
	 * those that ought to be there.  *remade is set if the tables are others than at the last such look; or NULL.
	 */
	int (*look_hidden)(struct hwts_conn *conn, bool missing, bool *remade);

	/* Executes statements in one exchange and one transaction; flags as sql.h has them. */
	int (*run)(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags);
	/* Ends the transaction that HWTS_OPEN left open: commits, or if rc is not 0 rolls back and returns rc. */
	int (*finish)(struct hwts_conn *conn, int rc);
	/*
	 * PostgreSQL: looks for what keeps the row of a timeout, or of a shard and its owner, locked.  Ends connections
	 * of stores that have waited for their client amid an exchange for longer than age_ns; returns how many.
	 */
	int (*unblock)(struct hwts_conn *conn, bool shard, int64_t id, int64_t age_ns);

	/* A connection of the caller, in the caller's transaction; rc not 0: what was done on it is undone. */
	int (*borrow)(struct hwts_db *db, void *connection, struct hwts_conn **conn);
	int (*give_back)(struct hwts_conn *conn, int rc);
	bool (*blocks)(void *connection); /* the caller's transaction would keep the store from writing */

	/* Runs. */
	int (*open_run)(struct hwts_conn *conn, void **handle);
	/* With steps that end it; ESTALE: the first had no row. */
	int (*close_run)(struct hwts_conn *conn, const struct hwts_step *steps, size_t n);
	void (*drop_run)(struct hwts_conn *conn);

	/* News, on the control connection.  fds to poll; hear reads what came. */
	int (*listen)(struct hwts_conn *conn, const struct hwts_shard_row *shards, size_t n, bool on);
	int (*news_fd)(struct hwts_conn *conn);
	int (*news)(struct hwts_conn *conn, bool signalled, hwts_hear *hear, void *ctx, int64_t *again_ns);
	void (*tend)(struct hwts_conn *conn); /* now and then: what the database needs */
};

#ifdef HWT_STORE_SQLITE
extern const struct hwts_engine hwts_sqlite;
#endif
#ifdef HWT_STORE_POSTGRES
extern const struct hwts_engine hwts_postgres;
#endif

/* In engine.c: what both engines use. */
int64_t hwts_id_of(int64_t number, const char *group, const char *key); /* with its bucket; group, key: or NULL */
int hwts_check_version(const struct hwts_db *db, int version);          /* ENOTSUP: it is another one */
int hwts_fail_emptied(const struct hwts_db *db);                        /* EIO: there are tables, and no row of meta */
int8_t hwts_priority_of(int64_t number);                                /* the database may hold any */
void hwts_due_set(struct hwts_due *due, const void *group, size_t len, int64_t priority);

static inline int32_t hwts_shard_of(const struct hwts_kind_row *kind, int64_t id)
{
	return kind->id * HWTS_SHARDS_MAX + (int32_t)((id & (HWTS_BUCKETS - 1)) % kind->shards);
}

static inline const char *hwts_me(const struct hwts_db *db)
{
	return db->names[atomic_load_explicit(&db->name, memory_order_acquire)]; /* [name] */
}

static inline void hwts_set_me(struct hwts_db *db, const char *name)
{
	unsigned is = atomic_load_explicit(&db->name, memory_order_acquire); /* [name], this thread's own */
	unsigned next = (is + 1) % HWTS_COUNT(db->names);

	hwts_cut(db->names[next], sizeof(db->names[next]), name, strlen(name));
	atomic_store_explicit(&db->name, next, memory_order_release); /* [name] */
}

/* The store is being stopped: what this connection reads is of no use to anybody. */
static inline bool hwts_read_halts(const struct hwts_conn *conn)
{
	return conn->role == HWTS_READ &&
	       atomic_load_explicit(&conn->db->read_halt, memory_order_relaxed); /* relaxed: seen soon */
}

static inline void hwts_halt_reads(struct hwts_db *db, bool halt)
{
	atomic_store_explicit(&db->read_halt, halt, memory_order_relaxed); /* relaxed: seen soon */
}

static inline void hwts_count_trip(struct hwts_db *db)
{
	atomic_fetch_add_explicit(&db->round_trips, 1, memory_order_relaxed); /* relaxed: a statistic */
}

#endif
