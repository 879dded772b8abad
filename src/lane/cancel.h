/* SPDX-License-Identifier: BSD-2-Clause */
/* Cancelling; lane.h argues. */
#ifndef HWT_CANCEL_H
#define HWT_CANCEL_H

#include "lane/lane.h"

/* Returns 0, EBUSY or ENOENT.  The lane may be NULL if the handle is stale. */
int hwt_lane_cancel(struct hwt_lane *lane, struct hwt_record *record, uint64_t generation);

#endif
