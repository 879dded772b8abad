/* SPDX-License-Identifier: BSD-2-Clause */
/* Finding the file of a url, and checking that it is still there. */
#define _XOPEN_SOURCE 700
#include "db/sqlite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Makes the file with SQLite: closing any other descriptor of the file would drop this process's locks.  Returns errno.
 */
static int make_file(const char *path)
{
	sqlite3 *made = NULL;
	int why;

	(void)sqlite3_open_v2(path, &made, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
	why = sqlite3_system_errno(made);
	(void)sqlite3_close(made);
	return why;
}

/* True: the folder is there, and this user may make nothing in it. */
static bool is_closed(const char *path)
{
	const char *end = strrchr(path, '/');
	char folder[4096] = ".";

	if (end)
		(void)snprintf(folder, sizeof(folder), "%.*s", end > path ? (int)(end - path) : 1, path);
	return access(folder, F_OK) == 0 && faccessat(AT_FDCWD, folder, W_OK, AT_EACCESS) != 0;
}

/*
 * Finds the absolute path without links: later connections must find the same file after a chdir, and inotify watches
 * the folder that really has the file.
 */
int hwts_sqlite_find_file(const char *path, char **found)
{
	int why = access(path, F_OK) != 0 && errno == ENOENT ? make_file(path) : 0;

	/* SQLite tries to read a file that it may not make: then, too, the last error is ENOENT. */
	if (why == ENOENT && !is_closed(path))
		return hwts_fail(ENOENT, "sqlite: %s: there is no such folder; make it first", path);
	if (why != 0) { /* the first connection reports it */
		*found = hwts_copy(path);
		return *found ? 0 : ENOMEM;
	}
	*found = realpath(path, NULL);
	return *found ? 0 : hwts_fail_errno(errno == ENOMEM ? ENOMEM : EACCES, path);
}

static bool file_has_moved(struct sqlite_conn *conn)
{
	int moved = 0;

	return sqlite3_file_control(conn->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

/*
 * True: the log is another file than the connections of this process have used.  They share what they know of the log,
 * so none may go on with another.
 */
static bool log_has_moved(struct sqlite_db *db)
{
	char path[4096];
	struct stat is;
	bool there;

	(void)snprintf(path, sizeof(path), "%s-wal", db->path);
	there = stat(path, &is) == 0;
	pthread_mutex_lock(&db->lock);
	if (there && db->log.inode == 0) {
		db->log.device = is.st_dev;
		db->log.inode = is.st_ino;
	}
	db->log.lost |= db->log.inode != 0 && (!there || is.st_dev != db->log.device || is.st_ino != db->log.inode);
	there = !db->log.lost;
	pthread_mutex_unlock(&db->lock);
	return !there;
}

/*
 * Called in a transaction.  What is written into files without a name is lost when this process ends.  Either the files
 * were removed; or the program has opened and closed the file itself, which drops the locks of the whole process, and
 * another process that took itself for the last has removed the log.
 */
int hwts_sqlite_check_files(struct sqlite_conn *conn)
{
	struct sqlite_db *db = sqlite_db(&conn->conn);

	if (!file_has_moved(conn) && !log_has_moved(db))
		return 0;
	conn->conn.broken = true;
	return hwts_fail(EIO,
			 "sqlite: %s or its log was removed or replaced while it was open, perhaps as this program has"
			 " closed the file beside the store: restart it if this stays",
			 db->path);
}

/* The file of a caller's connection.  Its statements use the first attached database that has the table. */
struct callers {
	sqlite3 *handle;
	char table[32];
	bool found;
	struct stat is;
};

static int look_into(void *arg, int columns, char **values, char **names)
{
	struct callers *callers = arg;
	const char *file;

	(void)columns;
	(void)names;
	if (callers->found || sqlite3_table_column_metadata(callers->handle, values[1], callers->table, NULL, NULL,
							    NULL, NULL, NULL, NULL) != SQLITE_OK)
		return 0;
	callers->found = true;
	file = sqlite3_db_filename(callers->handle, values[1]);
	if (!file || stat(file, &callers->is) != 0)
		callers->is = (struct stat){ .st_ino = 0 }; /* a database in memory, or a file that was removed */
	return 0;
}

int hwts_sqlite_check_caller(const struct sqlite_conn *conn)
{
	const struct sqlite_db *db = (const struct sqlite_db *)conn->conn.db;
	struct callers callers = { .handle = conn->handle };
	struct stat own;

	(void)snprintf(callers.table, sizeof(callers.table), "%s_meta", db->db.prefix);
	(void)sqlite3_exec(conn->handle, "pragma database_list", look_into, &callers, NULL);
	if (!callers.found ||
	    (stat(db->path, &own) == 0 && own.st_dev == callers.is.st_dev && own.st_ino == callers.is.st_ino))
		return 0;
	return hwts_fail(EINVAL, "sqlite: the connection has the tables %s_* in another file than %s, a copy perhaps",
			 db->db.prefix, db->path);
}
