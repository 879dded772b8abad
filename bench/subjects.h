/* SPDX-License-Identifier: BSD-2-Clause */
/* The subjects: those linked in, those that are shared objects or programs beside the bench, and those missing. */
#ifndef BENCH_SUBJECTS_H
#define BENCH_SUBJECTS_H

#include "subject.h"

#include <stdbool.h>

#define SUBJECTS_MAX 16

/*
 * Fills list with those that are there, ends it with NULL, and prints a line for each and for each that is missing.
 * names: those that are wanted; none: all.  false: a name that nobody has, or one that is wanted is missing.
 */
bool subjects_find(const char *bench_path, char *const *names, const struct subject **list);

#endif
