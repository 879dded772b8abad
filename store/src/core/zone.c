/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Zones: the system's tz database, as GLib's GTimeZone reads it.
 *
 * Why GLib
 *
 *   libc     localtime_r knows one zone, that of TZ; to set TZ is not safe while other threads run.
 *   ICU      has a tz database of its own (30 MB of data), which the system's updates of tzdata do not reach.
 *   libical  reads the system's, but keeps each zone that was ever asked for until the process ends, does not see a
 *            new tzdata, and guesses a rule for the years to come from the last changes.
 *   GLib     reads the system's, rules for later years included; a zone is immutable and counted.
 *
 *   It is loaded at the first zone that is not UTC, so a program neither links it nor has it in memory without need.
 *
 * Traps of GLib, and what is done about each
 *
 *   A name may also be an offset ("+05"), a rule ("CET-1CEST,...") or a path.  GLib gets the path of a file that was
 *   found in the database under a checked name, and nothing else.
 *   g_time_zone_new gives UTC for what it does not know.  g_time_zone_new_identifier (2.68) gives NULL.
 *   It keeps a table of the zones in use by name, and gives an old one while anybody has it.  One lock is held from
 *   open to close, so nobody has one but the table below, which drops its own before it reads a file again: a new
 *   tzdata counts from the next call on.
 *   To read a file takes 170 us, so the last few stay.
 *   A daylight offset of exactly 0 in the rule for the years to come (Europe/Dublin, whose summer time is its standard
 *   time) is taken for one that is not given.  It then shows an offset that the zone never has; that is EIO.
 *   It ends the process when memory runs out.  It allocates some 40 KB when it reads a file, and nothing else here.
 *
 * Threads  any; one at a time is between open and close.
 */
#include "core/calendar.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#ifdef HWT_TEST
_Atomic(const char *) hwts_test_zones, hwts_test_library;
_Atomic unsigned hwts_test_zone_reads;
#endif

/*
 * Names
 */

static int check_name(const char *name)
{
	static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_/";
	/* Files beside the database, and what differs from machine to machine. */
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

#ifdef HWT_STORE_ZONES

#include <glib.h>

#define KEPT 16

struct hwts_zone {
	char name[HWTS_ZONE_MAX + 1];
	struct stat file;
	GTimeZone *read;
	int64_t never_s; /* an offset that it does not have: the library misreads its rule; HWTS_NEVER: none */
	uint64_t used;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hwts_zone kept[KEPT], utc;
static uint64_t uses;

/*
 * The library
 */

static struct {
	__typeof__(&g_time_zone_new_identifier) make;
	__typeof__(&g_time_zone_unref) drop;
	__typeof__(&g_time_zone_find_interval) interval;
	__typeof__(&g_time_zone_get_offset) offset;
} glib;

/* With the lock.  ISO C has no conversion between a pointer to data and one to a function. */
static bool find_function(void *library, const char *name, void *function, size_t size)
{
	void *found = dlsym(library, name);

	memcpy(function, &found, size);
	return found;
}

static int load(void)
{
	const char *file = "libglib-2.0.so.0", *why;
	void *library;

#ifdef HWT_TEST
	if (HWTS_TEST(library))
		file = HWTS_TEST(library);
#endif
	library = glib.offset ? NULL : dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (glib.offset)
		return 0;
	if (library && find_function(library, "g_time_zone_new_identifier", &glib.make, sizeof(glib.make)) &&
	    find_function(library, "g_time_zone_unref", &glib.drop, sizeof(glib.drop)) &&
	    find_function(library, "g_time_zone_find_interval", &glib.interval, sizeof(glib.interval)) &&
	    find_function(library, "g_time_zone_get_offset", &glib.offset, sizeof(glib.offset)))
		return 0;
	why = dlerror();
	(void)hwts_fail(ENOTSUP, "the zone needs GLib (2.68): %s", why ? why : file);
	if (library)
		(void)dlclose(library);
	return ENOTSUP;
}

/*
 * Files
 */

static const char *folder(void)
{
	const char *named = getenv("TZDIR");

#ifdef HWT_TEST
	if (HWTS_TEST(zones))
		return HWTS_TEST(zones);
#endif
	return named && named[0] == '/' ? named : "/usr/share/zoneinfo";
}

static int find_file(const char *name, char *path, size_t size, struct stat *file)
{
	struct stat top;
	int len = snprintf(path, size, "%s/%s", folder(), name);

	if (len > 0 && (size_t)len < size && stat(path, file) == 0 && S_ISREG(file->st_mode))
		return 0;
	if (stat(folder(), &top) != 0)
		return hwts_fail(ENOTSUP, "the zone needs the tz database (tzdata): there is no %s", folder());
	return hwts_fail(EINVAL, "the zone \"%s\" is not in the tz database (%s)", name, folder());
}

/* The library takes this for granted. */
static bool is_of_database(const char *path)
{
	char magic[4] = "";
	FILE *file = fopen(path, "rbe");
	bool is = file && fread(magic, sizeof(magic), 1, file) == 1 && memcmp(magic, "TZif", sizeof(magic)) == 0;

	if (file)
		(void)fclose(file);
	return is;
}

/* Past a name of a rule, such as IST or <+0330>. */
static const char *after_name(const char *at)
{
	if (*at == '<')
		return at + strcspn(at, ">") + (strchr(at, '>') != NULL);
	return at + strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

/* The last line of a file is its rule for the years to come: IST-1GMT0,M10.5.0,M3.5.0/1, in hours west of Greenwich. */
static int64_t misread_offset(const char *path)
{
	char tail[128] = "", *line;
	const char *standard, *daylight;
	FILE *file = fopen(path, "rbe");
	size_t len = 0;

	if (file && fseek(file, -(long)(sizeof(tail) - 1), SEEK_END) == 0)
		len = fread(tail, 1, sizeof(tail) - 1, file);
	if (file)
		(void)fclose(file);
	if (len < 2 || tail[len - 1] != '\n')
		return HWTS_NEVER;
	tail[len - 1] = '\0';
	for (line = tail + len - 1; line > tail && line[-1] != '\n';)
		line--;
	standard = after_name(line);
	daylight = after_name(standard + strspn(standard, "+-0123456789:"));
	if (strspn(daylight, "+-0:") == 0 || daylight[strspn(daylight, "+-0:")] != ',')
		return HWTS_NEVER;
	return 3600 - 3600 * strtoll(standard, NULL, 10);
}

/* With the lock: one that is read from this very file, or the place for it. */
static struct hwts_zone *place_of(const char *name, const struct stat *file)
{
	struct hwts_zone *oldest = kept;

	for (struct hwts_zone *zone = kept; zone < kept + KEPT; zone++) {
		if (strcmp(zone->name, name) == 0) {
			oldest = zone;
			break;
		}
		if (zone->used < oldest->used)
			oldest = zone;
	}
	if (oldest->read && (strcmp(oldest->name, name) != 0 || oldest->file.st_ino != file->st_ino ||
			     oldest->file.st_dev != file->st_dev || oldest->file.st_size != file->st_size ||
			     oldest->file.st_mtim.tv_sec != file->st_mtim.tv_sec ||
			     oldest->file.st_mtim.tv_nsec != file->st_mtim.tv_nsec)) {
		glib.drop(oldest->read);
		oldest->read = NULL;
	}
	oldest->used = ++uses;
	return oldest;
}

static int read_zone(struct hwts_zone *zone, const char *name, const char *path, const struct stat *file)
{
#ifdef HWT_TEST
	atomic_fetch_add_explicit(&hwts_test_zone_reads, 1, memory_order_relaxed); /* relaxed: it only counts */
#endif
	zone->name[0] = '\0';
	zone->read = is_of_database(path) ? glib.make(path) : NULL;
	if (!zone->read)
		return hwts_fail(EINVAL, "the zone \"%s\" is not in the tz database (%s)", name, folder());
	hwts_cut(zone->name, sizeof(zone->name), name, strlen(name));
	zone->file = *file;
	zone->never_s = misread_offset(path);
	return 0;
}

static int open_locked(const char *name, const struct hwts_zone **zone)
{
	char path[1024];
	struct stat file;
	struct hwts_zone *place;
	int rc = load();

	if (rc == 0)
		rc = find_file(name, path, sizeof(path), &file);
	if (rc != 0)
		return rc;
	place = place_of(name, &file);
	if (!place->read)
		rc = read_zone(place, name, path, &file);
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

static int interval_at(const struct hwts_zone *zone, int64_t at_s)
{
	return glib.interval(zone->read, G_TIME_TYPE_UNIVERSAL, at_s);
}

int hwts_zone_at(const struct hwts_zone *zone, int64_t at_s, int64_t limit_s, int64_t *offset_s, int64_t *until_s)
{
	int64_t same_s = at_s, other_s = limit_s;
	int interval;

	*offset_s = 0;
	*until_s = limit_s;
	if (zone == &utc)
		return 0;
	interval = interval_at(zone, at_s);
	*offset_s = glib.offset(zone->read, interval);
	if (*offset_s == zone->never_s)
		return hwts_fail(EIO, "GLib misreads the rule of the zone \"%s\" for so late a time", zone->name);
	if (interval_at(zone, limit_s) == interval)
		return 0;
	while (other_s - same_s > 1) {
		int64_t middle_s = same_s + (other_s - same_s) / 2;

		if (interval_at(zone, middle_s) == interval)
			same_s = middle_s;
		else
			other_s = middle_s;
	}
	*until_s = other_s;
	return 0;
}

#else /* without GLib */

struct hwts_zone {
	char unused;
};

static struct hwts_zone utc;

int hwts_zone_open(const char *name, const struct hwts_zone **zone)
{
	int rc = name ? check_name(name) : 0;

	*zone = &utc;
	if (rc != 0 || is_utc(name))
		return rc;
	return hwts_fail(ENOTSUP, "the zone \"%s\": this build has no GLib, so it knows UTC alone", name);
}

void hwts_zone_close(const struct hwts_zone *zone)
{
	(void)zone;
}

int hwts_zone_at(const struct hwts_zone *zone, int64_t at_s, int64_t limit_s, int64_t *offset_s, int64_t *until_s)
{
	(void)zone;
	(void)at_s;
	*offset_s = 0;
	*until_s = limit_s;
	return 0;
}

#endif
