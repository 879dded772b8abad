/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who may ask: whoever has the token, or a session that began with it, or comes by the socket of a file as this user or
 * as root.
 *
 * A session is a cookie and the token of its page.  The cookie alone may look.  Browsers give a cookie to every port of
 * a host, also to one at which another user listens; the token of the page stays in the storage of this origin, and
 * without it nothing is changed.
 */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TOKEN_LEAST 16          /* bytes of one in a file */
#define SESSION_NS HWT_S(43200) /* after its last request */

static bool make_secret(char text[SECRET + 1])
{
	unsigned char bytes[SECRET / 2];

	if (getentropy(bytes, sizeof(bytes)) != 0)
		return false;
	for (size_t i = 0; i < sizeof(bytes); i++)
		(void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

/* Takes as long whichever byte differs. */
bool same_secret(const char *given, const char *is)
{
	size_t len = strlen(is), n = strlen(given);
	volatile unsigned differs = n != len;

	for (size_t i = 0; i < len; i++)
		differs |= (unsigned char)given[i < n ? i : n] ^ (unsigned char)is[i];
	return differs == 0 && len > 0;
}

void delay_failure(void)
{
	struct timespec left = { .tv_sec = 1 };

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

/* The first line of a file that nobody else may read. */
static int read_file(struct jobs *jobs, struct server *server)
{
	int fd = open(jobs->token_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t len = -1;
	size_t line;
	struct stat is;

	if (fd < 0 || fstat(fd, &is) != 0) {
		if (fd >= 0)
			(void)close(fd);
		return complain(jobs, "%s: %s; make it by: (umask 077; head -c 24 /dev/urandom | base64 >%s)",
				jobs->token_file, strerror(errno), jobs->token_file);
	}
	if (S_ISREG(is.st_mode) && (is.st_mode & 077) == 0 && (is.st_uid == geteuid() || is.st_uid == 0))
		len = read(fd, server->token, sizeof(server->token) - 1);
	else
		(void)complain(jobs, "%s: it must be a file of this user that nobody else may read: chmod 600",
			       jobs->token_file);
	(void)close(fd);
	if (len < 0)
		return WRONG_USE;
	server->token[len] = '\0';
	line = strcspn(server->token, "\r\n");
	if (line < TOKEN_LEAST || len == (ssize_t)sizeof(server->token) - 1 ||
	    (line < (size_t)len && server->token[line] == '\0') || strspn(server->token, " ") == line)
		return complain(jobs, "%s: a token is the first line, of %d to %zu bytes, none of them 0",
				jobs->token_file, TOKEN_LEAST, sizeof(server->token) - 2);
	server->token[line] = '\0';
	return DONE;
}

int read_token(struct jobs *jobs, struct server *server)
{
	if (jobs->token_file)
		return read_file(jobs, server);
	return make_secret(server->token) ? DONE : complain(jobs, "no random bytes: %s", strerror(errno));
}

/*
 * Sessions
 */

static struct session *oldest(struct server *server)
{
	struct session *least = &server->sessions[0];

	for (size_t i = 0; i < SESSIONS; i++)
		if (server->sessions[i].used_ns < least->used_ns)
			least = &server->sessions[i];
	return least;
}

bool log_in(struct server *server, const char *token, struct session *made)
{
	if (!same_secret(token, server->token) || !make_secret(made->cookie) || !make_secret(made->page))
		return false;
	made->used_ns = hwt_now();
	pthread_mutex_lock(&server->lock);
	*oldest(server) = *made;
	pthread_mutex_unlock(&server->lock);
	return true;
}

static bool find_session(struct server *server, const char *cookie, char page[SECRET + 1])
{
	int64_t now_ns = hwt_now();
	bool found = false;

	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < SESSIONS; i++) {
		struct session *session = &server->sessions[i];

		if (!same_secret(cookie, session->cookie) || now_ns - session->used_ns > SESSION_NS)
			continue;
		session->used_ns = now_ns;
		memcpy(page, session->page, SECRET + 1);
		found = true;
	}
	pthread_mutex_unlock(&server->lock);
	return found;
}

struct cookies {
	struct server *server;
	char *page;
	enum who who;
};

static enum MHD_Result try_header(void *ctx, enum MHD_ValueKind kind, const char *header, const char *at)
{
	struct cookies *cookies = ctx;
	const char *name = cookies->server->cookie;
	size_t len = strlen(name);
	char value[SECRET + 2]; /* a value that is cut still has one digit more than a secret: it matches none */

	(void)kind;
	if (!at || strcasecmp(header, "Cookie") != 0)
		return MHD_YES;
	for (; *at && cookies->who != BY_COOKIE; at += strcspn(at, ";")) {
		at += strspn(at, "; \t");
		if (strncmp(at, name, len) != 0 || at[len] != '=')
			continue;
		(void)snprintf(value, sizeof(value), "%.*s", (int)strcspn(at + len + 1, "; \t"), at + len + 1);
		cookies->who = find_session(cookies->server, value, cookies->page) ? BY_COOKIE : GUESSED;
	}
	return MHD_YES;
}

/*
 * A server at another port of the host may have set a cookie of this name, which would come before the own one, or a
 * cookie behind which the parser of libmicrohttpd finds no others: x=".
 */
static enum who try_cookies(const struct request *request, char page[SECRET + 1])
{
	struct cookies cookies = { request->server, page, NOBODY };

	(void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND, try_header, &cookies);
	return cookies.who;
}

enum who who_asks(const struct request *request, char page[SECRET + 1])
{
	struct server *server = request->server;
	const char *bearer = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Authorization");

	if (bearer && strncasecmp(bearer, "Bearer", 6) == 0 && (bearer[6] == ' ' || bearer[6] == '\0'))
		return same_secret(bearer + 6 + strspn(bearer + 6, " "), server->token) ? BY_TOKEN : GUESSED;
	if (request->slot->trusted)
		return BY_SOCKET;
	return try_cookies(request, page);
}
