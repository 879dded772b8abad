/* SPDX-License-Identifier: BSD-2-Clause */
/* The subjects that are always linked, for subjects.c. */
#ifndef BENCH_RIVALS_H
#define BENCH_RIVALS_H

#include "subject.h"

extern const struct subject subject_hwt, subject_levels, subject_floor, subject_heap, subject_textbook, subject_buckets,
    subject_timerfd, subject_none;
extern const struct subject subject_loop, subject_loop_fd, subject_tree; /* driven by the caller's loop */

/* Wrong on purpose: see subject_broken.c. */
extern const struct subject subject_broken_lost, subject_broken_early, subject_broken_cancel;

#endif
