/* SPDX-License-Identifier: BSD-2-Clause */
/* The times of a cron line in a zone; calendar.c. */
#ifndef HWTS_CALENDAR_H
#define HWTS_CALENDAR_H

#include "core/cron.h"
#include "core/zone.h"

/* zone NULL: UTC.  As hwt_store_next_time, with the thread's text. */
int hwts_calendar_next(const char *schedule, const char *zone, int64_t after_us, int64_t *due_us);

#endif
