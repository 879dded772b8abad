/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What /api/ answers: the commands of the tool, with the parameters of a query or the members of an object as their
 * options, and with --json.
 */
#include "serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One run of a command. */
struct call {
	struct jobs jobs;
	char *words[1]; /* an id, or a kind */
	bool by_id, lists;
	struct part part; /* of a list */
	char *out, *err;
	size_t out_len, err_len;
	int rc;
};

/* What a list over HTTP has beside the options of the tool.  False: it is none of these. */
static bool give_part(struct call *call, const char *name, const char *value)
{
	if (strcmp(name, "key") == 0)
		call->part.prefix = value;
	else if (strcmp(name, "after") == 0)
		call->part.after = value;
	else if (strcmp(name, "data") == 0 && strcmp(value, "no") == 0)
		call->part.no_data = true;
	else
		return false;
	return true;
}

static bool is_word(const char *name)
{
	return strcmp(name, "id") == 0 || strcmp(name, "kind") == 0;
}

static bool is_known(const struct call *call, const char *name)
{
	return is_word(name) || option_takes(&call->jobs, name) != NO_OPTION ||
	       (call->lists && (strcmp(name, "key") == 0 || strcmp(name, "after") == 0 || strcmp(name, "data") == 0 ||
				strcmp(name, "limit") == 0));
}

/* An id names one timeout, a kind never does, whatever its digits: neither is taken for the other. */
static int give_word(struct call *call, const char *name, const char *value)
{
	const struct jobs *jobs = &call->jobs;
	int64_t id;

	call->by_id = strcmp(name, "id") == 0;
	if (jobs->n > 0 || !value)
		return complain(jobs, "an id, or a kind, and one of them");
	if (call->by_id && (option_takes(jobs, "key") == NO_OPTION || !read_id(value, &id)))
		return complain(jobs, "id is the number of a timeout; of a kind: kind");
	call->words[0] = (char *)(uintptr_t)value;
	call->jobs.n = 1;
	return DONE;
}

/* A parameter or member: a word, or an option of the command; value NULL: true. */
static bool give(struct call *call, const char *name, const char *value)
{
	if (call->lists && strcmp(name, "limit") == 0)
		name = "number";
	if (value && !is_utf8(value, strlen(value))) {
		call->rc = complain(&call->jobs, "what is given is no UTF-8");
		return false;
	}
	if (strcmp(name, "prometheus") == 0) {
		call->rc = complain(&call->jobs, "prometheus is no parameter: GET /metrics");
		return false;
	}
	if (call->lists && value && give_part(call, name, value))
		return true;
	call->rc = is_word(name) ? give_word(call, name, value) : give_option(&call->jobs, name, value);
	return call->rc == DONE;
}

/* "": an empty field of a form.  A flag is true or false. */
static enum MHD_Result give_parameter(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct call *call = ctx;
	bool flag = option_takes(&call->jobs, name) == TAKES_NOTHING;

	(void)kind;
	if (is_known(call, name) && (!value || !*value || (flag && strcmp(value, "false") == 0)))
		return MHD_YES;
	if (flag && strcmp(value, "true") == 0)
		value = NULL;
	return give(call, name, value) ? MHD_YES : MHD_NO;
}

/* null, and false of what is no flag, would leave out what the change was to be narrowed to. */
static bool give_member(void *ctx, const char *name, enum json_value type, const char *value)
{
	struct call *call = ctx;

	if (type == JSON_FALSE && option_takes(&call->jobs, name) == TAKES_NOTHING)
		return true;
	if (type != JSON_NULL && type != JSON_FALSE)
		return give(call, name, type == JSON_TRUE ? NULL : value);
	call->rc = complain(&call->jobs, "%s: null and false are no values for this", name);
	return false;
}

/* Of a command for one timeout: an id stands alone, and a kind needs a key, or all. */
static int check_word(const struct call *call)
{
	const struct jobs *jobs = &call->jobs;

	if (option_takes(jobs, "key") == NO_OPTION || jobs->n == 0)
		return DONE;
	if (call->by_id && (jobs->all || jobs->key))
		return complain(jobs, "an id goes with neither key nor all: it names one");
	if (!call->by_id && !jobs->all && !jobs->key)
		return complain(jobs, "a kind goes with key, or with all");
	return DONE;
}

static bool read_body(struct call *call, struct request *request)
{
	return request->body && strlen(request->body) == request->len && read_object(request->body, give_member, call);
}

/* Answers that are under way share the store's connections. */
bool begin_call(struct server *server)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	while (sem_timedwait(&server->calls, &until) != 0)
		if (errno != EINTR)
			return false;
	return true;
}

void end_call(struct server *server)
{
	(void)sem_post(&server->calls);
}

static unsigned status_of(const struct call *call)
{
	switch (call->rc) {
	case DONE:
		return MHD_HTTP_OK;
	case WRONG_USE:
		return MHD_HTTP_BAD_REQUEST;
	case NOT_DONE:
		return call->jobs.failure == EBUSY || call->jobs.failure == EEXIST ? MHD_HTTP_CONFLICT
										   : MHD_HTTP_NOT_FOUND;
	default:
		return call->jobs.failure == EACCES ? MHD_HTTP_FORBIDDEN : MHD_HTTP_SERVICE_UNAVAILABLE;
	}
}

/* Returns the output of the call; if it failed, the first line of its errors. */
static struct answer answer_of(struct call *call, const char *type)
{
	struct answer answer = { .status = status_of(call), .type = type };
	bool whole = fclose(call->jobs.out) == 0, told = fclose(call->jobs.err) == 0;

	if (call->rc == DONE && whole) {
		free(call->err);
		answer.text = call->out;
		answer.len = call->out_len;
		return answer;
	}
	free(call->out);
	if (told && call->err_len > 0) {
		answer.type = NULL;
		answer.text = call->err;
		answer.len = strcspn(call->err, "\n") + 1;
		return answer;
	}
	free(call->err);
	return no_memory(MHD_HTTP_SERVICE_UNAVAILABLE);
}

static bool prepare(struct call *call, struct request *request, const char *command)
{
	const struct jobs *jobs = request->server->jobs;

	*call = (struct call){ .jobs = { .store = jobs->store,
					 .url = jobs->url,
					 .schema = jobs->schema,
					 .running = -1,
					 .burst = -1,
					 .json = true,
					 .yes = true } };
	call->jobs.words = call->words;
	call->jobs.out = open_memstream(&call->out, &call->out_len);
	call->jobs.err = call->jobs.out ? open_memstream(&call->err, &call->err_len) : NULL;
	if (!call->jobs.err) {
		if (call->jobs.out)
			(void)fclose(call->jobs.out);
		free(call->out);
		return false;
	}
	call->rc = find_command(&call->jobs, command);
	call->lists = strcmp(command, "list") == 0;
	return true;
}

static void run_call(struct call *call, struct server *server)
{
	if (!begin_call(server)) {
		(void)complain(&call->jobs, "the database does not answer: %d calls wait for it", CALLS);
		call->rc = NO_DATABASE;
		return;
	}
	call->rc = call->lists ? list_part(&call->jobs, &call->part) : run_command(&call->jobs);
	end_call(server);
}

struct answer answer_command(struct request *request, const char *command)
{
	struct call call;
	const char *name = strcmp(command, "kinds") == 0 ? "stats" : command;

	if (!prepare(&call, request, name))
		return no_memory(MHD_HTTP_SERVICE_UNAVAILABLE);
	if (request->posts && !read_body(&call, request) && call.rc == DONE)
		call.rc = complain(&call.jobs, "the body is no JSON object of the options' names");
	else if (!request->posts)
		(void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, give_parameter, &call);
	if (call.rc == DONE)
		call.rc = check_group(&call.jobs);
	if (call.rc == DONE)
		call.rc = check_word(&call);
	if (call.rc == DONE)
		run_call(&call, request->server);
	return answer_of(&call, NULL);
}

struct answer answer_metrics(struct request *request, const char *name)
{
	struct call call;

	(void)name;
	if (!prepare(&call, request, "stats"))
		return no_memory(MHD_HTTP_SERVICE_UNAVAILABLE);
	call.jobs.prometheus = true;
	run_call(&call, request->server);
	return answer_of(&call, "text/plain; version=0.0.4; charset=utf-8");
}
