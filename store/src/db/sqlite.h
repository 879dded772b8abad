/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The SQLite engine: what its files share.
 *
 * Threads
 *
 *   SQLite has one writer at a time.  The threads of a process queue for that in order of arrival, so that none
 *   starves; control goes before them, for the lease depends on it.  None waits for ever: the writer may run a task
 *   that waits for a thread of the queue.  Other processes meet in SQLite's own lock, which is asked again each 0.2 to
 *   1 ms.
 *
 * Durability
 *
 *   WAL.  Puts, cancels and reschedules commit with synchronous=FULL.  Begins and ends commit with NORMAL, which syncs
 *   nothing: the next FULL commit takes them along, and what a power cut loses of them runs again.
 */
#ifndef HWTS_SQLITE_H
#define HWTS_SQLITE_H

#include "rows/sql.h"

#include <pthread.h>
#include <sqlite3.h>

#define HWTS_SQLITE_STATEMENTS 64
#define HWTS_SQLITE_PATIENCE_NS HWT_S(10) /* for the write lock */

struct sqlite_db {
	struct hwts_db db;
	char *path;
	bool only_looks; /* nothing is written */

	/* With lock: the queue of threads that want to write. */
	pthread_mutex_t lock;
	pthread_cond_t unlocked;
	bool has_writer;
	struct sqlite_waiter {
		struct sqlite_waiter *next;
		bool has_it;
	} * waiting, **waiting_end;
	int64_t patience_ns; /* to be the writer, and for SQLite's lock, together; a test has another */

	/* With lock: the log as the first connection has met it, for as long as there is one. */
	unsigned connections;
	struct hwts_sqlite_log {
		uint64_t device, inode; /* 0: not met */
		bool lost;              /* it was another one later */
	} log;
};

/* A statement by the address of its text: prepared once in each connection. */
struct sqlite_statement {
	const char *text;
	sqlite3_stmt *made;
};

struct sqlite_conn {
	struct hwts_conn conn;
	sqlite3 *handle;
	struct sqlite_statement statements[HWTS_SQLITE_STATEMENTS];
	sqlite3_stmt *made[HWTS_SQLS];    /* prepared once in each connection */
	bool is_writer, full, callers;     /* callers: neither its statements nor its transaction are ours */
	bool hasty;                       /* this exchange does not wait long for the lock */
	int64_t now_us, boot_us, read_ns; /* the clocks, as the exchange has read them */
	int64_t patience_ns;              /* 0: that of the database */
	int log_parts;                    /* of the log at the last commit */
	int64_t until_ns;                 /* of the begin that is under way; 0: none is */
	/* control: */
	bool listens;
	int inotify;        /* -1: none, so it looks for news by the clock */
	int64_t hints_read; /* seq of the last hint that was read */
	int64_t written_ns; /* when inotify last told that the log was written */
	int64_t data_version;
};

static inline struct sqlite_conn *sqlite_conn(struct hwts_conn *conn)
{
	return (struct sqlite_conn *)conn;
}

static inline struct sqlite_db *sqlite_db(struct hwts_conn *conn)
{
	return (struct sqlite_db *)conn->db;
}

/* In sqlite.c. */
int hwts_sqlite_error(struct sqlite_conn *conn, int rc, const char *doing);
/*
 * Statements.  text must be a literal, and is prepared once in each connection; @ stands for the prefix.  Its values
 * are WITH(a, b), or NOTHING.
 */
#define WITH(...) (const int64_t[]){ __VA_ARGS__ }, HWTS_COUNT(((const int64_t[]){ __VA_ARGS__ }))
#define NOTHING NULL, 0

/* NULL: failed, *rc is set. */
sqlite3_stmt *hwts_sqlite_rows(struct sqlite_conn *conn, int *rc, const char *text, const int64_t *values, size_t n);
bool hwts_sqlite_next(struct sqlite_conn *conn, sqlite3_stmt *rows, int *rc); /* false: no more, or *rc is set */
/* The number that stands first in the first row; 0: there is no row. */
int hwts_sqlite_ask(struct sqlite_conn *conn, int64_t *number, const char *text, const int64_t *values, size_t n);
int hwts_sqlite_do(struct sqlite_conn *conn, const char *text, const int64_t *values, size_t n); /* to its end */
int hwts_sqlite_script(struct sqlite_conn *conn, const char *text); /* statements that are executed once */
int hwts_sqlite_begin(struct sqlite_conn *conn, bool full);
int hwts_sqlite_commit(struct sqlite_conn *conn, int rc); /* rolls back if rc is not 0, and returns it */
void hwts_sqlite_forget(struct sqlite_conn *conn);        /* the statements */
int hwts_sqlite_exchange(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags);
int hwts_sqlite_finish(struct hwts_conn *conn, int rc);

static inline int64_t number_of(sqlite3_stmt *rows, int column)
{
	return sqlite3_column_int64(rows, column);
}

/* In sqlite_args.c. */
/* Element of its arrays.  SQLite's result. */
int hwts_sqlite_bind(struct sqlite_conn *conn, const struct hwts_step *step, size_t element);
int hwts_sqlite_tell(sqlite3_stmt *made, const struct hwts_step *step); /* a row */

/* In sqlite_file.c. */
int hwts_sqlite_find_file(const char *path, char **found);
int hwts_sqlite_check_files(struct sqlite_conn *conn); /* EIO: they were removed or replaced while they are open */
/* Of a caller.  EINVAL: its tables lie in another file, a copy perhaps. */
int hwts_sqlite_check_caller(const struct sqlite_conn *conn);

/* In sqlite_log.c. */
int hwts_sqlite_wal_hook(void *arg, sqlite3 *handle, const char *name, int pages);
void hwts_sqlite_tend(struct hwts_conn *conn);

/* In sqlite_writer.c. */
bool hwts_sqlite_write_lock(struct sqlite_db *db, int64_t until_ns, bool first); /* false: others wrote until then */
void hwts_sqlite_write_unlock(struct sqlite_db *db);
int hwts_sqlite_be_writer(struct sqlite_conn *conn); /* EAGAIN: others wrote for too long */

/* In sqlite_schema.c. */
int hwts_sqlite_prepare(struct hwts_conn *conn);

/* In sqlite_news.c. */
int hwts_sqlite_listen(struct hwts_conn *conn, const struct hwts_shard_row *shards, size_t n, bool on);
int hwts_sqlite_news_fd(struct hwts_conn *conn);
int hwts_sqlite_news(struct hwts_conn *conn, bool signalled, hwts_hear *hear, void *ctx, int64_t *again_ns);
void hwts_sqlite_tend_hints(struct sqlite_conn *conn);

#endif
