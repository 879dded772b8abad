/* SPDX-License-Identifier: BSD-2-Clause */
/* Where serve listens: an address of this machine, or a socket in the file system. */
#include "serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ADDRESS "127.0.0.1:8377"

/* 127.0.0.0/8, ::1 and localhost, whatever a name service says. */
bool is_loopback_name(const char *host)
{
	struct in_addr four;
	struct in6_addr six;

	if (inet_pton(AF_INET, host, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127;
	if (inet_pton(AF_INET6, host, &six) == 1)
		return IN6_IS_ADDR_LOOPBACK(&six);
	return strcasecmp(host, "localhost") == 0;
}

/* ADDRESS:PORT or [ADDRESS]:PORT. */
static bool cut_address(const char *text, char host[256], char port[8])
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;

	if (colon && len > 1 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	} else if (colon && memchr(text, ':', len)) {
		return false;
	}
	(void)snprintf(host, 256, "%.*s", (int)(len < 255 ? len : 255), text);
	(void)snprintf(port, 8, "%.7s", colon ? colon + 1 : "");
	return len > 0 && *port && strspn(port, "0123456789") == strlen(port) && strtol(port, NULL, 10) < 65536;
}

static void name_url(struct server *server)
{
	struct sockaddr_storage is = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(is);
	char host[64] = "", port[8] = "";

	(void)getsockname(server->listener, (struct sockaddr *)&is, &len);
	(void)getnameinfo((struct sockaddr *)&is, len, host, sizeof(host), port, sizeof(port),
			  NI_NUMERICHOST | NI_NUMERICSERV);
	(void)snprintf(server->url, sizeof(server->url), is.ss_family == AF_INET6 ? "http://[%s]:%s/" : "http://%s:%s/",
		       host, port);
	/* Cookies are the same for all ports of a host. */
	(void)snprintf(server->cookie, sizeof(server->cookie), "hwt-jobs-%s", port);
}

static int listen_at(struct jobs *jobs, struct server *server, const struct addrinfo *found)
{
	int yes = 1, fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	server->listener = fd;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
	    bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 256) != 0)
		return complain(jobs, "%s: %s", jobs->listen ? jobs->listen : ADDRESS, strerror(errno));
	name_url(server);
	return DONE;
}

static int listen_to_address(struct jobs *jobs, struct server *server)
{
	const char *text = jobs->listen ? jobs->listen : ADDRESS;
	const struct addrinfo wanted = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST };
	struct addrinfo *found = NULL;
	char host[256], port[8];
	int rc;

	if (!cut_address(text, host, port))
		return complain(jobs, "\"%s\" is no ADDRESS:PORT: 127.0.0.1:8377, [::1]:8377", text);
	if (!is_loopback_name(host) && !jobs->behind_proxy)
		return complain(jobs,
				"%s is not of this machine alone, and there is no TLS here: put a proxy in front, and "
				"say --behind-proxy --host NAME",
				host);
	rc = getaddrinfo(strcasecmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, &wanted, &found);
	if (rc != 0)
		return complain(jobs, "%s: %s", text, gai_strerror(rc));
	rc = listen_at(jobs, server, found);
	freeaddrinfo(found);
	return rc;
}

/* A socket at which nobody listens any more goes. */
static bool is_left_over(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat is;
	bool dead = lstat(address->sun_path, &is) == 0 && S_ISSOCK(is.st_mode) && fd >= 0 &&
		    connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 && errno == ECONNREFUSED;

	if (fd >= 0)
		(void)close(fd);
	return dead;
}

/* A proxy may be of the same group; others have to be this user. */
static int listen_to_file(struct jobs *jobs, struct server *server)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	mode_t before;
	int fd, rc;

	if (strlen(jobs->unix_path) >= sizeof(address.sun_path) || !*jobs->unix_path)
		return complain(jobs, "%s: the path of a socket has 1 to %zu bytes", jobs->unix_path,
				sizeof(address.sun_path) - 1);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", jobs->unix_path);
	if (is_left_over(&address))
		(void)unlink(address.sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	before = umask(jobs->behind_proxy ? 0117 : 0177);
	rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof(address));
	(void)umask(before);
	server->listener = fd;
	if (rc != 0)
		return complain(jobs, "%s: %s", jobs->unix_path, strerror(errno));
	(void)lstat(jobs->unix_path, &server->file);
	(void)snprintf(server->cookie, sizeof(server->cookie), "hwt-jobs");
	return listen(fd, 256) == 0 ? DONE : complain(jobs, "%s: %s", jobs->unix_path, strerror(errno));
}

int serve_listen(struct jobs *jobs, struct server *server)
{
	int rc = jobs->unix_path ? listen_to_file(jobs, server) : listen_to_address(jobs, server);

	/* Browsers take such a cookie from this very host by TLS alone. */
	if (jobs->behind_proxy)
		(void)snprintf(server->cookie, sizeof(server->cookie), "__Host-hwt-jobs");
	return rc;
}

/* The file goes first: once nobody listens, another server takes the path.  Its socket stays. */
void serve_unlisten(const struct jobs *jobs, struct server *server)
{
	struct stat is;

	if (server->file.st_ino != 0 && lstat(jobs->unix_path, &is) == 0 && is.st_ino == server->file.st_ino &&
	    is.st_dev == server->file.st_dev)
		(void)unlink(jobs->unix_path);
	if (server->listener >= 0)
		(void)close(server->listener);
	server->listener = -1;
}
