/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef HWT_STORE_H
#define HWT_STORE_H

/*
 * libhwt-store: timeouts that survive a restart.  SQLite (one machine, any number of processes) or PostgreSQL (many
 * machines) keeps them.  When a process dies, another takes over its timeouts.  Timeouts that are due within seconds
 * wait in a timer of libhwt in front of the database.  A put costs a commit: a millisecond, not nanoseconds.
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
 *   group   the owner of a timeout: a tenant, a host, an account.  One process at a time runs a group's timeouts.
 *   window  the rows of the held shards that are due before now + horizon.  They wait in the process's timer.
 *   begin   turns rows that are due from pending to running, under the epoch of their shard.
 *   end     removes running rows, or files them again: for the next time of a series, after a failure, or as FAILED.
 *   series  a timeout with a period or a schedule.  The times at which it is due are its grid.
 *
 * Guarantees
 *
 *   D1 durable.  A timeout that a put accepted survives kill -9 of every process and a power cut.  (SQLite: WAL and
 *      synchronous=FULL.  PostgreSQL: as its synchronous_commit says.)
 *   D2 one end.  Each timeout is done, or is cancelled (exactly one cancel gets 0), or is FAILED and kept, however
 *      processes die.  After a power cut at the end of a run the timeout may run again (at most once: is FAILED).
 *   D3 runs.  At least once: a timeout starts once or more.  At most once: once or never.  Transaction: the changes of
 *      its task on run->connection take effect exactly once.  Two runs of one timeout never overlap while its process
 *      holds the shard.
 *   D4 never early on the database's clock (PostgreSQL: clock_timestamp(), SQLite: the wall clock), whatever the clock
 *      of the process says and however it steps.
 *   D5 take-over.  Timeouts of a dead or cut-off process run elsewhere within lease + 2 s (from the second attempt on
 *      they are pending then, and wait their back-off); after hwt_store_stop, at once.  A process whose lease cannot be
 *      trusted begins no row.  It can still end its runs, as long as no other process has begun the row.  A process
 *      that renews its lease and can do nothing else leaves its shards to others (store.md, "Cut off").
 *   D6 news.  After a cancel that returned 0 no start follows.  A timeout that any process puts or reschedules into the
 *      window reaches the holder within milliseconds; after a lost notification, at the next look-ahead, each lease/3.
 *   D7 timeouts that are far off cost nothing.  10^7 rows that are due in days slow nothing down.
 *   D8 the database away.  Running tasks go on, no row begins once the lease cannot be trusted, the store reconnects
 *      with back-off and jitter, and nothing is lost: after a restart, a failover, a full disk, a locked file.
 *   G1 limits.  No more than hwt_store_limits.running runs of a group at once, and no more starts than its rate, in all
 *      processes together, however they die, stop or join.
 *   G2 turns.  The groups of a kind that are due take turns.  Timeouts without a group are one group in each process.
 *   G3 priority.  Within a group the larger priority starts first, then the earlier due time, of the rows that the
 *      process knows.
 *   Not promised: an order between runs on several threads, nor between timeouts that are due at the same time.
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
 *   their size: fields that an older structure lacks are 0.
 *
 *     EINVAL      an argument makes no sense               EEXIST     the key, kind or name is there already
 *     ENOENT      no such timeout                          EBUSY      it is running; the store is started
 *     EDEADLK     would wait for itself                    ECANCELED  hwt_store_next: the store is not started
 *     ESTALE      hwt_store_end: another process has it    ENOTSUP    this build, pooler or version cannot do it
 *
 *   Below "of the database" stands for these errors.  Nothing happened; only after ECONNRESET that is not known:
 *
 *     EAGAIN      the database was locked for too long, or chose this call in a deadlock
 *     ECONNRESET  the connection broke during the call: call again, ENOENT or EEXIST may say what happened
 *     EACCES      no rights, rows that are hidden from this role, or a database, file or folder that may only be read
 *     EIO         the database refused the call for another reason
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

/* A run, as a task gets it.  Valid until the task returns; if hwt_store_next gave it, until hwt_store_end. */
typedef struct hwt_store_run {
	int64_t id;
	const char *kind, *key; /* key NULL: no key */
	const void *data;       /* NULL if len is 0 */
	size_t len;
	int64_t due_us;   /* the first due time, also of later attempts; of a series: the time on its grid */
	unsigned attempt; /* 1, 2, ...: begins since the put, since the last success, or since the timeout was FAILED;
			   * 0 in `ended` of what came too late and has not started */
	uint64_t missed;  /* of a series: times of its grid that were merged into this run */
	/* HWT_STORE_TRANSACTION: sqlite3 * or PGconn *, inside the transaction that also ends this run, which the task
	 * must not commit or roll back (store.md, "Transactions").  Otherwise NULL. */
	void *connection;
	const char *group; /* NULL: no group */
} hwt_store_run;

/* What became of a timeout whose run has ended. */
typedef enum hwt_store_became {
	HWT_STORE_BECAME_DONE,  /* a series goes on at its next time */
	HWT_STORE_BECAME_AGAIN, /* filed again: after a failure, or by hwt_store_again */
	HWT_STORE_BECAME_FAILED,
	HWT_STORE_BECAME_TOO_LATE,  /* did not start within its grace; a series goes on */
	HWT_STORE_BECAME_CANCELLED, /* during its run */
	HWT_STORE_BECAME_REPLACED,  /* during its run */
	HWT_STORE_BECAME_LOST,      /* another process has begun it */
	HWT_STORE_BECAME_UNKNOWN    /* the reply was lost: this process will learn no more of this run */
} hwt_store_became;

/*
 * The end of a run: for logs, a history or counters.  The thread that has written the end calls config.ended with it,
 * after the commit and never inside of a transaction.  The call holds up other ends.  It may do what a task may
 * (hwt_store_stop, hwt_store_end of a run whose lease was lost: EDEADLK), and has returned before a stop does.
 *
 * A timeout that does not run has no end by cancel, reschedule or REPLACE.  A timeout that a take-over makes FAILED has
 * one, in the process that takes it over.
 */
typedef struct hwt_store_ended {
	size_t size;              /* sizeof(hwt_store_ended) */
	const hwt_store_run *run; /* a copy, valid during the call; data and connection are NULL, len is unchanged */
	int rc;                   /* the return value of the task, perhaps HWT_STORE_ANSWER; 0 if it never started */
	const char *error;        /* NULL: none */
	int64_t started_us;       /* 0: the run never started in this process */
	int64_t ended_us;
	int64_t due_us; /* the next time of the timeout; 0: none */
	hwt_store_became became;
} hwt_store_ended;

/* Settings of a store.  Start from HWT_STORE_CONFIG_INIT, change what you need. */
typedef struct hwt_store_config {
	size_t size;        /* sizeof(hwt_store_config) */
	const char *name;   /* of this process, at most 127 bytes.  NULL: host:pid:random.  See hwt_store_start */
	const char *schema; /* prefix of tables and channels: [a-z_]{1,24}.  NULL: "hwt".  Each prefix is a store */
	unsigned threads;   /* threads that run tasks; 0: 4; at most 1024.  In TRANSACTION mode each has a connection */
	unsigned batch;     /* most rows in one statement; 0: 500; at most 10000 */
	int64_t lease_ns;   /* 0: 6 s; 1 s to 1 h.  How long this process may be silent before others take its shards */
	int64_t tick_ns;    /* of the timer in front; 0: 1 ms; at least 1 ms, at most 1 s */
	/* Called with a line of text on any thread of the store; it must not call the store.  NULL: silent. */
	void (*warn)(void *ctx, const char *message);
	void *warn_ctx;
	uint64_t reserved[8]; /* 0 */
	/* Called for each end that this process writes, see hwt_store_ended; or NULL. */
	void (*ended)(void *ctx, const hwt_store_ended *ended);
	void *ended_ctx;
} hwt_store_config;

/* A task.  Returns 0: done.  An errno value: the run failed, and the timeout is tried again after a back-off; after
 * max_attempts the timeout is FAILED and kept until it is cancelled or rescheduled, with strerror() as its error.
 * HWT_STORE_ANSWER: the answer that hwt_store_again, _fail, _give_up or _end_series gave for this run; without such a
 * call, and for other negative values, EINVAL. */
typedef int hwt_store_task(const hwt_store_run *run, void *ctx);
#define HWT_STORE_ANSWER (-1)

/* Values of hwt_store_kind.mode. */
#define HWT_STORE_AT_LEAST_ONCE 0u /* begun, run, ended; after a crash in between the timeout runs again */
#define HWT_STORE_AT_MOST_ONCE 1u  /* after a crash in between it is FAILED, not run again; a begin costs a sync */
#define HWT_STORE_TRANSACTION 2u   /* the changes of the task on run->connection and the end are one transaction */
/* Of hwt_store_kind.flags. */
#define HWT_STORE_PULLED 1u /* the program fetches the runs: hwt_store_next.  Not with HWT_STORE_TRANSACTION */

/* A kind of timeouts and the task that runs them.  Fields that a program does not set are 0.  mode, shards and
 * horizon_ns are kept in the database: the call that makes the kind sets them (store.md, "The three modes"). */
typedef struct hwt_store_kind {
	size_t size;          /* sizeof(hwt_store_kind) */
	const char *name;     /* 1..63 bytes of UTF-8 */
	hwt_store_task *task; /* not NULL; NULL for a pulled kind */
	void *ctx;
	unsigned mode;
	unsigned shards;        /* 0: 8; at most 1024.  At least the number of processes that share the work */
	unsigned concurrency;   /* runs of this kind at once in this process; 0: as many as threads */
	unsigned max_attempts;  /* 0: 20.  Starts count, also if the process dies in the run */
	int64_t horizon_ns;     /* 0: 5 s, or 2/3 of the lease if that is more; at least 2/3 of the lease */
	int64_t backoff_ns;     /* after the first failure, doubled each time, with jitter; 0: 1 s */
	int64_t backoff_max_ns; /* 0: 1 h */
	unsigned flags;         /* 0, or HWT_STORE_PULLED */
} hwt_store_kind;

/* Flags of hwt_store_spec.  For the last three see hwt_store_put. */
#define HWT_STORE_ABSOLUTE 1u /* due_us holds, not delay_ns */
#define HWT_STORE_REPLACE 2u
#define HWT_STORE_REVIVE 4u
#define HWT_STORE_KEEP_DUE 8u
/* A timeout to put.  Fields that a program does not set are 0. */
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
	int priority;      /* -100..100; 0: normal.  Among a group's due timeouts the larger starts first */
	/* NULL, or a cron line of at most 127 bytes and its zone, as for hwt_store_next_time.  Then period_ns is 0, and
	 * the first time is after now and delay_ns, or after due_us with HWT_STORE_ABSOLUTE. */
	const char *schedule, *zone;
	/* 0: none; at most 100 years.  A run starts at most grace_ns after its time, whatever kept it; a retry, after
	 * the time of the retry.  Otherwise a single timeout is FAILED with "too late", which is no attempt; a series
	 * goes on at its next time, and run->missed of the next run counts the time.  That is judged when the turn of
	 * the timeout comes: behind a pause, a cap or a rate it is pending until then. */
	int64_t grace_ns;
	/* Of a series: it is due at a random moment at most spread_ns after each time of its grid, and before the next
	 * time.  At most period_ns.  0: none.  Grace counts from the grid, so grace_ns has to be larger. */
	int64_t spread_ns;
} hwt_store_spec;

#define HWT_STORE_DATA_MAX ((size_t)1048576) /* bytes in hwt_store_spec.len */
typedef enum hwt_store_state {
	HWT_STORE_PENDING = 1,
	HWT_STORE_RUNNING, /* begun, perhaps by a process that has died and whose shards are not taken yet */
	HWT_STORE_FAILED   /* kept, not tried again */
} hwt_store_state;
#define HWT_STORE_WITH_DATA (1u << 31) /* in the states of hwt_store_each and hwt_store_each_ex: reads the data, too */

/* Which timeouts a call is about.  Fields that a program does not set are 0. */
typedef struct hwt_store_which {
	size_t size;         /* sizeof(hwt_store_which) */
	int64_t id;          /* not 0: the timeout with this id, whatever the names below; with all: EINVAL */
	const char *kind;    /* of this kind */
	const char *group;   /* and of this group; NULL: without a group */
	const char *key;     /* the timeout with this key; NULL with all */
	bool all, any_group; /* all: of the group, or without a group; with any_group: of the whole kind */
	unsigned states; /* a set such as 1u << HWT_STORE_PENDING; other states: ENOENT.  0: any; reschedule: pending */
	/* hwt_store_each_ex with all: the list goes on behind the place of this due time and id, whether or not that
	 * timeout is still there.  Both 0: from the beginning.  In other calls 0. */
	int64_t after_us, after_id;
} hwt_store_which;

/* A due time: due_us, if that is not 0; otherwise delay_ns from the database's now (< 0: now). */
typedef struct hwt_store_when {
	int64_t delay_ns, due_us;
} hwt_store_when;

/* A timeout as the database has it.  Strings that are too long are cut. */
typedef struct hwt_store_info {
	size_t size; /* set by the caller: sizeof(hwt_store_info) */
	int64_t id;
	hwt_store_state state;
	unsigned attempt; /* begins so far, as in hwt_store_run */
	int64_t due_us;
	int64_t period_ns;
	char kind[64], key[256]; /* key "": no key */
	char owner[128];         /* the process that holds its shard, "": none */
	char error[256];         /* of the last failure, "": none */
	char group[256];         /* "": none */
	int priority;
	char schedule[128], zone[64]; /* "": none */
	void *data;                   /* get: a buffer of the caller, or NULL.  each: valid during the call, or NULL */
	size_t data_room;             /* size of that buffer */
	size_t len;                   /* of the whole data; as much as fits is copied */
} hwt_store_info;

/* Limits of a group of a kind, in all processes together. */
typedef struct hwt_store_limits {
	size_t size;            /* sizeof(hwt_store_limits) */
	uint32_t running;       /* runs at once; 0: no limit */
	int64_t start_every_ns; /* at most one start in this time, on average; 0: no limit */
	uint32_t burst;         /* starts at once, after a rest; 0 with a rate: 1 */
} hwt_store_limits;

/*
 * Why a timeout that is due has not started.  Of PAUSE, ELSEWHERE, CAP, RATE, TURN and THREAD the first that holds is
 * reported.  A retry that waits for its back-off is not due.  store.md, "Why does it not run?"
 */
typedef enum hwt_store_wait {
	HWT_STORE_STARTS,          /* it is about to start */
	HWT_STORE_WAITS_THREAD,    /* for a thread, the kind's concurrency, or a pulled kind's hwt_store_next */
	HWT_STORE_WAITS_CAP,       /* as many timeouts of its group run as may */
	HWT_STORE_WAITS_RATE,      /* the rate of its group allows no start yet */
	HWT_STORE_WAITS_TURN,      /* for a thread; other groups of its kind are before it */
	HWT_STORE_WAITS_PAUSE,     /* its group or its kind is paused */
	HWT_STORE_WAITS_ELSEWHERE, /* runs of its group on a process that died still count */
	HWT_STORE_WAITS_RULES,     /* new rules of its kind are being read */
	HWT_STORE_WAITS_READ,      /* the process that holds its shard has not read it yet */
	HWT_STORE_WAITS_ZONE,      /* its time zone cannot be read: the tz database is missing or damaged there */
	HWT_STORE_WAITS_ROW,       /* its row is locked, damaged, refused by the database, or not visible */
	HWT_STORE_WAITS_LEASE,     /* the process could not renew its lease, or gives its shard to another */
	HWT_STORE_WAITS_DATABASE,  /* the process has no connection that can write */
	HWT_STORE_WAITS_NOBODY     /* no living process runs this kind */
} hwt_store_wait;
#define HWT_STORE_WAITS 14 /* how many reasons there are */

/* A kind as the database has it. */
typedef struct hwt_store_kind_info {
	size_t size;
	char kind[64];
	unsigned mode, shards; /* as in hwt_store_kind; mode 0 also: not registered yet */
	bool paused;
	uint32_t processes;          /* living processes that are started and have registered the kind */
	uint64_t failed;             /* exact to 1000; 1001: more */
	int64_t oldest_due_us;       /* of its pending timeouts; 0: none */
	hwt_store_limits each_group; /* of each group without limits of its own */
	/* Due and not started, as in hwt_store_stats, of all living processes.  Each tells its own when it renews its
	 * lease, in at most 2 KiB, the kinds with the oldest first.  STARTS is 0.  In shards that no living process
	 * holds nobody counts timeouts: each with something due is one more of LEASE, or NOBODY is 1 if no living
	 * process runs the kind either. */
	uint64_t waiting[HWT_STORE_WAITS];
	int64_t waiting_oldest_ns[HWT_STORE_WAITS];
	int64_t waiting_age_ns;  /* for how long what a process told has been the same, the longest; 0: none told any */
	uint64_t started_minute; /* runs that living processes started in the minute before they renewed their leases */
} hwt_store_kind_info;

/* A group of a kind that has rules of its own. */
typedef struct hwt_store_group_info {
	size_t size;
	char kind[64], group[256];
	bool paused, limited; /* limited, with all limits 0: the group has no limits, though the kind may have some */
	hwt_store_limits limits; /* with limited */
} hwt_store_group_info;

/* Counts of this process since the store was opened, unless a comment says otherwise. */
typedef struct hwt_store_stats {
	size_t size;          /* set by the caller: sizeof(hwt_store_stats) */
	uint64_t put;         /* timeouts accepted; by hwt_store_put_on perhaps rolled back later */
	uint64_t begun;       /* rows turned to running */
	uint64_t done;        /* runs that returned 0 and were ended */
	uint64_t failed;      /* timeouts that became FAILED */
	uint64_t retried;     /* runs that failed and were filed again */
	uint64_t cancelled;   /* cancels that returned 0 */
	uint64_t taken_over;  /* shards taken from a process whose lease had ended */
	uint64_t lost_leases; /* how often this process lost its lease */
	uint64_t reconnects;
	uint64_t round_trips;           /* to the database */
	uint64_t window;                /* now: timeouts that wait in the timer */
	uint64_t running;               /* now: begun and not ended */
	uint64_t shards_held;           /* now */
	int64_t lateness_max_ns;        /* of starts after due_us, on the process's estimate of the database's clock */
	uint64_t lateness[32];          /* runs: [0] less than 1 us late, [i] 2^(i-1) to 2^i us, [31] all later ones */
	uint64_t set_aside;             /* begins and ends that the database refuses; tried again each lease */
	uint64_t overdue;               /* now: due and not started, among the rows that this process has read */
	int64_t overdue_oldest_ns;      /* now: how long the oldest of these has been due */
	int64_t lateness_minute_max_ns; /* of the tasks that started within the last minute */
	uint64_t trusted;               /* now: 1: started, and may begin rows; 0: silent for too long */
	uint64_t rescheduled; /* timeouts that this process has moved; by hwt_store_reschedule_on perhaps undone */
	/* Now: due and not started, in the shards that this process holds, by hwt_store_wait; and how long the oldest
	 * has been due.  For timeouts in memory the counts are exact, but may be as old as 200 times what counting
	 * takes.  Timeouts that are in the database alone count as one for each group or shard.  A shard that is read
	 * late has been due since the last row that was read was due, or since the shard was taken. */
	uint64_t waiting[HWT_STORE_WAITS];
	int64_t waiting_oldest_ns[HWT_STORE_WAITS];
} hwt_store_stats;

/* The defaults above.  CONFIG: warnings on stderr.  KIND: name and task (pulled: the flag) must be set. */
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
 *          of range, or a store on SQLite was open when this process was forked and the url is SQLite's; ENOTSUP;
 *          ENOENT: no such folder or database; EIO also: the file is no database; of the database.
 * Cost     a connection; the first time, the tables. */
HWT_API int hwt_store_open(hwt_store **store, const char *url, const hwt_store_config *config, char *error,
			   size_t error_len);

/* Registers a kind, with its task or as pulled: this process runs the kind's timeouts once the store is started.
 * Returns  0; EINVAL: a field is out of range, or the kind is in the database with another mode; EEXIST: registered
 *          already; EBUSY: the store is started; of the database. */
HWT_API int hwt_store_register(hwt_store *store, const hwt_store_kind *kind);

/* Takes a share of the shards of the registered kinds, and runs their due timeouts on config.threads threads.  Three
 * more threads and the timer's worker serve these.  Processes balance the shards among themselves at any time.  If the
 * row of another process has the same config.name, the call waits for that lease to end, unless that process has died
 * on this host.
 * Returns  0, also when started; EINVAL: store is NULL, or no kind is registered; ENOTSUP: a pooler in transaction
 *          mode; EEXIST: a living process has this name, and renews its lease; EBUSY: a stop has not ended; of
 *          the database; EAGAIN also: no threads.  Then nothing is started. */
HWT_API int hwt_store_start(hwt_store *store);

/* Waits for the running tasks, commits their ends, and gives all shards back at once, so that other processes need not
 * wait for the lease to end.  When the call returns no task runs, and the store can be started again.  If the database
 * is away or a row is locked, the call waits for a lease: runs without a committed end then run elsewhere.  While
 * pulled runs are out the call is EBUSY, and no row is begun or handed out: call it again after the last hwt_store_end.
 * Returns  0, also when not started; EBUSY: pulled runs are out; EINVAL: store is NULL; EDEADLK, with nothing changed.
 * Threads  a concurrent call waits for the first. */
HWT_API int hwt_store_stop(hwt_store *store);

/* As hwt_store_stop, but waits at most ns.  After that the shards are given back whatever still runs (if the database
 * does not answer: when the lease is over).  Tasks run on; their ends count unless another process has begun the
 * timeout by then.  Until all tasks have returned hwt_store_start is EBUSY, and a stop and a close wait for them.
 * Pulled runs count as such tasks, but a close does not wait for them.
 * Returns  0; ETIMEDOUT: call again, or close; EINVAL; EDEADLK, EAGAIN (no thread), ENOMEM, with nothing changed.
 * Cost     a thread, until the tasks have returned. */
HWT_API int hwt_store_stop_within(hwt_store *store, int64_t ns);

/* Stops the store if it is started, and frees it.  No other call may be in progress or follow.  Pulled runs that are
 * out are freed, too: they run elsewhere, as after the death of this process (at most once: they are FAILED).
 * Returns  0; EINVAL: store is NULL; EDEADLK, with nothing changed. */
HWT_API int hwt_store_close(hwt_store *store);

/* Puts a timeout: a process that has registered the kind and is started will run it.  If a present timeout has the key:
 *     no flag            EEXIST, and *id is the present timeout's id, so the put may be repeated
 *     HWT_STORE_REVIVE   a FAILED timeout is pending again with the settings of this put: 0 and its id.  Any other:
 *                        EEXIST
 *     HWT_STORE_REPLACE  the present timeout gets all settings of this put, attempts start from 1: 0 and its id.  If it
 *                        is running, the settings hold after that run, whatever the run answers and also if its process
 *                        dies.  If it was begun in another process and has not started, it may still start with the
 *                        old settings, a moment later (pulled: within a third of a lease).  store.md, "Keys"
 *     HWT_STORE_KEEP_DUE a series gets the schedule, zone, period, data, grace, spread and priority of this put: 0 and
 *                        its id; nothing is written if they are equal.  No due time is lost: a run that is due, in
 *                        back-off or running comes to its end with the old settings.  But a run that is due and has
 *                        not started has the new data and priority, as has a run that hwt_store_again has filed before
 *                        any attempt failed.  A FAILED series is pending again, at the next time of its line.  delay_ns
 *                        and due_us hold only for a new timeout.  A single timeout, or a series that was cancelled in
 *                        its last run: EEXIST.  For a series that a program declares at each start: store.md, "A series
 *                        that a program declares".  Without period and schedule: EINVAL
 * These flags need a key and exclude each other (EINVAL).
 * Returns  0 and *id (may be NULL), which is never used again; EINVAL; EEXIST and *id; EDEADLK; of the database;
 *          ECONNRESET and *id: hwt_store_get says whether the timeout was put (*id 0, only with a flag for keys:
 *          hwt_store_get_key does).
 * Order    writes of the caller before the call are visible to the task if the task runs in this process.
 * Cost     a commit, shared with puts of other threads. */
HWT_API int hwt_store_put(hwt_store *store, const hwt_store_spec *spec, int64_t *id);

/* Puts n timeouts, at most 10,000, in one transaction and in their order: all of them or none.  ids, if not NULL, has
 * room for n.  The specs lie specs[0].size bytes apart, and all have that size.
 * Returns  as hwt_store_put.  EEXIST: ids[0] is the id of the present timeout (0: it is in this call), and
 *          hwt_store_error() names the spec.  ECONNRESET: all ids are set.  n 0: 0; above 10,000: EINVAL.
 * Cost     one commit; some 20 us a row. */
HWT_API int hwt_store_put_many(hwt_store *store, const hwt_store_spec *specs, size_t n, int64_t *ids);

/* Puts a timeout in the caller's own transaction, on the caller's own sqlite3 * or PGconn * to the same database: the
 * timeout exists if and only if that transaction commits.  Without an open transaction the put is a transaction of its
 * own.  EEXIST and EAGAIN without ids leave the transaction usable; after any other failure roll it back if the engine
 * says so.  store.md, "Transactions".
 * Returns  as hwt_store_put; EINVAL also: connection is NULL, or leads to another store, to a copy of this one or to
 *          none; EAGAIN also: no ids are in hand; EIO also: this transaction does not see the kind.
 * Cost     a statement or two; on PostgreSQL transactions that put timeouts due soon commit one after the other. */
HWT_API int hwt_store_put_on(hwt_store *store, void *connection, const hwt_store_spec *spec, int64_t *id);

/* Cancels a timeout.  0 says that this very call ended it: it starts in no process after that.  A FAILED timeout is
 * removed.  A series that is running: 0, and the run in progress is its last, whatever the run answers and also if its
 * process dies; until then it counts as a single timeout that runs, and keeps its key.  The replacement of a running
 * timeout is dropped.  hwt_store_cancel_key: the timeout of this kind, without a group, that has this key now.
 * Returns  0; EBUSY: it is running, is about to start in another process, or ran in a process that has died and whose
 *          shards are not taken yet (a series: and was cancelled); ENOENT: it was never put, is done, or was cancelled;
 *          EINVAL; EDEADLK; of the database.
 * Threads  never waits for a task.
 * Cost     a commit, shared with cancels of other threads. */
HWT_API int hwt_store_cancel(hwt_store *store, int64_t id);
HWT_API int hwt_store_cancel_key(hwt_store *store, const char *kind, const char *key);

/* Cancels one timeout, as hwt_store_cancel does, or all of a group or kind; with all, a run in progress becomes the
 * last of its timeout.  *n (may be NULL) is how many were cancelled, those included, also on failure.  Many are
 * cancelled in slices of at most 1000, each in a transaction: timeouts that are put meanwhile may stay.  If the call
 * breaks off, repeat it.
 * Returns  one: as hwt_store_cancel.  Many: 0, also if there are none; EINVAL; EDEADLK; of the database.
 * Cost     many: a commit for each slice; some 20 us a row. */
HWT_API int hwt_store_cancel_ex(hwt_store *store, const hwt_store_which *which, uint64_t *n);

/* Sets another due time: delay_ns from the database's now; < 0: now.  A FAILED timeout is pending again, and its
 * attempts start from 1; a pending timeout goes on with its attempts.  A timeout with a period gets a new grid from
 * that time on; a timeout with a schedule runs then, and goes on by its line.  hwt_store_reschedule_ex gives one due
 * time to all timeouts that which names.
 * Returns, Cost  as hwt_store_cancel and hwt_store_cancel_ex; EBUSY also: a series is running; EINVAL also: RUNNING in
 *          states, a due_us that is negative or after the year 10000. */
HWT_API int hwt_store_reschedule(hwt_store *store, int64_t id, int64_t delay_ns);
HWT_API int hwt_store_reschedule_ex(hwt_store *store, const hwt_store_which *which, hwt_store_when when, uint64_t *n);

/* Cancels or reschedules one timeout in the caller's own transaction, as hwt_store_put_on puts: the change holds if and
 * only if that transaction commits, and until then the timeout does not start.  ENOENT and EBUSY leave the transaction
 * as it was, except that a cancel has dropped the replacement of a running timeout.
 * Returns  as hwt_store_cancel and _reschedule_ex; EINVAL also: which->all is set, or as hwt_store_put_on. */
HWT_API int hwt_store_cancel_on(hwt_store *store, void *connection, const hwt_store_which *which);
HWT_API int hwt_store_reschedule_on(hwt_store *store, void *connection, const hwt_store_which *which,
				    hwt_store_when when);

/* Reads a timeout, in one round trip.
 * Returns  0 and *info, as far as info->size reaches; ENOENT; EINVAL also: which->all is set; of the database. */
HWT_API int hwt_store_get(hwt_store *store, int64_t id, hwt_store_info *info);
HWT_API int hwt_store_get_key(hwt_store *store, const char *kind, const char *key, hwt_store_info *info);
HWT_API int hwt_store_get_ex(hwt_store *store, const hwt_store_which *which, hwt_store_info *info);

/* Calls each(ctx, info) for the timeouts of a kind that have no group, or for those that which names, in order of due
 * time, until there are no more or each returns false.  states is a set, as in hwt_store_which.  The list is read in
 * pages, each at one moment: a timeout that is moved meanwhile may come out of order or twice, and not at all if it is
 * moved to an earlier time.  No lock is held while each runs.  A list can go on in a later call: which.after_us and
 * after_id are the due time and the id of the last row that was seen.
 * Returns  0; ENOENT: no such kind; EINVAL: states is 0 or has unknown bits; otherwise as hwt_store_get. */
HWT_API int hwt_store_each(hwt_store *store, const char *kind, unsigned states,
			   bool (*each)(void *ctx, const hwt_store_info *info), void *ctx);
HWT_API int hwt_store_each_ex(hwt_store *store, const hwt_store_which *which,
			      bool (*each)(void *ctx, const hwt_store_info *info), void *ctx);

/* Calls each(ctx, info) for all kinds, in order of their names, until each returns false; all are read at one moment.
 * Returns  0, also if there are none; EINVAL; otherwise as hwt_store_get.
 * Cost     one round trip; a probe of an index for each shard of each kind, and at most 1001 failed rows a kind. */
HWT_API int hwt_store_each_kind(hwt_store *store, bool (*each)(void *ctx, const hwt_store_kind_info *info), void *ctx);

/* Removes a kind that is no longer needed, with its mode, pause and limits; shards and horizon stay.  A put or a
 * registration makes the kind again, with any mode.
 * Returns  0; EBUSY: it has timeouts, also FAILED ones, or a living process, this one too, has registered it; ENOENT;
 *          EINVAL; EDEADLK; of the database. */
HWT_API int hwt_store_remove_kind(hwt_store *store, const char *kind);

/* Limits a group of a kind, in all processes together.  group NULL: limits each group without limits of its own.
 * limits NULL: removes the limits.  A group's own limits replace those of the kind, so a group with all of them 0 has
 * none.  Timeouts without a group are never limited.  Once the call has returned no process begins a row under the old
 * limits; a row that was begun before may start until the news comes.  store/doc/groups.md.
 * Returns  0, also if nothing changes; ENOENT: there is no such kind; EINVAL: running or burst is above INT32_MAX,
 *          start_every_ns is negative or above 100 years, burst is set without start_every_ns; EDEADLK; of the
 *          database.
 * Cost     a commit, which waits for the begins that are under way; a run costs no statement more. */
HWT_API int hwt_store_limit(hwt_store *store, const char *kind, const char *group, const hwt_store_limits *limits);

/* Pauses a group, or with NULL the whole kind with its timeouts without a group: none is begun until it is resumed.
 * Runs go on; due timeouts wait, and can be cancelled and moved.  A group has its own pause beside that of the kind.
 * Returns, Cost  as hwt_store_limit. */
HWT_API int hwt_store_pause(hwt_store *store, const char *kind, const char *group);
HWT_API int hwt_store_resume(hwt_store *store, const char *kind, const char *group);

/* Calls visit(ctx, info) for the groups of a kind that are paused or have limits of their own, in order of their names,
 * until visit returns false.  All are read at one moment; no lock is held while visit runs.
 * Returns  0, also if there are none; ENOENT: there is no such kind; EINVAL; otherwise as hwt_store_get.
 * Cost     one round trip; 400 bytes of memory a group. */
HWT_API int hwt_store_each_group(hwt_store *store, const char *kind,
				 bool (*visit)(void *ctx, const hwt_store_group_info *info), void *ctx);

/* The first time after after_us at which a cron line is due in a zone of the tz database ("Europe/Berlin"; NULL: UTC).
 * The call needs no store.  store/doc/calendars.md has the grammar.  On failure error (may be NULL) names the field.
 * Returns  0 and *due_us; EINVAL: the line or the zone is wrong, there is no such time within ten years, after_us is
 *          not within the years 1970 to 9999; ENOTSUP: a zone other than UTC, and the tz database is missing; EIO: the
 *          zone's file is damaged or cannot be read; ENOMEM; EMFILE.
 * Cost     some microseconds; a zone that was not in use, some 20 us. */
HWT_API int hwt_store_next_time(const char *schedule, const char *zone, int64_t after_us, int64_t *due_us, char *error,
				size_t error_len);

/* In a run, and not in a forked child: true as long as no other process can have begun this timeout.
 * Threads  the task's, while it runs; of a pulled run any, until hwt_store_end.
 * Cost     a clock read and a lock. */
HWT_API bool hwt_store_is_mine(const hwt_store_run *run);

/* In a run: other answers than a number.  Each call returns HWT_STORE_ANSWER, which the task returns, or a program
 * passes to hwt_store_end: return hwt_store_again(run, HWT_S(90));  The last call counts, for this run alone.
 *     again       the timeout runs again after delay_ns (< 0: at once), or at a series' next time if that is sooner,
 *                 and keeps its due_us; the run counts as no attempt.  TRANSACTION: the work is committed
 *     fail        the run failed, as with an errno value, and why is its error (NULL: "failed"; cut to 255 bytes)
 *     give_up     FAILED for good, whatever attempts are left (NULL: "given up").  TRANSACTION: the work is rolled back
 *     end_series  done, and no next run follows.  A timeout that is no series: as return 0
 * Returns  HWT_STORE_ANSWER; EINVAL: run is NULL.
 * Threads  the task's, while it runs; of a pulled run any, one at a time, until hwt_store_end. */
HWT_API int hwt_store_again(const hwt_store_run *run, int64_t delay_ns);
HWT_API int hwt_store_fail(const hwt_store_run *run, const char *why);
HWT_API int hwt_store_give_up(const hwt_store_run *run, const char *why);
HWT_API int hwt_store_end_series(const hwt_store_run *run);

/* A descriptor to poll: readable as long as hwt_store_next has a run (now and then it finds none), or would return
 * ECANCELED.  The descriptor belongs to the store, is the same at each call, and is closed by hwt_store_close.  Do not
 * read from it.
 * Returns  0 and *fd; EINVAL; EMFILE and what pipe() fails with.
 * Cost     the first call makes two descriptors; then a write for the first run that waits, a read for the last. */
HWT_API int hwt_store_fd(hwt_store *store, int *fd);

/* Hands out a due run of a pulled kind, if there is any.  The run starts now; *run is valid until hwt_store_end.  Kinds
 * take turns, and within a kind groups and priorities count as for tasks.  At most kind.concurrency rows are begun at
 * once, runs that are out included; rows that still wait for this call are RUNNING to other processes, too.
 * They are read again and again: a series that another process cancelled a third of a lease ago, or earlier, is not
 * handed out.
 * Returns  0 and *run; EAGAIN: none now; ECANCELED: the store is not started yet, or is being stopped; EINVAL; ENOMEM.
 * Cost     a lock and some memory; no exchange with the database. */
HWT_API int hwt_store_next(hwt_store *store, hwt_store_run **run);

/* Ends a run that hwt_store_next has handed out, with the answer that a task would return, and frees it, except on
 * EINVAL and EDEADLK.  The commit follows later; but once the lease was lost, the call waits until the database says
 * whether the row is still this run's.
 * Returns  0; ESTALE: another process has begun the row, or will: this answer does not count; EIO: the database refuses
 *          this end, which is tried again; EINVAL: run is NULL, or was handed out before a fork; EDEADLK: see the
 *          table.
 * Threads  any, at any time until hwt_store_close; a run once.
 * Cost     a lock; once the lease was lost a round trip. */
HWT_API int hwt_store_end(hwt_store_run *run, int answer);

/* Writes statistics to *out, as far as out->size reaches.  A snapshot; each number is exact.  _read_kind_stats: of one
 * kind that this process has registered; numbers that belong to no kind are 0.
 * Returns  0; EINVAL: store or out is NULL, or out->size is too small for any number; ENOENT: not registered. */
HWT_API int hwt_store_read_stats(hwt_store *store, hwt_store_stats *out);
HWT_API int hwt_store_read_kind_stats(hwt_store *store, const char *kind, hwt_store_stats *out);

/* Writes these statistics as text for Prometheus (text/plain; version=0.0.4), with the database's numbers of each kind.
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
