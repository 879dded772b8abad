/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef HWT_WORKER_STOP_H
#define HWT_WORKER_STOP_H

#include "worker/state.h"

/*
 * After the worker has gone and all lanes are closed: the next timeout that neither ran nor was cancelled, cancelled by
 * this call; NULL when there is none left.  Allocates nothing.
 */
struct hwt_record *hwt_worker_next_unprocessed(struct hwt_worker *worker);

#endif
