/* SPDX-License-Identifier: BSD-2-Clause */
/* A look for memory that nobody needs; look.c argues. */
#ifndef HWT_LOOK_H
#define HWT_LOOK_H

#include "lane/lane.h"

/*
 * Looks which memory of the lanes nobody needs, and gives it back to the system, slice by slice.  `all`: also what was
 * in use until now.  step returns true while there is more to do, and adds what went to trim.given.  The worker alone.
 */
void hwt_trim_begin(struct hwt_lanes *lanes, int64_t now_ns, int64_t hold_ns, bool all);
bool hwt_trim_step(struct hwt_lanes *lanes);

#endif
