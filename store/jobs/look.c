/* SPDX-License-Identifier: BSD-2-Clause */
/* list, show, stats. */
#include "jobs.h"
#include "select.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MOST 100 /* rows that list shows to a person, without a number */

const char *state_name(hwt_store_state state)
{
	static const char *const names[] = { "", "pending", "running", "failed" };

	return names[state];
}

static enum colour state_colour(hwt_store_state state)
{
	return state == HWT_STORE_FAILED ? RED : state == HWT_STORE_RUNNING ? GREEN : PLAIN;
}

static void json_string(FILE *out, bool *first, const char *name, const char *text)
{
	json_member(out, first, name);
	if (*text)
		json_text(out, text);
	else
		fputs("null", out);
}

static void json_number(FILE *out, bool *first, const char *name, int64_t number)
{
	json_member(out, first, name);
	fprintf(out, "%" PRId64, number);
}

static void json_time(FILE *out, bool *first, const char *name, int64_t us)
{
	char text[48];

	write_utc(us, text, sizeof(text));
	json_string(out, first, name, us ? text : "");
}

void json_info(FILE *out, const hwt_store_info *info, bool with_data)
{
	bool first = true;

	fputc('{', out);
	json_number(out, &first, "id", info->id);
	json_string(out, &first, "kind", info->kind);
	json_string(out, &first, "state", state_name(info->state));
	json_time(out, &first, "due", info->due_us);
	json_number(out, &first, "due_us", info->due_us);
	json_string(out, &first, "group", info->group);
	json_string(out, &first, "key", info->key);
	json_number(out, &first, "attempt", info->attempt);
	json_number(out, &first, "priority", info->priority);
	json_number(out, &first, "period_ns", info->period_ns);
	json_string(out, &first, "schedule", info->schedule);
	json_string(out, &first, "zone", info->zone);
	json_string(out, &first, "owner", info->owner);
	json_string(out, &first, "error", info->error);
	json_number(out, &first, "len", (int64_t)info->len);
	if (with_data)
		json_data(out, &first, info->data ? info->data : "", info->data ? info->len : 0);
	fputc('}', out);
}

/*
 * list
 */

struct listing {
	struct jobs *jobs;
	int64_t limit, count, now_us;
	int width; /* of the columns of names */
	bool more, kinds;
	int rc;
};

static void print_head(const struct listing *listing)
{
	const struct jobs *jobs = listing->jobs;

	printf("%s%-16s %-8s %-11s", paint(jobs, BOLD), "ID", "STATE", "DUE");
	if (listing->kinds)
		printf(" %-*s", listing->width, "KIND");
	printf(" %-*s %-*s REPEATS, ERROR%s\n", listing->width, "GROUP", listing->width, "KEY", paint(jobs, PLAIN));
}

static void print_repeats(const hwt_store_info *info)
{
	char every[32];

	if (info->schedule[0]) {
		print_cut(info->schedule, 0);
		fputs(info->zone[0] ? " " : "", stdout);
		print_cut(info->zone, 0);
		fputs("  ", stdout);
	}
	if (info->period_ns > 0) {
		write_duration(info->period_ns, every, sizeof(every));
		printf("every %s  ", every);
	}
}

static void print_row(const struct listing *listing, const hwt_store_info *info)
{
	const struct jobs *jobs = listing->jobs;
	bool late = info->state == HWT_STORE_PENDING && info->due_us < listing->now_us - 1000000 && info->due_us > 0;
	char due[48];

	write_distance(info->due_us, listing->now_us, due, sizeof(due));
	printf("%-16" PRId64 " %s%-8s%s %s%-11s%s ", info->id, paint(jobs, state_colour(info->state)),
	       state_name(info->state), paint(jobs, PLAIN), paint(jobs, late ? YELLOW : PLAIN), due,
	       paint(jobs, PLAIN));
	if (listing->kinds) {
		print_cut(info->kind, listing->width);
		putchar(' ');
	}
	print_cut(info->group, listing->width);
	putchar(' ');
	print_cut(info->key, listing->width);
	putchar(' ');
	print_repeats(info);
	if (info->attempt > 1 || info->error[0])
		printf("attempt %u  ", info->attempt);
	if (info->error[0])
		print_cut(info->error, 0);
	putchar('\n');
}

static bool list_one(void *ctx, const hwt_store_info *info)
{
	struct listing *listing = ctx;

	if (listing->limit && listing->count == listing->limit) {
		listing->more = true;
		return false;
	}
	if (listing->jobs->json) {
		fputs(listing->count ? ",\n" : "\n", listing->jobs->out);
		json_info(listing->jobs->out, info, true);
	} else {
		if (listing->count == 0)
			print_head(listing);
		print_row(listing, info);
	}
	listing->count++;
	return !ferror(listing->jobs->out);
}

static int list_kind(struct listing *listing, const char *kind)
{
	const struct jobs *jobs = listing->jobs;
	hwt_store_which which = all_of(jobs, kind);
	int64_t before = listing->count;
	int rc;

	if (jobs->json)
		which.states |= HWT_STORE_WITH_DATA;
	rc = hwt_store_each_ex(jobs->store, &which, list_one, listing);
	if (rc == 0 && !jobs->json && listing->count > before)
		print_rules(jobs, kind);
	return rc == ENOENT ? 0 : rc;
}

static bool add_name(void *ctx, const hwt_store_kind_info *info)
{
	struct names *names = ctx;
	char(*more)[64] = realloc(names->names, (names->n + 1) * sizeof(*more));

	if (!more) {
		names->rc = ENOMEM;
		return false;
	}
	names->names = more;
	memcpy(more[names->n++], info->kind, 64);
	return true;
}

int read_names(hwt_store *store, struct names *names)
{
	int rc = hwt_store_each_kind(store, add_name, names);

	return rc ? rc : names->rc;
}

int list(struct jobs *jobs)
{
	struct listing listing = { .jobs = jobs, .limit = jobs->limit, .now_us = wall_us() };
	struct names names = { .n = 0 };
	size_t listed = 0;
	int rc = 0;

	if (jobs->n > 1)
		return complain(jobs, "list takes one kind, not \"%s\"", jobs->words[1]);
	rc = jobs->n == 1 ? find_kind(jobs, jobs->words[0]) : DONE;
	if (rc != DONE)
		return rc;
	if (!jobs->json && !listing.limit)
		listing.limit = LIST_MOST;
	listing.kinds = jobs->n == 0;
	listing.width = (terminal_columns() - 54) / (listing.kinds ? 3 : 2);
	listing.width = listing.width < 8 ? 8 : listing.width > 24 ? 24 : listing.width;
	if (jobs->json)
		fputc('[', jobs->out);
	rc = read_names(jobs->store, &names);
	for (size_t i = 0; i < names.n && rc == 0 && !listing.more; i++) {
		int64_t before = listing.count;

		if (jobs->n == 0 || strcmp(names.names[i], jobs->words[0]) == 0)
			rc = list_kind(&listing, names.names[i]);
		if (listing.count > before)
			memmove(names.names[listed++], names.names[i], sizeof(names.names[i]));
	}
	names.n = listed;
	if (rc == 0 && jobs->json)
		fputs(listing.count ? "\n]\n" : "]\n", jobs->out);
	else if (rc == 0 && listing.count == 0)
		fputs("nothing there\n", stderr);
	else if (rc == 0 && (!jobs->states || jobs->states & PENDING))
		print_why(jobs, &names);
	free(names.names);
	if (rc != 0)
		return report(jobs, rc, "list"); /* no "]": a list that was cut must not parse */
	if (listing.more && !jobs->json)
		fprintf(stderr, "... and more: -n shows more of them, --state, --group and a kind fewer\n");
	return DONE;
}

/*
 * show
 */

static void print_data(const hwt_store_info *info)
{
	const unsigned char *data = info->data;

	printf("data      %zu bytes\n", info->len);
	if (info->len == 0)
		return;
	if (is_text(info->data, info->len)) {
		fwrite(info->data, 1, info->len, stdout);
		puts(data[info->len - 1] == '\n' ? "" : "\n");
		return;
	}
	for (size_t i = 0; i < info->len && i < 512; i++)
		printf("%02x%s", data[i], i % 16 == 15 || i + 1 == info->len ? "\n" : i % 8 == 7 ? "  " : " ");
	if (info->len > 512)
		printf("\n... %zu more: --json has them all\n", info->len - 512);
}

static void print_info(const struct jobs *jobs, const hwt_store_info *info)
{
	char due[48], distance[48], rules[128];

	rules_of(jobs, info->kind, info->group, rules, sizeof(rules));
	write_time(info->due_us, due, sizeof(due));
	write_distance(info->due_us, wall_us(), distance, sizeof(distance));
	printf("id        %" PRId64 "\nkind      ", info->id);
	print_cut(info->kind, 0);
	printf("\nstate     %s%s%s, attempt %u\ndue       %s (%s)\n", paint(jobs, state_colour(info->state)),
	       state_name(info->state), paint(jobs, PLAIN), info->attempt, due, distance);
	if (info->schedule[0] || info->period_ns > 0) {
		fputs("repeats   ", stdout);
		print_repeats(info);
		putchar('\n');
	}
	const struct {
		const char *name, *text;
	} lines[] = { { "group", info->group },
		      { "rules", rules },
		      { "key", info->key },
		      { "owner", info->owner },
		      { "error", info->error } };

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (lines[i].text[0]) {
			printf("%-9s ", lines[i].name);
			print_cut(lines[i].text, 0);
			putchar('\n');
		}
	if (info->priority)
		printf("priority  %d\n", info->priority);
	print_data(info);
}

int show(struct jobs *jobs)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;
	hwt_store_which which;
	int rc = one_of(jobs, jobs->n == 1 ? jobs->words[0] : NULL, &which);

	if (rc != DONE)
		return rc;
	info.data_room = HWT_STORE_DATA_MAX;
	info.data = malloc(info.data_room);
	rc = info.data ? hwt_store_get_ex(jobs->store, &which, &info) : ENOMEM;
	if (rc == 0 && jobs->json) {
		json_info(jobs->out, &info, true);
		fputc('\n', jobs->out);
	} else if (rc == 0) {
		print_info(jobs, &info);
		if (info.state == HWT_STORE_PENDING && info.due_us <= wall_us())
			print_why(jobs, &(struct names){ .names = &info.kind, .n = 1 });
	}
	free(info.data);
	return rc == 0 ? DONE : report(jobs, rc, "show");
}

/*
 * stats
 */

struct counts {
	uint64_t of[HWT_STORE_FAILED + 1]; /* by state */
};

static bool count_state(void *ctx, const hwt_store_info *info)
{
	struct counts *counts = ctx;

	counts->of[info->state]++;
	return true;
}

static int count_kind(struct listing *listing, const hwt_store_kind_info *info, struct counts *counts)
{
	hwt_store_which which = all_of(listing->jobs, info->kind);
	int rc = hwt_store_each_ex(listing->jobs->store, &which, count_state, counts);

	return rc == ENOENT ? 0 : rc;
}

/* Of rows that are due first: "due_more" says that there are more than these. */
static void json_backlog(const struct jobs *jobs, bool *first, const hwt_store_kind_info *info, int64_t now_us)
{
	struct backlog backlog;

	if (read_backlog(jobs->store, info->kind, now_us, &backlog) != 0)
		return;
	json_number(jobs->out, first, "due", (int64_t)backlog.due);
	json_member(jobs->out, first, "due_more");
	fputs(backlog.more ? "true" : "false", jobs->out);
	json_number(jobs->out, first, "running", (int64_t)backlog.running);
}

static void json_kind(const struct jobs *jobs, const hwt_store_kind_info *info, int64_t now_us,
		      const struct counts *counts)
{
	static const char *const modes[] = { "at least once", "at most once", "transaction" };
	FILE *out = jobs->out;
	bool first = true;

	fputc('{', out);
	json_string(out, &first, "kind", info->kind);
	json_string(out, &first, "mode", info->mode < 3 ? modes[info->mode] : "");
	json_number(out, &first, "shards", info->shards);
	json_member(out, &first, "paused");
	fputs(info->paused ? "true" : "false", out);
	json_number(out, &first, "processes", info->processes);
	json_number(out, &first, "failed", (int64_t)info->failed);
	json_backlog(jobs, &first, info, now_us);
	json_waiting(jobs, &first, info);
	json_number(out, &first, "started_minute", (int64_t)info->started_minute);
	json_time(out, &first, "oldest_due", info->oldest_due_us);
	json_number(out, &first, "overdue_us",
		    info->oldest_due_us && info->oldest_due_us < now_us ? now_us - info->oldest_due_us : 0);
	json_member(out, &first, "each_group");
	fprintf(out, "{\"running\": %" PRIu32 ", \"start_every_ns\": %" PRId64 ", \"burst\": %" PRIu32 "}",
		info->each_group.running, info->each_group.start_every_ns, info->each_group.burst);
	json_rules(jobs, &first, info->kind);
	if (counts) {
		json_member(out, &first, "counts");
		fprintf(out, "{\"pending\": %" PRIu64 ", \"running\": %" PRIu64 ", \"failed\": %" PRIu64 "}",
			counts->of[HWT_STORE_PENDING], counts->of[HWT_STORE_RUNNING], counts->of[HWT_STORE_FAILED]);
	}
	fputc('}', out);
}

static void print_kind(const struct jobs *jobs, const hwt_store_kind_info *info, int64_t now_us)
{
	bool late = info->oldest_due_us && info->oldest_due_us < now_us - 1000000;
	char oldest[48], limits[96], failed[24];

	write_distance(info->oldest_due_us, now_us, oldest, sizeof(oldest));
	write_limits(&info->each_group, limits, sizeof(limits));
	(void)snprintf(failed, sizeof(failed), info->failed > 1000 ? "> 1000" : "%" PRIu64, info->failed);
	print_cut(info->kind, 24);
	printf(" %s%9" PRIu32 "%s %6u  %s%-7s%s %s%7s%s  %s%-14s%s %s\n", paint(jobs, info->processes ? PLAIN : YELLOW),
	       info->processes, paint(jobs, PLAIN), info->shards,
	       paint(jobs, info->paused || !info->processes ? YELLOW : PLAIN),
	       info->paused      ? "paused"
	       : info->processes ? "runs"
				 : "nobody",
	       paint(jobs, PLAIN), paint(jobs, info->failed ? RED : PLAIN), failed, paint(jobs, PLAIN),
	       paint(jobs, late ? RED : PLAIN), oldest, paint(jobs, PLAIN), limits);
	print_waiting(info);
	print_rules(jobs, info->kind);
}

static void print_counts(const hwt_store_kind_info *info, const struct counts *counts)
{
	print_cut(info->kind, 24);
	printf(" %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n", counts->of[HWT_STORE_PENDING],
	       counts->of[HWT_STORE_RUNNING], counts->of[HWT_STORE_FAILED]);
}

static void print_kinds_head(const struct jobs *jobs)
{
	if (jobs->count) {
		printf("%s%-24s %9s %9s %9s%s\n", paint(jobs, BOLD), "KIND", "PENDING", "RUNNING", "FAILED",
		       paint(jobs, PLAIN));
		return;
	}
	printf("%s%-24s %9s %6s  %-7s %7s  %-14s %s%s\n", paint(jobs, BOLD), "KIND", "PROCESSES", "SHARDS", "STATE",
	       "FAILED", "OLDEST DUE", "LIMITS OF A GROUP", paint(jobs, PLAIN));
}

static bool list_a_kind(void *ctx, const hwt_store_kind_info *info)
{
	struct listing *listing = ctx;
	const struct jobs *jobs = listing->jobs;
	struct counts counts = { .of = { 0 } };

	if (jobs->n == 1 && strcmp(info->kind, jobs->words[0]) != 0)
		return true;
	if (jobs->count)
		listing->rc = count_kind(listing, info, &counts);
	if (listing->rc != 0)
		return false;
	if (jobs->json) {
		fputs(listing->count ? ",\n" : "\n", jobs->out);
		json_kind(jobs, info, listing->now_us, jobs->count ? &counts : NULL);
	} else {
		if (listing->count == 0)
			print_kinds_head(jobs);
		if (jobs->count)
			print_counts(info, &counts);
		else
			print_kind(jobs, info, listing->now_us);
	}
	return ++listing->count != listing->limit;
}

int print_kinds(struct jobs *jobs, int64_t most, int64_t *count)
{
	struct listing listing = { .jobs = jobs, .limit = most, .now_us = wall_us() };
	int rc;

	if (jobs->json)
		fputc('[', jobs->out);
	rc = hwt_store_each_kind(jobs->store, list_a_kind, &listing);
	rc = rc ? rc : listing.rc;
	if (rc == 0 && jobs->json)
		fputs(listing.count ? "\n]\n" : "]\n", jobs->out);
	if (rc == 0 && !jobs->json && listing.count == 0)
		puts("there are no kinds yet");
	if (count)
		*count = listing.count;
	return rc;
}

static int print_prometheus(struct jobs *jobs)
{
	int len = hwt_store_prometheus(jobs->store, NULL, 0), room = len + 65536;
	char *text = len >= 0 ? malloc((size_t)room) : NULL;

	if (len >= 0 && !text)
		len = -ENOMEM;
	if (len >= 0)
		len = hwt_store_prometheus(jobs->store, text, (size_t)room);
	if (len >= 0)
		fputs(text, jobs->out);
	free(text);
	return len < 0 ? report(jobs, -len, "stats") : DONE;
}

int stats(struct jobs *jobs)
{
	int rc;

	if (jobs->n > 1)
		return complain(jobs, "stats takes one kind, not \"%s\"", jobs->words[1]);
	if (jobs->prometheus)
		return print_prometheus(jobs);
	rc = jobs->n == 1 ? find_kind(jobs, jobs->words[0]) : DONE;
	if (rc != DONE)
		return rc;
	rc = print_kinds(jobs, 0, NULL);
	return rc == 0 ? DONE : report(jobs, rc, "stats");
}
