/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef HWT_STORE_H
#define HWT_STORE_H

/*
 * libhwt-store: timeouts that survive a restart.
 *
 * What it is
 *
 *   A wheel loses its timeouts when its process ends.  A store keeps them in a database that people already run: SQLite
 *   (embedded: one machine, any number of processes) or PostgreSQL (many machines).  When a process dies, another one
 *   takes over what it held.
 *
 *   What is due within the next seconds waits in a timer of libhwt in front of the database.  Nobody polls the database
 *   for rows that are due: an idle process makes one round trip each third of its lease, and a timeout that is due
 *   in a year costs a row and nothing else.
 *
 *   A put costs a commit, which is a sync of a disk: a millisecond, not the nanoseconds of hwt_new_timeout.  Use a
 *   store for what must happen although a machine dies; use hwt.h for timeouts that mean nothing once their process is
 *   gone, such as those of a connection.
 *
 * Words
 *
 *   kind    a name under which tasks are registered and timeouts are put.  It is cut into shards.
 *   shard   the unit of ownership.  A started process holds shards; each time a shard is taken its epoch rises.
 *   lease   belongs to a process.  A process that is silent for longer than its lease loses its shards.
 *   group   what a timeout belongs to: a tenant, a host, an account.  All of a group run in one process at a time.
 *   window  the rows of the held shards that are due before now + horizon.  They wait in the process's timer.
 *   begin   turns rows that are due from pending to running, under the epoch of their shard.
 *   end     removes them, or files them again: for the next time of a series, after a failure, or as FAILED.
 *   series  a timeout with a period or a schedule.  The times at which it is due are its grid.
 *
 * Threads
 *
 *     callers --> put, cancel, ... --> database --> look-ahead, news --> [ window: timer ] --> due
 *                                         ^                                                     |
 *                                         +--- end <--- task(run, ctx) on a few threads <--- begin
 *
 *   hwt_store_open starts no thread.  hwt_store_start starts those that run the tasks (config.threads), three that keep
 *   the shards, the begins and the ends, and the worker of the timer in front.
 *   Tasks of different timeouts run at the same time, also those of one kind (hwt_store_kind.concurrency); two runs of
 *   one timeout never overlap while its process holds the shard.
 *
 *   A kind that is registered with HWT_STORE_PULLED has no task.  The program fetches its runs with hwt_store_next,
 *   when hwt_store_fd is readable, and says how they ended with hwt_store_end: in an event loop, on threads of its own,
 *   in another language.  Nothing of such a kind is called on a thread of the store.
 *
 * Guarantees
 *
 *   D1 durable.  What a put accepted survives kill -9 of every process and a power cut.  (SQLite: WAL and
 *      synchronous=FULL.  PostgreSQL: as its synchronous_commit says.)
 *   D2 one end.  Each timeout is done, or is cancelled (exactly one cancel gets 0), or is FAILED and kept.  Never none
 *      of these and never two, however processes die.  The end of a run is durable against the death of processes, but
 *      not against a power cut at that moment: then the timeout may run again (at most once: is FAILED).
 *   D3 runs.  At least once: it starts once or more.  At most once: it starts once or never.  Transaction: what its
 *      task does on run->connection takes effect exactly once.
 *   D4 never early on the database's clock (PostgreSQL: clock_timestamp(), SQLite: the wall clock), whatever the clock
 *      of the process says and however it steps: the begin statement itself compares.
 *   D5 take-over.  What a dead or cut-off process held runs elsewhere within lease + 2 s (from its second attempt on
 *      it is pending then, and waits its back-off); after hwt_store_stop, at once.  A process whose lease cannot be
 *      trusted begins nothing.  It can still end what it ran, as long as no other process has begun that row: the
 *      epoch fences it off.  SQLite has one writer: a process that is stopped (SIGSTOP, a debugger) inside a write
 *      holds every process on the file up until it goes on or dies.  A process that renews its lease and for as long
 *      as that has failed to begin, to end or to read (no more connections, a password that was changed, a right that
 *      was taken away) leaves its shards to others, if there are any, and tells warn; after a pause it tries again.
 *      What it has run and could not end runs again there (at most once: is FAILED).
 *   D6 news.  After a cancel that returned 0 no start follows.  What any process puts or reschedules into the window
 *      reaches the holder within milliseconds (PostgreSQL: LISTEN and NOTIFY; SQLite: a hint row and inotify), and
 *      after a lost notification at the next look-ahead, which is each lease/3.  A row that is overdue by lease/3 and
 *      not on its way, for whatever reason, is found by the look-ahead, too.
 *   D7 timeouts that are far off cost nothing.  10^7 rows that are due in days slow nothing down.
 *   D8 the database away.  Running tasks go on, nothing begins once the lease cannot be trusted, the store reconnects
 *      with back-off and jitter, and nothing is lost.  A server restart, a failover to another host of the url, a full
 *      disk and a locked file are all the same to it.
 *
 *   G1 limits.  No more than hwt_store_limits.running runs of a group at once, and no more starts than its rate, in all
 *      processes together, however they die, stop or join.
 *   G2 turns.  The groups of a kind that are due take turns, so one with a million rows does not hold up the others.
 *      What has no group is one group of each process.
 *   G3 priority.  Within a group the larger priority starts first, then what was due first.  Both hold for what the
 *      process has read or was told of; what it has begun and not started takes turns, too.
 *
 *   Not promised: an order between the runs of several threads, nor between two that are due at the same time.
 *
 *   A store belongs to the process that opened it: in a child that was forked every call returns EINVAL.
 *
 * What may be called when
 *
 *                               any thread    inside a task
 *     hwt_store_put, _put_many  yes           yes; TRANSACTION on SQLite: EDEADLK, use hwt_store_put_on
 *     hwt_store_*_on            yes           yes, with run->connection too
 *     hwt_store_cancel*         yes           yes; TRANSACTION on SQLite: EDEADLK
 *     hwt_store_reschedule*     yes           yes; TRANSACTION on SQLite: EDEADLK
 *     hwt_store_get*, _each*    yes           yes
 *     hwt_store_remove_kind     yes           yes; TRANSACTION on SQLite: EDEADLK
 *     hwt_store_limit, _pause   yes           yes, with _resume too; TRANSACTION on SQLite: EDEADLK
 *     hwt_store_*stats, _prometheus  yes      yes
 *     hwt_store_fd, _next       yes           yes
 *     hwt_store_end             yes           yes; TRANSACTION on SQLite, once the lease was lost: EDEADLK
 *     hwt_store_register        before start  EBUSY
 *     hwt_store_start           yes           yes: does nothing
 *     hwt_store_stop, _within   yes           EDEADLK
 *     hwt_store_close           alone, last   EDEADLK
 *
 * Errors
 *
 *   Functions that can fail return 0 or a positive errno value.  On failure they change nothing, their out-parameters
 *   included; the exceptions are named.  hwt_store_error() has the text, which says what to do.
 *
 *     EINVAL      an argument makes no sense               EEXIST  the key is in use; the kind is registered
 *     ENOENT      no such timeout                          EBUSY   it is running; the store is started
 *     ENOMEM      no memory                                EDEADLK would wait for itself
 *     EAGAIN      the database was locked for too long, or chose this call in a deadlock; hwt_store_put_on: no ids are
 *                 in hand; hwt_store_next: nothing is due.  Nothing happened
 *     ECONNRESET  the connection broke while the call was under way: whether it happened is not known
 *     ENOTCONN    no connection, and none could be made: nothing happened
 *     ECANCELED   hwt_store_next: the store is not started
 *     ESTALE      hwt_store_end: another process has begun it
 *     EACCES      no rights; the file or its folder cannot be written
 *     ENOSPC      the disk is full: nothing happened
 *     EMFILE      too many files are open: nothing happened
 *     EIO         the database refused it for another reason: nothing happened
 *     ENOTSUP     an engine that this build lacks; tables of another version; a setting of a newer header; a
 *                 pooler in transaction mode
 *
 * Time
 *
 *   Names that end in _ns are durations in nanoseconds.  Names that end in _us are times: microseconds since 1970 on
 *   the database's clock.
 *
 * A first program
 *
 *     static int remind(const hwt_store_run *run, void *ctx) { (void)ctx; return mail(run->data, run->len); }
 *     ...
 *     hwt_store *store;
 *     hwt_store_kind kind = HWT_STORE_KIND_INIT;
 *     hwt_store_spec spec = HWT_STORE_SPEC_INIT;
 *     int64_t id;
 *     int rc = hwt_store_open(&store, "sqlite:/var/lib/app/timeouts.db", NULL, NULL, 0);
 *     kind.name = "remind";
 *     kind.task = remind;
 *     if (rc == 0) rc = hwt_store_register(store, &kind);
 *     if (rc == 0) rc = hwt_store_start(store);
 *     spec.kind = "remind";
 *     spec.data = "alice@example.org";
 *     spec.len = 17;
 *     spec.delay_ns = HWT_S(86400);
 *     if (rc == 0) rc = hwt_store_put(store, &spec, &id);
 *     ...
 *     hwt_store_close(store);
 */

#include <hwt.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Types
 */

/* A store: the connections to one database and, once started, the threads that run what is due there. */
typedef struct hwt_store hwt_store;

/* Settings of a store.  Start from HWT_STORE_CONFIG_INIT, change what you need. */
typedef struct hwt_store_config {
	size_t size; /* sizeof(hwt_store_config) */

	/* Of this process, in leases and lists; at most 127 bytes.  NULL: host:pid:random.  No two may share one. */
	const char *name;

	/* Prefix of tables and channels: [a-z_]{1,24}.  NULL: "hwt".  Two of them are two stores in one database. */
	const char *schema;

	unsigned threads; /* that run tasks; 0: 4; at most 1024.  In TRANSACTION mode each has a connection */
	unsigned batch;   /* most rows in one statement; 0: 500; at most 10000 */

	/*
	 * 0: 6 s.  At least 1 s, at most an hour.  How long this process may be silent before others take its shards: a
	 * short lease takes over sooner, and makes a process lose its shards during a shorter pause of the network.
	 */
	int64_t lease_ns;

	int64_t tick_ns; /* of the timer in front; 0: 1 ms; at least 1 ms, at most 1 s */

	/*
	 * Called with a line of text when a connection or the lease is lost, when it is back, and when a task has
	 * failed for good.  On any thread of the store, so it must not call the store.  NULL: silent.
	 */
	void (*warn)(void *ctx, const char *message);
	void *warn_ctx;
	uint64_t reserved[8]; /* 0 */
} hwt_store_config;

/* Every default above, and warnings on stderr. */
/* clang-format off */
#define HWT_STORE_CONFIG_INIT                                                                       \
	{                                                                                           \
		sizeof(hwt_store_config), NULL, NULL, 0, 0, 0, 0, hwt_warn_stderr, NULL,            \
		{ 0, 0, 0, 0, 0, 0, 0, 0 }                                                          \
	}
/* clang-format on */

/* What a task is given.  Valid until the task returns; what hwt_store_next gives, until hwt_store_end. */
typedef struct hwt_store_run {
	int64_t id;
	const char *kind, *key; /* key NULL: it has none */
	const void *data;       /* NULL if len is 0 */
	size_t len;
	int64_t due_us;   /* when it was due */
	unsigned attempt; /* 1, 2, ...: begins since it was put, since the last success, or since it was FAILED */
	uint64_t missed;  /* of a series: times of its grid that were merged into this run */

	/*
	 * HWT_STORE_TRANSACTION: sqlite3 * or PGconn *, inside the transaction that also ends this run.  Otherwise
	 * NULL. The task must not commit or roll back.  On SQLite the transaction holds up every other writer of the
	 * file: it should take milliseconds.  PostgreSQL gives up a transaction in which nothing is said for longer
	 * than the lease (idle_in_transaction_session_timeout), and the run has failed.
	 */
	void *connection;

	const char *group; /* NULL: it has none */
} hwt_store_run;

/*
 * A task.  0: done.  An errno value: it failed, and is tried again after a back-off; after max_attempts it is FAILED
 * and kept until it is cancelled or rescheduled.  strerror() of the value is kept as the error of the timeout.
 *
 * HWT_STORE_ANSWER: as hwt_store_again, _fail, _give_up or _end_series has said about this run.  If none of them was
 * called for it, and for any other negative value, it failed with EINVAL.
 */
typedef int hwt_store_task(const hwt_store_run *run, void *ctx);

#define HWT_STORE_ANSWER (-1)

/* Values of hwt_store_kind.mode. */
#define HWT_STORE_AT_LEAST_ONCE 0u /* begun, run, ended; after a crash in between it runs again */
#define HWT_STORE_AT_MOST_ONCE 1u  /* after a crash in between it is FAILED, not run again; its begin costs a sync */
#define HWT_STORE_TRANSACTION 2u   /* what the task does on run->connection and the end are one transaction */

/* Values of hwt_store_kind.flags. */
#define HWT_STORE_PULLED 1u /* the program fetches the runs: hwt_store_next.  Not with HWT_STORE_TRANSACTION */

/*
 * A kind of timeouts and the task that runs them.  What a program does not set is 0.
 *
 * mode, shards and horizon_ns belong to all processes that share the kind.  The process that first makes the kind sets
 * them; they are then kept in the database.  A later registration with another mode is refused; another number of
 * shards or another horizon is ignored.  A put makes a kind that is not there yet, with the default shards and horizon;
 * its first registration then sets the mode.
 */
typedef struct hwt_store_kind {
	size_t size;          /* sizeof(hwt_store_kind) */
	const char *name;     /* 1..63 bytes of UTF-8 */
	hwt_store_task *task; /* not NULL; of a pulled kind NULL */
	void *ctx;
	unsigned mode;
	unsigned shards;        /* 0: 8; at most 1024.  At least the number of processes that are to share the work */
	unsigned concurrency;   /* runs of this kind at once in this process; 0: as many as threads */
	unsigned max_attempts;  /* 0: 20.  Counts starts, also those that end with the process */
	int64_t horizon_ns;     /* 0: 5 s, or 2/3 of the lease if that is more; at least 2/3 of the lease */
	int64_t backoff_ns;     /* after the first failure, doubled each time, with jitter; 0: 1 s */
	int64_t backoff_max_ns; /* 0: 1 h */
	unsigned flags;         /* 0, or HWT_STORE_PULLED */
} hwt_store_kind;

/* Every default above; name and task (pulled: the flag) must be set. */
#define HWT_STORE_KIND_INIT                                                                                            \
	{                                                                                                              \
		sizeof(hwt_store_kind), NULL, NULL, NULL, HWT_STORE_AT_LEAST_ONCE, 0, 0, 0, 0, 0, 0, 0                 \
	}

/* Flags of hwt_store_spec. */
#define HWT_STORE_ABSOLUTE 1u /* due_us counts, not delay_ns */
#define HWT_STORE_REPLACE 2u  /* with a key: see hwt_store_put */
#define HWT_STORE_REVIVE 4u   /* with a key: see hwt_store_put */

/* What is put.  What a program does not set is 0. */
typedef struct hwt_store_spec {
	size_t size; /* sizeof(hwt_store_spec) */
	const char *kind;
	const char *key;   /* NULL, or 1..255 bytes of UTF-8, unique in its kind and group: pending, running, failed */
	const void *data;  /* copied; may be NULL if len is 0 */
	size_t len;        /* at most 1 MiB */
	int64_t delay_ns;  /* from the database's now; < 0: due now */
	int64_t due_us;    /* with HWT_STORE_ABSOLUTE; must not be negative */
	int64_t period_ns; /* 0: once; else at least 1 s, at most 100 years: on the grid of the first due time */
	unsigned flags;    /* 0, or HWT_STORE_ABSOLUTE and HWT_STORE_REPLACE or HWT_STORE_REVIVE */

	const char *group; /* NULL, or 1..255 bytes of UTF-8 */
	int priority;      /* -100..100; 0: normal.  Of a group's that are due, the larger starts first */

	/*
	 * NULL, or a cron line of at most 127 bytes, as hwt_store_next_time takes it, and its zone; period_ns is 0
	 * then.  The first time is after now and delay_ns, or after due_us with HWT_STORE_ABSOLUTE.
	 */
	const char *schedule, *zone;

	/*
	 * 0: none.  A run does not start later than so long after its time, whatever kept it: no process, a long
	 * queue, retries.  A single timeout is FAILED then with "too late"; a series goes on at its next time, and the
	 * run there says what it missed.
	 */
	int64_t grace_ns;

	/*
	 * Of a series: it is due at a random moment within so long after each time of its grid, and before the next.
	 * At most period_ns.  0: none.  Grace counts from the grid, so it has to be longer.
	 */
	int64_t spread_ns;
} hwt_store_spec;

#define HWT_STORE_SPEC_INIT                                                                                            \
	{                                                                                                              \
		sizeof(hwt_store_spec), NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL, NULL, 0, 0                     \
	}

#define HWT_STORE_DATA_MAX ((size_t)1048576) /* bytes in hwt_store_spec.len */

typedef enum hwt_store_state {
	HWT_STORE_PENDING = 1,
	HWT_STORE_RUNNING, /* begun; also by a process that has died and is not taken over yet */
	HWT_STORE_FAILED   /* kept, and not tried again */
} hwt_store_state;

#define HWT_STORE_WITH_DATA (1u << 31) /* in the states of hwt_store_each, hwt_store_each_ex: the data, too */

/* Which timeouts a call is about.  What a program does not set is 0. */
typedef struct hwt_store_which {
	size_t size;         /* sizeof(hwt_store_which) */
	int64_t id;          /* not 0: this one, whatever else is set.  0: by what follows */
	const char *kind;    /* of this kind */
	const char *group;   /* and of this group; NULL: without a group */
	const char *key;     /* the one with this key; NULL with all */
	bool all, any_group; /* all: of the group, or without one; with any_group: of the whole kind */

	/*
	 * A set such as 1u << HWT_STORE_PENDING; what is in another state is ENOENT.  0: any; reschedule: pending
	 * ones.
	 */
	unsigned states;
} hwt_store_which;

#define HWT_STORE_WHICH_INIT                                                                                           \
	{                                                                                                              \
		sizeof(hwt_store_which), 0, NULL, NULL, NULL, false, false, 0                                          \
	}

/* When something is due: at due_us, if that is not 0; else delay_ns from the database's now (< 0: now). */
typedef struct hwt_store_when {
	int64_t delay_ns, due_us;
} hwt_store_when;

/* What is known of a timeout.  Strings that are too long are cut. */
typedef struct hwt_store_info {
	size_t size; /* set by the caller: sizeof(hwt_store_info) */
	int64_t id;
	hwt_store_state state;
	unsigned attempt; /* begins so far, as in hwt_store_run */
	int64_t due_us;
	int64_t period_ns;
	char kind[64], key[256]; /* key "": it has none */
	char owner[128];         /* the process that holds its shard, "": none */
	char error[256];         /* of the last failure, "": none */

	char group[256]; /* "": none */
	int priority;
	char schedule[128], zone[64]; /* "": none */
	/*
	 * hwt_store_get: a buffer of the caller's, of data_room bytes, or NULL.  hwt_store_each: valid during the call;
	 * NULL without HWT_STORE_WITH_DATA.
	 */
	void *data;
	size_t data_room;
	size_t len; /* of the whole data; what has room is copied */
} hwt_store_info;

#define HWT_STORE_INFO_INIT                                                                                            \
	{                                                                                                              \
		sizeof(hwt_store_info), 0, HWT_STORE_PENDING, 0, 0, 0, "", "", "", "", "", 0, "", "", NULL, 0, 0       \
	}

/* What holds for a group of a kind, in all processes together. */
typedef struct hwt_store_limits {
	size_t size;            /* sizeof(hwt_store_limits) */
	uint32_t running;       /* runs at once; 0: no limit */
	int64_t start_every_ns; /* at most one start in so long, on average; 0: no limit */
	uint32_t burst;         /* so many starts at once, after a rest; 0 with a rate: 1 */
} hwt_store_limits;

#define HWT_STORE_LIMITS_INIT                                                                                          \
	{                                                                                                              \
		sizeof(hwt_store_limits), 0, 0, 0                                                                      \
	}

/* What the database knows of a kind. */
typedef struct hwt_store_kind_info {
	size_t size;
	char kind[64];
	unsigned mode, shards; /* as in hwt_store_kind; mode 0 also: it is not registered yet */
	bool paused;
	uint32_t processes;          /* living ones that are started and have registered it */
	uint64_t failed;             /* exact to 1000; 1001: more */
	int64_t oldest_due_us;       /* of its pending timeouts; 0: there are none */
	hwt_store_limits each_group; /* of each group without limits of its own */
} hwt_store_kind_info;

/* Numbers since the store was opened, by this process, if not said otherwise. */
typedef struct hwt_store_stats {
	size_t size; /* set by the caller: sizeof(hwt_store_stats) */

	uint64_t put;         /* timeouts accepted; with hwt_store_put_on: perhaps rolled back later */
	uint64_t begun;       /* rows turned to running */
	uint64_t done;        /* runs that returned 0 and were ended */
	uint64_t failed;      /* timeouts that became FAILED */
	uint64_t retried;     /* runs that failed and were filed again */
	uint64_t cancelled;   /* cancels that returned 0 */
	uint64_t taken_over;  /* shards taken from a process whose lease had ended */
	uint64_t lost_leases; /* times that this process lost its own */
	uint64_t reconnects;
	uint64_t round_trips; /* to the database */

	uint64_t window;      /* now: timeouts that wait in the timer */
	uint64_t running;     /* now: begun and not ended */
	uint64_t shards_held; /* now */

	/* How much later than due_us a task started, on the process's estimate of the database's clock. */
	int64_t lateness_max_ns;
	uint64_t lateness[32]; /* runs: [0] under 1 us late, [i] 2^(i-1) to 2^i us, [31] all above */

	uint64_t set_aside; /* begins and ends that the database refused for good; they are tried again each lease */

	/* What alarms belong on. */
	uint64_t overdue;               /* now: due and not started, of what this process has read */
	int64_t overdue_oldest_ns;      /* now: since when the oldest of them is due */
	int64_t lateness_minute_max_ns; /* of the tasks that started within the last minute */
	uint64_t trusted;               /* now: 1 if it is started and may begin; 0: it was silent for too long */

	uint64_t rescheduled; /* timeouts that this process has moved; with hwt_store_reschedule_on: perhaps undone */
} hwt_store_stats;

/*
 * Life cycle: open, (register, start), use, stop, close
 */

/*
 * Opens a database.  Makes the tables if there are none.  Starts no thread.
 *
 *     sqlite:PATH                      a file; its folder must be writable, for the -wal and -shm files beside it
 *     postgresql://... postgres://...  as libpq takes them, with several hosts and target_session_attrs
 *     pg:key=value ...                 the same in libpq's other form
 *
 * config NULL means HWT_STORE_CONFIG_INIT without warnings.  error, if not NULL, receives a line of text when the call
 * fails; it is cut to error_len bytes.
 *
 * Through a pooler in transaction mode (PgBouncer) a store puts, cancels and reads, and cannot be started: there is no
 * LISTEN.  What starts connects to the server directly, or to a pool in session mode.
 *
 * Threads  any.
 * Returns  0 and *store; EINVAL: store or url is NULL, the url is of no known form, "sqlite::memory:", a field is out
 *          of range; ENOTSUP: this build lacks the engine, or another version made the tables; ENOENT: no such
 *          folder or database; EACCES; ENOTCONN: no server; EIO: it is no database, or another error of it; ENOMEM.
 * Cost     a connection; the first time, the tables.
 */
HWT_API int hwt_store_open(hwt_store **store, const char *url, const hwt_store_config *config, char *error,
			   size_t error_len);

/*
 * Registers a kind, with its task or as one that is pulled.  This process will run timeouts of the kinds that it has
 * registered, once started.
 *
 * Threads  any.
 * Returns  0; EINVAL: a field is out of range, or the kind is in the database with another mode; EEXIST: registered
 *          already; EBUSY: the store is started; and what a put returns.
 * Cost     a transaction, the first time a kind is made.
 */
HWT_API int hwt_store_register(hwt_store *store, const hwt_store_kind *kind);

/*
 * Takes a share of the shards of the registered kinds, and runs what is due in them.  A process that only puts need not
 * start.  Processes may come and go at any time; they balance the shards among themselves.
 *
 * Threads  any; does nothing when started already.
 * Returns  0; EINVAL: store is NULL, or no kind is registered; ENOTSUP: a pooler in transaction mode is in between;
 *          ENOTCONN and others of the database; ENOMEM, EAGAIN: no memory or no threads; then nothing is started.
 */
HWT_API int hwt_store_start(hwt_store *store);

/*
 * Waits for the tasks that are running, ends them in the database, and gives all shards back at once, so that others
 * need not wait for the lease to end.  When it returns no task runs.  If the database is away it waits for it until the
 * lease is over; for a row that somebody else has locked it waits a lease.  What was not ended then runs elsewhere.
 * The store can be used as before, and be started again.
 *
 * While runs that were pulled are out it does not wait: EBUSY.  From then on nothing is begun or handed out, and the
 * lease is kept.  A shard goes when nothing runs in it any more.  Call it again after the last hwt_store_end; until
 * then hwt_store_start is EBUSY.
 *
 * Threads  any; a concurrent call waits for the first.
 * Returns  0, also when not started; EBUSY: pulled runs are out; EINVAL: store is NULL; EDEADLK in a task, with nothing
 *          changed.
 */
HWT_API int hwt_store_stop(hwt_store *store);

/*
 * The same, but waits no longer than ns.  After that it gives the shards back whatever still runs, so that other
 * processes can go on (without an answer of the database: when the lease is over), and returns ETIMEDOUT.  Tasks run on
 * to their end.  What they end counts unless another process has begun the timeout by then; hwt_store_is_mine is false.
 * Until they have returned hwt_store_start is EBUSY, and hwt_store_stop and hwt_store_close wait for them.  Pulled runs
 * that are out count as tasks that run on; hwt_store_stop is EBUSY then, and hwt_store_close does not wait for them.
 *
 * Threads  any; a concurrent stop is waited for.
 * Returns  0: stopped, also when it was not started; ETIMEDOUT: call again, or close; EINVAL; EDEADLK in a task;
 *          EAGAIN, ENOMEM: no thread, with nothing changed.
 * Cost     a thread, until the tasks have returned.
 */
HWT_API int hwt_store_stop_within(hwt_store *store, int64_t ns);

/*
 * Stops the store if need be, and frees it.  No other call may be in progress or follow.  Pulled runs that are out are
 * freed, too, so hwt_store_end must not follow: as after the death of this process they run elsewhere (at most once:
 * are FAILED).
 *
 * Returns  0; EINVAL: store is NULL; EDEADLK in a task, with nothing changed.
 */
HWT_API int hwt_store_close(hwt_store *store);

/*
 * Timeouts
 */

/*
 * Puts a timeout: its kind's task will run at its due time, in some process that has registered the kind and is
 * started.
 *
 * With a key that is in use: EEXIST, and *id is that of the present one.  So a put with a key is idempotent.  With
 * HWT_STORE_REVIVE a FAILED one is pending again, as it is put now: 0 and its id; any other: EEXIST.  So a put of a
 * series at each start of a program begins it, leaves it alone, or takes it up again.
 *
 * With HWT_STORE_REPLACE it gets all that this put says, and its attempts start from 1: 0 and its id.  One that is
 * pending or FAILED is pending so.  Of one that is running this holds after that run, whatever it answers and also if
 * its process dies, so a debounce never drops the last event.  Until then hwt_store_get tells of the run.  A further
 * put that replaces overwrites it; a cancel drops it, and tells of the run, too: EBUSY.  In a transaction of the task's
 * own it holds if that commits.  What has been begun elsewhere may start yet as it was, a moment later; for effects
 * outside the database take id and due_us as the token.
 *
 * Concurrent puts of one process share commits, so that many threads put much faster than one.
 *
 * Threads  any, tasks included, except in a HWT_STORE_TRANSACTION task on SQLite (EDEADLK: its own transaction has the
 *          lock).  There use hwt_store_put_on with run->connection.
 * Returns  0 and *id, which is never used again; EINVAL; EEXIST and *id; EDEADLK; ECONNRESET and *id:
 *          whether it was put is not known, hwt_store_get of this id or of the key tells (*id 0, with HWT_STORE_REPLACE
 *          and HWT_STORE_REVIVE only: the key alone); EAGAIN, ENOTCONN, ENOSPC,
 *          EACCES, EIO, ENOMEM: it was not put.  id may be NULL.
 * Order    what the caller wrote before is visible to the task if it runs in this process.
 * Cost     a commit, shared with those of other threads.
 */
HWT_API int hwt_store_put(hwt_store *store, const hwt_store_spec *spec, int64_t *id);

/*
 * Puts n timeouts, at most 10,000, in one transaction and in their order: all of them or none.  ids, if not NULL, has
 * room for n, and receives them in the order of the specs.  The specs lie specs[0].size bytes apart, and all have that
 * size.
 *
 * Returns  as hwt_store_put; EINVAL also: n is above 10,000.  EEXIST: ids[0] is the id of the present one (0 if it
 *          would have been put by this call, too), and hwt_store_error() names the spec; nothing was put.
 *          ECONNRESET: all ids are set.  n 0: 0.
 * Cost     one commit; some 20 us a row.
 */
HWT_API int hwt_store_put_many(hwt_store *store, const hwt_store_spec *specs, size_t n, int64_t *ids);

/*
 * Puts a timeout in the caller's own transaction, on the caller's own sqlite3 * or PGconn * to the same database: it
 * exists if and only if that transaction commits.  Without an open transaction it is one of its own.  The schema's
 * tables must be in the connection's search path, as they were when the store was opened.  On SQLite a kind that is not
 * there yet is made in that transaction, too.
 *
 * On PostgreSQL a put that is due soon notifies inside that transaction; transactions that notify commit one after the
 * other, a few hundred a second.  On failure the caller's transaction must be rolled back if its engine says so
 * (PostgreSQL: PQtransactionStatus is PQTRANS_INERROR); EEXIST and EAGAIN without ids in hand leave it usable.
 *
 * Threads  any; the connection must not be in use elsewhere.
 * Returns  as hwt_store_put; EINVAL also: connection is NULL, or leads to another store or to none; EAGAIN also: no
 *          ids are in hand, and on SQLite this transaction keeps the store from drawing more, which it does when the
 *          transaction has ended; EIO also: the kind is not there as this transaction sees the database.
 */
HWT_API int hwt_store_put_on(hwt_store *store, void *connection, const hwt_store_spec *spec, int64_t *id);

/*
 * Cancels a timeout.  0 says that this very call ended it: it does not start after that, in no process.  One that is
 * FAILED is removed.  Of several calls for one timeout exactly one gets 0.
 *
 * A series that is running: 0, and the run in progress is its last, whatever it answers and also if its process dies.
 * Until that run has ended it counts as a single one that runs, and keeps its key; a put that replaces puts it
 * again after the run.  What has replaced one that is running is dropped.
 *
 * Threads  any, tasks included, except in a HWT_STORE_TRANSACTION task on SQLite (EDEADLK).  Never waits for a task.
 *          In the process that holds it a timeout is pending until its task starts.
 * Returns  0; EBUSY: it is running, or is about to start in another process (nothing is begun beyond what free threads
 *          take and what will start within 20 ms), or ran on one that has died and is not taken over yet (a series: and
 *          was cancelled); ENOENT: it was never put, is done, or was cancelled; EINVAL; EAGAIN, ENOTCONN, ENOSPC,
 *          EACCES, EIO; ECONNRESET: not known, call again (then ENOENT says that it is gone).
 * Cost     a commit, shared with those of other threads.
 */
HWT_API int hwt_store_cancel(hwt_store *store, int64_t id);

/* The same for the timeout of this kind, and of no group, that has this key now. */
HWT_API int hwt_store_cancel_key(hwt_store *store, const char *kind, const char *key);

/*
 * Cancels one timeout, as hwt_store_cancel does, or all of a group or kind.  *n, if n is not NULL, is how many were
 * cancelled, also on failure.
 *
 * Many are cancelled by slices of at most 1000, each in a transaction of its own, so that nobody waits for long: what
 * is put meanwhile may stay.  If the call breaks off, repeat it.  A run in progress goes on, and is the last of its
 * timeout, whatever it answers and also if its process dies; *n counts it.
 *
 * Returns  of one: as hwt_store_cancel.  Of many: 0, also if there are none; EINVAL; what a commit returns.
 * Cost     of many: a commit for each slice; some 20 us a row.
 */
HWT_API int hwt_store_cancel_ex(hwt_store *store, const hwt_store_which *which, uint64_t *n);

/*
 * Sets another due time: delay_ns from the database's now; < 0: now.  A FAILED one is pending again, and its attempts
 * start from 1; a pending one goes on with its attempts.  One with a period gets a new grid from that time on; one with
 * a schedule runs then, and goes on by its line.
 *
 * Threads, Returns, Cost  as hwt_store_cancel; EBUSY also: a series is running.
 */
HWT_API int hwt_store_reschedule(hwt_store *store, int64_t id, int64_t delay_ns);

/*
 * The same of one timeout, or of all of a group or kind: they get one due time, also with a delay.  *n, slices and
 * Returns as hwt_store_cancel_ex.  EINVAL also: RUNNING in states; a due_us that is negative or after the year 10000.
 */
HWT_API int hwt_store_reschedule_ex(hwt_store *store, const hwt_store_which *which, hwt_store_when when, uint64_t *n);

/*
 * Cancels or reschedules one timeout in the caller's own transaction, on the caller's own sqlite3 * or PGconn * to the
 * same database: it has happened if and only if that transaction commits.  Until then the timeout does not start.
 * Without an open transaction it is one of its own.  What hwt_store_put_on says of connections holds here, too.
 *
 * Threads  any; the connection must not be in use elsewhere.
 * Returns  as hwt_store_cancel and hwt_store_reschedule_ex; EINVAL also: all is set, connection is NULL, or it leads to
 *          another store or to none.  ENOENT and EBUSY leave the transaction as it was, but that a cancel has dropped
 *          what had replaced one that is running.
 */
HWT_API int hwt_store_cancel_on(hwt_store *store, void *connection, const hwt_store_which *which);
HWT_API int hwt_store_reschedule_on(hwt_store *store, void *connection, const hwt_store_which *which,
				    hwt_store_when when);

/*
 * Reads what is known of a timeout.
 *
 * Threads  any, tasks included.
 * Returns  0 and *info, as far as info->size reaches; ENOENT; EINVAL; ENOTCONN, EAGAIN, EIO.
 * Cost     one round trip.
 */
HWT_API int hwt_store_get(hwt_store *store, int64_t id, hwt_store_info *info);
HWT_API int hwt_store_get_key(hwt_store *store, const char *kind, const char *key, hwt_store_info *info);
HWT_API int hwt_store_get_ex(hwt_store *store, const hwt_store_which *which, hwt_store_info *info); /* all: EINVAL */

/*
 * Calls each(ctx, info) for the timeouts of a kind that have no group, or for those that which names, in order of due
 * time, until there are no more or it returns false.  states is a set, 1u << HWT_STORE_PENDING | 1u <<
 * HWT_STORE_FAILED, say; with HWT_STORE_WITH_DATA the data is read, too.  It reads by pages, each of one moment: what
 * moves in time meanwhile may come twice or not at all.  No lock is held while each runs, so it may call the store.
 *
 * Returns  0; ENOENT: no such kind; EINVAL: states is 0 or has unknown bits; otherwise as hwt_store_get.
 */
HWT_API int hwt_store_each(hwt_store *store, const char *kind, unsigned states,
			   bool (*each)(void *ctx, const hwt_store_info *info), void *ctx);
HWT_API int hwt_store_each_ex(hwt_store *store, const hwt_store_which *which,
			      bool (*each)(void *ctx, const hwt_store_info *info), void *ctx);

/*
 * Calls each(ctx, info) for all kinds, in order of their names, until it returns false.  They are read in one moment.
 * No lock is held while each runs, so it may call the store.
 *
 * Threads  any, tasks included.
 * Returns  0, also if there are none; EINVAL; otherwise as hwt_store_get.
 * Cost     one round trip; for each shard of each kind a probe of an index, and for each kind at most 1001 failed rows.
 */
HWT_API int hwt_store_each_kind(hwt_store *store, bool (*each)(void *ctx, const hwt_store_kind_info *info), void *ctx);

/*
 * Removes a kind that nobody needs any more: it is not listed, its mode, its pause and its limits and those of its
 * groups are forgotten.  A put or a registration makes it again, with any mode; the number of its shards and its
 * horizon stay, for processes that have put it know them, and may put it at any time.
 *
 * Threads  any, tasks included, except in a HWT_STORE_TRANSACTION task on SQLite (EDEADLK).
 * Returns  0; EBUSY: it has timeouts, also FAILED ones, or a living process, this one too, has registered it; ENOENT:
 *          there is no such kind; EINVAL; EDEADLK; EAGAIN, ENOTCONN, ENOSPC, EACCES, EIO; ECONNRESET: not known, call
 *          again (then ENOENT says that it is gone).
 * Cost     a commit; for each shard a probe of an index.
 */
HWT_API int hwt_store_remove_kind(hwt_store *store, const char *kind);

/*
 * Sets how much of a group of a kind may run, in all processes together.  group NULL: of each group that has no limits
 * of its own.  limits NULL: those that were set go.  A group's own limits replace those of the kind, so with all of
 * them 0 it has none.  What has no group is never limited.
 *
 * running     no more runs at once.  What a process held when it died counts until another has begun it again or knows
 *             that it is over.  A group runs in one process at a time: a cap above its threads is not reached.
 * start_every, burst  no more starts than burst + one each start_every, retries too.  A process that stops hands over
 *             what is left; after one has died a group begins without any.
 *
 * They are kept in the database, and cost no statement of a run: the process that holds a group counts in memory.  Once
 * the call has returned nothing is begun under the old limits, in no process; what was begun before may start until the
 * news of them comes, which takes milliseconds, or a third of the lease if it is lost.
 *
 * Threads  any, tasks included, except in a HWT_STORE_TRANSACTION task on SQLite (EDEADLK).
 * Returns  0, also if nothing changes; ENOENT: there is no such kind, and neither a put nor a registration has made it;
 *          EINVAL: running or burst is above INT32_MAX, start_every_ns is negative or above 100 years, burst is set
 *          without it; EDEADLK; EAGAIN, ENOTCONN, ENOSPC, EACCES, EIO, ENOMEM; ECONNRESET: not known, call again.
 * Cost     a commit; it waits for the begins that are under way.
 */
HWT_API int hwt_store_limit(hwt_store *store, const char *kind, const char *group, const hwt_store_limits *limits);

/*
 * Pauses a group, or with NULL the whole kind, what has no group too: nothing of it is begun until it is resumed.  What
 * runs goes on, what is due waits, and can be cancelled and moved.  A paused kind says nothing of its groups: each has
 * its own pause.
 *
 * Threads, Returns, Cost  as hwt_store_limit.
 */
HWT_API int hwt_store_pause(hwt_store *store, const char *kind, const char *group);
HWT_API int hwt_store_resume(hwt_store *store, const char *kind, const char *group);

/*
 * The first time after after_us at which a cron line is due in a zone.  It needs no store.
 *
 * A line has five fields: minute, hour, day of month, month, day of week (0 and 7: Sunday).  A field is "*", a number,
 * a range, a range or "*" with a step ("0-30/10"), or a list of these.  Months and days of the week have names of three
 * letters, in ranges, too.  Or a line is one of @hourly @daily @weekly @monthly @yearly.  If a day field begins with
 * "*", both must hold; otherwise either will do.
 *
 * A line whose minute or hour begins with "*" follows elapsed time: where clocks are set forward its times in the gap
 * do not exist, and what the wall shows twice comes twice.  Any other runs once a day: a time in a gap when the gap
 * begins, and what comes twice the first time.
 *
 * zone is a name of the tz database ("Europe/Berlin"); NULL: UTC.  error, if not NULL, receives a line of text that
 * names the field when the call fails; it is cut to error_len bytes.
 *
 * Threads  any.
 * Returns  0 and *due_us; EINVAL: the line or the zone is wrong, there is no such time within ten years, after_us is
 *          not within the years 1970 to 9999; ENOTSUP: a zone other than UTC, and GLib or the tz database is missing;
 *          EIO: GLib misreads the zone (store/doc/calendars.md).
 * Cost     a microsecond or two; a zone that was not in use, 200 us.
 */
HWT_API int hwt_store_next_time(const char *schedule, const char *zone, int64_t after_us, int64_t *due_us, char *error,
				size_t error_len);

/*
 * In a run: true while the lease can still be trusted, so that no other process has begun this timeout.  A long task
 * asks it before each step that must not happen twice.
 *
 * Threads  the task's, while it runs; of a pulled run any, until hwt_store_end.
 * Cost     a clock read.
 */
HWT_API bool hwt_store_is_mine(const hwt_store_run *run);

/*
 * In a run: other answers than a number.  Each call returns HWT_STORE_ANSWER, which the task then returns, and of a
 * pulled run hwt_store_end is given:
 *
 *     return hwt_store_again(run, HWT_S(90));
 *
 * The answer belongs to this run alone, and the last call counts.  If the task returns another value, that counts.
 *
 * again       it runs again after delay_ns (< 0: at once).  That is no failure: the run does not count as an attempt,
 *             and the error of an earlier one stays.  A series: then, or at its next time if that is sooner; the next
 *             run has the due_us of this one.  TRANSACTION: what the task did is committed.
 * fail        it failed, as with an errno value, and this text is its error (NULL: "failed"; it is cut to 255 bytes).
 * give_up     FAILED for good, whatever attempts are left, with such a text (NULL: "given up").  TRANSACTION: what the
 *             task did is rolled back.
 * end_series  done, and no next run follows.  Of a timeout that is no series: as return 0.
 *
 * Threads  the task's, while it runs; of a pulled run any, one at a time, until hwt_store_end.
 * Returns  HWT_STORE_ANSWER; EINVAL: run is NULL.
 */
HWT_API int hwt_store_again(const hwt_store_run *run, int64_t delay_ns);
HWT_API int hwt_store_fail(const hwt_store_run *run, const char *why);
HWT_API int hwt_store_give_up(const hwt_store_run *run, const char *why);
HWT_API int hwt_store_end_series(const hwt_store_run *run);

/*
 * Pulled runs
 *
 *     hwt_store_fd(store, &fd);
 *     for (;;) {
 *         poll fd
 *         while ((rc = hwt_store_next(store, &run)) == 0)
 *             hwt_store_end(run, work(run->data, run->len));     or later, on any thread
 *         if (rc == ECANCELED) break;
 *     }
 *
 * At most hwt_store_kind.concurrency runs of a kind are out at once in a process.  What is begun for a free place waits
 * for hwt_store_next, and counts as begun elsewhere meanwhile: let concurrency be what the program really does at once.
 */

/*
 * A descriptor to poll: readable as long as hwt_store_next has a run, or would return ECANCELED.  Now and then it has
 * been readable and hwt_store_next finds nothing: another thread was faster, or the run must not start any more.
 *
 * It belongs to the store, is the same at each call, and is closed by hwt_store_close.  Do not read from it.
 *
 * Threads  any.
 * Returns  0 and *fd; EINVAL; EMFILE and what pipe() fails with.
 * Cost     the first call makes two descriptors; from then on a write when the first run comes, a read when the last
 *          one goes.
 */
HWT_API int hwt_store_fd(hwt_store *store, int *fd);

/*
 * Hands out a run of a pulled kind that is due.  It does not wait.  The run starts now, and *run is valid until
 * hwt_store_end.  Kinds take turns, and within a kind groups and priorities count as for tasks.
 *
 * Threads  any.
 * Returns  0 and *run; EAGAIN: none now; ECANCELED: the store is not started yet, or is being stopped; EINVAL; ENOMEM.
 * Cost     a lock and some memory; no exchange with the database.
 */
HWT_API int hwt_store_next(hwt_store *store, hwt_store_run **run);

/*
 * Ends a run that hwt_store_next has handed out, with what a task would return: 0, an errno value, or what
 * hwt_store_again, _fail, _give_up or _end_series have returned for it.  The run is freed, except on EINVAL
 * and EDEADLK.
 *
 * While the lease can be trusted, hwt_store_is_mine, this hands the end over, as the return of a task does; the commit
 * follows.  Otherwise it waits until the database says whether the run still was this process's.
 *
 * Threads  any, at any time until hwt_store_close; a run once.
 * Returns  0; ESTALE: another process has begun it, or will: this answer does not count; EIO: the database refuses this
 *          end, which is tried again; EINVAL: run is NULL, or it was handed out before a fork; EDEADLK: see above.
 * Cost     a lock; once the lease was lost a round trip.
 */
HWT_API int hwt_store_end(hwt_store_run *run, int answer);

/*
 * Writes statistics to *out, as far as out->size reaches.  A snapshot; each number is exact.
 *
 * Returns  0; EINVAL: store or out is NULL, or out->size is too small for any number.
 */
HWT_API int hwt_store_read_stats(hwt_store *store, hwt_store_stats *out);

/*
 * The same of one kind that this process has registered: begun, done, failed, retried, set_aside, window, running,
 * shards_held, what is overdue and the lateness.  What belongs to no kind is 0.
 *
 * Returns  0; ENOENT: this process has not registered it; EINVAL.
 */
HWT_API int hwt_store_read_kind_stats(hwt_store *store, const char *kind, hwt_store_stats *out);

/*
 * Writes all of this as text for Prometheus (text/plain; version=0.0.4): the statistics of this process, by kind where
 * they have one, the lateness as a histogram, and of each kind in the database whether it is paused, how many processes
 * run it, how many of its timeouts are FAILED, and for how long the oldest pending one has been due.  Names begin with
 * hwt_store_.  Without an answer of the database hwt_store_database_up is 0, and what it knows is left out.
 *
 * Threads  any, tasks included.
 * Returns  as snprintf: the number of characters without the final 0, also when len is less; buf then has the lines
 *          that fit, and may be NULL if len is 0.  Negative: -EINVAL, -ENOMEM.
 * Cost     that of hwt_store_each_kind; 6 KB for a kind.
 */
HWT_API int hwt_store_prometheus(hwt_store *store, char *buf, size_t len);

#define HWT_STORE_STATS_INIT                                                                                           \
	{                                                                                                              \
		sizeof(hwt_store_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                                           \
		    0, 0, { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                                            \
			    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 },                                          \
		    0, 0, 0, 0, 0, 0                                                                                   \
	}

/* The text of this thread's last failure, "" if there was none.  Valid until the thread's next call. */
HWT_API const char *hwt_store_error(void);

#ifdef __cplusplus
}
#endif

#endif /* HWT_STORE_H */
