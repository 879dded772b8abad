/* SPDX-License-Identifier: BSD-2-Clause */
/* groups: which groups are paused or have limits of their own; and what the other commands say of that. */
#include "jobs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void write_limits(const hwt_store_limits *limits, char *text, size_t size)
{
	char every[32];
	size_t len = 0;

	text[0] = '\0';
	if (limits->running)
		len += (size_t)snprintf(text, size, "%" PRIu32 " running", limits->running);
	if (limits->start_every_ns && len < size) {
		write_duration(limits->start_every_ns, every, sizeof(every));
		(void)snprintf(text + len, size - len, "%sa start every %s, burst %" PRIu32, len ? ", " : "", every,
			       limits->burst ? limits->burst : 1);
	}
}

/* "paused, 3 running"; what has no limits though its kind may have some: "no limits". */
void write_rules(const hwt_store_group_info *info, char *text, size_t size)
{
	char limits[96];

	write_limits(&info->limits, limits, sizeof(limits));
	(void)snprintf(text, size, "%s%s%s", info->paused ? "paused" : "", info->paused && info->limited ? ", " : "",
		       !info->limited ? ""
		       : *limits      ? limits
				      : "no limits");
}

/*
 * The command
 */

struct listing {
	const struct jobs *jobs;
	int64_t count;
};

static bool list_group(void *ctx, const hwt_store_group_info *info)
{
	struct listing *listing = ctx;
	const struct jobs *jobs = listing->jobs;
	char rules[128];
	bool first = true;

	write_rules(info, rules, sizeof(rules));
	if (jobs->json) {
		fputs(listing->count ? ",\n{" : "\n{", jobs->out);
		json_member(jobs->out, &first, "group");
		json_text(jobs->out, info->group);
		fprintf(jobs->out, ", \"paused\": %s, \"limits\": ", info->paused ? "true" : "false");
		if (info->limited)
			fprintf(jobs->out,
				"{\"running\": %" PRIu32 ", \"start_every_ns\": %" PRId64 ", \"burst\": %" PRIu32 "}}",
				info->limits.running, info->limits.start_every_ns, info->limits.burst);
		else
			fputs("null}", jobs->out);
	} else {
		if (listing->count == 0)
			printf("%s%-40s %s%s\n", paint(jobs, BOLD), "GROUP", "RULES OF ITS OWN", paint(jobs, PLAIN));
		print_cut(info->group, 40);
		printf(" %s%s%s\n", paint(jobs, info->paused ? YELLOW : PLAIN), rules, paint(jobs, PLAIN));
	}
	listing->count++;
	return !ferror(jobs->out);
}

int groups(struct jobs *jobs)
{
	struct listing listing = { .jobs = jobs };
	int rc;

	if (jobs->n != 1)
		return complain(jobs, "groups takes one kind: those without rules of their own are in list and top");
	rc = find_kind(jobs, jobs->words[0]);
	if (rc != DONE)
		return rc;
	if (jobs->json)
		fputc('[', jobs->out);
	rc = hwt_store_each_group(jobs->store, jobs->words[0], list_group, &listing);
	if (rc != 0)
		return report(jobs, rc, "groups");
	if (jobs->json)
		fputs(listing.count ? "\n]\n" : "]\n", jobs->out);
	else if (listing.count == 0)
		fputs("no group of it is paused, or has limits of its own\n", stderr);
	return DONE;
}

/*
 * For list, stats and top: paused groups by name, and how many others have rules
 */

struct sums {
	const struct jobs *jobs;
	uint64_t paused, limited, named;
	char text[160]; /* names of some that are paused */
	size_t len;
};

static bool sum_up(void *ctx, const hwt_store_group_info *info)
{
	struct sums *sums = ctx;
	size_t len = strlen(info->group);

	if (sums->jobs->group && strcmp(sums->jobs->group, info->group) != 0)
		return true;
	if (info->paused && sums->len + len + 3 < sizeof(sums->text)) {
		sums->len += (size_t)snprintf(sums->text + sums->len, sizeof(sums->text) - sums->len, "%s%s",
					      sums->named ? ", " : "", info->group);
		sums->named++;
	}
	sums->paused += info->paused;
	sums->limited += info->limited;
	return true;
}

/* A line for a person, if the kind has groups with rules. */
void print_rules(const struct jobs *jobs, const char *kind)
{
	struct sums sums = { .jobs = jobs };

	if (jobs->no_group || hwt_store_each_group(jobs->store, kind, sum_up, &sums) != 0 ||
	    sums.paused + sums.limited == 0)
		return;
	fputs("  ", stdout);
	print_cut(kind, 0);
	if (sums.paused) {
		printf(": %s%" PRIu64 " group%s paused%s (", paint(jobs, YELLOW), sums.paused,
		       sums.paused == 1 ? " is" : "s are", paint(jobs, PLAIN));
		print_cut(sums.text, 0);
		fputs(sums.named == sums.paused ? ")" : sums.named ? ", ...)" : "...)", stdout);
	}
	if (sums.limited)
		printf("%s %" PRIu64 " with limits of %s own", sums.paused ? "," : ":", sums.limited,
		       sums.limited == 1 ? "its" : "their");
	fputs(": hwt-jobs groups ", stdout);
	print_cut(kind, 0);
	putchar('\n');
}

void json_rules(const struct jobs *jobs, bool *first, const char *kind)
{
	struct sums sums = { .jobs = jobs };

	if (hwt_store_each_group(jobs->store, kind, sum_up, &sums) != 0)
		return;
	json_member(jobs->out, first, "paused_groups");
	fprintf(jobs->out, "%" PRIu64, sums.paused);
	json_member(jobs->out, first, "limited_groups");
	fprintf(jobs->out, "%" PRIu64, sums.limited);
}

/* For show: the rules of one group, "" if it has none of its own. */
struct one {
	const char *group;
	char *text;
	size_t size;
};

static bool find_one(void *ctx, const hwt_store_group_info *info)
{
	struct one *one = ctx;

	if (strcmp(info->group, one->group) != 0)
		return true;
	write_rules(info, one->text, one->size);
	return false;
}

void rules_of(const struct jobs *jobs, const char *kind, const char *group, char *text, size_t size)
{
	struct one one = { group, text, size };

	text[0] = '\0';
	if (*group)
		(void)hwt_store_each_group(jobs->store, kind, find_one, &one);
}
