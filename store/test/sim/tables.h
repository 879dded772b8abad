/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A database in memory as a server keeps it.
 *
 * A row is a chain of versions, the newest first, as PostgreSQL has them: a version is made by one transaction and ended
 * by another.  A statement sees what was committed when it began, and what its own transaction has made.  It locks a row
 * that it changes, waits for others that have it, and looks at it again then.
 *
 * A commit is in memory at once and on the disk later, with the next commit that is synced.  A crash takes back what is
 * not on the disk, in the reverse order; so does a failover, of which the seed says how much.
 */
#ifndef HWTS_SIM_TABLES_H
#define HWTS_SIM_TABLES_H

#include "sim.h"

enum table { META, KIND, SHARD, MEMBER, RULES, TIMEOUT, EFFECT, ADVISORY, TABLES };

/* Numbers and texts of a row, by table. */
enum { META_NEXT, META_STORE = 0 };
enum {
	KIND_ID,
	KIND_SHARDS,
	KIND_MODE, /* -1: null */
	KIND_HORIZON,
	KIND_PAUSED,
	KIND_RUNNING, /* 0: null, and so are the others */
	KIND_EVERY,
	KIND_BURST,
	KIND_NAME = 0
};
enum { SHARD_ID, SHARD_KIND, SHARD_EPOCH, SHARD_RULES, SHARD_OWNER = 0, SHARD_LEVELS };
enum { RULES_BUCKET, RULES_KIND, RULES_PAUSED, RULES_LIMITED, RULES_RUNNING, RULES_EVERY, RULES_BURST, RULES_NAME = 0 };
enum { MEMBER_INCARNATION, MEMBER_UNTIL, MEMBER_NAME = 0, MEMBER_KINDS };
enum {
	ID,
	DUE,
	BASE,
	EPOCH,
	PERIOD,
	KIND_OF,
	SHARD_OF,
	ATTEMPT,
	STATE,
	TX,
	PRIORITY,
	GRACE,
	SPREAD,
	LAST,     /* 0: null */
	NEXT_DUE,
	NEXT_BASE, /* 0: null, and so are the others; less: they are kept for the end of a series' run */
	NEXT_PERIOD,
	NEXT_PRIORITY,
	NEXT_GRACE,
	NEXT_SPREAD,
	NUMBERS,
	KEY = 0,
	DATA,
	ERROR,
	GROUP,
	SCHEDULE,
	ZONE,
	NEXT_DATA,
	NEXT_SCHEDULE,
	NEXT_ZONE,
	TEXTS
};
enum { ADVISORY_KIND, ADVISORY_MAKE, ADVISORY_LOCKS }; /* each a row */
enum { EFFECT_ITEM, EFFECT_DUE, EFFECT_MISSED, EFFECT_CHILD };

struct text {
	unsigned uses;
	size_t len;
	char bytes[];
};

struct version {
	struct version *older;
	struct tx *made, *gone; /* made NULL: long ago; gone NULL: it is the last */
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
	int64_t unlocked_ns; /* by one that had changed, or would have */
};

/* What a transaction has written: a version that it made, or ended. */
enum written { MADE, CHANGED, REMOVED };
struct write {
	struct row *row;
	struct version *version;
	enum written what;
};

struct tx {
	struct tx *next; /* of those committed, by number of the commit */
	uint64_t number, commit;
	int64_t commit_ns;
	bool synced, is_over;
	bool is_users; /* for a lock in a user's transaction nobody is to blame */
	bool stands;   /* the server waits for its client, in the middle of an exchange */
	bool is_ended; /* and is told to end that connection */
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
	int32_t shard; /* -1: the members */
	struct hwts_due due;
};

struct sim_server {
	struct row *rows[TABLES];
	struct tx *active[256];
	unsigned active_count;
	struct tx *first, **end; /* committed and not settled */
	uint64_t next_tx, commits, on_disk;
	int64_t clock_ns; /* its clock, less simulated time */
	int64_t most_us;  /* that it has shown */
	bool is_down;
	unsigned starts;         /* connections of before are broken */
	int64_t slow_until_ns;   /* it answers nothing before that */
	int64_t user_timeout_ns; /* its tcp_user_timeout; 0: none, or its clients come by a socket of its machine */
	struct tx *snapshot;     /* a user's, that is kept open; NULL: none */
	uint64_t kept;           /* commits that somebody's snapshot does not see begin here; 0: none */
	unsigned unsettled, executing;
	int64_t price_ns;     /* of a version to which an index leads */
	int64_t rule_ns;      /* to read the rules of a group */
	uint64_t read;        /* so many */
	uint64_t vain;        /* begins of what cannot be begun */
	bool breaks_its_word; /* what is taken back was synced */
	bool broke_its_word;  /* it ever has */
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
 * Ends all transactions, and takes back commits that are younger than that: those that are not synced, which a crash
 * forgets for a moment only and a standby for as long as it lags, or also those that are.
 */
enum forgets { FORGETS_UNSYNCED, FAILS_OVER, FORGETS_SYNCED };
unsigned sim_crash(enum forgets forgets, int64_t since_ns);

/* A statement while it is executed. */
struct act {
	struct tx *tx;
	uint64_t sees; /* commits up to this one */
	int64_t now_us;
	const struct hwts_step *step;
	struct output *output;
	uint64_t read;      /* versions that an index leads to */
	uint64_t rules;     /* groups whose rules are read */
	bool is_unreadable; /* it has met such a row */
};

const struct version *sim_see(struct act *act, const struct row *row);      /* NULL: it is not there */
const struct version *sim_see_last(struct act *act, const struct row *row); /* of a locked row */
enum if_locked { WAITS, SKIPS };
int sim_lock(struct act *act, struct row *row, bool exclusive, enum if_locked patience); /* EBUSY: skipped */
struct version *sim_change(struct act *act, struct row *row);                            /* of a locked row: a copy */
void sim_remove(struct act *act, struct row *row);
struct version *sim_insert(struct act *act, enum table table);
void sim_set_text(struct version *version, int at, const void *bytes, size_t len);
void sim_settle(void); /* frees what nobody sees any more */
void sim_add_news(struct tx *tx, int32_t shard, const struct hwts_due *due);

#define EACH_ROW(table, row) for (struct row * (row) = sim_server.rows[table]; (row); (row) = (row)->next)

/* Statements: 0, EAGAIN (a lock), or EIO. */
int sim_execute(struct tx *tx, const struct hwts_step *step, struct output *output, int64_t *took_ns);

/* What statements return, until it is handed out. */
struct output_row {
	struct output_row *next;
	const struct hwts_step *step;
	struct hwts_value values[HWTS_COLUMNS];
};
struct output {
	struct output_row *first, **end;
	size_t bytes;         /* of the answer */
	int64_t committed_ns; /* when the last commit that a step asked for was answered; 0: none was */
};
void sim_emit(struct act *act, const struct hwts_value *values, size_t n);
int sim_hand_out(struct output *output, bool wanted); /* and frees them */

/* In judge.c: rows come and go. */
void sim_judge_gone(const struct version *version, bool again); /* again: its going was forgotten */
void sim_judge_lost(const struct version *version);             /* the commit that made it was forgotten */
void sim_judge_made(const struct version *version);             /* it is committed */
void sim_judge_left(const struct version *version);             /* it ran on a process that has lost it */
/* In rules.c: a begin, before it is committed, and when all of its exchange are; rules are being changed. */
void sim_judge_begin(struct act *act, const struct version *t, const struct version *before);
void sim_judge_order(struct act *act, const struct version *begun);
void sim_note_rules(int64_t kind, const struct hwts_value *group);
/* In driver.c. */
void sim_send_news(struct news *news);

#endif
