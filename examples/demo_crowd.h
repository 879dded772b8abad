/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The crowd that demo.c sends to idle_server: thousands of clients, each with a role, and each judged at its end.
 *
 *     talker     a message every few hundred ms, to the end.  Must never be closed
 *     silent     talks, and falls silent at a random moment.  Must be closed by the idle timeout
 *     dribbler   talks, then sends a byte now and then of a line that never ends, as a slow-loris attack does: the idle
 *                timeout never strikes.  Must be closed by the request timeout
 *     leaver     talks, and leaves
 *
 * Judging   is done by the client's clock alone, without libhwt and without asking the server.  CLOCK_MONOTONIC is the
 *           same in all processes: a client reads it, then sends, and the server's timeout starts after that.  So
 *           a client that is closed sooner than the timeout after this reading was closed early.  Late is less clear
 *           on a busy machine: it takes seconds to be wrong, and a client that was itself kept from speaking for as
 *           long as the idle timeout was rightly closed.  It is counted as held up.
 */
#ifndef DEMO_CROWD_H
#define DEMO_CROWD_H

#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"

#define MS INT64_C(1000000)
#define IDLE_NS (2000 * MS)
#define REQUEST_NS (3000 * MS)
#define ARRIVE_NS (1500 * MS) /* all have come; then, at the latest: */
#define DRIBBLE_NS (4000 * MS)
#define SILENT_NS (5000 * MS)
#define LEAVE_NS (7000 * MS)
#define QUIET_NS (8000 * MS) /* everybody waits for what is still to come */
#define GRACE_NS (60000 * MS) /* what is not done so much later hangs, on the busiest machine */
#define WRONGS_KEPT 8

enum role { TALKER, SILENT, DRIBBLER, LEAVER, ROLES };
enum farewell { NO_FAREWELL, IDLE_FAREWELL, REQUEST_FAREWELL, FAREWELLS };
enum phase { BUSY, QUIET, STOPPING }; /* of the crowd */

struct crowd {
	struct sockaddr_in server;
	int64_t start_ns;
	unsigned total[ROLES];
	atomic_int phase;
	atomic_uint open, replies, ended[ROLES]; /* to show how it goes */
	/* What went wrong, in all and with clients.  Drawing a number is the right to write it; read at the end. */
	atomic_uint wrongs[2];
	char wrong[2][WRONGS_KEPT][160];
};

struct client {
	struct team *team;
	unsigned id;
	enum role role;
	enum { ABSENT, CONNECTING, OPEN, LEAVING, OVER } state;
	enum farewell farewell;
	bool turned;              /* it has done so, see turn_ns */
	bool within;              /* a message is sent, but for its second half */
	int fd;
	int64_t next_ns;          /* when it does something next */
	int64_t turn_ns;          /* when it falls silent, begins to dribble, leaves */
	int64_t sent_ns, line_ns; /* read before the last byte, and the first of the unfinished line, was sent */
	int64_t heard_ns;         /* read after the last byte was received */
	int64_t gap_ns;           /* the longest that it was silent against its intention */
	unsigned sent, received;  /* messages and replies */
	size_t in_used;
	char in[128];
};

struct team {
	struct crowd *crowd;
	struct client *clients;
	unsigned count;
	uint64_t random;
	int epoll;
	pthread_t thread;
	int64_t stall_ns;                                            /* the longest that it was kept from running */
	atomic_uint unsettled[STOPPING + 1];                         /* clients that main waits for in each phase */
	unsigned right[ROLES], held_up[ROLES], farewells[FAREWELLS]; /* outcomes */
	struct histogram late[ROLES];                                /* how long after it was due a close was heard */
	unsigned slow, sent, received;                               /* summed up by main in the end */
};

static int64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 * MS + now.tv_nsec;
}

static const char *const role_names[ROLES] = { "talker", "silent", "dribbler", "leaver" };

/* Something went wrong: with a client, or (NULL) altogether. */
__attribute__((format(printf, 3, 4)))
static void wrong(struct crowd *crowd, const struct client *c, const char *format, ...)
{
	unsigned index = atomic_fetch_add(&crowd->wrongs[c != NULL], 1);
	size_t size = sizeof(crowd->wrong[0][0]), used = 0;
	char *text;
	va_list args;

	if (index >= WRONGS_KEPT)
		return;
	text = crowd->wrong[c != NULL][index];
	if (c != NULL)
		used = (size_t)snprintf(text, size, "%s %u: ", role_names[c->role], c->id);
	va_start(args, format);
	vsnprintf(text + used, size - used, format, args);
	va_end(args);
}

static void client_over(struct client *c)
{
	if (c->state != ABSENT) {
		close(c->fd);
		atomic_fetch_sub(&c->team->crowd->open, 1);
	}
	c->state = OVER;
	atomic_fetch_add(&c->team->crowd->ended[c->role], 1);
}

/* Was it silent for so long that its message may have crossed the server's farewell? */
static bool client_is_slow(const struct client *c)
{
	return c->gap_ns >= IDLE_NS * 3 / 4;
}

static void client_note_gap(struct client *c, int64_t now_ns)
{
	if (now_ns - c->sent_ns > c->gap_ns)
		c->gap_ns = now_ns - c->sent_ns;
}

/* A timeout struck, started_ns being the earliest that it can have been counted from. */
static void client_timed_out(struct client *c, int64_t started_ns, int64_t timeout_ns, const char *name)
{
	struct crowd *crowd = c->team->crowd;
	int64_t late_ns = c->heard_ns - started_ns - timeout_ns;
	bool expected = c->turned && c->role == (c->farewell == IDLE_FAREWELL ? SILENT : DRIBBLER);
	bool held_up = client_is_slow(c) || (late_ns >= 0 && !expected);

	if (expected)
		histogram_add(&c->team->late[c->role], late_ns);
	if (expected && late_ns >= 0 && late_ns <= GRACE_NS + c->team->stall_ns && c->received == c->sent)
		c->team->right[c->role]++;
	else if (c->farewell == IDLE_FAREWELL && held_up)
		c->team->held_up[c->role]++;
	else if (late_ns < 0)
		wrong(crowd, c, "closed by the %s timeout %.3f ms too early", name, (double)-late_ns / 1e6);
	else if (!expected)
		wrong(crowd, c, "closed by the %s timeout", name);
	else if (c->received != c->sent)
		wrong(crowd, c, "closed with %u of %u replies", c->received, c->sent);
	else
		wrong(crowd, c, "closed %.1f s after its %s timeout was due", (double)late_ns / 1e9, name);
}

/* The server has closed.  Was that right? */
static void client_judge(struct client *c)
{
	struct crowd *crowd = c->team->crowd;

	c->team->farewells[c->farewell]++;
	if (c->in_used > 0)
		wrong(crowd, c, "closed within a line");
	if (c->farewell == IDLE_FAREWELL)
		client_timed_out(c, c->sent_ns, IDLE_NS, "idle");
	else if (c->farewell == REQUEST_FAREWELL)
		client_timed_out(c, c->line_ns, REQUEST_NS, "request");
	else if (c->state == LEAVING || (c->role == TALKER && atomic_load(&crowd->phase) == STOPPING))
		c->team->right[c->role]++;
	else
		wrong(crowd, c, "closed without a word after %u messages", c->sent);
	client_over(c);
}

#endif /* DEMO_CROWD_H */
