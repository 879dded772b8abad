/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the clients of demo.c do: connect, talk, and then what their role has them do.
 *
 * Threads   A team is a thread with epoll and a share of the clients, all its own.  Each ms it goes through them and
 *           lets those act whose time has come.  With main it shares the atomics of its crowd and its own, no more.
 */
#ifndef DEMO_CLIENTS_H
#define DEMO_CLIENTS_H

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "demo_crowd.h"

/* A number of from .. to - 1. */
static int64_t random_between(struct team *team, int64_t from, int64_t to)
{
	team->random ^= team->random << 13;
	team->random ^= team->random >> 7;
	team->random ^= team->random << 17;
	return from + (int64_t)(team->random % (uint64_t)(to - from));
}

/* Every fourth message is a PING.  The reply to it differs in one letter. */
static size_t client_message(const struct client *c, unsigned number, bool reply, char *out, size_t size)
{
	if (number % 4 == 3)
		return (size_t)snprintf(out, size, reply ? "PONG\n" : "PING\n");
	return (size_t)snprintf(out, size, "client %u says %u\n", c->id, number);
}

static void client_hears_line(struct client *c, const char *line, size_t length)
{
	static const char idle[] = "idle timeout, closing\n", request[] = "request timeout, closing\n";
	char expected[64];
	size_t expected_length = client_message(c, c->received, true, expected, sizeof(expected));

	if (length == sizeof(idle) - 1 && memcmp(line, idle, length) == 0) {
		c->farewell = IDLE_FAREWELL;
	} else if (length == sizeof(request) - 1 && memcmp(line, request, length) == 0) {
		c->farewell = REQUEST_FAREWELL;
	} else if (c->received < c->sent && length == expected_length && memcmp(line, expected, length) == 0) {
		c->received++;
		atomic_fetch_add_explicit(&c->team->crowd->replies, 1, memory_order_relaxed);
	} else {
		wrong(c->team->crowd, c, "wrong reply: %.*s", (int)length - 1, line);
	}
}

static void client_hears(struct client *c)
{
	ssize_t n = recv(c->fd, c->in + c->in_used, sizeof(c->in) - c->in_used, 0);
	char *line = c->in, *newline;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client_judge(c);
		return;
	}
	c->heard_ns = clock_ns();
	c->in_used += (size_t)n;
	while ((newline = memchr(line, '\n', c->in_used)) != NULL) {
		size_t length = (size_t)(newline + 1 - line);

		client_hears_line(c, line, length);
		line += length;
		c->in_used -= length;
	}
	memmove(c->in, line, c->in_used);
	if (c->in_used == sizeof(c->in)) {
		wrong(c->team->crowd, c, "a reply without end");
		client_over(c);
	}
}

static void client_event(struct client *c)
{
	int error = 0;
	socklen_t length = sizeof(error);

	if (c->state == OVER)
		return;
	if (c->state != CONNECTING) {
		client_hears(c);
		return;
	}
	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
		wrong(c->team->crowd, c, "cannot connect: %s", strerror(error));
		client_over(c);
		return;
	}
	epoll_ctl(c->team->epoll, EPOLL_CTL_MOD, c->fd, &(struct epoll_event){ EPOLLIN, { .ptr = c } });
	c->state = OPEN;
}

static void client_connect(struct client *c, int64_t now_ns)
{
	struct crowd *crowd = c->team->crowd;
	struct epoll_event event = { EPOLLOUT, { .ptr = c } };

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0 ||
	    (connect(c->fd, (struct sockaddr *)&crowd->server, sizeof(crowd->server)) != 0 && errno != EINPROGRESS) ||
	    epoll_ctl(c->team->epoll, EPOLL_CTL_ADD, c->fd, &event) != 0) {
		wrong(crowd, c, "cannot connect: %s", strerror(errno));
		if (c->fd >= 0)
			close(c->fd);
		client_over(c);
		return;
	}
	atomic_fetch_add(&crowd->open, 1);
	c->state = CONNECTING;
	c->sent_ns = now_ns; /* the idle timeout starts not before the connection is there */
}

/* Sends bytes, having read the clock.  An error is not judged here: the server's close comes as an event. */
static bool client_sends(struct client *c, const char *bytes, size_t length)
{
	int64_t now_ns = clock_ns();

	if (send(c->fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length)
		return false;
	client_note_gap(c, now_ns);
	c->sent_ns = now_ns;
	return true;
}

/* Every third message comes in two pieces, so that the server has a request timeout to set and to cancel. */
static void client_talks(struct client *c)
{
	char message[64];
	size_t length = client_message(c, c->within ? c->sent - 1 : c->sent, false, message, sizeof(message));

	if (c->within) {
		c->within = !client_sends(c, message + length / 2, length - length / 2);
	} else if (client_sends(c, message, c->sent % 3 == 1 ? length / 2 : length)) {
		c->within = c->sent % 3 == 1;
		c->sent++;
	}
	c->next_ns = clock_ns() + (c->within ? 50 * MS : random_between(c->team, 200 * MS, 500 * MS));
}

static void client_dribbles(struct client *c)
{
	if (c->line_ns == 0)
		c->line_ns = clock_ns();
	c->next_ns = clock_ns() + random_between(c->team, 100 * MS, 300 * MS);
	client_sends(c, "z", 1);
}

/* Half of the leavers close at once, half say that they are done and wait for the server to close. */
static void client_leaves(struct client *c)
{
	if (c->received < c->sent)
		return; /* in a moment */
	client_note_gap(c, clock_ns());
	c->next_ns = INT64_MAX;
	c->state = LEAVING;
	if (c->id % 20 < 10)
		client_judge(c);
	else
		shutdown(c->fd, SHUT_WR);
}

static void client_acts(struct client *c, int64_t now_ns, enum phase phase)
{
	if (c->state == ABSENT) {
		client_connect(c, now_ns);
	} else if (c->state != OPEN || c->farewell != NO_FAREWELL) {
		return; /* it is the server's turn */
	} else if (c->role == TALKER) {
		if (phase == BUSY || c->within)
			client_talks(c);
	} else if (now_ns < c->turn_ns || c->within) {
		client_talks(c);
	} else {
		c->turned = true;
		c->next_ns = c->role == SILENT ? INT64_MAX : c->next_ns;
		if (c->role == DRIBBLER)
			client_dribbles(c);
		else if (c->role == LEAVER)
			client_leaves(c);
	}
}

/* Is the phase over, as far as this one is concerned?  BUSY: all but the talkers are gone.  QUIET: all is answered. */
static bool client_is_settled(const struct client *c, enum phase phase)
{
	if (c->state == OVER || c->role != TALKER)
		return c->state == OVER;
	return phase == BUSY || (phase == QUIET && c->received == c->sent);
}

/* The server has had time enough; what is not as it should be now is wrong. */
static void team_gives_up(struct team *team, enum phase phase)
{
	for (struct client *c = team->clients; c < team->clients + team->count; c++) {
		if (client_is_settled(c, phase))
			continue;
		if (c->role == TALKER && phase == QUIET)
			wrong(team->crowd, c, "got %u of %u replies", c->received, c->sent);
		else
			wrong(team->crowd, c, "was never closed");
		client_over(c);
	}
}

/* Lets all act whose time has come; returns how many are not over. */
static unsigned team_scan(struct team *team, int64_t now_ns, enum phase phase)
{
	unsigned unsettled = 0, left = 0;

	for (struct client *c = team->clients; c < team->clients + team->count; c++) {
		if (c->next_ns <= now_ns && c->state != OVER)
			client_acts(c, now_ns, phase);
		unsettled += !client_is_settled(c, phase);
		left += c->state != OVER;
	}
	atomic_store(&team->unsettled[phase], unsettled);
	return left;
}

static void *team_run(void *arg)
{
	struct team *team = arg;
	struct epoll_event events[256];
	int64_t now_ns = clock_ns(), scan_ns = 0, stopping_ns = 0;

	for (unsigned left = team->count; left > 0;) {
		int n = epoll_wait(team->epoll, events, 256, 1);
		enum phase phase = (enum phase)atomic_load(&team->crowd->phase);
		int64_t before_ns = now_ns;

		now_ns = clock_ns();
		if (now_ns - before_ns > team->stall_ns)
			team->stall_ns = now_ns - before_ns;
		for (int i = 0; i < n; i++)
			client_event(events[i].data.ptr);
		if (now_ns < scan_ns)
			continue;
		scan_ns = now_ns + MS;
		if (phase == STOPPING && stopping_ns == 0) {
			team_gives_up(team, QUIET);
			stopping_ns = now_ns;
		}
		left = team_scan(team, now_ns, phase);
		if (phase == STOPPING && now_ns > stopping_ns + GRACE_NS)
			team_gives_up(team, STOPPING);
	}
	for (int phase = BUSY; phase <= STOPPING; phase++)
		atomic_store(&team->unsettled[phase], 0);
	return NULL;
}

#endif /* DEMO_CLIENTS_H */
