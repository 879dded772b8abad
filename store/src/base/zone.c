/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Zones: files of the system's tz database, found by name.  tzif.c reads them.
 *
 *   Elsewhere a zone may also be an offset ("+05"), a rule ("CET-1CEST,...") or a path.  Here it is always the name of
 *   a file in the folder of the database.  A new tzdata holds from the next call on: each call checks that the file is
 *   still the one that was read.  The last few files stay in memory, as reading one takes some 20 us.
 *
 * Threads  any; only one at a time is between open and close.
 */
#include "base/calendar.h"
#include "base/tzif.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HWT_TEST
_Atomic(const char *) hwts_test_zones;
_Atomic unsigned hwts_test_zone_reads;
#endif

#define KEPT 16
#define FILE_MOST (64 << 10) /* bytes; the largest file of the database has 4 KB */

struct hwts_zone {
	char name[HWTS_ZONE_MAX + 1];
	struct stat file;
	unsigned char *data; /* NULL: not read yet */
	struct hwts_tz tz;
	uint64_t used;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hwts_zone kept[KEPT], utc;
static uint64_t uses;

/*
 * Names
 */

static int check_name(const char *name)
{
	static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_/";
	/* Copies of the database in other forms, and names that differ from machine to machine. */
	static const char *const others[] = { "posix/", "right/", "localtime", "posixrules" };
	size_t len = strlen(name);

	if (len == 0 || len > HWTS_ZONE_MAX)
		return hwts_fail(EINVAL, "the zone must have 1 to %d bytes", HWTS_ZONE_MAX);
	if (strspn(name, known) < len || name[0] == '/' || name[len - 1] == '/' || strstr(name, "//"))
		return hwts_fail(EINVAL, "the zone must be a name of the tz database, such as Europe/Berlin");
	for (size_t i = 0; i < HWTS_COUNT(others); i++)
		if (strncmp(name, others[i], strlen(others[i])) == 0)
			return hwts_fail(EINVAL, "the zone \"%s\" is no name of the tz database", name);
	return 0;
}

static bool is_utc(const char *name)
{
	return !name || strcmp(name, "UTC") == 0 || strcmp(name, "Etc/UTC") == 0;
}

/*
 * Files
 */

static const char *folder(void)
{
	static const char *const usual[] = { "/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo",
					     "/etc/zoneinfo" };
	const char *named = getenv("TZDIR");

#ifdef HWT_TEST
	if (HWTS_TEST(zones))
		return HWTS_TEST(zones);
#endif
	if (named && named[0] == '/')
		return named;
	for (size_t i = 0; i < HWTS_COUNT(usual); i++)
		if (access(usual[i], F_OK) == 0)
			return usual[i];
	return usual[0];
}

static int cannot_read(const char *name, int error)
{
	char text[80];

	if (error == ENOMEM || error == EMFILE || error == ENFILE)
		return hwts_fail(error == ENOMEM ? ENOMEM : EMFILE, "the zone \"%s\" cannot be read", name);
	if (strerror_r(error, text, sizeof(text)) != 0)
		text[0] = '\0';
	return hwts_fail(EIO, "the zone \"%s\" cannot be read: %s", name, text);
}

static int find_file(const char *name, char *path, size_t size, struct stat *file)
{
	struct stat top;
	int len = snprintf(path, size, "%s/%s", folder(), name);

	if (len > 0 && (size_t)len < size && stat(path, file) == 0 && S_ISREG(file->st_mode))
		return 0;
	if (len > 0 && (size_t)len < size && errno != ENOENT && errno != ENOTDIR && stat(path, file) != 0)
		return cannot_read(name, errno);
	if (stat(folder(), &top) != 0)
		return hwts_fail(ENOTSUP, "the zone needs the tz database (tzdata): there is no %s", folder());
	return hwts_fail(EINVAL, "the zone \"%s\" is not in the tz database (%s)", name, folder());
}

/* The caller holds the lock.  Returns the zone if it was read from this very file, or a place to read it into. */
static struct hwts_zone *place_of(const char *name, const struct stat *file, bool *is_read)
{
	struct hwts_zone *oldest = kept;

	*is_read = false;
	for (struct hwts_zone *zone = kept; zone < kept + KEPT; zone++) {
		if (strcmp(zone->name, name) == 0) {
			*is_read = zone->file.st_ino == file->st_ino && zone->file.st_dev == file->st_dev &&
				   zone->file.st_size == file->st_size &&
				   zone->file.st_mtim.tv_sec == file->st_mtim.tv_sec &&
				   zone->file.st_mtim.tv_nsec == file->st_mtim.tv_nsec;
			return zone;
		}
		if (zone->used < oldest->used)
			oldest = zone;
	}
	return oldest;
}

/* Reads the file, if its size has not changed. */
static int read_file(const char *name, const char *path, const struct stat *file, unsigned char **data)
{
	size_t size = (size_t)file->st_size, len = 0;
	FILE *opened = fopen(path, "rbe");
	int rc = 0;

	if (!opened)
		return cannot_read(name, errno);
	*data = hwts_alloc(size + 1);
	if (*data)
		len = fread(*data, 1, size + 1, opened);
	if (!*data)
		rc = ENOMEM;
	else if (ferror(opened))
		rc = cannot_read(name, errno);
	else if (len != size)
		rc = hwts_fail(EIO, "the zone \"%s\" cannot be read: its file changes", name);
	(void)fclose(opened);
	return rc;
}

/* The caller holds the lock.  If the file cannot be read the zone stays as it was. */
static int read_zone(struct hwts_zone *zone, const char *name, const char *path, const struct stat *file)
{
	unsigned char *data = NULL;
	struct hwts_tz tz;
	int rc;

#ifdef HWT_TEST
	atomic_fetch_add_explicit(&hwts_test_zone_reads, 1, memory_order_relaxed); /* relaxed: a counter */
#endif
	if (file->st_size > FILE_MOST)
		rc = hwts_fail(EINVAL, "the zone's file %s is none of the tz database: it is too large", path);
	else
		rc = read_file(name, path, file, &data);
	if (rc == 0)
		rc = hwts_tz_read(&tz, data, (size_t)file->st_size);
	if (rc != 0) {
		free(data);
		return rc;
	}
	free(zone->data);
	zone->data = data;
	zone->tz = tz;
	zone->file = *file;
	hwts_cut(zone->name, sizeof(zone->name), name, strlen(name));
	return 0;
}

static int open_locked(const char *name, const struct hwts_zone **zone)
{
	char path[1024];
	struct stat file;
	struct hwts_zone *place;
	bool is_read;
	int rc = find_file(name, path, sizeof(path), &file);

	if (rc != 0)
		return rc;
	place = place_of(name, &file, &is_read);
	if (!is_read)
		rc = read_zone(place, name, path, &file);
	if (rc == 0)
		place->used = ++uses;
	*zone = place;
	return rc;
}

int hwts_zone_open(const char *name, const struct hwts_zone **zone)
{
	int rc = name ? check_name(name) : 0;

	*zone = &utc;
	if (rc != 0 || is_utc(name))
		return rc;
	pthread_mutex_lock(&lock);
	rc = open_locked(name, zone);
	if (rc != 0)
		pthread_mutex_unlock(&lock);
	return rc;
}

void hwts_zone_close(const struct hwts_zone *zone)
{
	if (zone != &utc)
		pthread_mutex_unlock(&lock);
}

void hwts_zone_at(const struct hwts_zone *zone, int64_t at_s, int64_t limit_s, int64_t *offset_s, int64_t *until_s)
{
	*offset_s = 0;
	*until_s = limit_s;
	if (zone != &utc)
		hwts_tz_at(&zone->tz, at_s, offset_s, until_s);
	*until_s = HWTS_MIN(*until_s, limit_s);
}
