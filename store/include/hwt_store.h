/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef HWT_STORE_H
#define HWT_STORE_H

/*
 * libhwt-store: timeouts that survive a restart.  SQLite (one machine, any number of processes) or PostgreSQL (many
 * machines) keeps them, and when a process dies, another one takes over what it held.  What is due within the next
 * seconds waits in a timer of libhwt in front of the database.  A put costs a commit: a millisecond, not nanoseconds.
 *
 * First use
 *
 *     static int remind(const hwt_store_run *run, void *ctx) { (void)ctx; return mail(run->data, run->len); }
 *     int rc = hwt_store_open(&store, "sqlite:/var/lib/app/timeouts.db", NULL, NULL, 0);
 *     kind.name = spec.kind = "remind";                 // both begin as HWT_STORE_..._INIT
 *     kind.task = remind;
 *     if (rc == 0) rc = hwt_store_register(store, &kind);
 *     if (rc == 0) rc = hwt_store_start(store);         // a process that only puts needs neither
 *     spec.data = "alice@example.org", spec.len = 17, spec.delay_ns = HWT_S(86400);
 *     if (rc == 0) rc = hwt_store_put(store, &spec, &id);
 *     hwt_store_close(store);
 *
 *   A first reader may stop here and go on with store/doc/store.md: when to use it, how to write tasks and operate it.
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
 * Guarantees
 *
 *   D1 durable.  What a put accepted survives kill -9 of every process and a power cut.  (SQLite: WAL and
 *      synchronous=FULL.  PostgreSQL: as its synchronous_commit says.)
 *   D2 one end.  Each timeout is done, or is cancelled (exactly one cancel gets 0), or is FAILED and kept, however
 *      processes die.  After a power cut at the end of a run it may run again (at most once: is FAILED).
 *   D3 runs.  At least once: it starts once or more.  At most once: it starts once or never.  Transaction: what its
 *      task does on run->connection takes effect exactly once.  Two runs of one timeout never overlap while its process
 *      holds the shard.
 *   D4 never early on the database's clock (PostgreSQL: clock_timestamp(), SQLite: the wall clock), whatever the clock
 *      of the process says and however it steps.
 *   D5 take-over.  What a dead or cut-off process held runs elsewhere within lease + 2 s (from its second attempt on
 *      it is pending then, and waits its back-off); after hwt_store_stop, at once.  A process whose lease cannot be
 *      trusted begins nothing.  It can still end what it ran, as long as no other process has begun that row.  One
 *      that renews its lease and can do nothing else leaves its shards to others (store.md, "Cut off").
 *   D6 news.  After a cancel that returned 0 no start follows.  What any process puts or reschedules into the window
 *      reaches the holder within milliseconds, and after a lost notification at the next look-ahead, each lease/3.
 *   D7 timeouts that are far off cost nothing.  10^7 rows that are due in days slow nothing down.
 *   D8 the database away.  Running tasks go on, nothing begins once the lease cannot be trusted, the store reconnects
 *      with back-off and jitter, and nothing is lost: after a restart, a failover, a full disk, a locked file.
 *   G1 limits.  No more than hwt_store_limits.running runs of a group at once, and no more starts than its rate, in all
 *      processes together, however they die, stop or join.
 *   G2 turns.  The groups of a kind that are due take turns.  What has no group is one group of each process.
 *   G3 priority.  Within a group the larger priority starts first, then what was due first, of what the process knows.
 *   Not promised: an order between the runs of several threads, nor between two that are due at the same time.
 *
 * What may be called when
 *
 *   Any thread may make any call, tasks included, with these exceptions.  In a child that was forked all are EINVAL.
 *
 *     hwt_store_put, _put_many, _cancel*, _reschedule*, _remove_kind, _limit, _pause, _resume
 *                                      in a TRANSACTION task on SQLite: EDEADLK; hwt_store_*_on are for that
 *     hwt_store_*_on                   the connection must not be in use elsewhere
 *     hwt_store_end                    as hwt_store_put, once the lease was lost
 *     hwt_store_register               before start; then EBUSY
 *     hwt_store_stop, _stop_within     in a task: EDEADLK
 *     hwt_store_close                  alone, last; in a task: EDEADLK
 *
 * Errors
 *
 *   Functions that can fail return 0 or a positive errno value.  On failure they change nothing, their out-parameters
 *   included; the exceptions are named.  hwt_store_error() has the text, which says what to do.  Structures begin with
 *   their size: what one of an older header ends before is 0.
 *
 *     EINVAL      an argument makes no sense               EEXIST     the key, kind or name is there already
 *     ENOENT      no such timeout                          EBUSY      it is running; the store is started
 *     EDEADLK     would wait for itself                    ECANCELED  hwt_store_next: the store is not started
 *     ESTALE      hwt_store_end: another process has it    ENOTSUP    this build, pooler or version cannot do it
 *
 *   Below "of the database" stands for these.  Nothing happened, but for ECONNRESET, where that is not known:
 *
 *     EAGAIN      the database was locked for too long, or chose this call in a deadlock
 *     ECONNRESET  the connection broke while the call was under way: call again, and ENOENT or EEXIST may tell
 *     EACCES      no rights, rows that are hidden from this role, or a database, file or folder that may only be read
 *     EIO         the database refused it for another reason
 *     ENOTCONN    no connection    ENOMEM  no memory    ENOSPC  the disk is full    EMFILE  too many files are open
 *
 * Time
 *
 *   _ns ends the names of durations in nanoseconds, _us of times: microseconds since 1970 on the database's clock.
 */

#include <hwt.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A store: the connections to one database and, once started, the threads that run what is due there. */
typedef struct hwt_store hwt_store;

/* What a task is given.  Valid until the task returns; what hwt_store_next gives, until hwt_store_end. */
typedef struct hwt_store_run {
	int64_t id;
	const char *kind, *key; /* key NULL: it has none */
	const void *data;       /* NULL if len is 0 */
	size_t len;
	int64_t due_us;   /* when it was due first, however often it is tried; of a series: on its grid */
	unsigned attempt; /* 1, 2, ...: begins since it was put, since the last success, or since it was FAILED */
	uint64_t missed;  /* of a series: times of its grid that were merged into this run */
	/* HWT_STORE_TRANSACTION: sqlite3 * or PGconn *, inside the transaction that also ends this run, which the task
	 * must not commit or roll back (store.md, "Transactions").  Otherwise NULL. */
	void *connection;
	const char *group; /* NULL: it has none */
} hwt_store_run;

/* What became of a timeout whose run has ended. */
typedef enum hwt_store_became {
	HWT_STORE_BECAME_DONE,  /* a series goes on at its next time */
	HWT_STORE_BECAME_AGAIN, /* filed again: after a failure, or by hwt_store_again */
	HWT_STORE_BECAME_FAILED,
	HWT_STORE_BECAME_TOO_LATE,  /* it did not start within its grace; a series goes on */
	HWT_STORE_BECAME_CANCELLED, /* in its run */
	HWT_STORE_BECAME_REPLACED,  /* in its run */
	HWT_STORE_BECAME_LOST,      /* another process has it */
	HWT_STORE_BECAME_UNKNOWN    /* the reply was lost: this is the last word on this run here */
} hwt_store_became;

/*
 * An end: for logs, a history, numbers of one's own.  config.ended is called with it by the thread that has written the
 * end, after the commit and never inside of a transaction.  The call holds up other ends.  It may do what a task may
 * (hwt_store_stop, hwt_store_end of a run whose lease was lost: EDEADLK), and has returned before a stop does.
 *
 * What cancel, reschedule and REPLACE do to a timeout that does not run is no end.  What a take-over makes FAILED is
 * one, in the process that takes.
 */
typedef struct hwt_store_ended {
	size_t size;              /* sizeof(hwt_store_ended) */
	const hwt_store_run *run; /* a copy, valid during the call; data and connection are NULL, len is what it was */
	int rc;                   /* what the task returned, HWT_STORE_ANSWER too; 0 if it never started */
	const char *error;        /* NULL: none */
	int64_t started_us;       /* 0: it never started here */
	int64_t ended_us;
	int64_t due_us; /* its next time; 0: none */
	hwt_store_became became;
} hwt_store_ended;

/* Settings of a store.  Start from HWT_STORE_CONFIG_INIT, change what you need. */
typedef struct hwt_store_config {
	size_t size;        /* sizeof(hwt_store_config) */
	const char *name;   /* of this process, at most 127 bytes.  NULL: host:pid:random.  See hwt_store_start */
	const char *schema; /* prefix of tables and channels: [a-z_]{1,24}.  NULL: "hwt".  Each prefix is a store */
	unsigned threads;   /* that run tasks; 0: 4; at most 1024.  In TRANSACTION mode each has a connection */
	unsigned batch;     /* most rows in one statement; 0: 500; at most 10000 */
	int64_t lease_ns;   /* 0: 6 s; 1 s to 1 h.  How long this process may be silent before others take its shards */
	int64_t tick_ns;    /* of the timer in front; 0: 1 ms; at least 1 ms, at most 1 s */
	/* Called with a line of text on any thread of the store, which it must not call.  NULL: silent. */
	void (*warn)(void *ctx, const char *message);
	void *warn_ctx;
	uint64_t reserved[8]; /* 0 */
	/* Called for each end that this process writes; NULL: not.  See hwt_store_ended. */
	void (*ended)(void *ctx, const hwt_store_ended *ended);
	void *ended_ctx;
} hwt_store_config;

/* A task.  0: done.  An errno value: it failed, and is tried again after a back-off; after max_attempts it is FAILED
 * and kept until it is cancelled or rescheduled, with strerror() as its error.  HWT_STORE_ANSWER: as hwt_store_again,
 * _fail, _give_up or _end_series has said about this run; without that, and for other negative values, EINVAL. */
typedef int hwt_store_task(const hwt_store_run *run, void *ctx);
#define HWT_STORE_ANSWER (-1)

/* Values of hwt_store_kind.mode. */
#define HWT_STORE_AT_LEAST_ONCE 0u /* begun, run, ended; after a crash in between it runs again */
#define HWT_STORE_AT_MOST_ONCE 1u  /* after a crash in between it is FAILED, not run again; its begin costs a sync */
#define HWT_STORE_TRANSACTION 2u   /* what the task does on run->connection and the end are one transaction */
/* Of hwt_store_kind.flags. */
#define HWT_STORE_PULLED 1u /* the program fetches the runs: hwt_store_next.  Not with HWT_STORE_TRANSACTION */

/* A kind of timeouts and the task that runs them.  What a program does not set is 0.  mode, shards and horizon_ns are
 * kept in the database: what makes the kind sets them (store.md, "The three modes"). */
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

/* Flags of hwt_store_spec.  For the last three see hwt_store_put. */
#define HWT_STORE_ABSOLUTE 1u /* due_us counts, not delay_ns */
#define HWT_STORE_REPLACE 2u
#define HWT_STORE_REVIVE 4u
#define HWT_STORE_KEEP_DUE 8u
/* What is put.  What a program does not set is 0. */
typedef struct hwt_store_spec {
	size_t size; /* sizeof(hwt_store_spec) */
	const char *kind;
	const char *key;   /* NULL, or 1..255 bytes of UTF-8, unique in its kind and group: pending, running, failed */
	const void *data;  /* copied; may be NULL if len is 0 */
	size_t len;        /* at most 1 MiB */
	int64_t delay_ns;  /* from the database's now; < 0: due now */
	int64_t due_us;    /* with HWT_STORE_ABSOLUTE: 0 to the year 10000 */
	int64_t period_ns; /* 0: once; else at least 1 s, at most 100 years: on the grid of the first due time */
	unsigned flags;    /* 0, or HWT_STORE_ABSOLUTE and HWT_STORE_REPLACE, HWT_STORE_REVIVE or HWT_STORE_KEEP_DUE */
	const char *group; /* NULL, or 1..255 bytes of UTF-8 */
	int priority;      /* -100..100; 0: normal.  Of a group's that are due, the larger starts first */
	/* NULL, or a cron line of at most 127 bytes and its zone, as for hwt_store_next_time.  Then period_ns is 0, and
	 * the first time is after now and delay_ns, or after due_us with HWT_STORE_ABSOLUTE. */
	const char *schedule, *zone;
	/* 0: none; at most 100 years.  A run does not start later than so long after its time, whatever kept it; one
	 * that is tried again, after the time of that.  A single timeout is FAILED then with "too late"; a series goes
	 * on at its next time, and the run there says what it missed. */
	int64_t grace_ns;
	/* Of a series: it is due at a random moment within so long after each time of its grid, and before the next.
	 * At most period_ns.  0: none.  Grace counts from the grid, so it has to be longer. */
	int64_t spread_ns;
} hwt_store_spec;

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
	int64_t id;          /* not 0: this one, whatever the names below; with all: EINVAL */
	const char *kind;    /* of this kind */
	const char *group;   /* and of this group; NULL: without a group */
	const char *key;     /* the one with this key; NULL with all */
	bool all, any_group; /* all: of the group, or without one; with any_group: of the whole kind */
	unsigned states;     /* a set such as 1u << HWT_STORE_PENDING; others: ENOENT.  0: any; reschedule: pending */
	/* each, with all: the timeouts that come after that of this due time and id in the list, whether or not it is
	 * still there.  Both 0: from the beginning.  Elsewhere 0. */
	int64_t after_us, after_id;
} hwt_store_which;

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
	char group[256];         /* "": none */
	int priority;
	char schedule[128], zone[64]; /* "": none */
	void *data;       /* get: a buffer of the caller's, or NULL.  each: valid during the call, or NULL */
	size_t data_room; /* of that buffer */
	size_t len;       /* of the whole data; what has room is copied */
} hwt_store_info;

/* What holds for a group of a kind, in all processes together. */
typedef struct hwt_store_limits {
	size_t size;            /* sizeof(hwt_store_limits) */
	uint32_t running;       /* runs at once; 0: no limit */
	int64_t start_every_ns; /* at most one start in so long, on average; 0: no limit */
	uint32_t burst;         /* starts at once, after a rest; 0 with a rate: 1 */
} hwt_store_limits;

/*
 * Why a timeout that is due has not started.  Of PAUSE, ELSEWHERE, CAP, RATE, TURN and THREAD the first that holds is
 * told.  A retry that waits for its back-off is not due.  store.md, "Why does it not run?"
 */
typedef enum hwt_store_wait {
	HWT_STORE_STARTS,          /* it is about to */
	HWT_STORE_WAITS_THREAD,    /* for a thread, the kind's concurrency, or a pulled kind's hwt_store_next */
	HWT_STORE_WAITS_CAP,       /* as many of its group run as may */
	HWT_STORE_WAITS_RATE,      /* its group may not start the next one yet */
	HWT_STORE_WAITS_TURN,      /* for a thread, and other groups of its kind go first */
	HWT_STORE_WAITS_PAUSE,     /* its group or its kind is paused */
	HWT_STORE_WAITS_ELSEWHERE, /* runs of its group on a process that died still count */
	HWT_STORE_WAITS_RULES,     /* new rules of its kind are being read */
	HWT_STORE_WAITS_READ,      /* the process that holds its shard has not read it yet */
	HWT_STORE_WAITS_ZONE,      /* its time zone cannot be read: the tz database is missing or damaged there */
	HWT_STORE_WAITS_ROW,       /* its row is locked, damaged, refused by the database, or not visible */
	HWT_STORE_WAITS_LEASE,     /* the process could not renew its lease */
	HWT_STORE_WAITS_DATABASE,  /* the process has no connection that can write */
	HWT_STORE_WAITS_NOBODY     /* no living process runs this kind */
} hwt_store_wait;
#define HWT_STORE_WAITS 14 /* how many reasons there are */

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
	/* Due and not started, as in hwt_store_stats, of what the database knows: NOBODY is 1 if anything is due and no
	 * living process runs the kind.  The other reasons are 0, for each process knows its own. */
	uint64_t waiting[HWT_STORE_WAITS];
	int64_t waiting_oldest_ns[HWT_STORE_WAITS];
	int64_t waiting_age_ns; /* how old the oldest of what processes have written is; 0: none has, as yet */
} hwt_store_kind_info;

/* A group of a kind that has rules of its own. */
typedef struct hwt_store_group_info {
	size_t size;
	char kind[64], group[256];
	bool paused, limited;    /* limited with all limits 0: the group has none, though the kind may have */
	hwt_store_limits limits; /* with limited */
} hwt_store_group_info;

/* Numbers since the store was opened, by this process, if not said otherwise. */
typedef struct hwt_store_stats {
	size_t size;          /* set by the caller: sizeof(hwt_store_stats) */
	uint64_t put;         /* timeouts accepted; with hwt_store_put_on: perhaps rolled back later */
	uint64_t begun;       /* rows turned to running */
	uint64_t done;        /* runs that returned 0 and were ended */
	uint64_t failed;      /* timeouts that became FAILED */
	uint64_t retried;     /* runs that failed and were filed again */
	uint64_t cancelled;   /* cancels that returned 0 */
	uint64_t taken_over;  /* shards taken from a process whose lease had ended */
	uint64_t lost_leases; /* times that this process lost its own */
	uint64_t reconnects;
	uint64_t round_trips;    /* to the database */
	uint64_t window;         /* now: timeouts that wait in the timer */
	uint64_t running;        /* now: begun and not ended */
	uint64_t shards_held;    /* now */
	int64_t lateness_max_ns; /* of starts after due_us, on the process's estimate of the database's clock */
	uint64_t lateness[32];   /* runs: [0] under 1 us late, [i] 2^(i-1) to 2^i us, [31] all above */
	uint64_t set_aside; /* begins and ends that the database refused for good; they are tried again each lease */
	uint64_t overdue;   /* now: due and not started, of what this process has read */
	int64_t overdue_oldest_ns;      /* now: since when the oldest of them is due */
	int64_t lateness_minute_max_ns; /* of the tasks that started within the last minute */
	uint64_t trusted;               /* now: 1 if it is started and may begin; 0: it was silent for too long */
	uint64_t rescheduled; /* timeouts that this process has moved; with hwt_store_reschedule_on: perhaps undone */
	/* Now: due and not started, of the shards that this process holds, by hwt_store_wait; and since when the oldest
	 * of them is due.  Exact for what is in memory, as it was no longer ago than 200 looks through that take.  What
	 * is in the database alone counts as one for each group or shard; of a shard that is read late the oldest is
	 * due when the last row was that has been read, or when it was taken. */
	uint64_t waiting[HWT_STORE_WAITS];
	int64_t waiting_oldest_ns[HWT_STORE_WAITS];
} hwt_store_stats;

/* Every default above.  CONFIG: warnings on stderr.  KIND: name and task (pulled: the flag) must be set. */
/* clang-format off */
#define HWT_STORE_CONFIG_INIT \
	{ sizeof(hwt_store_config), NULL, NULL, 0, 0, 0, 0, hwt_warn_stderr, NULL, { 0, 0, 0, 0, 0, 0, 0, 0 }, NULL, \
	  NULL }
#define HWT_STORE_KIND_INIT \
	{ sizeof(hwt_store_kind), NULL, NULL, NULL, HWT_STORE_AT_LEAST_ONCE, 0, 0, 0, 0, 0, 0, 0 }
#define HWT_STORE_SPEC_INIT { sizeof(hwt_store_spec), NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL, NULL, 0, 0 }
#define HWT_STORE_WHICH_INIT { sizeof(hwt_store_which), 0, NULL, NULL, NULL, false, false, 0, 0, 0 }
#define HWT_STORE_INFO_INIT \
	{ sizeof(hwt_store_info), 0, HWT_STORE_PENDING, 0, 0, 0, "", "", "", "", "", 0, "", "", NULL, 0, 0 }
#define HWT_STORE_LIMITS_INIT { sizeof(hwt_store_limits), 0, 0, 0 }
#define HWT_STORE_STATS_INIT \
	{ sizeof(hwt_store_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
	  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 0, 0, 0, 0, 0, 0, \
	  { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 } }
/* clang-format on */

/* Opens a database, and makes the tables if there are none.  Starts no thread.  The url is one of
 *     sqlite:PATH                      a file; its folder must be writable, for the -wal and -shm files beside it
 *     postgresql://... postgres://...  as libpq takes them, with several hosts and target_session_attrs
 *     pg:key=value ...                 the same in libpq's other form
 * config NULL: HWT_STORE_CONFIG_INIT without warnings.  error, if not NULL, has a line of text when the call fails.
 * Returns  0 and *store; EINVAL: store or url is NULL, the url is of no known form, "sqlite::memory:", a field is out
 *          of range, or a store on SQLite was open when this process was forked, and this is one, too; ENOTSUP;
 *          ENOENT: no such folder or database; EIO also: it is no database; of the database.
 * Cost     a connection; the first time, the tables. */
HWT_API int hwt_store_open(hwt_store **store, const char *url, const hwt_store_config *config, char *error,
			   size_t error_len);

/* Registers a kind, with its task or as one that is pulled: this process will run its timeouts, once started.
 * Returns  0; EINVAL: a field is out of range, or the kind is in the database with another mode; EEXIST: registered
 *          already; EBUSY: the store is started; of the database. */
HWT_API int hwt_store_register(hwt_store *store, const hwt_store_kind *kind);

/* Takes a share of the shards of the registered kinds, and runs what is due in them: on config.threads threads, with
 * three more and the timer's worker to serve them.  Processes balance the shards among themselves at any time.  It
 * waits for the lease of another process of the same config.name to end, unless that one has died on this host.
 * Returns  0, also when started; EINVAL: store is NULL, or no kind is registered; ENOTSUP: a pooler in transaction
 *          mode; EEXIST: the other one of this name lives, and has renewed its lease; EBUSY: a stop has not ended; of
 *          the database; EAGAIN also: no threads.  Then nothing is started. */
HWT_API int hwt_store_start(hwt_store *store);

/* Waits for the tasks that are running, ends them in the database, and gives all shards back at once, so that others
 * need not wait for the lease to end.  When it returns no task runs, and the store can be started again.  A database
 * that is away, or a locked row, has a lease to come back: what was not ended then runs elsewhere.  While pulled runs
 * are out it is EBUSY, and nothing is begun or handed out: call it again after the last hwt_store_end.
 * Returns  0, also when not started; EBUSY: pulled runs are out; EINVAL: store is NULL; EDEADLK, with nothing changed.
 * Threads  a concurrent call waits for the first. */
HWT_API int hwt_store_stop(hwt_store *store);

/* The same, but waits no longer than ns.  Then it gives the shards back whatever still runs (without an answer of the
 * database: when the lease is over).  Tasks run on to their end, which counts unless another process has begun the
 * timeout by then.  Until they have returned hwt_store_start is EBUSY, and a stop and a close wait for them.  Pulled
 * runs count as such tasks, but a close does not wait for them.
 * Returns  0; ETIMEDOUT: call again, or close; EINVAL; EDEADLK, EAGAIN (no thread), ENOMEM, with nothing changed.
 * Cost     a thread, until the tasks have returned. */
HWT_API int hwt_store_stop_within(hwt_store *store, int64_t ns);

/* Stops the store if need be, and frees it.  No other call may be in progress or follow.  Pulled runs that are out are
 * freed, too: as after the death of this process they run elsewhere (at most once: are FAILED).
 * Returns  0; EINVAL: store is NULL; EDEADLK, with nothing changed. */
HWT_API int hwt_store_close(hwt_store *store);

/* Puts a timeout: a process that has registered the kind and is started will run it.  What becomes of a key in use:
 *     no flag            EEXIST, and *id is that of the present one, so the put may be repeated
 *     HWT_STORE_REVIVE   a FAILED one is pending again, as it is put now: 0 and its id; any other: EEXIST
 *     HWT_STORE_REPLACE  it gets all that this put says, and its attempts start from 1: 0 and its id.  Of one that is
 *                        running this holds after that run, whatever it answers and also if its process dies.  What
 *                        was begun elsewhere may start yet as it was, a moment later.  store.md, "Keys"
 *     HWT_STORE_KEEP_DUE a series gets the schedule, zone, period, data, grace, spread and priority of this put: 0 and
 *                        its id; nothing is written if they are equal.  Nothing that is due is lost: what has come, is
 *                        in back-off or runs comes to its end first.  What has come and not started has the new data
 *                        and priority, and so has what hwt_store_again has filed before any attempt failed.  A FAILED
 *                        one is pending again, at the next time of its line.  delay_ns and due_us count only if it is
 *                        not there yet.  A single timeout, or a series that was cancelled in its last run: EEXIST.  For
 *                        a series that a program declares at each start: store.md, "A series that a program declares".
 *                        Without period and schedule: EINVAL
 * These flags need a key and exclude each other (EINVAL).
 * Returns  0 and *id (may be NULL), which is never used again; EINVAL; EEXIST and *id; EDEADLK; of the database;
 *          ECONNRESET and *id: hwt_store_get tells (*id 0, with a flag for keys only: the key does).
 * Order    what the caller wrote before is visible to the task if it runs in this process.
 * Cost     a commit, shared with those of other threads. */
HWT_API int hwt_store_put(hwt_store *store, const hwt_store_spec *spec, int64_t *id);

/* Puts n timeouts, at most 10,000, in one transaction and in their order: all of them or none.  ids, if not NULL, has
 * room for n.  The specs lie specs[0].size bytes apart, and all have that size.
 * Returns  as hwt_store_put.  EEXIST: ids[0] is the id of the present one (0: it is in this call), and
 *          hwt_store_error() names the spec.  ECONNRESET: all ids are set.  n 0: 0; above 10,000: EINVAL.
 * Cost     one commit; some 20 us a row. */
HWT_API int hwt_store_put_many(hwt_store *store, const hwt_store_spec *specs, size_t n, int64_t *ids);

/* Puts a timeout in the caller's own transaction, on the caller's own sqlite3 * or PGconn * to the same database: it
 * exists if and only if that transaction commits.  Without an open transaction it is one of its own.  EEXIST and EAGAIN
 * without ids leave the transaction usable; after any other failure roll it back if its engine says so.  store.md,
 * "Transactions".
 * Returns  as hwt_store_put; EINVAL also: connection is NULL, or leads to another store, to a copy of this one or to
 *          none; EAGAIN also: no ids are in hand; EIO also: the kind is not there as this transaction sees the
 *          database.
 * Cost     a statement or two; on PostgreSQL transactions that put what is due soon commit one after the other. */
HWT_API int hwt_store_put_on(hwt_store *store, void *connection, const hwt_store_spec *spec, int64_t *id);

/* Cancels a timeout.  0 says that this very call ended it: it does not start after that, in no process.  One that is
 * FAILED is removed.  A series that is running: 0, and the run in progress is its last, whatever it answers and also if
 * its process dies; until then it counts as a single one that runs, and keeps its key.  What was to replace one that is
 * running is dropped.  hwt_store_cancel_key: the one of this kind, and of no group, that has this key now.
 * Returns  0; EBUSY: it is running, is about to start in another process, or ran on one that has died and is not taken
 *          over yet (a series: and was cancelled); ENOENT: it was never put, is done, or was cancelled; EINVAL;
 *          EDEADLK; of the database.
 * Threads  never waits for a task.
 * Cost     a commit, shared with those of other threads. */
HWT_API int hwt_store_cancel(hwt_store *store, int64_t id);
HWT_API int hwt_store_cancel_key(hwt_store *store, const char *kind, const char *key);

/* Cancels one timeout, as hwt_store_cancel does, or all of a group or kind; of those the run in progress is the last.
 * *n (may be NULL) is how many were cancelled, these included, also on failure.  Many go by slices of at most 1000, a
 * transaction each: what is put meanwhile may stay, and if the call breaks off, repeat it.
 * Returns  of one: as hwt_store_cancel.  Of many: 0, also if there are none; EINVAL; EDEADLK; of the database.
 * Cost     of many: a commit for each slice; some 20 us a row. */
HWT_API int hwt_store_cancel_ex(hwt_store *store, const hwt_store_which *which, uint64_t *n);

/* Sets another due time: delay_ns from the database's now; < 0: now.  A FAILED one is pending again, and its attempts
 * start from 1; a pending one goes on with its attempts.  One with a period gets a new grid from that time on; one with
 * a schedule runs then, and goes on by its line.  hwt_store_reschedule_ex gives one due time to all that which names.
 * Returns, Cost  as hwt_store_cancel and hwt_store_cancel_ex; EBUSY also: a series is running; EINVAL also: RUNNING in
 *          states, a due_us that is negative or after the year 10000. */
HWT_API int hwt_store_reschedule(hwt_store *store, int64_t id, int64_t delay_ns);
HWT_API int hwt_store_reschedule_ex(hwt_store *store, const hwt_store_which *which, hwt_store_when when, uint64_t *n);

/* Cancels or reschedules one timeout in the caller's own transaction, as hwt_store_put_on puts: it has happened if and
 * only if that commits, and until then the timeout does not start.  ENOENT and EBUSY leave the transaction as it was,
 * but that a cancel has dropped what was to replace one that is running.
 * Returns  as hwt_store_cancel and _reschedule_ex; EINVAL also: all is set, or as hwt_store_put_on. */
HWT_API int hwt_store_cancel_on(hwt_store *store, void *connection, const hwt_store_which *which);
HWT_API int hwt_store_reschedule_on(hwt_store *store, void *connection, const hwt_store_which *which,
				    hwt_store_when when);

/* Reads what is known of a timeout, in one round trip.
 * Returns  0 and *info, as far as info->size reaches; ENOENT; EINVAL, also: all is set; of the database. */
HWT_API int hwt_store_get(hwt_store *store, int64_t id, hwt_store_info *info);
HWT_API int hwt_store_get_key(hwt_store *store, const char *kind, const char *key, hwt_store_info *info);
HWT_API int hwt_store_get_ex(hwt_store *store, const hwt_store_which *which, hwt_store_info *info);

/* Calls each(ctx, info) for the timeouts of a kind that have no group, or for those that which names, in order of due
 * time, until there are no more or it returns false.  states is a set, as in hwt_store_which.  It reads by pages, each
 * of one moment: what moves to another time meanwhile may come out of order or twice, and not at all if that time is an
 * earlier one.  No lock is held while each runs.  A list can go on in a later call: which.after_us and after_id are the
 * due time and the id of the last row that was seen.
 * Returns  0; ENOENT: no such kind; EINVAL: states is 0 or has unknown bits; otherwise as hwt_store_get. */
HWT_API int hwt_store_each(hwt_store *store, const char *kind, unsigned states,
			   bool (*each)(void *ctx, const hwt_store_info *info), void *ctx);
HWT_API int hwt_store_each_ex(hwt_store *store, const hwt_store_which *which,
			      bool (*each)(void *ctx, const hwt_store_info *info), void *ctx);

/* Calls each(ctx, info) for all kinds, in order of their names, until it returns false; all are read in one moment.
 * Returns  0, also if there are none; EINVAL; otherwise as hwt_store_get.
 * Cost     one round trip; a probe of an index for each shard of each kind, and at most 1001 failed rows a kind. */
HWT_API int hwt_store_each_kind(hwt_store *store, bool (*each)(void *ctx, const hwt_store_kind_info *info), void *ctx);

/* Removes a kind that nobody needs, with its mode, its pause and its limits; shards and horizon stay.  A put or a
 * registration makes it again, with any mode.
 * Returns  0; EBUSY: it has timeouts, also FAILED ones, or a living process, this one too, has registered it; ENOENT;
 *          EINVAL; EDEADLK; of the database. */
HWT_API int hwt_store_remove_kind(hwt_store *store, const char *kind);

/* Sets how much of a group of a kind may run, in all processes together.  group NULL: of each group that has no limits
 * of its own.  limits NULL: those that were set go.  A group's own limits replace those of the kind, so with all of
 * them 0 it has none.  What has no group is never limited.  Once the call has returned nothing is begun under the old
 * limits, in no process; what was begun before may start until the news of them comes.  store/doc/groups.md.
 * Returns  0, also if nothing changes; ENOENT: there is no such kind; EINVAL: running or burst is above INT32_MAX,
 *          start_every_ns is negative or above 100 years, burst is set without it; EDEADLK; of the database.
 * Cost     a commit, which waits for the begins that are under way; no statement of a run. */
HWT_API int hwt_store_limit(hwt_store *store, const char *kind, const char *group, const hwt_store_limits *limits);

/* Pauses a group, or with NULL the whole kind, what has no group too: nothing of it is begun until it is resumed.  What
 * runs goes on; what is due waits, and can be cancelled and moved.  A group has its own pause beside that of the kind.
 * Returns, Cost  as hwt_store_limit. */
HWT_API int hwt_store_pause(hwt_store *store, const char *kind, const char *group);
HWT_API int hwt_store_resume(hwt_store *store, const char *kind, const char *group);

/* Calls visit(ctx, info) for the groups of a kind that are paused or have limits of their own, in order of their names,
 * until it returns false.  All are read in one moment; no lock is held while visit runs.
 * Returns  0, also if there are none; ENOENT: there is no such kind; EINVAL; otherwise as hwt_store_get.
 * Cost     one round trip; 400 bytes of memory a group. */
HWT_API int hwt_store_each_group(hwt_store *store, const char *kind,
				 bool (*visit)(void *ctx, const hwt_store_group_info *info), void *ctx);

/* The first time after after_us at which a cron line is due in a zone of the tz database ("Europe/Berlin"; NULL: UTC).
 * It needs no store.  store/doc/calendars.md has the grammar.  When it fails, error (may be NULL) names the field.
 * Returns  0 and *due_us; EINVAL: the line or the zone is wrong, there is no such time within ten years, after_us is
 *          not within the years 1970 to 9999; ENOTSUP: a zone other than UTC, and the tz database is missing; EIO: the
 *          zone's file is damaged or cannot be read; ENOMEM; EMFILE.
 * Cost     some microseconds; a zone that was not in use, some 20 us. */
HWT_API int hwt_store_next_time(const char *schedule, const char *zone, int64_t after_us, int64_t *due_us, char *error,
				size_t error_len);

/* In a run, and not in a forked child: true while no other process can have begun this timeout.
 * Threads  the task's, while it runs; of a pulled run any, until hwt_store_end.
 * Cost     a clock read and a lock. */
HWT_API bool hwt_store_is_mine(const hwt_store_run *run);

/* In a run: other answers than a number.  Each call returns HWT_STORE_ANSWER, which the task then returns, and of a
 * pulled run hwt_store_end is given: return hwt_store_again(run, HWT_S(90));  The last call counts, for this run alone.
 *     again       it runs again after delay_ns (< 0: at once), or at a series' next time if that is sooner, keeps its
 *                 due_us, and counts as no attempt.  TRANSACTION: the work is committed
 *     fail        it failed, as with an errno value, and why is its error (NULL: "failed"; cut to 255 bytes)
 *     give_up     FAILED for good, whatever attempts are left (NULL: "given up").  TRANSACTION: it is rolled back
 *     end_series  done, and no next run follows.  Of a timeout that is no series: as return 0
 * Returns  HWT_STORE_ANSWER; EINVAL: run is NULL.
 * Threads  the task's, while it runs; of a pulled run any, one at a time, until hwt_store_end. */
HWT_API int hwt_store_again(const hwt_store_run *run, int64_t delay_ns);
HWT_API int hwt_store_fail(const hwt_store_run *run, const char *why);
HWT_API int hwt_store_give_up(const hwt_store_run *run, const char *why);
HWT_API int hwt_store_end_series(const hwt_store_run *run);

/* A descriptor to poll: readable as long as hwt_store_next has a run (now and then it finds none), or would return
 * ECANCELED.  It belongs to the store, is the same at each call, and hwt_store_close closes it.  Do not read from it.
 * Returns  0 and *fd; EINVAL; EMFILE and what pipe() fails with.
 * Cost     the first call makes two descriptors; then a write for the first run that waits, a read for the last. */
HWT_API int hwt_store_fd(hwt_store *store, int *fd);

/* Hands out a run of a pulled kind that is due, if any.  It starts now; *run is valid until hwt_store_end.  Kinds take
 * turns, and within a kind groups and priorities count as for tasks.  At most kind.concurrency runs are out at once;
 * as many are begun, and what waits here is RUNNING to other processes.
 * Returns  0 and *run; EAGAIN: none now; ECANCELED: the store is not started yet, or is being stopped; EINVAL; ENOMEM.
 * Cost     a lock and some memory; no exchange with the database. */
HWT_API int hwt_store_next(hwt_store *store, hwt_store_run **run);

/* Ends a run that hwt_store_next has handed out, with what a task would return, and frees it, except on EINVAL and
 * EDEADLK.  The commit follows; but once the lease was lost the call waits until the database says whose the run was.
 * Returns  0; ESTALE: another process has begun it, or will: this answer does not count; EIO: the database refuses this
 *          end, which is tried again; EINVAL: run is NULL, or it was handed out before a fork; EDEADLK: see the table.
 * Threads  any, at any time until hwt_store_close; a run once.
 * Cost     a lock; once the lease was lost a round trip. */
HWT_API int hwt_store_end(hwt_store_run *run, int answer);

/* Writes statistics to *out, as far as out->size reaches.  A snapshot; each number is exact.  _read_kind_stats: of one
 * kind that this process has registered; what belongs to no kind is 0.
 * Returns  0; EINVAL: store or out is NULL, or out->size is too small for any number; ENOENT: it is not registered. */
HWT_API int hwt_store_read_stats(hwt_store *store, hwt_store_stats *out);
HWT_API int hwt_store_read_kind_stats(hwt_store *store, const char *kind, hwt_store_stats *out);

/* Writes all of this as text for Prometheus (text/plain; version=0.0.4), and what the database knows of each kind.
 * Bytes of a kind's name that act on a terminal are \xNN in its label.
 * Returns  as snprintf, but buf has whole lines; it may be NULL if len is 0.  Negative: -EINVAL, -ENOMEM.
 * Cost     that of hwt_store_each_kind; 6 KB for a kind. */
HWT_API int hwt_store_prometheus(hwt_store *store, char *buf, size_t len);

/* The text of this thread's last failure, "" if there was none.  Valid until the thread's next call. */
HWT_API const char *hwt_store_error(void);

#ifdef __cplusplus
}
#endif

#endif /* HWT_STORE_H */
