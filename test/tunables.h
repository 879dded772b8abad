/* SPDX-License-Identifier: BSD-2-Clause */
/* The constants of src/ that a test may replace, for the timers created from then on. */
#ifndef HWT_TUNABLES_H
#define HWT_TUNABLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HWT_FULL (64 * (uint64_t)4096) /* the initial value of hwt_test_full */

extern _Atomic bool hwt_test_no_membarrier;
extern _Atomic uint64_t hwt_test_full;         /* records that wait in a lane before it is full */
extern _Atomic uint32_t hwt_test_slab_records; /* the records of a slab that serve */
extern _Atomic size_t hwt_test_enough;         /* the least memory for which the worker looks */
extern _Atomic long hwt_test_cores;            /* 0: the machine's number */

#endif
