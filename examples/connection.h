/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection of idle_server.c and its two timeouts: which thread owns what, and for how long.
 *
 * The problem
 *
 *   A timeout's task runs on the timer's worker thread.  At that moment the connection may be answering a message, or
 *   closing, on another thread.  A task that closes the descriptor may close a stranger's, for the kernel hands out a
 *   number again at once.  A task that finds the connection freed is worse.
 *
 * The rules
 *
 *   R1  A connection belongs to one I/O thread (a "loop").  Only that thread reads, writes, closes and frees it.
 *   R2  A task notes the time and posts the limit's letter to the loop, which does the rest.  That is short and never
 *       blocks, as a task should be.  Until the loop has the letter, only the task writes ran_ns.
 *   R3  The connection lives as long as it has references: one of the loop until it closes it, and one of each timeout.
 *       hwt_cancel returned 0: the task will never run, and its reference is ours again.
 *       hwt_cancel or hwt_reschedule returned EBUSY or ENOENT: the task has run or is running, and its reference comes
 *       with the letter.
 *       The timer was stopped: hwt_timer_next_unprocessed brings the reference.
 *       Each timeout ends in exactly one of these three ways: that is guarantee G1 of <hwt.h>.
 *   R4  References are given back anywhere, but memory is freed only where a loop has done with an event or a letter.
 *       So what closes a connection deep down leaves its callers something to look at: fd == -1.
 *
 *   By R1 and R2 the references are counted by one thread at a time, so the count need not be atomic.  Where any thread
 *   may close a connection it has to be, and a lock or the last reference must guard the descriptor; R3 stays as it is.
 *
 * A limit, as its loop sees it
 *
 *                  arm                   letter
 *        OFF ---------------> ARMED ---------------> EXPIRED, unless the peer was heard meanwhile: goodbye
 *         ^                   | | |
 *         +-- disarm: 0 ------+ | | disarm: EBUSY, ENOENT
 *         |                     | v       move
 *         +----- letter --------|CALLED_OFF ---------> POSTPONED -- letter --> ARMED
 *                               |           <---------    ^
 *                               |             disarm      |
 *                               +-- move: EBUSY, ENOENT --+          (move: 0 leaves it ARMED, with a later deadline)
 *
 *   CALLED_OFF and POSTPONED are for the message that crosses its own timeout.  The letter is under way and cannot be
 *   posted a second time, so a new timeout waits until it has arrived.  The peer has spoken and is not closed.
 */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hwt.h>

#include "histogram.h"
#include "mailbox.h"

#define LINE_MAX_BYTES 1024 /* a longer line closes the connection */
#define FAREWELL_BYTES 64
#define LINGER_NS HWT_S(1) /* for a peer that we have said goodbye to and that does not close */

/* Why connections end. */
enum reason { BY_PEER, BY_IDLE_TIMEOUT, BY_REQUEST_TIMEOUT, BY_LONG_LINE, BY_LACK_OF_MEMORY, BY_STOP, REASONS };

struct counters {
	uint64_t closed[REASONS];
	uint64_t lines;     /* answered */
	uint64_t set;       /* timeouts accepted by the timer; each of them ends in one of three ways: */
	uint64_t cancelled; /* hwt_cancel returned 0; */
	uint64_t returned;  /* hwt_timer_next_unprocessed reported it; */
			    /* it ran, and is counted in loop.lateness */
	uint64_t moved;     /* hwt_reschedule returned 0 */
	uint64_t crossed;   /* cancels and moves that came too late */
};

/* What all loops share.  The settings do not change while they run. */
struct server {
	hwt_timer *timer;
	int64_t idle_ns, request_ns;
	atomic_bool stop;
};

/* An I/O thread. */
struct loop {
	struct server *server;
	struct mailbox mailbox;
	struct connection *first; /* of its connections */
	struct counters counters;
	struct histogram lateness; /* of the timeouts that fired */
	int epoll;
	pthread_t thread;
};

struct limit {
	struct connection *connection;
	enum { OFF, ARMED, EXPIRED, CALLED_OFF, POSTPONED } state;
	hwt_timeout timeout;  /* while ARMED */
	int64_t deadline_ns;  /* of it */
	int64_t ran_ns;       /* when its task ran: written by the task */
	int64_t postponed_ns; /* the deadline to be, while POSTPONED */
	struct letter letter;
};

struct connection {
	struct loop *loop;
	struct connection *next, **link; /* link is what points to this one */
	unsigned references;
	int fd;               /* -1: closed */
	uint32_t watched;     /* epoll events */
	bool leaving;         /* we have said goodbye; what still comes is thrown away */
	struct limit idle;    /* nothing was received.  While leaving: lingering */
	struct limit request; /* a line began and has not ended */
	struct letter arrival;
	size_t in_used, out_sent, out_used;
	char in[LINE_MAX_BYTES];
	char out[LINE_MAX_BYTES + FAREWELL_BYTES]; /* no answer is longer than its line */
};

/* Each event and each letter ends with this call, after which the connection's memory may be gone: R4. */
static void connection_let_go(struct connection *c)
{
	if (c->references == 0)
		free(c);
}

/*
 * The task, on the worker: R2.  Once the letter is posted the limit is the loop's, which may arm or free it before
 * mailbox_post has returned.  So posting comes last.
 */
static void limit_passed(hwt_timeout timeout, void *arg)
{
	struct limit *limit = arg;

	(void)timeout;
	limit->ran_ns = hwt_now();
	mailbox_post(&limit->connection->loop->mailbox, &limit->letter);
}

static void connection_close(struct connection *c, enum reason reason);

static void limit_arm(struct limit *limit, int64_t deadline_ns)
{
	struct connection *c = limit->connection;

	if (limit->state == CALLED_OFF || limit->state == POSTPONED) {
		limit->state = POSTPONED;
		limit->postponed_ns = deadline_ns;
		return;
	}
	/*
	 * The task may start before the call has returned: all that it needs is written before.  We keep the deadline
	 * to measure the lateness.  A program that does not need it calls hwt_new_timeout with the delay.
	 */
	c->references++;
	limit->deadline_ns = deadline_ns;
	if (hwt_new_timeout_at(c->loop->server->timer, limit_passed, limit, deadline_ns, &limit->timeout) == 0) {
		limit->state = ARMED;
		c->loop->counters.set++;
		return;
	}
	c->references--;
	connection_close(c, BY_LACK_OF_MEMORY); /* rather than let it stay without a limit */
}

static void limit_disarm(struct limit *limit)
{
	struct counters *counters = &limit->connection->loop->counters;

	switch (limit->state) {
	case ARMED:
		if (hwt_cancel(limit->timeout) == 0) {
			limit->state = OFF;
			counters->cancelled++;
			limit->connection->references--;
		} else {
			limit->state = CALLED_OFF;
			counters->crossed++;
		}
		break;
	case POSTPONED:
		limit->state = CALLED_OFF;
		break;
	case EXPIRED:
		limit->state = OFF;
		break;
	case OFF:
	case CALLED_OFF:
		break;
	}
}

/*
 * A message puts the limit off.  The timeout stays the same one: a later deadline costs no queue operation.  If its
 * task has begun on the worker, the letter is under way.
 */
static void limit_move(struct limit *limit, int64_t deadline_ns)
{
	struct counters *counters = &limit->connection->loop->counters;

	if (limit->state != ARMED) {
		limit_disarm(limit);
		limit_arm(limit, deadline_ns);
	} else if (hwt_reschedule_at(limit->timeout, deadline_ns) == 0) {
		limit->deadline_ns = deadline_ns;
		counters->moved++;
	} else { /* EBUSY, ENOENT: a later deadline has no other error */
		limit->state = POSTPONED;
		limit->postponed_ns = deadline_ns;
		counters->crossed++;
	}
}

/* Ends the connection.  Closing takes the descriptor out of epoll.  Letters that are under way keep the memory. */
static void connection_close(struct connection *c, enum reason reason)
{
	if (c->fd < 0)
		return;
	if (!c->leaving) /* or it was counted at the goodbye */
		c->loop->counters.closed[reason]++;
	close(c->fd);
	c->fd = -1;
	*c->link = c->next;
	if (c->next != NULL)
		c->next->link = c->link;
	limit_disarm(&c->idle);
	limit_disarm(&c->request);
	c->references--;
}

/* Sends what is to be sent, as far as the peer takes it, and watches for what can be done next. */
static void connection_flush(struct connection *c)
{
	while (c->fd >= 0 && c->out_sent < c->out_used) {
		/* The peer may be gone: EPIPE shall be an error, not a signal. */
		ssize_t n = send(c->fd, c->out + c->out_sent, c->out_used - c->out_sent, MSG_NOSIGNAL);

		if (n >= 0)
			c->out_sent += (size_t)n;
		else if (errno == EAGAIN)
			break;
		else if (errno != EINTR)
			connection_close(c, BY_PEER);
	}
	if (c->fd < 0)
		return;

	bool blocked = c->out_sent < c->out_used;
	/*
	 * We do not read from a peer that does not take its answers: it needs no more room.  The idle timeout goes on.
	 */
	uint32_t watch = blocked ? EPOLLOUT : EPOLLIN;

	if (!blocked)
		c->out_sent = c->out_used = 0;
	if (c->leaving)
		watch |= EPOLLIN;
	if (c->leaving && !blocked)
		shutdown(c->fd, SHUT_WR); /* when called again, does nothing */
	if (watch != c->watched &&
	    epoll_ctl(c->loop->epoll, EPOLL_CTL_MOD, c->fd, &(struct epoll_event){ watch, { .ptr = c } }) != 0)
		connection_close(c, BY_LACK_OF_MEMORY);
	c->watched = watch;
}

/*
 * Tells the peer why, and closes only when it has closed, or a second later: a close with unread input would reset
 * the connection, and a reset can destroy the farewell on its way.
 */
static void connection_goodbye(struct connection *c, enum reason reason, const char *farewell)
{
	size_t length = strnlen(farewell, FAREWELL_BYTES);

	c->loop->counters.closed[reason]++;
	c->leaving = true;
	c->in_used = 0; /* recv needs room, also for what is thrown away */
	memcpy(c->out + c->out_used, farewell, length);
	c->out_used += length;
	limit_disarm(&c->request);
	limit_disarm(&c->idle);
	limit_arm(&c->idle, hwt_now() + LINGER_NS);
	connection_flush(c);
}

static bool is_ping(const char *line, size_t length)
{
	return (length == 5 && memcmp(line, "PING\n", 5) == 0) || (length == 6 && memcmp(line, "PING\r\n", 6) == 0);
}

/* Answers the complete lines in c->in and keeps what is left.  Returns how many there were. */
static unsigned connection_answer(struct connection *c)
{
	char *line = c->in, *end = c->in + c->in_used, *newline;
	unsigned lines = 0;

	while ((newline = memchr(line, '\n', (size_t)(end - line))) != NULL) {
		size_t length = (size_t)(newline + 1 - line);

		memcpy(c->out + c->out_used, line, length);
		if (is_ping(line, length))
			c->out[c->out_used + 1] = 'O';
		c->out_used += length;
		line += length;
		lines++;
	}
	c->in_used = (size_t)(end - line);
	memmove(c->in, line, c->in_used);
	c->loop->counters.lines += lines;
	return lines;
}

/* Reads once: epoll is level-triggered, what is left comes with the next round, after the other connections. */
static void connection_read(struct connection *c)
{
	if (c->fd < 0 || (c->out_used > 0 && !c->leaving))
		return;

	ssize_t n = recv(c->fd, c->in + c->in_used, sizeof(c->in) - c->in_used, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		connection_close(c, BY_PEER);
		return;
	}
	if (c->leaving)
		return;

	/* After recv: a deadline counted from an earlier reading of the clock could be too early for the peer. */
	int64_t now_ns = hwt_now();
	bool begun = c->in_used > 0;

	limit_move(&c->idle, now_ns + c->loop->server->idle_ns);
	if (c->fd < 0)
		return; /* there was no memory for it */
	c->in_used += (size_t)n;
	if (connection_answer(c) > 0) {
		limit_disarm(&c->request);
		begun = false;
	}
	/* A line that came in one piece is complete already and costs no timeout. */
	if (c->in_used > 0 && !begun)
		limit_arm(&c->request, now_ns + c->loop->server->request_ns);
	if (c->fd >= 0 && c->in_used == sizeof(c->in))
		connection_goodbye(c, BY_LONG_LINE, "line too long, closing\n");
	else
		connection_flush(c);
}

/* epoll has an event. */
static void connection_event(struct connection *c, uint32_t events)
{
	if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		connection_flush(c);
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		connection_read(c);
	connection_let_go(c);
}

/* A limit has passed, unless what waits in the socket says otherwise: this loop may be late, the peer was not. */
static void connection_expired(struct connection *c, struct limit *limit)
{
	if (c->leaving) {
		connection_close(c, BY_PEER);
		return;
	}
	connection_read(c);
	if (limit->state != EXPIRED)
		return; /* it was heard, or it is gone */
	if (limit == &c->idle)
		connection_goodbye(c, BY_IDLE_TIMEOUT, "idle timeout, closing\n");
	else
		connection_goodbye(c, BY_REQUEST_TIMEOUT, "request timeout, closing\n");
}

/* The letter of limit_passed has arrived, and with it the timeout's reference. */
static void limit_report(void *about)
{
	struct limit *limit = about;
	struct connection *c = limit->connection;

	histogram_add(&c->loop->lateness, limit->ran_ns - limit->deadline_ns);
	c->references--;
	if (limit->state == ARMED) {
		limit->state = EXPIRED;
		connection_expired(c, limit);
	} else if (limit->state == POSTPONED) {
		limit->state = OFF;
		limit_arm(limit, limit->postponed_ns);
	} else {
		limit->state = OFF;
	}
	connection_let_go(c);
}

/* The letter of connection_new has arrived. */
static void connection_arrive(void *about)
{
	struct connection *c = about;
	struct loop *loop = c->loop;

	c->next = loop->first;
	if (c->next != NULL)
		c->next->link = &c->next;
	c->link = &loop->first;
	loop->first = c;
	c->watched = EPOLLIN;
	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, c->fd, &(struct epoll_event){ EPOLLIN, { .ptr = c } }) == 0)
		limit_arm(&c->idle, hwt_now() + loop->server->idle_ns);
	else
		connection_close(c, BY_LACK_OF_MEMORY);
	connection_let_go(c);
}

/* Makes a connection and hands it over to its loop.  Any thread.  Returns false without memory: fd is the caller's. */
static bool connection_new(struct loop *loop, int fd)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return false;
	c->loop = loop;
	c->fd = fd;
	c->references = 1; /* the loop's */
	c->idle.connection = c->request.connection = c;
	c->idle.letter = (struct letter){ NULL, limit_report, &c->idle };
	c->request.letter = (struct letter){ NULL, limit_report, &c->request };
	c->arrival = (struct letter){ NULL, connection_arrive, c };
	mailbox_post(&loop->mailbox, &c->arrival);
	return true;
}

#endif /* CONNECTION_H */
