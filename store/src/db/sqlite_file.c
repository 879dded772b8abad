/* SPDX-License-Identifier: BSD-2-Clause */
/* Which file a url means. */
#define _XOPEN_SOURCE 700
#include "db/sqlite.h"

#include <stdio.h>
#include <stdlib.h>

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

/*
 * The path from the root, without links: later connections must find the same file wherever the process has gone, and
 * news of the file come where it is.
 */
int hwts_sqlite_find_file(const char *path, char **found)
{
	*found = realpath(path, NULL);
	if (!*found && errno == ENOENT)
		*found = in_real_folder(path);
	if (*found)
		return 0;
	if (errno == ENOENT)
		return hwts_fail(ENOENT, "sqlite: %s: there is no such folder; make it first", path);
	return hwts_fail_errno(errno == ENOMEM ? ENOMEM : EACCES, path);
}
