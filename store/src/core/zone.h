/* SPDX-License-Identifier: BSD-2-Clause */
/* Zones of the system's tz database; zone.c. */
#ifndef HWTS_ZONE_H
#define HWTS_ZONE_H

#include "core/base.h"

#define HWTS_ZONE_MAX 63 /* bytes of a name */

struct hwts_zone;

/*
 * Opens a zone for this thread; NULL: UTC.  Close it soon: other threads that open one wait for that.
 * EINVAL: there is no such name; ENOTSUP: no library or no database.  With the thread's text.
 */
int hwts_zone_open(const char *name, const struct hwts_zone **zone);
void hwts_zone_close(const struct hwts_zone *zone);

/* How far a clock there is ahead of UTC at this second, and until when it stays so; *until_s is at most limit_s. */
int hwts_zone_at(const struct hwts_zone *zone, int64_t at_s, int64_t limit_s, int64_t *offset_s, int64_t *until_s);

#ifdef HWT_TEST
extern _Atomic(const char *) hwts_test_zones;   /* the folder of the database */
extern _Atomic(const char *) hwts_test_library; /* the library's file */
extern _Atomic unsigned hwts_test_zone_reads;   /* files that were read */
#endif

#endif
