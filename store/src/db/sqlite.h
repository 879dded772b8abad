/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The SQLite engine: what its files share.
 *
 * Threads
 *
 *   SQLite has one writer at a time.  The threads of a process queue for writing in order of arrival, so none starves;
 *   control goes first, as the lease depends on it.  No thread waits for ever: the writer may run a task that waits for
 *   a thread in the queue.  Other processes are kept out by SQLite's own lock, which is tried every 0.2 to 1 ms.
 *
 * Durability
 *
 *   WAL.  Puts, cancels and reschedules commit with synchronous=FULL.  Begins and ends commit with NORMAL, which syncs
 *   nothing: the next FULL commit syncs them as well.  What a power cut loses of them runs again.
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
	bool only_looks; /* the store only reads */

	/* The queue of threads that want to write; guarded by lock. */
	pthread_mutex_t lock;
	pthread_cond_t unlocked;
	bool has_writer;
	struct sqlite_waiter {
		struct sqlite_waiter *next;
		bool has_it;
	} * waiting, **waiting_end;
	int64_t patience_ns; /* the longest wait to be the writer and for SQLite's lock, together; a test changes it */

	/* The keeper of the log; guarded by lock. */
	pthread_cond_t log_grew;
	pthread_t keeper;
	bool has_keeper, log_is_long;

	/* The identity of the log, as the first connection found it, while there is a connection; guarded by lock. */
	unsigned connections;
	struct hwts_sqlite_log {
		uint64_t device, inode; /* 0: not found yet */
		bool lost;              /* a later connection found another log */
	} log;
};

/* A statement, identified by the address of its text; each connection prepares it once. */
struct sqlite_statement {
	const char *text;
	sqlite3_stmt *made;
};

struct sqlite_conn {
	struct hwts_conn conn;
	sqlite3 *handle;
	struct sqlite_statement statements[HWTS_SQLITE_STATEMENTS];
	sqlite3_stmt *made[HWTS_SQLS];    /* statements of the table; each connection prepares one once */
	bool is_writer, full, callers;    /* callers: the connection and its transaction belong to a caller */
	bool hasty;                       /* this exchange gives up waiting for the lock soon */
	int64_t now_us, boot_us, read_ns; /* the clocks at the start of the exchange */
	int64_t patience_ns;              /* how long the exchange waits for the lock; 0: as db has it */
	int log_parts;                    /* length of the log at the last commit, in parts */
	int64_t until_ns;                 /* deadline of the begin that is under way; 0: none */
	/* Of control's connection: */
	bool listens;
	int inotify;        /* -1: none, so news is looked for by the clock */
	int64_t hints_read; /* seq of the last hint that was read */
	int64_t written_ns; /* when inotify last reported that the log was written */
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

/* sqlite.c */
int hwts_sqlite_error(struct sqlite_conn *conn, int rc, const char *doing);
/*
 * Statements.  text must be a literal: each connection prepares it once; @ stands for the prefix.  The values are
 * WITH(a, b), or NOTHING.
 */
#define WITH(...) (const int64_t[]){ __VA_ARGS__ }, HWTS_COUNT(((const int64_t[]){ __VA_ARGS__ }))
#define NOTHING NULL, 0

/* NULL: failed, and *rc is set. */
sqlite3_stmt *hwts_sqlite_rows(struct sqlite_conn *conn, int *rc, const char *text, const int64_t *values, size_t n);
bool hwts_sqlite_next(struct sqlite_conn *conn, sqlite3_stmt *rows, int *rc); /* false: no more rows, or *rc is set */
/* Reads the first column of the first row.  0: no row. */
int hwts_sqlite_ask(struct sqlite_conn *conn, int64_t *number, const char *text, const int64_t *values, size_t n);
/* Executes a statement to its end. */
int hwts_sqlite_do(struct sqlite_conn *conn, const char *text, const int64_t *values, size_t n);
int hwts_sqlite_script(struct sqlite_conn *conn, const char *text); /* statements that are executed once */
int hwts_sqlite_begin(struct sqlite_conn *conn, bool full);
int hwts_sqlite_commit(struct sqlite_conn *conn, int rc); /* rolls back if rc is not 0, and returns it */
void hwts_sqlite_forget(struct sqlite_conn *conn);        /* finalizes the prepared statements */
int hwts_sqlite_exchange(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags);
int hwts_sqlite_finish(struct hwts_conn *conn, int rc);

static inline int64_t number_of(sqlite3_stmt *rows, int column)
{
	return sqlite3_column_int64(rows, column);
}

/* sqlite_args.c */
/* Binds the parameters; element: which element of arrays.  Returns SQLite's result. */
int hwts_sqlite_bind(struct sqlite_conn *conn, const struct hwts_step *step, size_t element);
int hwts_sqlite_tell(sqlite3_stmt *made, const struct hwts_step *step); /* passes a row to step->each */

/* sqlite_file.c */
int hwts_sqlite_find_file(const char *path, char **found);
/* EIO: the files were removed or replaced while they were open. */
int hwts_sqlite_check_files(struct sqlite_conn *conn);
/* For a caller's connection.  EINVAL: its tables are in another file, perhaps in a copy. */
int hwts_sqlite_check_caller(const struct sqlite_conn *conn);

/* sqlite_log.c */
int hwts_sqlite_wal_hook(void *arg, sqlite3 *handle, const char *name, int pages);
void hwts_sqlite_start_keeper(struct sqlite_db *db); /* if there is none */
void hwts_sqlite_stop_keeper(struct sqlite_db *db);

/* sqlite_writer.c */
/* False: other threads wrote until then. */
bool hwts_sqlite_write_lock(struct sqlite_db *db, int64_t until_ns, bool first);
void hwts_sqlite_write_unlock(struct sqlite_db *db);
int hwts_sqlite_be_writer(struct sqlite_conn *conn); /* EAGAIN: other threads wrote for too long */

/* sqlite_schema.c */
int hwts_sqlite_prepare(struct hwts_conn *conn);

/* sqlite_news.c */
int hwts_sqlite_listen(struct hwts_conn *conn, const struct hwts_shard_row *shards, size_t n, bool on);
int hwts_sqlite_news_fd(struct hwts_conn *conn);
int hwts_sqlite_news(struct hwts_conn *conn, bool signalled, hwts_hear *hear, void *ctx, int64_t *again_ns);
void hwts_sqlite_tend(struct hwts_conn *conn);

#endif
