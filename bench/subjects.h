/* SPDX-License-Identifier: BSD-2-Clause */
/* The subjects: linked, or shared objects or programs beside the bench, or missing. */
#ifndef BENCH_SUBJECTS_H
#define BENCH_SUBJECTS_H

#include "subject.h"

#include <stdbool.h>

#define SUBJECTS_MAX 24

/*
 * Fills `list` with the subjects that there are, ends it with NULL, and prints a line for each subject, also for
 * missing ones.  `names` are the wanted subjects; empty: all.  Returns false if a wanted subject is missing or unknown.
 */
bool subjects_find(const char *bench_path, char *const *names, const struct subject **list);

#endif
