/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timer in a libuv loop, without a thread: prints each of its arguments after as many milliseconds.
 *
 *     $ build/examples/libuv 30 10 20
 *     10
 *     20
 *     30
 *
 * The timer's descriptor is one uv_poll_t; tasks run in the loop's thread.  Any other thread may schedule: it need not
 * go through uv_async_send.
 */
#include <hwt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct program {
	hwt_timer *timer;
	uv_poll_t poll;
};

static void check(const char *what, int rc, const char *(*say)(int))
{
	if (rc == 0)
		return;
	fprintf(stderr, "libuv: %s: %s\n", what, say(rc));
	exit(1);
}

static const char *say_errno(int rc)
{
	return strerror(rc);
}

static void print_argument(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	puts(arg);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct program *program = poll->data;

	(void)events;
	check("poll", status, uv_strerror);
	check("advance", hwt_timer_advance(program->timer, hwt_now(), NULL), say_errno);
	if (hwt_pending_timeouts(program->timer) == 0) /* and so the loop comes to its end */
		check("poll stop", uv_poll_stop(poll), uv_strerror);
}

int main(int argc, char **argv)
{
	hwt_config config = HWT_CONFIG_INIT;
	struct program program;
	int64_t now_ns = hwt_now(); /* one for all: so they come in order, however long this takes */
	int fd;

	config.flags = HWT_CALLER_DRIVEN;
	config.tick_duration_ns = HWT_MS(1);
	check("timer", hwt_timer_create(&program.timer, &config), say_errno);
	check("timer", hwt_timer_fd(program.timer, &fd), say_errno);
	check("poll init", uv_poll_init(uv_default_loop(), &program.poll, fd), uv_strerror);
	program.poll.data = &program;
	check("poll start", uv_poll_start(&program.poll, UV_READABLE, on_readable), uv_strerror);
	for (int i = 1; i < argc; i++)
		check("schedule",
		      hwt_new_timeout_at(program.timer, print_argument, argv[i], now_ns + HWT_MS(atoi(argv[i])), NULL),
		      say_errno);
	uv_run(uv_default_loop(), UV_RUN_DEFAULT);
	uv_close((uv_handle_t *)&program.poll, NULL);
	uv_run(uv_default_loop(), UV_RUN_DEFAULT);
	check("loop", uv_loop_close(uv_default_loop()), uv_strerror);
	return hwt_timer_destroy(program.timer) == 0 ? 0 : 1;
}
