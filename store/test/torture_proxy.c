/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A proxy between the actors and a PostgreSQL server, on unix sockets: it cuts, half-closes, holds and delays, as
 * ordered.  It chokes: it forwards half of a long answer, and nothing more on that connection for 2.5 leases.
 * One thread, one poll().  It reads from a side only when the other side has taken all bytes that were sent before, so
 * its memory does not grow.
 */
#include "torture.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LINKS 200

struct pipe {
	char bytes[16384];
	size_t from, to;
	bool ended; /* the side that is read has closed */
};

struct link {
	int fds[2]; /* to the client, to the server; -1: none */
	struct pipe pipes[2];
	int64_t held_us; /* nothing passes until then */
};

static struct link links[LINKS];
static bool chokes; /* the next long answer */
static int log_fd;

static int socket_at(const char *path, bool listens)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	rc = listens ? bind(fd, (struct sockaddr *)&address, sizeof(address))
		     : connect(fd, (struct sockaddr *)&address, sizeof(address));
	if (rc == 0 && (!listens || listen(fd, LINKS) == 0))
		return fd;
	close(fd);
	return -1;
}

static void cut(struct link *link)
{
	for (int side = 0; side < 2; side++)
		if (link->fds[side] >= 0)
			close(link->fds[side]);
	*link = (struct link){ .fds = { -1, -1 } };
}

/* Tells the server that the client has ended, or the other way round; bytes of the other direction still pass. */
static void halve(struct link *link, unsigned number)
{
	if (link->fds[0] >= 0)
		(void)shutdown(link->fds[number % 2], SHUT_WR);
}

static void join(int listener, const char *server)
{
	int client = accept(listener, NULL, NULL), to;

	if (client < 0)
		return;
	to = socket_at(server, false);
	for (unsigned i = 0; i < LINKS && to >= 0; i++) {
		if (links[i].fds[0] >= 0)
			continue;
		links[i] = (struct link){ .fds = { client, to } };
		return;
	}
	if (to >= 0)
		close(to);
	close(client);
}

/* Returns how much of what was read from the server is to be forwarded now. */
static size_t choke(struct link *link, size_t n)
{
	if (!chokes || n < sizeof(link->pipes[1].bytes))
		return n;
	chokes = false;
	link->held_us = true_us() + TORTURE_LEASE_NS / 1000 * 5 / 2;
	history(log_fd, "choke %" PRId64, link->held_us);
	return n / 2;
}

/* Moves bytes from one side to the other.  False: the link is over. */
static bool pass(struct link *link, int side, short events)
{
	struct pipe *pipe = &link->pipes[side];
	size_t until = pipe->to;
	ssize_t n;

	if (events & (POLLIN | POLLHUP | POLLERR) && pipe->from == pipe->to && !pipe->ended) {
		n = recv(link->fds[side], pipe->bytes, sizeof(pipe->bytes), MSG_DONTWAIT);
		if (n > 0) {
			pipe->from = 0;
			pipe->to = (size_t)n;
			until = side == 1 ? choke(link, pipe->to) : pipe->to;
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			pipe->ended = true;
			(void)shutdown(link->fds[!side], SHUT_WR);
		}
	}
	while (pipe->from < until) {
		n = send(link->fds[!side], pipe->bytes + pipe->from, until - pipe->from, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		pipe->from += (size_t)n;
	}
	return !(link->pipes[0].ended && link->pipes[1].ended);
}

static unsigned poll_set(struct pollfd *fds, bool holds)
{
	int64_t now_us = true_us();
	unsigned n = 1;

	for (unsigned i = 0; i < LINKS; i++) {
		for (int side = 0; side < 2; side++, n++) {
			const struct pipe *in = &links[i].pipes[side], *out = &links[i].pipes[!side];

			fds[n] = (struct pollfd){ .fd = holds || links[i].held_us > now_us ||
								(in->ended && out->from == out->to)
							    ? -1
							    : links[i].fds[side] };
			if (in->from == in->to && !in->ended)
				fds[n].events |= POLLIN;
			if (out->from < out->to)
				fds[n].events |= POLLOUT;
		}
	}
	return n;
}

static void obey(struct orders *orders, unsigned *cuts, unsigned *halves)
{
	chokes |= atomic_exchange(&orders->proxy_chokes, false);
	if (atomic_load(&orders->proxy_cuts) != *cuts)
		for (unsigned i = 0; i < LINKS; i++)
			cut(&links[i]);
	if (atomic_load(&orders->proxy_halves) != *halves)
		for (unsigned i = 0; i < LINKS; i++)
			halve(&links[i], i + *halves);
	*cuts = atomic_load(&orders->proxy_cuts);
	*halves = atomic_load(&orders->proxy_halves);
}

int torture_proxy(const char *server, const char *folder)
{
	static struct pollfd fds[1 + 2 * LINKS];
	struct orders *orders = orders_map(folder);
	char path[100];
	unsigned cuts = 0, halves = 0;
	int listener;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	log_fd = history_open(folder, "proxy");
	(void)snprintf(path, sizeof(path), "%s/.s.PGSQL.5432", folder);
	listener = socket_at(path, true);
	if (orders == NULL || log_fd < 0 || listener < 0)
		return 2;
	for (unsigned i = 0; i < LINKS; i++)
		links[i] = (struct link){ .fds = { -1, -1 } };
	for (;;) {
		bool holds = atomic_load(&orders->proxy_holds);
		unsigned n = poll_set(fds, holds);

		fds[0] = (struct pollfd){ .fd = holds ? -1 : listener, .events = POLLIN };
		(void)poll(fds, n, 20);
		obey(orders, &cuts, &halves);
		if (holds)
			continue;
		if (atomic_load(&orders->proxy_delays))
			sleep_us(30000);
		for (unsigned i = 0; i < LINKS; i++)
			for (int side = 0; side < 2 && links[i].fds[0] >= 0; side++)
				if (fds[1 + 2 * i + (unsigned)side].revents != 0 &&
				    !(pass(&links[i], side, fds[1 + 2 * i + (unsigned)side].revents) &&
				      pass(&links[i], !side, POLLOUT)))
					cut(&links[i]);
		if (fds[0].revents & POLLIN)
			join(listener, server);
	}
}
