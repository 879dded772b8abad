/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Routes, and what is checked before any of them answers: Host, path, method, size, who asks, from which page.
 *
 * Host is this machine's or was named, so that no other site's name can be made to lead here.  A browser says in Origin
 * which page asks.  That page has to be ours: a browser sends cookies unasked, and takes a forwarded socket of a file for
 * one of its own.  With the token itself the page does not matter.
 */
#include "serve.h"
#include "page/page.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define PAGE_HEADER "X-Hwt-Page"

enum needs { NOTHING, TO_LOOK, TO_CHANGE };

struct route {
	const char *path;
	bool posts;
	enum needs needs;
	struct answer (*answer)(struct request *request, const char *name); /* name: the last part of the path */
};

static struct answer answer_file(struct request *request, const char *name);
static struct answer answer_health(struct request *request, const char *name);
static struct answer answer_login(struct request *request, const char *name);
static struct answer answer_about(struct request *request, const char *name);

static const struct route routes[] = {
	{ "/", false, NOTHING, answer_file },
	{ "/page.css", false, NOTHING, answer_file },
	{ "/page.js", false, NOTHING, answer_file },
	{ "/healthz", false, NOTHING, answer_health },
	{ "/login", true, NOTHING, answer_login },
	{ "/metrics", false, TO_LOOK, answer_metrics },
	{ "/api/about", false, TO_LOOK, answer_about },
	{ "/api/kinds", false, TO_LOOK, answer_command },
	{ "/api/groups", false, TO_LOOK, answer_command },
	{ "/api/list", false, TO_LOOK, answer_command },
	{ "/api/show", false, TO_LOOK, answer_command },
	{ "/api/history", false, TO_LOOK, answer_history },
	{ "/api/cancel", true, TO_CHANGE, answer_command },
	{ "/api/retry", true, TO_CHANGE, answer_command },
	{ "/api/move", true, TO_CHANGE, answer_command },
	{ "/api/pause", true, TO_CHANGE, answer_command },
	{ "/api/resume", true, TO_CHANGE, answer_command },
	{ "/api/limit", true, TO_CHANGE, answer_command },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct route *find_route(const char *url)
{
	for (size_t i = 0; i < COUNT(routes); i++)
		if (strcmp(routes[i].path, url) == 0)
			return &routes[i];
	return NULL;
}

/*
 * Answers
 */

struct answer no_memory(unsigned status)
{
	return (struct answer){ .status = status, .fixed = "{\"error\": \"no memory\"}\n", .len = 23 };
}

struct answer end_answer(FILE *out, const struct answer *answer)
{
	if (fclose(out) == 0)
		return *answer;
	free(answer->text);
	return no_memory(answer->status < 400 ? MHD_HTTP_SERVICE_UNAVAILABLE : answer->status);
}

struct answer say_error(unsigned status, const char *text)
{
	struct answer answer = { .status = status };
	FILE *out = open_memstream(&answer.text, &answer.len);

	if (!out)
		return no_memory(status);
	fputs("{\"error\": ", out);
	json_text(out, text);
	fputs("}\n", out);
	return end_answer(out, &answer);
}

static struct answer answer_file(struct request *request, const char *name)
{
	static const struct {
		const char *name, *type;
		const char *const *lines;
	} files[] = {
		{ "", "text/html; charset=utf-8", page_html },
		{ "page.css", "text/css; charset=utf-8", page_css },
		{ "page.js", "text/javascript; charset=utf-8", page_js },
	};
	struct answer answer = { .status = MHD_HTTP_OK };
	FILE *out = open_memstream(&answer.text, &answer.len);
	size_t i = 0;

	(void)request;
	if (!out)
		return no_memory(MHD_HTTP_SERVICE_UNAVAILABLE);
	while (strcmp(files[i].name, name) != 0)
		i++;
	answer.type = files[i].type;
	for (const char *const *line = files[i].lines; *line; line++)
		fputs(*line, out);
	return end_answer(out, &answer);
}

static struct answer answer_health(struct request *request, const char *name)
{
	(void)request;
	(void)name;
	return (struct answer){ .status = MHD_HTTP_OK, .type = "text/plain", .fixed = "ok\n", .len = 3 };
}

/* What the page has to know before it draws. */
static struct answer answer_about(struct request *request, const char *name)
{
	const struct jobs *jobs = request->server->jobs;
	struct answer answer = { .status = MHD_HTTP_OK };
	FILE *out = open_memstream(&answer.text, &answer.len);
	bool sqlite = strncmp(jobs->url, "sqlite:", 7) == 0;

	(void)name;
	if (!out)
		return no_memory(MHD_HTTP_SERVICE_UNAVAILABLE);
	fprintf(out, "{\"version\": \"%d.%d.%d\", \"changes\": %s, \"database\": ", HWT_VERSION_MAJOR,
		HWT_VERSION_MINOR, HWT_VERSION_PATCH, jobs->changes ? "true" : "false");
	json_text(out, sqlite ? jobs->url + 7 : "PostgreSQL"); /* its url may have a password */
	fprintf(out, ", \"schema\": \"%s\", \"now_us\": %" PRId64 "}\n", jobs->schema, wall_us());
	return end_answer(out, &answer);
}

/* token=... of a form. */
static char *form_token(char *body)
{
	char *token = strncmp(body, "token=", 6) == 0 ? body + 6 : NULL;

	if (!token)
		return NULL;
	token[strcspn(token, "&\r\n")] = '\0';
	for (char *at = token; *at; at++)
		if (*at == '+')
			*at = ' ';
	(void)MHD_http_unescape(token);
	return token;
}

static struct answer answer_login(struct request *request, const char *name)
{
	struct server *server = request->server;
	struct answer answer = { .status = MHD_HTTP_OK };
	struct session session;
	const char *token = request->body ? form_token(request->body) : NULL;
	char text[128];

	(void)name;
	if (!token)
		return say_error(MHD_HTTP_BAD_REQUEST, "a form with the field token");
	if (!log_in(server, token, &session)) {
		delay_failure();
		return say_error(MHD_HTTP_UNAUTHORIZED, "this is not the token");
	}
	(void)snprintf(answer.cookie, sizeof(answer.cookie), "%s=%s; Path=/; HttpOnly; SameSite=Strict%s",
		       server->cookie, session.cookie, server->jobs->behind_proxy ? "; Secure" : "");
	(void)snprintf(text, sizeof(text), "{\"page\": \"%s\"}\n", session.page);
	answer.text = strdup(text);
	answer.len = strlen(text);
	return answer.text ? answer : no_memory(MHD_HTTP_SERVICE_UNAVAILABLE);
}

/*
 * Sending
 */

static void set_limit(struct request *request, int64_t until_ns)
{
	pthread_mutex_lock(&request->server->lock);
	request->slot->until_ns = until_ns;
	pthread_mutex_unlock(&request->server->lock);
}

static void add_headers(struct MHD_Response *response, const struct answer *answer)
{
	static const char *const headers[][2] = {
		{ "Content-Security-Policy",
		  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
		  "form-action 'none'; base-uri 'none'; frame-ancestors 'none'" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "X-Frame-Options", "DENY" },
		{ "Cache-Control", "no-store" },
		{ "Referrer-Policy", "no-referrer" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
		{ "Cross-Origin-Opener-Policy", "same-origin" },
	};

	for (size_t i = 0; i < COUNT(headers); i++)
		(void)MHD_add_response_header(response, headers[i][0], headers[i][1]);
	(void)MHD_add_response_header(response, "Content-Type", answer->type ? answer->type : "application/json");
	if (answer->status == MHD_HTTP_UNAUTHORIZED)
		(void)MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	if (answer->cookie[0])
		(void)MHD_add_response_header(response, "Set-Cookie", answer->cookie);
}

static enum MHD_Result send_answer(struct request *request, const struct answer *answer, const char *allow)
{
	struct MHD_Response *response =
	    answer->text ? MHD_create_response_from_buffer(answer->len, answer->text, MHD_RESPMEM_MUST_FREE)
			 : MHD_create_response_from_buffer(answer->len, (void *)(uintptr_t)answer->fixed,
							   MHD_RESPMEM_PERSISTENT);
	enum MHD_Result rc;

	if (!response) {
		free(answer->text);
		return MHD_NO;
	}
	add_headers(response, answer);
	if (!request->known) /* 64 of them would keep everybody out */
		(void)MHD_add_response_header(response, "Connection", "close");
	if (allow)
		(void)MHD_add_response_header(response, "Allow", allow);
	set_limit(request, hwt_now() + ANSWER_NS);
	rc = MHD_queue_response(request->connection, answer->status, response);
	MHD_destroy_response(response);
	return rc;
}

/*
 * Checks
 */

struct count {
	const char *name;
	unsigned n;
};

static enum MHD_Result count_header(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct count *count = ctx;

	(void)kind;
	(void)value;
	count->n += strcasecmp(name, count->name) == 0;
	return MHD_YES;
}

static unsigned count_headers(struct request *request, const char *name)
{
	struct count count = { .name = name };

	(void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND, count_header, &count);
	return count.n;
}

static const char *only_header(struct request *request, const char *name)
{
	return count_headers(request, name) == 1
		   ? MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name)
		   : NULL;
}

/* HOST, HOST:PORT or [HOST]:PORT, of this machine or of one that was named. */
static bool is_our_host(const struct jobs *jobs, const char *text)
{
	char host[256];
	bool six = text && text[0] == '[';
	size_t len = !text ? 0 : six ? strcspn(text + 1, "]") : strcspn(text, ":");

	if (len == 0 || len >= sizeof(host) || (six && text[1 + len] != ']'))
		return false;
	memcpy(host, text + six, len);
	host[len] = '\0';
	text += len + (six ? 2 : 0);
	if (*text && (*text != ':' || strspn(text + 1, "0123456789") != strlen(text + 1)))
		return false;
	if (is_loopback_name(host))
		return true;
	for (size_t i = 0; i < jobs->host_count; i++)
		if (strcasecmp(jobs->hosts[i], host) == 0)
			return true;
	return false;
}

/* True: the page that asks was sent by this server, under the name that Host says. */
static bool is_our_origin(const struct request *request, const char *origin, const char *host)
{
	const char *scheme = request->server->jobs->behind_proxy ? "https://" : "http://";
	size_t len = strlen(scheme);

	return strncasecmp(origin, scheme, len) == 0 && strcasecmp(origin + len, host) == 0;
}

static bool is_too_big(const struct request *request)
{
	const char *len = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Content-Length");

	return len && strtoull(len, NULL, 10) > BODY_MOST;
}

/* Who asks, and from where.  status 0: it may. */
static struct answer check_who(struct request *request, const struct route *route, const char *host)
{
	const char *origin = only_header(request, "Origin"), *given;
	char page[SECRET + 1] = "";
	enum who who = route->needs == NOTHING ? NOBODY : who_asks(request, page);
	bool by_page = who != BY_TOKEN && count_headers(request, "Origin") > 0;

	request->known = who != NOBODY && who != GUESSED;
	if (who == GUESSED)
		delay_failure();
	if (who == GUESSED || (who == NOBODY && route->needs != NOTHING))
		return say_error(MHD_HTTP_UNAUTHORIZED, "the token: Authorization: Bearer TOKEN, or POST /login");
	if (by_page && (!origin || !is_our_origin(request, origin, host)))
		return say_error(MHD_HTTP_FORBIDDEN, "a page of another origin asks");
	if (route->needs == TO_CHANGE && !request->server->jobs->changes)
		return say_error(MHD_HTTP_FORBIDDEN, "this server only looks: it was started without --changes");
	if (route->needs == TO_CHANGE && who == BY_COOKIE) {
		given = only_header(request, PAGE_HEADER);
		if (!origin)
			return say_error(MHD_HTTP_FORBIDDEN, "a change with a cookie has to say its Origin");
		if (!given || !same_secret(given, page)) {
			delay_failure();
			return say_error(MHD_HTTP_FORBIDDEN,
					 "the token of the page is missing: log in once more to change something");
		}
	}
	return (struct answer){ .status = 0 };
}

/* From the head of a request.  status 0: go on. */
static struct answer check(struct request *request, const struct route *route, const char *method)
{
	const char *host = only_header(request, "Host");
	bool gets = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;

	if (!is_our_host(request->server->jobs, host))
		return say_error(MHD_HTTP_MISDIRECTED_REQUEST, "Host is neither this machine's nor named by --host");
	if (!route)
		return say_error(MHD_HTTP_NOT_FOUND, "there is no such path");
	if (!(route->posts ? request->posts : gets))
		return say_error(MHD_HTTP_METHOD_NOT_ALLOWED, route->posts ? "this takes POST" : "this takes GET");
	if (is_too_big(request))
		return say_error(MHD_HTTP_CONTENT_TOO_LARGE, "a body has at most 1 MiB");
	return check_who(request, route, host);
}

/*
 * Callbacks
 */

static bool add_body(struct request *request, const char *upload, size_t len)
{
	char *more;

	if (request->too_big || len > BODY_MOST - request->len) {
		request->too_big = true;
		return true;
	}
	more = realloc(request->body, request->len + len + 1);
	if (!more)
		return false;
	memcpy(more + request->len, upload, len);
	request->len += len;
	more[request->len] = '\0';
	request->body = more;
	return true;
}

static struct request *begin_request(struct server *server, struct MHD_Connection *connection, bool posts)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct request *request = info && info->socket_context ? calloc(1, sizeof(*request)) : NULL;

	if (request) {
		request->server = server;
		request->connection = connection;
		request->slot = info->socket_context;
		request->posts = posts;
	}
	return request;
}

static bool has_body(struct MHD_Connection *connection)
{
	const char *len = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");

	return (len && strcmp(len, "0") != 0) ||
	       MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding");
}

/* The first call has the head, the next ones parts of the body, the last one nothing more. */
enum MHD_Result serve_request(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
			      const char *version, const char *upload, size_t *upload_len, void **ctx_of)
{
	struct request *request = *ctx_of;
	const struct route *route = find_route(url);
	struct answer answer;

	(void)version;
	if (!request) {
		*ctx_of = request = begin_request(ctx, connection, strcmp(method, MHD_HTTP_METHOD_POST) == 0);
		if (!request)
			return MHD_NO;
		answer = check(request, route, method);
		request->unread = answer.status != 0 && has_body(connection);
		return answer.status == 0 ? MHD_YES
					  : send_answer(request, &answer, route && route->posts ? "POST" : "GET, HEAD");
	}
	if (*upload_len > 0) {
		bool kept = add_body(request, upload, *upload_len);

		*upload_len = 0;
		return kept ? MHD_YES : MHD_NO;
	}
	set_limit(request, 0);
	answer = request->too_big ? say_error(MHD_HTTP_CONTENT_TOO_LARGE, "a body has at most 1 MiB")
				  : route->answer(request, strrchr(url, '/') + 1);
	return send_answer(request, &answer, NULL);
}

/* The first line of a request is there.  The limit of the first one began with the connection. */
void *serve_begin(void *ctx, const char *uri, struct MHD_Connection *connection)
{
	struct server *server = ctx;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	(void)uri;
	pthread_mutex_lock(&server->lock);
	if (info && info->socket_context) {
		struct slot *slot = info->socket_context;

		if (slot->again)
			slot->until_ns = hwt_now() + REQUEST_NS;
		slot->again = true;
	}
	pthread_mutex_unlock(&server->lock);
	return NULL; /* a request of which no more comes would never be freed */
}

/*
 * A socket that is closed with bytes unread resets the connection, and the client may lose the answer.  So what it
 * still sends is read away, as long as that comes without a pause, and at most for the time of a request.
 */
static void read_away(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct pollfd more = { .fd = info ? info->connect_fd : -1, .events = POLLIN };
	int64_t until_ns = hwt_now() + REQUEST_NS;
	char bytes[16384];

	while (hwt_now() < until_ns && poll(&more, 1, 200) > 0 && recv(more.fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

void serve_end(void *ctx, struct MHD_Connection *connection, void **ctx_of, enum MHD_RequestTerminationCode how)
{
	struct request *request = *ctx_of;

	(void)ctx;
	if (!request)
		return;
	if (request->unread && how == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		read_away(connection);
	set_limit(request, hwt_now() + REQUEST_NS); /* for the next one */
	free(request->body);
	free(request);
	*ctx_of = NULL;
}
