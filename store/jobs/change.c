/* SPDX-License-Identifier: BSD-2-Clause */
/* put, cancel, move, retry, remove. */
#include "jobs.h"
#include "select.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KINDS_MOST 256 /* that a suggestion looks at */

/*
 * Which
 */

struct kind_names {
	char names[KINDS_MOST][64];
	const char *words[KINDS_MOST];
	size_t n;
	const char *wanted;
	bool found;
};

static bool see_kind(void *ctx, const hwt_store_kind_info *info)
{
	struct kind_names *names = ctx;

	names->found |= strcmp(info->kind, names->wanted) == 0;
	if (names->n < KINDS_MOST) {
		memcpy(names->names[names->n], info->kind, 64);
		names->words[names->n] = names->names[names->n];
		names->n++;
	}
	return !names->found;
}

int find_kind(struct jobs *jobs, const char *name)
{
	struct kind_names names = { .wanted = name };
	const char *near;
	int rc;

	rc = hwt_store_each_kind(jobs->store, see_kind, &names);
	if (rc != 0)
		return report(jobs, rc, "kinds");
	near = names.found ? NULL : nearest(name, names.words, names.n);
	if (!names.found && near)
		(void)complain(jobs, "there is no kind \"%s\"; did you mean \"%s\"?", name, near);
	else if (!names.found)
		(void)complain(jobs, "there is no kind \"%s\": hwt-jobs stats lists them", name);
	return names.found ? DONE : NOT_DONE;
}

bool read_id(const char *word, int64_t *id)
{
	char *end;

	errno = 0;
	*id = strtoll(word, &end, 10);
	return end != word && *end == '\0' && errno == 0 && *id > 0;
}

int one_of(struct jobs *jobs, const char *word, hwt_store_which *which)
{
	*which = (hwt_store_which)HWT_STORE_WHICH_INIT;
	which->states = jobs->states;
	if (!word)
		return complain(jobs, "which one: an id, or a kind with --key");
	if (!jobs->key)
		return read_id(word, &which->id)
			   ? DONE
			   : complain(jobs, "\"%s\" is no id; a kind goes with --key, or with --all", word);
	which->kind = word;
	which->key = jobs->key;
	which->group = jobs->group;
	return find_kind(jobs, word);
}

hwt_store_which all_of(const struct jobs *jobs, const char *kind)
{
	hwt_store_which which = HWT_STORE_WHICH_INIT;

	which.kind = kind;
	which.group = jobs->group;
	which.all = true;
	which.any_group = !jobs->group && !jobs->no_group;
	which.states = jobs->states;
	return which;
}

/*
 * put
 */

/* Reads at most HWT_STORE_DATA_MAX + 1 bytes: the put refuses that size. */
static int read_input(struct jobs *jobs, char **data, size_t *len)
{
	*data = malloc(HWT_STORE_DATA_MAX + 1);
	if (!*data)
		return report(jobs, ENOMEM, "put");
	*len = fread(*data, 1, HWT_STORE_DATA_MAX + 1, stdin);
	return ferror(stdin) ? complain(jobs, "the input: %s", strerror(errno)) : DONE;
}

/* --at, or --in; neither: now. */
static int read_due(const struct jobs *jobs, hwt_store_when *when)
{
	*when = (hwt_store_when){ 0, 0 };
	if (jobs->when && jobs->in)
		return complain(jobs, "--at and --in exclude each other");
	if (jobs->when && !read_when(jobs->when, wall_us(), when))
		return complain(jobs, "\"%s\" is no time: 90s, 2h30m, 18:00, tomorrow 9:00, 2026-12-01T10:00",
				jobs->when);
	if (jobs->in && !read_duration(jobs->in, &when->delay_ns))
		return complain(jobs, "\"%s\" is no duration: 90s, 2h30m, 1d", jobs->in);
	return DONE;
}

/* The library would say it of its fields. */
static int check_put(const struct jobs *jobs)
{
	if (jobs->every && jobs->cron)
		return complain(jobs, "--every and --cron exclude each other");
	if (jobs->zone && !jobs->cron)
		return complain(jobs, "--zone needs --cron");
	if (jobs->spread && !jobs->every && !jobs->cron)
		return complain(jobs, "--spread needs --every or --cron");
	if ((jobs->replace || jobs->revive || jobs->keep_due) && !jobs->key)
		return complain(jobs, "--replace, --revive and --keep-due need --key");
	return DONE;
}

static int read_spec(struct jobs *jobs, hwt_store_spec *spec)
{
	hwt_store_when when;
	int rc = read_due(jobs, &when);

	if (rc == DONE)
		rc = check_put(jobs);
	if (rc != DONE)
		return rc;
	spec->kind = jobs->words[0];
	spec->key = jobs->key;
	spec->group = jobs->group;
	spec->priority = jobs->priority;
	spec->schedule = jobs->cron;
	spec->zone = jobs->zone;
	spec->flags = (jobs->replace ? HWT_STORE_REPLACE : 0) | (jobs->revive ? HWT_STORE_REVIVE : 0) |
		      (jobs->keep_due ? HWT_STORE_KEEP_DUE : 0);
	if (jobs->every && (!read_duration(jobs->every, &spec->period_ns) || spec->period_ns == 0))
		return complain(jobs, "\"%s\" is no duration: 90s, 2h30m, 1d", jobs->every);
	if (jobs->grace && !read_duration(jobs->grace, &spec->grace_ns))
		return complain(jobs, "\"%s\" is no duration: 90s, 2h30m, 1d", jobs->grace);
	if (jobs->spread && !read_duration(jobs->spread, &spec->spread_ns))
		return complain(jobs, "\"%s\" is no duration: 90s, 2h30m, 1d", jobs->spread);
	spec->delay_ns = when.delay_ns;
	spec->due_us = when.due_us;
	if (when.due_us)
		spec->flags |= HWT_STORE_ABSOLUTE;
	return DONE;
}

static int answer_put(struct jobs *jobs, int rc, const int64_t *id)
{
	if (rc != 0 && rc != EEXIST && rc != EBUSY)
		return report(jobs, rc, "put");
	if (rc != 0)
		(void)report(jobs, rc, "put");
	if (jobs->json)
		printf("{\"id\": %" PRId64 ", \"put\": %s}\n", *id, rc == 0 ? "true" : "false");
	else
		printf("%" PRId64 "\n", *id);
	return rc == 0 ? DONE : NOT_DONE;
}

int put(struct jobs *jobs)
{
	hwt_store_spec spec = HWT_STORE_SPEC_INIT;
	const char *data;
	char *input = NULL;
	int64_t id = 0;
	int rc;

	if (jobs->n < 1 || jobs->n > 2)
		return complain(jobs, "put takes a kind, and perhaps data; - reads it from the input");
	if (jobs->n == 2 && jobs->data)
		return complain(jobs, "the data twice: \"%s\" and --data", jobs->words[1]);
	rc = read_spec(jobs, &spec);
	if (rc != DONE)
		return rc;
	rc = jobs->make ? DONE : find_kind(jobs, spec.kind);
	if (rc == NOT_DONE && !jobs->json)
		fputs("with --make this put makes it\n", stderr);
	if (rc != DONE)
		return rc;
	data = jobs->n == 2 ? jobs->words[1] : jobs->data;
	if (data && strcmp(data, "-") == 0) {
		rc = read_input(jobs, &input, &spec.len);
		spec.data = input;
	} else if (data) {
		spec.data = data;
		spec.len = strlen(data);
	}
	if (rc == DONE)
		rc = answer_put(jobs, hwt_store_put(jobs->store, &spec, &id), &id);
	free(input);
	return rc;
}

/*
 * What is done to one, or to many
 */

struct act {
	const char *doing, *done; /* words */
	bool moves;
	hwt_store_when when;
};

static int act_on(struct jobs *jobs, const struct act *act, const hwt_store_which *which, uint64_t *n)
{
	return act->moves ? hwt_store_reschedule_ex(jobs->store, which, act->when, n)
			  : hwt_store_cancel_ex(jobs->store, which, n);
}

static bool count_one(void *ctx, const hwt_store_info *info)
{
	(void)info;
	++*(uint64_t *)ctx;
	return true;
}

static int end_act(const struct jobs *jobs, const struct act *act, uint64_t n, int status)
{
	if (jobs->json)
		fprintf(jobs->out, "{\"%s\": %" PRIu64 "}\n", act->done, n);
	else
		printf("%s %" PRIu64 "\n", act->done, n);
	return status;
}

/* All of a kind, or of a group: counted first if a person is asked. */
static int act_on_many(struct jobs *jobs, const struct act *act)
{
	hwt_store_which which = all_of(jobs, jobs->words[0]);
	struct bar *bar;
	char question[192];
	uint64_t total = 0, n = 0;
	int rc;

	if (jobs->n != 1 || jobs->key)
		return complain(jobs, "--all goes with one kind, and with no key");
	rc = find_kind(jobs, jobs->words[0]);
	if (rc != DONE)
		return rc;
	if (!act->moves && !jobs->yes && !asks(jobs))
		return complain(jobs, "nobody can be asked here: --yes cancels all of %s", jobs->words[0]);
	if (asks(jobs)) {
		rc = hwt_store_each_ex(jobs->store, &which, count_one, &total);
		if (rc != 0)
			return report(jobs, rc, act->doing);
		(void)snprintf(question, sizeof(question), "%s %" PRIu64 " timeouts of %s%s%s", act->doing, total,
			       jobs->words[0], jobs->group ? ", group " : "", jobs->group ? jobs->group : "");
		if (!confirm(question))
			return NOT_DONE;
	}
	bar = bar_begin(jobs, act->doing, total);
	rc = act_on(jobs, act, &which, &n);
	bar_end(bar);
	if (rc != 0)
		(void)report(jobs, rc, act->doing);
	return end_act(jobs, act, n, rc == 0 ? DONE : NO_DATABASE);
}

/* Of a word.  A timeout in another state is ENOENT, too. */
static int report_word(struct jobs *jobs, const struct act *act, int rc, const hwt_store_which *which, const char *word)
{
	if (rc != ENOENT || !(act->moves || which->states))
		return report(jobs, rc, word);
	(void)complain(jobs, "%s: not there to %s, or in another state: hwt-jobs show says which", word, act->doing);
	jobs->failure = rc;
	return NOT_DONE;
}

static int act_on_words(struct jobs *jobs, const struct act *act, int from)
{
	uint64_t n = 0;
	int status = DONE;

	if (jobs->n <= from)
		return complain(jobs, "which ones: ids, a kind with --key, or a kind with --all");
	for (int i = from; i < jobs->n; i++) {
		hwt_store_which which;
		int rc = one_of(jobs, jobs->words[i], &which);

		if (rc != DONE)
			return rc;
		rc = act_on(jobs, act, &which, NULL);
		n += rc == 0;
		if (rc != 0) {
			int how = report_word(jobs, act, rc, &which, jobs->words[i]);

			status = how > status ? how : status;
		}
	}
	return end_act(jobs, act, n, status);
}

static int act_on_all(struct jobs *jobs, const struct act *act)
{
	return jobs->all ? act_on_many(jobs, act) : act_on_words(jobs, act, 0);
}

int cancel(struct jobs *jobs)
{
	const struct act act = { .doing = "cancel", .done = "cancelled" };

	return act_on_all(jobs, &act);
}

int move(struct jobs *jobs)
{
	struct act act = { .doing = "move", .done = "moved", .moves = true };

	int rc = read_due(jobs, &act.when);

	if (rc != DONE)
		return rc;
	if (!jobs->when && !jobs->in)
		return complain(jobs, "when: --in 90s, --at 18:00, --at 2026-12-01T10:00");
	return act_on_all(jobs, &act);
}

int retry(struct jobs *jobs)
{
	const struct act act = { .doing = "retry", .done = "retried", .moves = true };

	jobs->states = FAILED;
	return act_on_all(jobs, &act);
}

int remove_kind(struct jobs *jobs)
{
	int rc;

	if (jobs->n != 1)
		return complain(jobs, "remove takes one kind");
	rc = find_kind(jobs, jobs->words[0]);
	if (rc != DONE)
		return rc;
	rc = hwt_store_remove_kind(jobs->store, jobs->words[0]);
	if (rc != 0)
		return report(jobs, rc, "remove");
	if (jobs->json)
		puts("{\"removed\": 1}");
	else
		puts("removed");
	return DONE;
}
