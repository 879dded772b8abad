/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timer in an epoll loop, without a thread: prints each line of its input later.
 *
 *     $ printf '300 third\n100 first\n200 second\n' | build/examples/epoll
 *     first
 *     second
 *     third
 *
 * "MILLISECONDS TEXT" a line.  Ends when the input has ended and nothing is pending.
 *
 * hwt_timer_advance runs tasks in this thread, so they need no locks against what the loop does.
 */
#include <hwt.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

static void fail(const char *what, int error)
{
	fprintf(stderr, "epoll: %s: %s\n", what, strerror(error));
	exit(1);
}

static void print_line(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	puts(arg);
	free(arg);
}

static void take_line(hwt_timer *timer, int64_t now_ns, const char *line)
{
	char *text, *copy;
	intmax_t delay_ms;
	int rc;

	errno = 0;
	delay_ms = strtoimax(line, &text, 10);
	if (text == line || *text != ' ' || errno != 0 || delay_ms < 0 || delay_ms > INT64_MAX / 2000000) {
		fprintf(stderr, "epoll: not \"MILLISECONDS TEXT\": %s\n", line);
		return;
	}
	copy = strdup(text + 1);
	rc = copy ? hwt_new_timeout_at(timer, print_line, copy, now_ns + HWT_MS(delay_ms), NULL) : ENOMEM;
	if (rc != 0)
		fail("schedule", rc);
}

/* The lines that are there.  false at the end of the input. */
static bool take_input(hwt_timer *timer)
{
	static char buffer[LINE_MAX_BYTES + 1];
	static size_t used;
	ssize_t n = read(STDIN_FILENO, buffer + used, LINE_MAX_BYTES - used);
	char *line = buffer, *end;
	int64_t now_ns = hwt_now(); /* of all lines that have come together: so they stay in order */

	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0)
		fail("read", errno);
	used += (size_t)n;
	while ((end = memchr(line, '\n', used - (size_t)(line - buffer))) != NULL) {
		*end = '\0';
		take_line(timer, now_ns, line);
		line = end + 1;
	}
	used -= (size_t)(line - buffer);
	memmove(buffer, line, used);
	if (used == LINE_MAX_BYTES || (n == 0 && used > 0)) { /* too long, or without an end: as it is */
		buffer[used] = '\0';
		take_line(timer, now_ns, buffer);
		used = 0;
	}
	return n > 0;
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data = { .fd = fd } };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		fail("epoll_ctl (input must be a pipe or a terminal)", errno);
}

static void loop(hwt_timer *timer, int timer_fd)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	bool input = true;

	if (epoll < 0)
		fail("epoll_create1", errno);
	watch(epoll, STDIN_FILENO);
	watch(epoll, timer_fd);
	while (input || hwt_pending_timeouts(timer) > 0) {
		struct epoll_event event;
		int rc, n = epoll_wait(epoll, &event, 1, -1);

		if (n < 0 && errno != EINTR)
			fail("epoll_wait", errno);
		if (n == 1 && event.data.fd == STDIN_FILENO) {
			input = take_input(timer);
			if (!input)
				epoll_ctl(epoll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
		} else if (n == 1) {
			rc = hwt_timer_advance(timer, hwt_now(), NULL);
			if (rc != 0)
				fail("advance", rc);
		}
	}
	close(epoll);
}

int main(void)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer;
	int timer_fd = -1, rc;

	config.flags = HWT_CALLER_DRIVEN;
	config.tick_duration_ns = HWT_MS(1);
	rc = hwt_timer_create(&timer, &config);
	if (rc == 0)
		rc = hwt_timer_fd(timer, &timer_fd);
	if (rc != 0)
		fail("timer", rc);
	setvbuf(stdout, NULL, _IOLBF, 0);
	loop(timer, timer_fd);
	rc = hwt_timer_destroy(timer);
	return rc == 0 ? 0 : 1;
}
