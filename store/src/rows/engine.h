/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An engine: the table of functions behind which a database stands, and the rows that pass through it.
 *
 * Structure
 *
 *   A database (hwts_db) gives connections; one thread at a time uses a connection.  Both are the first member of the
 *   engine's own structure.  An exchange is a few statements of sql.h in one transaction: it happens as a whole, or
 *   not.
 *
 * Tables: store/sql/tables_postgresql.sql, explained in store/doc/schema.md
 *
 *   The bucket says where a row is: an id has it, and a kind with a group or a key gives it.  A failed row has a
 *   negative shard.  So it leaves every window, and its due time stays readable.
 *
 * A row
 *
 *   (none) -put-> PENDING -begin(e)-> RUNNING(e) -end(e)-> (none) | PENDING (period, retry, not started) | FAILED
 *   PENDING, FAILED -cancel-> (none);  PENDING, FAILED -reschedule-> PENDING
 *   RUNNING(e) -cancel a series-> RUNNING(e), last: its end removes it, or the next holder of the shard
 *   RUNNING(e) -put, replacing-> RUNNING(e), next: its end files the replacement as PENDING, or the next holder does
 *   RUNNING(e) -begin(e') with e' > e-> RUNNING(e'): the next holder takes over the row; at most once: FAILED instead
 *
 * Failures
 *
 *   0 or an errno value with the thread's text set.  ENOTCONN: the connection is unusable, and nothing happened.
 *   ECONNRESET: the connection is unusable, and what happened is not known.  EAGAIN: locked for too long.
 */
#ifndef HWTS_ENGINE_H
#define HWTS_ENGINE_H

#include "base/due.h"
#include "base/waits.h"

#include <stdatomic.h>

#define HWTS_VERSION 3 /* of the tables */
#define HWTS_MODE_OPEN (-1)
/* An id has 53 bits, so a double holds it exactly.  Numbers from here on are drawn by the SQL functions. */
#define HWTS_NUMBERS_END (INT64_C(1) << 42)

/* With up to this number of attempts the row of a dead process is begun at once, with more after its back-off. */
#define HWTS_AT_ONCE 1

/* What a connection is for. */
enum hwts_role {
	HWTS_CALL,    /* puts, cancels and other calls of users: synced */
	HWTS_CONTROL, /* hears news; not synced */
	HWTS_BEGIN,
	HWTS_END,
	HWTS_READ, /* looks ahead */
	HWTS_TASK  /* runs the user's statements too */
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
	 * The name of this process, hwts_me().  Control chooses a new name when another process uses this one; the
	 * slots of earlier names stay readable for a while.
	 *
	 *   [name] the text is written before its number, and the number is read before the text
	 */
	char names[8][HWTS_MEMBER_MAX + 1];
	_Atomic unsigned name;
	int64_t incarnation;
	int64_t lease_us;
	char store[33];    /* the identity of this store, from @_meta */
	char channel[48];  /* PostgreSQL: the channel of news, without the shard; postgres_news.c */
	char notice[1500]; /* a warning for open to give, or empty */
	const char *file;  /* SQLite: the path of the file, the same for all stores on it; NULL: a server */
	bool pooled;       /* PostgreSQL: a pooler in transaction mode is between, so no state stays with a session */
	_Atomic uint64_t round_trips; /* relaxed: a statistic */
	_Atomic bool read_halt;       /* relaxed: the store is being stopped; a look sees it soon */
	_Atomic int64_t place;        /* PostgreSQL: HWTS_PLACE of the newest connections; 0: unknown; relaxed */
};

struct hwts_conn {
	struct hwts_db *db;
	enum hwts_role role;
	struct hwts_conn *next; /* in conns.c */
	const char *here;       /* a caller's connection: the condition that it leads to this store; sql.h */
	bool broken;
	bool refused;         /* the cause of the last failure is in what was sent or stored: a repetition fails too */
	bool brief;           /* PostgreSQL: locked rows are EAGAIN soon, as more callers wait for this exchange */
	unsigned skips;       /* how many more begins or ends pass by rows that other transactions have locked */
	int64_t committed_ns; /* PostgreSQL: hwt_now() at the answer of the last step with .commits */
};

struct hwts_kind_row {
	int32_t id;
	uint32_t shards;
	int mode; /* or HWTS_MODE_OPEN */
	int64_t horizon_us;
	bool removed; /* until a call makes the kind again */
};

/* One timeout to put. */
struct hwts_put {
	int64_t drawn; /* an id from numbers.c */
	int64_t id;    /* of the row: drawn, or the id of the timeout that was replaced */
	const char *kind_name;
	struct hwts_kind_row kind;
	const char *group, *key; /* or NULL */
	const void *data;
	size_t len;
	int64_t when_us; /* a time, or a delay */
	int64_t period_us;
	const char *schedule, *zone; /* or NULL */
	int64_t grace_us, spread_us;
	int64_t later_us; /* due_us - the time on the grid */
	int priority;
	bool absolute, replace, revive, keep_due;

	int rc;           /* 0, or EEXIST; if each put is accepted or refused alone, also another error */
	int64_t found_id; /* the row that has the key; 0: not known */
	bool again;       /* refused, but a repetition may be accepted */
	bool runs;        /* the row runs: the put holds after the run, and due_us is that of the run */
	bool stays;       /* keep_due: the due time in the database has not changed */
	int64_t due_us;
	int32_t shard;
};

/* The put may change the row that has its key. */
static inline bool hwts_changes(const struct hwts_put *put)
{
	return put->replace || put->revive || put->keep_due;
}

/* How a run ends. */
enum hwts_how {
	HWTS_DONE,  /* the row is deleted */
	HWTS_AT,    /* pending again, at when_us */
	HWTS_AFTER, /* pending again, when_us after the database's now, at the latest at limit_us */
	HWTS_FAIL   /* the row stays, FAILED */
};

struct hwts_turn_group; /* turns.h */
struct hwts_entry;      /* window.h */

/* A row from its begin until its end is in the database. */
struct hwts_row {
	struct hwts_row *next;
	struct hwts_kind *kind;
	struct hwts_turn_group *turns; /* while the row waits for a thread: its group, */
	uint32_t round;                /* and its round in the queue; begun.c */
	int8_t priority;
	int64_t id, due_us, base_us, period_us, epoch;
	int64_t now_us;    /* the database's clock at the begin */
	int64_t queued_ns; /* hwts_boot_ns() when the row was queued, or last found to run as it was begun */
	int32_t shard;
	unsigned attempt;
	const char *key, *group; /* or NULL.  key, group, data, schedule and zone lie behind the structure */
	const void *data;
	size_t len;

	const char *schedule, *zone; /* or NULL */
	int64_t grace_us, spread_us;
	uint64_t missed;
	int64_t last_us;     /* the latest time on the grid that has come; none: the time of the put */
	int64_t grid_due_us; /* the next time of the grid, with the spread */

	enum hwts_how how;
	int64_t grid_us; /* of a series: the next time of the grid */
	int64_t when_us, limit_us, next_base_us;
	int64_t rest_us; /* with give_back: how long the row is not begun again */
	unsigned next_attempt;
	hwt_store_wait waits;         /* why the row has not started: ZONE; STARTS: no reason of its own */
	int64_t waits_since_us;       /* at the begin, since when it had waited for its zone; HWTS_NEVER: it had not */
	int64_t started_us, ended_us; /* for hwt_store_ended; 0: not started, not ended */
	int answer;                   /* of the task */
	bool late;                    /* the run did not start within its grace */
	bool unsure;                  /* a reply about its end was lost */
	bool bare;                    /* begun by another process, and its data was not read */
	bool cancelled;               /* set by the end: the row was cancelled during the run */
	bool kept;                    /* set by the end, with replaced: settings that were kept until now hold */
	bool give_back;               /* the row was not started, and becomes pending again */
	bool serves;   /* the series goes on, or finds its first time: settings kept for this end hold then */
	bool asked;    /* in the queue, and being read */
	bool ending;   /* the end has to be committed; counted in shard->ending */
	bool again;    /* the task answered HWT_STORE_AGAIN, or the row came too late: no failure */
	bool synced;   /* the commit of the end is synced: no crash of the server may undo it */
	bool hit;      /* set by the end: the row was still this run's */
	bool replaced; /* set by the end: the row is the replacement now, pending, due at next_due_us */
	int64_t next_due_us;
	bool locked;  /* set by the end: another transaction has locked the row */
	bool marked;  /* the row may be marked as last or replaced: its marks say how it ends */
	bool aside;   /* the ender tries again at again_ns */
	bool refused; /* the database has refused this end before */
	int64_t again_ns;
	int *told; /* not NULL: a caller waits for the result of the end */
	char error[HWTS_ERROR_MAX + 1];
};

/* What a look needs of a shard that this process holds. */
struct hwts_held {
	int32_t shard;
	int64_t epoch;
	int64_t to_us;                  /* the look ends here */
	int64_t mark_due_us, mark_id;   /* in: the look begins here; out: where it has ended */
	int64_t swept_due_us, swept_id; /* in: the sweep begins here; out: where the next one begins */
	size_t seen, overdue;
	bool full; /* out: the page was full, so there may be more rows before to_us */
	bool part; /* the look ends before the horizon: it reads only what is due */
};

struct hwts_shard_row {
	int32_t shard;
	int64_t epoch;
	bool mine, free;
	int64_t left_us; /* neither: what is left of the owner's lease */
	bool taken;      /* this process is about to take the shard */
	int64_t rules;
	bool skipped; /* set by a take: another transaction has locked the row of the shard or of its owner */
	bool empty;   /* set by a take: the levels of its groups are lost */
	bool unread;  /* given: this process has not read the levels, and leaves them as they are */
	void *levels; /* given: of its groups; NULL: lost */
	size_t levels_len;
};

/* Renewal of the lease, and a look at the shards: one exchange. */
struct hwts_renewal {
	/* in */
	const int64_t *kinds;
	size_t kind_count;
	bool absent;                     /* this process is not counted among those that share the kinds */
	char waits[HWTS_WAITS_MAX + 1];  /* why what is due here has not started; "": nothing waits */
	char starts[HWTS_WAITS_MAX + 1]; /* how many runs of each kind started within the last minute; "": none */

	/* out */
	bool renewed;
	int64_t now_us, reply_ns;      /* the database's clock, and hwt_now() just after */
	int64_t sent_ns;               /* hwt_now() before the exchange */
	struct hwts_shard_row *shards; /* by number */
	size_t shard_count, shard_room;
	uint32_t *members; /* how many live members each kind has */
};

/* Look-ahead: one exchange that writes nothing. */
struct hwts_look {
	/* in */
	struct hwts_held *held;
	size_t held_count, held_room;
	size_t ahead_count; /* held[0 .. ahead_count - 1] are read from their marks */
	size_t page;        /* reads at most this number of rows of a shard */
	uint64_t heard;     /* hwts_window_number as the look was sent */
	bool sweeps;        /* also reads behind the marks of all held shards, from from_us on */
	bool far;           /* reads overdue rows from swept_due_us on, where the last far sweep ended */
	int64_t from_us;
	int64_t late_us;                    /* rows due before this time are overdue */
	int64_t slice_from_us, slice_to_us; /* reads overdue rows between these too */

	/* in and out */
	char *snapshot; /* PostgreSQL: the snapshot of the last sweep; NULL: none */

	/* out */
	struct hwts_due *dues;
	size_t due_count, due_room;
	bool missed;    /* some rows should have been in the window */
	size_t blocked; /* shards whose index is damaged: read up to the damage */

	/* while it is under way */
	size_t at;
	int64_t *columns;
	char *next_snapshot;
};

/* due->id 0: the shards have changed; -1: rows have to be looked for; HWTS_RULES_ID: the rules of due->shard have. */
typedef void hwts_hear(void *ctx, const struct hwts_due *due);
#define HWTS_RULES_ID (-2)

struct hwts_engine {
	const char *name;
	bool locks_rows; /* statements wait for single rows; false: for the whole database */
	bool keeps_dead; /* rows that are gone stay in the indexes while a snapshot may need them */
	int (*open)(const char *url, struct hwts_db **db);
	void (*close)(struct hwts_db *db);
	int (*connect)(struct hwts_db *db, enum hwts_role role, struct hwts_conn **conn);
	void (*disconnect)(struct hwts_conn *conn);
	bool (*alive)(struct hwts_conn *conn);  /* checks an idle connection without asking the server */
	int (*prepare)(struct hwts_conn *conn); /* makes the tables */
	/*
	 * PostgreSQL: finds out why rows are not seen.  EACCES: row level security hides them.  missing: rows that
	 * should be there are not; policies may hide them.  *remade (or NULL): set if the tables are not those of the
	 * last such look.
	 */
	int (*look_hidden)(struct hwts_conn *conn, bool missing, bool *remade);

	/* Executes statements in one exchange and one transaction; flags as sql.h has them. */
	int (*run)(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags);
	/* Ends the transaction that HWTS_OPEN left open: commits, or if rc is not 0 rolls back and returns rc. */
	int (*finish)(struct hwts_conn *conn, int rc);
	/*
	 * PostgreSQL: finds the transactions that keep a timeout's row, or the rows of a shard and its owner, locked.
	 * Ends connections of stores whose server process has waited for its client in an exchange for longer than
	 * age_ns.  Returns how many were ended.
	 */
	int (*unblock)(struct hwts_conn *conn, bool shard, int64_t id, int64_t age_ns);

	/* A connection of the caller, in the caller's transaction.  give_back, rc not 0: undoes the store's changes. */
	int (*borrow)(struct hwts_db *db, void *connection, struct hwts_conn **conn);
	int (*give_back)(struct hwts_conn *conn, int rc);
	bool (*blocks)(void *connection); /* the caller's transaction would keep the store from writing */

	/* Runs. */
	int (*open_run)(struct hwts_conn *conn, void **handle);
	/* Commits with steps that end the run.  ESTALE: the first step had no row. */
	int (*close_run)(struct hwts_conn *conn, const struct hwts_step *steps, size_t n);
	void (*drop_run)(struct hwts_conn *conn);

	/* News, on the control connection: news_fd is polled, news calls hear for each. */
	int (*listen)(struct hwts_conn *conn, const struct hwts_shard_row *shards, size_t n, bool on);
	int (*news_fd)(struct hwts_conn *conn);
	int (*news)(struct hwts_conn *conn, bool signalled, hwts_hear *hear, void *ctx, int64_t *again_ns);
	void (*tend)(struct hwts_conn *conn); /* housekeeping of the database, now and then */
};

#ifdef HWT_STORE_SQLITE
extern const struct hwts_engine hwts_sqlite;
#endif
#ifdef HWT_STORE_POSTGRES
extern const struct hwts_engine hwts_postgres;
#endif

/* engine.c: for both engines. */
int64_t hwts_id_of(int64_t number, const char *group, const char *key); /* number and bucket; group, key: or NULL */
int hwts_check_version(const struct hwts_db *db, int version);          /* ENOTSUP: the tables have another version */
int hwts_fail_emptied(const struct hwts_db *db); /* EIO: the tables are there, but @_meta has no row */
int8_t hwts_priority_of(int64_t number);         /* within the range: an edited row may hold any number */
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
	unsigned is = atomic_load_explicit(&db->name, memory_order_acquire); /* [name], as this thread set it */
	unsigned next = (is + 1) % HWTS_COUNT(db->names);

	hwts_cut(db->names[next], sizeof(db->names[next]), name, strlen(name));
	atomic_store_explicit(&db->name, next, memory_order_release); /* [name] */
}

/* True: the store is being stopped, and needs nothing that this connection reads. */
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
