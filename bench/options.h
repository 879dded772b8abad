/* SPDX-License-Identifier: BSD-2-Clause */
/* What the command line asks for. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "run.h"

#define ROUNDS_MAX 100
#define ROUNDS_DEFAULT 5
#define ROUNDS_SLOW 3
#define LIST_MAX 32

struct options {
	char *scenarios[LIST_MAX + 1];              /* none: all, or with quick the brief ones */
	char *subjects[LIST_MAX + 1];               /* none: all */
	unsigned producers[PRODUCERS_LIST_MAX + 1]; /* none: the scenario's own; ends with 0 */
	size_t n;                                   /* 0: the scenario's own */
	unsigned rounds;                            /* 0: ROUNDS_DEFAULT, ROUNDS_SLOW for what is slow */
	bool quick, pinned, list;
	const char *csv;
};

/* false: they make no sense, and the usage has been printed. */
bool options_take(struct options *options, int argc, char **argv);

/* Whether a list from the command line names it: "S3" also names "S3.spread". */
bool options_name(char *const *list, const char *name);

#endif
