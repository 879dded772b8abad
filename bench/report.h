/* SPDX-License-Identifier: BSD-2-Clause */
/* What the bench prints, and the CSV beside it. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "run.h"

void report_machine(bool quick, bool floors);
void report_subject(const char *name, const char *version);
void report_scenario(const struct scenario *scenario, unsigned rounds);
void report_absent(const struct run *run, const char *why);

/* values[i]: what each round found for figure i; they are sorted by it. */
void report_row(const struct scenario *scenario, const struct run *run, double *const *values, unsigned rounds);

/* Where the rows go as well, as CSV; 0 or an errno value. */
int report_csv(const char *path);
bool report_end(void); /* false: something could not be written */

#endif
