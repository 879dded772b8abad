/* SPDX-License-Identifier: BSD-2-Clause */
/* serve: options, the loop that accepts connections and closes slow ones, and the end. */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REFUSED 16 /* sockets that were told 503, and are closed a moment later */

#define TOO_MANY_BODY "{\"error\": \"64 connections are in use\"}\n"
static const char TOO_MANY[] =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n"
    "Cache-Control: no-store\r\nConnection: close\r\nContent-Length: 39\r\n\r\n" TOO_MANY_BODY;
_Static_assert(sizeof(TOO_MANY_BODY) - 1 == 39, "Content-Length");

/*
 * Slots
 */

/*
 * A slot that has the number of the new socket is of a connection that libmicrohttpd closed without a word, as it does
 * without memory.  The time begins with serve_connection: until then the number may be another's.
 */
static struct slot *take_slot(struct server *server, int fd)
{
	struct slot *slot = NULL;

	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < CONNECTIONS; i++)
		if (server->slots[i].fd == fd)
			server->slots[i].fd = -1;
	for (size_t i = 0; i < CONNECTIONS && !slot; i++)
		if (server->slots[i].fd < 0)
			slot = &server->slots[i];
	if (slot)
		*slot = (struct slot){ .fd = fd };
	pthread_mutex_unlock(&server->lock);
	return slot;
}

static void free_slot(struct server *server, struct slot *slot)
{
	pthread_mutex_lock(&server->lock);
	slot->fd = -1;
	pthread_mutex_unlock(&server->lock);
}

/* libmicrohttpd closes the socket after this, so that no other one has its number yet. */
void serve_connection(void *ctx, struct MHD_Connection *connection, void **slot,
		      enum MHD_ConnectionNotificationCode what)
{
	struct server *server = ctx;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (*slot)
			free_slot(server, *slot);
		return;
	}
	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < CONNECTIONS && info && !*slot; i++)
		if (server->slots[i].fd == info->connect_fd) {
			server->slots[i].until_ns = hwt_now() + REQUEST_NS;
			*slot = &server->slots[i];
		}
	pthread_mutex_unlock(&server->lock);
}

/* Ends what takes too long.  Its thread sees that, and closes it. */
static void end_slow_ones(struct server *server)
{
	int64_t now_ns = hwt_now();

	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < CONNECTIONS; i++)
		if (server->slots[i].fd >= 0 && server->slots[i].until_ns != 0 && server->slots[i].until_ns < now_ns)
			(void)shutdown(server->slots[i].fd, SHUT_RDWR);
	pthread_mutex_unlock(&server->lock);
}

/*
 * Connections
 */

/* By the socket of a file; behind a proxy all come as the proxy does. */
static bool is_own(const struct server *server, int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return server->jobs->unix_path && !server->jobs->behind_proxy &&
	       getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

/* The socket stays a while: closed at once, with the request unread, it would reset the connection. */
static void refuse(int fd)
{
	static int refused[REFUSED];
	static size_t next, n;

	(void)send(fd, TOO_MANY, sizeof(TOO_MANY) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)shutdown(fd, SHUT_WR);
	if (n == REFUSED)
		(void)close(refused[next]);
	n += n < REFUSED;
	refused[next] = fd;
	next = (next + 1) % REFUSED;
}

static void take_connection(struct server *server)
{
	struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(from);
	int fd = accept4(server->listener, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct slot *slot = fd < 0 ? NULL : take_slot(server, fd);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			(void)poll(NULL, 0, 100);
		return;
	}
	if (!slot) {
		refuse(fd);
		return;
	}
	slot->trusted = is_own(server, fd);
	if (MHD_add_connection(server->daemon, fd, (struct sockaddr *)&from, len) != MHD_YES)
		free_slot(server, slot); /* the socket is closed */
}

/*
 * The end
 */

static int signals[2]; /* a pipe */

static void on_signal(int number)
{
	int error = errno;
	char byte = (char)number;

	(void)!write(signals[1], &byte, 1);
	errno = error;
}

static bool catch_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal }, ignore = { .sa_handler = SIG_IGN };

	if (pipe2(signals, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		(void)sigaction(numbers[i], &action, NULL);
	(void)sigaction(SIGPIPE, &ignore, NULL);
	return true;
}

static void loop(struct server *server)
{
	struct pollfd fds[] = { { .fd = signals[0], .events = POLLIN }, { .fd = server->listener, .events = POLLIN } };

	while (!(fds[0].revents & POLLIN)) {
		if (poll(fds, 2, 500) > 0 && fds[1].revents)
			take_connection(server);
		end_slow_ones(server);
	}
}

static void say_where(const struct jobs *jobs, const struct server *server)
{
	if (jobs->unix_path)
		printf("%s\n", jobs->unix_path);
	else
		printf("%s%s%s\n", server->url, jobs->token_file ? "" : "#", jobs->token_file ? "" : server->token);
	(void)fflush(stdout);
}

static int run_server(struct jobs *jobs, struct server *server)
{
	if (!catch_signals())
		return complain(jobs, "%s", strerror(errno));
	server->daemon = MHD_start_daemon(
	    MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_POLL,
	    0, NULL, NULL, serve_request, server, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS + 1u,
	    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(ANSWER_NS / HWT_S(1)), MHD_OPTION_NOTIFY_COMPLETED, serve_end,
	    server, MHD_OPTION_NOTIFY_CONNECTION, serve_connection, server, MHD_OPTION_URI_LOG_CALLBACK, serve_begin,
	    server, MHD_OPTION_THREAD_STACK_SIZE, (size_t)1 << 20, MHD_OPTION_END);
	if (!server->daemon)
		return complain(jobs, "libmicrohttpd: %s", strerror(errno));
	server->history = history_begin(server);
	if (server->history) {
		say_where(jobs, server);
		loop(server);
	}
	serve_unlisten(jobs, server);
	MHD_stop_daemon(server->daemon);
	if (!server->history)
		return complain(jobs, "no memory, or no thread");
	history_end(server->history);
	return DONE;
}

static int check_options(struct jobs *jobs)
{
	if (jobs->n > 0 && jobs->host_count == 0)
		return complain(jobs, "serve takes no words: \"%s\"", jobs->words[0]);
	for (int i = 0; i < jobs->n; i++) /* --host a b */
		if (!add_host(jobs, jobs->words[i]))
			return complain(jobs, "that many names are too many");
	if (jobs->listen && jobs->unix_path)
		return complain(jobs, "--listen and --unix exclude each other");
	if (jobs->behind_proxy != (jobs->host_count > 0))
		return complain(jobs,
				"--behind-proxy and --host NAME go together: the name that the proxy is asked by");
	if (jobs->behind_proxy && jobs->unix_path && !jobs->token_file)
		return complain(jobs, "--token-file: behind a proxy nobody is known by the socket");
	return DONE;
}

int serve(struct jobs *jobs)
{
	struct server *server = calloc(1, sizeof(*server));
	int rc = server ? check_options(jobs) : complain(jobs, "no memory");

	if (rc != DONE) {
		free(server);
		return rc;
	}
	server->jobs = jobs;
	server->listener = -1;
	for (size_t i = 0; i < CONNECTIONS; i++)
		server->slots[i].fd = -1;
	pthread_mutex_init(&server->lock, NULL);
	(void)sem_init(&server->calls, 0, CALLS);
	rc = read_token(jobs, server);
	if (rc == DONE)
		rc = serve_listen(jobs, server);
	if (rc == DONE)
		rc = run_server(jobs, server);
	serve_unlisten(jobs, server);
	(void)sem_destroy(&server->calls);
	pthread_mutex_destroy(&server->lock);
	free(server);
	return rc;
}
