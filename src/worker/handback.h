/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How an ended record comes back to its lane from a thread that is not the worker.
 *
 * Threads: the one that ran the task, or that found the timeout cancelled.  Until the push nobody else touches the
 * record.
 */
#ifndef HWT_HANDBACK_H
#define HWT_HANDBACK_H

#include "lane/lane.h"

/* Returns an ended record to its lane, and its extension after the finaliser. */
void hwt_handback_return(struct hwt_record *record);

#endif
