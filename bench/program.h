/* SPDX-License-Identifier: BSD-2-Clause */
/* Subjects of the bench that are programs of their own. */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include "run.h"

/* Runs a round with a subject that is a program of its own. */
void program_run(const struct run *run, struct outcome *outcome);
void program_version(const char *path, char *version, size_t size);

#endif
