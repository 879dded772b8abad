/* SPDX-License-Identifier: BSD-2-Clause */
/* The output of the bench: text, and CSV. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "run.h"

void report_machine(bool quick, bool floors);
void report_subject(const char *name, const char *version);
void report_scenario(const struct scenario *scenario, unsigned rounds);
void report_absent(const struct run *run, const char *why);

/* Prints a row.  values[i]: figure i of each round, which this sorts. */
void report_row(const struct scenario *scenario, const struct run *run, double *const *values, unsigned rounds);

/* Sends the rows to a file, too, as CSV.  Returns 0 or an errno value. */
int report_csv(const char *path);
bool report_end(void); /* returns false if the output could not be written */

#endif
