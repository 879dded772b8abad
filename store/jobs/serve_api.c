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
	bool lists;
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

/* A parameter or member: a word, or an option of the command. */
static bool give(struct call *call, const char *name, const char *value)
{
	struct jobs *jobs = &call->jobs;

	if (call->lists && give_part(call, name, value))
		return true;
	if (call->lists && strcmp(name, "limit") == 0)
		name = "number";
	if (strcmp(name, "id") != 0 && strcmp(name, "kind") != 0) {
		call->rc = give_option(jobs, name, value);
		return call->rc == DONE;
	}
	call->rc = jobs->n == 0 && value ? DONE : complain(jobs, "an id, or a kind, and one of them");
	call->words[0] = (char *)(uintptr_t)value;
	jobs->n = 1;
	return call->rc == DONE;
}

static enum MHD_Result give_parameter(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
	(void)kind;
	if (!value || !*value) /* an empty field of a form */
		return MHD_YES;
	return give(ctx, name, value) ? MHD_YES : MHD_NO;
}

static bool give_member(void *ctx, const char *name, enum json_value type, const char *value)
{
	if (type == JSON_NULL || type == JSON_FALSE)
		return true;
	return give(ctx, name, type == JSON_TRUE ? NULL : value);
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
		return MHD_HTTP_SERVICE_UNAVAILABLE;
	}
}

/* Of several failures the first. */
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
	return say_error(MHD_HTTP_SERVICE_UNAVAILABLE, "no memory");
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
		return say_error(MHD_HTTP_SERVICE_UNAVAILABLE, "no memory");
	if (request->posts && !read_body(&call, request) && call.rc == DONE)
		call.rc = complain(&call.jobs, "the body is no JSON object of the options' names");
	else if (!request->posts)
		(void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, give_parameter, &call);
	if (call.rc == DONE)
		call.rc = check_group(&call.jobs);
	if (call.rc == DONE)
		run_call(&call, request->server);
	return answer_of(&call, NULL);
}

struct answer answer_metrics(struct request *request, const char *name)
{
	struct call call;

	(void)name;
	if (!prepare(&call, request, "stats"))
		return say_error(MHD_HTTP_SERVICE_UNAVAILABLE, "no memory");
	call.jobs.prometheus = true;
	run_call(&call, request->server);
	return answer_of(&call, "text/plain; version=0.0.4; charset=utf-8");
}
