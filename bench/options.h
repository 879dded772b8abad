/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "run.h"

#define ROUNDS_MAX 100
#define ROUNDS_DEFAULT 5
#define ROUNDS_SLOW 3
#define LIST_MAX 32

struct options {
	char *scenarios[LIST_MAX + 1];              /* empty: all, or with quick the brief ones */
	char *subjects[LIST_MAX + 1];               /* empty: all */
	unsigned producers[PRODUCERS_LIST_MAX + 1]; /* empty: the scenario's own; ends with 0 */
	size_t n;                                   /* 0: the scenario's own */
	unsigned rounds;                            /* 0: ROUNDS_DEFAULT, or ROUNDS_SLOW for slow scenarios */
	bool quick, pinned, list;
	const char *csv;
};

/* Reads the options.  Returns false if they make no sense, and has then printed the usage. */
bool options_take(struct options *options, int argc, char **argv);

/* Returns true if a list from the command line has the name: "S3" also names "S3.spread". */
bool options_name(char *const *list, const char *name);

#endif
