/* SPDX-License-Identifier: BSD-2-Clause */
/* Which file a url means, and whether it is still there. */
#define _XOPEN_SOURCE 700
#include "db/sqlite.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* FOLDER/NAME, where only the folder has to be there. */
static char *in_real_folder(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char *folder = hwts_copy(slash ? path : "."), *real, *found;
	size_t size;

	if (!folder)
		return errno = ENOMEM, NULL;
	if (slash)
		folder[HWTS_MAX(slash - path, 1)] = '\0';
	real = realpath(folder, NULL);
	free(folder);
	if (!real)
		return NULL;
	size = strlen(real) + strlen(name) + 2;
	found = hwts_alloc(size);
	if (found)
		(void)snprintf(found, size, "%s/%s", real, name);
	free(real);
	errno = ENOMEM; /* if there is none */
	return found;
}

/* Where a link leads; NULL: it is none. */
static char *behind_link(const char *path)
{
	char to[4096], *behind;
	const char *slash = strrchr(path, '/');
	ssize_t len = readlink(path, to, sizeof(to));
	size_t folder;

	if (len <= 0 || (size_t)len == sizeof(to))
		return NULL;
	folder = slash && to[0] != '/' ? (size_t)(slash + 1 - path) : 0;
	behind = hwts_alloc(folder + (size_t)len + 1);
	if (behind) {
		memcpy(behind, path, folder);
		memcpy(behind + folder, to, (size_t)len);
	}
	return behind;
}

/*
 * The absolute path, without links: later connections must find the same file after a chdir, and inotify watches the
 * folder in which the file really is.
 */
int hwts_sqlite_find_file(const char *path, char **found)
{
	char *behind = NULL;
	int rc;

	*found = realpath(path, NULL);
	if (!*found && errno == ENOENT && !(behind = behind_link(path)))
		*found = in_real_folder(path);
	if (behind) { /* the file is not there yet */
		rc = hwts_sqlite_find_file(behind, found);
		free(behind);
		return rc;
	}
	if (*found)
		return 0;
	if (errno == ENOENT)
		return hwts_fail(ENOENT, "sqlite: %s: there is no such folder; make it first", path);
	return hwts_fail_errno(errno == ENOMEM ? ENOMEM : EACCES, path);
}

static bool file_has_moved(struct sqlite_conn *conn)
{
	int moved = 0;

	return sqlite3_file_control(conn->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

/* All connections of a process share what it knows of the log, so no connection may use another one. */
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
 * In a transaction.  What is written into files that have no name any more is gone when this process ends.  They may
 * have been removed; or the program has opened and closed the file itself, which takes the locks of the whole process
 * away, and then another one took itself for the last and removed the log.
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
