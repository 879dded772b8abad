/* SPDX-License-Identifier: BSD-2-Clause */
/* See options.h. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRODUCERS_MAX 256
#define N_MAX 100000000

static const char usage[] =
    "usage: bench [-s SCENARIO,...] [-S SUBJECT,...] [-p PRODUCERS,...] [-n N] [-r ROUNDS] [-q] [-a] [-l] [-c FILE]\n"
    "  -s  scenarios (-l lists them); S3 means S3.spread as well; default all\n"
    "  -S  subjects; default all that are there\n"
    "  -p  numbers of producer threads, default each scenario's own\n"
    "  -n  timeouts (S2: pairs), default as benchmarked\n"
    "  -r  rounds, default 5, and 3 for what is slow\n"
    "  -q  quick: the most telling scenarios, a tenth of the timeouts, short windows\n"
    "  -a  pin each producer to a core\n"
    "  -l  list scenarios and subjects\n"
    "  -c  write CSV as well\n";

bool options_name(char *const *list, const char *name)
{
	for (; *list; list++) {
		size_t length = strlen(*list);

		if (strncmp(*list, name, length) == 0 && (name[length] == '\0' || name[length] == '.'))
			return true;
	}
	return false;
}

static bool whole_number(const char *text, size_t max, size_t *out)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (end == text || *end != '\0' || *text == '-' || errno != 0 || value < 1 || value > max)
		return false;
	*out = (size_t)value;
	return true;
}

static bool take_names(char *text, char **list)
{
	size_t count = 0;

	for (char *name = strtok(text, ","); name; name = strtok(NULL, ",")) {
		if (count == LIST_MAX)
			return false;
		list[count++] = name;
	}
	list[count] = NULL;
	return count > 0;
}

static bool take_producers(char *text, unsigned *list)
{
	size_t count = 0, value;

	for (char *number = strtok(text, ","); number; number = strtok(NULL, ",")) {
		if (count == PRODUCERS_LIST_MAX || !whole_number(number, PRODUCERS_MAX, &value))
			return false;
		list[count++] = (unsigned)value;
	}
	list[count] = 0;
	return count > 0;
}

static bool take_option(struct options *options, int option, char *text)
{
	size_t number;

	switch (option) {
	case 's':
		return take_names(text, options->scenarios);
	case 'S':
		return take_names(text, options->subjects);
	case 'p':
		return take_producers(text, options->producers);
	case 'n':
		return whole_number(text, N_MAX, &options->n);
	case 'r':
		if (!whole_number(text, ROUNDS_MAX, &number))
			return false;
		options->rounds = (unsigned)number;
		return true;
	case 'q':
		return options->quick = true;
	case 'a':
		return options->pinned = true;
	case 'l':
		return options->list = true;
	case 'c':
		options->csv = text;
		return true;
	default:
		return false;
	}
}

bool options_take(struct options *options, int argc, char **argv)
{
	bool good = true;
	int option;

	while (good && (option = getopt(argc, argv, "s:S:p:n:r:qalc:")) != -1)
		good = take_option(options, option, optarg);
	good = good && optind == argc;
	if (!good)
		fputs(usage, stderr);
	return good;
}
