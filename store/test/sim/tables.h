/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A database in memory, as a server keeps it.
 *
 * A row is a chain of versions, the newest first, as in PostgreSQL: one transaction makes a version, and another ends
 * it.  A statement sees what was committed when it began, and the changes of its own transaction.  Before it changes a
 * row it locks the row, waits for other transactions that have locked it, and looks at the row again.
 *
 * A commit is in memory at once, and on the disk later, with the next commit that is synced.  A crash takes back the
 * commits that are not on the disk, the last one first.  So does a failover; the seed says how many.
 */
#ifndef HWTS_SIM_TABLES_H
#define HWTS_SIM_TABLES_H

#include "sim.h"

enum table { META, KIND, SHARD, MEMBER, RULES, TIMEOUT, EFFECT, ADVISORY, TABLES };

/*
 * The columns of each table, those with a number and those with a text: their place in struct version, their type,
 * their name in a database.  Types: n a number, b a bool; t a text, k a key, l a list of kinds.  A number has no null;
 * instead: 0 0 is null, - -1 is, N null where NEXT_BASE is 0, L where RULES_LIMITED is 0.
 */
/* clang-format off */
#define SIM_META(NUMBER, TEXT) NUMBER(META_NEXT, n, next_number, ) TEXT(META_STORE, t, store)
#define SIM_KIND(NUMBER, TEXT) \
	NUMBER(KIND_ID, n, id, ) NUMBER(KIND_SHARDS, n, shards, ) NUMBER(KIND_MODE, n, mode, -) \
	NUMBER(KIND_HORIZON, n, horizon_us, ) NUMBER(KIND_PAUSED, b, paused, ) NUMBER(KIND_RUNNING, n, running, 0) \
	NUMBER(KIND_EVERY, n, start_every_us, 0) NUMBER(KIND_BURST, n, burst, 0) \
	NUMBER(KIND_REMOVED, b, removed, 0) /* no statement of the simulation sets it */ \
	TEXT(KIND_NAME, t, name)
#define SIM_SHARD(NUMBER, TEXT) \
	NUMBER(SHARD_ID, n, id, ) NUMBER(SHARD_KIND, n, kind, ) NUMBER(SHARD_EPOCH, n, epoch, ) \
	NUMBER(SHARD_RULES, n, rules, ) TEXT(SHARD_OWNER, t, owner) TEXT(SHARD_LEVELS, k, levels)
#define SIM_MEMBER(NUMBER, TEXT) \
	NUMBER(MEMBER_INCARNATION, n, incarnation, ) NUMBER(MEMBER_UNTIL, n, until_us, ) \
	NUMBER(MEMBER_WAITS_US, n, waits_us, 0) TEXT(MEMBER_NAME, t, name) TEXT(MEMBER_KINDS, l, kinds) \
	TEXT(MEMBER_WAITS, t, waits) TEXT(MEMBER_STARTS, t, starts)
#define SIM_RULES(NUMBER, TEXT) \
	NUMBER(RULES_BUCKET, n, bucket, ) NUMBER(RULES_KIND, n, kind, ) NUMBER(RULES_PAUSED, b, paused, ) \
	NUMBER(RULES_LIMITED, b, running is not null, ) NUMBER(RULES_RUNNING, n, running, L) \
	NUMBER(RULES_EVERY, n, coalesce(start_every_us, 0), ) NUMBER(RULES_BURST, n, coalesce(burst, 0), ) \
	TEXT(RULES_NAME, k, grp)
#define SIM_TIMEOUT(NUMBER, TEXT) \
	NUMBER(ID, n, id, ) NUMBER(DUE, n, due_us, ) NUMBER(BASE, n, base_us, ) NUMBER(EPOCH, n, epoch, ) \
	NUMBER(PERIOD, n, period_us, ) NUMBER(KIND_OF, n, kind, ) NUMBER(SHARD_OF, n, shard, ) \
	NUMBER(ATTEMPT, n, attempt, ) NUMBER(STATE, n, state, ) NUMBER(PRIORITY, n, priority, ) \
	NUMBER(GRACE, n, grace_us, 0) NUMBER(SPREAD, n, spread_us, 0) NUMBER(LAST, b, last, 0) \
	NUMBER(NEXT_DUE, n, next_due_us, N) \
	NUMBER(NEXT_BASE, n, next_base_us, N) /* below 0: settings that are kept for the end of a series' run */ \
	NUMBER(NEXT_PERIOD, n, next_period_us, N) NUMBER(NEXT_PRIORITY, n, next_priority, N) \
	NUMBER(NEXT_GRACE, n, next_grace_us, 0) NUMBER(NEXT_SPREAD, n, next_spread_us, 0) \
	TEXT(KEY, k, key) TEXT(DATA, k, data) TEXT(ERROR, t, error) TEXT(GROUP, k, grp) TEXT(SCHEDULE, t, schedule) \
	TEXT(ZONE, t, zone) TEXT(NEXT_DATA, k, next_data) TEXT(NEXT_SCHEDULE, t, next_schedule) \
	TEXT(NEXT_ZONE, t, next_zone)
#define SIM_PLACE(at, ...) at,
#define SIM_NO_PLACE(...)
#define SIM_NUMBERS(columns) columns(SIM_PLACE, SIM_NO_PLACE)
#define SIM_TEXTS(columns) columns(SIM_NO_PLACE, SIM_PLACE)
enum { SIM_NUMBERS(SIM_META) };
enum { SIM_TEXTS(SIM_META) };
enum { SIM_NUMBERS(SIM_KIND) };
enum { SIM_TEXTS(SIM_KIND) };
enum { SIM_NUMBERS(SIM_SHARD) };
enum { SIM_TEXTS(SIM_SHARD) };
enum { SIM_NUMBERS(SIM_MEMBER) };
enum { SIM_TEXTS(SIM_MEMBER) };
enum { SIM_NUMBERS(SIM_RULES) };
enum { SIM_TEXTS(SIM_RULES) };
enum { SIM_NUMBERS(SIM_TIMEOUT) TX, NUMBERS };
enum { SIM_TEXTS(SIM_TIMEOUT) TEXTS };
/* clang-format on */
enum { ADVISORY_KIND, ADVISORY_MAKE, ADVISORY_LOCKS }; /* a row each */
enum { EFFECT_ITEM, EFFECT_DUE, EFFECT_MISSED, EFFECT_CHILD };

struct text {
	unsigned uses;
	size_t len;
	char bytes[];
};

struct version {
	struct version *older;
	struct tx *made, *gone; /* made NULL: long ago; gone NULL: the newest */
	int64_t n[NUMBERS];
	struct text *s[TEXTS];
};

struct lock {
	struct tx *tx;
	bool exclusive;
};

struct row {
	struct row *next;
	enum table table;
	struct version *newest;
	struct lock locks[32];
	unsigned lock_count;
	int64_t unlocked_ns; /* when a transaction that had changed the row, or would have, unlocked it */
};

/* A write of a transaction: a version that it made or ended. */
enum written { MADE, CHANGED, REMOVED };
struct write {
	struct row *row;
	struct version *version;
	enum written what;
};

struct tx {
	struct tx *next; /* in the list of committed transactions, by commit */
	uint64_t number, commit;
	int64_t commit_ns;
	bool synced, is_over;
	bool is_users; /* a user's: its locks are no fault of the store */
	bool stands;   /* the server waits for its client amid an exchange */
	bool is_ended; /* the server was told to end the connection */
	const void *client;
	int64_t began_ns;
	struct write *writes;
	size_t write_count, write_room, lock_count, lock_room;
	struct row **locked;
	struct news *news;
	int64_t lock_patience_ns;
	const struct row *waits_for;
};

struct news {
	struct news *next;
	int32_t shard; /* -1: the members have changed */
	struct hwts_due due;
};

struct sim_server {
	struct row *rows[TABLES];
	struct tx *active[256];
	unsigned active_count;
	struct tx *first, **end; /* committed and not settled */
	uint64_t next_tx, commits, on_disk;
	int64_t clock_ns; /* its clock minus simulated time */
	int64_t most_us;  /* the latest time that it has shown */
	bool is_down;
	unsigned starts;         /* connections from before a start are broken */
	int64_t slow_until_ns;   /* no answers before this time */
	int64_t user_timeout_ns; /* its tcp_user_timeout; 0: none, or its clients connect by a Unix socket */
	struct tx *snapshot;     /* a user's snapshot that is kept open; NULL: none */
	uint64_t kept;           /* the first commit that a snapshot which is kept does not see; 0: none is kept */
	unsigned unsettled, executing;
	int64_t price_ns;     /* cost of a version that an index leads to */
	int64_t rule_ns;      /* cost of reading the rules of a group */
	uint64_t read;        /* how many versions were read */
	uint64_t vain;        /* begins of rows that cannot be begun */
	bool breaks_its_word; /* a failover takes back synced commits */
	bool broke_its_word;  /* it has done so at least once */
};

extern struct sim_server sim_server;

struct tx *sim_begin_tx(int64_t lock_patience_ns);
void sim_commit_tx(struct tx *tx);
void sim_abort_tx(struct tx *tx);
struct savepoint {
	size_t writes, locks;
};
struct savepoint sim_savepoint(const struct tx *tx);
void sim_roll_back_to(struct tx *tx, struct savepoint savepoint);
int64_t sim_server_us(void);

/*
 * Ends all transactions, and takes back commits that are younger than since_ns: those that are not synced (a crash
 * forgets them for a moment only, a standby for as long as it lags), or also those that are.
 */
enum forgets { FORGETS_UNSYNCED, FAILS_OVER, FORGETS_SYNCED };
unsigned sim_crash(enum forgets forgets, int64_t since_ns);

/* A statement while it is executed. */
struct act {
	struct tx *tx;
	uint64_t sees; /* commits up to this number */
	int64_t now_us;
	const struct hwts_step *step;
	struct output *output;
	uint64_t read;      /* versions that an index leads to */
	uint64_t rules;     /* groups whose rules are read */
	bool is_unreadable; /* the statement has met a row that cannot be read */
};

const struct version *sim_see(struct act *act, const struct row *row);      /* NULL: the row is not there */
const struct version *sim_see_last(struct act *act, const struct row *row); /* of a locked row */
enum if_locked { WAITS, SKIPS };
int sim_lock(struct act *act, struct row *row, bool exclusive, enum if_locked patience); /* EBUSY: skipped */
/* Returns a copy of the locked row's version, to be changed. */
struct version *sim_change(struct act *act, struct row *row);
void sim_remove(struct act *act, struct row *row);
struct version *sim_insert(struct act *act, enum table table);
void sim_set_text(struct version *version, int at, const void *bytes, size_t len);
void sim_settle(void); /* frees versions that nobody sees any more */
void sim_add_news(struct tx *tx, int32_t shard, const struct hwts_due *due);

#define EACH_ROW(table, row) for (struct row * (row) = sim_server.rows[table]; (row); (row) = (row)->next)

/* Statements return 0, EAGAIN (a lock) or EIO. */
int sim_execute(struct tx *tx, const struct hwts_step *step, struct output *output, int64_t *took_ns);

/* Rows that statements return, until they are handed out. */
struct output_row {
	struct output_row *next;
	const struct hwts_step *step;
	struct hwts_value values[HWTS_COLUMNS];
};
struct output {
	struct output_row *first, **end;
	size_t bytes;         /* size of the answer */
	int64_t committed_ns; /* when the last step with .commits was answered; 0: there was none */
};
void sim_emit(struct act *act, const struct hwts_value *values, size_t n);
int sim_hand_out(struct output *output, bool wanted); /* calls the callbacks if wanted, and frees the rows */

/* judge.c: called as rows come and go. */
void sim_judge_gone(const struct version *version, bool again); /* again: the commit that removed it was taken back */
void sim_judge_lost(const struct version *version);             /* the commit that made it was taken back */
void sim_judge_made(const struct version *version);             /* committed */
void sim_judge_left(const struct version *version);             /* it ran on a process that has lost its shard */
/*
 * rules.c: for each row before a begin is committed; once all rows of its exchange are begun; while rules are being
 * changed.
 */
void sim_judge_begin(struct act *act, const struct version *t, const struct version *before);
void sim_judge_order(struct act *act, const struct version *begun);
void sim_note_rules(int64_t kind, const struct hwts_value *group);
/* driver.c */
void sim_send_news(struct news *news);

#endif
