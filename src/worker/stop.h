/* SPDX-License-Identifier: BSD-2-Clause */
/* What a stop finds; stop.c. */
#ifndef HWT_WORKER_STOP_H
#define HWT_WORKER_STOP_H

#include "worker/state.h"

/*
 * Cancels and returns the next timeout that neither ran nor was cancelled, NULL when none is left.  To be called when
 * the worker has gone and all lanes are closed.  Allocates nothing.
 */
struct hwt_record *hwt_worker_next_unprocessed(struct hwt_worker *worker);

#endif
